//! The command line.

use super::Failure;
use crate::task::Job;
use std::path::{Path, PathBuf};

/// Answer to `--help`, and below every mistake.
pub const USAGE: &str = "usage: onramp-testbed run --scenario FILE [--base DIR] --out DIR [--trace FLOW,…] ['h1: COMMAND'…]   (beside the traffic)\n       \
    onramp-testbed exec --scenario FILE [--base DIR] 'h1: COMMAND'…   (the last one's end is the end)\n       \
    onramp-testbed kernel   (which kernel is used)";

/// Command to run.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Play a scenario.
    Run {
        /// Folder of the results.
        out: PathBuf,
        /// Flows whose packets are captured, by number.
        traced: Vec<u64>,
        /// Commands beside the traffic.
        jobs: Vec<Job>,
    },
    /// Run commands on the scenario's hosts.
    Exec {
        /// In this order.
        jobs: Vec<Job>,
    },
    /// Say which kernel is used.
    Kernel,
}

/// The command line, taken apart.
#[derive(Debug, PartialEq, Eq)]
pub struct Arguments {
    pub command: Command,
    pub scenario: PathBuf,
    /// Folder that paths in the scenario are relative to. Default: the scenario's.
    pub base: PathBuf,
    /// End when the calling process does.
    pub tied: bool,
}

/// Takes a command line apart.
pub fn parse(mut given: impl Iterator<Item = String>) -> Result<Arguments, Failure> {
    let wrong = |message: String| Failure::usage(format!("onramp-testbed: {message}\n{USAGE}"));
    let verb = given.next().unwrap_or_default();
    let (mut scenario, mut base, mut out, mut traced, mut tied) = (None, None, None, None, false);
    let mut rest = Vec::new();
    while let Some(argument) = given.next() {
        let slot = match argument.as_str() {
            "--scenario" => &mut scenario,
            "--base" => &mut base,
            "--out" => &mut out,
            "--trace" => &mut traced,
            "--tied" => {
                tied = true;
                continue;
            }
            _ if argument.starts_with("--") => return Err(wrong(format!("{argument}: no such option"))),
            _ => {
                rest.push(argument);
                continue;
            }
        };
        let value = given.next().ok_or_else(|| wrong(format!("{argument}: needs a value")))?;
        *slot = Some(PathBuf::from(value));
    }
    let traced = traced.map_or(Ok(Vec::new()), |list| flows(&list)).map_err(wrong)?;
    let jobs = || rest.iter().map(|job| job.parse()).collect::<Result<_, String>>().map_err(wrong);
    let command = match verb.as_str() {
        "run" => {
            let out = out.ok_or_else(|| wrong("--out DIR is missing".into()))?;
            Command::Run { out, traced, jobs: jobs()? }
        }
        "exec" if !rest.is_empty() => Command::Exec { jobs: jobs()? },
        "kernel" if rest.is_empty() => Command::Kernel,
        _ => return Err(wrong(format!("\"{verb}\" and what follows is no command"))),
    };
    if command != Command::Kernel && scenario.is_none() {
        return Err(wrong("--scenario FILE is missing".into()));
    }
    let scenario = scenario.unwrap_or_default();
    // A bare file name has an empty parent.
    let folder = || PathBuf::from(".").join(scenario.parent().unwrap_or(Path::new("")));
    let base = base.unwrap_or_else(folder);
    Ok(Arguments { command, scenario, base, tied })
}

/// Numbers of flows with commas.
fn flows(list: &Path) -> Result<Vec<u64>, String> {
    let list = list.to_string_lossy();
    let all: Result<_, _> = list.split(',').map(str::parse).collect();
    all.map_err(|_| format!("--trace {list}: write numbers of flows with commas, such as 17,18"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Option<Arguments> {
        parse(line.split('|').map(String::from)).ok()
    }

    #[test]
    fn commands_are_read() {
        let run = parsed("run|--scenario|a/s.toml|--out|o").unwrap();
        assert_eq!(run.command, Command::Run { out: "o".into(), traced: Vec::new(), jobs: Vec::new() });
        assert_eq!(run.base, PathBuf::from("./a"));
        let exec = parsed("exec|--scenario|s.toml|h1: ls|h0: ls").unwrap();
        assert!(matches!(exec.command, Command::Exec { jobs } if jobs.len() == 2));
        let traced = parsed("run|--scenario|s.toml|--out|o|--trace|17,4").unwrap();
        assert!(matches!(traced.command, Command::Run { traced, .. } if traced == [17, 4]));
        let beside = parsed("run|--scenario|s.toml|h0: ls|--out|o").unwrap();
        assert!(matches!(beside.command, Command::Run { jobs, .. } if jobs.len() == 1));
    }

    #[test]
    fn what_is_missing_or_unknown_is_refused() {
        for line in [
            "",
            "run|--out|o",
            "run|--scenario|s",
            "exec|--scenario|s",
            "run|--fast",
            "run|--out",
            "exec|h1",
            "run|--scenario|s|--out|o|--trace|all",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }
}
