//! Token buckets in a hierarchy, with a queue for each flow, as Linux's `htb` has them: a
//! leaf for each flow below its tenant's class, if it has one, below the NIC's.
//!
//! As there, a packet leaves while no bucket on its way is in debt, and is charged to all of
//! them afterwards; classes that may send take turns, and the others wait in a tree by time.
//! Simpler than there: no class borrows (`rate` is `ceil`), and a turn is one packet. There
//! is one lock for all cores. Nothing tells a source to wait but a full queue. A flow's class
//! is as slow as its controller wants it.

use super::config::time_at;
use super::{AGENT, Entry, Held, Locked, Place, Rules, Shaper, Take, Terms};
use onramp_config::units::Ps;
use std::collections::{BTreeSet, VecDeque};

/// No class.
const NONE: u32 = u32::MAX;

/// A class: the NIC's, a tenant's or a flow's.
#[derive(Debug)]
struct Class {
    /// Of a flow: its number.
    id: u64,
    parent: u32,
    rate: f64,
    /// Size of its bucket, in time at its rate.
    depth: Ps,
    /// When the bucket is full again: what lacks is the time until then, and it is in debt if
    /// that is more than its depth.
    full_at: Ps,
    /// Of a flow: sizes of the packets in its queue.
    queue: VecDeque<u16>,
    /// Of the others: classes below it that may send, in turn.
    turns: VecDeque<u32>,
    /// Where it is; in turn: in its parent's `turns`.
    place: Place,
    /// Of a flow: bytes in its queue, its rate at most, its slot.
    bytes: u32,
    cap: f64,
    slot: u32,
}

#[derive(Debug, Default)]
struct Line {
    /// Its class, if it has been used.
    root: Option<u32>,
    tenants: Vec<u32>,
    /// Those in debt, by time and number.
    waiting: BTreeSet<(Ps, u32)>,
    locked: Locked,
}

/// See the module.
#[derive(Debug)]
pub struct Shaping {
    rules: Rules,
    lines: Vec<Line>,
    classes: Vec<Class>,
    free: Vec<u32>,
    /// Of flows, by slot: line and class.
    flows: Vec<(u32, u32)>,
    /// The packet taken last: its size, and what the buckets on its way were before.
    taken: (u16, [(u32, Ps); 3]),
}

impl Shaping {
    pub fn new(rules: &Rules, lines: usize) -> Self {
        Self {
            rules: rules.clone(),
            lines: (0..lines).map(|_| Line::default()).collect(),
            classes: Vec::new(),
            free: Vec::new(),
            flows: Vec::new(),
            taken: (0, [(NONE, 0); 3]),
        }
    }

    fn class(&mut self, parent: u32, rate: f64, flow: Entry) -> u32 {
        let class = Class {
            id: flow.id,
            parent,
            rate,
            depth: time_at(self.rules.burst, rate),
            full_at: 0,
            queue: VecDeque::new(),
            turns: VecDeque::new(),
            place: Place::Out,
            bytes: 0,
            cap: rate,
            slot: flow.slot,
        };
        if let Some(free) = self.free.pop() {
            self.classes[free as usize] = class;
            return free;
        }
        self.classes.push(class);
        self.classes.len() as u32 - 1
    }

    /// A class has something to send: it takes a turn, or waits until it may.
    fn enter(&mut self, line: usize, mut class: u32, now: Ps) {
        loop {
            let own = &mut self.classes[class as usize];
            let (parent, at) = (own.parent, own.full_at.saturating_sub(own.depth));
            if own.place != Place::Out {
                return;
            }
            if at > now {
                own.place = Place::Waits(at);
                self.lines[line].waiting.insert((at, class));
                return;
            }
            own.place = Place::Turn;
            if parent == NONE {
                return;
            }
            self.classes[parent as usize].turns.push_back(class);
            class = parent;
        }
    }

    /// Takes the packet whose turn it is, below a class that may send.
    fn send(&mut self, line: usize, root: u32, now: Ps) -> Option<Entry> {
        let mut way = [(NONE, 0); 3];
        let (mut depth, mut class) = (0, root);
        loop {
            way[depth] = (class, self.classes[class as usize].full_at);
            let Some(below) = self.classes[class as usize].turns.pop_front() else { break };
            (depth, class) = (depth + 1, below);
        }
        let leaf = &mut self.classes[class as usize];
        let (flow, size) = (Entry { slot: leaf.slot, id: leaf.id }, leaf.queue.pop_front());
        if let Some(size) = size {
            leaf.bytes -= u32::from(size);
            self.lines[line].locked.held.remove(1, size.into());
            self.taken = (size, way);
        }
        for &(class, _) in way[..=depth].iter().rev() {
            let own = &mut self.classes[class as usize];
            if let Some(size) = size
                && own.rate.is_finite()
            {
                // What the bucket cannot hold is lost.
                own.full_at = own.full_at.max(now).saturating_add(time_at(size.into(), own.rate));
            }
            own.place = Place::Out;
            if !own.queue.is_empty() || !own.turns.is_empty() {
                self.enter(line, class, now);
            }
        }
        size.map(|_| flow)
    }

    fn leaf(&self, flow: Entry) -> u32 {
        self.flows[flow.slot as usize].1
    }
}

impl Shaper for Shaping {
    #[inline(never)]
    fn open(&mut self, line: usize, flow: Entry, terms: &Terms) {
        if self.lines[line].root.is_none() {
            let nobody = Entry { slot: u32::MAX, id: u64::MAX };
            let root = self.class(NONE, self.rules.egress.unwrap_or(f64::INFINITY), nobody);
            let tenants = self.rules.tenants.clone();
            self.lines[line].tenants = tenants.into_iter().map(|rate| self.class(root, rate, nobody)).collect();
            self.lines[line].root = Some(root);
        }
        let own = &self.lines[line];
        let parent = terms.tenant.map_or(own.root.unwrap_or(NONE), |tenant| own.tenants[usize::from(tenant)]);
        let leaf = self.class(parent, terms.cap, flow);
        let slot = flow.slot as usize;
        if slot >= self.flows.len() {
            self.flows.resize(slot + 1, (0, NONE));
        }
        self.flows[slot] = (line as u32, leaf);
        self.lines[line].locked.flows += 1;
    }

    #[inline(never)]
    fn offer(&mut self, line: usize, flow: Entry, at: Ps, now: Ps) {
        if flow == AGENT {
            self.lines[line].locked.agent = true;
            return;
        }
        // The packet just taken comes back: it was not charged.
        let (size, way) = self.taken;
        for (class, before) in way.into_iter().filter(|&(class, _)| class != NONE) {
            let own = &mut self.classes[class as usize];
            own.full_at = before;
            if let Place::Waits(until) = own.place {
                self.lines[line].waiting.remove(&(until, class));
                own.place = Place::Out;
            }
        }
        let leaf = self.leaf(flow);
        let own = &mut self.classes[leaf as usize];
        own.queue.push_front(size);
        own.bytes += u32::from(size);
        self.lines[line].locked.held.add(size);
        if own.place == Place::Turn {
            let parent = own.parent;
            own.place = Place::Out;
            self.classes[parent as usize].turns.retain(|&class| class != leaf);
        }
        let own = &mut self.classes[leaf as usize];
        own.place = Place::Waits(at);
        self.lines[line].waiting.insert((at, leaf));
        for (class, _) in way.into_iter().rev().filter(|&(class, _)| class != NONE && class != leaf) {
            if !self.classes[class as usize].turns.is_empty() {
                self.enter(line, class, now);
            }
        }
    }

    fn ready(&self, _: Entry) -> bool {
        false
    }

    #[inline(never)]
    fn take(&mut self, line: usize, now: Ps) -> Take {
        if std::mem::take(&mut self.lines[line].locked.agent) {
            return Take::Send(AGENT);
        }
        let Some(root) = self.lines[line].root else { return Take::Idle };
        while let Some(&(at, class)) = self.lines[line].waiting.first()
            && at <= now
        {
            self.lines[line].waiting.pop_first();
            self.classes[class as usize].place = Place::Out;
            self.enter(line, class, now);
        }
        while self.classes[root as usize].place == Place::Turn {
            if self.lines[line].locked.busy > now {
                return Take::At(self.lines[line].locked.busy);
            }
            if let Some(flow) = self.send(line, root, now) {
                self.lines[line].locked.busy = now + self.rules.cost;
                return Take::Send(flow);
            }
        }
        self.lines[line].waiting.first().map_or(Take::Idle, |&(at, _)| Take::At(at))
    }

    #[inline(never)]
    fn forget(&mut self, flow: Entry) {
        let (line, leaf) = std::mem::replace(&mut self.flows[flow.slot as usize], (0, NONE));
        let Some(class) = self.classes.get_mut(leaf as usize) else { return };
        let line = &mut self.lines[line as usize];
        line.locked.held.remove(class.queue.len() as u32, class.bytes);
        class.queue.clear();
        class.bytes = 0;
        match class.place {
            Place::Out => {}
            Place::Waits(at) => {
                line.waiting.remove(&(at, leaf));
            }
            Place::Turn => {
                let parent = class.parent;
                self.classes[parent as usize].turns.retain(|&class| class != leaf);
            }
        }
        self.classes[leaf as usize].id = u64::MAX;
        self.free.push(leaf);
    }

    fn holds(&self) -> bool {
        true
    }

    fn room(&self, flow: Entry) -> Option<u32> {
        let packets = self.classes.get(self.leaf(flow) as usize)?.queue.len() as u32;
        (packets < self.rules.queue).then_some(packets)
    }

    #[inline(never)]
    fn hand(&mut self, line: usize, flow: Entry, size: u16, rate: f64, now: Ps) {
        let leaf = self.leaf(flow);
        let own = &mut self.classes[leaf as usize];
        let rate = own.cap.min(rate);
        if rate != own.rate {
            (own.rate, own.depth) = (rate, time_at(self.rules.burst, rate));
        }
        own.queue.push_back(size);
        own.bytes += u32::from(size);
        self.lines[line].locked.held.add(size);
        self.enter(line, leaf, now);
    }

    fn held(&self) -> Held {
        let of = |line: &Line| {
            let classes = line.locked.flows + line.tenants.len() as u64 + 1;
            Held { memory: classes * size_of::<Class>() as u64, ..line.locked.held }
        };
        Held::largest(self.lines.iter().map(of))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{capped, flow, hand, opened};
    use super::*;
    use onramp_config::units::US;

    /// Packets of 1000 B: 8 us at 1 Gb/s.
    fn shaping(rules: Rules, terms: &[Terms]) -> Shaping {
        opened(Shaping::new(&Rules { queue: 3, ..rules }, 1), terms)
    }

    #[test]
    fn a_bucket_lets_its_burst_go_at_once_and_then_its_rate() {
        // 2000 B are 16 us. At 100 us the bucket is full; after a packet it will be at 108, 116,
        // 124 us, of which the first two are within 16 us; so three leave at once, the next at 108 us.
        let mut s = shaping(Rules { burst: 2000, ..Rules::default() }, &[capped(1.0, None)]);
        hand(&mut s, 0, 3, 100 * US);
        assert_eq!(s.room(flow(0)), None);
        for _ in 0..3 {
            assert_eq!(s.take(0, 100 * US), Take::Send(flow(0)));
        }
        hand(&mut s, 0, 2, 100 * US);
        assert_eq!(s.take(0, 100 * US), Take::At(108 * US));
        // Late by 5 us: what follows makes up for it, since the bucket has them.
        assert_eq!(s.take(0, 113 * US), Take::Send(flow(0)));
        assert_eq!(s.take(0, 113 * US), Take::At(116 * US));
        assert_eq!((s.held().most_packets, s.held().most_bytes), (3, 3000));
    }

    #[test]
    fn all_buckets_on_the_way_are_charged_and_classes_take_turns() {
        // No burst. The tenant: 4 us a packet; the NIC: 2 us.
        let rules = Rules { egress: Some(4e9), tenants: vec![2e9], ..Rules::default() };
        let mut s = shaping(rules, &[capped(8.0, Some(0)), capped(8.0, Some(0)), capped(8.0, None)]);
        for slot in 0..3 {
            hand(&mut s, slot, 2, 0);
        }
        // The tenant came first, with flow 0; flow 2 has its turn; then the tenant is in debt until 4 us.
        assert_eq!(s.take(0, 0), Take::Send(flow(0)));
        // Flow 0's own bucket, then the NIC's.
        assert_eq!(s.take(0, 0), Take::At(US));
        assert_eq!(s.take(0, US), Take::At(2 * US));
        assert_eq!(s.take(0, 2 * US), Take::Send(flow(2)));
        assert_eq!(s.take(0, 4 * US), Take::Send(flow(2)));
        assert_eq!(s.take(0, 6 * US), Take::Send(flow(1)));
        assert_eq!(s.take(0, 8 * US), Take::At(10 * US));
        assert_eq!(s.take(0, 10 * US), Take::Send(flow(0)));
    }

    #[test]
    fn a_packet_that_is_held_back_is_not_charged() {
        let rules = Rules { egress: Some(1e9), burst: 1000, ..Rules::default() };
        let mut s = shaping(rules, &[capped(1.0, None), capped(1.0, None)]);
        hand(&mut s, 0, 2, 50 * US);
        hand(&mut s, 1, 1, 50 * US);
        assert_eq!(s.take(0, 50 * US), Take::Send(flow(0)));
        s.offer(0, flow(0), 70 * US, 50 * US);
        assert_eq!(s.take(0, 50 * US), Take::Send(flow(1)));
        // The NIC's bucket: 50 us, and 8 us later it may be in debt no more.
        assert_eq!(s.take(0, 51 * US), Take::At(70 * US));
        assert_eq!(s.take(0, 70 * US), Take::Send(flow(0)));
        s.forget(flow(0));
        assert_eq!(s.take(0, 99 * US), Take::Idle);
        assert_eq!((s.held().packets, s.held().bytes), (0, 0));
        s.open(0, Entry { slot: 0, id: 7 }, &capped(1.0, None));
        hand(&mut s, 0, 0, 99 * US);
        assert_eq!(s.take(0, 99 * US), Take::Idle);
    }
}
