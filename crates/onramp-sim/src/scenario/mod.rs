//! The scenario file: what is simulated, in TOML.
//!
//! Every field has a default; [`Scenario::resolve`] writes each default that
//! depends on others (per-rate ECN thresholds, the On-Ramp threshold, …) into
//! its field, so that a resolved scenario says everything and running it again
//! gives the same bytes. [`Resolved`] is what that comes down to.

mod error;
pub mod explain;
mod linux;
mod load;
mod resolved;
mod substrate;
mod traced;
mod traffic;
mod validate;

pub use crate::clock::config::{Clock, Stamps, Sync};
pub use crate::host::config::{
    Host, OnRamp, OnRampVersion, OrAckMode, Pacing, Processing, StampedAt, Storm, Threshold,
};
pub use crate::host::qdisc::HostQdisc;
pub use crate::measure::Measure;
pub use crate::network::config::{AckClass, Alpha, Class, Ecn, Headroom, Loss, PortBuffer, Switch};
pub use error::{BuildError, TraceError};
pub use linux::Linux;
pub use load::{Loaded, Override, ScenarioError};
pub use onramp_topology::Network;
pub(crate) use resolved::Program;
pub use resolved::{Policies, Resolved, Section};
pub use substrate::{Runner, Substrate};
pub use traffic::Traffic;

use crate::cc;
use crate::stack::rdma::{HEADER, Recovery, rud};
use onramp_config::Mistake;
use onramp_config::units::{Ps, SEC, Span};
use onramp_topology::Topology;
use onramp_workload::arrivals::Arrivals;
use onramp_workload::custom::Workloads;
use onramp_workload::{Context, Group, LoadSpan, Place, Plan, SectionError};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::path::Path;

/// A complete scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// A short name for tables and folders.
    #[serde(default)]
    pub name: String,
    /// Seed of every random stream. Default 1. In quotes if it is above 2^63-1,
    /// the largest integer TOML has.
    #[serde(default = "one", with = "seed")]
    pub seed: u64,
    /// Flows and requests that start during this span from time 0 are measured.
    pub duration: Span,
    /// Load runs this long before time 0. Default 0: from an empty network.
    #[serde(default)]
    pub warmup: Span,
    /// The run ends when every flow is done, or at this time. Default: 100 times
    /// the duration, at least 1 s, from the last start in a trace on.
    #[serde(default)]
    pub time_limit: Option<Span>,
    /// Hosts, switches and links.
    pub network: Network,
    /// Settings that all switches have in common.
    #[serde(default)]
    pub switch: Switch,
    /// Settings that all hosts have in common.
    #[serde(default)]
    pub host: Host,
    /// Congestion control.
    pub transport: cc::Config,
    /// On-Ramp. Without this section there is none.
    #[serde(default = "OnRamp::off")]
    pub onramp: OnRamp,
    /// The hosts' clocks.
    #[serde(default)]
    pub clock: Clock,
    /// Hosts and ports as Linux has them, where the transport is TCP: on the cluster, and
    /// simulated. Resolved: there if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub linux: Option<Linux>,
    /// Records besides flows and requests.
    #[serde(default)]
    pub measure: Measure,
    /// Sources of flows.
    pub traffic: Vec<Traffic>,
}

fn one() -> u64 {
    1
}

/// A seed: an integer, or text where TOML has no such integer.
mod seed {
    use serde::de::{self, Deserializer, Visitor};
    use serde::ser::Serializer;
    use std::fmt;

    pub fn serialize<S: Serializer>(seed: &u64, s: S) -> Result<S::Ok, S::Error> {
        match i64::try_from(*seed) {
            Ok(seed) => s.serialize_i64(seed),
            Err(_) => s.collect_str(seed),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<u64, D::Error> {
        struct V;
        impl Visitor<'_> for V {
            type Value = u64;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number from 0 to 18446744073709551615 (in quotes from 9223372036854775808)")
            }
            fn visit_u64<E: de::Error>(self, v: u64) -> Result<u64, E> {
                Ok(v)
            }
            fn visit_i64<E: de::Error>(self, v: i64) -> Result<u64, E> {
                u64::try_from(v).map_err(|_| E::invalid_value(de::Unexpected::Signed(v), &self))
            }
            fn visit_str<E: de::Error>(self, v: &str) -> Result<u64, E> {
                let digits = !v.is_empty() && v.bytes().all(|b| b.is_ascii_digit());
                let seed = if digits { v.parse().ok() } else { None };
                seed.ok_or_else(|| E::invalid_value(de::Unexpected::Str(v), &self))
            }
        }
        d.deserialize_any(V)
    }
}

/// Longest time limit that follows from what jobs take.
const LONGEST_JOB: Ps = 3600 * SEC;

impl Scenario {
    /// The files it refers to, as (dotted key, path as written).
    pub fn input_files(&self) -> Vec<(String, String)> {
        let mut files = Vec::new();
        if let Some(file) = self.network.shape.file() {
            files.push(("network.file".to_string(), file.to_string()));
        }
        for (key, transport) in self.transports_by_key() {
            if let cc::Config::Custom(cc::custom::Config { library: Some(file), .. }) = transport {
                files.push((format!("{}.library", load::dotted(&key)), file.clone()));
            }
        }
        for (i, traffic) in self.traffic.iter().enumerate() {
            let own = traffic.source.input_files();
            files.extend(own.into_iter().map(|(key, file)| (format!("traffic.{i}.{key}"), file)));
        }
        files
    }

    /// When its load arrives.
    pub fn load_span(&self) -> LoadSpan {
        LoadSpan { seed: self.seed, warmup: self.warmup.0, duration: self.duration.0 }
    }

    /// Sources, programs and channels of its workloads; files are relative to `base`.
    ///
    /// # Errors
    /// The first section whose file is wrong.
    pub fn plan(&self, topology: &Topology, base: &Path) -> Result<Plan, SectionError> {
        let sections = self.traffic.iter().map(|traffic| &traffic.source);
        onramp_workload::plan(sections, self.load_span(), Place { topology, base })
    }

    /// The same with a program's own workloads, where it has any.
    pub(crate) fn with_workloads(&self, workloads: &Workloads) -> Cow<'_, Self> {
        let mut scenario = Cow::Borrowed(self);
        if !workloads.is_empty() {
            for traffic in &mut scenario.to_mut().traffic {
                if let onramp_workload::Config::Custom(custom) = &mut traffic.source {
                    custom.find(workloads);
                }
            }
        }
        scenario
    }

    /// The flows of its sources, in order of arrival.
    ///
    /// # Errors
    /// As of [`Scenario::plan`].
    pub fn arrivals(&self, topology: &Topology, base: &Path) -> Result<Arrivals, SectionError> {
        Ok(Arrivals::new(self.plan(topology, base)?.sources, self.traffic.len(), self.seed))
    }

    /// Groups that the results of its sections are summed up in.
    pub fn groups(&self) -> Vec<Group> {
        Group::all(self.traffic.iter().map(|traffic| &traffic.source))
    }

    /// Sections whose flows end when the scenario says, so that their FCT says nothing.
    pub fn endless(&self) -> Vec<usize> {
        let all = self.traffic.iter().enumerate();
        all.filter(|(_, traffic)| traffic.source.is_endless()).map(|(i, _)| i).collect()
    }

    /// Facts that its workloads may use.
    fn context(&self) -> Context {
        let transport = self.transport.kind();
        Context { duration: self.duration, payload: self.host.payload, transport, is_tcp: self.is_tcp() }
    }

    /// All transports, the scenario's first.
    pub fn transports(&self) -> impl Iterator<Item = &cc::Config> {
        std::iter::once(&self.transport).chain(self.traffic.iter().filter_map(|t| t.transport.as_ref()))
    }

    /// All transports with their keys, the scenario's first.
    fn transports_by_key(&self) -> impl Iterator<Item = (String, &cc::Config)> {
        let own = self.traffic.iter().enumerate();
        let own = own.filter_map(|(i, t)| Some((format!("traffic[{i}].transport"), t.transport.as_ref()?)));
        std::iter::once(("transport".to_string(), &self.transport)).chain(own)
    }

    /// True if its transport is TCP: of all sections or of none.
    pub fn is_tcp(&self) -> bool {
        self.transport.tcp().is_some()
    }

    /// Which hosts have On-Ramp.
    pub fn onramp_hosts(&self, topology: &Topology) -> Vec<bool> {
        let named =
            self.onramp.hosts.as_ref().map(|names| topology.hosts_named(names).expect("the scenario was checked"));
        let has = |host| self.onramp.enabled && named.as_ref().is_none_or(|hosts| hosts.contains(&host));
        (0..topology.hosts() as u32).map(has).collect()
    }

    /// Hosts whose TCP paces by itself, since their queue does not.
    pub fn paced_by_tcp(&self, topology: &Topology) -> Vec<bool> {
        let queue_paces = self.linux.as_ref().is_some_and(|linux| linux.qdisc == Some(HostQdisc::Fq));
        let paced = self.host.pacing != Pacing::None;
        self.onramp_hosts(topology).iter().map(|gated| paced && (*gated || !queue_paces)).collect()
    }

    /// Time that each host needs for a packet that has come; empty where none needs any.
    pub fn processing(&self, topology: &Topology) -> Vec<Option<Processing>> {
        let all = self.host.processing.iter().map(|own| {
            let named = own.hosts.as_ref().map(|names| topology.hosts_named(names).expect("the scenario was checked"));
            (named, own)
        });
        let all: Vec<_> = all.collect();
        let of = |host| all.iter().find(|(named, _)| named.as_ref().is_none_or(|hosts| hosts.contains(&host)));
        let hosts = if all.is_empty() { 0 } else { topology.hosts() as u32 };
        (0..hosts).map(|host| of(host).map(|(_, own)| (*own).clone())).collect()
    }

    /// Hosts that pause their switch's port, from when and until when.
    pub fn storms(&self, topology: &Topology) -> Vec<(u32, Ps, Option<Ps>)> {
        let of = |storm: &Storm| {
            let hosts = topology.hosts_named(&storm.hosts).expect("the scenario was checked");
            let (start, stop) = (storm.start.0, storm.stop.map(|stop| stop.0));
            hosts.into_iter().map(move |host| (host, start, stop))
        };
        self.host.storms.iter().flat_map(of).collect()
    }

    /// The transport of the first section in a class.
    fn transport_in(&self, class: usize) -> &cc::Config {
        let section = self.traffic.iter().find(|t| usize::from(t.class) == class);
        section.and_then(|t| t.transport.as_ref()).unwrap_or(&self.transport)
    }

    /// Size of a full packet of RDMA, headers included [bytes].
    fn full_packet(&self) -> u64 {
        let header = self.transports().map(|t| HEADER + t.settings().extra_header()).max().unwrap_or(HEADER);
        self.host.payload.0 + header
    }

    /// Warnings: values that are possible, but hardly meant.
    fn advice(&self, topology: &Topology) -> Vec<Mistake> {
        let of_threshold = self.onramp.advice(Span(topology.max_base_owd(self.full_packet())));
        let of_threshold = of_threshold.into_iter().map(|m| Mistake::new(format!("onramp.{}", m.key), m.message));
        let all_tcp = self.transports().all(|transport| transport.tcp().is_some());
        let of_rdma = self.host.of_rdma().filter(|_| all_tcp).map(|key| {
            let message = "has no effect under TCP, whose segments carry 1448 B and whose timers are Linux's";
            Mistake::new(format!("host.{key}"), message)
        });
        of_threshold.chain(of_rdma).collect()
    }

    /// Writes every default that depends on the network, the transport or files into
    /// its field; the last flow of any trace starts at `last_start`, the longest job takes `about` so long.
    pub fn resolve(&mut self, place: Place<'_>, last_start: Ps, about: Ps) {
        let topology = place.topology;
        let host_rate = topology.host_rate();
        let job = about.saturating_mul(100).min(LONGEST_JOB);
        let limit = self.duration.0.saturating_mul(100).max(SEC).max(job);
        let limit = limit.saturating_add(last_start).min(Span::MAX.0);
        self.time_limit.get_or_insert(Span(limit));
        let payload = self.host.payload.0;
        let (base_rtt, bdp) = topology.max_base_rtt_and_bdp(payload);
        let own = self.traffic.iter_mut().filter_map(|traffic| traffic.transport.as_mut());
        for transport in std::iter::once(&mut self.transport).chain(own) {
            transport.resolve(host_rate);
            transport.resolve_rtt(base_rtt);
            transport.resolve_trimming(self.switch.trim.is_some());
        }
        let full = self.full_packet();
        let marking: Vec<_> =
            (0..self.switch.class_count()).map(|class| self.transport_in(class).settings().ecn_defaults()).collect();
        self.switch.resolve(topology, full, |class| marking[class]);
        if self.traffic.iter().all(|t| t.transport.is_none()) {
            self.host.ack_class.get_or_insert(self.transport.settings().host_ack_class());
        }
        let caps = self.traffic.iter().flat_map(|t| t.caps.0.iter().copied());
        let least = self.transports().map(|t| t.settings().min_rate());
        let lowest = caps.chain(least).filter(|rate| rate.0 > 0).min();
        let unordered = self.transport.settings().unordered();
        let recovery = || if unordered { Recovery::Rud(rud::Config::default()) } else { Recovery::default() };
        self.host.recovery.get_or_insert_with(recovery);
        self.host.resolve();
        self.host.shaping.resolve(self.host.shaper, self.host.payload, lowest);
        self.host.max_window.get_or_insert(onramp_config::units::Bytes(bdp));
        if self.is_tcp() {
            self.linux.get_or_insert_default().resolve(&self.transport, &self.host);
        }
        self.clock.resolve();
        let longest = Span(topology.max_base_owd(full));
        self.onramp.resolve(self.clock.sync.over_the_network(), longest);
        let context = self.context();
        self.traffic.iter_mut().for_each(|traffic| traffic.source.resolve(&context, &place, base_rtt));
    }
}
