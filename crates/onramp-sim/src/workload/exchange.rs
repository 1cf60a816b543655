//! Exchanges: a client asks and a server answers, on a connection that stays open.
//!
//! A [`Session`] is such a connection. Its [`Client`] decides, from the time alone, when an exchange begins and
//! how many bytes its messages have: the simulator and the cluster ask the same one.

use super::{Cdf, Section, size_distribution, storage};
use crate::config::Mistake;
use crate::config::units::{Bytes, Ps, Span, US};
use crate::engine::random;
use crate::topology::Topology;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Messages of an exchange at most.
const MESSAGES: usize = 4;
/// Sessions of a section begin within this time, at random: those that begin together stay in step.
const SPREAD: Ps = 100 * US;

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

    /// Read, files relative to `base`.
    ///
    /// # Errors
    /// What is wrong with it or with its file.
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
    fn draw(&self, random: &mut Pcg64Mcg) -> u64 {
        match self {
            Self::Of(sizes) if sizes.len() == 1 => sizes[0],
            Self::Of(sizes) => sizes[random::below(random, sizes.len() as u32) as usize],
            Self::From(cdf) => cdf.sample(random::uniform(random)),
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

/// What is asked.
#[derive(Clone, Debug)]
pub enum Content {
    /// So many bytes for so many.
    Rpc {
        /// Of the request.
        request: Drawn,
        /// Of the response.
        response: Drawn,
    },
    /// Blocks of a disk.
    Storage {
        /// Sizes of the blocks.
        block: Drawn,
        /// Share of them that is written.
        writes: f64,
    },
}

/// When exchanges begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// At random, this many picoseconds apart on average, whatever is open.
    Poisson(f64),
    /// So many are open at a time, and they ask for so many picoseconds a byte at least.
    Closed(u32, f64),
}

/// What the sessions of a section have in common.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What is asked,
    pub content: Content,
    /// and when: from this time on, counted from the beginning of the load,
    pub from: Ps,
    /// until this.
    pub until: Ps,
    /// See `from`.
    pub pace: Pace,
    /// The server thinks, or its drive takes, so long.
    pub service: Ps,
}

impl Rules {
    /// Whether blocks of disks are asked for.
    pub fn is_storage(&self) -> bool {
        matches!(self.content, Content::Storage { .. })
    }

    /// Exchanges of a session that are open at a time at most.
    pub fn depth(&self) -> u32 {
        if let Pace::Closed(depth, _) = self.pace { depth } else { u32::MAX }
    }
}

/// A connection on which one host asks another.
#[derive(Clone, Debug)]
pub struct Session {
    /// The host that asks.
    pub client: u32,
    /// The host that answers.
    pub server: u32,
    /// The scenario's traffic section.
    pub traffic: u32,
    /// Number in the section.
    pub number: u32,
    /// The section's.
    pub rules: Arc<Rules>,
    seed: u64,
}

/// Something asked and its answer, as messages that go back and forth, the client's first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// Number in the session.
    pub number: u64,
    /// When it began, counted as the caller's times.
    pub start: Ps,
    /// Bytes of payload that were asked for: read, written, or of the response.
    pub bytes: u64,
    /// A block that is written.
    pub write: bool,
    /// Bytes of the messages,
    messages: [u32; MESSAGES],
    /// and how many there are.
    count: u8,
}

impl Exchange {
    fn new(number: u64, start: Ps, bytes: u64, write: bool, of: &[u64]) -> Self {
        let mut messages = [0; MESSAGES];
        for (place, &bytes) in messages.iter_mut().zip(of) {
            *place = bytes as u32;
        }
        Self { number, start, bytes, write, messages, count: of.len() as u8 }
    }

    /// Bytes of message `part`; `None` beyond the last.
    pub fn message(&self, part: u8) -> Option<u64> {
        self.messages[..usize::from(self.count)].get(usize::from(part)).map(|&bytes| bytes.into())
    }

    /// Whether the server has work to do before it sends message `part`: before its last.
    pub fn is_served_before(&self, part: u8) -> bool {
        part + 1 == self.count
    }
}

/// An exchange that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeRecord {
    /// Index of the scenario's traffic section.
    pub traffic: u32,
    /// Number of the session in the section.
    pub session: u32,
    /// Number in the session.
    pub number: u64,
    /// The host that asked.
    pub client: u32,
    /// The host that answered.
    pub server: u32,
    /// Bytes of payload that were asked for: read, written, or of the response.
    pub bytes: u64,
    /// Whether a block was written.
    pub write: bool,
    /// When it was asked for.
    pub start_ps: Ps,
    /// Until the client had all of the answer.
    pub latency_ps: Ps,
}

impl Session {
    /// What is known of an exchange that ends now.
    pub fn record(&self, exchange: &Exchange, now: Ps) -> ExchangeRecord {
        ExchangeRecord {
            traffic: self.traffic,
            session: self.number,
            number: exchange.number,
            client: self.client,
            server: self.server,
            bytes: exchange.bytes,
            write: exchange.write,
            start_ps: exchange.start,
            latency_ps: now - exchange.start,
        }
    }
}

/// Decides when a session's client asks, and for what.
#[derive(Clone, Debug)]
pub struct Client {
    rules: Arc<Rules>,
    random: Pcg64Mcg,
    /// No exchange begins before this.
    next: Ps,
    open: u32,
    begun: u64,
    /// When the load begins, in the caller's time.
    zero: Ps,
}

impl Client {
    /// Of a session, where the load begins at `zero`.
    pub fn new(session: &Session, zero: Ps) -> Self {
        let index = u64::from(session.traffic) << 32 | u64::from(session.number);
        let mut random = random::stream(session.seed, "exchange", index);
        let rules = Arc::clone(&session.rules);
        let first = match rules.pace {
            Pace::Poisson(gap) => gap_of(&mut random, gap),
            Pace::Closed(..) => (random::uniform(&mut random) * SPREAD as f64) as Ps,
        };
        let next = (zero + rules.from).saturating_add(first);
        Self { rules, random, next, open: 0, begun: 0, zero }
    }

    /// When the next exchange may begin: `None` before one that is open has ended, or if there is no other.
    pub fn due(&self) -> Option<Ps> {
        let full = matches!(self.rules.pace, Pace::Closed(depth, _) if self.open >= depth);
        (!full && !self.is_done_asking()).then_some(self.next)
    }

    fn is_done_asking(&self) -> bool {
        self.next >= self.zero + self.rules.until
    }

    /// Nothing is open any more, and nothing will be.
    pub fn is_over(&self) -> bool {
        self.open == 0 && self.is_done_asking()
    }

    /// Exchanges that are not over.
    pub fn open(&self) -> u32 {
        self.open
    }

    /// Begins the next exchange.
    pub fn begin(&mut self, now: Ps) -> Exchange {
        let number = self.begun;
        let random = &mut self.random;
        let exchange = match &self.rules.content {
            Content::Rpc { request, response } => {
                let (request, response) = (request.draw(random), response.draw(random));
                Exchange::new(number, now, response, false, &[request, response])
            }
            Content::Storage { block, writes } => {
                let write = *writes > 0.0 && random::uniform(random) < *writes;
                let bytes = block.draw(random).next_multiple_of(storage::BLOCK);
                Exchange::new(number, now, bytes, write, &storage::messages(bytes, write))
            }
        };
        self.begun += 1;
        self.open += 1;
        self.next = match self.rules.pace {
            Pace::Poisson(gap) => self.next.saturating_add(gap_of(random, gap)),
            Pace::Closed(_, per_byte) => now.max(self.next) + (per_byte * exchange.bytes as f64).round() as Ps,
        };
        exchange
    }

    /// One has ended.
    pub fn ended(&mut self, now: Ps) {
        self.open -= 1;
        if matches!(self.rules.pace, Pace::Closed(..)) {
            self.next = self.next.max(now);
        }
    }
}

fn gap_of(random: &mut Pcg64Mcg, mean: f64) -> Ps {
    (random::exponential(random) * mean).round() as Ps
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

/// Who asks whom, and when.
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
    /// When clients begin, counted from time 0; with the load.
    pub start: Option<Span>,
    /// When they stop; with the load.
    pub stop: Option<Span>,
}

/// Clients and servers of a section.
#[derive(Clone, Debug)]
pub struct Sides {
    /// Who asks,
    pub clients: Vec<u32>,
    /// of so many that are named.
    named: usize,
    /// Who answers.
    servers: Vec<u32>,
    /// Sessions of a client.
    pub each: usize,
}

impl Between<'_> {
    /// Clients and servers.
    ///
    /// # Errors
    /// What is wrong with these keys.
    pub fn hosts(&self, topology: &Topology) -> Result<Sides, Vec<Mistake>> {
        let one = |key: &str, message: String| vec![Mistake::new(key, message)];
        let named = |key, names: &[String]| {
            if names.is_empty() {
                return Err(one(key, "names no host".into()));
            }
            let at = |(i, message)| Mistake::new(format!("{key}[{i}]"), message);
            topology.hosts_named(names).map_err(|wrong| wrong.into_iter().map(at).collect())
        };
        let (mut clients, servers) = (named("from", self.from)?, named("to", self.to)?);
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

    /// The sessions of a section, in order; `pace` is told how many a client has.
    pub(super) fn sessions(
        &self,
        section: &Section<'_>,
        content: Content,
        service: Span,
        pace: impl FnOnce(f64) -> Pace,
    ) -> Result<Vec<Session>, String> {
        let sides = self.hosts(section.topology).map_err(|mut wrong| wrong.swap_remove(0).message)?;
        let span = section.span;
        let rules = Arc::new(Rules {
            content,
            from: self.start.map_or(0, |start| span.warmup + start.0),
            until: self.stop.map_or(span.end(), |stop| span.warmup + stop.0),
            pace: pace(sides.each as f64),
            service: service.0,
        });
        let mut sessions = Vec::new();
        for (i, &client) in sides.clients.iter().enumerate() {
            let servers = &sides.servers[..];
            let asked = match self.peers {
                Peers::All => servers,
                Peers::One => std::slice::from_ref(&servers[i * servers.len() / sides.named]),
            };
            for &server in asked.iter().flat_map(|server| std::iter::repeat_n(server, self.connections as usize)) {
                let number = sessions.len() as u32;
                let rules = Arc::clone(&rules);
                let (traffic, seed) = (section.number, span.seed);
                sessions.push(Session { client, server, traffic, number, rules, seed });
            }
        }
        Ok(sessions)
    }
}
