//! One-way delays between the hosts of a fleet: as a table ([`table`]), a picture
//! ([`heatmap`]) or JSON. Pure.

pub mod heatmap;
pub mod table;

use onrampd::fleet::wire::{Delays, Fleet, Pair};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// From each host to each other.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Matrix {
    /// All hosts of the fleet, sorted.
    pub hosts: Vec<IpAddr>,
    /// Pairs that probe each other, in both directions, sorted.
    pub delays: Vec<Pair>,
}

impl Matrix {
    /// Takes what a coordinator knows. A pair told of twice, while the mesh changes, counts once.
    #[must_use]
    pub fn of(fleet: &Fleet) -> Self {
        let cells: BTreeMap<(IpAddr, IpAddr), Delays> = fleet.delays.iter().map(|p| ((p.from, p.to), p.owd)).collect();
        let listed = fleet.hosts.iter().map(|h| h.address);
        let hosts: BTreeSet<IpAddr> = listed.chain(cells.keys().map(|(from, _)| *from)).collect();
        Self {
            hosts: hosts.into_iter().collect(),
            delays: cells.into_iter().map(|((from, to), owd)| Pair { from, to, owd }).collect(),
        }
    }

    /// The delays from one host to another, by their places in `hosts`.
    fn cells(&self) -> impl Iterator<Item = (usize, usize, Delays)> {
        let place = |host: &IpAddr| self.hosts.binary_search(host).ok();
        self.delays.iter().filter_map(move |p| Some((place(&p.from)?, place(&p.to)?, p.owd)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn host(n: usize) -> IpAddr {
        [10, 0, (n / 250) as u8, (n % 250 + 1) as u8].into()
    }

    /// `n` hosts, each of which probes `k` after it; delays differ from pair to pair.
    pub(super) fn matrix(n: usize, k: usize) -> Matrix {
        let pair = |from: usize, to: usize| {
            let p50_ns = 3_000 + ((from * 7 + to * 13) % 31) as i64 * 200;
            let p99_ns = p50_ns * (1 + (from * 5 + to) as i64 % 9);
            Pair { from: host(from), to: host(to), owd: Delays { min_ns: p50_ns - 500, p50_ns, p99_ns } }
        };
        let edges = (0..n).flat_map(|a| (1..=k).map(move |d| (a, (a + d) % n))).filter(|(a, b)| a != b);
        let delays = edges.flat_map(|(a, b)| [pair(a, b), pair(b, a)]).collect();
        Matrix::of(&Fleet { delays, ..Fleet::default() })
    }

    #[test]
    fn a_pair_told_of_twice_has_one_cell() {
        let all = matrix(3, 2);
        assert_eq!((all.hosts.len(), all.delays.len(), all.cells().count()), (3, 6, 6));
        let twice = all.delays.iter().chain(&all.delays).copied().collect();
        assert_eq!(Matrix::of(&Fleet { delays: twice, ..Fleet::default() }), all);
    }

    #[test]
    fn json_has_hosts_and_pairs() {
        let json = serde_json::to_string(&matrix(2, 1)).unwrap();
        let expected = concat!(
            r#"{"hosts":["10.0.0.1","10.0.0.2"],"delays":["#,
            r#"{"from":"10.0.0.1","to":"10.0.0.2","owd":{"min_ns":5100,"p50_ns":5600,"p99_ns":11200}},"#,
            r#"{"from":"10.0.0.2","to":"10.0.0.1","owd":{"min_ns":3900,"p50_ns":4400,"p99_ns":26400}}]}"#
        );
        assert_eq!(json, expected);
    }
}
