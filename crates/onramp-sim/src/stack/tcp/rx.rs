//! The receiving half: what has arrived, when that is said, and how much room there is.

use super::timer::{self, tick};
use super::tx::send::OVERHEAD;
use super::{BLOCKS, Params, Reply, Tx};
use onramp_config::units::{NS, Ps, US};
use onramp_workload::PORTION;

/// Delayed acknowledgements wait so long at least, and at most, in milliseconds.
const DELAY_MIN_MS: u64 = 40;
/// See [`DELAY_MIN_MS`].
const DELAY_MAX_MS: u64 = 200;
/// Payload of a full packet, before one has come (TCP_MSS_DEFAULT); and bytes of its header that count where a smaller
/// one is told from the end of a write.
const LEAST_FULL: u16 = 536;
/// See [`LEAST_FULL`].
const COUNTED_HEADER: u16 = 12;
/// A packet that ends no write is a full one if it is not smaller (TCP_MIN_MSS).
const LEAST_PACKET: u16 = 88;
/// Packets acknowledged at once where it matters that the sender hears.
const QUICK: u32 = 16;
/// Acknowledgements of packets out of order that are sent one by one, before any is left out.
const DUPLICATES: u8 = 3;
/// Acknowledgements that were left out are sent before a block beyond so many begins or grows: one tells of three
/// blocks, and may be lost.
const TOLD: usize = 2;
/// Share of a packet's memory that is payload, in 2^-8, as is assumed before one has come.
const SHARE_FIRST: u64 = 128;
/// Packets that are joined while they wait to be read (MAX_SKB_FRAGS).
const JOIN: u64 = 17;
/// On shorter round trips buffers grow less.
const LONG_ROUND_US: u64 = 1000;

/// A data packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct Data {
    /// First byte, and one beyond its last.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// It ends a write.
    pub push: bool,
    /// It was marked (ECN).
    pub marked: bool,
    /// When it was sent, in milliseconds.
    pub stamp_ms: u32,
    /// When the latest answer that its sender had seen was made.
    pub echo_ms: u32,
    /// The application expects bytes up to here.
    pub expected: u64,
}

/// Result of a packet or timer: at most three acknowledgements to send.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    replies: [Option<Reply>; 3],
    /// The application has all that it expects, since now.
    pub complete: bool,
}

impl Said {
    fn add(&mut self, reply: Reply) {
        if let Some(place) = self.replies.iter_mut().find(|place| place.is_none()) {
            *place = Some(reply);
        }
    }

    /// In order.
    pub fn replies(&self) -> impl Iterator<Item = Reply> + use<> {
        self.replies.into_iter().flatten()
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Rx {
    /// Next byte in order; read by the application; acknowledged.
    nxt: u64,
    read: u64,
    acked: u64,
    /// Blocks that have arrived beyond, in order.
    beyond: Vec<(u64, u64)>,
    /// The same, by when it last grew.
    blocks: [(u64, u64); BLOCKS + 1],
    /// The block that arrived twice.
    twice: Option<(u64, u64)>,
    /// An acknowledgement is due; at once; the data ended a write, or two of them.
    due: bool,
    at_once: bool,
    pushed: u8,
    quick: u32,
    /// Payload of a full packet, as far as is known; that of the latest, if it was smaller.
    full: u16,
    smaller: u16,
    /// Data is answered with data, which take acknowledgements along.
    answers: bool,
    /// Delay of acknowledgements in milliseconds; 0 before the first packet.
    delay_ms: u64,
    delayed_until: Option<Ps>,
    last_ms: u32,
    /// Acknowledgements left out, those sent before, where they are about, and until when.
    left_out: u32,
    duplicates: u8,
    duplicates_of: u64,
    left_out_until: Option<Ps>,
    /// Round trip of the handshake.
    rtt: Ps,
    stamp_ms: u32,
    /// DCTCP: the latest packet was marked; everything before this byte is told of the state before.
    marks: bool,
    marked: bool,
    told: u64,
    /// Room that is offered, and what it grows to.
    window: u32,
    growing: u32,
    /// Memory for what is not read yet.
    buffer: u64,
    /// Share of memory that is payload.
    share: u64,
    /// Eight times the round trip in microseconds, 0 while unknown; the latest echo of a time stamp that counted;
    /// since when, and up to which byte, this window comes.
    round8: u64,
    echo_ms: u32,
    coming: Option<(Ps, u64)>,
    /// How long before time 0 the connection was opened, from when these times count.
    age: Ps,
    /// Bytes read in a round trip; from which byte on and since when those of this one are.
    space: u64,
    space_from: u64,
    space_at: Ps,
    expected: u64,
}

/// Memory that payload in one piece takes: joined packets have one header.
fn memory(p: &Params, bytes: u64) -> u64 {
    bytes + bytes.div_ceil(JOIN * u64::from(p.mss)) * u64::from(OVERHEAD)
}

/// Unit in which windows are told (RFC 7323 §2.3): the largest buffer fits into 16 bits of them.
fn window_unit(p: &Params) -> u64 {
    1 << p.most_receive_buffer.max(1).ilog2().saturating_sub(15).min(14)
}

impl Rx {
    /// A connection that has just opened after a round trip of `rtt_us`; its sender reads marks.
    pub fn new(p: &Params, rtt_us: u32, marks: bool) -> Self {
        let first = p.first_window();
        Self {
            nxt: 0,
            read: 0,
            acked: 0,
            beyond: Vec::new(),
            blocks: [(0, 0); BLOCKS + 1],
            twice: None,
            due: false,
            at_once: false,
            pushed: 0,
            quick: 0,
            full: LEAST_FULL,
            smaller: 0,
            answers: false,
            delay_ms: 0,
            delayed_until: None,
            last_ms: 0,
            left_out: 0,
            duplicates: 0,
            duplicates_of: 0,
            left_out_until: None,
            rtt: Ps::from(rtt_us) * US,
            stamp_ms: 0,
            marks,
            marked: false,
            told: 0,
            window: first,
            growing: first - p.mss,
            buffer: u64::from(p.receive_buffer),
            share: SHARE_FIRST,
            round8: 0,
            echo_ms: 0,
            coming: None,
            age: 0,
            space: u64::from(p.initial_window * p.mss),
            space_from: 0,
            space_at: 0,
            expected: 0,
        }
    }

    /// It was opened `age` before time 0, and something small was said on it at once: the kernel takes the time until
    /// a first window has come, idle as it was, for a round trip.
    pub fn has_spoken(&mut self, age: Ps) {
        self.age = age;
        self.coming = Some((0, u64::from(self.window)));
    }

    /// Next byte in order.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Next byte that the application has not read.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// When an acknowledgement that waits is due.
    pub fn deadline(&self) -> Option<Ps> {
        match (self.delayed_until, self.left_out_until) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The deadline has passed.
    pub fn on_timer(&mut self, p: &Params, now: Ps) -> Said {
        let mut said = Said::default();
        if self.left_out_until.is_some_and(|at| at <= now) {
            self.left_out_until = None;
            if self.left_out > 0 {
                said.add(self.reply(p, now));
                return said;
            }
        }
        if self.delayed_until.is_some_and(|at| at <= now) {
            self.delayed_until = None;
            if self.due {
                // What was to take it along has not come.
                let late = if std::mem::take(&mut self.answers) { DELAY_MIN_MS } else { self.delay_ms * 2 };
                self.delay_ms = late.min(DELAY_MAX_MS);
                said.add(self.reply(p, now));
            }
        }
        said
    }

    /// A data packet has come.
    pub fn on_data(&mut self, p: &Params, now: Ps, data: &Data) -> Said {
        let mut said = Said::default();
        if data.expected != self.expected {
            self.expected = data.expected;
            self.make_room();
        }
        if data.start <= self.acked {
            self.stamp_ms = data.stamp_ms;
        }
        self.measure_echo(p, now, data);
        self.due = true;
        if data.end <= self.nxt {
            self.twice = Some((data.start, data.end));
            self.be_quick(p, QUICK);
            self.answers = false;
            self.delay_ms = DELAY_MIN_MS;
        } else if data.start <= self.nxt {
            if data.start < self.nxt {
                self.twice = Some((data.start, self.nxt));
            }
            self.in_order(p, now, data, &mut said);
        } else {
            self.out_of_order(p, data, now, &mut said);
        }
        if self.due {
            self.decide(p, now, &mut said);
        }
        self.wake(p, now, &mut said);
        said
    }

    fn in_order(&mut self, p: &Params, now: Ps, data: &Data, said: &mut Said) {
        self.nxt = data.end;
        let length = data.end - data.start;
        if length >= u64::from(p.mss) {
            // tcp_measure_rcv_mss
            self.share = (length << 8) / (length + u64::from(OVERHEAD));
        }
        self.measure_packet(length as u16, data.push);
        self.measure_window(now + self.age);
        self.pace_delay(p, now);
        self.see_mark(p, now, data.marked, said);
        self.grow(p, length);
        let waited = !self.beyond.is_empty();
        while let Some(&(start, end)) = self.beyond.first() {
            if start > self.nxt {
                break;
            }
            self.nxt = self.nxt.max(end);
            self.beyond.remove(0);
        }
        if waited {
            let nxt = self.nxt;
            self.keep_blocks(|&(_, end)| end > nxt);
            // A gap is filled (RFC 5681 §4.2).
            self.at_once |= self.beyond.is_empty();
        }
    }

    fn keep_blocks(&mut self, keep: impl Fn(&(u64, u64)) -> bool) {
        let mut kept = [(0, 0); BLOCKS + 1];
        let those = self.blocks.into_iter().filter(|block| block.1 > block.0 && keep(block));
        for (place, block) in kept.iter_mut().zip(those) {
            *place = block;
        }
        self.blocks = kept;
    }

    fn out_of_order(&mut self, p: &Params, data: &Data, now: Ps, said: &mut Said) {
        self.see_mark(p, now, data.marked, said);
        let (mut start, mut end) = (data.start, data.end);
        let again = self.beyond.iter().any(|&(from, to)| from <= start && end <= to);
        if again {
            self.twice = Some((start, end));
        } else {
            let first = self.beyond.partition_point(|&(_, to)| to < start);
            let last = self.beyond.partition_point(|&(from, _)| from <= end);
            for &(from, to) in &self.beyond[first..last] {
                (start, end) = (start.min(from), end.max(to));
            }
            self.beyond.splice(first..last, [(start, end)]);
        }
        let known = self.blocks.iter().take_while(|block| block.1 > block.0);
        let older = known.take_while(|&&(from, to)| data.start > to || data.end < from).count();
        if older >= TOLD && self.left_out > 0 {
            said.add(self.reply(p, now));
        }
        // The block it belongs to is the first to be told.
        let block = self.beyond.iter().find(|&&(from, to)| from <= data.start && data.end <= to).copied();
        if let Some(block) = block {
            self.keep_blocks(|&(from, to)| to < block.0 || from > block.1);
            self.blocks.rotate_right(1);
            self.blocks[0] = block;
        }
        if !again {
            self.grow(p, data.end - data.start);
        }
        self.widen(p, self.space);
    }

    /// Learns what a full packet is, and whether this one ended a write (tcp_measure_rcv_mss).
    fn measure_packet(&mut self, length: u16, push: bool) {
        let before = std::mem::take(&mut self.smaller);
        if length >= self.full {
            self.full = length;
            self.pushed = self.pushed.max(u8::from(push));
            return;
        }
        let counted = length.saturating_add(COUNTED_HEADER);
        if counted >= LEAST_FULL || counted >= LEAST_PACKET && !push {
            self.smaller = length;
            if length == before {
                self.full = length;
                return;
            }
        }
        self.pushed = (self.pushed + 1).min(2);
    }

    /// The delay of acknowledgements follows the time between packets.
    fn pace_delay(&mut self, p: &Params, now: Ps) {
        let ms = tick(now) as u32;
        if self.delay_ms == 0 {
            self.be_quick(p, QUICK);
            self.delay_ms = DELAY_MIN_MS;
        } else {
            let gap = u64::from(ms - self.last_ms);
            if gap <= DELAY_MIN_MS / 2 {
                self.delay_ms = self.delay_ms / 2 + DELAY_MIN_MS / 2;
            } else if gap < self.delay_ms {
                self.delay_ms = (self.delay_ms / 2 + gap).min(DELAY_MAX_MS);
            } else if gap > u64::from(p.rto_min_us) / 1000 {
                // The sender has started anew, perhaps.
                self.be_quick(p, QUICK);
            }
        }
        self.last_ms = ms;
    }

    fn be_quick(&mut self, p: &Params, most: u32) {
        let half = (self.window / (2 * p.mss)).max(2);
        self.quick = self.quick.max(half.min(most));
    }

    /// DCTCP's state machine (RFC 8257 §3.2): a change is told at once, after what waited.
    fn see_mark(&mut self, p: &Params, now: Ps, marked: bool, said: &mut Said) {
        if !self.marks {
            return;
        }
        if marked != self.marked {
            if self.delayed_until.is_some() {
                let nxt = std::mem::replace(&mut self.nxt, self.told);
                let reply = self.reply(p, now);
                self.nxt = nxt;
                said.add(reply);
                self.due = true;
            }
            self.at_once = true;
        }
        self.told = self.nxt;
        self.marked = marked;
    }

    /// The window grows with what comes, up to the room there is; then packets are acknowledged at once.
    fn grow(&mut self, p: &Params, length: u64) {
        let room = self.free(p) as i64 - i64::from(self.growing);
        if length < 62 || room <= 0 {
            return;
        }
        let more = (2 * u64::from(p.mss)).max(2 * length) as i64;
        self.growing += room.min(more) as u32;
        self.quick |= 1;
    }

    /// Bytes of payload for which there is room when nothing waits, and now.
    fn room(&self) -> u64 {
        (self.buffer * self.share) >> 8
    }

    fn free(&self, p: &Params) -> u64 {
        let beyond: u64 = self.beyond.iter().map(|&(from, to)| memory(p, to - from)).sum();
        let taken = memory(p, self.nxt - self.read) + beyond;
        (self.buffer.saturating_sub(taken) * self.share) >> 8
    }

    fn decide(&mut self, p: &Params, now: Ps, said: &mut Said) {
        let waiting = self.nxt - self.acked;
        let unread = self.nxt - self.read;
        let window = self.select(p);
        let two = waiting > u64::from(self.full) && (unread < self.wanted() || window >= self.window);
        if two || self.quick > 0 && !self.answers || self.at_once {
            return said.add(self.reply(p, now));
        }
        if self.beyond.is_empty() {
            return self.delay(p, now, said);
        }
        if self.left_out >= p.compressed_acks {
            return said.add(self.reply(p, now));
        }
        if self.duplicates_of != self.nxt {
            self.duplicates_of = self.nxt;
            self.duplicates = 0;
        }
        if self.duplicates < DUPLICATES {
            self.duplicates += 1;
            return said.add(self.reply(p, now));
        }
        self.left_out += 1;
        if self.left_out_until.is_none() {
            // A quarter more than the round trip's share, as the kernel's shifts have it.
            let wait = self.rtt * p.compressed_rtt_percent / 100;
            self.left_out_until = Some(now + wait.min(p.compressed_ns * NS) + p.compressed_slack_ns * NS);
        }
    }

    fn delay(&mut self, p: &Params, now: Ps, said: &mut Said) {
        let mut ms = self.delay_ms;
        if ms > DELAY_MIN_MS {
            let most = if self.pushed > 0 || self.answers { DELAY_MAX_MS } else { 500 };
            let rtt = (self.rtt / (1000 * US)).max(DELAY_MIN_MS);
            ms = ms.min(most.min(rtt));
        }
        // tcp_delack_max: before the sender's least RTO.
        let rto_min = u64::from(p.rto_min_us).div_ceil(1000).max(2);
        ms = ms.min(DELAY_MAX_MS).min(rto_min - 1);
        let at = timer::fires(now, ms * 1000);
        if let Some(before) = self.delayed_until {
            if before <= now + ms / 4 * 1000 * US {
                return said.add(self.reply(p, now));
            }
            self.delayed_until = Some(at.min(before));
        } else {
            self.delayed_until = Some(at);
        }
    }

    /// Unread bytes for which the application is woken.
    fn wanted(&self) -> u64 {
        (self.expected.saturating_sub(self.read)).clamp(1, PORTION)
    }

    /// The application says how much it waits for, and there is room for that.
    fn make_room(&mut self) {
        self.buffer = self.buffer.max((self.wanted() << 8) / self.share);
    }

    /// The application reads, if it has what it waits for.
    fn wake(&mut self, p: &Params, now: Ps, said: &mut Said) {
        let unread = self.nxt - self.read;
        // It is woken, too, where there is no room left for what it waits for.
        let full = self.offered() <= u64::from(p.mss);
        if unread == 0 || unread < self.wanted() && !full {
            return;
        }
        self.adjust(p, now + self.age, unread);
        self.read = self.nxt;
        said.complete = self.read == self.expected;
        let waiting = self.nxt - self.acked;
        let late = self.due && (waiting > u64::from(self.full) || self.pushed > u8::from(self.answers));
        // Or there is much more room than was last offered.
        if late || 2 * self.offered() <= self.room() && u64::from(self.select(p)) >= 2 * self.offered().max(1) {
            said.add(self.reply(p, now));
        }
    }

    /// A round trip of so many microseconds, or, as the time in which a whole window came, at most so many: the least
    /// counts, or else an average of what is not stretched by an application that reads late.
    fn measured(&mut self, us: u64, at_most: bool) {
        if self.round8 == 0 || 8 * us < self.round8 {
            self.round8 = 8 * us;
        } else if !at_most && self.nxt == self.read {
            self.round8 = self.round8 - self.round8 / 8 + us;
        }
    }

    /// By the time stamps, in whole milliseconds: less than one is none.
    fn measure_echo(&mut self, p: &Params, now: Ps, data: &Data) {
        if data.echo_ms != self.echo_ms {
            self.echo_ms = data.echo_ms;
            let ms = Tx::stamp_ms(now).wrapping_sub(data.echo_ms) as i32;
            if ms > 0 && data.end - data.start >= u64::from(p.mss) {
                self.measured(ms as u64 * 1000, false);
            }
        }
    }

    fn measure_window(&mut self, now: Ps) {
        if let Some((since, end)) = self.coming {
            if self.nxt < end {
                return;
            }
            self.measured(((now - since) / US).max(1), true);
        }
        self.coming = Some((now, self.nxt + u64::from(self.window)));
    }

    /// The buffer follows what is read in a round trip (dynamic right-sizing). The kernel looks once the
    /// first of the joined packets is read, with the others still there: so where an application reads
    /// large portions, it often finds that little was read.
    fn adjust(&mut self, p: &Params, now: Ps, unread: u64) {
        let round_us = self.round8 / 8;
        if self.round8 == 0 || (now - self.space_at) / US < round_us {
            return;
        }
        let first = unread.min(JOIN * u64::from(p.mss));
        let copied = (self.read + first - self.space_from) as i64 - (unread - first) as i64;
        if copied > self.space as i64 {
            self.widen(p, copied as u64);
        }
        self.space_from = self.read + first;
        self.space_at = now;
    }

    /// So many bytes are read in a round trip: there is room for twice as many, and for what lies beyond a gap
    /// (tcp_rcvbuf_grow).
    fn widen(&mut self, p: &Params, read: u64) {
        let before = std::mem::replace(&mut self.space, read);
        let (twice, round_us) = (2 * read, self.round8 / 8);
        let more = if round_us < LONG_ROUND_US {
            twice * round_us / LONG_ROUND_US
        } else {
            2 * twice * (read - before) / before.max(1)
        };
        let beyond = self.beyond.last().map_or(0, |&(_, end)| end - self.nxt);
        let wanted = ((twice + more + beyond) << 8) / self.share;
        self.buffer = self.buffer.max(wanted.min(u64::from(p.most_receive_buffer)));
    }

    /// Room that was offered and is not used.
    fn offered(&self) -> u64 {
        (self.acked + u64::from(self.window)).saturating_sub(self.nxt)
    }

    /// Room to offer now (__tcp_select_window).
    fn select(&mut self, p: &Params) -> u32 {
        let (mut free, unit) = (self.free(p), window_unit(p));
        if free < self.room() / 2 {
            self.quick = 0;
            free -= free % unit;
            if free < self.room() / 16 || free < u64::from(p.mss) {
                return 0;
            }
        }
        free.min(u64::from(self.growing)).next_multiple_of(unit) as u32
    }

    /// Data of the connection's other direction leaves, and takes along what there is to say
    /// (tcp_event_ack_sent, tcp_event_data_sent).
    pub fn data_leaves(&mut self, p: &Params, now: Ps) -> Reply {
        let (due, quick) = (self.due, self.quick);
        let reply = self.reply(p, now);
        if !due {
            self.quick = quick;
        }
        self.answers |= u64::from(tick(now) as u32 - self.last_ms) < self.delay_ms;
        Reply { with_data: true, ..reply }
    }

    fn reply(&mut self, p: &Params, _now: Ps) -> Reply {
        // The window is never taken back.
        let offered = self.offered().next_multiple_of(window_unit(p));
        self.window = u64::from(self.select(p)).max(offered) as u32;
        self.acked = self.nxt;
        self.quick = self.quick.saturating_sub(1);
        if self.quick == 0 && self.delay_ms > 0 {
            self.delay_ms = self.delay_ms.min(DELAY_MIN_MS);
        }
        (self.due, self.at_once, self.pushed) = (false, false, 0);
        self.delayed_until = None;
        self.left_out = 0;
        self.left_out_until = None;
        let mut blocks = [(0, 0); BLOCKS];
        let twice = self.twice.take();
        for (place, block) in blocks.iter_mut().zip(twice.into_iter().chain(self.blocks)) {
            *place = block;
        }
        Reply { ack: self.nxt, window: self.window, blocks, ece: self.marked, echo_ms: self.stamp_ms, with_data: false }
    }
}
