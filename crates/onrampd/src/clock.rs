//! This machine's clocks.

use rustix::time::{ClockId, clock_gettime};

const SECOND: u64 = 1_000_000_000;

/// Nanoseconds of CLOCK_MONOTONIC, the programs' clock.
#[must_use]
pub fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as u64 * SECOND + time.tv_nsec as u64
}

/// CLOCK_MONOTONIC and CLOCK_REALTIME at one instant: of three looks, the one that was least
/// interrupted.
#[must_use]
pub fn both() -> (u64, i64) {
    let look = || {
        let (before, time, after) = (now(), clock_gettime(ClockId::Realtime), now());
        (after - before, before.midpoint(after), time.tv_sec * SECOND as i64 + time.tv_nsec)
    };
    let (_, monotonic, realtime) = [look(), look(), look()].into_iter().min().expect("there are three");
    (monotonic, realtime)
}
