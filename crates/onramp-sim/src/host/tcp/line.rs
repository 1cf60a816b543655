//! Layer below TCP at a class of a NIC: the host's queue, and the packets of the segments that leave it, one by one.

use super::sender::Connection;
use super::{Hosting, Rules, UNKNOWN, unwrap, unwrap_block};
use crate::engine::Slab;
use crate::host::Io;
use crate::host::gate::Gates;
use crate::host::qdisc::gate::Gate;
use crate::host::qdisc::{Ask, Dequeue, Dropped, Ecn, Qdisc, Segment as Queued, Verdict};
use crate::network::Packet;
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::{AMBIGUOUS, LAST, MARKED, Options, TCP};
use crate::stack::tcp::tx::Segment;
use crate::stack::tcp::{HEADERS, Reply, Tx};
use onramp_config::units::{NS, Ps, US};

/// A path's delay counts for so long, and a flow that paused for longer starts anew.
const IDLE: Ps = 1000 * US;
/// Most bytes beyond a packet that it announces to the application at the other end: what 32 bits tell apart.
const ANNOUNCED: u64 = 1 << 30;

/// Flow of a connection's acknowledgements in the host's queue, unless data goes the same way.
pub(super) fn replies_of(id: u64) -> u64 {
    !id
}

/// Flow of a connection's openings and of what the agent says of it.
pub(super) fn agents_of(id: u64) -> u64 {
    !id ^ 1
}

/// Entry of a queue.
#[derive(Clone, Copy, Debug)]
pub(super) enum Waiting<H> {
    /// A segment of the connection in this slot.
    Data(u32, Segment, Option<Taken>),
    Packet(Packet<H>),
}

/// Acknowledgement of the other direction that data take along: what its packet's options have room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Taken {
    ack: u32,
    /// Room, [`Self::THERE`] and [`Self::ECE`].
    window: u32,
    /// The newest block beyond, or the one that came twice.
    block: (u32, u32),
}

impl Taken {
    /// There is one.
    const THERE: u32 = 1 << 31;
    /// Congestion was marked.
    const ECE: u32 = 1 << 30;

    fn new(reply: &Reply) -> Self {
        let ece = if reply.ece { Self::ECE } else { 0 };
        let (start, end) = reply.blocks[0];
        Self {
            ack: reply.ack as u32,
            window: reply.window.min(Self::ECE - 1) | ece | Self::THERE,
            block: (start as u32, end as u32),
        }
    }

    /// The one in a data packet's options.
    pub fn of([_, (ack, window), block]: Options) -> Option<Self> {
        (window & Self::THERE != 0).then_some(Self { ack, window, block })
    }

    /// The acknowledgement, where that of a byte `near` came before.
    pub fn reply(self, near: u64, echo_ms: u32) -> Reply {
        Reply {
            ack: unwrap(near, self.ack),
            window: self.window & !(Self::THERE | Self::ECE),
            blocks: [unwrap_block(near, self.block), (0, 0), (0, 0)],
            ece: self.window & Self::ECE != 0,
            echo_ms,
            with_data: true,
        }
    }
}

/// A segment that leaves, from byte `next` on.
#[derive(Clone, Copy, Debug)]
struct Leaving {
    connection: u32,
    segment: Segment,
    next: u64,
    marked: bool,
    taken: Option<Taken>,
}

/// Segment or packet that a line sends next.
enum Next<H> {
    Segment(Leaving),
    Packet(Packet<H>),
}

/// Layer below TCP at a class of a NIC.
#[derive(Debug)]
pub(super) struct Device {
    queue: Box<dyn Qdisc + Send + Sync>,
    /// A segment that leaves packet by packet.
    leaving: Option<Leaving>,
    /// Memory to be given back to a connection when the packet is out, and the byte up to which it has left.
    sent: Option<(u32, u32, u64)>,
}

impl Device {
    /// Of a host with On-Ramp, or without.
    pub(super) fn new(rules: &Rules, gated: bool) -> Self {
        let queue: Box<dyn Qdisc + Send + Sync> =
            if gated { Box::new(Gate::default()) } else { rules.qdisc.build(rules.mtu, rules.seed) };
        Self { queue, leaving: None, sent: None }
    }
}

impl<H: Header> Hosting<H> {
    fn line(&self, nic: u32, class: u8) -> usize {
        nic as usize * self.classes + usize::from(class)
    }

    /// Puts into the queue what a connection has handed down.
    pub(super) fn queue_segments(&mut self, now: Ps, at: u32) {
        let Connection { id, pair, nic, other_way, .. } = self.connections[at];
        let kind = self.rules.kind(pair.transport);
        let (mss, ecn) = (kind.params.mss, if kind.marks { Ecn::Capable } else { Ecn::Incapable });
        let line = self.line(nic, pair.class);
        let mut out = std::mem::take(&mut self.out);
        let taken = (other_way != UNKNOWN && !out.is_empty())
            .then(|| Taken::new(&self.ends[other_way].rx.data_leaves(&kind.params, now)));
        for segment in out.drain(..) {
            let handle = self.waiting.insert(Waiting::Data(at, segment, taken));
            self.enqueue(line, Queued { ecn, ..queued(id, &segment, mss, handle) }, now);
        }
        self.out = out;
    }

    /// Queues an acknowledgement, an opening, or what is of the agent, with others of its `flow`.
    pub(super) fn queue_packet(&mut self, now: Ps, nic: u32, flow: u64, pure_ack: bool, packet: Packet<H>) {
        let handle = self.waiting.insert(Waiting::Packet(packet));
        let queued = Queued {
            flow,
            bytes: u32::from(packet.size),
            packets: 1,
            earliest: 0,
            pure_ack,
            ecn: Ecn::default(),
            handle,
        };
        self.enqueue(self.line(nic, packet.class()), queued, now);
    }

    /// Hands a segment to a line's queue, which may drop others for it.
    fn enqueue(&mut self, line: usize, queued: Queued, now: Ps) {
        if let Err(dropped) = self.devices[line].queue.enqueue(queued, now) {
            if let Waiting::Data(at, ..) = self.waiting[queued.handle] {
                self.connections[at].tx.slow_down(now);
            }
            if dropped == Dropped::Refused {
                self.dropped.push(queued);
            }
        }
        self.forget_dropped(line);
    }

    /// Gives back the memory of segments that a line's queue has dropped; TCP finds out as of any loss.
    fn forget_dropped(&mut self, line: usize) {
        self.devices[line].queue.drain(&mut self.dropped);
        for queued in self.dropped.drain(..) {
            if let Waiting::Data(at, segment, _) = self.waiting[queued.handle] {
                self.connections[at].tx.released(segment.memory(), segment.end);
            }
            self.waiting.remove(queued.handle);
        }
    }

    /// A NIC's line asks for a packet for its port: its size if one leaves, else when to ask again.
    pub(in crate::host) fn sends<F: Feedback<Header = H>>(
        &mut self,
        io: &mut Io<'_, F>,
        nic: u32,
        port: u32,
        class: u8,
    ) -> Result<u16, Ps> {
        let line = self.line(nic, class);
        if let Some((at, bytes, end)) = self.devices[line].sent.take()
            && self.connections[at].tx.released(bytes, end)
        {
            self.fill(io.now, at);
            self.arm(io, at);
        }
        let (of, packet) = match self.next(line, io.now)? {
            Next::Segment(leaving) => (Some(leaving.connection), self.next_packet(line, io.now, leaving)),
            Next::Packet(packet) => (None, packet),
        };
        if self.tap.is_some() {
            self.trace_leaving(io.now, nic, of, &packet);
        }
        if let (Some(next), Some(at)) = (&mut io.meter.next, of) {
            let ends = [self.connections[at].pair.src, packet.dst()];
            next.leaves(at | TCP, packet.identity(), ends, io.now);
        }
        io.network.start(io.events, io.now, port, packet);
        Ok(packet.size)
    }

    /// Takes the next segment or packet of a line, or says when to ask again.
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
            Waiting::Data(connection, segment, taken) => {
                let (next, marked) = (segment.start, queued.ecn == Ecn::Marked);
                Next::Segment(Leaving { connection, segment, next, marked, taken })
            }
        })
    }

    /// The next packet of a segment that leaves.
    fn next_packet(&mut self, line: usize, now: Ps, leaving: Leaving) -> Packet<H> {
        let Leaving { connection: at, segment, next: start, marked, taken } = leaving;
        let device = &mut self.devices[line];
        let connection = &mut self.connections[at];
        let kind = self.rules.kind(connection.pair.transport);
        let mss = u64::from(kind.params.mss);
        let end = segment.end.min(start + mss);
        let last = end == segment.end;
        if !last {
            device.leaving = Some(Leaving { next: end, ..leaving });
        }
        let several = segment.end - segment.start > mss;
        if several && start == segment.start {
            connection.tx.was_cut((segment.end - start).div_ceil(mss));
        }
        device.sent = Some((at, Segment { start, end, ..segment }.memory(), end));
        connection.last_sent = now;
        let flags = if last && segment.push { LAST } else { 0 }
            | if segment.is_ambiguous(last) { AMBIGUOUS } else { 0 }
            | if marked { MARKED } else { 0 };
        let expected = connection.flow.map_or(segment.end, |flow| self.flows[flow].end).min(end + ANNOUNCED);
        let mut packet = Packet::<H> {
            sent_ns: (now / NS) as u32,
            flow: connection.peer | TCP,
            seq: start as u32,
            paused: self.gates.as_mut().map_or(0, |gates| gates.stamp(at, now)),
            owd_ns: Tx::stamp_ms(now) as i32,
            size: Tx::wire(end - start),
            hash: connection.hash,
            ..Packet::default()
        };
        let Taken { ack, window, block } = taken.unwrap_or_default();
        packet.header.set_options([(expected as u32, connection.answer_ms), (ack, window), block]);
        packet.to(connection.pair.dst).marked(flags, connection.pair.class)
    }
}

/// A segment as the queue sees it.
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

/// Answers to a queue about its segments.
struct Asked<'a, H> {
    rules: &'a Rules,
    connections: &'a mut Slab<Connection>,
    waiting: &'a mut Slab<Waiting<H>>,
    gates: &'a mut Option<Gates>,
    now: Ps,
}

impl<H> Ask for Asked<'_, H> {
    fn ask(&mut self, handle: u32) -> Verdict {
        let (Waiting::Data(at, segment, _), Some(gates)) = (&self.waiting[handle], &mut self.gates) else {
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
        let Waiting::Data(at, segment, taken) = self.waiting[handle] else { return vec![] };
        let connection = &mut self.connections[at];
        let kind = self.rules.kind(connection.pair.transport);
        let mss = u64::from(kind.params.mss);
        self.waiting.remove(handle);
        connection.tx.was_cut((segment.end - segment.start).div_ceil(mss));
        let mut parts = Vec::new();
        let mut start = segment.start;
        while start < segment.end {
            let end = segment.end.min(start + mss);
            let part = Segment { start, end, push: segment.push && end == segment.end, ..segment };
            let handle = self.waiting.insert(Waiting::Data(at, part, taken));
            parts.push(queued(connection.id, &part, kind.params.mss, handle));
            start = end;
        }
        parts
    }

    fn pacing_rate(&self, handle: u32) -> u64 {
        match self.waiting[handle] {
            Waiting::Data(at, ..) => self.connections[at].tx.window.pacing_rate,
            Waiting::Packet(_) => 0,
        }
    }

    fn kept(&self, handle: u32) -> u64 {
        match self.waiting[handle] {
            Waiting::Data(at, ..) => self.connections[at].tx.kept(),
            Waiting::Packet(_) => 0,
        }
    }
}
