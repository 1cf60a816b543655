//! A packet: 32 bytes, and what routers write, copied from queue to queue.
//!
//! Carrying the packet inside queues and events, instead of an index into a
//! slab, keeps memory accesses sequential: the simulator is bound by cache
//! misses, not by instructions.

use crate::engine::Travels;
use crate::topology::MAX_NUMBER;

/// What a packet is for.
///
/// Not an enum: the compiler would keep the tags of `Option` and of events in its
/// unused values, and every copy of a packet would be made in pieces, each waiting
/// for the last (a fifth of the run time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kind(u8);

impl Kind {
    /// Payload of a flow.
    pub const DATA: Kind = Kind(0);
    /// Cumulative acknowledgement.
    pub const ACK: Kind = Kind(1);
    /// Acknowledgement that also asks to go back (go-back-N).
    pub const NACK: Kind = Kind(2);
    /// On-Ramp's receive time, as a packet of its own.
    pub const OR_ACK: Kind = Kind(3);
    /// Priority flow control: pause a class of the port it arrives at.
    pub const PAUSE: Kind = Kind(4);
    /// Priority flow control: resume it.
    pub const RESUME: Kind = Kind(5);
    /// A question about the time.
    pub const PROBE: Kind = Kind(6);
    /// The answer to it.
    pub const ECHO: Kind = Kind(7);
}

/// Set on a data packet by a switch (ECN), and on its ACK by the receiver.
pub const MARKED: u8 = 1;
/// Set on a data packet sent after a retransmission timeout: the receiver
/// acknowledges it even if it has it already, since the ACK may have been lost.
pub const AFTER_TIMEOUT: u8 = 2;
/// Set on the last packet of a flow.
pub const LAST: u8 = 4;
/// Set on an ACK that its host sends even while the class is paused.
pub const UNPAUSED: u8 = 8;
const FLAGS: u8 = 0x0f;

/// The hosts have no clocks to measure a one-way delay by.
pub const UNMEASURED: i32 = i32::MIN;

/// The number of a host, or of a port of a cell, in 24 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Number([u8; 3]);

impl Number {
    #[inline]
    fn new(n: u32) -> Self {
        debug_assert!((n as usize) < MAX_NUMBER, "{n} needs more than 24 bits");
        let [a, b, c, _] = n.to_le_bytes();
        Self([a, b, c])
    }

    #[inline]
    fn get(self) -> u32 {
        let [a, b, c] = self.0;
        u32::from_le_bytes([a, b, c, 0])
    }
}

/// One packet; `H` is what routers write into it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packet<H> {
    /// When the data packet left its host, in nanoseconds of true time (low 32
    /// bits); echoed in its ACK.
    pub sent_ns: u32,
    /// Slot of its flow at the end it goes to; of a probe, its number.
    pub flow: u32,
    /// Data: its number in the flow. ACK: the number of the next expected packet.
    /// PFC frame: the class.
    pub seq: u32,
    /// On-Ramp's pause total at its transmission in nanoseconds (low 32 bits);
    /// echoed in its ACK.
    pub paused: u32,
    /// ACK: the data packet's one-way delay in nanoseconds, by the hosts' clocks,
    /// or [`UNMEASURED`].
    pub owd_ns: i32,
    /// Bytes on the wire.
    pub size: u16,
    /// What ECMP chooses by.
    pub hash: u16,
    pub(crate) dst: Number,
    pub(crate) link: Number,
    /// What it is for.
    pub kind: Kind,
    /// Flags in the low half, the class in the high one.
    pub(crate) marks: u8,
    /// What routers wrote; echoed in its ACK.
    pub header: H,
}

impl<H> Packet<H> {
    /// The host it goes to.
    #[inline]
    pub fn dst(&self) -> u32 {
        self.dst.get()
    }

    /// The same to another host.
    #[inline]
    #[must_use]
    pub fn to(self, host: u32) -> Self {
        Self { dst: Number::new(host), ..self }
    }

    /// Puts it on the link that ends at `port` of the next node.
    #[inline]
    pub fn onto(&mut self, port: u32) {
        self.link = Number::new(port);
    }

    /// [`MARKED`], [`AFTER_TIMEOUT`], [`LAST`], [`UNPAUSED`].
    #[inline]
    pub fn flags(&self) -> u8 {
        self.marks & FLAGS
    }

    /// Adds to the flags.
    #[inline]
    pub fn set(&mut self, flags: u8) {
        self.marks |= flags & FLAGS;
    }

    /// The class it queues in: 0 is the control class.
    #[inline]
    pub fn class(&self) -> u8 {
        self.marks >> 4
    }

    /// The same with these flags, in this class.
    #[inline]
    #[must_use]
    pub fn marked(self, flags: u8, class: u8) -> Self {
        Self { marks: flags & FLAGS | class << 4, ..self }
    }

    /// Whether it asks for or tells a time, and belongs to no flow.
    #[inline]
    pub fn is_probe(&self) -> bool {
        matches!(self.kind, Kind::PROBE | Kind::ECHO)
    }

    /// Whether it is a PFC frame, which ends at the next port.
    #[inline]
    pub fn is_pfc(&self) -> bool {
        matches!(self.kind, Kind::PAUSE | Kind::RESUME)
    }
}

impl<H: Copy> Travels for Packet<H> {
    #[inline]
    fn link(&self) -> u32 {
        self.link.get()
    }

    #[inline]
    fn size(&self) -> u16 {
        self.size
    }
}

/// A 32-bit time or total that wrapped, given the present full value.
#[inline]
pub fn unwrap_ns(now: u64, low: u32) -> u64 {
    now.saturating_sub(u64::from((now as u32).wrapping_sub(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_fits_half_a_cache_line_and_a_plain_router_adds_nothing() {
        assert_eq!(size_of::<Packet<()>>(), 32);
    }

    #[test]
    fn flags_and_class_share_a_byte() {
        let mut packet = Packet::<()>::default().marked(LAST, 8).to(100_000);
        packet.set(MARKED);
        assert_eq!((packet.flags(), packet.class(), packet.dst()), (LAST | MARKED, 8, 100_000));
        packet.onto(MAX_NUMBER as u32 - 1);
        assert_eq!(packet.link(), MAX_NUMBER as u32 - 1);
    }

    #[test]
    fn wrapped_times_come_back() {
        let now = (7u64 << 32) + 5;
        for ago in [0, 1, 5, 6, 1_000_000_000, u64::from(u32::MAX)] {
            assert_eq!(unwrap_ns(now, (now - ago) as u32), now - ago);
        }
    }
}
