//! Values over time: queues, utilization, rates and windows of long flows, one-way delays.

use super::agents::Agents;
use super::cluster::{Cluster, LINK, QUEUE};
use super::connections::Connections;
use super::counters::link_stats;
use super::{Result, at};
use crate::plan::interface;
use crate::sys;
use onramp_config::units::{NS, Ps, SEC};
use onramp_netlink::qdisc;
use onramp_records::Sample;
use onramp_sim::scenario::Measure;
use onramp_topology::{PortId, Topology};
use std::os::fd::AsFd;

/// A counter that is turned into a rate.
#[derive(Debug)]
struct Watched {
    series: u32,
    port: PortId,
    last: u64,
}

/// A long flow whose rate is recorded.
#[derive(Debug)]
struct Rate {
    series: u32,
    connection: u32,
    last: u64,
}

/// The way between two hosts whose one-way delay the sender's agent knows.
#[derive(Debug)]
struct Way {
    series: u32,
    src: u32,
    dst: u32,
}

/// Takes the samples.
#[derive(Debug)]
pub struct Series {
    interval: Ps,
    queues: Vec<(u32, PortId)>,
    links: Vec<Watched>,
    ways: Vec<Way>,
    flow_rates: bool,
    rates: Vec<Rate>,
    cwnd: bool,
    /// Series and connections.
    windows: Vec<(u32, u32)>,
    names: Vec<String>,
    samples: Vec<Sample>,
}

impl Series {
    /// Resolves what the scenario wants recorded; one-way delays only where there
    /// are `agents` that measure them.
    pub fn new(config: &Measure, topology: &Topology, agents: &Agents) -> Self {
        let mut names = Vec::new();
        let mut named = |what: &str, port: &String| {
            names.push(format!("{what} {port}"));
            let id = topology.port_named(port).expect("the scenario was checked");
            (names.len() as u32 - 1, id)
        };
        let queues = config.queues.iter().map(|port| named("queue", port)).collect();
        let links = config.links.iter().map(|port| named("utilization", port));
        let links = links.map(|(series, port)| Watched { series, port, last: 0 }).collect();
        let mut ways = Vec::new();
        for pair in &config.owd {
            let (src, dst) = pair.split_once("->").expect("the scenario was checked");
            let [src, dst] = [src, dst].map(|name| topology.host_named(name).expect("the scenario was checked"));
            if agents.is_on(src) && agents.is_on(dst) {
                ways.push(Way { series: names.len() as u32, src, dst });
                names.push(format!("owd {pair}"));
            }
        }
        Self {
            interval: config.interval.0,
            queues,
            links,
            ways,
            flow_rates: config.flow_rates,
            rates: vec![],
            cwnd: config.cwnd,
            windows: vec![],
            names,
            samples: vec![],
        }
    }

    /// Time between samples, if there is anything to sample.
    pub fn interval(&self) -> Option<Ps> {
        let flows = self.flow_rates || self.cwnd;
        let something = !self.queues.is_empty() || !self.links.is_empty() || !self.ways.is_empty() || flows;
        something.then_some(self.interval)
    }

    /// Starts recording the rate and the window of a long flow; `name` says between whom.
    pub fn watch_flow(&mut self, id: u64, name: &str, connection: u32) {
        let mut series = |what| {
            self.names.push(format!("{what} flow {id} {name}"));
            self.names.len() as u32 - 1
        };
        if self.flow_rates {
            self.rates.push(Rate { series: series("rate"), connection, last: 0 });
        }
        if self.cwnd {
            self.windows.push((series("cwnd"), connection));
        }
    }

    /// The flow on a connection is done.
    pub fn forget(&mut self, connection: u32) {
        self.rates.retain(|rate| rate.connection != connection);
        self.windows.retain(|(_, of)| *of != connection);
    }

    /// Time 0: rates count from here.
    pub fn begin(&mut self, cluster: &mut Cluster, topology: &Topology, connections: &Connections) -> Result<()> {
        for link in &mut self.links {
            link.last = link_stats(&ask(cluster, topology, link.port, LINK)?).busy_ns;
        }
        for rate in &mut self.rates {
            if let Some(socket) = &connections[rate.connection].receiver {
                rate.last = sys::tcp_info(socket.as_fd()).map_err(at("tcp_info"))?.received;
            }
        }
        Ok(())
    }

    /// Takes one sample of everything.
    pub fn sample(
        &mut self,
        now: Ps,
        cluster: &mut Cluster,
        topology: &Topology,
        agents: &Agents,
        connections: &Connections,
    ) -> Result<()> {
        let mut push = |series, value| self.samples.push(Sample { time_ps: now, series, value });
        for &(series, port) in &self.queues {
            push(series, f64::from(ask(cluster, topology, port, QUEUE)?.queued_bytes));
        }
        for link in &mut self.links {
            let busy = link_stats(&ask(cluster, topology, link.port, LINK)?).busy_ns;
            push(link.series, ((busy - link.last) * NS) as f64 / self.interval as f64);
            link.last = busy;
        }
        for way in &self.ways {
            // What no OR-ACK has renewed since the last sample is no news.
            let fresh = |(_, age): &(i64, u64)| age * NS <= self.interval;
            if let Some((owd_ns, _)) = agents.one_way_delay(way.src, way.dst)?.filter(fresh) {
                push(way.series, owd_ns as f64);
            }
        }
        for rate in &mut self.rates {
            let Some(socket) = &connections[rate.connection].receiver else { continue };
            let received = sys::tcp_info(socket.as_fd()).map_err(at("tcp_info"))?.received;
            push(rate.series, (received - rate.last) as f64 * 8.0 * SEC as f64 / self.interval as f64);
            rate.last = received;
        }
        for &(series, connection) in &self.windows {
            push(series, sys::tcp_info(connections[connection].sender.as_fd()).map_err(at("tcp_info"))?.cwnd.into());
        }
        Ok(())
    }

    /// All samples and the names of their series.
    pub fn finish(self) -> (Vec<Sample>, Vec<String>) {
        (self.samples, self.names)
    }
}

/// Statistics of a port's queueing discipline.
fn ask(cluster: &mut Cluster, topology: &Topology, port: PortId, handle: u32) -> Result<qdisc::Qdisc> {
    let p = &topology.ports()[port as usize];
    let found = qdisc::get(cluster.socket_of(p), interface(topology, port), handle).map_err(|e| e.to_string())?;
    found.ok_or_else(|| format!("the queueing discipline of {}: no answer", topology.port_name(port)))
}
