//! Status and problems, for whoever asks.

use super::effects::Effects;
use super::{Agent, Error};
use crate::clock::now;
use crate::config::Mode;
use crate::gate::{Choice, Gate};
use crate::status::protocol::{MAX_FLOWS, Request};
use crate::status::{self, Facts, Flows, Ran, Status};
use crate::sync::Sync;
use onramp_netlink::{link, qdisc};
use serde::Serialize;
use tracing::warn;

/// Sums over flows are not made anew more often, in nanoseconds, however often they are asked for.
const FLOWS_FRESH: u64 = 200_000_000;
/// Problems told of.
const MAX_PROBLEMS: usize = 10;

impl Agent {
    pub(super) fn answer(&mut self, request: Request) -> Vec<u8> {
        fn json(answer: &impl Serialize) -> Result<Vec<u8>, String> {
            serde_json::to_vec(answer).map_err(|e| e.to_string())
        }
        let reply = match request {
            Request::Status { flows, histograms } => {
                self.status(flows, histograms).map_err(|e| e.to_string()).and_then(|status| json(&status))
            }
            Request::History(_) => return b"{}".to_vec(),
            Request::DryRun { scope } => self.dry_run(scope).and_then(|run| json(&run)),
        };
        reply.unwrap_or_else(|error| serde_json::json!({ "error": error }).to_string().into_bytes())
    }

    pub(super) fn status(&mut self, top: usize, histograms: bool) -> Result<Status, Error> {
        let now = now();
        // As many as anybody may ask for: whoever asks for more than the last one has none of it made anew.
        let made = |made: &&(u64, Flows)| now - made.0 <= FLOWS_FRESH;
        let (at, all) = match self.flows.take().filter(|flows| made(&flows)) {
            Some(flows) => flows,
            None => (now, status::flows(self.datapath.flows(), MAX_FLOWS, self.config.max_flows, now)),
        };
        let flows = Flows { top: all.top.iter().take(top).cloned().collect(), ..all };
        self.flows = Some((at, all));
        let links = link::list(&mut self.socket)?;
        let index = |name: &String| links.iter().find(|l| l.name == *name).map(|l| l.index);
        let interfaces: Vec<_> = self.config.interfaces.iter().map(|n| (n.clone(), index(n))).collect();
        let mut qdiscs = qdisc::list(&mut self.socket)?;
        // The kernel knows nothing of what a program counts.
        let gates = if let Gate::Program(program) = &self.gate { program.gates()? } else { Vec::new() };
        for (index, parent, stats) in gates {
            for q in qdiscs.iter_mut().filter(|q| q.index == index && q.parent == parent) {
                q.extra.clone_from(&stats);
            }
        }
        Ok(status::collect(Facts {
            now,
            started: self.started,
            config: &self.config,
            mode: self.mode(),
            policy: self.policy_status(now),
            gate: if self.config.mode == Mode::Observe { Choice::observe() } else { self.choice.clone() },
            test_clock: self.test_clock,
            view: self.sync.as_ref().map(Sync::view),
            settings: self.settings(),
            hooks: self.hooks,
            problems: &[&self.standing[..], &self.problems[..]].concat(),
            interfaces: &interfaces,
            qdiscs: &qdiscs,
            bounds: &self.bounds,
            scope: self.scope_status()?,
            paths: &self.datapath.paths()?,
            counters: &self.datapath.counters()?,
            flows,
            histograms,
            effects: self.effects.as_ref().map(|effects| &effects.counted),
            effects_missing: self.effects.as_ref().and_then(Effects::missing),
            programs: self.ran(),
        }))
    }

    fn ran(&self) -> Vec<Ran> {
        let gate = if let Gate::Program(program) = &self.gate { program.ran().ok() } else { None };
        // Nobody misses what the kernel does not tell.
        [self.datapath.ran().ok(), gate].into_iter().flatten().flatten().collect()
    }

    /// Says once what fails on one interface every time; it stops none of the others.
    pub(super) fn note(&mut self, name: &str, done: Result<(), Error>) {
        let Err(e) = done else { return };
        self.problem_once(format!("{name}: {e}"));
    }

    /// Takes the list of problems that last; logs those that are new.
    pub(super) fn stand(&mut self, standing: Vec<String>) {
        standing.iter().filter(|text| !self.standing.contains(text)).for_each(|text| warn!("{text}"));
        self.standing = standing;
    }

    pub(super) fn problem_once(&mut self, text: String) {
        if !self.problems.contains(&text) {
            self.problem(text);
        }
    }

    pub(super) fn problem(&mut self, text: String) {
        if self.problems.last() == Some(&text) {
            return;
        }
        warn!("{text}");
        if self.problems.len() == MAX_PROBLEMS {
            self.problems.remove(0);
        }
        self.problems.push(text);
    }
}
