//! Quantities with their unit: simulated time, link rates, byte counts, drifts of clocks.
//!
//! In a scenario every quantity is written with its unit ("16us", "100Gbps",
//! "32MiB"); a bare number is refused, since the two most common mistakes with
//! such files are bits for bytes and milliseconds for microseconds.

use crate::{RATES, SIZES, Unit, quantity};

/// Simulated time or a span of it, in picoseconds.
pub type Ps = u64;
/// On-Ramp's threshold T.
pub type Threshold = crate::Threshold<Span>;

/// Picoseconds in a nanosecond.
pub const NS: Ps = 1_000;
/// Picoseconds in a microsecond.
pub const US: Ps = 1_000_000;
/// Picoseconds in a millisecond.
pub const MS: Ps = 1_000_000_000;
/// Picoseconds in a second.
pub const SEC: Ps = 1_000_000_000_000;

const TIMES: &[Unit] = &[("s", SEC), ("ms", MS), ("us", US), ("ns", NS), ("ps", 1)];
const DRIFTS: &[Unit] = &[("ppm", 1_000_000), ("ppb", 1_000), ("ppt", 1)];

quantity! {
    /// A span of time, in picoseconds.
    Span(u64), "time", "16us", TIMES;
    /// A rate, in bits per second.
    Rate(u64), "rate", "100Gbps", RATES;
    /// A number of bytes.
    Bytes(u64), "size", "32MiB", SIZES;
    /// A share of a clock's frequency, in parts per trillion.
    Drift(u64), "drift", "30ppm", DRIFTS;
}

impl Rate {
    /// Time to send `bytes` at this rate, in picoseconds, rounded up.
    pub fn time_for(self, bytes: u64) -> Ps {
        let bits = u128::from(bytes) * 8 * u128::from(SEC);
        bits.div_ceil(u128::from(self.0)) as Ps
    }

    /// This rate as a share of `other`.
    pub fn over(self, other: Rate) -> f64 {
        self.0 as f64 / other.0 as f64
    }

    /// This rate times `factor`, to the nearest bit per second.
    pub fn scaled(self, factor: f64) -> Rate {
        Rate((self.0 as f64 * factor).round() as u64)
    }
}

impl Drift {
    /// As seconds per second.
    pub fn share(self) -> f64 {
        self.0 as f64 * 1e-12
    }
}

impl Bytes {
    /// This size times `factor`, to the nearest byte.
    pub fn scaled(self, factor: f64) -> Bytes {
        Bytes((self.0 as f64 * factor).round() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_count_in_the_units_that_events_do() {
        assert_eq!("16us".parse(), Ok(Span(16 * US)));
        assert_eq!("0.1us".parse(), Ok(Span(100 * NS)));
        assert_eq!(Span(1_500 * NS).to_string(), "1500ns");
        assert_eq!("0.5ppb".parse(), Ok(Drift(500)));
        assert_eq!("30ppm".parse::<Drift>().map(Drift::share), Ok(30e-6));
    }

    #[test]
    fn time_on_the_wire() {
        assert_eq!(Rate(100_000_000_000).time_for(1048), 83_840);
        assert_eq!(Rate(400_000_000_000).time_for(60), 1_200);
        assert_eq!(Rate(3).time_for(1), 2_666_666_666_667);
    }
}
