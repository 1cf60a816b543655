//! What a rollout must not make worse: `retransmissions < 1.2x, owd p99 < 1.0x, goodput > 0.97x`. Pure.

use crate::compare::{Measure, Ratio};
use onrampd::effects::Effects;
use std::fmt;

/// What is compared.
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
    /// What is compared.
    pub what: What,
    /// It must be below the limit, not above.
    pub below: bool,
    /// Times what it would be without.
    pub limit: f64,
}

/// What is known of a guard.
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
    /// How it is made of the counts of `seconds`, of each host.
    pub fn measure(self, sum: &Effects) -> Option<(f64, f64)> {
        // Half an event more: none so far is not never.
        let rate = |events: u64, of: f64| {
            let events = events as f64 + 0.5;
            (of > 0.0).then(|| ((events / of).ln(), 1.0 / events))
        };
        match self {
            Self::Retransmissions => rate(sum.retransmitted, sum.segments as f64),
            Self::Timeouts => rate(sum.timeouts, sum.acked_bytes as f64),
            Self::Goodput => (sum.acked_bytes > 0).then(|| ((sum.acked_bytes as f64).ln(), 0.0)),
            Self::Owd(quantile) => Some(((sum.owd.quantile(quantile)? as f64).max(1.0).ln(), 0.0)),
        }
    }
}
