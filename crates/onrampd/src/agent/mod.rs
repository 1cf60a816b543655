//! The agent: puts everything in place, keeps it going, takes it away again.
//!
//! This file is its life: preparing, starting, the loop, the end. What it does on each interface is
//! in `ports`, what it tells the programs in `tell`.

mod change;
pub mod chrony;
mod coordinator;
mod effects;
mod handover;
mod heart;
mod notify;
pub mod off;
mod policy;
mod ports;
mod questions;
mod remember;
mod report;
mod scope;
mod signals;
mod tell;
mod time;
pub mod undo;

pub use notify::{alive, ready};

use crate::abi::or_clock;
use crate::bounds::Bounds;
use crate::clock::now;
use crate::config::{Config, ConfigError, Mode};
use crate::datapath::{Attached, Datapath, Hooks, Program, Told};
use crate::fleet::serve;
use crate::gate::program::Program as GateProgram;
use crate::gate::{Choice, Gate};
use crate::net::{acker, tc};
use crate::policy::{Applied, Held, decide};
use crate::status;
use crate::sync::Sync;
use crate::wait;
use chrony::Chrony;
use coordinator::Coordinator;
use effects::Effects;
use handover::Legacy;
use heart::Heart;
use onramp_netlink::{Socket, Watch};
use policy::InForce;
use ports::Port;
use questions::Questions;
use scope::Scope;
use signals::{Signals, wait_for};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use tracing::{error, warn};
use undo::{Undo, UndoFile, boot, remove_filters};

const SECOND: u64 = 1_000_000_000;
/// Between two rounds in which everything is looked after.
const ROUND: u64 = SECOND;
/// After a change of interfaces or queueing disciplines: one look for many of them.
const SOON: u64 = SECOND / 20;
/// A clock that the program before had found is good for so long.
const BRIDGE: u64 = 10 * SECOND;
/// Why the agent did not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration is wrong.
    #[error("{}", lines(.0))]
    Config(Vec<ConfigError>),
    /// A named interface is not there.
    #[error("there is no interface {0}: `ip link` lists them")]
    NoInterface(String),
    /// Another agent runs.
    #[error("another agent runs in this network namespace")]
    Running,
    /// The programs.
    #[error(transparent)]
    Datapath(#[from] crate::datapath::Error),
    /// The gate.
    #[error(transparent)]
    Gate(#[from] crate::gate::install::Error),
    /// The gate's program.
    #[error(transparent)]
    Qdisc(#[from] crate::gate::program::Error),
    /// Interfaces and queueing disciplines.
    #[error(transparent)]
    Netlink(#[from] onramp_netlink::Error),
    /// Anything else the system refused.
    #[error("{0}: {1}")]
    Io(String, #[source] io::Error),
}

fn lines(errors: &[ConfigError]) -> String {
    errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
    move |e| Error::Io(what.into(), e)
}

struct Agent {
    path: PathBuf,
    /// The configuration as its file has it, and with what the fleet's policy says.
    file: Config,
    config: Config,
    in_force: InForce,
    started: u64,
    datapath: Datapath,
    /// The gate, if the mode is to hold packets.
    gate: Gate<GateProgram>,
    choice: Choice,
    /// Switched off: see [`off`]; and whether that is what was last done on the interfaces.
    off: bool,
    off_applied: bool,
    hooks: Hooks,
    heart: Option<Heart>,
    socket: Socket,
    watch: Watch,
    undo: Undo,
    undo_file: UndoFile,
    ports: Vec<Port>,
    acker: Option<(u32, Attached)>,
    /// Events since the start; `standing`: problems that last.
    problems: Vec<String>,
    standing: Vec<String>,
    bounds: Bounds,
    scope: Scope,
    /// Sums over flows and those held longest, and when they were made.
    flows: Option<(u64, status::Flows)>,
    /// This host's clock as tests have it.
    test_clock: or_clock,
    sync: Option<Sync>,
    coordinator: Option<Coordinator>,
    effects: Option<Effects>,
    /// Links of the program before this one, while ours are not attached yet.
    legacy: Option<Legacy>,
    /// Clock and peers that it told its programs, for as long as [`BRIDGE`].
    told: Option<Told>,
    /// The file of this program.
    program: PathBuf,
    chrony: Option<Chrony>,
    /// It is not there, which was told.
    chrony_missing: bool,
    _only: UnixListener,
}

/// Runs the agent until it is told to end by SIGINT or SIGTERM.
///
/// # Errors
/// Why it could not start, or could not go on. Everything is undone then, too.
pub fn run(path: &Path) -> Result<(), Error> {
    let legacy = handover::legacy();
    let signals = Signals::catch().map_err(io_error("signals"))?;
    let config = Config::open(path).map_err(Error::Config)?;
    let mut agent = Agent::prepare(path, config, legacy)?;
    let done = agent.start().and_then(|questions| agent.serve(questions, signals));
    agent.stop();
    done
}

impl Agent {
    /// Cleans up after a crash, or takes over, and loads the programs; nothing has an effect yet.
    fn prepare(path: &Path, config: Config, legacy: Option<Legacy>) -> Result<Self, Error> {
        let only = undo::only_agent().map_err(|_| Error::Running)?;
        let mut socket = Socket::open().map_err(io_error("netlink"))?;
        let watch = Watch::open().map_err(io_error("netlink"))?;
        let folder = config.state_dir.display().to_string();
        let mut undo_file = UndoFile::in_folder(&config.state_dir).map_err(io_error(folder.as_str()))?;
        let mut left = undo_file.read().map_err(io_error(folder.as_str()))?.unwrap_or_default();
        left.look(&mut socket, &config.interfaces)?;
        let legacy = legacy.or_else(|| handover::by_number(&left.maps).filter(|_| left.boot == boot()));
        // Gates elsewhere are no use.
        let legacy = legacy.filter(|_| left.parent.is_none_or(|parent| parent == config.parent));
        let inherited = legacy.as_ref().map_or(&[][..], |legacy| &legacy.maps);
        let datapath = Datapath::load(config.max_flows, config.max_stamps, inherited);
        if legacy.is_none() || datapath.is_err() {
            clean_up(&mut left, &mut socket);
        }
        let datapath = datapath.inspect_err(|_| undo_file.leave())?;
        let started = now();
        let off = off::file(&config.state_dir).exists();
        let told = legacy.as_ref().and_then(|_| datapath.told(started.saturating_sub(BRIDGE)));
        Ok(Self {
            path: path.into(),
            started,
            test_clock: told.as_ref().map_or_else(|| config.test_clock(started), |told| told.test_clock),
            sync: None,
            coordinator: None,
            effects: None,
            chrony: None,
            chrony_missing: false,
            datapath,
            gate: Gate::None,
            choice: Choice::observe(),
            off,
            off_applied: off,
            legacy,
            told,
            // Now, since another file may be there later.
            program: std::env::current_exe().map_err(io_error("/proc/self/exe"))?,
            hooks: Hooks::choose(config.attach),
            heart: None,
            socket,
            watch,
            undo: left,
            undo_file,
            ports: Vec::new(),
            acker: None,
            problems: Vec::new(),
            standing: Vec::new(),
            bounds: Bounds::default(),
            scope: Scope::default(),
            flows: None,
            _only: only,
            in_force: InForce::new(decide(config.own, &Held::default(), started)),
            file: config.clone(),
            config,
        })
    }

    /// Puts everything in place.
    fn start(&mut self) -> Result<Questions, Error> {
        let socket = &self.config.socket;
        let journal = effects::journal(&self.config.state_dir).map_err(io_error("network namespace"))?;
        let questions = Questions::open(socket, journal.clone()).map_err(io_error(socket.display().to_string()))?;
        self.remember()?;
        let index = match acker::find(&mut self.socket, acker::NAME)?.filter(|_| self.legacy.is_some()) {
            Some(there) => there.index,
            None => acker::create(&mut self.socket)?,
        };
        if self.hooks == Hooks::Clsact {
            tc::add_clsact(&mut self.socket, index)?;
            remove_filters(&mut self.socket, index);
        }
        let link = self.datapath.attach(Program::Acker, acker::NAME, self.hooks)?;
        self.acker = Some((index, link));
        if let Some(fleet) = self.config.fleet.clone() {
            let failed = || io_error("fleet");
            if let Some(listen) = fleet.listen {
                let server = serve::Server::open(listen, &fleet.folder, fleet.mesh, fleet.lives);
                let server = server.map_err(failed())?.naming(fleet.coordinators.clone());
                self.coordinator = Some(Coordinator::start(server).map_err(failed())?);
            }
            self.chrony = fleet.chrony.map(Chrony::new).transpose().map_err(failed())?;
            let exchanges = self.datapath.take_exchanges();
            self.sync = Sync::start(&self.config, exchanges).map_err(failed())?;
        }
        self.effects = Some(Effects::start(journal).map_err(io_error("thread"))?);
        self.decide_anew();
        let chosen = self.choose_gate();
        self.unless_by_policy(chosen)?;
        self.remember()?;
        self.tell()?;
        self.count_effects()?;
        self.heart = self.datapath.take_alive().map(Heart::start).transpose()?;
        for name in self.config.interfaces.clone() {
            let found = acker::find(&mut self.socket, &name)?.ok_or(Error::NoInterface(name))?;
            let plugged = self.plug(found.name, found.index);
            // Of programs that cannot be attached the policy is not the reason.
            let is_there = self.ports.iter().any(|port| port.index == found.index);
            if is_there { self.unless_by_policy(plugged) } else { plugged }?;
        }
        self.confirm();
        // Ours are attached: the old ones may go, and what is there no more in the configuration.
        if self.legacy.take().is_some() {
            let (ours, others) = std::mem::take(&mut self.undo.interfaces)
                .into_iter()
                .partition(|touched| self.config.interfaces.contains(&touched.name));
            self.undo.interfaces = ours;
            let others = Undo { interfaces: others, ..Undo::default() };
            others.clear_interfaces(&mut self.socket).into_iter().for_each(|problem| self.problem(problem));
            notify::forget_maps();
            self.remember()?;
        }
        Ok(questions)
    }

    /// Works until a signal to end comes.
    fn serve(&mut self, mut questions: Questions, mut signals: Signals) -> Result<(), Error> {
        ready();
        let mut next = now() + ROUND;
        loop {
            let ns = next.saturating_sub(now());
            wait_for(&questions, &signals, &self.watch, self.sync.as_ref(), ns).map_err(io_error("poll"))?;
            self.heart.iter().for_each(Heart::worked);
            notify::alive();
            questions.check().and_then(|()| self.check_threads()).map_err(io_error("agent"))?;
            if signals.end() {
                return Ok(());
            }
            if signals.reload() {
                self.reload();
            }
            if signals.upgrade() {
                self.upgrade();
            }
            if self.sync.as_mut().is_some_and(Sync::changed) {
                self.follow_policy();
                self.tell().unwrap_or_else(|e| self.problem(e.to_string()));
            }
            if self.watch.changed() {
                next = next.min(now() + SOON);
            }
            if now() >= next {
                next = now() + ROUND;
                self.look_whether_off();
                self.follow_policy();
                self.tell().unwrap_or_else(|e| self.problem(e.to_string()));
                self.look_after_ports().unwrap_or_else(|e| self.problem(e.to_string()));
                self.count_effects().unwrap_or_else(|e| self.problem_once(e.to_string()));
                self.tell_the_time();
            }
            questions.answer(|request| self.answer(request));
        }
    }

    /// Without one of its threads the agent is none: systemd starts it anew.
    fn check_threads(&mut self) -> io::Result<()> {
        let sync = self.sync.as_mut().map(Sync::check);
        let coordinator = self.coordinator.as_mut().map(Coordinator::check);
        let heart = self.heart.as_mut().map(Heart::check);
        let effects = self.effects.as_mut().map(Effects::check);
        [sync, coordinator, heart, effects].into_iter().flatten().collect()
    }

    /// Undoes everything.
    fn stop(&mut self) {
        notify::stopping();
        self.ports.iter_mut().for_each(|port| {
            port.ingress = None;
            port.reply = None;
            port.egress = None;
        });
        self.acker = None;
        self.heart = None;
        self.effects = None;
        self.sync = None;
        self.coordinator = None;
        self.let_go();
        let problems = self.undo.run(&mut self.socket);
        problems.iter().for_each(|problem| error!("not undone: {problem}"));
        // What could not be undone is tried again at the next start.
        if problems.is_empty()
            && let Err(e) = self.undo_file.remove()
        {
            error!("{e}");
        }
    }
}

/// Undoes what an agent that is no more has left.
fn clean_up(left: &mut Undo, socket: &mut Socket) {
    for problem in std::mem::take(left).run(socket) {
        warn!("cleaning up after a crash: {problem}");
    }
}

/// Takes part in a fleet without eBPF programs or privileges: probes are stamped by the kernel,
/// nothing is held, and `onrampctl owd` shows the delays. Ends on SIGINT or SIGTERM.
///
/// # Errors
/// Why it could not start.
pub fn measure(config: &Config) -> Result<(), Error> {
    let mut signals = Signals::catch().map_err(io_error("signals"))?;
    let sync = Sync::start(config, None).map_err(io_error("fleet"))?;
    let mut sync =
        sync.ok_or_else(|| Error::Io("fleet".into(), io::Error::other("the configuration has no [fleet]")))?;
    ready();
    let mut told = None;
    let applied = |held: Held| {
        let version = held.said.map_or(0, |said| said.version);
        Applied { version, mode: Mode::Observe, why: "it only measures".into() }
    };
    sync.set_applied(applied(sync.policy()));
    while !signals.end() {
        alive();
        sync.check().map_err(io_error("measure"))?;
        // What else has changed is for `onrampctl owd` only.
        if sync.changed() {
            sync.set_applied(applied(sync.policy()));
            let not_renewed = sync.view().not_renewed;
            if let Some(why) = not_renewed.as_ref().filter(|_| told != not_renewed) {
                warn!("{}", tell::not_renewed(why));
            }
            told = not_renewed;
        }
        let waits = [signals.end.as_fd(), sync.as_fd()].map(|fd| wait::ready(fd, false));
        wait::wait(waits.into_iter(), SECOND).map_err(io_error("poll"))?;
    }
    Ok(())
}
