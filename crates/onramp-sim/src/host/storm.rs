//! PFC storms: hosts that pause their switch's port whatever it has for them, as a NIC does whose receive pipeline is
//! stuck (Guo et al., "RDMA over Commodity Ethernet at Scale", SIGCOMM'16, §4.3).

use onramp_config::Rule;
use onramp_config::units::Span;
use serde::{Deserialize, Serialize};

/// Hosts that pause what comes to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Storm {
    /// Hosts, or groups of them, by name.
    pub hosts: Vec<String>,
    /// When it begins. Default 0.
    #[serde(default)]
    pub start: Span,
    /// When it ends. Default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
}

impl Storm {
    /// Checks values.
    pub fn check(&self, rule: Rule<'_>) {
        rule(!self.hosts.is_empty(), "hosts", "is empty: name a host, such as \"h0\"".into());
        let (start, stop) = (self.start, self.stop.unwrap_or(Span::MAX));
        rule(start < stop, "stop", format!("{stop} is not after the start, {start}"));
    }
}
