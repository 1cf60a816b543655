//! Traffic of a plan in an ideal network: who sends how much to whom, before a packet is simulated.
//!
//! Each channel has a path of its own, so that messages wait only for those before them in their channel. Flows that
//! arrive whatever happens are the run's own; programs that wait for answers send at most as much in a real network.

use super::{Actions, Message, NewFlow, Plan, Size};
use onramp_config::units::Ps;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Traffic of a section from a host to another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Flows, or messages of programs.
    pub count: u64,
    /// Their payload \[bytes\].
    pub bytes: u64,
}

/// Traffic of a plan.
#[derive(Debug, Default)]
pub struct Traffic {
    /// By section, sending and receiving host.
    pub sent: BTreeMap<(u32, u32, u32), Sent>,
    /// Flows of each section that send for a time, whose bytes depend on the network.
    pub endless: BTreeMap<u32, u64>,
    /// Time from the beginning of the load by which all programs were over; `None` without programs, or if they go on.
    pub over: Option<Ps>,
    /// Messages and flows were so many that the rest is left out.
    pub is_cut: bool,
}

impl Traffic {
    fn add(&mut self, traffic: u32, src: u32, dst: u32, bytes: u64) {
        let sent = self.sent.entry((traffic, src, dst)).or_default();
        sent.count += 1;
        sent.bytes += bytes;
    }
}

/// Something that happens to a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The message with this number arrives.
    Arrives(u64),
    /// The program at this place wakes.
    Wakes(usize),
}

/// Programs, and messages between them.
struct Play<'a, D> {
    plan: &'a mut Plan,
    /// By program and its channel's number: the channel, and which of its ends the program is.
    channels: Vec<Vec<(usize, usize)>>,
    /// When each direction of a channel is free again.
    free: Vec<[Ps; 2]>,
    due: BinaryHeap<Reverse<(Ps, Event)>>,
    /// Next wake-up of each program that counts.
    armed: Vec<Option<Ps>>,
    /// Messages under way, by number: channel, receiving end.
    messages: BTreeMap<u64, (usize, usize, Message)>,
    begun: u64,
    delays: D,
    found: Traffic,
}

/// Traffic of flows that start before `until`, and of programs as long as they go on, at most `most` flows and messages.
/// `delays` gives for two hosts and a number of bytes the time that they take of the path's slowest link, and how much
/// later the last of them arrives.
pub fn traffic(mut plan: Plan, until: Ps, most: u64, delays: impl Fn(u32, u32, u64) -> [Ps; 2]) -> Traffic {
    let mut found = Traffic::default();
    let (mut flows, mut left): (Vec<NewFlow>, u64) = (Vec::new(), most);
    for source in &mut plan.sources {
        while source.next_at().is_some_and(|at| at < until) {
            if left == 0 {
                found.is_cut = true;
                break;
            }
            source.take(&mut flows);
            left = left.saturating_sub(flows.len() as u64);
            for flow in flows.drain(..) {
                match flow.size {
                    Size::Bytes(bytes) => found.add(flow.traffic, flow.src, flow.dst, bytes),
                    Size::Until(_) => *found.endless.entry(flow.traffic).or_default() += 1,
                }
            }
        }
    }
    let mut channels = vec![Vec::new(); plan.programs.len()];
    for (at, channel) in plan.channels.iter().enumerate() {
        for (end, program) in channel.ends.into_iter().enumerate() {
            channels[program].push((at, end));
        }
    }
    let free = vec![[0; 2]; plan.channels.len()];
    let (armed, due, messages) = (vec![None; plan.programs.len()], BinaryHeap::new(), BTreeMap::new());
    let mut play = Play { plan: &mut plan, channels, free, due, armed, messages, begun: 0, delays, found };
    play.run(left);
    play.found
}

impl<D: Fn(u32, u32, u64) -> [Ps; 2]> Play<'_, D> {
    fn run(&mut self, most: u64) {
        let mut over: Vec<bool> = self.plan.programs.iter().map(|placed| placed.program.is_over()).collect();
        let mut open = over.iter().filter(|over| !**over).count();
        for at in 0..over.len() {
            self.wake(at);
        }
        while open > 0 {
            let Some(Reverse((now, event))) = self.due.pop() else { return };
            let mut actions = Actions::default();
            let at = match event {
                Event::Wakes(at) if self.armed[at] != Some(now) => continue,
                Event::Wakes(at) => {
                    self.armed[at] = None;
                    at
                }
                Event::Arrives(number) => {
                    let (channel, end, message) = self.messages.remove(&number).expect("it is under way");
                    let channel = &self.plan.channels[channel];
                    let at = channel.ends[end];
                    self.plan.programs[at].program.received(now, channel.numbers[end], message, &mut actions);
                    at
                }
            };
            self.plan.programs[at].program.proceed(now, &mut actions);
            for (number, message) in actions.sends {
                if self.begun == most {
                    self.found.is_cut = true;
                    return;
                }
                self.send(now, at, number, message);
            }
            self.wake(at);
            if !over[at] && self.plan.programs[at].program.is_over() {
                over[at] = true;
                open -= 1;
                self.found.over = (open == 0).then_some(now);
            }
        }
    }

    fn wake(&mut self, at: usize) {
        if let Some(when) = self.plan.programs[at].program.wake()
            && self.armed[at].is_none_or(|armed| when < armed)
        {
            self.armed[at] = Some(when);
            self.due.push(Reverse((when, Event::Wakes(at))));
        }
    }

    fn send(&mut self, now: Ps, at: usize, number: u32, message: Message) {
        let (channel, end) = self.channels[at][number as usize];
        let [src, dst] = [end, 1 - end].map(|end| self.plan.programs[self.plan.channels[channel].ends[end]].host);
        self.found.add(self.plan.channels[channel].traffic, src, dst, message.bytes);
        let [takes, later] = (self.delays)(src, dst, message.bytes);
        let free = &mut self.free[channel][end];
        *free = now.max(*free) + takes;
        self.due.push(Reverse((*free + later, Event::Arrives(self.begun))));
        self.messages.insert(self.begun, (channel, 1 - end, message));
        self.begun += 1;
    }
}
