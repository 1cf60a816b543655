//! A simulation with a workload that the simulator does not have.

mod shuffle;

use onramp_sim::records::FlowRecord;
use onramp_sim::workload::custom::Factory;
use onramp_sim::{Options, Scenario, Simulation};
use std::error::Error;
use std::path::Path;

/// Flows of a scenario, in order of arrival; `text` is what `file` says.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn run(text: &str, file: &Path) -> Result<Vec<FlowRecord>, Box<dyn Error>> {
    let base = file.parent().unwrap_or(Path::new(""));
    let (scenario, topology) =
        Scenario::load(text, &file.to_string_lossy(), base, &[]).map_err(|mut errors| errors.swap_remove(0))?;
    let workloads = [("shuffle".to_string(), shuffle::factory as Factory)].into();
    let options = Options { workloads, ..Options::default() };
    let mut simulation = Simulation::with(&scenario, topology, base, &options)?;
    simulation.run_to_end();
    let mut flows = simulation.take_flows();
    flows.sort_by_key(|flow| flow.id);
    Ok(flows)
}
