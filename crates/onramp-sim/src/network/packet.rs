//! A packet: 28 bytes, and what switches write, copied from queue to queue.
//!
//! Carrying the packet inside queues and events, instead of an index into a
//! slab, keeps memory accesses sequential: the simulator is bound by cache
//! misses, not by instructions.

use onramp_topology::MAX_HOSTS;

/// Kind of a packet.
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
    /// The opening of a connection and the answer to it (TCP, which has no NACK).
    pub const SYN: Kind = Kind(2);
}

/// Set on a data packet by a switch (ECN), and on its ACK by the receiver.
pub const MARKED: u8 = 1;
/// Set on a data packet sent after a retransmission timeout: the receiver
/// acknowledges it even if it has it already, since the ACK may have been lost.
pub const AFTER_TIMEOUT: u8 = 2;
/// Set on TCP's data packet if an OR-ACK for it may be for an earlier one.
pub const AMBIGUOUS: u8 = AFTER_TIMEOUT;
/// Set on a data packet to which an acknowledgement is wanted at once (reliable unordered delivery).
pub const ACK_REQUEST: u8 = AFTER_TIMEOUT;
/// Set on the last packet of a flow.
pub const LAST: u8 = 4;
/// Set on an OR-ACK that tells no receive time but the credit granted so far (receiver-credit congestion control).
pub const CREDIT: u8 = LAST;
/// Set on an ACK that its host sends even while the class is paused.
pub const UNPAUSED: u8 = 8;
/// Set on a data packet whose payload a switch has cut off: its header alone goes on.
pub const TRIMMED: u8 = UNPAUSED;

/// Number of a header without a packet, by which a sender asks for credit.
pub const NO_PACKET: u32 = u32::MAX;

/// In the slot of a packet's flow: it is a connection's (TCP).
pub const TCP: u32 = 1 << 31;

/// Bytes as TCP's options tell them, by the low 32 bits of their numbers: the blocks of a selective
/// acknowledgement; of data, what the application expects, in the first place.
pub type Options = [(u32, u32); 3];

/// Bits of a data packet's `owd_ns` that tell when it left; what its sender asks for in credit is above them.
pub const LEFT_BITS: u32 = 10;

/// The hosts have no clocks to measure a one-way delay by.
pub const UNMEASURED: i32 = i32::MIN;

/// Host, kind, flags and class of a packet in 32 bits.
///
/// Not an enum among fields: the compiler would keep the tags of `Option` and of events in
/// its unused values, and every copy of a packet would be made in pieces, each waiting for
/// the last (a fifth of the run time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label(u32);

impl Label {
    const HOST: u32 = 0;
    const KIND: u32 = 21;
    const FLAGS: u32 = 24;
    const CLASS: u32 = 28;

    #[inline]
    fn get(self, first: u32, end: u32) -> u32 {
        self.0 << (32 - end) >> (32 - end + first)
    }

    #[inline]
    fn with(self, first: u32, end: u32, value: u32) -> Self {
        let bits = u32::MAX << (32 - end) >> (32 - end + first);
        debug_assert!(value <= bits, "{value} needs more than {} bits", end - first);
        Self(self.0 & !(bits << first) | value << first)
    }
}

const _: () = assert!(MAX_HOSTS == 1 << Label::KIND);

/// One packet; `H` is what switches write into it.
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
    /// or `UNMEASURED`. RDMA's data: picoseconds since `sent_ns` when it left, and with
    /// credits what its sender asks for (`LEFT_BITS`).
    pub owd_ns: i32,
    /// Bytes on the wire.
    pub size: u16,
    /// Hash that ECMP chooses by.
    pub hash: u16,
    pub(crate) label: Label,
    /// Feedback of the switches passed so far; echoed in its ACK.
    pub header: H,
}

impl<H> Packet<H> {
    /// The host it goes to.
    #[inline]
    pub fn dst(&self) -> u32 {
        self.label.get(Label::HOST, Label::KIND)
    }

    /// The same to another host.
    #[inline]
    #[must_use]
    pub fn to(self, host: u32) -> Self {
        Self { label: self.label.with(Label::HOST, Label::KIND, host), ..self }
    }

    /// The same without what switches have written.
    pub fn bare(&self) -> Packet<()> {
        let Self { sent_ns, flow, seq, paused, owd_ns, size, hash, label, .. } = *self;
        Packet { sent_ns, flow, seq, paused, owd_ns, size, hash, label, header: () }
    }

    /// Its kind.
    #[inline]
    pub fn kind(&self) -> Kind {
        Kind(self.label.get(Label::KIND, Label::FLAGS) as u8)
    }

    /// The same as a packet of another kind.
    #[inline]
    #[must_use]
    pub fn as_a(self, kind: Kind) -> Self {
        Self { label: self.label.with(Label::KIND, Label::FLAGS, u32::from(kind.0)), ..self }
    }

    /// `MARKED`, `AFTER_TIMEOUT`, `LAST`, `UNPAUSED` or `TRIMMED`.
    #[inline]
    pub fn flags(&self) -> u8 {
        self.label.get(Label::FLAGS, Label::CLASS) as u8
    }

    /// Adds to the flags.
    #[inline]
    pub fn set(&mut self, flags: u8) {
        self.label.0 |= u32::from(flags) << Label::FLAGS;
    }

    /// The class it queues in: 0 is the control class.
    #[inline]
    pub fn class(&self) -> u8 {
        self.label.get(Label::CLASS, 32) as u8
    }

    /// The same with these flags, in this class.
    #[inline]
    #[must_use]
    pub fn marked(self, flags: u8, class: u8) -> Self {
        let label = self.label.with(Label::FLAGS, Label::CLASS, u32::from(flags));
        Self { label: label.with(Label::CLASS, 32, u32::from(class)), ..self }
    }

    /// Tells it from others: its flow, its number, and when it left.
    pub fn identity(&self) -> (u32, u32, u32) {
        (self.flow, self.seq, self.sent_ns)
    }

    /// True if it asks for or tells a time, and belongs to no flow.
    #[inline]
    pub fn is_probe(&self) -> bool {
        matches!(self.kind(), Kind::PROBE | Kind::ECHO)
    }

    /// True if it is a PFC frame, which ends at the next port.
    #[inline]
    pub fn is_pfc(&self) -> bool {
        matches!(self.kind(), Kind::PAUSE | Kind::RESUME)
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
    use crate::engine::OnLink;

    #[test]
    fn a_packet_with_its_link_fits_half_a_cache_line_and_no_feedback_adds_nothing() {
        assert_eq!((size_of::<Packet<()>>(), size_of::<OnLink<Packet<()>>>()), (28, 32));
    }

    #[test]
    fn host_kind_flags_and_class_share_a_word() {
        let last = MAX_HOSTS as u32 - 1;
        let mut packet = Packet::<()>::default().marked(LAST, 8).to(last).as_a(Kind::ECHO);
        packet.set(MARKED);
        assert_eq!((packet.flags(), packet.class(), packet.dst(), packet.kind()), (LAST | MARKED, 8, last, Kind::ECHO));
        let packet = packet.to(1).as_a(Kind::DATA).marked(0, 0);
        assert_eq!((packet.flags(), packet.class(), packet.dst(), packet.kind()), (0, 0, 1, Kind::DATA));
    }

    #[test]
    fn wrapped_times_come_back() {
        let now = (7u64 << 32) + 5;
        for ago in [0, 1, 5, 6, 1_000_000_000, u64::from(u32::MAX)] {
            assert_eq!(unwrap_ns(now, (now - ago) as u32), now - ago);
        }
    }
}
