//! Quantities with their unit: "16us", "-12us", "32MiB", "100Gbps", "20ppm".
//!
//! A bare number is refused: the two most common mistakes with files of such numbers
//! are bits for bytes and milliseconds for microseconds. [`quantity!`] makes a type;
//! which unit it counts in is up to whoever uses it.

use serde::de::{self, Visitor};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

/// One spelling of a unit and how many base units it stands for.
pub type Unit = (&'static str, u64);

/// Units of rates, in bits per second.
pub const RATES: &[Unit] =
    &[("Tbps", 1_000_000_000_000), ("Gbps", 1_000_000_000), ("Mbps", 1_000_000), ("Kbps", 1_000), ("bps", 1)];

/// Units of sizes, in bytes.
pub const SIZES: &[Unit] = &[
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("KB", 1_000),
    ("B", 1),
];

/// Name of a quantity, and how it is written.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// In messages: "time".
    pub what: &'static str,
    /// One that is right.
    pub example: &'static str,
    /// The largest first; the last one is the base unit.
    pub units: &'static [Unit],
}

/// A number that a quantity counts its base units with.
pub trait Number: Sized {
    /// The largest that can be written: a quarter of the range of `u64`, so that sums of two
    /// never overflow.
    const MAX: Self;

    /// Reads a number and its unit.
    ///
    /// # Errors
    /// Says what is wrong, and what would be right.
    fn read(text: &str, kind: &Kind) -> Result<Self, String>;

    /// Writes it in the largest unit of which it is a multiple.
    ///
    /// # Errors
    /// Those of `f`.
    fn write(self, f: &mut fmt::Formatter<'_>, kind: &Kind) -> fmt::Result;
}

impl Number for u64 {
    const MAX: Self = u64::MAX / 4;

    fn read(text: &str, kind: &Kind) -> Result<Self, String> {
        let text = text.trim();
        if let Some(Ok(_)) = text.strip_prefix('-').map(|rest| read(rest, text, kind)) {
            return Err(format!("{text:?} is negative: write a {} such as \"{}\"", kind.what, kind.example));
        }
        read(text, text, kind)
    }

    fn write(self, f: &mut fmt::Formatter<'_>, kind: &Kind) -> fmt::Result {
        let base = kind.units.last().expect("there is a base unit");
        let fits = |unit: &&Unit| self != 0 && self.is_multiple_of(unit.1);
        let &(name, scale) = kind.units.iter().find(fits).unwrap_or(base);
        write!(f, "{}{name}", self / scale)
    }
}

impl Number for i64 {
    const MAX: Self = <u64 as Number>::MAX.cast_signed();

    fn read(text: &str, kind: &Kind) -> Result<Self, String> {
        let text = text.trim();
        let (sign, rest) = match text.strip_prefix('-') {
            Some(rest) => (-1, rest),
            None => (1, text.strip_prefix('+').unwrap_or(text)),
        };
        read(rest, text, kind).map(|v| sign * v.cast_signed())
    }

    fn write(self, f: &mut fmt::Formatter<'_>, kind: &Kind) -> fmt::Result {
        f.write_str(if self < 0 { "-" } else { "" })?;
        self.unsigned_abs().write(f, kind)
    }
}

/// Reads `number`, which is written as `text`.
fn read(number: &str, text: &str, kind: &Kind) -> Result<u64, String> {
    let wrong = || {
        let Kind { what, example, units } = kind;
        let known: Vec<&str> = units.iter().map(|u| u.0).collect();
        format!("{text:?} is not a {what}: write a number and a unit ({}), such as \"{example}\"", known.join(", "))
    };
    let split = number.find(|c: char| c.is_ascii_alphabetic() || c == '%').ok_or_else(wrong)?;
    let (number, unit) = (number[..split].trim_end(), &number[split..]);
    let scale = kind.units.iter().find(|u| u.0 == unit).ok_or_else(wrong)?.1;
    // Integers and decimals are read exactly: "0.1us" is 100 000 ps, not 99 999.
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 12 {
        return Err(wrong());
    }
    let too_large = || format!("{text:?} is too large for a {}", kind.what);
    let mut value = whole.parse::<u128>().ok().and_then(|v| v.checked_mul(scale.into())).ok_or_else(too_large)?;
    if !fraction.is_empty() {
        let tenths = 10u128.pow(fraction.len() as u32);
        value += fraction.parse::<u128>().map_err(|_| wrong())? * u128::from(scale) / tenths;
    }
    u64::try_from(value).ok().filter(|v| *v <= <u64 as Number>::MAX).ok_or_else(too_large)
}

/// Reads a quantity in quotes, and says so where there is something else.
#[doc(hidden)]
pub struct Quoted<T>(pub &'static Kind, pub PhantomData<T>);

impl<T: FromStr<Err = String>> Visitor<'_> for Quoted<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {} in quotes with its unit, such as \"{}\"", self.0.what, self.0.example)
    }

    fn visit_str<E: de::Error>(self, v: &str) -> Result<T, E> {
        v.parse().map_err(E::custom)
    }
}

/// A type for each quantity: its name, a [`Number`], and its [`Kind`]. It is read and written as
/// text with a unit.
#[macro_export]
macro_rules! quantity {
    ($($(#[$doc:meta])* $name:ident($of:ty), $what:literal, $example:literal, $units:expr);+ $(;)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $of);

        impl $name {
            /// The largest that can be written.
            pub const MAX: Self = Self(<$of as $crate::Number>::MAX);

            const KIND: $crate::Kind = $crate::Kind { what: $what, example: $example, units: $units };
        }

        impl ::std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                $crate::Number::read(text, &Self::KIND).map(Self)
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                $crate::Number::write(self.0, f, &Self::KIND)
            }
        }

        impl $crate::serde::Serialize for $name {
            fn serialize<S: $crate::serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $name {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                d.deserialize_any($crate::Quoted(&Self::KIND, ::std::marker::PhantomData))
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    quantity! {
        /// In nanoseconds.
        Time(u64), "time", "50us", &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
        /// In nanoseconds.
        Offset(i64), "time", "-12us", Time::KIND.units;
        /// In bytes.
        Size(u64), "size", "32MiB", super::SIZES;
        /// In bits per second.
        Rate(u64), "rate", "10Gbps", super::RATES;
    }

    #[test]
    fn quantities_read_exactly() {
        assert_eq!("50us".parse(), Ok(Time(50_000)));
        assert_eq!("0.1us".parse(), Ok(Time(100)));
        assert_eq!(" 1.048 ms".parse(), Ok(Time(1_048_000)));
        assert_eq!("-12us".parse(), Ok(Offset(-12_000)));
        assert_eq!("+12us".parse(), Ok(Offset(12_000)));
        assert_eq!("32MiB".parse(), Ok(Size(33_554_432)));
        assert_eq!("100Gbps".parse(), Ok(Rate(100_000_000_000)));
    }

    #[test]
    fn the_largest_unit_without_a_fraction_is_written() {
        assert_eq!(Size(2_000).to_string(), "2KB");
        assert_eq!(Time(1_500_000).to_string(), "1500us");
        assert_eq!([Offset(-12_000), Offset(0)].map(|o| o.to_string()), ["-12us", "0ns"]);
    }

    #[test]
    fn wrong_units_name_the_right_ones() {
        let error = "16".parse::<Time>().unwrap_err();
        assert_eq!(error, r#""16" is not a time: write a number and a unit (s, ms, us, ns), such as "50us""#);
        for bad in ["", "us", "-3us", "1e3us", "1.2.3us", "16 µs", "99999999999999999999s", "--1us"] {
            assert!(bad.parse::<Time>().is_err(), "{bad}");
        }
        for bad in ["", "-", "--1us", "- 1us", "+-1us", "1"] {
            let error = bad.parse::<Offset>().unwrap_err();
            assert!(error.starts_with(&format!("{bad:?} is not a time")), "{error}");
        }
        assert!("100Gb".parse::<Rate>().is_err());
    }

    #[test]
    fn messages_are_one_line_whatever_was_written() {
        assert!(!"1\nhour".parse::<Time>().unwrap_err().contains('\n'));
    }

    #[test]
    fn more_than_the_largest_is_refused() {
        let all = [Time::MAX.0, Size::MAX.0, Rate::MAX.0, Offset::MAX.0.cast_unsigned()];
        assert_eq!(all, [u64::MAX / 4; 4]);
        assert_eq!(format!("{}ns", Time::MAX.0).parse(), Ok(Time::MAX));
        assert!(format!("-{}ns", Time::MAX.0 + 1).parse::<Offset>().unwrap_err().contains("is too large for a time"));
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = (text.parse::<Time>(), text.parse::<Offset>(), text.parse::<Size>());
        }

        #[test]
        fn what_is_written_reads_back_as_the_same(value in 0..=Time::MAX.0) {
            prop_assert_eq!(Time(value).to_string().parse(), Ok(Time(value)));
            prop_assert_eq!(Size(value).to_string().parse(), Ok(Size(value)));
            prop_assert_eq!(Offset(-value.cast_signed()).to_string().parse(), Ok(Offset(-value.cast_signed())));
        }
    }
}
