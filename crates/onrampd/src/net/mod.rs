//! Netlink: the agent's device, filters and queueing disciplines.

pub mod acker;
pub mod tc;
