//! Networks: hosts, switches, links, and the routes over them.

pub mod dumbbell;
pub mod fat_tree;
pub mod hpcc_file;
pub mod leaf_spine;
pub mod links;
pub mod star;

use crate::scenario::plain;
use crate::scenario::{Mistake, Network};
use crate::units::{MS, Ps, Rate, SEC, Span};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::path::Path;

/// Index of a node; hosts come first.
pub type NodeId = u32;
/// Index of a port: one end of a link, and its sending direction.
pub type PortId = u32;

/// Most ports a network may have: a packet names its link in 16 bits.
const MAX_PORTS: usize = 1 << 16;
/// Most routes (switches times hosts) a network may have: 256 MB of memory.
const MAX_ROUTES: usize = 1 << 26;
/// Longest delay of a link, and of an empty path: one-way delays are recorded
/// in 31 bits of nanoseconds.
const MAX_DELAY: Ps = SEC;

/// A link as it is listed: two nodes, the same rate and delay both ways.
#[derive(Clone, Debug)]
pub struct Link {
    /// One end.
    pub a: NodeId,
    /// The other end.
    pub b: NodeId,
    /// Rate of each direction.
    pub rate: Rate,
    /// Propagation and processing delay of each direction.
    pub delay: Span,
}

/// One direction of a link, seen from its sender.
#[derive(Clone, Debug)]
pub struct Port {
    /// The node that sends.
    pub from: NodeId,
    /// The node that receives.
    pub to: NodeId,
    /// The port of the same link that sends back.
    pub reverse: PortId,
    /// Rate in bits per second.
    pub rate: Rate,
    /// Delay in picoseconds.
    pub delay: Ps,
}

/// A network with its routes: all shortest paths by hops.
#[derive(Clone, Debug)]
pub struct Topology {
    names: Vec<String>,
    hosts: usize,
    ports: Vec<Port>,
    /// Ports of each node.
    ports_of: Vec<Vec<PortId>>,
    /// For switch s and host h, `next[s * hosts + h]` is a range of `choices` as
    /// start and length: four bytes a pair, so that the routes of hundreds of
    /// hosts stay in the cache.
    next: Vec<(u16, u16)>,
    choices: Vec<u16>,
}

/// Builds the network a scenario names.
pub fn build(network: &Network, base: &Path) -> Result<Topology, Mistake> {
    let (names, hosts, links) = match network {
        Network::FatTree(c) => fat_tree::links(c),
        Network::LeafSpine(c) => leaf_spine::links(c),
        Network::Star(c) => star::links(c),
        Network::Dumbbell(c) => dumbbell::links(c),
        Network::Links(c) => links::links(c),
        Network::HpccFile(c) => hpcc_file::links(c, base),
    }
    .map_err(|m| {
        Mistake::new(if m.key.is_empty() { "network".into() } else { format!("network.{}", m.key) }, m.message)
    })?;
    Topology::new(names, hosts, &links).map_err(|m| Mistake::new("network", m))
}

/// What each topology file returns: node names (hosts first), number of hosts, links.
pub(crate) type Listed = Result<(Vec<String>, usize, Vec<Link>), Mistake>;

/// Names `h0, h1, …`, then each switch tier in turn.
pub(crate) fn names(hosts: u32, tiers: &[(&str, u32)]) -> Vec<String> {
    let host_names = (0..hosts).map(|i| format!("h{i}"));
    host_names.chain(tiers.iter().flat_map(|&(tier, n)| (0..n).map(move |i| format!("{tier}{i}")))).collect()
}

/// Refuses counts of zero.
pub(crate) fn at_least_one(counts: &[(&str, u32)]) -> Result<(), Mistake> {
    match counts.iter().find(|(_, n)| *n == 0) {
        Some((key, _)) => Err(Mistake::new(*key, "must be at least 1")),
        None => Ok(()),
    }
}

/// Refuses more links than a network may have, before they take memory.
pub(crate) fn few_enough(links: u128) -> Result<(), Mistake> {
    let most = MAX_PORTS / 2;
    let message = || format!("{links} links are more than the {most} a network may have: make it smaller");
    if links > most as u128 { Err(Mistake::new("", message())) } else { Ok(()) }
}

/// Refuses rates and delays that cannot be simulated.
pub(crate) fn possible(rates: &[(&str, Rate)], delays: &[(&str, Span)]) -> Result<(), Mistake> {
    if let Some((key, rate)) = rates.iter().find(|(_, r)| *r < Rate(1_000_000) || *r > Rate(8_000_000_000_000)) {
        return Err(Mistake::new(*key, format!("{rate} is outside 1Mbps to 8Tbps")));
    }
    if let Some((key, delay)) = delays.iter().find(|(_, d)| *d > Span(MAX_DELAY)) {
        return Err(Mistake::new(*key, format!("{delay} is more than {}", Span(MAX_DELAY))));
    }
    Ok(())
}

impl Topology {
    /// Checks the links and computes the routes.
    ///
    /// # Errors
    /// What makes the network unusable: a link of rate 0 or to itself, a host
    /// with more or fewer than one link, a host that others cannot reach.
    pub fn new(names: Vec<String>, hosts: usize, links: &[Link]) -> Result<Self, String> {
        let mut ports = Vec::with_capacity(links.len() * 2);
        let mut ports_of = vec![Vec::new(); names.len()];
        for link in links {
            let (a, b) = (&names[link.a as usize], &names[link.b as usize]);
            if link.a == link.b {
                return Err(format!("{a} has a link to itself"));
            }
            possible(&[("rate", link.rate)], &[("delay", link.delay)])
                .map_err(|m| format!("the link {a}->{b} has an impossible {}: {}", m.key, m.message))?;
            let id = ports.len() as PortId;
            for (from, to, reverse) in [(link.a, link.b, id + 1), (link.b, link.a, id)] {
                ports_of[from as usize].push(ports.len() as PortId);
                ports.push(Port { from, to, reverse, rate: link.rate, delay: link.delay.0 });
            }
        }
        if ports.len() > MAX_PORTS {
            return Err(format!("{} links are more than the {} a network may have", links.len(), MAX_PORTS / 2));
        }
        if hosts < 2 {
            return Err("a network needs at least 2 hosts".into());
        }
        for (host, own) in ports_of[..hosts].iter().enumerate() {
            if own.len() != 1 {
                return Err(format!("host {} has {} links: a host has exactly 1", names[host], own.len()));
            }
        }
        if let Some(lone) = (hosts..names.len()).find(|&node| ports_of[node].is_empty()) {
            return Err(format!("switch {} has no link", names[lone]));
        }
        let switches = names.len() - hosts;
        if switches * hosts > MAX_ROUTES {
            return Err(format!(
                "{switches} switches and {hosts} hosts are too many: their product may be at most {MAX_ROUTES}"
            ));
        }
        let mut topology = Self { names, hosts, ports, ports_of, next: Vec::new(), choices: Vec::new() };
        topology.route()?;
        let longest = topology.max_base_owd();
        if longest > MAX_DELAY {
            let (longest, most) = (Span(longest / MS * MS), Span(MAX_DELAY));
            return Err(format!("the longest path takes {longest} one way: at most {most} is possible"));
        }
        Ok(topology)
    }

    /// All shortest paths to every host, by breadth-first search from it.
    fn route(&mut self) -> Result<(), String> {
        let nodes = self.names.len();
        self.next = vec![(0, 0); (nodes - self.hosts) * self.hosts];
        // Few sets of ports differ, so equal ones share one range.
        let mut known: HashMap<Vec<u16>, (u16, u16)> = HashMap::new();
        for host in 0..self.hosts {
            let distance = self.distances_to(host);
            if let Some(lost) = (0..self.hosts).find(|&h| distance[h] == u32::MAX) {
                return Err(format!("no path leads from {} to {}", self.names[lost], self.names[host]));
            }
            for node in self.hosts..nodes {
                let nearer = |&&p: &&PortId| {
                    let to = self.ports[p as usize].to as usize;
                    (to == host || to >= self.hosts) && distance[to] < distance[node]
                };
                let set: Vec<u16> = self.ports_of[node].iter().filter(nearer).map(|&p| p as u16).collect();
                let range = *known.entry(set).or_insert_with_key(|set| {
                    self.choices.extend(set);
                    ((self.choices.len() - set.len()) as u16, set.len() as u16)
                });
                if self.choices.len() > usize::from(u16::MAX) {
                    return Err("has too many different sets of equal-cost ports".into());
                }
                self.next[(node - self.hosts) * self.hosts + host] = range;
            }
        }
        Ok(())
    }

    /// Hops from every node to `host`; hosts do not forward.
    fn distances_to(&self, host: usize) -> Vec<u32> {
        let mut distance = vec![u32::MAX; self.names.len()];
        distance[host] = 0;
        let mut queue = VecDeque::from([host]);
        while let Some(node) = queue.pop_front() {
            for &port in &self.ports_of[node] {
                let to = self.ports[port as usize].to as usize;
                if distance[to] == u32::MAX && (node == host || node >= self.hosts) {
                    distance[to] = distance[node] + 1;
                    queue.push_back(to);
                }
            }
        }
        distance
    }

    /// Number of hosts; they are nodes 0 to this, exclusive.
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Number of nodes.
    pub fn nodes(&self) -> usize {
        self.names.len()
    }

    /// All ports.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The ports of `node`.
    pub fn ports_of(&self, node: NodeId) -> &[PortId] {
        &self.ports_of[node as usize]
    }

    /// The port `node` uses for a packet to `host`: one of the shortest paths,
    /// chosen by `hash` (ECMP). Each node hashes with a seed of its own, so that
    /// choices at successive nodes are independent.
    #[inline]
    pub fn next_port(&self, node: NodeId, host: u32, hash: u16) -> PortId {
        let Some(switch) = (node as usize).checked_sub(self.hosts) else {
            return self.ports_of[node as usize][0];
        };
        let (start, count) = self.next[switch * self.hosts + host as usize];
        let choice = if count > 1 {
            let mixed = ((u32::from(hash) << 16) ^ node).wrapping_mul(0x9E37_79B1);
            let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85EB_CA77);
            ((u64::from(mixed ^ (mixed >> 13)) * u64::from(count)) >> 32) as u16
        } else {
            0
        };
        PortId::from(self.choices[(start + choice) as usize])
    }

    /// All ports that a switch may use for packets to `host`.
    pub fn next_ports(&self, switch: NodeId, host: u32) -> impl Iterator<Item = PortId> {
        let (start, count) = self.next[(switch as usize - self.hosts) * self.hosts + host as usize];
        self.choices[usize::from(start)..][..usize::from(count)].iter().map(|&port| PortId::from(port))
    }

    /// The ports from host `src` to host `dst` for `hash`.
    pub fn path(&self, src: u32, dst: u32, hash: u16) -> impl Iterator<Item = &Port> {
        let mut node = src;
        std::iter::from_fn(move || {
            (node != dst).then(|| {
                let port = &self.ports[self.next_port(node, dst, hash) as usize];
                node = port.to;
                port
            })
        })
    }

    /// Fastest host link.
    pub fn host_rate(&self) -> Rate {
        self.ports[..].iter().filter(|p| (p.from as usize) < self.hosts).map(|p| p.rate).max().unwrap_or_default()
    }

    /// All link rates, ascending.
    pub fn link_rates(&self) -> Vec<Rate> {
        self.ports.iter().map(|p| p.rate).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Longest link delay in picoseconds.
    pub fn max_delay(&self) -> Ps {
        self.ports.iter().map(|p| p.delay).max().unwrap_or_default()
    }

    /// Base RTT between two hosts as the HPCC simulator has it: propagation
    /// both ways and 1000 B at every hop one way, in picoseconds.
    pub fn base_rtt(&self, src: u32, dst: u32) -> Ps {
        self.path(src, dst, 0).map(|p| 2 * p.delay + p.rate.time_for(1000)).sum()
    }

    /// Smallest link rate between two hosts.
    pub fn bottleneck(&self, src: u32, dst: u32) -> Rate {
        self.path(src, dst, 0).map(|p| p.rate).min().expect("two hosts have a path")
    }

    /// Pairs of hosts, one of each kind: hosts on the same switch, over links of
    /// the same rate and delay, do not differ.
    fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut seen: HashMap<(NodeId, Rate, Ps), u32> = HashMap::new();
        let hosts: Vec<u32> = (0..self.hosts as u32)
            .filter(|&host| {
                let port = &self.ports[self.ports_of[host as usize][0] as usize];
                let count = seen.entry((port.to, port.rate, port.delay)).or_default();
                *count += 1;
                *count <= 2
            })
            .collect();
        let others = hosts.clone();
        hosts.into_iter().flat_map(move |a| others.clone().into_iter().map(move |b| (a, b))).filter(|(a, b)| a != b)
    }

    /// Longest base RTT and largest bandwidth-delay product (bytes) of any pair.
    pub fn max_base_rtt_and_bdp(&self) -> (Ps, u64) {
        self.pairs().fold((0, 0), |(rtt, bdp), (a, b)| {
            let pair_rtt = self.base_rtt(a, b);
            let bytes = u128::from(pair_rtt) * u128::from(self.bottleneck(a, b).0) / 8 / 1_000_000_000_000;
            (rtt.max(pair_rtt), bdp.max(bytes as u64))
        })
    }

    /// Longest one-way delay of a full packet between any two hosts of an empty network.
    pub fn max_base_owd(&self) -> Ps {
        let owd = |(a, b)| self.path(a, b, 0).map(|p| p.delay + p.rate.time_for(1048)).sum();
        self.pairs().map(owd).max().unwrap_or_default()
    }

    /// Name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        &self.names[node as usize]
    }

    /// Name of a port: "from->to".
    pub fn port_name(&self, port: PortId) -> String {
        let p = &self.ports[port as usize];
        format!("{}->{}", self.name(p.from), self.name(p.to))
    }

    /// The host called `name`.
    ///
    /// # Errors
    /// What would be right.
    pub fn host_named(&self, name: &str) -> Result<u32, String> {
        let hosts = &self.names[..self.hosts];
        let found = hosts.iter().position(|n| n == name);
        found.map(|i| i as u32).ok_or_else(|| {
            let meant = near(name, hosts).map_or(String::new(), |near| format!("did you mean \"{near}\"? "));
            format!("\"{name}\" is no host: {meant}they are {} to {}", hosts[0], hosts[self.hosts - 1])
        })
    }

    /// The port called "from->to".
    ///
    /// # Errors
    /// What would be right.
    pub fn port_named(&self, name: &str) -> Result<PortId, String> {
        let node = |name: &str| self.names.iter().position(|n| n == name);
        let Some((from, to)) = name.split_once("->") else {
            return Err(format!("\"{name}\" is no link: write two neighbours, such as \"{}\"", self.port_name(1)));
        };
        let unknown = |end: &str| {
            let meant = near(end, &self.names).map_or(String::new(), |near| format!(": did you mean \"{near}\"?"));
            format!("\"{name}\" is no link: there is no \"{end}\"{meant}")
        };
        let a = node(from).ok_or_else(|| unknown(from))?;
        let b = node(to).ok_or_else(|| unknown(to))?;
        let found = self.ports_of[a].iter().find(|&&p| self.ports[p as usize].to as usize == b);
        found.copied().ok_or_else(|| {
            const SHOWN: usize = 4;
            let neighbours = self.ports_of[a].iter().map(|&p| self.name(self.ports[p as usize].to));
            let more = if self.ports_of[a].len() > SHOWN { ", …" } else { "" };
            let shown = neighbours.take(SHOWN).collect::<Vec<_>>().join(", ");
            format!("\"{name}\" is no link: the neighbours of {from} are {shown}{more}")
        })
    }
}

/// The name that is nearly `text`.
fn near<'a>(text: &str, names: &'a [String]) -> Option<&'a str> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    plain::nearest(text, &names)
}

#[cfg(test)]
mod tests;
