//! Recycled entropy packet spraying (Bonato et al., *REPS: Recycled Entropy Packet Spraying for Adaptive Load Balancing
//! and Failure Mitigation*, 2024): a value whose packet was acknowledged without a mark is used again, once; without
//! such a value the next one is random. After a timeout, which may be a failed link, a flow freezes: it goes round in
//! the values that have worked, used or not, and explores none.

use super::spray::common;
use onramp_config::Rule;
use onramp_config::units::{Ps, Span, US};
use onramp_workload::state::Encoder;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Recycled entropy values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Values a flow remembers. Default 8, the authors'.
    pub cache: u32,
    /// Time a flow explores no new values after a timeout. Default 1 ms.
    pub freeze: Span,
    /// Values of a flow to explore, a power of two. Default 65536, which is all.
    #[serde(skip_serializing_if = "super::are_all")]
    pub values: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { cache: 8, freeze: Span(1000 * US), values: super::ALL }
    }
}

impl Config {
    pub(super) fn check(&self, rule: Rule<'_>) {
        let cache = self.cache;
        rule((1..=64).contains(&cache), "entropy.cache", format!("{cache} is outside 1 to 64"));
    }
}

/// Values that have worked, in a ring.
#[derive(Clone, Debug)]
pub struct Reps {
    random: Pcg64Mcg,
    /// Values to explore: so many, with these bits in common.
    all: u32,
    common: u16,
    values: Vec<u16>,
    most: usize,
    /// Place of the next value.
    head: usize,
    /// The last so many values before `head` have not been used again.
    fresh: usize,
    freeze: Ps,
    frozen_until: Ps,
    frozen: bool,
}

impl Reps {
    pub(super) fn new(config: &Config, mut random: Pcg64Mcg) -> Self {
        let most = config.cache as usize;
        let common = if config.values < super::ALL { common(&mut random, config.values) } else { 0 };
        Self {
            random,
            all: config.values,
            common,
            values: Vec::new(),
            most,
            head: 0,
            fresh: 0,
            freeze: config.freeze.0,
            frozen_until: 0,
            frozen: false,
        }
    }

    pub(super) fn next(&mut self) -> u16 {
        let known = self.values.len();
        if known == 0 || self.fresh == 0 && !self.frozen {
            return self.common | onramp_random::below(&mut self.random, self.all) as u16;
        }
        if self.fresh > 0 {
            let value = self.values[(self.head + known - self.fresh) % known];
            self.fresh -= 1;
            return value;
        }
        let value = self.values[self.head % known];
        self.head = (self.head + 1) % known;
        value
    }

    pub(super) fn acknowledged(&mut self, value: u16, marked: bool, now: Ps) {
        self.frozen &= now < self.frozen_until;
        if marked {
            return;
        }
        if self.values.len() < self.most {
            // While the ring grows its head is its end.
            self.values.push(value);
            self.head = 0;
        } else {
            self.values[self.head] = value;
            self.head = (self.head + 1) % self.most;
        }
        self.fresh = (self.fresh + 1).min(self.values.len());
    }

    pub(super) fn encode(&self, state: &mut Encoder) {
        let Self { random, all: _, common: _, values, most: _, head, fresh, freeze: _, frozen_until, frozen } = self;
        state.random(random);
        state.word(values.len() as u64);
        values.iter().for_each(|value| state.word(*value));
        [*head, *fresh].into_iter().for_each(|place| state.word(place as u64));
        state.word(*frozen);
        state.due(*frozen_until);
    }

    pub(super) fn timed_out(&mut self, now: Ps) {
        self.frozen = true;
        self.frozen_until = now.saturating_add(self.freeze);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reps(cache: u32) -> Reps {
        Reps::new(&Config { cache, ..Config::default() }, onramp_random::stream(1, "entropy", 0))
    }

    #[test]
    fn values_without_a_mark_come_again_once_the_oldest_first() {
        let mut reps = reps(3);
        for (value, marked) in [(1, false), (2, true), (3, false)] {
            reps.acknowledged(value, marked, 0);
        }
        assert_eq!([reps.next(), reps.next()], [1, 3]);
        // Then it explores.
        let random: Vec<u16> = (0..20).map(|_| reps.next()).collect();
        assert!(random.iter().collect::<std::collections::BTreeSet<_>>().len() > 15, "{random:?}");
        // Of more than there is room for the newest stay.
        (4..9).for_each(|value| reps.acknowledged(value, false, 0));
        assert_eq!([reps.next(), reps.next(), reps.next()], [6, 7, 8]);
    }

    #[test]
    fn after_a_timeout_it_goes_round_in_what_has_worked() {
        let mut reps = reps(2);
        (1..3).for_each(|value| reps.acknowledged(value, false, 0));
        assert_eq!([reps.next(), reps.next()], [1, 2]);
        reps.timed_out(5);
        let frozen: Vec<u16> = (0..4).map(|_| reps.next()).collect();
        assert_eq!(frozen, [1, 2, 1, 2]);
        // Later it explores again.
        reps.acknowledged(9, true, 5 + 1000 * US);
        let random: Vec<u16> = (0..20).map(|_| reps.next()).collect();
        assert!(random.iter().filter(|value| [1, 2].contains(*value)).count() < 3, "{random:?}");
    }
}
