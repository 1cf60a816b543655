//! Effects on a host's traffic to its peers: one-way delays, TCP's retransmissions, goodput, time held. Pure but for
//! the journal.
//!
//! [`Effects`] are counters that only grow. What happened in between is their difference ([`Effects::minus`]); hosts
//! and paths are summed by [`Effects::plus`]. [`count`] makes them of what the kernel counts, [`blocks`] cuts them into
//! a history, which [`journal`] keeps.

pub mod blocks;
pub mod compare;
pub mod count;
mod histogram;
pub mod jackknife;
pub mod journal;

pub use histogram::Histogram;

use serde::{Deserialize, Serialize};

/// Which of TCP's counters this host's kernel gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", from = "String")]
pub enum Tcp {
    /// None: segments, retransmissions, timeouts and bytes acknowledged are 0 and mean nothing.
    None,
    /// All but timeouts, as Linux before 6.7.
    WithoutTimeouts,
    /// All.
    #[default]
    All,
}

/// Takes a word that only a later version knows for [`Tcp::None`].
impl From<String> for Tcp {
    fn from(word: String) -> Self {
        match word.as_str() {
            "all" => Self::All,
            "without-timeouts" => Self::WithoutTimeouts,
            _ => Self::None,
        }
    }
}

/// Counters of traffic to one peer, or to all.
///
/// The default is the neutral element of [`Self::plus`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Effects {
    /// Identifies the run of these counters, and changes when they start anew: when that was, in nanoseconds since
    /// 1970. Of a sum, the sum.
    pub since: u64,
    /// Time counted [ns]; of a sum over hosts, host-time.
    pub elapsed_ns: u64,
    /// One-way delays of data packets, by OR-ACKs.
    pub owd: Histogram,
    /// Time in which some packet to a peer was held [ns], summed over peers. While the mode is to observe, the time
    /// for which packets would have been held.
    pub held_ns: u64,
    /// Which of the counters below mean something.
    pub tcp: Tcp,
    /// TCP data segments sent, retransmitted ones too.
    pub segments: u64,
    /// TCP segments retransmitted.
    pub retransmitted: u64,
    /// TCP's retransmission timeouts (RTOs).
    pub timeouts: u64,
    /// Bytes that peers acknowledged (goodput).
    pub acked_bytes: u64,
}

impl Effects {
    /// Difference since `before`. `None` if the counters started anew meanwhile.
    #[must_use]
    pub fn minus(&self, before: &Self) -> Option<Self> {
        if self.since != before.since {
            return None;
        }
        Some(Self {
            since: self.since,
            elapsed_ns: self.elapsed_ns.checked_sub(before.elapsed_ns)?,
            owd: self.owd.minus(&before.owd)?,
            held_ns: self.held_ns.checked_sub(before.held_ns)?,
            // Counters that were not there yet were 0.
            tcp: self.tcp,
            segments: self.segments.checked_sub(before.segments)?,
            retransmitted: self.retransmitted.checked_sub(before.retransmitted)?,
            timeouts: self.timeouts.checked_sub(before.timeouts)?,
            acked_bytes: self.acked_bytes.checked_sub(before.acked_bytes)?,
        })
    }

    /// Both together. It gives no more of TCP's counters than either.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            since: self.since.wrapping_add(other.since),
            elapsed_ns: self.elapsed_ns.saturating_add(other.elapsed_ns),
            owd: self.owd.plus(&other.owd),
            held_ns: self.held_ns.saturating_add(other.held_ns),
            tcp: self.tcp.min(other.tcp),
            segments: self.segments.saturating_add(other.segments),
            retransmitted: self.retransmitted.saturating_add(other.retransmitted),
            timeouts: self.timeouts.saturating_add(other.timeouts),
            acked_bytes: self.acked_bytes.saturating_add(other.acked_bytes),
        }
    }

    /// Returns whether a host can have counted this: who says another is not heard. It bounds what a sum over hosts
    /// may come to.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let counts =
            [self.elapsed_ns, self.held_ns, self.segments, self.retransmitted, self.timeouts, self.acked_bytes];
        counts.iter().all(|n| *n < 1 << 63) && self.owd.is_sound()
    }

    /// Share of data segments that were retransmissions. `None` if none was sent, or the kernel does not tell.
    #[must_use]
    pub fn retransmitted_share(&self) -> Option<f64> {
        (self.tcp >= Tcp::WithoutTimeouts).then(|| ratio(self.retransmitted, self.segments))?
    }

    /// Timeouts per gigabyte acknowledged. `None` if nothing was acknowledged, or the kernel does not tell.
    #[must_use]
    pub fn timeouts_per_gigabyte(&self) -> Option<f64> {
        (self.tcp == Tcp::All).then(|| ratio(self.timeouts, self.acked_bytes).map(|per_byte| per_byte * 1e9))?
    }

    /// Bytes acknowledged a second. `None` if no time has passed, or the kernel does not tell.
    #[must_use]
    pub fn goodput(&self) -> Option<f64> {
        (self.tcp >= Tcp::WithoutTimeouts)
            .then(|| ratio(self.acked_bytes, self.elapsed_ns).map(|per_ns| per_ns * 1e9))?
    }

    /// Share of time held; of several paths, the sum of their shares. `None` if no time has passed.
    #[must_use]
    pub fn held_share(&self) -> Option<f64> {
        ratio(self.held_ns, self.elapsed_ns)
    }
}

fn ratio(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Effects with these counters, in the order of their declaration.
    pub(crate) fn effects(since: u64, counts: [u64; 6], owd: &[(u8, u64)], tcp: Tcp) -> Effects {
        let [elapsed_ns, held_ns, segments, retransmitted, timeouts, acked_bytes] = counts;
        let owd = Histogram::from(owd.to_vec());
        Effects { since, elapsed_ns, owd, held_ns, tcp, segments, retransmitted, timeouts, acked_bytes }
    }

    fn any_effects() -> impl Strategy<Value = Effects> {
        let tcp = prop_oneof![Just(Tcp::None), Just(Tcp::WithoutTimeouts), Just(Tcp::All)];
        let owd = proptest::collection::vec((0..64u8, 1..1000u64), 0..20);
        let counts = proptest::array::uniform6(0..1u64 << 40);
        (any::<u64>(), counts, owd, tcp).prop_map(|(since, counts, owd, tcp)| effects(since, counts, &owd, tcp))
    }

    #[test]
    fn shares_and_rates_are_of_what_was_counted() {
        let e = effects(1, [2_000_000_000, 500_000_000, 200, 3, 4, 2_000_000_000], &[], Tcp::All);
        assert_eq!(e.retransmitted_share(), Some(0.015));
        assert_eq!(e.timeouts_per_gigabyte(), Some(2.0));
        assert_eq!(e.goodput(), Some(1e9));
        assert_eq!(e.held_share(), Some(0.25));
        let nothing = Effects::default();
        assert_eq!((nothing.retransmitted_share(), nothing.goodput(), nothing.held_share()), (None, None, None));
    }

    #[test]
    fn a_kernel_that_does_not_tell_gives_no_figures() {
        let without = |tcp| Effects { tcp, ..effects(1, [9; 6], &[], Tcp::All) };
        let older = without(Tcp::WithoutTimeouts);
        assert!(older.retransmitted_share().is_some() && older.timeouts_per_gigabyte().is_none());
        let none = without(Tcp::None);
        assert!(none.retransmitted_share().is_none() && none.goodput().is_none() && none.held_share().is_some());
        let sum = Effects::default().plus(&older).plus(&without(Tcp::All));
        assert_eq!((sum.tcp, sum.segments), (Tcp::WithoutTimeouts, 18));
    }

    #[test]
    fn counters_that_start_anew_have_no_difference() {
        let before = effects(1, [5; 6], &[(3, 7)], Tcp::All);
        assert_eq!(Effects { since: 2, ..before.clone() }.minus(&before), None);
        assert_eq!(Effects { segments: 4, ..before.clone() }.minus(&before), None);
        assert_eq!(Effects { owd: Histogram::default(), ..before.clone() }.minus(&before), None);
    }

    #[test]
    fn json_is_short_and_bounded() {
        let e = effects(7, [1, 2, 3, 4, 5, 6], &[(3, 7), (60, 1)], Tcp::All);
        let text = serde_json::to_string(&e).unwrap();
        assert_eq!(
            text,
            "{\"since\":7,\"elapsed_ns\":1,\"owd\":[[3,7],[60,1]],\"held_ns\":2,\"tcp\":\"all\",\"segments\":3,\
             \"retransmitted\":4,\"timeouts\":5,\"acked_bytes\":6}"
        );
        let later = text.replace("\"all\"", "\"more\"").replace("{\"since\"", "{\"more\":1,\"since\"");
        assert_eq!(serde_json::from_str::<Effects>(&later).unwrap(), Effects { tcp: Tcp::None, ..e });
        let full = effects(u64::MAX, [u64::MAX; 6], &(0..64).map(|i| (i, u64::MAX)).collect::<Vec<_>>(), Tcp::All);
        assert!(serde_json::to_string(&full).unwrap().len() < 2048);
        assert!(!full.is_sound());
    }

    proptest! {
        #[test]
        fn what_is_added_is_what_happened(before in any_effects(), more in any_effects()) {
            let more = Effects { since: 0, ..more };
            let after = before.plus(&more);
            let happened = Effects { since: before.since, tcp: before.tcp.min(more.tcp), ..more };
            prop_assert_eq!(after.minus(&before), Some(happened));
        }

        #[test]
        fn sums_do_not_depend_on_order(a in any_effects(), b in any_effects(), c in any_effects()) {
            prop_assert_eq!(a.plus(&b), b.plus(&a));
            prop_assert_eq!(a.plus(&b).plus(&c), a.plus(&b.plus(&c)));
            prop_assert_eq!(a.plus(&Effects::default()), a);
        }

        #[test]
        fn what_is_written_is_read(e in any_effects()) {
            prop_assert!(e.is_sound());
            prop_assert_eq!(serde_json::from_str::<Effects>(&serde_json::to_string(&e).unwrap()).unwrap(), e);
        }
    }
}
