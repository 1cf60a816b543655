//! Oblivious packet spraying by hosts: another entropy value for each packet, at random.

use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Oblivious packet spraying.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {}

/// Draws from the flow's stream.
#[derive(Clone, Debug)]
pub struct Spray(Pcg64Mcg);

impl Spray {
    pub(super) fn new(random: Pcg64Mcg) -> Self {
        Self(random)
    }

    pub(super) fn next(&mut self) -> u16 {
        onramp_random::below(&mut self.0, 1 << 16) as u16
    }
}
