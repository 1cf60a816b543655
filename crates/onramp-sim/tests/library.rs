//! Seams for programs that use the simulator: measures and controllers of their own.

mod common;

use common::build_as;
use onramp_sim::cc::custom::{Custom, Factory, Start};
use onramp_sim::cc::tcp::{self, Controller, Window};
use onramp_sim::cc::{Ack, Env, Permit};
use onramp_sim::measure::{FlowStart, Observer};
use onramp_sim::network::feedback::{Told, Written};
use onramp_sim::records::{ExchangeRecord, FlowRecord, RequestRecord};
use onramp_sim::{BuildError, Options, Scenario, Simulation};
use std::path::Path;
use std::sync::Arc;

/// All that an observer is told, by kind.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    started: Vec<FlowStart>,
    finished: Vec<FlowRecord>,
    requests: Vec<RequestRecord>,
    exchanges: Vec<ExchangeRecord>,
}

impl Observer for Seen {
    fn flow_started(&mut self, flow: &FlowStart) {
        self.started.push(*flow);
    }

    fn flow_finished(&mut self, flow: &FlowRecord) {
        self.finished.push(*flow);
    }

    fn request_finished(&mut self, request: &RequestRecord) {
        self.requests.push(*request);
    }

    fn exchange_finished(&mut self, exchange: &ExchangeRecord) {
        self.exchanges.push(*exchange);
    }
}

const PODS: &str = r#"
    duration = "300us"
    warmup = "100us"
    network = { kind = "fat-tree", pods = 4, tors_per_pod = 2, aggs_per_pod = 2, cores = 4, hosts_per_tor = 2 }
    traffic = [
        { kind = "incast", fan_out = 5, size = "20KB", load = 0.1 },
        { kind = "rpc", from = ["h0", "h5"], to = ["h9"], request = "1KB", response = "30KB", per_second = 20000 },
    ]
"#;

#[test]
fn an_observer_sees_what_is_recorded_whatever_the_cells_and_threads() {
    let run = |one_cell, threads| {
        let options = Options { one_cell, ..Options::default() };
        let mut simulation = build_as(&options, PODS, "kind = \"dcqcn\"", &[]);
        simulation.set_threads(threads);
        let mut seen = Seen::default();
        simulation.run_to_end_with(&mut seen);
        let cells = simulation.cells();
        let recorded = (simulation.take_flows(), simulation.take_requests(), simulation.take_exchanges());
        assert!(recorded == (seen.finished.clone(), seen.requests.clone(), seen.exchanges.clone()));
        (cells, seen)
    };
    let (cells, alone) = run(true, 1);
    assert_eq!(cells, 1);
    assert!(alone.requests.len() > 10 && alone.exchanges.len() > 5);
    assert_eq!(alone.started.len(), alone.finished.len());
    assert!(alone.started.iter().map(|flow| flow.start_ps).is_sorted());
    for threads in [1, 2, 4] {
        let (cells, several) = run(false, threads);
        assert!(cells > 1);
        assert!(several == alone, "{threads} threads");
    }
}

const STAR: &str = r#"
    duration = "200us"
    network = { kind = "star", hosts = 3 }
    onramp = { enabled = false }
    [[traffic]]
    kind = "long"
    src = ["h0", "h1"]
    dst = "h2"
"#;

/// Keeps a window of so many packets, and notes what it is told.
#[derive(Debug, Default)]
struct Listens {
    packets: u64,
    hops: u32,
    rtt: u64,
}

impl Custom for Listens {
    fn on_path(&mut self, hops: u32) {
        self.hops = hops;
    }

    fn on_ack(&mut self, env: &Env, ack: &Ack<'_>) {
        assert_eq!(self.hops, 1, "a star has one switch");
        self.rtt = ack.rtt;
        self.packets = match ack.written {
            Written::Nothing => 10,
            Written::Int(stack) => 10 + stack.hops().len() as u64,
            // Half of the link for each of the two flows.
            Written::Rcp(header) => {
                if header.rate().is_some_and(|rate| rate < env.line_rate) {
                    12
                } else {
                    10
                }
            }
            // The window that it tells is too small for its share: the switch asks for more.
            Written::Xcp(header) => {
                if header.feedback() > 0.0 {
                    13
                } else {
                    self.packets
                }
            }
        };
    }

    fn tell(&self, env: &Env) -> Told {
        Told { rtt: self.rtt, window: env.packet as f64, wish: env.packet as f64 }
    }

    fn permit(&mut self, env: &Env, _: u64) -> Permit {
        let window = self.packets.max(1) * env.payload;
        Permit { window, rate: f64::INFINITY }
    }
}

fn listens(keys: &toml::Table) -> Result<Start, String> {
    if keys.is_empty() { Ok(Arc::new(|_| Box::new(Listens::default()))) } else { Err("takes no keys".into()) }
}

fn options() -> Options {
    let controllers = [("listens".to_string(), listens as Factory)].into();
    let tcp_controllers = [("steady".to_string(), steady as Factory<tcp::custom::Start>)].into();
    Options { controllers, tcp_controllers, ..Options::default() }
}

/// Goodput of both flows in packets of 1000 B a round trip.
fn packets_sent(feedback: &str) -> u64 {
    let transport = format!("kind = \"custom\"\nname = \"listens\"\n{feedback}");
    let mut simulation = build_as(&options(), STAR, &transport, &[]);
    simulation.run_to_end();
    simulation.take_flows().iter().map(|flow| flow.bytes).sum::<u64>() / 1000
}

#[test]
fn a_controller_of_ones_own_reads_the_feedback_of_switches() {
    let none = packets_sent("");
    let (int, rcp) = (packets_sent("feedback = { kind = \"int\" }"), packets_sent("feedback = { kind = \"rcp\" }"));
    let xcp = packets_sent("feedback = { kind = \"xcp\" }");
    // Round trips are of one length nearly: windows of 10, 11, 12 and 13 packets.
    for (packets, sent) in [(11.0, int), (12.0, rcp), (13.0, xcp)] {
        let ratio = sent as f64 / none as f64 * 10.0;
        assert!((ratio - packets).abs() < 0.8, "{ratio} of {packets}");
    }
}

/// A window of a constant number of packets.
#[derive(Debug)]
struct Steady(u32);

impl Controller for Steady {
    fn ssthresh(&mut self, _: &Window) -> u32 {
        self.0
    }

    fn grow(&mut self, w: &mut Window, _ack: u64, _acked: u32) {
        w.cwnd = self.0;
    }
}

fn steady(keys: &toml::Table) -> Result<tcp::custom::Start, String> {
    let packets = keys.get("packets").and_then(toml::Value::as_integer).ok_or("packets is missing, such as 20")?;
    Ok(Arc::new(move |w, _| {
        w.cwnd = packets as u32;
        Box::new(Steady(packets as u32))
    }))
}

#[test]
fn a_controller_of_ones_own_steers_tcp() {
    let sent = |packets| {
        let transport = format!("kind = \"custom-tcp\"\nname = \"steady\"\npackets = {packets}");
        let mut simulation = build_as(&options(), STAR, &transport, &[("duration", "2ms")]);
        simulation.run_to_end();
        simulation.take_flows().iter().map(|flow| flow.bytes).sum::<u64>()
    };
    let (few, many) = (sent(2), sent(6));
    assert!(few > 0 && (2.0..4.0).contains(&(many as f64 / few as f64)), "{few} and {many}");
}

#[test]
fn what_a_program_lacks_is_a_typed_error() {
    let build = |transport: &str| {
        let text = format!("{STAR}\n[transport]\n{transport}\n");
        let (scenario, topology) = Scenario::load(&text, "test", Path::new("/"), &[]).unwrap();
        Simulation::with(&scenario, topology, Path::new("/"), &options()).err().unwrap()
    };
    let error = build("kind = \"custom-tcp\"\nname = \"stead\"");
    assert!(matches!(&error, BuildError::Own(_)), "{error:?}");
    assert_eq!(error.to_string(), "transport \"custom-tcp\": there is no \"stead\", only steady");
    let error = build("kind = \"custom-tcp\"\nname = \"steady\"");
    assert_eq!(error.to_string(), "transport \"steady\": packets is missing, such as 20");
    let error = build("kind = \"custom\"\nname = \"listens\"\ngain = 2");
    assert_eq!(error.to_string(), "transport \"listens\": takes no keys");
}
