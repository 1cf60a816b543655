//! Where a scenario runs, and what runs there.

use super::{Pacing, Scenario, StampedAt, Sync};
use crate::cc::{self, ON_LINUX, SIMULATED};
use crate::network::path;
use crate::stack::rdma::Recovery;
use crate::stack::tcp::sysctl;
use onramp_config::Mistake;
use onramp_config::own::missing;
use onramp_topology::{NodeId, Topology};

/// Where a scenario runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Substrate {
    /// The simulator.
    Sim,
    /// The virtual-time Linux cluster.
    Linux,
}

/// The program that is to run a scenario.
#[derive(Clone, Copy, Debug)]
pub struct Runner {
    /// The substrate; `None`: any.
    pub substrate: Option<Substrate>,
    /// The program may bring parts of its own: controllers, ways to choose paths, workloads.
    pub own_parts: bool,
}

impl Default for Runner {
    fn default() -> Self {
        None.into()
    }
}

impl From<Option<Substrate>> for Runner {
    /// Any program on that substrate.
    fn from(substrate: Option<Substrate>) -> Self {
        Self { substrate, own_parts: true }
    }
}

impl Runner {
    /// Parts of a scenario that it does not run, as mistakes.
    pub(super) fn check(self, s: &Scenario, topology: &Topology) -> Vec<Mistake> {
        let mut wrong = Vec::new();
        if let Some(on) = self.substrate {
            wrong.extend(on.check(s));
            wrong.extend(on.check_network(topology));
        }
        if !self.own_parts {
            wrong.extend(own_parts(s));
        }
        wrong
    }
}

/// Parts of a program's own that a scenario names, as mistakes of a program without.
fn own_parts(s: &Scenario) -> Vec<Mistake> {
    let transports = s.transports_by_key().filter_map(|(key, transport)| {
        let name = match transport {
            cc::Config::Custom(custom) if custom.library.is_none() => &custom.name,
            cc::Config::CustomTcp(custom) => &custom.name,
            _ => return None,
        };
        Some((key, name, cc::custom::EXAMPLE))
    });
    let paths = match &s.switch.paths {
        path::Config::Custom(custom) => Some(("switch.paths".to_string(), &custom.name, path::custom::EXAMPLE)),
        _ => None,
    };
    let workloads = s.traffic.iter().enumerate().filter_map(|(i, traffic)| match &traffic.source {
        onramp_workload::Config::Custom(custom) => {
            Some((format!("traffic[{i}]"), &custom.name, onramp_workload::custom::EXAMPLE))
        }
        _ => None,
    });
    let named = transports.chain(paths).chain(workloads);
    named.map(|(key, name, example)| Mistake::new(format!("{key}.name"), missing(name, &[], example))).collect()
}

/// Hosts and switches a cluster may have: each is a network namespace.
const MAX_NODES: usize = 512;

const SIMULATED_ONLY: &str = "is simulated only; use --on sim, or leave it out";

/// A mistake for each key that is in use.
fn simulated_only<const N: usize>(keys: [(&'static str, bool); N]) -> impl Iterator<Item = Mistake> {
    keys.into_iter().filter(|(_, used)| *used).map(|(key, _)| Mistake::new(key, SIMULATED_ONLY))
}

impl Substrate {
    /// Its name in the option `--on`.
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

    /// True if a congestion control runs there.
    pub fn has(self, transport: &cc::Config) -> bool {
        self.transports().contains(&transport.kind())
    }

    fn transports(self) -> &'static [&'static str] {
        match self {
            Self::Sim => SIMULATED,
            Self::Linux => ON_LINUX,
        }
    }

    /// Parts of a network that do not run there, as mistakes.
    pub(super) fn check_network(self, topology: &Topology) -> Vec<Mistake> {
        if self == Self::Sim {
            return vec![];
        }
        let mut wrong = Vec::new();
        let nodes = topology.nodes();
        if nodes > MAX_NODES {
            let message = format!("has {nodes} hosts and switches; on Linux at most {MAX_NODES} are possible");
            wrong.push(Mistake::new("network", message));
        }
        let several = (0..topology.hosts() as NodeId).find(|host| topology.ports_of(*host).len() > 1);
        if let Some(host) = several {
            let message = format!("{} has several links; on Linux a host has one", topology.name(host));
            wrong.push(Mistake::new("network", message));
        }
        if let Some(&port) = topology.packet_errors().keys().next() {
            let message = format!("{} loses packets, which is simulated only", topology.port_name(port));
            wrong.push(Mistake::new("network", message));
        }
        wrong
    }

    /// Parts of a scenario that do not run there, as mistakes.
    pub(super) fn check(self, s: &Scenario) -> Vec<Mistake> {
        let mut wrong = Vec::new();
        if !self.has(&s.transport) {
            let (kind, own) = (s.transport.kind(), self.transports().join(", "));
            let message = format!("\"{kind}\" is simulated only; use --on sim, or one of {own}");
            wrong.push(Mistake::new("transport.kind", message));
        }
        if self == Self::Linux && s.is_tcp() && !s.transport.is_as_in_the_kernel() {
            let message = "has keys, but the kernel keeps its own values; use --on sim, or leave them out";
            wrong.push(Mistake::new("transport", message));
        }
        if self == Self::Sim {
            let keys = s.linux.iter().flat_map(|linux| linux.sysctl.keys());
            if let Some(key) = keys.into_iter().find(|key| !sysctl::is_known(key)) {
                let known = sysctl::names().collect::<Vec<_>>().join(", ");
                let message = format!("\"{key}\" is the kernel's own business; use --on linux, or one of {known}");
                wrong.push(Mistake::new("linux.sysctl", message));
            }
            return wrong;
        }
        wrong.extend(simulated_only([
            ("switch.paths", !s.switch.paths.is_ecmp()),
            ("host.recovery", !s.host.recovery.as_ref().is_none_or(Recovery::is_go_back_n)),
            ("network.slow", !s.network.slow.is_empty()),
            ("network.failed", !s.network.failed.is_empty()),
        ]));
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
            if let onramp_workload::Config::Custom(_) = traffic.source {
                let message = "\"custom\" is simulated only; use --on sim, or another kind";
                wrong.push(Mistake::new(format!("traffic[{i}].kind"), message));
            }
            for (key, given) in [("transport", traffic.transport.is_some()), ("class", traffic.class > 0)] {
                if given {
                    wrong.push(Mistake::new(format!("traffic[{i}].{key}"), SIMULATED_ONLY));
                }
            }
        }
        if s.host.pacing == Pacing::Egress {
            let message =
                "\"egress\" is simulated only: the kernel has no pacer for all flows; use --on sim, or another";
            wrong.push(Mistake::new("host.pacing", message));
        }
        wrong.extend(simulated_only([
            ("host.storms", !s.host.storms.is_empty()),
            ("network.faults", !s.network.faults.is_empty()),
            ("host.processing", !s.host.processing.is_empty()),
        ]));
        if s.onramp.stamped_at == StampedAt::Stack {
            let message = "is simulated only: agents stamp where tc hands packets up; use --on sim, or leave it out";
            wrong.push(Mistake::new("onramp.stamped_at", message));
        }
        wrong.extend(simulated_only([
            ("measure.rtt", s.measure.rtt),
            ("measure.messages", s.measure.messages),
            ("measure.pauses", s.measure.pauses),
        ]));
        if s.measure.next_owd > 0 && s.clock.sync == Sync::Huygens && !s.onramp.enabled {
            let message = "needs agents, which synchronise clocks; set onramp.enabled, and onramp.threshold above all \
                           delays so that nothing is held, or use --on sim";
            wrong.push(Mistake::new("measure.next_owd", message));
        }
        wrong
    }
}
