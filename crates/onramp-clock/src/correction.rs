//! A host's clock against the fleet's time.

/// What to subtract from a host's clock to get the fleet's time.
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

    /// Nanoseconds from `base` to `t`, negative before it.
    fn age(&self, t: u64) -> f64 {
        (i128::from(t) - i128::from(self.base)) as f64
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
    fn uncertainty_grows_with_age() {
        let c = correction();
        assert_eq!(c.uncertainty_at(YEARS), 30.0);
        // 2 s: 30 ns, 40 ns of drift, 4 ns of wander.
        let two = (30.0_f64.powi(2) + 40.0_f64.powi(2) + 4.0_f64.powi(2)).sqrt();
        assert!((c.uncertainty_at(YEARS + 2_000_000_000) - two).abs() < 1e-9);
        assert!((c.uncertainty_at(YEARS - 2_000_000_000) - two).abs() < 1e-9);
    }

    #[test]
    fn a_fleet_of_one_is_its_own_time() {
        let c = Correction::identity(YEARS);
        assert_eq!(c.to_fleet(YEARS + 5), (YEARS + 5) as i64);
        assert_eq!(c.uncertainty_at(0), 0.0);
    }
}
