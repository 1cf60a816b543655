//! On-Ramp's threshold T: a time, or "auto".

use serde::de::{self, Deserialize, Deserializer, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

const AUTO: &str = "auto";

/// On-Ramp's threshold T, in the time `T` of who reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold<T> {
    /// The same for all paths.
    Fixed(T),
    /// Per path, from its smallest delay and the clocks' uncertainty (paper §3.2, §7.1).
    Auto,
}

impl<T: fmt::Display> fmt::Display for Threshold<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(time) => time.fmt(f),
            Self::Auto => f.write_str(AUTO),
        }
    }
}

impl<T: FromStr<Err = String>> FromStr for Threshold<T> {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if text == AUTO { Ok(Self::Auto) } else { text.parse().map(Self::Fixed) }
    }
}

impl<T: fmt::Display> Serialize for Threshold<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for Threshold<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V<T>(PhantomData<T>);
        impl<T: FromStr<Err = String>> Visitor<'_> for V<T> {
            type Value = Threshold<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in quotes with its unit, such as \"16us\", or \"auto\"")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Threshold<T>, E> {
                v.parse().map_err(E::custom)
            }
        }
        d.deserialize_any(V(PhantomData))
    }
}
