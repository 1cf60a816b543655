//! Checks of flows that are to be traced.

use super::{Scenario, TraceError};
use crate::measure::trace::MOST_FLOWS;
use onramp_topology::Topology;
use std::collections::HashMap;
use std::path::Path;

impl Scenario {
    /// Checks the numbers of flows whose packets are to be captured or followed.
    ///
    /// # Errors
    /// The first of them that cannot be, or a file that is wrong.
    pub fn check_traced(&self, topology: &Topology, base: &Path, flows: &[u64]) -> Result<(), TraceError> {
        if flows.len() > MOST_FLOWS {
            return Err(TraceError::TooMany { given: flows.len(), most: MOST_FLOWS });
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
                return Err(TraceError::NotThere { flow, range });
            }
            if flow < first {
                return Err(TraceError::InWarmUp { flow, range });
            }
        }
        Ok(())
    }

    /// Numbers of the flows of a request, which is numbered as in the requests table.
    ///
    /// # Errors
    /// There is no such request, or a file is wrong.
    pub fn flows_of(&self, topology: &Topology, base: &Path, request: u64) -> Result<Vec<u64>, TraceError> {
        let mut numbers: HashMap<(u32, u64), u64> = HashMap::new();
        let mut flows = Vec::new();
        for arrival in self.arrivals(topology, base)?.filter(|arrival| arrival.at >= self.warmup.0) {
            let Some(part) = arrival.flow.request else { continue };
            let next = numbers.len() as u64;
            if *numbers.entry((arrival.flow.traffic, part.number)).or_insert(next) == request {
                flows.push(arrival.id);
            }
        }
        match numbers.len() {
            _ if !flows.is_empty() => Ok(flows),
            0 => Err(TraceError::NoRequest { request, range: "the scenario has none".to_string() }),
            count => Err(TraceError::NoRequest { request, range: format!("there are {count}, 0 to {}", count - 1) }),
        }
    }
}
