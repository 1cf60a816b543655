//! Against what others have computed: queueing theory, fair shares, and pen and paper.

mod common;

use common::*;
use onramp_sim::units::{MS, Ps, US};

/// A full packet of 9000 B on a 10 Gb/s link, and its ACK.
const SERVICE: Ps = 9_048 * 800;
const ACK_SERVICE: Ps = 60 * 800;

#[test]
fn a_port_with_poisson_arrivals_of_equal_packets_is_an_m_d_1_queue() {
    // 20 hosts on either side send flows of one packet to hosts anywhere, each a few
    // per mille of its own link, so that what meets at the link between the sides is
    // Poisson. Its ACKs are 0.7% of its load, and make the mean wait 0.7% shorter than
    // that of equal packets.
    let sizes = TempFile::new("8999 0\n9000 100\n");
    for (rho, tolerance) in [(0.5, 0.03), (0.8, 0.05)] {
        let arrivals = rho / (SERVICE + ACK_SERVICE) as f64 * 1e12;
        // Of a host's flows, 20 in 39 cross.
        let load = arrivals * (39.0 / 20.0) / 20.0 * 9_000.0 * 8.0 / 100e9;
        let (mut sum, mut count) = (0.0, 0.0);
        for seed in ["1", "2", "3"] {
            let text = format!(
                "duration = \"500ms\"\n[network]\nkind = \"dumbbell\"\nleft = 20\nright = 20\nbottleneck_rate = \"10Gbps\"\n\
                 [[traffic]]\nkind = \"background\"\nworkload = \"{}\"\nload = {load}\n",
                sizes.0.display()
            );
            let (flows, _, _) = finish(build_with(&text, UNMOVED, &[("host.payload", "9000B"), ("seed", seed)]));
            let empty = SERVICE + 2 * SERVICE / 10 + 3 * US;
            let across = flows.iter().filter(|f| f.src < 20 && f.dst >= 20);
            let waits: Vec<f64> = across.map(|f| (f.receiver_fct_ps as f64 - empty as f64) / SERVICE as f64).collect();
            sum += waits.iter().sum::<f64>();
            count += waits.len() as f64;
        }
        assert!(count > 100_000.0 * rho, "{count}");
        let (found, expected) = (sum / count, rho / (2.0 * (1.0 - rho)));
        assert!((found / expected - 1.0).abs() < tolerance, "ρ = {rho}: {found} services, expected {expected}");
    }
}

/// Flows over a chain of three links, 40, 100 and 60 Gb/s: one over all, one over the
/// first, two over the second, one over the last two.
const CHAIN: &[(&str, &str, u32, u32)] = &[
    ("a", "b", 40, 1),
    ("b", "c", 100, 1),
    ("c", "d", 60, 1),
    ("all", "a", 100, 1),
    ("first", "a", 100, 1),
    ("second", "b", 100, 1),
    ("third", "b", 100, 1),
    ("all2", "d", 100, 1),
    ("first2", "b", 100, 1),
    ("second2", "c", 100, 1),
    ("third2", "d", 100, 1),
];

#[test]
fn equal_weights_and_pauses_give_max_min_fair_shares() {
    // Filled up evenly: a->b is full at 20 for `all` and `first`; c->d has 40 left for
    // `third`, as has b->c, where `second` stops at the same 40.
    let shares = [("all", 20.0), ("first", 20.0), ("second", 40.0), ("third", 40.0)];
    let text = chart("6ms", &["a", "b", "c", "d"], CHAIN);
    let classes = "[switch]\nclasses = [{ weight = 1 }, { weight = 1 }, { weight = 1 }, { weight = 1 }]\necn = []\n";
    let flows: Vec<String> =
        (0..).zip(shares).map(|(i, (name, _))| long(name, &format!("{name}2"), &format!("class = {i}"))).collect();
    let links: Vec<String> = shares.iter().map(|(name, _)| format!("{name}->{}", &at(name))).collect();
    let mut sim = build_with(
        &format!("{text}{classes}{}", flows.concat()),
        UNMOVED,
        &[("measure.links", &format!("{links:?}")), ("switch.buffer", "8MiB")],
    );
    sim.run(6 * MS, u64::MAX);
    assert_eq!(common::counters(&sim)["network"]["drops"], 0);
    let names: Vec<String> = links.iter().map(|link| format!("utilization {link}")).collect();
    let found = series(&mut sim, &names.iter().map(String::as_str).collect::<Vec<_>>());
    for ((name, share), samples) in shares.iter().zip(&found) {
        let rate = mean(samples, 2 * MS, 6 * MS) * 100.0;
        assert!((rate / share - 1.0).abs() < 0.02, "{name}: {rate} Gb/s, expected {share}");
    }
}

/// The switch a host of the chain is on.
fn at(host: &str) -> &'static str {
    CHAIN.iter().find(|(a, ..)| *a == host).unwrap().1
}

#[test]
fn pauses_spread_to_a_victim_that_shares_only_a_link_on_the_way() {
    // Three hosts of s1 and two of s2 send to "sink" on s2. The victim's way, s1 to s2
    // to "free", has room for all: 400 Gb/s for 400.
    let host = |name| (name, "s1", 100, 1);
    let text = chart(
        "1ms",
        &["s1", "s2"],
        &[
            ("s1", "s2", 400, 1),
            host("a"),
            host("b"),
            host("c"),
            host("victim"),
            ("d", "s2", 100, 1),
            ("e", "s2", 100, 1),
            ("sink", "s2", 100, 1),
            ("free", "s2", 100, 1),
        ],
    );
    let incast: String = ["a", "b", "c", "d", "e"].iter().map(|h| long(h, "sink", "stop = \"1ms\"")).collect();
    let file = TempFile::new("src,dst,bytes,start_ns\nvictim,free,1000000,200000\n");
    let victim = format!("[[traffic]]\nkind = \"trace\"\nfile = \"{}\"\n", file.0.display());
    let fct = |more: &str, set: &[(&str, &str)]| {
        let set = [&[("switch.buffer", "2MiB"), ("switch.ecn", "[]"), ("host.rto", "10ms")], set].concat();
        let mut sim = build_with(&format!("{text}{incast}{victim}{more}"), UNMOVED, &set);
        sim.run(20 * MS, u64::MAX);
        let pauses = common::counters(&sim)["network"]["pfc_pauses"].as_u64().unwrap();
        (sim.take_flows().iter().find(|f| f.bytes == 1_000_000).unwrap().receiver_fct_ps, pauses)
    };
    let alone = 1_000 * 83_840 + 20_960 + 83_840 + 3 * US;
    let (paused, pauses) = fct("", &[("switch.loss", "pfc")]);
    assert!(pauses > 10 && paused > 3 * alone, "{pauses} pauses, {paused} ps, alone {alone}");
    // It waits at most for a packet of each other host at s1.
    let most = alone + 3 * 20_960 * 2;
    let (lossy, pauses) = fct("", &[("switch.loss", "lossy")]);
    assert!(pauses == 0 && lossy <= most, "{pauses} pauses, {lossy} ps, alone {alone}");
    let (apart, pauses) = fct("class = 1\n", &[("switch.classes", "[{ weight = 1 }, { weight = 1 }]")]);
    assert!(pauses > 10 && apart <= most, "{pauses} pauses, {apart} ps, alone {alone}");
}

#[test]
fn hpcc_keeps_its_target_when_the_bottleneck_moves() {
    // 60 Gb/s that no signal moves are first on a->b, then on b->c.
    let text = chart(
        "6ms",
        &["a", "b", "c"],
        &[
            ("a", "b", 100, 1),
            ("b", "c", 100, 1),
            ("src", "a", 100, 1),
            ("dst", "c", 100, 1),
            ("x", "a", 60, 1),
            ("x2", "b", 100, 1),
            ("y", "b", 60, 1),
            ("y2", "c", 100, 1),
        ],
    );
    let fixed = "transport = { kind = \"dcqcn\", min_rate = \"60Gbps\" }\n";
    let cross = [
        long("x", "x2", &format!("stop = \"3ms\"\n{fixed}")),
        long("y", "y2", &format!("start = \"3ms\"\nstop = \"6ms\"\n{fixed}")),
    ];
    let set = [("measure.links", "[\"a->b\", \"b->c\"]"), ("measure.queues", "[\"a->b\", \"b->c\"]")];
    let text = format!("{text}{}{}", long("src", "dst", ""), cross.concat());
    let mut sim = build_with(&text, "kind = \"hpcc\"", &set);
    sim.run(6 * MS, u64::MAX);
    let found = series(&mut sim, &["utilization a->b", "utilization b->c", "queue a->b", "queue b->c"]);
    for (i, (from, to)) in [(MS, 3 * MS), (4 * MS, 6 * MS)].into_iter().enumerate() {
        let (used, other) = (mean(&found[i], from, to), mean(&found[1 - i], from, to));
        assert!((0.93..0.97).contains(&used), "link {i}: {used}");
        // What is left by the fixed flow is the flow's own, on both links.
        assert!((0.33..0.37).contains(&other), "link {}: {other}", 1 - i);
        let queue = mean(&found[2 + i], from, to);
        assert!(queue < 5_000.0, "link {i}: {queue} B");
    }
}

#[test]
fn two_switches_by_hand() {
    // Packets of 1048 B: 83.84 ns at 100 Gb/s, 209.6 ns at 40 Gb/s; links of 1, 2, 1 us.
    let text = "duration = \"1ms\"\n[network]\nkind = \"dumbbell\"\nbottleneck_rate = \"40Gbps\"\nbottleneck_delay = \"2us\"\n";
    let (_file, traffic) = trace(&["h0,h2,3000,0", "h1,h3,3000,10"]);
    let (flows, _, _) = finish(build(&format!("{text}{traffic}"), "kind = \"dcqcn\""));
    //           at s0      from s0 on  at s1     at its host
    // h0's 1st  1083.84 ns    1083.84  3293.44      4377.28
    // h1's 1st  1093.84       1293.44  3503.04      4586.88
    // h0's 2nd  1167.68       1503.04  3712.64      4796.48
    // h1's 2nd  1177.68       1712.64  3922.24      5006.08
    // h0's 3rd  1251.52       1922.24  4131.84      5215.68
    // h1's 3rd  1261.52       2131.84  4341.44      5425.28
    assert_eq!(flows[0].receiver_fct_ps, 5_215_680);
    assert_eq!(flows[1].receiver_fct_ps, 5_425_280 - 10_000);
    // ACKs of 60 B meet nobody: 4.8 ns and 1 us, 12 ns and 2 us, 4.8 ns and 1 us.
    assert_eq!(flows[0].fct_ps, 5_215_680 + 4_021_600);
    assert_eq!(flows[1].fct_ps, 5_425_280 + 4_021_600 - 10_000);
}
