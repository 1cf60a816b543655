//! Another configuration, or another program, while the agent runs.

use super::ports::Contest;
use super::{Agent, Error, handover, off};
use crate::abi::or_clock;
use crate::clock::now;
use crate::config::Config;
use tracing::info;

/// How problems begin that the next reload ends.
const NOT_RELOADED: &str = "not reloaded";
/// Those that a reload ends, too, since it finds the configuration right, and the next attempt.
const NOT_UPGRADED: &str = "not upgraded";

impl Agent {
    /// Takes up a changed configuration. One that is wrong changes nothing.
    pub(super) fn reload(&mut self) {
        let new = match Config::open(&self.path) {
            Ok(new) => new,
            Err(errors) => {
                errors.iter().for_each(|e| self.problem(format!("{NOT_RELOADED}: {e}")));
                return;
            }
        };
        if let Some(key) = self.file.needs_restart(&new) {
            self.problem(format!("{NOT_RELOADED}: {key} cannot change without a restart"));
            return;
        }
        let old = (std::mem::replace(&mut self.file, new), self.config.clone());
        self.decide_anew();
        // A test's clock goes on from where it is.
        let (now, was) = (now(), old.0.test.offset);
        let offset = self.test_clock.at(now) + self.config.test.offset - was;
        self.test_clock = or_clock { offset, ..self.config.test_clock(now) };
        if let Err(e) = self.apply() {
            self.problem(format!("{NOT_RELOADED}: {e}"));
            (self.file, self.config) = old;
            self.apply().unwrap_or_else(|e| self.problem(format!("going back: {e}")));
            self.follow_policy();
            return;
        }
        self.problems.retain(|problem| !problem.starts_with(NOT_RELOADED) && !problem.starts_with(NOT_UPGRADED));
        info!("reloaded {}", self.path.display());
        self.confirm();
    }

    /// Goes over to what is now in this program's file, without letting go of anything.
    pub(super) fn upgrade(&mut self) {
        self.problems.retain(|problem| !problem.starts_with(NOT_UPGRADED));
        if let Err(errors) = Config::open(&self.path) {
            errors.iter().for_each(|e| self.problem(format!("{NOT_UPGRADED}: {e}")));
            return;
        }
        let failed = handover::hand_over(&self.program);
        self.problem(format!("{NOT_UPGRADED}: {}: {failed}", self.program.display()));
    }

    /// Goes over to observing where holding was switched off, and back.
    pub(super) fn look_whether_off(&mut self) {
        self.off = off::file(&self.config.state_dir).exists();
        if self.off == self.off_applied {
            return;
        }
        // Where it fails it is tried again in the next round; the programs are told meanwhile what is right.
        if let Err(e) = self.apply() {
            self.problem_once(e.to_string());
            return;
        }
        self.off_applied = self.off;
        self.confirm();
        if !self.off {
            info!(audit = "mode", "switched on again");
        }
    }

    pub(super) fn apply(&mut self) -> Result<(), Error> {
        self.choose_gate()?;
        // First, so that nothing is held any more where the gate is to go.
        self.tell()?;
        (0..self.ports.len()).try_for_each(|port| {
            self.ports[port].gate_taken = Contest::default();
            self.engage(port)
        })
    }
}
