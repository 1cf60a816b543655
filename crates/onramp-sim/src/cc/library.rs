//! Controllers in libraries of their own (`transport.library`), as the simulator's others are.

use super::custom::{Custom, Start};
use super::{Ack, Env, Loss, Permit, Sent};
use crate::network::feedback::Written;
use onramp_config::units::{Bytes, Ps, Rate, Span};
use onramp_controller::abi::{Key, Kind, Text};
use onramp_controller::host::{Flow, Parameters};
use std::path::Path;
use std::sync::Arc;

/// Has the controller called `name` of the library at `path` read its keys.
///
/// # Errors
/// A sentence without its subject, the library: it cannot be opened, does not have that controller, or refuses a key.
pub fn read(path: &Path, name: &str, keys: &toml::Table) -> Result<Arc<Parameters>, String> {
    let texts: Vec<(&String, String, &toml::Value)> =
        keys.iter().map(|(name, value)| (name, value.to_string(), value)).collect();
    let keys: Vec<Key<'_>> = texts.iter().map(|(name, text, value)| key(name, text, value)).collect();
    Parameters::read(path, name, &keys)
}

/// A key with its value in base units, as far as it has one.
fn key<'a>(name: &'a str, text: &'a str, value: &toml::Value) -> Key<'a> {
    let (kind, value) = match value {
        toml::Value::Boolean(on) => (Kind::Flag, f64::from(u8::from(*on))),
        toml::Value::Integer(number) => (Kind::Number, *number as f64),
        toml::Value::Float(number) => (Kind::Number, *number),
        toml::Value::String(text) => {
            if let Ok(Bytes(bytes)) = text.parse() {
                (Kind::Bytes, bytes as f64)
            } else if let Ok(Rate(rate)) = text.parse() {
                (Kind::Rate, rate as f64)
            } else if let Ok(Span(time)) = text.parse() {
                (Kind::Time, time as f64)
            } else {
                (Kind::Text, 0.0)
            }
        }
        _ => (Kind::Text, 0.0),
    };
    Key { name: Text::new(name), text: Text::new(text), kind, value }
}

/// Starts flows with these parameters.
pub fn start(parameters: &Arc<Parameters>) -> Start {
    let parameters = Arc::clone(parameters);
    Arc::new(move |env| Box::new(Flow::new(&parameters, env)))
}

impl Custom for Flow {
    fn on_path(&mut self, hops: u32) {
        self.on_path(hops);
    }

    fn on_ack(&mut self, env: &Env, ack: &Ack<'_>) {
        let hops = match ack.written {
            Written::Int(stack) => stack.hops(),
            _ => &[],
        };
        let ack = onramp_controller::Ack {
            now: ack.now,
            rtt: ack.rtt,
            endpoint: ack.endpoint,
            ecn: ack.ecn,
            trimmed: ack.trimmed,
            acked: ack.acked,
            next: ack.next,
            newly_acked: ack.newly_acked,
            in_flight: ack.in_flight,
            delivery_rate: ack.delivery_rate,
            hops,
        };
        self.on_ack(env, &ack);
    }

    fn on_loss(&mut self, env: &Env, now: Ps, loss: Loss) {
        self.on_loss(env, now, loss);
    }

    fn on_sent(&mut self, env: &Env, sent: &Sent) {
        self.on_sent(env, sent);
    }

    fn permit(&mut self, env: &Env, now: Ps) -> Permit {
        self.permit(env, now)
    }
}
