//! A timing wheel for what has no lane: buckets of four nanoseconds for the next two
//! microseconds, where a packet network has nearly all its events, and a heap
//! for what is later. (Small, since every cell has one.)

use onramp_config::units::Ps;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A bucket is 2^12 ps wide.
const WIDTH: u32 = 12;
const BUCKETS: u64 = 512;
/// Items that the bucket being emptied is kept sorted for; more of them go to the heap, which has no list to move.
const CROWD: usize = 64;

/// Items by time; at the same time, by their own order.
#[derive(Debug)]
pub struct Wheel<T> {
    buckets: Vec<Vec<(Ps, T)>>,
    /// Which buckets hold something, a bit each.
    filled: [u64; BUCKETS as usize / 64],
    /// The bucket being emptied, sorted latest first.
    now: u64,
    later: BinaryHeap<Reverse<(Ps, T)>>,
}

impl<T: Ord + Copy> Default for Wheel<T> {
    fn default() -> Self {
        Self {
            buckets: (0..BUCKETS).map(|_| Vec::new()).collect(),
            filled: [0; BUCKETS as usize / 64],
            now: 0,
            later: BinaryHeap::new(),
        }
    }
}

impl<T: Ord + Copy> Wheel<T> {
    /// Adds an item. `at` must not be before the last popped item's time.
    #[inline]
    pub fn push(&mut self, at: Ps, item: T) {
        // `first` may have turned the wheel past `at`.
        let bucket = (at >> WIDTH).max(self.now);
        if bucket >= self.now + BUCKETS {
            self.later.push(Reverse((at, item)));
            return;
        }
        let slot = (bucket % BUCKETS) as usize;
        let list = &mut self.buckets[slot];
        if bucket == self.now {
            if list.len() >= CROWD {
                self.later.push(Reverse((at, item)));
                return;
            }
            let place = list.partition_point(|e| *e > (at, item));
            list.insert(place, (at, item));
        } else {
            list.push((at, item));
        }
        self.filled[slot / 64] |= 1 << (slot % 64);
    }

    /// Time of the earliest item; `Ps::MAX` if there is none.
    #[inline]
    pub fn first(&mut self) -> Ps {
        let near = self.near().map_or(Ps::MAX, |e| e.0);
        let later = self.later.peek().map_or(Ps::MAX, |e| e.0.0);
        near.min(later)
    }

    /// The earliest item.
    pub fn peek(&mut self) -> Option<&T> {
        let later = self.later.peek().map(|e| e.0);
        if self.near().is_some_and(|near| later.is_none_or(|later| near <= later)) {
            return self.buckets[(self.now % BUCKETS) as usize].last().map(|e| &e.1);
        }
        self.later.peek().map(|e| &e.0.1)
    }

    /// All items, in no order.
    pub fn items(&self) -> impl Iterator<Item = (Ps, &T)> {
        let Self { buckets, filled: _, now: _, later } = self;
        let later = later.iter().map(|Reverse((at, item))| (*at, item));
        buckets.iter().flatten().map(|(at, item)| (*at, item)).chain(later)
    }

    /// Takes the earliest item.
    #[inline]
    pub fn pop(&mut self) -> Option<(Ps, T)> {
        let later = self.later.peek().map(|e| e.0);
        match (self.near(), later) {
            (Some(near), Some(later)) if later < near => self.later.pop().map(|e| e.0),
            (None, _) => {
                let item = self.later.pop()?.0;
                // Nothing is near, so the wheel may turn up to this item.
                self.now = item.0 >> WIDTH;
                Some(item)
            }
            (Some(_), _) => {
                let slot = (self.now % BUCKETS) as usize;
                let item = self.buckets[slot].pop();
                if self.buckets[slot].is_empty() {
                    self.filled[slot / 64] &= !(1 << (slot % 64));
                }
                item
            }
        }
    }

    /// The earliest item of the wheel proper; turns the wheel to its bucket.
    #[inline]
    fn near(&mut self) -> Option<(Ps, T)> {
        let slot = (self.now % BUCKETS) as usize;
        if let Some(&item) = self.buckets[slot].last() {
            return Some(item);
        }
        let ahead = self.next_filled(slot)?;
        self.now += ahead;
        let bucket = &mut self.buckets[(self.now % BUCKETS) as usize];
        bucket.sort_unstable_by(|a, b| b.cmp(a));
        bucket.last().copied()
    }

    /// How many buckets after `slot` the next filled one is.
    fn next_filled(&self, slot: usize) -> Option<u64> {
        const WORDS: usize = BUCKETS as usize / 64;
        let (word, bit) = (slot / 64, slot % 64);
        for i in 0..=WORDS {
            let mut bits = self.filled[(word + i) % WORDS];
            if i == 0 {
                bits &= u64::MAX << bit;
            } else if i == WORDS {
                bits &= !(u64::MAX << bit);
            }
            if bits != 0 {
                return Some((i * 64) as u64 + u64::from(bits.trailing_zeros()) - bit as u64);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_crowd_comes_in_order() {
        let mut wheel = Wheel::default();
        // Into the bucket that is being emptied, in no order.
        let items: Vec<(Ps, u32)> = (0..1000).map(|n| (u64::from(n * 7 % 5), n * 389 % 1000)).collect();
        items.iter().for_each(|&(at, item)| wheel.push(at, item));
        let mut sorted = items;
        sorted.sort_unstable();
        assert_eq!(std::iter::from_fn(|| wheel.pop()).collect::<Vec<_>>(), sorted);
    }

    proptest! {
        /// Against a plain heap: near and far items, ties, and pushes between pops.
        #[test]
        fn items_come_in_order(steps in prop::collection::vec((0u64..5_000_000, any::<u8>(), 0u8..4), 1..600)) {
            let mut wheel = Wheel::default();
            let mut heap = BinaryHeap::new();
            let mut now = 0;
            for (delay, item, pops) in steps {
                // Mostly near, sometimes at once, sometimes far.
                let at = now + if item % 3 == 0 { delay % 2_000 } else { delay };
                wheel.push(at, item);
                heap.push(Reverse((at, item)));
                prop_assert_eq!(wheel.first(), heap.peek().map_or(Ps::MAX, |e| e.0.0));
                for _ in 0..pops {
                    let expected = heap.pop().map(|e| e.0);
                    prop_assert_eq!(wheel.pop(), expected);
                    // Other events may come before the wheel's next, so `now` stays here
                    // while the wheel is asked for it.
                    now = expected.map_or(now, |e| e.0);
                    prop_assert_eq!(wheel.first(), heap.peek().map_or(Ps::MAX, |e| e.0.0));
                }
            }
            while let Some(Reverse(expected)) = heap.pop() {
                prop_assert_eq!(wheel.pop(), Some(expected));
            }
            prop_assert_eq!(wheel.pop(), None);
        }
    }
}
