//! A host's knowledge of its clock and the others', as the programs are told of it. Pure.

use super::Other;
use crate::abi::or_clock;
use crate::config::{Fleet, MAX_PEERS, Peer};
use crate::fleet::wire::{Alike, Certainty, Comparable, Realtime};
use crate::policy::Held;
use onramp_clock::Correction;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// A host's knowledge of its fleet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// The other members.
    pub members: BTreeMap<IpAddr, Other>,
    /// Aliases of this host that are not its own by the coordinator.
    pub not_yours: Vec<IpAddr>,
    /// Members that have no key with this host, and why.
    pub without_key: Option<String>,
    /// Why this host's certificate is not renewed though it was to be.
    pub not_renewed: Option<String>,
    /// Correction of this host's clock.
    pub correction: Option<Correction>,
    /// Why there is none.
    pub reason: String,
    /// Hosts whose times can be compared with this one's.
    pub comparable: BTreeMap<IpAddr, Certainty>,
    /// Multiplies these certainties.
    pub factor: f64,
    /// Standard deviation of a time stamp's noise, in nanoseconds.
    pub noise: f64,
    /// The time of day.
    pub realtime: Option<Realtime>,
    /// The coordinator, while it is connected.
    pub coordinator: Option<SocketAddr>,
    /// Why it is not.
    pub trouble: String,
    /// The fleet's policy.
    pub policy: Held,
    /// Why that does not outlive this agent.
    pub policy_not_kept: Option<String>,
}

/// Clock and peers that the programs are told.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// This host's clock against the fleet's time, if it is known well enough.
    pub clock: Option<or_clock>,
    /// Why it is not.
    pub reason: String,
    /// Standard deviation of this host's clock at the moment, in nanoseconds.
    pub uncertainty: Option<f64>,
    /// The other members, under each of their addresses.
    pub peers: Vec<Peer>,
    /// Addresses of members for which the programs have no room.
    pub left_out: usize,
}

impl View {
    /// Takes over what a round gave.
    pub fn correct(&mut self, correction: Option<Correction>, reason: String, noise: f64) {
        self.correction = correction.filter(crate::fleet::wire::is_sound);
        let unsound = correction.filter(|_| self.correction.is_none());
        self.reason = unsound.map_or(reason, |c| {
            format!("the correction is none that a clock can have: {:.0} ppm, off by {:.0} ns", 1e6 * c.drift, c.sigma)
        });
        self.noise = noise.max(0.0);
    }

    /// Takes over changes of which hosts are comparable.
    pub fn change_comparable(&mut self, changes: &Comparable) {
        if changes.anew {
            self.comparable.clear();
        }
        self.factor = changes.factor.max(1.0);
        changes.unknown.iter().for_each(|address| _ = self.comparable.remove(address));
        for Alike { sigma, drift_sigma, hosts } in &changes.known {
            let certainty = |address| Certainty { address, sigma: *sigma, drift_sigma: *drift_sigma };
            self.comparable.extend(hosts.iter().map(|host| (*host, certainty(*host))));
        }
    }

    /// Takes over changes of the members.
    pub fn change_members(&mut self, members: Vec<Other>, gone: &[IpAddr], not_yours: Option<Vec<IpAddr>>) {
        gone.iter().for_each(|address| _ = self.members.remove(address));
        self.members.extend(members.into_iter().map(|member| (member.address, member)));
        self.not_yours = not_yours.unwrap_or(std::mem::take(&mut self.not_yours));
    }

    /// The correction no longer holds.
    pub fn withdraw(&mut self, reason: &str) {
        self.correction = None;
        self.reason = reason.into();
    }

    /// Returns what the programs are told when this host's uncorrected clock shows `reading`.
    #[must_use]
    pub fn settings(&self, fleet: &Fleet, reading: u64) -> Settings {
        let limit = fleet.max_uncertainty as f64;
        let uncertainty = self.correction.map(|c| c.uncertainty_at(reading));
        let known = self.correction.filter(|_| uncertainty.is_some_and(|u| u <= limit));
        let reason = match (&self.correction, uncertainty) {
            (Some(_), Some(u)) if u > limit => {
                let away = if self.trouble.is_empty() { String::new() } else { format!(": {}", self.trouble) };
                format!("the clock is off by {:.0} us, maybe; {:.0} us are allowed{away}", u / 1e3, limit / 1e3)
            }
            (Some(_), _) => String::new(),
            (None, _) if !self.trouble.is_empty() => self.trouble.clone(),
            (None, _) if self.reason.is_empty() => "waiting for a first round".into(),
            (None, _) => self.reason.clone(),
        };
        // Both ends of a path: the clock of each, and the stamp of each.
        let both = |own: &Correction, c: &Certainty| {
            let [sigma, drift_sigma] = [c.sigma, c.drift_sigma].map(|s| s * self.factor.max(1.0));
            let other = Correction { sigma, drift_sigma, ..*own }.uncertainty_at(reading);
            let u = own.uncertainty_at(reading);
            (other <= limit).then(|| (2.0 * (u * u + other * other).sqrt() + 2.0 * self.noise).ceil().max(1.0) as u64)
        };
        let peer = |(address, member): (IpAddr, &Other)| {
            let certainty = self.comparable.get(&member.address);
            let uncertainty = known.as_ref().zip(certainty).and_then(|(own, certainty)| both(own, certainty));
            Peer::new(address, member.keys, uncertainty.map(|_| 0), uncertainty.unwrap_or(0))
        };
        let addresses = self.members.iter().map(|(address, m)| (*address, m));
        let aliases = self.members.values().flat_map(|m| m.aliases.iter().map(move |alias| (*alias, m)));
        let all = self.members.values().map(|m| 1 + m.aliases.len()).sum::<usize>();
        Settings {
            left_out: all.saturating_sub(MAX_PEERS),
            clock: known.map(|c| or_clock { base: c.base, offset: c.offset, drift: fixed_point(c.drift) }),
            reason,
            uncertainty,
            peers: addresses.chain(aliases).take(MAX_PEERS).map(peer).collect(),
        }
    }
}

/// Seconds per second in units of 2^-32.
fn fixed_point(drift: f64) -> i64 {
    (drift * (1u64 << 32) as f64).round() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Key, load};
    use std::path::Path;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const ALIAS: IpAddr = IpAddr::V6(std::net::Ipv6Addr::LOCALHOST);

    fn fleet() -> Fleet {
        let text = "interface = \"eth0\"\n[fleet]\naddress = \"10.0.0.1\"\ncoordinators = [\"10.0.0.1:9472\"]\n\
                    max_uncertainty = \"10us\"";
        load(text, "test", Path::new("")).unwrap().fleet.unwrap()
    }

    fn view() -> View {
        let correction =
            Correction { base: 1_000, offset: -5, drift: 1.0 / 65536.0, sigma: 300.0, drift_sigma: 1e-7, wander: 0.0 };
        View {
            members: [(PEER, Other { address: PEER, aliases: vec![ALIAS], keys: Key([1; 16]).into() })].into(),
            correction: Some(correction),
            comparable: [(PEER, Certainty { address: PEER, sigma: 400.0, drift_sigma: 0.0 })].into(),
            noise: 50.0,
            ..View::default()
        }
    }

    #[test]
    fn a_delay_has_both_clocks_uncertainty_and_the_noise_of_stamps() {
        let settings = view().settings(&fleet(), 1_000);
        assert_eq!(settings.clock.map(|c| (c.base, c.offset, c.drift)), Some((1_000, -5, 65_536)));
        assert_eq!((settings.peers[0].clock_offset, settings.peers[0].uncertainty), (Some(0), 2 * 500 + 2 * 50));
        let [first, alias] = &settings.peers[..] else { panic!("{settings:?}") };
        assert_eq!(*alias, Peer { address: ALIAS, ..first.clone() }, "one host, one clock");
    }

    #[test]
    fn uncertainty_grows_with_age_until_nothing_is_measured_any_more() {
        let at = |s: u64| view().settings(&fleet(), 1_000 + s * 1_000_000_000);
        let grows = [0, 1, 50].map(|s| at(s).peers[0].uncertainty);
        assert!(grows.is_sorted_by(|a, b| a < b), "{grows:?}");
        // 100 ns a second: 10 us after 100 s.
        assert!(at(99).clock.is_some() && at(99).reason.is_empty());
        let old = at(101);
        assert_eq!((old.clock, old.peers[0].clock_offset), (None, None));
        assert!(old.reason.contains("10 us are allowed"), "{}", old.reason);
    }

    #[test]
    fn who_cannot_be_compared_is_not_measured() {
        let settings = |view: View| view.settings(&fleet(), 1_000);
        let other_part = settings(View { comparable: BTreeMap::new(), ..view() });
        assert!(other_part.clock.is_some() && other_part.peers[0].clock_offset.is_none());
        let mut stepped = view();
        stepped.withdraw("it stepped");
        let stepped = settings(stepped);
        assert!(stepped.clock.is_none() && stepped.peers[0].clock_offset.is_none() && stepped.reason == "it stepped");
        let alone = settings(View::default());
        assert_eq!((alone.reason.as_str(), alone.peers.len()), ("waiting for a first round", 0));
    }
}
