//! The simulation: cells, what they hand over, and what is written down.

use crate::arrivals::{Arrival, Arrivals};
use crate::cc::custom::Controllers;
use crate::cell::{Cell, Parts};
use crate::clock::accuracy::ClockRecord;
use crate::clock::{self, Clocks};
use crate::config::units::{Ps, US};
use crate::engine::{Events, turns};
use crate::host::config::ShaperKind;
use crate::host::shaper::Held;
use crate::host::tcp::{Joint, Pair, Streams};
use crate::host::{self, Hosts, Note, Opening};
use crate::measure::trace::{self, Capture, Wire};
use crate::measure::{
    Delays, FlowRecord, LongFlow, Meter, NextOwd, NextRecord, Recorder, RequestRecord, Sample, Shaped, View,
};
use crate::network::packet::{Options as TcpOptions, TCP};
use crate::network::router::int::{Int, Units};
use crate::network::router::plain::{Plain, Waits};
use crate::network::router::rcp::Rcp;
use crate::network::router::xcp::Xcp;
use crate::network::router::{self, Router};
use crate::network::{self, Network, Part};
use crate::scenario::{Policies, Resolved, Scenario, Section, Sync};
use crate::topology::{Cells, PortId, Topology};
use crate::workload::exchange::{ExchangeRecord, Session};
use crate::workload::{LoadSpan, Size, connections};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::{Deref, DerefMut, Range};
use std::path::Path;
use std::sync::Arc;

/// Whether all flows are done is looked at this often, whatever the cells, so that
/// the run ends at the same time.
const CHECK: Ps = 10 * US;

/// Cells of a kind take turns with the others only where each thread has this many.
const CELLS_PER_THREAD: usize = 4;

/// Where the packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketCounts {
    /// Put on a link by a host, and PFC frames.
    pub sent: u64,
    /// Arrived at their host, and PFC frames that took effect.
    pub delivered: u64,
    /// Dropped by a switch, or by a host whose ring was full.
    pub dropped: u64,
    /// On a link, in a switch or in a host's ring.
    pub in_flight: u64,
}

/// One run of one scenario.
pub struct Simulation(Box<dyn Run>);

/// What a program may add to a simulation.
#[derive(Default)]
pub struct Options {
    /// Controllers of its own, for transports of kind "custom".
    pub controllers: Controllers,
    /// The network is one cell, whatever it could be cut into: slower, the same results.
    pub one_cell: bool,
    /// Numbers of flows whose packets are captured; only TCP's are.
    pub traced: Vec<u64>,
}

impl Simulation {
    /// Builds the simulation of a resolved scenario; files it names are relative
    /// to `base`.
    ///
    /// # Errors
    /// A file that could be read when the scenario was checked and now cannot; a
    /// transport that the simulator has not.
    pub fn new(scenario: &Scenario, topology: Topology, base: &Path) -> Result<Self, String> {
        Self::with(scenario, topology, base, &Options::default())
    }

    /// The same with a program's own controllers.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn with(scenario: &Scenario, topology: Topology, base: &Path, options: &Options) -> Result<Self, String> {
        let resolved = Resolved::new(scenario, &topology, &options.controllers)?;
        let units = Units::new(topology.host_rate().0 as f64);
        let env = *resolved.transports[0].env(0);
        let sources = scenario.sources(&topology, base)?;
        let arrivals = Arrivals::new(sources, resolved.sections.len(), resolved.span.seed);
        Ok(match resolved.router {
            router::Kind::Plain => {
                Self(Box::new(Engine::new(&Plain::<()>::default(), &resolved, topology, arrivals, options.one_cell)))
            }
            router::Kind::Waits => {
                Self(Box::new(Engine::new(&Plain::<Waits>::default(), &resolved, topology, arrivals, options.one_cell)))
            }
            router::Kind::Tcp => {
                let all = connections::all(scenario.sources(&topology, base)?);
                let wanted = connections::connections(&all, &topology);
                let sessions = scenario.sessions(&topology, base)?;
                let router = Plain::<TcpOptions>::default();
                let mut engine = Engine::new(&router, &resolved, topology, arrivals, options.one_cell);
                engine.desk.connections = wanted;
                engine.desk.open_sessions(&mut engine.cells, &sessions);
                engine.trace(&options.traced);
                Self(Box::new(engine))
            }
            router::Kind::Int => {
                Self(Box::new(Engine::new(&Int { units }, &resolved, topology, arrivals, options.one_cell)))
            }
            router::Kind::Rcp(params) => {
                let router = Rcp::new(params, env.base_rtt, env.payload);
                Self(Box::new(Engine::new(&router, &resolved, topology, arrivals, options.one_cell)))
            }
            router::Kind::Xcp(params) => {
                let router = Xcp::new(params, env.base_rtt);
                Self(Box::new(Engine::new(&router, &resolved, topology, arrivals, options.one_cell)))
            }
        })
    }

    /// Runs to the end.
    pub fn run_to_end(&mut self) {
        while !self.run(Ps::MAX, u64::MAX) {}
    }
}

impl Deref for Simulation {
    type Target = dyn Run;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl DerefMut for Simulation {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut *self.0
    }
}

/// What a simulation can do and tell. Times are in picoseconds from time 0.
pub trait Run: Send + core::marker::Sync {
    /// Cells run on this many threads from now on; the results do not depend on it.
    fn set_threads(&mut self, threads: usize);
    /// Runs until simulated time `until`, or for about `max_events` events. True when
    /// nothing is left to happen.
    fn run(&mut self, until: Ps, max_events: u64) -> bool;
    /// Simulated time; 0 until load is measured.
    fn now(&self) -> Ps;
    /// An estimate from 0 to 1 of how much of the run is done.
    fn progress(&self) -> f64;
    /// Packets that have crossed a link, counted once for every link.
    fn packet_hops(&self) -> u64;
    /// Flows that have arrived since time 0.
    fn flows_started(&self) -> u64;
    /// Those of them that are done.
    fn flows_finished(&self) -> u64;
    /// Packets put on or taken off the network so far.
    fn packet_counts(&self) -> PacketCounts;
    /// The fullest any switch buffer is now, as (bytes used, bytes there are).
    fn fullest_buffer(&self) -> (u64, u64);
    /// Flows done since the last call.
    fn take_flows(&mut self) -> Vec<FlowRecord>;
    /// Requests done since the last call.
    fn take_requests(&mut self) -> Vec<RequestRecord>;
    /// Exchanges over since the last call.
    fn take_exchanges(&mut self) -> Vec<ExchangeRecord>;
    /// Samples of the time series since the last call.
    fn take_samples(&mut self) -> Vec<Sample>;
    /// Samples of the clocks' errors since the last call.
    fn take_clock_records(&mut self) -> Vec<ClockRecord>;
    /// The sampled packets that have arrived, beside those acknowledged before
    /// they left.
    fn next_records(&self) -> Vec<NextRecord>;
    /// The packets so far of the flows that are traced and have begun.
    fn captures(&self) -> Vec<Capture>;
    /// Names of the time series.
    fn series_names(&self) -> &[String];
    /// Flows alive now; their `fct_ps` is their age.
    fn unfinished_flows(&self) -> Vec<FlowRecord>;
    /// The parts of `summary.json` that do not come from flows: "network",
    /// "onramp_stats", "unfinished", the simulator's part of "engine", "clock" if clocks
    /// are synchronised over the network, "rtt_us" by section and "order" by port if these are wanted.
    fn counters(&self) -> Value;
    /// Cells that the network is cut into.
    fn cells(&self) -> usize;
}

type CellBox<R> = Box<Cell<R>>;

/// Cells and what is common to them.
struct Engine<R: Router> {
    cells: Vec<CellBox<R>>,
    desk: Desk,
    threads: usize,
}

/// All that belongs to no cell.
struct Desk {
    topology: Arc<Topology>,
    map: Arc<Cells>,
    arrivals: Arrivals,
    sections: Vec<Section>,
    policies: Vec<Policies>,
    recorder: Recorder,
    span: LoadSpan,
    /// Load begins at this time of the engine.
    load_at: Ps,
    /// Time 0 of the scenario is at this time of the engine.
    origin: Ps,
    /// The run ends at this time of the engine.
    limit: Ps,
    /// Everything before this time of the engine has happened in the cells with hosts,
    at: Ps,
    /// and this is how far the others are.
    others_at: Ps,
    /// Nobody goes on past this time before all are there.
    stop: Ps,
    /// The two kinds of cells take turns.
    alternate: bool,
    /// What is shown as the time.
    now: Ps,
    next_sample: Ps,
    /// Flows that have arrived and are not done.
    alive: u64,
    /// Clients of sessions, of whom some are over.
    clients: usize,
    /// Flows since time 0.
    started: u64,
    finished: u64,
    /// Bytes of all flows so far, and whether some have no end.
    bytes: f64,
    endless: bool,
    before: Totals,
    over: bool,
    opening: Vec<Arrival>,
    /// TCP connections that a pair of hosts opens before the load.
    connections: BTreeMap<(u32, u32), usize>,
    /// Which transports are TCP.
    is_tcp: Vec<bool>,
    /// Flows whose packets are captured.
    traced: Vec<u64>,
    /// Ports whose packets' order is recorded.
    ordered: Vec<String>,
    shaper: ShaperKind,
}

/// Counters of all cells.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    network: network::Counts,
    hosts: host::Counts,
    or_acks: u64,
    pauses: u64,
    paused: Ps,
}

fn totals<R: Router>(cells: &[CellBox<R>], now: Ps) -> Totals {
    let mut all = Totals::default();
    for cell in cells {
        all.network += cell.network.counts;
        all.hosts += cell.hosts.all_counts();
        for gates in cell.hosts.gates() {
            all.or_acks += gates.or_acks;
            all.pauses += gates.pauses;
            all.paused += gates.paused;
        }
        all.paused += cell.hosts.paused_alive(now);
    }
    all
}

/// What samples look at.
struct Look<'a, R: Router> {
    cells: &'a [CellBox<R>],
    map: &'a Cells,
    topology: &'a Topology,
    at: Ps,
}

impl<R: Router> Look<'_, R> {
    fn port(&self, port: PortId) -> (&Network<R>, u32) {
        let (cell, place) = self.map.place_in(self.topology, port);
        (&self.cells[cell].network, place)
    }

    /// Of a long flow on TCP.
    fn tcp_progress(&self, flow: &LongFlow) -> Option<(u64, u32)> {
        let (host, slot) = flow.sender;
        if slot & TCP == 0 { None } else { self.cells[self.map.of(host)].hosts.tcp_progress(slot, flow.id) }
    }
}

impl<R: Router> View for Look<'_, R> {
    fn queued(&self, port: PortId) -> u64 {
        let (network, place) = self.port(port);
        network.queued(place)
    }

    fn flow_rate(&self, port: PortId) -> Option<f64> {
        let (network, place) = self.port(port);
        network.flow_rate(place, self.at)
    }

    fn sending(&self, port: PortId) -> Ps {
        let (network, place) = self.port(port);
        network.sending(place, self.at)
    }

    fn received(&self, flow: &LongFlow) -> Option<u64> {
        use crate::stack::Rx;
        let (host, slot) = flow.sender;
        if slot & TCP != 0 {
            return self.tcp_progress(flow).map(|(acknowledged, _)| acknowledged);
        }
        let sender = self.cells[self.map.of(host)].hosts.sender(slot);
        let (host, slot) = flow.receiver;
        let receiver = self.cells[self.map.of(host)].hosts.receiver(slot);
        (sender.id == flow.id && !sender.done).then(|| receiver.rx.received())
    }

    fn cwnd(&self, flow: &LongFlow) -> Option<u32> {
        self.tcp_progress(flow).map(|(_, cwnd)| cwnd)
    }
}

impl<R: Router> Engine<R> {
    fn new(router: &R, resolved: &Resolved, topology: Topology, arrivals: Arrivals, one_cell: bool) -> Self {
        let topology = Arc::new(topology);
        let span = resolved.span;
        // Clocks that hosts keep for each other, and a sample of all packets, know no cells.
        let together =
            one_cell || matches!(resolved.clock.sync, Sync::Huygens | Sync::Ntp) || resolved.measure.next_owd > 0;
        let map = Arc::new(if together { Cells::one(&topology) } else { Cells::several(&topology) });
        let transports = Arc::new(resolved.transports.clone());
        let clocks = Clocks::new(&resolved.clock, span.seed, topology.hosts());
        let constant = match &clocks {
            Clocks::Constant(offsets) => Some(Arc::clone(offsets)),
            Clocks::Running(_) => None,
        };
        let mut running = Some(clocks);
        let load_at = resolved.lead;
        let origin = load_at + span.warmup;
        let measured = clock::Span { origin, duration: span.duration };
        let size = resolved.measure.next_owd;
        let full = transports.sizes().iter().copied().max().unwrap_or(1500);
        let tcp_alone = resolved.tcp.as_ref().and_then(host::tcp::Rules::sizes);
        let by_link = tcp_alone.is_some();
        let sizes = tcp_alone.unwrap_or_else(|| transports.sizes());
        let mut lanes = network::port::lanes(&topology, &sizes, by_link);
        let network = |number| {
            let part = Part { topology: &topology, cells: &map, number };
            Network::new(router.clone(), &resolved.rules, part, span.seed, full, (&sizes, &mut lanes))
        };
        let networks: Vec<Network<R>> = (0..map.parts.len()).map(network).collect();
        let mut cells = Vec::with_capacity(map.parts.len());
        for (number, network) in networks.into_iter().enumerate() {
            let events = Events::new(&lanes);
            let classes = network.schedule().classes();
            let rules = host::Rules {
                transports: &transports,
                gate: resolved.gate.as_ref(),
                shaper: &resolved.shaper,
                pacing: resolved.pacing,
                processing: &resolved.processing,
                tcp: resolved.tcp.as_ref(),
                classes,
                seed: span.seed,
            };
            let hosts = Hosts::new(&topology, &map, number, &rules);
            let own = constant.as_ref().map(|offsets| Clocks::Constant(Arc::clone(offsets)));
            let clocks = own.or_else(|| running.take()).unwrap_or_else(|| Clocks::Constant(Arc::new([])));
            let next = (size > 0).then(|| NextOwd::new(size, span.seed, origin));
            let wanted = if resolved.measure.rtt { resolved.sections.len() } else { 0 };
            let shaped = resolved.measure.shaping.then(|| {
                let rules = &resolved.shaper;
                let tenants = rules.names.iter().cloned().zip(rules.tenants.iter().copied()).collect();
                Shaped::new(origin, span.duration, rules.egress, tenants)
            });
            let meter = Meter::new(origin, next, shaped, wanted);
            let parts = Parts { events, network, hosts, clocks, meter };
            cells.push(Box::new(Cell::new(parts, Arc::clone(&map), Arc::clone(&topology), span.seed, measured)));
        }
        for name in &resolved.measure.order {
            let port = topology.port_named(name).expect("the scenario was checked");
            let (cell, place) = map.place_in(&topology, port);
            cells[cell].network.watch_order(place);
        }
        let recorder = Recorder::new(&resolved.measure, &topology);
        let desk = Desk {
            map,
            arrivals,
            sections: resolved.sections.clone(),
            policies: resolved.policies.clone(),
            recorder,
            span,
            load_at,
            origin,
            limit: resolved.time_limit.saturating_add(origin),
            at: 0,
            others_at: 0,
            stop: 0,
            alternate: false,
            now: 0,
            next_sample: Ps::MAX,
            alive: 0,
            clients: 0,
            started: 0,
            finished: 0,
            bytes: 0.0,
            endless: false,
            before: Totals::default(),
            over: false,
            opening: Vec::new(),
            connections: BTreeMap::new(),
            ordered: resolved.measure.order.clone(),
            is_tcp: resolved
                .tcp
                .as_ref()
                .map_or(vec![false; 256], |tcp| tcp.kinds.iter().map(Option::is_some).collect()),
            traced: Vec::new(),
            shaper: resolved.shaper.kind,
            topology,
        };
        Self { cells, desk, threads: 1 }
    }

    /// Captures these flows.
    fn trace(&mut self, flows: &[u64]) {
        if !flows.is_empty() {
            self.cells.iter_mut().for_each(|cell| cell.hosts.trace(trace::most_packets(flows.len())));
            self.desk.traced = flows.to_vec();
        }
    }

    fn look(&self) -> Look<'_, R> {
        Look { cells: &self.cells, map: &self.desk.map, topology: &self.desk.topology, at: self.desk.now }
    }

    /// Share of its capacity each link has carried so far: one by one in a small
    /// network, else mean and maximum by kind of link.
    fn utilization(&self) -> Value {
        const FEW: usize = 64;
        let topology = &self.desk.topology;
        let look = self.look();
        let share = |port| look.sending(port) as f64 / self.now().max(1) as f64;
        let mut all = serde_json::Map::new();
        let ports = 0..topology.ports().len() as PortId;
        if ports.len() <= FEW {
            for port in ports {
                all.insert(topology.port_name(port), json!(share(port)));
            }
            return all.into();
        }
        let mut tiers: BTreeMap<String, Vec<f64>> = Default::default();
        for (id, port) in ports.zip(topology.ports()) {
            tiers
                .entry(format!("{}->{}", topology.group(port.from), topology.group(port.to)))
                .or_default()
                .push(share(id));
        }
        for (name, shares) in tiers {
            all.insert(format!("{name} mean"), json!(shares.iter().sum::<f64>() / shares.len() as f64));
            all.insert(format!("{name} max"), json!(shares.iter().fold(0.0, |a: f64, b| a.max(*b))));
        }
        all.into()
    }
}

impl Desk {
    /// Between two windows: hands over what crossed, writes down what is done, and
    /// opens what starts in the next one. Who is next and until when, or `None` when
    /// there is nothing to do before `until`.
    ///
    /// All cells may take a window at once. Or those with hosts and those without take
    /// turns: as each waits for the other kind alone, who is ahead has given the others
    /// a window of twice the delay between them, and a cell's data are fetched into the
    /// cache half as often.
    fn plan<R: Router>(&mut self, cells: &mut [CellBox<R>], until: Ps, enough: bool) -> Option<(Range<usize>, Ps)> {
        let waiting = hand_over(cells);
        let with_hosts = self.map.with_hosts.filter(|_| self.alternate);
        if let Some(first) = with_hosts.filter(|_| self.others_at < self.at) {
            self.others_at = self.at.saturating_add(self.map.window).min(self.stop);
            return Some((first..cells.len(), self.others_at));
        }
        self.deliver_notes(cells);
        self.write_down(cells);
        if self.at == self.stop && !self.meet(cells, until, enough, waiting) {
            return None;
        }
        let earliest = self.earliest(cells, waiting);
        self.at = self.others_at.max(earliest).saturating_add(self.map.window).min(self.stop);
        self.open(cells, self.at);
        let next = with_hosts.unwrap_or(cells.len());
        if with_hosts.is_none() {
            self.others_at = self.at;
        }
        Some((0..next, self.at))
    }

    /// All cells have come to the same time: looks at them if that is due, and tells
    /// when they will do so again. False: there is nothing to do before `until`.
    fn meet<R: Router>(&mut self, cells: &mut [CellBox<R>], until: Ps, enough: bool, waiting: bool) -> bool {
        if self.at == self.origin && self.at > 0 {
            self.begin(cells);
        }
        if self.at == self.next_sample {
            self.sample(cells);
        }
        let asking = self.clients > cells.iter().map(|cell| cell.hosts.clients_over()).sum();
        let idle = self.alive == 0 && !asking && self.arrivals.next_at().is_none();
        let checked = self.at >= self.origin && (self.at - self.origin).is_multiple_of(CHECK);
        if checked && idle || self.at > self.limit {
            self.over = true;
        }
        self.now = self.at.min(until).min(self.limit);
        if self.over || self.at > until || enough {
            return false;
        }
        // Where nothing happens for a while, it is skipped.
        let earliest = self.earliest(cells, waiting || idle);
        let after = |step: Ps| {
            let phase = self.origin % step;
            let steps = earliest.saturating_sub(phase) / step + u64::from(earliest >= phase);
            steps.saturating_mul(step).saturating_add(phase)
        };
        // The first flow sets the first sample.
        let sample = self.next_sample.min(after(self.recorder.interval()));
        let stop = after(CHECK).min(sample);
        let stop = stop.min(self.limit.saturating_add(1)).min(until.saturating_add(1));
        self.stop = if self.at < self.origin { stop.min(self.origin) } else { stop };
        true
    }

    /// When something happens next, as far as is known: `soon` if it may be at once.
    fn earliest<R: Router>(&self, cells: &[CellBox<R>], soon: bool) -> Ps {
        if soon {
            return self.at;
        }
        let events = cells.iter().map(|cell| cell.events.next_at()).min().unwrap_or(Ps::MAX);
        let arrival = self.arrivals.next_at().map_or(Ps::MAX, |at| at + self.load_at);
        events.min(arrival).max(self.at)
    }

    fn deliver_notes<R: Router>(&self, cells: &mut [CellBox<R>]) {
        let mut notes: Vec<(u32, Note)> = Vec::new();
        loop {
            for cell in cells.iter_mut() {
                notes.append(&mut cell.hosts.notes);
            }
            if notes.is_empty() {
                return;
            }
            for (host, note) in notes.drain(..) {
                cells[self.map.of(host)].hosts.note(note);
            }
        }
    }

    fn write_down<R: Router>(&mut self, cells: &mut [CellBox<R>]) {
        let mut done: Vec<(Ps, FlowRecord)> = Vec::new();
        let mut exchanged: Vec<(Ps, ExchangeRecord)> = Vec::new();
        for cell in cells {
            done.append(&mut cell.hosts.done);
            self.recorder.add_samples(&mut cell.meter.samples);
            cell.hosts.take_exchanges(&mut exchanged);
        }
        exchanged.sort_unstable_by_key(|(at, done)| (*at, done.traffic, done.session, done.number));
        for (_, done) in exchanged {
            if let Some(start_ps) = done.start_ps.checked_sub(self.origin) {
                self.started += 1;
                self.finished += 1;
                self.recorder.exchange_done(ExchangeRecord { start_ps, ..done });
            }
        }
        done.sort_unstable_by_key(|(found, flow)| (*found, flow.id));
        for (_, flow) in done {
            self.alive -= 1;
            if let Some(start_ps) = flow.start_ps.checked_sub(self.origin) {
                self.finished += 1;
                self.recorder.flow_done(FlowRecord { start_ps, ..flow });
            }
        }
    }

    /// Time 0: what has been seen so far does not count.
    fn begin<R: Router>(&mut self, cells: &mut [CellBox<R>]) {
        for cell in cells.iter_mut() {
            cell.network.begin(self.at);
            cell.meter.begin();
        }
        self.before = totals(cells, self.at);
        self.recorder.begin(&Look { cells, map: &self.map, topology: &self.topology, at: self.at });
        if self.alive > 0 || self.clients > 0 {
            self.next_sample = self.at + self.recorder.interval();
        }
    }

    fn sample<R: Router>(&mut self, cells: &mut [CellBox<R>]) {
        cells.iter_mut().for_each(|cell| cell.sample_queues());
        let look = Look { cells, map: &self.map, topology: &self.topology, at: self.at };
        self.recorder.sample(self.at - self.origin, &look);
        self.next_sample += self.recorder.interval();
    }

    /// Opens the flows that start before `end`.
    fn open<R: Router>(&mut self, cells: &mut [CellBox<R>], end: Ps) {
        let mut opening = std::mem::take(&mut self.opening);
        self.arrivals.take(end.saturating_sub(self.load_at), &mut opening);
        for arrival in opening.drain(..) {
            self.open_one(cells, &arrival);
        }
        self.opening = opening;
    }

    fn open_one<R: Router>(&mut self, cells: &mut [CellBox<R>], arrival: &Arrival) {
        let Arrival { at, mut flow, id, number, hashes } = *arrival;
        let start = self.load_at + at;
        match &mut flow.size {
            Size::Bytes(bytes) => self.bytes += *bytes as f64,
            Size::Until(stop) => {
                *stop += self.load_at;
                self.endless = true;
            }
        }
        let measured = start >= self.origin;
        self.alive += 1;
        self.started += u64::from(measured);
        if self.next_sample == Ps::MAX && measured {
            let interval = self.recorder.interval();
            self.next_sample = self.origin + ((start - self.origin) / interval + 1) * interval;
        }
        let part = flow.request.filter(|_| measured);
        let request = part.map(|part| self.recorder.request(&flow, part, start - self.origin));
        let Section { transport, class } = self.sections[flow.traffic as usize];
        let terms = self.policies[flow.traffic as usize].terms(number);
        let new = Opening { flow, id, start, hashes, class, transport, request, terms };
        let watch = self.recorder.watched_owd(flow.src, flow.dst);
        let nic = |host, to, hash| self.map.nic_towards(&self.topology, host, to, hash);
        let (from, to) = (self.map.of(flow.src), self.map.of(flow.dst));
        if self.is_tcp[usize::from(transport)] {
            return self.open_on_tcp(cells, &new, watch);
        }
        let receiver = cells[to].hosts.open_receiver(&new, nic(flow.dst, flow.src, hashes[1]), watch);
        let sender = cells[from].hosts.open_sender(&new, nic(flow.src, flow.dst, hashes[0]), receiver);
        cells[to].hosts.introduce(receiver, sender);
        cells[from].events.timer(start, host::Timer::Start(id, sender));
        if let Size::Until(_) = flow.size {
            let long = LongFlow { id, sender: (flow.src, sender), receiver: (flow.dst, receiver) };
            self.recorder.watch_flow(long, &self.topology);
        }
    }
}

impl Desk {
    /// A flow that starts on one of its pair's connections, which are opened with the pair's first flow.
    fn open_on_tcp<R: Router>(&mut self, cells: &mut [CellBox<R>], new: &Opening, watch: Option<u32>) {
        let (src, dst) = (new.flow.src, new.flow.dst);
        let (from, to) = (self.map.of(src), self.map.of(dst));
        let nic = |host, other, hash| self.map.nic_towards(&self.topology, host, other, hash);
        let (out, back) = (nic(src, dst, new.hashes[0]), nic(dst, src, new.hashes[1]));
        let pair = Pair { src, dst, transport: new.transport, class: new.class };
        if !cells[from].hosts.tcp().knows(pair) {
            for number in 0..self.connections.get(&(src, dst)).copied().unwrap_or(1) as u64 {
                let end = cells[to].hosts.tcp().open_end(pair, number, back, watch);
                let connection = cells[from].hosts.tcp().open_connection(pair, number, out, end, 0);
                cells[to].hosts.tcp().introduce(end, connection);
            }
        }
        let slot = cells[from].hosts.tcp().open_flow(new, out);
        cells[from].events.timer(new.start, host::Timer::Start(new.id, slot));
        if self.traced.contains(&new.id) {
            for cell in BTreeSet::from([from, to]) {
                cells[cell].hosts.trace_pair(src, dst, new.start);
            }
        }
        if let Size::Until(_) = new.flow.size {
            let long = LongFlow { id: new.id, sender: (src, slot), receiver: (dst, slot) };
            self.recorder.watch_flow(long, &self.topology);
        }
    }
}

impl Desk {
    /// Opens the connections of clients and servers.
    fn open_sessions<R: Router>(&mut self, cells: &mut [CellBox<R>], sessions: &[Session]) {
        let mut numbers: HashMap<(u32, u32), u64> = HashMap::new();
        for session in sessions {
            let Session { client, server, .. } = *session;
            let Section { transport, class } = self.sections[session.traffic as usize];
            let pair = Pair { src: client, dst: server, transport, class };
            // Both ways count for both directions of the pair.
            let number = numbers.entry((client.min(server), client.max(server))).or_default();
            let joint = Joint {
                pair,
                number: *number,
                nics: [(client, server), (server, client)].map(|(a, b)| self.map.nic_towards(&self.topology, a, b, 0)),
            };
            *number += 1;
            let (from, to) = (self.map.of(client), self.map.of(server));
            let [asked, answered] = [(client, server), (server, client)].map(|(a, b)| self.recorder.watched_owd(a, b));
            let servers_end = cells[to].hosts.tcp().open_party_end(joint, session, false, asked);
            let clients_end = cells[from].hosts.tcp().open_party_end(joint, session, true, answered);
            let streams = Streams::default();
            let ends = (clients_end, servers_end);
            let (asks, party) = cells[from].hosts.tcp().open_party(joint, session, &streams, ends, Some(self.load_at));
            let ends = (servers_end, clients_end);
            let (answers, _) = cells[to].hosts.tcp().open_party(joint, session, &streams, ends, None);
            cells[to].hosts.tcp().introduce(servers_end, asks);
            cells[from].hosts.tcp().introduce(clients_end, answers);
            if let Some((at, timer)) = cells[from].hosts.tcp().first_due(party) {
                cells[from].events.timer(at, timer);
            }
        }
        self.clients = sessions.len();
        if self.origin == 0 && self.clients > 0 {
            self.next_sample = self.recorder.interval();
        }
        self.endless |= !sessions.is_empty();
    }
}

/// Passes packets on to their cells; true if there are any.
fn hand_over<R: Router>(cells: &mut [CellBox<R>]) -> bool {
    let mut any = false;
    for from in 0..cells.len() {
        if cells[from].network.outbox.is_empty() {
            continue;
        }
        any = true;
        let mut outbox = std::mem::take(&mut cells[from].network.outbox);
        outbox.drain(|to, post| cells[usize::from(to)].incoming.of(from as u16).append(post));
        cells[from].network.outbox = outbox;
    }
    any
}

impl<R: Router> Run for Engine<R> {
    fn set_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
    }

    fn run(&mut self, until: Ps, max_events: u64) -> bool {
        let Self { cells, desk, threads } = self;
        let until = until.saturating_add(desk.origin).min(desk.limit);
        let done = |cells: &[CellBox<R>]| cells.iter().map(|cell| cell.done).sum::<u64>();
        let most = done(cells).saturating_add(max_events);
        if !desk.over {
            // With few cells in a turn, some threads would have none.
            desk.alternate = desk.map.with_hosts.is_some_and(|cells| cells >= CELLS_PER_THREAD * *threads);
            let plan = |cells: &mut [CellBox<R>]| {
                let enough = max_events < u64::MAX && done(cells) >= most;
                desk.plan(cells, until, enough)
            };
            turns::run(cells, *threads, plan, Cell::run);
        }
        desk.over
    }

    fn now(&self) -> Ps {
        self.desk.now.saturating_sub(self.desk.origin)
    }

    fn progress(&self) -> f64 {
        let desk = &self.desk;
        if desk.over {
            return 1.0;
        }
        let load = desk.now.saturating_sub(desk.load_at);
        let done: f64 = self.cells.iter().map(|cell| cell.hosts.all_counts().acked as f64).sum();
        let all = desk.bytes + desk.arrivals.expected_bytes(load);
        let span = desk.span.warmup + desk.span.duration;
        let of_time = (load as f64 / span as f64).min(1.0);
        let of_bytes = if all > 0.0 { (done / all).min(1.0) } else { 1.0 };
        // How much a flow without end will send is known by its time only.
        if desk.endless { of_time } else { of_bytes }
    }

    fn packet_hops(&self) -> u64 {
        self.cells.iter().map(|cell| cell.network.counts.hops).sum()
    }

    fn flows_started(&self) -> u64 {
        self.desk.started
    }

    fn flows_finished(&self) -> u64 {
        self.desk.finished
    }

    fn packet_counts(&self) -> PacketCounts {
        let all = totals(&self.cells, self.desk.now);
        PacketCounts {
            sent: all.network.sent,
            delivered: all.hosts.delivered + all.network.frames,
            dropped: all.network.dropped + all.hosts.dropped,
            in_flight: self.cells.iter().map(|cell| cell.packets_inside()).sum(),
        }
    }

    fn fullest_buffer(&self) -> (u64, u64) {
        self.cells.iter().map(|cell| cell.network.fullest_buffer()).max().unwrap_or_default()
    }

    fn take_flows(&mut self) -> Vec<FlowRecord> {
        self.desk.recorder.take_flows()
    }

    fn take_requests(&mut self) -> Vec<RequestRecord> {
        self.desk.recorder.take_requests()
    }

    fn take_exchanges(&mut self) -> Vec<ExchangeRecord> {
        self.desk.recorder.take_exchanges()
    }

    fn take_samples(&mut self) -> Vec<Sample> {
        self.desk.recorder.take_samples()
    }

    fn take_clock_records(&mut self) -> Vec<ClockRecord> {
        let records = self.cells.iter_mut().map(|cell| match &mut cell.clocks {
            Clocks::Constant(_) => vec![],
            Clocks::Running(clocks) => clocks.take_records(),
        });
        records.flatten().collect()
    }

    fn next_records(&self) -> Vec<NextRecord> {
        self.cells.iter().filter_map(|cell| cell.meter.next.as_ref()).flat_map(NextOwd::records).collect()
    }

    fn captures(&self) -> Vec<Capture> {
        let desk = &self.desk;
        let taps: Vec<_> = self.cells.iter().filter_map(|cell| cell.hosts.tap()).collect();
        let wire = Wire { topology: &desk.topology, connections: &desk.connections, origin: desk.origin };
        trace::captures(&taps, &desk.traced, &wire)
    }

    fn series_names(&self) -> &[String] {
        self.desk.recorder.series_names()
    }

    fn unfinished_flows(&self) -> Vec<FlowRecord> {
        let desk = &self.desk;
        let alive = self.cells.iter().flat_map(|cell| cell.hosts.alive(desk.now));
        let mut flows: Vec<FlowRecord> = alive
            .filter_map(|(record, peer)| {
                let start_ps = record.start_ps.checked_sub(desk.origin)?;
                let receiver_fct_ps = if peer & TCP != 0 {
                    0
                } else {
                    let receiver = self.cells[desk.map.of(record.dst)].hosts.receiver(peer);
                    receiver.received_at - record.start_ps
                };
                Some(FlowRecord { start_ps, receiver_fct_ps, ..record })
            })
            .collect();
        flows.sort_by_key(|f| f.id);
        flows
    }

    fn counters(&self) -> Value {
        let us = |ps: Ps| ps as f64 / US as f64;
        let now = self.desk.now;
        let (all, before) = (totals(&self.cells, now), self.desk.before);
        let (mut owd, mut queue) = (Delays::default(), Delays::default());
        let mut pauses = (0, 0);
        for cell in &self.cells {
            owd.add(&cell.meter.owd);
            queue.add(&cell.meter.queue);
            let (count, time) = cell.network.pauses(now);
            pauses = (pauses.0 + count, pauses.1 + time);
        }
        let mut rtts = vec![Delays::default(); self.cells.first().map_or(0, |cell| cell.meter.rtts().len())];
        for cell in &self.cells {
            rtts.iter_mut().zip(cell.meter.rtts()).for_each(|(all, own)| all.add(own));
        }
        let mut owd_us = owd.summary();
        owd_us["samples"] = json!(owd.count());
        let unfinished = self.unfinished_flows().len();
        let mut counters = json!({
            "network": {
                "packets_sent": all.network.sent - before.network.sent,
                "drops": all.network.dropped - before.network.dropped,
                "ecn_marked": all.network.marked - before.network.marked,
                "retransmitted_packets": all.hosts.retransmitted - before.hosts.retransmitted,
                "timeouts": all.hosts.timeouts - before.hosts.timeouts,
                "pfc_pauses": pauses.0,
                "pfc_paused_us": us(pauses.1),
                "utilization": self.utilization(),
                "queue_us": queue.summary(),
            },
            "onramp_stats": {
                "or_acks": all.or_acks - before.or_acks,
                "pauses": all.pauses - before.pauses,
                "paused_us": us(all.paused.saturating_sub(before.paused)),
                "owd_us": owd_us,
            },
            "engine": { "simulated_us": us(self.now()), "packet_hops": all.network.hops },
            "unfinished": { "flows": unfinished, "requests": self.desk.recorder.requests_open() },
        });
        if self.cells.iter().any(|cell| cell.hosts.take_time()) {
            counters["network"]["endpoint_drops"] = json!(all.hosts.dropped - before.hosts.dropped);
        }
        for name in &self.desk.ordered {
            let look = self.look();
            let (network, place) = look.port(self.desk.topology.port_named(name).expect("the scenario was checked"));
            counters["order"][name] = network.order(place).map_or(Value::Null, |order| order.summary());
        }
        if !rtts.is_empty() {
            counters["rtt_us"] = rtts.iter().map(Delays::distribution).collect();
        }
        if self.desk.clients > 0 {
            let open: u64 = self.cells.iter().map(|cell| cell.hosts.exchanges_open()).sum();
            counters["unfinished"]["exchanges"] = json!(open);
        }
        if self.desk.shaper != ShaperKind::Flow {
            let held = Held::largest(self.cells.iter().map(|cell| cell.hosts.held()));
            counters["shaper"] = json!({
                "held_packets": held.most_packets,
                "held_bytes": held.most_bytes,
                "structure_bytes": held.memory,
            });
        }
        if self.cells[0].meter.shaped.is_some() {
            let cells = self.cells.iter().filter_map(|cell| cell.meter.shaped.as_deref());
            counters["shaping"] = Shaped::summary(cells, now);
        }
        if self.desk.is_tcp.contains(&true) {
            counters["engine"]["connections_opened_before"] = json!(all.hosts.opened_before);
            counters["engine"]["connections_opened_late"] = json!(all.hosts.opened_late);
        }
        if let Some(Clocks::Running(clocks)) = self.cells.first().map(|cell| &cell.clocks) {
            let ports = self.desk.topology.ports().iter().filter(|port| self.desk.topology.is_host(port.from));
            counters["clock"] = clocks.summary(now, ports.map(|port| port.rate.0 as f64).sum());
            if let Some(thresholds) = self.cells[0].hosts.gates().find_map(|gates| gates.thresholds()) {
                counters["clock"]["threshold_us"] = thresholds.summary();
            }
        }
        counters
    }

    fn cells(&self) -> usize {
        self.cells.len()
    }
}
