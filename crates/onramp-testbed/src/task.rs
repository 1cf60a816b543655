//! Task of the guest, as the host writes it into the result folder.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Name of the task's file.
pub const TASK: &str = "task.json";
/// While a file of this name is there, the guest comes to an end.
pub const STOP: &str = "stop";
/// Parameter that the guest's kernel passes to the guest: where the result folder is on the host.
pub const FOLDER: &str = "ONRAMP_FOLDER";

/// Task of the guest.
#[derive(Debug, Serialize, Deserialize)]
pub struct Task {
    /// The scenario, resolved.
    pub scenario: String,
    /// Folder on the host that paths in the scenario are relative to.
    pub base: PathBuf,
    /// The agent's program on the host, if there is one.
    pub agent: Option<PathBuf>,
    /// Flows whose packets are captured, by number.
    pub traced: Vec<u64>,
    /// Work for the cluster.
    pub work: Work,
}

/// Work for the cluster.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Play the scenario's traffic, with commands beside it.
    Run(Vec<Job>),
    /// Run commands on hosts.
    Exec(Vec<Job>),
}

/// A shell command on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Name of the host.
    pub host: String,
    /// For `sh -c`.
    pub command: String,
}

impl std::str::FromStr for Job {
    type Err = String;

    /// Reads `h1: iperf3 -s`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\": write a host and a command, such as \"h1: iperf3 -s -1\"");
        let (host, command) = text.split_once(':').ok_or_else(wrong)?;
        let (host, command) = (host.trim().to_string(), command.trim().to_string());
        if host.is_empty() || command.is_empty() { Err(wrong()) } else { Ok(Self { host, command }) }
    }
}

/// Messages of the guest on its console, one line of JSON each.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// How far it is.
    Status(Status),
    /// The end: whether all was done, and of commands the last one's exit status.
    Done {
        /// False if it was asked to stop before.
        complete: bool,
        /// Exit status.
        status: i32,
    },
    /// Error in one line.
    Error(String),
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Estimate of the part that is done, from 0 to 1.
    pub share: f64,
    /// Virtual time since the first flow could arrive.
    pub simulated_us: f64,
    /// Packets that crossed a link, counted for each.
    pub packet_hops: u64,
    /// Flows that are complete.
    pub flows_done: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_a_host_and_a_command() {
        let job: Job = "h1: iperf3 -c 10.0.0.1 -B ::1".parse().unwrap();
        assert_eq!((job.host.as_str(), job.command.as_str()), ("h1", "iperf3 -c 10.0.0.1 -B ::1"));
        for wrong in ["iperf3", ": ls", "h1:"] {
            assert!(wrong.parse::<Job>().unwrap_err().contains("such as"), "{wrong}");
        }
    }
}
