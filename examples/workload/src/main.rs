//! `cargo run -p workload [SCENARIO]`: time of a scenario's flows and exchanges, and of all of them together.

use onramp_sim::units::US;
use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.toml");
    let file = std::env::args_os().nth(1).map_or(own.into(), PathBuf::from);
    let workload::Measured { flows, exchanges } = workload::run(&std::fs::read_to_string(&file)?, &file)?;
    println!("flow   src  dst      bytes    fct_us");
    for f in &flows {
        println!("{:<6} h{:<3} h{:<3} {:>9} {:>9.1}", f.id, f.src, f.dst, f.bytes, f.fct_ps as f64 / US as f64);
    }
    println!("exchange  client  latency_us");
    for e in &exchanges {
        println!("{:<9} h{:<6} {:>10.1}", e.number, e.client, e.latency_ps as f64 / US as f64);
    }
    let ends = flows.iter().map(|f| f.start_ps + f.fct_ps).chain(exchanges.iter().map(|e| e.start_ps + e.latency_ps));
    println!("all of it: {:.1} us", ends.max().unwrap_or_default() as f64 / US as f64);
    Ok(())
}
