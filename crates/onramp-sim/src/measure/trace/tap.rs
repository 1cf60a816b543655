//! Packets that a cell keeps, to be cut and written when the run is over.

use super::At;
use crate::network::Packet;
use onramp_config::units::Ps;
use std::collections::HashMap;

/// A flow of a pair that is watched begins.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The flow's number.
    pub id: u64,
    /// When, in the engine's time.
    pub at: Ps,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// The connection's slot where it sends, and its number of its pair.
    pub slot: u32,
    /// See `slot`.
    pub number: u32,
    /// The flow's first byte in the connection's stream.
    pub first: u64,
    /// Time for which On-Ramp has held the connection before.
    pub paused: Ps,
    /// The connection is opened for it.
    pub opens: bool,
    /// Largest payload of a packet.
    pub mss: u32,
    /// Its receiver's memory at first, and at most, in bytes.
    pub buffers: [u32; 2],
    /// Its packets can be marked.
    pub marks: bool,
}

/// A packet at the edge of a host.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen<H> {
    pub at: Ps,
    /// The connection's slot where it sends.
    pub slot: u32,
    pub leaves: bool,
    pub packet: Packet<H>,
}

/// Packets seen at one of a pair's hosts.
#[derive(Debug)]
pub(super) struct Log<H> {
    pub seen: Vec<Seen<H>>,
    pub left_out: u64,
}

impl<H> Default for Log<H> {
    fn default() -> Self {
        Self { seen: Vec::new(), left_out: 0 }
    }
}

/// Keeps packets of pairs of hosts. It is there only where something is traced.
#[derive(Debug)]
pub struct Tap<H> {
    most: usize,
    /// From when on pairs are watched.
    from: HashMap<(u32, u32), Ps>,
    pub(super) logs: HashMap<(u32, u32, At), Log<H>>,
    pub(super) starts: Vec<Start>,
}

impl<H: Copy> Tap<H> {
    /// Keeps at most so many packets of a pair at each end.
    pub fn new(most: usize) -> Self {
        Self { most, from: HashMap::new(), logs: HashMap::new(), starts: Vec::new() }
    }

    /// A flow from `src` to `dst` will begin at `at`, and is traced.
    pub fn watch(&mut self, src: u32, dst: u32, at: Ps) {
        let from = self.from.entry((src, dst)).or_insert(at);
        *from = at.min(*from);
    }

    /// A flow begins.
    pub fn starts(&mut self, start: Start) {
        if self.from.contains_key(&(start.src, start.dst)) {
            self.starts.push(start);
        }
    }

    /// The beginning of a flow, if it has begun.
    pub fn start(&self, id: u64) -> Option<&Start> {
        self.starts.iter().find(|start| start.id == id)
    }

    /// A packet leaves a host or has come there: of the connection from `src` to `dst` in `slot`.
    pub fn sees(&mut self, now: Ps, (src, dst, slot): (u32, u32, u32), at: At, leaves: bool, packet: &Packet<H>) {
        if self.from.get(&(src, dst)).is_none_or(|from| now < *from) {
            return;
        }
        let log = self.logs.entry((src, dst, at)).or_default();
        if log.seen.len() == self.most {
            log.left_out += 1;
        } else {
            log.seen.push(Seen { at: now, slot, leaves, packet: *packet });
        }
    }
}
