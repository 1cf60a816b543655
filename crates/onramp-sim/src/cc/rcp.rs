//! RCP's sender (Dukkipati et al., IWQoS'05): it paces at the smallest rate of its path.

pub use crate::network::feedback::rcp::Params as Config;

use super::{Ack, Controller, Env, Permit, Settings};
use crate::network::config::EcnDefault;
use crate::network::feedback::rcp::{Congestion, Form};
use crate::network::feedback::{self, Told, Written};
use onramp_config::Rule;
use onramp_config::units::{Ps, Span};
use onramp_workload::state::Encoder;

impl Settings for Config {
    fn resolve_rtt(&mut self, base_rtt: Ps) {
        if self.form == Form::Refined {
            self.interval.get_or_insert(Span((base_rtt / 2).max(1)));
        }
    }

    fn check(&self, rule: Rule<'_>) {
        for (key, value) in [("alpha", self.alpha), ("beta", self.beta)] {
            rule(value > 0.0 && value.is_finite(), key, format!("{value} is not above 0"));
        }
        for (key, value) in [("utilization", self.utilization), ("initial", self.initial)] {
            rule(value > 0.0 && value <= 1.0, key, format!("{value} is outside 0 to 1"));
        }
        rule(self.interval.is_none_or(|t| t.0 > 0), "interval", "must be above 0, such as \"10us\"".into());
        let message = "has no effect with form = \"estimate\": leave it out".into();
        rule(self.form == Form::Refined || self.interval.is_none(), "interval", message);
        let least = self.min_packets;
        rule((1e-4..=1.0).contains(&least), "min_packets", format!("{least} is outside 0.0001 to 1"));
    }

    fn extra_header(&self) -> u64 {
        Congestion::WIRE_BYTES
    }

    /// The rate and the round trip come back.
    fn ack_bytes(&self) -> u64 {
        60 + Congestion::WIRE_BYTES
    }

    fn feedback(&self) -> feedback::Kind {
        feedback::Kind::Rcp(*self)
    }

    fn respace(&self) -> bool {
        true
    }

    fn ecn_defaults(&self) -> Option<EcnDefault> {
        None
    }
}

/// State of one flow.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Rate that the path gives, in bits per second; `None` before the first ACK.
    rate: Option<f64>,
    /// The last round trip; 0 before.
    rtt: Ps,
}

impl Controller for State {
    type Config = Config;

    fn new(_: &Config, _: &Env) -> Self {
        Self::default()
    }

    fn on_ack(&mut self, _: &Config, env: &Env, ack: &Ack<'_>) {
        let Written::Rcp(header) = ack.written else { return };
        self.rtt = ack.rtt;
        // No switch on the path leaves the link's own rate.
        self.rate = Some(header.rate().map_or(env.line_rate, |rate| rate.min(env.line_rate)));
    }

    #[inline]
    fn tell(&self, _: &Config, _: &Env) -> Told {
        Told { rtt: self.rtt, ..Told::default() }
    }

    /// The first packet asks, as the SYN does in RCP's TCP: what comes back says how fast the rest may leave.
    #[inline]
    fn permit(&mut self, _: &Config, _: &Env, _: Ps) -> Permit {
        match self.rate {
            None => Permit { window: 1, rate: f64::INFINITY },
            Some(rate) => Permit { window: u64::MAX, rate },
        }
    }

    fn encode(&self, _: &Config, _: &Env, _: u32, state: &mut Encoder) {
        state.refuse("switches measure for RCP at times of their own");
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ENV, at};
    use super::*;
    use crate::network::Packet;
    use crate::network::feedback::rcp::Rcp;
    use crate::network::feedback::{Feedback, Header, Leaving};
    use onramp_config::units::US;

    #[test]
    fn the_first_packet_asks_and_the_rest_is_paced_as_the_path_says() {
        let c = Config::default();
        let mut flow = State::new(&c, &ENV);
        assert_eq!(flow.permit(&c, &ENV, 0), Permit { window: 1, rate: f64::INFINITY });
        assert_eq!(flow.tell(&c, &ENV).rtt, 0);
        // A port of 40 Gb/s that has just begun gives 0.05·40 Gb/s.
        let feedback = Rcp::new(c, ENV.base_rtt, 1000);
        let mut packet = Packet { header: Congestion::tell(&Told::default()), ..Packet::default() };
        let leaving = Leaving { now: 0, tx_bytes: 0, queue_bytes: 0, rate: 40_000_000_000 };
        feedback.dequeue(&mut feedback.port(40_000_000_000, 0), &mut packet, &leaving);
        flow.on_ack(&c, &ENV, &Ack { written: packet.header.read(), ..at(0, 13 * US, false, 1, 1) });
        let Permit { window, rate } = flow.permit(&c, &ENV, 0);
        assert_eq!((window, rate.round()), (u64::MAX, 2e9));
        assert_eq!(flow.tell(&c, &ENV).rtt, 13 * US);
    }

    #[test]
    fn a_path_without_switches_gives_the_whole_link() {
        let c = Config::default();
        let mut flow = State::new(&c, &ENV);
        let header = Congestion::default();
        flow.on_ack(&c, &ENV, &Ack { written: header.read(), ..at(0, 13 * US, false, 1, 1) });
        assert_eq!(flow.permit(&c, &ENV, 0).rate, ENV.line_rate);
    }
}
