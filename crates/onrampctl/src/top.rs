//! A table of paths and flows that is drawn anew every second.

use crate::agent::Client;
use crate::status::{flow_lines, path_lines, show};
use onrampd::status::{Flow, Flows, Status};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Read as _, Stdin, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Flows asked for: those held longest.
const FLOWS: usize = 200;

/// Shows the table until `q` is pressed.
///
/// # Errors
/// Standard output is no terminal, or the agent goes away.
pub fn run(socket: &Path) -> io::Result<()> {
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        return Err(io::Error::other("top needs a terminal: onrampctl status --flows tells the same once"));
    }
    let end = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&end))?;
    }
    let mut client = Client::connect(socket)?;
    let screen = Screen::open()?;
    let mut before = None;
    while !end.load(Ordering::Relaxed) {
        let status = client.status(FLOWS, false)?;
        let size = tcgetwinsize(io::stdout())?;
        let lines = frame(before.as_ref(), &status, size.ws_row.into(), size.ws_col.into());
        draw(&lines)?;
        before = Some(status);
        if screen.pressed_q()? {
            return Ok(());
        }
    }
    Ok(())
}

fn draw(lines: &[String]) -> io::Result<()> {
    let mut out = String::from("\x1b[H");
    for (i, line) in lines.iter().enumerate() {
        let _ = write!(out, "{}{line}\x1b[K", if i > 0 { "\r\n" } else { "" });
    }
    out.push_str("\x1b[J");
    io::stdout().write_all(out.as_bytes())?;
    io::stdout().flush()
}

/// Draws the screen: at most `rows` lines of at most `columns` characters.
#[must_use]
pub fn frame(before: Option<&Status>, now: &Status, rows: usize, columns: usize) -> Vec<String> {
    let summary = show(&Status { paths: Vec::new(), flows: Flows::default(), ..now.clone() });
    let mut lines: Vec<String> = summary.lines().take_while(|l| !l.starts_with("path to")).map(String::from).collect();
    let f = &now.flows;
    let paths = path_lines(&now.paths);
    // Paths get a third of what is left, flows the rest.
    let left = rows.saturating_sub(lines.len() + 4);
    let shown = paths.len().min((left / 3).max(2));
    lines.extend(paths[..shown].iter().cloned());
    if shown < paths.len() {
        lines.push(format!("… {} more", paths.len() - shown));
    }
    lines.push(String::new());
    lines.push(format!("{} flows · {} held now · {} pauses · q quits", f.count, f.held_now, f.pauses));
    let mut flows: Vec<(&Flow, Option<f64>)> = f.top.iter().zip(rates(before, now)).collect();
    // Those paused most at present first; the sort keeps the longest held first among equals.
    flows.sort_by(|(_, a), (_, b)| b.unwrap_or(0.0).total_cmp(&a.unwrap_or(0.0)));
    lines.extend(flow_lines(&flows));
    lines.truncate(rows);
    lines.iter_mut().for_each(|line| *line = line.chars().take(columns).collect());
    lines
}

/// Pauses per second of each flow of `now`.
fn rates(before: Option<&Status>, now: &Status) -> Vec<Option<f64>> {
    let key = |f: &Flow| (f.protocol.clone(), f.source.clone(), f.destination.clone());
    let old: HashMap<_, u64> = before.iter().flat_map(|b| &b.flows.top).map(|f| (key(f), f.pauses)).collect();
    let seconds = before.map_or(0.0, |b| now.uptime_ns.saturating_sub(b.uptime_ns) as f64 / 1e9);
    let rate = |f: &Flow| {
        let before = old.get(&key(f)).filter(|_| seconds > 0.0)?;
        Some(f.pauses.saturating_sub(*before) as f64 / seconds)
    };
    now.flows.top.iter().map(rate).collect()
}

/// The terminal in raw mode, on a screen of its own; put back when dropped.
struct Screen {
    before: Termios,
    stdin: Stdin,
}

impl Screen {
    fn open() -> io::Result<Self> {
        let stdin = io::stdin();
        let before = tcgetattr(&stdin)?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(&stdin, OptionalActions::Now, &raw)?;
        let screen = Self { before, stdin };
        // Another screen, without a cursor.
        io::stdout().write_all(b"\x1b[?1049h\x1b[?25l")?;
        Ok(screen)
    }

    /// Waits a second, or until a key is pressed; whether it was `q`.
    fn pressed_q(&self) -> io::Result<bool> {
        let second = Timespec { tv_sec: 1, tv_nsec: 0 };
        match poll(&mut [PollFd::new(&self.stdin, PollFlags::IN)], Some(&second)) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Ok(false),
            Ok(_) => {
                let mut keys = [0; 16];
                let n = self.stdin.lock().read(&mut keys)?;
                Ok(n == 0 || keys[..n].contains(&b'q'))
            }
            Err(e) => Err(e.into()),
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = io::stdout().write_all(b"\x1b[?25h\x1b[?1049l");
        let _ = io::stdout().flush();
        let _ = tcsetattr(&self.stdin, OptionalActions::Now, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrampd::config::Mode;
    use onrampd::status::{Clock, Interface, Parameters};

    fn flow(port: u16, pauses: u64) -> Flow {
        Flow {
            source: format!("10.0.0.1:{port}"),
            destination: "10.0.0.2:80".into(),
            protocol: "tcp".into(),
            beta: 0.25,
            held_ns: 1_000,
            pauses,
            bytes: 9,
            or_acks: 1,
            owd_ns: Some(5_000),
            held_now: false,
            idle_ns: 0,
        }
    }

    fn status(seconds: u64, flows: Vec<Flow>) -> Status {
        Status {
            version: "0".into(),
            mode: Mode::Observe,
            policy: None,
            gate: onrampd::gate::Choice::observe(),
            pid: 1,
            uptime_ns: seconds * 1_000_000_000,
            attached: "tcx".into(),
            problems: Vec::new(),
            interfaces: vec![Interface { name: "eth0".into(), present: true, gates: Vec::new() }],
            clock: Clock::default(),
            parameters: Parameters {
                threshold_ns: 50_000,
                max_pause_ns: 150_000,
                gain: 0.0625,
                version: "final".into(),
                beta_start: 0.25,
                or_ack_interval_bytes: 16_384,
                port: 9471,
                idle_ns: 1_000_000,
                line_rate_bps: None,
            },
            paths: Vec::new(),
            scope: Vec::new(),
            effects: None,
            effects_missing: None,
            programs: Vec::new(),
            counters: Default::default(),
            flows: Flows { count: flows.len() as u64, top: flows, ..Flows::default() },
        }
    }

    #[test]
    fn flows_paused_most_at_present_come_first() {
        let (before, now) =
            (status(1, vec![flow(1, 90), flow(2, 0)]), status(3, vec![flow(1, 90), flow(2, 10), flow(3, 7)]));
        assert_eq!(rates(Some(&before), &now), [Some(0.0), Some(5.0), None]);
        let lines = frame(Some(&before), &now, 40, 200);
        let at = |text: &str| lines.iter().position(|l| l.contains(text)).unwrap();
        assert!(at("10.0.0.1:2 ") < at("10.0.0.1:1 ") && at("path to") < at("flow "), "{lines:#?}");
    }

    #[test]
    fn a_small_screen_is_never_overrun() {
        let now = status(1, (0..100).map(|port| flow(port, 0)).collect());
        for (rows, columns) in [(0, 0), (3, 10), (24, 80)] {
            let lines = frame(None, &now, rows, columns);
            assert!(lines.len() <= rows && lines.iter().all(|l| l.chars().count() <= columns));
        }
    }
}
