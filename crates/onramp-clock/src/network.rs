//! The network effect: offsets around a loop must add up to zero.

use crate::{Correction, EdgeFit, HostId};
use std::collections::BTreeMap;

/// What `from` learned about `to`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Edge {
    /// The prober, A of the fit.
    pub from: HostId,
    /// The probed, B of the fit.
    pub to: HostId,
    /// B's clock as A saw it.
    pub fit: EdgeFit,
}

/// How [`solve`] works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkOptions {
    /// Average over loops. Without, each host's offset is the sum along one
    /// path from the reference. Default true.
    pub network_effect: bool,
    /// Allowance for clocks that change their frequency, in seconds per second,
    /// per second. Default 2e-9.
    pub wander: f64,
}

impl Default for NetworkOptions {
    fn default() -> Self {
        Self { network_effect: true, wander: 2e-9 }
    }
}

/// The fleet's time, as corrections of its hosts.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Solution {
    /// Host, its correction, and the number of its part; sorted by host.
    pub hosts: Vec<(HostId, Correction, u32)>,
    /// Hosts that edges connect. Times of different parts do not compare.
    pub parts: Vec<Vec<HostId>>,
    /// Edges left out, and by how many nanoseconds each disagrees.
    pub excluded: Vec<(HostId, HostId, f64)>,
    /// Hosts whose edges disagree with all others: their stamps are wrong, or
    /// their clock stepped. They get no correction.
    pub suspects: Vec<HostId>,
    /// Standard deviation of an edge's offset as the loops show it, in nanoseconds.
    pub edge_sigma: f64,
}

/// Solves the mesh of `edges` for the clocks of its hosts.
#[must_use]
pub fn solve(edges: &[Edge], previous: &BTreeMap<HostId, Correction>, options: &NetworkOptions) -> Solution {
    let _ = (edges, previous, options);
    Solution::default()
}
