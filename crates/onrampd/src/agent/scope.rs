//! Rules that say which packets are held, and dry runs of others.

use super::{Agent, Error, SECOND};
use crate::abi::or_scoped;
use crate::clock::now;
use crate::policy::utc;
use crate::scope::{self, Cgroup, NONE, Rule, cgroups};
use crate::status::{DryRun, Scoped};
use nix::unistd::{Uid, User};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use tracing::info;

/// A dry run ends when nobody has asked for it for so long, in nanoseconds.
const ASKED: u64 = 5 * SECOND;

/// Rules that the programs were told.
#[derive(Default)]
pub(super) struct Scope {
    /// Rules in force as they were last logged.
    logged: Vec<Rule>,
    /// Those of their cgroups that are not there.
    absent: HashSet<Cgroup>,
    /// Rules of a dry run, and when it ends.
    dry_run: Option<(Vec<Rule>, u64)>,
}

impl Agent {
    /// Sets rules, also anew: cgroups come, go and change their ids.
    pub(super) fn set_scope(&mut self) -> Result<(), Error> {
        self.scope.dry_run.take_if(|(_, ends)| *ends < now());
        let dry_run = self.scope.dry_run.as_ref().map_or(&[][..], |(rules, _)| rules);
        let all = self.config.scope.iter().chain(dry_run).filter_map(|rule| rule.cgroup.clone());
        // Asked for once, so that what is told of them is what the programs go by.
        let ids: HashMap<Cgroup, Option<u64>> = all.map(|cgroup| (cgroup.clone(), cgroups::id(&cgroup))).collect();
        let id = |cgroup: &Cgroup| ids.get(cgroup).copied().flatten();
        let table = |rules: &[Rule]| (!rules.is_empty()).then(|| scope::table(rules, id));
        self.datapath.set_scope(table(&self.config.scope).as_ref())?;
        self.datapath.set_dry_run(table(dry_run).as_ref())?;
        self.scope.absent = ids.into_iter().filter(|(_, id)| id.is_none()).map(|(cgroup, _)| cgroup).collect();
        if self.scope.logged != self.config.scope {
            info!(audit = "scope", "{}; by {}", scope::audit(&self.config.scope), written(&self.path));
            self.scope.logged.clone_from(&self.config.scope);
        }
        Ok(())
    }

    /// The rules in force and what they have counted.
    pub(super) fn scope_status(&self) -> Result<Vec<Scoped>, Error> {
        Ok(self.scope.rows(&self.config.scope, &self.datapath.scoped()?))
    }

    /// Begins a dry run of rules, unless it goes on already, and tells what they have counted since.
    pub(super) fn dry_run(&mut self, rules: Vec<Rule>) -> Result<DryRun, String> {
        let ends = now() + ASKED;
        match &mut self.scope.dry_run {
            Some((there, until)) if *there == rules => *until = ends,
            Some((_, until)) if *until >= now() => {
                return Err("a dry run of other rules goes on: try again later".into());
            }
            dry_run => {
                *dry_run = Some((rules, ends));
                self.tell().map_err(|e| e.to_string())?;
            }
        }
        let rules = self.scope.dry_run.as_ref().map_or(&[][..], |(rules, _)| rules);
        let counts = self.datapath.dry_run().map_err(|e| e.to_string())?;
        Ok(DryRun { mode: self.mode(), scope: self.scope.rows(rules, &counts) })
    }
}

/// A file, whose it is and since when, as far as the system tells: who changes rules writes it.
fn written(path: &Path) -> String {
    let Ok(file) = fs::metadata(path) else { return path.display().to_string() };
    let user = User::from_uid(Uid::from_raw(file.uid())).ok().flatten();
    let user = user.map_or_else(|| format!("user {}", file.uid()), |user| user.name);
    format!("{} of {user}, written at {}", path.display(), utc(file.mtime().max(0).cast_unsigned()))
}

impl Scope {
    /// A row for each rule, and one for packets that none matched.
    fn rows(&self, rules: &[Rule], counts: &[or_scoped]) -> Vec<Scoped> {
        let Some(rest) = counts.last() else { return Vec::new() };
        let row = |name, hold, rule: Option<&Rule>, counts: &or_scoped| Scoped {
            name,
            hold,
            rule: rule.map_or(String::new(), Rule::to_string),
            absent: rule.and_then(|rule| rule.cgroup.as_ref()).is_some_and(|cgroup| self.absent.contains(cgroup)),
            packets: counts.packets,
            bytes: counts.bytes,
            paused: counts.paused,
            paused_bytes: counts.paused_bytes,
            paused_ns: counts.paused_time,
        };
        let rules = rules.iter().zip(counts).enumerate();
        let rules = rules.map(|(i, (rule, counts))| row(rule.label(i), rule.hold, Some(rule), counts));
        rules.chain([row(NONE.into(), true, None, rest)]).collect()
    }
}
