//! Times that recordings of several hosts have in common.

use crate::agent::Client;
use onrampd::clock::both;
use onrampd::status::Clock;
use rustix::process::Gid;
use rustix::thread::set_thread_groups;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Clocks whose frequencies differ by more are none to go by.
const MOST_DRIFT: f64 = 1e-3;

/// A look at the clock that hosts share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    /// CLOCK_MONOTONIC.
    pub at: u64,
    /// The shared clock less CLOCK_MONOTONIC, in nanoseconds.
    pub ahead: i64,
}

/// That clock as a line on this host's CLOCK_MONOTONIC, through two looks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    last: Look,
    /// How much faster it runs.
    drift: f64,
}

impl Line {
    /// From the first look on, until there is another.
    #[must_use]
    pub fn new(first: Look) -> Self {
        Self { last: first, drift: 0.0 }
    }

    /// With one look more.
    #[must_use]
    pub fn seen(self, look: Look) -> Self {
        let passed = look.at.wrapping_sub(self.last.at).cast_signed() as f64;
        let drift = look.ahead.wrapping_sub(self.last.ahead) as f64 / passed;
        Self { last: look, drift: if drift.abs() < MOST_DRIFT { drift } else { 0.0 } }
    }

    /// The shared clock when CLOCK_MONOTONIC shows `at`.
    #[must_use]
    pub fn time(&self, at: u64) -> i64 {
        let since = at.wrapping_sub(self.last.at).cast_signed() as f64;
        at.wrapping_add_signed(self.last.ahead).cast_signed() + (since * self.drift).round() as i64
    }
}

/// Which clock the hosts share.
pub enum Source {
    /// The fleet's, which the agent at this socket knows.
    Fleet(PathBuf),
    /// All agents of its peers go by this host's own.
    Own,
    /// The system's, which something else keeps right.
    System,
}

impl Source {
    /// The one of the agent at `socket`, else the system's.
    #[must_use]
    pub fn find(socket: &Path) -> Self {
        match ask(socket).map(|clock| clock.source).as_deref() {
            Ok("fleet") => Self::Fleet(socket.into()),
            Ok("shared") => Self::Own,
            _ => Self::System,
        }
    }

    /// As recordings name it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fleet(_) => "fleet",
            Self::Own => "monotonic",
            Self::System => "system",
        }
    }

    /// This thread's groups are those it takes to ask: root without capabilities is refused like anyone else.
    pub fn join(&self) {
        if let Self::Fleet(socket) = self
            && let Ok(of) = fs::metadata(socket)
        {
            // Who may not change its groups has asked by those it has.
            _ = set_thread_groups(&[Gid::from_raw(of.gid())]);
        }
    }

    /// How it is now.
    ///
    /// # Errors
    /// The agent is gone, or does not know its clock.
    pub fn look(&self) -> io::Result<Look> {
        let (at, realtime) = both();
        let ahead = match self {
            Self::Own => 0,
            Self::System => realtime.wrapping_sub(at.cast_signed()),
            Self::Fleet(socket) => {
                let clock = ask(socket)?;
                clock.fleet_ns.ok_or_else(|| io::Error::other(clock.reason))?
            }
        };
        Ok(Look { at, ahead })
    }
}

fn ask(socket: &Path) -> io::Result<Clock> {
    Ok(Client::connect(socket)?.status(0, false)?.clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_on_the_line_through_the_last_two_looks() {
        let [first, second] = [(1_000_000_000, -400), (2_000_000_000, -20_400)].map(|(at, ahead)| Look { at, ahead });
        let line = Line::new(first);
        assert_eq!([0, 3_000_000_000].map(|at| line.time(at)), [-400, 2_999_999_600]);
        let line = line.seen(second);
        assert_eq!([1_000_000_000, 3_000_000_000].map(|at| line.time(at)), [999_999_600, 2_999_959_600]);
        // The clock was set, or both looks are of the same time.
        for odd in [Look { at: 3_000_000_000, ahead: 1_000_000_000 }, Look { ahead: -20_399, ..second }] {
            assert_eq!(line.seen(odd), Line::new(odd));
        }
    }
}
