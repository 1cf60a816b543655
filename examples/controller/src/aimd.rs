//! A window that grows by a constant each round trip, and shrinks by a share in one
//! that saw a mark or a loss.

use onramp_sim::cc::custom::{Custom, Start};
use onramp_sim::cc::{Ack, Env, Loss, Permit};
use onramp_sim::units::{Bytes, Ps};
use serde::Deserialize;
use std::sync::Arc;

/// Keys of the scenario's `[transport]`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Parameters {
    /// Added to the window each round trip. Default 1000 B.
    increase: Bytes,
    /// Share of the window that a mark leaves. Default 0.5.
    decrease: f64,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { increase: Bytes(1000), decrease: 0.5 }
    }
}

/// One flow's.
#[derive(Debug)]
struct Aimd {
    parameters: Parameters,
    /// Bytes of payload.
    window: f64,
    /// First packet sent after the last decrease; marks of earlier ones belong to the window before.
    decreased_at: u64,
}

/// Reads the parameters; with them a flow's controller is made when it starts.
pub fn factory(keys: &toml::Table) -> Result<Start, String> {
    let parameters: Parameters = keys.clone().try_into().map_err(|e: toml::de::Error| e.message().to_string())?;
    if !(0.0..1.0).contains(&parameters.decrease) {
        return Err(format!("decrease = {} is outside 0 to 1", parameters.decrease));
    }
    Ok(Arc::new(move |env| Box::new(Aimd { parameters, window: env.max_window, decreased_at: 0 })))
}

impl Aimd {
    fn decrease(&mut self, env: &Env) {
        self.window = (self.window * self.parameters.decrease).max(env.payload as f64);
    }
}

impl Custom for Aimd {
    fn on_ack(&mut self, env: &Env, ack: &Ack<'_>) {
        if ack.ecn && ack.acked >= self.decreased_at {
            self.decreased_at = ack.next;
            self.decrease(env);
        } else {
            let rounds = ack.newly_acked as f64 / self.window;
            self.window = (self.window + self.parameters.increase.0 as f64 * rounds).min(env.max_window);
        }
    }

    fn on_loss(&mut self, env: &Env, _now: Ps, _loss: Loss) {
        self.decrease(env);
    }

    fn permit(&mut self, _env: &Env, _now: Ps) -> Permit {
        Permit { window: self.window as u64, rate: f64::INFINITY }
    }
}
