//! One-way delays, counted in the data path's buckets.

use crate::abi::OR_OWD_BUCKETS;
use crate::status::histogram::{lower_bound, quantile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const BUCKETS: usize = OR_OWD_BUCKETS as usize;

/// Delays in each bucket of the data path: four an octave, see [`lower_bound`]. In JSON, pairs of a bucket and its
/// count, without empty buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<(u8, u64)>", into = "Vec<(u8, u64)>")]
pub struct Histogram(BTreeMap<u8, u64>);

/// Buckets beyond the last one are taken for that.
impl From<Vec<(u8, u64)>> for Histogram {
    fn from(pairs: Vec<(u8, u64)>) -> Self {
        let mut this = Self::default();
        pairs.into_iter().for_each(|(bucket, n)| this.add(usize::from(bucket), n));
        this
    }
}

impl From<Histogram> for Vec<(u8, u64)> {
    fn from(histogram: Histogram) -> Self {
        histogram.0.into_iter().collect()
    }
}

impl Histogram {
    /// Counts `n` delays in a bucket.
    pub fn add(&mut self, bucket: usize, n: u64) {
        if n > 0 {
            let at = self.0.entry(bucket.min(BUCKETS - 1) as u8).or_default();
            *at = at.saturating_add(n);
        }
    }

    /// Buckets that are not empty, and how many delays they have.
    pub fn counts(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        self.0.iter().map(|(bucket, n)| (usize::from(*bucket), *n))
    }

    /// Number of delays.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Delay [ns] below which the share `q` of all lies; `None` if there is none.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Option<i64> {
        let mut all = [0; BUCKETS];
        self.counts().for_each(|(bucket, n)| all[bucket] = n);
        quantile(&all, q)
    }

    /// Share of delays above `threshold` [ns], taking those of a bucket as spread evenly. `None` if there is none.
    #[must_use]
    pub fn above(&self, threshold: u64) -> Option<f64> {
        let total = self.count();
        let share = |bucket: usize| {
            let (low, high) = (if bucket == 0 { 0 } else { lower_bound(bucket) }, lower_bound(bucket + 1));
            high.saturating_sub(threshold.max(low)) as f64 / (high - low) as f64
        };
        (total > 0).then(|| self.counts().map(|(bucket, n)| n as f64 * share(bucket)).sum::<f64>() / total as f64)
    }

    /// Delays that were added since `before`; `None` if some have gone.
    #[must_use]
    pub fn minus(&self, before: &Self) -> Option<Self> {
        let mut this = self.clone();
        for (bucket, n) in &before.0 {
            let at = this.0.get_mut(bucket)?;
            *at = at.checked_sub(*n)?;
        }
        this.0.retain(|_, n| *n > 0);
        Some(this)
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        let mut this = self.clone();
        other.counts().for_each(|(bucket, n)| this.add(bucket, n));
        this
    }

    pub(super) fn is_sound(&self) -> bool {
        self.0.values().all(|n| *n < 1 << 57)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantiles_are_the_data_paths() {
        let histogram = Histogram::from(vec![(4, 99), (20, 1)]);
        assert_eq!(histogram.count(), 100);
        let p50 = histogram.quantile(0.5).unwrap();
        assert!((2048..2560).contains(&p50), "{p50}");
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn the_share_above_a_delay_is_that_of_the_buckets_above() {
        let histogram = Histogram::from(vec![(4, 50), (8, 50)]);
        assert_eq!(
            [0, 2048, 2304, 3000, 4096, 9000].map(|t| histogram.above(t).unwrap()),
            [1.0, 1.0, 0.75, 0.5, 0.5, 0.0]
        );
        assert_eq!(Histogram::default().above(1), None);
    }

    #[test]
    fn what_another_version_has_beyond_the_last_bucket_is_the_last() {
        let read: Histogram = serde_json::from_str("[[255,2],[63,1]]").unwrap();
        assert_eq!(read.counts().collect::<Vec<_>>(), [(63, 3)]);
    }

    proptest! {
        #[test]
        fn merged_quantiles_lie_between(a in proptest::collection::vec((0..64u8, 1..100u64), 1..9),
                                        b in proptest::collection::vec((0..64u8, 1..100u64), 1..9), q in 0.0..1.0) {
            let (a, b) = (Histogram::from(a), Histogram::from(b));
            let [x, y, both] = [&a, &b, &a.plus(&b)].map(|h| h.quantile(q).unwrap());
            prop_assert!((x.min(y) - 1..=x.max(y) + 1).contains(&both), "{x} {y} {both}");
        }
    }
}
