//! Loss detection: a packet is lost if it was sent long enough before others that have arrived (RACK, RFC 8985).

use super::Tx;
use super::ack::Found;
use super::rate::Rate;
use super::timers::{TIMER_MIN_US, Timer};
use crate::cc::tcp::State;
use crate::stack::tcp::Params;
use crate::stack::tcp::scoreboard::{Chunk, EVER_RESENT, LOST, RESENT, SACKED};

/// Recoveries that a wider reordering window lasts.
pub(super) const REO_PERSIST: u8 = 16;

/// RACK's state: the latest packet that was delivered, and the reordering window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rack {
    pub sent_us: u64,
    pub end: u64,
    pub rtt_us: u32,
    pub advanced: bool,
    /// Quarters of the least round-trip time that packets may be out of order.
    pub steps: u32,
    pub persist: u8,
    pub dsack: bool,
    pub last_delivered: u64,
    /// Packets have come out of order.
    pub reordered: bool,
}

impl Tx {
    /// A chunk has arrived: it may be the latest that was sent.
    pub(super) fn rack_advance(&mut self, chunk: &Chunk) {
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

    pub(super) fn rack_window(&mut self, rate: &Rate) {
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

    fn reordering_us(&self, p: &Params) -> u64 {
        if !self.rack.reordered && (self.window.state >= State::Recovery || self.sacked_out >= p.reordering) {
            return 0;
        }
        let quarter = u64::from(self.rtt.min >> 2) * u64::from(self.rack.steps);
        quarter.min(u64::from(self.rtt.srtt8 >> 3))
    }

    /// Marks what was sent long enough before something that has arrived; the longest time in
    /// microseconds until others are.
    pub(super) fn detect(&mut self, p: &Params) -> u64 {
        let (wait, now) = (self.reordering_us(p), self.now_us());
        let limit = u64::from(self.rack.rtt_us) + wait;
        let latest = (self.rack.sent_us, self.rack.end);
        let under_way = |chunk: &Chunk| !chunk.has(SACKED) && (!chunk.has(LOST) || chunk.has(RESENT));
        // In the order of sending, as far as the first one that is not before the latest: of what is sent
        // within a microsecond, the numbers of bytes do not tell the order. Parts of one segment are in order.
        let order = |chunk: &Chunk| (chunk.sent_after, chunk.start);
        let later = |chunk: &&Chunk| under_way(chunk) && latest <= (chunk.sent_us, chunk.end);
        let until = self.board.chunks.iter().filter(later).map(order).min();
        let mut longest = 0;
        for i in 0..self.board.chunks.len() {
            let chunk = &self.board.chunks[i];
            if !under_way(chunk) || until.is_some_and(|until| until <= order(chunk)) {
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

    pub(super) fn lose(&mut self, p: &Params, i: usize) {
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

    pub(super) fn identify(&mut self, p: &Params, found: &mut Found) {
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
}
