//! Waiting for descriptors and signals, and for a time to come.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::net::UnixStream;

const SECOND: u64 = 1_000_000_000;

/// Waits until one of `fds` is ready, a signal comes or `ns` nanoseconds are over.
///
/// # Errors
/// The system does not let us wait.
pub fn wait<'fd>(fds: impl Iterator<Item = PollFd<'fd>>, ns: u64) -> io::Result<()> {
    let timeout = Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as _ };
    let mut fds: Vec<PollFd<'fd>> = fds.collect();
    match poll(&mut fds, Some(&timeout)) {
        Err(e) if e != rustix::io::Errno::INTR => Err(e.into()),
        _ => Ok(()),
    }
}

/// A pipe that can be read once one of `signals` has come: a byte for each.
///
/// # Errors
/// There is no pipe to be had, or a signal cannot be caught.
pub fn signalled(signals: &[i32]) -> io::Result<UnixStream> {
    let (read, write) = UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
    }
    Ok(read)
}

/// Something to read, and with `write` also room to write.
#[must_use]
pub fn ready(fd: BorrowedFd<'_>, write: bool) -> PollFd<'_> {
    PollFd::from_borrowed_fd(fd, if write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN })
}
