//! How a network is cut into cells that run side by side.
//!
//! Without the switches farthest from the hosts, a fat tree falls apart into its
//! pods and a leaf–spine network into its racks: these are the cells, and the top
//! switches some more. Servers with GPUs fall apart without all switches between them.
//! All else is one cell.

use super::{NodeId, PortId, Topology};
use onramp_config::units::Ps;
use std::collections::VecDeque;

/// Nodes and ports of one cell.
#[derive(Clone, Debug, Default)]
pub struct Members {
    /// Switches in ascending order.
    pub switches: Vec<NodeId>,
    /// Hosts in ascending order.
    pub hosts: Vec<NodeId>,
    /// Ports in order of their nodes and numbers; the order of any two is that in the
    /// whole network, since simultaneous packets are ordered by their ports.
    pub ports: Vec<PortId>,
}

/// A network cut into cells.
#[derive(Clone, Debug)]
pub struct Cells {
    /// The cells.
    pub parts: Vec<Members>,
    /// Cell of each node.
    of_node: Vec<u16>,
    /// Place of each node among the switches or hosts of its cell.
    place_of_node: Vec<u32>,
    /// Place of each port in its cell.
    place_of_port: Vec<u32>,
    /// Place of each host's first port among the NICs of its cell.
    first_nic: Vec<u32>,
    /// Nothing crosses between cells in less than this.
    pub window: Ps,
    /// The first cells have all hosts, the others none, and all links between cells are
    /// between the two kinds: how many have hosts. `None` in other networks.
    pub with_hosts: Option<usize>,
}

impl Cells {
    /// The whole network as one cell.
    pub fn one(topology: &Topology) -> Self {
        Self::new(topology, vec![0; topology.nodes()])
    }

    /// The network in as many cells as it falls into.
    pub fn several(topology: &Topology) -> Self {
        Self::new(topology, pieces(topology))
    }

    fn new(topology: &Topology, mut of_node: Vec<u16>) -> Self {
        // Links without delay join their ends.
        for port in topology.ports().iter().filter(|p| p.delay == 0) {
            let (keep, drop) = (of_node[port.from as usize], of_node[port.to as usize]);
            of_node.iter_mut().filter(|c| **c == drop).for_each(|c| *c = keep);
        }
        let mut used: Vec<u16> = of_node.clone();
        used.sort_unstable();
        used.dedup();
        for cell in &mut of_node {
            *cell = used.partition_point(|c| c < cell) as u16;
        }
        let mut parts = vec![Members::default(); used.len()];
        let mut place_of_node = vec![0; topology.nodes()];
        let mut place_of_port = vec![0; topology.ports().len()];
        let mut first_nic = vec![0; topology.hosts()];
        let mut nics = vec![0; parts.len()];
        for node in 0..topology.nodes() as NodeId {
            let cell = usize::from(of_node[node as usize]);
            let part = &mut parts[cell];
            let list = if topology.is_host(node) { &mut part.hosts } else { &mut part.switches };
            place_of_node[node as usize] = list.len() as u32;
            list.push(node);
            if topology.is_host(node) {
                first_nic[node as usize] = nics[cell];
                nics[cell] += topology.ports_of(node).len() as u32;
            }
            for &port in topology.ports_of(node) {
                place_of_port[port as usize] = part.ports.len() as u32;
                part.ports.push(port);
            }
        }
        let crossing = topology.ports().iter().filter(|p| of_node[p.from as usize] != of_node[p.to as usize]);
        let window = crossing.clone().map(|p| p.delay).min().unwrap_or(Ps::MAX);
        let first = parts.partition_point(|part: &Members| !part.hosts.is_empty());
        let above = |node: NodeId| usize::from(of_node[node as usize]) >= first;
        let two_kinds = parts[first..].iter().all(|part| part.hosts.is_empty())
            && crossing.clone().all(|p| above(p.from) != above(p.to));
        let with_hosts = two_kinds.then_some(first);
        Self { parts, of_node, place_of_node, place_of_port, first_nic, window, with_hosts }
    }

    /// The cell of a node.
    #[inline]
    pub fn of(&self, node: NodeId) -> usize {
        usize::from(self.of_node[node as usize])
    }

    /// Cell of a port, and its place there.
    #[inline]
    pub fn place_in(&self, topology: &Topology, port: PortId) -> (usize, u32) {
        (self.of(topology.ports()[port as usize].from), self.place(port))
    }

    /// Place of a port in its cell.
    #[inline]
    pub fn place(&self, port: PortId) -> u32 {
        self.place_of_port[port as usize]
    }

    /// The NIC that `host` sends by to `to`, as its cell counts them.
    #[inline]
    pub fn nic_towards(&self, topology: &Topology, host: NodeId, to: NodeId, hash: u16) -> u32 {
        self.nic(topology, topology.source_port(host, to, hash))
    }

    /// The NIC of a host's port, as its cell counts them.
    #[inline]
    pub fn nic(&self, topology: &Topology, port: PortId) -> u32 {
        let host = topology.ports()[port as usize].from;
        let own = topology.ports_of(host).iter().position(|p| *p == port).unwrap_or_default();
        self.first_nic[host as usize] + own as u32
    }

    /// The switch that a port belongs to, or the NIC, as its cell counts them.
    pub fn owner(&self, topology: &Topology, port: PortId) -> u32 {
        let node = topology.ports()[port as usize].from;
        if topology.is_host(node) { self.nic(topology, port) } else { self.place_of_node[node as usize] }
    }
}

/// Hosts of a cell of servers: with fewer, cells have more to tell each other than to do.
const HOSTS: usize = 64;

/// A number for each node: equal ones belong together.
fn pieces(topology: &Topology) -> Vec<u16> {
    let tier = tiers(topology);
    let top = tier.iter().copied().max().unwrap_or_default();
    // Hosts with nothing but top switches above them would each be a cell.
    if top < 2 {
        return vec![0; topology.nodes()];
    }
    let above: Vec<bool> = tier.iter().map(|tier| *tier == top).collect();
    let between = || {
        let to_switch = |port: &PortId| !topology.is_host(topology.ports()[*port as usize].to);
        let between = |node: NodeId| !topology.is_host(node) && topology.ports_of(node).iter().any(to_switch);
        (0..topology.nodes() as NodeId).map(between).collect()
    };
    // GPUs of a server are together without the network between servers, whose leaves join all of them.
    let cut = without(topology, above, 1).or_else(|| without(topology, between(), HOSTS));
    cut.unwrap_or_else(|| vec![0; topology.nodes()])
}

/// The pieces that are left without some nodes, joined to about `least` hosts each, and then these nodes, in groups as
/// large as a piece; `None` if it does not fall apart.
fn without(topology: &Topology, away: Vec<bool>, least: usize) -> Option<Vec<u16>> {
    let nodes = topology.nodes();
    let mut of_node = vec![u16::MAX; nodes];
    let mut pieces = 0;
    for start in 0..nodes {
        if away[start] || of_node[start] != u16::MAX {
            continue;
        }
        of_node[start] = pieces;
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for &port in topology.ports_of(node as NodeId) {
                let to = topology.ports()[port as usize].to as usize;
                if !away[to] && of_node[to] == u16::MAX {
                    of_node[to] = pieces;
                    queue.push_back(to);
                }
            }
        }
        pieces += 1;
        if pieces == u16::MAX - 1 {
            return None;
        }
    }
    // Hosts by themselves would have nothing but borders.
    if least > 1 && usize::from(pieces) >= topology.hosts() {
        return None;
    }
    let joined = (usize::from(pieces) * least / topology.hosts().max(1)).max(1) as u16;
    of_node.iter_mut().filter(|piece| **piece < pieces).for_each(|piece| *piece /= joined);
    pieces = pieces.div_ceil(joined);
    if pieces < 2 {
        return None;
    }
    let ports = |node: usize| topology.ports_of(node as NodeId).len();
    let (mut below, mut above) = (0, 0);
    for (node, away) in away.iter().enumerate() {
        *if *away { &mut above } else { &mut below } += ports(node);
    }
    let groups = (above * usize::from(pieces)).div_ceil(below.max(1)).max(1);
    let tops: Vec<usize> = (0..nodes).filter(|node| away[*node]).collect();
    for (i, &node) in tops.iter().enumerate() {
        of_node[node] = pieces + (i * groups / tops.len()) as u16;
    }
    Some(of_node)
}

/// Hops from the nearest host; 0 for hosts.
fn tiers(topology: &Topology) -> Vec<u32> {
    let mut tier = vec![u32::MAX; topology.nodes()];
    let mut queue: VecDeque<usize> = (0..topology.hosts()).collect();
    tier[..topology.hosts()].fill(0);
    while let Some(node) = queue.pop_front() {
        for &port in topology.ports_of(node as NodeId) {
            let to = topology.ports()[port as usize].to as usize;
            if tier[to] == u32::MAX {
                tier[to] = tier[node] + 1;
                queue.push_back(to);
            }
        }
    }
    // A switch whose links have all failed is above nothing.
    tier.iter_mut().filter(|tier| **tier == u32::MAX).for_each(|tier| *tier = 1);
    tier
}
