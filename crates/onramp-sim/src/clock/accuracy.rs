//! How far the corrected clocks are off, as only an experiment can know it.

use hdrhistogram::Histogram;
use onramp_config::units::Ps;
use onramp_records::ClockRecord;
use onramp_records::counters::Percentiles;

/// Errors of the corrected clocks, sampled.
#[derive(Debug)]
pub struct Accuracy {
    records: Vec<ClockRecord>,
    /// Difference of two hosts, over all pairs and samples, in nanoseconds.
    errors: Histogram<u64>,
    uncertainties: Histogram<u64>,
}

impl Default for Accuracy {
    fn default() -> Self {
        // One nanosecond to 100 s, to three digits.
        let histogram = || Histogram::new_with_bounds(1, 100_000_000_000, 3).expect("the bounds are valid");
        Self { records: Vec::new(), errors: histogram(), uncertainties: histogram() }
    }
}

impl Accuracy {
    /// Takes in the hosts whose clocks are known at the time `since` time 0: by how many
    /// nanoseconds each is ahead of true time, and the standard deviation of that.
    pub fn sample(&mut self, known: &[(u32, i64, f64)], since: Ps) {
        let Some(&(_, first, _)) = known.first() else { return };
        // Fleet time may be far from true time, so differences come before means.
        let mean = known.iter().map(|&(_, error, _)| (error - first) as f64).sum::<f64>() / known.len() as f64;
        for (i, &(host, error, uncertainty_ns)) in known.iter().enumerate() {
            for &(_, other, _) in &known[..i] {
                self.errors.saturating_record(error.abs_diff(other));
            }
            self.uncertainties.saturating_record(uncertainty_ns as u64);
            let error_ns = (error - first) as f64 - mean;
            self.records.push(ClockRecord { time_ps: since, host, error_ns, uncertainty_ns });
        }
    }

    /// Records since the last call.
    pub fn take_records(&mut self) -> Vec<ClockRecord> {
        std::mem::take(&mut self.records)
    }

    /// Percentiles of errors and of uncertainties.
    pub fn summary(&self) -> (Percentiles, Percentiles) {
        let percentiles = |h: &Histogram<u64>| {
            let at = |q| (!h.is_empty()).then(|| h.value_at_quantile(q));
            Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99), max: at(1.0) }
        };
        (percentiles(&self.errors), percentiles(&self.uncertainties))
    }
}
