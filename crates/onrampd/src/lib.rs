//! On-Ramp's host agent.
//!
//! It loads the eBPF programs of `datapath/bpf`, attaches them, installs the gate, keeps
//! peers and parameters in the maps, and undoes everything when it ends, or at its next
//! start if it could not. Packets never pass through it: if it dies, they flow as if
//! On-Ramp were not there within three seconds.
//!
//! Pure parts take the time as an argument and know no socket: [`bounds`], [`config`], [`effects`], [`policy`],
//! [`scope`], [`status`] but for its server, a fleet's coordinator. Edges are [`datapath`] (eBPF), [`gate`] and [`net`] (netlink),
//! [`status::server`] (the socket), [`sync`] (probes), [`log`] (standard error or journald), [`sys`] (unsafe system calls), and [`agent`],
//! which holds them together and which none of them knows.

#![deny(unsafe_code)]

pub mod abi;
pub mod agent;
pub mod bounds;
pub mod cli;
pub mod clock;
pub mod config;
pub mod datapath;
pub mod effects;
pub mod fleet;
pub mod gate;
pub mod log;
pub mod net;
pub mod operator;
pub mod policy;
pub mod scope;
pub mod status;
pub mod sync;
pub mod sys;
pub mod wait;
pub mod worker;

/// The configuration, unless a command names another.
pub const DEFAULT_CONFIG: &str = "/etc/onrampd/onrampd.toml";
/// Where `status` is answered, unless it is configured.
pub const DEFAULT_SOCKET: &str = "/run/onrampd/onrampd.sock";
/// Where what must be undone is remembered, unless it is configured.
pub const DEFAULT_STATE_DIR: &str = "/run/onrampd";
