//! Who probes whom: a random mesh in which one host more or less changes few
//! edges, so that the other windows in progress stay whole.

use crate::HostId;
use crate::random::hash;
use std::collections::BTreeSet;

/// Peers that a host probes, if there are as many.
pub const PEERS: usize = 10;

/// Up to so many hosts each chooses its peers from all others.
const CHOSEN: usize = 1024;

/// Draws for one host are given up after so many times its peers.
const DRAWS: usize = 64;

/// Pairs (prober, probed), sorted. Every host probes `k` random others; where
/// there are too few hosts for that, every pair is probed by one of the two.
///
/// The mesh is connected, no pair is probed in both directions, and the same
/// hosts and seed give the same mesh. Repeated hosts count once. Takes
/// O(n² log n) for n hosts up to 1024: 0.1 s at a thousand. Above that, peers are
/// drawn instead of chosen from all others, in O(n k log n).
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
    if hosts.len() > CHOSEN {
        draw(&hosts, &ring, k, seed, &mut edges);
        return edges.into_iter().collect();
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

/// Adds random peers to those that `ring` has each host probe. A draw is a point on that ring of hashes, and
/// names the host that follows it, so one host more changes only the draws just before it.
fn draw(hosts: &BTreeSet<HostId>, ring: &[HostId], k: usize, seed: u64, edges: &mut BTreeSet<(HostId, HostId)>) {
    let places: Vec<u64> = ring.iter().map(|&h| hash(&[seed, u64::from(h)])).collect();
    let of_ring = edges.clone();
    for &host in hosts {
        let mut wanted = k.saturating_sub(of_ring.range((host, 0)..=(host, HostId::MAX)).count());
        for number in 0..(DRAWS * k) as u64 {
            if wanted == 0 {
                break;
            }
            let point = hash(&[seed, u64::from(host), number, 1]);
            let other = ring[places.partition_point(|&place| place < point) % ring.len()];
            // One bit of the pair says who of the two may probe, whatever else is drawn.
            let pair = hash(&[seed, u64::from(host.min(other)), u64::from(host.max(other))]);
            let may = other != host && (pair & 1 == 0) == (host < other) && !of_ring.contains(&(other, host));
            wanted -= usize::from(may && edges.insert((host, other)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn connected(hosts: &[HostId], edges: &[(HostId, HostId)]) -> bool {
        let mut reached = BTreeSet::from([hosts[0]]);
        for _ in hosts {
            let next: Vec<HostId> = edges
                .iter()
                .flat_map(|&(a, b)| [(a, b), (b, a)])
                .filter_map(|(a, b)| reached.contains(&a).then_some(b))
                .collect();
            reached.extend(next);
        }
        hosts.iter().all(|h| reached.contains(h))
    }

    #[test]
    fn every_host_probes_k_others_once() {
        let hosts: Vec<HostId> = (0..200).map(|i| 5 * i + 2).collect();
        let edges = edges(&hosts, 10, 1);
        let mut probed: BTreeMap<HostId, usize> = BTreeMap::new();
        for &(from, to) in &edges {
            assert_ne!(from, to);
            assert!(!edges.contains(&(to, from)));
            *probed.entry(from).or_default() += 1;
        }
        assert!(hosts.iter().all(|h| probed[h] == 10));
    }

    #[test]
    fn few_hosts_all_meet() {
        assert_eq!(edges(&[], 10, 1), []);
        assert_eq!(edges(&[7, 7], 10, 1), []);
        assert_eq!(edges(&[7, 9, 7], 10, 1).len(), 1);
        let hosts: Vec<HostId> = (0..11).collect();
        assert_eq!(edges(&hosts, 10, 1).len(), 55);
    }

    #[test]
    fn sparse_meshes_are_connected_and_repeat() {
        for seed in 0..20 {
            let hosts: Vec<HostId> = (0..60).collect();
            for k in 0..3 {
                assert!(connected(&hosts, &edges(&hosts, k, seed)));
            }
            let reversed: Vec<HostId> = hosts.iter().rev().copied().collect();
            assert_eq!(edges(&hosts, 3, seed), edges(&reversed, 3, seed));
        }
        let hosts: Vec<HostId> = (0..60).collect();
        assert_ne!(edges(&hosts, 3, 1), edges(&hosts, 3, 2));
    }

    #[test]
    fn many_hosts_draw_k_others_and_one_more_changes_little() {
        let hosts: Vec<HostId> = (0..2_001).map(|i| 3 * i).collect();
        let (less, more) = (edges(&hosts[..2_000], 10, 1), edges(&hosts, 10, 1));
        let all: BTreeSet<(HostId, HostId)> = more.iter().copied().collect();
        assert!(more.iter().all(|&(a, b)| a != b && !all.contains(&(b, a))));
        let mut probed: BTreeMap<HostId, usize> = BTreeMap::new();
        more.iter().for_each(|(from, _)| *probed.entry(*from).or_default() += 1);
        assert!(hosts.iter().all(|h| probed[h] == 10));
        let kept = less.iter().filter(|e| all.contains(e)).count();
        assert!(kept * 100 > less.len() * 99, "{kept} of {}", less.len());
    }

    #[test]
    fn one_host_more_leaves_most_edges() {
        let hosts: Vec<HostId> = (0..101).collect();
        let (less, more) = (edges(&hosts[..100], 10, 1), edges(&hosts, 10, 1));
        let kept = less.iter().filter(|e| more.contains(e)).count();
        assert!(kept * 100 > less.len() * 90, "{kept} of {}", less.len());
    }
}
