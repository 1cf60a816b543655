//! Watches hosts' traffic during a rollout, by asking the coordinator again and again.

use crate::compare::{Counts, Sum};
use crate::coordinator;
use onrampd::config::Fleet;
use onrampd::effects::Effects;
use onrampd::fleet::wire::HostState;
use onrampd::policy::Version;
use onrampd::wait::{ready, signalled, wait};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Read as _};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Hosts tell the coordinator each two seconds.
const SHORTEST: Duration = Duration::from_secs(2);
const LONGEST: Duration = Duration::from_secs(10);
/// Intervals of a phase, if they are not longer or shorter than that.
const INTERVALS: u32 = 60;
/// A coordinator may be silent for so long, or a host.
const PATIENCE: Duration = Duration::from_secs(30);

impl Sum for Effects {
    fn add(&mut self, other: &Self) {
        *self = self.plus(other);
    }

    fn take(&mut self, other: &Self) {
        self.since = other.since;
        if let Some(left) = self.minus(other) {
            *self = left;
        }
    }
}

/// Effects on each host's traffic between two looks.
pub type Interval = BTreeMap<IpAddr, Effects>;

/// The fleet at one look.
pub struct Seen {
    /// Its hosts.
    pub hosts: Vec<HostState>,
    /// Its policy.
    pub policy: Option<Version>,
    /// Since the phase began.
    pub since: Duration,
    /// Hosts that have been away, or silent, for too long.
    away: Vec<IpAddr>,
}

impl Seen {
    /// Returns whether a host has been away, or silent, for too long.
    #[must_use]
    pub fn is_away(&self, host: IpAddr) -> bool {
        self.away.contains(&host)
    }
}

/// Asks again and again, until a signal comes.
pub struct Watch<'a> {
    fleet: &'a Fleet,
    lasts: Duration,
    every: Duration,
    signals: UnixStream,
    is_stopped: bool,
    /// When each host's counts last came, and these.
    last: BTreeMap<IpAddr, (Instant, Effects)>,
}

impl<'a> Watch<'a> {
    /// For phases that last so long.
    ///
    /// # Errors
    /// Signals cannot be caught.
    pub fn new(fleet: &'a Fleet, lasts: Duration) -> io::Result<Self> {
        let signals = signalled(&[SIGINT, SIGTERM, SIGHUP])?;
        signals.set_nonblocking(true)?;
        let every = (lasts / INTERVALS).clamp(SHORTEST, LONGEST);
        Ok(Self { fleet, lasts, every, signals, is_stopped: false, last: BTreeMap::new() })
    }

    /// Why it was ended from without.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        self.is_stopped.then(|| "it was stopped".into())
    }

    /// The fleet now.
    ///
    /// # Errors
    /// No coordinator answers.
    pub fn look(&mut self) -> io::Result<Seen> {
        let found = coordinator::fleet(&self.fleet.coordinators, &self.fleet.folder)?;
        Ok(Seen { hosts: found.hosts, policy: found.policy, since: Duration::ZERO, away: Vec::new() })
    }

    /// Watches for a phase, or until `ends` says so; returns what hosts met in each interval.
    ///
    /// # Errors
    /// No coordinator answers for too long.
    pub fn run(&mut self, phase: &str, mut ends: impl FnMut(&Seen, &[Interval]) -> bool) -> io::Result<Vec<Interval>> {
        let (began, mut answered) = (Instant::now(), Instant::now());
        let mut intervals = Vec::new();
        self.last.clear();
        while began.elapsed() < self.lasts && !self.is_stopped {
            self.sleep(self.every)?;
            let mut seen = match self.look() {
                Ok(seen) => seen,
                Err(_) if answered.elapsed() < PATIENCE => continue,
                Err(e) => return Err(e),
            };
            (answered, seen.since) = (Instant::now(), began.elapsed());
            intervals.extend(self.interval(&seen.hosts, answered));
            let is_silent =
                |host: &&HostState| self.last.get(&host.address).is_none_or(|(at, _)| at.elapsed() > PATIENCE);
            seen.away = seen.hosts.iter().filter(is_silent).map(|host| host.address).collect();
            show(phase, began.elapsed(), self.lasts);
            if ends(&seen, &intervals) {
                break;
            }
        }
        end_show();
        Ok(intervals)
    }

    /// Effects on hosts' traffic since the look before; `None` for the first look after a change, which happened within
    /// its interval.
    fn interval(&mut self, hosts: &[HostState], now: Instant) -> Option<Interval> {
        let is_first = self.last.is_empty();
        let mut interval = Interval::new();
        for host in hosts.iter().filter(|host| host.connected) {
            let Some(effects) = host.effects.clone() else { continue };
            let Some((_, before)) = self.last.get(&host.address) else {
                self.last.insert(host.address, (now, effects));
                continue;
            };
            if *before == effects {
                // Nothing new yet: the next interval has it.
                continue;
            }
            // Counts that started anew, with their agent, are of no interval.
            if let Some(met) = effects.minus(before) {
                interval.insert(host.address, met);
            }
            self.last.insert(host.address, (now, effects));
        }
        (!is_first && !interval.is_empty()).then_some(interval)
    }

    fn sleep(&mut self, time: Duration) -> io::Result<()> {
        let until = Instant::now() + time;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if self.signals.read(&mut [0]).is_ok() {
                self.is_stopped = true;
            }
            if left.is_zero() || self.is_stopped {
                return Ok(());
            }
            wait([ready(self.signals.as_fd(), false)].into_iter(), left.as_nanos() as u64)?;
        }
    }
}

/// Of the hosts that `is` takes, in intervals of a phase, in the order of their addresses; only of those that said
/// something `before` as well.
#[must_use]
pub fn counts(intervals: &[Interval], before: &[Interval], is: &dyn Fn(IpAddr) -> bool) -> Counts<Effects> {
    let mut hosts: Vec<IpAddr> =
        before.iter().flat_map(|interval| interval.keys().copied()).filter(|h| is(*h)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let of = |interval: &Interval| hosts.iter().map(|host| interval.get(host).cloned()).collect();
    intervals.iter().map(of).collect()
}

fn show(phase: &str, elapsed: Duration, lasts: Duration) {
    if io::stderr().is_terminal() {
        let left = lasts.saturating_sub(elapsed).as_secs();
        eprint!("\r\x1b[K{phase}: {} s, {left} s left", elapsed.as_secs());
    }
}

fn end_show() {
    if io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
}
