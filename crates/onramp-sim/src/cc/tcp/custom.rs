//! Controllers of TCP of the program that uses this library, given by name.
//!
//! In a scenario: `kind = "custom-tcp"`, `name = "..."`, and any further keys, which the program's
//! [`Factory`](crate::cc::custom::Factory) reads. What it makes is a [`Controller`], as the built-in ones are.

use super::{Controller, FromConfig, MARKS, Window};
use crate::cc::Settings;
use crate::cc::custom::{Controllers, EXAMPLE};
use crate::network::config::EcnDefault;
use crate::network::feedback;
use onramp_config::own::{Own, OwnError, Seam};
use onramp_config::units::Rate;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Makes the controller of a connection that is now open; the number is random.
pub type Start = Arc<dyn Fn(&mut Window, u64) -> Box<dyn Controller> + Send + Sync>;

const SEAM: Seam = Seam { key: "transport", kind: "custom-tcp", example: EXAMPLE };

/// A controller by name, and its parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The name it was registered as.
    pub name: String,
    /// True if its connections negotiate ECN, and switches mark. Default false.
    #[serde(default)]
    pub ecn: bool,
    /// Keys for the factory.
    #[serde(flatten)]
    pub parameters: toml::Table,
    /// Found by [`Config::find`].
    #[serde(skip)]
    start: Own<Start>,
}

impl Config {
    /// Finds its controller among those of the program, which reads its parameters.
    pub(crate) fn find(&mut self, controllers: &Controllers<Start>) -> Result<(), OwnError> {
        self.start.find(&SEAM, &self.name, &self.parameters, controllers)
    }
}

impl Settings for Config {
    fn min_rate(&self) -> Rate {
        Rate(0)
    }

    fn feedback(&self) -> feedback::Kind {
        feedback::Kind::Tcp
    }

    fn ecn_defaults(&self) -> Option<EcnDefault> {
        self.ecn.then_some(MARKS)
    }
}

/// State of one connection.
pub type State = Box<dyn Controller>;

impl FromConfig for State {
    type Config = Config;

    fn new(c: &Config, w: &mut Window, draw: u64) -> Self {
        (c.start.get())(w, draw)
    }
}
