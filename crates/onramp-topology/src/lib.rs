//! Networks: hosts, switches, links, and the routes over them.
//!
//! A shape is a file with its `Config`, a line of [`Shape`] and one of [`build`]. A [`Topology`] also knows its round
//! trips and bottlenecks, and [`Cells`] cuts it into parts that can be simulated side by side.
//!
//! ```
//! use onramp_config::units::NS;
//!
//! let table = r#"network = { kind = "star", hosts = 3 }"#.parse::<toml::Table>().unwrap();
//! let network = onramp_config::read(table["network"].as_table().unwrap()).unwrap();
//! let topology = onramp_topology::build(&network, ".".as_ref()).unwrap();
//! assert_eq!((topology.hosts(), topology.nodes()), (3, 4));
//! let (h0, h1) = (topology.host_named("h0")?, topology.host_named("h1")?);
//! assert_eq!(topology.path(h0, h1, 0).count(), 2);
//! // Two links of 1 us each way, and what 1000 B of payload and its ACK take on the wire.
//! assert_eq!(topology.base_rtt(h0, h1, 1000) / NS, 4_160);
//! # Ok::<(), onramp_topology::TopologyError>(())
//! ```

pub mod address;
pub mod dragonfly;
pub mod dumbbell;
pub mod fat_tree;
pub mod faults;
pub mod hpcc_file;
pub mod htsim_file;
pub mod leaf_spine;
pub mod links;
pub mod racks;
pub mod servers;
pub mod simai_file;
pub mod star;

mod cells;
mod error;
mod routes;

pub use cells::{Cells, Members};
pub use error::TopologyError;
pub use faults::Fault;
pub use routes::{Routes, choose};

use onramp_config::units::{MS, Ps, Rate, SEC, Span};
use onramp_config::{Both, Keys};
use onramp_config::{Mistake, tagged};
use routes::Builder;
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::path::Path;

/// Hosts, switches and links.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Network {
    /// Links that are not there, each named by its two ends: "h3->tor0". Default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Links at another rate than their kind. Default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slow: Vec<Slow>,
    /// Links that fail in the middle of a run, or have bit errors. Default none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// The network without failures.
    #[serde(flatten)]
    pub shape: Shape,
}

/// A link that has lost a part of its rate, or is faster than others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slow {
    /// Its two ends, in either order, such as "leaf0->spine1". Links beside each other have the rate each.
    pub link: String,
    /// Rate of each direction.
    pub rate: Rate,
}

impl From<Shape> for Network {
    fn from(shape: Shape) -> Self {
        Self { failed: vec![], slow: vec![], faults: vec![], shape }
    }
}

/// Keys of a network of any shape.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Common {
    failed: Vec<String>,
    slow: Vec<Slow>,
    faults: Vec<Fault>,
}

impl Keys for Common {
    const KEYS: &'static [&'static str] = &["failed", "slow", "faults"];
}

impl<'de> Deserialize<'de> for Network {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let Both(Common { failed, slow, faults }, shape) = Both::deserialize(d)?;
        Ok(Self { failed, slow, faults, shape })
    }
}

tagged! {
    /// How hosts, switches and links are laid out.
    pub enum Shape {
        /// Three-stage fat tree (paper §5.1.1).
        FatTree(fat_tree::Config) = "fat-tree",
        /// Two-stage leaf–spine.
        LeafSpine(leaf_spine::Config) = "leaf-spine",
        /// All hosts on one switch (paper Fig. 1).
        Star(star::Config) = "star",
        /// Two switches with one link between them.
        Dumbbell(dumbbell::Config) = "dumbbell",
        /// Racks of hosts with roles, and spines between them.
        Racks(racks::Config) = "racks",
        /// Servers with several GPUs.
        Servers(servers::Config) = "servers",
        /// Groups of routers, each linked with every other.
        Dragonfly(dragonfly::Config) = "dragonfly",
        /// Nodes and links listed one by one.
        Links(links::Config) = "links",
        /// A topology file in the HPCC simulator's format.
        HpccFile(hpcc_file::Config) = "hpcc-file",
        /// A topology file in htsim's format.
        HtsimFile(htsim_file::Config) = "htsim-file",
        /// A topology file in SimAI's format.
        SimaiFile(simai_file::Config) = "simai-file",
    }
}

impl Shape {
    /// The file that it is read from.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::HpccFile(hpcc_file::Config { file })
            | Self::HtsimFile(htsim_file::Config { file })
            | Self::SimaiFile(simai_file::Config { file }) => Some(file),
            _ => None,
        }
    }
}

/// Index of a node; hosts come first.
pub type NodeId = u32;
/// Index of a port: one end of a link, and its sending direction.
pub type PortId = u32;

/// Most hosts a network may have: packets name theirs in 21 bits.
pub const MAX_HOSTS: usize = 1 << 21;
/// Most ports: each host has a link, so that there are never too many hosts.
const MAX_PORTS: usize = 2 * MAX_HOSTS;
/// Most routes (switches times groups of hosts) a network may have: 512 MB of memory.
const MAX_ROUTES: usize = 1 << 26;
/// With more kinds of hosts than this not each pair of them is looked at.
const MANY_KINDS: usize = 2000;
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
    /// Ports whose links lose packets, each with the probability.
    packet_errors: BTreeMap<PortId, f64>,
    routes: Routes,
}

/// Builds the network a scenario names.
pub fn build(network: &Network, base: &Path) -> Result<Topology, Mistake> {
    let topology = without_faults(network, base)?;
    faults::check(&network.faults, &topology).map_or(Ok(topology), Err)
}

/// See [`build`].
fn without_faults(network: &Network, base: &Path) -> Result<Topology, Mistake> {
    let exact = |listed: Listed| listed.map(|(names, hosts, links)| (names, hosts, links, vec![]));
    let (names, hosts, mut links, errors) = match &network.shape {
        Shape::FatTree(c) => exact(fat_tree::links(c)),
        Shape::LeafSpine(c) => exact(leaf_spine::links(c)),
        Shape::Star(c) => exact(star::links(c)),
        Shape::Dumbbell(c) => exact(dumbbell::links(c)),
        Shape::Racks(c) => exact(racks::links(c)),
        Shape::Servers(c) => exact(servers::links(c)),
        Shape::Dragonfly(c) => exact(dragonfly::links(c)),
        Shape::Links(c) => exact(links::links(c)),
        Shape::HpccFile(c) => hpcc_file::links(c, base),
        Shape::HtsimFile(c) => exact(htsim_file::links(c, base)),
        Shape::SimaiFile(c) => simai_file::links(c, base),
    }
    .map_err(|m| {
        Mistake::new(if m.key.is_empty() { "network".into() } else { format!("network.{}", m.key) }, m.message)
    })?;
    let with_errors = |topology: Topology, errors: &[f64]| {
        // Both ports of a link.
        let each = (0..).step_by(2).zip(errors).filter(|(_, error)| **error > 0.0);
        let packet_errors = each.flat_map(|(port, &error)| [(port, error), (port + 1, error)]).collect();
        Topology { packet_errors, ..topology }
    };
    // First as if all were well: what is wrong then is not the failures' doing.
    let whole = Topology::new(names.clone(), hosts, &links).map_err(|e| Mistake::new("network", e.to_string()))?;
    let both = |a: NodeId, b: NodeId| (a.min(b), a.max(b));
    let ends = |name: &str, key: String| {
        let port = whole.port_named(name).map_err(|e| Mistake::new(key, e.to_string()))?;
        let Port { from, to, .. } = whole.ports[port as usize];
        Ok(both(from, to))
    };
    let mut rates = BTreeMap::new();
    for (i, Slow { link, rate }) in network.slow.iter().enumerate() {
        if rate.0 == 0 {
            let message = "must be above 0: a link that is down is in network.failed";
            return Err(Mistake::new(format!("network.slow[{i}].rate"), message));
        }
        rates.insert(ends(link, format!("network.slow[{i}].link"))?, *rate);
    }
    for link in &mut links {
        link.rate = rates.get(&both(link.a, link.b)).copied().unwrap_or(link.rate);
    }
    if network.failed.is_empty() {
        let assembled = if rates.is_empty() { Ok(whole) } else { Topology::new(names, hosts, &links) };
        return Ok(with_errors(assembled.map_err(|e| Mistake::new("network", e.to_string()))?, &errors));
    }
    let named = network.failed.iter().enumerate();
    let failed =
        named.map(|(i, name)| ends(name, format!("network.failed[{i}]"))).collect::<Result<BTreeSet<_>, _>>()?;
    let left = |link: &&Link| !failed.contains(&both(link.a, link.b));
    let errors: Vec<f64> = links.iter().zip(errors).filter(|(link, _)| left(link)).map(|(_, error)| error).collect();
    let links: Vec<Link> = links.iter().filter(left).cloned().collect();
    let cut = |e| Mistake::new("network.failed", format!("without these links, {e}"));
    Ok(with_errors(Topology::assemble(names, hosts, &links, true).map_err(cut)?, &errors))
}

/// A file's text, relative to `base`.
fn text(file: &str, base: &Path) -> Result<String, String> {
    let cannot = |e: &dyn std::fmt::Display| format!("cannot read \"{file}\": {e}");
    let path = base.join(file);
    // Before it is opened: a pipe or a device may never end.
    if !path.metadata().map_err(|e| cannot(&e))?.is_file() {
        return Err(cannot(&"not a regular file"));
    }
    let bytes = std::fs::read(path).map_err(|e| cannot(&e))?;
    if let Some(why) = onramp_config::compressed(&bytes) {
        return Err(cannot(&why));
    }
    String::from_utf8(bytes).map_err(|_| cannot(&"not text in UTF-8"))
}

/// Parts of a network that each topology file returns: node names (hosts first), number of hosts, links.
pub(crate) type Listed = Result<(Vec<String>, usize, Vec<Link>), Mistake>;

/// The same with the probability that a packet is lost on each link, or nothing.
pub(crate) type WithErrors = (Vec<String>, usize, Vec<Link>, Vec<f64>);

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

/// Refuses hosts without links, or with two to the same switch.
pub(crate) fn several_links(links: u32, (key, switches): (&str, u32)) -> Result<(), Mistake> {
    let message = || format!("{links} is outside 1 to {key}, {switches}");
    if (1..=switches).contains(&links) { Ok(()) } else { Err(Mistake::new("host_links", message())) }
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
    /// Reasons that make the network unusable: a link of rate 0 or to itself, a host
    /// without a link, a host that others cannot reach.
    pub fn new(names: Vec<String>, hosts: usize, links: &[Link]) -> Result<Self, TopologyError> {
        Self::assemble(names, hosts, links, false)
    }

    /// See [`Topology::new`]; `idle` switches may have no link.
    fn assemble(names: Vec<String>, hosts: usize, links: &[Link], idle: bool) -> Result<Self, TopologyError> {
        let mut ports = Vec::with_capacity(links.len() * 2);
        let mut ports_of = vec![Vec::new(); names.len()];
        for link in links {
            let (a, b) = (&names[link.a as usize], &names[link.b as usize]);
            if link.a == link.b {
                return Err(TopologyError::LinkToItself { node: a.clone() });
            }
            possible(&[("rate", link.rate)], &[("delay", link.delay)])
                .map_err(|wrong| TopologyError::Impossible { link: format!("{a}->{b}"), wrong })?;
            let id = ports.len() as PortId;
            for (from, to, reverse) in [(link.a, link.b, id + 1), (link.b, link.a, id)] {
                ports_of[from as usize].push(ports.len() as PortId);
                ports.push(Port { from, to, reverse, rate: link.rate, delay: link.delay.0 });
            }
        }
        if ports.len() > MAX_PORTS {
            return Err(TopologyError::TooManyLinks { links: links.len() });
        }
        if hosts < 2 {
            return Err(TopologyError::TooFewHosts);
        }
        let linked = if idle { hosts } else { names.len() };
        if let Some(lone) = (0..linked).find(|&node| ports_of[node].is_empty()) {
            return Err(TopologyError::NoLink { host: lone < hosts, node: names[lone].clone() });
        }
        let packet_errors = BTreeMap::new();
        let mut topology = Self { names, hosts, ports, ports_of, packet_errors, routes: Routes::default() };
        topology.route()?;
        let longest = topology.max_base_owd(1000 + 48);
        if longest > MAX_DELAY {
            return Err(TopologyError::TooLong { longest: Span(longest / MS * MS) });
        }
        Ok(topology)
    }

    /// All shortest paths to every group of hosts on the same switches, by
    /// breadth-first search from these. A switch that no way leads from keeps its routes of before: what comes is lost
    /// where the link is that has failed.
    fn route(&mut self) -> Result<(), TopologyError> {
        let switches = self.names.len() - self.hosts;
        let mut numbers: BTreeMap<Vec<NodeId>, u32> = BTreeMap::new();
        let mut homes: Vec<Vec<NodeId>> = Vec::new();
        let mut group_of = Vec::with_capacity(self.hosts);
        for host in 0..self.hosts as u32 {
            let home: BTreeSet<NodeId> = self.neighbours(host).filter(|&node| !self.is_host(node)).collect();
            let home: Vec<NodeId> = home.into_iter().collect();
            group_of.push(*numbers.entry(home.clone()).or_insert_with(|| {
                homes.push(home);
                (homes.len() - 1) as u32
            }));
        }
        if switches * homes.len() > MAX_ROUTES {
            return Err(TopologyError::TooManyRoutes { switches, groups: homes.len() });
        }
        let salt = (self.hosts..self.names.len()).map(|node| node as u32).collect();
        let before = std::mem::take(&mut self.routes);
        let mut routes = Builder::new(group_of.clone(), homes.len(), salt);
        let twins = self.twins(&homes);
        // A NIC forwards for its own host only.
        let nics: Vec<bool> = (self.hosts..self.names.len()).map(|node| self.is_nic(node as NodeId)).collect();
        for (group, home) in homes.iter().enumerate().filter(|(group, _)| twins[*group] == *group) {
            let member = group_of.iter().position(|g| *g as usize == group).unwrap_or_default();
            let distance = self.distances_to(home, &nics);
            let cut_off = |host: &usize| {
                let home = &homes[group_of[*host] as usize];
                home.iter().all(|node| distance[*node as usize - self.hosts] == u32::MAX)
            };
            if let Some(lost) = (0..self.hosts).find(cut_off) {
                let (from, to) = (self.names[lost].clone(), self.names[member].clone());
                return Err(TopologyError::NoPath { from, to });
            }
            for switch in 0..switches {
                if distance[switch] == 0 {
                    continue;
                }
                let nearer = |&&port: &&PortId| {
                    let to = self.ports[port as usize].to;
                    let at = (to as usize).checked_sub(self.hosts);
                    at.is_some_and(|at| distance[at] < distance[switch] && (distance[at] == 0 || !nics[at]))
                };
                let mut ports: Vec<PortId> =
                    self.ports_of[switch + self.hosts].iter().filter(nearer).copied().collect();
                if ports.is_empty() {
                    ports = before.old_ports(switch, member as u32);
                }
                routes.towards(switch, group, ports)?;
            }
        }
        // Twins are reached by the same ways but for the last switch before them.
        routes.copy(&twins);
        for (group, &twin) in twins.iter().enumerate().filter(|(group, twin)| *group != **twin) {
            let (home, other) = (homes[group][0], homes[twin][0]);
            let towards = |from: NodeId, to: &dyn Fn(NodeId) -> bool| -> Vec<PortId> {
                let ports = self.ports_of[from as usize].iter().copied();
                ports.filter(|&port| to(self.ports[port as usize].to)).collect()
            };
            let near: BTreeSet<NodeId> = self.neighbours(home).filter(|&node| !self.is_host(node)).collect();
            for &switch in &near {
                routes.towards(switch as usize - self.hosts, group, towards(switch, &|to| to == home))?;
            }
            routes.towards(other as usize - self.hosts, group, towards(other, &|to| near.contains(&to)))?;
            routes.here(home as usize - self.hosts, group);
        }
        for switch in 0..switches {
            let mut own: BTreeMap<u32, Vec<PortId>> = BTreeMap::new();
            for &port in &self.ports_of[switch + self.hosts] {
                let to = self.ports[port as usize].to;
                if self.is_host(to) {
                    own.entry(to).or_default().push(port);
                }
            }
            routes.attach(switch, &own.into_iter().collect::<Vec<_>>())?;
        }
        self.routes = routes.finish();
        Ok(())
    }

    /// For each group of hosts the first whose switch has the same neighbours, perhaps itself: all other switches have
    /// the same distance from both, so the search for one's routes is the other's.
    fn twins(&self, homes: &[Vec<NodeId>]) -> Vec<usize> {
        let mut first: HashMap<Vec<NodeId>, usize> = HashMap::new();
        let twin = |(group, home): (usize, &Vec<NodeId>)| {
            let &[home] = &home[..] else { return group };
            let near: BTreeSet<NodeId> = self.neighbours(home).filter(|&node| !self.is_host(node)).collect();
            if near.is_empty() { group } else { *first.entry(near.into_iter().collect()).or_insert(group) }
        };
        homes.iter().enumerate().map(twin).collect()
    }

    fn neighbours(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.ports_of[node as usize].iter().map(|&port| self.ports[port as usize].to)
    }

    /// Hops from every switch to the nearest of `home`; hosts do not forward, and `nics` only from and to `home`.
    fn distances_to(&self, home: &[NodeId], nics: &[bool]) -> Vec<u32> {
        let mut distance = vec![u32::MAX; self.names.len() - self.hosts];
        let mut queue: VecDeque<NodeId> = home.iter().copied().collect();
        for &node in home {
            distance[node as usize - self.hosts] = 0;
        }
        while let Some(node) = queue.pop_front() {
            for to in self.neighbours(node) {
                if !self.is_host(to) && distance[to as usize - self.hosts] == u32::MAX {
                    distance[to as usize - self.hosts] = distance[node as usize - self.hosts] + 1;
                    if !nics[to as usize - self.hosts] {
                        queue.push_back(to);
                    }
                }
            }
        }
        distance
    }

    /// Number of hosts; they are nodes 0 to this, exclusive.
    #[inline]
    pub fn hosts(&self) -> usize {
        self.hosts
    }

    /// Number of nodes.
    #[inline]
    pub fn nodes(&self) -> usize {
        self.names.len()
    }

    /// All ports.
    #[inline]
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// Ports whose links lose packets, each with the probability that one is lost.
    pub fn packet_errors(&self) -> &BTreeMap<PortId, f64> {
        &self.packet_errors
    }

    /// The ports of `node`.
    #[inline]
    pub fn ports_of(&self, node: NodeId) -> &[PortId] {
        &self.ports_of[node as usize]
    }

    /// True if a node is a host.
    #[inline]
    pub fn is_host(&self, node: NodeId) -> bool {
        (node as usize) < self.hosts
    }

    /// All routes.
    #[inline]
    pub fn routes(&self) -> &Routes {
        &self.routes
    }

    /// All ports that a switch may use for packets to `host`.
    pub fn next_ports(&self, switch: NodeId, host: u32) -> impl Iterator<Item = PortId> {
        self.routes.ports(switch as usize - self.hosts, host).iter().copied()
    }

    /// The port of host `src` that a flow to `dst` leaves by: of those from which the way is shortest, and of these the
    /// fastest, the one chosen by `hash`.
    pub fn source_port(&self, src: u32, dst: u32, hash: u16) -> PortId {
        let own = &self.ports_of[src as usize];
        if own.len() == 1 {
            return own[0];
        }
        let hops = |port: &PortId| self.onward(self.ports[*port as usize].to, dst, hash).count();
        let leads = |port: &&PortId| {
            let to = self.ports[**port as usize].to;
            !self.is_host(to) && !self.routes.ports(to as usize - self.hosts, dst).is_empty()
        };
        let reachable: Vec<(usize, PortId)> = own.iter().filter(leads).map(|p| (hops(p), *p)).collect();
        let least = reachable.iter().map(|(hops, _)| *hops).min().unwrap_or_default();
        let mut nearest: Vec<PortId> = reachable.iter().filter(|(hops, _)| *hops == least).map(|(_, p)| *p).collect();
        let rate = |port: &PortId| self.ports[*port as usize].rate;
        let fastest = nearest.iter().map(rate).max().unwrap_or_default();
        nearest.retain(|port| rate(port) == fastest);
        nearest[choose(routes::mix(hash, src), nearest.len() as u32) as usize]
    }

    /// The ports from switch `node` on to host `dst` for `hash`.
    fn onward(&self, mut node: NodeId, dst: u32, hash: u16) -> impl Iterator<Item = &Port> {
        std::iter::from_fn(move || {
            (node != dst).then(|| {
                let port = &self.ports[self.routes.port(node as usize - self.hosts, dst, hash) as usize];
                node = port.to;
                port
            })
        })
    }

    /// The ports from host `src` to host `dst` for `hash`.
    pub fn path(&self, src: u32, dst: u32, hash: u16) -> impl Iterator<Item = &Port> {
        let first = &self.ports[self.source_port(src, dst, hash) as usize];
        std::iter::once(first).chain(self.onward(first.to, dst, hash))
    }

    /// Fastest host link, of those that leave servers.
    pub fn host_rate(&self) -> Rate {
        let leaves = |p: &&Port| self.is_host(p.from) && !self.is_nvswitch(p.to);
        self.ports[..].iter().filter(leaves).map(|p| p.rate).max().unwrap_or_default()
    }

    /// True for the switch inside a server of several GPUs.
    pub fn is_nvswitch(&self, node: NodeId) -> bool {
        self.group(node) == "nvswitch"
    }

    /// True for a NIC that chooses among its ports.
    pub fn is_nic(&self, node: NodeId) -> bool {
        self.group(node) == "nic"
    }

    /// All link rates, ascending.
    pub fn link_rates(&self) -> Vec<Rate> {
        self.ports.iter().map(|p| p.rate).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// Longest link delay in picoseconds.
    pub fn max_delay(&self) -> Ps {
        self.ports.iter().map(|p| p.delay).max().unwrap_or_default()
    }

    /// Base RTT between two hosts as the HPCC simulator has it: propagation both ways
    /// and `payload` bytes (there 1000) at every hop one way, in picoseconds.
    pub fn base_rtt(&self, src: u32, dst: u32, payload: u64) -> Ps {
        self.path(src, dst, 0).map(|p| 2 * p.delay + p.rate.time_for(payload)).sum()
    }

    /// Smallest link rate between two hosts.
    pub fn bottleneck(&self, src: u32, dst: u32) -> Rate {
        self.path(src, dst, 0).map(|p| p.rate).min().expect("two hosts have a path")
    }

    /// Pairs of hosts, one of each kind: hosts on the same switch, over links of
    /// the same rate and delay, do not differ. In a network of many kinds, neither do switches with the same
    /// neighbours over links of the same rates and delays.
    fn pairs(&self) -> impl Iterator<Item = (u32, u32)> {
        let mut seen: HashMap<Vec<(NodeId, Rate, Ps)>, u32> = HashMap::new();
        let hosts: Vec<u32> = (0..self.hosts as u32)
            .filter(|&host| {
                let ports = self.ports_of[host as usize].iter().map(|&port| &self.ports[port as usize]);
                let count = seen.entry(ports.map(|p| (p.to, p.rate, p.delay)).collect()).or_default();
                *count += 1;
                *count <= 2
            })
            .collect();
        let hosts = if hosts.len() > MANY_KINDS { self.of_twins(&hosts) } else { hosts };
        let others = hosts.clone();
        hosts.into_iter().flat_map(move |a| others.clone().into_iter().map(move |b| (a, b))).filter(|(a, b)| a != b)
    }

    /// Those of some hosts that are on the first two switches of each kind, by their links.
    fn of_twins(&self, hosts: &[u32]) -> Vec<u32> {
        let mut kinds: HashMap<Vec<(NodeId, Rate, Ps)>, BTreeSet<NodeId>> = HashMap::new();
        let near = |node: NodeId| {
            let ports = self.ports_of[node as usize].iter().map(|&port| &self.ports[port as usize]);
            let mut near: Vec<_> = ports.filter(|p| !self.is_host(p.to)).map(|p| (p.to, p.rate, p.delay)).collect();
            near.sort_unstable();
            near
        };
        let first_two = |host: &u32| {
            let home = self.neighbours(*host).next().expect("a host has a link");
            let known = kinds.entry(near(home)).or_default();
            if known.len() < 2 {
                known.insert(home);
            }
            known.contains(&home)
        };
        hosts.iter().copied().filter(first_two).collect()
    }

    /// Longest base RTT and largest bandwidth-delay product (bytes) of any pair.
    pub fn max_base_rtt_and_bdp(&self, payload: u64) -> (Ps, u64) {
        self.pairs().fold((0, 0), |(rtt, bdp), (a, b)| {
            let pair_rtt = self.base_rtt(a, b, payload);
            let bytes = u128::from(pair_rtt) * u128::from(self.bottleneck(a, b).0) / 8 / 1_000_000_000_000;
            (rtt.max(pair_rtt), bdp.max(bytes as u64))
        })
    }

    /// Longest one-way delay of a packet of `size` bytes between any two hosts of an
    /// empty network.
    pub fn max_base_owd(&self, size: u64) -> Ps {
        self.base_owds(size).map(|(_, owd)| owd).max().unwrap_or_default()
    }

    /// Links, and one-way delay of a packet of `size` bytes, between two hosts of each kind of pair, in an empty network.
    pub fn base_owds(&self, size: u64) -> impl Iterator<Item = (u32, Ps)> {
        let passes = move |(links, owd), p: &Port| (links + 1, owd + p.delay + p.rate.time_for(size));
        self.pairs().map(move |(a, b)| self.path(a, b, 0).fold((0, 0), passes))
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
    /// It is no host's.
    pub fn host_named(&self, name: &str) -> Result<u32, TopologyError> {
        let hosts = &self.names[..self.hosts];
        let found = hosts.iter().position(|n| n == name);
        found.map(|i| i as u32).ok_or_else(|| TopologyError::NoHost {
            name: name.into(),
            meant: near(name, hosts),
            first: hosts[0].clone(),
            last: hosts[self.hosts - 1].clone(),
        })
    }

    /// The hosts of these names, in order; a name without its number stands for all hosts that have it.
    ///
    /// # Errors
    /// Places in the list, and what is wrong there.
    pub fn hosts_named(&self, names: &[String]) -> Result<Vec<u32>, Vec<(usize, TopologyError)>> {
        let (mut found, mut seen, mut wrong) = (Vec::new(), BTreeSet::new(), Vec::new());
        for (i, name) in names.iter().enumerate() {
            let mut hosts: Vec<u32> = (0..self.hosts as u32).filter(|&host| self.group(host) == name).collect();
            if hosts.is_empty() {
                match self.host_named(name) {
                    Ok(host) => hosts.push(host),
                    Err(error) => wrong.push((i, error)),
                }
            }
            if let Some(&again) = hosts.iter().find(|&&host| !seen.insert(host)) {
                wrong.push((i, TopologyError::NamedTwice { name: self.name(again).into() }));
            }
            found.extend(hosts);
        }
        if wrong.is_empty() { Ok(found) } else { Err(wrong) }
    }

    /// The hosts that a list under `key` names, in order.
    ///
    /// # Errors
    /// Mistakes by key and place in the list.
    pub fn hosts_under(&self, key: &str, names: &[String]) -> Result<Vec<u32>, Vec<Mistake>> {
        let at = |(i, error): (usize, TopologyError)| Mistake::new(format!("{key}[{i}]"), error.to_string());
        self.hosts_named(names).map_err(|wrong| wrong.into_iter().map(at).collect())
    }

    /// The name of a node without its number.
    pub fn group(&self, node: NodeId) -> &str {
        stem(self.name(node))
    }

    /// Names of all nodes: the first and the last of each group, of the first few.
    fn ranges(&self) -> String {
        const SHOWN: usize = 5;
        let nodes: Vec<NodeId> = (0..self.names.len() as NodeId).collect();
        let groups: Vec<_> = nodes.chunk_by(|&a, &b| self.group(a) == self.group(b)).collect();
        let range = |group: &&[NodeId]| match **group {
            [first, .., last] => format!("{} to {}", self.name(first), self.name(last)),
            _ => self.name(group[0]).into(),
        };
        let more = if groups.len() > SHOWN { ", …" } else { "" };
        groups.iter().take(SHOWN).map(range).collect::<Vec<_>>().join(", ") + more
    }

    /// Ports of a switch by its name.
    ///
    /// # Errors
    /// There is no such switch.
    pub fn ports_of_switch(&self, name: &str) -> Result<&[PortId], TopologyError> {
        let node = self.names.iter().skip(self.hosts).position(|n| n == name);
        let known = || TopologyError::NoSwitch { name: name.into(), known: self.ranges() };
        Ok(&self.ports_of[self.hosts + node.ok_or_else(known)?])
    }

    /// The port called "from->to".
    ///
    /// # Errors
    /// It is no link's.
    pub fn port_named(&self, name: &str) -> Result<PortId, TopologyError> {
        let node = |name: &str| self.names.iter().position(|n| n == name);
        let Some((from, to)) = name.split_once("->") else {
            return Err(TopologyError::NoLinkName { name: name.into(), example: self.port_name(1) });
        };
        let unknown = |end: &str| TopologyError::NoNode {
            name: name.into(),
            end: end.into(),
            // Of one that has only another number the range says more.
            meant: near(end, &self.names).filter(|meant| stem(meant) != stem(end)),
            known: self.ranges(),
        };
        let a = node(from).ok_or_else(|| unknown(from))?;
        let b = node(to).ok_or_else(|| unknown(to))?;
        let found = self.ports_of[a].iter().find(|&&p| self.ports[p as usize].to as usize == b);
        found.copied().ok_or_else(|| {
            const SHOWN: usize = 4;
            let neighbours = self.ports_of[a].iter().map(|&p| self.name(self.ports[p as usize].to));
            let more = if self.ports_of[a].len() > SHOWN { ", …" } else { "" };
            let neighbours = neighbours.take(SHOWN).collect::<Vec<_>>().join(", ") + more;
            TopologyError::NotNeighbours { name: name.into(), from: from.into(), neighbours }
        })
    }
}

/// A node's name without its number.
fn stem(name: &str) -> &str {
    name.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// The name that is nearly `text`.
fn near(text: &str, names: &[String]) -> Option<String> {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    onramp_config::nearest(text, &names).map(Into::into)
}

#[cfg(test)]
mod tests;
