//! Probe logs fitted and solved again: what each window gives.

use crate::hosts::hosts;
use onramp_clock::log::{self, Log};
use onramp_clock::{FitOptions, HostId, NetworkOptions, Solution};
use onrampd::config::quantity::show_time;
use serde::Serialize;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;

/// Result of a window.
#[derive(Debug, PartialEq, Serialize)]
pub struct Window {
    /// Standard deviation of what one pair's probes say, in nanoseconds.
    pub edge_sigma_ns: f64,
    /// The hosts' clocks.
    pub hosts: Vec<Host>,
    /// Groups of hosts whose times can be compared.
    pub parts: Vec<Vec<String>>,
    /// Pairs whose probes disagree with all others, and by how many nanoseconds.
    pub excluded: Vec<(String, String, f64)>,
    /// Hosts whose times disagree with those of all others.
    pub suspects: Vec<String>,
}

/// A host's clock in a window.
#[derive(Debug, PartialEq, Serialize)]
pub struct Host {
    /// Its address.
    pub host: String,
    /// Difference of its clock to the fleet's time, in nanoseconds.
    pub offset_ns: i64,
    /// How much faster it runs than the fleet's time, in parts per million.
    pub drift_ppm: f64,
    /// Standard deviation of the offset, in nanoseconds.
    pub uncertainty_ns: f64,
}

/// Reads the logs of one fleet's hosts and solves their windows.
///
/// # Errors
/// A file is no log, or another's windows are of another length.
pub fn run(files: &[PathBuf]) -> io::Result<Vec<Window>> {
    let mut all: Option<Log> = None;
    for file in files {
        let named = |e: String| io::Error::new(io::ErrorKind::InvalidInput, format!("{}: {e}", file.display()));
        let open = File::open(file).map_err(|e| named(e.to_string()))?;
        let log = log::read_joined(open).map_err(|e| named(e.to_string()))?;
        match &mut all {
            Some(before) if before.window != log.window => {
                let (one, other) = (show_time(log.window as i64), show_time(before.window as i64));
                return Err(named(format!("has windows of {one}, that before it of {other}: replay them one by one")));
            }
            Some(before) => before.records.extend(log.records),
            None => all = Some(log),
        }
    }
    let solved = all.map(|log| log::replay(&log, &FitOptions::default(), &NetworkOptions::default()));
    Ok(solved.unwrap_or_default().iter().map(window).collect())
}

fn window(solution: &Solution) -> Window {
    let host = |(number, correction, _): &(HostId, onramp_clock::Correction, u32)| Host {
        host: named(*number),
        offset_ns: correction.offset,
        drift_ppm: correction.drift * 1e6,
        uncertainty_ns: correction.sigma,
    };
    Window {
        edge_sigma_ns: solution.edge_sigma,
        hosts: solution.hosts.iter().map(host).collect(),
        parts: solution.parts.iter().map(|part| part.iter().map(|n| named(*n)).collect()).collect(),
        excluded: solution.excluded.iter().map(|(a, b, ns)| (named(*a), named(*b), *ns)).collect(),
        suspects: solution.suspects.iter().map(|n| named(*n)).collect(),
    }
}

/// Agents number hosts by their IPv4 address; others, such as the simulator, from 0.
fn named(number: HostId) -> String {
    if number < 1 << 24 { number.to_string() } else { Ipv4Addr::from_bits(number).to_string() }
}

/// For people: each window's hosts, a line each.
#[must_use]
pub fn show(windows: &[Window]) -> String {
    let mut out = String::new();
    for (number, window) in windows.iter().enumerate() {
        let noise = show_time(window.edge_sigma_ns.round() as i64);
        let _ =
            writeln!(out, "window {number} · {} · a pair's probes say it within {noise}", hosts(window.hosts.len()));
        for host in &window.hosts {
            let (name, offset, drift) = (&host.host, host.offset_ns, host.drift_ppm);
            let uncertainty = show_time(host.uncertainty_ns.round() as i64);
            let _ = writeln!(out, "  {name:<16}{offset:>22} ns ±{uncertainty:<10}{drift:>+9.3} ppm");
        }
        if window.parts.len() > 1 {
            let _ = writeln!(out, "  in {} parts that do not reach each other", window.parts.len());
        }
        for (a, b, ns) in &window.excluded {
            let by = show_time(ns.round() as i64);
            let _ = writeln!(out, "  left out: probes between {a} and {b} disagree by {by}");
        }
        for host in &window.suspects {
            let _ = writeln!(out, "  left out: {host}, whose times disagree with all others'");
        }
    }
    if windows.is_empty() { "no probe was answered\n".into() } else { out }
}
