//! The sending end of a connection: the flows on it, what comes back, and its timers.

use super::{Hosting, Outcome, Pair, UNKNOWN, unwrap, unwrap_block};
use crate::host::{Io, Note, Opening, Timer};
use crate::network::Packet;
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::{MARKED, TCP, UNMEASURED, unwrap_ns};
use crate::stack::tcp::{Opened, Reply, Syn, Tx};
use onramp_config::units::{NS, Ps, US};
use onramp_records::FlowRecord;
use onramp_workload::Size;
use onramp_workload::connections::ideal;
use std::cmp::Reverse;

/// Bytes that a flow without end writes.
const ENDLESS: u64 = 1 << 44;
/// Bytes of a long flow that are written at first, as on the cluster,
const FIRST: u64 = 256 << 10;
/// and in its socket and not sent when it stops: there 128 to 256 KiB.
const UNSENT: u64 = 192 << 10;
/// Bytes of other flows for which a socket has room, as on the cluster.
const SOCKET: u64 = 4 << 20;

/// A flow that has arrived, or will soon.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub new: Opening,
    nic: u32,
    pub connection: Option<u32>,
    /// Its first byte in the connection's stream, and one beyond its last.
    pub first: u64,
    pub end: u64,
    /// Counters of the connection when it began.
    resent: u32,
    timeouts: u32,
    pub paused: Ps,
    done: bool,
}

impl Flow {
    /// True if it is flow `id` and not done: the slot may have gone to another since.
    fn is(&self, id: u64) -> bool {
        self.new.id == id && !self.done
    }
}

/// Who writes to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// One flow after the other.
    Flows,
    /// A program.
    Program,
    /// A program whose messages are handed over page by page.
    Pages,
}

/// The sending end of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub tx: Tx,
    pub id: u64,
    pub pair: Pair,
    pub hash: u16,
    pub nic: u32,
    /// Slot of the other end; [`UNKNOWN`] until it has answered.
    pub peer: u32,
    /// Slot of the other direction's receiving end; [`UNKNOWN`] if there is none.
    pub other_way: u32,
    pub flow: Option<u32>,
    /// Time of the next valid event.
    armed: Option<Ps>,
    /// The opening, until it is answered.
    pub syn: Option<Syn>,
    /// When the latest answer to come was made, as its time stamp.
    pub answer_ms: u32,
    /// Who writes to it.
    pub writer: Writer,
    /// When its last packet left, and whether On-Ramp's gate holds the next.
    pub last_sent: Ps,
    pub held: bool,
}

impl Connection {
    /// Packets sent again, and timeouts, of all its flows so far and of its opening.
    pub fn resent(&self) -> (u32, u32) {
        let opening = self.syn.map_or(0, |syn| syn.resent());
        (self.tx.resent + opening, self.tx.timeouts + opening)
    }
}

/// The connections of a pair.
#[derive(Debug, Default)]
pub(super) struct Pool {
    idle: Vec<u32>,
    made: u64,
}

impl<H: Header> Hosting<H> {
    /// True if the connections of a pair are there.
    pub fn knows(&self, pair: Pair) -> bool {
        self.pools.contains_key(&pair)
    }

    /// The sending end of a pair's connection `number`, opened before the load, whose other end is in slot
    /// `peer`.
    pub fn open_connection(&mut self, pair: Pair, number: u64, nic: u32, peer: u32, now: Ps) -> u32 {
        let at = self.new_connection(pair, number, nic, peer, now);
        let pool = self.pools.entry(pair).or_default();
        pool.idle.push(at);
        pool.made += 1;
        at
    }

    /// The sending end of a connection that no flow will use unless it is told to.
    pub(super) fn new_connection(&mut self, pair: Pair, number: u64, nic: u32, peer: u32, now: Ps) -> u32 {
        let id = pair.id(number);
        let at = self.connections.insert(Connection {
            tx: self.rules.tx(id, pair, Opened::at_once(self.handshake_us(pair)), now),
            id,
            pair,
            hash: self.rules.hashes(id)[0],
            nic,
            peer,
            other_way: UNKNOWN,
            flow: None,
            armed: None,
            syn: None,
            answer_ms: Tx::stamp_ms(now),
            writer: Writer::Flows,
            last_sent: 0,
            held: false,
        });
        if let Some(gates) = &mut self.gates {
            gates.open(at, pair.src, pair.dst, now);
        }
        at
    }

    /// Makes room for a flow, which leaves by `nic`.
    pub fn open_flow(&mut self, new: &Opening, nic: u32) -> u32 {
        let flow =
            Flow { new: *new, nic, connection: None, first: 0, end: 0, resent: 0, timeouts: 0, paused: 0, done: false };
        self.flows.insert(flow) | TCP
    }

    /// A flow begins on a connection of its pair that is idle, or on a new one; the NIC it leaves by.
    pub(super) fn start_flow<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, slot: u32) -> u32 {
        let slot = slot & !TCP;
        let Flow { new, nic, .. } = self.flows[slot];
        let pair = Pair { src: new.flow.src, dst: new.flow.dst, transport: new.transport, class: new.class };
        let pool = self.pools.entry(pair).or_default();
        let (idle, number) = (pool.idle.pop(), pool.made);
        pool.made += u64::from(idle.is_none());
        let at = idle.unwrap_or_else(|| {
            self.opened_late += 1;
            let at = self.new_connection(pair, number, nic, UNKNOWN, io.now);
            self.connections[at].syn = Some(Syn::new(io.now));
            at
        });
        let bytes = match new.flow.size {
            Size::Bytes(bytes) => bytes,
            Size::Until(stop) => {
                io.events.timer(stop, Timer::Stop(new.id, slot | TCP));
                ENDLESS
            }
        };
        let paused = self.paused(at, io.now);
        if let Some(next) = &mut io.meter.next {
            next.open(at | TCP);
        }
        let connection = &mut self.connections[at];
        connection.flow = Some(slot);
        let flow = &mut self.flows[slot];
        flow.connection = Some(at);
        (flow.first, flow.end) = (connection.tx.written(), connection.tx.written() + bytes);
        ((flow.resent, flow.timeouts), flow.paused) = (connection.resent(), paused);
        if self.tap.is_some() {
            self.trace_start(slot, io.now);
        }
        let connection = &mut self.connections[at];
        if connection.syn.is_some() {
            return self.send_opening(io, at);
        }
        self.write(io.now, at, bytes);
        self.pump(io, at)
    }

    /// The application writes a flow's bytes.
    pub(super) fn write(&mut self, now: Ps, at: u32, bytes: u64) {
        let connection = &mut self.connections[at];
        let params = &self.rules.kind(connection.pair.transport).params;
        connection.tx.write(params, now, bytes, if bytes == ENDLESS { FIRST } else { SOCKET });
    }

    /// A long flow stops: what its socket has is sent, which before it has opened is nothing.
    pub(super) fn stop_flow(&mut self, id: u64, slot: u32) {
        let flow = &mut self.flows[slot & !TCP];
        let Some(at) = flow.connection.filter(|_| flow.is(id)) else { return };
        let connection = &mut self.connections[at];
        flow.end = if connection.syn.is_some() { flow.first } else { connection.tx.stop(UNSENT) };
    }

    /// Queues what a connection may send; its NIC.
    pub(super) fn pump<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, at: u32) -> u32 {
        self.fill(io.now, at);
        self.arm(io, at);
        self.connections[at].nic
    }

    /// The same without a look at its timer.
    pub(super) fn fill(&mut self, now: Ps, at: u32) {
        let connection = &mut self.connections[at];
        let kind = self.rules.kind(connection.pair.transport);
        connection.tx.transmit(&kind.params, now, &mut self.out);
        self.queue_segments(now, at);
    }

    /// Sees to it that a connection is looked at when its timer fires.
    pub(super) fn arm<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, at: u32) {
        let connection = &mut self.connections[at];
        let paced = connection.tx.paced_until(io.now);
        let due = [connection.tx.deadline(), paced, connection.syn.and_then(|syn| syn.deadline())];
        let Some(due) = due.into_iter().flatten().min() else { return };
        let due = due.max(io.now);
        if connection.armed.is_none_or(|armed| due < armed) {
            connection.armed = Some(due);
            let set_at = if connection.syn.is_some() { io.now } else { connection.tx.set_at() };
            io.events.timer(due, Timer::Connection(Reverse(set_at), at));
        }
    }

    /// A connection's event has come; the NIC that has something to send, if it still counts.
    pub(super) fn connection_due<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, at: u32) -> Option<u32> {
        let now = io.now;
        let connection = &mut self.connections[at];
        if connection.armed != Some(now) {
            return None;
        }
        connection.armed = None;
        if let Some(syn) = &mut connection.syn {
            if syn.on_timer(now) {
                return Some(self.send_opening(io, at));
            }
            self.arm(io, at);
            return None;
        }
        let (kind, nic) = (self.rules.kind(connection.pair.transport), connection.nic);
        connection.tx.on_timer(&kind.params, now, &mut self.out);
        if connection.tx.pace_ends(now) {
            connection.tx.transmit(&kind.params, now, &mut self.out);
        }
        self.queue_segments(now, at);
        self.arm(io, at);
        Some(nic)
    }

    /// An acknowledgement has come.
    pub(super) fn reply_came<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>) -> Outcome {
        let at = packet.flow & !TCP;
        let near = self.connections[at].tx.una();
        let reply = Reply {
            ack: unwrap(near, packet.seq),
            window: packet.paused,
            blocks: packet.header.options().map(|block| unwrap_block(near, block)),
            ece: packet.flags() & MARKED != 0,
            echo_ms: packet.owd_ns as u32,
            with_data: false,
        };
        self.replied(io, at, packet, &reply)
    }

    /// An acknowledgement of connection `at` has come in a packet of its own, or with data.
    pub(super) fn replied<F: Feedback<Header = H>>(
        &mut self,
        io: &mut Io<'_, F>,
        at: u32,
        packet: &Packet<H>,
        reply: &Reply,
    ) -> Outcome {
        let connection = &mut self.connections[at];
        connection.answer_ms = Tx::stamp_ms(unwrap_ns(io.now / NS, packet.sent_ns) * NS);
        let rtt_us = connection.tx.on_reply(&self.rules.kind(connection.pair.transport).params, io.now, reply);
        if let Some(next) = &mut io.meter.next {
            next.acked_to(at | TCP, reply.ack, io.now);
        }
        if let (Some(rtt_us), Some(flow)) = (rtt_us, connection.flow) {
            io.meter.rtt(self.flows[flow].new.flow.traffic, u64::from(rtt_us) * US);
        }
        self.fill(io.now, at);
        let note = self.look_whether_done(io.now, at);
        self.arm(io, at);
        (Some(self.connections[at].nic), note)
    }

    /// If all of a connection's flow is acknowledged, it is over and the connection idle: what its other end
    /// is to be told.
    pub(super) fn look_whether_done(&mut self, now: Ps, at: u32) -> Option<(u32, Note)> {
        let connection = &mut self.connections[at];
        let slot = connection.flow.filter(|_| connection.syn.is_none() && connection.tx.idle())?;
        connection.flow = None;
        let (pair, peer, end) = (connection.pair, connection.peer, self.flows[slot].end);
        let record = self.record(now, at, slot);
        self.flows[slot].done = true;
        self.flows.remove(slot);
        self.pools.get_mut(&pair).expect("it has a pool").idle.push(at);
        if let Some(gates) = &mut self.gates {
            gates.paused += record.paused_ps;
        }
        Some((pair.dst, Note::Acknowledged(peer, end, record)))
    }

    /// An OR-ACK has come.
    pub(super) fn delay_told<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>) -> Outcome {
        let (at, now) = (packet.flow & !TCP, io.now);
        let Pair { src, dst, .. } = self.connections[at].pair;
        let margin = if packet.owd_ns == UNMEASURED { None } else { io.clocks.margin(src, dst, now) };
        if let (Some(gates), Some(margin)) = (&mut self.gates, margin) {
            gates.learn(at, now, packet.owd_ns, margin);
            gates.acked(at, now, unwrap_ns(now / NS, packet.sent_ns), packet.paused, packet.owd_ns);
        }
        (None, None)
    }

    /// Connections with a flow, and these flows.
    fn busy(&self) -> impl Iterator<Item = (u32, u32)> {
        let all = (0..).zip(self.connections.slots());
        all.filter_map(|(at, connection)| Some((at, connection.flow?)))
    }

    /// Flows that have arrived and are not done.
    pub(in crate::host) fn alive(&self, now: Ps) -> impl Iterator<Item = FlowRecord> {
        self.busy().map(move |(at, slot)| self.record(now, at, slot))
    }

    /// Time that these, and programs' connections, have been paused.
    pub(in crate::host) fn paused_alive(&self, now: Ps) -> Ps {
        let flows = self.busy().map(|(at, slot)| self.paused(at, now) - self.flows[slot].paused);
        let all = (0..).zip(self.connections.slots());
        let programs = all.filter(|(_, connection)| connection.writer != Writer::Flows);
        flows.chain(programs.map(|(at, _)| self.paused(at, now))).sum()
    }

    /// Tells, of each connection with something to send, its hosts, and whether On-Ramp's gate is closed.
    pub(in crate::host) fn gated(&self, now: Ps, tell: &mut dyn FnMut(u32, u32, bool)) {
        let all = (0..).zip(self.connections.slots());
        for (at, connection) in all.filter(|(_, c)| c.flow.is_some() || c.writer != Writer::Flows) {
            let held = self.gates.as_ref().is_some_and(|gates| gates.release(at) > now);
            tell(connection.pair.src, connection.pair.dst, held);
        }
    }

    /// Time that a connection has been paused.
    fn paused(&self, at: u32, now: Ps) -> Ps {
        self.gates.as_ref().map_or(0, |gates| gates.paused_total(at, now))
    }

    /// Bytes of a long flow that are acknowledged, and its window in packets; `None` if it is over.
    pub fn progress(&self, slot: u32, id: u64) -> Option<(u64, u32)> {
        let flow = Some(&self.flows[slot & !TCP]).filter(|flow| flow.is(id))?;
        let Some(at) = flow.connection else { return Some((0, 0)) };
        let tx = &self.connections[at].tx;
        Some((tx.una() - flow.first, tx.cwnd()))
    }

    /// Record of the flow on a connection as it stands now.
    fn record(&self, now: Ps, at: u32, slot: u32) -> FlowRecord {
        let (flow, connection) = (&self.flows[slot], &self.connections[at]);
        let (resent, timeouts) = connection.resent();
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
            ideal_ps: ideal(&self.topology, new.src, new.dst, bytes),
            retransmitted: resent - flow.resent,
            timeouts: timeouts - flow.timeouts,
            paused_ps: self.paused(at, now) - flow.paused,
        }
    }
}
