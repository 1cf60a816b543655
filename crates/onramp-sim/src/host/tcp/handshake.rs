//! Connections that are opened while there is load: with a handshake.

use super::line::{agents_of, replies_of};
use super::receiver::End;
use super::sender::Connection;
use super::{Hosting, Outcome, Pair, UNKNOWN};
use crate::host::Io;
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::{LAST, TCP};
use crate::network::{Kind as Of, Packet};
use crate::stack::tcp::{Answer, HEADERS, Tx};
use onramp_config::units::{Ps, US};
use onramp_workload::connections::ideal;

/// A connection's opening on the wire: Ethernet, IPv4, TCP with its options.
const SYN_BYTES: u16 = 74;

impl<H: Header> Hosting<H> {
    /// Round trip of a handshake on an empty network, in microseconds.
    pub(super) fn handshake_us(&self, pair: Pair) -> u32 {
        let payload = u64::from(SYN_BYTES) - u64::from(HEADERS);
        (2 * ideal(&self.topology, pair.src, pair.dst, payload) / US).max(1) as u32
    }

    /// Sends the opening of a connection; its NIC.
    pub(super) fn send_opening<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, at: u32) -> u32 {
        self.queue_opening(io.now, at, SYN_BYTES, 0);
        self.arm(io, at);
        self.connections[at].nic
    }

    /// An opening, or with `LAST` the acknowledgement of its answer.
    fn queue_opening(&mut self, now: Ps, at: u32, size: u16, flags: u8) {
        let Connection { id, pair, hash, nic, .. } = self.connections[at];
        let mut packet = Packet::<H> {
            flow: UNKNOWN | TCP,
            seq: at,
            paused: pair.src,
            owd_ns: i32::from(pair.transport),
            size,
            hash,
            ..Packet::default()
        };
        packet.header.set_options([((id >> 32) as u32, id as u32), (Tx::stamp_ms(now), 0), (0, 0)]);
        let packet = packet.to(pair.dst).marked(flags, pair.class).as_a(Of::SYN);
        self.queue_packet(now, nic, agents_of(id), false, packet);
    }

    /// An opening has come in by `nic`, or the answer to one.
    pub(super) fn opening_came<F: Feedback<Header = H>>(
        &mut self,
        io: &mut Io<'_, F>,
        packet: &Packet<H>,
        nic: u32,
    ) -> Outcome {
        match packet.flow & !TCP {
            UNKNOWN if packet.flags() & LAST != 0 => {
                if let Some(&slot) = self.late_ends.get(&(packet.paused, packet.seq)) {
                    self.ends[slot].answer = None;
                }
                (None, None)
            }
            UNKNOWN => {
                self.answer(io, packet, nic);
                (Some(nic), None)
            }
            at => self.answered(io, packet, at),
        }
    }

    /// Opens a receiving end, unless an earlier copy has, and answers by `nic`. The answer to any copy echoes
    /// the time stamp of the one that opened the end.
    fn answer<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, nic: u32) {
        let [(high, low), (stamp_ms, _), _] = packet.header.options();
        let id = u64::from(high) << 32 | u64::from(low);
        let (src, peer, transport) = (packet.paused, packet.seq, packet.owd_ns as u8);
        let pair = Pair { src, dst: packet.dst(), transport, class: packet.class() };
        let known = self.late_ends.get(&(src, peer)).copied();
        let slot = known.unwrap_or_else(|| {
            let mut end = End::new(&self.rules, id, pair, self.handshake_us(pair), nic);
            end.answer = Some(Box::new((Answer::new(io.now), stamp_ms)));
            let slot = self.ends.insert(end);
            self.introduce(slot, peer);
            self.late_ends.insert((src, peer), slot);
            slot
        });
        if let Some(answer) = &mut self.ends[slot].answer {
            answer.0.again(io.now);
            self.send_answer(io.now, slot);
            self.arm_end(io, slot);
        }
    }

    /// Sends the answer of a receiving end to its opening.
    pub(super) fn send_answer(&mut self, now: Ps, slot: u32) {
        let End { id, pair, peer, hash, nic, answer, .. } = &self.ends[slot];
        let Some(answer) = answer else { return };
        let mut packet = Packet::<H> { flow: peer | TCP, seq: slot, hash: *hash, size: SYN_BYTES, ..Packet::default() };
        packet.header.set_options([(0, 0), (answer.1, 0), (0, 0)]);
        let packet = packet.to(pair.src).marked(0, pair.class).as_a(Of::SYN);
        let (nic, id) = (*nic, *id);
        self.queue_packet(now, nic, replies_of(id), true, packet);
    }

    /// The other end has opened: the connection says that it knows, and may send what waits for that.
    fn answered<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, at: u32) -> Outcome {
        let connection = &mut self.connections[at];
        let Some(syn) = connection.syn.take() else { return (None, None) };
        let [_, (echo_ms, _), _] = packet.header.options();
        let (id, pair) = (connection.id, connection.pair);
        connection.peer = packet.seq;
        connection.tx = self.rules.tx(id, pair, syn.answered(io.now, echo_ms), io.now);
        let bytes = connection.flow.map_or(0, |flow| self.flows[flow].end - self.flows[flow].first);
        self.queue_opening(io.now, at, HEADERS as u16, LAST);
        if bytes > 0 {
            self.write(io.now, at, bytes);
        }
        let nic = self.pump(io, at);
        (Some(nic), self.look_whether_done(io.now, at))
    }
}
