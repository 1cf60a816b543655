//! Clocks that are off by a constant each.

use super::config::Clock;

/// Offset of every host's clock from true time, normally distributed, in nanoseconds.
pub fn offsets(clock: &Clock, seed: u64, hosts: usize) -> Vec<i64> {
    let mut random = onramp_random::stream(seed, "clock", 0);
    let sigma_ns = clock.sigma.0 as f64 / 1000.0;
    (0..hosts).map(|_| (onramp_random::normal(&mut random) * sigma_ns).round() as i64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::config::Sync;
    use onramp_config::units::{NS, Span};

    #[test]
    fn gaussian_offsets_have_the_stated_spread() {
        let clock = Clock { sync: Sync::Gaussian, sigma: Span(200 * NS), ..Clock::default() };
        let offsets = offsets(&clock, 1, 20_000);
        let mean = offsets.iter().sum::<i64>() as f64 / 20_000.0;
        let variance = offsets.iter().map(|&o| (o as f64 - mean).powi(2)).sum::<f64>() / 20_000.0;
        assert!(mean.abs() < 6.0, "{mean}");
        assert!((variance.sqrt() - 200.0).abs() < 4.0, "{}", variance.sqrt());
    }
}
