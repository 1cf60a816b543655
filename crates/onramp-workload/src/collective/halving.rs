//! Recursive halving and doubling: in step s ranks exchange half of what they still have with one 2^k/2^(s+1) away,
//! then the way back (Thakur, Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH",
//! 2005). Where ranks are no power of two, an all-reduce first has the surplus ones give their data to a neighbour.

use super::operation::{Label, Member, Operation, Piece, Task};
use std::collections::BTreeMap;

/// Steps outside the exchange: a surplus rank's data, and its result.
const BEFORE: u32 = 1 << 20;
const AFTER: u32 = BEFORE + 1;

/// Ranks that are no power of two: how they pair up.
#[derive(Clone, Copy, Debug)]
struct Fold {
    /// Ranks in the exchange.
    core: u32,
    /// Ranks beyond.
    surplus: u32,
}

impl Fold {
    fn of(n: u32) -> Self {
        let core = 1 << n.ilog2();
        Self { core, surplus: n - core }
    }

    /// Place in the exchange; `None` for a rank that is left out, the even ones of the first.
    fn inside(self, me: u32) -> Option<u32> {
        if me >= 2 * self.surplus { Some(me - self.surplus) } else { (me % 2 == 1).then_some(me / 2) }
    }

    fn outside(self, inside: u32) -> u32 {
        if inside < self.surplus { 2 * inside + 1 } else { inside + self.surplus }
    }

    /// The surplus rank that a rank stands in for.
    fn ward(self, me: u32) -> Option<u32> {
        (me < 2 * self.surplus && me % 2 == 1).then(|| me - 1)
    }
}

/// Places that a rank sends to.
pub fn peers(me: u32, n: u32) -> Vec<u32> {
    let fold = Fold::of(n);
    let Some(inside) = fold.inside(me) else { return vec![me + 1] };
    let partners = (0..fold.core.ilog2()).map(|bit| fold.outside(inside ^ 1 << bit));
    partners.chain(fold.ward(me)).collect()
}

/// One rank's part.
#[derive(Debug)]
pub struct Halving {
    task: Task,
    fold: Fold,
    /// The step that is waited for, of `steps`.
    step: u32,
    steps: u32,
    /// Messages that have come, by step.
    come: BTreeMap<u32, u32>,
    over: bool,
}

impl Halving {
    /// Nothing has happened.
    pub fn new(task: Task) -> Self {
        let fold = Fold::of(task.n);
        let rounds = fold.core.ilog2();
        let steps = if task.operation == Operation::AllReduce { 2 * rounds } else { rounds };
        Self { task, fold, step: 0, steps, come: BTreeMap::new(), over: false }
    }

    /// Distance to the partner in a step, and bytes that both send.
    fn exchange(&self, step: u32) -> (u32, u64) {
        let rounds = self.fold.core.ilog2();
        let doubling = match self.task.operation {
            Operation::AllReduce => step.checked_sub(rounds),
            Operation::AllGather => Some(step),
            _ => None,
        };
        let bit = doubling.unwrap_or(rounds.wrapping_sub(1).wrapping_sub(step));
        (1 << bit, self.task.bytes >> (rounds - bit))
    }

    fn has_come(&mut self, step: u32, bytes: u64) -> bool {
        let all = self.task.pieces(bytes);
        let there = self.come.get(&step) == Some(&all);
        if there {
            self.come.remove(&step);
        }
        there
    }

    fn send(&self, inside: u32, out: &mut Vec<Piece>) {
        if self.step < self.steps {
            let (distance, bytes) = self.exchange(self.step);
            self.task.send(self.fold.outside(inside ^ distance), bytes, self.step, out);
        }
    }

    fn go_on(&mut self, inside: u32, out: &mut Vec<Piece>) {
        while self.step < self.steps && self.has_come(self.step, self.exchange(self.step).1) {
            self.step += 1;
            self.send(inside, out);
        }
        if self.step == self.steps && !self.over {
            self.over = true;
            if let Some(ward) = self.fold.ward(self.task.me) {
                self.task.send(ward, self.task.bytes, AFTER, out);
            }
        }
    }
}

impl Member for Halving {
    fn begin(&mut self, out: &mut Vec<Piece>) {
        let Task { me, bytes, .. } = self.task;
        match self.fold.inside(me) {
            None => self.task.send(me + 1, bytes, BEFORE, out),
            Some(_) if self.fold.ward(me).is_some() => {}
            Some(inside) => {
                self.send(inside, out);
                self.go_on(inside, out);
            }
        }
    }

    fn received(&mut self, label: Label, out: &mut Vec<Piece>) {
        let Task { me, bytes, .. } = self.task;
        *self.come.entry(label.step).or_default() += 1;
        let Some(inside) = self.fold.inside(me) else {
            self.over = self.has_come(AFTER, bytes);
            return;
        };
        if label.step == BEFORE {
            if !self.has_come(BEFORE, bytes) {
                return;
            }
            self.send(inside, out);
            // It takes no more of the ward's: the exchange has begun.
            self.come.insert(BEFORE, u32::MAX);
        }
        let waits = self.fold.ward(me).is_some() && self.come.get(&BEFORE) != Some(&u32::MAX);
        if !waits {
            self.go_on(inside, out);
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }
}
