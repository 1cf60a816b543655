//! Servers with several GPUs: NVLink inside, a NIC for each GPU, leaves and spines between the servers.
//!
//! Each GPU is a host. Leaves are rails, one for the GPUs in the same place of all servers of a segment (NVIDIA's
//! Spectrum-X; HPN, SIGCOMM'24), or racks, one for all GPUs of some servers. With two planes a NIC has two ports, to
//! two leaves; planes have spines of their own, or share them (dual ToR). Ports are links of the host, each with flows
//! of its own, or of a node `nic0…`, which chooses one for each packet as a switch does.

use super::{Link, Listed, at_least_one, few_enough, possible};
use onramp_config::Mistake;
use onramp_config::units::{NS, Rate, Span, US};
use serde::{Deserialize, Serialize};

/// GPUs of a segment that share a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wiring {
    /// Those in the same place of their servers.
    Rails,
    /// All.
    Racks,
}

/// Sizes of a network of servers; the default has 16 servers with 8 GPUs each, and no oversubscription.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Servers. Default 16.
    pub servers: u32,
    /// GPUs of a server. Default 8.
    pub gpus: u32,
    /// Servers that share leaves. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub segment: Option<u32>,
    /// GPUs of a segment that share a leaf. Default "rails".
    pub wiring: Wiring,
    /// Ports of a NIC, each to a leaf of its own. Default 1.
    pub planes: u32,
    /// A NIC chooses a port for each packet by its entropy value, among those that are up. Default false: flows keep to
    /// a port.
    pub bond: bool,
    /// The planes share their spines (dual ToR). Default false.
    pub shared_spines: bool,
    /// Spines, of each plane or shared. Default 8.
    pub spines: u32,
    /// Rate of each port of a NIC. Default 400 Gb/s.
    pub host_rate: Rate,
    /// Rate of links between leaves and spines. Default 800 Gb/s.
    pub fabric_rate: Rate,
    /// Rate between a GPU and its server's NVSwitch, each way. Default 3.6 Tb/s.
    pub nvlink_rate: Rate,
    /// Delay of links of the network. Default 500 ns.
    pub link_delay: Span,
    /// Delay between a GPU and its NVSwitch. Default 250 ns.
    pub nvlink_delay: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: 16,
            gpus: 8,
            segment: None,
            wiring: Wiring::Rails,
            planes: 1,
            bond: false,
            shared_spines: false,
            spines: 8,
            host_rate: Rate(400_000_000_000),
            fabric_rate: Rate(800_000_000_000),
            nvlink_rate: Rate(3_600_000_000_000),
            link_delay: Span(US / 2),
            nvlink_delay: Span(250 * NS),
        }
    }
}

pub(super) fn links(c: &Config) -> Listed {
    let segment = c.segment.unwrap_or(c.servers);
    at_least_one(&[
        ("servers", c.servers),
        ("gpus", c.gpus),
        ("segment", segment),
        ("planes", c.planes),
        ("spines", c.spines),
    ])?;
    let leaves_of_segment = u128::from(if c.wiring == Wiring::Rails { c.gpus } else { 1 }) * u128::from(c.planes);
    let segments = c.servers.div_ceil(segment);
    let hosts = u128::from(c.servers) * u128::from(c.gpus);
    let planes = u128::from(c.planes);
    few_enough(
        hosts * (1 + u128::from(c.bond) + planes) + u128::from(segments) * leaves_of_segment * u128::from(c.spines),
    )?;
    let rates = [("host_rate", c.host_rate), ("fabric_rate", c.fabric_rate), ("nvlink_rate", c.nvlink_rate)];
    possible(&rates, &[("link_delay", c.link_delay), ("nvlink_delay", c.nvlink_delay)])?;
    let nic_rate = Rate(c.host_rate.0.saturating_mul(if c.bond { u64::from(c.planes) } else { 1 }));
    possible(&[("host_rate", nic_rate)], &[])?;
    if c.nvlink_rate <= nic_rate {
        return Err(Mistake::new("nvlink_rate", format!("{} is not above a NIC's rate, {nic_rate}", c.nvlink_rate)));
    }
    let (hosts, leaves_of_segment) = (hosts as u32, leaves_of_segment as u32);
    let (leaves, spines) = (segments * leaves_of_segment, c.spines * if c.shared_spines { 1 } else { c.planes });
    let nvswitch = |server| hosts + server;
    let leaf = |i| hosts + c.servers + i;
    let spine = |i| hosts + c.servers + leaves + i;
    let nic = |host| hosts + c.servers + leaves + spines + host;
    let mut links = Vec::new();
    for host in 0..hosts {
        let (server, gpu) = (host / c.gpus, host % c.gpus);
        let (rate, delay) = (c.nvlink_rate, c.nvlink_delay);
        links.push(Link { a: host, b: nvswitch(server), rate, delay });
        if c.bond {
            links.push(Link { a: host, b: nic(host), rate: nic_rate, delay: Span(0) });
        }
        let rail = if c.wiring == Wiring::Rails { gpu } else { 0 };
        for plane in 0..c.planes {
            let own = server / segment * leaves_of_segment + rail * c.planes + plane;
            let a = if c.bond { nic(host) } else { host };
            links.push(Link { a, b: leaf(own), rate: c.host_rate, delay: c.link_delay });
        }
    }
    for i in 0..leaves {
        let first = if c.shared_spines { 0 } else { i % c.planes * c.spines };
        for k in first..first + c.spines {
            links.push(Link { a: leaf(i), b: spine(k), rate: c.fabric_rate, delay: c.link_delay });
        }
    }
    let names = super::names(
        hosts,
        &[("nvswitch", c.servers), ("leaf", leaves), ("spine", spines), ("nic", if c.bond { hosts } else { 0 })],
    );
    Ok((names, hosts as usize, links))
}
