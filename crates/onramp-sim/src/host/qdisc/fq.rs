//! A queue per connection in turn, which holds segments back until TCP's pacing lets them leave:
//! Linux's `fq` (Dumazet, 2013).
//!
//! Of its three bands only that of ordinary priority is used, and the first by connections that are
//! new: the kernel queues one before it notes its band. Its timer may be late by its slack; whatever
//! else makes the NIC ask before that sends what is due.

use super::{Ask, Dequeue, Dropped, Qdisc, Segment};
use onramp_config::units::{MS, Ps, SEC, Span, US};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, VecDeque};

/// Parameters: those of Linux's `fq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Most segments in all queues. Default 10000.
    pub limit: usize,
    /// Most segments in one. Default 100.
    pub flow_limit: usize,
    /// Bytes a queue may send in its turn. Default: two full packets with their Ethernet headers.
    pub quantum: Option<u32>,
    /// Bytes that a new connection may send in its first turn. Default: ten full packets.
    pub initial_quantum: Option<u32>,
    /// A queue that was empty for longer than this may send a quantum again. Default 40 ms.
    pub refill_delay: Span,
    /// Longest time ahead: a segment that may not leave before is refused. Default 10 s.
    pub horizon: Span,
    /// By how much its timer is late if nothing else happens. Default 10 us.
    pub timer_slack: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            limit: 10_000,
            flow_limit: 100,
            quantum: None,
            initial_quantum: None,
            refill_delay: Span(40 * MS),
            horizon: Span(10 * SEC),
            timer_slack: Span(10 * US),
        }
    }
}

/// Bytes that a band may send in its turn.
const BANDS: [i64; 3] = [9 << 16, 3 << 16, 1 << 16];
/// That of ordinary priority.
const ORDINARY: usize = 1;
/// With more segments waiting to leave at once, connections take turns.
const FAST: usize = 8;
/// Time after which the state of a connection that sends nothing is forgotten.
const FORGET_AFTER: Ps = 3 * SEC;

/// All queues of a NIC.
#[derive(Clone, Debug)]
pub struct Fq {
    c: Config,
    quantum: i64,
    initial_quantum: i64,
    /// Segments that need not wait for anything: they pass by the queues.
    fast: Times,
    flows: HashMap<u64, Flow>,
    bands: [Band; BANDS.len()],
    /// The band that sends.
    band: usize,
    /// Those whose next segment may not leave yet: when, a number that keeps their order, and which.
    throttled: BTreeSet<(Ps, u64, u64)>,
    throttles: u64,
    /// Segments in the connections' queues, and of these queues those with any that may leave.
    segments: usize,
    eligible: usize,
    /// Connections are looked through for some to forget when there are so many.
    forget_at: usize,
}

/// Connections that take turns; those that had nothing to send come first.
#[derive(Clone, Debug, Default)]
struct Band {
    new: VecDeque<u64>,
    old: VecDeque<u64>,
    /// Bytes it may still send before the next band does.
    credit: i64,
}

#[derive(Clone, Debug)]
struct Flow {
    band: usize,
    segments: Times,
    /// Bytes it may still send in this turn.
    credit: i64,
    place: Place,
    /// Nothing of it leaves before.
    next: Ps,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// It takes turns.
    Listed,
    /// In `throttled`, under this number.
    Throttled(u64),
    /// It has had nothing to send since.
    Detached(Ps),
}

/// Segments in the order in which they may leave, and of those at one time in that in which they came.
#[derive(Clone, Debug, Default)]
struct Times(VecDeque<(Ps, Segment)>);

impl Times {
    fn push(&mut self, at: Ps, segment: Segment) {
        let place = match self.0.back() {
            Some(&(last, _)) if at < last => self.0.partition_point(|&(time, _)| time <= at),
            _ => self.0.len(),
        };
        self.0.insert(place, (at, segment));
    }
}

impl Fq {
    /// Empty ones, before a NIC whose largest packet, with its Ethernet header, has `mtu` bytes.
    pub fn new(c: &Config, mtu: u32) -> Self {
        Self {
            c: c.clone(),
            quantum: c.quantum.unwrap_or(2 * mtu).into(),
            initial_quantum: c.initial_quantum.unwrap_or(10 * mtu).into(),
            fast: Times::default(),
            flows: HashMap::new(),
            bands: Default::default(),
            band: 0,
            throttled: BTreeSet::new(),
            throttles: 0,
            segments: 0,
            eligible: 0,
            forget_at: 1_024,
        }
    }

    /// Nothing may leave before it, and it may leave.
    fn is_fast(&self, at: Ps, now: Ps) -> bool {
        let empty = self.segments == 0 && self.fast.0.is_empty();
        let held = || self.throttled.first().is_none_or(|&(time, ..)| time > now);
        at <= now && (empty || self.eligible == 0 && self.fast.0.len() < FAST && held())
    }

    fn forget(&mut self, now: Ps) {
        if self.flows.len() >= self.forget_at {
            self.flows.retain(|_, flow| match flow.place {
                Place::Detached(since) => now <= since + FORGET_AFTER,
                _ => true,
            });
            self.forget_at = (2 * self.flows.len()).max(1_024);
        }
    }

    fn throttle(&mut self, key: u64, until: Ps) {
        self.throttles += 1;
        self.throttled.insert((until, self.throttles, key));
        self.eligible -= 1;
        if let Some(flow) = self.flows.get_mut(&key) {
            (flow.next, flow.place) = (until, Place::Throttled(self.throttles));
        }
    }

    fn release(&mut self, entry: (Ps, u64, u64)) {
        self.throttled.remove(&entry);
        self.eligible += 1;
        if let Some(flow) = self.flows.get_mut(&entry.2) {
            flow.place = Place::Listed;
            self.bands[flow.band].old.push_back(entry.2);
        }
    }
}

impl Qdisc for Fq {
    fn enqueue(&mut self, segment: Segment, now: Ps) -> Result<(), Dropped> {
        let paced = segment.earliest > 0;
        if self.segments >= self.c.limit || segment.earliest > now + self.c.horizon.0 {
            return Err(Dropped::Refused);
        }
        let at = if paced { segment.earliest } else { now };
        if self.is_fast(at, now) {
            self.fast.push(at, segment);
            return Ok(());
        }
        self.forget(now);
        let key = segment.flow;
        let (quantum, initial) = (self.quantum, self.initial_quantum);
        let flow = self.flows.entry(key).or_insert_with(|| Flow {
            band: 0,
            segments: Times::default(),
            credit: initial,
            place: Place::Detached(now),
            next: 0,
        });
        if flow.segments.0.len() >= self.c.flow_limit {
            return Err(Dropped::Refused);
        }
        if let Place::Detached(since) = flow.place {
            flow.place = Place::Listed;
            self.bands[flow.band].new.push_back(key);
            // What it owes is not forgiven: the kernel compares without a sign.
            if now > since + self.c.refill_delay.0 && flow.credit >= 0 {
                flow.credit = flow.credit.max(quantum);
            }
        }
        flow.band = ORDINARY;
        self.segments += 1;
        if flow.segments.0.is_empty() {
            self.eligible += 1;
        }
        flow.segments.push(at, segment);
        if let Place::Throttled(number) = flow.place
            && paced
            && at < flow.next
        {
            let before = (flow.next, number, key);
            flow.next = at;
            self.release_or_move(before, at, now);
        }
        Ok(())
    }

    fn dequeue(&mut self, now: Ps, _: &mut dyn Ask) -> Dequeue {
        if let Some((_, segment)) = self.fast.0.pop_front() {
            return Dequeue::Send(segment);
        }
        // Connections stay where they are, old ones too.
        if self.segments == 0 {
            return Dequeue::Idle;
        }
        while let Some(&entry) = self.throttled.first().filter(|entry| entry.0 <= now) {
            self.release(entry);
        }
        // Bands in a row that may send and have nothing to.
        let mut idle = 0;
        loop {
            let band = &mut self.bands[self.band];
            let from_new = !band.new.is_empty();
            let list = if from_new { &mut band.new } else { &mut band.old };
            let Some(&key) = list.front().filter(|_| band.credit > 0) else {
                if idle == BANDS.len() {
                    break;
                }
                self.band = (self.band + 1) % BANDS.len();
                let (band, quantum) = (&mut self.bands[self.band], BANDS[self.band]);
                band.credit = (band.credit + quantum).min(quantum);
                idle = if band.credit > 0 { idle + 1 } else { 0 };
                continue;
            };
            idle = 0;
            let Some(flow) = self.flows.get_mut(&key) else { break };
            if flow.credit <= 0 {
                flow.credit += self.quantum;
                list.pop_front();
                self.bands[flow.band].old.push_back(key);
                continue;
            }
            let Some(&(at, segment)) = flow.segments.0.front() else {
                list.pop_front();
                // A connection with nothing to send waits for the others' turns before it may be a new one again.
                if from_new {
                    self.bands[flow.band].old.push_back(key);
                } else {
                    flow.place = Place::Detached(now);
                }
                continue;
            };
            let due = at.max(flow.next);
            if now < due {
                list.pop_front();
                self.throttle(key, due);
                continue;
            }
            flow.segments.0.pop_front();
            flow.credit -= i64::from(segment.bytes);
            band.credit -= i64::from(segment.bytes);
            self.segments -= 1;
            if flow.segments.0.is_empty() {
                self.eligible -= 1;
            }
            return Dequeue::Send(segment);
        }
        self.throttled.first().map_or(Dequeue::Idle, |entry| Dequeue::At(entry.0 + self.c.timer_slack.0))
    }
}

impl Fq {
    /// A segment has come that may leave before those for which its connection was held back.
    fn release_or_move(&mut self, entry: (Ps, u64, u64), at: Ps, now: Ps) {
        if at <= now {
            self.release(entry);
        } else {
            self.throttled.remove(&entry);
            self.eligible += 1;
            self.throttle(entry.2, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SEGMENT, next, sent, take};
    use super::*;

    fn queues() -> Fq {
        Fq::new(&Config::default(), 1_514)
    }

    /// Takes `handle` of `flow`, which may leave at `earliest`.
    fn pace(q: &mut Fq, now: Ps, flow: u64, handle: u32, earliest: Ps) {
        assert_eq!(q.enqueue(Segment { flow, handle, earliest, ..SEGMENT }, now), Ok(()));
    }

    /// Nothing passes by the queues while this segment of connection 99, handle 0, is in one.
    fn busy() -> Fq {
        let mut q = queues();
        take(&mut q, 0, 99, 0, 100);
        pace(&mut q, 0, 99, 0, US);
        assert_eq!(sent(&mut q, 0, 1), [0]);
        take(&mut q, US, 99, 0, 100);
        q
    }

    #[test]
    fn connections_take_turns_after_their_first_ten_packets() {
        let mut q = busy();
        for handle in 0..14 {
            take(&mut q, US, 1, 100 + handle, 1_514);
            take(&mut q, US, 2, 200 + handle, 1_514);
        }
        // Those of 99, then ten each, then two by two: 15140 and 3028 bytes.
        let mut expected = vec![0, 0];
        for first in [100..110, 200..210, 110..112, 210..212, 112..114, 212..214] {
            expected.extend(first);
        }
        assert_eq!(sent(&mut q, US, 99), expected);
        assert_eq!((q.segments, q.eligible, next(&mut q, US)), (0, 0, Dequeue::Idle));
    }

    #[test]
    fn new_connections_are_in_a_band_that_sends_more() {
        let mut q = busy();
        for handle in 0..4 {
            take(&mut q, US, 1, 100 + handle, 10_000);
        }
        // 99, then 1: 15140 bytes are not enough for two, and two are sent; it is in the ordinary band from here on.
        assert_eq!(sent(&mut q, US, 4), [0, 0, 100, 101]);
        assert_eq!((q.flows[&1].credit, q.band, q.flows[&1].band), (15_140 - 20_000, 0, ORDINARY));
        assert_eq!(sent(&mut q, US, 1), [102]);
        assert_eq!((q.band, q.bands[1].credit), (1, BANDS[1] - 10_000));
        // A new one waits until that band has sent its 192 KiB, or has nothing to send.
        take(&mut q, US, 2, 200, 100);
        assert_eq!(sent(&mut q, US, 9), [103, 200]);
    }

    #[test]
    fn what_need_not_wait_passes_by() {
        let mut q = queues();
        pace(&mut q, 5 * US, 1, 10, 9 * US);
        // Another one's turn is not yet: up to eight pass.
        for handle in 20..28 {
            take(&mut q, 5 * US, 2, handle, 1_514);
        }
        // The queue that holds back only what has been asked for once still counts as one that may send.
        assert_eq!((q.fast.0.len(), q.eligible), (0, 2));
        assert_eq!(sent(&mut q, 5 * US, 9), (20..28).collect::<Vec<_>>());
        assert_eq!((q.eligible, q.throttled.len()), (0, 1));
        for handle in 30..39 {
            take(&mut q, 6 * US, 2, handle, 1_514);
        }
        assert_eq!((q.fast.0.len(), q.segments, q.eligible), (8, 2, 1));
        assert_eq!(sent(&mut q, 6 * US, 8), (30..38).collect::<Vec<_>>());
        // 38 is in a queue, and so is whatever comes now; as is what comes when 10 is due.
        take(&mut q, 6 * US, 3, 40, 1_514);
        assert_eq!((q.fast.0.len(), sent(&mut q, 6 * US, 8)), (0, vec![38, 40]));
        take(&mut q, 9 * US, 3, 41, 1_514);
        assert_eq!((q.fast.0.len(), sent(&mut q, 9 * US, 8)), (0, vec![41, 10]));
    }

    #[test]
    fn segments_leave_when_pacing_lets_them() {
        let mut q = queues();
        pace(&mut q, 0, 1, 10, 20 * US);
        pace(&mut q, 0, 1, 11, 30 * US);
        pace(&mut q, 0, 2, 20, 25 * US);
        // The timer is 10 us late, but who asks before gets what is due.
        assert_eq!(next(&mut q, 0), Dequeue::At(30 * US));
        assert_eq!(next(&mut q, 20 * US - 1), Dequeue::At(30 * US));
        assert_eq!(sent(&mut q, 20 * US, 9), [10]);
        assert_eq!(next(&mut q, 20 * US), Dequeue::At(35 * US));
        assert_eq!(sent(&mut q, 40 * US, 9), [20, 11]);
        assert_eq!(next(&mut q, 40 * US), Dequeue::Idle);
    }

    #[test]
    fn one_that_may_leave_earlier_goes_first() {
        let mut q = queues();
        pace(&mut q, 0, 1, 10, 50 * US);
        assert_eq!(next(&mut q, 0), Dequeue::At(60 * US));
        pace(&mut q, 0, 1, 11, 40 * US);
        assert_eq!(next(&mut q, 0), Dequeue::At(50 * US));
        pace(&mut q, 2 * US, 1, 12, US);
        assert_eq!(sent(&mut q, 2 * US, 9), [12]);
        assert_eq!(sent(&mut q, 50 * US, 9), [11, 10]);
        // Of equal times the first comes first.
        for (handle, at) in [(1, 5), (2, 7), (3, 5), (4, 7), (5, 6)] {
            q.fast.push(at, Segment { handle, ..SEGMENT });
        }
        assert_eq!(sent(&mut q, 50 * US, 9), [1, 3, 5, 2, 4]);
        // What may leave now, but waits behind what its own connection may not send yet, makes the timer no earlier.
        pace(&mut q, 60 * US, 1, 13, 90 * US);
        assert_eq!(next(&mut q, 60 * US), Dequeue::At(100 * US));
    }

    #[test]
    fn a_hundred_wait_of_one_connection_and_ten_thousand_of_all() {
        let mut q = busy();
        for handle in 0..100 {
            take(&mut q, US, 1, handle, 1_514);
        }
        assert_eq!(q.enqueue(SEGMENT, US), Err(Dropped::Refused));
        assert_eq!(q.enqueue(Segment { flow: 2, earliest: 10 * SEC + 2 * US, ..SEGMENT }, US), Err(Dropped::Refused));
        for flow in 2..100 {
            for handle in 0..100 {
                if q.segments < 10_000 {
                    let _ = q.enqueue(Segment { flow, handle, ..SEGMENT }, US);
                }
            }
        }
        for handle in 0..100 {
            let _ = q.enqueue(Segment { flow: 100, handle, ..SEGMENT }, US);
        }
        assert_eq!(q.segments, 10_000);
        assert_eq!(q.enqueue(Segment { flow: 101, ..SEGMENT }, US), Err(Dropped::Refused));
    }

    #[test]
    fn after_an_idle_time_it_may_send_a_quantum_but_still_owes() {
        let credit = |owed: i64, ms: u64| {
            let mut q = busy();
            take(&mut q, US, 1, 1, 100);
            // With nothing at all in the queues, nobody would look through the connections.
            pace(&mut q, US, 2, 2, 9 * SEC);
            sent(&mut q, US, 9);
            assert_eq!(q.flows[&1].place, Place::Detached(US));
            q.flows.get_mut(&1).unwrap().credit = owed;
            take(&mut q, ms * MS, 99, 0, 100);
            pace(&mut q, ms * MS, 99, 0, (ms + 1) * MS);
            take(&mut q, ms * MS, 1, 2, 100);
            q.flows[&1].credit
        };
        assert_eq!((credit(100, 40), credit(100, 41), credit(9_000, 41)), (100, 3_028, 9_000));
        assert_eq!(credit(-5, 41), -5);
    }

    #[test]
    fn connections_that_send_nothing_are_forgotten() {
        let mut q = busy();
        for flow in 1_000..3_000 {
            take(&mut q, US, flow, 0, 100);
        }
        pace(&mut q, US, 5, 0, 9 * SEC);
        sent(&mut q, US, 9_999);
        pace(&mut q, SEC, 99, 0, 2 * SEC);
        q.forget_at = 1;
        take(&mut q, SEC, 1, 0, 100);
        assert_eq!(q.flows.len(), 2_003);
        q.forget_at = 1;
        // 99, 5 and 1 have something in the queues.
        take(&mut q, 4 * SEC, 2, 0, 100);
        assert_eq!(q.flows.len(), 4);
    }
}
