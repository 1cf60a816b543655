//! NSCC, the network-signal congestion control of Ultra Ethernet 1.0: a window that the
//! sender moves by two signals of every acknowledgement, ECN mark and queueing delay.
//!
//! | | delay below target | delay at or above target |
//! | --- | --- | --- |
//! | no mark | proportional increase; fast increase while there is no queue | fair increase |
//! | mark | nothing: the packet's path is congested, not the network | multiplicative decrease |
//!
//! A NACK of a trimmed packet takes the packet out of the window. *Quick adapt*: once in a round trip with losses or a
//! very long delay, a window of which little was delivered becomes what was delivered. Windows count bytes on the wire.
//! Constants are the specification's as its authors' simulator has them (uet-htsim, `UecSrc::initNsccParams`).

use super::rccc::{self, Credit};
use super::{Ack, Controller, Env, Loss, Permit, Sent, Settings};
use crate::network::config::EcnDefault;
use onramp_config::Rule;
use onramp_config::units::{Bytes, Ps, Rate, SEC, Span, US};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// The network that the constants are given for: 12 us at 100 Gb/s.
pub(super) const REFERENCE_RTT: Ps = 12 * US;
const REFERENCE_BDP: f64 = 150_000.0;
/// Without a queue, fast increase: a delay below this.
const NO_QUEUE: Ps = US;
/// Packets after whose acknowledgement the window grows (`_adjust_bytes_threshold`).
const ADJUST_PACKETS: f64 = 8.0;

/// Parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// RTT of the empty network. Default: the longest base RTT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_rtt: Option<Span>,
    /// Target of the queueing delay. Default 0.75 of `base_rtt` where switches trim, else `base_rtt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Span>,
    /// Packets that the window grows by in a round trip at a delay of 0, at 100 Gb/s and 12 us; less in proportion to
    /// the delay, 0 at the target (alpha). Default 4.
    pub proportional_increase: f64,
    /// Packets that it grows by in a round trip at longer delays without marks, as above (fi). Default 5.
    pub fair_increase: f64,
    /// Packets that it grows by in every round trip, whatever the signals, as above (eta). Default 0.15.
    pub eta: f64,
    /// Share of the acknowledged bytes that it grows by while there is no queue, as above (fi_scale). Default 0.25.
    pub fast_increase: f64,
    /// Multiplicative decrease: 1 − gamma · (average delay − target) / average delay. Default 0.8.
    pub gamma: f64,
    /// Largest share by which the window is cut at once. Default 0.5.
    pub max_cut: f64,
    /// Gain of the average delay. Default 0.0125.
    pub delay_gain: f64,
    /// Quick adapt. Default true.
    pub quick_adapt: bool,
    /// Quick adapt acts on less than the largest window / 2^gate in a round trip (qa_gate). Default 3.
    pub quick_adapt_gate: u32,
    /// Largest window and window of a new flow, in bandwidth-delay products. Default 1.5.
    pub max_window: f64,
    /// Credit of the receivers besides the window, `{}` for RCCC's defaults: a packet needs both. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credit: Option<rccc::Config>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            base_rtt: None,
            target: None,
            proportional_increase: 4.0,
            fair_increase: 5.0,
            eta: 0.15,
            fast_increase: 0.25,
            gamma: 0.8,
            max_cut: 0.5,
            delay_gain: 0.0125,
            quick_adapt: true,
            quick_adapt_gate: 3,
            max_window: 1.5,
            credit: None,
        }
    }
}

impl Config {
    fn base_rtt(&self) -> Ps {
        self.base_rtt.map_or(REFERENCE_RTT, |rtt| rtt.0)
    }

    fn target(&self) -> Ps {
        self.target.map_or(self.base_rtt(), |target| target.0)
    }

    /// Bandwidth-delay product over the one that the constants are given for (`scaling_factor_a`).
    fn scale(&self, env: &Env) -> f64 {
        bdp(self.base_rtt(), env) / REFERENCE_BDP
    }
}

/// Bytes sent in a time at the line rate.
pub(super) fn bdp(rtt: Ps, env: &Env) -> f64 {
    rtt as f64 * env.line_rate / (8.0 * SEC as f64)
}

/// Marking between 0.2 and 0.8 bandwidth-delay products (htsim).
pub(super) fn marks(base_rtt: Ps) -> EcnDefault {
    let rate = Rate(100_000_000_000);
    let bytes = |share: f64| Bytes((share * base_rtt as f64 * rate.0 as f64 / (8.0 * SEC as f64)) as u64);
    EcnDefault { rate, kmin: bytes(0.2), kmax: bytes(0.8), pmax: 1.0 }
}

impl Settings for Config {
    fn resolve_rtt(&mut self, base_rtt: Ps) {
        self.base_rtt.get_or_insert(Span(base_rtt));
        if let Some(credit) = &mut self.credit {
            credit.resolve_rtt(base_rtt);
        }
    }

    fn resolve_trimming(&mut self, trims: bool) {
        let base_rtt = self.base_rtt();
        self.target.get_or_insert(Span(if trims { base_rtt / 4 * 3 } else { base_rtt }));
    }

    fn check(&self, rule: Rule<'_>) {
        let times = [("base_rtt", self.base_rtt), ("target", self.target)];
        for (key, time) in times {
            rule(time.is_none_or(|time| time >= Span(US)), key, "must be at least 1us, such as \"12us\"".into());
        }
        let increases = [
            ("proportional_increase", self.proportional_increase),
            ("fair_increase", self.fair_increase),
            ("eta", self.eta),
            ("fast_increase", self.fast_increase),
            ("gamma", self.gamma),
        ];
        for (key, value) in increases {
            rule((0.0..=1000.0).contains(&value), key, format!("{value} is outside 0 to 1000"));
        }
        for (key, value) in [("max_cut", self.max_cut), ("delay_gain", self.delay_gain)] {
            rule(value > 0.0 && value < 1.0, key, format!("{value} is not between 0 and 1"));
        }
        let gate = self.quick_adapt_gate;
        rule(gate <= 16, "quick_adapt_gate", format!("{gate} is above 16: such as 3"));
        let most = self.max_window;
        rule((0.01..=1000.0).contains(&most), "max_window", format!("{most} is outside 0.01 to 1000"));
        if let Some(credit) = &self.credit {
            credit.check(&mut |ok, key, message| rule(ok, &format!("credit.{key}"), message));
        }
    }

    fn unordered(&self) -> bool {
        true
    }

    /// 64 B of headers in all, as in htsim.
    fn extra_header(&self) -> u64 {
        16
    }

    fn ack_bytes(&self) -> u64 {
        64
    }

    fn credit(&self) -> Option<rccc::Config> {
        self.credit.clone()
    }

    fn ecn_defaults(&self) -> Option<EcnDefault> {
        Some(marks(self.base_rtt()))
    }
}

/// State of a flow: boxed, since senders are kept small.
#[derive(Debug)]
pub struct State(Box<Window>);

#[derive(Debug)]
struct Window {
    /// Bytes on the wire.
    size: f64,
    /// Shortest RTT so far.
    base_rtt: Ps,
    average_delay: f64,
    /// Increase that waits for the next adjustment, in bytes times the window.
    increase: f64,
    acked_since_adjusted: f64,
    adjusted: Ps,
    cut: Ps,
    /// Bytes acknowledged in a row without a queue, and whether they were enough for fast increase.
    without_queue: f64,
    fast: bool,
    /// Bytes delivered in this round trip, and its end; 0 before the first.
    achieved: f64,
    round_end: Ps,
    /// A packet was trimmed since the last quick adapt.
    lossy: bool,
    /// Of bytes in flight at the last quick adapt, signals are ignored: so many, and so many have been answered.
    to_ignore: f64,
    ignored: f64,
    /// Its receiver's credit, if a packet needs some.
    credit: Option<Credit>,
}

impl Window {
    fn most(&self, c: &Config, env: &Env) -> f64 {
        c.max_window * bdp(self.base_rtt, env)
    }

    fn bound(&mut self, c: &Config, env: &Env) {
        self.size = self.size.min(self.most(c, env)).max(env.packet as f64);
    }

    fn average(&mut self, c: &Config, delay: f64) {
        self.average_delay = c.delay_gain * delay + (1.0 - c.delay_gain) * self.average_delay;
    }

    /// True if the window was set by what was delivered, or signals of before are to be ignored.
    fn quick_adapt(&mut self, c: &Config, env: &Env, ack: &Ack<'_>, delay: Ps, in_flight: f64) -> bool {
        if !c.quick_adapt {
            return false;
        }
        let mut done = false;
        if self.ignored < self.to_ignore && (ack.ecn || ack.trimmed) {
            done = true;
        } else if ack.now > self.round_end {
            let bad = self.lossy || delay > 4 * c.target();
            let gate = self.most(c, env) / f64::from(1u32 << c.quick_adapt_gate.min(16));
            if self.round_end != 0 && bad && self.achieved < gate {
                self.size = self.achieved.max(env.packet as f64);
                (self.to_ignore, self.ignored) = (in_flight, 0.0);
                self.lossy = false;
                done = true;
            }
            self.achieved = 0.0;
            self.round_end = ack.now + self.base_rtt + c.target();
        }
        if done {
            (self.increase, self.acked_since_adjusted) = (0.0, 0.0);
        }
        done
    }

    fn grow(&mut self, c: &Config, env: &Env, bytes: f64, delay: Ps) {
        let target = c.target();
        let packets = env.payload as f64 * c.scale(env);
        if delay >= target {
            self.increase += c.fair_increase * packets * bytes;
            return;
        }
        if delay >= NO_QUEUE {
            (self.without_queue, self.fast) = (0.0, false);
        } else {
            self.without_queue += bytes;
            self.fast |= self.without_queue > self.size;
            if self.fast {
                self.size += c.fast_increase * c.scale(env) * bytes;
                return;
            }
        }
        // alpha of the specification has the target over 12 us as a factor.
        let share = (target - delay) as f64 / REFERENCE_RTT as f64;
        self.increase += c.proportional_increase * packets * bytes * share;
    }

    fn decrease(&mut self, c: &Config, env: &Env, now: Ps) {
        (self.without_queue, self.fast) = (0.0, false);
        let (average, target) = (self.average_delay, c.target() as f64);
        if average > target && now - self.cut > self.base_rtt {
            let left = 1.0 - c.gamma * (average - target) / average;
            self.size = (self.size * left.max(1.0 - c.max_cut)).max(env.packet as f64);
            self.cut = now;
        }
    }

    /// Adds the increase of the bytes acknowledged since the last adjustment, after enough of them or a base RTT.
    fn adjust(&mut self, c: &Config, env: &Env, now: Ps) {
        let period = c.base_rtt();
        let since = now - self.adjusted;
        if self.acked_since_adjusted <= ADJUST_PACKETS * env.packet as f64 && since <= period {
            return;
        }
        self.size += self.increase / self.size;
        if since >= period {
            self.size += c.eta * env.payload as f64 * c.scale(env);
            self.adjusted = now;
        }
        (self.increase, self.acked_since_adjusted) = (0.0, 0.0);
        self.bound(c, env);
    }
}

impl Controller for State {
    type Config = Config;

    fn new(config: &Config, env: &Env) -> Self {
        let base_rtt = config.base_rtt();
        Self(Box::new(Window {
            size: config.max_window * bdp(base_rtt, env),
            base_rtt,
            average_delay: 0.0,
            increase: 0.0,
            acked_since_adjusted: 0.0,
            adjusted: 0,
            cut: 0,
            without_queue: 0.0,
            fast: false,
            achieved: 0.0,
            round_end: 0,
            lossy: false,
            to_ignore: 0.0,
            ignored: 0.0,
            credit: config.credit.as_ref().map(|credit| Credit::new(credit, env)),
        }))
    }

    fn on_ack(&mut self, c: &Config, env: &Env, ack: &Ack<'_>) {
        let w = &mut *self.0;
        if let Some(credit) = &mut w.credit {
            credit.heard(ack.trimmed, env);
        }
        let wire = env.packet as f64 / env.payload as f64;
        let (bytes, in_flight) = (ack.newly_acked as f64 * wire, ack.in_flight as f64 * wire);
        w.achieved += bytes;
        w.acked_since_adjusted += bytes;
        w.ignored += bytes;
        if ack.trimmed {
            let packet = env.packet as f64;
            w.base_rtt = w.base_rtt.min(ack.rtt);
            w.ignored += packet;
            // A full queue holds about a round trip.
            w.average(c, c.base_rtt() as f64);
            w.lossy = true;
            if !w.quick_adapt(c, env, ack, 0, in_flight + packet) {
                w.size -= packet;
                w.bound(c, env);
            }
            return;
        }
        let mut delay = w.average_delay as Ps;
        if ack.newly_acked > 0 {
            w.base_rtt = w.base_rtt.min(ack.rtt);
            delay = ack.rtt - w.base_rtt;
            // A delay that no mark confirms is not the queue's.
            let long = !ack.ecn && delay > c.target();
            w.average(c, if long { 0.25 * w.base_rtt as f64 } else { delay as f64 });
        }
        if w.quick_adapt(c, env, ack, delay, in_flight) {
            return;
        }
        if !ack.ecn {
            w.grow(c, env, bytes, delay);
        } else if delay >= c.target() {
            w.decrease(c, env, ack.now);
        }
        w.bound(c, env);
        w.adjust(c, env, ack.now);
    }

    fn on_loss(&mut self, _: &Config, env: &Env, _: Ps, loss: Loss) {
        // A NACK is seen by `on_ack`.
        if loss == Loss::Timeout {
            let packet = env.packet as f64;
            self.0.size = (self.0.size - packet).max(packet);
        }
    }

    fn on_sent(&mut self, _: &Config, _: &Env, sent: &Sent) {
        if let Some(credit) = &mut self.0.credit {
            credit.spend(sent.size);
        }
    }

    fn credit(&mut self) -> Option<&mut Credit> {
        self.0.credit.as_mut()
    }

    fn permit(&mut self, _: &Config, env: &Env, _: Ps) -> Permit {
        if let Some(credit) = &mut self.0.credit {
            // It asks for no more than the window lets out (htsim).
            credit.limit(self.0.size as u64 + env.packet);
            if credit.is_short() {
                return Permit { window: 0, rate: f64::INFINITY };
            }
        }
        // Another packet may leave if the window has room for all of it.
        let packets = (self.0.size / env.packet as f64) as u64;
        Permit { window: packets.max(1) * env.payload, rate: f64::INFINITY }
    }

    fn encode(&self, _: &Config, _: &Env, _: u32, state: &mut Encoder) {
        let Window {
            size,
            base_rtt,
            average_delay,
            increase,
            acked_since_adjusted,
            adjusted,
            cut,
            without_queue,
            fast,
            achieved,
            round_end,
            lossy,
            to_ignore,
            ignored,
            ref credit,
        } = *self.0;
        if credit.is_some() {
            state.refuse(rccc::AT_ONE_END);
        }
        state.reads_ns();
        let floats = [size, average_delay, increase, acked_since_adjusted, achieved];
        floats.into_iter().for_each(|value| state.float(value));
        state.word(base_rtt);
        state.time(adjusted);
        // The shortest round trip grows no longer, so that a cut which is that old never counts again.
        let cut_counts = state.now() - cut <= base_rtt;
        state.word(if cut_counts { state.now() - cut } else { u64::MAX });
        state.word(fast);
        // How many there were is asked only until they are enough.
        state.float(if fast { 0.0 } else { without_queue });
        state.word(round_end == 0);
        state.due(round_end);
        state.word(lossy);
        // Signals that were ignored count until there are enough of them.
        state.float(if ignored < to_ignore { to_ignore } else { 0.0 });
        state.float(if ignored < to_ignore { ignored } else { 0.0 });
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ENV, at};
    use super::*;
    use onramp_config::units::NS;

    /// Base RTT of 12 us and target of 9 us at 100 Gb/s: the scaling factor is 1, packets are 1000 B, 1048 B on the
    /// wire, the largest window is 225 KB.
    fn config() -> Config {
        let mut c = Config::default();
        c.resolve_rtt(12 * US);
        c.resolve_trimming(true);
        c
    }

    /// A flow with a window of so many bytes.
    fn flow(c: &Config, size: f64) -> State {
        let mut state = State::new(c, &ENV);
        state.0.size = size;
        state
    }

    /// An acknowledgement of one packet after a queueing delay, at a time within the first round trip.
    fn acked(state: &mut State, c: &Config, at_us: u64, delay: Ps, ecn: bool) {
        state.on_ack(c, &ENV, &at(at_us * US, 12 * US + delay, ecn, 0, 0));
    }

    fn nacked(state: &mut State, c: &Config, at_us: u64, in_flight: u64) {
        let nack = Ack { trimmed: true, newly_acked: 0, in_flight, ..at(at_us * US, 12 * US, false, 0, 0) };
        state.on_ack(c, &ENV, &nack);
    }

    fn near(found: f64, expected: f64) {
        assert!((found - expected).abs() < 0.01, "{found}, expected {expected}");
    }

    #[test]
    fn the_target_is_shorter_where_switches_trim() {
        assert_eq!(config().target, Some(Span(9 * US)));
        let mut c = Config { base_rtt: Some(Span(12 * US)), ..Config::default() };
        c.resolve_trimming(false);
        assert_eq!(c.target, Some(Span(12 * US)));
        near(State::new(&c, &ENV).0.size, 225_000.0);
        let ecn = c.ecn_defaults().unwrap();
        assert_eq!((ecn.kmin, ecn.kmax, ecn.pmax), (Bytes(30_000), Bytes(120_000), 1.0));
    }

    #[test]
    fn without_marks_and_below_the_target_the_window_grows_in_proportion_to_what_is_left_of_it() {
        let c = config();
        let mut state = flow(&c, 100_000.0);
        // 3 us of 9: each packet adds 4 · 1000 · 1048 · 6/12; they count after more than eight of them.
        (0..8).for_each(|_| acked(&mut state, &c, 1, 3 * US, false));
        near(state.0.size, 100_000.0);
        acked(&mut state, &c, 1, 3 * US, false);
        near(state.0.size, 100_000.0 + 9.0 * 2_096_000.0 / 100_000.0);
    }

    #[test]
    fn without_marks_and_above_the_target_the_increase_is_fair() {
        let c = config();
        let mut state = flow(&c, 100_000.0);
        (0..9).for_each(|_| acked(&mut state, &c, 1, 9 * US, false));
        near(state.0.size, 100_000.0 + 9.0 * 5.0 * 1000.0 * 1048.0 / 100_000.0);
    }

    #[test]
    fn a_window_without_a_queue_makes_it_grow_fast() {
        let c = config();
        let mut state = flow(&c, 5000.0);
        (0..4).for_each(|_| acked(&mut state, &c, 1, US / 2, false));
        near(state.0.size, 5000.0);
        (0..2).for_each(|_| acked(&mut state, &c, 1, US / 2, false));
        near(state.0.size, 5000.0 + 2.0 * 262.0);
        // A queue ends it, and another window without is needed.
        acked(&mut state, &c, 1, US, false);
        acked(&mut state, &c, 1, 0, false);
        assert!(!state.0.fast);
    }

    #[test]
    fn marks_above_the_target_cut_by_the_average_delay_once_in_a_round_trip() {
        let c = config();
        let mut state = flow(&c, 100_000.0);
        (state.0.average_delay, state.0.adjusted) = (18e6, 20 * US);
        // 1 − 0.8 · (18 − 9)/18.
        acked(&mut state, &c, 20, 18 * US, true);
        near(state.0.size, 60_000.0);
        acked(&mut state, &c, 21, 18 * US, true);
        near(state.0.size, 60_000.0);
        // At most by half.
        let mut state = flow(&c, 100_000.0);
        (state.0.average_delay, state.0.adjusted) = (90e6, 20 * US);
        acked(&mut state, &c, 20, 90 * US, true);
        near(state.0.size, 50_000.0);
    }

    #[test]
    fn marks_below_the_target_change_nothing() {
        let c = config();
        let mut state = flow(&c, 100_000.0);
        (0..20).for_each(|_| acked(&mut state, &c, 1, 8 * US, true));
        near(state.0.size, 100_000.0);
    }

    #[test]
    fn every_round_trip_adds_a_little_and_bounds_hold() {
        let c = config();
        let mut state = flow(&c, 100_000.0);
        acked(&mut state, &c, 13, 8 * US, true);
        near(state.0.size, 100_150.0);
        state.0.size = 224_950.0;
        acked(&mut state, &c, 26, 8 * US, true);
        near(state.0.size, 225_000.0);
        // A shorter RTT makes the largest window smaller.
        state.on_ack(&c, &ENV, &at(27 * US, 8 * US, false, 0, 0));
        near(state.0.size, 150_000.0);
    }

    #[test]
    fn an_average_delay_follows_marks_and_not_what_no_mark_confirms() {
        let c = config();
        let mut state = flow(&c, 100_000.0);
        acked(&mut state, &c, 1, 8 * US, false);
        near(state.0.average_delay, 0.0125 * 8e6);
        let mut state = flow(&c, 100_000.0);
        acked(&mut state, &c, 1, 20 * US, false);
        near(state.0.average_delay, 0.0125 * 3e6);
        acked(&mut state, &c, 1, 20 * US, true);
        near(state.0.average_delay, 0.0125 * 20e6 + 0.9875 * 0.0125 * 3e6);
    }

    #[test]
    fn a_trimmed_packet_leaves_the_window() {
        let c = config();
        let mut state = flow(&c, 100_000.0);
        nacked(&mut state, &c, 1, 50_000);
        near(state.0.size, 100_000.0 - 1048.0);
        near(state.0.average_delay, 0.0125 * 12e6);
        // One that is its last one stays.
        let mut state = flow(&c, 1500.0);
        nacked(&mut state, &c, 1, 0);
        near(state.0.size, 1048.0);
    }

    #[test]
    fn quick_adapt_sets_the_window_to_what_a_round_trip_with_losses_delivered() {
        let c = config();
        let mut state = flow(&c, 200_000.0);
        acked(&mut state, &c, 1, 2 * US, false);
        (0..5).for_each(|_| acked(&mut state, &c, 10, 2 * US, false));
        // The round trip ends 12 + 9 us after the first reply.
        nacked(&mut state, &c, 22, 50_000);
        near(state.0.size, 198_952.0);
        nacked(&mut state, &c, 23, 50_000);
        near(state.0.size, 5.0 * 1048.0);
        // What was in flight tells of the past: of 51 packets
        // the answers to 50 have no effect.
        (0..50).for_each(|_| nacked(&mut state, &c, 24, 0));
        near(state.0.size, 5.0 * 1048.0);
        nacked(&mut state, &c, 24, 0);
        near(state.0.size, 4.0 * 1048.0);
        // With an eighth of the largest window delivered, 28,125 B, it does not act.
        let mut state = flow(&c, 200_000.0);
        acked(&mut state, &c, 1, 2 * US, false);
        (0..27).for_each(|_| acked(&mut state, &c, 10, 2 * US, false));
        let before = state.0.size;
        nacked(&mut state, &c, 23, 50_000);
        near(state.0.size, before - 1048.0);
    }

    #[test]
    fn whole_packets_fit_into_the_window_and_a_timeout_takes_one_out() {
        let c = config();
        let mut state = flow(&c, 2500.0);
        assert_eq!(state.permit(&c, &ENV, 0), Permit { window: 2000, rate: f64::INFINITY });
        state.on_loss(&c, &ENV, 0, Loss::Fast);
        assert_eq!(state.permit(&c, &ENV, 0).window, 2000);
        state.on_loss(&c, &ENV, 0, Loss::Timeout);
        state.on_loss(&c, &ENV, 0, Loss::Timeout);
        assert_eq!(state.permit(&c, &ENV, 0).window, 1000);
    }

    #[test]
    fn a_reply_whose_packet_is_acknowledged_already_tells_no_delay() {
        let c = config();
        let mut state = flow(&c, 100_000.0);
        let late = Ack { newly_acked: 0, ..at(US, 500 * NS, false, 0, 0) };
        state.on_ack(&c, &ENV, &late);
        assert_eq!((state.0.base_rtt, state.0.average_delay), (12 * US, 0.0));
    }
}
