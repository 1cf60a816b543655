//! Small scenarios for tests.
#![allow(dead_code, reason = "each test file uses its own part")]

use onramp_sim::measure::{FlowRecord, RequestRecord};
use onramp_sim::units::Ps;
use onramp_sim::{Options, Scenario, Simulation};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// Every transport with and without its variants.
pub const TRANSPORTS: &[&str] = &[
    "kind = \"dcqcn\"",
    "kind = \"dcqcn\"\nwindow = true",
    "kind = \"timely\"",
    "kind = \"timely\"\nwindow = true",
    "kind = \"dctcp\"",
    "kind = \"hpcc\"",
];

/// A simulation of `text` with `transport` as the body of its [transport].
pub fn build(text: &str, transport: &str) -> Simulation {
    build_with(text, transport, &[])
}

/// The same with `key=value` overrides.
pub fn build_with(text: &str, transport: &str, overrides: &[(&str, &str)]) -> Simulation {
    build_as(&Options::default(), text, transport, overrides)
}

/// The same in another way.
pub fn build_as(options: &Options, text: &str, transport: &str, overrides: &[(&str, &str)]) -> Simulation {
    let text = format!("{text}\n[transport]\n{transport}\n");
    let overrides: Vec<_> = overrides.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let base = PathBuf::from("/");
    let (scenario, topology) = Scenario::load(&text, "test", &base, &overrides).unwrap_or_else(|e| panic!("{}", e[0]));
    Simulation::with(&scenario, topology, &base, options).unwrap()
}

/// A file that is removed with its owner.
pub struct TempFile(pub PathBuf);

impl TempFile {
    pub fn new(content: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let n = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("onramp-test-{}-{n}", std::process::id()));
        std::fs::write(&path, content).unwrap();
        Self(path)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// `[[traffic]]` with the given rows `src,dst,bytes,start_ns`; keep the file
/// until the simulation is built.
pub fn trace(rows: &[&str]) -> (TempFile, String) {
    let file = TempFile::new(&format!("src,dst,bytes,start_ns\n{}\n", rows.join("\n")));
    let text = format!("[[traffic]]\nkind = \"trace\"\nfile = \"{}\"\n", file.0.display());
    (file, text)
}

pub fn star(hosts: u32) -> String {
    format!("duration = \"1ms\"\nnetwork = {{ kind = \"star\", hosts = {hosts} }}\n")
}

/// A fat tree of 32 hosts with every kind of switch.
pub const SMALL_FAT_TREE: &str = r#"
duration = "300us"
seed = 7
[network]
kind = "fat-tree"
pods = 2
tors_per_pod = 2
aggs_per_pod = 2
cores = 4
hosts_per_tor = 8
"#;

pub const LOADED: &str = r#"
[[traffic]]
kind = "background"
workload = "WebSearch"
load = 0.5
[[traffic]]
kind = "incast"
fan_out = 20
size = "8KB"
load = 0.1
"#;

/// Everything that was recorded, in order of arrival.
pub fn finish(mut sim: Simulation) -> (Vec<FlowRecord>, Vec<RequestRecord>, serde_json::Value) {
    sim.run_to_end();
    let mut flows = sim.take_flows();
    flows.sort_by_key(|f| f.id);
    (flows, sim.take_requests(), sim.counters())
}

/// Runs in steps of `step` and calls `look` after each.
pub fn in_steps(sim: &mut Simulation, step: Ps, mut look: impl FnMut(&Simulation)) {
    let mut until = step;
    while !sim.run(until, u64::MAX) {
        look(sim);
        until += step;
    }
    look(sim);
}
