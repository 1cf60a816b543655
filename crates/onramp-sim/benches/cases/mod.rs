//! The benchmarks' scenarios.

use onramp_sim::{Scenario, Simulation};
use std::path::Path;

/// Set in the process that runs one case.
pub const CASE: &str = "ONRAMP_BENCH_CASE";

const FAT_TREE: &str = r#"
seed = 1
duration = "2ms"
network = { kind = "fat-tree" }
clock = { sync = "gaussian", sigma = "200ns" }
traffic = [
    { kind = "background", workload = "WebSearch", load = 0.6 },
    { kind = "incast", fan_out = 40, size = "2KB", load = 0.02 },
]
"#;

const RPC: &str = r#"
seed = 1
duration = "200us"
network = { kind = "fat-tree" }
traffic = [{ kind = "background", workload = "GoogleSearchRPC", load = 0.6 }]
"#;

const STAR: &str = r#"
seed = 1
duration = "5ms"
network = { kind = "star", hosts = 65 }
traffic = [{ kind = "incast", fan_out = 64, size = "500KB", load = 0.8, scope = "network" }]
"#;

/// Every server of a fat tree of 32-port switches sends 1 MiB to the one half the network away, all at time 0.
const WIDE: &str = r#"
seed = 1
duration = "10us"
[network]
kind = "fat-tree"
fabric_rate = "100Gbps"
[linux]
buffer_packets = 200
[[traffic]]
kind = "trace"
file = "wide.csv"
"#;

/// The first ms of an all-reduce by rings among 1024 GPUs, and an all-to-all among 512: 261,632 queue pairs.
const COLLECTIVE: &str = r#"
duration = "1ms"
network = { kind = "servers", servers = 128 }
host = { payload = "8192B" }
traffic = [{ kind = "collective", operation = "all-reduce", size = "1GB" }]
"#;

/// Ports of its switches, and of those of the tree that is small enough for valgrind.
const PORTS: [u32; 2] = [32, 8];

/// The same load on fat trees of more servers: pods, switches of each tier in a pod,
/// cores, and microseconds.
const GROWTH: &[(&str, [u32; 4])] = &[
    ("growth-320", [5, 4, 16, 1000]),
    ("growth-1024", [8, 8, 64, 500]),
    ("growth-2048", [16, 8, 64, 300]),
    ("growth-8192", [32, 16, 256, 150]),
    // With 40 servers on a switch, unlike the others.
    ("growth-100000", [50, 50, 2500, 1]),
];

/// Name, scenario, transport, and a duration short enough for valgrind.
pub const CASES: &[(&str, &str, &str, &str)] = &[
    ("growth-320", FAT_TREE, "dcqcn", ""),
    ("growth-1024", FAT_TREE, "dcqcn", ""),
    ("growth-2048", FAT_TREE, "dcqcn", ""),
    ("growth-8192", FAT_TREE, "dcqcn", ""),
    ("growth-100000", FAT_TREE, "dcqcn", ""),
    ("fat-tree-dcqcn", FAT_TREE, "dcqcn", "100us"),
    ("fat-tree-dcqcn-onramp", FAT_TREE, "dcqcn", "100us"),
    ("fat-tree-hpcc", FAT_TREE, "hpcc", "100us"),
    ("fat-tree-cubic", FAT_TREE, "cubic", "100us"),
    ("fat-tree-cubic-onramp", FAT_TREE, "cubic", "100us"),
    ("rpc-dcqcn", RPC, "dcqcn", "10us"),
    ("wide-newreno", WIDE, "newreno", ""),
    ("star-incast-dcqcn", STAR, "dcqcn", "1ms"),
    ("ring-1024", COLLECTIVE, "dcqcn", ""),
    ("all-to-all-512", COLLECTIVE, "dcqcn", ""),
];

/// The simulation of a case, whole or short.
pub fn build(name: &str, whole: bool) -> Simulation {
    let (_, text, transport, short) = CASES.iter().find(|c| c.0 == name).expect("a case of the list");
    let mut overrides = vec![("transport.kind".to_string(), (*transport).to_string())];
    if name.ends_with("onramp") {
        overrides.push(("onramp.enabled".into(), "true".into()));
        overrides.push(("onramp.threshold".into(), "16us".into()));
    }
    if let Some((_, [pods, switches, cores, us])) = GROWTH.iter().find(|case| case.0 == name) {
        let sizes = [("pods", pods), ("tors_per_pod", switches), ("aggs_per_pod", switches), ("cores", cores)];
        overrides.extend(sizes.map(|(key, n)| (format!("network.{key}"), n.to_string())));
        overrides.extend([("duration".into(), format!("{us}us")), ("time_limit".into(), format!("{us}us"))]);
        if name == "growth-100000" {
            overrides.push(("network.hosts_per_tor".into(), "40".into()));
        }
    } else if name.starts_with("wide") {
        overrides.extend(wide(PORTS[usize::from(!whole)]));
    } else if *text == COLLECTIVE {
        overrides.extend(collective(name, whole));
    } else if !whole {
        overrides.push(("duration".into(), (*short).to_string()));
    }
    let base = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (scenario, topology) = Scenario::load(text, name, base, &overrides).expect("the scenario is valid");
    Simulation::new(&scenario, topology, base).expect("the scenario can be built")
}

/// The operation of a case, of few servers and bytes if it is short.
fn collective(name: &str, whole: bool) -> Vec<(String, String)> {
    let (operation, servers, size, until) = match (name, whole) {
        ("ring-1024", true) => ("all-reduce", "128", "1GB", "1ms"),
        ("ring-1024", false) => ("all-reduce", "4", "4MB", "1s"),
        (_, true) => ("all-to-all", "64", "128MiB", "1s"),
        (_, false) => ("all-to-all", "4", "4MiB", "1s"),
    };
    let values = [
        ("network.servers", servers),
        ("traffic.0.operation", operation),
        ("traffic.0.size", size),
        ("time_limit", until),
    ];
    values.map(|(key, value)| (key.to_string(), value.to_string())).to_vec()
}

/// A full fat tree of switches with so many ports, and a file of its flows.
fn wide(ports: u32) -> Vec<(String, String)> {
    let half = ports / 2;
    let servers = ports * half * half;
    let flow = |server: u32| format!("{server},{},1048576,0\n", (server + servers / 2) % servers);
    let flows: String = (0..servers).map(flow).collect();
    let file = format!("wide-{servers}.csv");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&file);
    std::fs::write(path, format!("src,dst,bytes,start_ns\n{flows}")).expect("the flows can be written down");
    let sizes = [("pods", ports), ("tors_per_pod", half), ("aggs_per_pod", half), ("hosts_per_tor", half)];
    let sizes = sizes.into_iter().chain([("cores", half * half)]);
    let overrides = sizes.map(|(key, n)| (format!("network.{key}"), n.to_string()));
    overrides.chain([("traffic.0.file".into(), file)]).collect()
}
