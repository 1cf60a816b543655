//! The command line of onrampd.

use clap::{Parser, Subcommand};
use onrampd::config::Config;
use onrampd::protocol::Client;
use onrampd::{agent, doctor, status, top};
use std::fmt::Display;
use std::io::{self, Write as _};
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
    /// Say for each requirement whether this host meets it, and how to mend what does not.
    /// Changes nothing.
    Doctor {
        /// Also look at what this configuration needs.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// JSON.
        #[arg(long)]
        json: bool,
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
    /// Watch paths and flows live. Needs no privileges.
    Top {
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
        Command::Doctor { config, json } => diagnose(config.as_deref(), json),
        Command::Status { json, flows, socket } => asked(&socket, show_status(json, flows.unwrap_or(0), &socket)),
        Command::Top { socket } => asked(&socket, top::run(&socket)),
    }
}

fn fail(e: impl Display) -> ExitCode {
    eprintln!("onrampd: {e}");
    ExitCode::FAILURE
}

/// The end of a command that asks the agent.
fn asked(socket: &Path, done: io::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has seen enough.
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(e) if e.raw_os_error().is_some() => fail(format!("no agent answers at {}: {e}", socket.display())),
        Err(e) => fail(e),
    }
}

fn diagnose(config: Option<&Path>, json: bool) -> ExitCode {
    let report = doctor::examine(config);
    let text = if json { serde_json::json!(report).to_string() + "\n" } else { report.text() };
    // A reader that has seen enough does not change the verdict.
    let _ = io::stdout().write_all(text.as_bytes());
    if report.ok { ExitCode::SUCCESS } else { ExitCode::FAILURE }
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
    let text = if json { client.line(flows)? } else { status::show(&client.status(flows)?) };
    io::stdout().write_all(text.as_bytes())
}
