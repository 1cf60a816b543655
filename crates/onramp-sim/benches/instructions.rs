//! Instructions per packet-hop, counted by valgrind: the same on a busy machine.
//!
//! `cargo bench -p onramp-sim --bench instructions`. Only what happens inside
//! [`counted`] counts. The counts do not show cache misses; `speed` does.

mod cases;

use cases::{CASE, CASES};
use std::process::Command;

fn main() {
    if let Ok(name) = std::env::var(CASE) {
        let mut sim = cases::build(&name, false);
        counted(&mut sim);
        return println!("{}", sim.packet_hops());
    }
    let own = std::env::current_exe().expect("a process knows its program");
    println!("{:<24}{:>12}{:>30}", "case", "packet-hops", "instructions per packet-hop");
    // That case is of building a network; few packets cross it.
    for (name, ..) in CASES.iter().filter(|case| case.0 != "growth-100000") {
        let run = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--toggle-collect=*counted*"])
            .arg(&own)
            .env(CASE, name)
            .output();
        let Ok(run) = run else {
            return eprintln!("valgrind is missing: install the package valgrind");
        };
        let hops: f64 = String::from_utf8_lossy(&run.stdout).trim().parse().expect("the case prints its packet-hops");
        let log = String::from_utf8_lossy(&run.stderr);
        let collected = log.lines().find_map(|l| l.split("Collected : ").nth(1)).expect("callgrind prints its count");
        let instructions: f64 = collected.trim().parse().expect("the count is a number");
        assert!(instructions > hops, "valgrind does not find the function to count");
        println!("{name:<24}{:>11.2}M{:>30.0}", hops / 1e6, instructions / hops);
    }
}

/// By this name valgrind knows what to count.
#[inline(never)]
fn counted(sim: &mut onramp_sim::Simulation) {
    sim.run_to_end();
}
