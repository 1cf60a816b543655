//! `cargo run -p measure [SCENARIO]`: how fair the answers to each request of a scenario are to each other.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.toml");
    let file = std::env::args_os().nth(1).map_or(own.into(), PathBuf::from);
    let found = measure::run(&std::fs::read_to_string(&file)?, &file)?;
    println!("request  fairness");
    for (request, index) in found.indices {
        println!("{request:<7} {index:>9.3}");
    }
    Ok(())
}
