//! Messages of hosts and coordinator: lines of JSON, read with bounds.
//!
//! Another version may say more: fields that are not known are ignored, and so are messages. What one end must
//! understand is a matter of the protocol's version, which they [agree on](Speaks) first.

use super::pairs::{Epochs, Statement};
use crate::config::{MAX_ALIASES, usable};
use crate::effects::Effects;
use crate::policy::{self, Applied, Labels, Said, Version};
use ipnet::IpNet;
use onramp_clock::{Correction, EdgeFit};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Longest line a host may say.
pub const MAX_FROM_HOST: usize = 1 << 20;
/// Longest line a coordinator may say: the delays of 16,384 hosts.
pub const MAX_FROM_COORDINATOR: usize = 64 << 20;
/// Hosts a report may be about.
const MAX_EDGES: usize = 4096;
/// Clocks do not differ in frequency by more than this: ten times what the worst do.
const MAX_DRIFT: f64 = 1e-3;

/// Versions of the protocol that one end speaks. An end that says none is older than they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Speaks {
    /// The first.
    pub oldest: u32,
    /// The last.
    pub newest: u32,
}

/// Versions that this program speaks.
pub const SPEAKS: Speaks = Speaks { oldest: 1, newest: 1 };

impl Speaks {
    /// The newest version that both ends speak.
    ///
    /// # Errors
    /// There is none; which end is to be upgraded.
    pub fn with(self, host: Self) -> Result<u32, String> {
        let version = self.newest.min(host.newest);
        let upgrade = if host.newest < self.oldest { "the host" } else { "the coordinator" };
        let apart = format!("speaks {host} of the protocol, and the coordinator {self}: upgrade {upgrade}");
        (version >= self.oldest.max(host.oldest)).then_some(version).ok_or(apart)
    }
}

impl fmt::Display for Speaks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.oldest, self.newest) {
            (_, 0) => f.write_str("an earlier version"),
            (oldest, newest) if oldest == newest => write!(f, "version {newest}"),
            (oldest, newest) => write!(f, "versions {oldest} to {newest}"),
        }
    }
}

/// A message of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "lowercase")]
pub enum FromHost {
    /// It wants to be admitted. Needs no certificate.
    Join {
        /// Secret of the token, in hex digits.
        secret: String,
        /// Its address.
        address: IpAddr,
        /// To be signed, in hex digits.
        public_key: String,
        /// Public part of what its keys of pairs are made from, in hex digits.
        #[serde(default)]
        pair_key: String,
        /// Versions of the protocol.
        #[serde(default)]
        speaks: Speaks,
    },
    /// It is there.
    Hello {
        /// Its address, that of its certificate.
        address: IpAddr,
        /// Version of onrampd.
        version: String,
        /// The correction it goes by, of an earlier coordinator.
        correction: Option<Correction>,
        /// It stamps probes, and answers them, by the eBPF programs.
        by_programs: bool,
        /// Its other addresses.
        #[serde(default)]
        aliases: Vec<IpAddr>,
        /// Labels by which the fleet's policy selects it.
        #[serde(default, skip_serializing_if = "Labels::is_empty")]
        labels: Labels,
        /// Versions of the protocol.
        #[serde(default)]
        speaks: Speaks,
    },
    /// Result of its probes.
    Report {
        /// The round that asked for it.
        round: u64,
        /// One for each host it probes that answered.
        edges: Vec<Edge>,
        /// The time of day, if a coordinator on this host serves, and this host's clock is known.
        #[serde(default)]
        realtime: Option<Realtime>,
    },
    /// It has kept the renewed certificate.
    Renewed,
    /// The policy it goes by, and its mode: on each connection, and whenever they change.
    Applied(Applied),
    /// Effects on its traffic to its peers so far: every few seconds.
    Effects(Effects),
    /// It wants to know how the fleet is.
    Fleet,
    /// By an operator, through another coordinator: a host is removed.
    Remove {
        /// Its address.
        address: IpAddr,
        /// Memberships that began until then are worth nothing, in seconds since 1970.
        until: u64,
    },
    /// The same: which other addresses a host may have.
    Vouch {
        /// Its address.
        address: IpAddr,
        /// Of these networks, and no others.
        networks: Vec<IpNet>,
    },
    /// The same: a new version of the fleet's policy.
    Policy(Version),
    /// An operator's command wants to know how far the policy has come.
    Progress,
    /// A message that only a later version knows.
    #[serde(other)]
    Unknown,
}

/// A message of a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "lowercase")]
pub enum FromCoordinator {
    /// No, and why.
    Refused {
        /// In words.
        reason: String,
    },
    /// The host is heard from now on. The first that is said to it.
    Welcome {
        /// Version of the protocol that is spoken.
        protocol: u32,
    },
    /// The host is admitted.
    Joined {
        /// Its certificate.
        certificate: String,
        /// The authority's.
        authority: String,
        /// All coordinators, the preferred one first; empty: the coordinator has no configuration, or an earlier version.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        coordinators: Vec<SocketAddr>,
    },
    /// The host's certificate is to be replaced by this one.
    Renewed {
        /// For the same key.
        certificate: String,
    },
    /// All members, and what to do. A host hears it once a connection.
    Members {
        /// All but the host itself.
        members: Vec<Member>,
        /// Addresses it called its own, but another host has, or nobody has vouched for.
        #[serde(default)]
        not_yours: Vec<IpAddr>,
        /// Keys of pairs in use.
        epochs: Epochs,
        /// Whom to probe.
        probe: Vec<IpAddr>,
        /// Nanoseconds between two pairs of probes to one host.
        interval: u64,
        /// Nanoseconds between two reports.
        window: u64,
    },
    /// Changes since [`FromCoordinator::Members`], or since the last of these.
    Changed {
        /// Members that are new, or have other aliases or keys; perhaps the host itself.
        members: Vec<Member>,
        /// Members no more.
        gone: Vec<IpAddr>,
        /// As in `Members`; `None`: no change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_yours: Option<Vec<IpAddr>>,
        /// As in `Members`; `None`: no change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        probe: Option<Vec<IpAddr>>,
    },
    /// Keys of pairs in use from now on.
    Keys(Epochs),
    /// The fleet's policy for the host: on each connection, and whenever it changes.
    Policy(Said),
    /// Report now.
    Collect {
        /// A number.
        round: u64,
    },
    /// Result of a round.
    Corrected {
        /// The host's; none: its clock is not known.
        correction: Option<Correction>,
        /// Why it is not.
        reason: String,
        /// Changes of those whose times can be compared with this host's.
        comparable: Arc<Comparable>,
        /// Standard deviation of a time stamp's noise, in nanoseconds: the fleet's median.
        noise: f64,
        /// The time of day, if the coordinator's host has a clock that is known.
        realtime: Option<Realtime>,
    },
    /// How the fleet is.
    Fleet(Fleet),
    /// How far the policy has come.
    Progress(Progress),
    /// The operator's change is stored.
    Kept,
    /// A message that only a later version knows.
    #[serde(other)]
    Unknown,
}

/// Result of one host's probes of another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Edge {
    /// The other.
    pub to: IpAddr,
    /// Its clock, as seen.
    pub fit: EdgeFit,
    /// One-way delays of the probes by that fit.
    pub forward: Delays,
    /// The same of the answers.
    pub backward: Delays,
}

/// One-way delays in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delays {
    /// The least.
    pub min_ns: i64,
    /// Median.
    pub p50_ns: i64,
    /// 99th percentile.
    pub p99_ns: i64,
}

/// A member of the fleet, as another sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Its address.
    pub address: IpAddr,
    /// Its other addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<IpAddr>,
    /// Statement of the authority on it, from which the other derives their keys.
    pub statement: Statement,
}

/// How well a host's clock is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Certainty {
    /// The host.
    pub address: IpAddr,
    /// Standard deviation of its offset at the time of the correction, in nanoseconds.
    pub sigma: f64,
    /// The same of its drift.
    pub drift_sigma: f64,
}

/// Changes of the hosts whose times can be compared with a host's.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparable {
    /// True if everything said before no longer holds.
    pub anew: bool,
    /// Multiplies all certainties, those said before as well. At least 1.
    pub factor: f64,
    /// Hosts that are comparable from now on, or whose certainty has changed; perhaps the host itself.
    pub known: Vec<Alike>,
    /// Hosts that are not comparable any more.
    pub unknown: Vec<IpAddr>,
}

/// Hosts whose clocks are known equally well.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Alike {
    /// As in [`Certainty`].
    pub sigma: f64,
    /// As in [`Certainty`].
    pub drift_sigma: f64,
    /// The hosts.
    pub hosts: Vec<IpAddr>,
}

/// CLOCK_REALTIME of the coordinator's host by the fleet's time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Realtime {
    /// When, of the fleet's time in nanoseconds.
    pub at: i64,
    /// How far it was ahead of the fleet's time then, in nanoseconds.
    pub ahead: i64,
    /// How much faster it runs than the fleet's time, in seconds per second.
    pub drift: f64,
}

/// How a fleet is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Fleet {
    /// Its hosts.
    pub hosts: Vec<HostState>,
    /// Groups of hosts whose times can be compared; one, if all is well.
    pub parts: Vec<Vec<IpAddr>>,
    /// Pairs whose probes disagree with all others, and by how many nanoseconds.
    pub excluded: Vec<(IpAddr, IpAddr, f64)>,
    /// Standard deviation of what one pair's probes say, in nanoseconds.
    pub edge_sigma_ns: f64,
    /// Rounds so far.
    pub rounds: u64,
    /// One-way delays of each pair that probes, in both directions.
    pub delays: Vec<Pair>,
    /// The policy's present version.
    #[serde(default)]
    pub policy: Option<Version>,
    /// Members that the coordinator knows and that are not connected to it, but for those in `hosts`.
    #[serde(default)]
    pub away: BTreeSet<IpAddr>,
}

/// How far a fleet's policy has come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The coordinator's version; 0: it has none.
    pub version: u64,
    /// The newest that it or any of its hosts has.
    pub newest: u64,
    /// Hosts that are connected.
    pub hosts: usize,
    /// Those of them that go by the coordinator's version.
    pub confirmed: usize,
    /// Those that hold packets.
    pub enforcing: usize,
    /// The coordinator's version, whole: where another one is older, it takes that up.
    #[serde(default)]
    pub policy: Option<Version>,
    /// Members that are not connected to it.
    #[serde(default)]
    pub away: BTreeSet<IpAddr>,
}

/// A host of the fleet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostState {
    /// Its address.
    pub address: IpAddr,
    /// It is connected to the coordinator.
    pub connected: bool,
    /// "synchronised", or what is wrong.
    pub state: String,
    /// When its certificate expires, in seconds since 1970 by the coordinator's clock.
    #[serde(default)]
    pub certificate_expires: Option<u64>,
    /// Standard deviation of its clock, in nanoseconds.
    pub uncertainty_ns: Option<f64>,
    /// How much faster its clock runs than the fleet's time, in parts per million.
    pub drift_ppm: Option<f64>,
    /// Its labels.
    #[serde(default)]
    pub labels: Labels,
    /// The policy it goes by, and its mode; `None`: it has said nothing of that, as an earlier version does.
    #[serde(default)]
    pub policy: Option<Applied>,
    /// Effects on its traffic so far, as it last said; `None`: it has said nothing of that, as an earlier version does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effects: Option<Effects>,
}

/// One-way delays from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pair {
    /// From this one.
    pub from: IpAddr,
    /// To this one.
    pub to: IpAddr,
    /// The delays.
    pub owd: Delays,
}

/// Reads a line, without its end.
///
/// # Errors
/// It is not understood.
pub fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, String> {
    serde_json::from_slice(line).map_err(|e| format!("not understood: {e}"))
}

impl FromHost {
    /// Returns whether all numbers are such as a host can have measured.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Hello { correction, aliases, labels, .. } => {
                let its_own = aliases.len() <= MAX_ALIASES && aliases.iter().all(|alias| usable(*alias).is_ok());
                its_own && policy::check(labels).is_ok() && correction.is_none_or(|c| is_sound(&c))
            }
            Self::Report { edges, realtime, .. } => {
                let edges_are = edges.len() <= MAX_EDGES && edges.iter().all(Edge::is_sound);
                edges_are && realtime.is_none_or(|realtime| realtime.is_sound())
            }
            Self::Applied(applied) => applied.is_sound(),
            Self::Effects(effects) => effects.is_sound(),
            Self::Policy(version) => version.is_sound(),
            Self::Join { .. }
            | Self::Renewed
            | Self::Fleet
            | Self::Progress
            | Self::Remove { .. }
            | Self::Vouch { .. }
            | Self::Unknown => true,
        }
    }
}

impl Edge {
    /// Returns whether it is one that a host can have measured: who says another is not heard.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let f = &self.fit;
        let numbers = [f.delay, f.residual, f.sigma, f.drift_sigma, f.noise, f.queue];
        numbers.iter().all(|n| n.is_finite()) && f.sigma >= 0.0 && f.drift.abs() <= MAX_DRIFT
    }
}

/// Returns whether a correction is one that a coordinator can have made.
#[must_use]
pub fn is_sound(c: &Correction) -> bool {
    let spreads = [c.sigma, c.drift_sigma, c.wander];
    c.drift.abs() <= MAX_DRIFT && spreads.iter().all(|s| s.is_finite() && *s >= 0.0)
}

impl Realtime {
    /// Returns whether it is such as a coordinator's host can have measured.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.drift.abs() <= MAX_DRIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::config::quantity::Threshold;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn fit() -> EdgeFit {
        EdgeFit { drift: 3e-5, sigma: 2.5, ..crate::fleet::fit(u64::MAX / 3, -100_000_000_000_000_000) }
    }

    fn report(fit: EdgeFit) -> FromHost {
        let delays = Delays { min_ns: 1, p50_ns: 2, p99_ns: 3 };
        let edge = Edge { to: [10, 0, 0, 2].into(), fit, forward: delays, backward: delays };
        FromHost::Report { round: 7, edges: vec![edge], realtime: None }
    }

    #[test]
    fn what_is_said_is_heard() {
        let (address, alias) = ([10, 0, 0, 2].into(), [10, 1, 0, 2].into());
        let members = vec![Member { address, aliases: vec![alias], statement: "c2F5cw".into() }];
        let (not_yours, epochs) = (vec![alias], Epochs { sign: 3, accept: 4 });
        let members = FromCoordinator::Members { members, not_yours, epochs, probe: vec![], interval: 1, window: 2 };
        let line = serde_json::to_vec(&members).unwrap();
        assert_eq!(parse::<FromCoordinator>(&line), Ok(members));
        let line = serde_json::to_vec(&report(fit())).unwrap();
        assert_eq!(parse::<FromHost>(&line), Ok(report(fit())));
        assert!(report(fit()).is_sound());
    }

    #[test]
    fn what_a_later_version_adds_is_ignored() {
        let line = serde_json::to_string(&report(fit())).unwrap();
        let more = line.replace("\"to\"", "\"why\":{\"a\":[1]},\"to\"").replace("\"round\"", "\"more\":1,\"round\"");
        assert_ne!(line, more);
        assert_eq!(parse(more.as_bytes()), Ok(report(fit())));
        assert_eq!(parse(b"{\"say\":\"canary\",\"version\":7}"), Ok(FromHost::Unknown));
        assert_eq!(parse(b"{\"say\":\"canary\",\"version\":7}"), Ok(FromCoordinator::Unknown));
    }

    #[test]
    fn the_newest_version_that_both_speak_is_spoken_and_who_is_older_is_named() {
        let speaks = |oldest, newest| Speaks { oldest, newest };
        assert_eq!(speaks(2, 4).with(speaks(1, 3)), Ok(3));
        assert_eq!(speaks(2, 4).with(speaks(4, 9)), Ok(4));
        let older = "speaks an earlier version of the protocol, and the coordinator versions 2 to 4: upgrade the host";
        assert_eq!(speaks(2, 4).with(Speaks::default()), Err(older.into()));
        let newer = "speaks version 5 of the protocol, and the coordinator versions 2 to 4: upgrade the coordinator";
        assert_eq!(speaks(2, 4).with(speaks(5, 5)), Err(newer.into()));
        let old = b"{\"say\":\"hello\",\"address\":\"10.0.0.2\",\"version\":\"0.1.0\",\"by_programs\":true}";
        let Ok(FromHost::Hello { speaks, .. }) = parse(old) else { panic!("an old host is understood as far as that") };
        assert!(SPEAKS.with(speaks).is_err());
    }

    #[test]
    fn a_policy_is_heard_and_what_has_no_bounds_is_not_sound() {
        let says = Some(policy::Says { mode: Mode::Enforce, threshold: Some(Threshold::Auto), rule: Some(1) });
        let (by, from) = ("root".to_owned(), "a".to_owned());
        let said = Said {
            version: u64::MAX,
            at: 7,
            by,
            from,
            stopped: true,
            stop: Some("x".repeat(policy::MAX_TEXT)),
            keep: policy::KEEP,
            says,
        };
        let line = serde_json::to_vec(&FromCoordinator::Policy(said.clone())).unwrap();
        assert_eq!(parse(&line), Ok(FromCoordinator::Policy(said)));
        let applied = |why: String| FromHost::Applied(Applied { version: 7, mode: Mode::Observe, why });
        let line = serde_json::to_vec(&applied("so".into())).unwrap();
        assert_eq!(parse(&line), Ok(applied("so".into())));
        assert!(applied("so".into()).is_sound());
        assert!(!applied("x".repeat(policy::MAX_TEXT + 1)).is_sound() && !applied("a\nb".into()).is_sound());
        let labels: Labels = (0..99).map(|n| (n.to_string(), "x".into())).collect();
        let (address, version) = ([10, 0, 0, 2].into(), "0".into());
        let (correction, aliases) = (None, vec![]);
        let hello =
            FromHost::Hello { address, version, correction, by_programs: true, aliases, labels, speaks: SPEAKS };
        assert!(!hello.is_sound());
    }

    #[test]
    fn effects_are_heard_and_what_nobody_can_count_is_not_sound() {
        let owd = vec![(5, 7), (63, 1)].into();
        let effects = Effects { since: u64::MAX, owd, segments: 1 << 53 | 1, ..Effects::default() };
        let said = FromHost::Effects(effects.clone());
        let line = serde_json::to_vec(&said).unwrap();
        assert_eq!(parse(&line), Ok(said.clone()));
        assert!(said.is_sound());
        assert!(!FromHost::Effects(Effects { acked_bytes: u64::MAX, ..effects }).is_sound());
    }

    #[test]
    fn numbers_are_heard_to_the_last_bit() {
        // The first was once heard as 7.071067811865476e-13.
        for drift_sigma in [7.071067811865475e-13, 5e-324, 0.1 + 0.2, f64::MAX] {
            let said = report(EdgeFit { drift_sigma, ..fit() });
            assert_eq!(parse(&serde_json::to_vec(&said).unwrap()), Ok(said));
        }
    }

    #[test]
    fn what_nobody_can_measure_is_not_sound() {
        for bad in [
            EdgeFit { drift: 0.5, ..fit() },
            EdgeFit { sigma: -1.0, ..fit() },
            EdgeFit { sigma: f64::INFINITY, ..fit() },
            EdgeFit { delay: f64::NAN, ..fit() },
        ] {
            assert!(!report(bad).is_sound(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_message_or_refused(bytes in vec(any::<u8>(), 0..300)) {
            let _ = parse::<FromHost>(&bytes);
            let _ = parse::<FromCoordinator>(&bytes);
        }

        #[test]
        fn a_changed_line_is_a_message_or_refused(at in 0usize..400, byte in any::<u8>()) {
            let mut line = serde_json::to_vec(&report(fit())).unwrap();
            let length = line.len();
            line[at % length] = byte;
            let _ = parse::<FromHost>(&line).map(|m| m.is_sound());
        }
    }
}
