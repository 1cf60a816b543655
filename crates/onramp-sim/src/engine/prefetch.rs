//! Asking the cache for data ahead of its use.
//!
//! The only unsafe code of this crate; what it gives stands in docs/performance.md.

/// Lines fetched: 64 bytes each.
const LINES: usize = 4;

/// Starts loading the first cache lines of `slice[index]`, if there is such an element.
#[inline]
pub fn prefetch<T>(slice: &[T], index: usize) {
    if let Some(item) = slice.get(index) {
        #[cfg(target_arch = "x86_64")]
        for line in 0..LINES.min(size_of::<T>().div_ceil(64)) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            // SAFETY: a prefetch reads nothing and never faults, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(item).cast::<i8>().wrapping_add(64 * line)) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = item;
    }
}
