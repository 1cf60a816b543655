//! Two-stage leaf–spine.

use super::{Link, Listed, at_least_one, few_enough, names, possible, several_links};
use onramp_config::units::{Rate, Span, US};
use serde::{Deserialize, Serialize};

/// Sizes of the leaf–spine network; the default has 64 hosts and no oversubscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Leaf switches. Default 4.
    pub leaves: u32,
    /// Spine switches, each linked to every leaf. Default 4.
    pub spines: u32,
    /// Hosts of a leaf. Default 16.
    pub hosts_per_leaf: u32,
    /// Links of a host: the second goes to the next leaf, and so on, round about.
    /// Default 1, at most `leaves`.
    pub host_links: u32,
    /// Rate of host links. Default 100 Gb/s.
    pub host_rate: Rate,
    /// Rate of links between switches. Default 400 Gb/s.
    pub fabric_rate: Rate,
    /// Delay of every link. Default 1 us.
    pub link_delay: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            leaves: 4,
            spines: 4,
            hosts_per_leaf: 16,
            host_links: 1,
            host_rate: Rate(100_000_000_000),
            fabric_rate: Rate(400_000_000_000),
            link_delay: Span(US),
        }
    }
}

pub(super) fn links(c: &Config) -> Listed {
    at_least_one(&[("leaves", c.leaves), ("spines", c.spines), ("hosts_per_leaf", c.hosts_per_leaf)])?;
    few_enough(
        u128::from(c.leaves) * (u128::from(c.hosts_per_leaf) * u128::from(c.host_links) + u128::from(c.spines)),
    )?;
    possible(&[("host_rate", c.host_rate), ("fabric_rate", c.fabric_rate)], &[("link_delay", c.link_delay)])?;
    several_links(c.host_links, ("leaves", c.leaves))?;
    let hosts = c.leaves * c.hosts_per_leaf;
    let mut links = Vec::new();
    let mut link = |a, b, rate| links.push(Link { a, b, rate, delay: c.link_delay });
    for host in 0..hosts {
        for k in 0..c.host_links {
            link(host, hosts + (host / c.hosts_per_leaf + k) % c.leaves, c.host_rate);
        }
    }
    for leaf in 0..c.leaves {
        for spine in 0..c.spines {
            link(hosts + leaf, hosts + c.leaves + spine, c.fabric_rate);
        }
    }
    Ok((names(hosts, &[("leaf", c.leaves), ("spine", c.spines)]), hosts as usize, links))
}
