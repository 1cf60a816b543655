//! Time of a fit and of a solution, and their accuracy beside it.
//!
//! `cargo bench -p onramp-clock --bench speed`

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Clock, Random, Stamps, World};
use onramp_clock::{Edge, EdgeFit, FitOptions, NetworkOptions, fit, mesh, solve};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

fn main() {
    println!("{:<48}{:>12}", "case", "ms each");
    for (name, stamps, load) in [("hardware, idle", Stamps::Hardware, 0.0), ("software, 80%", Stamps::Software, 0.8)] {
        let mut random = Random(1);
        let clock = |random: &mut Random| Clock::random(random, 1e17, 30e-6);
        let (a, b) = (clock(&mut random), clock(&mut random));
        let exchanges = World::new(stamps, load, 1).exchanges((1, a), (2, b), 0.0);
        let each = time(200, || black_box(fit(black_box(&exchanges), &FitOptions::default())).is_some());
        println!("{:<48}{each:>12.3}", format!("fit, {name}, {} probes", exchanges.len()));
    }
    let hosts: Vec<u32> = (0..1000).collect();
    println!(
        "{:<48}{:>12.3}",
        "mesh, 1000 hosts",
        time(5, || mesh::edges(black_box(&hosts), mesh::PEERS, 1).len() > 1)
    );
    for (count, liar) in [(50, false), (1000, false), (1000, true)] {
        let mut random = Random(1);
        let hosts: Vec<u32> = (0..count).collect();
        let readings: Vec<i64> = hosts.iter().map(|_| (1e17 * random.either()) as i64 + (1 << 60)).collect();
        let edges: Vec<Edge> = mesh::edges(&hosts, mesh::PEERS, 1)
            .into_iter()
            .map(|(from, to)| {
                let lie = if liar && (from == 7 || to == 7) { 1e6 * random.either() } else { 0.0 };
                let (a, b) = (readings[from as usize], readings[to as usize]);
                let fit = EdgeFit {
                    base: a as u64,
                    offset: b - a + (20.0 * random.normal() + lie) as i64,
                    drift: 1e-9 * random.normal(),
                    delay: 10_000.0,
                    residual: 4.0,
                    sigma: 20.0,
                    drift_sigma: 1e-9,
                    noise: 4.0,
                    queue: 0.0,
                    points: 900,
                    seen: 1000,
                };
                Edge { from, to, fit }
            })
            .collect();
        let solve = || solve(black_box(&edges), &BTreeMap::new(), &NetworkOptions::default()).hosts.len() > 1;
        let name = format!("solve, {count} hosts, {} edges{}", edges.len(), if liar { ", a liar" } else { "" });
        println!("{name:<48}{:>12.3}", time(5, solve));
    }
}

/// Milliseconds a call takes, the best of `times`.
fn time(times: usize, mut call: impl FnMut() -> bool) -> f64 {
    let once = |_| {
        let start = Instant::now();
        assert!(call());
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..times).map(once).fold(f64::INFINITY, f64::min)
}
