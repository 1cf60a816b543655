//! HPCC (Li et al., SIGCOMM'19): rate and window from in-band telemetry.

use super::{Ack, Controller, Env, Rule, Settings, check_min_rate};
use crate::network::int::{IntStack, Units};
use crate::units::{Ps, Rate, SEC};
use serde::{Deserialize, Serialize};

/// Parameters, named as in the HPCC paper's Algorithm 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Whether a window limits bytes in flight. Default true.
    pub window: bool,
    /// Lowest rate. Default 1 Gb/s.
    pub min_rate: Rate,
    /// η, target utilization. Default 0.95.
    pub eta: f64,
    /// Additive increases before a multiplicative one. Default 0, as in all of
    /// the authors' simulations.
    pub max_stage: u32,
    /// Additive increase. Default 10 Mb/s per 25 Gb/s of line rate.
    pub additive_increase: Option<Rate>,
}

impl Default for Config {
    fn default() -> Self {
        Self { window: true, min_rate: Rate(1_000_000_000), eta: 0.95, max_stage: 0, additive_increase: None }
    }
}

impl Settings for Config {
    fn resolve(&mut self, line_rate: Rate) {
        self.additive_increase.get_or_insert(Rate(10_000_000).scaled(line_rate.over(Rate(25_000_000_000))));
    }

    fn check(&self, rule: Rule<'_>) {
        check_min_rate(self.min_rate, rule);
        rule(self.eta > 0.0 && self.eta <= 1.0, "eta", format!("{} is outside 0 to 1", self.eta));
    }

    fn window(&self) -> bool {
        self.window
    }

    fn extra_header(&self) -> u64 {
        IntStack::WIRE_BYTES
    }

    /// 12 B, the INT field and 34 B.
    fn ack_bytes(&self) -> u64 {
        46 + IntStack::WIRE_BYTES
    }

    fn int(&self) -> bool {
        true
    }

    fn respace(&self) -> bool {
        true
    }
}

/// State of one flow.
#[derive(Clone, Debug)]
pub struct State {
    rate: f64,
    /// R_c, the reference rate of the present RTT.
    reference: f64,
    /// U, EWMA of the most loaded hop's utilization.
    utilization: f64,
    stage: u32,
    /// R_c follows with an ACK beyond this packet.
    update_after: u64,
    last: IntStack,
}

impl Controller for State {
    type Config = Config;

    fn new(_: &Config, env: &Env) -> Self {
        Self {
            rate: env.line_rate,
            reference: env.line_rate,
            utilization: 1.0,
            stage: 0,
            update_after: 0,
            last: IntStack::default(),
        }
    }

    fn on_ack(&mut self, c: &Config, env: &Env, ack: &Ack<'_>) {
        let last = std::mem::replace(&mut self.last, *ack.int);
        if self.update_after == 0 {
            self.update_after = ack.next;
            return;
        }
        self.measure(env, &last, ack.int);
        let c_max = self.utilization / c.eta;
        let increase = c.additive_increase.unwrap_or_default().0 as f64;
        let (target, stage) = if c_max >= 1.0 || self.stage >= c.max_stage {
            (self.reference / c_max + increase, 0)
        } else {
            (self.reference + increase, self.stage + 1)
        };
        self.rate = target.clamp(c.min_rate.0 as f64, env.line_rate);
        if ack.acked > self.update_after {
            self.reference = self.rate;
            self.stage = stage;
            self.update_after = ack.next;
        }
    }

    #[inline]
    fn rate(&mut self, _: &Config, _: &Env, _: Ps) -> f64 {
        self.rate
    }
}

impl State {
    /// U ← (1−τ/T)·U + (τ/T)·max_j u_j with
    /// u_j = txRate_j/B_j + min(q_j, q_j')/(B_j·T), over the hops of two INT stacks.
    fn measure(&mut self, env: &Env, before: &IntStack, now: &IntStack) {
        let base_rtt = env.base_rtt as f64 / SEC as f64;
        let units = Units::new(env.line_rate);
        let mut most: Option<(f64, f64)> = None;
        for (old, new) in before.hops().zip(now.hops()) {
            let elapsed = new.seconds_since(old);
            if elapsed > 0.0 {
                let tx_rate = new.bytes_since(units, old) as f64 * 8.0 / elapsed;
                let queue = new.queue_bytes(units).min(old.queue_bytes(units)) as f64 * 8.0;
                let u = tx_rate / new.rate() + queue / (new.rate() * base_rtt);
                if most.is_none_or(|(highest, _)| u > highest) {
                    most = Some((u, elapsed));
                }
            }
        }
        if let Some((u, elapsed)) = most {
            let share = elapsed.min(base_rtt) / base_rtt;
            self.utilization = (1.0 - share) * self.utilization + share * u;
        }
    }
}
