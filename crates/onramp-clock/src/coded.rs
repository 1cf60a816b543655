//! Coded probes (patent US 11,239,993, claim 3): two probes that keep their
//! spacing have most likely met no queue; two that do not, met one.

use crate::Exchange;

/// Says which pairs kept their spacing. Each direction counts on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// How far the spacing may change, in nanoseconds.
    pub tolerance: u64,
}

impl Filter {
    /// Returns true if a pair counts whose spacing changed by `stretch` nanoseconds.
    #[must_use]
    pub fn keeps(&self, stretch: i64) -> bool {
        stretch.unsigned_abs() <= self.tolerance
    }
}

/// How much longer the spacing of two probes was at B than at A, in nanoseconds.
#[must_use]
pub fn forward(first: &Exchange, second: &Exchange) -> i64 {
    gap(first.received, second.received).wrapping_sub(gap(first.sent, second.sent))
}

/// How much longer the spacing of two answers was at A than at B, in nanoseconds.
#[must_use]
pub fn backward(first: &Exchange, second: &Exchange) -> i64 {
    gap(first.came_back, second.came_back).wrapping_sub(gap(first.returned, second.returned))
}

fn gap(first: u64, second: u64) -> i64 {
    second.wrapping_sub(first).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(second: bool, sent: u64, way_there: u64, way_back: u64) -> Exchange {
        let received = sent + way_there;
        let returned = received + 1_000;
        Exchange { pair: 1, second, sent, received, returned, came_back: returned + way_back }
    }

    #[test]
    fn each_direction_counts_on_its_own() {
        let filter = Filter { tolerance: 20 };
        let first = exchange(false, 1_000_000, 5_000, 5_000);
        let late_there = exchange(true, 1_010_000, 5_021, 5_000);
        assert!(!filter.keeps(forward(&first, &late_there)));
        assert!(filter.keeps(backward(&first, &late_there)));
        let early_back = exchange(true, 1_010_000, 5_020, 4_979);
        assert!(filter.keeps(forward(&first, &early_back)));
        assert!(!filter.keeps(backward(&first, &early_back)));
    }

    #[test]
    fn clocks_years_apart_make_no_difference() {
        let years = 1 << 60;
        assert_eq!(forward(&exchange(false, 0, years, 9), &exchange(true, 10, years + 3, 9)), 3);
        assert_eq!(gap(u64::MAX, 4), 5);
    }
}
