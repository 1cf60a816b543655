//! DCTCP (Alizadeh et al., SIGCOMM'10) in the rate form of the HPCC simulator:
//! no slow start, one additive increase per RTT.

use super::{Ack, Controller, Env, Permit, Settings, check_min_rate};
use crate::network::config::EcnDefault;
use onramp_config::Rule;
use onramp_config::units::{Bytes, Ps, Rate};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// Parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Limits bytes in flight by a window. Default true.
    pub window: bool,
    /// Lowest rate. Default 1 Gb/s.
    pub min_rate: Rate,
    /// Gain g of α. Default 1/16.
    pub gain: f64,
    /// Increase per RTT without marks. Default 615 Mb/s (1000 B per 13 us).
    pub additive_increase: Rate,
}

impl Default for Config {
    fn default() -> Self {
        Self { window: true, min_rate: Rate(1_000_000_000), gain: 1.0 / 16.0, additive_increase: Rate(615_000_000) }
    }
}

impl Settings for Config {
    fn check(&self, rule: Rule<'_>) {
        check_min_rate(self.min_rate, rule);
        rule(self.gain > 0.0 && self.gain <= 1.0, "gain", format!("{} is outside 0 to 1", self.gain));
    }

    fn min_rate(&self) -> Rate {
        self.min_rate
    }

    fn window(&self) -> bool {
        self.window
    }

    /// A step at 30 KB per 10 Gb/s.
    fn ecn_defaults(&self) -> Option<EcnDefault> {
        Some(EcnDefault { rate: Rate(10_000_000_000), kmin: Bytes(30_000), kmax: Bytes(30_000), pmax: 1.0 })
    }
}

/// State of one flow.
#[derive(Clone, Debug)]
pub struct State {
    rate: f64,
    alpha: f64,
    /// Marked ACKs and packets of the present batch, one RTT of packets.
    marked: u64,
    batch: u64,
    /// The batch ends with an ACK beyond this packet; 0 before the first.
    batch_end: u64,
    /// No further cut until an ACK beyond this packet (CWR).
    reduced_until: Option<u64>,
}

impl Controller for State {
    type Config = Config;

    fn new(_: &Config, env: &Env) -> Self {
        Self { rate: env.line_rate, alpha: 1.0, marked: 0, batch: 0, batch_end: 0, reduced_until: None }
    }

    fn on_ack(&mut self, c: &Config, env: &Env, ack: &Ack<'_>) {
        self.marked += u64::from(ack.ecn);
        let batch_over = ack.acked > self.batch_end;
        if batch_over {
            if self.batch_end > 0 {
                let fraction = (self.marked as f64 / self.batch as f64).min(1.0);
                self.alpha = (1.0 - c.gain) * self.alpha + c.gain * fraction;
                self.marked = 0;
                self.batch = ack.next - ack.acked + 1;
            } else {
                self.batch = ack.next + 1;
            }
            self.batch_end = ack.next;
        }
        if self.reduced_until.is_some_and(|end| ack.acked > end) {
            self.reduced_until = None;
        }
        if ack.ecn && self.reduced_until.is_none() {
            self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(c.min_rate.0 as f64);
            self.reduced_until = Some(ack.next);
        }
        if batch_over && self.reduced_until.is_none() {
            self.rate = (self.rate + c.additive_increase.0 as f64).min(env.line_rate);
        }
    }

    #[inline]
    fn permit(&mut self, c: &Config, env: &Env, _: Ps) -> Permit {
        env.permit(self.rate, c.window)
    }

    fn encode(&self, _: &Config, _: &Env, acked: u32, state: &mut Encoder) {
        let Self { rate, alpha, marked, batch, batch_end, reduced_until } = *self;
        state.float(rate);
        // Without a mark a batch changes α alone, which the next mark reads.
        state.word(marked);
        for value in [alpha.to_bits(), batch] {
            if marked > 0 { state.word(value) } else { state.if_marked(value) }
        }
        state.word(batch_end == 0);
        state.word(u64::from(acked).wrapping_sub(batch_end));
        state.word(reduced_until.map_or(u64::MAX, |end| u64::from(acked).wrapping_sub(end)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ENV, at};
    use super::*;

    fn ack(flow: &mut State, acked: u64, next: u64, ecn: bool) {
        flow.on_ack(&Config::default(), &ENV, &at(0, 0, ecn, acked, next));
    }

    #[test]
    fn a_mark_halves_the_rate_at_first_and_only_once_per_window() {
        let mut flow = State::new(&Config::default(), &ENV);
        ack(&mut flow, 1, 10, true);
        // α = 1: half of the line rate. No increase in the same batch.
        assert_eq!(flow.rate, 50e9);
        for seq in 2..=10 {
            ack(&mut flow, seq, 20, true);
        }
        assert_eq!(flow.rate, 50e9);
        // Beyond packet 10 the window is over. The first batch counted 10 marks
        // and this one: α stays (1 − 1/16) · 1 + 1/16 · 1 = 1.
        ack(&mut flow, 11, 20, true);
        assert_eq!(flow.rate, 25e9);
    }

    #[test]
    fn alpha_follows_the_marked_fraction() {
        let mut flow = State::new(&Config::default(), &ENV);
        ack(&mut flow, 1, 7, false);
        // The first batch only arms: its size is 7 + 1. Two of the next ACKs are marked.
        ack(&mut flow, 2, 8, true);
        ack(&mut flow, 3, 9, true);
        ack(&mut flow, 8, 14, false);
        // α = 15/16 + 1/16 · 2/8.
        assert_eq!(flow.alpha, 15.0 / 16.0 + 2.0 / 8.0 / 16.0);
    }

    #[test]
    fn a_batch_without_marks_adds_once_up_to_line_rate() {
        let mut flow = State::new(&Config::default(), &ENV);
        flow.rate = 50e9;
        ack(&mut flow, 1, 10, false);
        assert_eq!(flow.rate, 50e9 + 615e6);
        ack(&mut flow, 5, 12, false);
        assert_eq!(flow.rate, 50e9 + 615e6);
        ack(&mut flow, 11, 20, false);
        assert_eq!(flow.rate, 50e9 + 2.0 * 615e6);
        for i in 2..200 {
            ack(&mut flow, i * 11, i * 11 + 9, false);
        }
        assert_eq!(flow.rate, 100e9);
    }

    #[test]
    fn it_never_falls_below_the_lowest_rate() {
        let mut flow = State::new(&Config::default(), &ENV);
        for i in 1..100 {
            ack(&mut flow, i * 10, i * 10 + 1, true);
        }
        assert_eq!(flow.rate, 1e9);
    }
}
