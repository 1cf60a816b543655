//! `cargo run -p controller [SCENARIO]`: the flow completion times of a scenario.

use onramp_sim::units::US;
use std::path::PathBuf;
use std::process::ExitCode;

fn main() -> ExitCode {
    let own = concat!(env!("CARGO_MANIFEST_DIR"), "/scenario.toml");
    let file = std::env::args_os().nth(1).map_or(own.into(), PathBuf::from);
    let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()));
    match text.and_then(|text| controller::run(&text, &file)) {
        Ok(flows) => {
            println!("flow   src  dst      bytes    fct_us");
            for f in flows {
                println!("{:<6} h{:<3} h{:<3} {:>9} {:>9.1}", f.id, f.src, f.dst, f.bytes, f.fct_ps as f64 / US as f64);
            }
            ExitCode::SUCCESS
        }
        Err(line) => {
            eprintln!("{line}");
            ExitCode::FAILURE
        }
    }
}
