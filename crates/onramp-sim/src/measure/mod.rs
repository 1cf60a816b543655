//! Measurements and records that are taken while the simulation runs.

mod delays;
mod echo;
mod meter;
mod next_owd;
mod observer;
mod shaped;
mod timeline;
pub mod trace;

pub use crate::network::packet::UNMEASURED;
pub use delays::Delays;
pub use echo::Echo;
pub use meter::Meter;
pub use next_owd::NextOwd;
pub use observer::{FlowStart, Observer};
pub use shaped::Shaped;
pub use timeline::{Picture, Running, Timeline};

use onramp_config::units::{Ps, SEC, Span, US};
use onramp_records::{
    CollectiveRecord, ExchangeRecord, FlowRecord, GoodputRecord, OperationRecord, RequestRecord, Sample,
};
use onramp_topology::{PortId, Topology};
use onramp_workload::collective::Gather;
use onramp_workload::state::Encoder;
use onramp_workload::{NewFlow, RequestPart};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Records besides flows and requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Measure {
    /// Queues, rates and utilization are sampled this often. Default 10 us.
    pub interval: Span,
    /// Ports ("from->to") of switches whose queue is recorded over time.
    pub queues: Vec<String>,
    /// Ports ("from->to") whose utilization is recorded over time.
    pub links: Vec<String>,
    /// Ports ("from->to") of switches at which the order of flows' packets and the flows that drops hit are recorded.
    pub order: Vec<String>,
    /// Ports ("from->to") whose rate for each flow is recorded over time (RCP).
    pub rates: Vec<String>,
    /// Records the rate of each long flow over time. Default false.
    pub flow_rates: bool,
    /// Records the congestion window of each long flow on TCP over time. Default false.
    pub cwnd: bool,
    /// Records round trips of acknowledged packets. Default false.
    pub rtt: bool,
    /// Host pairs ("from->to") whose measured one-way delays are recorded.
    pub owd: Vec<String>,
    /// Packets, of all that leave after one of their flow was acknowledged, whose
    /// one-way delay is recorded beside the acknowledged one's. Default 0.
    pub next_owd: u32,
    /// Records how well flows keep to their rates (`host.shaping`). Default false.
    pub shaping: bool,
    /// Records the start and length of each message between programs (`messages.parquet`). Default false.
    pub messages: bool,
    /// Records the start and length of each PFC pause (`pauses.parquet`). Default false.
    pub pauses: bool,
}

impl Default for Measure {
    fn default() -> Self {
        Self {
            interval: Span(10 * US),
            queues: vec![],
            links: vec![],
            order: vec![],
            rates: vec![],
            flow_rates: false,
            cwnd: false,
            rtt: false,
            owd: vec![],
            next_owd: 0,
            shaping: false,
            messages: false,
            pauses: false,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct OpenRequest {
    record: RequestRecord,
    number: u64,
    left: u32,
}

/// A link or flow whose counter is turned into a rate.
#[derive(Clone, Copy, Debug)]
struct Watched<K> {
    what: K,
    series: u32,
    last: u64,
}

/// A long flow, where its receiving end is.
#[derive(Clone, Copy, Debug)]
pub struct LongFlow {
    /// Its number.
    pub id: u64,
    /// The host that sends, and the slot there.
    pub sender: (u32, u32),
    /// The host that receives, and the slot there.
    pub receiver: (u32, u32),
}

/// A long flow's payload since time 0, or since its start if that is later.
#[derive(Debug)]
struct Moved {
    what: LongFlow,
    record: GoodputRecord,
    /// Bytes at the beginning of the measured time.
    before: u64,
    /// When the flow stops, from time 0.
    stop: Ps,
}

/// State of a network at a sample.
pub trait View {
    /// Bytes of payload classes waiting at a port.
    fn queued(&self, port: PortId) -> u64;
    /// The rate in bit/s that a port gives each flow, if it does.
    fn flow_rate(&self, port: PortId) -> Option<f64>;
    /// Time the port has spent sending.
    fn sending(&self, port: PortId) -> Ps;
    /// Bytes of payload that a long flow has received in order; `None` if it is over.
    fn received(&self, flow: &LongFlow) -> Option<u64>;
    /// Packets in the congestion window of a long flow; `None` if it is over, or not on TCP.
    fn cwnd(&self, flow: &LongFlow) -> Option<u32>;
}

/// Collects records until they are taken. Times count from time 0.
#[derive(Debug)]
pub struct Recorder {
    interval: Ps,
    flow_rates: bool,
    cwnd: bool,
    queues: Vec<(PortId, u32)>,
    links: Vec<Watched<PortId>>,
    flow_rate: Vec<(PortId, u32)>,
    owd_pairs: HashMap<(u32, u32), u32>,
    rates: Vec<Watched<LongFlow>>,
    windows: Vec<(LongFlow, u32)>,
    moved: Vec<Moved>,
    names: Vec<String>,
    flows: Vec<FlowRecord>,
    requests: Vec<RequestRecord>,
    exchanges: Vec<ExchangeRecord>,
    operations: Vec<OperationRecord>,
    collectives: Vec<CollectiveRecord>,
    gather: Gather,
    samples: Vec<Sample>,
    /// From (traffic section, number within it) to the request's number.
    open: HashMap<(u32, u64), u64>,
    requests_open: HashMap<u64, OpenRequest>,
    request_count: u64,
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
        let links = config
            .links
            .iter()
            .map(|name| Watched { what: port(name), series: series(format!("utilization {name}")), last: 0 })
            .collect();
        let flow_rate = config.rates.iter().map(|name| (port(name), series(format!("rate {name}")))).collect();
        let owd_pairs = config.owd.iter().map(|pair| {
            let (a, b) = pair.split_once("->").expect("the scenario was checked");
            let host = |name| topology.host_named(name).expect("the scenario was checked");
            ((host(a), host(b)), series(format!("owd {pair}")))
        });
        let owd_pairs = owd_pairs.collect();
        Self {
            interval: config.interval.0,
            flow_rates: config.flow_rates,
            cwnd: config.cwnd,
            queues,
            links,
            flow_rate,
            owd_pairs,
            rates: Vec::new(),
            windows: Vec::new(),
            moved: Vec::new(),
            names,
            flows: Vec::new(),
            requests: Vec::new(),
            exchanges: Vec::new(),
            operations: Vec::new(),
            collectives: Vec::new(),
            gather: Gather::default(),
            samples: Vec::new(),
            open: HashMap::new(),
            requests_open: HashMap::new(),
            request_count: 0,
        }
    }

    /// Time between samples.
    pub fn interval(&self) -> Ps {
        self.interval
    }

    /// The series of a host pair's one-way delays, if they are recorded.
    pub fn watched_owd(&self, src: u32, dst: u32) -> Option<u32> {
        if self.owd_pairs.is_empty() { None } else { self.owd_pairs.get(&(src, dst)).copied() }
    }

    /// Starts recording what a long flow of a traffic section moves from `start` to `stop`, which count from time 0, its
    /// rate and its window.
    pub fn watch_flow(&mut self, flow: LongFlow, traffic: u32, (start, stop): (Ps, Ps), topology: &Topology) {
        let (src, dst) = (flow.sender.0, flow.receiver.0);
        let record = GoodputRecord { id: flow.id, traffic, src, dst, start_ps: start, duration_ps: 0, bytes: 0 };
        self.moved.push(Moved { what: flow, record, before: 0, stop });
        let [src, dst] = [src, dst].map(|host| topology.name(host));
        let mut series = |what| {
            self.names.push(format!("{what} flow {} {src}->{dst}", flow.id));
            (self.names.len() - 1) as u32
        };
        if self.flow_rates {
            self.rates.push(Watched { what: flow, series: series("rate"), last: 0 });
        }
        if self.cwnd {
            self.windows.push((flow, series("cwnd")));
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
            start_ps: now,
            rct_ps: 0,
            receiver_rct_ps: 0,
        };
        self.requests_open.insert(id, OpenRequest { record, number: part.number, left: part.flows });
        id
    }

    /// A flow is done; the request that ends with it.
    pub fn flow_done(&mut self, flow: FlowRecord) -> Option<&RequestRecord> {
        self.flows.push(flow);
        let id = flow.request?;
        let open = self.requests_open.get_mut(&id).expect("a request is open until its last flow is done");
        let record = &mut open.record;
        record.bytes += flow.bytes;
        record.rct_ps = record.rct_ps.max(flow.start_ps + flow.fct_ps - record.start_ps);
        record.receiver_rct_ps = record.receiver_rct_ps.max(flow.start_ps + flow.receiver_fct_ps - record.start_ps);
        open.left -= 1;
        if open.left > 0 {
            return None;
        }
        self.requests.push(open.record);
        self.open.remove(&(flow.traffic, open.number));
        self.requests_open.remove(&id);
        self.requests.last()
    }

    /// An exchange is over.
    pub fn exchange_done(&mut self, exchange: ExchangeRecord) {
        self.exchanges.push(exchange);
    }

    /// An operation of a rank is complete; its collective, if it is the last part of one.
    pub fn operation_done(&mut self, operation: OperationRecord) -> Option<&CollectiveRecord> {
        let collective = self.gather.add(&operation);
        self.operations.push(operation);
        self.collectives.push(collective?);
        self.collectives.last()
    }

    /// Samples queues, links and flows at `now`.
    pub fn sample(&mut self, now: Ps, view: &impl View) {
        let mut push = |series, value| self.samples.push(Sample { time_ps: now, series, value });
        for &(port, series) in &self.queues {
            push(series, view.queued(port) as f64);
        }
        for &(port, series) in &self.flow_rate {
            if let Some(rate) = view.flow_rate(port) {
                push(series, rate);
            }
        }
        for link in &mut self.links {
            let sending = view.sending(link.what);
            push(link.series, (sending - link.last) as f64 / self.interval as f64);
            link.last = sending;
        }
        for moved in self.moved.iter_mut().filter(|moved| now <= moved.stop) {
            if let Some(bytes) = view.received(&moved.what) {
                moved.record.duration_ps = now.saturating_sub(moved.record.start_ps);
                moved.record.bytes = bytes - moved.before;
            }
        }
        let seconds = self.interval as f64 / SEC as f64;
        self.rates.retain_mut(|rate| {
            let received = view.received(&rate.what);
            let bytes = received.unwrap_or(rate.last);
            push(rate.series, (bytes - rate.last) as f64 * 8.0 / seconds);
            rate.last = bytes;
            received.is_some()
        });
        self.windows.retain(|(flow, series)| {
            let cwnd = view.cwnd(flow);
            cwnd.inspect(|&packets| push(*series, f64::from(packets))).is_some()
        });
    }

    /// The counters as they are at time 0.
    pub fn begin(&mut self, view: &impl View) {
        for link in &mut self.links {
            link.last = view.sending(link.what);
        }
        for rate in &mut self.rates {
            rate.last = view.received(&rate.what).unwrap_or_default();
        }
        for moved in &mut self.moved {
            moved.before = view.received(&moved.what).unwrap_or_default();
        }
    }

    /// Payload that long flows have moved so far.
    pub fn goodput(&self) -> Vec<GoodputRecord> {
        self.moved.iter().map(|moved| moved.record).filter(|record| record.duration_ps > 0).collect()
    }

    /// Takes down that it looks at nothing that depends on the time.
    pub fn encode(&self, state: &mut Encoder) {
        let Self {
            interval: _,
            flow_rates: _,
            cwnd: _,
            queues,
            links,
            flow_rate,
            owd_pairs,
            rates,
            windows,
            moved,
            names: _,
            flows: _,
            requests: _,
            exchanges: _,
            operations: _,
            collectives: _,
            gather: _,
            samples: _,
            open: _,
            requests_open: _,
            request_count: _,
        } = self;
        let none = queues.is_empty() && links.is_empty() && flow_rate.is_empty() && owd_pairs.is_empty();
        if !(none && rates.is_empty() && windows.is_empty()) {
            state.refuse("values are recorded over time (measure)");
        }
        if !moved.is_empty() {
            state.refuse("flows without an end are beside them");
        }
    }

    /// Samples that cells have taken.
    pub fn add_samples(&mut self, samples: &mut Vec<Sample>) {
        self.samples.append(samples);
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

    /// Exchanges over since the last call.
    pub fn take_exchanges(&mut self) -> Vec<ExchangeRecord> {
        std::mem::take(&mut self.exchanges)
    }

    /// Operations complete since the last call.
    pub fn take_operations(&mut self) -> Vec<OperationRecord> {
        std::mem::take(&mut self.operations)
    }

    /// Collectives complete since the last call.
    pub fn take_collectives(&mut self) -> Vec<CollectiveRecord> {
        std::mem::take(&mut self.collectives)
    }

    /// Samples since the last call.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        let mut samples = std::mem::take(&mut self.samples);
        // One series comes from one place, in order.
        samples.sort_by_key(|sample| (sample.time_ps, sample.series));
        samples
    }
}
