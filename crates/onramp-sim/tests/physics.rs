//! Tests that fail if packets do not move as they must.

mod common;

use common::*;
use onramp_sim::units::{MS, Ps, US};

/// When packets that start at `times` have fully left the last of `hops` (rate
/// in bit/s, delay in ps), each sending in order and only whole packets:
/// computed without events.
fn arrivals(mut times: Vec<Ps>, sizes: &[u64], hops: &[(u64, Ps)]) -> Vec<Ps> {
    for (rate, delay) in hops {
        let mut free = 0;
        for (time, size) in times.iter_mut().zip(sizes) {
            free = free.max(*time) + size * 8 * 1_000_000_000_000 / rate;
            *time = free + delay;
        }
    }
    times
}

#[test]
fn one_flow_on_an_empty_network_takes_exactly_the_ideal_time() {
    const G: u64 = 1_000_000_000;
    let near = vec![(100 * G, US); 2];
    let far = vec![(100 * G, US), (400 * G, US), (400 * G, US), (400 * G, US), (400 * G, US), (100 * G, US)];
    for transport in TRANSPORTS {
        let (header, ack) = match *transport {
            t if t.contains("hpcc") => (90, 88),
            t if t.contains("timely") || t.contains("swift") => (56, 60),
            t if t.contains("nscc") || t.contains("rccc") => (64, 64),
            t if t.contains("rcp") => (64, 76),
            t if t.contains("xcp") => (68, 80),
            _ => (48, 60),
        };
        for (dst, hops) in [("h1", &near), ("h31", &far)] {
            for bytes in [1u64, 1000, 1001, 10_500, 123_456] {
                let (_file, traffic) = trace(&[&format!("h0,{dst},{bytes},5000")]);
                let (flows, _, _) = finish(build(&format!("{SMALL_FAT_TREE}{traffic}"), transport));
                let packets = bytes.div_ceil(1000);
                let sizes: Vec<u64> = (0..packets).map(|i| (bytes - i * 1000).min(1000) + header).collect();
                let data = arrivals(vec![0; sizes.len()], &sizes, hops);
                let acks = arrivals(data.clone(), &vec![ack; sizes.len()], hops);
                let name = format!("{transport} {bytes} B to {dst}");
                assert_eq!(flows[0].start_ps, 5 * US, "{name}");
                // HPCC aims at 95% of the link, so it slows down after one round trip; Swift begins with 15 packets,
                // RCP and XCP with one.
                let most = match *transport {
                    t if t.contains("hpcc") || t.contains("swift") => 10_500,
                    t if t.contains("rcp") || t.contains("xcp") => 1000,
                    // Acknowledgements of later packets wait for packets of credit.
                    t if t.contains("rccc") || t.contains("credit") => 1000,
                    _ => u64::MAX,
                };
                if bytes <= most {
                    assert_eq!(Some(&flows[0].receiver_fct_ps), data.last(), "{name}");
                    assert_eq!(Some(&flows[0].fct_ps), acks.last(), "{name}");
                }
            }
        }
    }
}

#[test]
fn no_packet_is_lost_or_made_up() {
    for loss in ["pfc", "lossy", "lossy-ingress"] {
        for transport in TRANSPORTS {
            for onramp in ["false", "true"] {
                let set = [
                    ("switch.loss", loss),
                    ("switch.buffer", "3MiB"),
                    ("onramp.enabled", onramp),
                    ("onramp.ack", "separate"),
                    ("onramp.ack_every", "3"),
                    ("host.rto", "200us"),
                ];
                let mut sim = build_with(&format!("{SMALL_FAT_TREE}{LOADED}"), transport, &set);
                let mut looks = 0;
                in_steps(&mut sim, 37 * US, |sim| {
                    let n = sim.packet_counts();
                    assert_eq!(n.sent, n.delivered + n.dropped + n.in_flight, "{loss} {transport} {n:?}");
                    looks += 1;
                });
                let n = sim.packet_counts();
                assert!(looks > 8 && n.sent > 10_000, "{looks} looks, {n:?}");
                assert_eq!(sim.flows_started(), sim.flows_finished(), "{loss} {transport}: every flow ends");
            }
        }
    }
}

#[test]
fn a_host_that_is_slow_delays_and_drops_and_nothing_is_lost_or_made_up() {
    for (i, transport) in TRANSPORTS.iter().enumerate() {
        let spread = ["fixed", "exponential"][i % 2];
        let slow = format!("[{{ time = \"150ns\", spread = \"{spread}\", ring = 20 }}]");
        let set = [("host.processing", slow.as_str()), ("onramp.enabled", "true"), ("host.rto", "200us")];
        let mut sim = build_with(&format!("{SMALL_FAT_TREE}{LOADED}"), transport, &set);
        in_steps(&mut sim, 37 * US, |sim| {
            let n = sim.packet_counts();
            assert_eq!(n.sent, n.delivered + n.dropped + n.in_flight, "{transport} {n:?}");
        });
        assert_eq!(sim.flows_started(), sim.flows_finished(), "{transport}: every flow ends");
        assert!(common::counters(&sim)["network"]["endpoint_drops"].as_u64().unwrap() > 0, "{transport}");
    }
}

#[test]
fn tcp_and_rdma_share_a_network_and_nothing_is_lost_or_made_up() {
    for transport in ["dcqcn", "timely", "dctcp", "swift"] {
        for onramp in ["false", "true"] {
            let both = loaded_beside(transport);
            let set = [("linux.buffer", "60KB"), ("onramp.enabled", onramp), ("host.rto", "200us")];
            let mut sim = build_with(&format!("{SMALL_FAT_TREE}{both}"), TCP[1], &set);
            in_steps(&mut sim, 437 * US, |sim| {
                let n = sim.packet_counts();
                assert_eq!(n.sent, n.delivered + n.dropped + n.in_flight, "{transport} {n:?}");
            });
            assert!(sim.packet_counts().dropped > 0);
            assert_eq!(sim.flows_started(), sim.flows_finished(), "{transport}: every flow ends");
        }
    }
}

#[test]
fn pfc_pauses_and_nothing_is_dropped() {
    for transport in TRANSPORTS {
        let incast =
            "[[traffic]]\nkind = \"incast\"\nfan_out = 31\nsize = \"500KB\"\nload = 0.3\nscope = \"network\"\n";
        let set = [("switch.buffer", "2MiB")];
        let mut sim = build_with(&format!("{SMALL_FAT_TREE}{incast}"), transport, &set);
        in_steps(&mut sim, 20 * US, |sim| {
            let (used, size) = sim.fullest_buffer();
            assert!(used <= size, "{used} of {size}");
        });
        let counters = common::counters(&sim);
        assert_eq!(counters["network"]["drops"], 0, "{transport}");
        if ["window", "hpcc", "dctcp", "swift", "nscc", "rccc", "rcp", "xcp"]
            .iter()
            .all(|kind| !transport.contains(kind))
        {
            assert!(counters["network"]["pfc_pauses"].as_u64().unwrap() > 0, "{transport} never filled the buffer");
        }
    }
}

#[test]
fn a_lossy_network_drops_and_every_flow_still_ends() {
    for transport in TRANSPORTS {
        // XCP's flows begin with a packet, and take what there is.
        let buffer = if transport.contains("xcp") { "60KB" } else { "200KB" };
        let set = [("switch.loss", "lossy"), ("switch.buffer", buffer), ("host.rto", "100us")];
        let (flows, _, counters) = finish(build_with(&format!("{SMALL_FAT_TREE}{LOADED}"), transport, &set));
        assert!(counters["network"]["drops"].as_u64().unwrap() > 0, "{transport}");
        assert_eq!(counters["unfinished"]["flows"], 0, "{transport}");
        assert!(flows.iter().any(|f| f.retransmitted > 0), "{transport}");
    }
}

#[test]
fn equal_flows_share_a_link_fairly_in_the_long_run() {
    // The third flow comes when the others have shared the link for a while. Three that
    // nothing moves would be equal as well, held by pauses: so there may be none.
    // HPCC's additive increase (0.04 Gb/s) is small against the noise of its
    // telemetry (512 B units), so its rates wander for tens of milliseconds.
    let shares = |transport: &str| {
        let (duration, rate) = if transport.contains("hpcc") { (80, "100Gbps") } else { (40, "25Gbps") };
        let flow = |i: u32| long(&format!("h{i}"), "h3", &format!("start = \"{}ns\"", i * 1_237));
        let late = long("h2", "h3", &format!("start = \"{}ms\"", duration / 4));
        let star = format!("network = {{ kind = \"star\", hosts = 4, host_rate = \"{rate}\" }}");
        let text = format!("duration = \"{duration}ms\"\n{star}\n{}{}{late}", flow(0), flow(1));
        let links = ["h0->s0", "h1->s0", "h2->s0", "s0->h3"];
        let set = [("measure.links", format!("{links:?}")), ("switch.buffer", "128MiB".to_string())];
        let mut sim = build_with(&text, transport, &set.each_ref().map(|(k, v)| (*k, v.as_str())));
        sim.run_to_end();
        let found = series(&mut sim, &links.map(|link| format!("utilization {link}")).each_ref().map(String::as_str));
        let used: Vec<f64> = found.iter().map(|s| mean(s, duration * MS / 2, duration * MS)).collect();
        (used, common::counters(&sim)["network"]["pfc_pauses"].as_u64().unwrap())
    };
    for transport in TRANSPORTS {
        let (used, pauses) = shares(transport);
        let sum: f64 = used[..3].iter().sum();
        let jain = sum * sum / (3.0 * used[..3].iter().map(|b| b * b).sum::<f64>());
        assert!(jain > 0.93 && pauses == 0, "{transport}: Jain's index {jain:.3}, {used:?}, {pauses} pauses");
        assert!(used[3] > 0.8, "{transport}: {used:?}");
    }
    let (_, pauses) = shares(&UNMOVED.replace("100Gbps", "25Gbps"));
    assert!(pauses > 0, "the buffer is too large to tell");
}

#[test]
fn onramp_does_not_change_an_arrival() {
    let arrivals = |onramp| {
        let sim = build_with(&format!("{SMALL_FAT_TREE}{LOADED}"), TRANSPORTS[0], &[("onramp.enabled", onramp)]);
        let (flows, _, counters) = finish(sim);
        let pauses = counters["onramp_stats"]["pauses"].as_u64().unwrap();
        let flows: Vec<_> = flows.iter().map(|f| (f.id, f.src, f.dst, f.bytes, f.start_ps, f.request)).collect();
        (flows, pauses)
    };
    let (without, none) = arrivals("false");
    let (with, pauses) = arrivals("true");
    assert!(none == 0 && pauses > 0, "On-Ramp held nothing, so the test shows nothing");
    assert_eq!(without, with);
}

#[test]
fn onramp_holds_the_delay_at_its_threshold_and_the_strawman_undershoots() {
    let senders: Vec<String> = (0..8).map(|i| format!("\"h{i}\"")).collect();
    let long = format!("[[traffic]]\nkind = \"long\"\nsrc = [{}]\ndst = \"h8\"\n", senders.join(", "));
    let text = format!("duration = \"20ms\"\nnetwork = {{ kind = \"star\", hosts = 9 }}\n{long}");
    let run = |transport, onramp, version| {
        let set = [("onramp.enabled", onramp), ("onramp.threshold", "30us"), ("onramp.version", version)];
        let (_, _, counters) = finish(build_with(&text, transport, &set));
        let link = counters["network"]["utilization"]["s0->h8"].as_f64().unwrap();
        let owd = &counters["onramp_stats"]["owd_us"];
        (owd["p50"].as_f64().unwrap(), owd["p99"].as_f64().unwrap(), link)
    };
    for transport in [TRANSPORTS[0], TRANSPORTS[2]] {
        let (_, tail, _) = run(transport, "false", "final");
        let (median, held_tail, used) = run(transport, "true", "final");
        assert!((20.0..45.0).contains(&median), "{transport}: median OWD {median} us, T = 30 us");
        assert!(held_tail < tail, "{transport}: p99 {held_tail} us, without {tail} us");
        let (_, _, strawman) = run(transport, "true", "strawman");
        assert!(used > 0.9 && strawman < used - 0.02, "{transport}: final {used}, strawman {strawman}");
    }
}
