//! Rules that the type of a value does not already keep.

use super::{Pacing, Scenario, Threshold, Traffic};
use crate::cc;
use crate::clock;
use crate::config::units::{Bytes, NS, Ps, Span};
use crate::config::{Mistake, Rule};
use crate::host::config::ShaperKind;
use crate::network::router;
use crate::topology::Topology;
use crate::workload::exchange::{Between, Sides, Sizes};
use crate::workload::{self, Config, rpc, storage};
use std::path::Path;

/// A list is not read on after this many wrong elements.
const MAX_OF_A_LIST: usize = 20;

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
    let shaped = s.host.shaper != ShaperKind::Flow && paced != Pacing::None;
    rule(!shaped, "host.pacing", "goes with shaper = \"flow\": other shapers have policies of their own".into());
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
    rule(next == 0 || !s.is_tcp(), "measure.next_owd", "is not recorded with TCP: leave it out".into());
    let own = s.host.shaper == ShaperKind::Flow || !s.is_tcp();
    rule(own, "host.shaper", "is simulated with RDMA only: leave it out with TCP".into());
    rule(!s.measure.shaping || !s.is_tcp(), "measure.shaping", "is not recorded with TCP: leave it out".into());
    rule(!s.measure.cwnd || s.is_tcp(), "measure.cwnd", "is recorded with TCP only: leave it out".into());
    check_rates(s, &mut rule);
    rule(!s.traffic.is_empty(), "traffic", "at least one [[traffic]] section is needed".into());
    for (i, traffic) in s.traffic.iter().enumerate() {
        if let Some(transport) = &traffic.transport {
            check_beside(s, transport, &mut |ok, key, message| rule(ok, &format!("traffic[{i}].{key}"), message));
            check_router(s, i, &mut rule);
            let key = |key: &str| format!("traffic[{i}].transport.{key}");
            transport.settings().check(&mut |ok, own, message| rule(ok, &key(own), message));
        }
        check_policies(s, traffic, &mut |ok, key, message| rule(ok, &format!("traffic[{i}].{key}"), message));
        check_traffic(s, traffic, &mut |ok, key, message| rule(ok, &format!("traffic[{i}].{key}"), message));
    }
    wrong
}

/// Checks what depends on the network and on other files; also when the last flow of
/// any trace starts.
pub(super) fn check_placed(s: &Scenario, topology: &Topology, base: &Path) -> (Vec<Mistake>, Ps) {
    let mut wrong = Vec::new();
    let measure = &s.measure;
    let points =
        [("queues", &measure.queues), ("links", &measure.links), ("rates", &measure.rates), ("order", &measure.order)];
    for (name, points) in points {
        let bad = points.iter().enumerate().filter_map(|(i, point)| Some((i, topology.port_named(point).err()?)));
        wrong.extend(bad.map(|(i, m)| Mistake::new(format!("measure.{name}[{i}]"), m)).take(MAX_OF_A_LIST));
    }
    let of_host = |point: &String| {
        let port = &topology.ports()[topology.port_named(point).ok()? as usize];
        topology.is_host(port.from).then(|| format!("{point} is a host's: name a port of a switch"))
    };
    for (name, points) in [("rates", &measure.rates), ("order", &measure.order)] {
        let bad = points.iter().enumerate().filter_map(|(i, point)| Some((i, of_host(point)?)));
        wrong.extend(bad.map(|(i, m)| Mistake::new(format!("measure.{name}[{i}]"), m)).take(MAX_OF_A_LIST));
    }
    let bad = s.measure.owd.iter().enumerate().filter_map(|(i, pair)| Some((i, host_pair(pair, topology).err()?)));
    wrong.extend(bad.map(|(i, m)| Mistake::new(format!("measure.owd[{i}]"), m)).take(MAX_OF_A_LIST));
    let line = topology.host_rate();
    let own = s
        .traffic
        .iter()
        .enumerate()
        .filter_map(|(i, t)| Some((format!("traffic[{i}].transport"), t.transport.as_ref()?)));
    for (key, transport) in std::iter::once(("transport".to_string(), &s.transport)).chain(own) {
        let least = transport.settings().min_rate();
        if least > line {
            let message = format!("{least} is above the rate of the fastest host link, {line}");
            wrong.push(Mistake::new(format!("{key}.min_rate"), message));
        }
    }
    wrong.extend(unknown("onramp.hosts", s.onramp.hosts.as_deref().unwrap_or_default(), topology));
    for (i, processing) in s.host.processing.iter().enumerate() {
        let named = processing.hosts.as_deref().unwrap_or_default();
        wrong.extend(unknown(&format!("host.processing[{i}].hosts"), named, topology));
    }
    wrong.extend(s.switch.check_rates(topology));
    let mut last_start = 0;
    for (i, traffic) in s.traffic.iter().enumerate() {
        let (found, last) = check_traffic_placed(s, &traffic.source, topology, base);
        wrong.extend(found.into_iter().map(|m| Mistake::new(format!("traffic[{i}].{}", m.key), m.message)));
        last_start = last.max(last_start);
    }
    (wrong, last_start)
}

/// A section's own transport may be TCP only where the scenario's is, which brings hosts and ports as Linux has them;
/// and TCP's packets leave no room for what routers write.
fn check_beside(s: &Scenario, own: &cc::Config, rule: Rule<'_>) {
    let (kind, main) = (own.kind(), s.transport.kind());
    let message = format!("\"{kind}\" beside \"{main}\" is TCP beside RDMA: make \"{kind}\" the scenario's transport");
    rule(own.tcp().is_none() || s.is_tcp(), "transport.kind", message);
    let written = router::Kind::Tcp.and(own.settings().router()).is_none();
    let message = format!("\"{kind}\" reads what switches write, which they do not beside TCP, \"{main}\"");
    rule(!s.is_tcp() || !written, "transport.kind", message);
}

/// A network has one kind of router: what an earlier transport needs is there already.
fn check_router(s: &Scenario, number: usize, rule: Rule<'_>) {
    let before = s.traffic[..number].iter().filter_map(|traffic| traffic.transport.as_ref());
    let Some(own) = &s.traffic[number].transport else { return };
    let needs = |transport: &cc::Config| transport.settings().router();
    let other = std::iter::once(&s.transport).chain(before).find(|other| needs(other).and(needs(own)).is_none());
    let Some(other) = other.filter(|other| other.tcp().is_some() == own.tcp().is_some()) else { return };
    let (kind, beside) = (own.kind(), other.kind());
    let message = if kind == beside {
        format!("other parameters of \"{kind}\" beside it: routers have one set of them")
    } else {
        format!("\"{kind}\" does not run beside \"{beside}\": packets have room for one of them")
    };
    rule(false, &format!("traffic[{number}].transport.kind"), message);
}

/// Ports whose rate is recorded: of switches, with RCP.
fn check_rates(s: &Scenario, rule: Rule<'_>) {
    let mut all = std::iter::once(&s.transport).chain(s.traffic.iter().filter_map(|t| t.transport.as_ref()));
    let rcp = all.any(|transport| matches!(transport, cc::Config::Rcp(_)));
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

/// Largest flow: its packets are numbered in 32 bits, and the highest number is taken.
fn largest_flow(s: &Scenario) -> u64 {
    s.host.payload.0.saturating_mul(u64::from(u32::MAX - 1))
}

fn check_traffic(s: &Scenario, traffic: &Traffic, rule: Rule<'_>) {
    let loaded = |load: f64| {
        let message =
            format!("{load} is not a share of the link rate: above 0 and at most 10, usually below 1, such as 0.6");
        (load > 0.0 && load <= 10.0, "load", message)
    };
    let (class, classes) = (usize::from(traffic.class), s.switch.class_count());
    let known = if classes == 1 { "only 0 is there".into() } else { format!("they are 0 to {}", classes - 1) };
    rule(class < classes, "class", format!("there is no class {class} in switch.classes: {known}"));
    match &traffic.source {
        Config::Background(b) => {
            let (ok, key, message) = loaded(b.load);
            rule(ok, key, message);
        }
        Config::Incast(i) => {
            let (ok, key, message) = loaded(i.load);
            rule(ok, key, message);
            rule(i.size > Bytes(0), "size", "must be larger than 0, such as \"2KB\"".into());
            let most = largest_flow(s);
            let message =
                format!("{} is more than a flow can have, {} at {} a packet", i.size, Bytes(most), s.host.payload);
            rule(i.size.0 <= most || most == 0, "size", message);
        }
        Config::Long(l) => {
            rule(!l.src.is_empty(), "src", "names no host".into());
            let stop = l.stop.unwrap_or(s.duration);
            let start = l.start.unwrap_or_default();
            let what = if l.stop.is_some() { "the stop" } else { "the end of duration" };
            rule(
                start < stop || stop == Span(0) && l.stop.is_none(),
                "start",
                format!("{start} is not before {what}, {stop}"),
            );
        }
        Config::Trace(_) => {}
        Config::Rpc(r) => {
            check_exchanges(s, &r.between(), rule);
            let one = r.per_second.is_some() != r.depth.is_some();
            rule(one, "per_second", "or depth is needed, not both: such as per_second = 10000 or depth = 1".into());
            let rate = r.per_second.is_none_or(|rate| rate > 0.0 && rate <= 1e9);
            rule(rate, "per_second", format!("{} is outside above 0 to 1e9", r.per_second.unwrap_or_default()));
            check_depth(r.depth.unwrap_or(1), 1024, rule);
        }
        Config::Storage(d) => {
            check_exchanges(s, &d.between(), rule);
            check_depth(d.depth, storage::DEPTH, rule);
            rule((0.0..=1.0).contains(&d.writes), "writes", format!("{} is no share: from 0 to 1", d.writes));
            rule(d.rate.is_none_or(|rate| rate.0 > 0), "rate", "must be above 0, such as \"25Gbps\"".into());
        }
    }
}

/// What flows are held to.
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

fn check_depth(depth: u32, most: u32, rule: Rule<'_>) {
    rule((1..=most).contains(&depth), "depth", format!("{depth} is outside 1 to {most}"));
}

fn check_exchanges(s: &Scenario, between: &Between<'_>, rule: Rule<'_>) {
    let &Between { connections, start, stop, .. } = between;
    let kind = s.transport.kind();
    rule(s.is_tcp(), "kind", format!("needs TCP: transport.kind is \"{kind}\"; such as \"cubic\""));
    rule((1..=64).contains(&connections), "connections", format!("{connections} is outside 1 to 64"));
    let (start, stop) = (start.unwrap_or_default(), stop.unwrap_or(s.duration));
    rule(start < stop || s.duration == Span(0), "start", format!("{start} is not before the stop, {stop}"));
    rule(stop <= s.duration, "stop", format!("{stop} is after the end of duration, {}", s.duration));
}

/// What is wrong with a list of hosts.
fn unknown(key: &str, names: &[String], topology: &Topology) -> Vec<Mistake> {
    let wrong = topology.hosts_named(names).err().unwrap_or_default().into_iter();
    wrong.map(|(i, m)| Mistake::new(format!("{key}[{i}]"), m)).take(MAX_OF_A_LIST).collect()
}

/// Hosts that traffic is between: at least two, each once.
fn check_members(named: Option<&[String]>, topology: &Topology) -> Vec<Mistake> {
    let Some(names) = named else { return vec![] };
    let hosts = topology.hosts_named(names).map_or(names.len(), |hosts| hosts.len());
    if hosts < 2 {
        return vec![Mistake::new("hosts", format!("{hosts} hosts: traffic is between at least two"))];
    }
    unknown("hosts", names, topology)
}

/// Hosts that flows go to: for each sender another one.
fn check_receivers(from: Option<&[String]>, to: &[String], topology: &Topology) -> Vec<Mistake> {
    let receivers = match topology.hosts_named(to) {
        Err(_) => return unknown("to", to, topology),
        Ok(receivers) if receivers.is_empty() => return vec![Mistake::new("to", "names no host")],
        Ok(receivers) => receivers,
    };
    let senders = from.map(|names| topology.hosts_named(names).unwrap_or_default());
    match (&receivers[..], senders) {
        (all, None) if all.len() == topology.hosts() => vec![Mistake::new("to", "leaves no host to send")],
        ([only], Some(senders)) if senders.contains(only) => {
            let message = format!("{} would send to itself: leave it out of hosts", topology.name(*only));
            vec![Mistake::new("to", message)]
        }
        _ => vec![],
    }
}

fn check_traffic_placed(s: &Scenario, source: &Config, topology: &Topology, base: &Path) -> (Vec<Mistake>, Ps) {
    let mut wrong = Vec::new();
    let mut last_start = 0;
    let hosts = topology.hosts();
    match source {
        Config::Background(b) => {
            match &b.to {
                None => wrong.extend(check_members(b.hosts.as_deref(), topology)),
                Some(to) => {
                    wrong.extend(unknown("hosts", b.hosts.as_deref().unwrap_or_default(), topology));
                    wrong.extend(check_receivers(b.hosts.as_deref(), to, topology));
                }
            }
            let largest = workload::size_distribution(&b.workload, base).map(|cdf| cdf.largest());
            if let Err(m) = largest.and_then(|size| too_large(size, s)) {
                wrong.push(Mistake::new("workload", m));
            }
        }
        Config::Incast(i) => {
            let bad = check_members(i.hosts.as_deref(), topology);
            let (what, hosts) = i.hosts.as_ref().map_or(("the network has", hosts), |h| ("it is between", h.len()));
            if bad.is_empty() && (i.fan_out == 0 || i.fan_out as usize >= hosts) {
                let most = hosts - 1;
                let m = format!("{} answering servers, but {what} {hosts} hosts: 1 to {most} are possible", i.fan_out);
                wrong.push(Mistake::new("fan_out", m));
            }
            wrong.extend(bad);
        }
        Config::Long(l) => {
            let bad = l.src.iter().enumerate().filter_map(|(j, name)| {
                let m = match topology.host_named(name) {
                    Err(m) => m,
                    Ok(_) if *name == l.dst => format!("{name} would send to itself"),
                    Ok(_) => return None,
                };
                Some(Mistake::new(format!("src[{j}]"), m))
            });
            wrong.extend(bad.take(MAX_OF_A_LIST));
            if let Err(m) = topology.host_named(&l.dst) {
                wrong.push(Mistake::new("dst", m));
            }
        }
        Config::Rpc(r) => {
            let sizes = [("request", &r.request), ("response", &r.response)];
            wrong.extend(check_sessions(&r.between(), &sizes, rpc::LARGEST, topology, base));
        }
        Config::Storage(d) => {
            wrong.extend(check_sessions(&d.between(), &[("block", &d.block)], storage::LARGEST, topology, base));
        }
        Config::Trace(t) => {
            let extent = workload::trace::open(t, base, topology).and_then(|mut reader| reader.check());
            last_start = extent.as_ref().map_or(0, |extent| extent.last);
            if let Err(m) = extent.and_then(|extent| too_large(extent.largest, s)) {
                wrong.push(Mistake::new("file", m));
            }
        }
    }
    (wrong, last_start)
}

/// Connections of a section at most.
const MAX_SESSIONS: usize = 16_384;

fn check_sessions(
    between: &Between<'_>,
    sizes: &[(&str, &Sizes)],
    largest: Bytes,
    topology: &Topology,
    base: &Path,
) -> Vec<Mistake> {
    let check = |sizes: &Sizes| {
        let found = Bytes(sizes.read(base)?.largest());
        if found <= largest { Ok(()) } else { Err(format!("{found} is more than the {largest} that are possible")) }
    };
    let bad = sizes.iter().filter_map(|(key, sizes)| Some(Mistake::new(*key, check(sizes).err()?)));
    let mut wrong: Vec<_> = bad.collect();
    match between.hosts(topology) {
        Err(bad) => wrong.extend(bad.into_iter().take(MAX_OF_A_LIST)),
        Ok(Sides { clients, each, .. }) => {
            let sessions = clients.len() * each;
            if sessions > MAX_SESSIONS {
                let message = format!("{sessions} connections in all: at most {MAX_SESSIONS} are possible");
                wrong.push(Mistake::new("connections", message));
            }
        }
    }
    wrong
}

/// Refuses flows of more packets than can be numbered.
fn too_large(size: u64, s: &Scenario) -> Result<(), String> {
    let most = largest_flow(s);
    if size <= most || most == 0 {
        return Ok(());
    }
    Err(format!(
        "has a flow of {}, more than {} at {} a packet: raise host.payload",
        Bytes(size),
        Bytes(most),
        s.host.payload
    ))
}

fn host_pair(pair: &str, topology: &Topology) -> Result<(), String> {
    let (a, b) = pair.split_once("->").ok_or_else(|| format!("\"{pair}\" is not two hosts, such as \"h0->h1\""))?;
    if topology.host_named(a)? == topology.host_named(b)? {
        return Err(format!("{a} sends nothing to itself: write two hosts, such as \"h0->h1\""));
    }
    Ok(())
}
