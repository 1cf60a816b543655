//! The On-Ramp agent on every host that has it.

use super::cluster::Cluster;
use super::{Result, at};
use crate::plan::address;
use crate::sys;
use onramp_sim::scenario::{OnRampVersion, Scenario};
use onramp_sim::topology::Topology;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Folder of the agents' configurations and sockets.
const FOLDER: &str = "/run/onramp";
/// UDP port that OR-ACKs go to.
const PORT: u16 = 9471;
/// What all agents sign OR-ACKs with: 16 bytes, in hexadecimal digits.
const KEY: &str = "6f6e2d72616d702d746573746265642d";

/// An agent and how to ask it.
#[derive(Debug)]
struct Agent {
    host: u32,
    process: Child,
}

/// All agents.
#[derive(Debug, Default)]
pub struct Agents {
    program: PathBuf,
    all: Vec<Agent>,
}

/// Starts the agents and waits until each has its gate in place.
pub fn start(program: &Path, scenario: &Scenario, topology: &Topology, cluster: &Cluster) -> Result<Agents> {
    fs::create_dir_all(FOLDER).map_err(at(FOLDER))?;
    let key = format!("{FOLDER}/key");
    fs::write(&key, format!("{KEY}\n")).map_err(at(&key))?;
    let names = scenario.linux.iter().flat_map(|l| l.onramp_hosts.iter().flatten());
    let hosts: BTreeSet<u32> = names.map(|name| topology.host_named(name)).collect::<std::result::Result<_, _>>()?;
    let mut agents = Agents { program: program.into(), all: Vec::new() };
    for &host in &hosts {
        let file = format!("{FOLDER}/{host}.toml");
        fs::write(&file, config(scenario, host, &hosts, &key)).map_err(at(&file))?;
        let mut command = Command::new(program);
        command.args(["run", "--config", &file]).stdin(Stdio::null()).stdout(Stdio::piped());
        sys::start_in(&mut command, cluster.nodes[host as usize].namespace.as_raw_fd());
        let process = command.spawn().map_err(at(program.display()))?;
        agents.all.push(Agent { host, process });
    }
    for agent in &mut agents.all {
        let mut line = String::new();
        let output = agent.process.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).map_err(at("agent"))?;
        if line.trim() != "ready" {
            return Err(format!("the agent of {} did not get ready: {}", topology.name(agent.host), line.trim()));
        }
    }
    Ok(agents)
}

/// The configuration of one host's agent.
fn config(scenario: &Scenario, host: u32, hosts: &BTreeSet<u32>, key: &str) -> String {
    let onramp = &scenario.onramp;
    let linux = scenario.linux.as_ref().expect("a scenario for Linux has this section");
    let version = match onramp.version {
        OnRampVersion::Final => "final",
        OnRampVersion::Strawman => "strawman",
    };
    let peers = hosts.iter().filter(|peer| **peer != host).map(|peer| toml::Value::from(address(*peer).to_string()));
    let entries: [(&str, toml::Value); 15] = [
        ("mode", "enforce".into()),
        ("interface", "eth0".into()),
        ("parent", "1:1".into()),
        ("threshold", onramp.threshold.expect("it is resolved").to_string().into()),
        ("max_pause", onramp.max_pause.to_string().into()),
        ("gain", onramp.gain.into()),
        ("beta_start", onramp.beta_start.into()),
        ("count_old_acks", onramp.count_old_acks.into()),
        ("version", version.into()),
        ("or_ack_interval", linux.or_ack_interval.to_string().into()),
        ("port", i64::from(PORT).into()),
        ("clock", "shared".into()),
        ("key_file", key.into()),
        ("socket", socket(host).into()),
        ("peers", peers.collect::<Vec<_>>().into()),
    ];
    entries.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

fn socket(host: u32) -> String {
    format!("{FOLDER}/{host}.sock")
}

impl Agents {
    /// The "onramp_stats" part of summary.json: sums over all agents.
    pub fn stats(&self) -> Result<Value> {
        let mut sums = Sums::default();
        for agent in &self.all {
            let mut command = Command::new(&self.program);
            let output = command.args(["status", "--json", "--socket", &socket(agent.host)]).output();
            let output = output.map_err(at(self.program.display()))?;
            let said = String::from_utf8_lossy(&output.stderr);
            let place = || format!("status of the agent at {}: {}", address(agent.host), said.trim());
            sums.add(&serde_json::from_slice(&output.stdout).map_err(at(place()))?);
        }
        Ok(sums.to_json())
    }

    /// Has the agents undo everything and end.
    pub fn stop(self) -> Result<()> {
        for agent in &self.all {
            sys::terminate(agent.process.id()).map_err(at("agent"))?;
        }
        for mut agent in self.all {
            let status = agent.process.wait().map_err(at("agent"))?;
            if !status.success() {
                return Err(format!("the agent at {} ended with {status}", address(agent.host)));
            }
        }
        Ok(())
    }
}

/// What is added up over agents.
#[derive(Debug, Default)]
struct Sums {
    counters: [u64; 4],
    owd: OneWayDelays,
}

/// One-way delays of all agents together.
#[derive(Debug, Default)]
struct OneWayDelays {
    samples: u64,
    sum_us: f64,
    max_us: f64,
}

/// What an agent's status calls its counters.
const COUNTERS: [&str; 4] = ["or_acks", "or_acks_sent", "pauses", "paused_ns"];

impl Sums {
    fn add(&mut self, status: &Value) {
        for (sum, name) in self.counters.iter_mut().zip(COUNTERS) {
            *sum += status["counters"][name].as_u64().unwrap_or_default();
        }
        let owd = &status["owd_us"];
        let samples = owd["samples"].as_u64().unwrap_or_default();
        self.owd.samples += samples;
        self.owd.sum_us += samples as f64 * owd["mean"].as_f64().unwrap_or_default();
        self.owd.max_us = self.owd.max_us.max(owd["max"].as_f64().unwrap_or_default());
    }

    fn to_json(&self) -> Value {
        let [or_acks, or_acks_sent, pauses, paused_ns] = self.counters;
        json!({
            "or_acks": or_acks,
            "or_acks_sent": or_acks_sent,
            "pauses": pauses,
            "paused_us": paused_ns as f64 / 1000.0,
            "owd_us": {
                "mean": self.owd.sum_us / self.owd.samples.max(1) as f64,
                "max": self.owd.max_us,
                "samples": self.owd.samples,
            },
        })
    }
}
