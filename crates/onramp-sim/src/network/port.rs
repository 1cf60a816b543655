//! The sending end of a link: two FIFO queues, strict priority, PFC.

use super::buffer::Ingress;
use super::ecn::Ecn;
use super::packet::Packet;
use crate::events::LaneCache;
use crate::topology;
use crate::units::{Ps, SEC};
use std::collections::VecDeque;

/// One port; also the accounts of what arrives on the same link.
#[derive(Debug)]
pub struct Port {
    /// A packet is being sent.
    pub busy: bool,
    /// The data class is paused by the other end.
    pub paused: bool,
    /// The node behind this port's queues is a host.
    pub host: bool,
    /// Picoseconds per byte, in 2^-16.
    ps_per_byte: u64,
    /// Delay of the link.
    pub delay: Ps,
    /// Bytes waiting in the data queue.
    pub data_bytes: u64,
    /// The data class; a host's NIC keeps its flows elsewhere.
    pub data: VecDeque<Packet>,
    /// The control class.
    pub control: VecDeque<Packet>,
    /// When packets are marked.
    pub ecn: Ecn,
    /// Accounts of what came in from the other end.
    pub ingress: Ingress,
    /// Event lanes of the usual packet sizes.
    pub lanes: LaneCache,
    /// The node this port belongs to.
    pub node: u32,
    /// The node at the other end.
    pub to: u32,
    /// The other end's port.
    pub reverse: u32,
    /// Rate in bits per second.
    pub rate: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// When the present pause began.
    pub paused_at: Ps,
    /// Pauses received, and time spent paused.
    pub pauses: u64,
    /// Time spent paused in all finished pauses.
    pub paused_for: Ps,
}

impl Port {
    /// An idle port.
    pub fn new(port: &topology::Port, host: bool, ecn: Ecn, ingress: Ingress) -> Self {
        Self {
            busy: false,
            paused: false,
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

    /// Time the waiting data will take to send, in picoseconds.
    pub fn queue_delay(&self) -> Ps {
        (self.data_bytes * self.ps_per_byte) >> 16
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
