//! How far the agents' clocks are off, against the one clock they all really have.

use super::Result;
use super::agents::Agents;
use onramp_config::units::Ps;
use onramp_records::ClockRecord;
use onramp_records::counters::ClockCounters;
use onramp_sim::clock::accuracy::Accuracy;
use onramp_sim::scenario::{Scenario, Sync};
use onramp_topology::Topology;

/// Looks per window of probes.
const LOOKS: u64 = 10;

/// Records of the clocks, if the agents synchronise them.
#[derive(Debug)]
pub struct Clocks {
    accuracy: Accuracy,
    interval: Option<Ps>,
    /// Hosts' looks at which a clock was known, and all.
    known: u64,
    all: u64,
}

impl Clocks {
    /// Nothing seen yet.
    pub fn new(scenario: &Scenario, agents: &Agents) -> Self {
        let synchronised = scenario.clock.sync == Sync::Huygens && agents.len() > 0;
        let window = scenario.clock.window.filter(|_| synchronised);
        Self { accuracy: Accuracy::default(), interval: window.map(|w| w.0 / LOOKS), known: 0, all: 0 }
    }

    /// Time between two looks, if there is something to see.
    pub fn interval(&self) -> Option<Ps> {
        self.interval
    }

    /// Time between two corrections; 0 if nothing is synchronised.
    pub fn window(&self) -> Ps {
        self.interval.map_or(0, |interval| LOOKS * interval)
    }

    /// Returns whether all agents know their clocks, or need not.
    pub fn all_known(&self, agents: &Agents) -> Result<bool> {
        Ok(self.interval.is_none() || agents.clocks()?.len() == agents.len())
    }

    /// Takes a look at all agents; returns what they know, see [`Agents::clocks`].
    pub fn sample(&mut self, now: Ps, agents: &Agents) -> Result<Vec<(u32, i64, f64)>> {
        let known = agents.clocks()?;
        self.known += known.len() as u64;
        self.all += agents.len() as u64;
        self.accuracy.sample(&known, now);
        Ok(known)
    }

    /// Counters of the clocks, and the records; none, if nothing was synchronised.
    pub fn finish(
        &mut self,
        agents: &Agents,
        topology: &Topology,
    ) -> Result<(Option<ClockCounters>, Vec<ClockRecord>)> {
        let Some(_) = self.interval else { return Ok((None, Vec::new())) };
        let (error_ns, uncertainty_ns) = self.accuracy.summary();
        let counters = ClockCounters {
            error_ns,
            uncertainty_ns,
            probe_share: agents.probe_share(topology)?,
            known: Some(self.known as f64 / self.all.max(1) as f64),
            ..ClockCounters::default()
        };
        Ok((Some(counters), self.accuracy.take_records()))
    }
}
