//! Clients and servers: RPCs, and blocks of disks.

mod common;

use common::*;
use onramp_sim::records::ExchangeRecord;
use onramp_sim::units::{MS, NS, Ps, US};
use onramp_sim::{Options, Scenario, Simulation};
use std::collections::HashMap;
use std::path::Path;

const RACKS: &str = r#"
duration = "3ms"
[network]
kind = "racks"
spines = 2
fabric_rate = "10Gbps"
racks = [
    [{ role = "client", hosts = 3, rate = "10Gbps" }, { role = "reader", hosts = 4, rate = "10Gbps" }],
    [{ role = "server", hosts = 3, rate = "10Gbps" }, { role = "drive", hosts = 2, rate = "25Gbps" }],
]
"#;
const RPC: &str = "\n[[traffic]]\nkind = \"rpc\"\nfrom = [\"client\"]\nto = [\"server\"]\n";
const STORAGE: &str = "\n[[traffic]]\nkind = \"storage\"\nfrom = [\"reader\"]\nto = [\"drive\"]\n";
const CUBIC: &str = "kind = \"cubic\"";

fn exchanges(mut sim: Simulation) -> Vec<ExchangeRecord> {
    sim.run_to_end();
    assert_eq!(common::counters(&sim)["unfinished"]["exchanges"], 0);
    sim.take_exchanges()
}

fn of(text: &str) -> Vec<ExchangeRecord> {
    exchanges(build(&format!("{RACKS}{text}"), CUBIC))
}

/// Time from the first bit of `bytes` of payload in one packet until it has arrived, over links of 10 Gb/s and, of
/// the server, `server` Gb/s, with a microsecond each.
fn one_way(bytes: u64, server: u64) -> Ps {
    let bits = (bytes + 66) * 8;
    4 * US + 3 * bits * NS / 10 + bits * NS / server
}

#[test]
fn an_rpc_alone_takes_its_two_messages_and_the_servers_time() {
    let found = of(&format!(
        "{RPC}clients = 1\npeers = \"one\"\nrequest = \"200B\"\nresponse = \"1000B\"\ndepth = 1\nservice = \"50us\"\n"
    ));
    let expected = one_way(200, 10) + 50 * US + one_way(1000, 10);
    assert_eq!((found[0].latency_ps, found[0].bytes), (expected, 1000));
    // Later ones meet the acknowledgements of those before at the first links. One at a time, without a break.
    let acks = 2 * 66 * 8 * NS / 10;
    assert!(found.iter().all(|e| (expected..=expected + acks).contains(&e.latency_ps)));
    assert!(found.windows(2).all(|two| two[1].start_ps == two[0].start_ps + two[0].latency_ps));
    assert_eq!(found.len() as u64, (3 * MS - found[0].start_ps).div_ceil(expected));
    assert!(found[0].start_ps < 100 * US);
}

#[test]
fn blocks_alone_take_a_command_and_their_data() {
    let alone = |more: &str| of(&format!("{STORAGE}clients = 1\ndepth = 1\n{more}\n"));
    // A command of 72 B; 24 B, the block and 24 B more, in three packets of 1448 and a last one.
    let read = alone("block = \"4KiB\"\ndrive = \"80us\"");
    let back = 4096 + 48;
    let last = back - 2 * 1448;
    let data = one_way(last, 25) + 2 * 1514 * 8 * NS / 10;
    let expected = one_way(72, 25) + 80 * US + data;
    // The last packet is shorter than those before it, and waits for them.
    assert!(read.iter().all(|e| e.latency_ps.abs_diff(expected) < 2 * US && !e.write), "{:?} for {expected}", read[0]);
    // What fits in a capsule goes with the command; what does not waits to be asked for, which takes a way more each.
    let small = alone("block = \"16KiB\"\nwrites = 1.0");
    let large = alone("block = \"20KiB\"\nwrites = 1.0");
    let longer = large[0].latency_ps - small[0].latency_ps;
    let ways = one_way(72, 25) + one_way(24, 25);
    assert!(longer > ways && longer < ways + 8 * US, "{longer} for {ways}");
    assert!(small.iter().chain(&large).all(|e| e.write));
}

#[test]
fn clients_keep_to_what_they_may_ask() {
    let found = of(&format!("{STORAGE}block = [\"8KiB\", \"64KiB\"]\ndepth = 4\nconnections = 2\nrate = \"1Gbps\"\n"));
    let mut asked: HashMap<u32, u64> = HashMap::new();
    for exchange in &found {
        *asked.entry(exchange.client).or_default() += exchange.bytes;
    }
    assert_eq!(asked.len(), 4);
    for bytes in asked.values() {
        let rate = *bytes as f64 * 8.0 / 3e-3;
        assert!(rate < 1.4e9 && rate > 0.6e9, "{rate}");
    }
    let sizes = found.iter().filter(|e| e.bytes == 8192).count();
    assert!(sizes * 3 > found.len() && sizes * 3 < 2 * found.len());
    // Without a rate depth alone keeps them: never more than so many are open on a connection.
    let found = of(&format!("{STORAGE}block = \"64KiB\"\ndepth = 3\n"));
    for exchange in &found {
        let same = |e: &&ExchangeRecord| e.session == exchange.session && e.start_ps <= exchange.start_ps;
        let open = found.iter().filter(same).filter(|e| e.start_ps + e.latency_ps > exchange.start_ps).count();
        assert!(open <= 3);
    }
}

#[test]
fn requests_come_at_random_and_are_answered_in_their_order() {
    let text = format!("{RPC}request = \"GoogleSearchRPC\"\nresponse = \"20KB\"\nper_second = 40000\n");
    let found = of(&text);
    // Three clients, three milliseconds: 360, and its root is 19.
    assert!((280..440).contains(&found.len()), "{}", found.len());
    let mut last: HashMap<u32, (u64, Ps)> = HashMap::new();
    let mut ordered = found.clone();
    ordered.sort_by_key(|e| (e.session, e.number));
    for e in &ordered {
        let end = e.start_ps + e.latency_ps;
        let before = last.insert(e.session, (e.number, end));
        assert!(before.is_none_or(|(number, at)| e.number == number + 1 && end > at));
    }
    assert_eq!(last.len(), 9, "every client asks every server");
    // The same requests with other answers.
    let key = |e: &ExchangeRecord| (e.session, e.number, e.start_ps);
    let mut again: Vec<_> = of(&text.replace("20KB", "100KB")).iter().map(key).collect();
    again.sort_unstable();
    assert_eq!(again, ordered.iter().map(key).collect::<Vec<_>>());
}

#[test]
fn cells_and_threads_change_nothing() {
    let text = format!(
        "{RACKS}[linux]\nbuffer_packets = 60\n[onramp]\nhosts = [\"reader\", \"drive\"]\n\
         [[traffic]]\nkind = \"background\"\nworkload = \"FB_Hadoop\"\nload = 0.3\n\
         {RPC}request = \"GoogleSearchRPC\"\nresponse = \"5KB\"\nper_second = 50000\nservice = \"5us\"\n\
         {STORAGE}block = [\"4KiB\", \"64KiB\"]\nwrites = 0.3\ndepth = 8\ndrive = \"10us\"\n"
    );
    for onramp in ["false", "true"] {
        let run = |one_cell, threads| {
            let options = Options { one_cell, ..Options::default() };
            let mut sim = build_as(&options, &text, CUBIC, &[("onramp.enabled", onramp), ("warmup", "500us")]);
            sim.set_threads(threads);
            sim.run_to_end();
            (sim.take_exchanges(), sim.take_flows(), common::counters(&sim))
        };
        let alone = run(true, 1);
        assert!(alone.0.len() > 300 && alone.1.len() > 30 && alone.2["network"]["drops"] != 0 || onramp == "true");
        for (one_cell, threads) in [(false, 1), (false, 2)] {
            let several = run(one_cell, threads);
            assert_eq!(several.0, alone.0, "{threads} threads");
            assert_eq!(several.1, alone.1);
            assert_eq!(several.2, alone.2);
        }
    }
}

/// One way on RDMA over four links, in packets of 1000 B and a last one, with 48 B of headers each.
fn rdma_one_way(bytes: u64) -> Ps {
    let time = |payload: u64| (payload + 48) * 8 * NS / 10;
    let full = (bytes - 1) / 1000;
    let last = time(bytes - full * 1000);
    // A last packet that is short waits at every link for the full one before it.
    4 * US + if full == 0 { 4 * last } else { (full + 3) * time(1000) + last }
}

#[test]
fn an_rpc_on_rdma_takes_its_two_messages() {
    let text = format!("{RACKS}{RPC}clients = 1\npeers = \"one\"\ndepth = 1\nservice = \"5us\"\n");
    for (request, response) in [(200, 1000), (1, 2001), (3000, 64)] {
        let text = format!("{text}request = \"{request}B\"\nresponse = \"{response}B\"\n");
        let found = exchanges(build(&text, "kind = \"dcqcn\""));
        let expected = rdma_one_way(request) + 5 * US + rdma_one_way(response);
        // Acknowledgements, and packets of the message before, may be on the same links.
        let some = 60 * 8 * NS / 10 * 4;
        for exchange in &found {
            let late = exchange.latency_ps.checked_sub(expected).expect("not before the network allows it");
            assert!(late <= some, "{request} B, {response} B: {} for {expected}", exchange.latency_ps);
        }
        assert!(found.len() > 50, "{}", found.len());
    }
}

/// Three tiers: two roots, two aggregators, six workers.
const TIERS: &str = r#"
[[traffic]]
kind = "partition-aggregate"
from = ["client0", "client1"]
aggregators = ["server0", "server1"]
workers = ["reader", "drive"]
request = "200B"
answer = "2KB"
response = "5KB"
"#;

#[test]
fn a_request_waits_for_all_tiers() {
    let alone = TIERS.replace("\"client0\", \"client1\"", "\"client0\"") + "depth = 1\n";
    for transport in [CUBIC, "kind = \"dcqcn\""] {
        let latency = |more: &str| {
            let found = exchanges(build(&format!("{RACKS}{alone}{more}"), transport));
            assert!(found.iter().all(|e| e.bytes == 10_000));
            found.iter().map(|e| e.latency_ps).min().unwrap()
        };
        let plain = latency("");
        // Four ways across the network, of four links of a microsecond each.
        assert!(plain > 16 * US && plain < 50 * US, "{transport}: {plain}");
        let longer = latency("service = \"30us\"\nmerge = \"20us\"\n");
        assert!(longer.abs_diff(plain + 50 * US) < 2 * US, "{transport}: {longer} after {plain}");
    }
}

#[test]
fn time_that_programs_packets_are_held_is_counted() {
    for transport in [CUBIC, "kind = \"dcqcn\""] {
        let text = format!("{RACKS}{TIERS}depth = 8\n").replace("\"2KB\"", "\"20KB\"");
        let mut sim = build_with(&text, transport, &[("onramp.enabled", "true"), ("onramp.threshold", "10us")]);
        sim.run_to_end();
        let stats = &common::counters(&sim)["onramp_stats"];
        assert!(stats["pauses"].as_u64() > Some(0) && stats["paused_us"].as_f64() > Some(0.0), "{transport}: {stats}");
    }
}

#[test]
fn requests_of_three_tiers_do_not_depend_on_cells_or_threads() {
    for (i, transport) in [CUBIC, "kind = \"dcqcn\"", "kind = \"hpcc\""].into_iter().enumerate() {
        let text = format!(
            "{RACKS}[[traffic]]\nkind = \"background\"\nworkload = \"FB_Hadoop\"\nload = 0.3\n\
             {}per_second = 20000\nservice = \"3us\"\n",
            TIERS.replace("\"2KB\"", "[\"2KB\", \"20KB\"]")
        );
        let set: &[_] = &[
            ("onramp.enabled", "true"),
            ("warmup", "300us"),
            ("switch.buffer", "200KB"),
            ("switch.loss", if i == 0 { "pfc" } else { "lossy" }),
            ("host.rto", "300us"),
        ];
        let run = |one_cell, threads| {
            let options = Options { one_cell, ..Options::default() };
            let mut sim = build_as(&options, &text, transport, set);
            sim.set_threads(threads);
            sim.run_to_end();
            (sim.take_exchanges(), sim.take_flows(), common::counters(&sim))
        };
        let alone = run(true, 1);
        assert!(alone.0.len() > 60, "{}", alone.0.len());
        assert_eq!(alone.2["unfinished"]["exchanges"], 0);
        for (one_cell, threads) in [(false, 1), (false, 2)] {
            assert_eq!(run(one_cell, threads), alone, "{transport}, {threads} threads");
        }
        // The same requests whether On-Ramp holds packets or not.
        let key = |e: &ExchangeRecord| (e.session, e.number, e.start_ps, e.bytes);
        let mut without = build_with(&text, transport, &[set, &[("onramp.enabled", "false")]].concat());
        without.run_to_end();
        let sorted = |mut all: Vec<ExchangeRecord>| {
            all.sort_by_key(key);
            all.iter().map(key).collect::<Vec<_>>()
        };
        assert_eq!(sorted(without.take_exchanges()), sorted(alone.0), "{transport}");
    }
}

#[test]
fn messages_on_rdma_arrive_whole_and_in_order_through_losses() {
    let text = format!(
        "{RACKS}{RPC}request = [\"100B\", \"30KB\"]\nresponse = \"GoogleSearchRPC\"\ndepth = 8\nconnections = 4\n"
    );
    for recovery in ["go-back-n", "selective-repeat"] {
        let recovery = format!("{{ kind = \"{recovery}\" }}");
        let set =
            [("switch.loss", "lossy"), ("switch.buffer", "60KB"), ("host.rto", "200us"), ("host.recovery", &recovery)];
        let mut sim = build_with(&text, "kind = \"dcqcn\"", &set);
        sim.run_to_end();
        let counters = common::counters(&sim);
        assert!(counters["network"]["drops"].as_u64() > Some(20), "{counters}");
        assert_eq!(counters["unfinished"]["exchanges"], 0);
        let mut found = sim.take_exchanges();
        found.sort_by_key(|e| (e.session, e.start_ps + e.latency_ps));
        for two in found.windows(2).filter(|two| two[0].session == two[1].session) {
            // Answers to requests on one connection come in the order of the requests.
            assert!(two[0].number < two[1].number);
        }
    }
}

#[test]
fn what_cannot_be_is_refused_in_a_line() {
    let rpc = "request = \"2KB\"\nresponse = \"2KB\"\n";
    let cases = [
        (format!("{RPC}{rpc}"), "per_second: or depth is needed, not both"),
        (format!("{RPC}{rpc}depth = 1\nper_second = 5\n"), "per_second: or depth is needed, not both"),
        (format!("{RPC}{rpc}depth = 0\n"), "depth: 0 is outside 1 to 1024"),
        (format!("{RPC}{rpc}depth = 1\nclients = 4\n"), "clients: 4 are more than the 3 there are"),
        (format!("{RPC}request = \"0B\"\nresponse = \"2KB\"\ndepth = 1\n"), "request: must be larger than 0"),
        (
            format!("{RPC}request = \"2 parsecs\"\nresponse = \"2KB\"\ndepth = 1\n"),
            "request: \"2 parsecs\" is not a size",
        ),
        (format!("{RPC}request = \"no.txt\"\nresponse = \"2KB\"\ndepth = 1\n"), "request: cannot read \"no.txt\""),
        (format!("{STORAGE}block = []\n"), "block: must be larger than 0"),
        (format!("{STORAGE}block = \"1GB\"\n"), "block: 1GB is more than the 1MiB that are possible"),
        (format!("{STORAGE}block = \"4KiB\"\ndepth = 128\n"), "depth: 128 is outside 1 to 127"),
        (format!("{STORAGE}block = \"4KiB\"\nwrites = 2.0\n"), "writes: 2 is no share: from 0 to 1"),
        (format!("{STORAGE}block = \"4KiB\"\nstop = \"4ms\"\n"), "stop: 4ms is after the end of duration, 3ms"),
        (format!("{STORAGE}block = \"4KiB\"\nconnections = 65\n"), "connections: 65 is outside 1 to 64"),
        (STORAGE.replace("[\"drive\"]", "[\"reader1\"]") + "block = \"4KiB\"\n", "to: reader1 would ask itself"),
        (STORAGE.replace("[\"drive\"]", "[\"drives\"]") + "block = \"4KiB\"\n", "to[0]: \"drives\" is no host"),
        (STORAGE.replace("[\"drive\"]", "[]") + "block = \"4KiB\"\n", "to: names no host"),
        (
            STORAGE.replace("[\"drive\"]", "[\"drive\", \"drive1\"]") + "block = \"4KiB\"\n",
            "to[1]: \"drive1\" is named twice",
        ),
    ];
    for (text, expected) in cases {
        let text = format!("{RACKS}[transport]\n{CUBIC}\n{text}");
        let found = Scenario::load(&text, "s.toml", Path::new(""), &[]).unwrap_err();
        let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(lines.len() == 1 && lines[0].contains(&format!("traffic[0].{expected}")), "{expected}: {lines:?}");
    }
    let tiers = [
        (TIERS.replace("server0", "client0"), "from: client0 is one of the aggregators, too"),
        (
            TIERS.replace("\"reader\", \"drive\"", "\"drive0\""),
            "workers: 1 workers for 2 aggregators: one each at least",
        ),
        (TIERS.replace("\"2KB\"", "\"1GB\""), "answer: 1GB is more than the 64MiB that are possible"),
        (TIERS.replace("[\"server0\", \"server1\"]", "[]"), "aggregators: names no host"),
    ];
    for (text, expected) in tiers {
        let text = format!("{RACKS}[transport]\n{CUBIC}\n{text}depth = 1\n");
        let found = Scenario::load(&text, "s.toml", Path::new(""), &[]).unwrap_err();
        let lines: Vec<_> = found.iter().map(ToString::to_string).collect();
        assert!(lines.len() == 1 && lines[0].contains(&format!("traffic[0].{expected}")), "{expected}: {lines:?}");
    }
    let rdma = format!("{RACKS}[transport]\nkind = \"dcqcn\"\n{STORAGE}block = \"4KiB\"\n");
    let found = Scenario::load(&rdma, "s.toml", Path::new(""), &[]).unwrap_err();
    assert!(found[0].to_string().contains("needs TCP"), "{}", found[0]);
}

#[test]
fn what_clients_load_is_sampled_from_time_0_on() {
    let rpc = format!("{RPC}request = \"200B\"\nresponse = \"1000B\"\ndepth = 1\n");
    let set = [("measure.links", "[\"tor0->spine0\"]"), ("measure.interval", "100us")];
    for warmup in ["0us", "300us"] {
        let mut sim = build_with(&format!("{RACKS}{rpc}"), CUBIC, &[&set[..], &[("warmup", warmup)]].concat());
        sim.run_to_end();
        let samples = sim.take_samples();
        assert_eq!(samples[0].time_ps, 100 * US, "{warmup}");
        assert!(samples.len() >= 30, "{warmup}: {}", samples.len());
    }
}
