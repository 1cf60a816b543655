//! Vegas (Brakmo and Peterson, 1995) as Linux has it: a window a few packets larger than what the
//! path carries at its least round-trip time.

use super::{Controller, Event, FromConfig, Sample, Window};
use onramp_config::Rule;
use serde::{Deserialize, Serialize};

/// Parameters: those of Linux's `tcp_vegas`, in packets that wait somewhere on the path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// With fewer the window grows. Default 2.
    pub alpha: u32,
    /// With more it shrinks. Default 4.
    pub beta: u32,
    /// With more slow start ends. Default 1.
    pub gamma: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { alpha: 2, beta: 4, gamma: 1 }
    }
}

impl Config {
    /// Its rules.
    pub fn check(&self, rule: Rule<'_>) {
        rule(self.alpha <= self.beta, "alpha", format!("{} is above beta, {}", self.alpha, self.beta));
    }
}

/// Round-trip times that a round needs: if there were only two, they may be those of delayed acknowledgements.
const SAMPLES: u32 = 3;

/// State of one connection.
#[derive(Clone, Debug)]
pub struct State {
    c: Config,
    /// Off while losses are repaired: Reno grows the window then.
    on: bool,
    /// The round ends when more than this is acknowledged.
    end: u64,
    /// Least round-trip time since the connection was last idle, in microseconds.
    base_us: u32,
    /// That of this round, and how many there were.
    round_us: u32,
    samples: u32,
}

impl FromConfig for State {
    type Config = Config;

    fn new(c: &Config, w: &mut Window, _: u64) -> Self {
        Self { c: c.clone(), on: true, end: w.snd_nxt, base_us: u32::MAX, round_us: u32::MAX, samples: 0 }
    }
}

impl Controller for State {
    fn sampled(&mut self, _: &mut Window, sample: &Sample) {
        if let Some(rtt) = sample.rtt_us {
            // None is 0, by which is divided.
            let rtt = rtt + 1;
            self.base_us = self.base_us.min(rtt);
            self.round_us = self.round_us.min(rtt);
            self.samples += 1;
        }
    }

    fn grow(&mut self, w: &mut Window, ack: u64, acked: u32) {
        if !self.on {
            w.reno(acked);
        } else if ack > self.end {
            if self.samples < SAMPLES {
                w.reno(acked);
            } else {
                self.adjust(w, acked);
            }
            self.begin_round(w);
        } else if w.in_slow_start() {
            w.slow_start(acked);
        }
    }

    fn on_state(&mut self, w: &mut Window, new: super::State) {
        self.on = new == super::State::Open;
        if self.on {
            self.begin_round(w);
        }
    }

    /// Starts anew after an idle time: earlier measurements say nothing of the path now.
    fn on_event(&mut self, w: &mut Window, event: Event) {
        if let Event::Start | Event::Restart = event {
            *self = Self::new(&self.c, w, 0);
        }
    }
}

impl State {
    fn begin_round(&mut self, w: &Window) {
        self.end = w.snd_nxt;
        self.round_us = u32::MAX;
        self.samples = 0;
    }

    fn adjust(&mut self, w: &mut Window, acked: u32) {
        let (cwnd, base, round) = (u64::from(w.cwnd), u64::from(self.base_us), u64::from(self.round_us));
        let waiting = cwnd * (round - base) / base;
        if w.in_slow_start() {
            if waiting > self.c.gamma.into() {
                // What the path carries, and one that the division may have cost.
                w.cwnd = w.cwnd.min((cwnd * base / round) as u32 + 1);
                w.ssthresh = w.ssthresh.min(w.cwnd);
            } else {
                w.slow_start(acked);
            }
        } else if waiting > self.c.beta.into() {
            w.cwnd -= 1;
            w.ssthresh = w.ssthresh.min(w.cwnd);
        } else if waiting < self.c.alpha.into() {
            w.cwnd += 1;
        }
        w.cwnd = if w.cwnd < 2 { 2 } else { w.cwnd.min(w.clamp) };
        w.ssthresh = w.current_ssthresh();
    }
}

#[cfg(test)]
mod tests {
    use super::super::State as Standing;
    use super::super::tests::{Pipe, WINDOW};
    use super::*;

    /// A connection with 1000 bytes under way whose least round-trip time is 100 us (99 and one).
    fn vegas(cwnd: u32, ssthresh: u32) -> (Window, State) {
        let mut w = Window { cwnd, ssthresh, cwnd_limited: true, snd_nxt: 1_000, ..WINDOW };
        let mut vegas = State::new(&Config::default(), &mut w, 0);
        samples(&mut vegas, &mut w, 3, 99);
        (w, vegas)
    }

    fn samples(vegas: &mut State, w: &mut Window, number: u32, rtt: u32) {
        for _ in 0..number {
            vegas.sampled(w, &Sample { rtt_us: Some(rtt), ..Sample::default() });
        }
    }

    /// Ends a round in which all round-trip times were `rtt`.
    fn round(vegas: &mut State, w: &mut Window, rtt: u32) -> u32 {
        vegas.begin_round(w);
        samples(vegas, w, 3, rtt);
        vegas.grow(w, vegas.end + 1, 1);
        w.cwnd
    }

    #[test]
    fn two_to_four_packets_wait() {
        let (mut w, mut vegas) = vegas(20, 10);
        // 20 · (109 − 100) / 100 = 1.8, less than 2.
        assert_eq!(round(&mut vegas, &mut w, 108), 21);
        // 21 · 10 / 100 = 2.1.
        assert_eq!(round(&mut vegas, &mut w, 109), 21);
        // 21 · 23 / 100 = 4.83 is 4; 21 · 24 / 100 = 5.04 is more.
        assert_eq!(round(&mut vegas, &mut w, 122), 21);
        assert_eq!(round(&mut vegas, &mut w, 123), 20);
        // Slow start does not come back: at least 20/2 + 20/4.
        assert_eq!(w.ssthresh, 15);
        w.cwnd = 2;
        assert_eq!(round(&mut vegas, &mut w, 999), 2);
        w.clamp = 2;
        assert_eq!(round(&mut vegas, &mut w, 99), 2);
    }

    #[test]
    fn the_window_changes_once_a_round_trip() {
        let (mut w, mut vegas) = vegas(20, 10);
        w.snd_nxt = 3_000;
        vegas.grow(&mut w, 1_000, 5);
        assert_eq!(w.cwnd, 20);
        vegas.grow(&mut w, 1_001, 5);
        assert_eq!((w.cwnd, vegas.end, vegas.samples), (21, 3_000, 0));
        // With two samples it is Reno that grows: 5 of 21.
        samples(&mut vegas, &mut w, 2, 500);
        vegas.grow(&mut w, 3_001, 5);
        assert_eq!((w.cwnd, w.credit), (21, 5));
    }

    #[test]
    fn slow_start_ends_with_two_packets_waiting() {
        let (mut w, mut vegas) = vegas(40, u32::MAX);
        // Within a round it doubles as ever.
        vegas.grow(&mut w, 1_000, 8);
        assert_eq!(w.cwnd, 48);
        // 48 · 4 / 100 = 1.92.
        assert_eq!(round(&mut vegas, &mut w, 103), 49);
        // 49 · 20 / 100 = 9.8: 49 · 100 / 120 = 40.83, and one.
        assert_eq!(round(&mut vegas, &mut w, 119), 41);
        assert_eq!(w.ssthresh, 41);
    }

    #[test]
    fn losses_are_renos() {
        let (mut w, mut vegas) = vegas(20, 20);
        assert_eq!(vegas.ssthresh(&w), 10);
        vegas.on_state(&mut w, Standing::Recovery);
        vegas.grow(&mut w, 5_000, 20);
        assert_eq!(w.cwnd, 21);
        // Back to Open, a new round begins; the least round-trip time is remembered.
        w.snd_nxt = 9_000;
        vegas.on_state(&mut w, Standing::Open);
        assert_eq!((vegas.on, vegas.end, vegas.samples, vegas.base_us), (true, 9_000, 0, 100));
        // Not so after an idle time.
        vegas.on_event(&mut w, Event::Timeout);
        assert_eq!(vegas.base_us, 100);
        vegas.on_event(&mut w, Event::Restart);
        assert_eq!(vegas.base_us, u32::MAX);
        samples(&mut vegas, &mut w, 1, 7);
        vegas.on_event(&mut w, Event::Start);
        assert_eq!(vegas.base_us, u32::MAX);
    }

    #[test]
    fn on_a_pipe_two_to_four_packets_wait() {
        // 1 packet every 10 us, 1 ms there and back: 101 packets fill it.
        let mut pipe = Pipe::new(10, 1_000);
        let mut vegas = State::new(&Config::default(), &mut pipe.w, 0);
        pipe.run(&mut vegas, 2_000_000);
        let (mut least, mut most) = (usize::MAX, 0);
        for _ in 0..1_000 {
            pipe.run(&mut vegas, 1_000);
            least = least.min(pipe.waiting());
            most = most.max(pipe.waiting());
        }
        assert!(least >= 1 && most <= 5, "{least} to {most} packets wait");
        assert!((102..=106).contains(&pipe.w.cwnd), "window {}", pipe.w.cwnd);
    }
}
