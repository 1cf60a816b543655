//! Links and switches that fail in the middle of a run, and come back, and links with bit errors.

use super::{PortId, Topology, TopologyError};
use onramp_config::units::{Ps, Span};
use onramp_config::{Mistake, Rule};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A link, or all of some switches, that are down for a time, or corrupt bits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fault {
    /// The link, by its two ends in either order; both directions are faulty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// In its place switches by their names, such as those of a plane: all of their links are faulty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub switches: Vec<String>,
    /// When it begins, from time 0. Default 0.
    #[serde(default)]
    pub start: Span,
    /// When the link is well again. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
    /// Time until switches route around it, and after its end until they use it again. Default: they do not notice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reroute: Option<Span>,
    /// Probability that a bit is corrupted, which loses its packet. Default: the link is down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bit_error_rate: Option<f64>,
}

impl Fault {
    /// Rules that need no network.
    fn check(&self, rule: Rule<'_>) {
        let one = self.link.is_some() == self.switches.is_empty();
        rule(one, "link", "is missing: give a link, such as \"leaf0->spine1\", or switches, and not both".into());
        let (start, stop) = (self.start, self.stop.unwrap_or(Span::MAX));
        rule(start < stop, "stop", format!("{stop} is not after the start, {start}"));
        let rate = self.bit_error_rate.unwrap_or(1e-9);
        rule(rate > 0.0 && rate < 1.0, "bit_error_rate", format!("{rate} is outside above 0 to below 1: such as 1e-9"));
        let down = self.bit_error_rate.is_none() || self.reroute.is_none();
        rule(down, "reroute", "is of links that are down: switches do not route around bit errors".into());
    }

    /// Both directions of its links.
    ///
    /// # Errors
    /// There is no such link or switch.
    pub fn ports(&self, topology: &Topology) -> Result<BTreeSet<PortId>, TopologyError> {
        let mut found = Vec::new();
        if let Some(link) = &self.link {
            found.push(topology.port_named(link)?);
        }
        for name in &self.switches {
            found.extend(topology.ports_of_switch(name)?);
        }
        Ok(found.into_iter().flat_map(|port| [port, topology.ports[port as usize].reverse]).collect())
    }

    /// Links that are down from each of some times on, as far as switches know.
    pub fn known(faults: &[Self], topology: &Topology) -> BTreeMap<Ps, BTreeSet<PortId>> {
        let mut changes: BTreeMap<Ps, Vec<(bool, BTreeSet<PortId>)>> = BTreeMap::new();
        for fault in faults.iter().filter(|fault| fault.bit_error_rate.is_none()) {
            let (Some(reroute), Ok(ports)) = (fault.reroute, fault.ports(topology)) else { continue };
            changes.entry(fault.start.0 + reroute.0).or_default().push((true, ports.clone()));
            if let Some(stop) = fault.stop {
                changes.entry(stop.0 + reroute.0).or_default().push((false, ports));
            }
        }
        // A link may have several faults at a time.
        let mut down: BTreeMap<PortId, u32> = BTreeMap::new();
        let now = |down: &BTreeMap<PortId, u32>| down.iter().filter(|(_, n)| **n > 0).map(|(port, _)| *port).collect();
        let mut known = BTreeMap::new();
        for (at, changes) in changes {
            for (fails, ports) in changes {
                for port in ports {
                    let count = down.entry(port).or_default();
                    *count = if fails { *count + 1 } else { *count - 1 };
                }
            }
            known.insert(at, now(&down));
        }
        known
    }
}

/// Mistakes in the faults of a network.
pub(super) fn check(faults: &[Fault], topology: &Topology) -> Option<Mistake> {
    let key = |i: usize, key: &str| format!("network.faults[{i}].{key}");
    for (i, fault) in faults.iter().enumerate() {
        let mut wrong = None;
        fault.check(&mut |ok, own, message| {
            if !ok {
                wrong.get_or_insert(Mistake::new(key(i, own), message));
            }
        });
        let named = if fault.switches.is_empty() { "link" } else { "switches" };
        let ports = match fault.ports(topology) {
            Ok(ports) => ports,
            Err(error) => return Some(Mistake::new(key(i, named), error.to_string())),
        };
        let of_host = ports.iter().any(|&port| topology.is_host(topology.ports[port as usize].from));
        if of_host && fault.reroute.is_some() {
            let message = "has a host's link, around which there is no way: leave reroute out";
            wrong.get_or_insert(Mistake::new(key(i, named), message));
        }
        if wrong.is_some() {
            return wrong;
        }
    }
    let known = Fault::known(faults, topology);
    known.values().find_map(|down| {
        let error = topology.without(down).err()?;
        Some(Mistake::new("network.faults", format!("while links are down, {error}")))
    })
}

impl Topology {
    /// The same with routes that do without some links; its ports keep their numbers.
    ///
    /// # Errors
    /// A host that others cannot reach.
    pub fn without(&self, down: &BTreeSet<PortId>) -> Result<Self, TopologyError> {
        let mut other = self.clone();
        for ports in &mut other.ports_of {
            ports.retain(|port| !down.contains(port));
        }
        other.route()?;
        Ok(other)
    }
}
