//! Poisson arrivals of flows between random hosts.

use super::poisson::{Draw, Poisson};
use super::{
    Cdf, Context, Findings, NewFlow, Place, Plan, Section, Size, Workload, check_load, is_built_in, size_distribution,
};
use onramp_config::Rule;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
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
    sizes: Arc<Cdf>,
    src: u32,
    /// Where flows go, and the sender's place if it is one of them.
    to: Arc<[u32]>,
    place: Option<u32>,
    traffic: u32,
}

impl Workload for Config {
    fn check(&self, _of: &Context, rule: Rule<'_>) {
        check_load(self.load, rule);
    }

    fn check_placed(&self, of: &Context, place: &Place<'_>, found: &mut Findings) {
        let topology = place.topology;
        match &self.to {
            None => found.members(self.hosts.as_deref(), topology),
            Some(to) => {
                found.names("hosts", self.hosts.as_deref().unwrap_or_default(), topology);
                match topology.hosts_named(to) {
                    Err(_) => found.names("to", to, topology),
                    Ok(receivers) => found.note("to", self.check_receivers(&receivers, place)),
                }
            }
        }
        let largest = size_distribution(&self.workload, place.base).map(|cdf| cdf.largest());
        found.note("workload", largest.and_then(|size| of.check_size(size)));
    }

    fn input_files(&self) -> Vec<(&'static str, String)> {
        if is_built_in(&self.workload) { vec![] } else { vec![("workload", self.workload.clone())] }
    }

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let sizes = Arc::new(size_distribution(&self.workload, section.place.base)?);
        let to = section.members(self.to.as_deref().or(self.hosts.as_deref()))?;
        let places: HashMap<u32, u32> = to.iter().copied().zip(0..).collect();
        let mut from = section.members(self.hosts.as_deref())?.to_vec();
        if self.hosts.is_none() && self.to.is_some() {
            from.retain(|host| !places.contains_key(host));
        }
        for src in from {
            let rate = section.host_rate(src);
            let arrivals = Poisson::new(section, "background", src, sizes.mean(), self.load, rate);
            plan.source(arrivals.source(Background {
                sizes: Arc::clone(&sizes),
                src,
                to: Arc::clone(&to),
                place: places.get(&src).copied(),
                traffic: section.number,
            }));
        }
        Ok(())
    }
}

impl Config {
    /// True if there is another receiver for each sender.
    fn check_receivers(&self, receivers: &[u32], place: &Place<'_>) -> Result<(), String> {
        let topology = place.topology;
        let senders = self.hosts.as_ref().map(|names| topology.hosts_named(names).unwrap_or_default());
        match (receivers, senders) {
            ([], _) => Err("names no host".into()),
            (all, None) if all.len() == topology.hosts() => Err("leaves no host to send".into()),
            ([only], Some(senders)) if senders.contains(only) => {
                Err(format!("{} would send to itself: leave it out of hosts", topology.name(*only)))
            }
            _ => Ok(()),
        }
    }
}

impl Draw for Background {
    fn draw(&mut self, random: &mut Pcg64Mcg, out: &mut Vec<NewFlow>) {
        let others = self.to.len() as u32 - u32::from(self.place.is_some());
        let other = onramp_random::below(random, others);
        let dst = self.to[(other + u32::from(self.place.is_some_and(|place| other >= place))) as usize];
        let size = Size::Bytes(self.sizes.sample(onramp_random::uniform(random)));
        out.push(NewFlow { src: self.src, dst, size, traffic: self.traffic, request: None });
    }
}
