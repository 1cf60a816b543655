//! Ways to choose paths of the program that uses this library, given by name.
//!
//! In a scenario: `paths = { kind = "custom", name = "...", ... }`, with further keys, which the program's [`Factory`]
//! reads. What it makes is a [`PathSelector`] for the switches of each cell, as the built-in ones are.

use super::{Choice, PathSelector};
use onramp_config::Rule;
use onramp_config::own::{self, Own, OwnError, Seam};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Makes the selector of a cell, given the scenario's seed and the numbers of the cell's switches in the whole network.
/// A stream of random numbers for each of them makes choices independent of cells ([`onramp_random::stream`]).
pub type Start = Arc<dyn Fn(u64, &[u32]) -> Box<dyn PathSelector> + Send + Sync>;

/// Reads the scenario's keys, once, or says what is wrong with them.
pub type Factory = own::Factory<Start>;

/// Ways of a program, by name.
pub type Selectors = own::Factories<Start>;

/// A program with ways of its own.
pub const EXAMPLE: &str = "examples/paths";
const SEAM: Seam = Seam { key: "switch.paths", kind: "custom", example: EXAMPLE };

/// A way by name, and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The name it was registered as.
    pub name: String,
    /// Keys for the factory.
    #[serde(flatten)]
    pub parameters: toml::Table,
    /// Found by [`Config::find`].
    #[serde(skip)]
    start: Own<Start>,
}

impl Config {
    pub(super) fn check(&self, _: Rule<'_>) {}

    /// Finds it among those of the program, which reads its parameters.
    pub(crate) fn find(&mut self, selectors: &Selectors) -> Result<(), OwnError> {
        self.start.find(&SEAM, &self.name, &self.parameters, selectors)
    }
}

/// The program's.
#[derive(Debug)]
pub struct Selector(Box<dyn PathSelector>);

impl Selector {
    pub(super) fn new(config: &Config, seed: u64, switches: &[u32]) -> Self {
        Self((config.start.get())(seed, switches))
    }
}

impl PathSelector for Selector {
    fn pick(&mut self, choice: &Choice<'_>) -> usize {
        self.0.pick(choice)
    }
}
