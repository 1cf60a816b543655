//! Headers that switches write for senders: one file per kind.
//!
//! A port sees a packet come to its queue and leave it, and writes into the
//! packet's header; the sender's controller reads it from the ACK.

pub mod int;
pub mod plain;
pub mod rcp;
pub mod xcp;

use super::packet::{Options, Packet};
use int::IntStack;
use onramp_config::units::Ps;
use onramp_workload::state::Encoder;
use std::fmt::Debug;

/// State of a port when a packet leaves.
#[derive(Clone, Copy, Debug)]
pub struct Leaving {
    /// Time in picoseconds.
    pub now: Ps,
    /// Bytes of all packets that left before.
    pub tx_bytes: u64,
    /// Bytes of its class that stay behind.
    pub queue_bytes: u64,
    /// The port's rate in bit/s.
    pub rate: u64,
}

/// Values that a sender tells the switches on its path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Told {
    /// Its round trip in picoseconds; 0 while it knows none.
    pub rtt: Ps,
    /// Its window, in bytes on the wire.
    pub window: f64,
    /// By how many bytes it would have the window grow.
    pub wish: f64,
}

/// A kind of feedback. Every port has a state of its own; periods are caught up from
/// the time of the packet, so no events are needed.
pub trait Feedback: Clone + Debug + Send + Sync + 'static {
    /// Header that a packet carries.
    type Header: Header;
    /// State that a port keeps.
    type Port: Clone + Debug + Send + Sync;
    /// True if it looks at what comes.
    const COUNTS: bool = false;

    /// A port of `rate` bit/s at time 0 of the engine; `number` is the port's in the whole network.
    fn port(&self, rate: u64, number: u32) -> Self::Port;

    /// A packet comes to a queue of `queue_bytes`, which may yet drop it.
    #[inline]
    fn enqueue(&self, _port: &mut Self::Port, _packet: &Packet<Self::Header>, _now: Ps, _queue_bytes: u64) {}

    /// A data packet leaves.
    #[inline]
    fn dequeue(&self, _port: &mut Self::Port, _packet: &mut Packet<Self::Header>, _leaving: &Leaving) {}

    /// The rate in bit/s that it gives each flow, if it does.
    fn rate(&self, _port: &Self::Port, _now: Ps) -> Option<f64> {
        None
    }

    /// Takes down the state of a port.
    fn encode(&self, _port: &Self::Port, state: &mut Encoder) {
        state.refuse("switches measure at times of their own for what they tell senders (RCP, XCP)");
    }
}

/// The header that switches write into a packet.
pub trait Header: Copy + Debug + Default + Send + Sync + 'static {
    /// True if senders tell switches something.
    const TOLD: bool = false;
    /// As a controller reads it.
    fn read(&self) -> Written<'_>;
    /// A new packet's.
    fn tell(_told: &Told) -> Self {
        Self::default()
    }
    /// Options that TCP's hosts wrote, where there is room for them.
    fn options(&self) -> Options {
        Options::default()
    }
    /// Writes it.
    fn set_options(&mut self, _options: Options) {}
    /// Nanoseconds that a data packet waited in its receiver, where there is room for that.
    fn waited(&self) -> u32 {
        0
    }
    /// Writes it.
    fn set_waited(&mut self, _ns: u32) {}
}

/// Feedback as a controller reads it.
#[derive(Clone, Copy, Debug)]
pub enum Written<'a> {
    /// Nothing.
    Nothing,
    /// In-band telemetry.
    Int(&'a IntStack),
    /// The smallest rate on the path.
    Rcp(&'a rcp::Congestion),
    /// By how much the window is to change.
    Xcp(&'a xcp::Congestion),
}

/// Kind of feedback that a controller needs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Kind {
    /// Any.
    #[default]
    Plain,
    /// Any, beside room for what a packet waited in its receiver.
    Waits,
    /// Any, beside room for TCP's options.
    Tcp,
    /// In-band telemetry.
    Int,
    /// RCP, with these parameters.
    Rcp(rcp::Params),
    /// XCP, with these parameters.
    Xcp(xcp::Params),
}

impl Kind {
    /// One kind that does for both, if there is one.
    pub fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Plain, kind) | (kind, Self::Plain) => Some(kind),
            // TCP's options have room for it, too.
            (Self::Waits, Self::Tcp) | (Self::Tcp, Self::Waits) => Some(Self::Tcp),
            (a, b) => (a == b).then_some(a),
        }
    }
}
