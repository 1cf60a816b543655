//! The sending half: what leaves and when, what is lost, and how deep the window is cut.
//!
//! Losses are found by time (RACK, RFC 8985) and repaired at the rate of what is delivered
//! (proportional rate reduction, RFC 6937); a timeout or a reduction that turns out to have been a
//! mistake is undone (RFC 5682, RFC 3708, RFC 3522).

mod ack;
mod loss;
mod rate;
mod recovery;
pub(super) mod send;
mod timers;
mod undo;
mod window;

pub use send::Segment;

use super::rtt::Rtt;
use super::scoreboard::Scoreboard;
use super::timer::tick;
use super::{HEADERS, Opened, Params, Reply};
use crate::cc::tcp::any::{Any, Config};
use crate::cc::tcp::{Event, Sample, State, Window};
use ack::Found;
use loss::Rack;
use onramp_config::units::{Ps, US};
use rate::Rate;
use std::collections::VecDeque;
use timers::Timer;

/// Packets to be sent once an acknowledgement is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    Nothing,
    Lost,
    /// New data, to see whether a timeout was a mistake.
    New,
}

/// See the module.
#[derive(Debug)]
pub struct Tx {
    /// The connection as the controller sees it.
    pub window: Window,
    cc: Any,
    queue_paces: bool,
    rtt: Rtt,
    board: Scoreboard,
    /// First byte not acknowledged, next to be sent, and one beyond what was written.
    una: u64,
    nxt: u64,
    written: u64,
    /// The latest write began here, and up to here the socket took it at once.
    write_start: u64,
    taken: u64,
    /// It is being written; then, where the segment that is next to be sent ends, or where the last one did.
    writing: bool,
    seam: u64,
    /// Bytes of a segment at most, and after which one is marked (PSH), as they are written now.
    goal: u64,
    push_every: u64,
    /// Ends of records that are not sent.
    records: VecDeque<u64>,
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
    set_at: Ps,
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
    /// Packets sent again, and timeouts, of all flows so far and of the opening.
    pub resent: u32,
    /// See `resent`.
    pub timeouts: u32,
}

impl Tx {
    /// A connection that has just opened; `draw` is random. The host's queue may keep packets until their
    /// departure times.
    pub fn new(p: &Params, cc: &Config, queue_paces: bool, opened: Opened, now: Ps, draw: u64) -> Self {
        let mut rtt = Rtt::new(p.rto_min_us, p.rto_max_us);
        rtt.sample(opened.rtt_us, 0, 0);
        rtt.least(opened.rtt_us);
        let mut window = Window {
            now,
            mss: p.mss,
            cwnd: if opened.is_slow() { 1 } else { p.initial_window },
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
            paced: queue_paces || p.paced,
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
            taken: 0,
            writing: false,
            seam: 0,
            goal: 1,
            push_every: u64::MAX,
            records: VecDeque::new(),
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
            set_at: 0,
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
            resent: opened.resent,
            timeouts: opened.resent,
        };
        tx.pace(p);
        tx
    }

    /// Next byte to be sent.
    pub fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Packets in the congestion window.
    pub fn cwnd(&self) -> u32 {
        self.window.cwnd
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
        use super::scoreboard::{LOST, RESENT, SACKED};
        let sum = |marks: u8| -> u32 {
            let those = self.board.chunks.iter().filter(|chunk| chunk.has(marks));
            those.map(|chunk| chunk.packets(self.window.mss)).sum()
        };
        let counted = (self.packets_out, self.sacked_out, self.lost_out, self.resent_out);
        assert_eq!(counted, (sum(0), sum(SACKED), sum(LOST), sum(RESENT)));
        assert!(self.board.chunks.front().is_none_or(|first| first.start == self.una));
    }

    fn reducing(&self) -> bool {
        matches!(self.window.state, State::Cwr | State::Recovery)
    }

    fn in_flight(&self) -> u32 {
        self.packets_out - self.sacked_out - self.lost_out + self.resent_out
    }

    fn now_us(&self) -> u64 {
        self.window.now / US
    }

    fn now_ms(&self) -> u32 {
        Self::stamp_ms(self.window.now)
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

    /// An acknowledgement has come: the round trip in microseconds, if it does not follow from time stamps alone,
    /// which are of whole milliseconds.
    pub fn on_reply(&mut self, p: &Params, now: Ps, reply: &Reply) -> Option<u32> {
        self.window.now = now;
        if reply.ack > self.nxt {
            return None;
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
            return None;
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
        let once = found.first_us.filter(|_| !found.resent).or(found.first_sacked_us);
        let timed = sample.rtt_us.filter(|_| once.is_some());
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
            return timed;
        }
        let not_dup = found.window || found.acked || reply.with_data;
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
        timed
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
