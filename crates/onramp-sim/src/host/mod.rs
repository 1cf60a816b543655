//! Hosts: flows at both ends, and the NICs that send them.

pub mod config;
mod credit;
pub mod entropy;
mod flow;
pub mod gate;
mod messages;
mod nic;
pub mod pacing;
mod processing;
pub mod programs;
pub mod qdisc;
mod receive;
mod send;
pub mod shaper;
mod storm;
pub mod tcp;
mod transport;

pub use flow::{Receiver, Sender};
pub use transport::{Common, Transports};

use crate::cc::rccc::{AT_ONE_END, Grant};
use crate::clock::{Clocks, Tick};
use crate::engine::{Events, Slab, prefetch};
use crate::measure::Meter;
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::TCP;
use crate::network::{Kind, Network, Packet};
use config::{Pacing, Processing};
use credit::Credits;
use entropy::Entropy;
use gate::{GateRules, Gates};
use messages::Outbox;
use nic::Nic;
use onramp_config::units::Ps;
use onramp_records::FlowRecord;
use onramp_topology::{Cells, PortId, Topology};
use onramp_workload::state::Encoder;
use onramp_workload::{NewFlow, Size};
use pacing::Pacer;
use processing::Ring;
use programs::Programs;
use shaper::{Any, Entry, FREE, Held, Shaper, Terms};
use std::cmp::Reverse;
use std::sync::Arc;

/// Events for which hosts and their clocks are woken; simultaneous ones come in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Timer {
    /// A flow arrives: its number and slot.
    Start(u64, u32),
    /// A long flow stops: its number and slot.
    Stop(u64, u32),
    /// A NIC has a paced or held flow due.
    Wake(u32),
    /// A NIC has a flow whose retransmission timeout may have passed.
    Deadline(u32),
    /// Something of a connection is due: when its timer was set, the latest first, and its slot.
    Connection(Reverse<Ps>, u32),
    /// A program is due: its number and slot.
    Program(u64, u32),
    /// An acknowledgement is due: the connection's number, and the slot of its receiving end.
    End(u64, u32),
    /// A host has processed a packet that came in by this NIC.
    Served(u32),
    /// A NIC may grant credit.
    Credit(u32),
    /// A change of links or routes is due, by its number.
    Fault(u32),
    /// Something about the clocks.
    Clock(Tick),
}

/// Parts of the cell that hosts act upon.
pub struct Io<'a, F: Feedback> {
    /// Time in picoseconds.
    pub now: Ps,
    /// Events to come.
    pub events: &'a mut Events<Packet<F::Header>, Timer>,
    /// Links and switches.
    pub network: &'a mut Network<F>,
    /// The hosts' clocks.
    pub clocks: &'a mut Clocks,
    /// Measurements.
    pub meter: &'a mut Meter,
    /// When the packet at hand is stamped: when it comes in by the NIC, or later.
    pub stamped: Ps,
}

/// A message between the ends of a flow that no packet carries: so that slots are
/// freed when the last packet is gone, whichever cells they are in.
#[derive(Clone, Copy, Debug)]
pub enum Note {
    /// To the receiver in this slot: everything is acknowledged, and so many data
    /// packets were sent in all.
    Done(u32, u32, FlowRecord),
    /// To the sender in this slot: so many replies were sent in all.
    Closed(u32, u32),
    /// To the receiver in this slot: a data packet was dropped.
    LostData(u32),
    /// To the sender in this slot: a reply was dropped.
    LostReply(u32),
    /// To the receiving end of the connection in this slot: a flow is acknowledged, up to this byte.
    Acknowledged(u32, u64, FlowRecord),
}

/// Rules of a scenario for hosts.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// Parameters that flows of a transport share.
    pub transports: &'a Arc<Transports>,
    /// On-Ramp, if it is on.
    pub gate: Option<&'a GateRules>,
    /// When flows may send.
    pub shaper: &'a shaper::Rules,
    /// How windows are paced.
    pub pacing: pacing::Rules,
    /// Entropy values of packets.
    pub entropy: &'a entropy::Config,
    /// Time that a host needs for a packet that has come, by the host's number; empty where none needs any.
    pub processing: &'a [Option<Processing>],
    /// TCP, if some transport is.
    pub tcp: Option<&'a tcp::Rules>,
    /// Classes, the control class included.
    pub classes: usize,
    /// Of random streams.
    pub seed: u64,
}

/// The hosts of a cell.
#[derive(Debug)]
pub struct Hosts<H> {
    topology: Arc<Topology>,
    transports: Arc<Transports>,
    senders: Slab<Sender>,
    receivers: Slab<Receiver>,
    nics: Vec<Nic<H>>,
    /// By NIC, where its host needs time for what comes; empty where none does.
    rings: Vec<Option<Ring<Packet<H>>>>,
    shaper: Any,
    /// Policies of flows, by slot of their senders; apart, since few have any.
    terms: Vec<Terms>,
    /// Pacers of their windows, by slot; none where nothing paces them.
    pacers: Vec<Pacer>,
    /// Entropy values of their packets, by slot; none where a flow has one.
    entropies: Vec<Entropy>,
    entropy: entropy::Config,
    seed: u64,
    /// Some flow has a cap.
    capped: bool,
    gates: Option<Gates>,
    /// Credit that receivers grant, if some transport has any.
    credits: Option<Box<Credits>>,
    /// The shaper has had something, which where all is TCP's it never has.
    shapes: bool,
    /// TCP, if some transport is.
    tcp: Option<Box<tcp::Hosting<H>>>,
    /// Programs, if some workload has any.
    programs: Option<Box<Programs>>,
    /// Messages of open flows, by slot of their senders.
    outboxes: Vec<Outbox>,
    /// Classes, the control class included.
    classes: usize,
    /// Receive times travel in packets of their own.
    separate_or_acks: bool,
    /// One of so many data packets tells its receive time.
    told_every: u32,
    pacing: pacing::Rules,
    /// See [`GateRules::stamped_late`].
    stamped_late: bool,
    /// Messages to hosts, which are perhaps in other cells.
    pub notes: Vec<(u32, Note)>,
    /// Flows that are done, and when their senders found that they are, until they are taken.
    pub done: Vec<(Ps, FlowRecord)>,
    /// Counts so far, without those of TCP's connections.
    pub counts: Counts,
}

/// Counts of the hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Packets that have arrived.
    pub delivered: u64,
    /// Packets that came to a full ring.
    pub dropped: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Payload bytes acknowledged.
    pub acked: u64,
    /// TCP's connections that were opened before the load, and with a handshake.
    pub opened_before: u64,
    /// See `opened_before`.
    pub opened_late: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.dropped += other.dropped;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.acked += other.acked;
        self.opened_before += other.opened_before;
        self.opened_late += other.opened_late;
    }
}

impl Counts {
    /// Adds what was counted since `before`, so many times more.
    fn repeat(&mut self, before: &Self, times: u64) {
        let Self { delivered, dropped, retransmitted, timeouts, acked, opened_before, opened_late } = self;
        *delivered += (*delivered - before.delivered) * times;
        *dropped += (*dropped - before.dropped) * times;
        *retransmitted += (*retransmitted - before.retransmitted) * times;
        *timeouts += (*timeouts - before.timeouts) * times;
        *acked += (*acked - before.acked) * times;
        *opened_before += (*opened_before - before.opened_before) * times;
        *opened_late += (*opened_late - before.opened_late) * times;
    }
}

/// Counters of hosts at a moment; of On-Ramp's gates pauses, time paused and OR-ACKs.
#[derive(Clone, Debug)]
pub struct Tally {
    counts: Counts,
    gates: Option<(u64, Ps, u64)>,
}

impl<H: Header> Hosts<H> {
    /// Takes down what the future of idle hosts depends on.
    pub fn encode(&self, state: &mut Encoder) {
        let Self {
            topology: _,
            transports,
            senders,
            receivers,
            nics,
            rings,
            shaper,
            terms: _,
            pacers,
            entropies,
            entropy: _,
            seed: _,
            capped: _,
            gates,
            credits,
            shapes: _,
            tcp,
            programs: _,
            outboxes,
            classes: _,
            separate_or_acks: _,
            told_every: _,
            pacing: _,
            stamped_late: _,
            notes,
            done,
            counts: _,
        } = self;
        if tcp.is_some() {
            state.refuse("the order of TCP's simultaneous packets is drawn from the time, which never comes again");
        }
        if credits.is_some() {
            state.refuse(AT_ONE_END);
        }
        let is_over = |(outbox, flow): (&Outbox, &Sender)| outbox.is_over(flow.tx.acked());
        if !notes.is_empty() || !done.is_empty() || !outboxes.iter().zip(senders.slots()).all(is_over) {
            state.busy();
        }
        self.encode_programs(state);
        shaper.encode(state);
        if state.is_over() {
            return;
        }
        let rto = |slot, id| {
            let flow: &Sender = &senders[slot];
            (flow.id == id && !flow.done).then(|| transports[flow.transport].rto())
        };
        nics.iter().for_each(|nic| nic.encode(state, rto));
        rings.iter().flatten().for_each(|ring| ring.encode(state));
        senders.slots().iter().for_each(|flow| flow.encode(transports, nics[flow.nic as usize].rate, state));
        receivers.slots().iter().for_each(|flow| flow.encode(state));
        pacers.iter().for_each(|pacer| pacer.encode(state));
        entropies.iter().for_each(|entropy| entropy.encode(state));
        gates.iter().for_each(|gates| gates.encode(state));
    }

    /// Counters at `now`.
    pub fn tally(&self, now: Ps) -> Tally {
        let gates = self.gates.as_ref();
        let gates = gates.map(|gates| (gates.pauses, gates.paused + self.paused_alive(now), gates.or_acks));
        Tally { counts: self.counts, gates }
    }

    /// Counts what was counted since `before`, up to `now`, so many times more.
    pub fn repeat(&mut self, before: &Tally, now: Ps, times: u64) {
        let Tally { counts, gates: before } = before;
        self.counts.repeat(counts, times);
        let alive = self.paused_alive(now);
        if let (Some(gates), Some((pauses, paused, or_acks))) = (&mut self.gates, before) {
            gates.pauses += (gates.pauses - pauses) * times;
            gates.paused += (gates.paused + alive - paused) * times;
            gates.or_acks += (gates.or_acks - or_acks) * times;
        }
    }

    /// The hosts of cell `number`.
    pub fn new(topology: &Arc<Topology>, cells: &Cells, number: usize, rules: &Rules<'_>) -> Self {
        let Rules { transports, gate, shaper, pacing, entropy, processing, tcp, classes, seed } = *rules;
        let hosts = &cells.parts[number].hosts;
        let ports = hosts.iter().flat_map(|&host| topology.ports_of(host));
        let nic = |&port| Nic::new(cells.place(port), transports.rate_index(topology, port), classes);
        let owners: Vec<u32> =
            hosts.iter().flat_map(|&host| topology.ports_of(host).iter().map(move |_| host)).collect();
        let nics: Vec<Nic<H>> = ports.clone().map(nic).collect();
        let ring = |(&port, &host): (&PortId, &u32)| Some(Ring::new(processing[host as usize].as_ref()?, seed, port));
        let rings = if processing.is_empty() { vec![] } else { ports.zip(&owners).map(ring).collect() };
        Self {
            topology: Arc::clone(topology),
            transports: Arc::clone(transports),
            senders: Slab::default(),
            receivers: Slab::default(),
            shaper: Any::new(shaper, nics.len() * classes),
            tcp: tcp.map(|rules| Box::new(tcp::Hosting::new(rules, topology, gate, &owners, classes))),
            programs: None,
            outboxes: Vec::new(),
            shapes: false,
            terms: Vec::new(),
            pacers: Vec::new(),
            entropies: Vec::new(),
            entropy: entropy.clone(),
            seed,
            capped: false,
            nics,
            rings,
            gates: gate.map(Gates::new),
            credits: transports.grant().then(|| Box::new(Credits::new(owners.len()))),
            classes,
            separate_or_acks: gate.is_some_and(|gate| gate.separate),
            pacing,
            told_every: gate.map_or(1, |gate| gate.told_every),
            stamped_late: gate.is_some_and(|gate| gate.stamped_late),
            notes: Vec::new(),
            done: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// Fetches the flow of a packet that will arrive soon.
    #[inline]
    pub fn prefetch(&self, packet: &Packet<H>) {
        if packet.flow & TCP != 0 {
            if let Some(tcp) = &self.tcp {
                tcp.prefetch(packet);
            }
        } else if packet.kind() == Kind::DATA {
            prefetch(self.receivers.slots(), packet.flow as usize);
        } else {
            prefetch(self.senders.slots(), packet.flow as usize);
            self.shaper.prefetch(packet.flow);
        }
    }

    /// Makes room for the receiving end of a flow that starts at `start`.
    pub fn open_receiver(&mut self, new: &Opening, nic: u32, watch_owd: Option<u32>) -> u32 {
        let transport = &self.transports[new.transport];
        let slot = self.receivers.insert(Receiver {
            rx: transport.rx(),
            peer: u32::MAX,
            src: new.flow.src,
            nic,
            hash: new.hashes[1],
            class: new.class,
            transport: new.transport,
            received_at: new.start,
            since_told: 0,
            watch_owd,
            packets: 0,
            packets_in_all: flow::OPEN,
            replies: 0,
        });
        if let Some(credits) = &mut self.credits {
            credits.open(slot, Grant::default());
        }
        slot
    }

    /// Makes room for the sending end of a flow, whose receiving end is in slot `peer`.
    pub fn open_sender(&mut self, new: &Opening, nic: u32, peer: u32) -> u32 {
        let transport = &self.transports[new.transport];
        let (bytes, stop) = match new.flow.size {
            Size::Bytes(bytes) => (Some(bytes), None),
            Size::Until(stop) => (None, Some(stop)),
        };
        let slot = self.senders.insert(Sender {
            tx: transport.tx(bytes, new.start),
            t_next: new.start,
            spaced_at: 0,
            spaced_size: 0,
            hash: new.hashes[0],
            class: new.class,
            transport: new.transport,
            done: false,
            peer,
            nic,
            src: new.flow.src,
            dst: new.flow.dst,
            packets: 0,
            cc: transport.start(self.nics[nic as usize].rate, &self.topology, new),
            replies: 0,
            replies_in_all: flow::OPEN,
            id: new.id,
            start: new.start,
            stop,
            traffic: new.flow.traffic,
            request: new.request,
            bytes: bytes.unwrap_or(0),
            retransmitted: 0,
            timeouts: 0,
        });
        if self.terms.len() <= slot as usize {
            self.terms.resize(slot as usize + 1, FREE);
        }
        self.terms[slot as usize] = new.terms;
        if self.pacing.pacing != Pacing::None {
            self.pacers.resize(self.terms.len(), Pacer::default());
            self.pacers[slot as usize] = Pacer::default();
        }
        if !self.entropy.is_of_flows() {
            self.entropies.resize(self.terms.len(), Entropy::default());
            self.entropies[slot as usize] = self.entropy.of_flow(self.seed, new.id);
        }
        self.capped |= new.terms.cap < FREE.cap;
        self.shapes = true;
        let line = self.line(nic, new.class);
        self.shaper.open(line, Entry { slot, id: new.id }, &new.terms);
        slot
    }

    /// Tells a receiving end the slot of its sending end.
    pub fn introduce(&mut self, receiver: u32, sender: u32) {
        self.receivers[receiver].peer = sender;
    }

    /// A message has come for a flow of a host of this cell.
    pub fn note(&mut self, note: Note) {
        match note {
            Note::Acknowledged(slot, last, record) => self.acknowledged_to(slot, last, record),
            Note::Done(slot, packets, mut record) => {
                let receiver = &mut self.receivers[slot];
                receiver.packets_in_all = packets;
                record.receiver_fct_ps = receiver.received_at - record.start_ps;
                self.done.push((record.start_ps + record.fct_ps, record));
                self.close_receiver(slot);
            }
            Note::Closed(slot, replies) => {
                self.senders[slot].replies_in_all = replies;
                self.free_sender(slot);
            }
            Note::LostData(slot) => {
                self.receivers[slot].packets += 1;
                self.close_receiver(slot);
            }
            Note::LostReply(slot) => {
                self.senders[slot].replies += 1;
                self.free_sender(slot);
            }
        }
    }

    /// True if some need time for packets that come.
    pub fn take_time(&self) -> bool {
        !self.rings.is_empty()
    }

    /// Packets that hosts have not processed yet.
    pub fn unprocessed(&self) -> u64 {
        self.rings.iter().flatten().map(|ring| ring.len() as u64).sum()
    }

    /// A packet was dropped: one end waits for it.
    pub fn lost(&mut self, packet: &Packet<H>) {
        if packet.flow & TCP != 0 {
            // Its sender finds out.
            return;
        }
        let lost = if packet.kind() == Kind::DATA { Note::LostData } else { Note::LostReply };
        self.notes.push((packet.dst(), lost(packet.flow)));
    }

    fn close_receiver(&mut self, slot: u32) {
        let receiver = &self.receivers[slot];
        if receiver.is_over() && self.credits.as_ref().is_none_or(|credits| credits.is_out(slot)) {
            self.notes.push((receiver.src, Note::Closed(receiver.peer, receiver.replies)));
            self.receivers.remove(slot);
        }
    }

    fn free_sender(&mut self, slot: u32) {
        if self.senders[slot].is_over() {
            // Never again, so that a slot is not freed twice.
            self.senders[slot].replies_in_all = flow::OPEN;
            self.senders.remove(slot);
        }
    }

    /// Record of a flow as it stands now, without its receiving end; times are the engine's.
    fn record(&self, slot: u32, now: Ps) -> FlowRecord {
        let flow = &self.senders[slot];
        FlowRecord {
            id: flow.id,
            traffic: flow.traffic,
            request: flow.request,
            src: flow.src,
            dst: flow.dst,
            bytes: flow.bytes,
            start_ps: flow.start,
            fct_ps: now.saturating_sub(flow.start),
            receiver_fct_ps: 0,
            ideal_ps: self.ideal(flow),
            retransmitted: flow.retransmitted,
            timeouts: flow.timeouts,
            paused_ps: self.gates.as_ref().map_or(0, |gates| gates.paused_total(slot, now)),
        }
    }

    /// The FCT on an empty network as the HPCC simulator defines it: base RTT
    /// plus the bytes with 48 B of headers per packet over the slowest link.
    fn ideal(&self, flow: &Sender) -> Ps {
        let payload = self.transports.payload();
        let wire = flow.bytes + crate::stack::rdma::HEADER * flow.bytes.div_ceil(payload);
        let rate = self.topology.bottleneck(flow.src, flow.dst);
        self.topology.base_rtt(flow.src, flow.dst, payload) + rate.time_for(wire)
    }

    /// Flows that have arrived and are not done: what is known of them, and the slots
    /// of their receiving ends.
    pub fn alive(&self, now: Ps) -> Vec<(FlowRecord, u32)> {
        let of_tcp = self.tcp.iter().flat_map(|tcp| tcp.alive(now)).map(|record| (record, TCP));
        let slots = (0..).zip(self.senders.slots());
        let alive = slots.filter(|(_, flow): &(u32, &Sender)| !flow.done && !flow.tx.is_open() && flow.start <= now);
        alive.map(|(slot, flow)| (self.record(slot, now), flow.peer)).chain(of_tcp).collect()
    }

    /// Packets and bytes that the shaper holds.
    pub fn held(&self) -> Held {
        self.shaper.held()
    }

    /// The receiving end in a slot.
    pub fn receiver(&self, slot: u32) -> &Receiver {
        &self.receivers[slot]
    }

    /// The sending end in a slot.
    pub fn sender(&self, slot: u32) -> &Sender {
        &self.senders[slot]
    }

    /// Counts so far.
    pub fn all_counts(&self) -> Counts {
        let mut all = self.counts;
        if let Some(tcp) = &self.tcp {
            all += tcp.counts();
        }
        all
    }

    /// On-Ramp's gates: of RDMA's flows, and of TCP's connections.
    pub fn gates(&self) -> impl Iterator<Item = &Gates> {
        let tcp = self.tcp.as_ref().and_then(|tcp| tcp.gates());
        self.gates.iter().chain(tcp)
    }

    /// Tells, of each flow alive, its hosts, and whether On-Ramp's gate is closed.
    pub fn gated(&self, now: Ps, tell: &mut dyn FnMut(u32, u32, bool)) {
        let slots = (0..).zip(self.senders.slots());
        for (slot, flow) in slots.filter(|(_, flow): &(u32, &Sender)| !flow.done && flow.start <= now) {
            tell(flow.src, flow.dst, self.gates.as_ref().is_some_and(|gates| gates.release(slot) > now));
        }
        if let Some(tcp) = &self.tcp {
            tcp.gated(now, tell);
        }
    }

    /// Time that flows alive have been paused.
    pub fn paused_alive(&self, now: Ps) -> Ps {
        let of_tcp = self.tcp.as_ref().map_or(0, |tcp| tcp.paused_alive(now));
        let Some(gates) = &self.gates else { return of_tcp };
        let slots = (0..).zip(self.senders.slots());
        let alive = slots.filter(|(_, flow)| !flow.done && flow.start <= now);
        of_tcp + alive.map(|(slot, _)| gates.paused_total(slot, now)).sum::<Ps>()
    }
}

/// A flow that is about to start.
#[derive(Clone, Copy, Debug)]
pub struct Opening {
    /// As its source describes it, but for times: they are the engine's.
    pub flow: NewFlow,
    /// Number in order of arrival.
    pub id: u64,
    /// When, in picoseconds.
    pub start: Ps,
    /// Hashes that ECMP chooses by, for data and for replies.
    pub hashes: [u16; 2],
    /// Its class in NICs and switches.
    pub class: u8,
    /// Which of the scenario's transports.
    pub transport: u8,
    /// The request it is part of, numbered in order of arrival.
    pub request: Option<u64>,
    /// Its policies.
    pub terms: Terms,
}
