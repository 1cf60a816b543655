//! The host's side: finds a kernel, starts it, passes on what it says.

mod arguments;
mod kernel;
mod machine;
mod processor;

use crate::task::{Said, Task, Work};
use arguments::{Arguments, Command};
use onramp_sim::Scenario;
use onramp_sim::scenario::Substrate;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Error in one line, and the exit status.
pub struct Failure {
    message: String,
    status: i32,
}

impl Failure {
    /// Something the user can put right.
    fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 2 }
    }

    /// Something that went wrong while running.
    fn run(message: impl Into<String>) -> Self {
        Self { message: message.into(), status: 1 }
    }
}

/// Does what the command line says.
pub fn main() -> ! {
    crate::sys::watch_for_stop();
    let given: Vec<String> = std::env::args().skip(1).collect();
    if given.iter().any(|argument| argument == "--help" || argument == "-h") {
        println!("{}", arguments::USAGE);
        std::process::exit(0);
    }
    let status = arguments::parse(given.into_iter()).and_then(|arguments| run(&arguments));
    let status = status.unwrap_or_else(|failure| {
        eprintln!("{}", failure.message);
        failure.status
    });
    std::process::exit(status)
}

fn run(arguments: &Arguments) -> Result<i32, Failure> {
    if arguments.tied {
        crate::sys::end_with_parent().map_err(|e| Failure::run(format!("prctl: {e}")))?;
    }
    let kernel = kernel::find()?;
    if let Command::Kernel = arguments.command {
        println!("{}", kernel.display());
        return Ok(0);
    }
    let scenario = load(arguments)?;
    let agent = if scenario.onramp.enabled { Some(agent()?) } else { None };
    let base = std::path::absolute(&arguments.base).map_err(|e| in_folder(&arguments.base, &e))?;
    let nodes = scenario_nodes(&scenario, &base)?;
    let _processor = processor::take();
    let task = |traced: &[u64], work| Task {
        scenario: scenario.to_toml(),
        base: base.clone(),
        agent: agent.clone(),
        traced: traced.to_vec(),
        work,
    };
    match &arguments.command {
        Command::Kernel => unreachable!("answered above"),
        Command::Run { out, traced, jobs } => {
            std::fs::create_dir_all(out).map_err(|e| in_folder(out, &e))?;
            let tell = |said: &Said| {
                let line = serde_json::to_string(said).expect("all it says is JSON");
                writeln!(std::io::stdout(), "{line}").and_then(|()| std::io::stdout().flush())
            };
            machine::run(&kernel, out, &task(traced, Work::Run(jobs.clone())), nodes, scenario.seed, &tell)
        }
        Command::Exec { jobs } => {
            let folder = machine::Temporary::new().map_err(|e| Failure::run(format!("temporary folder: {e}")))?;
            let status =
                machine::run(&kernel, &folder.0, &task(&[], Work::Exec(jobs.clone())), nodes, scenario.seed, &|_| {
                    Ok(())
                })?;
            print_outputs(&folder.0, jobs);
            Ok(status)
        }
    }
}

/// The last command's output goes to standard output as it is; that of the others
/// to standard error, with their host before each line.
fn print_outputs(folder: &Path, jobs: &[crate::task::Job]) {
    for (i, job) in jobs.iter().enumerate() {
        let text = std::fs::read_to_string(folder.join(format!("{i}.out"))).unwrap_or_default();
        if i + 1 == jobs.len() {
            print!("{text}");
        } else {
            text.lines().for_each(|line| eprintln!("{}: {line}", job.host));
        }
    }
}

fn load(arguments: &Arguments) -> Result<Scenario, Failure> {
    let file = &arguments.scenario;
    let text = std::fs::read_to_string(file).map_err(|e| in_folder(file, &e))?;
    let name = file.display().to_string();
    Scenario::load_for(Some(Substrate::Linux), &text, &name, &arguments.base, &[])
        .map(|loaded| loaded.scenario)
        .map_err(|errors| Failure::usage(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")))
}

/// Hosts and switches of a scenario.
fn scenario_nodes(scenario: &Scenario, base: &Path) -> Result<usize, Failure> {
    let topology = onramp_topology::build(&scenario.network, base).map_err(|m| Failure::usage(m.message))?;
    Ok(topology.nodes())
}

/// The agent's program: `ONRAMPD`, or beside this one.
fn agent() -> Result<PathBuf, Failure> {
    let named = std::env::var_os("ONRAMPD").map(PathBuf::from);
    let beside = || Some(std::env::current_exe().ok()?.with_file_name("onrampd"));
    let found = named.or_else(beside).filter(|path| path.is_file());
    let found = found.and_then(|path| std::fs::canonicalize(path).ok());
    found.ok_or_else(|| Failure::usage("no agent: build onrampd, or name its program in ONRAMPD"))
}

fn in_folder(path: &Path, error: &std::io::Error) -> Failure {
    Failure::usage(format!("{}: {error}", path.display()))
}
