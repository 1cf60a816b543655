//! PFC deadlocks: switches' ports that wait for each other in a circle (Hu et al., "Deadlocks in Datacenter Networks",
//! HotNets'16).
//!
//! A paused port goes on once the next switch has sent enough of what came from it. Ports that wait only for ports
//! among themselves therefore wait for ever, whatever else happens. They are what is left when every port that waits
//! for another kind of port is taken out, until none is.

use super::look::Look;
use crate::network::feedback::Feedback;
use onramp_topology::PortId;
use std::collections::{BTreeMap, BTreeSet};

/// A paused class of a switch's port that has packets.
type Held = (PortId, u8);

/// Switches around one circle of ports that wait for ever, the first one at both ends; `None` without a deadlock.
pub(super) fn cycle<F: Feedback>(look: &Look<'_, F>) -> Option<String> {
    let mut waits = waits(look);
    loop {
        let held: BTreeSet<Held> = waits.keys().copied().collect();
        waits.retain(|_, awaited| awaited.is_subset(&held));
        if waits.len() == held.len() {
            break;
        }
    }
    let mut way = vec![*waits.keys().next()?];
    // Each one left waits for others that are left, so that the way comes back to itself.
    let begin = loop {
        let next = *waits[way.last()?].first()?;
        match way.iter().position(|held| *held == next) {
            Some(begin) => break begin,
            None => way.push(next),
        }
    };
    let mut ports: Vec<PortId> = way[begin..].iter().map(|(port, _)| *port).collect();
    let first = ports.iter().enumerate().min_by_key(|(_, port)| **port)?.0;
    ports.rotate_left(first);
    let switches = ports.iter().chain(&ports[..1]).map(|&port| {
        let node = look.topology.ports()[port as usize].from;
        look.topology.name(node)
    });
    Some(switches.collect::<Vec<_>>().join("->"))
}

/// Returns, for every paused class of a switch's port, the classes of the next switch's ports that it waits for: those
/// at which packets that came from it wait.
fn waits<F: Feedback>(look: &Look<'_, F>) -> BTreeMap<Held, BTreeSet<Held>> {
    let mut waits: BTreeMap<Held, BTreeSet<Held>> = BTreeMap::new();
    let ports = look.topology.ports();
    for (held, port) in (0..).zip(ports) {
        if look.topology.is_host(port.from) || look.topology.is_host(port.to) {
            continue;
        }
        let (network, place) = look.port(held);
        let paused = network.held_back(place);
        // The account that paused it is that of its other end.
        let (next, entry) = look.port(port.reverse);
        for class in (1..16).filter(|class| paused >> class & 1 == 1 && next.pauses_upstream(entry, *class)) {
            let own = look.topology.ports_of(port.to).iter().copied();
            let holds = |out: &PortId| next.came_by(look.port(*out).1, class).any(|from| from == entry);
            waits.insert((held, class), own.filter(holds).map(|out| (out, class)).collect());
        }
    }
    waits
}
