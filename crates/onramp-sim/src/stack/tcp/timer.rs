//! The kernel's timers: in ticks, never early, and coarser the further ahead they are.

use crate::cc::tcp::JIFFY;
use onramp_config::units::{Ps, US};

/// Timers less than this many ticks ahead are exact to one; each further level has an
/// eighth of the precision for eight times as far.
const EXACT: u64 = 63;
const COARSER: u32 = 3;

/// Ticks until `now`.
pub fn tick(now: Ps) -> u64 {
    now / JIFFY
}

/// When a timer set at `now` for `span_us` microseconds fires.
pub fn fires(now: Ps, span_us: u64) -> Ps {
    let ticks = (span_us * US).div_ceil(JIFFY);
    let at = tick(now) + ticks;
    let mut shift = 0;
    while ticks >= EXACT << shift && shift < 8 * COARSER {
        shift += COARSER;
    }
    (((at >> shift) + 1) << shift) * JIFFY
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::MS;

    #[test]
    fn a_timer_is_never_early_and_coarser_further_ahead() {
        // Set within tick 10 for 3 ticks: due in tick 13, found at the next one.
        assert_eq!(fires(10 * MS + 1, 3000), 14 * MS);
        // 201 ticks are on a level of 8: 211 rounded up is 216.
        assert_eq!(fires(10 * MS, 201_000), 216 * MS);
        for span in [1, 999, 62_000, 63_000, 503_000, 504_000, 4_032_000] {
            let (now, fired) = (123 * MS + 456, fires(123 * MS + 456, span));
            assert!(fired >= now + span * US && fired <= now + span * US + (span * US / 7 + 2 * MS), "{span}");
        }
    }
}
