//! Distributions of flow sizes.

mod fb_hadoop;
mod google_search_rpc;
mod read;
mod web_search;

use super::lines::Lines;
use std::path::Path;

/// A cumulative distribution of flow sizes in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Cdf {
    rule: Rule,
    /// Size and cumulative probability, neither descending; the last
    /// probability is 1.
    points: Vec<(f64, f64)>,
}

/// Sizes between two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// All sizes, evenly: the HPCC simulator's tables. The first probability is 0.
    Linear,
    /// Nothing; the upper size has it all: the Homa simulator's tables.
    Step,
}

fn built_in(name: &str) -> Option<Cdf> {
    match name {
        "WebSearch" => Some(Cdf::percent(web_search::POINTS)),
        "FB_Hadoop" => Some(Cdf::percent(fb_hadoop::POINTS)),
        "GoogleSearchRPC" => Some(google_search_rpc::cdf()),
        _ => None,
    }
}

/// True if `name` is a distribution that needs no file.
pub fn is_built_in(name: &str) -> bool {
    built_in(name).is_some()
}

/// The distribution that is built in as `name`, or else the file of that name.
///
/// # Errors
/// The file cannot be read, or the first mistake in it: file, line, what is
/// wrong and what would be right.
pub fn size_distribution(name: &str, base: &Path) -> Result<Cdf, String> {
    if let Some(cdf) = built_in(name) {
        return Ok(cdf);
    }
    let mut lines = Lines::open(name, base)
        .map_err(|m| format!("{m}; built in are \"WebSearch\", \"FB_Hadoop\" and \"GoogleSearchRPC\""))?;
    read::read(&mut lines)
}

impl Cdf {
    fn percent(points: &[(u32, f64)]) -> Self {
        let points = points.iter().map(|&(size, percent)| (f64::from(size), percent / 100.0)).collect();
        Self { rule: Rule::Linear, points }
    }

    /// Mean size in bytes, by the table's own rule.
    pub fn mean(&self) -> f64 {
        // A step from nothing at all to the first size.
        let first = self.points[0].0 * self.points[0].1;
        let part = |pair: &[(f64, f64)]| {
            let ((a, p), (b, q)) = (pair[0], pair[1]);
            let size = if self.rule == Rule::Linear { (a + b) / 2.0 } else { b };
            size * (q - p)
        };
        first + self.points.windows(2).map(part).sum::<f64>()
    }

    /// The largest size in bytes.
    pub fn largest(&self) -> u64 {
        self.points.last().map_or(0, |p| p.0 as u64)
    }

    /// The size at cumulative probability `u`, in [0, 1): whole bytes, rounded
    /// down, at least 1.
    pub fn sample(&self, u: f64) -> u64 {
        let above = self.points.partition_point(|&(_, p)| p <= u).min(self.points.len() - 1);
        let (b, q) = self.points[above];
        let size = match self.rule {
            Rule::Linear if above > 0 => {
                let (a, p) = self.points[above - 1];
                a + (b - a) * (u - p) / (q - p)
            }
            _ => b,
        };
        (size as u64).max(1)
    }
}

#[cfg(test)]
mod tests;
