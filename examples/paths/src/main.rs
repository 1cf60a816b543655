//! `cargo run --release -p paths [SCENARIO]`: mean flow completion times by path choice.

use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.toml");
    let file = std::env::args_os().nth(1).map_or(own.into(), PathBuf::from);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()));
    match text.and_then(|text| paths::run(&text, &file)) {
        Ok(flows) => {
            println!("{} flows, mean FCT {:.1} us", flows.len(), paths::mean_fct_us(&flows));
            ExitCode::SUCCESS
        }
        Err(line) => {
            eprintln!("{line}");
            ExitCode::FAILURE
        }
    }
}
