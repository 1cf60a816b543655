//! Makes the cells of a resolved scenario.

use super::Options;
use super::desk::Desk;
use super::run::{Engine, Run};
use super::summary::Totals;
use crate::cell::{self, Cell};
use crate::clock::{self, Clocks};
use crate::engine::Events;
use crate::host::{self, Hosts};
use crate::measure::trace;
use crate::measure::{Meter, NextOwd, Recorder, Shaped, Timeline};
use crate::network::faults;
use crate::network::feedback::int::{Int, Units};
use crate::network::feedback::plain::{Plain, Waits};
use crate::network::feedback::rcp::Rcp;
use crate::network::feedback::xcp::Xcp;
use crate::network::feedback::{self, Feedback};
use crate::network::packet::Options as TcpOptions;
use crate::network::{self, Network, Part};
use crate::scenario::{BuildError, Program, Resolved, Scenario, Sync};
use onramp_config::units::Ps;
use onramp_topology::{Cells, Topology};
use onramp_workload::arrivals::Arrivals;
use onramp_workload::{Plan, connections};
use rand_pcg::rand_core::Rng;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Parts of a simulation.
struct Parts {
    resolved: Resolved,
    topology: Arc<Topology>,
    plan: Plan,
    /// TCP connections that a pair of hosts opens before the load.
    connections: BTreeMap<(u32, u32), usize>,
}

/// See [`super::Simulation::with`].
pub(super) fn build(
    scenario: &Scenario,
    topology: Arc<Topology>,
    base: &Path,
    options: &Options,
) -> Result<Box<dyn Run>, BuildError> {
    let scenario = &scenario.with_workloads(&options.workloads);
    let Options { controllers, tcp_controllers, paths, .. } = options;
    let resolved = Resolved::new(scenario, &topology, &Program { controllers, tcp_controllers, paths, base })?;
    let units = Units::new(topology.host_rate().0 as f64);
    let env = *resolved.transports[0].env(0);
    let plan = scenario.plan(&topology, base)?;
    let connections = if scenario.is_tcp() {
        connections::connections(scenario.arrivals(&topology, base)?, &topology)
    } else {
        BTreeMap::new()
    };
    let feedback = resolved.feedback;
    let parts = Parts { resolved, topology, plan, connections };
    Ok(match feedback {
        feedback::Kind::Plain => Engine::boxed(&Plain::<()>::default(), parts, options),
        feedback::Kind::Waits => Engine::boxed(&Plain::<Waits>::default(), parts, options),
        feedback::Kind::Tcp => Engine::boxed(&Plain::<TcpOptions>::default(), parts, options),
        feedback::Kind::Int => Engine::boxed(&Int { units }, parts, options),
        feedback::Kind::Rcp(params) => Engine::boxed(&Rcp::new(params, env.base_rtt, env.payload), parts, options),
        feedback::Kind::Xcp(params) => Engine::boxed(&Xcp::new(params, env.base_rtt), parts, options),
    })
}

impl<F: Feedback + 'static> Engine<F> {
    fn boxed(feedback: &F, parts: Parts, options: &Options) -> Box<dyn Run> {
        let Parts { resolved, topology, plan, connections } = parts;
        let arrivals = Arrivals::new(plan.sources, resolved.sections.len(), resolved.span.seed);
        let mut engine = Self::new(feedback, &resolved, topology, arrivals, options.one_cell);
        engine.desk.connections = connections;
        engine.desk.open_programs(&mut engine.cells, plan.programs, &plan.channels);
        if resolved.measure.messages {
            engine.cells.iter_mut().for_each(|cell| cell.hosts.record_messages());
        }
        engine.trace(&options.traced);
        engine.desk.follows = options.ways;
        engine.desk.skip = (!options.no_skip).then(Box::default);
        if options.timeline {
            let desk = &mut engine.desk;
            let load = desk.span.warmup + desk.span.duration;
            desk.timeline = Some(Box::new(Timeline::new(&desk.topology, desk.load_at, desk.origin, load)));
        }
        Box::new(engine)
    }

    fn new(feedback: &F, resolved: &Resolved, topology: Arc<Topology>, arrivals: Arrivals, one_cell: bool) -> Self {
        let span = resolved.span;
        // Clocks that hosts keep for each other, and a sample of all packets, know no cells.
        let together =
            one_cell || matches!(resolved.clock.sync, Sync::Huygens | Sync::Ntp) || resolved.measure.next_owd > 0;
        let map = Arc::new(if together { Cells::one(&topology) } else { Cells::several(&topology) });
        let transports = Arc::new(resolved.transports.clone());
        let clocks = Clocks::new(&resolved.clock, span.seed, topology.hosts());
        let constant = match &clocks {
            Clocks::Constant(offsets) => Some(Arc::clone(offsets)),
            Clocks::Running(_) => None,
        };
        let mut running = Some(clocks);
        let load_at = resolved.lead;
        let origin = load_at + span.warmup;
        let measured = clock::Span { origin, duration: span.duration };
        let size = resolved.measure.next_owd;
        let full = transports.sizes().iter().copied().max().unwrap_or(1500);
        let tcp_alone = resolved.tcp.as_ref().and_then(host::tcp::Rules::sizes);
        let by_link = tcp_alone.is_some();
        let sizes = tcp_alone.unwrap_or_else(|| transports.sizes());
        let mut lanes = network::port::lanes(&topology, &sizes, by_link);
        let network = |number| {
            let part = Part { topology: &topology, cells: &map, number };
            Network::new(feedback.clone(), &resolved.rules, part, span.seed, full, (&sizes, &mut lanes))
        };
        let networks: Vec<Network<F>> = (0..map.parts.len()).map(network).collect();
        let mut cells = Vec::with_capacity(map.parts.len());
        let salt = onramp_random::stream(span.seed, "ties", 0).next_u64();
        for (number, network) in networks.into_iter().enumerate() {
            let events = Events::new(&lanes, &map.parts[number].ports, salt);
            let classes = network.schedule().classes();
            let rules = host::Rules {
                transports: &transports,
                gate: resolved.gate.as_ref(),
                shaper: &resolved.shaper,
                pacing: resolved.pacing,
                entropy: &resolved.entropy,
                processing: &resolved.processing,
                tcp: resolved.tcp.as_ref(),
                classes,
                seed: span.seed,
            };
            let hosts = Hosts::new(&topology, &map, number, &rules);
            let own = constant.as_ref().map(|offsets| Clocks::Constant(Arc::clone(offsets)));
            let clocks = own.or_else(|| running.take()).unwrap_or_else(|| Clocks::Constant(Arc::new([])));
            let next = (size > 0).then(|| NextOwd::new(size, span.seed, origin));
            let wanted = if resolved.measure.rtt { resolved.sections.len() } else { 0 };
            let shaped = resolved.measure.shaping.then(|| {
                let rules = &resolved.shaper;
                let tenants = rules.names.iter().cloned().zip(rules.tenants.iter().copied()).collect();
                Shaped::new(origin, span.duration, rules.egress, tenants)
            });
            let meter = Meter::new(origin, next, shaped, wanted);
            let parts = cell::Parts { events, network, hosts, clocks, meter };
            cells.push(Box::new(Cell::new(parts, Arc::clone(&map), Arc::clone(&topology), span.seed, measured)));
        }
        if resolved.measure.pauses {
            cells.iter_mut().for_each(|cell| cell.network.record_pauses());
        }
        for name in &resolved.measure.order {
            let port = topology.port_named(name).expect("the scenario was checked");
            let (cell, place) = map.place_in(&topology, port);
            cells[cell].network.watch_order(place);
        }
        for &(host, start, stop) in &resolved.storms {
            for &port in topology.ports_of(host) {
                let (cell, place) = map.place_in(&topology, topology.ports()[port as usize].reverse);
                cells[cell].storm(place, origin + start, stop.map(|stop| origin + stop));
            }
        }
        for (at, cell, stream, change) in faults::changes(&resolved.faults, &topology, &map, origin) {
            cells[cell].change(at, change, onramp_random::stream(span.seed, "faults", stream));
        }
        let recorder = Recorder::new(&resolved.measure, &topology);
        let desk = Desk {
            map,
            transports: Arc::clone(&transports),
            arrivals,
            sections: resolved.sections.clone(),
            policies: resolved.policies.clone(),
            recorder,
            span,
            load_at,
            origin,
            skipped: 0,
            skip: None,
            limit: resolved.time_limit.saturating_add(origin),
            at: 0,
            others_at: 0,
            stop: 0,
            alternate: false,
            now: 0,
            next_sample: Ps::MAX,
            timeline: None,
            alive: 0,
            programs: 0,
            started: 0,
            finished: 0,
            bytes: 0.0,
            endless: false,
            before: Totals::default(),
            over: false,
            connections: BTreeMap::new(),
            ordered: resolved.measure.order.clone(),
            is_tcp: resolved
                .tcp
                .as_ref()
                .map_or(vec![false; 256], |tcp| tcp.kinds.iter().map(Option::is_some).collect()),
            traced: Vec::new(),
            messages: Vec::new(),
            follows: false,
            followed: Vec::new(),
            shaper: resolved.shaper.kind,
            topology,
        };
        Self { cells, desk, threads: 1 }
    }

    /// Captures these flows.
    fn trace(&mut self, flows: &[u64]) {
        if !flows.is_empty() {
            self.cells.iter_mut().for_each(|cell| cell.hosts.trace(trace::most_packets(flows.len())));
            self.desk.traced = flows.to_vec();
        }
    }
}
