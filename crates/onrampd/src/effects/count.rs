//! From what the kernel counts to [`Effects`], in total and by path.

use super::{Effects, Tcp};
use crate::abi::{OR_OWD_BUCKETS, or_path, or_tcp};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Counters of one path, as the kernel's programs have them at one time.
#[derive(Clone, Copy, Debug)]
pub struct Raw {
    or_acks: u64,
    histogram: [u32; OR_OWD_BUCKETS as usize],
    held_ns: u64,
    has_tcp: bool,
    segments: u64,
    retransmitted: u64,
    timeouts: u64,
    acked_bytes: u64,
}

impl Raw {
    /// Of the data path's map, the time held and, where there are any, TCP's counters.
    #[must_use]
    pub fn new(path: &or_path, held_ns: u64, tcp: Option<&or_tcp>) -> Self {
        let of = |get: fn(&or_tcp) -> u64| tcp.map_or(0, get);
        Self {
            or_acks: path.or_acks,
            histogram: path.histogram,
            held_ns,
            has_tcp: tcp.is_some(),
            segments: of(|tcp| tcp.segments),
            retransmitted: of(|tcp| tcp.retransmitted),
            timeouts: of(|tcp| tcp.timeouts),
            acked_bytes: of(|tcp| tcp.acked_bytes),
        }
    }

    /// Adds what was counted since `before`. A counter that is less than before began anew.
    fn add_to(&self, before: &Self, to: &mut Effects) {
        let grown = |now: u64, before: u64| now.checked_sub(before).unwrap_or(now);
        let is_same = self.or_acks >= before.or_acks;
        for (bucket, (now, before)) in self.histogram.iter().zip(before.histogram).enumerate() {
            // The data path's buckets go round.
            to.owd.add(bucket, u64::from(if is_same { now.wrapping_sub(before) } else { *now }));
        }
        to.held_ns += grown(self.held_ns, before.held_ns);
        to.segments += grown(self.segments, before.segments);
        to.retransmitted += grown(self.retransmitted, before.retransmitted);
        to.timeouts += grown(self.timeouts, before.timeouts);
        to.acked_bytes += grown(self.acked_bytes, before.acked_bytes);
    }
}

#[derive(Clone, Debug)]
struct Path {
    /// When it was first seen, by the time that `take` is given.
    started: u64,
    last: Raw,
    effects: Effects,
}

impl Path {
    fn new(now: u64, since: u64, mut raw: Raw) -> Self {
        (raw.segments, raw.retransmitted, raw.timeouts, raw.acked_bytes) = (0, 0, 0, 0);
        Self { started: now, last: raw, effects: Effects { since, ..Effects::default() } }
    }
}

/// Counts so far.
#[derive(Debug)]
pub struct Counted {
    started: u64,
    total: Effects,
    paths: BTreeMap<IpAddr, Path>,
}

impl Counted {
    /// Nothing yet. `now` is the time that [`Self::take`] goes on from, `since` the same in nanoseconds since 1970.
    #[must_use]
    pub fn new(now: u64, since: u64) -> Self {
        Self { started: now, total: Effects { since, tcp: Tcp::None, ..Effects::default() }, paths: BTreeMap::new() }
    }

    /// Takes in the counters of all paths there are now. Delays and time held of a path that is new count from now on,
    /// since maps outlive an agent; TCP's counters begin with the path.
    pub fn take(&mut self, now: u64, tcp: Tcp, raw: BTreeMap<IpAddr, Raw>) {
        self.paths.retain(|peer, _| raw.contains_key(peer));
        self.total.tcp = tcp;
        self.total.elapsed_ns = now.saturating_sub(self.started);
        let since = self.total.since.saturating_add(self.total.elapsed_ns);
        for (peer, raw) in raw {
            let path = self.paths.entry(peer).or_insert_with(|| Path::new(now, since, raw));
            raw.add_to(&path.last, &mut path.effects);
            raw.add_to(&path.last, &mut self.total);
            path.last = raw;
            path.effects.tcp = if raw.has_tcp { tcp } else { Tcp::None };
            path.effects.elapsed_ns = now.saturating_sub(path.started);
        }
    }

    /// Of all paths, those to peers that are none any more too.
    #[must_use]
    pub fn total(&self) -> &Effects {
        &self.total
    }

    /// Of each path there is.
    pub fn paths(&self) -> impl Iterator<Item = (IpAddr, &Effects)> {
        self.paths.iter().map(|(peer, path)| (*peer, &path.effects))
    }

    /// Of the path to `peer`.
    #[must_use]
    pub fn path(&self, peer: &IpAddr) -> Option<&Effects> {
        Some(&self.paths.get(peer)?.effects)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::Histogram;

    const PEER: [u8; 4] = [10, 0, 0, 2];

    fn raw(or_acks: u64, bucket: u32, held_ns: u64, tcp: u64) -> Raw {
        let mut path = or_path::unknown();
        path.or_acks = or_acks;
        path.histogram[5] = bucket;
        let tcp = or_tcp { segments: 10 * tcp, retransmitted: tcp, timeouts: tcp, acked_bytes: 1000 * tcp, since: 1 };
        Raw::new(&path, held_ns, Some(&tcp))
    }

    fn taken(counted: &mut Counted, now: u64, raw: &[([u8; 4], Raw)]) -> Effects {
        counted.take(now, Tcp::All, raw.iter().map(|(peer, raw)| ((*peer).into(), *raw)).collect());
        counted.total().clone()
    }

    #[test]
    fn only_what_has_grown_counts_and_maps_may_be_older_than_the_agent() {
        let mut counted = Counted::new(100, 5000);
        let first = taken(&mut counted, 200, &[(PEER, raw(9, 9, 70, 1))]);
        assert_eq!((first.owd.count(), first.held_ns, first.segments, first.elapsed_ns), (0, 0, 10, 100));
        let next = taken(&mut counted, 300, &[(PEER, raw(12, 12, 75, 3))]);
        assert_eq!((next.owd.count(), next.held_ns, next.segments, next.acked_bytes), (3, 5, 30, 3000));
        let path = counted.path(&PEER.into()).unwrap();
        assert_eq!((path.since, path.elapsed_ns, path.owd.count(), path.timeouts), (5100, 100, 3, 3));
    }

    #[test]
    fn a_path_that_comes_anew_counts_from_then_on_and_the_total_keeps_what_was() {
        let mut counted = Counted::new(0, 5000);
        taken(&mut counted, 0, &[(PEER, raw(0, 0, 0, 0))]);
        let before = taken(&mut counted, 10, &[(PEER, raw(4, 4, 8, 2))]);
        assert_eq!(taken(&mut counted, 20, &[]), Effects { elapsed_ns: 20, ..before });
        assert!(counted.path(&PEER.into()).is_none());
        let again = taken(&mut counted, 30, &[(PEER, raw(1, 1, 2, 1))]);
        assert_eq!((again.owd.count(), again.held_ns, again.segments), (4, 8, 30));
        assert_eq!(counted.path(&PEER.into()).unwrap().since, 5030);
    }

    #[test]
    fn counters_that_begin_anew_or_go_round_lose_nothing() {
        let mut counted = Counted::new(0, 0);
        taken(&mut counted, 0, &[(PEER, raw(10, u32::MAX - 1, 5, 5))]);
        let round = taken(&mut counted, 1, &[(PEER, raw(14, 2, 5, 5))]);
        assert_eq!(round.owd, Histogram::from(vec![(5, 4)]));
        let anew = taken(&mut counted, 2, &[(PEER, raw(3, 3, 1, 1))]);
        assert_eq!((anew.owd.count(), anew.held_ns, anew.segments), (7, 1, 60));
    }

    #[test]
    fn without_tcps_counters_the_others_count_and_it_says_so() {
        let mut counted = Counted::new(0, 0);
        let mut path = or_path::unknown();
        let mut take = |or_acks, now| {
            (path.or_acks, path.histogram[5]) = (or_acks, or_acks as u32);
            counted.take(now, Tcp::None, [(PEER.into(), Raw::new(&path, 0, None))].into());
            counted.total().clone()
        };
        take(0, 0);
        let total = take(4, 1);
        assert_eq!((total.owd.count(), total.tcp, total.segments), (4, Tcp::None, 0));
        counted.take(2, Tcp::All, [(PEER.into(), Raw::new(&path, 0, None))].into());
        assert_eq!(counted.path(&PEER.into()).unwrap().tcp, Tcp::None, "not looked at yet");
    }
}
