//! Keeps the programs going while the agent works, whatever that is busy with.

use crate::clock::now;
use crate::datapath::{Alive, Error};
use crate::worker::Worker;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tracing::error;

/// The programs stop so many nanoseconds after the last beat.
const VALID: u64 = 3_000_000_000;
/// Between two beats.
const BEAT: Duration = Duration::from_secs(1);
/// An agent that has not worked for so long hangs. Its clock would be wrong by now.
const PATIENCE: u64 = 20_000_000_000;

/// Beats on a thread of its own until it is dropped.
pub struct Heart {
    worked: Arc<AtomicU64>,
    /// Closed to end the thread, and before it is waited for.
    _stop: Sender<()>,
    thread: Worker,
}

impl Heart {
    /// Starts the programs.
    ///
    /// # Errors
    /// They cannot be told, or there is no thread.
    pub fn start(mut alive: Alive) -> Result<Self, Error> {
        let worked = Arc::new(AtomicU64::new(now()));
        alive.until(now() + VALID)?;
        let (stop, stopped) = channel();
        let seen = Arc::clone(&worked);
        let run = move || {
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                if now().saturating_sub(seen.load(Ordering::Relaxed)) < PATIENCE
                    && let Err(e) = alive.until(now() + VALID)
                {
                    error!("{e}");
                }
            }
            Ok(())
        };
        let thread = Worker::start("heart", run).map_err(Error::Thread)?;
        Ok(Self { worked, _stop: stop, thread })
    }

    /// The agent has come round.
    pub fn worked(&self) {
        self.worked.store(now(), Ordering::Relaxed);
    }

    /// Checks that the thread is at work.
    ///
    /// # Errors
    /// Why it ended.
    pub fn check(&mut self) -> io::Result<()> {
        self.thread.check()
    }
}
