//! Distributed programs: for each rank a graph of operations, which compute, send, receive, or take part in a
//! collective.
//!
//! An operation begins when those it comes after are complete, and those it comes with have begun; of those on one
//! stream (a processor) one computes at a time: the others have not begun. Sends are complete when they are handed
//! over. A message is for the receive with its sender and tag; those with the same ones are taken in order. Every
//! format of traces comes down to a [`Graph`].

mod check;
mod rank;

use super::Plan;
use super::collective::{Algorithm, Operation, Task, share};
use onramp_config::units::{Ps, Rate};
use onramp_topology::Topology;
pub use rank::Rank;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An operation of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Op {
    /// Its object.
    pub kind: Kind,
    /// Operations of the same rank that are complete before it begins, by number,
    pub after: Vec<u32>,
    /// and those that have begun.
    pub begun: Vec<u32>,
}

impl Op {
    /// An operation after some that are complete.
    pub fn new(kind: Kind, after: Vec<u32>) -> Self {
        Self { kind, after, begun: vec![] }
    }

    /// Operations that it waits for.
    fn waits_for(&self) -> u32 {
        (self.after.len() + self.begun.len()) as u32
    }
}

/// Objects of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Computes for `time` on a stream, or beside all others.
    Compute {
        /// How long \[ps\].
        time: Ps,
        /// The rank's stream.
        stream: Option<u32>,
    },
    /// Sends a message.
    Send {
        /// The rank that receives it.
        to: u32,
        /// Payload.
        bytes: u64,
        /// Label.
        tag: u32,
    },
    /// Receives a message.
    Receive {
        /// The rank that sends it.
        from: u32,
        /// Payload.
        bytes: u64,
        /// Label.
        tag: u32,
    },
    /// The rank's part in a collective, by its place in the graph's collectives.
    Collective(u32),
}

/// A collective.
#[derive(Clone, Debug)]
pub struct Collective {
    /// The operation,
    pub operation: Operation,
    /// and the way it is done.
    pub algorithm: Algorithm,
    /// Ranks that take part, in order.
    pub members: Arc<[u32]>,
    /// The buffer \[bytes\]: see [`Operation`].
    pub bytes: u64,
    /// Parts that the buffer is cut into, each with a ring, or a tree, of its own.
    pub channels: u32,
    /// Consecutive members that share a server: rings enter and leave it by another one in each channel.
    pub server: u32,
    /// Rings change rails between servers.
    pub cross_nic: bool,
}

impl Collective {
    /// The member in place `place` of a channel. Broadcasts and reduces have the first member in the first place of
    /// each, as their root.
    fn member(&self, channel: u32, place: u32) -> u32 {
        let n = self.members.len() as u32;
        self.on_ring(channel, (place + self.root_place(channel)) % n)
    }

    /// The place of a member in a channel: the inverse of [`Collective::member`].
    fn place(&self, channel: u32, member: u32) -> u32 {
        let n = self.members.len() as u32;
        (self.place_on_ring(channel, member) + n - self.root_place(channel)) % n
    }

    /// Place on a channel's ring at which a root stands.
    fn root_place(&self, channel: u32) -> u32 {
        let rooted = matches!(self.operation, Operation::Broadcast | Operation::Reduce);
        if rooted { self.place_on_ring(channel, 0) } else { 0 }
    }

    /// The member at a place of a channel's ring. Rings go through the servers one after the other; the even ones
    /// forwards and the odd ones backwards, so that the way to the next server is on one rail, unless they change it.
    fn on_ring(&self, channel: u32, place: u32) -> u32 {
        let (n, server) = (self.members.len() as u32, self.server);
        if self.algorithm != Algorithm::Ring || server < 2 || !n.is_multiple_of(server) {
            return place;
        }
        let (which, inside) = (place / server, place % server);
        let turned =
            if self.is_forwards(which) { channel + inside } else { channel % server + 2 * server - 1 - inside };
        which * server + turned % server
    }

    /// The inverse of [`Collective::on_ring`].
    fn place_on_ring(&self, channel: u32, member: u32) -> u32 {
        let (n, server) = (self.members.len() as u32, self.server);
        if self.algorithm != Algorithm::Ring || server < 2 || !n.is_multiple_of(server) {
            return member;
        }
        let (which, inside) = (member / server, member % server);
        let turned = if self.is_forwards(which) {
            inside + server - channel % server
        } else {
            channel % server + 2 * server - 1 - inside
        };
        which * server + turned % server
    }

    /// Rings pass a server in the order of its ranks.
    fn is_forwards(&self, server: u32) -> bool {
        self.cross_nic || server.is_multiple_of(2)
    }

    /// Part of a member in a channel, in messages of at most `chunk` bytes.
    fn task(&self, channel: u32, member: u32, chunk: u64) -> Task {
        Task {
            operation: self.operation,
            me: self.place(channel, member),
            n: self.members.len() as u32,
            bytes: share(self.bytes, channel, self.channels),
            chunk,
        }
    }
}

/// How messages are sent.
#[derive(Clone, Copy, Debug)]
pub struct Sending {
    /// Largest message of a collective \[bytes\].
    pub chunk: u64,
    /// Queue pairs, or connections, of two ranks in each channel: messages take them in turn.
    pub queue_pairs: u32,
    /// Time from a message's being ready until it is handed over.
    pub latency: Ps,
    /// Messages of a rank begin one after the other, each once the one before has taken its time at this rate.
    pub rate: Option<Rate>,
    /// A message is handed over up to so much later, at random.
    pub noise: Ps,
}

/// When the ranks of a program run.
#[derive(Clone, Copy, Debug)]
pub struct When {
    /// The scenario's traffic section.
    pub traffic: u32,
    /// Start, from the beginning of the load.
    pub start: Ps,
    /// Repetitions.
    pub iterations: u32,
    /// Of the noise.
    pub seed: u64,
}

/// The operations that wait for each operation of a rank.
#[derive(Debug, Default)]
struct Users {
    /// From one place of `all` to the next; empty if no operation waits.
    at: Vec<u32>,
    all: Vec<u32>,
}

impl Users {
    fn new(ops: &[Op], before: impl Fn(&Op) -> &[u32]) -> Self {
        if ops.iter().all(|op| before(op).is_empty()) {
            return Self::default();
        }
        let mut at = vec![0; ops.len() + 1];
        for &before in ops.iter().flat_map(&before) {
            at[before as usize + 1] += 1;
        }
        for i in 0..ops.len() {
            at[i + 1] += at[i];
        }
        let mut next = at.clone();
        let mut all = vec![0; at[ops.len()] as usize];
        for (number, op) in (0..).zip(ops) {
            for &before in before(op) {
                all[next[before as usize] as usize] = number;
                next[before as usize] += 1;
            }
        }
        Self { at, all }
    }

    fn of(&self, number: u32) -> &[u32] {
        let at = |number: u32| self.at.get(number as usize).map_or(0, |&at| at as usize);
        &self.all[at(number)..at(number + 1)]
    }
}

/// The operations of one rank.
#[derive(Debug, Default)]
pub struct Ops {
    /// In order of their numbers.
    all: Vec<Op>,
    /// Those that wait until an operation is complete,
    at_end: Users,
    /// and those that wait until it has begun.
    at_start: Users,
}

impl Ops {
    fn new(all: Vec<Op>) -> Self {
        let (at_end, at_start) = (Users::new(&all, |op| &op.after), Users::new(&all, |op| &op.begun));
        Self { all, at_end, at_start }
    }
}

/// A distributed program.
#[derive(Debug)]
pub struct Graph {
    ranks: Vec<Ops>,
    collectives: Vec<Collective>,
    sending: Sending,
}

impl Graph {
    /// A program of some ranks' operations.
    ///
    /// # Errors
    /// The first thing that would never end: an operation after itself, a message without its other end.
    pub fn new(ranks: Vec<Vec<Op>>, collectives: Vec<Collective>, sending: Sending) -> Result<Self, String> {
        let graph = Self { ranks: ranks.into_iter().map(Ops::new).collect(), collectives, sending };
        graph.check()?;
        Ok(graph)
    }

    /// Ranks.
    pub fn ranks(&self) -> usize {
        self.ranks.len()
    }

    /// Time in which the busiest rank computes and sends at `rate`, one after the other: about how long it takes.
    pub fn about(&self, rate: Rate) -> Ps {
        let rate = self.sending.rate.filter(|own| own.0 > 0 && *own < rate).unwrap_or(rate);
        let of = |op: &Op| match op.kind {
            Kind::Compute { time, .. } => time,
            Kind::Send { bytes, .. } => rate.time_for(bytes),
            // An all-reduce by a ring sends it twice.
            Kind::Collective(which) => rate.time_for(self.collectives[which as usize].bytes).saturating_mul(2),
            Kind::Receive { .. } => 0,
        };
        let whole = |ops: &Ops| ops.all.iter().map(of).fold(0, Ps::saturating_add);
        self.ranks.iter().map(whole).max().unwrap_or_default()
    }

    /// Queue pairs, one for each way as NCCL has them: sender, receiver, number.
    fn links(&self) -> BTreeSet<(u32, u32, u32)> {
        let mut links = BTreeSet::new();
        let mut link = |from: u32, to: u32, queue_pair: u32| {
            if from != to {
                links.insert((from, to, queue_pair));
            }
        };
        for (rank, ops) in (0..).zip(&self.ranks) {
            for op in &ops.all {
                if let Kind::Send { to, .. } = op.kind {
                    (0..self.sending.queue_pairs).for_each(|number| link(rank, to, number));
                }
            }
        }
        let mut seen = BTreeSet::new();
        for collective in &self.collectives {
            let Collective { operation, algorithm, members, channels, server, cross_nic, .. } = collective;
            // Collectives of the same ranks by the same algorithm have the same links.
            if !seen.insert((members, operation.code(), *algorithm as u32, *channels, *server, *cross_nic)) {
                continue;
            }
            let n = members.len() as u32;
            for (channel, place) in (0..*channels).flat_map(|channel| (0..n).map(move |place| (channel, place))) {
                let rank = |place| members[collective.member(channel, place) as usize];
                for peer in algorithm.peers(*operation, place, n) {
                    for number in 0..self.sending.queue_pairs {
                        link(rank(place), rank(peer), channel * self.sending.queue_pairs + number);
                    }
                }
            }
        }
        links
    }

    /// Channels that it needs.
    pub fn channels(&self) -> usize {
        self.links().len()
    }

    /// Places its ranks at hosts, in order. With a topology messages wait for the last acknowledgement's way back.
    pub fn place(self, hosts: &[u32], acknowledged: Option<&Topology>, when: When, plan: &mut Plan) {
        let When { traffic, start, iterations, seed } = when;
        let graph = Arc::new(self);
        let links = graph.links();
        // In the order in which they are joined.
        let mut peers = vec![rank::Peers::default(); graph.ranks.len()];
        for &(from, to, number) in &links {
            peers[from as usize].sends(to, number);
            if let Some(topology) = acknowledged {
                let way_back = topology.path(hosts[to as usize], hosts[from as usize], 0).map(|port| port.delay).sum();
                peers[from as usize].acknowledged(way_back);
            }
            peers[to as usize].hears(from);
        }
        let at: Vec<usize> = (0..)
            .zip(hosts)
            .zip(peers)
            .map(|((rank, &host), peers)| {
                let runs = rank::Runs { traffic, host, start, iterations };
                let program = Rank::new(Arc::clone(&graph), rank, peers, runs, seed);
                plan.place(host, traffic, rank, program)
            })
            .collect();
        for (from, to, _) in links {
            plan.join_one_way([at[from as usize], at[to as usize]], traffic);
        }
    }
}

#[cfg(test)]
mod tests;
