//! Pairwise all-to-all: in step k a rank sends to the one k ahead and receives from the one k behind; the next step
//! begins when that has come.

use super::operation::{Label, Member, Piece, Task};
use std::collections::BTreeMap;

/// One rank's part.
#[derive(Debug)]
pub struct Pairwise {
    task: Task,
    /// The step that is waited for, from 1.
    step: u32,
    /// Messages that have come, by step.
    come: BTreeMap<u32, u32>,
}

impl Pairwise {
    /// Nothing has happened.
    pub fn new(task: Task) -> Self {
        Self { task, step: 1, come: BTreeMap::new() }
    }

    fn send(&self, out: &mut Vec<Piece>) {
        let Task { me, n, .. } = self.task;
        if self.step < n {
            let to = (me + self.step) % n;
            self.task.send(to, self.task.share(to, n), self.step, out);
        }
    }
}

impl Member for Pairwise {
    fn begin(&mut self, out: &mut Vec<Piece>) {
        self.send(out);
    }

    fn received(&mut self, label: Label, out: &mut Vec<Piece>) {
        let Task { me, n, .. } = self.task;
        *self.come.entry(label.step).or_default() += 1;
        let all = self.task.pieces(self.task.share(me, n));
        while self.step < n && self.come.get(&self.step) == Some(&all) {
            self.come.remove(&self.step);
            self.step += 1;
            self.send(out);
        }
    }

    fn is_over(&self) -> bool {
        self.step == self.task.n
    }
}
