//! The example does what it says.

use onramp_sim::records::FlowRecord;
use std::collections::BTreeSet;
use std::path::Path;

const SCENARIO: &str = include_str!("../scenario.toml");

fn run(old: &str, new: &str) -> Result<Vec<FlowRecord>, String> {
    assert!(SCENARIO.contains(old), "{old}");
    workload::run(&SCENARIO.replace(old, new), Path::new("scenario.toml")).map_err(|e| e.to_string())
}

#[test]
fn every_host_sends_a_block_to_every_other() {
    let flows = run("", "").unwrap();
    let pairs: BTreeSet<_> = flows.iter().map(|f| (f.src, f.dst)).collect();
    assert_eq!((flows.len(), pairs.len()), (56, 56));
    assert!(pairs.iter().all(|(src, dst)| src != dst));
    assert!(flows.iter().all(|f| f.bytes == 100_000 && f.start_ps == f.id / 8 * 10_000_000));
    assert_ne!(run("duration =", "seed = 2\nduration =").unwrap()[0].dst, 0);
}

#[test]
fn what_is_wrong_with_the_workload_is_one_clear_line() {
    let wrong = |old, new| run(old, new).unwrap_err();
    assert_eq!(
        wrong("\"shuffle\"", "\"shufle\""),
        "traffic[0]: workload \"custom\": there is no \"shufle\", only shuffle"
    );
    let found = wrong("block =", "blocks =");
    assert!(found.starts_with("traffic[0]: workload \"shuffle\": unknown field `blocks`"), "{found}");
}
