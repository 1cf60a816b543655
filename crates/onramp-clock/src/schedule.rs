//! When a host sends its probes to a peer.

use crate::HostId;
use crate::random::below;

/// Between the two probes of a pair, in nanoseconds. Short, so that both meet
/// the same queue; long enough for 8 full frames at 10 Gb/s to come between.
pub const SPACING: u64 = 10_000;

/// Between the pairs to one peer, in nanoseconds, on average. With
/// [`mesh::PEERS`](crate::mesh::PEERS) a host then sends 3 to 4 Mb/s of probes
/// and answers.
pub const INTERVAL: u64 = 8_000_000;

/// The times of the pairs from one host to another: one in every `interval`, at
/// a random place in it, so that probes neither march in step with each other
/// nor with what the network carries.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    interval: u64,
    stream: [u64; 3],
}

impl Schedule {
    /// Pairs from `from` to `to`, one per `interval` nanoseconds (at least two
    /// spacings, or it is made that).
    #[must_use]
    pub fn new(from: HostId, to: HostId, interval: u64, seed: u64) -> Self {
        Self { interval: interval.max(2 * SPACING), stream: [seed, u64::from(from), u64::from(to)] }
    }

    /// When pair number `pair` is due, in nanoseconds after the schedule's
    /// start. Its second probe follows [`SPACING`] later, and the pair after it
    /// no sooner than another spacing.
    #[must_use]
    pub fn due(&self, pair: u32) -> u64 {
        let [seed, from, to] = self.stream;
        let place = below(&[seed, from, to, u64::from(pair)], self.interval - 2 * SPACING + 1);
        u64::from(pair) * self.interval + place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pair_in_every_interval_and_none_overlap() {
        for interval in [0, 2 * SPACING, INTERVAL] {
            let schedule = Schedule::new(1, 2, interval, 3);
            let interval = interval.max(2 * SPACING);
            for pair in 0..1000 {
                assert_eq!(schedule.due(pair) / interval, u64::from(pair));
                assert!(schedule.due(pair + 1) >= schedule.due(pair) + 2 * SPACING);
            }
        }
    }

    #[test]
    fn peers_do_not_march_in_step() {
        let place = |to, pair| Schedule::new(1, to, INTERVAL, 3).due(pair) % INTERVAL;
        let mean = (0..1000).map(|pair| place(2, pair).abs_diff(place(3, pair))).sum::<u64>() / 1000;
        // Two uniform places are a third of the interval apart.
        assert!(mean.abs_diff(INTERVAL / 3) < INTERVAL / 20, "{mean}");
    }
}
