//! The simulation: events in, state changes out. Switches are here; hosts are
//! in [`crate::host`].

use crate::clock::Clocks;
use crate::clock::accuracy::ClockRecord;
use crate::edge::Edge;
use crate::events::{Ahead, Event, Events, Timer};
use crate::host::{Flows, Nic};
use crate::measure::{FlowRecord, NextOwd, NextRecord, Recorder, RequestRecord, Sample};
use crate::network::buffer::{Admission, Buffer, Ingress};
use crate::network::ecn::Ecn;
use crate::network::int::{Hop, IntStore, Units};
use crate::network::packet::MARKED;
use crate::network::port::Port;
use crate::network::{Kind, Packet};
use crate::prefetch::prefetch;
use crate::random;
use crate::scenario::{Class, Loss, OrAckMode, Scenario, Substrate};
use crate::topology::{PortId, Topology};
use crate::transport::{self, Env};
use crate::units::{NS, Ps, Rate, US};
use crate::workload::{self, Source};
use rand_pcg::Pcg64Mcg;
use serde_json::json;
use std::path::Path;

/// Bytes of a data packet besides payload and the transport's own: Ethernet,
/// IP, UDP, and a sequence number with class (HPCC's simulator).
const HEADER: u64 = 48;

/// Where the packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketCounts {
    /// Put on a link by a host, and PFC frames.
    pub sent: u64,
    /// Arrived at their host, and PFC frames that took effect.
    pub delivered: u64,
    /// Dropped by a switch.
    pub dropped: u64,
    /// On a link or in a switch.
    pub in_flight: u64,
}

/// One run of one scenario.
pub struct Simulation {
    pub(crate) now: Ps,
    pub(crate) events: Events,
    pub(crate) topology: Topology,
    pub(crate) ports: Vec<Port>,
    buffers: Vec<Buffer>,
    pub(crate) nics: Vec<Nic>,
    pub(crate) flows: Flows,
    pub(crate) int: IntStore,
    pub(crate) int_units: Option<Units>,
    pub(crate) edge: Option<Edge>,
    pub(crate) clocks: Clocks,
    /// Time 0 of the scenario: synchronisation may begin before it.
    pub(crate) origin: Ps,
    pub(crate) measure: Recorder,
    sources: Vec<Box<dyn Source>>,
    ecn_random: Pcg64Mcg,

    pub(crate) transport: transport::Config,
    /// What the flows of each host know of it.
    pub(crate) envs: Vec<Env>,
    /// W_max in bytes, where a window limits the flows.
    pub(crate) max_window: Option<f64>,
    pub(crate) respace: bool,
    pub(crate) payload: u64,
    pub(crate) header: u64,
    pub(crate) ack_size: u16,
    pub(crate) ack_class: Class,
    switch_ack_class: Class,
    pfc_frame: u16,
    pub(crate) nack_interval: Ps,
    pub(crate) rto: Ps,
    pub(crate) separate_or_acks: bool,
    pub(crate) or_ack_every: u32,
    pub(crate) duration: Ps,
    time_limit: Ps,

    pub(crate) flow_count: u64,
    pub(crate) alive: u64,
    alive_at_end: u64,
    pub(crate) finished: u64,
    pub(crate) timeouts_armed: bool,
    sampling: bool,
    sources_left: usize,
    sent: u64,
    sent_before: u64,
    pub(crate) delivered: u64,
    pfc_arrived: u64,
    dropped: u64,
    hops: u64,
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    marked: u64,
}

impl Simulation {
    /// Builds the simulation of a resolved scenario; files it names are relative
    /// to `base`.
    ///
    /// # Errors
    /// A file that could be read when the scenario was checked and now cannot.
    pub fn new(scenario: &Scenario, topology: Topology, base: &Path) -> Result<Self, String> {
        if !Substrate::Sim.has(&scenario.transport) {
            return Err(format!("{} runs on Linux only", scenario.transport.kind()));
        }
        let config = scenario.transport.settings();
        let (base_rtt, bdp) = topology.max_base_rtt_and_bdp();
        let int_units = Units::new(topology.host_rate().0 as f64);
        let env = |host| {
            let port = topology.ports_of(host)[0];
            Env { line_rate: topology.ports()[port as usize].rate.0 as f64, base_rtt, int_units }
        };
        let payload = scenario.host.payload.0;
        let header = HEADER + config.extra_header();
        let ack_size = config.ack_bytes() as u16;
        let origin = scenario.clock.lead.unwrap_or_default().0;
        let size = scenario.measure.next_owd;
        let next = (size > 0).then(|| NextOwd::new(size, scenario.seed, origin));
        let mut events = Events::default();
        let mut ports: Vec<Port> = Vec::with_capacity(topology.ports().len());
        for port in topology.ports() {
            let host = (port.from as usize) < topology.hosts();
            let ecn = per_rate(&scenario.switch.ecn, port.rate, |e| e.rate).filter(|_| !host);
            let alpha = per_rate(&scenario.switch.alpha, port.rate, |a| a.rate).map_or(1.0, |a| a.alpha);
            let headroom = per_rate(&scenario.switch.headroom, port.rate, |h| h.rate).map_or(0, |h| h.bytes.0);
            let ingress = Ingress::new(scenario.switch.reserve.0, headroom, alpha);
            let mut port = Port::new(port, host, ecn.map_or(Ecn::OFF, Ecn::new), ingress);
            let sizes = [(payload + header) as u16, ack_size];
            port.lanes = events.lanes_for(sizes, sizes.map(|s| port.time_for(s)), port.delay);
            ports.push(port);
        }
        let buffers = buffers(scenario, &topology);
        let mut sim = Self {
            now: 0,
            events,
            ports,
            buffers,
            nics: (0..topology.hosts() as u32).map(|host| Nic::new(topology.ports_of(host)[0])).collect(),
            flows: Flows::default(),
            int: IntStore::default(),
            int_units: config.int().then_some(int_units),
            edge: Edge::new(&scenario.onramp),
            clocks: Clocks::new(&scenario.clock, scenario.seed, topology.hosts()),
            origin,
            measure: Recorder::new(&scenario.measure, &topology).from_origin(origin).with_next(next),
            sources: workload::sources(scenario, &topology, base)?,
            ecn_random: random::stream(scenario.seed, "ecn", 0),
            transport: scenario.transport.clone(),
            envs: (0..topology.hosts() as u32).map(env).collect(),
            max_window: config.window().then(|| scenario.host.max_window.map_or(bdp, |w| w.0) as f64),
            respace: config.respace(),
            payload,
            header,
            ack_size,
            ack_class: scenario.host.ack_class.unwrap_or_default(),
            switch_ack_class: scenario.switch.ack_class,
            pfc_frame: scenario.switch.pfc_frame.0 as u16,
            nack_interval: scenario.host.nack_interval.0,
            rto: scenario.host.rto.0,
            separate_or_acks: scenario.onramp.enabled && scenario.onramp.ack == OrAckMode::Separate,
            or_ack_every: if scenario.onramp.enabled { scenario.onramp.ack_every } else { 1 },
            duration: scenario.duration.0,
            time_limit: scenario.time_limit.unwrap_or_default().0.saturating_add(origin),
            flow_count: 0,
            alive: 0,
            alive_at_end: 0,
            finished: 0,
            timeouts_armed: false,
            sampling: false,
            sources_left: 0,
            sent: 0,
            sent_before: 0,
            delivered: 0,
            pfc_arrived: 0,
            dropped: 0,
            hops: 0,
            retransmitted: 0,
            timeouts: 0,
            marked: 0,
            topology,
        };
        for i in 0..sim.sources.len() {
            sim.schedule_source(i as u32);
        }
        sim.start_clocks(scenario.seed);
        Ok(sim)
    }

    /// Runs until simulated time `until` (picoseconds), at most `max_events`
    /// events. True when nothing is left to happen.
    pub fn run(&mut self, until: Ps, max_events: u64) -> bool {
        let limit = until.saturating_add(self.origin).min(self.time_limit);
        for _ in 0..max_events {
            let Some((at, event, ahead)) = self.events.pop(limit) else {
                self.now = self.now.max(limit);
                return self.finished() || limit == self.time_limit;
            };
            self.now = at;
            match ahead {
                Ahead::Arrive { link, flow } => {
                    // The other direction of a link is its neighbour.
                    prefetch(&self.ports, usize::from(link) ^ 1);
                    self.flows.prefetch(flow);
                }
                Ahead::PortReady(port) => prefetch(&self.ports, port as usize),
                Ahead::Nothing => {}
            }
            match event {
                Event::Arrive(packet) => self.arrive(packet),
                Event::PortReady(port) => self.port_ready(port),
                Event::Timer(timer) => self.timer(timer),
            }
            if self.finished() {
                return true;
            }
        }
        false
    }

    /// Runs to the end.
    pub fn run_to_end(&mut self) {
        while !self.run(Ps::MAX, u64::MAX) {}
    }

    /// Simulated time in picoseconds; 0 while only the clocks are synchronised.
    pub fn now(&self) -> Ps {
        self.now.saturating_sub(self.origin)
    }

    /// An estimate from 0 to 1 of how much of the run is done.
    pub fn progress(&self) -> f64 {
        // Flows are still alive when arrivals end; how long they take is not
        // known, so that part is counted by flows.
        const ARRIVALS: f64 = 0.85;
        if self.now() < self.duration {
            return ARRIVALS * self.now() as f64 / self.duration as f64;
        }
        let at_end = self.alive_at_end.max(1) as f64;
        ARRIVALS + (1.0 - ARRIVALS) * (1.0 - self.alive as f64 / at_end).max(0.0)
    }

    /// Packets that have crossed a link, counted once for every link.
    pub fn packet_hops(&self) -> u64 {
        self.hops
    }

    /// Flows that have arrived.
    pub fn flows_started(&self) -> u64 {
        self.flow_count
    }

    /// Flows that are done.
    pub fn flows_finished(&self) -> u64 {
        self.finished
    }

    /// Packets put on or taken off the network so far.
    pub fn packet_counts(&self) -> PacketCounts {
        let queued: usize = self.ports.iter().map(Port::waiting).sum();
        PacketCounts {
            sent: self.sent,
            delivered: self.delivered + self.pfc_arrived,
            dropped: self.dropped,
            in_flight: self.events.packets_in_flight() + queued as u64,
        }
    }

    /// The fullest any switch buffer is now, as (bytes used, bytes there are).
    pub fn fullest_buffer(&self) -> (u64, u64) {
        self.buffers.iter().map(|b| (b.used(), b.size())).max().unwrap_or_default()
    }

    /// Flows done since the last call.
    pub fn take_flows(&mut self) -> Vec<FlowRecord> {
        self.measure.take_flows()
    }

    /// Requests done since the last call.
    pub fn take_requests(&mut self) -> Vec<RequestRecord> {
        self.measure.take_requests()
    }

    /// Samples of the time series since the last call.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        self.measure.take_samples()
    }

    /// Samples of the clocks' errors since the last call.
    pub fn take_clock_records(&mut self) -> Vec<ClockRecord> {
        match &mut self.clocks {
            Clocks::Constant(_) => vec![],
            Clocks::Running(clocks) => clocks.take_records(),
        }
    }

    /// The sampled packets that have arrived, beside those acknowledged before
    /// they left.
    pub fn next_records(&self) -> Vec<NextRecord> {
        self.measure.next_records()
    }

    /// Names of the time series.
    pub fn series_names(&self) -> &[String] {
        self.measure.series_names()
    }

    /// Flows alive now; their `fct_ps` is their age.
    pub fn unfinished_flows(&self) -> Vec<FlowRecord> {
        let mut flows: Vec<_> = self.flows.alive().map(|slot| self.record(slot)).collect();
        flows.sort_by_key(|f| f.id);
        flows
    }

    /// The parts of `summary.json` that do not come from flows: "network",
    /// "onramp_stats", "unfinished", the simulator's part of "engine", and "clock" if
    /// clocks are synchronised over the network.
    pub fn counters(&self) -> serde_json::Value {
        let us = |ps: Ps| ps as f64 / US as f64;
        let delays = |h: &hdrhistogram::Histogram<u64>| {
            let at = |q| h.value_at_quantile(q) as f64 / 1000.0;
            json!({"mean": h.mean() / 1000.0, "p50": at(0.5), "p99": at(0.99), "max": h.max() as f64 / 1000.0})
        };
        let mut owd = delays(&self.measure.owd_ns);
        owd["samples"] = json!(self.measure.owd_ns.len());
        let edge = self.edge.as_ref();
        let alive_paused: Ps = self.flows.alive().map(|s| edge.map_or(0, |e| e.paused_total(s, self.now))).sum();
        let mut all = json!({
            "network": {
                "packets_sent": self.sent - self.sent_before,
                "drops": self.dropped,
                "ecn_marked": self.marked,
                "retransmitted_packets": self.retransmitted,
                "timeouts": self.timeouts,
                "pfc_pauses": self.ports.iter().map(|p| p.pauses).sum::<u64>(),
                "pfc_paused_us": us(self.ports.iter().map(|p| p.paused_total(self.now)).sum()),
                "utilization": self.utilization(),
                "queue_us": delays(&self.measure.queue_ns),
            },
            "onramp_stats": {
                "or_acks": edge.map_or(0, |e| e.or_acks),
                "pauses": edge.map_or(0, |e| e.pauses),
                "paused_us": us(edge.map_or(0, |e| e.paused) + alive_paused),
                "owd_us": owd,
            },
            "engine": { "simulated_us": us(self.now()), "packet_hops": self.hops },
            "unfinished": { "flows": self.alive, "requests": self.measure.requests_open() },
        });
        if let Clocks::Running(clocks) = &self.clocks {
            let rates = self.envs.iter().map(|env| env.line_rate).sum();
            all["clock"] = clocks.summary(self.now, rates);
            if let Some(thresholds) = edge.and_then(Edge::thresholds) {
                all["clock"]["threshold_us"] = delays(thresholds);
            }
        }
        all
    }

    /// Share of its capacity each link has carried so far: one by one in a small
    /// network, else mean and maximum by kind of link.
    fn utilization(&self) -> serde_json::Value {
        const FEW: usize = 64;
        let share = |p: &Port| p.sending(self.now) as f64 / self.now().max(1) as f64;
        let mut all = serde_json::Map::new();
        if self.ports.len() <= FEW {
            for (id, port) in self.ports.iter().enumerate() {
                all.insert(self.topology.port_name(id as PortId), json!(share(port)));
            }
            return all.into();
        }
        let tier = |node| self.topology.name(node).trim_end_matches(|c: char| c.is_ascii_digit());
        let mut tiers: std::collections::BTreeMap<String, Vec<f64>> = Default::default();
        for port in &self.ports {
            tiers.entry(format!("{}->{}", tier(port.node), tier(port.to))).or_default().push(share(port));
        }
        for (name, shares) in tiers {
            all.insert(format!("{name} mean"), json!(shares.iter().sum::<f64>() / shares.len() as f64));
            all.insert(format!("{name} max"), json!(shares.iter().fold(0.0, |a: f64, b| a.max(*b))));
        }
        all.into()
    }

    /// Time 0: what synchronisation has sent before does not count as load.
    pub(crate) fn begin(&mut self) {
        self.sent_before = self.sent;
        for port in &mut self.ports {
            port.tx_bytes = 0;
        }
    }

    fn finished(&self) -> bool {
        self.alive == 0 && self.sources_left == 0
    }

    fn timer(&mut self, timer: Timer) {
        match timer {
            Timer::Source(i) => self.source_due(i),
            Timer::Stop(slot) => self.stop_flow(slot),
            Timer::Wake(host) => self.nic_wake(host),
            Timer::Timeouts => self.check_timeouts(),
            Timer::Clock(tick) => self.clock_tick(tick),
            Timer::Sample => {
                self.measure.sample(self.now, &self.ports, &self.flows, self.payload);
                self.sampling = !self.finished();
                if self.sampling {
                    self.events.timer(self.now + self.measure.interval(), Timer::Sample);
                }
            }
        }
    }

    fn schedule_source(&mut self, i: u32) {
        if let Some(at) = self.sources[i as usize].next_at() {
            self.sources_left += 1;
            self.events.timer(self.origin + at, Timer::Source(i));
        }
    }

    fn source_due(&mut self, i: u32) {
        self.sources_left -= 1;
        let mut arrivals = Vec::new();
        self.sources[i as usize].take(&mut arrivals);
        for flow in arrivals {
            self.start_flow(flow);
        }
        self.alive_at_end = self.alive;
        self.schedule_source(i);
        if !self.sampling {
            self.sampling = true;
            self.events.timer(self.now + self.measure.interval(), Timer::Sample);
        }
    }

    /// Puts a packet on an idle port's link.
    #[inline]
    pub(crate) fn start(&mut self, id: PortId, mut packet: Packet) {
        let port = &mut self.ports[id as usize];
        debug_assert!(!port.busy, "a port sends one packet at a time");
        if port.host {
            self.sent += 1;
        }
        port.busy = true;
        port.tx_bytes += u64::from(packet.size);
        packet.link = id as u16;
        let free = self.now + port.time_for(packet.size);
        port.free_at = free;
        self.events.arrive(&port.lanes, free + port.delay, packet);
        self.events.port_ready(&port.lanes, packet.size, free, id);
    }

    fn port_ready(&mut self, id: PortId) {
        let port = &mut self.ports[id as usize];
        port.busy = false;
        if port.host {
            let host = port.node;
            self.nic_send(host);
        } else {
            self.transmit(id);
        }
    }

    /// A packet arrives at the far end of its link.
    #[inline]
    fn arrive(&mut self, packet: Packet) {
        self.hops += 1;
        let ingress = self.ports[usize::from(packet.link)].reverse;
        let node = self.ports[ingress as usize].node;
        if packet.is_pfc() {
            self.pfc_arrived += 1;
            self.ports[ingress as usize].set_paused(packet.kind == Kind::PAUSE, self.now);
            if !self.ports[ingress as usize].busy {
                self.port_ready(ingress);
            }
        } else if (node as usize) < self.topology.hosts() {
            self.receive(node, packet);
        } else {
            self.forward(node, ingress, packet);
        }
    }

    /// A switch takes a packet in.
    #[inline]
    fn forward(&mut self, node: u32, ingress: PortId, packet: Packet) {
        let id = self.topology.next_port(node, u32::from(packet.dst), packet.hash);
        let size = u64::from(packet.size);
        let queue = self.ports[id as usize].data_bytes;
        let pausable = self.pausable(packet.kind);
        let buffer = &mut self.buffers[node as usize - self.topology.hosts()];
        match buffer.admit(&mut self.ports[ingress as usize].ingress, queue, size, pausable) {
            Admission::Drop => return self.drop(&packet),
            Admission::Pause => self.send_pfc(ingress, Kind::PAUSE),
            Admission::Accept => {}
        }
        let port = &mut self.ports[id as usize];
        if port.idle() {
            return self.depart(id, packet);
        }
        if self.switch_ack_class == Class::Control && matches!(packet.kind, Kind::ACK | Kind::NACK) {
            port.push_control(packet);
        } else {
            port.push_data(packet);
        }
        if !port.busy {
            self.transmit(id);
        }
    }

    /// A switch port sends its next packet, if it may.
    #[inline]
    fn transmit(&mut self, id: PortId) {
        let port = &mut self.ports[id as usize];
        if let Some(packet) = port.pop() {
            self.depart(id, packet);
        }
    }

    /// A packet leaves a switch: it may be marked, and its buffer is free again.
    #[inline]
    fn depart(&mut self, id: PortId, mut packet: Packet) {
        let port = &mut self.ports[id as usize];
        if packet.kind == Kind::DATA {
            if port.ecn.mark(port.data_bytes, &mut self.ecn_random) {
                packet.flags |= MARKED;
                self.marked += 1;
            }
            if let Some(units) = self.int_units {
                let hop = Hop::new(units, self.now / NS, port.tx_bytes, port.data_bytes, port.rate);
                self.int[packet.aux].0.push(hop);
            }
        }
        if !packet.is_pfc() {
            let switch = port.node as usize - self.topology.hosts();
            let from = self.ports[usize::from(packet.link)].reverse;
            debug_assert_ne!(from, id, "no shortest path goes back over the same link");
            let pausable = self.pausable(packet.kind);
            let ingress = &mut self.ports[from as usize].ingress;
            if self.buffers[switch].release(ingress, u64::from(packet.size), pausable) {
                self.send_pfc(from, Kind::RESUME);
            }
        }
        self.start(id, packet);
    }

    /// Whether hosts hold packets of this kind back while they are paused.
    #[inline]
    fn pausable(&self, kind: Kind) -> bool {
        self.ack_class == Class::Data || !matches!(kind, Kind::ACK | Kind::NACK)
    }

    /// Sends a PFC frame to the other end of `id`, before everything that waits.
    fn send_pfc(&mut self, id: PortId, kind: Kind) {
        self.sent += 1;
        let frame = Packet {
            sent_ns: 0,
            flow: 0,
            seq: 0,
            aux: 0,
            owd_ns: 0,
            dst: 0,
            link: 0,
            size: self.pfc_frame,
            hash: 0,
            kind,
            flags: 0,
        };
        let port = &mut self.ports[id as usize];
        port.push_control(frame);
        if !port.busy {
            self.transmit(id);
        }
    }

    fn drop(&mut self, packet: &Packet) {
        self.dropped += 1;
        if packet.is_probe() {
            if let Clocks::Running(clocks) = &mut self.clocks {
                clocks.lost(packet);
            }
            return;
        }
        if self.int_units.is_some() && packet.kind != Kind::OR_ACK {
            self.int.remove(packet.aux);
        }
        self.flows[packet.flow].under_way -= 1;
        self.flows.reclaim(packet.flow);
    }
}

/// The entry for a rate; links of other rates have none.
fn per_rate<T>(list: &Option<Vec<T>>, rate: Rate, of: impl Fn(&T) -> Rate) -> Option<&T> {
    list.iter().flatten().find(|entry| of(entry) == rate)
}

fn buffers(scenario: &Scenario, topology: &Topology) -> Vec<Buffer> {
    let switch = &scenario.switch;
    let size = switch.buffer.unwrap_or_default().0;
    (topology.hosts()..topology.nodes())
        .map(|node| {
            let ports = topology.ports_of(node as u32);
            let rates = ports.iter().map(|&p| topology.ports()[p as usize].rate);
            let headroom: u64 =
                rates.filter_map(|r| per_rate(&switch.headroom, r, |h| h.rate)).map(|h| h.bytes.0).sum();
            let reserves = switch.reserve.0 * ports.len() as u64;
            let set_aside = if switch.loss == Loss::Pfc { headroom + reserves } else { 0 };
            Buffer::new(switch.loss, size, set_aside, switch.xon_offset.0)
        })
        .collect()
}
