//! Queues of hashed connections in turn, each under CoDel (RFC 8290, RFC 8289) as Linux has them.
//!
//! A memory limit has no effect on what the host itself sends: since Linux 7 what is charged to a
//! socket does not count.

use super::{Ask, Dequeue, Dropped, Ecn, Qdisc, Segment};
use onramp_config::units::{MS, NS, Ps, Span};
use rand_pcg::rand_core::Rng;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Parameters: those of Linux's `fq_codel`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Most segments in all queues. Default 10240.
    pub limit: usize,
    /// Queues. Default 1024.
    pub flows: usize,
    /// Bytes a queue may send in its turn. Default: a full packet with its Ethernet header.
    pub quantum: Option<u32>,
    /// Segments should not wait longer than this. Default 5 ms.
    pub target: Span,
    /// If all do for as long, CoDel drops. Default 100 ms.
    pub interval: Span,
    /// It marks instead where it may. Default true.
    pub ecn: bool,
    /// Most segments dropped at once when there are too many. Default 64.
    pub drop_batch: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 10_240,
            flows: 1_024,
            quantum: None,
            target: Span(5 * MS),
            interval: Span(100 * MS),
            ecn: true,
            drop_batch: 64,
        }
    }
}

/// CoDel's clock ticks every 1024 ns.
type Ticks = u64;

fn ticks(time: Ps) -> Ticks {
    (time / NS) >> 10
}

/// Most segments CoDel drops for one that it sends.
const MOST_DROPS: u32 = 256;

/// All queues of a NIC.
#[derive(Clone, Debug)]
pub struct FqCodel {
    limit: usize,
    quantum: i64,
    drop_batch: usize,
    codel: Parameters,
    /// Makes connections of one seed share queues that do not with another.
    salt: u64,
    /// How many there are, and those in use: what has nothing to send and has never dropped is as good as new, and a
    /// host's thousand queues would take 100 KB.
    flows: u64,
    queues: Vec<Queue>,
    /// Number of each queue in use and its place in `queues`, by number; and places that are free.
    known: Vec<(u16, u16)>,
    free: Vec<u16>,
    /// Places of those that take turns; a queue that was empty comes before those that were not.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    segments: usize,
    bytes: u64,
    dropped: Vec<Segment>,
}

#[derive(Clone, Debug)]
struct Parameters {
    target: Ticks,
    interval: Ticks,
    ecn: bool,
    /// With no more bytes waiting than a full packet's nothing is dropped.
    mtu: u64,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    number: u16,
    segments: VecDeque<(Segment, Ticks)>,
    bytes: u64,
    /// Bytes it may still send in this turn.
    credit: i64,
    /// It takes turns.
    listed: bool,
    codel: Codel,
}

#[derive(Clone, Debug, Default)]
struct Codel {
    dropping: bool,
    /// Drops in this time of dropping, and that with which the last one began.
    count: u32,
    last_count: u32,
    /// 1/√count in 65536ths, by one of Newton's steps each time.
    inverse_root: u16,
    /// It drops if nothing has waited less than the target until then.
    patience: Option<Ticks>,
    next_drop: Ticks,
}

impl FqCodel {
    /// Empty ones, before a NIC whose largest packet, with its Ethernet header, has `mtu` bytes. `seed` decides which
    /// connections share a queue.
    pub fn new(c: &Config, mtu: u32, seed: u64) -> Self {
        Self {
            limit: c.limit,
            quantum: c.quantum.unwrap_or(mtu).into(),
            drop_batch: c.drop_batch,
            codel: Parameters { target: ticks(c.target.0), interval: ticks(c.interval.0), ecn: c.ecn, mtu: mtu.into() },
            salt: onramp_random::stream(seed, "fq_codel", 0).next_u64(),
            flows: c.flows as u64,
            queues: Vec::new(),
            known: Vec::new(),
            free: Vec::new(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            segments: 0,
            bytes: 0,
            dropped: Vec::new(),
        }
    }

    /// The number of a connection's queue, by a hash of it in 32 bits.
    fn number_of(&self, flow: u64) -> u16 {
        // A connection draws its hash in the kernel (`sk_txhash`); here SplitMix64's last steps make one of its key.
        let flow = flow ^ self.salt;
        let hash = (flow ^ flow >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) >> 32;
        ((hash * self.flows) >> 32) as u16
    }

    fn find(&self, number: u16) -> Result<usize, usize> {
        self.known.binary_search_by_key(&number, |known| known.0)
    }

    /// The place of a queue, which is in use from now on.
    fn place_of(&mut self, number: u16) -> u16 {
        match self.find(number) {
            Ok(at) => self.known[at].1,
            Err(at) => {
                let place = self.free.pop().unwrap_or_else(|| {
                    self.queues.push(Queue::default());
                    (self.queues.len() - 1) as u16
                });
                self.queues[usize::from(place)].number = number;
                self.known.insert(at, (number, place));
                place
            }
        }
    }

    /// A queue takes turns no more.
    fn unlist(&mut self, place: u16) {
        let queue = &mut self.queues[usize::from(place)];
        queue.listed = false;
        if queue.codel.has_dropped() {
            return;
        }
        if let Ok(at) = self.find(self.queues[usize::from(place)].number) {
            self.known.remove(at);
            self.free.push(place);
        }
    }

    /// Drops half of the longest queue, or the most that is dropped at once; which queue.
    fn drop_longest(&mut self) -> u16 {
        let bytes = |place: u16| self.queues[usize::from(place)].bytes;
        let longer = |longest, &(_, place): &_| if bytes(place) > bytes(longest) { place } else { longest };
        let place = self.known.iter().fold(self.known[0].1, longer);
        let longest = usize::from(place);
        let half = self.queues[longest].bytes / 2;
        let (mut number, mut bytes) = (0, 0);
        while number == 0 || number < self.drop_batch && bytes < half {
            let Some((segment, _)) = self.pop(longest) else { break };
            number += 1;
            bytes += u64::from(segment.bytes);
            self.dropped.push(segment);
        }
        // CoDel takes its signal to have been given as often.
        let codel = &mut self.queues[longest].codel;
        codel.count = codel.count.wrapping_add(number as u32);
        place
    }

    fn pop(&mut self, queue: usize) -> Option<(Segment, Ticks)> {
        let (segment, since) = self.queues[queue].segments.pop_front()?;
        self.queues[queue].bytes -= u64::from(segment.bytes);
        self.bytes -= u64::from(segment.bytes);
        self.segments -= 1;
        Some((segment, since))
    }

    /// Returns whether to drop the segment that has just left its queue.
    fn judge(&mut self, queue: usize, popped: Option<(Segment, Ticks)>, now: Ticks) -> bool {
        let codel = &mut self.queues[queue].codel;
        let waited_long = popped.is_some_and(|(_, since)| now - since >= self.codel.target);
        if !waited_long || self.bytes <= self.codel.mtu {
            codel.patience = None;
            return false;
        }
        now > *codel.patience.get_or_insert(now + self.codel.interval)
    }

    /// Marks it if that is possible.
    fn mark(&self, popped: &mut Option<(Segment, Ticks)>) -> bool {
        match popped {
            Some((segment, _)) if self.codel.ecn && segment.ecn != Ecn::Incapable => {
                segment.ecn = Ecn::Marked;
                true
            }
            _ => false,
        }
    }

    /// The queue's next segment that CoDel lets pass.
    fn pop_codel(&mut self, queue: usize, now: Ticks) -> Option<Segment> {
        let interval = self.codel.interval;
        let mut popped = self.pop(queue);
        if popped.is_none() {
            let codel = &mut self.queues[queue].codel;
            (codel.patience, codel.dropping) = (None, false);
            return None;
        }
        let drop = self.judge(queue, popped, now);
        if !self.queues[queue].codel.dropping {
            if drop {
                if !self.mark(&mut popped) {
                    self.dropped.extend(popped.map(|(segment, _)| segment));
                    popped = self.pop(queue);
                    self.judge(queue, popped, now);
                }
                self.queues[queue].codel.begin(now, interval);
            }
            return popped.map(|(segment, _)| segment);
        }
        self.queues[queue].codel.dropping = drop;
        for drops in 0.. {
            let codel = &mut self.queues[queue].codel;
            if !codel.dropping || now < codel.next_drop {
                break;
            }
            if drops == MOST_DROPS {
                codel.schedule(now, interval);
                break;
            }
            codel.count = codel.count.wrapping_add(1);
            codel.newton();
            if self.mark(&mut popped) {
                let codel = &mut self.queues[queue].codel;
                codel.schedule(codel.next_drop, interval);
                break;
            }
            self.dropped.extend(popped.map(|(segment, _)| segment));
            popped = self.pop(queue);
            let drop = self.judge(queue, popped, now);
            let codel = &mut self.queues[queue].codel;
            codel.dropping = drop;
            if drop {
                codel.schedule(codel.next_drop, interval);
            }
        }
        popped.map(|(segment, _)| segment)
    }
}

impl Codel {
    /// True if it may be in another state than at first, where nothing waits.
    fn has_dropped(&self) -> bool {
        (self.count, self.last_count, self.inverse_root, self.next_drop) != (0, 0, 0, 0)
    }

    /// Dropping begins. If it has ended only lately, where it had come to.
    fn begin(&mut self, now: Ticks, interval: Ticks) {
        self.dropping = true;
        let before = self.count.wrapping_sub(self.last_count);
        if before > 1 && (now as i64 - self.next_drop as i64) < 16 * interval as i64 {
            self.count = before;
            self.newton();
        } else {
            (self.count, self.inverse_root) = (1, u16::MAX);
        }
        self.last_count = self.count;
        self.schedule(now, interval);
    }

    /// The next drop comes an interval over √count later.
    fn schedule(&mut self, from: Ticks, interval: Ticks) {
        self.next_drop = from + ((interval * u64::from(self.inverse_root)) >> 16).max(1);
    }

    /// x ← x/2 · (3 − count · x²), x in 2^32nds; in 64 bits that wrap, as in the kernel.
    fn newton(&mut self) {
        let x = u64::from(self.inverse_root) << 16;
        let rest = (3u64 << 32).wrapping_sub(u64::from(self.count).wrapping_mul((x * x) >> 32));
        self.inverse_root = ((rest >> 2).wrapping_mul(x) >> 31 >> 16) as u16;
    }
}

impl Qdisc for FqCodel {
    fn enqueue(&mut self, segment: Segment, now: Ps) -> Result<(), Dropped> {
        let at = self.place_of(self.number_of(segment.flow));
        let queue = &mut self.queues[usize::from(at)];
        queue.segments.push_back((segment, ticks(now)));
        queue.bytes += u64::from(segment.bytes);
        self.bytes += u64::from(segment.bytes);
        self.segments += 1;
        if !queue.listed {
            (queue.listed, queue.credit) = (true, self.quantum);
            self.new.push_back(at);
        }
        if self.segments > self.limit && self.drop_longest() == at {
            return Err(Dropped::Behind);
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Ps, _: &mut dyn Ask) -> Dequeue {
        loop {
            let from_new = !self.new.is_empty();
            let list = if from_new { &mut self.new } else { &mut self.old };
            let Some(&at) = list.front() else { return Dequeue::Idle };
            let queue = &mut self.queues[usize::from(at)];
            if queue.credit <= 0 {
                queue.credit += self.quantum;
                list.pop_front();
                self.old.push_back(at);
                continue;
            }
            if let Some(segment) = self.pop_codel(usize::from(at), ticks(now)) {
                self.queues[usize::from(at)].credit -= i64::from(segment.bytes);
                return Dequeue::Send(segment);
            }
            if from_new {
                self.new.pop_front();
            } else {
                self.old.pop_front();
            }
            // An empty queue waits for the others' turns before it may be a new one again.
            if from_new && !self.old.is_empty() {
                self.old.push_back(at);
            } else {
                self.unlist(at);
            }
        }
    }

    fn drain(&mut self, dropped: &mut Vec<Segment>) {
        dropped.append(&mut self.dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SEGMENT, next, sent, take};
    use super::*;

    fn queues() -> FqCodel {
        FqCodel::new(&Config::default(), 1_514, 1)
    }

    /// That of a connection, which is in use.
    fn queue(q: &FqCodel, flow: u64) -> &Queue {
        let known = q.find(q.number_of(flow)).expect("it is in use");
        &q.queues[usize::from(q.known[known].1)]
    }

    fn dropped(q: &mut FqCodel) -> Vec<u32> {
        let mut dropped = Vec::new();
        q.drain(&mut dropped);
        dropped.iter().map(|segment| segment.handle).collect()
    }

    #[test]
    fn connections_take_turns_of_a_packet() {
        let mut q = queues();
        for (handle, flow, bytes) in [(10, 1, 1_514), (11, 1, 1_514), (12, 1, 1_514), (20, 2, 3_000), (21, 2, 1_514)] {
            take(&mut q, 0, flow, handle, bytes);
        }
        // 1 has sent its quantum; 2 sends and owes 1486; 1; 2 is given 1514, which leaves 28, and sends; 1.
        assert_eq!(sent(&mut q, 0, 9), [10, 20, 11, 21, 12]);
        assert_eq!((q.segments, q.bytes, next(&mut q, 0)), (0, 0, Dequeue::Idle));
    }

    #[test]
    fn a_queue_that_was_empty_comes_first_but_not_twice() {
        let mut q = queues();
        for handle in 10..15 {
            take(&mut q, 0, 1, handle, 1_514);
        }
        assert_eq!(sent(&mut q, 0, 2), [10, 11]);
        take(&mut q, 0, 2, 20, 100);
        assert_eq!(sent(&mut q, 0, 2), [20, 12]);
        // It was new, found empty, and is an old one now, behind 1, whose quantum is used up.
        take(&mut q, 0, 2, 21, 100);
        assert_eq!(sent(&mut q, 0, 9), [21, 13, 14]);
    }

    #[test]
    fn queues_that_have_sent_all_take_no_memory() {
        let mut q = queues();
        for flow in 0..1_000 {
            take(&mut q, 0, flow, 1, 1_514);
            assert_eq!((sent(&mut q, 0, 9), q.known.len()), (vec![1], 0));
        }
        assert_eq!((q.queues.len(), q.free.len()), (1, 1));
    }

    #[test]
    fn keys_are_spread_over_the_queues() {
        let q = queues();
        let mut used = vec![0; 1_024];
        for flow in 0..10_240 {
            used[usize::from(q.number_of(flow))] += 1;
        }
        // Ten each, with a deviation of 3.2.
        assert!(used.iter().all(|&n| n < 30), "{:?}", used.iter().max());
        assert!(used.iter().filter(|&&n| n == 0).count() < 5);
    }

    #[test]
    fn which_connections_share_a_queue_is_the_seeds_matter() {
        let shared = |seed| {
            let q = FqCodel::new(&Config::default(), 1_514, seed);
            let of_one = q.number_of(1);
            (2..10_000).filter(|&flow| q.number_of(flow) == of_one).collect::<Vec<_>>()
        };
        assert_eq!(shared(1), shared(1));
        assert_ne!(shared(1), shared(2));
    }

    #[test]
    fn too_many_segments_cost_the_longest_queue_half() {
        let mut q = FqCodel::new(&Config { limit: 10, ..Config::default() }, 1_514, 1);
        for handle in 0..8 {
            take(&mut q, 0, 1, handle, 1_000);
        }
        take(&mut q, 0, 2, 20, 500);
        take(&mut q, 0, 2, 21, 500);
        // 8000 bytes of 1: four are dropped. It is not 2's loss.
        take(&mut q, 0, 2, 22, 500);
        assert_eq!((dropped(&mut q), q.segments), (vec![0, 1, 2, 3], 7));
        assert_eq!(queue(&q, 1).codel.count, 4);
        for handle in 8..11 {
            take(&mut q, 0, 1, handle, 1_000);
        }
        // 8000 bytes again, 1's own.
        assert_eq!(q.enqueue(Segment { handle: 11, bytes: 1_000, ..SEGMENT }, 0), Err(Dropped::Behind));
        assert_eq!(dropped(&mut q), [4, 5, 6, 7]);
        // At most 64.
        let mut q = FqCodel::new(&Config { limit: 200, ..Config::default() }, 1_514, 1);
        for handle in 0..200 {
            take(&mut q, 0, 1, handle, 1_000);
        }
        assert_eq!(q.enqueue(SEGMENT, 0), Err(Dropped::Behind));
        assert_eq!(dropped(&mut q), (0..64).collect::<Vec<_>>());
    }

    /// Connection 1 has taken segments 0 to 99 at 0.
    fn waiting(ecn: Ecn) -> FqCodel {
        let mut q = queues();
        for handle in 0..100 {
            assert_eq!(q.enqueue(Segment { handle, ecn, ..SEGMENT }, 0), Ok(()));
        }
        q
    }

    #[test]
    fn after_an_interval_above_the_target_it_drops() {
        let mut q = waiting(Ecn::Incapable);
        // Not yet 5 ms, or 4882 ticks, which are 4.999 ms.
        assert_eq!(sent(&mut q, 4_999 * MS / 1_000, 1), [0]);
        assert_eq!(queue(&q, 1).codel.patience, None);
        // At 5 ms, tick 4882: until 4882 + 97656 = 102538.
        assert_eq!(sent(&mut q, 5 * MS, 1), [1]);
        assert_eq!(queue(&q, 1).codel.patience, Some(102_538));
        // 105 ms is tick 102539.
        assert_eq!((sent(&mut q, 105 * MS - 2_000 * NS, 1), dropped(&mut q)), (vec![2], vec![]));
        assert_eq!((sent(&mut q, 105 * MS, 1), dropped(&mut q)), (vec![4], vec![3]));
        // The next one an interval later, but for what 16 bits lack: 97656 · 65535 / 65536 = 97654.5.
        let codel = &queue(&q, 1).codel;
        assert_eq!((codel.count, codel.next_drop), (1, 102_539 + 97_654));
        assert_eq!((sent(&mut q, 200 * MS, 1), dropped(&mut q)), (vec![5], vec![]));
        // 200193 ticks are 204.998 ms. Newton's first step from 1 (65535) to 1/√2 is 1/2 · (3 − 2) = 0.5 (32769).
        assert_eq!((sent(&mut q, 205 * MS, 1), dropped(&mut q)), (vec![7], vec![6]));
        let codel = &queue(&q, 1).codel;
        assert_eq!((codel.count, codel.inverse_root, codel.next_drop), (2, 32_769, 200_193 + 48_829));
        // At 350 ms, tick 341796, two are due: at 249022, and 97656 · 0.5625 later, for 0.5/2 · (3 − 3/4) is 0.5625.
        // 0.5625/2 · (3 − 4 · 0.5625²) is 0.4878, the next.
        assert_eq!((sent(&mut q, 350 * MS, 1), dropped(&mut q)), (vec![10], vec![8, 9]));
        let codel = &queue(&q, 1).codel;
        assert_eq!((codel.count, codel.inverse_root, codel.next_drop), (4, 31_968, 249_022 + 54_931 + 47_635));
        // With a packet's bytes left, it ends.
        assert_eq!((sent(&mut q, 350 * MS, 88).len(), dropped(&mut q)), (88, vec![]));
        assert!(!queue(&q, 1).codel.dropping);
        assert_eq!((sent(&mut q, 9_000 * MS, 2), dropped(&mut q)), (vec![99], vec![]));
    }

    #[test]
    fn what_may_be_marked_is_not_dropped() {
        let mut q = waiting(Ecn::Capable);
        let mut send = |ms: u64| match next(&mut q, ms * MS) {
            Dequeue::Send(segment) => (segment.handle, segment.ecn),
            other => panic!("{other:?}"),
        };
        assert_eq!(send(5), (0, Ecn::Capable));
        assert_eq!(send(106), (1, Ecn::Marked));
        assert_eq!(send(107), (2, Ecn::Capable));
        assert_eq!(send(206), (3, Ecn::Marked));
        // Many are due, and marked one by one.
        assert_eq!(send(5_000), (4, Ecn::Marked));
        assert_eq!(send(5_000), (5, Ecn::Marked));
        assert_eq!(dropped(&mut q), Vec::<u32>::new());
        let mut q = waiting(Ecn::Capable);
        q.codel.ecn = false;
        assert_eq!((sent(&mut q, 5 * MS, 1), sent(&mut q, 106 * MS, 1)), (vec![0], vec![2]));
    }

    #[test]
    fn dropping_that_ended_lately_goes_on_where_it_was() {
        let mut codel = Codel { count: 9, last_count: 1, inverse_root: 21_845, next_drop: 1_000, ..Codel::default() };
        // Eight more than it began with: 1/3 · (3 − 8/9) / 2 = 0.3519, 23060 in 65536ths.
        codel.begin(100_000, 97_656);
        assert_eq!((codel.count, codel.last_count, codel.inverse_root), (8, 8, 23_058));
        // Not after 16 intervals.
        (codel.count, codel.next_drop) = (20, 1_000);
        codel.begin(1_000 + 16 * 97_656, 97_656);
        assert_eq!((codel.count, codel.inverse_root), (1, u16::MAX));
    }

    #[test]
    fn the_root_comes_close() {
        // From one drop to the next Newton's steps keep up with the count.
        let mut codel = Codel { count: 1, inverse_root: u16::MAX, ..Codel::default() };
        for count in 2..1_000u32 {
            codel.count = count;
            codel.newton();
            let exact = 65_536.0 / f64::from(count).sqrt();
            assert!(count < 6 || (f64::from(codel.inverse_root) / exact - 1.0).abs() < 0.02, "{count}");
        }
    }
}
