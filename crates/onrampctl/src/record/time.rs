//! Times that recordings of several hosts have in common.

use crate::agent::Client;
use onrampd::clock::both;
use onrampd::status::Clock;
use std::io;
use std::path::{Path, PathBuf};

/// A clock that hosts share, as a line on this host's CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Where drift counts from.
    base: u64,
    /// The shared clock less CLOCK_MONOTONIC, at `base`, in nanoseconds.
    ahead: i64,
    /// How much faster this host's clock runs, in parts per million.
    drift_ppm: f64,
}

impl Line {
    /// Without drift.
    #[cfg(test)]
    pub fn at(base: u64, ahead: i64) -> Self {
        Self { base, ahead, drift_ppm: 0.0 }
    }

    /// The shared clock when CLOCK_MONOTONIC shows `at`.
    #[must_use]
    pub fn time(&self, at: u64) -> i64 {
        let since = at.wrapping_sub(self.base).cast_signed();
        at.wrapping_add_signed(self.ahead).cast_signed() - (since as f64 * self.drift_ppm / 1e6).round() as i64
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

    /// How it is now.
    ///
    /// # Errors
    /// The agent is gone, or does not know its clock.
    pub fn look(&self) -> io::Result<Line> {
        let (base, realtime) = both();
        let line = |ahead, drift_ppm| Line { base, ahead, drift_ppm };
        match self {
            Self::Own => Ok(line(0, 0.0)),
            Self::System => Ok(line(realtime.wrapping_sub(base.cast_signed()), 0.0)),
            Self::Fleet(socket) => {
                let clock = ask(socket)?;
                let ahead = clock.fleet_ns.ok_or_else(|| io::Error::other(clock.reason))?;
                Ok(line(ahead, clock.drift_ppm.unwrap_or(0.0)))
            }
        }
    }
}

fn ask(socket: &Path) -> io::Result<Clock> {
    Ok(Client::connect(socket)?.status(0, false)?.clock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_fast_gains_on_the_shared_one() {
        let line = Line { base: 1_000_000_000, ahead: -400, drift_ppm: 20.0 };
        assert_eq!(line.time(1_000_000_000), 999_999_600);
        assert_eq!(line.time(2_000_000_000), 1_999_999_600 - 20_000);
        assert_eq!(line.time(0), -400 + 20_000);
    }
}
