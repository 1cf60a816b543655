//! A sample of data packets, beside those of their flows acknowledged before they left (paper Figs. 4 and 6).
//!
//! All hosts are listened to, and what was seen is put in order of time. Delays are true ones, by the kernel's one
//! clock; as the hosts measure them, the errors of their clocks are added.

use super::cluster::Cluster;
use super::connections::Connection;
use super::edges::Edge;
use super::{Result, at};
use crate::plan::address;
use crate::sys;
use onramp_config::units::{NS, Ps};
use onramp_records::NextRecord;
use onramp_sim::Scenario;
use onramp_sim::measure::trace::frame::{Found, Key};
use onramp_sim::measure::trace::unwrap;
use onramp_sim::measure::{NextOwd, UNMEASURED};
use onramp_sim::scenario::Sync;
use onramp_topology::Topology;
use std::collections::{HashMap, VecDeque};

/// Events that are kept until they are put in order.
const KEPT: usize = 1 << 16;
/// Bytes of the longest frame.
const LONGEST: u32 = 1514;

/// Something that happened to a connection.
#[derive(Clone, Copy, Debug)]
struct Event {
    at_ns: u64,
    key: Key,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// A flow begins on it.
    Opens,
    /// Data leave: first byte, and IP's identification.
    Leaves(u32, u16),
    /// They arrive, and are so many bytes.
    Arrives(u32, u16, u32),
    /// The sender hears what byte is expected.
    Acked(u32),
}

/// A connection that has sent data.
#[derive(Debug)]
struct Known {
    slot: u32,
    ends: [u32; 2],
    /// Number of the first byte.
    first: u32,
    /// How far its data have come, and their acknowledgements.
    came: u64,
    acked: u64,
    /// Data under way in their order: first byte, identification, and when they left.
    under_way: VecDeque<(u32, u16, u64)>,
}

/// See the module.
#[derive(Debug)]
pub struct Delays {
    edges: Vec<Edge>,
    hosts: HashMap<std::net::Ipv4Addr, u32>,
    waiting: Vec<Event>,
    known: HashMap<Key, Known>,
    /// By how much the clock of each host is ahead, in nanoseconds, if that is known.
    ahead: Vec<Option<i64>>,
    late_ns: u64,
    size: u32,
    seed: u64,
    /// Made when time 0 of the kernel's clock is known, and that.
    sample: Option<(NextOwd, u64)>,
}

impl Delays {
    /// Listens to all hosts, if that is wanted.
    pub fn new(scenario: &Scenario, cluster: &Cluster, topology: &Topology) -> Result<Option<Self>> {
        let size = scenario.measure.next_owd;
        if size == 0 {
            return Ok(None);
        }
        let hosts = 0..topology.hosts() as u32;
        let edges: std::io::Result<Vec<_>> = hosts.clone().map(|host| Edge::listen(host, cluster, topology)).collect();
        let edges = edges.map_err(at("measure.next_owd"))?;
        let late = edges.iter().map(|edge| edge.most_late(LONGEST)).max().unwrap_or_default();
        let ahead = if scenario.clock.sync == Sync::Huygens { None } else { Some(0) };
        Ok(Some(Self {
            ahead: vec![ahead; edges.len()],
            edges,
            hosts: hosts.map(|host| (address(host), host)).collect(),
            waiting: Vec::new(),
            known: HashMap::new(),
            late_ns: late.div_ceil(NS),
            size,
            seed: scenario.seed,
            sample: None,
        }))
    }

    /// Load begins at `zero_ns` of the kernel's clock, and is measured `warmup` later.
    pub fn begin(&mut self, zero_ns: u64, warmup: Ps) {
        self.sample = Some((NextOwd::new(self.size, self.seed, warmup), zero_ns));
    }

    /// So far are the clocks ahead from now on: hosts, nanoseconds, and their standard deviations.
    pub fn clocks(&mut self, known: &[(u32, i64, f64)]) {
        self.take_until(sys::now_ns().saturating_sub(self.late_ns));
        self.ahead.fill(None);
        for &(host, ahead, _) in known {
            self.ahead[host as usize] = Some(ahead);
        }
    }

    /// A flow begins on a connection.
    pub fn starts(&mut self, connection: &Connection, begin_ns: u64) {
        let Connection { src, dst, port, .. } = *connection;
        let key = Key { src: address(src), dst: address(dst), port };
        self.waiting.push(Event { at_ns: begin_ns, key, what: What::Opens });
    }

    /// Looks at what has passed.
    pub fn look(&mut self) {
        let Self { edges, waiting, .. } = self;
        for edge in edges {
            let address = edge.address;
            edge.take(|at_ns, passed, key, found| {
                let at_sender = address == key.src;
                let ident = u16::from_be_bytes([passed.bytes[18], passed.bytes[19]]);
                let what = match found {
                    Found::Data(seq, 1.., _) if at_sender && passed.leaves => What::Leaves(seq, ident),
                    Found::Data(seq, bytes @ 1.., _) if !at_sender && !passed.leaves => {
                        What::Arrives(seq, ident, bytes)
                    }
                    Found::Ack(ack, ..) if at_sender && !passed.leaves => What::Acked(ack),
                    _ => return,
                };
                waiting.push(Event { at_ns, key, what });
            });
        }
        if self.waiting.len() >= KEPT {
            self.take_until(sys::now_ns().saturating_sub(self.late_ns));
        }
    }

    /// The sampled packets that have arrived.
    pub fn finish(mut self) -> Result<Vec<NextRecord>> {
        self.look();
        self.take_until(u64::MAX);
        for edge in &self.edges {
            let lost = edge.lost().map_err(at("measure.next_owd"))?;
            if lost > 0 {
                return Err(format!("measure.next_owd: {lost} packets of {} passed unseen", edge.address));
            }
        }
        Ok(self.sample.map(|(sample, _)| sample.records()).unwrap_or_default())
    }

    /// Takes what was before `until_ns`, in order.
    fn take_until(&mut self, until_ns: u64) {
        self.waiting.sort_by_key(|event| event.at_ns);
        let ready = self.waiting.partition_point(|event| event.at_ns < until_ns);
        let mut waiting = std::mem::take(&mut self.waiting);
        for event in waiting.drain(..ready) {
            self.happens(event);
        }
        self.waiting = waiting;
    }

    fn happens(&mut self, Event { at_ns, key, what }: Event) {
        let Some((sample, zero_ns)) = &mut self.sample else { return };
        // Before the load begins nothing leaves but what opens connections.
        let Some(now_ns) = at_ns.checked_sub(*zero_ns) else { return };
        let now = now_ns * NS;
        if let What::Leaves(first, _) = what
            && !self.known.contains_key(&key)
        {
            let ends = [key.src, key.dst].map(|address| self.hosts[&address]);
            let slot = self.known.len() as u32;
            let known = Known { slot, ends, first, came: 0, acked: 0, under_way: VecDeque::new() };
            self.known.insert(key, known);
        }
        let Some(connection) = self.known.get_mut(&key) else { return };
        let Known { slot, ends, first, .. } = *connection;
        match what {
            What::Opens => sample.open(slot),
            What::Leaves(seq, ident) => {
                connection.under_way.push_back((seq, ident, now_ns));
                sample.leaves(slot, (slot, seq, now_ns as u32), ends, now);
            }
            What::Arrives(seq, ident, bytes) => {
                let is_this = |packet: &(u32, u16, u64)| (packet.0, packet.1) == (seq, ident);
                let Some(place) = connection.under_way.iter().position(is_this) else { return };
                let (.., sent_ns) = connection.under_way[place];
                // They keep their order: what left before it is lost.
                connection.under_way.drain(..=place);
                sample.arrives((slot, seq, sent_ns as u32), ends[1], now);
                let [src, dst] = ends.map(|host| self.ahead[host as usize]);
                let owd = src.zip(dst).map(|(src, dst)| (now_ns - sent_ns) as i64 + dst - src);
                let owd_ns = owd.and_then(|owd| i32::try_from(owd).ok()).unwrap_or(UNMEASURED);
                let end = unwrap(connection.came, seq.wrapping_add(bytes).wrapping_sub(first));
                connection.came = connection.came.max(end);
                sample.came(slot, end, owd_ns, sent_ns as u32);
            }
            What::Acked(ack) => {
                connection.acked = connection.acked.max(unwrap(connection.acked, ack.wrapping_sub(first)));
                sample.acked_to(slot, connection.acked, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const ZERO_NS: u64 = 1_000_000;

    fn delays(ahead: [Option<i64>; 2]) -> Delays {
        let hosts = HashMap::from([(Ipv4Addr::new(10, 0, 0, 1), 0), (Ipv4Addr::new(10, 0, 0, 2), 1)]);
        let mut delays = Delays {
            edges: Vec::new(),
            hosts,
            waiting: Vec::new(),
            known: HashMap::new(),
            ahead: ahead.into(),
            late_ns: 0,
            size: 10,
            seed: 1,
            sample: None,
        };
        delays.begin(ZERO_NS, 0);
        delays
    }

    fn seen(mut delays: Delays, events: &[(u64, What)]) -> Vec<NextRecord> {
        let key = Key { src: Ipv4Addr::new(10, 0, 0, 1), dst: Ipv4Addr::new(10, 0, 0, 2), port: 40_000 };
        let event = |&(after_ns, what)| Event { at_ns: ZERO_NS + after_ns, key, what };
        delays.waiting.extend(events.iter().map(event));
        delays.finish().unwrap()
    }

    /// Of three packets the second is lost and sent again; numbers wrap. The kernel tells late of what leaves.
    const FIRST: u32 = u32::MAX - 999;
    const EVENTS: [(u64, What); 11] = [
        (5_000, What::Arrives(FIRST, 1, 1000)),
        (7_000, What::Acked(0)),
        (0, What::Leaves(FIRST, 1)),
        (10, What::Leaves(0, 2)),
        (7_100, What::Leaves(1000, 3)),
        (12_600, What::Arrives(1000, 3, 1000)),
        (14_000, What::Acked(0)),
        (20_000, What::Leaves(0, 4)),
        (26_000, What::Arrives(0, 4, 1000)),
        (28_000, What::Acked(2000)),
        (30_000, What::Leaves(2000, 5)),
    ];

    #[test]
    fn a_packet_stands_beside_the_last_one_acknowledged_before_it_left() {
        let found = seen(delays([Some(300), Some(100)]), &EVENTS);
        let rows: Vec<_> = found.iter().map(|r| (r.time_ps / NS, r.owd_ns, r.rtt_ns, r.next_owd_ns)).collect();
        // The receiver's clock is 200 ns behind the sender's. The last packet has not arrived.
        assert_eq!(rows, [(7_100, 4_800, 7_000, 5_500), (20_000, 4_800, 7_000, 6_000)]);
        assert!(found.iter().all(|r| (r.src, r.dst) == (0, 1)));
    }

    #[test]
    fn a_flow_that_begins_knows_nothing_of_the_one_before_and_nobody_of_clocks_that_are_not_known() {
        let mut events = EVENTS.to_vec();
        events.push((7_050, What::Opens));
        assert_eq!(seen(delays([Some(0), Some(0)]), &events), []);
        assert_eq!(seen(delays([None, Some(0)]), &EVENTS), []);
    }
}
