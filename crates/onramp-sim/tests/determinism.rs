//! The same scenario and seed give the same bytes: twice, and in every build.

mod common;

use common::*;
use onramp_sim::units::Ps;
use onramp_sim::{Options, Simulation};

const QUEUES: (&str, &str) = ("measure.queues", "[\"tor0->h0\", \"core0->agg0\"]");

/// FNV-1a over everything recorded.
fn hash(sim: &mut Simulation) -> u64 {
    sim.run_to_end();
    let clocks = sim.take_clock_records();
    let all =
        format!("{:?}{:?}{:?}{}", sim.take_flows(), sim.take_requests(), sim.take_samples(), common::counters(sim));
    let all = if clocks.is_empty() { all } else { format!("{all}{clocks:?}") };
    all.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

fn digest(transport: &str, onramp: &str) -> String {
    let set = [("onramp.enabled", onramp), ("clock.sync", "gaussian"), ("clock.sigma", "200ns"), QUEUES];
    let hash = hash(&mut build_with(&format!("{SMALL_FAT_TREE}{LOADED}"), transport, &set));
    format!("{:<40} onramp={onramp:<6} {hash:016x}", transport.replace('\n', " "))
}

/// With clocks that run on their own, synchronised by short windows before and by
/// one that ends while flows arrive.
fn synchronised(sync: &str) -> String {
    let mut set = vec![("onramp.enabled", "true"), ("clock.sync", sync), QUEUES];
    set.extend(match sync {
        "ntp" => vec![("clock.lead", "1200s")],
        _ => vec![("clock.lead", "21900us"), ("clock.window", "11ms"), ("clock.probe_interval", "100us")],
    });
    let hash = hash(&mut build_with(&format!("{SMALL_FAT_TREE}{LOADED}"), TRANSPORTS[0], &set));
    format!("{:<40} onramp=true   {hash:016x}", format!("{} sync={sync}", TRANSPORTS[0]))
}

/// `make test` runs this in a debug and in a release build; both compare with
/// the same file. After an intended change of behaviour: `UPDATE=1 cargo test`.
#[test]
fn results_are_the_same_in_every_build() {
    let lines: Vec<String> =
        TRANSPORTS.iter().chain(TCP).flat_map(|t| ["false", "true"].map(|onramp| digest(t, onramp))).collect();
    let lines = [lines, ["huygens", "ntp"].map(synchronised).to_vec()].concat();
    let found = lines.join("\n") + "\n";
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/digests.txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &found).unwrap();
    }
    assert_eq!(found, std::fs::read_to_string(path).unwrap_or_default());
}

#[test]
fn results_are_the_same_twice() {
    assert_eq!(digest(TRANSPORTS[0], "true"), digest(TRANSPORTS[0], "true"));
}

/// Networks that fall apart into cells, and one that does not.
const NETWORKS: &[(&str, &str, usize)] = &[
    ("fat tree", SMALL_FAT_TREE, 3),
    ("leaf-spine", "duration = \"200us\"\nseed = 5\nnetwork = { kind = \"leaf-spine\" }\n", 5),
    // Its racks and spines take turns, on two threads as well.
    ("eight racks", "duration = \"200us\"\nnetwork = { kind = \"leaf-spine\", leaves = 8, hosts_per_leaf = 4 }\n", 11),
    ("star", "duration = \"200us\"\nnetwork = { kind = \"star\", hosts = 24 }\n", 1),
];

#[test]
fn cells_and_threads_change_nothing() {
    let set = [
        ("onramp.enabled", "true"),
        ("clock.sync", "gaussian"),
        ("clock.sigma", "200ns"),
        ("switch.buffer", "3MiB"),
        ("host.rto", "200us"),
        ("warmup", "50us"),
        // Neither a divisor of the time between two looks nor a multiple of a window.
        ("measure.interval", "700ns"),
    ];
    for (name, network, cells) in NETWORKS {
        for (i, transport) in TRANSPORTS.iter().chain(TCP).enumerate() {
            let tcp = TCP.contains(transport);
            // Its timeouts last so long that one network has to do, and for CUBIC another.
            if tcp && *name != "fat tree" && (*name, *transport) != ("eight racks", TCP[1]) {
                continue;
            }
            // Both kinds of loss and of OR-ACK take their turns.
            let loss = if i % 2 == 0 { "pfc" } else { "lossy" };
            let ack = if i % 3 == 0 { "separate" } else { "transport" };
            let mut set = [&set[..], &[("switch.loss", loss), ("onramp.ack", ack)]].concat();
            if tcp {
                let qdisc = ["pfifo", "fq", "fq_codel"][i % 3];
                // Timeouts last: fewer samples.
                set.extend([("linux.buffer_packets", "60"), ("linux.qdisc", qdisc), ("measure.interval", "71300ns")]);
                if i % 2 == 0 {
                    set.push(("onramp.hosts", "[\"h0\", \"h1\", \"h2\", \"h3\", \"h9\"]"));
                }
            }
            let text = format!("{network}{LOADED}");
            let run = |one_cell, threads| {
                // Nor does a timeline.
                let options = Options { one_cell, timeline: threads == 2, ..Options::default() };
                let mut sim = build_as(&options, &text, transport, &set);
                assert_eq!(sim.cells(), if one_cell { 1 } else { *cells }, "{name}");
                sim.set_threads(threads);
                (hash(&mut sim), sim.links())
            };
            let alone = run(true, 1);
            let threads: &[usize] = if tcp { &[2] } else { &[1, 2, 4] };
            for &threads in threads {
                assert_eq!(run(false, threads), alone, "{name}, {transport}, {threads} threads");
            }
        }
    }
}

#[test]
fn pauses_are_the_same_rows_for_any_cells_threads_and_steps() {
    let set = [("warmup", "50us"), ("host.rto", "200us"), ("measure.pauses", "true")];
    for (name, network, cells) in NETWORKS {
        // As little as the ports of a switch leave.
        let buffer = match *name {
            "fat tree" => "800KB",
            "star" => "1600KB",
            _ => "1300KB",
        };
        let set = [&set[..], &[("switch.buffer", buffer)]].concat();
        let run = |one_cell, threads, step| {
            let options = Options { one_cell, ..Options::default() };
            let mut sim = build_as(&options, &format!("{network}{LOADED}"), TRANSPORTS[0], &set);
            assert_eq!(sim.cells(), if one_cell { 1 } else { *cells }, "{name}");
            sim.set_threads(threads);
            let mut pauses = Vec::new();
            loop {
                let over = sim.run(Ps::MAX, step);
                pauses.extend(sim.take_pauses());
                if over {
                    return [pauses, sim.pauses_under_way()].concat();
                }
            }
        };
        let alone = run(true, 1, u64::MAX);
        assert!(alone.len() > 100, "{name}: {}", alone.len());
        for (threads, step) in [(1, u64::MAX), (2, u64::MAX), (1, 30_000), (2, 17_000)] {
            assert!(run(false, threads, step) == alone, "{name}, {threads} threads, steps of {step} events");
        }
    }
}

/// A picture as JSON.
fn picture(one_cell: bool, threads: usize, set: &[(&str, &str)]) -> serde_json::Value {
    let options = Options { one_cell, timeline: true, ..Options::default() };
    let mut sim = build_as(&options, &format!("{SMALL_FAT_TREE}{LOADED}"), TRANSPORTS[0], set);
    sim.set_threads(threads);
    sim.run_to_end();
    let done = sim.take_flows().len() + sim.take_requests().len();
    let picture = serde_json::to_value(sim.picture().unwrap()).unwrap();
    let counts = picture["completions"].as_object().unwrap().values().map(|group| group["count"].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), done as u64, "every flow and request is in it");
    picture
}

#[test]
fn a_picture_hangs_on_neither_cells_nor_threads() {
    let set = [("onramp.enabled", "true"), ("warmup", "50us")];
    assert_eq!(picture(false, 2, &set), picture(true, 1, &set));
}

#[test]
fn a_picture_is_bounded_whatever_the_run() {
    let sizes = ["200us", "1900us"].map(|duration| {
        let picture = picture(false, 1, &[("duration", duration)]);
        let ends: Vec<f64> = serde_json::from_value(picture["end_us"].clone()).unwrap();
        assert!(ends.len() < 1000 && ends.is_sorted(), "{} frames", ends.len());
        assert!(picture["rows"].as_array().unwrap().len() < 100);
        ends.len()
    });
    assert!(sizes.iter().all(|frames| *frames > 300), "{sizes:?}");
}

/// Hosts that need time for what comes, windows that are paced, what is recorded of packets, and RDMA beside TCP.
#[test]
fn cells_and_threads_change_nothing_where_hosts_take_time_and_pace_and_tcp_is_beside_rdma() {
    let swift = ("kind = \"swift\"", LOADED);
    let cases = [
        (swift, "packet", "true"),
        (swift, "burst", "false"),
        (swift, "egress", "true"),
        ((TCP[1], &*loaded_beside("swift")), "burst", "true"),
        ((TCP[0], LOADED), "egress", "false"),
    ];
    for ((transport, traffic), pacing, onramp) in cases {
        let set = [
            ("onramp.enabled", onramp),
            ("onramp.stamped_at", "stack"),
            ("measure.rtt", "true"),
            ("measure.order", "[\"tor0->h0\", \"core0->agg0\"]"),
            ("measure.interval", "71300ns"),
            ("host.rto", "200us"),
            ("host.pacing", pacing),
            (
                "host.processing",
                "[{ hosts = [\"h0\", \"h3\"], time = \"150ns\", spread = \"exponential\", ring = 40 }]",
            ),
        ];
        let run = |one_cell, threads| {
            let options = Options { one_cell, ..Options::default() };
            let mut sim = build_as(&options, &format!("{SMALL_FAT_TREE}{traffic}"), transport, &set);
            sim.set_threads(threads);
            hash(&mut sim)
        };
        let alone = run(true, 1);
        assert_eq!([run(false, 1), run(false, 2)], [alone; 2], "{transport} {pacing}");
    }
}

#[test]
fn stopping_and_going_on_changes_nothing() {
    let straight = finish(build(&format!("{SMALL_FAT_TREE}{LOADED}"), TRANSPORTS[2]));
    let mut sim = build(&format!("{SMALL_FAT_TREE}{LOADED}"), TRANSPORTS[2]);
    in_steps(&mut sim, 1_234_567, |_| {});
    let stepped = finish(sim);
    assert_eq!(straight.0, stepped.0);
    assert_eq!(straight.1, stepped.1);
}

/// Two racks below two spines, where no two links have the same rate: more of them than
/// there are lanes. Links named in `none` have no delay.
fn motley(none: &[&str]) -> String {
    let mut links: Vec<(String, &str)> = Vec::new();
    for (rack, tor) in ["t0", "t1", "t2"].into_iter().enumerate() {
        links.extend((0..6).map(|i| (format!("h{}", rack * 6 + i), tor)));
        links.extend(["a", "b"].map(|spine| (spine.to_string(), tor)));
    }
    let links: Vec<_> = (0..)
        .zip(&links)
        .map(|(i, (end, tor))| {
            let still = none.contains(tor) || none.contains(&end.as_str());
            let rate = if end.starts_with('h') { 40 + i } else { 100 + 7 * i };
            (end.as_str(), *tor, rate, u32::from(!still))
        })
        .collect();
    chart("200us", &["t0", "t1", "t2", "a", "b"], &links)
}

#[test]
fn links_without_delay_join_cells_and_many_rates_need_no_lanes_of_their_own() {
    // Both spines are one cell: one without delays takes all racks with it, a rack only them.
    for (none, cells) in [(&[][..], 4), (&["t0"], 3), (&["h0", "h7", "h13"], 4), (&["a"], 1)] {
        let run = |one_cell, threads| {
            let options = Options { one_cell, ..Options::default() };
            let set = [("onramp.enabled", "true"), ("switch.buffer", "4MiB")];
            let load = LOADED.replace("20\n", "10\n");
            let mut sim = build_as(&options, &format!("{}{load}", motley(none)), TRANSPORTS[0], &set);
            assert_eq!(sim.cells(), if one_cell { 1 } else { cells }, "{none:?}");
            sim.set_threads(threads);
            in_steps(&mut sim, 30_000_000, |sim| {
                let n = sim.packet_counts();
                assert_eq!(n.sent, n.delivered + n.dropped + n.in_flight, "{none:?} {n:?}");
            });
            assert!(sim.flows_started() > 20 && sim.flows_started() == sim.flows_finished(), "{none:?}");
            hash(&mut sim)
        };
        let alone = run(true, 1);
        for threads in [1, 2] {
            assert_eq!(run(false, threads), alone, "{none:?}, {threads} threads");
        }
    }
}
