//! The state of a fleet for people.

use super::wire::Fleet;
use crate::config::quantity::show_time;
use std::fmt::Write as _;

/// Hosts and what is wrong, a line each.
#[must_use]
pub fn hosts(fleet: &Fleet) -> String {
    let mut out = String::new();
    let parts = match fleet.parts.len() {
        0 | 1 => String::new(),
        n => format!(" · in {n} parts that do not reach each other"),
    };
    let noise = show_time(fleet.edge_sigma_ns.round() as i64);
    let _ = writeln!(
        out,
        "{} hosts · round {} · a pair's probes say it within {noise}{parts}",
        fleet.hosts.len(),
        fleet.rounds
    );
    let _ = writeln!(out, "{:<40}{:>12}{:>12}  state", "host", "clock ±1σ", "ppm");
    for host in &fleet.hosts {
        let uncertainty = host.uncertainty_ns.map_or("–".into(), |ns| show_time(ns.round() as i64));
        let drift = host.drift_ppm.map_or("–".into(), |ppm| format!("{ppm:+.3}"));
        let gone = if host.connected { "" } else { " (not connected)" };
        let _ = writeln!(out, "{:<40}{uncertainty:>12}{drift:>12}  {}{gone}", host.address.to_string(), host.state);
    }
    for (a, b, ns) in &fleet.excluded {
        let _ = writeln!(out, "left out: probes between {a} and {b} disagree by {}", show_time(ns.round() as i64));
    }
    out
}
