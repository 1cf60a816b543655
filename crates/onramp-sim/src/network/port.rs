//! The sending end of a link: two FIFO queues, strict priority, PFC.

use super::buffer::Ingress;
use super::ecn::Ecn;
use super::packet::Packet;
use crate::events::LaneCache;
use crate::topology;
use crate::units::{Ps, SEC};
use std::collections::VecDeque;

/// One port; also the accounts of what arrives on the same link. Fields are in
/// the order of use: what every packet needs shares the first cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// The data class; a host's NIC keeps its flows elsewhere.
    data: VecDeque<Packet>,
    /// Bytes waiting in the data queue.
    pub data_bytes: u64,
    /// Picoseconds per byte, in 2^-16.
    ps_per_byte: u64,
    /// The node this port belongs to.
    pub node: u32,
    /// The other end's port.
    pub reverse: u32,
    /// A packet is being sent.
    pub busy: bool,
    /// The data class is paused by the other end.
    pub paused: bool,
    /// The node behind this port's queues is a host.
    pub host: bool,
    /// The control class has packets.
    control_waits: bool,

    /// Bytes of all packets whose sending has begun.
    pub tx_bytes: u64,
    /// When the packet being sent will be out.
    pub free_at: Ps,
    /// Delay of the link.
    pub delay: Ps,
    /// When packets are marked.
    pub ecn: Ecn,
    /// Event lanes of the usual packet sizes.
    pub lanes: LaneCache,
    /// Rate in bits per second.
    pub rate: u64,

    /// Accounts of what came in from the other end.
    pub ingress: Ingress,

    /// The control class.
    control: VecDeque<Packet>,
    /// The node at the other end.
    pub to: u32,
    /// When the present pause began.
    paused_at: Ps,
    /// Pauses received.
    pub pauses: u64,
    /// Time spent paused in all finished pauses.
    paused_for: Ps,
}

impl Port {
    /// An idle port.
    pub fn new(port: &topology::Port, host: bool, ecn: Ecn, ingress: Ingress) -> Self {
        Self {
            busy: false,
            paused: false,
            control_waits: false,
            host,
            ps_per_byte: ((u128::from(8 * SEC) << 16) / u128::from(port.rate.0)) as u64,
            delay: port.delay,
            data_bytes: 0,
            data: VecDeque::new(),
            control: VecDeque::new(),
            ecn,
            ingress,
            lanes: LaneCache::default(),
            node: port.from,
            to: port.to,
            reverse: port.reverse,
            rate: port.rate.0,
            tx_bytes: 0,
            free_at: 0,
            paused_at: 0,
            pauses: 0,
            paused_for: 0,
        }
    }

    /// Time to send `size` bytes, rounded up to a picosecond.
    #[inline]
    pub fn time_for(&self, size: u16) -> Ps {
        (u64::from(size) * self.ps_per_byte + 0xffff) >> 16
    }

    /// Whether a packet can leave at once, without being queued.
    #[inline]
    pub fn idle(&self) -> bool {
        !self.busy && !self.paused && !self.control_waits && self.data.is_empty()
    }

    /// Queues a packet of the data class.
    #[inline]
    pub fn push_data(&mut self, packet: Packet) {
        self.data_bytes += u64::from(packet.size);
        self.data.push_back(packet);
    }

    /// Queues a packet of the control class; PFC frames go before all others.
    pub fn push_control(&mut self, packet: Packet) {
        let frames =
            if packet.is_pfc() { self.control.iter().take_while(|p| p.is_pfc()).count() } else { self.control.len() };
        self.control.insert(frames, packet);
        self.control_waits = true;
    }

    /// The packet to send next: control first, data unless it is paused.
    #[inline]
    pub fn pop(&mut self) -> Option<Packet> {
        if self.control_waits {
            let packet = self.control.pop_front();
            self.control_waits = !self.control.is_empty();
            return packet;
        }
        if self.paused {
            return None;
        }
        let packet = self.data.pop_front()?;
        self.data_bytes -= u64::from(packet.size);
        if self.data.is_empty() {
            // Start over at the front: a queue that was once long would else walk
            // through all of its memory, and out of the cache.
            self.data.clear();
        }
        Some(packet)
    }

    /// Packets in both queues.
    pub fn waiting(&self) -> usize {
        self.data.len() + self.control.len()
    }

    /// Time the waiting data will take to send, in picoseconds.
    pub fn queue_delay(&self) -> Ps {
        ((u128::from(self.data_bytes) * u128::from(self.ps_per_byte)) >> 16) as Ps
    }

    /// Time spent sending up to `now`, in picoseconds.
    pub fn sending(&self, now: Ps) -> Ps {
        let begun = ((u128::from(self.tx_bytes) * u128::from(self.ps_per_byte)) >> 16) as Ps;
        begun.saturating_sub(self.free_at.saturating_sub(now))
    }

    /// Pauses or resumes the data class.
    pub fn set_paused(&mut self, paused: bool, now: Ps) {
        if paused && !self.paused {
            self.pauses += 1;
            self.paused_at = now;
        } else if !paused && self.paused {
            self.paused_for += now - self.paused_at;
        }
        self.paused = paused;
    }

    /// Time spent paused up to `now`.
    pub fn paused_total(&self, now: Ps) -> Ps {
        self.paused_for + if self.paused { now - self.paused_at } else { 0 }
    }
}
