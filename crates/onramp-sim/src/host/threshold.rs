//! On-Ramp's threshold T: a time, or "auto".

use crate::config::units::Span;
use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

const AUTO: &str = "auto";

/// On-Ramp's threshold T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threshold {
    /// The same for all paths.
    Fixed(Span),
    /// Per path, from its smallest delay and the clocks' uncertainty (§3.2, §7.1).
    Auto,
}

impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(span) => span.fmt(f),
            Self::Auto => f.write_str(AUTO),
        }
    }
}

impl Serialize for Threshold {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = Threshold;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time in quotes with its unit, such as \"16us\", or \"auto\"")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Threshold, E> {
                if v == AUTO {
                    return Ok(Threshold::Auto);
                }
                v.parse().map(Threshold::Fixed).map_err(E::custom)
            }
        }
        d.deserialize_any(V)
    }
}
