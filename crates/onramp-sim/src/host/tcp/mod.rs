//! TCP on the hosts of a cell: connections that are opened before the load or with a handshake, used again
//! by flow after flow, and what is queued below them.

mod channel;
mod handshake;
mod line;
mod receiver;
mod sender;
mod trace;

use super::gate::{GateRules, Gates};
use super::qdisc::{HostQdisc, Segment as Queued};
use super::{Counts, Hosts, Io, Note};
use crate::cc::tcp::any::Config;
use crate::engine::{Slab, prefetch};
use crate::measure::trace::Tap;
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::TCP;
use crate::network::{Kind as Of, Packet};
use crate::stack::tcp::tx::Segment;
use crate::stack::tcp::{HEADERS, Opened, Params, Tx};
pub use channel::Direction;
use line::{Device, Waiting};
use onramp_config::units::Ps;
use onramp_records::FlowRecord;
use onramp_topology::Topology;
use receiver::End;
use sender::{Connection, Flow, Pool};
use std::collections::HashMap;
use std::sync::Arc;

/// The slot of who does not know it yet.
const UNKNOWN: u32 = TCP - 1;

/// Settings that the connections of a transport have in common.
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
    pub qdisc: HostQdisc,
    /// but of those with On-Ramp, by number.
    pub gated: Vec<bool>,
    /// Bytes of a full packet with its Ethernet header.
    pub mtu: u32,
    /// OR-ACKs of the data path, where there is On-Ramp.
    pub or_acks: OrAcks,
    /// For what is drawn.
    pub seed: u64,
}

impl Rules {
    fn kind(&self, transport: u8) -> &Kind {
        self.kinds[usize::from(transport)].as_ref().expect("the transport is TCP")
    }

    /// The usual sizes of packets, largest first; `None` if some transport is not TCP.
    pub fn sizes(&self) -> Option<Vec<u16>> {
        let all: Option<Vec<&Kind>> = self.kinds.iter().map(Option::as_ref).collect();
        let mss = all?.first()?.params.mss;
        let mut sizes = vec![Tx::wire(mss.into()), ack_bytes(2), ack_bytes(1), ack_bytes(0)];
        sizes.dedup();
        Some(sizes)
    }

    /// True if a host's queue waits for packets' departure times.
    fn paces(&self, host: u32) -> bool {
        self.qdisc == HostQdisc::Fq && !self.gated[host as usize]
    }

    /// The sending half of connection `id`, which has opened now.
    fn tx(&self, id: u64, pair: Pair, opened: Opened, now: Ps) -> Tx {
        let kind = self.kind(pair.transport);
        let draw = self.seed ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Tx::new(&kind.params, &kind.cc, self.paces(pair.src), opened, now, draw)
    }

    /// Hashes that ECMP chooses by, for a connection's data and for its replies.
    fn hashes(&self, id: u64) -> [u16; 2] {
        let mut draw = onramp_random::stream(self.seed, "connection", id);
        [0, 0].map(|_| onramp_random::below(&mut draw, 1 << 16) as u16)
    }

    /// A connection's initial sequence number, of which only OR-ACKs' intervals make use.
    fn initial_number(&self, id: u64) -> u32 {
        onramp_random::below(&mut onramp_random::stream(self.seed, "initial sequence number", id), u32::MAX)
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

impl Pair {
    /// The number of its connection `number` in the whole run.
    fn id(self, number: u64) -> u64 {
        let kinds = u64::from(self.transport) << 3 | u64::from(self.class);
        (u64::from(self.src) << 21 | u64::from(self.dst)) << 22 | kinds << 14 | number
    }
}

/// See the module.
#[derive(Debug)]
pub struct Hosting<H> {
    rules: Rules,
    topology: Arc<Topology>,
    /// Classes, the control class included.
    classes: usize,
    connections: Slab<Connection>,
    ends: Slab<End>,
    flows: Slab<Flow>,
    pools: HashMap<Pair, Pool>,
    /// Ends that were opened with a handshake, by the sending host and the connection's slot there.
    late_ends: HashMap<(u32, u32), u32>,
    /// Of NIC n and class c: `n * classes + c`.
    devices: Vec<Device>,
    waiting: Slab<Waiting<H>>,
    gates: Option<Gates>,
    /// Segments that TCP has just handed down, and what queues have just dropped.
    out: Vec<Segment>,
    dropped: Vec<Queued>,
    /// Connections that were opened with a handshake.
    opened_late: u64,
    /// Packets for captures, if flows are traced; and whose the NICs are.
    tap: Option<Box<Tap<H>>>,
    owners: Vec<u32>,
}

impl<H: Header> Hosting<H> {
    /// Of NICs that belong to these `hosts`.
    pub(super) fn new(
        rules: &Rules,
        topology: &Arc<Topology>,
        gate: Option<&GateRules>,
        hosts: &[u32],
        classes: usize,
    ) -> Self {
        let lines = hosts.iter().flat_map(|&host| std::iter::repeat_n(rules.gated[host as usize], classes));
        Self {
            rules: rules.clone(),
            topology: Arc::clone(topology),
            classes,
            connections: Slab::default(),
            ends: Slab::default(),
            flows: Slab::default(),
            pools: HashMap::new(),
            late_ends: HashMap::new(),
            devices: lines.map(|gated| Device::new(rules, gated)).collect(),
            waiting: Slab::default(),
            gates: gate.map(Gates::new),
            out: Vec::new(),
            dropped: Vec::new(),
            opened_late: 0,
            tap: None,
            owners: hosts.to_vec(),
        }
    }

    /// Counts of all connections so far: each counts for itself.
    pub(super) fn counts(&self) -> Counts {
        let connections = self.connections.slots();
        let opened_before = connections.len() as u64 - self.opened_late;
        let mut all = Counts { opened_before, opened_late: self.opened_late, ..Counts::default() };
        for connection in connections {
            let (resent, timeouts) = connection.resent();
            all.retransmitted += u64::from(resent);
            all.timeouts += u64::from(timeouts);
            all.acked += connection.tx.una();
        }
        all
    }

    /// Fetches the end of a connection to which a packet will come soon.
    #[inline]
    pub(super) fn prefetch(&self, packet: &Packet<H>) {
        let slot = (packet.flow & !TCP) as usize;
        if packet.kind() == Of::DATA {
            prefetch(self.ends.slots(), slot);
        } else {
            prefetch(self.connections.slots(), slot);
        }
    }

    /// On-Ramp's gates.
    pub fn gates(&self) -> Option<&Gates> {
        self.gates.as_ref()
    }
}

/// Result of a packet: a NIC that may have something to send, and a message to a host.
type Outcome = (Option<u32>, Option<(u32, Note)>);

/// Bytes of an acknowledgement that tells of so many blocks.
fn ack_bytes(blocks: u16) -> u16 {
    HEADERS as u16 + if blocks > 0 { 4 + 8 * blocks } else { 0 }
}

/// The 64-bit number with these low 32 bits that is nearest to `near`.
fn unwrap(near: u64, low: u32) -> u64 {
    near.wrapping_add_signed(i64::from(low.wrapping_sub(near as u32) as i32))
}

/// The same of a block's ends; an empty one is none.
fn unwrap_block(near: u64, (start, end): (u32, u32)) -> (u64, u64) {
    if start == end { (0, 0) } else { (unwrap(near, start), unwrap(near, end)) }
}

impl<H: Header> Hosts<H> {
    /// TCP, where some transport is.
    ///
    /// # Panics
    /// None is.
    pub fn tcp(&mut self) -> &mut Hosting<H> {
        self.tcp.as_mut().expect("there is TCP")
    }

    /// A flow on TCP begins.
    pub(super) fn start_flow<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, slot: u32) {
        let nic = self.tcp().start_flow(io, slot);
        self.nic_send(io, nic);
    }

    /// A long one stops: what its socket has is sent.
    pub(super) fn stop_flow(&mut self, id: u64, slot: u32) {
        self.tcp().stop_flow(id, slot);
    }

    /// A connection's event has come.
    pub fn connection_due<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, at: u32) {
        if let Some(nic) = self.tcp().connection_due(io, at) {
            self.nic_send(io, nic);
        }
    }

    /// A receiving end's event has come.
    pub fn end_due<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, slot: u32) {
        if let Some(nic) = self.tcp().end_due(io, slot) {
            self.nic_send(io, nic);
        }
    }

    /// A packet of a connection has come in by `nic`.
    pub(super) fn tcp_receive<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, packet: &Packet<H>, nic: u32) {
        let tcp = self.tcp();
        if tcp.tap.is_some() {
            tcp.trace_coming(io.now, packet);
        }
        let (nic, note) = match packet.kind() {
            Of::DATA => {
                let (nic, read) = tcp.data_came(io, packet);
                if let Some((heard, read)) = read {
                    self.messages_came(io, &heard, read, Some(nic));
                }
                (Some(nic), None)
            }
            Of::ACK => tcp.reply_came(io, packet),
            Of::OR_ACK => tcp.delay_told(io, packet),
            _ => tcp.opening_came(io, packet, nic),
        };
        self.notes.extend(note);
        if let Some(nic) = nic {
            self.nic_send(io, nic);
        }
    }

    /// A flow of a connection to the end in `slot` is acknowledged up to byte `last`.
    pub(super) fn acknowledged_to(&mut self, slot: u32, last: u64, record: FlowRecord) {
        let done = self.tcp().acknowledged_to(slot, last, record);
        self.done.push(done);
    }

    /// Bytes of a long flow that are acknowledged, and its window in packets; `None` if it is over.
    pub fn tcp_progress(&self, slot: u32, id: u64) -> Option<(u64, u32)> {
        self.tcp.as_ref()?.progress(slot, id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stack::tcp::scoreboard::Chunk;

    /// Memory bounds: runs have many connections, with a few packets each at a time.
    #[test]
    fn a_connection_takes_little_memory() {
        let [connection, end, flow] = [size_of::<Connection>(), size_of::<End>(), size_of::<Flow>()];
        assert!(connection <= 896 && end <= 456 && flow <= 160, "{connection}, {end}, {flow}");
        // A segment that is not acknowledged is a cache line.
        assert_eq!(size_of::<Chunk>(), 64);
    }
}
