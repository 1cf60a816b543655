//! Channels of programs on RDMA: a queue pair, with a flow each way to which messages are appended.
//!
//! A message begins with a packet of its own, and its last packet says so. The controller sees one flow, which lasts as
//! long as the run; it counts every packet as a full one.

use super::programs::Heard;
use super::shaper::{Entry, Shaper};
use super::{Hosts, Io, Opening};
use crate::cc::rccc::Grant;
use crate::network::feedback::{Feedback, Header};
use crate::stack::Tx as _;
use crate::stack::rdma::Tx;
use std::collections::VecDeque;

/// A message that is not acknowledged: one beyond its last packet, and that packet's bytes on the wire.
#[derive(Clone, Copy, Debug)]
struct Part {
    end: u32,
    last_size: u16,
}

/// The messages of a flow that are not acknowledged, and perhaps some that are.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    parts: VecDeque<Part>,
    /// One beyond the last packet of all messages.
    end: u32,
}

impl Outbox {
    /// True if there is no message with packets from `acked` on.
    pub fn is_over(&self, acked: u32) -> bool {
        // Messages that are acknowledged are dropped late.
        let Self { parts: _, end } = self;
        *end <= acked
    }

    /// Has a sending half go on with the message that its next packet is of.
    fn turn_to_next(&mut self, tx: &mut Tx) {
        while self.parts.front().is_some_and(|part| part.end <= tx.acked()) {
            self.parts.pop_front();
        }
        let next = self.parts.iter().find(|part| part.end > tx.following());
        tx.turn_to(next.map_or((tx.next(), 0), |part| (part.end, part.last_size)));
    }
}

impl<H: Header> Hosts<H> {
    /// Makes room for the receiving end of a channel's direction; its slot.
    pub fn open_channel_end(&mut self, new: &Opening, nic: u32, watch_owd: Option<u32>, heard: Heard) -> u32 {
        let slot = self.open_receiver(new, nic, watch_owd);
        if let Some(credits) = &mut self.credits {
            credits.open(slot, Grant::of_channel());
        }
        self.hear(slot, heard);
        slot
    }

    /// Makes room for its sending end, whose receiving end is in slot `peer`; its slot.
    pub fn open_channel(&mut self, new: &Opening, nic: u32, peer: u32) -> u32 {
        let slot = self.open_sender(new, nic, peer);
        let sender = &mut self.senders[slot];
        sender.tx = self.transports[new.transport].open_tx(new.start);
        sender.stop = None;
        self.outboxes.resize_with(self.outboxes.len().max(slot as usize + 1), Default::default);
        slot
    }

    /// Appends a message of `bytes`; one beyond its last packet.
    pub(super) fn write_message(&mut self, slot: u32, bytes: u64) -> u64 {
        let sender = &mut self.senders[slot];
        let outbox = &mut self.outboxes[slot as usize];
        if !sender.tx.ready() {
            self.shaper.begin(Entry { slot, id: sender.id });
        }
        let (packets, last_size) = self.transports[sender.transport].packets(bytes);
        outbox.end += packets;
        outbox.parts.push_back(Part { end: outbox.end, last_size });
        outbox.turn_to_next(&mut sender.tx);
        outbox.end.into()
    }

    /// Lines a flow up that has something to send; its NIC.
    pub(super) fn line_up_messages<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, slot: u32) -> u32 {
        let sender = &self.senders[slot];
        let (flow, nic) = (Entry { slot, id: sender.id }, sender.nic);
        if !self.shaper.ready(flow) {
            self.line_up(flow, io.now, io.now);
            if self.credits.is_some() {
                self.ask(io, slot, false);
            }
        }
        nic
    }

    /// An open flow may go on with another message.
    pub(super) fn turn_to_next_message(&mut self, slot: u32) {
        self.outboxes[slot as usize].turn_to_next(&mut self.senders[slot].tx);
    }
}
