//! The sending end of a flow: window, pacing, On-Ramp's gate, timeouts.

use super::credit::asks;
use super::pacing::Pacing;
use super::shaper::{Entry, FREE, Shaper};
use super::{Hosts, Io, Note, Sender, Timer, Transports};
use crate::cc::{Ack, Loss, Sent};
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::{ACK_REQUEST, CREDIT, MARKED, TCP, UNMEASURED, unwrap_ns};
use crate::network::{Kind, Packet};
use crate::stack::Tx;
use onramp_config::units::{NS, Ps, SEC};

impl Sender {
    /// When its next packet may leave, but for On-Ramp; `None` if it waits for
    /// something else than time.
    #[inline(always)]
    pub(super) fn due(&mut self, transports: &Transports, rate: u8, now: Ps) -> Option<Ps> {
        if !self.tx.ready() {
            return None;
        }
        let transport = &transports[self.transport];
        if !transport.windowed {
            return Some(self.t_next);
        }
        let permit = self.cc.permit(&transport.config, transport.env(rate), now);
        self.within(permit.window).then_some(self.t_next)
    }

    /// True if a window has room for its next packet.
    #[inline(always)]
    fn within(&self, window: u64) -> bool {
        self.tx.in_flight() < window
    }
}

impl<H: Header> Hosts<H> {
    /// A flow begins.
    pub fn start<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, flow: Entry) {
        if flow.slot & TCP != 0 {
            return self.start_flow(io, flow.slot);
        }
        let sender = &self.senders[flow.slot];
        let (src, dst, stop, cap) = (sender.src, sender.dst, sender.stop, self.terms[flow.slot as usize].cap);
        if let Some(gates) = &mut self.gates {
            gates.open(flow.slot, src, dst, io.now);
        }
        if let Some(next) = &mut io.meter.next {
            next.open(flow.slot);
        }
        if let (Some(shaped), Some(_), true) = (&mut io.meter.shaped, stop, cap < FREE.cap) {
            shaped.open(flow.slot, cap, io.now);
        }
        if let Some(stop) = stop {
            io.events.timer(stop, Timer::Stop(flow.id, flow.slot));
        }
        let rto = self.transports[sender.transport].rto();
        self.watch(io, flow, io.now + rto);
        self.activate(io, flow);
    }

    /// Something about a flow changed: lines it up and sends if the link is idle.
    fn activate<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, flow: Entry) {
        if self.shaper.ready(flow) {
            return;
        }
        let nic = self.senders[flow.slot].nic;
        self.line_up(flow, io.now, io.now);
        if self.credits.is_some() {
            self.ask(io, flow.slot, false);
        }
        self.nic_send(io, nic);
    }

    /// Whose turn it is wants to send: when it may, if it waits for time only.
    #[inline(always)]
    pub(super) fn may_send<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, slot: u32) -> Option<Ps> {
        let sender = &mut self.senders[slot];
        let rate = self.nics[sender.nic as usize].rate;
        let mut due = sender.due(&self.transports, rate, io.now)?;
        if self.shaper.holds() {
            // It has been held for as long as its rate wants.
            due = io.now;
        }
        Some(self.gates.as_ref().map_or(due, |gates| gates.release(slot).max(due)))
    }

    /// Sends a flow's next packet now; its bytes on the wire.
    #[inline(always)]
    pub(super) fn send_packet<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, flow: Entry) -> u16 {
        let now = io.now;
        let paused = self.gates.as_mut().map_or(0, |gates| gates.stamp(flow.slot, now));
        let sender = &mut self.senders[flow.slot];
        let nic = &self.nics[sender.nic as usize];
        let mut segment = sender.tx.send(now);
        sender.packets = sender.packets.wrapping_add(1);
        sender.retransmitted += u32::from(segment.again);
        self.counts.retransmitted += u64::from(segment.again);
        let transport = &self.transports[sender.transport];
        let env = transport.env(nic.rate);
        let sent = Sent { now, size: segment.size, in_flight: sender.tx.in_flight() };
        sender.cc.on_sent(&transport.config, env, &sent);
        let header = if H::TOLD { H::tell(&sender.cc.tell(&transport.config, env)) } else { H::default() };
        let permit = sender.cc.permit(&transport.config, env, now);
        let rate = if self.capped { permit.rate.min(self.terms[flow.slot as usize].cap) } else { permit.rate };
        if sender.tx.is_unordered() && (self.gates.is_some() || !sender.within(permit.window)) {
            segment.flags |= ACK_REQUEST;
        }
        sender.spaced_size = segment.size;
        sender.spaced_at = now;
        sender.t_next = now.saturating_add(spacing(segment.size, rate));
        let hash =
            if self.entropies.is_empty() { sender.hash } else { self.entropies[flow.slot as usize].next(sender.hash) };
        let asks = if self.credits.is_some() { asks(sender, &self.shaper, self.classes, env) } else { 0 };
        let packet = Packet {
            sent_ns: (now / NS) as u32,
            flow: sender.peer,
            seq: segment.seq,
            paused,
            owd_ns: (now % NS) as i32 | asks,
            size: segment.size,
            hash,
            header,
            ..Packet::default()
        };
        let packet = packet.to(sender.dst).marked(segment.flags, sender.class);
        if let Some(next) = &mut io.meter.next {
            next.leaves(flow.slot, packet.identity(), [sender.src, packet.dst()], now);
        }
        if let Some(shaped) = &mut io.meter.shaped {
            let line = sender.nic as usize * self.classes + usize::from(sender.class);
            shaped.leaves(flow.slot, line, self.terms[flow.slot as usize].tenant, segment.size, env.line_rate, now);
        }
        let port = nic.port;
        if sender.tx.turns_after(&segment) {
            self.turn_to_next_message(flow.slot);
        }
        if !self.pacers.is_empty() {
            self.pace(flow.slot, now, permit.window);
        }
        io.network.start(io.events, now, port, packet);
        let free = io.network.ports[port as usize].free_at;
        if self.shaper.holds() {
            self.hand_down(flow, now);
        } else {
            // As `Sender::due` has it, with the window that is known.
            let sender = &self.senders[flow.slot];
            if sender.tx.ready() && sender.within(permit.window) {
                let line = self.line(sender.nic, sender.class);
                self.shaper.offer_again(line, flow, sender.t_next, free);
            }
        }
        segment.size
    }

    /// A packet of a flow whose window is paced leaves.
    #[cold]
    #[inline(never)]
    fn pace(&mut self, slot: u32, now: Ps, window: u64) {
        let sender = &mut self.senders[slot];
        let nic = &mut self.nics[sender.nic as usize];
        let env = self.transports[sender.transport].env(nic.rate);
        let pacer = &mut self.pacers[slot as usize];
        let next = pacer.next(&self.pacing, now, env.payload, window, env.base_rtt);
        sender.t_next = sender.t_next.max(next);
        if self.pacing.pacing == Pacing::Egress {
            nic.pace(now, env.payload, pacer.change(window.max(env.payload), env.base_rtt));
        }
    }

    /// A packet of such a flow was acknowledged after `rtt`.
    #[cold]
    #[inline(never)]
    fn paced(&mut self, slot: u32, now: Ps, rtt: Ps) {
        let sender = &mut self.senders[slot];
        let pacer = &mut self.pacers[slot as usize];
        pacer.measured(rtt);
        let waits = !self.shaper.ready(Entry { slot, id: sender.id });
        if self.pacing.pacing == Pacing::Burst && sender.t_next <= now && waits {
            sender.t_next = pacer.end_burst();
        }
    }

    /// An ACK, NACK or OR-ACK has reached the sender.
    #[inline(always)]
    pub(super) fn acknowledged<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, waited: Ps) {
        let (slot, now) = (packet.flow, io.now);
        let sender = &mut self.senders[slot];
        let or_ack = packet.kind() == Kind::OR_ACK;
        let unordered = !or_ack && sender.tx.is_unordered();
        // A reply that names its packet: one acknowledged before, by a later packet's, tells no time.
        let sent = if unordered { sender.tx.sent_at(packet.sent_ns, packet.seq) } else { Some(0) };
        let (came, sent_ns) = match sent {
            Some(at) if unordered => (packet.sent_ns, at / NS),
            Some(_) => (packet.paused, unwrap_ns(now / NS, packet.sent_ns)),
            None => (packet.sent_ns, now / NS),
        };
        sender.replies = sender.replies.wrapping_add(1);
        let finished = sender.done;
        if or_ack != self.separate_or_acks || sent.is_none() {
            // This one tells no delay.
        } else if let Some(gates) = &mut self.gates {
            // Without a delay or a margin the gate stays open.
            let measured = packet.owd_ns != UNMEASURED;
            let margin = if measured { io.clocks.margin(sender.src, sender.dst, now) } else { None };
            if let Some(margin) = margin {
                gates.learn(slot, now, packet.owd_ns, margin);
                if !finished {
                    gates.acked(slot, now, sent_ns, packet.paused, packet.owd_ns);
                }
            }
        }
        if or_ack {
            if finished {
                return self.free_sender(slot);
            }
            if packet.flags() & CREDIT != 0
                && let Some(credit) = sender.cc.credit()
            {
                credit.grant(packet.seq);
            }
            let flow = Entry { slot, id: sender.id };
            return self.activate(io, flow);
        }
        let trimmed = unordered && packet.kind() == Kind::NACK;
        if let Some(entropy) = self.entropies.get_mut(slot as usize) {
            let congested = packet.flags() & MARKED != 0 || trimmed;
            entropy.acknowledged(packet.hash, congested, now);
        }
        if let Some(next) = &mut io.meter.next {
            next.acked(packet.flow, packet.owd_ns, now / NS - sent_ns);
        }
        if finished {
            return self.free_sender(slot);
        }
        if unordered && self.gates.is_none() {
            sender.tx.arrived(came, packet.seq, packet.paused);
        }
        let next = sender.tx.next();
        // In place of On-Ramp's echo a NACK says which packet has come, with selective repeat.
        let progress = sender.tx.on_reply(packet.kind(), packet.seq, came, now);
        self.counts.acked += progress.newly_acked;
        let transport = &self.transports[sender.transport];
        let env = transport.env(self.nics[sender.nic as usize].rate);
        if let Some(loss) = progress.loss {
            sender.cc.on_loss(&transport.config, env, now, loss);
        }
        let rtt = (now / NS - sent_ns) * NS;
        io.meter.rtt(sender.traffic, rtt);
        let ack = Ack {
            now,
            rtt,
            endpoint: Ps::from(packet.header.waited()) * NS + waited,
            ecn: packet.flags() & MARKED != 0,
            trimmed: trimmed && progress.loss.is_some(),
            acked: u64::from(packet.seq),
            next: u64::from(sender.tx.next()),
            newly_acked: progress.newly_acked,
            in_flight: sender.tx.in_flight(),
            delivery_rate: progress.delivery_rate,
            written: packet.header.read(),
        };
        sender.cc.on_ack(&transport.config, env, &ack);
        if transport.respace && sender.spaced_size > 0 {
            let rate = sender.cc.permit(&transport.config, env, now).rate.min(self.terms[slot as usize].cap);
            sender.t_next = sender.spaced_at.saturating_add(spacing(sender.spaced_size, rate));
        }
        let flow = Entry { slot, id: sender.id };
        let done = sender.tx.done();
        if sender.tx.turns_from(next) {
            self.turn_to_next_message(slot);
        }
        if !self.pacers.is_empty() {
            self.paced(slot, now, rtt);
        }
        if done {
            self.finish(io, flow);
        } else {
            self.activate(io, flow);
        }
    }

    /// All packets are acknowledged.
    fn finish<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, flow: Entry) {
        let record = self.record(flow.slot, io.now);
        self.shaper.forget(flow);
        if let Some(shaped) = &mut io.meter.shaped {
            shaped.close(flow.slot, io.now);
        }
        let sender = &mut self.senders[flow.slot];
        sender.done = true;
        if let Some(pacer) = self.pacers.get_mut(flow.slot as usize) {
            self.nics[sender.nic as usize].paced_rate -= pacer.leave();
        }
        self.notes.push((sender.dst, Note::Done(sender.peer, sender.packets, record)));
        if let Some(gates) = &mut self.gates {
            gates.paused += record.paused_ps;
        }
    }

    /// A long flow is to stop: what was sent is all there is.
    pub fn stop<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, flow: Entry) {
        if flow.slot & TCP != 0 {
            return self.stop_flow(flow.id, flow.slot);
        }
        let sender = &mut self.senders[flow.slot];
        // The slot may have gone to another flow since.
        if sender.done || sender.id != flow.id {
            return;
        }
        sender.bytes = sender.tx.stop();
        if sender.tx.done() {
            self.finish(io, flow);
        }
    }

    /// The time has come at which a flow may have timed out.
    pub(super) fn look_at_timeout<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, flow: Entry) {
        let sender = &mut self.senders[flow.slot];
        // The slot may have gone to another flow since.
        if sender.done || sender.id != flow.id {
            return;
        }
        let transport = &self.transports[sender.transport];
        let (now, rto) = (io.now, transport.rto());
        match sender.tx.deadline() {
            Some(at) if at > now => self.watch(io, flow, at),
            // What is sent from here on times out later than that.
            None => {
                self.watch(io, flow, now + rto);
                if self.credits.is_some() {
                    self.ask(io, flow.slot, true);
                    self.nic_send(io, self.senders[flow.slot].nic);
                }
            }
            Some(_) => {
                sender.tx.on_timeout(now);
                // Of several packets that time out one by one the next.
                let next = if sender.tx.is_unordered() { sender.tx.deadline() } else { None };
                sender.timeouts += 1;
                self.counts.timeouts += 1;
                if let Some(entropy) = self.entropies.get_mut(flow.slot as usize) {
                    entropy.timed_out(now);
                }
                let env = transport.env(self.nics[sender.nic as usize].rate);
                sender.cc.on_loss(&transport.config, env, now, Loss::Timeout);
                if sender.tx.is_open() {
                    self.turn_to_next_message(flow.slot);
                }
                self.watch(io, flow, next.unwrap_or(now + rto));
                if self.credits.is_some() {
                    self.ask(io, flow.slot, true);
                }
                self.activate(io, flow);
            }
        }
    }
}

/// Time between the starts of two packets at `rate` bits per second; for ever at 0.
#[inline]
fn spacing(size: u16, rate: f64) -> Ps {
    (f64::from(size) * 8.0 * SEC as f64 / rate) as Ps
}
