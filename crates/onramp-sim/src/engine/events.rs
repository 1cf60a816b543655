//! The event queue of a cell.
//!
//! Nearly all events of a packet network lie a *constant* time ahead: sending a
//! full packet on a 100 Gb/s link takes 83.84 ns and arrives 1 µs later, always.
//! Events with the same constant form a FIFO, a *lane*; the next event overall
//! is the earliest head of a handful of lanes. That needs no comparison of
//! events with each other, and touches memory in sequence. What has no lane of
//! its own (odd packet sizes, timers) goes through a timing wheel.
//!
//! Events come by (time, kind, link), where a kind is a lane (free ports before
//! arrivals: what leaves makes room for what comes), or else an odd free port, an odd
//! arrival, a timer. A link carries one packet at a time, and all cells have the same
//! lanes, so this order is complete and the same however the network is cut into cells.
//! Where all packets are TCP's, whose sizes vary, lanes do not count ([`Lanes::by_link`]),
//! and links of simultaneous arrivals are ordered anew at each time ([`Names::rank`]).

use super::merge::merge;
use super::slab::Slab;
use super::wheel::Wheel;
use onramp_config::units::Ps;
use onramp_workload::state::Encoder;
use std::collections::VecDeque;

/// A packet on a link, or one that has come over it.
///
/// The link is no field of the packet, since what was written in part can only be copied
/// once the write is done; and it comes last, so that a packet is read from where it was
/// written, in the same pieces.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct OnLink<P> {
    /// The packet.
    pub packet: P,
    /// The port it arrives at, by which simultaneous arrivals are ordered.
    pub link: u32,
}

/// Things that belong to a link, by which simultaneous ones are ordered.
trait Linked {
    fn link(&self) -> u32;
}

impl<P> Linked for OnLink<P> {
    #[inline]
    fn link(&self) -> u32 {
        self.link
    }
}

impl Linked for u32 {
    #[inline]
    fn link(&self) -> u32 {
        *self
    }
}

/// Numbers of a cell's links in the whole network, by their numbers in the cell; none for what is ordered by the latter.
#[derive(Clone, Debug, Default)]
struct Names {
    links: Vec<u32>,
    /// Makes ties of one seed fall otherwise than those of another.
    salt: u64,
}

impl Names {
    /// Place of a link among those of one time: as if drawn at each time, and the same however the network is cut.
    ///
    /// TCP's flows that share a link send in step with it, so that arrivals of one instant are common. In the order of
    /// links the same flows would find the queue full each time (traffic phase effects, Floyd and Jacobson 1991).
    #[inline]
    fn rank(&self, at: Ps, link: u32) -> u64 {
        let Some(&name) = self.links.get(link as usize) else { return u64::from(link) };
        let mixed = (at ^ u64::from(name) << 40 ^ self.salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed.rotate_right(29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// By time, then by rank.
    #[inline]
    fn order<P>(&self, (at, on): &Letter<P>) -> u128 {
        u128::from(*at) << 64 | u128::from(self.rank(*at, on.link))
    }
}

/// Where the next event is. The event is taken in a second step, each kind by itself:
/// a packet in an enum would be copied in pieces (a tenth of the run time).
#[derive(Clone, Copy, Debug)]
pub enum Head {
    /// A packet arrives: see [`Events::take_packet`].
    Packet,
    /// A port has sent its packet: see [`Events::take_port`].
    Port,
    /// Something that happens seldom: see [`Events::take_rare`].
    Rare,
}

/// A rare event: odd packets `P`, their ports, and timers `T`.
#[derive(Clone, Copy, Debug)]
pub enum Event<P, T> {
    /// A packet arrives.
    Arrive(OnLink<P>),
    /// A port has sent its packet.
    PortReady(u32),
    /// A timer is due.
    Timer(T),
}

/// Entry of the wheel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rare<T> {
    PortReady(u32),
    /// Rank, link, and place among the packets.
    Arrive(u64, u32, u32),
    Timer(T),
}

/// Lanes of either kind at most; the rest of the delays goes through the wheel.
const MAX_LANES: usize = 14;
const NO_LANE: u8 = u8::MAX;
/// Packet sizes of which a port knows the lanes.
pub const SIZES: usize = 4;

/// The lanes of a whole network: how far ahead each is.
#[derive(Clone, Debug, Default)]
pub struct Lanes {
    arrive: Vec<Ps>,
    ready: Vec<Ps>,
    by_link: bool,
}

impl Lanes {
    /// Simultaneous arrivals come by their link alone, whether and which lane they have; so do free ports.
    #[must_use]
    pub fn by_link(by_link: bool) -> Self {
        Self { by_link, ..Self::default() }
    }

    /// The lanes of a port: the usual packet sizes, what sending them takes, and the
    /// delay of the link. The first ports of a network get lanes.
    pub fn of(&mut self, sizes: &[u16], time: impl Fn(u16) -> Ps, delay: Ps) -> LaneCache {
        let lane = |lanes: &mut Vec<Ps>, ahead: Ps| {
            let known = lanes.iter().position(|a| *a == ahead);
            let free = || {
                (lanes.len() < MAX_LANES).then(|| {
                    lanes.push(ahead);
                    lanes.len() - 1
                })
            };
            known.or_else(free).map_or(NO_LANE, |lane| lane as u8)
        };
        let mut cache = LaneCache::default();
        for (i, &size) in sizes.iter().take(SIZES).enumerate() {
            cache.sizes[i] = size;
            cache.arrive[i] = lane(&mut self.arrive, time(size) + delay);
            cache.ready[i] = lane(&mut self.ready, time(size));
        }
        cache
    }
}

/// A port's lanes for the packet sizes that make up most of the traffic.
#[derive(Clone, Copy, Debug)]
pub struct LaneCache {
    sizes: [u16; SIZES],
    arrive: [u8; SIZES],
    ready: [u8; SIZES],
}

/// Lanes of a packet's arrival, and of its port's being free.
#[derive(Clone, Copy, Debug)]
pub struct PacketLanes {
    arrive: u8,
    ready: u8,
}

impl Default for LaneCache {
    fn default() -> Self {
        Self { sizes: [0; SIZES], arrive: [NO_LANE; SIZES], ready: [NO_LANE; SIZES] }
    }
}

impl LaneCache {
    /// The lanes of a packet of this size.
    #[inline]
    pub fn lanes(&self, size: u16) -> PacketLanes {
        // Spelled out: a loop would be left by jumps that are as good as random.
        for i in 0..SIZES {
            if self.sizes[i] == size {
                return PacketLanes { arrive: self.arrive[i], ready: self.ready[i] };
            }
        }
        PacketLanes { arrive: NO_LANE, ready: NO_LANE }
    }
}

/// A packet on its way, and when it arrives.
type Letter<P> = (Ps, OnLink<P>);

/// Packets from one cell to another, by lane; the last list is of packets without a lane.
#[derive(Debug)]
pub struct Post<P> {
    lists: Vec<Vec<Letter<P>>>,
    len: usize,
}

impl<P> Default for Post<P> {
    fn default() -> Self {
        Self { lists: (0..=MAX_LANES).map(|_| Vec::new()).collect(), len: 0 }
    }
}

impl<P: Copy> Post<P> {
    /// A packet with these lanes arrives on `link` at `at`.
    #[inline(always)]
    pub fn push(&mut self, lanes: PacketLanes, at: Ps, link: u32, packet: P) {
        self.lists[usize::from(lanes.arrive).min(MAX_LANES)].push((at, OnLink { link, packet }));
        self.len += 1;
    }

    /// Takes all of `other`, which was sent later.
    pub fn append(&mut self, other: &mut Self) {
        self.len += std::mem::take(&mut other.len);
        for (list, new) in self.lists.iter_mut().zip(&mut other.lists) {
            if list.is_empty() {
                // Empty lists go back, so that their memory is used again.
                std::mem::swap(list, new);
            } else {
                list.append(new);
            }
        }
    }

    /// Packets in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Packets that a cell has from each of the others, or for each of them.
#[derive(Debug)]
pub struct Posts<P> {
    all: Vec<Post<P>>,
    /// Numbers of the cells from or for which there is something.
    filled: Vec<u16>,
}

impl<P> Default for Posts<P> {
    fn default() -> Self {
        Self { all: Vec::new(), filled: Vec::new() }
    }
}

impl<P: Copy> Posts<P> {
    /// Of so many cells.
    pub fn new(cells: usize) -> Self {
        Self { all: (0..cells).map(|_| Post::default()).collect(), filled: Vec::new() }
    }

    /// That of a cell, to which something will be added.
    #[inline(always)]
    pub fn of(&mut self, cell: u16) -> &mut Post<P> {
        let post = &mut self.all[usize::from(cell)];
        if post.is_empty() {
            self.filled.push(cell);
        }
        post
    }

    /// Has all that is there taken, with the numbers of the cells.
    pub fn drain(&mut self, mut take: impl FnMut(u16, &mut Post<P>)) {
        for cell in self.filled.drain(..) {
            take(cell, &mut self.all[usize::from(cell)]);
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.filled.is_empty()
    }

    /// Packets in all of them.
    pub fn len(&self) -> usize {
        self.filled.iter().map(|&cell| self.all[usize::from(cell)].len()).sum()
    }
}

/// Lanes of one kind.
///
/// Entries of one time are put in order when their time comes: where hosts are in step there are hundreds.
#[derive(Debug)]
struct Group<V> {
    lanes: Vec<VecDeque<(Ps, V)>>,
    /// So many at each lane's front have one time and are in order; 0 where that is not known.
    settled: Vec<usize>,
    /// Time of each lane's head, `Ps::MAX` if there is none.
    heads: Vec<Ps>,
    /// The earliest of them, the first of several, and its lane.
    first: (Ps, usize),
    /// The first of several is the one whose link has the lowest rank, not that of the first lane.
    by_link: bool,
    names: Names,
}

impl<V: Linked> Group<V> {
    fn new(lanes: usize, by_link: bool, names: Names) -> Self {
        let none = (0..lanes).map(|_| VecDeque::new()).collect();
        Self { lanes: none, settled: vec![0; lanes], heads: vec![Ps::MAX; lanes], first: (Ps::MAX, 0), by_link, names }
    }

    /// Adds to a lane, unless there is no such lane.
    #[inline(always)]
    fn push(&mut self, lane: u8, at: Ps, value: V) -> Result<(), V> {
        let lane = usize::from(lane);
        let Some(queue) = self.lanes.get_mut(lane) else { return Err(value) };
        match queue.back() {
            None => {
                queue.push_back((at, value));
                self.heads[lane] = at;
                if at < self.first.0 || at == self.first.0 && self.precedes(lane, self.first.1) {
                    self.first = (at, lane);
                }
            }
            Some(_) => {
                queue.push_back((at, value));
                if at == self.heads[lane] {
                    self.settled[lane] = 0;
                    // It may be the lane's head, with a lower rank than before.
                    if at == self.first.0 && lane != self.first.1 && self.precedes(lane, self.first.1) {
                        self.first.1 = lane;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the head of the first lane.
    #[inline(always)]
    fn pop(&mut self) -> Option<V> {
        let lane = self.first.1;
        self.settle(lane);
        let (_, value) = self.lanes[lane].pop_front()?;
        self.settled[lane] -= 1;
        self.look_again(lane);
        Some(value)
    }

    /// Puts a lane's entries of the first time in order, if they may not be.
    #[inline]
    fn settle(&mut self, lane: usize) {
        if self.settled[lane] > 0 {
            return;
        }
        let queue = &mut self.lanes[lane];
        let Some(&(at, _)) = queue.front() else { return };
        self.settled[lane] = 1;
        if queue.get(1).is_some_and(|next| next.0 == at) {
            self.settled[lane] = sort_first(queue, &self.names);
        }
    }

    /// A lane has another head.
    #[inline(always)]
    fn look_again(&mut self, lane: usize) {
        self.heads[lane] = self.lanes[lane].front().map_or(Ps::MAX, |entry| entry.0);
        if self.by_link {
            return self.look_again_with_ties();
        }
        let mut first = (self.heads[0], 0);
        for (i, &at) in self.heads.iter().enumerate().skip(1) {
            if at < first.0 {
                first = (at, i);
            }
        }
        self.first = first;
    }

    /// The first of all heads where links count: ties are looked for on the way, and at their links only if there are.
    #[inline(never)]
    fn look_again_with_ties(&mut self) {
        let mut first = (self.heads[0], 0);
        let mut tie = false;
        for (i, &at) in self.heads.iter().enumerate().skip(1) {
            tie |= at == first.0;
            if at < first.0 {
                first = (at, i);
            }
        }
        self.first = first;
        if tie && first.0 < Ps::MAX {
            self.look_at_links();
        }
    }

    /// Of several heads with the earliest time, the one whose link has the lowest rank is the first.
    #[cold]
    fn look_at_links(&mut self) {
        for lane in self.first.1 + 1..self.heads.len() {
            if self.heads[lane] == self.first.0 && self.precedes(lane, self.first.1) {
                self.first.1 = lane;
            }
        }
    }

    /// True if, of two lanes with heads of the same time, the first one's comes first.
    #[cold]
    fn precedes(&mut self, a: usize, b: usize) -> bool {
        if !self.by_link {
            return a < b;
        }
        self.rank(a) < self.rank(b)
    }

    /// Rank of a lane's head.
    fn rank(&mut self, lane: usize) -> u64 {
        self.settle(lane);
        self.lanes[lane].front().map_or(u64::MAX, |(at, value)| self.names.rank(*at, value.link()))
    }

    /// Rank of the first one.
    fn first_rank(&mut self) -> u64 {
        self.rank(self.first.1)
    }
}

/// Pending events in order of time.
#[derive(Debug)]
pub struct Events<P, T> {
    arrive: Group<OnLink<P>>,
    ready: Group<u32>,
    wheel: Wheel<Rare<T>>,
    /// Time of what comes next in the wheel; `Ps::MAX` if there is nothing.
    rare: Ps,
    /// Packets of arrivals in the wheel.
    packets: Slab<P>,
    /// How far ahead each lane of arrivals is.
    ahead: Vec<Ps>,
    by_link: bool,
    /// Letters being merged into a lane, where each sender's end, and room to do it in.
    letters: Vec<Letter<P>>,
    ends: Vec<usize>,
    spare: Vec<Letter<P>>,
    /// Lanes that letters were merged into.
    touched: Vec<usize>,
}

impl<P: Copy, T: Ord + Copy> Events<P, T> {
    /// Nothing is pending in a cell whose links have these numbers in the whole network. `salt` is the run's, in every cell.
    pub fn new(lanes: &Lanes, links: &[u32], salt: u64) -> Self {
        let names = if lanes.by_link { Names { links: links.to_vec(), salt } } else { Names::default() };
        Self {
            arrive: Group::new(lanes.arrive.len(), lanes.by_link, names),
            ready: Group::new(lanes.ready.len(), lanes.by_link, Names::default()),
            by_link: lanes.by_link,
            wheel: Wheel::default(),
            rare: Ps::MAX,
            packets: Slab::default(),
            ahead: lanes.arrive.clone(),
            letters: Vec::new(),
            ends: Vec::new(),
            spare: Vec::new(),
            touched: Vec::new(),
        }
    }

    /// A packet with these lanes arrives in this cell on `link` at `at`.
    #[inline]
    pub fn arrive(&mut self, lanes: PacketLanes, at: Ps, link: u32, packet: P) {
        if let Err(OnLink { packet, .. }) = self.arrive.push(lanes.arrive, at, OnLink { link, packet }) {
            self.odd_arrival(at, link, packet);
        }
    }

    /// A packet that no lane takes arrives in this cell on `link` at `at`.
    pub fn odd_arrival(&mut self, at: Ps, link: u32, packet: P) {
        let place = self.packets.insert(packet);
        self.rare(at, Rare::Arrive(self.arrive.names.rank(at, link), link, place));
    }

    /// `port`, which begins to send a packet with these lanes now, is to be told when it is
    /// out, at `at`.
    #[inline]
    pub fn port_ready(&mut self, lanes: PacketLanes, at: Ps, port: u32) {
        if self.ready.push(lanes.ready, at, port).is_err() {
            self.rare(at, Rare::PortReady(port));
        }
    }

    /// `port`, which is sending, is to be told when it is free, at `at`.
    pub fn port_ready_at(&mut self, at: Ps, port: u32) {
        self.rare(at, Rare::PortReady(port));
    }

    /// `timer` is due at `at`.
    pub fn timer(&mut self, at: Ps, timer: T) {
        self.rare(at, Rare::Timer(timer));
    }

    fn rare(&mut self, at: Ps, event: Rare<T>) {
        self.wheel.push(at, event);
        self.rare = at.min(self.rare);
    }

    /// Takes in what other cells have sent before `now`; true if they have sent more.
    ///
    /// Packets that come to a lane from here on arrive later than all sent before, so these are merged into the lane.
    pub fn deliver(&mut self, posts: &mut Posts<P>, now: Ps) -> bool {
        if posts.filled.is_empty() {
            return false;
        }
        let mut more = false;
        let Group { lanes, settled, names, .. } = &mut self.arrive;
        let order = |letter: &Letter<P>| names.order(letter);
        for (lane, &ahead) in self.ahead.iter().enumerate() {
            for &from in &posts.filled {
                let post = &mut posts.all[usize::from(from)];
                let list = &mut post.lists[lane];
                if list.is_empty() {
                    continue;
                }
                let due = list.partition_point(|letter| letter.0 < now.saturating_add(ahead));
                more |= due < list.len();
                if due > 0 {
                    let start = self.letters.len();
                    self.letters.extend(list.drain(..due));
                    post.len -= due;
                    // A cell sends in order of time alone.
                    tidy(&mut self.letters[start..], names);
                    self.ends.push(self.letters.len());
                }
            }
            if self.letters.is_empty() {
                continue;
            }
            let queue = &mut lanes[lane];
            merge(&mut self.letters, &mut self.ends, &mut self.spare, order);
            let after = queue.partition_point(|entry| entry.0 < self.letters[0].0);
            settled[lane] = settled[lane].min(after);
            if after < queue.len() {
                let start = self.letters.len();
                self.letters.extend(queue.drain(after..));
                tidy(&mut self.letters[start..], names);
                self.ends.push(self.letters.len());
                merge(&mut self.letters, &mut self.ends, &mut self.spare, order);
            }
            self.ends.clear();
            queue.extend(self.letters.drain(..));
            self.touched.push(lane);
        }
        for lane in self.touched.drain(..) {
            self.arrive.look_again(lane);
        }
        posts.filled.retain(|&from| {
            let post = &mut posts.all[usize::from(from)];
            for list in &mut post.lists[self.ahead.len()..] {
                post.len -= list.len();
                for (at, OnLink { link, packet }) in list.drain(..) {
                    self.odd_arrival(at, link, packet);
                }
            }
            !post.is_empty()
        });
        more
    }

    /// Time of the next event, `Ps::MAX` if there is none.
    pub fn next_at(&self) -> Ps {
        self.arrive.first.0.min(self.ready.first.0).min(self.rare)
    }

    /// Time and place of the next event, if it is due before `end`.
    #[inline]
    pub fn next(&mut self, end: Ps) -> Option<(Ps, Head)> {
        let (packet, port) = (self.arrive.first.0, self.ready.first.0);
        let head = if self.by_link && self.rare == packet.min(port) && self.rare_first() {
            (self.rare, Head::Rare)
        } else if port <= packet && port <= self.rare {
            (port, Head::Port)
        } else if packet <= self.rare {
            (packet, Head::Packet)
        } else {
            (self.rare, Head::Rare)
        };
        (head.0 < end).then_some(head)
    }

    /// True if the wheel's next entry precedes the lanes' heads, of which one has the same time.
    #[cold]
    fn rare_first(&mut self) -> bool {
        let port_now = self.ready.first.0 == self.rare;
        match self.wheel.peek() {
            Some(&Rare::PortReady(port)) => !port_now || u64::from(port) < self.ready.first_rank(),
            Some(&Rare::Arrive(rank, ..)) => !port_now && rank < self.arrive.first_rank(),
            _ => false,
        }
    }

    /// Takes the packet that comes next.
    ///
    /// # Panics
    /// [`Events::next`] has named another head.
    #[inline]
    pub fn take_packet(&mut self) -> OnLink<P> {
        self.arrive.pop().expect("a head has an event")
    }

    /// The packets that come next in the earliest lane: likely soon, so that their data
    /// can be fetched into the cache meanwhile.
    #[inline]
    pub fn ahead(&self) -> [Option<&OnLink<P>>; 2] {
        let queue = &self.arrive.lanes[self.arrive.first.1];
        [queue.front().map(|entry| &entry.1), queue.get(1).map(|entry| &entry.1)]
    }

    /// True where lanes do not count, see [`Lanes::by_link`].
    #[inline]
    pub fn by_link(&self) -> bool {
        self.by_link
    }

    /// The ports that come next in the earliest lane.
    #[inline]
    pub fn ports_ahead(&self) -> [Option<u32>; 2] {
        let queue = &self.ready.lanes[self.ready.first.1];
        [queue.front().map(|entry| entry.1), queue.get(1).map(|entry| entry.1)]
    }

    /// Takes the port that comes next.
    ///
    /// # Panics
    /// [`Events::next`] has named another head.
    #[inline]
    pub fn take_port(&mut self) -> u32 {
        self.ready.pop().expect("a head has an event")
    }

    /// Takes what comes next in the wheel.
    ///
    /// # Panics
    /// [`Events::next`] has named another head.
    pub fn take_rare(&mut self) -> Event<P, T> {
        let (_, rare) = self.wheel.pop().expect("a head has an event");
        self.rare = self.wheel.first();
        match rare {
            Rare::Arrive(_, link, place) => {
                self.packets.remove(place);
                Event::Arrive(OnLink { link, packet: self.packets[place] })
            }
            Rare::PortReady(port) => Event::PortReady(port),
            Rare::Timer(timer) => Event::Timer(timer),
        }
    }

    /// Takes down that nothing is pending but timers that their owners take down (`kept`); else it is busy.
    pub fn encode(&self, state: &mut Encoder, kept: impl Fn(&T) -> bool) {
        let Self {
            arrive,
            ready,
            wheel,
            rare: _,
            packets,
            ahead: _,
            by_link,
            letters: _,
            ends: _,
            spare: _,
            touched: _,
        } = self;
        if *by_link {
            state.refuse("the order of simultaneous packets is drawn from the time, which never comes again (TCP)");
        }
        let moving =
            arrive.lanes.iter().any(|lane| !lane.is_empty()) || ready.lanes.iter().any(|lane| !lane.is_empty());
        let idle = |(_, rare): (Ps, &Rare<T>)| matches!(rare, Rare::Timer(timer) if kept(timer));
        if moving || packets.in_use() > 0 || !wheel.items().all(idle) {
            state.busy();
        }
    }

    /// Packets on all links to this cell.
    pub fn packets_in_flight(&self) -> u64 {
        (self.arrive.lanes.iter().map(VecDeque::len).sum::<usize>() + self.packets.in_use()) as u64
    }
}

/// Puts the first entries of a lane, which have one time, in order; how many they are.
#[cold]
fn sort_first<V: Linked>(lane: &mut VecDeque<(Ps, V)>, names: &Names) -> usize {
    let at = lane[0].0;
    let many = lane.iter().take_while(|entry| entry.0 == at).count();
    if lane.as_slices().0.len() < many {
        lane.make_contiguous();
    }
    in_order(&mut lane.as_mut_slices().0[..many], names);
    many
}

/// Puts entries in order that are sorted by time.
fn tidy<V: Linked>(entries: &mut [(Ps, V)], names: &Names) {
    for run in entries.chunk_by_mut(|a, b| a.0 == b.0).filter(|run| run.len() > 1) {
        in_order(run, names);
    }
}

/// Puts entries of one time in order. They are often in order by parts.
fn in_order<V: Linked>(run: &mut [(Ps, V)], names: &Names) {
    run.sort_by_key(|(at, value)| names.rank(*at, value.link()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Parcel {
        size: u16,
    }

    proptest! {
        /// Against a sorted list: usual and odd sizes, more delays than there are lanes,
        /// ties, letters from other cells, and pushes between pops.
        #[test]
        fn events_come_by_time_kind_and_link(
            by_link: bool,
            salt: u64,
            steps in prop::collection::vec((0u8..3, 0u32..6, 0usize..20, 0usize..3, 0u8..4), 1..300),
        ) {
            const USUAL: [u16; 2] = [100, 1000];
            let time = |size: u16| u64::from(size) * 10;
            let mut lanes = Lanes::by_link(by_link);
            let caches: Vec<LaneCache> = (0..20).map(|i| lanes.of(&USUAL, time, 10_000 + i * 500)).collect();
            let links = [4, 0, 5, 2, 1, 3];
            let mut events: Events<Parcel, u32> = Events::new(&lanes, &links, salt);
            let names = if by_link { Names { links: links.to_vec(), salt } } else { Names::default() };
            // Time, kind and link: lanes of ports, of arrivals, then the rest; or ports, arrivals, timers.
            let mut all: Vec<(Ps, (usize, u32))> = Vec::new();
            let kind = |lane: u8, first: usize, odd: usize| match lane {
                _ if by_link => first,
                NO_LANE => odd,
                _ => first + usize::from(lane),
            };
            let mut posts = Posts::new(1);
            let mut now = 0;
            for (what, link, cache, size, pops) in steps {
                let size = [100, 1000, 77][size];
                let (free, delay) = (now + time(size), 10_000 + cache as Ps * 500);
                let parcel = Parcel { size };
                let lanes = caches[cache].lanes(size);
                let arrives = (free + delay, (kind(lanes.arrive, 100, 201), link));
                let frees = (free, (kind(lanes.ready, 0, 200), link));
                let new = match what {
                    0 => vec![arrives, frees],
                    1 => vec![arrives],
                    _ => vec![(free, (202, link))],
                };
                // What is simultaneous differs in kind or link.
                if !new.iter().any(|entry| all.contains(entry)) {
                    match what {
                        0 => {
                            events.port_ready(lanes, free, link);
                            events.arrive(lanes, free + delay, link, parcel);
                        }
                        1 => {
                            posts.of(0).push(lanes, free + delay, link, parcel);
                            events.deliver(&mut posts, now + 1);
                        }
                        _ => events.timer(free, link),
                    }
                    all.extend(new);
                    all.sort_unstable_by_key(|&(at, (kind, link))| {
                        let arrival = (100..200).contains(&kind) || kind == 201;
                        (at, kind, if arrival { names.rank(at, link) } else { u64::from(link) })
                    });
                }
                for _ in 0..pops {
                    let expected = (!all.is_empty()).then(|| all.remove(0));
                    let found = pop(&mut events, Ps::MAX);
                    prop_assert_eq!(found, expected.map(|(at, (_, link))| (at, link)));
                    now = expected.map_or(now, |e| e.0);
                }
            }
            for (at, (_, link)) in all {
                prop_assert!(pop(&mut events, at).is_none());
                let found = pop(&mut events, at + 1);
                prop_assert_eq!(found, Some((at, link)));
            }
            prop_assert!(pop(&mut events, Ps::MAX).is_none());
        }
    }

    /// Time and link of the next event.
    fn pop(events: &mut Events<Parcel, u32>, end: Ps) -> Option<(Ps, u32)> {
        let (at, head) = events.next(end)?;
        let link = match head {
            Head::Packet => events.take_packet().link,
            Head::Port => events.take_port(),
            Head::Rare => match events.take_rare() {
                Event::Arrive(on) => on.link,
                Event::PortReady(link) | Event::Timer(link) => link,
            },
        };
        Some((at, link))
    }
}
