//! The receiving end of a connection: data, what is said of it, and OR-ACKs.

use super::channel::Reads;
use super::line::{Taken, agents_of, replies_of};
use super::{Hosting, OrAcks, Pair, Rules, UNKNOWN, ack_bytes, unwrap};
use crate::host::programs::Heard;
use crate::host::receive::OR_ACK_BYTES;
use crate::host::{Io, Timer};
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::{AMBIGUOUS, LAST, MARKED, Options, TCP, UNMEASURED};
use crate::network::{Kind as Of, Packet};
use crate::stack::tcp::rx::{Data, Said};
use crate::stack::tcp::{Answer, HEADERS, Rx};
use onramp_config::units::{NS, Ps};
use onramp_records::FlowRecord;
use std::collections::VecDeque;

/// The receiving end of a connection.
#[derive(Debug)]
pub(super) struct End {
    pub rx: Rx,
    pub id: u64,
    pub pair: Pair,
    /// Slot of the other end.
    pub peer: u32,
    /// Slot of the other direction's sending end; [`UNKNOWN`] if there is none.
    pub other_way: u32,
    pub hash: u16,
    /// The number of its connection's first byte.
    initial: u32,
    pub nic: u32,
    watch_owd: Option<u32>,
    /// Time of the next valid event.
    armed: Option<Ps>,
    /// When the last OR-ACK was sent.
    told_at: Option<Ps>,
    /// Last bytes of flows, and when the application had them.
    complete: VecDeque<(u64, Ps)>,
    /// State of reading, if messages are read.
    pub reads: Option<Box<Reads>>,
    /// The answer to its opening, until that is acknowledged, and the time stamp that it echoes.
    pub answer: Option<Box<(Answer, u32)>>,
}

impl End {
    /// Of connection `id`, which has opened after a round trip of `rtt_us`.
    pub(super) fn new(rules: &Rules, id: u64, pair: Pair, rtt_us: u32, nic: u32) -> Self {
        let kind = rules.kind(pair.transport);
        Self {
            rx: Rx::new(&kind.params, rtt_us, kind.marks),
            id,
            pair,
            peer: UNKNOWN,
            other_way: UNKNOWN,
            hash: rules.hashes(id)[1],
            initial: rules.initial_number(id),
            nic,
            watch_owd: None,
            armed: None,
            told_at: None,
            complete: VecDeque::new(),
            reads: None,
            answer: None,
        }
    }
}

impl<H: Header> Hosting<H> {
    /// The receiving end of a pair's connection `number`, opened before the load.
    pub fn open_end(&mut self, pair: Pair, number: u64, nic: u32, watch_owd: Option<u32>) -> u32 {
        let end = End::new(&self.rules, pair.id(number), pair, self.handshake_us(pair), nic);
        self.ends.insert(End { watch_owd, ..end })
    }

    /// Tells a receiving end the slot of its sending end.
    pub fn introduce(&mut self, end: u32, connection: u32) {
        self.ends[end].peer = connection;
    }

    /// Data has come in; the NIC that has something to say of it, and how far which program has read.
    pub(super) fn data_came<F: Feedback<Header = H>>(
        &mut self,
        io: &mut Io<'_, F>,
        packet: &Packet<H>,
    ) -> (u32, Option<(Heard, u64)>) {
        let (now, slot) = (io.now, packet.flow & !TCP);
        if let Some(taken) = Taken::of(packet.header.options()) {
            let at = self.ends[slot].other_way;
            let reply = taken.reply(self.connections[at].tx.una(), packet.header.options()[0].1);
            self.replied(io, at, packet, &reply);
        }
        let end = &mut self.ends[slot];
        end.answer = None;
        let start = unwrap(end.rx.nxt(), packet.seq);
        let [(expected, echo_ms), ..] = packet.header.options();
        let data = Data {
            start,
            end: start + u64::from(packet.size) - u64::from(HEADERS),
            push: packet.flags() & LAST != 0,
            marked: packet.flags() & MARKED != 0,
            stamp_ms: packet.owd_ns as u32,
            echo_ms,
            expected: end.reads.as_ref().map_or_else(|| unwrap(end.rx.nxt(), expected), |reads| reads.expected()),
        };
        let owd_ns = io.measure_owd(packet, end.pair.src, end.watch_owd);
        if let Some(next) = &mut io.meter.next {
            next.arrives(packet.identity(), packet.dst(), now);
            next.came(end.peer | TCP, data.end, owd_ns, packet.sent_ns);
        }
        let OrAcks { shift, gap, .. } = self.rules.or_acks;
        let [first, last] = [data.start, data.end - 1].map(|byte| byte + u64::from(end.initial));
        let chosen = data.push || last >> shift << shift >= first;
        let both = self.rules.gated[end.pair.src as usize] && self.rules.gated[packet.dst() as usize];
        if both && chosen && end.told_at.is_none_or(|at| now - at >= gap) {
            end.told_at = Some(now);
            let owd_ns = if packet.flags() & AMBIGUOUS == 0 { owd_ns } else { UNMEASURED };
            let told = Packet { owd_ns, flow: end.peer | TCP, hash: end.hash, size: OR_ACK_BYTES, ..*packet };
            let told = told.to(end.pair.src).marked(0, end.pair.class).as_a(Of::OR_ACK);
            let (nic, id) = (end.nic, end.id);
            self.queue_packet(now, nic, agents_of(id), false, told);
        }
        let end = &mut self.ends[slot];
        let said = end.rx.on_data(&self.rules.kind(end.pair.transport).params, now, &data);
        if said.complete && end.reads.is_none() {
            end.complete.push_back((data.expected, now));
        }
        let nic = self.say(io, slot, &said);
        let end = &self.ends[slot];
        (nic, end.reads.as_ref().map(|reads| (reads.heard.clone(), end.rx.read())))
    }

    /// Queues what a receiving end has to say; its NIC.
    fn say<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, slot: u32, said: &Said) -> u32 {
        for reply in said.replies() {
            let end = &self.ends[slot];
            let mut options = Options::default();
            for (low, block) in options.iter_mut().zip(reply.blocks) {
                *low = (block.0 as u32, block.1 as u32);
            }
            let blocks = reply.blocks.iter().filter(|block| block.1 > block.0).count() as u16;
            let mut ack = Packet::<H> {
                sent_ns: (io.now / NS) as u32,
                flow: end.peer | TCP,
                seq: reply.ack as u32,
                paused: reply.window,
                owd_ns: reply.echo_ms as i32,
                size: ack_bytes(blocks),
                hash: end.hash,
                ..Packet::default()
            };
            ack.header.set_options(options);
            let flags = if reply.ece { MARKED } else { 0 };
            let ack = ack.to(end.pair.src).marked(flags, end.pair.class).as_a(Of::ACK);
            let (nic, at) = (end.nic, end.other_way);
            let flow = if at == UNKNOWN { replies_of(end.id) } else { self.connections[at].id };
            self.queue_packet(io.now, nic, flow, true, ack);
        }
        self.arm_end(io, slot);
        self.ends[slot].nic
    }

    /// Sees to it that a receiving end is looked at when one of its timers fires.
    pub(super) fn arm_end<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, slot: u32) {
        let end = &mut self.ends[slot];
        let due = [end.rx.deadline(), end.answer.as_ref().and_then(|answer| answer.0.deadline())];
        if let Some(due) = due.into_iter().flatten().min()
            && end.armed.is_none_or(|armed| due < armed)
        {
            end.armed = Some(due);
            io.events.timer(due, Timer::End(end.id, slot));
        }
    }

    /// A receiving end's event has come; the NIC that has something to send, if it still counts.
    pub(super) fn end_due<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, slot: u32) -> Option<u32> {
        let end = &mut self.ends[slot];
        if end.armed != Some(io.now) {
            return None;
        }
        end.armed = None;
        if let Some(answer) = &mut end.answer {
            if answer.0.on_timer(io.now) {
                self.send_answer(io.now, slot);
            }
            self.arm_end(io, slot);
            return Some(self.ends[slot].nic);
        }
        let said = end.rx.on_timer(&self.rules.kind(end.pair.transport).params, io.now);
        Some(self.say(io, slot, &said))
    }

    /// A flow to the end in `slot` is acknowledged up to byte `last`: when its sender found out, and its
    /// record.
    pub(super) fn acknowledged_to(&mut self, slot: u32, last: u64, record: FlowRecord) -> (Ps, FlowRecord) {
        let complete = &mut self.ends[slot].complete;
        let found = record.start_ps + record.fct_ps;
        let mut at = found;
        while let Some((end, when)) = complete.pop_front() {
            if unwrap(last, end as u32) == last {
                at = when;
                break;
            }
        }
        let fct_ps = at - record.start_ps;
        (found, FlowRecord { fct_ps, receiver_fct_ps: fct_ps, ..record })
    }
}
