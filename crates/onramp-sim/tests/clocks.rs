//! Clocks that run on their own, synchronised over the simulated network.

mod common;

use common::*;
use onramp_sim::Simulation;
use onramp_sim::records::ClockRecord;
use onramp_sim::records::Sample;
use onramp_sim::units::{MS, Ps, US};

const DCQCN: &str = "kind = \"dcqcn\"";
const HUYGENS: &[(&str, &str)] = &[
    ("clock.sync", "huygens"),
    ("clock.window", "20ms"),
    ("clock.probe_interval", "100us"),
    ("clock.lead", "46ms"),
    ("clock.peers", "4"),
];
/// Five minutes beyond the fifteen in which the frequency is measured.
const NTP: &[(&str, &str)] = &[("clock.sync", "ntp"), ("clock.lead", "1200s")];

fn loaded(set: &[(&str, &str)]) -> Simulation {
    build_with(&format!("{SMALL_FAT_TREE}{LOADED}"), DCQCN, set)
}

fn with<'a>(set: &[(&'a str, &'a str)], more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    set.iter().chain(more).copied().collect()
}

/// Largest difference of two hosts' errors, and the largest uncertainty, in nanoseconds.
fn worst(records: &[ClockRecord]) -> (f64, f64) {
    let errors = records.iter().map(|r| r.error_ns);
    let range = errors.clone().fold(f64::MIN, f64::max) - errors.fold(f64::MAX, f64::min);
    (range, records.iter().map(|r| r.uncertainty_ns).fold(0.0, f64::max))
}

#[test]
fn corrected_clocks_agree_where_stamps_are_good() {
    for (stamps, most) in [("exact", 10.0), ("hardware", 60.0)] {
        let mut sim = loaded(&with(HUYGENS, &[("clock.stamps", stamps)]));
        sim.run_to_end();
        let records = sim.take_clock_records();
        assert!(records.len() >= 32 * 100, "{}", records.len());
        let (range, uncertainty) = worst(&records);
        assert!(range <= most, "{stamps}: {range} ns");
        assert!(uncertainty <= most, "{stamps}: {uncertainty} ns");
    }
}

#[test]
fn software_stamps_are_worse_than_those_of_a_nic_and_ntp_is_worse_still() {
    let p90 = |set: &[(&str, &str)]| {
        let mut sim = loaded(set);
        sim.run_to_end();
        common::counters(&sim)["clock"]["error_ns"]["p90"].as_f64().unwrap()
    };
    let hardware = p90(&with(HUYGENS, &[("clock.stamps", "hardware")]));
    let software = p90(&with(HUYGENS, &[("clock.stamps", "software")]));
    let ntp = p90(NTP);
    assert!(3.0 * hardware < software && 3.0 * software < ntp, "{hardware}, {software}, {ntp} ns");
}

#[test]
fn delays_are_measured_by_the_corrected_clocks() {
    let watch = ("measure.owd", "[\"h0->h31\", \"h31->h0\"]");
    let (_file, text) = trace(&["h0,h31,30000,0", "h31,h0,30000,1000000"]);
    let samples = |set: &[(&str, &str)]| -> Vec<Sample> {
        let mut sim = build_with(&format!("{SMALL_FAT_TREE}{text}"), DCQCN, &with(set, &[watch]));
        sim.run_to_end();
        sim.take_samples()
    };
    let (perfect, synchronised) = (samples(&[]), samples(&with(HUYGENS, &[("clock.stamps", "exact")])));
    assert_eq!(perfect.len(), 60);
    for (a, b) in perfect.iter().zip(&synchronised) {
        assert_eq!(a.series, b.series);
        // Errors of some nanoseconds, and now and then a probe ahead at one of six ports.
        assert!((a.value - b.value).abs() <= 40.0, "{} and {} ns", a.value, b.value);
    }
}

#[test]
fn the_same_bytes_twice_and_in_steps() {
    for set in [with(HUYGENS, &[("onramp.enabled", "true")]), with(NTP, &[("onramp.enabled", "true")])] {
        let mut straight = loaded(&set);
        let mut stepped = loaded(&set);
        in_steps(&mut stepped, 1_234_567, |_| {});
        straight.run_to_end();
        assert_eq!(straight.take_clock_records(), stepped.take_clock_records());
        assert_eq!(finish(straight).0, finish(stepped).0);
    }
}

#[test]
fn times_count_from_the_first_arrivals() {
    let (_file, text) = trace(&["h0,h31,1000,5000"]);
    let text = format!("{SMALL_FAT_TREE}{text}");
    let alone = finish(build(&text, DCQCN)).0;
    let mut sim = build_with(&text, DCQCN, HUYGENS);
    assert!(!sim.run(0, 1_000), "the lead takes more events than that");
    assert_eq!((sim.now(), sim.flows_started()), (0, 0));
    sim.run_to_end();
    // Probes may be ahead of the flow's packet by a few at each of six ports.
    let ended = sim.now();
    let flow = finish(sim).0[0];
    assert_eq!(flow.start_ps, alone[0].start_ps);
    assert!(flow.fct_ps - alone[0].fct_ps < US, "{} and {}", flow.fct_ps, alone[0].fct_ps);
    assert!(ended <= 20 * US, "the run goes on after the last flow: {ended} ps");
}

#[test]
fn no_probe_is_lost_or_made_up_and_none_is_a_flow() {
    for loss in ["pfc", "lossy"] {
        let mut set = with(HUYGENS, &[("switch.loss", loss)]);
        if loss == "lossy" {
            // Little enough that probes are dropped, too.
            set.push(("switch.buffer", "60KB"));
        }
        let mut sim = loaded(&set);
        in_steps(&mut sim, 10 * MS as Ps, |sim| {
            let c = sim.packet_counts();
            assert_eq!(c.sent, c.delivered + c.dropped + c.in_flight, "{loss}: {c:?}");
        });
        let without = finish(loaded(&[])).0.len();
        let counters = common::counters(&sim);
        assert_eq!(finish(sim).0.len(), without);
        assert_eq!(counters["unfinished"]["flows"], 0);
        assert_eq!(counters["network"]["drops"].as_u64().unwrap() > 0, loss == "lossy");
        assert!(counters["clock"]["windows"].as_u64().unwrap() >= 1);
    }
}

#[test]
fn probes_take_the_share_of_the_line_that_they_should() {
    let (_file, text) = trace(&["h0,h1,1000,0"]);
    let text = format!("{}{text}", star(11));
    let set = [
        ("clock.sync", "huygens"),
        ("clock.window", "40ms"),
        ("clock.probe_interval", "1ms"),
        ("clock.lead", "1s"),
        ("network.host_rate", "10Gbps"),
    ];
    let mut sim = build_with(&text, DCQCN, &set);
    sim.run_to_end();
    let share = common::counters(&sim)["clock"]["probe_share"].as_f64().unwrap();
    // Each of the 55 pairs: two probes and two answers of 82 B in a millisecond.
    let expected = 55.0 * 4.0 * 82.0 * 8.0 / 1e-3 / (11.0 * 10e9);
    assert!((share / expected - 1.0).abs() < 0.01, "{share}, expected {expected}");
}

/// T at OR-ACKs, in microseconds.
fn thresholds(set: &[(&str, &str)]) -> serde_json::Value {
    let mut sim = loaded(&with(set, &[("onramp.enabled", "true")]));
    sim.run_to_end();
    common::counters(&sim)["clock"]["threshold_us"].clone()
}

#[test]
fn the_threshold_follows_the_clocks() {
    let at = |t: &serde_json::Value, key: &str| t[key].as_f64().unwrap();
    let floor = 17.0;
    let good = thresholds(&with(HUYGENS, &[("clock.stamps", "hardware")]));
    // Good clocks: the fixed default is the floor, and most paths stay there.
    assert!((at(&good, "p50") - floor).abs() < 0.1 && at(&good, "mean") < floor + 2.0, "{good}");
    // Without a floor, T is a path's smallest delay and little more.
    let bare = thresholds(&with(HUYGENS, &[("clock.stamps", "hardware"), ("onramp.threshold_floor", "1us")]));
    assert!(at(&bare, "p50") < 12.0, "{bare}");
    let ntp = thresholds(NTP);
    assert!(at(&ntp, "p50") > at(&good, "p50") + 10.0, "{ntp}");
    assert_eq!(thresholds(&with(HUYGENS, &[("onramp.threshold", "16us")])), serde_json::Value::Null);
}

#[test]
fn too_uncertain_clocks_hold_nothing() {
    let pauses = |set: &[(&str, &str)]| {
        let mut sim = loaded(&with(set, &[("onramp.enabled", "true")]));
        sim.run_to_end();
        common::counters(&sim)["onramp_stats"]["pauses"].as_u64().unwrap()
    };
    assert!(pauses(HUYGENS) > 100);
    assert_eq!(pauses(&with(NTP, &[("clock.max_uncertainty", "1us")])), 0);
    // Before the first corrections there is no delay at all.
    assert_eq!(pauses(&with(HUYGENS, &[("clock.lead", "0s")])), 0);
}

#[test]
fn the_next_packets_delay_is_recorded_beside_what_was_known() {
    for transport in ["dcqcn", "cubic"] {
        let set = [("measure.next_owd", "300"), ("seed", "5"), ("transport.kind", transport)];
        let records = |sim: &mut Simulation| {
            sim.run_to_end();
            sim.next_records()
        };
        let found = records(&mut loaded(&set));
        assert!(found.len() >= 290, "{transport}: {}", found.len());
        assert_eq!(found, records(&mut loaded(&set)));
        for r in &found {
            // Two links and a switch at least; the answer takes as long as the question.
            let back = r.rtt_ns as i64 - i64::from(r.owd_ns);
            assert!(r.owd_ns >= 2_000 && r.next_owd_ns >= 2_000 && back > 2_000, "{transport}: {r:?}");
            assert!(r.src != r.dst && r.src < 32 && r.dst < 32, "{transport}: {r:?}");
        }
        // To record is not to change.
        assert_eq!(finish(loaded(&set)).0, finish(loaded(&set[1..])).0, "{transport}");
    }
}
