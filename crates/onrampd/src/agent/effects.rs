//! Counts what traffic meets. To look at many connections and to write to a disk take time: a thread of its own does that.

use super::Agent;
use crate::clock::now;
use crate::config::quantity::{Threshold, Time};
use crate::datapath::tcp::{Connections, Walked};
use crate::effects::Tcp;
use crate::effects::blocks::{Block, Cutter, Under};
use crate::effects::count::{Counted, Raw};
use crate::effects::journal::Journal;
use crate::worker::Worker;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::{info, warn};

/// Between two looks at all connections, at least.
const PAUSE: Duration = Duration::from_secs(1);
/// Share of a processor that it may take: the pause is so many times as long as the look took.
const PAUSES: u32 = 100;
/// However long that takes.
const LONGEST: Duration = Duration::from_secs(60);

/// Blocks that wait for the disk.
const WAITING: usize = 64;

/// Result of the last look, or why there is none.
type Found = Result<Walked, String>;

/// Messages to the thread.
enum Told {
    /// To look at once: there are other peers.
    Look,
    /// To keep a block.
    Keep(Box<Block>),
}

/// State that the thread shows to the agent.
struct Shown {
    found: Found,
    /// Why the last block is not kept.
    not_kept: Option<String>,
    /// Whose connections it looks at.
    peers: BTreeSet<IpAddr>,
}

/// Counts so far, and the thread that takes them.
pub(super) struct Effects {
    pub(super) counted: Counted,
    cutter: Cutter,
    shown: Arc<Mutex<Shown>>,
    /// Closed to end the thread, and before it is waited for.
    tell: Option<SyncSender<Told>>,
    thread: Worker,
}

/// Where this network namespace's blocks are kept: in the folder that systemd gives a service for what outlives it
/// (`StateDirectory=`), else in `folder`.
pub(super) fn journal(folder: &Path) -> io::Result<Journal> {
    match lasting(env::var_os("STATE_DIRECTORY")) {
        // It is this agent's alone, and the number of a namespace may be another after a reboot.
        Some(own) => Ok(Journal::in_folder(&own, 0)),
        None => Ok(Journal::in_folder(folder, fs::metadata("/proc/thread-self/ns/net")?.ino())),
    }
}

/// The first folder of systemd's list of those that outlive a service (systemd.exec(5), StateDirectory=).
fn lasting(listed: Option<OsString>) -> Option<PathBuf> {
    let listed = listed?;
    env::split_paths(&listed).find(|path| path.is_absolute())
}

impl Effects {
    /// Begins to count, and to keep blocks. Where the kernel does not let TCP be looked at, all else is counted.
    ///
    /// # Errors
    /// There is no thread.
    pub(super) fn start(mut journal: Journal) -> io::Result<Self> {
        match journal.mend() {
            Ok(None) => {}
            Ok(Some(path)) => info!("{}: a block that a crash had cut off is dropped", path.display()),
            Err(e) => warn!("history: {e}"),
        }
        let peers = BTreeSet::new();
        let shown = Arc::new(Mutex::new(Shown { found: Err("not looked at yet".into()), not_kept: None, peers }));
        let (tell, told) = sync_channel(WAITING);
        let theirs = Arc::clone(&shown);
        let thread = Worker::start("effects", move || {
            work(&theirs, &told, &mut journal);
            Ok(())
        })?;
        let since = since_1970().as_nanos() as u64;
        Ok(Self { counted: Counted::new(now(), since), cutter: Cutter::default(), shown, tell: Some(tell), thread })
    }

    /// Checks that the thread is there.
    ///
    /// # Errors
    /// Why it ended.
    pub(super) fn check(&mut self) -> io::Result<()> {
        self.thread.check()
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why some of TCP's counters are not there.
    pub(super) fn missing(&self) -> Option<String> {
        match &self.shown().found {
            Ok(walked) if walked.timeouts => None,
            Ok(_) => Some("retransmission timeouts: the kernel counts them by connection since Linux 6.7".into()),
            Err(why) => Some(format!("segments, retransmissions, timeouts, goodput: {why}")),
        }
    }

    /// Why there will be a gap in the history.
    pub(super) fn not_kept(&self) -> Option<String> {
        self.shown().not_kept.as_ref().map(|why| format!("history is not kept: {why}"))
    }

    fn say(&self, told: Told) {
        if let Some(tell) = &self.tell
            && tell.try_send(told).is_err()
        {
            self.shown().not_kept = Some("the disk does not keep up".into());
        }
    }
}

impl Drop for Effects {
    fn drop(&mut self) {
        let last = self.cutter.end(since_1970().as_secs(), &self.counted);
        last.into_iter().for_each(|block| self.say(Told::Keep(block.into())));
        self.tell = None;
    }
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Looks at all connections now and then, and keeps blocks, until nobody is there to tell it more.
fn work(shown: &Mutex<Shown>, told: &Receiver<Told>, journal: &mut Journal) {
    let shown = || shown.lock().unwrap_or_else(PoisonError::into_inner);
    let mut connections = Connections::count();
    let mut due = Instant::now();
    loop {
        let pause = if connections.is_ok() { due.saturating_duration_since(Instant::now()) } else { LONGEST };
        match told.recv_timeout(pause) {
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) | Ok(Told::Look) => {
                let begun = Instant::now();
                let peers = shown().peers.clone();
                let was_ok = connections.is_ok();
                let walked = connections.and_then(|mut these| Ok((these.walk(&peers)?, these)));
                let found = walked.as_ref().map(|(walked, _)| walked.clone()).map_err(ToString::to_string);
                if let (Err(why), true) = (&found, was_ok || shown().found.as_ref().err() != found.as_ref().err()) {
                    warn!("TCP is not counted: {why}");
                }
                shown().found = found;
                connections = walked.map(|(_, these)| these);
                due = Instant::now() + (begun.elapsed() * PAUSES).clamp(PAUSE, LONGEST);
            }
            Ok(Told::Keep(block)) => {
                let not_kept = journal.add(&block).err().map(|e| e.to_string());
                shown().not_kept = not_kept;
            }
        }
    }
}

impl Agent {
    /// Takes in what was counted since the last time, and has the coordinator told.
    pub(super) fn count_effects(&mut self) -> Result<(), super::Error> {
        let under = Under {
            mode: self.mode(),
            threshold: if self.config.auto_threshold {
                Threshold::Auto
            } else {
                Threshold::Fixed(Time(self.config.params.threshold))
            },
            policy: self.policy_version(),
        };
        let Some(effects) = &mut self.effects else { return Ok(()) };
        let found = effects.shown().found.clone();
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
        let peers = raw.keys().copied().collect();
        let before = std::mem::replace(&mut effects.shown().peers, peers);
        if !before.iter().eq(raw.keys()) {
            effects.say(Told::Look);
        }
        effects.counted.take(now(), tcp, raw);
        let block = effects.cutter.take(now(), since_1970().as_secs(), under, &effects.counted);
        block.into_iter().for_each(|block| effects.say(Told::Keep(block.into())));
        if let Some(sync) = &self.sync {
            sync.set_effects(effects.counted.total().clone());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_in_the_services_own_folder_where_it_has_one() {
        let found = |listed: &str| lasting(Some(listed.into()));
        assert_eq!(found("/var/lib/onrampd"), Some("/var/lib/onrampd".into()));
        assert_eq!(found("/var/lib/onrampd:/var/lib/other"), Some("/var/lib/onrampd".into()));
        assert_eq!((found(""), found("onrampd"), lasting(None)), (None, None, None));
    }
}
