//! The command line of onrampd, the daemon. From it come its manual pages and completions, too.

use crate::config::quantity::{Life, Time};
use crate::{DEFAULT_CONFIG, DEFAULT_STATE_DIR};
use clap::{Args, Parser, Subcommand};
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

/// On-Ramp's host agent: holds flows at the sender while their path's one-way delay is high.
#[derive(Parser)]
#[command(version, after_help = "All other commands are onrampctl's, and started as such: see onrampctl --help")]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Roles in which the program is started.
#[derive(Subcommand)]
pub enum Command {
    /// Put everything in place, print "ready", and undo it all on SIGINT or SIGTERM.
    /// SIGHUP reloads the configuration; flows keep their state.
    Run {
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Be a fleet's coordinator, until SIGINT or SIGTERM. Needs no privileges.
    Coordinator {
        /// Configuration of this host's agent, whose [fleet] says all that follows. Default: /etc/onrampd/onrampd.toml.
        #[arg(long, value_name = "FILE", conflicts_with = "folder")]
        config: Option<PathBuf>,
        /// Without an agent: the fleet's folder, where the folder `coordinator` of the founder's is copied to.
        #[arg(long, value_name = "DIR")]
        folder: Option<PathBuf>,
        /// Where hosts connect. Default: at this host's address and port among the configuration's coordinators.
        #[arg(long, value_name = "ADDRESS:PORT", value_parser = listen)]
        listen: Option<SocketAddr>,
        /// Its terms.
        #[command(flatten)]
        terms: CoordinatorArguments,
    },
    /// Take part in a fleet without eBPF and without privileges: only measure, hold nothing.
    /// Probes are stamped by the kernel's sockets.
    Measure {
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
    },
    /// Hold nothing on this host any more, at once, with an agent or without, until `onrampd on` or a reboot.
    Off {
        /// Where the agent remembers what it has done.
        #[arg(long, value_name = "DIR", default_value = DEFAULT_STATE_DIR)]
        state_dir: PathBuf,
    },
    /// End `onrampd off`: an agent that is to hold packets does so again within a second.
    On {
        /// Where the agent remembers what it has done.
        #[arg(long, value_name = "DIR", default_value = DEFAULT_STATE_DIR)]
        state_dir: PathBuf,
    },
    /// Take away what an agent that is no more has left: the gate, filters, the device onramp0, small
    /// segments. Packets pass all of it anyway; it needs neither an agent nor a configuration.
    Undo {
        /// Where the agent remembers what it has done.
        #[arg(long, value_name = "DIR", default_value = DEFAULT_STATE_DIR)]
        state_dir: PathBuf,
        /// Only give interfaces their segments again; the next agent takes the rest over.
        #[arg(long)]
        segments: bool,
    },
    /// Commands of onrampctl.
    #[command(external_subcommand)]
    Client(Vec<OsString>),
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "is no address with a port, such as 10.0.0.1:9472".into())
}

/// A coordinator without a configuration.
#[derive(Args)]
pub struct CoordinatorArguments {
    /// How many others each host probes.
    #[arg(long, requires = "folder", value_name = "N", default_value_t = onramp_clock::mesh::PEERS)]
    pub probes: usize,
    /// Time between two corrections.
    #[arg(long, requires = "folder", value_name = "TIME", default_value = "2s")]
    pub window: Time,
    /// Time between two pairs of probes to one host.
    #[arg(long, requires = "folder", value_name = "TIME", default_value = "8ms")]
    pub interval: Time,
    /// A host's certificate expires after so long, unless it is renewed.
    #[arg(long, requires = "folder", value_name = "TIME", default_value = "90d")]
    pub certificate_life: Life,
    /// A pair's key signs for so long; then the next one does.
    #[arg(long, requires = "folder", value_name = "TIME", default_value = "1d")]
    pub key_life: Life,
}
