//! An acknowledgement as the scoreboard takes it: what has arrived, in order and beyond, and how long that took.

use super::Tx;
use super::rate::Rate;
use crate::cc::tcp::State;
use crate::stack::tcp::scoreboard::{Chunk, EVER_RESENT, LOST, RESENT, SACKED};
use crate::stack::tcp::{Params, Reply};

/// News in an acknowledgement.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Found {
    /// It moved the first byte that is missing.
    pub advanced: bool,
    /// It changed the window.
    pub window: bool,
    /// It acknowledged data for the first time, in order or not.
    pub acked: bool,
    pub sacked: bool,
    /// Data that was sent once, before the loss, has arrived.
    pub original: bool,
    /// Data that was sent again has arrived.
    pub resent: bool,
    /// Something arrived twice; the loss probe did.
    pub dsack: bool,
    pub probe_twice: bool,
    pub ece: bool,
    /// The timer is to be set anew.
    pub rearm: bool,
    /// Something sent again is lost again.
    pub lost_again: bool,
    /// When the first and the last packet were sent that this acknowledges and that was
    /// sent once: in order, and selectively.
    pub first_us: Option<u64>,
    pub last_us: Option<u64>,
    pub first_sacked_us: Option<u64>,
    pub last_sacked_us: Option<u64>,
    /// Packets acknowledged in order.
    pub packets: u32,
}

impl Tx {
    /// Takes notice of blocks that have arrived beyond what is in order.
    pub(super) fn sacked(&mut self, p: &Params, reply: &Reply, prior_una: u64, found: &mut Found, rate: &mut Rate) {
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
    pub(super) fn clean(&mut self, p: &Params, prior_highest: u64, ece: bool, found: &mut Found, rate: &mut Rate) {
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

    pub(super) fn update_rtt(&mut self, found: &Found, reply: &Reply) -> Option<u32> {
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
    pub(super) fn maybe_delayed(
        &self,
        p: &Params,
        prior_una: u64,
        prior_sacked: u32,
        found: &Found,
        rate: &Rate,
    ) -> bool {
        found.first_us.is_some()
            && !found.resent
            && found.packets == 1
            && prior_sacked == 0
            && self.una - prior_una < u64::from(p.mss)
            && rate.prior_delivered + 1 == self.window.delivered
            && !(found.sacked || found.ece || found.dsack)
    }
}
