//! Packets of traced RDMA flows at the edges of their hosts, at the end of the links there. TCP keeps its own.

use super::{Kind, Packet};
use onramp_config::units::Ps;
use std::collections::{HashMap, HashSet};

/// Destination of a flow's packets: host, slot there, and true for data.
pub type End = (u32, u32, bool);

/// A packet at an edge.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// When its last bit is at the end of the link, in the engine's time.
    pub at: Ps,
    /// Port at the end of the link, as the cell counts them.
    pub port: u32,
    /// It leaves a host by this link, and does not come to one.
    pub leaves: bool,
    pub packet: Packet<()>,
}

/// Packets seen at one host of a flow.
#[derive(Debug, Default)]
pub struct Log {
    pub seen: Vec<Seen>,
    pub left_out: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Edges {
    /// Packets that a log has at most.
    most: usize,
    /// Ports at the end of links from hosts of traced flows.
    first_links: HashSet<u32>,
    /// Flows by where their packets go.
    flows: HashMap<End, u64>,
    /// By flow, and true at the host that sends data.
    logs: HashMap<(u64, bool), Log>,
}

impl Edges {
    /// Keeps the packets of a flow from now on, at most so many at each host.
    pub fn watch(&mut self, flow: u64, ends: [End; 2], most: usize) {
        self.most = most;
        self.flows.extend(ends.map(|end| (end, flow)));
    }

    /// A port is at the end of a link from a traced flow's host.
    pub fn is_first(&mut self, port: u32) {
        self.first_links.insert(port);
    }

    /// Another flow has the slots from now on.
    pub fn forget(&mut self, ends: [End; 2]) {
        for end in ends {
            self.flows.remove(&end);
        }
    }

    /// A packet is at the end of its link to a port, perhaps a host's, unless it was lost on the way.
    pub fn sees<H>(&mut self, at: Ps, port: u32, to_host: bool, lost: bool, packet: &Packet<H>) {
        if packet.is_pfc() || packet.is_probe() {
            return;
        }
        let data = packet.kind() == Kind::DATA;
        let Some(&flow) = self.flows.get(&(packet.dst(), packet.flow, data)) else { return };
        if self.first_links.contains(&port) {
            self.keep((flow, data), Seen { at, port, leaves: true, packet: packet.bare() });
        }
        if to_host && !lost {
            self.keep((flow, !data), Seen { at, port, leaves: false, packet: packet.bare() });
        }
    }

    fn keep(&mut self, place: (u64, bool), seen: Seen) {
        let log = self.logs.entry(place).or_default();
        if log.seen.len() == self.most {
            log.left_out += 1;
        } else {
            log.seen.push(seen);
        }
    }

    /// Packets of a flow at the host that sends data, or at the other one.
    pub fn log(&self, flow: u64, at_sender: bool) -> Option<&Log> {
        self.logs.get(&(flow, at_sender))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(host: u32, slot: u32, kind: Kind) -> Packet<()> {
        Packet { flow: slot, ..Packet::default() }.to(host).as_a(kind)
    }

    #[test]
    fn a_flow_has_what_leaves_and_comes_at_each_host_until_its_slots_are_others() {
        let (mut edges, ends) = (Edges::default(), [(1, 4, false), (0, 9, true)]);
        edges.watch(7, ends, 2);
        edges.is_first(30);
        let [data, ack] = [to(0, 9, Kind::DATA), to(1, 4, Kind::ACK)];
        edges.sees(100, 30, false, true, &data);
        edges.sees(200, 31, false, false, &data);
        edges.sees(300, 32, true, false, &data);
        edges.sees(300, 32, true, true, &data);
        edges.sees(400, 30, false, false, &ack);
        edges.sees(400, 33, true, false, &ack);
        // Another slot, another kind, a frame of PFC.
        edges.sees(400, 33, true, false, &to(1, 9, Kind::ACK));
        edges.sees(400, 33, true, false, &to(1, 4, Kind::DATA));
        edges.sees(400, 33, true, false, &to(1, 4, Kind::PAUSE));
        let times = |at_sender: bool| {
            let log = edges.log(7, at_sender).expect("some were seen");
            log.seen.iter().map(|seen| (seen.at, seen.leaves)).collect::<Vec<_>>()
        };
        assert_eq!((times(true), times(false)), (vec![(100, true), (400, false)], vec![(300, false), (400, true)]));
        edges.sees(500, 33, true, false, &ack);
        edges.forget(ends);
        edges.sees(600, 33, true, false, &ack);
        assert_eq!(edges.log(7, true).map(|log| log.left_out), Some(1));
    }
}
