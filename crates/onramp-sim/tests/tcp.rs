//! TCP in the simulator: what theory says of it.

mod common;

use common::{TCP, build, build_with, finish, long, trace};
use onramp_sim::records::FlowRecord;
use onramp_sim::units::{SEC, US};

const RENO: &str = "kind = \"newreno\"";
/// Ten times slower than the default, as the cluster's hosts are.
const SLOW: &str = "duration = \"1ms\"\nnetwork = { kind = \"star\", hosts = 4, host_rate = \"10Gbps\" }\n";

/// Connections opened before the load, and late.
fn opened(counters: &serde_json::Value) -> [u64; 2] {
    ["before", "late"].map(|when| counters["engine"][format!("connections_opened_{when}")].as_u64().unwrap())
}

fn us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

#[test]
fn one_packet_takes_what_its_bits_and_the_links_take() {
    let (_file, traffic) = trace(&["0,1,1000,0"]);
    let mut sim = build(&format!("{SLOW}{traffic}"), RENO);
    sim.run_to_end();
    let flows = sim.take_flows();
    // Two links: 1066 B at 10 Gb/s and 1 us each.
    assert_eq!((flows.len(), flows[0].fct_ps), (1, 2 * (852_800 + 1_000_000)));
    assert_eq!(flows[0].fct_ps, flows[0].ideal_ps);
}

#[test]
fn a_long_flow_fills_the_link() {
    let (_file, traffic) = trace(&["0,1,30000000,0"]);
    let mut sim = build(&format!("{SLOW}{traffic}"), RENO);
    sim.run_to_end();
    let flow = sim.take_flows()[0];
    let slow = flow.fct_ps as f64 / flow.ideal_ps as f64;
    println!("{} us, {slow} of the ideal, {} resent", us(flow.fct_ps), flow.retransmitted);
    assert!((1.0..1.02).contains(&slow), "{slow}");
    assert_eq!(flow.retransmitted, 0);
}

#[test]
fn every_tcp_shares_a_link_and_everything_arrives() {
    let (_file, traffic) = trace(&["0,3,20000000,0", "1,3,20000000,137000", "2,3,20000000,391000"]);
    for tcp in TCP {
        for qdisc in ["pfifo", "fq_codel", "fq"] {
            let set = [("linux.buffer_packets", "200"), ("linux.qdisc", qdisc)];
            let mut sim = build_with(&format!("{SLOW}{traffic}"), tcp, &set);
            sim.run_to_end();
            let flows = sim.take_flows();
            let last = flows.iter().map(|flow| flow.start_ps + flow.fct_ps).max().unwrap();
            let n = sim.packet_counts();
            assert_eq!((flows.len(), n.sent), (3, n.delivered + n.dropped + n.in_flight), "{tcp}, {qdisc}");
            // All three together take as long as one of 60 MB would, or little longer, but for timeouts. BBR's take 50
            // to 75 ms on Linux; in three of sixteen runs one waits for a timeout or, without one, for a probe.
            let link = 60_000_000 / 1448 * 1514 * 800;
            let timeouts: u32 = flows.iter().map(|flow| flow.timeouts).sum();
            let (share, waits) = if tcp.contains("bbr") { (7, timeouts.max(1)) } else { (5, timeouts) };
            let most = link * share / 4 + u64::from(waits) * 217_000_000_000;
            assert!((link..most).contains(&last) && timeouts < 3, "{tcp}, {qdisc}: {} us", us(last));
        }
    }
}

#[test]
fn what_waits_for_a_larger_segment_waits_for_an_answer_or_a_probe() {
    // Incasts that lose packets: what is complete without a timer is so within 1 ms, and a probe takes more than 3.
    let incast = "traffic = [{ kind = \"incast\", fan_out = 16, size = \"300KB\", load = 0.08 }]\n";
    let star = "duration = \"20ms\"\nnetwork = { kind = \"star\", hosts = 17, host_rate = \"100Gbps\" }\n";
    for seed in ["1", "3"] {
        let set = [("linux.buffer_packets", "200"), ("seed", seed)];
        let mut sim = build_with(&format!("{star}{incast}"), "kind = \"cubic\"", &set);
        sim.run_to_end();
        let times: Vec<f64> = sim.take_flows().iter().map(|flow| us(flow.fct_ps)).collect();
        let between = times.iter().filter(|us| (1200.0..2900.0).contains(*us)).count();
        let probed = times.iter().filter(|us| (3000.0..5000.0).contains(*us)).count();
        assert!(between == 0 && probed > 0, "seed {seed}: {between} between, {probed} of {} probed", times.len());
    }
}

#[test]
fn of_senders_in_step_as_many_packets_find_room_as_on_linux() {
    let rows: Vec<String> = (1..17).map(|src| format!("{src},0,14480,0")).collect();
    let (_file, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let text = format!("duration = \"1ms\"\nnetwork = {{ kind = \"star\", hosts = 17 }}\n{traffic}");
    let mut sim = build_with(&text, RENO, &[("linux.buffer_packets", "64")]);
    sim.run_to_end();
    // 64 wait and one leaves; each of the nine slots of a packet in which others come makes room for one more.
    assert_eq!(sim.packet_counts().dropped, 160 - 65 - 9);
}

#[test]
fn a_queue_is_as_long_as_marks_and_windows_let_it() {
    let long = "[[traffic]]\nkind = \"long\"\nsrc = [\"h0\", \"h1\"]\ndst = \"h3\"\n";
    let text = format!("{}{long}", SLOW.replace("1ms", "60ms"));
    let queue = |tcp: &str| {
        let mut sim = build_with(&text, tcp, &[("measure.queues", "[\"s0->h3\"]"), ("warmup", "20ms")]);
        sim.run_to_end();
        let mut samples: Vec<f64> = sim.take_samples().iter().map(|s| s.value / 1514.0).collect();
        samples.sort_by(f64::total_cmp);
        assert_eq!(common::counters(&sim)["network"]["drops"], 0, "{tcp}");
        samples[samples.len() / 2]
    };
    // K = 65 packets; DCTCP keeps its queue about there (RFC 8257 §4.1; W of two flows is small).
    let dctcp = queue("kind = \"dctcp-tcp\"");
    assert!((30.0..100.0).contains(&dctcp), "{dctcp}");
    // Vegas keeps 2 to 4 packets of each flow, and some more for being started before.
    let vegas = queue("kind = \"vegas\"");
    assert!(vegas < 40.0, "{vegas}");
    // Reno fills what windows let it.
    let reno = queue(RENO);
    assert!(reno > 150.0, "{reno}");
}

#[test]
fn what_connections_send_again_is_what_their_flows_did() {
    // Three hosts send to one whose switch has little room.
    let rows: Vec<String> = (0..60).map(|i| format!("{},3,200000,{}", i % 3, i * 17_000)).collect();
    let (_file, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    for tcp in TCP {
        let set = [("linux.buffer_packets", "20"), ("linux.qdisc", "fq_codel"), ("time_limit", "60s")];
        let (flows, _, counters) = finish(build_with(&format!("{SLOW}{traffic}"), tcp, &set));
        let resent: u32 = flows.iter().map(|flow| flow.retransmitted).sum();
        let timeouts: u32 = flows.iter().map(|flow| flow.timeouts).sum();
        assert!(flows.len() == rows.len() && resent > 0, "{tcp}: {} flows, {resent} resent", flows.len());
        let network = &counters["network"];
        assert_eq!(
            (&network["retransmitted_packets"], &network["timeouts"]),
            (&resent.into(), &timeouts.into()),
            "{tcp}"
        );
    }
}

#[test]
fn a_connection_is_used_again_and_that_costs_nothing() {
    let (_file, traffic) = trace(&["0,1,1000,0", "0,1,1000,700000000"]);
    let (flows, _, counters) = finish(build(&format!("{SLOW}{traffic}"), RENO));
    assert_eq!(flows[0].fct_ps, flows[1].fct_ps);
    assert_eq!(opened(&counters), [1, 0]);
}

/// Flows of 5 MB from h0: the first is the only one to h1, and lives longer than it is taken to, so that until 40 ms
/// another one to h1 finds no connection.
fn busy() -> Vec<String> {
    let to = |dst| format!("0,{dst},5000000,0");
    [1, 2, 3, 2, 3, 2, 3, 2].map(to).to_vec()
}

#[test]
fn a_connection_that_is_opened_late_costs_a_handshake() {
    let rows = [busy(), vec!["0,1,1000,20000000".into()]].concat();
    let (_file, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let set = [("linux.gso_max_size", "1500B")];
    let (flows, _, counters) = finish(build_with(&format!("{SLOW}{traffic}"), RENO, &set));
    assert_eq!(opened(&counters), [8, 1]);
    let flow = flows.iter().find(|flow| flow.bytes == 1000).unwrap();
    // There and back once more, and at times behind a packet of another flow.
    let more = us(flow.fct_ps - flow.ideal_ps);
    assert!((4.2..12.0).contains(&more), "{more} us");
}

#[test]
fn an_opening_that_is_lost_is_sent_again_after_a_second() {
    // 31 flows to one host last longer than they are taken to, but for two, which leave the others no room (on Linux one
    // or two do). Then further ones start at once, and the switch has no room for so many openings.
    let large = (0..31).map(|src| format!("{src},31,10000000,{src}"));
    let small = (0..31).map(|src| format!("{src},31,1000,50000000"));
    let rows: Vec<String> = large.chain(small).collect();
    let (_file, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let text = format!("{}{traffic}", SLOW.replace("hosts = 4", "hosts = 32"));
    let set = [("linux.buffer_packets", "10"), ("time_limit", "60s")];
    let (flows, _, counters) = finish(build_with(&text, RENO, &set));
    assert_eq!((flows.len(), opened(&counters)), (62, [31, 29]));
    let small: Vec<_> = flows.iter().filter(|flow| flow.bytes == 1000).collect();
    assert!(small.iter().any(|flow| flow.timeouts == 2), "{small:?}");
    // Of a few the data is lost as well, which takes a loss probe at least.
    let (once, lost): (Vec<&FlowRecord>, Vec<_>) =
        small.into_iter().partition(|flow| flow.retransmitted == flow.timeouts);
    assert!(lost.len() < 8 && lost.iter().all(|flow| flow.retransmitted == flow.timeouts + 1), "{lost:?}");
    for flow in once {
        // Seconds, by the kernel's timers, which are exact to 64 ms there; all the rest takes microseconds.
        let least = u64::from(flow.timeouts) * SEC;
        assert!((least..least + least / 15 + 50 * US).contains(&flow.fct_ps), "{flow:?}");
    }
}

#[test]
fn a_flow_may_stop_before_its_connection_has_opened() {
    let rows = busy();
    let (_file, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let long = long("h0", "h1", "start = \"20ms\"\nstop = \"20001us\"");
    let (flows, _, counters) = finish(build(&format!("{}{traffic}{long}", SLOW.replace("1ms", "30ms")), RENO));
    assert_eq!((flows.len(), opened(&counters)), (9, [8, 1]));
    let flow = flows.iter().find(|flow| flow.traffic == 1).unwrap();
    assert!(flow.bytes == 0 && flow.fct_ps < 500 * US, "{flow:?}");
}

#[test]
fn connections_count_intervals_of_or_acks_from_numbers_of_their_own() {
    // Half of all flows of 8 KiB reach a multiple of 16 KiB, and two thirds of those with a packet that ends no write.
    // Counted from their first byte none would.
    let flows: Vec<String> = (0..400).map(|i| format!("{},{},8192,{}", i % 20, 20 + i / 20, i * 100_000)).collect();
    let (_file, traffic) = trace(&flows.iter().map(String::as_str).collect::<Vec<_>>());
    let network = "network = { kind = \"star\", hosts = 40, host_rate = \"10Gbps\" }\n";
    let told = |interval| {
        let set = [("onramp.enabled", "true"), ("linux.or_ack_gap", "0ns"), ("linux.or_ack_interval", interval)];
        let (_, _, counters) = finish(build_with(&format!("duration = \"40ms\"\n{network}{traffic}"), RENO, &set));
        counters["onramp_stats"]["or_acks"].as_u64().unwrap()
    };
    let [often, seldom] = ["16KiB", "1MiB"].map(told);
    assert!((100..170).contains(&(often - seldom)), "{often}, {seldom}");
}
