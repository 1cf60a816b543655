//! A pacer per flow, and the flows that are due in turn: what an RDMA NIC has.

use super::{AGENT, Entry, Rules, Shaper, Take, Terms};
use crate::engine::prefetch;
use onramp_config::units::Ps;
use onramp_workload::state::Encoder;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Debug;

/// Flows that may send now, in turn.
pub trait Turns: Debug + Default {
    /// A flow's place among them, which it keeps; the default is none.
    type Number: Copy + Debug + Default;
    /// The flow may send from now on.
    fn join(&mut self, flow: Entry, number: &mut Self::Number);
    /// The flow that the link is busy with may go on at once.
    fn stay(&mut self, flow: Entry, number: &mut Self::Number);
    /// Whose turn it is, which is over with it.
    fn next(&mut self) -> Option<Entry>;
    /// Whose turn it will be.
    fn first(&self) -> Option<Entry>;
    /// How many they are.
    fn len(&self) -> usize;
}

/// Who has sent lines up behind those that are ready.
#[derive(Debug, Default)]
pub struct Queue {
    ready: VecDeque<Entry>,
    /// The flow that the link is busy with, if it may go on at once: its turn is behind those that line up meanwhile.
    again: Option<Entry>,
}

impl Turns for Queue {
    type Number = ();

    #[inline(always)]
    fn join(&mut self, flow: Entry, (): &mut ()) {
        self.ready.push_back(flow);
    }

    #[inline(always)]
    fn stay(&mut self, flow: Entry, (): &mut ()) {
        self.again = Some(flow);
    }

    #[inline(always)]
    fn next(&mut self) -> Option<Entry> {
        self.ready.extend(self.again.take());
        self.ready.pop_front()
    }

    #[inline(always)]
    fn first(&self) -> Option<Entry> {
        self.ready.front().copied()
    }

    fn len(&self) -> usize {
        self.ready.len() + usize::from(self.again.is_some())
    }
}

/// A class of a NIC.
#[derive(Debug, Default)]
struct Line<T> {
    ready: T,
    /// Flows that may send later, by time and number. Entries whose time is not their
    /// flow's `due` are void: the flow has moved to an earlier time since.
    later: BinaryHeap<Reverse<(Ps, u64, u32)>>,
    /// The agent is among the ready.
    agent: bool,
}

/// Where a flow stands.
#[derive(Clone, Copy, Debug)]
struct Place<N> {
    id: u64,
    /// Time of its valid entry; `Ps::MAX` if there is none.
    due: Ps,
    ready: bool,
    number: N,
}

impl<N: Default> Place<N> {
    fn of(id: u64) -> Self {
        Self { id, due: Ps::MAX, ready: false, number: N::default() }
    }

    /// Nobody's.
    fn nowhere() -> Self {
        Self::of(u64::MAX)
    }
}

/// Pacers, and turns of those that are due.
#[derive(Debug, Default)]
pub struct Pacers<T: Turns> {
    lines: Vec<Line<T>>,
    /// By slot.
    places: Vec<Place<T::Number>>,
}

/// See the module.
pub type Shaping = Pacers<Queue>;

impl<T: Turns> Pacers<T> {
    pub fn new(_: &Rules, lines: usize) -> Self {
        Self { lines: (0..lines).map(|_| Line::default()).collect(), places: Vec::new() }
    }

    /// Takes down that nobody is in line; it is busy while somebody is. Entries that are void are dropped in their turn.
    pub fn encode(&self, state: &mut Encoder) {
        let Self { lines, places } = self;
        // Who has nothing to send gets a new number with the next message.
        let waits = |&Place { id: _, due, ready, number: _ }: &Place<T::Number>| ready || due < Ps::MAX;
        if lines.iter().any(|Line { ready: _, later: _, agent }| *agent) || places.iter().any(waits) {
            state.busy();
        }
    }

    /// Lines up the flows whose time has come by `now`.
    #[inline(always)]
    fn call_due(&mut self, line: usize, now: Ps) {
        let line = &mut self.lines[line];
        while let Some(&Reverse((at, id, slot))) = line.later.peek()
            && at <= now
        {
            line.later.pop();
            let place = &mut self.places[slot as usize];
            // The slot may have gone to another flow since.
            if place.due == at && place.id == id {
                place.due = Ps::MAX;
                if !place.ready {
                    place.ready = true;
                    line.ready.join(Entry { slot, id }, &mut place.number);
                }
            }
        }
    }
}

impl<T: Turns> Shaper for Pacers<T> {
    fn open(&mut self, _: usize, flow: Entry, _: &Terms) {
        let slot = flow.slot as usize;
        if slot >= self.places.len() {
            self.places.resize(slot + 1, Place::nowhere());
        }
        self.places[slot] = Place::of(flow.id);
    }

    fn begin(&mut self, flow: Entry) {
        self.places[flow.slot as usize].number = T::Number::default();
    }

    #[inline]
    fn offer(&mut self, number: usize, flow: Entry, at: Ps, now: Ps) {
        let line = &mut self.lines[number];
        if flow == AGENT {
            if !line.agent {
                line.agent = true;
                line.ready.join(flow, &mut T::Number::default());
            }
            return;
        }
        let place = &mut self.places[flow.slot as usize];
        if place.ready {
            return;
        }
        if at <= now {
            place.ready = true;
            // Flows that are due by then have waited longer. Without this a flow at line rate, which is due as soon as
            // the link is free, would send twice for each packet of one that is a little slower.
            self.call_due(number, now);
            self.lines[number].ready.join(flow, &mut self.places[flow.slot as usize].number);
        } else if at < place.due {
            place.due = at;
            line.later.push(Reverse((at, flow.id, flow.slot)));
        }
    }

    #[inline(always)]
    fn offer_again(&mut self, number: usize, flow: Entry, at: Ps, free: Ps) {
        let place = &mut self.places[flow.slot as usize];
        if at > free || place.ready {
            return self.offer(number, flow, at, free);
        }
        place.ready = true;
        self.lines[number].ready.stay(flow, &mut place.number);
    }

    #[inline]
    fn ready(&self, flow: Entry) -> bool {
        self.places[flow.slot as usize].ready
    }

    fn waiting(&self, line: usize) -> usize {
        self.lines[line].ready.len()
    }

    #[inline]
    fn following(&self, line: usize) -> Option<u32> {
        let Line { ready, later, .. } = &self.lines[line];
        let later = || later.peek().map(|entry| entry.0.2);
        ready.first().map(|flow| flow.slot).or_else(later)
    }

    #[inline]
    fn prefetch(&self, slot: u32) {
        prefetch(&self.places, slot as usize);
    }

    #[inline(always)]
    fn take(&mut self, line: usize, now: Ps) -> Take {
        self.call_due(line, now);
        let line = &mut self.lines[line];
        while let Some(flow) = line.ready.next() {
            if flow == AGENT {
                line.agent = false;
                return Take::Send(flow);
            }
            let place = &mut self.places[flow.slot as usize];
            if place.id == flow.id {
                place.ready = false;
                return Take::Send(flow);
            }
        }
        line.later.peek().map_or(Take::Idle, |e| Take::At(e.0.0))
    }

    fn forget(&mut self, flow: Entry) {
        self.places[flow.slot as usize] = Place::nowhere();
    }
}

#[cfg(test)]
mod tests {
    use super::super::FREE;
    use super::*;

    fn flow(slot: u32) -> Entry {
        Entry { slot, id: u64::from(slot) + 10 }
    }

    fn shaping() -> Shaping {
        let mut shaping = Shaping::new(&Rules::default(), 2);
        (0..4).for_each(|slot| shaping.open(0, flow(slot), &FREE));
        shaping
    }

    #[test]
    fn flows_that_are_due_take_turns() {
        let mut s = shaping();
        for slot in [2, 0, 1] {
            s.offer(0, flow(slot), 5, 5);
        }
        s.offer(0, flow(2), 5, 5);
        s.offer(0, AGENT, 0, 5);
        s.offer(0, AGENT, 0, 5);
        let order: Vec<Take> = (0..5).map(|_| s.take(0, 5)).collect();
        assert_eq!(
            order,
            [flow(2), flow(0), flow(1), AGENT].map(Take::Send).into_iter().chain([Take::Idle]).collect::<Vec<_>>()
        );
        assert_eq!(s.take(1, 5), Take::Idle);
    }

    #[test]
    fn a_flow_that_is_due_when_the_link_is_free_goes_behind_one_that_waited() {
        let mut s = shaping();
        s.offer(0, flow(1), 92, 87);
        s.offer(0, flow(2), 174, 174);
        assert_eq!([s.take(0, 174), s.take(0, 174)], [flow(1), flow(2)].map(Take::Send));
    }

    #[test]
    fn who_comes_while_a_packet_leaves_goes_before_the_next_one_of_its_flow() {
        let mut s = shaping();
        s.offer_again(0, flow(1), 80, 87);
        assert!(s.ready(flow(1)) && s.waiting(0) == 1);
        s.offer(0, flow(2), 85, 85);
        assert_eq!(
            [s.take(0, 87), s.take(0, 87), s.take(0, 87)],
            [Take::Send(flow(2)), Take::Send(flow(1)), Take::Idle]
        );
    }

    #[test]
    fn the_earliest_offer_counts_and_ties_go_by_number() {
        let mut s = shaping();
        s.offer(0, flow(3), 100, 0);
        s.offer(0, flow(1), 90, 0);
        s.offer(0, flow(3), 90, 0);
        s.offer(0, flow(3), 200, 0);
        assert_eq!(s.take(0, 0), Take::At(90));
        assert_eq!(s.take(0, 90), Take::Send(flow(1)));
        assert_eq!(s.take(0, 90), Take::Send(flow(3)));
        // The first offer of flow 3 is void.
        assert_eq!(s.take(0, 95), Take::At(100));
        assert_eq!(s.take(0, 100), Take::Idle);
    }

    #[test]
    fn who_is_forgotten_is_not_called_even_if_the_slot_is_used_again() {
        let mut s = shaping();
        s.offer(0, flow(1), 0, 0);
        s.offer(0, flow(2), 50, 0);
        s.forget(flow(1));
        s.forget(flow(2));
        let (new, other) = (Entry { slot: 1, id: 77 }, Entry { slot: 2, id: 78 });
        s.open(0, new, &FREE);
        s.open(0, other, &FREE);
        assert_eq!(s.take(0, 60), Take::Idle);
        s.offer(0, new, 60, 60);
        assert_eq!(s.take(0, 60), Take::Send(new));
    }
}
