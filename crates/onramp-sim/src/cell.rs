//! A cell: part of the network with its hosts, and the loop over its events.

use crate::clock::{self, Clocks};
use crate::engine::{Event, Events, Head, OnLink, Posts, prefetch};
use crate::host::shaper::Entry;
use crate::host::{self, Hosts, Io, Timer};
use crate::measure::{Echo, Meter};
use crate::network::faults::Change;
use crate::network::feedback::Feedback;
use crate::network::port::Port;
use crate::network::{self, Kind, Network, Packet};
use onramp_config::units::{NS, Ps};
use onramp_topology::{Cells, Topology};
use onramp_workload::state::Encoder;
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Cell<F: Feedback> {
    now: Ps,
    /// Events to come.
    pub events: Events<Packet<F::Header>, Timer>,
    /// Links and switches.
    pub network: Network<F>,
    /// Hosts.
    pub hosts: Hosts<F::Header>,
    /// The hosts' clocks.
    pub clocks: Clocks,
    /// Measurements.
    pub meter: Meter,
    /// From the other cells, by their numbers.
    pub incoming: Posts<Packet<F::Header>>,
    map: Arc<Cells>,
    topology: Arc<Topology>,
    span: clock::Span,
    /// Everything before has happened.
    at: Ps,
    /// Events so far.
    pub done: u64,
}

/// The parts of a cell.
pub struct Parts<F: Feedback> {
    /// Events to come.
    pub events: Events<Packet<F::Header>, Timer>,
    /// Links and switches.
    pub network: Network<F>,
    /// Hosts.
    pub hosts: Hosts<F::Header>,
    /// The hosts' clocks.
    pub clocks: Clocks,
    /// Measurements.
    pub meter: Meter,
}

/// Counters of a cell at a moment.
#[derive(Clone, Debug)]
pub struct Tally {
    network: network::Tally,
    hosts: host::Tally,
}

impl<F: Feedback> Cell<F> {
    /// A cell at time 0 of the engine, one of those of `map`.
    pub fn new(parts: Parts<F>, map: Arc<Cells>, topology: Arc<Topology>, seed: u64, span: clock::Span) -> Self {
        let Parts { mut events, network, hosts, clocks, meter } = parts;
        if let Clocks::Running(clocks) = &clocks {
            for (at, tick) in clocks.begin(seed, span) {
                events.timer(at, Timer::Clock(tick));
            }
        }
        let incoming = Posts::new(map.parts.len());
        Self { now: 0, at: 0, done: 0, events, network, hosts, clocks, meter, incoming, map, topology, span }
    }

    /// Has a host pause all payload classes of its switch's port from one time to another.
    pub fn storm(&mut self, port: u32, start: Ps, stop: Option<Ps>) {
        // A pause lasts until it is taken back: one frame does what a stream of them does.
        for (at, kind) in [(Some(start), Kind::PAUSE), (stop, Kind::RESUME)] {
            let Some(at) = at else { continue };
            for frame in self.network.frames(kind) {
                self.network.counts.sent += 1;
                self.events.odd_arrival(at, port, frame);
            }
        }
    }

    /// Has a change of links or routes take effect at a time.
    pub fn change(&mut self, at: Ps, change: Change, random: Pcg64Mcg) {
        let number = self.network.add_change(change, random);
        self.events.timer(at, Timer::Fault(number));
    }

    /// Runs all events before `end`.
    pub fn run(&mut self, end: Ps) {
        while self.events.deliver(&mut self.incoming, self.at) {
            // What is left was sent later and is not here before this.
            self.run_to(end.min(self.at + self.map.window));
        }
        self.run_to(end);
    }

    fn run_to(&mut self, end: Ps) {
        self.at = end;
        while let Some((at, head)) = self.events.next(end) {
            self.now = at;
            self.done += 1;
            match head {
                Head::Packet => {
                    let packet = self.events.take_packet();
                    self.look_ahead();
                    self.arrive(packet);
                }
                Head::Port => {
                    let port = self.events.take_port();
                    // TCP's packets wait in long queues, out of the cache; RDMA's seldom do.
                    if self.events.by_link() {
                        self.look_ahead_at_ports();
                    }
                    self.port_ready(port);
                }
                Head::Rare => match self.events.take_rare() {
                    Event::Arrive(packet) => self.arrive(packet),
                    Event::PortReady(port) => self.port_ready(port),
                    Event::Timer(timer) => self.timer(timer),
                },
            }
        }
    }

    /// Fetches what the next packets will need: the port of the second one,
    /// and the flow of the first one, whose port has come by now.
    #[inline]
    fn look_ahead(&self) {
        let [first, second] = self.events.ahead();
        if let Some(second) = second {
            prefetch(&self.network.ports, second.link as usize);
        }
        if let Some(first) = first
            && self.network.ports[first.link as usize].host
        {
            self.hosts.prefetch(&first.packet);
        }
    }

    /// Fetches what the next ports will send: the port and the queue of the second one, and the packet of the first
    /// one, whose queue has come by now.
    #[inline]
    fn look_ahead_at_ports(&self) {
        let [first, second] = self.events.ports_ahead();
        if let Some(second) = second {
            self.network.prefetch_port(second);
        }
        if let Some(first) = first {
            self.network.prefetch_packet(first);
        }
    }

    #[inline]
    fn hosts(&mut self) -> (&mut Hosts<F::Header>, Io<'_, F>) {
        let Self { now, events, network, hosts, clocks, meter, .. } = self;
        (hosts, Io { now: *now, events, network, clocks, meter, stamped: *now })
    }

    /// A packet arrives at the far end of its link.
    #[inline]
    fn arrive(&mut self, on: OnLink<Packet<F::Header>>) {
        self.network.counts.hops += 1;
        let OnLink { link: port, packet } = on;
        let host = self.network.ports[port as usize].host;
        if self.network.looks() && self.network.loses(self.now, port, &packet) {
            if !packet.is_pfc() {
                self.lost(&packet);
            }
            return;
        }
        if packet.is_pfc() {
            self.network.pause(self.now, port, &packet);
            if host {
                let nic = self.network.ports[port as usize].owner;
                let (hosts, mut io) = self.hosts();
                hosts.nic_send(&mut io, nic);
            } else {
                self.network.go_on(&mut self.events, self.now, port);
            }
        } else if host {
            if packet.is_probe() {
                return self.probed(&packet);
            }
            let (hosts, mut io) = self.hosts();
            let nic = io.network.ports[port as usize].owner;
            hosts.comes(&mut io, &packet, nic);
        } else if let Some(lost) = self.network.forward(&mut self.events, self.now, on) {
            self.lost(&lost);
        }
    }

    fn port_ready(&mut self, id: u32) {
        let port = &mut self.network.ports[id as usize];
        port.told = false;
        let owner = port.owner;
        if port.host {
            let (hosts, mut io) = self.hosts();
            hosts.nic_send(&mut io, owner);
        } else {
            self.network.transmit(&mut self.events, self.now, id);
        }
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Clock(tick) => return self.tick(tick),
            Timer::Fault(number) => return self.changes(number),
            _ => {}
        }
        let (hosts, mut io) = self.hosts();
        match timer {
            Timer::Start(id, slot) => hosts.start(&mut io, Entry { slot, id }),
            Timer::Stop(id, slot) => hosts.stop(&mut io, Entry { slot, id }),
            Timer::Wake(nic) => hosts.wake(&mut io, nic),
            Timer::Deadline(nic) => hosts.deadline(&mut io, nic),
            Timer::Connection(_, slot) => hosts.connection_due(&mut io, slot),
            Timer::Program(_, slot) => hosts.program_due(&mut io, slot),
            Timer::End(_, slot) => hosts.end_due(&mut io, slot),
            Timer::Served(nic) => hosts.served(&mut io, nic),
            Timer::Credit(nic) => hosts.credit_due(&mut io, nic),
            Timer::Fault(_) | Timer::Clock(_) => {}
        }
    }

    /// A change of links or routes takes effect. Who was paused over a link that goes down is so no more.
    #[cold]
    fn changes(&mut self, number: u32) {
        let Some(port) = self.network.change(number) else { return };
        for frame in self.network.frames(Kind::RESUME) {
            self.network.counts.sent += 1;
            self.network.pause(self.now, port, &frame);
        }
        let Port { host, owner, .. } = self.network.ports[port as usize];
        if host {
            let (hosts, mut io) = self.hosts();
            hosts.nic_send(&mut io, owner);
        } else {
            self.network.go_on(&mut self.events, self.now, port);
        }
    }

    #[cold]
    fn tick(&mut self, tick: clock::Tick) {
        let Clocks::Running(clocks) = &mut self.clocks else { return };
        let actions = clocks.tick(tick, self.now, self.span);
        for (at, tick) in actions.ticks {
            self.events.timer(at, Timer::Clock(tick));
        }
        if let Some((host, packet)) = actions.send {
            self.send_probe(host, packet);
        }
    }

    #[cold]
    fn probed(&mut self, packet: &Packet<F::Header>) {
        self.hosts.counts.delivered += 1;
        let Clocks::Running(clocks) = &mut self.clocks else { return };
        if let Some(answer) = clocks.receive(packet, self.now) {
            self.send_probe(packet.dst(), answer);
        }
    }

    fn send_probe(&mut self, host: u32, packet: Packet<F::Header>) {
        let nic = self.map.nic_towards(&self.topology, host, packet.dst(), packet.hash);
        let (hosts, mut io) = self.hosts();
        hosts.queue_agent(&mut io, nic, packet);
        hosts.nic_send(&mut io, nic);
    }

    #[cold]
    fn lost(&mut self, packet: &Packet<F::Header>) {
        if packet.is_probe() {
            if let Clocks::Running(clocks) = &mut self.clocks {
                clocks.lost(packet);
            }
            return;
        }
        self.hosts.lost(packet);
    }

    /// Takes down what its future depends on; it is busy while a packet is anywhere.
    pub fn encode(&self, state: &mut Encoder) {
        let Self {
            now: _,
            events,
            network,
            hosts,
            clocks,
            meter,
            incoming,
            map: _,
            topology: _,
            span: _,
            at: _,
            done: _,
        } = self;
        clocks.encode(state);
        meter.encode(state);
        let kept = |timer: &Timer| matches!(timer, Timer::Wake(_) | Timer::Deadline(_) | Timer::Program(..));
        events.encode(state, kept);
        if !incoming.is_empty() {
            state.busy();
        }
        // What is soonest found out comes first.
        if !state.is_over() {
            hosts.encode(state);
        }
        if !state.is_over() {
            network.encode(state);
        }
    }

    /// Counters at `now`.
    pub fn tally(&self, now: Ps) -> Tally {
        Tally { network: self.network.tally(now), hosts: self.hosts.tally(now) }
    }

    /// Measures at times that are shifted, and for so many repetitions of the present as well.
    pub fn foresee(&mut self, shift: Ps, period: Ps, times: u64) {
        let measures = times > 0 || !shift.is_multiple_of(NS);
        self.network.foresee();
        self.meter.echo = measures.then(|| Box::new(Echo::new(shift, period, times)));
    }

    /// Counts what was counted since `before`, up to `now`, so many times more, with the delays that were foreseen.
    pub fn repeat(&mut self, before: &Tally, now: Ps, times: u64) {
        let Tally { network, hosts } = before;
        self.network.repeat(network, now, times);
        self.hosts.repeat(hosts, now, times);
        self.meter.repeat();
    }

    /// Queueing delays of all switch ports, now, in so many repetitions.
    pub fn echo_queues(&mut self, times: u64) {
        let Self { network, meter, .. } = self;
        let idle = network.sample_queues(true, |delay| meter.echo_queue(delay, times));
        meter.echo_queue(0, idle * times);
    }

    /// Queueing delays of all switch ports, now.
    pub fn sample_queues(&mut self) {
        let Self { network, meter, .. } = self;
        let idle = network.sample_queues(false, |delay| meter.queue(delay));
        meter.queue.record_zeros(idle);
    }

    /// Packets on links to this cell, in its queues, and on their way to other cells.
    pub fn packets_inside(&self) -> u64 {
        let waiting = self.network.waiting() + self.hosts.unprocessed();
        self.events.packets_in_flight() + waiting + self.network.posted() + self.incoming.len() as u64
    }
}
