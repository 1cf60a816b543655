//! IPv4 addresses, routes and neighbours.

use crate::link::Mac;
use crate::message::Message;
use crate::socket::{Result, Socket};
use std::net::Ipv4Addr;

const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTAX_INITCWND: u16 = 11;
/// The gateway is reachable although no address of the interface says so.
const RTNH_F_ONLINK: u8 = 4;
const CREATE: i32 = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

/// Gives an interface an address with a prefix of all 32 bits.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn add(socket: &mut Socket, index: u32, address: Ipv4Addr) -> Result<()> {
    // struct ifaddrmsg: family, prefix length, flags, scope, index.
    let message = Message::new(libc::RTM_NEWADDR, CREATE, format!("address {address}"));
    let message = message.push(&[libc::AF_INET as u8, 32, 0, 0]).push(&index.to_ne_bytes());
    socket.request(message.attr(IFA_LOCAL, &address.octets()).attr(IFA_ADDRESS, &address.octets()))
}

/// Tells which Ethernet address `address` has, for good: nobody asks by ARP.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn add_neighbour(socket: &mut Socket, index: u32, address: Ipv4Addr, mac: Mac) -> Result<()> {
    // struct ndmsg: family, padding, index, state, flags, type.
    let message = Message::new(libc::RTM_NEWNEIGH, CREATE, format!("neighbour {address}"));
    let message = message.push(&[libc::AF_INET as u8, 0, 0, 0]).push(&index.to_ne_bytes());
    let message = message.push(&libc::NUD_PERMANENT.to_ne_bytes()).push(&[0, 0]);
    socket.request(message.attr(NDA_DST, &address.octets()).attr(NDA_LLADDR, &mac))
}

/// Where packets of a route go: a neighbour of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The interface.
    pub index: u32,
    /// The neighbour's address, which need not be on a network of the interface.
    pub gateway: Ipv4Addr,
}

/// Values that the host's own connections take from a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Own {
    /// The address they come from.
    pub source: Ipv4Addr,
    /// Packets they begin with.
    pub initial_window: u32,
}

/// Adds a route over one of `hops`, chosen by flow.
///
/// # Errors
/// The kernel's answer, if it refuses.
pub fn add_route(socket: &mut Socket, destination: Ipv4Addr, prefix: u8, hops: &[Hop], own: Option<Own>) -> Result<()> {
    let on_link = u32::from(RTNH_F_ONLINK);
    let flags = if hops.len() == 1 { on_link } else { 0 };
    // struct rtmsg: family, prefix lengths, tos, table, protocol, scope, type, flags.
    let head = [libc::AF_INET as u8, prefix, 0, 0, libc::RT_TABLE_MAIN, libc::RTPROT_STATIC];
    let mut message = Message::new(libc::RTM_NEWROUTE, CREATE, format!("route to {destination}/{prefix}"))
        .push(&head)
        .push(&[libc::RT_SCOPE_UNIVERSE, libc::RTN_UNICAST])
        .push(&flags.to_ne_bytes());
    if prefix > 0 {
        message = message.attr(RTA_DST, &destination.octets());
    }
    if let Some(own) = own {
        message = message.attr(RTA_PREFSRC, &own.source.octets());
        message = message.nested(RTA_METRICS, |m| m.u32(RTAX_INITCWND, own.initial_window));
    }
    message = match hops {
        [hop] => message.u32(RTA_OIF, hop.index).attr(RTA_GATEWAY, &hop.gateway.octets()),
        _ => message.attr(RTA_MULTIPATH, &hops.iter().flat_map(next_hop).collect::<Vec<_>>()),
    };
    socket.request(message)
}

/// `struct rtnexthop` with its gateway.
fn next_hop(hop: &Hop) -> Vec<u8> {
    let mut bytes = vec![16, 0, RTNH_F_ONLINK, 0];
    bytes.extend(hop.index.to_ne_bytes());
    bytes.extend(8u16.to_ne_bytes());
    bytes.extend(RTA_GATEWAY.to_ne_bytes());
    bytes.extend(hop.gateway.octets());
    bytes
}
