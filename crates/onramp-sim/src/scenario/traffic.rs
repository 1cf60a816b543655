//! A traffic section: a source of flows, and how they travel.

use crate::cc;
use crate::config::tagged::{rest, take};
use crate::config::units::Rate;
use crate::workload;
use serde::de::{Deserializer, Error};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};

/// One `[[traffic]]` section.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Where its flows come from.
    pub source: workload::Config,
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
        match toml::Value::deserialize(d)? {
            toml::Value::Array(all) => all.into_iter().map(Rate::deserialize).collect::<Result<_, _>>(),
            one => Rate::deserialize(one).map(|one| vec![one]),
        }
        .map(Self)
        .map_err(|e: toml::de::Error| Error::custom(e.message()))
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

impl<'de> Deserialize<'de> for Traffic {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut table = toml::Table::deserialize(d)?;
        let transport = take(&mut table, "transport").map_err(Error::custom)?;
        let class = take(&mut table, "class").map_err(Error::custom)?.unwrap_or_default();
        let caps = take(&mut table, "cap").map_err(Error::custom)?.unwrap_or_default();
        let tenant = take(&mut table, "tenant").map_err(Error::custom)?;
        let source = rest(table, &["transport", "class", "cap", "tenant"]).map_err(Error::custom)?;
        Ok(Self { source, transport, class, caps, tenant })
    }
}

impl Serialize for Traffic {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        let mut table = toml::Table::try_from(&self.source).map_err(S::Error::custom)?;
        if self.class != 0 {
            table.insert("class".into(), i64::from(self.class).into());
        }
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
