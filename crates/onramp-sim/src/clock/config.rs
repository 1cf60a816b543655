//! The hosts' clocks: how wrong they are, and what keeps them right.

use onramp_clock::schedule::SPACING;
use onramp_config::Rule;
use onramp_config::units::{Drift, MS, SEC, Span, US};
use serde::{Deserialize, Serialize};

/// Method that keeps the hosts' clocks right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sync {
    /// All clocks show the true time.
    #[default]
    Perfect,
    /// Each host's clock is off by a constant drawn from N(0, sigma).
    Gaussian,
    /// Probes between the hosts, and corrections for each window of them.
    Huygens,
    /// Every host asks the first one for the time, as RFC 5905 has it.
    Ntp,
}

impl Sync {
    /// Its name in a scenario.
    pub fn name(self) -> &'static str {
        match self {
            Self::Perfect => "perfect",
            Self::Gaussian => "gaussian",
            Self::Huygens => "huygens",
            Self::Ntp => "ntp",
        }
    }

    /// Clocks run on their own and packets tell how far they are off.
    pub fn over_the_network(self) -> bool {
        matches!(self, Self::Huygens | Self::Ntp)
    }
}

/// How well packets' departures and arrivals are stamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stamps {
    /// By the NIC: some nanoseconds of noise.
    Hardware,
    /// By the kernel: hundreds of nanoseconds with a heavy tail, and each host's own.
    Software,
    /// Without noise.
    Exact,
}

/// The hosts' clocks. Keys that `sync` does not use cannot be given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Clock {
    /// Default "perfect".
    pub sync: Sync,
    /// Standard deviation of a host's clock offset, with "gaussian".
    pub sigma: Span,
    /// A clock is off by up to this at the start, either way. Default 5 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<Span>,
    /// A clock's frequency is off by up to this at the start, either way. Default 30 ppm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift: Option<Drift>,
    /// Standard deviation of a frequency's change in a second; grows with the
    /// square root of time. Default 1 ppb.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wander: Option<Drift>,
    /// Default "software". NTP's own stamps are taken in user space.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamps: Option<Stamps>,
    /// Huygens: corrections are computed from this long of probes. Default 2 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Span>,
    /// Huygens: one pair of probes to each peer in this time. Default 8 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe_interval: Option<Span>,
    /// Huygens: hosts that each host probes. Default 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peers: Option<u32>,
    /// Huygens: drop pairs of probes that did not keep their spacing. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coded: Option<bool>,
    /// Huygens: make offsets add up to zero around loops. Default true.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_effect: Option<bool>,
    /// Synchronisation runs this long before time 0. Default: two windows and 10 ms;
    /// an hour with NTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lead: Option<Span>,
    /// Delays of two hosts with a larger joint uncertainty are not used. Default 100 us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_uncertainty: Option<Span>,
}

impl Clock {
    /// Writes every default that has an effect into its field.
    pub fn resolve(&mut self) {
        if !self.sync.over_the_network() {
            return;
        }
        self.offset.get_or_insert(Span(5 * MS));
        self.drift.get_or_insert(Drift(30_000_000));
        self.wander.get_or_insert(Drift(1_000));
        self.stamps.get_or_insert(Stamps::Software);
        self.max_uncertainty.get_or_insert(Span(100 * US));
        if self.sync == Sync::Ntp {
            self.lead.get_or_insert(Span(3600 * SEC));
            return;
        }
        let window = *self.window.get_or_insert(Span(2 * SEC));
        self.probe_interval.get_or_insert(Span(8 * MS));
        self.peers.get_or_insert(10);
        self.coded.get_or_insert(true);
        self.network_effect.get_or_insert(true);
        self.lead.get_or_insert(Span(2 * window.0 + 10 * MS));
    }
}

/// Fewest pairs of probes to a peer in a window.
const MIN_PAIRS: u64 = 8;

/// Checks values; keys are of the section.
pub fn check(c: &Clock, rule: Rule<'_>) {
    let name = c.sync.name();
    let unused = |write: &str| format!("has no effect with sync = \"{name}\": write sync = {write}");
    rule(c.sync == Sync::Gaussian || c.sigma == Span(0), "sigma", unused("\"gaussian\""));
    rule(c.sigma <= Span(SEC), "sigma", format!("{} is more than 1s", c.sigma));
    let both = [
        ("offset", c.offset.is_some()),
        ("drift", c.drift.is_some()),
        ("wander", c.wander.is_some()),
        ("stamps", c.stamps.is_some()),
        ("lead", c.lead.is_some()),
        ("max_uncertainty", c.max_uncertainty.is_some()),
    ];
    for (key, given) in both {
        rule(!given || c.sync.over_the_network(), key, unused("\"huygens\" or \"ntp\""));
    }
    let huygens = [
        ("window", c.window.is_some()),
        ("probe_interval", c.probe_interval.is_some()),
        ("peers", c.peers.is_some()),
        ("coded", c.coded.is_some()),
        ("network_effect", c.network_effect.is_some()),
    ];
    for (key, given) in huygens {
        rule(!given || c.sync == Sync::Huygens, key, unused("\"huygens\""));
    }
    let range = |rule: Rule<'_>, key: &str, value: Option<Span>, least: Span, most: Span, example: &str| {
        let Some(value) = value else { return };
        let message = format!("{value} is outside {least} to {most}: such as \"{example}\"");
        rule((least..=most).contains(&value), key, message);
    };
    range(rule, "offset", c.offset, Span(0), Span(86_400 * SEC), "5ms");
    range(rule, "lead", c.lead, Span(0), Span(86_400 * SEC), "4s");
    range(rule, "window", c.window, Span(MS), Span(60 * SEC), "2s");
    let most = Span(c.window.unwrap_or(Span(2 * SEC)).0 / MIN_PAIRS);
    range(rule, "probe_interval", c.probe_interval, Span(4 * SPACING * 1000), most, "8ms");
    range(rule, "max_uncertainty", c.max_uncertainty, Span(1), Span(SEC), "100us");
    let most = Drift(500_000_000);
    let drift = c.drift.unwrap_or_default();
    rule(drift <= most, "drift", format!("{drift} is more than {most}, which NTP can correct: such as \"30ppm\""));
    let (wander, most) = (c.wander.unwrap_or_default(), Drift(1_000_000));
    rule(wander <= most, "wander", format!("{wander} in a second is more than {most}: such as \"1ppb\""));
    rule(c.peers != Some(0), "peers", "must be at least 1, such as 10".into());
}
