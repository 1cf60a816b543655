//! The sending end of a link, its queues, and the accounts of PFC pauses.

use super::ecn::Ecn;
use super::packet::Packet;
use crate::engine::{LaneCache, Lanes, OnLink, prefetch};
use onramp_config::units::{Ps, Rate, SEC};
use onramp_topology::Topology;
use onramp_workload::state::Encoder;
use std::collections::VecDeque;

/// The other end of a link is in the same cell.
pub const HERE: u16 = u16::MAX;

/// One port: what every packet needs, in a cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
pub struct Port {
    /// Picoseconds per byte, in 2^-16.
    ps_per_byte: u64,
    /// When the packet being sent will be out.
    pub free_at: Ps,
    /// Bytes of all packets whose sending has begun.
    pub tx_bytes: u64,
    /// Delay of the link.
    pub delay: Ps,
    /// The switch this port belongs to, or the NIC, as the cell counts them.
    pub owner: u32,
    /// The other end's port, as its cell counts them.
    pub peer: u32,
    /// The other end's cell, or [`HERE`].
    pub cell: u16,
    /// Classes with packets, a bit each; a host's flows are kept elsewhere.
    pub waiting: u16,
    /// Classes paused by the other end.
    pub paused: u16,
    /// It will be told when the packet being sent is out. A host's port always is; a
    /// switch's only if something waits, which two thirds of all packets do not.
    pub told: bool,
    /// It belongs to a host.
    pub host: bool,
    /// Event lanes of the usual packet sizes.
    pub lanes: LaneCache,
}

/// Picoseconds per byte, in 2^-16.
fn ps_per_byte(rate: Rate) -> u64 {
    ((u128::from(8 * SEC) << 16) / u128::from(rate.0)) as u64
}

#[inline]
fn time_for(size: u16, ps_per_byte: u64) -> Ps {
    (u64::from(size) * ps_per_byte + 0xffff) >> 16
}

/// The event lanes of a whole network, for the usual sizes of packets.
pub fn lanes(topology: &Topology, sizes: &[u16], by_link: bool) -> Lanes {
    let mut lanes = Lanes::by_link(by_link);
    for port in topology.ports() {
        let rate = ps_per_byte(port.rate);
        lanes.of(sizes, |size| time_for(size, rate), port.delay);
    }
    lanes
}

impl Port {
    /// An idle port.
    pub fn new(port: &onramp_topology::Port, host: bool, owner: u32, cell: u16, peer: u32) -> Self {
        Self {
            ps_per_byte: ps_per_byte(port.rate),
            free_at: 0,
            tx_bytes: 0,
            delay: port.delay,
            owner,
            peer,
            cell,
            waiting: 0,
            paused: 0,
            told: false,
            host,
            lanes: LaneCache::default(),
        }
    }

    /// Time to send `size` bytes, rounded up to a picosecond.
    #[inline]
    pub fn time_for(&self, size: u16) -> Ps {
        time_for(size, self.ps_per_byte)
    }

    /// True if a packet of `class` can leave at once, without being queued.
    #[inline]
    pub fn idle(&self, class: u8, now: Ps) -> bool {
        self.free_at <= now && !self.told && self.waiting == 0 && self.paused >> class & 1 == 0
    }

    /// Classes that have packets and may send.
    #[inline]
    pub fn ready(&self) -> u16 {
        self.waiting & !self.paused
    }

    /// Time that `bytes` take to send, in picoseconds.
    pub fn queue_delay(&self, bytes: u64) -> Ps {
        ((u128::from(bytes) * u128::from(self.ps_per_byte)) >> 16) as Ps
    }

    /// Takes down its state; it is busy while a packet is being sent or waits.
    pub fn encode(&self, state: &mut Encoder) {
        let Self {
            ps_per_byte: _,
            free_at,
            tx_bytes: _,
            delay: _,
            owner: _,
            peer: _,
            cell: _,
            waiting,
            paused,
            told,
            host: _,
            lanes: _,
        } = *self;
        if told || waiting != 0 || free_at > state.now() {
            state.busy();
        }
        state.word(paused);
    }

    /// Time spent sending up to `now`, in picoseconds.
    pub fn sending(&self, now: Ps) -> Ps {
        self.queue_delay(self.tx_bytes).saturating_sub(self.free_at.saturating_sub(now))
    }
}

/// A queue of one class.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub struct Queue<H> {
    packets: VecDeque<OnLink<Packet<H>>>,
    /// Bytes waiting.
    pub bytes: u64,
    /// When packets are marked.
    pub ecn: Ecn,
}

impl<H: Copy> Queue<H> {
    /// An empty queue.
    pub fn new(ecn: Ecn) -> Self {
        Self { packets: VecDeque::new(), bytes: 0, ecn }
    }

    /// Adds a packet; PFC frames go before all others.
    #[inline(always)]
    pub fn push(&mut self, on: OnLink<Packet<H>>) {
        self.bytes += u64::from(on.packet.size);
        if on.packet.is_pfc() {
            let frames = self.packets.iter().take_while(|p| p.packet.is_pfc()).count();
            return self.packets.insert(frames, on);
        }
        self.packets.push_back(on);
    }

    /// Takes the first packet.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<OnLink<Packet<H>>> {
        let on = self.packets.pop_front()?;
        self.bytes -= u64::from(on.packet.size);
        if self.packets.is_empty() {
            // Start over at the front: a queue that was once long would else walk
            // through all of its memory, and out of the cache.
            self.packets.clear();
        }
        Some(on)
    }

    /// Fetches its first packet.
    #[inline]
    pub fn prefetch(&self) {
        if let Some(first) = self.packets.front() {
            prefetch(std::slice::from_ref(first), 0);
        }
    }

    /// Ports by which its packets have come in, one for each packet.
    pub fn links(&self) -> impl Iterator<Item = u32> {
        self.packets.iter().map(|on| on.link)
    }

    /// Packets in it.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True if there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }
}

/// How often and how long a class of a port has been paused.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pauses {
    /// Pauses received.
    pub count: u64,
    since: Option<Ps>,
    ended: Ps,
}

impl Pauses {
    /// A frame has come; the start of the pause that it ends, if it ends one.
    pub fn set(&mut self, paused: bool, now: Ps) -> Option<Ps> {
        match (paused, self.since) {
            (true, None) => {
                self.count += 1;
                self.since = Some(now);
                None
            }
            (false, Some(since)) => {
                self.ended += now - since;
                self.since.take()
            }
            _ => None,
        }
    }

    /// Start of the pause under way; of one that was under way when counting began, that time.
    pub fn since(&self) -> Option<Ps> {
        self.since
    }

    /// Time spent paused up to `now`.
    pub fn total(&self, now: Ps) -> Ps {
        self.ended + self.since.map_or(0, |since| now - since)
    }

    /// Counts so much more.
    pub fn add(&mut self, count: u64, time: Ps) {
        self.count += count;
        self.ended += time;
    }

    /// Counts from `now` on.
    pub fn begin(&mut self, now: Ps) {
        *self = Self { since: self.since.map(|_| now), ..Self::default() };
    }
}

/// A pause of a class of a port, in the engine's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// The port, as its cell counts them.
    pub port: u32,
    /// The class; 0 is the control class.
    pub class: u8,
    /// Start.
    pub start: Ps,
    /// End.
    pub end: Ps,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_and_a_queue_are_a_cache_line_each() {
        assert_eq!((size_of::<Port>(), size_of::<Queue<()>>()), (64, 64));
    }
}
