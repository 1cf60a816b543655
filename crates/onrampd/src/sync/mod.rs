//! This host's part in the synchronisation of a fleet's clocks.
//!
//! A thread of its own sends probes when they are due ([`prober`]), notices when a clock has
//! stepped ([`guard`]), keeps what they saw if it is asked to ([`log`]), and talks to a
//! coordinator ([`member`]), which names the others, with whom it shares keys ([`keyring`]). What comes of it is a [`View`], from which the agent sets the
//! programs' clocks and thresholds.

mod answers;
mod guard;
mod keyring;
mod log;
mod member;
mod policy;
mod prober;
mod rest;
mod view;

pub use keyring::Other;
pub use view::{Settings, View};

use crate::clock::now;
use crate::config::Config;
use crate::datapath::Exchanges;
use crate::effects::Effects;
use crate::fleet::pairs::Pairs;
use crate::fleet::wire::{FromCoordinator, FromHost, Realtime};
use crate::policy::{Applied, Held};
use crate::wait::{ready, wait};
use crate::worker::Worker;
use keyring::Keyring;
use member::{Membership, UNANSWERED};
use policy::Keeper;
use prober::Prober;
use rest::{Looker, Rest};
use std::collections::BTreeSet;
use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::warn;

const SECOND: u64 = 1_000_000_000;
/// Between two looks at the answers that came: a clock that stepped is noticed this soon.
const LOOK: u64 = 20_000_000;
/// Between two times that the coordinator is told what traffic has met.
const EFFECTS: u64 = 2 * SECOND;

/// The thread, as the agent holds it.
pub struct Sync {
    view: Arc<Mutex<View>>,
    /// The time of day, for a coordinator on this host.
    realtime: Arc<Mutex<Option<Realtime>>>,
    /// The policy that the agent goes by, for the coordinator.
    applied: Arc<Mutex<Option<Applied>>>,
    /// Effects on traffic that the coordinator is to be told.
    effects: Arc<Mutex<Option<Effects>>>,
    /// Readable when the view has changed; closed to end the thread, and before it is waited for.
    pipe: UnixStream,
    thread: Worker,
}

impl Sync {
    /// Begins to synchronise, if the configuration has a fleet: with the stamps of `programs`,
    /// or with the kernel's.
    ///
    /// # Errors
    /// The host has not joined, or a socket cannot be had.
    pub fn start(config: &Config, programs: Option<Exchanges>) -> io::Result<Option<Self>> {
        let Some(fleet) = &config.fleet else { return Ok(None) };
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let view: Arc<Mutex<View>> = Arc::default();
        let realtime = Arc::new(Mutex::new(None));
        let applied = Arc::new(Mutex::new(None));
        let effects = Arc::new(Mutex::new(None));
        let policy = Keeper::open(&fleet.folder, now());
        let held = policy.held().clone();
        view.lock().unwrap_or_else(PoisonError::into_inner).policy = held;
        let by_programs = programs.is_some();
        let mut work = Work {
            us: fleet.address,
            prober: Prober::open(fleet.address, config, programs)?,
            membership: Membership::new(fleet, by_programs)?,
            keyring: Keyring::new(Pairs::open(&fleet.folder)?),
            rest: Rest::default(),
            looker: Looker::open(),
            view: view.clone(),
            realtime: realtime.clone(),
            applied: applied.clone(),
            told: None,
            effects: effects.clone(),
            effects_due: 0,
            policy,
            pipe: theirs,
            logged: BTreeSet::from([UNANSWERED.into()]),
        };
        // Sleeps end when they should, not 50 us later.
        let run = move || {
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZero::new(1));
            work.run()
        };
        let thread = Worker::start_unprivileged("sync", run)?;
        Ok(Some(Self { view, realtime, applied, effects, pipe: ours, thread }))
    }

    /// The present view.
    #[must_use]
    pub fn view(&self) -> View {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The fleet's policy, as far as it was heard.
    #[must_use]
    pub fn policy(&self) -> Held {
        self.view.lock().unwrap_or_else(PoisonError::into_inner).policy.clone()
    }

    /// Keeps the time of day for a coordinator on this host; `None` if there is none, or no clock.
    pub fn set_realtime(&self, realtime: Option<Realtime>) {
        *self.realtime.lock().unwrap_or_else(PoisonError::into_inner) = realtime;
    }

    /// Has the coordinator told which policy the agent goes by.
    pub fn set_applied(&self, applied: Applied) {
        let applied = Some(applied.bounded());
        let mut slot = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        if *slot != applied {
            *slot = applied;
            // If the pipe is full, the thread wakes anyway.
            let _ = (&self.pipe).write(&[1]);
        }
    }

    /// Has the coordinator told what traffic has met so far, as soon as it is due.
    pub fn set_effects(&self, effects: Effects) {
        *self.effects.lock().unwrap_or_else(PoisonError::into_inner) = Some(effects);
    }

    /// Returns whether the view has changed since this was last asked.
    pub fn changed(&mut self) -> bool {
        self.pipe.read(&mut [0; 64]).is_ok_and(|n| n > 0)
    }

    /// Checks that the thread is at work.
    ///
    /// # Errors
    /// Why it ended.
    pub fn check(&mut self) -> io::Result<()> {
        self.thread.check()
    }
}

impl AsFd for Sync {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

struct Work {
    us: IpAddr,
    prober: Prober,
    membership: Membership,
    keyring: Keyring,
    rest: Rest,
    looker: Looker,
    view: Arc<Mutex<View>>,
    realtime: Arc<Mutex<Option<Realtime>>>,
    applied: Arc<Mutex<Option<Applied>>>,
    /// As much of that as the coordinator that serves was told.
    told: Option<Applied>,
    effects: Arc<Mutex<Option<Effects>>>,
    effects_due: u64,
    policy: Keeper,
    pipe: UnixStream,
    /// Why no coordinator serves, as far as that was logged since one did.
    logged: BTreeSet<String>,
}

impl Work {
    /// Works until the agent closes its end of the pipe.
    fn run(&mut self) -> io::Result<()> {
        let mut look = now() + LOOK;
        loop {
            let due = self.prober.due().min(look).min(self.membership.due());
            self.wait(due.saturating_sub(now()))?;
            if matches!(self.pipe.read(&mut [0; 1]), Ok(0)) {
                return Ok(());
            }
            self.prober.tend();
            self.prober.send_due(now());
            if now() >= look {
                look = now() + LOOK;
                self.look();
            }
            let heard = self.membership.tend(now());
            let (coordinator, trouble) = (self.membership.coordinator(), self.membership.trouble());
            let told = {
                let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
                view.coordinator == coordinator && view.trouble == trouble
            };
            if !told {
                if coordinator.is_some() {
                    self.logged.clear();
                }
                let trouble = trouble.to_string();
                if coordinator.is_none() {
                    self.policy.lost(now());
                }
                self.change(|view| (view.coordinator, view.trouble) = (coordinator, trouble));
            }
            heard.into_iter().for_each(|message| self.heard(message));
            self.tend_policy();
            self.tend_effects(now());
            if !told && coordinator.is_none() {
                let trouble = self.membership.trouble().to_string();
                self.log(&trouble);
            }
        }
    }

    fn wait(&self, ns: u64) -> io::Result<()> {
        let ours = [self.pipe.as_fd()].into_iter().chain(self.prober.waits()).map(|fd| ready(fd, false));
        let links = self.membership.waits().map(|(fd, write)| ready(fd, write));
        wait(ours.chain(links), ns.min(SECOND))
    }

    /// Takes in the answers that have come.
    fn look(&mut self) {
        self.prober.take_answers();
        let rested = self.rest.see(self.looker.look());
        if rested.is_some() {
            self.prober.forget();
        }
        let stepped = self.prober.own_clock_stepped().then_some("this host's clock stepped, or changed its frequency");
        if let Some(why) = rested.or(stepped) {
            self.membership.corrected(None);
            self.change(|view| view.withdraw(&format!("{why}: waiting for a round")));
        }
    }

    fn heard(&mut self, message: FromCoordinator) {
        match message {
            FromCoordinator::Members { members, not_yours, epochs, probe, interval, window } => {
                self.keyring.turn(epochs);
                let members = self.keyring.set_members(members);
                self.prober.set_members(&members);
                self.prober.set_targets(&probe, interval, window, now());
                let without_key = self.keyring.trouble();
                let members = members.into_iter().map(|member| (member.address, member)).collect();
                self.change(|view| {
                    (view.members, view.not_yours, view.without_key) = (members, not_yours, without_key);
                });
            }
            FromCoordinator::Changed { mut members, gone, not_yours, probe } => {
                members.retain(|member| member.address != self.us);
                // One whose keys are refused now has those before no more.
                let named: Vec<IpAddr> = members.iter().map(|member| member.address).chain(gone).collect();
                let members = self.keyring.change_members(members, &named);
                self.prober.change_members(&members, &named);
                if let Some(probe) = probe {
                    self.prober.change_targets(&probe, now());
                }
                let without_key = self.keyring.trouble();
                self.change(|view| {
                    view.change_members(members, &named, not_yours);
                    view.without_key = without_key;
                });
            }
            FromCoordinator::Keys(epochs) => {
                let members = self.keyring.turn(epochs);
                self.prober.change_members(&members, &[]);
                self.change(|view| view.change_members(members, &[], None));
            }
            FromCoordinator::Collect { round } => {
                self.look();
                let edges = self.prober.collect();
                let realtime = *self.realtime.lock().unwrap_or_else(PoisonError::into_inner);
                self.membership.say(&FromHost::Report { round, edges, realtime });
            }
            FromCoordinator::Corrected { correction, reason, comparable, noise, realtime } => {
                self.membership.corrected(correction);
                self.change(|view| {
                    view.correct(correction, reason, noise);
                    view.change_comparable(&comparable);
                    view.realtime = realtime.filter(Realtime::is_sound);
                });
            }
            FromCoordinator::Renewed { certificate } => {
                let kept = self.membership.renew(&certificate);
                let not_renewed = kept.err().map(|e| e.to_string());
                self.change(|view| view.not_renewed = not_renewed);
            }
            // It was one of the fleet until now, and may be no more: it waits until a coordinator has it again.
            FromCoordinator::Refused { reason } => {
                self.prober.set_members(&[]);
                self.membership.corrected(None);
                let reason = format!("the coordinator refuses this host: it {reason}");
                self.log(&reason);
                self.change(|view| {
                    view.members.clear();
                    view.withdraw(&reason);
                });
            }
            FromCoordinator::Policy(said) => self.policy.hear(said, now()),
            // Another connection, whose coordinator knows nothing of this host and has not said its policy yet.
            FromCoordinator::Welcome { .. } => {
                self.told = None;
                self.policy.lost(now());
            }
            // Answers to questions that are not asked here, and what a later version says.
            FromCoordinator::Kept
            | FromCoordinator::Joined { .. }
            | FromCoordinator::Fleet(_)
            | FromCoordinator::Progress(_)
            | FromCoordinator::Unknown => {}
        }
    }

    /// Shows the agent the policy, and the coordinator what the agent makes of it.
    fn tend_policy(&mut self) {
        self.policy.tend(now());
        let is_shown = {
            let view = self.view.lock().unwrap_or_else(PoisonError::into_inner);
            view.policy == *self.policy.held() && view.policy_not_kept.as_deref() == self.policy.trouble()
        };
        if !is_shown {
            let (held, trouble) = (self.policy.held().clone(), self.policy.trouble().map(String::from));
            self.change(|view| (view.policy, view.policy_not_kept) = (held, trouble));
        }
        let is_told = *self.applied.lock().unwrap_or_else(PoisonError::into_inner) == self.told;
        if !is_told && self.membership.coordinator().is_some() {
            self.told.clone_from(&self.applied.lock().unwrap_or_else(PoisonError::into_inner));
            self.told.iter().for_each(|applied| self.membership.say(&FromHost::Applied(applied.clone())));
        }
    }

    fn tend_effects(&mut self, now: u64) {
        if now < self.effects_due || self.membership.coordinator().is_none() {
            return;
        }
        let newest = self.effects.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(effects) = newest {
            self.effects_due = now + EFFECTS;
            self.membership.say(&FromHost::Effects(effects));
        }
    }

    /// Logs why no coordinator serves this host, each reason once.
    fn log(&mut self, trouble: &str) {
        let reason = trouble.split_once(": ").map_or(trouble, |(_, reason)| reason);
        if self.logged.insert(reason.trim_start_matches("it ").into()) {
            warn!("{trouble}");
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut View)) {
        change(&mut self.view.lock().unwrap_or_else(PoisonError::into_inner));
        self.tell();
    }

    fn tell(&mut self) {
        // If the pipe is full, the agent has enough to read.
        let _ = self.pipe.write(&[1]);
    }
}
