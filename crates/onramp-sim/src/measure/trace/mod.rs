//! The packets of single flows, as tcpdump would see them at both hosts.
//!
//! A flow on TCP shares its connection with earlier and later ones. Its capture has the connection's
//! opening, if need be moved to the flow's arrival and to the byte before its first, and then what
//! is of its bytes: data, acknowledgements, OR-ACKs. This folder is what both substrates have in
//! common ([`pcap`], [`frame`], [`Span`]), and what cells of the simulator keep ([`Tap`]). RDMA, which the simulator alone
//! has, becomes RoCEv2 (`roce.rs`).

pub mod frame;
pub mod pcap;
pub(crate) mod roce;
mod simulated;
mod tap;

pub use simulated::{Wire, captures};
pub use tap::{Start, Tap};

use std::fmt::{Display, Formatter, Result};

/// Flows that are traced at a time, at most.
pub const MOST_FLOWS: usize = 64;
/// Packets that captures of one run have together, at most.
const MOST_PACKETS: usize = 4 << 20;

/// Packets of a flow that one of its captures has at most, where so many are traced.
pub fn most_packets(flows: usize) -> usize {
    MOST_PACKETS / (2 * flows.max(1))
}

/// Where packets are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum At {
    /// At the host that sends data.
    Sender,
    /// At the other.
    Receiver,
}

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.write_str(match self {
            Self::Sender => "sender",
            Self::Receiver => "receiver",
        })
    }
}

/// A flow's packets at one of its hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// The flow's number.
    pub flow: u64,
    /// Where.
    pub at: At,
    /// A file that Wireshark reads.
    pub pcap: Vec<u8>,
    /// Packets for which there was no room.
    pub left_out: u64,
}

impl Capture {
    /// Name of its file on a substrate.
    pub fn name(&self, on: &str) -> String {
        format!("flow-{}-{on}-{}.pcap", self.flow, self.at)
    }
}

/// Which packets of a connection are a flow's. Times are in any unit, bytes counted from the
/// connection's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// When the flow begins.
    pub begin: u64,
    /// Its first byte.
    pub first: u64,
    /// When the connection's next flow begins, if there is one, and its first byte.
    pub next: Option<(u64, u64)>,
}

impl Span {
    /// True if data from byte `start` on are its own.
    pub fn has_data(&self, start: u64) -> bool {
        self.first <= start && self.next.is_none_or(|(_, next)| start < next)
    }

    /// True if an acknowledgement seen at `at` that names `ack` as the next expected byte is its own. The one of its
    /// last byte may be the next flow's, too: by then something of that is missing.
    pub fn has_ack(&self, at: u64, ack: u64) -> bool {
        let last = |(when, next)| ack < next || ack == next && at < when;
        at >= self.begin && self.first <= ack && self.next.is_none_or(last)
    }
}

/// The 64-bit number with these low 32 bits that is nearest to `near`.
pub fn unwrap(near: u64, low: u32) -> u64 {
    near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_has_its_bytes_and_what_acknowledges_them() {
        let span = Span { begin: 10, first: 100, next: Some((50, 200)) };
        assert!(!span.has_data(99) && span.has_data(100) && span.has_data(199) && !span.has_data(200));
        // Before it began, the same number was the end of the flow before.
        assert!(!span.has_ack(9, 100) && span.has_ack(10, 100) && span.has_ack(60, 199));
        assert!(span.has_ack(49, 200) && !span.has_ack(50, 200) && !span.has_ack(49, 201));
        let last = Span { next: None, ..span };
        assert!(last.has_data(1 << 40) && last.has_ack(60, 1 << 40) && !last.has_ack(60, 99));
    }

    #[test]
    fn numbers_wrap_both_ways() {
        assert_eq!(unwrap((1 << 32) - 5, 3), (1 << 32) + 3);
        assert_eq!(unwrap((1 << 32) + 3, u32::MAX), (1 << 32) - 1);
    }
}
