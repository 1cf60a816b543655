//! onrampd, the daemon: what its commands do. All other commands are onrampctl's.

use clap::Parser as _;
use onramp_config::Mistake;
use onrampd::DEFAULT_CONFIG;
use onrampd::agent::{self, off, undo};
use onrampd::cli::{Cli, Command, CoordinatorArguments};
use onrampd::config::{Config, Fleet, Lives, Mesh};
use onrampd::fleet::serve;
use onrampd::log;
use onrampd::wait::signalled;
use onrampd::worker::drop_capabilities;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};

/// Settings of a coordinator.
struct Coordination {
    listen: SocketAddr,
    folder: PathBuf,
    mesh: Mesh,
    lives: Lives,
    coordinators: Vec<SocketAddr>,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::begin();
    match cli.command {
        Command::Run { config } => match agent::run(&config) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e @ agent::Error::Config(_)) => {
                eprintln!("{e}");
                ExitCode::from(2)
            }
            Err(e) => fail(e),
        },
        Command::Coordinator { config, folder, listen, terms } => {
            let coordination = match folder {
                Some(folder) => given(folder, listen, &terms),
                None => configured(&config.unwrap_or(DEFAULT_CONFIG.into()), listen),
            };
            match coordination {
                Ok(coordination) => coordinate(coordination).map_or_else(fail, |()| ExitCode::SUCCESS),
                Err(wrong) => wrong,
            }
        }
        Command::Measure { config } => measure(&config),
        Command::Off { state_dir } => match off::off(&state_dir, None) {
            Ok((interfaces, programs)) => {
                println!(
                    "nothing is held until `onrampd on`: told gates of {interfaces} interfaces and {programs} programs"
                );
                ExitCode::SUCCESS
            }
            Err(e) => fail(e),
        },
        Command::On { state_dir } => match off::on(&state_dir) {
            Ok(was_off) => {
                println!("{}", if was_off { "switched on" } else { "it was not switched off" });
                ExitCode::SUCCESS
            }
            Err(e) => fail(e),
        },
        Command::Undo { state_dir, segments } => {
            // Of the unit's own call nobody wants to read.
            if segments {
                return undo::segments_again(&state_dir).map_or_else(fail, |()| ExitCode::SUCCESS);
            }
            match undo::after_an_agent(&state_dir) {
                Ok(removed) => {
                    print!("{}", undone(&removed, &state_dir));
                    ExitCode::SUCCESS
                }
                Err(e) => fail(e),
            }
        }
        Command::Client(arguments) => {
            let e = process::Command::new(client()).args(arguments).exec();
            fail(format!("cannot start onrampctl, which has all other commands: {e}"))
        }
    }
}

fn undone(removed: &[String], state_dir: &Path) -> String {
    let mut said = if removed.is_empty() {
        "nothing of an agent was left on this host\n".to_owned()
    } else {
        format!("removed {}\nnothing of an agent is left on this host\n", removed.join("; "))
    };
    if undo::kept(state_dir) > 0 {
        let files = state_dir.join("effects-*");
        said += &format!("kept what traffic met, for onrampctl report: {}\n", files.display());
    }
    said
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
    let Fleet { folder, mesh, lives, coordinators, .. } = fleet;
    Ok(Coordination { listen, folder, mesh, lives, coordinators })
}

fn given(folder: PathBuf, listen: Option<SocketAddr>, terms: &CoordinatorArguments) -> Result<Coordination, ExitCode> {
    let listen = listen.ok_or_else(|| wrong("onrampd", "--listen is needed beside --folder"))?;
    let mesh = Mesh { probes: terms.probes, window: terms.window.0, interval: terms.interval.0 };
    let lives = Lives { certificate: terms.certificate_life.0, key: terms.key_life.0 };
    mesh.check()
        .and_then(|()| lives.check())
        .map_err(|Mistake { key, message }| wrong("onrampd", format!("--{}: {message}", key.replace('_', "-"))))?;
    Ok(Coordination { listen, folder, mesh, lives, coordinators: Vec::new() })
}

fn coordinate(Coordination { listen, folder, mesh, lives, coordinators }: Coordination) -> io::Result<()> {
    let stop = signalled(&[SIGINT, SIGTERM])?;
    let mut server = serve::Server::open(listen, &folder, mesh, lives)?.naming(coordinators);
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
