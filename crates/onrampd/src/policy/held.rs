//! The policy that a host has heard, and how long it counts without a coordinator. Pure.

use super::{Said, Says};
use crate::config::Mode;
use crate::config::quantity::Life;
use std::cmp::Ordering;

const SECOND: u64 = 1_000_000_000;

/// A host's policy. Times are of CLOCK_MONOTONIC, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// The newest version heard.
    pub said: Option<Said>,
    /// When it runs out; `None`: a coordinator stands by it.
    pub until: Option<u64>,
    /// Version of the coordinator that serves, where that is an older one.
    pub older: Option<u64>,
}

/// Result of hearing a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It is another one, or counts again.
    Taken,
    /// It is the one that is held.
    Same,
    /// It is older, and not taken: versions only go up.
    Older,
}

impl Held {
    /// Takes up what an agent before this one had held. `heard` is when a coordinator last stood by it, and `today` the
    /// present, both in seconds since 1970.
    #[must_use]
    pub fn kept(said: Said, heard: u64, today: u64, now: u64) -> Self {
        // A clock that went back says nothing of how long ago that was.
        let left = today.checked_sub(heard).map_or(0, |since| said.keep.0.saturating_sub(since));
        Self { said: Some(said), until: Some(now.saturating_add(left.saturating_mul(SECOND))), older: None }
    }

    /// Stands in for a policy that was kept but cannot be read: it holds nothing, and any coordinator's is newer.
    #[must_use]
    pub fn broken(now: u64) -> Self {
        let says = Some(Says { mode: Mode::Observe, threshold: None, rule: None });
        let (by, from) = ("nobody".into(), "a file that is broken".into());
        let said = Said { version: 0, at: 0, by, from, stopped: false, stop: None, keep: Life(0), says };
        Self { said: Some(said), until: Some(now), older: None }
    }

    /// The coordinator that serves has said this.
    pub fn hear(&mut self, said: Said) -> Heard {
        match self.said.as_ref().map(|held| said.stamp().cmp(&held.stamp())) {
            Some(Ordering::Less) => {
                self.older = Some(said.version);
                Heard::Older
            }
            // The same version may say something else of a host that has other labels now.
            Some(Ordering::Equal) if self.until.is_none() && self.said.as_ref() == Some(&said) => Heard::Same,
            _ => {
                *self = Self { said: Some(said), until: None, older: None };
                Heard::Taken
            }
        }
    }

    /// No coordinator serves any more, or another one that has not said a policy yet. Returns whether one stood by it
    /// until now.
    pub fn lost(&mut self, now: u64) -> bool {
        self.older = None;
        let Some(said) = self.said.as_ref().filter(|_| self.until.is_none()) else { return false };
        self.until = Some(now.saturating_add(said.keep.0.saturating_mul(SECOND)));
        true
    }

    /// Returns whether it counts no more.
    #[must_use]
    pub fn has_run_out(&self, now: u64) -> bool {
        self.until.is_some_and(|until| now >= until)
    }

    /// Time for which it still counts, if that ends.
    #[must_use]
    pub fn left(&self, now: u64) -> Option<u64> {
        self.until.map(|until| until.saturating_sub(now))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub fn said(version: u64) -> Said {
        let says = Some(Says { mode: Mode::Enforce, threshold: None, rule: Some(1) });
        Said { version, at: 9, by: "root".into(), from: "a".into(), stopped: false, stop: None, keep: Life(60), says }
    }

    #[test]
    fn versions_only_go_up() {
        let mut held = Held::default();
        assert_eq!(held.hear(said(3)), Heard::Taken);
        assert_eq!(held.hear(said(3)), Heard::Same);
        assert_eq!(held.hear(said(2)), Heard::Older);
        assert_eq!((held.said.as_ref().map(|said| said.version), held.older), (Some(3), Some(2)));
        assert_eq!(held.hear(Said { stopped: true, at: 1, ..said(3) }), Heard::Taken, "who stops is newer");
        assert_eq!(held.hear(said(3)), Heard::Older);
        // As for a host that has other labels.
        let other = Said { stopped: true, at: 1, says: None, ..said(3) };
        assert_eq!((held.hear(other.clone()), held.said), (Heard::Taken, Some(other)));
    }

    #[test]
    fn it_runs_out_unless_a_coordinator_stands_by_it() {
        let mut held = Held::default();
        assert!(!held.lost(0) && !held.has_run_out(u64::MAX), "there is nothing to lose");
        held.hear(said(3));
        assert!(!held.has_run_out(1_000 * SECOND) && held.left(0).is_none());
        assert!(held.lost(100 * SECOND) && !held.lost(130 * SECOND), "it is lost once");
        assert!(!held.has_run_out(159 * SECOND) && held.has_run_out(160 * SECOND));
        assert_eq!(held.left(150 * SECOND), Some(10 * SECOND));
        // One that has an older version does not stand by this one.
        assert_eq!(held.hear(said(2)), Heard::Older);
        assert!(held.has_run_out(160 * SECOND));
        assert_eq!(held.hear(said(3)), Heard::Taken);
        assert!(!held.has_run_out(u64::MAX));
    }

    #[test]
    fn a_start_anew_leaves_what_is_left() {
        let at = |heard, today| Held::kept(said(3), heard, today, 5 * SECOND).left(5 * SECOND);
        assert_eq!([at(100, 100), at(100, 145), at(100, 160), at(100, 999)], [60, 15, 0, 0].map(|s| Some(s * SECOND)));
        assert_eq!(at(100, 99), Some(0), "a clock that went back");
        let mut broken = Held::broken(7);
        assert!(broken.has_run_out(7));
        assert_eq!(broken.hear(said(1)), Heard::Taken);
    }
}
