//! Packets, links and switches. Nothing here knows a transport.

pub mod buffer;
pub mod config;
pub mod ecn;
mod order;
pub mod packet;
pub mod path;
pub mod port;
pub mod router;
pub mod schedule;
mod switch;

pub use packet::{Kind, Packet};
pub use switch::{Counts, Network, Part};
