//! Configuration of switches, as a scenario gives it, and the rules that follow from it.

use super::buffer::Buffer;
use super::{path, schedule};
use onramp_config::units::{Bytes, Rate, SEC};
use onramp_config::{Mistake, Rule};
use onramp_topology::{NodeId, Topology};
use serde::{Deserialize, Serialize};

/// A value for links of one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alpha {
    /// The port's rate.
    pub rate: Rate,
    /// Dynamic threshold factor for ports of that rate.
    pub alpha: f64,
}

/// ECN marking at egress ports of one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ecn {
    /// The port's rate.
    pub rate: Rate,
    /// No marks up to this queue.
    pub kmin: Bytes,
    /// Every packet is marked above this queue. Equal to `kmin`: step marking.
    pub kmax: Bytes,
    /// Marking probability at `kmax`, rising linearly from 0 at `kmin`.
    pub pmax: f64,
}

/// PFC headroom at ports of one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Headroom {
    /// The port's rate.
    pub rate: Rate,
    /// Room for what arrives between XOFF and its effect.
    pub bytes: Bytes,
}

/// Most bytes of a class's queue at ports of one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueLimit {
    /// The port's rate.
    pub rate: Rate,
    /// Bytes that wait at most.
    pub bytes: Bytes,
}

/// Room of a drop-tail queue at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortBuffer {
    /// In bytes.
    Bytes(u64),
    /// In packets.
    Packets(u32),
}

/// How a class behaves when the buffer fills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Loss {
    /// Priority flow control: the upstream port is paused, nothing is dropped.
    #[default]
    Pfc,
    /// Packets over the egress queue's dynamic threshold are dropped.
    Lossy,
    /// Packets over the ingress port's dynamic threshold are dropped: PFC's accounts without pauses and headroom, as in
    /// switches whose input ports have buffers of their own.
    LossyIngress,
}

impl Loss {
    /// True if bytes are accounted to the port they came from.
    fn by_ingress(self) -> bool {
        self != Self::Lossy
    }
}

/// Where ACKs queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AckClass {
    /// With the data, paused by PFC.
    #[default]
    Data,
    /// In the control class: strict priority, never paused.
    Control,
}

/// A class of traffic in all switches and NICs. What it leaves out is as the
/// switch's own keys have it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Class {
    /// Share of what strict classes leave, against other weights (deficit round
    /// robin). Default: strict priority, in the order of the list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<f64>,
    /// PFC or drops.
    pub loss: Option<Loss>,
    /// Buffer each ingress port has for itself.
    pub reserve: Option<Bytes>,
    /// Dynamic threshold factor by port rate.
    pub alpha: Option<Vec<Alpha>>,
    /// PFC headroom by port rate.
    pub headroom: Option<Vec<Headroom>>,
    /// ECN thresholds by port rate. Default: those of the first transport in this class.
    pub ecn: Option<Vec<Ecn>>,
}

/// Settings that all switches have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Switch {
    /// PFC or drops. Default "pfc".
    pub loss: Loss,
    /// Shared buffer of each switch. Default: 16 MiB per 50 Gb/s of host rate
    /// (32 MiB at 100 Gb/s).
    pub buffer: Option<Bytes>,
    /// Buffer each ingress port has for itself. Default 4096 B.
    pub reserve: Bytes,
    /// Dynamic threshold factor by port rate. Default with PFC: 1/8 at the host
    /// rate, in proportion to the rate above it, as where ingress ports drop; where
    /// egress queues do: 1.
    pub alpha: Option<Vec<Alpha>>,
    /// Fixed limit of a lossy class's queue by port rate, in place of `alpha`. Default: none; with `trim` the
    /// longest base RTT times the rate, in whole packets (htsim's).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Vec<QueueLimit>>,
    /// Packet trimming (Ultra Ethernet): size to which a lossy class's data packet is cut, instead of being dropped;
    /// its header goes on in the control class, and the receiver answers with a NACK. Data of TCP is dropped.
    /// Default: none, packets are dropped. uet-htsim's packets are cut to 64 B.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trim: Option<Bytes>,
    /// PFC headroom by port rate. Default: 3 · rate · longest link delay, or 2 ·
    /// rate · delay and 3 packets where that is more.
    pub headroom: Option<Vec<Headroom>>,
    /// A paused port is resumed this far below its threshold. Default 3072 B.
    pub xon_offset: Bytes,
    /// Size of a PFC frame on the wire. Default 43 B.
    pub pfc_frame: Bytes,
    /// ECN thresholds by port rate; an empty list switches marking off. Default:
    /// 100 KB / 400 KB per 25 Gb/s with pmax 0.2; for DCTCP a step at 30 KB per
    /// 10 Gb/s.
    pub ecn: Option<Vec<Ecn>>,
    /// Class of ACKs inside the network. Default "data".
    pub ack_class: AckClass,
    /// How one of several equally short paths is chosen. Default: ECMP by flow.
    pub paths: path::Config,
    /// Up to 8 classes. Default: one, as the keys above have it.
    pub classes: Vec<Class>,
}

impl Default for Switch {
    fn default() -> Self {
        Self {
            loss: Loss::Pfc,
            buffer: None,
            reserve: Bytes(4096),
            alpha: None,
            queue: None,
            trim: None,
            headroom: None,
            xon_offset: Bytes(3072),
            pfc_frame: Bytes(43),
            ecn: None,
            ack_class: AckClass::Data,
            paths: path::Config::default(),
            classes: vec![],
        }
    }
}

/// Default ECN marking for a transport, given for one link rate and scaled to others.
#[derive(Clone, Copy, Debug)]
pub struct EcnDefault {
    /// The rate the thresholds are given for.
    pub rate: Rate,
    /// See [`Ecn`].
    pub kmin: Bytes,
    /// See [`Ecn`].
    pub kmax: Bytes,
    /// See [`Ecn`].
    pub pmax: f64,
}

/// Most classes beside the control class.
const MAX_CLASSES: usize = schedule::MAX_CLASSES - 1;

impl Switch {
    /// Number of classes.
    pub fn class_count(&self) -> usize {
        self.classes.len().max(1)
    }

    /// Writes out what depends on the network and the transports: `full_packet` is
    /// the largest one's bytes, `marking` what the first transport of a class wants.
    pub fn resolve(&mut self, topology: &Topology, full_packet: u64, marking: impl Fn(usize) -> Option<EcnDefault>) {
        let (host_rate, rates) = (topology.host_rate(), topology.link_rates());
        self.buffer.get_or_insert(Bytes(16 << 20).scaled(host_rate.over(Rate(50_000_000_000))));
        let alphas = |loss: Loss| -> Vec<Alpha> {
            let alpha = |rate: Rate| if loss.by_ingress() { 0.125 * rate.over(host_rate).max(1.0) } else { 1.0 };
            rates.iter().map(|&rate| Alpha { rate, alpha: alpha(rate) }).collect()
        };
        // What is on the wire when XOFF is decided, until it takes effect: two
        // delays and three packets. HPCC's rule, three delays, is larger for 1 us.
        let delays = |n: u64, rate: Rate| {
            (u128::from(n * topology.max_delay()) * u128::from(rate.0) / (8 * u128::from(SEC))) as u64
        };
        let pfc_frame = self.pfc_frame.0;
        let headroom = |rate| Bytes(delays(3, rate).max(delays(2, rate) + 3 * full_packet + pfc_frame));
        let headrooms =
            || -> Vec<Headroom> { rates.iter().map(|&rate| Headroom { rate, bytes: headroom(rate) }).collect() };
        if self.trim.is_some() {
            let (base_rtt, _) = topology.max_base_rtt_and_bdp(full_packet);
            let bdp = |rate: Rate| (u128::from(base_rtt) * u128::from(rate.0) / (8 * u128::from(SEC))) as u64;
            let limit = |rate| QueueLimit { rate, bytes: Bytes(bdp(rate).div_ceil(full_packet) * full_packet) };
            self.queue.get_or_insert_with(|| rates.iter().map(|&rate| limit(rate)).collect());
        }
        let marks = |class| -> Vec<Ecn> {
            let at = |rate: Rate, ecn: &EcnDefault| {
                let scale = rate.over(ecn.rate);
                Ecn { rate, kmin: ecn.kmin.scaled(scale), kmax: ecn.kmax.scaled(scale), pmax: ecn.pmax }
            };
            let ecn = marking(class);
            rates.iter().filter_map(|&rate| Some(at(rate, ecn.as_ref()?))).collect()
        };
        for (i, class) in self.classes.iter_mut().enumerate() {
            let loss = *class.loss.get_or_insert(self.loss);
            class.reserve.get_or_insert(self.reserve);
            let same = loss == self.loss;
            class.alpha.get_or_insert_with(|| self.alpha.clone().filter(|_| same).unwrap_or_else(|| alphas(loss)));
            class.ecn.get_or_insert_with(|| self.ecn.clone().unwrap_or_else(|| marks(i)));
            if loss == Loss::Pfc {
                class.headroom.get_or_insert_with(|| self.headroom.clone().unwrap_or_else(headrooms));
            }
        }
        self.alpha.get_or_insert_with(|| alphas(self.loss));
        self.ecn.get_or_insert_with(|| marks(0));
        if self.loss == Loss::Pfc {
            self.headroom.get_or_insert_with(headrooms);
        }
    }

    /// The rules of a resolved section.
    pub fn rules(&self) -> Rules {
        let own = Class {
            weight: None,
            loss: Some(self.loss),
            reserve: Some(self.reserve),
            alpha: self.alpha.clone(),
            headroom: self.headroom.clone(),
            ecn: self.ecn.clone(),
        };
        let classes = if self.classes.is_empty() { std::slice::from_ref(&own) } else { &self.classes };
        let rules = |class: &Class| ClassRules {
            weight: class.weight,
            loss: class.loss.unwrap_or_default(),
            reserve: class.reserve.unwrap_or_default().0,
            alpha: class.alpha.clone().unwrap_or_default(),
            queue: self.queue.clone().filter(|_| class.loss == Some(Loss::Lossy)).unwrap_or_default(),
            headroom: class.headroom.clone().unwrap_or_default(),
            ecn: class.ecn.clone().unwrap_or_default(),
        };
        Rules {
            trim: self.trim.map(|size| size.0 as u16),
            buffer: self.buffer.unwrap_or_default().0,
            xon_offset: self.xon_offset.0,
            pfc_frame: self.pfc_frame.0 as u16,
            tail: None,
            paths: self.paths.clone(),
            classes: classes.iter().map(rules).collect(),
        }
    }

    /// Checks what needs no network.
    pub fn check(&self, rule: Rule<'_>) {
        let classes = self.classes.len();
        rule(classes <= MAX_CLASSES, "classes", format!("{classes} classes: at most {MAX_CLASSES} are possible"));
        let most = Bytes(1 << 40);
        let buffer = self.buffer.is_none_or(|b| b > Bytes(0) && b <= most);
        rule(buffer, "buffer", format!("must be larger than 0 and at most {most}, such as \"32MiB\""));
        let frame = self.pfc_frame;
        let fits = (1..=65_535).contains(&frame.0);
        rule(fits, "pfc_frame", format!("{frame} is outside 1B to 65535B: such as \"43B\""));
        self.paths.check(rule);
        let lossy = if self.classes.is_empty() {
            self.loss == Loss::Lossy
        } else {
            self.classes.iter().any(|class| class.loss.unwrap_or(self.loss) == Loss::Lossy)
        };
        let message = || "has no effect without loss = \"lossy\"".to_string();
        rule(lossy || self.trim.is_none(), "trim", message());
        rule(lossy || self.queue.is_none(), "queue", message());
        if let Some(size) = self.trim {
            let message = format!("{size} is outside 64B to 1000B: such as \"64B\"");
            rule((Bytes(64)..=Bytes(1000)).contains(&size), "trim", message);
        }
        for (i, limit) in self.queue.iter().flatten().enumerate() {
            rule(limit.bytes.0 > 0, &format!("queue[{i}].bytes"), "must be above 0, such as \"180KB\"".into());
        }
        check_lists(self.loss, &self.alpha, &self.ecn, &self.headroom, rule);
        for (i, class) in self.classes.iter().enumerate() {
            let rule: Rule<'_> = &mut |ok, key, message| rule(ok, &format!("classes[{i}].{key}"), message);
            if let Some(weight) = class.weight {
                rule((0.001..=1000.0).contains(&weight), "weight", format!("{weight} is outside 0.001 to 1000"));
            }
            check_lists(class.loss.unwrap_or(self.loss), &class.alpha, &class.ecn, &class.headroom, rule);
        }
    }

    /// Checks the per-rate lists: every link rate once, no other.
    pub fn check_rates(&self, topology: &Topology) -> Vec<Mistake> {
        let limited = self.queue.as_ref().map(|queue| queue.iter().map(|limit| limit.rate).collect::<Vec<_>>());
        let mut wrong = limited.map_or(vec![], |listed| every_rate_once("switch.queue", &listed, topology));
        let mut check = |prefix: &str, loss, alpha: &Option<Vec<Alpha>>, ecn: &Option<Vec<Ecn>>, headroom| {
            let headroom: &Option<Vec<Headroom>> = headroom;
            let rates = |name: &str, listed: Option<Vec<Rate>>| {
                listed.map_or(vec![], |listed| every_rate_once(&format!("switch.{prefix}{name}"), &listed, topology))
            };
            wrong.extend(rates("alpha", alpha.as_ref().map(|l| l.iter().map(|e| e.rate).collect())));
            // An empty list switches marking off.
            let marked = ecn.as_ref().filter(|l| !l.is_empty());
            wrong.extend(rates("ecn", marked.map(|l| l.iter().map(|e| e.rate).collect())));
            if loss == Loss::Pfc {
                wrong.extend(rates("headroom", headroom.as_ref().map(|l| l.iter().map(|e| e.rate).collect())));
            }
        };
        check("", self.loss, &self.alpha, &self.ecn, &self.headroom);
        for (i, c) in self.classes.iter().enumerate() {
            let prefix = format!("classes[{i}].");
            check(&prefix, c.loss.unwrap_or(self.loss), &c.alpha, &c.ecn, &c.headroom);
        }
        wrong
    }

    /// Checks what only a resolved section knows.
    pub fn check_resolved(&self, topology: &Topology) -> Vec<Mistake> {
        let rules = self.rules();
        let size = u128::from(rules.buffer);
        let switches = (topology.hosts()..topology.nodes()).map(|node| node as NodeId);
        let Some((most, node)) = switches.map(|node| (rules.set_aside(topology, node), node)).max() else {
            return vec![];
        };
        let (name, ports) = (topology.name(node), topology.ports_of(node).len());
        if rules.classes.iter().any(|c| c.loss.by_ingress()) && most >= size {
            let m = format!(
                "{size}B must be more than what {name} sets aside for its {ports} ports (reserve and headroom), {most}B"
            );
            return vec![Mistake::new("switch.buffer", m)];
        }
        vec![]
    }
}

fn check_lists(
    loss: Loss,
    alpha: &Option<Vec<Alpha>>,
    ecn: &Option<Vec<Ecn>>,
    headroom: &Option<Vec<Headroom>>,
    rule: Rule<'_>,
) {
    // The threshold is α times the buffer, in units of 2^-16.
    const ALPHA: std::ops::RangeInclusive<f64> = 0.001..=1000.0;
    for (i, a) in alpha.iter().flatten().enumerate() {
        rule(ALPHA.contains(&a.alpha), &format!("alpha[{i}].alpha"), format!("{} is outside 0.001 to 1000", a.alpha));
    }
    for (i, e) in ecn.iter().flatten().enumerate() {
        rule(e.kmin <= e.kmax, &format!("ecn[{i}].kmin"), format!("{} is above kmax, {}", e.kmin, e.kmax));
        rule((0.0..=1.0).contains(&e.pmax), &format!("ecn[{i}].pmax"), format!("{} is outside 0 to 1", e.pmax));
    }
    rule(loss == Loss::Pfc || headroom.is_none(), "headroom", "has no effect without loss = \"pfc\"".into());
}

fn every_rate_once(name: &str, listed: &[Rate], topology: &Topology) -> Vec<Mistake> {
    let rates = topology.link_rates();
    let links = rates.iter().map(Rate::to_string).collect::<Vec<_>>().join(", ");
    let mut wrong = Vec::new();
    for (i, rate) in listed.iter().enumerate() {
        let key = || format!("{name}[{i}].rate");
        if listed[..i].contains(rate) {
            wrong.push(Mistake::new(key(), format!("{rate} is listed twice: the rates are {links}")));
        } else if !rates.contains(rate) {
            wrong.push(Mistake::new(key(), format!("no link has {rate}: the rates are {links}")));
        }
    }
    let left: Vec<String> = rates.iter().filter(|r| !listed.contains(r)).map(Rate::to_string).collect();
    if wrong.is_empty() && !left.is_empty() {
        let message = format!("leaves out links of {}: list every rate, {links}", left.join(", "));
        wrong.push(Mistake::new(name, message));
    }
    wrong
}

/// The rules of all switches.
#[derive(Clone, Debug)]
pub struct Rules {
    buffer: u64,
    xon_offset: u64,
    /// Bytes of a PFC frame.
    pub pfc_frame: u16,
    /// Bytes to which data packets are cut that a lossy class has no room for.
    pub trim: Option<u16>,
    /// Each port's queue drops and marks what comes, by its own length, whatever else is in the switch.
    pub tail: Option<PortBuffer>,
    /// How paths are chosen.
    pub paths: path::Config,
    /// The classes after the control class.
    pub classes: Vec<ClassRules>,
}

/// The rules of one class.
#[derive(Clone, Debug)]
pub struct ClassRules {
    weight: Option<f64>,
    /// PFC or drops.
    pub loss: Loss,
    /// Buffer each ingress port has for itself.
    pub reserve: u64,
    alpha: Vec<Alpha>,
    queue: Vec<QueueLimit>,
    headroom: Vec<Headroom>,
    ecn: Vec<Ecn>,
}

/// The rules of one class at ports of one rate.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Dynamic threshold factor.
    pub alpha: f64,
    /// Fixed limit of the queue in bytes, in place of it.
    pub queue: Option<u64>,
    /// PFC headroom in bytes.
    pub headroom: u64,
    /// ECN marking, if there is any.
    pub ecn: Option<Ecn>,
}

impl ClassRules {
    /// At ports of `rate`.
    pub fn at(&self, rate: Rate) -> Limits {
        Limits {
            alpha: self.alpha.iter().find(|a| a.rate == rate).map_or(1.0, |a| a.alpha),
            queue: self.queue.iter().find(|q| q.rate == rate).map(|q| q.bytes.0),
            headroom: self.headroom.iter().find(|h| h.rate == rate).map_or(0, |h| h.bytes.0),
            ecn: self.ecn.iter().find(|e| e.rate == rate).cloned(),
        }
    }
}

impl Rules {
    /// Weights of the classes; `None` for strict ones.
    pub fn weights(&self) -> Vec<Option<f64>> {
        self.classes.iter().map(|class| class.weight).collect()
    }

    /// Bytes of a switch's buffer that are reserve and headroom.
    fn set_aside(&self, topology: &Topology, node: NodeId) -> u128 {
        let ports = topology.ports_of(node).iter().map(|&port| topology.ports()[port as usize].rate);
        let accounted = || self.classes.iter().filter(|class| class.loss.by_ingress());
        ports.flat_map(|rate| accounted().map(move |c| u128::from(c.reserve) + u128::from(c.at(rate).headroom))).sum()
    }

    /// The buffer of a switch.
    pub fn buffer(&self, topology: &Topology, node: NodeId) -> Buffer {
        if self.tail.is_some() {
            return Buffer::new(u64::MAX / 2, 0, 0);
        }
        Buffer::new(self.buffer, self.set_aside(topology, node) as u64, self.xon_offset)
    }
}
