//! The quantities of a configuration; times are in nanoseconds.

use onramp_config::{RATES, SIZES, Unit, quantity};

const TIMES: &[Unit] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const LIVES: &[Unit] = &[("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1)];
const SHARES: &[Unit] = &[("%", 1)];
const DRIFTS: &[Unit] = &[("ppm", 1_000), ("ppb", 1)];

quantity! {
    /// A span of time, in nanoseconds.
    Time(u64), "time", "50us", TIMES;
    /// How long a token or a certificate is good, in seconds.
    Life(u64), "time", "1h", LIVES;
    /// A difference of two clocks, in nanoseconds.
    Offset(i64), "time", "-12us", TIMES;
    /// A rate, in bits per second.
    Rate(u64), "rate", "10Gbps", RATES;
    /// A number of bytes.
    Size(u64), "size", "16KiB", SIZES;
    /// A part of the fleet's hosts, in percent.
    Share(u64), "share", "25%", SHARES;
    /// How much faster a clock runs, in parts per billion.
    Drift(i64), "drift", "20ppm", DRIFTS;
}

/// On-Ramp's threshold T.
pub type Threshold = onramp_config::Threshold<Time>;

impl Size {
    /// As the kernel takes it; above 4 GiB is all it takes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.0.try_into().unwrap_or(u32::MAX)
    }
}

impl Drift {
    /// Seconds per second in units of 2^-32.
    #[must_use]
    pub fn fixed_point(self) -> i64 {
        ((i128::from(self.0) << 32) / 1_000_000_000) as i64
    }
}

/// A time as people read it: three digits, the unit that fits.
#[must_use]
pub fn show_time(ns: i64) -> String {
    let size = ns.unsigned_abs();
    let (scale, unit) = match size {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (1e3, "µs"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    let value = ns as f64 / scale;
    let decimals = if value.abs() < 10.0 { 2 } else { usize::from(value.abs() < 100.0) };
    format!("{value:.decimals$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_count_in_the_units_that_programs_do() {
        assert_eq!("0.1us".parse(), Ok(Time(100)));
        assert_eq!("-12us".parse(), Ok(Offset(-12_000)));
        assert_eq!("-20ppm".parse(), Ok(Drift(-20_000)));
        assert_eq!(Drift(1_000_000_000).fixed_point(), 1 << 32);
    }

    #[test]
    fn times_are_shown_with_three_digits() {
        let shown = [0, 999, -1_500, 52_340, 148_000, 3_000_000, 12_000_000_000].map(show_time);
        assert_eq!(shown, ["0 ns", "999 ns", "-1.50 µs", "52.3 µs", "148 µs", "3.00 ms", "12.0 s"]);
    }
}
