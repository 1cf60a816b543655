//! The command line of onrampd, the daemon. All other commands are onrampctl's.

use clap::{Parser, Subcommand};
use onramp_config::Mistake;
use onrampd::agent::undo;
use onrampd::config::quantity::{Life, Time};
use onrampd::config::{Config, Mesh, check_life};
use onrampd::fleet::serve;
use onrampd::{DEFAULT_CONFIG, DEFAULT_STATE_DIR, agent};
use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

/// On-Ramp's host agent: holds flows at the sender while their path's one-way delay is high.
#[derive(Parser)]
#[command(version, after_help = "All other commands are onrampctl's, and started as such: see onrampctl --help")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Put everything in place, print "ready", and undo it all on SIGINT or SIGTERM.
    /// SIGHUP reloads the configuration; flows keep their state.
    Run {
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
    },
    /// Be a fleet's coordinator, without an agent, until SIGINT or SIGTERM.
    Coordinator {
        /// The fleet's folder, copied from the host that founded it.
        #[arg(long, value_name = "DIR")]
        folder: PathBuf,
        /// Where hosts connect.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: SocketAddr,
        /// How many others each host probes.
        #[arg(long, value_name = "N", default_value_t = onramp_clock::mesh::PEERS)]
        probes: usize,
        /// Time between two corrections.
        #[arg(long, value_name = "TIME", default_value = "2s")]
        window: Time,
        /// Time between two pairs of probes to one host.
        #[arg(long, value_name = "TIME", default_value = "8ms")]
        interval: Time,
        /// A host's certificate expires after so long, unless it is renewed.
        #[arg(long, value_name = "TIME", default_value = "90d")]
        certificate_life: Life,
    },
    /// Take part in a fleet without eBPF and without privileges: only measure, hold nothing.
    /// Probes are stamped by the kernel's sockets.
    Measure {
        /// Configuration (TOML).
        #[arg(long, value_name = "FILE", default_value = DEFAULT_CONFIG)]
        config: PathBuf,
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
    #[command(external_subcommand)]
    Client(Vec<OsString>),
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Run { config } => match agent::run(&config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e @ agent::Error::Config(_)) => {
                eprintln!("{e}");
                ExitCode::from(2)
            }
            Err(e) => fail(e),
        },
        Command::Coordinator { folder, listen, probes, window, interval, certificate_life: Life(life) } => {
            let mesh = Mesh { probes, window: window.0, interval: interval.0 };
            match mesh.check().and_then(|()| check_life(life)).map(|()| coordinate(listen, &folder, mesh, life)) {
                Ok(Ok(())) => ExitCode::SUCCESS,
                Ok(Err(e)) => fail(e),
                Err(Mistake { key, message }) => {
                    eprintln!("onrampd: --{}: {message}", key.replace('_', "-"));
                    ExitCode::from(2)
                }
            }
        }
        Command::Measure { config } => measure(&config),
        Command::Undo { state_dir, segments } => {
            let done = if segments { undo::segments_again(&state_dir) } else { undo::after_an_agent(&state_dir) };
            done.map_or_else(fail, |()| ExitCode::SUCCESS)
        }
        Command::Client(arguments) => {
            let e = process::Command::new(client()).args(arguments).exec();
            fail(format!("cannot start onrampctl, which has all other commands: {e}"))
        }
    }
}

fn measure(file: &Path) -> ExitCode {
    match Config::open(file) {
        Ok(config) if config.fleet.is_some() => agent::measure(&config).map_or_else(fail, |()| ExitCode::SUCCESS),
        Ok(_) => {
            eprintln!("{}: has no [fleet]: `onrampctl init` or `onrampctl join` writes one", file.display());
            ExitCode::from(2)
        }
        Err(errors) => {
            errors.iter().for_each(|e| eprintln!("{e}"));
            ExitCode::from(2)
        }
    }
}

fn coordinate(listen: SocketAddr, folder: &Path, mesh: Mesh, life: u64) -> io::Result<()> {
    let (signals, stop) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::low_level::pipe::register(signal, signals.try_clone()?)?;
    }
    let mut server = serve::Server::open(listen, folder, mesh, life)?;
    agent::ready();
    server.run(&stop, agent::alive)
}

/// The client beside this program, or the one that is found as a command.
fn client() -> PathBuf {
    let beside = std::env::current_exe().map(|this| this.with_file_name("onrampctl")).ok();
    beside.filter(|path| path.exists()).unwrap_or_else(|| "onrampctl".into())
}

fn fail(e: impl Display) -> ExitCode {
    eprintln!("onrampd: {e}");
    ExitCode::FAILURE
}
