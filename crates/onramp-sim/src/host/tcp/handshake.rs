//! Connections that are opened while there is load: with a handshake.

use super::receiver::End;
use super::sender::Connection;
use super::{Hosting, Pair, UNKNOWN};
use crate::host::Io;
use crate::network::packet::TCP;
use crate::network::router::{Header, Router};
use crate::network::{Kind as Of, Packet};
use crate::stack::tcp::HEADERS;
use crate::units::{Ps, SEC, US};
use crate::workload::connections::ideal;

/// A connection's opening on the wire: Ethernet, IPv4, TCP with its options.
const SYN_BYTES: u16 = 74;
/// A lost one is sent again after this, and each further one after twice as long.
pub(super) const SYN_AGAIN: Ps = SEC;

impl<H: Header> Hosting<H> {
    /// Round trip of a handshake on an empty network, in microseconds.
    pub(super) fn handshake_us(&self, pair: Pair) -> u32 {
        let payload = u64::from(SYN_BYTES) - u64::from(HEADERS);
        (2 * ideal(&self.topology, pair.src, pair.dst, payload) / US).max(1) as u32
    }

    /// Sends the opening of a connection; its NIC.
    pub(super) fn send_opening<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32) -> u32 {
        let Connection { id, pair, hash, nic, .. } = self.connections[at];
        let mut packet = Packet::<H> {
            flow: UNKNOWN | TCP,
            seq: at,
            paused: pair.src,
            owd_ns: i32::from(pair.transport),
            size: SYN_BYTES,
            hash,
            ..Packet::default()
        };
        packet.header.set_options([((id >> 32) as u32, id as u32), (0, 0), (0, 0)]);
        let packet = packet.to(pair.dst).marked(0, pair.class).as_a(Of::SYN);
        self.queue_packet(io.now, nic, id, false, packet);
        self.arm(io, at);
        nic
    }

    /// An opening has come in by `nic`, or the answer to one; the NIC that has something to send.
    pub(super) fn opening_came<R: Router<Header = H>>(
        &mut self,
        io: &mut Io<'_, R>,
        packet: &Packet<H>,
        nic: u32,
    ) -> Option<u32> {
        match packet.flow & !TCP {
            UNKNOWN => {
                self.answer(io.now, packet, nic);
                Some(nic)
            }
            at => self.answered(io, packet, at),
        }
    }

    /// Opens a receiving end, and answers by `nic`.
    fn answer(&mut self, now: Ps, packet: &Packet<H>, nic: u32) {
        let (high, low) = packet.header.options()[0];
        let id = u64::from(high) << 32 | u64::from(low);
        let (src, peer, transport) = (packet.paused, packet.seq, packet.owd_ns as u8);
        let pair = Pair { src, dst: packet.dst(), transport, class: packet.class() };
        let end = End::new(&self.rules, id, pair, self.handshake_us(pair), nic);
        let hash = end.hash;
        // A second copy opens another end; only one is answered to.
        let slot = self.ends.insert(end);
        self.introduce(slot, peer);
        let answer = Packet { flow: peer | TCP, seq: slot, hash, ..*packet };
        let answer = answer.to(src).marked(0, pair.class).as_a(Of::SYN);
        self.queue_packet(now, nic, id, true, answer);
    }

    /// The other end has opened: the connection may send what waits for that, by the NIC.
    fn answered<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, packet: &Packet<H>, at: u32) -> Option<u32> {
        let connection = &mut self.connections[at];
        let (_, sent) = connection.opening.take()?;
        connection.peer = packet.seq;
        connection.tx = self.rules.tx(connection.id, connection.pair, ((io.now - sent) / US) as u32, io.now);
        if let Some(flow) = connection.flow {
            let bytes = self.flows[flow].end - self.flows[flow].first;
            connection.tx.write(&self.rules.kind(connection.pair.transport).params, io.now, bytes);
        }
        Some(self.pump(io, at))
    }
}
