//! Plays the scenario's traffic: one loop over all hosts' sockets.
//!
//! A flow is a number of bytes written to an idle connection at its arrival. It is
//! complete when the receiving application has the last of them; sender and
//! receiver share one clock, so this is the time an application would see. The
//! processor takes no time, but every system call costs the host a few
//! microseconds, so there are as few as possible: a receiver is woken when a flow,
//! or a large part of it, is there, and takes it without copying.

use super::agents::{Agents, Sums};
use super::capture::Tracer;
use super::clocks::Clocks;
use super::cluster::Cluster;
use super::connections::{Connections, Key};
use super::counters::{self, Counters, us};
use super::next_owd::Delays;
use super::nvme::{Attached, Targets};
use super::programs::{On, Programs};
use super::results::Results;
use super::series::Series;
use super::{Result, at, say};
use crate::sys::{self, Epoll};
use crate::task::{STOP, Said, Status};
use onramp_config::units::{MS, NS, Ps};
use onramp_records::counters::{Counters as All, EngineCounters, Unfinished};
use onramp_records::{ExchangeRecord, FlowRecord, GoodputRecord, OperationRecord};
use onramp_sim::Scenario;
use onramp_sim::measure::Recorder;
use onramp_sim::measure::trace::Capture;
use onramp_topology::Topology;
use onramp_workload::arrivals::{Arrival, Arrivals};
use onramp_workload::collective::Gather;
use onramp_workload::{Channel, Medium, NewFlow, PORTION, Size, connections as wanted};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::os::fd::AsFd;
use std::path::Path;

/// Most bytes of a long flow that wait to be sent, so that it ends soon after its stop.
const UNSENT: u32 = 256 << 10;
/// Turns of the loop between two looks at whether the run is to stop.
const TURNS: u32 = 256;
/// Such looks between two reports of how far it is.
const LOOKS: u32 = 8;
/// Quiet time before the first arrival.
const QUIET: Ps = 10 * MS;
/// Windows after the lead in which agents are waited for that do not know their clocks yet.
const WINDOWS: u64 = 4;
/// When the kernel's timers fire depends on its jiffies at time 0, and the more so the further ahead they are. As in
/// the simulator, those are a multiple of 64 ms, which is what timers of up to four seconds see.
const ROUND: Ps = 64 * MS;
/// They are -300 s at boot, and so at this time after it such a multiple.
const JIFFIES_BEGIN: Ps = 300_000 * MS % ROUND;
/// Waits of a millisecond, at most, for what is still under way of flows that are traced.
const REST: u32 = 100;
/// A connection that takes longer than this to open never will.
const PATIENCE: Ps = 5_000 * MS;

/// A flow that has arrived.
#[derive(Debug)]
struct Flow {
    arrival: Arrival,
    id: u64,
    request: Option<u64>,
    connection: u32,
    /// Bytes it has; of a long flow all that was written so far.
    bytes: u64,
    written: u64,
    received: u64,
    /// A long flow that has not stopped.
    endless: bool,
    /// Bytes of it received before time 0.
    before: u64,
}

struct Load<'a> {
    topology: &'a Topology,
    cluster: &'a mut Cluster,
    agents: &'a Agents,
    epoll: Epoll,
    connections: Connections,
    programs: Programs,
    recorder: Recorder,
    series: Series,
    clocks: Clocks,
    /// Of single flows, if some are traced.
    tracer: Option<Tracer>,
    /// Of a sample of packets, if they are wanted.
    delays: Option<Delays>,
    /// By slot; slots of completed flows are used again.
    flows: Vec<Option<Flow>>,
    free: Vec<u32>,
    /// When long flows stop, and their slots.
    stops: BinaryHeap<Reverse<(Ps, u32)>>,
    /// Of long flows that have stopped.
    goodput: Vec<GoodputRecord>,
    started: u64,
    finished: u64,
    opened_late: u64,
    /// The kernel's clock when load begins, in nanoseconds: times count from there.
    zero_ns: u64,
    /// Time 0 of the scenario.
    warmup: Ps,
    /// When the last flow arrives at the latest.
    end: Ps,
    /// The counters at time 0, of the network and of the agents.
    before: Option<(Counters, Sums)>,
    alive_at_end: u64,
}

/// Plays the scenario and writes the results.
pub fn run(
    scenario: &Scenario,
    topology: &Topology,
    base: &Path,
    cluster: &mut Cluster,
    agents: Agents,
    traced: &[u64],
    out: &Path,
) -> Result<Said> {
    let plan = scenario.plan(topology, base).map_err(|e| e.to_string())?;
    let arrivals: Vec<Arrival> = Arrivals::new(plan.sources, scenario.traffic.len(), scenario.seed).collect();
    sys::be_exact().map_err(at("real-time class"))?;
    let epoll = Epoll::new().map_err(at("epoll"))?;
    let tracer = Tracer::new(traced, &arrivals, cluster, topology)?;
    let delays = Delays::new(scenario, cluster, topology)?;
    let hosts: Vec<u32> = plan.programs.iter().map(|placed| placed.host).collect();
    let mut load = Load {
        topology,
        programs: Programs::new(plan.programs),
        connections: Connections::new(cluster, scenario.paced_by_tcp(topology), &epoll)?,
        cluster,
        agents: &agents,
        epoll,
        recorder: Recorder::new(&scenario.measure, topology),
        series: Series::new(&scenario.measure, topology, &agents),
        clocks: Clocks::new(scenario, &agents),
        tracer,
        delays,
        flows: Vec::new(),
        free: Vec::new(),
        stops: BinaryHeap::new(),
        goodput: Vec::new(),
        started: 0,
        finished: 0,
        opened_late: 0,
        zero_ns: sys::now_ns(),
        warmup: scenario.warmup.0,
        end: scenario.warmup.0 + scenario.duration.0,
        before: None,
        alive_at_end: 0,
    };
    let lead = scenario.clock.lead.filter(|_| load.clocks.interval().is_some());
    load.open_channels(&plan.channels, &hosts)?;
    load.open(&arrivals)?;
    load.settle(lead.map_or(QUIET, |lead| lead.0.max(QUIET)))?;
    load.programs.begin(&load.epoll)?;
    let opened = load.connections.len();
    let limit = load.warmup.saturating_add(scenario.time_limit.expect("it is resolved").0);
    let complete = load.play(&arrivals, limit, out)?;
    let end = load.now();
    let now = end.saturating_sub(load.warmup);
    let (counted, of_agents) = load.count()?;
    // Stopped during the warm-up: nothing is measured.
    let before = match load.before.take() {
        Some(before) => before,
        None => load.count()?,
    };
    let (counted, of_agents) = (counted.since(&before.0), of_agents.since(&before.1));
    let captures = load.captures()?;
    let next_owd = load.delays.take().map(Delays::finish).transpose()?.unwrap_or_default();
    let (clock, clocks) = load.clocks.finish(&agents, topology)?;
    let mut operations = load.programs.take_operations();
    let after = |o: &mut OperationRecord| o.start_ps.checked_sub(load.warmup).map(|start| o.start_ps = start).is_some();
    operations.retain_mut(after);
    let mut gather = Gather::default();
    let results = Results {
        clocks,
        unfinished: load.unfinished(end)?,
        goodput: std::mem::take(&mut load.goodput),
        links: counted.links(topology, now),
        flows: load.recorder.take_flows(),
        requests: load.recorder.take_requests(),
        exchanges: measured(load.programs.take_records(), load.warmup),
        collectives: operations.iter().filter_map(|part| gather.add(part)).collect(),
        operations,
        counters: All::default(),
        samples: Vec::new(),
        next_owd,
        captures,
    };
    let (samples, series_names) = load.series.finish();
    let order = |name: &String| {
        let port = topology.port_named(name).expect("the scenario was checked");
        (name.clone(), Some(counted.order(topology, port)))
    };
    let counters = All {
        network: counted.network(topology, now),
        onramp_stats: of_agents.summary(),
        engine: EngineCounters {
            simulated_us: us(now),
            packet_hops: counted.packet_hops(),
            connections_opened_before: Some(opened as u64),
            connections_opened_late: Some(load.opened_late),
            kernel: Some(kernel_release()),
        },
        unfinished: Unfinished {
            flows: results.unfinished.len() as u64,
            requests: load.recorder.requests_open() as u64,
            exchanges: load.programs.any().then(|| load.programs.open_now()),
        },
        order: scenario.measure.order.iter().map(order).collect(),
        clock,
        series_names: Some(series_names),
        ..All::default()
    };
    Results { samples, counters, ..results }.write(out)?;
    agents.stop()?;
    Ok(Said::Done { complete, status: 0 })
}

/// Those that were asked for after the warm-up, by times since its end.
fn measured(records: Vec<ExchangeRecord>, warmup: Ps) -> Vec<ExchangeRecord> {
    let after = |e: ExchangeRecord| Some(ExchangeRecord { start_ps: e.start_ps.checked_sub(warmup)?, ..e });
    records.into_iter().filter_map(after).collect()
}

fn kernel_release() -> String {
    std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().into()
}

impl Load<'_> {
    fn count(&mut self) -> Result<(Counters, Sums)> {
        Ok((Counters::read(self.cluster, self.topology)?, self.agents.counted()?))
    }

    fn now(&self) -> Ps {
        (sys::now_ns() - self.zero_ns) * NS
    }

    /// Waits for the connection that is being opened. Openings that meet would lose packets in small buffers, and each
    /// would wait a second for that.
    fn wait_until_open(&mut self) -> Result<()> {
        let until = self.now() + PATIENCE;
        while let Some(pending) = self.connections.pending() {
            let left = until.saturating_sub(self.now());
            if left == 0 {
                return Err(self.connections.not_open(pending));
            }
            self.wait(left)?;
        }
        Ok(())
    }

    /// Opens the channels of programs, which run at these hosts.
    fn open_channels(&mut self, channels: &[Channel], hosts: &[u32]) -> Result<()> {
        let mut targets = Targets::default();
        for (number, channel) in (0..).zip(channels) {
            let [from, to] = channel.ends.map(|end| hosts[end]);
            let on = match channel.medium {
                Medium::Nvme { drive, .. } => {
                    let attached = Attached { client: from, server: to, drive, channel: number };
                    On::Disk(targets.connect(&attached, self.cluster)?, Vec::new())
                }
                Medium::Messages => {
                    let connection = self.connections.connect((from, to), Some(number), self.cluster, &self.epoll)?;
                    self.wait_until_open()?;
                    On::Socket(connection)
                }
            };
            self.programs.join(*channel, on);
        }
        Ok(())
    }

    /// Opens the connections that the arrivals will probably need, and lets the
    /// network come to rest for `quiet` or longer. Then it is time 0.
    fn open(&mut self, arrivals: &[Arrival]) -> Result<()> {
        let wanted = wanted::connections(arrivals.iter().copied(), self.topology);
        for (src, dst) in wanted.into_iter().flat_map(|(pair, count)| std::iter::repeat_n(pair, count)) {
            self.connections.open(src, dst, self.cluster, &self.epoll)?;
            self.wait_until_open()?;
        }
        Ok(())
    }

    /// Time 0 is after `quiet`, and once all agents know their clocks, if they do within a few windows.
    fn settle(&mut self, quiet: Ps) -> Result<()> {
        let least = self.now() + quiet;
        let most = least + WINDOWS * self.clocks.window();
        while self.now() < least || (self.now() < most && !self.clocks.all_known(self.agents)?) {
            let next = if self.now() < least { least } else { self.now() + self.clocks.interval().unwrap_or(QUIET) };
            self.wait(next - self.now())?;
        }
        let jiffies = (sys::now_ns() * NS).saturating_sub(JIFFIES_BEGIN).next_multiple_of(ROUND);
        let begin = (jiffies + JIFFIES_BEGIN) / NS;
        let rest = begin.saturating_sub(self.zero_ns) * NS;
        while self.now() < rest {
            self.wait(rest - self.now())?;
        }
        self.zero_ns = begin;
        Ok(())
    }

    /// Plays all arrivals and waits for the flows' ends; false if it was stopped before.
    fn play(&mut self, arrivals: &[Arrival], limit: Ps, out: &Path) -> Result<bool> {
        let mut waiting = arrivals.iter().peekable();
        let mut sample_at = self.series.interval().map(|interval| self.warmup + interval);
        let mut clocks_at = self.clocks.interval().map(|interval| self.warmup + interval);
        let mut turns = 0;
        if let Some(delays) = &mut self.delays {
            delays.begin(self.zero_ns, self.warmup);
            if self.clocks.interval().is_some() {
                delays.clocks(&self.agents.clocks()?);
            }
        }
        loop {
            let mut now = self.now();
            if self.before.is_none() && now >= self.warmup {
                self.before = Some(self.count()?);
                self.flows.iter_mut().flatten().for_each(|flow| flow.before = flow.received);
                self.series.begin(self.cluster, self.topology, &self.connections)?;
            }
            while let Some(arrival) = waiting.next_if(|a| a.at <= now) {
                self.start(*arrival)?;
                self.alive_at_end = self.alive();
                now = self.now();
            }
            self.programs.play(now, &self.connections)?;
            while let Some(Reverse((_, slot))) = self.stops.peek().filter(|Reverse((at, _))| *at <= now).copied() {
                self.stops.pop();
                self.stop(slot, now)?;
            }
            if let Some(at) = sample_at.as_mut().filter(|at| **at <= now) {
                let now = now - self.warmup;
                self.series.sample(now, self.cluster, self.topology, self.agents, &self.connections)?;
                *at += self.series.interval().expect("there are samples to take");
            }
            if let Some(at) = clocks_at.as_mut().filter(|at| **at <= now) {
                let known = self.clocks.sample(now - self.warmup, self.agents)?;
                if let Some(delays) = &mut self.delays {
                    delays.clocks(&known);
                }
                *at += self.clocks.interval().expect("there are clocks to look at");
            }
            let idle = waiting.peek().is_none() && self.alive() == 0 && self.programs.left() == 0;
            if idle || now >= limit {
                return Ok(true);
            }
            turns += 1;
            if turns % TURNS == 0 && out.join(STOP).exists() {
                return Ok(false);
            }
            if turns % (TURNS * LOOKS) == 0 {
                self.report(now)?;
            }
            let begin = self.before.is_none().then_some(self.warmup);
            let stop = self.stops.peek().map(|Reverse((at, _))| *at);
            let next = [waiting.peek().map(|a| a.at), stop, self.programs.next(), sample_at, clocks_at, begin];
            let next = next.into_iter().flatten().min().unwrap_or(limit).min(limit);
            self.wait(next.saturating_sub(now))?;
        }
    }

    /// Captured packets, once the last acknowledgements have come.
    fn captures(&mut self) -> Result<Vec<Capture>> {
        let Some(mut tracer) = self.tracer.take() else { return Ok(vec![]) };
        // With flows alive the run was cut short, and is not to go on.
        for _ in 0..if self.alive() == 0 { REST } else { 0 } {
            let looked = self.now();
            self.wait(MS)?;
            // The loop may be woken early, by other flows.
            if !tracer.look() && self.now() >= looked + MS {
                break;
            }
        }
        tracer.finish(self.zero_ns + self.warmup / NS)
    }

    fn alive(&self) -> u64 {
        self.started - self.finished
    }

    /// Says how far the run is.
    fn report(&mut self, now: Ps) -> Result<()> {
        // Flows are still alive when arrivals end; how long they take is not known.
        const ARRIVALS: f64 = 0.85;
        let share = if now < self.end {
            ARRIVALS * now as f64 / self.end as f64
        } else {
            let left = self.alive() as f64 / self.alive_at_end.max(1) as f64;
            ARRIVALS + (1.0 - ARRIVALS) * (1.0 - left).max(0.0)
        };
        let packet_hops = counters::packet_hops(self.cluster)?;
        say(&Said::Status(Status {
            share,
            simulated_us: us(now.saturating_sub(self.warmup)),
            packet_hops,
            flows_done: self.finished,
        }));
        Ok(())
    }

    /// Waits for something to happen, at most `span`, and deals with it.
    fn wait(&mut self, span: Ps) -> Result<()> {
        let mut keys = Vec::new();
        // What passes has to be looked at before there is no more room for it.
        let span = if self.delays.is_some() { span.min(MS) } else { span };
        self.epoll.wait(span.div_ceil(NS), &mut keys).map_err(at("epoll"))?;
        if let Some(tracer) = &mut self.tracer {
            tracer.look();
        }
        if let Some(delays) = &mut self.delays {
            delays.look();
        }
        if keys.is_empty() {
            return Ok(());
        }
        let now = self.now();
        for key in keys {
            match Key::decode(key) {
                Key::Listener(host) => {
                    for number in self.connections.accept(host, &self.epoll)? {
                        self.expect(number)?;
                        self.receive(number, now)?;
                    }
                }
                Key::Sender(number) => match self.connections[number].channel {
                    Some(channel) => self.programs.socket(channel, 0, now, &self.connections)?,
                    None => self.send(number)?,
                },
                Key::Receiver(number) => match self.connections[number].channel {
                    Some(channel) => self.programs.socket(channel, 1, now, &self.connections)?,
                    None => self.receive(number, now)?,
                },
                Key::Disks => self.programs.disks(now, &self.connections)?,
            }
        }
        Ok(())
    }

    fn start(&mut self, arrival: Arrival) -> Result<()> {
        let flow = &arrival.flow;
        let idle = self.connections.take(flow.src, flow.dst).map_err(at("SIOCOUTQ"))?;
        let connection = match idle {
            Some(connection) => connection,
            None => {
                self.opened_late += 1;
                self.connections.open(flow.src, flow.dst, self.cluster, &self.epoll)?;
                let opened = self.connections.take(flow.src, flow.dst).map_err(at("SIOCOUTQ"))?;
                opened.expect("one was opened")
            }
        };
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flows.push(None);
            self.flows.len() as u32 - 1
        });
        let (bytes, endless) = match flow.size {
            Size::Bytes(bytes) => (bytes, false),
            Size::Until(stop) => {
                self.stops.push(Reverse((stop, slot)));
                let sender = self.connections[connection].sender.as_fd();
                sys::limit_unsent(sender, UNSENT).map_err(at("TCP_NOTSENT_LOWAT"))?;
                let name = format!("{}->{}", self.topology.name(flow.src), self.topology.name(flow.dst));
                self.series.watch_flow(self.started, &name, connection);
                (0, true)
            }
        };
        let measured = arrival.at.checked_sub(self.warmup);
        let request = flow.request.zip(measured).map(|(part, start)| self.recorder.request(flow, part, start));
        let id = self.started;
        self.started += 1;
        if let Some(tracer) = &mut self.tracer {
            tracer.starts(id, &self.connections[connection], self.zero_ns + arrival.at / NS);
        }
        if let Some(delays) = &mut self.delays {
            delays.starts(&self.connections[connection], self.zero_ns + arrival.at / NS);
        }
        self.flows[slot as usize] =
            Some(Flow { arrival, id, request, connection, bytes, written: 0, received: 0, endless, before: 0 });
        self.connections[connection].flow = Some(slot);
        self.expect(connection)?;
        self.send(connection)
    }

    /// Has the receiver woken when what its flow still lacks, or a portion of it, is there.
    fn expect(&mut self, number: u32) -> Result<()> {
        let connection = &mut self.connections[number];
        let (Some(slot), Some(receiver)) = (connection.flow, &connection.receiver) else { return Ok(()) };
        let flow = self.flows[slot as usize].as_ref().expect("a connection's flow is alive");
        let left = if flow.endless { PORTION } else { (flow.bytes - flow.received).clamp(1, PORTION) };
        if connection.wake_at != left as u32 {
            connection.wake_at = left as u32;
            sys::wake_at(receiver.as_fd(), left as u32).map_err(at("SO_RCVLOWAT"))?;
        }
        Ok(())
    }

    /// Writes as much of the flow as the socket takes.
    fn send(&mut self, number: u32) -> Result<()> {
        let connection = &mut self.connections[number];
        let Some(slot) = connection.flow else { return Ok(()) };
        let flow = self.flows[slot as usize].as_mut().expect("a connection's flow is alive");
        loop {
            let left = if flow.endless { u64::MAX } else { flow.bytes - flow.written };
            if left == 0 {
                return Ok(());
            }
            let sent = sys::send_zeros(connection.sender.as_fd(), left).map_err(at("send"))?;
            flow.written += sent;
            connection.written += sent;
            if flow.endless {
                flow.bytes = flow.written;
            }
            if sent == 0 {
                return Ok(());
            }
        }
    }

    /// Takes what has come of the flow; it may be the last of it.
    fn receive(&mut self, number: u32, now: Ps) -> Result<()> {
        let connection = &self.connections[number];
        let (Some(slot), Some(receiver)) = (connection.flow, &connection.receiver) else { return Ok(()) };
        let flow = self.flows[slot as usize].as_mut().expect("a connection's flow is alive");
        let most = if flow.endless { PORTION * 64 } else { flow.bytes - flow.received };
        let place = || format!("connection from host {} to {}", connection.src, connection.dst);
        let got = sys::discard(receiver.as_fd(), most).map_err(at(place()))?;
        flow.received += got.ok_or_else(|| format!("{}: was closed", place()))?;
        if flow.received == flow.bytes && !flow.endless { self.finish(slot, now) } else { self.expect(number) }
    }

    /// A long flow writes nothing more.
    fn stop(&mut self, slot: u32, now: Ps) -> Result<()> {
        let flow = self.flows[slot as usize].as_mut().expect("a long flow lives until it stops");
        flow.endless = false;
        let connection = flow.connection;
        self.goodput.extend(goodput(flow, self.warmup, now));
        self.expect(connection)?;
        self.receive(connection, now)
    }

    fn finish(&mut self, slot: u32, now: Ps) -> Result<()> {
        let flow = self.flows[slot as usize].take().expect("only a flow that is alive ends");
        self.free.push(slot);
        self.finished += 1;
        if let Some(record) = self.record(&flow, now)? {
            self.recorder.flow_done(record);
        }
        self.connections[flow.connection].flow = None;
        if matches!(flow.arrival.flow.size, Size::Until(_)) {
            // Its socket keeps the limit on what may wait, so no other flow gets it.
            self.series.forget(flow.connection);
        } else {
            self.connections.give_back(flow.connection);
        }
        Ok(())
    }

    /// Record of a flow as known now; nothing, if it started before time 0.
    fn record(&mut self, flow: &Flow, now: Ps) -> Result<Option<FlowRecord>> {
        let connection = &mut self.connections[flow.connection];
        let info = sys::tcp_info(connection.sender.as_fd()).map_err(at("TCP_INFO"))?;
        let retransmitted = info.retransmitted - std::mem::replace(&mut connection.retransmitted, info.retransmitted);
        let timeouts = info.timeouts - std::mem::replace(&mut connection.timeouts, info.timeouts);
        let new = &flow.arrival.flow;
        let Some(start_ps) = flow.arrival.at.checked_sub(self.warmup) else { return Ok(None) };
        let fct_ps = now - flow.arrival.at;
        Ok(Some(FlowRecord {
            id: flow.id,
            traffic: new.traffic,
            request: flow.request,
            src: new.src,
            dst: new.dst,
            bytes: flow.bytes,
            start_ps,
            fct_ps,
            receiver_fct_ps: fct_ps,
            ideal_ps: wanted::ideal(self.topology, new.src, new.dst, flow.bytes),
            retransmitted,
            timeouts: timeouts.into(),
            paused_ps: 0,
        }))
    }

    fn unfinished(&mut self, now: Ps) -> Result<Vec<FlowRecord>> {
        let mut alive: Vec<Flow> = std::mem::take(&mut self.flows).into_iter().flatten().collect();
        alive.sort_by_key(|flow| flow.id);
        let warmup = self.warmup;
        self.goodput.extend(alive.iter().filter(|flow| flow.endless).filter_map(|flow| goodput(flow, warmup, now)));
        alive.iter().filter_map(|flow| self.record(flow, now).transpose()).collect()
    }
}

/// Payload that a long flow has moved by `now` since time 0, which is at `warmup`, or since its start.
fn goodput(flow: &Flow, warmup: Ps, now: Ps) -> Option<GoodputRecord> {
    let NewFlow { traffic, src, dst, .. } = flow.arrival.flow;
    let start = flow.arrival.at.max(warmup);
    let duration_ps = now.checked_sub(start).filter(|time| *time > 0)?;
    let bytes = flow.received - flow.before;
    Some(GoodputRecord { id: flow.id, traffic, src, dst, start_ps: start - warmup, duration_ps, bytes })
}
