//! Packet-hops per second on the paper's fat tree and on a star incast.
//!
//! `cargo bench -p onramp-sim --bench speed [-- NAME]`; each case runs in a
//! process of its own, so that its peak memory is its own.

mod cases;

use cases::{CASE, CASES};
use std::process::Command;
use std::time::Instant;

fn main() {
    let names: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if let Ok(name) = std::env::var(CASE) {
        return run(&name);
    }
    println!(
        "{:<24}{:>8}{:>12}{:>10}{:>18}{:>12}{:>20}",
        "case", "up s", "packet-hops", "wall s", "packet-hops/s", "peak MB", "simulated us/wall s"
    );
    let wanted = |name: &str| names.is_empty() || names.iter().any(|n| name.contains(n.as_str()));
    for (name, ..) in CASES.iter().filter(|c| wanted(c.0)) {
        let own = std::env::current_exe().expect("a process knows its program");
        let status = Command::new(own).env(CASE, name).status().expect("the benchmark starts");
        assert!(status.success(), "{name} failed");
    }
}

fn run(name: &str) {
    let start = Instant::now();
    let mut sim = cases::build(name, true);
    let up = start.elapsed().as_secs_f64();
    sim.set_threads(std::env::var("ONRAMP_BENCH_THREADS").map_or(1, |n| n.parse().expect("a number of threads")));
    let start = Instant::now();
    sim.run_to_end();
    let wall = start.elapsed().as_secs_f64();
    let hops = sim.packet_hops() as f64;
    println!(
        "{name:<24}{up:>8.2}{:>11.1}M{wall:>10.2}{:>17.2}M{:>12.0}{:>20.0}",
        hops / 1e6,
        hops / wall / 1e6,
        peak_rss_mb(),
        sim.now() as f64 / 1e6 / wall
    );
}

/// VmHWM of this process.
fn peak_rss_mb() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM:")).unwrap_or_default();
    let kb = line.split_whitespace().nth(1).and_then(|n| n.parse::<f64>().ok());
    kb.map_or(f64::NAN, |kb| kb / 1000.0)
}
