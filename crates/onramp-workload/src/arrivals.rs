//! The arrivals of all sources in order of time, numbered.

use super::{NewFlow, Source};
use onramp_config::units::Ps;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

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
    /// ECMP's hashes for data and for replies: the same whatever other sections
    /// there are.
    pub hashes: [u16; 2],
}

/// See the module. As an iterator, all that are still to come.
pub struct Arrivals {
    sources: Vec<Box<dyn Source>>,
    /// Due time and number of each source.
    due: BinaryHeap<Reverse<(Ps, u32)>>,
    seed: u64,
    count: u64,
    /// Flows of each section so far.
    in_section: Vec<u64>,
    /// Flows of the source that was due last, and when.
    taken: VecDeque<NewFlow>,
    at: Ps,
    scratch: Vec<NewFlow>,
}

impl Arrivals {
    /// Merges the sources of so many sections.
    pub fn new(sources: Vec<Box<dyn Source>>, sections: usize, seed: u64) -> Self {
        let due = (0..).zip(&sources).filter_map(|(i, source)| Some(Reverse((source.next_at()?, i)))).collect();
        let (in_section, taken, scratch) = (vec![0; sections], VecDeque::new(), Vec::new());
        Self { sources, due, seed, count: 0, in_section, taken, at: 0, scratch }
    }

    /// Time of the next arrival.
    pub fn next_at(&self) -> Option<Ps> {
        if self.taken.is_empty() { self.due.peek().map(|due| due.0.0) } else { Some(self.at) }
    }

    /// The next flow, if it arrives before `end`.
    pub fn next_before(&mut self, end: Ps) -> Option<Arrival> {
        if self.next_at()? >= end {
            return None;
        }
        while self.taken.is_empty() {
            let Reverse((at, i)) = self.due.pop()?;
            let source = &mut self.sources[i as usize];
            source.take(&mut self.scratch);
            self.taken.extend(self.scratch.drain(..));
            self.at = at;
            self.due.extend(source.next_at().map(|next| Reverse((next, i))));
        }
        let flow = self.taken.pop_front()?;
        let number = &mut self.in_section[flow.traffic as usize];
        let mut hashes = onramp_random::stream(self.seed, "ecmp", u64::from(flow.traffic) << 40 | *number);
        let mut hash = || onramp_random::below(&mut hashes, 1 << 16) as u16;
        let arrival = Arrival { at: self.at, flow, id: self.count, number: *number, hashes: [hash(), hash()] };
        *number += 1;
        self.count += 1;
        Some(arrival)
    }

    /// Bytes still to come after `now`, on average.
    pub fn expected_bytes(&self, now: Ps) -> f64 {
        self.sources.iter().map(|source| source.expected_bytes(now)).sum()
    }
}

impl Iterator for Arrivals {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        self.next_before(Ps::MAX)
    }
}
