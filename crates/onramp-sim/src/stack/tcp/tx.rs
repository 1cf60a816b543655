//! The sending half: what leaves and when, what is lost, and how deep the window is cut.
//!
//! Losses are found by time (RACK, RFC 8985) and repaired at the rate of what is delivered
//! (proportional rate reduction, RFC 6937); a timeout or a reduction that turns out to have been a
//! mistake is undone (RFC 5682, RFC 3708, RFC 3522).

use super::rtt::Rtt;
use super::scoreboard::{Chunk, EVER_RESENT, LOST, RESENT, SACKED, Scoreboard};
use super::{HEADERS, Params, Reply, timer};
use crate::cc::tcp::any::{Any, Config};
use crate::cc::tcp::{Event, JIFFY, Sample, State, Window};
use crate::units::{NS, Ps, US};

/// Least time in microseconds until a timer of loss detection.
const TIMER_MIN_US: u64 = 2000;
/// Packets out of order that make a loss likely (RFC 5681).
const REORDERING: u32 = 3;
/// Recoveries that a wider reordering window lasts.
const REO_PERSIST: u8 = 16;
/// Memory of a segment that waits, besides its payload, in bytes.
const OVERHEAD: u32 = 1280;
/// What TCP takes for the time until a segment leaves: 2^-10 of a second.
const PACING_SHIFT: u32 = 10;
/// Segments are smaller on long paths: half for each 2^9 us of round-trip time.
const TSO_RTT_LOG: u32 = 9;
/// Less than this part of a window is not worth a segment yet.
const TSO_DIVISOR: u64 = 3;
/// The first packets of a connection are not paced.
const UNPACED: u64 = 10;

/// A segment to hand down: up to 64 KB, which leave as packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte, and one beyond its last.
    pub start: u64,
    /// See `start`.
    pub end: u64,
    /// It ends what the application wrote.
    pub push: bool,
    /// It has been sent before.
    pub again: bool,
    /// The host's queue is not to let it go before this time, if it paces.
    pub earliest: Ps,
}

/// What the timer is set for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    Rto,
    Probe,
    Reordering,
    /// The receiver has no room, and its word that it has again may have been lost (RFC 9293 §3.8.6.1).
    Window,
}

/// What is to be sent once an acknowledgement is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Nothing,
    Lost,
    /// New data, to see whether a timeout was a mistake.
    New,
}

/// What an acknowledgement turned out to mean.
#[derive(Clone, Copy, Debug, Default)]
struct Found {
    /// It moved the first byte that is missing.
    advanced: bool,
    /// It changed the window.
    window: bool,
    /// It acknowledged data for the first time, in order or not.
    acked: bool,
    sacked: bool,
    /// Data that was sent once, before the loss, has arrived.
    original: bool,
    /// Data that was sent again has arrived.
    resent: bool,
    /// Something arrived twice; the loss probe did.
    dsack: bool,
    probe_twice: bool,
    ece: bool,
    /// The timer is to be set anew.
    rearm: bool,
    /// Something sent again is lost again.
    lost_again: bool,
    /// When the first and the last packet were sent that this acknowledges and that was
    /// sent once: in order, and selectively.
    first_us: Option<u64>,
    last_us: Option<u64>,
    first_sacked_us: Option<u64>,
    last_sacked_us: Option<u64>,
    /// Packets acknowledged in order.
    packets: u32,
}

/// The delivery rate of what was acknowledged (draft-cheng-iccrg-delivery-rate-estimation).
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    prior_delivered: u64,
    prior_us: u64,
    app_limited: bool,
    last_end: u64,
    send_us: u64,
}

/// What RACK knows of the latest packet that was delivered.
#[derive(Clone, Copy, Debug, Default)]
struct Rack {
    sent_us: u64,
    end: u64,
    rtt_us: u32,
    advanced: bool,
    /// Quarters of the least round-trip time that packets may be out of order.
    steps: u32,
    persist: u8,
    dsack: bool,
    last_delivered: u64,
    /// Packets have come out of order.
    reordered: bool,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Tx {
    /// What the controller sees.
    pub window: Window,
    cc: Any,
    queue_paces: bool,
    rtt: Rtt,
    board: Scoreboard,
    /// First byte not acknowledged, next to be sent, and one beyond what was written.
    una: u64,
    nxt: u64,
    written: u64,
    /// The latest write began here, is made into segments of so many packets at most, and is marked (PSH)
    /// after so many bytes.
    write_start: u64,
    goal: u32,
    push_every: u64,
    /// One beyond the last byte that left the host.
    left: u64,
    packets_out: u32,
    sacked_out: u32,
    lost_out: u32,
    resent_out: u32,
    /// The reduction ends when this byte is acknowledged.
    high: u64,
    /// A reduction that began with this byte missing may still be undone.
    undo_marker: Option<u64>,
    undo_resent: i64,
    prior_ssthresh: u32,
    /// When the first packet was sent again, in milliseconds.
    resent_ms: Option<u32>,
    prr_delivered: u32,
    prr_out: u32,
    rack: Rack,
    /// The loss probe is answered when this byte is acknowledged, and was sent twice.
    probe_high: Option<u64>,
    probe_again: bool,
    frto: bool,
    retransmits: u32,
    /// Timeout, with back-off.
    rto_us: u64,
    pending: Option<(Timer, Ps)>,
    /// Room at the receiver ends here; the largest it has had.
    window_end: u64,
    max_window: u32,
    /// Since when the window has been used, in ticks.
    cwnd_tick: u64,
    cwnd_used: u32,
    usage_end: u64,
    delivered_us: u64,
    first_sent_us: u64,
    /// When the latest segment may leave, by its pacing; in picoseconds.
    pace_at: Ps,
    segments_out: u64,
    /// Memory of what waits in the host.
    queued: u64,
    throttled: bool,
    repair: Repair,
    /// Packets sent more than once, and timeouts, of all flows so far.
    pub resent: u32,
    /// See `resent`.
    pub timeouts: u32,
}

impl Tx {
    /// A connection that has just opened, after a round trip of `rtt_us`; `draw` is random. The host's queue
    /// may keep packets until their departure times.
    pub fn new(p: &Params, cc: &Config, queue_paces: bool, rtt_us: u32, now: Ps, draw: u64) -> Self {
        let mut rtt = Rtt::new(p.rto_min_us, p.rto_max_us);
        rtt.sample(rtt_us, 0, 0);
        rtt.least(rtt_us);
        let mut window = Window {
            now,
            mss: p.mss,
            cwnd: p.initial_window,
            credit: 0,
            ssthresh: u32::MAX,
            clamp: u32::MAX,
            prior_cwnd: 0,
            in_flight: 0,
            delivered: 1,
            delivered_ce: 0,
            lost: 0,
            snd_una: 0,
            snd_nxt: 0,
            srtt8_us: rtt.srtt8,
            min_rtt_us: rtt.min,
            cwnd_limited: false,
            max_packets_out: 0,
            state: State::Open,
            pacing_rate: u64::MAX,
            paced: queue_paces,
            departure: 0,
            last_sent: now,
            last_delivered: now,
            app_limited: 0,
        };
        let cc = Any::new(cc, &mut window, draw);
        window.paced |= cc.wants_pacing();
        let mut tx = Self {
            cc,
            rto_us: u64::from(rtt.rto),
            rtt,
            window,
            queue_paces,
            board: Scoreboard::default(),
            una: 0,
            nxt: 0,
            written: 0,
            write_start: 0,
            goal: 1,
            push_every: u64::MAX,
            left: 0,
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            resent_out: 0,
            high: 0,
            undo_marker: None,
            undo_resent: 0,
            prior_ssthresh: 0,
            resent_ms: None,
            prr_delivered: 0,
            prr_out: 0,
            rack: Rack { steps: 1, ..Rack::default() },
            probe_high: None,
            probe_again: false,
            frto: false,
            retransmits: 0,
            pending: None,
            window_end: u64::from(p.first_window()),
            max_window: p.first_window(),
            cwnd_tick: tick(now),
            cwnd_used: 0,
            usage_end: 0,
            delivered_us: now / US,
            first_sent_us: now / US,
            pace_at: 0,
            segments_out: 0,
            queued: 0,
            throttled: false,
            repair: Repair::Nothing,
            resent: 0,
            timeouts: 0,
        };
        tx.pace(p);
        tx
    }

    /// Next byte to be sent.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// First byte that is not acknowledged.
    pub fn una(&self) -> u64 {
        self.una
    }

    /// One beyond the last byte written.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Everything that was written has arrived.
    pub fn idle(&self) -> bool {
        self.una == self.written
    }

    /// Counters are what the scoreboard says.
    #[cfg(test)]
    pub(super) fn check(&self) {
        let sum = |marks: u8| -> u32 {
            let those = self.board.chunks.iter().filter(|chunk| chunk.has(marks));
            those.map(|chunk| chunk.packets(self.window.mss)).sum()
        };
        let counted = (self.packets_out, self.sacked_out, self.lost_out, self.resent_out);
        assert_eq!(counted, (sum(0), sum(SACKED), sum(LOST), sum(RESENT)));
        assert!(self.board.chunks.front().is_none_or(|first| first.start == self.una));
    }

    /// It wants its packets to be marked by switches rather than dropped.
    pub fn wants_marks(&self) -> bool {
        self.cc.wants_marks()
    }

    /// When the timer fires, or the stack lets the next segment go, if it is set.
    pub fn deadline(&self) -> Option<Ps> {
        self.pending.map(|(_, at)| at)
    }

    /// When a segment that pacing keeps back in the stack may go on.
    pub fn paced_until(&self, now: Ps) -> Option<Ps> {
        let waits = self.nxt < self.written || self.repair != Repair::Nothing;
        (waits && self.paces_itself() && self.pace_at > now).then_some(self.pace_at)
    }

    fn paces_itself(&self) -> bool {
        !self.queue_paces && self.window.paced
    }

    /// The application writes `bytes`, all at once.
    pub fn write(&mut self, p: &Params, now: Ps, bytes: u64) {
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
        self.written += bytes;
        // Room for headers that the kernel leaves in a segment; half a window at most, which is also what is
        // written at most between two marks for the application at the other end.
        const ROOM: u32 = 320;
        let half = (self.max_window >> 1).max(p.mss);
        self.goal = ((p.gso_max_size - 1 - ROOM).min(half) / p.mss).max(1);
        let whole = u64::from(self.goal) * u64::from(p.mss);
        self.push_every = (u64::from(half) / whole + 1) * whole;
    }

    /// Nothing more is written than what was sent.
    pub fn stop(&mut self) -> u64 {
        self.written = self.nxt;
        if let Some(last) = self.board.chunks.back_mut() {
            last.push = true;
        }
        self.written - self.write_start
    }

    fn restart(&mut self, p: &Params, idle_us: u64) {
        self.event(Event::Restart);
        self.window.ssthresh = self.window.current_ssthresh();
        let floor = p.initial_window.min(self.window.cwnd);
        let mut left = idle_us as i64 - self.rto_us as i64;
        while left > 0 && self.window.cwnd > floor {
            self.window.cwnd >>= 1;
            left -= self.rto_us as i64;
        }
        self.window.cwnd = self.window.cwnd.max(floor);
        self.cwnd_tick = tick(self.window.now);
        self.cwnd_used = 0;
    }

    fn reducing(&self) -> bool {
        matches!(self.window.state, State::Cwr | State::Recovery)
    }

    fn in_flight(&self) -> u32 {
        self.packets_out - self.sacked_out - self.lost_out + self.resent_out
    }

    /// Brings the controller's view up to date.
    fn look(&mut self) {
        self.window.in_flight = self.in_flight();
        self.window.snd_una = self.una;
        self.window.snd_nxt = self.nxt;
        self.window.srtt8_us = self.rtt.srtt8;
        self.window.min_rtt_us = self.rtt.min;
        self.window.departure = self.pace_at;
        self.window.last_delivered = self.delivered_us * US;
    }

    fn event(&mut self, event: Event) {
        self.look();
        self.cc.on_event(&mut self.window, event);
    }

    fn go(&mut self, state: State) {
        self.look();
        self.cc.on_state(&mut self.window, state);
        self.window.state = state;
    }

    // What comes back.

    /// An acknowledgement has come.
    pub fn on_reply(&mut self, p: &Params, now: Ps, reply: &Reply) {
        self.window.now = now;
        if reply.ack > self.nxt {
            return;
        }
        let (mut found, mut rate) = (Found::default(), Rate::default());
        let mut repair = Repair::Nothing;
        let old = reply.ack < self.una;
        let (prior_una, prior_out) = (self.una, self.packets_out);
        let (prior_delivered, prior_lost) = (self.window.delivered, self.window.lost);
        let prior_highest = self.board.highest.max(self.una);
        let prior_in_flight = self.in_flight();
        if !old {
            if reply.ack > self.una {
                found.advanced = true;
                self.una = reply.ack;
                self.retransmits = 0;
            }
            let end = reply.ack + u64::from(reply.window);
            found.window = found.advanced || end > self.window_end;
            self.window_end = self.window_end.max(end);
            self.max_window = self.max_window.max(reply.window);
        }
        found.ece = reply.ece;
        let prior_sacked = self.sacked_out;
        if reply.blocks[0].1 > reply.blocks[0].0 {
            self.sacked(p, reply, prior_una, &mut found, &mut rate);
        }
        if old {
            if found.sacked || found.dsack {
                self.alert(p, reply, &mut found, &mut repair);
                self.repair = repair;
            }
            return;
        }
        if prior_out > 0 {
            self.clean(p, prior_highest, reply.ece, &mut found, &mut rate);
            self.rack_window(&rate);
        }
        self.look();
        let mut sample = Sample {
            rtt_us: None,
            acked: (self.window.delivered - prior_delivered) as u32,
            prior_in_flight,
            prior_delivered: rate.prior_delivered,
            ece: reply.ece,
            advanced: found.advanced,
            ..Sample::default()
        };
        sample.rtt_us = self.update_rtt(&found, reply);
        self.look();
        if prior_out > 0 {
            sample.delayed = self.maybe_delayed(p, prior_una, prior_sacked, &found, &rate);
            self.cc.sampled(&mut self.window, &sample);
        }
        self.cc.on_ack(&mut self.window, &sample);
        if self.probe_high.is_some() {
            self.probe_answered(reply.ack, &found);
        }
        if prior_out == 0 {
            if found.dsack {
                self.alert(p, reply, &mut found, &mut repair);
            }
            return;
        }
        let not_dup = found.window || found.acked;
        let alarming = found.sacked || found.ece || found.dsack;
        if !not_dup || alarming || self.window.state != State::Open {
            self.alert(p, reply, &mut found, &mut repair);
        }
        if found.rearm {
            self.set_timer(p);
        }
        sample.acked = (self.window.delivered - prior_delivered) as u32;
        sample.losses = (self.window.lost - prior_lost) as u32;
        self.rate(&mut sample, &rate);
        self.control(p, reply.ack, &sample, &found);
        self.repair = if repair == Repair::Nothing { self.repair } else { repair };
    }

    /// Takes notice of blocks that have arrived beyond what is in order.
    fn sacked(&mut self, p: &Params, reply: &Reply, prior_una: u64, found: &mut Found, rate: &mut Rate) {
        let mut blocks = reply.blocks;
        let (first, second) = (blocks[0], blocks[1]);
        let inside = second.1 > second.0 && first.0 >= second.0 && first.1 <= second.1;
        if first.0 < reply.ack || inside {
            found.dsack = true;
            self.twice(p, first, prior_una, found);
            if first.1 <= self.una || inside {
                blocks[0] = (0, 0);
            }
        }
        blocks.sort_unstable();
        let mut reordered = self.nxt;
        for (start, end) in blocks {
            if end <= start || end > self.nxt || end <= self.una {
                continue;
            }
            for i in self.board.within(start.max(self.una), end, p.mss) {
                self.sack(p, i, found, rate, &mut reordered);
            }
            self.board.highest = self.board.highest.max(end);
        }
        if reordered < self.board.highest && self.window.state != State::Loss {
            self.rack.reordered = true;
        }
    }

    /// A chunk has arrived out of order.
    fn sack(&mut self, p: &Params, i: usize, found: &mut Found, rate: &mut Rate, reordered: &mut u64) {
        let chunk = self.board.chunks[i].clone();
        if chunk.has(SACKED) {
            return;
        }
        let packets = chunk.packets(p.mss);
        self.rack_advance(&chunk);
        let kept = &mut self.board.chunks[i];
        if chunk.has(RESENT) {
            if chunk.has(LOST) {
                kept.marks &= !(LOST | RESENT);
                self.lost_out -= packets;
                self.resent_out -= packets;
            }
        } else {
            if !chunk.has(EVER_RESENT) {
                if chunk.start < self.board.highest {
                    *reordered = chunk.start.min(*reordered);
                }
                found.original |= chunk.end <= self.high;
                found.first_sacked_us.get_or_insert(chunk.sent_us);
                found.last_sacked_us = Some(chunk.sent_us);
            }
            if chunk.has(LOST) {
                kept.marks &= !LOST;
                self.lost_out -= packets;
            }
        }
        kept.marks |= SACKED;
        found.sacked = true;
        self.sacked_out += packets;
        self.count_delivered(packets, found.ece);
        self.rate_of(&chunk, rate);
        self.board.chunks[i].delivered_us = 0;
    }

    fn count_delivered(&mut self, packets: u32, ece: bool) {
        self.window.delivered += u64::from(packets);
        if ece {
            self.window.delivered_ce += u64::from(packets);
        }
    }

    /// The other end says that it got a block twice.
    fn twice(&mut self, p: &Params, block: (u64, u64), prior_una: u64, found: &mut Found) {
        let packets = (block.1 - block.0).div_ceil(u64::from(p.mss)) as i64;
        found.probe_twice = self.probe_high == Some(block.1);
        self.rack.dsack = true;
        if let Some(marker) = self.undo_marker
            && self.undo_resent > 0
            && block.1 <= prior_una
            && block.1 > marker
        {
            self.undo_resent = (self.undo_resent - packets).max(0);
        }
    }

    /// Forgets what has arrived in order.
    fn clean(&mut self, p: &Params, prior_highest: u64, ece: bool, found: &mut Found, rate: &mut Rate) {
        let mut reordered = self.nxt;
        while let Some(chunk) = self.board.chunks.front() {
            let (whole, before) = (chunk.end <= self.una, chunk.packets(p.mss));
            let acked = if whole {
                before
            } else {
                if chunk.start >= self.una {
                    break;
                }
                let rest = Chunk { start: self.una, ..chunk.clone() };
                before - rest.packets(p.mss)
            };
            if !whole && acked == 0 {
                self.board.chunks[0].start = self.una;
                break;
            }
            let chunk = chunk.clone();
            if chunk.has(EVER_RESENT) {
                if chunk.has(RESENT) {
                    self.resent_out -= acked;
                }
                found.resent = true;
            } else if !chunk.has(SACKED) {
                found.first_us.get_or_insert(chunk.sent_us);
                found.last_us = Some(chunk.sent_us);
                reordered = reordered.min(chunk.start);
                found.original |= chunk.end <= self.high;
            }
            if chunk.has(SACKED) {
                self.sacked_out -= acked;
            } else {
                self.count_delivered(acked, ece);
                self.rack_advance(&chunk);
            }
            if chunk.has(LOST) {
                self.lost_out -= acked;
            }
            self.packets_out -= acked;
            found.packets += acked;
            found.acked = true;
            self.rate_of(&chunk, rate);
            if !whole {
                self.board.chunks[0].start = self.una;
                break;
            }
            self.board.chunks.pop_front();
        }
        if found.acked {
            found.rearm = true;
            // A hole that was never sent again is filled: packets were out of order.
            if reordered < prior_highest {
                self.rack.reordered = true;
            }
        } else if let (Some(sent), Some(head)) = (found.first_sacked_us, self.board.chunks.front()) {
            // Only if it is younger than the head: the timeout of a hole does not move on for ever.
            found.rearm |= sent > head.sent_us;
        }
    }

    fn now_us(&self) -> u64 {
        self.window.now / US
    }

    fn now_ms(&self) -> u32 {
        Self::stamp_ms(self.window.now)
    }

    fn update_rtt(&mut self, found: &Found, reply: &Reply) -> Option<u32> {
        let now = self.now_us();
        let since = |sent: u64| now.saturating_sub(sent) as u32;
        let mut first = found.first_us.filter(|_| !found.resent).map(since);
        let mut last = found.last_us.filter(|_| !found.resent).map(since);
        if let (Some(a), Some(b)) = (found.first_sacked_us, found.last_sacked_us) {
            first = first.or(Some(since(a)));
            last = Some(since(b));
        }
        if first.is_none() && found.acked && reply.echo_ms > 0 {
            let ms = self.now_ms().wrapping_sub(reply.echo_ms).max(1);
            first = Some(ms * 1000);
            last = first;
        }
        let first = first?;
        if let Some(last) = last {
            self.rtt.least(last);
        }
        self.rtt.sample(first, self.una, self.nxt);
        self.rto_us = u64::from(self.rtt.rto);
        last
    }

    /// A lone packet, smaller than a full one, may have been acknowledged late.
    fn maybe_delayed(&self, p: &Params, prior_una: u64, prior_sacked: u32, found: &Found, rate: &Rate) -> bool {
        found.first_us.is_some()
            && !found.resent
            && found.packets == 1
            && prior_sacked == 0
            && self.una - prior_una < u64::from(p.mss)
            && rate.prior_delivered + 1 == self.window.delivered
            && !(found.sacked || found.ece || found.dsack)
    }

    fn rate_of(&mut self, chunk: &Chunk, rate: &mut Rate) {
        if chunk.delivered_us == 0 {
            return;
        }
        let newer = (chunk.sent_us, chunk.end) > (self.first_sent_us, rate.last_end);
        if rate.prior_us == 0 || newer {
            *rate = Rate {
                prior_delivered: chunk.delivered,
                prior_us: chunk.delivered_us,
                app_limited: chunk.app_limited,
                last_end: chunk.end,
                send_us: chunk.sent_us.saturating_sub(chunk.first_sent_us),
            };
            self.first_sent_us = chunk.sent_us;
        }
    }

    fn rate(&mut self, sample: &mut Sample, rate: &Rate) {
        let w = &mut self.window;
        if w.app_limited > 0 && w.delivered > w.app_limited {
            w.app_limited = 0;
        }
        let now = w.now / US;
        if sample.acked > 0 {
            self.delivered_us = now;
        }
        sample.prior_delivered = rate.prior_delivered;
        sample.app_limited = rate.app_limited;
        if rate.prior_us == 0 {
            return;
        }
        let interval = rate.send_us.max(now.saturating_sub(rate.prior_us)) as u32;
        sample.delivered = Some((self.window.delivered - rate.prior_delivered) as u32);
        sample.interval_us = if interval < self.rtt.min { 0 } else { interval };
    }

    // Loss.

    /// A chunk has arrived: it may be the latest that was sent.
    fn rack_advance(&mut self, chunk: &Chunk) {
        let rtt = self.now_us().saturating_sub(chunk.sent_us) as u32;
        if rtt < self.rtt.min && chunk.has(EVER_RESENT) {
            // It may be the first copy that arrived.
            return;
        }
        self.rack.advanced = true;
        self.rack.rtt_us = rtt;
        if (chunk.sent_us, chunk.end) > (self.rack.sent_us, self.rack.end) {
            (self.rack.sent_us, self.rack.end) = (chunk.sent_us, chunk.end);
        }
    }

    fn rack_window(&mut self, rate: &Rate) {
        if rate.prior_us == 0 {
            return;
        }
        let rack = &mut self.rack;
        if rate.prior_delivered < rack.last_delivered {
            rack.dsack = false;
        }
        if rack.dsack {
            rack.steps = (rack.steps + 1).min(255);
            rack.dsack = false;
            rack.last_delivered = self.window.delivered;
            rack.persist = REO_PERSIST;
        } else if rack.persist == 0 {
            rack.steps = 1;
        }
    }

    fn reordering_us(&self) -> u64 {
        if !self.rack.reordered && (self.window.state >= State::Recovery || self.sacked_out >= REORDERING) {
            return 0;
        }
        let quarter = u64::from(self.rtt.min >> 2) * u64::from(self.rack.steps);
        quarter.min(u64::from(self.rtt.srtt8 >> 3))
    }

    /// Marks what was sent long enough before something that has arrived; the longest time in
    /// microseconds until others are.
    fn detect(&mut self, p: &Params) -> u64 {
        let (wait, now) = (self.reordering_us(), self.now_us());
        let limit = u64::from(self.rack.rtt_us) + wait;
        let latest = (self.rack.sent_us, self.rack.end);
        let mut longest = 0;
        for i in 0..self.board.chunks.len() {
            let chunk = &self.board.chunks[i];
            if chunk.has(SACKED) || chunk.has(LOST) && !chunk.has(RESENT) || latest <= (chunk.sent_us, chunk.end) {
                continue;
            }
            let age = now.saturating_sub(chunk.sent_us);
            if age >= limit {
                self.lose(p, i);
            } else {
                longest = longest.max(limit - age);
            }
        }
        longest
    }

    fn lose(&mut self, p: &Params, i: usize) {
        let chunk = &mut self.board.chunks[i];
        let packets = chunk.packets(p.mss);
        if chunk.has(SACKED) {
            return;
        }
        if chunk.has(LOST) {
            if chunk.has(RESENT) {
                chunk.marks &= !RESENT;
                self.resent_out -= packets;
                self.window.lost += u64::from(packets);
            }
        } else {
            chunk.marks |= LOST;
            self.lost_out += packets;
            self.window.lost += u64::from(packets);
        }
    }

    fn identify(&mut self, p: &Params, found: &mut Found) {
        if self.board.chunks.is_empty() || !self.rack.advanced {
            return;
        }
        self.rack.advanced = false;
        let before = self.resent_out;
        let longest = self.detect(p);
        if longest > 0 {
            self.set(Timer::Reordering, longest + TIMER_MIN_US, false);
            found.rearm = false;
        }
        found.lost_again |= self.resent_out < before;
    }

    /// Something is wrong, or has been (the kernel's `tcp_fastretrans_alert`).
    fn alert(&mut self, p: &Params, reply: &Reply, found: &mut Found, repair: &mut Repair) {
        if found.ece {
            self.prior_ssthresh = 0;
        }
        if self.window.state == State::Open {
            self.resent_ms = None;
        } else if self.una >= self.high {
            match self.window.state {
                State::Cwr if self.una != self.high => {
                    self.end_reduction();
                    self.go(State::Open);
                }
                State::Recovery => {
                    self.try_undo_recovery(reply);
                    self.end_reduction();
                }
                _ => {}
            }
        }
        match self.window.state {
            State::Recovery => {
                if found.advanced && self.try_undo_partial(reply) {
                    return;
                }
                if self.try_undo_dsack() {
                    self.try_to_open(found);
                }
                self.identify(p, found);
                if self.window.state != State::Recovery {
                    if self.lost_out == 0 {
                        return;
                    }
                    self.enter_recovery(found.ece);
                }
            }
            State::Loss => {
                self.process_loss(found, reply, repair);
                self.identify(p, found);
                if !(self.window.state == State::Open || found.lost_again) {
                    return;
                }
                if !self.alert_open(p, found) {
                    return;
                }
            }
            _ => {
                if !self.alert_open(p, found) {
                    return;
                }
            }
        }
        *repair = Repair::Lost;
    }

    fn alert_open(&mut self, p: &Params, found: &mut Found) -> bool {
        if self.window.state <= State::Disorder {
            self.try_undo_dsack();
        }
        self.identify(p, found);
        if self.lost_out == 0 {
            self.try_to_open(found);
            return false;
        }
        self.enter_recovery(found.ece);
        true
    }

    fn process_loss(&mut self, found: &mut Found, reply: &Reply, repair: &mut Repair) {
        let recovered = self.una >= self.high;
        if found.advanced && self.try_undo_loss(reply, false) {
            return;
        }
        if self.frto {
            if found.original && self.try_undo_loss(reply, true) {
                return;
            }
            if self.nxt > self.high {
                if found.sacked || !(found.advanced || found.window || found.acked) {
                    self.frto = false;
                }
            } else if found.advanced && !recovered {
                self.high = self.nxt;
                if self.nxt < self.written && self.window_end > self.nxt {
                    *repair = Repair::New;
                    return;
                }
                self.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery(reply);
            return;
        }
        *repair = Repair::Lost;
    }

    /// An acknowledgement answers a packet sent before anything was sent again.
    fn delayed(&self, reply: &Reply) -> bool {
        self.resent_ms.is_none_or(|first| reply.echo_ms > 0 && reply.echo_ms < first)
    }

    fn may_undo(&self, reply: &Reply) -> bool {
        self.undo_marker.is_some() && (self.undo_resent == 0 || self.delayed(reply))
    }

    fn undo(&mut self, unmark: bool) {
        if unmark {
            for chunk in &mut self.board.chunks {
                chunk.marks &= !LOST;
            }
            self.lost_out = 0;
        }
        if self.prior_ssthresh > 0 {
            self.look();
            self.window.cwnd = self.cc.undo(&self.window);
            self.window.ssthresh = self.window.ssthresh.max(self.prior_ssthresh);
        }
        self.cwnd_tick = tick(self.window.now);
        self.undo_marker = None;
        self.rack.advanced = true;
    }

    fn try_undo_recovery(&mut self, reply: &Reply) {
        if self.may_undo(reply) {
            self.undo(false);
        } else {
            self.rack.persist = self.rack.persist.saturating_sub(1);
        }
        self.go(State::Open);
    }

    fn try_undo_partial(&mut self, reply: &Reply) -> bool {
        if self.undo_marker.is_none() || !self.delayed(reply) {
            return false;
        }
        self.rack.reordered = true;
        if self.resent_out > 0 {
            return true;
        }
        if !self.any_resent() {
            self.resent_ms = None;
        }
        self.undo(true);
        self.keep_open();
        false
    }

    fn try_undo_dsack(&mut self) -> bool {
        if self.undo_marker.is_none() || self.undo_resent != 0 {
            return false;
        }
        self.rack.persist = (self.rack.persist + 1).min(REO_PERSIST);
        self.undo(false);
        true
    }

    fn try_undo_loss(&mut self, reply: &Reply, frto: bool) -> bool {
        if !(frto || self.may_undo(reply)) {
            return false;
        }
        self.undo(true);
        self.retransmits = 0;
        self.go(State::Open);
        true
    }

    /// Whether the first chunk has been sent again.
    fn any_resent(&self) -> bool {
        self.resent_out > 0 || self.board.chunks.front().is_some_and(|chunk| chunk.has(EVER_RESENT))
    }

    fn try_to_open(&mut self, found: &Found) {
        if !self.any_resent() {
            self.resent_ms = None;
        }
        if found.ece && self.window.state < State::Cwr {
            self.enter_cwr();
        }
        if self.window.state != State::Cwr {
            self.keep_open();
        }
    }

    fn keep_open(&mut self) {
        let wrong = self.sacked_out + self.lost_out > 0 || self.any_resent();
        let state = if wrong { State::Disorder } else { State::Open };
        if self.window.state != state {
            self.go(state);
            self.high = self.nxt;
        }
    }

    fn begin_reduction(&mut self) {
        self.high = self.nxt;
        self.probe_high = None;
        self.window.credit = 0;
        self.window.prior_cwnd = self.window.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.look();
        self.window.ssthresh = self.cc.ssthresh(&self.window);
    }

    fn end_reduction(&mut self) {
        if self.cc.steers() {
            return;
        }
        let w = &mut self.window;
        if w.ssthresh < u32::MAX / 2 && (w.state == State::Cwr || self.undo_marker.is_some()) {
            w.cwnd = w.ssthresh;
            self.cwnd_tick = tick(w.now);
        }
        self.event(Event::Reduced);
    }

    fn init_undo(&mut self) {
        self.undo_marker = Some(self.una);
        // Without anything sent again yet, there is nothing to wait for.
        self.undo_resent = if self.resent_out > 0 { i64::from(self.resent_out) } else { -1 };
    }

    fn enter_recovery(&mut self, ece: bool) {
        self.prior_ssthresh = 0;
        self.init_undo();
        if !self.reducing() {
            if !ece {
                self.prior_ssthresh = self.window.current_ssthresh();
            }
            self.begin_reduction();
        }
        self.go(State::Recovery);
    }

    fn enter_loss(&mut self, p: &Params) {
        let anew = self.window.state < State::Recovery;
        for i in 0..self.board.chunks.len() {
            let age = self.now_us().saturating_sub(self.board.chunks[i].sent_us);
            // What was sent lately is not lost yet.
            if i == 0 || age >= u64::from(self.rack.rtt_us) {
                self.lose(p, i);
            }
        }
        let state = self.window.state;
        if state <= State::Disorder || self.high <= self.una || state == State::Loss && self.retransmits == 0 {
            self.prior_ssthresh = self.window.current_ssthresh();
            self.window.prior_cwnd = self.window.cwnd;
            self.look();
            self.window.ssthresh = self.cc.ssthresh(&self.window);
            self.event(Event::Timeout);
            self.init_undo();
        }
        self.window.cwnd = self.in_flight() + 1;
        self.window.credit = 0;
        self.cwnd_tick = tick(self.window.now);
        self.go(State::Loss);
        self.high = self.nxt;
        self.probe_high = None;
        self.frto = p.frto && (anew || self.retransmits > 0);
    }

    fn probe_answered(&mut self, ack: u64, found: &Found) {
        let Some(high) = self.probe_high.filter(|high| ack >= *high) else { return };
        if !self.probe_again || found.probe_twice {
            self.probe_high = None;
        } else if ack > high {
            // The probe repaired a loss that nothing else has told of.
            self.begin_reduction();
            self.go(State::Cwr);
            self.end_reduction();
            self.keep_open();
        } else if !(found.advanced || found.window || found.acked || found.sacked) {
            self.probe_high = None;
        }
    }

    fn control(&mut self, p: &Params, ack: u64, sample: &Sample, found: &Found) {
        self.look();
        if self.cc.control(&mut self.window, sample) {
            return;
        }
        if self.reducing() {
            self.reduce(sample, found);
        } else if found.acked {
            self.cc.grow(&mut self.window, ack, sample.acked);
            self.cwnd_tick = tick(self.window.now);
        }
        self.pace(p);
    }

    /// Proportional rate reduction (RFC 6937).
    fn reduce(&mut self, sample: &Sample, found: &Found) {
        if sample.acked == 0 {
            return;
        }
        self.prr_delivered += sample.acked;
        let (ssthresh, in_flight) = (self.window.ssthresh, self.in_flight());
        let sent = if ssthresh < in_flight {
            let share = u64::from(ssthresh) * u64::from(self.prr_delivered);
            share.div_ceil(u64::from(self.window.prior_cwnd.max(1))) as i64 - i64::from(self.prr_out)
        } else {
            let mut room = (i64::from(self.prr_delivered) - i64::from(self.prr_out)).max(i64::from(sample.acked));
            if found.advanced && sample.losses == 0 {
                room += 1;
            }
            room.min(i64::from(ssthresh - in_flight))
        };
        let sent = sent.max(i64::from(self.prr_out == 0));
        self.window.cwnd = (i64::from(in_flight) + sent).max(0) as u32;
    }

    /// The rate at which the host's queue would pace the window.
    fn pace(&mut self, p: &Params) {
        if self.cc.steers() {
            return;
        }
        let w = &mut self.window;
        let ratio = p.pacing_ratios[usize::from(w.cwnd >= w.ssthresh / 2)];
        let bytes = u64::from(p.mss) * u64::from(w.cwnd.max(self.packets_out));
        // Per cent, and eighths of a microsecond.
        w.pacing_rate = (u128::from(bytes) * u128::from(ratio) * 80_000 / u128::from(self.rtt.srtt8.max(1))) as u64;
    }

    // Timers.

    fn set(&mut self, timer: Timer, span_us: u64, after_pacing: bool) {
        let mut span = span_us;
        if after_pacing {
            span += self.pace_at.saturating_sub(self.window.now) / US;
        }
        self.pending = Some((timer, timer::fires(self.window.now, span)));
    }

    /// Time until the head's timeout, negative if it is over.
    fn rto_left(&self) -> i64 {
        let sent = self.board.chunks.front().map_or(self.now_us(), |chunk| chunk.sent_us);
        sent as i64 + self.rto_us as i64 - self.now_us() as i64
    }

    fn rearm_rto(&mut self) {
        if self.packets_out == 0 {
            self.pending = None;
            return;
        }
        let since_head = matches!(self.pending, Some((Timer::Reordering | Timer::Probe, _)));
        let span = if since_head { self.rto_left().max(1) as u64 } else { self.rto_us };
        self.set(Timer::Rto, span, true);
    }

    fn set_timer(&mut self, p: &Params) {
        if self.packets_out == 0 || !self.schedule_probe(p, true) {
            self.rearm_rto();
        }
    }

    fn schedule_probe(&mut self, p: &Params, advancing: bool) -> bool {
        if !p.loss_probe || !matches!(self.window.state, State::Open | State::Cwr) {
            return false;
        }
        let mut span = u64::from(self.rtt.srtt8 >> 2);
        span += if self.packets_out == 1 { u64::from(p.rto_min_us) } else { TIMER_MIN_US };
        let rto = if advancing { self.rto_us as i64 } else { self.rto_left() };
        if rto > 0 {
            span = span.min(rto as u64);
        }
        self.set(Timer::Probe, span, true);
        true
    }

    /// The timer has fired; what is to leave comes from [`Tx::transmit`].
    pub fn on_timer(&mut self, p: &Params, now: Ps, out: &mut Vec<Segment>) {
        self.window.now = now;
        let Some((timer, _)) = self.pending.filter(|(_, at)| *at <= now) else { return };
        match timer {
            Timer::Probe => self.probe(p, out),
            Timer::Reordering => {
                let before = (self.in_flight(), self.window.lost);
                self.detect(p);
                self.pending = None;
                if before.0 != self.in_flight() {
                    if self.window.state != State::Recovery {
                        self.enter_recovery(false);
                        if !self.cc.steers() {
                            let losses = (self.window.lost - before.1) as u32;
                            let sample = Sample { acked: 1, losses, ..Sample::default() };
                            self.reduce(&sample, &Found::default());
                        }
                    }
                    self.resend(p, out);
                }
                if !matches!(self.pending, Some((Timer::Rto, _))) {
                    self.pending = Some((Timer::Reordering, 0));
                    self.rearm_rto();
                }
            }
            Timer::Rto => {
                self.pending = None;
                self.timeout(p, out);
            }
            Timer::Window => {
                self.pending = None;
                self.rto_us = (self.rto_us * 2).min(u64::from(p.rto_max_us));
                let room = self.window_end.saturating_sub(self.nxt).clamp(1, u64::from(p.mss));
                self.send_segment(p, self.written.min(self.nxt + room), out);
            }
        }
    }

    fn timeout(&mut self, p: &Params, out: &mut Vec<Segment>) {
        if self.packets_out == 0 || self.board.chunks.is_empty() {
            return;
        }
        self.timeouts += 1;
        self.enter_loss(p);
        self.retransmits += 1;
        self.resend_one(p, 0, 1, out);
        self.rto_us = (self.rto_us * 2).min(u64::from(p.rto_max_us));
        self.set(Timer::Rto, self.rto_us, false);
    }

    /// Probes for a lost tail (RFC 8985 §7.3): new data if there is some, else the last packet.
    fn probe(&mut self, p: &Params, out: &mut Vec<Segment>) {
        if self.probe_high.is_none() {
            self.probe_again = false;
            let before = self.packets_out;
            if self.nxt < self.written && self.window_end >= self.nxt + u64::from(p.mss) {
                self.send_new(p, true, out);
            } else if let Some(last) = self.board.chunks.len().checked_sub(1) {
                let chunk = &self.board.chunks[last];
                // What still waits in the host is not sent a second time.
                if chunk.end <= self.left {
                    let (packets, start) = (chunk.packets(p.mss), chunk.start);
                    let mut i = last;
                    if packets > 1 {
                        self.board.cut(last, start + u64::from(packets - 1) * u64::from(p.mss));
                        i += 1;
                    }
                    self.send_again(p, i, 1, out);
                    self.probe_again = true;
                }
            }
            if self.packets_out > before || self.probe_again {
                self.probe_high = Some(self.nxt);
                self.pending = None;
            }
        }
        self.rearm_rto();
    }

    // What leaves.

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

    /// The host's own queue is full: as if a mark had come.
    pub fn slow_down(&mut self, now: Ps) {
        self.window.now = now;
        if self.window.state < State::Cwr {
            self.enter_cwr();
        }
    }

    fn enter_cwr(&mut self) {
        self.prior_ssthresh = 0;
        self.undo_marker = None;
        self.begin_reduction();
        self.go(State::Cwr);
    }

    /// Memory a segment of so many bytes takes while it waits in the host.
    pub fn memory(bytes: u64) -> u32 {
        bytes as u32 + OVERHEAD
    }

    fn small_queue(&mut self, p: &Params, bytes: u64, factor: u32) -> bool {
        let limit = u64::from(2 * Self::memory(bytes)).max(self.window.pacing_rate >> PACING_SHIFT);
        let limit = limit.min(u64::from(p.limit_output)) << factor;
        if self.queued <= limit || self.board.chunks.len() <= 1 {
            return false;
        }
        self.throttled = true;
        true
    }

    fn waits_for_pacing(&self) -> bool {
        self.paces_itself() && self.pace_at > self.window.now
    }

    /// Packets of the largest segment to hand down.
    fn most_packets(&self, p: &Params, least: u32) -> u32 {
        let mut bytes = self.window.pacing_rate >> PACING_SHIFT;
        let halvings = self.rtt.min >> TSO_RTT_LOG;
        if halvings < 32 {
            bytes += u64::from(p.gso_max_size >> halvings);
        }
        let bytes = bytes.min(u64::from(p.gso_max_size));
        ((bytes / u64::from(p.mss)) as u32).max(least).min((p.gso_max_size / p.mss).max(1))
    }

    fn send_new(&mut self, p: &Params, probe: bool, out: &mut Vec<Segment>) {
        let mss = u64::from(p.mss);
        let least = self.cc.least_segment(&self.window).unwrap_or(2);
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
            // A segment of what was written ends at a multiple of the goal, or is made longer up to the quota.
            let goal = u64::from(self.goal) * mss;
            let mut end = (self.write_start + ((self.nxt - self.write_start) / goal + 1) * goal).min(self.written);
            end = end.max((self.nxt + u64::from(quota) * mss).min(self.written));
            if self.nxt + mss.min(self.written - self.nxt) > self.window_end {
                break;
            }
            let packets = (end - self.nxt).div_ceil(mss);
            if packets > 1 {
                if !probe && self.defers(p, end, most, &mut limited) {
                    break;
                }
                let room = (self.window_end - self.nxt).min(u64::from(quota) * mss);
                if end - self.nxt > room {
                    end = self.nxt + (room / mss * mss).max(mss.min(room));
                }
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
        (to - self.write_start) / self.push_every
    }

    fn chunk_start(&self) -> u64 {
        self.board.chunks.back().map_or(self.nxt, |chunk| chunk.start)
    }

    /// Whether to wait for a larger segment: the next acknowledgement is near, and little may be sent.
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
        if limit >= window / TSO_DIVISOR {
            return false;
        }
        let Some(head) = self.board.chunks.front() else { return false };
        let srtt = u64::from(self.rtt.srtt8 >> 3) * US;
        let expected = head.sent_us * US + srtt;
        if expected > now + (srtt / 2).min(1000 * US) {
            return false;
        }
        if cong < room {
            *limited |= cong <= whole;
        }
        true
    }

    /// Sends what is next, up to `end`.
    fn send_segment(&mut self, p: &Params, end: u64, out: &mut Vec<Segment>) {
        if self.in_flight() == 0 {
            self.event(Event::Start);
        }
        let start = self.nxt;
        let mut chunk = Chunk {
            start,
            end,
            marks: 0,
            push: end == self.written || self.pushes(end) > self.pushes(start),
            sent_us: 0,
            delivered: 0,
            delivered_us: 0,
            first_sent_us: 0,
            app_limited: false,
        };
        let earliest = self.stamp(p, &mut chunk);
        let (packets, push) = (chunk.packets(p.mss), chunk.push);
        self.board.chunks.push_back(chunk);
        let first = self.packets_out == 0;
        self.nxt = end;
        self.packets_out += packets;
        if first || matches!(self.pending, Some((Timer::Probe | Timer::Window, _))) {
            self.rearm_rto();
        }
        self.hand_down(Segment { start, end, push, again: false, earliest }, out);
    }

    fn hand_down(&mut self, segment: Segment, out: &mut Vec<Segment>) {
        self.queued += u64::from(Self::memory(segment.end - segment.start));
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
        chunk.sent_us = at / US;
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
    fn resend(&mut self, p: &Params, out: &mut Vec<Segment>) {
        let most = self.most_packets(p, self.cc.least_segment(&self.window).unwrap_or(2));
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
    fn resend_one(&mut self, p: &Params, i: usize, most: u32, out: &mut Vec<Segment>) -> u32 {
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
    fn send_again(&mut self, p: &Params, i: usize, most: u32, out: &mut Vec<Segment>) -> u32 {
        let (start, end) = (self.board.chunks[i].start, self.board.chunks[i].end);
        let limit = start + u64::from(most.max(1)) * u64::from(p.mss);
        if end > limit {
            self.board.cut(i, limit);
        }
        let mut chunk = self.board.chunks[i].clone();
        let earliest = self.stamp(p, &mut chunk);
        chunk.marks |= EVER_RESENT;
        let packets = chunk.packets(p.mss);
        self.resent += packets;
        let segment = Segment { start, end: chunk.end, push: chunk.push, again: true, earliest };
        self.board.chunks[i] = chunk;
        self.hand_down(segment, out);
        packets
    }

    /// Notes whether the window was used (RFC 7661).
    fn validate(&mut self, p: &Params, limited: bool) {
        let w = &mut self.window;
        if self.una >= self.usage_end || limited || !w.cwnd_limited && self.packets_out > w.max_packets_out {
            w.cwnd_limited = limited;
            w.max_packets_out = self.packets_out;
            self.usage_end = self.nxt;
        }
        if w.is_limited() {
            self.cwnd_used = 0;
            self.cwnd_tick = tick(w.now);
            return;
        }
        self.cwnd_used = self.cwnd_used.max(self.packets_out);
        let unused = (tick(w.now) - self.cwnd_tick) * 1000;
        if p.slow_start_after_idle && unused >= self.rto_us && !self.cc.steers() {
            if self.window.state == State::Open {
                let used = self.cwnd_used.max(p.initial_window);
                if used < self.window.cwnd {
                    self.window.ssthresh = self.window.current_ssthresh();
                    self.window.cwnd = (self.window.cwnd + used) >> 1;
                }
                self.cwnd_used = 0;
            }
            self.cwnd_tick = tick(self.window.now);
        }
    }

    /// Time stamp of what leaves now, in milliseconds; never 0.
    pub fn stamp_ms(now: Ps) -> u32 {
        ((now / US / 1000) as u32).max(1)
    }

    /// Bytes on the wire of a packet with so much payload.
    pub fn wire(payload: u64) -> u16 {
        (payload + u64::from(HEADERS)) as u16
    }
}

fn tick(now: Ps) -> u64 {
    now / JIFFY
}
