//! Configuration of shapers, as a scenario gives it: their policies, and the parameters of each.

use super::{Kind, Rules};
use onramp_config::Rule;
use onramp_config::units::{Bytes, MS, NS, Ps, Rate, SEC, Span, US};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A budget, a burst or a quantum is at most this.
const LARGEST: Bytes = Bytes(1 << 30);
/// Slots of a wheel at most: 128 MiB of lists.
const MAX_SLOTS: u64 = 1 << 24;

/// `[host.shaping]`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Shaping {
    /// All data of a NIC's class, at most. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<Rate>,
    /// Tenants by name, each with what its flows may send in all from a NIC's class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tenants: BTreeMap<String, Rate>,
    /// Time that a packet takes on the shaper's core, or under its lock. Default 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<Span>,
    /// Carousel: how long a slot of the wheel is. Default 1 us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slot: Option<Span>,
    /// Carousel: how far the wheel reaches ahead. Default: twice what a budget takes at the
    /// lowest rate of any flow, from 100 ms to 1 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizon: Option<Span>,
    /// Carousel: cores, each with a wheel for its share of the flows. Default 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// Carousel: how often tenants' and the egress rate are divided among the cores anew. Default 1 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<Span>,
    /// Carousel: a flow hands packets down while it has less than this under way to the NIC.
    /// Default: two full packets of payload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Bytes>,
    /// HTB: bytes a class may send at once after a while without. Default: as `tc` has it
    /// with high-resolution timers, an MTU of 1600 B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<Bytes>,
    /// HTB and fq: packets a flow's queue holds. Default 1000 (an interface's `txqueuelen`) and
    /// 100 (fq's `flow_limit`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
    /// fq: bytes a flow may send in its turn, after which its rate counts. Default: two packets of 1514 B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantum: Option<Bytes>,
    /// fq: by how much its timer is late if nothing else happens. Default 10 us.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slack: Option<Span>,
}

impl Shaping {
    /// Nothing is said.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks values, and that they are the shaper's own.
    pub fn check(&self, kind: Kind, rule: Rule<'_>) {
        let all = [Kind::Carousel, Kind::Htb, Kind::Fq];
        let own = |kinds: &[Kind], given: bool, key: &str, rule: Rule<'_>| {
            let names: Vec<_> = kinds.iter().map(|kind| format!("\"{}\"", kind.name())).collect();
            let message = format!("has no effect with shaper = \"{}\": only with {}", kind.name(), names.join(", "));
            rule(!given || kinds.contains(&kind), &format!("shaping.{key}"), message);
        };
        own(&all[..2], self.egress.is_some(), "egress", rule);
        own(&all[..2], !self.tenants.is_empty(), "tenants", rule);
        own(&all, self.cost.is_some(), "cost", rule);
        own(&all[..1], self.slot.is_some(), "slot", rule);
        own(&all[..1], self.horizon.is_some(), "horizon", rule);
        own(&all[..1], self.cores.is_some(), "cores", rule);
        own(&all[..1], self.rebalance.is_some(), "rebalance", rule);
        own(&all[..1], self.budget.is_some(), "budget", rule);
        own(&all[1..2], self.burst.is_some(), "burst", rule);
        own(&all[1..], self.queue.is_some(), "queue", rule);
        own(&all[2..], self.quantum.is_some(), "quantum", rule);
        own(&all[2..], self.slack.is_some(), "slack", rule);
        let rates = self.egress.iter().map(|rate| ("egress".to_string(), rate));
        let tenants = self.tenants.iter().map(|(name, rate)| (format!("tenants.{name}"), rate));
        for (key, rate) in rates.chain(tenants) {
            rule(rate.0 > 0, &format!("shaping.{key}"), "must be above 0, such as \"10Gbps\"".into());
        }
        rule(self.tenants.len() <= 255, "shaping.tenants", format!("{} tenants: at most 255", self.tenants.len()));
        let slot = self.slot.unwrap_or(Span(US));
        let fits = (Span(NS)..=Span(MS)).contains(&slot);
        rule(fits, "shaping.slot", format!("{slot} is outside 1ns to 1ms: such as \"1us\""));
        if let (true, Some(horizon)) = (fits, self.horizon) {
            let most = Span(MAX_SLOTS * slot.0);
            let ok = (slot..=most).contains(&horizon);
            rule(ok, "shaping.horizon", format!("{horizon} is outside a slot, {slot}, to {MAX_SLOTS} of them, {most}"));
        }
        let cores = self.cores.unwrap_or(1);
        rule((1..=1024).contains(&cores), "shaping.cores", format!("{cores} is outside 1 to 1024"));
        let rebalance = self.rebalance.unwrap_or(Span(MS));
        let fits = (Span(10 * US)..=Span(SEC)).contains(&rebalance);
        rule(fits, "shaping.rebalance", format!("{rebalance} is outside 10us to 1s: such as \"1ms\""));
        for (key, size) in [("budget", self.budget), ("burst", self.burst), ("quantum", self.quantum)] {
            let ok = size.is_none_or(|size| (Bytes(1)..=LARGEST).contains(&size));
            rule(ok, &format!("shaping.{key}"), format!("{} is outside 1B to {LARGEST}", size.unwrap_or_default()));
        }
        let queue = self.queue.unwrap_or(1);
        rule((1..=1_000_000).contains(&queue), "shaping.queue", format!("{queue} is outside 1 to 1000000"));
        for (key, span) in [("cost", self.cost), ("slack", self.slack)] {
            let ok = span.is_none_or(|span| span <= Span(MS));
            rule(ok, &format!("shaping.{key}"), format!("{} is above 1ms", span.unwrap_or_default()));
        }
    }

    /// Writes out the defaults that the shaper has; `lowest` is the lowest rate of any flow.
    pub fn resolve(&mut self, kind: Kind, payload: Bytes, lowest: Option<Rate>) {
        match kind {
            Kind::Flow | Kind::RoundRobin => {}
            Kind::Carousel => {
                let slot = *self.slot.get_or_insert(Span(US));
                self.cores.get_or_insert(1);
                self.rebalance.get_or_insert(Span(MS));
                let budget = *self.budget.get_or_insert(Bytes(2 * payload.0));
                // Beside the budget there is the packet that was handed down last, with its header.
                let stretch = lowest.map_or(0, |rate| 2 * rate.time_for(budget.0 + 2 * payload.0));
                let horizon = stretch.clamp(100 * MS, SEC).min(MAX_SLOTS * slot.0);
                self.horizon.get_or_insert(Span(horizon));
            }
            Kind::Htb => {
                self.burst.get_or_insert(Bytes(1600));
                self.queue.get_or_insert(1000);
            }
            Kind::Fq => {
                self.queue.get_or_insert(100);
                self.quantum.get_or_insert(Bytes(3028));
                self.slack.get_or_insert(Span(10 * US));
            }
        }
        if kind.holds() {
            self.cost.get_or_insert(Span(0));
        }
    }

    /// Rules for shapers, once all values are resolved.
    pub fn rules(&self, kind: Kind) -> Rules {
        let span = |span: Option<Span>| span.map_or(0, |span| span.0);
        let bytes = |bytes: Option<Bytes>| bytes.map_or(0, |bytes| bytes.0 as u32);
        Rules {
            kind,
            egress: self.egress.map(rate_of),
            tenants: self.tenants.values().copied().map(rate_of).collect(),
            names: self.tenants.keys().cloned().collect(),
            cost: span(self.cost),
            slot: span(self.slot),
            horizon: span(self.horizon),
            cores: self.cores.unwrap_or(1),
            rebalance: span(self.rebalance),
            budget: bytes(self.budget),
            burst: bytes(self.burst),
            queue: self.queue.unwrap_or(0),
            quantum: bytes(self.quantum).into(),
            slack: span(self.slack),
        }
    }
}

fn rate_of(rate: Rate) -> f64 {
    rate.0 as f64
}

/// Time that `size` bytes take at a rate in bits per second.
#[inline]
pub fn time_at(size: u32, rate: f64) -> Ps {
    (f64::from(size) * 8.0 * SEC as f64 / rate) as Ps
}
