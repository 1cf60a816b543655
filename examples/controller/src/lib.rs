//! A simulation with congestion controllers that the simulator does not have: one of RDMA, one of TCP.

mod aimd;
mod scalable;

use onramp_sim::cc::custom::Factory;
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
    let controllers = [("aimd".to_string(), aimd::factory as Factory)].into();
    let tcp_controllers = [("scalable".to_string(), scalable::factory as Factory<_>)].into();
    let options = Options { controllers, tcp_controllers, ..Options::default() };
    let mut simulation = Simulation::with(&scenario, topology, base, &options).map_err(|e| e.to_string())?;
    simulation.run_to_end();
    let mut flows = simulation.take_flows();
    flows.sort_by_key(|flow| flow.id);
    Ok(flows)
}
