//! Who probes whom: a random mesh in which one host more or less changes few
//! edges, so that the other windows in progress stay whole.

use crate::HostId;
use crate::random::hash;
use std::collections::BTreeSet;

/// Peers that a host probes, if there are as many.
pub const PEERS: usize = 10;

/// Pairs (prober, probed), sorted. Every host probes `k` random others; where
/// there are too few hosts for that, every pair is probed by one of the two.
///
/// The mesh is connected, no pair is probed in both directions, and the same
/// hosts and seed give the same mesh. Repeated hosts count once. Takes
/// O(n² log n) for n hosts: 0.1 s at a thousand.
#[must_use]
pub fn edges(hosts: &[HostId], k: usize, seed: u64) -> Vec<(HostId, HostId)> {
    let hosts: BTreeSet<HostId> = hosts.iter().copied().collect();
    let mut edges = BTreeSet::new();
    // A ring in random order keeps the mesh in one piece.
    let mut ring: Vec<HostId> = hosts.iter().copied().collect();
    ring.sort_by_key(|&h| (hash(&[seed, u64::from(h)]), h));
    for (&host, &next) in ring.iter().zip(ring.iter().cycle().skip(1)) {
        if host != next && !edges.contains(&(next, host)) {
            edges.insert((host, next));
        }
    }
    let ring = edges.clone();
    for &host in &hosts {
        let probed = ring.range((host, 0)..=(host, HostId::MAX)).count();
        let mut others: Vec<(u64, HostId)> = hosts
            .iter()
            .filter(|&&other| other != host && !ring.contains(&(host, other)) && !ring.contains(&(other, host)))
            .map(|&other| (hash(&[seed, u64::from(host.min(other)), u64::from(host.max(other))]), other))
            // One bit of the pair says who of the two may probe.
            .filter(|&(hash, other)| (hash & 1 == 0) == (host < other))
            .collect();
        others.sort_unstable();
        edges.extend(others.iter().take(k.saturating_sub(probed)).map(|&(_, other)| (host, other)));
    }
    edges.into_iter().collect()
}
