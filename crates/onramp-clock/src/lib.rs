//! Clock synchronisation by probes between hosts, after Huygens (NSDI'18).
//!
//! Each host probes a few random others ([`mesh`]) with pairs of UDP packets,
//! sent when [`schedule`] says; the probed host answers each at once. What the
//! prober sees is an [`Exchange`]. Pairs whose spacing changed on the way met
//! a queue and are dropped ([`coded`]). Per edge and window, [`fit()`] lays a
//! line between the forward and the backward points that are left: offset and
//! drift of the peer's clock. [`solve()`] makes the offsets of all edges add up
//! to zero around every loop (the network effect) and gives each host a
//! [`Correction`], with the uncertainty that the loops show. [`log`] keeps
//! exchanges and replays them.
//!
//! Nothing here reads a clock. Times are nanoseconds by the clock of the host
//! that took them, modulo 2^64: a clock may be before its 0, so that differences count and
//! not which of two numbers is larger. Two clocks may be years apart, so integers carry
//! offsets and floating point only what is left over.

pub mod coded;
mod correction;
mod exchange;
mod fit;
mod graph;
pub mod log;
mod memory;
pub mod mesh;
mod network;
mod random;
pub mod schedule;
mod svm;

pub use correction::Correction;
pub use exchange::Exchange;
pub use fit::{EdgeFit, FitOptions, fit};
pub use memory::Memory;
pub use network::{Edge, NetworkOptions, Solution, noise, solve};

/// A host's number, chosen by whoever runs the mesh.
pub type HostId = u32;

/// Length of a window, in nanoseconds: the exchanges of one fit.
pub const WINDOW: u64 = 2_000_000_000;
