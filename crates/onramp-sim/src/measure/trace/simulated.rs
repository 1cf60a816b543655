//! From what cells have kept to files: packets become frames, with what the simulator's packets do
//! not carry made as Linux would.

use super::frame::{ACK, CWR, ECE, End, Envelope, PSH, SYN, Segment, TCP};
use super::tap::{Log, Seen, Start, Tap};
use super::{At, Capture, Span, pcap, unwrap};
use crate::network::feedback::Header;
use crate::network::packet::{LAST, MARKED, UNMEASURED, unwrap_ns};
use crate::network::{Kind, Packet};
use crate::stack::tcp::{HEADERS, Tx};
use onramp_config::units::{NS, Ps};
use onramp_topology::Topology;
use onramp_topology::address::{FIRST, LISTEN, address, mac};
use std::collections::BTreeMap;

/// Bytes of the MTU that are neither payload nor headers: time stamps, which an opening does not count.
const STAMPS: u32 = 12;
/// Both ends count payload from 0; the opening has the number before.
const OPENED: u32 = 1;

/// The network, as far as frames depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Wire<'a> {
    /// Whose ports have Ethernet addresses.
    pub topology: &'a Topology,
    /// Connections that pairs of hosts opened before the load.
    pub connections: &'a BTreeMap<(u32, u32), usize>,
    /// Time 0 of the scenario in the engine's time.
    pub origin: Ps,
}

/// The captures of the flows `traced`, of what all cells have kept.
pub fn captures<H: Header>(taps: &[&Tap<H>], traced: &[u64], wire: &Wire<'_>) -> Vec<Capture> {
    let log = |start: &Start, at| taps.iter().find_map(|tap| tap.logs.get(&(start.src, start.dst, at)));
    let mut captures = Vec::new();
    for &id in traced {
        let found = taps.iter().find_map(|tap| {
            let at = tap.starts.iter().position(|start| start.id == id)?;
            let start = tap.starts[at];
            let later = &tap.starts[at + 1..];
            let pair = |other: &&Start| (other.src, other.dst, other.slot) == (start.src, start.dst, start.slot);
            Some((start, later.iter().find(pair).map(|next| (next.at, next.first))))
        });
        let Some((start, next)) = found else { continue };
        let span = Span { begin: start.at, first: start.first, next };
        let writer = Writer::new(&start, span, wire);
        for at in [At::Sender, At::Receiver] {
            captures.push(writer.write(at, log(&start, at)));
        }
    }
    captures
}

/// Writes the two captures of a flow, the sender's first.
struct Writer<'a> {
    start: &'a Start,
    span: Span,
    origin: Ps,
    ends: [End; 2],
    hops: u8,
}

impl<'a> Writer<'a> {
    fn new(start: &'a Start, span: Span, wire: &Wire<'_>) -> Self {
        let Wire { topology, connections, origin } = wire;
        let Start { src, dst, .. } = *start;
        // As the cluster numbers them: by receiving host, then in order of opening.
        let before: usize = connections.range((src, 0)..(src, dst)).map(|(_, count)| count).sum();
        let port = FIRST.wrapping_add((before + start.number as usize) as u16);
        let end = |host: u32, port| {
            let own = topology.ports_of(host)[0];
            End { mac: [mac(own), mac(topology.ports()[own as usize].reverse)], address: address(host), port }
        };
        let hops = topology.path(src, dst, 0).count() - 1;
        let ends = [end(src, port), end(dst, LISTEN)];
        Self { start, span, origin: *origin, ends, hops: hops as u8 }
    }

    fn write<H: Header>(&self, at: At, log: Option<&Log<H>>) -> Capture {
        let mut file = pcap::File::default();
        if !self.start.opens {
            self.opening(at, &mut file);
        }
        let (mut data, mut acked) = (self.span.first, self.span.first);
        for seen in log.into_iter().flat_map(|log| &log.seen).filter(|seen| seen.slot == self.start.slot) {
            let packet = &seen.packet;
            let own = match packet.kind() {
                Kind::DATA | Kind::OR_ACK => {
                    let start = unwrap(data, packet.seq);
                    let own = self.span.has_data(start);
                    data = if own { data.max(start) } else { data };
                    own
                }
                Kind::ACK => {
                    let ack = unwrap(acked, packet.seq);
                    let own = self.span.has_ack(seen.at, ack);
                    acked = if own { acked.max(ack) } else { acked };
                    own
                }
                _ => self.start.opens,
            };
            if !own {
                continue;
            }
            let (bytes, length) = self.frame(at, seen);
            file.add(seen.at.saturating_sub(self.origin) / NS, length, &bytes);
        }
        let left_out = log.map_or(0, |log| log.left_out);
        Capture { flow: self.start.id, at, pcap: file.into_bytes(), left_out }
    }

    /// The connection's opening was before: it is put where the flow begins.
    fn opening(&self, at: At, file: &mut pcap::File) {
        let stamp = Tx::stamp_ms(self.start.at);
        let syn = self.syn(false, stamp);
        let answer = self.syn(true, stamp);
        let last = self.opened([stamp; 2]);
        for (back, segment) in [(false, syn), (true, answer), (false, last)] {
            let leaves = back == (at == At::Receiver);
            let (bytes, length) = self.envelope(back, leaves, 0, 0).tcp(&segment);
            file.add(self.start.at.saturating_sub(self.origin) / NS, length, &bytes);
        }
    }

    fn syn(&self, back: bool, stamp: u32) -> Segment {
        let first = self.start.first as u32;
        let marks = match (self.start.marks, back) {
            (false, _) => 0,
            (true, false) => ECE | CWR,
            (true, true) => ECE,
        };
        Segment {
            seq: if back { 0 } else { first },
            ack: if back { first.wrapping_add(OPENED) } else { 0 },
            flags: SYN | marks | if back { ACK } else { 0 },
            window: self.offered(back).min(u32::from(u16::MAX)) as u16,
            stamps: [stamp, if back { stamp } else { 0 }],
            opening: Some(((self.start.mss + STAMPS) as u16, self.shift() as u8)),
            ..Segment::default()
        }
    }

    /// The acknowledgement that ends the opening.
    fn opened(&self, stamps: [u32; 2]) -> Segment {
        Segment {
            seq: (self.start.first as u32).wrapping_add(OPENED),
            ack: OPENED,
            flags: ACK,
            window: self.shifted(self.offered(false)),
            stamps,
            ..Segment::default()
        }
    }

    /// Bits by which windows are shifted, so that the largest fits.
    fn shift(&self) -> u32 {
        self.start.buffers[1].max(1).ilog2().saturating_sub(15).min(14)
    }

    fn shifted(&self, window: u32) -> u16 {
        window.div_ceil(1 << self.shift()).min(u32::from(u16::MAX)) as u16
    }

    /// Room that an end offers when it opens: full packets in half of its memory. Only the one that answers
    /// knows of time stamps by then.
    fn offered(&self, back: bool) -> u32 {
        let packet = self.start.mss + if back { 0 } else { STAMPS };
        self.start.buffers[0] / 2 / packet * packet
    }

    fn envelope(&self, back: bool, leaves: bool, id: u16, ecn: u8) -> Envelope {
        let [src, dst] = self.ends;
        let (from, to) = if back { (dst, src) } else { (src, dst) };
        Envelope { from, to, leaves, hops: self.hops, id, ecn }
    }

    fn frame<H: Header>(&self, at: At, seen: &Seen<H>) -> (Vec<u8>, u32) {
        let Seen { leaves, packet, .. } = seen;
        let back = *leaves == (at == At::Receiver);
        // The same at both ends, and not that of the same bytes sent again.
        let id = (packet.sent_ns ^ packet.sent_ns >> 16) as u16;
        let marked = packet.flags() & MARKED != 0;
        let capable = if self.start.marks { 2 } else { 0 };
        match packet.kind() {
            Kind::DATA => {
                let [(_, answers), ..] = packet.header.options();
                let segment = Segment {
                    seq: packet.seq.wrapping_add(OPENED),
                    ack: OPENED,
                    flags: ACK | if packet.flags() & LAST != 0 { PSH } else { 0 },
                    // It offers what it did at first, as nothing comes.
                    window: self.shifted(self.offered(false)),
                    stamps: [packet.owd_ns as u32, answers],
                    payload: u32::from(packet.size) - HEADERS,
                    ..Segment::default()
                };
                self.envelope(back, *leaves, id, if marked { 3 } else { capable }).tcp(&segment)
            }
            Kind::ACK => {
                let segment = Segment {
                    seq: OPENED,
                    ack: packet.seq.wrapping_add(OPENED),
                    flags: ACK | if marked { ECE } else { 0 },
                    window: self.shifted(packet.paused),
                    stamps: [created_ms(seen), packet.owd_ns as u32],
                    blocks: blocks(packet),
                    ..Segment::default()
                };
                self.envelope(back, *leaves, id, capable).tcp(&segment)
            }
            Kind::OR_ACK => {
                let received = received_ns(seen.at, packet);
                self.envelope(back, *leaves, id, 0).or_ack(TCP, packet.seq.wrapping_add(OPENED), received)
            }
            _ => {
                let [_, (stamp, _), _] = packet.header.options();
                let stamps = if back { [Tx::stamp_ms(seen.at), stamp] } else { [stamp, 0] };
                let last = packet.flags() & LAST != 0;
                let segment = if last { self.opened([stamp; 2]) } else { Segment { stamps, ..self.syn(back, stamp) } };
                self.envelope(back, *leaves, id, 0).tcp(&segment)
            }
        }
    }
}

/// When the packet was received that an OR-ACK seen at `at` is for, by the hosts' clocks; 0 if that is not known.
pub(super) fn received_ns<H>(at: Ps, packet: &Packet<H>) -> u64 {
    let sent = unwrap_ns(at / NS, packet.sent_ns);
    let measured = (packet.owd_ns != UNMEASURED).then_some(i64::from(packet.owd_ns));
    measured.map_or(0, |owd| sent.saturating_add_signed(owd))
}

/// When an acknowledgement was made, as its time stamp.
fn created_ms<H>(seen: &Seen<H>) -> u32 {
    Tx::stamp_ms(unwrap_ns(seen.at / NS, seen.packet.sent_ns) * NS)
}

/// The blocks it tells.
fn blocks<H: Header>(packet: &Packet<H>) -> Vec<(u32, u32)> {
    let all = packet.header.options().into_iter().filter(|(start, end)| start != end);
    all.map(|(start, end)| (start.wrapping_add(OPENED), end.wrapping_add(OPENED))).collect()
}
