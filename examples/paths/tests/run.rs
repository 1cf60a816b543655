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
