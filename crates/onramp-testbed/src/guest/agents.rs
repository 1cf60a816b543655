//! The On-Ramp agent on every host that has it.

use super::cluster::Cluster;
use super::{Result, at};
use crate::plan::address;
use crate::sys;
use onramp_sim::scenario::{OnRampVersion, Scenario};
use onramp_sim::topology::Topology;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
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
    all: Vec<Agent>,
}

/// Starts the agents and waits until each has its gate in place.
pub fn start(program: &Path, scenario: &Scenario, topology: &Topology, cluster: &Cluster) -> Result<Agents> {
    fs::create_dir_all(FOLDER).map_err(at(FOLDER))?;
    let key = format!("{FOLDER}/key");
    fs::write(&key, format!("{KEY}\n")).map_err(at(&key))?;
    // The agent refuses a key that others can read.
    fs::set_permissions(&key, Permissions::from_mode(0o600)).map_err(at(&key))?;
    let names = scenario.linux.iter().flat_map(|l| l.onramp_hosts.iter().flatten());
    let hosts: BTreeSet<u32> = names.map(|name| topology.host_named(name)).collect::<std::result::Result<_, _>>()?;
    let mut agents = Agents::default();
    for &host in &hosts {
        let file = format!("{FOLDER}/{host}.toml");
        fs::write(&file, config(scenario, topology, host, &hosts, &key)).map_err(at(&file))?;
        let mut command = Command::new(program);
        let log = File::create(log(host)).map_err(at(log(host)))?;
        command.args(["run", "--config", &file]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        sys::start_in(&mut command, cluster.nodes[host as usize].namespace.as_raw_fd());
        let process = command.spawn().map_err(at(program.display()))?;
        agents.all.push(Agent { host, process });
    }
    for agent in &mut agents.all {
        let mut line = String::new();
        let output = agent.process.stdout.as_mut().expect("it is piped");
        BufReader::new(output).read_line(&mut line).map_err(at("agent"))?;
        if line.trim() != "ready" {
            return Err(format!(
                "the agent of {} did not get ready: {}",
                topology.name(agent.host),
                complaint(agent.host)
            ));
        }
    }
    Ok(agents)
}

/// The configuration of one host's agent.
fn config(scenario: &Scenario, topology: &Topology, host: u32, hosts: &BTreeSet<u32>, key: &str) -> String {
    let rate = topology.ports()[topology.ports_of(host)[0] as usize].rate;
    let onramp = &scenario.onramp;
    let linux = scenario.linux.as_ref().expect("a scenario for Linux has this section");
    let version = match onramp.version {
        OnRampVersion::Final => "final",
        OnRampVersion::Strawman => "strawman",
    };
    let peers = hosts.iter().filter(|peer| **peer != host).map(|peer| toml::Value::from(address(*peer).to_string()));
    let entries: [(&str, toml::Value); 19] = [
        ("mode", "enforce".into()),
        ("interface", "eth0".into()),
        ("parent", "1:1".into()),
        ("threshold", onramp.threshold.expect("it is resolved").to_string().into()),
        ("max_pause", onramp.max_pause.to_string().into()),
        ("gain", onramp.gain.into()),
        ("beta_start", onramp.beta_start.into()),
        ("version", version.into()),
        // The link cuts large segments up, so their bytes leave one after another.
        ("line_rate", rate.to_string().into()),
        ("or_ack_interval", linux.or_ack_interval.to_string().into()),
        ("gate.cut", linux.cut_segments.into()),
        ("port", i64::from(PORT).into()),
        ("clock", "shared".into()),
        ("key_file", key.into()),
        ("socket", socket(host).into()),
        ("state_dir", format!("{FOLDER}/{host}.state").into()),
        // Two dozen agents share one memory; 16 Ki stamps are 256 MiB under way.
        ("max_flows", 16_384.into()),
        ("max_stamps", 16_384.into()),
        ("peers", peers.collect::<Vec<_>>().into()),
    ];
    entries.into_iter().map(|(key, value)| format!("{key} = {value}\n")).collect()
}

fn log(host: u32) -> String {
    format!("{FOLDER}/{host}.log")
}

/// What an agent has complained of, in one line.
fn complaint(host: u32) -> String {
    let text = fs::read_to_string(log(host)).unwrap_or_default();
    if text.is_empty() { "it said nothing".into() } else { text.lines().collect::<Vec<_>>().join(" | ") }
}

fn socket(host: u32) -> String {
    format!("{FOLDER}/{host}.sock")
}

/// What an agent tells on its socket, which spares a process for each question.
fn status(host: u32) -> Result<Value> {
    let ask = || {
        let mut stream = UnixStream::connect(socket(host))?;
        stream.write_all(b"{\"get\":\"status\"}\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    ask().map_err(|e: std::io::Error| format!("status of the agent at {}: {e}", address(host)))
}

impl Agents {
    /// Whether a host has an agent.
    pub fn is_on(&self, host: u32) -> bool {
        self.all.iter().any(|agent| agent.host == host)
    }

    /// The latest one-way delay from one host to another and its age, both in
    /// nanoseconds, if the sender's agent has learnt one.
    pub fn one_way_delay(&self, src: u32, dst: u32) -> Result<Option<(i64, u64)>> {
        let status = status(src)?;
        let peer = address(dst).to_string();
        let path = status["paths"].as_array().and_then(|all| all.iter().find(|path| path["peer"] == *peer));
        let owd = path.map(|path| &path["owd"]);
        Ok(owd.and_then(|owd| Some((owd["now_ns"].as_i64()?, owd["age_ns"].as_u64()?))))
    }

    /// The "onramp_stats" part of summary.json: sums over all agents.
    pub fn stats(&self) -> Result<Value> {
        let mut sums = Sums::new();
        for agent in &self.all {
            sums.add(&status(agent.host)?);
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
                let said = complaint(agent.host);
                return Err(format!("the agent at {} ended with {status}: {said}", address(agent.host)));
            }
        }
        Ok(())
    }
}

/// What is added up over agents.
#[derive(Debug)]
struct Sums {
    /// In the order of [`COUNTERS`].
    counters: [u64; COUNTERS.len()],
    held: u64,
    held_ns: u64,
    or_acks: u64,
    owd_sum_ns: f64,
    owd_min_ns: f64,
}

/// What is passed on of an agent's counters, under the same names.
const COUNTERS: [&str; 9] = [
    "or_acks_sent",
    "or_acks_sent_bytes",
    "or_acks_failed",
    "or_acks_malformed",
    "or_acks_unknown_peer",
    "or_acks_bad_tag",
    "or_acks_no_stamp",
    "stamped",
    "table_full",
];

impl Sums {
    fn new() -> Self {
        let counters = [0; COUNTERS.len()];
        Self { counters, held: 0, held_ns: 0, or_acks: 0, owd_sum_ns: 0.0, owd_min_ns: f64::INFINITY }
    }

    fn add(&mut self, status: &Value) {
        let each = |list: &Value| list.as_array().cloned().unwrap_or_default();
        for (sum, name) in self.counters.iter_mut().zip(COUNTERS) {
            *sum += status["counters"][name].as_u64().unwrap_or_default();
        }
        for gate in each(&status["interfaces"]).iter().flat_map(|i| each(&i["gates"])) {
            self.held += gate["held"].as_u64().unwrap_or_default();
            self.held_ns += gate["held_ns"].as_u64().unwrap_or_default();
        }
        for path in each(&status["paths"]) {
            let or_acks = path["or_acks"].as_u64().unwrap_or_default();
            self.or_acks += or_acks;
            if let (Some(mean), Some(min)) = (path["owd"]["mean_ns"].as_f64(), path["owd"]["min_ns"].as_f64()) {
                self.owd_sum_ns += or_acks as f64 * mean;
                self.owd_min_ns = self.owd_min_ns.min(min);
            }
        }
    }

    fn to_json(&self) -> Value {
        let owd = (self.or_acks > 0).then(|| {
            let mean = self.owd_sum_ns / self.or_acks as f64;
            json!({"mean": mean / 1000.0, "min": self.owd_min_ns / 1000.0, "samples": self.or_acks})
        });
        let mut all = json!({
            "or_acks": self.or_acks,
            "pauses": self.held,
            "paused_us": self.held_ns as f64 / 1000.0,
            "owd_us": owd.unwrap_or_else(|| json!({"samples": 0})),
        });
        for (name, sum) in COUNTERS.iter().zip(self.counters) {
            all[name] = sum.into();
        }
        all
    }
}
