//! Round-trip times and the retransmission timeout (RFC 6298), with the kernel's refinements: the deviation
//! is the largest of a round trip, and falls slowly.

use crate::cc::tcp::JIFFY;
use onramp_config::units::US;

/// Microseconds in a tick of the kernel's clock.
const JIFFY_US: u64 = JIFFY / US;

/// See the module. Times are in microseconds.
#[derive(Clone, Debug)]
pub struct Rtt {
    /// Smoothed, times eight; 0 before the first sample.
    pub srtt8: u32,
    /// Mean deviation, times four, and its largest of this round trip.
    mdev4: u32,
    mdev4_max: u32,
    rttvar4: u32,
    /// The round trip ends when this byte is acknowledged.
    round_end: u64,
    /// Least of all samples; [`u32::MAX`] before the first.
    pub min: u32,
    rto_min: u32,
    rto_max: u32,
    /// The timeout before any back-off.
    pub rto: u32,
}

impl Rtt {
    /// Without a sample: the timeout is 1 s.
    pub fn new(rto_min: u32, rto_max: u32) -> Self {
        Self {
            srtt8: 0,
            mdev4: 0,
            mdev4_max: rto_min,
            rttvar4: 0,
            round_end: 0,
            min: u32::MAX,
            rto_min,
            rto_max,
            rto: 1_000_000,
        }
    }

    /// A packet sent once was acknowledged after `rtt`; bytes from `una` to `nxt` are under way.
    pub fn sample(&mut self, rtt: u32, una: u64, nxt: u64) {
        let rtt = rtt.max(1);
        if self.srtt8 == 0 {
            self.srtt8 = rtt << 3;
            self.mdev4 = rtt << 1;
            self.rttvar4 = self.mdev4.max(self.rto_min);
            self.mdev4_max = self.rttvar4;
            self.round_end = nxt;
        } else {
            let error = i64::from(rtt) - i64::from(self.srtt8 >> 3);
            self.srtt8 = (i64::from(self.srtt8) + error).max(1) as u32;
            let mut change = error.abs() - i64::from(self.mdev4 >> 2);
            if error < 0 && change > 0 {
                // A path that became shorter says little of how much it varies.
                change >>= 3;
            }
            self.mdev4 = (i64::from(self.mdev4) + change).max(0) as u32;
            if self.mdev4 > self.mdev4_max {
                self.mdev4_max = self.mdev4;
                self.rttvar4 = self.rttvar4.max(self.mdev4_max);
            }
            if una > self.round_end {
                if self.mdev4_max < self.rttvar4 {
                    self.rttvar4 -= (self.rttvar4 - self.mdev4_max) >> 2;
                }
                self.round_end = nxt;
                self.mdev4_max = self.rto_min;
            }
        }
        let rto = u64::from((self.srtt8 >> 3) + self.rttvar4);
        self.rto = (rto.div_ceil(JIFFY_US) * JIFFY_US).min(u64::from(self.rto_max)) as u32;
    }

    /// The least round trip, of which the kernel keeps the last five minutes.
    pub fn least(&mut self, rtt: u32) {
        self.min = self.min.min(rtt.max(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sample_sets_everything_and_the_floor_is_part_of_the_deviation() {
        let mut rtt = Rtt::new(200_000, 120_000_000);
        assert_eq!(rtt.rto, 1_000_000);
        rtt.sample(100, 0, 1448);
        // 100 us + 200 ms, rounded up to a tick.
        assert_eq!((rtt.srtt8, rtt.rto), (800, 201_000));
        rtt.sample(180, 1448, 2896);
        // RFC 6298: 100 + 80/8.
        assert_eq!(rtt.srtt8 >> 3, 110);
    }

    #[test]
    fn long_round_trips_that_vary_raise_it() {
        let mut rtt = Rtt::new(200_000, 120_000_000);
        rtt.sample(1_000_000, 0, 0);
        // R + 4 · R/2.
        assert_eq!(rtt.rto, 3_000_000);
        for round in 1..200 {
            rtt.sample(1_000_000, round, round);
        }
        // At rest the deviation has gone down to the floor.
        assert!((1_200_000..1_260_000).contains(&rtt.rto), "{}", rtt.rto);
    }
}
