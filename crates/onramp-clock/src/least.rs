//! Notices a window in which no probe came through without queueing.

use crate::EdgeFit;
use std::collections::VecDeque;

/// Windows remembered: after as many a longer way counts as the way, two minutes by default.
const REMEMBERED: usize = 64;

/// What the delay may be off by, in standard deviations of the offset, without a queue.
const NOISE: f64 = 4.0;

/// So many windows make a least delay that no second window came near: a path may be like that.
const ENOUGH: usize = 8;

/// The least delay between two hosts of late.
///
/// A queue that never empties in a window shows in no spacing and in no loop: all edges to a
/// busy host are off alike. It shows in the delay, which is then longer than it was: if one
/// direction queues by q, the delay is longer and the offset off by q / 2 each. Until a second
/// window has confirmed the least, all of the delay may be a queue: no queues of two windows are
/// the same to a nanosecond, but ways without queues are. A fit that is off by a good part of the
/// delay tells neither.
#[derive(Clone, Debug, Default)]
pub struct LeastDelay {
    recent: VecDeque<Delay>,
}

/// A window's delay, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Delay {
    /// What it is at most without a queue.
    most: f64,
    sigma: f64,
}

impl LeastDelay {
    /// Takes in the fit of a window of `window` nanoseconds: sets what a queue can have done, and
    /// adds to its errors what one has done for sure.
    pub fn judge(&mut self, mut fit: EdgeFit, window: u64) -> EdgeFit {
        if 2.0 * NOISE * fit.sigma > fit.delay {
            fit.queue = fit.delay.max(fit.sigma);
            return fit;
        }
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(Delay { most: fit.delay + NOISE * fit.sigma, sigma: fit.sigma });
        let least = self.least();
        fit.queue = least.map_or(fit.delay, |least| fit.delay - least).max(0.0);
        let surely = least.map_or(0.0, |_| fit.queue - NOISE * fit.sigma).max(0.0);
        fit.sigma = libm::hypot(fit.sigma, surely);
        fit.drift_sigma = libm::hypot(fit.drift_sigma, surely / window.max(1) as f64);
        fit
    }

    /// What the way takes at most, once that is known.
    fn least(&self) -> Option<f64> {
        let least = self.recent.iter().min_by(|a, b| a.most.total_cmp(&b.most))?;
        let near = |delay: &&Delay| delay.most - least.most <= 2.0 * NOISE * least.sigma;
        let confirmed = self.recent.iter().filter(near).count() > 1 || self.recent.len() >= ENOUGH;
        confirmed.then_some(least.most)
    }
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
    fn known(delay: f64) -> LeastDelay {
        let mut least = LeastDelay::default();
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
        let mut least = LeastDelay::default();
        for queued in [90_000.0, 50_000.0, 5_000.0] {
            let found = least.judge(fit(queued), 1_000);
            assert_eq!((found.queue, found.sigma), (queued, 3.0));
        }
        assert_eq!(least.judge(fit(5_010.0), 1_000).queue, 0.0);
        let mut restless = LeastDelay::default();
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
        let of_a_queue = EdgeFit { sigma: 30_000.0, ..fit(95_000.0) };
        assert_eq!(least.judge(of_a_queue, 1_000).queue, 95_000.0);
    }

    #[test]
    fn a_longer_way_becomes_the_way() {
        let mut least = known(1_000.0);
        assert!((1..REMEMBERED).all(|_| least.judge(fit(9_000.0), 1_000).queue > 7_000.0));
        assert_eq!(least.judge(fit(9_000.0), 1_000).queue, 0.0);
    }
}
