//! Random numbers as a function of what they are for: the same on every
//! machine, and one more host or probe changes no other number.

/// A well-mixed 64-bit hash of `words` (SplitMix64's finaliser after each).
pub fn hash(words: &[u64]) -> u64 {
    words.iter().fold(0, |state, &word| {
        let z = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// `hash(words)` brought to 0 to `n`, exclusive.
pub fn below(words: &[u64], n: u64) -> u64 {
    ((u128::from(hash(words)) * u128::from(n)) >> 64) as u64
}
