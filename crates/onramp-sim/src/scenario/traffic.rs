//! A traffic section: a source of flows, and how they travel.

use crate::cc;
use crate::config::tagged::{rest, take};
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
}

impl<'de> Deserialize<'de> for Traffic {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let mut table = toml::Table::deserialize(d)?;
        let transport = take(&mut table, "transport").map_err(Error::custom)?;
        let class = take(&mut table, "class").map_err(Error::custom)?.unwrap_or_default();
        let source = rest(table, &["transport", "class"]).map_err(Error::custom)?;
        Ok(Self { source, transport, class })
    }
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
