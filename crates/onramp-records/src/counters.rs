//! Counters of a run: the parts of `summary.json` that do not come from flows.
//!
//! Simulator and cluster fill the same structs; what only one of them has is `None` in the other, and not written.

use serde::Serialize;
use std::collections::BTreeMap;

/// All counters of a run, over the time from 0 on where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Links, queues, losses.
    pub network: NetworkCounters,
    /// On-Ramp.
    pub onramp_stats: OnRampCounters,
    /// The run itself.
    pub engine: EngineCounters,
    /// Flows and requests that were open at the end.
    pub unfinished: Unfinished,
    /// Order of packets by port, where `measure.order` asks for it; `None` for a port that was not watched.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub order: BTreeMap<String, Option<PortOrder>>,
    /// Round-trip times of acknowledged packets by traffic section, where `measure.rtt` asks for them \[us\].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rtt_us: Vec<Distribution>,
    /// Structures of a shaper that is not one for each flow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaper: Option<ShaperCounters>,
    /// Deviations from rates, where `measure.shaping` asks for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shaping: Option<Shaping>,
    /// Clocks that are synchronised over the network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockCounters>,
    /// Names of the time series, which the cluster's files do not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub series_names: Option<Vec<String>>,
}

/// Links, queues, losses.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct NetworkCounters {
    /// Packets that hosts have put on links, and PFC frames.
    pub packets_sent: u64,
    /// Packets that switches have dropped.
    pub drops: u64,
    /// Data packets that switches have trimmed to their header, where they do that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trims: Option<u64>,
    /// Packets that hosts have dropped, where they take time for what comes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint_drops: Option<u64>,
    /// Packets that hosts' own queues have dropped (cluster).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_drops: Option<u64>,
    /// ECN-marked packets.
    pub ecn_marked: u64,
    /// Retransmitted packets.
    pub retransmitted_packets: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// PFC pauses of ports.
    pub pfc_pauses: u64,
    /// Time that ports were paused by PFC, over all ports \[us\].
    pub pfc_paused_us: f64,
    /// Switches whose ports wait for each other in a circle at the end, such as "s0->s1->s2->s0": a PFC deadlock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pfc_deadlock: Option<String>,
    /// Share of its capacity that each link has carried from time 0 to the end of the run; in a large network mean and maximum by kind of link.
    pub utilization: BTreeMap<String, f64>,
    /// Time that packets waited in switches' queues \[us\].
    pub queue_us: Spread,
}

/// Mean, percentiles and largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

/// A [`Spread`] and how many values it is of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Samples {
    /// The spread.
    #[serde(flatten)]
    pub spread: Spread,
    /// Number of values.
    pub samples: u64,
}

/// A [`Spread`] with more percentiles.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Distribution {
    /// The spread.
    #[serde(flatten)]
    pub spread: Spread,
    /// 99.9th percentile.
    pub p999: f64,
    /// Pairs of a percentage and its percentile: each percent from 0, the last hundredth in tenths.
    pub percentiles: Vec<(f64, f64)>,
    /// Number of values.
    pub samples: u64,
}

/// On-Ramp.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OnRampCounters {
    /// OR-ACKs that senders have received.
    pub or_acks: u64,
    /// Times that a flow was held.
    pub pauses: u64,
    /// Time that flows were held, over all flows \[us\].
    pub paused_us: f64,
    /// One-way delays as OR-ACKs tell them \[us\].
    pub owd_us: OwdCounters,
    /// Counters of the agents (cluster).
    #[serde(flatten)]
    pub agents: BTreeMap<&'static str, u64>,
}

/// One-way delays \[us\]: the simulator knows their distribution, the cluster mean and least.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct OwdCounters {
    /// Number of delays.
    pub samples: u64,
    /// Mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// Least.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Median.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p50: Option<f64>,
    /// 99th percentile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99: Option<f64>,
    /// Largest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// The run itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct EngineCounters {
    /// Simulated time \[us\].
    pub simulated_us: f64,
    /// Packets that have crossed a link, counted once for every link, since the start of the load.
    pub packet_hops: u64,
    /// TCP connections that were open before the load.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_opened_before: Option<u64>,
    /// TCP connections that flows have opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_opened_late: Option<u64>,
    /// Release of the kernel (cluster).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
}

/// Flows and requests that were open at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Unfinished {
    /// Flows.
    pub flows: u64,
    /// Incast requests.
    pub requests: u64,
    /// Exchanges between programs, if there are programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchanges: Option<u64>,
}

/// Order of flows' data packets at a port.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PortOrder {
    /// Packets that have left.
    pub packets: u64,
    /// Packets of them that followed one of another flow.
    pub changes: u64,
    /// Dropped packets.
    pub drops: u64,
    /// Drop events: pairs of the flows that one hits, and how often. The cluster knows flows to eight.
    pub drop_events: Vec<(f64, u64)>,
    /// Length of a slot, the time of a full packet \[ns\].
    pub slot_ns: u64,
    /// Slots: pairs of the packets that came in one, and how often.
    pub slots: Vec<(u64, u64)>,
}

/// Structures of a shaper, in the host that holds most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ShaperCounters {
    /// Packets held at most.
    pub held_packets: u64,
    /// Bytes of packets held at most.
    pub held_bytes: u64,
    /// Bytes of the structure itself.
    pub structure_bytes: u64,
}

/// Deviations from rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Shaping {
    /// Long flows with a cap, by cap.
    pub flows: Vec<RateKept>,
    /// Tenants by name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tenants: BTreeMap<String, RateKept>,
    /// All data of a NIC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<RateKept>,
}

/// How well a rate was kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RateKept {
    /// The rate \[bit/s\].
    pub rate_bps: f64,
    /// Flows, tenants' or NICs' shares that were held to it.
    pub count: u64,
    /// Packets that have left.
    pub packets: u64,
    /// Share of packets that began within 1.5 packet times at line rate of the one before.
    pub back_to_back: f64,
    /// Bytes above what the rate allows, at most, of each \[bytes\].
    pub burst_bytes: Samples,
    /// Deviations from the rate, as a share of it, by length of the windows in which bytes are counted.
    pub deviation: BTreeMap<&'static str, Samples>,
}

/// Clocks that are synchronised over the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ClockCounters {
    /// Difference of two hosts' clocks, over all pairs and samples \[ns\].
    pub error_ns: Percentiles,
    /// Standard deviation of a clock's error, as its host knows it \[ns\].
    pub uncertainty_ns: Percentiles,
    /// Share of the hosts' link capacity that probes take.
    pub probe_share: f64,
    /// Share of samples at which a host had a time (cluster).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub known: Option<f64>,
    /// Windows of probes that were solved (Huygens, simulator).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub windows: Option<u64>,
    /// On-Ramp's thresholds, where they follow the path (simulator) \[us\].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_us: Option<Spread>,
}

/// Percentiles; `None` without values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: Option<u64>,
    /// 90th percentile.
    pub p90: Option<u64>,
    /// 99th percentile.
    pub p99: Option<u64>,
    /// Largest.
    pub max: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_there_is_is_written() {
        let counters = Counters {
            onramp_stats: OnRampCounters { agents: [("or_acks_sent", 3)].into(), ..Default::default() },
            order: [("s0->h1".to_string(), None)].into(),
            clock: Some(ClockCounters::default()),
            ..Default::default()
        };
        let written = json!(counters);
        let keys: Vec<_> = written.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["clock", "engine", "network", "onramp_stats", "order", "unfinished"]);
        assert_eq!(written["unfinished"], json!({"flows": 0, "requests": 0}));
        assert_eq!(
            written["onramp_stats"],
            json!({"or_acks": 0, "or_acks_sent": 3, "owd_us": {"samples": 0}, "paused_us": 0.0, "pauses": 0})
        );
        assert_eq!(written["order"], json!({"s0->h1": null}));
        assert_eq!(written["clock"]["error_ns"]["p99"], json!(null), "a percentile of nothing is written");
    }
}
