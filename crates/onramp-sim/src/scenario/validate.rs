//! Rules that the type of a value does not already keep.

use super::{Pacing, Scenario, Threshold, Traffic};
use crate::cc;
use crate::clock;
use crate::host::config::ShaperKind;
use crate::network::config::Loss;
use crate::network::feedback;
use crate::stack::rdma::Recovery;
use onramp_config::units::{NS, Ps, Span};
use onramp_config::{Mistake, Rule};
use onramp_topology::{Topology, TopologyError};
use onramp_workload::{Findings, MAX_OF_A_LIST, Place};
use std::path::Path;

/// Checks what needs no network.
pub(super) fn check(s: &Scenario) -> Vec<Mistake> {
    let mut wrong = Vec::new();
    let mut rule = |ok: bool, key: &str, message: String| {
        if !ok {
            wrong.push(Mistake::new(key, message));
        }
    };
    rule(s.duration.0 > 0, "duration", "must be longer than 0, such as \"2ms\"".into());
    if let Some(limit) = s.time_limit {
        rule(limit >= s.duration, "time_limit", format!("{limit} ends before duration, {}", s.duration));
    }
    let in_section = |section: &'static str| move |key: &str| format!("{section}.{key}");
    let host = in_section("host");
    s.host.check(&mut |ok, key, message| rule(ok, &host(key), message));
    let paced = s.host.pacing;
    let windowless = s.transports().find(|t| t.tcp().is_none() && !t.settings().window());
    let message =
        || format!("\"{}\" has no window to pace, it sends at a rate", windowless.map_or("", cc::Config::kind));
    rule(paced == Pacing::None || windowless.is_none(), "host.pacing", message());
    let shaped = s.host.shaper.holds() && paced != Pacing::None;
    rule(
        !shaped,
        "host.pacing",
        "goes with shaper = \"flow\" or \"round-robin\": the others have policies of their own".into(),
    );
    let gated = paced == Pacing::Egress && s.onramp.enabled && s.is_tcp();
    let message = "\"egress\" takes the place of the queue that On-Ramp's gate is: on TCP one or the other";
    rule(!gated, "host.pacing", message.into());
    let onramp = in_section("onramp");
    s.onramp.check(&mut |ok, key, message| rule(ok, &onramp(key), message));
    let clocks = in_section("clock");
    clock::config::check(&s.clock, &mut |ok, key, message| rule(ok, &clocks(key), message));
    check_threshold(s, &mut rule);
    let tcp = s.onramp.hosts.is_none() || s.is_tcp();
    rule(tcp, "onramp.hosts", "counts where the transport is TCP: leave it out".into());
    let interval = s.measure.interval;
    rule(interval >= Span(100 * NS), "measure.interval", format!("{interval} is shorter than 100ns: such as \"10us\""));
    let most = 1_000_000;
    let next = s.measure.next_owd;
    rule(next <= most, "measure.next_owd", format!("{next} is more than {most}: such as 20000"));
    let switch = in_section("switch");
    s.switch.check(&mut |ok, key, message| rule(ok, &switch(key), message));
    super::linux::check(s, &mut rule);
    s.transport.settings().check(&mut |ok, key, message| rule(ok, &format!("transport.{key}"), message));
    let own = s.host.shaper == ShaperKind::Flow || !s.is_tcp();
    rule(own, "host.shaper", "is simulated with RDMA only: leave it out with TCP".into());
    let rdma = s.host.recovery.as_ref().is_none_or(Recovery::is_go_back_n) || !s.is_tcp();
    rule(rdma, "host.recovery", "is RDMA's: leave it out with TCP".into());
    let unordered = s.transport.settings().unordered();
    let rud = s.host.recovery.as_ref().map_or(unordered, |recovery| matches!(recovery, Recovery::Rud(_)));
    let credit = s.transports().any(|transport| transport.settings().credit().is_some());
    rule(rud || !credit, "host.recovery", "must be { kind = \"rud\" } where receivers grant credit".into());
    let of_flows = s.host.entropy.is_of_flows() || !s.is_tcp();
    rule(of_flows, "host.entropy", "is RDMA's: leave it out with TCP".into());
    let trims = s.switch.trim.is_some() && s.is_tcp();
    rule(!trims, "switch.trim", "is RDMA's: leave it out with TCP".into());
    let pfc = s.host.storms.is_empty() || (!s.is_tcp() && s.switch.loss == Loss::Pfc);
    rule(pfc, "host.storms", "pauses what has PFC: use an RDMA transport with switch.loss = \"pfc\"".into());
    rule(!s.measure.shaping || !s.is_tcp(), "measure.shaping", "is not recorded with TCP: leave it out".into());
    rule(!s.measure.cwnd || s.is_tcp(), "measure.cwnd", "is recorded with TCP only: leave it out".into());
    check_rates(s, &mut rule);
    rule(!s.traffic.is_empty(), "traffic", "at least one [[traffic]] section is needed".into());
    for (i, traffic) in s.traffic.iter().enumerate() {
        if let Some(transport) = &traffic.transport {
            check_beside(s, transport, &mut |ok, key, message| rule(ok, &format!("traffic[{i}].{key}"), message));
            check_feedback(s, i, &mut rule);
            let key = |key: &str| format!("traffic[{i}].transport.{key}");
            transport.settings().check(&mut |ok, own, message| rule(ok, &key(own), message));
        }
        check_policies(s, traffic, &mut |ok, key, message| rule(ok, &format!("traffic[{i}].{key}"), message));
        check_traffic(s, traffic, &mut |ok, key, message| rule(ok, &format!("traffic[{i}].{key}"), message));
    }
    wrong
}

/// Results of [`check_placed`].
pub(super) struct Placed {
    pub wrong: Vec<Mistake>,
    /// When the last flow of any trace starts.
    pub last_start: Ps,
    /// Time that the longest job takes about.
    pub about: Ps,
    /// Contents of files that are not simulated.
    pub left_out: Vec<Mistake>,
}

/// Checks what depends on the network and on other files.
pub(super) fn check_placed(s: &Scenario, topology: &Topology, base: &Path) -> Placed {
    let (mut wrong, mut left_out) = (Vec::new(), Vec::new());
    let measure = &s.measure;
    let points =
        [("queues", &measure.queues), ("links", &measure.links), ("rates", &measure.rates), ("order", &measure.order)];
    for (name, points) in points {
        let bad = points.iter().enumerate().filter_map(|(i, point)| Some((i, topology.port_named(point).err()?)));
        let mistake = |(i, e): (usize, TopologyError)| Mistake::new(format!("measure.{name}[{i}]"), e.to_string());
        wrong.extend(bad.map(mistake).take(MAX_OF_A_LIST));
    }
    let of_host = |point: &String| {
        let port = &topology.ports()[topology.port_named(point).ok()? as usize];
        topology.is_host(port.from).then(|| format!("{point} is a host's: name a port of a switch"))
    };
    // What waits at a host is its flows', or a queueing discipline's, which On-Ramp replaces.
    for (name, points) in [("queues", &measure.queues), ("rates", &measure.rates), ("order", &measure.order)] {
        let bad = points.iter().enumerate().filter_map(|(i, point)| Some((i, of_host(point)?)));
        wrong.extend(bad.map(|(i, m)| Mistake::new(format!("measure.{name}[{i}]"), m)).take(MAX_OF_A_LIST));
    }
    let bad = s.measure.owd.iter().enumerate().filter_map(|(i, pair)| Some((i, host_pair(pair, topology).err()?)));
    wrong.extend(bad.map(|(i, m)| Mistake::new(format!("measure.owd[{i}]"), m)).take(MAX_OF_A_LIST));
    let line = topology.host_rate();
    for (key, transport) in s.transports_by_key() {
        let least = transport.settings().min_rate();
        if least > line {
            let message = format!("{least} is above the rate of the fastest host link, {line}");
            wrong.push(Mistake::new(format!("{key}.min_rate"), message));
        }
        if let cc::Config::Custom(custom) = transport
            && let Some(message) = custom.check_library(base)
        {
            wrong.push(Mistake::new(format!("{key}.library"), message));
        }
    }
    wrong.extend(unknown("onramp.hosts", s.onramp.hosts.as_deref().unwrap_or_default(), topology));
    for (i, processing) in s.host.processing.iter().enumerate() {
        let named = processing.hosts.as_deref().unwrap_or_default();
        wrong.extend(unknown(&format!("host.processing[{i}].hosts"), named, topology));
    }
    for (i, storm) in s.host.storms.iter().enumerate() {
        wrong.extend(unknown(&format!("host.storms[{i}].hosts"), &storm.hosts, topology));
    }
    wrong.extend(s.switch.check_rates(topology));
    let place = Place { topology, base };
    let found: Vec<Findings> = s.traffic.iter().map(|traffic| placed(s, traffic, &place)).collect();
    // A file alone may begin when it likes: HPCC's do at 2 s.
    let beside_load = found.iter().any(|found| found.starts.is_none());
    let mut last_start = 0;
    let mut about: Ps = 0;
    for (i, Findings { wrong: own, starts, left_out: not_simulated, about: takes }) in found.into_iter().enumerate() {
        let told = |what| Mistake::new(format!("traffic[{i}].file"), format!("not simulated: {what}"));
        left_out.extend(not_simulated.into_iter().map(told));
        wrong.extend(own.into_iter().map(|m| Mistake::new(format!("traffic[{i}].{}", m.key), m.message)));
        about = about.max(takes);
        let Some((first, last)) = starts else { continue };
        last_start = last.max(last_start);
        if beside_load && first >= s.duration.0 {
            wrong.push(Mistake::new(format!("traffic[{i}].file"), too_late(Span(first), s.duration)));
        }
    }
    Placed { wrong, last_start, about, left_out }
}

fn placed(s: &Scenario, traffic: &Traffic, place: &Place<'_>) -> Findings {
    let mut found = Findings::default();
    traffic.source.check_placed(&s.context(), place, &mut found);
    found
}

fn too_late(first: Span, duration: Span) -> String {
    format!(
        "its first flow starts at {first}, when the other sections have ended (duration = {duration}): \
         let its flows start earlier, or write a longer duration"
    )
}

/// A section's own transport may be TCP only where the scenario's is, which brings hosts and ports as Linux has them;
/// and TCP's packets leave no room for what switches write.
fn check_beside(s: &Scenario, own: &cc::Config, rule: Rule<'_>) {
    let (kind, main) = (own.kind(), s.transport.kind());
    let message = format!("\"{kind}\" beside \"{main}\" is TCP beside RDMA: make \"{kind}\" the scenario's transport");
    rule(own.tcp().is_none() || s.is_tcp(), "transport.kind", message);
    let written = feedback::Kind::Tcp.and(own.settings().feedback()).is_none();
    let message = format!("\"{kind}\" reads what switches write, which they do not beside TCP, \"{main}\"");
    rule(!s.is_tcp() || !written, "transport.kind", message);
}

/// A network has one kind of feedback: what an earlier transport needs is there already.
fn check_feedback(s: &Scenario, number: usize, rule: Rule<'_>) {
    let before = s.traffic[..number].iter().filter_map(|traffic| traffic.transport.as_ref());
    let Some(own) = &s.traffic[number].transport else { return };
    let needs = |transport: &cc::Config| transport.settings().feedback();
    let other = std::iter::once(&s.transport).chain(before).find(|other| needs(other).and(needs(own)).is_none());
    let Some(other) = other.filter(|other| other.tcp().is_some() == own.tcp().is_some()) else { return };
    let (kind, beside) = (own.kind(), other.kind());
    let message = if kind == beside {
        format!("other parameters of \"{kind}\" beside it: switches have one set of them")
    } else {
        format!("\"{kind}\" does not run beside \"{beside}\": packets have room for one of them")
    };
    rule(false, &format!("traffic[{number}].transport.kind"), message);
}

/// Ports whose rate is recorded: of switches, with RCP.
fn check_rates(s: &Scenario, rule: Rule<'_>) {
    let mut all = std::iter::once(&s.transport).chain(s.traffic.iter().filter_map(|t| t.transport.as_ref()));
    let rcp = all.any(|transport| matches!(transport.settings().feedback(), feedback::Kind::Rcp(_)));
    rule(rcp || s.measure.rates.is_empty(), "measure.rates", "is recorded with rcp only: leave it out".into());
}

/// T follows clocks only where these tell how uncertain they are.
fn check_threshold(s: &Scenario, rule: Rule<'_>) {
    let auto = s.onramp.threshold == Some(Threshold::Auto);
    let (name, synchronised) = (s.clock.sync.name(), s.clock.sync.over_the_network());
    let message =
        format!("\"auto\" has no uncertainty to go by with sync = \"{name}\": write a time, such as \"16us\"");
    rule(!auto || synchronised, "onramp.threshold", message);
    let message = "has no effect with a fixed threshold: write threshold = \"auto\"".into();
    let own = s.onramp.threshold.is_none() && synchronised;
    rule(s.onramp.threshold_floor.is_none() || auto || own, "onramp.threshold_floor", message);
}

fn check_traffic(s: &Scenario, traffic: &Traffic, rule: Rule<'_>) {
    let (class, classes) = (usize::from(traffic.class), s.switch.class_count());
    let known = if classes == 1 { "only 0 is there".into() } else { format!("they are 0 to {}", classes - 1) };
    rule(class < classes, "class", format!("there is no class {class} in switch.classes: {known}"));
    traffic.source.check(&s.context(), rule);
}

/// Checks the limits on flows.
fn check_policies(s: &Scenario, traffic: &Traffic, rule: Rule<'_>) {
    let tcp = "is simulated with RDMA only: leave it out with TCP".to_string();
    rule(traffic.caps.0.is_empty() || !s.is_tcp(), "cap", tcp.clone());
    rule(traffic.caps.0.iter().all(|cap| cap.0 > 0), "cap", "must be above 0, such as \"10Mbps\"".into());
    let Some(tenant) = &traffic.tenant else { return };
    rule(!s.is_tcp(), "tenant", tcp);
    let known: Vec<_> = s.host.shaping.tenants.keys().map(String::as_str).collect();
    let message = match &known[..] {
        [] => format!("\"{tenant}\" is not in host.shaping.tenants: write tenants = {{ {tenant} = \"10Gbps\" }} there"),
        known => format!("\"{tenant}\" is not in host.shaping.tenants: there are {}", known.join(", ")),
    };
    rule(known.contains(&tenant.as_str()), "tenant", message);
}

/// Mistakes in a list of hosts.
fn unknown(key: &str, names: &[String], topology: &Topology) -> Vec<Mistake> {
    topology.hosts_under(key, names).err().unwrap_or_default().into_iter().take(MAX_OF_A_LIST).collect()
}

fn host_pair(pair: &str, topology: &Topology) -> Result<(), String> {
    let (a, b) = pair.split_once("->").ok_or_else(|| format!("\"{pair}\" is not two hosts, such as \"h0->h1\""))?;
    let host = |name| topology.host_named(name).map_err(|e| e.to_string());
    if host(a)? == host(b)? {
        return Err(format!("{a} sends nothing to itself: write two hosts, such as \"h0->h1\""));
    }
    Ok(())
}
