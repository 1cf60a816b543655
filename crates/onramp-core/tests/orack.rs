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
    0x14, 6, 0x12, 0x34, // version and family, protocol, source port
    0x9a, 0xbc, 0xde, 0xf0, // sequence number
    0, 0, 0x56, 0x78, // scrap, destination port
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
    assert_eq!(OrAck::decode(&with(0, 0x24)), Err(OrAckError::Version));
    assert_eq!(OrAck::decode(&with(0, 0x10)), Err(OrAckError::Family));
    assert_eq!(OrAck::decode(&with(0, 0x15)), Err(OrAckError::Family));
    assert_eq!(OrAck::decode(&with(0, 0x16)), Err(OrAckError::Length(36)));
}

/// A device may fill in there what it takes for a checksum.
#[test]
fn scrap_is_never_read() {
    for at in [8, 9] {
        assert_eq!(OrAck::decode(&with(at, 0xff)), Ok(SAMPLE));
    }
}

/// SipHash-2-4 from another implementation, of the words in the order of the header.
#[expect(deprecated, reason = "the standard library's is the independent one at hand")]
fn siphash(key: &[u8; 16], message: &[u8]) -> u64 {
    use std::hash::Hasher;
    let [k0, k1] = [0, 8].map(|at| u64::from_le_bytes(key[at..at + 8].try_into().expect("8 bytes")));
    let mut hasher = std::hash::SipHasher::new_with_keys(k0, k1);
    hasher.write(message);
    hasher.finish()
}

/// Bytes that the tag covers.
fn message(ack: &OrAck) -> Vec<u8> {
    let ports = u64::from(ack.source_port) << 16 | u64::from(ack.destination_port);
    let first = u64::from(ack.sequence) << 32 | ports;
    let (family, addresses) = match ack.addresses {
        Addresses::V4 { source, destination } => {
            (4, [&source.octets()[..], &[0; 4], &destination.octets(), &[0; 4]].concat())
        }
        Addresses::V6 { source, destination } => {
            let (s, d) = (source.octets(), destination.octets());
            (6, [&s[..8], &d[..8], &s[8..], &d[8..]].concat())
        }
    };
    [&first.to_le_bytes()[..], &ack.received_at.to_le_bytes(), &addresses, &[family, ack.protocol]].concat()
}

#[test]
fn the_tag_needs_the_key() {
    let tag = SAMPLE.expected_tag(&[7; 16]);
    assert_eq!(tag, siphash(&[7; 16], &message(&SAMPLE)));
    assert_ne!(tag, SAMPLE.expected_tag(&[8; 16]));
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

    #[test]
    fn the_tag_is_siphash_of_everything_else(ack in or_ack(), key in any::<[u8; 16]>(), tag in any::<u64>()) {
        prop_assert_eq!(ack.expected_tag(&key), siphash(&key, &message(&ack)));
        prop_assert_eq!(OrAck { tag, ..ack }.expected_tag(&key), ack.expected_tag(&key));
    }

    /// One OR-ACK has one encoding: but for the scrap, there is no byte that goes unread.
    #[test]
    fn what_is_accepted_encodes_to_the_same_bytes(
        garbage in vec(any::<u8>(), 0..80),
        head in prop_oneof![Just([0x14, TCP, 0, 4]), Just([0x16, TCP, 0, 6]), any::<[u8; 4]>()],
        len in prop_oneof![Just(36_usize), Just(60), 0..80_usize],
    ) {
        let mut bytes = [&head[..], &garbage].concat();
        bytes.resize(len, 0);
        if let Ok(ack) = OrAck::decode(&bytes) {
            bytes[8..10].fill(0);
            let mut buffer = [0; MAX_LEN];
            prop_assert_eq!(ack.encode(&mut buffer), bytes);
        }
    }
}
