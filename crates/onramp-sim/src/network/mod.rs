//! Packets, links and switches. Nothing here knows a transport.

pub mod buffer;
pub mod ecn;
pub mod int;
pub mod packet;
pub mod port;

pub use packet::{Kind, Packet};
