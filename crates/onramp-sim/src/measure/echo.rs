//! Delays that later repetitions of a stretch of time will measure, while the stretch is simulated.
//!
//! A repetition is the same stretch, shifted in time, and measures the same, with two exceptions. Queues are sampled on a
//! grid of absolute time, which does not shift with them. Clocks count whole nanoseconds, so that a delay of 1.5 ns
//! counts one or two of them, depending on where the nanosecond begins.

use super::Delays;
use onramp_config::units::{NS, Ps};

/// See the module.
#[derive(Clone, Debug)]
pub struct Echo {
    /// One-way delays of data packets, of all repetitions.
    pub owd: Delays,
    /// Queueing delays at switch ports, of all repetitions.
    pub queue: Delays,
    /// Shift of the present, within a nanosecond \[ps\].
    shift: Ps,
    /// By number: repetitions that are shifted by less picoseconds, within a nanosecond.
    shifted_less: Vec<u64>,
}

impl Echo {
    /// Of `times` repetitions, each `period` after the one before, of a present that is itself `shift` later than its
    /// clocks tell.
    pub fn new(shift: Ps, period: Ps, times: u64) -> Self {
        let mut shifts = vec![0; NS as usize];
        (1..=times).for_each(|time| shifts[((shift + time * (period % NS)) % NS) as usize] += 1);
        let sum = |sum: &mut u64, shift: u64| {
            *sum += shift;
            Some(*sum)
        };
        let shifted_less = std::iter::once(0).chain(shifts.into_iter().scan(0, sum)).collect();
        Self { owd: Delays::default(), queue: Delays::default(), shift: shift % NS, shifted_less }
    }

    /// Repetitions whose shift is from `from` on and before `to` \[ps\], up to a nanosecond.
    fn between(&self, from: Ps, to: Ps) -> u64 {
        self.shifted_less[to as usize] - self.shifted_less[from as usize]
    }

    /// A packet that left `sent` picoseconds after the beginning of a nanosecond has taken `took`; clocks are off by
    /// `error` \[ns\]. Returns the delay that is measured at present \[ns\].
    pub fn owd(&mut self, sent: Ps, took: Ps, error: i64) -> i64 {
        let all = self.shifted_less[NS as usize];
        let (whole, part) = ((took / NS) as i64, took % NS);
        // One more nanosecond has begun where the shifted time of leaving is within `part` of the next one.
        let (from, to) = (2 * NS - part - sent, 2 * NS - sent);
        let more = match (from / NS, to / NS) {
            (2, _) => self.between(from - 2 * NS, to - 2 * NS),
            (1, 2) => self.between(from - NS, NS) + self.between(0, to - 2 * NS),
            (1, _) => self.between(from - NS, to - NS),
            (_, 1) => self.between(from, NS) + self.between(0, to - NS),
            _ => self.between(from, to),
        };
        for (owd, count) in [(whole, all - more), (whole + 1, more)] {
            self.owd.record_several(owd + error, count);
        }
        (((sent + self.shift) % NS + took) / NS) as i64 + error
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn delays_are_those_of_each_repetition(
            sent in 0..NS,
            took in 0..5 * NS,
            shift in 0..5 * NS,
            period in 1u64..1 << 50,
            times in 0u64..40,
            start in 0u64..1 << 40,
        ) {
            let owd = |time| {
                let left = start * NS + sent + shift + time * period;
                ((left + took) / NS) as i64 - (left / NS) as i64 - 3
            };
            let mut echo = Echo::new(shift, period, times);
            prop_assert_eq!(echo.owd(sent, took, -3), owd(0));
            let mut expected = Delays::default();
            (1..=times).for_each(|time| expected.record(owd(time)));
            prop_assert_eq!(echo.owd, expected);
        }
    }
}
