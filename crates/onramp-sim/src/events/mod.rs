//! The event queue.
//!
//! Nearly all events of a packet network lie a *constant* time ahead: sending a
//! full packet on a 100 Gb/s link takes 83.84 ns and arrives 1 µs later, always.
//! Events with the same constant form a FIFO, a *lane*; the next event overall
//! is the earliest head of a handful of lanes. That needs no comparison of
//! events with each other, and touches memory in sequence. What has no lane of
//! its own (odd packet sizes, timers) goes through a timing wheel.
//!
//! Events at the same time come in a fixed order: by lane, first in first out;
//! in the wheel by kind and number.

mod wheel;

use crate::clock::Tick;
use crate::network::Packet;
use crate::slab::Slab;
use crate::units::Ps;
use std::collections::{HashMap, VecDeque};
use wheel::Wheel;

/// What happens.
#[derive(Clone, Copy, Debug)]
pub enum Event {
    /// A packet arrives at the far end of the link it names.
    Arrive(Packet),
    /// A port has sent its packet.
    PortReady(u32),
    /// Something that happens seldom.
    Timer(Timer),
}

/// Events other than packets and ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A source of flows has an arrival.
    Source(u32),
    /// A long flow stops.
    Stop(u32),
    /// A host's NIC has a paced or held flow due.
    Wake(u32),
    /// Look for flows whose retransmission timeout has passed.
    Timeouts,
    /// Sample queues and rates.
    Sample,
    /// Something about the clocks.
    Clock(Tick),
}

/// The next event of the same lane: likely to come in a few events' time, so
/// its data can be fetched into the cache meanwhile.
#[derive(Clone, Copy, Debug)]
pub enum Ahead {
    /// Unknown.
    Nothing,
    /// A packet of `flow` will arrive over `link`.
    Arrive {
        /// Port it was sent from.
        link: u16,
        /// Slot of its flow.
        flow: u32,
    },
    /// A port will be free.
    PortReady(u32),
}

/// What the wheel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rare {
    Arrive(u32),
    PortReady(u32),
    Timer(Timer),
}

/// Lanes at most; the rest of the delays goes through the wheel.
const MAX_LANES: usize = 28;
const NO_LANE: u8 = u8::MAX;

/// A port's lanes for the two packet sizes that make up most of the traffic.
#[derive(Clone, Copy, Debug)]
pub struct LaneCache {
    sizes: [u16; 2],
    arrive: [u8; 2],
    ready: [u8; 2],
}

impl Default for LaneCache {
    fn default() -> Self {
        Self { sizes: [0; 2], arrive: [NO_LANE; 2], ready: [NO_LANE; 2] }
    }
}

impl LaneCache {
    #[inline]
    fn index(&self, size: u16) -> Option<usize> {
        if size == self.sizes[0] {
            Some(0)
        } else if size == self.sizes[1] {
            Some(1)
        } else {
            None
        }
    }
}

#[derive(Debug)]
enum Lane {
    Arrive(VecDeque<(Ps, Packet)>),
    Ready(VecDeque<(Ps, u32)>),
}

/// Pending events in order of time.
#[derive(Debug)]
pub struct Events {
    /// Time of each lane's head, then of the wheel's; `Ps::MAX` if empty.
    heads: Vec<Ps>,
    lanes: Vec<Lane>,
    wheel: Wheel<Rare>,
    /// Packets of arrivals in the wheel.
    packets: Slab<Packet>,
    /// Lane of each delay, for arrivals and for ports.
    known: HashMap<(bool, Ps), u8>,
}

impl Default for Events {
    fn default() -> Self {
        Self {
            heads: vec![Ps::MAX],
            lanes: vec![],
            wheel: Wheel::default(),
            packets: Slab::default(),
            known: HashMap::new(),
        }
    }
}

impl Events {
    /// Gives a port its lanes: `sizes` are the usual packet sizes, `times` what
    /// sending them takes, `delay` the link's.
    pub fn lanes_for(&mut self, sizes: [u16; 2], times: [Ps; 2], delay: Ps) -> LaneCache {
        let arrive = times.map(|t| self.lane(true, t + delay));
        let ready = times.map(|t| self.lane(false, t));
        LaneCache { sizes, arrive, ready }
    }

    fn lane(&mut self, arrive: bool, delay: Ps) -> u8 {
        if let Some(&lane) = self.known.get(&(arrive, delay)) {
            return lane;
        }
        if self.lanes.len() == MAX_LANES {
            return NO_LANE;
        }
        self.lanes.push(if arrive { Lane::Arrive(VecDeque::new()) } else { Lane::Ready(VecDeque::new()) });
        self.heads.insert(self.lanes.len() - 1, Ps::MAX);
        let lane = (self.lanes.len() - 1) as u8;
        self.known.insert((arrive, delay), lane);
        lane
    }

    /// A packet of a port with `lanes` arrives at `at`.
    #[inline]
    pub fn arrive(&mut self, lanes: &LaneCache, at: Ps, packet: Packet) {
        if let Some(i) = lanes.index(packet.size)
            && let Some(Lane::Arrive(queue)) = self.lanes.get_mut(usize::from(lanes.arrive[i]))
        {
            let head = &mut self.heads[usize::from(lanes.arrive[i])];
            *head = at.min(*head);
            queue.push_back((at, packet));
            return;
        }
        let id = self.packets.insert(packet);
        self.rare(at, Rare::Arrive(id));
    }

    /// `port` with `lanes` will have sent a packet of `size` at `at`.
    #[inline]
    pub fn port_ready(&mut self, lanes: &LaneCache, size: u16, at: Ps, port: u32) {
        if let Some(i) = lanes.index(size)
            && let Some(Lane::Ready(queue)) = self.lanes.get_mut(usize::from(lanes.ready[i]))
        {
            let head = &mut self.heads[usize::from(lanes.ready[i])];
            *head = at.min(*head);
            queue.push_back((at, port));
            return;
        }
        self.rare(at, Rare::PortReady(port));
    }

    /// `timer` is due at `at`.
    pub fn timer(&mut self, at: Ps, timer: Timer) {
        self.rare(at, Rare::Timer(timer));
    }

    fn rare(&mut self, at: Ps, event: Rare) {
        self.wheel.push(at, event);
        let head = self.heads.last_mut().expect("the wheel has a head");
        *head = at.min(*head);
    }

    /// Time of the next event and where it is.
    #[inline]
    fn earliest(&self) -> (Ps, usize) {
        let mut best = (self.heads[0], 0);
        for (i, &at) in self.heads.iter().enumerate().skip(1) {
            if at < best.0 {
                best = (at, i);
            }
        }
        best
    }

    /// Takes the next event if it is due by `limit`, and tells what will be
    /// needed a few events later.
    #[inline]
    pub fn pop(&mut self, limit: Ps) -> Option<(Ps, Event, Ahead)> {
        let (at, lane) = self.earliest();
        if at > limit || at == Ps::MAX {
            return None;
        }
        let (event, next, ahead) = match self.lanes.get_mut(lane) {
            Some(Lane::Arrive(queue)) => {
                let (_, packet) = queue.pop_front()?;
                let ahead = queue.front().map_or(Ahead::Nothing, |e| Ahead::Arrive { link: e.1.link, flow: e.1.flow });
                (Event::Arrive(packet), queue.front().map(|e| e.0), ahead)
            }
            Some(Lane::Ready(queue)) => {
                let (_, port) = queue.pop_front()?;
                let ahead = queue.front().map_or(Ahead::Nothing, |e| Ahead::PortReady(e.1));
                (Event::PortReady(port), queue.front().map(|e| e.0), ahead)
            }
            None => {
                let (_, rare) = self.wheel.pop()?;
                let event = match rare {
                    Rare::Arrive(id) => {
                        self.packets.remove(id);
                        Event::Arrive(self.packets[id])
                    }
                    Rare::PortReady(port) => Event::PortReady(port),
                    Rare::Timer(timer) => Event::Timer(timer),
                };
                (event, Some(self.wheel.first()), Ahead::Nothing)
            }
        };
        self.heads[lane] = next.unwrap_or(Ps::MAX);
        Some((at, event, ahead))
    }

    /// Packets on all links.
    pub fn packets_in_flight(&self) -> u64 {
        let in_lanes: usize = self.lanes.iter().map(|l| if let Lane::Arrive(q) = l { q.len() } else { 0 }).sum();
        (in_lanes + self.packets.len()) as u64
    }
}
