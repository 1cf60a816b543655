//! Rules as programs read them.

use super::{Cgroup, List, Network, Ports, Rule};
use crate::abi::{self, or_address, or_place, or_scope};
use bytemuck::Zeroable as _;
use ipnet::IpNet;
use std::net::Ipv6Addr;

/// Places that a rule takes in a table.
#[must_use]
pub fn places(rule: &Rule) -> usize {
    rule.to.0.len().max(1) * rule.port.0.len().max(1)
}

/// The table of rules that [are right](super::mistakes), with the ids of those cgroups that there are. A rule whose cgroup is
/// not there has no place: it matches nothing.
#[must_use]
pub fn table(rules: &[Rule], id: impl Fn(&Cgroup) -> Option<u64>) -> or_scope {
    let mut table = or_scope::zeroed();
    for (i, rule) in rules.iter().enumerate().take(super::MAX_RULES) {
        table.holds |= u32::from(rule.hold) << i;
        table.key[i] = key(rule);
        let cgroup = match &rule.cgroup {
            None => (0, 0),
            Some(cgroup) => match id(cgroup) {
                Some(id) => (id, cgroup.level()),
                None => continue,
            },
        };
        for network in each(&rule.to) {
            for ports in each(&rule.port) {
                if let Some(place) = table.place.get_mut(table.places as usize) {
                    *place = at(i, rule, cgroup, network, ports);
                    table.places += 1;
                }
            }
        }
    }
    table
}

/// The values of a condition, or that there is none.
fn each<T: Copy>(all: &List<T>) -> impl Iterator<Item = Option<T>> + '_ {
    let none = all.is_empty().then_some(None);
    all.0.iter().copied().map(Some).chain(none)
}

fn at(
    number: usize,
    rule: &Rule,
    (cgroup, level): (u64, u32),
    network: Option<Network>,
    ports: Option<Ports>,
) -> or_place {
    let any = or_address { word: [0; 4] };
    let (network, mask, family) = network.map_or((any, any, 0), |Network(net)| {
        let (bits, family) = match net {
            IpNet::V4(v4) => (96 + v4.prefix_len(), 4),
            IpNet::V6(v6) => (v6.prefix_len(), 6),
        };
        let mask = Ipv6Addr::from(u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0));
        (net.network().into(), words(mask), family)
    });
    let carried = rule.protocol.map_or(0, |protocol| u16::from(protocol.number()));
    let of = |value: u16| if value == 0 { 0 } else { 0xff };
    let ports = ports.unwrap_or(Ports { first: 0, last: u16::MAX });
    or_place {
        network,
        mask,
        dscps: rule.dscp.0.iter().map(|dscp| 1 << dscp.0).reduce(|a: u64, b| a | b).unwrap_or(u64::MAX),
        cgroup,
        level,
        first: ports.first,
        last: ports.last,
        kind: carried << 8 | family,
        kind_mask: of(carried) << 8 | of(family),
        rule: number as u32,
    }
}

/// As it is, also where it is below the addresses of IPv4.
fn words(mask: Ipv6Addr) -> or_address {
    let octets = mask.octets();
    or_address { word: std::array::from_fn(|i| u32::from_ne_bytes(std::array::from_fn(|j| octets[4 * i + j]))) }
}

/// A rule that says the same has the same key, in the programs of another agent, too.
fn key(rule: &Rule) -> u64 {
    let text = format!("{}: {rule}", rule.name.as_deref().unwrap_or_default());
    let hash = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    u64::from_ne_bytes(std::array::from_fn(|i| hash.as_ref()[i]))
}

const _: () = assert!(abi::OR_RULES == 32, "or_scope::holds has a bit for each");
