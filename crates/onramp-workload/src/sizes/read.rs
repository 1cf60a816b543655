//! Size distributions in a file, in either of two formats.
//!
//! HPCC: `size percent` a line, from 0 to 100 percent, sizes between two points
//! evenly spread. Homa: the mean, then `size probability` a line, up to 1, no
//! sizes between two points. A first line of two numbers is HPCC's.

use super::super::MAX_BYTES;
use super::super::lines::{Lines, quoted};
use super::{Cdf, Rule};
use std::io::BufRead;

/// Most points a distribution may have.
const MAX_POINTS: usize = 1 << 20;
/// How far a stated mean may be from the table's, as a share of it.
const MEAN_TOLERANCE: f64 = 0.01;

pub(super) fn read<R: BufRead>(lines: &mut Lines<R>) -> Result<Cdf, String> {
    let Some(first) = lines.next()?.map(str::to_string) else {
        return Err(lines.wrong("the file is empty: write a size and a percentage a line, from 0 0 to 100 percent"));
    };
    let mut points: Vec<(f64, f64)> = Vec::new();
    let (rule, whole, stated) = if first.split_whitespace().count() == 1 {
        let mean: Option<f64> = first.parse().ok().filter(|m: &f64| m.is_finite() && *m > 0.0);
        let mean = mean.ok_or_else(|| {
            let shown = quoted(&first);
            lines.wrong(format!("{shown} is neither a mean size, such as 440.79, nor the first point, 0 0"))
        })?;
        (Rule::Step, 1.0, Some(mean))
    } else {
        let point = point(&first, 100.0).map_err(|m| lines.wrong(m))?;
        if point.1 != 0.0 {
            return Err(lines.wrong(format!("the first point must be at 0 percent, such as 0 0, not at {}", point.1)));
        }
        points.push(point);
        (Rule::Linear, 100.0, None)
    };
    while let Some(line) = lines.next()? {
        let (size, p) = point(line, whole).map_err(|m| lines.wrong(m))?;
        if let Some(&(size_before, p_before)) = points.last()
            && (size < size_before || p < p_before)
        {
            return Err(lines.wrong(format!("{size} {p} is below the line above, {size_before} {p_before}")));
        }
        if points.len() == MAX_POINTS {
            return Err(lines.wrong(format!("more than {MAX_POINTS} points")));
        }
        points.push((size, p));
    }
    let last = points.last().map_or(0.0, |p| p.1);
    // Sums of rounded probabilities miss 1 by a little.
    if (last - whole).abs() > 1e-9 * whole {
        return Err(lines.wrong(format!("the last point must be at {whole}, not at {last}")));
    }
    for point in &mut points {
        point.1 = (point.1 / whole).min(1.0);
    }
    if let Some(point) = points.last_mut() {
        point.1 = 1.0;
    }
    let cdf = Cdf { rule, points };
    let mean = cdf.mean();
    if mean < 1.0 {
        return Err(lines.wrong(format!("the mean size is {mean} B: it must be at least 1 B")));
    }
    if let Some(stated) = stated.filter(|s| (s - mean).abs() > MEAN_TOLERANCE * mean) {
        return Err(lines.wrong_at(1, format!("states a mean of {stated} B, but the sizes below have {mean:.2} B")));
    }
    Ok(cdf)
}

fn point(line: &str, whole: f64) -> Result<(f64, f64), String> {
    let wrong = || {
        let (shown, example) = (quoted(line), if whole == 1.0 { "10000 0.15" } else { "10000 15" });
        format!("{shown} is not a size in bytes (0 to {MAX_BYTES}) and a share from 0 to {whole}, such as {example}")
    };
    let mut fields = line.split_whitespace();
    let (Some(size), Some(p), None) = (fields.next(), fields.next(), fields.next()) else { return Err(wrong()) };
    // R and Python write 400000 as 4e+05 or 400000.0.
    let size = size.parse().ok().filter(|s: &f64| *s >= 0.0 && *s <= MAX_BYTES as f64).ok_or_else(wrong)?;
    let p = p.parse().ok().filter(|p: &f64| *p >= 0.0 && *p <= whole * (1.0 + 1e-9)).ok_or_else(wrong)?;
    Ok((size, p))
}
