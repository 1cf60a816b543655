//! Quantities with their unit: "50us", "-12us", "16KiB", "10Gbps", "20ppm".
//!
//! A bare number is refused: the two most common mistakes with such files are
//! bits for bytes and milliseconds for microseconds.

use serde::de::{self, Deserializer, Visitor};
use std::fmt;
use std::str::FromStr;

/// Largest quantity: a quarter of the range, so that sums of two never overflow.
const MAX: u64 = u64::MAX / 4;

/// One spelling of a unit and how many base units it stands for.
type Unit = (&'static str, u64);

const TIME_UNITS: &[Unit] = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const RATE_UNITS: &[Unit] =
    &[("Tbps", 1_000_000_000_000), ("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("Kbps", 1_000), ("bps", 1)];
const SIZE_UNITS: &[Unit] = &[
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];
const DRIFT_UNITS: &[Unit] = &[("ppm", 1_000), ("ppb", 1)];

fn parse(text: &str, what: &str, example: &str, units: &[Unit]) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || {
        let known: Vec<&str> = units.iter().map(|u| u.0).collect();
        format!("{text:?} is not a {what}: write a number and a unit ({}), such as \"{example}\"", known.join(", "))
    };
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = (text[..split].trim(), &text[split..]);
    let scale = units.iter().find(|u| u.0 == unit).ok_or_else(wrong)?.1;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 12 {
        return Err(wrong());
    }
    let too_large = || format!("{text:?} is too large for a {what}");
    let mut value = whole.parse::<u128>().ok().and_then(|v| v.checked_mul(scale.into())).ok_or_else(too_large)?;
    if !fraction.is_empty() {
        let tenths = 10u128.pow(fraction.len() as u32);
        value += fraction.parse::<u128>().map_err(|_| wrong())? * u128::from(scale) / tenths;
    }
    u64::try_from(value).ok().filter(|v| *v <= MAX).ok_or_else(too_large)
}

/// The same with a sign before it.
fn parse_signed(text: &str, what: &str, example: &str, units: &[Unit]) -> Result<i64, String> {
    let text = text.trim();
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest.starts_with(char::is_whitespace) {
        return parse("", what, example, units).map(|v| v as i64);
    }
    parse(rest, what, example, units).map(|v| sign * v as i64)
}

macro_rules! quantity {
    ($name:ident, $of:ty, $read:ident, $doc:literal, $what:literal, $example:literal, $units:ident) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        pub struct $name(pub $of);

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                $read(text, $what, $example, $units).map(Self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct V;
                impl Visitor<'_> for V {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        write!(f, "a {} in quotes with its unit, such as \"{}\"", $what, $example)
                    }
                    fn visit_str<E: de::Error>(self, v: &str) -> Result<$name, E> {
                        v.parse().map_err(E::custom)
                    }
                }
                d.deserialize_any(V)
            }
        }
    };
}

quantity!(Time, u64, parse, "A span of time, in nanoseconds.", "time", "50us", TIME_UNITS);
quantity!(Offset, i64, parse_signed, "A difference of two clocks, in nanoseconds.", "time", "-12us", TIME_UNITS);
quantity!(Rate, u64, parse, "A rate, in bits per second.", "rate", "10Gbps", RATE_UNITS);
quantity!(Size, u64, parse, "A number of bytes.", "size", "16KiB", SIZE_UNITS);
quantity!(
    Drift,
    i64,
    parse_signed,
    "How much faster a clock runs, in parts per billion.",
    "drift",
    "20ppm",
    DRIFT_UNITS
);

/// T: given, or what each path calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// Of the path's least delay and what the clocks are good for.
    Auto,
    /// The same for all paths, in nanoseconds.
    Fixed(u64),
}

impl<'de> serde::Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Threshold;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"auto\" or a time in quotes with its unit, such as \"50us\"")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Threshold, E> {
                if v == "auto" {
                    Ok(Threshold::Auto)
                } else {
                    v.parse().map(|Time(t)| Threshold::Fixed(t)).map_err(E::custom)
                }
            }
        }
        d.deserialize_any(V)
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
    use proptest::prelude::*;

    #[test]
    fn quantities_read_exactly() {
        assert_eq!("50us".parse(), Ok(Time(50_000)));
        assert_eq!("0.1us".parse(), Ok(Time(100)));
        assert_eq!("1.5 ms".parse(), Ok(Time(1_500_000)));
        assert_eq!("-12us".parse(), Ok(Offset(-12_000)));
        assert_eq!("+12us".parse(), Ok(Offset(12_000)));
        assert_eq!("16KiB".parse(), Ok(Size(16_384)));
        assert_eq!("10Gbps".parse(), Ok(Rate(10_000_000_000)));
        assert_eq!("-20ppm".parse(), Ok(Drift(-20_000)));
        assert_eq!(Drift(1_000_000_000).fixed_point(), 1 << 32);
    }

    #[test]
    fn wrong_units_name_the_right_ones() {
        let error = "50".parse::<Time>().unwrap_err();
        assert!(error.contains("50us"), "{error}");
        for bad in ["", "us", "-3us", "1e3us", "1.2.3us", "16 µs", "99999999999999999999s", "--1us"] {
            assert!(bad.parse::<Time>().is_err(), "{bad}");
        }
        for bad in ["", "-", "--1us", "- 1us", "+-1us", "1"] {
            assert!(bad.parse::<Offset>().is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_shown_with_three_digits() {
        let shown = [0, 999, -1_500, 52_340, 148_000, 3_000_000, 12_000_000_000].map(show_time);
        assert_eq!(shown, ["0 ns", "999 ns", "-1.50 µs", "52.3 µs", "148 µs", "3.00 ms", "12.0 s"]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = (text.parse::<Time>(), text.parse::<Offset>(), text.parse::<Drift>());
        }

        #[test]
        fn whole_nanoseconds_read_back(ns in 0..MAX) {
            prop_assert_eq!(format!("{ns}ns").parse(), Ok(Time(ns)));
            prop_assert_eq!(format!("-{ns}ns").parse(), Ok(Offset(-(ns as i64))));
        }
    }
}
