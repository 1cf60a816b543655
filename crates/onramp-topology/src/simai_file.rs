//! SimAI's topology file, as its `gen_Topo_Template.py` writes it.
//!
//! First line: numbers of nodes, of GPUs a server, of NVSwitches, of other switches and of links, then the kind of GPU,
//! which says nothing about the network. Second: the numbers of the NVSwitches, then those of the other switches. Then
//! one link a line, as in the HPCC simulator's files: `0 320 400Gbps 0.0005ms 0`. The other nodes are GPUs, hosts here.
//! Switches with a link to a GPU are leaves, the others spines.

use super::{WithErrors, few_enough, hpcc_file, names};
use onramp_config::Mistake;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Where the network is described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file, relative to the scenario's folder.
    pub file: String,
}

pub(super) fn links(c: &Config, base: &Path) -> Result<WithErrors, Mistake> {
    let wrong = |message: String| Mistake::new("file", message);
    let text = super::text(&c.file, base).map_err(wrong)?;
    parse(&text).map_err(|m| wrong(format!("{}:{m}", c.file)))
}

fn parse(text: &str) -> Result<WithErrors, String> {
    let mut lines = hpcc_file::lines(text);
    let (at, first) = lines.next().ok_or("1: the file is empty")?;
    let words: Vec<&str> = first.split_whitespace().collect();
    let (_, counts) = hpcc_file::numbers((at, &words[..words.len().min(5)].join(" ")))?;
    let (&[nodes, of_server, nvswitches, others, link_count], 5..=6) = (counts.as_slice(), words.len()) else {
        let of = "nodes, GPUs a server, NVSwitches, other switches and links, and the kind of GPU";
        return Err(format!("{at}: write the numbers of {of}, such as 52 8 4 16 320 H100"));
    };
    let switch_count = nvswitches.saturating_add(others);
    if nodes > 1 << 20 || switch_count >= nodes {
        return Err(format!("{at}: {nodes} nodes with {nvswitches} NVSwitches and {others} switches are not possible"));
    }
    few_enough(link_count.into()).map_err(|m| format!("{at}: {}", m.message))?;
    let (at, switches) = hpcc_file::numbers(lines.next().ok_or("2: the line with the switches is missing")?)?;
    let different: BTreeSet<u32> = switches.iter().copied().filter(|&switch| switch < nodes).collect();
    if switches.len() != switch_count as usize || different.len() != switches.len() {
        return Err(format!("{at}: expected {switch_count} different switches below {nodes}"));
    }
    let hosts = nodes - switch_count;
    // Hosts first, then the switches as they are listed.
    let listed: BTreeMap<u32, u32> = switches.iter().copied().zip(hosts..).collect();
    let gpus: Vec<u32> = (0..nodes).filter(|node| !listed.contains_key(node)).collect();
    let id = |node: u32| match listed.get(&node) {
        Some(&switch) => switch,
        None => gpus.partition_point(|&gpu| gpu < node) as u32,
    };
    let (mut links, errors) = hpcc_file::list(lines, (nodes, link_count), id)?;
    let mut near: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for link in &links {
        for (switch, other) in [(link.a, link.b), (link.b, link.a)] {
            if switch >= hosts && other < hosts {
                near.entry(switch).or_default().insert(other);
            }
        }
    }
    for nvswitch in hosts..hosts + nvswitches {
        let gpus = near.get(&nvswitch).map_or(0, BTreeSet::len);
        if gpus != of_server as usize {
            let node = switches[(nvswitch - hosts) as usize];
            return Err(format!("1: {of_server} GPUs a server, but NVSwitch {node} has links to {gpus}"));
        }
    }
    let (leaves, spines): (Vec<u32>, Vec<u32>) = (hosts + nvswitches..nodes).partition(|node| near.contains_key(node));
    let order: BTreeMap<u32, u32> = leaves.iter().chain(&spines).copied().zip(hosts + nvswitches..).collect();
    for link in &mut links {
        for end in [&mut link.a, &mut link.b] {
            *end = order.get(end).copied().unwrap_or(*end);
        }
    }
    let tiers = [("nvswitch", nvswitches), ("leaf", leaves.len() as u32), ("spine", spines.len() as u32)];
    Ok((names(hosts, &tiers), hosts as usize, links, errors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Topology;
    use proptest::prelude::*;

    /// Two servers with two GPUs, two rails and a spine, which is listed before the leaves.
    const FILE: &str = "9 2 2 3 10 H100\n4 5 6 7 8 \n0 4 2880Gbps 0.000025ms 0\n0 7 400Gbps 0.0005ms 0\n\
        1 4 2880Gbps 0.000025ms 0\n1 8 400Gbps 0.0005ms 0\n2 5 2880Gbps 0.000025ms 0\n2 7 400Gbps 0.0005ms 0\n\
        3 5 2880Gbps 0.000025ms 0\n3 8 400Gbps 0.0005ms 0\n7 6 800Gbps 0.0005ms 0\n8 6 800Gbps 0.0005ms 0\n";

    #[test]
    fn gpus_are_hosts_of_servers_and_rails() {
        let (names, hosts, links, errors) = parse(FILE).unwrap();
        assert_eq!(names.join(" "), "h0 h1 h2 h3 nvswitch0 nvswitch1 leaf0 leaf1 spine0");
        assert_eq!(errors, [0.0; 10]);
        let topology = Topology::new(names, hosts, &links).unwrap();
        let way = |a, b| topology.path(a, b, 1).map(|port| topology.name(port.to)).collect::<Vec<_>>().join(" ");
        assert_eq!(way(0, 1), "nvswitch0 h1");
        assert_eq!(way(0, 2), "leaf0 h2");
        assert_eq!(way(0, 3), "leaf0 spine0 leaf1 h3");
        assert_eq!(topology.host_rate(), "400Gbps".parse().unwrap());
    }

    proptest! {
        #[test]
        fn nothing_makes_the_reader_panic(text in "[0-9 x\n.]{0,80}", at in 0usize..200, with in "[0-9 \nx]") {
            let _ = parse(&text);
            let at = at % FILE.len();
            let _ = parse(&format!("{}{with}{}", &FILE[..at], &FILE[at + 1..]));
        }
    }

    #[test]
    fn mistakes_name_the_line() {
        let wrong = |from: &str, to: &str| parse(&FILE.replace(from, to)).unwrap_err();
        let head = "1: write the numbers of nodes, GPUs a server, NVSwitches, other switches and links, and the kind of \
                    GPU, such as 52 8 4 16 320 H100";
        assert_eq!(wrong("9 2 2 3 10 H100", "9 3 10"), head);
        assert_eq!(wrong("9 2 2 3 10 H100", "9 2 2 x 10 H100"), "1: \"9 2 2 x 10\" is not a list of whole numbers");
        assert_eq!(wrong("9 2", "5 2"), "1: 5 nodes with 2 NVSwitches and 3 switches are not possible");
        assert_eq!(wrong("9 2", "9 4"), "1: 4 GPUs a server, but NVSwitch 4 has links to 2");
        assert_eq!(wrong("6 7 8", "6 7 7"), "2: expected 5 different switches below 9");
        assert_eq!(wrong("3 10 H", "3 11 H"), "1: 11 links are announced, but 10 follow");
        assert_eq!(
            wrong("0 7 400Gbps", "0 9 400Gbps"),
            "4: \"0 9 400Gbps 0.0005ms 0\" is not a link, such as 0 320 100Gbps 0.001ms 0"
        );
        assert_eq!(
            wrong("8 6 800Gbps 0.0005ms 0", "8 6 800Gbps 0.0005ms 1"),
            "12: the error rate is outside 0 to below 1, such as 0"
        );
    }
}
