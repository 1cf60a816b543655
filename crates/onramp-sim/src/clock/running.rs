//! Clocks that run on their own, and the corrections in force.

use super::Margin;
use super::accuracy::Accuracy;
use super::config::{Clock, Stamps, Sync};
use super::host::HostClock;
use super::huygens::Huygens;
use super::ntp::Client;
use super::oscillator::Oscillator;
use super::probes::RoundTrip;
use super::stamps::Stamper;
use crate::engine::Slab;
use onramp_clock::Correction;
use onramp_config::units::{NS, Ps};

/// All hosts' clocks and what synchronises them.
#[derive(Debug)]
pub struct Running {
    pub(super) hosts: Vec<HostClock>,
    pub(super) method: Method,
    /// Probes on their way, by number.
    pub(super) under_way: Slab<RoundTrip>,
    /// Probe bytes that hosts have sent.
    pub(super) probe_bytes: u64,
    pub(super) accuracy: Accuracy,
    /// Standard deviation of one stamp's noise, as the probes show it, in nanoseconds.
    pub(super) noise: f64,
    /// Corrections made so far.
    pub(super) epoch: u32,
    max_uncertainty: f64,
}

/// How corrections come about.
#[derive(Debug)]
pub(super) enum Method {
    Huygens(Huygens),
    /// One client per host; the first host is the server.
    Ntp(Vec<Client>),
}

impl Running {
    /// Clocks of a scenario that is resolved.
    pub fn new(clock: &Clock, seed: u64, hosts: usize) -> Self {
        let stamps = clock.stamps.unwrap_or(Stamps::Exact);
        let probe_stamper = |host| match clock.sync {
            Sync::Ntp => Stamper::in_user_space(stamps, seed, host),
            _ => Stamper::new(stamps, seed, host),
        };
        let host = |host| HostClock {
            oscillator: Oscillator::new(clock, seed, host),
            stamper: Stamper::new(stamps, seed, host),
            probe_stamper: probe_stamper(host),
            correction: None,
            part: 0,
        };
        let mut hosts: Vec<HostClock> = (0..hosts as u32).map(host).collect();
        let method = if clock.sync == Sync::Ntp {
            let server = &mut hosts[0];
            server.correction = Some(Correction::identity(server.oscillator.reading(0)));
            Method::Ntp(hosts.iter().map(|h| Client::new(h.oscillator.reading(0))).collect())
        } else {
            Method::Huygens(Huygens::new(clock, seed, hosts.len()))
        };
        Self {
            hosts,
            method,
            under_way: Slab::default(),
            probe_bytes: 0,
            accuracy: Accuracy::default(),
            noise: 0.0,
            epoch: 0,
            max_uncertainty: clock.max_uncertainty.unwrap_or_default().0 as f64 / NS as f64,
        }
    }

    /// Error that the clocks add to the delay of a packet from `src`, sent at `sent`, to `dst`, where it arrives now,
    /// in nanoseconds.
    #[cold]
    pub fn owd_error(&mut self, src: u32, dst: u32, sent: Ps, now: Ps) -> Option<i64> {
        let from = &mut self.hosts[src as usize];
        // The walk of the frequency stays in the present, which comes after `sent`.
        from.oscillator.advance(now);
        let left = from.error(sent)? + from.stamper.departure();
        let part = from.part;
        let to = &mut self.hosts[dst as usize];
        let arrived = to.error(now)? + to.stamper.arrival();
        (to.part == part).then_some(arrived - left)
    }

    /// See [`super::Clocks::margin`].
    #[cold]
    pub fn margin(&mut self, src: u32, dst: u32, now: Ps) -> Option<Margin> {
        let [a, b] = [src, dst].map(|host| self.hosts[host as usize].uncertainty(now));
        let joint = libm::hypot(a?, b?);
        let ns = libm::rint(2.0 * joint + self.noise) as u64;
        (joint <= self.max_uncertainty).then_some(Margin { ns, epoch: self.epoch })
    }
}
