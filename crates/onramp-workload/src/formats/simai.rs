//! Workloads of SimAI, as AICB writes them: layers with computation and communication of the forward pass, of the
//! gradients of inputs and of weights.
//!
//! An iteration goes forward through all layers, each of which computes and then communicates, and back: gradients of
//! inputs, then of weights, whose communication nobody waits for before the end. Times are nanoseconds, sizes whole
//! buffers. Groups: tensor parallel ones are consecutive ranks, data parallel ones those of a stage in the same place
//! of each; expert parallel ones are consecutive of a data parallel one, and the ranks in the same place of these are
//! the last kind, "_DP_EP".
//!
//! With a pipeline (`pp`) its stages are consecutive ranks, and the layers are one stage's: AICB writes its share, once
//! for each microbatch (`ga`), between the embedding and what follows the last layer. The order is `Pipeline`'s.
//! Before the gradients of a layer in `checkpoint_initiates` the forward pass is repeated, from the last of
//! `checkpoints` up to this layer (ASTRA-sim's Workload.cc, `Forward_In_BackPass`).

use super::pipeline::{Hop, Pipeline};
use super::{Collective, MAX_OPS, Read};
use crate::collective::Operation;
use crate::graph::{Kind, Op};
use crate::lines::{Lines, quoted};
use onramp_config::units::NS;
use std::collections::BTreeMap;
use std::io::BufRead;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

/// Parallelism of a training job,
const KIND: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD";
/// and collectives among all ranks, one line after the other.
const MICRO: &str = "MICRO";
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
struct Work {
    compute: u64,
    communication: Option<(Operation, Group, u64)>,
}

/// Place of a layer in the model, which AICB's names tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Begins a microbatch.
    Embedding,
    /// Gradients of the embedding, which the first stage has and the last, whose head shares its weights.
    EmbeddingGradients,
    /// Begins a transformer layer, where the line before is no such.
    Attention,
    /// Follows a microbatch's last transformer layer.
    Head,
    /// Follows the head of each microbatch; listed once, behind all.
    Loss,
    /// Behind all microbatches.
    Optimizer,
    Other,
}

impl Part {
    fn of(name: &str) -> Self {
        match name {
            "embedding_layer" => Self::Embedding,
            "embedding_grads" => Self::EmbeddingGradients,
            _ if name.starts_with("attention") => Self::Attention,
            _ if name.starts_with("final") || name == "embedding_norm" => Self::Head,
            _ if name.starts_with("cross_entropy") => Self::Loss,
            _ if name.starts_with("optimizer") => Self::Optimizer,
            _ => Self::Other,
        }
    }
}

/// A line: its place, and the work of going forward, of gradients of inputs, of gradients of weights.
#[derive(Clone, Copy, Debug)]
struct Layer {
    part: Part,
    work: [Work; 3],
    /// The last column [ns].
    update: u64,
    /// It depends on another layer,
    depends: bool,
    /// and has more columns than these.
    is_wide: bool,
}

/// Numbers of the first line.
struct Shape {
    tensor: u32,
    expert: u32,
    stages: u32,
    ranks: u32,
}

impl Shape {
    /// Ranks of a stage.
    fn of_stage(&self) -> u32 {
        self.ranks / self.stages
    }

    /// The group of a kind that a rank is in.
    fn group(&self, group: Group, rank: u32) -> Vec<u32> {
        let (tensor, first) = (self.tensor, rank / self.of_stage() * self.of_stage());
        let data = self.of_stage() / tensor;
        // Of the stage's ranks in the same place of tensor groups: which of them, and by how many there are.
        let of = |which: &dyn Fn(u32) -> bool| -> Vec<u32> {
            (0..data).filter(|&i| which(i)).map(|i| first + i * tensor + rank % tensor).collect()
        };
        let place = (rank - first) / tensor;
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
    let part = Part::of(words.next().unwrap_or_default());
    let depends = number::<i64>(words.next(), "a dependency")? >= 0;
    let mut work = |usual| -> Result<Work, String> {
        let compute = number(words.next(), "a time")?;
        let name = words.next().ok_or("ends where a communication belongs")?;
        let bytes: u64 = number(words.next(), "a size")?;
        let known = communication(name, usual);
        if known.is_none() && name != "NONE" {
            return Err(format!("{} is no communication that is known, such as \"ALLREDUCE\"", quoted(name)));
        }
        let communication = known.filter(|_| bytes > 0).map(|(operation, group)| (operation, group, bytes));
        Ok(Work { compute, communication })
    };
    let work = [work(Group::Tensor)?, work(Group::Tensor)?, work(Group::Data)?];
    let update = number(words.next(), "the time of an update")?;
    Ok(Layer { part, work, update, depends, is_wide: words.next().is_some() })
}

/// The first line: numbers by their names.
struct Head(BTreeMap<String, Vec<f64>>);

impl Head {
    /// Names that are known.
    const KEYS: [&str; 10] = [
        "model_parallel_NPU_group",
        "ep",
        "expert_parallel_npu_group",
        "pp",
        "vpp",
        "ga",
        "all_gpus",
        "checkpoints",
        "checkpoint_initiates",
        "pp_comm",
    ];

    fn parse(words: &[&str]) -> Self {
        let mut named: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        let mut key = "";
        for word in words {
            match word.parse::<f64>() {
                Ok(value) if !word.starts_with(char::is_alphabetic) => {
                    named.entry(key.into()).or_default().push(value);
                }
                _ => key = word.trim_end_matches(':'),
            }
        }
        Self(named)
    }

    /// A whole number, which AICB writes as "25165824.0" where it has divided.
    fn whole(&self, key: &str) -> Result<Option<u64>, String> {
        let Some(&value) = self.0.get(key).and_then(|values| values.first()) else { return Ok(None) };
        let possible = value >= 0.0 && value <= f64::from(u32::MAX) && value.fract() == 0.0;
        if possible { Ok(Some(value as u64)) } else { Err(format!("{key}: {value} is not a whole number below 2^32")) }
    }

    /// A number of at least 1. Of a 0 SimAI warns, divides by it, or takes it for all ranks (Workload.cc, Sys.cc).
    fn positive(&self, key: &str) -> Result<Option<u32>, String> {
        match self.whole(key)? {
            Some(0) => Err(format!("{key}: 0 is too few, at least 1 is needed")),
            number => Ok(number.map(|number| number as u32)),
        }
    }

    /// A number of at least 1, which is 1 where it is not there.
    fn count(&self, key: &str) -> Result<u32, String> {
        Ok(self.positive(key)?.unwrap_or(1))
    }

    /// A list: how many there are, and these.
    fn list(&self, key: &str, layers: usize) -> Result<Vec<usize>, String> {
        let Some([count, of @ ..]) = self.0.get(key).map(Vec::as_slice) else { return Ok(vec![]) };
        if of.len() as f64 != *count {
            return Err(format!("{key}: {count} layers are announced, and {} named", of.len()));
        }
        let layer = |&number: &f64| {
            let possible = number >= 0.0 && number < layers as f64 && number.fract() == 0.0;
            if possible { Ok(number as usize) } else { Err(format!("{key}: {number} is none of the {layers} layers")) }
        };
        let mut of = of.iter().map(layer).collect::<Result<Vec<_>, _>>()?;
        of.sort_unstable();
        Ok(of)
    }

    /// The checkpoint of each layer before whose gradients the forward pass is repeated.
    fn repeated(&self, layers: usize) -> Result<BTreeMap<usize, usize>, String> {
        let checkpoints = self.list("checkpoints", layers)?;
        let mut repeated = BTreeMap::new();
        let mut done = 0;
        for layer in self.list("checkpoint_initiates", layers)? {
            let from = checkpoints.iter().rfind(|&&from| (done..layer).contains(&from));
            let from = from.ok_or_else(|| {
                format!(
                    "checkpoint_initiates: no checkpoint is between layer {layer} and the one before that initiates"
                )
            })?;
            repeated.insert(layer, *from);
            done = layer + 1;
        }
        Ok(repeated)
    }
}

/// Layers of a microbatch.
struct Microbatch {
    embedding: Range<usize>,
    /// Chunks of transformer layers, as many as the pipeline has.
    chunks: Vec<Range<usize>>,
    head: Range<usize>,
}

/// Places of the transformer layers in a microbatch's lines.
fn transformers(layers: &[Layer], lines: Range<usize>) -> Vec<usize> {
    let is = |at: usize| layers[at].part == Part::Attention;
    lines.clone().filter(|&at| is(at) && !(at > lines.start && is(at - 1))).collect()
}

/// A step of a rank.
enum Step {
    Forward(Vec<usize>),
    Back(Vec<usize>),
    Receive(Hop),
    Send(Hop),
}

/// A workload as it is written.
struct File {
    shape: Shape,
    layers: Vec<Layer>,
    /// See [`Head::repeated`].
    repeated: BTreeMap<usize, usize>,
    pipeline: Pipeline,
    /// Bytes that a rank sends to the next stage.
    activation: u64,
}

impl File {
    /// Lines of each microbatch, and where they end.
    fn microbatches(layers: &[Layer]) -> (Vec<Range<usize>>, usize) {
        let is = |part| move |at: &usize| layers[*at].part == part;
        let starts: Vec<usize> = (0..layers.len()).filter(is(Part::Embedding)).collect();
        let last = starts.last().copied().unwrap_or_default();
        let end = (last..layers.len()).find(|at| is(Part::Loss)(at) || is(Part::Optimizer)(at));
        let end = end.unwrap_or(layers.len());
        let ends = starts.iter().skip(1).copied().chain([end]);
        (starts.iter().copied().zip(ends).map(|(from, until)| from..until).collect(), end)
    }

    /// A microbatch of some lines.
    fn microbatch(&self, lines: Range<usize>) -> Microbatch {
        let starts = transformers(&self.layers, lines.clone());
        let begin = starts.first().copied().unwrap_or(lines.start + 1);
        let is_head = |at: &usize| self.layers[*at].part == Part::Head;
        let end = lines.end - (begin..lines.end).rev().take_while(is_head).count();
        let chunks = self.pipeline.chunks as usize;
        let edge = |chunk: usize| if chunk == chunks { end } else { starts[chunk * starts.len() / chunks] };
        let of = |chunk: usize| if chunk == 0 { begin..edge(1) } else { edge(chunk)..edge(chunk + 1) };
        Microbatch { embedding: lines.start..begin, chunks: (0..chunks).map(of).collect(), head: end..lines.end }
    }

    /// Steps of a stage's ranks.
    fn steps(&self, stage: u32) -> Vec<Step> {
        let Self { layers, pipeline, .. } = self;
        let all = layers.len();
        if pipeline.stages == 1 {
            // As SimAI runs it: forward through all microbatches, and back.
            return vec![Step::Forward((0..all).collect()), Step::Back((0..all).collect())];
        }
        let (microbatches, end) = Self::microbatches(layers);
        let begin = microbatches[0].start;
        let microbatches: Vec<Microbatch> = microbatches.into_iter().map(|lines| self.microbatch(lines)).collect();
        let (first, last) = (pipeline.is_first(stage, 0), pipeline.is_last(stage, pipeline.chunks - 1));
        let own = |at: &usize| layers[*at].part != Part::EmbeddingGradients || first || last;
        let before: Vec<usize> = (0..begin).filter(own).collect();
        let (loss, behind): (Vec<usize>, Vec<usize>) = (end..all).partition(|&at| layers[at].part == Part::Loss);
        let mut steps = vec![Step::Forward(before.clone())];
        for pass in pipeline.passes(stage) {
            let Microbatch { embedding, chunks, head } = &microbatches[pass.microbatch as usize];
            let mut lines: Vec<usize> = Vec::new();
            if pipeline.is_first(stage, pass.chunk) {
                lines.extend(embedding.clone());
            }
            lines.extend(chunks[pass.chunk as usize].clone());
            if pipeline.is_last(stage, pass.chunk) {
                lines.extend(head.clone().chain(loss.iter().copied()));
            }
            let [received, sent] = pipeline.hops(stage, pass);
            steps.extend(received.map(Step::Receive));
            steps.push(if pass.back { Step::Back(lines) } else { Step::Forward(lines) });
            steps.extend(sent.map(Step::Send));
        }
        steps.extend([Step::Forward(behind.clone()), Step::Back(behind), Step::Back(before)]);
        steps
    }
}

/// A rank's operations while they are put together.
struct Building<'a> {
    file: &'a File,
    rank: u32,
    ops: Vec<Op>,
    /// The operation that the next one is after.
    last: Option<u32>,
    /// The collectives of all ranks, each by what is communicated when, and the first rank of its group.
    known: &'a mut BTreeMap<(usize, u32), u32>,
    collectives: &'a mut Vec<Collective>,
    /// Communications so far: they are the same of all ranks of a stage.
    step: usize,
}

impl Building<'_> {
    fn add(&mut self, kind: Kind) {
        self.ops.push(Op::new(kind, self.last.into_iter().collect()));
        self.last = Some(self.ops.len() as u32 - 1);
    }

    fn compute(&mut self, work: Work) {
        if work.compute > 0 {
            self.add(Kind::Compute { time: work.compute.saturating_mul(NS), stream: None });
        }
    }

    fn communicate(&mut self, work: Work, least: u64) {
        let Some((operation, group, bytes)) = work.communication else { return };
        self.step += 1;
        let members = self.file.shape.group(group, self.rank);
        if members.len() < 2 {
            return;
        }
        let collectives = &mut *self.collectives;
        let which = *self.known.entry((self.step, members[0])).or_insert_with(|| {
            collectives.push(Collective { operation, members: members.into(), bytes: bytes.max(least) });
            collectives.len() as u32 - 1
        });
        self.add(Kind::Collective(which));
    }

    fn forward(&mut self, lines: &[usize]) {
        for &line in lines {
            let [forward, ..] = self.file.layers[line].work;
            self.compute(forward);
            self.communicate(forward, LEAST_FORWARD);
        }
    }

    fn back(&mut self, lines: &[usize]) {
        for (at, line) in lines.iter().enumerate().rev() {
            if let Some(from) = self.file.repeated.get(line) {
                self.forward(&lines[lines.partition_point(|other| other < from)..at]);
            }
            let [_, inputs, weights] = self.file.layers[*line].work;
            self.compute(inputs);
            self.communicate(inputs, 1);
            // Whoever goes on has computed, and does not wait for the communication.
            self.compute(weights);
            let computed = self.last;
            self.communicate(weights, 1);
            self.last = computed;
        }
    }

    fn step(&mut self, step: &Step) {
        let of_stage = self.file.shape.of_stage();
        let peer = |hop: &Hop| hop.stage * of_stage + self.rank % of_stage;
        let bytes = self.file.activation;
        match step {
            Step::Forward(lines) => self.forward(lines),
            Step::Back(lines) => self.back(lines),
            Step::Receive(hop) => self.add(Kind::Receive { from: peer(hop), bytes, tag: hop.tag }),
            // The stage goes on while the message is under way.
            Step::Send(hop) => self.add(Kind::Send { to: peer(hop), bytes, tag: hop.tag }),
        }
    }
}

/// The pipeline of a file, and what of it is not simulated as it says.
fn pipeline(head: &Head, layers: &[Layer]) -> Result<(Pipeline, Option<String>), String> {
    let (stages, chunks, announced) = (head.count("pp")?, head.count("vpp")?, head.positive("ga")?);
    if stages == 1 {
        return Ok((Pipeline { stages, chunks: 1, microbatches: 1 }, None));
    }
    let (microbatches, _) = File::microbatches(layers);
    let count = microbatches.len() as u32;
    if count == 0 || announced.is_some_and(|announced| announced != count) {
        let each = announced.map_or(String::new(), |ga| format!(" for each of ga: {ga}"));
        return Err(format!("pp: {stages} needs a line \"embedding_layer\"{each}: there are {count}"));
    }
    let even = |lines: &Range<usize>| {
        let layers = transformers(layers, lines.clone()).len();
        layers > 0 && layers.is_multiple_of(chunks as usize)
    };
    let mut left_out = None;
    if chunks > 1 && !microbatches.iter().all(even) {
        left_out = Some(format!("chunks of the stages' layers (vpp: {chunks}), of which the layers are no multiple"));
    } else if chunks > 1 && !count.is_multiple_of(stages) {
        left_out =
            Some(format!("chunks of the stages' layers (vpp: {chunks}): ga: {count} is no multiple of pp: {stages}"));
    }
    let chunks = if left_out.is_some() { 1 } else { chunks };
    Ok((Pipeline { stages, chunks, microbatches: count }, left_out))
}

/// Reason to refuse a file of so many layers, each of which may be `most` operations of a rank.
fn too_many(layers: usize, most: usize, ranks: u32) -> Option<String> {
    let (of_rank, ranks) = (layers.saturating_mul(most).max(1), ranks as usize);
    (of_rank.saturating_mul(ranks) > MAX_OPS).then(|| {
        format!(
            "is beyond the {MAX_OPS} operations that are possible: {ranks} ranks have up to {of_rank} each; {} ranks \
             would fit",
            MAX_OPS / of_rank
        )
    })
}

/// The second line, how many layers there are, and these; how many lines follow. Each may be `most` operations of each
/// rank.
fn read_layers<R: BufRead>(lines: &mut Lines<R>, most: usize, ranks: u32) -> Result<(Vec<Layer>, usize), String> {
    let line = lines.next()?.unwrap_or_default().to_string();
    let count: usize =
        line.parse().map_err(|_| lines.wrong(format!("{} is not the number of layers", quoted(&line))))?;
    if count == 0 {
        return Err(lines.wrong("0 layers are too few, at least 1 is needed"));
    }
    if let Some(wrong) = too_many(count, most, ranks) {
        return Err(lines.wrong(wrong));
    }
    let mut layers = Vec::new();
    while layers.len() < count {
        let Some(text) = lines.next()?.map(str::to_string) else {
            return Err(lines.wrong(format!("{} of {count} layers are there", layers.len())));
        };
        layers.push(layer(&text).map_err(|wrong| lines.wrong(wrong))?);
    }
    let mut behind = 0;
    while lines.next()?.is_some() {
        behind += 1;
    }
    Ok((layers, behind))
}

/// Parts of layers that are left out, and lines `behind` the last one.
fn parts_left_out(layers: &[Layer], behind: usize) -> impl Iterator<Item = String> {
    let update = layers.iter().map(|layer| layer.update).max().unwrap_or_default();
    let (wide, announced) = (layers.iter().filter(|layer| layer.is_wide).count(), layers.len());
    let update = (update > 0).then(|| format!("time after each communication (last column), up to {update} ns"));
    let wide = (wide > 0).then(|| format!("columns behind the 12th, of {wide} layers"));
    let behind = (behind > 0).then(|| format!("{behind} lines behind the {announced} layers that line 2 announces"));
    update.into_iter().chain(wide).chain(behind)
}

/// A benchmark of collectives: those of weight gradients, among all ranks, line after line. SimAI does not run the
/// other columns either (Workload.cc, `iterate_micro_benchmark`); it stops behind the first line.
fn micro<R: BufRead>(mut lines: Lines<R>, ranks: u32) -> Result<Read, String> {
    let (layers, behind) = read_layers(&mut lines, 1, ranks)?;
    let members: Arc<[u32]> = (0..ranks).collect();
    let collective = |layer: &Layer| {
        let (operation, _, bytes) = layer.work[2].communication?;
        Some(Collective { operation, members: members.clone(), bytes })
    };
    let collectives: Vec<Collective> = layers.iter().filter_map(collective).collect();
    let op = |at: u32| Op::new(Kind::Collective(at), at.checked_sub(1).into_iter().collect());
    let ops: Vec<Op> = (0..collectives.len() as u32).map(op).collect();
    let mut left_out: Vec<String> = parts_left_out(&layers, behind).collect();
    // AICB writes 1 where there is none.
    let computed = layers.iter().flat_map(|layer| layer.work.map(|work| work.compute)).max().unwrap_or_default();
    if computed > 1 {
        left_out.push(format!("computations, up to {computed} ns, which MICRO does not have"));
    }
    if layers.iter().any(|layer| layer.work[..2].iter().any(|work| work.communication.is_some())) {
        left_out.push("communication of forward and input gradient passes, which MICRO does not have".into());
    }
    Ok(Read { ranks: vec![ops; ranks as usize], collectives, left_out })
}

fn parse<R: BufRead>(mut lines: Lines<R>, hosts: u32) -> Result<Read, String> {
    let first = lines.next()?.unwrap_or_default().to_string();
    let words: Vec<&str> = first.split_whitespace().collect();
    if words.first() == Some(&MICRO) {
        return micro(lines, hosts);
    }
    if words.first() != Some(&KIND) {
        let found = quoted(words.first().unwrap_or(&""));
        return Err(lines.wrong(format!("{found} is not simulated: \"{KIND}\" and \"{MICRO}\" are")));
    }
    let head = Head::parse(&words[1..]);
    let shape = (|| {
        let all = head.positive("all_gpus")?.unwrap_or(hosts);
        let expert = head.count("ep")?.max(head.count("expert_parallel_npu_group")?);
        Ok(Shape { tensor: head.count("model_parallel_NPU_group")?, expert, stages: head.count("pp")?, ranks: all })
    })();
    let shape = shape.map_err(|wrong: String| lines.wrong(wrong))?;
    let Shape { tensor, expert, stages, ranks: all } = shape;
    let of_stage = |all: u32| all / stages;
    if !all.is_multiple_of(stages)
        || !of_stage(all).is_multiple_of(tensor)
        || !(of_stage(all) / tensor).is_multiple_of(expert)
    {
        let pipeline = if stages > 1 { format!(" times {stages} (pipeline)") } else { String::new() };
        let parts = format!("{tensor} (tensor) times {expert} (expert parallel){pipeline}");
        return Err(lines.wrong(format!("{all} ranks are no multiple of {parts}")));
    }
    if u64::from(all) > super::MAX_RANKS {
        return Err(lines.wrong(format!("{all} ranks are more than {}", super::MAX_RANKS)));
    }
    // Of a layer three computations and communications, the forward ones perhaps twice, and messages of its chunk.
    let most = if stages > 1 { 10 } else { 6 }
        + if head.0.get("checkpoint_initiates").is_some_and(|of| of.len() > 1) { 2 } else { 0 };
    let (layers, behind) = read_layers(&mut lines, most, all)?;
    let wrong = |wrong: String| lines.wrong_at(1, wrong);
    let repeated = head.repeated(layers.len()).map_err(wrong)?;
    let (pipeline, simpler) = pipeline(&head, &layers).map_err(wrong)?;
    // Each microbatch has the loss again.
    let losses = layers.iter().filter(|layer| layer.part == Part::Loss).count();
    let lines_of_all = layers.len().saturating_add(losses.saturating_mul(pipeline.microbatches as usize));
    if let Some(wrong) = too_many(lines_of_all, most, all).filter(|_| stages > 1) {
        return Err(lines.wrong_at(1, wrong));
    }
    let activation = head.whole("pp_comm").map_err(wrong)?.unwrap_or_default();
    let mut left_out: Vec<String> = simpler.into_iter().chain(parts_left_out(&layers, behind)).collect();
    let dependent = layers.iter().filter(|layer| layer.depends).count();
    let mut leave_out = |if_so: bool, what: &dyn Fn() -> String| left_out.extend(if_so.then(what));
    leave_out(stages > 1 && activation == 0, &|| "bytes between stages: pp_comm does not say how many".into());
    leave_out(dependent > 0, &|| format!("dependencies of {dependent} layers (second column): they go in order"));
    let strange = head.0.keys().filter(|key| !Head::KEYS.contains(&key.as_str())).map(|key| quoted(key));
    let strange: Vec<String> = strange.collect();
    leave_out(!strange.is_empty(), &|| format!("{} of the first line", strange.join(", ")));
    let file = File { shape, layers, repeated, pipeline, activation };
    let (mut known, mut collectives, mut ranks) = (BTreeMap::new(), Vec::new(), Vec::new());
    for stage in 0..stages {
        let steps = file.steps(stage);
        for rank in stage * of_stage(all)..(stage + 1) * of_stage(all) {
            let (known, collectives) = (&mut known, &mut collectives);
            let mut building = Building { file: &file, rank, ops: vec![], last: None, known, collectives, step: 0 };
            steps.iter().for_each(|step| building.step(step));
            ranks.push(building.ops);
        }
    }
    Ok(Read { ranks, collectives, left_out })
}

#[cfg(test)]
pub(super) fn parse_text(text: &str, ranks: u32) -> Result<Read, String> {
    parse(Lines::new("file", std::io::Cursor::new(text.as_bytes())), ranks)
}
