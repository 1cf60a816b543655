//! Offers the fleet's time to chrony, as its reference clock SOCK. Never touches the system
//! clock itself.
//!
//! The fleet's time is only relative: it tells all hosts the same, but not the time of day.
//! That is taken from the coordinator's host, whose agent tells the coordinator how far its
//! CLOCK_REALTIME is ahead of the fleet's time ([`Realtime`]); so hosts that follow agree with
//! that host as well as the fleet's clocks are known.

use crate::abi::or_clock;
use crate::fleet::wire::Realtime;
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

const SECOND: i64 = 1_000_000_000;
/// "SOCK", of chrony's refclock_sock.c.
const MAGIC: u32 = 0x534f_434b;

/// Times of a host's clocks at one instant, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant {
    /// The fleet's time.
    pub fleet: i64,
    /// CLOCK_REALTIME.
    pub realtime: i64,
}

impl Instant {
    /// When a host's own clock shows `reading` and its CLOCK_REALTIME `realtime`; `clock` is
    /// the former against the fleet's time.
    #[must_use]
    pub fn new(clock: &or_clock, reading: u64, realtime: i64) -> Self {
        Self { fleet: reading.cast_signed().wrapping_sub(clock.at(reading)), realtime }
    }

    /// The same as the others are told of it.
    #[must_use]
    pub fn realtime(&self, clock: &or_clock) -> Realtime {
        // CLOCK_REALTIME runs like the host's own clock.
        let drift = clock.drift as f64 / (1u64 << 32) as f64;
        Realtime { at: self.fleet, ahead: self.realtime.wrapping_sub(self.fleet), drift }
    }

    /// How far this host's CLOCK_REALTIME is behind the one that `reference` tells of.
    #[must_use]
    pub fn behind(&self, reference: &Realtime) -> i64 {
        let drifted = reference.drift * self.fleet.wrapping_sub(reference.at) as f64;
        let theirs = self.fleet.wrapping_add(reference.ahead).wrapping_add(drifted.round() as i64);
        theirs.wrapping_sub(self.realtime)
    }
}

/// A socket of chrony's.
pub struct Chrony {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Chrony {
    /// The one at `path`; it need not be there yet.
    ///
    /// # Errors
    /// There is no descriptor to be had.
    pub fn new(path: PathBuf) -> io::Result<Self> {
        let socket = UnixDatagram::unbound()?;
        socket.set_nonblocking(true)?;
        Ok(Self { socket, path })
    }

    /// Tells that the system clock, which shows `realtime`, is `behind`; both in nanoseconds.
    ///
    /// # Errors
    /// chrony is not there, or does not read.
    pub fn offer(&self, realtime: i64, behind: i64) -> io::Result<()> {
        let sent = self.socket.send_to(&sample(realtime, behind), &self.path);
        sent.map(|_| ()).map_err(|e| io::Error::new(e.kind(), format!("chrony at {}: {e}", self.path.display())))
    }
}

/// `struct sock_sample`, as 64-bit systems lay it out.
fn sample(realtime: i64, behind: i64) -> [u8; 40] {
    let mut bytes = [0; 40];
    // struct timeval tv
    bytes[0..8].copy_from_slice(&realtime.div_euclid(SECOND).to_ne_bytes());
    bytes[8..16].copy_from_slice(&(realtime.rem_euclid(SECOND) / 1_000).to_ne_bytes());
    // double offset; then int pulse, int leap, int _pad, which are 0
    bytes[16..24].copy_from_slice(&(behind as f64 / SECOND as f64).to_ne_bytes());
    bytes[36..40].copy_from_slice(&MAGIC.to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_laid_out_as_chrony_reads_it() {
        let bytes = sample(1_700_000_000_123_456_789, -1_500_000_000);
        assert_eq!(bytes[..8], 1_700_000_000i64.to_ne_bytes());
        assert_eq!(bytes[8..16], 123_456i64.to_ne_bytes());
        assert_eq!(bytes[16..24], (-1.5f64).to_ne_bytes());
        assert_eq!(bytes[24..36], [0; 12]);
        assert_eq!(bytes[36..], 0x534f_434bu32.to_ne_bytes());
    }

    /// The coordinator's host gains 2^-15 on the fleet's time, the other loses as much; both
    /// are read at other times than the corrections were made.
    #[test]
    fn two_hosts_clocks_compare_over_the_fleets_time() {
        let year = 31_536_000 * SECOND;
        let theirs = or_clock { base: 1_000, offset: year, drift: 1 << 17 };
        let ours = or_clock { base: 7_000, offset: -year, drift: -(1 << 17) };
        let (fleet, time_of_day) = (2_000_000_000_000, 1_700_000_000 * SECOND);
        // What a clock shows at a time of the fleet's, by repeated approximation.
        let reading = |clock: &or_clock, fleet: i64| {
            (0..5).fold(fleet, |reading, _| fleet + clock.at(reading.cast_unsigned())).cast_unsigned()
        };
        let reference = Instant::new(&theirs, reading(&theirs, fleet), time_of_day).realtime(&theirs);
        // Three seconds later, by a system clock that is 40 us behind theirs.
        let (later, gained) = (fleet + 3 * SECOND, (3.0 * 1e9 / 32_768.0) as i64);
        let realtime = time_of_day + 3 * SECOND + gained - 40_000;
        let behind = Instant::new(&ours, reading(&ours, later), realtime).behind(&reference);
        assert!((behind - 40_000).abs() < 10, "{behind}");
    }

    #[test]
    fn without_chrony_it_says_so() {
        let nobody = Chrony::new("/nowhere/at/all.sock".into()).unwrap();
        let error = nobody.offer(0, 0).unwrap_err().to_string();
        assert!(error.starts_with("chrony at /nowhere/at/all.sock: "), "{error}");
    }
}
