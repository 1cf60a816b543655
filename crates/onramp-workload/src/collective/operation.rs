//! Collective operations: what is done, by which algorithm, and how fast it was.

use super::{direct, halving, pairwise, rendezvous, ring, tree};
use onramp_records::{CollectiveRecord, OperationRecord};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Debug;

/// A collective operation. `bytes` is the size of the whole buffer, as in nccl-tests: what each rank has of an
/// all-reduce, a broadcast or a reduce, what all ranks together have of the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// All ranks get the sum of all buffers.
    AllReduce,
    /// Each rank gets its share of the sum.
    ReduceScatter,
    /// All ranks get the shares of all.
    AllGather,
    /// All ranks get the first rank's buffer.
    Broadcast,
    /// The first rank gets the sum.
    Reduce,
    /// Each rank has a share for every rank.
    AllToAll,
}

use Operation::{AllGather, AllReduce, AllToAll, Broadcast, Reduce, ReduceScatter};

impl Operation {
    /// All, in the order of their codes in records.
    pub const ALL: [Self; 6] = [AllReduce, ReduceScatter, AllGather, Broadcast, Reduce, AllToAll];

    /// Its code in the column `kind` of records.
    pub fn code(self) -> u32 {
        3 + Self::ALL.iter().position(|of| *of == self).expect("all are there") as u32
    }

    /// The operation of a code.
    pub fn of_code(code: u32) -> Option<Self> {
        Self::ALL.get(code.checked_sub(3)? as usize).copied()
    }

    /// Its algorithm where none is named.
    pub fn usual(self) -> Algorithm {
        if self == AllToAll { Algorithm::Direct } else { Algorithm::Ring }
    }

    /// Bus bandwidth over algorithm bandwidth among `n` ranks (nccl-tests, doc/PERFORMANCE.md).
    pub fn bus_factor(self, n: u32) -> f64 {
        let n = f64::from(n);
        match self {
            AllReduce => 2.0 * (n - 1.0) / n,
            ReduceScatter | AllGather | AllToAll => (n - 1.0) / n,
            Broadcast | Reduce => 1.0,
        }
    }

    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            AllReduce => "all-reduce",
            ReduceScatter => "reduce-scatter",
            AllGather => "all-gather",
            Broadcast => "broadcast",
            Reduce => "reduce",
            AllToAll => "all-to-all",
        }
    }
}

/// An algorithm for a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Algorithm {
    /// Each rank sends to the next one only.
    Ring,
    /// Two binary trees, each for half of the data (Sanders, Speck, Träff 2009).
    DoubleBinaryTree,
    /// Pairs at halved, then at doubled distances (Thakur, Rabenseifner, Gropp 2005).
    HalvingDoubling,
    /// All to all at once.
    Direct,
    /// All to all, one peer after the other, once its own message has come.
    Pairwise,
    /// The same, where both ends of a message wait for each other (MPI's rendezvous).
    PairwiseRendezvous,
}

impl Algorithm {
    /// Checks that it does `operation` among `n` ranks.
    ///
    /// # Errors
    /// A sentence with what would be right.
    pub fn check(self, operation: Operation, n: u32) -> Result<(), String> {
        let can = match self {
            Self::Ring => operation != AllToAll,
            Self::DoubleBinaryTree => operation == AllReduce,
            Self::HalvingDoubling => matches!(operation, AllReduce | ReduceScatter | AllGather),
            Self::Direct => matches!(operation, AllToAll | AllGather | ReduceScatter | Broadcast),
            Self::Pairwise | Self::PairwiseRendezvous => operation == AllToAll,
        };
        if !can {
            let usual = operation.usual().name();
            return Err(format!("\"{}\" does no {}: such as \"{usual}\"", self.name(), operation.name()));
        }
        if self == Self::HalvingDoubling && operation != AllReduce && !n.is_power_of_two() {
            let name = operation.name();
            return Err(format!("\"halving-doubling\" does {name} among 2, 4, 8, … ranks, not {n}: such as \"ring\""));
        }
        Ok(())
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ring => "ring",
            Self::DoubleBinaryTree => "double-binary-tree",
            Self::HalvingDoubling => "halving-doubling",
            Self::Direct => "direct",
            Self::Pairwise => "pairwise",
            Self::PairwiseRendezvous => "pairwise-rendezvous",
        }
    }

    /// The part of the rank in place `me` of `n`.
    pub fn member(self, task: Task) -> Box<dyn Member> {
        match self {
            Self::Ring => Box::new(ring::Ring::new(task)),
            Self::DoubleBinaryTree => Box::new(tree::Trees::new(task)),
            Self::HalvingDoubling => Box::new(halving::Halving::new(task)),
            Self::Direct => Box::new(direct::Direct::new(task)),
            Self::Pairwise => Box::new(pairwise::Pairwise::new(task)),
            Self::PairwiseRendezvous => Box::new(rendezvous::Rendezvous::new(task)),
        }
    }

    /// Places that the one in place `me` of `n` sends to.
    pub fn peers(self, operation: Operation, me: u32, n: u32) -> Vec<u32> {
        match self {
            Self::Ring => vec![(me + 1) % n],
            Self::DoubleBinaryTree => tree::peers(me, n),
            Self::HalvingDoubling => halving::peers(me, n),
            Self::Direct if operation == Broadcast && me > 0 => vec![],
            Self::Direct | Self::Pairwise | Self::PairwiseRendezvous => (1..n).map(|d| (me + d) % n).collect(),
        }
    }
}

/// Part of one rank in a collective.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    /// The operation.
    pub operation: Operation,
    /// The rank's place,
    pub me: u32,
    /// of so many.
    pub n: u32,
    /// The buffer \[bytes\].
    pub bytes: u64,
    /// Largest message \[bytes\].
    pub chunk: u64,
}

impl Task {
    /// Size of share `i` of `parts` of the buffer.
    pub fn share(&self, i: u32, parts: u32) -> u64 {
        share(self.bytes, i, parts)
    }

    /// Messages that `bytes` are sent in.
    pub fn pieces(&self, bytes: u64) -> u32 {
        bytes.div_ceil(self.chunk).max(1) as u32
    }

    /// Sends `bytes` of a step to `to`, in pieces.
    pub fn send(&self, to: u32, bytes: u64, step: u32, out: &mut Vec<Piece>) {
        out.extend((0..self.pieces(bytes)).map(|i| self.piece(to, bytes, Label { step, piece: i })));
    }

    /// One piece of `bytes` for `to`.
    pub fn piece(&self, to: u32, bytes: u64, label: Label) -> Piece {
        let begun = u64::from(label.piece) * self.chunk;
        let turn = label.step.wrapping_mul(self.pieces(bytes)).wrapping_add(label.piece);
        // An empty share takes a message all the same: those who wait for it go on.
        Piece { to, bytes: bytes.saturating_sub(begun).min(self.chunk).max(1), label, turn }
    }
}

/// Size of share `i` of `parts` of some bytes.
pub fn share(bytes: u64, i: u32, parts: u32) -> u64 {
    let until = |i: u32| u128::from(bytes) * u128::from(i) / u128::from(parts);
    (until(i + 1) - until(i)) as u64
}

/// Which message of a collective this is; below 2^24 both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Label {
    /// Step of the algorithm.
    pub step: u32,
    /// Piece of what is sent in that step.
    pub piece: u32,
}

/// A message to another rank of a collective, by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Place of its receiver.
    pub to: u32,
    /// Payload \[bytes\], above 0.
    pub bytes: u64,
    /// See [`Label`].
    pub label: Label,
    /// Counts the messages of all steps: queue pairs take turns by it.
    pub turn: u32,
}

/// The part of one rank in a collective: which messages follow which.
pub trait Member: Debug + Send + Sync {
    /// The rank begins.
    fn begin(&mut self, out: &mut Vec<Piece>);
    /// A message has arrived, after [`Member::begin`].
    fn received(&mut self, label: Label, out: &mut Vec<Piece>);
    /// All messages to this rank have arrived.
    fn is_over(&self) -> bool;
}

/// Puts the parts of collectives together.
#[derive(Debug, Default)]
pub struct Gather {
    /// By section and number, what is there, and the ranks that are missing.
    open: BTreeMap<(u32, u64), (CollectiveRecord, u32)>,
}

impl Gather {
    /// Takes a rank's operation; the collective that is complete with it.
    pub fn add(&mut self, part: &OperationRecord) -> Option<CollectiveRecord> {
        let (number, operation) = (part.collective?, Operation::of_code(part.kind)?);
        let &OperationRecord { traffic, kind, ranks, bytes, start_ps, host, .. } = part;
        let new = CollectiveRecord {
            traffic,
            number,
            kind,
            ranks,
            bytes,
            start_ps,
            // The latest start and end until it is complete.
            skew_ps: 0,
            duration_ps: 0,
            last: host,
            algbw: 0.0,
            busbw: 0.0,
        };
        let (all, left) = self.open.entry((traffic, number)).or_insert((new, ranks));
        let end = start_ps + part.duration_ps;
        all.start_ps = all.start_ps.min(start_ps);
        all.skew_ps = all.skew_ps.max(start_ps);
        if end > all.duration_ps {
            (all.duration_ps, all.last) = (end, host);
        }
        *left -= 1;
        if *left > 0 {
            return None;
        }
        let (mut all, _) = self.open.remove(&(traffic, number))?;
        all.skew_ps -= all.start_ps;
        all.duration_ps -= all.start_ps;
        // Bytes in a picosecond are terabytes in a second. A single rank sends nothing, and takes no time.
        if all.ranks > 1 {
            all.algbw = 1000.0 * all.bytes as f64 / all.duration_ps.max(1) as f64;
        }
        all.busbw = all.algbw * operation.bus_factor(all.ranks);
        Some(all)
    }
}
