//! Judges if holding does a path any good, and if the delays that its peer reports can be true. Pure.
//!
//! A T below what the path can reach, a wrong clock and a peer that lies end alike: delays never come
//! down to T, however long packets are held. Then nothing is held any more, or T follows a path that has
//! become longer. What tells a longer path from congestion is its floor: without a queue the least delays of
//! successive windows agree, in a queue they do not.

use crate::abi::{OR_WINDOW_SHIFT, or_path, or_window};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// Nanoseconds of a window of [`or_window`].
const WINDOW: u64 = 1 << OR_WINDOW_SHIFT;
/// Windows whose least delays have to agree to be a floor: T follows within 10 s, also with one that differs.
const FLOOR: u32 = 4;
/// Windows in which holding had no effect, or most reports did not fit, until it ends.
const IN_VAIN: u32 = 2;
/// Reports that say something about a window.
const FEW: u32 = 16;
/// Nothing is held for so long, twice as long each time until [`LAST_BREAK`], in nanoseconds.
const FIRST_BREAK: u64 = 10_000_000_000;
const LAST_BREAK: u64 = 32 * FIRST_BREAK;
/// Least delays that differ by so much agree whatever the clocks are good for: stamps are taken in software.
const AGREE: u64 = 1_000;

/// Bounds of a path.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// T in force, in nanoseconds.
    pub threshold: u64,
    /// T follows the path's least delay.
    pub follows: bool,
    /// Uncertainty of a one-way delay, in nanoseconds.
    pub uncertainty: u64,
    /// Largest share of time for which a path is held without effect; 1: there is no bound.
    pub max_share: f64,
}

/// Why nothing is held on a path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reason {
    /// T is below the path's floor.
    BelowFloor {
        /// Floor, in nanoseconds.
        floor: i64,
        /// T, in nanoseconds.
        threshold: u64,
    },
    /// Delays did not come down to T.
    WithoutEffect {
        /// Share of time for which the path was held.
        share: f64,
        /// Least delay meanwhile, in nanoseconds.
        least: i64,
        /// T, in nanoseconds.
        threshold: u64,
    },
    /// Most of the peer's reports cannot be true.
    Misfit {
        /// Reports refused.
        refused: u32,
        /// All of them.
        of: u32,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let us = |ns: u64| ns as f64 / 1e3;
        match *self {
            Self::BelowFloor { floor, threshold } => write!(
                f,
                "T of {:.1} us is below the path's least delay of {:.1} us: raise threshold, or write \"auto\" in a fleet",
                us(threshold),
                floor as f64 / 1e3
            ),
            Self::WithoutEffect { share, least, threshold } => write!(
                f,
                "held {:.0}% of the time without effect: delays stayed above {:.1} us, T is {:.1} us",
                share * 100.0,
                least as f64 / 1e3,
                us(threshold)
            ),
            Self::Misfit { refused, of } => {
                write!(
                    f,
                    "{refused} of {of} OR-ACKs in a second tell delays that cannot be: its clock is wrong, or it lies"
                )
            }
        }
    }
}

/// Knowledge of all paths.
#[derive(Debug, Default)]
pub struct Bounds {
    paths: BTreeMap<IpAddr, Watched>,
    /// Number of the window in which they were last looked at.
    looked: u64,
}

#[derive(Debug, Default)]
struct Watched {
    /// Number of the last window looked at.
    seen: u64,
    floor: Option<Floor>,
    in_vain: u32,
    misfits: u32,
    free: Option<(Reason, Until)>,
    /// Length of the last break, and when it ended.
    last_break: (u64, u64),
    /// When the least delay was learnt anew.
    renewed: u64,
    /// Time for which it was held, of all windows looked at.
    held: u64,
}

/// How long nothing is held.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Until {
    Time(u64),
    /// A delay is below T.
    Reached,
}

/// Least delays of successive windows that agree.
#[derive(Clone, Copy, Debug)]
struct Floor {
    low: i64,
    high: i64,
    windows: u32,
}

impl Bounds {
    /// Returns whether a window has ended since this was last asked: else there is nothing to look at.
    pub fn are_due(&mut self, now: u64) -> bool {
        let before = std::mem::replace(&mut self.looked, now / WINDOW);
        self.looked > before
    }

    /// Looks at a path. Returns why nothing is held on it from now on, if that is new.
    pub fn look(&mut self, peer: IpAddr, path: &or_path, limits: &Limits, now: u64) -> Option<Reason> {
        self.paths.entry(peer).or_default().look(path, limits, now)
    }

    /// Forgets all paths but those to `peers`.
    pub fn keep(&mut self, peers: impl Fn(&IpAddr) -> bool) {
        self.paths.retain(|peer, _| peers(peer));
    }

    /// Why nothing is held on the path to `peer`.
    #[must_use]
    pub fn free(&self, peer: &IpAddr) -> Option<Reason> {
        Some(self.paths.get(peer)?.free?.0)
    }

    /// Time in which some packet to `peer` had to wait, in nanoseconds, of the windows that have ended.
    #[must_use]
    pub fn held(&self, peer: &IpAddr) -> u64 {
        self.paths.get(peer).map_or(0, |watched| watched.held)
    }

    /// When the least delay to `peer` was last to be learnt anew.
    #[must_use]
    pub fn renewed(&self, peer: &IpAddr) -> u64 {
        self.paths.get(peer).map_or(0, |watched| watched.renewed)
    }
}

impl Watched {
    fn look(&mut self, path: &or_path, limits: &Limits, now: u64) -> Option<Reason> {
        self.free = self.free.filter(|(_, until)| !matches!(until, Until::Time(end) if now >= *end));
        let mut complete = path.windows.map(|w| (w.number > self.seen && w.number < now / WINDOW).then_some(w));
        complete.sort_by_key(|w| w.map(|w| w.number));
        complete.into_iter().flatten().fold(None, |new, window| self.judge(&window, limits, now).or(new))
    }

    fn judge(&mut self, window: &or_window, limits: &Limits, now: u64) -> Option<Reason> {
        self.seen = window.number;
        self.held += window.held.min(WINDOW);
        let misfits = window.refused >= FEW && window.refused > window.or_acks;
        self.misfits = if misfits { self.misfits + 1 } else { 0 };
        if self.misfits >= IN_VAIN {
            let reason = Reason::Misfit { refused: window.refused, of: window.refused + window.or_acks };
            return self.take_break(reason, limits, now);
        }
        if window.or_acks == 0 {
            return None;
        }
        let (least, threshold) = (window.least, limits.threshold);
        if least <= threshold as i64 {
            (self.floor, self.in_vain) = (None, 0);
            self.free = self.free.filter(|(_, until)| *until != Until::Reached);
            return None;
        }
        if self.floor(least, limits) >= FLOOR {
            self.floor = None;
            self.in_vain = 0;
            if limits.follows {
                self.renewed = now;
                return None;
            }
            return self.set_free(Reason::BelowFloor { floor: least, threshold }, Until::Reached, limits);
        }
        let share = window.held as f64 / WINDOW as f64;
        self.in_vain = if share > limits.max_share { self.in_vain + 1 } else { 0 };
        if self.in_vain < IN_VAIN {
            return None;
        }
        self.take_break(Reason::WithoutEffect { share: share.min(1.0), least, threshold }, limits, now)
    }

    /// Takes in the least delay of a window. Returns how many there are that agree.
    fn floor(&mut self, least: i64, limits: &Limits) -> u32 {
        let before = self.floor.unwrap_or(Floor { low: least, high: least, windows: 0 });
        let (low, high) = (before.low.min(least), before.high.max(least));
        let agree = high.abs_diff(low) <= (limits.uncertainty / 2).max(AGREE);
        let (low, high, windows) = if agree { (low, high, before.windows + 1) } else { (least, least, 1) };
        self.floor = Some(Floor { low, high, windows });
        windows
    }

    fn take_break(&mut self, reason: Reason, limits: &Limits, now: u64) -> Option<Reason> {
        (self.in_vain, self.misfits) = (0, 0);
        let (length, ended) = self.last_break;
        // Long after the last one it is another matter.
        let length = if now.saturating_sub(ended) > 10 * length { FIRST_BREAK } else { (2 * length).min(LAST_BREAK) };
        let new = self.set_free(reason, Until::Time(now + length), limits);
        if new.is_some() {
            self.last_break = (length, now + length);
        }
        new
    }

    fn set_free(&mut self, reason: Reason, until: Until, limits: &Limits) -> Option<Reason> {
        if limits.max_share >= 1.0 || self.free.is_some() {
            return None;
        }
        self.free = Some((reason, until));
        Some(reason)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytemuck::Zeroable as _;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const SECOND: u64 = 1_000_000_000;
    const US: i64 = 1_000;

    /// A path, seen as the programs see it.
    struct Watch {
        bounds: Bounds,
        path: or_path,
        limits: Limits,
        floor: u64,
        windows: u64,
        said: Vec<(u64, Reason)>,
    }

    impl Watch {
        /// T as configured, or 50 us and more as the path's least delay has it.
        fn new(fixed: Option<u64>) -> Self {
            let limits = Limits {
                threshold: fixed.unwrap_or(50_000),
                follows: fixed.is_none(),
                uncertainty: 4_000,
                max_share: 0.9,
            };
            let path = or_path { least: i64::MAX, ..or_path::zeroed() };
            Self { bounds: Bounds::default(), path, limits, floor: limits.threshold, windows: 0, said: Vec::new() }
        }

        /// A window, in seconds about as many.
        fn window(&mut self, least: i64, share: f64, or_acks: u32, refused: u32) {
            self.windows += 1;
            let held = (share * WINDOW as f64) as u64;
            self.path.windows[self.windows as usize % 2] =
                or_window { number: self.windows, least, held, or_acks, refused };
            // As sender_learn() does.
            if self.path.renewed != self.bounds.renewed(&PEER) {
                (self.path.renewed, self.path.least) = (self.bounds.renewed(&PEER), least);
            }
            self.path.least = self.path.least.min(least);
            if self.limits.follows {
                self.limits.threshold = self.floor.max(self.path.least as u64 + self.limits.uncertainty);
            }
            let now = (self.windows + 1) * WINDOW + 1;
            let new = self.bounds.look(PEER, &self.path, &self.limits, now);
            self.said.extend(new.map(|reason| (now, reason)));
        }

        fn is_free(&self) -> bool {
            self.bounds.free(&PEER).is_some()
        }
    }

    /// One-way delays behind a queue that flows of heavy tails keep busy for `load` of the time: the least of
    /// each window, of packets that sample it. Lindley's recursion, in nanoseconds.
    fn least_delays(base: i64, load: f64, windows: usize, seed: u64) -> Vec<i64> {
        let mut state = seed;
        let mut uniform = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        // Pareto bursts of 20 us at least, shape 1.5: 60 us in the mean, up to 10 ms.
        let mean = 60_000.0;
        let (mut now, mut queue, mut found) = (0.0, 0.0, vec![i64::MAX; windows]);
        while let Some(least) = found.get_mut((now / WINDOW as f64) as usize) {
            *least = (*least).min(base + queue as i64);
            let gap = -uniform().ln() * mean / load;
            let burst = (20_000.0 / uniform().powf(1.0 / 1.5)).min(1e7);
            queue = f64::max(queue + burst - gap, 0.0);
            now += gap;
        }
        found
    }

    #[test]
    fn t_does_not_creep_in_an_hour_of_80_percent_load() {
        for seed in 1..=2 {
            let mut watch = Watch::new(None);
            for least in least_delays(12 * US, 0.8, 3600, seed) {
                watch.window(least, 0.6, 1000, 0);
                assert_eq!(watch.limits.threshold, 50_000, "seed {seed}, window {}", watch.windows);
            }
            assert_eq!(watch.said, []);
        }
    }

    #[test]
    fn t_does_not_follow_a_queue_that_lasts() {
        // Nearly always full: the least delays of windows are far above T, and differ.
        let mut watch = Watch::new(None);
        watch.window(12 * US, 0.0, 1000, 0);
        for least in least_delays(12 * US, 1.5, 600, 1) {
            watch.window(least, 0.5, 1000, 0);
            assert_eq!(watch.limits.threshold, 50_000, "window {}", watch.windows);
        }
    }

    #[test]
    fn t_follows_a_longer_path_within_ten_seconds() {
        let mut watch = Watch::new(None);
        for _ in 0..20 {
            watch.window(12 * US, 0.1, 1000, 0);
        }
        let start = watch.windows;
        for i in 0..20 {
            // Held nearly always, so without a queue: what stamps are good for is left.
            watch.window(200 * US + 150 * (i % 3), 0.99, 300, 0);
            if watch.limits.threshold > 200_000 {
                break;
            }
        }
        assert!((watch.windows - start) * WINDOW < 10 * SECOND, "{} windows", watch.windows - start);
        assert!((204_000..=204_300).contains(&watch.limits.threshold), "{}", watch.limits.threshold);
        // And with load upon it.
        let mut watch = Watch::new(None);
        watch.window(12 * US, 0.0, 1000, 0);
        least_delays(200 * US, 0.8, 9, 4).into_iter().for_each(|least| watch.window(least, 0.9, 1000, 0));
        assert_eq!(watch.limits.threshold, 204_000);
        // A shorter one at once.
        watch.window(30 * US, 0.0, 1000, 0);
        assert_eq!(watch.limits.threshold, 50_000);
    }

    #[test]
    fn a_t_below_the_path_ends_in_not_holding() {
        let mut watch = Watch::new(Some(20_000));
        for i in 0..6 {
            watch.window(30 * US + 100 * (i % 2), 0.5, 300, 0);
        }
        let [(at, reason @ Reason::BelowFloor { .. })] = watch.said[..] else { panic!("{:?}", watch.said) };
        assert!(at < 7 * SECOND, "{at}");
        assert_eq!(
            reason.to_string(),
            "T of 20.0 us is below the path's least delay of 30.1 us: raise threshold, or write \"auto\" in a fleet"
        );
        assert!(watch.is_free());
        // For as long as it is so.
        for _ in 0..100 {
            watch.window(30 * US, 0.5, 300, 0);
        }
        assert!(watch.is_free() && watch.said.len() == 1);
        watch.window(15 * US, 0.1, 300, 0);
        assert!(!watch.is_free());
    }

    #[test]
    fn holding_without_effect_ends_and_is_tried_again_ever_later() {
        let mut watch = Watch::new(Some(50_000));
        // A peer that lies, or a queue that others fill.
        for least in least_delays(400 * US, 1.5, 200, 2) {
            let share = if watch.is_free() { 0.0 } else { 0.97 };
            watch.window(least + (watch.windows as i64 * 7919 % 50) * US, share, 300, 0);
        }
        let at: Vec<u64> = watch.said.iter().map(|(at, _)| at / SECOND).collect();
        assert!(
            watch.said.iter().all(|(_, reason)| matches!(reason, Reason::WithoutEffect { .. })),
            "{:?}",
            watch.said
        );
        assert!(at[0] <= 4, "{at:?}");
        let breaks: Vec<u64> = at.windows(2).map(|w| w[1] - w[0]).collect();
        assert!(breaks.len() >= 3 && breaks.is_sorted_by(|a, b| 3 * a < 2 * b), "{at:?}");
        let line = watch.said[0].1.to_string();
        assert!(line.starts_with("held 97% of the time without effect: delays stayed above "), "{line}");
    }

    #[test]
    fn holding_with_an_effect_goes_on() {
        // An incast that lasts: held 95% of the time, and delays come down to T again and again.
        let mut watch = Watch::new(Some(50_000));
        for i in 0..600 {
            watch.window(30 * US + (i * 7919 % 20) * US, 0.95, 1000, 0);
        }
        assert_eq!(watch.said, []);
    }

    #[test]
    fn a_peer_whose_reports_do_not_fit_is_set_aside() {
        let mut watch = Watch::new(Some(50_000));
        for _ in 0..3 {
            watch.window(30 * US, 0.1, 10, 90);
        }
        let [(_, reason @ Reason::Misfit { refused: 90, of: 100 })] = watch.said[..] else {
            panic!("{:?}", watch.said)
        };
        assert!(reason.to_string().contains("90 of 100 OR-ACKs"));
        assert!(watch.is_free());
        // A few that do not fit are no reason.
        let mut watch = Watch::new(Some(50_000));
        for _ in 0..100 {
            watch.window(30 * US, 0.1, 1000, 300);
        }
        assert_eq!(watch.said, []);
    }

    #[test]
    fn without_a_bound_everything_goes_on() {
        let mut watch = Watch::new(Some(20_000));
        watch.limits.max_share = 1.0;
        for _ in 0..60 {
            watch.window(30 * US, 1.0, 100, 900);
        }
        assert!(!watch.is_free() && watch.said.is_empty());
    }
}
