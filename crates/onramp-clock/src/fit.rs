//! Offset and drift of the other clock, from one window of exchanges.
//!
//! Three steps: a margin below all queues ([`svm`]); the coded filter, with a
//! tolerance that the stamps' own noise sets; and the mean of what is left near
//! the margin. The last step is what noisy stamps need: the margin touches the
//! noise's extremes, and how far out those are depends on the load. Where hardly
//! any pair is free of queues, all that is left is the margin of single probes.
//!
//! The constants were chosen on `examples/accuracy.rs`: two queues each way at
//! 0, 40, 80% and at 80% one way only, stamps of 4 ns and of 300 ns with a tail.

use crate::Exchange;
use crate::coded::{self, Filter};
use crate::svm::{self, Margin, Point};

/// Offset and drift of B's clock as A measures them in a window of exchanges.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct EdgeFit {
    /// A's clock, in nanoseconds, where `offset` holds.
    pub base: u64,
    /// B's clock less A's at `base`, in nanoseconds.
    pub offset: i64,
    /// How fast B's clock gains on A's, in seconds per second of A's.
    pub drift: f64,
    /// One-way delay without queues and noise, if both ways are alike, in nanoseconds.
    pub delay: f64,
    /// Spread of the support points about the margin, in nanoseconds.
    pub residual: f64,
    /// Standard error of `offset`, in nanoseconds.
    pub sigma: f64,
    /// Standard error of `drift`.
    pub drift_sigma: f64,
    /// Standard deviation of one stamp's noise, in nanoseconds.
    pub noise: f64,
    /// How much of the delay may be a queue, in nanoseconds: the offset may be off by as much. See
    /// [`Memory`](crate::Memory), which sets it; 0 until then.
    pub queue: f64,
    /// Pairs the fit rests on, each direction counted.
    pub points: u32,
    /// Pairs that there were, each direction counted.
    pub seen: u32,
}

/// How [`fit`] works.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FitOptions {
    /// Drop pairs that did not keep their spacing. Default true.
    pub coded: bool,
    /// How far the spacing may change, in nanoseconds. Default: 6 times the
    /// stamps' noise, that is 3 standard deviations of what four stamps make.
    pub tolerance: Option<u64>,
    /// Fraction of the pairs of a direction that may lie beyond the margin.
    /// Default 0.01: at 80% load on two queues only 3% of the pairs meet none,
    /// and with 0.02 the margin was in the queue in a third of the windows.
    pub nu: f64,
    /// Least and most drift, in seconds per second. Default: ±1000 ppm, twice the 500 ppm that
    /// Linux allows a disciplined clock, as this is between two.
    pub drift: [f64; 2],
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { coded: true, tolerance: None, nu: 0.01, drift: [-1e-3, 1e-3] }
    }
}

/// Pairs needed for a first margin.
const FEWEST: usize = 4;

/// Noise is measured on this fraction of a direction's pairs, the least delayed,
/// and on 8 at least: with 0.08 it was three times too high at 80% load.
const LEAST_DELAYED: f64 = 0.04;

/// The quantile of the stretches that noise is read from, and where a normal
/// variable's absolute value has it.
const NOISE_QUANTILE: f64 = 0.35;
const NORMAL_AT_QUANTILE: f64 = 0.4538;

/// Pairs that must be left near the margin; three go into the fit.
const LEAST_KEPT: f64 = 5.0;

/// Stamps are whole nanoseconds: noise below the rounding's does not exist.
const ROUNDING: f64 = 0.3;

/// Pairs count that are nearer to the middle of the noise than this, in standard
/// deviations: first from the margin up, then within 3. With 2, drift was a
/// fifth worse; starting at 20, queues got in.
const REACH: [f64; 8] = [8.0, 5.6, 4.0, 3.0, 3.0, 3.0, 3.0, 3.0];

/// The standard errors of least squares are this much too small: the noise has
/// tails, and a few short queues are within reach. Measured against the truth.
const ERROR_SCALE: f64 = 1.2;

/// The noise found beforehand counts as much as this many pairs in the spread.
const PRIOR: f64 = 4.0;

/// The least delayed probes of a side, and about their spread in standard deviations.
const TAIL: usize = 5;
const TAIL_SPREAD: f64 = 1.2;

/// Where pairs seem so many times noisier than the least delayed probes, what they show is
/// not noise but queues. NIC stamps at 80% on three queues each way have 10 to 50. With 4, every
/// tenth edge there was off by 100 ns instead of 40; with 2.5, software stamps without load
/// were twice as far off.
const BURIED: f64 = 3.0;

/// A pair on its way in one direction.
#[derive(Clone, Copy)]
struct Crossing {
    /// The mean of both probes: half the noise power of one.
    point: Point,
    /// How much the spacing changed, in nanoseconds.
    stretch: i64,
}

/// Fits offset and drift to a window of exchanges with one peer, in any order;
/// probes whose twin is lost are left out. `None` if too few pairs are left to
/// tell.
#[must_use]
pub fn fit(exchanges: &[Exchange], options: &FitOptions) -> Option<EdgeFit> {
    let pairs = pairs(exchanges);
    if pairs.len() < FEWEST {
        return None;
    }
    let quickest = pairs.iter().map(|pair| pair[0]).min_by_key(took)?;
    let sent = || pairs.iter().map(|pair| pair[0].sent.cast_signed());
    let (start, end) = (sent().min()?, sent().max()?);
    let base = start.wrapping_add(end.wrapping_sub(start) / 2).cast_unsigned();
    // Integers carry the years between two clocks, floating point what is left.
    let common = quickest.received.wrapping_sub(quickest.sent).cast_signed();

    let mut forward: Vec<Crossing> = pairs.iter().map(|pair| forward(pair, base, common)).collect();
    let mut backward: Vec<Crossing> = pairs.iter().map(|pair| backward(pair, base, common)).collect();
    let points = |side: &[Crossing]| -> Vec<Point> { side.iter().map(|c| c.point).collect() };
    let margin = svm::widest(&points(&forward), &points(&backward), options.nu, options.drift);

    let mut quick = least_delayed(&forward, margin.slope);
    quick.extend(least_delayed(&backward, -margin.slope));
    let first_noise = noise(&quick);
    let probes = singles(&pairs, base, common);
    let tight = svm::widest(&points(&probes.0), &points(&probes.1), 0.0, options.drift);
    let tail = tail(&probes.0, tight.slope, tight.forward).max(tail(&probes.1, -tight.slope, tight.backward));
    let tightest = || {
        let found = tightest(&tight, &probes, tail, base, common)?;
        Some(EdgeFit { drift_sigma: found.drift_sigma.min(unsure(options)), ..found })
    };
    if first_noise > BURIED * tail {
        return tightest();
    }
    if options.coded {
        let tolerance = options.tolerance.unwrap_or((6.0 * first_noise).ceil() as u64);
        let filter = Filter { tolerance };
        forward.retain(|c| filter.keeps(c.stretch));
        backward.retain(|c| filter.keeps(c.stretch));
    }
    let Some((margin, forward, backward)) = settle(&forward, &backward, margin, first_noise, options.drift) else {
        return tightest();
    };

    // Least squares with one slope for both sides. Where the means of x are
    // centred, offset and drift are independent.
    let (there, back) = (mean(&forward), mean(&backward));
    let count = (forward.len() + backward.len()) as f64;
    let xx = sum_xx(&forward, there) + sum_xx(&backward, back);
    if count < LEAST_KEPT || xx <= 0.0 {
        return tightest();
    }
    let x = (there.x + back.x) / 2.0;
    let squares = |side: &[Crossing], slope: f64, end: f64| -> f64 {
        side.iter().map(|c| (c.point.y - slope * c.point.x - end).powi(2)).sum()
    };
    let squares = squares(&forward, margin.slope, margin.forward) + squares(&backward, -margin.slope, margin.backward);
    let variance = (squares + PRIOR * first_noise * first_noise) / (count - 3.0 + PRIOR);
    let ends = (1.0 / forward.len() as f64 + 1.0 / backward.len() as f64) / 4.0;
    let kept: Vec<Crossing> = forward.iter().chain(&backward).copied().collect();
    Some(EdgeFit {
        base: base.wrapping_add_signed(x.round() as i64),
        offset: common.wrapping_add(((there.y - back.y) / 2.0).round() as i64),
        drift: margin.slope,
        // Of all slopes, the widest margin's has the longest delay; least squares over a few pairs
        // may tilt the lines until they cross.
        delay: (margin.forward + margin.backward).max(tight.forward + tight.backward) / 2.0,
        residual: variance.sqrt(),
        sigma: (ERROR_SCALE * ERROR_SCALE * variance * ends + ROUNDING * ROUNDING).sqrt(),
        drift_sigma: (ERROR_SCALE * (variance / xx).sqrt()).min(unsure(options)),
        noise: noise(&kept),
        queue: 0.0,
        points: kept.len() as u32,
        seen: 2 * pairs.len() as u32,
    })
}

/// Largest possible error of the drift.
fn unsure(options: &FitOptions) -> f64 {
    (options.drift[1] - options.drift[0]) / 2.0
}

/// Every probe of the pairs by itself, there and back.
fn singles(pairs: &[[Exchange; 2]], base: u64, common: i64) -> (Vec<Crossing>, Vec<Crossing>) {
    let alone = pairs.iter().flatten().map(|e| [*e, *e]);
    alone.map(|probe| (forward(&probe, base, common), backward(&probe, base, common))).unzip()
}

/// A stamp's noise, in standard deviations, from how far apart the least delayed probes of a
/// side are.
fn tail(side: &[Crossing], slope: f64, end: f64) -> f64 {
    let mut above: Vec<f64> = side.iter().map(|c| c.point.y - slope * c.point.x - end).collect();
    let last = TAIL.min(above.len()) - 1;
    let (below, &mut last, _) = above.select_nth_unstable_by(last, f64::total_cmp);
    let least = below.iter().copied().fold(last, f64::min);
    ((last - least) / TAIL_SPREAD).max(ROUNDING)
}

/// The margin that touches the least delayed probes: what is left where hardly any pair is
/// free of queues. It sits at the edge of the noise, which is alike on both sides.
fn tightest(
    margin: &Margin,
    (there, back): &(Vec<Crossing>, Vec<Crossing>),
    noise: f64,
    base: u64,
    common: i64,
) -> Option<EdgeFit> {
    let times = || there.iter().map(|c| c.point.x);
    let span = times().fold(f64::NEG_INFINITY, f64::max) - times().fold(f64::INFINITY, f64::min);
    // Probes that arrive before they leave: a clock stepped.
    if margin.forward + margin.backward < 0.0 {
        return None;
    }
    Some(EdgeFit {
        base,
        offset: common.wrapping_add(((margin.forward - margin.backward) / 2.0).round() as i64),
        drift: margin.slope,
        delay: (margin.forward + margin.backward) / 2.0,
        residual: noise,
        sigma: noise,
        // Two points of a side, on average half the window apart.
        drift_sigma: 2.0 * noise / span.max(1.0),
        noise,
        queue: 0.0,
        points: 2 * TAIL as u32,
        seen: (there.len() + back.len()) as u32 / 2,
    })
}

/// Both probes of every pair that is whole and whose times can be.
fn pairs(exchanges: &[Exchange]) -> Vec<[Exchange; 2]> {
    let mut exchanges: Vec<Exchange> = exchanges.iter().copied().filter(|e| took(e) > 0).collect();
    exchanges.sort_by_key(|e| (e.pair, e.second));
    exchanges.dedup_by_key(|e| (e.pair, e.second));
    exchanges.windows(2).filter(|w| w[0].pair == w[1].pair).map(|w| [w[0], w[1]]).collect()
}

/// How long a probe and its answer took.
fn took(e: &Exchange) -> i64 {
    e.came_back.wrapping_sub(e.sent).cast_signed()
}

/// The delay that a pair seems to take to B, against A's clock.
fn forward(pair: &[Exchange; 2], base: u64, common: i64) -> Crossing {
    let point = |e: &Exchange| Point {
        x: e.sent.wrapping_sub(base).cast_signed() as f64,
        y: e.received.wrapping_sub(e.sent).cast_signed().wrapping_sub(common) as f64,
    };
    Crossing { point: mid(point(&pair[0]), point(&pair[1])), stretch: coded::forward(&pair[0], &pair[1]) }
}

/// The delay that the answers seem to take back to A, against A's clock.
fn backward(pair: &[Exchange; 2], base: u64, common: i64) -> Crossing {
    let point = |e: &Exchange| Point {
        x: e.came_back.wrapping_sub(base).cast_signed() as f64,
        y: common.wrapping_sub(e.returned.wrapping_sub(e.came_back).cast_signed()) as f64,
    };
    Crossing { point: mid(point(&pair[0]), point(&pair[1])), stretch: coded::backward(&pair[0], &pair[1]) }
}

fn mid(a: Point, b: Point) -> Point {
    Point { x: (a.x + b.x) / 2.0, y: (a.y + b.y) / 2.0 }
}

/// The pairs nearest to the margin.
fn least_delayed(side: &[Crossing], slope: f64) -> Vec<Crossing> {
    let count = ((LEAST_DELAYED * side.len() as f64) as usize).max(8).min(side.len());
    let delay = |c: &Crossing| c.point.y - slope * c.point.x;
    let mut side = side.to_vec();
    side.select_nth_unstable_by(count - 1, |a, b| delay(a).total_cmp(&delay(b)));
    side.truncate(count);
    side
}

/// Standard deviation of a stamp's noise, from what four of them do to the
/// spacing of a pair: below the median, since some pairs met a queue all the same.
fn noise(pairs: &[Crossing]) -> f64 {
    let mut stretch: Vec<u64> = pairs.iter().map(|c| c.stretch.unsigned_abs()).collect();
    let place = (stretch.len() as f64 * NOISE_QUANTILE) as usize;
    let (_, &mut stretch, _) = stretch.select_nth_unstable(place);
    (stretch as f64 / (2.0 * NORMAL_AT_QUANTILE)).max(ROUNDING)
}

/// Moves the ends of the margin into the middle of the noise, and its slope with
/// them. Returns the pairs within reach as well.
fn settle(
    forward: &[Crossing],
    backward: &[Crossing],
    mut margin: Margin,
    noise: f64,
    [least, most]: [f64; 2],
) -> Option<(Margin, Vec<Crossing>, Vec<Crossing>)> {
    let within = |side: &[Crossing], slope: f64, end: f64, reach: f64| -> Vec<Crossing> {
        side.iter().copied().filter(|c| (c.point.y - slope * c.point.x - end).abs() <= reach).collect()
    };
    let mut settled = None;
    for reach in REACH.map(|r| r * noise) {
        let forward = within(forward, margin.slope, margin.forward, reach);
        let backward = within(backward, -margin.slope, margin.backward, reach);
        if forward.is_empty() || backward.is_empty() {
            break;
        }
        let (there, back) = (mean(&forward), mean(&backward));
        let xx = sum_xx(&forward, there) + sum_xx(&backward, back);
        if xx > 0.0 {
            margin.slope = ((sum_xy(&forward, there) - sum_xy(&backward, back)) / xx).clamp(least, most);
        }
        margin.forward = there.y - margin.slope * there.x;
        margin.backward = back.y + margin.slope * back.x;
        settled = Some((margin, forward, backward));
    }
    settled
}

fn mean(side: &[Crossing]) -> Point {
    let count = side.len() as f64;
    Point {
        x: side.iter().map(|c| c.point.x).sum::<f64>() / count,
        y: side.iter().map(|c| c.point.y).sum::<f64>() / count,
    }
}

fn sum_xx(side: &[Crossing], mean: Point) -> f64 {
    side.iter().map(|c| (c.point.x - mean.x).powi(2)).sum()
}

fn sum_xy(side: &[Crossing], mean: Point) -> f64 {
    side.iter().map(|c| (c.point.x - mean.x) * (c.point.y - mean.y)).sum()
}
