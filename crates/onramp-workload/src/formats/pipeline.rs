//! Schedules of pipeline parallelism: the order in which a stage runs its microbatches.
//!
//! One forward, one backward (1F1B; PipeDream, SOSP'19), which Megatron-LM runs: a stage first goes forward as often as
//! the stages behind it need to be busy, then forward and back in turn. A stage with several chunks of layers has them
//! interleaved (Narayanan et al., SC'21; Megatron's `forward_backward_pipelining_with_interleaving`): the stages take
//! turns `chunks` times on the way through the model, and of `stages` microbatches each goes through a chunk before the
//! first of them goes through the next.
//!
//! Where passes take the same time everywhere and messages none, stages are idle for (stages - 1) / (microbatches ·
//! chunks + stages - 1) of it.

/// Numbers of a pipeline, each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pipeline {
    /// Stages: groups of ranks with layers of their own.
    pub stages: u32,
    /// Chunks of layers of each stage.
    pub chunks: u32,
    /// Microbatches of an iteration; with several chunks a multiple of `stages`.
    pub microbatches: u32,
}

/// A pass of a stage over one of its chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// True on the way back.
    pub back: bool,
    /// Which of the stage's chunks.
    pub chunk: u32,
    /// Which microbatch.
    pub microbatch: u32,
}

/// A message from a chunk to the next one on the way: the stage at its other end, and its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Stage at the other end.
    pub stage: u32,
    /// Label: each is there once between two ranks.
    pub tag: u32,
}

impl Pipeline {
    /// The passes of a stage, in order.
    pub fn passes(self, stage: u32) -> Vec<Pass> {
        let Self { stages, chunks, microbatches } = self;
        let total = chunks * microbatches;
        let behind = stages - 1 - stage;
        let ahead = if chunks == 1 { behind } else { 2 * behind + (chunks - 1) * stages }.min(total);
        let pass = |number: u32, back: bool| {
            let (round, inside) = (number / (stages * chunks), number % (stages * chunks));
            let chunk = inside / stages;
            let chunk = if back { chunks - 1 - chunk } else { chunk };
            Pass { back, chunk, microbatch: round * stages + inside % stages }
        };
        let first = (0..ahead).map(|number| pass(number, false));
        let turns = (ahead..total).flat_map(|number| [pass(number, false), pass(number - ahead, true)]);
        first.chain(turns).chain((total - ahead..total).map(|number| pass(number, true))).collect()
    }

    /// Chunks on the way through the model before one of a stage.
    fn place(self, stage: u32, chunk: u32) -> u32 {
        chunk * self.stages + stage
    }

    /// True if a chunk of a stage is the first of the model.
    pub fn is_first(self, stage: u32, chunk: u32) -> bool {
        self.place(stage, chunk) == 0
    }

    /// True if a chunk of a stage is the last of the model.
    pub fn is_last(self, stage: u32, chunk: u32) -> bool {
        self.place(stage, chunk) + 1 == self.stages * self.chunks
    }

    /// Messages of a pass of a stage: the one it waits for, and the one it sends.
    pub fn hops(self, stage: u32, pass: Pass) -> [Option<Hop>; 2] {
        let all = self.stages * self.chunks;
        let place = self.place(stage, pass.chunk);
        // Labelled by the chunk that is nearer to the model's end.
        let hop = |other: u32| Hop {
            stage: other % self.stages,
            tag: (pass.microbatch * all + other.max(place)) * 2 + u32::from(pass.back),
        };
        let [before, behind] = [place.checked_sub(1), Some(place + 1).filter(|next| *next < all)];
        let ways = if pass.back { [behind, before] } else { [before, behind] };
        ways.map(|other| other.map(hop))
    }
}
