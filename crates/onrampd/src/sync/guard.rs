//! Notices at once when two clocks are no longer what they were: a packet cannot arrive
//! before it has left. Pure.

use onramp_clock::{EdgeFit, Exchange};

/// A probe whose times contradict the fit may be a freak; so many in a row are not.
const IN_A_ROW: u32 = 3;
/// Most that a sound clock's times may be wrong by beyond what the fit says, in nanoseconds.
const SLACK: f64 = 2_000.0;
/// How fast a sound clock may depart from the fit: 1 us a second.
const DEPARTURE: f64 = 1e-6;

/// Record of one peer that is watched.
#[derive(Clone, Copy, Debug, Default)]
pub struct Guard {
    fit: Option<EdgeFit>,
    wrong: u32,
}

impl Guard {
    /// From now on the clocks are as `fit` says; none: nothing is known.
    pub fn expect(&mut self, fit: Option<EdgeFit>) {
        *self = Self { fit, wrong: 0 };
    }

    /// Takes in an exchange.
    pub fn see(&mut self, exchange: &Exchange) {
        let Some(fit) = &self.fit else { return };
        let elapsed = exchange.sent.wrapping_sub(fit.base).cast_signed() as f64;
        let against = |there: u64, here: u64| {
            there.wrapping_sub(here).wrapping_sub(fit.offset.cast_unsigned()).cast_signed() as f64
        };
        let expected = fit.drift * elapsed;
        let slack = SLACK + 5.0 * (fit.sigma + fit.noise) + DEPARTURE * elapsed.abs();
        let forward = against(exchange.received, exchange.sent) - expected;
        let backward = expected - against(exchange.returned, exchange.came_back);
        let possible = forward >= -slack && backward >= -slack;
        self.wrong = if possible { 0 } else { self.wrong.saturating_add(1) };
    }

    /// The clocks are not what they were.
    #[must_use]
    pub fn stepped(&self) -> bool {
        self.wrong >= IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// B's clock is a year ahead, and gains 10 ppm.
    const YEAR: i64 = 31_536_000_000_000_000;

    fn fit() -> EdgeFit {
        EdgeFit { drift: 1e-5, ..crate::fleet::fit(1_000_000_000, YEAR) }
    }

    /// At `sent`, with so much delay in each direction and B off by `step`.
    fn exchange(sent: u64, there: u64, back: u64, step: i64) -> Exchange {
        let b = |t: u64| (t as i64 + YEAR + (1e-5 * (t as f64 - 1e9)) as i64 + step) as u64;
        let (received, came_back) = (b(sent + there), sent + there + back);
        Exchange { pair: 0, second: false, sent, received, returned: received, came_back }
    }

    fn watch(exchanges: impl Iterator<Item = Exchange>) -> bool {
        let mut guard = Guard::default();
        guard.expect(Some(fit()));
        exchanges.for_each(|e| guard.see(&e));
        guard.stepped()
    }

    #[test]
    fn queues_are_no_steps() {
        let queued = (0..100u64).map(|i| exchange(1_000_000_000 + i * 8_000_000, 5_000 + i * 10_000, 5_000, 0));
        assert!(!watch(queued));
    }

    #[test]
    fn a_step_shows_whichever_way_it_goes() {
        for step in [-1_000_000, -20_000, 20_000, 1_000_000] {
            assert!(watch((0..3).map(|i| exchange(2_000_000_000 + i, 5_000, 5_000, step))), "{step}");
            assert!(!watch((0..2).map(|i| exchange(2_000_000_000 + i, 5_000, 5_000, step))), "{step}");
        }
    }

    #[test]
    fn nothing_is_expected_before_the_first_fit() {
        let mut guard = Guard::default();
        (0..9).for_each(|i| guard.see(&exchange(i, 1, 1, 1 << 40)));
        assert!(!guard.stepped());
    }
}
