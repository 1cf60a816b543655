//! BBR version 1 (Cardwell et al., "BBR: congestion-based congestion control", ACM Queue 2016) as
//! Linux has it: it paces at the largest rate of delivery it has seen lately, and keeps the window
//! at twice what that rate fills at the least round-trip time.

use super::{Controller, Event, FromConfig, JIFFY, MAX_SEGMENT, Sample, Window};
use onramp_config::Rule;
use onramp_config::units::{MS, Ps, SEC, US};
use serde::{Deserialize, Serialize};

/// It has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {}

impl Config {
    /// There is nothing to check.
    pub fn check(&self, _: Rule<'_>) {}
}

/// Packets per microsecond, in parts of 2^24.
type Rate = u32;
const RATE_SHIFT: u32 = 24;
const RATE_ONE: u64 = 1 << RATE_SHIFT;

/// Gains are in 256ths.
const ONE: u32 = 256;
const SHIFT: u32 = 8;
/// 2/ln 2 doubles what is delivered each round trip.
const HIGH: u32 = ONE * 2885 / 1000 + 1;
/// Takes away in one round trip the queue that HIGH has built.
const LOW: u32 = ONE * 1000 / 2885;
/// Of the window, so that acknowledgements may be late.
const WINDOW_GAIN: u32 = 2 * ONE;
/// Pacing gains of one least round-trip time each: looks for more, takes the queue away, and stays.
const CYCLE: [u32; 8] = [ONE * 5 / 4, ONE * 3 / 4, ONE, ONE, ONE, ONE, ONE, ONE];
/// Share of the rate left unused so that the queue drains, in hundredths.
const MARGIN: u64 = 1;

/// Round trips for which a rate of delivery is remembered.
const RATE_ROUNDS: u64 = 10;
/// For how long a round-trip time is, and how long the window is then small to measure it anew, in jiffies.
const MIN_RTT_JIFFIES: u64 = 10 * SEC / JIFFY;
const PROBE_JIFFIES: u64 = 200 * MS / JIFFY;
/// With fewer packets delayed acknowledgements would stop it.
const LEAST_WINDOW: u32 = 4;
/// Of a connection of which nothing is known.
const FIRST_WINDOW: u32 = 10;
/// The pipe is full after so many rounds in which the rate has not grown by this.
const FULL_ROUNDS: u32 = 3;
const FULL_GAIN: u64 = ONE as u64 * 5 / 4;
/// In bytes per second: below, a segment has one packet.
const LEAST_SEGMENT_RATE: u64 = 1_200_000 / 8;
/// A segment lasts 2^-10 s at the pacing rate, and has no more packets than these.
const SEGMENT_SHIFT: u32 = 10;
const SEGMENT_PACKETS: u32 = 127;

/// Round trips for which joined acknowledgements are remembered, at least.
const JOINED_ROUNDS: u32 = 5;
/// Packets after which they are counted anew.
const JOINED_PACKETS: u32 = 1 << 20;
/// The most they add to a window is what is delivered in this time, in microseconds.
const JOINED_US: u64 = 100_000;

/// Round trips over which a policer's rate is measured, at least; four times that at most.
const POLICER_ROUNDS: u32 = 4;
/// Share of packets lost there, in 256ths.
const POLICER_LOSS: u64 = 50;
/// Two rates are the same if they differ by no more than an eighth, or than this in bytes per second.
const POLICER_RATIO: u32 = ONE / 8;
const POLICER_DIFFERENCE: u64 = 4_000 / 8;
/// Round trips after which it is tried whether the policer has gone.
const POLICED_ROUNDS: u32 = 48;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// The rate doubles each round trip.
    Startup,
    /// The queue of that is taken away.
    Drain,
    /// A phase of [`CYCLE`], and when it began.
    ProbeRate { phase: usize, since: Ps },
    /// A small window, until a jiffy that is known once that few packets are under way.
    ProbeRtt { until: Option<u64>, round_over: bool },
}

/// State of one connection.
#[derive(Clone, Debug)]
pub struct State {
    mode: Mode,
    draw: u64,
    pacing_gain: u32,
    window_gain: u32,
    /// Rounds so far; the present one ends with a packet that is sent when so many were delivered.
    rounds: u64,
    round_end: u64,
    /// The acknowledgement has ended one.
    round_over: bool,
    fastest: Fastest,
    /// Least round-trip time in microseconds, and the jiffy of it.
    min_rtt_us: u32,
    min_rtt_jiffy: u64,
    has_seen_rtt: bool,
    full: Full,
    /// Nothing has come back since the application had nothing to send.
    restarted: bool,
    /// Where the connection stood at the last acknowledgement.
    stood: super::State,
    /// Not more is sent than was acknowledged: the first round of a recovery.
    conserving: bool,
    /// The window before losses or [`Mode::ProbeRtt`] cut it.
    saved: u32,
    joined: Joined,
    policer: Policer,
}

/// Detector of a full pipe.
#[derive(Clone, Debug, Default)]
struct Full {
    reached: bool,
    /// The rate that has last grown by a quarter, and rounds since.
    rate: Rate,
    rounds: u32,
}

impl FromConfig for State {
    type Config = Config;

    fn new(_: &Config, w: &mut Window, draw: u64) -> Self {
        w.ssthresh = u32::MAX;
        let mut bbr = Self {
            mode: Mode::Startup,
            draw,
            pacing_gain: 0,
            window_gain: 0,
            rounds: 0,
            round_end: w.delivered,
            round_over: false,
            fastest: Fastest::default(),
            min_rtt_us: w.min_rtt_us,
            min_rtt_jiffy: w.jiffies(),
            has_seen_rtt: false,
            full: Full::default(),
            restarted: false,
            stood: super::State::Open,
            conserving: false,
            saved: 0,
            joined: Joined { since: w.now, ..Joined::default() },
            policer: Policer::new(w),
        };
        bbr.pace_from_rtt(w);
        bbr
    }
}

impl Controller for State {
    fn steers(&self) -> bool {
        true
    }

    /// Losses do not end slow start; the window is noted for the time after them.
    fn ssthresh(&mut self, w: &Window) -> u32 {
        self.save_window(w);
        w.ssthresh
    }

    fn undo(&mut self, w: &Window) -> u32 {
        (self.full.rate, self.full.rounds) = (0, 0);
        self.policer = Policer::new(w);
        w.cwnd
    }

    fn on_state(&mut self, w: &mut Window, new: super::State) {
        if new == super::State::Loss {
            self.stood = new;
            self.full.rate = 0;
            self.round_over = true;
            self.watch_policer(w, &Sample { losses: 1, ..Sample::default() });
        }
    }

    fn on_event(&mut self, w: &mut Window, event: Event) {
        if event == Event::Start && w.app_limited > 0 {
            self.restarted = true;
            (self.joined.since, self.joined.acked) = (w.now, 0);
            match self.mode {
                // The pipe is empty, there is nothing to look for or to drain.
                Mode::ProbeRate { .. } => self.pace(w, self.rate(), ONE),
                Mode::ProbeRtt { until, .. } => self.end_probe(w, until),
                Mode::Startup | Mode::Drain => {}
            }
        }
    }

    fn control(&mut self, w: &mut Window, s: &Sample) -> bool {
        self.measure_rate(w, s);
        self.measure_joined(w, s);
        if let Mode::ProbeRate { phase, since } = self.mode
            && self.phase_is_over(w, s, since)
        {
            self.begin_phase(w, phase + 1);
        }
        self.check_full(s);
        self.check_drained(w);
        self.measure_rtt(w, s);
        (self.pacing_gain, self.window_gain) = match self.mode {
            Mode::Startup => (HIGH, HIGH),
            Mode::Drain => (LOW, HIGH),
            Mode::ProbeRate { .. } if self.policer.found => (ONE, WINDOW_GAIN),
            Mode::ProbeRate { phase, .. } => (CYCLE[phase], WINDOW_GAIN),
            Mode::ProbeRtt { .. } => (ONE, ONE),
        };
        self.pace(w, self.rate(), self.pacing_gain);
        self.set_window(w, s);
        true
    }

    fn least_segment(&self, w: &Window) -> Option<u32> {
        Some(least_segment(w))
    }

    fn wants_pacing(&self) -> bool {
        true
    }
}

/// Estimates of the path.
impl State {
    /// The rate it carries.
    fn rate(&self) -> Rate {
        if self.policer.found { self.policer.rate } else { self.fastest.get() }
    }

    fn measure_rate(&mut self, w: &Window, s: &Sample) {
        self.round_over = false;
        let Some(delivered) = s.delivered.filter(|_| s.interval_us > 0) else { return };
        if s.prior_delivered >= self.round_end {
            self.begin_round(w);
            self.rounds += 1;
            self.round_over = true;
            self.conserving = false;
        }
        self.watch_policer(w, s);
        let rate = (u64::from(delivered) * RATE_ONE / u64::from(s.interval_us)) as Rate;
        // The path carries at least what the application has sent.
        if !s.app_limited || rate >= self.fastest.get() {
            self.fastest.add(self.rounds, rate);
        }
    }

    fn begin_round(&mut self, w: &Window) {
        self.round_end = w.delivered;
    }

    /// How much more than that rate explains is acknowledged at once.
    fn measure_joined(&mut self, w: &Window, s: &Sample) {
        if s.acked > 0 && s.delivered.is_some() && s.interval_us > 0 {
            self.joined.add(w, s.acked, self.rate(), self.round_over);
        }
    }

    fn check_full(&mut self, s: &Sample) {
        let full = &mut self.full;
        if full.reached || !self.round_over || s.app_limited {
            return;
        }
        if u64::from(self.fastest.get()) >= (u64::from(full.rate) * FULL_GAIN) >> SHIFT {
            (full.rate, full.rounds) = (self.fastest.get(), 0);
        } else {
            full.rounds += 1;
            full.reached = full.rounds >= FULL_ROUNDS;
        }
    }

    fn check_drained(&mut self, w: &mut Window) {
        if self.mode == Mode::Startup && self.full.reached {
            self.mode = Mode::Drain;
            w.ssthresh = self.target(w, self.fastest.get(), ONE);
        }
        if self.mode == Mode::Drain
            && self.in_flight_at_departure(w, w.in_flight) <= self.target(w, self.fastest.get(), ONE)
        {
            self.cycle(w);
        }
    }

    fn measure_rtt(&mut self, w: &mut Window, s: &Sample) {
        let old = w.jiffies() > self.min_rtt_jiffy + MIN_RTT_JIFFIES;
        if let Some(rtt) = s.rtt_us
            && (rtt < self.min_rtt_us || old && !s.delayed)
        {
            (self.min_rtt_us, self.min_rtt_jiffy) = (rtt, w.jiffies());
        }
        if old && !self.restarted && !matches!(self.mode, Mode::ProbeRtt { .. }) {
            self.mode = Mode::ProbeRtt { until: None, round_over: false };
            // In this mode: a larger one that was noted before stays noted.
            self.save_window(w);
        }
        if let Mode::ProbeRtt { until, round_over } = &mut self.mode {
            // So small a window says nothing of the rate.
            w.app_limited = (w.delivered + u64::from(w.in_flight)).max(1);
            if until.is_some() {
                *round_over |= self.round_over;
                if *round_over {
                    let until = *until;
                    self.end_probe(w, until);
                }
            } else if w.in_flight <= LEAST_WINDOW {
                *until = Some(w.jiffies() + PROBE_JIFFIES);
                self.begin_round(w);
            }
        }
        if s.delivered.is_some_and(|packets| packets > 0) {
            self.restarted = false;
        }
    }

    fn end_probe(&mut self, w: &mut Window, until: Option<u64>) {
        if until.is_some_and(|until| w.jiffies() > until) {
            self.min_rtt_jiffy = w.jiffies();
            w.cwnd = w.cwnd.max(self.saved);
            if self.full.reached {
                self.cycle(w);
            } else {
                self.mode = Mode::Startup;
            }
        }
    }
}

/// The cycle of pacing gains.
impl State {
    /// Begins anywhere but where the queue is taken away.
    fn cycle(&mut self, w: &Window) {
        // An LCG's upper half, as Knuth's MMIX has it.
        self.draw = self.draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let back = ((self.draw >> 32) * 7) >> 32;
        self.begin_phase(w, CYCLE.len() - back as usize);
    }

    fn begin_phase(&mut self, w: &Window, phase: usize) {
        self.mode = Mode::ProbeRate { phase: phase % CYCLE.len(), since: w.last_delivered };
    }

    fn phase_is_over(&self, w: &Window, s: &Sample, since: Ps) -> bool {
        let over = us_between(since, w.last_delivered) > u64::from(self.min_rtt_us);
        let in_flight = || self.in_flight_at_departure(w, s.prior_in_flight);
        let target = |gain| self.target(w, self.fastest.get(), gain);
        match self.pacing_gain {
            ONE => over,
            // What it takes to see whether there is more; a small buffer may not hold it.
            more if more > ONE => over && (s.losses > 0 || in_flight() >= target(more)),
            _ => over || in_flight() <= target(ONE),
        }
    }
}

/// Pacing rate and window that it sets.
impl State {
    /// Before anything is known: the window in a round-trip time, or in 1 ms if none is known.
    fn pace_from_rtt(&mut self, w: &mut Window) {
        self.has_seen_rtt = w.srtt8_us > 0;
        let rtt_us = if self.has_seen_rtt { (w.srtt8_us >> 3).max(1) } else { 1_000 };
        w.pacing_rate = bytes_per_second(w, (u64::from(w.cwnd) * RATE_ONE / u64::from(rtt_us)) as Rate, HIGH);
    }

    fn pace(&mut self, w: &mut Window, rate: Rate, gain: u32) {
        if !self.has_seen_rtt && w.srtt8_us > 0 {
            self.pace_from_rtt(w);
        }
        let bytes = bytes_per_second(w, rate, gain);
        // The first rates are too low.
        if self.full.reached || bytes > w.pacing_rate {
            w.pacing_rate = bytes;
        }
    }

    fn set_window(&mut self, w: &mut Window, s: &Sample) {
        if s.acked > 0 {
            w.cwnd = self.recover(w, s);
            if !self.conserving {
                self.approach_target(w, s.acked);
            }
        }
        w.cwnd = w.cwnd.min(w.clamp);
        if let Mode::ProbeRtt { .. } = self.mode {
            w.cwnd = w.cwnd.min(LEAST_WINDOW);
        }
    }

    /// The window that losses leave, or the one before them when they are over.
    fn recover(&mut self, w: &Window, s: &Sample) -> u32 {
        use super::State::Recovery;
        let mut cwnd = if s.losses > 0 { w.cwnd.saturating_sub(s.losses).max(1) } else { w.cwnd };
        let stood = std::mem::replace(&mut self.stood, w.state);
        if w.state == Recovery && stood != Recovery {
            self.conserving = true;
            self.begin_round(w);
            // What was not used does not count.
            cwnd = w.in_flight + s.acked;
        } else if w.state < Recovery && stood >= Recovery {
            self.conserving = false;
            cwnd = cwnd.max(self.saved);
        }
        if self.conserving { cwnd.max(w.in_flight + s.acked) } else { cwnd }
    }

    fn approach_target(&self, w: &mut Window, acked: u32) {
        let mut target = self.filling(self.rate(), self.window_gain);
        if self.full.reached {
            let most = u64::from(self.rate()) * JOINED_US / RATE_ONE;
            target += self.joined.most().min(most as u32);
        }
        target = self.with_segments(w, target);
        if self.full.reached {
            w.cwnd = (w.cwnd + acked).min(target);
        } else if w.cwnd < target || w.delivered < FIRST_WINDOW.into() {
            w.cwnd += acked;
        }
        w.cwnd = w.cwnd.max(LEAST_WINDOW);
    }

    fn save_window(&mut self, w: &Window) {
        let cut = self.stood >= super::State::Recovery || matches!(self.mode, Mode::ProbeRtt { .. });
        self.saved = if cut { self.saved.max(w.cwnd) } else { w.cwnd };
    }

    /// Packets under way that fill the pipe at a rate.
    fn filling(&self, rate: Rate, gain: u32) -> u32 {
        if self.min_rtt_us == u32::MAX {
            return FIRST_WINDOW;
        }
        let packets = u64::from(rate) * u64::from(self.min_rtt_us);
        ((packets * u64::from(gain)) >> SHIFT).div_ceil(RATE_ONE) as u32
    }

    /// And those that wait to be whole segments: in the host's queue, in its NIC, and at the receiver.
    fn with_segments(&self, w: &Window, packets: u32) -> u32 {
        // Even, for every other one is acknowledged.
        let even = (packets + 3 * segment_goal(w)).next_multiple_of(2);
        // So that a small pipe too holds more at times.
        even + if let Mode::ProbeRate { phase: 0, .. } = self.mode { 2 } else { 0 }
    }

    fn target(&self, w: &Window, rate: Rate, gain: u32) -> u32 {
        self.with_segments(w, self.filling(rate, gain))
    }

    /// Of those under way, how many will still be when pacing lets the next segment leave.
    fn in_flight_at_departure(&self, w: &Window, in_flight: u32) -> u32 {
        let wait_us = w.departure.saturating_sub(w.now) / US;
        let delivered = (u64::from(self.rate()) * wait_us) >> RATE_SHIFT;
        let more = if self.pacing_gain > ONE { segment_goal(w) } else { 0 };
        (in_flight + more).saturating_sub(delivered as u32)
    }
}

/// On a clock that counts microseconds.
fn us_between(from: Ps, to: Ps) -> u64 {
    (to / US).saturating_sub(from / US)
}

/// The pacing rate.
fn bytes_per_second(w: &Window, rate: Rate, gain: u32) -> u64 {
    let bytes = (u128::from(rate) * u128::from(w.mss) * u128::from(gain)) >> SHIFT;
    ((bytes * u128::from(1_000_000 / 100 * (100 - MARGIN))) >> RATE_SHIFT) as u64
}

fn least_segment(w: &Window) -> u32 {
    if w.pacing_rate < LEAST_SEGMENT_RATE { 1 } else { 2 }
}

/// Packets of a segment at the present pacing rate.
fn segment_goal(w: &Window) -> u32 {
    let bytes = (w.pacing_rate >> SEGMENT_SHIFT).min(MAX_SEGMENT) as u32;
    (bytes / w.mss).max(least_segment(w)).min(SEGMENT_PACKETS)
}

/// The largest rate of the last rounds, and the two that would follow it: Kathleen Nichols' filter.
#[derive(Clone, Debug, Default)]
struct Fastest([(u64, Rate); 3]);

impl Fastest {
    fn get(&self) -> Rate {
        self.0[0].1
    }

    fn add(&mut self, round: u64, rate: Rate) {
        let new = (round, rate);
        if rate >= self.0[0].1 || round - self.0[2].0 > RATE_ROUNDS {
            self.0 = [new; 3];
            return;
        }
        if rate >= self.0[1].1 {
            self.0[1..].fill(new);
        } else if rate >= self.0[2].1 {
            self.0[2] = new;
        }
        let age = round - self.0[0].0;
        if age > RATE_ROUNDS {
            self.0 = [self.0[1], self.0[2], new];
            if round - self.0[0].0 > RATE_ROUNDS {
                self.0 = [self.0[1], new, new];
            }
        } else if age > RATE_ROUNDS / 4 && self.0[1].0 == self.0[0].0 {
            // A follower is taken from the second quarter of the time, and another from its second half.
            self.0[1..].fill(new);
        } else if age > RATE_ROUNDS / 2 && self.0[2].0 == self.0[1].0 {
            self.0[2] = new;
        }
    }
}

/// Acknowledgements that come joined: without more in the window, nothing is sent between them.
#[derive(Clone, Debug, Default)]
struct Joined {
    /// Packets acknowledged since.
    since: Ps,
    acked: u32,
    /// Most beyond what was expected, in two spans of rounds of which the latter goes on.
    excess: [u32; 2],
    latter: usize,
    rounds: u32,
}

impl Joined {
    fn most(&self) -> u32 {
        self.excess[0].max(self.excess[1])
    }

    fn add(&mut self, w: &Window, acked: u32, rate: Rate, round_over: bool) {
        self.rounds += u32::from(round_over);
        if self.rounds >= JOINED_ROUNDS {
            self.rounds = 0;
            self.latter ^= 1;
            self.excess[self.latter] = 0;
        }
        let us = us_between(self.since, w.last_delivered);
        let mut expected = (u64::from(rate) * us / RATE_ONE) as u32;
        if self.acked <= expected || self.acked + acked >= JOINED_PACKETS {
            (self.since, self.acked, expected) = (w.last_delivered, 0, 0);
        }
        self.acked = (self.acked + acked).min(JOINED_PACKETS - 1);
        let excess = (self.acked - expected).min(w.cwnd);
        self.excess[self.latter] = self.excess[self.latter].max(excess);
    }
}

/// Finds out whether a token bucket drops what exceeds its rate (Flach et al., "An Internet-wide
/// analysis of traffic policing", SIGCOMM'16).
#[derive(Clone, Debug)]
struct Policer {
    /// It does, at this rate; before, that of the last interval, 0 without one.
    found: bool,
    rate: Rate,
    /// An interval goes on.
    watching: bool,
    rounds: u32,
    /// When it began, and packets delivered and lost then.
    since_ms: u64,
    delivered: u64,
    lost: u64,
}

impl Policer {
    fn new(w: &Window) -> Self {
        Self {
            found: false,
            rate: 0,
            watching: false,
            rounds: 0,
            since_ms: w.last_delivered / MS,
            delivered: w.delivered,
            lost: w.lost,
        }
    }

    fn begin_interval(&mut self, w: &Window) {
        *self = Self { found: self.found, rate: self.rate, watching: self.watching, ..Self::new(w) };
    }

    /// The rate of an interval that ends with a loss, if it tells anything.
    fn interval(&mut self, w: &Window, s: &Sample, round_over: bool) -> Option<Rate> {
        // Before the first loss it lets through what it has saved.
        if !self.watching {
            if s.losses == 0 {
                return None;
            }
            self.begin_interval(w);
            self.watching = true;
        }
        self.rounds += u32::from(round_over);
        // An application that sends too little, or an interval too long, tells nothing.
        if s.app_limited || self.rounds > 4 * POLICER_ROUNDS {
            *self = Self::new(w);
            return None;
        }
        if self.rounds < POLICER_ROUNDS || s.losses == 0 {
            return None;
        }
        let (lost, delivered) = (w.lost - self.lost, w.delivered - self.delivered);
        if delivered == 0 || lost << SHIFT < POLICER_LOSS * delivered {
            return None;
        }
        let ms = (w.last_delivered / MS).saturating_sub(self.since_ms);
        if ms >= u64::from(u32::MAX / 1_000) {
            *self = Self::new(w);
            return None;
        }
        (ms > 0).then(|| (delivered * RATE_ONE / (ms * 1_000)) as Rate)
    }

    /// Two intervals in a row of the same rate are a policer's.
    fn compare(&mut self, w: &Window, rate: Rate) {
        let difference = rate.abs_diff(self.rate);
        // In 32 bits that wrap, as in the kernel: from 12 Gb/s of packets of 1500 bytes.
        let close = difference.wrapping_mul(ONE) <= POLICER_RATIO.wrapping_mul(self.rate)
            || bytes_per_second(w, difference, ONE) <= POLICER_DIFFERENCE;
        if self.rate > 0 && close {
            self.rate = rate.wrapping_add(self.rate) >> 1;
            self.found = true;
            self.rounds = 0;
        } else {
            self.rate = rate;
            self.begin_interval(w);
        }
    }
}

impl State {
    fn watch_policer(&mut self, w: &Window, s: &Sample) {
        if !self.policer.found {
            if let Some(rate) = self.policer.interval(w, s, self.round_over) {
                self.policer.compare(w, rate);
                if self.policer.found {
                    self.pacing_gain = ONE;
                }
            }
        } else if self.round_over && matches!(self.mode, Mode::ProbeRate { .. }) {
            self.policer.rounds += 1;
            if self.policer.rounds >= POLICED_ROUNDS {
                self.policer = Policer::new(w);
                self.cycle(w);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::State as Standing;
    use super::super::tests::{Pipe, WINDOW};
    use super::*;

    /// With a round-trip time of 100 ms, at which segments have two packets.
    const OPEN: Window = Window { min_rtt_us: 100_000, srtt8_us: 800_000, ..WINDOW };
    /// Packets in 100 ms.
    const fn rate(packets: u64) -> Rate {
        (packets * RATE_ONE / 100_000) as Rate
    }

    fn bbr(w: &mut Window) -> State {
        State::new(&Config {}, w, 0)
    }

    /// 100 ms later, `packets` are acknowledged and end a round; also what it was told.
    fn round(bbr: &mut State, w: &mut Window, packets: u32) -> Sample {
        w.now += 100 * MS;
        w.last_delivered = w.now;
        let s = Sample {
            acked: packets,
            delivered: Some(packets),
            interval_us: 100_000,
            prior_delivered: w.delivered,
            prior_in_flight: w.in_flight + packets,
            rtt_us: Some(100_000),
            ..Sample::default()
        };
        w.delivered += u64::from(packets);
        assert!(bbr.control(w, &s));
        s
    }

    /// A full pipe of 40 packets, in the first phase of gain 1.
    fn full() -> (Window, State) {
        let mut w = Window { cwnd: 80, last_delivered: 0, ..OPEN };
        let mut bbr = bbr(&mut w);
        bbr.fastest.add(0, rate(40));
        bbr.full = Full { reached: true, rate: rate(40), rounds: 3 };
        bbr.mode = Mode::ProbeRate { phase: 2, since: 0 };
        bbr.pacing_gain = ONE;
        (w, bbr)
    }

    #[test]
    fn it_begins_with_the_window_over_the_round_trip() {
        // 10 packets in 1 ms are 167772 / 2^24 per us; 167772 · 1448 · 739 / 256 = 701281717 and
        // · 990000 / 2^24 = 41381651.2 bytes per second.
        let mut w = WINDOW;
        let mut b = bbr(&mut w);
        assert_eq!((w.pacing_rate, b.has_seen_rtt, w.ssthresh), (41_381_651, false, u32::MAX));
        assert_eq!((b.least_segment(&w), b.wants_pacing()), (Some(2), true));
        // In the first round-trip time that is known, 10 ms: 16777, a tenth.
        w.srtt8_us = 80_000;
        b.pace(&mut w, 1, ONE);
        assert_eq!((w.pacing_rate, b.has_seen_rtt), (4_138_115, true));
        // In startup it only grows, afterwards it falls too: 2^20 · 1448 · 990000 / 2^24 = 89595000.
        b.pace(&mut w, 1 << 20, ONE);
        assert_eq!(w.pacing_rate, 89_595_000);
        b.pace(&mut w, 1 << 10, ONE);
        assert_eq!(w.pacing_rate, 89_595_000);
        b.full.reached = true;
        b.pace(&mut w, 1 << 10, ONE);
        assert_eq!(w.pacing_rate, 87_495);
        assert_eq!(b.least_segment(&w), Some(1));
    }

    #[test]
    fn segments_last_about_a_millisecond() {
        let packets = |rate| segment_goal(&Window { pacing_rate: rate, ..WINDOW });
        // 1.2 Mb/s; 10 · 1448 · 1024; 64 KiB less headers is 45.04 packets.
        assert_eq!((packets(149_999), packets(150_000), packets(14_827_520)), (1, 2, 10));
        assert_eq!((packets(14_827_519), packets(u64::MAX)), (9, 45));
        assert_eq!(segment_goal(&Window { mss: 100, ..WINDOW }), 127);
    }

    #[test]
    fn the_largest_rate_of_ten_rounds_is_remembered() {
        let mut f = Fastest::default();
        f.add(0, 100);
        f.add(1, 50);
        assert_eq!(f.0, [(0, 100), (0, 100), (0, 100)]);
        // After more than 2 rounds a second choice is taken, after more than 5 a third.
        f.add(3, 60);
        assert_eq!(f.0, [(0, 100), (3, 60), (3, 60)]);
        f.add(6, 40);
        assert_eq!(f.0, [(0, 100), (3, 60), (6, 40)]);
        f.add(7, 45);
        assert_eq!(f.0, [(0, 100), (3, 60), (7, 45)]);
        f.add(10, 10);
        assert_eq!(f.get(), 100);
        f.add(11, 30);
        assert_eq!(f.0, [(3, 60), (7, 45), (11, 30)]);
        f.add(12, 50);
        assert_eq!(f.0, [(3, 60), (12, 50), (12, 50)]);
        f.add(13, 60);
        assert_eq!(f.0, [(13, 60), (13, 60), (13, 60)]);
        // Both choices are too old.
        f.0 = [(13, 60), (14, 50), (20, 40)];
        f.add(25, 5);
        assert_eq!(f.0, [(20, 40), (25, 5), (25, 5)]);
        f.add(36, 1);
        assert_eq!(f.0, [(36, 1), (36, 1), (36, 1)]);
    }

    #[test]
    fn three_rounds_without_a_quarter_more_fill_the_pipe() {
        let mut w = OPEN;
        let mut b = bbr(&mut w);
        w.in_flight = 50;
        // 10, 20, 40 and 50 packets in a round: each 1.25 times more.
        for (packets, cwnd) in [(10, 20), (20, 40), (40, 80), (50, 130)] {
            round(&mut b, &mut w, packets);
            assert_eq!((b.mode, b.full.rounds, w.cwnd), (Mode::Startup, 0, cwnd));
            assert_eq!((b.pacing_gain, b.window_gain), (739, 739));
        }
        // 1.24 times is not enough. 62 packets at gain 739/256 are 178.9: the window still grows to beyond that.
        round(&mut b, &mut w, 62);
        assert_eq!((b.full.rounds, w.cwnd), (1, 192));
        round(&mut b, &mut w, 62);
        assert_eq!((b.full.rounds, w.cwnd), (2, 192));
        // Nor does what the application limits count.
        let limited = Sample { app_limited: true, prior_delivered: w.delivered, ..round_sample(62) };
        b.control(&mut w, &limited);
        assert_eq!(b.full.rounds, 2);
        // 62 and three segments of two are 68; 67 and the next segment are more.
        w.in_flight = 67;
        round(&mut b, &mut w, 62);
        assert_eq!((b.mode, w.ssthresh, b.pacing_gain, b.window_gain), (Mode::Drain, 68, 88, 739));
        // 0.34 of 62 packets of 1448 bytes in 100 ms, and 1% less.
        assert_eq!(w.pacing_rate, bytes_per_second(&w, rate(62), 88));
        w.in_flight = 69;
        round(&mut b, &mut w, 62);
        assert_eq!(b.mode, Mode::Drain);
        w.in_flight = 68;
        round(&mut b, &mut w, 62);
        assert!(matches!(b.mode, Mode::ProbeRate { .. }));
        assert_eq!(b.window_gain, 512);
    }

    fn round_sample(packets: u32) -> Sample {
        Sample { acked: packets, delivered: Some(packets), interval_us: 100_000, ..Sample::default() }
    }

    #[test]
    fn the_cycle_begins_anywhere_but_where_it_drains() {
        let (w, mut b) = full();
        let mut seen = [0; 8];
        for _ in 0..7_000 {
            b.cycle(&w);
            let Mode::ProbeRate { phase, .. } = b.mode else { panic!() };
            seen[phase] += 1;
        }
        assert_eq!(seen[1], 0);
        // A seventh each: 1000, with a deviation of 29.
        assert!([0, 2, 3, 4, 5, 6, 7].iter().all(|&phase| (880..1_120).contains(&seen[phase])), "{seen:?}");
    }

    #[test]
    fn phases_last_a_round_trip_and_those_of_other_gains_until_it_shows() {
        let (mut w, mut b) = full();
        w.last_delivered = 100 * MS;
        let s = Sample { prior_in_flight: 40, ..Sample::default() };
        // More than 100 ms.
        assert!(!b.phase_is_over(&w, &s, 0));
        w.last_delivered += US;
        assert!(b.phase_is_over(&w, &s, 0));
        // 1.25: 50, six and two are 58; of which the next segment is two.
        (b.mode, b.pacing_gain) = (Mode::ProbeRate { phase: 0, since: 0 }, 320);
        let with = |prior_in_flight, losses| Sample { prior_in_flight, losses, ..Sample::default() };
        assert!(!b.phase_is_over(&w, &with(55, 0), 0));
        assert!(b.phase_is_over(&w, &with(56, 0), 0));
        assert!(b.phase_is_over(&w, &with(10, 1), 0));
        assert!(!b.phase_is_over(&w, &with(60, 0), 1_000 * MS));
        // Pacing holds the next one back for 25 ms, in which 10 packets will have left: 65 · 10 / 40.
        w.departure = w.now + 25 * MS;
        assert!(!b.phase_is_over(&w, &with(64, 0), 0));
        assert!(b.phase_is_over(&w, &with(65, 0), 0));
        // 0.75: until 46 are under way, or 100 ms.
        w.departure = 0;
        (b.mode, b.pacing_gain) = (Mode::ProbeRate { phase: 1, since: 0 }, 192);
        assert!(!b.phase_is_over(&w, &with(47, 0), 1_000 * MS));
        assert!(b.phase_is_over(&w, &with(46, 0), 1_000 * MS));
        assert!(b.phase_is_over(&w, &with(99, 0), 0));
        // From the last to the first.
        b.begin_phase(&w, 8);
        assert_eq!(b.mode, Mode::ProbeRate { phase: 0, since: w.last_delivered });
    }

    #[test]
    fn the_window_is_two_pipes_and_segments() {
        let (mut w, mut b) = full();
        // 2 · 40, three segments of two; each acknowledgement is as large as expected, and none in excess but its own.
        round(&mut b, &mut w, 40);
        assert_eq!(b.joined.most(), 40);
        b.joined = Joined::default();
        b.approach_target(&mut w, 40);
        assert_eq!(w.cwnd, 86);
        // In the first phase two more.
        b.mode = Mode::ProbeRate { phase: 0, since: 0 };
        b.approach_target(&mut w, 1);
        assert_eq!(w.cwnd, 87);
        b.approach_target(&mut w, 1);
        b.approach_target(&mut w, 1);
        assert_eq!(w.cwnd, 88);
        // What came joined is added: 7, so 87 + 6 is 93, of which the next even is 94.
        b.joined.excess = [3, 7];
        b.mode = Mode::ProbeRate { phase: 2, since: 0 };
        b.approach_target(&mut w, 9);
        assert_eq!(w.cwnd, 94);
        // But not more than 100 ms of it, 39 (in parts of 2^24, 40 · 0.1 s is rounded down).
        b.joined.excess = [3, 999];
        b.approach_target(&mut w, 999);
        assert_eq!(w.cwnd, 80 + 39 + 6 + 1);
        w.clamp = 50;
        b.set_window(&mut w, &round_sample(1));
        assert_eq!(w.cwnd, 50);
        // Nothing is known of the path.
        b.min_rtt_us = u32::MAX;
        assert_eq!(b.filling(rate(40), 512), 10);
    }

    #[test]
    fn joined_acknowledgements_are_counted_for_five_to_ten_rounds() {
        let mut w = Window { cwnd: 1_000, ..OPEN };
        let mut j = Joined::default();
        let mut add = |ms: u64, acked: u32, round_over: bool| {
            w.last_delivered = ms * MS;
            j.add(&w, acked, rate(40) + 1, round_over);
            (j.excess, j.acked)
        };
        // 40 in 100 ms are expected. Ten at once are ten in excess.
        assert_eq!(add(0, 10, false), ([10, 0], 10));
        // 4 are expected by now, and there are 15.
        assert_eq!(add(10, 5, false), ([11, 0], 15));
        // 16 are expected, which had come not: from the beginning.
        assert_eq!(add(40, 8, false), ([11, 0], 8));
        // The fifth round begins the other half.
        for _ in 0..4 {
            add(400, 1, true);
        }
        assert_eq!(add(500, 3, true).0, [11, 3]);
        for _ in 0..4 {
            add(600, 1, true);
        }
        assert_eq!(add(700, 1, true).0[0], 1);
    }

    #[test]
    fn what_the_application_limits_counts_only_as_more() {
        let (mut w, mut b) = full();
        let limited = |packets| Sample { app_limited: true, ..round_sample(packets) };
        b.control(&mut w, &limited(30));
        assert_eq!(b.fastest.get(), rate(40));
        b.control(&mut w, &limited(60));
        assert_eq!(b.fastest.get(), rate(60));
        // No measurement.
        b.control(&mut w, &Sample { interval_us: 0, ..round_sample(99) });
        b.control(&mut w, &Sample { delivered: None, ..round_sample(99) });
        assert_eq!(b.fastest.get(), rate(60));
    }

    #[test]
    fn a_recovery_sends_what_arrives_and_then_goes_back() {
        let (mut w, mut b) = full();
        w.cwnd = 86;
        assert_eq!((b.ssthresh(&w), b.saved), (u32::MAX, 86));
        // Three are lost, two have arrived, 40 are under way: as many as before.
        (w.state, w.in_flight) = (Standing::Recovery, 40);
        let s = |acked, losses, prior_delivered| Sample { losses, prior_delivered, ..round_sample(acked) };
        w.delivered = 100;
        b.control(&mut w, &s(2, 3, 50));
        assert_eq!((w.cwnd, b.conserving, b.round_end), (42, true, 100));
        // One more is lost: 41, but 39 and 3 are 42.
        w.in_flight = 39;
        b.control(&mut w, &s(3, 1, 60));
        assert_eq!((w.cwnd, b.conserving), (42, true));
        // A round later, the window grows by what arrives.
        b.joined = Joined::default();
        b.control(&mut w, &s(4, 0, 100));
        assert_eq!((w.cwnd, b.conserving), (46, false));
        // What is lost during it does not make a larger window forgotten.
        b.ssthresh(&w);
        assert_eq!(b.saved, 86);
        w.state = Standing::Open;
        b.control(&mut w, &s(1, 0, 100));
        assert!(w.cwnd >= 86, "{}", w.cwnd);
        // A timeout: the stack leaves one, and it grows again.
        b.on_state(&mut w, Standing::Loss);
        assert_eq!((b.stood, b.full.rate), (Standing::Loss, 0));
        (w.state, w.cwnd, w.in_flight) = (Standing::Loss, 1, 0);
        b.control(&mut w, &s(1, 0, 50));
        assert_eq!(w.cwnd, LEAST_WINDOW);
        (b.full.rate, b.full.rounds) = (7, 2);
        assert_eq!((b.undo(&w), b.full.rate, b.full.rounds), (4, 0, 0));
    }

    #[test]
    fn after_ten_seconds_the_window_is_small_for_a_fifth() {
        let (mut w, mut b) = full();
        w.in_flight = 40;
        let slow = |prior_delivered| Sample { rtt_us: Some(101_000), prior_delivered, ..round_sample(1) };
        w.now = 10_000 * MS;
        b.control(&mut w, &slow(0));
        assert!(matches!(b.mode, Mode::ProbeRate { .. }));
        let cwnd = w.cwnd;
        (w.now, w.delivered) = (10_001 * MS, 500);
        b.control(&mut w, &slow(0));
        // What is old makes way even for more; the window is noted.
        assert_eq!((b.min_rtt_us, b.saved, w.cwnd), (101_000, cwnd, 4));
        assert_eq!((b.mode, w.app_limited), (Mode::ProbeRtt { until: None, round_over: false }, 540));
        assert_eq!((b.pacing_gain, b.window_gain), (256, 256));
        // 200 ms from when four are under way, and a round.
        (w.now, w.in_flight) = (10_100 * MS, 4);
        b.control(&mut w, &slow(0));
        assert_eq!((b.mode, b.round_end), (Mode::ProbeRtt { until: Some(10_300), round_over: false }, 500));
        w.now = 10_301 * MS;
        b.control(&mut w, &slow(499));
        assert!(matches!(b.mode, Mode::ProbeRtt { .. }));
        w.now = 10_300 * MS;
        b.control(&mut w, &slow(500));
        assert_eq!(b.mode, Mode::ProbeRtt { until: Some(10_300), round_over: true });
        w.now = 10_301 * MS;
        b.control(&mut w, &slow(500));
        assert!(matches!(b.mode, Mode::ProbeRate { .. }));
        assert_eq!((w.cwnd >= cwnd, b.min_rtt_jiffy), (true, 10_301));
        // Nor does a delayed acknowledgement replace what is old, nor is there a probe right after an idle time.
        w.now = 20_400 * MS;
        b.restarted = true;
        b.control(&mut w, &Sample { rtt_us: Some(150_000), delayed: true, ..round_sample(1) });
        assert_eq!((b.min_rtt_us, b.restarted), (101_000, false));
        assert!(matches!(b.mode, Mode::ProbeRate { .. }));
        // Less is always taken.
        b.control(&mut w, &Sample { rtt_us: Some(90_000), delayed: true, ..round_sample(1) });
        assert_eq!((b.min_rtt_us, b.min_rtt_jiffy), (90_000, 20_400));
    }

    #[test]
    fn after_an_idle_time_it_sends_at_the_rate_it_knows() {
        let (mut w, mut b) = full();
        b.mode = Mode::ProbeRate { phase: 0, since: 0 };
        w.pacing_rate = 1;
        b.on_event(&mut w, Event::Start);
        assert_eq!((w.pacing_rate, b.restarted), (1, false));
        // 6710 · 1448 · 990000 / 2^24 = 573332.
        (w.app_limited, w.now) = (7, 5 * MS);
        b.on_event(&mut w, Event::Start);
        assert_eq!((w.pacing_rate, b.restarted, b.joined.since), (573_332, true, 5 * MS));
        // A probe may have ended meanwhile.
        b.mode = Mode::ProbeRtt { until: Some(4), round_over: false };
        (w.cwnd, b.saved) = (4, 86);
        b.on_event(&mut w, Event::Start);
        assert_eq!((w.cwnd, matches!(b.mode, Mode::ProbeRate { .. })), (86, true));
    }

    #[test]
    fn two_lossy_intervals_of_the_same_rate_are_a_policers() {
        let (mut w, mut b) = full();
        // 20 packets a round arrive and 5 are lost, a fifth of 100 and more than 50/256 of 80.
        let mut lossy = |b: &mut State, arrive: u32, losses: u32| {
            w.now += 100 * MS;
            w.last_delivered = w.now;
            let s = Sample { losses, prior_delivered: w.delivered, ..round_sample(arrive) };
            w.delivered += u64::from(arrive);
            w.lost += u64::from(losses);
            b.control(&mut w, &s);
        };
        // The first loss begins an interval, and that round counts for it.
        lossy(&mut b, 20, 5);
        assert_eq!((b.policer.watching, b.policer.rounds, b.policer.rate), (true, 1, 0));
        lossy(&mut b, 20, 5);
        lossy(&mut b, 20, 5);
        assert_eq!(b.policer.rate, 0);
        // The fourth: 60 packets have arrived in 300 ms.
        lossy(&mut b, 20, 5);
        assert_eq!((b.policer.rate, b.policer.found, b.policer.rounds), (rate(20), false, 0));
        for _ in 0..3 {
            lossy(&mut b, 22, 6);
        }
        assert!(!b.policer.found);
        // 88 in 400 ms are a tenth more, which is less than an eighth.
        lossy(&mut b, 22, 6);
        assert_eq!((b.policer.found, b.rate()), (true, (rate(20) + rate(22)) / 2));
        assert_eq!(b.pacing_gain, ONE);
        // 48 rounds later it is no longer believed.
        for _ in 0..47 {
            lossy(&mut b, 22, 6);
        }
        assert!(b.policer.found);
        lossy(&mut b, 22, 0);
        assert_eq!((b.policer.found, b.policer.watching), (false, false));
        assert_eq!(b.rate(), b.fastest.get());
    }

    #[test]
    fn an_interval_ends_without_a_policer() {
        let w = Window { last_delivered: 1_000 * MS, delivered: 1_000, lost: 50, ..OPEN };
        let watching = |rounds| Policer { watching: true, rounds, ..Policer::new(&WINDOW) };
        let with = |losses| Sample { losses, ..round_sample(10) };
        // 50 of 1000 are too few: 50 · 256 < 50 · 1000.
        assert_eq!(watching(5).interval(&w, &with(1), false), None);
        let w = Window { lost: 196, ..w };
        assert_eq!(watching(5).interval(&w, &with(1), false), Some(rate(100)));
        // It ends with a loss,
        assert_eq!(watching(5).interval(&w, &with(0), true), None);
        // takes at least four rounds, at most sixteen,
        assert_eq!(watching(2).interval(&w, &with(1), true), None);
        let mut p = watching(16);
        assert_eq!((p.interval(&w, &with(1), true), p.watching), (None, false));
        // and an application that always has something to send.
        let mut p = watching(5);
        assert_eq!((p.interval(&w, &Sample { app_limited: true, ..with(1) }, true), p.watching), (None, false));
        // Rates an eighth apart are one, and such as are less than 4 kb/s apart.
        let found = |last, rate| {
            let mut p = Policer { rate: last, ..watching(5) };
            p.compare(&w, rate);
            p.found
        };
        assert_eq!((found(8_000, 9_000), found(8_000, 9_001), found(8_000, 7_000)), (true, false, true));
        // 5 · 1448 · 0.99 · 10^6 / 2^24 = 427 bytes per second; 6 are 512.
        assert_eq!((found(10, 15), found(10, 16)), (true, false));
    }

    #[test]
    fn on_a_pipe_it_finds_the_rate_and_holds_two_of_it_at_most() {
        // 1 packet each ms, 100 ms there and back: 101 packets fill it.
        for draw in 0..5 {
            let mut pipe = Pipe::new(1_000, 100_000);
            let mut b = State::new(&Config {}, &mut pipe.w, draw << 40);
            pipe.run(&mut b, 3_000_000);
            let found = f64::from(b.rate()) / RATE_ONE as f64 * 1_000.0;
            assert!((0.99..1.25).contains(&found), "{found} times the rate");
            assert_eq!(b.min_rtt_us, 101_000);
            let (mut most, before) = (0, pipe.w.delivered);
            for _ in 0..1_000 {
                pipe.run(&mut b, 5_000);
                most = most.max(pipe.w.in_flight);
            }
            assert!(pipe.w.delivered - before > 4_800, "{} of 5000", pipe.w.delivered - before);
            assert!(most <= 202, "{most} packets under way");
            // It was measured in the first round trip and is again after ten seconds.
            pipe.run(&mut b, 4_000_000);
            assert!(b.min_rtt_jiffy > 10_000, "{}", b.min_rtt_jiffy);
        }
    }
}
