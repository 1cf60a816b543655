//! Counters of the kernel: links, queues, TCP.

use super::cluster::{BELOW_LINK, Cluster, LINK};
use super::{Result, at};
use crate::plan::{interface, is_host};
use crate::sys;
use onramp_config::units::{NS, Ps, US};
use onramp_netlink::message::{u32_at, u64_at};
use onramp_netlink::qdisc::{self, Qdisc};
use onramp_records::LinkRecord;
use onramp_records::counters::{NetworkCounters, PortOrder, Spread};
use onramp_topology::{Port, PortId, Topology};
use std::collections::BTreeMap;
use std::os::fd::AsFd;

/// Bytes of what a slot is as long as.
const FULL_PACKET: u64 = 1514;

/// Buckets of an octave in the histogram of `link`, see `testbed/kernel/pkt_link.h`.
const PARTS: usize = 16;

/// Places of the histograms there: of waits, of slots, of drop events by so many flows each.
const WAITS: usize = 320;
const SLOTS: usize = 17;
const EVENTS: usize = 64;
const FLOWS: usize = 8;

/// `struct tc_link_xstats`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets put on the wire.
    pub packets: u64,
    /// Bytes that have crossed it.
    bytes: u64,
    /// Time the wire was in use.
    pub busy_ns: u64,
    wait_sum_ns: u64,
    wait_max_ns: u64,
    /// Packets by how long they waited.
    wait: Vec<u32>,
    /// Packets with data, those that followed another flow's, slots by the packets that came, and drop events by the
    /// flows hit.
    data: u64,
    changes: u64,
    slots: Vec<u32>,
    events: Vec<u32>,
}

/// Counters of a `link`.
pub fn link_stats(qdisc: &Qdisc) -> LinkStats {
    let extra = &qdisc.extra;
    let number = |i: usize| u64_at(extra, 8 * i).unwrap_or_default();
    let numbers = |from: usize, count: usize| (0..count).map_while(move |i| u32_at(extra, from + 4 * i)).collect();
    let order = 32 + 4 * WAITS;
    LinkStats {
        packets: number(0),
        bytes: qdisc.bytes,
        busy_ns: number(1),
        wait_sum_ns: number(2),
        wait_max_ns: number(3),
        wait: numbers(32, WAITS),
        data: u64_at(extra, order).unwrap_or_default(),
        changes: u64_at(extra, order + 8).unwrap_or_default(),
        slots: numbers(order + 16, SLOTS),
        events: numbers(order + 16 + 4 * SLOTS, EVENTS),
    }
}

/// Where a bucket of the histogram begins, in nanoseconds.
fn begins(bucket: usize) -> u64 {
    ((PARTS + bucket % PARTS) as u64) << (bucket / PARTS + 2)
}

impl LinkStats {
    /// Difference since `before`; the maximum is that of all time.
    fn since(mut self, before: &LinkStats) -> Self {
        self.packets -= before.packets;
        self.bytes -= before.bytes;
        self.busy_ns -= before.busy_ns;
        self.wait_sum_ns -= before.wait_sum_ns;
        self.data -= before.data;
        self.changes -= before.changes;
        let pairs =
            [(&mut self.wait, &before.wait), (&mut self.slots, &before.slots), (&mut self.events, &before.events)];
        for (now, before) in pairs {
            now.iter_mut().zip(before).for_each(|(now, before)| *now -= before);
        }
        self
    }

    fn add(&mut self, other: &LinkStats) {
        self.packets += other.packets;
        self.wait_sum_ns += other.wait_sum_ns;
        self.wait_max_ns = self.wait_max_ns.max(other.wait_max_ns);
        self.wait.resize(self.wait.len().max(other.wait.len()), 0);
        self.wait.iter_mut().zip(&other.wait).for_each(|(sum, part)| *sum += part);
    }

    /// The wait that a share of the packets did not exceed, in nanoseconds.
    fn quantile(&self, share: f64) -> u64 {
        let total: u64 = self.wait.iter().map(|n| u64::from(*n)).sum();
        let mut left = (share * total as f64).ceil() as u64;
        for (bucket, count) in self.wait.iter().enumerate() {
            left = left.saturating_sub(u64::from(*count));
            if left == 0 {
                // The first bucket also has what did not wait at all.
                let middle = if bucket == 0 { 0 } else { (begins(bucket) + begins(bucket + 1)) / 2 };
                return middle.min(self.wait_max_ns);
            }
        }
        self.wait_max_ns
    }
}

/// Counters of the whole cluster at one time.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    links: Vec<LinkStats>,
    drops: Vec<u64>,
    marked: Vec<u64>,
    retransmitted: u64,
    timeouts: u64,
}

/// Packets that crossed a link so far.
pub fn packet_hops(cluster: &mut Cluster) -> Result<u64> {
    let mut sum = 0;
    for node in &mut cluster.nodes {
        let all = qdisc::list(&mut node.socket).map_err(|e| e.to_string())?;
        sum += all.iter().filter(|q| q.kind == "link").map(|q| link_stats(q).packets).sum::<u64>();
    }
    Ok(sum)
}

impl Counters {
    /// Reads all.
    pub fn read(cluster: &mut Cluster, topology: &Topology) -> Result<Self> {
        let mut found = Counters::default();
        let mut by_port: BTreeMap<(u32, u32), PortId> = BTreeMap::new();
        for (id, port) in (0..).zip(topology.ports()) {
            by_port.insert((port.from, interface(topology, id)), id);
        }
        found.links.resize(topology.ports().len(), LinkStats::default());
        found.drops.resize(topology.ports().len(), 0);
        found.marked.resize(topology.ports().len(), 0);
        for (id, node) in (0..).zip(&mut cluster.nodes) {
            for qdisc in qdisc::list(&mut node.socket).map_err(|e| e.to_string())? {
                let Some(&port) = by_port.get(&(id, qdisc.index)) else { continue };
                if qdisc.handle == LINK {
                    found.links[port as usize] = link_stats(&qdisc);
                } else if qdisc.parent == BELOW_LINK {
                    found.drops[port as usize] = u64::from(qdisc.drops);
                    if qdisc.kind == "red" {
                        // struct tc_red_xstats: early, pdrop, other, marked.
                        found.marked[port as usize] = u64::from(u32_at(&qdisc.extra, 12).unwrap_or_default());
                    }
                }
            }
            if is_host(topology, id) {
                sys::enter_network(node.namespace.as_fd()).map_err(at("network namespace"))?;
                found.retransmitted += proc_counter("/proc/net/snmp", "Tcp:", "RetransSegs")?;
                found.timeouts += proc_counter("/proc/net/netstat", "TcpExt:", "TCPTimeouts")?;
            }
        }
        Ok(found)
    }

    /// Difference since `before`.
    pub fn since(mut self, before: &Counters) -> Self {
        self.links = self.links.into_iter().zip(&before.links).map(|(now, before)| now.since(before)).collect();
        self.drops.iter_mut().zip(&before.drops).for_each(|(now, before)| *now -= before);
        self.marked.iter_mut().zip(&before.marked).for_each(|(now, before)| *now -= before);
        self.retransmitted -= before.retransmitted;
        self.timeouts -= before.timeouts;
        self
    }

    /// Packets that crossed a link.
    pub fn packet_hops(&self) -> u64 {
        self.links.iter().map(|link| link.packets).sum()
    }

    /// Order of packets at a port; drop events are known to eight flows, and shown as of their middle.
    pub fn order(&self, topology: &Topology, port: PortId) -> PortOrder {
        let link = &self.links[port as usize];
        let some = |counts: &[u32]| -> Vec<(usize, u64)> {
            let all = counts.iter().enumerate().filter(|(_, count)| **count > 0);
            all.map(|(i, count)| (i, u64::from(*count))).collect()
        };
        // No event hits nobody: the first place has those of one to seven flows.
        let middle = |i| if i == 0 { FLOWS as f64 / 2.0 } else { (i * FLOWS) as f64 + (FLOWS - 1) as f64 / 2.0 };
        PortOrder {
            packets: link.data,
            changes: link.changes,
            drops: self.drops[port as usize],
            drop_events: some(&link.events).into_iter().map(|(i, count)| (middle(i), count)).collect(),
            slot_ns: topology.ports()[port as usize].rate.time_for(FULL_PACKET) / NS,
            slots: some(&link.slots).into_iter().map(|(i, count)| (i as u64, count)).collect(),
        }
    }

    /// Links, in the order of the topology's ports, over a run that took `span`. They lose, trim and pause nothing.
    pub fn links(&self, topology: &Topology, span: Ps) -> Vec<LinkRecord> {
        let counted = self.links.iter().zip(self.drops.iter().zip(&self.marked));
        let record = |(port, (link, (&drops, &marked))): (&Port, (&LinkStats, _))| LinkRecord {
            from: port.from,
            to: port.to,
            rate: port.rate.0,
            bytes: link.bytes,
            packets: Some(link.packets),
            utilization: link.busy_ns as f64 / (span as f64 / 1000.0).max(1.0),
            drops,
            lost: 0,
            trims: 0,
            marked,
            pauses: 0,
            paused_ps: 0,
            queue: None,
        };
        topology.ports().iter().zip(counted).map(record).collect()
    }

    /// Counters of links and queues, over a run that took `span`.
    pub fn network(&self, topology: &Topology, span: Ps) -> NetworkCounters {
        let mut queues = LinkStats::default();
        let share = |(link, id): (LinkRecord, PortId)| (topology.port_name(id), link.utilization);
        let utilization = self.links(topology, span).into_iter().zip(0..).map(share).collect();
        let (mut sent, mut port_drops, mut host_drops) = (0, 0, 0);
        for (id, port) in (0..).zip(topology.ports()) {
            let link = &self.links[id as usize];
            if is_host(topology, port.from) {
                sent += link.packets;
                host_drops += self.drops[id as usize];
            } else {
                queues.add(link);
                port_drops += self.drops[id as usize];
            }
        }
        let us = |ns: u64| ns as f64 / 1000.0;
        NetworkCounters {
            packets_sent: sent,
            drops: port_drops,
            host_drops: Some(host_drops),
            ecn_marked: self.marked.iter().sum(),
            retransmitted_packets: self.retransmitted,
            timeouts: self.timeouts,
            utilization,
            queue_us: Spread {
                mean: us(queues.wait_sum_ns) / queues.packets.max(1) as f64,
                p50: us(queues.quantile(0.5)),
                p99: us(queues.quantile(0.99)),
                max: us(queues.wait_max_ns),
            },
            ..NetworkCounters::default()
        }
    }
}

/// A number of one of the kernel's tables of two lines each: names, then values.
fn proc_counter(file: &str, group: &str, name: &str) -> Result<u64> {
    let text = std::fs::read_to_string(file).map_err(at(file))?;
    counter(&text, group, name).ok_or_else(|| format!("{file}: has no {group} {name}"))
}

fn counter(text: &str, group: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(group)).map(str::split_whitespace);
    let (mut names, mut values) = (lines.next()?, lines.next()?);
    let at = names.position(|n| n == name)?;
    values.nth(at)?.parse().ok()
}

/// Time in microseconds.
pub fn us(time: Ps) -> f64 {
    time as f64 / US as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let text = "Ip: A B\nIp: 1 2\nTcp: MaxConn RetransSegs\nTcp: -1 17\n";
        assert_eq!(counter(text, "Tcp:", "RetransSegs"), Some(17));
        assert_eq!(counter(text, "Tcp:", "MaxConn"), None);
        assert_eq!(counter(text, "Udp:", "RetransSegs"), None);
        assert_eq!(counter("Tcp: A B\nTcp: 1", "Tcp:", "B"), None);
    }

    #[test]
    fn quantiles_come_from_the_histogram() {
        assert_eq!(begins(0), 64);
        assert_eq!(begins(16), 128);
        assert_eq!(begins(17), 136);
        let mut wait = vec![0; 320];
        (wait[0], wait[16], wait[32]) = (50, 49, 1);
        let link = LinkStats { packets: 100, wait_max_ns: 260, wait, ..LinkStats::default() };
        assert_eq!(link.quantile(0.5), 0);
        assert_eq!(link.quantile(0.99), 132);
        assert_eq!(link.quantile(1.0), 260);
    }

    #[test]
    fn the_structure_of_the_qdisc_is_read() {
        let mut extra: Vec<u8> = [5u64, 700, 90, 40].iter().flat_map(|n| n.to_ne_bytes()).collect();
        extra.extend([1u32, 2, 3].iter().flat_map(|n| n.to_ne_bytes()));
        extra.resize(32 + 4 * WAITS, 0);
        extra.extend([60u64, 7].iter().flat_map(|n| n.to_ne_bytes()));
        extra.extend([4u32, 5].iter().flat_map(|n| n.to_ne_bytes()));
        extra.resize(32 + 4 * WAITS + 16 + 4 * SLOTS, 0);
        extra.extend(9u32.to_ne_bytes());
        let stats = link_stats(&Qdisc { extra, ..Qdisc::default() });
        assert_eq!((stats.packets, stats.busy_ns, stats.wait_sum_ns, stats.wait_max_ns), (5, 700, 90, 40));
        assert_eq!((&stats.wait[..4], stats.wait.len()), (&[1, 2, 3, 0][..], WAITS));
        assert_eq!(
            (stats.data, stats.changes, &stats.slots[..3], &stats.events[..]),
            (60, 7, &[4, 5, 0][..], &[9][..])
        );
        assert_eq!(link_stats(&Qdisc::default()), LinkStats::default());
    }
}
