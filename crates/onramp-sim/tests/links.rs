//! Hosts with several links, and links that have failed.

mod common;

use common::*;
use onramp_sim::units::US;
use onramp_sim::{Options, Scenario, Simulation};
use std::collections::BTreeMap;
use std::path::Path;

/// After HPCC's testbed, in its format: 32 hosts with a 25 Gb/s link to each of the two
/// ToRs of their rack, 10 ToRs, two switches above.
fn testbed() -> (TempFile, String) {
    let tor = |i: u32| 32 + i;
    let host = |h: u32, k: u32| format!("{h} {} 25Gbps 0.001ms 0", tor(2 * (h % 5) + k));
    let up = |t: u32, a: u32| format!("{} {} 100Gbps 0.001ms 0", tor(t), tor(10 + a));
    let lines: Vec<String> = (0..32).flat_map(|h| [host(h, 0), host(h, 1)]).collect();
    let ups: Vec<String> = (0..10).flat_map(|t| [up(t, 0), up(t, 1)]).collect();
    let switches: Vec<String> = (32..44).map(|s| s.to_string()).collect();
    let text = format!("44 12 84\n{}\n{}\n{}\n", switches.join(" "), lines.join("\n"), ups.join("\n"));
    let file = TempFile::new(&text);
    let network =
        format!("duration = \"300us\"\nseed = 3\n[network]\nkind = \"hpcc-file\"\nfile = \"{}\"\n", file.0.display());
    (file, network)
}

#[test]
fn no_packet_of_a_host_with_two_links_is_lost_or_made_up() {
    let (_file, network) = testbed();
    for (i, transport) in TRANSPORTS.iter().enumerate() {
        let loss = ["pfc", "lossy"][i % 2];
        let ack = ["transport", "separate"][i / 2 % 2];
        let set = [
            ("switch.loss", loss),
            ("switch.buffer", "2MiB"),
            ("host.rto", "200us"),
            ("onramp.enabled", "true"),
            ("onramp.ack", ack),
        ];
        let mut sim = build_with(&format!("{network}{LOADED}"), transport, &set);
        in_steps(&mut sim, 37 * US, |sim| {
            let n = sim.packet_counts();
            assert_eq!(n.sent, n.delivered + n.dropped + n.in_flight, "{transport} {n:?}");
        });
        assert!(sim.flows_started() > 50, "{}", sim.flows_started());
        assert_eq!(sim.flows_started(), sim.flows_finished(), "{transport}");
        if loss == "pfc" {
            // A flow keeps to one port, so nothing is reordered.
            assert_eq!(common::counters(&sim)["network"]["retransmitted_packets"], 0, "{transport}");
        }
    }
}

#[test]
fn with_two_links_cells_and_threads_change_nothing() {
    let (_file, network) = testbed();
    let set =
        [("onramp.enabled", "true"), ("switch.buffer", "2MiB"), ("clock.sync", "gaussian"), ("clock.sigma", "1us")];
    for transport in [TRANSPORTS[1], TRANSPORTS[5]] {
        let run = |one_cell, threads| {
            let options = Options { one_cell, ..Options::default() };
            let mut sim = build_as(&options, &format!("{network}{LOADED}"), transport, &set);
            assert_eq!(sim.cells() > 5, !one_cell, "{} cells", sim.cells());
            sim.set_threads(threads);
            finish(sim)
        };
        let alone = run(true, 1);
        for threads in [1, 2, 4] {
            let found = run(false, threads);
            assert!(found == alone, "{transport}, {threads} threads");
        }
    }
}

/// Mean utilization of some links.
fn shares(text: &str, links: &[&str]) -> Vec<f64> {
    let named = format!("[\"{}\"]", links.join("\", \""));
    let mut sim = build_with(text, TRANSPORTS[0], &[("measure.links", &named)]);
    sim.run_to_end();
    let mut sums: BTreeMap<u32, f64> = BTreeMap::new();
    for sample in sim.take_samples() {
        *sums.entry(sample.series).or_default() += sample.value;
    }
    let all: f64 = sums.values().sum();
    sums.values().map(|sum| sum / all).collect()
}

#[test]
fn flows_spread_evenly_over_both_ports() {
    let (_file, network) = testbed();
    // 30 hosts that are not in h0's rack, or all in it.
    for (what, peers) in [("far", (1..32).filter(|h| h % 5 != 0).collect::<Vec<u32>>()), ("near", vec![5, 10, 15, 20])]
    {
        let rows = (0..400).map(|i| (peers[i % peers.len()], i));
        let out: Vec<String> = rows.clone().map(|(h, i)| format!("h0,h{h},20000,{}", i * 8_000)).collect();
        let back: Vec<String> = rows.map(|(h, i)| format!("h{h},h0,20000,{}", i * 8_000)).collect();
        for (rows, links) in [(out, ["h0->s0", "h0->s1"]), (back, ["s0->h0", "s1->h0"])] {
            let (_rows, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
            let found = shares(&format!("{network}{traffic}"), &links);
            // 400 draws: one in two, with a deviation of 2.5%.
            assert!((0.4..0.6).contains(&found[0]), "{what} {links:?}: {found:?}");
        }
    }
}

#[test]
fn hosts_of_a_fat_tree_and_of_leaves_have_several_links() {
    let tree = SMALL_FAT_TREE.to_string() + "host_links = 2\n";
    let leaves =
        "duration = \"300us\"\n[network]\nkind = \"leaf-spine\"\nleaves = 3\nhosts_per_leaf = 4\nhost_links = 3\n";
    // The last ToR of a pod is followed by its first.
    let links: [(&str, Vec<&str>, usize); 2] = [
        (&tree, vec!["h0->tor0", "h0->tor1", "h8->tor1", "h8->tor0", "h31->tor3", "h31->tor2"], 2),
        (leaves, vec!["h0->leaf0", "h0->leaf1", "h0->leaf2", "h11->leaf2", "h11->leaf0", "h11->leaf1"], 3),
    ];
    for (network, names, count) in links {
        let load = |text: &str| Scenario::load(text, "s.toml", Path::new("/"), &[]).map_err(|e| e[0].to_string());
        let text = format!("{network}{}\n[transport]\nkind = \"dcqcn\"\n", LOADED.replace("20\n", "8\n"));
        let (scenario, topology) = load(&text).unwrap();
        assert!((0..topology.hosts() as u32).all(|host| topology.ports_of(host).len() == count));
        names.iter().for_each(|name| assert!(topology.port_named(name).is_ok(), "{name}"));
        // Hosts that share a switch meet there.
        assert_eq!(topology.path(0, topology.hosts() as u32 / (if count == 2 { 4 } else { 1 }) - 1, 5).count(), 2);
        let again = load(&scenario.to_toml()).unwrap().0;
        assert_eq!(again.to_toml(), scenario.to_toml());
        let mut sim = Simulation::new(&scenario, topology, Path::new("/")).unwrap();
        sim.run_to_end();
        assert_eq!((sim.flows_started() > 20, common::counters(&sim)["unfinished"]["flows"].as_u64()), (true, Some(0)));
        let wrong = load(&text.replace(&format!("host_links = {count}"), "host_links = 9")).unwrap_err();
        assert!(wrong.contains("network.host_links: 9 is outside 1 to"), "{wrong}");
    }
}

/// A network of every kind, with links that may fail there.
fn networks() -> (TempFile, Vec<(String, &'static str)>) {
    let (file, testbed) = testbed();
    let links = "duration = \"300us\"\n[network]\nkind = \"links\"\nhosts = [\"h0\", \"h1\"]\nswitches = [\"a\", \"b\"]\nlinks = [\
        { a = \"h0\", b = \"a\", rate = \"100Gbps\", delay = \"1us\" }, { a = \"h1\", b = \"b\", rate = \"100Gbps\", delay = \"1us\" },\
        { a = \"a\", b = \"b\", rate = \"100Gbps\", delay = \"1us\" }, { a = \"h0\", b = \"b\", rate = \"100Gbps\", delay = \"1us\" }]\n";
    let leaves = "duration = \"300us\"\n[network]\nkind = \"leaf-spine\"\nleaves = 3\nhosts_per_leaf = 4\n";
    let dead_spine = "[\"leaf0->spine1\", \"leaf1->spine1\", \"spine1->leaf2\"]";
    let all = vec![
        (testbed.clone(), "[\"h0->s0\", \"s1->s10\"]"),
        // A ToR that only its hosts are left to.
        (testbed, "[\"s0->s10\", \"s0->s11\"]"),
        (links.to_string(), "[\"b->h0\"]"),
        (SMALL_FAT_TREE.to_string(), "[\"tor0->agg0\", \"core3->agg1\"]"),
        (SMALL_FAT_TREE.to_string() + "host_links = 2\n", "[\"h0->tor0\"]"),
        (leaves.to_string(), dead_spine),
    ];
    (file, all)
}

#[test]
fn no_way_leads_over_a_failed_link() {
    let (_file, networks) = networks();
    let background = "[[traffic]]\nkind = \"background\"\nworkload = \"FB_Hadoop\"\nload = 0.3\n";
    for (network, failed) in &networks {
        let text = format!("{network}failed = {failed}\n{background}");
        for one_cell in [true, false] {
            let options = Options { one_cell, ..Options::default() };
            let mut sim = build_as(&options, &text, TRANSPORTS[0], &[("switch.loss", "pfc")]);
            sim.run_to_end();
            // A switch without links keeps nobody from cutting the network up; `links` is one ring.
            assert_eq!(sim.cells() > 1, !one_cell && !network.contains("\"links\""), "{failed}");
            assert!(sim.flows_started() > 3, "{failed}");
            assert_eq!(sim.flows_started(), sim.flows_finished(), "{failed}");
        }
        let whole = format!("{text}[transport]\nkind = \"dcqcn\"\n");
        let (scenario, topology) = Scenario::load(&whole, "s.toml", Path::new("/"), &[]).unwrap();
        for link in &scenario.network.failed {
            let (a, b) = link.split_once("->").unwrap();
            assert!(topology.port_named(link).is_err() && topology.port_named(&format!("{b}->{a}")).is_err(), "{link}");
        }
        let hosts = topology.hosts() as u32;
        for (a, b) in (0..hosts).flat_map(|a| (0..hosts).map(move |b| (a, b))).filter(|(a, b)| a != b) {
            assert_eq!(topology.path(a, b, (a * 7 + b) as u16).take(9).last().unwrap().to, b);
        }
        assert!(scenario.to_toml().contains("failed = ["));
        let again = Scenario::load(&scenario.to_toml(), "again", Path::new("/"), &[]).unwrap().0;
        assert_eq!(again, scenario);
    }
}

#[test]
fn traffic_moves_to_the_links_that_are_left() {
    let leaves = "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 8\nfailed = [\"spine2->leaf1\"]\n";
    let rows: Vec<String> = (0..400).map(|i| format!("h{},h{},20000,{}", i % 8, 8 + i / 8 % 8, i * 500)).collect();
    let (_rows, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let found =
        shares(&format!("{leaves}{traffic}"), &["leaf0->spine0", "leaf0->spine1", "leaf0->spine2", "leaf0->spine3"]);
    assert_eq!(found[2], 0.0, "spine2 has no way on");
    assert!([0, 1, 3].iter().all(|i| (0.23..0.45).contains(&found[*i])), "{found:?}");
}

#[test]
fn a_slow_link_has_its_own_rate_both_ways() {
    let text = "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nslow = [{ link = \"spine1->leaf0\", rate = \"100Gbps\" }]\n\
                failed = [\"spine2->leaf1\"]\n[transport]\nkind = \"dcqcn\"\n[[traffic]]\nkind = \"long\"\nsrc = [\"h0\"]\ndst = \"h1\"\n";
    let (scenario, topology) = Scenario::load(text, "s.toml", Path::new("/"), &[]).unwrap();
    let rate = |link: &str| topology.ports()[topology.port_named(link).unwrap() as usize].rate.0 / 1_000_000_000;
    let rates = ["leaf0->spine1", "spine1->leaf0", "leaf0->spine0", "leaf1->spine1"].map(rate);
    assert_eq!(rates, [100, 100, 400, 400]);
    assert_eq!(Scenario::load(&scenario.to_toml(), "again", Path::new("/"), &[]).unwrap().0, scenario);
    for (of, instead, expected) in [
        (
            "spine1->leaf0",
            "h0->h1",
            "s.toml:4: network.slow[0].link: \"h0->h1\" is no link: the neighbours of h0 are leaf0",
        ),
        (
            "100Gbps",
            "0Gbps",
            "s.toml:4: network.slow[0].rate: must be above 0: a link that is down is in network.failed",
        ),
    ] {
        let errors = Scenario::load(&text.replace(of, instead), "s.toml", Path::new("/"), &[]).unwrap_err();
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    }
}

#[test]
fn a_failure_that_cannot_be_is_one_line() {
    let wrong = |network: &str, failed: &str| {
        let text = format!(
            "duration = \"1ms\"\n[network]\n{network}failed = {failed}\n[transport]\nkind = \"dcqcn\"\n\
             [[traffic]]\nkind = \"long\"\nsrc = [\"h0\"]\ndst = \"h1\"\n"
        );
        let errors = Scenario::load(&text, "s.toml", Path::new("/"), &[]).unwrap_err();
        assert_eq!(errors.len(), 1, "{errors:?}");
        errors[0].to_string()
    };
    let star = "kind = \"star\"\nhosts = 4\n";
    let cases = [
        (
            star,
            "[\"h1->s0\", \"h9->s0\"]",
            "s.toml:5: network.failed[1]: \"h9->s0\" is no link: there is no \"h9\": nodes are h0 to h3, s0",
        ),
        (star, "[\"h0->h1\"]", "s.toml:5: network.failed[0]: \"h0->h1\" is no link: the neighbours of h0 are s0"),
        (star, "[\"h0\"]", "s.toml:5: network.failed[0]: \"h0\" is no link: write two neighbours"),
        (star, "[\"s0->h3\"]", "s.toml:5: network.failed: without these links, host h3 has no link"),
        ("kind = \"dumbbell\"\n", "[\"s0->s1\"]", "s.toml:4: network.failed: without these links, no path leads from"),
        (star, "\"h0->s0\"", "s.toml:5: network.failed: \"h0->s0\" is not a list"),
    ];
    for (network, failed, expected) in cases {
        let found = wrong(network, failed);
        assert!(found.starts_with(expected), "{found}");
    }
    let found = wrong("kind = \"star\"\nhosts = 4\nfailures = []\n", "[]");
    assert!(found.ends_with("known are hosts, host_rate, link_delay, failed, slow, faults"), "{found}");
}
