//! What switches write into packets: one file per router.
//!
//! A router sees a packet come to a queue and leave it, and writes into the
//! packet's header; the sender's controller reads it from the ACK.

pub mod int;
pub mod plain;

use super::packet::Options;
use crate::config::units::Ps;
use int::IntStack;
use std::fmt::Debug;

/// What a port knows of itself when a packet leaves.
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

/// A kind of router. Every port has a state of its own; periods are caught up from
/// the time of the packet, so no events are needed.
pub trait Router: Clone + Debug + Send + Sync + 'static {
    /// What a packet carries.
    type Header: Header;
    /// What a port keeps.
    type Port: Clone + Debug + Default + Send + Sync;

    /// A data packet of `size` bytes comes to a queue of `queue_bytes`.
    #[inline]
    fn enqueue(&self, _port: &mut Self::Port, _header: &mut Self::Header, _now: Ps, _size: u16, _queue_bytes: u64) {}

    /// A data packet leaves.
    #[inline]
    fn dequeue(&self, _port: &mut Self::Port, _header: &mut Self::Header, _leaving: &Leaving) {}
}

/// What routers write into a packet.
pub trait Header: Copy + Debug + Default + Send + Sync + 'static {
    /// As a controller reads it.
    fn read(&self) -> Written<'_>;
    /// What TCP's hosts wrote, where there is room for that.
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

/// What routers wrote, as a controller reads it.
#[derive(Clone, Copy, Debug)]
pub enum Written<'a> {
    /// Nothing.
    Nothing,
    /// In-band telemetry.
    Int(&'a IntStack),
}

/// Which router a controller needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
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
}
