//! CUBIC (RFC 9438) as Linux has it, in whole packets and jiffies, with HyStart (Ha and Rhee,
//! "Taming the elephants", 2011), which ends slow start before it loses packets.

use super::{Controller, Event, FromConfig, JIFFY, MAX_SEGMENT, Sample, Window};
use onramp_config::Rule;
use onramp_config::units::{MS, SEC, Span, US};
use serde::{Deserialize, Serialize};

/// Parameters: those of Linux's `tcp_cubic`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// A flow that loses before it is back at its last maximum leaves some of it to others. Default true.
    pub fast_convergence: bool,
    /// Part of the window that is left after a loss, in 1024ths. Default 717.
    pub beta: u32,
    /// Where slow start ends at first, in packets; only without HyStart. Default: nowhere.
    pub initial_ssthresh: Option<u32>,
    /// The constant C of the curve, in 1024ths of a packet per second cubed. Default 41, which is 0.4.
    pub scale: u32,
    /// Grow at least as fast as Reno would. Default true.
    pub tcp_friendliness: bool,
    /// End slow start early. Default true.
    pub hystart: bool,
    /// HyStart heeds how long a train of acknowledgements is. Default true.
    pub hystart_train: bool,
    /// HyStart heeds how much the round-trip time has grown. Default true.
    pub hystart_delay: bool,
    /// HyStart leaves smaller windows alone. Default 16 packets.
    pub hystart_low_window: u32,
    /// Acknowledgements closer to each other than this are a train. Default 2 ms.
    pub hystart_ack_delta: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            fast_convergence: true,
            beta: 717,
            initial_ssthresh: None,
            scale: 41,
            tcp_friendliness: true,
            hystart: true,
            hystart_train: true,
            hystart_delay: true,
            hystart_low_window: 16,
            hystart_ack_delta: Span(2 * MS),
        }
    }
}

impl Config {
    /// Its rules.
    pub fn check(&self, rule: Rule<'_>) {
        rule((1..1024).contains(&self.beta), "beta", format!("{} is outside 1 to 1023", self.beta));
        rule(self.scale > 0, "scale", "must be above 0, such as 41".into());
    }

    /// How many times 8/cwnd acknowledged packets Reno needs to grow by one if it is to have the same mean window
    /// although it is cut to β only (RFC 9438 §4.3); 15 by default.
    fn reno_scale(&self) -> u32 {
        8 * (1024 + self.beta) / 3 / (1024 - self.beta)
    }
}

/// Times of the curve are in 1024ths of a second.
const TICKS: u64 = 1024;
/// 2^10 of the scale, 2^30 of a time cubed.
const SHIFT: u32 = 40;
/// The kernel's curve is one of windows per 100 ms.
const RTT_SCALE: u64 = 10;
/// A window that does not change needs no new calculation for so long.
const RECALCULATE_JIFFIES: u64 = 31;
/// Round-trip times that make a round's least one.
const SAMPLES: u32 = 8;
/// Bounds of the margin above the least delay, which is an eighth of it, in microseconds.
const DELAY_MARGIN_US: (u32, u32) = (4_000, 16_000);

/// State of one connection.
#[derive(Clone, Debug)]
pub struct State {
    c: Config,
    curve: Curve,
    hystart: HyStart,
}

/// The curve: state that a timeout resets.
#[derive(Clone, Debug, Default)]
struct Curve {
    /// Packets to be acknowledged for the window to grow by one.
    every: u32,
    /// The window at the last loss, W_max; 0 before the first.
    max: u32,
    /// The window and the jiffy of the last calculation.
    calculated: (u32, u64),
    /// Where the curve is flat: at this window, so many ticks after it began.
    origin: u32,
    k: u64,
    /// The jiffy in which it began.
    began: Option<u64>,
    /// Least round-trip time in microseconds; 0 before the first.
    min_delay: u32,
    /// Reno's window, and the acknowledged packets that it has not grown for.
    reno: u32,
    credit: u32,
}

/// HyStart's state in the present round trip.
#[derive(Clone, Debug, Default)]
struct HyStart {
    /// Slow start has ended.
    done: bool,
    /// When the round and the latest acknowledgement of its train came, in microseconds.
    began: u64,
    train: u64,
    /// The round ends when this byte is acknowledged.
    end: u64,
    /// Least round-trip time of the first few in it.
    rtt: u32,
    samples: u32,
}

impl FromConfig for State {
    type Config = Config;

    fn new(c: &Config, w: &mut Window, _: u64) -> Self {
        if let (false, Some(packets)) = (c.hystart, c.initial_ssthresh) {
            w.ssthresh = packets;
        }
        Self { c: c.clone(), curve: Curve::default(), hystart: HyStart::round(w) }
    }
}

impl Controller for State {
    fn ssthresh(&mut self, w: &Window) -> u32 {
        self.curve.began = None;
        let below = w.cwnd < self.curve.max && self.c.fast_convergence;
        self.curve.max = if below { part(w.cwnd, 1024 + self.c.beta, 2048) } else { w.cwnd };
        part(w.cwnd, self.c.beta, 1024).max(2)
    }

    fn grow(&mut self, w: &mut Window, _: u64, acked: u32) {
        if !w.is_limited() {
            return;
        }
        let mut acked = acked;
        if w.in_slow_start() {
            acked = w.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        self.curve.update(&self.c, w, acked);
        w.avoid(self.curve.every, acked);
    }

    fn sampled(&mut self, w: &mut Window, sample: &Sample) {
        let Some(rtt) = sample.rtt_us else { return };
        // The queue of the loss is still there.
        if self.curve.began.is_some_and(|began| w.jiffies() - began < SEC / JIFFY) {
            return;
        }
        let rtt = rtt.max(1);
        let least = &mut self.curve.min_delay;
        if *least == 0 || rtt < *least {
            *least = rtt;
        }
        if self.c.hystart && !self.hystart.done && w.in_slow_start() {
            if w.snd_una > self.hystart.end {
                self.hystart = HyStart::round(w);
            }
            if w.cwnd >= self.c.hystart_low_window && self.hystart.is_over(&self.c, *least, w, rtt) {
                self.hystart.done = true;
                w.ssthresh = w.cwnd;
            }
        }
    }

    fn on_state(&mut self, w: &mut Window, new: super::State) {
        if new == super::State::Loss {
            self.curve = Curve::default();
            self.hystart = HyStart::round(w);
        }
    }

    /// The curve stands still while the application has nothing to send.
    fn on_event(&mut self, w: &mut Window, event: Event) {
        if let (Event::Start, Some(began)) = (event, &mut self.curve.began) {
            let idle = w.jiffies() - w.last_sent / JIFFY;
            *began = (*began + idle).min(w.jiffies());
        }
    }
}

/// `numerator / denominator` of a window.
fn part(cwnd: u32, numerator: u32, denominator: u32) -> u32 {
    (u64::from(cwnd) * u64::from(numerator) / u64::from(denominator)) as u32
}

impl Curve {
    fn update(&mut self, c: &Config, w: &Window, acked: u32) {
        let (cwnd, now) = (w.cwnd, w.jiffies());
        self.credit += acked;
        if self.calculated.0 == cwnd && now - self.calculated.1 <= RECALCULATE_JIFFIES {
            return;
        }
        // The curve moves by the jiffy, Reno's window by the acknowledgement.
        if self.began.is_none() || now != self.calculated.1 {
            self.calculated = (cwnd, now);
            self.follow(c, w, acked);
        }
        if c.tcp_friendliness {
            self.keep_up_with_reno(c, cwnd);
        }
        // At most half as much again in a round trip.
        self.every = self.every.max(2);
    }

    /// The pace that reaches the curve one round trip from now.
    fn follow(&mut self, c: &Config, w: &Window, acked: u32) {
        let (cwnd, now) = (w.cwnd, w.jiffies());
        let scale = u64::from(c.scale) * RTT_SCALE;
        let began = *self.began.get_or_insert_with(|| {
            self.credit = acked;
            self.reno = cwnd;
            let missing = self.max.saturating_sub(cwnd);
            // C·K³ = W_max − cwnd. The kernel's root is out by up to 0.15%, this one is not.
            self.k = libm::cbrt(((1 << SHIFT) / scale * u64::from(missing)) as f64) as u64;
            self.origin = cwnd + missing;
            now
        });
        let elapsed = now - began + (u64::from(self.min_delay) * US).div_ceil(JIFFY);
        let t = elapsed * TICKS / (SEC / JIFFY);
        // 64 bits that wrap, of which 32 are used, as in the kernel: after six minutes without a loss.
        let offset = t.abs_diff(self.k);
        let height = (scale.wrapping_mul(offset).wrapping_mul(offset).wrapping_mul(offset) >> SHIFT) as u32;
        let target = if t < self.k { self.origin.wrapping_sub(height) } else { self.origin.wrapping_add(height) };
        self.every = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        // Without a loss to go by, 5% a round trip at least.
        if self.max == 0 {
            self.every = self.every.min(20);
        }
    }

    fn keep_up_with_reno(&mut self, c: &Config, cwnd: u32) {
        let each = ((cwnd * c.reno_scale()) >> 3).max(1);
        if self.credit > each {
            let more = (self.credit - 1) / each;
            self.credit -= more * each;
            self.reno += more;
        }
        if self.reno > cwnd {
            self.every = self.every.min(cwnd / (self.reno - cwnd));
        }
    }
}

impl HyStart {
    /// A round that begins now.
    fn round(w: &Window) -> Self {
        Self { done: false, began: w.now_us(), train: w.now_us(), end: w.snd_nxt, rtt: u32::MAX, samples: 0 }
    }

    /// Returns whether slow start is over: true if the acknowledgement that has come after `rtt` shows that the pipe is
    /// full.
    fn is_over(&mut self, c: &Config, least: u32, w: &Window, rtt: u32) -> bool {
        let (long, slow) = (self.train_is_long(c, least, w), self.has_slowed(least, rtt));
        c.hystart_train && long || c.hystart_delay && slow
    }

    /// Acknowledgements have come close on one another for longer than a packet takes there; where packets are paced,
    /// which spreads them over half the round trip, there and back.
    fn train_is_long(&mut self, c: &Config, least: u32, w: &Window) -> bool {
        let now = w.now_us();
        if (now - self.train) * US > c.hystart_ack_delta.0 {
            return false;
        }
        self.train = now;
        let mut longest = u64::from(least) + joining_us(w);
        if !w.paced {
            longest /= 2;
        }
        now - self.began > longest
    }

    /// The least round-trip time of the round is well above that of the path.
    fn has_slowed(&mut self, least: u32, rtt: u32) -> bool {
        self.rtt = self.rtt.min(rtt);
        if self.samples < SAMPLES {
            self.samples += 1;
            return false;
        }
        self.rtt > least + (least >> 3).clamp(DELAY_MARGIN_US.0, DELAY_MARGIN_US.1)
    }
}

/// How long packets may wait to be joined to segments at both ends, which the least delay, measured with the first
/// short segments, does not hold: four of the longest at the pacing rate, which is doubled in slow start; 1 ms at most.
fn joining_us(w: &Window) -> u64 {
    (4 * MAX_SEGMENT * 1_000_000).checked_div(w.pacing_rate).unwrap_or(0).min(1_000)
}

#[cfg(test)]
mod tests {
    use super::super::tests::WINDOW;
    use super::*;

    const OPEN: Window = Window { cwnd_limited: true, ..WINDOW };

    /// A connection after its first loss, at a window of `max`.
    fn lost_at(c: &Config, max: u32) -> (Window, State) {
        let mut w = Window { cwnd: max, ..OPEN };
        let mut cubic = State::new(c, &mut w, 0);
        w.ssthresh = cubic.ssthresh(&w);
        w.cwnd = w.ssthresh;
        (w, cubic)
    }

    fn rtt(cubic: &mut State, w: &mut Window, us: u32) {
        cubic.sampled(w, &Sample { rtt_us: Some(us), ..Sample::default() });
    }

    #[test]
    fn a_loss_leaves_seven_tenths_and_the_next_one_below_it_less() {
        let (mut w, mut cubic) = lost_at(&Config::default(), 100);
        // 100 · 717 / 1024 = 70.02.
        assert_eq!((w.ssthresh, cubic.curve.max), (70, 100));
        // 80 · 717 / 1024 = 56.02, and W_max is 80 · (1024 + 717) / 2048 = 68.01.
        w.cwnd = 80;
        assert_eq!((cubic.ssthresh(&w), cubic.curve.max), (56, 68));
        w.cwnd = 2;
        assert_eq!(cubic.ssthresh(&w), 2);
        cubic.c.fast_convergence = false;
        cubic.curve.max = 100;
        w.cwnd = 80;
        assert_eq!((cubic.ssthresh(&w), cubic.curve.max), (56, 80));
    }

    #[test]
    fn it_grows_fast_then_slowly_and_then_fast_again() {
        let (mut w, mut cubic) = lost_at(&Config::default(), 100);
        cubic.c.tcp_friendliness = false;
        let mut every = |ms: u64, cwnd: u32| {
            (w.now, w.cwnd) = (ms * MS, cwnd);
            cubic.grow(&mut w, 0, 1);
            cubic.curve.every
        };
        // K = ∛(2^40 / 410 · 30) = 4316 ticks, 4.2 s. It begins 410 · 4316³ / 2^40 = 29.98 below: the target is 71.
        assert_eq!(every(1_000, 70), 70);
        // 2 s later, at tick 2048: 410 · 2268³ / 2^40 = 4.35 below; the target is 96, and two packets make one.
        assert_eq!(every(3_000, 70), 2);
        assert_eq!(every(3_001, 94), 47);
        // At tick 4316, 4215 ms later, the curve is flat.
        assert_eq!(every(5_215, 100), 100 * 100);
        // At tick 8192: 410 · 3876³ / 2^40 = 21.71 above.
        assert_eq!(every(9_000, 100), 4);
        // Within 31 jiffies the same window takes no new calculation, another one does.
        assert_eq!(every(9_031, 100), 4);
        // At tick 8224: 410 · 3908³ / 2^40 = 22.26 above.
        assert_eq!(every(9_032, 100), 4);
        assert_eq!(every(9_032, 101), 4, "once a jiffy");
        // At tick 8225: 22 above 100, 2 above 120.
        assert_eq!(every(9_033, 120), 60);
    }

    #[test]
    fn the_window_follows_the_curve() {
        let (mut w, mut cubic) = lost_at(&Config { tcp_friendliness: false, ..Config::default() }, 2_000);
        // RFC 9438's 0.4, as the kernel rounds it.
        let constant = 410.0 / 1024.0;
        let k = libm::cbrt((2_000.0 - f64::from(w.cwnd)) / constant);
        let rtt_ps = 20 * MS;
        rtt(&mut cubic, &mut w, 20_000);
        let mut worst = 0.0f64;
        while w.now < 25 * SEC {
            w.now += rtt_ps / u64::from(w.cwnd);
            cubic.grow(&mut w, 0, 1);
            let t = w.now as f64 / SEC as f64 - k;
            worst = worst.max((2_000.0 + constant * t * t * t - f64::from(w.cwnd)).abs());
        }
        assert!(worst < 4.0, "{worst} packets away from the curve");
        assert!(w.cwnd > 2_500, "{} is past the flat part", w.cwnd);
    }

    #[test]
    fn it_is_no_slower_than_reno() {
        let (mut w, mut cubic) = lost_at(&Config::default(), 10);
        // K = ∛(2^40 / 410 · 3) = 2003: 2.996 below 10, the target is 8. Reno's window begins at 7.
        cubic.curve.update(&cubic.c, &w, 1);
        assert_eq!((w.cwnd, cubic.curve.every, cubic.curve.reno), (7, 7, 7));
        // Reno grows by one each time more than 8 · 15 / 8 = 15 are acknowledged: 46 = 3 · 15 + 1. Two more than 8
        // within a window is one for every 4.
        w.cwnd = 8;
        cubic.curve.update(&cubic.c, &w, 45);
        assert_eq!((cubic.curve.every, cubic.curve.reno, cubic.curve.credit), (4, 10, 1));
    }

    #[test]
    fn before_a_loss_it_grows_by_a_twentieth() {
        let mut w = Window { cwnd: 100, ssthresh: 100, ..OPEN };
        let mut cubic = State::new(&Config::default(), &mut w, 0);
        for _ in 0..100 {
            cubic.grow(&mut w, 0, 1);
        }
        assert_eq!((w.cwnd, w.credit), (105, 0));
        // What is not used does not grow.
        w.cwnd_limited = false;
        cubic.grow(&mut w, 0, 1);
        assert_eq!((w.cwnd, w.credit), (105, 0));
    }

    #[test]
    fn the_curve_waits_while_there_is_nothing_to_send() {
        let (mut w, mut cubic) = lost_at(&Config::default(), 100);
        w.now = 1_000 * MS;
        cubic.grow(&mut w, 0, 1);
        (w.now, w.last_sent) = (5_000 * MS, 2_000 * MS);
        cubic.on_event(&mut w, Event::Start);
        assert_eq!(cubic.curve.began, Some(4_000));
        // Never into the future.
        cubic.on_event(&mut w, Event::Start);
        assert_eq!(cubic.curve.began, Some(5_000));
    }

    #[test]
    fn a_timeout_forgets_everything() {
        let (mut w, mut cubic) = lost_at(&Config::default(), 100);
        rtt(&mut cubic, &mut w, 500);
        cubic.on_state(&mut w, super::super::State::Recovery);
        assert_eq!((cubic.curve.max, cubic.curve.min_delay), (100, 500));
        (w.now, w.snd_nxt) = (7 * MS, 9_000);
        cubic.on_state(&mut w, super::super::State::Loss);
        assert_eq!((cubic.curve.max, cubic.curve.min_delay), (0, 0));
        assert_eq!((cubic.hystart.began, cubic.hystart.end), (7_000, 9_000));
    }

    #[test]
    fn delays_of_the_first_second_after_a_loss_do_not_count() {
        let (mut w, mut cubic) = lost_at(&Config::default(), 100);
        cubic.grow(&mut w, 0, 1);
        w.now = 999 * MS;
        rtt(&mut cubic, &mut w, 500);
        assert_eq!(cubic.curve.min_delay, 0);
        w.now = 1_000 * MS;
        rtt(&mut cubic, &mut w, 0);
        assert_eq!(cubic.curve.min_delay, 1);
    }

    /// A connection in slow start, with the first round trip of 1 ms under way since 0.
    fn starting(c: Config) -> (Window, State) {
        let mut w = Window { cwnd: 16, snd_nxt: 16_000, ..OPEN };
        let cubic = State::new(&c, &mut w, 0);
        (w, cubic)
    }

    /// An acknowledgement at `us` ends a round trip of `delay`; the window at which slow start ends now.
    fn train(w: &mut Window, cubic: &mut State, us: u64, delay: u32) -> Option<u32> {
        w.now = us * US;
        rtt(cubic, w, delay);
        (w.ssthresh < u32::MAX).then_some(w.ssthresh)
    }

    #[test]
    fn a_long_train_of_acknowledgements_ends_slow_start() {
        // 501 us after the round began is more than half of 1 ms.
        let (mut w, mut cubic) = starting(Config::default());
        cubic.curve.min_delay = 1_000;
        assert_eq!(train(&mut w, &mut cubic, 500, 1_000), None);
        assert_eq!(train(&mut w, &mut cubic, 501, 1_000), Some(16));
        // And of four segments' time, which is 100 us at this rate.
        let (mut w, mut cubic) = starting(Config::default());
        w.pacing_rate = 4 * MAX_SEGMENT * 10_000;
        assert_eq!(train(&mut w, &mut cubic, 550, 1_000), None);
        assert_eq!(train(&mut w, &mut cubic, 551, 1_000), Some(16));
        // All of it where packets are paced.
        let (mut w, mut cubic) = starting(Config::default());
        (w.pacing_rate, w.paced) = (4 * MAX_SEGMENT * 10_000, true);
        assert_eq!(train(&mut w, &mut cubic, 1_100, 1_000), None);
        assert_eq!(train(&mut w, &mut cubic, 1_101, 1_000), Some(16));
        // At most 1 ms is added.
        w.pacing_rate = 1;
        assert_eq!(joining_us(&w), 1_000);
    }

    #[test]
    fn hystart_wants_a_train_without_a_gap_and_a_window_of_sixteen() {
        let (mut w, mut cubic) = starting(Config::default());
        // 2001 us after the round began: no train in this round any more.
        assert_eq!(train(&mut w, &mut cubic, 2_001, 1_000), None);
        assert_eq!(train(&mut w, &mut cubic, 2_002, 1_000), None);
        // The next round begins behind byte 16000.
        (w.snd_una, w.snd_nxt) = (16_001, 32_000);
        assert_eq!(train(&mut w, &mut cubic, 3_000, 1_000), None);
        assert_eq!((cubic.hystart.began, cubic.hystart.end), (3_000, 32_000));
        w.cwnd = 15;
        assert_eq!(train(&mut w, &mut cubic, 3_900, 1_000), None);
        w.cwnd = 17;
        assert_eq!(train(&mut w, &mut cubic, 3_901, 1_000), Some(17));
        // Once is enough.
        (w.cwnd, w.ssthresh) = (20, u32::MAX);
        assert_eq!(train(&mut w, &mut cubic, 3_902, 1_000), None);
        let (mut w, mut cubic) = starting(Config { hystart: false, ..Config::default() });
        assert_eq!(train(&mut w, &mut cubic, 900, 1_000), None);
    }

    #[test]
    fn a_grown_round_trip_ends_slow_start() {
        let (mut w, mut cubic) = starting(Config { hystart_train: false, ..Config::default() });
        cubic.curve.min_delay = 40_000;
        // An eighth above 40 ms is 45 ms. Eight samples are gathered, the ninth decides; the least of them counts.
        for _ in 0..8 {
            assert_eq!(train(&mut w, &mut cubic, 50_000, 45_001), None);
        }
        assert_eq!(train(&mut w, &mut cubic, 50_000, 60_000), Some(16));
        let (mut w, mut cubic) = starting(Config { hystart_train: false, ..Config::default() });
        cubic.curve.min_delay = 100;
        // At least 4 ms are added.
        for _ in 0..20 {
            assert_eq!(train(&mut w, &mut cubic, 5_000, 4_100), None);
        }
    }

    #[test]
    fn without_hystart_slow_start_may_have_an_end_from_the_outset() {
        let mut w = OPEN;
        let config = Config { hystart: false, initial_ssthresh: Some(50), ..Config::default() };
        State::new(&config, &mut w, 0);
        assert_eq!(w.ssthresh, 50);
    }
}
