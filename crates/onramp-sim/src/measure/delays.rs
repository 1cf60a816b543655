//! A histogram of delays that may be negative, as clocks that differ measure them.

use hdrhistogram::Histogram;
use onramp_records::counters::{Distribution, Spread};

/// Delays in nanoseconds, to three digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Delays {
    above: Histogram<u64>,
    /// Magnitudes of those below 0.
    below: Histogram<u64>,
}

/// One nanosecond to 10 s, to three digits.
fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are valid")
}

impl Default for Delays {
    fn default() -> Self {
        // Seldom used, so it grows as it must.
        Self { above: histogram(), below: Histogram::new(3).expect("three digits are possible") }
    }
}

impl Delays {
    /// One more delay.
    #[inline]
    pub fn record(&mut self, ns: i64) {
        if ns < 0 {
            self.below.record(ns.unsigned_abs()).expect("it grows");
        } else {
            self.above.saturating_record(ns as u64);
        }
    }

    /// The same delay so many times.
    pub fn record_several(&mut self, ns: i64, count: u64) {
        if count == 0 {
        } else if ns < 0 {
            self.below.record_n(ns.unsigned_abs(), count).expect("it grows");
        } else {
            self.above.saturating_record_n(ns as u64, count);
        }
    }

    /// So many delays of 0.
    pub fn record_zeros(&mut self, count: u64) {
        if count > 0 {
            self.above.saturating_record_n(0, count);
        }
    }

    /// Those of another cell, too.
    pub fn add(&mut self, other: &Self) {
        self.above.add(&other.above).expect("the bounds are the same");
        self.below.add(&other.below).expect("it grows");
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.above.len() + self.below.len()
    }

    fn at(&self, quantile: f64) -> f64 {
        let (below, all) = (self.below.len(), self.count());
        let rank = ((quantile * all as f64).ceil() as u64).clamp(1, all.max(1));
        if rank > below {
            let above = self.above.len().max(1) as f64;
            return self.above.value_at_quantile((rank - below) as f64 / above) as f64;
        }
        // The lowest has the largest magnitude.
        -(self.below.value_at_quantile((below - rank + 1) as f64 / below as f64) as f64)
    }

    /// Mean and percentiles in microseconds; beside those of the summary pairs from the 0th on, the last hundredth in
    /// tenths.
    pub fn distribution(&self) -> Distribution {
        let all_percents = (0..100).map(|percent| percent * 10).chain(991..1000);
        let pair = |tenths| (f64::from(tenths) / 10.0, self.at(f64::from(tenths) / 1000.0) / 1000.0);
        Distribution {
            spread: self.summary(),
            p999: self.at(0.999) / 1000.0,
            percentiles: all_percents.map(pair).collect(),
            samples: self.count(),
        }
    }

    fn sum(histogram: &Histogram<u64>) -> f64 {
        if histogram.is_empty() { 0.0 } else { histogram.mean() * histogram.len() as f64 }
    }

    /// Mean, percentiles and largest, in microseconds.
    pub fn summary(&self) -> Spread {
        let us = |ns: f64| ns / 1000.0;
        let mean = (Self::sum(&self.above) - Self::sum(&self.below)) / self.count().max(1) as f64;
        let most = if self.above.is_empty() && !self.below.is_empty() { self.at(1.0) } else { self.above.max() as f64 };
        Spread { mean: us(mean), p50: us(self.at(0.5)), p99: us(self.at(0.99)), max: us(most) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(all: &[i64]) -> [f64; 4] {
        let mut delays = Delays::default();
        all.iter().for_each(|ns| delays.record(*ns));
        let Spread { mean, p50, p99, max } = delays.summary();
        [mean, p50, p99, max].map(|us| (us * 1000.0).round())
    }

    #[test]
    fn negative_delays_count_as_what_they_are() {
        assert_eq!(summary(&[-100, -300, 100, 200]), [-25.0, -100.0, 200.0, 200.0]);
        assert_eq!(summary(&[-100, -300, -500]), [-300.0, -300.0, -100.0, -100.0]);
        assert_eq!(summary(&[100, 300, 500]), [300.0, 300.0, 500.0, 500.0]);
        assert_eq!(summary(&[]), [0.0; 4]);
    }
}
