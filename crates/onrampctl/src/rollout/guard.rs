//! Guards: measures that a rollout must not make worse: `retransmissions < 1.2x, owd p99 < 1.0x, goodput > 0.97x`.
//! Pure.

use crate::compare::{Group, Ratio, ratio, sum};
use onrampd::config::quantity::show_time;
use onrampd::effects::Effects;
use std::fmt::{self, Write as _};

/// Measure that a guard compares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum What {
    /// Share of TCP's segments that were sent again.
    Retransmissions,
    /// TCP's retransmission timeouts, of the bytes that were acknowledged.
    Timeouts,
    /// Bytes that were acknowledged, of the time.
    Goodput,
    /// A quantile of one-way delays.
    Owd(f64),
}

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Guard {
    /// Measure compared.
    pub what: What,
    /// It must be below the limit, not above.
    pub below: bool,
    /// Times what it would be without.
    pub limit: f64,
}

/// Outcome of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole interval is on the right side.
    Holds,
    /// The whole interval is on the wrong side.
    Broken,
    /// The interval has the limit in it, or there is none.
    Open,
}

/// Guards without `--guard`.
pub const DEFAULT: &str = "retransmissions < 1.2x, owd p99 < 1.0x, goodput > 0.97x";

/// Below these nobody minds how much more it is: of segments, and timeouts of a gigabyte.
const RARE: f64 = 1e-4;
const RARE_TIMEOUTS: f64 = 0.1;
const GIGABYTE: f64 = 1e9;

/// Reads guards, separated by commas.
///
/// # Errors
/// The part that is wrong, and what would be right.
pub fn parse(text: &str) -> Result<Vec<Guard>, String> {
    text.split(',').map(|part| one(part.trim())).collect()
}

fn one(part: &str) -> Result<Guard, String> {
    let wrong = |why: &str| format!("{part:?}: {why}: write such as {DEFAULT:?}");
    let at = part.find(['<', '>']).ok_or_else(|| wrong("has no < or >"))?;
    let (name, rest) = part.split_at(at);
    let what = match name.split_whitespace().collect::<Vec<_>>()[..] {
        ["retransmissions"] => What::Retransmissions,
        ["timeouts"] => What::Timeouts,
        ["goodput"] => What::Goodput,
        ["owd", percentile] => {
            let number = percentile.strip_prefix('p').and_then(|number| number.parse::<f64>().ok());
            let fits = number.filter(|number| (1.0..100.0).contains(number));
            What::Owd(fits.ok_or_else(|| wrong("owd takes a percentile, p1 to p99.9"))? / 100.0)
        }
        _ => return Err(wrong("is not about retransmissions, timeouts, goodput or owd")),
    };
    let limit = rest[1..].trim().strip_suffix('x').and_then(|number| number.trim().parse::<f64>().ok());
    let limit = limit.filter(|limit| (0.01..=100.0).contains(limit));
    let limit = limit.ok_or_else(|| wrong("the limit is a multiple, 0.01x to 100x"))?;
    Ok(Guard { what, below: rest.starts_with('<'), limit })
}

impl What {
    /// The logarithm of its value, and the variance that this has by the number of events alone.
    #[must_use]
    pub fn measure(self, sum: &Effects) -> Option<(f64, f64)> {
        let value = self.value(sum)?;
        let Some((events, of)) = self.events(sum) else { return (value > 0.0).then(|| (value.ln(), 0.0)) };
        // Half an event more: none so far is not never.
        let events = events as f64 + 0.5;
        Some(((events / of).ln(), 1.0 / events))
    }

    /// A share, timeouts of a gigabyte, bytes a second, or nanoseconds. `None`: nothing was sent, or the kernel does not tell.
    #[must_use]
    pub fn value(self, sum: &Effects) -> Option<f64> {
        match self {
            Self::Retransmissions => sum.retransmitted_share(),
            Self::Timeouts => sum.timeouts_per_gigabyte(),
            Self::Goodput => sum.goodput(),
            Self::Owd(quantile) => sum.owd.quantile(quantile).map(|ns| ns as f64),
        }
    }

    /// Events, and what they are counted against.
    fn events(self, sum: &Effects) -> Option<(u64, f64)> {
        match self {
            Self::Retransmissions => Some((sum.retransmitted, sum.segments as f64)),
            Self::Timeouts => Some((sum.timeouts, sum.acked_bytes as f64 / GIGABYTE)),
            Self::Goodput | Self::Owd(_) => None,
        }
    }

    /// Returns whether it is so rare that nobody minds how much more it is than before.
    fn is_rare(self, sum: &Effects) -> bool {
        let rare = match self {
            Self::Retransmissions => RARE,
            Self::Timeouts => RARE_TIMEOUTS,
            Self::Goodput | Self::Owd(_) => return false,
        };
        self.measure(sum).is_some_and(|(value, variance)| (value + 2.0 * variance.sqrt()).exp() < rare)
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::Retransmissions => format!("{:.3}%", 100.0 * value),
            Self::Timeouts => format!("{value:.2}/GB"),
            Self::Goodput => format!("{:.4} Gb/s", 8.0 * value / GIGABYTE),
            Self::Owd(_) => show_time(value as i64),
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Retransmissions => f.write_str("retransmissions"),
            Self::Timeouts => f.write_str("timeouts"),
            Self::Goodput => f.write_str("goodput"),
            Self::Owd(quantile) => write!(f, "owd p{}", (1000.0 * quantile).round() / 10.0),
        }
    }
}

impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}x", self.what, if self.below { '<' } else { '>' }, self.limit)
    }
}

impl Guard {
    /// Judges it by how its measure changed where hosts hold, against where they do not.
    #[must_use]
    pub fn judged(&self, with: &Group<Effects>, without: Option<&Group<Effects>>, z: f64) -> Judged {
        let ratio = ratio(with, without, &|sum| self.what.measure(sum), z);
        let sums = |group: &Group<Effects>| [sum(&group.before), sum(&group.after)];
        let with = sums(with);
        let verdict = match ratio {
            _ if self.below && with[1].as_ref().is_some_and(|sum| self.what.is_rare(sum)) => Verdict::Holds,
            Some(Ratio { high, .. }) if self.below && high < self.limit => Verdict::Holds,
            Some(Ratio { low, .. }) if self.below && low >= self.limit => Verdict::Broken,
            Some(Ratio { low, .. }) if !self.below && low > self.limit => Verdict::Holds,
            Some(Ratio { high, .. }) if !self.below && high <= self.limit => Verdict::Broken,
            _ => Verdict::Open,
        };
        let value = |sum: Option<Effects>| sum.and_then(|sum| self.what.value(&sum));
        let without = without.map_or([None, None], sums);
        Judged { guard: *self, ratio, verdict, with: with.map(value), without: without.map(value) }
    }
}

/// A guard, and what was seen.
#[derive(Clone, Debug)]
pub struct Judged {
    guard: Guard,
    /// How much the measure changed by holding.
    ratio: Option<Ratio>,
    /// Outcome.
    pub verdict: Verdict,
    /// Where hosts hold: before and after.
    with: [Option<f64>; 2],
    /// Where they do not.
    without: [Option<f64>; 2],
}

impl Judged {
    /// Returns a sentence that compares what was seen with the guard.
    #[must_use]
    pub fn reason(&self) -> String {
        let Self { guard, ratio, verdict, .. } = self;
        let Some(Ratio { value, low, high }) = ratio else {
            return format!("{}: too little was seen to say whether {guard}", guard.what);
        };
        let seen = format!("{} is {value:.2}x ({low:.2}x to {high:.2}x)", guard.what);
        match verdict {
            Verdict::Holds => format!("{seen}, as asked: {guard}"),
            Verdict::Broken => format!("{seen}, not {guard}"),
            Verdict::Open => format!("{seen}, which does not say whether {guard}"),
        }
    }
}

/// Returns a table of what each guard saw, a row each.
#[must_use]
pub fn table(judged: &[Judged]) -> String {
    let mut out = format!("{:<18}{:<26}{:<26}{:<26}guard\n", "", "hosts that hold", "others", "change by holding, 95%");
    for Judged { guard, ratio, verdict, with, without } in judged {
        let shown = |value: Option<f64>| value.map_or("–".into(), |value| guard.what.show(value));
        let pair = |[before, after]: [Option<f64>; 2]| format!("{} → {}", shown(before), shown(after));
        let ratio = ratio.map_or("too little to tell".into(), |Ratio { value, low, high }| {
            format!("{value:.2}x ({low:.2}x to {high:.2}x)")
        });
        let verdict = match verdict {
            Verdict::Holds => "holds",
            Verdict::Broken => "broken",
            Verdict::Open => "open",
        };
        let limit = format!("{} {}x", if guard.below { '<' } else { '>' }, guard.limit);
        let name = guard.what.to_string();
        let _ = writeln!(out, "{name:<18}{:<26}{:<26}{ratio:<26}{limit}: {verdict}", pair(*with), pair(*without));
    }
    out
}

/// Why not to go on, if so.
#[must_use]
pub fn verdict(judged: &[Judged], open_is_fine: bool) -> Option<String> {
    let first = |verdict| judged.iter().find(|judged| judged.verdict == verdict);
    let open = first(Verdict::Open).filter(|_| !open_is_fine);
    first(Verdict::Broken).or(open).map(Judged::reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrampd::effects::{Histogram, Tcp};

    /// Ten seconds of a host, with delays in a bucket.
    fn effects(retransmitted: u64, acked_bytes: u64, bucket: u8) -> Effects {
        Effects {
            elapsed_ns: 10_000_000_000,
            owd: Histogram::from(vec![(bucket, 1000)]),
            tcp: Tcp::All,
            segments: 10_000,
            retransmitted,
            acked_bytes,
            ..Effects::default()
        }
    }

    fn group(before: &Effects, after: &Effects) -> Group<Effects> {
        let counts = |effects: &Effects| vec![vec![Some(effects.clone()); 3]; 20];
        Group { before: counts(before), after: counts(after) }
    }

    fn judge(guards: &str, with: [&Effects; 2], without: [&Effects; 2]) -> Vec<Judged> {
        let (with, without) = (group(with[0], with[1]), group(without[0], without[1]));
        parse(guards).unwrap().iter().map(|guard| guard.judged(&with, Some(&without), 1.96)).collect()
    }

    #[test]
    fn guards_are_read_and_shown_as_they_were_written() {
        for text in [DEFAULT, "owd p99.9 > 0.5x", "timeouts < 2x, owd p50 < 1.1x"] {
            let shown: Vec<String> = parse(text).unwrap().iter().map(ToString::to_string).collect();
            assert_eq!(parse(&shown.join(", ")), parse(text), "{shown:?}");
        }
        for (text, why) in [
            ("", "\"\": has no < or >"),
            ("retransmissions = 1.2x", "\"retransmissions = 1.2x\": has no < or >"),
            ("fct < 1x", "\"fct < 1x\": is not about retransmissions, timeouts, goodput or owd"),
            ("owd p100 < 1x", "\"owd p100 < 1x\": owd takes a percentile, p1 to p99.9"),
            ("goodput > 0.97", "\"goodput > 0.97\": the limit is a multiple, 0.01x to 100x"),
            ("goodput > NaNx", "\"goodput > NaNx\": the limit is a multiple, 0.01x to 100x"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.starts_with(why) && said.ends_with(&format!("write such as {DEFAULT:?}")), "{said}");
        }
    }

    #[test]
    fn a_guard_holds_or_is_broken_only_where_its_whole_interval_is_on_one_side() {
        let [was, better, worse] = [effects(50, 1 << 30, 20), effects(20, 1 << 30, 16), effects(90, 1 << 29, 24)];
        let verdicts = |judged: &[Judged]| judged.iter().map(|judged| judged.verdict).collect::<Vec<_>>();
        let good = judge(DEFAULT, [&was, &better], [&was, &was]);
        assert_eq!(verdicts(&good), [Verdict::Holds; 3], "{}", table(&good));
        assert!(verdict(&good, false).is_none());
        let bad = judge(DEFAULT, [&was, &worse], [&was, &was]);
        assert_eq!(verdicts(&bad), [Verdict::Broken; 3], "{}", table(&bad));
        assert!(verdict(&bad, true).unwrap().contains(", not retransmissions < 1.2x"), "{bad:?}");
        let all = judge(DEFAULT, [&was, &worse], [&was, &worse]);
        assert_eq!(verdicts(&all), [Verdict::Holds, Verdict::Broken, Verdict::Holds], "it met the others as well");
        let rare = judge("retransmissions < 1.2x", [&effects(0, 1 << 30, 20), &effects(0, 1 << 30, 20)], [&was, &was]);
        assert_eq!(verdicts(&rare), [Verdict::Holds], "none of 600,000 segments: {rare:?}");
        let [one, two] = [5, 6].map(|n| Effects { segments: 1000, ..effects(n, 1 << 30, 20) });
        let open = judge("retransmissions < 1.2x", [&one, &two], [&one, &one]);
        assert_eq!(verdicts(&open), [Verdict::Open], "{open:?}");
        assert!(verdict(&open, true).is_none() && verdict(&open, false).unwrap().contains("does not say whether"));
        let untold = Effects { tcp: Tcp::WithoutTimeouts, ..was.clone() };
        let untold = judge("timeouts < 1.2x", [&untold, &untold], [&was, &was]);
        assert_eq!(verdicts(&untold), [Verdict::Open]);
        assert!(verdict(&untold, false).unwrap().starts_with("timeouts: too little was seen"), "{untold:?}");
    }
}
