//! The example does what it says.

use std::path::Path;

const SCENARIO: &str = include_str!("../scenario.toml");

fn run(old: &str, new: &str) -> Result<Vec<onramp_sim::records::FlowRecord>, String> {
    assert!(SCENARIO.contains(old), "{old}");
    controller::run(&SCENARIO.replace(old, new), Path::new("scenario.toml"))
}

fn long(old: &str, new: &str) -> [f64; 2] {
    let flows = run(old, new).unwrap();
    let long: Vec<f64> = flows.iter().filter(|f| f.traffic == 0).map(|f| f.bytes as f64).collect();
    long.try_into().unwrap()
}

#[test]
fn two_flows_share_the_link() {
    let [a, b] = long("", "");
    // 20 ms of 100 Gb/s, less 48 B of headers a packet.
    let link = 100e9 / 8.0 * 20e-3 * 1000.0 / 1048.0;
    assert!(a + b > 0.9 * link && a + b <= link, "{a} + {b} of {link}");
    assert!((0.8..1.25).contains(&(a / b)), "{a} and {b}");
}

#[test]
fn the_scenario_sets_its_parameters() {
    // A window that nearly closes at every mark leaves the link idle.
    let sum = |of: [f64; 2]| of[0] + of[1];
    let (gentle, rude) = (sum(long("", "")), sum(long("decrease = 0.7", "decrease = 0.05")));
    assert!(rude < 0.95 * gentle, "{rude} of {gentle}");
}

#[test]
fn what_is_wrong_with_the_controller_is_one_clear_line() {
    let wrong = |old, new| run(old, new).unwrap_err();
    assert_eq!(wrong("\"aimd\"", "\"amid\""), "transport \"custom\": there is no \"amid\", only aimd");
    let found = wrong("increase =", "increases =");
    assert!(found.starts_with("transport \"aimd\": unknown field `increases`") && !found.contains('\n'), "{found}");
    assert_eq!(wrong("decrease = 0.7", "decrease = 1.5"), "transport \"aimd\": decrease = 1.5 is outside 0 to 1");
}

#[test]
fn tcp_with_a_controller_of_its_own_uses_the_link() {
    let text = include_str!("../tcp.toml");
    // Both flows together: that increase and decrease are multiplicative leaves their shares as they come.
    let bytes = |text: &str| {
        let flows = controller::run(text, Path::new("tcp.toml")).unwrap();
        flows.iter().map(|f| f.bytes as f64).collect::<Vec<_>>()
    };
    let sum: f64 = bytes(text).iter().sum();
    // 20 ms of 10 Gb/s, less headers.
    let link = 10e9 / 8.0 * 20e-3;
    assert!(sum > 0.8 * link && sum < link, "{sum} of {link}");
    // Another part of the window is another run.
    assert_ne!(bytes(&text.replace("part = 8", "part = 2")), bytes(text));
    let wrong = controller::run(&text.replace("part = 8", "part = 1"), Path::new("tcp.toml")).unwrap_err();
    assert_eq!(wrong, "transport \"scalable\": every must be above 0, part above 1");
}
