//! The eBPF programs and their maps.

pub mod maps;
pub mod object;
mod record;
pub mod tcp;

pub use object::Shared;
pub use record::{Recorded, Recorder};

use crate::abi::{
    self, or_address, or_clock, or_config, or_exchange, or_flow, or_path, or_peer, or_scope, or_scoped, or_tuple,
};
use crate::config::{Attach, MAX_PEERS, Peer};
use crate::net::acker;
use crate::net::tc::{self, Filter};
use crate::sys;
use bytemuck::{Pod, Zeroable as _};
use libbpf_rs::libbpf_sys::{BPF_F_BEFORE, BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_attach_type, bpf_prog_info};
use libbpf_rs::{ErrorKind, Object, ProgramInput, ProgramMut, ProgramOutput};
use maps::{Map, Ring};
use object::{Aligned, Ran};
use onramp_core::orprobe::{Kind, OrProbe};
use onramp_netlink::Socket;
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::mem::offset_of;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/onramp.bpf.o")));

/// Priority of our filters on clsact. Those of one priority and kind are one list, to whose head new ones go:
/// so ours comes before others' that let nobody look at a packet after them. The second is for where
/// the first has filters of another kind.
const FILTER_PRIORITIES: [u16; 2] = [1, 9471];
/// By which ours are found after a crash; one after the other where there are two.
const FILTER_HANDLE: u32 = 9471;

/// Returns whether a filter of clsact is ours.
#[must_use]
pub fn is_ours(filter: &Filter) -> bool {
    (FILTER_HANDLE..=FILTER_HANDLE + 1).contains(&filter.handle) && filter.name.starts_with("onramp_")
}

/// One of the programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Run by the gate.
    Gate,
    /// For watching only, at TC egress.
    Egress,
    /// At TC ingress.
    Ingress,
    /// At TC egress.
    Reply,
    /// At TC egress of the acker device.
    Acker,
}

impl Program {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Gate, Self::Egress, Self::Ingress, Self::Reply, Self::Acker];

    /// As the kernel knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gate => "onramp_gate",
            Self::Egress => "onramp_egress",
            Self::Ingress => "onramp_ingress",
            Self::Reply => "onramp_reply",
            Self::Acker => "onramp_acker",
        }
    }

    /// Hooks of TCX and of clsact.
    fn hooks(self) -> (bpf_attach_type, u32) {
        if self == Self::Ingress { (BPF_TCX_INGRESS, tc::INGRESS) } else { (BPF_TCX_EGRESS, tc::EGRESS) }
    }
}

/// How large a program is, in instructions.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    /// Its name.
    pub program: &'static str,
    /// Those of the program as the kernel has it; unknown without privileges.
    pub length: Option<u32>,
    /// Those the verifier walked through, of the million it allows. Since Linux 5.16.
    pub verified: Option<u32>,
}

impl Size {
    fn of(program: Program, info: &bpf_prog_info) -> Self {
        let known = |n: u32| (n > 0).then_some(n);
        let length = known(info.xlated_prog_len / BPF_INSTRUCTION);
        Self { program: program.name(), length, verified: known(info.verified_insns) }
    }
}

/// Bytes of an instruction.
const BPF_INSTRUCTION: u32 = 8;

/// Failure of the programs or their maps.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// They are not in the kernel.
    #[error("cannot load the eBPF programs: {0}")]
    Load(#[from] object::Error),
    /// A program does not run, or the kernel does not tell of it.
    #[error("program {name}: {source:#}")]
    Program {
        /// Which one.
        name: &'static str,
        /// The cause.
        source: libbpf_rs::Error,
    },
    /// Attaching failed.
    #[error("cannot attach {name} to {interface}: {source}")]
    Attach {
        /// Which program.
        name: &'static str,
        /// To what.
        interface: String,
        /// The cause.
        source: io::Error,
    },
    /// The thread that keeps the programs going.
    #[error("thread: {0}")]
    Thread(#[source] io::Error),
    /// A map could not be read or written.
    #[error("map {name}: {source:#}")]
    Map {
        /// Which one.
        name: &'static str,
        /// The cause.
        source: libbpf_rs::Error,
    },
}

/// The counters of one CPU.
type Counted = [u64; abi::OR_COUNTERS as usize];

/// The loaded programs and their maps.
pub struct Datapath {
    object: Object,
    config: Map<u32, or_config>,
    current: Map<u32, u32>,
    slot: u32,
    peers: Map<or_address, or_peer>,
    paths: Map<u32, or_path>,
    /// The peers' numbers in `paths`.
    numbers: BTreeMap<IpAddr, u32>,
    /// The last one given.
    last: u32,
    flows: Map<or_tuple, or_flow>,
    counters: Map<u32, Counted>,
    scopes: Map<u32, or_scope>,
    scoped: Map<u32, or_scoped>,
    /// As [`or_config::scopes`] is to be.
    tables: u16,
    alive: Option<Alive>,
    exchanges: Option<Exchanges>,
}

/// Clocks and peers that an agent told its programs.
#[derive(Debug)]
pub struct Told {
    /// Its clock against the fleet's.
    pub clock: Option<or_clock>,
    /// Error of the clock, for tests.
    pub test_clock: or_clock,
    /// With whom it exchanged OR-ACKs.
    pub peers: Vec<Peer>,
}

/// Until when the programs do anything.
pub struct Alive(Map<u32, u64>);

impl Alive {
    /// A time of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn until(&mut self, time: u64) -> Result<(), Error> {
        self.0.set(&0, &time).map_err(|source| Error::Map { name: "alive", source })
    }
}

/// A step of an exchange of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The other host.
    pub peer: IpAddr,
    /// When it was, by our uncorrected clock.
    pub at: u64,
    /// It came; else it left.
    pub came: bool,
    /// The probe, without its tag.
    pub probe: OrProbe,
}

/// The steps of exchanges, in their order.
pub struct Exchanges(Ring);

impl Exchanges {
    /// The next one.
    pub fn take(&mut self) -> Option<Step> {
        let item = self.0.take()?;
        let u64_at = |at: usize| u64::from_ne_bytes(bytes_at(&item, at));
        let u32_at = |at: usize| u32::from_ne_bytes(bytes_at(&item, at));
        let [kind] = bytes_at(&item, offset_of!(or_exchange, probe.kind));
        let [second] = bytes_at(&item, offset_of!(or_exchange, probe.second));
        let word = |i: usize| u32_at(offset_of!(or_exchange, peer) + 4 * i);
        Some(Step {
            peer: or_address { word: [word(0), word(1), word(2), word(3)] }.into(),
            at: u64_at(offset_of!(or_exchange, at)),
            came: u64_at(offset_of!(or_exchange, came)) != 0,
            probe: OrProbe {
                kind: Kind::from_raw(kind),
                pair: u32_at(offset_of!(or_exchange, probe.pair)),
                second: second != 0,
                sent: u64_at(offset_of!(or_exchange, probe.sent)),
                received: u64_at(offset_of!(or_exchange, probe.received)),
                returned: u64_at(offset_of!(or_exchange, probe.returned)),
                tag: 0,
            },
        })
    }
}

/// The bytes of a field; the programs write whole structures only.
fn bytes_at<const N: usize>(item: &[u8], at: usize) -> [u8; N] {
    item.get(at..at + N).and_then(|b| b.try_into().ok()).unwrap_or([0; N])
}

impl Datapath {
    /// Loads the programs into the kernel, with room for so many flows and stamps. Maps that are `inherited` take
    /// the place of those of the same names, unless they are not as ours are.
    ///
    /// # Errors
    /// No privileges, or the kernel refuses a map or a program.
    pub fn load(max_flows: u32, max_stamps: u32, inherited: &[Shared]) -> Result<Self, Error> {
        let entries = |name: &str| match name {
            "flows" | "heard_of" => Some(max_flows),
            "stamps" => Some(max_stamps),
            "peers" | "paths" => Some(MAX_PEERS as u32),
            _ => None,
        };
        let as_wanted =
            |one: &&Shared| entries(&one.name).is_none_or(|n| one.info().is_ok_and(|info| info.max_entries == n));
        let inherited: Vec<_> = inherited.iter().filter(as_wanted).collect();
        let open = object::open(OBJECT, &inherited, |name, map| {
            entries(name).map_or(Ok(()), |entries| map.set_max_entries(entries))
        })?;
        let object = object::load(open)?;
        let current: Map<u32, u32> = map(&object, "current")?;
        let slot = current.get(&0).map_err(|source| Error::Map { name: "current", source })? & 1;
        let peers: Map<or_address, or_peer> = map(&object, "peers")?;
        let config: Map<u32, or_config> = map(&object, "config")?;
        let exchanges = Ring::find(&object, "exchanges")
            .map(Exchanges)
            .map_err(|source| Error::Map { name: "exchanges", source })?;
        Ok(Self {
            // Dry runs end with the agent that was asked for them.
            tables: config.get(&slot).map_or(0, |config| config.scopes & 0xff),
            config,
            current,
            slot,
            numbers: peers.iter().map(|(address, peer)| (address.into(), peer.path)).collect(),
            peers,
            paths: map(&object, "paths")?,
            last: 0,
            flows: map(&object, "flows")?,
            counters: map(&object, "counters")?,
            scopes: map(&object, "scopes")?,
            scoped: map(&object, "scoped")?,
            alive: Some(Alive(map(&object, "alive")?)),
            exchanges: Some(exchanges),
            object,
        })
    }

    /// Runs and processor time of the programs, where the kernel counts them.
    ///
    /// # Errors
    /// The kernel says nothing.
    pub fn ran(&self) -> io::Result<Vec<Ran>> {
        object::ran(&self.object)
    }

    fn program(&self, program: Program) -> libbpf_rs::Result<ProgramMut<'_>> {
        let found = self.object.progs_mut().find(|p| p.name() == program.name());
        Ok(found.ok_or(io::Error::from(io::ErrorKind::NotFound))?)
    }

    /// Sets what the programs go by, with the rules that were last [set](Self::set_scope).
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn set_config(&mut self, config: &or_config) -> Result<(), Error> {
        let other = 1 - self.slot;
        let config = or_config { scopes: self.tables, ..*config };
        self.config.set(&other, &config).map_err(|source| Error::Map { name: "config", source })?;
        self.current.set(&0, &other).map_err(|source| Error::Map { name: "current", source })?;
        self.slot = other;
        Ok(())
    }

    /// Sets the rules in force, from the next [`Self::set_config`] on. Rules that stay keep their counts, but for the packets
    /// that leave meanwhile.
    ///
    /// # Errors
    /// A map cannot be read or written.
    pub fn set_scope(&mut self, table: Option<&or_scope>) -> Result<(), Error> {
        let old = self.tables & 0xff;
        self.tables = self.tables & !0xff | self.set_table(old, if old == 1 { 2 } else { 1 }, table)?;
        Ok(())
    }

    /// Sets rules of a dry run, from the next [`Self::set_config`] on: they count, and hold nothing.
    ///
    /// # Errors
    /// As for [`Self::set_scope`].
    pub fn set_dry_run(&mut self, table: Option<&or_scope>) -> Result<(), Error> {
        let new = self.set_table(self.tables >> 8, abi::OR_SCOPE_DRY_RUN as u16, table)?;
        self.tables = self.tables & 0xff | new << 8;
        Ok(())
    }

    /// Puts a table in the place `new`, unless it is that in the place `old`; where it is then. 0: there is none.
    fn set_table(&self, old: u16, new: u16, table: Option<&or_scope>) -> Result<u16, Error> {
        let Some(table) = table else { return Ok(0) };
        let before = (old > 0).then(|| self.scopes.get(&u32::from(old - 1))).transpose();
        let before = before.map_err(|source| Error::Map { name: "scopes", source })?;
        if before.as_ref() == Some(table) {
            return Ok(old);
        }
        self.write_scope(new, table, before.map(|before| (old, before)))?;
        Ok(new)
    }

    /// Writes a table, with the counts of `before`.
    fn write_scope(&self, number: u16, table: &or_scope, before: Option<(u16, or_scope)>) -> Result<(), Error> {
        self.scopes.set(&u32::from(number - 1), table).map_err(|source| Error::Map { name: "scopes", source })?;
        let failed = |source| Error::Map { name: "scoped", source };
        for rule in 0..=abi::OR_RULES as usize {
            let own = counts_at(number, rule);
            // Packets that no rule matches are last, and need no key.
            let same = |before: &or_scope| match table.key.get(rule) {
                None => Some(rule),
                Some(0) => None,
                Some(key) => before.key.iter().position(|one| one == key),
            };
            let kept = before.as_ref().and_then(|(old, before)| Some(counts_at(*old, same(before)?)));
            let counts = match kept {
                Some(at) => self.scoped.get_all(&at),
                None => self.scoped.get_all(&own).map(|all| vec![or_scoped::zeroed(); all.len()]),
            };
            self.scoped.set_all(&own, &counts.map_err(failed)?).map_err(failed)?;
        }
        Ok(())
    }

    /// Counts of the rules in force, and last of packets that none matched; empty if there are no rules.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn scoped(&self) -> Result<Vec<or_scoped>, Error> {
        self.counts(self.tables & 0xff)
    }

    /// The same of a dry run.
    ///
    /// # Errors
    /// As for [`Self::scoped`].
    pub fn dry_run(&self) -> Result<Vec<or_scoped>, Error> {
        self.counts(self.tables >> 8)
    }

    fn counts(&self, table: u16) -> Result<Vec<or_scoped>, Error> {
        let sum = |rule| {
            let cpus = self.scoped.get_all(&counts_at(table, rule as usize))?;
            Ok(cpus.iter().fold(or_scoped::zeroed(), |a, b| or_scoped {
                packets: a.packets + b.packets,
                bytes: a.bytes + b.bytes,
                paused: a.paused + b.paused,
                paused_bytes: a.paused_bytes + b.paused_bytes,
                paused_time: a.paused_time + b.paused_time,
            }))
        };
        let rules = if table == 0 { 0..0 } else { 0..abi::OR_RULES + 1 };
        rules.map(sum).collect::<Result<_, _>>().map_err(|source| Error::Map { name: "scoped", source })
    }

    /// Makes `peers` the hosts with which OR-ACKs are exchanged. What is known of the paths
    /// to those that stay is kept.
    ///
    /// # Errors
    /// A map cannot be written.
    pub fn set_peers(&mut self, peers: &[Peer]) -> Result<(), Error> {
        let failed = |source| Error::Map { name: "peers", source };
        let wanted: HashSet<IpAddr> = peers.iter().map(|p| p.address).collect();
        let gone: Vec<IpAddr> = self.numbers.keys().filter(|a| !wanted.contains(a)).copied().collect();
        for address in gone {
            self.peers.remove(&address.into()).map_err(failed)?;
            self.numbers.remove(&address);
        }
        for peer in peers {
            let number = self.number(peer.address)?;
            self.set_peer(peer.address.into(), &peer.for_programs(number)).map_err(failed)?;
        }
        Ok(())
    }

    /// The number of a peer's path; a new one's is one that was not used for long.
    fn number(&mut self, address: IpAddr) -> Result<u32, Error> {
        if let Some(number) = self.numbers.get(&address) {
            return Ok(*number);
        }
        let most = MAX_PEERS as u32;
        let unused = |n: &u32| !self.numbers.values().any(|used| used == n);
        let free = (1..=most).map(|i| (self.last + i) % most).find(unused);
        // All are used by more peers than there may be.
        let number = free.unwrap_or_default();
        self.paths.set(&number, &or_path::unknown()).map_err(|source| Error::Map { name: "paths", source })?;
        self.numbers.insert(address, number);
        self.last = number;
        Ok(number)
    }

    /// The map's memory comes from a small stock that the kernel fills up meanwhile.
    fn set_peer(&mut self, address: or_address, peer: &or_peer) -> libbpf_rs::Result<()> {
        let mut tries = 0;
        loop {
            match self.peers.set(&address, peer) {
                Err(e) if e.kind() == ErrorKind::OutOfMemory && tries < INSERT_TRIES => {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                done => return done,
            }
        }
    }

    /// Takes what keeps the programs going; there is one such.
    pub fn take_alive(&mut self) -> Option<Alive> {
        self.alive.take()
    }

    /// Reads what an agent before this one told its programs, if these maps were its own and it lived until late.
    #[must_use]
    pub fn told(&self, late: u64) -> Option<Told> {
        if self.alive.as_ref()?.0.get(&0).ok()? < late {
            return None;
        }
        let config = self.config.get(&self.slot).ok()?;
        Some(Told {
            clock: (u32::from(config.flags) & abi::OR_CLOCK_KNOWN != 0).then_some(config.clock),
            test_clock: config.test_clock,
            peers: self.peers.iter().map(Peer::from).collect(),
        })
    }

    /// The probes that are answered, for whoever sends them; there is one such.
    pub fn take_exchanges(&mut self) -> Option<Exchanges> {
        self.exchanges.take()
    }

    /// Reads what is known of the paths to the peers.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn paths(&self) -> Result<Vec<(IpAddr, or_path)>, Error> {
        let all = self.numbers.iter().map(|(address, number)| Ok((*address, self.paths.get(number)?)));
        all.collect::<Result<_, _>>().map_err(|source| Error::Map { name: "paths", source })
    }

    /// Changes what is known of the path to a peer, for tests: the programs change it, too.
    ///
    /// # Errors
    /// The map cannot be read or written.
    pub fn change_path(&mut self, peer: IpAddr, change: impl FnOnce(&mut or_path)) -> Result<(), Error> {
        let failed = |source| Error::Map { name: "paths", source };
        let number = self.number(peer)?;
        let mut path = self.paths.get(&number).map_err(failed)?;
        change(&mut path);
        self.paths.set(&number, &path).map_err(failed)
    }

    /// The flows of this moment. They come and go meanwhile, so that some may be missing.
    pub fn flows(&self) -> impl Iterator<Item = (or_tuple, or_flow)> + '_ {
        self.flows.iter()
    }

    /// The counters, summed over CPUs, by `OR_SENT` and so on.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<Vec<u64>, Error> {
        let cpus = self.counters.get_all(&0).map_err(|source| Error::Map { name: "counters", source })?;
        Ok((0..abi::OR_COUNTERS as usize).map(|i| cpus.iter().map(|counted| counted[i]).sum()).collect())
    }

    /// Attaches a program to an interface, until what comes back is dropped.
    ///
    /// # Errors
    /// The kernel has no such hook, or no such interface.
    pub fn attach(&mut self, program: Program, interface: &str, how: Hooks) -> Result<Attached, Error> {
        let attached = self.attach_to(program, interface, how);
        attached.map_err(|source| Error::Attach { name: program.name(), interface: interface.into(), source })
    }

    fn attach_to(&self, program: Program, interface: &str, how: Hooks) -> io::Result<Attached> {
        let loaded = self.program(program).map_err(io::Error::other)?;
        let mut socket = Socket::open()?;
        let found = acker::find(&mut socket, interface).map_err(io::Error::other)?;
        let index = found.ok_or_else(|| io::Error::other("there is no such interface"))?.index;
        let (tcx, hook) = program.hooks();
        if how == Hooks::Tcx {
            // Before all others, of which one may let no program look at a packet after it.
            return sys::attach_tcx(loaded.as_fd(), index, tcx, BPF_F_BEFORE).map(Attached::Tcx);
        }
        let mut add = |priority| {
            let handle = FILTER_HANDLE + u32::from(program == Program::Reply);
            let filter = Filter { kind: "bpf".into(), priority, handle, name: program.name().into() };
            tc::add_filter(&mut socket, index, hook, &filter, loaded.as_fd())?;
            Ok(Attached::Clsact(Placed { index, hook, filter }))
        };
        let [first, otherwise] = FILTER_PRIORITIES;
        add(first).or_else(|_| add(otherwise)).map_err(|e: onramp_netlink::Error| io::Error::other(e))
    }

    /// Returns how others have come before `programs`, which are attached by TCX to one hook of an interface; `None` if
    /// ours come first.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn overtaken(&self, index: u32, programs: &[Program]) -> Result<Option<Overtaken>, Error> {
        let Some(first) = programs.first() else { return Ok(None) };
        let ours: Vec<u32> =
            programs.iter().map(|program| Ok(self.info(*program)?.id)).collect::<Result<_, Error>>()?;
        let there = sys::tcx_programs(index, first.hooks().0);
        let there = there.map_err(|e| Error::Program { name: first.name(), source: e.into() })?;
        Ok(overtaken(&there, &ours))
    }

    /// The gate's program, as the gate takes it. Valid while `self` is.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn gate_fd(&self) -> Result<RawFd, Error> {
        let fd = self.program(Program::Gate).map(|p| p.as_fd().as_raw_fd());
        fd.map_err(|source| Error::Program { name: Program::Gate.name(), source })
    }

    /// The maps, for others that go by them.
    ///
    /// # Errors
    /// There is no room for more descriptors.
    pub fn shared(&self) -> Result<Vec<Shared>, Error> {
        let all = object::shared(&self.object);
        all.map_err(|e| Error::Map { name: "for others", source: e.into() })
    }

    /// Tags by which the kernel knows the programs: hashes of their code, the same for every agent
    /// of this version.
    ///
    /// # Errors
    /// One is not loaded.
    pub fn tags(&self) -> Result<Vec<[u8; 8]>, Error> {
        Program::ALL.into_iter().map(|program| Ok(self.info(program)?.tag)).collect()
    }

    /// Asks the kernel about the programs.
    ///
    /// # Errors
    /// One is not loaded.
    pub fn sizes(&self) -> Result<Vec<Size>, Error> {
        Program::ALL.into_iter().map(|program| Ok(Size::of(program, &self.info(program)?))).collect()
    }

    fn info(&self, program: Program) -> Result<bpf_prog_info, Error> {
        let info = self.program(program).and_then(|p| Ok(sys::program_info(p.as_fd())?));
        info.map_err(|source| Error::Program { name: program.name(), source })
    }

    /// Runs a program on a packet, without any device: what it returns, and the packet then.
    ///
    /// # Errors
    /// The kernel refuses the packet: no more than an Ethernet header, or too long.
    pub fn test_run(&mut self, program: Program, packet: &[u8]) -> Result<(u32, Vec<u8>), Error> {
        let mut out = vec![0; packet.len() + 256];
        let run = self.run(program, ProgramInput { data_out: Some(&mut out), ..input(packet) })?;
        Ok((run.return_value, run.data.unwrap_or_default().to_vec()))
    }

    /// The same for a packet that was joined from several.
    ///
    /// # Errors
    /// As for [`Self::test_run`].
    pub fn test_run_joined(&mut self, program: Program, packet: &[u8], packets: u32) -> Result<u32, Error> {
        let mut context = context(164, &[packets]);
        Ok(self.run(program, ProgramInput { context_in: Some(&mut context), ..input(packet) })?.return_value)
    }

    /// As [`Self::test_run`], for a packet that leaves where it came in.
    ///
    /// # Errors
    /// As for [`Self::test_run`].
    pub fn test_run_turned_back(&mut self, program: Program, packet: &[u8]) -> Result<Vec<u8>, Error> {
        // The loopback device.
        let mut context = context(36, &[1, 1]);
        let mut out = vec![0; packet.len() + 256];
        let given = ProgramInput { context_in: Some(&mut context), data_out: Some(&mut out), ..input(packet) };
        Ok(self.run(program, given)?.data.unwrap_or_default().to_vec())
    }

    /// How long a program takes for a packet of an interface, in nanoseconds: the mean of `repeat`
    /// runs.
    ///
    /// # Errors
    /// As for [`Self::test_run`], or there is no such interface.
    pub fn time(&mut self, program: Program, packet: &[u8], interface: u32, repeat: u32) -> Result<u32, Error> {
        let mut context = context(40, &[interface]);
        let run = self.run(program, ProgramInput { context_in: Some(&mut context), repeat, ..input(packet) })?;
        Ok(run.duration.as_nanos() as u32)
    }

    fn run<'a>(&mut self, program: Program, input: ProgramInput<'a>) -> Result<ProgramOutput<'a>, Error> {
        let run = self.program(program).and_then(|p| p.test_run(input));
        run.map_err(|source| Error::Program { name: program.name(), source })
    }
}

/// Where in map "scoped" the counts of a table's rule are.
fn counts_at(table: u16, rule: usize) -> u32 {
    u32::from(table - 1) * (abi::OR_RULES + 1) + rule as u32
}

/// How programs of ours lost their place before others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overtaken {
    /// By the program of this number.
    By(u32),
    /// One is not there any more.
    Removed,
}

/// Looks for programs in the order `there` that are before some of `ours`.
fn overtaken(there: &[u32], ours: &[u32]) -> Option<Overtaken> {
    if ours.iter().any(|id| !there.contains(id)) {
        return Some(Overtaken::Removed);
    }
    there.iter().take(ours.len()).find(|id| !ours.contains(id)).map(|id| Overtaken::By(*id))
}

/// The beginning of a `struct __sk_buff`, with these fields at an offset: ingress_ifindex is at 36, ifindex at 40,
/// gso_segs at 164.
fn context(at: usize, fields: &[u32]) -> Vec<u8> {
    vec![0; at].into_iter().chain(fields.iter().flat_map(|field| field.to_ne_bytes())).collect()
}

fn input(packet: &[u8]) -> ProgramInput<'_> {
    ProgramInput { data_in: Some(packet), ..ProgramInput::default() }
}

/// A program's place at an interface, which it leaves when this is dropped.
#[derive(Debug)]
pub enum Attached {
    /// A link.
    Tcx(OwnedFd),
    /// A filter.
    Clsact(Placed),
}

/// A filter of clsact in its place.
#[derive(Debug)]
pub struct Placed {
    index: u32,
    hook: u32,
    filter: Filter,
}

impl Drop for Placed {
    fn drop(&mut self) {
        // Somebody else may have removed it.
        let _ = Socket::open().map(|mut socket| tc::delete_filter(&mut socket, self.index, self.hook, &self.filter));
    }
}

/// How often a peer is tried to be put into its map, a millisecond apart.
const INSERT_TRIES: u32 = 1000;

fn map<K: Pod, V: Pod>(object: &Object, name: &'static str) -> Result<Map<K, V>, Error> {
    Map::find(object, name).map_err(|source| Error::Map { name, source })
}

/// How programs are attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hooks {
    /// Links that end with our process.
    Tcx,
    /// Filters of clsact, which stay until they are removed.
    Clsact,
}

impl Hooks {
    /// As configured, or the better one the kernel has.
    #[must_use]
    pub fn choose(attach: Attach) -> Self {
        match attach {
            Attach::Tcx => Self::Tcx,
            Attach::Clsact => Self::Clsact,
            Attach::Auto if has_tcx() => Self::Tcx,
            Attach::Auto => Self::Clsact,
        }
    }
}

/// Returns whether the kernel has TCX: it is asked what is attached to the loopback interface. To be
/// told of others' programs takes more privileges than to attach one, so only "what is that?"
/// is a no.
#[must_use]
pub fn has_tcx() -> bool {
    !matches!(sys::tcx_programs(tc::LOOPBACK, BPF_TCX_INGRESS), Err(e) if e.raw_os_error() == Some(libc::EINVAL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_first_or_it_is_seen() {
        for (there, seen) in [
            (&[1, 2, 8, 9][..], None),
            (&[2, 1, 8], None),
            (&[8, 1, 2], Some(Overtaken::By(8))),
            (&[1, 8, 2], Some(Overtaken::By(8))),
            (&[8, 1], Some(Overtaken::Removed)),
            (&[], Some(Overtaken::Removed)),
        ] {
            assert_eq!(overtaken(there, &[1, 2]), seen, "{there:?}");
        }
        assert_eq!(overtaken(&[8], &[]), None);
    }
}
