//! The state of a flow at both its ends, and the slab that holds all flows alive.

use crate::prefetch::prefetch;
use crate::slab::Slab;
use crate::transport::Cc;
use crate::units::Ps;

/// A flow as its source describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFlow {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// How much it sends.
    pub size: Size,
    /// The scenario's traffic section it comes from.
    pub traffic: u32,
    /// The request it is part of.
    pub request: Option<RequestPart>,
}

/// How much a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many bytes of payload.
    Bytes(u64),
    /// As much as it can until this time.
    Until(Ps),
}

/// Which request a flow is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestPart {
    /// Number of the request within its traffic section.
    pub number: u64,
    /// Flows the request has in all.
    pub flows: u32,
}

/// A flow alive. Packets are numbered from 0; all numbers are of packets.
#[derive(Clone, Debug)]
pub struct Flow {
    /// First unacknowledged packet.
    pub acked: u32,
    /// Next packet to send.
    pub next: u32,
    /// Number of packets; the largest number for a flow without end.
    pub packets: u32,
    /// One beyond the last packet ever sent.
    pub sent: u32,
    /// Bytes on the wire of a full and of the last packet.
    pub full_size: u16,
    /// See `full_size`.
    pub last_size: u16,
    /// Bytes on the wire of the packet sent last, and when it left.
    pub spaced_size: u16,
    /// See `spaced_size`.
    pub spaced_at: Ps,
    /// When the controller allows the next packet.
    pub t_next: Ps,
    /// Time of the NIC's valid pacer entry; `Ps::MAX` if there is none.
    pub wake: Ps,
    /// The flow is in the NIC's ready list.
    pub ready: bool,
    /// All packets are acknowledged; the slot is kept for packets under way.
    pub done: bool,
    /// One-way delays of this flow are recorded.
    pub watch_owd: Option<u32>,
    /// Packets of this flow in the network, ACKs included.
    pub under_way: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// What ECMP hashes for data, and for ACKs.
    pub hash: u16,
    /// See `hash`.
    pub ack_hash: u16,
    /// Congestion control.
    pub cc: Cc,

    /// Receiver: next packet in order.
    pub expected: u32,
    /// Receiver: the gap last reported, and when.
    pub nacked: u32,
    /// See `nacked`.
    pub nacked_at: Ps,
    /// Receiver: when the newest packet in order came.
    pub received_at: Ps,
    /// Receiver: data packets since the last separate OR-ACK.
    pub since_or_ack: u32,

    /// Number in order of arrival.
    pub id: u64,
    /// When it arrived.
    pub start: Ps,
    /// See [`NewFlow`].
    pub traffic: u32,
    /// The request it is part of, numbered in order of arrival.
    pub request: Option<u64>,
    /// Payload in bytes.
    pub bytes: u64,
    /// When the sender last made progress, for the retransmission timeout.
    pub progress_at: Ps,
    /// Packets sent again.
    pub retransmitted: u32,
    /// Timeouts, and timeouts since the last progress.
    pub timeouts: u32,
    /// See `timeouts`.
    pub backoff: u32,
}

impl Flow {
    /// Bytes on the wire of packet `seq`.
    #[inline]
    pub fn size_of(&self, seq: u32) -> u16 {
        if seq + 1 == self.packets { self.last_size } else { self.full_size }
    }
}

/// All flows alive, by slot.
#[derive(Debug, Default)]
pub struct Flows(Slab<Flow>);

impl Flows {
    /// Puts a flow into a slot.
    pub fn insert(&mut self, flow: Flow) -> u32 {
        self.0.insert(flow)
    }

    /// Frees the slot of a finished flow if no packet refers to it any more.
    pub fn reclaim(&mut self, slot: u32) {
        let flow = &mut self.0[slot];
        if flow.done && !flow.ready && flow.under_way == 0 {
            // Never 0 again, so a slot is not freed twice.
            flow.under_way = u32::MAX;
            self.0.remove(slot);
        }
    }

    /// Asks for a flow's first cache lines.
    #[inline]
    pub fn prefetch(&self, slot: u32) {
        prefetch(self.0.slots(), slot as usize);
    }

    /// Slots of flows that are not done, in order.
    pub fn alive(&self) -> impl Iterator<Item = u32> {
        (0..).zip(self.0.slots()).filter(|(_, flow)| !flow.done).map(|(slot, _)| slot)
    }
}

impl std::ops::Index<u32> for Flows {
    type Output = Flow;

    #[inline]
    fn index(&self, slot: u32) -> &Flow {
        &self.0[slot]
    }
}

impl std::ops::IndexMut<u32> for Flows {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Flow {
        &mut self.0[slot]
    }
}
