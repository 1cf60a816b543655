//! On-Ramp's gate as the kernel's module has it: flows in turn, each asked before a packet
//! leaves, paced for a while after a hold unless its connection keeps little (`datapath/sch_onramp`).

use super::{Ask, Dequeue, Dropped, Qdisc, Segment, Verdict};
use onramp_config::units::{NS, Ps, US};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

const QUANTUM: i64 = 2 * 1514;
const FLOW_LIMIT: usize = 1024;
const LIMIT: usize = 10_240;
/// A flow is paced until it has not been held for so long.
const PACED: Ps = 10_000 * US;
/// Bytes that may be an answer, whose round trips, and so rate, include the time until the next request.
const SHORT: u64 = 32 << 10;
/// No hold is longer.
const MAX_HOLD: Ps = 10_000 * US;

#[derive(Debug, Default)]
struct Flow {
    packets: VecDeque<Segment>,
    /// Acknowledgements, which leave before data.
    acks: VecDeque<Segment>,
    credit: i64,
    /// It has a place among the turns, or waits.
    queued: bool,
    until: Ps,
    held_since: Option<Ps>,
    paced_until: Ps,
    next_at: Ps,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Gate {
    known: HashMap<u64, u32>,
    flows: Vec<Flow>,
    fresh: VecDeque<u32>,
    old: VecDeque<u32>,
    waiting: BinaryHeap<Reverse<(Ps, u32)>>,
    count: usize,
}

impl Gate {
    fn flow(&mut self, key: u64) -> u32 {
        let flows = &mut self.flows;
        *self.known.entry(key).or_insert_with(|| {
            flows.push(Flow::default());
            flows.len() as u32 - 1
        })
    }

    fn pop(&mut self, i: u32, now: Ps, rate: u64) -> Segment {
        self.count -= 1;
        let flow = &mut self.flows[i as usize];
        if let Some(ack) = flow.acks.pop_front() {
            flow.credit -= i64::from(ack.bytes);
            return ack;
        }
        let segment = flow.packets.pop_front().expect("whose turn it is has a packet");
        flow.credit -= i64::from(segment.bytes);
        if flow.held_since.is_some() {
            flow.paced_until = now + PACED;
        }
        if now < flow.paced_until && rate > 0 && rate != u64::MAX {
            let gap = (u128::from(segment.bytes) * 1_000_000_000 / u128::from(rate)) as u64 * NS;
            let gap = gap.min(MAX_HOLD);
            // A timer that fired late is made up for, a hold is not.
            let late = if flow.next_at > 0 && flow.held_since.is_none() { now.saturating_sub(flow.next_at) } else { 0 };
            flow.next_at = now + gap - late.min(gap / 2);
        }
        flow.held_since = None;
        segment
    }
}

impl Qdisc for Gate {
    fn enqueue(&mut self, segment: Segment, _now: Ps) -> Result<(), Dropped> {
        let i = self.flow(segment.flow);
        let flow = &mut self.flows[i as usize];
        if self.count >= LIMIT || flow.packets.len() + flow.acks.len() >= FLOW_LIMIT {
            return Err(Dropped::Refused);
        }
        self.count += 1;
        let waits = flow.queued && flow.until > 0;
        if segment.pure_ack {
            flow.acks.push_back(segment);
            if waits {
                flow.until = 0;
                self.old.push_back(i);
            }
        } else {
            flow.packets.push_back(segment);
        }
        let flow = &mut self.flows[i as usize];
        if !flow.queued {
            flow.queued = true;
            flow.credit = QUANTUM;
            self.fresh.push_back(i);
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Ps, ask: &mut dyn Ask) -> Dequeue {
        while let Some(&Reverse((at, i))) = self.waiting.peek()
            && at <= now
        {
            self.waiting.pop();
            let flow = &mut self.flows[i as usize];
            // It may have been roused since.
            if flow.until == at {
                flow.until = 0;
                self.old.push_back(i);
            }
        }
        loop {
            let fresh = !self.fresh.is_empty();
            let Some(&i) = (if fresh { self.fresh.front() } else { self.old.front() }) else { break };
            let take = |gate: &mut Self| if fresh { gate.fresh.pop_front() } else { gate.old.pop_front() };
            let flow = &mut self.flows[i as usize];
            if flow.packets.is_empty() && flow.acks.is_empty() {
                take(self);
                if fresh && !self.old.is_empty() {
                    self.old.push_back(i);
                } else {
                    self.flows[i as usize].queued = false;
                }
                continue;
            }
            if flow.credit <= 0 {
                flow.credit += QUANTUM;
                take(self);
                self.old.push_back(i);
                continue;
            }
            if !flow.acks.is_empty() {
                return Dequeue::Send(self.pop(i, now, 0));
            }
            let first = flow.packets[0];
            let mut at = first.earliest.max(flow.next_at).max(now);
            let mut verdict = if at <= now { ask.ask(first.handle) } else { Verdict::Go };
            if verdict == Verdict::Cut {
                let parts = ask.cut(first.handle);
                let flow = &mut self.flows[i as usize];
                flow.packets.pop_front();
                self.count += parts.len();
                self.count -= 1;
                for part in parts.into_iter().rev() {
                    flow.packets.push_front(part);
                }
                verdict = ask.ask(flow.packets[0].handle);
            }
            let flow = &mut self.flows[i as usize];
            if let Verdict::Wait(until) = verdict {
                let since = *flow.held_since.get_or_insert(now);
                at = until.min(since + MAX_HOLD).max(now);
            }
            if at <= now {
                let handle = flow.packets[0].handle;
                let rate = if ask.kept(handle) > SHORT { ask.pacing_rate(handle) } else { 0 };
                return Dequeue::Send(self.pop(i, now, rate));
            }
            flow.until = at;
            take(self);
            self.waiting.push(Reverse((at, i)));
        }
        self.waiting.peek().map_or(Dequeue::Idle, |&Reverse((at, _))| Dequeue::At(at))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::SEGMENT;
    use super::*;

    /// Holds until a time; a rate of 1514 B in 10 µs.
    struct Held {
        until: Ps,
        kept: u64,
    }

    impl Ask for Held {
        fn ask(&mut self, _: u32) -> Verdict {
            Verdict::Wait(self.until)
        }

        fn cut(&mut self, _: u32) -> Vec<Segment> {
            vec![]
        }

        fn pacing_rate(&self, _: u32) -> u64 {
            151_400_000
        }

        fn kept(&self, _: u32) -> u64 {
            self.kept
        }
    }

    /// When three packets leave that are held until 5 µs.
    fn leave(kept: u64) -> Vec<Ps> {
        let (mut gate, mut ask) = (Gate::default(), Held { until: 5 * US, kept });
        for _ in 0..3 {
            gate.enqueue(SEGMENT, 0).unwrap();
        }
        let (mut now, mut times) = (0, vec![]);
        while times.len() < 3 {
            match gate.dequeue(now, &mut ask) {
                Dequeue::Send(_) => times.push(now / US),
                Dequeue::At(at) => now = at,
                Dequeue::Idle => panic!("a packet is lost"),
            }
        }
        times
    }

    #[test]
    fn what_was_held_is_paced_unless_its_connection_keeps_little() {
        assert_eq!(leave(SHORT + 1), [5, 15, 25]);
        assert_eq!(leave(SHORT), [5, 5, 5]);
    }
}
