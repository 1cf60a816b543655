//! Poisson arrivals of flows between random hosts.

use super::poisson::Poisson;
use super::{Cdf, NewFlow, Section, Size, Source, size_distribution};
use crate::config::units::Ps;
use crate::engine::random;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;

/// Poisson arrivals of flows between random hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// "WebSearch", "FB_Hadoop", "GoogleSearchRPC", or a file with a size CDF
    /// in the HPCC or the Homa format.
    pub workload: String,
    /// Payload over host link capacity, above 0.
    pub load: f64,
    /// Hosts it is between, by name. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

/// One host's flows, as in HPCC's traffic generator: the mean gap is that of
/// the load at the host's own link, the receiver any other host.
struct Background {
    arrivals: Poisson,
    sizes: Arc<Cdf>,
    /// The sender's place among `members`.
    place: u32,
    members: Arc<[u32]>,
    traffic: u32,
}

pub(super) fn add(
    config: &Config,
    section: &Section<'_>,
    base: &Path,
    all: &mut Vec<Box<dyn Source>>,
) -> Result<(), String> {
    let sizes = Arc::new(size_distribution(&config.workload, base)?);
    let members = section.members(config.hosts.as_deref())?;
    for (place, &src) in members.iter().enumerate() {
        let rate = section.host_rate(src);
        all.push(Box::new(Background {
            arrivals: Poisson::new(section, "background", src, sizes.mean(), config.load, rate),
            sizes: Arc::clone(&sizes),
            place: place as u32,
            members: Arc::clone(&members),
            traffic: section.number,
        }));
    }
    Ok(())
}

impl Source for Background {
    fn next_at(&self) -> Option<Ps> {
        self.arrivals.next_at()
    }

    fn expected_bytes(&self, now: Ps) -> f64 {
        self.arrivals.expected_bytes(now)
    }

    fn take(&mut self, out: &mut Vec<NewFlow>) {
        let random = &mut self.arrivals.random;
        let other = random::below(random, self.members.len() as u32 - 1);
        let dst = self.members[(other + u32::from(other >= self.place)) as usize];
        let src = self.members[self.place as usize];
        let size = Size::Bytes(self.sizes.sample(random::uniform(random)));
        out.push(NewFlow { src, dst, size, traffic: self.traffic, request: None });
        self.arrivals.advance();
    }
}
