//! Network interfaces.

use crate::message::{Message, attr, text, u32_at};
use crate::socket::{Result, Socket};
use std::os::fd::{AsRawFd, BorrowedFd};

const IFLA_ADDRESS: u16 = 1;
const IFLA_IFNAME: u16 = 3;
const IFLA_MTU: u16 = 4;
const IFLA_TXQLEN: u16 = 13;
const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
const IFLA_NUM_TX_QUEUES: u16 = 31;
const IFLA_GSO_MAX_SIZE: u16 = 41;
const IFLA_GSO_IPV4_MAX_SIZE: u16 = 63;
const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// One end of a veth pair.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// Interface name.
    pub name: &'a str,
    /// Interface number, which must be free in its namespace.
    pub index: u32,
    /// Where it is put.
    pub namespace: BorrowedFd<'a>,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Largest IP packet, in bytes.
    pub mtu: u32,
    /// Largest segment the stack hands down before it is cut up, in bytes.
    pub gso_max_size: u32,
}

/// `struct ifinfomsg`.
fn head(index: u32, flags: i32, change: i32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4..8].copy_from_slice(&index.to_ne_bytes());
    bytes[8..12].copy_from_slice(&flags.to_ne_bytes());
    bytes[12..16].copy_from_slice(&change.to_ne_bytes());
    bytes
}

impl End<'_> {
    fn describe(&self, message: Message) -> Message {
        message
            .push(&head(self.index, 0, 0))
            .text(IFLA_IFNAME, self.name)
            .attr(IFLA_ADDRESS, &self.mac)
            .u32(IFLA_MTU, self.mtu)
            .u32(IFLA_TXQLEN, 1000)
            .u32(IFLA_GSO_MAX_SIZE, self.gso_max_size)
            .u32(IFLA_NET_NS_FD, self.namespace.as_raw_fd() as u32)
    }
}

/// Makes a pair of interfaces that are each other's cable.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn add_veth(socket: &mut Socket, one: &End<'_>, other: &End<'_>) -> Result<()> {
    let what = format!("veth {} to {}", one.name, other.name);
    let message = Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, what);
    socket.request(one.describe(message).nested(IFLA_LINKINFO, |m| {
        m.text(IFLA_INFO_KIND, "veth").nested(IFLA_INFO_DATA, |m| m.nested(VETH_INFO_PEER, |m| other.describe(m)))
    }))
}

/// Makes a dummy interface.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn add_dummy(socket: &mut Socket, name: &str) -> Result<()> {
    let message = Message::new(libc::RTM_NEWLINK, libc::NLM_F_CREATE | libc::NLM_F_EXCL, format!("dummy {name}"));
    let message = message.push(&head(0, 0, 0)).text(IFLA_IFNAME, name);
    socket.request(message.nested(IFLA_LINKINFO, |m| m.text(IFLA_INFO_KIND, "dummy")))
}

/// Removes an interface.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn delete(socket: &mut Socket, index: u32) -> Result<()> {
    let message = Message::new(libc::RTM_DELLINK, 0, format!("delete interface {index}"));
    socket.request(message.push(&head(index, 0, 0)))
}

/// Switches an interface on.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn up(socket: &mut Socket, index: u32) -> Result<()> {
    let message = Message::new(libc::RTM_NEWLINK, 0, format!("interface {index} up"));
    socket.request(message.push(&head(index, libc::IFF_UP, libc::IFF_UP)))
}

/// Sets the largest segment that the stack hands an interface, in bytes, and that of IPv4, where the kernel has one.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn set_gso_max_size(socket: &mut Socket, index: u32, bytes: u32, ipv4: Option<u32>) -> Result<()> {
    let message = Message::new(libc::RTM_NEWLINK, 0, format!("gso_max_size of interface {index}"));
    let message = message.push(&head(index, 0, 0)).u32(IFLA_GSO_MAX_SIZE, bytes);
    socket.request(match ipv4 {
        Some(bytes) => message.u32(IFLA_GSO_IPV4_MAX_SIZE, bytes),
        None => message,
    })
}

/// An interface as the kernel lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its Ethernet address, if it has one.
    pub mac: Option<Mac>,
    /// True if the link is up.
    pub up: bool,
    /// Largest segment the stack hands down before it is cut up, in bytes.
    pub gso_max_size: u32,
    /// The same of IPv4, where the kernel has one (Linux 6.3).
    pub gso_ipv4_max_size: Option<u32>,
    /// Transmit queues that it may have.
    pub queues: u32,
    /// Its kind, such as "vxlan"; a card has none.
    pub kind: Option<String>,
}

/// All interfaces of the socket's namespace.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn list(socket: &mut Socket) -> Result<Vec<Link>> {
    let message = Message::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, "list of interfaces");
    Ok(socket.query(message.push(&head(0, 0, 0)))?.iter().filter_map(|bytes| parse(bytes)).collect())
}

fn parse(bytes: &[u8]) -> Option<Link> {
    let attributes = bytes.get(16..)?;
    let number = |kind| attr(attributes, kind).and_then(|a| u32_at(a, 0));
    Some(Link {
        index: u32_at(bytes, 4)?,
        name: text(attr(attributes, IFLA_IFNAME)?),
        mac: attr(attributes, IFLA_ADDRESS).and_then(|a| a.try_into().ok()),
        up: u32_at(bytes, 8)? & libc::IFF_UP as u32 != 0,
        gso_max_size: number(IFLA_GSO_MAX_SIZE).unwrap_or(65_536),
        gso_ipv4_max_size: number(IFLA_GSO_IPV4_MAX_SIZE),
        queues: number(IFLA_NUM_TX_QUEUES).unwrap_or(1),
        kind: attr(attributes, IFLA_LINKINFO).and_then(|info| attr(info, IFLA_INFO_KIND)).map(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::made_up::reply;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_reply_is_an_interface_or_none(bytes in reply()) {
            let _ = parse(&bytes);
        }
    }
}
