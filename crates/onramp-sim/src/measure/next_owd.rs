//! One-way delays of packets, beside those of the last packets acknowledged before them (paper Figs. 4 and 6).

use crate::network::packet::{UNMEASURED, unwrap_ns};
use onramp_config::units::{NS, Ps};
use onramp_records::NextRecord;
use rand_pcg::Pcg64Mcg;
use std::collections::{HashMap, VecDeque};

/// Tells packets apart: the flow or connection, the number there, and the low 32 bits of the nanosecond it left at.
pub type Identity = (u32, u32, u32);

/// A uniform sample of bounded size of all packets that leave after one of their
/// flow was acknowledged (reservoir sampling, algorithm R).
#[derive(Debug)]
pub struct NextOwd {
    size: usize,
    origin: Ps,
    random: Pcg64Mcg,
    /// Delay and round-trip time of the packet acknowledged last, by slot of the sender.
    last: HashMap<u32, (i32, u64)>,
    /// Where TCP acknowledges bytes: last byte, delay and departure of each packet that came, by slot of the sender.
    unacknowledged: HashMap<u32, VecDeque<(u64, i32, u32)>>,
    seen: u64,
    /// The delay of this packet is 0 until it arrives.
    sample: Vec<NextRecord>,
    /// Places of packets under way.
    under_way: HashMap<Identity, usize>,
}

impl NextOwd {
    /// An empty sample of at most `size` packets; times count from `origin`.
    pub fn new(size: u32, seed: u64, origin: Ps) -> Self {
        Self {
            size: size as usize,
            origin,
            random: onramp_random::stream(seed, "next owd", 0),
            last: HashMap::new(),
            unacknowledged: HashMap::new(),
            seen: 0,
            sample: Vec::new(),
            under_way: HashMap::new(),
        }
    }

    /// A new flow in `slot`.
    #[cold]
    pub fn open(&mut self, slot: u32) {
        self.last.remove(&slot);
    }

    /// A packet of the flow in `slot` was acknowledged.
    #[cold]
    pub fn acked(&mut self, slot: u32, owd_ns: i32, rtt_ns: u64) {
        if owd_ns != UNMEASURED {
            self.last.insert(slot, (owd_ns, rtt_ns));
        }
    }

    /// A segment that ends at byte `end` came for the flow in `slot`.
    #[cold]
    pub fn came(&mut self, slot: u32, end: u64, owd_ns: i32, sent_ns: u32) {
        self.unacknowledged.entry(slot).or_default().push_back((end, owd_ns, sent_ns));
    }

    /// All bytes before `ack` of the flow in `slot` were acknowledged.
    #[cold]
    pub fn acked_to(&mut self, slot: u32, ack: u64, now: Ps) {
        let Some(waiting) = self.unacknowledged.get_mut(&slot) else { return };
        let mut last = None;
        while let Some(&(_, owd_ns, sent_ns)) = waiting.front().filter(|(end, ..)| *end <= ack) {
            last = Some((owd_ns, sent_ns));
            waiting.pop_front();
        }
        if let Some((owd_ns, sent_ns)) = last {
            self.acked(slot, owd_ns, now / NS - unwrap_ns(now / NS, sent_ns));
        }
    }

    /// A packet of the flow in `slot` leaves one host for another.
    #[cold]
    pub fn leaves(&mut self, slot: u32, packet: Identity, [src, dst]: [u32; 2], now: Ps) {
        let Some(&(owd_ns, rtt_ns)) = self.last.get(&slot) else { return };
        if now < self.origin {
            return;
        }
        self.seen += 1;
        let record = NextRecord { time_ps: now - self.origin, src, dst, owd_ns, rtt_ns, next_owd_ns: 0 };
        let place = if self.sample.len() < self.size {
            self.sample.push(record);
            self.sample.len() - 1
        } else {
            let place = (onramp_random::uniform(&mut self.random) * self.seen as f64) as usize;
            if place >= self.size {
                return;
            }
            self.sample[place] = record;
            place
        };
        self.under_way.insert(packet, place);
    }

    /// A packet arrives at a host.
    #[cold]
    pub fn arrives(&mut self, packet: Identity, dst: u32, now: Ps) {
        let Some(place) = self.under_way.remove(&packet) else { return };
        let sent_ns = unwrap_ns(now / NS, packet.2);
        let record = &mut self.sample[place];
        // Another packet may have taken the place.
        if (record.time_ps + self.origin) / NS == sent_ns && record.dst == dst {
            record.next_owd_ns = now / NS - sent_ns;
        }
    }

    /// The sampled packets that have arrived.
    pub fn records(&self) -> Vec<NextRecord> {
        self.sample.iter().filter(|r| r.next_owd_ns > 0).copied().collect()
    }
}
