//! A host's receive processing: packets wait in a ring until they are served, one after the other (Swift,
//! SIGCOMM'20, §3.1: congestion at endpoints).

use onramp_config::Rule;
use onramp_config::units::{Ps, Rate, SEC, Span};
use onramp_workload::state::Encoder;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// How service times vary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spread {
    /// Not at all.
    #[default]
    Fixed,
    /// Exponentially around the mean.
    Exponential,
}

/// Time that some hosts need for a packet that has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Processing {
    /// Hosts, or groups of them, by name. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Mean time for a packet. Default 0.
    pub time: Span,
    /// How that varies. Default "fixed".
    pub spread: Spread,
    /// Bits on the wire that are processed in a second, beside `time`. Default: as many as come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Packets that the ring has room for, the one being served included; what comes to a full ring is
    /// dropped. Default 1024.
    pub ring: u32,
}

impl Default for Processing {
    fn default() -> Self {
        Self { hosts: None, time: Span(0), spread: Spread::Fixed, rate: None, ring: 1024 }
    }
}

impl Processing {
    /// Checks values.
    pub fn check(&self, rule: Rule<'_>) {
        let some = self.time > Span(0) || self.rate.is_some();
        rule(some, "time", "or rate is needed: such as time = \"200ns\" or rate = \"10Gbps\"".into());
        rule(self.time <= Span(SEC), "time", format!("{} is more than 1s a packet", self.time));
        rule(self.rate.is_none_or(|rate| rate.0 > 0), "rate", "must be above 0, such as \"10Gbps\"".into());
        rule((1..=1_000_000).contains(&self.ring), "ring", format!("{} is outside 1 to 1000000", self.ring));
    }
}

/// The ring of a NIC, and who serves it.
#[derive(Debug)]
pub(super) struct Ring<P> {
    room: usize,
    time: Ps,
    spread: Spread,
    rate: Option<Rate>,
    random: Pcg64Mcg,
    /// When all that waits has been served.
    free_at: Ps,
    /// Packets, and when they came.
    waiting: VecDeque<(Ps, P)>,
}

impl<P> Ring<P> {
    /// Of the NIC at a port of the whole network.
    pub fn new(config: &Processing, seed: u64, port: u32) -> Self {
        Self {
            room: config.ring as usize,
            time: config.time.0,
            spread: config.spread,
            rate: config.rate,
            random: onramp_random::stream(seed, "processing", u64::from(port)),
            free_at: 0,
            waiting: VecDeque::new(),
        }
    }

    /// A packet of `size` bytes has come: when it will have been served. It comes back if there is no room.
    pub fn take(&mut self, now: Ps, size: u16, packet: P) -> Result<Ps, P> {
        if self.waiting.len() >= self.room {
            return Err(packet);
        }
        let time = match self.spread {
            Spread::Fixed => self.time,
            Spread::Exponential => (self.time as f64 * onramp_random::exponential(&mut self.random)) as Ps,
        };
        let transfer = self.rate.map_or(0, |rate| rate.time_for(u64::from(size)));
        self.free_at = self.free_at.max(now) + time + transfer;
        self.waiting.push_back((now, packet));
        Ok(self.free_at)
    }

    /// Takes down its state; it is busy while a packet waits.
    pub fn encode(&self, state: &mut Encoder) {
        let Self { room: _, time: _, spread: _, rate: _, random, free_at, waiting } = self;
        if !waiting.is_empty() {
            state.busy();
        }
        state.random(random);
        state.due(*free_at);
    }

    /// The packet that has been served now, and when it came.
    pub fn served(&mut self) -> Option<(Ps, P)> {
        self.waiting.pop_front()
    }

    /// Packets in it.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::{NS, US};

    fn ring(config: &Processing) -> Ring<u32> {
        Ring::new(config, 1, 0)
    }

    #[test]
    fn packets_are_served_in_order_each_after_the_one_before() {
        let mut ring = ring(&Processing { time: Span(200 * NS), ring: 3, ..Processing::default() });
        assert_eq!(ring.take(US, 1000, 1), Ok(1_200 * NS));
        assert_eq!(ring.take(1_100 * NS, 1000, 2), Ok(1_400 * NS));
        assert_eq!(ring.take(1_100 * NS, 1000, 3), Ok(1_600 * NS));
        // Full, and then there is room for one.
        assert_eq!(ring.take(1_150 * NS, 1000, 4), Err(4));
        assert_eq!(ring.served(), Some((US, 1)));
        assert_eq!(ring.take(1_200 * NS, 1000, 5), Ok(1_800 * NS));
        // Idle again.
        assert_eq!([ring.served(), ring.served(), ring.served()].map(|p| p.map(|p| p.1)), [Some(2), Some(3), Some(5)]);
        assert_eq!(ring.take(2 * US, 1000, 6), Ok(2_200 * NS));
    }

    #[test]
    fn a_rate_takes_longer_for_larger_packets() {
        let config = Processing { time: Span(100 * NS), rate: Some(Rate(10_000_000_000)), ..Processing::default() };
        let mut ring = ring(&config);
        // 1000 B at 10 Gb/s are 800 ns.
        assert_eq!(ring.take(0, 1000, 1), Ok(900 * NS));
        assert_eq!(ring.take(0, 100, 2), Ok((900 + 180) * NS));
    }

    #[test]
    fn an_exponential_service_has_the_mean_and_the_spread_of_one() {
        let config = Processing { time: Span(US), spread: Spread::Exponential, ..Processing::default() };
        let mut ring = ring(&config);
        let times: Vec<f64> = (0..20_000)
            .map(|i| {
                let at = i * SEC;
                let done = ring.take(at, 1000, 0).unwrap() - at;
                ring.served();
                done as f64 / US as f64
            })
            .collect();
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let square = times.iter().map(|t| t * t).sum::<f64>() / times.len() as f64;
        assert!((mean - 1.0).abs() < 0.03 && (square - 2.0).abs() < 0.15, "{mean}, {square}");
    }
}
