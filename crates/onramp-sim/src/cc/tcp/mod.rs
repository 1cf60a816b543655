//! Congestion control of TCP: one file each, behind a trait cut where Linux cuts it.
//!
//! The stack finds losses, shrinks the window while it recovers (RFC 6937) and undoes
//! what was a mistake; a controller says how the window grows and how deep it is cut. Those that
//! steer by a model of the path take all of it over ([`Controller::control`]).

pub mod any;
pub mod bbr;
pub mod cubic;
pub mod custom;
pub mod dctcp;
pub mod newreno;
pub mod vegas;

use super::Settings;
use crate::network::config::EcnDefault;
use crate::network::feedback;
use onramp_config::Rule;
use onramp_config::units::{Bytes, MS, Ps, Rate, US};
use std::fmt::Debug;

/// The kernel's clock for what need not be exact; the cluster's kernels tick 1000 times a second.
pub const JIFFY: Ps = MS;

/// Most bytes in a segment that TCP hands down: 64 KiB less room for headers.
pub const MAX_SEGMENT: u64 = 65_215;

/// Where a connection stands between losses, as Linux has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Nothing is wrong.
    #[default]
    Open,
    /// Duplicate or selective acknowledgements have come.
    Disorder,
    /// The window is being reduced because of a mark, nothing was lost.
    Cwr,
    /// Losses are being repaired.
    Recovery,
    /// The retransmission timeout has passed.
    Loss,
}

/// Events of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A packet is about to leave, and none is under way.
    Start,
    /// The window was reset after a time without packets.
    Restart,
    /// A reduction of the window is complete.
    Reduced,
    /// A retransmission timeout for which [`Controller::ssthresh`] was just asked; the window is still that before it.
    Timeout,
}

/// A connection as its controller sees it, with the fields that it may set. Windows are in packets of `mss` bytes.
#[derive(Clone, Debug)]
pub struct Window {
    /// Time in picoseconds.
    pub now: Ps,
    /// Bytes of payload of a full packet.
    pub mss: u32,
    /// Packets that may be under way.
    pub cwnd: u32,
    /// Packets acknowledged since the window last grew by one.
    pub credit: u32,
    /// Slow start ends here.
    pub ssthresh: u32,
    /// Largest window.
    pub clamp: u32,
    /// The window before the last reduction.
    pub prior_cwnd: u32,
    /// Packets under way: sent, and neither acknowledged nor lost.
    pub in_flight: u32,
    /// Packets delivered so far, and those of them that were marked.
    pub delivered: u64,
    /// See `delivered`.
    pub delivered_ce: u64,
    /// Packets lost so far.
    pub lost: u64,
    /// First byte that is not acknowledged.
    pub snd_una: u64,
    /// Next byte to be sent.
    pub snd_nxt: u64,
    /// Smoothed round-trip time, in eighths of a microsecond; 0 before the first sample.
    pub srtt8_us: u32,
    /// Least round-trip time of the last five minutes in microseconds; [`u32::MAX`] before the first sample.
    pub min_rtt_us: u32,
    /// The window, and not the application, has limited what was sent.
    pub cwnd_limited: bool,
    /// Where it stands.
    pub state: State,
    /// Bytes per second at which packets leave where something paces them.
    pub pacing_rate: u64,
    /// Something paces them.
    pub paced: bool,
    /// When pacing lets the next packet leave; before `now` if at once.
    pub departure: Ps,
    /// When the last packet with data left.
    pub last_sent: Ps,
    /// When a packet was last delivered, or sent with no other outstanding.
    pub last_delivered: Ps,
    /// Most packets that were under way in the last window.
    pub max_packets_out: u32,
    /// The application has had nothing to send for lack of data, up to this many delivered packets; 0: it has.
    pub app_limited: u64,
}

/// Measurements of the path by the acknowledgement that has just come.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Round-trip time of the latest packet sent that this acknowledges, in microseconds; none if it was sent twice.
    pub rtt_us: Option<u32>,
    /// Packets newly acknowledged, selectively or not.
    pub acked: u32,
    /// Packets newly found lost.
    pub losses: u32,
    /// Packets that were under way before this acknowledgement.
    pub prior_in_flight: u32,
    /// Packets delivered in `interval_us`; `None` if there is no valid measurement.
    pub delivered: Option<u32>,
    /// Longer of the time it took to send and to acknowledge them, in microseconds; 0 if that is less than
    /// [`Window::min_rtt_us`], and so says nothing of the rate.
    pub interval_us: u32,
    /// `Window::delivered` when the packet was sent that this acknowledges.
    pub prior_delivered: u64,
    /// The application limited what was sent then.
    pub app_limited: bool,
    /// It carried an echo of a congestion mark.
    pub ece: bool,
    /// It acknowledges more than any before.
    pub advanced: bool,
    /// It may be the answer to a packet whose acknowledgement its receiver delayed.
    pub delayed: bool,
}

/// A controller that is made of parameters.
pub trait FromConfig: Sized {
    /// Its parameters.
    type Config;
    /// Controller of a connection that is now open; `draw` is random.
    fn new(config: &Self::Config, w: &mut Window, draw: u64) -> Self;
}

/// How a connection's window follows what comes back. All defaults are Reno's (RFC 5681).
pub trait Controller: Debug + Send + Sync {
    /// The window to which a loss cuts it.
    fn ssthresh(&mut self, w: &Window) -> u32 {
        (w.cwnd >> 1).max(2)
    }
    /// `acked` packets were acknowledged, up to byte `ack`, and the window may grow.
    fn grow(&mut self, w: &mut Window, _ack: u64, acked: u32) {
        w.reno(acked);
    }
    /// Every acknowledgement, before anything else is done about it.
    fn on_ack(&mut self, _w: &mut Window, _sample: &Sample) {}
    /// Every acknowledgement of something new, before losses are looked for.
    fn sampled(&mut self, _w: &mut Window, _sample: &Sample) {}
    /// The reduction was a mistake: the window to go back to.
    fn undo(&mut self, w: &Window) -> u32 {
        w.cwnd.max(w.prior_cwnd)
    }
    /// The connection goes over to another state; `w.state` is still the old one.
    fn on_state(&mut self, _w: &mut Window, _new: State) {}
    /// Something has happened.
    fn on_event(&mut self, _w: &mut Window, _event: Event) {}
    /// True if it sets window and pacing rate itself ([`Controller::control`]).
    fn steers(&self) -> bool {
        false
    }
    /// Sets window and pacing rate after an acknowledgement. False: [`Controller::grow`] and
    /// the stack do.
    fn control(&mut self, _w: &mut Window, _sample: &Sample) -> bool {
        false
    }
    /// Least packets in a segment that the stack hands down, where it is not the stack's default of two.
    fn least_segment(&self, _w: &Window) -> Option<u32> {
        None
    }
    /// Its packets have to be paced, by the host's queue or by the stack.
    fn wants_pacing(&self) -> bool {
        false
    }
}

impl Window {
    /// True if the window is below the slow-start threshold.
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// True if there is room or need for a larger window (RFC 7661 §4.1).
    pub fn is_limited(&self) -> bool {
        // In slow start the window may be twice what was used.
        self.cwnd_limited || self.in_slow_start() && self.cwnd < 2 * self.max_packets_out
    }

    /// Slow start: the window grows by what was acknowledged; what is left of that beyond its end comes back.
    pub fn slow_start(&mut self, acked: u32) -> u32 {
        let cwnd = (self.cwnd + acked).min(self.ssthresh);
        let left = acked - (cwnd - self.cwnd);
        self.cwnd = cwnd.min(self.clamp);
        left
    }

    /// Congestion avoidance: the window grows by one for every `every` packets acknowledged.
    pub fn avoid(&mut self, every: u32, acked: u32) {
        let every = every.max(1);
        // The window has shrunk meanwhile: what was counted for the larger one grows it once.
        if self.credit >= every {
            self.credit = 0;
            self.cwnd += 1;
        }
        self.credit += acked;
        if self.credit >= every {
            let more = self.credit / every;
            self.credit -= more * every;
            self.cwnd += more;
        }
        self.cwnd = self.cwnd.min(self.clamp);
    }

    /// Reno's growth.
    pub fn reno(&mut self, acked: u32) {
        if !self.is_limited() {
            return;
        }
        let mut acked = acked;
        if self.in_slow_start() {
            acked = self.slow_start(acked);
            if acked == 0 {
                return;
            }
        }
        self.avoid(self.cwnd, acked);
    }

    /// Where slow start would end if the window were to shrink now for want of use.
    pub fn current_ssthresh(&self) -> u32 {
        match self.state {
            State::Cwr | State::Recovery => self.ssthresh,
            _ => self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2)),
        }
    }

    /// Time in jiffies.
    pub fn jiffies(&self) -> u64 {
        self.now / JIFFY
    }

    /// Time in microseconds, as the kernel's TCP has it.
    pub fn now_us(&self) -> u64 {
        self.now / US
    }
}

macro_rules! settings {
    ($($module:ident $marks:literal,)+) => {
        $(impl Settings for $module::Config {
            fn check(&self, rule: Rule<'_>) {
                $module::Config::check(self, rule);
            }

            fn min_rate(&self) -> Rate {
                Rate(0)
            }

            fn feedback(&self) -> feedback::Kind {
                feedback::Kind::Tcp
            }

            fn ecn_defaults(&self) -> Option<EcnDefault> {
                $marks.then_some(MARKS)
            }
        })+
    };
}

/// DCTCP's marking threshold as it was published: 65 packets at 10 Gb/s.
const MARKS: EcnDefault =
    EcnDefault { rate: Rate(10_000_000_000), kmin: Bytes(65 * 1500), kmax: Bytes(65 * 1500), pmax: 1.0 };

settings! {
    newreno false,
    cubic false,
    bbr false,
    vegas false,
    dctcp true,
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::SEC;
    use std::collections::VecDeque;

    /// A connection that has just opened.
    pub(super) const WINDOW: Window = Window {
        now: 0,
        mss: 1448,
        cwnd: 10,
        credit: 0,
        ssthresh: u32::MAX,
        clamp: u32::MAX,
        prior_cwnd: 0,
        in_flight: 0,
        delivered: 0,
        delivered_ce: 0,
        lost: 0,
        snd_una: 0,
        snd_nxt: 0,
        srtt8_us: 0,
        min_rtt_us: u32::MAX,
        cwnd_limited: false,
        max_packets_out: 0,
        state: State::Open,
        pacing_rate: u64::MAX,
        paced: false,
        departure: 0,
        last_sent: 0,
        last_delivered: 0,
        app_limited: 0,
    };

    /// A connection over a path that passes a packet every so often, loses none, and takes as long again to come back.
    pub(super) struct Pipe {
        pub w: Window,
        slot: Ps,
        rtt: Ps,
        free: Ps,
        first_sent: Ps,
        /// For each packet when its acknowledgement comes and when it left, and what was then delivered, when, and
        /// when the first left of those acknowledged last.
        under_way: VecDeque<(Ps, Ps, u64, Ps, Ps)>,
    }

    impl Pipe {
        pub fn new(slot_us: u64, rtt_us: u64) -> Self {
            let (slot, rtt) = (slot_us * US, rtt_us * US);
            Self { w: WINDOW, slot, rtt, free: 0, first_sent: 0, under_way: VecDeque::new() }
        }

        /// Packets before the slow link.
        pub fn waiting(&self) -> usize {
            self.free.saturating_sub(self.w.now).div_ceil(self.slot) as usize
        }

        pub fn run<C: Controller>(&mut self, c: &mut C, us: u64) {
            let end = self.w.now + us * US;
            loop {
                while self.w.in_flight < self.w.cwnd && self.w.departure <= self.w.now {
                    self.send(c);
                }
                let room = self.w.in_flight < self.w.cwnd;
                self.w.cwnd_limited = !room;
                let ack = self.under_way.front().map_or(Ps::MAX, |packet| packet.0);
                let next = ack.min(if room { self.w.departure } else { Ps::MAX });
                self.w.now = next.min(end);
                if next > end {
                    return;
                }
                if next == ack {
                    self.acknowledge(c);
                }
            }
        }

        fn send<C: Controller>(&mut self, c: &mut C) {
            let w = &mut self.w;
            if self.under_way.is_empty() {
                c.on_event(w, Event::Start);
                (self.first_sent, w.last_delivered) = (w.now, w.now);
            }
            self.free = self.free.max(w.now) + self.slot;
            self.under_way.push_back((self.free + self.rtt, w.now, w.delivered, w.last_delivered, self.first_sent));
            w.in_flight += 1;
            w.max_packets_out = w.in_flight;
            w.snd_nxt += u64::from(w.mss);
            w.last_sent = w.now;
            if c.wants_pacing() {
                w.departure = w.departure.max(w.now) + u64::from(w.mss) * SEC / w.pacing_rate;
            }
        }

        fn acknowledge<C: Controller>(&mut self, c: &mut C) {
            let (_, sent, delivered, delivered_at, first_sent) = self.under_way.pop_front().unwrap();
            let w = &mut self.w;
            let rtt = ((w.now - sent) / US) as u32;
            w.snd_una += u64::from(w.mss);
            w.delivered += 1;
            w.last_delivered = w.now;
            w.in_flight -= 1;
            w.min_rtt_us = w.min_rtt_us.min(rtt);
            w.srtt8_us = 8 * rtt;
            self.first_sent = sent;
            let sample = Sample {
                rtt_us: Some(rtt),
                acked: 1,
                prior_in_flight: w.in_flight + 1,
                delivered: Some((w.delivered - delivered) as u32),
                interval_us: ((sent - first_sent).max(w.now - delivered_at) / US) as u32,
                prior_delivered: delivered,
                advanced: true,
                ..Sample::default()
            };
            c.sampled(w, &sample);
            c.on_ack(w, &sample);
            if !c.control(w, &sample) {
                c.grow(w, w.snd_una, 1);
            }
        }
    }

    #[test]
    fn a_window_that_shrank_grows_once_for_what_was_counted() {
        let mut w = Window { credit: 30, cwnd: 10, ..WINDOW };
        w.avoid(10, 1);
        assert_eq!((w.cwnd, w.credit), (11, 1));
    }
}
