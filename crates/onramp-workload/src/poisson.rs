//! Arrival times of a Poisson process.

use super::Section;
use onramp_config::units::{Ps, Rate, SEC};
use rand_pcg::Pcg64Mcg;

/// Arrivals from the beginning of the warm-up to the end of the scenario's duration.
pub(super) struct Poisson {
    /// Also for what the arrivals draw themselves.
    pub random: Pcg64Mcg,
    mean_gap: f64,
    /// Bytes of an arrival on average.
    bytes: f64,
    next: Ps,
    end: Ps,
}

impl Poisson {
    /// Arrivals that bring `bytes` each on average and `load` times `capacity`
    /// together, from the random stream of `purpose` for this section and `host`.
    pub fn new(section: &Section<'_>, purpose: &str, host: u32, bytes: f64, load: f64, capacity: Rate) -> Self {
        let index = u64::from(section.number) << 32 | u64::from(host);
        let random = onramp_random::stream(section.span.seed, purpose, index);
        let mean_gap = bytes * 8.0 * SEC as f64 / (load * capacity.0 as f64);
        let mut poisson = Self { random, mean_gap, bytes, next: 0, end: section.span.end() };
        poisson.advance();
        poisson
    }

    pub fn next_at(&self) -> Option<Ps> {
        (self.next < self.end).then_some(self.next)
    }

    /// Bytes still to come after `now`, on average.
    pub fn expected_bytes(&self, now: Ps) -> f64 {
        self.end.saturating_sub(now) as f64 / self.mean_gap * self.bytes
    }

    pub fn advance(&mut self) {
        let gap = (onramp_random::exponential(&mut self.random) * self.mean_gap).round();
        self.next = self.next.saturating_add(gap as u64);
    }
}
