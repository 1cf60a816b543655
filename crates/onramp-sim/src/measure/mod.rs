//! What is written down while the simulation runs.

use crate::host::{Flows, NewFlow, RequestPart};
use crate::network::port::Port;
use crate::scenario::Measure;
use crate::topology::Topology;
use crate::units::{NS, Ps, SEC};
use hdrhistogram::Histogram;
use std::collections::HashMap;

mod next_owd;

pub use next_owd::{NextOwd, NextRecord};

/// A flow that is done (or alive, at the time of asking).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Number in order of arrival.
    pub id: u64,
    /// Index of the scenario's traffic section.
    pub traffic: u32,
    /// The request it is part of.
    pub request: Option<u64>,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload.
    pub bytes: u64,
    /// Arrival.
    pub start_ps: Ps,
    /// From arrival to the last ACK at the sender.
    pub fct_ps: Ps,
    /// From arrival to the last byte at the receiver.
    pub receiver_fct_ps: Ps,
    /// FCT on an empty network.
    pub ideal_ps: Ps,
    /// Packets sent more than once.
    pub retransmitted: u32,
    /// Retransmission timeouts.
    pub timeouts: u32,
    /// Time On-Ramp held the flow.
    pub paused_ps: Ps,
}

/// A request whose flows are all done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Number in order of arrival.
    pub id: u64,
    /// Index of the scenario's traffic section.
    pub traffic: u32,
    /// The host that asked and receives.
    pub requester: u32,
    /// Flows.
    pub flows: u32,
    /// Payload of all flows.
    pub bytes: u64,
    /// Arrival of the first flow.
    pub start_ps: Ps,
    /// Until the last flow's last ACK.
    pub rct_ps: Ps,
    /// Until the last flow's last byte at the requester.
    pub receiver_rct_ps: Ps,
}

/// One value of a time series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// When.
    pub time_ps: Ps,
    /// Which series, an index of [`Recorder::series_names`].
    pub series: u32,
    /// The value, in the unit its name implies.
    pub value: f64,
}

#[derive(Clone, Copy, Debug)]
struct OpenRequest {
    record: RequestRecord,
    number: u64,
    left: u32,
}

/// A port or flow whose counter is turned into a rate.
#[derive(Clone, Copy, Debug)]
struct Watched {
    index: u32,
    series: u32,
    last: u64,
    id: u64,
}

/// Collects records until they are taken, and statistics of the whole run.
#[derive(Debug)]
pub struct Recorder {
    /// Time 0: times that are written down count from here.
    origin: Ps,
    interval: Ps,
    flow_rates: bool,
    queues: Vec<(u32, u32)>,
    links: Vec<Watched>,
    owd_pairs: HashMap<(u32, u32), u32>,
    rates: Vec<Watched>,
    names: Vec<String>,
    flows: Vec<FlowRecord>,
    requests: Vec<RequestRecord>,
    samples: Vec<Sample>,
    /// From (traffic section, number within it) to the request's number.
    open: HashMap<(u32, u64), u64>,
    requests_open: HashMap<u64, OpenRequest>,
    request_count: u64,
    /// Queueing delay at switch ports, over ports and samples, in nanoseconds.
    pub queue_ns: Histogram<u64>,
    /// One-way delays of data packets by the hosts' clocks, in nanoseconds;
    /// negative ones count as 0.
    pub owd_ns: Histogram<u64>,
    /// Delays of packets beside those of the ones acknowledged before, if wanted.
    pub next: Option<NextOwd>,
}

impl Recorder {
    /// Resolves the points a scenario wants recorded.
    pub fn new(config: &Measure, topology: &Topology) -> Self {
        let mut names = Vec::new();
        let mut series = |name: String| {
            names.push(name);
            (names.len() - 1) as u32
        };
        let port = |name: &String| topology.port_named(name).expect("the scenario was checked");
        let queues = config.queues.iter().map(|name| (port(name), series(format!("queue {name}")))).collect();
        let link = |name: &String| (port(name), format!("utilization {name}"));
        let links =
            config.links.iter().map(link).map(|(index, name)| Watched { index, series: series(name), last: 0, id: 0 });
        let links = links.collect();
        let owd_pairs = config.owd.iter().map(|pair| {
            let (a, b) = pair.split_once("->").expect("the scenario was checked");
            let host = |name| topology.host_named(name).expect("the scenario was checked");
            ((host(a), host(b)), series(format!("owd {pair}")))
        });
        let owd_pairs = owd_pairs.collect();
        // One nanosecond to 10 s, to three digits.
        let histogram = || Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are valid");
        Self {
            origin: 0,
            interval: config.interval.0,
            flow_rates: config.flow_rates,
            queues,
            links,
            owd_pairs,
            rates: Vec::new(),
            names,
            flows: Vec::new(),
            requests: Vec::new(),
            samples: Vec::new(),
            open: HashMap::new(),
            requests_open: HashMap::new(),
            request_count: 0,
            queue_ns: histogram(),
            owd_ns: histogram(),
            next: None,
        }
    }

    /// Counts times from `origin` on.
    #[must_use]
    pub fn from_origin(self, origin: Ps) -> Self {
        Self { origin, ..self }
    }

    /// Records delays of packets beside those of the ones acknowledged before.
    #[must_use]
    pub fn with_next(self, next: Option<NextOwd>) -> Self {
        Self { next, ..self }
    }

    /// Time between samples.
    pub fn interval(&self) -> Ps {
        self.interval
    }

    /// The series of a host pair's one-way delays, if they are recorded.
    pub fn watched_owd(&self, src: u32, dst: u32) -> Option<u32> {
        if self.owd_pairs.is_empty() { None } else { self.owd_pairs.get(&(src, dst)).copied() }
    }

    /// Starts recording the rate of a long flow.
    pub fn watch_rate(&mut self, slot: u32, id: u64, topology: &Topology, src: u32, dst: u32) {
        if self.flow_rates {
            self.names.push(format!("rate flow {id} {}->{}", topology.name(src), topology.name(dst)));
            self.rates.push(Watched { index: slot, series: (self.names.len() - 1) as u32, last: 0, id });
        }
    }

    /// A data packet's measured one-way delay.
    #[inline]
    pub fn owd(&mut self, series: Option<u32>, now: Ps, owd_ns: i32) {
        self.owd_ns.saturating_record(owd_ns.max(0) as u64);
        if let Some(series) = series {
            self.samples.push(Sample { time_ps: now - self.origin, series, value: f64::from(owd_ns) });
        }
    }

    /// A flow of a request arrives; returns the request's number.
    pub fn request(&mut self, flow: &NewFlow, part: RequestPart, now: Ps) -> u64 {
        let key = (flow.traffic, part.number);
        if let Some(&id) = self.open.get(&key) {
            return id;
        }
        let id = self.request_count;
        self.request_count += 1;
        self.open.insert(key, id);
        let record = RequestRecord {
            id,
            traffic: flow.traffic,
            requester: flow.dst,
            flows: part.flows,
            bytes: 0,
            start_ps: now - self.origin,
            rct_ps: 0,
            receiver_rct_ps: 0,
        };
        self.requests_open.insert(id, OpenRequest { record, number: part.number, left: part.flows });
        id
    }

    /// A flow is done.
    pub fn flow_done(&mut self, flow: FlowRecord) {
        self.flows.push(flow);
        let Some(id) = flow.request else { return };
        let open = self.requests_open.get_mut(&id).expect("a request is open until its last flow is done");
        let record = &mut open.record;
        record.bytes += flow.bytes;
        record.rct_ps = record.rct_ps.max(flow.start_ps + flow.fct_ps - record.start_ps);
        record.receiver_rct_ps = record.receiver_rct_ps.max(flow.start_ps + flow.receiver_fct_ps - record.start_ps);
        open.left -= 1;
        if open.left == 0 {
            self.requests.push(open.record);
            self.open.remove(&(flow.traffic, open.number));
            self.requests_open.remove(&id);
        }
    }

    /// Samples queues, links and flows.
    pub fn sample(&mut self, now: Ps, ports: &[Port], flows: &Flows, payload: u64) {
        for port in ports.iter().filter(|p| !p.host) {
            self.queue_ns.saturating_record(port.queue_delay() / NS);
        }
        let time_ps = now - self.origin;
        let mut push = |series, value| self.samples.push(Sample { time_ps, series, value });
        for &(port, series) in &self.queues {
            push(series, ports[port as usize].data_bytes as f64);
        }
        for link in &mut self.links {
            let port = &ports[link.index as usize];
            let sending = port.sending(now);
            push(link.series, (sending - link.last) as f64 / self.interval as f64);
            link.last = sending;
        }
        let seconds = self.interval as f64 / SEC as f64;
        self.rates.retain_mut(|rate| {
            let flow = &flows[rate.index];
            let gone = flow.id != rate.id;
            let received = if gone { rate.last } else { u64::from(flow.expected) * payload };
            push(rate.series, (received - rate.last) as f64 * 8.0 / seconds);
            rate.last = received;
            !(gone || flow.done)
        });
    }

    /// Names of the series, in order of their index.
    pub fn series_names(&self) -> &[String] {
        &self.names
    }

    /// Requests that are not done.
    pub fn requests_open(&self) -> usize {
        self.requests_open.len()
    }

    /// Flows done since the last call.
    pub fn take_flows(&mut self) -> Vec<FlowRecord> {
        std::mem::take(&mut self.flows)
    }

    /// Requests done since the last call.
    pub fn take_requests(&mut self) -> Vec<RequestRecord> {
        std::mem::take(&mut self.requests)
    }

    /// See [`NextOwd::records`].
    pub fn next_records(&self) -> Vec<NextRecord> {
        self.next.as_ref().map_or(vec![], NextOwd::records)
    }

    /// Samples since the last call.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        std::mem::take(&mut self.samples)
    }
}
