//! What a run comes to: the parts of `summary.json` that do not come from flows.

use super::run::{CellBox, Engine, Run};
use crate::clock::Clocks;
use crate::host::config::ShaperKind;
use crate::host::shaper::Held;
use crate::measure::{Delays, Shaped, View};
use crate::network::feedback::Feedback;
use crate::{host, network};
use onramp_config::units::{Ps, US};
use onramp_topology::PortId;
use serde_json::{Value, json};
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
    pub(super) fn summary(&self) -> Value {
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
        if self.desk.programs > 0 {
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
