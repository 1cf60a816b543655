//! Captures of traced flows: TCP's hosts keep their packets, RDMA's are seen at the ends of the hosts' links.

use super::desk::Desk;
use super::run::{CellBox, Engine};
use crate::host::Opening;
use crate::measure::trace::roce::{Message, Passed};
use crate::measure::trace::{self, At, Capture, Wire, most_packets};
use crate::network::edges::{End, Log, Seen};
use crate::network::feedback::Feedback;
use onramp_config::units::Ps;
use onramp_workload::Size;

impl Desk {
    /// A flow of RDMA has got its slots, of which another one may have been traced.
    pub(super) fn edge<F: Feedback>(
        &mut self,
        cells: &mut [CellBox<F>],
        new: &Opening,
        (sender, receiver): (u32, u32),
    ) {
        let (src, dst) = (new.flow.src, new.flow.dst);
        let ends: [End; 2] = [(src, sender, false), (dst, receiver, true)];
        cells.iter_mut().filter_map(|cell| cell.network.edges_mut()).for_each(|edges| edges.forget(ends));
        if !self.traced.contains(&new.id) {
            return;
        }
        let transport = &self.transports[new.transport];
        self.messages.push(Message {
            id: new.id,
            src,
            dst,
            start: new.start,
            packets: match new.flow.size {
                Size::Bytes(bytes) => Some(transport.packets(bytes).0),
                Size::Until(_) => None,
            },
            header: transport.header(),
            hash: new.hashes[0],
            unordered: transport.is_unordered(),
        });
        let most = most_packets(self.traced.len());
        for host in [src, dst] {
            cells[self.map.of(host)].network.keep_edges().watch(new.id, ends, most);
            for &port in self.topology.ports_of(host) {
                let (cell, place) = self.map.place_in(&self.topology, self.topology.ports()[port as usize].reverse);
                let edges = cells[cell].network.keep_edges();
                edges.watch(new.id, ends, most);
                edges.is_first(place);
            }
        }
    }
}

impl<F: Feedback> Engine<F> {
    /// Captures of the flows that are traced and have begun.
    pub(super) fn captures(&self) -> Vec<Capture> {
        let desk = &self.desk;
        let taps: Vec<_> = self.cells.iter().filter_map(|cell| cell.hosts.tap()).collect();
        let wire = Wire { topology: &desk.topology, connections: &desk.connections, origin: desk.origin };
        let mut captures = trace::captures(&taps, &desk.traced, &wire);
        for message in desk.messages.iter().filter(|message| message.start <= desk.now) {
            for at in [At::Sender, At::Receiver] {
                let (passed, left_out) = self.passed(message.id, at);
                captures.push(message.capture(at, &passed, left_out, &wire));
            }
        }
        captures.sort_by_key(|capture| desk.traced.iter().position(|id| *id == capture.flow));
        captures
    }

    /// Packets of a flow at one of its hosts, in order, and the number of those that had no room. The link of one that
    /// leaves ends in another cell than the host's, so each of them may have as many as there is room for.
    fn passed(&self, id: u64, at: At) -> (Vec<Passed>, u64) {
        let logs = self.cells.iter().enumerate();
        let logs: Vec<(usize, &Log)> =
            logs.filter_map(|(cell, own)| Some((cell, own.network.edges()?.log(id, at == At::Sender)?))).collect();
        let seen = logs.iter().flat_map(|(cell, log)| log.seen.iter().map(|seen| self.at_host(*cell, seen)));
        let mut passed: Vec<Passed> = seen.collect();
        passed.sort_by_key(|one| (one.at, one.leaves, one.packet.seq, one.packet.size, one.port));
        let most = most_packets(self.desk.traced.len());
        let more = passed.len().saturating_sub(most) as u64;
        passed.truncate(most);
        (passed, more + logs.iter().map(|(_, log)| log.left_out).sum::<u64>())
    }

    /// A packet at the end of its link, as its host has it.
    fn at_host(&self, cell: usize, seen: &Seen) -> Passed {
        let Seen { at, port, leaves, packet } = *seen;
        let end = self.desk.map.parts[cell].ports[port as usize];
        if !leaves {
            return Passed { at, port: end, leaves, packet };
        }
        let left_by = self.desk.topology.ports()[end as usize].reverse;
        let look = self.look();
        let (network, place) = look.port(left_by);
        let own = &network.ports[place as usize];
        let took: Ps = own.time_for(packet.size) + own.delay;
        Passed { at: at - took, port: left_by, leaves, packet }
    }
}
