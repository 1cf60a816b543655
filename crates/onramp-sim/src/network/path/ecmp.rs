//! ECMP: all packets of a flow take one path, by a hash of the flow (RFC 2992). Each switch hashes with a seed of its
//! own, so that choices at successive switches are independent.

use super::{Choice, PathSelector};
use onramp_config::Rule;
use onramp_topology::choose;
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// ECMP by flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn check(&self, _rule: Rule<'_>) {}
}

/// Chooses by the flow's hash alone.
#[derive(Debug)]
pub struct Selector;

impl Selector {
    pub(super) fn new(_config: &Config, _seed: u64, _switches: &[u32]) -> Self {
        Self
    }
}

impl PathSelector for Selector {
    #[inline]
    fn pick(&mut self, choice: &Choice<'_>) -> usize {
        choose(choice.hash, choice.ports.len() as u32) as usize
    }

    fn encode(&self, _: &mut Encoder) {}
}
