//! All ranks send to all others at once, to the next one first.

use super::operation::{Label, Member, Operation, Piece, Task};

/// One rank's part.
#[derive(Debug)]
pub struct Direct {
    task: Task,
    left: u64,
}

impl Direct {
    /// Nothing has happened.
    pub fn new(task: Task) -> Self {
        let Task { operation, me, n, .. } = task;
        let from = |other: &u32| *other != me && (operation != Operation::Broadcast || *other == 0);
        let pieces = |other| u64::from(task.pieces(sent(Task { me: other, ..task }, me)));
        Self { task, left: (0..n).filter(from).map(pieces).sum() }
    }
}

/// Bytes from a rank to another.
fn sent(task: Task, to: u32) -> u64 {
    let Task { operation, me, n, bytes, .. } = task;
    match operation {
        Operation::Broadcast => bytes,
        Operation::AllGather => task.share(me, n),
        Operation::ReduceScatter => task.share(to, n),
        // Each rank's buffer has a share for every rank.
        _ => task.share(to, n),
    }
}

impl Member for Direct {
    fn begin(&mut self, out: &mut Vec<Piece>) {
        let Task { operation, me, n, .. } = self.task;
        if operation == Operation::Broadcast && me > 0 {
            return;
        }
        for to in (1..n).map(|distance| (me + distance) % n) {
            self.task.send(to, sent(self.task, to), 0, out);
        }
    }

    fn received(&mut self, _label: Label, _out: &mut Vec<Piece>) {
        self.left -= 1;
    }

    fn is_over(&self) -> bool {
        self.left == 0
    }
}
