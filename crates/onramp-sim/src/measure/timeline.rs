//! The network over time, for a picture: frames at an interval that doubles as soon as there are too many of them.
//!
//! A timeline is bounded whatever the run: frames, and rows of links. It only looks, so that the run's results are the
//! same with one.

use super::{Delays, View};
use onramp_config::units::{NS, Ps, US};
use onramp_records::FlowRecord;
use onramp_topology::{PortId, Topology};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Frames at most; at this many, pairs of them become one.
const MOST_FRAMES: usize = 1000;
/// Length of the first frames, at most: a run that is to take hours has a picture soon.
const LONGEST: Ps = 10 * US;
/// Rows of links at most: in a larger network each stands for several links of a kind.
const MOST_ROWS: usize = 72;
/// Ports and paths that are named, at most.
const LISTED: usize = 12;
/// Groups of completion times: names, and the largest flow of each \[bytes\], as in `summary.json`, but of all flows.
const GROUPS: [(&str, u64); 4] = [("small", 10_000), ("medium", 1_000_000), ("large", u64::MAX), ("requests", 0)];
const REQUESTS: usize = 3;

/// Links of a kind, one or several neighbours.
#[derive(Clone, Debug, Serialize)]
struct Row {
    /// Name of the only port, or of the first and the last.
    name: String,
    /// Kind of link: names of both ends without their numbers.
    kind: String,
    links: usize,
    /// Packets queue at the port of a switch; a host keeps its flows' packets.
    switch: bool,
    #[serde(skip)]
    ports: Vec<PortId>,
}

/// Completions within a frame.
#[derive(Clone, Copy, Debug, Default)]
struct Completions {
    count: u64,
    sum_us: f64,
    max_us: f64,
}

/// Counters of the run so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Running {
    /// Flows that have arrived and are not done, and exchanges.
    pub open: u64,
    /// Flows, exchanges and operations that were done since time 0.
    pub done: u64,
    /// Packets dropped.
    pub drops: u64,
    /// Packets marked (ECN).
    pub marked: u64,
    /// Packets retransmitted.
    pub retransmitted: u64,
    /// Time that flows were held by On-Ramp, summed over flows \[ps\].
    pub held: Ps,
}

/// State at the end of a stretch of time, and counts within it.
#[derive(Clone, Debug)]
struct Frame {
    /// Width \[ps\].
    width: Ps,
    /// End, from time 0 \[ps\].
    end: i64,
    /// By row: mean share of its links' capacity that was used, and the largest of them.
    mean: Vec<f32>,
    most: Vec<f32>,
    /// By row: longest queueing delay \[ns\].
    queue: Vec<u32>,
    /// Deepest queue: port, bytes.
    deepest: (PortId, u64),
    open: u64,
    done: u64,
    drops: u64,
    marked: u64,
    retransmitted: u64,
    held: Ps,
    /// Flows and programs' connections with a gate.
    gates: u64,
    flows_held: u64,
    paths_held: u64,
    paths_open: u64,
    completions: [Completions; GROUPS.len()],
}

impl Frame {
    /// The same for the time of this one and the `next`.
    fn join(&mut self, next: &Frame) {
        let (own, all) = (self.width as f32, (self.width + next.width) as f32);
        for (mean, other) in self.mean.iter_mut().zip(&next.mean) {
            *mean = (*mean * own + other * (all - own)) / all;
        }
        self.most.iter_mut().zip(&next.most).for_each(|(most, other)| *most = most.max(*other));
        self.queue.iter_mut().zip(&next.queue).for_each(|(queue, other)| *queue = (*queue).max(*other));
        for (group, other) in self.completions.iter_mut().zip(&next.completions) {
            group.count += other.count;
            group.sum_us += other.sum_us;
            group.max_us = group.max_us.max(other.max_us);
        }
        if next.deepest.1 > self.deepest.1 {
            self.deepest = next.deepest;
        }
        self.width += next.width;
        (self.end, self.open, self.done) = (next.end, next.open, next.done);
        self.drops += next.drops;
        self.marked += next.marked;
        self.retransmitted += next.retransmitted;
        self.held += next.held;
        self.gates = self.gates.max(next.gates);
        self.flows_held = self.flows_held.max(next.flows_held);
        self.paths_held = self.paths_held.max(next.paths_held);
        self.paths_open = self.paths_open.max(next.paths_open);
    }
}

/// Queue of a port.
#[derive(Clone, Copy, Debug, Default)]
struct Depth {
    now: u64,
    peak: u64,
    peak_at: i64,
}

/// A path from host to host, over the frames so far.
#[derive(Clone, Copy, Debug, Default)]
struct Hold {
    now: u32,
    /// Time for which it had flows, and for which one of them was held \[ps\].
    open: Ps,
    held: Ps,
}

/// See the module.
#[derive(Debug)]
pub struct Timeline {
    origin: Ps,
    interval: Ps,
    began: Ps,
    at: Ps,
    next: Ps,
    rows: Vec<Row>,
    frames: Vec<Frame>,
    /// By port: time spent sending until the last frame.
    sending: Vec<Ps>,
    depths: Vec<Depth>,
    holds: HashMap<(u32, u32), Hold>,
    before: Running,
    completions: [Completions; GROUPS.len()],
    spreads: Vec<Delays>,
}

impl Timeline {
    /// A timeline of `topology` from `began` on, with time 0 at `origin` and so long a `load` \[ps\].
    pub fn new(topology: &Topology, began: Ps, origin: Ps, load: Ps) -> Self {
        let interval = (load / (MOST_FRAMES as Ps / 2)).clamp(US / 2, LONGEST);
        let ports = topology.ports().len();
        let mut made = Self {
            origin,
            interval,
            began,
            at: began,
            next: 0,
            rows: rows(topology),
            frames: Vec::new(),
            sending: vec![0; ports],
            depths: vec![Depth::default(); ports],
            holds: HashMap::new(),
            before: Running::default(),
            completions: Default::default(),
            spreads: vec![Delays::default(); GROUPS.len()],
        };
        made.plan();
        made
    }

    /// End of the next frame, in the engine's time \[ps\].
    pub fn next(&self) -> Ps {
        self.next
    }

    fn plan(&mut self) {
        let next = self.at + self.interval;
        self.next = if self.at < self.origin { next.min(self.origin) } else { next };
    }

    /// A flow of so many bytes is done.
    pub fn flow_done(&mut self, flow: &FlowRecord) {
        let group = GROUPS.iter().position(|(_, most)| flow.bytes <= *most).unwrap_or(0);
        self.completed(group, flow.fct_ps);
    }

    /// A request is done.
    pub fn request_done(&mut self, rct: Ps) {
        self.completed(REQUESTS, rct);
    }

    fn completed(&mut self, group: usize, time: Ps) {
        let us = time as f64 / US as f64;
        let all = &mut self.completions[group];
        all.count += 1;
        all.sum_us += us;
        all.max_us = all.max_us.max(us);
        self.spreads[group].record((time / NS) as i64);
    }

    /// Time 0: counters of links begin anew.
    pub fn begin(&mut self) {
        self.sending.fill(0);
    }

    /// Ends a frame at `at`; `flows` are those that are open: sending and receiving host, and true if it is held.
    pub fn frame(
        &mut self,
        at: Ps,
        topology: &Topology,
        view: &impl View,
        running: Running,
        flows: impl FnOnce(&mut dyn FnMut(u32, u32, bool)),
    ) {
        let width = at - self.at;
        if width == 0 {
            return;
        }
        let end = at as i64 - self.origin as i64;
        let Self { rows, sending, depths, holds, before, .. } = self;
        let rate = |port: PortId| topology.ports()[port as usize].rate;
        let (mut mean, mut most, mut queue) = (vec![], vec![], vec![]);
        let mut deepest = (0, 0);
        for row in rows.iter() {
            let (mut sum, mut max, mut longest) = (0.0, 0.0_f32, 0);
            for &port in &row.ports {
                let total = view.sending(port);
                let used = total.saturating_sub(std::mem::replace(&mut sending[port as usize], total));
                let share = used as f32 / width as f32;
                sum += share;
                max = max.max(share);
                let queued = if row.switch { view.queued(port) } else { 0 };
                let depth = &mut depths[port as usize];
                depth.now = queued;
                if queued > depth.peak {
                    (depth.peak, depth.peak_at) = (queued, end);
                }
                if queued > deepest.1 {
                    deepest = (port, queued);
                }
                longest = longest.max(rate(port).time_for(queued) / NS);
            }
            mean.push(sum / row.links as f32);
            most.push(max);
            queue.push(longest.min(u64::from(u32::MAX)) as u32);
        }
        let (mut gates, mut flows_held) = (0, 0);
        let mut paths: HashMap<(u32, u32), u32> = HashMap::new();
        flows(&mut |src, dst, held| {
            gates += 1;
            flows_held += u64::from(held);
            *paths.entry((src, dst)).or_default() += u32::from(held);
        });
        holds.values_mut().for_each(|hold| hold.now = 0);
        let (paths_open, mut paths_held) = (paths.len() as u64, 0);
        for (path, held) in paths {
            let hold = holds.entry(path).or_default();
            hold.now = held;
            hold.open += width;
            if held > 0 {
                hold.held += width;
                paths_held += 1;
            }
        }
        self.frames.push(Frame {
            width,
            end,
            mean,
            most,
            queue,
            deepest,
            open: running.open,
            done: running.done,
            drops: running.drops - before.drops,
            marked: running.marked - before.marked,
            retransmitted: running.retransmitted - before.retransmitted,
            held: running.held.saturating_sub(before.held),
            gates,
            flows_held,
            paths_held,
            paths_open,
            completions: std::mem::take(&mut self.completions),
        });
        self.before = running;
        self.at = at;
        if self.frames.len() == MOST_FRAMES {
            self.thin();
        }
        self.plan();
    }

    /// Joins frames in pairs; the next ones take twice as long.
    fn thin(&mut self) {
        let mut frames = std::mem::take(&mut self.frames).into_iter();
        while let Some(mut frame) = frames.next() {
            if let Some(next) = frames.next() {
                frame.join(&next);
            }
            self.frames.push(frame);
        }
        self.interval *= 2;
    }

    /// The picture so far.
    pub fn picture(&self, topology: &Topology) -> Picture {
        let us = |ps: i64| round(ps as f64 / US as f64);
        let frames = &self.frames;
        let count = |value: fn(&Frame) -> u64| frames.iter().map(value).collect();
        let percent = |shares: fn(&Frame) -> &[f32]| {
            let row = |row: usize| frames.iter().map(|frame| (shares(frame)[row] * 100.0).round() as u8).collect();
            (0..self.rows.len()).map(row).collect()
        };
        let queue = |row: usize| frames.iter().map(|frame| frame.queue[row]).collect();
        let mut names: Vec<PortId> = frames.iter().map(|frame| frame.deepest.0).collect();
        names.sort_unstable();
        names.dedup();
        let delay = |port: PortId, bytes| us(topology.ports()[port as usize].rate.time_for(bytes) as i64);
        let group = |(n, (name, _)): (usize, &(&'static str, u64))| {
            let of = |value: fn(&Completions) -> f64| frames.iter().map(|f| round(value(&f.completions[n]))).collect();
            let spread = self.spreads[n].summary();
            let group = Group {
                count: self.spreads[n].count(),
                mean_us: round(spread.mean),
                p50_us: round(spread.p50),
                p99_us: round(spread.p99),
                max_us: round(spread.max),
                counts: frames.iter().map(|frame| frame.completions[n].count).collect(),
                means_us: of(|c| c.sum_us / c.count.max(1) as f64),
                maxima_us: of(|c| c.max_us),
            };
            (*name, group)
        };
        Picture {
            begin_us: us(self.began as i64 - self.origin as i64),
            end_us: frames.iter().map(|frame| us(frame.end)).collect(),
            rows: self.rows.clone(),
            mean_percent: percent(|frame| &frame.mean),
            most_percent: percent(|frame| &frame.most),
            queue_ns: (0..self.rows.len()).map(queue).collect(),
            names: names.iter().map(|&port| topology.port_name(port)).collect(),
            deepest_port: frames.iter().map(|f| names.partition_point(|port| *port < f.deepest.0)).collect(),
            deepest_bytes: count(|frame| frame.deepest.1),
            deepest_us: frames.iter().map(|frame| delay(frame.deepest.0, frame.deepest.1)).collect(),
            open: count(|frame| frame.open),
            done: count(|frame| frame.done),
            drops: count(|frame| frame.drops),
            marked: count(|frame| frame.marked),
            retransmitted: count(|frame| frame.retransmitted),
            held_mean: frames.iter().map(|frame| round(frame.held as f64 / frame.width as f64)).collect(),
            gates: count(|frame| frame.gates),
            flows_held: count(|frame| frame.flows_held),
            paths_held: count(|frame| frame.paths_held),
            paths_open: count(|frame| frame.paths_open),
            completions: GROUPS.iter().enumerate().map(group).collect(),
            ports: self.ports(topology),
            paths: self.paths(topology),
        }
    }

    /// Ports with the deepest queues now, and those with the highest peaks.
    fn ports(&self, topology: &Topology) -> Vec<PortQueue> {
        let delay = |port: usize, bytes| round(topology.ports()[port].rate.time_for(bytes) as f64 / US as f64);
        let mut listed: Vec<usize> = Vec::new();
        for key in [|depth: &Depth| depth.now, |depth: &Depth| depth.peak] {
            let mut order: Vec<usize> = (0..self.depths.len()).filter(|port| key(&self.depths[*port]) > 0).collect();
            order.sort_by_key(|port| (std::cmp::Reverse(key(&self.depths[*port])), *port));
            order.truncate(LISTED);
            order.retain(|port| !listed.contains(port));
            listed.append(&mut order);
        }
        let port = |port: usize| {
            let Depth { now, peak, peak_at } = self.depths[port];
            PortQueue {
                name: topology.port_name(port as PortId),
                bytes: now,
                delay_us: delay(port, now),
                peak_bytes: peak,
                peak_delay_us: delay(port, peak),
                peak_at_us: round(peak_at as f64 / US as f64),
            }
        };
        listed.into_iter().map(port).collect()
    }

    /// Paths that were held for the longest time.
    fn paths(&self, topology: &Topology) -> Vec<PathHold> {
        let mut held: Vec<_> = self.holds.iter().filter(|(_, hold)| hold.held > 0).collect();
        held.sort_by_key(|(path, hold)| (std::cmp::Reverse(hold.held), **path));
        held.truncate(LISTED);
        let path = |((src, dst), hold): (&(u32, u32), &Hold)| PathHold {
            name: format!("{}->{}", topology.name(*src), topology.name(*dst)),
            flows_held: hold.now,
            held_us: round(hold.held as f64 / US as f64),
            share: round(hold.held as f64 / hold.open.max(1) as f64),
        };
        held.into_iter().map(path).collect()
    }
}

/// A number with the digits that a picture shows.
fn round(value: f64) -> f64 {
    let digits = if value.abs() < 10.0 { 1000.0 } else { 10.0 };
    (value * digits).round() / digits
}

/// Rows of a network's links: one by one while they are few, else neighbours of a kind together.
fn rows(topology: &Topology) -> Vec<Row> {
    let all = topology.ports();
    let mut kinds: BTreeMap<String, Vec<PortId>> = BTreeMap::new();
    let kind = |port: &onramp_topology::Port| format!("{}->{}", topology.group(port.from), topology.group(port.to));
    let is_few = all.iter().map(kind).collect::<std::collections::BTreeSet<_>>().len() <= MOST_ROWS / 4;
    for (id, port) in (0..).zip(all) {
        let of_host = if topology.is_host(port.from) { "host->switch" } else { "switch->any" };
        kinds.entry(if is_few { kind(port) } else { of_host.to_string() }).or_default().push(id);
    }
    let mut rows = Vec::new();
    for (kind, ports) in kinds {
        let share = if all.len() <= MOST_ROWS { ports.len() } else { MOST_ROWS * ports.len() / all.len() };
        for ports in ports.chunks(ports.len().div_ceil(share.max(1))) {
            let name = match ports {
                [only] => topology.port_name(*only),
                [first, .., last] => format!("{} … {}", topology.port_name(*first), topology.port_name(*last)),
                [] => continue,
            };
            let switch = !topology.is_host(all[ports[0] as usize].from);
            rows.push(Row { name, kind: kind.clone(), links: ports.len(), switch, ports: ports.to_vec() });
        }
    }
    rows
}

/// A timeline as columns; lists without a name for their index have one entry a frame, those of rows one list a row.
#[derive(Clone, Debug, Serialize)]
pub struct Picture {
    /// Begin of the first frame, and end of each, from time 0.
    begin_us: f64,
    end_us: Vec<f64>,
    rows: Vec<Row>,
    /// Share of the links' capacity that was used: mean of a row's links, and the largest.
    mean_percent: Vec<Vec<u8>>,
    most_percent: Vec<Vec<u8>>,
    /// Longest queueing delay of a row's ports at a frame's end.
    queue_ns: Vec<Vec<u32>>,
    /// Names of ports, for `deepest_port`.
    names: Vec<String>,
    deepest_port: Vec<usize>,
    deepest_bytes: Vec<u64>,
    deepest_us: Vec<f64>,
    open: Vec<u64>,
    done: Vec<u64>,
    drops: Vec<u64>,
    marked: Vec<u64>,
    retransmitted: Vec<u64>,
    /// Flows that On-Ramp held, as a mean over the frame.
    held_mean: Vec<f64>,
    /// Flows, and programs' connections, that have a gate.
    gates: Vec<u64>,
    flows_held: Vec<u64>,
    paths_held: Vec<u64>,
    paths_open: Vec<u64>,
    completions: BTreeMap<&'static str, Group>,
    ports: Vec<PortQueue>,
    paths: Vec<PathHold>,
}

/// Completion times of a group so far, and by frame.
#[derive(Clone, Debug, Serialize)]
struct Group {
    count: u64,
    mean_us: f64,
    p50_us: f64,
    p99_us: f64,
    max_us: f64,
    counts: Vec<u64>,
    means_us: Vec<f64>,
    maxima_us: Vec<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct PortQueue {
    name: String,
    bytes: u64,
    delay_us: f64,
    peak_bytes: u64,
    peak_delay_us: f64,
    peak_at_us: f64,
}

#[derive(Clone, Debug, Serialize)]
struct PathHold {
    name: String,
    flows_held: u32,
    held_us: f64,
    /// Share of the time in which the path had flows.
    share: f64,
}
