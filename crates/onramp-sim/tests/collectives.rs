//! Collectives on RDMA and on TCP, beside what theory says.

mod common;

use common::*;
use onramp_sim::Simulation;
use onramp_sim::records::{CollectiveRecord, OperationRecord};
use onramp_sim::units::{Ps, US};

const STAR: &str = "duration = \"1ms\"\n[network]\nkind = \"star\"\nhosts = 8\n";

fn run(mut sim: Simulation) -> (Vec<CollectiveRecord>, Vec<OperationRecord>) {
    sim.run_to_end();
    assert_eq!(counters(&sim)["unfinished"]["exchanges"], 0);
    (sim.take_collectives(), sim.take_operations())
}

fn collective(keys: &str) -> String {
    format!("\n[[traffic]]\nkind = \"collective\"\n{keys}\n")
}

/// Time that so many bytes of payload take at 100 Gb/s, with their headers.
fn at_line_rate(bytes: f64, headers: f64) -> f64 {
    bytes * (1000.0 + headers) / 1000.0 * 80.0
}

#[test]
fn a_ring_takes_what_its_steps_take() {
    for (transport, headers) in [(UNMOVED, 48.0), ("kind = \"hpcc\"\neta = 1.0", 90.0)] {
        let text = collective("operation = \"all-reduce\"\nsize = \"8MB\"\nrepeat = 2");
        let (found, _) = run(build(&format!("{STAR}{text}"), transport));
        assert_eq!(found.len(), 2);
        // 14 steps, each with an eighth of the data, which is handed on in two pieces; the last piece's way is added
        // once.
        let least = at_line_rate(8e6 * 14.0 / 8.0, headers);
        for one in &found {
            let took = one.duration_ps as f64;
            assert!(took > least && took < 1.1 * least + 14.0 * 3.0 * US as f64, "{transport}: {took} for {least}");
        }
    }
}
