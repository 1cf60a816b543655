//! The reply to `status`, which the agent gives in JSON.

mod collect;
pub mod histogram;
pub mod protocol;
pub mod server;

pub use crate::datapath::object::Ran;
pub use collect::{Facts, collect, flows};

use crate::config::Mode;
use crate::effects::Effects;
use crate::gate::Choice;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Everything. Times in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Version of onrampd.
    pub version: String,
    /// Observing, or holding packets.
    pub mode: Mode,
    /// Kind of gate, and why it is that. Agents before there was a choice do not tell.
    #[serde(default)]
    pub gate: Choice,
    /// Process.
    pub pid: u32,
    /// Since the agent started.
    pub uptime_ns: u64,
    /// How the programs are attached: "tcx" or "clsact".
    pub attached: String,
    /// Problems since the start; the latest, at most ten.
    pub problems: Vec<String>,
    /// Interfaces.
    pub interfaces: Vec<Interface>,
    /// In force.
    pub parameters: Parameters,
    /// The fleet's policy and what counts; none without a fleet.
    #[serde(default)]
    pub policy: Option<Policy>,
    /// This host's clock.
    pub clock: Clock,
    /// One for each peer.
    pub paths: Vec<Path>,
    /// Rules that say which packets are held, and what they have counted; nothing if there are none.
    #[serde(default)]
    pub scope: Vec<Scoped>,
    /// Since the start.
    pub counters: BTreeMap<String, u64>,
    /// Effects on traffic to all peers since the agent started; none from an earlier version.
    #[serde(default)]
    pub effects: Option<Effects>,
    /// Reason why some or all of them are not counted.
    #[serde(default)]
    pub effects_missing: Option<String>,
    /// Runs and processor time of the programs, while `kernel.bpf_stats_enabled` is 1.
    #[serde(default)]
    pub programs: Vec<Ran>,
    /// Flows remembered.
    pub flows: Flows,
}

/// The fleet's policy, as far as it concerns this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Its version; 0: none was heard.
    pub version: u64,
    /// Who made that, from where and when.
    pub by: Option<String>,
    /// Mode that it says; none: there is no policy.
    pub says: Option<Mode>,
    /// T that it says.
    pub threshold: Option<String>,
    /// The rule, from 1 on; none: no rule matches.
    pub rule: Option<usize>,
    /// Holding is stopped in the whole fleet.
    pub stopped: bool,
    /// Mode that the configuration names.
    pub own_mode: Option<Mode>,
    /// T that the configuration names.
    pub own_threshold: Option<String>,
    /// Why the mode in force is that.
    pub why: String,
    /// Where T comes from: "configuration", "policy" or "default".
    pub threshold_by: String,
    /// Time until it runs out; none while a coordinator stands by it.
    pub runs_out_ns: Option<u64>,
    /// It counts no more.
    pub has_run_out: bool,
}

/// A rule, or what none matches, and the data packets to peers of which it was the first to match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scoped {
    /// Its name or number, or "none".
    pub name: String,
    /// Its packets are held.
    pub hold: bool,
    /// Its conditions as text, without its name.
    pub rule: String,
    /// Its cgroup is not there, so that it matches nothing.
    pub absent: bool,
    /// Packets that left.
    pub packets: u64,
    /// Their payload.
    pub bytes: u64,
    /// Of them, those that the gate had wait for the end of a pause; where nothing is held, those that it would have had.
    pub paused: u64,
    /// Their payload.
    pub paused_bytes: u64,
    /// How long flows' pauses were; once they are over.
    pub paused_ns: u64,
}

/// A dry run of rules: what they have counted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DryRun {
    /// Observing, or holding packets.
    pub mode: Mode,
    /// As in the status.
    pub scope: Vec<Scoped>,
}

/// An interface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// It is still there.
    pub present: bool,
    /// Its gates; one for each queue under `mq`, none in observe mode.
    pub gates: Vec<Gate>,
}

/// A gate and what it counts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the counters are those of `struct tc_onramp_xstats` and of any queueing discipline")]
pub struct Gate {
    /// Handle, as `tc` shows it.
    pub handle: String,
    pub packets: u64,
    pub bytes: u64,
    pub drops: u32,
    pub queued_packets: u32,
    pub queued_bytes: u32,
    pub held: u64,
    pub held_ns: u64,
    pub max_hold: u64,
    pub limit_drops: u64,
    pub bytes_drops: u64,
    pub flow_limit_drops: u64,
    pub no_flow: u64,
    pub cut: u64,
    pub no_time: u64,
    pub collected: u64,
    pub acks_first: u64,
    #[serde(default)]
    pub codel_drops: u64,
    #[serde(default)]
    pub codel_marks: u64,
    pub flows: u32,
    pub idle_flows: u32,
    pub throttled_flows: u32,
}

/// Parameters in force.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Parameters {
    /// T.
    pub threshold_ns: u64,
    /// No pause lasts longer.
    pub max_pause_ns: u64,
    /// g.
    pub gain: f64,
    /// "final" or "strawman".
    pub version: String,
    /// β of a new flow.
    pub beta_start: f64,
    /// Data between two OR-ACKs of a flow.
    pub or_ack_interval_bytes: u64,
    /// UDP port.
    pub port: u16,
    /// A flow silent for so long starts anew.
    pub idle_ns: u64,
    /// If large segments count as leaving byte by byte.
    pub line_rate_bps: Option<u64>,
}

/// This host's clock.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Clock {
    /// "shared", "static" or "fleet".
    pub source: String,
    /// Well enough to measure delays.
    pub known: bool,
    /// Why it is not.
    pub reason: String,
    /// Standard deviation, in a fleet.
    pub uncertainty_ns: Option<f64>,
    /// How much faster it runs than the fleet's time, in parts per million.
    pub drift_ppm: Option<f64>,
    /// The fleet's time less CLOCK_MONOTONIC.
    pub fleet_ns: Option<i64>,
    /// Standard deviation of a time stamp's noise.
    pub noise_ns: Option<f64>,
    /// The coordinator that serves.
    pub coordinator: Option<SocketAddr>,
}

/// The way to a peer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Path {
    /// Its address.
    pub peer: IpAddr,
    /// Without it, nothing is measured.
    pub clock_known: bool,
    /// T.
    pub threshold_ns: u64,
    /// Why nothing is held on it, if that is so.
    #[serde(default)]
    pub not_held: Option<String>,
    /// Time in which some packet had to wait, to the second.
    #[serde(default)]
    pub held_ns: u64,
    /// OR-ACKs that came back.
    pub or_acks: u64,
    /// One-way delays; none before the first OR-ACK.
    pub owd: Option<Owd>,
    /// Effects on traffic to it since it became a peer of the agent.
    #[serde(default)]
    pub effects: Option<Effects>,
}

/// One-way delays.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Owd {
    /// The latest.
    pub now_ns: i64,
    /// How long ago it was learnt.
    pub age_ns: u64,
    /// The least, until the path has become longer.
    pub min_ns: i64,
    /// Mean since the start.
    pub mean_ns: i64,
    /// Median since the start, from a histogram of four buckets an octave.
    pub p50_ns: i64,
    /// 99th percentile of the same.
    pub p99_ns: i64,
    /// Sum since the start.
    #[serde(default)]
    pub sum_ns: i64,
    /// That histogram, if it was asked for: delays in each bucket, which begins at [`histogram::lower_bound`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub histogram: Vec<u32>,
}

/// Flows.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Flows {
    /// Remembered.
    pub count: u64,
    /// Room.
    pub capacity: u64,
    /// Stopped at this moment.
    pub held_now: u64,
    /// Time held, of all flows remembered.
    pub held_ns: u64,
    /// Pauses, of all flows remembered.
    pub pauses: u64,
    /// Those held longest, as many as were asked for.
    pub top: Vec<Flow>,
}

/// A flow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Flow {
    /// Where its data comes from.
    pub source: String,
    /// Where it goes.
    pub destination: String,
    /// "tcp" or "udp".
    pub protocol: String,
    /// β.
    pub beta: f64,
    /// Time held.
    pub held_ns: u64,
    /// Times stopped.
    pub pauses: u64,
    /// Payload that left.
    pub bytes: u64,
    /// OR-ACKs that counted.
    pub or_acks: u64,
    /// One-way delay of its last OR-ACK.
    pub owd_ns: Option<i64>,
    /// Stopped at this moment.
    pub held_now: bool,
    /// Since its last packet.
    pub idle_ns: u64,
}
