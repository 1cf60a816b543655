//! Ultra Ethernet: packet trimming, reliable unordered delivery, NSCC and RCCC on whole networks.

mod common;

use common::*;
use onramp_sim::units::US;

/// As htsim has it: 4150 B packets with 64 B of headers, headers and replies in the control class.
const UEC: &str = "[host]\npayload = \"4086B\"\n[switch]\nloss = \"lossy\"\ntrim = \"64B\"\nack_class = \"control\"\n";
const NSCC: &str = "kind = \"nscc\"";
const RCCC: &str = "kind = \"rccc\"";
const BOTH: &str = "kind = \"nscc\"\ncredit = {}";

/// Time of `bytes` on a link of 100 Gb/s [us].
fn wire_us(bytes: u64) -> f64 {
    (bytes + 64 * bytes.div_ceil(4086)) as f64 * 8.0 / 100_000.0
}

/// Flows of `bytes` to host 0, one from each other host of a star.
fn incast(senders: u32, bytes: u64) -> (TempFile, String) {
    let rows: Vec<String> = (1..=senders).map(|src| format!("h{src},h0,{bytes},0")).collect();
    let (file, flows) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    (file, format!("{}{UEC}{flows}", star(senders + 1)))
}

#[test]
fn nothing_is_lost_where_packets_are_trimmed_and_the_receivers_link_is_never_idle() {
    for (senders, transport) in [2, 8, 15, 40].into_iter().flat_map(|n| [(n, NSCC), (n, RCCC), (n, BOTH)]) {
        let bytes = 1_000_000;
        let (_file, text) = incast(senders, bytes);
        let (flows, _, counters) = finish(build(&text, transport));
        let network = &counters["network"];
        let trims = network["trims"].as_u64().unwrap();
        let again: u64 = flows.iter().map(|flow| u64::from(flow.retransmitted)).sum();
        assert_eq!((network["drops"].as_u64(), network["timeouts"].as_u64()), (Some(0), Some(0)), "{senders}");
        // Each trimmed packet is retransmitted once.
        assert_eq!(trims, again, "{senders}");
        assert!(senders < 8 || trims > 0, "{senders}");
        let tail = flows.iter().map(|flow| flow.fct_ps).max().unwrap() as f64 / US as f64;
        // All bytes over the receiver's link, and a round trip; of headers each trimmed packet's and the ACKs'.
        let least = f64::from(senders) * wire_us(bytes);
        assert!(tail > least && tail < least * 1.06 + 10.0, "{senders}: {tail} us, at least {least} us");
    }
}

#[test]
fn without_trimming_what_a_queue_has_no_room_for_is_lost_and_times_out() {
    let (_file, text) = incast(8, 1_000_000);
    let text = text.replace("trim = \"64B\"\n", "queue = [{ rate = \"100Gbps\", bytes = \"60KB\" }]\n");
    for transport in [NSCC, RCCC, BOTH] {
        let (flows, _, counters) = finish(build(&text, transport));
        assert!(counters["network"]["trims"].is_null());
        let network = &counters["network"];
        assert!(network["drops"].as_u64().unwrap() > 0 && network["timeouts"].as_u64().unwrap() > 0, "{network}");
        assert!(flows.len() == 8 && flows.iter().all(|flow| flow.fct_ps > 0), "all end");
    }
}

#[test]
fn a_trimmed_packet_is_back_within_two_round_trips_and_a_dropped_one_after_its_timeout() {
    // Two hosts send one packet each at the same time, and there is room for none beside the packet that is being sent
    // and one more: the third is cut.
    let rows = ["h1,h0,4086,0", "h2,h0,4086,0", "h3,h0,4086,0"];
    let (_file, flows) = trace(&rows);
    let queue = "queue = [{ rate = \"100Gbps\", bytes = \"4150B\" }]\n";
    let text = format!("{}{UEC}{queue}{flows}", star(4));
    let tail = |text: &str| {
        let (flows, _, counters) = finish(build(text, NSCC));
        let tail = flows.iter().max_by_key(|flow| flow.fct_ps).unwrap();
        (tail.fct_ps as f64 / US as f64, tail.retransmitted, tail.timeouts, counters["network"]["trims"].as_u64())
    };
    let (trimmed, again, timeouts, trims) = tail(&text);
    assert_eq!((again, timeouts, trims), (1, 0, Some(1)));
    // 332 ns to send a packet, 5.12 ns a header, 1 us a link. The header reaches the receiver 2 us, two packets' times
    // (it waits for the one being sent) and its own after the start; the NACK is back after 2 us and two headers'
    // times; the retransmission then takes as long as on an empty network.
    let header = 0.005_12;
    let expected = (2.0 + 2.0 * 0.332 + header) + (2.0 + 2.0 * header) + (2.0 + 2.0 * 0.332) + (2.0 + 2.0 * header);
    assert!((trimmed - expected).abs() < 0.01, "{trimmed} us, expected {expected} us");
    let (dropped, again, timeouts, trims) = tail(&text.replace("trim = \"64B\"\n", ""));
    assert_eq!((again, timeouts, trims), (1, 1, None));
    assert!((dropped - (100.0 + 4.0 + 2.0 * 0.332)).abs() < 0.1, "{dropped} us");
}

#[test]
fn flows_that_share_a_link_get_the_same_of_it() {
    let (_file, text) = incast(8, 4_000_000);
    for (transport, least) in [(NSCC, 0.97), (RCCC, 0.9999), (BOTH, 0.9999)] {
        let (flows, ..) = finish(build(&text, transport));
        let rates: Vec<f64> = flows.iter().map(|flow| flow.bytes as f64 / flow.fct_ps as f64).collect();
        let (sum, squares) = rates.iter().fold((0.0, 0.0), |(a, b), rate| (a + rate, b + rate * rate));
        let jain = sum * sum / (rates.len() as f64 * squares);
        assert!(jain > least, "Jain's index {jain}: {rates:?}");
    }
}

/// A permutation over two spines of as much as its leaves.
fn permutation(entropy: &str) -> (TempFile, String) {
    let rows: Vec<String> = (0..16).map(|src| format!("h{src},h{},2000000,0", (src + 5) % 16)).collect();
    let (file, flows) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let network = "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 4\nspines = 4\nhosts_per_leaf = 4\n\
                   fabric_rate = \"100Gbps\"\n";
    let uec = UEC.replace("[host]\n", &format!("[host]\nentropy = {{ kind = \"{entropy}\" }}\n"));
    (file, format!("{network}{uec}{flows}"))
}

#[test]
fn sprayed_packets_use_all_paths_and_overtaken_ones_are_not_retransmitted() {
    for transport in [NSCC, RCCC, BOTH] {
        let tail = |entropy| {
            let (_file, text) = permutation(entropy);
            let (flows, _, counters) = finish(build(&text, transport));
            let again: u64 = flows.iter().map(|flow| u64::from(flow.retransmitted)).sum();
            assert_eq!(again, counters["network"]["trims"].as_u64().unwrap(), "{entropy}");
            flows.iter().map(|flow| flow.fct_ps).max().unwrap() as f64 / US as f64
        };
        let (flow, spray, reps) = (tail("flow"), tail("spray"), tail("reps"));
        let ideal = wire_us(2_000_000) + 8.0;
        assert!(spray < 1.3 * ideal && reps <= spray && flow > 1.8 * ideal, "{flow}, {spray}, {reps} us of {ideal}");
    }
}

#[test]
fn on_ramp_holds_sprayed_flows_by_the_delays_of_all_their_packets() {
    let (_file, text) = incast(15, 1_000_000);
    for transport in [NSCC, RCCC] {
        let run = |onramp: &str| {
            let (flows, _, counters) = finish(build(&format!("{text}{onramp}"), transport));
            let tail = flows.iter().map(|flow| flow.fct_ps).max().unwrap() as f64 / US as f64;
            let (trims, pauses) = (&counters["network"]["trims"], &counters["onramp_stats"]["pauses"]);
            (tail, trims.as_u64().unwrap(), pauses.as_u64().unwrap())
        };
        let (alone, held) = (run(""), run("[onramp]\nthreshold = \"4us\"\n"));
        assert!(held.2 > 0 && held.1 <= alone.1, "{alone:?} {held:?}");
        assert!(held.0 < 1.1 * alone.0, "{alone:?} {held:?}");
    }
}

#[test]
fn trimming_in_several_cells_is_trimming_in_one() {
    let (_file, text) = permutation("reps");
    let text = text.replace("spines = 4", "spines = 1");
    for transport in [NSCC, RCCC, BOTH] {
        let run = |one_cell| {
            let options = onramp_sim::Options { one_cell, ..Default::default() };
            let mut sim = build_as(&options, &text, transport, &[]);
            assert_eq!(sim.cells() == 1, one_cell);
            sim.set_threads(if one_cell { 1 } else { 2 });
            let (flows, _, counters) = finish(sim);
            assert!(counters["network"]["trims"].as_u64().unwrap() > 0);
            flows
        };
        assert_eq!(run(true), run(false), "{transport}");
    }
}

#[test]
fn a_receivers_link_carries_what_it_grants_however_many_send() {
    // What is sent unasked is trimmed once; after that nothing is, for no more comes than the link carries.
    for senders in [15, 40] {
        let trims = |bytes| {
            let (_file, text) = incast(senders, bytes);
            finish(build(&text, RCCC)).2["network"]["trims"].as_u64().unwrap()
        };
        let (short, long) = (trims(1_000_000), trims(4_000_000));
        assert!(short > 0 && long <= short + u64::from(senders), "{senders}: {short}, {long}");
    }
}

#[test]
fn messages_of_a_connection_find_credit_that_was_granted_beforehand() {
    let text = format!(
        "duration = \"2ms\"\n[network]\nkind = \"racks\"\nspines = 2\nfabric_rate = \"100Gbps\"\n\
         racks = [[{{ role = \"client\", hosts = 1, rate = \"100Gbps\" }}, \
         {{ role = \"server\", hosts = 1, rate = \"100Gbps\" }}]]\n{UEC}\
         [[traffic]]\nkind = \"rpc\"\nfrom = [\"client\"]\nto = [\"server\"]\nrequest = \"40KB\"\nresponse = \"1KB\"\n\
         depth = 1\nservice = \"20us\"\n"
    );
    let latencies = |transport| {
        let mut sim = build(&text, transport);
        sim.run_to_end();
        sim.take_exchanges().iter().map(|exchange| exchange.latency_ps as f64 / US as f64).collect::<Vec<_>>()
    };
    let (nscc, rccc) = (latencies(NSCC), latencies(RCCC));
    assert!(nscc.len() > 50 && rccc.len() == nscc.len(), "{} {}", nscc.len(), rccc.len());
    // Packets of credit take 5 ns each.
    assert!(nscc.iter().zip(&rccc).all(|(nscc, rccc)| rccc - nscc < 0.1), "{nscc:?} {rccc:?}");
}

#[test]
fn credit_needs_reliable_unordered_delivery() {
    let text = format!(
        "{}{UEC}{}\n[transport]\n{RCCC}\n",
        star(2),
        "[[traffic]]\nkind = \"incast\"\nfan_out = 1\nsize = \"1KB\"\nload = 0.1"
    );
    let set = [("host.recovery".to_string(), "{ kind = \"go-back-n\" }".to_string())];
    let wrong = onramp_sim::Scenario::load(&text, "test", std::path::Path::new("/"), &set).unwrap_err();
    assert!(wrong[0].to_string().contains("host.recovery: must be { kind = \"rud\" } where receivers"), "{}", wrong[0]);
}
