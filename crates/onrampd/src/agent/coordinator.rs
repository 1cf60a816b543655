//! The coordinator that runs in this agent, on a thread of its own.

use crate::fleet::serve;
use crate::worker::Worker;
use std::io;
use std::os::unix::net::UnixStream;

/// A fleet's coordinator; ends when it is dropped.
pub(super) struct Coordinator {
    /// Closed to end the thread, and before it is waited for.
    _stop: UnixStream,
    thread: Worker,
}

impl Coordinator {
    pub(super) fn start(mut server: serve::Server) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let thread = Worker::start_unprivileged("coordinator", move || server.run(&stopped, || {}))?;
        Ok(Self { _stop: stop, thread })
    }

    /// Checks that it is at work.
    ///
    /// # Errors
    /// Why it ended.
    pub(super) fn check(&mut self) -> io::Result<()> {
        self.thread.check()
    }
}
