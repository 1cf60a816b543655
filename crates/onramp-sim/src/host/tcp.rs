//! TCP's connections on the hosts of a cell, and the queue below them, from which a NIC takes what
//! it sends: opened before the load or with a handshake, used again by flow after flow.

use super::gate::{GateRules, Gates};
use super::qdisc::fq::Fq;
use super::qdisc::fq_codel::FqCodel;
use super::qdisc::gate::Gate;
use super::qdisc::pfifo::Pfifo;
use super::qdisc::{Ask, Dequeue, Dropped, Ecn, Qdisc, Segment as Queued, Verdict};
use super::{Hosts, Io, Note, Opening, Timer};
use crate::cc::tcp::any::Config;
use crate::engine::{Slab, random};
use crate::measure::FlowRecord;
use crate::network::packet::{AFTER_TIMEOUT, LAST, MARKED, Options, TCP, UNMEASURED};
use crate::network::router::{Header, Router};
use crate::network::{Kind as Of, Packet};
use crate::stack::tcp::rx::{Data, Said};
use crate::stack::tcp::tx::Segment;
use crate::stack::tcp::{HEADERS, Params, Reply, Rx, Tx};
use crate::topology::Topology;
use crate::units::{NS, Ps, SEC, US};
use crate::workload::Size;
use crate::workload::connections::ideal;
use std::collections::{HashMap, VecDeque};

/// A connection's opening on the wire: Ethernet, IPv4, TCP with its options.
const SYN_BYTES: u16 = 74;
/// A lost one is sent again after this, and each further one after twice as long.
const SYN_AGAIN: Ps = SEC;
/// The slot of who does not know it yet.
const UNKNOWN: u32 = TCP - 1;
/// What a flow without end writes.
const ENDLESS: u64 = 1 << 44;
/// A path's delay counts for so long, and a flow that paused for longer starts anew.
const IDLE: Ps = 1000 * US;

/// The queueing discipline of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueKind {
    /// First in, first out.
    Pfifo,
    /// Fair queueing with CoDel.
    FqCodel,
    /// Fair queueing with pacing.
    Fq,
}

/// What the connections of a transport have in common.
#[derive(Clone, Debug)]
pub struct Kind {
    /// Its values.
    pub params: Params,
    /// Its controller.
    pub cc: Config,
    /// Its packets are marked, and marks are told.
    pub marks: bool,
}

/// How the hosts' data path tells delays.
#[derive(Clone, Copy, Debug)]
pub struct OrAcks {
    /// An OR-ACK for each 2^`shift` bytes, and for the end of each write,
    pub shift: u32,
    /// but never two of a flow within this time.
    pub gap: Ps,
    /// Segments are cut where delays are above T.
    pub cut: bool,
}

/// TCP of a run.
#[derive(Clone, Debug)]
pub struct Rules {
    /// By number of the transport; `None` for those that are not TCP.
    pub kinds: Vec<Option<Kind>>,
    /// The hosts' queue,
    pub queue: QueueKind,
    /// but of those with On-Ramp, by number.
    pub gated: Vec<bool>,
    /// Bytes of a full packet with its Ethernet header.
    pub mtu: u32,
    /// What the data path does, where there is On-Ramp.
    pub or_acks: OrAcks,
    /// For what is drawn.
    pub seed: u64,
}

impl Rules {
    fn kind(&self, transport: u8) -> &Kind {
        self.kinds[usize::from(transport)].as_ref().expect("the transport is TCP")
    }

    /// Whether a host's queue waits for packets' departure times.
    fn paces(&self, host: u32) -> bool {
        self.queue == QueueKind::Fq && !self.gated[host as usize]
    }
}

/// A pair of hosts, and how its connections travel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Which of the scenario's transports.
    pub transport: u8,
    /// Class in NICs and switches.
    pub class: u8,
}

/// A flow that has arrived, or will soon.
#[derive(Clone, Copy, Debug)]
struct Flow {
    new: Opening,
    nic: u32,
    connection: Option<u32>,
    /// Its first byte in the connection's stream, and one beyond its last.
    first: u64,
    end: u64,
    /// Counters of the connection when it began.
    resent: u32,
    timeouts: u32,
    paused: Ps,
    done: bool,
}

/// The sending end of a connection.
#[derive(Debug)]
struct Connection {
    tx: Tx,
    id: u64,
    pair: Pair,
    hash: u16,
    nic: u32,
    /// Slot of the other end; [`UNKNOWN`] until it has answered.
    peer: u32,
    flow: Option<u32>,
    /// Time of the next valid event.
    armed: Option<Ps>,
    /// When the opening is sent again, and when it was sent.
    opening: Option<(Ps, Ps)>,
    last_sent: Ps,
    held: bool,
}

/// The receiving end of a connection.
#[derive(Debug)]
struct End {
    rx: Rx,
    id: u64,
    peer: u32,
    src: u32,
    hash: u16,
    nic: u32,
    class: u8,
    transport: u8,
    watch_owd: Option<u32>,
    armed: Option<Ps>,
    /// When the last OR-ACK was sent.
    told_at: Option<Ps>,
    /// Last bytes of flows, and when the application had them.
    complete: VecDeque<(u64, Ps)>,
}

#[derive(Debug, Default)]
struct Pool {
    idle: Vec<u32>,
    made: u64,
}

#[derive(Clone, Copy, Debug)]
enum Waiting<H> {
    Data(u32, Segment),
    Packet(Packet<H>),
}

/// A segment that leaves, from byte `next` on.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    connection: u32,
    segment: Segment,
    next: u64,
    marked: bool,
}

/// What a line sends next.
enum Next<H> {
    Segment(Leaving),
    Packet(Packet<H>),
}

/// What is below TCP at a class of a NIC.
#[derive(Debug)]
struct Device {
    queue: Box<dyn Qdisc + Send + Sync>,
    /// A segment that leaves packet by packet.
    leaving: Option<Leaving>,
    /// Memory to be given back to a connection when the packet is out, and the byte up to which it has left.
    sent: Option<(u32, u32, u64)>,
}

fn new_queue(rules: &Rules, gated: bool) -> Box<dyn Qdisc + Send + Sync> {
    if gated {
        return Box::new(Gate::default());
    }
    match rules.queue {
        QueueKind::Pfifo => Box::new(Pfifo::default()),
        QueueKind::FqCodel => Box::new(FqCodel::new(&Default::default(), rules.mtu)),
        QueueKind::Fq => Box::new(Fq::new(&Default::default(), rules.mtu)),
    }
}

/// See the module.
#[derive(Debug)]
pub struct Hosting<H> {
    rules: Rules,
    connections: Slab<Connection>,
    ends: Slab<End>,
    flows: Slab<Flow>,
    pools: HashMap<Pair, Pool>,
    /// Of NIC n and class c: `n * classes + c`.
    devices: Vec<Device>,
    waiting: Slab<Waiting<H>>,
    gates: Option<Gates>,
    out: Vec<Segment>,
    dropped: Vec<Queued>,
    /// Connections that were opened with a handshake.
    pub opened_late: u64,
}

impl<H: Copy> Hosting<H> {
    pub(super) fn new(rules: &Rules, gate: Option<&GateRules>, hosts: &[u32], classes: usize) -> Self {
        let device = |gated| Device { queue: new_queue(rules, gated), leaving: None, sent: None };
        let lines = hosts.iter().flat_map(|&host| std::iter::repeat_n(rules.gated[host as usize], classes));
        Self {
            rules: rules.clone(),
            connections: Slab::default(),
            ends: Slab::default(),
            flows: Slab::default(),
            pools: HashMap::new(),
            devices: lines.map(device).collect(),
            waiting: Slab::default(),
            gates: gate.map(Gates::new),
            out: Vec::new(),
            dropped: Vec::new(),
            opened_late: 0,
        }
    }

    /// The number of a pair's connection in the whole run.
    fn id(pair: Pair, number: u64) -> u64 {
        let kinds = u64::from(pair.transport) << 3 | u64::from(pair.class);
        (u64::from(pair.src) << 21 | u64::from(pair.dst)) << 22 | kinds << 14 | number
    }

    fn hashes(&self, id: u64) -> [u16; 2] {
        let mut draw = random::stream(self.rules.seed, "connection", id);
        [0, 0].map(|_| random::below(&mut draw, 1 << 16) as u16)
    }

    /// On-Ramp's gates.
    pub fn gates(&self) -> Option<&Gates> {
        self.gates.as_ref()
    }

    /// Hands a segment to a line's queue, which may drop others for it.
    fn enqueue(&mut self, line: usize, queued: Queued, now: Ps) {
        if let Err(dropped) = self.devices[line].queue.enqueue(queued, now) {
            if let Waiting::Data(at, _) = self.waiting[queued.handle] {
                self.connections[at].tx.slow_down(now);
            }
            if dropped == Dropped::Refused {
                self.dropped.push(queued);
            }
        }
        self.forget_dropped(line);
    }

    /// What leaves a line next, or when to ask again.
    fn next(&mut self, line: usize, now: Ps) -> Result<Next<H>, Ps> {
        if let Some(leaving) = self.devices[line].leaving.take() {
            return Ok(Next::Segment(leaving));
        }
        let Self { rules, connections, devices, waiting, gates, .. } = self;
        let next = devices[line].queue.dequeue(now, &mut Asked { rules, connections, waiting, gates, now });
        self.forget_dropped(line);
        let queued = match next {
            Dequeue::Idle => return Err(Ps::MAX),
            Dequeue::At(at) => return Err(at),
            Dequeue::Send(queued) => queued,
        };
        let what = self.waiting[queued.handle];
        self.waiting.remove(queued.handle);
        Ok(match what {
            Waiting::Packet(packet) => Next::Packet(packet),
            Waiting::Data(connection, segment) => {
                let (next, marked) = (segment.start, queued.ecn == Ecn::Marked);
                Next::Segment(Leaving { connection, segment, next, marked })
            }
        })
    }

    /// What a line's queue has dropped no longer takes memory; TCP finds out as of any loss.
    fn forget_dropped(&mut self, line: usize) {
        self.devices[line].queue.drain(&mut self.dropped);
        for queued in self.dropped.drain(..) {
            if let Waiting::Data(at, segment) = self.waiting[queued.handle] {
                self.connections[at].tx.released(Tx::memory(segment.end - segment.start), segment.end);
            }
            self.waiting.remove(queued.handle);
        }
    }
}

/// Round trip of a handshake on an empty network, in microseconds.
fn handshake_us(topology: &Topology, src: u32, dst: u32) -> u32 {
    (2 * ideal(topology, src, dst, u64::from(SYN_BYTES) - u64::from(HEADERS)) / US).max(1) as u32
}

/// The 64-bit number with these low 32 bits that is nearest to `near`.
fn unwrap(near: u64, low: u32) -> u64 {
    near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32))
}

impl<H: Header> Hosts<H> {
    /// Whether the connections of a pair are there.
    pub fn knows(&self, pair: Pair) -> bool {
        self.tcp.as_ref().is_some_and(|tcp| tcp.pools.contains_key(&pair))
    }

    /// The receiving end of a pair's connection `number`, opened before the load.
    pub fn open_end(&mut self, pair: Pair, number: u64, nic: u32, watch_owd: Option<u32>) -> u32 {
        let rtt_us = handshake_us(&self.topology, pair.src, pair.dst);
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let id = Hosting::<H>::id(pair, number);
        let kind = tcp.rules.kind(pair.transport);
        let rx = Rx::new(&kind.params, rtt_us, kind.marks);
        let Pair { src, transport, class, .. } = pair;
        let (hash, peer) = (tcp.hashes(id)[1], UNKNOWN);
        tcp.ends.insert(End {
            rx,
            id,
            peer,
            src,
            hash,
            nic,
            class,
            transport,
            watch_owd,
            armed: None,
            told_at: None,
            complete: VecDeque::new(),
        })
    }

    /// The sending end of that connection, whose other end is in slot `peer`.
    pub fn open_connection(&mut self, pair: Pair, number: u64, nic: u32, peer: u32, now: Ps) -> u32 {
        let rtt_us = handshake_us(&self.topology, pair.src, pair.dst);
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let id = Hosting::<H>::id(pair, number);
        let kind = tcp.rules.kind(pair.transport);
        let draw = tcp.rules.seed ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tx = Tx::new(&kind.params, &kind.cc, tcp.rules.paces(pair.src), rtt_us, now, draw);
        let hash = tcp.hashes(id)[0];
        let slot = tcp.connections.insert(Connection {
            tx,
            id,
            pair,
            hash,
            nic,
            peer,
            flow: None,
            armed: None,
            opening: None,
            last_sent: 0,
            held: false,
        });
        let pool = tcp.pools.entry(pair).or_default();
        pool.idle.push(slot);
        pool.made = pool.made.max(number + 1);
        if let Some(gates) = &mut tcp.gates {
            gates.open(slot, pair.src, pair.dst, now);
        }
        slot
    }

    /// Tells a receiving end the slot of its sending end.
    pub fn introduce_connection(&mut self, end: u32, connection: u32) {
        self.tcp.as_mut().expect("there is TCP").ends[end].peer = connection;
    }

    /// Makes room for a flow on TCP, which leaves by `nic`.
    pub fn open_flow(&mut self, new: &Opening, nic: u32) -> u32 {
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let flow =
            Flow { new: *new, nic, connection: None, first: 0, end: 0, resent: 0, timeouts: 0, paused: 0, done: false };
        tcp.flows.insert(flow) | TCP
    }

    /// A flow begins on a connection of its pair that is idle, or on a new one.
    pub(super) fn start_flow<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, slot: u32) {
        let slot = slot & !TCP;
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let Flow { new, nic, .. } = tcp.flows[slot];
        let pair = Pair { src: new.flow.src, dst: new.flow.dst, transport: new.transport, class: new.class };
        let pool = tcp.pools.entry(pair).or_default();
        let idle = pool.idle.pop();
        let number = pool.made;
        let at = idle.unwrap_or_else(|| {
            let at = self.open_connection(pair, number, nic, UNKNOWN, io.now);
            let tcp = self.tcp.as_mut().expect("there is TCP");
            tcp.opened_late += 1;
            tcp.pools.get_mut(&pair).expect("it was opened").idle.pop();
            tcp.connections[at].opening = Some((io.now + SYN_AGAIN, io.now));
            at
        });
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let paused = tcp.gates.as_ref().map_or(0, |gates| gates.paused_total(at, io.now));
        let connection = &mut tcp.connections[at];
        connection.flow = Some(slot);
        let kind = tcp.rules.kind(pair.transport);
        let first = connection.tx.written();
        let bytes = match new.flow.size {
            Size::Bytes(bytes) => bytes,
            Size::Until(stop) => {
                io.events.timer(stop, Timer::Stop(new.id, slot | TCP));
                ENDLESS
            }
        };
        if connection.opening.is_none() {
            connection.tx.write(&kind.params, io.now, bytes);
        }
        let flow = &mut tcp.flows[slot];
        flow.connection = Some(at);
        (flow.first, flow.end) = (first, first + bytes);
        (flow.resent, flow.timeouts, flow.paused) = (connection.tx.resent, connection.tx.timeouts, paused);
        if connection.opening.is_some() {
            self.open_late(io, at);
        } else {
            self.pump(io, at);
        }
    }

    /// A long flow stops: what was sent is all there is.
    pub(super) fn stop_flow<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, id: u64, slot: u32) {
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let flow = &mut tcp.flows[slot & !TCP];
        let Some(at) = flow.connection.filter(|_| flow.new.id == id && !flow.done) else { return };
        tcp.connections[at].tx.stop();
        flow.end = tcp.connections[at].tx.written();
        self.look_whether_done(io, at);
    }

    /// Sends the opening of a connection.
    fn open_late<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32) {
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let Connection { id, pair, hash, nic, .. } = tcp.connections[at];
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
        self.queue_packet(io, nic, id, false, packet);
        self.arm(io, at);
        self.nic_send(io, nic);
    }

    /// An opening has come in by `nic`, or the answer to one.
    fn opened<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, packet: &Packet<H>, nic: u32) {
        let slot = packet.flow & !TCP;
        let now = io.now;
        if slot == UNKNOWN {
            let (high, low) = packet.header.options()[0];
            let id = u64::from(high) << 32 | u64::from(low);
            let (src, peer) = (packet.paused, packet.seq);
            let rtt_us = handshake_us(&self.topology, src, packet.dst());
            let watch_owd = None;
            let tcp = self.tcp.as_mut().expect("there is TCP");
            let transport = packet.owd_ns as u8;
            let kind = tcp.rules.kind(transport);
            let (rx, class) = (Rx::new(&kind.params, rtt_us, kind.marks), packet.class());
            let hash = tcp.hashes(id)[1];
            let end = End {
                rx,
                id,
                peer,
                src,
                hash,
                nic,
                class,
                transport,
                watch_owd,
                armed: None,
                told_at: None,
                complete: VecDeque::new(),
            };
            // A second copy opens another end; only one is answered to.
            let end = tcp.ends.insert(end);
            let answer = Packet { flow: peer | TCP, seq: end, hash, ..*packet };
            let answer = answer.to(src).marked(0, class).as_a(Of::SYN);
            self.queue_packet(io, nic, id, true, answer);
            return self.nic_send(io, nic);
        }
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let connection = &mut tcp.connections[slot];
        let Some((_, sent)) = connection.opening.take() else { return };
        let kind = tcp.rules.kind(connection.pair.transport);
        connection.peer = packet.seq;
        let paces = tcp.rules.paces(connection.pair.src);
        let draw = tcp.rules.seed ^ connection.id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        connection.tx = Tx::new(&kind.params, &kind.cc, paces, ((now - sent) / US) as u32, now, draw);
        if let Some(flow) = connection.flow {
            let bytes = tcp.flows[flow].end - tcp.flows[flow].first;
            connection.tx.write(&kind.params, now, bytes);
        }
        self.pump(io, slot);
    }

    /// Sends what a connection may send.
    fn pump<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32) {
        let nic = self.fill(io, at);
        self.arm(io, at);
        self.nic_send(io, nic);
    }

    /// Puts into the queue what a connection may send; its NIC.
    fn fill<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32) -> u32 {
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let mut out = std::mem::take(&mut tcp.out);
        let connection = &mut tcp.connections[at];
        let kind = tcp.rules.kind(connection.pair.transport);
        connection.tx.transmit(&kind.params, io.now, &mut out);
        self.queue_segments(io, at, &mut out);
        let tcp = self.tcp.as_mut().expect("there is TCP");
        tcp.out = out;
        tcp.connections[at].nic
    }

    fn queue_segments<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32, out: &mut Vec<Segment>) {
        let classes = self.classes;
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let Connection { id, pair, nic, .. } = tcp.connections[at];
        let kind = tcp.rules.kind(pair.transport);
        let (mss, ecn) = (kind.params.mss, if kind.marks { Ecn::Capable } else { Ecn::Incapable });
        for segment in out.drain(..) {
            let handle = tcp.waiting.insert(Waiting::Data(at, segment));
            let queued = Queued { ecn, ..queued(id, &segment, mss, handle) };
            tcp.enqueue(nic as usize * classes + usize::from(pair.class), queued, io.now);
        }
    }

    /// Queues an acknowledgement or what is of the agent.
    fn queue_packet<R: Router<Header = H>>(
        &mut self,
        io: &mut Io<'_, R>,
        nic: u32,
        key: u64,
        pure_ack: bool,
        packet: Packet<H>,
    ) {
        let classes = self.classes;
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let handle = tcp.waiting.insert(Waiting::Packet(packet));
        let line = nic as usize * classes + usize::from(packet.class());
        // The other direction of the connection is a flow of its own here; so is the agent.
        let flow = !key ^ u64::from(!pure_ack);
        let queued = Queued {
            flow,
            bytes: u32::from(packet.size),
            packets: 1,
            earliest: 0,
            pure_ack,
            ecn: Ecn::default(),
            handle,
        };
        tcp.enqueue(line, queued, io.now);
    }

    /// Sees to it that a connection is looked at when its timer fires.
    fn arm<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32) {
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let connection = &mut tcp.connections[at];
        let paced = connection.tx.paced_until(io.now);
        let due = [connection.tx.deadline(), paced, connection.opening.map(|o| o.0)];
        let Some(due) = due.into_iter().flatten().min() else { return };
        let due = due.max(io.now);
        if connection.armed.is_none_or(|armed| due < armed) {
            connection.armed = Some(due);
            io.events.timer(due, Timer::Connection(connection.id, at));
        }
    }

    /// A connection's event has come.
    pub fn connection_due<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32) {
        let now = io.now;
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let connection = &mut tcp.connections[at];
        if connection.armed != Some(now) {
            return;
        }
        connection.armed = None;
        if let Some((again, _)) = connection.opening {
            if again <= now {
                connection.opening = Some((now + 2 * SYN_AGAIN, now));
                return self.open_late(io, at);
            }
            return self.arm(io, at);
        }
        let kind = tcp.rules.kind(connection.pair.transport);
        let mut out = std::mem::take(&mut tcp.out);
        let before = (connection.tx.resent, connection.tx.timeouts);
        connection.tx.on_timer(&kind.params, now, &mut out);
        let after = (connection.tx.resent, connection.tx.timeouts);
        self.counts.retransmitted += u64::from(after.0 - before.0);
        self.counts.timeouts += u64::from(after.1 - before.1);
        self.queue_segments(io, at, &mut out);
        self.tcp.as_mut().expect("there is TCP").out = out;
        self.pump(io, at);
    }

    /// A NIC's line asks for a packet: its size if one leaves, else when to ask again.
    pub(super) fn tcp_sends<R: Router<Header = H>>(
        &mut self,
        io: &mut Io<'_, R>,
        nic: u32,
        class: u8,
    ) -> Result<u16, Ps> {
        let line = nic as usize * self.classes + usize::from(class);
        let tcp = self.tcp.as_mut().expect("there is TCP");
        if let Some((at, bytes, end)) = tcp.devices[line].sent.take()
            && tcp.connections[at].tx.released(bytes, end)
        {
            self.fill(io, at);
            self.arm(io, at);
        }
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let now = io.now;
        let leaving = match tcp.next(line, now)? {
            Next::Segment(leaving) => leaving,
            Next::Packet(packet) => {
                let port = self.nics[nic as usize].port;
                io.network.start(io.events, now, port, packet);
                return Ok(packet.size);
            }
        };
        let Leaving { connection: at, segment, next: start, marked } = leaving;
        let Hosting { rules, connections, devices, gates, flows, .. } = &mut **tcp;
        let device = &mut devices[line];
        let connection = &mut connections[at];
        let kind = rules.kind(connection.pair.transport);
        let end = segment.end.min(start + u64::from(kind.params.mss));
        let last = end == segment.end;
        if !last {
            device.leaving = Some(Leaving { next: end, ..leaving });
        }
        let overhead = if last { Tx::memory(0) } else { 0 };
        device.sent = Some((at, (end - start) as u32 + overhead, end));
        connection.last_sent = now;
        let flags = if last && segment.push { LAST } else { 0 }
            | if segment.again { AFTER_TIMEOUT } else { 0 }
            | if marked { MARKED } else { 0 };
        let expected = connection.flow.map_or(segment.end, |flow| flows[flow].end);
        let mut packet = Packet::<H> {
            sent_ns: (now / NS) as u32,
            flow: connection.peer | TCP,
            seq: start as u32,
            paused: gates.as_mut().map_or(0, |gates| gates.stamp(at, now)),
            owd_ns: Tx::stamp_ms(now) as i32,
            size: Tx::wire(end - start),
            hash: connection.hash,
            ..Packet::default()
        };
        packet.header.set_options([(expected as u32, 0), (0, 0), (0, 0)]);
        let packet = packet.to(connection.pair.dst).marked(flags, connection.pair.class);
        let port = self.nics[nic as usize].port;
        io.network.start(io.events, now, port, packet);
        Ok(packet.size)
    }

    /// A packet of a connection has come in by `nic`.
    pub(super) fn tcp_receive<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, packet: &Packet<H>, nic: u32) {
        match packet.kind() {
            Of::DATA => self.segment_came(io, packet),
            Of::ACK => self.reply_came(io, packet),
            Of::OR_ACK => self.delay_told(io, packet),
            _ => self.opened(io, packet, nic),
        }
    }

    fn segment_came<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, packet: &Packet<H>) {
        let (now, slot) = (io.now, packet.flow & !TCP);
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let end = &mut tcp.ends[slot];
        let start = unwrap(end.rx.nxt(), packet.seq);
        let data = Data {
            start,
            end: start + u64::from(packet.size) - u64::from(HEADERS),
            push: packet.flags() & LAST != 0,
            marked: packet.flags() & MARKED != 0,
            stamp_ms: packet.owd_ns as u32,
            expected: unwrap(end.rx.nxt(), packet.header.options()[0].0),
        };
        let true_owd = ((now / NS) as u32).wrapping_sub(packet.sent_ns);
        let owd_ns = io.clocks.owd_error(end.src, packet.dst(), true_owd, now).map_or(UNMEASURED, |error| {
            let owd = i64::from(true_owd) + error;
            owd.clamp(i64::from(UNMEASURED + 1), i64::from(i32::MAX)) as i32
        });
        if owd_ns != UNMEASURED {
            io.meter.owd(end.watch_owd, now, owd_ns);
        }
        let OrAcks { shift, gap, .. } = tcp.rules.or_acks;
        let last = data.end - 1;
        let chosen = data.push || last >> shift << shift >= data.start;
        // One that was sent twice says nothing: the OR-ACK may be for either.
        let once = packet.flags() & AFTER_TIMEOUT == 0;
        let both = tcp.rules.gated[end.src as usize] && tcp.rules.gated[packet.dst() as usize];
        let or_ack = both && chosen && once && end.told_at.is_none_or(|at| now - at >= gap);
        let (nic, id) = (end.nic, end.id);
        if or_ack {
            end.told_at = Some(now);
            let ack = Packet {
                owd_ns,
                flow: end.peer | TCP,
                hash: end.hash,
                size: onramp_core::orack::WIRE_IPV4 as u16,
                ..*packet
            };
            let ack = ack.to(end.src).marked(0, end.class).as_a(Of::OR_ACK);
            self.queue_packet(io, nic, id, false, ack);
        }
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let end = &mut tcp.ends[slot];
        let said = end.rx.on_data(&tcp.rules.kind(end.transport).params, now, &data);
        if said.complete {
            tcp.ends[slot].complete.push_back((data.expected, now));
        }
        self.say(io, slot, &said);
    }

    /// Sends what a receiving end has to say.
    fn say<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, slot: u32, said: &Said) {
        for reply in said.replies() {
            let end = &self.tcp.as_ref().expect("there is TCP").ends[slot];
            let mut options = Options::default();
            for (low, block) in options.iter_mut().zip(reply.blocks) {
                *low = (block.0 as u32, block.1 as u32);
            }
            let blocks = reply.blocks.iter().filter(|block| block.1 > block.0).count() as u16;
            let more = if blocks > 0 { 4 + 8 * blocks } else { 0 };
            let mut ack = Packet::<H> {
                sent_ns: (io.now / NS) as u32,
                flow: end.peer | TCP,
                seq: reply.ack as u32,
                paused: reply.window,
                owd_ns: reply.echo_ms as i32,
                size: HEADERS as u16 + more,
                hash: end.hash,
                ..Packet::default()
            };
            ack.header.set_options(options);
            let (nic, id) = (end.nic, end.id);
            let ack = ack.to(end.src).marked(if reply.ece { MARKED } else { 0 }, end.class).as_a(Of::ACK);
            self.queue_packet(io, nic, id, true, ack);
        }
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let end = &mut tcp.ends[slot];
        if let Some(due) = end.rx.deadline()
            && end.armed.is_none_or(|armed| due < armed)
        {
            end.armed = Some(due);
            io.events.timer(due, Timer::End(end.id, slot));
        }
        let nic = end.nic;
        self.nic_send(io, nic);
    }

    /// A receiving end's event has come.
    pub fn end_due<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, slot: u32) {
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let end = &mut tcp.ends[slot];
        if end.armed != Some(io.now) {
            return;
        }
        end.armed = None;
        let kind = tcp.rules.kind(end.transport);
        let said = end.rx.on_timer(&kind.params, io.now);
        self.say(io, slot, &said);
    }

    fn reply_came<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, packet: &Packet<H>) {
        let at = packet.flow & !TCP;
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let connection = &mut tcp.connections[at];
        let kind = tcp.rules.kind(connection.pair.transport);
        let near = connection.tx.una();
        let reply = Reply {
            ack: unwrap(near, packet.seq),
            window: packet.paused,
            blocks: packet.header.options().map(|(start, end)| (unwrap(near, start), unwrap(near, end))),
            ece: packet.flags() & MARKED != 0,
            echo_ms: packet.owd_ns as u32,
        };
        let reply = Reply { blocks: reply.blocks.map(|b| if b.0 == b.1 { (0, 0) } else { b }), ..reply };
        connection.tx.on_reply(&kind.params, io.now, &reply);
        let resent = connection.tx.resent;
        let acked = connection.tx.una() - near;
        self.fill(io, at);
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let connection = &tcp.connections[at];
        self.counts.acked += acked;
        self.counts.retransmitted += u64::from(connection.tx.resent - resent);
        let nic = connection.nic;
        self.look_whether_done(io, at);
        self.arm(io, at);
        self.nic_send(io, nic);
    }

    /// If all of a connection's flow is acknowledged, it is over, and the connection idle.
    fn look_whether_done<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32) {
        let topology = &self.topology;
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let connection = &mut tcp.connections[at];
        let Some(slot) = connection.flow.filter(|_| connection.tx.idle()) else { return };
        connection.flow = None;
        let flow = &mut tcp.flows[slot];
        flow.done = true;
        let record = record(flow, connection, tcp.gates.as_ref(), at, io.now, topology);
        let (dst, peer, end) = (connection.pair.dst, connection.peer, flow.end);
        tcp.pools.get_mut(&connection.pair).expect("it has a pool").idle.push(at);
        tcp.flows.remove(slot);
        if let Some(gates) = &mut tcp.gates {
            gates.paused += record.paused_ps;
        }
        self.notes.push((dst, Note::Acknowledged(peer, end, record)));
    }

    /// A flow of a connection to the end in `slot` is acknowledged up to byte `last`.
    pub(super) fn acknowledged_to(&mut self, slot: u32, last: u64, record: FlowRecord) {
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let complete = &mut tcp.ends[slot].complete;
        let found = record.start_ps + record.fct_ps;
        let mut at = found;
        while let Some((end, when)) = complete.pop_front() {
            if unwrap(last, end as u32) == last {
                at = when;
                break;
            }
        }
        let fct_ps = at - record.start_ps;
        self.done.push((found, FlowRecord { fct_ps, receiver_fct_ps: fct_ps, ..record }));
    }

    fn delay_told<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, packet: &Packet<H>) {
        let (at, now) = (packet.flow & !TCP, io.now);
        let sent_ns = crate::network::packet::unwrap_ns(now / NS, packet.sent_ns);
        let tcp = self.tcp.as_mut().expect("there is TCP");
        let connection = &tcp.connections[at];
        let Pair { src, dst, .. } = connection.pair;
        let margin = if packet.owd_ns == UNMEASURED { None } else { io.clocks.margin(src, dst, now) };
        if let (Some(gates), Some(margin)) = (&mut tcp.gates, margin) {
            gates.learn(at, now, packet.owd_ns, margin);
            gates.acked(at, now, sent_ns, packet.paused, packet.owd_ns);
        }
    }

    /// TCP's flows that have arrived and are not done.
    pub(super) fn tcp_alive(&self, now: Ps) -> Vec<FlowRecord> {
        let Some(tcp) = &self.tcp else { return vec![] };
        let mut alive = Vec::new();
        for (at, connection) in (0..).zip(tcp.connections.slots()) {
            if let Some(slot) = connection.flow {
                let flow = &tcp.flows[slot];
                alive.push(record(flow, connection, tcp.gates.as_ref(), at, now, &self.topology));
            }
        }
        alive
    }

    /// Bytes of a long flow that are acknowledged; `None` if it is over.
    pub fn acknowledged_of(&self, slot: u32, id: u64) -> Option<u64> {
        let tcp = self.tcp.as_ref()?;
        let flow = &tcp.flows[slot & !TCP];
        let at = flow.connection.filter(|_| flow.new.id == id && !flow.done);
        if flow.new.id != id || flow.done {
            return None;
        }
        Some(at.map_or(0, |at| tcp.connections[at].tx.una() - flow.first))
    }
}

/// As the queue below sees a segment.
fn queued(flow: u64, segment: &Segment, mss: u32, handle: u32) -> Queued {
    let bytes = segment.end - segment.start;
    let packets = bytes.div_ceil(u64::from(mss));
    Queued {
        flow,
        bytes: (bytes + packets * u64::from(HEADERS)) as u32,
        packets: packets as u16,
        earliest: segment.earliest,
        pure_ack: false,
        ecn: Ecn::default(),
        handle,
    }
}

fn record(
    flow: &Flow,
    connection: &Connection,
    gates: Option<&Gates>,
    at: u32,
    now: Ps,
    topology: &Topology,
) -> FlowRecord {
    let Opening { flow: new, id, start, request, .. } = flow.new;
    let bytes = match new.size {
        Size::Bytes(bytes) => bytes,
        Size::Until(_) => flow.end.min(connection.tx.nxt()) - flow.first,
    };
    FlowRecord {
        id,
        traffic: new.traffic,
        request,
        src: new.src,
        dst: new.dst,
        bytes,
        start_ps: start,
        fct_ps: now.saturating_sub(start),
        receiver_fct_ps: 0,
        ideal_ps: ideal(topology, new.src, new.dst, bytes),
        retransmitted: connection.tx.resent - flow.resent,
        timeouts: connection.tx.timeouts - flow.timeouts,
        paused_ps: gates.map_or(0, |gates| gates.paused_total(at, now)) - flow.paused,
    }
}

/// What a gate asks.
struct Asked<'a, H> {
    rules: &'a Rules,
    connections: &'a mut Slab<Connection>,
    waiting: &'a mut Slab<Waiting<H>>,
    gates: &'a mut Option<Gates>,
    now: Ps,
}

impl<H> Ask for Asked<'_, H> {
    fn ask(&mut self, handle: u32) -> Verdict {
        let (Waiting::Data(at, segment), Some(gates)) = (&self.waiting[handle], &mut self.gates) else {
            return Verdict::Go;
        };
        let connection = &mut self.connections[*at];
        let kind = self.rules.kind(connection.pair.transport);
        let several = segment.end - segment.start > u64::from(kind.params.mss);
        if several && self.rules.or_acks.cut && gates.is_long(*at, self.now, IDLE) {
            return Verdict::Cut;
        }
        let idle = self.now.saturating_sub(connection.last_sent) > IDLE;
        if idle && !connection.held && self.now > gates.release(*at) {
            gates.restart(*at, self.now);
        }
        let release = gates.release(*at);
        connection.held = release > self.now;
        if connection.held { Verdict::Wait(release) } else { Verdict::Go }
    }

    fn cut(&mut self, handle: u32) -> Vec<Queued> {
        let Waiting::Data(at, segment) = self.waiting[handle] else { return vec![] };
        let connection = &self.connections[at];
        let kind = self.rules.kind(connection.pair.transport);
        let mss = u64::from(kind.params.mss);
        self.waiting.remove(handle);
        let mut parts = Vec::new();
        let mut start = segment.start;
        while start < segment.end {
            let end = segment.end.min(start + mss);
            let part = Segment { start, end, push: segment.push && end == segment.end, ..segment };
            let handle = self.waiting.insert(Waiting::Data(at, part));
            parts.push(queued(connection.id, &part, kind.params.mss, handle));
            start = end;
        }
        parts
    }

    fn pacing_rate(&self, handle: u32) -> u64 {
        match self.waiting[handle] {
            Waiting::Data(at, _) => self.connections[at].tx.window.pacing_rate,
            Waiting::Packet(_) => 0,
        }
    }
}
