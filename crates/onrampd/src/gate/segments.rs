//! Where the gate cannot cut segments into packets, the interface is given small ones: a pause that ends
//! with a segment of 64 KB ends with a queue (docs/datapath.md, "Pacing and cutting").

use crate::config::{Config, Mode};
use crate::net::acker;
use onramp_netlink::{Result, Socket, link};
use serde::{Deserialize, Serialize};

/// In bytes: what the paper finds best (Fig. 19).
pub const SMALL: u32 = 16_384;

/// Returns whether segments are to be small, where the gate is a program or not.
#[must_use]
pub fn are_small(config: &Config, program: bool) -> bool {
    program && config.cut && config.mode == Mode::Enforce
}

/// The largest segments of an interface, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Large {
    /// Those of all protocols,
    any: u32,
    /// and of IPv4, where the kernel has that.
    ipv4: Option<u32>,
}

/// The largest segments of an interface, if they are to become smaller.
///
/// # Errors
/// The kernel refuses.
pub fn large(socket: &mut Socket, name: &str) -> Result<Option<Large>> {
    let found = acker::find(socket, name)?.map(|l| Large { any: l.gso_max_size, ipv4: l.gso_ipv4_max_size });
    Ok(found.filter(|large| large.any > SMALL || large.ipv4 > Some(SMALL)))
}

/// Gives an interface small segments.
///
/// # Errors
/// The kernel refuses.
pub fn shrink(socket: &mut Socket, index: u32) -> Result<()> {
    // The kernel has IPv4 follow.
    link::set_gso_max_size(socket, index, SMALL, None)
}

/// Gives an interface the segments again that it had `before`, unless somebody else has changed them since.
///
/// # Errors
/// The kernel refuses.
pub fn restore(socket: &mut Socket, index: u32, before: Large) -> Result<()> {
    let small = link::list(socket)?.iter().any(|link| link.index == index && link.gso_max_size == SMALL);
    if small { link::set_gso_max_size(socket, index, before.any, before.ipv4) } else { Ok(()) }
}
