//! Packet spraying: every packet takes one of the paths at random (Dixit et al., *On the Impact of Packet Spraying in
//! Data Center Networks*, INFOCOM'13).

use super::{Choice, PathSelector, streams};
use onramp_config::Rule;
use onramp_workload::state::Encoder;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Oblivious packet spraying.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn check(&self, _rule: Rule<'_>) {}
}

/// Draws from a stream of each switch.
#[derive(Debug)]
pub struct Selector {
    random: Vec<Pcg64Mcg>,
}

impl Selector {
    pub(super) fn new(_config: &Config, seed: u64, switches: &[u32]) -> Self {
        Self { random: streams(seed, "spray", switches) }
    }
}

impl PathSelector for Selector {
    fn pick(&mut self, choice: &Choice<'_>) -> usize {
        onramp_random::below(&mut self.random[choice.switch], choice.ports.len() as u32) as usize
    }

    fn encode(&self, state: &mut Encoder) {
        let Self { random } = self;
        random.iter().for_each(|random| state.random(random));
    }
}
