//! In-band network telemetry (INT) in HPCC's format and resolution.

use super::{Feedback, Header, Leaving, Written};
use crate::network::Packet;
use onramp_config::units::NS;
pub use onramp_controller::{Hop, Units};
use onramp_workload::state::Encoder;

const SLOTS: usize = 5;

/// The records of one packet.
#[derive(Clone, Copy, Debug, Default)]
pub struct IntStack {
    hops: [Hop; SLOTS],
    count: u8,
}

impl IntStack {
    /// Five slots of 8 B and a hop count of 2 B.
    pub const WIRE_BYTES: u64 = 42;

    /// Adds a record; a full stack stays as it is.
    pub fn push(&mut self, hop: Hop) {
        if let Some(slot) = self.hops.get_mut(usize::from(self.count)) {
            *slot = hop;
            self.count += 1;
        }
    }

    /// The records from sender to receiver.
    pub fn hops(&self) -> &[Hop] {
        &self.hops[..usize::from(self.count)]
    }
}

/// Feedback that adds a record to every data packet.
#[derive(Clone, Copy, Debug)]
pub struct Int {
    /// Units in which its records count.
    pub units: Units,
}

impl Feedback for Int {
    type Header = IntStack;
    type Port = ();

    fn port(&self, _: u64) {}

    fn encode(&self, (): &(), _: &mut Encoder) {}

    #[inline]
    fn dequeue(&self, (): &mut (), packet: &mut Packet<IntStack>, at: &Leaving) {
        packet.header.push(Hop::new(self.units, at.now / NS, at.tx_bytes, at.queue_bytes, at.rate));
    }
}

impl Header for IntStack {
    #[inline]
    fn read(&self) -> Written<'_> {
        Written::Int(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sixth_hop_leaves_no_record() {
        let mut stack = IntStack::default();
        for i in 0..6 {
            stack.push(Hop::new(Units::new(25e9), i, 0, 0, 0));
        }
        assert_eq!(stack.hops().len(), 5);
    }
}
