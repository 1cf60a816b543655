//! Hosts and switches as network namespaces, and the links between them.

use super::{Result, at, files};
use crate::plan::{NEIGHBOUR, address, interface, interface_name, is_host, mac};
use crate::sys;
use onramp_netlink::address::{Hop, Own, add, add_neighbour, add_route};
use onramp_netlink::link::{End, add_veth, up};
use onramp_netlink::qdisc::{self, Place, ROOT, handle};
use onramp_netlink::{Message, Socket};
use onramp_sim::cc;
use onramp_sim::scenario::{Ecn, Linux, PortBuffer, Scenario};
use onramp_topology::{NodeId, Port, PortId, Topology};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

/// The wire of every interface.
pub const LINK: u32 = handle(1, 0);
/// Its only class, where its queue is.
pub const BELOW_LINK: u32 = handle(1, 1);
/// The queue.
pub const QUEUE: u32 = handle(2, 0);

/// Attributes of the qdisc `link`, see `testbed/kernel/pkt_link.h`.
const TCA_LINK_RATE64: u16 = 2;
const TCA_LINK_DELAY64: u16 = 3;
const TCA_LINK_ORDER: u16 = 4;

/// Work that follows when links come up would delay connections' openings, whose round trip TCP begins with.
const SETTLE: Duration = Duration::from_millis(50);

/// A host or switch.
#[derive(Debug)]
pub struct Node {
    /// Its network namespace.
    pub namespace: OwnedFd,
    /// Talks to the kernel in that namespace.
    pub socket: Socket,
}

/// All hosts, then all switches.
#[derive(Debug)]
pub struct Cluster {
    /// By [`NodeId`].
    pub nodes: Vec<Node>,
}

impl Cluster {
    /// Builds the network of a scenario.
    pub fn new(scenario: &Scenario, topology: &Topology) -> Result<Self> {
        let linux = scenario.linux.as_ref().expect("a scenario for Linux has this section");
        sys::allow_files(1 << 20).map_err(at("limit on open files"))?;
        for (name, value) in everywhere(scenario) {
            files::set(name, &value)?;
        }
        let mut outside = Socket::open().map_err(at("netlink"))?;
        let nodes = (0..topology.nodes() as NodeId).map(|id| node(id, linux, topology)).collect::<Result<_>>()?;
        let mut cluster = Self { nodes };
        for (id, port) in (0..).zip(topology.ports()) {
            if id < port.reverse {
                cluster.add_link(&mut outside, id, linux, topology)?;
            }
        }
        let ports = 0..topology.ports().len() as PortId;
        for id in ports.clone() {
            cluster.switch_on(id, topology).map_err(|e| format!("{}: {e}", topology.port_name(id)))?;
        }
        // Only when both ends are up: a queue begins to work when its link is up, but the kernel takes note
        // of links that come up later only by the hundred and once a second.
        for id in ports {
            let done = cluster.add_queues(id, scenario, linux, topology);
            done.map_err(|e| format!("{}: {e}", topology.port_name(id)))?;
        }
        for id in 0..topology.nodes() as NodeId {
            cluster.add_routes(id, linux, topology).map_err(|e| e.to_string())?;
        }
        std::thread::sleep(SETTLE);
        Ok(cluster)
    }

    /// The netlink socket of the node that has a port.
    pub fn socket_of(&mut self, port: &Port) -> &mut Socket {
        &mut self.nodes[port.from as usize].socket
    }

    fn add_link(&self, outside: &mut Socket, port: PortId, linux: &Linux, topology: &Topology) -> Result<()> {
        let reverse = topology.ports()[port as usize].reverse;
        let names = [port, reverse].map(|id| interface_name(topology, id));
        let end = |id: PortId, name| End {
            name,
            index: interface(topology, id),
            namespace: self.nodes[topology.ports()[id as usize].from as usize].namespace.as_fd(),
            mac: mac(id),
            mtu: linux.mtu.0 as u32,
            gso_max_size: linux.gso_max_size.0 as u32,
        };
        add_veth(outside, &end(port, &names[0]), &end(reverse, &names[1])).map_err(|e| e.to_string())
    }

    fn switch_on(&mut self, id: PortId, topology: &Topology) -> onramp_netlink::Result<()> {
        let port = &topology.ports()[id as usize];
        let index = interface(topology, id);
        let socket = self.socket_of(port);
        up(socket, index)?;
        add_neighbour(socket, index, NEIGHBOUR, mac(port.reverse))
    }

    /// Gives an interface its wire and its queue.
    fn add_queues(
        &mut self,
        id: PortId,
        scenario: &Scenario,
        linux: &Linux,
        topology: &Topology,
    ) -> onramp_netlink::Result<()> {
        let port = &topology.ports()[id as usize];
        let index = interface(topology, id);
        let socket = self.socket_of(port);
        let ordered = scenario.measure.order.contains(&topology.port_name(id));
        let wire = |m: Message| {
            let m = m.u64(TCA_LINK_RATE64, port.rate.0).u64(TCA_LINK_DELAY64, port.delay / 1000);
            if ordered { m.attr(TCA_LINK_ORDER, &[]) } else { m }
        };
        let root = Place { index, parent: ROOT, handle: LINK };
        let queue = Place { index, parent: BELOW_LINK, handle: QUEUE };
        qdisc::replace(socket, root, "link", wire)?;
        if is_host(topology, port.from) {
            return qdisc::replace_plain(socket, queue, linux.qdisc.expect("it is resolved").name(), &[]);
        }
        let marking = scenario.switch.ecn.iter().flatten().find(|e| e.rate == port.rate);
        let marking = marking.filter(|_| matches!(scenario.transport, cc::Config::DctcpTcp(_)));
        add_buffer(socket, queue, linux, marking)
    }

    fn add_routes(&mut self, id: NodeId, linux: &Linux, topology: &Topology) -> onramp_netlink::Result<()> {
        let socket = &mut self.nodes[id as usize].socket;
        let hop = |port| Hop { index: interface(topology, port), gateway: NEIGHBOUR };
        // The loopback: without any address of its own, a namespace refuses routes.
        up(socket, 1)?;
        if is_host(topology, id) {
            let port = topology.ports_of(id)[0];
            add(socket, interface(topology, port), address(id))?;
            let own = Own { source: address(id), initial_window: linux.initial_window };
            return add_route(socket, Ipv4Addr::UNSPECIFIED, 0, &[hop(port)], Some(own));
        }
        for host in 0..topology.hosts() as u32 {
            let hops: Vec<Hop> = topology.next_ports(id, host).map(hop).collect();
            add_route(socket, address(host), 32, &hops, None)?;
        }
        Ok(())
    }
}

/// The queue of a switch port: drop-tail, below marks from a threshold on if there are any.
fn add_buffer(socket: &mut Socket, place: Place, linux: &Linux, marking: Option<&Ecn>) -> onramp_netlink::Result<()> {
    let below = match marking {
        Some(ecn) => add_marks(socket, place, ecn)?,
        None => place,
    };
    match linux.port_buffer() {
        PortBuffer::Bytes(bytes) => qdisc::replace_plain(socket, below, "bfifo", &(bytes as u32).to_ne_bytes()),
        PortBuffer::Packets(count) => qdisc::replace_plain(socket, below, "pfifo", &count.to_ne_bytes()),
    }
}

/// Marks all that comes to a longer queue. Answers the place of the queue.
fn add_marks(socket: &mut Socket, place: Place, ecn: &Ecn) -> onramp_netlink::Result<Place> {
    const TCA_RED_PARMS: u16 = 1;
    const TCA_RED_STAB: u16 = 2;
    const TCA_RED_MAX_P: u16 = 3;
    const TCA_RED_FLAGS: u16 = 4;
    const TC_RED_ECN: u32 = 1;
    const TC_RED_NODROP: u32 = 8;
    // struct tc_red_qopt: limit, qth_min, qth_max, Wlog, Plog, Scell_log, flags. With
    // Wlog = 0 the "average" is the queue itself, and max = min + 1 makes the step.
    let threshold = ecn.kmin.0 as u32;
    // Without a limit of bytes; its queue has one.
    let mut parameters = [0, threshold, threshold + 1].map(u32::to_ne_bytes).concat();
    parameters.extend([0, 1, 0, 0]);
    // What cannot be marked, such as an OR-ACK, passes. A bit field: values, then which count.
    let flags = [TC_RED_ECN | TC_RED_NODROP; 2].map(u32::to_ne_bytes).concat();
    // An idle queue is empty: its average is forgotten at once.
    let forget = [31u8; 256];
    qdisc::replace(socket, place, "red", |m| {
        let m = m.attr(TCA_RED_PARMS, &parameters).attr(TCA_RED_STAB, &forget).u32(TCA_RED_MAX_P, u32::MAX);
        m.attr(TCA_RED_FLAGS, &flags)
    })?;
    Ok(Place { parent: place.handle | 1, handle: 0, ..place })
}

fn node(id: NodeId, linux: &Linux, topology: &Topology) -> Result<Node> {
    let named = |what: &str| format!("{}: {what}", topology.name(id));
    sys::new_network().map_err(at(named("network namespace")))?;
    if is_host(topology, id) {
        for (name, value) in &linux.sysctl {
            files::set(name, value)?;
        }
    } else {
        files::set("net.ipv4.ip_forward", "1")?;
        files::set("net.ipv4.fib_multipath_hash_policy", "1")?;
        // Else every switch would choose alike, and each run differently.
        files::set("net.ipv4.fib_multipath_hash_seed", &(id + 1).to_string())?;
    }
    let namespace = File::open("/proc/self/ns/net").map_err(at(named("network namespace")))?;
    let socket = Socket::open().map_err(at(named("netlink")))?;
    Ok(Node { namespace: namespace.into(), socket })
}

/// Settings of the first namespace, which all later ones take over.
fn everywhere(scenario: &Scenario) -> Vec<(&'static str, String)> {
    vec![
        (
            "net.ipv4.tcp_congestion_control",
            scenario.transport.kernel_name().expect("the scenario was checked for Linux").into(),
        ),
        // Packets in flight between namespaces at one instant. Wires and queues have limits of their own;
        // this one, of 1000 for the whole cluster, would lose what no network loses.
        ("net.core.netdev_max_backlog", i32::MAX.to_string()),
        // Pages of all sockets together: else a small guest drops what a host of its own would take.
        ("net.ipv4.tcp_mem", "4000000 4000000 4000000".into()),
        // Enough for 10 Gb/s with milliseconds of queue; autotuning starts where it always does.
        ("net.ipv4.tcp_rmem", "4096 131072 33554432".into()),
        // A flow of up to 4 MB is written in one piece: what waits in the socket is not sent any
        // earlier, and the CPU takes no time either way.
        ("net.ipv4.tcp_wmem", "4096 4194304 33554432".into()),
    ]
}
