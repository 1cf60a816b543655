//! The On-Ramp agent on every host that has it.

use super::cluster::Cluster;
use super::{Result, at};
use crate::plan::{OR_ACK, address};
use crate::sys;
use onramp_config::units::NS;
use onramp_records::counters::{OnRampCounters, OwdCounters};
use onramp_sim::clock::Oscillator;
use onramp_sim::scenario::{OnRampVersion, Scenario, Stamps, Sync, Threshold};
use onramp_topology::Topology;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Folder of the agents' configurations, sockets, logs and process numbers, by host.
const FOLDER: &str = "/run/onramp";
/// Script that starts the coordinator of a fleet; beside it, its process number and its log.
const COORDINATOR: &str = "/run/onramp/coordinator";
/// Key that all agents sign OR-ACKs with: 16 bytes, in hexadecimal digits.
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
    /// Where their clocks are synchronised: whoever does it, on the first host.
    coordinator: Option<Child>,
    /// When they began, by the kernel's clock.
    since_ns: u64,
}

/// Starts the agents and waits until each has its gate in place.
pub fn start(program: &Path, scenario: &Scenario, topology: &Topology, cluster: &Cluster) -> Result<Agents> {
    fs::create_dir_all(FOLDER).map_err(at(FOLDER))?;
    let key = format!("{FOLDER}/key");
    fs::write(&key, format!("{KEY}\n")).map_err(at(&key))?;
    // The agent refuses a key that others can read.
    fs::set_permissions(&key, Permissions::from_mode(0o600)).map_err(at(&key))?;
    let has = scenario.onramp_hosts(topology);
    let hosts: BTreeSet<u32> = (0..topology.hosts() as u32).filter(|host| has[*host as usize]).collect();
    let mut agents = Agents { since_ns: sys::now_ns(), ..Agents::default() };
    if scenario.clock.sync == Sync::Huygens {
        agents.coordinator = found(program, scenario, topology, cluster, &hosts)?;
    }
    for &host in &hosts {
        let file = format!("{FOLDER}/{host}.toml");
        fs::write(&file, config(scenario, topology, host, &hosts, &key)).map_err(at(&file))?;
        let mut command = Command::new(program);
        let log = File::create(log(host)).map_err(at(log(host)))?;
        command.args(["run", "--config", &file]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        sys::start_in(&mut command, cluster.nodes[host as usize].namespace.as_raw_fd());
        let process = command.spawn().map_err(at(program.display()))?;
        write_number(&process, &format!("{FOLDER}/{host}.pid"))?;
        agents.all.push(Agent { host, process });
    }
    for agent in &mut agents.all {
        let who = format!("the agent of {}", topology.name(agent.host));
        wait_until_ready(&mut agent.process, &who, &log(agent.host))?;
    }
    Ok(agents)
}

fn wait_until_ready(process: &mut Child, who: &str, log: &str) -> Result<()> {
    let mut line = String::new();
    let output = process.stdout.as_mut().expect("it is piped");
    BufReader::new(output).read_line(&mut line).map_err(at(who))?;
    if line.trim() == "ready" { Ok(()) } else { Err(format!("{who} did not get ready: {}", complaint(log))) }
}

/// For commands that kill it, or have it read its configuration again.
fn write_number(process: &Child, file: &str) -> Result<()> {
    fs::write(file, process.id().to_string()).map_err(at(file))
}

/// Founds a fleet as an operator would: a coordinator on the first host, all hosts join.
/// Returns the coordinator, which can be started anew with the script of that name.
fn found(
    program: &Path,
    scenario: &Scenario,
    topology: &Topology,
    cluster: &Cluster,
    hosts: &BTreeSet<u32>,
) -> Result<Option<Child>> {
    let Some(&first) = hosts.first() else { return Ok(None) };
    let namespace = |host: u32| cluster.nodes[host as usize].namespace.as_raw_fd();
    let run = |host: u32, arguments: &[&str]| {
        let mut command = Command::new(program);
        let folder = fleet(host);
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let written = format!("{folder}/written.toml");
        command.args(arguments).args(["--interface", "eth0", "--config", &written, "--address"]);
        command.arg(address(host).to_string()).stdin(Stdio::null());
        sys::start_in(&mut command, namespace(host));
        let output = command.output().map_err(at(program.display()))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let complained = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            Ok(said)
        } else {
            Err(format!("{} cannot be in a fleet: {}", topology.name(host), complained.trim()))
        }
    };
    let said = run(first, &["init", "--uses", &hosts.len().to_string()])?;
    let token = said.split_whitespace().skip_while(|word| *word != "echo").nth(1).unwrap_or_default();
    let clock = &scenario.clock;
    let [window, interval] = [clock.window, clock.probe_interval].map(|span| span.expect("it is resolved"));
    let listen = coordinator(first);
    let script = format!(
        "exec {} coordinator --folder {}/fleet --listen {listen} --probes {} --window {window} --interval {interval}\n",
        program.display(),
        fleet(first),
        clock.peers.expect("it is resolved"),
    );
    fs::write(COORDINATOR, script).map_err(at(COORDINATOR))?;
    let mut command = Command::new("/bin/sh");
    let log = format!("{COORDINATOR}.log");
    let to = File::create(&log).map_err(at(&log))?;
    command.arg(COORDINATOR).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(to);
    sys::start_in(&mut command, namespace(first));
    let mut process = command.spawn().map_err(at("coordinator"))?;
    write_number(&process, &format!("{COORDINATOR}.pid"))?;
    wait_until_ready(&mut process, "the coordinator", &log)?;
    for &host in hosts.iter().skip(1) {
        run(host, &["join", token])?;
    }
    Ok(Some(process))
}

/// A host's folder for the fleet.
fn fleet(host: u32) -> String {
    format!("{FOLDER}/{host}.fleet")
}

fn coordinator(host: u32) -> String {
    format!("{}:9472", address(host))
}

/// Clock section of a host's agent's configuration.
fn clock(scenario: &Scenario, host: u32, hosts: &BTreeSet<u32>, key: &str) -> Vec<(&'static str, toml::Value)> {
    let clock = &scenario.clock;
    if clock.sync != Sync::Huygens {
        let peers = hosts.iter().filter(|peer| **peer != host);
        let peers = peers.map(|peer| toml::Value::from(address(*peer).to_string())).collect::<Vec<_>>();
        return vec![("clock", "shared".into()), ("key_file", key.into()), ("peers", peers.into())];
    }
    let first = *hosts.first().expect("this host is one");
    // The same clocks as in the simulator, but for their wander.
    let (offset, drift) = Oscillator::new(clock, scenario.seed, host).start();
    let noise = match clock.stamps {
        Some(Stamps::Software) => 300,
        Some(Stamps::Hardware) => 5,
        Some(Stamps::Exact) | None => 0,
    };
    let limit = clock.max_uncertainty.expect("it is resolved");
    vec![
        ("fleet.address", address(host).to_string().into()),
        ("fleet.coordinators", vec![toml::Value::from(coordinator(first))].into()),
        ("fleet.folder", format!("{}/fleet", fleet(host)).into()),
        ("fleet.max_uncertainty", limit.to_string().into()),
        ("test.clock_offset", format!("{offset}ns").into()),
        ("test.clock_drift", format!("{:.0}ppb", drift * 1e9).into()),
        ("test.stamp_noise", format!("{noise}ns").into()),
    ]
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
    let threshold = match onramp.threshold.expect("it is resolved") {
        Threshold::Fixed(threshold) => vec![("threshold", threshold.to_string().into())],
        Threshold::Auto => {
            let floor = onramp.threshold_floor.expect("it is resolved");
            vec![("threshold", "auto".into()), ("threshold_floor", floor.to_string().into())]
        }
    };
    let entries: [(&str, toml::Value); 17] = [
        ("mode", "enforce".into()),
        ("interface", "eth0".into()),
        ("parent", "1:1".into()),
        ("max_pause", onramp.max_pause.expect("it is resolved").to_string().into()),
        // As in the paper and the simulator: whatever comes of it.
        ("max_share", 1.0.into()),
        ("gain", onramp.gain.into()),
        ("beta_start", onramp.beta_start.into()),
        ("version", version.into()),
        // The link cuts large segments up, so their bytes leave one after another.
        ("line_rate", rate.to_string().into()),
        ("or_ack_interval", linux.or_ack_interval.to_string().into()),
        ("or_ack_gap", format!("{}ns", linux.or_ack_gap.0 / NS).into()),
        ("cut", linux.cut_segments.into()),
        ("port", i64::from(OR_ACK).into()),
        ("socket", socket(host).into()),
        ("state_dir", format!("{FOLDER}/{host}.state").into()),
        // Two dozen agents share one memory; 16 Ki stamps are 256 MiB under way.
        ("max_flows", 16_384.into()),
        ("max_stamps", 16_384.into()),
    ];
    let entries = entries.into_iter().chain(threshold).chain(clock(scenario, host, hosts, key));
    entries.map(|(key, value)| format!("{key} = {value}\n")).collect()
}

fn log(host: u32) -> String {
    format!("{FOLDER}/{host}.log")
}

/// Content of a log in one line.
fn complaint(log: &str) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    if text.is_empty() { "it said nothing".into() } else { text.lines().collect::<Vec<_>>().join(" | ") }
}

fn socket(host: u32) -> String {
    format!("{FOLDER}/{host}.sock")
}

/// Answer of an agent on its socket, which spares a process for each question. Null, if it was
/// killed.
fn status(host: u32) -> Result<Value> {
    let ask = || {
        let mut stream = match UnixStream::connect(socket(host)) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused => return Ok(Value::Null),
            stream => stream?,
        };
        stream.write_all(b"{\"get\":\"status\"}\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    };
    ask().map_err(|e: std::io::Error| format!("status of the agent at {}: {e}", address(host)))
}

impl Agents {
    /// The hosts whose clocks are known: by how many nanoseconds each is ahead of the kernel's,
    /// corrected, and the standard deviation of that.
    pub fn clocks(&self) -> Result<Vec<(u32, i64, f64)>> {
        let mut known = Vec::new();
        for agent in &self.all {
            let clock = status(agent.host)?["clock"].take();
            let state = clock["fleet_ns"].as_i64().zip(clock["uncertainty_ns"].as_f64());
            known.extend(state.map(|(ahead, sigma)| (agent.host, ahead, sigma)));
        }
        Ok(known)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// The mean share of a host's link that its probes and answers take.
    pub fn probe_share(&self, topology: &Topology) -> Result<f64> {
        /// Ethernet 14, IPv4 20, UDP 8, probe 40, FCS 4.
        const WIRE_BITS: f64 = 86.0 * 8.0;
        let seconds = (sys::now_ns() - self.since_ns) as f64 / 1e9;
        let mut sum = 0.0;
        for agent in &self.all {
            let counters = status(agent.host)?["counters"].take();
            let count = |name: &str| counters[name].as_f64().unwrap_or_default();
            let rate = topology.ports()[topology.ports_of(agent.host)[0] as usize].rate.0 as f64;
            sum += (count("probes_sent") + count("probes_answered")) * WIRE_BITS / (rate * seconds);
        }
        Ok(sum / self.all.len().max(1) as f64)
    }

    /// Returns true if a host has an agent.
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

    /// Counters summed over all agents so far.
    pub fn counted(&self) -> Result<Sums> {
        let mut sums = Sums::new();
        for agent in &self.all {
            sums.add(&status(agent.host)?);
        }
        Ok(sums)
    }

    /// Has the agents undo everything and end.
    pub fn stop(mut self) -> Result<()> {
        // It may have been killed on purpose, or a newer one may serve in its place.
        if let Some(mut coordinator) = self.coordinator.take() {
            let _ = coordinator.kill();
            let _ = coordinator.wait();
        }
        for agent in &self.all {
            sys::terminate(agent.process.id()).map_err(at("agent"))?;
        }
        for mut agent in self.all {
            let status = agent.process.wait().map_err(at("agent"))?;
            // Killed by a command beside the run.
            let killed = status.signal() == Some(libc::SIGKILL);
            if !status.success() && !killed {
                let said = complaint(&log(agent.host));
                return Err(format!("the agent at {} ended with {status}: {said}", address(agent.host)));
            }
        }
        Ok(())
    }
}

/// Counters that are added up over agents.
#[derive(Debug)]
pub struct Sums {
    /// In the order of [`COUNTERS`].
    counters: [u64; COUNTERS.len()],
    held: u64,
    held_ns: u64,
    or_acks: u64,
    owd_sum_ns: f64,
    owd_min_ns: f64,
}

/// Counters of an agent that are passed on, under the same names.
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

    /// Difference since `before`; the least delay is of all time.
    pub fn since(mut self, before: &Self) -> Self {
        for (sum, before) in self.counters.iter_mut().zip(before.counters) {
            *sum = sum.saturating_sub(before);
        }
        // An agent that was started anew counts from 0.
        self.held = self.held.saturating_sub(before.held);
        self.held_ns = self.held_ns.saturating_sub(before.held_ns);
        self.or_acks = self.or_acks.saturating_sub(before.or_acks);
        self.owd_sum_ns = (self.owd_sum_ns - before.owd_sum_ns).max(0.0);
        self
    }

    /// As counters of On-Ramp.
    pub fn summary(&self) -> OnRampCounters {
        let owd_us = if self.or_acks > 0 {
            let mean = self.owd_sum_ns / self.or_acks as f64;
            let (mean, min) = (Some(mean / 1000.0), Some(self.owd_min_ns / 1000.0));
            OwdCounters { samples: self.or_acks, mean, min, ..OwdCounters::default() }
        } else {
            OwdCounters::default()
        };
        OnRampCounters {
            or_acks: self.or_acks,
            pauses: self.held,
            paused_us: self.held_ns as f64 / 1000.0,
            owd_us,
            agents: COUNTERS.into_iter().zip(self.counters).collect(),
        }
    }
}
