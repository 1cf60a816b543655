//! Poisson arrivals of flows between random hosts.

use super::poisson::Poisson;
use super::{Cdf, NewFlow, Section, Size, Source, size_distribution};
use crate::config::units::Ps;
use crate::engine::random;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
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
    /// Hosts that flows go to, from `hosts` or by default from all others. Default: those it is between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Vec<String>>,
}

/// One host's flows, as in HPCC's traffic generator: the mean gap is that of
/// the load at the host's own link, the receiver any other host.
struct Background {
    arrivals: Poisson,
    sizes: Arc<Cdf>,
    src: u32,
    /// Where flows go, and the sender's place if it is one of them.
    to: Arc<[u32]>,
    place: Option<u32>,
    traffic: u32,
}

pub(super) fn add(
    config: &Config,
    section: &Section<'_>,
    base: &Path,
    all: &mut Vec<Box<dyn Source>>,
) -> Result<(), String> {
    let sizes = Arc::new(size_distribution(&config.workload, base)?);
    let to = section.members(config.to.as_deref().or(config.hosts.as_deref()))?;
    let places: HashMap<u32, u32> = to.iter().copied().zip(0..).collect();
    let mut from = section.members(config.hosts.as_deref())?.to_vec();
    if config.hosts.is_none() && config.to.is_some() {
        from.retain(|host| !places.contains_key(host));
    }
    for src in from {
        let rate = section.host_rate(src);
        all.push(Box::new(Background {
            arrivals: Poisson::new(section, "background", src, sizes.mean(), config.load, rate),
            sizes: Arc::clone(&sizes),
            src,
            to: Arc::clone(&to),
            place: places.get(&src).copied(),
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
        let others = self.to.len() as u32 - u32::from(self.place.is_some());
        let other = random::below(random, others);
        let dst = self.to[(other + u32::from(self.place.is_some_and(|place| other >= place))) as usize];
        let size = Size::Bytes(self.sizes.sample(random::uniform(random)));
        out.push(NewFlow { src: self.src, dst, size, traffic: self.traffic, request: None });
        self.arrivals.advance();
    }
}
