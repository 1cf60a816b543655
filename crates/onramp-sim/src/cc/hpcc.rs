//! HPCC (Li et al., SIGCOMM'19): rate and window from in-band telemetry.

use super::{Ack, Controller, Env, Permit, Settings, check_min_rate};
use crate::network::feedback::int::IntStack;
use crate::network::feedback::{self, Written};
use onramp_config::Rule;
use onramp_config::units::{Ps, Rate, SEC};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// Parameters, named as in the HPCC paper's Algorithm 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Limits bytes in flight by a window. Default true.
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

    fn min_rate(&self) -> Rate {
        self.min_rate
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

    fn feedback(&self) -> feedback::Kind {
        feedback::Kind::Int
    }

    fn respace(&self) -> bool {
        true
    }
}

/// State of one flow.
#[derive(Clone, Debug, Default)]
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
        let rate = env.line_rate;
        Self { rate, reference: rate, utilization: 1.0, ..Self::default() }
    }

    fn on_ack(&mut self, c: &Config, env: &Env, ack: &Ack<'_>) {
        let Written::Int(int) = ack.written else { return };
        let last = std::mem::replace(&mut self.last, *int);
        if self.update_after == 0 {
            self.update_after = ack.next;
            return;
        }
        // Counters of other ports tell nothing: the sender starts with the new path's (pathID, HPCC's INT header).
        if last.path() != int.path() {
            return;
        }
        self.measure(env, &last, int);
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
    fn permit(&mut self, c: &Config, env: &Env, _: Ps) -> Permit {
        env.permit(self.rate, c.window)
    }

    fn encode(&self, _: &Config, _: &Env, _: u32, state: &mut Encoder) {
        state.refuse("HPCC compares counters of ports, which grow for ever");
    }
}

impl State {
    /// U ← (1−τ/T)·U + (τ/T)·max_j u_j with
    /// u_j = txRate_j/B_j + min(q_j, q_j')/(B_j·T), over the hops of two INT stacks.
    fn measure(&mut self, env: &Env, before: &IntStack, now: &IntStack) {
        let base_rtt = env.base_rtt as f64 / SEC as f64;
        let units = env.int_units;
        let mut most: Option<(f64, f64)> = None;
        for (old, new) in before.hops().iter().zip(now.hops()) {
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

#[cfg(test)]
mod tests {
    use super::super::tests::{ENV, at};
    use super::*;
    use crate::network::feedback::int::Hop;

    fn config() -> Config {
        let mut c = Config::default();
        c.resolve(Rate(100_000_000_000));
        c
    }

    /// An ACK with one hop of 100 Gb/s: its time, bytes sent and queue.
    fn ack(flow: &mut State, acked: u64, time_ns: u64, tx_bytes: u64, queue: u64) {
        let mut int = IntStack::default();
        int.push(Hop::new(ENV.int_units, time_ns, tx_bytes, queue, 100_000_000_000));
        let a = Ack { written: Written::Int(&int), ..at(0, 0, false, acked, acked + 10) };
        flow.on_ack(&config(), &ENV, &a);
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn the_first_ack_only_stores_telemetry() {
        let mut flow = State::new(&config(), &ENV);
        ack(&mut flow, 1, 0, 0, 0);
        assert_eq!(flow.rate, 100e9);
    }

    #[test]
    fn counters_of_another_path_tell_nothing() {
        use crate::network::Packet;
        use crate::network::feedback::{Feedback, Leaving, int::Int};
        let int = Int { units: ENV.int_units };
        let mut flow = State::new(&config(), &ENV);
        // The second port has sent a thousand packets more; then each is seen twice.
        for (acked, number, now, tx_bytes) in
            [(1, 7, 0, 0), (2, 8, 1, 1_000_000), (20, 8, 13, 1_000_000), (40, 7, 25, 0), (60, 7, 37, 153_600)]
        {
            let mut packet = Packet::<IntStack>::default();
            let leaving = Leaving { now: now * 1_000_000, tx_bytes, queue_bytes: 0, rate: 100_000_000_000 };
            int.dequeue(&mut int.port(0, number), &mut packet, &leaving);
            let a = Ack { written: Written::Int(&packet.header), ..at(0, 0, false, acked, acked + 10) };
            flow.on_ack(&config(), &ENV, &a);
            assert!(flow.rate >= 99e9 || number == 7 && acked == 60, "{acked}: {}", flow.rate);
        }
        close(flow.utilization, 1.024);
    }

    #[test]
    fn a_full_link_with_a_queue_cuts_by_its_utilization() {
        let mut flow = State::new(&config(), &ENV);
        ack(&mut flow, 1, 0, 0, 80_000);
        // A whole T later: 153 600 B (300 units of 512 B) in 12 us are
        // 102.4 Gb/s, u = 1.024; the queue 80 000 B adds 80 000 · 8 / (100e9 · 12e-6).
        ack(&mut flow, 20, 12_000, 153_600, 80_000);
        let u = 1.024 + 640_000.0 / 1_200_000.0;
        close(flow.utilization, u);
        close(flow.rate, 100e9 / (u / 0.95) + 40e6);
        assert_eq!(flow.reference, flow.rate, "one RTT is over");
    }

    #[test]
    fn within_a_round_trip_the_reference_stays() {
        let mut flow = State::new(&config(), &ENV);
        ack(&mut flow, 1, 0, 0, 80_000);
        ack(&mut flow, 5, 6_000, 76_800, 80_000);
        // Half of T: U = 1/2 · 1 + 1/2 · u.
        let u = 0.5 + 0.5 * (1.024 + 640_000.0 / 1_200_000.0);
        close(flow.utilization, u);
        close(flow.rate, 100e9 / (u / 0.95) + 40e6);
        assert_eq!(flow.reference, 100e9);
    }

    #[test]
    fn the_smaller_of_two_queues_counts() {
        let mut flow = State::new(&config(), &ENV);
        ack(&mut flow, 1, 0, 0, 0);
        ack(&mut flow, 20, 12_000, 153_600, 800_000);
        close(flow.utilization, 1.024);
    }

    #[test]
    fn an_idle_link_gives_the_line_rate_and_a_jammed_one_the_lowest() {
        let mut flow = State::new(&config(), &ENV);
        flow.rate = 10e9;
        flow.reference = 10e9;
        ack(&mut flow, 1, 0, 0, 0);
        ack(&mut flow, 20, 12_000, 5_120, 0);
        assert_eq!(flow.rate, 100e9);
        flow.reference = 1.5e9;
        ack(&mut flow, 21, 24_000, 153_600 + 5_120, 10_000_000);
        ack(&mut flow, 40, 36_000, 2 * 153_600 + 5_120, 10_000_000);
        assert_eq!(flow.rate, 1e9);
    }

    #[test]
    fn stages_add_before_they_multiply() {
        let mut c = config();
        c.max_stage = 2;
        let mut flow = State::new(&c, &ENV);
        flow.reference = 10e9;
        let mut int = IntStack::default();
        int.push(Hop::new(ENV.int_units, 0, 0, 0, 100_000_000_000));
        flow.on_ack(&c, &ENV, &Ack { written: Written::Int(&int), ..at(0, 0, false, 1, 2) });
        for (i, expected) in [(1u64, 10e9 + 40e6), (2, 10e9 + 80e6)] {
            let mut int = IntStack::default();
            int.push(Hop::new(ENV.int_units, i * 12_000, i * 15_360, 0, 100_000_000_000));
            let ack = Ack { written: Written::Int(&int), ..at(0, 0, false, i * 10, i * 10 + 1) };
            flow.on_ack(&c, &ENV, &ack);
            close(flow.rate, expected);
        }
        assert_eq!(flow.stage, 2);
    }
}
