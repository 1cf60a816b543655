//! Collectives: the same operation of all ranks of a group, by an algorithm, repeated.

mod direct;
mod halving;
mod operation;
mod pairwise;
mod rendezvous;
mod ring;
mod tree;

use super::clients::one;
use super::graph::{Collective, Graph, Kind, Op, Sending, When};
use super::{Context, Findings, Group, Place, Plan, Section, Workload};
use onramp_config::units::{Bytes, Ps, Rate, Span, US};
use onramp_config::{Mistake, Rule};
use onramp_topology::Topology;
pub use operation::{Algorithm, Gather, Label, Member, Operation, Piece, Task, share};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Channels of a program at most.
pub const MAX_CHANNELS: usize = 1 << 20;
/// Messages of a step at most: they are numbered in 24 bits.
const MAX_PIECES: u64 = 1 << 24;

/// Every member of a group takes part in each repetition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The operation.
    pub operation: Operation,
    /// By which algorithm. Default: "ring"; all-to-all "direct".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<Algorithm>,
    /// Size of the whole buffer, as in nccl-tests.
    pub size: Bytes,
    /// Hosts, or groups of them, by name; each is a rank, in this order. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Ranks are divided into groups of this many, each with a collective of its own. Default: all in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// Ranks of a group are this far apart. Default 1.
    #[serde(default = "one")]
    pub stride: u32,
    /// Consecutive ranks of a server, which rings enter and leave by another rank in each channel. Default: those that
    /// share a switch called nvswitch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<u32>,
    /// Rings cross from a server's last rank to the next one's first, on another rail, as with NCCL_CROSS_NIC=1 and in
    /// SimAI. Default false: on the same rail.
    #[serde(default)]
    pub cross_nic: bool,
    /// Parts that the buffer is cut into, each with a ring, or a tree, of its own. Default: for rings the ranks of a
    /// server, else 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// Queue pairs, or connections, between two ranks in each channel; messages take them in turn. Default 1.
    #[serde(default = "one")]
    pub queue_pairs: u32,
    /// Largest message. Default 512 KiB.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// Time from a message's being ready until it is handed over, such as 2 us in SimAI's examples. Default 0.
    #[serde(default)]
    pub send_latency: Span,
    /// Messages of a rank begin one after the other, each once the one before has taken its time at this rate: 1/G of
    /// LogGOPS. Default: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_rate: Option<Rate>,
    /// A message is handed over up to so much later, at random, as a processor that does other things, too, would:
    /// without it ranks of equal links stay in step, which no real ones do. Default: with TCP 1 us, else 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Span>,
    /// A message is complete once its sender has the last acknowledgement, as in SimAI: its way back, without queues,
    /// adds to `send_latency`.
    #[serde(default)]
    pub acknowledged: bool,
    /// Times that it is done, one after the other. Default 1.
    #[serde(default = "one")]
    pub repeat: u32,
    /// Time each rank computes before each. Default 0.
    #[serde(default)]
    pub compute: Span,
    /// When it begins. Default 0.
    #[serde(default)]
    pub start: Span,
}

/// The noise of messages where nothing is said.
pub(super) fn usual_noise(of: &Context) -> Span {
    if of.is_tcp { Span(US) } else { Span(0) }
}

/// Largest message where nothing is said: a slot of NCCL's buffer, 4 MiB in eight slots.
pub(super) fn chunk() -> Bytes {
    Bytes(512 << 10)
}

/// Layout of collectives as a section says it: what it leaves out follows from the network.
#[derive(Clone, Copy)]
pub(super) struct Layout<'a> {
    pub topology: &'a Topology,
    /// Hosts of the ranks.
    pub hosts: &'a [u32],
    /// See [`Config`].
    pub server: Option<u32>,
    /// See [`Config`].
    pub cross_nic: bool,
    /// See [`Config`].
    pub channels: Option<u32>,
}

impl Layout<'_> {
    /// A collective of some ranks.
    pub fn of(self, operation: Operation, algorithm: Algorithm, members: Arc<[u32]>, bytes: u64) -> Collective {
        let of_group: Vec<u32> = members.iter().map(|&rank| self.hosts[rank as usize]).collect();
        let server = self.server.unwrap_or_else(|| server(&of_group, self.topology));
        let usual = if algorithm == Algorithm::Ring { server.clamp(1, 64) } else { 1 };
        let (channels, cross_nic) = (self.channels.unwrap_or(usual), self.cross_nic);
        Collective { operation, algorithm, members, bytes, channels, server, cross_nic }
    }
}

/// Consecutive hosts on the same switch called nvswitch, if that is so of all; else 1.
fn server(hosts: &[u32], topology: &Topology) -> u32 {
    let inside = |host: u32| {
        let others = topology.ports_of(host).iter().map(|&port| topology.ports()[port as usize].to);
        others.into_iter().find(|&node| topology.is_nvswitch(node))
    };
    let of: Vec<_> = hosts.iter().map(|&host| inside(host)).collect();
    let first = of.iter().take_while(|own| own.is_some() && **own == of[0]).count();
    let even = first > 0 && of.chunks(first).all(|own| own.len() == first && own.iter().all(|one| *one == own[0]));
    let distinct =
        even && of.chunks(first).map(|own| own[0]).collect::<std::collections::BTreeSet<_>>().len() == of.len() / first;
    if distinct { first as u32 } else { 1 }
}

/// Rules of `channels`, `queue_pairs`, `chunk` and `send_rate`.
pub(super) fn check_sending(
    channels: Option<u32>,
    queue_pairs: u32,
    chunk: Bytes,
    send_rate: Option<Rate>,
    rule: Rule<'_>,
) {
    let channels = channels.unwrap_or(1);
    rule((1..=64).contains(&channels), "channels", format!("{channels} is outside 1 to 64"));
    rule((1..=64).contains(&queue_pairs), "queue_pairs", format!("{queue_pairs} is outside 1 to 64"));
    rule(chunk >= Bytes(1024), "chunk", format!("{chunk} is less than 1024B: such as \"512KiB\""));
    rule(send_rate.is_none_or(|rate| rate.0 > 0), "send_rate", "must be above 0, such as \"200Gbps\"".into());
}

/// Checks that the messages of a step can be numbered.
pub(super) fn check_pieces(size: Bytes, chunk: Bytes) -> Result<(), String> {
    let few = size.0.div_ceil(chunk.0.max(1)) < MAX_PIECES;
    if few { Ok(()) } else { Err(format!("{size} of {chunk} are more than {MAX_PIECES} messages")) }
}

impl Config {
    /// The groups of `n` ranks.
    fn groups(&self, n: u32) -> Result<Vec<Arc<[u32]>>, String> {
        let size = self.group.unwrap_or(n / self.stride.max(1));
        let block = size.checked_mul(self.stride).filter(|&block| block > 0).unwrap_or(u32::MAX);
        if size < 2 {
            return Err(format!("{size} rank: a collective is between at least two"));
        }
        if !n.is_multiple_of(block) {
            let stride = self.stride;
            return Err(format!("{n} ranks are no multiple of group times stride, {size} times {stride}"));
        }
        let of = |first: u32| (0..size).map(move |i| first + i * self.stride).collect();
        Ok((0..n / block).flat_map(|b| (0..self.stride).map(move |i| b * block + i)).map(of).collect())
    }

    fn graph(&self, hosts: &[u32], topology: &Topology) -> Result<Graph, Mistake> {
        let groups = self.groups(hosts.len() as u32).map_err(|wrong| Mistake::new("group", wrong))?;
        let algorithm = self.algorithm.unwrap_or(self.operation.usual());
        algorithm.check(self.operation, groups[0].len() as u32).map_err(|wrong| Mistake::new("algorithm", wrong))?;
        let mut ranks = vec![Vec::new(); hosts.len()];
        let mut collectives: Vec<Collective> = Vec::new();
        let Self { server, cross_nic, channels, .. } = *self;
        let layout = Layout { topology, hosts, server, cross_nic, channels };
        for members in groups {
            let collective = layout.of(self.operation, algorithm, members, self.size.0);
            let Collective { ref members, server, .. } = collective;
            if !(members.len() as u32).is_multiple_of(server.max(1)) {
                let message = format!("{server} ranks a server do not divide a group of {}", members.len());
                return Err(Mistake::new("server", message));
            }
            for &rank in members.iter() {
                let ops: &mut Vec<Op> = &mut ranks[rank as usize];
                let mut after = vec![];
                if self.compute.0 > 0 {
                    ops.push(Op::new(Kind::Compute { time: self.compute.0, stream: None }, vec![]));
                    after.push(0);
                }
                ops.push(Op::new(Kind::Collective(collectives.len() as u32), after));
            }
            collectives.push(collective);
        }
        let Self { chunk: Bytes(chunk), queue_pairs, send_latency: Span(latency), send_rate: rate, .. } = *self;
        let noise = self.noise.unwrap_or_default().0;
        let sending = Sending { chunk, queue_pairs, latency, rate, noise };
        Graph::new(ranks, collectives, sending).map_err(|wrong| Mistake::new("operation", wrong))
    }
}

impl Workload for Config {
    fn check(&self, _of: &Context, rule: Rule<'_>) {
        rule(self.size.0 > 0, "size", "must be larger than 0, such as \"128MiB\"".into());
        check_sending(self.channels, self.queue_pairs, self.chunk, self.send_rate, rule);
        let few = check_pieces(self.size, self.chunk);
        rule(few.is_ok(), "chunk", few.err().unwrap_or_default());
        rule(self.stride > 0, "stride", "must be at least 1".into());
        rule(self.server.is_none_or(|server| server > 0), "server", "must be at least 1".into());
        rule(self.repeat > 0, "repeat", "must be at least 1".into());
    }

    fn check_placed(&self, of: &Context, place: &Place<'_>, found: &mut Findings) {
        found.members(self.hosts.as_deref(), place.topology);
        let Ok(hosts) = place.members(self.hosts.as_deref()) else { return };
        if !found.wrong.is_empty() || self.stride == 0 {
            return;
        }
        match self.graph(&hosts, place.topology) {
            Err(wrong) => found.wrong.push(wrong),
            Ok(graph) => {
                let once = graph.about(place.topology.host_rate());
                found.about = once.saturating_mul(self.repeat.into()).saturating_add(self.start.0);
                found.note("operation", check_channels(of, graph.channels()));
            }
        }
    }

    fn resolve(&mut self, of: &Context, _: &Place<'_>, _: Ps) {
        self.algorithm.get_or_insert(self.operation.usual());
        self.noise.get_or_insert(usual_noise(of));
    }

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let Section { span, place, number } = *section;
        let hosts = section.members(self.hosts.as_deref())?;
        let graph = self.graph(&hosts, place.topology).map_err(|wrong| wrong.message)?;
        let when =
            When { traffic: number, start: span.warmup + self.start.0, iterations: self.repeat, seed: span.seed };
        graph.place(&hosts, self.acknowledged.then_some(place.topology), when, plan);
        Ok(())
    }

    fn group(&self) -> Option<Group> {
        Some(Group::collectives())
    }
}

/// Checks the number of a program's channels; connections have a limit of their own.
pub(super) fn check_channels(of: &Context, count: usize) -> Result<(), String> {
    if of.is_tcp {
        return super::clients::check_channels(count);
    }
    if count <= MAX_CHANNELS {
        Ok(())
    } else {
        Err(format!("{count} queue pairs: at most {MAX_CHANNELS} are possible"))
    }
}
