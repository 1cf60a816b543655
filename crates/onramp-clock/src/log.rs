//! Probe logs: what hosts saw, to be fitted and solved again.
//!
//! A log is `onramp-clock`, a version, the window's length, then records, then
//! their number. Numbers are LEB128, as short as they can be; times are
//! differences to the record before of the same edge or host, so that a probe
//! takes about 14 bytes. Whatever is not exactly that is refused.

use crate::{Correction, Edge, Exchange, FitOptions, HostId, Memory, NetworkOptions, Solution, solve};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};

/// A recorded run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// Length of a window in nanoseconds, at least 1.
    pub window: u64,
    /// At most [`MOST_RECORDS`], in any order.
    pub records: Vec<Record>,
}

/// One line of a log, so to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// A probe that was answered.
    Exchange {
        /// Who probed.
        from: HostId,
        /// Who was probed.
        to: HostId,
        /// The probe.
        exchange: Exchange,
    },
    /// How far a host's clock really was ahead, where that is known.
    Truth {
        /// Whose clock.
        host: HostId,
        /// Reading of the clock in nanoseconds.
        at: u64,
        /// That less the true time, in nanoseconds.
        ahead: i64,
    },
}

/// Records in a log at most: an hour of ten hosts.
pub const MOST_RECORDS: usize = 1 << 24;

/// Why a log was refused.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// It could not be read.
    #[error("the log cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("this is no probe log: it does not start with {:?}", MAGIC)]
    Magic,
    /// Another program's, or a later one's.
    #[error("the log has version {0}; this reads version {VERSION}")]
    Version(u8),
    /// Not a log at this byte.
    #[error("byte {at}: {what}")]
    Invalid {
        /// Counted from 0.
        at: u64,
        /// Mistake and remedy.
        what: &'static str,
    },
}

const MAGIC: &str = "onramp-clock";
const VERSION: u8 = 1;

const END: u8 = 0;
const FIRST: u8 = 1;
const SECOND: u8 = 2;
const TRUTH: u8 = 3;

/// The last record of each edge and host, to take differences to.
#[derive(Default)]
struct Before {
    edges: BTreeMap<(HostId, HostId), [u64; 5]>,
    hosts: BTreeMap<HostId, [u64; 2]>,
}

/// Times of an exchange as they change least: the pair's number, when it was
/// sent, and how long each leg took.
fn legs(e: &Exchange) -> [u64; 5] {
    let leg = |from: u64, to: u64| to.wrapping_sub(from);
    [u64::from(e.pair), e.sent, leg(e.sent, e.received), leg(e.received, e.returned), leg(e.returned, e.came_back)]
}

/// Writes `log` to `out`.
///
/// # Errors
///
/// Those of `out`.
pub fn write(log: &Log, mut out: impl Write) -> io::Result<()> {
    let mut bytes = MAGIC.as_bytes().to_vec();
    bytes.push(VERSION);
    put(&mut bytes, log.window);
    let mut before = Before::default();
    for record in &log.records {
        match record {
            Record::Exchange { from, to, exchange } => {
                bytes.push(if exchange.second { SECOND } else { FIRST });
                put(&mut bytes, u64::from(*from));
                put(&mut bytes, u64::from(*to));
                put_changes(&mut bytes, before.edges.entry((*from, *to)).or_default(), legs(exchange));
            }
            Record::Truth { host, at, ahead } => {
                bytes.push(TRUTH);
                put(&mut bytes, u64::from(*host));
                put_changes(&mut bytes, before.hosts.entry(*host).or_default(), [*at, ahead.cast_unsigned()]);
            }
        }
    }
    bytes.push(END);
    put(&mut bytes, log.records.len() as u64);
    out.write_all(&bytes)
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn put_changes<const N: usize>(bytes: &mut Vec<u8>, before: &mut [u64; N], now: [u64; N]) {
    for (before, now) in before.iter_mut().zip(now) {
        let change = now.wrapping_sub(*before).cast_signed();
        // Small differences of either sign become small numbers.
        put(bytes, ((change << 1) ^ (change >> 63)).cast_unsigned());
        *before = now;
    }
}

/// Reads a log to its end.
///
/// # Errors
///
/// If it is not exactly a log: cut short, longer, of another version, or damaged.
pub fn read(from: impl Read) -> Result<Log, LogError> {
    let mut reader = Reader { bytes: io::BufReader::new(from), at: 0 };
    let mut log = Log { window: reader.head()?, records: Vec::new() };
    reader.records(&mut log.records)?;
    if !reader.is_at_end()? {
        return Err(LogError::Invalid { at: reader.at, what: "the log goes on after its end" });
    }
    Ok(log)
}

/// Reads logs that were written one after another, as whoever keeps adding to a file does.
///
/// # Errors
///
/// If it is not exactly that, of one window's length.
pub fn read_joined(from: impl Read) -> Result<Log, LogError> {
    let mut reader = Reader { bytes: io::BufReader::new(from), at: 0 };
    let mut log = Log { window: reader.head()?, records: Vec::new() };
    reader.records(&mut log.records)?;
    while !reader.is_at_end()? {
        if reader.head()? != log.window {
            return Err(reader.invalid("the window is another than that of the log before"));
        }
        reader.records(&mut log.records)?;
    }
    Ok(log)
}

struct Reader<R> {
    bytes: R,
    at: u64,
}

impl<R: io::BufRead> Reader<R> {
    /// An error at the byte that was read last.
    fn invalid(&self, what: &'static str) -> LogError {
        LogError::Invalid { at: self.at.saturating_sub(1), what }
    }

    fn is_at_end(&mut self) -> io::Result<bool> {
        Ok(self.bytes.fill_buf()?.is_empty())
    }

    /// Reads the head before the records; returns the window.
    fn head(&mut self) -> Result<u64, LogError> {
        for expected in MAGIC.bytes() {
            if self.byte().map_err(|e| if matches!(e, LogError::Io(_)) { e } else { LogError::Magic })? != expected {
                return Err(LogError::Magic);
            }
        }
        let version = self.byte()?;
        if version != VERSION {
            return Err(LogError::Version(version));
        }
        let window = self.number()?;
        if window == 0 {
            return Err(self.invalid("the window is 0; it must be 1 ns or longer"));
        }
        Ok(window)
    }

    /// Adds a log's records to those of the logs before.
    fn records(&mut self, records: &mut Vec<Record>) -> Result<(), LogError> {
        let (mut before, present) = (Before::default(), records.len());
        loop {
            let tag = self.byte()?;
            match tag {
                END => break,
                _ if records.len() == MOST_RECORDS => return Err(self.invalid("too many records; 2^24 are allowed")),
                FIRST | SECOND => {
                    let (from, to) = (self.host()?, self.host()?);
                    let [pair, sent, there, stay, back] = self.changes(before.edges.entry((from, to)).or_default())?;
                    let pair = u32::try_from(pair).map_err(|_| self.invalid("a pair's number is above 2^32"))?;
                    let received = sent.wrapping_add(there);
                    let returned = received.wrapping_add(stay);
                    let came_back = returned.wrapping_add(back);
                    let exchange = Exchange { pair, second: tag == SECOND, sent, received, returned, came_back };
                    records.push(Record::Exchange { from, to, exchange });
                }
                TRUTH => {
                    let host = self.host()?;
                    let [at, ahead] = self.changes(before.hosts.entry(host).or_default())?;
                    records.push(Record::Truth { host, at, ahead: ahead.cast_signed() });
                }
                _ => return Err(self.invalid("no record starts with this; 0 to 3 do")),
            }
        }
        if self.number()? != (records.len() - present) as u64 {
            return Err(self.invalid("the number of records is another than that of those before"));
        }
        Ok(())
    }

    fn byte(&mut self) -> Result<u8, LogError> {
        let mut byte = [0];
        match self.bytes.read_exact(&mut byte) {
            Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                Err(LogError::Invalid { at: self.at, what: "the log ends here; it is cut short" })
            }
            Err(e) => Err(e.into()),
            Ok(()) => {
                self.at += 1;
                Ok(byte[0])
            }
        }
    }

    fn number(&mut self) -> Result<u64, LogError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if part << shift >> shift != part {
                return Err(self.invalid("a number is above 2^64"));
            }
            value |= part << shift;
            if byte & 0x80 == 0 {
                if byte == 0 && shift > 0 {
                    return Err(self.invalid("a number is longer than it need be"));
                }
                return Ok(value);
            }
        }
        Err(self.invalid("a number is above 2^64"))
    }

    fn host(&mut self) -> Result<u32, LogError> {
        u32::try_from(self.number()?).map_err(|_| self.invalid("a host's number is above 2^32"))
    }

    fn changes<const N: usize>(&mut self, before: &mut [u64; N]) -> Result<[u64; N], LogError> {
        for value in before.iter_mut() {
            let coded = self.number()?;
            let change = (coded >> 1) ^ (coded & 1).wrapping_neg();
            *value = value.wrapping_add(change);
        }
        Ok(*before)
    }
}

/// Fits and solves every window of a log, each continuing the one before.
/// Windows are counted from each prober's first probe, by its own clock; empty
/// ones are skipped.
#[must_use]
pub fn replay(log: &Log, fit_options: &FitOptions, network_options: &NetworkOptions) -> Vec<Solution> {
    let exchanges = || {
        log.records.iter().filter_map(|record| match record {
            Record::Exchange { from, to, exchange } => Some((*from, *to, exchange)),
            Record::Truth { .. } => None,
        })
    };
    let mut start: BTreeMap<HostId, i64> = BTreeMap::new();
    for (from, _, exchange) in exchanges() {
        let sent = exchange.sent.cast_signed();
        start.entry(from).and_modify(|s| *s = (*s).min(sent)).or_insert(sent);
    }
    let mut windows: BTreeMap<u64, BTreeMap<(HostId, HostId), Vec<Exchange>>> = BTreeMap::new();
    for (from, to, exchange) in exchanges() {
        let window = exchange.sent.wrapping_sub(start[&from].cast_unsigned()) / log.window.max(1);
        windows.entry(window).or_default().entry((from, to)).or_default().push(*exchange);
    }
    let mut corrections: BTreeMap<HostId, Correction> = BTreeMap::new();
    let mut memory: BTreeMap<(HostId, HostId), Memory> = BTreeMap::new();
    let mut solutions = Vec::new();
    for window in windows.values() {
        let mut edge = |(&(from, to), exchanges): (&(HostId, HostId), &Vec<Exchange>)| {
            let fit = memory.entry((from, to)).or_default().fit(exchanges, fit_options, log.window)?;
            Some(Edge { from, to, fit })
        };
        let edges: Vec<Edge> = window.iter().filter_map(&mut edge).collect();
        let solution = solve(&edges, &corrections, network_options);
        corrections.extend(solution.hosts.iter().map(|(host, correction, _)| (*host, *correction)));
        solutions.push(solution);
    }
    solutions
}
