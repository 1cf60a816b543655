//! The host's queueing discipline: one file each, at the granularity of the segments that TCP hands down.

pub mod gate;
pub mod pfifo;

use crate::units::Ps;

/// What waits: a segment of a connection, or a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Key of the flow.
    pub flow: u64,
    /// Bytes on the wire, headers of all its packets included.
    pub bytes: u32,
    /// Packets it becomes.
    pub packets: u16,
    /// Departure time by TCP's pacing; 0 for none.
    pub earliest: Ps,
    /// An acknowledgement without data.
    pub pure_ack: bool,
    /// The host's name for it.
    pub handle: u32,
}

/// No room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped;

/// What may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dequeue {
    /// This.
    Send(Segment),
    /// Nothing before this time.
    At(Ps),
    /// There is nothing.
    Idle,
}

/// What On-Ramp says of a segment that is about to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Go,
    /// Its flow waits until then, and is asked again.
    Wait(Ps),
    /// It is to be cut into packets.
    Cut,
}

/// Whom a gate asks, about the segment with a handle.
pub trait Ask {
    /// Whether it may leave now.
    fn ask(&mut self, handle: u32) -> Verdict;
    /// Cuts it into packets, which take its place.
    fn cut(&mut self, handle: u32) -> Vec<Segment>;
    /// Its connection's pacing rate in bytes per second; 0 for none.
    fn pacing_rate(&self, handle: u32) -> u64;
}

/// A queueing discipline.
pub trait Qdisc {
    /// Takes a segment.
    ///
    /// # Errors
    /// There is no room.
    fn enqueue(&mut self, segment: Segment, now: Ps) -> Result<(), Dropped>;
    /// What leaves, now that the link is free.
    fn dequeue(&mut self, now: Ps, ask: &mut dyn Ask) -> Dequeue;
}
