//! Quantities with their unit: simulated time, link rates, byte counts, drifts of clocks.
//!
//! In a scenario every quantity is written with its unit ("16us", "100Gbps",
//! "32MiB"); a bare number is refused, since the two most common mistakes with
//! such files are bits for bytes and milliseconds for microseconds.

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// Simulated time or a span of it, in picoseconds.
pub type Ps = u64;

/// Picoseconds in a nanosecond.
pub const NS: Ps = 1_000;
/// Picoseconds in a microsecond.
pub const US: Ps = 1_000_000;
/// Picoseconds in a millisecond.
pub const MS: Ps = 1_000_000_000;
/// Picoseconds in a second.
pub const SEC: Ps = 1_000_000_000_000;

/// Largest quantity: a quarter of the range, so that sums of two never overflow.
const MAX: u64 = u64::MAX / 4;

/// One spelling of a unit and how many base units it stands for.
type Unit = (&'static str, u64);

const TIME_UNITS: &[Unit] = &[("s", SEC), ("ms", MS), ("us", US), ("ns", NS), ("ps", 1)];
const RATE_UNITS: &[Unit] =
    &[("Tbps", 1_000_000_000_000), ("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("Kbps", 1_000), ("bps", 1)];
const BYTE_UNITS: &[Unit] = &[
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

const DRIFT_UNITS: &[Unit] = &[("ppm", 1_000_000), ("ppb", 1_000), ("ppt", 1)];

fn parse(text: &str, what: &str, example: &str, units: &[Unit]) -> Result<u64, String> {
    let text = text.trim();
    let wrong = || {
        let known: Vec<&str> = units.iter().map(|u| u.0).collect();
        format!("\"{text}\" is not a {what}: write a number and a unit ({}), such as \"{example}\"", known.join(", "))
    };
    let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
    let (number, unit) = (text[..split].trim(), &text[split..]);
    let scale = units.iter().find(|u| u.0 == unit).ok_or_else(wrong)?.1;
    // Integers and decimals are read exactly: "0.1us" is 100 000 ps, not 99 999.
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 12 {
        return Err(wrong());
    }
    let too_large = || format!("\"{text}\" is too large for a {what}");
    let mut value = whole.parse::<u128>().ok().and_then(|v| v.checked_mul(scale.into())).ok_or_else(too_large)?;
    if !fraction.is_empty() {
        let tenths = 10u128.pow(fraction.len() as u32);
        value += fraction.parse::<u128>().map_err(|_| wrong())? * u128::from(scale) / tenths;
    }
    u64::try_from(value).ok().filter(|v| *v <= MAX).ok_or_else(too_large)
}

fn format(value: u64, f: &mut fmt::Formatter<'_>, units: &[Unit]) -> fmt::Result {
    let &(name, scale) =
        units.iter().find(|u| value != 0 && value.is_multiple_of(u.1)).unwrap_or(&units[units.len() - 1]);
    write!(f, "{}{name}", value / scale)
}

macro_rules! quantity {
    ($name:ident, $doc:literal, $what:literal, $example:literal, $units:ident) => {
        #[doc = $doc]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u64);

        impl $name {
            /// The largest that can be written in a scenario.
            pub const MAX: Self = Self(MAX);
        }

        impl FromStr for $name {
            type Err = String;
            fn from_str(text: &str) -> Result<Self, String> {
                parse(text, $what, $example, $units).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                format(self.0, f, $units)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
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

quantity!(Span, "A span of time, in picoseconds.", "time", "16us", TIME_UNITS);
quantity!(Rate, "A rate, in bits per second.", "rate", "100Gbps", RATE_UNITS);
quantity!(Bytes, "A number of bytes.", "size", "32MiB", BYTE_UNITS);
quantity!(Drift, "A share of a clock's frequency, in parts per trillion.", "drift", "30ppm", DRIFT_UNITS);

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
    fn quantities_read_exactly() {
        assert_eq!("16us".parse(), Ok(Span(16 * US)));
        assert_eq!("0.1us".parse(), Ok(Span(100 * NS)));
        assert_eq!("1.048 ms".parse(), Ok(Span(1_048 * US)));
        assert_eq!("100Gbps".parse(), Ok(Rate(100_000_000_000)));
        assert_eq!("32MiB".parse(), Ok(Bytes(33_554_432)));
        assert_eq!("0.5ppb".parse(), Ok(Drift(500)));
        assert_eq!("30ppm".parse::<Drift>().map(Drift::share), Ok(30e-6));
    }

    #[test]
    fn what_is_written_reads_back_as_the_same() {
        for ps in [0, 1, 999, 16 * US, 1_500 * NS, 3 * SEC] {
            assert_eq!(Span(ps).to_string().parse(), Ok(Span(ps)));
        }
        assert_eq!(Bytes(2_000).to_string(), "2KB");
        assert_eq!(Span(1_500 * NS).to_string(), "1500ns");
    }

    #[test]
    fn wrong_units_name_the_right_ones() {
        let error = "16".parse::<Span>().unwrap_err();
        assert!(error.contains("16us"), "{error}");
        for bad in ["", "us", "-3us", "1e3us", "1.2.3us", "16 µs", "99999999999999999999s"] {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
        assert!("100Gb".parse::<Rate>().is_err());
    }

    #[test]
    fn time_on_the_wire() {
        assert_eq!(Rate(100_000_000_000).time_for(1048), 83_840);
        assert_eq!(Rate(400_000_000_000).time_for(60), 1_200);
        assert_eq!(Rate(3).time_for(1), 2_666_666_666_667);
    }
}
