//! Where threads wait for each other, for some microseconds at a time.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// Looks before a thread gives its core to others.
const SPINS: u32 = 5_000;

/// A barrier that spins: between two windows there is less work than it takes to
/// put a thread to sleep and to wake it.
#[derive(Debug)]
pub struct Barrier {
    threads: usize,
    waiting: AtomicUsize,
    round: AtomicUsize,
    broken: AtomicBool,
}

impl Barrier {
    /// For this many threads.
    pub fn new(threads: usize) -> Self {
        Self { threads, waiting: AtomicUsize::new(0), round: AtomicUsize::new(0), broken: AtomicBool::new(false) }
    }

    /// Waits until all threads have come.
    ///
    /// # Panics
    /// Another thread has panicked.
    pub fn wait(&self) {
        let round = self.round.load(Ordering::Acquire);
        if self.waiting.fetch_add(1, Ordering::AcqRel) + 1 == self.threads {
            self.waiting.store(0, Ordering::Release);
            self.round.fetch_add(1, Ordering::AcqRel);
            return;
        }
        let mut looks = 0;
        while self.round.load(Ordering::Acquire) == round {
            assert!(!self.broken.load(Ordering::Acquire), "another thread has panicked");
            looks += 1;
            if looks < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Held by a thread that others wait for.
    pub fn guard(&self) -> Guard<'_> {
        Guard(self)
    }
}

/// Lets nobody wait for a thread that has panicked.
#[derive(Debug)]
pub struct Guard<'a>(&'a Barrier);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, Ordering::Release);
        }
    }
}
