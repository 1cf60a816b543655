//! The event queue of a cell.
//!
//! Nearly all events of a packet network lie a *constant* time ahead: sending a
//! full packet on a 100 Gb/s link takes 83.84 ns and arrives 1 µs later, always.
//! Events with the same constant form a FIFO, a *lane*; the next event overall
//! is the earliest head of a handful of lanes. That needs no comparison of
//! events with each other, and touches memory in sequence. What has no lane of
//! its own (odd packet sizes, timers) goes through a timing wheel, and what comes
//! from other cells through a sorted inbox.
//!
//! Events come by (time, kind, link): arrivals, then free ports, then timers in
//! their own order. A link carries one packet at a time, so this order is complete
//! and the same however the network is cut into cells.

use super::slab::Slab;
use super::wheel::Wheel;
use crate::config::units::Ps;
use std::collections::{HashMap, VecDeque};

/// What crosses links.
pub trait Travels: Copy {
    /// The port it arrives at, by which simultaneous arrivals are ordered.
    fn link(&self) -> u32;
    /// Bytes on the wire.
    fn size(&self) -> u16;
}

/// What happens: packets `P` and timers `T`.
#[derive(Clone, Copy, Debug)]
pub enum Event<P, T> {
    /// A packet arrives at the port that it names.
    Arrive(P),
    /// A port has sent its packet.
    PortReady(u32),
    /// Something that happens seldom.
    Timer(T),
}

/// The next event of the same lane: likely to come in a few events' time, so
/// its data can be fetched into the cache meanwhile.
#[derive(Clone, Copy, Debug)]
pub enum Ahead {
    /// Unknown.
    Nothing,
    /// Something about this port.
    Port(u32),
}

/// What the wheel holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rare<T> {
    /// Link, and place among the packets.
    Arrive(u32, u32),
    PortReady(u32),
    Timer(T),
}

/// Lanes of either kind at most; the rest of the delays goes through the wheel.
const MAX_LANES: usize = 14;
const NO_LANE: u8 = u8::MAX;
/// Packet sizes of which a port knows the lanes.
pub const SIZES: usize = 4;

/// A port's lanes for the packet sizes that make up most of the traffic.
#[derive(Clone, Copy, Debug)]
pub struct LaneCache {
    sizes: [u16; SIZES],
    arrive: [u8; SIZES],
    ready: [u8; SIZES],
}

impl Default for LaneCache {
    fn default() -> Self {
        Self { sizes: [0; SIZES], arrive: [NO_LANE; SIZES], ready: [NO_LANE; SIZES] }
    }
}

impl LaneCache {
    #[inline]
    fn arrive(&self, size: u16) -> u8 {
        self.sizes.iter().position(|s| *s == size).map_or(NO_LANE, |i| self.arrive[i])
    }

    #[inline]
    fn ready(&self, size: u16) -> u8 {
        self.sizes.iter().position(|s| *s == size).map_or(NO_LANE, |i| self.ready[i])
    }
}

/// A packet from another cell: time, link, place among the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Letter(u128);

impl Letter {
    fn new(at: Ps, link: u32, place: u32) -> Self {
        Self(u128::from(at) << 64 | u128::from(link) << 32 | u128::from(place))
    }

    fn at(self) -> Ps {
        (self.0 >> 64) as Ps
    }

    fn link(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn place(self) -> u32 {
        self.0 as u32
    }
}

/// Pending events in order of time.
#[derive(Debug)]
pub struct Events<P, T> {
    /// Time of each head, `Ps::MAX` if there is none: lanes of arrivals, the inbox,
    /// lanes of ports, the wheel.
    heads: Vec<Ps>,
    arrive: Vec<VecDeque<(Ps, P)>>,
    ready: Vec<VecDeque<(Ps, u32)>>,
    wheel: Wheel<Rare<T>>,
    /// Latest first.
    inbox: Vec<Letter>,
    /// Packets of arrivals in the wheel and in the inbox.
    packets: Slab<P>,
    /// Lane of each delay, for arrivals and for ports.
    known: HashMap<(bool, Ps), u8>,
}

impl<P: Travels, T: Ord + Copy> Default for Events<P, T> {
    fn default() -> Self {
        Self {
            heads: vec![Ps::MAX; 2],
            arrive: vec![],
            ready: vec![],
            wheel: Wheel::default(),
            inbox: vec![],
            packets: Slab::default(),
            known: HashMap::new(),
        }
    }
}

impl<P: Travels, T: Ord + Copy> Events<P, T> {
    /// Gives a port its lanes, before anything is pending: the usual packet sizes,
    /// what sending them takes, and the delay of the link.
    pub fn lanes_for(&mut self, sizes: &[u16], time: impl Fn(u16) -> Ps, delay: Ps) -> LaneCache {
        let mut lanes = LaneCache::default();
        for (i, &size) in sizes.iter().take(SIZES).enumerate() {
            lanes.sizes[i] = size;
            lanes.arrive[i] = self.lane(true, time(size) + delay);
            lanes.ready[i] = self.lane(false, time(size));
        }
        lanes
    }

    fn lane(&mut self, arrive: bool, delay: Ps) -> u8 {
        if let Some(&lane) = self.known.get(&(arrive, delay)) {
            return lane;
        }
        let lanes = if arrive { self.arrive.len() } else { self.ready.len() };
        if lanes == MAX_LANES {
            return NO_LANE;
        }
        if arrive {
            self.arrive.push(VecDeque::new());
        } else {
            self.ready.push(VecDeque::new());
        }
        debug_assert!(self.heads.iter().all(|at| *at == Ps::MAX), "lanes come before events");
        self.heads.push(Ps::MAX);
        self.known.insert((arrive, delay), lanes as u8);
        lanes as u8
    }

    /// A packet of a port with `lanes` arrives at `at`.
    #[inline]
    pub fn arrive(&mut self, lanes: &LaneCache, at: Ps, packet: P) {
        let lane = usize::from(lanes.arrive(packet.size()));
        if let Some(queue) = self.arrive.get_mut(lane) {
            self.heads[lane] = at.min(self.heads[lane]);
            queue.push_back((at, packet));
            in_order(queue, |packet| packet.link());
            return;
        }
        let place = self.packets.insert(packet);
        self.rare(at, Rare::Arrive(packet.link(), place));
    }

    /// `port` with `lanes` will have sent a packet of `size` at `at`.
    #[inline]
    pub fn port_ready(&mut self, lanes: &LaneCache, size: u16, at: Ps, port: u32) {
        let lane = usize::from(lanes.ready(size));
        if let Some(queue) = self.ready.get_mut(lane) {
            let head = &mut self.heads[self.arrive.len() + 1 + lane];
            *head = at.min(*head);
            queue.push_back((at, port));
            in_order(queue, |port| *port);
            return;
        }
        self.rare(at, Rare::PortReady(port));
    }

    /// `timer` is due at `at`.
    pub fn timer(&mut self, at: Ps, timer: T) {
        self.rare(at, Rare::Timer(timer));
    }

    fn rare(&mut self, at: Ps, event: Rare<T>) {
        self.wheel.push(at, event);
        let head = self.heads.last_mut().expect("the wheel has a head");
        *head = at.min(*head);
    }

    /// Takes in what other cells have sent; empties the lists.
    pub fn deliver<'a>(&mut self, lists: impl Iterator<Item = &'a mut Vec<(Ps, P)>>)
    where
        P: 'a,
    {
        let before = self.inbox.len();
        for (at, packet) in lists.flat_map(|list| list.drain(..)) {
            let place = self.packets.insert(packet);
            self.inbox.push(Letter::new(at, packet.link(), place));
        }
        if self.inbox.len() > before {
            self.inbox.sort_unstable_by(|a, b| b.cmp(a));
        }
        let head = self.arrive.len();
        self.heads[head] = self.inbox.last().map_or(Ps::MAX, |letter| letter.at());
    }

    /// Time of the next event, `Ps::MAX` if there is none.
    pub fn next_at(&self) -> Ps {
        self.heads.iter().copied().min().unwrap_or(Ps::MAX)
    }

    /// Takes the next event if it is due before `end`, and tells what will be
    /// needed a few events later.
    #[inline]
    pub fn pop(&mut self, end: Ps) -> Option<(Ps, Event<P, T>, Ahead)> {
        let at = self.next_at();
        if at >= end {
            return None;
        }
        // Without branches: which head it is, is as good as random.
        let first = (0..).zip(&self.heads).fold(0u64, |set, (i, head)| set | u64::from(*head == at) << i);
        let head = if first & (first - 1) == 0 { first.trailing_zeros() as usize } else { self.first_of(first) };
        let inbox = self.arrive.len();
        let (event, next, ahead) = if let Some(queue) = self.arrive.get_mut(head) {
            let (_, packet) = queue.pop_front()?;
            let next = queue.front();
            let ahead = next.map_or(Ahead::Nothing, |e| Ahead::Port(e.1.link()));
            (Event::Arrive(packet), next.map_or(Ps::MAX, |e| e.0), ahead)
        } else if head == inbox {
            let letter = self.inbox.pop()?;
            self.packets.remove(letter.place());
            let ahead = self.inbox.last().map_or(Ahead::Nothing, |l| Ahead::Port(l.link()));
            let next = self.inbox.last().map_or(Ps::MAX, |l| l.at());
            (Event::Arrive(self.packets[letter.place()]), next, ahead)
        } else if let Some(queue) = self.ready.get_mut(head - inbox - 1) {
            let (_, port) = queue.pop_front()?;
            let next = queue.front();
            let ahead = next.map_or(Ahead::Nothing, |e| Ahead::Port(e.1));
            (Event::PortReady(port), next.map_or(Ps::MAX, |e| e.0), ahead)
        } else {
            let (_, rare) = self.wheel.pop()?;
            let event = match rare {
                Rare::Arrive(_, place) => {
                    self.packets.remove(place);
                    Event::Arrive(self.packets[place])
                }
                Rare::PortReady(port) => Event::PortReady(port),
                Rare::Timer(timer) => Event::Timer(timer),
            };
            (event, self.wheel.first(), Ahead::Nothing)
        };
        self.heads[head] = next;
        Some((at, event, ahead))
    }

    /// Of several heads at the same time, the one whose event comes first.
    #[cold]
    fn first_of(&mut self, set: u64) -> usize {
        let heads = (0..self.heads.len()).filter(|i| set >> i & 1 == 1);
        let inbox = self.arrive.len();
        let wheel = &mut self.wheel;
        heads
            .min_by_key(|&head| {
                if let Some(queue) = self.arrive.get(head) {
                    (0, queue.front().map_or(0, |e| e.1.link()))
                } else if head == inbox {
                    (0, self.inbox.last().map_or(0, |letter| letter.link()))
                } else if let Some(queue) = self.ready.get(head - inbox - 1) {
                    (1, queue.front().map_or(0, |e| e.1))
                } else {
                    match wheel.peek() {
                        Some((_, Rare::Arrive(link, _))) => (0, link),
                        Some((_, Rare::PortReady(port))) => (1, port),
                        _ => (2, 0),
                    }
                }
            })
            .unwrap_or_default()
    }

    /// Packets on all links to this cell.
    pub fn packets_in_flight(&self) -> u64 {
        (self.arrive.iter().map(VecDeque::len).sum::<usize>() + self.packets.len()) as u64
    }
}

/// Moves the newest of a lane before those of the same time that come after it.
#[inline]
fn in_order<V>(queue: &mut VecDeque<(Ps, V)>, link: impl Fn(&V) -> u32) {
    let mut i = queue.len() - 1;
    while i > 0 && queue[i - 1].0 == queue[i].0 && link(&queue[i - 1].1) > link(&queue[i].1) {
        queue.swap(i - 1, i);
        i -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Parcel {
        link: u32,
        size: u16,
    }

    impl Travels for Parcel {
        fn link(&self) -> u32 {
            self.link
        }

        fn size(&self) -> u16 {
            self.size
        }
    }

    /// Kind and link or timer, as `Event` orders them.
    fn key(event: Event<Parcel, u32>) -> (u8, u32) {
        match event {
            Event::Arrive(parcel) => (0, parcel.link),
            Event::PortReady(port) => (1, port),
            Event::Timer(timer) => (2, timer),
        }
    }

    proptest! {
        /// Against a sorted list: usual and odd sizes, more delays than there are lanes,
        /// ties, letters from other cells, and pushes between pops.
        #[test]
        fn events_come_by_time_kind_and_link(
            steps in prop::collection::vec((0u8..4, 0u32..6, 0usize..20, 0u64..3, 0u8..4), 1..300),
        ) {
            let mut events: Events<Parcel, u32> = Events::default();
            let caches: Vec<LaneCache> =
                (0..20).map(|i| events.lanes_for(&[100, 1000], |s| u64::from(s) * 10, i * 500)).collect();
            let mut all: Vec<(Ps, (u8, u32))> = Vec::new();
            let mut now = 0;
            for (kind, link, cache, odd, pops) in steps {
                let size = [100, 1000, 77][odd as usize];
                let at = now + u64::from(size) * 10;
                let arrives = at + cache as Ps * 500;
                let parcel = Parcel { link, size };
                let entry = match kind {
                    0 => (arrives, (0, link)),
                    1 => (at, (1, link)),
                    2 => (at, (2, link)),
                    _ => (arrives + 10_000, (0, link)),
                };
                // What is simultaneous differs in kind or link.
                if !all.contains(&entry) {
                    match kind {
                        0 => events.arrive(&caches[cache], arrives, parcel),
                        1 => events.port_ready(&caches[cache], size, at, link),
                        2 => events.timer(at, link),
                        _ => events.deliver([&mut vec![(arrives + 10_000, parcel)]].into_iter()),
                    }
                    all.push(entry);
                    all.sort_unstable();
                }
                for _ in 0..pops {
                    let expected = (!all.is_empty()).then(|| all.remove(0));
                    let found = events.pop(Ps::MAX).map(|(at, event, _)| (at, key(event)));
                    prop_assert_eq!(found, expected);
                    now = expected.map_or(now, |e| e.0);
                }
            }
            for expected in all {
                prop_assert!(events.pop(expected.0).is_none());
                let found = events.pop(expected.0 + 1).map(|(at, event, _)| (at, key(event)));
                prop_assert_eq!(found, Some(expected));
            }
            prop_assert!(events.pop(Ps::MAX).is_none());
        }
    }
}
