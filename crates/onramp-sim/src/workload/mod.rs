//! Sources of flows: Poisson arrivals, incast, long flows, traces; and exchanges between clients and servers.
//!
//! A source only knows its next arrival; what has not arrived yet takes no
//! memory. Every random source draws from a stream of its own, so that neither
//! the network nor another traffic section changes what arrives.

pub mod background;
pub mod connections;
pub mod exchange;
pub mod fio;
pub mod incast;
mod lines;
pub mod long;
mod poisson;
pub mod rpc;
mod sizes;
pub mod storage;
pub mod trace;

use crate::config::tagged;
use crate::config::units::{Ps, Rate};
use crate::topology::Topology;
use exchange::Session;
pub use sizes::{Cdf, is_built_in, size_distribution};
use std::path::Path;
use std::sync::Arc;

tagged! {
    /// A source of flows.
    pub enum Config {
        /// Poisson arrivals of flows between random hosts.
        Background(background::Config) = "background",
        /// Requests answered by many servers at once.
        Incast(incast::Config) = "incast",
        /// Flows that send as fast as they may.
        Long(long::Config) = "long",
        /// Flows listed in a file.
        Trace(trace::Config) = "trace",
        /// Remote procedure calls.
        Rpc(rpc::Config) = "rpc",
        /// Blocks of other hosts' disks.
        Storage(storage::Config) = "storage",
    }
}

/// A flow as its source describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFlow {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// How much it sends.
    pub size: Size,
    /// The scenario's traffic section it comes from.
    pub traffic: u32,
    /// The request it is part of.
    pub request: Option<RequestPart>,
}

/// How much a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many bytes of payload.
    Bytes(u64),
    /// As much as it can until this time, counted from the beginning of the load.
    Until(Ps),
}

/// Which request a flow is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestPart {
    /// Number of the request within its traffic section.
    pub number: u64,
    /// Flows the request has in all.
    pub flows: u32,
}

/// When load arrives, and by which seed. Sources count from the beginning of the
/// warm-up; time 0 of the scenario is `warmup` later.
#[derive(Clone, Copy, Debug)]
pub struct LoadSpan {
    /// Seed of every random stream.
    pub seed: u64,
    /// Load runs so long before what is measured.
    pub warmup: Ps,
    /// What is measured starts within this span.
    pub duration: Ps,
}

impl LoadSpan {
    fn end(&self) -> Ps {
        self.warmup + self.duration
    }
}

/// Largest flow a file may name: 1 TB.
const MAX_BYTES: u64 = 1_000_000_000_000;

/// Where flows come from.
pub trait Source: Send + Sync {
    /// When the next flows arrive; `None` once there are none left. Never goes
    /// back, but may stay where it is after [`Source::take`].
    fn next_at(&self) -> Option<Ps>;

    /// Adds flows that arrive at [`Source::next_at`] to `out`, and moves on.
    fn take(&mut self, out: &mut Vec<NewFlow>);

    /// Bytes that flows which arrive after `now` will bring, on average; 0 where
    /// nobody can know.
    fn expected_bytes(&self, _now: Ps) -> f64 {
        0.0
    }
}

/// All sources of resolved sections: one per host for Poisson traffic, one per
/// section otherwise.
///
/// # Errors
/// What is wrong with a file that a section names.
pub fn sources<'a>(
    sections: impl Iterator<Item = &'a Config>,
    span: LoadSpan,
    topology: &Topology,
    base: &Path,
) -> Result<Vec<Box<dyn Source>>, String> {
    let mut all: Vec<Box<dyn Source>> = Vec::new();
    for (i, config) in sections.enumerate() {
        let section = Section { span, topology, number: i as u32 };
        match config {
            Config::Background(b) => background::add(b, &section, base, &mut all),
            Config::Incast(c) => incast::add(c, &section, &mut all),
            Config::Long(l) => long::add(l, &section, &mut all),
            Config::Trace(t) => trace::add(t, &section, base, &mut all),
            Config::Rpc(_) | Config::Storage(_) => Ok(()),
        }
        .map_err(|m| format!("traffic[{i}]: {m}"))?;
    }
    Ok(all)
}

/// The sessions of all resolved sections, by section.
///
/// # Errors
/// As of [`sources`].
pub fn sessions<'a>(
    sections: impl Iterator<Item = &'a Config>,
    span: LoadSpan,
    topology: &Topology,
    base: &Path,
) -> Result<Vec<Session>, String> {
    let mut all = Vec::new();
    for (i, config) in sections.enumerate() {
        let section = Section { span, topology, number: i as u32 };
        let own = match config {
            Config::Rpc(rpc) => rpc::sessions(rpc, &section, base),
            Config::Storage(storage) => storage::sessions(storage, &section, base),
            _ => continue,
        };
        all.extend(own.map_err(|m| format!("traffic[{i}]: {m}"))?);
    }
    Ok(all)
}

/// A traffic section and where it stands.
struct Section<'a> {
    span: LoadSpan,
    topology: &'a Topology,
    number: u32,
}

impl Section<'_> {
    /// The hosts that traffic is between.
    fn members(&self, named: Option<&[String]>) -> Result<Arc<[u32]>, String> {
        let Some(names) = named else { return Ok((0..self.topology.hosts() as u32).collect()) };
        self.topology.hosts_named(names).map(Into::into).map_err(|mut wrong| wrong.swap_remove(0).1)
    }

    /// Rate of all links of a host.
    fn host_rate(&self, host: u32) -> Rate {
        let ports = self.topology.ports_of(host).iter();
        Rate(ports.map(|&port| self.topology.ports()[port as usize].rate.0).sum())
    }
}

#[cfg(test)]
mod tests;
