//! Keeps the programs going while the agent works, whatever that is busy with.

use crate::clock::now;
use crate::datapath::{Alive, Error};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// The programs stop so many nanoseconds after the last beat.
const VALID: u64 = 3_000_000_000;
/// Between two beats.
const BEAT: Duration = Duration::from_secs(1);
/// An agent that has not worked for so long hangs. Its clock would be wrong by now.
const PATIENCE: u64 = 20_000_000_000;

/// Beats on a thread of its own until it is dropped.
pub struct Heart {
    worked: Arc<AtomicU64>,
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
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
                    eprintln!("onrampd: {e}");
                }
            }
        };
        let thread = Builder::new().name("heart".into()).spawn(run).map_err(Error::Thread)?;
        Ok(Self { worked, stop: Some(stop), thread: Some(thread) })
    }

    /// The agent has come round.
    pub fn worked(&self) {
        self.worked.store(now(), Ordering::Relaxed);
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.stop = None;
        self.thread.take().map(JoinHandle::join);
    }
}
