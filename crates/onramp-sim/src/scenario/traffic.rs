//! A traffic section: a source of flows, and how they travel.

use crate::cc;
use onramp_config::units::Rate;
use onramp_config::{Both, Keys};
use serde::de::{self, Deserializer, SeqAccess, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One `[[traffic]]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Where its flows come from.
    pub source: onramp_workload::Config,
    /// Their transport. Default: the scenario's.
    pub transport: Option<cc::Config>,
    /// Their class in switches and NICs, a place in `switch.classes`. Default 0.
    pub class: u8,
    /// The rate of each at most; of several, they have them in turn. Default: no limit.
    pub caps: Caps,
    /// The tenant they belong to, one of `host.shaping.tenants`.
    pub tenant: Option<String>,
}

/// A rate, or a list of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Caps(pub Vec<Rate>);

impl<'de> Deserialize<'de> for Caps {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = Caps;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a rate in quotes with its unit, such as \"100Gbps\", or a list of them")
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<Caps, E> {
                v.parse().map(|one| Caps(vec![one])).map_err(E::custom)
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Caps, A::Error> {
                let mut caps = Vec::new();
                while let Some(cap) = all.next_element()? {
                    caps.push(cap);
                }
                Ok(Caps(caps))
            }
        }
        d.deserialize_any(V)
    }
}

impl Serialize for Caps {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match &self.0[..] {
            [one] => one.serialize(s),
            all => all.serialize(s),
        }
    }
}

/// Keys of a section whatever its kind.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Common {
    transport: Option<cc::Config>,
    class: u8,
    cap: Caps,
    tenant: Option<String>,
}

impl Keys for Common {
    const KEYS: &'static [&'static str] = &["transport", "class", "cap", "tenant"];
}

impl<'de> Deserialize<'de> for Traffic {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Both(Common { transport, class, cap, tenant }, source) = Both::deserialize(d)?;
        Ok(Self { source, transport, class, caps: cap, tenant })
    }
}

impl Serialize for Traffic {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        let mut table = toml::Table::try_from(&self.source).map_err(S::Error::custom)?;
        table.insert("class".into(), i64::from(self.class).into());
        if !self.caps.0.is_empty() {
            table.insert("cap".into(), toml::Value::try_from(&self.caps).map_err(S::Error::custom)?);
        }
        if let Some(tenant) = &self.tenant {
            table.insert("tenant".into(), tenant.clone().into());
        }
        if let Some(transport) = &self.transport {
            table.insert("transport".into(), toml::Value::try_from(transport).map_err(S::Error::custom)?);
        }
        table.serialize(s)
    }
}
