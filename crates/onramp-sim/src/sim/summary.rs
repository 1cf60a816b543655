//! Counters of a run: the parts of `summary.json` that do not come from flows.

use super::deadlock;
use super::run::{CellBox, Engine, Run};
use crate::clock::Clocks;
use crate::host::shaper::Held;
use crate::measure::{Delays, Shaped, View};
use crate::network::Order;
use crate::network::feedback::Feedback;
use crate::{host, network};
use onramp_config::units::{Ps, US};
use onramp_records::LinkRecord;
use onramp_records::counters::{
    ClockCounters, Counters, EngineCounters, NetworkCounters, OnRampCounters, OwdCounters, ShaperCounters, Spread,
    Unfinished,
};
use onramp_topology::{Port, PortId};
use std::collections::BTreeMap;

/// Counters of all cells.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub network: network::Counts,
    pub hosts: host::Counts,
    pub or_acks: u64,
    pub pauses: u64,
    pub paused: Ps,
}

pub(super) fn totals<F: Feedback>(cells: &[CellBox<F>], now: Ps) -> Totals {
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

impl<F: Feedback> Engine<F> {
    pub(super) fn summary(&self) -> Counters {
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
        let Spread { mean, p50, p99, max } = owd.summary();
        let is_tcp = self.desk.is_tcp.contains(&true);
        let takes_time = self.cells.iter().any(|cell| cell.hosts.take_time());
        let open = || self.cells.iter().map(|cell| cell.hosts.exchanges_open()).sum();
        let look = self.look();
        let order = |name: &String| {
            let (network, place) = look.port(self.desk.topology.port_named(name).expect("the scenario was checked"));
            (name.clone(), network.order(place).map(Order::summary))
        };
        Counters {
            network: NetworkCounters {
                packets_sent: all.network.sent - before.network.sent,
                drops: all.network.dropped - before.network.dropped,
                trims: self
                    .cells
                    .iter()
                    .any(|cell| cell.network.trims())
                    .then_some(all.network.trimmed - before.network.trimmed),
                endpoint_drops: takes_time.then_some(all.hosts.dropped - before.hosts.dropped),
                host_drops: None,
                ecn_marked: all.network.marked - before.network.marked,
                retransmitted_packets: all.hosts.retransmitted - before.hosts.retransmitted,
                timeouts: all.hosts.timeouts - before.hosts.timeouts,
                pfc_pauses: pauses.0,
                pfc_paused_us: us(pauses.1),
                pfc_deadlock: deadlock::cycle(&look),
                utilization: self.utilization(),
                queue_us: queue.summary(),
            },
            onramp_stats: OnRampCounters {
                or_acks: all.or_acks - before.or_acks,
                pauses: all.pauses - before.pauses,
                paused_us: us(all.paused.saturating_sub(before.paused)),
                owd_us: OwdCounters {
                    samples: owd.count(),
                    mean: Some(mean),
                    min: None,
                    p50: Some(p50),
                    p99: Some(p99),
                    max: Some(max),
                },
                agents: BTreeMap::new(),
            },
            engine: EngineCounters {
                simulated_us: us(self.now()),
                packet_hops: all.network.hops,
                connections_opened_before: is_tcp.then_some(all.hosts.opened_before),
                connections_opened_late: is_tcp.then_some(all.hosts.opened_late),
                kernel: None,
            },
            unfinished: Unfinished {
                flows: self.unfinished_flows().len() as u64,
                requests: self.desk.recorder.requests_open() as u64,
                exchanges: (self.desk.programs > 0).then(open),
            },
            order: self.desk.ordered.iter().map(order).collect(),
            rtt_us: rtts.iter().map(Delays::distribution).collect(),
            shaper: self.shaper(),
            shaping: self.cells[0].meter.shaped.is_some().then(|| {
                let cells = self.cells.iter().filter_map(|cell| cell.meter.shaped.as_deref());
                Shaped::summary(cells, now)
            }),
            clock: self.clock(),
            series_names: None,
        }
    }

    fn shaper(&self) -> Option<ShaperCounters> {
        if !self.desk.shaper.holds() {
            return None;
        }
        let held = Held::largest(self.cells.iter().map(|cell| cell.hosts.held()));
        Some(ShaperCounters {
            held_packets: held.most_packets,
            held_bytes: held.most_bytes,
            structure_bytes: held.memory,
        })
    }

    fn clock(&self) -> Option<ClockCounters> {
        let Clocks::Running(clocks) = &self.cells.first()?.clocks else { return None };
        let ports = self.desk.topology.ports().iter().filter(|port| self.desk.topology.is_host(port.from));
        let clock = clocks.summary(self.desk.now, ports.map(|port| port.rate.0 as f64).sum());
        let thresholds = self.cells[0].hosts.gates().find_map(|gates| gates.thresholds());
        Some(ClockCounters { threshold_us: thresholds.map(Delays::summary), ..clock })
    }

    /// Links so far, in the order of ports.
    pub(super) fn links(&self) -> Vec<LinkRecord> {
        let (look, now) = (self.look(), self.now().max(1));
        let link = |(id, port): (PortId, &Port)| {
            let (network, place) = look.port(id);
            let (behind, end) = look.port(port.reverse);
            let fates = network.fates(place);
            let (pauses, paused_ps) = network.pauses_of(place, self.desk.now);
            LinkRecord {
                from: port.from,
                to: port.to,
                rate: port.rate.0,
                bytes: network.sent(place),
                packets: None,
                utilization: look.sending(id) as f64 / now as f64,
                drops: fates.dropped,
                lost: behind.fates(end).lost,
                trims: fates.trimmed,
                marked: fates.marked,
                pauses,
                paused_ps,
                queue: Some(network.deepest(place)),
            }
        };
        (0..).zip(self.desk.topology.ports()).map(link).collect()
    }

    /// Utilization of links so far: one by one in a small network, else mean and maximum by kind of link.
    fn utilization(&self) -> BTreeMap<String, f64> {
        const FEW: usize = 64;
        let topology = &self.desk.topology;
        let links = self.links();
        let mut all = BTreeMap::new();
        if links.len() <= FEW {
            all.extend(links.iter().zip(0..).map(|(link, port)| (topology.port_name(port), link.utilization)));
            return all;
        }
        let mut tiers: BTreeMap<String, Vec<f64>> = Default::default();
        for link in &links {
            tiers
                .entry(format!("{}->{}", topology.group(link.from), topology.group(link.to)))
                .or_default()
                .push(link.utilization);
        }
        for (name, shares) in tiers {
            all.insert(format!("{name} mean"), shares.iter().sum::<f64>() / shares.len() as f64);
            all.insert(format!("{name} max"), shares.iter().fold(0.0, |a: f64, b| a.max(*b)));
        }
        all
    }
}
