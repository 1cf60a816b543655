//! Channels of programs on TCP: a connection that is open from the beginning, each way with ends of its own.

use super::receiver::End;
use super::sender::Writer;
use super::{Hosting, Pair};
use crate::host::Io;
use crate::host::programs::Heard;
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::TCP;
use onramp_config::units::{MS, Ps};
use onramp_workload::Medium;

/// The kernel's NVMe over TCP hands over data page by page.
const PAGE: u64 = 4096;

/// Disks are there some time before they are read, and their connections have said so.
const AGE: Ps = 20 * MS;

/// Connections of channels are numbered from the last one down: flows have the first ones.
const LAST_NUMBER: u64 = 0x3fff;

/// One direction of a channel.
#[derive(Clone, Copy, Debug)]
pub struct Direction {
    /// Sender and receiver.
    pub pair: Pair,
    /// The channel's number among those of the pair, counted both ways.
    pub number: u64,
    /// Way of writing and reading.
    pub medium: Medium,
}

/// Application of a receiving end.
#[derive(Clone, Debug)]
pub(super) struct Reads {
    pub heard: Heard,
    /// It reads what comes; else it waits for whole messages.
    at_once: bool,
}

impl Reads {
    /// The byte before which the application waits for what comes.
    pub fn expected(&self) -> u64 {
        if self.at_once { 0 } else { self.heard.stream.next_end().unwrap_or(0) }
    }
}

impl<H: Header> Hosting<H> {
    /// Opens the receiving end of a direction, whose replies leave by `nic`; its slot.
    pub fn open_channel_end(&mut self, direction: Direction, nic: u32, watch_owd: Option<u32>, heard: Heard) -> u32 {
        let Direction { pair, number, medium } = direction;
        let slot = self.open_end(pair, LAST_NUMBER - number, nic, watch_owd);
        let end: &mut End = &mut self.ends[slot];
        let at_once = medium != Medium::Messages;
        if at_once {
            end.rx.has_spoken(AGE);
        }
        end.reads = Some(Box::new(Reads { heard, at_once }));
        slot
    }

    /// Opens its sending end, which leaves by `nic`, now that the receiving one is in slot `peer`; its slot, marked as
    /// TCP's.
    pub fn open_channel(&mut self, direction: Direction, nic: u32, peer: u32) -> u32 {
        let Direction { pair, number, medium } = direction;
        let slot = self.new_connection(pair, LAST_NUMBER - number, nic, peer, 0);
        self.connections[slot].writer = if medium == Medium::Messages { Writer::Program } else { Writer::Pages };
        slot | TCP
    }

    /// Tells the ends of a channel's two directions at a host of each other: it is one connection, of which data take
    /// acknowledgements along, and acknowledgements go where its data go.
    pub fn join_directions(&mut self, sender: u32, end: u32) {
        let at = sender & !TCP;
        let connection = &mut self.connections[at];
        connection.other_way = end;
        let end = &mut self.ends[end];
        (end.other_way, end.hash) = (at, connection.hash);
    }

    /// Sends what a channel's sending end may send; its NIC.
    pub(in crate::host) fn pump_channel<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, sender: u32) -> u32 {
        self.pump(io, sender & !TCP)
    }

    /// Writes a message; the byte before which it ends.
    pub(in crate::host) fn write_message(&mut self, now: Ps, sender: u32, bytes: u64) -> u64 {
        let at = sender & !TCP;
        let end = self.connections[at].tx.written() + bytes;
        let (transport, writer) = (self.connections[at].pair.transport, self.connections[at].writer);
        let by_pages = writer == Writer::Pages;
        let mss = u64::from(self.rules.kind(transport).params.mss);
        let mut written = 0;
        if by_pages {
            // Full packets leave as their pages are handed over (MSG_MORE), if they may.
            for pages in 1..bytes / PAGE {
                let full = pages * PAGE / mss * mss;
                self.write(now, at, full - written);
                self.fill(now, at);
                written = full;
            }
        }
        self.write(now, at, bytes - written);
        if by_pages {
            self.connections[at].tx.end_record();
        }
        end
    }
}
