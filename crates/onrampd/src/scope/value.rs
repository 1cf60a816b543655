//! Values of a rule's conditions.

use ipnet::IpNet;
use serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use serde::{Serialize, Serializer};
use std::fmt;
use std::marker::PhantomData;
use std::net::IpAddr;

/// Longest path of a cgroup, in bytes.
const MAX_PATH: usize = 512;

/// A value that is a number or text in a file.
pub trait Item: Sized {
    /// Description of a right value, for messages to whoever writes the rule.
    const WANTED: &'static str;
    /// Reads a number.
    ///
    /// # Errors
    /// Says why it is wrong.
    fn number(number: i64) -> Result<Self, String> {
        Err(format!("{number} is not {}", Self::WANTED))
    }
    /// Reads text.
    ///
    /// # Errors
    /// Says why it is wrong.
    fn text(text: &str) -> Result<Self, String>;
    /// As it is written.
    fn written(&self) -> Written;
}

/// A value as it is written.
pub enum Written {
    /// A number.
    Number(u16),
    /// Text.
    Text(String),
}

impl Written {
    /// As TOML has it; there is nothing in such texts that Rust shows otherwise.
    fn toml(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => format!("{text:?}"),
        }
    }
}

/// One value, or a list of them; an empty one is not to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> List<T> {
    /// Returns whether it has no value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether it is no condition, or one of its values fits.
    pub fn is_empty_or(&self, fits: impl FnMut(&T) -> bool) -> bool {
        self.is_empty() || self.0.iter().any(fits)
    }

    /// Returns whether each value of `other` lies in one of these.
    pub fn covers(&self, other: &Self, holds: impl Fn(&T, &T) -> bool) -> bool {
        self.is_empty() || !other.is_empty() && other.0.iter().all(|b| self.0.iter().any(|a| holds(a, b)))
    }
}

impl<T: Item> List<T> {
    /// As TOML has it, unless it is empty.
    pub(super) fn toml(&self) -> Option<String> {
        let all: Vec<String> = self.0.iter().map(|one| one.written().toml()).collect();
        match &all[..] {
            [] => None,
            [one] => Some(one.clone()),
            _ => Some(format!("[{}]", all.join(", "))),
        }
    }
}

/// An item as serde has it.
struct One<T>(T);

impl<'de, T: Item> Deserialize<'de> for One<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V<T>(PhantomData<T>);
        impl<T: Item> Visitor<'_> for V<T> {
            type Value = One<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(T::WANTED)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<One<T>, E> {
                T::number(number).map(One).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<One<T>, E> {
                self.visit_i64(number.try_into().unwrap_or(i64::MAX))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<One<T>, E> {
                T::text(text).map(One).map_err(E::custom)
            }
        }
        d.deserialize_any(V(PhantomData))
    }
}

impl<T: Item> Serialize for One<&T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self.0.written() {
            Written::Number(number) => number.serialize(s),
            Written::Text(text) => text.serialize(s),
        }
    }
}

impl<'de, T: Item> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V<T>(PhantomData<T>);
        impl<'de, T: Item> Visitor<'de> for V<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}, or a list", T::WANTED)
            }
            fn visit_i64<E: de::Error>(self, number: i64) -> Result<List<T>, E> {
                T::number(number).map(|one| List(vec![one])).map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, number: u64) -> Result<List<T>, E> {
                self.visit_i64(number.try_into().unwrap_or(i64::MAX))
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<List<T>, E> {
                T::text(text).map(|one| List(vec![one])).map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<List<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(One(one)) = elements.next_element()? {
                    all.push(one);
                }
                // Else it would be no condition, and the rule would match everything.
                if all.is_empty() {
                    Err(de::Error::custom("is empty: write at least one, or leave the key out"))
                } else {
                    Ok(List(all))
                }
            }
        }
        d.deserialize_any(V(PhantomData))
    }
}

impl<T: Item> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => One(one).serialize(s),
            all => s.collect_seq(all.iter().map(One)),
        }
    }
}

/// A network, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

impl Item for Network {
    const WANTED: &'static str = "a network in quotes, such as \"10.2.0.0/16\"";

    fn text(text: &str) -> Result<Self, String> {
        let found = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        let net = found.map_err(|_| format!("{text:?} is no network such as \"10.2.0.0/16\", nor an address"))?;
        if net != net.trunc() {
            return Err(format!("{text:?} has bits beyond its prefix: write \"{}\", or an address alone", net.trunc()));
        }
        match net {
            IpNet::V6(v6) if v6.prefix_len() >= 96 && v6.network().to_ipv4_mapped().is_some() => {
                Err(format!("{text:?} is a network of IPv4: write it as such"))
            }
            _ => Ok(Self(net)),
        }
    }

    fn written(&self) -> Written {
        let is_host = self.0.prefix_len() == self.0.max_prefix_len();
        Written::Text(if is_host { self.0.addr().to_string() } else { self.0.to_string() })
    }
}

/// A range of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Its first one.
    pub first: u16,
    /// Its last one.
    pub last: u16,
}

impl Ports {
    /// Returns whether a port lies in it.
    #[must_use]
    pub fn contains(&self, port: u16) -> bool {
        (self.first..=self.last).contains(&port)
    }
}

impl Item for Ports {
    const WANTED: &'static str = "a port from 1 to 65535, or a range in quotes such as \"8000-8100\"";

    fn number(number: i64) -> Result<Self, String> {
        let port = u16::try_from(number).ok().filter(|port| *port > 0);
        port.map(|port| Self { first: port, last: port }).ok_or_else(|| format!("{number} is not {}", Self::WANTED))
    }

    fn text(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u16>().ok()).flatten();
        let range = port(first).zip(port(last)).filter(|(first, last)| *first > 0 && first <= last);
        range.map(|(first, last)| Self { first, last }).ok_or_else(|| format!("{text:?} is not {}", Self::WANTED))
    }

    fn written(&self) -> Written {
        if self.first == self.last {
            Written::Number(self.first)
        } else {
            Written::Text(format!("{}-{}", self.first, self.last))
        }
    }
}

/// A differentiated services code point (RFC 2474).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dscp(pub u8);

/// Their names, by IANA's registry.
const NAMES: [(&str, u8); 23] = [
    ("cs0", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("va", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

impl Item for Dscp {
    const WANTED: &'static str = "a DSCP from 0 to 63, or a name such as \"ef\" or \"cs6\"";

    fn number(number: i64) -> Result<Self, String> {
        let dscp = u8::try_from(number).ok().filter(|dscp| *dscp < 64);
        dscp.map(Self).ok_or_else(|| format!("{number} is not {}", Self::WANTED))
    }

    fn text(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(name, _)| name.eq_ignore_ascii_case(text));
        found.map(|(_, dscp)| Self(*dscp)).ok_or_else(|| format!("{text:?} is not {}", Self::WANTED))
    }

    fn written(&self) -> Written {
        let named = NAMES.iter().find(|(_, dscp)| *dscp == self.0);
        named.map_or(Written::Number(self.0.into()), |(name, _)| Written::Text((*name).into()))
    }
}

/// Path of a cgroup of version 2, from the root of their hierarchy on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cgroup(String);

impl Cgroup {
    /// The path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0
    }

    /// How deep it lies; the root is at 0.
    #[must_use]
    pub fn level(&self) -> u32 {
        self.0.split('/').filter(|name| !name.is_empty()).count() as u32
    }

    /// Returns whether `other` is this one, or below it.
    #[must_use]
    pub fn holds(&self, other: &Self) -> bool {
        let below = other.0.strip_prefix(self.0.trim_end_matches('/'));
        below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(super) fn toml(&self) -> String {
        Written::Text(self.0.clone()).toml()
    }
}

impl std::str::FromStr for Cgroup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| Err(format!("{text:?} {why}, such as \"/system.slice/backup.service\""));
        if !text.starts_with('/') || text.len() > MAX_PATH {
            return wrong("is no path of a cgroup");
        }
        if !text.bytes().all(|b| (b' '..=b'~').contains(&b)) {
            return wrong("has letters that no path of a cgroup has");
        }
        let names = text[1..].strip_suffix('/').unwrap_or(&text[1..]);
        if !names.is_empty() && names.split('/').any(|name| matches!(name, "" | "." | "..")) {
            return wrong("has parts that are no names");
        }
        Ok(Self(format!("/{names}")))
    }
}

impl<'de> Deserialize<'de> for Cgroup {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        text.parse().map_err(de::Error::custom)
    }
}

impl Serialize for Cgroup {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}
