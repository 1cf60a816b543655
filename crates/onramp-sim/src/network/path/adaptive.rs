//! Adaptive routing by packet: the port where the fewest bytes of the packet's class wait, one of them at random where
//! several have as few (DRILL with all ports sampled; Ghorbani et al., SIGCOMM'17).

use super::{Choice, PathSelector, streams};
use onramp_config::Rule;
use onramp_workload::state::Encoder;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Paths by local queues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

impl Config {
    pub(super) fn check(&self, _rule: Rule<'_>) {}
}

/// Looks at all ports, and draws from a stream of each switch.
#[derive(Debug)]
pub struct Selector {
    random: Vec<Pcg64Mcg>,
}

impl Selector {
    pub(super) fn new(_config: &Config, seed: u64, switches: &[u32]) -> Self {
        Self { random: streams(seed, "adaptive", switches) }
    }
}

impl PathSelector for Selector {
    fn pick(&mut self, choice: &Choice<'_>) -> usize {
        let queued = |port: &u32| (choice.queued)(*port);
        let least = choice.ports.iter().map(queued).min().expect("there are ports");
        let mut equal = (0..).zip(choice.ports).filter(|(_, port)| queued(port) == least).map(|(place, _)| place);
        let others = equal.clone().count() - 1;
        let drawn =
            if others > 0 { onramp_random::below(&mut self.random[choice.switch], others as u32 + 1) } else { 0 };
        equal.nth(drawn as usize).expect("one of those that are equal")
    }

    fn encode(&self, state: &mut Encoder) {
        let Self { random } = self;
        random.iter().for_each(|random| state.random(random));
    }
}
