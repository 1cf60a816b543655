//! The example does what it says.

use std::path::Path;

const SCENARIO: &str = include_str!("../scenario.toml");
const OWN: &str = r#"kind = "custom", name = "drill", draws = 2, memory = 1"#;

fn run(paths: &str) -> Result<Vec<onramp_sim::records::FlowRecord>, String> {
    assert!(SCENARIO.contains(OWN));
    paths::run(&SCENARIO.replace(OWN, paths), Path::new("scenario.toml"))
}

#[test]
fn two_draws_and_a_memory_beat_spraying() {
    let mean = |paths| paths::mean_fct_us(&run(paths).unwrap());
    // One draw without memory is spraying.
    let (drill, spray) = (mean(OWN), mean(r#"kind = "custom", name = "drill", draws = 1, memory = 0"#));
    assert!(drill < 0.97 * spray, "{drill} and {spray}");
}

#[test]
fn memory_survives_a_fault_that_changes_the_ports() {
    let text = format!(
        "{SCENARIO}\n[[network.faults]]\nlink = \"leaf0->spine7\"\nstart = \"500us\"\nstop = \"1ms\"\nreroute = \"50us\"\n"
    );
    let flows = paths::run(&text, Path::new("scenario.toml")).unwrap();
    assert!(!flows.is_empty());
}

#[test]
fn what_is_wrong_is_one_clear_line() {
    let wrong = |paths| run(paths).unwrap_err();
    assert_eq!(wrong(r#"kind = "custom", name = "dril""#), "switch.paths \"custom\": there is no \"dril\", only drill");
    assert_eq!(
        wrong(r#"kind = "custom", name = "drill", draws = 0"#),
        "switch.paths \"drill\": draws must be at least 1"
    );
    let found = wrong(r#"kind = "custom", name = "drill", draw = 2"#);
    assert!(found.starts_with("switch.paths \"drill\": unknown field `draw`") && !found.contains('\n'), "{found}");
}
