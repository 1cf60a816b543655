//! Pairwise all-to-all as MPI does it for large messages (`MPI_Sendrecv` with a rendezvous): in step k a rank tells the
//! one k behind that it is ready, and sends to the one k ahead once that is ready, too. The next step begins when its
//! message has come, and its peer has told that it has all of its own.

use super::operation::{Label, Member, Piece, Task};
use std::collections::BTreeSet;

/// Payload of a message that tells something \[bytes\].
const TOLD: u64 = 64;

/// Kinds of messages: the label's step is `n` times this, and the step.
mod what {
    pub const DATA: u32 = 0;
    pub const READY: u32 = 1;
    pub const DONE: u32 = 2;
}

/// One rank's part.
#[derive(Debug)]
pub struct Rendezvous {
    task: Task,
    /// From 1.
    step: u32,
    /// Messages of this step that have come.
    come: u32,
    /// The peer has all of this step's.
    done: bool,
    /// Steps for which the peer is ready.
    ready: BTreeSet<u32>,
}

impl Rendezvous {
    /// Nothing has happened.
    pub fn new(task: Task) -> Self {
        Self { task, step: 1, come: 0, done: false, ready: BTreeSet::new() }
    }

    /// Tells the one behind in this step.
    fn tell(&self, what: u32, out: &mut Vec<Piece>) {
        let Task { me, n, .. } = self.task;
        self.task.send((me + n - self.step) % n, TOLD, what * n + self.step, out);
    }

    fn send_if_ready(&mut self, out: &mut Vec<Piece>) {
        let Task { me, n, .. } = self.task;
        if self.ready.remove(&self.step) {
            let to = (me + self.step) % n;
            self.task.send(to, self.task.share(to, n), self.step, out);
        }
    }

    fn enter(&mut self, out: &mut Vec<Piece>) {
        if self.step < self.task.n {
            self.tell(what::READY, out);
            self.send_if_ready(out);
        }
    }
}

impl Member for Rendezvous {
    fn begin(&mut self, out: &mut Vec<Piece>) {
        self.enter(out);
    }

    fn received(&mut self, label: Label, out: &mut Vec<Piece>) {
        let Task { me, n, .. } = self.task;
        let all = self.task.pieces(self.task.share(me, n));
        match label.step / n {
            what::DATA => {
                self.come += 1;
                if self.come == all {
                    self.tell(what::DONE, out);
                }
            }
            what::READY => {
                self.ready.insert(label.step % n);
                self.send_if_ready(out);
            }
            _ => self.done = true,
        }
        if self.done && self.come == all {
            (self.step, self.come, self.done) = (self.step + 1, 0, false);
            self.enter(out);
        }
    }

    fn is_over(&self) -> bool {
        self.step == self.task.n
    }
}
