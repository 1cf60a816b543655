//! A queue per flow, each paced on its own, as Linux's `fq` does: flows in turn, those whose
//! next packet is too early in a tree by time.
//!
//! As there, a flow sends a quantum in its turn and then waits as long as that takes at its
//! rate, less what its timer was late (half of the wait at most); at 550 kb/s and below, a
//! packet at a time. It knows no tenants and no egress rate. There is one lock for all cores.
//! Nothing tells a source to wait but a full queue.

use super::config::time_at;
use super::{AGENT, Entry, Held, Locked, Place, Rules, Shaper, Take, Terms};
use onramp_config::units::Ps;
use std::collections::{BTreeSet, VecDeque};

/// `low_rate_threshold`, in bits per second.
const LOW_RATE: f64 = 550e3;
/// Quanta that a new flow may send in its first turn: `initial_quantum` is ten packets.
const FIRST: i64 = 5;

#[derive(Debug)]
struct Flow {
    id: u64,
    line: u32,
    cap: f64,
    /// Its controller's rate.
    rate: f64,
    queue: VecDeque<u16>,
    bytes: u32,
    credit: i64,
    /// Nothing leaves before.
    next: Ps,
    place: Place,
}

#[derive(Debug, Default)]
struct Line {
    /// Flows in turn; the new ones come first.
    new: VecDeque<Entry>,
    old: VecDeque<Entry>,
    /// Those that wait, by time, number and slot.
    throttled: BTreeSet<(Ps, u64, u32)>,
    locked: Locked,
}

/// See the module.
#[derive(Debug)]
pub struct Shaping {
    rules: Rules,
    lines: Vec<Line>,
    /// By slot.
    flows: Vec<Option<Flow>>,
    /// The packet taken last: its size, and when its flow was due before.
    taken: (u16, Ps),
}

impl Shaping {
    pub fn new(rules: &Rules, lines: usize) -> Self {
        Self {
            rules: rules.clone(),
            lines: (0..lines).map(|_| Line::default()).collect(),
            flows: Vec::new(),
            taken: (0, 0),
        }
    }

    /// The flow, unless its slot has gone to another since.
    fn flow(&mut self, entry: Entry) -> Option<&mut Flow> {
        self.flows.get_mut(entry.slot as usize)?.as_mut().filter(|flow| flow.id == entry.id)
    }
}

impl Flow {
    /// A packet leaves now.
    fn leaves(&mut self, size: u16, quantum: i64, now: Ps) {
        self.credit -= i64::from(size);
        let rate = self.rate.min(self.cap);
        if rate.is_infinite() {
            return;
        }
        let bytes = if rate <= LOW_RATE {
            self.credit = 0;
            i64::from(size)
        } else if self.credit > 0 {
            return;
        } else {
            i64::from(size).max(quantum)
        };
        let wait = time_at(bytes as u32, rate);
        let late = if self.next > 0 { (now - self.next.min(now)).min(wait / 2) } else { 0 };
        self.next = now.saturating_add(wait - late);
    }
}

impl Shaper for Shaping {
    #[inline(never)]
    fn open(&mut self, line: usize, flow: Entry, terms: &Terms) {
        let slot = flow.slot as usize;
        if slot >= self.flows.len() {
            self.flows.resize_with(slot + 1, || None);
        }
        self.flows[slot] = Some(Flow {
            id: flow.id,
            line: line as u32,
            cap: terms.cap,
            rate: f64::INFINITY,
            queue: VecDeque::new(),
            bytes: 0,
            credit: FIRST * self.rules.quantum,
            next: 0,
            place: Place::Out,
        });
        self.lines[line].locked.flows += 1;
    }

    #[inline(never)]
    fn offer(&mut self, line: usize, entry: Entry, at: Ps, _: Ps) {
        if entry == AGENT {
            self.lines[line].locked.agent = true;
            return;
        }
        // The packet just taken comes back.
        let (size, next) = self.taken;
        let Some(flow) = self.flow(entry) else { return };
        flow.queue.push_front(size);
        flow.bytes += u32::from(size);
        flow.credit += i64::from(size);
        flow.next = next.max(at);
        self.lines[line].locked.held.add(size);
    }

    fn ready(&self, _: Entry) -> bool {
        false
    }

    #[inline(never)]
    fn take(&mut self, line: usize, now: Ps) -> Take {
        let Rules { quantum, slack, cost, .. } = self.rules;
        let own = &mut self.lines[line];
        if std::mem::take(&mut own.locked.agent) {
            return Take::Send(AGENT);
        }
        while let Some(&(at, id, slot)) = own.throttled.first()
            && at <= now
        {
            own.throttled.pop_first();
            own.old.push_back(Entry { slot, id });
            if let Some(flow) = &mut self.flows[slot as usize] {
                flow.place = Place::Turn;
            }
        }
        if own.locked.busy > now && !(own.new.is_empty() && own.old.is_empty()) {
            return Take::At(own.locked.busy);
        }
        loop {
            let own = &mut self.lines[line];
            let fresh = !own.new.is_empty();
            let list = if fresh { &mut own.new } else { &mut own.old };
            let Some(&entry) = list.front() else { break };
            let Some(flow) = self.flows[entry.slot as usize].as_mut().filter(|flow| flow.id == entry.id) else {
                list.pop_front();
                continue;
            };
            if flow.credit <= 0 {
                flow.credit += quantum;
                list.pop_front();
                own.old.push_back(entry);
                continue;
            }
            let Some(&size) = flow.queue.front() else {
                list.pop_front();
                if fresh && !own.old.is_empty() {
                    own.old.push_back(entry);
                } else {
                    flow.place = Place::Out;
                }
                continue;
            };
            if flow.next > now {
                list.pop_front();
                flow.place = Place::Waits(flow.next);
                own.throttled.insert((flow.next, entry.id, entry.slot));
                continue;
            }
            flow.queue.pop_front();
            flow.bytes -= u32::from(size);
            own.locked.held.remove(1, size.into());
            self.taken = (size, flow.next);
            flow.leaves(size, quantum, now);
            own.locked.busy = now + cost;
            return Take::Send(entry);
        }
        self.lines[line].throttled.first().map_or(Take::Idle, |&(at, ..)| Take::At(at + slack))
    }

    #[inline(never)]
    fn forget(&mut self, entry: Entry) {
        let Some(flow) = self.flows[entry.slot as usize].take() else { return };
        let line = &mut self.lines[flow.line as usize];
        line.locked.held.remove(flow.queue.len() as u32, flow.bytes);
        if let Place::Waits(at) = flow.place {
            line.throttled.remove(&(at, entry.id, entry.slot));
        }
    }

    fn holds(&self) -> bool {
        true
    }

    fn room(&self, flow: Entry) -> Option<u32> {
        let packets = self.flows[flow.slot as usize].as_ref()?.queue.len() as u32;
        (packets < self.rules.queue).then_some(packets)
    }

    #[inline(never)]
    fn hand(&mut self, line: usize, entry: Entry, size: u16, rate: f64, _: Ps) {
        let Some(flow) = self.flow(entry) else { return };
        flow.rate = rate;
        flow.queue.push_back(size);
        flow.bytes += u32::from(size);
        let out = flow.place == Place::Out;
        if out {
            flow.place = Place::Turn;
        }
        let own = &mut self.lines[line];
        own.locked.held.add(size);
        if out {
            own.new.push_back(entry);
        }
    }

    fn held(&self) -> Held {
        let of =
            |line: &Line| Held { memory: line.locked.flows * size_of::<Option<Flow>>() as u64, ..line.locked.held };
        Held::largest(self.lines.iter().map(of))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{flow, hand, opened};
    use super::*;
    use onramp_config::units::{MS, US};

    /// A quantum is two packets of 1000 B: 16 us at 1 Gb/s.
    fn shaping(caps: &[f64]) -> Shaping {
        let rules = Rules { queue: 20, quantum: 2000, slack: 10 * US, ..Rules::default() };
        let terms: Vec<_> = caps.iter().map(|&cap| Terms { cap, tenant: None }).collect();
        opened(Shaping::new(&rules, 1), &terms)
    }

    #[test]
    fn a_new_flow_sends_ten_packets_and_then_a_quantum_at_a_time() {
        let mut s = shaping(&[1e9]);
        hand(&mut s, 0, 20, 0);
        assert_eq!(s.room(flow(0)), None);
        for _ in 0..10 {
            assert_eq!(s.take(0, 0), Take::Send(flow(0)));
        }
        // 16 us for a quantum; the timer is late by up to 10 us.
        assert_eq!(s.take(0, 0), Take::At(26 * US));
        assert_eq!(s.take(0, 20 * US), Take::Send(flow(0)));
        assert_eq!(s.take(0, 20 * US), Take::Send(flow(0)));
        // 4 us late: due at 20 + 16 - 4; then 30 us late, of which half a wait counts: 62 + 16 - 8.
        assert_eq!(s.take(0, 20 * US), Take::At(42 * US));
        assert_eq!(s.take(0, 62 * US), Take::Send(flow(0)));
        assert_eq!(s.take(0, 62 * US), Take::Send(flow(0)));
        assert_eq!(s.take(0, 62 * US), Take::At(80 * US));
        assert_eq!(s.held().most_packets, 20);
    }

    #[test]
    fn slow_flows_send_a_packet_at_a_time() {
        let mut s = shaping(&[500e3]);
        hand(&mut s, 0, 2, 0);
        assert_eq!(s.take(0, 0), Take::Send(flow(0)));
        // 8000 bits at 500 kb/s.
        assert_eq!(s.take(0, 0), Take::At(16 * MS + 10 * US));
    }

    #[test]
    fn new_flows_come_first_and_what_is_held_back_waits() {
        let mut s = shaping(&[f64::INFINITY, f64::INFINITY]);
        hand(&mut s, 0, 15, 0);
        (0..10).for_each(|_| assert_eq!(s.take(0, 0), Take::Send(flow(0))));
        assert_eq!(s.take(0, 0), Take::Send(flow(0)));
        hand(&mut s, 1, 2, 0);
        assert_eq!(s.take(0, 0), Take::Send(flow(1)));
        s.offer(0, flow(1), 30 * US, 0);
        assert_eq!(s.take(0, 0), Take::Send(flow(0)));
        s.forget(flow(0));
        assert_eq!(s.take(0, 0), Take::At(40 * US));
        assert_eq!(s.take(0, 30 * US), Take::Send(flow(1)));
        s.offer(0, AGENT, 0, 30 * US);
        assert_eq!(s.take(0, 30 * US), Take::Send(AGENT));
        assert_eq!(s.take(0, 30 * US), Take::Send(flow(1)));
        assert_eq!((s.held().packets, s.held().bytes), (0, 0));
    }
}
