//! Segments that leave: new ones, as large as pacing and the window let them be, and retransmitted ones.

use super::timers::Timer;
use super::{Repair, Tx, tick};
use crate::cc::tcp::{Event, State};
use crate::stack::tcp::Params;
use crate::stack::tcp::scoreboard::{Chunk, EVER_RESENT, LOST, PUSHED, RESENT, SACKED};
use onramp_config::units::{NS, Ps, US};

/// Memory of a segment that waits, or of each packet that one was cut into, besides its payload, in bytes: the kernel's
/// `truesize` on the cluster. Configurations with more room for headers have more.
pub const OVERHEAD: u32 = 832;
/// Transmissions of the same bytes this far apart are told apart: `SENDER_AMBIGUOUS` of `datapath/bpf/sender.h`.
const FORGOTTEN_US: u64 = 100_000;
/// Share of a second in which TCP expects a segment to leave: 2^-10.
const PACING_SHIFT: u32 = 10;
/// The first packets of a connection are not paced.
const UNPACED: u64 = 10;

/// A segment to hand down: up to 64 KB, which leave as packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte, and one beyond its last.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// It ends what the application wrote; or it has several packets, after which a receiver that joins
    /// them again is not to wait for more.
    pub push: bool,
    /// Stamps of an earlier transmission.
    pub stamped: Stamped,
    /// The host's queue is not to let it go before this time, if it paces.
    pub earliest: Ps,
}

/// Stamps that On-Ramp still has of an earlier transmission: of bytes at intervals, and of the last byte of a push
/// (`datapath/bpf/sender.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stamped {
    /// None.
    Never,
    /// Of what is inside.
    Inside,
    /// Of its last byte, too.
    ToTheEnd,
}

impl Segment {
    /// An OR-ACK for one of its packets may be for an earlier one (RFC 6298 §3).
    pub fn is_ambiguous(&self, last: bool) -> bool {
        match self.stamped {
            Stamped::Never => false,
            Stamped::Inside => !(last && self.push),
            Stamped::ToTheEnd => true,
        }
    }

    /// Bytes of memory it takes while it waits in the host.
    pub fn memory(&self) -> u32 {
        (self.end - self.start) as u32 + OVERHEAD
    }
}

impl Tx {
    /// The application writes `bytes`, as many as the socket has room for at once.
    pub fn write(&mut self, p: &Params, now: Ps, bytes: u64, room: u64) {
        self.window.now = now;
        let idle = tick(now).saturating_sub(tick(self.window.last_sent));
        if p.slow_start_after_idle && self.packets_out == 0 && !self.cc.steers() && idle * 1000 > self.rto_us {
            self.restart(p, idle * 1000);
        }
        if self.written - self.nxt < u64::from(p.mss)
            && self.queued == 0
            && self.in_flight() < self.window.cwnd
            && self.lost_out <= self.resent_out
        {
            self.window.app_limited = (self.window.delivered + u64::from(self.in_flight())).max(1);
        }
        self.write_start = self.written;
        self.taken = self.written + room;
        self.writing = true;
        self.written += bytes;
        self.aim(p);
    }

    /// Ends a record with the last byte written: no later byte comes into a segment with it (MSG_EOR).
    pub fn end_record(&mut self) {
        self.records.push_back(self.written);
    }

    /// The byte before which segments end in any case.
    fn record_end(&self) -> u64 {
        self.records.front().copied().unwrap_or(u64::MAX).min(self.written)
    }

    /// How large segments of what is written now become: half a window at most, which is also what is written
    /// at most between two marks for the application at the other end.
    fn aim(&mut self, p: &Params) {
        /// For headers, which the kernel leaves in a segment.
        const ROOM: u32 = 320;
        let half = (self.max_window >> 1).max(p.mss);
        self.goal = u64::from(((p.gso_max_size - 1 - ROOM).min(half) / p.mss).max(1) * p.mss);
        self.push_every = (u64::from(half) / self.goal + 1) * self.goal;
    }

    /// Where the next segment ends. While the application writes, its bytes go behind what is left of the latest
    /// one; what the socket had no room for is written later.
    fn segment_end(&mut self, p: &Params) -> u64 {
        if self.writing {
            self.seam = self.nxt;
        }
        while self.seam <= self.nxt {
            if self.seam >= self.taken {
                self.aim(p);
            }
            self.seam += self.goal;
        }
        self.seam.min(self.record_end())
    }

    /// An endless write, begun or to come, is cut short: `unsent` bytes, in the socket, are left to be sent. Its end.
    pub fn stop(&mut self, unsent: u64) -> u64 {
        let end = self.nxt + unsent;
        self.written = self.written.min(end);
        end
    }

    /// Hands down what may leave now.
    pub fn transmit(&mut self, p: &Params, now: Ps, out: &mut Vec<Segment>) {
        self.window.now = now;
        match self.repair {
            Repair::Nothing => {}
            Repair::Lost => self.resend(p, out),
            Repair::New => {
                self.send_new(p, false, out);
                if self.nxt <= self.high {
                    self.frto = false;
                    self.resend(p, out);
                }
            }
        }
        if self.repair != Repair::Nothing && !self.waits_for_pacing() {
            self.repair = Repair::Nothing;
        }
        self.send_new(p, false, out);
        if std::mem::take(&mut self.writing) {
            self.seam = self.nxt;
        }
        if self.packets_out == 0 && self.nxt < self.written && self.pending.is_none() && !self.waits_for_pacing() {
            self.set(Timer::Window, self.rto_us, false);
        }
    }

    /// A segment's memory is free again: it has left the host, up to byte `end`. True if more
    /// may be handed down.
    pub fn released(&mut self, bytes: u32, end: u64) -> bool {
        self.queued = self.queued.saturating_sub(u64::from(bytes));
        self.left = self.left.max(end);
        let go = self.throttled;
        self.throttled = false;
        if go && self.lost_out > self.resent_out {
            self.repair = Repair::Lost;
        }
        go
    }

    /// A segment is cut into so many packets below the stack, which take more memory than it did.
    pub fn was_cut(&mut self, packets: u64) {
        self.queued += (packets - 1) * u64::from(OVERHEAD);
    }

    /// When a segment that pacing keeps back in the stack may go on.
    pub fn paced_until(&self, now: Ps) -> Option<Ps> {
        (self.has_more() && self.paces_itself() && self.pace_at > now).then_some(self.pace_at)
    }

    /// Returns whether pacing in the stack lets more go at `now`. Other timers hand down what is theirs alone: what
    /// waits for a larger segment waits for an acknowledgement, however long that takes.
    pub fn pace_ends(&self, now: Ps) -> bool {
        self.has_more() && self.paces_itself() && self.pace_at == now
    }

    /// Bytes not sent or not acknowledged, with the kernel's own for each segment (`sk_wmem_queued`).
    pub fn kept(&self) -> u64 {
        let segments = self.board.chunks.len() + usize::from(self.nxt < self.written);
        self.written - self.una + segments as u64 * u64::from(OVERHEAD)
    }

    fn has_more(&self) -> bool {
        self.nxt < self.written || self.repair != Repair::Nothing
    }

    fn paces_itself(&self) -> bool {
        !self.queue_paces && self.window.paced
    }

    fn waits_for_pacing(&self) -> bool {
        self.paces_itself() && self.pace_at > self.window.now
    }

    fn small_queue(&mut self, p: &Params, bytes: u64, factor: u32) -> bool {
        let limit = (2 * (bytes + u64::from(OVERHEAD))).max(self.window.pacing_rate >> PACING_SHIFT);
        let limit = limit.min(u64::from(p.limit_output)) << factor;
        if self.queued <= limit || self.board.chunks.len() <= 1 {
            return false;
        }
        self.throttled = true;
        true
    }

    /// Returns whether data that is being written, up to its `end`, waits for segments of its connection that still
    /// wait below: a later write may come and make a larger segment of it (net.ipv4.tcp_autocorking).
    fn corks(&self, end: u64) -> bool {
        let bytes = end - self.nxt;
        let tail = self.writing && end == self.written && bytes < self.goal && self.records.is_empty();
        tail && self.packets_out > 0 && self.queued > bytes + u64::from(OVERHEAD)
    }

    /// Packets of the largest segment to hand down.
    fn most_packets(&self, p: &Params, least: u32) -> u32 {
        let mut bytes = self.window.pacing_rate >> PACING_SHIFT;
        let halvings = self.rtt.min >> p.segment_rtt_log;
        if halvings < 32 {
            bytes += u64::from(p.gso_max_size >> halvings);
        }
        let bytes = bytes.min(u64::from(p.gso_max_size));
        ((bytes / u64::from(p.mss)) as u32).max(least).min((p.gso_max_size / p.mss).max(1))
    }

    pub(super) fn send_new(&mut self, p: &Params, probe: bool, out: &mut Vec<Segment>) {
        let mss = u64::from(p.mss);
        let least = self.cc.least_segment(&self.window).unwrap_or(p.least_segment);
        let most = self.most_packets(p, least);
        let (mut sent, mut limited) = (0, false);
        while self.nxt < self.written {
            if self.waits_for_pacing() {
                break;
            }
            let (in_flight, cwnd) = (self.in_flight(), self.window.cwnd);
            let quota = if in_flight < cwnd {
                (cwnd - in_flight).min((cwnd >> 1).max(1))
            } else if probe {
                1
            } else {
                break;
            };
            let quota = quota.min(most);
            let mut end = self.segment_end(p);
            if !self.writing {
                // The next one gives it some of its bytes.
                end = end.max((self.nxt + u64::from(quota) * mss).min(self.record_end()));
            }
            if self.nxt + mss.min(self.written - self.nxt) > self.window_end {
                break;
            }
            if self.corks(end) {
                self.throttled = true;
                break;
            }
            let packets = (end - self.nxt).div_ceil(mss);
            if packets > 1 {
                if !probe && self.defers(p, end, most, &mut limited) {
                    break;
                }
                // Without Nagle's rule up to the last byte that there is room for (tcp_mss_split_point).
                end = end.min(self.window_end).min(self.nxt + u64::from(quota) * mss);
            }
            if self.small_queue(p, end - self.nxt, 0) {
                break;
            }
            self.send_segment(p, end, out);
            sent += (end - self.chunk_start()).div_ceil(mss) as u32;
            if probe {
                break;
            }
        }
        limited |= self.in_flight() >= self.window.cwnd;
        if sent > 0 || limited {
            self.validate(p, limited);
        }
        if sent > 0 {
            if self.reducing() {
                self.prr_out += sent;
            }
            if !probe {
                self.schedule_probe(p, false);
            }
        }
    }

    /// Marks up to a byte of what was written last.
    fn pushes(&self, to: u64) -> u64 {
        // What an earlier write left is none of the latest one's.
        to.saturating_sub(self.write_start) / self.push_every
    }

    fn chunk_start(&self) -> u64 {
        self.board.chunks.back().map_or(self.nxt, |chunk| chunk.start)
    }

    /// Returns whether to wait for a larger segment: the next acknowledgement is near, and little may be sent.
    fn defers(&self, p: &Params, end: u64, most: u32, limited: &mut bool) -> bool {
        let now = self.window.now;
        if self.window.state >= State::Recovery || now > self.pace_at + 1000 * US {
            return false;
        }
        let mss = u64::from(p.mss);
        let room = self.window_end - self.nxt;
        let cong = u64::from(self.window.cwnd - self.in_flight().min(self.window.cwnd)) * mss;
        let limit = room.min(cong);
        let (whole, last) = (end - self.nxt, end == self.written);
        if limit >= u64::from(most) * mss || !last && limit >= whole {
            return false;
        }
        let window = (self.window_end - self.una).min(u64::from(self.window.cwnd) * mss);
        if limit >= window / p.segment_divisor {
            return false;
        }
        let Some(head) = self.board.chunks.front() else { return false };
        let srtt = u64::from(self.rtt.srtt8) * (US / 8);
        let expected = head.sent() + srtt;
        if expected > now + (srtt / 2).min(1000 * US) {
            return false;
        }
        if cong < room {
            *limited |= cong <= whole;
        }
        // What gets no more data waits for no more.
        limit <= whole || self.records.front() != Some(&end)
    }

    /// Sends what is next, up to `end`.
    pub(super) fn send_segment(&mut self, p: &Params, end: u64, out: &mut Vec<Segment>) {
        if self.in_flight() == 0 {
            self.event(Event::Start);
        }
        let start = self.nxt;
        let ends_record = self.records.front() == Some(&end);
        if ends_record {
            self.records.pop_front();
            self.seam = end;
        }
        let mut chunk = Chunk {
            start,
            end,
            marks: 0,
            push: ends_record || end == self.written || self.pushes(end) > self.pushes(start),
            sent_us: 0,
            sent_ns: 0,
            sent_after: 0,
            delivered: 0,
            delivered_us: 0,
            first_sent_us: 0,
            app_limited: false,
        };
        let earliest = self.stamp(p, &mut chunk);
        let packets = chunk.packets(p.mss);
        let push = chunk.leaves(packets);
        self.board.chunks.push_back(chunk);
        let first = self.packets_out == 0;
        self.nxt = end;
        self.packets_out += packets;
        if first || matches!(self.pending, Some((Timer::Probe | Timer::Window, _))) {
            self.rearm_rto();
        }
        self.hand_down(Segment { start, end, push, stamped: Stamped::Never, earliest }, out);
    }

    fn hand_down(&mut self, segment: Segment, out: &mut Vec<Segment>) {
        self.queued += u64::from(segment.memory());
        self.window.last_sent = self.window.now;
        out.push(segment);
    }

    /// Notes when a chunk leaves and what was delivered by then; the time before which the host's
    /// queue keeps it.
    fn stamp(&mut self, p: &Params, chunk: &mut Chunk) -> Ps {
        let now = self.window.now;
        let before = self.pace_at;
        let at = before.max(now);
        self.pace_at = at;
        (chunk.sent_us, chunk.sent_ns) = (at / US, (at % US / NS) as u16);
        chunk.sent_after = self.segments_out;
        if self.packets_out == 0 {
            self.first_sent_us = chunk.sent_us;
            self.delivered_us = chunk.sent_us;
        }
        chunk.first_sent_us = self.first_sent_us;
        chunk.delivered_us = self.delivered_us.max(1);
        chunk.delivered = self.window.delivered;
        chunk.app_limited = self.window.app_limited > 0;
        let rate = self.window.pacing_rate;
        if self.window.paced && rate > 0 && rate != u64::MAX && self.segments_out >= UNPACED {
            let gap = (u128::from(chunk.end - chunk.start) * 1_000_000_000 / u128::from(rate)) as u64 * NS;
            // What a timer was late by is made up for.
            let credit = (at - before).min(gap / 2);
            self.pace_at = at + gap - credit;
        }
        self.segments_out += u64::from(chunk.packets(p.mss));
        if self.queue_paces { at } else { 0 }
    }

    /// Sends again what is lost, as far as the window goes.
    pub(super) fn resend(&mut self, p: &Params, out: &mut Vec<Segment>) {
        let most = self.most_packets(p, self.cc.least_segment(&self.window).unwrap_or(p.least_segment));
        let mut rearm = false;
        let mut i = 0;
        while i < self.board.chunks.len() && self.resent_out < self.lost_out {
            if self.waits_for_pacing() {
                break;
            }
            let room = self.window.cwnd.saturating_sub(self.in_flight());
            if room == 0 {
                break;
            }
            let chunk = &self.board.chunks[i];
            if !chunk.has(LOST) || chunk.marks & (SACKED | RESENT) != 0 {
                i += 1;
                continue;
            }
            let bytes = chunk.end - chunk.start;
            if self.small_queue(p, bytes, 1) {
                break;
            }
            let packets = self.resend_one(p, i, room.min(most), out);
            if self.reducing() {
                self.prr_out += packets;
            }
            rearm |= i == 0 && !matches!(self.pending, Some((Timer::Reordering, _)));
            i += 1;
        }
        if rearm {
            self.set(Timer::Rto, self.rto_us, true);
        }
    }

    /// Sends a chunk again, at most `most` packets of it, as a repair; how many those are.
    pub(super) fn resend_one(&mut self, p: &Params, i: usize, most: u32, out: &mut Vec<Segment>) -> u32 {
        let packets = self.send_again(p, i, most, out);
        let chunk = &mut self.board.chunks[i];
        if !chunk.has(RESENT) {
            self.resent_out += packets;
            chunk.marks |= RESENT;
        }
        self.resent_ms.get_or_insert(Self::stamp_ms(self.window.now));
        self.undo_resent = self.undo_resent.max(0) + i64::from(packets);
        packets
    }

    /// The same, without a note that it repairs a loss.
    pub(super) fn send_again(&mut self, p: &Params, i: usize, most: u32, out: &mut Vec<Segment>) -> u32 {
        let (start, end) = (self.board.chunks[i].start, self.board.chunks[i].end);
        let limit = start + u64::from(most.max(1)) * u64::from(p.mss);
        if end > limit {
            self.board.cut(i, limit);
        }
        let mut chunk = self.board.chunks[i].clone();
        let stamped = if self.now_us().saturating_sub(chunk.sent_us) >= FORGOTTEN_US {
            Stamped::Never
        } else if chunk.has(PUSHED) {
            Stamped::ToTheEnd
        } else {
            Stamped::Inside
        };
        let earliest = self.stamp(p, &mut chunk);
        let packets = chunk.packets(p.mss);
        let push = chunk.leaves(packets);
        chunk.marks |= EVER_RESENT;
        self.resent += packets;
        let segment = Segment { start, end: chunk.end, push, stamped, earliest };
        self.board.chunks[i] = chunk;
        self.hand_down(segment, out);
        packets
    }
}
