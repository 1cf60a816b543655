//! Three-stage fat tree (paper §5.1.1; HPCC §5.1).

use super::{Link, Listed, at_least_one, few_enough, names, possible, several_links};
use onramp_config::Mistake;
use onramp_config::units::{Rate, Span, US};
use serde::{Deserialize, Serialize};

/// Sizes of the fat tree; the default is the paper's: 320 hosts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Pods. Default 5.
    pub pods: u32,
    /// ToR switches in a pod. Default 4.
    pub tors_per_pod: u32,
    /// Aggregation switches in a pod. Default 4.
    pub aggs_per_pod: u32,
    /// Core switches, a multiple of `aggs_per_pod`: the k-th aggregation switch
    /// of every pod is linked to the k-th share of them. Default 16.
    pub cores: u32,
    /// Hosts of a ToR switch. Default 16.
    pub hosts_per_tor: u32,
    /// Links of a host: the second goes to the next ToR switch of its pod, and so on, round about.
    /// Default 1, at most `tors_per_pod`.
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
            pods: 5,
            tors_per_pod: 4,
            aggs_per_pod: 4,
            cores: 16,
            hosts_per_tor: 16,
            host_links: 1,
            host_rate: Rate(100_000_000_000),
            fabric_rate: Rate(400_000_000_000),
            link_delay: Span(US),
        }
    }
}

pub(super) fn links(c: &Config) -> Listed {
    at_least_one(&[
        ("pods", c.pods),
        ("tors_per_pod", c.tors_per_pod),
        ("aggs_per_pod", c.aggs_per_pod),
        ("cores", c.cores),
        ("hosts_per_tor", c.hosts_per_tor),
    ])?;
    several_links(c.host_links, ("tors_per_pod", c.tors_per_pod))?;
    if !c.cores.is_multiple_of(c.aggs_per_pod) {
        return Err(Mistake::new(
            "cores",
            format!("{} is not a multiple of aggs_per_pod, {}", c.cores, c.aggs_per_pod),
        ));
    }
    let [pods, tors, aggs, cores, hosts, links] =
        [c.pods, c.tors_per_pod, c.aggs_per_pod, c.cores, c.hosts_per_tor, c.host_links].map(u128::from);
    few_enough(pods * (tors * (hosts * links + aggs) + cores))?;
    possible(&[("host_rate", c.host_rate), ("fabric_rate", c.fabric_rate)], &[("link_delay", c.link_delay)])?;
    let (tors, aggs) = (c.pods * c.tors_per_pod, c.pods * c.aggs_per_pod);
    let hosts = tors * c.hosts_per_tor;
    let (tor, agg, core) = (|i| hosts + i, |i| hosts + tors + i, |i| hosts + tors + aggs + i);
    let mut links = Vec::new();
    let mut link = |a, b, rate| links.push(Link { a, b, rate, delay: c.link_delay });
    for host in 0..hosts {
        let own = host / c.hosts_per_tor;
        let first = own - own % c.tors_per_pod;
        for k in 0..c.host_links {
            link(host, tor(first + (own + k) % c.tors_per_pod), c.host_rate);
        }
    }
    let cores_per_agg = c.cores / c.aggs_per_pod;
    for pod in 0..c.pods {
        for t in 0..c.tors_per_pod {
            for a in 0..c.aggs_per_pod {
                link(tor(pod * c.tors_per_pod + t), agg(pod * c.aggs_per_pod + a), c.fabric_rate);
            }
        }
        for a in 0..c.aggs_per_pod {
            for k in 0..cores_per_agg {
                link(agg(pod * c.aggs_per_pod + a), core(a * cores_per_agg + k), c.fabric_rate);
            }
        }
    }
    Ok((names(hosts, &[("tor", tors), ("agg", aggs), ("core", c.cores)]), hosts as usize, links))
}
