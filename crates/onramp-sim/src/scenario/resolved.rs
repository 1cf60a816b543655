//! What a scenario comes down to: nothing left open, nothing said twice.

use super::{Clock, Measure, Scenario};
use crate::cc::{self, custom::Controllers};
use crate::config::units::{Ps, Span};
use crate::host::config::ShaperKind;
use crate::host::gate::GateRules;
use crate::host::{Common, Transports};
use crate::network::config::Rules;
use crate::network::router;
use crate::topology::Topology;
use crate::workload::LoadSpan;

/// How the flows of a traffic section travel.
#[derive(Clone, Copy, Debug)]
pub struct Section {
    /// Number of their transport.
    pub transport: u8,
    /// Their class; the control class is 0.
    pub class: u8,
}

/// What is simulated.
#[derive(Clone, Debug)]
pub struct Resolved {
    /// When load arrives.
    pub span: LoadSpan,
    /// Clocks are synchronised so long before.
    pub lead: Ps,
    /// The run ends at this time, if not before.
    pub time_limit: Ps,
    /// What switches write.
    pub router: router::Kind,
    /// Buffers and classes.
    pub rules: Rules,
    /// What flows of a transport share.
    pub transports: Transports,
    /// The hosts' shaper.
    pub shaper: ShaperKind,
    /// On-Ramp, if it is on.
    pub gate: Option<GateRules>,
    /// The hosts' clocks.
    pub clock: Clock,
    /// What is recorded.
    pub measure: Measure,
    /// By number.
    pub sections: Vec<Section>,
}

impl Resolved {
    /// Of a scenario whose defaults are written out.
    ///
    /// # Errors
    /// A transport that the simulator has not.
    pub fn new(s: &Scenario, topology: &Topology, controllers: &Controllers) -> Result<Self, String> {
        let mut configs: Vec<cc::Config> = vec![s.transport.clone()];
        let mut sections = Vec::new();
        for traffic in &s.traffic {
            let own = traffic.transport.as_ref().unwrap_or(&s.transport);
            let known = configs.iter().position(|config| config == own);
            let transport = known.unwrap_or_else(|| {
                configs.push(own.clone());
                configs.len() - 1
            });
            sections.push(Section { transport: transport as u8, class: traffic.class + 1 });
        }
        for config in &mut configs {
            if !cc::SIMULATED.contains(&config.kind()) {
                return Err(format!("{} runs on Linux only", config.kind()));
            }
            if let cc::Config::Custom(custom) = config {
                custom.find(controllers)?;
            }
        }
        let routers = configs.iter().map(|config| config.settings().router());
        let common = Common {
            payload: s.host.payload,
            max_window: s.host.max_window.unwrap_or_default(),
            nic_acks: s.host.ack_class,
            switch_acks: s.switch.ack_class,
            rto: s.host.rto.0,
            nack_interval: s.host.nack_interval.0,
        };
        Ok(Self {
            span: s.load_span(),
            lead: s.clock.lead.unwrap_or_default().0,
            time_limit: s.time_limit.unwrap_or(Span::MAX).0,
            router: routers.max_by_key(|kind| *kind == router::Kind::Int).unwrap_or_default(),
            rules: s.switch.rules(),
            transports: Transports::new(&configs, &common, topology),
            shaper: s.host.shaper,
            gate: GateRules::new(&s.onramp),
            clock: s.clock.clone(),
            measure: s.measure.clone(),
            sections,
        })
    }
}
