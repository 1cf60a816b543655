//! The state of a fleet for people.

use onrampd::config::quantity::show_time;
use onrampd::fleet::wire::Fleet;
use onrampd::policy;
use std::fmt::Write as _;

/// A number of hosts, in words.
#[must_use]
pub fn hosts(n: usize) -> String {
    if n == 1 { "1 host".into() } else { format!("{n} hosts") }
}

/// Hosts and what is wrong, a line each.
#[must_use]
pub fn show(fleet: &Fleet) -> String {
    let mut out = String::new();
    let parts = match fleet.parts.len() {
        0 | 1 => String::new(),
        n => format!(" · in {n} parts that do not reach each other"),
    };
    let noise = show_time(fleet.edge_sigma_ns.round() as i64);
    let _ = writeln!(
        out,
        "{} · round {} · a pair's probes say it within {noise}{parts}",
        hosts(fleet.hosts.len()),
        fleet.rounds
    );
    let _ = writeln!(out, "{:<40}{:>12}{:>12}  state", "host", "clock ±1σ", "ppm");
    for host in &fleet.hosts {
        let uncertainty = host.uncertainty_ns.map_or("–".into(), |ns| show_time(ns.round() as i64));
        let drift = host.drift_ppm.map_or("–".into(), |ppm| format!("{ppm:+.3}"));
        let gone = if host.connected { "" } else { " (not connected)" };
        let labels = if host.labels.is_empty() { String::new() } else { format!(" · {}", policy::show(&host.labels)) };
        let (address, state) = (host.address.to_string(), &host.state);
        let _ = writeln!(out, "{address:<40}{uncertainty:>12}{drift:>12}  {state}{gone}{labels}");
    }
    for address in &fleet.away {
        let _ = writeln!(out, "{:<40}{:>12}{:>12}  not connected", address.to_string(), "–", "–");
    }
    for (a, b, ns) in &fleet.excluded {
        let _ = writeln!(out, "left out: probes between {a} and {b} disagree by {}", show_time(ns.round() as i64));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrampd::config::Mode;
    use onrampd::fleet::wire::{Delays, HostState, Pair};
    use onrampd::policy::Applied;

    fn fleet() -> Fleet {
        let [a, b] = [1, 2].map(|n| [10, 0, 0, n].into());
        let state = |address, state: &str, uncertainty_ns: Option<f64>, drift_ppm| HostState {
            address,
            connected: uncertainty_ns.is_some(),
            state: state.into(),
            certificate_expires: Some(1_800_000_000),
            uncertainty_ns,
            drift_ppm,
            labels: [("rack".to_owned(), "b7".to_owned())].into(),
            policy: uncertainty_ns.map(|_| Applied { version: 7, mode: Mode::Enforce, why: "so".into() }),
            effects: None,
        };
        let owd = Delays { min_ns: 1, p50_ns: 2, p99_ns: 3 };
        Fleet {
            hosts: vec![state(a, "synchronised", Some(24.5), Some(-0.25)), state(b, "alone", None, None)],
            parts: vec![vec![a], vec![b]],
            excluded: vec![(a, b, 5_000.0)],
            edge_sigma_ns: 34.5,
            rounds: 7,
            delays: vec![Pair { from: a, to: b, owd }],
            policy: None,
            away: [[10, 0, 0, 3].into()].into(),
        }
    }

    /// Keys that docs/agent.md promises to scripts.
    #[test]
    fn json_keeps_its_keys() {
        let expected = concat!(
            r#"{"hosts":[{"address":"10.0.0.1","connected":true,"state":"synchronised","certificate_expires":1800000000,"uncertainty_ns":24.5,"drift_ppm":-0.25,"labels":{"rack":"b7"},"policy":{"version":7,"mode":"enforce","why":"so"}},"#,
            r#"{"address":"10.0.0.2","connected":false,"state":"alone","certificate_expires":1800000000,"uncertainty_ns":null,"drift_ppm":null,"labels":{"rack":"b7"},"policy":null}],"#,
            r#""parts":[["10.0.0.1"],["10.0.0.2"]],"excluded":[["10.0.0.1","10.0.0.2",5000.0]],"edge_sigma_ns":34.5,"#,
            r#""rounds":7,"delays":[{"from":"10.0.0.1","to":"10.0.0.2","owd":{"min_ns":1,"p50_ns":2,"p99_ns":3}}],"policy":null,"away":["10.0.0.3"]}"#
        );
        assert_eq!(serde_json::to_string(&fleet()).unwrap(), expected);
    }

    #[test]
    fn each_host_and_what_is_wrong_is_a_line() {
        let text = show(&fleet());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(
            lines[0],
            "2 hosts · round 7 · a pair's probes say it within 35 ns · in 2 parts that do not reach each other"
        );
        assert!(lines[3].starts_with("10.0.0.2 ") && lines[3].ends_with("alone (not connected) · rack=b7"), "{text}");
        assert!(lines[4].starts_with("10.0.0.3 ") && lines[4].ends_with("–  not connected"), "{text}");
        assert_eq!(lines[5], "left out: probes between 10.0.0.1 and 10.0.0.2 disagree by 5.00 µs");
    }
}
