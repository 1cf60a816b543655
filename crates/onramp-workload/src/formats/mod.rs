//! Formats of distributed programs: each file's comes down to operations of ranks, and says what of it is left out.

pub mod chakra;
pub mod goal;
pub mod goal_binary;
pub mod htsim;
mod pipeline;
pub mod simai;

use super::collective::Operation;
use super::graph::{Kind, Op};
use super::lines::open;
use onramp_config::units::Ps;
use serde::{Deserialize, Serialize};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

/// Most operations of a file, and bytes of a binary one: they are held in memory.
const MAX_OPS: usize = 1 << 26;
const MAX_BYTES: u64 = 4 << 30;
/// Most ranks.
const MAX_RANKS: u64 = 1 << 21;

/// A format of distributed programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// GOAL (Hoefler, Siebert, Lumsdaine, "Group Operation Assembly Language", ICPP'09) as text.
    Goal,
    /// GOAL as LogGOPSim's txt2bin writes it.
    GoalBinary,
    /// Chakra execution traces, schema 1.0: a file for each rank.
    Chakra,
    /// Workloads of SimAI, as AICB writes them.
    Simai,
    /// Connection matrices of htsim, with triggers.
    Htsim,
}

impl Format {
    /// By a file's name.
    pub fn of(file: &str) -> Option<Self> {
        match Path::new(file).extension()?.to_str()? {
            "goal" => Some(Self::Goal),
            "bin" => Some(Self::GoalBinary),
            "et" => Some(Self::Chakra),
            "txt" => Some(Self::Simai),
            "cm" | "tm" => Some(Self::Htsim),
            _ => None,
        }
    }

    /// That a file's name does not tell its format.
    pub fn unknown(file: &str) -> String {
        format!("is needed, as \"{file}\" does not tell: \"goal\", \"goal-binary\", \"chakra\", \"simai\" or \"htsim\"")
    }

    /// Reads a file, relative to `base`.
    ///
    /// # Errors
    /// One line with the place and what is wrong there.
    pub fn read(self, file: &str, base: &Path, ranks: u32) -> Result<Read, String> {
        match self {
            Self::Goal => goal::read(file, base),
            Self::GoalBinary => goal_binary::read(file, base),
            Self::Chakra => chakra::read(file, base, ranks),
            Self::Simai => simai::read(file, base, ranks),
            Self::Htsim => htsim::read(file, base),
        }
    }
}

/// Ranks of a file, which a file that does not say how many reads for `usual`; `None` if its name tells no format.
///
/// # Errors
/// As of [`Format::read`].
pub fn ranks(file: &str, usual: u32) -> Result<Option<usize>, String> {
    let Some(format) = Format::of(file) else { return Ok(None) };
    let base = Path::new(".");
    let ranks = if format == Format::Chakra { chakra::ranks(file, base)? } else { usual };
    Ok(Some(format.read(file, base, ranks)?.ranks.len()))
}

/// Content of a file.
#[derive(Debug, Default)]
pub struct Read {
    /// Operations by rank.
    pub ranks: Vec<Vec<Op>>,
    /// Collectives that they name.
    pub collectives: Vec<Collective>,
    /// Parts of the file that are not simulated, a sentence each.
    pub left_out: Vec<String>,
}

/// A collective as files name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The operation.
    pub operation: Operation,
    /// Ranks.
    pub members: Arc<[u32]>,
    /// The whole buffer \[bytes\].
    pub bytes: u64,
}

/// Operations of which each collective comes after the one before.
pub fn in_turn(mut ops: Vec<Op>) -> Vec<Op> {
    let mut last = None;
    for (number, op) in (0..).zip(&mut ops).filter(|(_, op)| matches!(op.kind, Kind::Collective(_))) {
        if let Some(last) = last.replace(number)
            && !op.after.contains(&last)
        {
            op.after.push(last);
        }
    }
    ops
}

/// Operations whose computations take `scale` times as long.
pub fn scaled(mut ops: Vec<Op>, scale: f64) -> Vec<Op> {
    if scale != 1.0 {
        for op in &mut ops {
            if let Kind::Compute { time, .. } = &mut op.kind {
                *time = (*time as f64 * scale).round() as Ps;
            }
        }
    }
    ops
}

/// Bytes of a message, at most as many as of a flow.
fn message_bytes(bytes: u64) -> Result<u64, String> {
    let most = crate::MAX_BYTES;
    if bytes <= most { Ok(bytes) } else { Err(format!("{bytes} bytes are more than the {most} of a message")) }
}

/// A binary file.
fn content(file: &str, base: &Path) -> Result<Vec<u8>, String> {
    let cannot = |e: std::io::Error| format!("cannot read \"{file}\": {e}");
    let opened = open(file, base)?;
    let length = opened.metadata().map_err(cannot)?.len();
    if length > MAX_BYTES {
        return Err(format!("cannot read \"{file}\": it is larger than 4 GiB"));
    }
    let mut bytes = Vec::with_capacity(length as usize);
    opened.take(MAX_BYTES).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
