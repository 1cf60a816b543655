//! Just enough of rtnetlink, synchronously and without dependencies: links,
//! addresses, routes, neighbours and queueing disciplines.
//!
//! [`message`] encodes and decodes and is pure; [`Socket`] talks to the kernel, and [`Watch`]
//! is told of changes.
//! All else builds on the two: one function, one request.

pub mod address;
pub mod link;
pub mod message;
pub mod qdisc;
mod socket;
mod sys;
mod watch;

pub use message::Message;
pub use socket::{Error, Result, Socket};
pub use watch::Watch;
