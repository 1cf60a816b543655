//! A packet: 32 bytes that are copied from queue to queue.
//!
//! Carrying the packet inside queues and events, instead of an index into a
//! slab, keeps memory accesses sequential: the simulator is bound by cache
//! misses, not by instructions.

/// What a packet is for.
///
/// Not an enum: the compiler would keep the tags of `Option` and of events in its
/// unused values, and every copy of a packet would be made in pieces, each waiting
/// for the last (a fifth of the run time).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Priority flow control: pause the data class of the port it arrives at.
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

/// The hosts have no clocks to measure a one-way delay by.
pub const UNMEASURED: i32 = i32::MIN;

/// One packet.
#[derive(Clone, Copy, Debug)]
pub struct Packet {
    /// When the data packet left its host, in nanoseconds of true time (low 32
    /// bits); echoed in its ACK.
    pub sent_ns: u32,
    /// Slot of its flow; of a probe, its number.
    pub flow: u32,
    /// Data: its number in the flow. ACK: the number of the next expected packet.
    pub seq: u32,
    /// Its record in the INT store; without INT, On-Ramp's pause total at its
    /// transmission in nanoseconds (low 32 bits). Echoed in its ACK.
    pub aux: u32,
    /// ACK: the data packet's one-way delay in nanoseconds, by the hosts' clocks,
    /// or [`UNMEASURED`].
    pub owd_ns: i32,
    /// The host it goes to.
    pub dst: u16,
    /// The port it was last sent from.
    pub link: u16,
    /// Bytes on the wire.
    pub size: u16,
    /// What ECMP chooses by.
    pub hash: u16,
    /// What it is for.
    pub kind: Kind,
    /// [`MARKED`], [`AFTER_TIMEOUT`].
    pub flags: u8,
}

impl Packet {
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

/// A 32-bit time or total that wrapped, given the present full value.
#[inline]
pub fn unwrap_ns(now: u64, low: u32) -> u64 {
    now.saturating_sub(u64::from((now as u32).wrapping_sub(low)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_fits_half_a_cache_line() {
        assert_eq!(std::mem::size_of::<Packet>(), 32);
    }

    #[test]
    fn wrapped_times_come_back() {
        let now = (7u64 << 32) + 5;
        for ago in [0, 1, 5, 6, 1_000_000_000, u64::from(u32::MAX)] {
            assert_eq!(unwrap_ns(now, (now - ago) as u32), now - ago);
        }
    }
}
