//! A pacer per flow, and turns by place: a flow keeps its place as long as it has something to send.
//!
//! NICs of the HPCC simulator (`RdmaEgressQueue` of its ns-3) and of SimAI go round so. Who begins joins at the end, and
//! the round passes over those that may not send. Flows that begin within one round stay in step; in a queue who comes
//! in its midst falls behind.

use super::Entry;
use super::flow::{Pacers, Turns};
use std::collections::BTreeMap;

/// See the module.
pub type Shaping = Pacers<Round>;

/// Who has sent waits until all others that are ready have.
#[derive(Debug, Default)]
pub struct Round {
    /// By number.
    ready: BTreeMap<u64, Entry>,
    /// Numbers given.
    given: u64,
    /// The number whose turn was last.
    last: u64,
}

impl Turns for Round {
    /// 0 is none.
    type Number = u64;

    fn join(&mut self, flow: Entry, number: &mut u64) {
        if *number == 0 {
            self.given += 1;
            *number = self.given;
        }
        self.ready.insert(*number, flow);
    }

    fn stay(&mut self, flow: Entry, number: &mut u64) {
        self.join(flow, number);
    }

    fn next(&mut self) -> Option<Entry> {
        self.last = self.following()?;
        self.ready.remove(&self.last)
    }

    fn first(&self) -> Option<Entry> {
        Some(self.ready[&self.following()?])
    }

    fn len(&self) -> usize {
        self.ready.len()
    }
}

impl Round {
    /// The number whose turn is next.
    fn following(&self) -> Option<u64> {
        let behind = self.ready.range(self.last + 1..).next();
        behind.or_else(|| self.ready.first_key_value()).map(|(&number, _)| number)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{flow, opened};
    use super::super::{AGENT, FREE, Rules, Shaper, Take};
    use super::*;

    fn shaping() -> Shaping {
        opened(Shaping::new(&Rules::default(), 1), &[FREE; 4])
    }

    fn order(s: &mut Shaping, now: u64, most: usize) -> Vec<u32> {
        let take = |_| match s.take(0, now) {
            Take::Send(flow) => Some(flow.slot),
            _ => None,
        };
        (0..most).map_while(take).collect()
    }

    #[test]
    fn who_comes_in_the_midst_of_a_round_sends_in_it() {
        let mut s = shaping();
        s.offer(0, flow(3), 0, 0);
        s.offer(0, flow(1), 0, 0);
        assert_eq!(order(&mut s, 0, 1), [3]);
        // It could go on before the others have come.
        s.offer_again(0, flow(3), 80, 87);
        s.offer(0, flow(0), 90, 90);
        s.offer(0, AGENT, 95, 95);
        assert_eq!(s.waiting(0), 4);
        assert_eq!(order(&mut s, 95, 9), [1, 0, AGENT.slot, 3]);
        assert_eq!(s.take(0, 95), Take::Idle);
    }

    #[test]
    fn who_begins_again_joins_at_the_end() {
        let mut s = shaping();
        let round = |s: &mut Shaping| {
            (0..3).for_each(|slot| s.offer(0, flow(slot), 0, 0));
            order(s, 0, 9)
        };
        assert_eq!(round(&mut s), [0, 1, 2]);
        s.begin(flow(0));
        assert_eq!(round(&mut s), [0, 1, 2]);
        s.offer(0, flow(1), 0, 0);
        s.offer(0, flow(2), 0, 0);
        assert_eq!(order(&mut s, 0, 1), [1]);
        s.offer(0, flow(0), 0, 0);
        assert_eq!(order(&mut s, 0, 9), [2, 0]);
    }

    #[test]
    fn who_is_not_due_is_passed_over() {
        let mut s = shaping();
        (0..3).for_each(|slot| s.offer(0, flow(slot), 0, 0));
        assert_eq!(order(&mut s, 0, 9), [0, 1, 2]);
        s.offer(0, flow(0), 50, 0);
        s.offer(0, flow(2), 0, 0);
        s.offer(0, flow(1), 20, 0);
        assert_eq!(order(&mut s, 10, 9), [2]);
        assert_eq!(s.take(0, 10), Take::At(20));
        assert_eq!(order(&mut s, 60, 9), [0, 1]);
    }

    #[test]
    fn who_is_forgotten_has_no_turn() {
        let mut s = shaping();
        s.offer(0, flow(1), 0, 0);
        s.offer(0, flow(2), 0, 0);
        s.forget(flow(1));
        assert_eq!(order(&mut s, 0, 9), [2]);
    }
}
