//! The one timer of a connection: timeouts, probes for a lost tail or a closed window, waiting for packets that
//! are late.

use super::ack::Found;
use super::{Segment, Tx};
use crate::cc::tcp::{Sample, State};
use crate::stack::tcp::{Params, timer};
use onramp_config::units::{Ps, US};

/// Least time in microseconds until a timer of loss detection.
pub(super) const TIMER_MIN_US: u64 = 2000;

/// Purpose of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    Rto,
    Probe,
    Reordering,
    /// The receiver has no room, and its word that it has again may have been lost (RFC 9293 §3.8.6.1).
    Window,
}

impl Tx {
    /// When the timer fires, or the stack lets the next segment go, if it is set.
    pub fn deadline(&self) -> Option<Ps> {
        self.pending.map(|(_, at)| at)
    }

    pub(super) fn set(&mut self, timer: Timer, span_us: u64, after_pacing: bool) {
        let mut span = span_us;
        if after_pacing {
            span += self.pace_at.saturating_sub(self.window.now) / US;
        }
        let fires = timer::fires(self.window.now, span);
        if self.deadline() != Some(fires) {
            self.set_at = self.window.now;
        }
        self.pending = Some((timer, fires));
    }

    /// When the timer was set to its deadline: of those due in one tick the kernel takes the latest first.
    pub fn set_at(&self) -> Ps {
        self.set_at
    }

    /// Time until the head's timeout, negative if it is over.
    fn rto_left(&self) -> i64 {
        let sent = self.board.chunks.front().map_or(self.now_us(), |chunk| chunk.sent_us);
        sent as i64 + self.rto_us as i64 - self.now_us() as i64
    }

    pub(super) fn rearm_rto(&mut self) {
        if self.packets_out == 0 {
            self.pending = None;
            return;
        }
        let since_head = matches!(self.pending, Some((Timer::Reordering | Timer::Probe, _)));
        let span = if since_head { self.rto_left().max(1) as u64 } else { self.rto_us };
        self.set(Timer::Rto, span, true);
    }

    pub(super) fn set_timer(&mut self, p: &Params) {
        if self.packets_out == 0 || !self.schedule_probe(p, true) {
            self.rearm_rto();
        }
    }

    pub(super) fn schedule_probe(&mut self, p: &Params, advancing: bool) -> bool {
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

    pub(super) fn probe_answered(&mut self, ack: u64, found: &Found) {
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
}
