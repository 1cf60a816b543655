//! Rings: each rank sends to the next one, and hands on what it gets piece by piece.
//!
//! Among n ranks the buffer has n shares. An all-reduce takes 2(n-1) steps, n-1 that reduce and n-1 that gather, each
//! with one share (Patarasuk, Yuan 2009). Broadcast and reduce pass the whole buffer along the chain.

use super::operation::{Label, Member, Operation, Piece, Task};

/// One rank's part.
#[derive(Debug)]
pub struct Ring {
    task: Task,
    /// Messages that are still to come.
    left: u64,
}

impl Ring {
    /// Nothing has happened.
    pub fn new(task: Task) -> Self {
        let mut ring = Self { task, left: 0 };
        let came_from = Task { me: (task.me + task.n - 1) % task.n, ..task };
        ring.left = (0..ring.steps())
            .filter_map(|step| Some(u64::from(task.pieces(Self { task: came_from, left: 0 }.sent_in(step)?))))
            .sum();
        ring
    }

    fn steps(&self) -> u32 {
        match self.task.operation {
            Operation::AllReduce => 2 * (self.task.n - 1),
            Operation::Broadcast | Operation::Reduce => 1,
            _ => self.task.n - 1,
        }
    }

    /// Bytes this rank sends in a step; `None` where it sends none.
    fn sent_in(&self, step: u32) -> Option<u64> {
        let Task { operation, me, n, bytes, .. } = self.task;
        if step >= self.steps() {
            return None;
        }
        match operation {
            // From the first to the last, and from the second by way of the last to the first.
            Operation::Broadcast => (me + 1 < n).then_some(bytes),
            Operation::Reduce => (me > 0).then_some(bytes),
            _ => {
                // The share that a rank keeps in the end is its own.
                let ahead = u32::from(operation == Operation::ReduceScatter);
                Some(self.task.share((me + 2 * n - ahead - step % n) % n, n))
            }
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

impl Member for Ring {
    fn begin(&mut self, out: &mut Vec<Piece>) {
        if let Some(bytes) = self.sent_in(0).filter(|_| self.begins()) {
            self.task.send(self.next(), bytes, 0, out);
        }
    }

    fn received(&mut self, label: Label, out: &mut Vec<Piece>) {
        self.left -= 1;
        let chain = matches!(self.task.operation, Operation::Broadcast | Operation::Reduce);
        let step = label.step + u32::from(!chain);
        if let Some(bytes) = self.sent_in(step) {
            out.push(self.task.piece(self.next(), bytes, Label { step, ..label }));
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
}
