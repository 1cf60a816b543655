//! A controller of the program that uses this library, given by name.
//!
//! In a scenario: `kind = "custom"`, `name = "..."`, and any further keys, which the
//! program's [`Factory`] reads. The program says what it has when it builds the
//! simulation.

use super::{Ack, Controller, Env, Loss, Permit, Sent, Settings};
use onramp_config::Rule;
use onramp_config::units::{Ps, Rate};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Makes the controller of a new flow.
pub type Start = Arc<dyn Fn(&Env) -> Box<dyn Custom> + Send + Sync>;

/// Reads the scenario's keys, once, or says what is wrong with them.
pub type Factory = fn(&toml::Table) -> Result<Start, String>;

/// [`Controller`] without its parameters, which the [`Factory`] has read.
pub trait Custom: fmt::Debug + Send + Sync {
    /// Takes notice of an ACK or NACK.
    fn on_ack(&mut self, env: &Env, ack: &Ack<'_>);
    /// Takes notice of a loss.
    fn on_loss(&mut self, _env: &Env, _now: Ps, _loss: Loss) {}
    /// Takes notice of a packet that leaves.
    fn on_sent(&mut self, _env: &Env, _sent: &Sent) {}
    /// What the flow may do at `now`.
    fn permit(&mut self, env: &Env, now: Ps) -> Permit;
}

/// What a program has, by name.
pub type Controllers = BTreeMap<String, Factory>;

/// Which controller, and its parameters.
#[derive(Clone, Serialize, Deserialize)]
pub struct Config {
    /// The name it was registered as.
    pub name: String,
    /// What the factory reads.
    #[serde(flatten)]
    pub parameters: toml::Table,
    /// Found by [`Config::find`].
    #[serde(skip)]
    start: Option<Start>,
}

impl Config {
    /// Finds its controller among those of the program, which reads its parameters.
    ///
    /// # Errors
    /// There is none of that name, or it cannot have these parameters.
    pub fn find(&mut self, controllers: &Controllers) -> Result<(), String> {
        let name = &self.name;
        let Some(factory) = controllers.get(name) else {
            let known = controllers.keys().cloned().collect::<Vec<_>>().join(", ");
            return Err(if known.is_empty() {
                format!(
                    "transport \"custom\": \"{name}\" runs only in a program that brings it, such as examples/controller"
                )
            } else {
                format!("transport \"custom\": there is no \"{name}\", only {known}")
            });
        };
        self.start = Some(factory(&self.parameters).map_err(|m| format!("transport \"{name}\": {m}"))?);
        Ok(())
    }
}

impl PartialEq for Config {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.parameters) == (&other.name, &other.parameters)
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config").field("name", &self.name).field("parameters", &self.parameters).finish()
    }
}

impl Settings for Config {
    fn resolve(&mut self, _: Rate) {}

    fn check(&self, _: Rule<'_>) {}

    fn min_rate(&self) -> Rate {
        Rate(0)
    }

    /// A permit may limit the window whether or not this says so.
    fn window(&self) -> bool {
        true
    }
}

/// State of one flow.
pub type State = Box<dyn Custom>;

impl Controller for State {
    type Config = Config;

    fn new(c: &Config, env: &Env) -> Self {
        let start = c.start.as_ref().expect("the simulation has found its controllers");
        start(env)
    }

    fn on_ack(&mut self, _: &Config, env: &Env, ack: &Ack<'_>) {
        (**self).on_ack(env, ack);
    }

    fn on_loss(&mut self, _: &Config, env: &Env, now: Ps, loss: Loss) {
        (**self).on_loss(env, now, loss);
    }

    fn on_sent(&mut self, _: &Config, env: &Env, sent: &Sent) {
        (**self).on_sent(env, sent);
    }

    fn permit(&mut self, _: &Config, env: &Env, now: Ps) -> Permit {
        (**self).permit(env, now)
    }
}
