//! Coded probes (patent US 11,239,993, claim 3): two probes that keep their
//! spacing have most likely met no queue; two that do not, met one.

use crate::Exchange;

/// Says which pairs kept their spacing, in each direction on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// How far the spacing may change, in nanoseconds.
    pub tolerance: u64,
}

impl Filter {
    /// Whether the probes kept their spacing on the way to B.
    #[must_use]
    pub fn forward(&self, first: &Exchange, second: &Exchange) -> bool {
        stretch(first.sent, second.sent, first.received, second.received).unsigned_abs() <= self.tolerance
    }

    /// Whether the answers kept their spacing on the way back to A.
    #[must_use]
    pub fn backward(&self, first: &Exchange, second: &Exchange) -> bool {
        stretch(first.returned, second.returned, first.came_back, second.came_back).unsigned_abs() <= self.tolerance
    }
}

/// How much longer the spacing was at arrival than at departure, in nanoseconds.
pub(crate) fn stretch(left_1: u64, left_2: u64, arrived_1: u64, arrived_2: u64) -> i64 {
    let at_departure = left_2.wrapping_sub(left_1);
    let at_arrival = arrived_2.wrapping_sub(arrived_1);
    at_arrival.wrapping_sub(at_departure).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(second: bool, sent: u64, forward: u64, backward: u64) -> Exchange {
        let received = sent + forward;
        let returned = received + 1_000;
        Exchange { pair: 1, second, sent, received, returned, came_back: returned + backward }
    }

    #[test]
    fn each_direction_counts_on_its_own() {
        let filter = Filter { tolerance: 20 };
        let first = exchange(false, 1_000_000, 5_000, 5_000);
        let late_forward = exchange(true, 1_010_000, 5_021, 5_000);
        assert!(!filter.forward(&first, &late_forward));
        assert!(filter.backward(&first, &late_forward));
        let early_back = exchange(true, 1_010_000, 5_020, 4_979);
        assert!(filter.forward(&first, &early_back));
        assert!(!filter.backward(&first, &early_back));
    }

    #[test]
    fn clocks_years_apart_make_no_difference() {
        let filter = Filter { tolerance: 0 };
        let first = exchange(false, 5, u64::MAX - 100, 10);
        let second = exchange(true, 15, u64::MAX - 100, 10);
        assert!(Filter::forward(&filter, &first, &Exchange { received: first.received.wrapping_add(10), ..second }));
    }
}
