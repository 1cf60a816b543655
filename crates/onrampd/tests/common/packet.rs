//! Packets, byte by byte.

use onramp_core::orack::{Addresses, MAX_LEN, OrAck};
use onramp_core::orprobe::OrProbe;
use std::net::IpAddr;

pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
/// Of a TCP header.
pub const PSH_ACK: u8 = 0x18;
pub const ACK: u8 = 0x10;

/// An Ethernet frame around an IP packet.
pub fn ethernet(ether_type: u16, ip: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &ether_type.to_be_bytes(), ip].concat()
}

/// An IP packet in its frame, without options or extension headers.
pub fn ip(source: IpAddr, destination: IpAddr, protocol: u8, payload: &[u8]) -> Vec<u8> {
    match (source, destination) {
        (IpAddr::V4(s), IpAddr::V4(d)) => {
            let length = (20 + payload.len() as u16).to_be_bytes();
            let head = [&[0x45, 0][..], &length, &[0, 0, 0x40, 0, 64, protocol, 0, 0], &s.octets(), &d.octets()];
            ethernet(0x0800, &[&head.concat()[..], payload].concat())
        }
        (IpAddr::V6(s), IpAddr::V6(d)) => {
            let length = (payload.len() as u16).to_be_bytes();
            let head = [&[0x60, 0, 0, 0][..], &length, &[protocol, 64], &s.octets(), &d.octets()];
            ethernet(0x86dd, &[&head.concat()[..], payload].concat())
        }
        _ => panic!("two families"),
    }
}

/// A TCP segment.
pub fn tcp(sport: u16, dport: u16, seq: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let ports = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
    [&ports[..], &seq.to_be_bytes(), &[0; 4], &[0x50, flags, 0xff, 0xff, 0, 0, 0, 0], payload].concat()
}

/// A UDP datagram without a checksum.
pub fn udp(sport: u16, dport: u16, payload: &[u8]) -> Vec<u8> {
    let ports = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
    [&ports[..], &(8 + payload.len() as u16).to_be_bytes(), &[0, 0], payload].concat()
}

/// An OR-ACK for data from `source` to `destination`, on its way from the latter to the former.
pub fn or_ack(source: IpAddr, destination: IpAddr, key: &[u8; 16], mut ack: OrAck) -> Vec<u8> {
    ack.addresses = match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
        _ => panic!("two families"),
    };
    ack.tag = ack.expected_tag(key);
    ip(destination, source, UDP, &udp(9471, 9471, ack.encode(&mut [0; MAX_LEN])))
}

/// A probe or an answer on its way, as its tag says.
pub fn probe(source: IpAddr, destination: IpAddr, probe: OrProbe) -> Vec<u8> {
    ip(source, destination, UDP, &udp(9471, 9471, &probe.encode()))
}

/// The probe or answer in a packet.
pub fn probe_in(packet: &[u8]) -> OrProbe {
    let payload = packet.last_chunk().expect("it is long enough");
    OrProbe::decode(payload).expect("it is one")
}
