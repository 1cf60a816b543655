//! A traffic section: a source of flows, and how they travel.

use crate::cc;
use crate::config::tagged::put_together;
use crate::workload;
use serde::de::{DeserializeOwned, Deserializer, Error};
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
}

impl<'de> Deserialize<'de> for Traffic {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut table = toml::Table::deserialize(d)?;
        let transport = take(&mut table, "transport").map_err(Error::custom)?;
        let class = take(&mut table, "class").map_err(Error::custom)?.unwrap_or_default();
        let source = toml::Value::Table(table).try_into();
        let source = source.map_err(|e: toml::de::Error| Error::custom(with_own_keys(e.message())))?;
        Ok(Self { source, transport, class })
    }
}

/// A reader's message that lists the keys there are, with those of every section.
fn with_own_keys(message: &str) -> String {
    if message.contains("unknown field `") { format!("{message}, `transport`, `class`") } else { message.into() }
}

/// Takes a key's value out and reads it.
fn take<T: DeserializeOwned>(table: &mut toml::Table, key: &str) -> Result<Option<T>, String> {
    let Some(value) = table.remove(key) else { return Ok(None) };
    value.try_into().map(Some).map_err(|e: toml::de::Error| put_together(key, e.message()))
}

impl Serialize for Traffic {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        use serde::ser::Error;
        let mut table = toml::Table::try_from(&self.source).map_err(S::Error::custom)?;
        if self.class != 0 {
            table.insert("class".into(), i64::from(self.class).into());
        }
        if let Some(transport) = &self.transport {
            table.insert("transport".into(), toml::Value::try_from(transport).map_err(S::Error::custom)?);
        }
        table.serialize(s)
    }
}
