//! Iterations that are skipped leave the same bytes as those that are simulated.

mod common;

use common::*;
use onramp_sim::Options;

/// Everything that a run leaves, and what it says of skipping.
fn run(text: &str, transport: &str, set: &[(&str, &str)], no_skip: bool) -> (String, Option<String>) {
    let options = Options { no_skip, ..Options::default() };
    let mut sim = build_as(&options, text, transport, set);
    sim.run_to_end();
    let rows = [
        format!("{:?}", sim.take_operations()),
        format!("{:?}", sim.take_collectives()),
        format!("{:?}", sim.take_flows()),
        format!("{:?}", sim.take_samples()),
        format!("{:?}", sim.unfinished_flows()),
        format!("{} {} {}", sim.now(), sim.flows_started(), sim.flows_finished()),
        format!("{:?} {}", sim.packet_counts(), sim.packet_hops()),
        common::counters(&sim).to_string(),
    ];
    (rows.join("\n"), sim.skipping())
}

/// What a run says of skipping, which has changed nothing.
fn compared(text: &str, transport: &str, set: &[(&str, &str)]) -> String {
    let (skipped, says) = run(text, transport, set, false);
    let (simulated, nothing) = run(text, transport, set, true);
    assert_eq!(nothing, None);
    let differs = skipped.lines().zip(simulated.lines()).find(|(a, b)| a != b);
    assert!(skipped == simulated, "{transport} {set:?}: {says:?}: {}", excerpt(differs));
    says.unwrap_or_default()
}

/// Where two lines differ.
fn excerpt(lines: Option<(&str, &str)>) -> String {
    let Some((a, b)) = lines else { return "another number of lines".into() };
    let at = a.bytes().zip(b.bytes()).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    let part = |text: &str| text[at.saturating_sub(150)..(at + 150).min(text.len())].to_string();
    format!("\n{}\n{}", part(a), part(b))
}

const STAR: &str = "duration = \"1ms\"\n[network]\nkind = \"star\"\nhosts = 4\n";
const SERVERS: &str = "duration = \"1ms\"\n[network]\nkind = \"servers\"\nservers = 4\ngpus = 2\nspines = 2\n";
const RACKS: &str = "duration = \"1ms\"\nnetwork = { kind = \"leaf-spine\", leaves = 4, hosts_per_leaf = 2 }\n";

fn job(keys: &str) -> String {
    format!("[[traffic]]\nkind = \"collective\"\n{keys}\ncompute = \"40us\"\nrepeat = 30\n")
}

const RING: &str = "operation = \"all-reduce\"\nsize = \"400KB\"";
const TREE: &str = "operation = \"all-reduce\"\nsize = \"100KB\"\nalgorithm = \"double-binary-tree\"";
const HALVING: &str = "operation = \"all-reduce\"\nsize = \"100KB\"\nalgorithm = \"halving-doubling\"";
const ALL_TO_ALL: &str = "operation = \"all-to-all\"\nsize = \"100KB\"";
const PAIRWISE: &str = "operation = \"all-to-all\"\nsize = \"100KB\"\nalgorithm = \"pairwise\"";

#[test]
fn dcqcn_skips() {
    for network in [STAR, SERVERS, RACKS] {
        for keys in [RING, TREE, HALVING, ALL_TO_ALL, PAIRWISE] {
            println!("{network} {keys} {}", compared(&format!("{network}{}", job(keys)), "kind = \"dcqcn\"", &[]));
        }
    }
}

#[test]
fn transports_skip() {
    for transport in TRANSPORTS.iter().chain(TCP) {
        println!("{transport} {}", compared(&format!("{STAR}{}", job(RING)), transport, &[]));
    }
}
