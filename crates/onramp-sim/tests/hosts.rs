//! Hosts end to end: windows, go-back-N, timeouts, OR-ACKs, clocks, and what is
//! written down of flows and requests.

mod common;

use common::*;
use onramp_sim::Options;
use onramp_sim::cc::custom::{Custom, Factory};
use onramp_sim::cc::{Ack, Env, Permit};
use onramp_sim::records::{FlowRecord, Sample};
use onramp_sim::scenario::Threshold;
use onramp_sim::units::{NS, Ps, US};
use std::sync::Arc;

const DCQCN: &str = TRANSPORTS[0];

/// A full packet and an ACK on a 100 Gb/s link.
const DATA: Ps = 83_840;
const ACK: Ps = 4_800;

fn run(text: &str, transport: &str, set: &[(&str, &str)]) -> (Vec<FlowRecord>, serde_json::Value) {
    let (flows, _, counters) = finish(build_with(text, transport, set));
    (flows, counters)
}

fn with_trace(network: &str, rows: &[String]) -> (TempFile, String) {
    let (file, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    (file, format!("{network}{traffic}"))
}

#[test]
fn a_window_lets_out_its_bytes_and_no_more() {
    let (_file, text) = with_trace(&star(3), &["h0,h1,1000000,0".into()]);
    // 20 packets, then the ACK of the first: so it goes, 50 times.
    let round = 2 * DATA + 2 * ACK + 4 * US;
    for (window, packets) in [("20KB", 20), ("19001B", 20), ("19KB", 19), ("1B", 1)] {
        let (flows, _) = run(&text, "kind = \"dcqcn\"\nwindow = true", &[("host.max_window", window)]);
        let rounds = 1000u64.div_ceil(packets);
        let last = 1000 - (rounds - 1) * packets;
        assert_eq!(flows[0].fct_ps, rounds * round + (last - 1) * DATA, "{window}");
    }
    // Without "+w" the same setting changes nothing.
    let (flows, _) = run(&text, DCQCN, &[("host.max_window", "20KB")]);
    assert_eq!(flows[0].fct_ps, 999 * DATA + round);
}

#[test]
fn the_window_shrinks_with_the_rate() {
    // All packets are marked, so the rate falls to its minimum, 10 Gb/s, and the
    // window to a tenth: two packets per round trip, fewer than 10 Gb/s.
    let (_file, text) = with_trace(&star(3), &["h0,h2,400000,0".into(), "h1,h2,400000,0".into()]);
    let set = [
        ("host.max_window", "20KB"),
        ("switch.ecn", "[{ rate = \"100Gbps\", kmin = \"0B\", kmax = \"0B\", pmax = 1 }]"),
    ];
    let slow = "kind = \"dcqcn\"\nwindow = true\nmin_rate = \"10Gbps\"\nrate_increase_timer = \"1s\"\nrate_decrease_timer = \"1us\"";
    let (flows, counters) = run(&text, slow, &set);
    assert!(counters["network"]["ecn_marked"].as_u64().unwrap() > 20);
    // At 20 packets a round, 400 packets need 20 rounds (84 us); at 10 Gb/s, 335 us.
    let last = flows.iter().map(|f| f.fct_ps).max().unwrap();
    assert!(last > 200 * US, "{last}");
}

/// 100 Gb/s hosts "a" and "c", 5 and 10 Gb/s hosts "v" and "slow", one lossy switch.
fn lossy_funnel() -> String {
    let link =
        |host: &str, rate: u32| format!("{{ a = \"{host}\", b = \"s\", rate = \"{rate}Gbps\", delay = \"1us\" }}");
    let links = [link("a", 100), link("c", 100), link("v", 5), link("slow", 10)].join(", ");
    format!(
        "duration = \"1ms\"\n[network]\nkind = \"links\"\nhosts = [\"a\", \"c\", \"v\", \"slow\"]\nswitches = [\"s\"]\nlinks = [{links}]\n\
         [switch]\nloss = \"lossy\"\nbuffer = \"40KB\"\necn = []\n"
    )
}

#[test]
fn a_loss_in_the_middle_is_repaired_by_a_nack_and_a_lost_tail_by_the_timeout() {
    // The victim sends 5 Gb/s into 10 Gb/s; a burst from a faster host fills the
    // queue for a moment. The end of the burst is lost as well.
    let (_file, text) = with_trace(&lossy_funnel(), &["v,slow,400000,0".into(), "a,slow,60000,50000".into()]);
    let (flows, counters) = run(&text, UNMOVED, &[("host.rto", "5ms")]);
    assert!(counters["network"]["drops"].as_u64().unwrap() > 0);
    let (victim, burst) = (&flows[0], &flows[1]);
    assert!(victim.retransmitted > 0 && victim.timeouts == 0, "{victim:?}");
    assert!(victim.fct_ps < 2_000 * US, "{victim:?}");
    assert!(burst.timeouts > 0 && burst.fct_ps > 5_000 * US, "{burst:?}");
    // Looked at four times per timeout.
    assert!(burst.fct_ps < u64::from(burst.timeouts) * 2 * 7_000 * US, "{burst:?}");
}

#[test]
fn a_lost_ack_of_the_last_packet_does_not_hang_the_flow() {
    // Answers travel to "slow" through a queue that is kept full by "a".
    let mut rows = vec!["a,slow,3000000,0".to_string(), "v,slow,1000000,0".to_string()];
    rows.extend((0..150).map(|i| format!("slow,c,300,{}", 100_000 + i * 3_000)));
    let (_file, text) = with_trace(&lossy_funnel(), &rows);
    let (flows, counters) = run(&text, UNMOVED, &[("host.rto", "3ms"), ("host.payload", "300B")]);
    assert_eq!(counters["unfinished"]["flows"], 0);
    // Their only packet came at once and was never lost, but its ACK was.
    let hurt: Vec<_> = flows.iter().filter(|f| f.bytes == 300 && f.timeouts > 0).collect();
    assert!(!hurt.is_empty(), "no ACK was lost: the test shows nothing");
    for flow in hurt {
        assert!(flow.receiver_fct_ps < 100 * US && flow.fct_ps > 3_000 * US && flow.retransmitted > 0, "{flow:?}");
    }
}

#[test]
fn a_flow_that_waits_to_send_is_not_timed_out() {
    // On-Ramp holds a flow far longer than the timeout while nothing of it is
    // under way: by the clocks, one of the two paths is very long.
    let (_file, text) = with_trace(&star(2), &["h0,h1,100000,0".into(), "h1,h0,100000,0".into()]);
    let set = [
        ("host.max_window", "20KB"),
        ("host.rto", "40us"),
        ("onramp.enabled", "true"),
        ("onramp.max_pause", "200us"),
        ("clock.sync", "gaussian"),
        ("clock.sigma", "1ms"),
    ];
    let (flows, _) = run(&text, "kind = \"dcqcn\"\nwindow = true", &set);
    assert!(flows.iter().any(|f| f.paused_ps > 400 * US), "nothing was held: the test shows nothing");
    assert!(flows.iter().all(|f| (f.timeouts, f.retransmitted) == (0, 0)), "{flows:?}");
    // 1000 flows share a NIC in turn, so that each waits long for its first packet.
    let rows: Vec<String> = (0..1000).map(|_| "h0,h1,3000,0".into()).collect();
    let (_file, text) = with_trace(&star(2), &rows);
    let (flows, _) = run(&text, DCQCN, &[("host.rto", "40us")]);
    assert_eq!(flows.iter().map(|f| f.timeouts).sum::<u32>(), 0);
}

#[test]
fn separate_or_acks_are_one_for_n_packets_and_take_their_bandwidth() {
    // A second flow is on other links.
    let (_file, text) = with_trace(&star(4), &["h0,h1,1000000,0".into(), "h2,h3,1000,150000".into()]);
    for (every, expected) in [("1", 1000), ("7", 143), ("10", 100), ("5000", 1)] {
        let set = [
            ("onramp.enabled", "true"),
            ("onramp.ack", "separate"),
            ("onramp.ack_every", every),
            ("onramp.threshold", "1ms"),
        ];
        let (_, counters) = run(&text, DCQCN, &set);
        // And one for the other flow.
        assert_eq!(counters["onramp_stats"]["or_acks"], expected + 1, "every {every}");
        let seconds = counters["engine"]["simulated_us"].as_f64().unwrap() / 1e6;
        let bytes = counters["network"]["utilization"]["h1->s0"].as_f64().unwrap() * 100e9 * seconds / 8.0;
        assert_eq!(bytes.round() as u64, 1000 * 60 + expected * 78, "every {every}");
    }
    let (_, counters) = run(&text, DCQCN, &[("onramp.enabled", "true"), ("onramp.ack_every", "1")]);
    assert_eq!(counters["onramp_stats"]["or_acks"], 1001, "one on each ACK");
    let (_, counters) = run(&text, DCQCN, &[("onramp.enabled", "true")]);
    assert_eq!(counters["onramp_stats"]["or_acks"], 101, "one on every tenth, and for the last packets");
    let (_, counters) = run(&text, DCQCN, &[("onramp.enabled", "true"), ("onramp.ack_every", "7")]);
    assert_eq!(counters["onramp_stats"]["or_acks"], 143 + 1, "one on each seventh ACK and on a flow's last");
}

#[test]
fn or_acks_travel_with_the_data_wherever_acks_travel() {
    // Towards h0 the queue is long; h0 sends a small flow of its own.
    let rows = ["h2,h0,1000000,0".into(), "h3,h0,1000000,0".into(), "h0,h1,20000,50000".into()];
    let (_file, text) = with_trace(&star(4), &rows);
    let set = [
        ("onramp.enabled", "true"),
        ("onramp.ack", "separate"),
        ("onramp.threshold", "1ms"),
        ("switch.ack_class", "control"),
        ("switch.ecn", "[]"),
    ];
    let mut sim = build_with(&text, DCQCN, &set);
    let before = |sim: &onramp_sim::Simulation| common::counters(sim)["onramp_stats"]["or_acks"].as_u64().unwrap();
    sim.run(50 * US, u64::MAX);
    let others = before(&sim);
    sim.run(60 * US, u64::MAX);
    // h2 and h3 get one for each packet h0 takes in; h0 got its ACKs, not its OR-ACKs.
    assert_eq!(sim.flows_finished(), 1);
    let most = 10 * US / DATA + 2;
    assert!(before(&sim) - others <= most, "{} more than {most}", before(&sim) - others);
}

#[test]
fn onramp_holds_the_same_with_separate_or_acks() {
    let text =
        format!("{}[[traffic]]\nkind = \"long\"\nsrc = [\"h0\", \"h1\", \"h2\", \"h3\"]\ndst = \"h4\"\n", star(5));
    for transport in [TRANSPORTS[2], "kind = \"hpcc\"\nwindow = false\neta = 1.0"] {
        for (ack, every) in [("transport", "1"), ("transport", "10"), ("separate", "1"), ("separate", "10")] {
            let set = [
                ("onramp.enabled", "true"),
                ("onramp.threshold", "20us"),
                ("onramp.ack", ack),
                ("onramp.ack_every", every),
                ("duration", "4ms"),
            ];
            let (_, counters) = run(&text, transport, &set);
            let median = counters["onramp_stats"]["owd_us"]["p50"].as_f64().unwrap();
            let used = counters["network"]["utilization"]["s0->h4"].as_f64().unwrap();
            assert!(median < 40.0 && used > 0.8, "{transport} {ack} {every}: median {median} us, used {used}");
        }
    }
}

#[test]
fn onramp_holds_the_same_with_kept_pauses() {
    let text =
        format!("{}[[traffic]]\nkind = \"long\"\nsrc = [\"h0\", \"h1\", \"h2\", \"h3\"]\ndst = \"h4\"\n", star(5));
    let paused = |keep| {
        let set = [
            ("onramp.enabled", "true"),
            ("onramp.threshold", "20us"),
            ("onramp.keep_pause", keep),
            ("duration", "4ms"),
        ];
        let (_, counters) = run(&text, TRANSPORTS[2], &set);
        let median = counters["onramp_stats"]["owd_us"]["p50"].as_f64().unwrap();
        let used = counters["network"]["utilization"]["s0->h4"].as_f64().unwrap();
        assert!(median < 40.0 && used > 0.8, "median {median} us, used {used}");
        counters["onramp_stats"]["pauses"].as_u64().unwrap()
    };
    assert_ne!(paused("true"), paused("false"), "the key has no effect");
}

#[test]
fn a_new_flow_starts_from_what_its_path_knows() {
    // Two flows fill the queue before h2; then a small one follows on a known path.
    let rows = ["h0,h2,400000,0".into(), "h1,h2,400000,0".into(), "h0,h2,1000,30000".into()];
    let (_file, text) = with_trace(&star(3), &rows);
    let set = |start| {
        [
            ("onramp.enabled", "true"),
            ("onramp.threshold", "5us"),
            ("switch.ecn", "[]"),
            ("onramp.start_from_path", start),
        ]
    };
    let paused = |start| run(&text, DCQCN, &set(start)).0[2].paused_ps;
    assert!(paused("true") > US);
    assert_eq!(paused("false"), 0);
}

fn owd_samples(set: &[(&str, &str)]) -> Vec<Vec<Sample>> {
    let rows: Vec<String> = ["h0,h1", "h1,h0", "h1,h2", "h0,h2"].iter().map(|p| format!("{p},30000,0")).collect();
    let (_file, text) = with_trace(&star(3), &rows);
    let mut all = vec![("measure.owd", "[\"h0->h1\", \"h1->h0\", \"h1->h2\", \"h0->h2\"]")];
    all.extend(set);
    let mut sim = build_with(&text, UNMOVED, &all);
    sim.run_to_end();
    let samples = sim.take_samples();
    (0..4).map(|i| samples.iter().filter(|s| s.series == i).copied().collect()).collect()
}

#[test]
fn clock_offsets_shift_every_delay_by_their_difference() {
    let perfect = owd_samples(&[]);
    for seed in ["1", "2", "3"] {
        let shifted = owd_samples(&[("clock.sync", "gaussian"), ("clock.sigma", "50us"), ("seed", seed)]);
        let shifts: Vec<f64> = perfect
            .iter()
            .zip(&shifted)
            .map(|(a, b)| {
                assert_eq!((a.len(), b.len()), (30, 30));
                let first = b[0].value - a[0].value;
                assert!(a.iter().zip(b).all(|(a, b)| a.time_ps == b.time_ps && b.value - a.value == first));
                first
            })
            .collect();
        assert!(shifts[0] != 0.0 && shifts[0] == -shifts[1], "{shifts:?}");
        // h0 to h1 and h1 to h2 are h0 to h2.
        assert_eq!(shifts[0] + shifts[2], shifts[3], "{shifts:?}");
        assert!(shifts.iter().any(|s| s.abs() > 5_000.0), "{shifts:?}");
    }
    // An empty path: two packets' time and two delays, in whole nanoseconds.
    let least = perfect.iter().flatten().map(|s| s.value).fold(f64::MAX, f64::min);
    assert!((2_167.0..=2_168.0).contains(&least), "{least}");
}

#[test]
fn a_long_flow_starts_and_stops_on_time() {
    let text = format!(
        "{}[[traffic]]\nkind = \"long\"\nsrc = [\"h0\"]\ndst = \"h1\"\nstart = \"100us\"\nstop = \"300us\"\njitter = \"0us\"\n",
        star(2)
    );
    let (flows, counters) = run(&text, DCQCN, &[]);
    // Packets that start before the stop, at line rate.
    let packets = (200 * US).div_ceil(DATA);
    assert_eq!((flows[0].start_ps, flows[0].bytes), (100 * US, packets * 1000));
    assert_eq!(flows[0].receiver_fct_ps, (packets + 1) * DATA + 2 * US);
    assert_eq!(flows[0].fct_ps, (packets + 1) * DATA + 4 * US + 2 * ACK);
    assert_eq!(counters["unfinished"]["flows"], 0);
    // Under On-Ramp and with losses the books close as well.
    for transport in TRANSPORTS {
        let two = text.replace("[\"h0\"]", "[\"h0\", \"h2\"]").replace("hosts = 2", "hosts = 3");
        let set =
            [("onramp.enabled", "true"), ("switch.loss", "lossy"), ("switch.buffer", "60KB"), ("host.rto", "200us")];
        let (flows, counters) = run(&two, transport, &set);
        assert_eq!((flows.len(), &counters["unfinished"]["flows"]), (2, &0.into()), "{transport}");
        let link = 100_000_000_000 / 8 * 200 / 1_000_000;
        let sum: u64 = flows.iter().map(|f| f.bytes).sum();
        assert!(sum > link / 4 && sum < 2 * link, "{transport}: {sum} B");
    }
}

#[test]
fn a_request_is_complete_with_its_last_flow() {
    let file = TempFile::new(
        "src,dst,bytes,start_ns,request\nh0,h3,5000,1000,7\nh1,h3,50000,2000,7\nh0,h2,1000,2500,\nh2,h3,1000,3000,7\nh2,h1,1000,4000,8\n",
    );
    let text = format!("{}[[traffic]]\nkind = \"trace\"\nfile = \"{}\"\n", star(4), file.0.display());
    let (flows, requests, _) = finish(build(&text, DCQCN));
    assert_eq!((flows.len(), requests.len()), (5, 2));
    let request = requests.iter().find(|r| r.flows == 3).unwrap();
    let of: Vec<_> = flows.iter().filter(|f| f.request == Some(request.id)).collect();
    assert_eq!((of.len(), request.bytes, request.requester, request.start_ps), (3, 56_000, 3, US));
    assert_eq!(request.start_ps + request.rct_ps, of.iter().map(|f| f.start_ps + f.fct_ps).max().unwrap());
    assert_eq!(
        request.start_ps + request.receiver_rct_ps,
        of.iter().map(|f| f.start_ps + f.receiver_fct_ps).max().unwrap()
    );
    assert!(flows.iter().any(|f| f.request.is_none()));
}

#[test]
fn an_incast_request_takes_as_long_as_its_bytes_on_the_last_link() {
    let incast = "[[traffic]]\nkind = \"incast\"\nfan_out = 8\nsize = \"2KB\"\nload = 0.001\n";
    let (flows, requests, _) = finish(build(&format!("{}{incast}", star(9)).replace("1ms", "50ms"), DCQCN));
    assert!(requests.len() > 10);
    assert_eq!(flows.len(), requests.len() * 8);
    // 16 packets one after another on the requester's link; at this load
    // requests hardly ever meet.
    let alone = DATA + 2 * US + 16 * DATA;
    let exact = requests.iter().filter(|r| r.receiver_rct_ps == alone).count();
    assert!(exact * 10 >= requests.len() * 9, "{exact} of {}", requests.len());
    assert!(requests.iter().all(|r| r.receiver_rct_ps >= alone && r.flows == 8 && r.bytes == 16_000));
}

#[test]
fn the_time_limit_ends_a_run_and_what_is_unfinished_is_counted() {
    let file =
        TempFile::new("src,dst,bytes,start_ns,request\nh0,h1,1000,0,1\nh0,h1,100000000,0,2\nh2,h1,100000000,0,2\n");
    let text = format!("{}[[traffic]]\nkind = \"trace\"\nfile = \"{}\"\n", star(3), file.0.display());
    let mut sim = build_with(&text, DCQCN, &[("time_limit", "1ms")]);
    sim.run_to_end();
    assert_eq!(sim.now(), 1_000 * US);
    let counters = common::counters(&sim);
    assert_eq!((&counters["unfinished"]["flows"], &counters["unfinished"]["requests"]), (&2.into(), &1.into()));
    assert_eq!(sim.take_flows().len(), 1);
    assert_eq!(sim.unfinished_flows().len(), 2);
}

#[test]
fn utilization_exceeds_the_link_by_no_more_than_the_packet_being_sent() {
    let (_file, text) = with_trace(&star(3), &["h0,h2,2000000,0".into(), "h1,h2,2000000,0".into()]);
    for limit in [1_000_050, 3_333_333, 100_000_000] {
        let mut sim =
            build_with(&text, UNMOVED, &[("measure.interval", "500ns"), ("measure.links", "[\"h0->s0\", \"s0->h2\"]")]);
        sim.run(limit, u64::MAX);
        let most = |time: Ps| 1.0 + DATA as f64 / time as f64;
        let counters = common::counters(&sim);
        for used in counters["network"]["utilization"].as_object().unwrap().values() {
            assert!(used.as_f64().unwrap() <= most(limit), "at {limit} ps: {used}");
        }
        assert!(sim.take_samples().iter().all(|s| s.value <= most(US / 2)), "a sample until {limit} ps");
    }
}

#[test]
fn with_large_packets_t_is_above_the_empty_paths_delay() {
    let network = "duration = \"1ms\"\nnetwork = { kind = \"star\", hosts = 3, host_rate = \"10Gbps\" }\n";
    let (_file, text) = with_trace(network, &["h0,h1,900000,0".into()]);
    let least = 2 * 9_048 * 800 + 2 * US;
    let set = [("host.payload", "9000B"), ("onramp.enabled", "true"), ("onramp.ack_every", "1")];
    let whole = format!("{text}[transport]\n{DCQCN}\n");
    let overrides = set.map(|(k, v)| (k.to_string(), v.to_string()));
    let (scenario, _) = onramp_sim::Scenario::load(&whole, "s.toml", std::path::Path::new("/"), &overrides).unwrap();
    let Some(Threshold::Fixed(t)) = scenario.onramp.threshold else { panic!("T is a time") };
    assert_eq!(t.0, least.div_ceil(US) * US + 10 * US);
    // So does the base RTT: two delays of 1 us each way and two packets, 18.4 us.
    assert_eq!(scenario.host.max_window.unwrap().0, 23_000);
    let (flows, counters) = run(&text, DCQCN, &set);
    assert_eq!(flows[0].paused_ps, 0, "held on an empty network");
    assert!(counters["onramp_stats"]["or_acks"].as_u64().unwrap() == 100);
    assert_eq!(flows[0].ideal_ps, 18_400_000 + 100 * 9_048 * 800);
}

#[test]
fn or_acks_take_turns_with_the_flows_of_their_nic() {
    // h1 has 20 flows of its own, and owes h0 an OR-ACK for every packet it gets.
    let mut rows: Vec<String> = (2..22).map(|i| format!("h1,h{i},1000000,0")).collect();
    rows.push("h0,h1,1000000,0".into());
    let (_file, text) = with_trace(&star(22), &rows);
    let set = [
        ("onramp.enabled", "true"),
        ("onramp.ack", "separate"),
        ("onramp.ack_every", "1"),
        ("onramp.threshold", "1ms"),
        ("switch.ecn", "[]"),
    ];
    let mut sim = build_with(&text, UNMOVED, &set);
    sim.run(80 * US, u64::MAX);
    let all = common::counters(&sim)["onramp_stats"]["or_acks"].as_u64().unwrap();
    // h1 sends some 850 packets, whose OR-ACKs come from hosts that are idle. Of those it
    // owes, one goes in 21 turns; if they went before its flows, all of 850 would.
    let own = 80 * US / DATA;
    assert!((own * 3 / 4..own).contains(&all), "{all} OR-ACKs, {own} packets");
    // Not starved either.
    let (flows, _) = run(&text, UNMOVED, &set);
    assert_eq!(flows.len(), 21);
}

#[test]
fn negative_delays_count_as_negative() {
    let rows: Vec<String> = ["h0,h1", "h1,h0"].iter().map(|p| format!("{p},1000000,0")).collect();
    let (_file, text) = with_trace(&star(2), &rows);
    let set = [
        ("clock.sync", "gaussian"),
        ("clock.sigma", "100us"),
        ("measure.owd", "[\"h0->h1\", \"h1->h0\"]"),
        ("onramp.enabled", "true"),
    ];
    let mut sim = build_with(&text, UNMOVED, &set);
    sim.run_to_end();
    let mut all: Vec<f64> = sim.take_samples().iter().map(|s| s.value / 1000.0).collect();
    all.sort_by(f64::total_cmp);
    let owd = common::counters(&sim)["onramp_stats"]["owd_us"].clone();
    let close = |key: &str, expected: f64| {
        let found = owd[key].as_f64().unwrap();
        assert!((found - expected).abs() <= expected.abs() * 0.002 + 0.01, "{key}: {found}, expected {expected}");
    };
    assert!(all[0] < -10.0, "no delay is negative: the test shows nothing");
    assert_eq!(owd["samples"], 2000);
    close("mean", all.iter().sum::<f64>() / 2000.0);
    close("p50", all[999]);
    close("p99", all[1979]);
    close("max", all[1999]);
}

#[test]
fn long_flows_start_a_jitter_apart() {
    let text = |jitter: &str| {
        let hosts: Vec<String> = (0..8).map(|i| format!("h{i}")).collect();
        format!("{}[[traffic]]\nkind = \"long\"\nsrc = {hosts:?}\ndst = \"h8\"\n{jitter}", star(9))
    };
    let starts = |jitter: &str, seed: &str| {
        let (flows, _) = run(&text(jitter), DCQCN, &[("seed", seed)]);
        let mut starts: Vec<Ps> = flows.iter().map(|f| f.start_ps).collect();
        starts.sort_unstable();
        starts
    };
    let found = starts("", "1");
    // Four delays and two packets of 1000 B.
    let base_rtt = 4 * US + 2 * 80_000;
    assert!(found.windows(2).all(|w| w[0] < w[1]) && found[7] < base_rtt, "{found:?}");
    assert!(found[7] - found[0] > base_rtt / 4, "{found:?}");
    assert_ne!(found, starts("", "2"));
    assert_eq!(starts("jitter = \"0us\"\n", "1"), [0; 8]);
    assert!(starts("jitter = \"500us\"\n", "1")[7] > 100 * US);
    // One that would start after it stops sends nothing, and is no trouble.
    let late = "start = \"10us\"\nstop = \"11us\"\njitter = \"900us\"\n";
    let (_, counters) = run(&text(late), DCQCN, &[]);
    assert_eq!(counters["unfinished"]["flows"], 0);
}

#[test]
fn a_nack_that_did_not_help_is_repeated_after_its_interval() {
    // Three bursts fill the queue, so that what the victim sends again is lost again.
    let mut rows = vec!["v,slow,400000,0".to_string()];
    rows.extend((0..3).map(|i| format!("a,slow,60000,{}", 50_000 + i * 25_000)));
    let (_file, text) = with_trace(&lossy_funnel(), &rows);
    let victim = |interval| {
        let (flows, _) = run(&text, UNMOVED, &[("host.rto", "5ms"), ("host.nack_interval", interval)]);
        (flows[0].receiver_fct_ps, flows[0].timeouts)
    };
    let [soon, later, never] = ["100us", "500us", "5ms"].map(victim);
    assert!((soon.1, later.1) == (0, 0) && soon.0 + 200 * US < later.0, "{soon:?} with 100 us, {later:?} with 500 us");
    assert!(never.1 > 0 && never.0 > 5_000 * US, "{never:?} with 5 ms: the timeout comes first");
}

#[test]
fn flows_that_start_late_in_a_file_run_however_short_the_duration() {
    // As HPCC's traffic generator writes them: from 2 s on, in seconds.
    let file = TempFile::new("2\n0 1 3 100 50000 2.000001000\n2 1 3 100 5000 2.500000000\n");
    let trace = format!("[[traffic]]\nkind = \"trace\"\nformat = \"hpcc\"\nfile = \"{}\"\n", file.0.display());
    for duration in ["100us", "1ms", "10ms"] {
        let text = format!("{}{trace}", star(3).replace("1ms", duration));
        let (flows, counters) = run(&text, DCQCN, &[]);
        assert_eq!(counters["unfinished"]["flows"], 0);
        assert_eq!(
            flows.iter().map(|f| (f.src, f.dst, f.bytes, f.start_ps)).collect::<Vec<_>>(),
            [(0, 1, 50_000, 2_000_001 * US), (2, 1, 5_000, 2_500_000 * US)],
            "{duration}"
        );
    }
    // A limit that is given counts.
    let (flows, _) = run(&format!("{}{trace}", star(3)), DCQCN, &[("time_limit", "2200ms")]);
    assert_eq!(flows.len(), 1);
}

/// A controller from outside that never moves.
#[derive(Debug)]
struct Still(Permit);

impl Custom for Still {
    fn on_ack(&mut self, _: &Env, _: &Ack<'_>) {}

    fn permit(&mut self, _: &Env, _: Ps) -> Permit {
        self.0
    }
}

#[test]
fn a_controller_from_outside_limits_window_and_rate() {
    let factory: Factory = |keys| {
        let key = |key: &str| keys.get(key).and_then(toml::Value::as_float).ok_or(format!("{key} is missing"));
        let permit = Permit { window: key("packets")? as u64 * 1000, rate: key("gbps")? * 1e9 };
        Ok(Arc::new(move |_| Box::new(Still(permit))))
    };
    let options = Options { controllers: [("still".to_string(), factory)].into(), ..Options::default() };
    let (_file, text) = with_trace(&star(2), &["h0,h1,20000,1000".into()]);
    let fct = |packets: f64, gbps: f64| {
        let transport = format!("kind = \"custom\"\nname = \"still\"\npackets = {packets:?}\ngbps = {gbps:?}");
        let (flows, _, _) = finish(build_as(&options, &text, &transport, &[("time_limit", "2ms")]));
        flows.first().map(|flow| flow.fct_ps)
    };
    let round = 2 * DATA + 2 * ACK + 4 * US;
    assert_eq!(fct(20.0, f64::INFINITY), Some(19 * DATA + round));
    assert_eq!(fct(20.0, 10.0), Some(19 * 10 * DATA + round));
    assert_eq!(fct(1.0, f64::INFINITY), Some(20 * round));
    // At rate 0 nothing follows the first packet.
    assert_eq!(fct(20.0, 0.0), None);
}

/// Times at which packets of a long flow reach its receiver, from `from` on, in nanoseconds.
fn gaps(transport: &str, set: &[(&str, &str)], from: Ps) -> Vec<Ps> {
    let text = format!("{}{}", star(3).replace("1ms", "400us"), long("h1", "h0", ""));
    let set = [&[("measure.owd", "[\"h1->h0\"]"), ("network.link_delay", "10us")], set].concat();
    let mut sim = build_with(&text, transport, &set);
    sim.run_to_end();
    let samples = series(&mut sim, &["owd h1->h0"]).remove(0);
    let times: Vec<Ps> = samples.iter().map(|s| s.time_ps).filter(|at| *at >= from).collect();
    times.windows(2).map(|w| w[1] - w[0]).collect()
}

#[test]
fn pacing_spreads_a_window_over_a_round_trip() {
    // Ten packets and a round trip of 40 µs and a little: 4 µs apart, or three at once and 12 µs apart.
    let window = ("host.max_window", "10000B");
    let apart = |set: &[(&str, &str)]| {
        let gaps = gaps("kind = \"dctcp\"", &[&[window], set].concat(), 150 * US);
        assert!(gaps.len() > 30, "{gaps:?}");
        gaps
    };
    let close = |gap: Ps| gap < 200 * NS;
    let even = |gap: Ps| (3_900 * NS..4_300 * NS).contains(&gap);
    let none = apart(&[]);
    assert!(none.iter().filter(|gap| close(**gap)).count() * 10 >= none.len() * 8, "{none:?}");
    for pacing in ["packet", "egress"] {
        let paced = apart(&[("host.pacing", pacing)]);
        assert!(paced.iter().all(|gap| even(*gap)), "{pacing} {paced:?}");
    }
    let bursts = apart(&[("host.pacing", "burst"), ("host.max_burst", "3KB")]);
    let long: Vec<Ps> = bursts.iter().copied().filter(|gap| !close(*gap)).collect();
    assert!(long.iter().all(|gap| (11_000 * NS..13_000 * NS).contains(gap)), "{bursts:?}");
    // Ten are three, three, three and one.
    assert!(long.len() * 10 <= bursts.len() * 4 + 20, "{bursts:?}");
}
