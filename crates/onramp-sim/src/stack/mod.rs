//! How bytes become packets and are made reliable: one file per stack, each with a
//! sending and a receiving half. A stack knows neither network nor NIC.

pub mod rdma;
pub mod tcp;

use crate::cc::Loss;
use crate::network::Kind;
use onramp_config::units::Ps;

/// A packet to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number.
    pub seq: u32,
    /// Bytes on the wire.
    pub size: u16,
    /// Flags of the packet.
    pub flags: u8,
    /// It has been sent before.
    pub again: bool,
}

/// Result of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Bytes of payload acknowledged for the first time.
    pub newly_acked: u64,
    /// Something was lost.
    pub loss: Option<Loss>,
    /// Bits of payload per second over the round trip that this reply ends.
    pub delivery_rate: Option<f64>,
}

/// The sending half.
pub trait Tx {
    /// There is a packet to send, as far as the stack is concerned.
    fn ready(&self) -> bool;
    /// Bytes of payload sent and not acknowledged.
    fn in_flight(&self) -> u64;
    /// The next packet, which leaves now.
    fn send(&mut self, now: Ps) -> Segment;
    /// An acknowledgement has come; a NACK says which packet `came` instead of the next expected one, `seq`.
    fn on_reply(&mut self, kind: Kind, seq: u32, came: u32, now: Ps) -> Progress;
    /// Everything has arrived.
    fn done(&self) -> bool;
    /// When the retransmission timeout is due; `None` with nothing in flight.
    fn deadline(&self) -> Option<Ps>;
    /// The deadline has passed.
    fn on_timeout(&mut self, now: Ps);
    /// Ends the flow at the bytes of payload sent so far, and returns them.
    fn stop(&mut self) -> u64;
}

/// The receiving half.
pub trait Rx {
    /// A packet has come: the reply to it, if any, as kind and number.
    fn on_data(&mut self, seq: u32, flags: u8, now: Ps) -> Option<(Kind, u32)>;
    /// Bytes of payload received in order.
    fn received(&self) -> u64;
}
