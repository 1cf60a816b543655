//! Responses to a loss, a mark or a timeout, and how they end.

use super::ack::Found;
use super::{Repair, Tx, tick};
use crate::cc::tcp::{Event, State};
use crate::stack::tcp::scoreboard::EVER_RESENT;
use crate::stack::tcp::{Params, Reply};
use onramp_config::units::Ps;

impl Tx {
    /// Something is wrong, or has been (the kernel's `tcp_fastretrans_alert`).
    pub(super) fn alert(&mut self, p: &Params, reply: &Reply, found: &mut Found, repair: &mut Repair) {
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

    /// True if a retransmission is under way, or the first chunk has ever been retransmitted (the kernel's
    /// `tcp_any_retrans_done`).
    pub(super) fn any_resent(&self) -> bool {
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

    pub(super) fn keep_open(&mut self) {
        let wrong = self.sacked_out + self.lost_out > 0 || self.any_resent();
        let state = if wrong { State::Disorder } else { State::Open };
        if self.window.state != state {
            self.go(state);
            self.high = self.nxt;
        }
    }

    pub(super) fn begin_reduction(&mut self) {
        self.high = self.nxt;
        self.probe_high = None;
        self.window.credit = 0;
        self.window.prior_cwnd = self.window.cwnd;
        self.prr_delivered = 0;
        self.prr_out = 0;
        self.look();
        self.window.ssthresh = self.cc.ssthresh(&self.window);
    }

    pub(super) fn end_reduction(&mut self) {
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

    pub(super) fn enter_recovery(&mut self, ece: bool) {
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

    pub(super) fn enter_loss(&mut self, p: &Params) {
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
}
