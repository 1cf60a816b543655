//! Whether flows of a scenario can be traced.

use super::Scenario;
use crate::measure::trace::MOST_FLOWS;
use onramp_topology::Topology;
use std::path::Path;

impl Scenario {
    /// Checks the numbers of flows whose packets are to be captured.
    ///
    /// # Errors
    /// What is wrong with them, in a line; what is wrong with a file that the scenario names.
    pub fn check_traced(&self, topology: &Topology, base: &Path, flows: &[u64]) -> Result<(), String> {
        if !self.is_tcp() {
            let kind = self.transport.kind();
            return Err(format!(
                "transport.kind: \"{kind}\" is RDMA; packets are traced of TCP: newreno, cubic, bbr, vegas, dctcp-tcp"
            ));
        }
        if flows.len() > MOST_FLOWS {
            return Err(format!("{} flows: at most {MOST_FLOWS} can be traced at a time", flows.len()));
        }
        let (mut first, mut count) = (0, 0);
        for arrival in self.arrivals(topology, base)? {
            first += u64::from(arrival.at < self.warmup.0);
            count += 1;
        }
        let range = match count - first {
            0 => "none arrives from time 0 on".to_string(),
            1 => format!("there is one, {first}"),
            some => format!("there are {some}, {first} to {}", count - 1),
        };
        for &flow in flows {
            if flow >= count {
                return Err(format!("flow {flow}: is not there; {range}"));
            }
            if flow < first {
                return Err(format!("flow {flow}: arrives in the warm-up, which is not measured; {range}"));
            }
        }
        Ok(())
    }
}
