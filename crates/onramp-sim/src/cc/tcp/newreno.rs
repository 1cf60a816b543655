//! Reno as Linux has it: RFC 5681 with counting in packets; recovery, which makes it NewReno
//! (RFC 6582) and more, is the stack's.

use super::{Controller, FromConfig, Window};
use onramp_config::Rule;
use serde::{Deserialize, Serialize};

/// It has no parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {}

impl Config {
    /// There is nothing to check.
    pub fn check(&self, _: Rule<'_>) {}
}

/// Nothing but the window itself.
#[derive(Clone, Debug)]
pub struct State;

impl FromConfig for State {
    type Config = Config;

    fn new(_: &Config, _: &mut Window, _: u64) -> Self {
        Self
    }
}

impl Controller for State {}

#[cfg(test)]
mod tests {
    use super::super::tests::WINDOW;
    use super::*;

    #[test]
    fn the_window_doubles_and_then_grows_by_one_a_round_trip() {
        let (mut w, mut reno) = (Window { cwnd: 10, ssthresh: 24, cwnd_limited: true, ..WINDOW }, State);
        reno.grow(&mut w, 0, 10);
        assert_eq!(w.cwnd, 20);
        // 4 more end slow start; 6 count for the next packet, which 24 make.
        reno.grow(&mut w, 0, 10);
        assert_eq!((w.cwnd, w.credit), (24, 6));
        reno.grow(&mut w, 0, 18);
        assert_eq!((w.cwnd, w.credit), (25, 0));
        // What is not used does not grow.
        w.cwnd_limited = false;
        reno.grow(&mut w, 0, 25);
        assert_eq!((w.cwnd, w.credit), (25, 0));
    }

    #[test]
    fn a_loss_halves_it_and_a_mistake_gives_it_back() {
        let (w, mut reno) = (Window { cwnd: 21, prior_cwnd: 21, ..WINDOW }, State);
        assert_eq!(reno.ssthresh(&w), 10);
        assert_eq!(reno.ssthresh(&Window { cwnd: 3, ..WINDOW }), 2);
        assert_eq!(reno.undo(&Window { cwnd: 10, prior_cwnd: 21, ..WINDOW }), 21);
    }
}
