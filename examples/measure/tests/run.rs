//! The example does what it says.

use std::path::Path;

const SCENARIO: &str = include_str!("../scenario.toml");

fn indices(fan_out: &str) -> Vec<f64> {
    let text = SCENARIO.replace("fan_out = 16", fan_out);
    let found = measure::run(&text, Path::new("scenario.toml")).unwrap();
    found.indices.iter().map(|(_, index)| *index).collect()
}

#[test]
fn one_answer_is_fair_and_sixteen_nearly_are() {
    let (one, many) = (indices("fan_out = 1"), indices("fan_out = 16"));
    assert!(one.len() > 10 && many.len() > 10, "{} and {}", one.len(), many.len());
    assert!(one.iter().all(|index| (index - 1.0).abs() < 1e-12));
    // Whose answer is over first had more than its share.
    assert!(many.iter().all(|index| (0.5..1.0).contains(index)), "{many:?}");
}

#[test]
fn what_is_wrong_with_a_scenario_is_told() {
    let error = measure::run("duration = 3", Path::new("s.toml")).unwrap_err().to_string();
    assert!(error.starts_with("s.toml:1: duration"), "{error}");
}
