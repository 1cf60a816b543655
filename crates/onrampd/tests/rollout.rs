//! Rollouts, with agents in network namespaces. This kernel has no gate, so that no host holds packets; a rollout that goes
//! on is tested where there is one.

mod common;

use common::fleet::*;
use common::lab::{Lab, until};
use onrampd::policy::Version;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

fn versions(lab: &Lab) -> Vec<String> {
    let history = said(&output(lab, "a", &["policy", "history", "--json"]));
    let history: Vec<Version> = serde_json::from_str(&history).unwrap();
    history.into_iter().rev().map(|version| version.what).collect()
}

#[test]
fn hosts_that_do_not_hold_are_no_canaries_and_it_goes_back() {
    let Some(lab) = Lab::switched() else { return };
    let _agents = three(&lab);
    let known = || fleet(&lab, "a")["hosts"].as_array().unwrap().iter().all(|host| !host["effects"].is_null());
    until("do all hosts say what they meet", known);
    let rollout =
        |more: &[&str]| output(&lab, "a", &[&["rollout", "--label", "rack=b7", "--for", "20s"], more].concat());
    let tried = rollout(&["--message", "first"]);
    let text = String::from_utf8(tried.stdout).unwrap();
    println!("{text}");
    assert_eq!(tried.status.code(), Some(1), "{text}");
    assert!(
        text.starts_with(
            "watching 3 hosts for 20s as they are now\nstep 1 of 1: rack=b7 · 2 hosts enforce · version 1\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("back: no host holds packets: 10.9.0.2: nothing is held: policy version 1 says enforce"),
        "{text}"
    );
    assert!(text.ends_with("version 2 says that there is no policy, as before\n"), "{text}");
    assert_eq!(versions(&lab), ["rollout: back to version 0", "rollout: step 1 of 1"]);
    assert!(lab.log("a").contains("a trial: back to version 0 at "), "{}", lab.log("a"));

    // Whoever stops it before it begins changes nothing.
    let mut command = command(&lab, "a", &["rollout", "--label", "rack=b7", "--config"]);
    let running = command.arg(config(&lab, "a")).stdout(Stdio::piped()).spawn().unwrap();
    sleep(Duration::from_secs(1));
    kill_process(Pid::from_raw(running.id() as i32).unwrap(), Signal::INT).unwrap();
    let stopped = running.wait_with_output().unwrap();
    let text = String::from_utf8(stopped.stdout).unwrap();
    assert!(stopped.status.code() == Some(1) && text.ends_with("back: it was stopped\n"), "{text}");
    assert_eq!(versions(&lab).len(), 2);

    // What cannot be rolled out is a line.
    for (arguments, wrong) in [
        (&["--label", "rack=b8"][..], "no host of the fleet has the labels rack=b8: onrampctl fleet shows them"),
        (&["--label", "rack"], "is no label, such as \"rack=b7\""),
        (&[], "--label <KEY=VALUE>|--steps <SHARES>"),
        (&["--steps", "50%,25%"], "shares grow, from 1% to 100%"),
        (&["--steps", "50%", "--for", "10s"], "is outside 20s to 1d"),
        (&["--steps", "50%", "--guard", "fct < 1x"], "is not about retransmissions"),
        (&["--steps", "50%", "--threshold", "fast"], "is not a time"),
    ] {
        let refused = output(&lab, "a", &[&["rollout"], arguments].concat());
        let line = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && line.contains(wrong), "{arguments:?}: {line}");
    }
    said(&output(&lab, "a", &["stop-holding", "--fleet"]));
    let refused = rollout(&[]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8(refused.stderr).unwrap().contains("holding is stopped in the whole fleet"));
    let elsewhere = output(&lab, "b", &["rollout", "--steps", "50%"]);
    assert_eq!(elsewhere.status.code(), Some(2), "{elsewhere:?}");
}
