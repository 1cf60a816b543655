//! A report as a page of its own: no script, nothing from elsewhere.

use super::table::{cell, difference, run};
use super::{Report, chosen};
use onrampd::config::Mode;
use onrampd::config::quantity::show_time;
use onrampd::effects::Effects;
use onrampd::effects::blocks::Block;
use onrampd::effects::compare::Compared;
use onrampd::policy::utc;
use std::fmt::Write as _;
use std::net::IpAddr;

/// That of the dashboard, and what charts take.
const STYLE: &str = include_str!("../dashboard/page.css");
const MORE: &str = "svg { display: block; width: 100%; height: auto; background: var(--panel); }
svg text { font: 12px system-ui, sans-serif; fill: var(--faint); }
.grid { stroke: var(--line); } .enforce { fill: var(--c1); opacity: .45; }
.line { fill: none; stroke-width: 1.6; } .line.p50 { stroke: var(--p50); } .line.p99 { stroke: var(--p99); }
.key .shade { width: 18px; height: 12px; border: 0; background: var(--c1); }
td:first-child { text-align: left; } td { white-space: nowrap; } table { margin-bottom: 10px; }";

const WIDTH: f64 = 1160.0;
const HEIGHT: f64 = 210.0;
/// Room for the numbers on the left, and for times below.
const LEFT: f64 = 64.0;
const BELOW: f64 = 20.0;
/// Room for half a label above the topmost line.
const ABOVE: f64 = 10.0;
/// Points of a line at most: of more blocks, some are joined.
const POINTS: usize = 600;
/// A gap between blocks that is longer is one \[s\].
const GAP: u64 = 25;

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A moment of the charts.
struct Point {
    at: u64,
    mode: Mode,
    met: Effects,
}

/// Blocks that follow each other in one mode, joined where there are many.
fn points(blocks: &[Block], peers: &[IpAddr]) -> Vec<Point> {
    let joined = blocks.len().div_ceil(POINTS).max(1);
    let mut points: Vec<(usize, Point)> = Vec::new();
    for block in blocks {
        let Some(met) = chosen(block, peers) else { continue };
        let (at, mode) = (block.at, block.under.mode);
        match points.last_mut() {
            Some((n, last)) if *n < joined && last.mode == mode && at.saturating_sub(last.at) <= GAP => {
                *n += 1;
                (last.at, last.met) = (at, last.met.plus(&met));
            }
            _ => points.push((1, Point { at, mode, met })),
        }
    }
    points.into_iter().map(|(_, point)| point).collect()
}

/// A chart over time with the enforcing parts shaded: lines of a class, and what they show.
struct Chart<'a> {
    points: &'a [Point],
    /// From the start of the first block to the end of the last one [s since 1970].
    span: (u64, u64),
}

type Line<'a> = (&'a str, &'a dyn Fn(&Effects) -> Option<f64>);

impl Chart<'_> {
    fn x(&self, at: u64) -> f64 {
        let (from, to) = self.span;
        LEFT + (WIDTH - LEFT) * at.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64
    }

    /// With a scale from `low` to `high`, in powers of two if `log`.
    fn svg(&self, title: &str, lines: &[Line<'_>], log: bool, label: impl Fn(f64) -> String) -> String {
        let values = self.points.iter().flat_map(|point| lines.iter().filter_map(|(_, of)| of(&point.met)));
        let values: Vec<f64> = values.collect();
        let Some(most) = values.iter().copied().reduce(f64::max) else {
            return "<p>Nothing was measured.</p>\n".into();
        };
        let least = values.iter().copied().fold(most, f64::min);
        let (low, high) =
            if log { (least.max(1.0).log2().floor(), most.max(2.0).log2().ceil()) } else { (0.0, most.max(1e-3)) };
        let high = if high > low { high } else { low + 1.0 };
        let place = |value: f64| if log { value.max(1.0).log2() } else { value };
        let y = |value: f64| (HEIGHT - BELOW) * (1.0 - (value - low) / (high - low)) + ABOVE;
        let mut svg =
            format!("<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\" aria-label=\"{title}\">\n", HEIGHT + ABOVE + 4.0);
        for part in self.points.chunk_by(|a, b| a.mode == b.mode).filter(|part| part[0].mode == Mode::Enforce) {
            let begin = part[0].at.saturating_sub(part[0].met.elapsed_ns / 1_000_000_000);
            let (from, to) = (self.x(begin), self.x(part[part.len() - 1].at));
            let _ = writeln!(
                svg,
                "<rect class=\"enforce\" x=\"{from:.1}\" y=\"{ABOVE}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                (to - from).max(1.0),
                HEIGHT - BELOW
            );
        }
        for i in 0..=4 {
            let value = low + (high - low) * f64::from(i) / 4.0;
            let at = y(value);
            let text = label(if log { value.exp2() } else { value });
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
                LEFT - 6.0,
                at + 4.0
            );
        }
        for i in 0..=4 {
            let (from, to) = self.span;
            let at = from + (to - from) * i / 4;
            let anchor = if i == 4 { "end" } else { "middle" };
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"{anchor}\">{}</text>",
                self.x(at),
                HEIGHT + ABOVE,
                &utc(at)[11..19]
            );
        }
        for (class, of) in lines {
            let mut path = String::new();
            let mut last: Option<u64> = None;
            for point in self.points {
                let Some(value) = of(&point.met) else {
                    last = None;
                    continue;
                };
                let longest = GAP.max(2 * point.met.elapsed_ns / 1_000_000_000);
                let word = if last.is_some_and(|last| point.at - last <= longest) { 'L' } else { 'M' };
                let _ = write!(path, "{word}{:.1} {:.1}", self.x(point.at), y(place(value)));
                last = Some(point.at);
            }
            let _ = writeln!(svg, "<path class=\"line {class}\" d=\"{path}\"/>");
        }
        svg + "</svg>\n"
    }
}

fn table(rows: &[Compared]) -> String {
    let mut out = "<table><thead><tr><th></th><th class=\"number\">observe</th><th class=\"number\">enforce</th>\
                   <th class=\"number\">enforce − observe [95% interval]</th></tr></thead><tbody>\n"
        .to_owned();
    for row in rows {
        let [observe, enforce] = [row.observe, row.enforce].map(|value| cell(value, row.unit));
        let shown = escaped(&difference(row));
        let _ = writeln!(out, "<tr><td>{}</td><td>{observe}</td><td>{enforce}</td><td>{shown}</td></tr>", row.title);
    }
    out + "</tbody></table>\n"
}

/// The page.
pub(super) fn html(report: &Report, blocks: &[Block], peers: &[IpAddr]) -> String {
    let points = points(blocks, peers);
    let begin =
        points.first().map_or(report.since, |point| point.at.saturating_sub(point.met.elapsed_ns / 1_000_000_000));
    let chart = Chart { points: &points, span: (begin, points.last().map_or(report.until, |point| point.at)) };
    let time = |value: f64| show_time(value as i64);
    let quantile = |q: f64| move |e: &Effects| e.owd.quantile(q).map(|ns| ns as f64);
    let (p50, p99) = (quantile(0.5), quantile(0.99));
    let delays = chart.svg("One-way delays over time", &[("p50", &p50), ("p99", &p99)], true, time);
    let share = |value: f64| format!("{:.1} %", value * 100.0);
    let held = chart.svg("Share of time held", &[("p99", &Effects::held_share)], false, share);
    let notes = report.notes.iter().fold(String::new(), |out, note| out + "<p>" + &escaped(note) + "</p>\n");
    let of = |run: String| escaped(&run);
    let host = escaped(&report.host);
    let (observe, enforce) = (of(run(&report.observe)), of(run(&report.enforce)));
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>On-Ramp: before and after, {host}</title>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}{MORE}\n</style>\n</head>\n<body>\n<main>\n\
         <h1>On-Ramp: before and after <span>{host} · {} to {}</span></h1>\n\
         <dl id=\"answers\">\n<dt>Observe</dt><dd>{observe}</dd>\n<dt>Enforce</dt><dd>{enforce}</dd>\n</dl>\n{notes}\
         <h2>All paths</h2>\n{}\
         <h3>One-way delay <span class=\"key\"><i class=\"p50\"></i>p50 <i class=\"p99\"></i>p99 <i class=\"shade\"></i>enforce</span></h3>\n{delays}\
         <h3>Time held <span class=\"key\"><i class=\"shade\"></i>enforce; before, it would have been held</span></h3>\n{held}",
        utc(report.since),
        utc(report.until),
        table(&report.total),
    );
    for path in &report.paths {
        let _ = write!(out, "<h2>To {}</h2>\n{}", path.peer, table(&path.measures));
    }
    out + "</main>\n</body>\n</html>\n"
}

#[cfg(test)]
mod tests {
    use super::super::tests::{blocks, report};
    use super::*;

    #[test]
    fn a_page_stands_alone_and_shades_what_was_enforced() {
        let page = html(&report(60, 60), &blocks(60, 60), &[]);
        for word in ["http:", "https:", "//cdn", "<script", "onclick=", " style=\"", "NaN", "inf"] {
            assert!(!page.contains(word), "{word}");
        }
        assert_eq!((page.matches("<svg").count(), page.matches("class=\"enforce\"").count()), (2, 2));
        assert_eq!(page.matches("<path class=\"line").count(), 3);
        assert!(page.contains("<span>web-07 (10.0.0.1) · "));
        let none = html(&report(1, 0), &blocks(1, 0), &[]);
        assert!(!none.contains("class=\"enforce\"") && !none.contains("NaN"), "{none}");
    }

    #[test]
    fn a_days_blocks_are_joined_to_what_a_line_can_show() {
        let points = points(&blocks(4000, 4640), &[]);
        assert!(points.len() <= POINTS + 2, "{}", points.len());
        let segments: u64 = points.iter().map(|point| point.met.segments).sum();
        assert_eq!(segments, blocks(4000, 4640).iter().map(|block| block.total.segments).sum::<u64>());
        assert_eq!(points.chunk_by(|a, b| a.mode == b.mode).count(), 2);
    }
}
