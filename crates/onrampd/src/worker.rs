//! Threads that must not end before they are told to: their end is the agent's.

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use std::io;
use std::thread::{Builder, JoinHandle};

/// A thread with work to do until it is told to end. It is waited for when this is dropped.
pub struct Worker {
    name: &'static str,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Worker {
    /// Starts `work` on a thread of its own.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start(name: &'static str, work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<Self> {
        Ok(Self { name, thread: Some(Builder::new().name(name.into()).spawn(work)?) })
    }

    /// The same for what reads from others: the thread keeps no capabilities, whatever the process has.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn start_unprivileged(
        name: &'static str,
        work: impl FnOnce() -> io::Result<()> + Send + 'static,
    ) -> io::Result<Self> {
        Self::start(name, || drop_capabilities().and_then(|()| work()))
    }

    /// Checks that it is at work.
    ///
    /// # Errors
    /// Why it ended: what it returned, or that it panicked.
    pub fn check(&mut self) -> io::Result<()> {
        if self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        let why = match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Err(e))) => e.to_string(),
            Some(Err(_)) => "it panicked".into(),
            Some(Ok(Ok(()))) | None => "nobody told it to".into(),
        };
        Err(io::Error::other(format!("the thread {} has ended: {why}", self.name)))
    }
}

/// This thread does without capabilities from now on; the process's other threads keep theirs.
///
/// # Errors
/// The kernel does not let it.
pub fn drop_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    // Ambient ones go with those that can be inherited.
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    set_capabilities(None, sets).map_err(|e| io::Error::other(format!("capabilities cannot be dropped: {e}")))
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.thread.take().map(JoinHandle::join);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;
    use std::time::{Duration, Instant};

    fn end_of(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> String {
        let mut worker = Worker::start("test", work).unwrap();
        let begun = Instant::now();
        loop {
            match worker.check() {
                Ok(()) => assert!(begun.elapsed() < Duration::from_secs(60), "it goes on"),
                Err(e) => return e.to_string(),
            }
        }
    }

    #[test]
    fn a_thread_that_ends_says_why() {
        assert_eq!(end_of(|| Err(io::Error::other("no socket"))), "the thread test has ended: no socket");
        assert_eq!(end_of(|| panic!("on purpose")), "the thread test has ended: it panicked");
        assert_eq!(end_of(|| Ok(())), "the thread test has ended: nobody told it to");
    }

    #[test]
    fn a_thread_without_capabilities_leaves_others_theirs() {
        let effective = |thread: &str| {
            let status = std::fs::read_to_string(format!("/proc/{thread}/status")).unwrap();
            status.lines().find(|line| line.starts_with("CapEff:")).unwrap().to_string()
        };
        let before = effective("thread-self");
        let (tell, told) = channel();
        let work = move || tell.send(effective("thread-self")).map_err(io::Error::other);
        let _worker = Worker::start_unprivileged("test", work).unwrap();
        assert_eq!(told.recv().unwrap(), "CapEff:\t0000000000000000");
        assert_eq!(effective("thread-self"), before);
    }

    #[test]
    fn a_thread_at_work_is_waited_for() {
        let (stop, stopped) = channel::<()>();
        let mut worker = Worker::start("test", move || stopped.recv().map_err(io::Error::other)).unwrap();
        worker.check().unwrap();
        stop.send(()).unwrap();
        drop(worker);
    }
}
