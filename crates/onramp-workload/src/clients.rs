//! Clients and servers: who asks whom and when, what both sides of a request do, and how long it took.
//!
//! A workload in which clients ask has [`Asking`] in the program of its clients and [`Service`] in that of its servers.

use super::{Actions, Cdf, Context, Findings, Medium, Message, Place, Plan, Program, Section, size_distribution};
use onramp_config::units::{Bytes, Ps, SEC, Span, US};
use onramp_config::{Mistake, Rule};
use onramp_records::ExchangeRecord;
use onramp_topology::Topology;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;

/// Clients of a section begin within this time, at random: those that begin together stay in step.
const SPREAD: Ps = 100 * US;
/// Connections of a section at most.
const MAX_CHANNELS: usize = 16_384;

/// Sizes of what is asked or answered: one size, several that are equally likely, or a distribution by its name or
/// file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sizes {
    /// "2KB", or a distribution.
    One(String),
    /// Equally likely ones.
    Several(Vec<Bytes>),
}

impl Sizes {
    /// The file that it refers to.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::One(name) if !name.starts_with(|c: char| c.is_ascii_digit()) && !super::is_built_in(name) => {
                Some(name)
            }
            _ => None,
        }
    }

    /// Checks that it can be read and is never above `largest`.
    ///
    /// # Errors
    /// Mistakes in it.
    pub fn check(&self, largest: Bytes, base: &Path) -> Result<(), String> {
        let found = Bytes(self.read(base)?.largest());
        if found <= largest { Ok(()) } else { Err(format!("{found} is more than the {largest} that are possible")) }
    }

    /// Read, files relative to `base`.
    ///
    /// # Errors
    /// Mistakes in it or in its file.
    pub fn read(&self, base: &Path) -> Result<Drawn, String> {
        let drawn = match self {
            Self::One(text) if text.starts_with(|c: char| c.is_ascii_digit()) => {
                Drawn::Of(vec![text.parse::<Bytes>()?.0])
            }
            Self::One(name) => Drawn::From(size_distribution(name, base)?),
            Self::Several(sizes) => Drawn::Of(sizes.iter().map(|size| size.0).collect()),
        };
        if let Drawn::Of(sizes) = &drawn
            && (sizes.is_empty() || sizes.contains(&0))
        {
            return Err("must be larger than 0, such as \"2KB\"".into());
        }
        Ok(drawn)
    }
}

/// Sizes to draw from.
#[derive(Clone, Debug)]
pub enum Drawn {
    /// One of these.
    Of(Vec<u64>),
    /// A distribution.
    From(Cdf),
}

impl Drawn {
    /// One of them, at random \[bytes\].
    pub fn draw(&self, random: &mut Pcg64Mcg) -> u64 {
        match self {
            Self::Of(sizes) if sizes.len() == 1 => sizes[0],
            Self::Of(sizes) => sizes[onramp_random::below(random, sizes.len() as u32) as usize],
            Self::From(cdf) => cdf.sample(onramp_random::uniform(random)),
        }
    }

    /// The largest size in bytes.
    pub fn largest(&self) -> u64 {
        match self {
            Self::Of(sizes) => sizes.iter().copied().max().unwrap_or(0),
            Self::From(cdf) => cdf.largest(),
        }
    }
}

/// Pace of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At random (Poisson), this many picoseconds apart on average, whatever is open.
    Poisson(f64),
    /// So many are open at a time, and they ask for so many picoseconds a byte at least.
    Closed(u32, f64),
}

/// Times at which a client asks, from the beginning of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Times {
    /// From this time on,
    pub from: Ps,
    /// until this.
    pub until: Ps,
    /// At this pace.
    pub pace: Pace,
}

/// A client and whom it asks, as its records say it.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// The host that asks.
    pub client: u32,
    /// The host that answers.
    pub server: u32,
    /// The scenario's traffic section.
    pub traffic: u32,
    /// Number in the section.
    pub number: u32,
}

/// Object of a request.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// Payload of the answer, or of the block.
    pub bytes: u64,
    /// A block is written.
    pub write: bool,
}

/// The asking half of a client: decides from the time alone, and from what it has been answered, when the next request
/// begins, and keeps those that are open.
#[derive(Debug)]
pub struct Asking {
    session: Session,
    times: Times,
    random: Pcg64Mcg,
    /// No request begins before this.
    next: Ps,
    begun: u64,
    open: BTreeMap<u64, (Ps, Asked)>,
}

impl Asking {
    /// Nothing has been asked.
    pub fn new(session: Session, times: Times, seed: u64) -> Self {
        let index = u64::from(session.traffic) << 32 | u64::from(session.number);
        let mut random = onramp_random::stream(seed, "exchange", index);
        let first = match times.pace {
            Pace::Poisson(gap) => gap_of(&mut random, gap),
            Pace::Closed(..) => (onramp_random::uniform(&mut random) * SPREAD as f64) as Ps,
        };
        let next = times.from.saturating_add(first);
        Self { session, times, random, next, begun: 0, open: BTreeMap::new() }
    }

    /// Earliest start of the next request: `None` before one that is open has ended, or if there is no other.
    pub fn due(&self) -> Option<Ps> {
        let full = matches!(self.times.pace, Pace::Closed(depth, _) if self.open.len() >= depth as usize);
        (!full && self.next < self.times.until).then_some(self.next)
    }

    /// Begins the next request if it is due; `draw` says what is asked for. Its number, and what was drawn.
    pub fn begin<T>(&mut self, now: Ps, draw: impl FnOnce(&mut Pcg64Mcg) -> (Asked, T)) -> Option<(u64, T)> {
        let start = self.due().filter(|due| *due <= now)?;
        let (asked, drawn) = draw(&mut self.random);
        let number = self.begun;
        self.begun += 1;
        self.open.insert(number, (start, asked));
        self.next = match self.times.pace {
            Pace::Poisson(gap) => self.next.saturating_add(gap_of(&mut self.random, gap)),
            Pace::Closed(_, per_byte) => start + (per_byte * asked.bytes as f64).round() as Ps,
        };
        Some((number, drawn))
    }

    /// Request `number` has its answer.
    pub fn answered(&mut self, now: Ps, number: u64, out: &mut Actions) {
        let (start, asked) = self.open.remove(&number).expect("only what is open is answered");
        if matches!(self.times.pace, Pace::Closed(..)) {
            self.next = self.next.max(now);
        }
        let Session { client, server, traffic, number: session } = self.session;
        out.record(ExchangeRecord {
            traffic,
            session,
            number,
            client,
            server,
            bytes: asked.bytes,
            write: asked.write,
            start_ps: start,
            latency_ps: now - start,
        });
    }

    /// Nothing is open any more, and nothing will be.
    pub fn is_over(&self) -> bool {
        self.open.is_empty() && self.next >= self.times.until
    }

    /// Requests that are open.
    pub fn open(&self) -> u64 {
        self.open.len() as u64
    }
}

fn gap_of(random: &mut Pcg64Mcg, mean: f64) -> Ps {
    (onramp_random::exponential(random) * mean).round() as Ps
}

/// The answering half of a server, which takes a constant time for each message.
#[derive(Debug)]
pub struct Service {
    time: Ps,
    work: VecDeque<(Ps, u32, Message)>,
}

impl Service {
    /// One that takes `time`.
    pub fn new(time: Ps) -> Self {
        Self { time, work: VecDeque::new() }
    }

    /// Sends `answer` when it is worked out.
    pub fn answer(&mut self, now: Ps, channel: u32, answer: Message, out: &mut Actions) {
        if self.time == 0 {
            out.send(channel, answer);
        } else {
            self.work.push_back((now + self.time, channel, answer));
        }
    }

    /// Sends what is worked out by now.
    pub fn proceed(&mut self, now: Ps, out: &mut Actions) {
        while let Some(&(at, channel, answer)) = self.work.front()
            && at <= now
        {
            self.work.pop_front();
            out.send(channel, answer);
        }
    }

    /// Time at which it has the next one.
    pub fn wake(&self) -> Option<Ps> {
        self.work.front().map(|(at, ..)| *at)
    }
}

/// A server that answers each request with as many bytes as its content says.
#[derive(Debug)]
pub struct Server(Service);

impl Server {
    /// One that takes `time` for each.
    pub fn new(time: Span) -> Self {
        Self(Service::new(time.0))
    }
}

impl Program for Server {
    fn received(&mut self, now: Ps, channel: u32, request: Message, out: &mut Actions) {
        let answer = Message { bytes: request.content, tag: request.tag, content: 0 };
        self.0.answer(now, channel, answer, out);
    }

    fn proceed(&mut self, now: Ps, out: &mut Actions) {
        self.0.proceed(now, out);
    }

    fn wake(&self) -> Option<Ps> {
        self.0.wake()
    }
}

/// Whom a client asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Peers {
    /// Every server.
    All,
    /// One server: the first clients the first one, and so on.
    One,
}

/// Connections between a client and a server, where nothing is said of them.
pub(super) fn one() -> u32 {
    1
}

/// Clients, servers and times of a section.
#[derive(Clone, Copy, Debug)]
pub struct Between<'a> {
    /// Clients, and how many of them at most.
    pub from: &'a [String],
    /// See `from`.
    pub clients: Option<u32>,
    /// Servers.
    pub to: &'a [String],
    /// Whom a client asks,
    pub peers: Peers,
    /// and on how many connections each.
    pub connections: u32,
    /// Start of the clients, from time 0; `None` with the load.
    pub start: Option<Span>,
    /// Stop of the clients; `None` with the load.
    pub stop: Option<Span>,
}

/// Clients and servers of a section.
#[derive(Clone, Debug)]
pub struct Sides {
    /// Hosts that ask,
    pub clients: Vec<u32>,
    /// of so many that are named.
    named: usize,
    /// Hosts that answer.
    servers: Vec<u32>,
    /// Sessions of a client.
    pub each: usize,
}

/// The hosts that a key names, of which there is one at least.
///
/// # Errors
/// Names that are no hosts.
pub(super) fn named(key: &str, names: &[String], topology: &Topology) -> Result<Vec<u32>, Vec<Mistake>> {
    if names.is_empty() {
        return Err(vec![Mistake::new(key, "names no host")]);
    }
    topology.hosts_under(key, names)
}

impl Between<'_> {
    /// Clients and servers.
    ///
    /// # Errors
    /// Mistakes in these keys.
    pub fn hosts(&self, topology: &Topology) -> Result<Sides, Vec<Mistake>> {
        let one = |key: &str, message: String| vec![Mistake::new(key, message)];
        let (mut clients, servers) = (named("from", self.from, topology)?, named("to", self.to, topology)?);
        let both: BTreeSet<u32> = clients.iter().copied().collect();
        if let Some(&host) = servers.iter().find(|host| both.contains(host)) {
            return Err(one("to", format!("{} would ask itself", topology.name(host))));
        }
        let named = clients.len();
        if let Some(most) = self.clients {
            if most as usize > named {
                return Err(one("clients", format!("{most} are more than the {named} there are")));
            }
            clients.truncate(most as usize);
        }
        let asked = if self.peers == Peers::All { servers.len() } else { 1 };
        Ok(Sides { clients, named, servers, each: asked * self.connections as usize })
    }

    /// Rules that need no network.
    pub fn check(&self, of: &Context, rule: Rule<'_>) {
        let &Self { connections, start, stop, .. } = self;
        rule((1..=64).contains(&connections), "connections", format!("{connections} is outside 1 to 64"));
        let (start, stop) = (start.unwrap_or_default(), stop.unwrap_or(of.duration));
        rule(start < stop || of.duration == Span(0), "start", format!("{start} is not before the stop, {stop}"));
        rule(stop <= of.duration, "stop", format!("{stop} is after the end of duration, {}", of.duration));
    }

    /// Rules that depend on the network, and on the files of some sizes, none of which may be above `largest`.
    pub fn check_placed(&self, sizes: &[(&str, &Sizes)], largest: Bytes, place: &Place<'_>, found: &mut Findings) {
        for (key, sizes) in sizes {
            found.note(key, sizes.check(largest, place.base));
        }
        match self.hosts(place.topology) {
            Err(wrong) => found.list(wrong),
            Ok(Sides { clients, each, .. }) => found.note("connections", check_channels(clients.len() * each)),
        }
    }

    /// Times at which its clients ask, at `pace`.
    pub fn times(&self, section: &Section<'_>, pace: Pace) -> Times {
        let span = section.span;
        Times {
            from: self.start.map_or(0, |start| span.warmup + start.0),
            until: self.stop.map_or(span.end(), |stop| span.warmup + stop.0),
            pace,
        }
    }

    /// Sessions of all connections, in order, and the number of connections of a client.
    ///
    /// # Errors
    /// Mistakes in its hosts.
    pub fn sessions(&self, section: &Section<'_>) -> Result<(Vec<Session>, usize), String> {
        let sides = self.hosts(section.place.topology).map_err(|mut wrong| wrong.swap_remove(0).message)?;
        let mut sessions = Vec::new();
        for (i, &client) in sides.clients.iter().enumerate() {
            let servers = &sides.servers[..];
            let asked = match self.peers {
                Peers::All => servers,
                Peers::One => std::slice::from_ref(&servers[i * servers.len() / sides.named]),
            };
            for &server in asked.iter().flat_map(|server| std::iter::repeat_n(server, self.connections as usize)) {
                let number = sessions.len() as u32;
                sessions.push(Session { client, server, traffic: section.number, number });
            }
        }
        Ok((sessions, sides.each))
    }
}

/// Checks the number of a section's connections.
pub(super) fn check_channels(count: usize) -> Result<(), String> {
    if count <= MAX_CHANNELS {
        return Ok(());
    }
    Err(format!("{count} connections in all: at most {MAX_CHANNELS} are possible"))
}

/// Rules of what clients have open at a time.
pub(super) fn check_depth(depth: u32, most: u32, rule: Rule<'_>) {
    rule((1..=most).contains(&depth), "depth", format!("{depth} is outside 1 to {most}"));
}

impl Pace {
    /// Either so many requests of a client in a second, spread over its `connections`, or a depth.
    pub(super) fn of(per_second: Option<f64>, depth: Option<u32>, connections: usize) -> Self {
        match per_second {
            Some(rate) => Self::Poisson(SEC as f64 / rate * connections as f64),
            None => Self::Closed(depth.unwrap_or(1), 0.0),
        }
    }
}

/// Rules of a pace that is either a rate or a depth.
pub(super) fn check_pace(per_second: Option<f64>, depth: Option<u32>, rule: Rule<'_>) {
    let one = per_second.is_some() != depth.is_some();
    rule(one, "per_second", "or depth is needed, not both: such as per_second = 10000 or depth = 1".into());
    let rate = per_second.is_none_or(|rate| rate > 0.0 && rate <= 1e9);
    rule(rate, "per_second", format!("{} is outside above 0 to 1e9", per_second.unwrap_or_default()));
    check_depth(depth.unwrap_or(1), 1024, rule);
}

impl Plan {
    /// Places a session's client and its server, and joins them.
    pub(super) fn pair(
        &mut self,
        session: &Session,
        client: impl super::Program + 'static,
        server: impl super::Program + 'static,
        medium: Medium,
    ) {
        let Session { client: asks, server: answers, traffic, number } = *session;
        // Where both are due at the same time, the server goes first.
        let client = self.place(asks, traffic, number * 2 + 1, client);
        let server = self.place(answers, traffic, number * 2, server);
        self.join([client, server], traffic, medium);
    }
}
