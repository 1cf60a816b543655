//! A scenario with all defaults filled in: nothing left open, nothing said twice.

use super::linux::MTU_HEADERS;
use super::{BuildError, Clock, Measure, Scenario};
use crate::cc;
use crate::cc::custom::Controllers;
use crate::host::config::{Pacing, Processing};
use crate::host::entropy;
use crate::host::gate::GateRules;
use crate::host::pacing;
use crate::host::qdisc::HostQdisc;
use crate::host::shaper::{self, FREE, Terms};
use crate::host::{Common, Transports, tcp};
use crate::network::config::Rules;
use crate::network::feedback;
use crate::network::path::{self, custom::Selectors};
use crate::stack::tcp::Params;
use onramp_config::units::{Ps, Span};
use onramp_topology::{Fault, Topology};
use onramp_workload::LoadSpan;
use std::path::Path;

/// How the flows of a traffic section travel.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Number of their transport.
    pub transport: u8,
    /// Their class; the control class is 0.
    pub class: u8,
}

/// Limits on the flows of a section.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    /// Their rates at most in bits per second, which they have in turn; none for no limit.
    pub caps: Vec<f64>,
    /// Their tenant.
    pub tenant: Option<u8>,
}

impl Policies {
    /// Of the flow with this number in its section.
    pub fn terms(&self, number: u64) -> Terms {
        let cap = self.caps.get((number % self.caps.len().max(1) as u64) as usize);
        Terms { cap: cap.copied().unwrap_or(FREE.cap), tenant: self.tenant }
    }
}

/// A scenario as it is simulated.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// When load arrives.
    pub span: LoadSpan,
    /// Clocks are synchronised so long before.
    pub lead: Ps,
    /// The run ends at this time, if not before.
    pub time_limit: Ps,
    /// Kind of feedback that switches write.
    pub feedback: feedback::Kind,
    /// Buffers and classes.
    pub rules: Rules,
    /// Parameters that flows of a transport share.
    pub transports: Transports,
    /// The hosts' shaper.
    pub shaper: shaper::Rules,
    /// How windows are paced.
    pub pacing: pacing::Rules,
    /// Entropy values of packets.
    pub entropy: entropy::Config,
    /// Time that a host needs for a packet that has come, by the host's number; empty where none needs any.
    pub processing: Vec<Option<Processing>>,
    /// Hosts' numbers, and when they begin and end to pause their switch's port.
    pub storms: Vec<(u32, Ps, Option<Ps>)>,
    /// Links that fail, or have bit errors.
    pub faults: Vec<Fault>,
    /// On-Ramp, if it is on.
    pub gate: Option<GateRules>,
    /// The hosts' clocks.
    pub clock: Clock,
    /// Records to take.
    pub measure: Measure,
    /// TCP, if some transport is.
    pub tcp: Option<tcp::Rules>,
    /// By number.
    pub sections: Vec<Section>,
    /// By number of the section.
    pub policies: Vec<Policies>,
}

/// Parts of the program's own that a scenario names.
pub(crate) struct Program<'a> {
    pub controllers: &'a Controllers,
    pub tcp_controllers: &'a Controllers<cc::tcp::custom::Start>,
    pub paths: &'a Selectors,
    /// Libraries of a scenario are relative to this.
    pub base: &'a Path,
}

impl Resolved {
    /// Of a scenario whose defaults are written out.
    ///
    /// # Errors
    /// A part that the program does not have, or keys that it refuses.
    pub(crate) fn new(s: &Scenario, topology: &Topology, program: &Program<'_>) -> Result<Self, BuildError> {
        let mut configs: Vec<cc::Config> = vec![s.transport.clone()];
        let (mut sections, mut policies) = (Vec::new(), Vec::new());
        for traffic in &s.traffic {
            let own = traffic.transport.as_ref().unwrap_or(&s.transport);
            let known = configs.iter().position(|config| config == own);
            let transport = known.unwrap_or_else(|| {
                configs.push(own.clone());
                configs.len() - 1
            });
            sections.push(Section { transport: transport as u8, class: traffic.class + 1 });
            let named = |name: &String| s.host.shaping.tenants.keys().position(|own| own == name);
            let tenant = traffic.tenant.as_ref().and_then(named).map(|tenant| tenant as u8);
            policies.push(Policies { caps: traffic.caps.0.iter().map(|cap| cap.0 as f64).collect(), tenant });
        }
        for config in &mut configs {
            match config {
                cc::Config::Custom(custom) => custom.find(program.controllers, program.base)?,
                cc::Config::CustomTcp(custom) => custom.find(program.tcp_controllers)?,
                _ => {}
            }
        }
        let mut kinds = configs.iter().map(|config| config.settings().feedback());
        let common = Common {
            payload: s.host.payload,
            max_window: s.host.max_window.unwrap_or_default(),
            nic_acks: s.host.ack_class,
            switch_acks: s.switch.ack_class,
            rto: s.host.rto.0,
            rto_doublings: s.host.rto_doublings,
            nack_interval: s.host.nack_interval.0,
            recovery: s.host.recovery.clone().unwrap_or_default(),
        };
        let tcp = tcp_rules(s, topology, &configs);
        let mut rules = s.switch.rules();
        if let path::Config::Custom(custom) = &mut rules.paths {
            custom.find(program.paths)?;
        }
        if let (Some(_), Some(linux)) = (&tcp, &s.linux) {
            rules.tail = Some(linux.port_buffer());
        }
        Ok(Self {
            span: s.load_span(),
            lead: s.clock.lead.unwrap_or_default().0,
            time_limit: s.time_limit.unwrap_or(Span::MAX).0,
            feedback: kinds.try_fold(feedback::Kind::Plain, feedback::Kind::and).expect("the scenario was checked"),
            rules,
            transports: Transports::new(&configs, &common, topology),
            shaper: s.host.shaping.rules(s.host.shaper),
            pacing: s.host.pacing(),
            entropy: s.host.entropy.clone(),
            processing: s.processing(topology),
            storms: s.storms(topology),
            faults: s.network.faults.clone(),
            gate: GateRules::new(&s.onramp),
            clock: s.clock.clone(),
            measure: s.measure.clone(),
            tcp,
            sections,
            policies,
        })
    }
}

fn tcp_rules(s: &Scenario, topology: &Topology, configs: &[cc::Config]) -> Option<tcp::Rules> {
    let linux = s.linux.as_ref()?;
    let kind = |config: &cc::Config| {
        let mut params = Params {
            mss: (linux.mtu.0 - MTU_HEADERS) as u32,
            gso_max_size: linux.gso_max_size.0 as u32,
            initial_window: linux.initial_window,
            paced: s.host.pacing != Pacing::None && linux.qdisc != Some(HostQdisc::Egress),
            ..Params::default()
        };
        for (key, value) in &linux.sysctl {
            params.set(key, value).expect("the scenario was checked");
        }
        let cc = config.tcp()?;
        Some(tcp::Kind { params, cc, marks: config.settings().ecn_defaults().is_some() })
    };
    let kinds: Vec<_> = configs.iter().map(kind).collect();
    if kinds.iter().all(Option::is_none) {
        return None;
    }
    let or_acks =
        tcp::OrAcks { shift: linux.or_ack_interval.0.ilog2(), gap: linux.or_ack_gap.0, cut: linux.cut_segments };
    Some(tcp::Rules {
        kinds,
        qdisc: linux.qdisc.expect("it is resolved"),
        gated: s.onramp_hosts(topology),
        mtu: linux.mtu.0 as u32 + 14,
        or_acks,
        seed: s.seed,
    })
}
