//! The status socket, on a thread of its own, which reads what others send and keeps no capabilities. The agent
//! makes the answers, but for the history, which is on disk.

use crate::effects::journal::Journal;
use crate::status::protocol::{History, Request};
use crate::status::server::Server;
use crate::wait::{ready, wait};
use crate::worker::Worker;
use rustix::event::{PollFd, PollFlags};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

const SECOND: u64 = 1_000_000_000;
/// The thread waits no longer for an answer of the agent.
const PATIENCE: Duration = Duration::from_secs(4);

/// A request, and where its answer goes.
type Question = (Request, Sender<Vec<u8>>);

/// The socket, as the agent holds it.
pub(super) struct Questions {
    asked: Receiver<Question>,
    /// Readable when there are questions; closed to end the thread, and before it is waited for.
    pipe: UnixStream,
    thread: Worker,
}

impl Questions {
    /// Opens the socket at `path`.
    ///
    /// # Errors
    /// Another agent answers there, or the socket cannot be made.
    pub(super) fn open(path: &Path, journal: Journal) -> io::Result<Self> {
        let mut server = Server::open(path)?;
        let (pipe, theirs) = UnixStream::pair()?;
        pipe.set_nonblocking(true)?;
        theirs.set_nonblocking(true)?;
        let (ask, asked) = channel();
        let thread = Worker::start_unprivileged("status", move || serve(&mut server, &theirs, &ask, &journal))?;
        Ok(Self { asked, pipe, thread })
    }

    /// Answers what was asked.
    pub(super) fn answer(&mut self, mut answer: impl FnMut(Request) -> Vec<u8>) {
        while self.pipe.read(&mut [0; 64]).is_ok_and(|n| n > 0) {}
        for (request, to) in self.asked.try_iter() {
            // It may have lost patience.
            let _ = to.send(answer(request));
        }
    }

    /// Checks that the thread is at work.
    ///
    /// # Errors
    /// Why it ended.
    pub(super) fn check(&mut self) -> io::Result<()> {
        self.thread.check()
    }
}

impl AsFd for Questions {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }
}

/// Serves until the agent closes its end of the pipe.
fn serve(server: &mut Server, pipe: &UnixStream, ask: &Sender<Question>, journal: &Journal) -> io::Result<()> {
    loop {
        // A client whose answer is not out yet is not listened to.
        let clients = server
            .waits()
            .map(|(fd, full)| PollFd::from_borrowed_fd(fd, if full { PollFlags::OUT } else { PollFlags::IN }));
        wait([ready(pipe.as_fd(), false)].into_iter().chain(clients), SECOND)?;
        if matches!((&*pipe).read(&mut [0; 1]), Ok(0)) {
            return Ok(());
        }
        server.tend(&mut |request| {
            if let Request::History(History { since, until }) = request {
                let (blocks, next) = journal.read(since, until);
                let next = next.map_or("null".into(), |next| next.to_string());
                return format!("{{\"blocks\":[{}],\"next\":{next}}}", blocks.join(",")).into_bytes();
            }
            let (to, answer) = channel();
            let _ = ask.send((request, to));
            let _ = (&*pipe).write(&[1]);
            let busy = |_| {
                serde_json::json!({ "error": "the agent is busy, or is just being replaced: ask again" })
                    .to_string()
                    .into_bytes()
            };
            answer.recv_timeout(PATIENCE).unwrap_or_else(busy)
        });
    }
}
