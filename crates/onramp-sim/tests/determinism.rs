//! The same scenario and seed give the same bytes: twice, and in every build.

mod common;

use common::*;

/// FNV-1a over everything recorded.
fn digest(transport: &str, onramp: &str) -> String {
    let set = [
        ("onramp.enabled", onramp),
        ("clock.sync", "gaussian"),
        ("clock.sigma", "200ns"),
        ("measure.queues", "[\"tor0->h0\", \"core0->agg0\"]"),
    ];
    let mut sim = build_with(&format!("{SMALL_FAT_TREE}{LOADED}"), transport, &set);
    sim.run_to_end();
    let all = format!("{:?}{:?}{:?}{}", sim.take_flows(), sim.take_requests(), sim.take_samples(), sim.counters());
    let hash = all.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
    format!("{:<40} onramp={onramp:<6} {hash:016x}", transport.replace('\n', " "))
}

/// `make test` runs this in a debug and in a release build; both compare with
/// the same file. After an intended change of behaviour: `UPDATE=1 cargo test`.
#[test]
fn results_are_the_same_in_every_build() {
    let lines: Vec<String> =
        TRANSPORTS.iter().flat_map(|t| ["false", "true"].map(|onramp| digest(t, onramp))).collect();
    let found = lines.join("\n") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/digests.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(path).unwrap_or_default());
}

#[test]
fn results_are_the_same_twice() {
    assert_eq!(digest(TRANSPORTS[0], "true"), digest(TRANSPORTS[0], "true"));
}

#[test]
fn stopping_and_going_on_changes_nothing() {
    let straight = finish(build(&format!("{SMALL_FAT_TREE}{LOADED}"), TRANSPORTS[2]));
    let mut sim = build(&format!("{SMALL_FAT_TREE}{LOADED}"), TRANSPORTS[2]);
    in_steps(&mut sim, 1_234_567, |_| {});
    let stepped = finish(sim);
    assert_eq!(straight.0, stepped.0);
    assert_eq!(straight.1, stepped.1);
}
