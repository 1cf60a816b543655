//! A congestion controller in a library of its own, which On-Ramp's simulator loads.
//!
//! A crate of kind `cdylib` implements [`Controller`] and names its controllers with [`controllers!`]. A scenario
//! loads it:
//!
//! ```toml
//! [transport]
//! kind = "custom"
//! library = "target/release/libmine.so"
//! name = "half"
//! share = 0.5          # a key that the controller reads
//! ```
//!
//! `onramp new controller` writes such a crate with a copy of this one, which depends on nothing.
//!
//! ```
//! use onramp_controller::{Ack, Controller, Env, Keys, Permit};
//!
//! /// A constant share of the host link's rate, whatever happens.
//! struct Constant;
//!
//! impl Controller for Constant {
//!     type Parameters = f64;
//!     fn read(keys: &Keys<'_>) -> Result<f64, String> {
//!         keys.number("share", 0.5)
//!     }
//!     fn new(_: &f64, _: &Env) -> Self {
//!         Self
//!     }
//!     fn on_ack(&mut self, _: &f64, _: &Env, _: &Ack<'_>) {}
//!     fn permit(&mut self, share: &f64, env: &Env, _now: u64) -> Permit {
//!         env.permit(share * env.line_rate, false)
//!     }
//! }
//!
//! onramp_controller::controllers! { "constant" => Constant }
//! # fn main() {}
//! ```

pub mod abi;
#[cfg(feature = "host")]
pub mod host;
mod int;
mod keys;

pub use int::{Hop, Units};
pub use keys::Keys;

/// Host and network as a controller knows them.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Env {
    /// The host link's rate in bit/s.
    pub line_rate: f64,
    /// Longest base RTT of the network, in picoseconds (`GLOBAL_T` in HPCC's simulator).
    pub base_rtt: u64,
    /// W_max: bytes of the largest window.
    pub max_window: f64,
    /// Bytes of payload of a full packet.
    pub payload: u64,
    /// Bytes of a full packet on the wire.
    pub packet: u64,
    /// Units in which telemetry counts.
    pub int_units: Units,
}

impl Env {
    /// A permit for `rate` in bit/s; with a window, W = W_max · R / R_line, at least one byte (`VAR_WIN` in HPCC's
    /// simulator).
    #[inline]
    pub fn permit(&self, rate: f64, window: bool) -> Permit {
        let window = if window { ((self.max_window * (rate / self.line_rate)) as u64).max(1) } else { u64::MAX };
        Permit { window, rate }
    }
}

/// Limits on a flow: window and rate.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Permit {
    /// Bytes of payload in flight: another packet may leave while there are fewer.
    pub window: u64,
    /// Bits per second on the wire; infinite for no limit. At 0 nothing follows the packet just sent.
    pub rate: f64,
}

/// How a loss was noticed.
#[repr(u8)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// By what came back after it.
    Fast = 0,
    /// By nothing having come back.
    Timeout = 1,
}

/// A packet that leaves.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// When, in picoseconds.
    pub now: u64,
    /// Bytes on the wire.
    pub size: u16,
    /// Bytes of payload sent and not acknowledged, this packet included.
    pub in_flight: u64,
}

/// An ACK as the sender's controller sees it.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Time of arrival, in picoseconds.
    pub now: u64,
    /// Now minus the transmission of the acknowledged packet, in picoseconds.
    pub rtt: u64,
    /// Part of `rtt` that packet and ACK waited in their hosts, as far as they tell, in picoseconds.
    pub endpoint: u64,
    /// True if the acknowledged packet carried an ECN mark.
    pub ecn: bool,
    /// True if it is a NACK: a switch has trimmed the packet, which is now known to be lost.
    pub trimmed: bool,
    /// All packets before this one have arrived (cumulative).
    pub acked: u64,
    /// The next packet the sender will send.
    pub next: u64,
    /// Bytes of payload acknowledged by this ACK and no other before.
    pub newly_acked: u64,
    /// Bytes of payload sent and not acknowledged.
    pub in_flight: u64,
    /// Bits of payload delivered per second over the last round trip; told with the ACK that ends one.
    pub delivery_rate: Option<f64>,
    /// Telemetry of the switches on the acknowledged packet's path, from sender to receiver; empty without
    /// `feedback = { kind = "int" }` in the scenario.
    pub hops: &'a [Hop],
}

/// A congestion controller of one flow.
///
/// It sees acknowledgements, losses and packets that leave, and answers with a [`Permit`]. Timers are caught up in
/// `permit`, which is asked before each packet. The same calls must give the same answers: no clock of the machine, no
/// randomness without a seed, or results are not the same bytes each time.
pub trait Controller: Send + Sync + Sized + 'static {
    /// Parameters, read once from the scenario.
    type Parameters: Send + Sync + 'static;

    /// Reads them.
    ///
    /// # Errors
    /// A sentence: what is wrong, and what would be right. Keys that were not asked for are refused without its help.
    fn read(keys: &Keys<'_>) -> Result<Self::Parameters, String>;

    /// A new flow.
    fn new(parameters: &Self::Parameters, env: &Env) -> Self;

    /// Takes notice of its path: so many switches.
    fn on_path(&mut self, _hops: u32) {}

    /// Takes notice of an ACK or NACK.
    fn on_ack(&mut self, parameters: &Self::Parameters, env: &Env, ack: &Ack<'_>);

    /// Takes notice of a loss at `now`, in picoseconds.
    fn on_loss(&mut self, _parameters: &Self::Parameters, _env: &Env, _now: u64, _loss: Loss) {}

    /// Takes notice of a packet that leaves.
    fn on_sent(&mut self, _parameters: &Self::Parameters, _env: &Env, _sent: &Sent) {}

    /// Window and rate that the flow may use at `now`, in picoseconds.
    fn permit(&mut self, parameters: &Self::Parameters, env: &Env, now: u64) -> Permit;
}
