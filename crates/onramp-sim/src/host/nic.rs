//! The NIC of a host: ACKs first, then what its agent sends, then the flows in turn, each when its pacer
//! and its On-Ramp gate let it.

use crate::clock::Clocks;
use crate::events::Timer;
use crate::network::Packet;
use crate::scenario::Class;
use crate::sim::Simulation;
use crate::topology::PortId;
use crate::units::Ps;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// What a host has to send.
#[derive(Debug)]
pub struct Nic {
    /// The host's only port.
    port: PortId,
    /// ACKs and NACKs.
    pub acks: VecDeque<Packet>,
    /// OR-ACKs, probes and answers to them; like data, they wait while the data
    /// class is paused.
    pub agent: VecDeque<Packet>,
    /// Flows that may send now, in turn.
    ready: VecDeque<u32>,
    /// Flows that may send later. Entries whose time is not their flow's `wake`
    /// are void: the flow has moved to an earlier time since.
    pacer: BinaryHeap<Reverse<(Ps, u32)>>,
    /// Time of the next valid wake-up event; `None` if there is none.
    wake_at: Option<Ps>,
}

impl Nic {
    /// An idle NIC at `port`.
    pub fn new(port: PortId) -> Self {
        Self {
            port,
            acks: VecDeque::new(),
            agent: VecDeque::new(),
            ready: VecDeque::new(),
            pacer: BinaryHeap::new(),
            wake_at: None,
        }
    }
}

impl Simulation {
    /// A host's port is free or something new is to be sent.
    pub(crate) fn nic_send(&mut self, host: u32) {
        let port = self.nics[host as usize].port;
        let (busy, paused) = (self.ports[port as usize].busy, self.ports[port as usize].paused);
        if busy {
            return;
        }
        let nic = &mut self.nics[host as usize];
        if (!paused || self.ack_class == Class::Control)
            && let Some(ack) = nic.acks.pop_front()
        {
            return self.start(port, ack);
        }
        if paused {
            return;
        }
        if let Some(packet) = nic.agent.pop_front() {
            if let (Clocks::Running(clocks), true) = (&mut self.clocks, packet.is_probe()) {
                clocks.leaves(&packet, self.now);
            }
            return self.start(port, packet);
        }
        while let Some(slot) = self.next_ready(host) {
            match self.release_time(slot) {
                Some(at) if at <= self.now => return self.send_packet(port, slot),
                Some(at) => self.pace(host, slot, at),
                None => self.flows.reclaim(slot),
            }
        }
        self.arm(host);
    }

    /// The next flow whose time has come.
    fn next_ready(&mut self, host: u32) -> Option<u32> {
        let nic = &mut self.nics[host as usize];
        while let Some(&Reverse((at, slot))) = nic.pacer.peek()
            && at <= self.now
        {
            nic.pacer.pop();
            let flow = &mut self.flows[slot];
            // The slot may have gone to another host's flow since.
            if flow.wake == at && flow.src == host {
                flow.wake = Ps::MAX;
                if !flow.ready {
                    flow.ready = true;
                    nic.ready.push_back(slot);
                }
            }
        }
        let slot = nic.ready.pop_front()?;
        self.flows[slot].ready = false;
        Some(slot)
    }

    /// Asks for a wake-up when the pacer's first flow is due.
    fn arm(&mut self, host: u32) {
        let nic = &mut self.nics[host as usize];
        if let Some(&Reverse((at, _))) = nic.pacer.peek()
            && nic.wake_at.is_none_or(|wake| at < wake)
        {
            nic.wake_at = Some(at);
            self.events.timer(at, Timer::Wake(host));
        }
    }

    /// A wake-up event has come.
    pub(crate) fn nic_wake(&mut self, host: u32) {
        let nic = &mut self.nics[host as usize];
        if nic.wake_at == Some(self.now) {
            nic.wake_at = None;
            self.nic_send(host);
        }
    }

    /// Notes that `slot` may send at `at`.
    fn pace(&mut self, host: u32, slot: u32, at: Ps) {
        let flow = &mut self.flows[slot];
        if at < flow.wake {
            flow.wake = at;
            self.nics[host as usize].pacer.push(Reverse((at, slot)));
        }
    }

    /// Lines a flow up after it has sent: it may go on when the link is free.
    pub(crate) fn line_up(&mut self, host: u32, slot: u32, link_free: Ps) {
        match self.release_time(slot) {
            Some(at) if at <= link_free => {
                let flow = &mut self.flows[slot];
                if !flow.ready {
                    flow.ready = true;
                    self.nics[host as usize].ready.push_back(slot);
                }
            }
            Some(at) => self.pace(host, slot, at),
            None => {}
        }
    }

    /// Something about a flow changed: lines it up and sends if the link is idle.
    pub(crate) fn activate(&mut self, slot: u32) {
        let flow = &self.flows[slot];
        if flow.ready {
            return;
        }
        let host = flow.src;
        self.line_up(host, slot, self.now);
        self.nic_send(host);
    }
}
