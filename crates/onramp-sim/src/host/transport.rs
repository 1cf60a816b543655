//! Parameters that all flows of a transport share.

use super::Opening;
use crate::cc::{Cc, Config, Env, rccc};
use crate::network::config::AckClass;
use crate::network::feedback::{Kind, int::Units};
use crate::network::schedule::CONTROL;
use crate::stack::rdma::{HEADER, Recovered, Recovery, Rx, Shape, Tx};
use onramp_config::units::{Bytes, Ps, Rate};
use onramp_topology::{PortId, Topology};
use std::ops::Index;

/// One transport of a run.
#[derive(Clone, Debug)]
pub struct Transport {
    /// Its congestion control.
    pub config: Config,
    shape: Shape,
    /// Environment of its flows, by rate of their NIC.
    envs: Vec<Env>,
    /// Bytes of an ACK on the wire.
    pub ack_size: u16,
    /// ACKs leave a NIC even while their class is paused.
    pub acks_unpaused: bool,
    acks_in_control: bool,
    /// True if a changed rate also moves a packet that is already waiting.
    pub respace: bool,
    /// True if permits limit bytes in flight at all.
    pub windowed: bool,
    /// Credit that its receivers grant.
    pub credit: Option<rccc::Config>,
}

/// All transports of a run.
#[derive(Clone, Debug)]
pub struct Transports {
    all: Vec<Transport>,
    rates: Vec<Rate>,
    payload: u64,
}

/// Parameters of a scenario that all transports share.
#[derive(Clone, Debug)]
pub struct Common {
    /// Payload of a full packet.
    pub payload: Bytes,
    /// Largest window.
    pub max_window: Bytes,
    /// Class of ACKs in NICs, if it is not the transport's own.
    pub nic_acks: Option<AckClass>,
    /// Class of ACKs in switches.
    pub switch_acks: AckClass,
    /// Retransmission timeout.
    pub rto: Ps,
    /// Times that it doubles at most.
    pub rto_doublings: u32,
    /// A NACK for the same gap is repeated after this.
    pub nack_interval: Ps,
    /// How what is lost is sent again.
    pub recovery: Recovery,
}

impl Transports {
    /// In the order of their numbers.
    pub fn new(configs: &[Config], common: &Common, topology: &Topology) -> Self {
        let payload = common.payload.0;
        let (base_rtt, _) = topology.max_base_rtt_and_bdp(payload);
        let int_units = Units::new(topology.host_rate().0 as f64);
        let rates = topology.link_rates();
        let cap = (common.max_window.0 / payload.max(1)).max(1) as u32;
        let transport = |config: &Config| {
            let settings = config.settings();
            let full = payload + HEADER + settings.extra_header();
            let (mut recovered, rto) = common.recovery.shared(common.rto, common.nack_interval, cap, full);
            // It needs each packet's telemetry, and its window may fall below what would be acknowledged together.
            if let Recovered::Unordered { ack_every, .. } = &mut recovered
                && settings.feedback() == Kind::Int
            {
                *ack_every = 1;
            }
            let env = |rate: &Rate| Env {
                line_rate: rate.0 as f64,
                base_rtt,
                max_window: common.max_window.0 as f64,
                payload,
                packet: full,
                int_units,
            };
            Transport {
                config: config.clone(),
                shape: Shape {
                    payload,
                    header: HEADER + settings.extra_header(),
                    rto,
                    rto_doublings: common.rto_doublings,
                    recovered,
                },
                envs: rates.iter().map(env).collect(),
                ack_size: settings.ack_bytes() as u16,
                acks_unpaused: common.nic_acks.unwrap_or(settings.host_ack_class()) == AckClass::Control,
                acks_in_control: common.switch_acks == AckClass::Control,
                respace: settings.respace(),
                windowed: settings.window(),
                credit: settings.credit(),
            }
        };
        Self { all: configs.iter().map(transport).collect(), payload, rates }
    }

    /// Bytes of payload of a full packet.
    pub fn payload(&self) -> u64 {
        self.payload
    }

    /// True if receivers of some transport grant credit.
    pub fn grant(&self) -> bool {
        self.all.iter().any(|transport| transport.credit.is_some())
    }

    /// How a flow's controller failed, if one has.
    pub fn failure(&self) -> Option<String> {
        self.all.iter().find_map(|transport| transport.config.settings().failure())
    }

    /// Usual sizes of packets on the wire, largest first.
    pub fn sizes(&self) -> Vec<u16> {
        let mut sizes: Vec<u16> = self.all.iter().flat_map(|t| [t.full_size(), t.ack_size]).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        sizes
    }

    /// The number of a host port's rate.
    pub fn rate_index(&self, topology: &Topology, port: PortId) -> u8 {
        let rate = topology.ports()[port as usize].rate;
        self.rates.iter().position(|r| *r == rate).unwrap_or_default() as u8
    }
}

impl Index<u8> for Transports {
    type Output = Transport;

    #[inline]
    fn index(&self, number: u8) -> &Transport {
        &self.all[usize::from(number)]
    }
}

impl Transport {
    fn full_size(&self) -> u16 {
        (self.shape.payload + self.shape.header) as u16
    }

    /// Environment of flows at a NIC of the rate with this number.
    #[inline]
    pub fn env(&self, rate: u8) -> &Env {
        &self.envs[usize::from(rate)]
    }

    /// The least retransmission timeout.
    pub fn rto(&self) -> Ps {
        match self.shape.recovered {
            Recovered::FromThere { .. } => self.shape.rto,
            Recovered::Selectively(params) => params.rto_low,
            Recovered::Unordered { rto, .. } => rto,
        }
    }

    /// A new flow's controller, at a NIC of the rate with this number.
    pub fn start(&self, rate: u8, topology: &Topology, new: &Opening) -> Cc {
        let mut cc = self.config.start(self.env(rate));
        if self.config.settings().counts_hops() {
            // Every link but the first begins at a switch.
            cc.on_path(topology.path(new.flow.src, new.flow.dst, new.hashes[0]).count() as u32 - 1);
        }
        cc
    }

    /// Bytes of a data packet besides payload.
    pub fn header(&self) -> u64 {
        self.shape.header
    }

    /// True for reliable unordered delivery.
    pub fn is_unordered(&self) -> bool {
        matches!(self.shape.recovered, Recovered::Unordered { .. })
    }

    /// A new flow's sending half.
    pub fn tx(&self, bytes: Option<u64>, now: Ps) -> Tx {
        Tx::new(&self.shape, bytes, now)
    }

    /// The sending half of a flow that messages are appended to.
    pub fn open_tx(&self, now: Ps) -> Tx {
        Tx::open(&self.shape, now)
    }

    /// Packets of a message, and the last one's bytes on the wire.
    pub fn packets(&self, bytes: u64) -> (u32, u16) {
        self.shape.packets(bytes)
    }

    /// A new flow's receiving half.
    pub fn rx(&self) -> Rx {
        Rx::new(&self.shape)
    }

    /// Class of ACKs in switches, for data in `class`.
    #[inline]
    pub fn ack_class(&self, class: u8) -> u8 {
        if self.acks_in_control { CONTROL } else { class }
    }
}
