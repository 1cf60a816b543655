//! The example does what it says.

use onramp_sim::units::US;
use std::collections::BTreeSet;
use std::path::Path;
use workload::Measured;

const SHUFFLE: &str = include_str!("../scenario.toml");
const TOKEN: &str = include_str!("../token.toml");

fn run(scenario: &str, old: &str, new: &str) -> Result<Measured, String> {
    assert!(scenario.contains(old), "{old}");
    workload::run(&scenario.replace(old, new), Path::new("scenario.toml")).map_err(|e| e.to_string())
}

#[test]
fn every_host_sends_a_block_to_every_other() {
    let flows = run(SHUFFLE, "", "").unwrap().flows;
    let pairs: BTreeSet<_> = flows.iter().map(|f| (f.src, f.dst)).collect();
    assert_eq!((flows.len(), pairs.len()), (56, 56));
    assert!(pairs.iter().all(|(src, dst)| src != dst));
    assert!(flows.iter().all(|f| f.bytes == 100_000 && f.start_ps == f.id / 8 * 10_000_000));
    assert_ne!(run(SHUFFLE, "duration =", "seed = 2\nduration =").unwrap().flows[0].dst, 0);
}

#[test]
fn a_token_comes_back_after_each_host_has_held_it() {
    let Measured { flows, exchanges } = run(TOKEN, "", "").unwrap();
    assert!(flows.is_empty());
    assert_eq!(exchanges.iter().map(|e| e.number).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    // Eight hosts hold it for 5 us each. Between two there are two links of 1 us, and a packet of 1 KB on each.
    for exchange in exchanges {
        let travels = exchange.latency_ps - 8 * 5 * US;
        assert!((8 * 2 * US..8 * 3 * US).contains(&travels), "{travels}");
    }
}

#[test]
fn what_is_wrong_with_the_workload_is_one_clear_line() {
    let wrong = |old, new| run(SHUFFLE, old, new).unwrap_err();
    assert_eq!(
        wrong("\"shuffle\"", "\"shufle\""),
        "traffic[0]: workload \"custom\": there is no \"shufle\", only shuffle, token"
    );
    let found = wrong("block =", "blocks =");
    assert!(found.starts_with("traffic[0]: workload \"shuffle\": unknown field `blocks`"), "{found}");
}
