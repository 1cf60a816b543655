//! The gate: the queueing discipline that holds packets.
//!
//! It is an eBPF program ([`program`]), the module `sch_onramp`, or there is none ([`choose`]).
//! [`install`] puts one on an interface by netlink; [`segments`] has an interface hand it small
//! segments where it cannot cut large ones.

pub mod before;
mod choice;
pub mod install;
pub mod program;
pub mod segments;

pub use choice::{Choice, Gate, choose};

use crate::config::Config;

/// Kind of the module's queueing discipline.
pub const KIND: &str = "onramp";
/// How the kinds of those begin that are eBPF programs: each agent's has one of its own.
pub const PROGRAMS: &str = "onramp_";
/// The gate's own bound on a hold, unless pauses may be longer.
const MAX_HOLD: u64 = 10_000_000;

/// Returns whether a queueing discipline of this kind is a gate.
#[must_use]
pub fn is_gate(kind: &str) -> bool {
    kind == KIND || kind.starts_with(PROGRAMS)
}

/// Nanoseconds after which the gate ends a hold: twice the longest pause, so that it never ends one that
/// is within its bounds.
#[must_use]
pub fn max_hold(config: &Config) -> u64 {
    MAX_HOLD.max(2 * config.params.max_pause)
}
