//! Rules that say what is held: what those in force have matched, and what others would do.

use crate::agent::Client;
use onrampd::config::quantity::show_time;
use onrampd::config::{self, ConfigError, Mode};
use onrampd::scope::{self, Rule};
use onrampd::status::protocol::Request;
use onrampd::status::{DryRun, Scoped};
use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// An agent that is not asked for five seconds ends the dry run.
const ROUND: Duration = Duration::from_secs(1);

/// Reads rules.
///
/// # Errors
/// Every mistake in them.
pub fn read(file: &Path) -> Result<Vec<Rule>, Vec<ConfigError>> {
    scope::load(&config::read(file)?, &file.display().to_string())
}

/// Has the agent at `socket` count for so long what rules match; what it counted.
///
/// # Errors
/// There is no agent, or one of other rules goes on.
pub fn dry_run(socket: &Path, rules: Vec<Rule>, lasts: Duration) -> io::Result<DryRun> {
    let mut client = Client::connect(socket)?;
    let request = Request::DryRun { scope: rules };
    let before: DryRun = client.ask(&request)?;
    let end = Instant::now() + lasts;
    loop {
        sleep(ROUND.min(end.saturating_duration_since(Instant::now())));
        let mut after: DryRun = client.ask(&request)?;
        if Instant::now() >= end {
            after.scope.iter_mut().zip(&before.scope).for_each(|(after, before)| since(after, before));
            return Ok(after);
        }
    }
}

/// Leaves what was counted since then.
fn since(row: &mut Scoped, before: &Scoped) {
    for (now, then) in [
        (&mut row.packets, before.packets),
        (&mut row.bytes, before.bytes),
        (&mut row.paused, before.paused),
        (&mut row.paused_bytes, before.paused_bytes),
        (&mut row.paused_ns, before.paused_ns),
    ] {
        *now = now.saturating_sub(then);
    }
}

/// A table of rules, its heading first; or that there are none.
#[must_use]
pub fn lines(rows: &[Scoped]) -> Vec<String> {
    if rows.is_empty() {
        return vec!["no rules: all is held that may be".into()];
    }
    let heading = ["packets", "bytes", "paused", "bytes", "time"];
    let line = |name: &str, [packets, bytes, paused, paused_bytes, time]: [String; 5], rule: &str| {
        format!("{name:<20}{packets:>12}{bytes:>16}{paused:>12}{paused_bytes:>16}{time:>12}  {rule}")
    };
    let row = |row: &Scoped| {
        let numbers = [row.packets, row.bytes, row.paused, row.paused_bytes].map(|n| n.to_string());
        let [packets, bytes, paused, paused_bytes] = numbers;
        let absent = if row.absent { " (there is no such cgroup now)" } else { "" };
        let rule = if row.rule.is_empty() { "what no rule matches" } else { &row.rule };
        line(
            &row.name,
            [packets, bytes, paused, paused_bytes, show_time(row.paused_ns as i64)],
            &format!("{rule}{absent}"),
        )
    };
    [line("rule", heading.map(String::from), "")]
        .into_iter()
        .chain(rows.iter().map(row))
        .map(|l| l.trim_end().into())
        .collect()
}

/// A number of things.
fn counted(n: u64, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The table and what it comes down to.
#[must_use]
pub fn show(run: &DryRun, lasts: Duration) -> String {
    let mode = match run.mode {
        Mode::Observe => "observes",
        Mode::Enforce => "holds packets by the rules in force",
    };
    let sum = |holds: bool| {
        let rows = run.scope.iter().filter(|row| row.hold == holds);
        rows.fold((0, 0, 0), |sum, row| (sum.0 + row.paused, sum.1 + row.paused_bytes, sum.2 + row.paused_ns))
    };
    let told = |holds| {
        let (packets, bytes, time) = sum(holds);
        let [packets, bytes] = [(packets, "packet"), (bytes, "byte")].map(|(n, what)| counted(n, what));
        format!("{packets}, {bytes}, {}", show_time(time as i64))
    };
    format!(
        "in {}, on an agent that {mode}:\n{}\nthese rules would hold   {}\nand let go               {}\n",
        show_time(lasts.as_nanos() as i64),
        lines(&run.scope).join("\n"),
        told(true),
        told(false)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_not_many() {
        assert_eq!([0, 1, 2].map(|n| counted(n, "packet")), ["0 packets", "1 packet", "2 packets"]);
    }

    #[test]
    fn what_would_be_held_and_what_not_is_summed_up() {
        let rule = Scoped {
            name: "backup".into(),
            rule: "hold = false, port = 873".into(),
            absent: true,
            ..Scoped::default()
        };
        let none = Scoped {
            name: "none".into(),
            hold: true,
            packets: 7,
            paused: 3,
            paused_bytes: 30,
            paused_ns: 5_000,
            ..Scoped::default()
        };
        let said = show(&DryRun { mode: Mode::Observe, scope: vec![rule, none] }, Duration::from_secs(10));
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("in 10.0 s, on an agent that observes"), "{said}");
        assert!(
            lines[2].starts_with("backup ") && lines[2].ends_with("port = 873 (there is no such cgroup now)"),
            "{said}"
        );
        assert!(
            lines[4].ends_with("hold   3 packets, 30 bytes, 5.00 µs") && lines[5].ends_with("0 packets, 0 bytes, 0 ns"),
            "{said}"
        );
    }
}
