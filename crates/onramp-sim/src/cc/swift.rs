//! Swift, TIMELY as it is deployed (Kumar et al., SIGCOMM'20, algorithm 1): a window that follows a target delay
//! and may fall below one packet, which the pacer then sends every RTT/cwnd.
//!
//! There are two, cwnd = min(fcwnd, ecwnd): one for the delay of the fabric, one for that of the hosts at both ends,
//! which is smoothed and has a target of its own.
//!
//! The paper gives no values for most parameters; these are of Swift's implementation in htsim, whose authors call
//! them guesses. It has one window: the target of the hosts' delay is ours.

use super::{Ack, Controller, Env, Loss, Permit, Sent, Settings};
use crate::network::config::EcnDefault;
use crate::network::feedback;
use onramp_config::Rule;
use onramp_config::units::{NS, Ps, SEC, Span, US};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// Parameters. Windows count packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Target delay of a path without switches. Default 20 us.
    pub base_target: Span,
    /// Delay that each switch on the path adds to it (ħ). Default 3053 ns.
    pub hop: Span,
    /// Delay that a small window adds at most. Default 100 us.
    pub flow_range: Span,
    /// The window at which it adds that. Default 0.1.
    pub flow_min: f64,
    /// The window from which on it adds nothing. Default 100.
    pub flow_max: f64,
    /// Gives the hosts' delay a window of its own; without, it counts as the fabric's. Default true.
    pub endpoint_window: bool,
    /// Target of the hosts' delay. Default 50 us.
    pub endpoint_target: Span,
    /// Packets that the window grows by in a round trip (ai). Default 1.
    pub additive_increase: f64,
    /// Multiplicative decrease β. Default 0.8.
    pub beta: f64,
    /// Largest share by which the window is cut at once (max_mdf). Default 0.5.
    pub max_cut: f64,
    /// Window of a new flow. Default 15.
    pub initial_window: f64,
    /// Smallest window. Default 0.01.
    pub min_window: f64,
    /// Largest window. Default 1000.
    pub max_window: f64,
    /// Timeouts in a row after which the window is the smallest. Default 5.
    pub timeouts: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            base_target: Span(20 * US),
            hop: Span(3053 * NS),
            flow_range: Span(100 * US),
            flow_min: 0.1,
            flow_max: 100.0,
            endpoint_window: true,
            endpoint_target: Span(50 * US),
            additive_increase: 1.0,
            beta: 0.8,
            max_cut: 0.5,
            initial_window: 15.0,
            min_window: 0.01,
            max_window: 1000.0,
            timeouts: 5,
        }
    }
}

impl Config {
    /// The delay that a window aims at, over so many switches: base + hops·ħ + clip(a/√cwnd + b, 0, range), with
    /// a and b such that this is the range at `flow_min` and 0 at `flow_max`. In picoseconds.
    fn target(&self, hops: u32, window: f64) -> f64 {
        let range = self.flow_range.0 as f64;
        let a = range / (1.0 / self.flow_min.sqrt() - 1.0 / self.flow_max.sqrt());
        let b = -a / self.flow_max.sqrt();
        let flow = (a / window.sqrt() + b).clamp(0.0, range);
        (self.base_target.0 + u64::from(hops) * self.hop.0) as f64 + flow
    }
}

impl Settings for Config {
    fn check(&self, rule: Rule<'_>) {
        rule(self.base_target.0 > 0, "base_target", "must be above 0, such as \"20us\"".into());
        rule(self.endpoint_target.0 > 0, "endpoint_target", "must be above 0, such as \"50us\"".into());
        let flow = self.flow_min > 0.0 && self.flow_min < self.flow_max;
        rule(flow, "flow_min", format!("{} is not between 0 and flow_max, {}", self.flow_min, self.flow_max));
        for (key, value) in [("additive_increase", self.additive_increase), ("beta", self.beta)] {
            rule(value > 0.0 && value.is_finite(), key, format!("{value} is not above 0"));
        }
        let cut = self.max_cut;
        rule(cut > 0.0 && cut < 1.0, "max_cut", format!("{cut} is not between 0 and 1"));
        let (least, first, most) = (self.min_window, self.initial_window, self.max_window);
        rule((1e-4..=1.0).contains(&least), "min_window", format!("{least} is outside 0.0001 to 1"));
        rule(most >= 1.0 && most.is_finite(), "max_window", format!("{most} is below 1"));
        let fits = (least..=most).contains(&first);
        rule(fits, "initial_window", format!("{first} is outside min_window, {least}, to max_window, {most}"));
        rule(self.timeouts > 0, "timeouts", "must be at least 1".into());
    }

    fn counts_hops(&self) -> bool {
        true
    }

    fn feedback(&self) -> feedback::Kind {
        feedback::Kind::Waits
    }

    /// The send time, echoed by the receiver.
    fn extra_header(&self) -> u64 {
        8
    }

    fn ecn_defaults(&self) -> Option<EcnDefault> {
        None
    }
}

/// One of the two windows.
#[derive(Clone, Debug)]
struct Window {
    /// In packets.
    size: f64,
    /// No cut within a round trip of this one.
    last_cut: Option<Ps>,
}

impl Window {
    fn set(&mut self, c: &Config, now: Ps, size: f64) {
        let size = size.clamp(c.min_window, c.max_window);
        if size < self.size {
            self.last_cut = Some(now);
        }
        self.size = size;
    }

    fn may_cut(&self, now: Ps, rtt: f64) -> bool {
        self.last_cut.is_none_or(|at| (now - at) as f64 >= rtt)
    }

    /// So many packets were acknowledged after `delay`, for which `target` is the aim.
    fn on_ack(&mut self, c: &Config, (now, rtt): (Ps, f64), acked: f64, delay: f64, target: f64) {
        if delay < target {
            let more = c.additive_increase * acked;
            self.set(c, now, self.size + if self.size >= 1.0 { more / self.size } else { more });
        } else if self.may_cut(now, rtt) {
            let kept = (1.0 - c.beta * (delay - target) / delay).max(1.0 - c.max_cut);
            self.set(c, now, self.size * kept);
        }
    }
}

/// State of one flow.
#[derive(Clone, Debug)]
pub struct State {
    fabric: Window,
    endpoint: Window,
    hops: u32,
    /// Smoothed round trip and delay of the hosts, in picoseconds.
    rtt: f64,
    endpoint_delay: f64,
    timeouts: u32,
    /// Bytes on the wire of the last packet.
    size: u16,
}

impl State {
    /// cwnd, in packets.
    fn window(&self) -> f64 {
        self.fabric.size.min(self.endpoint.size)
    }
}

impl Controller for State {
    type Config = Config;

    fn new(c: &Config, env: &Env) -> Self {
        let first = Window { size: c.initial_window, last_cut: None };
        Self {
            fabric: first.clone(),
            endpoint: first,
            hops: 0,
            rtt: env.base_rtt as f64,
            endpoint_delay: 0.0,
            timeouts: 0,
            size: env.payload as u16,
        }
    }

    fn on_path(&mut self, hops: u32) {
        self.hops = hops;
    }

    fn on_ack(&mut self, c: &Config, env: &Env, ack: &Ack<'_>) {
        let rtt = ack.rtt as f64;
        self.rtt += (rtt - self.rtt) / 8.0;
        self.timeouts = 0;
        let acked = ack.newly_acked as f64 / env.payload as f64;
        let (at, target) = ((ack.now, rtt), c.target(self.hops, self.window()));
        if !c.endpoint_window {
            self.endpoint.size = c.max_window;
            return self.fabric.on_ack(c, at, acked, rtt, target);
        }
        let endpoint = ack.endpoint as f64;
        self.endpoint_delay += (endpoint - self.endpoint_delay) / 8.0;
        self.fabric.on_ack(c, at, acked, rtt - endpoint, target);
        self.endpoint.on_ack(c, at, acked, self.endpoint_delay, c.endpoint_target.0 as f64);
    }

    /// Either may have lost it.
    fn on_loss(&mut self, c: &Config, _: &Env, now: Ps, loss: Loss) {
        self.timeouts = if loss == Loss::Timeout { self.timeouts + 1 } else { 0 };
        for window in [&mut self.fabric, &mut self.endpoint] {
            if self.timeouts >= c.timeouts {
                window.set(c, now, c.min_window);
            } else if window.may_cut(now, self.rtt) {
                window.set(c, now, window.size * (1.0 - c.max_cut));
            }
        }
    }

    #[inline]
    fn on_sent(&mut self, _: &Config, _: &Env, sent: &Sent) {
        self.size = sent.size;
    }

    #[inline]
    fn permit(&mut self, _: &Config, env: &Env, _: Ps) -> Permit {
        let window = self.window();
        if window >= 1.0 {
            return Permit { window: window as u64 * env.payload, rate: f64::INFINITY };
        }
        // One packet at a time, RTT/cwnd apart.
        let seconds = self.rtt / SEC as f64 / window;
        Permit { window: 1, rate: f64::from(self.size) * 8.0 / seconds }
    }

    fn encode(&self, _: &Config, _: &Env, _: u32, state: &mut Encoder) {
        let Self { fabric, endpoint, hops: _, rtt, endpoint_delay, timeouts, size } = self;
        state.reads_ns();
        for Window { size, last_cut } in [fabric, endpoint] {
            state.float(*size);
            // Round trips from here on are no longer than what passes from here on: one over for a round trip stays so.
            let counts = last_cut.map(|at| state.now() - at).filter(|age| (*age as f64) < *rtt);
            state.word(counts.unwrap_or(u64::MAX));
        }
        state.float(*rtt);
        state.float(*endpoint_delay);
        state.word(*timeouts);
        state.word(*size);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ENV, at};
    use super::*;

    const MICRO: f64 = US as f64;

    fn flow(window: f64) -> (Config, State) {
        let c = Config::default();
        let mut flow = State::new(&c, &ENV);
        (flow.fabric.size, flow.endpoint.size) = (window, 1000.0);
        (c, flow)
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn small_windows_and_long_paths_aim_at_more() {
        let c = Config::default();
        // a = 100/(√10 − 1/10) = 32.655 µs, b = −3.2655 µs.
        close(c.target(0, 100.0), 20.0 * MICRO);
        close(c.target(5, 1000.0), (20.0 + 5.0 * 3.053) * MICRO);
        close(c.target(0, 0.1), 120.0 * MICRO);
        close(c.target(0, 0.01), 120.0 * MICRO);
        let a = 100.0 / (10f64.sqrt() - 0.1);
        close(c.target(0, 1.0), (20.0 + 0.9 * a) * MICRO);
    }

    #[test]
    fn below_the_target_a_window_adds_one_packet_in_a_round_trip() {
        let (c, mut flow) = flow(10.0);
        flow.on_ack(&c, &ENV, &at(0, 10 * US, false, 1, 11));
        close(flow.window(), 10.1);
        flow.fabric.size = 0.5;
        flow.on_ack(&c, &ENV, &Ack { newly_acked: 2000, ..at(0, 10 * US, false, 1, 11) });
        close(flow.window(), 2.5);
    }

    #[test]
    fn above_it_the_window_is_cut_by_how_far_and_once_in_a_round_trip() {
        let (c, mut flow) = flow(200.0);
        // Target 20 µs, delay 25: 1 − 0.8 · 5/25 = 0.84.
        flow.on_ack(&c, &ENV, &at(100 * US, 25 * US, false, 1, 11));
        close(flow.window(), 168.0);
        flow.on_ack(&c, &ENV, &at(110 * US, 25 * US, false, 2, 11));
        close(flow.window(), 168.0);
        // A round trip later, and with a delay that would take 0.8 · 80/100: at most half.
        flow.on_ack(&c, &ENV, &at(200 * US, 100 * US, false, 3, 11));
        close(flow.window(), 84.0);
    }

    #[test]
    fn a_loss_takes_half_and_five_timeouts_in_a_row_all() {
        let (c, mut flow) = flow(200.0);
        flow.on_loss(&c, &ENV, 100 * US, Loss::Fast);
        close(flow.window(), 100.0);
        // Within a round trip (12 µs, that of the empty network) of the cut.
        flow.on_loss(&c, &ENV, 105 * US, Loss::Fast);
        close(flow.window(), 100.0);
        for (i, window) in [50.0, 25.0, 12.5, 6.25, 0.01].into_iter().enumerate() {
            flow.on_loss(&c, &ENV, (i as u64 + 1) * 1000 * US, Loss::Timeout);
            close(flow.window(), window);
        }
    }

    #[test]
    fn the_hosts_delay_has_a_window_of_its_own() {
        let (c, mut flow) = flow(200.0);
        flow.endpoint.size = 200.0;
        // Of 15 µs the hosts took 5, smoothed 0.625: both grow.
        flow.on_ack(&c, &ENV, &Ack { endpoint: 5 * US, ..at(0, 15 * US, false, 1, 11) });
        close(flow.fabric.size, 200.005);
        close(flow.endpoint.size, 200.005);
        // 600 of 610 µs: smoothed 0.875 · 0.625 + 75 = 75.546875 µs, of which 25.546875 above the target.
        flow.on_ack(&c, &ENV, &Ack { endpoint: 600 * US, ..at(100 * US, 610 * US, false, 2, 12) });
        close(flow.fabric.size, 200.005 + 1.0 / 200.005);
        let cut = 200.005 * (1.0 - 0.8 * 25.546875 / 75.546875);
        close(flow.endpoint.size, cut);
        close(flow.window(), cut);
    }

    #[test]
    fn without_it_the_hosts_delay_counts_as_the_fabrics() {
        let (mut c, mut flow) = flow(200.0);
        c.endpoint_window = false;
        flow.on_ack(&c, &ENV, &Ack { endpoint: 10 * US, ..at(100 * US, 25 * US, false, 1, 11) });
        close(flow.window(), 168.0);
    }

    #[test]
    fn below_one_packet_it_is_paced() {
        let (c, mut flow) = flow(0.25);
        flow.rtt = 50.0 * MICRO;
        flow.on_sent(&c, &ENV, &Sent { now: 0, size: 1056, in_flight: 1000 });
        // A packet in 200 µs.
        let Permit { window, rate } = flow.permit(&c, &ENV, 0);
        assert_eq!(window, 1);
        close(rate, 1056.0 * 8.0 / 200e-6);
        flow.fabric.size = 3.9;
        assert_eq!(flow.permit(&c, &ENV, 0), Permit { window: 3000, rate: f64::INFINITY });
    }
}
