//! Packets, links and switches. Nothing here knows a transport.

pub(crate) mod buffer;
pub(crate) mod config;
pub(crate) mod ecn;
pub(crate) mod edges;
pub(crate) mod faults;
pub mod feedback;
pub(crate) mod hops;
mod order;
pub(crate) mod packet;
pub mod path;
pub(crate) mod port;
pub(crate) mod schedule;
mod switch;

pub(crate) use order::Order;
pub use packet::{Kind, Packet};
pub use switch::{Counts, Fates, Network, Part, Tally};
