//! Packets to single hosts, at the end of every link: where those of flows that are traced have been, and when.

use super::Packet;
use onramp_config::units::Ps;
use std::collections::HashMap;

/// Packets that a cell keeps at most.
const MOST: usize = 1 << 18;

/// End of a packet's way over a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It has come in by the port.
    Came,
    /// The port had no room for it.
    Dropped,
    /// It was lost on the link to the port.
    Lost,
}

/// A packet at a port.
#[derive(Clone, Copy, Debug)]
pub struct Hop {
    /// When, in the engine's time.
    pub at: Ps,
    /// The port, as the cell counts them.
    pub port: u32,
    pub fate: Fate,
    pub packet: Packet<()>,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Hops {
    /// Flows that are under way to or from a host.
    hosts: HashMap<u32, u32>,
    pub seen: Vec<Hop>,
    pub left_out: u64,
}

impl Hops {
    /// A flow that is traced begins or ends at a host.
    pub fn watch(&mut self, host: u32, begins: bool) {
        let flows = self.hosts.entry(host).or_default();
        *flows = if begins { *flows + 1 } else { flows.saturating_sub(1) };
        if *flows == 0 {
            self.hosts.remove(&host);
        }
    }

    /// A packet is at a port.
    pub fn sees<H>(&mut self, at: Ps, port: u32, fate: Fate, packet: &Packet<H>) {
        if packet.is_pfc() || packet.is_probe() || !self.hosts.contains_key(&packet.dst()) {
            return;
        }
        if self.seen.len() == MOST {
            self.left_out += 1;
        } else {
            self.seen.push(Hop { at, port, fate, packet: packet.bare() });
        }
    }
}
