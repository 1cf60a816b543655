//! Small scenarios for tests.
#![allow(dead_code, reason = "each test file uses its own part")]

use onramp_sim::measure::trace::Capture;
use onramp_sim::records::{FlowRecord, RequestRecord, Sample};
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
    "kind = \"swift\"",
    "kind = \"nscc\"",
    "kind = \"nscc\"\ncredit = {}",
    "kind = \"rccc\"",
    "kind = \"rcp\"",
    "kind = \"xcp\"",
];

/// Every TCP.
pub const TCP: &[&str] =
    &["kind = \"newreno\"", "kind = \"cubic\"", "kind = \"bbr\"", "kind = \"vegas\"", "kind = \"dctcp-tcp\""];

/// A flow that always sends at the line rate: no mark makes it slower.
pub const UNMOVED: &str = "kind = \"dcqcn\"\nmin_rate = \"100Gbps\"";

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

/// That, and as much on another transport.
pub fn loaded_beside(transport: &str) -> String {
    format!("{LOADED}{}", LOADED.replace("\nload", &format!("\ntransport = {{ kind = \"{transport}\" }}\nload")))
}

/// Counters as `summary.json` has them.
pub fn counters(sim: &Simulation) -> serde_json::Value {
    serde_json::json!(sim.counters())
}

/// Everything that was recorded, in order of arrival.
pub fn finish(mut sim: Simulation) -> (Vec<FlowRecord>, Vec<RequestRecord>, serde_json::Value) {
    sim.run_to_end();
    let mut flows = sim.take_flows();
    flows.sort_by_key(|f| f.id);
    (flows, sim.take_requests(), counters(&sim))
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

/// A `links` network: switches, and links as (end, end, rate in Gb/s, delay in us).
/// Ends of links that are no switches are hosts.
pub fn chart(duration: &str, switches: &[&str], links: &[(&str, &str, u32, u32)]) -> String {
    let mut hosts: Vec<&str> = Vec::new();
    for end in links.iter().flat_map(|(a, b, ..)| [*a, *b]) {
        if !switches.contains(&end) && !hosts.contains(&end) {
            hosts.push(end);
        }
    }
    let link = |(a, b, rate, delay): &(&str, &str, u32, u32)| {
        format!("{{ a = \"{a}\", b = \"{b}\", rate = \"{rate}Gbps\", delay = \"{delay}us\" }}")
    };
    let links: Vec<String> = links.iter().map(link).collect();
    format!(
        "duration = \"{duration}\"\n[network]\nkind = \"links\"\nhosts = {hosts:?}\nswitches = {switches:?}\nlinks = [{}]\n",
        links.join(", ")
    )
}

/// A `[[traffic]]` section of one long flow from time 0, with `more` keys.
pub fn long(src: &str, dst: &str, more: &str) -> String {
    format!("[[traffic]]\nkind = \"long\"\nsrc = [\"{src}\"]\ndst = \"{dst}\"\njitter = \"0us\"\n{more}\n")
}

/// Samples of a time series.
pub fn series(sim: &mut Simulation, names: &[&str]) -> Vec<Vec<Sample>> {
    let known = sim.series_names().to_vec();
    let samples = sim.take_samples();
    let of = |name: &&str| {
        let index = known.iter().position(|n| n == name).unwrap_or_else(|| panic!("{name} of {known:?}")) as u32;
        samples.iter().filter(|s| s.series == index).copied().collect()
    };
    names.iter().map(of).collect()
}

/// Mean of the samples of a span.
pub fn mean(samples: &[Sample], from: Ps, to: Ps) -> f64 {
    let values = samples.iter().filter(|s| (from..to).contains(&s.time_ps)).map(|s| s.value);
    values.clone().sum::<f64>() / values.count() as f64
}

/// Captures, ways and flows, in their order, of a run to its end.
pub fn all_that_is_traced(mut sim: Simulation, threads: usize) -> (Vec<Capture>, serde_json::Value, Vec<FlowRecord>) {
    sim.set_threads(threads);
    sim.run_to_end();
    let mut flows = sim.take_flows();
    flows.sort_by_key(|flow| flow.id);
    (sim.captures(), serde_json::to_value(sim.ways()).unwrap(), flows)
}
