//! The keys of the configuration file.

use super::quantity::{Drift, Life, Offset, Rate, Size, Threshold, Time};
use super::{Attach, GateLimits, Mode};
use crate::policy::Labels;
use crate::scope::Rule;
use onramp_config::Parsed;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// The file. Every key is optional but an interface, and either a fleet, or a `threshold`
/// and a key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// `"observe"` or `"enforce"`. Default: as the fleet's policy says, and observe without one.
    pub mode: Option<Mode>,
    /// The interface, if it is one.
    pub interface: Option<String>,
    /// The interfaces, if they are several.
    pub interfaces: Option<Vec<String>>,
    /// `"auto"`, `"root"`, `"mq"` or a class such as `"1:1"`. Default auto: mq where the interface
    /// has one at its root.
    pub parent: Option<String>,
    /// `"auto"`, `"tcx"` or `"clsact"`. Default auto.
    pub attach: Option<Attach>,
    /// T, the one-way delay above which a flow pauses. It must lie above the smallest delay
    /// of the network and the error of the clocks. `"auto"`, the default in a fleet: each
    /// path's least delay, plus twice the uncertainty of both clocks and the noise of stamps.
    pub threshold: Option<Threshold>,
    /// With `threshold = "auto"`, T is never below this. Default 50us.
    pub threshold_floor: Option<Time>,
    /// No flow is held longer without a break. Default 2ms.
    pub max_pause: Option<Time>,
    /// Largest share of time for which a path is held without effect, 0.1 to 1; 1 is no bound. Default 0.9.
    pub max_share: Option<f64>,
    /// g, a power of two from 1/4 to 1/64. Default 0.0625.
    pub gain: Option<f64>,
    /// `"final"` (equations 3 and 4) or `"strawman"` (equation 2). Default final.
    pub version: Option<Version>,
    /// β of a new flow, 0 to 1. Default 0.25.
    pub beta_start: Option<f64>,
    /// Data between two OR-ACKs of a flow, a power of two from 1KiB to 1MiB. Default 16KiB.
    pub or_ack_interval: Option<Size>,
    /// Least time between two OR-ACKs of a flow. Default 100us.
    pub or_ack_gap: Option<Time>,
    /// UDP port of OR-ACKs. Default 9471.
    pub port: Option<u16>,
    /// A file of 32 hex digits that is the secret of all hosts; not readable by everybody.
    pub key_file: Option<PathBuf>,
    /// The secret itself, for peers without one of their own.
    pub key: Option<String>,
    /// `"shared"`: all peers run on this kernel; `"static"`: each peer's `clock_offset`;
    /// `"fleet"`, the default where there is a `[fleet]`: hosts synchronise by probes.
    pub clock: Option<Clock>,
    /// Without a fleet: how far the clocks may be from what `clock` and `clock_offset` say. Default 25us.
    pub clock_uncertainty: Option<Time>,
    /// Line rate of the interfaces: the bytes of a segment the card cuts up count as leaving
    /// one after another. Default: all at once.
    pub line_rate: Option<Rate>,
    /// Where delays are above `threshold`, segments of up to 64 KB leave as packets, one by one.
    /// Default true.
    pub cut: Option<bool>,
    /// A flow that sent nothing for so long starts anew. Default 1ms.
    pub idle: Option<Time>,
    /// Flows remembered. Default 65536.
    pub max_flows: Option<u32>,
    /// Packets remembered until their OR-ACK is back. Default 131072.
    pub max_stamps: Option<u32>,
    /// Where `status` is answered. Default /run/onrampd/onrampd.sock.
    pub socket: Option<PathBuf>,
    /// Where what must be undone is remembered. Default /run/onrampd.
    pub state_dir: Option<PathBuf>,
    /// Addresses of peers.
    #[serde(default)]
    pub peers: Vec<Parsed<IpAddr>>,
    /// Peers of which more is to be said.
    #[serde(default)]
    pub peer: Vec<PeerSection>,
    /// Rules that say which packets are held; the first that matches counts.
    #[serde(default)]
    pub scope: Vec<Rule>,
    /// The hosts this one synchronises with; they are its peers.
    pub fleet: Option<FleetSection>,
    /// Limits of the gate.
    #[serde(default)]
    pub gate: GateLimits,
    /// For tests.
    #[serde(default)]
    pub test: TestSection,
}

/// `[[peer]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeerSection {
    /// Its address.
    pub address: Parsed<IpAddr>,
    /// Difference of its clock to ours; for `clock = "static"`.
    pub clock_offset: Option<Offset>,
    /// Its secret.
    pub key: Option<String>,
}

/// `[fleet]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FleetSection {
    /// This host's address, by which the others send to it.
    pub address: Parsed<IpAddr>,
    /// Its other addresses: those of its other interfaces, or of the other kind.
    #[serde(default)]
    pub aliases: Vec<Parsed<IpAddr>>,
    /// Labels by which the fleet's policy selects it.
    #[serde(default)]
    pub labels: Labels,
    /// Coordinators, the preferred one first.
    pub coordinators: Vec<Parsed<SocketAddr>>,
    /// Where certificates are. Default fleet.
    pub folder: Option<PathBuf>,
    /// A coordinator runs in this agent, and takes connections here.
    pub listen: Option<Parsed<SocketAddr>>,
    /// As coordinator: how many others each host probes. Default 10.
    pub probes: Option<usize>,
    /// As coordinator: time between two corrections. Default 2s.
    pub window: Option<Time>,
    /// As coordinator: time between two pairs of probes to one host. Default 8ms.
    pub interval: Option<Time>,
    /// As coordinator: a host's certificate expires after so long, unless it is renewed. Default 90d.
    pub certificate_life: Option<Life>,
    /// As coordinator: a pair's key signs for so long. Default 1d.
    pub key_life: Option<Life>,
    /// Where the clocks' difference is less certain than this, nothing is held. Default 25us.
    pub max_uncertainty: Option<Time>,
    /// A socket of chrony's (`refclock SOCK`) that is told the fleet's time.
    pub chrony: Option<PathBuf>,
    /// A file that what this host's probes saw is added to, for `onrampctl replay`.
    pub log: Option<PathBuf>,
}

/// `[test]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestSection {
    /// Our clock is wrong by this.
    pub clock_offset: Option<Offset>,
    /// Our clock runs too fast by this.
    pub clock_drift: Option<Drift>,
    /// Standard deviation of what is added to each time stamp, which has a heavy tail, too.
    pub stamp_noise: Option<Time>,
}

/// Which form of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Version {
    Final,
    Strawman,
}

/// Where the offsets of the peers' clocks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names say it")]
pub enum Clock {
    Shared,
    Static,
    Fleet,
}
