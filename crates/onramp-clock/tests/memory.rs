//! Knowledge of earlier windows for one whose queues never emptied.

mod common;

use common::Clock;
use onramp_clock::{EdgeFit, Exchange, FitOptions, Memory};

const WINDOW: f64 = 1e8;
const DELAY: f64 = 5_000.0;

/// 125 pairs in the window that begins at `start`, of clocks that differ by 20 ppm. `queue` is a
/// port's in the way there, and one's that answers find on the way back, in nanoseconds, `t` into
/// the window.
fn window(start: f64, queue: impl Fn(f64) -> (f64, f64)) -> Vec<Exchange> {
    let (a, b) = clocks();
    let probe = |number: u32| {
        let into = f64::from(number / 2) * WINDOW / 125.0 + f64::from(number % 2) * 1e4;
        let (there, back) = queue(into);
        let sent = start + into;
        let received = sent + DELAY + there;
        Exchange {
            pair: number / 2,
            second: number % 2 == 1,
            sent: a.read(sent),
            received: b.read(received),
            returned: b.read(received),
            came_back: a.read(received + DELAY + back),
        }
    };
    (0..250).map(probe).collect()
}

fn clocks() -> (Clock, Clock) {
    (Clock { start: 1 << 58, drift: 0.0 }, Clock { start: 1 << 59, drift: 20e-6 })
}

/// How far the offset and the drift are off, in nanoseconds and seconds per second.
fn error(fit: &EdgeFit) -> (f64, f64) {
    let (a, b) = clocks();
    let truth = i128::from(b.read(a.when(fit.base))) - i128::from(fit.base);
    ((i128::from(fit.offset) - truth) as f64, fit.drift - 20e-6)
}

/// Fit of a window whose queues grow there and shrink back, after as many without queues.
fn after(windows: u32) -> EdgeFit {
    let mut memory = Memory::default();
    let mut fit = |number: u32, seen: &[Exchange]| {
        let fit = memory.fit(seen, &FitOptions::default(), WINDOW as u64);
        fit.unwrap_or_else(|| panic!("window {number} has no fit"))
    };
    for number in 0..windows {
        let free = fit(number, &window(f64::from(number) * WINDOW, |_| (0.0, 0.0)));
        assert!(error(&free).0.abs() <= 1.0, "{free:?}");
    }
    let tilted = |t: f64| (20_000.0 + 300e-6 * t, 50_000.0 - 300e-6 * t);
    fit(windows, &window(f64::from(windows) * WINDOW, tilted))
}

#[test]
fn a_queue_that_grows_does_not_tilt_a_drift_that_is_known() {
    let unknown = after(0);
    assert!(error(&unknown).1.abs() > 250e-6, "the queue looks like drift: {unknown:?}");
    assert!(unknown.queue > 30_000.0, "{unknown:?}");
    let known = after(2);
    assert!(error(&known).1.abs() < 0.1e-6, "{known:?}");
    assert!(error(&known).0.abs() <= 2.0 * known.sigma, "{known:?}");
}

#[test]
fn a_clock_that_was_set_to_another_frequency_is_believed() {
    let mut memory = Memory::default();
    for number in 0..3 {
        memory.fit(&window(f64::from(number) * WINDOW, |_| (0.0, 0.0)), &FitOptions::default(), WINDOW as u64);
    }
    let faster = window(3.0 * WINDOW, |_| (0.0, 0.0)).into_iter().map(|e| {
        let gained = |at: u64| at + (60e-6 * (at - (1 << 59)) as f64) as u64;
        Exchange { received: gained(e.received), returned: gained(e.returned), ..e }
    });
    let fit = memory.fit(&faster.collect::<Vec<_>>(), &FitOptions::default(), WINDOW as u64).expect("a fit");
    assert!((fit.drift - 80e-6).abs() < 0.1e-6, "{fit:?}");
}
