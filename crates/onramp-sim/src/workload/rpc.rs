//! Remote procedure calls: short requests and their responses.

use super::Section;
use super::exchange::{Between, Content, Pace, Peers, Session, Sizes, one};
use crate::config::units::{Bytes, SEC, Span};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Largest request and response.
pub const LARGEST: Bytes = Bytes(64 << 20);

/// Remote procedure calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Clients: hosts, or groups of them, by name.
    pub from: Vec<String>,
    /// Servers.
    pub to: Vec<String>,
    /// Only so many of the clients, the first ones. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Whether a client asks all servers or one of them. Default "all".
    #[serde(default = "all")]
    pub peers: Peers,
    /// Connections between a client and a server. Default 1.
    #[serde(default = "one")]
    pub connections: u32,
    /// Size of a request.
    pub request: Sizes,
    /// Size of a response.
    pub response: Sizes,
    /// Requests of a client in a second, at random (Poisson), to any of its servers; or see `depth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Requests that are open at a time on each connection: the next one follows its response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// From a request's arrival until its response is sent. Default 0.
    #[serde(default)]
    pub service: Span,
    /// When clients begin. Default: with the warm-up, or at 0 without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// When they stop. Default: at the end of `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
}

fn all() -> Peers {
    Peers::All
}

impl Config {
    /// Who asks whom, and when.
    pub fn between(&self) -> Between<'_> {
        let &Self { ref from, clients, ref to, peers, connections, start, stop, .. } = self;
        Between { from, clients, to, peers, connections, start, stop }
    }
}

pub(super) fn sessions(config: &Config, section: &Section<'_>, base: &Path) -> Result<Vec<Session>, String> {
    let content = Content::Rpc { request: config.request.read(base)?, response: config.response.read(base)? };
    config.between().sessions(section, content, config.service, |sessions| match config.per_second {
        Some(rate) => Pace::Poisson(SEC as f64 / rate * sessions),
        None => Pace::Closed(config.depth.unwrap_or(1), 0.0),
    })
}
