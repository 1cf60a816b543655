//! Links that lose packets: while they are down, or by bit errors. What arrives over such a link goes by here.

use onramp_config::units::Ps;
use onramp_topology::{Cells, Fault, Routes, Topology};
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeMap;

/// Way in which a link loses packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loses {
    /// All of them.
    Everything,
    /// Those with a corrupted bit: its probability.
    Bits(f64),
    /// Any, with this probability.
    Packets(f64),
}

/// A change of a link, or of routes.
#[derive(Clone, Debug)]
pub enum Change {
    /// A fault of the link whose packets arrive at this port begins, or ends.
    Link(u32, Loses, bool),
    /// Switches have other routes.
    Routes(Box<Routes>),
}

/// Faults of a link now.
#[derive(Clone, Debug)]
struct Link {
    down: u32,
    /// Natural logarithm of the probability that a bit is well.
    log_well: f64,
    /// The same of a packet as a whole.
    log_whole: f64,
    random: Pcg64Mcg,
}

/// Faults of the links to a cell's ports.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    links: BTreeMap<u32, Link>,
    /// By number.
    changes: Vec<Change>,
}

impl Faults {
    /// Adds a change; its number.
    pub fn add(&mut self, change: Change) -> u32 {
        self.changes.push(change);
        self.changes.len() as u32 - 1
    }

    /// Makes room for a faulty link to port `port`.
    pub fn watch(&mut self, port: u32, random: Pcg64Mcg) {
        self.links.entry(port).or_insert(Link { down: 0, log_well: 0.0, log_whole: 0.0, random });
    }

    /// A change takes effect.
    pub fn due(&mut self, number: u32) -> &mut Change {
        let change = &mut self.changes[number as usize];
        match *change {
            Change::Routes(_) => {}
            Change::Link(port, loses, begins) => {
                let link = self.links.get_mut(&port).expect("it is watched");
                match loses {
                    Loses::Everything if begins => link.down += 1,
                    Loses::Everything => link.down -= 1,
                    Loses::Bits(rate) => {
                        let log = (-rate).ln_1p();
                        link.log_well += if begins { log } else { -log };
                    }
                    Loses::Packets(rate) => link.log_whole = (-rate).ln_1p(),
                }
            }
        }
        change
    }

    /// True if a packet of `bytes` does not arrive at a port.
    pub fn lose(&mut self, port: u32, bytes: u16) -> bool {
        let Some(link) = self.links.get_mut(&port) else { return false };
        if link.down > 0 {
            return true;
        }
        // A rate that has ended leaves what rounding leaves.
        let bits = if link.log_well < -1e-18 { link.log_well * 8.0 * f64::from(bytes) } else { 0.0 };
        let well = bits + link.log_whole;
        well < 0.0 && onramp_random::uniform(&mut link.random) >= libm::exp(well)
    }
}

/// The changes of a network's cells, where time 0 of the scenario is `origin` of the engine: when, of which cell, and
/// the stream that a link draws from.
pub fn changes(faults: &[Fault], topology: &Topology, map: &Cells, origin: Ps) -> Vec<(Ps, usize, u64, Change)> {
    let mut all = Vec::new();
    for (&port, &rate) in topology.packet_errors() {
        let (cell, place) = map.place_in(topology, port);
        all.push((0, cell, u64::from(port), Change::Link(place, Loses::Packets(rate), true)));
    }
    for fault in faults {
        let loses = fault.bit_error_rate.map_or(Loses::Everything, Loses::Bits);
        for port in fault.ports(topology).expect("the network was checked") {
            let (cell, place) = map.place_in(topology, port);
            let times = [Some((fault.start, true)), fault.stop.map(|stop| (stop, false))];
            for (at, begins) in times.into_iter().flatten() {
                all.push((origin + at.0, cell, u64::from(port), Change::Link(place, loses, begins)));
            }
        }
    }
    for (at, down) in Fault::known(faults, topology) {
        let routes = topology.without(&down).expect("the network was checked");
        for (cell, members) in map.parts.iter().enumerate().filter(|(_, members)| !members.switches.is_empty()) {
            let own = routes.routes().part(&members.switches, topology.hosts(), |port| map.place(port));
            all.push((origin + at, cell, 0, Change::Routes(Box::new(own))));
        }
    }
    all
}
