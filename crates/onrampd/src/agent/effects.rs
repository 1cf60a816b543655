//! Counts what traffic meets: TCP's counters on a thread of their own, since to look at many connections takes time.

use super::Agent;
use crate::clock::now;
use crate::datapath::tcp::{Connections, Walked};
use crate::effects::Tcp;
use crate::effects::count::{Counted, Raw};
use crate::worker::Worker;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::warn;

/// Between two looks at all connections, at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Share of a processor that it may take: the pause is so many times as long as the look took.
const PAUSES: u32 = 100;
/// However long that takes.
const LONGEST: Duration = Duration::from_secs(60);

/// What came of the last look, or why there is none.
type Found = Result<Walked, String>;

/// What has been counted, and who counts.
pub(super) struct Effects {
    pub(super) counted: Counted,
    found: Arc<Mutex<Found>>,
    peers: Arc<Mutex<BTreeSet<IpAddr>>>,
    /// Closed to end the thread, and before it is waited for.
    _stop: Sender<()>,
    thread: Worker,
}

impl Effects {
    /// Begins to count. Where the kernel does not let TCP be looked at, all else is counted.
    ///
    /// # Errors
    /// There is no thread.
    pub(super) fn start() -> io::Result<Self> {
        let found = Arc::new(Mutex::new(Err("not looked at yet".into())));
        let (stop, stopped) = channel();
        let shown = Arc::clone(&found);
        let peers: Arc<Mutex<BTreeSet<IpAddr>>> = Arc::default();
        let known = Arc::clone(&peers);
        let thread = Worker::start("effects", move || {
            look(&known, &shown, &stopped);
            // Without it the agent goes on.
            let _ = stopped.recv();
            Ok(())
        })?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
        Ok(Self { counted: Counted::new(now(), since), found, peers, _stop: stop, thread })
    }

    /// Checks that the thread is there.
    ///
    /// # Errors
    /// Why it ended.
    pub(super) fn check(&mut self) -> io::Result<()> {
        self.thread.check()
    }

    fn found(&self) -> Found {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why some of TCP's counters are not there.
    pub(super) fn missing(&self) -> Option<String> {
        match self.found() {
            Ok(walked) if walked.timeouts => None,
            Ok(_) => Some("retransmission timeouts: the kernel counts them by connection since Linux 6.7".into()),
            Err(why) => Some(format!("segments, retransmissions, timeouts, goodput: {why}")),
        }
    }
}

/// Looks at all connections now and then until it is told to stop, or it fails.
fn look(peers: &Mutex<BTreeSet<IpAddr>>, shown: &Mutex<Found>, stopped: &Receiver<()>) {
    let show = |found: Found| *shown.lock().unwrap_or_else(PoisonError::into_inner) = found;
    let failed = |why: String| {
        warn!("TCP is not counted: {why}");
        show(Err(why));
    };
    let mut connections = match Connections::count() {
        Ok(connections) => connections,
        Err(e) => return failed(e.to_string()),
    };
    loop {
        let begun = Instant::now();
        let peers = peers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match connections.walk(&peers) {
            Ok(walked) => show(Ok(walked)),
            Err(e) => return failed(e.to_string()),
        }
        let pause = (begun.elapsed() * PAUSES).clamp(PAUSE, LONGEST);
        if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return;
        }
    }
}

impl Agent {
    /// Takes in what was counted since the last time, and has the coordinator told.
    pub(super) fn count_effects(&mut self) -> Result<(), super::Error> {
        let Some(effects) = &mut self.effects else { return Ok(()) };
        let found = effects.found();
        let tcp = match &found {
            Ok(walked) if walked.timeouts => Tcp::All,
            Ok(_) => Tcp::WithoutTimeouts,
            Err(_) => Tcp::None,
        };
        let raw = |(peer, path)| {
            let tcp = found.as_ref().ok().and_then(|walked| walked.peers.get(&peer));
            (peer, Raw::new(&path, self.bounds.held(&peer), tcp))
        };
        let raw: BTreeMap<_, _> = self.datapath.paths()?.into_iter().map(raw).collect();
        *effects.peers.lock().unwrap_or_else(PoisonError::into_inner) = raw.keys().copied().collect();
        effects.counted.take(now(), tcp, raw);
        if let Some(sync) = &self.sync {
            sync.set_effects(effects.counted.total().clone());
        }
        Ok(())
    }
}
