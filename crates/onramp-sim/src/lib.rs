//! A packet-level datacenter simulator with On-Ramp at every sender's edge.
//!
//! Deterministic: the same scenario and seed give the same bytes on every
//! machine and in every build. Time is a `u64` of picoseconds; every kind of
//! randomness has a stream of its own, so that switching On-Ramp on does not
//! change an arrival.
//!
//! A packet's way: [`workload`] makes a flow arrive; [`host`] sends its packets
//! when its [`transport`] and the [`edge`] (On-Ramp) allow; [`network`] queues,
//! marks and delays them over a [`topology`]; [`events`] keeps the order;
//! [`measure`] writes down what happened; [`sim`] ties it together.

pub mod clock;
pub mod edge;
pub mod events;
pub mod host;
pub mod measure;
pub mod network;
mod prefetch;
pub mod random;
pub mod scenario;
pub mod sim;
mod slab;
pub mod topology;
pub mod transport;
pub mod units;
pub mod workload;

pub use scenario::{Scenario, ScenarioError};
pub use sim::Simulation;
