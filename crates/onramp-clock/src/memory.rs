//! Knowledge of earlier windows for this one: a queue that never emptied, and a drift that holds.

use crate::{EdgeFit, Exchange, FitOptions, fit};
use std::collections::VecDeque;

/// Windows remembered: after as many a longer way counts as the way, two minutes by default.
const REMEMBERED: usize = 64;

/// Largest deviation of the delay without a queue, in standard deviations of the offset.
const NOISE: f64 = 4.0;

/// So many windows make a least delay that no second window came near: a path may be like that.
const ENOUGH: usize = 8;

/// Largest change of a crystal's frequency [s/s per second].
const WANDER: f64 = 2e-9;

/// A drift that differs by so many standard deviations is another one: a clock was set.
const ANOTHER: f64 = 6.0;

/// Memory that a host keeps of a peer's clock and the path there.
///
/// **Least delay.** A queue that never empties in a window shows in no spacing and in no loop: all
/// edges to a busy host are off alike. It shows in the delay, which is then longer than it was: if
/// one direction queues by q, the delay is longer and the offset off by q / 2 each. Until a second
/// window has confirmed the least, all of the delay may be a queue: no queues of two windows are
/// the same to a nanosecond, but ways without queues are. A fit that is off by a good part of the
/// delay tells neither.
///
/// **Drift.** Queues that grow and shrink tilt the margin: in windows of 100 ms by as much as
/// 1000 ppm. What windows without queues showed of the drift bounds a doubtful one's.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    recent: VecDeque<Delay>,
    drift: Option<Drift>,
}

/// A window's delay, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Delay {
    /// Upper bound of it without a queue.
    most: f64,
    sigma: f64,
}

/// How fast the peer's clock gains, in seconds per second.
#[derive(Clone, Copy, Debug)]
struct Drift {
    value: f64,
    sigma: f64,
}

impl Memory {
    /// Fits a window of `window` nanoseconds: sets what a queue can have done, and adds to its
    /// errors what one has done for sure. `None` as [`fit`] has it.
    pub fn fit(&mut self, exchanges: &[Exchange], options: &FitOptions, window: u64) -> Option<EdgeFit> {
        let free = fit(exchanges, options)?;
        if let Some(drift) = &mut self.drift {
            drift.sigma += WANDER * window as f64 / 1e9;
        }
        if !is_vague(&free) && self.shortest().is_none_or(|shortest| free.delay <= shortest.most) {
            self.learn(&free);
            return Some(self.judge(free, window));
        }
        let Some(drift) = self.drift else { return Some(self.judge(free, window)) };
        let reach = NOISE * drift.sigma;
        let bounds = [drift.value - reach, drift.value + reach];
        // A delay less than the way's is of another drift: the clock was set.
        let is_possible = |fit: &EdgeFit| self.shortest().is_none_or(|s| fit.delay >= s.most - 4.0 * NOISE * s.sigma);
        let bounded = fit(exchanges, &FitOptions { drift: bounds, ..*options }).filter(is_possible);
        Some(self.judge(bounded.unwrap_or(free), window))
    }

    /// A drift that no queue has tilted.
    fn learn(&mut self, fit: &EdgeFit) {
        let new = Drift { value: fit.drift, sigma: fit.drift_sigma };
        self.drift = match self.drift {
            Some(old) if (new.value - old.value).abs() < ANOTHER * libm::hypot(new.sigma, old.sigma) => {
                let [weight, other] = [new, old].map(|drift| 1.0 / (drift.sigma * drift.sigma));
                let value = (weight * new.value + other * old.value) / (weight + other);
                Some(Drift { value, sigma: 1.0 / (weight + other).sqrt() })
            }
            _ => Some(new),
        };
    }

    fn judge(&mut self, mut fit: EdgeFit, window: u64) -> EdgeFit {
        let vague = is_vague(&fit);
        if !vague {
            if self.recent.len() == REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back(Delay { most: fit.delay + NOISE * fit.sigma, sigma: fit.sigma });
        }
        let least = self.least();
        fit.queue = (fit.delay - least.unwrap_or_default()).max(if vague { fit.sigma } else { 0.0 });
        let surely = self.shortest().map_or(0.0, |shortest| fit.delay - shortest.most - NOISE * fit.sigma).max(0.0);
        fit.sigma = libm::hypot(fit.sigma, surely);
        fit.drift_sigma = libm::hypot(fit.drift_sigma, surely / window.max(1) as f64);
        fit
    }

    /// The least delay there was.
    fn shortest(&self) -> Option<Delay> {
        self.recent.iter().min_by(|a, b| a.most.total_cmp(&b.most)).copied()
    }

    /// Upper bound of the path's delay, once known.
    fn least(&self) -> Option<f64> {
        let least = self.shortest()?;
        let near = |delay: &&Delay| delay.most - least.most <= 2.0 * NOISE * least.sigma;
        let confirmed = self.recent.iter().filter(near).count() > 1 || self.recent.len() >= ENOUGH;
        confirmed.then_some(least.most)
    }
}

/// Off by a good part of the delay.
fn is_vague(fit: &EdgeFit) -> bool {
    2.0 * NOISE * fit.sigma > fit.delay
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(delay: f64) -> EdgeFit {
        let (offset, drift, residual, sigma) = (0, 0.0, 1.0, 3.0);
        EdgeFit {
            base: 0,
            offset,
            drift,
            delay,
            residual,
            sigma,
            drift_sigma: 4e-9,
            noise: 1.0,
            queue: 0.0,
            points: 9,
            seen: 9,
        }
    }

    /// A way that two windows have shown.
    fn known(delay: f64) -> Memory {
        let mut least = Memory::default();
        for _ in 0..2 {
            least.judge(fit(delay), 1_000);
        }
        least
    }

    #[test]
    fn a_delay_that_is_longer_than_it_was_is_a_doubt() {
        let mut least = known(5_000.0);
        assert_eq!(least.judge(fit(5_010.0), 1_000).sigma, 3.0, "noise is not");
        let queued = least.judge(fit(5_028.0), 1_000);
        assert_eq!((queued.queue, queued.sigma), (16.0, 5.0));
        assert!((queued.drift_sigma - 4e-3).abs() < 1e-9);
    }

    #[test]
    fn all_of_a_delay_may_be_a_queue_until_a_second_window_has_it() {
        let mut least = Memory::default();
        for queued in [90_000.0, 50_000.0, 5_000.0] {
            let found = least.judge(fit(queued), 1_000);
            assert_eq!((found.queue, found.sigma), (queued, 3.0));
        }
        assert_eq!(least.judge(fit(5_010.0), 1_000).queue, 0.0);
        let mut restless = Memory::default();
        let mut seen = || restless.judge(fit(9_000.0 - 100.0 * restless.recent.len() as f64), 1_000).queue;
        assert!((1..ENOUGH).all(|_| seen() > 8_000.0));
        assert_eq!(seen(), 0.0, "some paths are never the same");
    }

    #[test]
    fn a_vague_window_does_not_make_a_way_short() {
        let mut least = known(5_000.0);
        let vague = EdgeFit { sigma: 2_000.0, ..fit(1_000.0) };
        assert_eq!(least.judge(vague, 1_000).queue, 2_000.0, "the offset may be off by as much");
        assert_eq!(least.judge(fit(5_000.0), 1_000).queue, 0.0);
        let of_a_queue = least.judge(EdgeFit { sigma: 2_000.0, ..fit(15_000.0) }, 1_000);
        assert_eq!(of_a_queue.queue, 15_000.0 - 5_012.0);
        assert!(of_a_queue.sigma > 2_000.0, "an offset that a queue has moved says so");
    }

    #[test]
    fn a_longer_way_becomes_the_way() {
        let mut least = known(1_000.0);
        assert!((1..REMEMBERED).all(|_| least.judge(fit(9_000.0), 1_000).queue > 7_000.0));
        assert_eq!(least.judge(fit(9_000.0), 1_000).queue, 0.0);
    }
}
