//! A workload of the program that uses this library, given by name.
//!
//! In a scenario: `kind = "custom"`, `name = "..."`, and any further keys, which the program's [`Factory`] reads. The
//! program says what it has when it builds the simulation.

use super::{Context, Findings, Place, Plan, Section, Workload};
use onramp_config::own::missing;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Reads a section's keys and adds its sources and programs, or says what is wrong with the keys. Flows have at most
/// 2^32 - 1 packets.
pub type Factory = fn(&toml::Table, &Section<'_>, &mut Plan) -> Result<(), String>;

/// Workloads of a program, by name.
pub type Workloads = BTreeMap<String, Factory>;

/// A program with workloads of its own.
pub const EXAMPLE: &str = "examples/workload";

/// A workload by name, and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The name it was registered as.
    pub name: String,
    /// Keys for the factory.
    #[serde(flatten)]
    pub parameters: toml::Table,
    /// Found by [`Config::find`].
    #[serde(skip)]
    found: Found,
}

/// Factory of that name, or all names that there are; equal names make it equal.
#[derive(Clone)]
struct Found(Result<Factory, Vec<String>>);

impl Default for Found {
    fn default() -> Self {
        Self(Err(Vec::new()))
    }
}

impl PartialEq for Found {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_ok() { "found" } else { "not found" })
    }
}

impl Config {
    /// Looks for it among those of the program; that there is none is told when it is built.
    pub fn find(&mut self, workloads: &Workloads) {
        let factory = workloads.get(&self.name).copied();
        self.found = Found(factory.ok_or_else(|| workloads.keys().cloned().collect()));
    }
}

impl Workload for Config {
    fn check_placed(&self, _: &Context, _: &Place<'_>, _: &mut Findings) {}

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let name = &self.name;
        match &self.found.0 {
            Ok(factory) => factory(&self.parameters, section, plan).map_err(|m| format!("workload \"{name}\": {m}")),
            Err(known) => Err(format!("workload \"custom\": {}", missing(name, known, EXAMPLE))),
        }
    }
}
