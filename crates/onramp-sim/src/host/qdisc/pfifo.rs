//! First in, first out.

use super::{Ask, Dequeue, Dropped, Qdisc, Segment};
use crate::units::Ps;
use std::collections::VecDeque;

/// Segments that fit: an interface's default length.
const LIMIT: usize = 1000;

/// See the module.
#[derive(Debug, Default)]
pub struct Pfifo {
    segments: VecDeque<Segment>,
}

impl Qdisc for Pfifo {
    fn enqueue(&mut self, segment: Segment, _now: Ps) -> Result<(), Dropped> {
        if self.segments.len() >= LIMIT {
            return Err(Dropped);
        }
        self.segments.push_back(segment);
        Ok(())
    }

    fn dequeue(&mut self, _now: Ps, _ask: &mut dyn Ask) -> Dequeue {
        self.segments.pop_front().map_or(Dequeue::Idle, Dequeue::Send)
    }
}
