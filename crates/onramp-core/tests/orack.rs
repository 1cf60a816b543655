//! The OR-ACK format: its bytes, and that nothing else passes for one.

use std::net::{Ipv4Addr, Ipv6Addr};

use onramp_core::orack::{Addresses, MAX_LEN, OrAck, OrAckError, WIRE_IPV4, WIRE_IPV6};
use proptest::collection::vec;
use proptest::prelude::*;

const TCP: u8 = 6;

const SAMPLE: OrAck = OrAck {
    addresses: Addresses::V4 { source: Ipv4Addr::new(10, 0, 0, 1), destination: Ipv4Addr::new(10, 0, 0, 2) },
    source_port: 0x1234,
    destination_port: 0x5678,
    protocol: TCP,
    sequence: 0x9abc_def0,
    received_at: 0x0102_0304_0506_0708,
    tag: 0x1112_1314_1516_1718,
};

const SAMPLE_BYTES: [u8; 36] = [
    1, 6, 0, 4, 0x12, 0x34, 0x56, 0x78, // version, protocol, flags, ports
    0x9a, 0xbc, 0xde, 0xf0, // sequence number
    1, 2, 3, 4, 5, 6, 7, 8, // receive time
    0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, // tag
    10, 0, 0, 1, 10, 0, 0, 2, // source, destination
];

fn addresses() -> impl Strategy<Value = Addresses> {
    let v4 = any::<(Ipv4Addr, Ipv4Addr)>();
    let v6 = any::<(Ipv6Addr, Ipv6Addr)>();
    prop_oneof![
        v4.prop_map(|(source, destination)| Addresses::V4 { source, destination }),
        v6.prop_map(|(source, destination)| Addresses::V6 { source, destination }),
    ]
}

prop_compose! {
    fn or_ack()(
        addresses in addresses(),
        (source_port, destination_port, protocol) in any::<(u16, u16, u8)>(),
        (sequence, received_at, tag) in any::<(u32, u64, u64)>(),
    ) -> OrAck {
        OrAck { addresses, source_port, destination_port, protocol, sequence, received_at, tag }
    }
}

fn with(at: usize, byte: u8) -> [u8; 36] {
    let mut bytes = SAMPLE_BYTES;
    bytes[at] = byte;
    bytes
}

#[test]
fn bytes_are_those_of_the_format() {
    assert_eq!(SAMPLE.encode(&mut [0; MAX_LEN]), SAMPLE_BYTES);
    assert_eq!(OrAck::decode(&SAMPLE_BYTES), Ok(SAMPLE));
}

#[test]
fn sizes_on_the_wire_include_ethernet_ip_and_udp() {
    let v6 = Addresses::V6 { source: Ipv6Addr::LOCALHOST, destination: Ipv6Addr::LOCALHOST };
    let payload = OrAck { addresses: v6, ..SAMPLE }.encode(&mut [0; MAX_LEN]).len();
    assert_eq!(WIRE_IPV4 as usize, 14 + 20 + 8 + SAMPLE_BYTES.len());
    assert_eq!(WIRE_IPV6 as usize, 14 + 40 + 8 + payload);
}

#[test]
fn what_is_not_understood_is_refused() {
    assert_eq!(OrAck::decode(&[]), Err(OrAckError::Length(0)));
    assert_eq!(OrAck::decode(&with(0, 0)), Err(OrAckError::Version));
    assert_eq!(OrAck::decode(&with(0, 2)), Err(OrAckError::Version));
    assert_eq!(OrAck::decode(&with(3, 0)), Err(OrAckError::Family));
    assert_eq!(OrAck::decode(&with(3, 5)), Err(OrAckError::Family));
    assert_eq!(OrAck::decode(&with(3, 6)), Err(OrAckError::Length(36)));
    assert_eq!(OrAck::decode(&with(3, 0x14)), Err(OrAckError::Reserved));
    assert_eq!(OrAck::decode(&with(2, 0x80)), Err(OrAckError::Reserved));
}

proptest! {
    #[test]
    fn decoding_undoes_encoding(ack in or_ack()) {
        prop_assert_eq!(OrAck::decode(ack.encode(&mut [0; MAX_LEN])), Ok(ack));
    }

    #[test]
    fn any_other_length_is_refused(ack in or_ack(), cut in 1..60_usize, more in vec(any::<u8>(), 1..60)) {
        let mut buffer = [0; MAX_LEN];
        let bytes = ack.encode(&mut buffer);
        let short = &bytes[..bytes.len().saturating_sub(cut)];
        let long = [bytes, &more].concat();
        prop_assert_eq!(OrAck::decode(short), Err(OrAckError::Length(short.len())));
        prop_assert_eq!(OrAck::decode(&long), Err(OrAckError::Length(long.len())));
    }

    /// One OR-ACK has one encoding: there is no byte that goes unread.
    #[test]
    fn what_is_accepted_encodes_to_the_same_bytes(
        garbage in vec(any::<u8>(), 0..80),
        head in prop_oneof![Just([1, TCP, 0, 4]), Just([1, TCP, 0, 6]), any::<[u8; 4]>()],
        len in prop_oneof![Just(36_usize), Just(60), 0..80_usize],
    ) {
        let mut bytes = [&head[..], &garbage].concat();
        bytes.resize(len, 0);
        if let Ok(ack) = OrAck::decode(&bytes) {
            let mut buffer = [0; MAX_LEN];
            prop_assert_eq!(ack.encode(&mut buffer), bytes);
        }
    }
}
