//! Links that fail in the middle of a run, and links with bit errors.

mod common;

use common::*;
use onramp_sim::records::FlowRecord;
use onramp_sim::units::US;
use onramp_sim::{Options, Simulation};

/// Two leaves with two hosts each, and two spines; a flow of 1 MB from each host of the first to the second.
fn network(faults: &str, more: &str) -> (String, TempFile) {
    let flows = TempFile::new("src,dst,bytes,start_ns\n0,2,1000000,0\n1,3,1000000,0\n");
    let text = format!(
        "duration = \"1ms\"\n{more}[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 2\n\
         faults = [{faults}]\n[[traffic]]\nkind = \"trace\"\nfile = \"{}\"\n",
        flows.0.display()
    );
    (text, flows)
}

fn run(mut sim: Simulation) -> (Vec<FlowRecord>, serde_json::Value) {
    sim.run_to_end();
    let counts = sim.packet_counts();
    assert_eq!(counts.sent, counts.delivered + counts.dropped + counts.in_flight, "{counts:?}");
    (sim.take_flows(), counters(&sim))
}

fn links(spine: u32, keys: &str) -> String {
    (0..2).map(|leaf| format!("{{ link = \"leaf{leaf}->spine{spine}\", {keys} }}, ")).collect()
}

#[test]
fn flows_go_on_over_what_is_left_once_switches_know() {
    let longest = |faults: &str| {
        let (text, _flows) = network(faults, "");
        let (flows, counters) = run(build(&text, UNMOVED));
        assert_eq!(flows.len(), 2);
        (flows.iter().map(|flow| flow.fct_ps).max().unwrap(), counters["network"]["drops"].as_u64().unwrap())
    };
    let (well, none) = longest("");
    assert_eq!(none, 0);
    let mut hit = 0;
    for spine in 0..2 {
        let (late, lost) = longest(&links(spine, "start = \"20us\", reroute = \"10us\""));
        // For ten microseconds all is lost; then the first packet by the other spine has the flow go back. Whoever
        // goes by that one anyway notices nothing.
        let detour = if lost > 0 { 10 * US..30 * US } else { 0..1 };
        assert!(detour.contains(&(late - well)), "{late} after {well}, {lost} lost");
        hit += u32::from(lost > 0);
    }
    assert!(hit > 0);
}

#[test]
fn a_switch_that_fails_is_all_of_its_links() {
    let with = |faults: &str| {
        let (text, _flows) = network(faults, "");
        run(build(&text, UNMOVED))
    };
    for spine in 0..2 {
        let keys = "start = \"20us\", reroute = \"10us\", stop = \"60us\"";
        let whole = with(&format!("{{ switches = [\"spine{spine}\"], {keys} }}"));
        assert_eq!(whole, with(&links(spine, keys)));
    }
    // A link that two of the switches share fails once.
    let all = with("{ switches = [\"spine0\", \"spine1\", \"leaf0\"], start = \"20us\", stop = \"60us\" }");
    assert_eq!(all.0.len(), 2);
    assert!(all.1["network"]["drops"].as_u64().unwrap() > 0);
}

#[test]
fn recycled_entropy_finds_the_way_around_a_link_of_which_switches_do_not_know() {
    let done = |entropy: &str, spine| {
        let (text, _flows) = network(&links(spine, "start = \"20us\""), "time_limit = \"3ms\"\n");
        let recovery = "{ kind = \"selective-repeat\", reorder = 64 }";
        let host = format!("[host]\nentropy = {{ kind = \"{entropy}\" }}\nrecovery = {recovery}\n");
        run(build(&format!("{text}{host}"), UNMOVED)).0.len()
    };
    assert_eq!([done("reps", 0), done("reps", 1)], [2, 2]);
    // A flow on one path has no other.
    assert!(done("flow", 0) + done("flow", 1) < 4);
}

#[test]
fn nothing_is_lost_on_links_that_nobody_uses_and_routes_come_back() {
    let faults = links(1, "start = \"0us\", reroute = \"0us\", stop = \"10us\"");
    let (text, _flows) = network(&faults, "");
    let (flows, counters) = run(build(&text, UNMOVED));
    assert_eq!((flows.len(), counters["network"]["drops"].as_u64()), (2, Some(0)));
    // Later flows use both again.
    let (text, _flows) = network(&links(0, "start = \"5ms\""), "");
    assert_eq!(run(build(&text, UNMOVED)).1["network"]["drops"], 0);
}

#[test]
fn bit_errors_lose_as_many_packets_as_they_should() {
    let faults = "{ link = \"h0->leaf0\", bit_error_rate = 1e-6 }";
    let (text, _flows) = network(faults, "");
    let selective = [("host.recovery.kind", "selective-repeat")];
    let (flows, counters) = run(build_with(&text, UNMOVED, &selective));
    assert_eq!(flows.len(), 2);
    // A thousand packets of 1048 B, a hundred and twenty-fifth of which is corrupted; and some acknowledgements.
    let lost = counters["network"]["drops"].as_u64().unwrap();
    assert!((2..25).contains(&lost), "{lost}");
}

#[test]
fn a_files_error_rates_lose_as_many_packets_as_they_should() {
    // Hosts 0 and 3, switches 1 and 2: a hundredth of the packets between the switches is lost, both ways.
    let file = TempFile::new("4 2 3\n1 2\n0 1 100Gbps 1us 0\n1 2 100Gbps 1us 0.01\n2 3 100Gbps 1us 0\n");
    let (_flows, trace) = trace(&["h0,h1,1000000,0"]);
    let text = format!("duration = \"1ms\"\n[network]\nkind = \"hpcc-file\"\nfile = \"{}\"\n{trace}", file.0.display());
    let run = |one_cell| {
        let options = Options { one_cell, ..Options::default() };
        let mut sim = build_as(&options, &text, UNMOVED, &[("host.recovery.kind", "selective-repeat")]);
        sim.run_to_end();
        (sim.take_flows(), counters(&sim))
    };
    let (flows, counters) = run(true);
    assert_eq!(flows.len(), 1);
    // Ten of a thousand packets, and as many acknowledgements.
    let lost = counters["network"]["drops"].as_u64().unwrap();
    assert!((8..40).contains(&lost), "{lost}");
    assert!(run(false) == (flows, counters));
}

#[test]
fn cells_and_threads_change_nothing() {
    let faults = [
        links(0, "start = \"20us\", stop = \"400us\", reroute = \"30us\""),
        "{ link = \"leaf1->spine1\", bit_error_rate = 2e-7 }, ".into(),
    ];
    let load = "[[traffic]]\nkind = \"background\"\nworkload = \"FB_Hadoop\"\nload = 0.5\n";
    let (text, _flows) = network(&faults.concat(), "");
    for transport in ["kind = \"dcqcn\"", "kind = \"cubic\""] {
        let run = |one_cell, threads| {
            let options = Options { one_cell, ..Options::default() };
            let mut sim = build_as(&options, &format!("{text}{load}"), transport, &[]);
            sim.set_threads(threads);
            sim.run_to_end();
            (sim.take_flows(), counters(&sim))
        };
        let alone = run(true, 1);
        assert!(alone.1["network"]["drops"].as_u64() > Some(0));
        assert!(run(false, 1) == alone && run(false, 2) == alone, "{transport}");
    }
}

#[test]
fn wrong_faults_are_told() {
    let wrong = |faults: &str| {
        let (text, _flows) = network(faults, "");
        let text = format!("{text}\n[transport]\nkind = \"dcqcn\"\n");
        onramp_sim::Scenario::load(&text, "f", "/".as_ref(), &[]).unwrap_err()[0].to_string()
    };
    assert!(wrong("{ link = \"leaf0->spine7\" }").contains("spine7"));
    assert!(wrong("{ link = \"leaf0->spine0\", start = \"2ms\", stop = \"1ms\" }").contains("is not after the start"));
    assert!(wrong("{ link = \"leaf0->spine0\", bit_error_rate = 2.0 }").contains("outside above 0 to below 1"));
    assert!(wrong("{ link = \"h0->leaf0\", reroute = \"1us\" }").contains("there is no way"));
    assert!(wrong("{ switches = [\"spine0\", \"spien1\"] }").contains("\"spien1\" is no switch; nodes are "));
    for neither in ["{ start = \"1ms\" }", "{ link = \"leaf0->spine0\", switches = [\"spine0\"] }"] {
        assert!(wrong(neither).contains("network.faults[0].link: is missing: give a link"), "{}", wrong(neither));
    }
    let both = [links(0, "reroute = \"1us\""), links(1, "reroute = \"1us\"")].concat();
    assert!(wrong(&both).contains("while links are down, no path leads"), "{}", wrong(&both));
}
