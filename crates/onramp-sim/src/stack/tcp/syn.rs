//! A connection's opening: when it and its answer are sent again, and what the answer tells.

use super::{Tx, timer};
use onramp_config::units::{Ps, US};

/// The first timeout in microseconds (RFC 6298 §2.1).
const FIRST_US: u64 = 1_000_000;
/// After so many timeouts they double (`tcp_syn_linear_timeouts`): copies leave after 1, 2, 3, 4, 5, 7, 11 s,
const LINEAR: u32 = 4;
/// and so on, until there are this many (`tcp_syn_retries` besides): the last one after 67 s.
const MOST: u32 = LINEAR + 6;
/// An answer is sent again so often (`tcp_synack_retries`): after 1, 3, 7, 15, 31 s.
const MOST_ANSWERS: u32 = 5;

/// Copies of a packet of the handshake, which leave until it is answered.
#[derive(Clone, Copy, Debug)]
struct Copies {
    /// How many were sent again, how many of these at even distances, and how many at most.
    resent: u32,
    linear: u32,
    most: u32,
    deadline: Option<Ps>,
}

impl Copies {
    fn new(now: Ps, linear: u32, most: u32) -> Self {
        let mut copies = Self { resent: 0, linear, most, deadline: None };
        copies.sent(now);
        copies
    }

    /// One leaves now, for whatever reason.
    fn sent(&mut self, now: Ps) {
        self.deadline = Some(timer::fires(now, FIRST_US << self.resent.saturating_sub(self.linear)));
    }

    fn on_timer(&mut self, now: Ps) -> bool {
        if self.deadline.is_none_or(|at| at > now) {
            return false;
        }
        if self.resent == self.most {
            self.deadline = None;
            return false;
        }
        self.resent += 1;
        self.sent(now);
        true
    }
}

/// An opening that is not answered yet.
#[derive(Clone, Copy, Debug)]
pub struct Syn {
    sent: Ps,
    copies: Copies,
}

/// How a connection has opened.
#[derive(Clone, Copy, Debug)]
pub struct Opened {
    /// Round trip in microseconds.
    pub rtt_us: u32,
    /// Times that the opening was sent again,
    pub resent: u32,
    /// though the answer was to the first.
    pub needlessly: bool,
}

impl Opened {
    /// Nothing was lost.
    pub fn at_once(rtt_us: u32) -> Self {
        Self { rtt_us, resent: 0, needlessly: false }
    }

    /// More than one loss is taken for congestion: the first window is a single packet (RFC 5681 §3.1).
    pub fn is_slow(&self) -> bool {
        self.resent > 1 && !self.needlessly
    }
}

impl Syn {
    /// It is sent now.
    pub fn new(now: Ps) -> Self {
        Self { sent: now, copies: Copies::new(now, LINEAR, MOST) }
    }

    /// Times it was sent again.
    pub fn resent(&self) -> u32 {
        self.copies.resent
    }

    /// When the timer fires; `None` once it is given up.
    pub fn deadline(&self) -> Option<Ps> {
        self.copies.deadline
    }

    /// The timer may have fired: whether it is sent again now.
    pub fn on_timer(&mut self, now: Ps) -> bool {
        self.copies.on_timer(now)
    }

    /// The answer has come, and echoes a time stamp in milliseconds: that of the copy that opened the other end.
    pub fn answered(&self, now: Ps, echo_ms: u32) -> Opened {
        // Of several copies only time stamps tell which one it was.
        let rtt_us = match self.resent() {
            0 => (now - self.sent) / US,
            _ => u64::from(Tx::stamp_ms(now).wrapping_sub(echo_ms).max(1)) * 1000,
        };
        Opened { rtt_us: rtt_us as u32, resent: self.resent(), needlessly: echo_ms == Tx::stamp_ms(self.sent) }
    }
}

/// The answer to an opening, which is not acknowledged yet. The end that answers has a timer of its own, so that a lost
/// answer is replaced half a round trip before the opening's next copy would bring one.
#[derive(Clone, Copy, Debug)]
pub struct Answer(Copies);

impl Answer {
    /// It is sent now.
    pub fn new(now: Ps) -> Self {
        Self(Copies::new(now, 0, MOST_ANSWERS))
    }

    /// It is sent again for another copy of the opening.
    pub fn again(&mut self, now: Ps) {
        self.0.sent(now);
    }

    /// When the timer fires; `None` once it is given up.
    pub fn deadline(&self) -> Option<Ps> {
        self.0.deadline
    }

    /// The timer may have fired: whether it is sent again now.
    pub fn on_timer(&mut self, now: Ps) -> bool {
        self.0.on_timer(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::{MS, SEC};

    #[test]
    fn a_lost_opening_is_sent_again_each_second_and_then_ever_later_until_it_is_given_up() {
        let mut syn = Syn::new(0);
        let mut at = 0;
        for seconds in [1, 1, 1, 1, 1, 2, 4, 8, 16, 32] {
            let last = std::mem::replace(&mut at, syn.deadline().expect("it is not given up"));
            assert!(!syn.on_timer(at - 1) && syn.on_timer(at));
            // The timer is exact to an eighth.
            let span = seconds * SEC..=seconds * SEC * 9 / 8;
            assert!(span.contains(&(at - last)), "{} ms for {seconds} s", (at - last) / MS);
        }
        let at = syn.deadline().expect("the last copy may be answered");
        assert!(!syn.on_timer(at) && syn.deadline().is_none() && syn.resent() == 10);
    }

    #[test]
    fn an_answer_is_sent_again_ever_later_until_it_is_given_up() {
        let mut answer = Answer::new(0);
        let mut at = 0;
        for seconds in [1, 2, 4, 8, 16] {
            let last = std::mem::replace(&mut at, answer.deadline().expect("it is not given up"));
            assert!(!answer.on_timer(at - 1) && answer.on_timer(at));
            assert!((seconds * SEC..=seconds * SEC * 9 / 8).contains(&(at - last)), "{seconds} s");
        }
        let at = answer.deadline().expect("the last may be acknowledged");
        assert!(!answer.on_timer(at) && answer.deadline().is_none());
    }

    #[test]
    fn the_round_trip_is_that_of_the_copy_that_was_answered() {
        let mut syn = Syn::new(5 * MS);
        let opened = syn.answered(5 * MS + 123 * US, 5);
        assert_eq!((opened.rtt_us, opened.resent, opened.is_slow()), (123, 0, false));
        for copies in 1..=2 {
            let at = syn.deadline().expect("it is not given up");
            assert!(syn.on_timer(at));
            let now = at + 100 * US;
            let opened = syn.answered(now, Tx::stamp_ms(at));
            // Time stamps are in milliseconds, and no round trip takes none.
            assert_eq!((opened.rtt_us, opened.resent, opened.is_slow()), (1000, copies, copies > 1));
            let late = syn.answered(now, 5);
            assert_eq!((u64::from(late.rtt_us), late.is_slow()), (now / MS * 1000 - 5000, false));
        }
    }
}
