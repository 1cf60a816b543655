//! Mode and T between the configuration and the fleet's policy.

use super::off::{self, SWITCHED_OFF};
use super::{Agent, Error};
use crate::clock::now;
use crate::config::Mode;
use crate::gate::Gate;
use crate::policy::{self, Applied, Decision, Held};
use crate::status;
use crate::sync::Sync;
use tracing::info;

/// How problems begin that the next version of the policy, or a reload, ends.
const NOT_FOLLOWED: &str = "not followed";

/// A decision, as the agent goes by it.
pub(super) struct InForce {
    pub(super) decision: Decision,
    /// Why it cannot be put in place: the agent observes instead.
    pub(super) refused: Option<String>,
    /// Mode and reason that were last logged.
    logged: Option<(Applied, String)>,
}

impl InForce {
    pub(super) fn new(decision: Decision) -> Self {
        Self { decision, refused: None, logged: None }
    }
}

impl Agent {
    fn held(&self) -> Held {
        self.sync.as_ref().map(Sync::policy).unwrap_or_default()
    }

    fn decide(&self) -> Decision {
        let mut decision = policy::decide(self.file.own, &self.held(), now());
        if self.file.fleet.is_none() && self.file.own.mode.is_none() {
            decision.why = "the configuration names no mode".into();
        }
        decision
    }

    /// Decides anew, before anything is put in place.
    pub(super) fn decide_anew(&mut self) {
        self.in_force.decision = self.decide();
        self.in_force.refused = None;
        self.config = self.file.with(&self.in_force.decision);
        self.problems.retain(|problem| !problem.starts_with(NOT_FOLLOWED));
    }

    /// Goes over to what policy and configuration say now, as a reload does: flows and gates stay.
    pub(super) fn follow_policy(&mut self) {
        let decision = self.decide();
        if decision != self.in_force.decision {
            let before = (self.config.mode, self.config.params.threshold, self.config.auto_threshold);
            self.decide_anew();
            if before != (self.config.mode, self.config.params.threshold, self.config.auto_threshold)
                && let Err(e) = self.apply()
            {
                self.not_followed(&e);
            }
        }
        self.confirm();
    }

    /// Returns whether it is the policy, not the configuration, that has packets held.
    fn holds_by_policy(&self) -> bool {
        self.config.mode == Mode::Enforce && self.file.own.mode != Some(Mode::Enforce)
    }

    /// Has the agent start observing where what the policy alone asks for cannot be done. What the configuration asks for
    /// keeps it from starting.
    pub(super) fn unless_by_policy(&mut self, done: Result<(), Error>) -> Result<(), Error> {
        let Err(e) = done else { return Ok(()) };
        if !self.holds_by_policy() {
            return Err(e);
        }
        self.not_followed(&e);
        Ok(())
    }

    /// Observes, since a decision cannot be put in place: nothing is held by halves. It is not tried again before
    /// policy or configuration change.
    pub(super) fn not_followed(&mut self, e: &Error) {
        let why = format!("{NOT_FOLLOWED}: {}: {e}", self.in_force.decision.why);
        self.problem_once(why.clone());
        self.in_force.refused = Some(why);
        self.config.mode = Mode::Observe;
        self.apply().unwrap_or_else(|e| self.problem_once(format!("going back: {e}")));
    }

    /// Logs a change of mode or policy, and has the coordinator told.
    pub(super) fn confirm(&mut self) {
        let held = self.held();
        let InForce { decision, refused, .. } = &self.in_force;
        let why = if self.off {
            SWITCHED_OFF.to_owned()
        } else if let Some(refused) = refused {
            refused.clone()
        } else if decision.mode == Mode::Enforce && matches!(self.gate, Gate::None) {
            format!("nothing is held: {}: {}", decision.why, self.choice.why)
        } else {
            decision.why.clone()
        };
        let version = held.said.as_ref().map_or(0, |said| said.version);
        let applied = Applied { version, mode: self.mode(), why };
        let who = held.said.as_ref().filter(|said| said.version > 0);
        let mut who = who.map_or(String::new(), |said| format!("; policy version {version}, {}", said.who()));
        if self.off {
            who = format!("; {}{who}", off::who(&self.file.state_dir));
        }
        let logged = Some((applied, who));
        if self.in_force.logged != logged
            && let Some((Applied { mode, why, .. }, who)) = &logged
        {
            info!(audit = "mode", "mode {mode}: {why}{who}");
        }
        self.in_force.logged = logged;
        if let (Some(sync), Some((applied, _))) = (&self.sync, &self.in_force.logged) {
            sync.set_applied(applied.clone());
        }
    }

    /// Version of the policy that was heard; 0: none.
    pub(super) fn policy_version(&self) -> u64 {
        self.held().said.map_or(0, |said| said.version)
    }

    /// The policy for the status; `None` without a fleet.
    pub(super) fn policy_status(&self, now: u64) -> Option<status::Policy> {
        self.file.fleet.as_ref()?;
        let held = self.held();
        let said = held.said.as_ref().filter(|said| said.version > 0);
        let says = said.and_then(|said| said.says);
        let own = self.file.own;
        let why = self.in_force.logged.as_ref().map_or(String::new(), |(applied, _)| applied.why.clone());
        Some(status::Policy {
            version: said.map_or(0, |said| said.version),
            by: said.map(policy::Said::who),
            says: says.map(|says| says.mode),
            threshold: says.and_then(|says| says.threshold).map(|threshold| threshold.to_string()),
            rule: says.and_then(|says| says.rule),
            stopped: said.is_some_and(|said| said.stopped),
            own_mode: own.mode,
            own_threshold: own.threshold.map(|threshold| threshold.to_string()),
            why,
            threshold_by: self.in_force.decision.threshold_by.into(),
            runs_out_ns: held.left(now),
            has_run_out: held.has_run_out(now),
        })
    }
}
