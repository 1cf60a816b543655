//! A packet-level datacenter simulator with On-Ramp at every sender's edge.
//!
//! Deterministic: the same scenario and seed give the same bytes on every
//! machine and in every build. Time is a `u64` of picoseconds; every kind of
//! randomness has a stream of its own, so that switching On-Ramp on does not
//! change an arrival.
//!
//! A packet's way: [`workload`] makes a flow arrive; a `stack` makes packets of it,
//! and `host` sends them when its congestion control ([`cc`]), shaper and On-Ramp's
//! gate allow; [`network`] queues, marks and delays them over a [`topology`];
//! `engine` keeps the order, cell by cell (`cell`); [`measure`] writes down what
//! happened; `sim` ties it together. A [`scenario`] says what of all this there is,
//! in the terms of [`onramp_config`].
//!
//! ```
//! use onramp_sim::{Scenario, Simulation};
//! use std::path::Path;
//!
//! let text = r#"
//!     duration = "100us"
//!     network = { kind = "star", hosts = 9 }
//!     transport = { kind = "dcqcn" }
//!     [[traffic]]
//!     kind = "incast"
//!     fan_out = 8
//!     size = "20KB"
//!     load = 0.2
//! "#;
//! let (scenario, topology) = Scenario::load(text, "incast.toml", Path::new("."), &[]).map_err(|mut errors| errors.swap_remove(0))?;
//! let mut simulation = Simulation::new(&scenario, topology, Path::new("."))?;
//! simulation.run_to_end();
//! let requests = simulation.take_requests();
//! // Eight answers of 20 packets share a link of 100 Gb/s: 13.4 us, and the way.
//! assert!(!requests.is_empty() && requests.iter().all(|request| request.rct_ps > 13_400_000));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Below it are crates that the Linux cluster uses as well, one way from right to left:
//! [`onramp_config`], [`random`]; [`records`], [`topology`]; [`workload`].
//! So do the folders here, from the end of this list to its beginning:
//! engine; network; cc; stack, measure, clock; host; scenario; cell; sim.

pub mod cc;
mod cell;
pub mod clock;
mod engine;
mod host;
pub mod measure;
pub mod network;
pub mod scenario;
mod sim;
mod stack;

pub use measure::Observer;
pub use onramp_config::units;
pub use scenario::{BuildError, Scenario, ScenarioError, TraceError};
pub use sim::{Options, PacketCounts, Simulation};
// A program that uses the simulator depends on this crate alone.
pub use onramp_random as random;
pub use onramp_records as records;
pub use onramp_topology as topology;
pub use onramp_workload as workload;

/// Structures that benchmarks measure by themselves.
#[doc(hidden)]
pub mod bench {
    pub use crate::host::shaper::wheel::Wheel;
}
