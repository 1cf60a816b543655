//! Ways of the packets of traced flows through the network, link by link.

use super::run::Engine;
use crate::network::feedback::Feedback;
use crate::network::hops::{Fate, Hop};
use crate::network::packet::{CREDIT, MARKED, NO_PACKET, TCP, TRIMMED};
use crate::network::{Kind, Packet};
use onramp_config::units::{NS, Ps};
use onramp_topology::PortId;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Links that all ways have together, at most: some megabytes as a page.
const MOST: usize = 100_000;

/// A traced flow while the run goes.
#[derive(Clone, Debug)]
pub(super) struct Followed {
    pub id: u64,
    pub src: u32,
    pub dst: u32,
    pub bytes: Option<u64>,
    /// Arrival and end, in the engine's time.
    pub start: Ps,
    pub end: Option<Ps>,
    /// Slots of its sender and its receiver; TCP's flows share a connection's.
    pub slots: Option<(u32, u32)>,
}

/// Ways of packets; times in nanoseconds from time 0.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Ways {
    /// Ports that they left by: both ends, and the rate \[bit/s\] and delay \[ns\] of the link.
    pub ports: Vec<(String, String, u64, f64)>,
    /// Flows that have begun: number, sending and receiving host.
    pub flows: Vec<(u64, String, String)>,
    /// In the order of leaving.
    pub packets: Vec<Way>,
    /// Packets for which there was no room.
    pub left_out: u64,
}

/// A packet's way.
#[derive(Clone, Debug, Serialize)]
pub struct Way {
    /// Index into [`Ways::flows`].
    pub flow: usize,
    /// "data", "ack", "nack", "or-ack", "credit", "credit-request".
    pub kind: &'static str,
    /// Data: its number in the flow (RDMA), or its first byte (TCP). Else the number or byte that is expected next.
    pub number: u32,
    /// Bytes on the wire.
    pub size: u16,
    /// Data that was sent before.
    pub again: bool,
    /// Time for which On-Ramp's gate was closed since the packet of the flow before \[ns\].
    pub held: u32,
    /// Links in order: index into [`Ways::ports`], when it began to leave there, and when it was at the other end.
    pub links: Vec<(usize, u64, u64)>,
    /// Index of the link before which it was marked (ECN).
    pub marked: Option<usize>,
    /// Port that had no room for it, or whose link has lost it, and when.
    pub dropped: Option<(usize, u64)>,
}

/// A packet under way: flow, kind, number, time stamp.
type Key = (usize, u8, u32, u32);

impl<F: Feedback> Engine<F> {
    /// The packets so far of flows that are traced and have begun.
    pub(super) fn ways(&self) -> Ways {
        let topology = &self.desk.topology;
        let followed = &self.desk.followed;
        let name = |host| topology.name(host).to_string();
        let mut ways = Ways {
            flows: followed.iter().map(|flow| (flow.id, name(flow.src), name(flow.dst))).collect(),
            ..Ways::default()
        };
        let owners = self.owners();
        let mut packets: BTreeMap<Key, Vec<(usize, Hop)>> = BTreeMap::new();
        for (cell, hops) in self.cells.iter().enumerate().filter_map(|(n, cell)| Some((n, cell.network.hops()?))) {
            ways.left_out += hops.left_out;
            for hop in &hops.seen {
                let packet = &hop.packet;
                let data = packet.kind() == Kind::DATA;
                let among = owners.get(&(packet.dst(), packet.flow, data)).map_or(&[][..], Vec::as_slice);
                let own = |(flow, first): &&(usize, u64)| is_of(&followed[*flow], *first, hop);
                let Some((flow, first)) = among.iter().find(own) else { continue };
                let number = packet.seq.wrapping_sub(*first as u32);
                let key = (*flow, kind(packet).1, number, packet.sent_ns);
                packets.entry(key).or_default().push((cell, *hop));
            }
        }
        let mut ports: HashMap<PortId, usize> = HashMap::new();
        let mut all = Vec::new();
        for ((flow, _, number, _), mut hops) in packets {
            hops.sort_by_key(|(_, hop)| hop.at);
            while !hops.is_empty() {
                let (way, paused) = self.way(&mut hops, flow, number, &mut |port| {
                    *ports.entry(port).or_insert_with(|| {
                        let link = &topology.ports()[port as usize];
                        let delay = link.delay as f64 / NS as f64;
                        ways.ports.push((name(link.from), name(link.to), link.rate.0, delay));
                        ways.ports.len() - 1
                    })
                });
                all.push((way, paused));
            }
        }
        let begin = |way: &Way| way.links.first().map_or(way.dropped.map_or(0, |(_, at)| at), |(_, leaves, _)| *leaves);
        all.sort_by_key(|(way, _)| (begin(way), way.flow, way.kind, way.number));
        // From a flow's packets in order: those sent again, and what the gate has added since the one before.
        let mut before: Vec<(Option<u32>, u32)> =
            self.paused_before().into_iter().map(|paused| (None, paused)).collect();
        let mut links = 0;
        for (mut way, paused) in all {
            if way.kind == "data" {
                let (highest, total) = &mut before[way.flow];
                way.again = highest.is_some_and(|highest| way.number <= highest);
                way.held = paused.wrapping_sub(std::mem::replace(total, paused));
                *highest = Some(highest.unwrap_or(0).max(way.number));
            }
            links += way.links.len();
            if links > MOST {
                ways.left_out += 1;
            } else {
                ways.packets.push(way);
            }
        }
        ways
    }

    /// Takes the first packet's way out of `hops`, which are in order of time; also what its stamp says of pauses.
    fn way(
        &self,
        hops: &mut Vec<(usize, Hop)>,
        flow: usize,
        number: u32,
        index: &mut impl FnMut(PortId) -> usize,
    ) -> (Way, u32) {
        let topology = &self.desk.topology;
        let ns = |at: Ps| at.saturating_sub(self.desk.origin) / NS;
        let packet = hops[0].1.packet;
        let mut way = Way {
            flow,
            kind: kind(&packet).0,
            number,
            size: packet.size,
            again: false,
            held: 0,
            links: Vec::new(),
            marked: None,
            dropped: None,
        };
        let (mut node, look) = (None, self.look());
        hops.retain(|(cell, hop)| {
            let own = self.desk.map.parts[*cell].ports[hop.port as usize];
            // Of one that came, the port at the other end of the link.
            let left_by = if hop.fate == Fate::Dropped { own } else { topology.ports()[own as usize].reverse };
            let link = &topology.ports()[left_by as usize];
            if way.dropped.is_some() || node.is_some_and(|node| node != link.from) {
                return true;
            }
            if hop.fate != Fate::Came {
                way.dropped = Some((index(left_by), ns(hop.at)));
                return false;
            }
            let (network, place) = look.port(left_by);
            let took = network.ports[place as usize].time_for(packet.size) + link.delay;
            way.links.push((index(left_by), ns(hop.at - took), ns(hop.at)));
            if way.kind == "data" && hop.packet.flags() & MARKED != 0 {
                way.marked = way.marked.or(Some(way.links.len() - 1));
            }
            node = Some(link.to);
            false
        });
        (way, packet.paused)
    }

    /// Flows by what their packets carry: host, slot, and true for data; with each its first byte on a connection.
    fn owners(&self) -> HashMap<(u32, u32, bool), Vec<(usize, u64)>> {
        let mut owners: HashMap<_, Vec<_>> = HashMap::new();
        for (n, flow) in self.desk.followed.iter().enumerate() {
            let found = flow.slots.map(|(sender, receiver)| (sender, receiver, 0)).or_else(|| {
                let hosts = &self.cells[self.desk.map.of(flow.src)].hosts;
                let start = hosts.tap()?.start(flow.id)?;
                Some((start.slot | TCP, hosts.connection_peer(start.slot) | TCP, start.first))
            });
            let Some((sender, receiver, first)) = found else { continue };
            owners.entry((flow.dst, receiver, true)).or_default().push((n, first));
            owners.entry((flow.src, sender, false)).or_default().push((n, first));
        }
        owners
    }

    /// Pauses that each flow's stamps had counted before it \[ns\], low 32 bits: those of its connection.
    fn paused_before(&self) -> Vec<u32> {
        let paused = |flow: &Followed| {
            let start = self.cells[self.desk.map.of(flow.src)].hosts.tap()?.start(flow.id)?;
            Some((start.paused / NS) as u32)
        };
        self.desk.followed.iter().map(|flow| paused(flow).unwrap_or_default()).collect()
    }
}

fn kind<H>(packet: &Packet<H>) -> (&'static str, u8) {
    match packet.kind() {
        Kind::DATA if packet.flags() & TRIMMED != 0 && packet.seq == NO_PACKET => ("credit-request", 5),
        Kind::DATA => ("data", 0),
        Kind::ACK => ("ack", 1),
        Kind::OR_ACK if packet.flags() & CREDIT != 0 => ("credit", 4),
        Kind::OR_ACK => ("or-ack", 2),
        _ => ("nack", 3),
    }
}

/// True if a packet at its host and slot is of this flow: others have had the slot before, or will.
fn is_of(flow: &Followed, first: u64, hop: &Hop) -> bool {
    if hop.at < flow.start || flow.end.is_some_and(|end| hop.at > end) {
        return false;
    }
    let number = u64::from(hop.packet.seq.wrapping_sub(first as u32));
    let bytes = flow.bytes.unwrap_or(u64::MAX);
    flow.slots.is_some() || if hop.packet.kind() == Kind::DATA { number < bytes } else { number <= bytes }
}
