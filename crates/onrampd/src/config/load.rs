//! From text to a checked configuration; every mistake becomes one line.

use super::file::{Clock, File, Version};
use super::key::{Key, world_readable};
use super::quantity::{Drift, Size, Threshold, Time};
use super::{Attach, Config, Fleet, GateKind, Lives, Mesh, Mode, Params, Parent, Peer, TestClock};
use crate::abi;
use crate::fleet::pairs::KEY_LIFE;
use crate::fleet::pki::CERTIFICATE_LIFE;
use crate::policy::{self, Own};
use crate::scope;
use onramp_config::{ConfigError, Document, Mistake, Outline, Parsed, Reading};
use std::collections::HashSet;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Longest file that is read, in bytes.
pub const MAX_FILE: u64 = 4 << 20;
/// Hosts with which OR-ACKs are exchanged, at most: the programs' maps have room for so many.
pub const MAX_PEERS: usize = 16_384;
/// Most addresses a host of a fleet has beside that of its certificate.
pub const MAX_ALIASES: usize = 16;
/// Default `max_pause`, in nanoseconds (docs/algorithm.md).
const MAX_PAUSE: u64 = 2_000_000;
/// Default `threshold_floor`, in nanoseconds: where large flows lose nothing at 10 Gb/s (docs/algorithm.md).
const THRESHOLD_FLOOR: u64 = 50_000;
/// Default `or_ack_gap`, in nanoseconds (docs/algorithm.md).
const OR_ACK_GAP: u64 = 100_000;
/// Default `max_share`: of a queue that twenty senders fill each one waits for 95% of the time, but not in vain.
const MAX_SHARE: f64 = 0.9;
/// Default `fleet.max_uncertainty`, and what clocks without a fleet are trusted to, in nanoseconds: half of the floor.
const MAX_UNCERTAINTY: u64 = 25_000;

/// The text of a configuration file.
///
/// # Errors
/// It cannot be read, is too long or is no text.
pub fn read(path: &Path) -> Result<String, Vec<ConfigError>> {
    let error =
        |message| vec![ConfigError { file: path.display().to_string(), line: None, key: String::new(), message }];
    let failed = |e| error(format!("cannot be read: {e}"));
    let mut bytes = Vec::new();
    std::fs::File::open(path).and_then(|f| f.take(MAX_FILE + 1).read_to_end(&mut bytes)).map_err(failed)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(error(format!("is longer than {} MiB: this is no configuration of onrampd", MAX_FILE >> 20)));
    }
    String::from_utf8(bytes).map_err(|_| error("is not UTF-8 text".into()))
}

/// Reads and checks a configuration. `file` is what messages call it; paths in it are
/// relative to `base`.
///
/// # Errors
/// Every mistake found, in the order of the file; of mistakes that keep it from being TOML, the
/// first. What only makes sense once another mistake is put right is not told.
pub fn load(text: &str, file: &str, base: &Path) -> Result<Config, Vec<ConfigError>> {
    let document = Document::parse(text, file).map_err(|e| vec![e])?;
    let mut reading: Reading<File> = onramp_config::read_all(document.table().clone(), OUTLINE);
    // Without one of these, rules of other keys would miss it.
    let whole = ["fleet", "key", "key_file"].iter().all(|key| reading.has_all_of(key));
    let config = reading.value.take().filter(|_| whole).and_then(|read| {
        let mut found = Vec::new();
        let config = check(read, file, base, &mut found);
        reading.add(found);
        config
    });
    let mut errors: Vec<ConfigError> = reading.mistakes.into_iter().map(|m| document.located(m)).collect();
    errors.sort_by_key(|e| e.line.unwrap_or(usize::MAX));
    config.filter(|_| errors.is_empty()).ok_or(errors)
}

/// A checked value, or none and one mistake more.
fn keep<T>(mistakes: &mut Vec<Mistake>, key: &str, value: Result<T, String>) -> Option<T> {
    value.map_err(|message| mistakes.push(Mistake::new(key, message))).ok()
}

fn check(f: File, file: &str, base: &Path, mistakes: &mut Vec<Mistake>) -> Option<Config> {
    let interfaces = keep_at(mistakes, interfaces(&f));
    let parent = keep(mistakes, "parent", f.parent.as_deref().map_or(Ok(Parent::Auto), parent));
    let params = params(&f, mistakes);
    let interval = f.or_ack_interval.map_or(1 << abi::OR_INTERVAL_SHIFT_DEFAULT, |s| s.0);
    let interval_shift = keep(mistakes, "or_ack_interval", interval_shift(interval));
    for (key, value, most) in [("max_flows", f.max_flows, 1 << 22), ("max_stamps", f.max_stamps, 1 << 24)] {
        if value.is_some_and(|v| !(16..=most).contains(&v)) {
            mistakes.push(Mistake::new(key, format!("is outside 16 to {most}")));
        }
    }
    if f.port == Some(0) {
        mistakes.push(Mistake::new("port", "0 is no port: write one such as 9471, the same on all hosts"));
    }
    if f.line_rate.is_some_and(|r| r.0 < 1_000_000) {
        mistakes.push(Mistake::new("line_rate", "is below 1Mbps: write that of the interface, such as \"10Gbps\""));
    }
    let idle = f.idle.map_or(1_000_000, |t| t.0);
    if idle == 0 {
        mistakes.push(Mistake::new("idle", "must be above 0, such as \"1ms\""));
    }
    if f.max_share.is_some_and(|share| !(0.1..=1.0).contains(&share)) {
        mistakes.push(Mistake::new("max_share", "is outside 0.1 to 1; 1 is no bound"));
    }
    let drift = f.test.clock_drift.unwrap_or_default();
    if drift.0.abs() > 100_000_000 {
        mistakes.push(Mistake::new("test.clock_drift", "is beyond 100000ppm"));
    }
    let noise = f.test.stamp_noise.map_or(0, |t| t.0);
    if noise > 1_000_000 {
        mistakes.push(Mistake::new("test.stamp_noise", "is above 1ms"));
    }
    let gate = &f.gate;
    for (key, value) in [("gate.flow_limit", gate.flow_limit), ("gate.flows", gate.flows), ("gate.limit", gate.limit)] {
        if value == Some(0) {
            mistakes.push(Mistake::new(key, "must be at least 1"));
        }
    }
    for (key, value, low, high) in [
        ("gate.quantum", gate.quantum, Size(256), Size(1 << 20)),
        ("gate.bytes", gate.bytes, Size(64 << 10), Size(4 << 30)),
    ] {
        if value.is_some_and(|v| v.0 < low.0 || v.0 > high.0) {
            mistakes.push(Mistake::new(key, format!("is outside {low} to {high}")));
        }
    }
    if gate.target.is_some_and(|target| target.0 > 100_000_000) {
        mistakes.push(Mistake::new("gate.target", "is above 100ms"));
    }
    mistakes.extend(scope::mistakes(&f.scope));
    let fleet = fleet(&f, base, mistakes);
    if let (GateKind::Bpf, Some(Parent::Class(_))) = (gate.kind, parent) {
        let message = "\"bpf\" goes to the root or below mq only: it takes \"module\", or another parent";
        mistakes.push(Mistake::new("gate.kind", message));
    }
    // A fleet's members are its peers.
    let peers = if fleet.is_some() { Vec::new() } else { peers(&f, file, base, mistakes) };
    let in_run = |given: Option<PathBuf>, default: &str| given.map_or(default.into(), |p| base.join(p));
    Some(Config {
        mode: f.mode.unwrap_or(Mode::Observe),
        own: Own { mode: f.mode, threshold: f.threshold },
        interfaces: interfaces?,
        parent: parent?,
        attach: f.attach.unwrap_or(Attach::Auto),
        params: params?,
        interval_shift: interval_shift?,
        or_ack_gap: f.or_ack_gap.map_or(OR_ACK_GAP, |t| t.0),
        port: f.port.unwrap_or(9471),
        line_rate: f.line_rate.map(|r| r.0),
        cut: f.cut.unwrap_or(true),
        idle,
        max_flows: f.max_flows.unwrap_or(65_536),
        max_stamps: f.max_stamps.unwrap_or(131_072),
        socket: in_run(f.socket, crate::DEFAULT_SOCKET),
        state_dir: in_run(f.state_dir, crate::DEFAULT_STATE_DIR),
        peers,
        max_share: f.max_share.unwrap_or(MAX_SHARE),
        auto_threshold: f.fleet.is_some() && !matches!(f.threshold, Some(Threshold::Fixed(_))),
        clock_is_shared: f.clock == Some(Clock::Shared),
        scope: f.scope,
        fleet,
        gate: f.gate,
        test: TestClock { offset: f.test.clock_offset.map_or(0, |o| o.0), drift: Drift(drift.0), noise: noise as u32 },
    })
}

fn keep_at<T>(mistakes: &mut Vec<Mistake>, value: Result<T, Mistake>) -> Option<T> {
    value.map_err(|m| mistakes.push(m)).ok()
}

fn interfaces(f: &File) -> Result<Vec<String>, Mistake> {
    let (key, all) = match (f.interface.clone(), f.interfaces.clone()) {
        (Some(_), Some(_)) => return Err(Mistake::new("interface", "is given beside interfaces: keep one of the two")),
        (Some(one), None) => ("interface", vec![one]),
        (None, Some(several)) => ("interfaces", several),
        (None, None) => return Err(Mistake::new("interface", "is missing: write one, such as interface = \"eth0\"")),
    };
    if all.is_empty() {
        return Err(Mistake::new(key, "is empty: write at least one, such as [\"eth0\"]"));
    }
    let mut seen = HashSet::new();
    for name in &all {
        let fits = (1..=15).contains(&name.len()) && !name.contains(['/', ' ', '\0']) && name != "." && name != "..";
        if !fits || name.chars().any(char::is_control) {
            return Err(Mistake::new(key, format!("{name:?} is no name of an interface: `ip link` lists them")));
        }
        if name == crate::net::acker::NAME {
            return Err(Mistake::new(key, format!("{name} is the agent's own device: write the one packets leave by")));
        }
        if !seen.insert(name) {
            return Err(Mistake::new(key, format!("{name} is given twice")));
        }
    }
    Ok(all)
}

fn parent(text: &str) -> Result<Parent, String> {
    match text {
        "auto" => return Ok(Parent::Auto),
        "root" => return Ok(Parent::Root),
        "mq" => return Ok(Parent::Mq),
        _ => {}
    }
    let half = |s: &str| (!s.is_empty() && s.len() <= 4).then(|| u16::from_str_radix(s, 16).ok()).flatten();
    let class = text.split_once(':').and_then(|(major, minor)| Some((half(major)?, half(minor)?)));
    match class {
        Some((major, minor)) if major != 0 && minor != 0 && major != u16::MAX && !text.contains('+') => {
            Ok(Parent::Class(u32::from(major) << 16 | u32::from(minor)))
        }
        _ => Err(format!("{text:?} is not \"auto\", \"root\", \"mq\" or a class such as \"1:1\"")),
    }
}

fn params(f: &File, mistakes: &mut Vec<Mistake>) -> Option<Params> {
    let before = mistakes.len();
    let floor = f.threshold_floor.map_or(THRESHOLD_FLOOR, |t| t.0);
    let (key, threshold) = match f.threshold {
        Some(Threshold::Fixed(Time(threshold))) => ("threshold", threshold),
        _ if f.fleet.is_some() => ("threshold_floor", floor),
        Some(Threshold::Auto) => {
            let needed = "\"auto\" takes a [fleet], whose clocks are synchronised: write a time such as \"50us\"";
            mistakes.push(Mistake::new("threshold", needed));
            ("threshold", floor)
        }
        None => {
            mistakes.push(Mistake::new("threshold", "is missing: write one, such as threshold = \"50us\""));
            ("threshold", floor)
        }
    };
    if threshold == 0 {
        mistakes.push(Mistake::new(key, "must be above 0, such as \"50us\""));
    }
    if f.threshold_floor.is_some() && key == "threshold" {
        mistakes.push(Mistake::new("threshold_floor", "has no meaning with a fixed threshold: remove one"));
    }
    let max_pause = f.max_pause.map_or(MAX_PAUSE, |t| t.0);
    if f.max_pause.is_some() && !(1..=1_000_000_000).contains(&max_pause) {
        mistakes.push(Mistake::new("max_pause", "must be above 0 and at most 1s, such as 2ms"));
    }
    let gain = f.gain.unwrap_or(1.0 / f64::from(1u32 << abi::ONRAMP_GAIN_SHIFT_DEFAULT));
    let gain_shift = (abi::ONRAMP_GAIN_SHIFT_MIN..=abi::ONRAMP_GAIN_SHIFT_MAX)
        .find(|shift| gain == 1.0 / f64::from(1u32 << shift))
        .ok_or_else(|| format!("{gain} is not one of 0.25, 0.125, 0.0625, 0.03125, 0.015625 (1/4 to 1/64)"));
    let gain_shift = keep(mistakes, "gain", gain_shift);
    let one = f64::from(abi::ONRAMP_BETA_ONE);
    let beta = f.beta_start.unwrap_or(f64::from(abi::ONRAMP_BETA_START_DEFAULT) / one);
    if !(0.0..=1.0).contains(&beta) {
        mistakes.push(Mistake::new("beta_start", format!("{beta} is outside 0 to 1")));
    }
    (mistakes.len() == before).then_some(Params {
        threshold,
        max_pause,
        gain_shift: gain_shift?,
        strawman: f.version == Some(Version::Strawman),
        beta_start: (beta * one).round() as u32,
    })
}

fn interval_shift(bytes: u64) -> Result<u32, String> {
    let shift = bytes.trailing_zeros();
    let fits = bytes.is_power_of_two() && (abi::OR_INTERVAL_SHIFT_MIN..=abi::OR_INTERVAL_SHIFT_MAX).contains(&shift);
    fits.then_some(shift).ok_or_else(|| "is no power of two from 1KiB to 1MiB, such as \"16KiB\"".into())
}

fn fleet(f: &File, base: &Path, mistakes: &mut Vec<Mistake>) -> Option<Fleet> {
    let Some(section) = &f.fleet else {
        if f.clock == Some(Clock::Fleet) {
            mistakes.push(Mistake::new("clock", "\"fleet\" takes a section [fleet]: `onrampctl join` writes one"));
        }
        return None;
    };
    if matches!(f.clock, Some(Clock::Shared | Clock::Static)) {
        mistakes.push(Mistake::new("clock", "is given beside [fleet], which synchronises clocks: remove one"));
    }
    if f.clock_uncertainty.is_some() {
        mistakes
            .push(Mistake::new("clock_uncertainty", "is given beside [fleet], which knows how uncertain clocks are"));
    }
    let listed = [("peers", !f.peers.is_empty()), ("peer", !f.peer.is_empty())];
    let secret = [("key", f.key.is_some()), ("key_file", f.key_file.is_some())];
    for (key, _) in listed.into_iter().chain(secret).filter(|(_, given)| *given) {
        mistakes.push(Mistake::new(key, "has no meaning with [fleet], whose members are peers with keys of their own"));
    }
    let aliases = section.aliases.iter().enumerate().map(|(i, alias)| (format!("fleet.aliases[{i}]"), alias.0));
    let mut seen = HashSet::new();
    for (key, address) in [("fleet.address".into(), section.address.0)].into_iter().chain(aliases) {
        if usable(address).is_err() {
            let message = format!("{address}: no other host can send there: write this host's address");
            mistakes.push(Mistake::new(key, message));
        } else if !seen.insert(address.to_canonical()) {
            mistakes.push(Mistake::new(key, format!("{address} is given twice")));
        }
    }
    if section.aliases.len() > MAX_ALIASES {
        mistakes.push(Mistake::new("fleet.aliases", format!("are more than {MAX_ALIASES}")));
    }
    if let Err((key, message)) = policy::check(&section.labels) {
        let dot = if key.is_empty() { "" } else { "." };
        mistakes.push(Mistake::new(format!("fleet.labels{dot}{key}"), message));
    }
    if section.listen.is_some_and(|at| at.0.port() == 0) {
        mistakes.push(Mistake::new("fleet.listen", "0 is no port: write one such as 9472"));
    }
    if section.coordinators.is_empty() {
        mistakes.push(Mistake::new("fleet.coordinators", "is empty: write one, such as [\"10.0.0.1:9472\"]"));
    }
    let mut seen = HashSet::new();
    for (i, Parsed(coordinator)) in section.coordinators.iter().enumerate() {
        if !seen.insert(coordinator) {
            mistakes.push(Mistake::new(format!("fleet.coordinators[{i}]"), format!("{coordinator} is given twice")));
        }
        if coordinator.port() == 0 {
            mistakes.push(Mistake::new(format!("fleet.coordinators[{i}]"), "0 is no port: write one such as 9472"));
        }
    }
    let mesh = Mesh {
        probes: section.probes.unwrap_or(onramp_clock::mesh::PEERS),
        window: section.window.map_or(onramp_clock::WINDOW, |t| t.0),
        interval: section.interval.map_or(onramp_clock::schedule::INTERVAL, |t| t.0),
    };
    if let Err(Mistake { key, message }) = mesh.check() {
        mistakes.push(Mistake::new(format!("fleet.{key}"), message));
    }
    let lives = Lives {
        certificate: section.certificate_life.map_or(CERTIFICATE_LIFE, |life| life.0),
        key: section.key_life.map_or(KEY_LIFE, |life| life.0),
    };
    if let Err(Mistake { key, message }) = lives.check() {
        mistakes.push(Mistake::new(format!("fleet.{key}"), message));
    }
    let max_uncertainty = section.max_uncertainty.map_or(MAX_UNCERTAINTY, |t| t.0);
    if max_uncertainty == 0 {
        mistakes.push(Mistake::new("fleet.max_uncertainty", "must be above 0, such as \"25us\""));
    }
    Some(Fleet {
        address: section.address.0.to_canonical(),
        aliases: section.aliases.iter().map(|alias| alias.0.to_canonical()).collect(),
        labels: section.labels.clone(),
        coordinators: section.coordinators.iter().map(|coordinator| coordinator.0).collect(),
        folder: base.join(section.folder.as_deref().unwrap_or(Path::new("fleet"))),
        listen: section.listen.map(|at| at.0),
        mesh,
        lives,
        max_uncertainty,
        chrony: section.chrony.as_ref().map(|socket| base.join(socket)),
        log: section.log.as_ref().map(|file| base.join(file)),
    })
}

fn peers(f: &File, file: &str, base: &Path, mistakes: &mut Vec<Mistake>) -> Vec<Peer> {
    let readable = || world_readable(Path::new(file));
    let exposed = "stands in a file that everybody on this host can read: use key_file, or chmod o-r";
    let common = match (&f.key_file, &f.key) {
        (Some(_), Some(_)) => {
            mistakes.push(Mistake::new("key", "is given beside key_file: keep one of the two"));
            return Vec::new();
        }
        (Some(path), None) => keep(mistakes, "key_file", Key::read(&base.join(path))),
        (None, Some(_)) if readable() => {
            mistakes.push(Mistake::new("key", exposed));
            None
        }
        (None, Some(text)) => keep(mistakes, "key", text.parse()),
        (None, None) => None,
    };
    let no_key = f.key_file.is_none() && f.key.is_none();
    let clock = f.clock.unwrap_or(Clock::Static);
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    let listed = f.peers.iter().enumerate().map(|(i, a)| (format!("peers[{i}]"), a.0, None, None));
    let sections = f.peer.iter().enumerate();
    let sections = sections.map(|(i, p)| (format!("peer[{i}]"), p.address.0, p.clock_offset, p.key.as_ref()));
    for (at, address, offset, own) in listed.chain(sections) {
        if let Err(message) = usable(address) {
            mistakes.push(Mistake::new(&at, message));
        } else if !seen.insert(address.to_canonical()) {
            mistakes.push(Mistake::new(&at, format!("{address} is given twice")));
        }
        if offset.is_some() && clock == Clock::Shared {
            mistakes
                .push(Mistake::new(format!("{at}.clock_offset"), "has no meaning with clock = \"shared\": remove one"));
        }
        let key = match own {
            Some(_) if readable() => {
                mistakes.push(Mistake::new(format!("{at}.key"), exposed));
                None
            }
            Some(text) => keep(mistakes, &format!("{at}.key"), text.parse()),
            None if no_key => {
                let needed = "has no key: write key_file = \"onrampd.key\", a file of 32 hex digits";
                mistakes.push(Mistake::new(&at, needed));
                None
            }
            None => common,
        };
        let uncertainty = f.clock_uncertainty.map_or(MAX_UNCERTAINTY, |t| t.0);
        let clock_offset = if clock == Clock::Shared { Some(0) } else { offset.map(|o| o.0) };
        all.extend(key.map(|key| Peer::new(address.to_canonical(), key, clock_offset, uncertainty)));
    }
    if seen.len() > MAX_PEERS {
        mistakes.push(Mistake::new("peers", format!("are more than {MAX_PEERS}")));
    }
    all
}

/// Checks that another host can have this address.
///
/// # Errors
/// That it cannot.
pub fn usable(address: IpAddr) -> Result<(), String> {
    let wrong = address.is_unspecified() || address.is_multicast() || address.is_loopback();
    let wrong = wrong || matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    if wrong { Err(format!("{address} is not the address of another host")) } else { Ok(()) }
}

/// Stand-ins for sections that cannot be read; the address is one of documentation's (RFC 5737).
const OUTLINE: Outline =
    Outline { example, required: &[], lists: &[("peer", &[("address", "192.0.2.1")]), ("scope", scope::STAND_IN)] };

/// A value of a key that must be there.
fn example(key: &str) -> Option<&'static str> {
    match key {
        "coordinators" => Some("[\"10.0.0.1:9472\"]"),
        "hold" => Some("false"),
        "address" => Some("\"10.0.0.2\""),
        _ => None,
    }
}
