//! The scenario file: what is simulated, in TOML.
//!
//! Every field has a default; [`Scenario::resolve`] writes each default that
//! depends on others (per-rate ECN thresholds, the On-Ramp threshold, …) into
//! its field, so that a resolved scenario says everything and running it again
//! gives the same bytes.

mod clock;
mod linux;
mod load;
pub(crate) mod plain;
mod substrate;
pub(crate) mod tagged;
mod threshold;
mod validate;

pub use clock::{Clock, Stamps, Sync};
pub use linux::{HostQdisc, Linux, PortBuffer};
pub(crate) use load::Mistake;
pub use load::{Override, ScenarioError};
pub use substrate::Substrate;
pub use threshold::Threshold;

use crate::topology::{self, Topology};
use crate::transport;
use crate::units::{Bytes, NS, Rate, SEC, Span, US};
use crate::workload;
use serde::{Deserialize, Serialize};
pub(crate) use tagged::tagged;

/// A complete scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A short name for tables and folders.
    #[serde(default)]
    pub name: String,
    /// Seed of every random stream. Default 1. In quotes if it is above 2^63-1,
    /// the largest integer TOML has.
    #[serde(default = "one", with = "seed")]
    pub seed: u64,
    /// Flows and requests arrive during this span from time 0.
    pub duration: Span,
    /// The run ends when every flow is done, or at this time. Default: 100 times
    /// the duration, at least 1 s.
    #[serde(default)]
    pub time_limit: Option<Span>,
    /// Hosts, switches and links.
    pub network: Network,
    /// What all switches have in common.
    #[serde(default)]
    pub switch: Switch,
    /// What all hosts have in common.
    #[serde(default)]
    pub host: Host,
    /// Congestion control.
    pub transport: transport::Config,
    /// On-Ramp. Without this section there is none.
    #[serde(default = "OnRamp::off")]
    pub onramp: OnRamp,
    /// The hosts' clocks.
    #[serde(default)]
    pub clock: Clock,
    /// What only the Linux cluster has. Resolved: there unless the transport is
    /// simulated only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux: Option<Linux>,
    /// What is recorded besides flows and requests.
    #[serde(default)]
    pub measure: Measure,
    /// Sources of flows.
    pub traffic: Vec<Traffic>,
}

fn one() -> u64 {
    1
}

/// A seed: an integer, or text where TOML has no such integer.
mod seed {
    use serde::de::{self, Deserializer, Visitor};
    use serde::ser::Serializer;
    use std::fmt;

    pub fn serialize<S: Serializer>(seed: &u64, s: S) -> Result<S::Ok, S::Error> {
        match i64::try_from(*seed) {
            Ok(seed) => s.serialize_i64(seed),
            Err(_) => s.collect_str(seed),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = u64;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 18446744073709551615 (in quotes from 9223372036854775808)")
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<u64, E> {
                Ok(v)
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<u64, E> {
                u64::try_from(v).map_err(|_| E::invalid_value(de::Unexpected::Signed(v), &self))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<u64, E> {
                let digits = !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit());
                let seed = if digits { v.parse().ok() } else { None };
                seed.ok_or_else(|| E::invalid_value(de::Unexpected::Str(v), &self))
            }
        }
        d.deserialize_any(V)
    }
}

tagged! {
    /// Hosts, switches and links.
    pub enum Network {
        /// Three-stage fat tree (paper §5.1.1).
        FatTree(topology::fat_tree::Config) = "fat-tree",
        /// Two-stage leaf–spine.
        LeafSpine(topology::leaf_spine::Config) = "leaf-spine",
        /// All hosts on one switch (paper Fig. 1).
        Star(topology::star::Config) = "star",
        /// Two switches with one link between them.
        Dumbbell(topology::dumbbell::Config) = "dumbbell",
        /// Nodes and links listed one by one.
        Links(topology::links::Config) = "links",
        /// A topology file in the HPCC simulator's format.
        HpccFile(topology::hpcc_file::Config) = "hpcc-file",
    }
}

/// A value for links of one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alpha {
    /// The port's rate.
    pub rate: Rate,
    /// Dynamic threshold factor for ports of that rate.
    pub alpha: f64,
}

/// ECN marking at egress ports of one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ecn {
    /// The port's rate.
    pub rate: Rate,
    /// No marks up to this queue.
    pub kmin: Bytes,
    /// Every packet is marked above this queue. Equal to `kmin`: step marking.
    pub kmax: Bytes,
    /// Marking probability at `kmax`, rising linearly from 0 at `kmin`.
    pub pmax: f64,
}

/// PFC headroom at ports of one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headroom {
    /// The port's rate.
    pub rate: Rate,
    /// Room for what arrives between XOFF and its effect.
    pub bytes: Bytes,
}

/// How a switch behaves when its buffer fills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Priority flow control: the upstream port is paused, nothing is dropped.
    #[default]
    Pfc,
    /// Packets over the egress queue's dynamic threshold are dropped.
    Lossy,
}

/// A class of packets at a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// The data class, paused by PFC.
    #[default]
    Data,
    /// The control class: strict priority, never paused.
    Control,
}

/// What all switches have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    /// PFC or drops. Default "pfc".
    pub loss: Loss,
    /// Shared buffer of each switch. Default: 16 MiB per 50 Gb/s of host rate
    /// (32 MiB at 100 Gb/s).
    pub buffer: Option<Bytes>,
    /// Buffer each ingress port has for itself. Default 4096 B.
    pub reserve: Bytes,
    /// Dynamic threshold factor by port rate. Default with PFC: 1/8 at the host
    /// rate, in proportion to the rate above it; without PFC: 1.
    pub alpha: Option<Vec<Alpha>>,
    /// PFC headroom by port rate. Default: 3 · rate · longest link delay, or 2 ·
    /// rate · delay and 3 packets where that is more.
    pub headroom: Option<Vec<Headroom>>,
    /// A paused port is resumed this far below its threshold. Default 3072 B.
    pub xon_offset: Bytes,
    /// Size of a PFC frame on the wire. Default 43 B.
    pub pfc_frame: Bytes,
    /// ECN thresholds by port rate; an empty list switches marking off. Default:
    /// 100 KB / 400 KB per 25 Gb/s with pmax 0.2; for DCTCP a step at 30 KB per
    /// 10 Gb/s.
    pub ecn: Option<Vec<Ecn>>,
    /// Class of ACKs inside the network. Default "data".
    pub ack_class: Class,
}

impl Default for Switch {
    fn default() -> Self {
        Self {
            loss: Loss::Pfc,
            buffer: None,
            reserve: Bytes(4096),
            alpha: None,
            headroom: None,
            xon_offset: Bytes(3072),
            pfc_frame: Bytes(43),
            ecn: None,
            ack_class: Class::Data,
        }
    }
}

/// What all hosts have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Payload of a full packet. Default 1000 B.
    pub payload: Bytes,
    /// Largest sending window, where the transport has one. Default: the largest
    /// bandwidth-delay product of any pair of hosts.
    pub max_window: Option<Bytes>,
    /// Class of ACKs in the sending host's NIC: "control" ACKs leave even while
    /// the data class is paused. Default by transport, as in the HPCC presets:
    /// "control" for dcqcn and timely (with and without window, but dcqcn with
    /// window "data"), "data" for the others.
    pub ack_class: Option<Class>,
    /// A receiver repeats the NACK for the same gap after this span. Default 500 us.
    pub nack_interval: Span,
    /// Retransmission timeout: this long without progress and the sender goes
    /// back to the first unacknowledged byte; doubles with each timeout in a
    /// row. Default 16.777216 ms (the InfiniBand form 4.096 us · 2^12).
    pub rto: Span,
}

impl Default for Host {
    fn default() -> Self {
        Self {
            payload: Bytes(1000),
            max_window: None,
            ack_class: None,
            nack_interval: Span(500 * US),
            rto: Span((4_096 * NS) << 12),
        }
    }
}

/// Which form of the algorithm runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnRampVersion {
    /// Equations 3 and 4.
    #[default]
    Final,
    /// Equation 2.
    Strawman,
}

/// How receive times travel back to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrAckMode {
    /// On the transport's own ACKs and NACKs.
    #[default]
    Transport,
    /// As packets of their own, in the data class.
    Separate,
}

/// On-Ramp in the NIC: packets held one by one (paper §4.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnRamp {
    /// Default true where there is an `[onramp]` section.
    pub enabled: bool,
    /// T: packets are held while the one-way delay is above it. Default: with
    /// clocks that are synchronised over the network "auto", else the longest
    /// one-way delay of an empty network plus 10 us (§5.1.4).
    pub threshold: Option<Threshold>,
    /// With "auto": T is never below this. Default: what the fixed T would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_floor: Option<Span>,
    /// Default "final".
    pub version: OnRampVersion,
    /// EWMA gain g, a power of two from 1/4 to 1/64. Default 1/16.
    pub gain: f64,
    /// No flow is held longer than this without a break. Default 100 us (see
    /// docs/algorithm.md).
    pub max_pause: Span,
    /// β of a new flow, from 0 to 1. Default 0.25 (see docs/algorithm.md).
    pub beta_start: f64,
    /// Whether an OR-ACK of a packet sent before the last acknowledged one
    /// still moves the gate. Default false.
    pub count_old_acks: bool,
    /// Whether OR-ACKs that come during a pause leave its end where it is.
    /// Default false.
    pub keep_pause: bool,
    /// Whether a new flow starts from its path's latest OWD. Default true.
    pub start_from_path: bool,
    /// How receive times travel back. Default "transport".
    pub ack: OrAckMode,
    /// One of this many data packets, and a flow's last, tells its receive
    /// time. Default 1.
    pub ack_every: u32,
}

impl Default for OnRamp {
    fn default() -> Self {
        Self {
            enabled: true,
            threshold: None,
            threshold_floor: None,
            version: OnRampVersion::Final,
            gain: 1.0 / 16.0,
            max_pause: Span(100 * US),
            beta_start: 0.25,
            count_old_acks: false,
            keep_pause: false,
            start_from_path: true,
            ack: OrAckMode::Transport,
            ack_every: 1,
        }
    }
}

impl OnRamp {
    fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }
}

/// What is recorded besides flows and requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Queues, rates and utilization are sampled this often. Default 10 us.
    pub interval: Span,
    /// Ports ("from->to") whose queue is recorded over time.
    pub queues: Vec<String>,
    /// Ports ("from->to") whose utilization is recorded over time.
    pub links: Vec<String>,
    /// Whether the rate of each long flow is recorded over time. Default false.
    pub flow_rates: bool,
    /// Host pairs ("from->to") whose measured one-way delays are recorded.
    pub owd: Vec<String>,
    /// Packets, of all that leave after one of their flow was acknowledged, whose
    /// one-way delay is recorded beside the acknowledged one's. Default 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub next_owd: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(n: &u32) -> bool {
    *n == 0
}

impl Default for Measure {
    fn default() -> Self {
        Self { interval: Span(10 * US), queues: vec![], links: vec![], flow_rates: false, owd: vec![], next_owd: 0 }
    }
}

/// Poisson arrivals of flows between random hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Background {
    /// "WebSearch", "FB_Hadoop", "GoogleSearchRPC", or a file with a size CDF
    /// in the HPCC or the Homa format.
    pub workload: String,
    /// Payload over host link capacity, above 0.
    pub load: f64,
    /// Hosts it is between, by name. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

/// Who the incast load is defined for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Every server requests at this load (the paper).
    #[default]
    Server,
    /// All servers together request at this load, each request from a random
    /// server (HPCC).
    Network,
}

/// Requests answered by many servers at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incast {
    /// Servers that answer a request.
    pub fan_out: u32,
    /// Size of each answer.
    pub size: Bytes,
    /// Payload over capacity: of the requester's link, or of all with
    /// `scope = "network"`.
    pub load: f64,
    /// Default "server".
    #[serde(default)]
    pub scope: Scope,
    /// Hosts it is between, by name. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

/// A flow that sends as fast as it may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Long {
    /// Sending hosts, by name; one flow each.
    pub src: Vec<String>,
    /// Receiving host.
    pub dst: String,
    /// When it starts. Default 0.
    #[serde(default)]
    pub start: Span,
    /// When it stops. Default: at the end of `duration`.
    #[serde(default)]
    pub stop: Option<Span>,
}

/// Format of a trace file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TraceFormat {
    /// `src,dst,bytes,start_ns[,request]` with a header line.
    #[default]
    Csv,
    /// The HPCC simulator's flow file.
    Hpcc,
}

/// Flows listed in a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// The file, relative to the scenario's folder.
    pub file: String,
    /// Default "csv".
    #[serde(default)]
    pub format: TraceFormat,
}

tagged! {
    /// A source of flows.
    pub enum Traffic {
        /// Poisson arrivals of flows between random hosts.
        Background(Background) = "background",
        /// Requests answered by many servers at once.
        Incast(Incast) = "incast",
        /// Flows that send as fast as they may.
        Long(Long) = "long",
        /// Flows listed in a file.
        Trace(Trace) = "trace",
    }
}

impl Scenario {
    /// The files it refers to, as (dotted key, path as written).
    pub fn input_files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        if let Network::HpccFile(network) = &self.network {
            files.push(("network.file".to_string(), network.file.clone()));
        }
        for (i, traffic) in self.traffic.iter().enumerate() {
            match traffic {
                Traffic::Background(b) if !workload::is_built_in(&b.workload) => {
                    files.push((format!("traffic.{i}.workload"), b.workload.clone()));
                }
                Traffic::Trace(t) => files.push((format!("traffic.{i}.file"), t.file.clone())),
                _ => {}
            }
        }
        files
    }

    /// Writes every default that depends on the network or the transport into
    /// its field.
    pub fn resolve(&mut self, topology: &Topology) {
        let host_rate = topology.host_rate();
        let rates = topology.link_rates();
        let limit = self.duration.0.saturating_mul(100).clamp(SEC, Span::MAX.0);
        self.time_limit.get_or_insert(Span(limit));
        self.transport.resolve(host_rate);

        let s = &mut self.switch;
        s.buffer.get_or_insert(Bytes(16 << 20).scaled(host_rate.over(Rate(50_000_000_000))));
        let alpha = |rate: Rate| if s.loss == Loss::Pfc { 0.125 * rate.over(host_rate).max(1.0) } else { 1.0 };
        let alphas = rates.iter().map(|&rate| Alpha { rate, alpha: alpha(rate) }).collect();
        s.alpha.get_or_insert(alphas);
        // What is on the wire when XOFF is decided, until it takes effect: two
        // delays and three packets. HPCC's rule, three delays, is larger for 1 us.
        let full_packet = self.host.payload.0 + 48 + self.transport.settings().extra_header();
        let delays = |n: u64, rate: Rate| {
            (u128::from(n * topology.max_delay()) * u128::from(rate.0) / (8 * u128::from(SEC))) as u64
        };
        let headroom = |rate| Bytes(delays(3, rate).max(delays(2, rate) + 3 * full_packet + s.pfc_frame.0));
        if s.loss == Loss::Pfc {
            let headrooms = rates.iter().map(|&rate| Headroom { rate, bytes: headroom(rate) }).collect();
            s.headroom.get_or_insert(headrooms);
        }
        let ecn = self.transport.settings().ecn_defaults();
        s.ecn.get_or_insert_with(|| {
            let at = |rate: Rate, ecn: &transport::EcnDefault| {
                let scale = rate.over(ecn.rate);
                Ecn { rate, kmin: ecn.kmin.scaled(scale), kmax: ecn.kmax.scaled(scale), pmax: ecn.pmax }
            };
            rates.iter().filter_map(|&rate| Some(at(rate, ecn.as_ref()?))).collect()
        });
        self.host.ack_class.get_or_insert(self.transport.settings().host_ack_class());
        self.host.max_window.get_or_insert(Bytes(topology.max_base_rtt_and_bdp().1));
        let margin = 10 * US;
        if Substrate::Linux.has(&self.transport) {
            self.linux.get_or_insert_default().resolve(&self.transport, &self.onramp, topology);
        }
        self.clock.resolve();
        let fixed = Span((topology.max_base_owd().div_ceil(US)) * US + margin);
        let own = if self.clock.sync.over_the_network() { Threshold::Auto } else { Threshold::Fixed(fixed) };
        if *self.onramp.threshold.get_or_insert(own) == Threshold::Auto {
            self.onramp.threshold_floor.get_or_insert(fixed);
        }
        for t in &mut self.traffic {
            if let Traffic::Long(long) = t {
                long.stop.get_or_insert(self.duration);
            }
        }
    }
}
