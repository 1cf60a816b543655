//! A window that grows by a constant each round trip, and shrinks by a share in one that saw a mark or a loss.
//!
//! It is yours to change: `cargo build --release`, then any command, such as `onramp compare scenario.toml`.

use onramp_controller::{Ack, Controller, Env, Keys, Loss, Permit};

/// Keys of the scenario's `[transport]`.
struct Parameters {
    /// Bytes added to the window each round trip.
    increase: u64,
    /// Share of the window that a mark or a loss leaves.
    decrease: f64,
}

/// State of one flow.
struct Aimd {
    /// Bytes of payload.
    window: f64,
    /// First packet sent after the last decrease; marks of earlier ones belong to the window before.
    decreased_at: u64,
}

impl Aimd {
    fn decrease(&mut self, parameters: &Parameters, env: &Env) {
        self.window = (self.window * parameters.decrease).max(env.payload as f64);
    }
}

impl Controller for Aimd {
    type Parameters = Parameters;

    fn read(keys: &Keys<'_>) -> Result<Parameters, String> {
        let parameters =
            Parameters { increase: keys.bytes("increase", 1000)?, decrease: keys.number("decrease", 0.5)? };
        if !(0.0..1.0).contains(&parameters.decrease) {
            return Err(format!("decrease = {}: must be from 0 to below 1, such as 0.5", parameters.decrease));
        }
        Ok(parameters)
    }

    fn new(_: &Parameters, env: &Env) -> Self {
        Self { window: env.max_window, decreased_at: 0 }
    }

    fn on_ack(&mut self, parameters: &Parameters, env: &Env, ack: &Ack<'_>) {
        if ack.ecn && ack.acked >= self.decreased_at {
            self.decreased_at = ack.next;
            self.decrease(parameters, env);
        } else {
            let rounds = ack.newly_acked as f64 / self.window;
            self.window = (self.window + parameters.increase as f64 * rounds).min(env.max_window);
        }
    }

    fn on_loss(&mut self, parameters: &Parameters, env: &Env, _now: u64, _loss: Loss) {
        self.decrease(parameters, env);
    }

    fn permit(&mut self, _: &Parameters, _: &Env, _now: u64) -> Permit {
        Permit { window: self.window as u64, rate: f64::INFINITY }
    }
}

// A scenario's `name`, and what it means here.
onramp_controller::controllers! { "aimd" => Aimd }

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_controller::Units;

    const P: Parameters = Parameters { increase: 1000, decrease: 0.5 };

    fn ack(ecn: bool, acked: u64, next: u64) -> Ack<'static> {
        Ack {
            now: 0,
            rtt: 10_000_000,
            endpoint: 0,
            ecn,
            trimmed: false,
            acked,
            next,
            newly_acked: 10_000,
            in_flight: 100_000,
            delivery_rate: None,
            hops: &[],
        }
    }

    #[test]
    fn one_round_trip_halves_the_window_once() {
        let env = Env {
            line_rate: 100e9,
            base_rtt: 10_000_000,
            max_window: 100_000.0,
            payload: 1000,
            packet: 1048,
            int_units: Units::new(100e9),
        };
        let mut flow = Aimd::new(&P, &env);
        flow.on_ack(&P, &env, &ack(true, 10, 110));
        flow.on_ack(&P, &env, &ack(true, 20, 120));
        // The second mark is of the same round trip: a tenth of the window is acknowledged, which adds 200 bytes.
        assert_eq!(flow.permit(&P, &env, 0).window, 50_200);
        flow.on_ack(&P, &env, &ack(true, 110, 160));
        assert_eq!(flow.permit(&P, &env, 0).window, 25_100);
    }
}
