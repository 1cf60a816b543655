//! From maps and netlink to [`Status`].

use super::histogram::quantile;
use super::{Clock, Flow, Flows, Gate, Interface, Owd, Parameters, Path, Policy, Ran, Scoped, Status};
use crate::abi::{self, or_clock, or_flow, or_path, or_tuple, tc_onramp_xstats};
use crate::bounds::Bounds;
use crate::config::{Config, Mode};
use crate::datapath::Hooks;
use crate::effects::count::Counted;
use crate::gate;
use crate::gate::Choice;
use crate::sync::{Settings, View};
use onramp_netlink::message::{u32_at, u64_at};
use onramp_netlink::qdisc::Qdisc;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::net::{IpAddr, SocketAddr};

/// Facts that [`collect`] is made from.
pub struct Facts<'a> {
    /// Time, of CLOCK_MONOTONIC in nanoseconds.
    pub now: u64,
    /// When the agent started, of the same.
    pub started: u64,
    /// Active configuration.
    pub config: &'a Config,
    /// Mode in force.
    pub mode: Mode,
    /// The fleet's policy, in a fleet.
    pub policy: Option<Policy>,
    /// Kind of gate.
    pub gate: Choice,
    /// This host's clock as tests have it.
    pub test_clock: or_clock,
    /// Knowledge of clocks, in a fleet.
    pub view: Option<View>,
    /// Clock and peers as the programs are told.
    pub settings: Option<Settings>,
    /// How programs are attached.
    pub hooks: Hooks,
    /// Problems since the start.
    pub problems: &'a [String],
    /// Interfaces and their numbers, if they are there.
    pub interfaces: &'a [(String, Option<u32>)],
    /// All queueing disciplines.
    pub qdiscs: &'a [Qdisc],
    /// Why nothing is held on some.
    pub bounds: &'a Bounds,
    /// Rules and what they counted.
    pub scope: Vec<Scoped>,
    /// From the map.
    pub paths: &'a [(IpAddr, or_path)],
    /// From the map.
    pub counters: &'a [u64],
    /// See [`flows`].
    pub flows: Flows,
    /// With the histograms of one-way delays.
    pub histograms: bool,
    /// Effects on traffic.
    pub effects: Option<&'a Counted>,
    /// Reason why some or all of them are not counted.
    pub effects_missing: Option<String>,
    /// Runs and processor time of the programs.
    pub programs: Vec<Ran>,
}

/// Puts the status together.
#[must_use]
pub fn collect(facts: Facts<'_>) -> Status {
    let p = &facts.config.params;
    let interface = |(name, index): &(String, Option<u32>)| Interface {
        name: name.clone(),
        present: index.is_some(),
        gates: facts.qdiscs.iter().filter(|q| Some(q.index) == *index && gate::is_gate(&q.kind)).map(gate_of).collect(),
    };
    let mut paths: Vec<Path> = facts.paths.iter().map(|(peer, path)| path_of(*peer, path, &facts)).collect();
    paths.sort_by_key(|path| path.peer);
    Status {
        version: env!("CARGO_PKG_VERSION").into(),
        mode: facts.mode,
        policy: facts.policy.clone(),
        gate: facts.gate.clone(),
        pid: std::process::id(),
        uptime_ns: facts.now.saturating_sub(facts.started),
        attached: if facts.hooks == Hooks::Tcx { "tcx" } else { "clsact" }.into(),
        problems: facts.problems.to_vec(),
        interfaces: facts.interfaces.iter().map(interface).collect(),
        parameters: Parameters {
            threshold_ns: p.threshold,
            max_pause_ns: p.max_pause,
            gain: 1.0 / f64::from(1u32 << p.gain_shift),
            version: if p.strawman { "strawman" } else { "final" }.into(),
            beta_start: beta(p.beta_start),
            or_ack_interval_bytes: 1 << facts.config.interval_shift,
            port: facts.config.port,
            idle_ns: facts.config.idle,
            line_rate_bps: facts.config.line_rate,
        },
        clock: clock(&facts),
        paths,
        scope: facts.scope,
        counters: counters(facts.counters),
        effects: facts.effects.map(|counted| counted.total().clone()),
        effects_missing: facts.effects_missing,
        programs: facts.programs,
        flows: facts.flows,
    }
}

fn beta(q16: u32) -> f64 {
    f64::from(q16) / f64::from(abi::ONRAMP_BETA_ONE)
}

fn path_of(peer: IpAddr, path: &or_path, facts: &Facts<'_>) -> Path {
    let peers = facts.settings.as_ref().map_or(&facts.config.peers, |s| &s.peers);
    let entry = peers.iter().find(|p| p.address == peer);
    let owd = (path.or_acks > 0).then(|| Owd {
        now_ns: path.owd,
        age_ns: facts.now.saturating_sub(path.owd_at),
        min_ns: path.least().unwrap_or(path.owd),
        mean_ns: path.owd_sum / path.or_acks as i64,
        p50_ns: quantile(&path.histogram, 0.5).unwrap_or(path.owd),
        p99_ns: quantile(&path.histogram, 0.99).unwrap_or(path.owd),
        sum_ns: path.owd_sum,
        histogram: if facts.histograms { path.histogram.to_vec() } else { Vec::new() },
    });
    Path {
        peer,
        clock_known: entry.is_some_and(|p| p.clock_offset.is_some()),
        threshold_ns: entry.map_or(facts.config.params.threshold, |p| p.threshold(facts.config, path)),
        not_held: facts.bounds.free(&peer).map(|reason| reason.to_string()),
        held_ns: facts.bounds.held(&peer),
        or_acks: path.or_acks,
        owd,
        effects: facts.effects.and_then(|counted| counted.path(&peer)).cloned(),
    }
}

fn clock(facts: &Facts<'_>) -> Clock {
    let (Some(view), Some(settings)) = (&facts.view, &facts.settings) else {
        let source = if facts.config.clock_is_shared { "shared" } else { "static" };
        return Clock { source: source.into(), known: true, ..Clock::default() };
    };
    let test = facts.test_clock.at(facts.now);
    let reading = facts.now.wrapping_add_signed(test);
    Clock {
        source: "fleet".into(),
        known: settings.clock.is_some(),
        reason: settings.reason.clone(),
        uncertainty_ns: settings.uncertainty,
        drift_ppm: view.correction.map(|c| c.drift * 1e6),
        fleet_ns: settings.clock.map(|c| test - c.at(reading)),
        noise_ns: view.correction.map(|_| view.noise),
        coordinator: view.coordinator,
    }
}

/// Names of the counters.
const COUNTERS: [(abi::or_counter, &str); abi::OR_COUNTERS as usize] = [
    (abi::OR_SENT, "sent"),
    (abi::OR_SENT_BYTES, "sent_bytes"),
    (abi::OR_HELD, "held"),
    (abi::OR_STAMPED, "stamped"),
    (abi::OR_RECEIVED, "received"),
    (abi::OR_ACKS_SENT, "or_acks_sent"),
    (abi::OR_ACKS_SENT_BYTES, "or_acks_sent_bytes"),
    (abi::OR_ACKS_WITH_REPLY, "or_acks_with_reply"),
    (abi::OR_ACKS_FAILED, "or_acks_failed"),
    (abi::OR_ACKS_RECEIVED, "or_acks_received"),
    (abi::OR_ACKS_MALFORMED, "or_acks_malformed"),
    (abi::OR_ACKS_UNKNOWN_PEER, "or_acks_unknown_peer"),
    (abi::OR_ACKS_BAD_TAG, "or_acks_bad_tag"),
    (abi::OR_ACKS_NO_STAMP, "or_acks_no_stamp"),
    (abi::OR_ACKS_AMBIGUOUS, "or_acks_ambiguous"),
    (abi::OR_ACKS_NO_CLOCK, "or_acks_no_clock"),
    (abi::OR_ACKS_TOO_LONG, "or_acks_too_long"),
    (abi::OR_ACKS_TOO_SHORT, "or_acks_too_short"),
    (abi::OR_PROBES_SENT, "probes_sent"),
    (abi::OR_PROBES_ANSWERED, "probes_answered"),
    (abi::OR_PROBES_RETURNED, "probes_returned"),
    (abi::OR_PROBES_REFUSED, "probes_refused"),
    (abi::OR_UNPARSED, "unparsed"),
    (abi::OR_TABLE_FULL, "table_full"),
];

fn counters(values: &[u64]) -> BTreeMap<String, u64> {
    let value = |i: abi::or_counter| values.get(i as usize).copied().unwrap_or(0);
    COUNTERS.iter().map(|(i, name)| (name.to_string(), value(*i))).collect()
}

fn gate_of(q: &Qdisc) -> Gate {
    macro_rules! x64 {
        ($field:ident) => {
            u64_at(&q.extra, offset_of!(tc_onramp_xstats, $field)).unwrap_or(0)
        };
    }
    macro_rules! x32 {
        ($field:ident) => {
            u32_at(&q.extra, offset_of!(tc_onramp_xstats, $field)).unwrap_or(0)
        };
    }
    Gate {
        handle: format!("{:x}:", q.handle >> 16),
        packets: q.packets,
        bytes: q.bytes,
        drops: q.drops,
        queued_packets: q.queued_packets,
        queued_bytes: q.queued_bytes,
        held: x64!(held),
        held_ns: x64!(held_ns),
        max_hold: x64!(max_hold),
        limit_drops: x64!(limit_drops),
        bytes_drops: x64!(bytes_drops),
        flow_limit_drops: x64!(flow_limit_drops),
        no_flow: x64!(no_flow),
        cut: x64!(cut),
        no_time: x64!(no_time),
        collected: x64!(collected),
        acks_first: x64!(acks_first),
        codel_drops: x64!(codel_drops),
        codel_marks: x64!(codel_marks),
        flows: x32!(flows),
        idle_flows: x32!(idle_flows),
        throttled_flows: x32!(throttled_flows),
    }
}

/// Sums of all flows, and the `top` ones held longest.
#[must_use]
pub fn flows(all: impl Iterator<Item = (or_tuple, or_flow)>, top: usize, capacity: u32, now: u64) -> Flows {
    let mut sums = Flows { capacity: capacity.into(), ..Flows::default() };
    let mut kept: Vec<(u64, or_tuple, or_flow)> = Vec::new();
    for (tuple, flow) in all {
        let held = held_ns(&flow, now);
        sums.count += 1;
        sums.held_now += u64::from(held_now(&flow, now));
        sums.held_ns += held;
        sums.pauses += flow.pauses;
        if top > 0 {
            kept.push((held, tuple, flow));
            // Cut back now and then, so that memory does not grow with the table.
            if kept.len() >= 2 * top + 1024 {
                keep_longest(&mut kept, top);
            }
        }
    }
    keep_longest(&mut kept, top);
    kept.sort_by_key(longest_first);
    sums.top = kept.iter().map(|(held, tuple, flow)| flow_of(*held, tuple, flow, now)).collect();
    sums
}

/// Leaves the `top` flows held longest, in no order.
fn keep_longest(flows: &mut Vec<(u64, or_tuple, or_flow)>, top: usize) {
    if flows.len() > top {
        flows.select_nth_unstable_by_key(top, longest_first);
        flows.truncate(top);
    }
}

fn longest_first((held, _, flow): &(u64, or_tuple, or_flow)) -> Reverse<(u64, u64)> {
    Reverse((*held, flow.bytes))
}

/// A flow that says nothing more while it is stopped is not held for ever, and one that a rule lets go not at all.
fn held_now(flow: &or_flow, now: u64) -> bool {
    flow.held_since != 0 && flow.free == 0 && now < flow.state.t_next
}

fn held_ns(flow: &or_flow, now: u64) -> u64 {
    let so_far = if flow.held_since == 0 || flow.free != 0 {
        0
    } else {
        now.min(flow.state.t_next).saturating_sub(flow.held_since)
    };
    flow.held + so_far
}

fn flow_of(held: u64, tuple: &or_tuple, flow: &or_flow, now: u64) -> Flow {
    let end = |address: abi::or_address, port| SocketAddr::new(address.into(), port).to_string();
    Flow {
        source: end(tuple.source, tuple.sport),
        destination: end(tuple.destination, tuple.dport),
        protocol: match i32::from(tuple.protocol) {
            libc::IPPROTO_TCP => "tcp".into(),
            libc::IPPROTO_UDP => "udp".into(),
            other => other.to_string(),
        },
        beta: beta(flow.state.beta),
        held_ns: held,
        pauses: flow.pauses,
        bytes: flow.bytes,
        or_acks: flow.or_acks,
        owd_ns: (flow.state.seen != 0).then_some(flow.state.last_owd),
        held_now: held_now(flow, now),
        idle_ns: now.saturating_sub(flow.last_sent),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable as _;

    #[test]
    fn every_counter_has_its_name() {
        for (i, (counter, _)) in COUNTERS.iter().enumerate() {
            assert_eq!(i, *counter as usize);
        }
    }

    #[test]
    fn the_longest_held_flows_are_kept() {
        let address = abi::or_address { word: [0; 4] };
        let tuple =
            or_tuple { source: address, destination: address, sport: 1, dport: 2, protocol: 6, reserved: [0; 3] };
        let state = abi::onramp_flow::zeroed();
        let flow =
            |held| or_flow { state, last_sent: 0, held_since: 0, held, bytes: 0, or_acks: 0, pauses: 1, free: 0 };
        let found = flows((0..5000).map(|held| (tuple, flow(held))), 3, 9000, 0);
        assert_eq!((found.count, found.pauses, found.capacity), (5000, 5000, 9000));
        assert_eq!(found.top.iter().map(|f| f.held_ns).collect::<Vec<_>>(), [4999, 4998, 4997]);
    }

    #[test]
    fn counters_of_a_gate_that_says_little_are_zero() {
        assert_eq!(gate_of(&Qdisc { extra: vec![1; 12], ..Qdisc::default() }).held_ns, 0);
    }
}
