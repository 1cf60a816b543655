//! NTP as RFC 5905 has it: client and server, clock filter, discipline.
//!
//! A client begins as a machine that is set up: its clock is stepped, its frequency
//! is measured for 15 minutes (what a drift file would say), the clock is stepped
//! again, and from then on a phase-locked loop steers both. Left out, as one server
//! and an honest network need none of it: selection and clustering of servers, and
//! steps by a spike that lasts. Between two updates the clock is slewed evenly, not
//! second by second.

use onramp_clock::Correction;

/// Bytes of a packet as an Ethernet frame without FCS: 14, 20, 8, and 48 of NTP.
pub const WIRE: u16 = 90;

/// Names, values and equations of RFC 5905, appendix A.5.
const STAGES: usize = 8;
const PHI: f64 = 15e-6;
const PRECISION: f64 = 1_000.0;
const WATCH: f64 = 900e9;
const PLL: f64 = 16.0;
const AVG: f64 = 4.0;
const SGATE: f64 = 3.0;
const PGATE: f64 = 4.0;
const LIMIT: i32 = 30;
/// Polls are 2^4 to 2^6 seconds apart.
const MIN_POLL: u32 = 4;
const MAX_POLL: u32 = 6;

/// Sample from one answer; times and spans in nanoseconds of the client's clock.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// How far the client's clock was ahead.
    ahead: f64,
    delay: f64,
    at: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Nothing is known.
    New,
    /// The frequency is being measured, since this time.
    Training(u64),
    /// Phase and frequency are locked.
    Locked,
}

/// The clock filter and discipline of one client.
#[derive(Debug)]
pub struct Client {
    filter: Vec<Sample>,
    state: State,
    /// Offset that the filter last let through, and when that was sampled.
    last: f64,
    used: u64,
    updated: u64,
    jitter: f64,
    /// How fast the clock gains by itself, in seconds per second.
    drift: f64,
    poll: u32,
    count: i32,
}

impl Client {
    /// A client that has just started; `now` by its own clock.
    pub fn new(now: u64) -> Self {
        Self {
            filter: Vec::new(),
            state: State::New,
            last: 0.0,
            used: now,
            updated: now,
            jitter: PRECISION,
            drift: 0.0,
            poll: MIN_POLL,
            count: 0,
        }
    }

    /// Time to the next poll, in nanoseconds.
    pub fn poll_interval(&self) -> u64 {
        1_000_000_000 << self.poll
    }

    /// An answer: the four stamps by the clocks as they run, and the correction
    /// in force. The new correction, if the answer moves the clock.
    pub fn answer(&mut self, stamps: [u64; 4], correction: Option<Correction>) -> Option<Correction> {
        let [sent, received, returned, now] = stamps;
        let there = sent.wrapping_sub(received).cast_signed();
        let back = now.wrapping_sub(returned).cast_signed();
        let corrected = correction.map_or(0, |c| c.offset_at(now));
        // The two halves differ by the round trip, so their mean is taken in parts.
        let ahead = (there + (back - there) / 2 - corrected) as f64;
        let delay = (back - there) as f64;
        self.filter.insert(0, Sample { ahead, delay, at: now });
        self.filter.truncate(STAGES);
        let (ahead, filter_jitter) = self.filtered(now)?;
        self.discipline(ahead, corrected, filter_jitter, now)
    }

    /// The clock filter: the sample of least delay, if it is new and no spike, and
    /// the spread about it.
    fn filtered(&mut self, now: u64) -> Option<(f64, f64)> {
        // Old samples are worth less: the clock may have drifted by PHI since.
        let distance = |s: &Sample| s.delay / 2.0 + PHI * (now - s.at) as f64;
        let best = *self.filter.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        let squares: f64 = self.filter.iter().map(|s| (s.ahead - best.ahead) * (s.ahead - best.ahead)).sum();
        let others = (self.filter.len() - 1).max(1) as f64;
        let jitter = libm::sqrt(squares / others).max(PRECISION);
        let spike = (best.ahead - self.last).abs() > SGATE * jitter && best.at - self.used < 2 * self.poll_interval();
        if best.at <= self.used || spike && self.state == State::Locked {
            return None;
        }
        self.used = best.at;
        Some((best.ahead, jitter))
    }

    /// The clock discipline: phase-locked loop, after the frequency was measured.
    fn discipline(&mut self, ahead: f64, corrected: i64, filter_jitter: f64, now: u64) -> Option<Correction> {
        let before = self.updated;
        let difference = (ahead - self.last).abs().max(PRECISION);
        self.jitter = libm::sqrt(self.jitter * self.jitter * (1.0 - 1.0 / AVG) + difference * difference / AVG);
        self.last = ahead;
        let (mut step, mut slew) = (0.0, 0.0);
        match self.state {
            State::New => {
                self.state = State::Training(now);
                step = ahead;
            }
            State::Training(since) => {
                let elapsed = (now - since) as f64;
                if elapsed < WATCH {
                    return None;
                }
                self.drift += ahead / elapsed;
                self.state = State::Locked;
                step = ahead;
            }
            State::Locked => {
                let interval = self.poll_interval() as f64;
                let since = ((now - before) as f64).min(interval);
                let constant = 4.0 * PLL * interval;
                self.drift += ahead * since / (constant * constant);
                slew = ahead;
                self.adapt_poll(ahead);
            }
        }
        self.updated = now;
        if step != 0.0 {
            // What was measured before a step is void.
            self.filter.clear();
            self.last = 0.0;
            self.jitter = filter_jitter;
        }
        let slewed = slew * (1.0 - libm::exp(-1.0 / PLL)) / self.poll_interval() as f64;
        Some(Correction {
            base: now,
            offset: corrected + libm::rint(step) as i64,
            drift: self.drift + slewed,
            sigma: libm::hypot(filter_jitter, self.jitter),
            drift_sigma: 0.0,
            wander: 0.0,
        })
    }

    /// Polls less often while offsets stay within the jitter.
    fn adapt_poll(&mut self, ahead: f64) {
        let poll = self.poll as i32;
        if ahead.abs() < PGATE * self.jitter {
            self.count += poll;
            if self.count > LIMIT {
                self.count = LIMIT;
                if self.poll < MAX_POLL {
                    (self.count, self.poll) = (0, self.poll + 1);
                }
            }
        } else {
            self.count -= 2 * poll;
            if self.count < -LIMIT {
                self.count = -LIMIT;
                if self.poll > MIN_POLL {
                    (self.count, self.poll) = (0, self.poll - 1);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Runs a client against a perfect server for `seconds`; its clock is `offset`
    /// ns ahead and gains `drift`. The error at the end, in nanoseconds, and sigma.
    fn run(offset: i64, drift: f64, seconds: u64, mut delays: impl FnMut() -> (f64, f64)) -> (f64, f64) {
        let own = |t: u64| (1 << 60) + t.wrapping_add_signed(offset + (drift * t as f64) as i64);
        let mut client = Client::new(own(0));
        let mut correction = None;
        let mut t = 0;
        while t < seconds * S {
            let (there, back) = delays();
            let (received, came_back) = (t + there as u64, t + (there + back) as u64);
            let server = (1 << 60) + received;
            if let Some(new) = client.answer([own(t), server, server, own(came_back)], correction) {
                correction = Some(new);
            }
            t += client.poll_interval();
        }
        let now = own(t);
        let correction = correction.unwrap();
        ((correction.to_fleet(now) - (1 << 60) - t as i64) as f64, correction.sigma)
    }

    #[test]
    fn a_constant_delay_leaves_no_error() {
        let (error, _) = run(5_000_000, 30e-6, 7_200, || (20_000.0, 20_000.0));
        assert!(error.abs() < 10_000.0, "{error}");
    }

    #[test]
    fn an_asymmetric_delay_is_an_error_of_half_the_difference() {
        let (error, _) = run(0, 0.0, 3_600, || (100_000.0, 300_000.0));
        assert!((error.abs() - 100_000.0).abs() < 5_000.0, "{error}");
    }

    #[test]
    fn a_clock_far_off_is_stepped() {
        let (error, _) = run(3 * S as i64, -10e-6, 7_200, || (20_000.0, 20_000.0));
        assert!(error.abs() < 10_000.0, "{error}");
    }

    #[test]
    fn the_error_with_noise_is_within_some_sigmas() {
        let mut random = onramp_random::stream(1, "test", 0);
        let (error, sigma) = run(1_000_000, 20e-6, 7_200, || {
            let mut noise = || 20_000.0 + 30_000.0 * onramp_random::exponential(&mut random);
            (noise(), noise())
        });
        assert!((5_000.0..200_000.0).contains(&sigma), "{sigma}");
        assert!(error.abs() < 4.0 * sigma, "{error} ns with sigma {sigma} ns");
    }
}
