//! State, written down relative to a moment, so that two moments can be compared.
//!
//! A simulation that is twice in the same state does the same again. Every part writes what its future depends on into
//! an [`Encoder`]: each field of its struct by name, so that a new field does not compile until somebody has decided
//! about it. A part that cannot be written says why, and nothing is skipped.

use onramp_config::units::{NS, Ps};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::Rng;

/// Outputs of a random generator that stand for its state of 128 bits.
const DRAWS: usize = 3;

/// The state of a simulation at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Values that the future depends on.
    words: Vec<u64>,
    /// Those that only a mark (ECN) reads.
    if_marked: Vec<u64>,
    /// Random generators.
    draws: Vec<u64>,
}

impl State {
    /// True if both have the same future; without `marks` between them, values that only a mark reads do not count.
    pub fn repeats(&self, earlier: &Self, marks: bool) -> bool {
        let Self { words, if_marked, draws } = self;
        *words == earlier.words && *draws == earlier.draws && (!marks || *if_marked == earlier.if_marked)
    }

    /// A hash of what always counts, one of that without random generators, and one of what only a mark reads.
    pub fn digests(&self) -> [u128; 3] {
        let Self { words, if_marked, draws } = self;
        [digest(digest(0, draws), words), digest(0, words), digest(0, if_marked)]
    }
}

/// 128 bits that differ where words do, but for one case in 2^128: two lanes that multiply and fold.
fn digest(start: u128, words: &[u64]) -> u128 {
    let fold = |x: u64, by: u64| {
        let product = u128::from(x) * u128::from(by);
        (product as u64) ^ (product >> 64) as u64
    };
    let lanes = ((start >> 64) as u64, start as u64);
    let (a, b) = words.iter().fold(lanes, |(a, b), &word| {
        let a = fold(a ^ word ^ 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9).wrapping_add(word);
        let b = fold(b.rotate_left(23) ^ word ^ 0x94d0_49bb_1331_11eb, 0xd6e8_feb8_6659_fd93).wrapping_add(a);
        (a, b)
    });
    u128::from(a) << 64 | u128::from(b)
}

/// Takes down a state.
#[derive(Debug)]
pub struct Encoder {
    now: Ps,
    state: State,
    reads_ns: bool,
    busy: bool,
    refused: Option<String>,
}

impl Encoder {
    /// Times are taken down relative to `now`.
    pub fn new(now: Ps) -> Self {
        Self { now, state: State::default(), reads_ns: false, busy: false, refused: None }
    }

    /// The moment.
    pub fn now(&self) -> Ps {
        self.now
    }

    /// A number.
    #[inline]
    pub fn word(&mut self, value: impl Into<u64>) {
        self.state.words.push(value.into());
    }

    /// A floating-point number, all of its bits.
    pub fn float(&mut self, value: f64) {
        self.word(value.to_bits());
    }

    /// A point in time, before the moment or after it.
    pub fn time(&mut self, at: Ps) {
        self.word(at.wrapping_sub(self.now));
    }

    /// A time that means something only while it is to come.
    pub fn due(&mut self, at: Ps) {
        self.word(at.saturating_sub(self.now));
    }

    /// A number that means something only to a mark (ECN).
    pub fn if_marked(&mut self, value: u64) {
        self.state.if_marked.push(value);
    }

    /// A random generator.
    pub fn random(&mut self, random: &Pcg64Mcg) {
        let mut random = random.clone();
        self.state.draws.extend((0..DRAWS).map(|_| random.next_u64()));
    }

    /// Something reads times in whole nanoseconds, so that the moment's place within a nanosecond counts.
    pub fn reads_ns(&mut self) {
        self.reads_ns = true;
    }

    /// Something is under way: this is no moment to compare.
    pub fn busy(&mut self) {
        self.busy = true;
    }

    /// The state cannot be taken down, now or later.
    pub fn refuse(&mut self, reason: impl Into<String>) {
        self.refused.get_or_insert_with(|| reason.into());
    }

    /// True if nothing more needs to be taken down.
    pub fn is_over(&self) -> bool {
        self.busy || self.refused.is_some()
    }

    /// The state; `None` while something is under way.
    ///
    /// # Errors
    /// The reason why it cannot be taken down.
    pub fn finish(mut self) -> Result<Option<State>, String> {
        if let Some(reason) = self.refused {
            return Err(reason);
        }
        if self.reads_ns {
            self.state.words.push(self.now % NS);
        }
        Ok((!self.busy).then_some(self.state))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(now: Ps, take: impl Fn(&mut Encoder)) -> State {
        let mut encoder = Encoder::new(now);
        take(&mut encoder);
        encoder.finish().unwrap().unwrap()
    }

    #[test]
    fn times_are_relative_and_those_that_are_over_do_not_count() {
        let at = |now| state(now, |e| (e.time(now - 5), e.due(now + 7), e.due(now - 3)).2);
        assert_eq!(at(1_234), at(9_000));
        assert_eq!(at(1_234).digests(), at(9_000).digests());
        assert_ne!(at(1_234), state(1_234, |e| (e.time(1_230), e.due(1_241), e.due(9)).2));
    }

    #[test]
    fn the_place_in_a_nanosecond_counts_for_who_reads_nanoseconds() {
        assert_eq!(state(1_001, |e| e.word(1_u64)), state(2_002, |e| e.word(1_u64)));
        assert_ne!(state(1_001, Encoder::reads_ns), state(2_002, Encoder::reads_ns));
        assert_eq!(state(1_001, Encoder::reads_ns), state(2_001, Encoder::reads_ns));
    }

    #[test]
    fn what_a_mark_reads_counts_if_there_was_one() {
        let [one, other] = [1, 2].map(|value| state(0, |e| e.if_marked(value)));
        assert!(one.repeats(&other, false) && !one.repeats(&other, true) && one.repeats(&one, true));
        assert_eq!(one.digests()[..2], other.digests()[..2]);
        assert_ne!(one.digests()[2], other.digests()[2]);
    }

    #[test]
    fn a_generator_that_has_drawn_is_another_one() {
        let mut random = onramp_random::stream(1, "state", 0);
        let before = state(0, |e| e.random(&random));
        random.next_u32();
        let after = state(0, |e| e.random(&random));
        assert!(!after.repeats(&before, false));
        assert_eq!(after.digests()[1], before.digests()[1]);
        assert_ne!(after.digests()[0], before.digests()[0]);
    }

    #[test]
    fn who_cannot_be_taken_down_says_why() {
        let mut encoder = Encoder::new(0);
        encoder.busy();
        assert!(encoder.is_over());
        encoder.refuse("first");
        encoder.refuse("second");
        assert_eq!(encoder.finish(), Err("first".to_string()));
    }
}
