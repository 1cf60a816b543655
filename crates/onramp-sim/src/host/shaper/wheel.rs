//! A timing wheel: a ring of slots, each a list of what is due in it, first come first.
//! Entries of the past go into the current slot, those beyond the last slot into the last (Carousel, SIGCOMM'17). A bit
//! for each slot, and one for each word of these, find the next slot that is filled, so that nobody has to look at
//! empty ones.

use onramp_config::units::Ps;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Node<T> {
    item: T,
    next: u32,
}

/// See the module.
#[derive(Debug)]
pub struct Wheel<T> {
    /// How long a slot is.
    slot: Ps,
    /// First and last of each slot's list.
    lists: Vec<[u32; 2]>,
    /// Which slots hold something, a bit each, and which of these words do.
    filled: Vec<u64>,
    words: Vec<u64>,
    /// The current slot, counted from time 0: nothing is due in those before.
    front: u64,
    /// The first that is filled, if it is known.
    head: Option<u64>,
    nodes: Vec<Node<T>>,
    /// First of the nodes that are free.
    free: u32,
    len: usize,
}

impl<T: Copy> Wheel<T> {
    /// An empty one that reaches at least `horizon` ahead.
    pub fn new(slot: Ps, horizon: Ps) -> Self {
        let slots = (horizon.div_ceil(slot) as usize).max(1).next_multiple_of(64);
        Self {
            slot,
            lists: vec![[NONE; 2]; slots],
            filled: vec![0; slots / 64],
            words: vec![0; (slots / 64).div_ceil(64)],
            front: 0,
            head: None,
            nodes: Vec::new(),
            free: NONE,
            len: 0,
        }
    }

    /// Items it holds.
    pub fn len(&self) -> usize {
        self.len
    }

    /// It holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of slots, and of items as many as it ever held.
    pub fn memory(&self) -> usize {
        self.lists.len() * size_of::<[u32; 2]>()
            + (self.filled.len() + self.words.len()) * size_of::<u64>()
            + self.nodes.len() * size_of::<Node<T>>()
    }

    /// Adds an item that is due at `at`; it is `now`.
    #[inline]
    pub fn push(&mut self, at: Ps, now: Ps, item: T) {
        let current = now / self.slot;
        if self.len == 0 {
            self.front = self.front.max(current);
        }
        let last = self.front + self.lists.len() as u64 - 1;
        let number = (at / self.slot).max(current).clamp(self.front, last);
        let place = (number % self.lists.len() as u64) as usize;
        let node = Node { item, next: NONE };
        let id = if self.free == NONE {
            self.nodes.push(node);
            self.nodes.len() as u32 - 1
        } else {
            let id = self.free;
            self.free = self.nodes[id as usize].next;
            self.nodes[id as usize] = node;
            id
        };
        let list = &mut self.lists[place];
        if list[0] == NONE {
            list[0] = id;
            self.filled[place / 64] |= 1 << (place % 64);
            self.words[place / 4096] |= 1 << (place / 64 % 64);
        } else {
            self.nodes[list[1] as usize].next = id;
        }
        list[1] = id;
        if self.len == 0 || self.head.is_some_and(|head| number < head) {
            self.head = Some(number);
        }
        self.len += 1;
    }

    /// When the first slot that is filled begins.
    #[inline]
    pub fn first(&mut self) -> Option<Ps> {
        if self.len == 0 {
            return None;
        }
        let head = *self.head.get_or_insert_with(|| {
            let slots = self.lists.len() as u64;
            let place = self.front % slots;
            let next = next_filled(&self.filled, &self.words, place as usize) as u64;
            self.front + (next + slots - place) % slots
        });
        Some(head * self.slot)
    }

    /// Takes the first item of the first slot that is filled: the wheel turns there.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        self.first()?;
        self.front = self.head?;
        let place = (self.front % self.lists.len() as u64) as usize;
        let list = &mut self.lists[place];
        let id = list[0];
        let node = &mut self.nodes[id as usize];
        list[0] = node.next;
        let item = node.item;
        node.next = self.free;
        self.free = id;
        if list[0] == NONE {
            self.head = None;
            self.filled[place / 64] &= !(1 << (place % 64));
            if self.filled[place / 64] == 0 {
                self.words[place / 4096] &= !(1 << (place / 64 % 64));
            }
        }
        self.len -= 1;
        Some(item)
    }

    /// Nothing is due before `now`: the wheel turns there.
    #[inline]
    pub fn turn(&mut self, now: Ps) {
        let current = now / self.slot;
        if self.first().is_none_or(|first| first / self.slot >= current) {
            self.front = self.front.max(current);
        }
    }
}

/// The first filled slot from `place` on, around the ring; there is one.
fn next_filled(filled: &[u64], words: &[u64], place: usize) -> usize {
    let word = place / 64;
    let own = filled[word] & u64::MAX << (place % 64);
    if own != 0 {
        return word * 64 + own.trailing_zeros() as usize;
    }
    let next = (word + 1) % filled.len();
    let (first, all) = (next / 64, words.len());
    for i in 0..=all {
        let at = (first + i) % all;
        let mut bits = words[at];
        if i == 0 {
            bits &= u64::MAX << (next % 64);
        }
        if bits != 0 {
            let word = at * 64 + bits.trailing_zeros() as usize;
            return word * 64 + filled[word].trailing_zeros() as usize;
        }
    }
    unreachable!("it is not empty")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn the_past_is_now_and_beyond_the_horizon_is_the_last_slot() {
        // 64 slots of 10.
        let mut wheel = Wheel::new(10, 600);
        for (at, item) in [(125, 'c'), (40, 'a'), (5_000, 'z'), (121, 'd'), (99, 'b'), (729, 'y')] {
            wheel.push(at, 95, item);
        }
        // Slot 9 has what is past and what is due in it; the last one is slot 9 + 63.
        let mut all = Vec::new();
        while let (Some(at), Some(item)) = (wheel.first(), wheel.pop()) {
            all.push((at, item));
        }
        assert_eq!(all, [(90, 'a'), (90, 'b'), (120, 'c'), (120, 'd'), (720, 'z'), (720, 'y')]);
        assert!(wheel.is_empty() && wheel.first().is_none());
    }

    proptest! {
        /// Against lists sorted by slot: order in a slot, the past, the horizon, empty stretches.
        #[test]
        fn items_come_as_from_sorted_lists(
            slot in 1u64..50,
            horizon in 1u64..300_000,
            steps in prop::collection::vec((0u64..400_000, 0u64..3_000, 0u8..3), 1..300),
        ) {
            let mut wheel = Wheel::new(slot, horizon);
            let slots = horizon.div_ceil(slot).next_multiple_of(64);
            let mut lists: BTreeMap<u64, std::collections::VecDeque<usize>> = BTreeMap::new();
            let mut now = 0;
            for (item, (ahead, passes, pops)) in steps.into_iter().enumerate() {
                let at = if item % 3 == 0 { now + ahead } else { (now + ahead % 500).saturating_sub(200) };
                // What is due is taken before anything is added, as a shaper does.
                while let Some((&number, _)) = lists.first_key_value() && number * slot <= now {
                    let list = lists.get_mut(&number).unwrap();
                    prop_assert_eq!(wheel.first(), Some(number * slot));
                    prop_assert_eq!(wheel.pop(), list.pop_front());
                    if list.is_empty() { lists.remove(&number); }
                }
                wheel.turn(now);
                let number = (at / slot).max(now / slot).min(now / slot + slots - 1);
                lists.entry(number).or_default().push_back(item);
                wheel.push(at, now, item);
                for _ in 0..pops {
                    let Some((&number, _)) = lists.first_key_value() else { break };
                    now = now.max(number * slot);
                    let list = lists.get_mut(&number).unwrap();
                    prop_assert_eq!(wheel.first(), Some(number * slot));
                    prop_assert_eq!(wheel.pop(), list.pop_front());
                    if list.is_empty() { lists.remove(&number); }
                }
                now += passes;
                prop_assert_eq!(wheel.len(), lists.values().map(|list| list.len()).sum::<usize>());
            }
        }
    }
}
