//! TIMELY (Mittal et al., SIGCOMM'15) as in the HPCC simulator: the original
//! rule, a = 0.875, one update per RTT.

use super::{Ack, Controller, Env, Permit, Settings, check_min_rate};
use crate::network::config::AckClass;
use onramp_config::Rule;
use onramp_config::units::{Ps, Rate, Span, US};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// Parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Limits bytes in flight by a window (TIMELY+w). Default false.
    pub window: bool,
    /// Lowest rate. Default 1 Gb/s.
    pub min_rate: Rate,
    /// EWMA weight a of the newest RTT difference. Default 0.875.
    pub ewma: f64,
    /// Multiplicative decrease β. Default 0.8.
    pub beta: f64,
    /// Below this RTT the rate always grows. Default 50 us.
    pub t_low: Span,
    /// Above this RTT the rate always shrinks. Default 500 us.
    pub t_high: Span,
    /// The gradient is measured in units of this. Default 20 us.
    pub min_rtt: Span,
    /// Additive increase. Default 10 Mb/s per 10 Gb/s of line rate.
    pub additive_increase: Option<Rate>,
    /// Hyper increase, after 5 increases in a row. Default 50 Mb/s per 10 Gb/s.
    pub hyper_increase: Option<Rate>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: false,
            min_rate: Rate(1_000_000_000),
            ewma: 0.875,
            beta: 0.8,
            t_low: Span(50 * US),
            t_high: Span(500 * US),
            min_rtt: Span(20 * US),
            additive_increase: None,
            hyper_increase: None,
        }
    }
}

impl Settings for Config {
    fn resolve(&mut self, line_rate: Rate) {
        let scale = line_rate.over(Rate(10_000_000_000));
        self.additive_increase.get_or_insert(Rate(10_000_000).scaled(scale));
        self.hyper_increase.get_or_insert(Rate(50_000_000).scaled(scale));
    }

    fn check(&self, rule: Rule<'_>) {
        check_min_rate(self.min_rate, rule);
        rule(self.ewma > 0.0 && self.ewma <= 1.0, "ewma", format!("{} is outside 0 to 1", self.ewma));
        rule(self.beta > 0.0 && self.beta <= 1.0, "beta", format!("{} is outside 0 to 1", self.beta));
        rule(self.t_low < self.t_high, "t_low", format!("{} is not below t_high, {}", self.t_low, self.t_high));
        rule(self.min_rtt.0 > 0, "min_rtt", "must be above 0, such as \"20us\"".into());
    }

    fn min_rate(&self) -> Rate {
        self.min_rate
    }

    fn window(&self) -> bool {
        self.window
    }

    fn host_ack_class(&self) -> AckClass {
        AckClass::Control
    }

    /// The send time, echoed by the receiver.
    fn extra_header(&self) -> u64 {
        8
    }
}

/// Increases in a row after which the hyper increase sets in.
const HYPER_AFTER: u32 = 5;

/// State of one flow.
#[derive(Clone, Debug)]
pub struct State {
    rate: f64,
    /// EWMA of RTT differences, in picoseconds.
    difference: f64,
    last_rtt: Ps,
    /// The next update waits for an ACK beyond this packet; 0 before the first.
    update_after: u64,
    /// Increases in a row.
    increases: u32,
}

impl Controller for State {
    type Config = Config;

    fn new(_: &Config, env: &Env) -> Self {
        Self { rate: env.line_rate, difference: 0.0, last_rtt: 0, update_after: 0, increases: 0 }
    }

    fn on_ack(&mut self, c: &Config, env: &Env, ack: &Ack<'_>) {
        if ack.acked <= self.update_after {
            return;
        }
        let first = self.update_after == 0;
        self.update_after = ack.next;
        let last_rtt = std::mem::replace(&mut self.last_rtt, ack.rtt);
        if first {
            return;
        }
        let newest = ack.rtt as f64 - last_rtt as f64;
        self.difference = (1.0 - c.ewma) * self.difference + c.ewma * newest;
        let gradient = self.difference / c.min_rtt.0 as f64;
        let rtt = Span(ack.rtt);
        if rtt > c.t_high {
            self.scale(c, 1.0 - c.beta * (1.0 - c.t_high.0 as f64 / ack.rtt as f64));
        } else if rtt < c.t_low || gradient <= 0.0 {
            self.increase(c, env);
        } else {
            self.scale(c, (1.0 - c.beta * gradient).max(0.0));
        }
    }

    #[inline]
    fn permit(&mut self, c: &Config, env: &Env, _: Ps) -> Permit {
        env.permit(self.rate, c.window)
    }

    fn encode(&self, _: &Config, _: &Env, acked: u32, state: &mut Encoder) {
        let Self { rate, difference, last_rtt, update_after, increases } = *self;
        state.reads_ns();
        state.float(rate);
        state.float(difference);
        state.word(last_rtt);
        state.word(update_after == 0);
        state.word(u64::from(acked).wrapping_sub(update_after));
        state.word(increases.min(HYPER_AFTER));
    }
}

impl State {
    fn scale(&mut self, c: &Config, factor: f64) {
        self.rate = (self.rate * factor).max(c.min_rate.0 as f64);
        self.increases = 0;
    }

    fn increase(&mut self, c: &Config, env: &Env) {
        let step = if self.increases < HYPER_AFTER { c.additive_increase } else { c.hyper_increase };
        self.rate = (self.rate + step.unwrap_or_default().0 as f64).min(env.line_rate);
        self.increases += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ENV, at};
    use super::*;

    /// A flow whose rate is 50 Gb/s and that has stored an RTT of 100 us.
    fn flow(c: &Config) -> (State, u64) {
        let mut flow = State::new(c, &ENV);
        let mut seq = 0;
        rtt(&mut flow, c, &mut seq, 100);
        assert_eq!(flow.rate, 100e9, "the first ACK only stores its RTT");
        flow.rate = 50e9;
        (flow, seq)
    }

    /// The ACK that ends the present round.
    fn rtt(flow: &mut State, c: &Config, seq: &mut u64, us: u64) {
        *seq += 10;
        flow.on_ack(c, &ENV, &at(0, us * US, false, *seq, *seq + 5));
    }

    fn config() -> Config {
        let mut c = Config::default();
        c.resolve(Rate(100_000_000_000));
        c
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn a_rising_rtt_cuts_in_proportion_to_the_gradient() {
        let c = config();
        let (mut flow, mut seq) = flow(&c);
        // d = 0.875 · 10 us, gradient 8.75 / 20 = 0.4375, factor 1 − 0.8 · 0.4375 = 0.65.
        rtt(&mut flow, &c, &mut seq, 110);
        close(flow.rate, 0.65 * 50e9);
        // d = 0.125 · 8.75 + 0.875 · 0 = 1.09375 us, gradient 0.0546875, factor 0.95625.
        rtt(&mut flow, &c, &mut seq, 110);
        close(flow.rate, 0.95625 * 0.65 * 50e9);
    }

    #[test]
    fn a_steep_rise_falls_to_the_lowest_rate() {
        let c = config();
        let (mut flow, mut seq) = flow(&c);
        rtt(&mut flow, &c, &mut seq, 200);
        assert_eq!(flow.rate, 1e9);
    }

    #[test]
    fn a_falling_rtt_adds_and_after_five_times_adds_more() {
        let c = config();
        let (mut flow, mut seq) = flow(&c);
        for i in 1..=5u64 {
            rtt(&mut flow, &c, &mut seq, 100 - i);
            close(flow.rate, 50e9 + 100e6 * i as f64);
        }
        rtt(&mut flow, &c, &mut seq, 94);
        close(flow.rate, 50e9 + 500e6 + 500e6);
        // A decrease starts the count again.
        rtt(&mut flow, &c, &mut seq, 104);
        let low = flow.rate;
        rtt(&mut flow, &c, &mut seq, 90);
        close(flow.rate, low + 100e6);
    }

    #[test]
    fn below_t_low_it_grows_and_above_t_high_it_shrinks_whatever_the_gradient() {
        let c = config();
        let (mut flow, mut seq) = flow(&c);
        rtt(&mut flow, &c, &mut seq, 20);
        rtt(&mut flow, &c, &mut seq, 49);
        close(flow.rate, 50e9 + 200e6);
        rtt(&mut flow, &c, &mut seq, 1200);
        flow.rate = 50e9;
        // The RTT falls, yet 1 − 0.8 · (1 − 500/1000) = 0.6.
        rtt(&mut flow, &c, &mut seq, 1000);
        close(flow.rate, 0.6 * 50e9);
    }

    #[test]
    fn it_reacts_once_per_round_trip_and_never_above_line_rate() {
        let c = config();
        let (mut flow, mut seq) = flow(&c);
        rtt(&mut flow, &c, &mut seq, 90);
        let once = flow.rate;
        flow.on_ack(&c, &ENV, &at(0, US, false, seq + 5, seq + 9));
        assert_eq!(flow.rate, once);
        for _ in 0..1000 {
            rtt(&mut flow, &c, &mut seq, 10);
        }
        assert_eq!(flow.rate, 100e9);
    }
}
