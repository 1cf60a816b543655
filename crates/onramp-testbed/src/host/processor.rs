//! One processor for each run.
//!
//! The kernel and its processes are processes of the host that take turns, a few
//! hundred thousand times a second. On one processor that takes half the time it
//! takes on two.

use crate::sys;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// Takes a processor that no other run has, for as long as the value lives. Without
/// one, runs share them all.
pub fn take() -> Option<UnixListener> {
    // A name in the abstract namespace has one owner at a time, and vanishes with it.
    let own = |processor: &usize| {
        let name = SocketAddr::from_abstract_name(format!("onramp-testbed-processor-{processor}")).ok()?;
        Some((UnixListener::bind_addr(&name).ok()?, *processor))
    };
    let (lock, processor) = sys::processors().ok()?.iter().find_map(own)?;
    sys::stay_on(processor).ok()?;
    Some(lock)
}
