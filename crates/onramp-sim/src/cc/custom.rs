//! Controllers of the program that uses this library, given by name.
//!
//! In a scenario: `kind = "custom"` (or `"custom-tcp"`, see [`super::tcp::custom`]), `name = "..."`, and any further
//! keys, which the program's [`Factory`] reads. The program says what it has when it builds the simulation.

use super::{Ack, Controller, Env, Loss, Permit, Sent, Settings, rcp, tcp, xcp};
use crate::network::feedback::int::IntStack;
use crate::network::feedback::{self, Told};
use onramp_config::units::{Ps, Rate};
use onramp_config::{Rule, tagged};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Makes the controller of a new flow.
pub type Start = Arc<dyn Fn(&Env) -> Box<dyn Custom> + Send + Sync>;

/// Reads the scenario's keys, once, or says what is wrong with them.
pub type Factory<S = Start> = fn(&toml::Table) -> Result<S, String>;

/// Controllers of a program, by name.
pub type Controllers<S = Start> = BTreeMap<String, Factory<S>>;

/// Controllers of a program, of RDMA and of TCP.
#[derive(Clone, Debug, Default)]
pub(crate) struct AllControllers {
    pub rdma: Controllers,
    pub tcp: Controllers<tcp::custom::Start>,
}

/// [`Controller`] without its parameters, which the [`Factory`] has read.
pub trait Custom: fmt::Debug + Send + Sync {
    /// Takes notice of its path: so many switches.
    fn on_path(&mut self, _hops: u32) {}
    /// Takes notice of an ACK or NACK.
    fn on_ack(&mut self, env: &Env, ack: &Ack<'_>);
    /// Takes notice of a loss.
    fn on_loss(&mut self, _env: &Env, _now: Ps, _loss: Loss) {}
    /// Takes notice of a packet that leaves.
    fn on_sent(&mut self, _env: &Env, _sent: &Sent) {}
    /// Values that a packet which leaves tells the switches on its path, if they write feedback that needs them.
    fn tell(&self, _env: &Env) -> Told {
        Told::default()
    }
    /// Window and rate that the flow may use at `now`.
    fn permit(&mut self, env: &Env, now: Ps) -> Permit;
}

/// Reason why a scenario's controller cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ControllerError {
    /// The program does not have it.
    #[error("transport \"{kind}\": {}", missing(.name, .known))]
    Missing {
        /// The transport's `kind`.
        kind: &'static str,
        /// Name of the controller in the scenario.
        name: String,
        /// Names of those that the program has.
        known: Vec<String>,
    },
    /// It refuses the scenario's parameters.
    #[error("transport \"{name}\": {message}")]
    Parameters {
        /// Name of the controller.
        name: String,
        /// Sentence: what is wrong, and what would be right.
        message: String,
    },
}

fn missing(name: &str, known: &[String]) -> String {
    if known.is_empty() {
        format!("\"{name}\" runs only in a program that brings it, such as examples/controller")
    } else {
        format!("there is no \"{name}\", only {}", known.join(", "))
    }
}

/// What a factory has made of a scenario's keys, once it was asked; equal keys make it equal.
#[derive(Clone)]
pub(super) struct Found<S>(Option<S>);

impl<S> Found<S> {
    pub(super) fn get(&self) -> &S {
        self.0.as_ref().expect("the simulation has found its controllers")
    }

    /// Asks the factory of that name.
    pub(super) fn find(
        &mut self,
        kind: &'static str,
        name: &str,
        parameters: &toml::Table,
        controllers: &Controllers<S>,
    ) -> Result<(), ControllerError> {
        let name = name.to_string();
        let Some(factory) = controllers.get(&name) else {
            return Err(ControllerError::Missing { kind, name, known: controllers.keys().cloned().collect() });
        };
        self.0 = Some(factory(parameters).map_err(|message| ControllerError::Parameters { name, message })?);
        Ok(())
    }
}

impl<S> Default for Found<S> {
    fn default() -> Self {
        Self(None)
    }
}

impl<S> PartialEq for Found<S> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<S> fmt::Debug for Found<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "found" } else { "not found yet" })
    }
}

tagged! {
    /// Feedback of switches that a controller reads, with the parameters of the switches.
    pub enum Reads {
        /// In-band telemetry, as HPCC reads it.
        Int(Int) = "int",
        /// RCP's rate.
        Rcp(rcp::Config) = "rcp",
        /// XCP's change of the window. Its `initial_window` has no effect.
        Xcp(xcp::Config) = "xcp",
    }
}

/// In-band telemetry, which has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Int {}

/// A controller by name, and its parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Config {
    /// The name it was registered as.
    pub name: String,
    /// Feedback of switches that it reads. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Reads>,
    /// Keys for the factory.
    #[serde(flatten)]
    pub parameters: toml::Table,
    /// Found by [`Config::find`].
    #[serde(skip)]
    start: Found<Start>,
}

impl Config {
    /// Finds its controller among those of the program, which reads its parameters.
    pub(crate) fn find(&mut self, controllers: &Controllers) -> Result<(), ControllerError> {
        self.start.find("custom", &self.name, &self.parameters, controllers)
    }
}

impl Settings for Config {
    fn resolve_rtt(&mut self, base_rtt: Ps) {
        match &mut self.feedback {
            Some(Reads::Rcp(switches)) => switches.resolve_rtt(base_rtt),
            Some(Reads::Xcp(switches)) => switches.resolve_rtt(base_rtt),
            Some(Reads::Int(_)) | None => {}
        }
    }

    fn check(&self, rule: Rule<'_>) {
        let mut within = |holds: bool, key: &str, message: String| rule(holds, &format!("feedback.{key}"), message);
        match &self.feedback {
            Some(Reads::Rcp(switches)) => switches.check(&mut within),
            Some(Reads::Xcp(switches)) => switches.check(&mut within),
            Some(Reads::Int(_)) | None => {}
        }
    }

    fn min_rate(&self) -> Rate {
        Rate(0)
    }

    fn counts_hops(&self) -> bool {
        true
    }

    fn extra_header(&self) -> u64 {
        match &self.feedback {
            Some(Reads::Int(_)) => IntStack::WIRE_BYTES,
            Some(Reads::Rcp(switches)) => switches.extra_header(),
            Some(Reads::Xcp(switches)) => switches.extra_header(),
            None => 0,
        }
    }

    fn ack_bytes(&self) -> u64 {
        match &self.feedback {
            Some(Reads::Int(_)) => 46 + IntStack::WIRE_BYTES,
            Some(Reads::Rcp(switches)) => switches.ack_bytes(),
            Some(Reads::Xcp(switches)) => switches.ack_bytes(),
            None => 60,
        }
    }

    fn feedback(&self) -> feedback::Kind {
        match &self.feedback {
            Some(Reads::Int(_)) => feedback::Kind::Int,
            Some(Reads::Rcp(switches)) => switches.feedback(),
            Some(Reads::Xcp(switches)) => switches.feedback(),
            None => feedback::Kind::Plain,
        }
    }
}

/// State of one flow.
pub type State = Box<dyn Custom>;

impl Controller for State {
    type Config = Config;

    fn new(c: &Config, env: &Env) -> Self {
        (c.start.get())(env)
    }

    fn on_path(&mut self, hops: u32) {
        (**self).on_path(hops);
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

    fn tell(&self, _: &Config, env: &Env) -> Told {
        (**self).tell(env)
    }

    fn permit(&mut self, _: &Config, env: &Env, now: Ps) -> Permit {
        (**self).permit(env, now)
    }
}
