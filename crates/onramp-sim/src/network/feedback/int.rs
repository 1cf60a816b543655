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
    /// XOR of the 12-bit numbers of its ports.
    path: u16,
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

    /// Tells packets that took another path; some do not differ, as 12 bits are few.
    pub fn path(&self) -> u16 {
        self.path
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
    type Port = u16;

    /// Numbers of neighbours differ in all bits.
    fn port(&self, _: u64, number: u32) -> u16 {
        (number.wrapping_mul(0x9e37_79b1) >> 20) as u16
    }

    fn encode(&self, _: &u16, _: &mut Encoder) {}

    #[inline]
    fn dequeue(&self, port: &mut u16, packet: &mut Packet<IntStack>, at: &Leaving) {
        packet.header.path ^= *port;
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
