//! A host's clock against the fleet's time.

/// Two corrections contradict each other if they are so many standard deviations apart.
const CONTRADICTION: f64 = 6.0;

/// The share of the second of two values in their mean, weighted by their standard deviations,
/// and how well it is known: no better than the better of the two, since much of what windows
/// are wrong by, such as a way that is longer in one direction, they have in common.
fn weigh(first: f64, second: f64) -> (f64, f64) {
    let both = libm::hypot(first, second);
    let share = if both > 0.0 { (first / both).powi(2) } else { 0.5 };
    (share, first.min(second))
}

/// Difference to subtract from a host's clock to get the fleet's time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Correction {
    /// When it was right, in nanoseconds of the host's own clock.
    pub base: u64,
    /// How far the clock was ahead of the fleet's time at `base`, in nanoseconds.
    pub offset: i64,
    /// How fast the clock gains on the fleet's time, in seconds per second of
    /// its own.
    pub drift: f64,
    /// Standard deviation of `offset`, in nanoseconds.
    pub sigma: f64,
    /// Standard deviation of `drift`.
    pub drift_sigma: f64,
    /// How fast the drift may change, in seconds per second, per second.
    pub wander: f64,
}

impl Correction {
    /// The clock is the fleet's time: a fleet of one host.
    #[must_use]
    pub fn identity(base: u64) -> Self {
        Self { base, offset: 0, drift: 0.0, sigma: 0.0, drift_sigma: 0.0, wander: 0.0 }
    }

    /// How far the clock is ahead of the fleet's time when it reads `t`, in
    /// nanoseconds.
    #[must_use]
    pub fn offset_at(&self, t: u64) -> i64 {
        self.offset.saturating_add(libm::rint(self.drift * self.age(t)) as i64)
    }

    /// The fleet's time when the clock reads `t`, in nanoseconds.
    #[must_use]
    pub fn to_fleet(&self, t: u64) -> i64 {
        t.cast_signed().wrapping_sub(self.offset_at(t))
    }

    /// Standard deviation of [`offset_at`](Self::offset_at) `t`, in
    /// nanoseconds: it grows with the distance from `base`, in both directions.
    #[must_use]
    pub fn uncertainty_at(&self, t: u64) -> f64 {
        let age = self.age(t);
        let drift = self.drift_sigma * age;
        // wander is per second, age in nanoseconds.
        let wander = self.wander * age * age / 2e9;
        libm::sqrt(self.sigma * self.sigma + drift * drift + wander * wander)
    }

    /// This correction and what `before` foretells at its base, each by its uncertainty, as a
    /// Kalman filter weighs them: a window of queues then moves the clock little. If the two
    /// contradict each other, the clock is not what it was, and this one holds.
    #[must_use]
    pub fn weighed_with(self, before: &Self) -> Self {
        let age = before.age(self.base);
        let apart = self.offset.saturating_sub(before.offset_at(self.base)) as f64;
        let doubt = before.uncertainty_at(self.base);
        let drift_apart = self.drift - before.drift;
        let drift_doubt = libm::hypot(before.drift_sigma, before.wander * age / 1e9);
        let contradict = |apart: f64, a: f64, b: f64| apart.abs() > CONTRADICTION * libm::hypot(a, b);
        if contradict(apart, self.sigma, doubt) || contradict(drift_apart, self.drift_sigma, drift_doubt) {
            return self;
        }
        let (share, sigma) = weigh(self.sigma, doubt);
        let (drift_share, drift_sigma) = weigh(self.drift_sigma, drift_doubt);
        Self {
            offset: self.offset - libm::rint(share * apart) as i64,
            drift: self.drift - drift_share * drift_apart,
            sigma,
            drift_sigma,
            ..self
        }
    }

    /// Nanoseconds from `base` to `t`, negative before it.
    fn age(&self, t: u64) -> f64 {
        t.wrapping_sub(self.base).cast_signed() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEARS: u64 = 1_700_000_000_000_000_000;

    fn correction() -> Correction {
        let (offset, drift) = (1_000_000_000_000_000_123, 10e-6);
        Correction { base: YEARS, offset, drift, sigma: 30.0, drift_sigma: 20e-9, wander: 2e-9 }
    }

    #[test]
    fn offsets_follow_the_drift_both_ways() {
        let c = correction();
        assert_eq!(c.offset_at(YEARS), c.offset);
        assert_eq!(c.offset_at(YEARS + 1_000_000_000), c.offset + 10_000);
        assert_eq!(c.offset_at(YEARS - 1_000_000_000), c.offset - 10_000);
        assert_eq!(c.to_fleet(YEARS), YEARS as i64 - c.offset);
    }

    #[test]
    fn a_clock_may_pass_its_zero() {
        let c = Correction { base: 1_000_000_000u64.wrapping_neg(), offset: -5_000_000_000, ..correction() };
        assert_eq!(c.offset_at(1_000_000_000), c.offset + 20_000);
        assert_eq!(c.to_fleet(c.base), 4_000_000_000);
        assert_eq!(c.uncertainty_at(1_000_000_000), correction().uncertainty_at(YEARS + 2_000_000_000));
    }

    #[test]
    fn uncertainty_grows_with_age() {
        let c = correction();
        assert_eq!(c.uncertainty_at(YEARS), 30.0);
        // 2 s: 30 ns, 40 ns of drift, 4 ns of wander.
        let two = (30.0_f64.powi(2) + 40.0_f64.powi(2) + 4.0_f64.powi(2)).sqrt();
        assert!((c.uncertainty_at(YEARS + 2_000_000_000) - two).abs() < 1e-9);
        assert!((c.uncertainty_at(YEARS - 2_000_000_000) - two).abs() < 1e-9);
    }

    /// Two seconds later the clock is foretold to be within 50.2 ns.
    fn later(apart: i64, sigma: f64) -> Correction {
        let base = YEARS + 2_000_000_000;
        Correction { base, offset: correction().offset_at(base) + apart, sigma, ..correction() }
    }

    #[test]
    fn a_doubtful_window_moves_the_clock_little() {
        let queued = later(5_000, 5_000.0).weighed_with(&correction());
        assert!((queued.offset - later(0, 1.0).offset).abs() <= 1, "{queued:?}");
        assert!((50.0..50.5).contains(&queued.sigma) && queued.drift == correction().drift);
        let sure = later(100, 5.0).weighed_with(&correction());
        assert_eq!(sure.offset, later(99, 5.0).offset);
        assert_eq!(sure.sigma, 5.0);
    }

    #[test]
    fn two_alike_meet_in_the_middle() {
        let both = later(10, 50.2).weighed_with(&correction());
        assert_eq!(both.offset, later(5, 1.0).offset);
        assert!((50.0..50.5).contains(&both.sigma), "{}", both.sigma);
        let exact = Correction { sigma: 0.0, drift_sigma: 0.0, wander: 0.0, ..correction() };
        assert_eq!(exact.weighed_with(&exact), exact);
    }

    #[test]
    fn a_clock_that_stepped_is_believed() {
        let stepped = later(1_000_000, 30.0);
        assert_eq!(stepped.weighed_with(&correction()), stepped);
        let faster = Correction { drift: 40e-6, ..later(0, 30.0) };
        assert_eq!(faster.weighed_with(&correction()), faster);
    }

    #[test]
    fn a_fleet_of_one_is_its_own_time() {
        let c = Correction::identity(YEARS);
        assert_eq!(c.to_fleet(YEARS + 5), (YEARS + 5) as i64);
        assert_eq!(c.uncertainty_at(0), 0.0);
    }
}
