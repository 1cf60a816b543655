//! Readiness and the file descriptor store, by systemd's protocol. Nobody waits for an answer.

use crate::clock::now;
use crate::datapath::Shared;
use sd_notify::NotifyState;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicU64, Ordering};

/// Nanoseconds between two words to the watchdog.
const BETWEEN: u64 = 500_000_000;

/// Name of the maps in the store.
const MAPS: NotifyState<'_> = NotifyState::FdName("maps");

/// Tells whoever started us that we are, if he listens.
pub fn ready() {
    let mut out = io::stdout();
    let _ = writeln!(out, "ready").and_then(|()| out.flush());
    let _ = sd_notify::notify(&[NotifyState::Ready]);
}

/// Tells systemd's watchdog, if it waits for that, that the loop that does the work has come round.
pub fn alive() {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let at = now();
    if at >= NEXT.load(Ordering::Relaxed) {
        NEXT.store(at + BETWEEN, Ordering::Relaxed);
        let _ = sd_notify::notify(&[NotifyState::Watchdog]);
    }
}

/// Tells that the agent ends, and leaves nothing.
pub(super) fn stopping() {
    let _ = sd_notify::notify(&[NotifyState::Stopping, NotifyState::FdStoreRemove, MAPS]);
}

/// Has systemd keep maps, so that the next agent finds them. The store has each of them once.
pub(super) fn keep(maps: &[Shared]) {
    let fds: Vec<_> = maps.iter().map(|map| map.fd.as_fd()).collect();
    // It would drop what cannot be polled.
    let _ = sd_notify::notify_with_fds(&[NotifyState::FdStore, NotifyState::Custom("FDPOLL=0"), MAPS], &fds);
}

/// Has systemd let go of the maps it keeps.
pub(super) fn forget_maps() {
    let _ = sd_notify::notify(&[NotifyState::FdStoreRemove, MAPS]);
}
