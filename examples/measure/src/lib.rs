//! A simulation with a measure that the simulator does not have: how fair a request's answers are to each other.

use onramp_sim::Observer;
use onramp_sim::records::{FlowRecord, RequestRecord};
use onramp_sim::{Scenario, Simulation};
use std::collections::HashMap;
use std::error::Error;
use std::path::Path;

/// Jain's index of the throughputs of a request's flows: 1 if all are equal, 1/n if one of n has all (Jain, Chiu, Hawe,
/// DEC-TR-301, 1984).
#[derive(Debug, Default)]
pub struct Fairness {
    /// Of requests that are open: flows, sum of throughputs, sum of their squares.
    open: HashMap<u64, (f64, f64, f64)>,
    /// Request and its index, in order of completion.
    pub indices: Vec<(u64, f64)>,
}

impl Observer for Fairness {
    fn flow_finished(&mut self, flow: &FlowRecord) {
        let Some(request) = flow.request else { return };
        let throughput = flow.bytes as f64 / flow.fct_ps as f64;
        let (count, sum, squares) = self.open.entry(request).or_default();
        *count += 1.0;
        *sum += throughput;
        *squares += throughput * throughput;
    }

    /// Comes after the last of its flows.
    fn request_finished(&mut self, request: &RequestRecord) {
        let (count, sum, squares) = self.open.remove(&request.id).expect("a request has flows");
        self.indices.push((request.id, sum * sum / (count * squares)));
    }
}

/// Fairness of the requests of a scenario; `text` is what `file` says.
///
/// # Errors
/// The first thing that is wrong with it.
pub fn run(text: &str, file: &Path) -> Result<Fairness, Box<dyn Error>> {
    let base = file.parent().unwrap_or(Path::new(""));
    let (scenario, topology) =
        Scenario::load(text, &file.to_string_lossy(), base, &[]).map_err(|mut errors| errors.swap_remove(0))?;
    let mut simulation = Simulation::new(&scenario, topology, base)?;
    let mut fairness = Fairness::default();
    simulation.run_to_end_with(&mut fairness);
    Ok(fairness)
}
