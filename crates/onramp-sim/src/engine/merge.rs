//! Merging lists that are sorted already.
//!
//! A general sort finds the lists first and is made for longer ones: it took three times
//! the instructions.

/// Merges the sorted runs of `items`, which end at `ends`, by pairs; `spare` is memory
/// to do it in.
pub fn merge<V: Copy>(items: &mut Vec<V>, ends: &mut Vec<usize>, spare: &mut Vec<V>, key: impl Fn(&V) -> u128) {
    while ends.len() > 1 {
        spare.clear();
        spare.reserve(items.len());
        let mut start = 0;
        for pair in 0..ends.len().div_ceil(2) {
            let middle = ends[2 * pair];
            let end = ends.get(2 * pair + 1).copied().unwrap_or(middle);
            merge_two(&items[start..middle], &items[middle..end], spare, &key);
            ends[pair] = end;
            start = end;
        }
        ends.truncate(ends.len().div_ceil(2));
        std::mem::swap(items, spare);
    }
}

#[inline]
fn merge_two<V: Copy>(mut a: &[V], mut b: &[V], out: &mut Vec<V>, key: impl Fn(&V) -> u128) {
    while let (Some(x), Some(y)) = (a.first(), b.first()) {
        // Without a jump, which would be as good as random.
        let second = key(y) < key(x);
        out.push(if second { *y } else { *x });
        a = &a[usize::from(!second)..];
        b = &b[usize::from(second)..];
    }
    out.extend_from_slice(a);
    out.extend_from_slice(b);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merged_runs_are_sorted(mut runs in prop::collection::vec(prop::collection::vec(0u128..50, 0..40), 0..9)) {
            let mut expected: Vec<u128> = runs.concat();
            expected.sort_unstable();
            let (mut items, mut ends) = (Vec::new(), Vec::new());
            for run in &mut runs {
                run.sort_unstable();
                items.append(run);
                ends.push(items.len());
            }
            merge(&mut items, &mut ends, &mut Vec::new(), |v| *v);
            prop_assert_eq!(items, expected);
        }
    }
}
