//! Reductions that turn out to have been mistakes (RFC 5682, RFC 3708, RFC 3522).

use super::loss::REO_PERSIST;
use super::{Tx, tick};
use crate::cc::tcp::State;
use crate::stack::tcp::Reply;
use crate::stack::tcp::scoreboard::LOST;

impl Tx {
    pub(super) fn init_undo(&mut self) {
        self.undo_marker = Some(self.una);
        // Without anything sent again yet, there is nothing to wait for.
        self.undo_resent = if self.resent_out > 0 { i64::from(self.resent_out) } else { -1 };
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

    pub(super) fn try_undo_recovery(&mut self, reply: &Reply) {
        if self.may_undo(reply) {
            self.undo(false);
        } else {
            self.rack.persist = self.rack.persist.saturating_sub(1);
        }
        self.go(State::Open);
    }

    pub(super) fn try_undo_partial(&mut self, reply: &Reply) -> bool {
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

    pub(super) fn try_undo_dsack(&mut self) -> bool {
        if self.undo_marker.is_none() || self.undo_resent != 0 {
            return false;
        }
        self.rack.persist = (self.rack.persist + 1).min(REO_PERSIST);
        self.undo(false);
        true
    }

    pub(super) fn try_undo_loss(&mut self, reply: &Reply, frto: bool) -> bool {
        if !(frto || self.may_undo(reply)) {
            return false;
        }
        self.undo(true);
        self.retransmits = 0;
        self.go(State::Open);
        true
    }
}
