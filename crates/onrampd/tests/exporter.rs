//! Metrics that the exporter serves to Prometheus, of a real agent.

mod common;

use common::http::{Program, ask, get, serving};
use common::lab::{Agent, Lab, client, until};
use serde_json::Value;
use std::fs;
use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn exporter(socket: &Path, more: &[&str]) -> (Program, SocketAddr) {
    let mut command = Command::new(client());
    command.args(["exporter", "--listen", "127.0.0.1:0", "--socket"]).arg(socket).args(more);
    serving(command, "/metrics")
}

fn scrape(at: SocketAddr) -> String {
    let answer = get(at, "/metrics");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("Content-Type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.ends_with("# EOF\n"), "{body}");
    body.into()
}

/// The value of a series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {series} in {text}")).parse().unwrap()
}

fn busy_agents(lab: &Lab) -> (Agent, Agent) {
    let more = "threshold = \"50us\"\n[[scope]]\nname = \"six\"\nhold = false\nto = \"fd09::/64\"";
    let (a, b) = (lab.agent("a", more), lab.agent("b", more));
    for peer in ["10.9.0.2", "fd09::2"] {
        assert!(lab.transfer(peer, 20_000_000));
        until("are there delays", || a.path(peer)["or_acks"].as_u64() > Some(10));
    }
    (a, b)
}

#[test]
fn what_is_exported_is_what_the_agent_says() {
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = busy_agents(&lab);
    let (_exporter, at) = exporter(&a.socket, &[]);
    let (status, text) = (a.status(), scrape(at));
    assert_eq!(value(&text, "onramp_up"), 1.0);
    assert_eq!(value(&text, "onramp_enforcing"), 0.0);
    let received = a.counter("or_acks_received") as f64;
    assert_eq!(value(&text, "onramp_or_acks_received_total"), received);
    assert_eq!(value(&text, "onramp_or_acks_refused_total{reason=\"bad_tag\"}"), 0.0);
    let mut counted = 0.0;
    for peer in ["10.9.0.2", "fd09::2"] {
        let path = a.path(peer);
        let series = |name: &str, more: &str| format!("onramp_owd_seconds_{name}{{{more}peer=\"{peer}\"}}");
        let count = value(&text, &series("count", ""));
        assert_eq!(count, path["or_acks"].as_f64().unwrap());
        assert_eq!(value(&text, &format!("onramp_owd_seconds_bucket{{le=\"+Inf\",peer=\"{peer}\"}}")), count);
        let mean = value(&text, &series("sum", "")) / count;
        assert!((mean * 1e9 - path["owd"]["mean_ns"].as_f64().unwrap()).abs() < 2.0, "{mean}");
        assert_eq!(value(&text, &format!("onramp_threshold_seconds{{peer=\"{peer}\"}}")), 50e-6);
        counted += count;
    }
    assert_eq!(counted, received);
    let scoped =
        |rule: &str, hold: bool| value(&text, &format!("onramp_scope_bytes_total{{rule=\"{rule}\",hold=\"{hold}\"}}"));
    assert!(scoped("six", false) >= 20e6 && scoped("none", true) >= 20e6);
    assert_eq!(scoped("six", false) + scoped("none", true), a.counter("sent_bytes") as f64);
    // Nobody asked for histograms here.
    assert!(status["paths"][0]["owd"].get("histogram").is_none());

    // One path by itself: the other is among others, and none is missing.
    let (_few, at) = exporter(&a.socket, &["--max-paths", "1"]);
    let text = scrape(at);
    let count = |peer: &str| value(&text, &format!("onramp_owd_seconds_count{{peer=\"{peer}\"}}"));
    assert_eq!(count("10.9.0.2") + count("others"), counted);
    assert!(!text.contains("fd09"));
}

#[test]
fn it_bears_any_client_and_an_agent_that_is_not_there() {
    let folder = std::env::temp_dir().join(format!("onramp-exporter-{}", std::process::id()));
    let (_exporter, at) = exporter(&folder, &[]);
    let text = scrape(at);
    assert_eq!(value(&text, "onramp_up"), 0.0);
    assert!(!text.contains("onramp_paths"));
    for (request, answer) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404"),
        (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
        (b"\xff\x00 nonsense\r\n\r\n", "400"),
        (&[b'a'; 100_000], "4"),
        (&[&b"GET /metrics HTTP/1.1\r\nx: "[..], &[b'a'; 9000]].concat(), "431"),
    ] {
        let said = ask(at, request);
        assert!(said.starts_with(&format!("HTTP/1.1 {answer}")), "{said}");
    }
    let head = ask(at, b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");
    // As many as it takes, which say nothing: they are let go.
    let silent: Vec<TcpStream> = (0..40).map(|_| TcpStream::connect(at).unwrap()).collect();
    until("does it answer again", || get(at, "/metrics").contains("# EOF"));
    drop(silent);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// True if Prometheus is here; packaging/need installs it for the tests.
fn has_prometheus() -> bool {
    let found = Command::new("promtool").arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: there is no prometheus");
    }
    found
}

#[test]
fn prometheus_reads_it_and_every_query_has_an_answer() {
    if !has_prometheus() {
        return;
    }
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = busy_agents(&lab);
    let (_exporter, at) = exporter(&a.socket, &[]);
    // promtool judges names and types, in the older format, where counters are called as their series are.
    let mut check = Command::new("promtool").args(["check", "metrics"]).stdin(Stdio::piped()).spawn().unwrap();
    let mut text = scrape(at).replace("# EOF\n", "");
    for line in text.clone().lines() {
        if let Some(name) = line.strip_prefix("# TYPE ").and_then(|l| l.strip_suffix(" counter")) {
            text = text.replace(&format!("# HELP {name} "), &format!("# HELP {name}_total "));
            text = text.replace(&format!("# TYPE {name} "), &format!("# TYPE {name}_total "));
        }
    }
    check.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(check.wait().unwrap().success());

    let rules = root().join("packaging/prometheus/onramp.rules.yml");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = lab.file("prometheus.yml");
    let settings = format!(
        "global: {{scrape_interval: 500ms, evaluation_interval: 500ms}}\nrule_files: [{}]\nscrape_configs:\n  - job_name: \
         onramp\n    static_configs: [{{targets: ['{at}']}}]\n",
        rules.display()
    );
    fs::write(&config, settings).unwrap();
    let log = fs::File::create(lab.file("prometheus.log")).unwrap();
    let prometheus = Command::new("prometheus")
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", lab.file("prometheus").display()))
        .arg(format!("--web.listen-address={port}"))
        .stderr(log)
        .spawn();
    let _prometheus = Program(prometheus.unwrap());
    let query = |expression: &str| -> Value {
        let escaped: String = expression.bytes().map(|b| format!("%{b:02x}")).collect();
        let answer = TcpStream::connect(port).map(|_| get(port, &format!("/api/v1/query?query={escaped}")));
        answer.ok().and_then(|a| serde_json::from_str(a.split_once("\r\n\r\n")?.1).ok()).unwrap_or_default()
    };
    let has = |expression: &str| query(expression)["data"]["result"].as_array().is_some_and(|all| !all.is_empty());
    until("is it scraped", || has("count_over_time(onramp_up[1m]) > 4"));
    assert!(!has("up{job=\"onramp\"} == 0"), "{}", fs::read_to_string(lab.file("prometheus.log")).unwrap());
    assert_eq!(
        query("sum(onramp_owd_seconds_count)")["data"]["result"][0]["value"][1],
        a.counter("or_acks_received").to_string()
    );

    // Every query of the dashboard: one that has nothing to show here is about gates, or a fleet's clock.
    let dashboard = fs::read(root().join("packaging/grafana/onramp.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&dashboard).unwrap();
    let mut asked = 0;
    for target in dashboard["panels"].as_array().unwrap().iter().flat_map(|p| p["targets"].as_array().unwrap()) {
        let expression = target["expr"].as_str().unwrap();
        let expression = expression.replace("$__rate_interval", "10s").replace("$job", ".+").replace("$instance", ".+");
        assert_eq!(query(&expression)["status"], "success", "{expression}");
        let elsewhere = ["gate_", "clock_uncertainty", "clock_drift"].iter().any(|name| expression.contains(name));
        assert!(elsewhere || has(&expression), "no answer to {expression}");
        asked += 1;
    }
    assert!(asked > 15, "{asked}");
}

#[test]
fn alerts_fire_when_they_should_and_each_has_its_runbook() {
    let rules = fs::read_to_string(root().join("packaging/prometheus/onramp.rules.yml")).unwrap();
    let runbooks = fs::read_to_string(root().join("docs/runbooks.md")).unwrap();
    let names: Vec<&str> = rules.lines().filter_map(|l| l.trim().strip_prefix("- alert: ")).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        assert!(rules.contains(&format!("runbook: \"docs/runbooks.md#{}\"", name.to_lowercase())), "{name}");
        assert!(runbooks.contains(&format!("\n## {name}\n")), "docs/runbooks.md does not know {name}");
    }
    if !has_prometheus() {
        return;
    }
    let tests = root().join("packaging/prometheus/onramp.rules.test.yml");
    let done = Command::new("promtool").args(["test", "rules"]).arg(tests).output().unwrap();
    assert!(
        done.status.success(),
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
}
