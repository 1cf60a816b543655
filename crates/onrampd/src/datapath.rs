//! The eBPF programs and their maps.

use crate::abi::{self, or_address, or_clock, or_config, or_exchange, or_flow, or_path, or_peer, or_tuple};
use crate::config::{Attach, MAX_PEERS, Peer};
use crate::tc::Filter;
use aya::maps::{Array, HashMap, IterableMap as _, Map, MapData, MapError, PerCpuArray, RingBuf};
use aya::programs::tc::{NlOptions, SchedClassifierLink, TcAttachOptions, TcHandle};
use aya::programs::{
    LinkOrder, ProgramError, ProgramInfo, SchedClassifier, TcAttachType, TestRun as _, TestRunOptions,
};
use aya::{Ebpf, EbpfError, EbpfLoader, TestRunResult};
use onramp_core::orprobe::{Kind, OrProbe};
use serde::Serialize;
use std::collections::{BTreeMap, HashSet};
use std::io;
use std::mem::offset_of;
use std::net::IpAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};
use std::time::Duration;

static OBJECT: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/onramp.bpf.o"));

/// Of our filters on clsact. Those of one priority and kind are one list, to whose head new ones go:
/// so ours comes before others' that let nobody look at a packet after them. The second is for where
/// the first has filters of another kind.
const FILTER_PRIORITIES: [u16; 2] = [1, 9471];
/// By which ours are found after a crash; one after the other where there are two.
const FILTER_HANDLE: u16 = 9471;

/// Whether a filter of clsact is ours.
#[must_use]
pub fn is_ours(filter: &Filter) -> bool {
    let handles = u32::from(FILTER_HANDLE)..=u32::from(FILTER_HANDLE) + 1;
    handles.contains(&filter.handle) && filter.name.starts_with("onramp_")
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

    fn of_mut(self, ebpf: &mut Ebpf) -> Result<&mut SchedClassifier, ProgramError> {
        ebpf.program_mut(self.name()).ok_or(ProgramError::NotLoaded)?.try_into()
    }

    fn hook(self) -> TcAttachType {
        if self == Self::Ingress { TcAttachType::Ingress } else { TcAttachType::Egress }
    }
}

/// How large a program is, in instructions.
#[derive(Clone, Debug, Serialize)]
pub struct Size {
    /// Its name.
    pub program: &'static str,
    /// Of the program as the kernel has it; unknown without privileges.
    pub length: Option<u32>,
    /// Those the verifier walked through, of the million it allows. Since Linux 5.16.
    pub verified: Option<u32>,
}

impl Size {
    fn of(program: Program, info: &ProgramInfo) -> Self {
        let length = info.size_translated().map(|bytes| bytes / BPF_INSTRUCTION);
        Self { program: program.name(), length, verified: info.verified_instruction_count() }
    }
}

/// Bytes of an instruction.
const BPF_INSTRUCTION: u32 = 8;

/// What went wrong with the programs or their maps.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The object or one of its maps.
    #[error("cannot load the eBPF programs: {}{}", causes(.source), privileges(.source))]
    Load {
        /// What it was.
        #[from]
        source: EbpfError,
    },
    /// A program was refused.
    #[error("the kernel refuses the program {name}: {}", causes(.source))]
    Program {
        /// Which one.
        name: &'static str,
        /// What it was.
        source: ProgramError,
    },
    /// Attaching failed.
    #[error("cannot attach {name} to {interface}: {}", causes(.source))]
    Attach {
        /// Which program.
        name: &'static str,
        /// To what.
        interface: String,
        /// What it was.
        source: ProgramError,
    },
    /// The thread that keeps the programs going.
    #[error("thread: {0}")]
    Thread(#[source] io::Error),
    /// A map could not be read or written.
    #[error("map {name}: {}", causes(.source))]
    Map {
        /// Which one.
        name: &'static str,
        /// What it was.
        source: MapError,
    },
}

/// The error and what is behind it, each once.
fn causes(e: &dyn std::error::Error) -> String {
    let mut said = e.to_string();
    let mut next = e.source();
    while let Some(e) = next {
        let more = e.to_string();
        if !said.contains(&more) {
            said = format!("{said}: {more}");
        }
        next = e.source();
    }
    said
}

fn privileges(e: &EbpfError) -> &'static str {
    if format!("{e:?}").contains("PermissionDenied") {
        " (it takes CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON)"
    } else {
        ""
    }
}

/// A map of these programs, for another one.
#[derive(Debug)]
pub struct Shared {
    /// Its name.
    pub name: String,
    /// The map.
    pub fd: OwnedFd,
}

/// The counters of one CPU.
type Counted = [u64; abi::OR_COUNTERS as usize];

/// The loaded programs and their maps.
pub struct Datapath {
    ebpf: Ebpf,
    config: Array<MapData, or_config>,
    current: Array<MapData, u32>,
    slot: u32,
    peers: HashMap<MapData, or_address, or_peer>,
    paths: Array<MapData, or_path>,
    /// The peers' numbers in `paths`.
    numbers: BTreeMap<IpAddr, u32>,
    /// The last one given.
    last: u32,
    /// Paths that an agent before this one knew.
    known: BTreeMap<IpAddr, or_path>,
    flows: HashMap<MapData, or_tuple, or_flow>,
    counters: PerCpuArray<MapData, Counted>,
    alive: Option<Alive>,
    exchanges: Option<Exchanges>,
}

/// What an agent told its programs.
#[derive(Debug)]
pub struct Told {
    /// Its clock against the fleet's.
    pub clock: Option<or_clock>,
    /// What tests had it wrong by.
    pub test_clock: or_clock,
    /// With whom it exchanged OR-ACKs.
    pub peers: Vec<Peer>,
}

/// Until when the programs do anything.
pub struct Alive(Array<MapData, u64>);

impl Alive {
    /// A time of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn until(&mut self, time: u64) -> Result<(), Error> {
        self.0.set(0, time, 0).map_err(|source| Error::Map { name: "alive", source })
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
    /// What it was; without its tag.
    pub probe: OrProbe,
}

/// The steps of exchanges, in their order.
pub struct Exchanges(RingBuf<MapData>);

impl Exchanges {
    /// The next one.
    pub fn take(&mut self) -> Option<Step> {
        let item = self.0.next()?;
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
    /// Loads the programs into the kernel, with room for so many flows and stamps.
    ///
    /// # Errors
    /// No privileges, or the kernel refuses a map or a program.
    pub fn load(max_flows: u32, max_stamps: u32) -> Result<Self, Error> {
        let mut ebpf = EbpfLoader::new()
            .map_max_entries("flows", max_flows)
            .map_max_entries("heard_of", max_flows)
            .map_max_entries("stamps", max_stamps)
            .map_max_entries("peers", MAX_PEERS as u32)
            .map_max_entries("paths", MAX_PEERS as u32)
            .load(OBJECT)?;
        for program in Program::ALL {
            let loaded = program.of_mut(&mut ebpf).and_then(SchedClassifier::load);
            loaded.map_err(|source| Error::Program { name: program.name(), source })?;
        }
        Ok(Self {
            config: take(&mut ebpf, "config")?,
            current: take(&mut ebpf, "current")?,
            slot: 0,
            peers: take(&mut ebpf, "peers")?,
            paths: take(&mut ebpf, "paths")?,
            numbers: BTreeMap::new(),
            last: 0,
            known: BTreeMap::new(),
            flows: take(&mut ebpf, "flows")?,
            counters: take(&mut ebpf, "counters")?,
            alive: Some(Alive(take(&mut ebpf, "alive")?)),
            exchanges: Some(Exchanges(take(&mut ebpf, "exchanges")?)),
            ebpf,
        })
    }

    /// What the programs go by.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn set_config(&mut self, config: &or_config) -> Result<(), Error> {
        let other = 1 - self.slot;
        self.config.set(other, config, 0).map_err(|source| Error::Map { name: "config", source })?;
        self.current.set(0, other, 0).map_err(|source| Error::Map { name: "current", source })?;
        self.slot = other;
        Ok(())
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
        let path = self.known.remove(&address).unwrap_or_else(or_path::unknown);
        self.paths.set(number, path, 0).map_err(|source| Error::Map { name: "paths", source })?;
        self.numbers.insert(address, number);
        self.last = number;
        Ok(number)
    }

    /// The map's memory comes from a small stock that the kernel fills up meanwhile.
    fn set_peer(&mut self, address: or_address, peer: &or_peer) -> Result<(), MapError> {
        let mut tries = 0;
        loop {
            match self.peers.insert(address, peer, 0) {
                Err(MapError::SyscallError(e))
                    if e.io_error.kind() == io::ErrorKind::OutOfMemory && tries < INSERT_TRIES =>
                {
                    tries += 1;
                    std::thread::sleep(Duration::from_millis(1));
                }
                done => return done,
            }
        }
    }

    /// What keeps the programs going, for whoever does; there is one such.
    pub fn take_alive(&mut self) -> Option<Alive> {
        self.alive.take()
    }

    /// Takes over what the maps of an agent before this one know of flows and paths, and its counters;
    /// what it told its programs. A map that is not as ours is left out.
    pub fn inherit(&mut self, maps: Vec<OwnedFd>) -> Option<Told> {
        let mut old: BTreeMap<String, Map> = BTreeMap::new();
        for data in maps.into_iter().filter_map(|fd| MapData::from_fd(fd).ok()) {
            let name = data.info().ok().and_then(|info| Some(info.name_as_str()?.to_owned()));
            if let Some((name, map)) = name.and_then(|name| Some((name, Map::from_map_data(data).ok()?))) {
                old.insert(name, map);
            }
        }
        // Stamps are not worth it: until ours are attached, their OR-ACKs come to the old programs.
        let flows = old.remove("flows").and_then(|m| HashMap::<_, or_tuple, or_flow>::try_from(m).ok());
        for (flow, state) in flows.iter().flat_map(all_flows) {
            let _ = self.flows.insert(flow, state, 0);
        }
        let counters = old.remove("counters").and_then(|m| PerCpuArray::<_, Counted>::try_from(m).ok());
        if let Some(Ok(values)) = counters.map(|c| c.get(&0, 0)) {
            // What is counted from now on until ours are attached is lost.
            let _ = self.counters.set(0, values, 0);
        }
        let peers = HashMap::<_, or_address, or_peer>::try_from(old.remove("peers")?).ok()?;
        let peers: Vec<(or_address, or_peer)> = peers.iter().filter_map(Result::ok).collect();
        let paths = Array::<_, or_path>::try_from(old.remove("paths")?).ok()?;
        let path = |(address, peer): &(or_address, or_peer)| Some(((*address).into(), paths.get(&peer.path, 0).ok()?));
        self.known = peers.iter().filter_map(path).collect();
        let current = Array::<_, u32>::try_from(old.remove("current")?).ok()?.get(&0, 0).ok()?;
        let config = Array::<_, or_config>::try_from(old.remove("config")?).ok()?.get(&current, 0).ok()?;
        Some(Told {
            clock: (u32::from(config.flags) & abi::OR_CLOCK_KNOWN != 0).then_some(config.clock),
            test_clock: config.test_clock,
            peers: peers.into_iter().map(Peer::from).collect(),
        })
    }

    /// The probes that are answered, for whoever sends them; there is one such.
    pub fn take_exchanges(&mut self) -> Option<Exchanges> {
        self.exchanges.take()
    }

    /// What is known of the paths to the peers.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn paths(&self) -> Result<Vec<(IpAddr, or_path)>, Error> {
        let all = self.numbers.iter().map(|(address, number)| Ok((*address, self.paths.get(number, 0)?)));
        all.collect::<Result<_, _>>().map_err(|source| Error::Map { name: "paths", source })
    }

    /// The flows of this moment. They come and go meanwhile, so that some may be missing.
    pub fn flows(&self) -> impl Iterator<Item = (or_tuple, or_flow)> + '_ {
        all_flows(&self.flows)
    }

    /// The counters, summed over CPUs, by `OR_SENT` and so on.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<Vec<u64>, Error> {
        let cpus = self.counters.get(&0, 0).map_err(|source| Error::Map { name: "counters", source })?;
        Ok((0..abi::OR_COUNTERS as usize).map(|i| cpus.iter().map(|counted| counted[i]).sum()).collect())
    }

    /// Attaches a program to an interface. It is detached when the link is dropped.
    ///
    /// # Errors
    /// The kernel has no such hook, or no such interface.
    pub fn attach(&mut self, program: Program, interface: &str, how: Hooks) -> Result<SchedClassifierLink, Error> {
        let filter = |priority| {
            let handle = TcHandle::new(0, FILTER_HANDLE + u16::from(program == Program::Reply));
            TcAttachOptions::Netlink(NlOptions { priority, handle, classid: None })
        };
        let [first, otherwise] = FILTER_PRIORITIES;
        let mut attach = |options| {
            let p = program.of_mut(&mut self.ebpf)?;
            let id = p.attach_with_options(interface, program.hook(), options)?;
            p.take_link(id)
        };
        let link = match how {
            // The first one, so that nothing is taken away before its time is taken.
            Hooks::Tcx if program == Program::Ingress => attach(TcAttachOptions::TcxOrder(LinkOrder::first())),
            Hooks::Tcx => attach(TcAttachOptions::TcxOrder(LinkOrder::last())),
            Hooks::Clsact => attach(filter(first)).or_else(|_| attach(filter(otherwise))),
        };
        link.map_err(|source| Error::Attach { name: program.name(), interface: interface.into(), source })
    }

    /// The gate's program, as the gate takes it. Valid while `self` is.
    ///
    /// # Errors
    /// It is not loaded.
    pub fn gate_fd(&mut self) -> Result<RawFd, Error> {
        let program = Program::Gate;
        let fd = program.of_mut(&mut self.ebpf).and_then(|p| Ok(p.fd()?.as_fd().as_raw_fd()));
        fd.map_err(|source| Error::Program { name: program.name(), source })
    }

    /// The maps that the gate's decision goes by.
    ///
    /// # Errors
    /// The kernel does not say which.
    pub fn shared(&mut self) -> Result<Vec<Shared>, Error> {
        let program = Program::Gate;
        let ids = program.of_mut(&mut self.ebpf).and_then(|p| p.info()?.map_ids());
        let ids = ids.map_err(|source| Error::Program { name: program.name(), source })?.unwrap_or_default();
        let one = |id| {
            let map = MapData::from_id(id)?;
            let name = map.info()?.name_as_str().unwrap_or_default().to_owned();
            let fd = map.fd().as_fd().try_clone_to_owned().map_err(MapError::from);
            Ok(Shared { name, fd: fd? })
        };
        let all = ids.into_iter().map(one).collect::<Result<_, MapError>>();
        all.map_err(|source| Error::Map { name: "of the gate", source })
    }

    /// What the kernel knows the programs by: hashes of their code, the same for every agent
    /// of this version.
    ///
    /// # Errors
    /// One is not loaded.
    pub fn tags(&mut self) -> Result<Vec<u64>, Error> {
        let tag = |program: Program| {
            let info = program.of_mut(&mut self.ebpf).and_then(|p| p.info());
            info.map(|i| i.tag()).map_err(|source| Error::Program { name: program.name(), source })
        };
        Program::ALL.into_iter().map(tag).collect()
    }

    /// What the kernel says of the programs.
    ///
    /// # Errors
    /// One is not loaded.
    pub fn sizes(&mut self) -> Result<Vec<Size>, Error> {
        let size = |program: Program| {
            let info = program.of_mut(&mut self.ebpf).and_then(|p| p.info());
            info.map(|i| Size::of(program, &i)).map_err(|source| Error::Program { name: program.name(), source })
        };
        Program::ALL.into_iter().map(size).collect()
    }

    /// Runs a program on a packet, without any device: what it returns, and the packet then.
    ///
    /// # Errors
    /// The kernel refuses the packet: no more than an Ethernet header, or too long.
    pub fn test_run(&mut self, program: Program, packet: &[u8]) -> Result<(u32, Vec<u8>), Error> {
        let mut out = vec![0; packet.len() + 256];
        let options = TestRunOptions { data_in: Some(packet), data_out: Some(&mut out), ..TestRunOptions::default() };
        let run = self.run(program, options)?;
        out.truncate(run.data_size_out as usize);
        Ok((run.return_value, out))
    }

    /// The same for a packet that was joined from several.
    ///
    /// # Errors
    /// As for [`Self::test_run`].
    pub fn test_run_joined(&mut self, program: Program, packet: &[u8], packets: u32) -> Result<u32, Error> {
        // struct __sk_buff up to gso_segs.
        let context = [[0; 164].as_slice(), &packets.to_ne_bytes()].concat();
        let (data_in, ctx_in) = (Some(packet), Some(context.as_slice()));
        Ok(self.run(program, TestRunOptions { data_in, ctx_in, ..TestRunOptions::default() })?.return_value)
    }

    /// How long a program takes for a packet of an interface, in nanoseconds: the mean of `repeat`
    /// runs.
    ///
    /// # Errors
    /// As for [`Self::test_run`], or there is no such interface.
    pub fn time(&mut self, program: Program, packet: &[u8], interface: u32, repeat: u32) -> Result<u32, Error> {
        // struct __sk_buff up to ifindex.
        let context = [[0; 40].as_slice(), &interface.to_ne_bytes()].concat();
        let (data_in, ctx_in) = (Some(packet), Some(context.as_slice()));
        let options = TestRunOptions { data_in, ctx_in, repeat, ..TestRunOptions::default() };
        Ok(self.run(program, options)?.duration.as_nanos() as u32)
    }

    fn run(&mut self, program: Program, options: TestRunOptions<'_>) -> Result<TestRunResult, Error> {
        let run = program.of_mut(&mut self.ebpf).and_then(|p| p.test_run(options));
        run.map_err(|source| Error::Program { name: program.name(), source })
    }
}

/// Flows looked at for one answer.
const MAX_FLOWS_SCANNED: usize = 1 << 22;
/// How often a peer is tried to be put into its map, a millisecond apart.
const INSERT_TRIES: u32 = 1000;

/// Bounded, since a table that changes may never come to its end: where the flow that was looked at
/// last has gone, the kernel begins anew.
fn all_flows(map: &HashMap<MapData, or_tuple, or_flow>) -> impl Iterator<Item = (or_tuple, or_flow)> + '_ {
    let most = map.map().info().map_or(MAX_FLOWS_SCANNED, |info| info.max_entries() as usize);
    map.iter().take(2 * most).filter_map(Result::ok).take(most)
}

fn take<T: TryFrom<Map, Error = MapError>>(ebpf: &mut Ebpf, name: &'static str) -> Result<T, Error> {
    let map = ebpf.take_map(name).ok_or_else(|| MapError::InvalidName { name: name.into() });
    map.and_then(T::try_from).map_err(|source| Error::Map { name, source })
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

/// Whether the kernel has TCX: it is asked what is attached to the loopback interface. To be
/// told of others' programs takes more privileges than to attach one, so only "what is that?"
/// is a no.
#[must_use]
pub fn has_tcx() -> bool {
    match SchedClassifier::query_tcx("lo", TcAttachType::Ingress) {
        Err(ProgramError::SyscallError(e)) => e.io_error.raw_os_error() != Some(libc::EINVAL),
        _ => true,
    }
}
