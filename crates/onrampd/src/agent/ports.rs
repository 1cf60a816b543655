//! Interfaces: the programs and the gate on each, and whether they are still there.

use super::undo::remove_filters;
use super::{Agent, Error};
use crate::clock::now;
use crate::config::quantity::Time;
use crate::config::{Config, Mode};
use crate::datapath::{Attached, Hooks, Overtaken, Program, is_ours};
use crate::gate::install::{self, Kinds};
use crate::gate::{Gate, before, segments};
use crate::net::tc;
use onramp_netlink::link;
use tracing::info;

/// A place that others keep taking is taken back so often within [`CONTEST`], then no more.
const MOST_PUT_BACK: u32 = 10;
/// Time in which that is counted, in nanoseconds.
const CONTEST: u64 = 60_000_000_000;

/// How often others took a place of ours, since when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Contest {
    times: u32,
    since: u64,
}

/// Response to a place that others have taken.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    TakeBack,
    /// Now, and that is told.
    GiveUp,
    Leave,
}

impl Contest {
    /// A place was found taken.
    fn taken(&mut self, now: u64) -> Turn {
        if now - self.since > CONTEST {
            *self = Self { times: 0, since: now };
        }
        self.times = (self.times + 1).min(MOST_PUT_BACK + 2);
        match self.times {
            0..=MOST_PUT_BACK => Turn::TakeBack,
            times if times == MOST_PUT_BACK + 1 => Turn::GiveUp,
            _ => Turn::Leave,
        }
    }
}

/// CoDel's target in nanoseconds; 0: none.
fn target(config: &Config) -> u64 {
    config.gate.target.map_or(0, |time| time.0)
}

/// An interface and what is attached to it.
pub(super) struct Port {
    pub(super) name: String,
    pub(super) index: u32,
    pub(super) ingress: Option<Attached>,
    pub(super) reply: Option<Attached>,
    pub(super) egress: Option<Attached>,
    /// About the gate's place, and about being the first programs.
    pub(super) gate_taken: Contest,
    pub(super) order_taken: Contest,
}

impl Port {
    fn link(&mut self, program: Program) -> &mut Option<Attached> {
        match program {
            Program::Ingress => &mut self.ingress,
            Program::Reply => &mut self.reply,
            _ => &mut self.egress,
        }
    }
}

impl Agent {
    /// Puts what belongs on an interface there.
    pub(super) fn plug(&mut self, name: String, index: u32) -> Result<(), Error> {
        // What was done to this very interface before is still to be undone.
        self.undo.interfaces.retain(|t| t.name != name || t.index == index);
        self.touched(&name).index = index;
        if self.hooks == Hooks::Clsact {
            let added = tc::add_clsact(&mut self.socket, index)?;
            self.touched(&name).clsact_added |= added;
            self.remember()?;
            remove_filters(&mut self.socket, index);
        }
        let ingress = Some(self.datapath.attach(Program::Ingress, &name, self.hooks)?);
        let reply = Some(self.datapath.attach(Program::Reply, &name, self.hooks)?);
        self.ports.retain(|p| p.name != name);
        self.ports.push(Port {
            name,
            index,
            ingress,
            reply,
            egress: None,
            gate_taken: Contest::default(),
            order_taken: Contest::default(),
        });
        let last = self.ports.len() - 1;
        self.engage(last)
    }

    /// Has packets that leave an interface looked at, in the way of the present mode.
    pub(super) fn engage(&mut self, port: usize) -> Result<(), Error> {
        let (name, index) = (self.ports[port].name.clone(), self.ports[port].index);
        self.resize(&name, index)?;
        match self.mode() {
            Mode::Observe => {
                self.let_go();
                let plan = self.touched(&name).replaced.clone();
                install::restore(&mut self.socket, index, &plan)?;
                let touched = self.touched(&name);
                (touched.replaced, touched.target) = (Vec::new(), None);
                if self.ports[port].egress.is_none() {
                    self.ports[port].egress = Some(self.datapath.attach(Program::Egress, &name, self.hooks)?);
                }
                self.remember()
            }
            Mode::Enforce => {
                let kinds = self.kinds(index)?;
                let present = tc::qdiscs(&mut self.socket, index)?;
                let mut plan = self.touched(&name).replaced.clone();
                kinds.adapt(&mut plan, &present);
                if plan.is_empty() {
                    plan = install::plan(&name, &present, self.config.parent, &kinds)?;
                    self.touched(&name).target = before::target(before::replaced(&present, &plan));
                }
                if self.touched(&name).replaced != plan {
                    self.touched(&name).replaced.clone_from(&plan);
                    self.remember()?;
                }
                let config = self.with_target();
                if let Some(told) = before::told(before::replaced(&present, &plan), self.is_program(), target(&config))
                {
                    info!("{name}: the gate is {told}");
                }
                if let Gate::Program(gate) = &self.gate {
                    gate.limit(&config)?;
                    gate.cut(&config).into_iter().for_each(|text| self.problem_once(text));
                }
                let program = self.datapath.gate_fd()?;
                let options = |m| install::options_with(&config, program, m);
                install::put_in_place(&mut self.socket, index, &plan, &options)?;
                self.ports[port].egress = None;
                Ok(())
            }
        }
    }

    /// The configuration with CoDel's target as what was there before had it, unless it says another. All gates of a
    /// program have one.
    fn with_target(&self) -> Config {
        let mut config = self.config.clone();
        let before = self.undo.interfaces.iter().filter_map(|touched| touched.target).min();
        config.gate.target = config.gate.target.or(before.map(Time));
        config
    }

    /// Returns whether the gate is a program.
    fn is_program(&self) -> bool {
        matches!(self.gate, Gate::Program(_))
    }

    /// Gives an interface small segments, if they are to be cut and the gate cannot do it.
    pub(super) fn resize(&mut self, name: &str, index: u32) -> Result<(), Error> {
        if !segments::are_small(&self.config, self.is_program()) {
            let Some(before) = self.touched(name).segments else { return Ok(()) };
            segments::restore(&mut self.socket, index, before)?;
            self.touched(name).segments = None;
            return self.remember();
        }
        if let Some(before) = segments::large(&mut self.socket, name)? {
            self.touched(name).segments = Some(before);
            self.remember()?;
            segments::shrink(&mut self.socket, index)?;
        }
        Ok(())
    }

    /// Takes up an interface that went and came back.
    pub(super) fn look_after_ports(&mut self) -> Result<(), Error> {
        let links = link::list(&mut self.socket)?;
        let came_back = self.ports.iter().filter_map(|port| {
            links.iter().find(|l| l.name == port.name && l.index != port.index).map(|l| (l.name.clone(), l.index))
        });
        for (name, index) in came_back.collect::<Vec<_>>() {
            self.problem(format!("interface {name} is a new one: taking it up"));
            let done = self.plug(name.clone(), index);
            self.note(&name, done);
        }
        let there = |port: &Port| links.iter().any(|l| l.index == port.index);
        let there: Vec<usize> = (0..self.ports.len()).filter(|i| there(&self.ports[*i])).collect();
        for port in there {
            let name = self.ports[port].name.clone();
            let done = match self.hooks {
                Hooks::Clsact => self.look_after_filters(port),
                Hooks::Tcx => self.look_after_order(port),
            };
            self.note(&name, done);
            if self.mode() == Mode::Enforce {
                let done = self.look_after_gate(port);
                self.note(&name, done);
            }
        }
        Ok(())
    }

    /// Puts our filters before others' that came later, which may let nobody look after them, and back
    /// where they were removed. Others keep their place when they are replaced, so that this ends.
    pub(super) fn look_after_filters(&mut self, port: usize) -> Result<(), Error> {
        let (name, index) = (self.ports[port].name.clone(), self.ports[port].index);
        let egress =
            if self.ports[port].egress.is_some() { &[Program::Reply, Program::Egress][..] } else { &[Program::Reply] };
        for (hook, programs) in [(tc::INGRESS, &[Program::Ingress][..]), (tc::EGRESS, egress)] {
            let filters = tc::filters(&mut self.socket, index, hook)?;
            let ours = filters.iter().filter(|f| is_ours(f)).count();
            // Before another kind's of the first priority there is no place.
            let before = filters.iter().take_while(|f| !is_ours(f)).find(|f| f.kind == "bpf");
            let what = match before {
                None if ours == programs.len() => continue,
                Some(f) if ours > 0 => format!("the filter {} came before ours", f.name),
                _ => "our filter was removed".into(),
            };
            self.problem(format!("{name}: {what}: it is put first"));
            tc::add_clsact(&mut self.socket, index)?;
            for program in programs {
                // There is one of its handle.
                *self.ports[port].link(*program) = None;
                *self.ports[port].link(*program) = Some(self.datapath.attach(*program, &name, self.hooks)?);
            }
        }
        Ok(())
    }

    /// The same with TCX.
    pub(super) fn look_after_order(&mut self, port: usize) -> Result<(), Error> {
        let (name, index) = (self.ports[port].name.clone(), self.ports[port].index);
        let egress =
            if self.ports[port].egress.is_some() { &[Program::Reply, Program::Egress][..] } else { &[Program::Reply] };
        for programs in [&[Program::Ingress][..], egress] {
            let what = match self.datapath.overtaken(index, programs)? {
                None => continue,
                Some(Overtaken::By(id)) => format!("another TCX program (number {id}) came before ours"),
                Some(Overtaken::Removed) => "our TCX program was removed".into(),
            };
            match self.ports[port].order_taken.taken(now()) {
                Turn::TakeBack => self.problem(format!("{name}: {what}: it is put first")),
                Turn::GiveUp => {
                    self.problem(format!("{name}: {what} again and again: it may see no packets for a while"));
                    continue;
                }
                Turn::Leave => continue,
            }
            for program in programs {
                // One program has one place.
                *self.ports[port].link(*program) = None;
                *self.ports[port].link(*program) = Some(self.datapath.attach(*program, &name, self.hooks)?);
            }
        }
        Ok(())
    }

    /// Puts the gate back where somebody else has put something in its place, and where there are
    /// more queues than there were.
    pub(super) fn look_after_gate(&mut self, port: usize) -> Result<(), Error> {
        let (name, index) = (self.ports[port].name.clone(), self.ports[port].index);
        let present = tc::qdiscs(&mut self.socket, index)?;
        let ours = self.touched(&name).replaced.clone();
        let kinds = self.kinds(index)?;
        let lost = install::lost(&name, &present, self.config.parent, &kinds, &ours)?;
        let Some((found, plan)) = lost else {
            return Ok(());
        };
        match self.ports[port].gate_taken.taken(now()) {
            Turn::TakeBack => {}
            Turn::GiveUp => {
                self.problem(format!(
                    "{name}: its gate is replaced by {found} again and again: nothing is held for a while"
                ));
                return Ok(());
            }
            Turn::Leave => return Ok(()),
        }
        self.problem(format!("{name}: the gate was replaced by {found}: it is put back"));
        self.touched(&name).replaced = plan;
        self.remember()?;
        self.engage(port)
    }

    /// The kind of queueing discipline of gates, and where an interface has some that were taken over.
    pub(super) fn kinds(&self, index: u32) -> Result<Kinds, Error> {
        let Gate::Program(program) = &self.gate else { return Ok(Kinds::module()) };
        let there = program.gates()?.into_iter().filter(|(at, ..)| *at == index);
        Ok(Kinds { kind: program.kind.clone(), others: there.map(|(_, parent, _)| parent).collect() })
    }

    /// Has the gate's program hold nothing any more.
    pub(super) fn let_go(&mut self) {
        if let Gate::Program(gate) = &self.gate
            && let Err(e) = gate.let_go()
        {
            self.problem(e.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_taken_again_and_again_is_left_for_a_minute() {
        let mut contest = Contest::default();
        let start = 2 * CONTEST;
        assert!((0..10).all(|i| contest.taken(start + i) == Turn::TakeBack));
        assert_eq!(contest.taken(start + 10), Turn::GiveUp);
        assert!((0..9999).all(|i| contest.taken(start + 11 + i) == Turn::Leave));
        assert_eq!(contest.taken(start + CONTEST + 1), Turn::TakeBack);
    }
}
