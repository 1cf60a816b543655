//! A fleet's policy: which hosts hold packets, and at which T. Pure.
//!
//! An operator writes it as a file ([`file`]). The coordinator numbers its versions and tells each host what
//! concerns it ([`Said`]). A host keeps that for a time without a coordinator ([`Held`]), and its own configuration
//! may say less, never more ([`decide`]).

mod decide;
pub mod file;
mod held;

pub use decide::{Decision, Own, decide};
pub use file::KEEP;
pub use held::{Heard, Held};

use crate::config::Mode;
use crate::config::quantity::{Life, Share, Threshold, Time};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::IpAddr;

/// Labels of a host, or those a rule asks for.
pub type Labels = BTreeMap<String, String>;

/// Most labels of a host or a rule.
pub const MAX_LABELS: usize = 16;
/// Longest key or value of a label, in bytes.
pub const MAX_LABEL: usize = 63;
/// Most rules of a policy.
pub const MAX_RULES: usize = 100;
/// Longest text that an operator or a host gives along, in bytes.
pub const MAX_TEXT: usize = 300;
/// Longest `keep`, in seconds.
pub const MAX_KEEP: u64 = 30 * 86_400;

/// A fleet's policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// How long hosts keep it that have lost every coordinator.
    pub keep: Life,
    /// The first one that matches a host counts.
    pub rules: Vec<Rule>,
}

/// One rule of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// A host must have all of these.
    #[serde(default, skip_serializing_if = "Labels::is_empty")]
    pub labels: Labels,
    /// Of those only this part, and the same hosts at each start: a larger part has all hosts of a smaller one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<Share>,
    /// Mode of such hosts, at most.
    #[serde(deserialize_with = "or_observe")]
    pub mode: Mode,
    /// T; `None`: the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Threshold>,
}

/// One version of a fleet's policy, with who made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Its number, from 1 on.
    pub version: u64,
    /// When it was made, in seconds since 1970 by the clock of the operator's host.
    pub at: u64,
    /// The user.
    pub by: String,
    /// The host, and where the user had come from.
    pub from: String,
    /// The command, such as "set", "rollback to version 3", "stop-holding" or "rollout: step 1".
    pub what: String,
    /// The operator's own words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Nothing is held in the whole fleet, whatever the policy says.
    #[serde(default)]
    pub stopped: bool,
    /// Who stopped it, in which version and why, which may be an earlier one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// The policy; `None`: there is none, and each host's own configuration counts.
    pub policy: Option<Policy>,
    /// Its end, unless a later version comes before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<Trial>,
}

/// How a version ends that is on trial: whoever has set it says a later one in time, or coordinators go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trial {
    /// When, in seconds since 1970.
    pub until: u64,
    /// To which version's policy.
    pub back: u64,
}

/// Order of versions: where two coordinators gave the same number, the one that stops holding is newer.
pub type Stamp = (u64, bool, u64);

/// A version as one host is told of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Said {
    /// As in [`Version`].
    pub version: u64,
    /// As in [`Version`].
    pub at: u64,
    /// As in [`Version`].
    pub by: String,
    /// As in [`Version`].
    pub from: String,
    /// As in [`Version`].
    #[serde(default)]
    pub stopped: bool,
    /// As in [`Version`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<String>,
    /// As in [`Policy`].
    pub keep: Life,
    /// The policy for this host; `None`: there is no policy.
    pub says: Option<Says>,
}

/// A policy's mode and T for one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Says {
    /// Observing, or holding packets.
    #[serde(deserialize_with = "or_observe")]
    pub mode: Mode,
    /// T; `None`: the host's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Threshold>,
    /// The rule, from 1 on; `None`: none matches, and the host observes.
    #[serde(default)]
    pub rule: Option<usize>,
}

/// A host's confirmation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The version it goes by; 0: it has heard of none.
    pub version: u64,
    /// Mode in force.
    #[serde(deserialize_with = "or_observe")]
    pub mode: Mode,
    /// Why it is that.
    pub why: String,
}

/// Reads a mode; takes a word that only a later version knows for observing, never for holding.
fn or_observe<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
    let word = String::deserialize(deserializer)?;
    Ok(if word == "enforce" { Mode::Enforce } else { Mode::Observe })
}

impl Policy {
    /// Mode and T for a host, by the first rule that matches it. Where none does, it observes.
    #[must_use]
    pub fn of(&self, address: IpAddr, labels: &Labels) -> Says {
        match self.rules.iter().position(|rule| rule.matches(address, labels)) {
            Some(at) => Says { mode: self.rules[at].mode, threshold: self.rules[at].threshold, rule: Some(at + 1) },
            None => Says { mode: Mode::Observe, threshold: None, rule: None },
        }
    }

    /// Checks its bounds, which [`file::load`] names in words.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let keeps = (1..=MAX_KEEP).contains(&self.keep.0);
        keeps && self.rules.len() <= MAX_RULES && self.rules.iter().all(Rule::is_sound)
    }

    /// All of it on one line.
    #[must_use]
    pub fn summary(&self) -> String {
        let rules = self.rules.iter().map(|rule| format!("{}: {}", rule.scope(), shown(rule.mode, rule.threshold)));
        let others = self.rules.iter().all(|rule| !rule.is_for_all()).then(|| "others: observe".to_owned());
        let rules: Vec<String> = rules.chain(others).collect();
        format!("{} (kept for {})", rules.join("; "), self.keep)
    }
}

fn shown(mode: Mode, threshold: Option<Threshold>) -> String {
    threshold.map_or_else(|| mode.to_string(), |threshold| format!("{mode}, T {threshold}"))
}

impl Rule {
    /// Returns whether it is about a host: it has all labels that the rule asks for, and is in its share.
    #[must_use]
    pub fn matches(&self, address: IpAddr, labels: &Labels) -> bool {
        let has = |(key, value): (&String, &String)| labels.get(key) == Some(value);
        self.labels.iter().all(has) && self.share.is_none_or(|share| place(address) < share.0)
    }

    /// Returns whether it matches all that `other` does.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let has = |(key, value): (&String, &String)| other.labels.get(key) == Some(value);
        let share = |rule: &Self| rule.share.map_or(100, |share| share.0);
        self.labels.iter().all(has) && share(self) >= share(other)
    }

    /// Returns whether it is about every host.
    #[must_use]
    pub fn is_for_all(&self) -> bool {
        self.labels.is_empty() && self.share.is_none()
    }

    /// Hosts it is about, in words.
    #[must_use]
    pub fn scope(&self) -> String {
        let labels = if self.labels.is_empty() { "every host".into() } else { show(&self.labels) };
        match self.share {
            Some(share) if self.labels.is_empty() => format!("{share} of hosts"),
            Some(share) => format!("{share} of {labels}"),
            None => labels,
        }
    }

    fn is_sound(&self) -> bool {
        let share = self.share.is_none_or(|share| (1..=99).contains(&share.0));
        check(&self.labels).is_ok() && share && is_sound_threshold(self.threshold)
    }
}

/// A host's place among a hundred, by its address alone, so that all coordinators see it alike.
fn place(address: IpAddr) -> u64 {
    let bits = match address.to_canonical() {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    };
    // splitmix64's finaliser: neighbours' places have nothing to do with each other.
    let mix = |mut z: u64| {
        z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    };
    mix(bits as u64 ^ mix((bits >> 64) as u64)) % 100
}

fn is_sound_threshold(threshold: Option<Threshold>) -> bool {
    threshold != Some(Threshold::Fixed(Time(0)))
}

impl Version {
    /// Its place in the order of versions.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        (self.version, self.stopped, self.at)
    }

    /// Returns whether its trial is over.
    #[must_use]
    pub fn has_lapsed(&self, today: u64) -> bool {
        self.trial.is_some_and(|trial| today >= trial.until)
    }

    /// This version as a host is told of it.
    #[must_use]
    pub fn said(&self, address: IpAddr, labels: &Labels) -> Said {
        let Self { version, at, by, from, stopped, stop, policy, .. } = self;
        Said {
            version: *version,
            at: *at,
            by: by.clone(),
            from: from.clone(),
            stopped: *stopped,
            stop: stop.clone(),
            keep: policy.as_ref().map_or(KEEP, |policy| policy.keep),
            says: policy.as_ref().map(|policy| policy.of(address, labels)),
        }
    }

    /// Checks its bounds, so that it can be kept, told and logged.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let texts = [Some(&self.by), Some(&self.from), Some(&self.what), self.message.as_ref(), self.stop.as_ref()];
        texts.into_iter().flatten().all(|text| is_text(text)) && self.policy.as_ref().is_none_or(Policy::is_sound)
    }

    /// A line for the log: what was done, by whom, from where and when.
    #[must_use]
    pub fn audit(&self) -> String {
        let Self { version, what, .. } = self;
        let mut line = format!("policy version {version}: {what}, {}", who(&self.by, &self.from, self.at));
        let _ = match &self.policy {
            _ if self.stopped => write!(line, ": nothing is held in the whole fleet"),
            Some(policy) => write!(line, ": {}", policy.summary()),
            None => write!(line, ": none, each host's own configuration counts"),
        };
        if let Some(Trial { until, back }) = self.trial {
            let _ = write!(line, " (a trial: back to version {back} at {})", utc(until));
        }
        if let Some(message) = &self.message {
            let _ = write!(line, ": {message:?}");
        }
        line
    }
}

impl Said {
    /// Its place in the order of versions.
    #[must_use]
    pub fn stamp(&self) -> Stamp {
        (self.version, self.stopped, self.at)
    }

    /// Checks its bounds: who says another is not heard.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let texts = [&self.by, &self.from].into_iter().chain(&self.stop).all(|text| is_text(text));
        texts && self.keep.0 <= MAX_KEEP && self.says.is_none_or(|says| is_sound_threshold(says.threshold))
    }

    /// Who made it, from where and when.
    #[must_use]
    pub fn who(&self) -> String {
        who(&self.by, &self.from, self.at)
    }
}

impl Applied {
    /// Checks its bounds.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        is_text(&self.why)
    }

    /// The same with a reason that others take.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.why = text(&self.why);
        self
    }
}

fn who(by: &str, from: &str, at: u64) -> String {
    format!("by {by} from {from} at {}", utc(at))
}

/// Returns whether a text is short enough and one line.
fn is_text(text: &str) -> bool {
    text.len() <= MAX_TEXT && !text.contains(char::is_control)
}

/// A text as [`is_text`] wants it: cut, and without what would end a line.
#[must_use]
pub fn text(of: &str) -> String {
    let mut text: String = of.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    while text.len() > MAX_TEXT {
        text.pop();
    }
    text
}

/// Checks labels of a host or a rule.
///
/// # Errors
/// The key that is wrong, or an empty one, and what would be right.
pub fn check(labels: &Labels) -> Result<(), (&str, String)> {
    if labels.len() > MAX_LABELS {
        return Err(("", format!("are more than {MAX_LABELS}")));
    }
    let is_word = |text: &str| {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"._-/".contains(&b);
        (1..=MAX_LABEL).contains(&text.len()) && text.bytes().all(fits)
    };
    let word = format!("takes 1 to {MAX_LABEL} letters, digits, or of . _ - /, such as rack = \"b7\"");
    for (key, value) in labels {
        if !is_word(key) {
            return Err(("", format!("{:?}: a label's name {word}", text(key))));
        }
        if !is_word(value) {
            return Err((key, format!("{:?}: a label's value {word}", text(value))));
        }
    }
    Ok(())
}

/// Labels as people read them.
#[must_use]
pub fn show(labels: &Labels) -> String {
    labels.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(",")
}

/// A time since 1970 as people read it.
#[must_use]
pub fn utc(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // H. Hinnant, chrono-Compatible Low-Level Date Algorithms, civil_from_days: years begin in March.
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march + 2) / 5 + 1;
    let month = if march < 10 { march + 3 } else { march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

#[cfg(test)]
pub(crate) fn labels(of: &[(&str, &str)]) -> Labels {
    of.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(of: &[(&str, &str)], mode: Mode) -> Rule {
        Rule { labels: labels(of), share: None, mode, threshold: None }
    }

    #[test]
    fn the_first_rule_counts_of_which_a_host_has_all_labels() {
        let fixed = Some(Threshold::Fixed(Time(80_000)));
        let canary = Rule { threshold: fixed, ..rule(&[("rack", "b7"), ("role", "web")], Mode::Enforce) };
        let policy = Policy { keep: KEEP, rules: vec![canary, rule(&[("rack", "b7")], Mode::Observe)] };
        let any: IpAddr = [10, 0, 0, 1].into();
        let of = |of: &[(&str, &str)]| {
            let Says { mode, rule, .. } = policy.of(any, &labels(of));
            (mode, rule)
        };
        assert_eq!(policy.of(any, &labels(&[("role", "web"), ("rack", "b7"), ("x", "y")])).threshold, fixed);
        assert_eq!(of(&[("rack", "b7"), ("role", "web")]), (Mode::Enforce, Some(1)));
        assert_eq!(of(&[("rack", "b7")]), (Mode::Observe, Some(2)));
        assert_eq!(of(&[("rack", "b8"), ("role", "web")]), (Mode::Observe, None), "no rule: it observes");
        let all = Policy { keep: KEEP, rules: vec![rule(&[], Mode::Enforce)] };
        assert_eq!(all.of(any, &Labels::new()).rule, Some(1));
        assert_eq!(
            policy.summary(),
            "rack=b7,role=web: enforce, T 80us; rack=b7: observe; others: observe (kept for 1h)"
        );
    }

    #[test]
    fn a_larger_share_has_the_hosts_of_a_smaller_one() {
        let part = |share| Rule { share: Some(Share(share)), ..rule(&[("rack", "b7")], Mode::Enforce) };
        let hosts: Vec<IpAddr> = (0..2_000u16).map(|n| [10, 7, (n >> 8) as u8, n as u8].into()).collect();
        let b7 = labels(&[("rack", "b7")]);
        for share in [1, 10, 25, 50, 99] {
            let inside = hosts.iter().filter(|host| part(share).matches(**host, &b7)).count() as f64;
            assert!((inside / 20.0 - share as f64).abs() < 4.0, "{share}%: {inside} of 2000");
            assert!(hosts.iter().all(|host| !part(share).matches(*host, &b7) || part(share + 1).matches(*host, &b7)));
            assert!(hosts.iter().all(|host| !part(share).matches(*host, &Labels::new())), "labels are needed, too");
        }
        let mapped = |host: &IpAddr| match host {
            IpAddr::V4(host) => IpAddr::V6(host.to_ipv6_mapped()),
            host => *host,
        };
        assert!(hosts.iter().all(|host| place(*host) == place(mapped(host))));
        assert!(part(50).covers(&part(25)) && !part(25).covers(&part(50)));
        assert!(
            rule(&[], Mode::Observe).covers(&part(99)) && !part(99).covers(&rule(&[("rack", "b7")], Mode::Observe))
        );
        assert_eq!(
            [part(25).scope(), Rule { labels: Labels::new(), ..part(25) }.scope()],
            ["25% of rack=b7", "25% of hosts"]
        );
        assert!(!part(0).is_sound() && !part(100).is_sound());
    }

    #[test]
    fn versions_go_up_and_of_two_with_one_number_the_one_that_stops_is_newer() {
        assert!((3, false, 9) > (2, true, 99) && (3, true, 1) > (3, false, 9) && (3, false, 9) > (3, false, 8));
    }

    #[test]
    fn what_is_too_much_is_not_sound() {
        let said = Said {
            version: 1,
            at: 0,
            by: "root".into(),
            from: "a".into(),
            stopped: false,
            stop: None,
            keep: KEEP,
            says: Some(Says { mode: Mode::Enforce, threshold: Some(Threshold::Auto), rule: Some(1) }),
        };
        assert!(said.is_sound());
        let zero = Says { mode: Mode::Enforce, threshold: Some(Threshold::Fixed(Time(0))), rule: None };
        for bad in [
            Said { by: "x\nonrampd: enforces".into(), ..said.clone() },
            Said { from: "x".repeat(MAX_TEXT + 1), ..said.clone() },
            Said { stop: Some("x\ny".into()), ..said.clone() },
            Said { keep: Life(MAX_KEEP + 1), ..said.clone() },
            Said { says: Some(zero), ..said.clone() },
        ] {
            assert!(!bad.is_sound(), "{bad:?}");
        }
        let many: Labels = (0..=MAX_LABELS).map(|n| (n.to_string(), "x".into())).collect();
        for bad in [many, labels(&[("", "x")]), labels(&[("a", "")]), labels(&[("a b", "x")]), labels(&[("a", "ü")])] {
            assert!(check(&bad).is_err(), "{bad:?}");
        }
        assert!(check(&labels(&[("topology/rack", "b7.3_x-1")])).is_ok());
        assert!(text(&"ü\n".repeat(400)).len() <= MAX_TEXT);
    }

    #[test]
    fn a_mode_of_a_later_version_is_not_holding() {
        let later = r#"{"version":1,"mode":"hold-all","why":""}"#;
        assert_eq!(serde_json::from_str::<Applied>(later).unwrap().mode, Mode::Observe);
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (1_795_667_620, "2026-11-26 04:33:40 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(utc(seconds), shown);
        }
    }

    #[test]
    fn a_line_of_the_log_says_who_from_where_and_when() {
        let policy = Some(Policy { keep: Life(60), rules: vec![rule(&[], Mode::Observe)] });
        let version = Version {
            version: 7,
            at: 0,
            by: "alice".into(),
            from: "a".into(),
            what: "set".into(),
            message: Some("first rack".into()),
            stopped: false,
            stop: None,
            policy,
            trial: None,
        };
        let expected = "policy version 7: set, by alice from a at 1970-01-01 00:00:00 UTC: every host: observe (kept for 1min): \"first rack\"";
        assert_eq!(version.audit(), expected);
        let stopped = Version { stopped: true, ..version };
        assert!(stopped.audit().contains(": nothing is held in the whole fleet: "), "{}", stopped.audit());
    }
}
