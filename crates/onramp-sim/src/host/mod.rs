//! Hosts: flows at both ends, and the NIC that sends them.

mod flow;
mod nic;
mod receiver;
mod sender;

pub use flow::{Flow, Flows, NewFlow, RequestPart, Size};
pub use nic::Nic;
