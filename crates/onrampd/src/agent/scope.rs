//! Rules that say which packets are held, and rules on trial.

use super::{Agent, Error, SECOND};
use crate::abi::or_scoped;
use crate::clock::now;
use crate::scope::{self, Cgroup, NONE, Rule, cgroups};
use crate::status::{Scoped, Trial};
use std::collections::{HashMap, HashSet};
use tracing::info;

/// A trial ends when nobody has asked for it for so long, in nanoseconds.
const TRIAL: u64 = 5 * SECOND;

/// Rules that the programs were told.
#[derive(Default)]
pub(super) struct Scope {
    /// Rules in force as they were last logged.
    logged: Vec<Rule>,
    /// Those of their cgroups that are not there.
    absent: HashSet<Cgroup>,
    /// Rules on trial, and when it ends.
    trial: Option<(Vec<Rule>, u64)>,
}

impl Agent {
    /// Sets rules, also anew: cgroups come, go and change their ids.
    pub(super) fn set_scope(&mut self) -> Result<(), Error> {
        self.scope.trial.take_if(|(_, ends)| *ends < now());
        let trial = self.scope.trial.as_ref().map_or(&[][..], |(rules, _)| rules);
        let all = self.config.scope.iter().chain(trial).filter_map(|rule| rule.cgroup.clone());
        // Asked for once, so that what is told of them is what the programs go by.
        let ids: HashMap<Cgroup, Option<u64>> = all.map(|cgroup| (cgroup.clone(), cgroups::id(&cgroup))).collect();
        let id = |cgroup: &Cgroup| ids.get(cgroup).copied().flatten();
        let table = |rules: &[Rule]| (!rules.is_empty()).then(|| scope::table(rules, id));
        self.datapath.set_scope(table(&self.config.scope).as_ref())?;
        self.datapath.set_trial(table(trial).as_ref())?;
        self.scope.absent = ids.into_iter().filter(|(_, id)| id.is_none()).map(|(cgroup, _)| cgroup).collect();
        if self.scope.logged != self.config.scope {
            info!(audit = "scope", "{}", scope::audit(&self.config.scope));
            self.scope.logged.clone_from(&self.config.scope);
        }
        Ok(())
    }

    /// The rules in force and what they have counted.
    pub(super) fn scope_status(&self) -> Result<Vec<Scoped>, Error> {
        Ok(self.scope.rows(&self.config.scope, &self.datapath.scoped()?))
    }

    /// Puts rules on trial, if they are not, and tells what they have counted since.
    pub(super) fn try_scope(&mut self, rules: Vec<Rule>) -> Result<Trial, String> {
        let ends = now() + TRIAL;
        match &mut self.scope.trial {
            Some((there, until)) if *there == rules => *until = ends,
            Some((_, until)) if *until >= now() => return Err("other rules are on trial: try again later".into()),
            trial => {
                *trial = Some((rules, ends));
                self.tell().map_err(|e| e.to_string())?;
            }
        }
        let rules = self.scope.trial.as_ref().map_or(&[][..], |(rules, _)| rules);
        let counts = self.datapath.trial().map_err(|e| e.to_string())?;
        Ok(Trial { mode: self.mode(), scope: self.scope.rows(rules, &counts) })
    }
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
