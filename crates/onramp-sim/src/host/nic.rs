//! The NIC of a host's port: ACKs first, then the flows in turn, each when the
//! shaper and its On-Ramp gate let it; the agent takes its turn as one more flow.

use super::pacing::Pacing;
use super::shaper::{AGENT, Entry, Shaper, Take};
use super::{Hosts, Io, Timer};
use crate::clock::Clocks;
use crate::engine::prefetch;
use crate::network::Packet;
use crate::network::feedback::{Feedback, Header};
use crate::network::schedule::{CONTROL, Turn};
use onramp_config::units::Ps;
use onramp_workload::state::Encoder;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Queues and wake-up times of a host's port.
#[derive(Debug)]
pub struct Nic<H> {
    /// The port, as the cell counts them.
    pub port: u32,
    /// The number of its rate.
    pub rate: u8,
    /// ACKs and NACKs by class; those that nothing pauses in the control class.
    acks: Vec<VecDeque<Packet<H>>>,
    /// Classes that have some, a bit each.
    acks_wait: u16,
    /// OR-ACKs, probes and answers to them, by class; they wait while it is paused.
    agent: Vec<VecDeque<Packet<H>>>,
    turn: Turn,
    /// Its pacer, if flows have none of their own: when the next packet may leave, and its rate in bytes per
    /// picosecond.
    paced_until: Ps,
    pub paced_rate: f64,
    /// Where a host has both, it is not TCP's turn.
    others_first: bool,
    /// Time of the next valid wake-up event; `None` if there is none.
    wake_at: Option<Ps>,
    /// When flows may have timed out: time, number, slot. A flow has one entry.
    deadlines: BinaryHeap<Reverse<(Ps, u64, u32)>>,
    deadline_at: Option<Ps>,
}

impl<H> Nic<H> {
    /// An idle NIC at `port`.
    pub fn new(port: u32, rate: u8, classes: usize) -> Self {
        let queues = || (0..classes).map(|_| VecDeque::new()).collect();
        Self {
            port,
            rate,
            acks: queues(),
            acks_wait: 0,
            agent: queues(),
            turn: Turn::default(),
            paced_until: 0,
            paced_rate: 0.0,
            others_first: false,
            wake_at: None,
            deadlines: BinaryHeap::new(),
            deadline_at: None,
        }
    }
}

impl<H> Nic<H> {
    /// Takes down its state; it is busy while something waits. `rto` tells the retransmission timeout of a flow by slot and
    /// number, if it is not over.
    ///
    /// With nothing in flight no flow has a deadline. A look at one that was set before finds nothing, unless it comes so
    /// late, after a timeout that was doubled, that the flow may have a deadline again that passes before.
    pub fn encode(&self, state: &mut Encoder, rto: impl Fn(u32, u64) -> Option<Ps>) {
        let Self {
            port: _,
            rate: _,
            acks,
            acks_wait: _,
            agent,
            turn,
            paced_until,
            paced_rate,
            others_first,
            wake_at,
            deadlines,
            deadline_at: _,
        } = self;
        if acks.iter().chain(agent).any(|queue| !queue.is_empty()) {
            state.busy();
        }
        turn.encode(state);
        state.due(*paced_until);
        state.float(*paced_rate);
        state.word(*others_first);
        let is_late = |&(at, id, slot): &(Ps, u64, u32)| rto(slot, id).is_some_and(|rto| at > state.now() + rto);
        let mut late: Vec<_> = deadlines.iter().map(|Reverse(entry)| *entry).filter(is_late).collect();
        late.sort_unstable();
        state.word(late.len() as u64);
        for (at, id, _) in late {
            state.time(at);
            state.word(id);
        }
        state.word(wake_at.map_or(u64::MAX, |at| at.wrapping_sub(state.now())));
    }

    /// When it wakes; `Ps::MAX` if it does not.
    pub fn wake_at(&self) -> Ps {
        self.wake_at.unwrap_or(Ps::MAX)
    }

    /// A packet with so much `payload` has left, of a flow whose share of the pacer's rate has changed.
    pub(super) fn pace(&mut self, now: Ps, payload: u64, change: f64) {
        self.paced_rate += change;
        self.paced_until = self.paced_until.max(now) + (payload as f64 / self.paced_rate) as Ps;
    }
}

impl<H: Header> Hosts<H> {
    #[inline]
    pub(super) fn line(&self, nic: u32, class: u8) -> usize {
        nic as usize * self.classes + usize::from(class)
    }

    /// A NIC's port is free or something new is to be sent.
    #[inline]
    pub fn nic_send<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32) {
        let id = self.nics[nic as usize].port;
        let port = &io.network.ports[id as usize];
        if port.told {
            return;
        }
        let open = !port.paused & ((1 << self.classes) - 1) as u16;
        let own = &mut self.nics[nic as usize];
        let waiting = own.acks_wait & open;
        if waiting != 0 {
            let class = waiting.trailing_zeros() as usize;
            let acks = &mut own.acks[class];
            if let Some(ack) = acks.pop_front() {
                if acks.is_empty() {
                    own.acks_wait &= !(1 << class);
                }
                return io.network.start(io.events, io.now, id, ack);
            }
        }
        let mut classes = open & !(1 << CONTROL);
        let mut wake = Ps::MAX;
        loop {
            let own = &mut self.nics[nic as usize];
            let Some(class) = io.network.schedule().pick(&mut own.turn, classes) else { break };
            match self.class_sends(io, nic, class) {
                Ok(size) => {
                    let own = &mut self.nics[nic as usize];
                    return io.network.schedule().charge(&mut own.turn, class, size);
                }
                Err(at) => wake = at.min(wake),
            }
            classes &= !(1 << class);
        }
        let own = &mut self.nics[nic as usize];
        if wake < own.wake_at.unwrap_or(Ps::MAX) {
            own.wake_at = Some(wake);
            io.events.timer(wake, Timer::Wake(nic));
        }
    }

    /// Sends a packet of a class: its bytes, or when one may be due.
    #[inline(always)]
    fn class_sends<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32, class: u8) -> Result<u16, Ps> {
        if self.tcp.is_none() { self.shaped_sends(io, nic, class) } else { self.both_send(io, nic, class) }
    }

    /// TCP and what is not take turns.
    #[inline(never)]
    fn both_send<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32, class: u8) -> Result<u16, Ps> {
        if !self.shapes {
            let sent = self.tcp_sends(io, nic, class);
            self.nics[nic as usize].others_first |= sent.is_ok();
            return sent;
        }
        let others = self.nics[nic as usize].others_first;
        let mut later = Ps::MAX;
        for others in [others, !others] {
            let sent = if others { self.shaped_sends(io, nic, class) } else { self.tcp_sends(io, nic, class) };
            match sent {
                Ok(size) => {
                    self.nics[nic as usize].others_first = !others;
                    return Ok(size);
                }
                Err(at) => later = at.min(later),
            }
        }
        Err(later)
    }

    fn tcp_sends<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32, class: u8) -> Result<u16, Ps> {
        let port = self.nics[nic as usize].port;
        self.tcp.as_mut().map_or(Err(Ps::MAX), |tcp| tcp.sends(io, nic, port, class))
    }

    /// A packet of the flows that the shaper has, or of the agent.
    #[inline(always)]
    fn shaped_sends<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32, class: u8) -> Result<u16, Ps> {
        let line = self.line(nic, class);
        if self.pacing.pacing == Pacing::Egress {
            let paced_until = self.nics[nic as usize].paced_until;
            if paced_until > io.now {
                return Err(paced_until);
            }
        }
        loop {
            match self.shaper.take(line, io.now) {
                Take::Idle => return Err(Ps::MAX),
                Take::At(at) => return Err(at),
                Take::Send(AGENT) => {
                    if let Some(size) = self.agent_sends(io, nic, class) {
                        return Ok(size);
                    }
                }
                Take::Send(flow) => match self.may_send(io, flow.slot) {
                    Some(at) if at <= io.now => {
                        let size = self.send_packet(io, flow);
                        // With more flows than fit the cache, whose turn is next has been idle for long.
                        if let Some(next) = self.shaper.following(line) {
                            prefetch(self.senders.slots(), next as usize);
                            self.shaper.prefetch(next);
                        }
                        return Ok(size);
                    }
                    Some(at) => self.shaper.offer(line, flow, at, io.now),
                    None => {}
                },
            }
        }
    }

    fn agent_sends<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32, class: u8) -> Option<u16> {
        let line = self.line(nic, class);
        let own = &mut self.nics[nic as usize];
        let queue = &mut own.agent[usize::from(class)];
        let packet = queue.pop_front()?;
        if !queue.is_empty() {
            self.shaper.offer(line, AGENT, io.now, io.now);
        }
        if let (Clocks::Running(clocks), true) = (&mut *io.clocks, packet.is_probe()) {
            clocks.leaves(&packet, io.now);
        }
        io.network.start(io.events, io.now, own.port, packet);
        Some(packet.size)
    }

    /// Queues an ACK; `unpaused` ones leave whatever is paused.
    #[inline]
    pub(super) fn queue_ack(&mut self, nic: u32, class: u8, unpaused: bool, ack: Packet<H>) {
        let class = if unpaused { CONTROL } else { class };
        let own = &mut self.nics[nic as usize];
        own.acks[usize::from(class)].push_back(ack);
        own.acks_wait |= 1 << class;
    }

    /// Queues a packet of the agent, which goes in the class it names.
    pub fn queue_agent<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32, packet: Packet<H>) {
        let class = packet.class();
        self.nics[nic as usize].agent[usize::from(class)].push_back(packet);
        self.shapes = true;
        self.shaper.offer(self.line(nic, class), AGENT, io.now, io.now);
    }

    /// A wake-up event has come.
    pub fn wake<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32) {
        let own = &mut self.nics[nic as usize];
        if own.wake_at == Some(io.now) {
            own.wake_at = None;
            self.nic_send(io, nic);
        }
    }

    /// Offers a flow to the shaper: it may go on when the link is free, at `free`.
    #[inline(always)]
    pub(super) fn line_up(&mut self, flow: Entry, now: Ps, free: Ps) {
        if self.shaper.holds() {
            return self.hand_down(flow, now);
        }
        let sender = &mut self.senders[flow.slot];
        if let Some(at) = sender.due(&self.transports, self.nics[sender.nic as usize].rate, now) {
            self.offer(flow, at, free);
        }
    }

    /// Offers a flow to the shaper for a time.
    #[inline(always)]
    pub(super) fn offer(&mut self, flow: Entry, at: Ps, free: Ps) {
        let sender = &self.senders[flow.slot];
        let line = self.line(sender.nic, sender.class);
        self.shaper.offer(line, flow, at, free);
    }

    /// Hands packets of a flow down to a shaper that holds them, as many as both let.
    #[inline(never)]
    pub(super) fn hand_down(&mut self, flow: Entry, now: Ps) {
        let sender = &mut self.senders[flow.slot];
        let transport = &self.transports[sender.transport];
        let rate = self.nics[sender.nic as usize].rate;
        let line = sender.nic as usize * self.classes + usize::from(sender.class);
        let permit = sender.cc.permit(&transport.config, transport.env(rate), now);
        // At a rate of 0 it waits for what its controller hears next.
        while permit.rate > 0.0
            && let Some(ahead) = self.shaper.room(flow)
            && let Some(size) = sender.tx.size_of(ahead)
            && (!transport.windowed || sender.tx.in_flight_with(ahead) < permit.window)
        {
            self.shaper.hand(line, flow, size, permit.rate, now);
        }
    }

    /// Looks at a flow's timeout at `at`.
    pub(super) fn watch<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, flow: Entry, at: Ps) {
        let nic = self.senders[flow.slot].nic;
        self.nics[nic as usize].deadlines.push(Reverse((at, flow.id, flow.slot)));
        self.arm_deadline(io, nic);
    }

    fn arm_deadline<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32) {
        let own = &mut self.nics[nic as usize];
        if let Some(&Reverse((at, ..))) = own.deadlines.peek()
            && own.deadline_at.is_none_or(|armed| at < armed)
        {
            own.deadline_at = Some(at);
            io.events.timer(at, Timer::Deadline(nic));
        }
    }

    /// A deadline event has come.
    pub fn deadline<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, nic: u32) {
        let own = &mut self.nics[nic as usize];
        if own.deadline_at != Some(io.now) {
            return;
        }
        own.deadline_at = None;
        let mut due = Vec::new();
        while let Some(&Reverse((at, id, slot))) = own.deadlines.peek()
            && at <= io.now
        {
            own.deadlines.pop();
            due.push(Entry { slot, id });
        }
        for flow in due {
            self.look_at_timeout(io, flow);
        }
        self.arm_deadline(io, nic);
    }
}
