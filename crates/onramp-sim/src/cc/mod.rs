//! Congestion control: one file each, all behind one trait.
//!
//! A controller sees what comes back (acknowledgements with the switches' feedback,
//! losses) and what is sent, and answers with a permit: a window and a rate. It
//! never sees the network, the NIC or On-Ramp.

pub mod custom;
pub mod dcqcn;
pub mod dctcp;
pub mod hpcc;
mod library;
pub mod nscc;
pub mod rccc;
pub mod rcp;
pub mod swift;
pub mod tcp;
pub mod timely;
pub mod xcp;

use crate::network::config::{AckClass, EcnDefault};
use crate::network::feedback::{self, Told, Written};
use onramp_config::units::{Bytes, Ps, Rate};
use onramp_config::{Rule, tagged};
pub use onramp_controller::{Env, Loss, Permit, Sent};
use onramp_workload::state::Encoder;

/// An ACK as the sender's controller sees it.
#[derive(Clone, Copy, Debug)]
pub struct Ack<'a> {
    /// Time of arrival, in picoseconds.
    pub now: Ps,
    /// Now minus the transmission of the acknowledged packet, in picoseconds.
    pub rtt: Ps,
    /// Part of `rtt` that packet and ACK waited in their hosts, as far as they tell, in picoseconds.
    pub endpoint: Ps,
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
    /// Bits of payload delivered per second over the last round trip; told with the
    /// ACK that ends one.
    pub delivery_rate: Option<f64>,
    /// Feedback of the switches on the acknowledged packet's path.
    pub written: Written<'a>,
}

/// A congestion controller of one flow.
pub trait Controller: Sized {
    /// Its parameters.
    type Config: Settings;
    /// A new flow.
    fn new(config: &Self::Config, env: &Env) -> Self;
    /// Takes notice of its path: so many switches.
    fn on_path(&mut self, _hops: u32) {}
    /// Takes notice of an ACK or NACK.
    fn on_ack(&mut self, config: &Self::Config, env: &Env, ack: &Ack<'_>);
    /// Takes notice of a loss.
    fn on_loss(&mut self, _config: &Self::Config, _env: &Env, _now: Ps, _loss: Loss) {}
    /// Takes notice of a packet that leaves.
    #[inline]
    fn on_sent(&mut self, _config: &Self::Config, _env: &Env, _sent: &Sent) {}
    /// Values that a packet that leaves tells the switches on its path.
    #[inline]
    fn tell(&self, _config: &Self::Config, _env: &Env) -> Told {
        Told::default()
    }
    /// Its credit, if its receiver grants any.
    fn credit(&mut self) -> Option<&mut rccc::Credit> {
        None
    }
    /// Limits on the flow at `now`. Timers are caught up here, so no controller needs events of its own.
    fn permit(&mut self, config: &Self::Config, env: &Env, now: Ps) -> Permit;
    /// Takes down all that it will look at, while nothing is in flight and all packets before `acked` are acknowledged.
    fn encode(&self, _config: &Self::Config, _env: &Env, _acked: u32, state: &mut Encoder) {
        state.refuse("a controller of a program's own cannot be compared");
    }
}

/// Parameters of a transport, as the simulator asks for them.
pub trait Settings {
    /// Fills in defaults that scale with the host link's rate.
    fn resolve(&mut self, _line_rate: Rate) {}
    /// Fills in defaults that scale with the network's longest base RTT, in picoseconds.
    fn resolve_rtt(&mut self, _base_rtt: Ps) {}
    /// Fills in defaults that depend on whether switches trim packets.
    fn resolve_trimming(&mut self, _trims: bool) {}
    /// Checks values.
    fn check(&self, _rule: Rule<'_>) {}
    /// Lowest rate; 0 if it knows none. Default 1 bit/s: a window has no rate of its own.
    fn min_rate(&self) -> Rate {
        Rate(1)
    }
    /// Credit that its receivers grant; by default none.
    fn credit(&self) -> Option<rccc::Config> {
        None
    }
    /// True if a window limits bytes in flight ("+w").
    fn window(&self) -> bool {
        true
    }
    /// How the controller of a flow failed, if one has: only those of libraries can.
    fn failure(&self) -> Option<String> {
        None
    }
    /// True if it is meant for reliable unordered delivery.
    fn unordered(&self) -> bool {
        false
    }
    /// True if it is told the number of switches on its path ([`Controller::on_path`]).
    fn counts_hops(&self) -> bool {
        false
    }
    /// Bytes the transport adds to the header of a data packet.
    fn extra_header(&self) -> u64 {
        0
    }
    /// Size of an ACK on the wire.
    fn ack_bytes(&self) -> u64 {
        60
    }
    /// Kind of feedback it reads.
    fn feedback(&self) -> feedback::Kind {
        feedback::Kind::Plain
    }
    /// True if a changed rate also moves a packet that is already waiting.
    fn respace(&self) -> bool {
        false
    }
    /// Class of ACKs in the sending NIC.
    fn host_ack_class(&self) -> AckClass {
        AckClass::Data
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
        tcp { $($(#[$tdoc:meta])* $tname:ident($tmodule:ident) = $ttag:literal $($kernel:literal)?,)+ }
    ) => {
        tagged! {
            /// Which congestion control hosts run.
            pub enum Config {
                $($(#[$doc])* $name($module::Config) = $tag,)+
                $($(#[$tdoc])* $tname(tcp::$tmodule::Config) = $ttag,)+
            }
        }

        /// Transports that the Linux cluster has.
        pub const ON_LINUX: &[&str] = &[$($({
            const _: &str = $kernel;
            $ttag
        },)?)+];

        /// Transports that the simulator has.
        pub const SIMULATED: &[&str] = &[$($tag,)+ $($ttag),+];

        /// The state of one flow's controller.
        #[derive(Debug)]
        pub enum Cc {
            $($(#[$doc])* $name($module::State),)+
        }

        impl Config {
            /// Its parameters, as the simulator asks for them.
            pub fn settings(&self) -> &dyn Settings {
                match self { $(Config::$name(c) => c,)+ $(Config::$tname(c) => c,)+ }
            }

            /// Its `kind`.
            pub fn kind(&self) -> &'static str {
                match self { $(Config::$name(_) => $tag,)+ $(Config::$tname(_) => $ttag,)+ }
            }

            /// Fills in defaults that scale with the host link's rate.
            pub fn resolve(&mut self, line_rate: Rate) {
                match self {
                    $(Config::$name(c) => c.resolve(line_rate),)+
                    $(Config::$tname(c) => c.resolve(line_rate),)+
                }
            }

            /// Fills in defaults that scale with the network's longest base RTT, in picoseconds.
            pub fn resolve_rtt(&mut self, base_rtt: Ps) {
                match self {
                    $(Config::$name(c) => c.resolve_rtt(base_rtt),)+
                    $(Config::$tname(c) => c.resolve_rtt(base_rtt),)+
                }
            }

            /// Fills in defaults that depend on whether switches trim packets.
            pub fn resolve_trimming(&mut self, trims: bool) {
                match self {
                    $(Config::$name(c) => c.resolve_trimming(trims),)+
                    $(Config::$tname(c) => c.resolve_trimming(trims),)+
                }
            }

            /// Controller of a new flow.
            pub fn start(&self, env: &Env) -> Cc {
                match self {
                    $(Config::$name(c) => Cc::$name(Controller::new(c, env)),)+
                    $(Config::$tname(_) => unreachable!("TCP's controllers belong to connections"),)+
                }
            }

            /// Its name in the kernel; `None` if the kernel does not have it.
            pub fn kernel_name(&self) -> Option<&'static str> {
                match self { $($(Config::$tname(_) => Some($kernel),)?)+ _ => None }
            }

            /// Its parameters are the kernel's defaults.
            pub fn is_as_in_the_kernel(&self) -> bool {
                match self { $(Config::$tname(c) => *c == Default::default(),)+ _ => false }
            }

            /// As a controller of TCP, if it is one.
            pub fn tcp(&self) -> Option<tcp::any::Config> {
                match self {
                    $(Config::$tname(c) => Some(tcp::any::Config::$tname(c.clone())),)+
                    _ => None,
                }
            }
        }

        impl Cc {
            /// See [`Controller::on_path`].
            pub fn on_path(&mut self, hops: u32) {
                match self { $(Cc::$name(s) => s.on_path(hops),)+ }
            }

            /// See [`Controller::on_ack`].
            #[inline]
            pub fn on_ack(&mut self, config: &Config, env: &Env, ack: &Ack<'_>) {
                match (self, config) {
                    $((Cc::$name(s), Config::$name(c)) => s.on_ack(c, env, ack),)+
                    _ => unreachable!("a flow keeps its transport"),
                }
            }

            /// See [`Controller::on_loss`].
            pub fn on_loss(&mut self, config: &Config, env: &Env, now: Ps, loss: Loss) {
                match (self, config) {
                    $((Cc::$name(s), Config::$name(c)) => s.on_loss(c, env, now, loss),)+
                    _ => unreachable!("a flow keeps its transport"),
                }
            }

            /// See [`Controller::on_sent`].
            #[inline]
            pub fn on_sent(&mut self, config: &Config, env: &Env, sent: &Sent) {
                match (self, config) {
                    $((Cc::$name(s), Config::$name(c)) => s.on_sent(c, env, sent),)+
                    _ => unreachable!("a flow keeps its transport"),
                }
            }

            /// See [`Controller::tell`].
            #[inline]
            pub fn tell(&self, config: &Config, env: &Env) -> Told {
                match (self, config) {
                    $((Cc::$name(s), Config::$name(c)) => s.tell(c, env),)+
                    _ => unreachable!("a flow keeps its transport"),
                }
            }

            /// See [`Controller::credit`].
            pub fn credit(&mut self) -> Option<&mut rccc::Credit> {
                match self { $(Cc::$name(s) => s.credit(),)+ }
            }

            /// See [`Controller::encode`].
            pub fn encode(&self, config: &Config, env: &Env, acked: u32, state: &mut Encoder) {
                match (self, config) {
                    $((Cc::$name(s), Config::$name(c)) => s.encode(c, env, acked, state),)+
                    _ => unreachable!("a flow keeps its transport"),
                }
            }

            /// See [`Controller::permit`].
            #[inline]
            pub fn permit(&mut self, config: &Config, env: &Env, now: Ps) -> Permit {
                match (self, config) {
                    $((Cc::$name(s), Config::$name(c)) => s.permit(c, env, now),)+
                    _ => unreachable!("a flow keeps its transport"),
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
        /// DCTCP in the HPCC simulator's rate form; TCP's own is `dctcp-tcp`.
        Dctcp(dctcp) = "dctcp",
        /// HPCC.
        Hpcc(hpcc) = "hpcc",
        /// Swift, TIMELY as it is deployed.
        Swift(swift) = "swift",
        /// NSCC, Ultra Ethernet's congestion control by ECN marks and delay at the sender.
        Nscc(nscc) = "nscc",
        /// RCCC, Ultra Ethernet's congestion control by credit of the receiver.
        Rccc(rccc) = "rccc",
        /// RCP: the rate that switches give.
        Rcp(rcp) = "rcp",
        /// XCP: a window that switches change.
        Xcp(xcp) = "xcp",
        /// A controller of the program that uses this library.
        Custom(custom) = "custom",
    }
    tcp {
        /// TCP NewReno.
        NewReno(newreno) = "newreno" "reno",
        /// TCP CUBIC.
        Cubic(cubic) = "cubic" "cubic",
        /// TCP BBR, version 1.
        Bbr(bbr) = "bbr" "bbr",
        /// TCP Vegas.
        Vegas(vegas) = "vegas" "vegas",
        /// DCTCP as TCP has it: a window, by RFC 8257.
        DctcpTcp(dctcp) = "dctcp-tcp" "dctcp",
        /// A controller of TCP of the program that uses this library.
        CustomTcp(custom) = "custom-tcp",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::NS;

    /// A 100 Gb/s host.
    pub(super) const ENV: Env = Env {
        line_rate: 100e9,
        base_rtt: 12_000 * NS,
        max_window: 150_000.0,
        payload: 1000,
        packet: 1048,
        int_units: onramp_controller::Units { tx: 512, queue: 320 },
    };

    /// An ACK up to packet `acked` of those before `next`.
    pub(super) fn at(now: Ps, rtt: Ps, ecn: bool, acked: u64, next: u64) -> Ack<'static> {
        let written = Written::Nothing;
        Ack {
            now,
            rtt,
            endpoint: 0,
            ecn,
            trimmed: false,
            acked,
            next,
            newly_acked: 1000,
            in_flight: 0,
            delivery_rate: None,
            written,
        }
    }

    #[test]
    fn the_window_shrinks_with_the_rate_and_is_never_nothing() {
        assert_eq!(ENV.permit(50e9, true), Permit { window: 75_000, rate: 50e9 });
        assert_eq!(ENV.permit(1.0, true).window, 1);
        assert_eq!(ENV.permit(1.0, false).window, u64::MAX);
    }
}
