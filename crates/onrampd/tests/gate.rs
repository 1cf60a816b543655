//! Properties of the gate that hold whatever comes: its own source, built for an ordinary process, under random
//! packets. `datapath/tests/property.h` lists them.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const DATAPATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../datapath");
/// Others of a failing run can be had by hand: the program takes a seed and a number of runs.
const SEED: &str = "1";
const RUNS: &str = "500";

fn holds(kind: &str, includes: &[&str]) {
    let made_here = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let program = made_here.join(format!("gate_{kind}"));
    let mut compiler = Command::new(env::var("CC").unwrap_or_else(|_| "cc".into()));
    compiler.args(["-O1", "-g", "-std=gnu11", "-fsanitize=address,undefined", "-Wall", "-Werror", "-Wno-attributes"]);
    // The verifier wants some of these.
    compiler.args(["-Wno-unused-but-set-variable", "-Wno-unused-function", "-Wno-unused-variable"]);
    compiler.args(includes.iter().map(|folder| format!("-I{DATAPATH}/{folder}"))).arg("-I").arg(&made_here);
    compiler.arg(format!("{DATAPATH}/tests/gate_{kind}.c")).arg("-o").arg(&program);
    let made = compiler.output().expect("there is a C compiler");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let run = Command::new(&program).args([SEED, RUNS]).output().expect("what was built runs");
    let said = [run.stdout, run.stderr].concat();
    assert!(run.status.success(), "{}: {}", program.display(), String::from_utf8_lossy(&said));
}

#[test]
fn the_program_keeps_packets_in_order_and_in_time_and_works_no_more_for_many_that_wait() {
    holds("program", &["tests", "bpf", "../core"]);
}

#[test]
fn the_module_keeps_packets_in_order_and_in_time() {
    let source = fs::read_to_string(format!("{DATAPATH}/sch_onramp/sch_onramp.c")).expect("the module is there");
    let without = |line: &str| if line.starts_with("#include <") { "\n".into() } else { format!("{line}\n") };
    let own: String = source.lines().map(without).collect();
    fs::write(concat!(env!("CARGO_TARGET_TMPDIR"), "/module.c"), own).expect("there is room");
    holds("module", &["tests", "sch_onramp"]);
}
