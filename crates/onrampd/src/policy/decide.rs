//! Decision on a host's mode: the lesser of the fleet's policy and its own configuration. Pure.

use super::Held;
use crate::config::Mode;
use crate::config::quantity::Threshold;

/// Mode and T that a host's own configuration names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Own {
    /// `mode`.
    pub mode: Option<Mode>,
    /// `threshold`.
    pub threshold: Option<Threshold>,
}

/// Mode and T that count, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Mode.
    pub mode: Mode,
    /// T by the policy; `None`: the configuration's.
    pub threshold: Option<Threshold>,
    /// Why the mode is that.
    pub why: String,
    /// Where T comes from: "configuration", "policy" or "default".
    pub threshold_by: &'static str,
}

/// Decides at the time `now`, of CLOCK_MONOTONIC in nanoseconds.
#[must_use]
pub fn decide(own: Own, held: &Held, now: u64) -> Decision {
    let says = held.said.as_ref().and_then(|said| said.says).filter(|_| !held.has_run_out(now));
    let threshold = says.and_then(|says| says.threshold).filter(|_| own.threshold.is_none());
    let threshold_by = match (own.threshold, threshold) {
        (Some(_), _) => "configuration",
        (None, Some(_)) => "policy",
        (None, None) => "default",
    };
    let (mode, why) = mode(own.mode, held, now);
    Decision { mode, threshold, why, threshold_by }
}

fn mode(own: Option<Mode>, held: &Held, now: u64) -> (Mode, String) {
    let of_own = |without: &str| match own {
        Some(mode) => (mode, format!("the configuration says {mode}")),
        None => (Mode::Observe, without.into()),
    };
    let Some(said) = &held.said else { return of_own("the fleet has no policy") };
    let version = said.version;
    if said.stopped {
        let who = said.stop.clone().unwrap_or_else(|| format!("by {} (version {version})", said.by));
        return (Mode::Observe, format!("holding is stopped in the whole fleet, {who}"));
    }
    let Some(says) = said.says else { return of_own("the fleet has no policy") };
    if held.has_run_out(now) {
        let why = match held.older {
            Some(older) => format!("the coordinator has version {older} of the policy, older than {version} here"),
            None if version == 0 => "the policy that was kept cannot be read".into(),
            None => format!("no coordinator for {}", said.keep),
        };
        return (Mode::Observe, format!("policy version {version} has run out: {why}"));
    }
    match (says.mode, says.rule, own) {
        (Mode::Enforce, _, Some(Mode::Observe)) => (Mode::Observe, "the configuration says observe".into()),
        (_, None, _) => (Mode::Observe, format!("no rule of policy version {version} is about this host")),
        (mode, Some(rule), _) => (mode, format!("policy version {version} says {mode} (rule {rule})")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::held::tests::said;
    use super::super::{Said, Says};
    use super::*;
    use crate::config::quantity::Time;
    use Mode::{Enforce, Observe};

    fn held(says: Option<Says>) -> Held {
        Held { said: Some(Said { says, ..said(7) }), ..Held::default() }
    }

    fn by(mode: Mode) -> Held {
        held(Some(Says { mode, threshold: None, rule: Some(1) }))
    }

    fn modes(held: &Held) -> [Mode; 3] {
        [None, Some(Observe), Some(Enforce)].map(|mode| decide(Own { mode, threshold: None }, held, 0).mode)
    }

    #[test]
    fn the_lesser_of_policy_and_configuration_counts() {
        let nothing = Held::default();
        assert_eq!(modes(&nothing), [Observe, Observe, Enforce], "without a policy the configuration counts");
        assert_eq!(modes(&held(None)), [Observe, Observe, Enforce], "a version without one");
        assert_eq!(modes(&by(Observe)), [Observe; 3]);
        assert_eq!(modes(&by(Enforce)), [Enforce, Observe, Enforce]);
        let no_rule = held(Some(Says { mode: Observe, threshold: None, rule: None }));
        assert_eq!(modes(&no_rule), [Observe; 3]);
    }

    #[test]
    fn who_stops_holding_stands_above_all() {
        for says in [None, by(Enforce).said.unwrap().says] {
            let stopped = Held { said: Some(Said { stopped: true, says, ..said(7) }), ..Held::default() };
            assert_eq!(modes(&stopped), [Observe; 3]);
            let stop = |stop: Option<&str>| Said { stop: stop.map(Into::into), ..stopped.said.clone().unwrap() };
            let why = |said| decide(Own::default(), &Held { said: Some(said), ..Held::default() }, 0).why;
            assert_eq!(why(stop(None)), "holding is stopped in the whole fleet, by root (version 7)");
            let earlier = "by alice (version 3): incident 12";
            assert_eq!(why(stop(Some(earlier))), format!("holding is stopped in the whole fleet, {earlier}"));
        }
    }

    #[test]
    fn what_has_run_out_observes_and_its_threshold_is_gone() {
        let fixed = Some(Threshold::Fixed(Time(80_000)));
        let mut held = held(Some(Says { mode: Enforce, threshold: fixed, rule: Some(1) }));
        held.until = Some(10);
        let at = |now| decide(Own { mode: Some(Enforce), threshold: None }, &held, now);
        assert_eq!((at(9).mode, at(9).threshold), (Enforce, fixed));
        assert_eq!((at(10).mode, at(10).threshold), (Observe, None));
        assert_eq!(at(10).why, "policy version 7 has run out: no coordinator for 1min");
        held.older = Some(5);
        let why = decide(Own::default(), &held, 10).why;
        assert!(why.ends_with("the coordinator has version 5 of the policy, older than 7 here"), "{why}");
    }

    #[test]
    fn a_threshold_of_ones_own_counts() {
        let [fixed, own] = [80_000, 30_000].map(|ns| Some(Threshold::Fixed(Time(ns))));
        let held = held(Some(Says { mode: Enforce, threshold: fixed, rule: Some(1) }));
        let of = |threshold, held: &Held| {
            let decision = decide(Own { mode: None, threshold }, held, 0);
            (decision.threshold, decision.threshold_by)
        };
        assert_eq!(of(None, &held), (fixed, "policy"));
        assert_eq!(of(own, &held), (None, "configuration"));
        assert_eq!(of(None, &by(Enforce)), (None, "default"));
        assert_eq!(of(own, &Held::default()), (None, "configuration"));
    }

    #[test]
    fn the_reason_is_told() {
        let why = |own, held: &Held| decide(Own { mode: own, threshold: None }, held, 0).why;
        assert_eq!(why(None, &Held::default()), "the fleet has no policy");
        assert_eq!(why(Some(Enforce), &Held::default()), "the configuration says enforce");
        assert_eq!(why(Some(Observe), &by(Enforce)), "the configuration says observe");
        assert_eq!(why(Some(Enforce), &by(Observe)), "policy version 7 says observe (rule 1)");
        assert_eq!(why(None, &by(Enforce)), "policy version 7 says enforce (rule 1)");
    }
}
