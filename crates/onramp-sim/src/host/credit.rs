//! Credit that receivers grant, see [`rccc`]: how it and the wish for it travel.

use super::shaper::{Any, Shaper};
use super::{Hosts, Io, Sender, Timer};
use crate::cc::Env;
use crate::cc::rccc::{Grant, Pacer};
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::{CREDIT, LAST, NO_PACKET, TRIMMED, UNMEASURED};
use crate::network::{Kind, Packet};
use crate::stack::Tx;
use onramp_config::units::NS;

/// Credit that the hosts of a cell grant.
#[derive(Debug)]
pub(super) struct Credits {
    /// By NIC, with an event on its way or not.
    pacers: Vec<(Pacer, bool)>,
    /// By slot of the receiving end.
    grants: Vec<Grant>,
}

impl Credits {
    pub fn new(nics: usize) -> Self {
        Self { pacers: (0..nics).map(|_| Default::default()).collect(), grants: Vec::new() }
    }

    /// A receiving end opens, for which there is `grant` yet.
    pub fn open(&mut self, slot: u32, grant: Grant) {
        self.grants.resize(self.grants.len().max(slot as usize + 1), Grant::default());
        self.grants[slot as usize] = grant;
    }

    /// True if a receiving end has granted all that it is to grant. One whose flow was stopped does so, too, since hosts
    /// of other cells hear of that later.
    pub fn is_out(&self, slot: u32) -> bool {
        self.grants[slot as usize].is_out()
    }
}

/// The target that a packet tells, of a flow that has just sent it.
#[cold]
pub(super) fn asks(sender: &mut Sender, shaper: &Any, classes: usize, env: &Env) -> i32 {
    let Some(credit) = sender.cc.credit() else { return 0 };
    let line = sender.nic as usize * classes + usize::from(sender.class);
    credit.ask(sender.tx.backlog(), shaper.waiting(line) + 1, env)
}

impl<H: Header> Hosts<H> {
    /// A data packet has told how much credit its sender wants.
    #[cold]
    pub(super) fn asked<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, trimmed: bool) {
        let slot = packet.flow;
        let receiver = &self.receivers[slot];
        let transport = &self.transports[receiver.transport];
        let (Some(credits), Some(_)) = (&mut self.credits, &transport.credit) else { return };
        let nic = receiver.nic;
        let grant = &mut credits.grants[slot as usize];
        grant.asked(packet.owd_ns);
        if trimmed {
            grant.trimmed(transport.env(self.nics[nic as usize].rate).packet);
        }
        if packet.flags() & LAST != 0 {
            grant.ends(packet.seq);
        }
        grant.came(receiver.rx.expected(), packet.seq == NO_PACKET);
        credits.pacers[nic as usize].0.line_up(slot, grant);
        // Whoever has called closes its own.
        if let Some(other) = self.grant(io, nic).filter(|other| *other != slot) {
            self.close_receiver(other);
        }
    }

    /// A header without a packet has come: its sender wants credit.
    #[cold]
    pub(super) fn asked_alone<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>) {
        let nic = self.receivers[packet.flow].nic;
        self.asked(io, packet, false);
        self.nic_send(io, nic);
        self.close_receiver(packet.flow);
    }

    /// A NIC may grant credit.
    pub fn credit_due<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32) {
        if let Some(credits) = &mut self.credits {
            credits.pacers[nic as usize].1 = false;
            let granted = self.grant(io, nic);
            self.nic_send(io, nic);
            if let Some(slot) = granted {
                self.close_receiver(slot);
            }
        }
    }

    /// Grants credit if it is time, and sees to it that the NIC is woken for the next; the slot that has got some.
    fn grant<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32) -> Option<u32> {
        let credits = self.credits.as_mut()?;
        let (pacer, armed) = &mut credits.pacers[nic as usize];
        let mut credit = None;
        if let (false, Some(slot)) = (*armed || pacer.due().is_none_or(|due| due > io.now), pacer.next()) {
            let receiver = &mut self.receivers[slot];
            let transport = &self.transports[receiver.transport];
            let grant = &mut credits.grants[slot as usize];
            if let Some(config) = &transport.credit {
                pacer.grant(grant, config, transport.env(self.nics[nic as usize].rate), io.now);
            }
            receiver.replies = receiver.replies.wrapping_add(1);
            let hash = if self.entropy.is_of_flows() { 0 } else { grant.granted() as u16 };
            let packet = Packet {
                flow: receiver.peer,
                seq: grant.granted(),
                owd_ns: UNMEASURED,
                size: transport.ack_size,
                hash: receiver.hash ^ hash,
                ..Packet::default()
            };
            let class = transport.ack_class(receiver.class);
            let packet = packet.to(receiver.src).as_a(Kind::OR_ACK).marked(CREDIT, class);
            credit = Some((slot, receiver.class, transport.acks_unpaused, packet));
        }
        if let (false, Some(due)) = (*armed, pacer.due()) {
            *armed = true;
            io.events.timer(due, Timer::Credit(nic));
        }
        let (slot, class, unpaused, packet) = credit?;
        self.queue_ack(nic, class, unpaused, packet);
        Some(slot)
    }

    /// Has a sender that has something to send but no credit ask for some, unless some is under way; `again` even then.
    /// It sends a header without a packet. The NIC is to send after this.
    #[cold]
    pub(super) fn ask<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, slot: u32, again: bool) {
        let sender = &mut self.senders[slot];
        let Some(credit) = sender.cc.credit().filter(|credit| credit.is_short()) else { return };
        if !sender.tx.ready() || credit.is_awaited() && !again {
            return;
        }
        let transport = &self.transports[sender.transport];
        let nic = sender.nic;
        let asks = asks(sender, &self.shaper, self.classes, transport.env(self.nics[nic as usize].rate));
        sender.packets = sender.packets.wrapping_add(1);
        let packet = Packet {
            sent_ns: (io.now / NS) as u32,
            flow: sender.peer,
            seq: NO_PACKET,
            owd_ns: asks,
            size: transport.header() as u16,
            hash: sender.hash,
            ..Packet::default()
        };
        let packet = packet.to(sender.dst).marked(TRIMMED, transport.ack_class(sender.class));
        let (class, unpaused) = (sender.class, transport.acks_unpaused);
        self.queue_ack(nic, class, unpaused, packet);
    }
}
