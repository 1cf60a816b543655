//! Before against after: what blocks of two modes say of a measure, with an interval. Pure.
//!
//! Blocks that follow each other are alike, so their scatter says too little of how sure their mean is. They are joined
//! to batches, long enough to forget each other: batch means (A. M. Law, Simulation Modeling and Analysis, 5th ed. 2015,
//! ch. 9.5; B. Schmeiser, Batch Size Effects in the Analysis of Simulation Output, Operations Research 30, 1982: more
//! than 30 batches add little). Shares and percentiles are no means; their variance is that of the delete-one jackknife over batches
//! (B. Efron and R. Tibshirani, An Introduction to the Bootstrap, 1993, ch. 11), and Welch's degrees of
//! freedom join the two modes.

use super::jackknife::Spread;
use super::{Effects, Tcp};
use serde::Serialize;

/// Fewest blocks of a batch: a minute.
pub const BATCH: usize = 6;
/// Fewest batches that an interval is made from.
pub const FEWEST: usize = 8;
/// The normal quantile of 95% intervals.
const Z: f64 = 1.959_963_985;
/// Most batches; of more blocks, batches are longer.
const MOST: usize = 20;

/// A measure of what traffic met.
#[derive(Clone, Copy)]
pub struct Measure {
    /// Its name, as a key.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// Unit of its numbers.
    pub unit: Unit,
    /// The counters it takes.
    needs: Tcp,
    /// Its value.
    of: fn(&Effects) -> Option<f64>,
}

/// Unit of a measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A part of 1.
    Share,
    /// A number a second.
    PerSecond,
    /// A number a gigabyte.
    PerGigabyte,
    /// Bytes a second.
    BytesPerSecond,
}

fn percentile(e: &Effects, q: f64) -> Option<f64> {
    e.owd.quantile(q).map(|ns| ns as f64)
}

fn segments(e: &Effects) -> Option<f64> {
    (e.elapsed_ns > 0).then(|| e.segments as f64 / (e.elapsed_ns as f64 / 1e9))
}

/// Measures of what On-Ramp is to change, then the load beside.
pub const MEASURES: [Measure; 8] = [
    measure("owd_p50", "one-way delay, p50", Unit::Ns, Tcp::None, |e| percentile(e, 0.5)),
    measure("owd_p90", "one-way delay, p90", Unit::Ns, Tcp::None, |e| percentile(e, 0.9)),
    measure("owd_p99", "one-way delay, p99", Unit::Ns, Tcp::None, |e| percentile(e, 0.99)),
    measure("retransmitted", "segments retransmitted", Unit::Share, Tcp::WithoutTimeouts, Effects::retransmitted_share),
    measure("timeouts", "RTOs", Unit::PerGigabyte, Tcp::All, Effects::timeouts_per_gigabyte),
    measure("held", "time held", Unit::Share, Tcp::None, Effects::held_share),
    measure("goodput", "load: bytes acknowledged", Unit::BytesPerSecond, Tcp::WithoutTimeouts, Effects::goodput),
    measure("segments", "load: data segments", Unit::PerSecond, Tcp::WithoutTimeouts, segments),
];

const fn measure(
    name: &'static str,
    title: &'static str,
    unit: Unit,
    needs: Tcp,
    of: fn(&Effects) -> Option<f64>,
) -> Measure {
    Measure { name, title, unit, needs, of }
}

/// Values of a measure in two modes, and their difference.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// The measure.
    pub name: &'static str,
    /// In words.
    pub title: &'static str,
    /// Unit of all numbers here.
    pub unit: Unit,
    /// While observing; `None`: see `why`.
    pub observe: Option<f64>,
    /// While enforcing; `None`: see `why`.
    pub enforce: Option<f64>,
    /// Enforcing less observing, with the ends of its 95% interval; `None`: see `why`.
    pub difference: Option<Difference>,
    /// Why a number is missing.
    pub why: Option<String>,
}

/// A difference and its 95% interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    /// The difference.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Batches of the mode with fewer.
    pub batches: usize,
}

/// Compares the blocks of two modes, each in the order of time.
#[must_use]
pub fn compare(measure: &Measure, observe: &[&Effects], enforce: &[&Effects]) -> Compared {
    let counted = |blocks: &[&Effects]| -> Vec<Effects> {
        // Their sum is of no run.
        let blocks = blocks.iter().filter(|e| e.tcp >= measure.needs);
        blocks.map(|e| Effects { since: 0, ..(*e).clone() }).collect()
    };
    let [before, after] = [counted(observe), counted(enforce)];
    let value = |blocks: &[Effects]| (measure.of)(&sum(blocks));
    let [observing, enforcing] = [value(&before), value(&after)];
    let both_ran = !observe.is_empty() && !enforce.is_empty();
    let mut why = None;
    let is_uncounted = |all: &[&Effects], counted: &[Effects]| !all.is_empty() && counted.is_empty();
    if is_uncounted(observe, &before) || is_uncounted(enforce, &after) {
        why = Some("not counted by this kernel".to_owned());
    } else if observing.is_none() && !observe.is_empty() || enforcing.is_none() && !enforce.is_empty() {
        why = Some("no traffic".to_owned());
    } else if both_ran && before.len().min(after.len()) < FEWEST * BATCH {
        why = Some("too short to tell".to_owned());
    }
    let difference = if both_ran && why.is_none() { difference(measure.of, &before, &after) } else { None };
    if both_ran && why.is_none() && difference.is_none() {
        why =
            Some(if observing == enforcing { "no difference seen" } else { "too little happened to tell" }.to_owned());
    }
    let Measure { name, title, unit, .. } = *measure;
    Compared { name, title, unit, observe: observing, enforce: enforcing, difference, why }
}

fn sum(all: &[Effects]) -> Effects {
    all.iter().fold(Effects::default(), |sum, e| sum.plus(e))
}

/// The difference of two modes. `None` where there are too few batches, or no batch differs from another.
fn difference(of: fn(&Effects) -> Option<f64>, before: &[Effects], after: &[Effects]) -> Option<Difference> {
    let [a, b] = [estimate(of, before)?, estimate(of, after)?];
    let mut spread = Spread::default();
    spread.add(&a.left_out);
    spread.add(&b.left_out);
    let reach = spread.half(Z);
    if reach <= 0.0 {
        return None;
    }
    let value = b.value - a.value;
    let batches = a.left_out.len().min(b.left_out.len());
    Some(Difference { value, low: value - reach, high: value + reach, batches })
}

struct Estimate {
    value: f64,
    left_out: Vec<f64>,
}

/// Value of all blocks, and without each batch.
fn estimate(of: fn(&Effects) -> Option<f64>, blocks: &[Effects]) -> Option<Estimate> {
    let k = (blocks.len() / BATCH).min(MOST);
    if k < FEWEST {
        return None;
    }
    let batch = |i: usize| sum(&blocks[i * blocks.len() / k..(i + 1) * blocks.len() / k]);
    let batches: Vec<Effects> = (0..k).map(batch).collect();
    let without = |i: usize| of(&sum(&batches[..i]).plus(&sum(&batches[i + 1..])));
    Some(Estimate { value: of(&sum(&batches))?, left_out: (0..k).map(without).collect::<Option<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::tests::effects;
    use onramp_random::{Pcg64Mcg, normal, stream};

    fn by_name(name: &str) -> &'static Measure {
        MEASURES.iter().find(|m| m.name == name).unwrap()
    }

    /// A block of ten seconds with so many segments, of which some were retransmitted.
    fn block(segments: u64, retransmitted: u64) -> Effects {
        effects(1, [10_000_000_000, 0, segments, retransmitted, 0, 1000 * segments], &[], Tcp::All)
    }

    fn compared(name: &str, observe: &[Effects], enforce: &[Effects]) -> Compared {
        compare(by_name(name), &observe.iter().collect::<Vec<_>>(), &enforce.iter().collect::<Vec<_>>())
    }

    /// Two modes of 8 batches of 6 blocks, whose means are 1 to 8 and 11 to 18: variance of each mean 6/8, t with 14 degrees.
    #[test]
    fn a_known_case_comes_out_as_by_hand() {
        let mode = |from: u64| -> Vec<Effects> { (0..48).map(|i| block(10 * (from + i / 6), 0)).collect() };
        let found = compared("segments", &mode(1), &mode(11));
        assert_eq!((found.observe, found.enforce, found.why), (Some(4.5), Some(14.5), None));
        let difference = found.difference.unwrap();
        let reach = 2.1448 * (2.0_f64 * 6.0 / 8.0).sqrt();
        assert!((difference.value - 10.0).abs() < 1e-9 && difference.batches == 8);
        assert!((difference.high - 10.0 - reach).abs() < 0.005, "{difference:?} {reach}");
        assert!((difference.low - 10.0 + reach).abs() < 0.005);
    }

    #[test]
    fn where_a_number_is_missing_it_says_why() {
        let some = |n: usize| (0..n as u64).map(|i| block(100 + i % 7, i % 3)).collect::<Vec<_>>();
        let why = |name, observe: &[Effects], enforce: &[Effects]| {
            let found = compared(name, observe, enforce);
            assert!(found.difference.is_none());
            found.why
        };
        assert_eq!(why("retransmitted", &some(47), &some(400)).as_deref(), Some("too short to tell"));
        assert_eq!(why("retransmitted", &some(400), &[]), None, "one mode only");
        assert_eq!(why("owd_p99", &some(400), &some(400)).as_deref(), Some("no traffic"));
        assert_eq!(why("timeouts", &some(400), &some(400)).as_deref(), Some("no difference seen"));
        let old: Vec<_> = some(400).into_iter().map(|e| Effects { tcp: Tcp::WithoutTimeouts, ..e }).collect();
        assert_eq!(why("timeouts", &old, &old).as_deref(), Some("not counted by this kernel"));
        assert!(compared("retransmitted", &old, &old).difference.is_some());
        // A single block before TCP was looked at does not spoil the others.
        let first = Effects { tcp: Tcp::None, ..block(0, 0) };
        let found = compared("retransmitted", &[&[first], &some(400)[..]].concat(), &some(400));
        assert!(found.difference.is_some(), "{found:?}");
    }

    /// How many of so many runs had the truth in their interval; blocks are made from an AR(1) series.
    fn coverage(
        name: &str,
        phi: f64,
        blocks: [usize; 2],
        truth: f64,
        make: impl Fn(f64, &mut Pcg64Mcg) -> Effects,
    ) -> f64 {
        const RUNS: usize = 400;
        let random = &mut stream(1, name, blocks[0] as u64);
        let hits = (0..RUNS).filter(|_| {
            let [before, after] = blocks.map(|n| {
                let mut x = normal(random) / (1.0 - phi * phi).sqrt();
                let next = |_| {
                    x = phi * x + normal(random);
                    make(x, random)
                };
                (0..n).map(next).collect::<Vec<_>>()
            });
            let difference = compared(name, &before, &after).difference.unwrap();
            (difference.low..=difference.high).contains(&truth)
        });
        hits.count() as f64 / RUNS as f64
    }

    #[test]
    fn intervals_of_correlated_blocks_have_the_truth_in_them_as_often_as_they_say() {
        let load = |x: f64, _: &mut Pcg64Mcg| block((1000.0 + 100.0 * x).max(0.0) as u64, 0);
        for (phi, blocks) in [(0.0, [48, 360]), (0.5, [180, 360]), (0.7, [360, 720])] {
            let covered = coverage("segments", phi, blocks, 0.0, load);
            assert!((0.90..=0.97).contains(&covered), "load, {phi}: {covered}");
        }
        // The share depends on the load, and both on the block before.
        let lossy = |x: f64, random: &mut Pcg64Mcg| {
            let segments = (10_000.0 + 2_000.0 * x).max(100.0);
            let lost = segments * (0.01 + 0.002 * x + 0.001 * normal(random)).max(0.0);
            block(segments as u64, lost as u64)
        };
        let covered = coverage("retransmitted", 0.6, [360, 360], 0.0, lossy);
        assert!((0.90..=0.97).contains(&covered), "share: {covered}");
        // Delays of a block are spread about a median that wanders.
        let delays = |x: f64, random: &mut Pcg64Mcg| {
            let owd: Vec<(u8, u64)> =
                (0..50).map(|_| ((20.0 + x + 2.0 * normal(random)).clamp(0.0, 63.0) as u8, 1)).collect();
            effects(1, [10_000_000_000, 0, 1, 0, 0, 1], &owd, Tcp::All)
        };
        for name in ["owd_p50", "owd_p99"] {
            let covered = coverage(name, 0.6, [360, 360], 0.0, delays);
            assert!((0.90..=0.97).contains(&covered), "{name}: {covered}");
        }
    }
}
