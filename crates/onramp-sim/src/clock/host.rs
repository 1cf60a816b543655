//! A host's clock: as it runs, is stamped and is corrected.

use super::oscillator::{EPOCH, Oscillator};
use super::stamps::Stamper;
use onramp_clock::Correction;
use onramp_config::units::{NS, Ps};

/// One host's clock.
#[derive(Debug)]
pub struct HostClock {
    /// As it runs by itself.
    pub oscillator: Oscillator,
    /// Stamps data.
    pub stamper: Stamper,
    /// Stamps probes: the NIC's or the kernel's own, or a program's.
    pub probe_stamper: Stamper,
    /// The correction in force.
    pub correction: Option<Correction>,
    /// Hosts of different parts know nothing of each other.
    pub part: u32,
}

impl HostClock {
    /// By how much the corrected clock is ahead of true time, in nanoseconds.
    #[inline]
    pub fn error(&mut self, t: Ps) -> Option<i64> {
        self.oscillator.advance(t);
        let fleet = self.correction.as_ref()?.to_fleet(self.oscillator.reading(t));
        Some(fleet - (EPOCH + t / NS) as i64)
    }

    /// Standard deviation of that, as the host knows it, in nanoseconds.
    #[inline]
    pub fn uncertainty(&self, t: Ps) -> Option<f64> {
        Some(self.correction.as_ref()?.uncertainty_at(self.oscillator.reading(t)))
    }

    /// Reads the clock as a probe leaves.
    pub fn stamp_departure(&mut self, now: Ps) -> u64 {
        self.oscillator.advance(now);
        self.oscillator.reading(now).wrapping_add_signed(self.probe_stamper.departure())
    }

    /// Reads the clock as a probe comes.
    pub fn stamp_arrival(&mut self, now: Ps) -> u64 {
        self.oscillator.advance(now);
        self.oscillator.reading(now).wrapping_add_signed(self.probe_stamper.arrival())
    }
}
