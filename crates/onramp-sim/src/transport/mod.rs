//! Congestion control: one file each, all behind one trait.
//!
//! A controller sees ACKs and answers two questions: at which rate may the flow
//! send now, and (through the rate) how large is its window. It never sees the
//! network, the NIC or On-Ramp.

pub mod dcqcn;
pub mod dctcp;
pub mod hpcc;
pub mod kernel;
pub mod timely;

use crate::network::int::{IntStack, Units};
use crate::scenario::{Class, tagged};
use crate::units::{Bytes, Ps, Rate};

/// What an ACK tells the sender's controller.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Time of arrival, in picoseconds.
    pub now: Ps,
    /// Now minus the transmission of the acknowledged packet, in picoseconds.
    pub rtt: Ps,
    /// Whether the acknowledged packet carried an ECN mark.
    pub ecn: bool,
    /// All packets before this one have arrived (cumulative).
    pub acked: u64,
    /// The next packet the sender will send.
    pub next: u64,
    /// What switches wrote into the acknowledged packet; empty without INT.
    pub int: &'a IntStack,
}

/// What a controller knows of its host and network.
#[derive(Clone, Copy, Debug)]
pub struct Env {
    /// The host link's rate in bits per second.
    pub line_rate: f64,
    /// Longest base RTT of the network, in picoseconds (`GLOBAL_T` in HPCC's simulator).
    pub base_rtt: Ps,
    /// What telemetry counts in.
    pub int_units: Units,
}

/// A congestion controller of one flow.
pub trait Controller: Sized {
    /// Its parameters.
    type Config: Settings;
    /// A new flow; it starts at line rate.
    fn new(config: &Self::Config, env: &Env) -> Self;
    /// Takes notice of an ACK or NACK.
    fn on_ack(&mut self, config: &Self::Config, env: &Env, ack: &Ack<'_>);
    /// The sending rate at `now` in bits per second. Timers are caught up here,
    /// so no controller needs events of its own.
    fn rate(&mut self, config: &Self::Config, env: &Env, now: Ps) -> f64;
}

/// Default ECN marking for a transport, given for one link rate and scaled to others.
#[derive(Clone, Copy, Debug)]
pub struct EcnDefault {
    /// The rate the thresholds are given for.
    pub rate: Rate,
    /// See [`crate::scenario::Ecn`].
    pub kmin: Bytes,
    /// See [`crate::scenario::Ecn`].
    pub kmax: Bytes,
    /// See [`crate::scenario::Ecn`].
    pub pmax: f64,
}

/// Reports one rule: whether it holds, the key, what is wrong and what would be right.
pub type Rule<'a> = &'a mut dyn FnMut(bool, &str, String);

/// What the simulator asks of every transport's parameters.
pub trait Settings {
    /// Fills in defaults that scale with the host link's rate.
    fn resolve(&mut self, line_rate: Rate);
    /// Checks values.
    fn check(&self, rule: Rule<'_>);
    /// Lowest rate.
    fn min_rate(&self) -> Rate;
    /// Whether bytes in flight are limited by a window ("+w").
    fn window(&self) -> bool;
    /// Bytes the transport adds to the 48 B header of a data packet.
    fn extra_header(&self) -> u64 {
        0
    }
    /// Size of an ACK on the wire.
    fn ack_bytes(&self) -> u64 {
        60
    }
    /// Whether switches write telemetry into data packets.
    fn int(&self) -> bool {
        false
    }
    /// Whether a changed rate also moves a packet that is already waiting.
    fn respace(&self) -> bool {
        false
    }
    /// Class of ACKs in the sending NIC.
    fn host_ack_class(&self) -> Class {
        Class::Data
    }
    /// Default ECN marking, `None` for none: RED-like, 100 KB to 400 KB at 25 Gb/s.
    fn ecn_defaults(&self) -> Option<EcnDefault> {
        Some(EcnDefault { rate: Rate(25_000_000_000), kmin: Bytes(100_000), kmax: Bytes(400_000), pmax: 0.2 })
    }
}

/// A rule shared by several transports.
fn check_min_rate(min_rate: Rate, rule: Rule<'_>) {
    rule(min_rate.0 > 0, "min_rate", "must be above 0, such as \"1Gbps\"".into());
}

macro_rules! transports {
    (
        simulated { $($(#[$doc:meta])* $name:ident($module:ident) = $tag:literal,)+ }
        kernel { $($(#[$kdoc:meta])* $kname:ident = $ktag:literal,)+ }
    ) => {
        tagged! {
            /// Which congestion control the hosts run.
            pub enum Config {
                $($(#[$doc])* $name($module::Config) = $tag,)+
                $($(#[$kdoc])* $kname(kernel::Config) = $ktag,)+
            }
        }

        /// What the simulator has.
        pub const SIMULATED: &[&str] = &[$($tag),+];

        /// The state of one flow's controller.
        #[derive(Clone, Debug)]
        pub enum Cc {
            $($(#[$doc])* $name($module::State),)+
        }

        impl Config {
            /// What the simulator asks of every transport.
            pub fn settings(&self) -> &dyn Settings {
                match self { $(Config::$name(c) => c,)+ $(Config::$kname(c) => c,)+ }
            }

            /// Its `kind`.
            pub fn kind(&self) -> &'static str {
                match self { $(Config::$name(_) => $tag,)+ $(Config::$kname(_) => $ktag,)+ }
            }

            /// Fills in defaults that scale with the host link's rate.
            pub fn resolve(&mut self, line_rate: Rate) {
                match self {
                    $(Config::$name(c) => c.resolve(line_rate),)+
                    $(Config::$kname(c) => c.resolve(line_rate),)+
                }
            }

            /// Controller of a new flow.
            pub fn start(&self, env: &Env) -> Cc {
                match self {
                    $(Config::$name(c) => Cc::$name($module::State::new(c, env)),)+
                    $(Config::$kname(_) => unreachable!("a simulation refuses what only the kernel has"),)+
                }
            }
        }

        impl Cc {
            /// See [`Controller::on_ack`].
            #[inline]
            pub fn on_ack(&mut self, config: &Config, env: &Env, ack: &Ack<'_>) {
                match (self, config) {
                    $((Cc::$name(s), Config::$name(c)) => s.on_ack(c, env, ack),)+
                    _ => unreachable!("all flows run the scenario's transport"),
                }
            }

            /// See [`Controller::rate`].
            #[inline]
            pub fn rate(&mut self, config: &Config, env: &Env, now: Ps) -> f64 {
                match (self, config) {
                    $((Cc::$name(s), Config::$name(c)) => s.rate(c, env, now),)+
                    _ => unreachable!("all flows run the scenario's transport"),
                }
            }
        }
    };
}

transports! {
    simulated {
        /// DCQCN.
        Dcqcn(dcqcn) = "dcqcn",
        /// TIMELY.
        Timely(timely) = "timely",
        /// DCTCP: in the simulator in the HPCC simulator's rate form, on Linux the kernel's.
        Dctcp(dctcp) = "dctcp",
        /// HPCC.
        Hpcc(hpcc) = "hpcc",
    }
    kernel {
        /// TCP CUBIC.
        Cubic = "cubic",
        /// TCP BBR.
        Bbr = "bbr",
        /// TCP Reno.
        Reno = "reno",
    }
}

/// What the Linux cluster has.
pub const ON_LINUX: &[&str] = &["cubic", "bbr", "reno", "dctcp"];
