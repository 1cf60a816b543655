//! Iterations that are skipped leave the same bytes as those that are simulated.

mod common;

use common::*;
use onramp_sim::Options;
use onramp_sim::units::US;
use proptest::prelude::*;

/// Everything that a run leaves, and what it says of skipping.
fn run(
    options: &Options,
    threads: usize,
    text: &str,
    transport: &str,
    set: &[(&str, &str)],
) -> (String, Option<String>) {
    let mut sim = build_as(options, text, transport, set);
    sim.set_threads(threads);
    // In steps, as a command does.
    while !sim.run(u64::MAX, 20_000) {}
    let rows = [
        format!("{:?}", sim.take_operations()),
        format!("{:?}", sim.take_collectives()),
        format!("{:?}{:?}", sim.take_exchanges(), sim.take_requests()),
        format!("{:?}{:?}", sim.take_flows(), sim.unfinished_flows()),
        format!("{:?}{:?}", sim.take_samples(), sim.goodput()),
        format!("{} {} {} {}", sim.now(), sim.flows_started(), sim.flows_finished(), sim.progress()),
        format!("{:?} {} {:?}", sim.packet_counts(), sim.packet_hops(), sim.fullest_buffer()),
        common::counters(&sim).to_string(),
        format!("{:?}", sim.links()),
    ];
    (rows.join("\n"), sim.skipping())
}

/// Line that a run says of skipping, once all outputs were compared with and without.
fn compared(text: &str, transport: &str, set: &[(&str, &str)]) -> String {
    let (simulated, nothing) = run(&Options { no_skip: true, ..Options::default() }, 1, text, transport, set);
    assert_eq!(nothing, None);
    let mut all = Vec::new();
    for (one_cell, threads) in [(false, 1), (true, 1), (false, 2)] {
        let (skipped, says) = run(&Options { one_cell, ..Options::default() }, threads, text, transport, set);
        let differs = skipped.lines().zip(simulated.lines()).find(|(a, b)| a != b);
        assert!(skipped == simulated, "{transport} {set:?}: {says:?}: {}", excerpt(differs));
        all.push(says.unwrap_or_default());
    }
    assert!(all.iter().all(|says| *says == all[0]), "{all:?}");
    all.swap_remove(0)
}

/// Where two lines differ.
fn excerpt(lines: Option<(&str, &str)>) -> String {
    let Some((a, b)) = lines else { return "another number of lines".into() };
    let at = a.bytes().zip(b.bytes()).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    let part = |text: &str| text[at.saturating_sub(150)..(at + 150).min(text.len())].to_string();
    format!("\n{}\n{}", part(a), part(b))
}

/// Iterations that a line says were skipped.
fn skipped(says: &str) -> u32 {
    says.split(' ').nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

const STAR: &str = "duration = \"1ms\"\nnetwork = { kind = \"star\", hosts = 4 }\n";
const SERVERS: &str = "duration = \"1ms\"\n[network]\nkind = \"servers\"\nservers = 4\ngpus = 2\nspines = 2\n";
const RACKS: &str = "duration = \"1ms\"\nnetwork = { kind = \"leaf-spine\", leaves = 4, hosts_per_leaf = 2 }\n";

const RING: &str = "operation = \"all-reduce\"\nsize = \"200KB\"";
const TREE: &str = "operation = \"all-reduce\"\nsize = \"100KB\"\nalgorithm = \"double-binary-tree\"";
const HALVING: &str = "operation = \"all-reduce\"\nsize = \"100KB\"\nalgorithm = \"halving-doubling\"";
const ALL_TO_ALL: &str = "operation = \"all-to-all\"\nsize = \"100KB\"";
const PAIRWISE: &str = "operation = \"all-to-all\"\nsize = \"100KB\"\nalgorithm = \"pairwise\"";
const RENDEZVOUS: &str = "operation = \"all-to-all\"\nsize = \"100KB\"\nalgorithm = \"pairwise-rendezvous\"";

/// Iterations that each compute before their collective.
fn job(keys: &str, repeat: u32) -> String {
    format!("[[traffic]]\nkind = \"collective\"\n{keys}\ncompute = \"40us\"\nrepeat = {repeat}\n")
}

const DCQCN: &str = "kind = \"dcqcn\"";

#[test]
fn collectives_skip_most_iterations() {
    for network in [STAR, RACKS, SERVERS] {
        for keys in [RING, TREE, HALVING, ALL_TO_ALL, PAIRWISE, RENDEZVOUS] {
            // Where both ends wait for each other it takes up to fifty iterations until one is as before.
            let repeat = if keys == RENDEZVOUS { 80 } else { 40 };
            let says = compared(&format!("{network}{}", job(keys, repeat)), DCQCN, &[]);
            // In servers ranks are never twice as far apart as before, since links have rates of all kinds.
            let few = if (network, keys) == (SERVERS, ALL_TO_ALL) { 0 } else { 20 };
            assert!(skipped(&says) >= few, "{network}{keys}: {says}");
        }
    }
}

#[test]
fn servers_in_cells_skip_too() {
    let network = "duration = \"1ms\"\n[network]\nkind = \"servers\"\nspines = 2\n";
    let says = compared(&format!("{network}{}", job(&format!("{RING}\ngroup = 16\nstride = 8"), 30)), DCQCN, &[]);
    assert!(skipped(&says) >= 20, "{says}");
}

#[test]
fn queue_pairs_that_keep_their_places_skip_too() {
    for (network, keys) in [(STAR, RING), (SERVERS, RING), (RACKS, ALL_TO_ALL)] {
        let set = [("host.shaper", "round-robin")];
        let says = compared(&format!("{network}{}", job(keys, 40)), DCQCN, &set);
        assert!(skipped(&says) >= 20, "{network}{keys}: {says}");
    }
}

#[test]
fn of_a_hundred_iterations_four_are_simulated() {
    let says = compared(&format!("{STAR}{}", job(RING, 100)), DCQCN, &[]);
    assert_eq!(says, "skipped 97 of 100 iterations, which are the same");
}

/// Packets that take whole nanoseconds to send, acknowledgements too: else transports that count nanoseconds see times
/// that differ by one until as many iterations have passed as it takes for a whole number of them.
const WHOLE_NS: &[(&str, &str)] = &[("host.payload", "902B")];

#[test]
fn each_transport_skips_or_says_why_not() {
    let count = |transport: &str, repeat, set| compared(&format!("{STAR}{}", job(RING, repeat)), transport, set);
    for transport in [DCQCN, "kind = \"dcqcn\"\nwindow = true", "kind = \"dctcp\""] {
        let says = count(transport, 30, &[]);
        assert!(skipped(&says) >= 25, "{transport}: {says}");
    }
    // Swift's window grows for long if nothing bounds it.
    for transport in ["kind = \"timely\"", "kind = \"swift\"\nmax_window = 20.0", "kind = \"nscc\""] {
        let says = count(transport, 400, WHOLE_NS);
        assert!(skipped(&says) >= 200, "{transport}: {says}");
    }
    for (transport, why) in [
        ("kind = \"hpcc\"", "counters of ports"),
        ("kind = \"rcp\"", "switches measure for RCP"),
        ("kind = \"xcp\"", "switches measure for XCP"),
        ("kind = \"rccc\"", "credit"),
        ("kind = \"cubic\"", "the order of simultaneous packets is drawn from the time"),
        ("kind = \"bbr\"", "the order of simultaneous packets is drawn from the time"),
    ] {
        let says = count(transport, 10, &[]);
        assert!(says.starts_with("skipped none of 10 iterations: ") && says.contains(why), "{transport}: {says}");
    }
}

#[test]
fn what_draws_or_depends_on_the_time_skips_nothing_and_says_why() {
    let text = format!("{RACKS}{}", job(RING, 12));
    for (set, why) in [
        (("switch.paths", "{ kind = \"spray\" }"), "random numbers were drawn in each"),
        (("switch.paths", "{ kind = \"adaptive\" }"), "random numbers were drawn in each"),
        (("host.entropy", "{ kind = \"spray\" }"), "random numbers were drawn in each"),
        // It remembers what it has drawn.
        (("host.entropy", "{ kind = \"reps\" }"), "no state came again"),
        (("host.shaper", "carousel"), "host.shaper"),
        (("host.recovery", "{ kind = \"selective-repeat\" }"), "selective repeat"),
        (("measure.queues", "[\"leaf0->h0\"]"), "recorded over time"),
        (("measure.rtt", "true"), "measure.rtt"),
        (("measure.messages", "true"), "measure.messages"),
        (("measure.pauses", "true"), "measure.pauses"),
        (("traffic.0.noise", "1us"), "traffic.noise"),
    ] {
        let says = compared(&text, DCQCN, &[set]);
        assert!(says.starts_with("skipped none of 12 iterations: ") && says.contains(why), "{set:?}: {says}");
    }
    let busy = format!("{STAR}{}", job(RING, 12).replace("compute = \"40us\"", ""));
    assert!(compared(&busy, DCQCN, &[]).contains("never at rest"));
}

#[test]
fn choices_that_draw_nothing_skip() {
    let text = format!("{RACKS}{}", job(RING, 40));
    // Flowlets stay while a job computes for less than their gap.
    for set in [
        ("switch.paths", "{ kind = \"flowlet\", gap = \"1ms\" }"),
        ("switch.loss", "lossy"),
        ("warmup", "333us"),
        ("measure.interval", "700ns"),
    ] {
        let says = compared(&text, DCQCN, &[set]);
        assert!(skipped(&says) >= 20, "{set:?}: {says}");
    }
    let says = compared(&format!("{STAR}{}", job(RING, 40)), DCQCN, &[("host.recovery", "{ kind = \"rud\" }")]);
    assert!(skipped(&says) >= 20, "{says}");
}

#[test]
fn on_ramp_skips_where_iterations_take_whole_nanoseconds() {
    let set = [WHOLE_NS, &[("onramp.enabled", "true"), ("clock.sync", "gaussian"), ("clock.sigma", "200ns")]].concat();
    let says = compared(&format!("{STAR}{}", job(ALL_TO_ALL, 200)), DCQCN, &set);
    assert!(skipped(&says) >= 100, "{says}");
}

#[test]
fn a_run_that_ends_at_a_time_ends_there() {
    let text = format!("{STAR}{}", job(RING, 1000));
    for limit in ["3100us", "7777777ns"] {
        let says = compared(&text, DCQCN, &[("time_limit", limit)]);
        assert!(skipped(&says) >= 10, "{says}");
    }
    // A program that stops meanwhile, and goes on.
    let steps = |no_skip| {
        let mut sim = build_as(&Options { no_skip, ..Options::default() }, &text, DCQCN, &[]);
        let ends = (1..20).map(|step| {
            sim.run(step * 333 * US, u64::MAX);
            (sim.now(), sim.flows_finished(), sim.packet_hops())
        });
        ends.collect::<Vec<_>>()
    };
    assert_eq!(steps(false), steps(true));
}

const SIMAI: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 8 ga: 1 all_gpus: 8 \
    checkpoints: 0 checkpoint_initiates: 0\n2\n\
    embedding -1 10000 ALLREDUCE 100000 20000 NONE 0 30000 ALLREDUCE 500000 1\n\
    mlp -1 0 ALLTOALL_EP 9000 0 NONE 0 7000 REDUCESCATTER_DP_EP 60000 1\n";

#[test]
fn a_trace_of_a_job_skips() {
    let file = TempFile::new(SIMAI);
    let name = file.0.display();
    let traffic = format!("[[traffic]]\nkind = \"program\"\nformat = \"simai\"\nfile = \"{name}\"\nrepeat = 60\n");
    for latency in ["0us", "2us"] {
        for network in [RACKS, SERVERS] {
            let says = compared(&format!("{network}{traffic}send_latency = \"{latency}\"\n"), DCQCN, &[]);
            assert!(skipped(&says) >= 10, "{latency} {network}: {says}");
        }
    }
}

#[test]
fn jobs_beside_each_other_skip_if_they_come_together_again() {
    let second = job(TREE, 80).replace("compute = \"40us\"", "hosts = [\"h2\", \"h3\"]\ncompute = \"10us\"");
    let first = job(RING, 40).replace("compute", "hosts = [\"h0\", \"h1\"]\ncompute");
    let says = compared(&format!("{STAR}{first}{second}"), DCQCN, &[]);
    assert!(skipped(&says) > 0, "{says}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_depends_on_skipping(
        network in 0usize..3,
        keys in 0usize..6,
        transport in 0usize..5,
        compute in 5u64..120_000,
        repeat in 2u32..60,
        packets in 1u64..40,
        latency in 0u64..3,
        rto in 30u64..400,
        interval in 500u64..20_000,
        // What is dropped is retransmitted; with marks above one threshold, nothing is drawn.
        buffer in 50u64..400,
        kmin in 5u64..50,
        loss in any::<bool>(),
        seed in any::<u32>(),
    ) {
        let keys = [RING, TREE, HALVING, ALL_TO_ALL, PAIRWISE, RENDEZVOUS][keys].replace("00KB", &format!("{packets}31B"));
        let text = format!("{}{}send_latency = \"{latency}us\"\n", [STAR, RACKS, SERVERS][network], job(&keys, repeat));
        let text = text.replace("40us", &format!("{compute}ns"));
        let (rto, interval, seed) = (format!("{rto}us"), format!("{interval}ns"), seed.to_string());
        let step = |rate: &&str| {
            format!("{{ rate = \"{rate}\", kmin = \"{kmin}KB\", kmax = \"{kmin}KB\", pmax = 1.0 }}")
        };
        let rates: &[&str] = [&["100Gbps"][..], &["100Gbps", "400Gbps"], &["400Gbps", "800Gbps", "3600Gbps"]][network];
        let ecn = format!("[{}]", rates.iter().map(step).collect::<Vec<_>>().join(", "));
        let buffer = format!("{buffer}KB");
        let mut set = vec![("host.rto", rto.as_str()), ("measure.interval", &interval), ("seed", &seed), ("switch.ecn", &ecn)];
        if loss {
            set.extend([("switch.loss", "lossy"), ("switch.buffer", &buffer)]);
        }
        compared(&text, TRANSPORTS[[0, 1, 4, 6, 7][transport]], &set);
    }
}
