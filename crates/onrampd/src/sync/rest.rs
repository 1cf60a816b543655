//! Notices that this machine stood still: that it slept, or was moved to another by its hypervisor. Its clock did not run
//! meanwhile, or may be another's now, and says so before a probe does. Pure.

use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

/// Where a hypervisor tells that it has interrupted a machine and its clock (`linux/vmclock-abi.h`).
const VMCLOCK: &str = "/dev/vmclock0";
/// The device's first bytes, as far as they are read: magic, size, version, kinds, sequence and marker.
const HEAD: usize = 24;
const MAGIC: &[u8] = b"VCLK";
const MARKER: usize = 16;

/// No machine sleeps for less, in nanoseconds.
const LEAST: i64 = 1_000_000;

/// One look at what tells of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Nanoseconds for which the machine has slept since it started: at least, and at most.
    slept: (i64, i64),
    /// Changed by the hypervisor when it interrupts the machine.
    marker: Option<u64>,
}

/// State from the looks so far.
#[derive(Debug, Default)]
pub struct Rest {
    last: Option<Look>,
}

impl Rest {
    /// Takes in a look: why the clock is not what it was, if that is so.
    pub fn see(&mut self, look: Look) -> Option<&'static str> {
        let last = self.last;
        // A device that is just being written says nothing.
        let marker = look.marker.or(last.and_then(|last| last.marker));
        let look = *self.last.insert(Look { marker, ..look });
        let last = last?;
        // Neither is exact: the clocks are read one after the other, perhaps on processors that do not quite agree.
        if look.slept.0 > last.slept.1 + LEAST {
            return Some("this machine slept");
        }
        (last.marker.is_some() && look.marker != last.marker)
            .then_some("this machine was interrupted or moved by its hypervisor")
    }
}

/// Looks at the machine's clocks, and at the hypervisor's device if there is one.
pub struct Looker {
    device: Option<File>,
}

impl Looker {
    /// Opens the device, if it is there.
    #[must_use]
    pub fn open() -> Self {
        Self { device: File::open(VMCLOCK).ok() }
    }

    /// Looks.
    pub fn look(&self) -> Look {
        let at = |clock| {
            let time = clock_gettime(clock);
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        };
        // CLOCK_MONOTONIC stands still while the machine sleeps, CLOCK_BOOTTIME does not.
        let before = at(ClockId::Monotonic);
        let boot = at(ClockId::Boottime);
        let slept = (boot - at(ClockId::Monotonic), boot - before);
        Look { slept, marker: self.device.as_ref().and_then(read_marker) }
    }
}

/// The device gives all of itself from its beginning, whole: the kernel reads it until its sequence number stays.
fn read_marker(device: &File) -> Option<u64> {
    let mut head = [0; HEAD];
    device.read_exact_at(&mut head, 0).ok()?;
    marker(&head)
}

fn marker(head: &[u8; HEAD]) -> Option<u64> {
    let marker = head.get(MARKER..)?.try_into().ok()?;
    head.starts_with(MAGIC).then_some(u64::from_le_bytes(marker))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(slept: i64, error: i64, marker: Option<u64>) -> Look {
        Look { slept: (slept - error, slept + error), marker }
    }

    #[test]
    fn sleep_is_seen_and_a_slow_look_is_not_taken_for_it() {
        let mut rest = Rest::default();
        assert_eq!(rest.see(look(7_000_000_000, 50, None)), None, "what was before the first look");
        // Interrupted for 10 ms between the clocks.
        assert_eq!(rest.see(look(7_005_000_000, 5_000_050, None)), None);
        assert_eq!(rest.see(look(7_000_000_000, 50, None)), None);
        // Read on two processors whose clocks are a little apart.
        assert_eq!(rest.see(look(7_000_002_000, 50, None)), None);
        assert_eq!(rest.see(look(7_005_000_000, 50, None)), Some("this machine slept"));
        assert_eq!(rest.see(look(7_005_000_000, 50, None)), None, "told once");
    }

    #[test]
    fn a_hypervisor_that_moves_the_machine_is_seen() {
        let mut rest = Rest::default();
        let seen =
            [None, Some(3), Some(3), Some(4), Some(4), None, Some(5)].map(|m| rest.see(look(0, 50, m)).is_some());
        assert_eq!(seen, [false, false, false, true, false, false, true]);
    }

    #[test]
    fn the_marker_is_where_the_kernels_header_says() {
        let mut head = [0; HEAD];
        head[..4].copy_from_slice(MAGIC);
        head[16..].copy_from_slice(&77_u64.to_le_bytes());
        assert_eq!(marker(&head), Some(77));
        head[0] = b'X';
        assert_eq!(marker(&head), None);
    }

    #[test]
    fn this_machine_does_not_sleep_while_it_is_looked_at() {
        let (mut rest, looker) = (Rest::default(), Looker::open());
        assert!((0..1000).all(|_| rest.see(looker.look()).is_none()));
    }
}
