//! The packets of single flows: their hosts are listened to, and what is theirs is kept.

use super::cluster::Cluster;
use super::connections::Connection;
use super::edges::Edge;
use super::{Result, at};
use crate::plan::address;
use crate::sys::Passed;
use onramp_sim::measure::trace::frame::{Found, Key, SYN, finish, renumber};
use onramp_sim::measure::trace::pcap::{self, SNAP};
use onramp_sim::measure::trace::{At, Capture, Span, most_packets, unwrap};
use onramp_topology::Topology;
use onramp_workload::arrivals::Arrival;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;

/// A packet that was kept.
#[derive(Clone, Copy, Debug)]
struct Kept {
    at_ns: u64,
    length: u32,
    size: u8,
    bytes: [u8; SNAP],
}

/// A flow's packets at one of its hosts, and how far its bytes have come.
#[derive(Debug, Default)]
struct Log {
    kept: Vec<Kept>,
    left_out: u64,
    data: u64,
    acked: u64,
}

/// A flow that has begun.
#[derive(Debug)]
struct Flow {
    id: u64,
    key: Key,
    /// Times are the kernel's, in nanoseconds.
    span: Span,
    logs: [Log; 2],
}

/// How a connection was opened, as its ends saw it.
#[derive(Debug, Default)]
struct Opening {
    /// The first numbers of both ends.
    numbers: [Option<u32>; 2],
    seen: [Vec<Kept>; 2],
}

/// See the module.
#[derive(Debug)]
pub struct Tracer {
    traced: BTreeSet<u64>,
    most: usize,
    edges: Vec<Edge>,
    /// Of all connections between the hosts of a flow that is traced.
    openings: BTreeMap<Key, Opening>,
    pairs: BTreeSet<(Ipv4Addr, Ipv4Addr)>,
    flows: Vec<Flow>,
}

impl Tracer {
    /// Listens for some of the `arrivals`, by their numbers; nothing, if there are none.
    pub fn new(traced: &[u64], arrivals: &[Arrival], cluster: &Cluster, topology: &Topology) -> Result<Option<Self>> {
        if traced.is_empty() {
            return Ok(None);
        }
        let wanted = traced.iter().filter_map(|&id| arrivals.get(id as usize)).map(|arrival| arrival.flow);
        let hosts: BTreeSet<u32> = wanted.clone().flat_map(|flow| [flow.src, flow.dst]).collect();
        let edges: std::io::Result<_> = hosts.into_iter().map(|host| Edge::listen(host, cluster, topology)).collect();
        Ok(Some(Self {
            traced: traced.iter().copied().collect(),
            most: most_packets(traced.len()),
            edges: edges.map_err(at("capture"))?,
            openings: BTreeMap::new(),
            pairs: wanted.map(|flow| (address(flow.src), address(flow.dst))).collect(),
            flows: Vec::new(),
        }))
    }

    /// A flow begins on a connection, at a time of the kernel's clock.
    pub fn starts(&mut self, id: u64, connection: &Connection, begin_ns: u64) {
        let Connection { src, dst, port, written, .. } = *connection;
        let key = Key { src: address(src), dst: address(dst), port };
        for flow in self.flows.iter_mut().filter(|flow| flow.key == key && flow.span.next.is_none()) {
            flow.span.next = Some((begin_ns, written));
        }
        if self.traced.contains(&id) {
            let span = Span { begin: begin_ns, first: written, next: None };
            let log = || Log { data: written, acked: written, ..Log::default() };
            self.flows.push(Flow { id, key, span, logs: [log(), log()] });
        }
    }

    /// Looks at what has passed; true if something of it is a flow's.
    pub fn look(&mut self) -> bool {
        let Self { most, edges, openings, pairs, flows, .. } = self;
        let mut any = false;
        for edge in edges {
            let address = edge.address;
            edge.take(|at_ns, passed, key, found| {
                if !pairs.contains(&(key.src, key.dst)) {
                    return;
                }
                let at = if address == key.src { At::Sender } else { At::Receiver };
                let kept = keep(at_ns, passed);
                let opening = openings.entry(key).or_default();
                opening.see(at, found, &kept);
                for flow in flows.iter_mut().filter(|flow| flow.key == key) {
                    any |= flow.see(*most, at, found, &kept, opening.numbers);
                }
            });
        }
        any
    }

    /// The captures of the flows that have begun; times count from `zero_ns` of the kernel's clock.
    pub fn finish(mut self, zero_ns: u64) -> Result<Vec<Capture>> {
        self.look();
        let mut lost = BTreeMap::new();
        for edge in &self.edges {
            lost.insert(edge.address, u64::from(edge.lost().map_err(at("capture"))?));
        }
        let mut captures = Vec::new();
        for flow in self.flows {
            let opening = self.openings.remove(&flow.key).unwrap_or_default();
            for (at, log) in [At::Sender, At::Receiver].into_iter().zip(flow.logs) {
                let host = if at == At::Sender { flow.key.src } else { flow.key.dst };
                let left_out = log.left_out + lost[&host];
                let mut all = opening.moved(at, &flow.span);
                all.extend(log.kept);
                // What left had its time put back.
                all.sort_by_key(|kept| kept.at_ns);
                let mut file = pcap::File::default();
                for kept in &mut all {
                    let bytes = &mut kept.bytes[..usize::from(kept.size)];
                    let size = finish(bytes, kept.length);
                    file.add(kept.at_ns.saturating_sub(zero_ns), kept.length, &bytes[..size]);
                }
                captures.push(Capture { flow: flow.id, at, pcap: file.into_bytes(), left_out });
            }
            self.openings.insert(flow.key, opening);
        }
        captures.sort_by_key(|capture| (capture.flow, capture.at));
        Ok(captures)
    }
}

fn keep(at_ns: u64, passed: &Passed<'_>) -> Kept {
    let size = passed.bytes.len().min(SNAP);
    let mut bytes = [0; SNAP];
    bytes[..size].copy_from_slice(&passed.bytes[..size]);
    Kept { at_ns, length: passed.length, size: size as u8, bytes }
}

/// Frames of an opening: SYN, its answer, and the acknowledgement of that.
const OPENING: usize = 3;

impl Opening {
    fn see(&mut self, at: At, found: Found, kept: &Kept) {
        let (end, number, flags, empty) = match found {
            Found::Data(seq, payload, flags) => (0, seq, flags, payload == 0),
            Found::Ack(_, seq, flags) => (1, seq, flags, true),
            Found::OrAck(_) => return,
        };
        if flags & SYN != 0 {
            self.numbers[end] = Some(number);
        }
        let seen = &mut self.seen[at as usize];
        let last = end == 0 && empty && seen.len() == OPENING - 1;
        if seen.len() < OPENING && (flags & SYN != 0 || last) {
            seen.push(*kept);
        }
    }

    /// The opening, where it was before the flow: moved to its beginning and to its first byte.
    fn moved(&self, at: At, span: &Span) -> Vec<Kept> {
        let [Some(own), Some(other)] = self.numbers else { return vec![] };
        let mut seen = self.seen[at as usize].clone();
        if seen.first().is_some_and(|first| first.at_ns >= span.begin) {
            return seen;
        }
        let before = own.wrapping_add(span.first as u32);
        let first = before.wrapping_add(1);
        let numbers = [(before, 0), (other, first), (first, other.wrapping_add(1))];
        for (kept, (seq, ack)) in seen.iter_mut().zip(numbers) {
            kept.at_ns = span.begin;
            renumber(&mut kept.bytes, seq, ack);
        }
        seen
    }
}

impl Flow {
    fn see(&mut self, most: usize, at: At, found: Found, kept: &Kept, numbers: [Option<u32>; 2]) -> bool {
        let Some(opened) = numbers[0] else { return false };
        let byte = |near: u64, number: u32| unwrap(near, number.wrapping_sub(opened).wrapping_sub(1));
        let log = &mut self.logs[at as usize];
        let own = match found {
            Found::Data(_, _, flags) | Found::Ack(_, _, flags) if flags & SYN != 0 => false,
            // An acknowledgement of nothing that the sender has got: the opening's end.
            Found::Data(_, 0, _) => false,
            Found::Data(seq, ..) | Found::OrAck(seq) => {
                let start = byte(log.data, seq);
                let own = kept.at_ns >= self.span.begin && self.span.has_data(start);
                log.data = if own { log.data.max(start) } else { log.data };
                own
            }
            Found::Ack(ack, ..) => {
                let ack = byte(log.acked, ack);
                let own = self.span.has_ack(kept.at_ns, ack);
                log.acked = if own { log.acked.max(ack) } else { log.acked };
                own
            }
        };
        if own && log.kept.len() == most {
            log.left_out += 1;
        } else if own {
            log.kept.push(*kept);
        }
        own
    }
}
