//! Requests answered by many servers at once.

use super::poisson::{Draw, Poisson};
use super::{Context, Findings, Group, NewFlow, Place, Plan, RequestPart, Section, Size, Workload, check_load};
use onramp_config::Rule;
use onramp_config::units::{Bytes, Rate};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Who the incast load is defined for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// Every server requests at this load (the paper).
    #[default]
    Server,
    /// All servers together request at this load, each request from a random
    /// server (HPCC).
    Network,
}

/// Requests answered by many servers at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Servers that answer a request.
    pub fan_out: u32,
    /// Size of each answer.
    pub size: Bytes,
    /// Payload over capacity: of the requester's link, or of all with
    /// `scope = "network"`.
    pub load: f64,
    /// Default "server".
    #[serde(default)]
    pub scope: Scope,
    /// Hosts it is between, by name. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
}

/// Requests of one host (On-Ramp's definition of the load), or of any host
/// (HPCC's).
struct Incast {
    /// Who asks; `None` for a random host each time.
    requester: Option<u32>,
    fan_out: u32,
    size: u64,
    members: Arc<[u32]>,
    traffic: u32,
    /// Number of the next request, and how far apart this source's numbers are.
    number: u64,
    /// See `number`.
    step: u64,
}

impl Workload for Config {
    fn check(&self, of: &Context, rule: Rule<'_>) {
        check_load(self.load, rule);
        rule(self.size > Bytes(0), "size", "must be larger than 0, such as \"2KB\"".into());
        let most = of.largest_flow();
        let message = format!("{} is more than a flow can have, {} at {} a packet", self.size, Bytes(most), of.payload);
        rule(self.size.0 <= most || most == 0, "size", message);
    }

    fn check_placed(&self, _of: &Context, place: &Place<'_>, found: &mut Findings) {
        let before = found.wrong.len();
        found.members(self.hosts.as_deref(), place.topology);
        let all = place.topology.hosts();
        let (what, hosts) = self.hosts.as_ref().map_or(("the network has", all), |h| ("it is between", h.len()));
        if found.wrong.len() == before && (self.fan_out == 0 || self.fan_out as usize >= hosts) {
            let (fan_out, most) = (self.fan_out, hosts - 1);
            let message = format!("{fan_out} answering servers, but {what} {hosts} hosts: 1 to {most} are possible");
            found.note("fan_out", Err(message));
        }
    }

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let members = section.members(self.hosts.as_deref())?;
        let hosts = section.place.topology.hosts() as u32;
        if !(1..members.len() as u32).contains(&self.fan_out) {
            return Err(format!("fan_out must be from 1 to {}, the number of other hosts", members.len() - 1));
        }
        let bytes = f64::from(self.fan_out) * self.size.0 as f64;
        let incast = |requester: Option<u32>, capacity| {
            let arrivals = Poisson::new(section, "incast", requester.unwrap_or(0), bytes, self.load, capacity);
            arrivals.source(Incast {
                requester,
                fan_out: self.fan_out,
                size: self.size.0,
                members: Arc::clone(&members),
                traffic: section.number,
                number: u64::from(requester.unwrap_or(0)),
                step: requester.map_or(1, |_| u64::from(hosts)),
            })
        };
        match self.scope {
            Scope::Server => members.iter().for_each(|&h| plan.source(incast(Some(h), section.host_rate(h)))),
            Scope::Network => {
                let capacity = members.iter().map(|&h| section.host_rate(h).0).sum();
                plan.source(incast(None, Rate(capacity)));
            }
        }
        Ok(())
    }

    fn group(&self) -> Option<Group> {
        Some(group())
    }
}

/// Requests, by RCT.
pub(super) fn group() -> Group {
    let exchanges = Group::exchanges("incast", "Incast RCT");
    Group { table: "requests", time: "rct_ps", statistics: "rct_us", ..exchanges }
}

impl Draw for Incast {
    fn draw(&mut self, random: &mut Pcg64Mcg, out: &mut Vec<NewFlow>) {
        let any =
            |random: &mut Pcg64Mcg| self.members[onramp_random::below(random, self.members.len() as u32) as usize];
        let dst = self.requester.unwrap_or_else(|| any(random));
        // The first steps of a Fisher–Yates shuffle of all other hosts.
        let mut others: Vec<u32> = self.members.iter().copied().filter(|&h| h != dst).collect();
        let request = Some(RequestPart { number: self.number, flows: self.fan_out });
        for i in 0..self.fan_out {
            let left = self.members.len() as u32 - 1 - i;
            others.swap(i as usize, (i + onramp_random::below(random, left)) as usize);
            let src = others[i as usize];
            out.push(NewFlow { src, dst, size: Size::Bytes(self.size), traffic: self.traffic, request });
        }
        self.number += self.step;
    }
}
