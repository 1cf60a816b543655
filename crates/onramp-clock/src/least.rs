//! Notices a window in which no probe came through without queueing.

use crate::EdgeFit;
use std::collections::VecDeque;

/// Windows remembered: after as many a longer way counts as the way, two minutes by default.
const REMEMBERED: usize = 64;

/// What the delay may be off by, in standard deviations of the offset, without a queue.
const NOISE: f64 = 4.0;

/// The least delay between two hosts of late.
///
/// A queue that never empties in a window shows in no spacing and in no loop: all edges to a
/// busy host are off alike. It shows in the delay, which is then longer than it was: if one
/// direction queues by q, the delay is longer and the offset off by q / 2 each.
#[derive(Clone, Debug, Default)]
pub struct LeastDelay {
    recent: VecDeque<f64>,
}

impl LeastDelay {
    /// Takes in the fit of a window of `window` nanoseconds, and adds to its errors what a queue
    /// can have done.
    pub fn judge(&mut self, mut fit: EdgeFit, window: u64) -> EdgeFit {
        if self.recent.len() == REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(fit.delay);
        let least = self.recent.iter().copied().fold(f64::INFINITY, f64::min);
        fit.queue = (fit.delay - least - NOISE * fit.sigma).max(0.0);
        fit.sigma = libm::hypot(fit.sigma, fit.queue);
        fit.drift_sigma = libm::hypot(fit.drift_sigma, fit.queue / window.max(1) as f64);
        fit
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

    #[test]
    fn a_delay_that_is_longer_than_it_was_is_a_doubt() {
        let mut least = LeastDelay::default();
        assert_eq!(least.judge(fit(5_000.0), 1_000).sigma, 3.0);
        assert_eq!(least.judge(fit(5_010.0), 1_000).sigma, 3.0, "noise is not");
        let queued = least.judge(fit(5_016.0), 1_000);
        assert_eq!((queued.queue, queued.sigma), (4.0, 5.0));
        assert!((queued.drift_sigma - 4e-3).abs() < 1e-9);
        assert_eq!(least.judge(fit(4_000.0), 1_000).queue, 0.0);
    }

    #[test]
    fn a_longer_way_becomes_the_way() {
        let mut least = LeastDelay::default();
        least.judge(fit(1_000.0), 1_000);
        assert!((1..REMEMBERED).all(|_| least.judge(fit(9_000.0), 1_000).queue > 7_000.0));
        assert_eq!(least.judge(fit(9_000.0), 1_000).queue, 0.0);
    }
}
