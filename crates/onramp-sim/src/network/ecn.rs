//! ECN marking at an egress port: RED-like between two thresholds, or a step.

use super::config;
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

/// Thresholds of one port.
#[derive(Clone, Copy, Debug)]
pub struct Ecn {
    kmin: u64,
    kmax: u64,
    pmax: f64,
}

impl Ecn {
    /// Never marks.
    pub const OFF: Ecn = Ecn { kmin: u64::MAX, kmax: u64::MAX, pmax: 0.0 };

    /// Thresholds of a port as the scenario has them.
    pub fn new(config: &config::Ecn) -> Self {
        Self { kmin: config.kmin.0, kmax: config.kmax.0, pmax: config.pmax }
    }

    /// Returns whether to mark a packet that leaves `queue` bytes of its class behind.
    #[inline]
    pub fn mark(&self, queue: u64, random: &mut Pcg64Mcg) -> bool {
        if queue <= self.kmin {
            return false;
        }
        if queue > self.kmax {
            return true;
        }
        let share = (queue - self.kmin) as f64 / (self.kmax - self.kmin) as f64;
        // 32 random bits as a number from 0 to 1, exclusive.
        f64::from(random.next_u32()) * (1.0 / 4_294_967_296.0) < self.pmax * share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::{Bytes, Rate};

    fn share_marked(queue: u64, kmin: u64, kmax: u64, pmax: f64) -> f64 {
        let ecn = Ecn::new(&config::Ecn { rate: Rate(1), kmin: Bytes(kmin), kmax: Bytes(kmax), pmax });
        let mut random = onramp_random::stream(1, "ecn", 0);
        (0..100_000).filter(|_| ecn.mark(queue, &mut random)).count() as f64 / 1e5
    }

    #[test]
    fn marks_come_at_the_stated_probabilities() {
        // At 100 Gb/s: 400 KB, 1600 KB, 0.2.
        for (queue, expected) in [(0, 0.0), (400_000, 0.0), (700_000, 0.05), (1_000_000, 0.1), (1_600_000, 0.2)] {
            let found = share_marked(queue, 400_000, 1_600_000, 0.2);
            // Three standard deviations of 100 000 draws.
            assert!((found - expected).abs() <= 0.004, "{found} at {queue} B, expected {expected}");
        }
        assert_eq!(share_marked(1_600_001, 400_000, 1_600_000, 0.2), 1.0);
    }

    #[test]
    fn a_step_marks_everything_above_and_nothing_below() {
        assert_eq!(share_marked(300_000, 300_000, 300_000, 1.0), 0.0);
        assert_eq!(share_marked(300_001, 300_000, 300_000, 1.0), 1.0);
    }

    #[test]
    fn off_never_marks() {
        assert!(!Ecn::OFF.mark(u64::MAX, &mut onramp_random::stream(1, "ecn", 0)));
    }
}
