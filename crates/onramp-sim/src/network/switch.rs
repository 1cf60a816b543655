//! Switches and links of one cell: admission, queues, marks, PFC, departures.

use super::buffer::{Account, Admission, Alpha, Buffer, Ingress};
use super::config::{ClassRules, Loss, PortBuffer, Rules};
use super::ecn::Ecn;
use super::edges::Edges;
use super::faults::{Change, Faults, Loses};
use super::feedback::{Feedback, Leaving};
use super::hops::{Fate, Hops};
use super::order::{Flow, Order};
use super::packet::{MARKED, TCP, TRIMMED, UNPAUSED};
use super::path::{Choice, Selector};
use super::port::{HERE, Pause, Pauses, Port, Queue};
use super::schedule::{CONTROL, Schedule, Turn};
use super::{Kind, Packet};
use crate::engine::{Events, Lanes, OnLink, Posts, prefetch};
use onramp_config::units::Ps;
use onramp_topology::{Cells, Routes, Topology};
use onramp_workload::state::Encoder;
use rand_pcg::Pcg64Mcg;
use std::ops::AddAssign;

/// With a payload of 1448 B by TCP: the slots in which arrivals are counted are as long as the port takes for it.
const FULL_PACKET: u16 = 1514;

/// The port of `switch` that a packet takes, where paths are not chosen by flow alone.
#[inline(never)]
fn pick<H>(
    paths: &mut Selector,
    routes: &Routes,
    now: Ps,
    switch: usize,
    packet: &Packet<H>,
    queued: &dyn Fn(u32) -> u64,
) -> u32 {
    let ports = routes.ports(switch, packet.dst());
    let hash = routes.mix(switch, packet.hash);
    if let [only] = ports { *only } else { ports[paths.pick(&Choice { now, switch, hash, ports, queued })] }
}

/// Where the packets of a cell are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that have crossed a link, counted once for every link.
    pub hops: u64,
    /// Put on a link by a host, and PFC frames.
    pub sent: u64,
    /// PFC frames that took effect.
    pub frames: u64,
    /// Dropped by a switch.
    pub dropped: u64,
    /// Cut to their header by a switch.
    pub trimmed: u64,
    /// Marked (ECN).
    pub marked: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.hops += other.hops;
        self.sent += other.sent;
        self.frames += other.frames;
        self.dropped += other.dropped;
        self.trimmed += other.trimmed;
        self.marked += other.marked;
    }
}

impl Counts {
    /// Adds what was counted since `before`, so many times more.
    fn repeat(&mut self, before: &Self, times: u64) {
        let Self { hops, sent, frames, dropped, trimmed, marked } = self;
        *hops += (*hops - before.hops) * times;
        *sent += (*sent - before.sent) * times;
        *frames += (*frames - before.frames) * times;
        *dropped += (*dropped - before.dropped) * times;
        *trimmed += (*trimmed - before.trimmed) * times;
        *marked += (*marked - before.marked) * times;
    }
}

/// Rare fates of packets at a port, from time 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fates {
    /// The port had no room for them.
    pub dropped: u64,
    /// Lost on the link to the port, whose other end has sent them.
    pub lost: u64,
    /// Cut to their header.
    pub trimmed: u64,
    /// Marked (ECN).
    pub marked: u64,
}

impl Fates {
    /// Adds what was counted since `before`, so many times more.
    fn repeat(&mut self, before: &Self, times: u64) {
        let Self { dropped, lost, trimmed, marked } = self;
        *dropped += (*dropped - before.dropped) * times;
        *lost += (*lost - before.lost) * times;
        *trimmed += (*trimmed - before.trimmed) * times;
        *marked += (*marked - before.marked) * times;
    }
}

/// Counters of a network at a moment.
#[derive(Clone, Debug)]
pub struct Tally {
    counts: Counts,
    fates: Vec<Fates>,
    tx_bytes: Vec<u64>,
    pauses: Vec<(u64, Ps)>,
}

/// Which cell of a network.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// The whole network.
    pub topology: &'a Topology,
    /// How it is cut up.
    pub cells: &'a Cells,
    /// The cell's number.
    pub number: usize,
}

/// Ports, queues and buffers of one cell. Numbers of ports, switches and NICs are
/// the cell's own.
#[derive(Debug)]
pub struct Network<F: Feedback> {
    feedback: F,
    written: Vec<F::Port>,
    /// By number.
    pub ports: Vec<Port>,
    /// Of port p and class c: `p * classes + c`; class 0 is the control class.
    queues: Vec<Queue<F::Header>>,
    /// Of port p and payload class c: `p * (classes - 1) + c - 1`.
    ingress: Vec<Ingress>,
    /// As the queues; none before the first pause.
    pauses: Vec<Pauses>,
    /// Pauses that are over, until they are taken, where they are recorded.
    paused: Option<Vec<Pause>>,
    /// Egress thresholds of lossy classes.
    alphas: Vec<Alpha>,
    classes: usize,
    /// Classes that drop by their egress queue, a bit each.
    lossy: u16,
    /// Classes that drop by their ingress port and never pause it, a bit each.
    unpaused: u16,
    tail: Option<PortBuffer>,
    /// Bytes to which packets are cut, see [`Rules::trim`].
    trim: Option<u16>,
    schedule: Schedule,
    /// One that nobody looks at, where no classes take turns.
    turns: Vec<Turn>,
    buffers: Vec<Buffer>,
    routes: Routes,
    /// How paths are chosen, if not by [`Routes::port`], which is ECMP.
    paths: Option<Selector>,
    random: Vec<Pcg64Mcg>,
    rates: Vec<u64>,
    /// Time spent sending before counting began, and bytes sent.
    sent_before: Vec<(Ps, u64)>,
    /// By port, from time 0 on.
    fates: Vec<Fates>,
    /// Largest queue of each port at samples, and at those of repetitions that are foreseen \[B\].
    deepest: Vec<u64>,
    foreseen: Vec<u64>,
    /// Ports of switches, and those of them at which something waits.
    switch_ports: u64,
    busy_ports: u64,
    pfc_frame: u16,
    /// Ports whose packets' order is recorded.
    orders: Vec<(u32, Order)>,
    /// Faults of links, where there are any.
    faults: Option<Box<Faults>>,
    /// Packets to hosts of flows that are traced, if some are.
    hops: Option<Box<Hops>>,
    /// Packets of traced RDMA flows at their hosts, if some are.
    edges: Option<Box<Edges>>,
    /// There are faults, hops or edges.
    looks: bool,
    /// For other cells.
    pub outbox: Posts<Packet<F::Header>>,
    /// Counts so far.
    pub counts: Counts,
}

impl<F: Feedback> Network<F> {
    /// The network of a cell; `sizes` are the usual sizes of packets, and `full` is what a class sends in its turn.
    pub fn new(
        feedback: F,
        rules: &Rules,
        part: Part<'_>,
        seed: u64,
        full: u16,
        (sizes, lanes): (&[u16], &mut Lanes),
    ) -> Self {
        let Part { topology, cells, number } = part;
        let own = &cells.parts[number];
        let classes = rules.classes.len() + 1;
        let (mut ports, mut queues, mut ingress, mut alphas) = (vec![], vec![], vec![], vec![]);
        for &id in &own.ports {
            let port = &topology.ports()[id as usize];
            let host = topology.is_host(port.from);
            // A NIC's queue holds its host back, and is no congestion of the network, unless packets are lost there.
            let nic = topology.is_nic(port.from);
            let (cell, peer) = cells.place_in(topology, port.reverse);
            let cell = if cell == number { HERE } else { cell as u16 };
            let mut new = Port::new(port, host, cells.owner(topology, id), cell, peer);
            new.lanes = lanes.of(sizes, |size| new.time_for(size), port.delay);
            ports.push(new);
            queues.push(Queue::new(Ecn::OFF));
            alphas.push(Alpha::default());
            for class in &rules.classes {
                let limits = class.at(port.rate);
                let alpha = Alpha::new(limits.alpha);
                let marks = !(host || nic && class.loss == Loss::Pfc);
                queues.push(Queue::new(limits.ecn.as_ref().filter(|_| marks).map_or(Ecn::OFF, Ecn::new)));
                ingress.push(Ingress::new(class.reserve, limits.headroom, alpha));
                alphas.push(limits.queue.map_or(alpha, Alpha::fixed));
            }
        }
        let bits = |loss| {
            let bit = |(i, class): (usize, &ClassRules)| u16::from(class.loss == loss) << (i + 1);
            rules.classes.iter().enumerate().map(bit).fold(0, |set, bit| set | bit)
        };
        let schedule = Schedule::new(&rules.weights(), u64::from(full));
        let rates: Vec<u64> = own.ports.iter().map(|&id| topology.ports()[id as usize].rate.0).collect();
        Self {
            written: own.ports.iter().zip(&rates).map(|(&id, &rate)| feedback.port(rate, id)).collect(),
            pauses: Vec::new(),
            paused: None,
            turns: vec![Turn::default(); if schedule.takes_turns() { ports.len() } else { 1 }],
            sent_before: vec![(0, 0); ports.len()],
            fates: vec![Fates::default(); ports.len()],
            deepest: vec![0; ports.len()],
            foreseen: Vec::new(),
            switch_ports: ports.iter().filter(|port| !port.host).count() as u64,
            busy_ports: 0,
            random: own.ports.iter().map(|&id| onramp_random::stream(seed, "ecn", u64::from(id))).collect(),
            buffers: own.switches.iter().map(|&node| rules.buffer(topology, node)).collect(),
            routes: topology.routes().part(&own.switches, topology.hosts(), |port| cells.place(port)),
            paths: (!rules.paths.is_ecmp()).then(|| Selector::new(&rules.paths, seed, &own.switches)),
            lossy: bits(Loss::Lossy),
            unpaused: bits(Loss::LossyIngress),
            schedule,
            pfc_frame: rules.pfc_frame,
            tail: rules.tail,
            trim: rules.trim,
            outbox: Posts::new(cells.parts.len()),
            counts: Counts::default(),
            orders: Vec::new(),
            faults: None,
            hops: None,
            edges: None,
            looks: false,
            classes,
            ports,
            queues,
            ingress,
            alphas,
            rates,
            feedback,
        }
    }

    #[inline]
    fn queue_of(&self, port: u32, class: u8) -> usize {
        port as usize * self.classes + usize::from(class)
    }

    /// A switch takes a packet in; what it drops comes back.
    #[inline]
    pub fn forward<T: Ord + Copy>(
        &mut self,
        events: &mut Events<Packet<F::Header>, T>,
        now: Ps,
        mut on: OnLink<Packet<F::Header>>,
    ) -> Option<Packet<F::Header>> {
        let OnLink { packet, link: from } = &mut on;
        let (from, class, size) = (*from, packet.class(), u64::from(packet.size));
        let switch = self.ports[from as usize].owner as usize;
        let out = match &mut self.paths {
            None => self.routes.port(switch, packet.dst(), packet.hash),
            Some(paths) => {
                let queued = |port| self.queues[port as usize * self.classes + usize::from(class)].bytes;
                pick(paths, &self.routes, now, switch, packet, &queued)
            }
        };
        let place = self.queue_of(out, class);
        if F::COUNTS {
            self.feedback.enqueue(&mut self.written[out as usize], packet, now, self.queues[place].bytes);
        }
        let account = if let Some(tail) = self.tail {
            let queue = &self.queues[place];
            let full = match tail {
                PortBuffer::Bytes(most) => queue.bytes + size > most,
                PortBuffer::Packets(most) => queue.len() >= most as usize,
            };
            if full {
                self.drops(now, out, &on.packet);
                return Some(on.packet);
            }
            if packet.kind() == Kind::DATA && queue.ecn.mark(queue.bytes, &mut self.random[out as usize]) {
                packet.set(MARKED);
                self.counts.marked += 1;
                self.fates[out as usize].marked += 1;
            }
            Account::Pool
        } else {
            account(self.lossy, packet, &mut self.ingress[from as usize * (self.classes - 1)..], || {
                (self.queues[place].bytes, self.alphas[place])
            })
        };
        match self.buffers[switch].admit(account, size) {
            Admission::Drop => return self.trim_or_drop(events, now, out, on),
            Admission::Pause => self.send_pfc(events, now, from, class, Kind::PAUSE),
            Admission::Accept => {}
        }
        let queue = &mut self.queues[place];
        if !self.orders.is_empty() {
            let bytes = queue.bytes;
            self.order_of(out, &on.packet, |order, _| {
                order.comes(now);
                order.takes(bytes);
            });
        }
        self.enqueue(events, now, out, on);
        None
    }

    /// A packet that was let in leaves at once or waits.
    #[inline(always)]
    fn enqueue<T: Ord + Copy>(
        &mut self,
        events: &mut Events<Packet<F::Header>, T>,
        now: Ps,
        out: u32,
        on: OnLink<Packet<F::Header>>,
    ) {
        let class = on.packet.class();
        let port = &mut self.ports[out as usize];
        if port.idle(class, now) {
            return self.depart(events, now, out, on);
        }
        self.busy_ports += u64::from(port.waiting == 0);
        port.waiting |= 1 << class;
        let place = self.queue_of(out, class);
        self.queues[place].push(on);
        self.go_on(events, now, out);
    }

    /// True if switches trim packets.
    pub fn trims(&self) -> bool {
        self.trim.is_some()
    }

    /// A port has no room for a packet: what comes back is dropped, unless its header goes on.
    #[cold]
    fn trim_or_drop<T: Ord + Copy>(
        &mut self,
        events: &mut Events<Packet<F::Header>, T>,
        now: Ps,
        out: u32,
        mut on: OnLink<Packet<F::Header>>,
    ) -> Option<Packet<F::Header>> {
        let packet = &mut on.packet;
        let trimmed = self.trim.filter(|&size| {
            let data = packet.kind() == Kind::DATA && packet.flow & TCP == 0 && packet.size > size;
            let switch = self.ports[out as usize].owner as usize;
            let lossy = self.lossy >> packet.class() & 1 == 1;
            data && lossy && self.buffers[switch].admit(Account::Pool, size.into()) == Admission::Accept
        });
        let Some(size) = trimmed else {
            self.drops(now, out, packet);
            return Some(on.packet);
        };
        packet.size = size;
        *packet = packet.marked(packet.flags() | TRIMMED, CONTROL);
        self.counts.trimmed += 1;
        self.fates[out as usize].trimmed += 1;
        self.enqueue(events, now, out, on);
        None
    }

    /// A port has no room for a packet.
    #[cold]
    fn drops(&mut self, now: Ps, out: u32, packet: &Packet<F::Header>) {
        self.counts.dropped += 1;
        self.fates[out as usize].dropped += 1;
        if let Some(hops) = &mut self.hops {
            hops.sees(now, out, Fate::Dropped, packet);
        }
        let queued = self.queued(out);
        self.order_of(out, packet, |order, flow| {
            order.comes(now);
            order.drops(flow, queued);
        });
    }

    /// Adds a change of links or routes, whose draws come from `random`; its number.
    pub fn add_change(&mut self, change: Change, random: Pcg64Mcg) -> u32 {
        self.looks = true;
        let faults = self.faults.get_or_insert_default();
        if let Change::Link(port, ..) = change {
            faults.watch(port, random);
        }
        faults.add(change)
    }

    /// A change takes effect; the port whose link goes down with it.
    pub fn change(&mut self, number: u32) -> Option<u32> {
        match self.faults.as_mut()?.due(number) {
            Change::Routes(routes) => {
                self.routes = std::mem::take(routes);
                None
            }
            &mut Change::Link(port, loses, begins) => (begins && loses == Loses::Everything).then_some(port),
        }
    }

    /// True if packets are looked at when they come: some links are faulty at some time, or flows are traced.
    #[inline]
    pub fn looks(&self) -> bool {
        self.looks
    }

    /// A packet is at the end of its link to a port; true if it is lost there.
    #[cold]
    pub fn loses(&mut self, now: Ps, port: u32, packet: &Packet<F::Header>) -> bool {
        let lost = self.faults.as_mut().is_some_and(|faults| faults.lose(port, packet.size));
        self.counts.dropped += u64::from(lost);
        self.fates[port as usize].lost += u64::from(lost);
        if let Some(hops) = &mut self.hops {
            hops.sees(now, port, if lost { Fate::Lost } else { Fate::Came }, packet);
        }
        if let Some(edges) = &mut self.edges {
            edges.sees(now, port, self.ports[port as usize].host, lost, packet);
        }
        lost
    }

    /// Keeps packets to or from a host while a flow that is traced is under way there.
    pub fn follow(&mut self, host: u32, begins: bool) {
        self.looks = true;
        self.hops.get_or_insert_default().watch(host, begins);
    }

    /// Packets of traced flows at their hosts, which are kept from now on.
    pub fn keep_edges(&mut self) -> &mut Edges {
        self.looks = true;
        self.edges.get_or_insert_default()
    }

    /// The same, if some are kept.
    pub fn edges(&self) -> Option<&Edges> {
        self.edges.as_deref()
    }

    /// See [`Network::edges`].
    pub fn edges_mut(&mut self) -> Option<&mut Edges> {
        self.edges.as_deref_mut()
    }

    /// Packets that were kept.
    pub fn hops(&self) -> Option<&Hops> {
        self.hops.as_deref()
    }

    /// Tells whoever records the order of packets at a port of one with data.
    #[cold]
    #[inline(never)]
    fn order_of(&mut self, id: u32, packet: &Packet<F::Header>, tell: impl FnOnce(&mut Order, Flow)) {
        let data = packet.kind() == Kind::DATA;
        if let Some((_, order)) = self.orders.iter_mut().find(|(port, _)| data && *port == id) {
            tell(order, (packet.dst(), packet.flow));
        }
    }

    /// Records the order of packets at a port.
    pub fn watch_order(&mut self, port: u32) {
        let slot = self.ports[port as usize].time_for(FULL_PACKET);
        self.orders.push((port, Order::new(slot)));
    }

    /// Record of the order of a port's packets, if it is kept.
    pub fn order(&self, port: u32) -> Option<&Order> {
        self.orders.iter().find(|(watched, _)| *watched == port).map(|(_, order)| order)
    }

    /// Fetches a port and the queue of its first payload class.
    #[inline]
    pub fn prefetch_port(&self, id: u32) {
        prefetch(&self.ports, id as usize);
        prefetch(&self.queues, id as usize * self.classes + 1);
    }

    /// Fetches the packet that this queue sends next.
    #[inline]
    pub fn prefetch_packet(&self, id: u32) {
        if let Some(queue) = self.queues.get(id as usize * self.classes + 1) {
            queue.prefetch();
        }
    }

    /// Something waits at a switch's port: it is sent when the port is free.
    #[inline]
    pub fn go_on<T: Ord + Copy>(&mut self, events: &mut Events<Packet<F::Header>, T>, now: Ps, id: u32) {
        let port = &mut self.ports[id as usize];
        if port.told {
            return;
        }
        if port.free_at <= now {
            self.transmit(events, now, id);
        } else {
            port.told = true;
            events.port_ready_at(port.free_at, id);
        }
    }

    /// A free port of a switch sends its next packet, if it may.
    #[inline]
    pub fn transmit<T: Ord + Copy>(&mut self, events: &mut Events<Packet<F::Header>, T>, now: Ps, id: u32) {
        let port = &mut self.ports[id as usize];
        let ready = port.ready();
        if ready == 0 {
            return;
        }
        let turn = if self.schedule.takes_turns() { id as usize } else { 0 };
        let Some(class) = self.schedule.pick(&mut self.turns[turn], ready) else { return };
        let queue = &mut self.queues[id as usize * self.classes + usize::from(class)];
        let Some(on) = queue.pop() else { return };
        if queue.is_empty() {
            port.waiting &= !(1 << class);
            self.busy_ports -= u64::from(port.waiting == 0);
        }
        self.schedule.charge(&mut self.turns[turn], class, on.packet.size);
        self.depart(events, now, id, on);
    }

    /// A packet leaves a switch: it may be marked, and its buffer is free again.
    #[inline]
    fn depart<T: Ord + Copy>(
        &mut self,
        events: &mut Events<Packet<F::Header>, T>,
        now: Ps,
        id: u32,
        mut on: OnLink<Packet<F::Header>>,
    ) {
        let OnLink { packet, link: from } = &mut on;
        let from = *from;
        let class = packet.class();
        if packet.kind() == Kind::DATA {
            let queue = &self.queues[id as usize * self.classes + usize::from(class)];
            if self.tail.is_none() && queue.ecn.mark(queue.bytes, &mut self.random[id as usize]) {
                packet.set(MARKED);
                self.counts.marked += 1;
                self.fates[id as usize].marked += 1;
            }
            let leaving = Leaving {
                now,
                tx_bytes: self.ports[id as usize].tx_bytes,
                queue_bytes: queue.bytes,
                rate: self.rates[id as usize],
            };
            self.feedback.dequeue(&mut self.written[id as usize], packet, &leaving);
            if !self.orders.is_empty() {
                self.order_of(id, packet, Order::leaves);
            }
        }
        if !packet.is_pfc() {
            let switch = self.ports[id as usize].owner as usize;
            debug_assert!(from != id || self.faults.is_some(), "no shortest path goes back over the same link");
            let account = if self.tail.is_some() {
                Account::Pool
            } else {
                account(self.lossy, packet, &mut self.ingress[from as usize * (self.classes - 1)..], || {
                    (0, Alpha::default())
                })
            };
            if self.buffers[switch].release(account, u64::from(packet.size)) {
                self.send_pfc(events, now, from, class, Kind::RESUME);
            }
        }
        self.start(events, now, id, on.packet);
    }

    /// Puts a packet on an idle port's link.
    #[inline]
    pub fn start<T: Ord + Copy>(
        &mut self,
        events: &mut Events<Packet<F::Header>, T>,
        now: Ps,
        id: u32,
        packet: Packet<F::Header>,
    ) {
        let port = &mut self.ports[id as usize];
        debug_assert!(!port.told && port.free_at <= now, "a port sends one packet at a time");
        self.counts.sent += u64::from(port.host);
        port.tx_bytes += u64::from(packet.size);
        let free = now + port.time_for(packet.size);
        port.free_at = free;
        let lanes = port.lanes.lanes(packet.size);
        if port.host || port.ready() != 0 {
            port.told = true;
            events.port_ready(lanes, free, id);
        }
        if port.cell == HERE {
            events.arrive(lanes, free + port.delay, port.peer, packet);
        } else {
            self.outbox.of(port.cell).push(lanes, free + port.delay, port.peer, packet);
        }
    }

    /// A PFC frame has come in at port `id`.
    pub fn pause(&mut self, now: Ps, id: u32, frame: &Packet<F::Header>) {
        self.counts.frames += 1;
        let (class, pause) = (frame.seq as u8, frame.kind() == Kind::PAUSE);
        let port = &mut self.ports[id as usize];
        if pause {
            port.paused |= 1 << class;
        } else {
            port.paused &= !(1 << class);
        }
        self.pauses.resize(self.queues.len(), Pauses::default());
        let place = self.queue_of(id, class);
        if let Some(start) = self.pauses[place].set(pause, now)
            && let Some(paused) = &mut self.paused
        {
            paused.push(Pause { port: id, class, start, end: now });
        }
    }

    /// Records each pause from now on.
    pub fn record_pauses(&mut self) {
        self.paused = Some(Vec::new());
    }

    /// Pauses that are over, since the last call, in the order of their ends; none unless they are recorded.
    pub fn take_pauses(&mut self) -> Vec<Pause> {
        self.paused.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Pauses under way at `now`, as if they ended there; none unless they are recorded.
    pub fn pauses_under_way(&self, now: Ps) -> impl Iterator<Item = Pause> {
        let recorded = self.paused.iter().flat_map(|_| self.pauses.iter().enumerate());
        recorded.filter_map(move |(place, pauses)| {
            let (port, class) = ((place / self.classes) as u32, (place % self.classes) as u8);
            pauses.since().map(|start| Pause { port, class, start, end: now })
        })
    }

    /// Sends a PFC frame to the other end of `id`, before everything that waits, if the class has PFC.
    fn send_pfc<T: Ord + Copy>(
        &mut self,
        events: &mut Events<Packet<F::Header>, T>,
        now: Ps,
        id: u32,
        class: u8,
        kind: Kind,
    ) {
        if self.unpaused >> class & 1 == 1 {
            return;
        }
        self.counts.sent += 1;
        let frame = Packet { seq: u32::from(class), size: self.pfc_frame, ..Packet::default() }.as_a(kind);
        let place = self.queue_of(id, CONTROL);
        self.queues[place].push(OnLink { packet: frame, link: id });
        let port = &mut self.ports[id as usize];
        self.busy_ports += u64::from(port.waiting == 0);
        port.waiting |= 1 << CONTROL;
        self.go_on(events, now, id);
    }

    /// PFC frames by which a host pauses all payload classes, or has them go on.
    pub fn frames(&self, kind: Kind) -> Vec<Packet<F::Header>> {
        let frame = |class| Packet { seq: class, size: self.pfc_frame, ..Packet::default() }.as_a(kind);
        (1..self.classes as u32).map(frame).collect()
    }

    /// Takes down what the future of an idle network depends on.
    pub fn encode(&self, state: &mut Encoder) {
        let Self {
            feedback,
            written,
            ports,
            queues: _,
            ingress,
            pauses: _,
            paused,
            alphas: _,
            classes: _,
            lossy: _,
            unpaused: _,
            tail: _,
            trim: _,
            schedule: _,
            turns,
            buffers,
            routes: _,
            paths,
            random,
            rates: _,
            sent_before: _,
            fates: _,
            deepest: _,
            foreseen: _,
            switch_ports: _,
            busy_ports: _,
            pfc_frame: _,
            orders,
            faults,
            hops,
            edges,
            looks: _,
            outbox,
            counts: _,
        } = self;
        if faults.is_some() {
            state.refuse("links or routes change at times of their own (network.faults)");
        }
        if hops.is_some() || edges.is_some() {
            state.refuse("packets of flows are captured");
        }
        if paused.is_some() {
            state.refuse("pauses are recorded over time (measure.pauses)");
        }
        if !orders.is_empty() {
            state.refuse("the order of packets is recorded (measure.order)");
        }
        if self.waiting() > 0 || !outbox.is_empty() {
            state.busy();
        }
        for port in ports {
            if state.is_over() {
                return;
            }
            port.encode(state);
        }
        written.iter().for_each(|port| feedback.encode(port, state));
        ingress.iter().for_each(|account| account.encode(state));
        turns.iter().for_each(|turn| turn.encode(state));
        buffers.iter().for_each(|buffer| buffer.encode(state));
        random.iter().for_each(|random| state.random(random));
        paths.iter().for_each(|paths| paths.encode(state));
    }

    /// Counters at `now`.
    pub fn tally(&self, now: Ps) -> Tally {
        Tally {
            counts: self.counts,
            fates: self.fates.clone(),
            tx_bytes: self.ports.iter().map(|port| port.tx_bytes).collect(),
            pauses: self.pauses.iter().map(|pauses| (pauses.count, pauses.total(now))).collect(),
        }
    }

    /// Counts what was counted since `before`, up to `now`, so many times more.
    pub fn repeat(&mut self, before: &Tally, now: Ps, times: u64) {
        let Tally { counts, fates, tx_bytes, pauses } = before;
        self.counts.repeat(counts, times);
        self.fates.iter_mut().zip(fates).for_each(|(own, before)| own.repeat(before, times));
        self.deepest.iter_mut().zip(&self.foreseen).for_each(|(own, other)| *own = (*own).max(*other));
        for (port, before) in self.ports.iter_mut().zip(tx_bytes) {
            port.tx_bytes += (port.tx_bytes - before) * times;
        }
        // Those that are missing were made since.
        let before = pauses.iter().copied().chain(std::iter::repeat((0, 0)));
        for (own, (count, time)) in self.pauses.iter_mut().zip(before) {
            own.add((own.count - count) * times, (own.total(now) - time) * times);
        }
    }

    /// Starts all counts anew.
    pub fn begin(&mut self, now: Ps) {
        self.pauses.iter_mut().for_each(|p| p.begin(now));
        self.orders.iter_mut().for_each(|(_, order)| order.begin());
        for (before, port) in self.sent_before.iter_mut().zip(&self.ports) {
            *before = (port.sending(now), port.tx_bytes);
        }
        self.fates.fill(Fates::default());
        self.deepest.fill(0);
    }

    /// Bytes of payload classes waiting at a port.
    pub fn queued(&self, id: u32) -> u64 {
        let first = id as usize * self.classes;
        self.queues[first + 1..first + self.classes].iter().map(|q| q.bytes).sum()
    }

    /// Payload classes of a switch's port that have packets and are paused, a bit each.
    pub fn held_back(&self, id: u32) -> u16 {
        let port = &self.ports[id as usize];
        port.waiting & port.paused & !(1 << CONTROL)
    }

    /// Ports by which the packets that wait in a class of a port have come in.
    pub fn came_by(&self, id: u32, class: u8) -> impl Iterator<Item = u32> {
        self.queues[self.queue_of(id, class)].links()
    }

    /// True while the other end of a port is told to pause a payload class.
    pub fn pauses_upstream(&self, id: u32, class: u8) -> bool {
        self.ingress[id as usize * (self.classes - 1) + usize::from(class) - 1].paused_upstream
    }

    /// Packets in all queues.
    pub fn waiting(&self) -> u64 {
        self.queues.iter().map(|q| q.len() as u64).sum()
    }

    /// Packets on their way to other cells.
    pub fn posted(&self) -> u64 {
        self.outbox.len() as u64
    }

    /// The rate in bit/s that a port gives each flow, if it does.
    pub fn flow_rate(&self, id: u32, now: Ps) -> Option<f64> {
        self.feedback.rate(&self.written[id as usize], now)
    }

    /// Samples queues: tells `delay` the queueing delay of each port of a switch at which something waits; the number of
    /// the others. A sample of repetitions of the present is `foreseen`.
    pub fn sample_queues(&mut self, foreseen: bool, mut delay: impl FnMut(Ps)) -> u64 {
        let mut deepest = std::mem::take(if foreseen { &mut self.foreseen } else { &mut self.deepest });
        deepest.resize(self.ports.len(), 0);
        let busy = (0..).zip(&self.ports).filter(|(_, port)| port.waiting != 0 && !port.host);
        for (id, port) in busy.take(self.busy_ports as usize) {
            let bytes = self.queued(id);
            delay(port.queue_delay(bytes));
            deepest[id as usize] = deepest[id as usize].max(bytes);
        }
        *(if foreseen { &mut self.foreseen } else { &mut self.deepest }) = deepest;
        self.switch_ports - self.busy_ports
    }

    /// Forgets samples of repetitions that were foreseen.
    pub fn foresee(&mut self) {
        self.foreseen.clear();
    }

    /// Time a port has spent sending since counting began.
    pub fn sending(&self, id: u32, now: Ps) -> Ps {
        self.ports[id as usize].sending(now).saturating_sub(self.sent_before[id as usize].0)
    }

    /// Bytes of the packets whose sending has begun at a port since counting began.
    pub fn sent(&self, id: u32) -> u64 {
        self.ports[id as usize].tx_bytes - self.sent_before[id as usize].1
    }

    /// Packets that were dropped, trimmed or marked at a port, or lost on the link to it.
    pub fn fates(&self, id: u32) -> Fates {
        self.fates[id as usize]
    }

    /// Largest queue of a port at samples \[B\].
    pub fn deepest(&self, id: u32) -> u64 {
        self.deepest[id as usize]
    }

    /// Number and length of the pauses that a port has received, over its classes.
    pub fn pauses_of(&self, id: u32, now: Ps) -> (u64, Ps) {
        sum(self.pauses.iter().skip(id as usize * self.classes).take(self.classes), now)
    }

    /// Number and length of all pauses that ports of this cell have received.
    pub fn pauses(&self, now: Ps) -> (u64, Ps) {
        sum(self.pauses.iter(), now)
    }

    /// The fullest any switch buffer is now, as (bytes used, bytes there are).
    pub fn fullest_buffer(&self) -> (u64, u64) {
        self.buffers.iter().map(|b| (b.used(), b.size())).max().unwrap_or_default()
    }

    /// The rules of service, which hosts' NICs keep as well.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }
}

/// Number and length of pauses.
fn sum<'a>(pauses: impl Iterator<Item = &'a Pauses>, now: Ps) -> (u64, Ps) {
    pauses.fold((0, 0), |(count, time), p| (count + p.count, time + p.total(now)))
}

/// Who bears the bytes of a packet: `ingress` begins with the accounts of the port it
/// came from. What its host sends even while the class is paused bears on the pool
/// alone: in the headroom, meant for what is under way when a pause begins, it would
/// have data dropped.
#[inline]
fn account<'a, H: Copy>(
    lossy: u16,
    packet: &Packet<H>,
    ingress: &'a mut [Ingress],
    egress: impl FnOnce() -> (u64, Alpha),
) -> Account<'a> {
    let class = packet.class();
    if lossy >> class & 1 == 1 {
        let (bytes, alpha) = egress();
        Account::Lossy(bytes, alpha)
    } else if class == CONTROL || packet.flags() & UNPAUSED != 0 {
        Account::Pool
    } else {
        Account::Pfc(&mut ingress[usize::from(class) - 1])
    }
}
