//! The host's queueing discipline: one file each, at the granularity of the segments that TCP hands down.
//! "Packets" in the kernel's limits are these segments, until a gate or the NIC cuts them.

pub mod egress;
pub mod fq;
pub mod fq_codel;
pub mod gate;
pub mod pfifo;

use onramp_config::units::Ps;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The queueing discipline of hosts without On-Ramp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HostQdisc {
    /// Fair queueing with CoDel: what distributions install.
    FqCodel,
    /// Fair queueing with pacing: what BBR's authors recommend.
    Fq,
    /// A plain queue.
    Pfifo,
    /// One pacer for all connections; simulated only.
    Egress,
}

impl HostQdisc {
    /// Its name in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::FqCodel => "fq_codel",
            Self::Fq => "fq",
            Self::Pfifo => "pfifo",
            Self::Egress => "egress",
        }
    }

    /// An empty one, where a full packet has `mtu` bytes with its Ethernet header. `seed` is for what is drawn.
    pub fn build(self, mtu: u32, seed: u64) -> Box<dyn Qdisc + Send + Sync> {
        match self {
            Self::FqCodel => Box::new(fq_codel::FqCodel::new(&Default::default(), mtu, seed)),
            Self::Fq => Box::new(fq::Fq::new(&Default::default(), mtu)),
            Self::Pfifo => Box::new(pfifo::Pfifo::default()),
            Self::Egress => Box::new(egress::Egress::default()),
        }
    }
}

/// Entry of a queue: a segment of a connection, or a packet.
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
    /// Its ECN field: if it may be marked, and if it is.
    pub ecn: Ecn,
    /// The host's name for it.
    pub handle: u32,
}

/// Explicit congestion notification in a segment's IP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ecn {
    /// It may not be marked, and is dropped instead.
    #[default]
    Incapable,
    /// It may be marked.
    Capable,
    /// It has been.
    Marked,
}

/// Why TCP is to slow down at once, as for a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped {
    /// There is no room: TCP still has the segment to send.
    Refused,
    /// The segment was taken, and others of its queue, or itself, were dropped ([`Qdisc::drain`]).
    Behind,
}

/// Answer of a queue that is asked for a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dequeue {
    /// This.
    Send(Segment),
    /// Nothing before this time.
    At(Ps),
    /// There is nothing.
    Idle,
}

/// On-Ramp's verdict on a segment that is about to leave.
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
    /// Asks if it may leave now.
    fn ask(&mut self, handle: u32) -> Verdict;
    /// Cuts it into packets, which take its place.
    fn cut(&mut self, handle: u32) -> Vec<Segment>;
    /// Its connection's pacing rate in bytes per second; 0 for none.
    fn pacing_rate(&self, handle: u32) -> u64;
    /// Bytes that its connection keeps: not sent, or not acknowledged, with the kernel's own for each segment.
    fn kept(&self, handle: u32) -> u64;
}

/// A queueing discipline.
pub trait Qdisc: Debug {
    /// Takes a segment.
    ///
    /// # Errors
    /// TCP is to slow down.
    fn enqueue(&mut self, segment: Segment, now: Ps) -> Result<(), Dropped>;
    /// Takes the segment that leaves, now that the link is free.
    fn dequeue(&mut self, now: Ps, ask: &mut dyn Ask) -> Dequeue;
    /// Moves to `dropped` what was taken and has been dropped since.
    fn drain(&mut self, _dropped: &mut Vec<Segment>) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A full packet of connection 1.
    pub(super) const SEGMENT: Segment =
        Segment { flow: 1, bytes: 1_514, packets: 1, earliest: 0, pure_ack: false, ecn: Ecn::Incapable, handle: 0 };

    /// Who is not asked.
    struct Nobody;

    impl Ask for Nobody {
        fn ask(&mut self, _: u32) -> Verdict {
            Verdict::Go
        }

        fn cut(&mut self, _: u32) -> Vec<Segment> {
            vec![]
        }

        fn pacing_rate(&self, _: u32) -> u64 {
            0
        }

        fn kept(&self, _: u32) -> u64 {
            0
        }
    }

    /// Takes `handle` of `flow` with so many bytes.
    pub(super) fn take<Q: Qdisc>(q: &mut Q, now: Ps, flow: u64, handle: u32, bytes: u32) {
        assert_eq!(q.enqueue(Segment { flow, handle, bytes, ..SEGMENT }, now), Ok(()));
    }

    /// Takes the segment that it sends now.
    pub(super) fn next<Q: Qdisc>(q: &mut Q, now: Ps) -> Dequeue {
        q.dequeue(now, &mut Nobody)
    }

    /// The handles of that, and of what follows it.
    pub(super) fn sent<Q: Qdisc>(q: &mut Q, now: Ps, most: usize) -> Vec<u32> {
        let send = || match next(q, now) {
            Dequeue::Send(segment) => Some(segment.handle),
            _ => None,
        };
        std::iter::from_fn(send).take(most).collect()
    }
}
