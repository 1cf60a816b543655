//! Traffic control over netlink: the queueing disciplines of an interface, and filters.

use onramp_netlink::message::{attr, text, u32_at};
use onramp_netlink::qdisc::{self, Place, TCA_KIND, TCA_OPTIONS};
use onramp_netlink::{Message, Result, Socket};
use std::os::fd::{AsRawFd as _, BorrowedFd};

const TCA_DUMP_INVISIBLE: u16 = 10;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
/// The program's verdict is the filter's.
const TCA_BPF_FLAG_ACT_DIRECT: u32 = 1;
const RTM_NEWTFILTER: u16 = 44;
const RTM_DELTFILTER: u16 = 45;
const RTM_GETTFILTER: u16 = 46;
const TC_H_CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const ETH_P_ALL: u16 = 3;

/// The loopback interface's number, in each network namespace.
pub const LOOPBACK: u32 = 1;
/// Where clsact's filters for arriving packets are.
pub const INGRESS: u32 = 0xffff_fff2;
/// Where clsact's filters for leaving packets are.
pub const EGRESS: u32 = 0xffff_fff3;

/// A queueing discipline as it is configured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Qdisc {
    /// Its kind.
    pub kind: String,
    /// Its handle; 0 if the kernel put it there by itself.
    pub handle: u32,
    /// The class above it, or [`qdisc::ROOT`].
    pub parent: u32,
    /// Its options, as its kind has them.
    pub options: Vec<u8>,
}

/// All queueing disciplines of an interface, also those that `tc` does not show.
///
/// # Errors
/// The kernel refuses.
pub fn qdiscs(socket: &mut Socket, index: u32) -> Result<Vec<Qdisc>> {
    let message = Message::new(libc::RTM_GETQDISC, libc::NLM_F_DUMP, "list of qdiscs");
    let answers = socket.query(message.push(&tcmsg(index, 0, 0, 0)).attr(TCA_DUMP_INVISIBLE, &[]))?;
    Ok(answers.iter().filter(|a| u32_at(a, 4) == Some(index)).filter_map(|a| parse_qdisc(a)).collect())
}

fn parse_qdisc(bytes: &[u8]) -> Option<Qdisc> {
    let attributes = bytes.get(20..)?;
    Some(Qdisc {
        kind: text(attr(attributes, TCA_KIND)?),
        handle: u32_at(bytes, 8)?,
        parent: u32_at(bytes, 12)?,
        options: attr(attributes, TCA_OPTIONS).unwrap_or_default().to_vec(),
    })
}

/// A filter of clsact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Its kind, such as "bpf".
    pub kind: String,
    /// Its priority; low ones run first.
    pub priority: u16,
    /// Its handle.
    pub handle: u32,
    /// The program's name, if it has one.
    pub name: String,
}

/// The filters at [`INGRESS`] or [`EGRESS`]; none where there is no clsact.
///
/// # Errors
/// The kernel refuses.
pub fn filters(socket: &mut Socket, index: u32, hook: u32) -> Result<Vec<Filter>> {
    let message = Message::new(RTM_GETTFILTER, libc::NLM_F_DUMP, "list of filters");
    match socket.query(message.push(&tcmsg(index, 0, hook, 0))) {
        Err(e) if matches!(e.errno(), Some(libc::EINVAL | libc::ENOENT | libc::EOPNOTSUPP)) => Ok(Vec::new()),
        answers => Ok(answers?.iter().filter_map(|a| parse_filter(a)).collect()),
    }
}

fn parse_filter(bytes: &[u8]) -> Option<Filter> {
    let attributes = bytes.get(20..)?;
    let options = attr(attributes, TCA_OPTIONS).unwrap_or_default();
    Some(Filter {
        kind: text(attr(attributes, TCA_KIND)?),
        priority: (u32_at(bytes, 16)? >> 16) as u16,
        handle: u32_at(bytes, 8)?,
        name: attr(options, TCA_BPF_NAME).map(text).unwrap_or_default(),
    })
    // The kernel lists each chain of filters once by itself, without a handle.
    .filter(|f| f.handle != 0)
}

/// Adds a filter of clsact of the kind "bpf", which runs a program. There is none of its priority and handle yet.
///
/// # Errors
/// The kernel refuses.
pub fn add_filter(socket: &mut Socket, index: u32, hook: u32, filter: &Filter, program: BorrowedFd<'_>) -> Result<()> {
    let message = about(RTM_NEWTFILTER, libc::NLM_F_CREATE | libc::NLM_F_EXCL, index, hook, filter);
    socket.request(message.nested(TCA_OPTIONS, |m| {
        let m = m.u32(TCA_BPF_FD, program.as_raw_fd().cast_unsigned()).text(TCA_BPF_NAME, &filter.name);
        m.u32(TCA_BPF_FLAGS, TCA_BPF_FLAG_ACT_DIRECT)
    }))
}

/// Removes a filter of clsact.
///
/// # Errors
/// The kernel refuses.
pub fn delete_filter(socket: &mut Socket, index: u32, hook: u32, filter: &Filter) -> Result<()> {
    socket.request(about(RTM_DELTFILTER, 0, index, hook, filter))
}

fn about(kind: u16, flags: i32, index: u32, hook: u32, filter: &Filter) -> Message {
    let info = u32::from(filter.priority) << 16 | u32::from(ETH_P_ALL.to_be());
    let what = if kind == RTM_NEWTFILTER { "add" } else { "delete" };
    let message = Message::new(kind, flags, format!("{what} filter {}", filter.name));
    message.push(&tcmsg(index, filter.handle, hook, info)).text(TCA_KIND, &filter.kind)
}

/// Adds clsact to an interface; whether it was not there before.
///
/// # Errors
/// The kernel refuses.
pub fn add_clsact(socket: &mut Socket, index: u32) -> Result<bool> {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let message = Message::new(libc::RTM_NEWQDISC, flags, format!("clsact on interface {index}"));
    let done = socket.request(message.push(&tcmsg(index, CLSACT_HANDLE, TC_H_CLSACT, 0)).text(TCA_KIND, "clsact"));
    match done {
        Err(e) if e.errno() == Some(libc::EEXIST) => Ok(false),
        done => done.map(|()| true),
    }
}

/// Removes clsact from an interface.
///
/// # Errors
/// The kernel refuses.
pub fn delete_clsact(socket: &mut Socket, index: u32) -> Result<()> {
    qdisc::delete(socket, Place { index, parent: TC_H_CLSACT, handle: CLSACT_HANDLE })
}

/// `struct tcmsg`.
fn tcmsg(index: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut bytes = [0; 20];
    for (at, word) in [(4, index), (8, handle), (12, parent), (16, info)] {
        bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_the_kernel_says_is_read_or_left_out(bytes in vec(any::<u8>(), 0..200)) {
            let _ = (parse_qdisc(&bytes), parse_filter(&bytes));
        }
    }
}
