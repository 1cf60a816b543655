//! htsim's topology file (".topo"): a leaf–spine network of two tiers, or a fat tree of three.
//!
//! `Nodes`, `Tiers` and `Podsize`, then for each `Tier` of switches, the lowest first, `Downlink_speed_Gbps`,
//! `Radix_Down`, `Radix_Up`, `Downlink_Latency_ns`, `Switch_Latency_ns` (part of every link to it) and `Bundle`, parallel
//! links to each switch below. Queues (`Queue_Up`, `Queue_Down`) are the scenario's; `Oversubscribed` follows from the
//! others. Cases of letters do not matter.

use super::{Link, Listed, few_enough, names, possible};
use onramp_config::Mistake;
use onramp_config::units::{NS, Rate, Span};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Where the network is described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file, relative to the scenario's folder.
    pub file: String,
}

/// A tier of switches.
#[derive(Clone, Copy, Debug, Default)]
struct Tier {
    gbps: u64,
    down: u64,
    up: u64,
    latency_ns: u64,
    switch_ns: u64,
    bundle: u64,
}

impl Tier {
    /// Rate and delay of links to the tier below.
    fn link(&self) -> (Rate, Span) {
        (Rate(self.gbps * 1_000_000_000), Span((self.latency_ns + self.switch_ns) * NS))
    }
}

pub(super) fn links(c: &Config, base: &Path) -> Listed {
    let wrong = |message: String| Mistake::new("file", message);
    let text = super::text(&c.file, base).map_err(wrong)?;
    parse(&text).map_err(|m| wrong(format!("{}:{m}", c.file)))
}

fn parse(text: &str) -> Result<(Vec<String>, usize, Vec<Link>), String> {
    let (mut nodes, mut tiers, mut pod) = (0, 0, 0);
    let mut of: Vec<Tier> = Vec::new();
    for (at, line) in (1..).zip(text.lines().map(str::trim)).filter(|(_, l)| !l.is_empty() && !l.starts_with('#')) {
        let wrong = || format!("{at}: \"{line}\" is not a name and a whole number, such as Radix_Down 8");
        let (key, number) = line.split_once(char::is_whitespace).ok_or_else(wrong)?;
        let number: u64 = number.trim().parse().ok().filter(|n| *n < 1 << 32).ok_or_else(wrong)?;
        let key = key.to_ascii_lowercase();
        if key == "tier" {
            let due = of.len() as u64;
            if number != due {
                return Err(format!("{at}: tier {number} comes where tier {due} belongs"));
            }
            of.push(Tier { bundle: 1, ..Tier::default() });
            continue;
        }
        match (key.as_str(), of.last_mut()) {
            ("nodes", _) => nodes = number,
            ("tiers", _) => tiers = number,
            ("podsize", _) => pod = number,
            ("downlink_speed_gbps", Some(tier)) => tier.gbps = number,
            ("radix_down", Some(tier)) => tier.down = number,
            ("radix_up", Some(tier)) => tier.up = number,
            ("downlink_latency_ns", Some(tier)) => tier.latency_ns = number,
            ("switch_latency_ns", Some(tier)) => tier.switch_ns = number,
            ("bundle", Some(tier)) => tier.bundle = number,
            ("queue_up" | "queue_down" | "oversubscribed", Some(_)) => {}
            _ => return Err(format!("{at}: \"{line}\" is not known here")),
        }
    }
    if !(2..=3).contains(&tiers) || of.len() as u64 != tiers {
        return Err(format!("1: {} tiers are described and {tiers} announced: two or three are possible", of.len()));
    }
    build(nodes, pod, &of).map_err(|wrong| format!("1: {wrong}"))
}

/// `a / b`, where it is a whole number above 0.
fn ratio(what: &str, a: u64, b: u64) -> Result<u64, String> {
    let wrong = || format!("the number of {what} is {a} / {b}: not a whole number above 0");
    a.checked_div(b).filter(|_| a > 0 && a.is_multiple_of(b)).ok_or_else(wrong)
}

fn build(nodes: u64, pod: u64, tiers: &[Tier]) -> Result<(Vec<String>, usize, Vec<Link>), String> {
    let (tor, top) = (&tiers[0], &tiers[tiers.len() - 1]);
    let tors = ratio("tier 0's switches", nodes, tor.down)?;
    let pods = if tiers.len() == 3 { ratio("pods", nodes, pod)? } else { 1 };
    let per_pod = ratio("tier 0's switches in a pod", tors, pods)?;
    let middle = &tiers[1];
    // Above each pod's lowest switches, and above these.
    let above = ratio("tier 1's switches in a pod", tor.up, middle.bundle)?;
    if middle.down != per_pod * middle.bundle {
        let (down, bundle) = (middle.down, middle.bundle);
        return Err(format!("tier 1 has {down} links down, for {per_pod} switches with {bundle} each"));
    }
    let cores = if tiers.len() == 3 { above * ratio("tier 2's switches", middle.up, top.bundle)? } else { 0 };
    if tiers.len() == 3 && top.down != pods * top.bundle {
        let (down, bundle) = (top.down, top.bundle);
        return Err(format!("tier 2 has {down} links down, for {pods} pods with {bundle} each"));
    }
    let count = u128::from(nodes) + u128::from(tors) * u128::from(tor.up) + u128::from(pods * above * middle.up);
    few_enough(count).map_err(|m| m.message)?;
    for tier in tiers {
        let (rate, delay) = tier.link();
        let checked = possible(&[("Downlink_speed_Gbps", rate)], &[("Downlink_Latency_ns", delay)]);
        checked.map_err(|m| format!("{}: {}", m.key, m.message))?;
    }
    let mut links = Vec::new();
    let mut link = |a: u64, b: u64, tier: &Tier| {
        let (rate, delay) = tier.link();
        links.push(Link { a: a as u32, b: b as u32, rate, delay });
    };
    for host in 0..nodes {
        link(host, nodes + host / tor.down, tor);
    }
    for tor in 0..tors {
        for i in 0..above {
            for _ in 0..middle.bundle {
                link(nodes + tor, nodes + tors + tor / per_pod * above + i, middle);
            }
        }
    }
    let per_agg = cores.checked_div(above).unwrap_or_default();
    for agg in 0..if cores > 0 { pods * above } else { 0 } {
        for i in 0..per_agg {
            for _ in 0..top.bundle {
                link(nodes + tors + agg, nodes + tors + pods * above + agg % above * per_agg + i, top);
            }
        }
    }
    let aggs = (pods * above) as u32;
    let tiers: &[(&str, u32)] = if cores > 0 {
        &[("tor", tors as u32), ("agg", aggs), ("core", cores as u32)]
    } else {
        &[("leaf", tors as u32), ("spine", aggs)]
    };
    Ok((names(nodes as u32, tiers), nodes as usize, links))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "# Leaf and spine.\nNodes 32\nTiers 2\nPodsize 32\n\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 8\n\
        Radix_Up 2\nDownlink_Latency_ns 1000\nSwitch_Latency_ns 5\nOversubscribed 4\n\nTier 1\nDownlink_speed_Gbps 200\n\
        Radix_Down 4\nDownlink_Latency_ns 500\n";
    const THREE: &str = "nodes 8\ntiers 3\npodsize 4\ntier 0\ndownlink_speed_gbps 200\nradix_down 2\nradix_up 2\n\
        downlink_latency_ns 1000\ntier 1\ndownlink_speed_gbps 200\nradix_down 2\nradix_up 4\ndownlink_latency_ns 1000\n\
        bundle 1\ntier 2\ndownlink_speed_gbps 100\nradix_down 4\ndownlink_latency_ns 1000\nbundle 2\n";

    #[test]
    fn two_tiers_are_leaves_and_spines() {
        let (names, hosts, links) = parse(TWO).unwrap();
        assert_eq!((hosts, names.len(), links.len()), (32, 32 + 4 + 2, 32 + 8));
        assert_eq!((links[9].a, links[9].b, links[9].delay), (9, 33, Span(1005 * NS)));
        assert_eq!((links[33].a, links[33].b, links[33].rate), (32, 37, Rate(200_000_000_000)));
    }

    #[test]
    fn three_tiers_have_pods_and_bundles() {
        let (names, hosts, links) = parse(THREE).unwrap();
        // Two pods with two and two switches each, and four cores.
        assert_eq!((hosts, names.len(), links.len()), (8, 8 + 4 + 4 + 4, 8 + 8 + 16));
        let topology = super::super::Topology::new(names, hosts, &links).unwrap();
        assert_eq!((topology.path(0, 3, 1).count(), topology.path(0, 7, 1).count()), (4, 6));
        let core = topology.ports_of(16).len();
        assert_eq!(core, 4, "two links to each pod");
    }

    #[test]
    fn mistakes_name_the_line() {
        let wrong = |from: &str, to: &str| parse(&TWO.replace(from, to)).unwrap_err();
        assert_eq!(
            wrong("Nodes 32", "Nodes many"),
            "2: \"Nodes many\" is not a name and a whole number, such as Radix_Down 8"
        );
        assert_eq!(wrong("Tier 1\n", "Tier 2\n"), "14: tier 2 comes where tier 1 belongs");
        assert_eq!(wrong("Radix_Up 2", "Radix_Left 2"), "9: \"Radix_Left 2\" is not known here");
        assert_eq!(wrong("Tiers 2", "Tiers 4"), "1: 2 tiers are described and 4 announced: two or three are possible");
        assert_eq!(
            wrong("Nodes 32", "Nodes 33"),
            "1: the number of tier 0's switches is 33 / 8: not a whole number above 0"
        );
        assert_eq!(wrong("Radix_Down 4", "Radix_Down 5"), "1: tier 1 has 5 links down, for 4 switches with 1 each");
        assert_eq!(
            wrong("Downlink_speed_Gbps 200", "Downlink_speed_Gbps 0"),
            "1: Downlink_speed_Gbps: 0bps is outside 1Mbps to 8Tbps"
        );
    }
}
