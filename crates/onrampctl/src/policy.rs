//! The commands `policy …` and `stop-holding --fleet`: the fleet's policy on its coordinators.

use crate::coordinator;
use crate::hosts::hosts as hosts_of;
use crate::setup::{coordinates, tell_others, wrong};
use onrampd::config::{self, Config, Fleet, Mode};
use onrampd::fleet::pki::Authority;
use onrampd::fleet::policies::Policies;
use onrampd::fleet::tokens::today;
use onrampd::fleet::wire::{self, FromHost, HostState, Progress};
use onrampd::operator::operator;
use onrampd::policy::{self, Policy, Trial, Version, file};
use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

/// A command waits for hosts' confirmations no longer than this.
const PATIENCE: Duration = Duration::from_secs(5);
const LOOK: Duration = Duration::from_millis(20);
/// Nor for one answer of a coordinator.
const ANSWER: Duration = Duration::from_secs(1);
/// Who answers none of so many in a row does not answer; a busy one may miss one.
const IN_VAIN: usize = 3;
/// Who stops holding waits no longer for coordinators that do not answer.
const QUICK: Duration = Duration::from_millis(300);

/// A change of the policy: what is done, and the operator's words.
pub struct Change {
    /// The command, for history and log.
    pub what: String,
    /// The operator's own words.
    pub message: Option<String>,
    /// True to hold nothing, whatever the policy says; `None`: as before.
    pub stopped: Option<bool>,
    /// The policy, or that there is none; outer `None`: as before.
    pub policy: Option<Option<Policy>>,
    /// When coordinators go back by themselves, and to which version's policy.
    pub trial: Option<Trial>,
}

impl Change {
    /// The version that it makes of the present one; `None` if that says the same already.
    fn of(&self, present: Option<&Version>, version: u64) -> Option<Version> {
        let stopped = self.stopped.unwrap_or_else(|| present.is_some_and(|present| present.stopped));
        let before = present.and_then(|present| present.policy.clone());
        let is_same = |present: &Version| present.stopped == stopped && present.version + 1 == version;
        let policy = self.policy.clone().unwrap_or_else(|| before.clone());
        let on_trial = present.and_then(|present| present.trial);
        // Whoever stops holding, or ends that, makes no trial last.
        let trial = if self.policy.is_some() { self.trial } else { on_trial };
        if policy == before && trial == on_trial && present.map_or(!stopped && version == 1, is_same) {
            return None;
        }
        let (by, from) = operator();
        let (what, message) = (self.what.clone(), self.message.as_deref().map(policy::text));
        let earlier = present.filter(|present| present.stopped).map(stop);
        let mut made = Version { version, at: today(), by, from, what, message, stopped, stop: None, policy, trial };
        made.stop = stopped.then(|| earlier.unwrap_or_else(|| stop(&made)));
        Some(made)
    }
}

/// Who stopped holding, in a version in which it is, and why.
fn stop(version: &Version) -> String {
    let Version { version, by, message, stop, .. } = version;
    let why = message.as_ref().map_or(String::new(), |message| format!(": {message}"));
    stop.clone().unwrap_or_else(|| policy::text(&format!("by {by} (version {version}){why}")))
}

/// Reads a policy's file.
///
/// # Errors
/// Every mistake in it.
pub fn read(path: &Path) -> Result<Policy, Vec<config::ConfigError>> {
    file::load(&config::read(path)?, &path.display().to_string())
}

/// Makes a change the fleet's policy on this coordinator, which tells its hosts within a fifth of a second. Returns the
/// version before and the one that counts now; they are the same if the change says nothing new.
///
/// # Errors
/// This host is no coordinator, or it cannot be written.
pub fn publish(fleet: &Fleet, change: &Change) -> io::Result<(Option<Version>, Option<Version>)> {
    let mut policies = Policies::open(&fleet.folder)?;
    let authority = Authority::open(&fleet.folder)?;
    let found = coordinator::progress(&fleet.coordinators, &authority, QUICK);
    let known = found.iter().map(|progress| progress.newest).max().unwrap_or(0);
    // What was said on another coordinator while this one was away counts here, too: above all that holding is stopped.
    let newest = found.into_iter().filter_map(|progress| progress.policy).max_by_key(Version::stamp);
    if let Some(newest) = newest.filter(|newest| policies.present().is_none_or(|own| own.stamp() < newest.stamp())) {
        policies.keep(newest)?;
    }
    let own = policies.present().map_or(0, |version| version.version);
    if known > own && change.stopped != Some(true) {
        return Err(io::Error::other(format!(
            "hosts go by version {known} of the policy, and no coordinator that answers has it: it may be that holding is \
             stopped. Start the coordinator that made it; or onrampctl stop-holding --fleet, and then go on from there"
        )));
    }
    let mut before = None;
    let now = policies.add(known, |present, next| {
        before = present.cloned();
        change.of(present, next)
    })?;
    let now = now.cloned();
    Ok((before, now))
}

/// How far a version has come.
pub struct Spread {
    /// Hosts of all coordinators that answer; `None`: none does.
    pub progress: Option<Progress>,
    /// When that was known.
    pub at: Instant,
    /// Other coordinators that do not answer, or do not take it.
    pub told: io::Result<()>,
}

/// Tells the other coordinators of a version, also if it is not new, and waits meanwhile until hosts have confirmed it.
///
/// # Errors
/// This host is no coordinator.
pub fn spread(fleet: &Fleet, version: &Version) -> io::Result<Spread> {
    thread::scope(|scope| {
        let told = scope.spawn(|| tell_others(fleet, &FromHost::Policy(version.clone())));
        let progress = confirmed(fleet, version.version)?;
        let at = Instant::now();
        let told = told.join().unwrap_or_else(|_| Err(io::Error::other("panicked")));
        Ok(Spread { progress, at, told })
    })
}

/// Waits until all hosts that are connected to coordinators have confirmed `version`, or for [`PATIENCE`]; how far they have
/// come. `None`: no coordinator answers.
fn confirmed(fleet: &Fleet, version: u64) -> io::Result<Option<Progress>> {
    let authority = Authority::open(&fleet.folder)?;
    let begun = Instant::now();
    let mut in_vain = 0;
    loop {
        let found = coordinator::progress(&fleet.coordinators, &authority, ANSWER);
        // What hosts have confirmed of another version counts for nothing.
        let of_this = |p: Progress| Progress { confirmed: if p.version == version { p.confirmed } else { 0 }, ..p };
        let sum = found.into_iter().map(of_this).reduce(|a, b| Progress {
            version: a.version.min(b.version),
            newest: a.newest.max(b.newest),
            hosts: a.hosts + b.hosts,
            confirmed: a.confirmed + b.confirmed,
            enforcing: a.enforcing + b.enforcing,
            policy: None,
            // Away is who is at none of them.
            away: a.away.intersection(&b.away).copied().collect(),
        });
        in_vain = if sum.is_some() { 0 } else { in_vain + 1 };
        let done = sum.as_ref().is_some_and(|sum| sum.version >= version && sum.confirmed == sum.hosts);
        if done || in_vain == IN_VAIN || begun.elapsed() >= PATIENCE {
            return Ok(sum);
        }
        sleep(LOOK);
    }
}

/// Sets a policy; what is said of it.
///
/// # Errors
/// As those of [`publish`], or another coordinator does not answer.
pub fn set(config: &Config, policy: Policy, message: Option<String>) -> io::Result<String> {
    let fleet = coordinates(config)?;
    let change = Change { what: "set".into(), message, stopped: None, policy: Some(Some(policy)), trial: None };
    changed(fleet, &change)
}

/// Makes the policy of an old version the newest one: without a number, of the version before the present one.
///
/// # Errors
/// There is no such version; and as those of [`publish`].
pub fn rollback(config: &Config, version: Option<u64>, message: Option<String>) -> io::Result<String> {
    let fleet = coordinates(config)?;
    let policies = Policies::open(&fleet.folder)?;
    let version = match version {
        Some(version) => version,
        None => before(&policies)?,
    };
    let policy = Some(policies.policy(version)?.cloned());
    let what = format!("rollback to version {version}");
    changed(fleet, &Change { what, message, stopped: None, policy, trial: None })
}

/// The newest version with another policy than the present one.
fn before(policies: &Policies) -> io::Result<u64> {
    let Some(present) = policies.present() else {
        return Err(wrong("the fleet has no policy: onrampctl policy set FILE makes one"));
    };
    let other = policies.all().iter().rev().find(|version| version.policy != present.policy);
    Ok(other.map_or(0, |version| version.version))
}

fn changed(fleet: &Fleet, change: &Change) -> io::Result<String> {
    let (before, now) = publish(fleet, change)?;
    let Some(now) = now else { return Ok("the fleet has no policy, as before\n".into()) };
    // A version that says the same is told again: a coordinator may have been away when it was made.
    let mut out = if before.as_ref() == Some(&now) {
        format!("version {} says that already\n\n", now.version)
    } else {
        let [old, new] = [before.as_ref(), Some(&now)].map(|v| file::render(v.and_then(|v| v.policy.as_ref())));
        format!("version {}\n\n{}\n", now.version, difference(&old, &new))
    };
    if now.stopped {
        out.push_str(
            "holding is stopped in the whole fleet: nothing is held until onrampctl stop-holding --fleet --end\n",
        );
    }
    let Spread { progress, told, .. } = spread(fleet, &now)?;
    let mut meant = 0;
    match coordinator::fleet(&fleet.coordinators, &fleet.folder) {
        Ok(found) => {
            out.push_str(&reach(now.policy.as_ref(), &found.hosts));
            meant = now.policy.as_ref().filter(|_| !now.stopped).map_or(0, |policy| enforcing(policy, &found.hosts));
        }
        Err(e) => _ = writeln!(out, "how many hosts each rule is about is not known: {e}"),
    }
    let Some(progress) = progress else {
        let unheard = "no coordinator answers: hosts hear of it when one runs";
        return with(out, Err(io::Error::other(format!("version {}: {unheard}", now.version))));
    };
    out.push_str(&shown(&progress, meant));
    with(out, told)
}

/// Returns the report of what was done; if telling coordinators failed, prints the report and returns that error.
fn with(out: String, told: io::Result<()>) -> io::Result<String> {
    if told.is_err() {
        print!("{out}");
    }
    told.map(|()| out)
}

/// How far the policy has come, by which so many connected hosts are meant to enforce.
fn shown(progress: &Progress, meant: usize) -> String {
    let Progress { hosts, confirmed, enforcing, .. } = progress;
    let hint = if confirmed < hosts {
        ": onrampctl policy show says which have not"
    } else if *enforcing < meant {
        ": onrampctl policy show says why not more"
    } else {
        ""
    };
    format!("confirmed by {confirmed} of {}; {enforcing} enforce{hint}\n", hosts_of(*hosts))
}

/// How many of the hosts that are connected a policy has enforce.
fn enforcing(policy: &Policy, hosts: &[HostState]) -> usize {
    let enforces = |host: &HostState| policy.of(host.address, &host.labels).mode == Mode::Enforce;
    hosts.iter().filter(|host| host.connected && enforces(host)).count()
}

/// How many hosts each rule is about.
fn reach(policy: Option<&Policy>, hosts: &[HostState]) -> String {
    let Some(policy) = policy else { return String::new() };
    let matched: Vec<_> = hosts.iter().map(|host| policy.of(host.address, &host.labels).rule).collect();
    let count = |rule| matched.iter().filter(|matched| **matched == rule).count();
    let all = hosts_of(hosts.len());
    let mut out = String::new();
    for (i, rule) in policy.rules.iter().enumerate() {
        let (of, scope, mode) = (count(Some(i + 1)), rule.scope(), rule.mode);
        let nobody = if of == 0 { ": onrampctl fleet shows their labels" } else { "" };
        let _ = writeln!(out, "rule {} ({scope}): {mode} · {of} of {all}{nobody}", i + 1);
    }
    let none = count(None);
    if none > 0 {
        let _ = writeln!(out, "no rule: observe · {none} of {all}");
    }
    out
}

/// Stops holding in the whole fleet, or ends that.
///
/// # Errors
/// As those of [`publish`], or a host that is connected has not confirmed it.
pub fn stop_holding(config: &Config, end: bool, message: Option<String>) -> io::Result<String> {
    let fleet = coordinates(config)?;
    let what = if end { "stop-holding --end" } else { "stop-holding" };
    let change = Change { what: what.into(), message, stopped: Some(!end), policy: None, trial: None };
    let begun = Instant::now();
    let not_stopped = |e: io::Error| {
        let way = "on another coordinator onrampctl stop-holding --fleet does, and on a host onrampd off";
        if end { e } else { io::Error::new(e.kind(), format!("{e}. Nothing is stopped: {way}")) }
    };
    let (before, now) = publish(fleet, &change).map_err(not_stopped)?;
    let Some(now) = now.filter(|now| !end || before.as_ref() != Some(now)) else {
        return Ok("holding was not stopped\n".into());
    };
    let Spread { progress, at, told } = spread(fleet, &now)?;
    let version = now.version;
    let Some(progress) = progress else {
        let on =
            "no coordinator answers, so hosts go on as before: start the one on this host, or say onrampd off on each";
        return Err(io::Error::other(format!("version {version}: {on}")));
    };
    if end {
        let line =
            format!("version {version}: hosts hold again as policy and configuration say\n{}", shown(&progress, 0));
        return with(line, told);
    }
    let Progress { hosts, confirmed, enforcing, away, .. } = progress;
    let seconds = at.duration_since(begun).as_secs_f64();
    let line =
        format!("version {version}: {confirmed} of {} hold nothing any more, after {seconds:.2} s", hosts_of(hosts));
    if confirmed < hosts || enforcing > 0 {
        return Err(io::Error::other(format!(
            "{line}: onrampctl policy show names the others; onrampd off stops one there"
        )));
    }
    if let Some(first) = away.first() {
        let (more, goes_on) = match away.len() {
            1 => (String::new(), "which goes on holding if its agent runs"),
            n => (format!(" and {} more", n - 1), "which go on holding if their agents run"),
        };
        return Err(io::Error::other(format!(
            "{line}; not reached: {first}{more}, {goes_on}: onrampd off there; onrampctl fleet remove, of hosts that are gone"
        )));
    }
    with(line + "\nuntil onrampctl stop-holding --fleet --end\n", told)
}

/// The present policy, and how far each host has come.
///
/// # Errors
/// No coordinator answers, and this host is none.
pub fn show(config: &Config, json: bool) -> io::Result<String> {
    let fleet = config.fleet.as_ref().ok_or_else(|| wrong("the configuration has no [fleet]"))?;
    let (found, silent) = match coordinator::fleet(&fleet.coordinators, &fleet.folder) {
        Ok(found) => (found, None),
        Err(e) => {
            let Ok(fleet) = coordinates(config) else { return Err(e) };
            let policy = Policies::open(&fleet.folder)?.present().cloned();
            (wire::Fleet { policy, ..wire::Fleet::default() }, Some(e))
        }
    };
    if json {
        let host = |host: &HostState| {
            serde_json::json!({ "address": host.address, "connected": host.connected, "labels": host.labels,
                "version": host.policy.as_ref().map(|applied| applied.version),
                "mode": host.policy.as_ref().map(|applied| applied.mode),
                "why": host.policy.as_ref().map(|applied| &applied.why) })
        };
        let hosts: Vec<_> = found.hosts.iter().map(host).collect();
        let said = serde_json::json!({ "policy": found.policy, "answered": silent.is_none(), "hosts": hosts,
            "away": found.away });
        return Ok(said.to_string() + "\n");
    }
    let mut out = shown_policy(found.policy.as_ref());
    if let Some(e) = silent {
        let _ = writeln!(out, "\nno coordinator answers, so what hosts do is not known: {e}");
        return Ok(out);
    }
    out.push('\n');
    out.push_str(&hosts(&found));
    Ok(out)
}

fn shown_policy(version: Option<&Version>) -> String {
    let Some(version) = version else {
        return "the fleet has no policy: each host's own configuration counts\n".into();
    };
    let Version { version: number, at, by, from, what, message, stopped, stop: _, policy, trial } = version;
    let message = message.as_ref().map_or(String::new(), |message| format!(" · {message}"));
    let mut out = format!("version {number} · {what} · {} · {by}, {from}{message}\n", policy::utc(*at));
    if *stopped {
        let _ = writeln!(out, "holding is stopped in the whole fleet, whatever follows, {}", stop(version));
    }
    if let Some(Trial { until, back }) = trial {
        let _ = writeln!(out, "a trial: back to version {back} at {}", policy::utc(*until));
    }
    out.push('\n');
    out.push_str(&file::render(policy.as_ref()));
    out
}

fn hosts(fleet: &wire::Fleet) -> String {
    let wire::Fleet { hosts, policy, away, .. } = fleet;
    let number = policy.as_ref().map_or(0, |version| version.version);
    let mut out = format!("{:<40}{:>8}  {:<9}why\n", "host", "version", "mode");
    for host in hosts {
        let gone = if host.connected { "" } else { " (not connected)" };
        let labels = if host.labels.is_empty() { String::new() } else { format!(" {}", policy::show(&host.labels)) };
        let name = format!("{}{labels}", host.address);
        let _ = match &host.policy {
            None => writeln!(out, "{name:<40}{:>8}  {:<9}has said nothing: an earlier version?{gone}", "–", "–"),
            Some(applied) => {
                let mark = if applied.version == number { "" } else { " ≠" };
                let shown = format!("{}{mark}", applied.version);
                writeln!(out, "{name:<40}{shown:>8}  {:<9}{}{gone}", applied.mode.to_string(), applied.why)
            }
        };
    }
    for address in away {
        let _ = writeln!(out, "{:<40}{:>8}  {:<9}not connected", address.to_string(), "–", "–");
    }
    let there = hosts.iter().filter(|host| host.connected);
    let is_confirmed = |host: &&HostState| host.policy.as_ref().is_some_and(|applied| applied.version == number);
    let enforces = |host: &&HostState| host.policy.as_ref().is_some_and(|applied| applied.mode == Mode::Enforce);
    let [confirmed, enforcing] = [there.clone().filter(is_confirmed).count(), there.clone().filter(enforces).count()];
    let _ = writeln!(out, "\nconfirmed by {confirmed} of {} connected hosts; {enforcing} enforce", there.count());
    out
}

/// The versions that are kept, the newest first.
///
/// # Errors
/// This host is no coordinator, or the file is broken.
pub fn history(config: &Config, json: bool) -> io::Result<String> {
    let policies = Policies::open(&coordinates(config)?.folder)?;
    if json {
        return Ok(serde_json::to_string(policies.all())? + "\n");
    }
    if policies.all().is_empty() {
        return Ok("the fleet has no policy: onrampctl policy set FILE makes one\n".into());
    }
    Ok(listed(policies.all()))
}

fn listed(versions: &[Version]) -> String {
    let width = versions.iter().map(|version| version.what.chars().count() + 2).max().unwrap_or(0).max(32);
    let mut out = format!("{:>7}  {:<24}{:<width$}who, from where, and what for\n", "version", "when", "what");
    for Version { version, at, by, from, what, message, .. } in versions.iter().rev() {
        let message = message.as_ref().map_or(String::new(), |message| format!(": {message}"));
        let _ = writeln!(out, "{version:>7}  {:<24}{what:<width$}{by}, {from}{message}", policy::utc(*at));
    }
    out
}

/// Differences from one policy to another, each a version's number or a file: from the version before to the present
/// one, from `a` to the present one, or from the present one to a file.
///
/// # Errors
/// There is no such version, or the file is wrong, which is exit status 2.
pub fn diff(config: &Config, a: Option<&str>, b: Option<&str>) -> io::Result<String> {
    let fleet = coordinates(config)?;
    let policies = Policies::open(&fleet.folder)?;
    let present = || file::render(policies.present().and_then(|present| present.policy.as_ref()));
    let mut reached = String::new();
    let mut text = |named: &str| match named.parse() {
        Ok(version) => policies.policy(version).map(file::render),
        Err(_) => {
            let lines = |errors: Vec<config::ConfigError>| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
            let policy = read(Path::new(named)).map_err(|e| wrong(lines(e).join("\n")))?;
            // Which is known where a coordinator answers.
            let found = coordinator::fleet(&fleet.coordinators, &fleet.folder);
            reached = found.map(|found| reach(Some(&policy), &found.hosts)).unwrap_or_default();
            Ok(file::render(Some(&policy)))
        }
    };
    let [old, new] = match (a, b) {
        (Some(a), Some(b)) => [text(a)?, text(b)?],
        (Some(a), None) if a.parse::<u64>().is_err() => [present(), text(a)?],
        (Some(a), None) => [text(a)?, present()],
        (None, _) => [text(&before(&policies)?.to_string())?, present()],
    };
    let gap = if reached.is_empty() { "" } else { "\n" };
    Ok(difference(&old, &new) + gap + &reached)
}

/// Lines of both texts, marked where they are of one only: by their longest common subsequence.
fn difference(old: &str, new: &str) -> String {
    let [a, b] = [old, new].map(|text| text.lines().collect::<Vec<_>>());
    if a == b {
        return "no difference\n".into();
    }
    let mut common = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for i in (0..a.len()).rev() {
        for j in (0..b.len()).rev() {
            common[i][j] = if a[i] == b[j] { common[i + 1][j + 1] + 1 } else { common[i + 1][j].max(common[i][j + 1]) };
        }
    }
    let (mut i, mut j, mut out) = (0, 0, String::new());
    while i < a.len() || j < b.len() {
        let (mark, line) = if i < a.len() && j < b.len() && a[i] == b[j] {
            (i, j) = (i + 1, j + 1);
            (' ', a[i - 1])
        } else if j == b.len() || (i < a.len() && common[i + 1][j] >= common[i][j + 1]) {
            i += 1;
            ('-', a[i - 1])
        } else {
            j += 1;
            ('+', b[j - 1])
        };
        let line = format!("{mark} {line}");
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrampd::policy::{Applied, Labels};

    const B7: &str = "[[rule]]\nlabels = { rack = \"b7\" }\nmode = \"enforce\"\n";

    fn policy(text: &str) -> Policy {
        file::load(text, "p.toml").unwrap()
    }

    fn change(stopped: Option<bool>, policy: Option<Option<Policy>>) -> Change {
        Change { what: "set".into(), message: Some("a\nb".into()), stopped, policy, trial: None }
    }

    #[test]
    fn a_change_makes_a_version_and_what_says_nothing_new_makes_none() {
        let set = change(None, Some(Some(policy(B7))));
        let first = set.of(None, 1).unwrap();
        assert_eq!((first.version, first.stopped, first.message.as_deref()), (1, false, Some("a b")));
        assert!(first.is_sound() && set.of(Some(&first), 2).is_none());
        assert!(set.of(Some(&first), 9).is_some(), "hosts have a later one, so this one would not be heard");
        let stopped = change(Some(true), None).of(Some(&first), 2).unwrap();
        assert!(stopped.stopped && stopped.policy == first.policy);
        let who = stop(&stopped);
        assert!(who.starts_with("by ") && who.ends_with(" (version 2): a b"), "{who}");
        let other = change(None, Some(None)).of(Some(&stopped), 3).unwrap();
        assert!(other.stopped && other.policy.is_none(), "it stands above any policy until it is ended");
        assert_eq!(other.stop, Some(who), "whoever sets a policy has not stopped it");
        let ended = change(Some(false), None).of(Some(&other), 4).unwrap();
        assert!(!ended.stopped && ended.stop.is_none());
        assert!(change(Some(false), None).of(None, 1).is_none(), "there is nothing to end");
        assert!(change(Some(true), None).of(None, 1).unwrap().policy.is_none());
    }

    #[test]
    fn what_was_done_and_by_whom_do_not_run_together() {
        let mut version = change(None, Some(Some(policy(B7)))).of(None, 10).unwrap();
        version.what = "end of the trial of version 9: back to version 8".into();
        let text = listed(&[version]);
        assert!(text.contains("back to version 8  "), "{text}");
    }

    #[test]
    fn lines_of_one_side_only_are_marked() {
        let old = file::render(Some(&policy(B7)));
        let new = file::render(Some(&policy(&format!("keep = \"2h\"\n{B7}threshold = \"80us\"\n"))));
        let expected = "- keep = \"1h\"\n+ keep = \"2h\"\n\n  [[rule]]\n  labels = { rack = \"b7\" }\n  mode = \"enforce\"\n+ threshold = \"80us\"\n";
        assert_eq!(difference(&old, &new), expected);
        assert_eq!(difference(&old, &old), "no difference\n");
        assert!(difference(&file::render(None), &old).starts_with("- # no policy"));
    }

    fn host(last: u8, rack: &str, applied: Option<(u64, Mode)>) -> HostState {
        HostState {
            address: [10, 0, 0, last].into(),
            connected: last < 9,
            state: "synchronised".into(),
            certificate_expires: None,
            uncertainty_ns: None,
            drift_ppm: None,
            labels: [("rack".to_owned(), rack.to_owned())].into_iter().filter(|_| !rack.is_empty()).collect::<Labels>(),
            policy: applied.map(|(version, mode)| Applied { version, mode, why: "so".into() }),
            effects: None,
        }
    }

    #[test]
    fn who_has_confirmed_what_is_a_line_each() {
        let version = change(None, Some(Some(policy(B7)))).of(None, 1).unwrap();
        let all = [
            host(1, "b7", Some((1, Mode::Enforce))),
            host(2, "b8", Some((0, Mode::Observe))),
            host(3, "", None),
            host(9, "b7", Some((1, Mode::Enforce))),
        ];
        let away = [[10, 0, 0, 4].into()].into();
        let fleet = wire::Fleet { hosts: all.into(), policy: Some(version.clone()), away, ..wire::Fleet::default() };
        let text = hosts(&fleet);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], "10.0.0.1 rack=b7                               1  enforce  so");
        assert_eq!(lines[2], "10.0.0.2 rack=b8                             0 ≠  observe  so");
        assert!(
            lines[3].ends_with("has said nothing: an earlier version?") && lines[4].ends_with("so (not connected)")
        );
        let both = Progress { hosts: 2, confirmed: 2, ..Progress::default() };
        assert_eq!(shown(&both, 0), "confirmed by 2 of 2 hosts; 0 enforce\n");
        assert!(shown(&both, 1).ends_with("0 enforce: onrampctl policy show says why not more\n"));
        assert!(lines[5].starts_with("10.0.0.4 ") && lines[5].ends_with("not connected"));
        assert_eq!(lines[7], "confirmed by 1 of 3 connected hosts; 1 enforce");
        let said = reach(version.policy.as_ref(), &fleet.hosts);
        assert_eq!(said, "rule 1 (rack=b7): enforce · 2 of 4 hosts\nno rule: observe · 2 of 4 hosts\n");
    }
}
