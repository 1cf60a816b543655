//! Rules that the type of a value does not already keep.

use super::load::Mistake;
use super::{Loss, Scenario, Threshold, Traffic};
use crate::topology::Topology;
use crate::units::{Bytes, NS, Rate, SEC, Span, US};
use crate::workload;
use std::path::Path;

/// Reports whether a rule holds: the key, and what is wrong and what would be right.
pub(super) type Rule<'a> = &'a mut dyn FnMut(bool, &str, String);

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
    check_host(s, &mut rule);
    check_onramp(s, &mut rule);
    super::clock::check(s, &mut rule);
    let interval = s.measure.interval;
    rule(interval >= Span(100 * NS), "measure.interval", format!("{interval} is shorter than 100ns: such as \"10us\""));
    let most = 1_000_000;
    let next = s.measure.next_owd;
    rule(next <= most, "measure.next_owd", format!("{next} is more than {most}: such as 20000"));
    check_switch(s, &mut rule);
    super::linux::check(s, &mut rule);
    s.transport.settings().check(&mut |ok, key, message| rule(ok, &format!("transport.{key}"), message));
    rule(!s.traffic.is_empty(), "traffic", "at least one [[traffic]] section is needed".into());
    for (i, traffic) in s.traffic.iter().enumerate() {
        check_traffic(s, traffic, &mut |ok, key, message| rule(ok, &format!("traffic[{i}].{key}"), message));
    }
    wrong
}

/// Checks what depends on the network and on other files.
pub(super) fn check_placed(s: &Scenario, topology: &Topology, base: &Path) -> Vec<Mistake> {
    let mut wrong = Vec::new();
    for (name, points) in [("queues", &s.measure.queues), ("links", &s.measure.links)] {
        let bad = points.iter().enumerate().filter_map(|(i, point)| Some((i, topology.port_named(point).err()?)));
        wrong.extend(bad.map(|(i, m)| Mistake::new(format!("measure.{name}[{i}]"), m)).take(MAX_OF_A_LIST));
    }
    let bad = s.measure.owd.iter().enumerate().filter_map(|(i, pair)| Some((i, host_pair(pair, topology).err()?)));
    wrong.extend(bad.map(|(i, m)| Mistake::new(format!("measure.owd[{i}]"), m)).take(MAX_OF_A_LIST));
    let (least, line) = (s.transport.settings().min_rate(), topology.host_rate());
    if least > line {
        wrong.push(Mistake::new(
            "transport.min_rate",
            format!("{least} is above the rate of the fastest host link, {line}"),
        ));
    }
    let hosts = s.linux.iter().flat_map(|l| l.onramp_hosts.iter().flatten()).enumerate();
    let bad = hosts.filter_map(|(i, name)| Some((i, topology.host_named(name).err()?)));
    wrong.extend(bad.map(|(i, m)| Mistake::new(format!("linux.onramp_hosts[{i}]"), m)).take(MAX_OF_A_LIST));
    check_rates(s, topology, &mut |key, message| wrong.push(Mistake::new(key, message)));
    for (i, traffic) in s.traffic.iter().enumerate() {
        let found = check_traffic_placed(s, traffic, topology, base);
        wrong.extend(found.into_iter().map(|m| Mistake::new(format!("traffic[{i}].{}", m.key), m.message)));
    }
    wrong
}

/// Checks what only a resolved scenario knows.
pub(super) fn check_resolved(s: &Scenario, topology: &Topology) -> Vec<Mistake> {
    let size = u128::from(s.switch.buffer.unwrap_or_default().0);
    let headroom_of =
        |rate| s.switch.headroom.iter().flatten().find(|h| h.rate == rate).map_or(0, |h| u128::from(h.bytes.0));
    let set_aside = |node: usize| -> u128 {
        let ports = topology.ports_of(node as u32).iter();
        ports.map(|&p| u128::from(s.switch.reserve.0) + headroom_of(topology.ports()[p as usize].rate)).sum()
    };
    let switches = topology.hosts()..topology.nodes();
    let Some((most, node)) = switches.map(|node| (set_aside(node), node)).max() else { return vec![] };
    let (name, ports) = (topology.name(node as u32), topology.ports_of(node as u32).len());
    if s.switch.loss == Loss::Pfc && most >= size {
        let m = format!(
            "{size}B must be more than what {name} sets aside for its {ports} ports (reserve and headroom), {most}B"
        );
        return vec![Mistake::new("switch.buffer", m)];
    }
    // The reserve is no part of a lossy buffer, but is added up all the same.
    if s.switch.loss == Loss::Lossy && most >= u128::from(Bytes::MAX.0) {
        return vec![Mistake::new("switch.reserve", "has no effect with loss = \"lossy\"")];
    }
    vec![]
}

fn check_host(s: &Scenario, rule: Rule<'_>) {
    let payload = s.host.payload.0;
    rule((1..=9000).contains(&payload), "host.payload", format!("{payload}B is outside 1B to 9000B"));
    let rto = s.host.rto;
    let ok = (Span(US)..=Span(100 * SEC)).contains(&rto);
    rule(ok, "host.rto", format!("{rto} is outside 1us to 100s: such as \"16ms\", well above the round-trip time"));
}

fn check_onramp(s: &Scenario, rule: Rule<'_>) {
    for (key, threshold) in
        [("threshold", s.onramp.threshold), ("threshold_floor", s.onramp.threshold_floor.map(Threshold::Fixed))]
    {
        if let Some(Threshold::Fixed(threshold)) = threshold.filter(|_| s.onramp.enabled) {
            let message = format!("{threshold} must be above the one-way delay of an empty path, such as \"16us\"");
            rule(threshold >= Span(NS), &format!("onramp.{key}"), message);
        }
    }
    rule(s.onramp.max_pause >= Span(NS), "onramp.max_pause", "must be at least 1ns, such as \"1ms\"".into());
    let gains = [4.0, 8.0, 16.0, 32.0, 64.0].map(|d| 1.0 / d);
    rule(
        gains.contains(&s.onramp.gain),
        "onramp.gain",
        format!("{} is not one of 0.25, 0.125, 0.0625, 0.03125, 0.015625 (1/4 to 1/64)", s.onramp.gain),
    );
    let beta = s.onramp.beta_start;
    rule((0.0..=1.0).contains(&beta), "onramp.beta_start", format!("{beta} is outside 0 to 1"));
    rule(s.onramp.ack_every > 0, "onramp.ack_every", "must be at least 1".into());
}

fn check_switch(s: &Scenario, rule: Rule<'_>) {
    // The threshold is α times the buffer, in units of 2^-16.
    const ALPHA: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
    for (i, a) in s.switch.alpha.iter().flatten().enumerate() {
        rule(
            ALPHA.contains(&a.alpha),
            &format!("switch.alpha[{i}].alpha"),
            format!("{} is outside 0.001 to 1000", a.alpha),
        );
    }
    for (i, e) in s.switch.ecn.iter().flatten().enumerate() {
        let key = format!("switch.ecn[{i}]");
        rule(e.kmin <= e.kmax, &format!("{key}.kmin"), format!("{} is above kmax, {}", e.kmin, e.kmax));
        rule((0.0..=1.0).contains(&e.pmax), &format!("{key}.pmax"), format!("{} is outside 0 to 1", e.pmax));
    }
    let headroom = s.switch.loss == Loss::Pfc || s.switch.headroom.is_none();
    rule(headroom, "switch.headroom", "has no effect with loss = \"lossy\"".into());
    let most = Bytes(1 << 40);
    let buffer = s.switch.buffer.is_none_or(|b| b > Bytes(0) && b <= most);
    rule(buffer, "switch.buffer", format!("must be larger than 0 and at most {most}, such as \"32MiB\""));
    let frame = s.switch.pfc_frame;
    rule(
        (1..=65_535).contains(&frame.0),
        "switch.pfc_frame",
        format!("{frame} is outside 1B to 65535B: such as \"43B\""),
    );
}

/// The per-rate lists: every link rate once, no other.
fn check_rates(s: &Scenario, topology: &Topology, wrong: &mut dyn FnMut(String, String)) {
    let rates = topology.link_rates();
    let mut check = |name: &str, listed: Option<Vec<Rate>>| {
        let Some(listed) = listed else { return };
        let links = rates.iter().map(Rate::to_string).collect::<Vec<_>>().join(", ");
        let mut good = true;
        for (i, rate) in listed.iter().enumerate() {
            let key = || format!("switch.{name}[{i}].rate");
            if listed[..i].contains(rate) {
                wrong(key(), format!("{rate} is listed twice: the rates are {links}"));
                good = false;
            } else if !rates.contains(rate) {
                wrong(key(), format!("no link has {rate}: the rates are {links}"));
                good = false;
            }
        }
        let left: Vec<String> = rates.iter().filter(|r| !listed.contains(r)).map(Rate::to_string).collect();
        if good && !left.is_empty() {
            wrong(
                format!("switch.{name}"),
                format!("leaves out links of {}: list every rate, {links}", left.join(", ")),
            );
        }
    };
    check("alpha", s.switch.alpha.as_ref().map(|l| l.iter().map(|e| e.rate).collect()));
    // An empty list switches marking off.
    check("ecn", s.switch.ecn.as_ref().filter(|l| !l.is_empty()).map(|l| l.iter().map(|e| e.rate).collect()));
    if s.switch.loss == Loss::Pfc {
        check("headroom", s.switch.headroom.as_ref().map(|l| l.iter().map(|e| e.rate).collect()));
    }
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
    match traffic {
        Traffic::Background(b) => {
            let (ok, key, message) = loaded(b.load);
            rule(ok, key, message);
        }
        Traffic::Incast(i) => {
            let (ok, key, message) = loaded(i.load);
            rule(ok, key, message);
            rule(i.size > Bytes(0), "size", "must be larger than 0, such as \"2KB\"".into());
            let most = largest_flow(s);
            let message =
                format!("{} is more than a flow can have, {} at {} a packet", i.size, Bytes(most), s.host.payload);
            rule(i.size.0 <= most || most == 0, "size", message);
        }
        Traffic::Long(l) => {
            rule(!l.src.is_empty(), "src", "names no host".into());
            let stop = l.stop.unwrap_or(s.duration);
            let what = if l.stop.is_some() { "the stop" } else { "the end of duration" };
            rule(
                l.start < stop || stop == Span(0) && l.stop.is_none(),
                "start",
                format!("{} is not before {what}, {stop}", l.start),
            );
        }
        Traffic::Trace(_) => {}
    }
}

/// Hosts that traffic is between: at least two, each once.
fn check_members(named: Option<&[String]>, topology: &Topology) -> Vec<Mistake> {
    let Some(names) = named else { return vec![] };
    if names.len() < 2 {
        return vec![Mistake::new("hosts", format!("{} hosts: traffic is between at least two", names.len()))];
    }
    let bad = names.iter().enumerate().filter_map(|(i, name)| {
        let again = || names[..i].contains(name).then(|| format!("\"{name}\" is named twice"));
        topology.host_named(name).err().or_else(again).map(|m| Mistake::new(format!("hosts[{i}]"), m))
    });
    bad.take(MAX_OF_A_LIST).collect()
}

fn check_traffic_placed(s: &Scenario, traffic: &Traffic, topology: &Topology, base: &Path) -> Vec<Mistake> {
    let mut wrong = Vec::new();
    let hosts = topology.hosts();
    match traffic {
        Traffic::Background(b) => {
            wrong.extend(check_members(b.hosts.as_deref(), topology));
            let largest = workload::size_distribution(&b.workload, base).map(|cdf| cdf.largest());
            if let Err(m) = largest.and_then(|size| too_large(size, s)) {
                wrong.push(Mistake::new("workload", m));
            }
        }
        Traffic::Incast(i) => {
            let bad = check_members(i.hosts.as_deref(), topology);
            let (what, hosts) = i.hosts.as_ref().map_or(("the network has", hosts), |h| ("it is between", h.len()));
            if bad.is_empty() && (i.fan_out == 0 || i.fan_out as usize >= hosts) {
                let most = hosts - 1;
                let m = format!("{} answering servers, but {what} {hosts} hosts: 1 to {most} are possible", i.fan_out);
                wrong.push(Mistake::new("fan_out", m));
            }
            wrong.extend(bad);
        }
        Traffic::Long(l) => {
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
        Traffic::Trace(t) => {
            let largest = workload::trace::open(t, base, topology).and_then(|mut reader| reader.check());
            if let Err(m) = largest.and_then(|size| too_large(size, s)) {
                wrong.push(Mistake::new("file", m));
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
