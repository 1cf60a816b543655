//! One pacer for all connections of an interface, at the sum of their pacing rates: what Ghobadi and Ganjali leave to
//! the future. Segments leave in the order they came; the kernel has no such queue.

use super::{Ask, Dequeue, Dropped, Qdisc, Segment};
use onramp_config::units::{NS, Ps, SEC};
use std::collections::{HashMap, VecDeque};

/// Segments that fit.
const LIMIT: usize = 10_000;
/// A connection that sent nothing for so long no longer counts; that of its last segment counts anew.
const IDLE: Ps = SEC / 5;

/// A connection that counts.
#[derive(Clone, Copy, Debug)]
struct Known {
    rate: u64,
    seen: Ps,
}

/// See the module. Rates are in bytes per second.
#[derive(Debug, Default)]
pub struct Egress {
    segments: VecDeque<Segment>,
    known: HashMap<u64, Known>,
    /// When connections were last seen, in order; those that were seen again since have another entry.
    seen: VecDeque<(Ps, u64)>,
    rate: u64,
    next_at: Ps,
}

impl Egress {
    fn forget_idle(&mut self, now: Ps) {
        while let Some(&(at, flow)) = self.seen.front()
            && at + IDLE <= now
        {
            self.seen.pop_front();
            if self.known.get(&flow).is_some_and(|known| known.seen == at)
                && let Some(known) = self.known.remove(&flow)
            {
                self.rate -= known.rate;
            }
        }
    }

    fn count(&mut self, flow: u64, rate: u64, now: Ps) {
        let before = self.known.insert(flow, Known { rate, seen: now });
        self.rate = self.rate - before.map_or(0, |known| known.rate) + rate;
        if before.is_none_or(|known| known.seen < now) {
            self.seen.push_back((now, flow));
        }
    }
}

impl Qdisc for Egress {
    fn enqueue(&mut self, segment: Segment, _now: Ps) -> Result<(), Dropped> {
        if self.segments.len() >= LIMIT {
            return Err(Dropped::Refused);
        }
        self.segments.push_back(segment);
        Ok(())
    }

    fn dequeue(&mut self, now: Ps, ask: &mut dyn Ask) -> Dequeue {
        let Some(segment) = self.segments.front() else { return Dequeue::Idle };
        let rate = ask.pacing_rate(segment.handle);
        // What has no rate, such as an acknowledgement or the first window, is not kept, and keeps nobody.
        let paced = rate > 0 && rate != u64::MAX;
        if paced && self.next_at > now {
            return Dequeue::At(self.next_at);
        }
        let segment = *segment;
        self.segments.pop_front();
        if paced {
            self.forget_idle(now);
            self.count(segment.flow, rate, now);
            let gap = (u128::from(segment.bytes) * 1_000_000_000 / u128::from(self.rate)) as u64 * NS;
            // As in TCP: what a timer was late by is made up for.
            let late = if self.next_at > 0 { now - self.next_at } else { 0 };
            self.next_at = now + gap - late.min(gap / 2);
        }
        Dequeue::Send(segment)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::super::tests::SEGMENT;
    use super::*;
    use onramp_config::units::US;

    /// Rates by handle.
    struct Rates(Vec<u64>);

    impl Ask for Rates {
        fn ask(&mut self, _: u32) -> Verdict {
            Verdict::Go
        }

        fn cut(&mut self, _: u32) -> Vec<Segment> {
            vec![]
        }

        fn pacing_rate(&self, handle: u32) -> u64 {
            self.0[handle as usize]
        }

        fn kept(&self, _: u32) -> u64 {
            0
        }
    }

    #[test]
    fn two_connections_leave_at_the_sum_of_their_rates() {
        let mut q = Egress::default();
        // 1000 B at 100 MB/s are 10 µs; with 300 MB/s more 2.5.
        let mut rates = Rates(vec![100_000_000, 300_000_000, 0]);
        for handle in [0, 1, 0, 2, 1] {
            q.enqueue(Segment { flow: handle.into(), handle, bytes: 1000, ..SEGMENT }, 0).unwrap();
        }
        let mut sent = Vec::new();
        let mut now = 0;
        loop {
            match q.dequeue(now, &mut rates) {
                Dequeue::Send(segment) => sent.push((now, segment.handle)),
                Dequeue::At(at) => now = at,
                Dequeue::Idle => break,
            }
        }
        assert_eq!(sent, [(0, 0), (10 * US, 1), (12_500_000, 0), (12_500_000, 2), (15 * US, 1)]);
        // After a while they count no more.
        q.enqueue(Segment { flow: 0, handle: 0, bytes: 1000, ..SEGMENT }, 0).unwrap();
        assert!(matches!(q.dequeue(15 * US + IDLE, &mut rates), Dequeue::Send(_)));
        assert_eq!(q.rate, 100_000_000);
    }
}
