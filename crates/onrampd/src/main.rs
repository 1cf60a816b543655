//! The command line of onrampd, the daemon. All other commands are onrampctl's.

use clap::{Args, Parser, Subcommand};
use onramp_config::Mistake;
use onrampd::agent::undo;
use onrampd::config::quantity::{Life, Time};
use onrampd::config::{Config, Fleet, Mesh, check_life};
use onrampd::fleet::serve;
use onrampd::worker::drop_capabilities;
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
    /// Be a fleet's coordinator, until SIGINT or SIGTERM. Needs no privileges.
    Coordinator {
        /// Configuration of this host's agent: its [fleet] says all that follows.
        #[arg(long, value_name = "FILE", required_unless_present = "folder",
              conflicts_with_all = ["folder", "probes", "window", "interval", "certificate_life"])]
        config: Option<PathBuf>,
        /// Without an agent: the fleet's folder, where the folder `coordinator` of the founder's is copied to.
        #[arg(long, value_name = "DIR", requires = "listen")]
        folder: Option<PathBuf>,
        /// Where hosts connect. Default: at this host's address and port among the configuration's coordinators.
        #[arg(long, value_name = "ADDRESS:PORT")]
        listen: Option<SocketAddr>,
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

#[derive(Args)]
struct CoordinatorArguments {
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
}

/// What a coordinator goes by.
struct Coordination {
    listen: SocketAddr,
    folder: PathBuf,
    mesh: Mesh,
    certificate_life: u64,
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
        Command::Coordinator { config, folder, listen, terms } => {
            let coordination = match config {
                Some(file) => configured(&file, listen),
                None => given(folder, listen, &terms),
            };
            match coordination {
                Ok(coordination) => coordinate(coordination).map_or_else(fail, |()| ExitCode::SUCCESS),
                Err(wrong) => wrong,
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
    match with_fleet(file) {
        Ok((config, _)) => agent::measure(&config).map_or_else(fail, |()| ExitCode::SUCCESS),
        Err(wrong) => wrong,
    }
}

/// The configuration of a host that is in a fleet.
fn with_fleet(file: &Path) -> Result<(Config, Fleet), ExitCode> {
    let config = Config::open(file).map_err(|errors| {
        errors.iter().for_each(|e| eprintln!("{e}"));
        ExitCode::from(2)
    })?;
    match config.fleet.clone() {
        Some(fleet) => Ok((config, fleet)),
        None => Err(wrong(file.display(), "has no [fleet]: `onrampctl init` or `onrampctl join` writes one")),
    }
}

fn configured(file: &Path, listen: Option<SocketAddr>) -> Result<Coordination, ExitCode> {
    let (_, fleet) = with_fleet(file)?;
    if fleet.listen.is_some() {
        let twice = "fleet.listen: has the agent run the coordinator: remove it, for one with a process of its own";
        return Err(wrong(file.display(), twice));
    }
    let nowhere = "fleet.coordinators: none is at this host's address: add it, or give --listen";
    let listen = listen.or_else(|| fleet.own_coordinator()).ok_or_else(|| wrong(file.display(), nowhere))?;
    let Fleet { folder, mesh, certificate_life, .. } = fleet;
    Ok(Coordination { listen, folder, mesh, certificate_life })
}

fn given(
    folder: Option<PathBuf>,
    listen: Option<SocketAddr>,
    terms: &CoordinatorArguments,
) -> Result<Coordination, ExitCode> {
    let (Some(folder), Some(listen)) = (folder, listen) else {
        return Err(wrong("onrampd", "--folder and --listen are needed, or --config"));
    };
    let mesh = Mesh { probes: terms.probes, window: terms.window.0, interval: terms.interval.0 };
    let certificate_life = terms.certificate_life.0;
    mesh.check()
        .and_then(|()| check_life(certificate_life))
        .map_err(|Mistake { key, message }| wrong("onrampd", format!("--{}: {message}", key.replace('_', "-"))))?;
    Ok(Coordination { listen, folder, mesh, certificate_life })
}

fn coordinate(Coordination { listen, folder, mesh, certificate_life }: Coordination) -> io::Result<()> {
    let (signals, stop) = UnixStream::pair()?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::low_level::pipe::register(signal, signals.try_clone()?)?;
    }
    let mut server = serve::Server::open(listen, &folder, mesh, certificate_life)?;
    // From here on it reads what others send.
    drop_capabilities()?;
    agent::ready();
    server.run(&stop, agent::alive)
}

/// Says what is wrong with arguments or the configuration.
fn wrong(what: impl Display, why: impl Display) -> ExitCode {
    eprintln!("{what}: {why}");
    ExitCode::from(2)
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
