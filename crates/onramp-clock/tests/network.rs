//! The network effect on meshes whose truth is known.

mod common;

use common::{Clock, Random, Stamps, World};
use onramp_clock::{Correction, Edge, EdgeFit, FitOptions, HostId, NetworkOptions, Solution, fit, mesh, solve};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A host's clock: what it reads at a common instant, and its rate.
#[derive(Clone, Copy, Debug)]
struct Truth {
    reading: i64,
    drift: f64,
}

fn truths(hosts: &[HostId], random: &mut Random, years: f64) -> BTreeMap<HostId, Truth> {
    let truth = |random: &mut Random| Truth {
        reading: 1_700_000_000_000_000_000 + (years * 3e16 * random.either()) as i64,
        drift: 30e-6 * random.either(),
    };
    hosts.iter().map(|&h| (h, truth(random))).collect()
}

/// Fit of `from`, `late` nanoseconds of its clock after the instant, with an error in `sigma`s.
fn edge(from: (HostId, Truth), to: (HostId, Truth), late: i64, sigma: f64, error: f64) -> Edge {
    let drift = (1.0 + to.1.drift) / (1.0 + from.1.drift) - 1.0;
    let offset = to.1.reading - from.1.reading + (drift * late as f64 + sigma * error).round() as i64;
    let fit = EdgeFit {
        base: (from.1.reading + late) as u64,
        offset,
        drift,
        delay: 10_000.0,
        residual: sigma,
        sigma,
        drift_sigma: sigma * 1e-10,
        noise: 0.0,
        queue: 0.0,
        points: 400,
        seen: 500,
    };
    Edge { from: from.0, to: to.0, fit }
}

fn edges(pairs: &[(HostId, HostId)], truths: &BTreeMap<HostId, Truth>, random: &mut Random, sigma: f64) -> Vec<Edge> {
    pairs
        .iter()
        .map(|&(a, b)| {
            let late = (1e9 * random.either()) as i64;
            edge((a, truths[&a]), (b, truths[&b]), late, sigma, if sigma > 1.0 { random.normal() } else { 0.0 })
        })
        .collect()
}

/// The fleet's time at the instant, per host.
fn fleet_times(solution: &Solution, truths: &BTreeMap<HostId, Truth>) -> BTreeMap<HostId, i64> {
    solution.hosts.iter().map(|(h, c, _)| (*h, c.to_fleet(truths[h].reading as u64))).collect()
}

fn spread(times: &BTreeMap<HostId, i64>) -> i64 {
    times.values().max().unwrap_or(&0) - times.values().min().unwrap_or(&0)
}

fn fleet(seed: u64, count: u32, k: usize, years: f64) -> (Random, BTreeMap<HostId, Truth>, Vec<(HostId, HostId)>) {
    let mut random = Random(seed);
    let hosts: Vec<HostId> = (0..count).map(|i| 3 + 7 * i).collect();
    let truths = truths(&hosts, &mut random, years);
    (random, truths, mesh::edges(&hosts, k, seed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn exact_edges_are_solved_exactly(seed: u64, count in 2..60_u32, k in 1..11_usize, tree: bool) {
        let (mut random, truths, pairs) = fleet(seed, count, k, 10.0);
        let edges = edges(&pairs, &truths, &mut random, 1.0);
        let options = NetworkOptions { network_effect: !tree, ..NetworkOptions::default() };
        let solution = solve(&edges, &BTreeMap::new(), &options);
        prop_assert_eq!(solution.hosts.len(), truths.len());
        prop_assert_eq!(solution.parts.len(), 1);
        // Offsets are whole: each step of a path rounds once, averaging removes most of it.
        let exact = if tree || k < 4 { i64::from(count) } else { 3 };
        let times = fleet_times(&solution, &truths);
        prop_assert!(spread(&times) <= exact, "{:?}", times);
        // Drifts compose: a minute later the hosts still agree.
        let later = |t: &Truth| (t.reading + ((1.0 + t.drift) * 60e9) as i64) as u64;
        let times: BTreeMap<HostId, i64> =
            solution.hosts.iter().map(|(h, c, _)| (*h, c.to_fleet(later(&truths[h])))).collect();
        prop_assert!(spread(&times) <= exact + 3, "{:?}", times);
        // The lowest host's clock is the time.
        prop_assert_eq!(solution.hosts[0].1.offset, 0);
        prop_assert_eq!(solution.hosts[0].1.drift, 0.0);
    }

    #[test]
    fn clocks_around_their_zero_are_solved_like_all_others(seed: u64, count in 2..40_u32) {
        let (mut random, mut truths, pairs) = fleet(seed, count, 10, 0.0);
        // Within an hour of it: most fits have a base before it, or lead there.
        truths.values_mut().for_each(|t| t.reading = (3.6e12 * random.either()) as i64);
        let solution = solve(&edges(&pairs, &truths, &mut random, 1.0), &BTreeMap::new(), &NetworkOptions::default());
        prop_assert_eq!(solution.hosts.len(), truths.len());
        prop_assert!(spread(&fleet_times(&solution, &truths)) <= 3);
    }

    #[test]
    fn the_order_of_edges_and_repeated_edges_change_nothing(seed: u64, count in 2..40_u32) {
        let (mut random, truths, pairs) = fleet(seed, count, 4, 1.0);
        let mut edges = edges(&pairs, &truths, &mut random, 50.0);
        let one = solve(&edges, &BTreeMap::new(), &NetworkOptions::default());
        for i in (1..edges.len()).rev() {
            edges.swap(i, (random.next() % (i as u64 + 1)) as usize);
        }
        edges.extend_from_within(..edges.len() / 2);
        edges.push(Edge { to: edges[0].from, ..edges[0] });
        prop_assert_eq!(one, solve(&edges, &BTreeMap::new(), &NetworkOptions::default()));
    }

    #[test]
    fn a_lying_host_is_suspected_and_moves_no_other(seed: u64, count in 8..60_u32, lie in prop_oneof![Just(5e3), Just(1e9), Just(1e17)]) {
        let (mut random, truths, pairs) = fleet(seed, count, 10, 1.0);
        let mut edges = edges(&pairs, &truths, &mut random, 50.0);
        let honest = fleet_times(&solve(&edges, &BTreeMap::new(), &NetworkOptions::default()), &truths);
        let liar = *truths.keys().nth((seed % u64::from(count)) as usize).expect("in range");
        for edge in edges.iter_mut().filter(|e| e.from == liar || e.to == liar) {
            edge.fit.offset += (lie * random.either()) as i64;
            edge.fit.sigma = 0.0;
        }
        let solution = solve(&edges, &BTreeMap::new(), &NetworkOptions::default());
        prop_assert_eq!(&solution.suspects, &vec![liar]);
        let times = fleet_times(&solution, &truths);
        prop_assert_eq!(times.len(), truths.len() - 1);
        // As without the liar's edges at most: its degree is about a fifth of a small fleet's.
        let moved: Vec<i64> = times.iter().map(|(h, t)| t - honest[h]).collect();
        let first = moved[0];
        prop_assert!(moved.iter().all(|m| (m - first).abs() < 60), "{:?}", moved);
    }

    #[test]
    fn parts_without_a_connection_each_have_their_own_time(seed: u64, left in 2..20_u32, right in 2..20_u32) {
        let mut random = Random(seed);
        let hosts: Vec<HostId> = (0..left + right).collect();
        let truths = truths(&hosts, &mut random, 1.0);
        let (one, other) = hosts.split_at(left as usize);
        let mut pairs = mesh::edges(one, 3, seed);
        pairs.extend(mesh::edges(other, 3, seed));
        let solution = solve(&edges(&pairs, &truths, &mut random, 1.0), &BTreeMap::new(), &NetworkOptions::default());
        prop_assert_eq!(&solution.parts, &vec![one.to_vec(), other.to_vec()]);
        for (host, correction, part) in &solution.hosts {
            prop_assert_eq!(*part, u32::from(*host >= left));
            if *host == 0 || *host == left {
                prop_assert_eq!(correction.offset, 0);
            }
        }
    }

    #[test]
    fn fleet_time_continues_when_hosts_come_and_go(seed: u64, count in 4..40_u32, lost in 1..3_usize) {
        let (mut random, truths, pairs) = fleet(seed, count, 10, 1.0);
        let first = solve(&edges(&pairs, &truths, &mut random, 50.0), &BTreeMap::new(), &NetworkOptions::default());
        let previous: BTreeMap<HostId, Correction> = first.hosts.iter().map(|(h, c, _)| (*h, *c)).collect();
        // The reference is among those lost.
        let left: Vec<HostId> = truths.keys().copied().skip(lost).collect();
        let pairs = mesh::edges(&left, 10, seed);
        let second = solve(&edges(&pairs, &truths, &mut random, 50.0), &previous, &NetworkOptions::default());
        let (before, after) = (fleet_times(&first, &truths), fleet_times(&second, &truths));
        let mut changes: Vec<i64> = after.iter().map(|(h, t)| t - before[h]).collect();
        changes.sort_unstable();
        let (lower, upper) = (changes[(changes.len() - 1) / 2], changes[changes.len() / 2]);
        prop_assert!(lower <= 1 && upper >= -1, "{:?}", changes);
        prop_assert!(changes.iter().all(|c| c.abs() < 400), "{:?}", changes);
    }

    #[test]
    fn any_numbers_are_survived(raw in prop::collection::vec((0..6_u32, 0..6_u32, any::<u64>(), any::<i64>(), any::<f64>(), any::<f64>(), any::<f64>()), 0..30)) {
        let edges: Vec<Edge> = raw
            .iter()
            .map(|&(from, to, base, offset, drift, sigma, drift_sigma)| {
                let fit = EdgeFit { base, offset, drift, delay: 0.0, residual: 0.0, sigma, drift_sigma, noise: 0.0, queue: 0.0, points: 0, seen: 0 };
                Edge { from, to, fit }
            })
            .collect();
        let solution = solve(&edges, &BTreeMap::new(), &NetworkOptions::default());
        prop_assert!(solution.hosts.len() <= 6);
    }
}

#[test]
fn two_hosts_share_the_edges_own_error() {
    let (mut random, truths, pairs) = fleet(1, 2, 10, 1.0);
    let solution = solve(&edges(&pairs, &truths, &mut random, 100.0), &BTreeMap::new(), &NetworkOptions::default());
    let both = solution.hosts.iter().map(|h| h.1.sigma.powi(2)).sum::<f64>();
    // A nanosecond each is what clocks are read to.
    assert!(((both - 2.0).sqrt() - 100.0).abs() < 1e-6, "{both}");
}

#[test]
fn the_fleets_time_keeps_its_rate_over_many_rounds() {
    // Two hosts, 20 ppm apart, that know it to 1 ppm in each round of two seconds.
    let (mut random, rounds, doubt) = (Random(3), 2000_u64, 1e-6);
    let fast = 20e-6;
    let mut previous = BTreeMap::new();
    let mut rates = Vec::new();
    for round in 1..=rounds {
        let base = 1_700_000_000_000_000_000 + round * 2_000_000_000_u64;
        let apart = (fast * (round * 2_000_000_000) as f64).round() as i64;
        let fit = EdgeFit {
            base,
            offset: apart + (100.0 * random.normal()).round() as i64,
            drift: fast + doubt * random.normal(),
            delay: 10_000.0,
            residual: 100.0,
            sigma: 100.0,
            drift_sigma: doubt,
            noise: 0.0,
            queue: 0.0,
            points: 400,
            seen: 500,
        };
        let solution = solve(&[Edge { from: 0, to: 1, fit }], &previous, &NetworkOptions::default());
        previous = solution.hosts.iter().map(|(h, c, _)| (*h, *c)).collect();
        rates.push(solution.hosts.iter().map(|(_, c, _)| c.drift).sum::<f64>() / 2.0);
    }
    // The errors of the rounds add up as they are, at random: not all in one direction.
    let gained = rates[rates.len() - 1] - rates[0];
    assert!(gained.abs() < 3.0 * doubt * (rounds as f64).sqrt(), "{:.1} ppm", 1e6 * gained);
}

#[test]
fn no_edges_have_no_hosts() {
    assert_eq!(solve(&[], &BTreeMap::new(), &NetworkOptions::default()), Solution::default());
}

#[test]
fn averaging_divides_the_error_and_says_by_how_much() {
    let (mut within, mut hosts) = (0, 0);
    let (mut averaged, mut along) = (0.0, 0.0);
    for seed in 0..20 {
        let (mut random, truths, pairs) = fleet(seed, 60, 10, 1.0);
        let edges = edges(&pairs, &truths, &mut random, 100.0);
        for network_effect in [true, false] {
            let options = NetworkOptions { network_effect, ..NetworkOptions::default() };
            let solution = solve(&edges, &BTreeMap::new(), &options);
            let times = fleet_times(&solution, &truths);
            let first = *times.values().next().expect("all hosts are solved");
            let times: BTreeMap<HostId, f64> = times.iter().map(|(h, t)| (*h, (t - first) as f64)).collect();
            let mean = times.values().sum::<f64>() / times.len() as f64;
            let squares: f64 = times.values().map(|t| (t - mean).powi(2)).sum();
            if !network_effect {
                along += squares;
                continue;
            }
            averaged += squares;
            assert!((solution.edge_sigma / 100.0 - 1.0).abs() < 0.15, "{}", solution.edge_sigma);
            hosts += times.len();
            within += solution.hosts.iter().filter(|h| (times[&h.0] - mean).abs() < 2.0 * h.1.sigma).count();
        }
    }
    // Facts: an edge of a mesh with K = 10 keeps 0.32 of its error, a host 0.32 / sqrt(2).
    let host = (averaged / hosts as f64).sqrt();
    assert!((20.0..26.0).contains(&host), "{host}");
    assert!(along > 4.0 * averaged);
    assert!((0.93..0.98).contains(&(within as f64 / hosts as f64)), "{within} of {hosts}");
}

#[test]
fn a_clock_that_steps_in_the_window_is_suspected() {
    let mut random = Random(4);
    let hosts: Vec<HostId> = (0..12).collect();
    let clocks: Vec<Clock> = hosts.iter().map(|_| Clock::random(&mut random, 1e17, 30e-6)).collect();
    let stepped = 5;
    // A millisecond forward, a second into the window.
    let late = clocks[stepped as usize].read(1e9);
    let step = |t: &mut u64| *t += if *t >= late { 1_000_000 } else { 0 };
    let edges: Vec<Edge> = mesh::edges(&hosts, 10, 4)
        .into_iter()
        .filter_map(|(from, to)| {
            let of = |host: HostId| (host, clocks[host as usize]);
            let mut exchanges = World::new(Stamps::Hardware, 0.0, 4).exchanges(of(from), of(to), 0.0);
            for e in &mut exchanges {
                if from == stepped {
                    [&mut e.sent, &mut e.came_back].into_iter().for_each(step);
                } else if to == stepped {
                    [&mut e.received, &mut e.returned].into_iter().for_each(step);
                }
            }
            Some(Edge { from, to, fit: fit(&exchanges, &FitOptions::default())? })
        })
        .collect();
    let solution = solve(&edges, &BTreeMap::new(), &NetworkOptions::default());
    // Either its edges could not be fitted, or it got no correction for what they say.
    let times: BTreeMap<HostId, i64> = solution
        .hosts
        .iter()
        .map(|(host, correction, _)| (*host, correction.to_fleet(clocks[*host as usize].read(1e9))))
        .collect();
    assert!(!times.contains_key(&stepped), "{:?}", solution.suspects);
    assert_eq!(times.len(), 11);
    assert!(spread(&times) <= 4, "{times:?}");
}

#[test]
fn a_host_whose_every_way_queues_keeps_its_time_and_moves_no_other() {
    let mut random = Random(5);
    let hosts: Vec<HostId> = (0..8).collect();
    let truths = truths(&hosts, &mut random, 1.0);
    let pairs = mesh::edges(&hosts, 7, 5);
    let mut edges = edges(&pairs, &truths, &mut random, 2.0);
    let before: BTreeMap<HostId, Correction> =
        solve(&edges, &BTreeMap::new(), &NetworkOptions::default()).hosts.iter().map(|h| (h.0, h.1)).collect();
    let busy = 3;
    for (i, edge) in edges.iter_mut().enumerate().filter(|(_, e)| e.from == busy || e.to == busy) {
        // What comes to it waits, here in a queue that the fits took for the way.
        let queue = 20_000.0 + 10_000.0 * (i % 7) as f64;
        edge.fit.queue = queue;
        edge.fit.offset += if edge.to == busy { queue as i64 } else { -queue as i64 };
    }
    let alone = solve(&edges, &BTreeMap::new(), &NetworkOptions::default());
    assert!(alone.suspects.is_empty() && alone.excluded.is_empty(), "{:?}", alone.excluded);
    let sigma = alone.hosts.iter().find(|h| h.0 == busy).unwrap().1.sigma;
    assert!(sigma >= 20_000.0, "it is off by that: {sigma}");
    let mut others = fleet_times(&alone, &truths);
    others.remove(&busy);
    assert!(spread(&others) < 20, "{others:?}");
    let known = solve(&edges, &before, &NetworkOptions::default());
    assert!(spread(&fleet_times(&known, &truths)) < 20, "{known:?}");
}
