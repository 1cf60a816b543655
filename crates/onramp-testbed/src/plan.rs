//! The cluster a scenario asks for: names, numbers and addresses. Pure.

pub use onramp_topology::address::{FIRST, LISTEN, OR_ACK, address, host_at, mac};
use onramp_topology::{NodeId, PortId, Topology};
use std::net::Ipv4Addr;

/// Every interface's neighbour has this address: routes only need to name the
/// interface, and one permanent neighbour does for all of them.
pub const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);

/// Interface number of a host's only link; 1 is the loopback.
pub const HOST_INTERFACE: u32 = 2;

/// Interface number of a port in its node's namespace.
pub fn interface(topology: &Topology, port: PortId) -> u32 {
    let own = topology.ports_of(topology.ports()[port as usize].from);
    HOST_INTERFACE + own.iter().position(|&p| p == port).expect("a port is one of its node's") as u32
}

/// Longest name of an interface.
const NAME: usize = 15;

/// Name of a port's interface: "eth0" in a host, in a switch the neighbour's name, or its number where that is long.
pub fn interface_name(topology: &Topology, port: PortId) -> String {
    let p = &topology.ports()[port as usize];
    let name = topology.name(p.to);
    match name.len() {
        _ if is_host(topology, p.from) => "eth0".into(),
        ..=NAME => name.into(),
        _ => format!("node{}", p.to),
    }
}

/// Returns true if a node is a host.
pub fn is_host(topology: &Topology, node: NodeId) -> bool {
    (node as usize) < topology.hosts()
}
