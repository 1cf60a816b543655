//! Who is congested with whom: the delays that a coordinator knows, bounded to what a page can show. Pure.

use crate::owd::Matrix;
use onrampd::fleet::wire::{Delays, Fleet};
use serde::Serialize;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// Most hosts told of.
pub const HOSTS: usize = 48;

/// Delays between hosts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Congestion {
    /// Hosts, sorted by address: those with the largest delays over the least ones.
    hosts: Vec<IpAddr>,
    /// Hosts that are not told of.
    left_out: usize,
    /// Hosts with something other than a synchronised clock, and what; at most [`HOSTS`].
    troubles: Vec<(IpAddr, String)>,
    /// `[from, to, least, median, 99th percentile]`: places in `hosts`, nanoseconds.
    delays: Vec<(usize, usize, i64, i64, i64)>,
}

fn excess(owd: &Delays) -> i64 {
    owd.p99_ns.saturating_sub(owd.min_ns)
}

impl Congestion {
    /// Takes what a coordinator knows.
    #[must_use]
    pub fn of(fleet: &Fleet) -> Self {
        let matrix = Matrix::of(fleet);
        let mut pairs: Vec<_> = matrix.delays.iter().collect();
        pairs.sort_by_key(|pair| std::cmp::Reverse(excess(&pair.owd)));
        let mut hosts = BTreeSet::new();
        // Both ends of the worst pairs, then hosts without delays.
        let by_excess = pairs.iter().flat_map(|pair| [pair.from, pair.to]).chain(matrix.hosts.iter().copied());
        for host in by_excess {
            if hosts.len() == HOSTS {
                break;
            }
            hosts.insert(host);
        }
        let hosts: Vec<IpAddr> = hosts.into_iter().collect();
        let place = |host: &IpAddr| hosts.binary_search(host).ok();
        let delays = matrix.delays.iter().filter_map(|pair| {
            Some((place(&pair.from)?, place(&pair.to)?, pair.owd.min_ns, pair.owd.p50_ns, pair.owd.p99_ns))
        });
        let troubles = fleet.hosts.iter().filter(|host| host.state != "synchronised" || !host.connected);
        let trouble = |state: &str, connected: bool| {
            if connected { state.to_owned() } else { format!("{state} (not connected)") }
        };
        Self {
            left_out: matrix.hosts.len().saturating_sub(hosts.len()),
            troubles: troubles.take(HOSTS).map(|host| (host.address, trouble(&host.state, host.connected))).collect(),
            delays: delays.collect(),
            hosts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrampd::fleet::wire::{HostState, Pair};

    fn host(n: usize) -> IpAddr {
        [10, 0, (n / 250) as u8, (n % 250 + 1) as u8].into()
    }

    fn pair(from: usize, to: usize, p99_ns: i64) -> Pair {
        Pair { from: host(from), to: host(to), owd: Delays { min_ns: 1000, p50_ns: 2000, p99_ns } }
    }

    #[test]
    fn of_a_large_fleet_the_worst_pairs_are_told() {
        let mut delays: Vec<Pair> = (0..500).map(|n| pair(n, (n + 1) % 500, 3000)).collect();
        delays.push(pair(400, 7, 900_000));
        let found = Congestion::of(&Fleet { delays, ..Fleet::default() });
        assert_eq!((found.hosts.len(), found.left_out), (HOSTS, 500 - HOSTS));
        let place = |n| found.hosts.iter().position(|h| *h == host(n)).unwrap();
        assert!(found.delays.contains(&(place(400), place(7), 1000, 2000, 900_000)));
        assert!(found.hosts.is_sorted() && found.delays.len() < HOSTS * HOSTS);
    }

    #[test]
    fn hosts_without_delays_are_told_and_why() {
        let state = HostState {
            labels: Default::default(),
            policy: None,
            effects: None,
            address: host(1),
            connected: false,
            state: "alone".into(),
            certificate_expires: None,
            uncertainty_ns: None,
            drift_ppm: None,
        };
        let found = Congestion::of(&Fleet { hosts: vec![state], ..Fleet::default() });
        let json = serde_json::to_string(&found).unwrap();
        let expected =
            r#"{"hosts":["10.0.0.2"],"left_out":0,"troubles":[["10.0.0.2","alone (not connected)"]],"delays":[]}"#;
        assert_eq!(json, expected);
    }

    #[test]
    fn delays_that_no_network_has_do_no_harm() {
        let mut wrong = pair(0, 1, i64::MAX);
        wrong.owd.min_ns = i64::MIN;
        assert_eq!(Congestion::of(&Fleet { delays: vec![wrong], ..Fleet::default() }).delays.len(), 1);
    }
}
