//! Signals, and waiting for whatever comes first.

use super::questions::Questions;
use crate::sync::Sync;
use crate::wait::{self, signalled, wait};
use onramp_netlink::Watch;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;

/// Signals as bytes in pipes.
pub(super) struct Signals {
    pub(super) end: UnixStream,
    pub(super) reload: UnixStream,
    pub(super) upgrade: UnixStream,
}

impl Signals {
    pub(super) fn catch() -> io::Result<Self> {
        let pipe = |signals: &[i32]| {
            let pipe = signalled(signals)?;
            pipe.set_nonblocking(true)?;
            Ok::<_, io::Error>(pipe)
        };
        Ok(Self { end: pipe(&[SIGINT, SIGTERM])?, reload: pipe(&[SIGHUP])?, upgrade: pipe(&[SIGUSR2])? })
    }

    pub(super) fn end(&mut self) -> bool {
        came(&mut self.end)
    }

    pub(super) fn reload(&mut self) -> bool {
        came(&mut self.reload)
    }

    pub(super) fn upgrade(&mut self) -> bool {
        came(&mut self.upgrade)
    }
}

fn came(stream: &mut UnixStream) -> bool {
    stream.read(&mut [0; 64]).is_ok_and(|n| n > 0)
}

/// Waits for a signal, a question, a change of interfaces or qdiscs, or the end of `ns`.
pub(super) fn wait_for(
    questions: &Questions,
    signals: &Signals,
    watch: &Watch,
    sync: Option<&Sync>,
    ns: u64,
) -> io::Result<()> {
    let Signals { end, reload, upgrade } = signals;
    let readable = [end.as_fd(), reload.as_fd(), upgrade.as_fd(), watch.as_fd(), questions.as_fd()];
    wait(readable.into_iter().chain(sync.map(|sync| sync.as_fd())).map(|fd| wait::ready(fd, false)), ns)
}
