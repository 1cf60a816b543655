//! Checks of flows that are to be traced.

use super::{Scenario, TraceError};
use crate::measure::trace::MOST_FLOWS;
use onramp_topology::Topology;
use std::path::Path;

impl Scenario {
    /// Checks the numbers of flows whose packets are to be captured.
    ///
    /// # Errors
    /// The first of them that cannot be, or a file that is wrong.
    pub fn check_traced(&self, topology: &Topology, base: &Path, flows: &[u64]) -> Result<(), TraceError> {
        if !self.is_tcp() {
            return Err(TraceError::NotTcp { kind: self.transport.kind() });
        }
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
}
