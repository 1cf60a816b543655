//! Fits of synthetic windows against the truth.

mod common;

use common::{Clock, Random, Stamps, World};
use onramp_clock::{EdgeFit, Exchange, FitOptions, fit};
use proptest::collection::vec;
use proptest::prelude::*;

fn clocks(seed: u64) -> (Clock, Clock) {
    let mut random = Random(seed);
    (Clock::random(&mut random, 1e17, 30e-6), Clock::random(&mut random, 1e17, 30e-6))
}

/// In nanoseconds, where the fit's base is.
fn error((a, b): (Clock, Clock), fit: &EdgeFit) -> i64 {
    let b = i128::from(b.read(a.when(fit.base)));
    (i128::from(fit.base) + i128::from(fit.offset) - b) as i64
}

fn drift((a, b): (Clock, Clock)) -> f64 {
    (1.0 + b.drift) / (1.0 + a.drift) - 1.0
}

fn window(world: &World, (a, b): (Clock, Clock)) -> Vec<Exchange> {
    world.exchanges((1, a), (2, b), 0.0)
}

/// Sorted magnitudes of the errors of many windows, and the part of them within
/// two standard errors.
fn errors(stamps: Stamps, loads: (f64, f64), coded: bool) -> (Vec<u64>, f64) {
    let mut within = 0;
    let mut errors: Vec<u64> = (0..40)
        .filter_map(|seed| {
            let world = World { loads, ..World::new(stamps, 0.0, seed) };
            let clocks = clocks(seed);
            let fit = fit(&window(&world, clocks), &FitOptions { coded, ..FitOptions::default() })?;
            let error = error(clocks, &fit).unsigned_abs();
            within += usize::from(error as f64 <= 2.0 * fit.sigma + 0.5);
            Some(error)
        })
        .collect();
    assert!(errors.len() >= 38, "{} of 40 windows could be fitted", errors.len());
    errors.sort_unstable();
    let within = within as f64 / errors.len() as f64;
    (errors, within)
}

#[test]
fn a_clock_that_passes_its_zero_is_fitted_like_any_other() {
    for seed in 0..10 {
        let seen = window(&World::new(Stamps::Hardware, 0.4, seed), clocks(seed));
        let plain = fit(&seen, &FitOptions::default()).expect("a fit");
        let set_back = |e: &Exchange| Exchange {
            sent: e.sent.wrapping_sub(plain.base),
            came_back: e.came_back.wrapping_sub(plain.base),
            ..*e
        };
        let passing: Vec<Exchange> = seen.iter().map(set_back).collect();
        let offset = plain.offset.wrapping_add_unsigned(plain.base);
        assert_eq!(fit(&passing, &FitOptions::default()), Some(EdgeFit { base: 0, offset, ..plain }));
    }
}

#[test]
fn exact_stamps_without_queues_give_the_clock_to_a_nanosecond() {
    for seed in 0..50 {
        let clocks = clocks(seed);
        let fit = fit(&window(&World::new(Stamps::Exact, 0.0, seed), clocks), &FitOptions::default()).expect("a fit");
        assert!(error(clocks, &fit).abs() <= 1, "{fit:?}");
        assert!((fit.drift - drift(clocks)).abs() < 1e-9, "{fit:?}");
        assert!((4_000.0..14_001.0).contains(&fit.delay), "{fit:?}");
        assert_eq!(fit.seen, 500);
    }
}

#[test]
fn hardware_stamps_are_averaged_below_their_noise() {
    let (errors, within) = errors(Stamps::Hardware, (0.4, 0.4), true);
    assert!(errors[20] <= 2 && errors[errors.len() - 2] <= 10, "{errors:?}");
    assert!(within > 0.85, "{within}");
}

#[test]
fn software_stamps_are_averaged_below_their_noise() {
    let (errors, within) = errors(Stamps::Software, (0.4, 0.4), true);
    assert!(errors[20] <= 70 && errors[errors.len() - 2] <= 300, "{errors:?}");
    assert!(within > 0.85, "{within}");
}

#[test]
fn coded_probes_halve_the_error_of_one_sided_load() {
    let mean = |coded| {
        let (errors, _) = errors(Stamps::Software, (0.8, 0.0), coded);
        errors.iter().sum::<u64>() as f64 / errors.len() as f64
    };
    let (with, without) = (mean(true), mean(false));
    assert!(with < 150.0 && with < 0.5 * without, "{with} {without}");
}

#[test]
fn noise_is_that_of_one_stamp() {
    for (stamps, sigma) in [(Stamps::Hardware, 4.0), (Stamps::Software, 300.0)] {
        let fit = fit(&window(&World::new(stamps, 0.0, 5), clocks(5)), &FitOptions::default()).expect("a fit");
        assert!((fit.noise / sigma - 1.0).abs() < 0.3, "{fit:?}");
    }
}

#[test]
fn too_little_is_no_fit() {
    let exchanges = window(&World::new(Stamps::Hardware, 0.0, 1), clocks(1));
    assert_eq!(fit(&[], &FitOptions::default()), None);
    assert_eq!(fit(&exchanges[..6], &FitOptions::default()), None);
    let halves: Vec<Exchange> = exchanges.iter().filter(|e| !e.second).copied().collect();
    assert_eq!(fit(&halves, &FitOptions::default()), None);
    assert!(fit(&exchanges[..20], &FitOptions::default()).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn order_and_duplicates_change_nothing_and_losses_little(seed: u64) {
        let mut random = Random(seed);
        let clocks = clocks(seed);
        let mut exchanges = window(&World::new(Stamps::Hardware, 0.0, seed), clocks);
        let whole = fit(&exchanges, &FitOptions::default());
        exchanges.extend_from_within(..100);
        for i in (1..exchanges.len()).rev() {
            exchanges.swap(i, (random.next() % (i as u64 + 1)) as usize);
        }
        prop_assert_eq!(whole, fit(&exchanges, &FitOptions::default()));
        exchanges.truncate(400);
        let some = fit(&exchanges, &FitOptions::default()).expect("enough is left");
        prop_assert!(error(clocks, &some).abs() <= 4, "{:?}", some);
    }

    #[test]
    fn one_wrong_stamp_changes_little(seed: u64, by in -1_000_000_000..1_000_000_000_i64) {
        let clocks = clocks(seed);
        let mut exchanges = window(&World::new(Stamps::Hardware, 0.0, seed), clocks);
        let wrong = &mut exchanges[(seed % 500) as usize];
        wrong.received = wrong.received.wrapping_add_signed(by);
        let fit = fit(&exchanges, &FitOptions::default()).expect("a fit");
        prop_assert!(error(clocks, &fit).abs() <= 4, "{:?}", fit);
    }

    #[test]
    fn any_stamps_are_survived(stamps in vec((0..20_u32, any::<bool>(), any::<[u64; 4]>()), 0..60)) {
        let exchanges: Vec<Exchange> = stamps
            .into_iter()
            .map(|(pair, second, [sent, received, returned, came_back])| Exchange { pair, second, sent, received, returned, came_back })
            .collect();
        if let Some(fit) = fit(&exchanges, &FitOptions::default()) {
            prop_assert!(fit.sigma.is_finite() && fit.drift_sigma.is_finite() && fit.drift.is_finite());
        }
    }
}
