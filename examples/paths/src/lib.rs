//! A simulation with a way to choose paths that the simulator does not have.

mod drill;

use onramp_sim::network::path::custom::Factory;
use onramp_sim::records::FlowRecord;
use onramp_sim::{Options, Scenario, Simulation};
use std::path::Path;

/// The finished flows of a scenario, in order of arrival; `text` is what `file` says.
///
/// # Errors
/// The first thing that is wrong with it, in a line.
pub fn run(text: &str, file: &Path) -> Result<Vec<FlowRecord>, String> {
    let base = file.parent().unwrap_or(Path::new(""));
    let (scenario, topology) =
        Scenario::load(text, &file.to_string_lossy(), base, &[]).map_err(|errors| errors[0].to_string())?;
    let paths = [("drill".to_string(), drill::factory as Factory)].into();
    let options = Options { paths, ..Options::default() };
    let mut simulation = Simulation::with(&scenario, topology, base, &options).map_err(|e| e.to_string())?;
    simulation.set_threads(2);
    simulation.run_to_end();
    let mut flows = simulation.take_flows();
    flows.sort_by_key(|flow| flow.id);
    Ok(flows)
}

/// Mean flow completion time [us].
pub fn mean_fct_us(flows: &[FlowRecord]) -> f64 {
    flows.iter().map(|flow| flow.fct_ps as f64 / 1e6).sum::<f64>() / flows.len() as f64
}
