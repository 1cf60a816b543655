//! Queueing disciplines: installing them and reading what they count.

use crate::message::{Message, attr, text, u32_at, u64_at};
use crate::socket::{Result, Socket};

const TCA_STATS2: u16 = 7;
const TCA_STATS_BASIC: u16 = 1;
const TCA_STATS_QUEUE: u16 = 3;
const TCA_STATS_APP: u16 = 4;

/// The parent of an interface's root.
pub const ROOT: u32 = 0xffff_ffff;

/// A handle or class from its two halves: `handle(1, 0)` is `1:`.
pub const fn handle(major: u16, minor: u16) -> u32 {
    (major as u32) << 16 | minor as u32
}

/// Attribute of queueing disciplines and filters: their kind.
pub const TCA_KIND: u16 = 1;
/// Attribute of queueing disciplines and filters: the options of their kind.
pub const TCA_OPTIONS: u16 = 2;

/// Where a queueing discipline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Interface.
    pub index: u32,
    /// The class above it, or [`ROOT`].
    pub parent: u32,
    /// Its own handle; 0 lets the kernel choose.
    pub handle: u32,
}

impl Place {
    /// `struct tcmsg`.
    fn head(&self) -> [u8; 20] {
        let mut bytes = [0; 20];
        bytes[4..8].copy_from_slice(&self.index.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.handle.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.parent.to_ne_bytes());
        bytes
    }
}

/// Installs a queueing discipline, in place of what is there; `options` appends
/// the attributes inside `TCA_OPTIONS`.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn replace(socket: &mut Socket, place: Place, kind: &str, options: impl FnOnce(Message) -> Message) -> Result<()> {
    let what = format!("qdisc {kind} on interface {}", place.index);
    let message = Message::new(libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, what);
    socket.request(message.push(&place.head()).text(TCA_KIND, kind).nested(TCA_OPTIONS, options))
}

/// As [`replace`], for a kind whose options are one structure (`bfifo`, `pfifo`).
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn replace_plain(socket: &mut Socket, place: Place, kind: &str, options: &[u8]) -> Result<()> {
    let what = format!("qdisc {kind} on interface {}", place.index);
    let message = Message::new(libc::RTM_NEWQDISC, libc::NLM_F_CREATE | libc::NLM_F_REPLACE, what);
    let message = message.push(&place.head()).text(TCA_KIND, kind);
    socket.request(if options.is_empty() { message } else { message.attr(TCA_OPTIONS, options) })
}

/// Removes a queueing discipline.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn delete(socket: &mut Socket, place: Place) -> Result<()> {
    let message = Message::new(libc::RTM_DELQDISC, 0, format!("delete a qdisc of interface {}", place.index));
    socket.request(message.push(&place.head()))
}

/// A queueing discipline with its counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// Interface.
    pub index: u32,
    /// Its handle.
    pub handle: u32,
    /// The class above it, or [`ROOT`].
    pub parent: u32,
    /// Its kind.
    pub kind: String,
    /// Bytes that left it.
    pub bytes: u64,
    /// Packets that left it.
    pub packets: u64,
    /// Packets waiting.
    pub queued_packets: u32,
    /// Bytes waiting.
    pub queued_bytes: u32,
    /// Packets dropped.
    pub drops: u32,
    /// Counters that only this kind has.
    pub extra: Vec<u8>,
}

/// All queueing disciplines of the socket's namespace.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn list(socket: &mut Socket) -> Result<Vec<Qdisc>> {
    let message = Message::new(libc::RTM_GETQDISC, libc::NLM_F_DUMP, "list of qdiscs");
    let place = Place { index: 0, parent: 0, handle: 0 };
    Ok(socket.query(message.push(&place.head()))?.iter().filter_map(|bytes| parse(bytes)).collect())
}

/// One queueing discipline, by interface and handle.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn get(socket: &mut Socket, index: u32, handle: u32) -> Result<Option<Qdisc>> {
    // Without NLM_F_ECHO the kernel answers only those who listen for changes.
    let message = Message::new(libc::RTM_GETQDISC, libc::NLM_F_ECHO, format!("qdisc {handle:x} of interface {index}"));
    let place = Place { index, parent: 0, handle };
    Ok(socket.query(message.push(&place.head()))?.first().and_then(|bytes| parse(bytes)))
}

fn parse(bytes: &[u8]) -> Option<Qdisc> {
    let attributes = bytes.get(20..)?;
    let mut found = Qdisc {
        index: u32_at(bytes, 4)?,
        handle: u32_at(bytes, 8)?,
        parent: u32_at(bytes, 12)?,
        kind: text(attr(attributes, TCA_KIND)?),
        ..Qdisc::default()
    };
    let stats = attr(attributes, TCA_STATS2).unwrap_or_default();
    // struct gnet_stats_basic ends with a 32-bit count of packets; TCA_STATS_PKT64 is not needed here.
    if let Some(basic) = attr(stats, TCA_STATS_BASIC) {
        (found.bytes, found.packets) = (u64_at(basic, 0)?, u64::from(u32_at(basic, 8)?));
    }
    // struct gnet_stats_queue: qlen, backlog, drops, requeues, overlimits.
    if let Some(queue) = attr(stats, TCA_STATS_QUEUE) {
        (found.queued_packets, found.queued_bytes, found.drops) =
            (u32_at(queue, 0)?, u32_at(queue, 4)?, u32_at(queue, 8)?);
    }
    found.extra = attr(stats, TCA_STATS_APP).unwrap_or_default().to_vec();
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::made_up::reply;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_reply_is_a_qdisc_or_none(bytes in reply()) {
            let _ = parse(&bytes);
        }
    }
}
