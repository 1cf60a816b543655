//! Requests answered by many servers at once.

use super::poisson::Poisson;
use super::{NewFlow, RequestPart, Section, Size, Source};
use crate::config::units::{Bytes, Ps, Rate};
use crate::engine::random;
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
    arrivals: Poisson,
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

pub(super) fn add(config: &Config, section: &Section<'_>, all: &mut Vec<Box<dyn Source>>) -> Result<(), String> {
    let members = section.members(config.hosts.as_deref())?;
    let hosts = section.topology.hosts() as u32;
    if !(1..members.len() as u32).contains(&config.fan_out) {
        return Err(format!("fan_out must be from 1 to {}, the number of other hosts", members.len() - 1));
    }
    let bytes = f64::from(config.fan_out) * config.size.0 as f64;
    let incast = |requester: Option<u32>, capacity| Incast {
        arrivals: Poisson::new(section, "incast", requester.unwrap_or(0), bytes, config.load, capacity),
        requester,
        fan_out: config.fan_out,
        size: config.size.0,
        members: Arc::clone(&members),
        traffic: section.number,
        number: u64::from(requester.unwrap_or(0)),
        step: requester.map_or(1, |_| u64::from(hosts)),
    };
    match config.scope {
        Scope::Server => {
            all.extend(members.iter().map(|&h| Box::new(incast(Some(h), section.host_rate(h))) as Box<dyn Source>));
        }
        Scope::Network => {
            let capacity = members.iter().map(|&h| section.host_rate(h).0).sum();
            all.push(Box::new(incast(None, Rate(capacity))));
        }
    }
    Ok(())
}

impl Source for Incast {
    fn next_at(&self) -> Option<Ps> {
        self.arrivals.next_at()
    }

    fn expected_bytes(&self, now: Ps) -> f64 {
        self.arrivals.expected_bytes(now)
    }

    fn take(&mut self, out: &mut Vec<NewFlow>) {
        let random = &mut self.arrivals.random;
        let any = |random: &mut _| self.members[random::below(random, self.members.len() as u32) as usize];
        let dst = self.requester.unwrap_or_else(|| any(random));
        // The first steps of a Fisher–Yates shuffle of all other hosts.
        let mut others: Vec<u32> = self.members.iter().copied().filter(|&h| h != dst).collect();
        let request = Some(RequestPart { number: self.number, flows: self.fan_out });
        for i in 0..self.fan_out {
            let left = self.members.len() as u32 - 1 - i;
            others.swap(i as usize, (i + random::below(random, left)) as usize);
            let src = others[i as usize];
            out.push(NewFlow { src, dst, size: Size::Bytes(self.size), traffic: self.traffic, request });
        }
        self.number += self.step;
        self.arrivals.advance();
    }
}
