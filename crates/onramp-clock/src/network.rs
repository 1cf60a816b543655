//! The network effect: offsets around a loop must add up to zero.
//!
//! The edges' offsets are brought to one instant along a tree, in integers. What
//! the loops then lack is small, and weighted least squares over the hosts
//! spreads it: the same as Huygens' minimum-norm correction of the loop
//! surpluses. Rates compose as logarithms and are solved first, so that each
//! edge's offset is taken from its own epoch to that instant by the fleet's
//! rates and not by its own. Edges that disagree count less; hosts most of whose
//! edges disagree are left out.

use crate::graph::{Graph, median};
use crate::{Correction, EdgeFit, HostId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

/// Fit of `from` about `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The prober, A of the fit.
    pub from: HostId,
    /// The probed, B of the fit.
    pub to: HostId,
    /// B's clock as A saw it.
    pub fit: EdgeFit,
}

/// How [`solve`] works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkOptions {
    /// Average over loops. Without, each host's offset is the sum along one
    /// path from the reference. Default true.
    pub network_effect: bool,
    /// Allowance for clocks that change their frequency, in seconds per second,
    /// per second. Default 2e-9.
    pub wander: f64,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self { network_effect: true, wander: 2e-9 }
    }
}

/// Standard deviation of one stamp's noise, in nanoseconds: the median of what the edges show.
#[must_use]
pub fn noise(edges: &[Edge]) -> f64 {
    median(&edges.iter().map(|edge| edge.fit.noise).collect::<Vec<_>>())
}

/// The fleet's time, as corrections of its hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solution {
    /// Host, its correction, and the number of its part; sorted by host.
    pub hosts: Vec<(HostId, Correction, u32)>,
    /// Hosts that edges connect. Times of different parts do not compare.
    pub parts: Vec<Vec<HostId>>,
    /// Edges left out, and by how many nanoseconds each disagrees.
    pub excluded: Vec<(HostId, HostId, f64)>,
    /// Hosts whose edges disagree with all others: their stamps are wrong, or
    /// their clock stepped. They get no correction.
    pub suspects: Vec<HostId>,
    /// Standard deviation of an edge's offset, as the loops show it, in nanoseconds.
    pub edge_sigma: f64,
}

/// Constant lateness of a host's stamps in one direction beyond that in the other, in multiples of their
/// noise; a nanosecond at least. No probe can show it.
const ALWAYS: f64 = 2.0;

/// An edge disagrees if its surplus is this many standard deviations.
const DISAGREES: f64 = 6.0;

/// No edge counts as better than this fraction of the median error: whoever
/// claims to be exact would move all others.
const BOLDEST: f64 = 0.5;

/// No two clocks drift apart faster, in seconds per second.
const STEEPEST: f64 = 0.01;

/// An edge this many times worse than the boldest says nothing anyway.
const VAGUEST: f64 = 1e6;

/// If a potential is beyond this, in nanoseconds, the tree led over a wrong
/// offset: drifts were taken over a wrong time, and fractions lost. All is
/// solved again from the corrected readings.
const ASTRAY: f64 = 1e4;

/// Times that is done at most. Each takes an error by the drifts' size down: from
/// years to nothing in five.
const ROUNDS: usize = 8;

/// Solves the mesh of `edges` for the clocks of its hosts, in any order of
/// edges. Of several fits from one host to another the most accurate counts;
/// edges from a host to itself and fits that cannot be are left out.
///
/// `previous` are the corrections in force: the new fleet time continues the
/// old, so that the median change of the hosts known before is zero, and losing
/// any host changes nothing; and each host's new correction is weighed with what
/// its previous one foretells. In a part without a host known before, the lowest
/// host is the reference: its clock is the time.
#[must_use]
pub fn solve(edges: &[Edge], previous: &BTreeMap<HostId, Correction>, options: &NetworkOptions) -> Solution {
    let mesh = Mesh::new(tidy(edges));
    if !options.network_effect {
        let edge_sigma = median(&mesh.sigmas);
        let places = mesh.tree();
        return mesh.corrections(places, previous, options, edge_sigma);
    }
    let Average { places, surplus, sigmas, edge_sigma } = mesh.average();
    let Dissent { suspects, excluded, queued } = mesh.dissent(&surplus, &sigmas);
    if suspects.is_empty() && excluded.is_empty() && queued.is_empty() {
        return mesh.corrections(places, previous, options, edge_sigma);
    }
    let left_out: Vec<(HostId, HostId, f64)> =
        excluded.iter().map(|&e| (mesh.edges[e].from, mesh.edges[e].to, surplus[e])).collect();
    let trusted = |(number, edge): &(usize, &Edge)| {
        !excluded.contains(number) && !suspects.contains(&edge.from) && !suspects.contains(&edge.to)
    };
    let doubted = |(number, edge): (usize, &Edge)| {
        let mut edge = *edge;
        if queued.contains(&number) {
            edge.fit.sigma = libm::hypot(edge.fit.sigma, edge.fit.queue);
        }
        edge
    };
    let rest = Mesh::new(mesh.edges.iter().enumerate().filter(trusted).map(doubted).collect());
    let Average { places, edge_sigma, .. } = rest.average();
    let solution = rest.corrections(places, previous, options, edge_sigma);
    Solution { suspects: suspects.into_iter().collect(), excluded: left_out, ..solution }
}

/// Usable edges, in an order that does not depend on the caller's.
fn tidy(edges: &[Edge]) -> Vec<Edge> {
    let usable = |e: &&Edge| {
        let errors = (0.0..=1e18).contains(&e.fit.sigma) && (0.0..=1.0).contains(&e.fit.drift_sigma);
        e.from != e.to && errors && e.fit.queue >= 0.0 && e.fit.drift.abs() <= STEEPEST
    };
    let mut edges: Vec<Edge> = edges.iter().filter(usable).copied().collect();
    edges.sort_by(|a, b| {
        let order = (a.from, a.to).cmp(&(b.from, b.to)).then(a.fit.sigma.total_cmp(&b.fit.sigma));
        let order = order.then(a.fit.drift_sigma.total_cmp(&b.fit.drift_sigma));
        order
            .then(a.fit.drift.total_cmp(&b.fit.drift))
            .then((a.fit.base, a.fit.offset).cmp(&(b.fit.base, b.fit.offset)))
    });
    edges.dedup_by_key(|e| (e.from, e.to));
    edges
}

/// A host's clock at one instant that all places share.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Reading of the clock [ns].
    reading: i128,
    /// Logarithm of how fast it goes against the reference.
    rate: f64,
    /// Variances of the two, in squared nanoseconds and without unit.
    variance: f64,
    rate_variance: f64,
}

/// Least-squares solution of a mesh.
struct Average {
    places: Vec<Place>,
    /// Per edge, what it says less what the places say, in nanoseconds.
    surplus: Vec<f64>,
    /// Per edge, the standard error of its offset where the places are.
    sigmas: Vec<f64>,
    /// Standard deviation of an edge as the loops show it, in nanoseconds.
    edge_sigma: f64,
}

/// Edges that disagree with all the rest.
#[derive(Default)]
struct Dissent {
    suspects: BTreeSet<HostId>,
    /// Edges between others.
    excluded: BTreeSet<usize>,
    /// Edges of busy hosts: queues can have done it, and they count as little as that says.
    queued: BTreeSet<usize>,
}

struct Mesh {
    /// Sorted. The graph's nodes are indices into it.
    hosts: Vec<HostId>,
    edges: Vec<Edge>,
    /// Standard errors of the edges' offsets and drifts, none too bold.
    sigmas: Vec<f64>,
    drift_sigmas: Vec<f64>,
    ends: Vec<(usize, usize)>,
    graph: Graph,
}

impl Mesh {
    fn new(edges: Vec<Edge>) -> Self {
        let hosts: BTreeSet<HostId> = edges.iter().flat_map(|e| [e.from, e.to]).collect();
        let hosts: Vec<HostId> = hosts.into_iter().collect();
        let number = |host: HostId| hosts.binary_search(&host).expect("every end is in the list");
        let ends: Vec<(usize, usize)> = edges.iter().map(|e| (number(e.from), number(e.to))).collect();
        let sigmas = tame(edges.iter().map(|e| e.fit.sigma).collect(), 0.5);
        let drift_sigmas = tame(edges.iter().map(|e| e.fit.drift_sigma).collect(), 1e-12);
        let graph = Graph::new(hosts.len(), ends.clone());
        Self { hosts, edges, sigmas, drift_sigmas, ends, graph }
    }

    /// Reading of host `to` of `edge` when its host `from` reads `at`, if its
    /// clock gains `drift` on the other's.
    fn predict(&self, edge: usize, at: i128, drift: f64) -> i128 {
        let fit = &self.edges[edge].fit;
        let since = at - signed(fit.base);
        at + i128::from(fit.offset) + libm::rint(drift * since as f64) as i128
    }

    /// The reverse: what `from` reads when `to` reads `at`.
    fn predict_back(&self, edge: usize, at: i128, drift: f64) -> i128 {
        let fit = &self.edges[edge].fit;
        let since = at - signed(fit.base) - i128::from(fit.offset);
        at - i128::from(fit.offset) - libm::rint(drift / (1.0 + drift) * since as f64) as i128
    }

    /// Places along the most accurate path from each part's lowest host.
    fn tree(&self) -> Vec<Place> {
        let mut places = vec![Place::default(); self.hosts.len()];
        for part in &self.graph.parts {
            let root = part[0];
            places[root].reading = self.start(root);
            let mut done = BTreeSet::new();
            // Positive numbers sort as their bits do.
            let mut queue = BinaryHeap::from([Reverse((0, root, places[root].reading, 0, 0))]);
            while let Some(Reverse((variance, here, reading, rate, rate_variance))) = queue.pop() {
                if !done.insert(here) {
                    continue;
                }
                let [variance, rate, rate_variance] = [variance, rate, rate_variance].map(f64::from_bits);
                places[here] = Place { reading, rate, variance, rate_variance };
                for &(other, edge) in self.graph.arcs(here) {
                    let drift = self.edges[edge].fit.drift;
                    let (reading, step) = if self.ends[edge].0 == here {
                        (self.predict(edge, reading, drift), libm::log1p(drift))
                    } else {
                        (self.predict_back(edge, reading, drift), -libm::log1p(drift))
                    };
                    let variance = variance + self.sigmas[edge].powi(2);
                    let rate_variance = rate_variance + self.drift_sigmas[edge].powi(2);
                    let [variance, rate, rate_variance] = [variance, rate + step, rate_variance].map(f64::to_bits);
                    queue.push(Reverse((variance, other, reading, rate, rate_variance)));
                }
            }
        }
        places
    }

    /// The latest epoch of a host's edges, by its own clock.
    fn start(&self, host: usize) -> i128 {
        let epoch = |&(_, edge): &(usize, usize)| {
            let fit = &self.edges[edge].fit;
            let base = signed(fit.base);
            if self.ends[edge].0 == host { base } else { base + i128::from(fit.offset) }
        };
        self.graph.arcs(host).iter().map(epoch).max().unwrap_or_default()
    }

    /// Places by least squares over all edges.
    fn average(&self) -> Average {
        let mut places = self.tree();
        let lacks = |(edge, &(a, b)): (usize, &(usize, usize))| {
            libm::log1p(self.edges[edge].fit.drift) - (places[b].rate - places[a].rate)
        };
        let rates: Vec<f64> = self.ends.iter().enumerate().map(lacks).collect();
        let rates = self.graph.estimate(&rates, &self.drift_sigmas, None);
        let rate_variances = self.graph.variances(&rates);
        for (i, place) in places.iter_mut().enumerate() {
            place.rate += rates.potential[i];
            place.rate_variance = rate_variances[i];
        }
        let mut before = None;
        let mut rounds = ROUNDS;
        loop {
            let lacks = |(edge, &(a, b)): (usize, &(usize, usize))| {
                let drift = libm::expm1(places[b].rate - places[a].rate);
                (self.predict(edge, places[a].reading, drift) - places[b].reading) as f64
            };
            let offsets: Vec<f64> = self.ends.iter().enumerate().map(lacks).collect();
            let sigmas: Vec<f64> = (0..self.edges.len()).map(|edge| self.sigma_at(edge, &places)).collect();
            let offsets = self.graph.estimate(&offsets, &sigmas, before.as_ref());
            for (place, error) in places.iter_mut().zip(&offsets.potential) {
                // Beyond 64 bits is nonsense, and stays in 128.
                place.reading += libm::rint(error.clamp(-1e20, 1e20)) as i128;
            }
            rounds -= 1;
            if rounds == 0 || offsets.potential.iter().all(|e| e.abs() < ASTRAY) {
                let variances = self.graph.variances(&offsets);
                places.iter_mut().zip(variances).for_each(|(p, v)| p.variance = v);
                let edge_sigma = offsets.scale * median(&sigmas);
                return Average { places, surplus: offsets.surplus, sigmas, edge_sigma };
            }
            before = Some(offsets);
        }
    }

    /// Standard error of an edge's offset where its prober's place is.
    fn sigma_at(&self, edge: usize, places: &[Place]) -> f64 {
        let since = (places[self.ends[edge].0].reading - signed(self.edges[edge].fit.base)) as f64;
        // An epoch hours away is a clock that stepped: the surplus shows that.
        let drifted = self.drift_sigmas[edge] * since.abs().min(1e10);
        (self.sigmas[edge].powi(2) + drifted * drifted).sqrt()
    }

    /// Hosts most of whose edges disagree, worst first and not counting edges to
    /// worse hosts, and the other edges that disagree. Neither, if that left no
    /// loop to confirm the rest. A host at which queues can have done it is no suspect.
    fn dissent(&self, surplus: &[f64], sigmas: &[f64]) -> Dissent {
        let off: Vec<f64> = surplus.iter().zip(sigmas).map(|(s, sigma)| (s / sigma).abs()).collect();
        let freedom = self.graph.loops() as f64 / (self.edges.len() as f64).max(1.0);
        // The median of a normal variable's magnitude is 0.6745 of its deviation.
        let spread = (median(&off) / 0.6745 / freedom.max(0.1).sqrt()).max(1.0);
        let mut wrong: BTreeSet<usize> = (0..off.len()).filter(|&e| off[e] > DISAGREES * spread).collect();
        let mut left: BTreeSet<usize> = (0..off.len()).collect();
        let (mut suspects, mut queued) = (BTreeSet::new(), BTreeSet::new());
        loop {
            let worst = (0..self.hosts.len())
                .filter_map(|host| {
                    let edges = || self.graph.arcs(host).iter().map(|a| a.1).filter(|e| left.contains(e));
                    let (all, bad) = (edges().count(), edges().filter(|e| wrong.contains(e)).count());
                    (2 * bad > all).then(|| (bad as f64 / all as f64, bad, Reverse(host)))
                })
                .max_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            let Some((_, _, Reverse(host))) = worst else { break };
            let edges: Vec<usize> = self.graph.arcs(host).iter().map(|a| a.1).filter(|e| left.contains(e)).collect();
            edges.iter().for_each(|edge| _ = wrong.remove(edge));
            let doubt = |e: usize| libm::hypot(sigmas[e], self.edges[e].fit.queue);
            if edges.iter().all(|&e| surplus[e].abs() <= DISAGREES * spread * doubt(e)) {
                queued.extend(edges);
            } else {
                suspects.insert(self.hosts[host]);
                edges.iter().for_each(|edge| _ = left.remove(edge));
            }
        }
        let ends = left.iter().filter(|e| !wrong.contains(e)).map(|&e| self.ends[e]).collect::<Vec<_>>();
        let hosts: BTreeSet<usize> = ends.iter().flat_map(|&(a, b)| [a, b]).collect();
        if ends.len() < hosts.len() { Dissent::default() } else { Dissent { suspects, excluded: wrong, queued } }
    }

    fn corrections(
        &self,
        places: Vec<Place>,
        previous: &BTreeMap<HostId, Correction>,
        options: &NetworkOptions,
        edge_sigma: f64,
    ) -> Solution {
        let mut solution = Solution { edge_sigma, ..Solution::default() };
        let always = (ALWAYS * noise(&self.edges)).max(1.0);
        for part in &self.graph.parts {
            let mut now = places[part[0]].reading;
            let mut rate = places[part[0]].rate;
            let known = || part.iter().filter_map(|&i| previous.get(&self.hosts[i]).map(|p| (places[i], p)));
            if known().next().is_some() {
                now = middle(known().map(|(place, p)| i128::from(p.to_fleet(clamp(place.reading)))).collect());
                rate = centre(known().map(|(place, p)| place.rate + libm::log1p(-p.drift)).collect());
            }
            for &i in part {
                let place = places[i];
                let base = clamp(place.reading);
                // All ways to a busy host queue alike, which no loop shows: the edge that
                // queued least has the best of it.
                let queues = self.graph.arcs(i).iter().map(|&(_, edge)| self.edges[edge].fit.queue);
                let queue = Some(queues.fold(f64::INFINITY, f64::min)).filter(|queue| queue.is_finite());
                let correction = Correction {
                    base,
                    offset: i64::try_from(signed(base) - now).unwrap_or_default(),
                    drift: -libm::expm1(rate - place.rate),
                    sigma: (place.variance + queue.unwrap_or_default().powi(2) + always * always).sqrt(),
                    drift_sigma: place.rate_variance.sqrt(),
                    wander: options.wander,
                };
                let correction = match previous.get(&self.hosts[i]) {
                    Some(before) if options.network_effect => correction.weighed_with(before),
                    _ => correction,
                };
                solution.hosts.push((self.hosts[i], correction, solution.parts.len() as u32));
            }
            solution.parts.push(part.iter().map(|&i| self.hosts[i]).collect());
        }
        solution.hosts.sort_by_key(|h| h.0);
        solution
    }
}

/// Brings errors that are far from the others', or below `least`, nearer.
fn tame(mut sigmas: Vec<f64>, least: f64) -> Vec<f64> {
    let floor = (BOLDEST * median(&sigmas)).max(least);
    sigmas.iter_mut().for_each(|s| *s = s.clamp(floor, VAGUEST * floor));
    sigmas
}

/// The median; of an even number of values the mean of both in the middle. With the upper one of two hosts, whose
/// estimates differ by noise, the fleet's time would gain on both in every round.
fn middle(mut values: Vec<i128>) -> i128 {
    values.sort_unstable();
    let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
    low + (high - low) / 2
}

/// The same of rates.
fn centre(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}

/// A clock's reading; it may be before the clock's 0, as one that was set back is.
fn signed(reading: u64) -> i128 {
    reading.cast_signed().into()
}

/// The reverse. Only a fit of nonsense is out of range.
fn clamp(reading: i128) -> u64 {
    (reading.clamp(i64::MIN.into(), i64::MAX.into()) as i64).cast_unsigned()
}
