//! Rings: each rank sends to the next one, and hands on what it gets piece by piece.
//!
//! Among n ranks the buffer has n shares. An all-reduce takes 2(n-1) steps, n-1 that reduce and n-1 that gather, each
//! with one share (Patarasuk, Yuan 2009). Broadcast and reduce pass the whole buffer along the chain.
//!
//! A rank takes messages in the order in which they were sent, as NCCL does: one that overtakes others, on another queue
//! pair, waits for them.

use super::operation::{Label, Member, Operation, Piece, Task};
use std::collections::BTreeSet;

/// One rank's part.
#[derive(Debug)]
pub struct Ring {
    task: Task,
    /// Messages that are still to be taken.
    left: u64,
    /// The next one to take.
    due: Label,
    /// Those that have overtaken it.
    early: BTreeSet<Label>,
}

impl Ring {
    /// Nothing has happened.
    pub fn new(task: Task) -> Self {
        let mut ring = Self { task, left: 0, due: Label { step: 0, piece: 0 }, early: BTreeSet::new() };
        ring.left = (0..steps(task)).map(|step| u64::from(ring.come_in(step))).sum();
        ring
    }

    /// Messages that come in a step.
    fn come_in(&self, step: u32) -> u32 {
        let Task { me, n, .. } = self.task;
        sent_in(Task { me: (me + n - 1) % n, ..self.task }, step).map_or(0, |bytes| self.task.pieces(bytes))
    }

    /// Takes the message that is due.
    fn take(&mut self, out: &mut Vec<Piece>) {
        let Label { step, piece } = self.due;
        self.left -= 1;
        self.due = if piece + 1 < self.come_in(step) {
            Label { step, piece: piece + 1 }
        } else {
            Label { step: step + 1, piece: 0 }
        };
        let chain = matches!(self.task.operation, Operation::Broadcast | Operation::Reduce);
        let step = step + u32::from(!chain);
        if let Some(bytes) = sent_in(self.task, step) {
            out.push(self.task.piece(self.next(), bytes, Label { step, piece }));
        }
    }

    fn begins(&self) -> bool {
        match self.task.operation {
            Operation::Broadcast => self.task.me == 0,
            Operation::Reduce => self.task.me == 1,
            _ => true,
        }
    }

    fn next(&self) -> u32 {
        (self.task.me + 1) % self.task.n
    }
}

fn steps(task: Task) -> u32 {
    match task.operation {
        Operation::AllReduce => 2 * (task.n - 1),
        Operation::Broadcast | Operation::Reduce => 1,
        _ => task.n - 1,
    }
}

/// Bytes a rank sends in a step; `None` where it sends none.
fn sent_in(task: Task, step: u32) -> Option<u64> {
    let Task { operation, me, n, bytes, .. } = task;
    if step >= steps(task) {
        return None;
    }
    match operation {
        // From the first to the last, and from the second by way of the last to the first.
        Operation::Broadcast => (me + 1 < n).then_some(bytes),
        Operation::Reduce => (me > 0).then_some(bytes),
        _ => {
            // The share that a rank keeps in the end is its own.
            let ahead = u32::from(operation == Operation::ReduceScatter);
            Some(task.share((me + 2 * n - ahead - step % n) % n, n))
        }
    }
}

impl Member for Ring {
    fn begin(&mut self, out: &mut Vec<Piece>) {
        if let Some(bytes) = sent_in(self.task, 0).filter(|_| self.begins()) {
            self.task.send(self.next(), bytes, 0, out);
        }
    }

    fn received(&mut self, label: Label, out: &mut Vec<Piece>) {
        if label != self.due {
            self.early.insert(label);
            return;
        }
        self.take(out);
        while self.early.remove(&self.due) {
            self.take(out);
        }
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_take_turns_through_all_steps() {
        let mut ring = Ring::new(Task { operation: Operation::AllReduce, me: 0, n: 4, bytes: 4000, chunk: 400 });
        let mut sent = Vec::new();
        ring.begin(&mut sent);
        for step in 0..6 {
            (0..3).for_each(|piece| ring.received(Label { step, piece }, &mut sent));
        }
        assert!(ring.is_over());
        assert_eq!(sent.iter().map(|piece| piece.turn).collect::<Vec<_>>(), (0..18).collect::<Vec<_>>());
    }

    #[test]
    fn a_message_that_overtakes_others_waits_for_them() {
        let mut ring = Ring::new(Task { operation: Operation::AllGather, me: 0, n: 3, bytes: 2400, chunk: 400 });
        let mut sent = Vec::new();
        ring.begin(&mut sent);
        sent.clear();
        let mut sent_after = |step, piece| {
            ring.received(Label { step, piece }, &mut sent);
            sent.iter().map(|piece| (piece.label.step, piece.label.piece)).collect::<Vec<_>>()
        };
        assert_eq!(sent_after(1, 0), []);
        assert_eq!(sent_after(0, 1), []);
        assert_eq!(sent_after(0, 0), [(1, 0), (1, 1)]);
        assert_eq!(sent_after(1, 1), [(1, 0), (1, 1)]);
        assert!(ring.is_over());
    }
}
