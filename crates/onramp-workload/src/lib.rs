//! Workloads: what hosts send each other, and when.
//!
//! Each kind is a file with its `Config`, which is a [`Workload`]. It builds *sources*, whose flows arrive whatever
//! happens, or *programs*, which answer what has arrived at their hosts (see [`program`]); both go into a [`Plan`].
//!
//! A source only knows its next arrival; what has not arrived yet takes no memory. Whatever is drawn comes from random
//! streams of the section's own, so that neither the network nor another section changes it.
//!
//! ```
//! use onramp_workload::arrivals::Arrivals;
//! use onramp_workload::{Config, LoadSpan, Place, plan};
//!
//! #[derive(serde::Deserialize)]
//! struct File {
//!     network: onramp_topology::Network,
//!     traffic: Vec<Config>,
//! }
//!
//! let text = r#"
//!     network = { kind = "star", hosts = 3 }
//!     traffic = [{ kind = "incast", fan_out = 2, size = "20KB", load = 0.1 }]
//! "#;
//! let File { network, traffic } = onramp_config::read(&text.parse().unwrap()).unwrap();
//! let base = ".".as_ref();
//! let topology = onramp_topology::build(&network, base).unwrap();
//! // One millisecond of load.
//! let span = LoadSpan { seed: 1, warmup: 0, duration: 1_000_000_000 };
//! let plan = plan(traffic.iter(), span, Place { topology: &topology, base })?;
//! let flows: Vec<_> = Arrivals::new(plan.sources, 1, span.seed).collect();
//! assert!(flows.len() > 2 && flows.len() % 2 == 0, "two answers to each request");
//! # Ok::<(), onramp_workload::SectionError>(())
//! ```

pub mod arrivals;
pub mod background;
pub mod clients;
pub mod collective;
pub mod connections;
pub mod custom;
pub mod fio;
pub mod formats;
pub mod graph;
pub mod ideal;
pub mod incast;
mod lines;
pub mod long;
pub mod partition_aggregate;
mod plan;
mod poisson;
pub mod program;
pub mod replay;
pub mod rpc;
mod sizes;
pub mod state;
pub mod storage;
pub mod trace;

use onramp_config::units::{Bytes, Ps, Rate, Span};
use onramp_config::{Mistake, Rule, tagged};
use onramp_topology::Topology;
pub use plan::{Channel, Medium, Placed, Plan};
pub use program::{Actions, Message, Program};
use serde::Serialize;
pub use sizes::{Cdf, is_built_in, size_distribution};
use std::ops::{Deref, DerefMut};
use std::path::Path;

/// Most bytes that wait for the application at a TCP receiver: fewer wake-ups, and far less than the receive buffer,
/// so that the window never closes for it.
pub const PORTION: u64 = 256 << 10;
use std::sync::Arc;

/// Declares the kinds of traffic: the file of each, and what a scenario calls it.
macro_rules! workloads {
    ($($(#[$doc:meta])* $variant:ident($file:ident) = $kind:literal,)+) => {
        tagged! {
            /// A kind of traffic.
            pub enum Config {
                $($(#[$doc])* $variant($file::Config) = $kind,)+
            }
        }

        impl Config {
            /// The scenario's name of its kind.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)+
                }
            }
        }

        impl Deref for Config {
            type Target = dyn Workload;

            fn deref(&self) -> &Self::Target {
                match self {
                    $(Self::$variant(config) => config,)+
                }
            }
        }

        impl DerefMut for Config {
            fn deref_mut(&mut self) -> &mut Self::Target {
                match self {
                    $(Self::$variant(config) => config,)+
                }
            }
        }
    };
}

workloads! {
    /// Poisson arrivals of flows between random hosts.
    Background(background) = "background",
    /// Requests answered by many servers at once.
    Incast(incast) = "incast",
    /// Flows that send as fast as they may.
    Long(long) = "long",
    /// Flows listed in a file.
    Trace(trace) = "trace",
    /// Remote procedure calls.
    Rpc(rpc) = "rpc",
    /// Blocks of other hosts' disks.
    Storage(storage) = "storage",
    /// Requests whose answers are themselves requests.
    PartitionAggregate(partition_aggregate) = "partition-aggregate",
    /// A collective operation, repeated.
    Collective(collective) = "collective",
    /// A distributed program from a file.
    Program(replay) = "program",
    /// A workload of the program that uses this library.
    Custom(custom) = "custom",
}

/// A kind of traffic: its rules, what it reads, and what it comes down to. Keys are those of its section.
pub trait Workload {
    /// Rules that need neither network nor files.
    fn check(&self, of: &Context, rule: Rule<'_>) {
        let _ = (of, rule);
    }

    /// Rules that depend on the network or on files.
    fn check_placed(&self, of: &Context, place: &Place<'_>, found: &mut Findings);

    /// Files that it reads, by key; of those that are found by another's name the key is empty.
    fn input_files(&self) -> Vec<(&'static str, String)> {
        vec![]
    }

    /// Writes out defaults that depend on the rest of the scenario or on files; `base_rtt` is the network's longest.
    fn resolve(&mut self, of: &Context, place: &Place<'_>, base_rtt: Ps) {
        let _ = (of, place, base_rtt);
    }

    /// Adds its sources and programs.
    ///
    /// # Errors
    /// Mistakes in a file, in a line.
    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String>;

    /// Group that its results are summed up in, where they are not flows of the background.
    fn group(&self) -> Option<Group> {
        None
    }

    /// True if its flows end when the scenario says, so that their FCT says nothing.
    fn is_endless(&self) -> bool {
        false
    }
}

/// Facts of the scenario that a workload may use.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Flows that start within this time count.
    pub duration: Span,
    /// Payload of a full packet.
    pub payload: Bytes,
    /// Its transport's `kind`.
    pub transport: &'static str,
    /// Its transport is TCP.
    pub is_tcp: bool,
}

impl Context {
    /// Largest flow: its packets are numbered in 32 bits, and the highest number is taken [bytes].
    fn largest_flow(&self) -> u64 {
        self.payload.0.saturating_mul(u64::from(u32::MAX - 1))
    }

    /// Checks that the packets of a flow of `size` bytes can be numbered.
    fn check_size(&self, size: u64) -> Result<(), String> {
        let most = self.largest_flow();
        if size <= most || most == 0 {
            return Ok(());
        }
        let (size, most, payload) = (Bytes(size), Bytes(most), self.payload);
        Err(format!("has a flow of {size}, more than {most} at {payload} a packet: raise host.payload"))
    }
}

/// The network, and the folder that files are relative to.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The network.
    pub topology: &'a Topology,
    /// The folder.
    pub base: &'a Path,
}

impl Place<'_> {
    /// See [`Section::members`].
    fn members(&self, named: Option<&[String]>) -> Result<Arc<[u32]>, String> {
        let topology = self.topology;
        let Some(names) = named else { return Ok((0..topology.hosts() as u32).collect()) };
        topology.hosts_named(names).map(Into::into).map_err(|wrong| wrong[0].1.to_string())
    }
}

/// A list is not read on after this many wrong elements.
pub const MAX_OF_A_LIST: usize = 20;

/// Results of [`Workload::check_placed`].
#[derive(Debug, Default)]
pub struct Findings {
    /// Mistakes, by key of the section.
    pub wrong: Vec<Mistake>,
    /// Starts of the first and the last flow of a file, from time 0.
    pub starts: Option<(Ps, Ps)>,
    /// Parts of a file that are not simulated, a sentence each.
    pub left_out: Vec<String>,
    /// Time that a job takes about, where its operations are known \[ps\]; else 0.
    pub about: Ps,
}

impl Findings {
    /// Notes what is wrong with `key`, if anything is.
    pub fn note(&mut self, key: &str, result: Result<(), String>) {
        self.wrong.extend(result.err().map(|message| Mistake::new(key, message)));
    }

    /// Notes what is wrong with the elements of a list, up to a number.
    pub fn list(&mut self, wrong: impl IntoIterator<Item = Mistake>) {
        self.wrong.extend(wrong.into_iter().take(MAX_OF_A_LIST));
    }

    /// Notes which of some names are no hosts.
    pub fn names(&mut self, key: &str, names: &[String], topology: &Topology) {
        self.list(topology.hosts_under(key, names).err().unwrap_or_default());
    }

    /// Notes what is wrong with the hosts that traffic is between: at least two, each once.
    fn members(&mut self, named: Option<&[String]>, topology: &Topology) {
        let Some(names) = named else { return };
        match topology.hosts_named(names).map(|hosts| hosts.len()) {
            Err(_) => self.names("hosts", names, topology),
            Ok(hosts @ 0..2) => self.note("hosts", Err(format!("{hosts} hosts: traffic is between at least two"))),
            Ok(_) => {}
        }
    }
}

/// The rule of a load.
fn check_load(load: f64, rule: Rule<'_>) {
    let message =
        format!("{load} is not a share of the link rate: above 0 and at most 10, usually below 1, such as 0.6");
    rule(load > 0.0 && load <= 10.0, "load", message);
}

/// Rows of a table that are summed up together, by one time of each.
#[derive(Clone, Debug, Serialize)]
pub struct Group {
    /// Its key in the summary.
    pub key: &'static str,
    /// Name of its time.
    pub label: &'static str,
    /// The table,
    pub table: &'static str,
    /// and the column with the time.
    pub time: &'static str,
    /// Its key in the summary's group.
    pub statistics: &'static str,
    /// Other numbers that are told: key ("per_s": rows a second, "gbps": bytes, or a column, by its mean), label and
    /// unit.
    pub rates: Vec<[&'static str; 3]>,
    /// The sections it is of, by their indices.
    pub sections: Vec<usize>,
    /// Requests arrive whatever happens: those of two runs of the same arrivals are pairs.
    pub paired: bool,
}

impl Group {
    /// A group of exchanges, by latency.
    pub fn exchanges(key: &'static str, label: &'static str) -> Self {
        Self {
            key,
            label,
            table: "exchanges",
            time: "latency_ps",
            statistics: "latency_us",
            rates: vec![],
            sections: vec![],
            paired: true,
        }
    }

    /// Collectives, by duration.
    pub fn collectives() -> Self {
        let group = Self {
            table: "collectives",
            time: "duration_ps",
            statistics: "duration_us",
            ..Self::exchanges("collective", "Collective time")
        };
        let group = group.rate("busbw", "bus bandwidth", "GB/s").rate("algbw", "algorithm bandwidth", "GB/s");
        group.rate("iteration_ms", "iteration", "ms").rate("exposed", "exposed communication", "share")
    }

    /// Tells a rate as well.
    pub fn rate(mut self, key: &'static str, label: &'static str, unit: &'static str) -> Self {
        self.rates.push([key, label, unit]);
        self
    }

    /// Requests depend on the answers to those before them.
    pub fn closed(self, closed: bool) -> Self {
        Self { paired: self.paired && !closed, ..self }
    }

    /// The groups of all sections, those of a kind together; that of requests is always there.
    pub fn all<'a>(sections: impl Iterator<Item = &'a Config>) -> Vec<Self> {
        let mut all = vec![incast::group()];
        for (i, config) in sections.enumerate() {
            let Some(group) = config.group() else { continue };
            let known = all.iter().position(|known| known.key == group.key).unwrap_or_else(|| {
                all.push(group.clone());
                all.len() - 1
            });
            all[known].sections.push(i);
            all[known].paired &= group.paired;
        }
        all
    }
}

/// A flow as its source describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewFlow {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// How much it sends.
    pub size: Size,
    /// The scenario's traffic section it comes from.
    pub traffic: u32,
    /// The request it is part of.
    pub request: Option<RequestPart>,
}

/// How much a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// This many bytes of payload.
    Bytes(u64),
    /// As much as it can until this time, counted from the beginning of the load.
    Until(Ps),
}

/// Which request a flow is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RequestPart {
    /// Number of the request within its traffic section.
    pub number: u64,
    /// Flows the request has in all.
    pub flows: u32,
}

/// When load arrives, and by which seed. Sources count from the beginning of the
/// warm-up; time 0 of the scenario is `warmup` later.
#[derive(Clone, Copy, Debug)]
pub struct LoadSpan {
    /// Seed of every random stream.
    pub seed: u64,
    /// Load runs so long before what is measured.
    pub warmup: Ps,
    /// Flows that are measured start within this span.
    pub duration: Ps,
}

impl LoadSpan {
    /// End of the load, from its beginning.
    pub fn end(&self) -> Ps {
        self.warmup + self.duration
    }
}

/// Largest flow a file may name: 1 TB.
const MAX_BYTES: u64 = 1_000_000_000_000;

/// Where flows come from.
pub trait Source: Send + Sync {
    /// When the next flows arrive; `None` once there are none left. Never goes
    /// back, but may stay where it is after [`Source::take`].
    fn next_at(&self) -> Option<Ps>;

    /// Adds flows that arrive at [`Source::next_at`] to `out`, and moves on.
    fn take(&mut self, out: &mut Vec<NewFlow>);

    /// Bytes that flows which arrive after `now` will bring, on average; 0 where
    /// nobody can know.
    fn expected_bytes(&self, _now: Ps) -> f64 {
        0.0
    }
}

/// A traffic section that cannot be built: a file that it names is wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("traffic[{section}]: {message}")]
pub struct SectionError {
    /// Index of the section.
    pub section: usize,
    /// Sentence: what is wrong, and what would be right.
    pub message: String,
}

/// The plan of all resolved sections.
///
/// # Errors
/// The first section that cannot be built.
pub fn plan<'a>(
    sections: impl Iterator<Item = &'a Config>,
    span: LoadSpan,
    place: Place<'_>,
) -> Result<Plan, SectionError> {
    let mut plan = Plan::default();
    for (number, config) in sections.enumerate() {
        let section = Section { span, place, number: number as u32 };
        config.build(&section, &mut plan).map_err(|message| SectionError { section: number, message })?;
    }
    Ok(plan)
}

/// A traffic section and where it stands.
#[derive(Clone, Copy, Debug)]
pub struct Section<'a> {
    /// When its load arrives.
    pub span: LoadSpan,
    /// Network and files.
    pub place: Place<'a>,
    /// Its number.
    pub number: u32,
}

impl Section<'_> {
    /// Hosts that traffic is between: those that are named, or all.
    ///
    /// # Errors
    /// The first name that is no host's.
    pub fn members(&self, named: Option<&[String]>) -> Result<Arc<[u32]>, String> {
        self.place.members(named)
    }

    /// Rate of all links of a host.
    pub fn host_rate(&self, host: u32) -> Rate {
        let topology = self.place.topology;
        Rate(topology.ports_of(host).iter().map(|&port| topology.ports()[port as usize].rate.0).sum())
    }
}

#[cfg(test)]
mod tests;
