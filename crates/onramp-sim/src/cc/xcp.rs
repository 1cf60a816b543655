//! XCP's sender (Katabi, Handley, Rohrs, SIGCOMM'02): a window that switches change.

use super::{Ack, Controller, Env, Loss, Permit, Settings};
use crate::network::config::EcnDefault;
use crate::network::feedback::xcp::{Congestion, Params};
use crate::network::feedback::{self, Told, Written};
use onramp_config::Rule;
use onramp_config::units::{Ps, SEC, Span, US};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// Parameters; all but the initial window are the switches'.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// α, gain of the spare bandwidth. Default 0.4, the paper's.
    pub alpha: f64,
    /// β, gain of the persistent queue. Default 0.226, the paper's: stable for α below π/(4√2), β = α²√2.
    pub beta: f64,
    /// γ, share of the traffic that is shuffled between flows. Default 0.1, the paper's.
    pub gamma: f64,
    /// Window of a new flow in packets. Default 1.
    pub initial_window: f64,
    /// Shortest control interval. Default 1 us: the authors' router for ns-2 has 1 ms, where round trips are tens
    /// of milliseconds.
    pub min_interval: Span,
    /// Longest control interval. Default 1 s, as there.
    pub max_interval: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            alpha: 0.4,
            beta: 0.226,
            gamma: 0.1,
            initial_window: 1.0,
            min_interval: Span(US),
            max_interval: Span(SEC),
        }
    }
}

impl Settings for Config {
    fn check(&self, rule: Rule<'_>) {
        for (key, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            rule(value > 0.0 && value.is_finite(), key, format!("{value} is not above 0"));
        }
        rule((0.0..=1.0).contains(&self.gamma), "gamma", format!("{} is outside 0 to 1", self.gamma));
        let first = self.initial_window;
        rule((1.0..=1e6).contains(&first), "initial_window", format!("{first} is outside 1 to 1000000"));
        let (least, most) = (self.min_interval, self.max_interval);
        rule(least.0 > 0, "min_interval", "must be above 0, such as \"1us\"".into());
        rule(least <= most, "max_interval", format!("{most} is below min_interval, {least}"));
    }

    fn extra_header(&self) -> u64 {
        Congestion::WIRE_BYTES
    }

    /// The feedback comes back.
    fn ack_bytes(&self) -> u64 {
        60 + Congestion::WIRE_BYTES
    }

    fn feedback(&self) -> feedback::Kind {
        let &Self { alpha, beta, gamma, min_interval, max_interval, .. } = self;
        feedback::Kind::Xcp(Params { alpha, beta, gamma, min_interval: min_interval.0, max_interval: max_interval.0 })
    }

    fn ecn_defaults(&self) -> Option<EcnDefault> {
        None
    }
}

/// State of one flow.
#[derive(Clone, Debug)]
pub struct State {
    /// cwnd in bytes on the wire.
    window: f64,
    /// Smoothed round trip in picoseconds.
    rtt: f64,
    measured: bool,
    last_cut: Option<Ps>,
}

impl Controller for State {
    type Config = Config;

    /// A handshake would have told the round trip: it begins with the network's.
    fn new(c: &Config, env: &Env) -> Self {
        let window = c.initial_window * env.packet as f64;
        Self { window, rtt: env.base_rtt as f64, measured: false, last_cut: None }
    }

    fn on_ack(&mut self, _: &Config, env: &Env, ack: &Ack<'_>) {
        let Written::Xcp(header) = ack.written else { return };
        let rtt = ack.rtt as f64;
        self.rtt = if self.measured { self.rtt + (rtt - self.rtt) / 8.0 } else { rtt };
        self.measured = true;
        self.window = (self.window + header.feedback()).max(env.packet as f64);
    }

    /// "XCP responds to losses as TCP does" (§3.2): half a window in a round trip, and one packet after a timeout.
    fn on_loss(&mut self, _: &Config, env: &Env, now: Ps, loss: Loss) {
        let least = env.packet as f64;
        if loss == Loss::Timeout {
            self.window = least;
        } else if self.last_cut.is_none_or(|at| (now - at) as f64 >= self.rtt) {
            self.window = (self.window / 2.0).max(least);
            self.last_cut = Some(now);
        }
    }

    /// A sender that wants its link's rate asks each packet of a window for its part of what is missing (§3.2).
    #[inline]
    fn tell(&self, _: &Config, env: &Env) -> Told {
        let wanted = env.line_rate / 8.0 * (self.rtt / SEC as f64);
        let packets = self.window / env.packet as f64;
        Told { rtt: self.rtt as Ps, window: self.window, wish: (wanted - self.window) / packets }
    }

    #[inline]
    fn permit(&mut self, _: &Config, env: &Env, _: Ps) -> Permit {
        let packets = self.window as u64 / env.packet;
        Permit { window: packets.max(1) * env.payload, rate: f64::INFINITY }
    }

    fn encode(&self, _: &Config, _: &Env, _: u32, state: &mut Encoder) {
        state.refuse("switches measure for XCP at times of their own");
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ENV, at};
    use super::*;
    use crate::network::Packet;
    use crate::network::feedback::Header;

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} is not {expected}");
    }

    fn ack(flow: &mut State, now: Ps, rtt: Ps, feedback: f64) {
        let header = Congestion::tell(&Told { rtt: 0, window: 0.0, wish: feedback });
        let packet = Packet { header, ..Packet::default() };
        flow.on_ack(&Config::default(), &ENV, &Ack { written: packet.header.read(), ..at(now, rtt, false, 1, 1) });
    }

    #[test]
    fn the_window_follows_the_feedback_and_never_goes_below_a_packet() {
        let c = Config::default();
        let mut flow = State::new(&c, &ENV);
        assert_eq!(flow.permit(&c, &ENV, 0), Permit { window: 1000, rate: f64::INFINITY });
        ack(&mut flow, 0, 12 * US, 2000.0);
        // 3048 B on the wire are 2 packets of 1048 B.
        assert_eq!(flow.permit(&c, &ENV, 0).window, 2000);
        ack(&mut flow, 0, 12 * US, 96.0);
        assert_eq!(flow.permit(&c, &ENV, 0).window, 3000);
        ack(&mut flow, 0, 12 * US, -9000.0);
        assert_eq!(flow.window, 1048.0);
    }

    #[test]
    fn a_packet_asks_for_its_part_of_the_way_to_the_line_rate() {
        let c = Config::default();
        let mut flow = State::new(&c, &ENV);
        // 100 Gb/s for 12 µs are 150 000 B; the window is one packet.
        close(flow.tell(&c, &ENV).wish, 150_000.0 - 1048.0);
        flow.window = 10_480.0;
        let told = flow.tell(&c, &ENV);
        close(told.wish, (150_000.0 - 10_480.0) / 10.0);
        assert_eq!((told.rtt, told.window), (12 * US, 10_480.0));
        // 20 µs at first, then an eighth of the way to 28.
        ack(&mut flow, 0, 20 * US, 0.0);
        ack(&mut flow, 0, 28 * US, 0.0);
        assert_eq!(flow.tell(&c, &ENV).rtt, 21 * US);
    }

    #[test]
    fn a_loss_halves_the_window_once_in_a_round_trip_and_a_timeout_leaves_a_packet() {
        let c = Config::default();
        let mut flow = State::new(&c, &ENV);
        flow.window = 80_000.0;
        flow.on_loss(&c, &ENV, 100 * US, Loss::Fast);
        flow.on_loss(&c, &ENV, 105 * US, Loss::Fast);
        assert_eq!(flow.window, 40_000.0);
        flow.on_loss(&c, &ENV, 112 * US, Loss::Fast);
        assert_eq!(flow.window, 20_000.0);
        flow.on_loss(&c, &ENV, 113 * US, Loss::Timeout);
        assert_eq!(flow.window, 1048.0);
    }
}
