//! Effects on traffic, as the agent counts them, against the kernel's own figures: two network namespaces and a cable.

mod common;

use common::fleet::*;
use common::lab::{Agent, Lab, onrampctl, run, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Instant;

const T: &str = "threshold = \"50us\"";
const B: &str = "10.9.0.2";

/// A connection from "a" to "b", and "b"'s end of it.
struct Connection(TcpStream, TcpStream);

impl Connection {
    fn open(lab: &Lab, from: &str) -> Self {
        let to: IpAddr = B.parse().unwrap();
        let listener = lab.on("b", move || TcpListener::bind((to, 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        let ours = lab.on(from, move || TcpStream::connect((to, port)).unwrap());
        Self(ours, listener.accept().unwrap().0)
    }

    /// Sends so many bytes and waits until they have arrived.
    fn send(&mut self, bytes: usize) {
        let Self(ours, theirs) = self;
        std::thread::scope(|s| {
            s.spawn(|| ours.write_all(&vec![1; bytes]).unwrap());
            theirs.read_exact(&mut vec![0; bytes]).unwrap();
        });
    }

    /// The kernel's counters of it, as `ss` names them.
    fn ss(&self, lab: &Lab) -> [u64; 3] {
        let port = self.0.local_addr().unwrap().port();
        let filter = format!("sport = :{port}");
        let said = lab.command("a", "ss").args(["-tinOH", &filter]).output().unwrap().stdout;
        let said = String::from_utf8(said).unwrap();
        let after = |name: &str| said.split_once(name).map_or(0, |(_, rest)| number(rest));
        let retransmitted = said.split_once(" retrans:").map_or(0, |(_, rest)| number(rest.split_once('/').unwrap().1));
        [after(" data_segs_out:"), retransmitted, after(" bytes_acked:")]
    }
}

fn number(text: &str) -> u64 {
    let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap()
}

/// A counter of a host's network namespace.
fn netstat(lab: &Lab, file: &str, name: &str) -> u64 {
    let path = format!("/proc/thread-self/net/{file}");
    let text = lab.on("a", move || std::fs::read_to_string(path).unwrap());
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(' ').collect()).collect();
    let pair = lines.chunks(2).find_map(|pair| Some(pair[1][pair[0].iter().position(|n| *n == name)?]));
    pair.unwrap().parse().unwrap()
}

/// Segments, retransmissions, bytes acknowledged and timeouts so far.
fn counted(effects: &Value) -> [u64; 4] {
    ["segments", "retransmitted", "acked_bytes", "timeouts"].map(|name| effects[name].as_u64().unwrap())
}

fn total(agent: &Agent) -> [u64; 4] {
    counted(&agent.status()["effects"])
}

fn are_counted(agent: &Agent) {
    let is = |path: &Value| path["peer"] == B && path["effects"]["tcp"].as_str().is_some_and(|tcp| tcp != "none");
    until("is TCP counted", || agent.status()["paths"].as_array().unwrap().iter().any(is));
}

/// Has "b" drop what comes by TCP, as nft says.
fn drop_at_b(lab: &Lab, what: &str) {
    let rules = format!("table ip drops {{ chain c {{ type filter hook input priority 0; {what} drop; }}; }}");
    assert!(lab.command("b", "nft").arg(rules).status().unwrap().success());
}

fn drop_no_more(lab: &Lab) {
    assert!(lab.command("b", "nft").args(["delete", "table", "ip", "drops"]).status().unwrap().success());
}

fn has_nft() -> bool {
    let has = Command::new("nft").arg("--version").output().is_ok();
    if !has {
        eprintln!("skipped: there is no nft");
    }
    has
}

#[test]
fn what_tcp_did_to_peers_is_counted_as_the_kernel_counts_it() {
    let Some(lab) = Lab::new().filter(|_| has_nft()) else { return };
    let mut old = Connection::open(&lab, "a");
    old.send(5_000_000);
    let (a, _b) = (lab.agent("a", T), lab.agent("b", T));
    are_counted(&a);
    assert_eq!(total(&a), [0; 4], "what was before is not counted");

    // One that stays open, with losses.
    drop_at_b(&lab, "tcp flags & (syn|fin) == 0 numgen inc mod 40 == 0");
    let mut open = Connection::open(&lab, "a");
    open.send(30_000_000);
    drop_no_more(&lab);
    until("is it as ss says", || {
        let [segments, retransmitted, acked, _] = counted(&a.path(B)["effects"]);
        [segments, retransmitted, acked] == open.ss(&lab) && acked >= 30_000_000
    });
    let [_, retransmitted, ..] = total(&a);
    assert!(retransmitted > 0);
    assert_eq!(retransmitted, netstat(&lab, "snmp", "RetransSegs"));

    // Short ones, over before anybody looks at them.
    let before = total(&a);
    for _ in 0..50 {
        Connection::open(&lab, "a").send(100_000);
    }
    until("are they counted", || total(&a)[2] - before[2] >= 50 * 100_000);
    let grown = total(&a)[2] - before[2];
    // SYN and FIN count as a byte each.
    assert!(grown <= 50 * 100_002, "{grown}");

    // Nothing comes through until TCP has run out of patience twice.
    drop_at_b(&lab, "tcp dport != 0");
    open.0.write_all(&[1; 100_000]).unwrap();
    until("has it timed out", || netstat(&lab, "netstat", "TCPTimeouts") >= 2);
    drop_no_more(&lab);
    open.1.read_exact(&mut vec![0; 100_000]).unwrap();
    let status = a.status();
    if status["effects"]["tcp"] == "all" {
        until("are timeouts counted", || total(&a)[3] == netstat(&lab, "netstat", "TCPTimeouts"));
        assert_eq!(status["effects_missing"], Value::Null);
    } else {
        assert!(status["effects_missing"].as_str().unwrap().contains("since Linux 6.7"), "{status}");
    }
    until("are retransmissions", || total(&a)[1] == netstat(&lab, "snmp", "RetransSegs"));

    // The one from before counts from then on.
    let before = total(&a);
    old.send(1_000_000);
    until("does it count", || total(&a)[2] - before[2] == 1_000_000);
    assert_eq!(a.status()["problems"], serde_json::json!([]));
    assert!(a.end());
}

#[test]
fn delays_and_connections_of_other_namespaces_are_told_apart() {
    let Some(lab) = Lab::with_pod() else { return };
    let (a, _b) = (lab.agent("a", T), lab.agent("b", T));
    are_counted(&a);
    // Its packets are measured as the host's own; its connections are in a namespace of its own.
    assert!(lab.transfer_from("pod", B, 5_000_000));
    until("are delays counted", || a.status()["effects"]["owd"].as_array().is_some_and(|owd| !owd.is_empty()));
    let or_acks =
        |effects: &Value| effects["owd"].as_array().unwrap().iter().map(|pair| pair[1].as_u64().unwrap()).sum::<u64>();
    until("are all of them", || {
        let status = a.status();
        let path = status["paths"].as_array().unwrap().iter().find(|path| path["peer"] == B).unwrap();
        or_acks(&status["effects"]) == or_acks(&path["effects"])
            && path["or_acks"].as_u64() == Some(or_acks(&path["effects"]))
    });
    assert_eq!(total(&a), [0; 4]);
    assert!(lab.transfer("10.9.0.2", 1_000_000));
    until("does the host's own count", || total(&a)[2] >= 1_000_000);
    assert!(a.end());
}

#[test]
fn the_coordinator_knows_what_its_members_traffic_has_met() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    let (a, b) = (start(&lab, "a", QUICK, ""), start(&lab, "b", QUICK, ""));
    are_counted(&a);
    assert!(lab.transfer(B, 5_000_000));
    let known = || {
        let said = output(&lab, "b", &["fleet", "--json"]);
        let fleet: Value = serde_json::from_slice(&said.stdout).unwrap_or_default();
        fleet["hosts"][0]["effects"].clone()
    };
    until("are they there", || known()["acked_bytes"].as_u64() >= Some(5_000_000));
    let run = known()["since"].clone();
    assert_eq!(run, a.status()["effects"]["since"]);
    assert!(a.end());
    let _a = start(&lab, "a", QUICK, "");
    until("do they start anew", || known()["since"] != run);
    assert!(b.end());
}

/// A report of the last hour, with these arguments besides.
fn report(agent: &Agent, more: &[&str]) -> Output {
    onrampctl(&[&["report", "--since", "1h", "--socket", agent.socket.to_str().unwrap()], more].concat())
}

/// Blocks that a report is made from.
fn blocks(agent: &Agent) -> u64 {
    let said: Value = serde_json::from_slice(&report(agent, &["--json"]).stdout).unwrap_or_default();
    ["observe", "enforce"].iter().filter_map(|mode| said[mode]["blocks"].as_u64()).sum()
}

/// The file of a host's history.
fn history(lab: &Lab, host: &str) -> PathBuf {
    let files = fs::read_dir(lab.file(host)).unwrap().map(|file| file.unwrap().path());
    files.filter(|path| path.to_str().unwrap().contains("/effects-")).max().unwrap()
}

#[test]
fn a_report_tells_what_was_kept_and_what_is_asked_wrongly_is_a_line() {
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = (lab.agent("a", T), lab.agent("b", T));
    let line = |output: Output, status: i32| {
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(status), 1), "{said}");
        said
    };
    assert!(line(report(&a, &[]), 1).contains("the agent has kept nothing from "));
    are_counted(&a);
    assert!(lab.transfer(B, 5_000_000));
    until("is there a block", || blocks(&a) == 1);
    let page = lab.file("report.html");
    let said = report(&a, &["--html", page.to_str().unwrap()]);
    let text = String::from_utf8(said.stdout).unwrap();
    println!("{text}");
    assert!(text.contains("\nenforce: never\n") && text.contains("The agent only observed in this time"), "{text}");
    assert!(text.contains("\nto 10.9.0.2 ") && text.contains("load: data segments"), "{text}");
    assert!(fs::read_to_string(page).unwrap().contains("</svg>"));
    let said: Value = serde_json::from_slice(&report(&a, &["--json", "--peer", B]).stdout).unwrap();
    let of = |name: &str| said["total"].as_array().unwrap().iter().find(|row| row["name"] == name).unwrap();
    assert!(of("goodput")["observe"].as_f64() > Some(100_000.0) && of("owd_p99")["observe"].is_number(), "{said}");
    assert!(of("owd_p99")["difference"].is_null());

    for (wrong, why) in [
        (&["--until", "2h"][..], "is not before"),
        (&["--until", "soon"], "--until soon: "),
        (&["--peer", "10.9.0.77"], "--peer 10.9.0.77: no peer"),
    ] {
        assert!(line(report(&a, wrong), 2).contains(why), "{why}");
    }
    assert!(line(onrampctl(&["report", "--since", "1h", "--socket", "/nowhere"]), 1).contains("no agent answers"));
}

#[test]
fn the_history_outlives_an_agent_that_is_killed_and_a_full_disk_is_one_problem() {
    let Some(lab) = Lab::new() else { return };
    let state = lab.file("a");
    fs::create_dir_all(&state).unwrap();
    run(&format!("mount -t tmpfs -o size=64k disk {}", state.display()));
    let done = std::panic::catch_unwind(|| {
        let a = lab.agent("a", T);
        until("is there a block", || blocks(&a) >= 1);
        a.kill();
        let path = history(&lab, "a");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, [&whole[..], &whole[..whole.len() / 2]].concat()).unwrap();

        let a = lab.agent("a", T);
        assert!(blocks(&a) >= 1);
        assert_eq!(fs::read(&path).unwrap(), whole);
        assert_eq!(lab.log("a").matches("a block that a crash had cut off is dropped").count(), 1);
        let fill = state.join("fill");
        assert!(fs::write(&fill, vec![1; 128 << 10]).is_err(), "it is full");
        until("is it told", || a.status()["problems"].to_string().contains("history is not kept: "));
        assert_eq!(a.status()["problems"].as_array().unwrap().len(), 1);
        assert!(lab.transfer(B, 1_000_000), "nothing else");
        assert!(blocks(&a) >= 1);
        fs::remove_file(fill).unwrap();
        until("is it mended", || a.status()["problems"] == serde_json::json!([]));
        assert!(a.end());
    });
    run(&format!("umount {}", state.display()));
    done.unwrap();
}

/// For docs/overhead.md: `cargo test --release -p onrampd --test effects -- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn what_a_look_at_many_connections_takes() {
    let Some(lab) = Lab::new() else { return };
    let resource = rustix::process::Resource::Nofile;
    let limit = rustix::process::getrlimit(resource);
    rustix::process::setrlimit(resource, rustix::process::Rlimit { current: limit.maximum, ..limit }).unwrap();
    let peers = BTreeSet::from([B.parse::<IpAddr>().unwrap()]);
    let mut open = Vec::new();
    for connections in [0, 9_900] {
        open.extend((0..connections).map(|_| Connection::open(&lab, "a")));
        for (whose, known) in [("a peer's", peers.clone()), ("others'", BTreeSet::new())] {
            let mut took = lab.on("a", || {
                let mut programs = onrampd::datapath::tcp::Connections::count().unwrap();
                let mut timed = || {
                    let begun = Instant::now();
                    programs.walk(&known).unwrap();
                    begun.elapsed()
                };
                (0..21).map(|_| timed()).collect::<Vec<_>>()
            });
            let first = took.remove(0);
            took.sort();
            println!("{connections} connections, {whose}: {:?}; the first look {first:?}", took[10]);
        }
    }
}
