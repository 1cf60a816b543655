//! Where the gate cannot cut segments into packets, the interface is given small ones: a pause that ends
//! with a segment of 64 KB ends with a queue (docs/datapath.md, "Pacing and cutting").

use crate::acker;
use crate::config::{Config, Mode};
use onramp_netlink::{Result, Socket, link};

/// In bytes: what the paper finds best (Fig. 19).
pub const SMALL: u32 = 16_384;

/// Whether segments are to be small, where the gate is a program or not.
#[must_use]
pub fn are_small(config: &Config, program: bool) -> bool {
    program && config.cut && config.mode == Mode::Enforce
}

/// The largest segment of an interface, if that is to become smaller.
///
/// # Errors
/// What the kernel answered.
pub fn large(socket: &mut Socket, name: &str) -> Result<Option<u32>> {
    Ok(acker::find(socket, name)?.map(|link| link.gso_max_size).filter(|bytes| *bytes > SMALL))
}

/// Gives an interface small segments.
///
/// # Errors
/// What the kernel answered.
pub fn shrink(socket: &mut Socket, index: u32) -> Result<()> {
    link::set_gso_max_size(socket, index, SMALL)
}

/// Gives an interface the segments again that it had `before`, unless somebody else has changed them since.
///
/// # Errors
/// What the kernel answered.
pub fn restore(socket: &mut Socket, index: u32, before: u32) -> Result<()> {
    let small = link::list(socket)?.iter().any(|link| link.index == index && link.gso_max_size == SMALL);
    if small { link::set_gso_max_size(socket, index, before) } else { Ok(()) }
}
