//! Workloads of SimAI, as AICB writes them: layers with computation and communication of the forward pass, of the
//! gradients of inputs and of weights.
//!
//! An iteration goes forward through all layers, each of which computes and then communicates, and back: gradients of
//! inputs, then of weights, whose communication nobody waits for before the end. Times are nanoseconds, sizes whole
//! buffers. Groups: tensor parallel ones are consecutive ranks, data parallel ones those in the same place of each;
//! expert parallel ones are consecutive of a data parallel one, and the ranks in the same place of these are the last
//! kind, "_DP_EP".

use super::{Collective, MAX_OPS, Read};
use crate::collective::Operation;
use crate::graph::{Kind, Op};
use crate::lines::{Lines, quoted};
use onramp_config::units::NS;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Parallelism whose files these are.
const KIND: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD";
/// SimAI sends at least so much in a forward pass.
const LEAST_FORWARD: u64 = 4096;

/// Reads a file; `ranks` where it does not say how many there are.
pub(super) fn read(file: &str, base: &Path, ranks: u32) -> Result<Read, String> {
    parse(Lines::open(file, base)?, ranks)
}

/// Kinds of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Tensor,
    Data,
    Expert,
    DataOfExperts,
}

/// Computation and communication of a layer in one pass.
#[derive(Clone, Copy, Debug)]
struct Pass {
    compute: u64,
    communication: Option<(Operation, Group, u64)>,
}

/// Forward, gradients of inputs, gradients of weights.
type Layer = [Pass; 3];

/// Numbers of the first line.
struct Shape {
    tensor: u32,
    expert: u32,
    ranks: u32,
}

impl Shape {
    /// The group of a kind that a rank is in.
    fn group(&self, group: Group, rank: u32) -> Vec<u32> {
        let (tensor, all) = (self.tensor, self.ranks);
        let data = all / tensor;
        // Of the ranks in the same place of tensor groups: which of them, and by how many there are.
        let of = |which: &dyn Fn(u32) -> bool| -> Vec<u32> {
            (0..data).filter(|&i| which(i)).map(|i| i * tensor + rank % tensor).collect()
        };
        let place = rank / tensor;
        match group {
            Group::Tensor => (rank - rank % tensor..).take(tensor as usize).collect(),
            Group::Data => of(&|_| true),
            Group::Expert => of(&|i| i / self.expert == place / self.expert),
            Group::DataOfExperts => of(&|i| i % self.expert == place % self.expert),
        }
    }
}

/// Operation and group of a communication's name; `usual` is the group of one without a suffix.
fn communication(name: &str, usual: Group) -> Option<(Operation, Group)> {
    let (name, group) = match name {
        _ if name.ends_with("_DP_EP") => (name.strip_suffix("_DP_EP")?, Group::DataOfExperts),
        _ if name.ends_with("_EP") => (name.strip_suffix("_EP")?, Group::Expert),
        _ => (name, usual),
    };
    let operation = match name {
        "ALLREDUCE" => Operation::AllReduce,
        "ALLGATHER" => Operation::AllGather,
        "REDUCESCATTER" => Operation::ReduceScatter,
        "ALLTOALL" => Operation::AllToAll,
        "BROADCAST" => Operation::Broadcast,
        _ => return None,
    };
    Some((operation, group))
}

/// A word as a number.
fn number<T: FromStr>(word: Option<&str>, what: &str) -> Result<T, String> {
    let word = word.ok_or_else(|| format!("ends where {what} belongs"))?;
    word.parse().map_err(|_| format!("{} is not {what}, a whole number", quoted(word)))
}

/// The line of a layer.
fn layer(text: &str) -> Result<Layer, String> {
    let mut words = text.split_whitespace();
    words.next();
    number::<i64>(words.next(), "a dependency")?;
    let mut pass = |usual| -> Result<Pass, String> {
        let compute = number(words.next(), "a time")?;
        let name = words.next().ok_or("ends where a communication belongs")?;
        let bytes: u64 = number(words.next(), "a size")?;
        let known = communication(name, usual);
        if known.is_none() && name != "NONE" {
            return Err(format!("{} is no communication that is known, such as \"ALLREDUCE\"", quoted(name)));
        }
        let communication = known.filter(|_| bytes > 0).map(|(operation, group)| (operation, group, bytes));
        Ok(Pass { compute, communication })
    };
    let passes = [pass(Group::Tensor)?, pass(Group::Tensor)?, pass(Group::Data)?];
    number::<u64>(words.next(), "the time of an update")?;
    Ok(passes)
}

/// A rank's operations while they are put together.
struct Building<'a> {
    shape: &'a Shape,
    rank: u32,
    ops: Vec<Op>,
    /// The collectives of all ranks, each by what is communicated when, and the first rank of its group.
    known: &'a mut BTreeMap<(usize, u32), u32>,
    collectives: &'a mut Vec<Collective>,
    /// Communications so far: they are the same of all ranks.
    step: usize,
}

impl Building<'_> {
    /// Computes and communicates after an operation; the last one of both.
    fn pass(&mut self, pass: Pass, after: Option<u32>, least: u64) -> (Option<u32>, Option<u32>) {
        let add = |ops: &mut Vec<Op>, kind, after: Option<u32>| {
            ops.push(Op { kind, after: after.into_iter().collect() });
            Some(ops.len() as u32 - 1)
        };
        let mut last = after;
        if pass.compute > 0 {
            last = add(&mut self.ops, Kind::Compute { time: pass.compute * NS, stream: None }, last);
        }
        let computed = last;
        if let Some((operation, group, bytes)) = pass.communication {
            self.step += 1;
            let members = self.shape.group(group, self.rank);
            if members.len() > 1 {
                let collectives = &mut *self.collectives;
                let which = *self.known.entry((self.step, members[0])).or_insert_with(|| {
                    let members: Arc<[u32]> = members.into();
                    collectives.push(Collective { operation, members, bytes: bytes.max(least) });
                    collectives.len() as u32 - 1
                });
                last = add(&mut self.ops, Kind::Collective(which), last);
            }
        }
        (computed, last)
    }
}

fn parse<R: BufRead>(mut lines: Lines<R>, hosts: u32) -> Result<Read, String> {
    let first = lines.next()?.unwrap_or_default().to_string();
    let words: Vec<&str> = first.split_whitespace().collect();
    if words.first() != Some(&KIND) {
        let found = quoted(words.first().unwrap_or(&""));
        return Err(lines.wrong(format!("{found} is not simulated: \"{KIND}\" is")));
    }
    let mut named = BTreeMap::new();
    for pair in words.windows(2) {
        let key = pair[0].trim_end_matches(':');
        if let Ok(value) = pair[1].parse::<u64>() {
            named.insert(key.to_string(), value);
        }
    }
    let of =
        |key: &str, otherwise: u64| named.get(key).copied().unwrap_or(otherwise).clamp(1, u64::from(u32::MAX)) as u32;
    let all = of("all_gpus", hosts.into());
    let (tensor, expert, pipeline) = (of("model_parallel_NPU_group", 1), of("ep", 1), of("pp", 1));
    let wrong = |what: String| Err(lines.wrong(what));
    if !all.is_multiple_of(tensor) || !(all / tensor).is_multiple_of(expert) {
        return wrong(format!("{all} ranks are no multiple of {tensor} (tensor) times {expert} (expert parallel)"));
    }
    if u64::from(all) > super::MAX_RANKS {
        return wrong(format!("{all} ranks are more than {}", super::MAX_RANKS));
    }
    let shape = Shape { tensor, expert, ranks: all };
    let mut left_out = Vec::new();
    let mut leave_out = |if_so: bool, what: &str| left_out.extend(if_so.then(|| what.to_string()));
    leave_out(
        pipeline > 1,
        "messages between stages of the pipeline (pp, pp_comm): as in SimAI all ranks run all layers",
    );
    leave_out(
        ["checkpoints", "checkpoint_initiates"].iter().any(|key| named.get(*key).is_some_and(|n| *n > 0)),
        "a second forward pass from checkpoints on (checkpoints, checkpoint_initiates)",
    );
    let count: usize = {
        let line = lines.next()?.unwrap_or_default().to_string();
        line.parse().map_err(|_| lines.wrong(format!("{} is not the number of layers", quoted(&line))))?
    };
    let mut layers: Vec<Layer> = Vec::new();
    while layers.len() < count {
        let Some(text) = lines.next()?.map(str::to_string) else {
            return Err(lines.wrong(format!("{} of {count} layers are there", layers.len())));
        };
        if (layers.len() + 1) * 6 * shape.ranks as usize > MAX_OPS {
            return Err(lines.wrong(format!("is beyond the {MAX_OPS} operations that are possible")));
        }
        layers.push(layer(&text).map_err(|wrong| lines.wrong(wrong))?);
    }
    let (mut known, mut collectives, mut ranks) = (BTreeMap::new(), Vec::new(), Vec::new());
    for rank in 0..shape.ranks {
        let (known, collectives) = (&mut known, &mut collectives);
        let mut building = Building { shape: &shape, rank, ops: vec![], known, collectives, step: 0 };
        let mut last = None;
        for [forward, ..] in &layers {
            (_, last) = building.pass(*forward, last, LEAST_FORWARD);
        }
        for [_, inputs, weights] in layers.iter().rev() {
            (_, last) = building.pass(*inputs, last, 1);
            // Whoever goes on has computed, and does not wait for the communication.
            (last, _) = building.pass(*weights, last, 1);
        }
        ranks.push(building.ops);
    }
    Ok(Read { ranks, collectives, left_out })
}

#[cfg(test)]
pub(super) fn parse_text(text: &str, ranks: u32) -> Result<Read, String> {
    parse(Lines::new("file", std::io::Cursor::new(text.as_bytes())), ranks)
}
