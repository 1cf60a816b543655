//! The dashboard: what it tells of a real agent, and its page in a real browser.

mod common;

use common::browser::Browser;
use common::http::{Program, ask, get, serving};
use common::lab::{Lab, client, onrampctl, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const T: &str = "threshold = \"50us\"";

fn dashboard(socket: &Path) -> (Program, SocketAddr) {
    let mut command = Command::new(client());
    command.args(["dashboard", "--listen", "127.0.0.1:0", "--socket"]).arg(socket);
    serving(command, "/")
}

fn body(answer: &str) -> Value {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    serde_json::from_str(body).unwrap()
}

fn data(at: SocketAddr) -> Value {
    body(&get(at, "/data.json"))
}

/// A folder of a test without a lab.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("onramp-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn delays_are_those_that_the_agent_counts_and_an_agent_may_go_and_come_back() {
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = (lab.agent("a", T), lab.agent("b", T));
    let (_dashboard, at) = dashboard(&a.socket);
    // What came before the first look is not counted.
    until("has it looked", || !data(at)["seconds"].as_array().unwrap().is_empty());
    assert!(lab.transfer("10.9.0.2", 20_000_000));
    until("are there delays", || a.path("10.9.0.2")["or_acks"].as_u64() > Some(10));
    let counted = |data: &Value| -> u64 {
        let path = data["paths"].as_array().unwrap().iter().find(|p| p["peer"] == "10.9.0.2");
        path.map_or(0, |p| p["delays"].as_array().unwrap().iter().map(|d| d[1].as_u64().unwrap()).sum())
    };
    until("are all told of", || counted(&data(at)) == a.path("10.9.0.2")["or_acks"].as_u64().unwrap());
    let told = data(at);
    assert_eq!((&told["agent"]["mode"], &told["agent"]["threshold_ns"]), (&json!("observe"), &json!(50_000)));
    assert_eq!(told["fleet"]["hosts"], Value::Null);
    let next = told["next"].as_u64().unwrap();
    let later = body(&get(at, &format!("/data.json?since={next}")));
    assert!(later["seconds"].as_array().unwrap().len() <= 3, "only what is new: {later}");

    assert!(a.end());
    until("is it gone", || data(at)["gone"]["why"].as_str().is_some_and(|why| why.contains("no agent answers")));
    let was = counted(&data(at));
    assert!(was > 10, "what was is remembered");
    let a = lab.agent("a", T);
    until("is it back", || data(at)["gone"].is_null());
    assert!(lab.transfer("10.9.0.2", 5_000_000));
    until("are there more", || counted(&data(at)) == was + a.path("10.9.0.2")["or_acks"].as_u64().unwrap());
}

#[test]
fn it_answers_this_host_alone_and_changes_nothing() {
    let folder = Folder::new("dashboard-host");
    let (mut dashboard, at) = dashboard(&folder.0.join("none.sock"));
    for (request, answer) in [
        (format!("GET / HTTP/1.1\r\nHost: {at}\r\n\r\n"), "200"),
        (format!("GET / HTTP/1.1\r\nHost: localhost:{}\r\n\r\n", at.port()), "200"),
        ("GET /data.json HTTP/1.1\r\nHost: rebound.example\r\n\r\n".into(), "421"),
        (format!("GET /data.json HTTP/1.1\r\nHost: rebound.example:{}\r\n\r\n", at.port()), "421"),
        ("GET /data.json HTTP/1.1\r\n\r\n".into(), "421"),
        (format!("GET /data.json?since=x HTTP/1.1\r\nHost: {at}\r\n\r\n"), "400"),
        (format!("GET /../etc/passwd HTTP/1.1\r\nHost: {at}\r\n\r\n"), "404"),
        (format!("POST / HTTP/1.1\r\nHost: {at}\r\n\r\n"), "405"),
        ("nonsense\r\n\r\n".into(), "400"),
    ] {
        let said = ask(at, request.as_bytes());
        assert!(said.starts_with(&format!("HTTP/1.1 {answer} ")), "{request}: {said}");
        assert!(!said.to_lowercase().contains("\r\nset-cookie"), "{said}");
    }
    let head = ask(at, format!("HEAD / HTTP/1.1\r\nHost: {at}\r\n\r\n").as_bytes());
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    for header in
        ["Content-Security-Policy: default-src 'none'; ", "X-Content-Type-Options: nosniff", "Cache-Control: no-store"]
    {
        assert!(head.contains(&format!("\r\n{header}")), "{head}");
    }
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(at).unwrap()).collect();
    until("does it answer again", || get(at, "/data.json").starts_with("HTTP/1.1 200"));
    drop(silent);

    // Its port is taken: one line.
    let taken = onrampctl(&["dashboard", "--listen", &at.to_string(), "--socket", "/nowhere"]);
    let said = String::from_utf8_lossy(&taken.stderr);
    assert_eq!((taken.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains(&at.to_string()), "{said}");
    for wrong in [&["dashboard", "--listen", "nowhere"][..], &["dashboard", "--config", "/nowhere/onrampd.toml"]] {
        let said = onrampctl(wrong);
        assert_eq!(said.status.code(), Some(2), "{said:?}");
    }
    kill_process(Pid::from_child(&dashboard.0), Signal::INT).unwrap();
    assert!(dashboard.0.wait().unwrap().success());
}

/// Something that answers as an agent does which observes for some seconds and then enforces, on kernels that have no
/// gate, too.
fn stand_in(socket: &Path, is_there: &Arc<AtomicBool>) {
    let listener = UnixListener::bind(socket).unwrap();
    let (is_there, looks) = (is_there.clone(), Arc::new(AtomicU64::new(0)));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (is_there, looks) = (is_there.clone(), looks.clone());
            thread::spawn(move || {
                let mut writer = stream.try_clone().unwrap();
                for line in BufReader::new(stream).lines() {
                    if line.is_err() || !is_there.load(Ordering::Relaxed) {
                        return;
                    }
                    let n = looks.fetch_add(1, Ordering::Relaxed);
                    let _ = writer.write_all(format!("{}\n", status_of(n)).as_bytes());
                }
            });
        }
    });
}

/// Its status at the `n`th look.
fn status_of(n: u64) -> Value {
    let is_held = n >= 4;
    let held = n.saturating_sub(4);
    // Delays of some milliseconds while it observes, of some hundred microseconds after.
    let path = |last: u64, high: u64| {
        let mut histogram = vec![0; 64];
        (histogram[8], histogram[34], histogram[25]) = (100 * n, high * n.min(3), high * n.saturating_sub(3));
        json!({
            "peer": format!("10.0.0.{last}"), "clock_known": true, "threshold_ns": 50_000,
            "held_ns": 400_000_000 * held * u64::from(last == 2), "or_acks": 100 * n,
            "owd": {"now_ns": 6000, "age_ns": 2, "min_ns": 3000, "mean_ns": 4, "p50_ns": 5, "p99_ns": 6, "sum_ns": 7,
                    "histogram": histogram}
        })
    };
    let gate = json!({
        "handle": "8001:", "packets": 10 * held, "bytes": 1000, "drops": 0, "queued_packets": 2, "queued_bytes": 300,
        "held": 50 * held, "held_ns": 800_000_000 * held, "max_hold": 7, "limit_drops": 3 * held, "bytes_drops": 0,
        "flow_limit_drops": 0, "no_flow": 0, "cut": 6, "no_time": 0, "collected": 0, "acks_first": 0, "flows": 9,
        "idle_flows": 1, "throttled_flows": 0
    });
    json!({
        "version": "0.1.0", "mode": if is_held { "enforce" } else { "observe" },
        "gate": {"kind": "bpf", "why": if is_held { "" } else { "the mode is observe" }}, "pid": 1,
        "uptime_ns": n * 1_000_000_000, "attached": "tcx",
        "problems": ["<img src=x onerror=\"document.title='broken'\"><b id=markup>x</b>"],
        "interfaces": [{"name": "eth0", "present": true, "gates": if is_held { vec![gate] } else { vec![] }}],
        "parameters": {"threshold_ns": 50_000, "max_pause_ns": 1, "gain": 0.5, "version": "final", "beta_start": 1.0,
                       "or_ack_interval_bytes": 1, "port": 1, "idle_ns": 1, "line_rate_bps": null},
        "clock": {"source": "fleet", "known": true, "reason": "", "uncertainty_ns": 87.0, "drift_ppm": -3.0,
                  "fleet_ns": 1, "noise_ns": 1.0, "coordinator": "10.0.0.1:9472"},
        "paths": [path(2, 90), path(3, 0)],
        "counters": {"sent": 7, "held": 70 * n, "or_acks_received": 145 * n, "or_acks_bad_tag": n},
        "flows": {"count": 30, "capacity": 64, "held_now": 3 * u64::from(is_held), "held_ns": 5, "pauses": 6, "top": []}
    })
}

/// Opens the page and checks what holds whatever it shows, at the end.
fn browse(folder: &Path, at: SocketAddr, look: impl FnOnce(&mut Browser)) {
    let Some(mut browser) = Browser::open(folder) else { return };
    let size = json!({"width": 1280, "height": 1600, "deviceScaleFactor": 1, "mobile": false});
    browser.call("Emulation.setDeviceMetricsOverride", size);
    browser.open_page(at);
    look(&mut browser);
    assert_eq!(browser.complaints(), Vec::<&Value>::new());
    let loaded = browser.loaded();
    assert!(loaded.iter().any(|url| url.contains("/data.json?since=")), "{loaded:?}");
    let ours = format!("http://{at}/");
    assert!(loaded.iter().all(|url| url.starts_with(&ours) || *url == "data:,"), "{loaded:?}");
}

#[test]
fn a_browser_shows_whether_it_holds_and_a_click_opens_the_history_of_a_path() {
    let folder = Folder::new("dashboard-browser");
    let socket = folder.0.join("agent.sock");
    let is_there = Arc::new(AtomicBool::new(true));
    stand_in(&socket, &is_there);
    let (_dashboard, at) = dashboard(&socket);
    browse(&folder.0, at, |page| {
        page.until("document.getElementById('synchronised').innerText.startsWith('Yes.')");
        let said = page.text("synchronised");
        assert!(said.contains("within 87 ns") && said.contains("10.0.0.1:9472") && said.contains("2 of 2"), "{said}");
        page.until("document.getElementById('holding').innerText.startsWith('Yes.')");
        page.until("document.getElementById('holding').innerText.includes('10.0.0.2: packets waited')");
        assert!(page.text("holding").contains("3 of 30 flows held"), "{}", page.text("holding"));
        assert_eq!(page.value("document.title"), "On-Ramp · synchronised · holding");

        // What is called like markup is text.
        assert!(page.text("problems").contains("<img src=x onerror="), "{}", page.text("problems"));
        assert_eq!(page.value("document.querySelectorAll('img, #markup').length"), 0);

        // The path above T comes first, and its cells are drawn.
        page.until("document.querySelectorAll('#rows a').length === 2");
        assert_eq!(page.value("document.querySelector('#rows .peer').innerText"), "10.0.0.2");
        let painted = "[...document.querySelector('#rows canvas').getContext('2d').getImageData(0, 0, 4000, 1).data] \
                       .some((v, i) => i % 4 === 3 && v > 0)";
        assert_eq!(page.value(painted), true);
        page.point("#rows canvas", 0.999, false);
        page.until("document.getElementById('hover').innerText.startsWith('10.0.0.2 · ')");

        assert_eq!(page.value("document.getElementById('history').hidden"), true);
        page.point("#rows canvas", 0.5, true);
        page.until("!document.getElementById('history').hidden");
        assert_eq!(page.value("location.hash"), "#path=10.0.0.2");
        assert_eq!(page.text("history-title"), "History of the path to 10.0.0.2");
        assert!(page.text("history-text").contains("T 50.0 µs"), "{}", page.text("history-text"));
        page.value("document.querySelector('details').open = true");
        page.until("document.querySelectorAll('#numbers tbody tr').length > 5");

        // By the keyboard: numbers of a second, and another path.
        page.value("document.querySelectorAll('#rows a')[1].focus()");
        page.press("ArrowLeft");
        page.until("document.getElementById('hover').innerText.startsWith('10.0.0.3 · ')");
        page.press("Enter");
        page.until("location.hash === '#path=10.0.0.3'");
        page.until("document.getElementById('history-title').innerText.endsWith('10.0.0.3')");

        // Rates, and delays of both modes.
        let row = |name: &str| format!("document.querySelector('tr[data-name={name}] td:nth-child(2)').innerText");
        page.until(&format!("{} !== '0'", row("drops_packets")));
        page.until("!document.getElementById('modes').hidden");
        let modes = page.text("modes");
        assert!(modes.contains("10.0.0.2") && page.text("modes-text").contains("onramp forecast"), "{modes}");
        assert!(page.text("fleet-text").starts_with("Not known: "), "{}", page.text("fleet-text"));

        // A narrow window, in the dark.
        let light = page.value("getComputedStyle(document.body).backgroundColor");
        let dark = json!({"features": [{"name": "prefers-color-scheme", "value": "dark"}]});
        page.call("Emulation.setEmulatedMedia", dark);
        assert_ne!(page.value("getComputedStyle(document.body).backgroundColor"), light);
        let size = json!({"width": 800, "height": 1600, "deviceScaleFactor": 1, "mobile": false});
        page.call("Emulation.setDeviceMetricsOverride", size);
        page.until("document.documentElement.scrollWidth <= 800");

        // The agent goes, and comes back.
        is_there.store(false, Ordering::Relaxed);
        page.until("document.getElementById('trouble').innerText.startsWith('The agent has not answered since ')");
        assert!(page.text("holding").starts_with("Not known:"), "{}", page.text("holding"));
        is_there.store(true, Ordering::Relaxed);
        page.until("document.getElementById('trouble').hidden");
        page.until("document.getElementById('holding').innerText.startsWith('Yes.')");
    });
}

#[test]
fn a_browser_shows_real_agents_that_observe() {
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = (lab.agent("a", T), lab.agent("b", T));
    let (_dashboard, at) = dashboard(&a.socket);
    until("has it looked", || !data(at)["seconds"].as_array().unwrap().is_empty());
    assert!(lab.transfer("10.9.0.2", 20_000_000));
    assert!(lab.transfer("fd09::2", 5_000_000));
    browse(&lab.folder, at, |page| {
        page.until("document.getElementById('synchronised').innerText.startsWith('By configuration.')");
        assert!(page.text("holding").starts_with("No. The agent observes"), "{}", page.text("holding"));
        page.until("document.querySelectorAll('#rows a').length === 2");
        // An IPv6 address in the fragment.
        page.value("[...document.querySelectorAll('#rows a')].find((a) => a.innerText.includes('fd09::2')).click()");
        page.until("document.getElementById('history-title').innerText === 'History of the path to fd09::2'");
        assert_eq!(
            page.text("modes-text"),
            "All delays that are remembered are from observing: there is nothing to compare."
        );
    });
}
