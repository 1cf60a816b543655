//! Hooks for captures of single flows. Called only where some are traced.

use super::{Hosting, Pair, UNKNOWN};
use crate::host::Hosts;
use crate::measure::trace::{At, Start, Tap};
use crate::network::feedback::Header;
use crate::network::packet::TCP;
use crate::network::{Kind, Packet};
use onramp_config::units::Ps;

impl<H: Header> Hosts<H> {
    /// Packets of pairs that are watched are kept from now on, so many at each end.
    pub fn trace(&mut self, most: usize) {
        if let Some(tcp) = &mut self.tcp {
            tcp.tap = Some(Box::new(Tap::new(most)));
        }
    }

    /// A flow that is traced will go from `src` to `dst`, from `at` on.
    pub fn trace_pair(&mut self, src: u32, dst: u32, at: Ps) {
        if let Some(tap) = self.tcp.as_mut().and_then(|tcp| tcp.tap.as_mut()) {
            tap.watch(src, dst, at);
        }
    }

    /// Slot of a connection's other end.
    pub fn connection_peer(&self, slot: u32) -> u32 {
        self.tcp.as_ref().map_or(UNKNOWN, |tcp| tcp.connections[slot].peer)
    }

    /// Packets that were kept.
    pub fn tap(&self) -> Option<&Tap<H>> {
        self.tcp.as_ref()?.tap.as_deref()
    }
}

impl<H: Header> Hosting<H> {
    /// A flow has begun on its connection.
    #[cold]
    pub(super) fn trace_start(&mut self, slot: u32, now: Ps) {
        let flow = &self.flows[slot];
        let (first, paused) = (flow.first, flow.paused);
        let (Some(tap), Some(at)) = (&mut self.tap, flow.connection) else { return };
        let connection = &self.connections[at];
        let Pair { src, dst, transport, .. } = connection.pair;
        let kind = self.rules.kind(transport);
        tap.starts(Start {
            id: flow.new.id,
            at: now,
            src,
            dst,
            slot: at,
            number: (connection.id & 0x3fff) as u32,
            first,
            paused,
            opens: connection.syn.is_some(),
            mss: kind.params.mss,
            buffers: [kind.params.receive_buffer, kind.params.most_receive_buffer],
            marks: kind.marks,
        });
    }

    /// A packet leaves a host; data are those of `connection`.
    #[cold]
    pub(super) fn trace_leaving(&mut self, now: Ps, nic: u32, connection: Option<u32>, packet: &Packet<H>) {
        let (owner, slot) = (self.owners[nic as usize], packet.flow & !TCP);
        let (pair, at) = match connection {
            Some(own) => ((owner, packet.dst(), own), At::Sender),
            None if packet.kind() == Kind::SYN && slot == UNKNOWN => ((owner, packet.dst(), packet.seq), At::Sender),
            None => ((packet.dst(), owner, slot), At::Receiver),
        };
        if let Some(tap) = &mut self.tap {
            tap.sees(now, pair, at, true, packet);
        }
    }

    /// A packet has come to its host.
    #[cold]
    pub(super) fn trace_coming(&mut self, now: Ps, packet: &Packet<H>) {
        let slot = packet.flow & !TCP;
        let (pair, at) = match packet.kind() {
            Kind::DATA => {
                let end = &self.ends[slot];
                ((end.pair.src, packet.dst(), end.peer), At::Receiver)
            }
            Kind::SYN if slot == UNKNOWN => ((packet.paused, packet.dst(), packet.seq), At::Receiver),
            _ => ((packet.dst(), self.connections[slot].pair.dst, slot), At::Sender),
        };
        if let Some(tap) = &mut self.tap {
            tap.sees(now, pair, at, false, packet);
        }
    }
}
