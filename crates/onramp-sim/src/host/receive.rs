//! The receiving end of a flow.

use super::processing::Ring;
use super::{Hosts, Io, Timer};
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::{LAST, LEFT_BITS, MARKED, NO_PACKET, TCP, TRIMMED, UNMEASURED, UNPAUSED};
use crate::network::{Kind, Packet};
use crate::stack::Rx;
use onramp_config::units::{NS, Ps};

/// Size of an OR-ACK on the wire (IPv4).
pub(super) const OR_ACK_BYTES: u16 = onramp_core::orack::WIRE_IPV4 as u16;

impl<F: Feedback> Io<'_, F> {
    /// The one-way delay of a data packet from `src` that has been stamped, in nanoseconds by the hosts' clocks, so
    /// it may be negative; [`UNMEASURED`] while one of them has no correction. It is written down.
    #[inline]
    pub(super) fn measure_owd(&mut self, packet: &Packet<F::Header>, src: u32, series: Option<u32>) -> i32 {
        let true_owd = ((self.stamped / NS) as u32).wrapping_sub(packet.sent_ns);
        let Some(error) = self.clocks.owd_error(src, packet.dst(), true_owd, self.now) else { return UNMEASURED };
        let owd = (i64::from(true_owd) + error).clamp(i64::from(UNMEASURED + 1), i64::from(i32::MAX)) as i32;
        if self.meter.echo.is_some() {
            self.echo_owd((packet.owd_ns & ((1 << LEFT_BITS) - 1)) as Ps, true_owd, error);
        } else {
            self.meter.owd(series, self.now, owd);
        }
        owd
    }

    /// Writes down the delay of a packet that left so many picoseconds after the beginning of a nanosecond, and that in
    /// repetitions.
    #[cold]
    #[inline(never)]
    fn echo_owd(&mut self, sent: Ps, true_owd: u32, error: i64) {
        let took = Ps::from(true_owd) * NS + self.stamped % NS - sent;
        if let Some(echo) = &mut self.meter.echo {
            let owd = echo.owd(sent, took, error);
            self.meter.owd.record(owd);
        }
    }
}

impl<H: Header> Hosts<H> {
    /// A packet of a flow has come in by a NIC, whose host may need time for it.
    #[inline]
    pub fn comes<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, nic: u32) {
        if self.rings.is_empty() {
            return self.receive(io, packet, nic, 0);
        }
        self.waits(io, packet, nic);
    }

    #[cold]
    #[inline(never)]
    fn waits<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, nic: u32) {
        let Some(ring) = &mut self.rings[nic as usize] else { return self.receive_late(io, packet, nic, 0) };
        match ring.take(io.now, packet.size, *packet) {
            Ok(at) => io.events.timer(at, Timer::Served(nic)),
            Err(packet) => {
                self.counts.dropped += 1;
                self.lost(&packet);
            }
        }
    }

    /// A host has processed a packet that came in by this NIC.
    pub fn served<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32) {
        let Some((came, packet)) = self.rings[nic as usize].as_mut().and_then(Ring::served) else { return };
        if !self.stamped_late {
            io.stamped = came;
        }
        self.receive_late(io, &packet, nic, io.now - came);
    }

    /// Apart, so that where no host takes time the way of a packet is one piece.
    #[inline(never)]
    fn receive_late<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, nic: u32, waited: Ps) {
        self.receive(io, packet, nic, waited);
    }

    /// A packet of a flow has reached its stack, so long after its NIC.
    #[inline(always)]
    fn receive<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, nic: u32, waited: Ps) {
        self.counts.delivered += 1;
        if packet.flow & TCP != 0 {
            return self.tcp_receive(io, packet, nic);
        }
        match packet.kind() {
            Kind::DATA => self.receive_data(io, packet, waited),
            _ => self.acknowledged(io, packet, waited),
        }
    }

    #[inline(always)]
    fn receive_data<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, waited: Ps) {
        let (now, slot) = (io.now, packet.flow);
        let receiver = &mut self.receivers[slot];
        receiver.packets = receiver.packets.wrapping_add(1);
        // A header overtakes the queue that its packet would have waited in: its delay tells nothing of it.
        let owd_ns = if packet.flags() & TRIMMED == 0 {
            io.measure_owd(packet, receiver.src, receiver.watch_owd)
        } else if packet.seq == NO_PACKET {
            return self.asked_alone(io, packet);
        } else {
            UNMEASURED
        };
        if let Some(next) = &mut io.meter.next {
            next.arrives(packet.identity(), packet.dst(), now);
        }
        receiver.since_told += 1;
        let told = receiver.since_told >= self.told_every || packet.flags() & LAST != 0;
        if told {
            receiver.since_told = 0;
        }
        let or_ack = told && self.separate_or_acks;
        let transport = &self.transports[receiver.transport];
        let nic = receiver.nic;
        let mut reply = Packet {
            owd_ns: if told || self.separate_or_acks { owd_ns } else { UNMEASURED },
            flow: receiver.peer,
            hash: if self.entropy.is_echoed() { packet.hash } else { receiver.hash },
            size: transport.ack_size,
            ..*packet
        };
        reply.header.set_waited((waited / NS) as u32);
        let reply = reply.to(receiver.src).marked(packet.flags() & MARKED, transport.ack_class(receiver.class));
        if packet.seq == receiver.rx.expected() {
            receiver.received_at = now;
        }
        let answer = receiver.rx.on_data(packet.seq, packet.flags(), now);
        receiver.replies = receiver.replies.wrapping_add(u32::from(or_ack)).wrapping_add(u32::from(answer.is_some()));
        let (class, unpaused) = (receiver.class, transport.acks_unpaused);
        if or_ack {
            let or_ack = Packet { size: OR_ACK_BYTES, ..reply }.as_a(Kind::OR_ACK).marked(0, class);
            self.queue_agent(io, nic, or_ack);
        }
        if let Some((kind, seq)) = answer {
            let mut ack = Packet { seq, ..reply }.as_a(kind);
            if self.receivers[slot].rx.is_unordered() {
                let rx = &self.receivers[slot].rx;
                ack.sent_ns = rx.told(packet.seq);
                if self.gates.is_none() {
                    // Without On-Ramp, which has each packet acknowledged, its echo is free.
                    ack.paused = rx.before(packet.seq);
                }
            } else if kind == Kind::NACK && self.receivers[slot].rx.is_selective() {
                // It has no room for On-Ramp's echo, and so tells no delay.
                (ack.paused, ack.owd_ns) = (packet.seq, UNMEASURED);
            }
            if unpaused {
                ack.set(UNPAUSED);
            }
            self.queue_ack(nic, class, unpaused, ack);
        }
        if self.credits.is_some() {
            self.asked(io, packet, answer.is_some_and(|(kind, _)| kind == Kind::NACK));
        }
        if self.programs.is_some() {
            let rx = &self.receivers[slot].rx;
            // Out of order, the end of a message may have come before.
            if packet.flags() & LAST != 0 || rx.is_selective() {
                let read = rx.expected();
                self.packets_read(io, slot, read.into());
            }
        }
        self.nic_send(io, nic);
        self.close_receiver(slot);
    }
}
