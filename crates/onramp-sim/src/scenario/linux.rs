//! Hosts and ports as Linux has them, on the cluster and simulated.

use super::Scenario;
use crate::cc;
use crate::host::config::{Host, Pacing};
use crate::host::qdisc::HostQdisc;
use crate::network::config::PortBuffer;
use crate::stack::tcp::{HEADERS, Params};
use onramp_config::Rule;
use onramp_config::units::US;
use onramp_config::units::{Bytes, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Headers of IPv4 and TCP with time stamps, which the MTU counts.
pub(super) const MTU_HEADERS: u64 = HEADERS as u64 - 14;

/// Largest segment the kernel hands to a device.
const MAX_GSO: Bytes = Bytes(65_536);

/// Hosts and ports as Linux has them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Linux {
    /// Drop-tail buffer of each switch port, in bytes. Default: see `buffer_packets`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<Bytes>,
    /// Drop-tail buffer of each switch port, in packets. Default 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer_packets: Option<u32>,
    /// Queueing discipline of hosts without On-Ramp. Default `"fq"` for bbr, else `"fq_codel"`.
    pub qdisc: Option<HostQdisc>,
    /// Largest segment that leaves the hosts' stack; the NIC cuts it up. Default 64 KiB.
    pub gso_max_size: Bytes,
    /// Largest IP packet on every link. Default 1500 B.
    pub mtu: Bytes,
    /// An OR-ACK for every this many bytes of a flow, a power of two. Default 16 KiB.
    pub or_ack_interval: Bytes,
    /// Least time between two OR-ACKs of a flow. Default 100 µs.
    pub or_ack_gap: Span,
    /// Has On-Ramp cut segments into packets where delays are above its threshold; without, they leave whole, as the
    /// paper's do. Default true.
    pub cut_segments: bool,
    /// Packets that a connection begins with. Default 10.
    pub initial_window: u32,
    /// Further settings of every host by the kernel's names, such as `"net.ipv4.tcp_slow_start_after_idle" = "0"`.
    pub sysctl: BTreeMap<String, String>,
}

impl Default for Linux {
    fn default() -> Self {
        Self {
            buffer: None,
            buffer_packets: None,
            qdisc: None,
            gso_max_size: MAX_GSO,
            mtu: Bytes(1500),
            or_ack_interval: Bytes(16 << 10),
            or_ack_gap: Span(100 * US),
            cut_segments: true,
            initial_window: 10,
            sysctl: BTreeMap::new(),
        }
    }
}

impl Linux {
    /// Writes out what depends on the rest of the scenario.
    pub(super) fn resolve(&mut self, transport: &cc::Config, host: &Host) {
        if self.buffer.is_none() {
            self.buffer_packets.get_or_insert(1000);
        }
        let bbr = matches!(transport, cc::Config::Bbr(_));
        self.qdisc.get_or_insert(match host.pacing {
            Pacing::Packet | Pacing::Burst => HostQdisc::Fq,
            Pacing::Egress => HostQdisc::Egress,
            Pacing::None if bbr => HostQdisc::Fq,
            Pacing::None => HostQdisc::FqCodel,
        });
        if host.pacing != Pacing::None {
            // Segments of one size, whatever the rate: what is paced is the segment.
            let mss = self.mtu.0 - MTU_HEADERS;
            let packets = if host.pacing == Pacing::Burst { (host.pacing().max_burst.0 / mss).clamp(1, 44) } else { 1 };
            self.gso_max_size = Bytes(packets * mss + MTU_HEADERS);
            self.sysctl.insert("net.ipv4.tcp_min_tso_segs".into(), packets.to_string());
        }
    }

    /// The buffer of a switch port.
    pub fn port_buffer(&self) -> PortBuffer {
        match self.buffer {
            Some(bytes) => PortBuffer::Bytes(bytes.0),
            None => PortBuffer::Packets(self.buffer_packets.unwrap_or(1000)),
        }
    }
}

pub(super) fn check(s: &Scenario, rule: Rule<'_>) {
    let Some(linux) = &s.linux else { return };
    if !s.is_tcp() {
        return rule(false, "linux", format!("has no effect with transport \"{}\"", s.transport.kind()));
    }
    let egress = (linux.qdisc == Some(HostQdisc::Egress), s.host.pacing == Pacing::Egress);
    let message = "goes with host.pacing = \"egress\", and that with no other: leave it out";
    rule(linux.qdisc.is_none() || egress.0 == egress.1, "linux.qdisc", message.into());
    let one = linux.buffer.is_none() || linux.buffer_packets.is_none();
    rule(one, "linux.buffer", "is given twice: write buffer or buffer_packets".into());
    let range = Bytes(1500)..=Bytes(1 << 30);
    let fits = linux.buffer.is_none_or(|b| range.contains(&b));
    rule(fits, "linux.buffer", "is outside 1500B to 1GiB: such as \"1500KB\"".into());
    let fits = linux.buffer_packets.is_none_or(|n| (1..=1_000_000).contains(&n));
    rule(fits, "linux.buffer_packets", "is outside 1 to 1000000: such as 1000".into());
    let mtu = linux.mtu;
    rule((Bytes(576)..=Bytes(9000)).contains(&mtu), "linux.mtu", format!("{mtu} is outside 576B to 9000B"));
    let gso = linux.gso_max_size;
    let fits = (mtu..=MAX_GSO).contains(&gso);
    rule(fits, "linux.gso_max_size", format!("{gso} is outside the MTU, {mtu}, to {MAX_GSO}: such as \"16KiB\""));
    let interval = linux.or_ack_interval;
    let fits = interval.0.is_power_of_two() && (Bytes(1 << 10)..=Bytes(1 << 20)).contains(&interval);
    rule(fits, "linux.or_ack_interval", format!("{interval} is no power of two from 1KiB to 1MiB: such as \"16KiB\""));
    let window = linux.initial_window;
    rule((1..=1000).contains(&window), "linux.initial_window", format!("{window} is outside 1 to 1000"));
    for (key, value) in &linux.sysctl {
        let good = key.starts_with("net.") && !key.contains("..") && !key.contains('/') && !key.ends_with('.');
        rule(good, "linux.sysctl", format!("\"{key}\" is not one of a host's: such as \"net.ipv4.tcp_ecn\""));
        if let Err(message) = Params::default().set(key, value) {
            rule(false, "linux.sysctl", format!("{key}: {message}"));
        }
    }
}
