//! DCQCN (Zhu et al., SIGCOMM'15) in the NIC vendor's form, as in the HPCC simulator.
//!
//! Three clocks run per flow once its first mark has come: α is updated every
//! `alpha_timer`, the rate is cut at most every `rate_decrease_timer`, and raised
//! every `rate_increase_timer` since the last cut. None needs an event: the rate
//! is only looked at when a packet leaves, so due ticks are caught up then.

use super::{Ack, Controller, Env, Permit, Settings, check_min_rate};
use crate::network::config::AckClass;
use onramp_config::Rule;
use onramp_config::units::{NS, Ps, Rate, Span, US};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// Parameters; the defaults are the vendor's (300 us, 4 us), as in the HPCC paper.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Limits bytes in flight by a window (DCQCN+w). Default false.
    pub window: bool,
    /// Lowest rate. Default 1 Gb/s.
    pub min_rate: Rate,
    /// T_i, time between rate increases. Default 300 us.
    pub rate_increase_timer: Span,
    /// T_d, least time between rate cuts. Default 4 us.
    pub rate_decrease_timer: Span,
    /// T_α, time between updates of α. Default 1 us.
    pub alpha_timer: Span,
    /// Gain g of α. Default 1/256.
    pub gain: f64,
    /// F, increases in fast recovery before the target rate grows. Default 1.
    pub fast_recovery: u32,
    /// Additive increase. Default 5 Mb/s per 25 Gb/s of line rate.
    pub additive_increase: Option<Rate>,
    /// Hyper increase. Default 50 Mb/s per 25 Gb/s of line rate.
    pub hyper_increase: Option<Rate>,
    /// Lowers the target rate to the current one at every cut, not only at the first after an increase. Default false.
    pub clamp_target: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            window: false,
            min_rate: Rate(1_000_000_000),
            rate_increase_timer: Span(300 * US),
            rate_decrease_timer: Span(4 * US),
            alpha_timer: Span(US),
            gain: 1.0 / 256.0,
            fast_recovery: 1,
            additive_increase: None,
            hyper_increase: None,
            clamp_target: false,
        }
    }
}

impl Settings for Config {
    fn resolve(&mut self, line_rate: Rate) {
        let scale = line_rate.over(Rate(25_000_000_000));
        self.additive_increase.get_or_insert(Rate(5_000_000).scaled(scale));
        self.hyper_increase.get_or_insert(Rate(50_000_000).scaled(scale));
    }

    fn check(&self, rule: Rule<'_>) {
        check_min_rate(self.min_rate, rule);
        for (key, timer) in [
            ("rate_increase_timer", self.rate_increase_timer),
            ("rate_decrease_timer", self.rate_decrease_timer),
            ("alpha_timer", self.alpha_timer),
        ] {
            rule(timer >= Span(NS), key, format!("{timer} must be at least 1ns"));
        }
        rule(self.gain > 0.0 && self.gain <= 1.0, "gain", format!("{} is outside 0 to 1", self.gain));
    }

    fn min_rate(&self) -> Rate {
        self.min_rate
    }

    fn window(&self) -> bool {
        self.window
    }

    fn host_ack_class(&self) -> AckClass {
        if self.window { AckClass::Data } else { AckClass::Control }
    }
}

/// State of one flow.
#[derive(Clone, Debug, Default)]
pub struct State {
    rate: f64,
    target: f64,
    alpha: f64,
    /// Increases since the last cut.
    stage: u32,
    /// A mark has come since the last update of α.
    alpha_marked: bool,
    /// A mark waits for the next decrease tick.
    cut_pending: bool,
    /// Last update of α; 0 until the first mark.
    alpha_at: Ps,
    /// The next decrease tick.
    cut_at: Ps,
    /// The next increase tick; never, before the first cut.
    raise_at: Ps,
}

impl Controller for State {
    type Config = Config;

    fn new(_: &Config, env: &Env) -> Self {
        let rate = env.line_rate;
        Self { rate, target: rate, alpha: 1.0, raise_at: Ps::MAX, ..Self::default() }
    }

    fn on_ack(&mut self, c: &Config, env: &Env, ack: &Ack<'_>) {
        if !ack.ecn {
            return;
        }
        if self.cut_at == 0 {
            self.target = self.rate;
            self.alpha_at = ack.now;
            self.cut_at = ack.now + c.rate_decrease_timer.0 + NS;
            self.cut_pending = true;
            return;
        }
        self.catch_up(c, env, ack.now);
        self.alpha_marked = true;
        if !self.cut_pending {
            self.cut_pending = true;
            if self.cut_at <= ack.now {
                let missed = (ack.now - self.cut_at) / c.rate_decrease_timer.0 + 1;
                self.cut_at += missed * c.rate_decrease_timer.0;
            }
        }
    }

    #[inline]
    fn permit(&mut self, c: &Config, env: &Env, now: Ps) -> Permit {
        if self.cut_at != 0 {
            self.catch_up(c, env, now);
        }
        env.permit(self.rate, c.window)
    }

    fn encode(&self, _: &Config, env: &Env, _: u32, state: &mut Encoder) {
        let Self { rate, target, alpha, stage, alpha_marked, cut_pending, alpha_at, cut_at, raise_at } = *self;
        state.float(rate);
        state.float(target);
        if cut_at == 0 {
            // There was no mark yet, and nothing goes on.
            return state.word(0_u64);
        }
        state.word(1 + u64::from(cut_pending));
        if cut_pending {
            // The cut reads the rest.
            state.time(cut_at);
            [alpha.to_bits(), stage.into(), alpha_marked.into()].into_iter().for_each(|value| state.word(value));
            state.time(alpha_at);
            return state.time(raise_at);
        }
        // Only with the next mark does the rate depend on α, whose ticks go on for ever.
        let passed = [alpha_at, cut_at].map(|at| at.wrapping_sub(state.now()));
        let marked = [alpha.to_bits(), alpha_marked.into(), stage.into()];
        marked.into_iter().chain(passed).for_each(|value| state.if_marked(value));
        if rate == env.line_rate && target == rate {
            // It is raised no further.
            return state.if_marked(raise_at.wrapping_sub(state.now()));
        }
        state.word(stage);
        state.time(raise_at);
    }
}

impl State {
    fn catch_up(&mut self, c: &Config, env: &Env, now: Ps) {
        loop {
            let cut_at = if self.cut_pending { self.cut_at } else { Ps::MAX };
            if cut_at.min(self.raise_at) > now {
                break;
            }
            if cut_at <= self.raise_at {
                self.update_alpha(c, cut_at);
                self.cut(c);
            } else {
                self.raise(c, env);
            }
        }
        self.update_alpha(c, now);
    }

    fn cut(&mut self, c: &Config) {
        if self.stage > 0 || c.clamp_target {
            self.target = self.rate;
        }
        self.rate = (self.rate * (1.0 - self.alpha / 2.0)).max(c.min_rate.0 as f64);
        self.stage = 0;
        self.cut_pending = false;
        self.raise_at = self.cut_at + c.rate_increase_timer.0;
        self.cut_at += c.rate_decrease_timer.0;
    }

    fn raise(&mut self, c: &Config, env: &Env) {
        let step = match self.stage.cmp(&c.fast_recovery) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => c.additive_increase,
            std::cmp::Ordering::Greater => c.hyper_increase,
        };
        if let Some(step) = step {
            self.target = (self.target + step.0 as f64).min(env.line_rate);
        }
        self.rate = (self.rate + self.target) / 2.0;
        self.stage += 1;
        self.raise_at += c.rate_increase_timer.0;
    }

    /// α ← (1−g)α + g·[a mark since the last tick], for each tick up to `now`.
    fn update_alpha(&mut self, c: &Config, now: Ps) {
        let ticks = (now - self.alpha_at) / c.alpha_timer.0;
        if ticks == 0 {
            return;
        }
        let keep = 1.0 - c.gain;
        self.alpha = self.alpha * keep + if self.alpha_marked { c.gain } else { 0.0 };
        self.alpha *= power(keep, ticks - 1);
        self.alpha_marked = false;
        self.alpha_at += ticks * c.alpha_timer.0;
    }
}

/// x^n by squaring: the same bits on every machine and in every build, unlike `powi`.
fn power(mut x: f64, mut n: u64) -> f64 {
    let mut result = 1.0;
    while n > 0 {
        if n & 1 == 1 {
            result *= x;
        }
        x *= x;
        n >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ENV, at};
    use super::*;
    use onramp_config::units::MS;

    fn config() -> Config {
        let mut c = Config::default();
        c.resolve(Rate(100_000_000_000));
        c
    }

    fn ack(flow: &mut State, c: &Config, now: Ps, ecn: bool) {
        flow.on_ack(c, &ENV, &at(now, 10 * US, ecn, 1, 2));
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn defaults_scale_with_the_line_rate() {
        let c = config();
        assert_eq!((c.additive_increase, c.hyper_increase), (Some(Rate(20_000_000)), Some(Rate(200_000_000))));
    }

    #[test]
    fn without_marks_the_rate_stays_at_line_rate() {
        let c = config();
        let mut flow = State::new(&c, &ENV);
        for i in 1..100 {
            ack(&mut flow, &c, i * 10 * US, false);
        }
        assert_eq!(flow.permit(&c, &ENV, MS).rate, 100e9);
    }

    #[test]
    fn the_first_mark_cuts_one_decrease_interval_and_a_nanosecond_later() {
        let c = config();
        let mut flow = State::new(&c, &ENV);
        ack(&mut flow, &c, MS, true);
        assert_eq!(flow.permit(&c, &ENV, MS + 4 * US).rate, 100e9);
        // α starts at 1 and decays in four ticks: (255/256)^4 = 0.984466314…
        let alpha = (255.0f64 / 256.0) * (255.0 / 256.0) * (255.0 / 256.0) * (255.0 / 256.0);
        close(flow.permit(&c, &ENV, MS + 4 * US + NS).rate, 100e9 * (1.0 - alpha / 2.0));
        // Without a further mark there is no further cut.
        close(flow.permit(&c, &ENV, MS + 200 * US).rate, 100e9 * (1.0 - alpha / 2.0));
    }

    #[test]
    fn alpha_rises_with_marks_and_falls_without() {
        let c = config();
        let mut flow = State::new(&c, &ENV);
        ack(&mut flow, &c, MS, true);
        ack(&mut flow, &c, MS + 500 * NS, true);
        // One tick with a mark, 255/256 + 1/256 = 1; then two without.
        flow.permit(&c, &ENV, MS + 3 * US);
        close(flow.alpha, (255.0 / 256.0) * (255.0 / 256.0));
    }

    #[test]
    fn recovery_is_fast_then_additive_then_hyper() {
        let c = config();
        let mut flow = State::new(&c, &ENV);
        ack(&mut flow, &c, MS, true);
        let cut = MS + 4 * US + NS;
        let low = flow.permit(&c, &ENV, cut).rate;
        let at = |flow: &mut State, ticks: u64| flow.permit(&c, &ENV, cut + ticks * 300 * US).rate;
        // Fast recovery: halfway to the target, which is still the line rate.
        let one = (low + 100e9) / 2.0;
        close(at(&mut flow, 1), one);
        // A second cut after an increase makes the present rate the target.
        let again = cut + 301 * US;
        ack(&mut flow, &c, again, true);
        let next_tick = cut + 304 * US;
        let second = flow.permit(&c, &ENV, next_tick).rate;
        assert!(second < one);
        close(flow.target, one);
        let rate = |flow: &mut State, ticks: u64| flow.permit(&c, &ENV, next_tick + ticks * 300 * US).rate;
        let fast = (second + one) / 2.0;
        close(rate(&mut flow, 1), fast);
        let additive = (fast + one + 20e6) / 2.0;
        close(rate(&mut flow, 2), additive);
        let hyper = (additive + one + 20e6 + 200e6) / 2.0;
        close(rate(&mut flow, 3), hyper);
    }

    #[test]
    fn the_rate_keeps_its_limits() {
        let c = config();
        let mut flow = State::new(&c, &ENV);
        for i in 0..1000 {
            ack(&mut flow, &c, MS + i * US, true);
        }
        assert_eq!(flow.permit(&c, &ENV, 2 * MS + 4 * US).rate, 1e9);
        assert_eq!(flow.permit(&c, &ENV, 10_000 * MS).rate, 100e9);
    }

    #[test]
    fn looking_often_or_seldom_gives_the_same_rate() {
        let c = config();
        let (mut often, mut seldom) = (State::new(&c, &ENV), State::new(&c, &ENV));
        for i in 0..400u64 {
            let now = MS + i * 1_700 * NS;
            for flow in [&mut often, &mut seldom] {
                ack(flow, &c, now, i % 7 == 0);
            }
            for step in 0..17 {
                often.permit(&c, &ENV, now + step * 100 * NS);
            }
        }
        close(often.permit(&c, &ENV, 3 * MS).rate, seldom.permit(&c, &ENV, 3 * MS).rate);
    }
}
