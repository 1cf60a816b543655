//! The command `rollout`: hosts enforce step by step, and go back by themselves where that does harm.
//!
//! [`plan`] says who enforces in a step, [`watch`] asks the coordinator what hosts' traffic meets, [`guard`] judges it.
//! A version of the policy that a rollout makes is a trial: if this command is gone, coordinators go back.

pub mod guard;
pub mod plan;
mod watch;

use crate::compare::Group;
use crate::hosts::hosts;
use crate::policy::{Change, Spread, publish, spread};
use crate::setup::{coordinates, wrong};
use guard::{Guard, Judged, Verdict};
use onrampd::config::quantity::{Life, Threshold};
use onrampd::config::{Config, Fleet, Mode};
use onrampd::fleet::policies::Policies;
use onrampd::fleet::tokens::today;
use onrampd::fleet::wire::HostState;
use onrampd::policy::{Policy, Trial, Version};
use plan::{ALL, Step};
use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::time::Duration;
use watch::{Interval, Seen, Watch};

/// Order for a rollout: its steps, guards and duration.
pub struct Order {
    /// Who enforces first, and in each step after.
    pub steps: Vec<Step>,
    /// T in the policy; `None`: each host's own.
    pub threshold: Option<Threshold>,
    /// Conditions for each step.
    pub guards: Vec<Guard>,
    /// How long each step is watched, and hosts before the first.
    pub lasts: Life,
    /// A step whose guards are neither held nor broken at its end is taken for good.
    pub open_is_fine: bool,
    /// The operator's own words.
    pub message: Option<String>,
}

/// 95% and, for whoever looks many times and goes back at once, 99.9%.
const AT_THE_END: f64 = 1.96;
const AT_ONCE: f64 = 3.29;
/// A trial outlasts its step by this, which is for hosts to confirm and for the step's end.
const SPARE: Duration = Duration::from_secs(15);
/// Hosts that are to enforce, and do not yet, are waited for so long.
const PATIENCE: Duration = Duration::from_secs(10);

/// Outcome of a rollout.
pub enum End {
    /// All steps are done.
    Done,
    /// The policy of before counts again, or somebody else's does.
    Back,
}

/// Rolls out; says what it does as it goes.
///
/// # Errors
/// This host is no coordinator, none answers, hosts do not say what their traffic meets; or the policy cannot be
/// written.
pub fn run(config: &Config, order: &Order) -> io::Result<End> {
    let fleet = coordinates(config)?;
    let mut watch = Watch::new(fleet, Duration::from_secs(order.lasts.0))?;
    let found = watch.look()?;
    check(order, &found)?;
    let present = found.policy.clone();
    let mut rollout = Rollout { fleet, order, present, ours: None, before: Vec::new(), watch };
    println!("watching {} for {} as they are now", hosts(found.hosts.len()), order.lasts);
    match rollout.before()?.map_or_else(|| rollout.steps(), |why| Ok(Some(why))) {
        Ok(None) => Ok(End::Done),
        Ok(Some(why)) => rollout.back(&why).map(|()| End::Back),
        Err(e) => {
            rollout.back(&e.to_string())?;
            Ok(End::Back)
        }
    }
}

/// Refuses what could not be carried out.
fn check(order: &Order, found: &Seen) -> io::Result<()> {
    let present = found.policy.as_ref();
    if present.is_some_and(|present| present.stopped) {
        return Err(wrong("holding is stopped in the whole fleet: onrampctl stop-holding --fleet --end ends that"));
    }
    if let Some(trial) = present.filter(|present| present.trial.is_some()) {
        let ways = "wait for its end, or onrampctl policy rollback";
        return Err(wrong(format!("version {} of the policy is on trial by another rollout: {ways}", trial.version)));
    }
    let policy = present.and_then(|present| present.policy.as_ref());
    let enforces = |host: &&HostState| host.policy.as_ref().is_some_and(|applied| applied.mode == Mode::Enforce);
    if let Some(host) = found.hosts.iter().find(enforces).filter(|_| policy.is_none()) {
        return Err(wrong(format!(
            "{} enforces by its own configuration, which a policy would end: onrampctl policy set a policy that names it first",
            host.address
        )));
    }
    let last = plan::policy(policy, &order.steps, order.threshold);
    if plan::enforcing(policy, &last, &found.hosts).is_empty() {
        return Err(wrong(plan::nobody(&order.steps, &last, &found.hosts)));
    }
    if let Some(host) = found.hosts.iter().find(|host| host.connected && host.effects.is_none()) {
        return Err(wrong(format!(
            "{} does not say what its traffic meets: its agent is older than rollouts, or has just started",
            host.address
        )));
    }
    Ok(())
}

struct Rollout<'a> {
    fleet: &'a Fleet,
    order: &'a Order,
    /// The version that counted before.
    present: Option<Version>,
    /// The version that this rollout has made last.
    ours: Option<Version>,
    /// Effects on hosts' traffic before the first step.
    before: Vec<Interval>,
    watch: Watch<'a>,
}

impl Rollout<'_> {
    /// Watches hosts before anything changes; says why not to go on.
    fn before(&mut self) -> io::Result<Option<String>> {
        let present = self.present.clone();
        let mut ended = None;
        self.before = self.watch.run("before", |seen, _| {
            ended = (seen.policy != present).then(|| somebody_else(seen.policy.as_ref()));
            ended.is_some()
        })?;
        Ok(ended.or_else(|| self.watch.stopped()))
    }

    /// All steps; says why not to go on.
    fn steps(&mut self) -> io::Result<Option<String>> {
        let order = self.order;
        let mut names = Vec::new();
        let mut there = BTreeSet::new();
        for (i, step) in order.steps.iter().enumerate() {
            let found = self.watch.look()?;
            let before = self.present.as_ref().and_then(|present| present.policy.as_ref());
            let policy = plan::policy(before, &order.steps[..=i], order.threshold);
            let enforcing = plan::enforcing(before, &policy, &found.hosts);
            let is_last = i + 1 == order.steps.len();
            if enforcing == there && !is_last {
                println!("step {} of {}: {} has no other hosts", i + 1, order.steps.len(), name(step));
                continue;
            }
            names.push(name(step));
            there = enforcing;
            if let Some(why) = self.step(i, policy, &there)? {
                return Ok(Some(why));
            }
        }
        self.keep()?;
        Ok(None)
    }

    /// One step; says why not to go on.
    fn step(&mut self, i: usize, policy: Policy, enforcing: &BTreeSet<IpAddr>) -> io::Result<Option<String>> {
        let of = format!("step {} of {}", i + 1, self.order.steps.len());
        let until = today() + self.order.lasts.0 + SPARE.as_secs();
        let back = self.present.as_ref().map_or(0, |present| present.version);
        let version = self.publish(&of, policy, Some(Trial { until, back }))?;
        println!("{of}: {} · {} enforce · version {version}", name(&self.order.steps[i]), hosts(enforcing.len()));
        let ours = self.ours.clone();
        let mut holding = BTreeSet::new();
        let mut ended = None;
        let (order, before) = (self.order, &self.before);
        let after = self.watch.run(&of, |seen, after| {
            if seen.policy != ours {
                ended = Some(somebody_else(seen.policy.as_ref()));
            } else if seen.since > PATIENCE {
                holding = holds(seen, enforcing);
                if holding.is_empty() {
                    ended = Some(format!("no host holds packets: {}", why_not(seen, enforcing)));
                } else if let Some(away) = enforcing.iter().find(|host| seen.is_away(**host)) {
                    ended = Some(format!("{away} is not reached any more"));
                }
                let judged = judge(&order.guards, before, after, &holding, AT_ONCE);
                if let Some(broken) = judged.iter().find(|judged| judged.verdict == Verdict::Broken) {
                    ended = Some(format!("{} (99.9%)", broken.reason()));
                }
            }
            ended.is_some()
        })?;
        if let Some(why) = ended.or_else(|| self.watch.stopped()) {
            return Ok(Some(why));
        }
        let judged = judge(&order.guards, before, &after, &holding, AT_THE_END);
        print!("{}", guard::table(&judged));
        Ok(guard::verdict(&judged, order.open_is_fine))
    }

    /// Makes a policy the fleet's, and waits until hosts have confirmed it.
    fn publish(&mut self, what: &str, policy: Policy, trial: Option<Trial>) -> io::Result<u64> {
        let (what, message) = (format!("rollout: {what}"), self.order.message.clone());
        self.change(Change { what, message, stopped: None, policy: Some(Some(policy)), trial })
    }

    fn change(&mut self, change: Change) -> io::Result<u64> {
        let (_, now) = publish(self.fleet, &change)?;
        let Some(now) = now else { return Ok(0) };
        let Spread { told, .. } = spread(self.fleet, &now)?;
        let version = now.version;
        self.ours = Some(now);
        // A standby that is away takes it up when it is back.
        told.unwrap_or_else(|e| eprintln!("onrampctl: {e}"));
        Ok(version)
    }

    /// The last step's policy is for good.
    fn keep(&mut self) -> io::Result<()> {
        let Some(policy) = self.ours.as_ref().and_then(|ours| ours.policy.clone()) else { return Ok(()) };
        let version = self.publish("done", policy, None)?;
        println!("done: version {version} is the fleet's policy");
        Ok(())
    }

    /// Goes back, if what counts is this rollout's.
    fn back(&mut self, why: &str) -> io::Result<()> {
        println!("back: {why}");
        let Some(ours) = self.ours.clone() else { return Ok(()) };
        if Policies::open(&self.fleet.folder)?.present() != Some(&ours) {
            println!("the policy is another one by now, and stays");
            return Ok(());
        }
        let before = self.present.as_ref().map_or(0, |present| present.version);
        let policy = self.present.as_ref().and_then(|present| present.policy.clone());
        let change = Change {
            what: format!("rollout: back to version {before}"),
            message: Some(why.into()),
            stopped: None,
            policy: Some(policy),
            trial: None,
        };
        let version = self.change(change)?;
        let said = if before == 0 {
            "that there is no policy, as before".into()
        } else {
            format!("what version {before} did")
        };
        println!("version {version} says {said}");
        Ok(())
    }
}

fn somebody_else(policy: Option<&Version>) -> String {
    let Some(policy) = policy else { return "the policy is gone".into() };
    format!("{} made version {} of the policy meanwhile: {}", policy.by, policy.version, policy.what)
}

fn name(step: &Step) -> String {
    match step {
        Step::Labels(labels) => onrampd::policy::show(labels),
        Step::Share(ALL) => "all hosts".into(),
        Step::Share(share) => format!("{share} of hosts"),
    }
}

/// Those that really enforce.
fn holds(seen: &Seen, enforcing: &BTreeSet<IpAddr>) -> BTreeSet<IpAddr> {
    let does = |host: &&HostState| {
        enforcing.contains(&host.address) && host.policy.as_ref().is_some_and(|applied| applied.mode == Mode::Enforce)
    };
    seen.hosts.iter().filter(does).map(|host| host.address).collect()
}

fn why_not(seen: &Seen, enforcing: &BTreeSet<IpAddr>) -> String {
    let host = seen.hosts.iter().find(|host| enforcing.contains(&host.address));
    let why = host.and_then(|host| Some((host.address, host.policy.as_ref()?.why.as_str())));
    why.map_or_else(|| "none is there".into(), |(address, why)| format!("{address}: {why}"))
}

/// Judges the guards by the hosts that hold, against those that never were to.
fn judge(guards: &[Guard], before: &[Interval], after: &[Interval], holding: &BTreeSet<IpAddr>, z: f64) -> Vec<Judged> {
    let counts = |intervals: &[Interval], is: &dyn Fn(IpAddr) -> bool| watch::counts(intervals, before, is);
    let group = |is: &dyn Fn(IpAddr) -> bool| Group { before: counts(before, is), after: counts(after, is) };
    let with = group(&|host| holding.contains(&host));
    let without = group(&|host| !holding.contains(&host));
    let rest = Some(&without).filter(|rest| rest.before.first().is_some_and(|hosts| !hosts.is_empty()));
    guards.iter().map(|guard| guard.judged(&with, rest, z)).collect()
}
