//! The agent: puts everything in place, keeps it going, takes it away again.

use crate::abi::{self, or_clock};
use crate::acker;
use crate::choice::{self, Choice, Gate};
use crate::chrony::{self, Chrony};
use crate::clock::{self, now};
use crate::config::{Config, ConfigError, GateKind, Mode, Parent};
use crate::datapath::{Attached, Datapath, Hooks, Program, Told, is_ours};
use crate::fleet::serve;
use crate::fleet::wire::Realtime;
use crate::gate::{self, Kinds};
use crate::handover::{self, Legacy};
use crate::heart::Heart;
use crate::object::Shared;
use crate::protocol::Request;
use crate::qdisc::Program as GateProgram;
use crate::segments;
use crate::server::Server;
use crate::status::{self, Facts, Status};
use crate::sync::{Settings, Sync};
use crate::tc;
use crate::undo::{Touched, Undo, UndoFile, boot, remove_filters};
use crate::wait::{self, wait};
use onramp_netlink::{Socket, Watch};
use onramp_netlink::{link, qdisc};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

const SECOND: u64 = 1_000_000_000;
/// Between two rounds in which everything is looked after.
const ROUND: u64 = SECOND;
/// After a change of interfaces or queueing disciplines: one look for many of them.
const SOON: u64 = SECOND / 20;
/// A gate that others keep replacing is put back so often within [`CONTEST`], then no more.
const MOST_PUT_BACK: u32 = 10;
/// See there.
const CONTEST: u64 = 60 * SECOND;
/// A clock that the program before had found is good for so long.
const BRIDGE: u64 = 10 * SECOND;
/// Sums over flows are not made anew more often: everybody may ask for them.
const FLOWS_FRESH: u64 = SECOND / 5;
/// Problems told of.
const MAX_PROBLEMS: usize = 10;

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
    Gate(#[from] gate::Error),
    /// The gate's program.
    #[error(transparent)]
    Qdisc(#[from] crate::qdisc::Error),
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

/// What one interface carries.
struct Port {
    name: String,
    index: u32,
    ingress: Option<Attached>,
    reply: Option<Attached>,
    egress: Option<Attached>,
    /// How often the gate was put back since when.
    put_back: (u32, u64),
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

struct Agent {
    path: PathBuf,
    config: Config,
    started: u64,
    datapath: Datapath,
    /// What holds packets, if the mode is to hold any.
    gate: Gate<GateProgram>,
    choice: Choice,
    hooks: Hooks,
    heart: Option<Heart>,
    socket: Socket,
    watch: Watch,
    undo: Undo,
    undo_file: UndoFile,
    ports: Vec<Port>,
    acker: Option<(u32, Attached)>,
    problems: Vec<String>,
    flows: (u64, usize, status::Flows),
    /// This host's clock as tests have it.
    test_clock: or_clock,
    sync: Option<Sync>,
    coordinator: Option<Coordinator>,
    /// What the program before this one has attached, while ours is not yet.
    legacy: Option<Legacy>,
    /// What that told its own, for as long as [`BRIDGE`].
    told: Option<Told>,
    /// The file of this program.
    program: PathBuf,
    chrony: Option<Chrony>,
    /// It is not there, which was told.
    chrony_missing: bool,
    _only: UnixListener,
}

/// The coordinator that runs in this agent.
struct Coordinator {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    realtime: Arc<Mutex<Option<Realtime>>>,
}

impl Coordinator {
    fn start(mut server: serve::Server) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let realtime = server.realtime();
        let run = move || {
            if let Err(e) = server.run(&stopped) {
                eprintln!("onrampd: the coordinator has ended: {e}");
            }
        };
        let thread = std::thread::Builder::new().name("coordinator".into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread), realtime })
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.stop = None;
        self.thread.take().map(JoinHandle::join);
    }
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
    let done = agent.start().and_then(|server| agent.serve(server, signals));
    agent.stop();
    done
}

impl Agent {
    /// Cleans up after a crash, or takes over, and loads the programs; nothing has an effect yet.
    fn prepare(path: &Path, config: Config, legacy: Option<Legacy>) -> Result<Self, Error> {
        // An abstract name exists once in a network namespace, and ends with its process.
        let name = SocketAddr::from_abstract_name(b"onrampd").map_err(io_error("name"))?;
        let only = UnixListener::bind_addr(&name).map_err(|_| Error::Running)?;
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
        let told = legacy.as_ref().and_then(|_| datapath.told(started.saturating_sub(BRIDGE)));
        Ok(Self {
            path: path.into(),
            started,
            test_clock: told.as_ref().map_or_else(|| config.test_clock(started), |told| told.test_clock),
            sync: None,
            coordinator: None,
            chrony: None,
            chrony_missing: false,
            datapath,
            gate: Gate::None,
            choice: Choice::observe(),
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
            flows: (0, 0, status::Flows::default()),
            _only: only,
            config,
        })
    }

    /// Puts everything in place.
    fn start(&mut self) -> Result<Server, Error> {
        let server = Server::open(&self.config.socket).map_err(io_error(self.config.socket.display().to_string()))?;
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
                let server = serve::Server::open(listen, &fleet.folder, fleet.mesh).map_err(failed())?;
                self.coordinator = Some(Coordinator::start(server).map_err(failed())?);
            }
            self.chrony = fleet.chrony.map(Chrony::new).transpose().map_err(failed())?;
            let exchanges = self.datapath.take_exchanges();
            self.sync = Sync::start(&self.config, exchanges).map_err(failed())?;
        }
        self.choose_gate()?;
        self.remember()?;
        self.tell()?;
        self.heart = self.datapath.take_alive().map(Heart::start).transpose()?;
        for name in self.config.interfaces.clone() {
            let found = acker::find(&mut self.socket, &name)?.ok_or(Error::NoInterface(name))?;
            self.plug(found.name, found.index)?;
        }
        // Ours are attached: the old ones may go, and what is there no more in the configuration.
        if self.legacy.take().is_some() {
            let (ours, others) = std::mem::take(&mut self.undo.interfaces)
                .into_iter()
                .partition(|touched| self.config.interfaces.contains(&touched.name));
            self.undo.interfaces = ours;
            let others = Undo { interfaces: others, ..Undo::default() };
            others.clear_interfaces(&mut self.socket).into_iter().for_each(|problem| self.problem(problem));
            notify("FDSTOREREMOVE=1\nFDNAME=maps", &[]);
            self.remember()?;
        }
        Ok(server)
    }

    /// Puts what belongs on an interface there.
    fn plug(&mut self, name: String, index: u32) -> Result<(), Error> {
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
        self.ports.push(Port { name, index, ingress, reply, egress: None, put_back: (0, 0) });
        let last = self.ports.len() - 1;
        self.engage(last)
    }

    /// Has packets that leave an interface looked at, in the way of the present mode.
    fn engage(&mut self, port: usize) -> Result<(), Error> {
        let (name, index) = (self.ports[port].name.clone(), self.ports[port].index);
        self.resize(&name, index)?;
        match self.mode() {
            Mode::Observe => {
                self.let_go();
                let plan = self.touched(&name).replaced.clone();
                gate::restore(&mut self.socket, index, &plan)?;
                self.touched(&name).replaced.clear();
                if self.ports[port].egress.is_none() {
                    self.ports[port].egress = Some(self.datapath.attach(Program::Egress, &name, self.hooks)?);
                }
                self.remember()
            }
            Mode::Enforce => {
                if let Gate::Program(gate) = &self.gate {
                    gate.limit(&self.config)?;
                    gate.cut(&self.config).into_iter().for_each(|text| self.problem_once(text));
                }
                let kinds = self.kinds(index)?;
                let present = tc::qdiscs(&mut self.socket, index)?;
                let mut plan = self.touched(&name).replaced.clone();
                kinds.adapt(&mut plan, &present);
                if plan.is_empty() {
                    plan = gate::plan(&name, &present, self.config.parent, &kinds)?;
                }
                if self.touched(&name).replaced != plan {
                    self.touched(&name).replaced.clone_from(&plan);
                    self.remember()?;
                }
                let (config, program) = (self.config.clone(), self.datapath.gate_fd()?);
                let options = |m| gate::options_with(&config, program, m);
                gate::install(&mut self.socket, index, &plan, &options)?;
                self.ports[port].egress = None;
                Ok(())
            }
        }
    }

    /// Gives an interface small segments, if they are to be cut and the gate cannot do it.
    fn resize(&mut self, name: &str, index: u32) -> Result<(), Error> {
        if !segments::are_small(&self.config, matches!(self.gate, Gate::Program(_))) {
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

    /// Chooses what is to hold packets, if any are to be held; once there is something, that stays.
    fn choose_gate(&mut self) -> Result<(), Error> {
        if self.config.mode == Mode::Observe || !matches!(self.gate, Gate::None) {
            return Ok(());
        }
        // Queues may be added later.
        let mut places = 0;
        for name in self.config.interfaces.clone() {
            let found = acker::find(&mut self.socket, &name)?.ok_or(Error::NoInterface(name))?;
            places += if self.config.parent == Parent::Root { 1 } else { found.queues.max(1) };
        }
        let (datapath, socket) = (&mut self.datapath, &mut self.socket);
        let acker = self.acker.as_ref().map_or(0, |(index, _)| *index);
        let inherited = self.legacy.as_ref().map_or(&[][..], |legacy| &legacy.maps);
        let program = || Ok(GateProgram::load(&datapath.shared()?, inherited, places)?);
        let module = || Ok(gate::try_module(socket, acker)?);
        (self.gate, self.choice) =
            choice::choose::<_, Error>(self.config.gate.kind, self.config.parent, program, module)?;
        if matches!(self.gate, Gate::None) && self.config.gate.kind == GateKind::Auto {
            self.problem(format!("nothing is held: {}", self.choice.why));
        }
        Ok(())
    }

    /// Whether packets are held: as configured, if there is a gate.
    fn mode(&self) -> Mode {
        if matches!(self.gate, Gate::None) { Mode::Observe } else { self.config.mode }
    }

    /// The kind of queueing discipline of gates, and where an interface has some that were taken over.
    fn kinds(&self, index: u32) -> Result<Kinds, Error> {
        let Gate::Program(program) = &self.gate else { return Ok(Kinds::module()) };
        let there = program.gates()?.into_iter().filter(|(at, ..)| *at == index);
        Ok(Kinds { kind: program.kind.clone(), others: there.map(|(_, parent, _)| parent).collect() })
    }

    /// Has the gate's program hold nothing any more.
    fn let_go(&mut self) {
        if let Gate::Program(gate) = &self.gate
            && let Err(e) = gate.let_go()
        {
            self.problem(e.to_string());
        }
    }

    fn touched(&mut self, name: &str) -> &mut Touched {
        let at = self.undo.interfaces.iter().position(|t| t.name == name);
        let at = at.unwrap_or_else(|| {
            self.undo.interfaces.push(Touched { name: name.into(), ..Touched::default() });
            self.undo.interfaces.len() - 1
        });
        &mut self.undo.interfaces[at]
    }

    fn remember(&mut self) -> Result<(), Error> {
        let mut maps = self.datapath.shared()?;
        if let Gate::Program(program) = &self.gate {
            maps.extend(program.shared()?);
        }
        self.undo.maps = maps.iter().filter_map(|map| Some(map.info().ok()?.id)).collect();
        self.undo.boot = boot();
        self.undo.parent = Some(self.config.parent);
        // The store has each of them once; it would drop what cannot be polled.
        notify("FDSTORE=1\nFDPOLL=0\nFDNAME=maps", &maps);
        self.undo_file.write(&self.undo).map_err(io_error("what must be undone cannot be written down"))
    }

    /// What this host's uncorrected clock shows.
    fn reading(&self, now: u64) -> u64 {
        now.wrapping_add_signed(self.test_clock.at(now))
    }

    /// What the synchronisation of clocks calls for, in a fleet.
    fn settings(&self) -> Option<Settings> {
        let (sync, fleet) = (self.sync.as_ref()?, self.config.fleet.as_ref()?);
        let mut settings = sync.view().settings(&self.config, fleet, self.reading(now()));
        if settings.clock.is_none()
            && let Some(told) = self.told.as_ref().filter(|_| now() - self.started < BRIDGE)
        {
            settings.clock = told.clock;
            settings.peers.clone_from(&told.peers);
        }
        Some(settings)
    }

    /// Tells the programs what they are to do.
    fn tell(&mut self) -> Result<(), Error> {
        let acker = self.acker.as_ref().map_or(0, |(index, _)| *index);
        let not_ours = self.sync.as_ref().map(|sync| sync.view().not_yours).unwrap_or_default();
        for text in not_ours.iter().map(|alias| format!("fleet.aliases: {alias} is another host's")) {
            self.problem_once(text);
        }
        let (clock, peers) = match self.settings() {
            Some(settings) => (settings.clock, settings.peers),
            None => (self.config.own_clock(), self.config.peers.clone()),
        };
        // A clock that is not known is withdrawn before anything else.
        let told = Config { mode: self.mode(), ..self.config.clone() };
        let mut config = told.for_programs(acker, clock, self.test_clock);
        if told.mode == Mode::Enforce && matches!(self.gate, Gate::Program(_)) {
            config.flags |= abi::OR_FOLLOW_UP as u16;
        }
        self.datapath.set_config(&config)?;
        Ok(self.datapath.set_peers(&peers)?)
    }

    /// Tells the coordinator in this agent the time of day, and chrony how far the system
    /// clock is from that of the coordinator's host.
    fn tell_the_time(&mut self) {
        if self.coordinator.is_none() && self.chrony.is_none() {
            return;
        }
        let (monotonic, realtime) = clock::both();
        let clock = self.settings().and_then(|s| s.clock);
        let instant = clock.map(|clock| chrony::Instant::new(&clock, self.reading(monotonic), realtime));
        if let Some(coordinator) = &self.coordinator {
            let told = instant.zip(clock).map(|(instant, clock)| instant.realtime(&clock));
            *coordinator.realtime.lock().unwrap_or_else(PoisonError::into_inner) = told;
        }
        let (Some(chrony), Some(sync), Some(fleet)) = (&self.chrony, &self.sync, &self.config.fleet) else { return };
        let view = sync.view();
        // Nobody follows himself.
        let own = view.coordinator.is_some_and(|c| c.ip() == fleet.address);
        let Some((instant, reference)) = instant.zip(view.realtime).filter(|_| !own) else { return };
        let offered = chrony.offer(realtime, instant.behind(&reference));
        let missing = std::mem::replace(&mut self.chrony_missing, offered.is_err());
        if let Err(e) = offered
            && !missing
        {
            self.problem(e.to_string());
        }
    }

    /// Takes up an interface that went and came back.
    fn look_after_ports(&mut self) -> Result<(), Error> {
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
            if self.hooks == Hooks::Clsact {
                let done = self.look_after_filters(port);
                self.note(&name, done);
            }
            if self.mode() == Mode::Enforce {
                let done = self.look_after_gate(port);
                self.note(&name, done);
            }
        }
        Ok(())
    }

    /// What fails on one interface every time is said once, and stops none of the others.
    fn note(&mut self, name: &str, done: Result<(), Error>) {
        let Err(e) = done else { return };
        self.problem_once(format!("{name}: {e}"));
    }

    /// Puts our filters before others' that came later, which may let nobody look after them, and back
    /// where they were removed. Others keep their place when they are replaced, so that this ends.
    fn look_after_filters(&mut self, port: usize) -> Result<(), Error> {
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

    /// Puts the gate back where somebody else has put something in its place, and where there are
    /// more queues than there were.
    fn look_after_gate(&mut self, port: usize) -> Result<(), Error> {
        let (name, index) = (self.ports[port].name.clone(), self.ports[port].index);
        let (times, since) = self.ports[port].put_back;
        let (times, since) = if now() - since > CONTEST { (0, now()) } else { (times, since) };
        if times > MOST_PUT_BACK {
            return Ok(());
        }
        let present = tc::qdiscs(&mut self.socket, index)?;
        let ours = self.touched(&name).replaced.clone();
        let kinds = self.kinds(index)?;
        let lost = gate::lost(&name, &present, self.config.parent, &kinds, &ours)?;
        let Some((found, plan)) = lost else {
            return Ok(());
        };
        self.ports[port].put_back = (times + 1, since);
        if times == MOST_PUT_BACK {
            self.problem(format!(
                "{name}: its gate is replaced by {found} again and again: nothing is held for a while"
            ));
            return Ok(());
        }
        self.problem(format!("{name}: the gate was replaced by {found}: it is put back"));
        self.touched(&name).replaced = plan;
        self.remember()?;
        self.engage(port)
    }

    /// Works until a signal to end comes.
    fn serve(&mut self, mut server: Server, mut signals: Signals) -> Result<(), Error> {
        ready();
        let mut next = now() + ROUND;
        loop {
            let ns = next.saturating_sub(now());
            wait_for(&server, &signals, &self.watch, self.sync.as_ref(), ns).map_err(io_error("poll"))?;
            self.heart.iter().for_each(Heart::worked);
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
                self.tell().unwrap_or_else(|e| self.problem(e.to_string()));
            }
            if self.watch.changed() {
                next = next.min(now() + SOON);
            }
            if now() >= next {
                next = now() + ROUND;
                self.tell().unwrap_or_else(|e| self.problem(e.to_string()));
                self.look_after_ports().unwrap_or_else(|e| self.problem(e.to_string()));
                self.tell_the_time();
            }
            server.tend(&mut |request| self.answer(request));
        }
    }

    /// Takes up a changed configuration. One that is wrong changes nothing.
    fn reload(&mut self) {
        let new = match Config::open(&self.path) {
            Ok(new) => new,
            Err(errors) => {
                errors.iter().for_each(|e| self.problem(format!("not reloaded: {e}")));
                return;
            }
        };
        if let Some(key) = self.config.needs_restart(&new) {
            self.problem(format!("not reloaded: {key} cannot change without a restart"));
            return;
        }
        let old = std::mem::replace(&mut self.config, new);
        // A test's clock goes on from where it is.
        let (now, was) = (now(), old.test.offset);
        let offset = self.test_clock.at(now) + self.config.test.offset - was;
        self.test_clock = or_clock { offset, ..self.config.test_clock(now) };
        if let Err(e) = self.apply() {
            self.problem(format!("not reloaded: {e}"));
            self.config = old;
            self.apply().unwrap_or_else(|e| self.problem(format!("going back: {e}")));
            return;
        }
        eprintln!("onrampd: reloaded {}", self.path.display());
    }

    /// Goes over to what is now in this program's file, without letting go of anything.
    fn upgrade(&mut self) {
        if let Err(errors) = Config::open(&self.path) {
            errors.iter().for_each(|e| self.problem(format!("not upgraded: {e}")));
            return;
        }
        let failed = handover::hand_over(&self.program);
        self.problem(format!("not upgraded: {}: {failed}", self.program.display()));
    }

    fn apply(&mut self) -> Result<(), Error> {
        self.choose_gate()?;
        // First, so that nothing is held any more where the gate is to go.
        self.tell()?;
        (0..self.ports.len()).try_for_each(|port| {
            self.ports[port].put_back = (0, 0);
            self.engage(port)
        })
    }

    fn answer(&mut self, request: Request) -> Vec<u8> {
        let Request::Status { flows } = request;
        let status = self.status(flows).map_err(|e| e.to_string());
        let reply = status.and_then(|s| serde_json::to_vec(&s).map_err(|e| e.to_string()));
        reply.unwrap_or_else(|error| serde_json::json!({ "error": error }).to_string().into_bytes())
    }

    fn status(&mut self, top: usize) -> Result<Status, Error> {
        let now = now();
        let (made, asked, _) = &self.flows;
        if now - made > FLOWS_FRESH || *asked < top || *made == 0 {
            let flows = status::flows(self.datapath.flows(), top, self.config.max_flows, now);
            self.flows = (now, top, flows);
        }
        let mut flows = self.flows.2.clone();
        flows.top.truncate(top);
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
            gate: if self.config.mode == Mode::Observe { Choice::observe() } else { self.choice.clone() },
            test_clock: self.test_clock,
            view: self.sync.as_ref().map(Sync::view),
            settings: self.settings(),
            hooks: self.hooks,
            problems: &self.problems,
            interfaces: &interfaces,
            qdiscs: &qdiscs,
            paths: &self.datapath.paths()?,
            counters: &self.datapath.counters()?,
            flows,
        }))
    }

    fn problem_once(&mut self, text: String) {
        if !self.problems.contains(&text) {
            self.problem(text);
        }
    }

    fn problem(&mut self, text: String) {
        if self.problems.last() == Some(&text) {
            return;
        }
        eprintln!("onrampd: {text}");
        if self.problems.len() == MAX_PROBLEMS {
            self.problems.remove(0);
        }
        self.problems.push(text);
    }

    /// Undoes everything.
    fn stop(&mut self) {
        notify("STOPPING=1\nFDSTOREREMOVE=1\nFDNAME=maps", &[]);
        self.ports.iter_mut().for_each(|port| {
            port.ingress = None;
            port.reply = None;
            port.egress = None;
        });
        self.acker = None;
        self.heart = None;
        self.sync = None;
        self.coordinator = None;
        self.let_go();
        let problems = self.undo.run(&mut self.socket);
        problems.iter().for_each(|problem| eprintln!("onrampd: not undone: {problem}"));
        // What could not be undone is tried again at the next start.
        if problems.is_empty()
            && let Err(e) = self.undo_file.remove()
        {
            eprintln!("onrampd: {e}");
        }
    }
}

/// Undoes what an agent that is no more has left.
fn clean_up(left: &mut Undo, socket: &mut Socket) {
    for problem in std::mem::take(left).run(socket) {
        eprintln!("onrampd: cleaning up after a crash: {problem}");
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
    let _sync = sync.ok_or_else(|| Error::Io("fleet".into(), io::Error::other("the configuration has no [fleet]")))?;
    ready();
    while !signals.end() {
        let fd = PollFd::from_borrowed_fd(signals.end.as_fd(), PollFlags::IN);
        let _ = poll(&mut [fd], None);
    }
    Ok(())
}

/// Signals as bytes in pipes.
struct Signals {
    end: UnixStream,
    reload: UnixStream,
    upgrade: UnixStream,
}

impl Signals {
    fn catch() -> io::Result<Self> {
        let pipe = |signals: &[i32]| {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            for signal in signals {
                signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
            }
            Ok::<_, io::Error>(read)
        };
        Ok(Self { end: pipe(&[SIGINT, SIGTERM])?, reload: pipe(&[SIGHUP])?, upgrade: pipe(&[SIGUSR2])? })
    }

    fn end(&mut self) -> bool {
        came(&mut self.end)
    }

    fn reload(&mut self) -> bool {
        came(&mut self.reload)
    }

    fn upgrade(&mut self) -> bool {
        came(&mut self.upgrade)
    }
}

fn came(stream: &mut UnixStream) -> bool {
    stream.read(&mut [0; 64]).is_ok_and(|n| n > 0)
}

/// Waits for a signal, a client, a change of interfaces or qdiscs, or the end of `ns`.
fn wait_for(server: &Server, signals: &Signals, watch: &Watch, sync: Option<&Sync>, ns: u64) -> io::Result<()> {
    let readable = [signals.end.as_fd(), signals.reload.as_fd(), signals.upgrade.as_fd(), watch.as_fd()];
    let readable = readable.into_iter().chain(sync.map(|sync| sync.as_fd()));
    // A client whose answer is not out yet is not listened to.
    let clients = server
        .waits()
        .map(|(fd, full)| PollFd::from_borrowed_fd(fd, if full { PollFlags::OUT } else { PollFlags::IN }));
    wait(readable.map(|fd| wait::ready(fd, false)).chain(clients), ns)
}

/// Tells whoever started us that we are, if he listens.
pub fn ready() {
    let mut out = io::stdout();
    let _ = writeln!(out, "ready").and_then(|()| out.flush());
    notify("READY=1", &[]);
}

/// Tells systemd, if it wants to know, and has it keep maps.
fn notify(state: &str, maps: &[Shared]) {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let Ok(socket) = UnixDatagram::unbound() else { return };
    let bytes = path.as_encoded_bytes();
    let address = match bytes.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(Path::new(&path)),
    };
    // Nobody waits for an answer.
    let _ = address.and_then(|a| socket.connect_addr(&a)).and_then(|()| {
        let fds: Vec<_> = maps.iter().map(|map| map.as_fd()).collect();
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(fds.len()))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() {
            with.push(SendAncillaryMessage::ScmRights(&fds));
        }
        Ok(sendmsg(&socket, &[io::IoSlice::new(state.as_bytes())], &mut with, SendFlags::empty())?)
    });
}
