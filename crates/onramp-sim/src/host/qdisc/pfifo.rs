//! First in, first out.

use super::{Ask, Dequeue, Dropped, Qdisc, Segment};
use onramp_config::units::Ps;
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
            return Err(Dropped::Refused);
        }
        self.segments.push_back(segment);
        Ok(())
    }

    fn dequeue(&mut self, _now: Ps, _ask: &mut dyn Ask) -> Dequeue {
        self.segments.pop_front().map_or(Dequeue::Idle, Dequeue::Send)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{SEGMENT, next, sent, take};
    use super::*;

    #[test]
    fn a_thousand_wait_in_order_and_one_more_is_refused() {
        let mut q = Pfifo::default();
        for handle in 0..1_000 {
            take(&mut q, 0, handle.into(), handle, 64_000);
        }
        assert_eq!(q.enqueue(SEGMENT, 0), Err(Dropped::Refused));
        assert_eq!(sent(&mut q, 0, 2_000), (0..1_000).collect::<Vec<_>>());
        assert_eq!(next(&mut q, 0), Dequeue::Idle);
    }
}
