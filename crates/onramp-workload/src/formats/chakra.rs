//! Chakra execution traces, schema 1.0 (MLCommons): for each rank a file of messages, each after its length, first of
//! the file and then of the nodes of a graph. Times are microseconds.
//!
//! As in ASTRA-sim, `comm_size` of an all-gather is what one rank gives, else the whole buffer; collectives of a group
//! are matched by their order, and computations of a rank take turns. Whose file names a process group is in it.

use super::{Collective, MAX_OPS, Read, content, message_bytes};
use crate::collective::Operation;
use crate::graph::{Kind, Op};
use crate::lines::quoted;
use onramp_config::units::US;
use prost::Message as _;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

/// An attribute; of its values those that numbers and names come in.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Attribute {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(oneof = "Value", tags = "7, 9, 11, 13, 15, 17, 27, 29")]
    pub value: Option<Value>,
}

/// See [`Attribute`].
#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum Value {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

impl Value {
    fn number(&self) -> Option<i64> {
        match *self {
            Self::Int32(number) | Self::Sint32(number) => Some(number.into()),
            Self::Int64(number) | Self::Sint64(number) => Some(number),
            Self::Uint32(number) => Some(number.into()),
            Self::Uint64(number) => i64::try_from(number).ok(),
            Self::Bool(number) => Some(number.into()),
            Self::Text(ref text) => text.parse().ok(),
        }
    }
}

/// The first message of a file.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Metadata {
    #[prost(string, tag = "1")]
    pub version: String,
}

/// A node of the graph.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Node {
    #[prost(uint64, tag = "1")]
    pub id: u64,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(int32, tag = "3")]
    pub kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    pub control: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    pub data: Vec<u64>,
    #[prost(uint64, tag = "7")]
    pub duration: u64,
    #[prost(message, repeated, tag = "10")]
    pub attributes: Vec<Attribute>,
}

impl Node {
    fn value(&self, name: &str) -> Option<&Value> {
        self.attributes.iter().find(|attribute| attribute.name == name)?.value.as_ref()
    }

    fn number(&self, name: &str) -> Result<u64, String> {
        let value = self.value(name).and_then(Value::number).and_then(|number| u64::try_from(number).ok());
        value.ok_or_else(|| format!("node {} ({}) has no number {name}", self.id, quoted(&self.name)))
    }

    /// Bytes of a message.
    fn message(&self) -> Result<u64, String> {
        message_bytes(self.number("comm_size")?).map_err(|wrong| format!("node {}: {wrong}", self.id))
    }
}

const METADATA: i32 = 1;
const MEMORY: [i32; 2] = [2, 3];
const COMPUTATION: i32 = 4;
const SEND: i32 = 5;
const RECEIVE: i32 = 6;
const COLLECTIVE: i32 = 7;
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
    let stem = first.strip_suffix(FIRST).unwrap_or(first);
    (1..ranks).map(|rank| format!("{stem}{rank}.et")).collect()
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
    format!("\"{file}\" is not the first rank's file, which ends with \"{FIRST}\"")
}

/// Reads the files of all ranks.
pub(super) fn read(file: &str, base: &Path, ranks: u32) -> Result<Read, String> {
    if !file.ends_with(FIRST) {
        return Err(not_the_first(file));
    }
    let mut building = Building::new(ranks);
    let mut count = 0;
    for (rank, name) in (0..).zip(std::iter::once(file.to_string()).chain(others(file, ranks))) {
        let bytes = content(&name, base)?;
        let nodes = nodes(&bytes).map_err(|(at, wrong)| format!("{name}: byte {at}: {wrong}"))?;
        count += nodes.len();
        if count > MAX_OPS {
            return Err(format!("{name}: is beyond the {MAX_OPS} operations that are possible"));
        }
        building.rank(rank, nodes).map_err(|wrong| format!("{name}: {wrong}"))?;
    }
    Ok(building.finish())
}

/// The nodes of a file.
pub(super) fn nodes(bytes: &[u8]) -> Result<Vec<Node>, (usize, String)> {
    let mut rest = bytes;
    let at = |rest: &[u8]| bytes.len() - rest.len();
    let wrong = |rest: &[u8], what: String| (at(rest), what);
    let before = rest;
    Metadata::decode_length_delimited(&mut rest)
        .map_err(|e| wrong(before, format!("is no description of a Chakra trace: {e}")))?;
    let mut nodes = Vec::new();
    while !rest.is_empty() {
        let before = rest;
        nodes.push(Node::decode_length_delimited(&mut rest).map_err(|e| wrong(before, format!("is no node: {e}")))?);
    }
    Ok(nodes)
}

/// Programs of the ranks so far.
struct Building {
    ranks: u32,
    read: Read,
    /// Collectives by operation, group and order there.
    known: BTreeMap<(u32, String, u32), u32>,
    /// Groups of the collectives, and the ranks of each.
    group_of: Vec<String>,
    groups: BTreeMap<String, BTreeSet<u32>>,
    /// Things that are left out, and how many of them.
    counts: BTreeMap<&'static str, u64>,
}

impl Building {
    fn new(ranks: u32) -> Self {
        Self {
            ranks,
            read: Read::default(),
            known: BTreeMap::new(),
            group_of: vec![],
            groups: BTreeMap::new(),
            counts: BTreeMap::new(),
        }
    }

    fn rank(&mut self, rank: u32, nodes: Vec<Node>) -> Result<(), String> {
        let mut numbers: HashMap<u64, u32> = HashMap::new();
        let nodes: Vec<Node> = nodes.into_iter().filter(|node| node.kind != METADATA).collect();
        for (number, node) in (0..).zip(&nodes) {
            if numbers.insert(node.id, number).is_some() {
                return Err(format!("two nodes have the number {}", node.id));
            }
        }
        let mut order: BTreeMap<String, u32> = BTreeMap::new();
        let mut ops = Vec::with_capacity(nodes.len());
        for node in &nodes {
            let mut after: Vec<u32> = Vec::new();
            for before in node.control.iter().chain(&node.data) {
                match numbers.get(before) {
                    Some(&number) if !after.contains(&number) => after.push(number),
                    Some(_) => {}
                    None => *self.counts.entry("dependencies on nodes that are not in the file").or_default() += 1,
                }
            }
            let kind = self.kind(rank, node, &mut order)?;
            ops.push(Op::new(kind, after));
        }
        self.read.ranks.push(ops);
        Ok(())
    }

    fn kind(&mut self, rank: u32, node: &Node, order: &mut BTreeMap<String, u32>) -> Result<Kind, String> {
        let whole = |number: u64| u32::try_from(number).map_err(|_| format!("{number} is no rank or tag"));
        match node.kind {
            COMPUTATION => {
                if node.duration == 0 && node.value("num_ops").is_some() {
                    *self
                        .counts
                        .entry("computations that say num_ops and no duration (they take no time)")
                        .or_default() += 1;
                }
                Ok(Kind::Compute { time: node.duration.saturating_mul(US), stream: Some(0) })
            }
            kind if MEMORY.contains(&kind) => {
                *self.counts.entry("loads and stores of remote memory (they take their duration)").or_default() += 1;
                Ok(Kind::Compute { time: node.duration.saturating_mul(US), stream: None })
            }
            SEND => {
                let (to, tag) = (whole(node.number("comm_dst")?)?, whole(node.number("comm_tag").unwrap_or(0))?);
                Ok(Kind::Send { to, bytes: node.message()?, tag })
            }
            RECEIVE => {
                let (from, tag) = (whole(node.number("comm_src")?)?, whole(node.number("comm_tag").unwrap_or(0))?);
                Ok(Kind::Receive { from, bytes: node.message()?, tag })
            }
            COLLECTIVE => self.collective(rank, node, order),
            other => Err(format!("node {} has the unknown type {other}", node.id)),
        }
    }

    fn collective(&mut self, rank: u32, node: &Node, order: &mut BTreeMap<String, u32>) -> Result<Kind, String> {
        let code = node.number("comm_type")?;
        let known = usize::try_from(code).ok().and_then(|code| COLLECTIVES.get(code));
        let &(name, operation) = known.ok_or_else(|| format!("node {} has the unknown comm_type {code}", node.id))?;
        let operation = match operation {
            Some(operation) => operation,
            None if name == "BARRIER" => Operation::AllReduce,
            None => return Err(format!("node {}: {name} is not simulated", node.id)),
        };
        let group = match node.value("pg_name") {
            Some(Value::Text(group)) => group.clone(),
            _ => String::new(),
        };
        self.groups.entry(group.clone()).or_default().insert(rank);
        let number = order.entry(format!("{name} {group}")).or_default();
        let key = (operation.code(), group.clone(), *number);
        *number += 1;
        let bytes = if name == "BARRIER" { BARRIER_BYTES } else { node.number("comm_size")? };
        let (collectives, group_of) = (&mut self.read.collectives, &mut self.group_of);
        let which = *self.known.entry(key).or_insert_with(|| {
            collectives.push(Collective { operation, members: Arc::new([]), bytes });
            group_of.push(group);
            collectives.len() as u32 - 1
        });
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
        for (collective, group) in self.read.collectives.iter_mut().zip(&self.group_of) {
            collective.members = Arc::clone(&groups[group]);
            if collective.operation == Operation::AllGather {
                collective.bytes = collective.bytes.saturating_mul(collective.members.len() as u64);
            }
        }
        let left_out = self.counts.iter().map(|(what, count)| format!("{count} {what}")).collect();
        Read { left_out, ..self.read }
    }
}

#[cfg(test)]
pub(super) fn of_files(files: &[Vec<u8>]) -> Result<Read, String> {
    let mut building = Building::new(files.len() as u32);
    for (rank, bytes) in (0..).zip(files) {
        building.rank(rank, nodes(bytes).map_err(|(at, wrong)| format!("byte {at}: {wrong}"))?)?;
    }
    Ok(building.finish())
}
