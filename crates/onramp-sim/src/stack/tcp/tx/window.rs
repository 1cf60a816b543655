//! How much may be under way and how fast it leaves, as far as the controller does not say so itself.

use super::ack::Found;
use super::{Tx, tick};
use crate::cc::tcp::{Event, Sample, State};
use crate::stack::tcp::Params;

impl Tx {
    pub(super) fn restart(&mut self, p: &Params, idle_us: u64) {
        self.event(Event::Restart);
        self.window.ssthresh = self.window.current_ssthresh();
        let floor = p.initial_window.min(self.window.cwnd);
        let mut left = idle_us as i64 - self.rto_us as i64;
        while left > 0 && self.window.cwnd > floor {
            self.window.cwnd >>= 1;
            left -= self.rto_us as i64;
        }
        self.window.cwnd = self.window.cwnd.max(floor);
        self.cwnd_tick = tick(self.window.now);
        self.cwnd_used = 0;
    }

    pub(super) fn control(&mut self, p: &Params, ack: u64, sample: &Sample, found: &Found) {
        self.look();
        if self.cc.control(&mut self.window, sample) {
            return;
        }
        if self.reducing() {
            self.reduce(sample, found);
        } else if found.acked {
            self.cc.grow(&mut self.window, ack, sample.acked);
            self.cwnd_tick = tick(self.window.now);
        }
        self.pace(p);
    }

    /// Proportional rate reduction (RFC 6937).
    pub(super) fn reduce(&mut self, sample: &Sample, found: &Found) {
        if sample.acked == 0 {
            return;
        }
        self.prr_delivered += sample.acked;
        let (ssthresh, in_flight) = (self.window.ssthresh, self.in_flight());
        let sent = if ssthresh < in_flight {
            let share = u64::from(ssthresh) * u64::from(self.prr_delivered);
            share.div_ceil(u64::from(self.window.prior_cwnd.max(1))) as i64 - i64::from(self.prr_out)
        } else {
            let mut room = (i64::from(self.prr_delivered) - i64::from(self.prr_out)).max(i64::from(sample.acked));
            if found.advanced && sample.losses == 0 {
                room += 1;
            }
            room.min(i64::from(ssthresh - in_flight))
        };
        let sent = sent.max(i64::from(self.prr_out == 0));
        self.window.cwnd = (i64::from(in_flight) + sent).max(0) as u32;
    }

    /// The rate at which the host's queue would pace the window.
    pub(super) fn pace(&mut self, p: &Params) {
        if self.cc.steers() {
            return;
        }
        let w = &mut self.window;
        let ratio = p.pacing_ratios[usize::from(w.cwnd >= w.ssthresh / 2)];
        let bytes = u64::from(p.mss) * u64::from(w.cwnd.max(self.packets_out));
        // Per cent, and eighths of a microsecond.
        w.pacing_rate = (u128::from(bytes) * u128::from(ratio) * 80_000 / u128::from(self.rtt.srtt8.max(1))) as u64;
    }

    /// Notes whether the window was used (RFC 7661).
    pub(super) fn validate(&mut self, p: &Params, limited: bool) {
        let w = &mut self.window;
        if self.una >= self.usage_end || limited || !w.cwnd_limited && self.packets_out > w.max_packets_out {
            w.cwnd_limited = limited;
            w.max_packets_out = self.packets_out;
            self.usage_end = self.nxt;
        }
        if w.is_limited() {
            self.cwnd_used = 0;
            self.cwnd_tick = tick(w.now);
            return;
        }
        self.cwnd_used = self.cwnd_used.max(self.packets_out);
        let unused = (tick(w.now) - self.cwnd_tick) * 1000;
        if p.slow_start_after_idle && unused >= self.rto_us && !self.cc.steers() {
            if self.window.state == State::Open {
                let used = self.cwnd_used.max(p.initial_window);
                if used < self.window.cwnd {
                    self.window.ssthresh = self.window.current_ssthresh();
                    self.window.cwnd = (self.window.cwnd + used) >> 1;
                }
                self.cwnd_used = 0;
            }
            self.cwnd_tick = tick(self.window.now);
        }
    }
}
