//! The configuration that an operator writes, read from a TOML file.
//!
//! [`load()`] turns text into a [`Config`], or into one line per mistake.

pub mod file;
mod key;
mod load;
pub mod quantity;

use crate::abi;
use crate::policy::{Decision, Labels, Own};
use crate::scope::Rule;
use onramp_config::Mistake;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

pub use key::{Key, Keys};
pub use load::{MAX_ALIASES, MAX_FILE, MAX_PEERS, load, read, usable};
pub use onramp_config::ConfigError;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Observing, or holding packets: as the configuration and [`Config::with`] say.
    pub mode: Mode,
    /// Of that and T, what the file itself names.
    pub own: Own,
    /// Where OR-ACKs leave and arrive, and packets are held.
    pub interfaces: Vec<String>,
    /// Where on each interface the gate goes.
    pub parent: Parent,
    /// How the programs are attached.
    pub attach: Attach,
    /// Parameters of the algorithm.
    pub params: Params,
    /// 2 to this power: the sequence numbers whose packets are OR-ACKed.
    pub interval_shift: u32,
    /// Least time in nanoseconds between two OR-ACKs of a flow.
    pub or_ack_gap: u64,
    /// UDP port of OR-ACKs.
    pub port: u16,
    /// The line rate in bits per second, if large segments are to count as leaving byte by byte.
    pub line_rate: Option<u64>,
    /// Where delays are above T, segments leave as packets.
    pub cut: bool,
    /// A flow silent for this many nanoseconds starts anew.
    pub idle: u64,
    /// Flows remembered.
    pub max_flows: u32,
    /// Packets remembered until their OR-ACK is back.
    pub max_stamps: u32,
    /// Where `status` is answered.
    pub socket: PathBuf,
    /// Folder of the file that says what must be undone.
    pub state_dir: PathBuf,
    /// Hosts with which OR-ACKs are exchanged.
    pub peers: Vec<Peer>,
    /// T is of each path, and never below `params.threshold`.
    pub auto_threshold: bool,
    /// Largest share of time for which a path is held without effect; 1: there is no bound.
    pub max_share: f64,
    /// All peers go by this host's clock.
    pub clock_is_shared: bool,
    /// Rules that say which packets are held; the first that matches counts.
    pub scope: Vec<Rule>,
    /// The hosts this one synchronises with.
    pub fleet: Option<Fleet>,
    /// Limits of the gate; what is not given is the kernel's default.
    pub gate: GateLimits,
    /// A wrong clock, for tests.
    pub test: TestClock,
}

/// Observing, or holding packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Delays are measured, pauses computed, nothing is held.
    Observe,
    /// Flows are held while the algorithm says so.
    Enforce,
}

/// Where the gate goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Parent {
    /// As `Mq` where the interface has that at its root, else as `Root`.
    Auto,
    /// In place of the interface's root queueing discipline.
    Root,
    /// Under each transmit queue of `mq`.
    Mq,
    /// Under this class.
    Class(u32),
}

/// How programs are attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attach {
    /// TCX where the kernel has it, else clsact.
    Auto,
    /// Links that end with the agent's process; from Linux 6.6 on.
    Tcx,
    /// Filters, which outlive a crash and are removed at the next start.
    Clsact,
}

/// Parameters of the algorithm; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// T, the one-way delay above which a flow pauses.
    pub threshold: u64,
    /// No pause lasts longer.
    pub max_pause: u64,
    /// g = 2^-`gain_shift`.
    pub gain_shift: u32,
    /// β is held at 0.
    pub strawman: bool,
    /// β of a new flow, Q16.
    pub beta_start: u32,
}

/// A host with which OR-ACKs are exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its address.
    pub address: IpAddr,
    /// Keys of the tags.
    pub keys: Keys,
    /// Difference of its clock to ours, in nanoseconds; none: not known, nothing is measured.
    pub clock_offset: Option<i64>,
    /// Uncertainty of a one-way delay to it, in nanoseconds: both clocks and both stamps.
    pub uncertainty: u64,
    /// Delays are measured, nothing is held.
    pub free: bool,
    /// When the path's least delay was last to be learnt anew.
    pub renewed: u64,
}

/// The hosts this one synchronises with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fleet {
    /// This host's address among them.
    pub address: IpAddr,
    /// Its other addresses.
    pub aliases: Vec<IpAddr>,
    /// Labels by which the fleet's policy selects it.
    pub labels: Labels,
    /// Coordinators, the preferred one first.
    pub coordinators: Vec<SocketAddr>,
    /// Where certificates are.
    pub folder: PathBuf,
    /// A coordinator runs in this agent, and takes connections here.
    pub listen: Option<SocketAddr>,
    /// Probing that this coordinator has the hosts do.
    pub mesh: Mesh,
    /// How long what this coordinator gives is good.
    pub lives: Lives,
    /// Where the clocks' difference is less certain than so many nanoseconds, nothing is held.
    pub max_uncertainty: u64,
    /// A socket of chrony's that is told the fleet's time.
    pub chrony: Option<PathBuf>,
    /// A file that what probes saw is added to.
    pub log: Option<PathBuf>,
}

/// How a fleet's hosts probe each other; times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mesh {
    /// How many others each host probes.
    pub probes: usize,
    /// Between two corrections.
    pub window: u64,
    /// Between two pairs of probes to one host.
    pub interval: u64,
}

/// Kind of gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum GateKind {
    /// The best that the kernel has: a program, else the module, else nothing.
    #[default]
    Auto,
    /// An eBPF program, on Linux 6.17 or newer.
    Bpf,
    /// The module `sch_onramp`.
    Module,
    /// Nothing: nothing is held.
    None,
}

/// Limits of the gate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateLimits {
    /// Its kind.
    #[serde(default)]
    pub kind: GateKind,
    /// Packets of a gate.
    pub limit: Option<u32>,
    /// Memory of all gates of the host.
    pub bytes: Option<quantity::Size>,
    /// Packets of a flow.
    pub flow_limit: Option<u32>,
    /// Flows, idle ones included.
    pub flows: Option<u32>,
    /// Bytes a flow sends in its turn.
    pub quantum: Option<quantity::Size>,
    /// Local TCP flows leave at their pacing rate.
    pub pacing: Option<bool>,
    /// CoDel's target; 0: none. Not given: that of the discipline that was there before, if it had one.
    pub target: Option<quantity::Time>,
}

/// Added to every time stamp that leaves the host or is compared with one that came in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TestClock {
    /// Nanoseconds.
    pub offset: i64,
    /// Parts per billion.
    pub drift: quantity::Drift,
    /// Standard deviation of a time stamp's noise, in nanoseconds.
    pub noise: u32,
}

impl Fleet {
    /// Returns whether an address is this host's.
    #[must_use]
    pub fn is_ours(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address == self.address || self.aliases.contains(&address)
    }

    /// Where others call a coordinator on this host: as `listen` says, if that is one address, or by the first of
    /// the coordinators that is of this host.
    #[must_use]
    pub fn own_coordinator(&self) -> Option<SocketAddr> {
        let listed = || self.coordinators.iter().find(|c| self.is_ours(c.ip())).copied();
        // All addresses are listened at, and somebody's is listed.
        let any = || self.listen.and_then(|_| self.coordinators.first().copied());
        self.listen.filter(|at| !at.ip().is_unspecified()).or_else(listed).or_else(any)
    }
}

impl Mesh {
    /// Checks that hosts can do it.
    ///
    /// # Errors
    /// The first key that is wrong.
    pub fn check(&self) -> Result<(), Mistake> {
        if self.probes == 0 {
            return Err(Mistake::new("probes", "must be at least 1"));
        }
        if !(10_000_000..=60_000_000_000).contains(&self.window) {
            return Err(Mistake::new("window", "is outside 10ms to 60s"));
        }
        if !(100_000..=self.window / 20).contains(&self.interval) {
            return Err(Mistake::new("interval", "is outside 100us to a twentieth of the window"));
        }
        Ok(())
    }
}

/// For how many seconds what a coordinator gives is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lives {
    /// Hosts' certificates.
    pub certificate: u64,
    /// Keys of pairs.
    pub key: u64,
}

impl Lives {
    /// Checks that hosts can keep up.
    ///
    /// # Errors
    /// The first key that is too short, or too long for dates.
    pub fn check(&self) -> Result<(), Mistake> {
        const LONGEST: u64 = 3_650 * 86_400;
        if !(5..=LONGEST).contains(&self.certificate) {
            return Err(Mistake::new("certificate_life", "is outside 5s to 3650d"));
        }
        // An eighth is a second or more.
        let fits = (8..=LONGEST).contains(&self.key);
        fits.then_some(()).ok_or_else(|| Mistake::new("key_life", "is outside 8s to 3650d"))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Observe => "observe",
            Self::Enforce => "enforce",
        })
    }
}

impl Config {
    /// The configuration with mode and T as decided between it and the fleet's policy.
    #[must_use]
    pub fn with(&self, decision: &Decision) -> Self {
        let mut with = Self { mode: decision.mode, ..self.clone() };
        // "auto" is what a fleet's host has without a T of its own.
        if let Some(quantity::Threshold::Fixed(quantity::Time(threshold))) = decision.threshold {
            with.params.threshold = threshold;
            with.auto_threshold = false;
        }
        with
    }

    /// Reads the configuration at `path`.
    ///
    /// # Errors
    /// Every mistake found.
    pub fn open(path: &Path) -> Result<Self, Vec<ConfigError>> {
        let name = path.display().to_string();
        load(&read(path)?, &name, path.parent().unwrap_or(Path::new("")))
    }

    /// The key that would have to stay as it is for `new` to come into force
    /// without a restart.
    #[must_use]
    pub fn needs_restart(&self, new: &Self) -> Option<&'static str> {
        let fixed = [
            ("interfaces", self.interfaces == new.interfaces),
            ("parent", self.parent == new.parent),
            ("gate.kind", self.gate.kind == new.gate.kind),
            ("attach", self.attach == new.attach),
            ("max_flows", self.max_flows == new.max_flows),
            ("max_stamps", self.max_stamps == new.max_stamps),
            ("fleet", self.fleet == new.fleet),
            ("socket", self.socket == new.socket),
            ("state_dir", self.state_dir == new.state_dir),
        ];
        fixed.iter().find(|(_, same)| !same).map(|(key, _)| *key)
    }

    /// Our clock against that of the fleet, where there is none: it is everybody's, or each
    /// peer's is known against it.
    #[must_use]
    pub fn own_clock(&self) -> Option<abi::or_clock> {
        self.fleet.is_none().then_some(abi::or_clock { base: 0, offset: 0, drift: 0 })
    }

    /// This host's wrong clock, which drifts from `start` on.
    #[must_use]
    pub fn test_clock(&self, start: u64) -> abi::or_clock {
        abi::or_clock { base: start, offset: self.test.offset, drift: self.test.drift.fixed_point() }
    }

    /// Returns what the programs read, with our clock against the fleet's if that is known, and what
    /// tests have it wrong by.
    #[must_use]
    pub fn for_programs(
        &self,
        acker_ifindex: u32,
        clock: Option<abi::or_clock>,
        test_clock: abi::or_clock,
    ) -> abi::or_config {
        let p = &self.params;
        let cut = if self.cut { abi::OR_CUT } else { 0 };
        let known = if clock.is_some() { abi::OR_CLOCK_KNOWN } else { 0 };
        let follows = if self.auto_threshold { abi::OR_T_FOLLOWS } else { 0 };
        abi::or_config {
            params: abi::onramp_params {
                threshold: p.threshold,
                max_pause: p.max_pause,
                gain_shift: p.gain_shift,
                flags: if p.strawman { abi::ONRAMP_STRAWMAN } else { 0 },
                beta_start: p.beta_start,
                reserved: 0,
            },
            clock: clock.unwrap_or(abi::or_clock { base: 0, offset: 0, drift: 0 }),
            test_clock,
            idle: self.idle,
            gap: self.or_ack_gap,
            segment_rate: self.line_rate.map_or(0, segment_rate),
            mode: match self.mode {
                Mode::Observe => abi::OR_MODE_OBSERVE as u16,
                Mode::Enforce => abi::OR_MODE_ENFORCE as u16,
            },
            scopes: 0,
            interval_shift: self.interval_shift,
            acker_ifindex,
            port: self.port,
            flags: (cut | known | follows) as u16,
            test_noise: self.test.noise,
        }
    }
}

/// Nanoseconds a byte takes at `rate` bits per second, in units of 2^-16.
fn segment_rate(rate: u64) -> u32 {
    let ns = (u128::from(8 * 1_000_000_000u64) << 16) / u128::from(rate.max(1));
    u32::try_from(ns).unwrap_or(u32::MAX)
}

impl From<(abi::or_address, abi::or_peer)> for Peer {
    /// As the programs were told of it.
    fn from((address, peer): (abi::or_address, abi::or_peer)) -> Self {
        let two = peer.flags & abi::OR_PEER_TWO_KEYS != 0;
        Self {
            address: address.into(),
            keys: Keys {
                sign: Key::from_halves(peer.key),
                accept: Key::from_halves(if two { peer.other_key } else { peer.key }),
            },
            clock_offset: (peer.flags & abi::OR_PEER_CLOCK_KNOWN != 0).then_some(peer.clock.offset),
            uncertainty: peer.uncertainty,
            free: peer.flags & abi::OR_PEER_FREE != 0,
            renewed: peer.renewed,
        }
    }
}

impl Peer {
    /// A peer whose clock is known or not, with nothing known of the path to it.
    #[must_use]
    pub fn new(address: IpAddr, keys: impl Into<Keys>, clock_offset: Option<i64>, uncertainty: u64) -> Self {
        Self { address, keys: keys.into(), clock_offset, uncertainty, free: false, renewed: 0 }
    }

    /// T on the path to it, in nanoseconds: sender_params() in sender.h.
    #[must_use]
    pub fn threshold(&self, config: &Config, path: &abi::or_path) -> u64 {
        let follows = path.least().filter(|_| config.auto_threshold);
        let least = follows.map_or(0, |least| least.max(0).unsigned_abs() + self.uncertainty);
        config.params.threshold.max(least)
    }

    /// Returns what the programs read.
    #[must_use]
    pub fn for_programs(&self, path: u32) -> abi::or_peer {
        let known = if self.clock_offset.is_some() { abi::OR_PEER_CLOCK_KNOWN } else { 0 };
        let free = if self.free { abi::OR_PEER_FREE } else { 0 };
        let two = if self.keys.sign == self.keys.accept { 0 } else { abi::OR_PEER_TWO_KEYS };
        abi::or_peer {
            key: self.keys.sign.halves(),
            other_key: self.keys.accept.halves(),
            clock: abi::or_clock { base: 0, offset: self.clock_offset.unwrap_or(0), drift: 0 },
            uncertainty: self.uncertainty,
            renewed: self.renewed,
            flags: known | free | two,
            path,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_takes_800_ps_at_10_gbps() {
        assert_eq!(segment_rate(10_000_000_000), (0.8 * 65536.0) as u32);
        assert_eq!(segment_rate(1), u32::MAX);
    }
}
