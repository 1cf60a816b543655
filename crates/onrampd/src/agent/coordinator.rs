//! The coordinator that runs in this agent, on a thread of its own.

use crate::fleet::serve;
use crate::fleet::wire::Realtime;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

/// A fleet's coordinator; ends when it is dropped.
pub(super) struct Coordinator {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    pub(super) realtime: Arc<Mutex<Option<Realtime>>>,
}

impl Coordinator {
    pub(super) fn start(mut server: serve::Server) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let realtime = server.realtime();
        let run = move || {
            if let Err(e) = server.run(&stopped) {
                eprintln!("onrampd: the coordinator has ended: {e}");
            }
        };
        let thread = std::thread::Builder::new().name("coordinator".into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread), realtime })
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        self.stop = None;
        self.thread.take().map(JoinHandle::join);
    }
}
