//! Packets, links and switches. Nothing here knows a transport.

pub mod buffer;
pub mod config;
pub mod ecn;
pub mod feedback;
mod order;
pub mod packet;
pub mod path;
pub mod port;
pub mod schedule;
mod switch;

pub(crate) use order::Order;
pub use packet::{Kind, Packet};
pub use switch::{Counts, Network, Part};
