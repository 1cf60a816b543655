//! Oblivious packet spraying by hosts: another entropy value for each packet, at random.

use onramp_workload::state::Encoder;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Oblivious packet spraying.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Values of a flow, a power of two. Fewer than all are gone through in rounds, each in another order, as
    /// uet-htsim does (`-paths`). Default 65536, which is all: each is random.
    #[serde(skip_serializing_if = "super::are_all")]
    pub values: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { values: super::ALL }
    }
}

/// Draws from the flow's stream.
#[derive(Clone, Debug)]
pub struct Spray {
    random: Pcg64Mcg,
    values: u32,
    /// Bits that all values of the flow have in common.
    common: u16,
    /// Place in the round, and the bits by which its order differs from the others'.
    place: u32,
    order: u32,
}

impl Spray {
    pub(super) fn new(config: &Config, mut random: Pcg64Mcg) -> Self {
        let common = if config.values < super::ALL { common(&mut random, config.values) } else { 0 };
        Self { random, values: config.values, common, place: 0, order: 0 }
    }

    pub(super) fn encode(&self, state: &mut Encoder) {
        let Self { random, values: _, common: _, place, order } = self;
        state.random(random);
        state.word(*place);
        state.word(*order);
    }

    pub(super) fn next(&mut self) -> u16 {
        if self.values == super::ALL {
            return onramp_random::below(&mut self.random, 1 << 16) as u16;
        }
        if self.place == 0 {
            self.order = onramp_random::below(&mut self.random, self.values);
        }
        let value = self.place ^ self.order;
        self.place = (self.place + 1) % self.values;
        self.common | value as u16
    }
}

/// Bits of a flow's entropy values above those in which so many values differ.
pub(super) fn common(random: &mut Pcg64Mcg, values: u32) -> u16 {
    (onramp_random::below(random, 1 << 16) & !(values - 1)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_flow_goes_round_in_few_values_which_are_its_own() {
        let spray = |flow| Spray::new(&Config { values: 16 }, onramp_random::stream(1, "entropy", flow));
        let (mut one, mut other) = (spray(0), spray(1));
        let rounds: Vec<Vec<u16>> = (0..3).map(|_| (0..16).map(|_| one.next()).collect()).collect();
        let sets: Vec<BTreeSet<u16>> = rounds.iter().map(|round| round.iter().copied().collect()).collect();
        assert!(sets[0].len() == 16 && sets[0] == sets[1] && sets[1] == sets[2], "{sets:?}");
        assert!(rounds[0] != rounds[1] && rounds[1] != rounds[2], "{rounds:?}");
        assert!(!sets[0].contains(&other.next()));
    }
}
