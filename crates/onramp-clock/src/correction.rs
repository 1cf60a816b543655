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
