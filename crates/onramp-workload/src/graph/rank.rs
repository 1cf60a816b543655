//! One rank of a distributed program, at its host.

use super::{Graph, Kind, Op, Ops, Sending, Users};
use crate::collective::{Label, Member, Piece};
use crate::program::Repetitions;
use crate::state::Encoder;
use crate::{Actions, Message, Program};
use onramp_config::units::Ps;
use onramp_random::Pcg64Mcg;
use onramp_records::OperationRecord;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

const OF_COLLECTIVE: u64 = Message::OF_COLLECTIVE;

/// Whose rank it is, and when it runs.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// The scenario's traffic section.
    pub traffic: u32,
    /// The rank's host.
    pub host: u32,
    /// Start, from the beginning of the load.
    pub start: Ps,
    /// Repetitions.
    pub iterations: u32,
}

/// A rank's part in a collective.
#[derive(Debug, Default)]
struct Part {
    /// The operation, once it has begun: before, messages of faster ranks are kept.
    op: Option<u32>,
    early: Vec<(u32, Label)>,
    channels: Vec<Box<dyn Member>>,
    /// Channels that are not over.
    left: usize,
}

/// Messages with a sender and a tag.
#[derive(Debug, Default)]
struct Inbox {
    there: u64,
    waiting: VecDeque<u32>,
}

/// A processor.
#[derive(Debug, Default)]
struct Stream {
    busy: bool,
    waiting: VecDeque<u32>,
}

/// Other ranks, by the channels of a rank's program.
#[derive(Clone, Debug, Default)]
pub(super) struct Peers {
    /// The rank at the other end of each channel.
    ranks: Vec<u32>,
    /// Receiver, number of the queue pair, and the channel, in this order.
    sends: Vec<(u32, u32, u32)>,
    /// By channel: the last acknowledgement's way back \[ps\]. Empty if no message waits for it.
    ways_back: Vec<Ps>,
}

impl Peers {
    /// The next channel is for messages to a rank. They come in ascending order.
    pub fn sends(&mut self, to: u32, queue_pair: u32) {
        self.sends.push((to, queue_pair, self.ranks.len() as u32));
        self.ranks.push(to);
    }

    /// Messages of the channel that came last wait for an acknowledgement.
    pub fn acknowledged(&mut self, way_back: Ps) {
        self.ways_back.resize(self.ranks.len(), 0);
        self.ways_back[self.ranks.len() - 1] = way_back;
    }

    /// The next channel is for messages from a rank.
    pub fn hears(&mut self, from: u32) {
        self.ranks.push(from);
    }

    /// The channel to a rank.
    fn to(&self, to: u32, queue_pair: u32) -> u32 {
        let at = self.sends.binary_search_by_key(&(to, queue_pair), |&(to, number, _)| (to, number));
        self.sends[at.expect("they are joined")].2
    }
}

/// See the module.
#[derive(Debug)]
pub struct Rank {
    graph: Arc<Graph>,
    me: u32,
    peers: Peers,
    runs: Runs,
    /// Repetition that runs; `None` before the start.
    iteration: Option<u32>,
    /// Operations of this repetition that are not complete.
    left: usize,
    /// By number: operations that it waits for.
    missing: Vec<u32>,
    started: Vec<Ps>,
    ready: VecDeque<u32>,
    /// Computations that run, by their ends.
    computing: BinaryHeap<Reverse<(Ps, u32)>>,
    /// Messages that are not handed over yet, in order of their times.
    ready_to_send: VecDeque<(Ps, u32, Message)>,
    /// Time at which the next message may begin.
    next_send: Ps,
    noise: Pcg64Mcg,
    streams: BTreeMap<u32, Stream>,
    /// By number over all repetitions.
    parts: BTreeMap<u64, Part>,
    inboxes: BTreeMap<(u32, u32), Inbox>,
    /// Messages sent to each rank so far: they take its queue pairs in turn.
    sent: BTreeMap<u32, u32>,
    pieces: Vec<Piece>,
}

impl Rank {
    /// Before its start.
    pub(super) fn new(graph: Arc<Graph>, me: u32, peers: Peers, runs: Runs, seed: u64) -> Self {
        let index = u64::from(runs.traffic) << 32 | u64::from(me);
        Self {
            graph,
            me,
            peers,
            runs,
            iteration: None,
            left: 0,
            missing: Vec::new(),
            started: Vec::new(),
            ready: VecDeque::new(),
            computing: BinaryHeap::new(),
            ready_to_send: VecDeque::new(),
            next_send: 0,
            noise: onramp_random::stream(seed, "noise", index),
            streams: BTreeMap::new(),
            parts: BTreeMap::new(),
            inboxes: BTreeMap::new(),
            sent: BTreeMap::new(),
            pieces: Vec::new(),
        }
    }

    fn begin_iteration(&mut self, iteration: u32) {
        self.iteration = Some(iteration);
        let ops = &self.graph.ranks[self.me as usize].all;
        if iteration >= self.runs.iterations {
            return;
        }
        self.left = ops.len();
        self.missing.clear();
        self.missing.extend(ops.iter().map(Op::waits_for));
        self.started.resize(ops.len(), 0);
        self.ready.extend((0..).zip(&self.missing).filter(|(_, missing)| **missing == 0).map(|(number, _)| number));
    }

    /// Number of a repetition's first collective.
    fn first_instance(&self, iteration: u32) -> u64 {
        u64::from(iteration) * self.graph.collectives.len() as u64
    }

    /// Begins all that can.
    fn go_on(&mut self, now: Ps, out: &mut Actions) {
        loop {
            while let Some(number) = self.ready.pop_front() {
                self.begin(number, now, out);
            }
            match self.iteration {
                Some(iteration) if self.left == 0 && iteration < self.runs.iterations => {
                    self.begin_iteration(iteration + 1);
                }
                _ => return,
            }
        }
    }

    fn begin(&mut self, number: u32, now: Ps, out: &mut Actions) {
        match self.graph.ranks[self.me as usize].all[number as usize].kind {
            Kind::Compute { time, stream } => {
                if let Some(stream) = stream {
                    let stream = self.streams.entry(stream).or_default();
                    if stream.busy {
                        stream.waiting.push_back(number);
                        return;
                    }
                    stream.busy = true;
                }
                self.begun(number, now);
                self.computing.push(Reverse((now.saturating_add(time), number)));
            }
            Kind::Send { to, bytes, tag } => {
                self.begun(number, now);
                if to == self.me {
                    self.message(to, tag, now, out);
                } else {
                    let sent = self.sent.entry(to).or_default();
                    let queue_pair = *sent % self.graph.sending.queue_pairs;
                    *sent = sent.wrapping_add(1);
                    let channel = self.peers.to(to, queue_pair);
                    self.send(now, channel, Message { bytes: bytes.max(1), tag: tag.into(), content: 0 }, out);
                }
                self.complete(number, now, out);
            }
            Kind::Receive { from, tag, .. } => {
                self.begun(number, now);
                let inbox = self.inboxes.entry((from, tag)).or_default();
                if inbox.there > 0 {
                    inbox.there -= 1;
                    self.complete(number, now, out);
                } else {
                    inbox.waiting.push_back(number);
                }
            }
            Kind::Collective(which) => {
                self.begun(number, now);
                self.begin_part(number, which, now, out);
            }
        }
    }

    /// An operation begins now: it does not wait for its stream.
    fn begun(&mut self, number: u32, now: Ps) {
        self.started[number as usize] = now;
        self.release(number, |ops| &ops.at_start);
    }

    /// Operations wait for one less.
    fn release(&mut self, number: u32, users: impl Fn(&Ops) -> &Users) {
        for &user in users(&self.graph.ranks[self.me as usize]).of(number) {
            let missing = &mut self.missing[user as usize];
            *missing -= 1;
            if *missing == 0 {
                self.ready.push_back(user);
            }
        }
    }

    fn send(&mut self, now: Ps, channel: u32, message: Message, out: &mut Actions) {
        let way_back = self.peers.ways_back.get(channel as usize).copied().unwrap_or_default();
        let Sending { latency, rate, noise, .. } = self.graph.sending;
        let noise = if noise > 0 { (onramp_random::uniform(&mut self.noise) * noise as f64) as Ps } else { 0 };
        let begins = now.saturating_add(noise).max(self.next_send);
        self.next_send = begins.saturating_add(rate.map_or(0, |rate| rate.time_for(message.bytes)));
        let at = begins.saturating_add(latency + way_back);
        if at == now {
            out.send(channel, message);
        } else {
            let place = self.ready_to_send.partition_point(|(other, ..)| *other <= at);
            self.ready_to_send.insert(place, (at, channel, message));
        }
    }

    /// A message of another rank has come.
    fn message(&mut self, from: u32, tag: u32, now: Ps, out: &mut Actions) {
        let inbox = self.inboxes.entry((from, tag)).or_default();
        match inbox.waiting.pop_front() {
            Some(number) => self.complete(number, now, out),
            None => inbox.there += 1,
        }
    }

    fn begin_part(&mut self, number: u32, which: u32, now: Ps, out: &mut Actions) {
        let iteration = self.iteration.expect("it runs");
        let instance = self.first_instance(iteration) + u64::from(which);
        let graph = Arc::clone(&self.graph);
        let collective = &graph.collectives[which as usize];
        let member = collective.members.iter().position(|rank| *rank == self.me).expect("it is a member") as u32;
        let task = |channel| collective.task(channel, member, graph.sending.chunk);
        let mut part = self.parts.remove(&instance).unwrap_or_default();
        part.op = Some(number);
        part.channels = (0..collective.channels).map(|channel| collective.algorithm.member(task(channel))).collect();
        for channel in 0..collective.channels {
            part.channels[channel as usize].begin(&mut self.pieces);
            self.send_pieces(instance, channel, now, out);
        }
        part.left = part.channels.iter().filter(|member| !member.is_over()).count();
        for (channel, label) in std::mem::take(&mut part.early) {
            self.piece(&mut part, instance, (channel, label), now, out);
        }
        self.keep(instance, part, now, out);
    }

    /// Keeps a part, or completes it.
    fn keep(&mut self, instance: u64, part: Part, now: Ps, out: &mut Actions) {
        match part.op.filter(|_| part.left == 0) {
            Some(number) => self.complete(number, now, out),
            None => {
                self.parts.insert(instance, part);
            }
        }
    }

    /// A piece has come for a channel of a part that has begun.
    fn piece(&mut self, part: &mut Part, instance: u64, (channel, label): (u32, Label), now: Ps, out: &mut Actions) {
        let member = &mut part.channels[channel as usize];
        member.received(label, &mut self.pieces);
        part.left -= usize::from(member.is_over());
        self.send_pieces(instance, channel, now, out);
    }

    fn send_pieces(&mut self, instance: u64, channel: u32, now: Ps, out: &mut Actions) {
        let graph = Arc::clone(&self.graph);
        let collectives = &graph.collectives;
        let collective = &collectives[(instance % collectives.len() as u64) as usize];
        let queue_pairs = graph.sending.queue_pairs;
        let mut pieces = std::mem::take(&mut self.pieces);
        for Piece { to, bytes, label, turn } in pieces.drain(..) {
            let to = collective.members[collective.member(channel, to) as usize];
            let queue_pair = channel * queue_pairs + turn % queue_pairs;
            let at = self.peers.to(to, queue_pair);
            let content = u64::from(channel) << 48 | u64::from(label.step) << 24 | u64::from(label.piece);
            self.send(now, at, Message { bytes, tag: OF_COLLECTIVE | instance, content }, out);
        }
        self.pieces = pieces;
    }

    fn complete(&mut self, number: u32, now: Ps, out: &mut Actions) {
        let ops = &self.graph.ranks[self.me as usize];
        let iteration = self.iteration.expect("it runs");
        let start_ps = self.started[number as usize];
        let (kind, collective, ranks, bytes) = match ops.all[number as usize].kind {
            Kind::Compute { .. } => (0, None, 1, 0),
            Kind::Send { bytes, .. } => (1, None, 2, bytes),
            Kind::Receive { bytes, .. } => (2, None, 2, bytes),
            Kind::Collective(which) => {
                let all = &self.graph.collectives;
                let collective = &all[which as usize];
                let instance = u64::from(iteration) * all.len() as u64 + u64::from(which);
                (collective.operation.code(), Some(instance), collective.members.len() as u32, collective.bytes)
            }
        };
        let Runs { traffic, host, .. } = self.runs;
        let duration_ps = now - start_ps;
        let rank = self.me;
        out.operations.push(OperationRecord {
            traffic,
            rank,
            host,
            iteration,
            number,
            kind,
            collective,
            ranks,
            bytes,
            start_ps,
            duration_ps,
        });
        self.left -= 1;
        self.release(number, |ops| &ops.at_end);
    }

    /// A stream has become free.
    fn next_on(&mut self, stream: u32, now: Ps) {
        let stream = self.streams.get_mut(&stream).expect("it was busy");
        stream.busy = false;
        if let Some(next) = stream.waiting.pop_front()
            && let Kind::Compute { time, .. } = self.graph.ranks[self.me as usize].all[next as usize].kind
        {
            stream.busy = true;
            self.begun(next, now);
            self.computing.push(Reverse((now.saturating_add(time), next)));
        }
    }
}

impl Program for Rank {
    fn received(&mut self, now: Ps, channel: u32, message: Message, out: &mut Actions) {
        let Message { tag, content, .. } = message;
        if tag & OF_COLLECTIVE == 0 {
            let from = self.peers.ranks[channel as usize];
            self.message(from, tag as u32, now, out);
        } else {
            let instance = tag & !OF_COLLECTIVE;
            let mask = (1 << 24) - 1;
            let label = Label { step: (content >> 24 & mask) as u32, piece: (content & mask) as u32 };
            let channel = (content >> 48) as u32;
            let mut part = self.parts.remove(&instance).unwrap_or_default();
            if part.op.is_none() {
                part.early.push((channel, label));
                self.parts.insert(instance, part);
            } else {
                self.piece(&mut part, instance, (channel, label), now, out);
                self.keep(instance, part, now, out);
            }
        }
        self.go_on(now, out);
    }

    fn proceed(&mut self, now: Ps, out: &mut Actions) {
        if self.iteration.is_none() {
            if now < self.runs.start {
                return;
            }
            self.begin_iteration(0);
            self.go_on(now, out);
        }
        while let Some(&(at, channel, message)) = self.ready_to_send.front()
            && at <= now
        {
            self.ready_to_send.pop_front();
            out.send(channel, message);
        }
        while let Some(&Reverse((at, number))) = self.computing.peek()
            && at <= now
        {
            self.computing.pop();
            if let Kind::Compute { stream: Some(stream), .. } =
                self.graph.ranks[self.me as usize].all[number as usize].kind
            {
                self.next_on(stream, now);
            }
            self.complete(number, now, out);
            self.go_on(now, out);
        }
    }

    fn wake(&self) -> Option<Ps> {
        match self.iteration {
            None => Some(self.runs.start),
            Some(_) => {
                let computed = self.computing.peek().map(|Reverse((at, _))| *at);
                let sent = self.ready_to_send.front().map(|(at, ..)| *at);
                computed.into_iter().chain(sent).min()
            }
        }
    }

    fn is_over(&self) -> bool {
        self.ready_to_send.is_empty() && self.iteration.is_some_and(|iteration| iteration >= self.runs.iterations)
    }

    fn open(&self) -> u64 {
        self.left as u64
    }

    fn encode(&self, now: Ps, state: &mut Encoder) {
        let Self {
            graph,
            me: _,
            peers: _,
            runs: Runs { traffic: _, host: _, start, iterations: _ },
            iteration,
            left,
            missing,
            started,
            ready,
            computing,
            ready_to_send,
            next_send,
            noise: _,
            streams,
            parts,
            inboxes,
            sent,
            pieces: _,
        } = self;
        if graph.sending.noise > 0 {
            state.refuse("messages are late at random (traffic.noise)");
        }
        let zero = state.now() - now;
        let Some(iteration) = *iteration else { return state.time(start + zero) };
        let first = self.first_instance(iteration);
        // Of operations, only those that are under way have a start that is read.
        state.word(*left as u64);
        missing.iter().for_each(|missing| state.word(*missing));
        state.word(ready.len() as u64);
        ready.iter().for_each(|number| state.word(*number));
        let mut ends: Vec<(Ps, u32)> = computing.iter().map(|Reverse(end)| *end).collect();
        ends.sort_unstable();
        state.word(ends.len() as u64);
        for (at, number) in ends {
            state.time(at + zero);
            state.word(number);
            state.time(started[number as usize] + zero);
        }
        state.word(ready_to_send.len() as u64);
        for &(at, channel, Message { bytes, tag, content }) in ready_to_send {
            let tag = if tag & OF_COLLECTIVE == 0 { tag } else { tag.wrapping_sub(first) };
            state.time(at + zero);
            state.word(channel);
            [bytes, tag, content].into_iter().for_each(|value| state.word(value));
        }
        state.due(next_send + zero);
        for (number, Stream { busy, waiting }) in streams {
            state.word(*number);
            state.word(*busy);
            state.word(waiting.len() as u64);
            waiting.iter().for_each(|number| state.word(*number));
        }
        for (instance, Part { op, early, channels: _, left: _ }) in parts {
            if op.is_some() {
                // Its members know how far they are.
                return state.busy();
            }
            state.word(instance.wrapping_sub(first));
            state.word(early.len() as u64);
            for &(channel, Label { step, piece }) in early {
                [channel, step, piece].into_iter().for_each(|value| state.word(value));
            }
        }
        for (&(from, tag), Inbox { there, waiting }) in inboxes {
            [u64::from(from), u64::from(tag), *there, waiting.len() as u64].into_iter().for_each(|v| state.word(v));
            for &number in waiting {
                state.word(number);
                state.time(started[number as usize] + zero);
            }
        }
        for (to, sent) in sent {
            state.word(*to);
            state.word(sent % graph.sending.queue_pairs);
        }
    }

    fn repetitions(&self) -> Repetitions {
        let (number, all) = (self.iteration.unwrap_or(0), self.runs.iterations);
        Repetitions { number, all, collectives: self.graph.collectives.len() as u64 }
    }

    fn skip(&mut self, repetitions: u32) {
        let Some(iteration) = &mut self.iteration else { return };
        *iteration += repetitions;
        let more = self.first_instance(repetitions);
        self.parts = std::mem::take(&mut self.parts).into_iter().map(|(at, part)| (at + more, part)).collect();
        for (.., message) in &mut self.ready_to_send {
            if message.tag & OF_COLLECTIVE != 0 {
                message.tag += more;
            }
        }
    }

    fn bytes(&self) -> Option<u64> {
        let graph = &self.graph;
        let sent = |op: &super::Op| match op.kind {
            Kind::Send { bytes, .. } => bytes as f64,
            Kind::Collective(which) => {
                let collective = &graph.collectives[which as usize];
                collective.bytes as f64 * collective.operation.bus_factor(collective.members.len() as u32)
            }
            _ => 0.0,
        };
        let once: f64 = graph.ranks[self.me as usize].all.iter().map(sent).sum();
        Some((once * f64::from(self.runs.iterations)) as u64)
    }
}
