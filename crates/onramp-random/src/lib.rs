//! Named random streams: each purpose draws from its own, so that one purpose
//! drawing more never changes another. Equal bits on every machine.
//!
//! ```
//! let mut first = onramp_random::stream(7, "arrivals", 0);
//! let mut again = onramp_random::stream(7, "arrivals", 0);
//! let mut other = onramp_random::stream(7, "sizes", 0);
//! let drawn = onramp_random::below(&mut first, 1_000_000);
//! assert_eq!(drawn, onramp_random::below(&mut again, 1_000_000));
//! assert_ne!(drawn, onramp_random::below(&mut other, 1_000_000));
//! ```

pub use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

/// The stream `purpose` number `index` of a seed.
pub fn stream(seed: u64, purpose: &str, index: u64) -> Pcg64Mcg {
    // FNV-1a over all three; PCG's own seeding then spreads it.
    let bytes = seed.to_le_bytes().into_iter().chain(purpose.bytes()).chain(index.to_le_bytes());
    let key = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    Pcg64Mcg::seed_from_u64(key)
}

/// Uniform in [0, 1).
#[inline]
pub fn uniform(random: &mut impl Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Uniform in 0 to `n`, exclusive (Lemire's method without the rejection step:
/// the bias is below n / 2^64).
#[inline]
pub fn below(random: &mut impl Rng, n: u32) -> u32 {
    ((u128::from(random.next_u64()) * u128::from(n)) >> 64) as u32
}

/// Exponential with mean 1. `libm` in place of the platform's logarithm: the
/// same bits everywhere.
#[inline]
pub fn exponential(random: &mut impl Rng) -> f64 {
    -libm::log(1.0 - uniform(random))
}

/// Normal with mean 0 and standard deviation 1 (Box–Muller).
#[inline]
pub fn normal(random: &mut impl Rng) -> f64 {
    let radius = libm::sqrt(2.0 * exponential(random));
    radius * libm::cos(2.0 * std::f64::consts::PI * uniform(random))
}
