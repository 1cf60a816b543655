//! RDMA's packets as frames of RoCEv2: each flow is one SEND of a reliable connection (RC), on queue pairs of its own.
//!
//! Fields are those of the InfiniBand Architecture Specification 1.5, chapter 9 and annex A17 (RoCEv2). What RoCEv2 has
//! no field for is not shown: On-Ramp's times that ride on acknowledgements, what switches write for senders, and which
//! packet a NACK of selective repeat or an acknowledgement of reliable unordered delivery answers.

use super::frame::{End, Envelope, UDP, finish};
use super::simulated::{Wire, received_ns};
use super::{At, Capture, pcap};
use crate::network::packet::{ACK_REQUEST, CREDIT, LAST, MARKED, NO_PACKET, TRIMMED};
use crate::network::{Kind, Packet};
use crate::stack::rdma::rud;
use onramp_config::units::{NS, Ps};
use onramp_topology::PortId;
use onramp_topology::address::{address, mac};

/// UDP port of RoCEv2.
pub const ROCE: u16 = 4791;
/// Bytes of Ethernet, IPv4, UDP and the base transport header (BTH).
const HEADERS: u32 = 14 + 20 + 8 + 12;
/// Bytes of the acknowledgement's header (AETH), and of the checksum at the end (ICRC).
const AETH: u32 = 4;
const ICRC: u32 = 4;

const SEND_FIRST: u8 = 0;
const SEND_MIDDLE: u8 = 1;
const SEND_LAST: u8 = 2;
const SEND_ONLY: u8 = 4;
const ACKNOWLEDGE: u8 = 17;

/// AETH's syndromes: an ACK without credits, and a NAK of a PSN that is not the expected one.
const ACK: u8 = 0x1f;
const NAK_SEQUENCE: u8 = 0x60;

/// Port that UDP calls ephemeral; the low 14 bits are the flow's.
const EPHEMERAL: u16 = 0xc000;
const BITS_24: u32 = 0xff_ffff;

/// A traced flow of RDMA.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The flow's number.
    pub id: u64,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// When it arrives, in the engine's time.
    pub start: Ps,
    /// Packets in all; `None` if it has no end of its own.
    pub packets: Option<u32>,
    /// Bytes of a data packet in the simulator besides payload.
    pub header: u64,
    /// Hash that ECMP chooses by.
    pub hash: u16,
    /// Its packets are delivered in any order.
    pub unordered: bool,
}

/// A packet at one of a flow's hosts.
#[derive(Clone, Copy, Debug)]
pub struct Passed {
    /// When its first bit left, or its last one came, in the engine's time.
    pub at: Ps,
    /// The host's port.
    pub port: PortId,
    /// It leaves.
    pub leaves: bool,
    pub packet: Packet<()>,
}

impl Message {
    /// The flow's capture at one of its hosts, of what has passed there.
    pub fn capture(&self, at: At, passed: &[Passed], left_out: u64, wire: &Wire<'_>) -> Capture {
        let mut file = pcap::File::default();
        let hops = (wire.topology.path(self.src, self.dst, self.hash).count() - 1) as u8;
        // RoCEv2 has neither receivers' credit nor requests for it.
        let is_credit = |packet: &Packet<()>| match packet.kind() {
            Kind::DATA => packet.flags() & TRIMMED != 0 && packet.seq == NO_PACKET,
            kind => kind == Kind::OR_ACK && packet.flags() & CREDIT != 0,
        };
        for one in passed.iter().filter(|one| !is_credit(&one.packet)) {
            let (bytes, length) = self.frame(at, hops, one, wire);
            file.add(one.at.saturating_sub(wire.origin) / NS, length, &bytes);
        }
        Capture { flow: self.id, at, pcap: file.into_bytes(), left_out }
    }

    fn frame(&self, at: At, hops: u8, passed: &Passed, wire: &Wire<'_>) -> (Vec<u8>, u32) {
        let Passed { leaves, packet, port, .. } = passed;
        let back = *leaves == (at == At::Receiver);
        let macs = [mac(*port), mac(wire.topology.ports()[*port as usize].reverse)];
        let or_ack = packet.kind() == Kind::OR_ACK;
        // An OR-ACK names the ports of the data that it is for.
        let entropy = EPHEMERAL | if or_ack { self.hash } else { packet.hash } & !EPHEMERAL;
        let (source, target) = if or_ack { (ROCE, entropy) } else { (entropy, ROCE) };
        let end = |host, port| End { mac: macs, address: address(host), port };
        let (from, to) = if back { (self.dst, self.src) } else { (self.src, self.dst) };
        let marked = packet.flags() & MARKED != 0;
        let envelope = Envelope {
            from: end(from, source),
            to: end(to, target),
            leaves: *leaves,
            hops,
            // The same at both ends, and not that of the same bytes sent again.
            id: (packet.sent_ns ^ packet.sent_ns >> 16) as u16,
            // Switches mark data alone.
            ecn: if packet.kind() != Kind::DATA {
                0
            } else if marked {
                3
            } else {
                2
            },
        };
        match packet.kind() {
            Kind::DATA => self.data(&envelope, packet),
            Kind::OR_ACK => envelope.or_ack(UDP, packet.seq & BITS_24, received_ns(passed.at, packet)),
            kind => self.reply(&envelope, kind, packet),
        }
    }

    fn data(&self, envelope: &Envelope, packet: &Packet<()>) -> (Vec<u8>, u32) {
        let flags = packet.flags();
        let opcode = match (packet.seq == 0, flags & LAST != 0) {
            (true, true) => SEND_ONLY,
            (true, false) => SEND_FIRST,
            (false, true) => SEND_LAST,
            (false, false) => SEND_MIDDLE,
        };
        let whole = u32::from(packet.size).saturating_sub(self.header as u32);
        let bth = Bth {
            opcode,
            psn: packet.seq,
            queue_pair: self.queue_pair(At::Receiver),
            // In order, a receiver answers each packet.
            wants_ack: !self.unordered || flags & (ACK_REQUEST | LAST) != 0,
            echoes_mark: false,
            payload: if flags & TRIMMED == 0 { whole } else { 0 },
        };
        bth.frame(envelope, None, packet.size)
    }

    fn reply(&self, envelope: &Envelope, kind: Kind, packet: &Packet<()>) -> (Vec<u8>, u32) {
        let nak = kind == Kind::NACK;
        let psn = match (nak, self.unordered) {
            (false, _) => packet.seq.wrapping_sub(1),
            // The one that a switch has trimmed.
            (true, true) => rud::unpack(packet.sent_ns, packet.seq).0,
            (true, false) => packet.seq,
        };
        let complete = self.packets.is_some_and(|packets| packet.seq >= packets);
        let bth = Bth {
            opcode: ACKNOWLEDGE,
            psn,
            queue_pair: self.queue_pair(At::Sender),
            wants_ack: false,
            echoes_mark: packet.flags() & MARKED != 0,
            payload: 0,
        };
        let aeth = [if nak { NAK_SEQUENCE } else { ACK }, 0, 0, u8::from(complete)];
        bth.frame(envelope, Some(aeth), packet.size)
    }

    /// Number of a queue pair: 0 and 1 are for management.
    fn queue_pair(&self, at: At) -> u32 {
        (2 * self.id as u32).wrapping_add(if at == At::Sender { 2 } else { 3 }) & BITS_24
    }
}

/// Fields of a base transport header that differ.
struct Bth {
    opcode: u8,
    psn: u32,
    queue_pair: u32,
    wants_ack: bool,
    echoes_mark: bool,
    /// Bytes of payload, which the frame has not.
    payload: u32,
}

impl Bth {
    /// The frame's first bytes, and its length: RoCEv2's, or the simulator's where that is more. A frame without payload
    /// is there up to its end; its ICRC is 0.
    fn frame(&self, envelope: &Envelope, aeth: Option<[u8; AETH as usize]>, size: u16) -> (Vec<u8>, u32) {
        let pad = self.payload.wrapping_neg() % 4;
        let data = self.payload + pad + if aeth.is_some() { AETH } else { 0 };
        let length = HEADERS + data + ICRC;
        let mut bytes = envelope.ethernet_and_ip(UDP, length as usize, false);
        let udp = (length - HEADERS + 8 + 12) as u16;
        for field in [envelope.from.port, envelope.to.port, udp, 0] {
            bytes.extend(field.to_be_bytes());
        }
        // Path migration is done (MigReq); the partition is the default one.
        bytes.extend([self.opcode, 0x40 | (pad as u8) << 4, 0xff, 0xff]);
        bytes.extend((u32::from(self.echoes_mark) << 30 | self.queue_pair).to_be_bytes());
        bytes.extend((u32::from(self.wants_ack) << 31 | self.psn & BITS_24).to_be_bytes());
        bytes.extend(aeth.iter().flatten());
        if self.payload == 0 {
            bytes.extend([0; ICRC as usize]);
        }
        finish(&mut bytes, length);
        (bytes, length.max(size.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const MESSAGE: Message =
        Message { id: 5, src: 1, dst: 0, start: 0, packets: Some(3), header: 48, hash: 0, unordered: false };

    fn envelope(back: bool) -> Envelope {
        let end = |last: u8, port| End { mac: [[last; 6]; 2], address: Ipv4Addr::new(10, 0, 0, last), port };
        let (from, to) = if back { (1, 2) } else { (2, 1) };
        Envelope { from: end(from, 0xc123), to: end(to, ROCE), leaves: true, hops: 1, id: 7, ecn: 2 }
    }

    fn data(seq: u32, size: u16, flags: u8) -> (Vec<u8>, u32) {
        MESSAGE.data(&envelope(false), &Packet { seq, size, ..Packet::default() }.marked(flags, 1))
    }

    fn reply(message: &Message, kind: Kind, seq: u32, told: u32, flags: u8) -> (Vec<u8>, u32) {
        let packet = Packet { seq, sent_ns: told, size: 60, ..Packet::default() };
        message.reply(&envelope(true), kind, &packet.as_a(kind).marked(flags, 1))
    }

    #[test]
    fn a_data_packet_is_as_the_specification_has_it() {
        let (bytes, length) = data(1, 1048, 0);
        // 10 B more than in the simulator: RoCEv2 has 58 B besides payload.
        assert_eq!((bytes.len(), length), (54, 1058));
        assert_eq!(bytes[14..20], [0x45, 2, 0x04, 0x14, 0, 7]);
        assert_eq!(bytes[34..42], [0xc1, 0x23, 0x12, 0xb7, 0x04, 0, 0, 0]);
        assert_eq!(bytes[42..54], [1, 0x40, 0xff, 0xff, 0, 0, 0, 13, 0x80, 0, 0, 1]);
        let opcodes = [(0, 0), (1, 0), (2, LAST), (0, LAST)].map(|(seq, flags)| data(seq, 1048, flags).0[42]);
        assert_eq!(opcodes, [SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_ONLY]);
    }

    #[test]
    fn payload_is_padded_and_what_the_simulator_has_more_stays() {
        // 333 B take 3 B of padding.
        let (bytes, length) = data(2, 381, LAST);
        assert_eq!((bytes[43], length), (0x70, 394));
        let hpcc = Message { header: 90, ..MESSAGE };
        let packet = Packet { seq: 1, size: 1090, ..Packet::default() };
        assert_eq!(hpcc.data(&envelope(false), &packet).1, 1090);
        let (trimmed, length) = data(1, 64, TRIMMED);
        assert_eq!((trimmed.len(), length, &trimmed[16..18]), (58, 64, &[0, 44][..]));
    }

    #[test]
    fn replies_name_the_last_packet_in_order_or_the_one_that_is_missing() {
        let (bytes, length) = reply(&MESSAGE, Kind::ACK, 2, 0, MARKED);
        assert_eq!((bytes.len(), length), (62, 62));
        assert_eq!(bytes[42..62], [17, 0x40, 0xff, 0xff, 0x40, 0, 0, 12, 0, 0, 0, 1, 0x1f, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(reply(&MESSAGE, Kind::ACK, 3, 0, 0).0[46..58], [0, 0, 0, 12, 0, 0, 0, 2, 0x1f, 0, 0, 1]);
        assert_eq!(reply(&MESSAGE, Kind::NACK, 2, 0, 0).0[50..58], [0, 0, 0, 2, 0x60, 0, 0, 0]);
        // Of reliable unordered delivery: packet 3 is trimmed while 1 is missing. Nothing is in order yet.
        let unordered = Message { unordered: true, ..MESSAGE };
        assert_eq!(reply(&unordered, Kind::NACK, 1, 2 << 16, 0).0[50..55], [0, 0, 0, 3, 0x60]);
        assert_eq!(reply(&unordered, Kind::ACK, 0, 0, 0).0[50..55], [0, 0xff, 0xff, 0xff, 0x1f]);
    }
}
