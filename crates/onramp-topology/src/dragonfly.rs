//! Dragonfly: groups of routers, all linked within a group, and a link between every two groups (Kim, Dally, Scott,
//! Abts, ISCA'08). Routes are minimal.

use super::{Link, Listed, at_least_one, few_enough, names, possible};
use onramp_config::Mistake;
use onramp_config::units::{NS, Rate, Span};
use serde::{Deserialize, Serialize};

/// Sizes of the dragonfly; the default is balanced, with 72 hosts (a = 2h, p = h, ah + 1 groups).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Groups. Default 9.
    pub groups: u32,
    /// Routers of a group. Default 4.
    pub routers: u32,
    /// Hosts of a router. Default 2.
    pub hosts_per_router: u32,
    /// Rate of host links. Default 400 Gb/s.
    pub host_rate: Rate,
    /// Rate of links between routers. Default 400 Gb/s.
    pub fabric_rate: Rate,
    /// Delay of links of hosts and within groups. Default 100 ns.
    pub link_delay: Span,
    /// Delay of links between groups. Default 500 ns.
    pub global_delay: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            groups: 9,
            routers: 4,
            hosts_per_router: 2,
            host_rate: Rate(400_000_000_000),
            fabric_rate: Rate(400_000_000_000),
            link_delay: Span(100 * NS),
            global_delay: Span(500 * NS),
        }
    }
}

pub(super) fn links(c: &Config) -> Listed {
    at_least_one(&[("groups", c.groups), ("routers", c.routers), ("hosts_per_router", c.hosts_per_router)])?;
    let [groups, routers, hosts] = [c.groups, c.routers, c.hosts_per_router].map(u128::from);
    few_enough(groups * routers * (hosts + routers / 2) + groups * (groups - 1) / 2)?;
    possible(
        &[("host_rate", c.host_rate), ("fabric_rate", c.fabric_rate)],
        &[("link_delay", c.link_delay), ("global_delay", c.global_delay)],
    )?;
    if c.global_delay < c.link_delay {
        let message = format!("{} is shorter than link_delay, {}", c.global_delay, c.link_delay);
        return Err(Mistake::new("global_delay", message));
    }
    let routers = c.groups * c.routers;
    let hosts = routers * c.hosts_per_router;
    let router = |group: u32, i: u32| hosts + group * c.routers + i;
    let mut links = Vec::new();
    let mut link = |a, b, rate, delay| links.push(Link { a, b, rate, delay });
    for host in 0..hosts {
        link(host, hosts + host / c.hosts_per_router, c.host_rate, c.link_delay);
    }
    for group in 0..c.groups {
        for (i, j) in (0..c.routers).flat_map(|i| (i + 1..c.routers).map(move |j| (i, j))) {
            link(router(group, i), router(group, j), c.fabric_rate, c.link_delay);
        }
        // A group's links to the others are spread over its routers, the nearest group first.
        for other in group + 1..c.groups {
            let (there, back) = (other - group - 1, c.groups - 1 - (other - group));
            link(router(group, there % c.routers), router(other, back % c.routers), c.fabric_rate, c.global_delay);
        }
    }
    Ok((names(hosts, &[("router", routers)]), hosts as usize, links))
}
