//! A scenario before its run: its network, its paths, and the traffic that it offers to each link.
//!
//! Nothing is simulated. Programs play in an ideal network ([`ideal`]), and flows are spread evenly over equally short
//! paths, whatever `switch.paths` says.

use super::linux::MTU_HEADERS;
use super::{Scenario, Traffic};
use crate::cc;
use crate::stack::rdma::HEADER;
use crate::stack::tcp::Tx;
use onramp_config::units::{Ps, Rate};
use onramp_topology::{Cells, NodeId, PortId, Topology};
use onramp_workload::{SectionError, ideal};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Flows and messages that are looked at, at most.
const MOST: u64 = 20_000_000;
/// Hosts that the traffic matrix shows one by one, at most; of more, those of a switch are one row.
const ROWS: usize = 64;
/// Paths looked at for a pair whose hosts have several NICs.
const NICS: u16 = 4;

/// Facts of a scenario.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// Hosts and switches, by the name they share without its number.
    pub nodes: Vec<(String, usize)>,
    /// Links, by rate \[bit/s\].
    pub links: Vec<(u64, usize)>,
    /// Parts of the network that threads can simulate side by side.
    pub cells: usize,
    /// Least and most links between two hosts.
    pub hops: (u32, u32),
    /// Least and most one-way delay of a full packet in the empty network \[ps\].
    pub owd_ps: (Ps, Ps),
    /// A full packet \[bytes\].
    pub packet: u64,
    /// Longest base RTT \[ps\].
    pub rtt_ps: Ps,
    /// Largest bandwidth-delay product of a pair of hosts \[bytes\].
    pub bdp: u64,
    /// Rate of the fastest host link \[bit/s\].
    pub host_rate: u64,
    /// Shared buffer of a switch \[bytes\]; `None` where each port has its own.
    pub buffer: Option<u64>,
    /// On-Ramp's T, as the scenario has it; `None` without On-Ramp.
    pub threshold: Option<String>,
    /// Time over which traffic is offered: the load's; of programs alone the least until they can be over \[ps\].
    pub span_ps: Ps,
    /// Traffic, by section.
    pub sections: Vec<Section>,
    /// Only the first flows and messages are looked at.
    pub is_cut: bool,
    /// Rows and columns of `matrix`: hosts, or switches for the hosts at them.
    pub rows: Vec<String>,
    /// Payload from row to column \[bytes\].
    pub matrix: Vec<Vec<u64>>,
    /// Directions of links that carry something, the most loaded first.
    pub loads: Vec<Load>,
    /// Packets with payload, each once for each link.
    pub packet_hops: u64,
}

/// Traffic of a section.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Section {
    /// Its kind.
    pub kind: String,
    /// Programs send messages; else flows arrive whatever happens.
    pub is_program: bool,
    /// These send a known number of bytes, however long it takes; else they go on for a time.
    pub is_job: bool,
    /// Flows, or messages.
    pub count: u64,
    /// Their payload \[bytes\].
    pub bytes: u64,
    /// Flows that send for a time, as fast as they may; not in the other numbers.
    pub endless: u64,
    /// Sending hosts.
    pub senders: usize,
    /// Receiving hosts.
    pub receivers: usize,
}

/// Bytes offered to a direction of a link.
#[derive(Clone, Debug, Serialize)]
pub struct Load {
    /// From which node to which.
    pub link: String,
    /// Kinds of the two nodes, such as "h->tor".
    pub kind: String,
    /// Its rate \[bit/s\].
    pub rate: u64,
    /// Offered, headers included \[bytes\].
    pub bytes: f64,
    /// The same as a share of what it can carry in `span_ps`.
    pub load: f64,
}

impl Scenario {
    /// Facts of a resolved scenario; nothing is simulated.
    ///
    /// # Errors
    /// As of [`Scenario::plan`].
    pub fn explain(&self, topology: &Topology, base: &Path) -> Result<Explanation, SectionError> {
        let plan = self.plan(topology, base)?;
        let load = self.load_span();
        let until = load.warmup.saturating_add(load.duration);
        let has_sources = !plan.sources.is_empty();
        // By section of programs: what they send is known.
        let mut programs: BTreeMap<u32, bool> = BTreeMap::new();
        for placed in &plan.programs {
            *programs.entry((placed.id >> 32) as u32).or_insert(true) &= placed.program.bytes().is_some();
        }
        let (payload, header) = self.packet_of(0);
        let full = payload + header;
        let delays = |src, dst, bytes: u64| {
            let wire = bytes + bytes.div_ceil(payload) * (full - payload);
            let bottleneck = topology.bottleneck(src, dst);
            let later: Ps = topology.path(src, dst, 0).map(|p| p.delay + p.rate.time_for(full.min(wire))).sum();
            [bottleneck.time_for(wire), later.saturating_sub(bottleneck.time_for(full.min(wire)))]
        };
        let found = ideal::traffic(plan, until, MOST, delays);
        let sections = self.sections(&found, &programs);
        let (rows, matrix) = matrix(topology, &found);
        let (ports, packet_hops) = self.spread(topology, &found);
        // Programs alone: no sooner than each of them could be over, and each link has carried its part.
        let carried = |(port, bytes): (&PortId, &f64)| topology.ports()[*port as usize].rate.time_for(*bytes as u64);
        let alone = found.over.filter(|_| !has_sources);
        let span_ps = alone.map_or(until, |over| ports.iter().map(carried).fold(over, Ps::max)).max(1);
        let owds: Vec<(u32, Ps)> = topology.base_owds(full).collect();
        let (rtt_ps, bdp) = topology.max_base_rtt_and_bdp(payload);
        let kind = |port: PortId| {
            let port = &topology.ports()[port as usize];
            format!("{}->{}", topology.group(port.from), topology.group(port.to))
        };
        let seconds = span_ps as f64 / 1e12;
        let load = |(port, bytes): (PortId, f64)| {
            let rate = topology.ports()[port as usize].rate.0;
            let load = bytes * 8.0 / (rate as f64 * seconds);
            Load { link: topology.port_name(port), kind: kind(port), rate, bytes, load }
        };
        let mut loads: Vec<Load> = ports.into_iter().map(load).collect();
        loads.sort_by(|a, b| b.load.total_cmp(&a.load));
        let mut nodes: Vec<(String, usize)> = Vec::new();
        for group in (0..topology.nodes() as NodeId).map(|node| topology.group(node)) {
            match nodes.iter_mut().find(|(known, _)| known == group) {
                Some((_, count)) => *count += 1,
                None => nodes.push((group.into(), 1)),
            }
        }
        let mut links: BTreeMap<Rate, usize> = BTreeMap::new();
        topology.ports().iter().for_each(|port| *links.entry(port.rate).or_default() += 1);
        let range = |pick: fn(&(u32, Ps)) -> Ps| {
            let of = || owds.iter().map(pick);
            (of().min().unwrap_or_default(), of().max().unwrap_or_default())
        };
        let hops = range(|(hops, _)| (*hops).into());
        Ok(Explanation {
            nodes,
            links: links.into_iter().map(|(rate, ports)| (rate.0, ports / 2)).collect(),
            cells: Cells::several(topology).parts.len(),
            hops: (hops.0 as u32, hops.1 as u32),
            owd_ps: range(|(_, owd)| *owd),
            packet: full,
            rtt_ps,
            bdp,
            host_rate: topology.host_rate().0,
            buffer: if self.is_tcp() { None } else { self.switch.buffer.map(|buffer| buffer.0) },
            threshold: self.onramp.enabled.then(|| self.onramp.threshold.map(|t| t.to_string())).flatten(),
            span_ps,
            sections,
            is_cut: found.is_cut,
            rows,
            matrix,
            loads,
            packet_hops,
        })
    }

    fn sections(&self, found: &ideal::Traffic, programs: &BTreeMap<u32, bool>) -> Vec<Section> {
        let of = |(number, traffic): (u32, &Traffic)| {
            let own = || found.sent.iter().filter(move |((section, ..), _)| *section == number);
            let hosts =
                |pick: fn(&(u32, u32, u32)) -> u32| own().map(|(at, _)| pick(at)).collect::<BTreeSet<_>>().len();
            Section {
                kind: traffic.source.kind().into(),
                is_program: programs.contains_key(&number),
                is_job: programs.get(&number).copied().unwrap_or_default(),
                count: own().map(|(_, sent)| sent.count).sum(),
                bytes: own().map(|(_, sent)| sent.bytes).sum(),
                endless: found.endless.get(&number).copied().unwrap_or_default(),
                senders: hosts(|(_, src, _)| *src),
                receivers: hosts(|(_, _, dst)| *dst),
            }
        };
        (0..).zip(&self.traffic).map(of).collect()
    }

    /// Payload of a full packet of a section, and what its headers take \[bytes\].
    fn packet_of(&self, section: u32) -> (u64, u64) {
        let transport: &cc::Config = self.traffic[section as usize].transport.as_ref().unwrap_or(&self.transport);
        match (&self.linux, transport.tcp()) {
            (Some(linux), Some(_)) => {
                let mss = linux.mtu.0 - MTU_HEADERS;
                (mss, u64::from(Tx::wire(mss)) - mss)
            }
            _ => (self.host.payload.0, HEADER + transport.settings().extra_header()),
        }
    }

    /// Bytes on each port, headers included, and data packets times links.
    fn spread(&self, topology: &Topology, found: &ideal::Traffic) -> (BTreeMap<PortId, f64>, u64) {
        let mut to: BTreeMap<u32, BTreeMap<u32, (f64, f64)>> = BTreeMap::new();
        for (&(section, src, dst), sent) in &found.sent {
            let (payload, header) = self.packet_of(section);
            // Each flow or message ends with a packet that is not full.
            let packets = (sent.bytes / payload + sent.count).min(sent.bytes) as f64;
            let all = to.entry(dst).or_default().entry(src).or_default();
            *all = (all.0 + sent.bytes as f64 + packets * header as f64, all.1 + packets);
        }
        let (mut ports, mut hops): (BTreeMap<PortId, f64>, f64) = (BTreeMap::new(), 0.0);
        for (dst, from) in to {
            // By links that are left, the farthest first.
            let mut at: BTreeMap<(Reverse<usize>, NodeId), (f64, f64)> = BTreeMap::new();
            let left = |node: NodeId| {
                let mut node = node;
                let mut links = 0;
                while node != dst {
                    let next = topology.next_ports(node, dst).next().expect("there is a way");
                    (node, links) = (topology.ports()[next as usize].to, links + 1);
                }
                links
            };
            let mut pass = |at: &mut BTreeMap<_, (f64, f64)>, next: &[PortId], (bytes, packets): (f64, f64)| {
                let share = 1.0 / next.len() as f64;
                for &port in next {
                    *ports.entry(port).or_default() += bytes * share;
                    hops += packets * share;
                    let node = topology.ports()[port as usize].to;
                    if node != dst {
                        let all = at.entry((Reverse(left(node)), node)).or_default();
                        *all = (all.0 + bytes * share, all.1 + packets * share);
                    }
                }
            };
            for (src, amount) in from {
                let nics: Vec<PortId> = match topology.ports_of(src) {
                    [only] => vec![*only],
                    _ => (0..NICS).map(|hash| topology.source_port(src, dst, hash * 9973)).collect(),
                };
                pass(&mut at, &nics, amount);
            }
            while let Some(((_, node), amount)) = at.pop_first() {
                let next: Vec<PortId> = topology.next_ports(node, dst).collect();
                pass(&mut at, &next, amount);
            }
        }
        (ports, hops.round() as u64)
    }
}

/// Payload between hosts, or between the hosts at each switch.
fn matrix(topology: &Topology, found: &ideal::Traffic) -> (Vec<String>, Vec<Vec<u64>>) {
    let hosts = 0..topology.hosts() as u32;
    let home = |host: u32| {
        let ports = topology.ports_of(host).iter().map(|port| topology.ports()[*port as usize].to);
        ports.min().unwrap_or(host)
    };
    let row_of: Vec<NodeId> = if hosts.len() <= ROWS { hosts.collect() } else { hosts.map(home).collect() };
    let known: BTreeSet<NodeId> = row_of.iter().copied().collect();
    let number: BTreeMap<NodeId, usize> = known.iter().copied().zip(0..).collect();
    let mut matrix = vec![vec![0; known.len()]; known.len()];
    for ((_, src, dst), sent) in &found.sent {
        let [from, to] = [src, dst].map(|host| number[&row_of[*host as usize]]);
        matrix[from][to] += sent.bytes;
    }
    (known.into_iter().map(|node| topology.name(node).to_string()).collect(), matrix)
}
