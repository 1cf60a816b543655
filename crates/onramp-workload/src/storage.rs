//! Blocks read from and written to the disks of other hosts, by NVMe over TCP.
//!
//! On Linux it is the kernel's; the simulator has the messages of the NVMe/TCP transport specification 1.0,
//! without digests: a command capsule, and for a read the data and a response capsule, for a write the
//! data with the command if there is room in a capsule, or else when the target asks for them.

use super::clients::{Asked, Asking, Between, Drawn, Pace, Peers, Service, Sizes, check_depth, one};
use super::{Actions, Context, Findings, Group, Medium, Message, Place, Plan, Program, Section, Workload};
use onramp_config::Rule;
use onramp_config::units::{Bytes, Ps, Rate, SEC, Span};
use serde::{Deserialize, Serialize};

/// Largest block: what the kernel asks for in one piece.
pub const LARGEST: Bytes = Bytes(1 << 20);
/// Blocks that are asked for at a time on a connection at most: the kernel's queues have 128 places, of which one stays
/// free.
pub const DEPTH: u32 = 127;
/// Blocks have a multiple of so many bytes.
pub const BLOCK: u64 = 4096;
/// A command capsule: 8 bytes of common header, 64 of a command.
const COMMAND: u64 = 72;
/// A response capsule (8 and 16 bytes), a request for data (R2T), and what goes before data: 24 bytes each.
const HEADER: u64 = 24;
/// Data that a command capsule has room for: four pages, the kernel's default.
const IN_CAPSULE: u64 = 16 << 10;

/// Clients read blocks of servers, or write them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Clients: hosts, or groups of them, by name.
    pub from: Vec<String>,
    /// Servers, each with a disk.
    pub to: Vec<String>,
    /// Only so many of the clients, the first ones. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Servers whose disks a client uses: "all" or "one". Default "one".
    #[serde(default = "one_server")]
    pub peers: Peers,
    /// Connections (queues) between a client and a server. Default 1.
    #[serde(default = "one")]
    pub connections: u32,
    /// Size of a block, up to a multiple of 4 KiB.
    pub block: Sizes,
    /// Share of blocks that are written, not read. Default 0.
    #[serde(default)]
    pub writes: f64,
    /// Blocks that are asked for at a time on each connection. Default 32.
    #[serde(default = "depth")]
    pub depth: u32,
    /// Rate a client asks for at most, with all its connections together. Default: what it gets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Time a block takes in the drive. Default 0.
    #[serde(default)]
    pub drive: Span,
    /// When clients begin. Default: with the warm-up, or at 0 without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// When they stop. Default: at the end of `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
}

fn one_server() -> Peers {
    Peers::One
}

fn depth() -> u32 {
    32
}

impl Config {
    /// Who asks whom, and when.
    pub fn between(&self) -> Between<'_> {
        let &Self { ref from, clients, ref to, peers, connections, start, stop, .. } = self;
        Between { from, clients, to, peers, connections, start, stop }
    }
}

impl Workload for Config {
    fn check(&self, of: &Context, rule: Rule<'_>) {
        let kind = of.transport;
        rule(of.is_tcp, "kind", format!("needs TCP: transport.kind is \"{kind}\"; such as \"cubic\""));
        self.between().check(of, rule);
        check_depth(self.depth, DEPTH, rule);
        rule((0.0..=1.0).contains(&self.writes), "writes", format!("{} is no share: from 0 to 1", self.writes));
        rule(self.rate.is_none_or(|rate| rate.0 > 0), "rate", "must be above 0, such as \"25Gbps\"".into());
    }

    fn check_placed(&self, _of: &Context, place: &Place<'_>, found: &mut Findings) {
        self.between().check_placed(&[("block", &self.block)], LARGEST, place, found);
    }

    fn input_files(&self) -> Vec<(&'static str, String)> {
        self.block.file().into_iter().map(|file| ("block", file.to_string())).collect()
    }

    fn resolve(&mut self, of: &Context, _: &Place<'_>, _: Ps) {
        self.stop.get_or_insert(of.duration);
    }

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let block = self.block.read(section.place.base)?;
        let (sessions, each) = self.between().sessions(section)?;
        let per_byte = self.rate.map_or(0.0, |rate| 8.0 * SEC as f64 / rate.0 as f64 * each as f64);
        let times = self.between().times(section, Pace::Closed(self.depth, per_byte));
        let medium = Medium::Nvme { drive: self.drive.0, depth: self.depth };
        for session in &sessions {
            let asking = Asking::new(*session, times, section.span.seed);
            let initiator = Initiator { asking, block: block.clone(), writes: self.writes };
            plan.pair(session, initiator, Target(Service::new(self.drive.0)), medium);
        }
        Ok(())
    }

    fn group(&self) -> Option<Group> {
        let group = Group::exchanges("storage", "Storage latency").rate("per_s", "blocks", "1/s");
        Some(group.rate("gbps", "throughput", "Gb/s").closed(true))
    }
}

/// A block that is asked for, and how far that is: what a message's content says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Payload \[bytes\].
    pub bytes: u64,
    /// It is written, else read.
    pub write: bool,
    /// The message's place in the exchange, from 0.
    part: u8,
}

impl Block {
    /// Block that a message is about.
    pub fn of(message: Message) -> Self {
        let Message { content, .. } = message;
        Self { bytes: content >> 16, write: content >> 8 & 1 == 1, part: content as u8 }
    }

    /// Bytes of the messages by which it is read or written, the initiator's first.
    fn messages(self) -> &'static [fn(u64) -> u64] {
        match self {
            Self { write: false, .. } => &[|_| COMMAND, |bytes| HEADER + bytes + HEADER],
            Self { bytes, .. } if bytes <= IN_CAPSULE => &[|bytes| COMMAND + bytes, |_| HEADER],
            _ => &[|_| COMMAND, |_| HEADER, |bytes| HEADER + bytes, |_| HEADER],
        }
    }

    fn is_last(self) -> bool {
        usize::from(self.part) + 1 == self.messages().len()
    }

    /// Its message in place `part`, which carries `tag`.
    fn message(self, tag: u64, part: u8) -> Message {
        let bytes = self.messages()[usize::from(part)](self.bytes);
        Message { bytes, tag, content: self.bytes << 16 | u64::from(self.write) << 8 | u64::from(part) }
    }

    /// The last message of the exchange that `first` begins.
    pub fn end(first: Message) -> Message {
        let block = Self::of(first);
        block.message(first.tag, block.messages().len() as u8 - 1)
    }
}

/// Asks for blocks.
#[derive(Debug)]
struct Initiator {
    asking: Asking,
    block: Drawn,
    writes: f64,
}

impl Program for Initiator {
    fn asking(&self) -> Option<&Asking> {
        Some(&self.asking)
    }

    fn received(&mut self, now: Ps, channel: u32, message: Message, out: &mut Actions) {
        let block = Block::of(message);
        if block.is_last() {
            self.asking.answered(now, message.tag, out);
        } else {
            out.send(channel, block.message(message.tag, block.part + 1));
        }
    }

    fn proceed(&mut self, now: Ps, out: &mut Actions) {
        let Self { asking, block, writes } = self;
        while let Some((tag, asked)) = asking.begin(now, |random| {
            let write = *writes > 0.0 && onramp_random::uniform(random) < *writes;
            let asked = Asked { bytes: block.draw(random).next_multiple_of(BLOCK), write };
            (asked, asked)
        }) {
            let Asked { bytes, write } = asked;
            out.send(0, Block { bytes, write, part: 0 }.message(tag, 0));
        }
    }
}

/// Has the drive work before its last message.
#[derive(Debug)]
struct Target(Service);

impl Program for Target {
    fn received(&mut self, now: Ps, channel: u32, message: Message, out: &mut Actions) {
        let block = Block::of(message);
        let answer = block.message(message.tag, block.part + 1);
        if Block::of(answer).is_last() {
            self.0.answer(now, channel, answer, out);
        } else {
            out.send(channel, answer);
        }
    }

    fn proceed(&mut self, now: Ps, out: &mut Actions) {
        self.0.proceed(now, out);
    }

    fn wake(&self) -> Option<Ps> {
        self.0.wake()
    }
}
