//! Where packets enter and leave a host: they can be listened to.
//!
//! The kernel tells of a packet that leaves when it has crossed the host's cable, since that is
//! where the cable's qdisc hands it on, cut up as by a NIC. Rate and delay are known, so the time is
//! put back to when its first bit left.

use super::cluster::Cluster;
use crate::plan::{HOST_INTERFACE, LISTEN, address};
use crate::sys::{self, Passed, Ring};
use onramp_config::units::{NS, Ps};
use onramp_sim::measure::trace::frame::{Found, Key, parse};
use onramp_topology::{Port, Topology};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;

/// A host that is listened to.
#[derive(Debug)]
pub struct Edge {
    /// Its address.
    pub address: Ipv4Addr,
    cable: Port,
    ring: Ring,
    day_ahead_ns: i64,
}

impl Edge {
    /// Listens to a host from now on.
    pub fn listen(host: u32, cluster: &Cluster, topology: &Topology) -> io::Result<Self> {
        sys::enter_network(cluster.nodes[host as usize].namespace.as_fd())?;
        let cable = topology.ports()[topology.ports_of(host)[0] as usize].clone();
        let (ring, day_ahead_ns) = (Ring::new(HOST_INTERFACE)?, sys::day_ahead_ns());
        Ok(Self { address: address(host), cable, ring, day_ahead_ns })
    }

    /// Hands on the packets of connections that have passed since the last call, with their times by the kernel's
    /// clock in nanoseconds. Those that leave come later than others of the same time.
    pub fn take(&mut self, mut each: impl FnMut(u64, &Passed<'_>, Key, Found)) {
        let Self { ring, cable, day_ahead_ns, .. } = self;
        ring.take(|passed| {
            let Some((key, found)) = parse(passed.bytes, LISTEN) else { return };
            let told_ns = passed.at_ns.saturating_add_signed(-*day_ahead_ns);
            let crossing = if passed.leaves { crossing(cable, passed.length) } else { 0 };
            each(told_ns.saturating_sub(crossing / NS), &passed, key, found);
        });
    }

    /// How much later at most is told of what leaves, in packets of so many bytes.
    pub fn most_late(&self, length: u32) -> Ps {
        crossing(&self.cable, length)
    }

    /// Packets since the last call for which there was no room.
    pub fn lost(&self) -> io::Result<u32> {
        self.ring.lost()
    }
}

fn crossing(cable: &Port, length: u32) -> Ps {
    cable.delay + cable.rate.time_for(u64::from(length))
}
