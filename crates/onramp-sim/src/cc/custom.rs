//! Controllers that the simulator does not have, given by name.
//!
//! In a scenario: `kind = "custom"` (or `"custom-tcp"`, see [`super::tcp::custom`]), `name = "..."`, and any further
//! keys. With `library = "..."` the controller is in that library, which [`onramp_controller`] describes. Otherwise the
//! program that uses the simulator has it: it says so when it builds the simulation, and its [`Factory`] reads the keys.

use super::{Ack, Controller, Env, Loss, Permit, Sent, Settings, library, rcp, xcp};
use crate::network::feedback::int::IntStack;
use crate::network::feedback::{self, Told};
use onramp_config::own::{self, Own, OwnError, Seam};
use onramp_config::units::{Ps, Rate};
use onramp_config::{Rule, tagged};
use onramp_controller::host::Parameters;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Makes the controller of a new flow.
pub type Start = Arc<dyn Fn(&Env) -> Box<dyn Custom> + Send + Sync>;

/// Reads the scenario's keys, once, or says what is wrong with them.
pub type Factory<S = Start> = own::Factory<S>;

/// Controllers of a program, by name.
pub type Controllers<S = Start> = own::Factories<S>;

const SEAM: Seam = Seam { key: "transport", kind: "custom", example: EXAMPLE };
/// A program with controllers of its own.
pub const EXAMPLE: &str = "examples/controller";

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
    /// The name that its library or program gives it.
    pub name: String,
    /// File of the library that has it, relative to the scenario. Default: the program has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<String>,
    /// Feedback of switches that it reads. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feedback: Option<Reads>,
    /// Keys of its own.
    #[serde(flatten)]
    pub parameters: toml::Table,
    /// Found by [`Config::find`].
    #[serde(skip)]
    start: Own<Start>,
    /// The library's, if it is in one.
    #[serde(skip)]
    of_library: Own<Arc<Parameters>>,
}

impl Config {
    /// Finds its controller in its library, relative to `base`, or among those of the program, and has it read its
    /// parameters.
    pub(crate) fn find(&mut self, controllers: &Controllers, base: &Path) -> Result<(), OwnError> {
        let Some(file) = &self.library else {
            return self.start.find(&SEAM, &self.name, &self.parameters, controllers);
        };
        let wrong = |message| OwnError::Library { key: SEAM.key, library: file.clone(), message };
        let parameters = library::read(&base.join(file), &self.name, &self.parameters).map_err(wrong)?;
        self.start.set(library::start(&parameters));
        self.of_library.set(parameters);
        Ok(())
    }

    /// Mistake of its library, if it is in one.
    pub(crate) fn check_library(&self, base: &Path) -> Option<String> {
        let file = self.library.as_ref()?;
        let read = library::read(&base.join(file), &self.name, &self.parameters);
        Some(format!("{file}: {}", read.err()?))
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
        let reads_int = matches!(self.feedback, Some(Reads::Int(_)) | None);
        rule(
            self.library.is_none() || reads_int,
            "feedback.kind",
            "must be \"int\" with a library: it is told of nothing else".into(),
        );
    }

    fn min_rate(&self) -> Rate {
        Rate(0)
    }

    fn failure(&self) -> Option<String> {
        let failure = self.of_library.made()?.failure()?;
        Some(format!("controller \"{}\" failed: {failure}", self.name))
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
