//! RDMA over Ethernet: numbered packets, made reliable by go-back-N with one timeout, as in the HPCC simulator, by
//! selective repeat ([`selective`]), or as Ultra Ethernet does ([`rud`]).

pub mod go_back_n;
pub mod rud;
pub mod selective;

use super::{Progress, Segment};
use crate::cc::Loss;
use crate::network::Kind;
use crate::network::packet::{ACK_REQUEST, AFTER_TIMEOUT, LAST, MARKED, TRIMMED};
use onramp_config::units::{Ps, SEC};
use onramp_config::{Rule, tagged};
use onramp_workload::state::Encoder;
use rud::Flight;
use selective::{Received, Scoreboard};
use std::num::NonZeroU32;

/// Bytes of a data packet besides payload and the transport's own: Ethernet,
/// IP, UDP, and a sequence number with class (HPCC's simulator).
pub const HEADER: u64 = 48;

tagged! {
    /// Retransmission of what is lost.
    pub enum Recovery {
        /// From the first packet that is missing on.
        GoBackN(go_back_n::Config) = "go-back-n",
        /// Packet by packet.
        SelectiveRepeat(selective::Config) = "selective-repeat",
        /// Packet by packet, on NACKs of trimmed packets or timeouts, whatever order they arrive in.
        Rud(rud::Config) = "rud",
    }
}

impl Default for Recovery {
    fn default() -> Self {
        Self::GoBackN(go_back_n::Config {})
    }
}

impl Recovery {
    /// True for go-back-N, the default.
    pub fn is_go_back_n(&self) -> bool {
        matches!(self, Self::GoBackN(_))
    }

    /// Rules that the types do not keep.
    pub fn check(&self, rule: Rule<'_>) {
        match self {
            Self::GoBackN(_) => {}
            Self::SelectiveRepeat(config) => config.check(rule),
            Self::Rud(config) => config.check(rule),
        }
    }

    /// Values that flows share, with so many packets in flight at most, of `full` bytes on the wire; and their
    /// retransmission timeout, which is `rto` with go-back-N.
    pub fn shared(&self, rto: Ps, nack_interval: Ps, cap: u32, full: u64) -> (Recovered, Ps) {
        match self {
            Self::GoBackN(_) => (Recovered::FromThere { nack_interval }, rto),
            Self::SelectiveRepeat(config) => {
                let selective::Config { rto_low, few, reorder, .. } = *config;
                let params = selective::Params { rto_low: rto_low.0, few, cap, reorder };
                (Recovered::Selectively(params), config.rto_high.0)
            }
            Self::Rud(config) => {
                let ack_every = config.ack_bytes.0.div_ceil(full) as u32;
                (Recovered::Unordered { rto: config.rto.0, ack_every }, config.rto.0)
            }
        }
    }
}

/// Recovery of a transport's flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovered {
    /// Go-back-N: a NACK for the same gap is repeated after this.
    FromThere {
        /// See above [ps].
        nack_interval: Ps,
    },
    /// Selective repeat.
    Selectively(selective::Params),
    /// Reliable unordered delivery: each packet has its retransmission timeout.
    Unordered {
        /// See above [ps].
        rto: Ps,
        /// Packets that are acknowledged together, unless there is reason to do it at once.
        ack_every: u32,
    },
}

/// Sender's record of single packets.
#[derive(Clone, Debug)]
enum Board {
    Selective(Scoreboard),
    Unordered(Flight),
}

/// Sizes and times that flows of one transport share.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Bytes of payload of a full packet.
    pub payload: u64,
    /// Bytes of a data packet besides payload.
    pub header: u64,
    /// Retransmission timeout [ps]; doubles with each in a row.
    pub rto: Ps,
    /// Times that it doubles at most.
    pub rto_doublings: u32,
    /// Their recovery.
    pub recovered: Recovered,
}

impl Shape {
    /// Packets of a message, and the last one's bytes on the wire.
    pub fn packets(&self, bytes: u64) -> (u32, u16) {
        let packets = bytes.div_ceil(self.payload);
        (packets as u32, (bytes - (packets - 1) * self.payload + self.header) as u16)
    }
}

/// Sender. Packets are numbered from 0.
#[derive(Clone, Debug)]
pub struct Tx {
    /// First unacknowledged packet.
    acked: u32,
    /// Next packet to send.
    next: u32,
    /// Number of packets; the largest number for a flow without end.
    packets: u32,
    /// One beyond the last packet ever sent.
    sent: u32,
    /// Bytes on the wire of a full and of the last packet.
    full_size: u16,
    last_size: u16,
    payload: u32,
    /// Other than with go-back-N.
    board: Option<Box<Board>>,
    /// It goes on with messages that are written later, and never ends.
    open: bool,
    /// Timeouts since the last progress.
    backoff: u16,
    rto_doublings: u16,
    rto: Ps,
    /// When it last made progress, or began to have something in flight.
    progress_at: Ps,
    /// The round trip being measured: it ends with an ACK beyond this packet, and
    /// began at this time with this packet acknowledged.
    round_end: u32,
    round_at: Ps,
    round_acked: u32,
}

impl Tx {
    /// A flow of `bytes`, or without end.
    pub fn new(shape: &Shape, bytes: Option<u64>, now: Ps) -> Self {
        let full = shape.payload + shape.header;
        let (packets, last_size) = bytes.map_or((u32::MAX, full as u16), |bytes| shape.packets(bytes));
        Self {
            acked: 0,
            next: 0,
            packets,
            sent: 0,
            full_size: full as u16,
            last_size,
            payload: shape.payload as u32,
            board: match shape.recovered {
                Recovered::Selectively(params) => Some(Box::new(Board::Selective(Scoreboard::new(params)))),
                Recovered::Unordered { .. } => Some(Box::new(Board::Unordered(Flight::default()))),
                Recovered::FromThere { .. } => None,
            },
            open: false,
            backoff: 0,
            rto: shape.rto,
            rto_doublings: shape.rto_doublings as u16,
            progress_at: now,
            round_end: 0,
            round_at: now,
            round_acked: 0,
        }
    }

    /// One that sends messages as they are written, see [`Tx::turn_to`].
    pub fn open(shape: &Shape, now: Ps) -> Self {
        Self { open: true, packets: 0, ..Self::new(shape, None, now) }
    }

    /// True if it sends messages as they are written.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Has an open one send up to the end of a message: one beyond its last packet, and that packet's bytes on the
    /// wire.
    pub fn turn_to(&mut self, (end, last_size): (u32, u16)) {
        (self.packets, self.last_size) = (end, last_size);
    }

    /// True if an open one may go on with another message, having sent `segment`.
    #[inline]
    pub fn turns_after(&self, segment: &Segment) -> bool {
        self.open && (segment.flags & LAST != 0 || self.board.is_some())
    }

    /// The same, having taken a reply; before it `next` was its next packet.
    #[inline]
    pub fn turns_from(&self, next: u32) -> bool {
        self.open && (self.next != next || self.board.is_some())
    }

    /// First packet that is not acknowledged.
    pub fn acked(&self) -> u32 {
        self.acked
    }

    /// The packet that is sent next, if one is: of what is lost, or else a new one.
    pub fn following(&self) -> u32 {
        self.lost().unwrap_or(self.next)
    }

    #[inline]
    fn lost(&self) -> Option<u32> {
        match &**self.board.as_ref()? {
            Board::Selective(board) => board.lost(self.acked),
            Board::Unordered(flight) => flight.lost(),
        }
    }

    #[inline]
    fn flight(&self) -> Option<&Flight> {
        match self.board.as_deref() {
            Some(Board::Unordered(flight)) => Some(flight),
            _ => None,
        }
    }

    /// True if replies name the packet that they answer.
    #[inline]
    pub fn is_unordered(&self) -> bool {
        self.flight().is_some()
    }

    /// Packets before the one that a reply names have arrived, see [`Rx::before`].
    pub fn arrived(&mut self, told: u32, expected: u32, before: u32) {
        let (came, _) = rud::unpack(told, expected);
        if let Some(Board::Unordered(flight)) = self.board.as_deref_mut() {
            flight.arrived(came, before, self.acked);
        }
    }

    /// When the packet was last sent that a reply names, see [`Rx::told`]; `None` if it is acknowledged with all before
    /// it.
    pub fn sent_at(&self, told: u32, expected: u32) -> Option<Ps> {
        let (came, _) = rud::unpack(told, expected);
        self.flight().and_then(|flight| flight.sent_at(came, self.acked))
    }

    /// Next packet to send.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Bytes on the wire of the packet that comes `ahead` packets after the next one; `None` if there is none.
    pub fn size_of(&self, ahead: u32) -> Option<u16> {
        let seq = self.following().saturating_add(ahead);
        (seq < self.packets).then(|| if seq + 1 == self.packets { self.last_size } else { self.full_size })
    }

    /// Bytes on the wire that are to be sent, or once more since they are lost.
    pub fn backlog(&self) -> u64 {
        let new = self.packets.saturating_sub(self.next);
        let lost = self.flight().map_or(0, Flight::lost_packets);
        let short = if new > 0 { self.full_size - self.last_size } else { 0 };
        (u64::from(new) + lost) * u64::from(self.full_size) - u64::from(short)
    }

    /// Bytes of payload sent and not acknowledged, with so many more packets.
    pub fn in_flight_with(&self, ahead: u32) -> u64 {
        self.payload_of(self.flying().saturating_add(ahead))
    }

    /// Packets that are sent and neither acknowledged nor, with reliable unordered delivery, lost.
    #[inline]
    fn flying(&self) -> u32 {
        self.flight().map_or(self.next - self.acked, |flight| flight.flying(self.next))
    }

    fn payload_of(&self, packets: u32) -> u64 {
        u64::from(packets) * u64::from(self.payload)
    }

    /// Takes down its state with nothing in flight; times of what is acknowledged mean nothing any more.
    pub fn encode(&self, state: &mut Encoder) {
        let Self {
            acked,
            next,
            packets,
            sent,
            full_size: _,
            last_size: _,
            payload: _,
            board,
            open: _,
            backoff,
            rto_doublings: _,
            rto: _,
            progress_at: _,
            // Controllers of libraries alone are told rates of delivery, and they cannot be taken down.
            round_end: _,
            round_at: _,
            round_acked: _,
        } = self;
        match board.as_deref() {
            None => {}
            Some(Board::Selective(_)) => {
                state.refuse("timeouts of selective repeat are looked at some time after they are due");
            }
            Some(Board::Unordered(flight)) => flight.encode(state),
        }
        if next != acked || packets > next {
            state.busy();
        }
        state.word(sent - acked);
        state.word(*backoff);
    }

    /// Bytes of payload before a packet; of an open flow as if all its packets were full.
    fn bytes_before(&self, packet: u32) -> u64 {
        let short = if packet == self.packets && !self.open { self.full_size - self.last_size } else { 0 };
        self.payload_of(packet) - u64::from(short)
    }

    #[cold]
    fn send_lost(&mut self, seq: u32, now: Ps) -> Segment {
        let mut last = seq + 1 == self.packets;
        let mut size = if last { self.last_size } else { self.full_size };
        match self.board.as_deref_mut() {
            Some(Board::Selective(board)) => board.retransmitted(seq),
            Some(Board::Unordered(flight)) => (size, last) = flight.retransmit(seq, self.acked, now),
            None => {}
        }
        let request = if self.is_unordered() { ACK_REQUEST } else { 0 };
        Segment { seq, size, flags: if last { LAST } else { 0 } | request, again: true }
    }

    #[inline(never)]
    fn on_reply_unordered(&mut self, kind: Kind, seq: u32, told: u32, now: Ps) -> Progress {
        let acked = self.acked;
        let Some(Board::Unordered(flight)) = self.board.as_deref_mut() else { return Progress::default() };
        let (came, in_all) = rud::unpack(told, seq);
        if kind == Kind::NACK {
            let loss = flight.lose(came, acked).then_some(Loss::Fast);
            return Progress { loss, ..Progress::default() };
        }
        let news = flight.acknowledged(came, acked, seq, in_all);
        self.acked = acked.max(seq);
        // The last packet is the last that is news.
        let short = if news > 0 && in_all == self.packets && !self.open { self.full_size - self.last_size } else { 0 };
        Progress {
            newly_acked: self.payload_of(news) - u64::from(short),
            loss: None,
            delivery_rate: self.delivery_rate(now),
        }
    }

    fn delivery_rate(&mut self, now: Ps) -> Option<f64> {
        if self.acked <= self.round_end {
            return None;
        }
        let (bytes, time) = (self.payload_of(self.acked - self.round_acked), now - self.round_at);
        let first = self.round_end == 0;
        (self.round_end, self.round_at, self.round_acked) = (self.next, now, self.acked);
        (!first && time > 0).then(|| bytes as f64 * 8.0 * SEC as f64 / time as f64)
    }
}

impl super::Tx for Tx {
    #[inline]
    fn ready(&self) -> bool {
        match self.board.as_deref() {
            None => self.next < self.packets,
            Some(Board::Selective(board)) => {
                let room = self.next - self.acked < board.params.cap;
                self.next < self.packets && room || board.lost(self.acked).is_some()
            }
            Some(Board::Unordered(flight)) => self.next < self.packets || flight.lost().is_some(),
        }
    }

    #[inline]
    fn in_flight(&self) -> u64 {
        self.payload_of(self.flying())
    }

    #[inline(always)]
    fn send(&mut self, now: Ps) -> Segment {
        if let Some(seq) = self.lost() {
            return self.send_lost(seq, now);
        }
        let seq = self.next;
        if seq == self.acked {
            // Nothing was under way: the timeout counts from here, however long
            // the flow has waited for its turn.
            self.progress_at = now;
        }
        let last = seq + 1 == self.packets;
        self.next += 1;
        let again = seq < self.sent;
        self.sent = self.sent.max(self.next);
        let size = if last { self.last_size } else { self.full_size };
        let mut flags = if last { LAST } else { 0 } | if self.backoff > 0 { AFTER_TIMEOUT } else { 0 };
        if let Some(Board::Unordered(flight)) = self.board.as_deref_mut() {
            // The receiver may be waiting for more packets, which come slowly.
            let late = flight.oldest().is_some_and(|at| now - at > self.rto / 4);
            flags |= if late { ACK_REQUEST } else { 0 };
            flight.send(seq, size, last, now);
        }
        Segment { seq, size, flags, again }
    }

    #[inline(always)]
    fn on_reply(&mut self, kind: Kind, seq: u32, came: u32, now: Ps) -> Progress {
        if self.is_unordered() {
            return self.on_reply_unordered(kind, seq, came, now);
        }
        let mut progress = Progress::default();
        if seq > self.acked {
            progress.newly_acked = self.bytes_before(seq) - self.bytes_before(self.acked);
            if let Some(Board::Selective(board)) = self.board.as_deref_mut() {
                board.acknowledged(self.acked, seq);
            }
            self.acked = seq;
            self.progress_at = now;
            self.backoff = 0;
        }
        self.next = self.next.max(self.acked);
        if kind == Kind::NACK {
            match self.board.as_deref_mut() {
                Some(Board::Selective(board)) => {
                    progress.loss = board.selectively(came, self.acked, self.next).then_some(Loss::Fast);
                }
                _ => {
                    self.next = self.acked;
                    progress.loss = Some(Loss::Fast);
                }
            }
        }
        progress.delivery_rate = self.delivery_rate(now);
        progress
    }

    #[inline]
    fn done(&self) -> bool {
        self.acked >= self.packets && !self.open
    }

    fn deadline(&self) -> Option<Ps> {
        let flying = self.next - self.acked;
        let rto = match self.board.as_deref() {
            Some(Board::Unordered(flight)) => return flight.oldest().map(|at| at + self.rto),
            Some(Board::Selective(board)) if flying <= board.params.few => board.params.rto_low,
            _ => self.rto,
        };
        (flying > 0).then(|| self.progress_at + (rto << self.backoff.min(self.rto_doublings)))
    }

    fn on_timeout(&mut self, now: Ps) {
        match self.board.as_deref_mut() {
            None => self.next = self.acked,
            Some(Board::Selective(board)) => board.recover(self.acked, self.next),
            Some(Board::Unordered(flight)) => return flight.time_out(self.acked),
        }
        self.progress_at = now;
        self.backoff = self.backoff.saturating_add(1);
    }

    fn stop(&mut self) -> u64 {
        self.packets = self.sent;
        self.payload_of(self.sent)
    }
}

/// Receiver.
#[derive(Clone, Debug)]
pub struct Rx {
    /// Next packet in order.
    expected: u32,
    /// The gap last reported, and when.
    nacked: u32,
    nacked_at: Ps,
    nack_interval: Ps,
    payload: u32,
    /// Packets beyond, other than with go-back-N.
    beyond: Option<Box<Received>>,
    /// With reliable unordered delivery: packets that are acknowledged together, and how many are not yet; an
    /// acknowledgement was asked for while packets were missing.
    ack_every: Option<NonZeroU32>,
    unacknowledged: u32,
    asked: bool,
}

impl Rx {
    /// Nothing has come.
    pub fn new(shape: &Shape) -> Self {
        Self {
            expected: 0,
            nacked: u32::MAX,
            nacked_at: 0,
            nack_interval: match shape.recovered {
                Recovered::FromThere { nack_interval } => nack_interval,
                Recovered::Selectively(_) | Recovered::Unordered { .. } => 0,
            },
            payload: shape.payload as u32,
            beyond: (!matches!(shape.recovered, Recovered::FromThere { .. })).then(Box::default),
            ack_every: match shape.recovered {
                Recovered::Unordered { ack_every, .. } => NonZeroU32::new(ack_every),
                _ => None,
            },
            unacknowledged: 0,
            asked: false,
        }
    }

    /// Next packet in order.
    #[inline]
    pub fn expected(&self) -> u32 {
        self.expected
    }

    /// True if it keeps what comes out of order.
    #[inline]
    pub fn is_selective(&self) -> bool {
        self.beyond.is_some()
    }

    /// True if replies name the packet that they answer.
    #[inline]
    pub fn is_unordered(&self) -> bool {
        self.ack_every.is_some()
    }

    /// Packets before `came` that have come beyond the next expected one: bit i is for the packet i + 1 before it.
    pub fn before(&self, came: u32) -> u32 {
        let Some(received) = self.beyond.as_ref().filter(|received| received.count > 0) else { return 0 };
        let has = |i: &u32| came.checked_sub(i + 1).is_some_and(|seq| received.has(seq, self.expected));
        (0..32).filter(has).fold(0, |bits, i| bits | 1 << i)
    }

    /// A reply's account of packet `came` and of those beyond the next expected one.
    pub fn told(&self, came: u32) -> u32 {
        rud::pack(came, self.expected, self.beyond.as_ref().map_or(0, |received| received.count))
    }

    /// Takes down its state while nothing is in flight.
    pub fn encode(&self, state: &mut Encoder) {
        let Self {
            expected,
            nacked,
            nacked_at,
            nack_interval: _,
            payload: _,
            beyond,
            ack_every,
            unacknowledged,
            asked,
        } = self;
        if beyond.as_ref().is_some_and(|received| received.count > 0) {
            state.busy();
        }
        // A gap that was filled is not reported again.
        let counts = nacked == expected;
        state.word(counts);
        if counts {
            state.time(*nacked_at);
        }
        // The first packet of all is acknowledged at once.
        state.word(ack_every.is_some() && *expected == 0);
        state.word(*unacknowledged);
        state.word(*asked);
    }

    #[inline(never)]
    fn on_data_unordered(&mut self, seq: u32, flags: u8, every: u32) -> Option<(Kind, u32)> {
        let received = self.beyond.as_mut().expect("it keeps packets");
        let known = seq < self.expected || received.has(seq, self.expected);
        if flags & TRIMMED != 0 {
            return Some((if known { Kind::ACK } else { Kind::NACK }, self.expected));
        }
        let mut now = known || flags & (MARKED | LAST | ACK_REQUEST) != 0 || self.expected == 0 && received.count == 0;
        self.asked |= flags & (LAST | ACK_REQUEST) != 0;
        if seq == self.expected {
            self.expected += received.in_order();
            now |= self.asked && received.count == 0;
            self.asked &= received.count > 0;
        } else if !known {
            received.beyond(seq, self.expected);
        }
        self.unacknowledged += 1;
        now |= self.unacknowledged >= every;
        if now {
            self.unacknowledged = 0;
        }
        now.then_some((Kind::ACK, self.expected))
    }

    #[inline(never)]
    fn on_data_selectively(&mut self, seq: u32) -> (Kind, u32) {
        let received = self.beyond.as_mut().expect("it keeps packets");
        if seq == self.expected {
            self.expected += received.in_order();
        } else if seq > self.expected {
            received.beyond(seq, self.expected);
            return (Kind::NACK, self.expected);
        }
        (Kind::ACK, self.expected)
    }
}

impl super::Rx for Rx {
    #[inline]
    fn on_data(&mut self, seq: u32, flags: u8, now: Ps) -> Option<(Kind, u32)> {
        if self.beyond.is_some() {
            let Some(every) = self.ack_every else { return Some(self.on_data_selectively(seq)) };
            return self.on_data_unordered(seq, flags, every.get());
        }
        if seq == self.expected {
            self.expected += 1;
            return Some((Kind::ACK, self.expected));
        }
        if seq > self.expected {
            let again = self.nacked != self.expected || now - self.nacked_at >= self.nack_interval;
            if again {
                self.nacked = self.expected;
                self.nacked_at = now;
            }
            return again.then_some((Kind::NACK, self.expected));
        }
        (flags & AFTER_TIMEOUT != 0).then_some((Kind::ACK, self.expected))
    }

    fn received(&self) -> u64 {
        u64::from(self.expected) * u64::from(self.payload)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Rx as _, Tx as _};
    use super::*;
    use onramp_config::units::US;

    const RECOVERED: Recovered = Recovered::FromThere { nack_interval: 10 * US };
    const SHAPE: Shape = Shape { payload: 1000, header: 48, rto: 100 * US, rto_doublings: 6, recovered: RECOVERED };

    fn send(tx: &mut Tx, packets: u32, now: Ps) {
        for _ in 0..packets {
            tx.send(now);
        }
    }

    /// Sends `bytes` over a network that loses a packet where a fate is 0, and lets it be overtaken where that is 1;
    /// what is random ends at some time. `arrives` takes one that waits out, by its fate, and has both ends hear of it.
    pub fn everything_arrives(
        shape: &Shape,
        bytes: u64,
        fate: Vec<u8>,
        arrives: impl Fn(&mut Tx, &mut Rx, &mut Vec<(u32, u8)>, u8, Ps),
    ) {
        let (mut tx, mut rx) = (Tx::new(shape, Some(bytes), 0), Rx::new(shape));
        let (mut now, mut fate) = (0, fate.into_iter());
        let mut ways: Vec<(u32, u8)> = Vec::new();
        for _ in 0..10_000 {
            if tx.done() {
                break;
            }
            now += US;
            if tx.ready() {
                let segment = tx.send(now);
                ways.push((segment.seq, segment.flags));
            } else if ways.is_empty() {
                now = tx.deadline().expect("something is in flight").max(now);
                tx.on_timeout(now);
                continue;
            }
            match fate.next().unwrap_or(9) {
                0 => drop(ways.pop()),
                1 if ways.len() > 1 => {}
                _ if ways.is_empty() => {}
                fate => arrives(&mut tx, &mut rx, &mut ways, fate, now),
            }
            assert!(tx.in_flight() == 0 || tx.deadline().is_some());
        }
        assert!(tx.done(), "{tx:?} {rx:?}");
    }

    fn sizes(bytes: u64) -> Vec<(u16, u8)> {
        let mut tx = Tx::new(&SHAPE, Some(bytes), 0);
        std::iter::from_fn(|| tx.ready().then(|| tx.send(0))).map(|s| (s.size, s.flags)).collect()
    }

    #[test]
    fn bytes_become_full_packets_and_a_rest() {
        assert_eq!(sizes(1), [(49, LAST)]);
        assert_eq!(sizes(1000), [(1048, LAST)]);
        assert_eq!(sizes(2001), [(1048, 0), (1048, 0), (49, LAST)]);
    }

    #[test]
    fn a_nack_goes_back_and_says_so() {
        let mut tx = Tx::new(&SHAPE, Some(10_000), 0);
        send(&mut tx, 6, 0);
        let progress = tx.on_reply(Kind::NACK, 2, 2, US);
        assert_eq!((progress.newly_acked, progress.loss), (2000, Some(Loss::Fast)));
        let again = tx.send(US);
        assert_eq!((again.seq, again.again, tx.in_flight()), (2, true, 1000));
    }

    #[test]
    fn a_late_ack_beyond_what_was_sent_again_moves_on() {
        let mut tx = Tx::new(&SHAPE, Some(10_000), 0);
        send(&mut tx, 6, 0);
        tx.on_timeout(100 * US);
        assert_eq!(tx.on_reply(Kind::ACK, 5, 5, 101 * US).newly_acked, 5000);
        assert_eq!((tx.send(101 * US).seq, tx.in_flight()), (5, 1000));
    }

    #[test]
    fn the_timeout_doubles_until_there_is_progress() {
        let mut tx = Tx::new(&SHAPE, Some(10_000), 0);
        assert_eq!(tx.deadline(), None);
        tx.send(7 * US);
        assert_eq!(tx.deadline(), Some(107 * US));
        tx.on_timeout(107 * US);
        assert_eq!(tx.deadline(), None);
        assert_eq!(tx.send(110 * US).flags, AFTER_TIMEOUT);
        assert_eq!(tx.deadline(), Some(310 * US));
        for _ in 0..10 {
            tx.on_timeout(310 * US);
            tx.send(310 * US);
        }
        assert_eq!(tx.deadline(), Some((310 + 6400) * US));
        tx.on_reply(Kind::ACK, 1, 1, 400 * US);
        tx.send(400 * US);
        assert_eq!(tx.deadline(), Some(500 * US));
    }

    #[test]
    fn a_timeout_that_never_doubles_is_fixed() {
        let mut tx = Tx::new(&Shape { rto_doublings: 0, ..SHAPE }, Some(10_000), 0);
        for now in [0, 100 * US, 200 * US] {
            tx.send(now);
            assert_eq!(tx.deadline(), Some(now + 100 * US));
            tx.on_timeout(now + 100 * US);
        }
    }

    #[test]
    fn what_is_delivered_in_a_round_trip_is_a_rate() {
        let mut tx = Tx::new(&SHAPE, Some(100_000), 0);
        send(&mut tx, 10, 0);
        // The first ACK begins a round that ends beyond packet 10.
        assert_eq!(tx.on_reply(Kind::ACK, 1, 1, 10 * US).delivery_rate, None);
        send(&mut tx, 10, 10 * US);
        assert_eq!(tx.on_reply(Kind::ACK, 10, 10, 14 * US).delivery_rate, None);
        // 10 packets of 1000 B in 8 us.
        assert_eq!(tx.on_reply(Kind::ACK, 11, 11, 18 * US).delivery_rate, Some(10e9));
    }

    #[test]
    fn a_gap_is_reported_once_until_the_interval_is_over() {
        let mut rx = Rx::new(&SHAPE);
        assert_eq!(rx.on_data(0, 0, 0), Some((Kind::ACK, 1)));
        assert_eq!(rx.on_data(2, 0, US), Some((Kind::NACK, 1)));
        assert_eq!(rx.on_data(3, 0, 2 * US), None);
        assert_eq!(rx.on_data(4, 0, 11 * US), Some((Kind::NACK, 1)));
        assert_eq!(rx.on_data(1, 0, 12 * US), Some((Kind::ACK, 2)));
        // Another gap is reported at once.
        assert_eq!(rx.on_data(3, 0, 13 * US), Some((Kind::NACK, 2)));
    }

    #[test]
    fn what_is_there_already_is_acknowledged_only_after_a_timeout() {
        let mut rx = Rx::new(&SHAPE);
        rx.on_data(0, 0, 0);
        assert_eq!(rx.on_data(0, 0, US), None);
        assert_eq!(rx.on_data(0, AFTER_TIMEOUT, US), Some((Kind::ACK, 1)));
        assert_eq!(rx.received(), 1000);
    }
}
