//! The histogram of one-way delays that the programs keep for each path.

use crate::abi::{OR_OWD_FIRST_SHIFT, OR_OWD_SUB_SHIFT};

/// The least delay of a bucket, in nanoseconds; the first one also has all that are less.
#[must_use]
pub fn lower_bound(bucket: usize) -> u64 {
    let subs = 1u64 << OR_OWD_SUB_SHIFT;
    let (octave, sub) = (bucket as u64 / subs, bucket as u64 % subs);
    (subs + sub) << octave << (OR_OWD_FIRST_SHIFT - OR_OWD_SUB_SHIFT)
}

/// The delay below which the share `q` of all lies, taking those of a bucket as spread
/// evenly. None if there is none.
#[must_use]
pub fn quantile<N: Copy + Into<u64>>(histogram: &[N], q: f64) -> Option<i64> {
    let counts = || histogram.iter().map(|n| (*n).into() as f64);
    let mut left = q.clamp(0.0, 1.0) * counts().sum::<f64>();
    for (bucket, n) in counts().enumerate().filter(|(_, n)| *n > 0.0) {
        if left <= n {
            let low = if bucket == 0 { 0 } else { lower_bound(bucket) };
            let width = (lower_bound(bucket + 1) - low) as f64;
            return Some((low as f64 + width * left / n) as i64);
        }
        left -= n;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::OR_OWD_BUCKETS;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_four_an_octave() {
        assert_eq!([0, 1, 4, 8].map(lower_bound), [1024, 1280, 2048, 4096]);
    }

    #[test]
    fn quantiles_lie_where_the_delays_are() {
        let mut histogram = [0_u32; OR_OWD_BUCKETS as usize];
        assert_eq!(quantile(&histogram, 0.5), None);
        histogram[4] = 99;
        histogram[20] = 1;
        let p50 = quantile(&histogram, 0.5).unwrap();
        assert!((2048..2560).contains(&p50), "{p50}");
        let p100 = quantile(&histogram, 1.0).unwrap();
        assert!(p100 >= lower_bound(20) as i64, "{p100}");
    }

    proptest! {
        #[test]
        fn quantiles_grow(counts in proptest::collection::vec(0..1000u32, 64), a in 0.0..1.0, b in 0.0..1.0) {
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            prop_assert!(quantile(&counts, low) <= quantile(&counts, high));
        }
    }
}
