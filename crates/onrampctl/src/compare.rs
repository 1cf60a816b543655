//! How much a change changed: the ratio of a measure after it to before, where some hosts had it, against the same ratio
//! where others had not (difference in differences, in logarithms), with its uncertainty by the jackknife. Pure.
//!
//! Hosts and intervals are no independent draws: a burst lasts several intervals and meets many hosts. So whole blocks of
//! intervals are left out together (Künsch 1989), of all hosts at once, and then whole hosts, of all intervals; the
//! wider of both intervals counts, and rare events are never taken for more certain than their number allows.

use onrampd::effects::jackknife::Spread;

/// Counts that can be added up over hosts and intervals.
pub trait Sum: Clone {
    /// Adds.
    fn add(&mut self, other: &Self);
    /// Takes away what was added.
    fn take(&mut self, other: &Self);
}

/// A group's counts: of each interval, of each of its hosts; `None` where a host said nothing.
pub type Counts<S> = Vec<Vec<Option<S>>>;

/// Hosts before a change and after it.
pub struct Group<S> {
    /// Before.
    pub before: Counts<S>,
    /// After.
    pub after: Counts<S>,
}

/// A ratio and the interval that contains the true one with the given confidence.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Best guess.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// Fewer intervals than this tell nothing of their own variation.
const FEWEST: usize = 8;
/// Nor do fewer hosts of how hosts differ.
const FEWEST_HOSTS: usize = 4;

/// How a measure is made of counts that were added up: its logarithm, and the variance which that has by the number of
/// events alone. `None`: they do not tell.
pub type Measure<'a, S> = &'a dyn Fn(&S) -> Option<(f64, f64)>;

/// The change of `with`, relative to that of `without` if there are such hosts. `z` is the normal quantile of the
/// confidence, such as 1.96 for 95%. `None`: there are too few intervals, or too few events.
#[must_use]
pub fn ratio<S: Sum>(with: &Group<S>, without: Option<&Group<S>>, measure: Measure<S>, z: f64) -> Option<Ratio> {
    let groups: Vec<&Group<S>> = std::iter::once(with).chain(without).collect();
    let phases = [|group: &Group<S>| group.before.len(), |group: &Group<S>| group.after.len()];
    if phases.iter().any(|of| of(with) < FEWEST) {
        return None;
    }
    let sums: Vec<[S; 2]> = groups.iter().map(|g| Some([sum(&g.before)?, sum(&g.after)?])).collect::<Option<_>>()?;
    let (value, by_number) = effect(&sums, measure)?;

    // One left out after another, of which there are as many as in a phase, or in a group.
    let mut by_time = Spread::default();
    for phase in [0, 1] {
        let intervals = phases[phase](with);
        let blocks = blocks(intervals);
        let without_block = (0..blocks).map(|block| {
            let part = block * intervals / blocks..(block + 1) * intervals / blocks;
            let mut sums = sums.clone();
            for (group, sums) in groups.iter().zip(&mut sums) {
                let of = if phase == 0 { &group.before } else { &group.after };
                of[part.clone()].iter().flatten().flatten().for_each(|counts| sums[phase].take(counts));
            }
            Some(effect(&sums, measure)?.0)
        });
        by_time.add(&without_block.collect::<Option<Vec<_>>>()?);
    }
    let mut by_host = Spread::default();
    let hosts = |group: &Group<S>| group.before.first().map_or(0, Vec::len);
    if groups.iter().all(|group| hosts(group) >= FEWEST_HOSTS) {
        for (at, group) in groups.iter().enumerate() {
            let without_host = (0..hosts(group)).map(|host| {
                let mut sums = sums.clone();
                for (of, sum) in [&group.before, &group.after].into_iter().zip(&mut sums[at]) {
                    of.iter().filter_map(|hosts| hosts.get(host)?.as_ref()).for_each(|counts| sum.take(counts));
                }
                Some(effect(&sums, measure)?.0)
            });
            by_host.add(&without_host.collect::<Option<Vec<_>>>()?);
        }
    }
    let half = by_time.half(z).max(by_host.half(z)).max(z * by_number.sqrt());
    Some(Ratio { value: value.exp(), low: (value - half).exp(), high: (value + half).exp() })
}

/// The sum of a group's counts in a phase; `None`: nobody said anything.
pub fn sum<S: Sum>(counts: &Counts<S>) -> Option<S> {
    let mut all = counts.iter().flatten().flatten();
    let mut sum = all.next()?.clone();
    all.for_each(|counts| sum.add(counts));
    Some(sum)
}

/// The logarithm of the change, and its variance by the numbers of events.
fn effect<S>(sums: &[[S; 2]], measure: Measure<S>) -> Option<(f64, f64)> {
    let (mut value, mut variance) = (0.0, 0.0);
    for ([before, after], sign) in sums.iter().zip([1.0, -1.0]) {
        let [(before, a), (after, b)] = [measure(before)?, measure(after)?];
        value += sign * (after - before);
        variance += a + b;
    }
    value.is_finite().then_some((value, variance))
}

/// Blocks of a phase, as many as each has intervals: what lasts for long is in one of them.
fn blocks(intervals: usize) -> usize {
    ((intervals as f64).sqrt().round() as usize).clamp(FEWEST / 2, intervals)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events, and what they are counted against.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Rate(f64, f64);

    impl Sum for Rate {
        fn add(&mut self, other: &Self) {
            *self = Self(self.0 + other.0, self.1 + other.1);
        }
        fn take(&mut self, other: &Self) {
            *self = Self(self.0 - other.0, self.1 - other.1);
        }
    }

    fn rate(sum: &Rate) -> Option<(f64, f64)> {
        (sum.1 > 0.0).then(|| (((sum.0 + 0.5) / sum.1).ln(), 1.0 / (sum.0 + 0.5)))
    }

    struct Random(u64);

    impl Random {
        fn uniform(&mut self) -> f64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((self.0 >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        }
        fn normal(&mut self) -> f64 {
            (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
        }
        fn poisson(&mut self, mean: f64) -> f64 {
            let (limit, mut product, mut count) = ((-mean).exp(), self.uniform(), 0.0);
            while product > limit {
                product *= self.uniform();
                count += 1.0;
            }
            count
        }
    }

    /// Intervals of `hosts` hosts: bursts that last and meet all of them, by an AR(1) process, and what each host has of
    /// its own. With `counted`, events are whole ones of that mean.
    fn phase(random: &mut Random, n: usize, hosts: usize, mean: f64, rho: f64, counted: bool) -> Counts<Rate> {
        let mut burst = random.normal();
        (0..n)
            .map(|_| {
                burst = rho * burst + (1.0 - rho * rho).sqrt() * random.normal();
                let of = |random: &mut Random| mean * (0.4 * burst + 0.2 * random.normal()).exp();
                let host = |_| {
                    let events = of(random);
                    Some(Rate(if counted { random.poisson(events) } else { events }, 1.0))
                };
                (0..hosts).map(host).collect()
            })
            .collect()
    }

    /// How often the interval contains the ratio that is there.
    fn covered(n: usize, hosts: usize, rho: f64, rest: bool, mean: f64, counted: bool) -> f64 {
        let mut random = Random(7);
        let truth = 0.8;
        let inside = (0..600).filter(|_| {
            let mut group = |truth: f64| Group {
                before: phase(&mut random, n, hosts, mean, rho, counted),
                after: phase(&mut random, n, hosts, truth * mean, rho, counted),
            };
            let (with, without) = (group(truth), group(1.0));
            let found = ratio(&with, rest.then_some(&without), &rate, 1.96).unwrap();
            found.low <= truth && truth <= found.high
        });
        inside.count() as f64 / 600.0
    }

    #[test]
    fn intervals_contain_the_truth_as_often_as_they_say() {
        for (n, hosts, rho, rest) in
            [(60, 3, 0.0, true), (60, 3, 0.5, true), (60, 12, 0.5, true), (30, 2, 0.3, false), (360, 2, 0.8, false)]
        {
            let covered = covered(n, hosts, rho, rest, 1000.0, false);
            println!("{n} intervals, {hosts} hosts, correlation {rho}: {covered}");
            assert!((0.92..0.98).contains(&covered), "{n} intervals of {hosts} hosts, {rho}: {covered}");
        }
    }

    #[test]
    fn few_events_are_no_certainty() {
        let covered = covered(20, 2, 0.0, true, 0.1, true);
        assert!(covered >= 0.94, "{covered}");
        let none = Group { before: vec![vec![Some(Rate(0.0, 1e6))]; 20], after: vec![vec![Some(Rate(0.0, 1e6))]; 20] };
        let found = ratio(&none, None, &rate, 1.96).unwrap();
        assert!(found.low < 0.1 && found.high > 10.0, "{found:?}");
    }

    #[test]
    fn what_meets_all_hosts_alike_cancels() {
        let grown = |by: f64| Group {
            before: vec![vec![Some(Rate(100.0, 1.0)); 2]; 10],
            after: vec![vec![Some(Rate(100.0 * by, 1.0)); 2]; 10],
        };
        let plain = |sum: &Rate| Some(((sum.0 / sum.1).ln(), 0.0));
        let found = ratio(&grown(3.0), Some(&grown(2.0)), &plain, 1.96).unwrap();
        assert!((found.value - 1.5).abs() < 1e-9 && found.high - found.low < 1e-9, "{found:?}");
        assert!((ratio(&grown(3.0), None, &plain, 1.96).unwrap().value - 3.0).abs() < 1e-9);
        let mut short = grown(1.0);
        short.after.truncate(FEWEST - 1);
        assert!(ratio(&short, None, &plain, 1.96).is_none(), "too few to tell");
        let mut silent = grown(2.0);
        silent.after.iter_mut().for_each(|hosts| hosts[1] = None);
        assert!((ratio(&silent, None, &plain, 1.96).unwrap().value - 2.0).abs() < 1e-9, "a host may say nothing");
    }
}
