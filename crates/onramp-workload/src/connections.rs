//! How many TCP connections hosts open before the load for the flows that will arrive.

use super::Size;
use super::arrivals::Arrival;
use onramp_config::units::{Ps, US};
use onramp_topology::Topology;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Connections that are opened before the load at most, so that a kernel has the memory.
const MOST: usize = 150_000;

/// How many connections each pair of hosts is likely to need at a time, as
/// (source, destination) to number. Flows are taken to live for a few times what
/// they would on an empty network. What the latest would need beyond `MOST` is opened
/// when they arrive.
pub fn connections(arrivals: impl Iterator<Item = Arrival>, topology: &Topology) -> BTreeMap<(u32, u32), usize> {
    const STRETCH: u64 = 4;
    const LEAST: Ps = 500 * US;
    let mut ends: BTreeMap<(u32, u32), BinaryHeap<Reverse<Ps>>> = BTreeMap::new();
    let mut wanted = BTreeMap::new();
    let mut opened = 0;
    for Arrival { at, flow, .. } in arrivals {
        let pair = (flow.src, flow.dst);
        let end = match flow.size {
            Size::Until(stop) => stop,
            Size::Bytes(bytes) => at + LEAST + STRETCH * ideal(topology, flow.src, flow.dst, bytes),
        };
        let alive = ends.entry(pair).or_default();
        while alive.peek().is_some_and(|Reverse(end)| *end <= at) {
            alive.pop();
        }
        alive.push(Reverse(end));
        let most: &mut usize = wanted.entry(pair).or_default();
        if alive.len() > *most && opened < MOST {
            *most = alive.len();
            opened += 1;
        }
    }
    wanted
}

/// Bytes of payload in a full packet: 1500 B less IP, TCP and timestamps.
const PAYLOAD: u64 = 1448;
/// Bytes of a packet that are not payload: Ethernet, IP, TCP, timestamps.
const HEADERS: u64 = 66;

/// Time from the first byte's sending to the last byte's arrival on an empty
/// network, without slow start.
pub fn ideal(topology: &Topology, src: u32, dst: u32, bytes: u64) -> Ps {
    let packets = bytes.div_ceil(PAYLOAD).max(1);
    let last = bytes - (packets - 1) * PAYLOAD + HEADERS;
    // Every hop takes the last packet in before it goes on; those before it only
    // count where they are sent slowest.
    let hops: Ps = topology.path(src, dst, 0).map(|p| p.delay + p.rate.time_for(last)).sum();
    hops + topology.bottleneck(src, dst).time_for((packets - 1) * (PAYLOAD + HEADERS))
}
