//! The status for people.

use crate::scope;
use onrampd::config::Mode;
use onrampd::config::quantity::show_time;
use onrampd::status::{Clock, Flow, Path, Policy, Status};
use std::fmt::Write as _;

/// The whole status, a few lines a subject.
#[must_use]
pub fn show(status: &Status) -> String {
    let mut out = String::new();
    let mode = match status.mode {
        Mode::Observe => "observe (nothing is held)",
        Mode::Enforce => "enforce",
    };
    let p = &status.parameters;
    let up = show_time(status.uptime_ns as i64);
    let _ = writeln!(out, "onrampd {} · {mode} · up {up} · {} · pid {}", status.version, status.attached, status.pid);
    let _ = writeln!(
        out,
        "T {} · longest pause {} · g {} · {} · OR-ACK every {} bytes, port {}",
        show_time(p.threshold_ns as i64),
        show_time(p.max_pause_ns as i64),
        p.gain,
        p.version,
        p.or_ack_interval_bytes,
        p.port
    );
    let _ = writeln!(out, "gate {} ({})", status.gate.kind, status.gate.why);
    out.extend(status.policy.as_ref().map(|policy| policy_line(policy, status.mode)));
    out.push_str(&clock_line(&status.clock));
    for problem in &status.problems {
        let _ = writeln!(out, "problem: {problem}");
    }
    for interface in &status.interfaces {
        let missing = if interface.present { "" } else { " (gone)" };
        let _ = writeln!(out, "\n{}{missing}", interface.name);
        if interface.gates.is_empty() && status.mode == Mode::Enforce {
            let _ = writeln!(out, "  no gate in place: nothing is held");
        }
        for gate in &interface.gates {
            let _ = writeln!(
                out,
                "  gate {} held {} times, {} in all · {} flows, {} waiting · {} packets queued · {} dropped",
                gate.handle,
                gate.held,
                show_time(gate.held_ns as i64),
                gate.flows,
                gate.throttled_flows,
                gate.queued_packets,
                gate.drops
            );
        }
    }
    out.push('\n');
    for line in path_lines(&status.paths) {
        let _ = writeln!(out, "{line}");
    }
    for (peer, why) in status.paths.iter().filter_map(|p| Some((p.peer, p.not_held.as_ref()?))) {
        let _ = writeln!(out, "nothing is held to {peer}: {why}");
    }
    if !status.scope.is_empty() {
        let _ = writeln!(out, "\n{}", scope::lines(&status.scope).join("\n"));
    }
    let f = &status.flows;
    let _ = writeln!(
        out,
        "\nflows {} of {} · {} held now · {} pauses · {} held in all",
        f.count,
        f.capacity,
        f.held_now,
        f.pauses,
        show_time(f.held_ns as i64)
    );
    if !f.top.is_empty() {
        let rows: Vec<_> = f.top.iter().map(|flow| (flow, None)).collect();
        for line in flow_lines(&rows) {
            let _ = writeln!(out, "{line}");
        }
    }
    out.push('\n');
    for (name, value) in status.counters.iter().filter(|(_, value)| **value > 0) {
        let _ = writeln!(out, "{name:<22}{value:>16}");
    }
    out
}

/// Returns the line on the policy: what it says of this host, and why something else counts, if so.
fn policy_line(policy: &Policy, mode: Mode) -> String {
    let says = match policy.says {
        _ if policy.stopped => "holding is stopped in the whole fleet".into(),
        Some(mode) => {
            let rule = policy.rule.map_or("no rule".into(), |rule| format!("rule {rule}"));
            let threshold = policy.threshold.as_ref().map_or(String::new(), |threshold| format!(", T {threshold}"));
            format!("{mode}{threshold} ({rule})")
        }
        None => "none".into(),
    };
    let version = if policy.version > 0 { format!("version {}: {says}", policy.version) } else { says };
    let runs_out = match policy.runs_out_ns {
        _ if policy.version == 0 || policy.has_run_out => String::new(),
        Some(ns) => format!(" · runs out in {} without a coordinator", show_time(ns as i64)),
        None => String::new(),
    };
    let is_followed = policy.says == Some(mode) && !policy.stopped && !policy.has_run_out;
    let why = if is_followed { String::new() } else { format!(" · {mode}: {}", policy.why) };
    format!("policy {version}{runs_out} · T by {}{why}\n", policy.threshold_by)
}

fn clock_line(clock: &Clock) -> String {
    if clock.source != "fleet" {
        return format!("clock {}\n", clock.source);
    }
    let coordinator = clock.coordinator.map_or("no coordinator".into(), |c| format!("coordinator {c}"));
    let Some(uncertainty) = clock.uncertainty_ns.filter(|_| clock.known) else {
        return format!("clock not known, so nothing is held: {} · {coordinator}\n", clock.reason);
    };
    let [uncertainty, noise] = [uncertainty, clock.noise_ns.unwrap_or(0.0)].map(|ns| show_time(ns.round() as i64));
    let drift = clock.drift_ppm.unwrap_or(0.0);
    format!("clock within {uncertainty} (1σ) · {drift:+.3} ppm · stamps within {noise} · {coordinator}\n")
}

/// A table of paths, its heading first.
#[must_use]
pub fn path_lines(paths: &[Path]) -> Vec<String> {
    let heading = format!(
        "{:<40}{:>10}{:>10}{:>10}{:>10}{:>10}{:>12}",
        "path to", "T", "owd now", "min", "p50", "p99", "OR-ACKs"
    );
    let line = |p: &Path| {
        let owd = p.owd.as_ref().map(|o| [o.now_ns, o.min_ns, o.p50_ns, o.p99_ns].map(show_time));
        let [now, min, p50, p99] = owd.unwrap_or_else(|| ["–"; 4].map(String::from));
        let mark = match (p.clock_known, &p.not_held) {
            (false, _) => "  clock not known",
            (true, Some(_)) => "  not held",
            (true, None) => "",
        };
        let threshold = show_time(p.threshold_ns as i64);
        format!("{:<40}{threshold:>10}{now:>10}{min:>10}{p50:>10}{p99:>10}{:>12}{mark}", p.peer.to_string(), p.or_acks)
    };
    [heading].into_iter().chain(paths.iter().map(line)).collect()
}

/// A table of flows, its heading first; with pauses per second where they are known.
#[must_use]
pub fn flow_lines(flows: &[(&Flow, Option<f64>)]) -> Vec<String> {
    let heading =
        format!("{:<48}{:>10}{:>10}{:>7}{:>9}{:>10}{:>14}", "flow", "owd", "held", "β", "pauses", "per s", "bytes");
    let line = |(flow, rate): &(&Flow, Option<f64>)| {
        let ends = format!("{} {} → {}", flow.protocol, flow.source, flow.destination);
        let owd = flow.owd_ns.map_or("–".into(), show_time);
        let rate = rate.map_or("–".into(), |r| format!("{r:.0}"));
        let held = show_time(flow.held_ns as i64);
        let mark = if flow.held_now { "  held" } else { "" };
        let (beta, pauses, bytes) = (flow.beta, flow.pauses, flow.bytes);
        format!("{ends:<48}{owd:>10}{held:>10}{beta:>7.3}{pauses:>9}{rate:>10}{bytes:>14}{mark}")
    };
    [heading].into_iter().chain(flows.iter().map(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_a_line_and_what_does_not_follow_it_says_why() {
        let says = Some(Mode::Enforce);
        let (threshold_by, why) = ("policy".to_owned(), "the configuration says observe".to_owned());
        let threshold = Some("80us".to_owned());
        let policy = Policy { version: 7, says, threshold, rule: Some(2), threshold_by, why, ..Policy::default() };
        let line = policy_line(&policy, Mode::Enforce);
        assert_eq!(line, "policy version 7: enforce, T 80us (rule 2) · T by policy\n");
        let line = policy_line(&policy, Mode::Observe);
        assert!(line.ends_with(" · observe: the configuration says observe\n"), "{line}");
        let left = Policy { runs_out_ns: Some(90_000_000_000), ..policy.clone() };
        assert!(policy_line(&left, Mode::Enforce).contains(" · runs out in 90.0 s without a coordinator · "));
        let stopped = Policy { stopped: true, ..policy };
        assert!(
            policy_line(&stopped, Mode::Observe)
                .starts_with("policy version 7: holding is stopped in the whole fleet ·")
        );
        let none =
            Policy { threshold_by: "default".into(), why: "the fleet has no policy".into(), ..Policy::default() };
        assert_eq!(
            policy_line(&none, Mode::Observe),
            "policy none · T by default · observe: the fleet has no policy\n"
        );
    }
}
