//! Chakra execution traces, schema 1.0 (MLCommons): for each rank a file of messages, each after its length, first of
//! the file and then of the nodes of a graph. Times are microseconds.
//!
//! As in ASTRA-sim, `comm_size` of an all-gather is what one rank gives, else the whole buffer, and a rank has a CPU and
//! a GPU, whose computations take turns. Collectives of one type and group are matched by their order. Whose file names
//! a process group is in it.

mod messages;

use super::{Collective, MAX_OPS, Read, content, message_bytes};
use crate::collective::Operation;
use crate::graph::{Kind, Op};
use onramp_config::units::US;

pub(super) use messages::Metadata;
pub(super) use messages::Node;
#[cfg(test)]
pub(super) use messages::{Attribute, Bools, Value};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

const METADATA: i32 = 1;
const MEMORY: [i32; 2] = [2, 3];
const COMPUTATION: i32 = 4;
const SEND: i32 = 5;
const RECEIVE: i32 = 6;
const COLLECTIVE: i32 = 7;
/// A rank's streams.
const GPU: u32 = 0;
const CPU: u32 = 1;
/// Codes of collectives; those without an operation are not simulated.
const COLLECTIVES: [(&str, Option<Operation>); 10] = [
    ("ALL_REDUCE", Some(Operation::AllReduce)),
    ("REDUCE", Some(Operation::Reduce)),
    ("ALL_GATHER", Some(Operation::AllGather)),
    ("GATHER", None),
    ("SCATTER", None),
    ("BROADCAST", Some(Operation::Broadcast)),
    ("ALL_TO_ALL", Some(Operation::AllToAll)),
    ("REDUCE_SCATTER", Some(Operation::ReduceScatter)),
    ("REDUCE_SCATTER_BLOCK", Some(Operation::ReduceScatter)),
    ("BARRIER", None),
];
/// Smallest all-reduce, in place of a barrier.
const BARRIER_BYTES: u64 = 1;

/// Ending of the first rank's file; those of the others have their rank in place of the 0.
const FIRST: &str = "0.et";

/// Files of the other of `ranks` ranks.
pub fn others(first: &str, ranks: u32) -> Vec<String> {
    (1..ranks).map(|rank| file_of(first, rank)).collect()
}

/// File of a rank.
fn file_of(first: &str, rank: u32) -> String {
    format!("{}{rank}.et", first.strip_suffix(FIRST).unwrap_or(first))
}

/// Ranks up to the last one that has a file beside that of the first.
///
/// # Errors
/// `first` is no first rank's file, or its folder cannot be read.
pub fn ranks(first: &str, base: &Path) -> Result<u32, String> {
    let path = base.join(first);
    let (folder, stem) = (path.parent(), path.file_name().and_then(|name| name.to_str()?.strip_suffix(FIRST)));
    let (Some(folder), Some(stem)) = (folder, stem) else { return Err(not_the_first(first)) };
    let cannot = |e: std::io::Error| format!("cannot read the folder of \"{first}\": {e}");
    let mut last = 0;
    for file in folder.read_dir().map_err(cannot)? {
        let name = file.map_err(cannot)?.file_name();
        let rank = name.to_str().and_then(|name| name.strip_prefix(stem)?.strip_suffix(".et")?.parse::<u32>().ok());
        last = last.max(rank.unwrap_or(0));
    }
    Ok(last.saturating_add(1))
}

fn not_the_first(file: &str) -> String {
    format!("\"{file}\" is not the first rank's file: name that, which ends with \"{FIRST}\"; it stands for all")
}

/// Reads the files of all ranks.
pub(super) fn read(file: &str, base: &Path, ranks: u32) -> Result<Read, String> {
    if !file.ends_with(FIRST) {
        return Err(not_the_first(file));
    }
    let mut building = Building::new(file, ranks);
    let mut count = 0;
    for rank in 0..ranks {
        let name = file_of(file, rank);
        let bytes = content(&name, base)?;
        let nodes = nodes(&bytes).map_err(|(at, wrong)| format!("{name}: byte {at}: {wrong}"))?;
        count += nodes.len();
        if count > MAX_OPS {
            return Err(format!("{name}: is beyond the {MAX_OPS} operations that are possible"));
        }
        building.rank(rank, &nodes).map_err(|wrong| format!("{name}: {wrong}"))?;
    }
    let mut read = building.finish();
    match self::ranks(file, base)?.saturating_sub(ranks) {
        0 => {}
        more => read.left_out.push(format!("{more} ranks that have files, beyond the {ranks} of \"ranks\"")),
    }
    Ok(read)
}

/// Bytes of a message.
fn message(node: &Node) -> Result<u64, String> {
    message_bytes(node.number("comm_size")?).map_err(|wrong| format!("node {}: {wrong}", node.id))
}

/// The nodes of a file; where it is wrong, the byte and how.
pub(super) fn nodes(bytes: &[u8]) -> Result<Vec<Node>, (usize, String)> {
    let mut rest = bytes;
    next::<Metadata>(&mut rest, "description of a Chakra trace").map_err(|wrong| (0, wrong))?;
    let mut nodes = Vec::new();
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        nodes.push(next(&mut rest, "node").map_err(|wrong| (at, wrong))?);
    }
    Ok(nodes)
}

/// The next message, which its length precedes.
fn next<M: prost::Message + Default>(rest: &mut &[u8], what: &str) -> Result<M, String> {
    let length = prost::decode_length_delimiter(&mut *rest).map_err(|e| format!("is no {what}: {e}"))?;
    let Some((own, left)) = rest.split_at_checked(length) else {
        return Err(format!("is no {what}, or cut off: of {length} bytes {} are there", rest.len()));
    };
    *rest = left;
    M::decode(own).map_err(|e| format!("is no {what}: {e}"))
}

/// Programs of the ranks so far.
struct Building<'a> {
    /// File of the first rank.
    file: &'a str,
    ranks: u32,
    read: Read,
    /// Collectives by code, group and order there.
    known: BTreeMap<(u64, String, u32), u32>,
    /// How the first rank of each collective has it.
    given: Vec<Given>,
    /// Ranks of each group.
    groups: BTreeMap<String, BTreeSet<u32>>,
    /// Things that are left out, and how many of them.
    counts: BTreeMap<&'static str, u64>,
    /// The same of collectives, which count once for all ranks.
    of_collectives: BTreeSet<(&'static str, u32)>,
}

/// A collective as a rank's file has it.
struct Given {
    rank: u32,
    node: u64,
    name: String,
    group: String,
    bytes: u64,
    root: u64,
}

impl<'a> Building<'a> {
    fn new(file: &'a str, ranks: u32) -> Self {
        Self {
            file,
            ranks,
            read: Read::default(),
            known: BTreeMap::new(),
            given: vec![],
            groups: BTreeMap::new(),
            counts: BTreeMap::new(),
            of_collectives: BTreeSet::new(),
        }
    }

    fn leave_out(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn rank(&mut self, rank: u32, nodes: &[Node]) -> Result<(), String> {
        let mut numbers: HashMap<u64, u32> = HashMap::new();
        for (number, node) in (0..).zip(nodes) {
            if numbers.insert(node.id, number).is_some() {
                return Err(format!("two nodes have the number {}", node.id));
            }
        }
        let mut order: BTreeMap<(u64, String), u32> = BTreeMap::new();
        let mut streams = BTreeSet::new();
        let mut ops = Vec::with_capacity(nodes.len());
        for node in nodes {
            let mut after: Vec<u32> = Vec::new();
            for before in node.control.iter().chain(&node.data) {
                match numbers.get(before) {
                    Some(&number) if !after.contains(&number) => after.push(number),
                    Some(_) => {}
                    None => self.leave_out("dependencies on nodes that are not in the file"),
                }
            }
            let kind = self.kind(rank, node, &mut order)?;
            if matches!(kind, Kind::Compute { stream: Some(GPU), .. }) {
                streams.extend(node.optional("stream").ok().flatten());
            }
            ops.push(Op::new(kind, after));
        }
        if streams.len() > 1 {
            self.leave_out("ranks with several streams of the GPU (its computations take turns, as in ASTRA-sim)");
        }
        if overlap(&ops) {
            self.leave_out(
                "ranks that do one communication at a time, as in ASTRA-sim (those without dependencies overlap)",
            );
        }
        self.read.ranks.push(ops);
        Ok(())
    }

    fn kind(&mut self, rank: u32, node: &Node, order: &mut BTreeMap<(u64, String), u32>) -> Result<Kind, String> {
        let whole = |number: u64| u32::try_from(number).map_err(|_| format!("{number} is no rank or tag"));
        let of_cpu = node.is("is_cpu_op");
        let time = node.duration.saturating_mul(US);
        if of_cpu && [SEND, RECEIVE, COLLECTIVE].contains(&node.kind) {
            // PyTorch's traces have the call as well as the kernel, which communicates.
            if node.kind == COLLECTIVE && !node.has("comm_type") {
                self.leave_out("calls of collectives by the CPU, without comm_type (they take their duration)");
                return Ok(Kind::Compute { time, stream: Some(CPU) });
            }
            self.leave_out("communications with is_cpu_op (they are the GPU's)");
        }
        match node.kind {
            // It says something about others, but has a place in their order.
            METADATA => Ok(Kind::Compute { time: 0, stream: None }),
            COMPUTATION => {
                if node.duration == 0 && node.has("num_ops") {
                    self.leave_out("computations that say num_ops and no duration (they take no time)");
                }
                let stream = if of_cpu { CPU } else { GPU };
                Ok(Kind::Compute { time, stream: Some(stream) })
            }
            kind if MEMORY.contains(&kind) => {
                self.leave_out("loads and stores of remote memory (they take their duration)");
                Ok(Kind::Compute { time, stream: None })
            }
            SEND => {
                let (to, tag) = (whole(node.number("comm_dst")?)?, whole(node.optional("comm_tag")?.unwrap_or(0))?);
                Ok(Kind::Send { to, bytes: message(node)?, tag })
            }
            RECEIVE => {
                let (from, tag) = (whole(node.number("comm_src")?)?, whole(node.optional("comm_tag")?.unwrap_or(0))?);
                Ok(Kind::Receive { from, bytes: message(node)?, tag })
            }
            COLLECTIVE => self.collective(rank, node, order),
            other => Err(format!("node {} has the unknown type {other}", node.id)),
        }
    }

    fn collective(&mut self, rank: u32, node: &Node, order: &mut BTreeMap<(u64, String), u32>) -> Result<Kind, String> {
        let code = node.number("comm_type")?;
        let known = usize::try_from(code).ok().and_then(|code| COLLECTIVES.get(code));
        let &(name, operation) = known.ok_or_else(|| format!("node {} has the unknown comm_type {code}", node.id))?;
        let operation = match operation {
            Some(operation) => operation,
            None if name == "BARRIER" => Operation::AllReduce,
            None => return Err(format!("node {}: {name} is not simulated", node.id)),
        };
        let bytes = if name == "BARRIER" { BARRIER_BYTES } else { node.number("comm_size")? };
        let group = node.group()?;
        self.groups.entry(group.clone()).or_default().insert(rank);
        let number = order.entry((code, group.clone())).or_default();
        let key = (code, group.clone(), *number);
        *number += 1;
        let root = if node.has("root") { node.number("root")? } else { 0 };
        let (collectives, given) = (&mut self.read.collectives, &mut self.given);
        let which = *self.known.entry(key).or_insert_with(|| {
            collectives.push(Collective { operation, members: Arc::new([]), bytes });
            given.push(Given { rank, node: node.id, name: node.name.clone(), group, bytes, root });
            collectives.len() as u32 - 1
        });
        let first = &self.given[which as usize];
        if first.bytes != bytes {
            if operation != Operation::AllToAll {
                let first_called = messages::called(first.node, &first.name);
                return Err(format!(
                    "{}: rank {rank} has {name} with comm_size {bytes}, rank {} with {} ({}, {first_called}): the ranks \
                     of a collective have the same comm_size, and their files the same order of collectives",
                    node.called(),
                    first.rank,
                    first.bytes,
                    file_of(self.file, first.rank),
                ));
            }
            // An all-to-all of different parts: the ranks' sizes do not tell who sends how much to whom.
            let largest = &mut self.read.collectives[which as usize].bytes;
            *largest = bytes.max(*largest);
            self.of_collectives.insert(("all-to-alls whose ranks differ in comm_size (all have the largest)", which));
        }
        if node.is_confined() {
            let what = "collectives that involved_dim confines to some dimensions (all ranks of the group take part)";
            self.of_collectives.insert((what, which));
        }
        if node.has("comm_priority") && node.optional("comm_priority") != Ok(Some(0)) {
            self.of_collectives.insert(("collectives with a comm_priority (all have the same)", which));
        }
        Ok(Kind::Collective(which))
    }

    fn finish(mut self) -> Read {
        let groups: BTreeMap<String, Arc<[u32]>> =
            std::mem::take(&mut self.groups)
                .into_iter()
                .map(|(name, ranks)| {
                    if name.is_empty() {
                        (name, (0..self.ranks).collect())
                    } else {
                        (name, ranks.into_iter().collect())
                    }
                })
                .collect();
        for (which, (collective, given)) in (0..).zip(self.read.collectives.iter_mut().zip(&self.given)) {
            collective.members = Arc::clone(&groups[&given.group]);
            match collective.operation {
                Operation::AllGather => {
                    collective.bytes = collective.bytes.saturating_mul(collective.members.len() as u64);
                }
                // A root is a rank of the group, or of all.
                Operation::Broadcast | Operation::Reduce
                    if given.root != 0 && given.root != u64::from(collective.members[0]) =>
                {
                    let what =
                        "broadcasts and reduces with another root than the group's first rank (that is the root)";
                    self.of_collectives.insert((what, which));
                }
                _ => {}
            }
        }
        for (what, _) in self.of_collectives {
            *self.counts.entry(what).or_default() += 1;
        }
        let left_out = self.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        Read { left_out, ..self.read }
    }
}

/// Some sends and collectives of a rank do not wait for each other: not all are in one chain of dependencies.
fn overlap(ops: &[Op]) -> bool {
    let communicates = |op: &Op| u32::from(matches!(op.kind, Kind::Send { .. } | Kind::Collective(_)));
    let all: u32 = ops.iter().map(communicates).sum();
    if all < 2 {
        return false;
    }
    // Communications in the longest chain up to each operation; those it is after first. Circles are refused later.
    let mut chains = vec![None; ops.len()];
    let mut seen = vec![false; ops.len()];
    let mut open: Vec<u32> = Vec::new();
    for last in 0..ops.len() as u32 {
        open.push(last);
        while let Some(&number) = open.last() {
            let at = number as usize;
            if chains[at].is_none() && !std::mem::replace(&mut seen[at], true) {
                open.extend(ops[at].after.iter().filter(|&&before| !seen[before as usize]));
                continue;
            }
            open.pop();
            let before = ops[at].after.iter().filter_map(|&before| chains[before as usize]).max();
            chains[at] = chains[at].or(Some(before.unwrap_or(0) + communicates(&ops[at])));
        }
    }
    chains.into_iter().flatten().max().unwrap_or(0) < all
}

#[cfg(test)]
pub(super) fn of_files(files: &[Vec<u8>]) -> Result<Read, String> {
    let mut building = Building::new("x.0.et", files.len() as u32);
    for (rank, bytes) in (0..).zip(files) {
        building.rank(rank, &nodes(bytes).map_err(|(at, wrong)| format!("byte {at}: {wrong}"))?)?;
    }
    Ok(building.finish())
}
