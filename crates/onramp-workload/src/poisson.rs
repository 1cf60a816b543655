//! Arrival times of a Poisson process.

use super::{NewFlow, Section, Source};
use onramp_config::units::{Ps, Rate, SEC};
use rand_pcg::Pcg64Mcg;

/// Draws the flows of each arrival.
pub(super) trait Draw: Send + Sync {
    /// Adds the flows of the next arrival to `out`.
    fn draw(&mut self, random: &mut Pcg64Mcg, out: &mut Vec<NewFlow>);
}

/// Arrivals from the beginning of the warm-up to the end of the scenario's duration.
pub(super) struct Poisson {
    /// Also for what the arrivals draw themselves.
    random: Pcg64Mcg,
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

    /// Source of flows that `draw` draws at each arrival.
    pub fn source(self, draw: impl Draw) -> impl Source {
        Drawn { arrivals: self, draw }
    }

    fn advance(&mut self) {
        let gap = (onramp_random::exponential(&mut self.random) * self.mean_gap).round();
        self.next = self.next.saturating_add(gap as u64);
    }
}

struct Drawn<D> {
    arrivals: Poisson,
    draw: D,
}

impl<D: Draw> Source for Drawn<D> {
    fn next_at(&self) -> Option<Ps> {
        let Poisson { next, end, .. } = self.arrivals;
        (next < end).then_some(next)
    }

    fn expected_bytes(&self, now: Ps) -> f64 {
        let Poisson { mean_gap, bytes, end, .. } = self.arrivals;
        end.saturating_sub(now) as f64 / mean_gap * bytes
    }

    fn take(&mut self, out: &mut Vec<NewFlow>) {
        self.draw.draw(&mut self.arrivals.random, out);
        self.arrivals.advance();
    }
}
