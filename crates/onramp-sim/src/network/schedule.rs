//! Which class a port serves next: strict classes in order, then the others by
//! deficit round robin (Shreedhar and Varghese, SIGCOMM'95), where a packet is
//! charged after it was sent, so that its size need not be known before.

use onramp_workload::state::Encoder;
use std::sync::Arc;

/// Classes with the control class.
pub const MAX_CLASSES: usize = 9;
/// The control class: strict, before all others, never paused.
pub const CONTROL: u8 = 0;

/// The rules, the same for all ports.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// Bytes each class gets in a round; 0 for a strict one.
    quanta: Arc<[i64]>,
    strict: u16,
    takes_turns: bool,
}

/// A port's state: whose turn it is, and what each class has left.
#[derive(Clone, Debug, Default)]
pub struct Turn {
    class: u8,
    credit: [i64; MAX_CLASSES],
}

impl Turn {
    /// Takes down whose turn it is.
    pub fn encode(&self, state: &mut Encoder) {
        let Self { class, credit } = self;
        state.word(*class);
        credit.iter().for_each(|credit| state.word(*credit as u64));
    }
}

impl Schedule {
    /// By the classes' weights, the control class left out; `packet` is the largest.
    pub fn new(weights: &[Option<f64>], packet: u64) -> Self {
        let least = weights.iter().flatten().copied().fold(f64::MAX, f64::min);
        // Every class can send at least one packet in its turn.
        let quantum = |w: &Option<f64>| w.map_or(0, |w| (packet as f64 * w / least) as i64);
        let quanta: Arc<[i64]> = std::iter::once(0).chain(weights.iter().map(quantum)).collect();
        let strict = (0..).zip(quanta.iter()).filter(|(_, q)| **q == 0).fold(0, |set, (i, _)| set | 1 << i);
        let takes_turns = quanta[1..].iter().any(|q| *q > 0);
        Self { quanta, strict, takes_turns }
    }

    /// Classes with the control class.
    pub fn classes(&self) -> usize {
        self.quanta.len()
    }

    /// True if there are classes that take turns, so that a port needs a [`Turn`] of its own.
    #[inline]
    pub fn takes_turns(&self) -> bool {
        self.takes_turns
    }

    /// The class to serve, of those in the set `ready`.
    #[inline]
    pub fn pick(&self, turn: &mut Turn, ready: u16) -> Option<u8> {
        let strict = ready & self.strict;
        if strict != 0 {
            return Some(strict.trailing_zeros() as u8);
        }
        if ready == 0 { None } else { Some(self.next(turn, ready)) }
    }

    fn next(&self, turn: &mut Turn, ready: u16) -> u8 {
        loop {
            let class = usize::from(turn.class);
            let credit = &mut turn.credit[class];
            if ready >> class & 1 == 0 {
                // Who has nothing to send saves nothing up.
                *credit = 0.min(*credit);
            } else if *credit > 0 {
                return turn.class;
            }
            turn.class = if class + 1 == self.quanta.len() { 0 } else { turn.class + 1 };
            // A new turn.
            let class = usize::from(turn.class);
            if ready >> class & 1 == 1 {
                turn.credit[class] += self.quanta[class];
            }
        }
    }

    /// A packet of `size` bytes of `class` has been sent.
    #[inline]
    pub fn charge(&self, turn: &mut Turn, class: u8, size: u16) {
        if self.strict >> class & 1 == 0 {
            turn.credit[usize::from(class)] -= i64::from(size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes each class sends of `total`, if all but those of `idle` always have packets.
    fn shares(weights: &[Option<f64>], sizes: &[u16], idle: u16, total: u64) -> Vec<u64> {
        let schedule = Schedule::new(weights, 1500);
        let mut turn = Turn::default();
        let mut sent = vec![0; schedule.classes()];
        let all = (1u16 << schedule.classes()) - 1;
        while sent.iter().sum::<u64>() < total {
            let class = schedule.pick(&mut turn, all & !1 & !idle).unwrap();
            let size = sizes[usize::from(class) - 1];
            schedule.charge(&mut turn, class, size);
            sent[usize::from(class)] += u64::from(size);
        }
        sent[1..].to_vec()
    }

    #[test]
    fn strict_classes_come_first_in_order() {
        assert_eq!(shares(&[None, None], &[1500, 1500], 0, 15_000), [15_000, 0]);
        assert_eq!(shares(&[None, None], &[1500, 1500], 0b10, 15_000), [0, 15_000]);
        let schedule = Schedule::new(&[None], 1500);
        assert_eq!(schedule.pick(&mut Turn::default(), 0b11), Some(CONTROL));
        assert_eq!(schedule.pick(&mut Turn::default(), 0), None);
    }

    #[test]
    fn weights_share_bytes_whatever_the_size_of_packets() {
        for sizes in [[1500, 1500], [1500, 60], [60, 1500], [500, 777]] {
            let sent = shares(&[Some(1.0), Some(3.0)], &sizes, 0, 3_000_000);
            let share = sent[1] as f64 / 3e6;
            assert!((share - 0.75).abs() < 0.01, "{sizes:?}: {sent:?}");
        }
    }

    #[test]
    fn who_is_idle_leaves_its_share_and_saves_nothing() {
        let sent = shares(&[Some(1.0), Some(1.0), Some(2.0)], &[1000; 3], 0b1000, 2_000_000);
        assert!(sent[2] == 0 && sent[0].abs_diff(sent[1]) <= 2_000, "{sent:?}");
        let schedule = Schedule::new(&[Some(1.0), Some(1.0)], 1000);
        let mut turn = Turn::default();
        for _ in 0..1000 {
            let class = schedule.pick(&mut turn, 0b010).unwrap();
            schedule.charge(&mut turn, class, 1000);
        }
        let mut next = [0; 3];
        for _ in 0..20 {
            let class = schedule.pick(&mut turn, 0b110).unwrap();
            schedule.charge(&mut turn, class, 1000);
            next[usize::from(class)] += 1;
        }
        assert!(next[2] <= 11, "{next:?}: the idle class saved its turns up");
    }

    #[test]
    fn a_strict_class_goes_before_weighted_ones() {
        let schedule = Schedule::new(&[Some(1.0), None, Some(1.0)], 1500);
        assert_eq!(schedule.pick(&mut Turn::default(), 0b1110), Some(2));
    }
}
