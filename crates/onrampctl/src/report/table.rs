//! A report as text.

use super::{Report, Run};
use onrampd::config::quantity::show_time;
use onrampd::effects::compare::{Compared, Difference, Unit};
use onrampd::policy::utc;
use std::fmt::Write as _;

/// A number as people read it.
pub(super) fn number(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ns => show_time(value as i64),
        Unit::Share => format!("{} %", digits(value * 100.0)),
        Unit::PerSecond => format!("{}/s", scaled(value)),
        Unit::PerGigabyte => format!("{}/GB", digits(value)),
        Unit::BytesPerSecond => format!("{}B/s", scaled(value)),
    }
}

/// Three digits.
fn digits(value: f64) -> String {
    let size = value.abs();
    let decimals = if size == 0.0 || size >= 100.0 {
        0
    } else if size >= 10.0 {
        1
    } else if size >= 1.0 {
        2
    } else {
        3
    };
    // What is rounded to nothing is told as nothing.
    format!("{value:.decimals$}").replace("-0.000", "0")
}

fn scaled(value: f64) -> String {
    let scales = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    let (scale, prefix) = scales.into_iter().find(|(scale, _)| value.abs() >= *scale).unwrap_or((1.0, ""));
    format!("{} {prefix}", digits(value / scale))
}

/// A difference, with its sign.
fn signed(value: f64, unit: Unit) -> String {
    let text = number(value, unit);
    if value >= 0.0 { format!("+{text}") } else { text.replacen('-', "−", 1) }
}

/// A difference and its interval, or why there is none.
pub(super) fn difference(row: &Compared) -> String {
    match (&row.difference, &row.why) {
        (Some(Difference { value, low, high, .. }), _) => {
            let [value, low, high] = [value, low, high].map(|n| signed(*n, row.unit));
            format!("{value} [{low}, {high}]")
        }
        (None, Some(why)) => why.clone(),
        (None, None) => "-".into(),
    }
}

pub(super) fn cell(value: Option<f64>, unit: Unit) -> String {
    value.map_or("-".into(), |value| number(value, unit))
}

/// A mode's part of the time, in words.
pub(super) fn run(run: &Run) -> String {
    if run.blocks == 0 {
        return "never".into();
    }
    let thresholds: Vec<_> = run.thresholds.iter().map(String::as_str).collect();
    let blocks = if run.blocks == 1 { "1 block".into() } else { format!("{} blocks", run.blocks) };
    let mut text = format!("{:.1} min in {blocks}, T {}", run.seconds / 60.0, thresholds.join(", "));
    let shown = |n: &u64| if *n == 0 { "0 (none)".into() } else { n.to_string() };
    let policies: Vec<_> = run.policies.iter().map(shown).collect();
    if run.policies.iter().any(|n| *n > 0) {
        let _ = write!(text, ", policy version {}", policies.join(", "));
    }
    text
}

/// All of it.
pub(super) fn show(report: &Report) -> String {
    let mut out = format!("{} · {} to {}\n", report.host, utc(report.since), utc(report.until));
    for (mode, of) in [("observe", &report.observe), ("enforce", &report.enforce)] {
        let _ = writeln!(out, "{mode}: {}", run(of));
    }
    let mut table = |title: &str, rows: &[Compared]| {
        let _ = writeln!(out, "\n{title:<27}{:>12}{:>12}  enforce − observe", "observe", "enforce");
        for row in rows {
            let [observe, enforce] = [row.observe, row.enforce].map(|value| cell(value, row.unit));
            let _ = writeln!(out, "{:<27}{observe:>12}{enforce:>12}  {}", row.title, difference(row));
        }
    };
    table("all paths", &report.total);
    for path in &report.paths {
        table(&format!("to {}", path.peer), &path.measures);
    }
    out.push('\n');
    report.notes.iter().fold(out, |out, note| out + note + "\n")
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_their_unit() {
        assert_eq!(number(52_340.0, Unit::Ns), "52.3 µs");
        assert_eq!(number(0.01234, Unit::Share), "1.23 %");
        assert_eq!(number(123_456_789.0, Unit::BytesPerSecond), "123 MB/s");
        assert_eq!([0.0, 12.34].map(|n| number(n, Unit::PerGigabyte)), ["0/GB", "12.3/GB"]);
        assert_eq!(signed(-0.05, Unit::Share), "−5.00 %");
    }

    #[test]
    fn a_table_names_modes_load_and_what_it_is_not() {
        let text = show(&report(60, 60));
        println!("{text}");
        assert!(text.contains("\nobserve: 10.0 min in 60 blocks, T 50us, policy version 2\n"), "{text}");
        for title in ["one-way delay, p99", "segments retransmitted", "RTOs", "load: data segments"] {
            assert_eq!(text.matches(&format!("\n{title}")).count(), 2, "in all and to the peer: {text}");
        }
        assert!(text.contains(" [−") && text.contains("is no experiment"), "{text}");
        assert!(!text.contains("± 0"));
        assert!(text.starts_with("web-07 (10.0.0.1) · 2027-01-15 07:59:50 UTC to 2027-01-15 08:19:50 UTC\n"), "{text}");
        let policies = [0, 1, 3].into();
        let mixed = Run { blocks: 2, seconds: 20.0, policies, ..Run::default() };
        assert!(run(&mixed).ends_with(", policy version 0 (none), 1, 3"), "{}", run(&mixed));
        let one = show(&report(0, 9));
        assert!(one.contains("observe: never\n") && one.contains("only enforced"), "{one}");
    }
}
