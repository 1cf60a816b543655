//! The receiving end of a flow.

use crate::network::packet::{AFTER_TIMEOUT, MARKED, UNMEASURED};
use crate::network::{Kind, Packet};
use crate::sim::Simulation;
use crate::units::NS;

/// Size of an OR-ACK on the wire (IPv4).
const OR_ACK_BYTES: u16 = onramp_core::orack::WIRE_IPV4 as u16;

impl Simulation {
    /// A packet has reached its host.
    pub(crate) fn receive(&mut self, host: u32, packet: Packet) {
        self.delivered += 1;
        if packet.is_probe() {
            return self.receive_probe(host, packet);
        }
        let flow = &mut self.flows[packet.flow];
        flow.under_way -= 1;
        match packet.kind {
            Kind::DATA => self.receive_data(host, packet),
            _ => self.acknowledged(&packet),
        }
        self.flows.reclaim(packet.flow);
    }

    fn receive_data(&mut self, host: u32, packet: Packet) {
        let flow = &mut self.flows[packet.flow];
        let true_owd = ((self.now / NS) as u32).wrapping_sub(packet.sent_ns);
        // By the hosts' clocks, so it may be negative.
        let owd = match self.clocks.owd_error(flow.src, host, true_owd, self.now) {
            Some(error) => {
                let owd = i64::from(true_owd) + error;
                let owd = owd.clamp(i64::from(UNMEASURED + 1), i64::from(i32::MAX)) as i32;
                self.measure.owd(flow.watch_owd, self.now, owd);
                owd
            }
            None => UNMEASURED,
        };
        if let Some(next) = &mut self.measure.next {
            next.arrives(&packet, self.now);
        }

        flow.since_or_ack += 1;
        let told = flow.since_or_ack >= self.or_ack_every || packet.seq + 1 == flow.packets;
        if told {
            flow.since_or_ack = 0;
        }
        let reply = Packet {
            owd_ns: if told || self.separate_or_acks { owd } else { UNMEASURED },
            dst: flow.src as u16,
            hash: flow.ack_hash,
            flags: packet.flags & MARKED,
            size: self.ack_size,
            ..packet
        };
        if self.separate_or_acks && told {
            let aux = if self.int_units.is_some() { self.int[packet.aux].1 } else { packet.aux };
            let or_ack = Packet { kind: Kind::OR_ACK, size: OR_ACK_BYTES, aux, ..reply };
            flow.under_way += 1;
            self.nics[host as usize].agent.push_back(or_ack);
        }
        let kind = if packet.seq == flow.expected {
            flow.expected += 1;
            flow.received_at = self.now;
            Some(Kind::ACK)
        } else if packet.seq > flow.expected {
            let again = flow.nacked != flow.expected || self.now - flow.nacked_at >= self.nack_interval;
            if again {
                flow.nacked = flow.expected;
                flow.nacked_at = self.now;
            }
            again.then_some(Kind::NACK)
        } else {
            (packet.flags & AFTER_TIMEOUT != 0).then_some(Kind::ACK)
        };
        match kind {
            Some(kind) => {
                flow.under_way += 1;
                let reply = Packet { kind, seq: flow.expected, ..reply };
                self.nics[host as usize].acks.push_back(reply);
            }
            None if self.int_units.is_some() => self.int.remove(packet.aux),
            None => {}
        }
        self.nic_send(host);
    }
}
