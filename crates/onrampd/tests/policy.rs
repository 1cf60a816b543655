//! The fleet's policy, from the operator's command to the mode of each host, with agents in network namespaces. Where this
//! kernel has no gate, a host that is to enforce says that it would.

mod common;

use common::fleet::*;
use common::lab::{Agent, Lab, onrampctl, until};
use onrampd::fleet::pki;
use onrampd::fleet::tokens::today;
use onrampd::policy::{self, Trial, Version};
use rustix::process::Signal;
use serde_json::Value;
use std::fs;
use std::process::Output;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Enforces in one rack.
const B7: &str = "[[rule]]\nlabels = { rack = \"b7\" }\nmode = \"enforce\"\n";

/// A command on "a" with the policy in a file of its own.
fn set(lab: &Lab, policy: &str, more: &[&str]) -> Output {
    let file = lab.file("policy.toml");
    fs::write(&file, policy).unwrap();
    output(lab, "a", &[&["policy", "set", file.to_str().unwrap()], more].concat())
}

/// Returns whether a host decided to enforce: a kernel without a gate cannot hold, and the reason says so.
fn enforces(status: &Value) -> bool {
    let why = status["policy"]["why"].as_str().unwrap_or_default();
    status["mode"] == "enforce"
        || why.starts_with("nothing is held: policy")
        || why.starts_with("nothing is held: the conf")
}

fn policy_of(agent: &Agent) -> Value {
    agent.status()["policy"].clone()
}

fn why(agent: &Agent) -> String {
    policy_of(agent)["why"].as_str().unwrap().into()
}

/// The version a host goes by, and whether it is to hold packets.
fn state(agent: &Agent) -> (u64, bool) {
    let status = agent.status();
    (status["policy"]["version"].as_u64().unwrap(), enforces(&status))
}

fn shown(lab: &Lab, host: &str) -> Value {
    let said = output(lab, host, &["policy", "show", "--json"]);
    serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"))
}

/// Versions that hosts have confirmed, by their addresses.
fn confirmed(lab: &Lab) -> Vec<Option<u64>> {
    shown(lab, "a")["hosts"].as_array().unwrap().iter().map(|host| host["version"].as_u64()).collect()
}

#[test]
fn hosts_of_one_rack_enforce_and_all_confirm_and_it_is_rolled_back() {
    let Some(lab) = Lab::switched() else { return };
    let agents = three(&lab);
    let states = || agents.each_ref().map(state);
    until("are all there", || confirmed(&lab) == [Some(0); 3]);
    assert_eq!(why(&agents[1]), "the fleet has no policy");
    let none = said(&output(&lab, "a", &["policy", "show"]));
    assert!(none.starts_with("the fleet has no policy"), "{none}");
    assert!(said(&output(&lab, "a", &["fleet"])).contains(" · rack=b7\n"));

    let text = said(&set(&lab, B7, &["--message", "first rack"]));
    println!("{text}");
    assert!(text.starts_with("version 1\n") && text.contains("\n+ mode = \"enforce\"\n"), "{text}");
    assert!(text.contains("rule 1 (rack=b7): enforce · 2 of 3 hosts\nno rule: observe · 1 of 3 hosts\n"), "{text}");
    assert!(text.contains("confirmed by 3 of 3 hosts; "), "{text}");
    assert_eq!(states(), [(1, false), (1, true), (1, true)], "at once, since all have confirmed");
    assert_eq!(confirmed(&lab), [Some(1); 3]);
    assert_eq!(why(&agents[0]), "no rule of policy version 1 is about this host");
    let show = said(&output(&lab, "b", &["policy", "show"]));
    println!("{show}");
    assert!(show.contains("version 1 · set · ") && show.contains(" · first rack\n"), "{show}");
    assert!(show.contains("confirmed by 3 of 3 connected hosts"), "any host may ask: {show}");

    // T by the policy where the configuration names none; flows are kept, as with a reload.
    assert!(lab.transfer("10.9.0.2", 1_000_000));
    until("are there delays", || agents[0].path("10.9.0.2")["or_acks"].as_u64() > Some(10));
    let threshold = |agent: &Agent| agent.status()["parameters"]["threshold_ns"].as_u64().unwrap();
    let before = agents[0].path("10.9.0.2")["or_acks"].as_u64();
    said(&set(&lab, &format!("{B7}threshold = \"80us\"\n[[rule]]\nmode = \"observe\"\nthreshold = \"90us\"\n"), &[]));
    assert_eq!(agents.each_ref().map(threshold), [90_000, 80_000, 80_000]);
    assert!(agents[0].path("10.9.0.2")["or_acks"].as_u64() >= before, "what is known of paths is kept");
    assert_eq!(policy_of(&agents[1])["threshold_by"], "policy");

    // A new program goes on with it.
    agents[1].upgrade(|| ());
    assert_eq!(state(&agents[1]), (2, true));

    // The other way round, and back.
    said(&set(&lab, "[[rule]]\nlabels = { rack = \"b6\" }\nmode = \"enforce\"\n", &[]));
    assert_eq!(states(), [(3, true), (3, false), (3, false)]);
    assert_eq!(threshold(&agents[1]), 50_000, "the floor of \"auto\" again");
    let diff = said(&output(&lab, "a", &["policy", "diff", "1"]));
    assert!(diff.contains("- labels = { rack = \"b7\" }\n+ labels = { rack = \"b6\" }\n"), "{diff}");
    assert_eq!(said(&output(&lab, "a", &["policy", "diff", "3"])), "no difference\n");
    let back = said(&output(&lab, "a", &["policy", "rollback", "1"]));
    assert!(back.starts_with("version 4\n"), "{back}");
    assert_eq!(states(), [(4, false), (4, true), (4, true)]);
    said(&output(&lab, "a", &["policy", "rollback", "--message", "wrong one"]));
    assert_eq!(states(), [(5, true), (5, false), (5, false)], "without a number, the policy before");
    assert!(said(&output(&lab, "a", &["policy", "rollback", "3"])).contains("version 5 says that already"));
    let nowhere = output(&lab, "a", &["policy", "rollback", "77"]);
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
    let history = said(&output(&lab, "a", &["policy", "history"]));
    println!("{history}");
    assert_eq!(history.lines().count(), 6);
    assert!(history.lines().nth(1).unwrap().contains("rollback to version 3") && history.contains(": wrong one\n"));
    let history: Value = serde_json::from_slice(&output(&lab, "a", &["policy", "history", "--json"]).stdout).unwrap();
    assert_eq!(history.as_array().unwrap().len(), 5);
    said(&output(&lab, "a", &["policy", "rollback", "0"]));
    assert_eq!(states(), [(6, false); 3]);
    assert_eq!(why(&agents[0]), "the fleet has no policy");

    // Who, from where and when is in the logs of the coordinator and of the hosts.
    let log = lab.log("a");
    let set = log
        .lines()
        .find(|line| line.starts_with("onrampd: policy version 1: set, by "))
        .unwrap_or_else(|| panic!("{log}"));
    println!("{set}");
    assert!(set.contains(" UTC: rack=b7: enforce; others: observe (kept for 1h): \"first rack\""), "{set}");
    assert!(log.contains("onrampd: policy version 4: rollback to version 1, by "), "{log}");
    assert!(log.contains("onrampd: mode of 10.9.0.2: "), "{log}");
    let log = lab.log("b");
    println!("{log}");
    assert!(
        log.contains("; policy version 1, by ") && log.contains("onrampd: mode observe: no rule of policy version 3")
    );
}

#[test]
fn a_hosts_own_configuration_says_less_and_never_more() {
    let Some(lab) = Lab::switched() else { return };
    let [a, b, c] = three(&lab);
    assert!(b.end() && c.end());
    let own = |host: &str, mode: &str| {
        adjust(&lab, host, &with_rack("b7"), "");
        let text = fs::read_to_string(config(&lab, host)).unwrap();
        fs::write(config(&lab, host), format!("{mode}\n{text}")).unwrap();
    };
    let again = |host: &str| {
        let mut command = command(&lab, host, &["run", "--config"]);
        command.arg(config(&lab, host));
        lab.start(host, command)
    };
    own("b", "mode = \"observe\"\nthreshold = \"30us\"");
    own("c", "mode = \"enforce\"");
    let (b, c) = (again("b"), again("c"));
    until("does its configuration count", || {
        state(&c) == (0, true) && why(&c).contains("the configuration says enforce")
    });
    until("are all there", || confirmed(&lab) == [Some(0); 3]);
    said(&set(&lab, &format!("{B7}threshold = \"80us\""), &[]));
    assert_eq!([&a, &b, &c].map(state), [(1, false), (1, false), (1, true)]);
    assert_eq!(why(&b), "the configuration says observe");
    let threshold = |agent: &Agent| agent.status()["parameters"]["threshold_ns"].as_u64().unwrap();
    assert_eq!([&b, &c].map(threshold), [30_000, 80_000], "its own T counts");
    assert_eq!(policy_of(&b)["threshold_by"], "configuration");
    said(&set(&lab, "[[rule]]\nmode = \"observe\"\n", &[]));
    assert_eq!(state(&c), (2, false), "its configuration says more, and the policy counts");
    // A reload by the same rules.
    said(&set(&lab, "[[rule]]\nmode = \"enforce\"\n", &[]));
    assert_eq!([&b, &c].map(state), [(3, false), (3, true)]);
    own("b", "");
    b.signal(Signal::HUP);
    until("does it follow the policy", || state(&b) == (3, true));
    own("b", "mode = \"observe\"");
    b.signal(Signal::HUP);
    until("does it observe", || state(&b) == (3, false));
    until("is that told", || shown(&lab, "a")["hosts"][1]["why"] == "the configuration says observe");
}

#[test]
fn a_coordinator_that_is_late_with_one_answer_is_not_taken_for_none() {
    let Some(lab) = Lab::switched() else { return };
    let agents = three(&lab);
    until("are all there", || confirmed(&lab) == [Some(0); 3]);
    agents[0].signal(rustix::process::Signal::STOP);
    let stopped = std::thread::scope(|scope| {
        let stopped = scope.spawn(|| output(&lab, "a", &["stop-holding", "--fleet"]));
        // An answer is waited for for a second.
        sleep(Duration::from_millis(1500));
        agents[0].signal(rustix::process::Signal::CONT);
        stopped.join().unwrap()
    });
    let text = said(&stopped);
    assert!(text.starts_with("version 1: 3 of 3 hosts hold nothing any more, after "), "{text}");
}

#[test]
fn holding_is_stopped_everywhere_within_a_second_and_stays_stopped() {
    let Some(lab) = Lab::switched() else { return };
    let agents = three(&lab);
    let states = || agents.each_ref().map(state);
    until("are all there", || confirmed(&lab) == [Some(0); 3]);
    said(&set(&lab, "[[rule]]\nmode = \"enforce\"\n", &[]));
    assert_eq!(states(), [(1, true); 3]);

    let begun = Instant::now();
    let text = said(&output(&lab, "a", &["stop-holding", "--fleet", "--message", "incident 12"]));
    let took = begun.elapsed();
    println!("stopped in {took:?}: {text}");
    assert!(text.starts_with("version 2: 3 of 3 hosts hold nothing any more, after ") && took < Duration::from_secs(5));
    assert_eq!(states(), [(2, false); 3]);
    assert!(why(&agents[1]).starts_with("holding is stopped in the whole fleet, by "));
    assert_eq!(policy_of(&agents[1])["stopped"], true);
    // It stands above any policy.
    assert!(said(&set(&lab, B7, &[])).contains("holding is stopped in the whole fleet"));
    assert_eq!(states(), [(3, false); 3]);
    assert!(why(&agents[1]).ends_with(" (version 2): incident 12"), "who set the policy has not stopped it");
    assert!(lab.log("a").contains("onrampd: policy version 2: stop-holding, by "));
    assert!(lab.log("c").contains("onrampd: mode observe: holding is stopped in the whole fleet, by "));
    // A host that starts anew, without a coordinator, knows of it.
    let [a, b, c] = agents;
    assert!(a.end() && c.end());
    let c = start(&lab, "c", &with_rack("b7"), "");
    assert_eq!(state(&c), (3, false));
    assert!(why(&c).starts_with("holding is stopped"), "{}", why(&c));
    let nobody = output(&lab, "a", &["stop-holding", "--fleet", "--end"]);
    let text = String::from_utf8(nobody.stderr).unwrap();
    assert_eq!(nobody.status.code(), Some(1));
    assert_eq!(
        text,
        "onrampctl: version 4: no coordinator answers, so hosts go on as before: start the one on this host, or say onrampd off on \
         each\n"
    );
    let a = start(&lab, "a", &with_rack("b6"), "");
    until("does the policy count again", || [&a, &b, &c].map(state) == [(4, false), (4, true), (4, true)]);
    assert_eq!(said(&output(&lab, "a", &["stop-holding", "--fleet", "--end"])), "holding was not stopped\n");

    // On one host alone.
    let here = |more: &[&str]| {
        let state_dir = lab.file("b");
        said(&onrampctl(&[&["stop-holding", "--state-dir", state_dir.to_str().unwrap()], more].concat()))
    };
    here(&["--message", "trial"]);
    until("does it observe", || why(&b).contains("`onrampd off` was said"));
    assert!(lab.log("b").contains("`onrampd on` ends it; by root from "), "{}", lab.log("b"));
    assert!(lab.log("b").contains(" UTC: trial"), "{}", lab.log("b"));
    assert_eq!(state(&c), (4, true), "the others go on");
    until("is that told", || shown(&lab, "a")["hosts"][1]["why"].to_string().contains("`onrampd off` was said"));
    here(&["--end"]);
    until("does it follow the policy", || state(&b) == (4, true));
}

#[test]
fn without_a_coordinator_the_policy_runs_out() {
    let Some(lab) = Lab::switched() else { return };
    let [a, b, c] = three(&lab);
    until("are all there", || confirmed(&lab) == [Some(0); 3]);
    said(&set(&lab, &format!("keep = \"4s\"\n{B7}"), &[]));
    assert_eq!([&b, &c].map(state), [(1, true); 2]);
    a.kill();
    until("is it lost", || policy_of(&b)["runs_out_ns"].is_u64());
    let lost = Instant::now();
    assert!(state(&b).1, "it is kept for a time");
    // One that starts anew has what is left.
    assert!(c.end());
    let c = start(&lab, "c", &with_rack("b7"), "");
    assert_eq!(state(&c), (1, true));
    until("does it observe", || !state(&b).1);
    println!("ran out {:?} after it was lost", lost.elapsed());
    assert!(lost.elapsed() > Duration::from_secs(3));
    let text = "policy version 1 has run out: no coordinator for 4s";
    assert_eq!(why(&b), text);
    assert!(lab.log("b").contains(&format!("onrampd: mode observe: {text}; policy version 1, by ")));
    until("does the other, too", || !state(&c).1);
    assert!(c.end());
    let c = start(&lab, "c", &with_rack("b7"), "");
    assert_eq!((state(&c), why(&c).as_str()), ((1, false), text), "a start anew does not make it count again");
    // What was made while no coordinator ran is told when one does.
    let made = set(&lab, "keep = \"60s\"\n[[rule]]\nmode = \"enforce\"\n", &[]);
    let text = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.code() == Some(1) && text.contains("no coordinator answers: hosts hear of it when one runs"));
    let a = start(&lab, "a", &with_rack("b6"), "");
    until("does it count again", || [&a, &b, &c].map(state) == [(2, true); 3]);
    assert!(lab.log("a").contains("onrampd: policy version 2: set, by "));
}

/// The fleet's policy as `onrampctl` keeps it on a host.
fn kept(lab: &Lab, host: &str) -> String {
    fs::read_to_string(lab.file(&format!("{host}.d/fleet/coordinator/lists/policy.json"))).unwrap_or_default()
}

#[test]
fn a_standby_has_the_same_policy_and_an_older_one_is_not_followed() {
    let Some(lab) = Lab::switched() else { return };
    two(&lab);
    list_standby(&lab);
    copy_authority(&lab);
    let running = standby(&lab);
    let a = start(&lab, "a", &with_rack("b6"), "");
    let b = start(&lab, "b", &with_rack("b7"), "");
    until("are all there", || confirmed(&lab) == [Some(0); 2]);
    said(&set(&lab, &format!("keep = \"3s\"\n{B7}"), &[]));
    assert_eq!(kept(&lab, "a"), kept(&lab, "c"), "the standby was told");
    a.kill();
    let serves = |address: &str| b.status()["clock"]["coordinator"] == address;
    until("does the standby serve", || serves("10.9.0.3:9472"));
    sleep(Duration::from_secs(4));
    assert_eq!(state(&b), (1, true), "the standby stands by the same policy");
    assert!(policy_of(&b)["runs_out_ns"].is_null());

    // One that was away does not know of the next version. Nothing of what it says is followed; what the host has runs out.
    assert!(running.end());
    let a = start(&lab, "a", &with_rack("b6"), "");
    until("does the first serve", || serves(COORDINATOR) && confirmed(&lab) == [Some(1); 2]);
    let alone = output(&lab, "a", &["stop-holding", "--fleet"]);
    let text = String::from_utf8(alone.stderr).unwrap();
    assert!(alone.status.code() == Some(1) && text.contains("10.9.0.3:9472: Connection refused"), "{text}");
    assert!(String::from_utf8(alone.stdout).unwrap().starts_with("version 2: 2 of 2 hosts hold nothing any more"));
    a.kill();
    let running = standby(&lab);
    until("does the standby serve", || serves("10.9.0.3:9472"));
    until("is that told", || {
        lab.log("standby").contains("10.9.0.2 has version 2 of the policy, and this coordinator 1")
    });
    assert_eq!(state(&b), (2, false), "the version that stops is newer");
    // The same again tells the standby; from then on it stands by that.
    let a = start(&lab, "a", &with_rack("b6"), "");
    said(&output(&lab, "a", &["stop-holding", "--fleet"]));
    assert_eq!(kept(&lab, "a"), kept(&lab, "c"));
    said(&output(&lab, "a", &["stop-holding", "--fleet", "--end"]));
    until("does it hold again", || state(&b) == (3, true));

    // What was said on the standby counts here as well: that holding is stopped is not lost by what is set next.
    let mut versions: Vec<Version> = serde_json::from_str(&kept(&lab, "a")).unwrap();
    let stopped = Version { version: 4, stopped: true, ..versions[0].clone() };
    versions.push(stopped);
    let file = lab.file("c.d/fleet/coordinator/lists/policy.json");
    fs::write(file, serde_json::to_string(&versions).unwrap()).unwrap();
    let text = said(&set(&lab, &format!("keep = \"4s\"\n{B7}"), &[]));
    assert!(text.contains("holding is stopped in the whole fleet"), "{text}");
    assert_eq!((state(&b), kept(&lab, "a")), ((5, false), kept(&lab, "c")));
    // A host that is not reached may go on.
    b.kill();
    until("is it noticed", || !fleet(&lab, "a")["hosts"][1]["connected"].as_bool().unwrap_or(false));
    let text = String::from_utf8(output(&lab, "a", &["stop-holding", "--fleet"]).stderr).unwrap();
    assert!(text.contains("1 of 1 host ") && text.contains("not reached: 10.9.0.2"), "{text}");

    // A member cannot make a policy.
    let newer = Version { version: 9, ..versions[0].clone() };
    let client = pki::client(&lab.file("a.d/fleet")).unwrap();
    let said = say_to(COORDINATOR, &lab, client, &onrampd::fleet::wire::FromHost::Policy(newer));
    assert_eq!(refusal(said), "not known here: join first");
    assert!(a.end() && running.end());
}

#[test]
fn a_trial_that_nobody_ends_is_ended_by_the_coordinator() {
    let Some(lab) = Lab::switched() else { return };
    let agents = three(&lab);
    until("are all there", || confirmed(&lab) == [Some(0); 3]);
    said(&set(&lab, "[[rule]]\nmode = \"observe\"\n", &[]));
    let mut versions: Vec<Version> = serde_json::from_str(&kept(&lab, "a")).unwrap();
    let policy = policy::file::load(B7, "p.toml").ok();
    let trial = Some(Trial { until: today() + 2, back: 1 });
    versions.push(Version { version: 2, policy, trial, what: "rollout: step 1 of 1".into(), ..versions[0].clone() });
    fs::write(lab.file("a.d/fleet/coordinator/lists/policy.json"), serde_json::to_string(&versions).unwrap()).unwrap();
    until("does the rack enforce", || agents.each_ref().map(state) == [(2, false), (2, true), (2, true)]);
    until("is it over", || agents.each_ref().map(state) == [(3, false); 3]);
    let log = lab.log("a");
    assert!(log.contains("onrampd: policy version 3: end of the trial of version 2: back to version 1, by "), "{log}");
}

#[test]
fn a_wrong_policy_is_a_line_and_changes_nothing() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    let a = start(&lab, "a", &with_rack("b7"), "");
    said(&set(&lab, B7, &[]));
    let before = kept(&lab, "a");
    for (text, wrong) in [
        ("[[rule]]\nmode = \"enforced\"\n", ":2: rule 1: mode: \"enforced\" is not one of observe, enforce"),
        ("kep = \"1h\"\n[[rule]]\nmode = \"observe\"\n", ":1: kep: is not a known key: did you mean keep?"),
        ("", ": rule: is missing: at least one [[rule]] section is needed"),
    ] {
        let refused = set(&lab, text, &[]);
        let line = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), line.lines().count()), (Some(2), 1), "{line}");
        assert!(line.starts_with(&format!("onrampctl: {}{wrong}", lab.file("policy.toml").display())), "{line}");
        let diff = output(&lab, "a", &["policy", "diff", lab.file("policy.toml").to_str().unwrap()]);
        assert_eq!(diff.status.code(), Some(2), "{diff:?}");
    }
    let nowhere = output(&lab, "a", &["policy", "set", "/nonexistent.toml"]);
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
    assert_eq!(kept(&lab, "a"), before);
    // Nor is it for another host to say.
    let elsewhere = output(&lab, "b", &["policy", "set", lab.file("policy.toml").to_str().unwrap()]);
    assert_eq!(elsewhere.status.code(), Some(2), "{elsewhere:?}");
    for command in [&["policy", "history"][..], &["stop-holding", "--fleet"]] {
        assert_eq!(output(&lab, "b", command).status.code(), Some(2));
    }
    // A file that somebody broke: the policy before goes on.
    fs::write(lab.file("a.d/fleet/coordinator/lists/policy.json"), "[{").unwrap();
    until("is it told", || lab.log("a").contains("onrampd: the policy before goes on: "));
    assert_eq!(state(&a).0, 1);
    let refused = output(&lab, "a", &["policy", "rollback"]);
    assert!(refused.status.code() == Some(1) && String::from_utf8_lossy(&refused.stderr).contains("policy.json: "));
}
