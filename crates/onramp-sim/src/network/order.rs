//! The order in which flows' packets leave a port, how many come together, and whom its drops hit: how bursty what
//! comes is (Ghobadi and Ganjali, "TCP pacing in data center networks").

use onramp_config::units::{NS, Ps};
use onramp_records::counters::PortOrder;
use std::collections::{BTreeMap, BTreeSet};

/// A flow, as a port can tell: where it goes and its slot there.
pub type Flow = (u32, u32);

/// Order and drops of data packets at a port.
#[derive(Clone, Debug, Default)]
pub struct Order {
    last: Option<Flow>,
    packets: u64,
    /// Packets that followed one of another flow.
    changes: u64,
    /// Flows that the present drop event has hit, and the queue at its last drop.
    hit: BTreeSet<Flow>,
    full: u64,
    /// Drop events so far, by the number of flows that they hit.
    events: BTreeMap<usize, u64>,
    dropped: u64,
    /// Time is cut into slots: their length, the present one's number and what came in it, and numbers of slots so far by
    /// what came.
    slot: Ps,
    now: Option<Ps>,
    came: usize,
    slots: BTreeMap<usize, u64>,
}

impl Order {
    /// Of a port that sends a full packet in a `slot`.
    pub fn new(slot: Ps) -> Self {
        Self { slot: slot.max(1), ..Self::default() }
    }

    /// A packet comes, which may be dropped.
    pub fn comes(&mut self, now: Ps) {
        let slot = now / self.slot;
        if let Some(last) = self.now.filter(|last| *last < slot) {
            *self.slots.entry(self.came).or_default() += 1;
            let empty = slot - last - 1;
            if empty > 0 {
                *self.slots.entry(0).or_default() += empty;
            }
            self.came = 0;
        }
        self.now = Some(slot);
        self.came += 1;
    }

    /// The same from the beginning.
    pub fn begin(&mut self) {
        *self = Self::new(self.slot);
    }

    /// A packet leaves.
    pub fn leaves(&mut self, flow: Flow) {
        self.packets += 1;
        self.changes += u64::from(self.last.is_some_and(|last| last != flow));
        self.last = Some(flow);
    }

    /// A packet was dropped by a queue of so many bytes.
    pub fn drops(&mut self, flow: Flow, queue: u64) {
        self.dropped += 1;
        self.full = queue;
        self.hit.insert(flow);
    }

    /// A packet is let into a queue of so many bytes. One that is half of what it was ends the drop event.
    pub fn takes(&mut self, queue: u64) {
        if !self.hit.is_empty() && 2 * queue <= self.full {
            *self.events.entry(self.hit.len()).or_default() += 1;
            self.hit.clear();
        }
    }

    /// Summary of its counts.
    pub fn summary(&self) -> PortOrder {
        PortOrder {
            packets: self.packets,
            changes: self.changes,
            drops: self.dropped,
            drop_events: self.events.iter().map(|(&flows, &count)| (flows as f64, count)).collect(),
            slot_ns: self.slot / NS,
            slots: self.slots.iter().map(|(&packets, &count)| (packets as u64, count)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_that_follow_another_flows_and_flows_hit_together_are_counted() {
        let (a, b, c) = ((1, 1), (1, 2), (2, 1));
        let mut order = Order::new(1);
        [a, a, b, c, c, a].into_iter().for_each(|flow| order.leaves(flow));
        // Three drops of two flows, the queue never half empty; then one alone.
        order.drops(a, 1000);
        order.takes(600);
        order.drops(b, 1000);
        order.drops(a, 1000);
        order.takes(500);
        order.takes(400);
        order.drops(c, 900);
        order.takes(450);
        let found = order.summary();
        assert_eq!((found.packets, found.changes, found.drops), (6, 3, 4));
        assert_eq!(found.drop_events, [(1.0, 1), (2.0, 1)]);
    }

    #[test]
    fn packets_that_come_in_a_slot_are_counted_and_slots_without() {
        let mut order = Order::new(100);
        // The last slot is not over.
        [10, 20, 99, 100, 450, 460, 700].into_iter().for_each(|now| order.comes(now));
        assert_eq!(order.summary().slots, [(0, 4), (1, 1), (2, 1), (3, 1)]);
    }
}
