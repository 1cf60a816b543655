//! Fleets of a lab's hosts, with the coordinator in the agent of "a" or by itself.

use super::lab::{Agent, Lab, run, until};
use onrampd::fleet::link::Link;
use onrampd::fleet::pki;
use onrampd::fleet::wire::{FromCoordinator, FromHost, parse};
use rustls::{ClientConfig, ClientConnection};
use serde_json::Value;
use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// Short rounds; and this machine's processors are shared, so clocks may be uncertain.
pub const QUICK: &str = "window = \"200ms\"\ninterval = \"2ms\"\nmax_uncertainty = \"1ms\"";
/// Largest difference of two hosts' times, in nanoseconds. While a window lasts causality bounds it by the delay of a
/// packet between two namespaces, some 10 us; for two windows after it the rate's error adds to that, which short
/// windows on busy processors put off by a hundred ppm and more.
pub const CLOSE: i64 = 200_000;
pub const COORDINATOR: &str = "10.9.0.1:9472";

/// A command on a host, by the daemon, which starts the client for those that are its own.
pub fn command(lab: &Lab, host: &str, arguments: &[&str]) -> Command {
    let mut command = lab.command(host, env!("CARGO_BIN_EXE_onrampd"));
    command.args(arguments);
    command
}

pub fn config(lab: &Lab, host: &str) -> PathBuf {
    lab.file(&format!("{host}.d/onrampd.toml"))
}

/// Output of a command that reads or writes the host's configuration.
pub fn output(lab: &Lab, host: &str, arguments: &[&str]) -> Output {
    command(lab, host, arguments).arg("--config").arg(config(lab, host)).output().unwrap()
}

/// Founds a fleet on "a"; a token for several hosts.
pub fn found(lab: &Lab, address: &str) -> String {
    fs::create_dir_all(lab.file("a.d")).unwrap();
    let said = output(lab, "a", &["init", "--interface", "eth0", "--address", address, "--uses", "9", "--in-agent"]);
    assert!(said.status.success(), "{said:?}");
    token_in(&said)
}

/// The token in the command that `init` prints.
pub fn token_in(said: &Output) -> String {
    let said = String::from_utf8_lossy(&said.stdout);
    said.split("echo ").nth(1).and_then(|s| s.split(' ').next()).expect("it prints the command").into()
}

pub fn join(lab: &Lab, host: &str, token: &str) -> Output {
    fs::create_dir_all(lab.file(&format!("{host}.d"))).unwrap();
    let file = lab.file("token");
    fs::write(&file, token).unwrap();
    output(lab, host, &["join", "--token-file", file.to_str().unwrap(), "--interface", "eth0"])
}

/// Adds to what `init` or `join` wrote.
pub fn adjust(lab: &Lab, host: &str, fleet: &str, test: &str) {
    let written = lab.file(&format!("{host}.written"));
    if !written.exists() {
        fs::copy(config(lab, host), &written).unwrap();
    }
    let text = fs::read_to_string(written).unwrap();
    let [socket, state] = [format!("{host}.sock"), host.to_string()].map(|name| lab.file(&name).display().to_string());
    let text = format!("socket = \"{socket}\"\nstate_dir = \"{state}\"\n{text}\n{fleet}\n[test]\n{test}\n");
    fs::write(config(lab, host), text).unwrap();
}

/// Founds a fleet and starts the agent of its first host, which is the coordinator; the token.
pub fn founded(lab: &Lab) -> (Agent, String) {
    let token = found(lab, "10.9.0.1");
    (start(lab, "a", QUICK, ""), token)
}

/// Starts a host's agent.
pub fn start(lab: &Lab, host: &str, fleet: &str, test: &str) -> Agent {
    adjust(lab, host, fleet, test);
    let mut command = command(lab, host, &["run", "--config"]);
    command.arg(config(lab, host));
    lab.start(host, command)
}

/// Two hosts that have joined, not yet started.
pub fn two(lab: &Lab) -> String {
    let (a, token) = founded(lab);
    let joined = join(lab, "b", &token);
    assert!(joined.status.success(), "{joined:?}");
    assert!(a.end());
    token
}

/// A coordinator of its own on "c", for the fleet founded on "a".
pub fn coordinator(lab: &Lab, address: &str) -> Agent {
    let mut command =
        command(lab, "c", &["coordinator", "--listen", address, "--window", "200ms", "--interval", "2ms"]);
    command.arg("--folder").arg(lab.file("a.d/fleet"));
    lab.start("coordinator", command)
}

/// Has the hosts of [`two`] know of a coordinator on "c" besides.
pub fn list_standby(lab: &Lab) {
    for host in ["a", "b"] {
        adjust(lab, host, "", "");
        let written = lab.file(&format!("{host}.written"));
        let text = fs::read_to_string(&written).unwrap();
        let both = format!("coordinators = [\"{COORDINATOR}\", \"10.9.0.3:9472\"]");
        fs::write(written, text.replace(&format!("coordinators = [\"{COORDINATOR}\"]"), &both)).unwrap();
    }
}

/// Gives "c" what a coordinator has, as docs/agent.md has it copied.
pub fn copy_authority(lab: &Lab) {
    fs::create_dir_all(lab.file("c.d/fleet")).unwrap();
    let [from, to] = ["a.d/fleet/coordinator", "c.d/fleet/coordinator"].map(|folder| lab.file(folder));
    run(&format!("cp -a {} {}", from.display(), to.display()));
}

/// That coordinator.
pub fn standby(lab: &Lab) -> Agent {
    let mut command =
        command(lab, "c", &["coordinator", "--listen", "10.9.0.3:9472", "--window", "200ms", "--interval", "2ms"]);
    command.arg("--folder").arg(lab.file("c.d/fleet"));
    lab.start("standby", command)
}

pub fn known(agent: &Agent) -> bool {
    agent.status()["clock"]["known"] == true
}

/// The fleet's time less this machine's, by a host's reckoning.
pub fn fleet_ns(agent: &Agent) -> i64 {
    let status = agent.status();
    status["clock"]["fleet_ns"].as_i64().unwrap_or_else(|| panic!("{status}"))
}

/// Waits until all hosts' clocks are known, and asserts that their times agree.
pub fn agree(agents: &[&Agent]) {
    let mut times = Vec::new();
    // One look for both: a clock may be withdrawn between two.
    until("are all clocks known", || {
        times = agents.iter().filter_map(|a| a.status()["clock"]["fleet_ns"].as_i64()).collect();
        times.len() == agents.len()
    });
    let spread = times.iter().max().unwrap() - times.iter().min().unwrap();
    assert!(spread < CLOSE, "{spread} ns: {times:?}");
}

pub fn fleet(lab: &Lab, host: &str) -> Value {
    let said = output(lab, host, &["fleet", "--json"]);
    serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"))
}

/// Says something to the coordinator on "a"; its answer, if there is one.
pub fn say(lab: &Lab, tls: Arc<ClientConfig>, what: &FromHost) -> Option<FromCoordinator> {
    say_to(COORDINATOR, lab, tls, what)
}

pub fn say_to(coordinator: &str, lab: &Lab, tls: Arc<ClientConfig>, what: &FromHost) -> Option<FromCoordinator> {
    let socket = lab.on("b", || TcpStream::connect(coordinator).unwrap());
    let mut link = Link::new(socket, ClientConnection::new(tls, pki::coordinator()).unwrap(), 1 << 20).unwrap();
    link.say(what).unwrap();
    let start = std::time::Instant::now();
    loop {
        let open = link.tend();
        if let Some(line) = link.line() {
            return Some(parse(&line).unwrap());
        }
        open.ok()?;
        assert!(start.elapsed() < Duration::from_secs(60), "no answer");
        sleep(Duration::from_millis(1));
    }
}

pub fn refusal(said: Option<FromCoordinator>) -> String {
    match said {
        Some(FromCoordinator::Refused { reason }) => reason,
        other => panic!("{other:?}"),
    }
}

/// As [`QUICK`], of a host in a rack.
pub fn with_rack(rack: &str) -> String {
    format!("{QUICK}\nlabels = {{ rack = \"{rack}\" }}")
}

/// Three hosts, one in another rack than the others; "a" has the coordinator in its agent.
pub fn three(lab: &Lab) -> [Agent; 3] {
    let token = found(lab, "10.9.0.1");
    let a = start(lab, "a", &with_rack("b6"), "");
    assert!(join(lab, "b", &token).status.success() && join(lab, "c", &token).status.success());
    [a, start(lab, "b", &with_rack("b7"), ""), start(lab, "c", &with_rack("b7"), "")]
}

/// Output of a command that succeeded.
pub fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}
