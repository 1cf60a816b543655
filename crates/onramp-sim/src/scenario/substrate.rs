//! Where a scenario runs, and what runs there.

use super::{Scenario, Sync};
use crate::cc::{self, ON_LINUX, SIMULATED};
use crate::config::Mistake;
use crate::topology::Shape;

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Substrate {
    /// The simulator.
    Sim,
    /// The virtual-time Linux cluster.
    Linux,
}

/// Hosts and switches a cluster may have: each is a network namespace.
const MAX_NODES: u32 = 512;

impl Substrate {
    /// What the option `--on` calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Linux => "linux",
        }
    }

    /// The one called `name`.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Sim, Self::Linux].into_iter().find(|s| s.name() == name)
    }

    /// Whether a congestion control runs there.
    pub fn has(self, transport: &cc::Config) -> bool {
        self.transports().contains(&transport.kind())
    }

    fn transports(self) -> &'static [&'static str] {
        match self {
            Self::Sim => SIMULATED,
            Self::Linux => ON_LINUX,
        }
    }

    /// What of a scenario does not run there.
    pub(super) fn check(self, s: &Scenario) -> Vec<Mistake> {
        let mut wrong = Vec::new();
        if !self.has(&s.transport) {
            let (other, runs) = match self {
                Self::Sim => (Self::Linux, "runs on Linux only"),
                Self::Linux => (Self::Sim, "is simulated only"),
            };
            let (kind, own) = (s.transport.kind(), self.transports().join(", "));
            let message = format!("\"{kind}\" {runs}; use --on {}, or one of {own}", other.name());
            wrong.push(Mistake::new("transport.kind", message));
        }
        if self == Self::Sim {
            return wrong;
        }
        let nodes = match &s.network.shape {
            Shape::Star(c) => Some(c.hosts.saturating_add(1)),
            Shape::LeafSpine(c) => {
                Some(c.leaves.saturating_mul(c.hosts_per_leaf.saturating_add(1)).saturating_add(c.spines))
            }
            Shape::Dumbbell(c) => Some(c.left.saturating_add(c.right).saturating_add(2)),
            _ => None,
        };
        match nodes {
            None => {
                let message = "is simulated only; use --on sim, or one of star, leaf-spine, dumbbell";
                wrong.push(Mistake::new("network.kind", message));
            }
            Some(nodes) if nodes > MAX_NODES => {
                let message = format!("has {nodes} hosts and switches; on Linux at most {MAX_NODES} are possible");
                wrong.push(Mistake::new("network", message));
            }
            Some(_) => {}
        }
        let several = matches!(&s.network.shape, Shape::LeafSpine(c) if c.host_links > 1);
        for (key, given) in [("failed", !s.network.failed.is_empty()), ("host_links", several)] {
            if given {
                let message = "is simulated only; use --on sim, or leave it out";
                wrong.push(Mistake::new(format!("network.{key}"), message));
            }
        }
        if !matches!(s.clock.sync, Sync::Perfect | Sync::Huygens) {
            let message =
                format!("\"{}\" is simulated only; use --on sim, or one of perfect, huygens", s.clock.sync.name());
            wrong.push(Mistake::new("clock.sync", message));
        }
        for (key, value) in [("coded", s.clock.coded), ("network_effect", s.clock.network_effect)] {
            if value == Some(false) {
                let message = "is simulated only: the agents always do it; use --on sim, or leave it out";
                wrong.push(Mistake::new(format!("clock.{key}"), message));
            }
        }
        for (i, traffic) in s.traffic.iter().enumerate() {
            for (key, given) in [("transport", traffic.transport.is_some()), ("class", traffic.class > 0)] {
                if given {
                    let message = "is simulated only; use --on sim, or leave it out";
                    wrong.push(Mistake::new(format!("traffic[{i}].{key}"), message));
                }
            }
        }
        if s.measure.next_owd > 0 {
            wrong.push(Mistake::new("measure.next_owd", "is simulated only; use --on sim, or leave it out"));
        }
        wrong
    }
}
