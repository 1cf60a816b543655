//! Logs survive a round trip, nothing else is read, and recorded runs come out
//! as accurate as they should.

use onramp_clock::log::{self, Log, LogError, Record};
use onramp_clock::{Exchange, FitOptions, NetworkOptions};
use proptest::collection::vec;
use proptest::prelude::*;

fn record() -> impl Strategy<Value = Record> {
    let times = (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>());
    prop_oneof![
        (0..4_u32, any::<u32>(), any::<u32>(), any::<bool>(), times).prop_map(|(from, to, pair, second, t)| {
            let exchange = Exchange { pair, second, sent: t.0, received: t.1, returned: t.2, came_back: t.3 };
            Record::Exchange { from, to, exchange }
        }),
        (0..4_u32, any::<u64>(), any::<i64>()).prop_map(|(host, at, ahead)| Record::Truth { host, at, ahead }),
    ]
}

fn bytes(log: &Log) -> Vec<u8> {
    let mut bytes = Vec::new();
    log::write(log, &mut bytes).expect("memory takes all");
    bytes
}

proptest! {
    #[test]
    fn what_is_written_is_read(window in 1..u64::MAX, records in vec(record(), 0..40)) {
        let log = Log { window, records };
        prop_assert_eq!(log::read(&*bytes(&log)).expect("a log"), log);
    }

    #[test]
    fn logs_one_after_another_are_read_as_one(first in vec(record(), 0..20), then in vec(record(), 0..20), cut: prop::sample::Index) {
        let [one, two] = [&first, &then].map(|r| bytes(&Log { window: 7, records: r.clone() }));
        let both = [one.clone(), two.clone()].concat();
        let records = [first.clone(), then].concat();
        prop_assert_eq!(log::read_joined(&*both).expect("two logs"), Log { window: 7, records: records.clone() });
        prop_assert_eq!(log::read_joined(&*one).expect("a log"), Log { window: 7, records: first });
        let cut = &both[..one.len() + 1 + cut.index(two.len() - 1)];
        prop_assert!(log::read_joined(cut).is_err());
        let other = bytes(&Log { window: 8, records });
        prop_assert!(log::read_joined(&*[one, other].concat()).is_err());
    }

    #[test]
    fn a_log_cut_short_or_too_long_is_refused(records in vec(record(), 0..10), cut: prop::sample::Index, more: u8) {
        let whole = bytes(&Log { window: 1, records });
        prop_assert!(log::read(&whole[..cut.index(whole.len())]).is_err());
        prop_assert!(log::read(&*[whole, vec![more]].concat()).is_err());
    }

    #[test]
    fn garbage_is_refused_or_writes_the_same_bytes(records in vec(record(), 0..10), place: prop::sample::Index, with: u8) {
        let mut garbage = bytes(&Log { window: 9, records });
        let place = place.index(garbage.len());
        garbage[place] = with;
        if let Ok(log) = log::read(&*garbage) {
            prop_assert_eq!(bytes(&log), garbage);
        }
    }

    #[test]
    fn whatever_a_log_says_can_be_replayed(records in vec(record(), 0..60)) {
        let log = Log { window: 1 << 62, records };
        let solutions = log::replay(&log, &FitOptions::default(), &NetworkOptions::default());
        prop_assert!(solutions.len() <= 4);
    }
}

#[test]
fn refusals_say_where_and_why() {
    let said = |bytes: &[u8]| log::read(bytes).expect_err("refused").to_string();
    assert_eq!(said(b"probes"), "this is no probe log: it does not start with \"onramp-clock\"");
    assert_eq!(said(b"onramp-clock\x02"), "the log has version 2; this reads version 1");
    assert_eq!(said(b"onramp-clock\x01\x00"), "byte 13: the window is 0; it must be 1 ns or longer");
    assert_eq!(said(b"onramp-clock\x01\x05\x07"), "byte 14: no record starts with this; 0 to 3 do");
    assert_eq!(said(b"onramp-clock\x01\x05"), "byte 14: the log ends here; it is cut short");
    assert!(matches!(log::read(&b"onramp-clock\x01\x85\x00"[..]), Err(LogError::Invalid { at: 14, .. })));
}

fn recorded(name: &str) -> Log {
    let path = format!("{}/tests/logs/{name}.log", env!("CARGO_MANIFEST_DIR"));
    log::read(std::fs::File::open(path).expect("the log is there")).expect("a log")
}

#[test]
fn a_clock_that_passes_its_zero_while_recorded_is_replayed_like_any_other() {
    let plain = recorded("hardware-80");
    let solve = |log: &Log| log::replay(log, &FitOptions::default(), &NetworkOptions::default());
    let last = solve(&plain)[0].hosts.last().expect("there are hosts").0;
    // In the middle of the first window; the first host remains the reference.
    let set_back = solve(&plain)[0].hosts.last().expect("it is there").1.base;
    let move_one = |record: &Record| match *record {
        Record::Exchange { from, to, exchange: e } => {
            let moved = |host, at: u64| if host == last { at.wrapping_sub(set_back) } else { at };
            let (sent, received) = (moved(from, e.sent), moved(to, e.received));
            let (returned, came_back) = (moved(to, e.returned), moved(from, e.came_back));
            Record::Exchange { from, to, exchange: Exchange { sent, received, returned, came_back, ..e } }
        }
        truth => truth,
    };
    let passing = solve(&Log { records: plain.records.iter().map(move_one).collect(), ..plain });
    let mut moved = solve(&plain);
    for (_, correction, _) in moved.iter_mut().flat_map(|s| &mut s.hosts).filter(|h| h.0 == last) {
        correction.base = correction.base.wrapping_sub(set_back);
        correction.offset = correction.offset.wrapping_sub_unsigned(set_back);
    }
    assert_eq!(passing, moved);
}

/// Largest error of any host against the middle one at the end of any window,
/// and in how many standard deviations of the two, after replaying a recorded log.
fn replayed(name: &str, fit: &FitOptions) -> (i64, f64) {
    let log = recorded(name);
    let solutions = log::replay(&log, fit, &NetworkOptions::default());
    assert_eq!(solutions.len(), 2);
    let truths: Vec<(u32, u64, i64)> = log
        .records
        .iter()
        .filter_map(|record| match record {
            Record::Truth { host, at, ahead } => Some((*host, *at, *ahead)),
            Record::Exchange { .. } => None,
        })
        .collect();
    let (mut worst, mut deviations) = (0, 0.0_f64);
    for (solution, truths) in solutions.iter().zip(truths.chunks(5)) {
        assert!(solution.suspects.is_empty());
        let mut errors: Vec<(i64, f64)> = truths
            .iter()
            .map(|&(host, at, ahead)| {
                let (_, correction, _) = solution.hosts.iter().find(|h| h.0 == host).expect("every host is solved");
                (correction.to_fleet(at) - (at.cast_signed() - ahead), correction.uncertainty_at(at))
            })
            .collect();
        errors.sort_unstable_by_key(|e| e.0);
        let middle = errors[errors.len() / 2];
        for (error, uncertainty) in errors {
            let off = (error - middle.0).abs();
            worst = worst.max(off);
            deviations = deviations.max(off as f64 / uncertainty.hypot(middle.1));
        }
    }
    (worst, deviations)
}

#[test]
fn recorded_hardware_stamps_at_80_percent_load() {
    let (worst, deviations) = replayed("hardware-80", &FitOptions::default());
    assert!(worst <= 5, "{worst} ns");
    assert!(deviations < 3.0, "{deviations}");
}

#[test]
fn recorded_software_stamps_at_40_percent_load() {
    let (worst, deviations) = replayed("software-40", &FitOptions::default());
    assert!(worst <= 100, "{worst} ns");
    assert!(deviations < 3.0, "{deviations}");
}
