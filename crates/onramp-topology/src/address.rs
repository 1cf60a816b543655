//! Addresses and ports as they are on the wire: the cluster's, and those of simulated captures.

use super::PortId;
use std::net::Ipv4Addr;

/// Port that all hosts take TCP connections at.
pub const LISTEN: u16 = 5000;
/// First port of the connecting sides.
pub const FIRST: u16 = 10_000;
/// UDP port that OR-ACKs go to.
pub const OR_ACK: u16 = 9471;

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
pub fn mac(port: PortId) -> [u8; 6] {
    let [a, b, c, d] = port.to_be_bytes();
    [2, 0, a, b, c, d]
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
