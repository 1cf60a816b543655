//! Delays for people.

use super::Matrix;
use onrampd::config::quantity::show_time;
use onrampd::fleet::wire::Delays;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// A matrix that would be wider becomes a list.
const WIDTH: usize = 120;

/// Rows from, columns to; or a list, if that would be too wide.
#[must_use]
pub fn show(matrix: &Matrix) -> String {
    if matrix.delays.is_empty() {
        return "no delays yet: hosts have not probed each other, or their clocks are not known\n".into();
    }
    let label = matrix.hosts.iter().map(|h| h.to_string().len()).max().unwrap_or(0);
    let cells: BTreeMap<(usize, usize), String> =
        matrix.cells().map(|(from, to, owd)| ((from, to), in_microseconds(&owd))).collect();
    let cell = cells.values().map(|c| c.chars().count()).max().unwrap_or(0).max(label) + 2;
    if label + cell * matrix.hosts.len() > WIDTH {
        return list(matrix, label);
    }
    let mut out = "one-way delay in µs: min / p50 / p99, rows from, columns to\n".to_string();
    let heading: String = matrix.hosts.iter().map(|h| format!("{:>cell$}", h.to_string())).collect();
    let _ = writeln!(out, "{:label$}{heading}", "");
    for (from, host) in matrix.hosts.iter().enumerate() {
        let none = "–".to_string();
        let row: String = (0..matrix.hosts.len())
            .map(|to| format!("{:>cell$}", if from == to { "" } else { cells.get(&(from, to)).unwrap_or(&none) }))
            .collect();
        let _ = writeln!(out, "{}", format!("{:label$}{row}", host.to_string()).trim_end());
    }
    out
}

fn list(matrix: &Matrix, label: usize) -> String {
    let mut out = format!("{:<label$}  {:<label$}{:>11}{:>11}{:>11}\n", "from", "to", "min", "p50", "p99");
    for pair in &matrix.delays {
        let [min, p50, p99] = [pair.owd.min_ns, pair.owd.p50_ns, pair.owd.p99_ns].map(show_time);
        let [from, to] = [pair.from, pair.to].map(|h| h.to_string());
        let _ = writeln!(out, "{from:<label$}  {to:<label$}{min:>11}{p50:>11}{p99:>11}");
    }
    out
}

fn in_microseconds(owd: &Delays) -> String {
    let [min, p50, p99] = [owd.min_ns, owd.p50_ns, owd.p99_ns].map(|ns| {
        let us = ns as f64 / 1e3;
        let decimals = if us.abs() < 10.0 { 2 } else { usize::from(us.abs() < 100.0) };
        format!("{us:.decimals$}")
    });
    format!("{min} / {p50} / {p99}")
}

#[cfg(test)]
mod tests {
    use super::super::tests::matrix;
    use super::*;
    use onrampd::fleet::wire::Fleet;

    #[test]
    fn few_hosts_are_a_matrix() {
        let text = show(&matrix(2, 1));
        let expected = "\
one-way delay in µs: min / p50 / p99, rows from, columns to
                    10.0.0.1            10.0.0.2
10.0.0.1                      5.10 / 5.60 / 11.2
10.0.0.2  3.90 / 4.40 / 26.4
";
        assert_eq!(text, expected);
        assert!(show(&matrix(4, 1)).contains('–'), "who does not probe each other");
    }

    #[test]
    fn many_hosts_are_a_list() {
        let all = matrix(40, 3);
        let text = show(&all);
        assert_eq!(text.lines().count(), 1 + all.delays.len());
        assert!(text.contains("10.0.0.1   10.0.0.2     5.10 µs    5.60 µs    11.2 µs\n"), "{text}");
    }

    #[test]
    fn a_fleet_without_delays_says_so() {
        assert!(show(&Matrix::of(&Fleet::default())).starts_with("no delays yet"));
    }
}
