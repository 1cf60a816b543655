//! DCTCP (RFC 8257) as Linux has it: a window is cut by half the share of it that was marked.
//!
//! Marks are echoed by the receiver's stack.

use super::{Controller, Event, FromConfig, Sample, Window};
use onramp_config::Rule;
use serde::{Deserialize, Serialize};

/// Parameters: those of Linux's `tcp_dctcp`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The gain g of α is two to the power of minus this. Default 4, which is 1/16.
    pub shift_g: u32,
    /// First α, in 1024ths. Default 1024.
    pub alpha_on_init: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { shift_g: 4, alpha_on_init: ONE }
    }
}

impl Config {
    /// Its rules.
    pub fn check(&self, rule: Rule<'_>) {
        rule(self.shift_g <= SHIFT, "shift_g", format!("{} is above {SHIFT}", self.shift_g));
        rule(self.alpha_on_init <= ONE, "alpha_on_init", format!("{} is above {ONE}", self.alpha_on_init));
    }
}

/// α is in 1024ths.
const SHIFT: u32 = 10;
const ONE: u32 = 1 << SHIFT;

/// State of one connection.
#[derive(Clone, Debug)]
pub struct State {
    shift_g: u32,
    alpha: u32,
    /// A window is over when this byte is next to be acknowledged.
    end: u64,
    /// Packets delivered when it began, and those of them that were marked.
    delivered: u64,
    delivered_ce: u64,
    /// The window before the last cut.
    uncut: u32,
}

impl FromConfig for State {
    type Config = Config;

    fn new(c: &Config, w: &mut Window, _: u64) -> Self {
        Self {
            shift_g: c.shift_g,
            alpha: c.alpha_on_init,
            end: w.snd_nxt,
            delivered: w.delivered,
            delivered_ce: w.delivered_ce,
            uncut: 0,
        }
    }
}

impl Controller for State {
    fn ssthresh(&mut self, w: &Window) -> u32 {
        self.uncut = w.cwnd;
        let cut = (u64::from(w.cwnd) * u64::from(self.alpha)) >> (SHIFT + 1);
        (w.cwnd - cut as u32).max(2)
    }

    fn on_ack(&mut self, w: &mut Window, _: &Sample) {
        if w.snd_una < self.end {
            return;
        }
        let (delivered, marked) = (w.delivered - self.delivered, w.delivered_ce - self.delivered_ce);
        // Where shifting leaves nothing to take away, all goes.
        let less = self.alpha >> self.shift_g;
        self.alpha -= if less == 0 { self.alpha } else { less };
        let more = (marked << (SHIFT - self.shift_g)) / delivered.max(1);
        self.alpha = (self.alpha + more as u32).min(ONE);
        (self.end, self.delivered, self.delivered_ce) = (w.snd_nxt, w.delivered, w.delivered_ce);
    }

    fn undo(&mut self, w: &Window) -> u32 {
        w.cwnd.max(self.uncut)
    }

    /// α says nothing about losses: they halve.
    fn on_state(&mut self, w: &mut Window, new: super::State) {
        if new == super::State::Recovery && w.state != new {
            self.halve(w);
        }
    }

    fn on_event(&mut self, w: &mut Window, event: Event) {
        if event == Event::Timeout {
            self.halve(w);
        }
    }
}

impl State {
    fn halve(&mut self, w: &mut Window) {
        self.uncut = w.cwnd;
        w.ssthresh = (w.cwnd >> 1).max(2);
    }
}

#[cfg(test)]
mod tests {
    use super::super::State as Standing;
    use super::super::tests::WINDOW;
    use super::*;

    fn dctcp(alpha: u32) -> (Window, State) {
        let mut w = Window { cwnd: 100, snd_nxt: 1_000, ..WINDOW };
        let state = State::new(&Config { alpha_on_init: alpha, ..Config::default() }, &mut w, 0);
        (w, state)
    }

    /// A window of `packets` is acknowledged, `marked` of them with a mark.
    fn window(w: &mut Window, dctcp: &mut State, packets: u64, marked: u64) -> u32 {
        w.delivered += packets;
        w.delivered_ce += marked;
        w.snd_una = w.snd_nxt;
        w.snd_nxt += 1_000;
        dctcp.on_ack(w, &Sample::default());
        dctcp.alpha
    }

    #[test]
    fn alpha_follows_the_marked_share() {
        let (mut w, mut d) = dctcp(ONE);
        // 1024 − 1024/16 = 960; a quarter of 64 is 16.
        assert_eq!(window(&mut w, &mut d, 40, 10), 976);
        // 976 − 61 = 915; 3 · 64 / 40 = 4.8.
        assert_eq!(window(&mut w, &mut d, 40, 3), 919);
        // 919 − 57; nothing is marked.
        assert_eq!(window(&mut w, &mut d, 40, 0), 862);
        // 862 − 53 + 64.
        assert_eq!(window(&mut w, &mut d, 40, 40), 873);
        d.alpha = ONE;
        assert_eq!(window(&mut w, &mut d, 1, 1), ONE);
        // Below 16 a sixteenth is nothing, and all of it goes.
        d.alpha = 16;
        assert_eq!(window(&mut w, &mut d, 40, 0), 15);
        assert_eq!(window(&mut w, &mut d, 40, 0), 0);
        assert_eq!(window(&mut w, &mut d, 0, 0), 0);
    }

    #[test]
    fn alpha_changes_once_a_window() {
        let (mut w, mut d) = dctcp(512);
        (w.delivered, w.delivered_ce, w.snd_una) = (9, 9, 999);
        d.on_ack(&mut w, &Sample::default());
        assert_eq!(d.alpha, 512);
        // 512 − 32 + 10 · 64 / 10.
        (w.delivered, w.delivered_ce, w.snd_una, w.snd_nxt) = (10, 10, 1_000, 5_000);
        d.on_ack(&mut w, &Sample::default());
        assert_eq!((d.alpha, d.end), (544, 5_000));
    }

    #[test]
    fn alpha_settles_at_the_marked_share() {
        let settled = |first, marked| {
            let (mut w, mut d) = dctcp(first);
            for _ in 0..200 {
                window(&mut w, &mut d, 20, marked);
            }
            d.alpha
        };
        for (marked, share) in [(1, 0.05), (5, 0.25), (10, 0.5), (20, 1.0)] {
            // What the shift by four drops is less than 16, and so is what the division drops, times 16.
            let found = f64::from(settled(ONE, marked)) / 1024.0;
            assert!((found - share).abs() < 16.0 / 1024.0, "{found} is not {share}");
        }
        // From below, α never comes past 16 if less than a quarter is marked: 4 · 64 / 20 is 12, and all of it goes
        // again. So it is in the kernel.
        assert_eq!((settled(0, 4), settled(0, 5)), (12, 256));
    }

    #[test]
    fn marks_cut_by_half_of_alpha_and_losses_by_half() {
        let (mut w, mut d) = dctcp(256);
        // 100 − 100 · 256 / 2048 = 87.5, and what is cut is rounded down.
        assert_eq!(d.ssthresh(&w), 88);
        assert_eq!(d.undo(&Window { cwnd: 88, ..WINDOW }), 100);
        d.on_state(&mut w, Standing::Cwr);
        assert_eq!(w.ssthresh, u32::MAX);
        // A loss while the marks are still being answered: half of what is left.
        (w.cwnd, w.state) = (90, Standing::Cwr);
        d.on_state(&mut w, Standing::Recovery);
        assert_eq!((w.ssthresh, d.uncut), (45, 90));
        (w.cwnd, w.state) = (50, Standing::Recovery);
        d.on_state(&mut w, Standing::Recovery);
        assert_eq!(w.ssthresh, 45);
        // A timeout is answered by its event, which comes once a window.
        d.on_state(&mut w, Standing::Loss);
        assert_eq!(w.ssthresh, 45);
        d.on_event(&mut w, Event::Timeout);
        assert_eq!(w.ssthresh, 25);
        w.cwnd = 3;
        d.on_event(&mut w, Event::Timeout);
        assert_eq!(w.ssthresh, 2);
        d.alpha = ONE;
        assert_eq!(d.ssthresh(&w), 2);
    }
}
