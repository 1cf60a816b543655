//! A host's clock as it runs by itself: offset, frequency, random walk of frequency.

use super::config::Clock;
use onramp_config::units::{MS, NS, Ps, SEC};
use rand_pcg::Pcg64Mcg;

/// Reading of a right clock at the start of the run, in nanoseconds: 2020, so that offsets of days stay positive.
pub const EPOCH: u64 = 1_577_836_800_000_000_000;

/// The frequency changes in steps of this: in one of them, a wander of 1 ppb in
/// a second moves a clock by less than 0.1 ns.
const STEP: Ps = 100 * MS;

/// A free-running clock.
#[derive(Debug)]
pub struct Oscillator {
    /// How far it was ahead of true time at the start, in nanoseconds.
    offset: i64,
    /// Time gained since, up to `at`, in nanoseconds.
    gained: f64,
    at: Ps,
    /// Frequency error, in seconds per second.
    frequency: f64,
    /// Standard deviation of the frequency's change in a step.
    step: f64,
    random: Pcg64Mcg,
}

impl Oscillator {
    /// The clock of host number `host`.
    pub fn new(clock: &Clock, seed: u64, host: u32) -> Self {
        let mut random = onramp_random::stream(seed, "oscillator", u64::from(host));
        let mut either_way = |most: f64| most * (2.0 * onramp_random::uniform(&mut random) - 1.0);
        let offset = either_way(clock.offset.unwrap_or_default().0 as f64 / NS as f64).round() as i64;
        let frequency = either_way(clock.drift.unwrap_or_default().share());
        let step = clock.wander.unwrap_or_default().share() * libm::sqrt(STEP as f64 / SEC as f64);
        Self { offset, gained: 0.0, at: 0, frequency, step, random }
    }

    /// How far it is off at the start, in nanoseconds, and how fast it gains, in seconds per
    /// second.
    #[must_use]
    pub fn start(&self) -> (i64, f64) {
        (self.offset, self.frequency)
    }

    /// Brings the random walk up to `now`.
    pub fn advance(&mut self, now: Ps) {
        while self.at + STEP <= now {
            self.gained += self.frequency * (STEP / NS) as f64;
            self.at += STEP;
            self.frequency += self.step * onramp_random::normal(&mut self.random);
        }
    }

    /// Reading at `t`, which may be some steps before or after the time it was advanced to, in nanoseconds.
    #[inline]
    pub fn reading(&self, t: Ps) -> u64 {
        let since = t.wrapping_sub(self.at).cast_signed() as f64 / NS as f64;
        let gained = self.gained + self.frequency * since + (t % NS) as f64 / NS as f64;
        (EPOCH + t / NS).wrapping_add_signed(self.offset + libm::floor(gained) as i64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::config::Sync;
    use onramp_config::units::{Drift, Span};
    use proptest::prelude::*;

    fn clock(offset: Span, drift: Drift, wander: Drift) -> Clock {
        Clock {
            sync: Sync::Huygens,
            offset: Some(offset),
            drift: Some(drift),
            wander: Some(wander),
            ..Clock::default()
        }
    }

    /// How far it is ahead of true time, in nanoseconds.
    fn ahead(oscillator: &mut Oscillator, t: Ps) -> f64 {
        oscillator.advance(t);
        oscillator.reading(t) as f64 - (EPOCH + t / NS) as f64
    }

    #[test]
    fn without_error_it_shows_true_time() {
        let mut right = Oscillator::new(&clock(Span(0), Drift(0), Drift(0)), 1, 0);
        for t in [0, 999, 1_000, SEC + 1, 3600 * SEC] {
            right.advance(t);
            assert_eq!(right.reading(t), EPOCH + t / NS);
        }
    }

    #[test]
    fn offsets_and_drifts_fill_their_range() {
        let (mut offsets, mut drifts) = (vec![], vec![]);
        for host in 0..400 {
            let mut one = Oscillator::new(&clock(Span(5 * MS), Drift(30_000_000), Drift(0)), 1, host);
            let start = ahead(&mut one, 0);
            offsets.push(start);
            drifts.push((ahead(&mut one, 100 * SEC) - start) / 100e9);
        }
        let range = |v: &[f64]| v.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
        let ((low, high), (slow, fast)) = (range(&offsets), range(&drifts));
        assert!((-5e6..-4.8e6).contains(&low) && (4.8e6..=5e6).contains(&high), "{low} to {high}");
        assert!((-30e-6..-29e-6).contains(&slow) && (29e-6..=30e-6).contains(&fast), "{slow} to {fast}");
    }

    #[test]
    fn a_random_walk_of_frequency_moves_the_clock_as_theory_says() {
        // Phase of a frequency random walk: variance w² T³ / 3.
        let t = 100 * SEC;
        let squares: f64 = (0..2_000)
            .map(|host| ahead(&mut Oscillator::new(&clock(Span(0), Drift(0), Drift(1_000)), 7, host), t).powi(2))
            .sum();
        let found = (squares / 2_000.0).sqrt();
        let expected = 1.0 * (100f64.powi(3) / 3.0).sqrt();
        assert!((found / expected - 1.0).abs() < 0.06, "{found} ns, expected {expected} ns");
    }

    proptest! {
        /// Whatever the steps between two looks: time goes on, about as fast as it should.
        #[test]
        fn it_never_jumps(
            host in 0u32..50,
            offset in 0u64..86_400,
            steps in prop::collection::vec(0u64..3 * SEC, 1..40),
        ) {
            let clock = clock(Span(offset * SEC), Drift(500_000_000), Drift(1_000_000));
            let mut one = Oscillator::new(&clock, 9, host);
            let (mut t, mut before) = (0, one.reading(0));
            for step in steps {
                t += step;
                one.advance(t);
                let now = one.reading(t);
                let (passed, truly) = ((now - before) as f64, step as f64 / NS as f64);
                // 500 ppm, and 100 times what 1 ppm walks in two minutes.
                prop_assert!((passed - truly).abs() <= 1.6e-3 * truly + 2.0, "{passed} ns in {truly} ns");
                before = now;
            }
        }
    }

    #[test]
    fn a_look_back_agrees_with_what_was_read_then() {
        let mut one = Oscillator::new(&clock(Span(5 * MS), Drift(30_000_000), Drift(1_000)), 3, 1);
        one.advance(10 * SEC - MS);
        let then = one.reading(10 * SEC - MS);
        one.advance(10 * SEC);
        assert!(one.reading(10 * SEC - MS).abs_diff(then) <= 1);
    }
}
