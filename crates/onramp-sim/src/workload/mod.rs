//! Sources of flows: Poisson arrivals, incast, long flows, traces.
//!
//! A source only knows its next arrival; what has not arrived yet takes no
//! memory. Every random source draws from a stream of its own, so that neither
//! the network nor another traffic section changes what arrives.

mod background;
mod incast;
mod lines;
mod long;
mod poisson;
mod sizes;
pub mod trace;

use crate::host::NewFlow;
use crate::scenario::{Scenario, Traffic};
use crate::topology::Topology;
use crate::units::{Ps, Rate};
pub use sizes::{Cdf, is_built_in, size_distribution};
use std::path::Path;
use std::sync::Arc;

/// Largest flow a file may name: 1 TB.
const MAX_BYTES: u64 = 1_000_000_000_000;

/// Where flows come from.
pub trait Source: Send + Sync {
    /// When the next flows arrive; `None` once there are none left. Never goes
    /// back, but may stay where it is after [`Source::take`].
    fn next_at(&self) -> Option<Ps>;

    /// Adds flows that arrive at [`Source::next_at`] to `out`, and moves on.
    fn take(&mut self, out: &mut Vec<NewFlow>);
}

/// All sources of a resolved scenario: one per host for Poisson traffic, one
/// per section otherwise.
///
/// # Errors
/// What is wrong with a file that a traffic section names.
pub fn sources(scenario: &Scenario, topology: &Topology, base: &Path) -> Result<Vec<Box<dyn Source>>, String> {
    let mut all: Vec<Box<dyn Source>> = Vec::new();
    for (i, traffic) in scenario.traffic.iter().enumerate() {
        let section = Section { scenario, topology, number: i as u32 };
        match traffic {
            Traffic::Background(b) => background::add(b, &section, base, &mut all),
            Traffic::Incast(c) => incast::add(c, &section, &mut all),
            Traffic::Long(l) => long::add(l, &section, &mut all),
            Traffic::Trace(t) => trace::add(t, &section, base, &mut all),
        }
        .map_err(|m| format!("traffic[{i}]: {m}"))?;
    }
    Ok(all)
}

/// A traffic section and where it stands.
struct Section<'a> {
    scenario: &'a Scenario,
    topology: &'a Topology,
    number: u32,
}

impl Section<'_> {
    /// The hosts that traffic is between.
    fn members(&self, named: Option<&[String]>) -> Result<Arc<[u32]>, String> {
        named.map_or_else(
            || Ok((0..self.topology.hosts() as u32).collect()),
            |names| names.iter().map(|name| self.topology.host_named(name)).collect(),
        )
    }

    /// Rate of a host's link.
    fn host_rate(&self, host: u32) -> Rate {
        self.topology.ports()[self.topology.ports_of(host)[0] as usize].rate
    }
}

#[cfg(test)]
mod tests;
