//! Switches and networks end to end: PFC, marks, telemetry, routes.

mod common;

use common::*;
use onramp_sim::records::{LinkRecord, PauseRecord};
use onramp_sim::units::{Ps, US};
use onramp_sim::{Options, Simulation};
use std::collections::BTreeMap;

/// `fast` (100 Gb/s) hosts and a `slow` one (10 Gb/s) on switch `s`.
fn funnel(fast: &[&str]) -> String {
    let mut links: Vec<String> =
        fast.iter().map(|h| format!("{{ a = \"{h}\", b = \"s\", rate = \"100Gbps\", delay = \"1us\" }}")).collect();
    links.push("{ a = \"slow\", b = \"s\", rate = \"10Gbps\", delay = \"1us\" }".into());
    format!(
        "duration = \"400us\"\n[network]\nkind = \"links\"\nhosts = [\"{}\", \"slow\"]\nswitches = [\"s\"]\nlinks = [{}]\n",
        fast.join("\", \""),
        links.join(", ")
    )
}

fn number(counters: &serde_json::Value, group: &str, key: &str) -> f64 {
    counters[group][key].as_f64().unwrap()
}

#[test]
fn links_add_up_to_what_the_network_counts() {
    let all = [("host.rto", "200us"), ("warmup", "50us")];
    let pfc = [("switch.buffer", "800KB")];
    let lossy = [("switch.buffer", "200KB"), ("switch.loss", "lossy")];
    let trims = [
        ("switch.buffer", "200KB"),
        ("switch.loss", "lossy"),
        ("switch.trim", "64B"),
        ("host.recovery", "{ kind = \"rud\" }"),
    ];
    let step = |rate| format!("{{ rate = \"{rate}\", kmin = \"5KB\", kmax = \"100KB\", pmax = 0.5 }}");
    let ecn = format!("[{}, {}]", step("100Gbps"), step("400Gbps"));
    let marks = [("switch.ecn", ecn.as_str())];
    let faulty = [("network.faults", "[{ link = \"core0->agg0\", start = \"0us\", bit_error_rate = 1e-7 }]")];
    let mut found = [0; 5];
    for set in [&pfc[..], &lossy, &trims, &marks, &faulty] {
        let mut sim = build_with(&format!("{SMALL_FAT_TREE}{LOADED}"), TRANSPORTS[0], &[&all[..], set].concat());
        sim.run_to_end();
        assert!(sim.take_pauses().is_empty() && sim.pauses_under_way().is_empty(), "only where they are asked for");
        let (links, counters) = (sim.links(), sim.counters().network);
        let sum = |of: fn(&LinkRecord) -> u64| links.iter().map(of).sum::<u64>();
        let counts =
            [sum(|l| l.drops + l.lost), sum(|l| l.lost), sum(|l| l.trims), sum(|l| l.marked), sum(|l| l.pauses)];
        let expected =
            [counters.drops, counts[1], counters.trims.unwrap_or(0), counters.ecn_marked, counters.pfc_pauses];
        assert_eq!(counts, expected, "{set:?}");
        assert_eq!(sum(|l| l.paused_ps) as f64 / US as f64, counters.pfc_paused_us, "{set:?}");
        for link in &links {
            // Of a packet that is being sent at time 0 or at the end, all bytes count or none.
            let used = (link.utilization * sim.now() as f64 / 8e12 * link.rate as f64) as u64;
            assert!(used.abs_diff(link.bytes) < 2048, "{used} {link:?}");
            assert!(link.from >= 32 || (link.queue, link.drops) == (Some(0), 0), "{link:?}");
            assert!(link.queue < Some(800_000), "{link:?}");
        }
        // Hosts' data goes over their own link, and is not lost there.
        assert!(sum(|l| if l.from < 32 { l.bytes } else { 0 }) > sim.take_flows().iter().map(|f| f.bytes).sum());
        found.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
    }
    assert!(found.iter().all(|count| *count > 0), "each was met: {found:?}");
}

/// Time that each port's class was paused, by the ends of its link; no two pauses of a class overlap.
fn paused(pauses: &[PauseRecord]) -> BTreeMap<(u32, u32), (u64, Ps)> {
    let mut sorted = pauses.to_vec();
    sorted.sort_by_key(|pause| (pause.from, pause.to, pause.class, pause.start_ps));
    for pair in sorted.windows(2) {
        let same = |of: fn(&PauseRecord) -> u32| of(&pair[0]) == of(&pair[1]);
        let apart = pair[0].start_ps + pair[0].duration_ps <= pair[1].start_ps;
        assert!(apart || !(same(|p| p.from) && same(|p| p.to) && same(|p| p.class)), "{pair:?}");
    }
    let mut all = BTreeMap::new();
    for pause in pauses {
        let (count, time) = all.entry((pause.from, pause.to)).or_default();
        (*count, *time) = (*count + 1, *time + pause.duration_ps);
    }
    all
}

#[test]
fn pauses_add_up_to_what_links_were_paused() {
    let pfc = [("host.rto", "200us"), ("switch.buffer", "800KB"), ("measure.pauses", "true")];
    let classes = ("switch.classes", "[{ weight = 1 }, { weight = 1 }]");
    let two = format!("{LOADED}{}", long("h1", "h9", "class = 1"));
    // Load has paused ports at time 0, and at the end.
    for (set, traffic) in [
        (vec![], LOADED),
        (vec![("warmup", "150us"), ("duration", "200us"), ("time_limit", "220us")], LOADED),
        (vec![classes, ("switch.buffer", "1600KB"), ("duration", "200us"), ("time_limit", "220us")], &two),
    ] {
        let set = [&pfc[..], &set].concat();
        let mut sim = build_with(&format!("{SMALL_FAT_TREE}{traffic}"), TRANSPORTS[0], &set);
        sim.run_to_end();
        let (links, under_way) = (sim.links(), sim.pauses_under_way());
        assert!(under_way.iter().all(|pause| pause.start_ps + pause.duration_ps == sim.now()), "{under_way:?}");
        let over = sim.take_pauses();
        assert!(over.is_sorted_by_key(|pause| pause.start_ps + pause.duration_ps));
        assert!(sim.take_pauses().is_empty(), "each is taken once");
        let all = [over, under_way].concat();
        let found = paused(&all);
        assert!(found.keys().any(|(from, _)| *from < 32) && found.keys().any(|(from, _)| *from >= 32), "{found:?}");
        // Links count the pauses that start from time 0 on.
        let at_once = all.iter().filter(|pause| pause.start_ps == 0).count() as u64;
        assert_eq!(
            found.values().map(|(count, _)| count).sum::<u64>(),
            at_once + links.iter().map(|l| l.pauses).sum::<u64>()
        );
        for link in links {
            let (count, time) = found.get(&(link.from, link.to)).copied().unwrap_or_default();
            assert_eq!(time, link.paused_ps, "{set:?}: {link:?}");
            assert!(count >= link.pauses, "{set:?}: {link:?}");
        }
        let most = all.iter().map(|pause| pause.class).max();
        assert_eq!(most, Some(u32::from(set.contains(&classes))), "classes count from 0");
    }
}

#[test]
fn a_storm_is_a_pause_as_long_as_it_lasts() {
    let text = format!("duration = \"3ms\"\nnetwork = {{ kind = \"dumbbell\" }}\n{}", long("h0", "h2", ""));
    let storm = ("host.storms", "[{ hosts = [\"h2\"], start = \"1ms\", stop = \"2ms\" }]");
    let mut sim = build_with(&text, UNMOVED, &[storm, ("measure.pauses", "true"), ("switch.buffer", "100MB")]);
    sim.run_to_end();
    let pauses = sim.take_pauses();
    let storm = pauses.iter().find(|pause| pause.to == 2).unwrap();
    assert_eq!((storm.class, storm.start_ps, storm.duration_ps), (0, 1_000 * US, 1_000 * US), "{pauses:?}");
}

#[test]
fn pfc_holds_a_queue_between_its_two_thresholds() {
    // One ingress into a queue that drains ten times slower; α = 1, so that
    // XOFF is at half of the shared pool, S/2, and XON at (S − 3072)/2.
    let set = [
        ("switch.buffer", "600KB"),
        ("switch.reserve", "1000B"),
        ("switch.headroom", "[{ rate = \"100Gbps\", bytes = \"40KB\" }, { rate = \"10Gbps\", bytes = \"40KB\" }]"),
        ("switch.alpha", "[{ rate = \"100Gbps\", alpha = 1 }, { rate = \"10Gbps\", alpha = 1 }]"),
        ("switch.ecn", "[]"),
        ("measure.interval", "100ns"),
        ("measure.queues", "[\"s->slow\"]"),
    ];
    let (_file, traffic) = trace(&["fast,slow,3000000,0"]);
    let mut sim = build_with(&format!("{}{traffic}", funnel(&["fast"])), UNMOVED, &set);
    sim.run(2_000 * US, u64::MAX);
    let counters = common::counters(&sim);
    assert_eq!(number(&counters, "network", "drops"), 0.0);
    let pauses = number(&counters, "network", "pfc_pauses");
    assert!(pauses > 20.0, "{pauses}");
    let queue: Vec<f64> = series(&mut sim, &["queue s->slow"])[0].iter().map(|s| s.value).collect();
    let shared = 600e3 - 2.0 * 41e3;
    // From the decision to its effect: two delays, the frame, and what is being sent.
    let xoff = 1000.0 + shared / 2.0;
    let peak = queue.iter().fold(0.0, |a: f64, b| a.max(*b));
    let link = sim.links().into_iter().find(|link| link.rate == 10_000_000_000 && link.queue > Some(0)).unwrap();
    assert_eq!(link.queue, Some(peak as u64));
    assert!((xoff - 2096.0..xoff + 25_000.0 + 3.0 * 1048.0).contains(&peak), "peak {peak}, XOFF at {xoff}");
    assert!(peak > xoff + 18_000.0, "peak {peak}: the pause came too soon");
    let xon = 1000.0 + (shared - 3072.0) / 2.0;
    let from = queue.iter().position(|q| *q == peak).unwrap();
    let to = from + queue[from..].windows(2).rposition(|w| w[0] >= xoff && w[1] < w[0]).unwrap();
    let valley = queue[from..to].iter().fold(f64::MAX, |a, b| a.min(*b));
    // While XON travels and the first packet comes, the queue drains 10 Gb/s.
    assert!((xon - 2_600.0 - 3.0 * 1048.0..xon + 1.0).contains(&valley), "valley {valley}, XON at {xon}");
}

#[test]
fn a_paused_port_sends_no_data_but_goes_on_at_once_when_resumed() {
    let set = [("switch.buffer", "600KB"), ("switch.ecn", "[]")];
    let (_file, traffic) = trace(&["fast,slow,9000000,0"]);
    let mut sim = build_with(&format!("{}{traffic}", funnel(&["fast"])), UNMOVED, &set);
    sim.run(2_000 * US, u64::MAX);
    let counters = common::counters(&sim);
    let sending = counters["network"]["utilization"]["fast->s"].as_f64().unwrap();
    let paused = number(&counters, "network", "pfc_paused_us") / 2_000.0;
    // A packet under way when the pause comes is finished: up to 84 ns each.
    let under_way = number(&counters, "network", "pfc_pauses") * 0.084 / 2_000.0;
    assert!(paused > 0.8 && sending > 0.1, "paused {paused}, sending {sending}");
    assert!((1.0 - 1e-4..=1.0 + under_way + 1e-4).contains(&(sending + paused)), "{sending} + {paused}");
}

#[test]
fn acks_of_the_control_class_leave_a_paused_host() {
    // `fast` is paused most of the time; it also receives from `other`.
    let rows: Vec<String> = std::iter::once("fast,slow,9000000,0".into())
        .chain((0..20).map(|i| format!("other,fast,1000,{}", 100_000 + i * 7_000)))
        .collect();
    let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
    let (_file, traffic) = trace(&rows);
    let longest_ack = |class| {
        let set = [("switch.buffer", "600KB"), ("switch.ecn", "[]"), ("host.ack_class", class), ("time_limit", "2ms")];
        let (flows, _, _) = finish(build_with(&format!("{}{traffic}", funnel(&["fast", "other"])), UNMOVED, &set));
        assert!(flows.len() >= 20);
        flows.iter().filter(|f| f.bytes == 1000).map(|f| f.fct_ps - f.receiver_fct_ps).max().unwrap()
    };
    // Two links, 60 B on each; at the host one packet may be before it.
    assert!(longest_ack("control") <= 2 * US + 2 * 4_800 + 83_840);
    assert!(longest_ack("data") > 10 * US);
}

/// Two line-rate flows of 2 MB into one link: the queue rises evenly to 2.096 MB
/// and falls again.
fn collision(transport: &str, set: &[(&str, &str)]) -> (Ps, f64) {
    let (_file, traffic) = trace(&["h0,h2,2000000,0", "h1,h2,2000000,0"]);
    let mut sim = build_with(&format!("{}{traffic}", star(3)), transport, set);
    sim.run_to_end();
    let last = sim.take_flows().iter().map(|f| f.fct_ps).max().unwrap();
    (last, number(&common::counters(&sim), "network", "ecn_marked"))
}

#[test]
fn marks_come_at_the_share_the_queue_implies() {
    let ecn = |kmin, kmax, pmax: f64| {
        format!("[{{ rate = \"100Gbps\", kmin = \"{kmin}B\", kmax = \"{kmax}B\", pmax = {pmax} }}]")
    };
    let marks = |ecn: String| collision(UNMOVED, &[("switch.ecn", &ecn)]).1;
    // The mean queue of a packet is half of the peak: 0.5 · 1.048 MB / 4.192 MB of 4000 packets.
    let found = marks(ecn(0, 4_192_000, 0.5));
    assert!((found - 500.0).abs() < 4.0 * 21.0, "{found}");
    // A step in the middle: those that leave more than half of the peak behind.
    let found = marks(ecn(1_048_000, 1_048_000, 1.0));
    assert!((found - 2_000.0).abs() <= 4.0, "{found}");
    assert_eq!(marks(ecn(2_097_000, 2_097_000, 1.0)), 0.0);
    assert_eq!(marks("[]".into()), 0.0);
}

#[test]
fn a_marked_sender_slows_down() {
    let off = [("switch.ecn", "[]")];
    for transport in ["kind = \"dcqcn\"", "kind = \"dctcp\"\nwindow = false"] {
        let (unmarked, _) = collision(transport, &off);
        let (marked, marks) = collision(transport, &[]);
        // 4000 packets one after another, and two links: no slower, but for marks.
        let back_to_back = 4_001 * 83_840 + 4 * US + 2 * 4_800;
        assert!(unmarked <= back_to_back, "{transport}: {unmarked}");
        assert!(marks > 0.0 && marked > unmarked, "{transport}: {marks} marks, {marked} ps");
    }
}

#[test]
fn hpcc_finds_its_target_utilization_in_the_telemetry() {
    for (eta, bottleneck) in [(0.95, 100), (0.8, 100), (0.95, 25)] {
        let network = format!(
            "duration = \"3ms\"\n[network]\nkind = \"dumbbell\"\nleft = 1\nright = 1\nbottleneck_rate = \"{bottleneck}Gbps\"\n\
             [measure]\nlinks = [\"s0->s1\"]\nqueues = [\"s0->s1\"]\n[[traffic]]\nkind = \"long\"\nsrc = [\"h0\"]\ndst = \"h1\"\n"
        );
        let mut sim = build(&network, &format!("kind = \"hpcc\"\neta = {eta}"));
        sim.run(3_000 * US, u64::MAX);
        let samples = sim.take_samples();
        let of =
            |index: u32| samples.iter().filter(move |s| s.series == index && s.time_ps > 1_000 * US).map(|s| s.value);
        let names = sim.series_names();
        let (queue, link) = (
            names.iter().position(|n| n.starts_with("queue")).unwrap() as u32,
            names.iter().position(|n| n.starts_with("util")).unwrap() as u32,
        );
        let used = of(link).sum::<f64>() / of(link).count() as f64;
        let queued = of(queue).sum::<f64>() / of(queue).count() as f64;
        // The additive increase lifts it a little.
        assert!((eta - 0.02..eta + 0.02).contains(&used), "η = {eta} at {bottleneck} Gb/s: {used}");
        assert!(queued < 2_000.0, "η = {eta} at {bottleneck} Gb/s: {queued} B");
    }
}

#[test]
fn hpcc_empties_a_queue_it_is_told_of() {
    // Two flows start at line rate: the queue they leave is gone after some round trips.
    let text = format!(
        "{}[measure]\ninterval = \"1us\"\nqueues = [\"s0->h2\"]\n[[traffic]]\nkind = \"long\"\nsrc = [\"h0\", \"h1\"]\ndst = \"h2\"\n",
        star(3)
    );
    let mut sim = build(&text, "kind = \"hpcc\"");
    sim.run(1_000 * US, u64::MAX);
    let queue = series(&mut sim, &["queue s0->h2"]).remove(0);
    let peak = queue.iter().fold(0.0, |a: f64, s| a.max(s.value));
    let late = queue.iter().filter(|s| s.time_ps > 100 * US).map(|s| s.value);
    let mean = late.clone().sum::<f64>() / late.count() as f64;
    assert!(peak > 30_000.0 && mean < peak / 10.0, "peak {peak} B, later {mean} B");
}

#[test]
fn rcp_gives_max_min_shares_of_two_bottlenecks() {
    // A crosses the link of 10 Gb/s, C that of 4, B both: of 95%, B and C get 1.9 Gb/s each, A what B leaves.
    let links = [
        ("a", "s0", 40, 5),
        ("b", "s0", 40, 5),
        ("s0", "s1", 10, 5),
        ("x", "s1", 40, 5),
        ("c", "s1", 40, 5),
        ("s1", "s2", 4, 5),
        ("y", "s2", 40, 5),
        ("z", "s2", 40, 5),
    ];
    let text = format!(
        "{}[measure]\nrates = [\"s0->s1\", \"s1->s2\"]\nqueues = [\"s0->s1\", \"s1->s2\"]\n{}{}{}",
        chart("10ms", &["s0", "s1", "s2"], &links),
        long("a", "x", ""),
        long("b", "y", "start = \"1ms\""),
        long("c", "z", "start = \"2ms\""),
    );
    for form in ["refined", "estimate"] {
        let mut sim = build(&text, &format!("kind = \"rcp\"\nform = \"{form}\""));
        sim.run_to_end();
        let names = ["rate s0->s1", "rate s1->s2", "queue s0->s1", "queue s1->s2"];
        let found = series(&mut sim, &names);
        let late = |samples| mean(samples, 6_000 * US, 10_000 * US);
        let full = if form == "refined" { 0.95 } else { 1.0 };
        let shares = [late(&found[0]) / (full * 8e9), late(&found[1]) / (full * 2e9)];
        assert!(shares.iter().all(|share| (share - 1.0).abs() < 0.03), "{form}: {shares:?}");
        assert!(found[2..].iter().all(|queue| late(queue) < 10_000.0), "{form}");
    }
}

#[test]
fn every_kind_of_network_runs_to_its_end() {
    let file = TempFile::new(
        "7 2 6\n2 5\n0 2 100Gbps 1us 0\n1 2 100Gbps 1us 0\n3 5 100Gbps 1us 0\n4 5 25Gbps 0.001ms 0\n6 5 100Gbps 1us 0\n2 5 400Gbps 0.002ms 0\n",
    );
    // Two servers with two GPUs each, two rails, a spine.
    let servers = TempFile::new(
        "9 2 2 3 10 H100\n4 5 6 7 8\n0 4 800Gbps 25ns 0\n1 4 800Gbps 25ns 0\n2 5 800Gbps 25ns 0\n3 5 800Gbps 25ns 0\n\
         0 6 100Gbps 500ns 0\n2 6 100Gbps 500ns 0\n1 7 100Gbps 500ns 0\n3 7 100Gbps 500ns 0\n\
         6 8 200Gbps 500ns 0\n7 8 200Gbps 500ns 0\n",
    );
    let links = "kind = \"links\"\nhosts = [\"h0\", \"h1\", \"h2\"]\nswitches = [\"a\", \"b\", \"c\"]\nlinks = [\
        { a = \"h0\", b = \"a\", rate = \"100Gbps\", delay = \"1us\" }, { a = \"h1\", b = \"b\", rate = \"40Gbps\", delay = \"3us\" },\
        { a = \"h2\", b = \"c\", rate = \"10Gbps\", delay = \"1us\" }, { a = \"a\", b = \"b\", rate = \"100Gbps\", delay = \"1us\" },\
        { a = \"b\", b = \"c\", rate = \"100Gbps\", delay = \"1us\" }, { a = \"c\", b = \"a\", rate = \"100Gbps\", delay = \"1us\" }]\n";
    let networks = [
        "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 3\n".to_string(),
        "kind = \"dumbbell\"\nbottleneck_rate = \"25Gbps\"\n".into(),
        links.into(),
        format!("kind = \"hpcc-file\"\nfile = \"{}\"\n", file.0.display()),
        format!("kind = \"simai-file\"\nfile = \"{}\"\n", servers.0.display()),
    ];
    let traffic = "[[traffic]]\nkind = \"background\"\nworkload = \"FB_Hadoop\"\nload = 0.4\n\
        [[traffic]]\nkind = \"incast\"\nfan_out = 2\nsize = \"20KB\"\nload = 0.1\n";
    for network in &networks {
        for transport in TRANSPORTS {
            for onramp in ["false", "true"] {
                let text = format!("duration = \"300us\"\n[network]\n{network}{traffic}");
                let mut set = vec![("onramp.enabled", onramp)];
                if transport.contains("nscc") || transport.contains("rccc") {
                    // Its 100 us are for queues of a round trip: PFC lets them be longer.
                    set.push(("host.recovery", "{ kind = \"rud\", rto = \"16ms\" }"));
                }
                let (flows, _, counters) = finish(build_with(&text, transport, &set));
                let name = format!("{network} {transport} onramp {onramp}");
                assert!(flows.len() > 5, "{name}");
                assert_eq!(counters["unfinished"]["flows"], 0, "{name}");
                assert_eq!(counters["unfinished"]["requests"], 0, "{name}");
                assert_eq!(number(&counters, "network", "drops"), 0.0, "{name}");
                // One path a flow: nothing is reordered, so nothing is sent twice. But NSCC's window may be cut below what
                // is in flight, none of which asks for its acknowledgement: the flow then waits for its timeout.
                let again = number(&counters, "network", "retransmitted_packets");
                let most = if transport.contains("nscc") { number(&counters, "network", "timeouts") } else { 0.0 };
                assert!(again <= most, "{name}: {again} sent again, {most} timeouts");
                for used in counters["network"]["utilization"].as_object().unwrap().values() {
                    assert!((0.0..=1.0).contains(&used.as_f64().unwrap()), "{name}: {used}");
                }
            }
        }
    }
}

#[test]
fn flows_spread_over_all_equal_paths_and_packets_of_one_do_not() {
    let text = |flows: usize| {
        let rows: Vec<String> =
            (0..flows).map(|i| format!("h{},h{},20000,{}", i % 8, 8 + i / 8 % 8, i * 500)).collect();
        let (file, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        let network =
            "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 8\n";
        (file, format!("{network}{traffic}"))
    };
    let shares = |flows| {
        let (_file, text) = text(flows);
        let (_, _, counters) = finish(build(&text, TRANSPORTS[0]));
        assert_eq!(number(&counters, "network", "retransmitted_packets"), 0.0);
        let used: Vec<f64> =
            (0..4).map(|i| counters["network"]["utilization"][format!("leaf0->spine{i}")].as_f64().unwrap()).collect();
        let sum: f64 = used.iter().sum();
        used.into_iter().map(|u| u / sum).collect::<Vec<_>>()
    };
    let many = shares(400);
    assert!(many.iter().all(|s| (0.15..0.35).contains(s)), "{many:?}");
    let mut one = shares(1);
    one.sort_by(f64::total_cmp);
    assert_eq!(one, [0.0, 0.0, 0.0, 1.0]);
}

const HALVES: (&str, &str) = ("switch.classes", "[{ weight = 1 }, { weight = 1 }]");

/// Mean utilization of links in a span.
fn used(text: &str, transport: &str, set: &[(&str, &str)], links: &[&str], span: std::ops::Range<Ps>) -> Vec<f64> {
    let named = format!("{links:?}");
    let mut sim = build_with(text, transport, &[set, &[("measure.links", named.as_str())]].concat());
    sim.run_to_end();
    let names: Vec<String> = links.iter().map(|link| format!("utilization {link}")).collect();
    let found = series(&mut sim, &names.iter().map(String::as_str).collect::<Vec<_>>());
    found.iter().map(|samples| mean(samples, span.start, span.end)).collect()
}

#[test]
fn weighted_classes_share_a_link_by_their_weights() {
    let text = format!("{}{}{}", star(3), long("h0", "h2", ""), long("h1", "h2", "class = 1"));
    for ratio in [1.0, 3.0, 0.25] {
        let classes = format!("[{{ weight = 1 }}, {{ weight = {ratio} }}]");
        let set = [("switch.classes", classes.as_str()), ("switch.ecn", "[]"), ("switch.buffer", "1MiB")];
        // Pauses hold each sender to what its class gets.
        let found = used(&text, UNMOVED, &set, &["h0->s0", "h1->s0", "s0->h2"], 300 * US..1_000 * US);
        assert!((found[1] / found[0] / ratio - 1.0).abs() < 0.02 && found[2] > 0.999, "{ratio}: {found:?}");
    }
}

#[test]
fn a_strict_class_keeps_its_delay_beside_one_that_saturates() {
    let rows: Vec<String> = (0..50).map(|i| format!("h1,h2,1000,{}", 100_000 + i * 7_013)).collect();
    let (_file, small) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let longest = |classes: &str, class: &str| {
        let big = long("h0", "h2", class) + &long("h3", "h2", class);
        let set = [("switch.classes", classes), ("switch.ecn", "[]"), ("time_limit", "3ms")];
        let (flows, _, _) = finish(build_with(&format!("{}{small}{big}", star(4)), UNMOVED, &set));
        let small = flows.iter().filter(|f| f.bytes == 1000);
        assert_eq!(small.clone().count(), 50);
        small.map(|f| f.receiver_fct_ps).max().unwrap()
    };
    let alone = 2 * 83_840 + 2 * US;
    // A packet that is being sent is finished.
    assert!(longest("[{}, { weight = 1 }]", "class = 1") <= alone + 83_840);
    // Of two strict ones, the first in the list.
    assert!(longest("[{}, {}]", "class = 1") <= alone + 83_840);
    // In turn with the other: a quantum, and what is being sent.
    let turns = longest("[{ weight = 1 }, { weight = 1 }]", "class = 1");
    assert!(turns > alone && turns <= alone + 2 * 83_840, "{turns}");
    assert!(longest("[{}, { weight = 1 }]", "class = 0") > 10 * alone);
}

#[test]
fn pfc_pauses_one_class_and_the_other_goes_on() {
    // `fast` sends to a slow host and to one that takes all it gets.
    let flows = |class| long("fast", "slow", "") + &long("fast", "other", &format!("class = {class}"));
    let found = |class| {
        let text = format!("{}{}", funnel(&["fast", "other"]), flows(class));
        let set = [HALVES, ("switch.ecn", "[]"), ("switch.buffer", "1MiB"), ("duration", "2ms")];
        used(&text, UNMOVED, &set, &["s->slow", "s->other"], 1_000 * US..2_000 * US)
    };
    let apart = found(1);
    assert!(apart[0] > 0.999 && (0.88..0.91).contains(&apart[1]), "{apart:?}");
    // In one class the pause holds both, and each gets as much as the slow one.
    let together = found(0);
    assert!(together[0] > 0.99 && together[1] < 0.15, "{together:?}");
}

#[test]
fn timely_runs_on_its_own_queue_beside_dctcp() {
    let timely = "transport = { kind = \"timely\" }\n";
    let text = |class: &str| {
        let dctcp = long("h0", "h2", "");
        format!("{}{dctcp}{}", star(3).replace("1ms", "20ms"), long("h1", "h2", &format!("{timely}{class}")))
    };
    let load = |class| {
        let text = format!("{}[transport]\nkind = \"dctcp\"\n", text(class));
        let set = [HALVES].map(|(k, v)| (k.to_string(), v.to_string()));
        onramp_sim::Scenario::load(&text, "s.toml", std::path::Path::new("/"), &set).unwrap().0
    };
    // Each queue marks as its transport wants.
    let classes = load("class = 1").switch.classes;
    let kmax = |i: usize| classes[i].ecn.as_ref().unwrap()[0].kmax.0;
    assert_eq!((kmax(0), kmax(1)), (300_000, 1_600_000));
    let shares = |class| {
        used(&text(class), "kind = \"dctcp\"", &[HALVES], &["h0->s0", "h1->s0", "s0->h2"], 5_000 * US..20_000 * US)
    };
    let apart = shares("class = 1");
    assert!(apart[2] > 0.95 && apart[0] > 0.45 && apart[1] > 0.4, "{apart:?}");
    // In one queue DCTCP alone heeds the marks.
    let together = shares("class = 0");
    assert!(together[0] < 0.1, "{together:?}");
}

#[test]
fn a_class_that_is_not_there_is_one_line() {
    let wrong = |switch: &str, class: &str| {
        let text = format!("{}{}{switch}[transport]\nkind = \"dcqcn\"\n", star(3), long("h0", "h1", class));
        let errors = onramp_sim::Scenario::load(&text, "s.toml", std::path::Path::new("/"), &[]).unwrap_err();
        errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let two = "[switch]\nclasses = [{ weight = 1 }, { weight = 3 }]\n";
    let class = "s.toml:8: traffic[0].class: ";
    assert_eq!(wrong("", "class = 1"), format!("{class}there is no class 1 in switch.classes: only 0 is there"));
    assert_eq!(wrong(two, "class = 2"), format!("{class}there is no class 2 in switch.classes: they are 0 to 1"));
    for class_is in ["-1", "256", "\"gold\""] {
        let found = wrong(two, &format!("class = {class_is}"));
        assert!(found.starts_with(class) && !found.contains('\n') && !found.contains("u8"), "{found}");
    }
    let found = wrong("[switch]\nclasses = [{ weight = 0 }]\n", "");
    assert!(found.contains("switch.classes[0].weight: 0 is outside 0.001 to 1000"), "{found}");
}

#[test]
fn a_lossy_queue_has_the_alpha_of_its_own_port() {
    // Alone, a queue gets α/(1 + α) of the buffer, by the α of the port it leaves by.
    for (slow, fast) in [(0.25, 1.0), (1.0, 0.25), (4.0, 0.25)] {
        let alpha = format!("[{{ rate = \"10Gbps\", alpha = {slow} }}, {{ rate = \"100Gbps\", alpha = {fast} }}]");
        let set = [
            ("switch.loss", "lossy"),
            ("switch.buffer", "600KB"),
            ("switch.alpha", &alpha),
            ("switch.ecn", "[]"),
            ("measure.interval", "100ns"),
            ("measure.queues", "[\"s->slow\"]"),
        ];
        let mut sim = build_with(&format!("{}{}", funnel(&["fast"]), long("fast", "slow", "")), UNMOVED, &set);
        sim.run(400 * US, u64::MAX);
        let peak = series(&mut sim, &["queue s->slow"])[0].iter().fold(0.0, |a: f64, s| a.max(s.value));
        let expected = 600e3 * slow / (1.0 + slow);
        assert!((expected - 1_048.0..=expected).contains(&peak), "α = {slow}: {peak} of {expected}");
        assert!(number(&common::counters(&sim), "network", "drops") > 0.0);
    }
}

#[test]
fn another_section_changes_no_path() {
    let text = "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 8\n";
    let spines: Vec<String> = (0..4).map(|i| format!("leaf0->spine{i}")).collect();
    let rows: Vec<String> = (0..60).map(|i| format!("h0,h8,20000,{}", i * 10_000)).collect();
    let (_file, across) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    // Before, between and after the others, but under the other leaf.
    let rows: Vec<String> = (0..200).map(|i| format!("h9,h10,1000,{}", i * 3_000)).collect();
    let (_other, within) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let paths = |text: String, seed| {
        let set = [("measure.links", format!("{spines:?}")), ("seed", seed)];
        let set = set.each_ref().map(|(k, v)| (*k, v.as_str()));
        let mut sim = build_with(&text, TRANSPORTS[0], &set);
        sim.run(600 * US, u64::MAX);
        sim.take_samples().iter().map(|s| (s.time_ps, s.series, s.value > 0.0)).collect::<Vec<_>>()
    };
    let alone = paths(format!("{text}{across}"), "1".to_string());
    assert!((0..4).all(|spine| alone.iter().any(|(_, s, used)| *s == spine && *used)), "one spine had none");
    assert_eq!(alone, paths(format!("{text}{across}{within}"), "1".to_string()));
    assert_ne!(alone, paths(format!("{text}{across}"), "2".to_string()), "the seed changes no path");
}

#[test]
fn delays_of_any_number_and_none_at_all_are_exact() {
    // More rates than there are lanes for their packets; the last ones of the list
    // have none. With and without a delay of their own.
    for delay in [0, 1] {
        let hosts: Vec<(String, u32)> = (0..40).map(|i| (format!("h{i}"), 100 - 2 * i)).collect();
        let links: Vec<_> = hosts.iter().map(|(name, rate)| (name.as_str(), "s", *rate, delay)).collect();
        let rows: Vec<String> = (0..39).map(|i| format!("h{i},h{},1000,{}", i + 1, i * 10_000)).collect();
        let (_file, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
        let (flows, _, _) = finish(build(&format!("{}{traffic}", chart("1ms", &["s"], &links)), TRANSPORTS[0]));
        let time = |bytes: u64, rate: u32| (bytes * 8_000).div_ceil(u64::from(rate));
        for (flow, pair) in flows.iter().zip(hosts.windows(2)) {
            let way = |bytes| time(bytes, pair[0].1) + time(bytes, pair[1].1) + 2 * u64::from(delay) * US;
            assert!(flow.receiver_fct_ps.abs_diff(way(1_048)) <= 2, "{flow:?}, expected {}", way(1_048));
            assert!(flow.fct_ps.abs_diff(way(1_048) + way(60)) <= 4, "{flow:?}");
        }
        assert_eq!(flows.len(), 39);
    }
}

#[test]
fn paths_are_chosen_by_packet_flowlet_or_queue_as_the_scenario_says() {
    let (_file, traffic) = trace(&["h0,h4,3000000,0"]);
    let text = format!(
        "duration = \"400us\"\nnetwork = {{ kind = \"leaf-spine\", spines = 4, hosts_per_leaf = 4 }}\n{traffic}"
    );
    let shares = |paths: &str| -> Vec<f64> {
        // Packets of one flow overtake each other, which TCP bears.
        let mut sim = build_with(&text, "kind = \"newreno\"", &[("switch.paths", paths)]);
        sim.run_to_end();
        let counters = common::counters(&sim);
        let sent: Vec<f64> =
            (0..4).map(|i| number(&counters["network"], "utilization", &format!("leaf0->spine{i}"))).collect();
        let all: f64 = sent.iter().sum();
        sent.iter().map(|share| share / all).collect()
    };
    let most = |shares: &[f64]| shares.iter().copied().fold(0.0, f64::max);
    assert!(most(&shares("{ kind = \"ecmp\" }")) > 0.99);
    for paths in ["{ kind = \"spray\" }", "{ kind = \"adaptive\" }", "{ kind = \"flowlet\", gap = \"1ns\" }"] {
        let found = shares(paths);
        assert!(most(&found) < 0.35, "{paths}: {found:?}");
    }
    assert!(most(&shares("{ kind = \"flowlet\", gap = \"1s\" }")) > 0.99);
}

#[test]
fn ingress_ports_that_drop_have_buffers_of_their_own_and_never_pause() {
    // Two senders fill their ports' reserves, all that they may have: their packets wait at one egress.
    let text = "duration = \"400us\"\nnetwork = { kind = \"star\", hosts = 3 }\n\
                [[traffic]]\nkind = \"long\"\nsrc = [\"h0\", \"h1\"]\ndst = \"h2\"\n";
    let set = [
        ("switch.loss", "lossy-ingress"),
        ("switch.reserve", "60KB"),
        ("switch.buffer", "181KB"),
        ("switch.ecn", "[]"),
        ("host.ack_class", "data"),
        ("measure.interval", "100ns"),
        ("measure.queues", "[\"s0->h2\"]"),
    ];
    let mut sim = build_with(text, "kind = \"dcqcn\"", &set);
    sim.run(400 * US, u64::MAX);
    let peak = series(&mut sim, &["queue s0->h2"])[0].iter().fold(0.0, |a: f64, s| a.max(s.value));
    assert!((116e3..=121e3).contains(&peak), "{peak} of 120 KB");
    let counters = common::counters(&sim);
    assert!(number(&counters, "network", "drops") > 100.0);
    assert_eq!(number(&counters, "network", "pfc_pauses"), 0.0);
}

const GO_BACK_N: &str = "{ kind = \"go-back-n\" }";
const SELECTIVE: &str = "{ kind = \"selective-repeat\" }";

#[test]
fn selective_repeat_sends_again_little_more_than_what_is_lost() {
    let text = format!("{SMALL_FAT_TREE}{LOADED}");
    let run = |recovery| {
        let set =
            [("switch.loss", "lossy"), ("switch.buffer", "100KB"), ("host.rto", "320us"), ("host.recovery", recovery)];
        let mut sim = build_with(&text, "kind = \"dcqcn\"", &set);
        sim.run_to_end();
        let (counters, counts) = (common::counters(&sim), sim.packet_counts());
        assert_eq!(counts.sent, counts.delivered + counts.dropped + counts.in_flight);
        assert_eq!(counters["unfinished"]["flows"], 0);
        ["drops", "retransmitted_packets"].map(|key| number(&counters, "network", key))
    };
    let [drops, again] = run(SELECTIVE);
    // Of ACKs that were dropped nothing is sent again, of packets whose timeout was too early something is.
    assert!(drops > 100.0 && again > 0.8 * drops && again < 1.2 * drops, "{again} for {drops}");
    let [drops, again] = run(GO_BACK_N);
    assert!(again > 1.7 * drops, "{again} for {drops}");
}

#[test]
fn without_losses_selective_repeat_is_go_back_n() {
    let (_file, traffic) = trace(&["h0,h4,300000,0", "h1,h5,1,500", "h2,h0,20000,900"]);
    let text = format!("duration = \"400us\"\nnetwork = {{ kind = \"star\", hosts = 8 }}\n{traffic}");
    let flows = |recovery| finish(build_with(&text, "kind = \"dcqcn\"", &[("host.recovery", recovery)])).0;
    assert_eq!(flows(SELECTIVE), flows(GO_BACK_N));
}

#[test]
fn hpcc_keeps_sprayed_paths_busy_and_times_out_on_none() {
    let network = "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 4\nhosts_per_leaf = 4\n\
                   fabric_rate = \"100Gbps\"\n[switch]\npaths = { kind = \"spray\" }\n[host]\npayload = \"4096B\"\n";
    let rows: Vec<String> = (0..4).map(|n| format!("h{n},h{},4000000,0", 4 + n)).collect();
    let (_file, flows) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let slowest = |transport: &str, recovery: &str| {
        let set = [("host.recovery", recovery)];
        let (flows, _, counters) = finish(build_with(&format!("{network}{flows}"), transport, &set));
        assert_eq!(counters["network"]["timeouts"].as_u64(), Some(0), "{transport}, {recovery}");
        flows.iter().map(|flow| flow.fct_ps).max().unwrap()
    };
    for recovery in ["{ kind = \"selective-repeat\", reorder = 64 }", "{ kind = \"rud\" }"] {
        let (dcqcn, hpcc) =
            (slowest("kind = \"dcqcn\"\nwindow = true", recovery), slowest("kind = \"hpcc\"", recovery));
        assert!(2 * hpcc < 3 * dcqcn, "{recovery}: {hpcc} for {dcqcn}");
    }
}

#[test]
fn choices_of_paths_do_not_depend_on_cells() {
    for paths in ["{ kind = \"spray\" }", "{ kind = \"adaptive\" }", "{ kind = \"flowlet\", gap = \"5us\" }"] {
        let transports =
            [("kind = \"dcqcn\"", SELECTIVE), ("kind = \"hpcc\"", SELECTIVE), ("kind = \"cubic\"", GO_BACK_N)];
        for (transport, recovery) in transports {
            let run = |one_cell, threads| {
                let options = Options { one_cell, ..Options::default() };
                let mut set = vec![("switch.paths", paths), ("host.recovery", recovery), ("time_limit", "2ms")];
                if transport.contains("cubic") {
                    set.push(("linux.buffer_packets", "100"));
                }
                let mut sim = build_as(&options, &format!("{SMALL_FAT_TREE}{LOADED}"), transport, &set);
                sim.set_threads(threads);
                sim.run_to_end();
                (sim.take_flows(), common::counters(&sim))
            };
            let alone = run(true, 1);
            assert_eq!(run(false, 2), alone, "{paths}, {transport}");
        }
    }
}

#[test]
fn a_storm_starves_a_victim_that_shares_no_link_with_the_storming_host_while_it_lasts() {
    // h0 sends to h2, which storms from 1 to 2 ms; h1's flow to h3 meets it on s0->s1 only, which both together fill.
    let text = |to: &str| {
        let network = "network = { kind = \"dumbbell\", bottleneck_rate = \"200Gbps\" }\n";
        format!("duration = \"3ms\"\n{network}{}{}", long("h0", to, ""), long("h1", "h3", ""))
    };
    let set = [
        ("switch.buffer", "1MB"),
        ("switch.ecn", "[]"),
        ("host.storms", "[{ hosts = [\"h2\"], start = \"1ms\", stop = \"2ms\" }]"),
    ];
    let victim = |to, from, until| used(&text(to), UNMOVED, &set, &["s1->h3"], from * US..until * US)[0];
    assert!(victim("h2", 100, 1_000) > 0.99);
    assert!(victim("h2", 1_200, 2_000) < 0.01);
    assert!(victim("h2", 2_100, 3_000) > 0.99);
    // Without traffic for the host that storms nobody waits.
    assert!(victim("h3", 1_200, 2_000) > 0.99);
}

/// Five switches in a ring, each with a host; `sending` hosts send 20 MB each to the second next one, which is nearer
/// one way round. Nothing slows a sender down but PFC.
fn ring(sending: &[u32]) -> (TempFile, Simulation) {
    let quoted = |kind: &str| (0..5).map(|i| format!("\"{kind}{i}\"")).collect::<Vec<_>>().join(", ");
    let link = |a: String, b: String| format!("{{ a = \"{a}\", b = \"{b}\", rate = \"100Gbps\", delay = \"1us\" }}");
    let links: Vec<String> = (0..5)
        .flat_map(|i| [link(format!("h{i}"), format!("s{i}")), link(format!("s{i}"), format!("s{}", (i + 1) % 5))])
        .collect();
    let rows: Vec<String> = sending.iter().map(|i| format!("h{i},h{},20000000,0", (i + 2) % 5)).collect();
    let (file, traffic) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let network = format!(
        "duration = \"1ms\"\ntime_limit = \"20ms\"\n[network]\nkind = \"links\"\nhosts = [{}]\nswitches = [{}]\nlinks = [{}]\n",
        quoted("h"),
        quoted("s"),
        links.join(", ")
    );
    let sim = build_with(&format!("{network}{traffic}"), UNMOVED, &[("switch.buffer", "1MB"), ("switch.ecn", "[]")]);
    (file, sim)
}

#[test]
fn flows_that_overlap_all_around_a_ring_deadlock_and_the_circle_is_named() {
    let (_file, sim) = ring(&[0, 1, 2, 3, 4]);
    let (flows, _, counters) = finish(sim);
    assert_eq!(counters["network"]["pfc_deadlock"], "s0->s1->s2->s3->s4->s0");
    assert!(flows.is_empty(), "{flows:?}");
    assert_eq!(number(&counters, "network", "drops"), 0.0);
}

#[test]
fn the_same_ring_without_a_circle_of_flows_pauses_and_goes_on() {
    let (_file, sim) = ring(&[0, 1, 2]);
    let (flows, _, counters) = finish(sim);
    assert!(counters["network"].get("pfc_deadlock").is_none(), "{}", counters["network"]);
    assert!(number(&counters, "network", "pfc_pauses") > 0.0);
    assert_eq!(flows.len(), 3);
}
