//! When a host's flows may send: one file per shaper.
//!
//! A shaper is told from when on each flow may send, or, where it holds packets, which
//! packets flows hand down to it; and asked, when a link is free, whose turn it is.
//! On-Ramp's gate is not its business: it is asked when the packet is about to leave.
//!
//! Flows hand down a place for a packet, of a size; the packet itself is formed when it leaves, as by a NIC that
//! fetches it from memory then. So a retransmitted packet takes the place of one that was handed down, and stamps tell
//! when packets left.
//!
//! Shapers that hold packets are not inlined: the way of an RDMA NIC's pacers, which nearly
//! all scenarios have, would be longer by them.

mod carousel;
pub mod config;
mod flow;
mod fq;
mod htb;
mod round_robin;
mod shares;
pub mod wheel;

use onramp_config::units::Ps;
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A flow at a host: its slot, and its number in the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Slot of the sender.
    pub slot: u32,
    /// Orders flows that are due at the same time.
    pub id: u64,
}

/// The host's agent, which takes its turn as one more flow.
pub const AGENT: Entry = Entry { slot: u32::MAX, id: u64::MAX };

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// This flow's.
    Send(Entry),
    /// Nobody's before this time.
    At(Ps),
    /// Nobody's.
    Idle,
}

/// Parameters of shapers, resolved. Where a shaper has no use for one, it is 0.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    /// Which one.
    pub kind: Kind,
    /// All flows of a line together send at most so many bits per second,
    pub egress: Option<f64>,
    /// and those of each tenant so many.
    pub tenants: Vec<f64>,
    /// Names of tenants.
    pub names: Vec<String>,
    /// Time that a packet takes on the shaper's core, or under its lock.
    pub cost: Ps,
    /// See [`config::Shaping`], and so on.
    pub slot: Ps,
    /// Time that Carousel's wheel reaches ahead.
    pub horizon: Ps,
    /// Cores of Carousel, each with a wheel.
    pub cores: u32,
    /// Time between two divisions of limits among Carousel's cores.
    pub rebalance: Ps,
    /// Bytes below which a flow hands Carousel more packets.
    pub budget: u32,
    /// Bytes that a class of HTB may send at once after a while without.
    pub burst: u32,
    /// Packets that a flow's queue holds, in HTB and fq.
    pub queue: u32,
    /// Bytes that a flow of fq may send in its turn.
    pub quantum: i64,
    /// Time by which fq's timer is late if nothing else happens.
    pub slack: Ps,
}

/// A flow's policies.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Its own rate at most, in bits per second; infinite for no limit.
    pub cap: f64,
    /// The tenant it belongs to.
    pub tenant: Option<u8>,
}

/// No limit.
pub const FREE: Terms = Terms { cap: f64::INFINITY, tenant: None };

/// Packets and bytes in a shaper now, and at most so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    packets: u64,
    bytes: u64,
    /// Packets in one line at most,
    pub most_packets: u64,
    /// and bytes of them.
    pub most_bytes: u64,
    /// Bytes of the line's own structure, flows included.
    pub memory: u64,
}

impl Held {
    #[inline]
    fn add(&mut self, size: u16) {
        self.packets += 1;
        self.bytes += u64::from(size);
        self.most_packets = self.most_packets.max(self.packets);
        self.most_bytes = self.most_bytes.max(self.bytes);
    }

    #[inline]
    fn remove(&mut self, packets: u32, bytes: u32) {
        self.packets -= u64::from(packets);
        self.bytes -= u64::from(bytes);
    }

    /// The largest of each of all lines' numbers.
    pub fn largest(lines: impl Iterator<Item = Self>) -> Self {
        lines.fold(Self::default(), |all, line| Self {
            packets: all.packets.max(line.packets),
            bytes: all.bytes.max(line.bytes),
            most_packets: all.most_packets.max(line.most_packets),
            most_bytes: all.most_bytes.max(line.most_bytes),
            memory: all.memory.max(line.memory),
        })
    }
}

/// A shaper of all NICs of a cell; a line is a class of a NIC.
pub trait Shaper {
    /// A new flow, with its policies.
    fn open(&mut self, line: usize, flow: Entry, terms: &Terms);
    /// The flow, which had nothing to send, begins a message.
    fn begin(&mut self, _flow: Entry) {}
    /// The flow may send at `at`. Only the earliest of a flow's offers counts; those of
    /// up to `now` line up in turn.
    fn offer(&mut self, line: usize, flow: Entry, at: Ps, now: Ps);
    /// The same of the flow whose packet the link has until `free`: it lines up then, behind those that come meanwhile.
    #[inline(always)]
    fn offer_again(&mut self, line: usize, flow: Entry, at: Ps, free: Ps) {
        self.offer(line, flow, at, free);
    }
    /// The flow is in line, and waits for nothing but its turn.
    fn ready(&self, flow: Entry) -> bool;
    /// Whose turn it is.
    fn take(&mut self, line: usize, now: Ps) -> Take;
    /// The flow is over.
    fn forget(&mut self, flow: Entry);
    /// Flows hand packets down to it in place of offering: then only the agent offers, and
    /// a flow for whose packet, just taken, it is too early.
    #[inline]
    fn holds(&self) -> bool {
        false
    }
    /// Packets of the flow that it holds; `None` if it takes no more of them for now.
    #[inline]
    fn room(&self, _flow: Entry) -> Option<u32> {
        None
    }
    /// The flow, whose controller allows `rate`, hands a packet down.
    fn hand(&mut self, _line: usize, _flow: Entry, _size: u16, _rate: f64, _now: Ps) {}
    /// Flows in line that wait for nothing but their turn; 0 where it holds packets.
    fn waiting(&self, _line: usize) -> usize {
        0
    }
    /// The flow whose turn is likely next, so that it can be fetched into the cache.
    #[inline]
    fn following(&self, _line: usize) -> Option<u32> {
        None
    }
    /// Fetches where the flow in a slot stands.
    #[inline]
    fn prefetch(&self, _slot: u32) {}
    /// The largest of its lines' numbers.
    fn held(&self) -> Held {
        Held::default()
    }
}

/// Who may send now: flows' packets that are due, and the agent, in turn.
#[derive(Debug, Default)]
struct Due {
    queue: VecDeque<(Entry, u16)>,
    agent: bool,
}

impl Due {
    #[inline]
    fn push(&mut self, flow: Entry, size: u16) {
        if flow != AGENT {
            self.queue.push_back((flow, size));
        } else if !self.agent {
            self.agent = true;
            self.queue.push_back((flow, size));
        }
    }

    #[inline]
    fn pop(&mut self) -> Option<(Entry, u16)> {
        let first = self.queue.pop_front()?;
        self.agent &= first.0 != AGENT;
        Some(first)
    }
}

/// Where a queue, or a class of them, is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// Nowhere: it has nothing to send.
    Out,
    /// Among those that take turns.
    Turn,
    /// In the tree of those that may not send before a time.
    Waits(Ps),
}

/// State of a line that all cores share, under one lock.
#[derive(Debug, Default)]
struct Locked {
    /// The agent wants its turn.
    agent: bool,
    /// The lock is taken until then.
    busy: Ps,
    held: Held,
    flows: u64,
}

macro_rules! shapers {
    ($($(#[$doc:meta])* $name:ident($module:ident) = $tag:literal,)+) => {
        /// Which shaper the hosts have.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Kind {
            #[default]
            $($(#[$doc])* #[serde(rename = $tag)] $name,)+
        }

        /// One of the shapers.
        #[derive(Debug)]
        pub enum Any {
            $($(#[$doc])* $name($module::Shaping),)+
        }

        impl Any {
            /// For this many lines.
            pub fn new(rules: &Rules, lines: usize) -> Self {
                match rules.kind { $(Kind::$name => Self::$name($module::Shaping::new(rules, lines)),)+ }
            }

            /// Takes down its state.
            pub fn encode(&self, state: &mut Encoder) {
                match self {
                    Self::Flow(shaping) => shaping.encode(state),
                    Self::RoundRobin(shaping) => shaping.encode(state),
                    _ => state.refuse("a shaper that holds packets keeps time (host.shaper)"),
                }
            }
        }

        impl Shaper for Any {
            #[inline]
            fn open(&mut self, line: usize, flow: Entry, terms: &Terms) {
                match self { $(Self::$name(s) => s.open(line, flow, terms),)+ }
            }

            #[inline]
            fn begin(&mut self, flow: Entry) {
                match self { $(Self::$name(s) => s.begin(flow),)+ }
            }

            #[inline]
            fn offer(&mut self, line: usize, flow: Entry, at: Ps, now: Ps) {
                match self { $(Self::$name(s) => s.offer(line, flow, at, now),)+ }
            }

            #[inline(always)]
            fn offer_again(&mut self, line: usize, flow: Entry, at: Ps, free: Ps) {
                match self { $(Self::$name(s) => s.offer_again(line, flow, at, free),)+ }
            }

            #[inline]
            fn ready(&self, flow: Entry) -> bool {
                match self { $(Self::$name(s) => s.ready(flow),)+ }
            }

            #[inline]
            fn take(&mut self, line: usize, now: Ps) -> Take {
                match self { $(Self::$name(s) => s.take(line, now),)+ }
            }

            #[inline]
            fn forget(&mut self, flow: Entry) {
                match self { $(Self::$name(s) => s.forget(flow),)+ }
            }

            #[inline]
            fn holds(&self) -> bool {
                match self { $(Self::$name(s) => s.holds(),)+ }
            }

            #[inline]
            fn room(&self, flow: Entry) -> Option<u32> {
                match self { $(Self::$name(s) => s.room(flow),)+ }
            }

            #[inline]
            fn hand(&mut self, line: usize, flow: Entry, size: u16, rate: f64, now: Ps) {
                match self { $(Self::$name(s) => s.hand(line, flow, size, rate, now),)+ }
            }

            fn waiting(&self, line: usize) -> usize {
                match self { $(Self::$name(s) => s.waiting(line),)+ }
            }

            #[inline]
            fn following(&self, line: usize) -> Option<u32> {
                match self { $(Self::$name(s) => s.following(line),)+ }
            }

            #[inline]
            fn prefetch(&self, slot: u32) {
                match self { $(Self::$name(s) => s.prefetch(slot),)+ }
            }

            fn held(&self) -> Held {
                match self { $(Self::$name(s) => s.held(),)+ }
            }
        }

        impl Kind {
            /// It holds packets: flows hand them down to it.
            pub fn holds(self) -> bool {
                !matches!(self, Self::Flow | Self::RoundRobin)
            }

            /// Its name in a scenario.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $tag,)+ }
            }
        }
    };
}

shapers! {
    /// A pacer per flow, flows in turn: what an RDMA NIC has.
    Flow(flow) = "flow",
    /// The same, but a flow keeps its place in the round.
    RoundRobin(round_robin) = "round-robin",
    /// A timing wheel per core for all policies (Carousel).
    Carousel(carousel) = "carousel",
    /// A token bucket with a queue for each flow, in a hierarchy.
    Htb(htb) = "htb",
    /// A queue per flow, and a tree of those that wait for their pacing.
    Fq(fq) = "fq",
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn flow(slot: u32) -> Entry {
        Entry { slot, id: u64::from(slot) }
    }

    pub(super) fn capped(gbps: f64, tenant: Option<u8>) -> Terms {
        Terms { cap: gbps * 1e9, tenant }
    }

    /// A shaper of one line with a flow for each of `terms`, by slot.
    pub(super) fn opened<S: Shaper>(mut shaper: S, terms: &[Terms]) -> S {
        (0..).zip(terms).for_each(|(slot, terms)| shaper.open(0, flow(slot), terms));
        shaper
    }

    /// Hands packets of 1000 B down.
    pub(super) fn hand(shaper: &mut impl Shaper, slot: u32, packets: u32, now: Ps) {
        (0..packets).for_each(|_| shaper.hand(0, flow(slot), 1000, f64::INFINITY, now));
    }
}
