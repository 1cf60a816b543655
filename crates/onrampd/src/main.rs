//! The command line of onrampd.

use clap::{Parser, Subcommand};
use onrampd::config::Config;
use onrampd::protocol::Client;
use onrampd::{agent, status};
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// On-Ramp's host agent: holds flows at the sender while their path's one-way delay is high.
#[derive(Parser)]
#[command(version)]
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
    /// Say what is wrong with a configuration, one line a mistake.
    CheckConfig {
        /// Configuration (TOML).
        file: PathBuf,
    },
    /// Tell what the running agent measures and does. Needs no privileges.
    Status {
        /// One line of JSON.
        #[arg(long)]
        json: bool,
        /// Also the flows held longest.
        #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = "20")]
        flows: Option<usize>,
        /// The agent's socket.
        #[arg(long, value_name = "PATH", default_value = onrampd::DEFAULT_SOCKET)]
        socket: PathBuf,
    },
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
        Command::CheckConfig { file } => check_config(&file),
        Command::Status { json, flows, socket } => show_status(json, flows.unwrap_or(0), &socket)
            .map_or_else(|e| unreachable_agent(&socket, e), |()| ExitCode::SUCCESS),
    }
}

fn fail(e: impl Display) -> ExitCode {
    eprintln!("onrampd: {e}");
    ExitCode::FAILURE
}

fn unreachable_agent(socket: &Path, e: io::Error) -> ExitCode {
    fail(format!("no agent answers at {}: {e}", socket.display()))
}

fn check_config(file: &Path) -> ExitCode {
    match Config::open(file) {
        Ok(_) => ExitCode::SUCCESS,
        Err(errors) => {
            errors.iter().for_each(|e| eprintln!("{e}"));
            ExitCode::from(2)
        }
    }
}

fn show_status(json: bool, flows: usize, socket: &Path) -> io::Result<()> {
    let mut client = Client::connect(socket)?;
    if json {
        print!("{}", client.line(flows)?);
    } else {
        print!("{}", status::show(&client.status(flows)?));
    }
    Ok(())
}
