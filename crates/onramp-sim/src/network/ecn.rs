//! ECN marking at an egress port: RED-like between two thresholds, or a step.

use crate::scenario;
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
    pub fn new(config: &scenario::Ecn) -> Self {
        Self { kmin: config.kmin.0, kmax: config.kmax.0, pmax: config.pmax }
    }

    /// Whether to mark a packet that leaves `queue` bytes of its class behind.
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
