//! Rules that a single value cannot break alone.

use super::load::Mistake;
use super::{Loss, Scenario, Sync, Traffic};
use crate::topology::Topology;
use crate::units::{Bytes, Rate, Span};
use crate::workload;
use std::path::Path;

/// Checks what the file says, before defaults are filled in.
pub(super) fn check(s: &Scenario, topology: &Topology, base: &Path) -> Vec<Mistake> {
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
    let payload = s.host.payload.0;
    rule((1..=9000).contains(&payload), "host.payload", format!("{payload}B is outside 1B to 9000B"));
    rule(s.host.rto.0 > 0, "host.rto", "must be longer than 0, such as \"16ms\"".into());
    rule(s.onramp.max_pause.0 > 0, "onramp.max_pause", "must be longer than 0, such as \"1ms\"".into());
    let gains = [4.0, 8.0, 16.0, 32.0, 64.0].map(|d| 1.0 / d);
    rule(
        gains.contains(&s.onramp.gain),
        "onramp.gain",
        format!("{} is not one of 0.25, 0.125, 0.0625, 0.03125, 0.015625 (1/4 to 1/64)", s.onramp.gain),
    );
    rule(
        (0.0..=1.0).contains(&s.onramp.beta_start),
        "onramp.beta_start",
        format!("{} is outside 0 to 1", s.onramp.beta_start),
    );
    rule(s.onramp.ack_every > 0, "onramp.ack_every", "must be at least 1".into());
    rule(
        s.clock.sync == Sync::Gaussian || s.clock.sigma == Span(0),
        "clock.sigma",
        "has no effect with sync = \"perfect\": write sync = \"gaussian\"".into(),
    );
    rule(s.measure.interval.0 > 0, "measure.interval", "must be longer than 0, such as \"10us\"".into());
    for (name, points) in [("queues", &s.measure.queues), ("links", &s.measure.links)] {
        for (i, point) in points.iter().enumerate() {
            if let Err(message) = topology.port_named(point) {
                rule(false, &format!("measure.{name}[{i}]"), message);
            }
        }
    }
    for (i, pair) in s.measure.owd.iter().enumerate() {
        let known = pair.split_once("->").is_some_and(|(a, b)| topology.host_named(a).is_ok() && topology.host_named(b).is_ok());
        rule(known, &format!("measure.owd[{i}]"), format!("\"{pair}\" is not two hosts, such as \"h0->h1\""));
    }
    check_switch(s, &mut rule);
    s.transport.settings().check(&mut |ok, key, message| rule(ok, &format!("transport.{key}"), message));
    rule(!s.traffic.is_empty(), "traffic", "at least one [[traffic]] section is needed".into());
    for (i, traffic) in s.traffic.iter().enumerate() {
        for m in check_traffic(s, traffic, topology, base) {
            rule(false, &format!("traffic[{i}].{}", m.key), m.message);
        }
    }
    wrong
}

fn check_switch(s: &Scenario, rule: &mut impl FnMut(bool, &str, String)) {
    for (i, a) in s.switch.alpha.iter().flatten().enumerate() {
        let key = format!("switch.alpha[{i}].alpha");
        rule(a.alpha > 0.0 && a.alpha.is_finite(), &key, format!("{} must be above 0", a.alpha));
    }
    for (i, e) in s.switch.ecn.iter().flatten().enumerate() {
        let key = format!("switch.ecn[{i}]");
        rule(e.kmin <= e.kmax, &format!("{key}.kmin"), format!("{} is above kmax, {}", e.kmin, e.kmax));
        rule((0.0..=1.0).contains(&e.pmax), &format!("{key}.pmax"), format!("{} is outside 0 to 1", e.pmax));
    }
    let headroom = s.switch.loss == Loss::Pfc || s.switch.headroom.is_none();
    rule(headroom, "switch.headroom", "has no effect with loss = \"lossy\"".into());
    rule(s.switch.buffer != Some(Bytes(0)), "switch.buffer", "must be larger than 0, such as \"32MiB\"".into());
}

/// Checks what only a resolved scenario knows.
pub(super) fn check_resolved(s: &Scenario) -> Vec<Mistake> {
    let mut wrong = Vec::new();
    let covered = |rates: Vec<Rate>, key: &str, wrong: &mut Vec<Mistake>| {
        let mut sorted = rates.clone();
        sorted.sort();
        sorted.dedup();
        if sorted.len() < rates.len() {
            wrong.push(Mistake::new(key, "names a rate twice"));
        }
    };
    covered(s.switch.alpha.iter().flatten().map(|a| a.rate).collect(), "switch.alpha", &mut wrong);
    covered(s.switch.ecn.iter().flatten().map(|a| a.rate).collect(), "switch.ecn", &mut wrong);
    covered(s.switch.headroom.iter().flatten().map(|a| a.rate).collect(), "switch.headroom", &mut wrong);
    if s.onramp.enabled && s.onramp.threshold == Some(Span(0)) {
        wrong.push(Mistake::new("onramp.threshold", "must be above the one-way delay of an empty path, such as \"16us\""));
    }
    wrong
}

fn check_traffic(s: &Scenario, traffic: &Traffic, topology: &Topology, base: &Path) -> Vec<Mistake> {
    let mut wrong = Vec::new();
    let hosts = topology.hosts();
    match traffic {
        Traffic::Background(b) => {
            wrong.extend(load(b.load));
            if let Err(m) = workload::size_distribution(&b.workload, base) {
                wrong.push(Mistake::new("workload", m));
            }
            if hosts < 2 {
                wrong.push(Mistake::new("kind", "background traffic needs at least 2 hosts"));
            }
        }
        Traffic::Incast(i) => {
            wrong.extend(load(i.load));
            if i.fan_out == 0 || i.fan_out as usize >= hosts {
                let most = hosts.saturating_sub(1);
                let m = format!("{} answering servers, but the network has {hosts} hosts: at most {most}", i.fan_out);
                wrong.push(Mistake::new("fan_out", m));
            }
            if i.size == Bytes(0) {
                wrong.push(Mistake::new("size", "must be larger than 0, such as \"2KB\""));
            }
        }
        Traffic::Long(l) => {
            if l.src.is_empty() {
                wrong.push(Mistake::new("src", "names no host"));
            }
            for (j, name) in l.src.iter().enumerate() {
                match topology.host_named(name) {
                    Err(m) => wrong.push(Mistake::new(format!("src[{j}]"), m)),
                    Ok(_) if *name == l.dst => {
                        wrong.push(Mistake::new(format!("src[{j}]"), format!("{name} would send to itself")));
                    }
                    Ok(_) => {}
                }
            }
            if let Err(m) = topology.host_named(&l.dst) {
                wrong.push(Mistake::new("dst", m));
            }
            if l.start >= l.stop.unwrap_or(s.duration) {
                let m = format!("{} is not before the stop, {}", l.start, l.stop.unwrap_or(s.duration));
                wrong.push(Mistake::new("start", m));
            }
        }
        Traffic::Trace(t) => {
            if let Err(m) = workload::trace::open(t, base, topology).and_then(|mut reader| reader.check()) {
                wrong.push(Mistake::new("file", m));
            }
        }
    }
    wrong
}

fn load(load: f64) -> Option<Mistake> {
    let ok = load > 0.0 && load <= 10.0;
    (!ok).then(|| Mistake::new("load", format!("{load} is not a share of the link rate: above 0, usually below 1, such as 0.6")))
}
