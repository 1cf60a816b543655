//! The arrivals of all sources in order of time, numbered.

use crate::config::units::Ps;
use crate::engine::random;
use crate::workload::{NewFlow, Source};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A flow that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// When, counted from the beginning of the load.
    pub at: Ps,
    /// As its source describes it.
    pub flow: NewFlow,
    /// Number in order of arrival.
    pub id: u64,
    /// Number in its section.
    pub number: u64,
    /// What ECMP hashes for data and for replies: the same whatever other sections
    /// there are.
    pub hashes: [u16; 2],
}

/// See the module.
pub struct Arrivals {
    sources: Vec<Box<dyn Source>>,
    /// When each source is due.
    due: BinaryHeap<Reverse<(Ps, u32)>>,
    seed: u64,
    count: u64,
    /// Flows of each section so far.
    in_section: Vec<u64>,
    taken: Vec<NewFlow>,
}

impl Arrivals {
    /// Of some sources.
    pub fn new(sources: Vec<Box<dyn Source>>, sections: usize, seed: u64) -> Self {
        let due = (0..).zip(&sources).filter_map(|(i, source)| Some(Reverse((source.next_at()?, i)))).collect();
        Self { sources, due, seed, count: 0, in_section: vec![0; sections], taken: Vec::new() }
    }

    /// When the next flow arrives.
    pub fn next_at(&self) -> Option<Ps> {
        self.due.peek().map(|due| due.0.0)
    }

    /// Adds what arrives before `end` to `out`.
    pub fn take(&mut self, end: Ps, out: &mut Vec<Arrival>) {
        while let Some(&Reverse((at, i))) = self.due.peek()
            && at < end
        {
            self.due.pop();
            self.sources[i as usize].take(&mut self.taken);
            for flow in self.taken.drain(..) {
                let number = &mut self.in_section[flow.traffic as usize];
                let mut hashes = random::stream(self.seed, "ecmp", u64::from(flow.traffic) << 40 | *number);
                let mut hash = || random::below(&mut hashes, 1 << 16) as u16;
                out.push(Arrival { at, flow, id: self.count, number: *number, hashes: [hash(), hash()] });
                *number += 1;
                self.count += 1;
            }
            self.due.extend(self.sources[i as usize].next_at().map(|next| Reverse((next, i))));
        }
    }

    /// Bytes still to come after `now`, on average.
    pub fn expected_bytes(&self, now: Ps) -> f64 {
        self.sources.iter().map(|source| source.expected_bytes(now)).sum()
    }
}
