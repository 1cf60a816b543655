//! A simulation with workloads that the simulator does not have: flows that arrive whatever happens (`shuffle.rs`), and
//! programs at hosts that wait for each other (`token.rs`).

mod shuffle;
mod token;

use onramp_sim::records::{ExchangeRecord, FlowRecord};
use onramp_sim::workload::custom::Factory;
use onramp_sim::{Options, Scenario, Simulation};
use std::error::Error;
use std::path::Path;

/// Measured flows and exchanges.
#[derive(Debug)]
pub struct Measured {
    /// Flows, in order of arrival.
    pub flows: Vec<FlowRecord>,
    /// Exchanges between programs, in order of their end.
    pub exchanges: Vec<ExchangeRecord>,
}

/// Runs a scenario; `text` is what `file` says.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn run(text: &str, file: &Path) -> Result<Measured, Box<dyn Error>> {
    let base = file.parent().unwrap_or(Path::new(""));
    let (scenario, topology) =
        Scenario::load(text, &file.to_string_lossy(), base, &[]).map_err(|mut errors| errors.swap_remove(0))?;
    let factories: [(&str, Factory); 2] = [("shuffle", shuffle::factory), ("token", token::factory)];
    let workloads = factories.map(|(name, factory)| (name.to_string(), factory)).into();
    let options = Options { workloads, ..Options::default() };
    let mut simulation = Simulation::with(&scenario, topology, base, &options)?;
    simulation.run_to_end();
    let mut flows = simulation.take_flows();
    flows.sort_by_key(|flow| flow.id);
    Ok(Measured { flows, exchanges: simulation.take_exchanges() })
}
