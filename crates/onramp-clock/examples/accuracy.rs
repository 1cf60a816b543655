//! Errors against the truth, on synthetic queues and stamps: of single fits, and
//! of a mesh of 16 hosts. The constants of `fit` were chosen on this.
//!
//! `cargo run --release -p onramp-clock --example accuracy [-- WINDOWS]`

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Clock, Random, Stamps, World};
use onramp_clock::{Edge, FitOptions, HostId, NetworkOptions, fit, mesh, solve};
use std::collections::BTreeMap;

const LOADS: [(f64, f64); 4] = [(0.0, 0.0), (0.4, 0.4), (0.8, 0.8), (0.8, 0.0)];

fn main() {
    let windows: u64 = match std::env::args().nth(1).map(|n| n.parse()) {
        None => 200,
        Some(Ok(windows)) => windows,
        Some(Err(error)) => {
            eprintln!("WINDOWS: {error}");
            std::process::exit(2);
        }
    };
    println!("{:<50}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}", "ns", "bias", "p50", "p99", "sigma", "rms z", "z>2 %");
    for stamps in [Stamps::Hardware, Stamps::Software] {
        for loads in LOADS {
            for coded in [true, false] {
                fits(stamps, loads, coded, windows);
            }
        }
    }
    for stamps in [Stamps::Hardware, Stamps::Software] {
        for loads in LOADS {
            meshes(stamps, loads, windows.div_ceil(40));
        }
    }
}

fn fits(stamps: Stamps, loads: (f64, f64), coded: bool, windows: u64) {
    let errors: Vec<(f64, f64)> = (0..windows)
        .filter_map(|seed| {
            let mut random = Random(seed);
            let mut clock = || Clock::random(&mut random, 1e17, 30e-6);
            let (a, b) = (clock(), clock());
            let world = World { loads, ..World::new(stamps, 0.0, seed) };
            let options = FitOptions { coded, ..FitOptions::default() };
            let fit = fit(&world.exchanges((1, a), (2, b), 0.0), &options)?;
            let truth = i128::from(b.read(a.when(fit.base)));
            Some(((i128::from(fit.base) + i128::from(fit.offset) - truth) as f64, fit.sigma))
        })
        .collect();
    let lost = windows as usize - errors.len();
    let how = if coded { "coded" } else { "not coded" };
    row(&format!("fit, {stamps:?}, {loads:?}, {how}, {lost} lost"), &errors);
}

/// Pairs of hosts at the end of a window: differences of their fleet times.
fn meshes(stamps: Stamps, loads: (f64, f64), windows: u64) {
    let hosts: Vec<HostId> = (0..16).collect();
    let mut errors = [vec![], vec![]];
    for seed in 0..windows {
        let mut random = Random(seed);
        let clocks: Vec<Clock> = hosts.iter().map(|_| Clock::random(&mut random, 1e17, 30e-6)).collect();
        let world = World { loads, ..World::new(stamps, 0.0, seed) };
        let edges: Vec<Edge> = mesh::edges(&hosts, 5, seed)
            .into_iter()
            .filter_map(|(from, to)| {
                let of = |host: HostId| (host, clocks[host as usize]);
                let fit = fit(&world.exchanges(of(from), of(to), 0.0), &FitOptions::default())?;
                Some(Edge { from, to, fit })
            })
            .collect();
        for (network_effect, errors) in [true, false].into_iter().zip(&mut errors) {
            let options = NetworkOptions { network_effect, ..NetworkOptions::default() };
            let solution = solve(&edges, &BTreeMap::new(), &options);
            let end: Vec<(i64, f64)> = solution
                .hosts
                .iter()
                .map(|(host, correction, _)| {
                    let at = clocks[*host as usize].read(onramp_clock::WINDOW as f64);
                    (correction.to_fleet(at), correction.uncertainty_at(at))
                })
                .collect();
            for (i, a) in end.iter().enumerate() {
                errors.extend(end[..i].iter().map(|b| ((a.0 - b.0) as f64, a.1.hypot(b.1))));
            }
        }
    }
    let [with, without] = errors;
    row(&format!("pairs of 16, {stamps:?}, {loads:?}"), &with);
    row(&format!("pairs of 16, {stamps:?}, {loads:?}, tree only"), &without);
}

fn row(name: &str, errors: &[(f64, f64)]) {
    let count = errors.len() as f64;
    let mut magnitudes: Vec<f64> = errors.iter().map(|e| e.0.abs()).collect();
    magnitudes.sort_by(f64::total_cmp);
    let quantile = |q: f64| magnitudes[((count - 1.0) * q) as usize];
    let mut sigmas: Vec<f64> = errors.iter().map(|e| e.1).collect();
    sigmas.sort_by(f64::total_cmp);
    let z = || errors.iter().map(|(error, sigma)| error / sigma);
    println!(
        "{name:<50}{:>8.1}{:>8.0}{:>8.0}{:>8.1}{:>8.2}{:>8.1}",
        errors.iter().map(|e| e.0).sum::<f64>() / count,
        quantile(0.5),
        quantile(0.99),
        sigmas[sigmas.len() / 2],
        (z().map(|z| z * z).sum::<f64>() / count).sqrt(),
        100.0 * z().filter(|z| z.abs() > 2.0).count() as f64 / count,
    );
}
