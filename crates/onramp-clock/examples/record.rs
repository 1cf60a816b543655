//! Records the logs under `tests/logs`, each with the truth in it.
//!
//! `cargo run --release -p onramp-clock --example record -- DIRECTORY`

#[path = "../tests/common/mod.rs"]
mod common;

use common::{Clock, Random, Stamps, World};
use onramp_clock::log::{self, Log, Record};
use onramp_clock::{HostId, mesh};
use std::path::Path;

fn main() {
    let Some(directory) = std::env::args().nth(1) else {
        eprintln!("say where to: cargo run --release -p onramp-clock --example record -- DIRECTORY");
        std::process::exit(2);
    };
    for (name, stamps, load) in [("hardware-80", Stamps::Hardware, 0.8), ("software-40", Stamps::Software, 0.4)] {
        let path = Path::new(&directory).join(name).with_extension("log");
        let mut bytes = Vec::new();
        log::write(&record(stamps, load), &mut bytes).expect("memory takes all");
        if let Err(error) = std::fs::write(&path, bytes) {
            eprintln!("{}: {error}", path.display());
            std::process::exit(1);
        }
    }
}

/// Two windows of five hosts, each pair probed, one congested queue each way.
fn record(stamps: Stamps, load: f64) -> Log {
    let mut random = Random(18);
    let hosts: Vec<(HostId, Clock)> = (1..=5).map(|host| (host, Clock::random(&mut random, 1e17, 30e-6))).collect();
    let window = 1_000_000_000;
    let world = World { hops: 1, window, ..World::new(stamps, load, 18) };
    let mut log = Log { window, records: Vec::new() };
    for number in 0..2 {
        let start = f64::from(number) * window as f64;
        for (from, to) in mesh::edges(&[1, 2, 3, 4, 5], mesh::PEERS, 18) {
            let of = |host: HostId| hosts[host as usize - 1];
            let exchanges = world.exchanges(of(from), of(to), start);
            log.records.extend(exchanges.into_iter().map(|exchange| Record::Exchange { from, to, exchange }));
        }
        for &(host, clock) in &hosts {
            let now = start + window as f64;
            let at = clock.read(now);
            log.records.push(Record::Truth { host, at, ahead: (at - now as u64).cast_signed() });
        }
    }
    log
}
