//! Blocks read from and written to the disks of other hosts, by NVMe over TCP.
//!
//! On Linux it is the kernel's; the simulator has the messages of the NVMe/TCP transport specification 1.0,
//! without digests: a command capsule, and for a read the data and a response capsule, for a write the
//! data with the command if there is room in a capsule, or else when the target asks for them.

use super::Section;
use super::exchange::{Between, Content, Pace, Peers, Session, Sizes, one};
use crate::config::units::{Bytes, Rate, SEC, Span};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Largest block: what the kernel asks for in one piece.
pub const LARGEST: Bytes = Bytes(1 << 20);
/// Blocks that are asked for at a time on a connection at most: the kernel's queues have 128 places, of which one stays
/// free.
pub const DEPTH: u32 = 127;
/// Blocks have a multiple of so many bytes.
pub const BLOCK: u64 = 4096;
/// A command capsule: 8 bytes of common header, 64 of a command.
const COMMAND: u64 = 72;
/// A response capsule (8 and 16 bytes), a request for data (R2T), and what goes before data: 24 bytes each.
const HEADER: u64 = 24;
/// Data that a command capsule has room for: four pages, the kernel's default.
const IN_CAPSULE: u64 = 16 << 10;

/// Blocks read and written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Clients: hosts, or groups of them, by name.
    pub from: Vec<String>,
    /// Servers, each with a disk.
    pub to: Vec<String>,
    /// Only so many of the clients, the first ones. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Whether a client uses the disks of all servers or of one. Default "one".
    #[serde(default = "one_server")]
    pub peers: Peers,
    /// Connections (queues) between a client and a server. Default 1.
    #[serde(default = "one")]
    pub connections: u32,
    /// Size of a block, up to a multiple of 4 KiB.
    pub block: Sizes,
    /// Share of blocks that are written, not read. Default 0.
    #[serde(default)]
    pub writes: f64,
    /// Blocks that are asked for at a time on each connection. Default 32.
    #[serde(default = "depth")]
    pub depth: u32,
    /// What a client asks for at most, with all its connections together. Default: what it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// What a block takes in the drive. Default 0.
    #[serde(default)]
    pub drive: Span,
    /// When clients begin. Default: with the warm-up, or at 0 without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// When they stop. Default: at the end of `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
}

fn one_server() -> Peers {
    Peers::One
}

fn depth() -> u32 {
    32
}

impl Config {
    /// Who asks whom, and when.
    pub fn between(&self) -> Between<'_> {
        let &Self { ref from, clients, ref to, peers, connections, start, stop, .. } = self;
        Between { from, clients, to, peers, connections, start, stop }
    }
}

pub(super) fn sessions(config: &Config, section: &Section<'_>, base: &Path) -> Result<Vec<Session>, String> {
    let content = Content::Storage { block: config.block.read(base)?, writes: config.writes };
    config.between().sessions(section, content, config.drive, |sessions| {
        let per_byte = config.rate.map_or(0.0, |rate| 8.0 * SEC as f64 / rate.0 as f64 * sessions);
        Pace::Closed(config.depth, per_byte)
    })
}

/// Bytes of the messages by which a block is read or written, the client's first.
pub(super) fn messages(bytes: u64, write: bool) -> Vec<u64> {
    if !write {
        vec![COMMAND, HEADER + bytes + HEADER]
    } else if bytes <= IN_CAPSULE {
        vec![COMMAND + bytes, HEADER]
    } else {
        vec![COMMAND, HEADER, HEADER + bytes, HEADER]
    }
}
