//! The cluster a scenario asks for: names, numbers and addresses. Pure.

use onramp_netlink::link::Mac;
use onramp_sim::topology::{NodeId, PortId, Topology};
use std::net::Ipv4Addr;

/// Every interface's neighbour has this address: routes only need to name the
/// interface, and one permanent neighbour does for all of them.
pub const NEIGHBOUR: Ipv4Addr = Ipv4Addr::new(169, 254, 0, 1);

/// Interface number of a host's only link; 1 is the loopback.
pub const HOST_INTERFACE: u32 = 2;

/// Address of a host: 10.0.0.1, 10.0.0.2, …; no last byte is 0 or 255.
pub fn address(host: u32) -> Ipv4Addr {
    let [_, _, high, low] = (host / 254 * 256 + host % 254 + 1).to_be_bytes();
    Ipv4Addr::new(10, 0, high, low)
}

/// The host with an address.
pub fn host_at(address: Ipv4Addr) -> u32 {
    let [_, _, high, low] = address.octets();
    u32::from(high) * 254 + u32::from(low) - 1
}

/// Ethernet address of a port.
pub fn mac(port: PortId) -> Mac {
    let [a, b, c, d] = port.to_be_bytes();
    [2, 0, a, b, c, d]
}

/// Interface number of a port in its node's namespace.
pub fn interface(topology: &Topology, port: PortId) -> u32 {
    let own = topology.ports_of(topology.ports()[port as usize].from);
    HOST_INTERFACE + own.iter().position(|&p| p == port).expect("a port is one of its node's") as u32
}

/// Name of a port's interface: "eth0" in a host, the neighbour's name in a switch.
pub fn interface_name(topology: &Topology, port: PortId) -> String {
    let p = &topology.ports()[port as usize];
    if is_host(topology, p.from) { "eth0".into() } else { topology.name(p.to).into() }
}

/// Whether a node is a host.
pub fn is_host(topology: &Topology, node: NodeId) -> bool {
    (node as usize) < topology.hosts()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_all_different_and_lead_back_to_their_host() {
        assert_eq!(address(0), Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(address(253), Ipv4Addr::new(10, 0, 0, 254));
        assert_eq!(address(254), Ipv4Addr::new(10, 0, 1, 1));
        assert!((0..2000).all(|host| host_at(address(host)) == host));
    }
}
