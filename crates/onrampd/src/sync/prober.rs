//! Sends pairs of probes when they are due, and keeps what comes back until it is asked for.

use super::answers::Answers;
use super::guard::Guard;
use super::keyring::Other;
use super::log::ProbeLog;
use crate::config::Config;
use crate::datapath::{Exchanges, Step};
use crate::fleet::wire::{Delays, Edge};
use onramp_clock::log::Record;
use onramp_clock::schedule::{SPACING, Schedule};
use onramp_clock::{EdgeFit, Exchange, FitOptions, Memory};
use onramp_core::orprobe::Kind;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::io;
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use tracing::warn;

/// Pairs under way to one peer; answers to older ones do not count.
const UNDER_WAY: u32 = 256;
/// Which times are drawn.
const SEED: u64 = 0x6f6e_7261_6d70;

/// This host's probes.
pub struct Prober {
    us: IpAddr,
    answers: Answers,
    targets: BTreeMap<IpAddr, Target>,
    /// Next probes: when, to whom, whether it is the second of its pair.
    due: BinaryHeap<Reverse<(u64, IpAddr, bool)>>,
    /// Between two pairs to one host, in nanoseconds.
    interval: u64,
    /// Between two reports, in nanoseconds.
    window: u64,
    log: Option<ProbeLog>,
}

/// A host that is probed.
struct Target {
    schedule: Schedule,
    /// Start of the schedule.
    start: u64,
    /// The pair to send next.
    pair: u32,
    under_way: BTreeMap<(u32, bool), UnderWay>,
    seen: Vec<Exchange>,
    /// More than would come in a window twice as long are not kept.
    most: usize,
    window: u64,
    memory: Memory,
    guard: Guard,
    /// Since it last stepped, nothing was fitted.
    stepped: bool,
}

/// A probe that was sent.
struct UnderWay {
    /// The time that names it: a pair's number says too little, since each agent begins at 0.
    named: u64,
    /// Its times; one that is not known yet is 0.
    exchange: Exchange,
}

impl Prober {
    /// Probes from `us`, stamped by the programs, or without them by the kernel; what
    /// they see goes to a log, if one is configured.
    ///
    /// # Errors
    /// The address is not this host's, the port is taken, or the log cannot be written.
    pub fn open(us: IpAddr, config: &Config, programs: Option<Exchanges>) -> io::Result<Self> {
        let answers = Answers::open(us, config, programs)?;
        let (targets, due) = (BTreeMap::new(), BinaryHeap::new());
        let log = config.fleet.as_ref().and_then(|f| f.log.as_deref()).map(ProbeLog::open).transpose()?;
        let (interval, window) = (onramp_clock::schedule::INTERVAL, onramp_clock::WINDOW);
        Ok(Self { us, answers, targets, due, interval, window, log })
    }

    /// Others whose probes are answered.
    pub fn set_members(&mut self, members: &[Other]) {
        self.answers.set_members(members);
    }

    /// Forgets those that are `gone`, then adds or replaces `members`, which may be among them.
    pub fn change_members(&mut self, members: &[Other], gone: &[IpAddr]) {
        self.answers.change_members(members, gone);
    }

    /// Probes other `targets` from now on, as often as those before.
    pub fn change_targets(&mut self, targets: &[IpAddr], now: u64) {
        self.set_targets(targets, self.interval, self.window, now);
    }

    /// Descriptors to wait for, if probes of others are answered here.
    pub fn waits(&self) -> Option<BorrowedFd<'_>> {
        self.answers.waits()
    }

    /// Answers the probes that have come, if that is done here.
    pub fn tend(&mut self) {
        self.answers.tend();
    }

    /// Probes `targets` from now on, a pair in each `interval`; `window` is the time between
    /// two reports.
    pub fn set_targets(&mut self, targets: &[IpAddr], interval: u64, window: u64, now: u64) {
        let wanted: BTreeSet<IpAddr> = targets.iter().copied().filter(|t| *t != self.us).collect();
        self.targets.retain(|address, _| wanted.contains(address));
        self.window = window.max(1);
        let interval = interval.clamp(4 * SPACING, 60_000_000_000);
        self.interval = interval;
        let most = 4 * (window / interval).clamp(1, 100_000) as usize;
        for address in wanted {
            let us = self.us;
            self.targets.entry(address).or_insert_with(|| Target {
                schedule: Schedule::new(number(us), number(address), interval, SEED),
                start: now,
                pair: 0,
                under_way: BTreeMap::new(),
                seen: Vec::new(),
                most,
                window,
                memory: Memory::default(),
                guard: Guard::default(),
                stepped: false,
            });
        }
        let next = |(address, t): (&IpAddr, &Target)| Reverse((t.start + t.schedule.due(t.pair), *address, false));
        self.due = self.targets.iter().map(next).collect();
    }

    /// When the next probe is due.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.due.peek().map_or(u64::MAX, |Reverse((at, ..))| *at)
    }

    /// Sends what is due.
    pub fn send_due(&mut self, now: u64) {
        while let Some(&Reverse((at, address, second))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let Some(target) = self.targets.get_mut(&address) else { continue };
            let pair = target.pair;
            let named = self.answers.send(pair, second, address);
            let exchange = Exchange { pair, second, sent: 0, received: 0, returned: 0, came_back: 0 };
            target.under_way.insert((pair, second), UnderWay { named, exchange });
            if !second {
                self.due.push(Reverse((now + SPACING, address, true)));
                continue;
            }
            target.next_pair(now);
            self.due.push(Reverse((target.start + target.schedule.due(target.pair), address, false)));
        }
    }

    /// Takes in the answers that have come.
    pub fn take_answers(&mut self) {
        self.tend();
        while let Some(step) = self.answers.take() {
            if let Some(target) = self.targets.get_mut(&step.peer) {
                target.saw(&step);
            }
        }
    }

    /// Returns whether this host's own clock is not what it was: most of the others say so. Told once.
    pub fn own_clock_stepped(&mut self) -> bool {
        let stepped = self.targets.values().filter(|t| t.guard.stepped()).count();
        let fresh = self.targets.values().any(|t| t.guard.stepped() && !t.stepped);
        let own = fresh && 2 * stepped > self.targets.len();
        for target in self.targets.values_mut().filter(|t| own || (t.guard.stepped() && !t.stepped)) {
            // What was seen before the step says nothing of the time after it.
            target.seen.clear();
            target.stepped = true;
        }
        own
    }

    /// Forgets what was seen: this host's clock is another one from now on.
    pub fn forget(&mut self) {
        for target in self.targets.values_mut() {
            target.seen.clear();
            target.guard.expect(None);
            target.stepped = true;
        }
    }

    /// Takes what was seen since this was last asked.
    pub fn collect(&mut self) -> Vec<Edge> {
        self.keep();
        self.targets.iter_mut().filter_map(|(address, target)| target.collect(*address)).collect()
    }
}

impl Prober {
    /// Adds what was seen to the log; after an error nothing more.
    fn keep(&mut self) {
        let Some(log) = &mut self.log else { return };
        let from = number(self.us);
        let seen = |(to, target): (&IpAddr, &Target)| {
            let to = number(*to);
            target.seen.iter().map(move |e| Record::Exchange { from, to, exchange: *e }).collect::<Vec<_>>()
        };
        let records: Vec<Record> = self.targets.iter().flat_map(seen).collect();
        if records.is_empty() {
            return;
        }
        if let Err(e) = log.add(self.window, records) {
            warn!("probes are no longer kept: {e}");
            self.log = None;
        }
    }
}

impl Target {
    /// The first pair that is not due yet: none is made up for.
    fn next_pair(&mut self, now: u64) {
        self.pair = self.pair.wrapping_add(1);
        while self.start + self.schedule.due(self.pair) < now {
            self.pair = self.pair.wrapping_add(1);
        }
        let oldest = self.pair.saturating_sub(UNDER_WAY);
        self.under_way = self.under_way.split_off(&(oldest, false));
    }

    fn saw(&mut self, Step { at, came, probe, .. }: &Step) {
        let key = (probe.pair, probe.second);
        let Some(UnderWay { named, exchange }) = self.under_way.get_mut(&key) else { return };
        if *named != probe.sent {
            return;
        }
        // Each step is seen once; all else is a replay.
        let learn = |time: &mut u64, told| *time = if *time == 0 { told } else { *time };
        if !came {
            learn(&mut exchange.sent, *at);
        } else {
            learn(&mut exchange.received, probe.received);
            learn(&mut exchange.returned, probe.returned);
            if probe.kind == Kind::Answer {
                learn(&mut exchange.came_back, *at);
            }
        }
        let exchange = *exchange;
        let Exchange { sent, received, returned, came_back, .. } = exchange;
        if [sent, received, returned, came_back].contains(&0) {
            return;
        }
        self.under_way.remove(&key);
        self.guard.see(&exchange);
        if self.seen.len() < self.most {
            self.seen.push(exchange);
        }
    }

    fn collect(&mut self, to: IpAddr) -> Option<Edge> {
        let seen = std::mem::take(&mut self.seen);
        let found = self.memory.fit(&seen, &FitOptions::default(), self.window);
        let edge = found.and_then(|fit| {
            let forward = seen.iter().map(|e| delay(&fit, e.received, e.sent, e.sent));
            let backward = seen.iter().map(|e| -delay(&fit, e.returned, e.came_back, e.came_back));
            Some(Edge { to, fit, forward: delays(forward.collect())?, backward: delays(backward.collect())? })
        });
        // Where hosts are hardly ever given a processor a fit may be any.
        let edge = edge.filter(Edge::is_sound);
        self.guard.expect(edge.as_ref().map(|edge| edge.fit));
        self.stepped = false;
        edge
    }
}

/// Difference of the other clock's `there` to ours' `here`, by a fit of the two.
fn delay(fit: &EdgeFit, there: u64, here: u64, at: u64) -> i64 {
    let drifted = fit.drift * at.wrapping_sub(fit.base).cast_signed() as f64;
    there.wrapping_sub(here).cast_signed().wrapping_sub(fit.offset).wrapping_sub(drifted.round() as i64)
}

fn delays(mut all: Vec<i64>) -> Option<Delays> {
    all.sort_unstable();
    let last = all.len().checked_sub(1)? as f64;
    let at = |q: f64| all.get((last * q).round() as usize).copied();
    Some(Delays { min_ns: at(0.0)?, p50_ns: at(0.5)?, p99_ns: at(0.99)? })
}

/// A number for an address, so that hosts draw different times.
fn number(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(v4) => v4.to_bits(),
        IpAddr::V6(v6) => {
            v6.octets().chunks(4).fold(0, |n, c| n.rotate_left(7) ^ u32::from_be_bytes([c[0], c[1], c[2], c[3]]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_core::orprobe::OrProbe;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const WHOLE: Exchange = Exchange { pair: 3, second: true, sent: 10, received: 20, returned: 30, came_back: 40 };

    /// A target to which that probe is under way, known as `named`.
    fn target(named: u64) -> Target {
        let exchange = Exchange { sent: 0, received: 0, returned: 0, came_back: 0, ..WHOLE };
        Target {
            schedule: Schedule::new(1, 2, 1_000_000, SEED),
            start: 0,
            pair: 4,
            under_way: BTreeMap::from([((3, true), UnderWay { named, exchange })]),
            seen: Vec::new(),
            most: 10,
            window: 1_000_000_000,
            memory: Memory::default(),
            guard: Guard::default(),
            stepped: false,
        }
    }

    /// The probe leaves, its answer comes, and after it the time when the answer left.
    fn steps(named: u64) -> [Step; 3] {
        let probe =
            |kind, received, returned| OrProbe { kind, pair: 3, second: true, sent: named, received, returned, tag: 0 };
        let step = |at, came, probe| Step { peer: PEER, at, came, probe };
        [
            step(10, false, probe(Kind::Probe, 0, 0)),
            step(40, true, probe(Kind::Answer, 20, 0)),
            step(50, true, probe(Kind::FollowUp, 20, 30)),
        ]
    }

    #[test]
    fn steps_make_an_exchange_in_whatever_order_they_are_seen() {
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let (mut target, steps) = (target(7), steps(7));
            for (count, i) in order.into_iter().enumerate() {
                assert!(target.seen.is_empty(), "{count} of {order:?}");
                target.saw(&steps[i]);
            }
            assert_eq!(target.seen, [WHOLE], "{order:?}");
        }
    }

    #[test]
    fn what_comes_twice_or_by_another_name_changes_nothing() {
        let mut target = target(7);
        let [left, answer, told] = steps(7);
        let late = |step: &Step| Step { at: step.at + 5, ..*step };
        // An agent before this one began with the same numbers.
        steps(6).iter().for_each(|step| target.saw(step));
        assert!(target.under_way.contains_key(&(3, true)) && target.seen.is_empty());
        for step in [&left, &late(&left), &answer, &late(&answer), &told, &told, &late(&answer)] {
            target.saw(step);
        }
        assert_eq!(target.seen, [WHOLE]);
    }
}
