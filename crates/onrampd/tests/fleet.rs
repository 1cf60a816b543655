//! A fleet as a whole, on this machine's kernel: its hosts are network namespaces, with one
//! clock that the tests have wrong on each of them.

mod common;

use common::browser::Browser;
use common::fleet::*;
use common::http::{get, serving};
use common::lab::{Agent, Lab, onrampctl, run, until};
use onramp_core::orprobe::{Kind, OrProbe};
use onrampd::clock::now;
use onrampd::fleet::link::Link;
use onrampd::fleet::pairs::{Epochs, KEY_LIFE, Pairs};
use onrampd::fleet::pki::{self, Authority, Identity, Newcomer, Token};
use onrampd::fleet::tokens::today;
use onrampd::fleet::wire::{FromCoordinator, FromHost, SPEAKS, Speaks};
use rustix::process::Signal;
use rustls::ClientConnection;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::Duration;

#[test]
fn hosts_whose_clocks_are_years_apart_agree() {
    for (first, second) in [("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")] {
        let Some(lab) = Lab::new() else { return };
        let token = found(&lab, first);
        let a = start(&lab, "a", QUICK, "clock_offset = \"100000000s\"");
        assert!(join(&lab, "b", &token).status.success());
        let chrony = UnixDatagram::bind(lab.file("chrony.sock")).unwrap();
        chrony.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let more = format!("{QUICK}\nchrony = \"../chrony.sock\"\nlog = \"../probes\"");
        // It passes its 0 soon, however long this machine has been up.
        let ahead = format!("clock_offset = \"-{}ns\"\nclock_drift = \"30ppm\"", now() + 1_000_000_000);
        let b = start(&lab, "b", &more, &ahead);
        agree(&[&a, &b]);
        assert!(fleet_ns(&a).abs() > 90_000_000_000_000_000, "the fleet's time is that of its first host");
        // A single window's drift is off by tens of ppm where processors are busy.
        let drift = |agent: &Agent| agent.status()["clock"]["drift_ppm"].as_f64();
        until("are they 30 ppm apart", || drift(&b).zip(drift(&a)).is_some_and(|(b, a)| (b - a - 30.0).abs() < 20.0));

        // Delays of data are measured by these clocks.
        assert!(lab.transfer(second, 5_000_000));
        until("are there delays", || a.path(second)["or_acks"].as_u64() > Some(10));
        let owd = &a.path(second)["owd"];
        let least = owd["min_ns"].as_i64().unwrap();
        assert!((-CLOSE..10_000_000).contains(&least), "{owd}");

        // Both hosts' CLOCK_REALTIME is the same one.
        let mut sample = [0; 64];
        assert_eq!(chrony.recv(&mut sample).unwrap(), 40);
        let offset = f64::from_ne_bytes(sample[16..24].try_into().unwrap());
        assert!(offset.abs() * 1e9 < CLOSE as f64, "{offset} s");
        assert_eq!(sample[36..40], 0x534f_434bu32.to_ne_bytes());

        // The same by the coordinator.
        let said = fleet(&lab, "b");
        assert_eq!(said["parts"], serde_json::json!([[first, second]]), "{said}");
        let hosts = said["hosts"].as_array().unwrap();
        assert!(hosts.iter().all(|h| h["state"] == "synchronised" && h["connected"] == true), "{said}");
        let owd = |more: &[&str]| {
            let arguments = [&["owd"], more].concat();
            output(&lab, "b", &arguments)
        };
        let json: Value = serde_json::from_slice(&owd(&["--json"]).stdout).unwrap();
        assert_eq!((&json["hosts"], json["delays"].as_array().unwrap().len()), (&said["parts"][0], 2), "{json}");
        let picture = lab.file("owd.png");
        let table = owd(&["--png", picture.to_str().unwrap()]);
        assert!(String::from_utf8_lossy(&table.stdout).contains(first), "{table:?}");
        assert!(fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
        let nowhere = owd(&["--png", "/nowhere/owd.png"]);
        assert_eq!((nowhere.status.code(), nowhere.stderr.split(|b| *b == b'\n').count()), (Some(1), 2), "{nowhere:?}");

        // Either host probes the other; it has kept what it saw.
        assert!(b.end() && a.end());
        let replayed = onrampctl(&["replay", "--json", lab.file("probes").to_str().unwrap()]);
        let windows: Value = serde_json::from_slice(&replayed.stdout).unwrap_or_else(|_| panic!("{replayed:?}"));
        // The last one was cut short.
        let (_, whole) = windows.as_array().unwrap().split_last().unwrap();
        assert!(whole.len() > 2, "{windows}");
        for window in whole {
            assert_eq!(window["hosts"].as_array().unwrap().len(), 2, "{window}");
        }
    }
}

#[test]
fn the_dashboard_shows_who_is_congested_with_whom_while_somebody_looks() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    let (a, b) = (start(&lab, "a", QUICK, ""), start(&lab, "b", QUICK, ""));
    agree(&[&a, &b]);
    // Where the coordinator is reached; the agent's socket is the configuration's.
    let mut dashboard = command(&lab, "a", &["dashboard", "--listen", "127.0.0.1:0", "--config"]);
    dashboard.arg(config(&lab, "a"));
    let (_dashboard, at) = serving(dashboard, "/");
    let data = || -> Value {
        let answer = lab.on("a", || get(at, "/data.json"));
        serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
    };
    until("are both hosts told of", || data()["fleet"]["hosts"] == serde_json::json!(["10.9.0.1", "10.9.0.2"]));
    until("are there delays", || data()["fleet"]["delays"].as_array().is_some_and(|delays| delays.len() == 2));
    assert_eq!(data()["agent"]["clock"]["coordinator"], COORDINATOR);
    lab.on("a", || {
        let Some(mut page) = Browser::open(&lab.folder) else { return };
        page.open_page(at);
        page.until("document.getElementById('synchronised').innerText.startsWith('Yes.')");
        page.until("document.querySelectorAll('#matrix td[title^=\"10.9.0.\"][class^=c]').length === 2");
        assert_eq!(page.complaints(), Vec::<&Value>::new());
    });

    // Without its coordinator it says why.
    assert!(a.end());
    until("is it missed", || data()["fleet"]["why"].as_str().is_some_and(|why| why.contains(COORDINATOR)));
}

#[test]
fn a_host_without_others_says_so() {
    let Some(lab) = Lab::new() else { return };
    let (a, _) = founded(&lab);
    until("does it say so", || a.status()["clock"]["reason"] == "alone: no other host has joined");
    assert!(!known(&a) && a.status()["clock"]["coordinator"] == COORDINATOR);
    assert_eq!(fleet(&lab, "a")["hosts"][0]["state"], "alone: no other host has joined");
}

#[test]
fn a_host_that_is_not_reached_is_told_of_and_the_others_go_on() {
    let Some(lab) = Lab::switched() else { return };
    let (a, token) = founded(&lab);
    assert!(join(&lab, "b", &token).status.success() && join(&lab, "c", &token).status.success());
    let b = start(&lab, "b", QUICK, "clock_offset = \"-7s\"");
    let c = start(&lab, "c", QUICK, "clock_drift = \"-25ppm\"");
    agree(&[&a, &b, &c]);

    lab.says("switch", "ip link set to-c down");
    let state = |host: usize| fleet(&lab, "b")["hosts"][host].clone();
    until("is it missed", || state(2)["state"].as_str().unwrap().starts_with("its report did not come"));
    agree(&[&a, &b]);
    lab.says("switch", "ip link set to-c up");
    until("is it back", || state(2)["state"] == "synchronised");
    agree(&[&a, &b, &c]);
}

#[test]
fn a_clock_that_steps_is_withdrawn_and_found_again() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    // Long enough that the step is noticed before the round ends.
    let slow = "window = \"1s\"\ninterval = \"2ms\"\nmax_uncertainty = \"1ms\"";
    let (a, b) = (start(&lab, "a", slow, ""), start(&lab, "b", slow, ""));
    agree(&[&a, &b]);
    adjust(&lab, "b", slow, "clock_offset = \"5ms\"");
    let before = fleet(&lab, "a")["rounds"].as_u64().unwrap();
    b.signal(Signal::HUP);
    let stepped = |agent: &Agent| agent.status()["clock"]["reason"].to_string().contains("stepped");
    until("does who probes say so", || stepped(&a) || stepped(&b));
    let noticed = fleet(&lab, "a")["rounds"].as_u64().unwrap();
    assert!(noticed <= before + 1, "{before}, {noticed}");
    until("are there two more rounds", || fleet(&lab, "a")["rounds"].as_u64() > Some(noticed + 2));
    agree(&[&a, &b]);
}

/// Two kinds of address: OR-ACKs go between all of them, by one clock a host.
#[test]
fn a_host_is_the_same_under_all_its_addresses() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    let a = start(&lab, "a", &format!("{QUICK}\naliases = [\"fd09::1\"]"), "");
    // What another host has is not its own, and it is told so.
    for (alias, why) in [("10.9.0.1", "a host has joined by it"), ("10.9.0.2", "is the host's own")] {
        let refused = output(&lab, "a", &["fleet", "alias", "10.9.0.2", "fd09::2", alias]);
        let text = String::from_utf8(refused.stderr).unwrap();
        assert!(refused.status.code() == Some(2) && text.contains(&format!("{alias}: {why}")), "{text}");
    }
    assert!(said(&output(&lab, "a", &["fleet", "aliases"])).starts_with("no host has other addresses"));
    let aliases = "aliases = [\"fd09::2\", \"10.9.0.1\"]";
    let b = start(&lab, "b", &format!("{QUICK}\n{aliases}"), "clock_offset = \"1000s\"\nclock_drift = \"20ppm\"");
    agree(&[&a, &b]);
    // Until the operator vouches for them they are nobody's.
    until("is it told", || b.status()["problems"].to_string().contains("fleet.aliases: fd09::2 is another host's, or"));
    assert_eq!(a.status()["paths"].as_array().unwrap().len(), 1);
    for (host, aliases) in [("10.9.0.1", "fd09::1"), ("10.9.0.2", "fd09::/64")] {
        let vouched = output(&lab, "a", &["fleet", "alias", host, aliases]);
        assert!(vouched.status.success(), "{vouched:?}");
    }
    let listed = said(&output(&lab, "a", &["fleet", "aliases"]));
    let lines: Vec<&str> = listed.lines().skip(1).collect();
    assert!(lines[0].starts_with("10.9.0.1 ") && lines[0].ends_with(" fd09::1/128"), "{listed}");
    assert!(lines[1].starts_with("10.9.0.2 ") && lines[1].ends_with(" fd09::/64"), "{listed}");
    for peer in ["10.9.0.2", "fd09::2"] {
        until("is it measured", || {
            let paths = a.status()["paths"].as_array().unwrap().clone();
            let path = paths.iter().find(|p| p["peer"] == peer && p["clock_known"] == true);
            lab.transfer(peer, 100_000) && path.is_some_and(|p| p["or_acks"].as_u64() > Some(5))
        });
        let least = a.path(peer)["owd"]["min_ns"].as_i64().unwrap();
        assert!(least.abs() < CLOSE, "{peer}: {least} ns");
    }
    let problems = || b.status()["problems"].to_string();
    until("is it told", || problems().contains("fleet.aliases: 10.9.0.1 is another host's"));
    until("is that no problem any more", || !problems().contains("fd09::2"));
    assert_eq!(a.status()["paths"].as_array().unwrap().len(), 2);
}

#[test]
fn an_upgrade_keeps_the_clock() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    // Rounds so long that the new program has none of its own soon.
    let slow = QUICK.replace("200ms", "2s");
    let a = start(&lab, "a", &slow, "");
    let b = start(&lab, "b", &slow, "clock_offset = \"1000s\"\nclock_drift = \"20ppm\"");
    agree(&[&a, &b]);
    b.upgrade(|| ());
    let status = b.status();
    assert!(status["clock"]["known"] == true && !status["paths"].as_array().unwrap().is_empty(), "{status}");
    agree(&[&a, &b]);
    until("has it a clock of its own", || !b.status()["clock"]["uncertainty_ns"].is_null());
    agree(&[&a, &b]);
}

#[test]
fn probes_that_are_not_the_other_hosts_change_nothing() {
    let Some(lab) = Lab::switched() else { return };
    let (a, token) = founded(&lab);
    assert!(join(&lab, "b", &token).status.success() && join(&lab, "c", &token).status.success());
    let b = start(&lab, "b", QUICK, "");
    let c = start(&lab, "c", QUICK, "");
    agree(&[&a, &b, &c]);
    c.kill();
    let [us, peer]: [IpAddr; 2] = [[10, 9, 0, 3].into(), [10, 9, 0, 1].into()];
    let forger = lab.on("c", move || UdpSocket::bind((us, 9471)).unwrap());
    let key = pair_key(&lab, "c", "a", Epochs::at(today(), KEY_LIFE).sign);
    let send = |payload: &[u8]| forger.send_to(payload, (peer, 9471)).unwrap();
    let counters = || ["probes_refused", "probes_answered", "or_acks_malformed"].map(|name| a.counter(name));
    let before = counters();
    let probe = OrProbe { pair: 1 << 30, sent: now(), ..OrProbe::default() };
    for forged in 0..10 {
        send(&OrProbe { tag: 1 + forged, ..probe }.encode());
        // One that a sent, turned back.
        send(&OrProbe { tag: probe.expected_tag(peer, us, &key), ..probe }.encode());
        // What a host that is no member has no key for.
        send(&OrProbe { kind: Kind::Answer, tag: 1 + forged, ..probe }.encode());
        send(&probe.encode()[..39]);
    }
    until("are they counted", || a.counter("probes_refused") >= before[0] + 30);
    until("are they counted", || a.counter("or_acks_malformed") == before[2] + 10);
    assert_eq!(a.counter("probes_refused"), before[0] + 30);

    // With the right key, but no answer to anything: times that would move the clock by a second.
    let returned = a.counter("probes_returned");
    for _ in 0..10 {
        let received = now() + 1_000_000_000;
        let answer = OrProbe { kind: Kind::Answer, received, returned: received, ..probe };
        send(&OrProbe { tag: answer.expected_tag(us, peer, &key), ..answer }.encode());
    }
    until("are they returned", || a.counter("probes_returned") >= returned + 10);
    let rounds = || fleet(&lab, "a")["rounds"].as_u64().unwrap();
    let before = rounds();
    until("are there rounds", || rounds() > before + 2);
    agree(&[&a, &b]);
    assert_eq!(a.status()["problems"], serde_json::json!([]));
}

#[test]
fn a_token_that_is_not_right_is_refused_and_leaves_nothing() {
    let Some(lab) = Lab::switched() else { return };
    let (a, token) = founded(&lab);
    let digits = token.len();
    let change = |at: usize| {
        let digit = if token.as_bytes()[at] == b'0' { "1" } else { "0" };
        format!("{}{digit}{}", &token[..at], &token[at + 1..])
    };
    for (wrong, said, status) in [
        (token[..digits - 1].to_string(), "/token: ends too early: copy all", 2),
        (token.replace('/', ""), "is no token such as 10.0.0.1:9472/31712fa0…: copy all", 2),
        (String::new(), "is no token such as 10.0.0.1:9472/31712fa0…: copy all", 2),
        (change(digits - 1), "the token is none of this coordinator's, or used up, or withdrawn", 1),
        // Another fleet's authority.
        (change(digits - 96), "10.9.0.1:9472: is of another fleet", 1),
        (token.replace(":9472", ":9473"), "coordinator 10.9.0.1:9473: Connection refused", 1),
    ] {
        let refused = join(&lab, "b", &wrong);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(text.contains(said), "{wrong}: {text}");
        assert_eq!(refused.status.code(), Some(status), "{text}");
        assert!(status == 2 || text.lines().count() == 1, "{text}");
        assert!(!lab.file("b.d/fleet").exists() && !config(&lab, "b").exists(), "{wrong}");
    }
    // What is wrong here is seen before the token is used up.
    let no_file = output(&lab, "b", &["join", "--interface", "eth0", "--token-file", "/nonexistent"]);
    let text = String::from_utf8_lossy(&no_file.stderr).into_owned();
    assert_eq!(
        (no_file.status.code(), text.as_str()),
        (Some(2), "onrampctl: /nonexistent: No such file or directory (os error 2)\n")
    );
    assert_eq!(output(&lab, "a", &["token", "create", "--expires", "0s"]).status.code(), Some(2));
    let nowhere = output(&lab, "b", &["join", "--interface", "eth9", &token]);
    assert_eq!(nowhere.status.code(), Some(2), "{nowhere:?}");
    assert_eq!(
        String::from_utf8_lossy(&nowhere.stderr),
        "onrampctl: there is no interface eth9: `ip link` lists them\n"
    );
    assert!(join(&lab, "b", &token).status.success());
    let again = join(&lab, "b", &token);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("exists"), "{again:?}");

    // The fleet founded anew: the old token and the old certificate are worth nothing.
    assert!(a.end());
    fs::remove_dir_all(lab.file("a.d")).unwrap();
    fs::remove_file(lab.file("a.written")).unwrap();
    let (_a, renewed) = founded(&lab);
    let refused = join(&lab, "c", &token);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is of another fleet"), "{refused:?}");
    let asked = output(&lab, "b", &["fleet"]);
    assert_eq!((asked.status.code(), asked.stderr.split(|b| *b == b'\n').count()), (Some(1), 2), "{asked:?}");
    assert!(join(&lab, "c", &renewed).status.success());
}

#[test]
fn the_doctor_knows_what_a_fleet_needs() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    let checks = |host: &str| {
        let said = output(&lab, host, &["doctor", "--json"]);
        let report: Value = serde_json::from_slice(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"));
        ["certificates", "probes", "coordinator", "agent"].map(|name| {
            let found = report["checks"].as_array().unwrap().iter().find(|c| c["name"] == name);
            format!("{} {}", found.unwrap()["state"].as_str().unwrap(), found.unwrap()["found"].as_str().unwrap())
        })
    };
    let [certificates, probes, coordinator, agent] = checks("b");
    assert_eq!(agent, "ok does not run");
    assert!(certificates.starts_with("ok of 10.9.0.2") && probes == "ok UDP 10.9.0.2:9471 is free");
    assert_eq!(coordinator, "warn coordinator 10.9.0.1:9472: Connection refused (os error 111)");

    let (a, b) = (start(&lab, "a", QUICK, ""), start(&lab, "b", QUICK, ""));
    agree(&[&a, &b]);
    let [_, probes, ..] = checks("b");
    assert_eq!(probes, "ok UDP 10.9.0.2:9471, by the running agent");
    // On a busy machine a round may find nothing for a moment.
    until("are both synchronised", || checks("b")[2] == "ok 2 of 2 hosts synchronised");
    until("does its agent know the time", || {
        checks("b")[3].starts_with("ok runs, mode observe, and knows the fleet's time within ")
    });
    // A standby that could not take over.
    list_standby(&lab);
    adjust(&lab, "b", QUICK, "");
    let coordinator = checks("b")[2].clone();
    assert_eq!(coordinator, "warn 2 of 2 hosts synchronised; 10.9.0.3:9472 does not answer");
    assert!(b.end());

    let text = fs::read_to_string(config(&lab, "b")).unwrap();
    fs::write(config(&lab, "b"), text.replace("\"10.9.0.2\"", "\"10.9.0.7\"")).unwrap();
    let [certificates, probes, ..] = checks("b");
    assert!(certificates.starts_with("fail ") && certificates.ends_with("is not of the address 10.9.0.7"));
    assert_eq!(probes, "fail 10.9.0.7 is not an address of this host");
    fs::write(config(&lab, "b"), text).unwrap();
    let _other = lab.on("b", || UdpSocket::bind("10.9.0.2:9471").unwrap());
    fs::remove_file(lab.file("b.d/fleet/host.key")).unwrap();
    let [certificates, probes, ..] = checks("b");
    assert!(certificates.starts_with("fail ") && certificates.contains("host.key"), "{certificates}");
    assert_eq!(probes, "fail UDP 10.9.0.2:9471 is taken by another program");
}

#[test]
fn strangers_and_garbage_are_refused_and_the_coordinator_goes_on() {
    let Some(lab) = Lab::new() else { return };
    let text = two(&lab);
    let token: Token = text.parse().unwrap();
    let (a, b) = (start(&lab, "a", QUICK, ""), start(&lab, "b", QUICK, ""));
    agree(&[&a, &b]);
    let hello = |address: &str| FromHost::Hello {
        address: address.parse().unwrap(),
        version: String::new(),
        correction: None,
        by_programs: true,
        aliases: vec![],
        labels: [].into(),
        speaks: SPEAKS,
    };
    let report = FromHost::Report { round: 1, edges: vec![], realtime: None };
    let stranger = || Newcomer::client(&token).unwrap();
    let member = || pki::client(&lab.file("b.d/fleet")).unwrap();
    for (tls, said, reason) in [
        (stranger(), hello("10.9.0.2"), "no certificate of 10.9.0.2: join first"),
        (stranger(), report.clone(), "not known here: join first"),
        (stranger(), FromHost::Vouch { address: [10, 9, 0, 2].into(), networks: vec![] }, "not known here: join first"),
        (stranger(), FromHost::Fleet, "not known here: join first"),
        (member(), hello("10.9.0.1"), "no certificate of 10.9.0.1: join first"),
        (member(), report, "not known here: join first"),
    ] {
        assert_eq!(refusal(say(&lab, tls, &said)), reason);
    }

    // Lines that nobody understands, and one that does not end.
    let line = |bytes: Vec<u8>| {
        let mut socket = lab.on("b", || TcpStream::connect(COORDINATOR).unwrap());
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let mut tls = ClientConnection::new(member(), pki::coordinator()).unwrap();
        let mut stream = rustls::Stream::new(&mut tls, &mut socket);
        let mut answer = Vec::new();
        // It may be closed before all is written, or without a goodbye.
        let _ = stream.write_all(&bytes).and_then(|()| stream.read_to_end(&mut answer));
        String::from_utf8(answer).unwrap()
    };
    for bad in [&b"nonsense\n"[..], b"{}\n", b"\xff\xfe\n", b"\n"] {
        let answer = line(bad.to_vec());
        assert!(answer.contains("refused") && answer.contains("not understood"), "{answer}");
    }
    assert_eq!(line(vec![b'x'; 3 << 20]), "");

    // No TLS at all.
    for garbage in [vec![0; 100_000], b"GET / HTTP/1.1\r\n\r\n".to_vec()] {
        let mut socket = lab.on("b", || TcpStream::connect(COORDINATOR).unwrap());
        socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let _ = socket.write_all(&garbage);
        let closed = socket.read_to_end(&mut Vec::new());
        assert!(!closed.is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock), "it stays open");
    }
    let rounds = || fleet(&lab, "b")["rounds"].as_u64().unwrap();
    let before = rounds();
    until("does it go on", || rounds() > before + 2);
    agree(&[&a, &b]);
}

#[test]
fn versions_that_do_not_fit_are_named_at_both_ends() {
    let Some(lab) = Lab::new() else { return };
    let token: Token = two(&lab).parse().unwrap();
    let a = start(&lab, "a", QUICK, "");
    let speaks = |oldest, newest| Speaks { oldest, newest };
    let hello = |speaks| FromHost::Hello {
        address: "10.9.0.2".parse().unwrap(),
        version: String::new(),
        correction: None,
        by_programs: true,
        aliases: vec![],
        labels: [].into(),
        speaks,
    };
    let newcomer = Newcomer::new(&lab.file("x")).unwrap();
    let old = FromHost::Join {
        secret: hex::encode(token.secret),
        address: "10.9.0.2".parse().unwrap(),
        public_key: hex::encode(newcomer.public_key()),
        pair_key: String::new(),
        speaks: speaks(0, 0),
    };
    let member = || pki::client(&lab.file("b.d/fleet")).unwrap();
    for (tls, said, reason) in [
        (
            member(),
            hello(speaks(8, 9)),
            "speaks versions 8 to 9 of the protocol, and the coordinator version 1: upgrade the coordinator",
        ),
        (
            member(),
            hello(speaks(0, 0)),
            "speaks an earlier version of the protocol, and the coordinator version 1: upgrade the host",
        ),
        (
            Newcomer::client(&token).unwrap(),
            old,
            "speaks an earlier version of the protocol, and the coordinator version 1: upgrade the host",
        ),
    ] {
        assert_eq!(refusal(say(&lab, tls, &said)), reason);
        assert!(lab.log("a").lines().any(|line| line.contains("refused 10.9.0.2:") && line.contains(reason)));
    }
    assert!(a.end());

    // A coordinator of before there were versions: it begins with what it has to say.
    let tls = authority(&lab).server().unwrap();
    let listener = lab.on("a", || std::net::TcpListener::bind(COORDINATOR).unwrap());
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let tls = rustls::ServerConnection::new(tls.clone()).unwrap();
            let mut link = Link::new(socket.unwrap(), tls, 1 << 20).unwrap();
            link.say(&FromCoordinator::Collect { round: 1 }).unwrap();
            while link.tend().is_ok() {
                sleep(Duration::from_millis(1));
            }
        }
    });
    let b = start(&lab, "b", QUICK, "");
    let said = "coordinator 10.9.0.1:9472: speaks an earlier version of the protocol, and this host version 1: upgrade the coordinator";
    until("is it told", || b.status()["clock"]["reason"] == said);
    sleep(Duration::from_millis(2_500));
    assert_eq!(lab.log("b").matches(said).count(), 1, "{}", lab.log("b"));
}

/// A new token of the coordinator on "a".
fn create(lab: &Lab, arguments: &[&str]) -> String {
    let made = output(lab, "a", &[&["token", "create"], arguments].concat());
    assert!(made.status.success(), "{made:?}");
    String::from_utf8(made.stdout).unwrap().trim().into()
}

#[test]
fn a_token_admits_as_many_hosts_as_it_says_until_it_expires_or_is_withdrawn() {
    let Some(lab) = Lab::switched() else { return };
    let (_a, _) = founded(&lab);
    let refused = |host: &str, token: &str, why: &str| {
        let said = join(&lab, host, token);
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(said.status.code() == Some(1) && text.contains(why) && text.lines().count() == 1, "{text}");
    };
    let once = create(&lab, &[]);
    assert!(join(&lab, "b", &once).status.success());
    refused("c", &once, "used up");
    refused("c", &create(&lab, &["--within", "10.9.0.2"]), "admits 10.9.0.2/32 only, not 10.9.0.3");
    let short = create(&lab, &["--expires", "1s"]);
    sleep(Duration::from_millis(2_100));
    refused("c", &short, "has expired");
    let withdrawn = create(&lab, &["--uses", "20", "--within", "10.9.0.0/24"]);
    let listed = output(&lab, "a", &["token", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let of = |listed: &Value| listed.as_array().unwrap().iter().find(|token| token["uses"] == 20).cloned();
    let id = of(&listed).expect("it is listed")["id"].as_str().unwrap().to_string();
    assert!(!listed.to_string().contains(&withdrawn[withdrawn.len() - 32..]), "secrets are not kept");
    assert!(output(&lab, "a", &["token", "revoke", &id]).status.success());
    refused("c", &withdrawn, "withdrawn");
    assert_eq!(output(&lab, "a", &["token", "revoke", &id]).status.code(), Some(2));
    let mut by_environment = command(&lab, "c", &["join", "--interface", "eth0", "--config"]);
    by_environment.arg(config(&lab, "c")).env("ONRAMP_TOKEN", create(&lab, &[]));
    let joined = by_environment.output().unwrap();
    assert!(joined.status.success(), "{joined:?}");
}

#[test]
fn nobody_joins_as_another_host() {
    let Some(lab) = Lab::switched() else { return };
    let (_a, token) = founded(&lab);
    assert!(join(&lab, "b", &token).status.success());
    let _b = start(&lab, "b", QUICK, "");
    until("is b there", || fleet(&lab, "a")["hosts"].as_array().is_some_and(|hosts| hosts.len() == 2));
    let parsed: Token = token.parse().unwrap();
    let folder = lab.file("x");
    let newcomer = Newcomer::new(&folder).unwrap();
    let as_host = |address: &str| FromHost::Join {
        secret: hex::encode(parsed.secret),
        address: address.parse().unwrap(),
        public_key: hex::encode(newcomer.public_key()),
        pair_key: hex::encode(newcomer.pair_key()),
        speaks: SPEAKS,
    };
    let stranger = || Newcomer::client(&parsed).unwrap();
    // `say` calls from b, whose agent is running.
    let other = refusal(say(&lab, stranger(), &as_host("10.9.0.3")));
    assert_eq!(other, "wants to join as 10.9.0.3, which is not where it calls from");
    let live = refusal(say(&lab, stranger(), &as_host("10.9.0.2")));
    assert_eq!(live, "wants to join as 10.9.0.2, which a member has that is here: stop its agent first");
    let log = lab.log("a");
    assert!(log.lines().any(|line| line.contains("refused 10.9.0.2:") && line.contains(&other)), "{log}");
    // The command does not even ask.
    fs::create_dir_all(lab.file("c.d")).unwrap();
    let file = lab.file("token");
    let asked = ["join", "--token-file", file.to_str().unwrap(), "--interface", "eth0", "--address", "10.9.0.2"];
    let said = String::from_utf8(output(&lab, "c", &asked).stderr).unwrap();
    assert!(said.contains("--address 10.9.0.2: this host has no such address"), "{said}");
    let hosts = fleet(&lab, "a")["hosts"].as_array().unwrap().len();
    assert_eq!(hosts, 2);
}

#[test]
fn a_host_that_is_removed_is_none_at_once_and_may_join_anew() {
    let Some(lab) = Lab::switched() else { return };
    let (a, token) = founded(&lab);
    assert!(join(&lab, "b", &token).status.success() && join(&lab, "c", &token).status.success());
    let (b, c) = (start(&lab, "b", QUICK, ""), start(&lab, "c", QUICK, ""));
    agree(&[&a, &b, &c]);
    let removed = output(&lab, "a", &["fleet", "remove", "10.9.0.3"]);
    assert!(removed.status.success(), "{removed:?}");
    let peers = || b.status()["paths"].as_array().unwrap().iter().filter(|path| path["peer"] == "10.9.0.3").count();
    until("is it gone", || fleet(&lab, "a")["hosts"].as_array().unwrap().len() == 2 && peers() == 0);
    until("is it told why", || c.status()["clock"].to_string().contains("was removed from the fleet"));
    sleep(Duration::from_millis(2_500));
    let told = lab.log("c").lines().filter(|line| line.contains("was removed from the fleet: join anew")).count();
    assert_eq!(told, 1, "it says so itself, and not each time it has called: {}", lab.log("c"));
    let told = lab.log("a").lines().filter(|line| line.contains("refused 10.9.0.3:")).count();
    assert_eq!(told, 1, "nor does the coordinator: {}", lab.log("a"));
    let asked = output(&lab, "c", &["fleet"]);
    assert!(String::from_utf8_lossy(&asked.stderr).contains("was removed from the fleet"), "{asked:?}");
    agree(&[&a, &b]);
    assert!(c.end());
    // With another certificate, which is issued later.
    fs::remove_dir_all(lab.file("c.d")).unwrap();
    fs::remove_file(lab.file("c.written")).unwrap();
    sleep(Duration::from_millis(1_100));
    assert!(join(&lab, "c", &token).status.success());
    let c = start(&lab, "c", QUICK, "");
    agree(&[&a, &b, &c]);
    for wrong in ["10.9.0.1", "nobody"] {
        assert_eq!(output(&lab, "a", &["fleet", "remove", wrong]).status.code(), Some(2), "{wrong}");
    }
    for asked in [&["fleet", "remove", "10.9.0.77"][..], &["fleet", "alias", "10.9.0.77", "10.1.0.0/24"]] {
        let said = output(&lab, "a", asked);
        let text = String::from_utf8(said.stderr).unwrap();
        assert!(said.status.code() == Some(2) && text.lines().count() == 1, "{text}");
        assert!(text.contains("10.9.0.77: no host of the fleet has ever joined as that"), "{text}");
    }
    // One that is away is a host of the fleet nevertheless.
    assert!(c.end());
    until("is it gone", || fleet(&lab, "a")["hosts"].as_array().unwrap().len() == 2);
    assert!(output(&lab, "a", &["fleet", "remove", "10.9.0.3"]).status.success());
}

fn certificate(lab: &Lab, host: &str) -> PathBuf {
    lab.file(&format!("{host}.d/fleet/host/host.pem"))
}

/// Who a host's certificate says it is.
fn identity(lab: &Lab, host: &str) -> Identity {
    Identity::of(&CertificateDer::from_pem_file(certificate(lab, host)).unwrap()).unwrap()
}

/// The key by which a host signs to another, of which the authority has said the truth.
fn pair_key(lab: &Lab, host: &str, other: &str, epoch: u64) -> [u8; 16] {
    let other = identity(lab, other);
    let statement = authority(lab).statement(&other).unwrap();
    let shared = Pairs::open(&lab.file(&format!("{host}.d/fleet"))).unwrap().shared(other.address, &statement).unwrap();
    shared.keys(Epochs { sign: epoch, accept: epoch }).sign.0
}

fn authority(lab: &Lab) -> Authority {
    Authority::open(&lab.file("a.d/fleet")).unwrap()
}

/// Adds how long the coordinator's certificates are good.
fn with_life(life: &str) -> String {
    format!("{QUICK}\ncertificate_life = \"{life}\"")
}

#[test]
fn certificates_are_renewed_and_nobody_notices() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    let given = ["a", "b"].map(|host| identity(&lab, host));
    let (a, b) = (start(&lab, "a", &with_life("24s"), ""), start(&lab, "b", QUICK, ""));
    // At once, since they were given for longer.
    let renewed = |before: &Identity, host: &str| identity(&lab, host).expires != before.expires;
    until("are they renewed", || renewed(&given[0], "a") && renewed(&given[1], "b"));
    let first = ["a", "b"].map(|host| identity(&lab, host));
    assert!(first[1].expires < given[1].expires && first[1].expires <= today() + 24);
    assert_eq!(first.map(|i| i.membership), given.map(|i| i.membership));
    agree(&[&a, &b]);
    let refused = || {
        let of =
            |agent: &Agent| ["probes_refused", "or_acks_bad_tag", "or_acks_unknown_peer"].map(|c| agent.counter(c));
        [of(&a), of(&b)]
    };
    let before = refused();
    // Until what they were given first would have expired.
    until("has it expired", || {
        let status = b.status();
        assert_eq!(status["clock"]["coordinator"], COORDINATOR, "{status}");
        assert!(lab.transfer("10.9.0.2", 100_000));
        first.iter().all(|i| i.expires + 1 < today())
    });
    assert!(renewed(&first[0], "a") && renewed(&first[1], "b"));
    agree(&[&a, &b]);
    assert_eq!(refused(), before);
    assert_eq!((&a.status()["problems"], &b.status()["problems"]), (&serde_json::json!([]), &serde_json::json!([])));
    assert!(!lab.log("a").contains("refused"), "{}", lab.log("a"));
    // The new one is what it connects with.
    assert!(b.end());
    agree(&[&a, &start(&lab, "b", QUICK, "")]);
}

#[test]
fn keys_of_pairs_change_and_no_tag_is_refused() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    // Both keys count for three seconds before a change and after it: a busy machine leaves an agent without a processor
    // for longer than one.
    let short = format!("{QUICK}\nkey_life = \"24s\"");
    let (a, b) = (start(&lab, "a", &short, ""), start(&lab, "b", QUICK, ""));
    agree(&[&a, &b]);
    let epoch = || today() / 24;
    let first = epoch();
    let counted = || [&a, &b].map(|agent| ["or_acks_bad_tag", "probes_refused"].map(|name| agent.counter(name)));
    // Until both knew each other, either may have refused the other's first probes.
    let before = counted();
    while epoch() < first + 2 {
        assert!(lab.transfer("10.9.0.2", 1_000_000));
        sleep(Duration::from_millis(20));
    }
    assert_eq!(counted(), before);
    assert!(a.path("10.9.0.2")["or_acks"].as_u64() > Some(100), "{}", a.status());
    agree(&[&a, &b]);
    // Nobody's key any more: of the first epoch, and of a time without epochs.
    drop(b);
    let forger = lab.on("b", || UdpSocket::bind("10.9.0.2:9471").unwrap());
    let [us, peer]: [IpAddr; 2] = [[10, 9, 0, 2].into(), [10, 9, 0, 1].into()];
    let probe = |key: [u8; 16], pair| {
        let probe = OrProbe { pair, sent: now(), ..OrProbe::default() };
        let tag = probe.expected_tag(us, peer, &key);
        forger.send_to(&OrProbe { tag, ..probe }.encode(), (peer, 9471)).unwrap();
    };
    let before = (a.counter("probes_refused"), a.counter("probes_answered"));
    for n in 0..5 {
        probe(pair_key(&lab, "b", "a", first), n);
    }
    until("are they refused", || a.counter("probes_refused") == before.0 + 5);
    for n in 0..5 {
        probe(pair_key(&lab, "b", "a", epoch()), n);
    }
    until("are they answered", || a.counter("probes_answered") >= before.1 + 5);
}

/// True if a process has these bytes somewhere in its memory.
fn remembers(agent: &Agent, bytes: &[u8]) -> bool {
    use std::os::unix::fs::FileExt as _;
    let pid = agent.pid();
    let memory = fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    maps.lines().filter(|line| line.contains(" rw")).any(|line| {
        let (from, to) = line.split(' ').next().and_then(|range| range.split_once('-')).unwrap();
        let [from, to] = [from, to].map(|at| u64::from_str_radix(at, 16).unwrap());
        let mut all = vec![0; usize::try_from(to - from).unwrap()];
        memory.read_exact_at(&mut all, from).is_ok() && all.windows(bytes.len()).any(|there| there == bytes)
    })
}

#[test]
fn a_coordinator_does_not_know_the_keys_of_pairs() {
    let Some(lab) = Lab::switched() else { return };
    two(&lab);
    for host in ["a", "b"] {
        adjust(&lab, host, "", "");
        let written = lab.file(&format!("{host}.written"));
        let text = fs::read_to_string(&written).unwrap();
        let text = text.replace(&format!("listen = \"{COORDINATOR}\"\n"), "").replace(COORDINATOR, "10.9.0.3:9472");
        fs::write(written, text).unwrap();
    }
    let coordinator = coordinator(&lab, "10.9.0.3:9472");
    let (a, b) = (start(&lab, "a", QUICK, ""), start(&lab, "b", QUICK, ""));
    agree(&[&a, &b]);
    let key = pair_key(&lab, "a", "b", Epochs::at(today(), KEY_LIFE).sign);
    assert!(remembers(&a, &key) && remembers(&b, &key), "else this looks for the wrong thing");
    let statement = authority(&lab).statement(&identity(&lab, "b")).unwrap();
    assert!(remembers(&coordinator, &statement.as_bytes()[..60]), "else this does not find what is there");
    assert!(!remembers(&coordinator, &key));
}

#[test]
fn an_expired_certificate_is_refused_and_a_removed_hosts_is_not_renewed() {
    let Some(lab) = Lab::switched() else { return };
    let token = found(&lab, "10.9.0.1");
    assert!(start(&lab, "a", QUICK, "").end());
    let a = start(&lab, "a", &with_life("5s"), "");
    assert!(join(&lab, "b", &token).status.success() && join(&lab, "c", &token).status.success());
    assert!(output(&lab, "a", &["fleet", "remove", "10.9.0.3"]).status.success());
    // One that would be renewed at once, if it were not removed.
    let kept = fs::read(certificate(&lab, "c")).unwrap();
    let c = start(&lab, "c", QUICK, "");
    until("is it told why", || c.status()["clock"].to_string().contains("was removed from the fleet"));
    until("has it expired", || identity(&lab, "b").expires < today());
    let b = start(&lab, "b", QUICK, "");
    until("is it told why", || b.status()["clock"].to_string().contains("has expired: join anew, by another token"));
    let asked = output(&lab, "b", &["fleet"]);
    let said = String::from_utf8(asked.stderr).unwrap();
    assert!(asked.status.code() == Some(1) && said.contains("has expired") && said.lines().count() == 1, "{said}");
    let log = lab.log("a");
    assert!(log.lines().any(|line| line.contains("refused 10.9.0.2:") && line.contains("has expired")), "{log}");
    assert_eq!(fs::read(certificate(&lab, "c")).unwrap(), kept);
    assert!(a.end());
}

#[test]
fn threads_that_read_from_the_network_have_no_capabilities() {
    let Some(lab) = Lab::new() else { return };
    let (a, _) = founded(&lab);
    let threads = a.threads();
    for name in ["sync", "coordinator", "status"] {
        let of = threads.iter().find(|(thread, _)| thread == name);
        assert_eq!(of.map(|(_, capabilities)| *capabilities), Some(0), "{name}: {threads:?}");
    }
    assert!(threads.iter().any(|(_, capabilities)| *capabilities != 0), "the agent itself needs some: {threads:?}");
}

/// A folder on a disk of two pages; taken away with this.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn over(folder: PathBuf) -> Self {
        let before: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        let before: Vec<_> = before.into_iter().map(|path| (fs::read(&path).unwrap(), path)).collect();
        run(&format!("mount -t tmpfs -o size=8k disk {}", folder.display()));
        before.iter().for_each(|(bytes, path)| fs::write(path, bytes).unwrap());
        Self(folder)
    }

    fn fill(&self) {
        assert!(fs::write(self.0.join("more"), vec![1; 64 << 10]).is_err(), "it is full");
    }

    fn clear(&self) {
        fs::remove_file(self.0.join("more")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

#[test]
fn a_certificate_that_cannot_be_kept_leaves_the_old_one_until_that_expires() {
    let Some(lab) = Lab::new() else { return };
    two(&lab);
    let disk = SmallDisk::over(lab.file("b.d/fleet/host"));
    disk.fill();
    let kept = fs::read(certificate(&lab, "b")).unwrap();
    let (a, b) = (start(&lab, "a", &with_life("24s"), ""), start(&lab, "b", QUICK, ""));
    until("is it told", || b.status()["problems"].to_string().contains("host.pem.new: No space left on device"));
    agree(&[&a, &b]);
    assert_eq!(fs::read(certificate(&lab, "b")).unwrap(), kept);
    disk.clear();
    until("is it renewed", || fs::read(certificate(&lab, "b")).unwrap() != kept);
    assert!(!lab.log("a").contains("refused"), "{}", lab.log("a"));
    disk.fill();
    let expires = identity(&lab, "b").expires;
    until("is it refused", || b.status()["clock"].to_string().contains("has expired"));
    assert!(expires <= today(), "not before");
    assert_eq!(identity(&lab, "b").expires, expires);
    until("do the others know", || a.status()["paths"].as_array().unwrap().is_empty());
}

#[test]
fn silent_connections_keep_nobody_out() {
    let Some(lab) = Lab::switched() else { return };
    let (a, token) = founded(&lab);
    assert!(join(&lab, "b", &token).status.success());
    let b = start(&lab, "b", QUICK, "");
    agree(&[&a, &b]);
    // From one address, and from many.
    for n in 1..=40 {
        lab.says("b", &format!("ip addr add 10.9.0.{}/24 dev eth0", 100 + n));
    }
    let mut silent: Vec<TcpStream> = Vec::new();
    for n in 0..400_u32 {
        let from = if n < 100 { "10.9.0.2".to_string() } else { format!("10.9.0.{}", 101 + n % 40) };
        silent.extend(lab.on("b", || from_address(&from)));
    }
    assert!(silent.len() > 300, "{} connections", silent.len());
    let begun = std::time::Instant::now();
    assert!(join(&lab, "c", &token).status.success());
    assert!(fleet(&lab, "a")["hosts"].is_array());
    let c = start(&lab, "c", QUICK, "");
    agree(&[&a, &b, &c]);
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

/// Ten thousand a second, or as many as this machine can, from one address and from two hundred.
#[test]
fn broken_handshakes_by_the_thousands_keep_nobody_out() {
    const RATE: u32 = 10_000;
    let Some(lab) = Lab::switched() else { return };
    let (a, token) = founded(&lab);
    assert!(join(&lab, "b", &token).status.success());
    let b = start(&lab, "b", QUICK, "");
    agree(&[&a, &b]);
    for n in 0..200 {
        lab.says("c", &format!("ip addr add 10.9.1.{}/16 dev eth0", 1 + n));
    }
    lab.says("a", "ip addr add 10.9.1.254/16 dev eth0");
    for (addresses, newcomer) in [(1, true), (200, false)] {
        let flooding = AtomicBool::new(true);
        let sent = std::thread::scope(|scope| {
            let flood = scope.spawn(|| {
                lab.on("c", || {
                    let (begun, mut sent) = (std::time::Instant::now(), 0u32);
                    while flooding.load(Ordering::Relaxed) && sent < 20 * RATE {
                        // What begins like a handshake, and garbage.
                        let hello = [0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, sent as u8, 0xff, 0xff, 0xff, 0xff];
                        let stranger = from_address(&format!("10.9.1.{}", 1 + sent % addresses));
                        let _ = stranger.map(|mut c| c.write_all(&hello[..16 - sent as usize % 3]));
                        sent += 1;
                        sleep((Duration::from_secs(1) * sent / RATE).saturating_sub(begun.elapsed()));
                    }
                    (sent, begun.elapsed())
                })
            });
            sleep(Duration::from_secs(2));
            if newcomer {
                assert!(join(&lab, "c", &token).status.success());
            }
            assert_eq!(fleet(&lab, "b")["hosts"].as_array().map(Vec::len), Some(2));
            let rounds = || fleet(&lab, "b")["rounds"].as_u64();
            let before = rounds();
            until("do rounds go on", || rounds() > before.map(|n| n + 5));
            assert!(known(&a) && known(&b));
            flooding.store(false, Ordering::Relaxed);
            flood.join().unwrap()
        });
        println!("{addresses} addresses: {} connections in {:.1?}", sent.0, sent.1);
        assert!(sent.0 > 1000, "{sent:?}");
    }
    let c = start(&lab, "c", QUICK, "");
    agree(&[&a, &b, &c]);
}

/// A connection to the coordinator from one of a host's addresses.
fn from_address(address: &str) -> Option<TcpStream> {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).ok()?;
    bind(&made, &std::net::SocketAddr::new(address.parse().ok()?, 0)).ok()?;
    connect(&made, &COORDINATOR.parse::<std::net::SocketAddr>().ok()?).ok()?;
    Some(TcpStream::from(made))
}

#[test]
fn a_coordinator_that_was_killed_takes_the_fleets_time_over_from_its_hosts() {
    let Some(lab) = Lab::switched() else { return };
    two(&lab);
    for host in ["a", "b"] {
        adjust(&lab, host, "", "");
        let written = lab.file(&format!("{host}.written"));
        let text = fs::read_to_string(&written).unwrap();
        let text = text.replace(&format!("listen = \"{COORDINATOR}\"\n"), "").replace(COORDINATOR, "10.9.0.3:9472");
        fs::write(written, text).unwrap();
    }
    let first = coordinator(&lab, "10.9.0.3:9472");
    // A clock that is soon too old, and one that is not.
    let brief = QUICK.replace("1ms", "1us");
    let (a, b) = (start(&lab, "a", QUICK, "clock_offset = \"3000000s\""), start(&lab, "b", &brief, ""));
    agree(&[&a, &b]);
    let (before, at) = (fleet_ns(&a), now());

    first.kill();
    until("is it missed", || a.status()["clock"]["coordinator"].is_null());
    assert!(known(&a), "a clock stays known while it is certain enough");
    until("is it too old", || !known(&b));
    let clock = &b.status()["clock"];
    let reason = clock["reason"].as_str().unwrap();
    assert!(reason.contains("coordinator 10.9.0.3:9472: "), "{reason}");
    // On a busy machine the last round may have given this host nothing that could become too old.
    let aged = !clock["uncertainty_ns"].is_null();
    assert!(!aged || reason.contains("1 us are allowed"), "{reason}");
    let shown = onrampctl(&["status", "--socket", b.socket.to_str().unwrap()]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("clock not known, so nothing is held"), "{shown:?}");

    let _second = coordinator(&lab, "10.9.0.3:9472");
    agree(&[&a, &b]);
    let jump = (fleet_ns(&a) - before).abs();
    // Clocks that run alike may be taken for ones that are 2 ppm apart.
    let allowed = CLOSE + (now() - at) as i64 / 500_000;
    assert!(jump < allowed, "{jump} ns");
}

#[test]
fn init_has_the_coordinator_run_by_itself_and_it_learns_the_time_of_day() {
    let Some(lab) = Lab::new() else { return };
    fs::create_dir_all(lab.file("a.d")).unwrap();
    let said = output(&lab, "a", &["init", "--interface", "eth0", "--address", "10.9.0.1"]);
    let printed = String::from_utf8_lossy(&said.stdout).into_owned();
    let by_itself = format!("onrampd coordinator --config {}\n", config(&lab, "a").display());
    assert!(printed.contains(&by_itself), "{printed}");
    adjust(&lab, "a", QUICK, "");
    let coordinator = || {
        let mut coordinator = command(&lab, "a", &["coordinator", "--config"]);
        coordinator.arg(config(&lab, "a"));
        coordinator
    };
    let running = lab.start("coordinator", coordinator());
    assert!(join(&lab, "b", &token_in(&said)).status.success());
    let chrony = UnixDatagram::bind(lab.file("chrony.sock")).unwrap();
    chrony.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let a = start(&lab, "a", QUICK, "clock_offset = \"1000s\"");
    let b = start(&lab, "b", &format!("{QUICK}\nchrony = \"../chrony.sock\""), "");
    agree(&[&a, &b]);
    let mut sample = [0; 64];
    assert_eq!(chrony.recv(&mut sample).unwrap(), 40);
    let offset = f64::from_ne_bytes(sample[16..24].try_into().unwrap());
    assert!(offset.abs() * 1e9 < CLOSE as f64, "{offset} s");
    assert!(running.end() && a.end());

    // What it needs is told, and by which file.
    let refused = |why: &str| {
        let said = coordinator().output().unwrap();
        let text = String::from_utf8_lossy(&said.stderr).into_owned();
        assert!(said.status.code() == Some(2) && text.contains(why) && text.lines().count() == 1, "{text}");
    };
    let text = fs::read_to_string(config(&lab, "a")).unwrap();
    let changed = |from: &str, to: &str| fs::write(config(&lab, "a"), text.replace(from, to)).unwrap();
    changed("[fleet]", &format!("[fleet]\nlisten = \"{COORDINATOR}\""));
    refused("onrampd.toml: fleet.listen: has the agent run the coordinator");
    changed(COORDINATOR, "10.9.0.2:9472");
    refused("onrampd.toml: fleet.coordinators: none is at this host's address");
    let text = String::from_utf8(output(&lab, "a", &["token", "create"]).stderr).unwrap();
    assert!(text.contains("coordinators: none is at this host's address"), "{text}");
    let elsewhere = output(&lab, "b", &["token", "create"]);
    assert!(String::from_utf8_lossy(&elsewhere.stderr).contains("is no coordinator of its fleet"), "{elsewhere:?}");
    for incomplete in [&["--folder", "x"][..], &["--window", "1s"], &["--config", "/nonexistent.toml"]] {
        let said = command(&lab, "a", &["coordinator"]).args(incomplete).output().unwrap();
        assert_eq!(said.status.code(), Some(2), "{said:?}");
    }
}

#[test]
fn a_standby_takes_over_until_the_first_comes_back() {
    let Some(lab) = Lab::switched() else { return };
    let (a, token) = founded(&lab);
    assert!(join(&lab, "b", &token).status.success());
    let written = config(&lab, "b");
    let text = fs::read_to_string(&written).unwrap();
    fs::write(written, text.replace(COORDINATOR, "10.9.0.1:9472\", \"10.9.0.3:9472")).unwrap();
    let _standby = coordinator(&lab, "10.9.0.3:9472");
    let b = start(&lab, "b", QUICK, "clock_offset = \"1s\"");
    agree(&[&a, &b]);
    let serves = |address: &str| b.status()["clock"]["coordinator"] == address;
    assert!(serves(COORDINATOR));
    let before = fleet_ns(&b);
    a.kill();
    until("does the standby serve", || serves("10.9.0.3:9472"));
    let a = start(&lab, "a", QUICK, "");
    until("does the first serve again", || serves(COORDINATOR));
    agree(&[&a, &b]);
    let jump = (fleet_ns(&b) - before).abs();
    assert!(jump < 2 * CLOSE, "{jump} ns");
}

#[test]
fn a_host_that_joins_lists_all_coordinators() {
    let Some(lab) = Lab::new() else { return };
    let token = found(&lab, "10.9.0.1");
    let both = format!("coordinators = [\"{COORDINATOR}\", \"10.9.0.3:9472\"]");
    let text = fs::read_to_string(config(&lab, "a")).unwrap();
    fs::write(config(&lab, "a"), text.replace(&format!("coordinators = [\"{COORDINATOR}\"]"), &both)).unwrap();
    let _a = start(&lab, "a", QUICK, "");
    assert!(join(&lab, "b", &token).status.success());
    let text = fs::read_to_string(config(&lab, "b")).unwrap();
    assert!(text.contains(&both), "{text}");
}

#[test]
fn an_address_of_another_host_founds_no_fleet_unless_it_is_asked_for() {
    let Some(lab) = Lab::new() else { return };
    fs::create_dir_all(lab.file("a.d")).unwrap();
    let init =
        |more: &[&str]| output(&lab, "a", &[&["init", "--interface", "eth0", "--address", "10.9.0.2"], more].concat());
    let refused = init(&[]);
    let text = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(text, "onrampctl: --address 10.9.0.2: this host has no such address: `ip address` lists those it has\n");
    assert!(!lab.file("a.d/fleet").exists());
    assert!(init(&["--elsewhere"]).status.success());
}

#[test]
fn a_token_for_which_there_is_no_room_leaves_no_file() {
    let Some(lab) = Lab::new() else { return };
    found(&lab, "10.9.0.1");
    let tokens = lab.file("a.d/fleet/coordinator/tokens");
    // Mounted in the command's own mount namespace.
    let full =
        format!("mount -t tmpfs -o size=4k none {0} && dd if=/dev/zero of={0}/fill bs=4k count=1", tokens.display());
    let create = format!("{} token create --config {}", env!("CARGO_BIN_EXE_onrampd"), config(&lab, "a").display());
    let mut command = lab.command("a", "sh");
    let said = command.args(["-c", &format!("{full} && {create}; ls {}", tokens.display())]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&said.stdout), "fill\n", "{said:?}");
    assert!(String::from_utf8_lossy(&said.stderr).contains("No space left on device"), "{said:?}");
}

#[test]
fn what_the_operator_says_on_one_coordinators_host_holds_on_all() {
    let Some(lab) = Lab::switched() else { return };
    two(&lab);
    list_standby(&lab);
    copy_authority(&lab);
    let running = standby(&lab);
    let a = start(&lab, "a", QUICK, "");
    let b = start(&lab, "b", &format!("{QUICK}\naliases = [\"fd09::2\"]"), "");
    agree(&[&a, &b]);
    assert!(output(&lab, "a", &["fleet", "alias", "10.9.0.2", "fd09::2"]).status.success());
    let at_standby =
        |list: &str| fs::read_to_string(lab.file("c.d/fleet/coordinator/lists").join(list)).unwrap_or_default();
    assert!(at_standby("aliases.json").contains("fd09::2"));
    assert!(running.end());
    let removed = output(&lab, "a", &["fleet", "remove", "10.9.0.2"]);
    let text = String::from_utf8(removed.stderr).unwrap();
    assert!(removed.status.code() == Some(1) && text.lines().count() == 1, "{text}");
    assert!(text.contains("coordinator 10.9.0.3:9472: Connection refused") && text.contains("say it again"), "{text}");
    until("does it hold here", || b.status()["clock"].to_string().contains("was removed from the fleet"));
    let _running = standby(&lab);
    assert!(output(&lab, "a", &["fleet", "remove", "10.9.0.2"]).status.success());
    assert!(at_standby("removed.json").contains("10.9.0.2") && !at_standby("aliases.json").contains("fd09::2"));
    assert!(a.end());
    until("does it hold there", || {
        let asked = output(&lab, "b", &["fleet"]);
        String::from_utf8_lossy(&asked.stderr).contains("10.9.0.3:9472: was removed from the fleet")
    });
    // A member cannot say so.
    let said = say_to(
        "10.9.0.3:9472",
        &lab,
        pki::client(&lab.file("a.d/fleet")).unwrap(),
        &FromHost::Remove { address: [10, 9, 0, 1].into(), until: u64::MAX },
    );
    assert_eq!(refusal(said), "not known here: join first");
}

#[test]
fn a_host_without_programs_takes_part_with_the_kernels_stamps() {
    for address in ["10.9.0.1", "fd09::1"] {
        let Some(lab) = Lab::new() else { return };
        let token = found(&lab, address);
        let a = start(&lab, "a", QUICK, "");
        let joined = join(&lab, "b", &token);
        assert!(joined.status.success(), "{joined:?}");
        adjust(&lab, "b", QUICK, "clock_offset = \"3s\"\nclock_drift = \"20ppm\"");
        let mut measure = command(&lab, "b", &["measure", "--config"]);
        measure.arg(config(&lab, "b"));
        let b = lab.start("b", measure);
        let synchronised = |host: &Value| host["state"] == "synchronised";
        until("synchronised", || {
            fleet(&lab, "a")["hosts"].as_array().unwrap().iter().filter(|h| synchronised(h)).count() == 2
        });
        until("is its mode told", || fleet(&lab, "a")["hosts"][1]["policy"]["why"] == "it only measures");
        // Delays that fit, so offset and drift were found: both are between namespaces.
        until("measured", || {
            let delays = fleet(&lab, "a")["delays"].take();
            let all = delays.as_array().unwrap();
            all.len() == 2 && all.iter().all(|pair| pair["owd"]["min_ns"].as_i64().unwrap().abs() < CLOSE)
        });
        assert!(a.counter("probes_answered") > 0 && a.counter("probes_sent") == 0, "it asks, and is not asked");
        assert!(a.end() && b.end());
    }
}
