//! Records the flows of this host, for `onramp forecast`.
//!
//! An eBPF program tells of each; what it tells is written here, by a [`time`] that other hosts' recordings share, as
//! [`text`].

mod text;
mod time;

use crate::setup::wrong;
use onramp_netlink::Socket;
use onrampd::abi;
use onrampd::agent::Error::NoInterface;
use onrampd::clock::now;
use onrampd::config::quantity::show_time;
use onrampd::datapath::{Recorded, Recorder};
use onrampd::net::acker;
use onrampd::wait::{ready, signalled, wait};
use onrampd::worker::drop_capabilities;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use text::Addresses;
use time::{Line, Source};

const SECOND: u64 = 1_000_000_000;
/// Between two looks at the ring of flows, which has room for 40,000.
const LOOK: u64 = SECOND / 50;
/// A clock that is not known yet is waited for.
const PATIENCE: u64 = 60 * SECOND;
/// Between the first two looks at the clock.
const APART: u64 = SECOND / 5;
/// A key for hashing has at least so many bytes.
const LEAST_KEY: usize = 16;

/// Order to record: packets, where to, and for how long.
pub struct Order {
    /// Interfaces whose packets are looked at.
    pub interfaces: Vec<String>,
    /// The agent whose clock counts.
    pub socket: PathBuf,
    /// Coordinators: what goes to and from them is the fleet's own.
    pub coordinators: Vec<SocketAddr>,
    /// UDP port of the agent's probes and OR-ACKs, which are not counted; 0: there is no agent.
    pub port: u16,
    /// The recording.
    pub out: PathBuf,
    /// Its largest size, in bytes.
    pub most: u64,
    /// Nanoseconds; none: until SIGINT or SIGTERM.
    pub lasts: Option<u64>,
    /// A file with the key by which addresses are hashed.
    pub key: Option<PathBuf>,
}

/// Records until the time is over, the file is full, or SIGINT or SIGTERM comes; says what it has.
///
/// # Errors
/// The file is there already or cannot be written, the kernel refuses, or the agent's clock is not known.
pub fn run(order: &Order) -> io::Result<String> {
    check(order)?;
    let key = order.key.as_deref().map(read_key).transpose()?;
    let addresses = Addresses::new(key.as_deref());
    let mut end = signalled(&[SIGINT, SIGTERM])?;
    end.set_nonblocking(true)?;
    let source = Source::find(&order.socket);
    let line = first_look(&source, &mut end)?;
    let mut recorder = Recorder::load(order.port).map_err(io::Error::other)?;
    for interface in &order.interfaces {
        recorder.attach(interface).map_err(io::Error::other)?;
    }
    let mut writer = Writer::create(&order.out, order.most)?;
    let began = now();
    writer.head(&[
        text::FIRST.into(),
        format!(
            "# host = {}",
            own(&order.interfaces)?.iter().map(|a| addresses.show(*a)).collect::<Vec<_>>().join(" ")
        ),
        format!("# time = {}, from {}", source.name(), line.time(began)),
        format!("# addresses = {}", addresses.name()),
        "# flows = all sent by TCP but to and from the fleet's coordinators: from the first byte while nothing".into(),
        "# was outstanding until all was acknowledged, or more followed that no acknowledgement called for".into(),
        "# came = data by TCP that ended a write, or after which none came for 10 ms".into(),
        text::COLUMNS.into(),
    ])?;
    // What it reads from now on others have sent.
    source.join();
    drop_capabilities()?;
    let coordinators = order.coordinators.clone();
    Recording { recorder, writer, addresses, source, line, began, stale: 0, flows: 0, rows: 0, coordinators }
        .run(order, &mut end)
}

struct Recording {
    recorder: Recorder,
    writer: Writer,
    addresses: Addresses,
    source: Source,
    line: Line,
    began: u64,
    /// Looks at the clock that were in vain.
    stale: u64,
    /// Written so far.
    flows: u64,
    /// Those, and the ends of what came.
    rows: u64,
    coordinators: Vec<SocketAddr>,
}

impl Recording {
    fn run(mut self, order: &Order, end: &mut UnixStream) -> io::Result<String> {
        let until = order.lasts.map_or(u64::MAX, |lasts| self.began.saturating_add(lasts));
        let mut second = self.began + SECOND;
        let progress = Progress::new();
        let why = loop {
            wait([ready(end.as_fd(), false)].into_iter(), LOOK)?;
            let now = now();
            let is_full = self.take()?;
            if now >= second {
                second = now + SECOND;
                self.look()?;
                progress.show(self.flows, now - self.began, until.saturating_sub(now), order.lasts.is_some());
            }
            if is_full {
                break "the file is full";
            } else if now >= until {
                break "the time was over";
            } else if end.read(&mut [0]).is_ok() {
                break "it was stopped";
            }
        };
        progress.end();
        self.close(why)
    }

    /// Once a second: what is written is safe, and the clock is the present one.
    fn look(&mut self) -> io::Result<()> {
        match self.source.look() {
            Ok(look) => self.line = self.line.seen(look),
            Err(e) => {
                if self.stale == 0 {
                    eprintln!("onrampctl: the clock is not known, and is taken to run on as it did: {e}");
                }
                self.stale += 1;
            }
        }
        self.writer.flush()
    }

    /// Writes what has ended; returns whether there is no room for more.
    fn take(&mut self) -> io::Result<bool> {
        while let Some(flow) = self.recorder.take() {
            if !self.write(&flow)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns whether there was room.
    fn write(&mut self, flow: &Recorded) -> io::Result<bool> {
        let tuple = &flow.flow;
        let ends = [(tuple.source, tuple.sport), (tuple.destination, tuple.dport)];
        if ends.iter().any(|(address, port)| self.coordinators.contains(&SocketAddr::new((*address).into(), *port))) {
            return Ok(true);
        }
        let written = self.writer.row(&text::row(flow, &self.addresses, &self.line))?;
        self.flows += u64::from(written && flow.how != abi::OR_ENDED_CAME);
        self.rows += u64::from(written);
        Ok(written)
    }

    fn close(mut self, why: &str) -> io::Result<String> {
        let mut unwritten = 0;
        let rest: Vec<_> = self.recorder.rest().collect();
        for flow in rest {
            unwritten += u64::from(!self.write(&flow)?);
        }
        let counted = self.recorder.counters().map_err(io::Error::other)?;
        let of = |counter: abi::or_record_counter| counted[counter as usize];
        let lost = of(abi::OR_RECORD_LOST) + unwritten;
        let (udp, udp_bytes) = (of(abi::OR_RECORD_UDP), of(abi::OR_RECORD_UDP_BYTES));
        let lasted = now() - self.began;
        self.writer.tail(&[
            format!("# end = {why}, after {lasted} ns"),
            format!("# lost = {lost}"),
            format!("# udp_packets = {udp}"),
            format!("# udp_bytes = {udp_bytes}"),
            format!("# unparsed_packets = {}", of(abi::OR_RECORD_UNPARSED)),
            format!("# clock_unknown_s = {}", self.stale),
        ])?;
        let Self { flows, rows, writer: Writer { file, path, .. }, .. } = self;
        let (took, bytes) = (show_time(lasted.cast_signed()), file.get_ref().metadata()?.len());
        Ok(format!(
            "{flows} flows in {took} in {} ({rows} rows, {bytes} bytes): {why}; {lost} lost, {udp} packets of UDP not \
             recorded\n",
            path.display()
        ))
    }
}

/// Checks what can be told before anything is loaded.
fn check(order: &Order) -> io::Result<()> {
    if order.out.exists() {
        return Err(wrong(format!("{}: is there already: give another name", order.out.display())));
    }
    let mut socket = Socket::open()?;
    for interface in &order.interfaces {
        if acker::find(&mut socket, interface).map_err(io::Error::other)?.is_none() {
            return Err(wrong(NoInterface(interface.clone()).to_string()));
        }
    }
    Ok(())
}

/// The clock as it is at first; it is waited for.
fn first_look(source: &Source, end: &mut UnixStream) -> io::Result<Line> {
    let until = now() + PATIENCE;
    loop {
        match source.look() {
            Err(e) if now() >= until => return Err(io::Error::other(format!("the agent's clock is not known: {e}"))),
            Err(_) => wait([ready(end.as_fd(), false)].into_iter(), SECOND)?,
            Ok(first) => {
                wait([ready(end.as_fd(), false)].into_iter(), APART)?;
                return Ok(source.look().map_or(Line::new(first), |second| Line::new(first).seen(second)));
            }
        }
        if end.read(&mut [0]).is_ok() {
            return Err(io::Error::other("stopped before the agent's clock was known"));
        }
    }
}

fn read_key(path: &Path) -> io::Result<Vec<u8>> {
    let key = fs::read(path).map_err(|e| named(path, e))?;
    if key.len() < LEAST_KEY {
        let short =
            format!("{}: a key has at least {LEAST_KEY} bytes, such as openssl rand -hex 16 writes", path.display());
        return Err(wrong(short));
    }
    Ok(key)
}

/// Addresses of these interfaces.
pub fn own(interfaces: &[String]) -> io::Result<Vec<IpAddr>> {
    let mut own = Vec::new();
    for found in nix::ifaddrs::getifaddrs()?.filter(|found| interfaces.contains(&found.interface_name)) {
        let Some(address) = found.address else { continue };
        let v4 = address.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
        own.extend(v4.or_else(|| address.as_sockaddr_in6().map(|a| a.ip().into())));
    }
    Ok(own)
}

/// A file that does not grow beyond a size.
struct Writer {
    file: BufWriter<File>,
    path: PathBuf,
    left: u64,
}

impl Writer {
    /// One that is there is not written over.
    fn create(path: &Path, most: u64) -> io::Result<Self> {
        let file = File::options().write(true).create_new(true).open(path).map_err(|e| named(path, e))?;
        Ok(Self { file: BufWriter::new(file), path: path.into(), left: most })
    }

    fn head(&mut self, lines: &[String]) -> io::Result<()> {
        lines
            .iter()
            .try_for_each(|line| {
                self.left = self.left.saturating_sub(line.len() as u64 + 1);
                writeln!(self.file, "{line}").map_err(|e| named(&self.path, e))
            })
            .and_then(|()| self.flush())
            // Nothing is recorded yet: where there is no room, an empty file is no use.
            .inspect_err(|_| drop(fs::remove_file(&self.path)))
    }

    /// Returns whether there was room.
    fn row(&mut self, row: &str) -> io::Result<bool> {
        let Some(left) = self.left.checked_sub(row.len() as u64) else { return Ok(false) };
        self.left = left;
        self.file.write_all(row.as_bytes()).map_err(|e| named(&self.path, e))?;
        Ok(true)
    }

    /// The end has room whatever came before.
    fn tail(&mut self, lines: &[String]) -> io::Result<()> {
        lines.iter().try_for_each(|line| writeln!(self.file, "{line}").map_err(|e| named(&self.path, e)))?;
        self.flush()?;
        self.file.get_ref().sync_all().map_err(|e| named(&self.path, e))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|e| named(&self.path, e))
    }
}

/// A line on a terminal that says how far it is.
struct Progress(bool);

impl Progress {
    fn new() -> Self {
        Self(io::stderr().is_terminal())
    }

    fn show(&self, flows: u64, so_far: u64, left: u64, ends: bool) {
        if self.0 {
            let left = if ends { format!(", {} left", show_time(left.cast_signed())) } else { String::new() };
            eprint!("\r\x1b[K{flows} flows in {}{left}", show_time(so_far.cast_signed()));
        }
    }

    fn end(&self) {
        if self.0 {
            eprint!("\r\x1b[K");
        }
    }
}

fn named(path: &Path, e: io::Error) -> io::Error {
    io::Error::new(e.kind(), format!("{}: {e}", path.display()))
}
