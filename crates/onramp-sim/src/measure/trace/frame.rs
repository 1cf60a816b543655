//! Ethernet, IPv4, and TCP or an OR-ACK's UDP: headers as bytes, and back. RoCEv2's are in `roce.rs`.

use onramp_core::orack::{Addresses, MAX_LEN, OrAck};
use onramp_topology::address::OR_ACK;
use std::net::Ipv4Addr;

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;
const IPV4: usize = 20;
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
/// Of an OR-ACK its packet and time are kept; the rest is a tag that nobody can check.
const OR_ACK_KEPT: usize = ETHERNET + IPV4 + 8 + 20;

/// TCP's flags.
pub const SYN: u8 = 0x02;
/// See [`SYN`].
pub const PSH: u8 = 0x08;
/// See [`SYN`].
pub const ACK: u8 = 0x10;
/// See [`SYN`].
pub const ECE: u8 = 0x40;
/// See [`SYN`].
pub const CWR: u8 = 0x80;

/// One end of a connection.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Ethernet address of the host's port, and of the one at the other end of its link.
    pub mac: [[u8; 6]; 2],
    /// IPv4 address.
    pub address: Ipv4Addr,
    /// TCP port.
    pub port: u16,
}

/// Fields that every frame has.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Who sent it.
    pub from: End,
    /// Who gets it.
    pub to: End,
    /// It is seen at `from`, not at `to`.
    pub leaves: bool,
    /// Switches it has passed.
    pub hops: u8,
    /// IPv4's identification: the same at both ends.
    pub id: u16,
    /// IPv4's ECN field: 2 can be marked, 3 is.
    pub ecn: u8,
}

/// A TCP packet.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// Number of its first byte.
    pub seq: u32,
    /// Next byte that is expected.
    pub ack: u32,
    /// [`SYN`] and so on.
    pub flags: u8,
    /// As in the header: not scaled.
    pub window: u16,
    /// Time stamp, and the one that it answers.
    pub stamps: [u32; 2],
    /// Blocks of a selective acknowledgement.
    pub blocks: Vec<(u32, u32)>,
    /// Of an opening: largest segment, and by how many bits windows are shifted.
    pub opening: Option<(u16, u8)>,
    /// Bytes of payload, which the frame has not.
    pub payload: u32,
}

impl Envelope {
    pub(super) fn ethernet_and_ip(&self, protocol: u8, length: usize, may_break: bool) -> Vec<u8> {
        let [own, next] = if self.leaves { self.from.mac } else { self.to.mac };
        let (source, target) = if self.leaves { (own, next) } else { (next, own) };
        let mut bytes = [target, source].concat();
        let ttl = if self.leaves { 64 } else { 64_u8.saturating_sub(self.hops) };
        let fragment: u16 = if may_break { 0 } else { 0x4000 };
        bytes.extend([0x08, 0x00, 0x45, self.ecn]);
        bytes.extend(((length - ETHERNET) as u16).to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(fragment.to_be_bytes());
        bytes.extend([ttl, protocol, 0, 0]);
        bytes.extend(self.from.address.octets());
        bytes.extend(self.to.address.octets());
        bytes
    }

    /// A TCP packet: its headers, and its length with payload.
    pub fn tcp(&self, segment: &Segment) -> (Vec<u8>, u32) {
        let mut options = Vec::new();
        let stamps = |options: &mut Vec<u8>| {
            options.extend([8, 10]);
            segment.stamps.iter().for_each(|stamp| options.extend(stamp.to_be_bytes()));
        };
        // In Linux's order, with no-operations where it has them.
        if let Some((most, shift)) = segment.opening {
            options.extend([2, 4]);
            options.extend(most.to_be_bytes());
            options.extend([4, 2]);
            stamps(&mut options);
            options.extend([1, 3, 3, shift]);
        } else {
            options.extend([1, 1]);
            stamps(&mut options);
        }
        if !segment.blocks.is_empty() {
            options.extend([1, 1, 5, 2 + 8 * segment.blocks.len() as u8]);
            let edges = segment.blocks.iter().flat_map(|&(start, end)| [start, end]);
            edges.for_each(|edge| options.extend(edge.to_be_bytes()));
        }
        let headers = ETHERNET + IPV4 + 20 + options.len();
        let length = headers + segment.payload as usize;
        let mut bytes = self.ethernet_and_ip(TCP, length, false);
        bytes.extend(self.from.port.to_be_bytes());
        bytes.extend(self.to.port.to_be_bytes());
        bytes.extend(segment.seq.to_be_bytes());
        bytes.extend(segment.ack.to_be_bytes());
        bytes.extend([(((20 + options.len()) / 4) << 4) as u8, segment.flags]);
        bytes.extend(segment.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(options);
        finish(&mut bytes, length as u32);
        (bytes, length as u32)
    }

    /// The OR-ACK for the packet of the other direction that begins with byte `seq` of a TCP connection, or has this
    /// number.
    pub fn or_ack(&self, protocol: u8, seq: u32, received_ns: u64) -> (Vec<u8>, u32) {
        let said = OrAck {
            addresses: Addresses::V4 { source: self.to.address, destination: self.from.address },
            source_port: self.to.port,
            destination_port: self.from.port,
            protocol,
            sequence: seq,
            received_at: received_ns,
            tag: 0,
        };
        let mut buffer = [0; MAX_LEN];
        let payload = said.encode(&mut buffer);
        let length = ETHERNET + IPV4 + 8 + payload.len();
        let mut bytes = self.ethernet_and_ip(UDP, length, true);
        for field in [OR_ACK, OR_ACK, 8 + payload.len() as u16, 0] {
            bytes.extend(field.to_be_bytes());
        }
        bytes.extend(payload);
        let kept = finish(&mut bytes, length as u32);
        bytes.truncate(kept);
        (bytes, length as u32)
    }
}

/// Fills in the checksums as a NIC does, of a frame of `length` bytes of which those given are the
/// first: all others are taken to be zero, as the load's payload is. UDP goes without. How many bytes
/// are to be kept.
pub fn finish(frame: &mut [u8], length: u32) -> usize {
    let header = |frame: &[u8]| usize::from(frame[ETHERNET] & 15) * 4;
    if frame.len() < ETHERNET + IPV4 || frame.len() < ETHERNET + header(frame) {
        return frame.len();
    }
    let transport = ETHERNET + header(frame);
    put(frame, ETHERNET + 10, 0);
    let sum = checksum(&frame[ETHERNET..transport], 0);
    put(frame, ETHERNET + 10, sum);
    match frame[ETHERNET + 9] {
        TCP if frame.len() >= transport + 20 => {
            let mut pseudo = frame[ETHERNET + 12..ETHERNET + 20].to_vec();
            pseudo.extend([0, TCP]);
            pseudo.extend((length as u16).wrapping_sub(transport as u16).to_be_bytes());
            put(frame, transport + 16, 0);
            let sum = checksum(&frame[transport..], sum_of(&pseudo));
            put(frame, transport + 16, sum);
            frame.len()
        }
        UDP if frame.len() >= transport + 8 => {
            put(frame, transport + 6, 0);
            frame.len().min(OR_ACK_KEPT)
        }
        _ => frame.len(),
    }
}

fn put(frame: &mut [u8], at: usize, value: u16) {
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn sum_of(bytes: &[u8]) -> u32 {
    bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two.get(1).copied().unwrap_or(0))).sum()
}

/// The Internet's checksum (RFC 1071).
fn checksum(bytes: &[u8], before: u32) -> u16 {
    let mut sum = sum_of(bytes) + before;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A connection, by addresses and the port of the end that sends data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    /// The end that sends data.
    pub src: Ipv4Addr,
    /// The end that receives.
    pub dst: Ipv4Addr,
    /// Port of the end that sends data.
    pub port: u16,
}

/// Meaning of a captured frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Of the end that sends data: its first byte, how many, and flags.
    Data(u32, u32, u8),
    /// Of the other end: next expected byte, first byte of its own, and flags.
    Ack(u32, u32, u8),
    /// Says when the packet that begins with this byte has come.
    OrAck(u32),
}

/// Looks at the first bytes of a frame; `listen` is the port of the ends that receive.
pub fn parse(frame: &[u8], listen: u16) -> Option<(Key, Found)> {
    let short = |at: usize| Some(u16::from_be_bytes(frame.get(at..at + 2)?.try_into().ok()?));
    let word = |at: usize| Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?));
    if short(12)? != 0x0800 || frame.get(ETHERNET)? >> 4 != 4 {
        return None;
    }
    let transport = ETHERNET + usize::from(frame[ETHERNET] & 15) * 4;
    let [from, to] = [word(ETHERNET + 12)?, word(ETHERNET + 16)?].map(Ipv4Addr::from);
    let [source, target] = [short(transport)?, short(transport + 2)?];
    if *frame.get(ETHERNET + 9)? == UDP {
        let said = transport + 8;
        let ours = [source, target] == [OR_ACK; 2] && *frame.get(said + 1)? == TCP && short(said + 10)? == listen;
        let key = Key { src: to, dst: from, port: short(said + 2)? };
        return Some((key, Found::OrAck(word(said + 4)?))).filter(|_| ours);
    }
    if frame[ETHERNET + 9] != TCP {
        return None;
    }
    let (seq, ack) = (word(transport + 4)?, word(transport + 8)?);
    let [offset, flags] = [*frame.get(transport + 12)?, *frame.get(transport + 13)?];
    let headers = transport - ETHERNET + usize::from(offset >> 4) * 4;
    let payload = u32::from(short(ETHERNET + 2)?).checked_sub(headers as u32)?;
    if target == listen {
        Some((Key { src: from, dst: to, port: source }, Found::Data(seq, payload, flags)))
    } else if source == listen {
        Some((Key { src: to, dst: from, port: target }, Found::Ack(ack, seq, flags)))
    } else {
        None
    }
}

/// Puts other numbers into a TCP packet; its checksum is to be filled in again.
pub fn renumber(frame: &mut [u8], seq: u32, ack: u32) {
    let transport = ETHERNET + usize::from(frame[ETHERNET] & 15) * 4;
    frame[transport + 4..transport + 8].copy_from_slice(&seq.to_be_bytes());
    frame[transport + 8..transport + 12].copy_from_slice(&ack.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ends() -> [End; 2] {
        [(1, 10_000), (2, 5000)].map(|(last, port)| End {
            mac: [[2, 0, 0, 0, 0, last], [2, 0, 0, 0, 1, last]],
            address: Ipv4Addr::new(10, 0, 0, last),
            port,
        })
    }

    fn envelope(leaves: bool) -> Envelope {
        let [from, to] = ends();
        Envelope { from, to, leaves, hops: 1, id: 0x1234, ecn: 2 }
    }

    /// The sum over everything, checksum included, is all ones.
    fn is_right(frame: &[u8], length: u32) -> bool {
        let mut pseudo = frame[26..34].to_vec();
        pseudo.extend([0, TCP]);
        pseudo.extend((length as u16 - 34).to_be_bytes());
        checksum(&frame[14..34], 0) == 0 && checksum(&frame[34..], sum_of(&pseudo)) == 0
    }

    #[test]
    fn a_packet_is_as_the_rfcs_have_it() {
        let segment = Segment {
            seq: 0x0102_0304,
            ack: 0x0506_0708,
            flags: ACK | PSH,
            window: 63,
            stamps: [7, 9],
            payload: 1448,
            ..Segment::default()
        };
        let (bytes, length) = envelope(true).tcp(&segment);
        assert_eq!((bytes.len(), length), (66, 1514));
        assert_eq!(bytes[..14], [2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 0, 1, 8, 0]);
        assert_eq!(bytes[14..24], [0x45, 2, 0x05, 0xdc, 0x12, 0x34, 0x40, 0, 64, 6]);
        assert_eq!(bytes[34..50], [0x27, 0x10, 0x13, 0x88, 1, 2, 3, 4, 5, 6, 7, 8, 0x80, 0x18, 0, 63]);
        assert_eq!(bytes[54..], [1, 1, 8, 10, 0, 0, 0, 7, 0, 0, 0, 9]);
        assert!(is_right(&bytes, length));
        let (there, _) = envelope(false).tcp(&segment);
        assert_eq!((&there[..12], there[22]), (&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 1, 2][..], 63));
        let key = Key { src: ends()[0].address, dst: ends()[1].address, port: 10_000 };
        assert_eq!(parse(&bytes, 5000), Some((key, Found::Data(0x0102_0304, 1448, ACK | PSH))));
    }

    #[test]
    fn openings_and_blocks_have_their_options() {
        let opening = Segment { flags: SYN, opening: Some((1460, 10)), stamps: [1, 0], ..Segment::default() };
        let (bytes, length) = envelope(true).tcp(&opening);
        assert_eq!(bytes[54..], [2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 10]);
        assert!(bytes.len() == 74 && is_right(&bytes, length));
        let blocks = Segment { blocks: vec![(1, 2), (5, 9)], ..Segment::default() };
        let (bytes, length) = envelope(true).tcp(&blocks);
        assert_eq!(bytes[66..], [1, 1, 5, 18, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 9]);
        assert!(is_right(&bytes, length));
    }

    #[test]
    fn an_or_ack_names_its_packet_but_not_its_tag() {
        let [src, dst] = ends();
        let back = Envelope { from: dst, to: src, ..envelope(true) };
        let (bytes, length) = back.or_ack(TCP, 77, 1 << 40);
        assert_eq!((bytes.len(), length), (62, onramp_core::orack::WIRE_IPV4));
        let key = Key { src: src.address, dst: dst.address, port: 10_000 };
        assert_eq!(parse(&bytes, 5000), Some((key, Found::OrAck(77))));
        assert_eq!(bytes[54..62], (1_u64 << 40).to_be_bytes());
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_packet_or_none(bytes in prop::collection::vec(any::<u8>(), 0..120), like in any::<bool>()) {
            let mut bytes = bytes;
            if like {
                let start = [&[0; 12][..], &[8, 0, 0x45]].concat();
                bytes.splice(..0, start);
            }
            let _ = parse(&bytes, 5000);
            let length = bytes.len() as u32;
            finish(&mut bytes, length);
        }
    }
}
