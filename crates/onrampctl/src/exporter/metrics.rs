//! The agent's status as OpenMetrics.

use onrampd::abi::OR_OWD_BUCKETS;
use onrampd::config::Mode;
use onrampd::effects::{Effects, Tcp};
use onrampd::status::histogram::lower_bound;
use onrampd::status::{Gate, Path, Ran, Scoped, Status};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::{Registry, Unit};
use std::collections::BTreeMap;
use std::fmt;

/// Seconds.
fn seconds(ns: impl Into<f64>) -> f64 {
    ns.into() / 1e9
}

/// Metrics as text: those of `status`, or that there is no agent. No more than `max_paths` paths are told of one by one.
///
/// # Errors
/// There is no memory.
pub fn text(status: Option<Status>, max_paths: usize) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("onramp");
    registry.register_collector(Box::new(Told { status, max_paths }));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Told {
    status: Option<Status>,
    max_paths: usize,
}

/// A number that was read, of either type.
struct Value(f64, MetricType);

impl EncodeMetric for Value {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        match self.1 {
            MetricType::Counter => encoder.encode_counter::<NoLabelSet, _, f64>(&self.0, None),
            _ => encoder.encode_gauge(&self.0),
        }
    }

    fn metric_type(&self) -> MetricType {
        self.1
    }
}

/// One-way delays of a path: sum in seconds, and how many were below each bound.
struct Delays {
    sum: f64,
    buckets: Vec<(f64, u64)>,
}

impl Delays {
    /// Half an octave each.
    fn of(path: &Path) -> Self {
        let owd = path.owd.as_ref();
        let count = |bucket: usize| owd.and_then(|owd| owd.histogram.get(bucket)).copied().map_or(0, u64::from);
        let half = |i: usize| (seconds(lower_bound(2 * i + 2) as f64), count(2 * i) + count(2 * i + 1));
        let sum = owd.map_or(0, |owd| owd.sum_ns);
        Self { sum: seconds(sum as f64), buckets: (0..OR_OWD_BUCKETS as usize / 2).map(half).collect() }
    }

    fn add(&mut self, other: Self) {
        self.sum += other.sum;
        self.buckets.iter_mut().zip(other.buckets).for_each(|(bucket, (_, n))| bucket.1 += n);
    }
}

impl EncodeMetric for Delays {
    fn encode(&self, mut encoder: MetricEncoder) -> fmt::Result {
        let count = self.buckets.iter().map(|(_, n)| n).sum();
        // The last bucket has no end.
        let mut buckets = self.buckets.clone();
        if let Some(last) = buckets.last_mut() {
            last.0 = f64::MAX;
        }
        encoder.encode_histogram::<NoLabelSet>(self.sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Histogram
    }
}

type Labels = Vec<(&'static str, String)>;

/// Writes families of numbers.
struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn write(
        &mut self,
        kind: MetricType,
        name: &str,
        help: &str,
        unit: Option<&Unit>,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return Ok(());
        }
        let mut family = self.0.encode_descriptor(name, help, unit, kind)?;
        if let Some((_, value)) = values.next_if(|(labels, _)| labels.is_empty()) {
            return Value(value, kind).encode(family);
        }
        values.try_for_each(|(labels, value)| Value(value, kind).encode(family.encode_family(&labels)?))
    }

    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.write(MetricType::Gauge, name, help, None, [(vec![], value)])
    }

    fn counter(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        self.write(MetricType::Counter, name, help, None, [(vec![], value)])
    }
}

impl Collector for Told {
    fn encode(&self, encoder: DescriptorEncoder) -> fmt::Result {
        let mut out = Families(encoder);
        out.gauge("up", "An agent answers.", f64::from(u8::from(self.status.is_some())))?;
        let Some(status) = &self.status else { return Ok(()) };
        agent(&mut out, status)?;
        clock(&mut out, status)?;
        paths(&mut out, status, self.max_paths)?;
        gates(&mut out, status)?;
        scope(&mut out, status)?;
        counters(&mut out, status)?;
        tcp(&mut out, status)?;
        programs(&mut out, status)
    }
}

fn flag(is: bool) -> f64 {
    f64::from(u8::from(is))
}

fn agent(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let info = vec![("version", status.version.clone()), ("gate", status.gate.kind.to_string())];
    out.write(MetricType::Gauge, "agent", "The agent: its version and its kind of gate.", None, [(info, 1.0)])?;
    out.write(
        MetricType::Gauge,
        "uptime",
        "Time since the agent started.",
        Some(&Unit::Seconds),
        [(vec![], seconds(status.uptime_ns as f64))],
    )?;
    out.gauge("enforcing", "The agent holds packets: 1; it observes: 0.", flag(status.mode == Mode::Enforce))?;
    let version = status.policy.as_ref().map(|policy| (vec![], policy.version as f64));
    let help = "Version of the fleet's policy that the agent goes by; 0: none.";
    out.write(MetricType::Gauge, "policy_version", help, None, version)?;
    let has_run_out = status.policy.as_ref().map(|policy| (vec![], flag(policy.has_run_out)));
    let help = "The policy has run out, without a coordinator that stands by it: 1.";
    out.write(MetricType::Gauge, "policy_has_run_out", help, None, has_run_out)?;
    out.gauge("problems", "Problems that the agent tells of, at most ten.", status.problems.len() as f64)?;
    out.gauge("flows", "Flows remembered.", status.flows.count as f64)?;
    out.gauge("flows_held", "Flows held at this moment.", status.flows.held_now as f64)
}

fn clock(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let clock = &status.clock;
    out.gauge("clock_synchronised", "The clock is known well enough to measure delays.", flag(clock.known))?;
    let connected = (clock.source == "fleet").then(|| (vec![], flag(clock.coordinator.is_some())));
    out.write(MetricType::Gauge, "coordinator_connected", "A coordinator serves this host.", None, connected)?;
    let uncertainty = clock.uncertainty_ns.map(|ns| (vec![], seconds(ns)));
    let help = "Standard deviation of the clock's error.";
    out.write(MetricType::Gauge, "clock_uncertainty", help, Some(&Unit::Seconds), uncertainty)?;
    let drift = clock.drift_ppm.map(|ppm| (vec![], ppm / 1e6));
    let help = "How much faster the clock runs than the fleet's time.";
    out.write(MetricType::Gauge, "clock_drift", help, Some(&Unit::Other("ratio".into())), drift)
}

fn paths(out: &mut Families<'_>, status: &Status, max_paths: usize) -> fmt::Result {
    let told = &status.paths[..status.paths.len().min(max_paths)];
    let others = &status.paths[told.len()..];
    out.gauge("paths", "Peers.", status.paths.len() as f64)?;
    let known = status.paths.iter().filter(|path| path.clock_known).count();
    out.gauge("paths_measured", "Peers whose clock is known: delays are measured.", known as f64)?;
    let free = status.paths.iter().filter(|path| path.not_held.is_some()).count();
    out.gauge("paths_not_held", "Paths on which nothing is held, for holding there was in vain.", free as f64)?;

    let label = |path: &Path| vec![("peer", path.peer.to_string())];
    let rest = || vec![("peer", "others".to_owned())];
    let threshold = told.iter().map(|path| (label(path), seconds(path.threshold_ns as f64)));
    let help = "T: at longer one-way delays packets are held.";
    out.write(MetricType::Gauge, "threshold", help, Some(&Unit::Seconds), threshold)?;
    let least = told.iter().filter_map(|path| Some((label(path), seconds(path.owd.as_ref()?.min_ns as f64))));
    let help = "Least one-way delay of the path.";
    out.write(MetricType::Gauge, "owd_least", help, Some(&Unit::Seconds), least)?;
    let held = told.iter().map(|path| (label(path), seconds(path.held_ns as f64)));
    let of_others = others.iter().map(|path| seconds(path.held_ns as f64)).sum();
    let of_others = (!others.is_empty()).then(|| (rest(), of_others));
    let help = "Time in which some packet to the peer had to wait.";
    out.write(MetricType::Counter, "path_held", help, Some(&Unit::Seconds), held.chain(of_others))?;

    if status.paths.is_empty() {
        return Ok(());
    }
    let help = "One-way delays to the peer, by OR-ACKs.";
    let mut family = out.0.encode_descriptor("owd", help, Some(&Unit::Seconds), MetricType::Histogram)?;
    told.iter().try_for_each(|path| Delays::of(path).encode(family.encode_family(&label(path))?))?;
    let sum = others.iter().map(Delays::of).reduce(|mut sum, delays| {
        sum.add(delays);
        sum
    });
    sum.map_or(Ok(()), |delays| delays.encode(family.encode_family(&rest())?))
}

/// A gate's number.
type Number = fn(&Gate) -> f64;

fn gates(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    // An interface has one for each of its queues.
    let sum = |of: Number| {
        let gated = status.interfaces.iter().filter(|i| !i.gates.is_empty());
        gated.map(move |i| (vec![("interface", i.name.clone())], i.gates.iter().map(of).sum::<f64>()))
    };
    let totals: [(&str, &str, Number); 5] = [
        ("gate_packets", "Packets that went through the gate.", |g| g.packets as f64),
        ("gate_held", "Times that the gate held a flow.", |g| g.held as f64),
        ("gate_marks", "Packets that CoDel marked.", |g| g.codel_marks as f64),
        ("gate_cut", "Segments that the gate cut into packets.", |g| g.cut as f64),
        ("gate_shared", "Packets whose flow had no place of its own, and was not held.", |g| g.no_flow as f64),
    ];
    for (name, help, of) in totals {
        out.write(MetricType::Counter, name, help, None, sum(of))?;
    }
    let help = "Payload and headers that went through the gate.";
    out.write(MetricType::Counter, "gate", help, Some(&Unit::Bytes), sum(|g| g.bytes as f64))?;
    let help = "Time for which the gate held flows, of all flows together.";
    out.write(MetricType::Counter, "gate_held", help, Some(&Unit::Seconds), sum(|g| seconds(g.held_ns as f64)))?;
    out.write(MetricType::Gauge, "gate_flows", "Flows in the gate.", None, sum(|g| f64::from(g.flows)))?;
    let help = "Packets in the gate.";
    out.write(MetricType::Gauge, "gate_queued_packets", help, None, sum(|g| f64::from(g.queued_packets)))?;
    let help = "Packets in the gate, in bytes.";
    out.write(MetricType::Gauge, "gate_queued", help, Some(&Unit::Bytes), sum(|g| f64::from(g.queued_bytes)))?;
    let reasons: [(&str, Number); 4] = [
        ("packets", |g| g.limit_drops as f64),
        ("bytes", |g| g.bytes_drops as f64),
        ("flow", |g| g.flow_limit_drops as f64),
        ("codel", |g| g.codel_drops as f64),
    ];
    let drops = reasons.into_iter().flat_map(|(reason, of)| {
        sum(of).map(move |(mut labels, n)| {
            labels.push(("reason", reason.into()));
            (labels, n)
        })
    });
    out.write(
        MetricType::Counter,
        "gate_drops",
        "Packets that the gate dropped: for want of room, or by CoDel.",
        None,
        drops,
    )
}

/// A rule's number.
type Of = fn(&Scoped) -> u64;

fn scope(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let all = |of: Of| {
        let label = |row: &Scoped| vec![("rule", row.name.clone()), ("hold", row.hold.to_string())];
        status.scope.iter().map(move |row| (label(row), of(row) as f64))
    };
    let totals: [(&str, &str, Option<&Unit>, Of); 4] = [
        ("scope_packets", "Data packets to peers that the rule was the first to match.", None, |row| row.packets),
        ("scope", "Their bytes.", Some(&Unit::Bytes), |row| row.bytes),
        (
            "scope_paused_packets",
            "Of them, those that had to wait for the end of a pause, or would have where nothing is held.",
            None,
            |row| row.paused,
        ),
        ("scope_paused", "Their bytes.", Some(&Unit::Bytes), |row| row.paused_bytes),
    ];
    for (name, help, unit, of) in totals {
        out.write(MetricType::Counter, name, help, unit, all(of))?;
    }
    let help = "How long pauses were, of all flows together, held or not.";
    let time = all(|row| row.paused_ns).map(|(labels, ns)| (labels, seconds(ns)));
    out.write(MetricType::Counter, "scope_paused", help, Some(&Unit::Seconds), time)
}

fn counters(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let count = |name: &str| status.counters.get(name).copied().unwrap_or(0) as f64;
    for (name, help, from) in [
        ("packets_sent", "Packets that left for peers.", "sent"),
        ("packets_held", "Packets that had to wait, or would have, observing.", "held"),
        ("packets_received", "Packets that came from peers and were looked at.", "received"),
        ("or_acks_sent", "OR-ACKs sent.", "or_acks_sent"),
        ("or_acks_failed", "OR-ACKs that could not be sent.", "or_acks_failed"),
        ("or_acks_received", "OR-ACKs that came back and counted.", "or_acks_received"),
        ("probes_sent", "Probes of clocks sent.", "probes_sent"),
        ("probes_answered", "Probes of clocks answered.", "probes_answered"),
        ("probes_refused", "Probes and answers whose tag was not right.", "probes_refused"),
        ("packets_unparsed", "Packets whose headers were not understood.", "unparsed"),
        ("table_full", "Packets whose flow had no room in the table.", "table_full"),
    ] {
        out.counter(name, help, count(from))?;
    }
    for (name, help, from) in [
        ("sent", "Bytes that left for peers.", "sent_bytes"),
        ("or_acks_sent", "OR-ACKs sent, in bytes.", "or_acks_sent_bytes"),
    ] {
        out.write(MetricType::Counter, name, help, Some(&Unit::Bytes), [(vec![], count(from))])?;
    }
    const REFUSED: &str = "or_acks_";
    let told = ["or_acks_sent", "or_acks_sent_bytes", "or_acks_with_reply", "or_acks_failed", "or_acks_received"];
    let refused: BTreeMap<&str, u64> = status
        .counters
        .iter()
        .filter(|(name, _)| !told.contains(&name.as_str()))
        .filter_map(|(name, n)| Some((name.strip_prefix(REFUSED)?, *n)))
        .collect();
    let refused = refused.into_iter().map(|(reason, n)| (vec![("reason", reason.to_owned())], n as f64));
    out.write(MetricType::Counter, "or_acks_refused", "OR-ACKs that did not count.", None, refused)
}

/// Writes this host's kernel counters of TCP connections to peers.
fn tcp(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let counted = |needs: Tcp, of: fn(&Effects) -> u64| {
        let effects = status.effects.as_ref().filter(|effects| effects.tcp >= needs);
        effects.map(|effects| (vec![], of(effects) as f64))
    };
    let segments = counted(Tcp::WithoutTimeouts, |e| e.segments);
    let help = "TCP data segments sent to peers, retransmitted ones too.";
    out.write(MetricType::Counter, "tcp_segments", help, None, segments)?;
    let retransmitted = counted(Tcp::WithoutTimeouts, |e| e.retransmitted);
    let help = "TCP segments to peers that were retransmitted.";
    out.write(MetricType::Counter, "tcp_retransmitted_segments", help, None, retransmitted)?;
    let help = "Retransmission timeouts of connections to peers.";
    out.write(MetricType::Counter, "tcp_timeouts", help, None, counted(Tcp::All, |e| e.timeouts))?;
    let acked = counted(Tcp::WithoutTimeouts, |e| e.acked_bytes);
    let help = "Bytes that peers acknowledged by TCP.";
    out.write(MetricType::Counter, "tcp_acked", help, Some(&Unit::Bytes), acked)
}

fn programs(out: &mut Families<'_>, status: &Status) -> fmt::Result {
    let each = |of: fn(&Ran) -> f64| {
        // An interface's gate has programs of its own, of the same names.
        let mut sums = BTreeMap::<&str, f64>::new();
        status.programs.iter().for_each(|ran| *sums.entry(&ran.name).or_default() += of(ran));
        sums.into_iter().map(|(name, sum)| (vec![("program", name.to_owned())], sum)).collect::<Vec<_>>()
    };
    let help = "Runs of an eBPF program while kernel.bpf_stats_enabled was 1.";
    out.write(MetricType::Counter, "program_runs", help, None, each(|ran| ran.runs as f64))?;
    let help = "Time that these runs took.";
    let took = each(|ran| seconds(ran.run_ns as f64));
    out.write(MetricType::Counter, "program_run", help, Some(&Unit::Seconds), took)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// An agent that enforces, in a fleet.
    fn status() -> Status {
        let gate = serde_json::json!({
            "handle": "8001:", "packets": 10, "bytes": 1000, "drops": 3, "queued_packets": 2, "queued_bytes": 300,
            "held": 4, "held_ns": 5_000_000, "max_hold": 7, "limit_drops": 1, "bytes_drops": 2, "flow_limit_drops": 0,
            "no_flow": 0, "cut": 6, "no_time": 0, "collected": 0, "acks_first": 0, "flows": 9, "idle_flows": 1,
            "throttled_flows": 0
        });
        let mut histogram = vec![0; OR_OWD_BUCKETS as usize];
        (histogram[0], histogram[1], histogram[2], histogram[63]) = (1, 2, 4, 8);
        let path = |peer: &str| {
            serde_json::json!({
                "peer": peer, "clock_known": true, "threshold_ns": 50_000, "held_ns": 2_000_000_000u64, "or_acks": 15,
                "owd": {"now_ns": 1, "age_ns": 2, "min_ns": 3000, "mean_ns": 4, "p50_ns": 5, "p99_ns": 6,
                        "sum_ns": 1_500_000, "histogram": histogram}
            })
        };
        serde_json::from_value(serde_json::json!({
            "version": "0.1.0", "mode": "enforce", "gate": {"kind": "bpf", "why": ""}, "pid": 1, "uptime_ns": 2_500_000_000u64,
            "attached": "tcx", "problems": ["x"],
            "interfaces": [{"name": "eth0", "present": true, "gates": [gate, gate]}],
            "parameters": {"threshold_ns": 1, "max_pause_ns": 1, "gain": 0.5, "version": "final", "beta_start": 1.0,
                           "or_ack_interval_bytes": 1, "port": 1, "idle_ns": 1, "line_rate_bps": null},
            "policy": {"version": 7, "says": "enforce"},
            "clock": {"source": "fleet", "known": true, "reason": "", "uncertainty_ns": 250.0, "drift_ppm": -3.0,
                      "fleet_ns": 1, "noise_ns": 1.0, "coordinator": "10.0.0.1:9472"},
            "paths": [path("10.0.0.2"), path("10.0.0.3"), path("10.0.0.4")],
            "scope": [{"name": "backup", "hold": false, "rule": "", "absent": false, "packets": 8, "bytes": 800, "paused": 4,
                       "paused_bytes": 400, "paused_ns": 2_000_000}],
            "counters": {"sent": 7, "or_acks_bad_tag": 11, "or_acks_received": 45, "or_acks_sent": 46},
            "programs": [{"name": "onramp_gate", "runs": 900, "run_ns": 300_000}],
            "effects": {"tcp": "all", "segments": 900, "retransmitted": 9, "timeouts": 2, "acked_bytes": 1_200_000},
            "flows": {"count": 3, "capacity": 4, "held_now": 1, "held_ns": 5, "pauses": 6, "top": []}
        }))
        .unwrap()
    }

    #[test]
    fn numbers_are_in_base_units_and_queues_are_summed() {
        let text = text(Some(status()), 1).unwrap();
        for line in [
            "onramp_up 1.0",
            "onramp_agent{version=\"0.1.0\",gate=\"bpf\"} 1.0",
            "onramp_uptime_seconds 2.5",
            "onramp_policy_version 7.0",
            "onramp_policy_has_run_out 0.0",
            "onramp_clock_uncertainty_seconds 2.5e-7",
            "onramp_clock_drift_ratio -0.000003",
            "onramp_gate_held_seconds_total{interface=\"eth0\"} 0.01",
            "onramp_gate_bytes_total{interface=\"eth0\"} 2000.0",
            "onramp_gate_drops_total{interface=\"eth0\",reason=\"bytes\"} 4.0",
            "onramp_or_acks_refused_total{reason=\"bad_tag\"} 11.0",
            "onramp_path_held_seconds_total{peer=\"10.0.0.2\"} 2.0",
            "onramp_scope_packets_total{rule=\"backup\",hold=\"false\"} 8.0",
            "onramp_scope_paused_bytes_total{rule=\"backup\",hold=\"false\"} 400.0",
            "onramp_scope_paused_seconds_total{rule=\"backup\",hold=\"false\"} 0.002",
            "onramp_path_held_seconds_total{peer=\"others\"} 4.0",
            "onramp_owd_seconds_bucket{le=\"0.000001536\",peer=\"10.0.0.2\"} 3",
            "onramp_owd_seconds_bucket{le=\"0.000002048\",peer=\"10.0.0.2\"} 7",
            "onramp_owd_seconds_bucket{le=\"+Inf\",peer=\"10.0.0.2\"} 15",
            "onramp_owd_seconds_sum{peer=\"others\"} 0.003",
            "onramp_owd_seconds_count{peer=\"others\"} 30",
            "onramp_tcp_segments_total 900.0",
            "onramp_tcp_retransmitted_segments_total 9.0",
            "onramp_tcp_timeouts_total 2.0",
            "onramp_tcp_acked_bytes_total 1200000.0",
            "onramp_program_runs_total{program=\"onramp_gate\"} 900.0",
            "onramp_program_run_seconds_total{program=\"onramp_gate\"} 0.0003",
        ] {
            assert!(text.lines().any(|l| l == line), "no {line} in\n{text}");
        }
        assert!(!text.contains("10.0.0.3") && !text.contains("reason=\"sent\""), "{text}");
    }

    #[test]
    fn what_the_kernel_does_not_count_is_no_metric() {
        let with = |tcp| {
            let effects = status().effects.map(|effects| Effects { tcp, ..effects });
            text(Some(Status { effects, ..status() }), 1).unwrap()
        };
        assert!(
            with(Tcp::WithoutTimeouts).contains("tcp_segments") && !with(Tcp::WithoutTimeouts).contains("tcp_timeouts")
        );
        assert!(!with(Tcp::None).contains("onramp_tcp_"));
    }

    #[test]
    fn the_documentation_has_each_metric_and_no_other() {
        let text = text(Some(status()), 9).unwrap();
        let told: BTreeSet<&str> = text.lines().filter_map(|l| l.strip_prefix("# TYPE ")?.split(' ').next()).collect();
        let page = include_str!("../../../../docs/monitoring.md");
        let named: BTreeSet<&str> = page
            .lines()
            .filter_map(|l| l.strip_prefix("| `onramp_")?.split_once('`'))
            .map(|(name, _)| name.trim_end_matches("_total"))
            .collect();
        assert_eq!(
            told,
            named.iter().map(|name| format!("onramp_{name}")).collect::<Vec<_>>().iter().map(String::as_str).collect()
        );
    }
}
