//! Configuration of hosts and of On-Ramp, as a scenario gives it.

use super::entropy;
use super::pacing;
pub use super::pacing::Pacing;
pub use super::processing::Processing;
pub use super::shaper::Kind as ShaperKind;
pub use super::shaper::config::Shaping;
pub use super::storm::Storm;
use crate::network::config::AckClass;
use crate::stack::rdma::Recovery;
pub use onramp_config::units::Threshold;
use onramp_config::units::{Bytes, NS, SEC, Span, US};
use onramp_config::{Mistake, Rule};
use serde::{Deserialize, Serialize};

/// Settings that all hosts have in common.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Payload of a full packet. Default 1000 B.
    pub payload: Bytes,
    /// Largest sending window, where the transport has one. Default: the largest
    /// bandwidth-delay product of any pair of hosts.
    pub max_window: Option<Bytes>,
    /// Class of ACKs in the sending host's NIC: "control" ACKs leave even while
    /// the data class is paused. Default by transport, as in the HPCC presets:
    /// "control" for dcqcn and timely (with and without window, but dcqcn with
    /// window "data"), "data" for the others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ack_class: Option<AckClass>,
    /// A receiver repeats the NACK for the same gap after this span. Default 500 us.
    pub nack_interval: Span,
    /// Retransmission timeout: this long without progress and the sender goes
    /// back to the first unacknowledged byte; doubles with each timeout in a
    /// row. Default 16.777216 ms (the InfiniBand form 4.096 us · 2^12).
    pub rto: Span,
    /// Times that the timeout doubles at most while there is no progress; 0 keeps it fixed. Default 6.
    pub rto_doublings: u32,
    /// How RDMA retransmits what is lost. Default: go-back-N; with the transports "nscc" and "rccc"
    /// reliable unordered delivery.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Entropy values of packets, by which switches choose paths. Default: one for all packets of a flow.
    pub entropy: entropy::Config,
    /// When a host's flows may send: "flow", a pacer for each; or a shaper that holds packets,
    /// "carousel", "htb" or "fq". Default "flow".
    pub shaper: ShaperKind,
    /// How the packets of a window leave: "none", as acknowledgements let them; "packet", one by one in a round
    /// trip; "burst", in bursts of `max_burst`; "egress", by one pacer of the NIC. Default "none".
    pub pacing: Pacing,
    /// Payload of a burst. Default 15 KB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_burst: Option<Bytes>,
    /// Time that hosts need for a packet that has come. Default: none. Of several entries for a host the first counts.
    pub processing: Vec<Processing>,
    /// Hosts that pause their switch's port. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storms: Vec<Storm>,
    /// The shaper's policies and parameters.
    #[serde(skip_serializing_if = "Shaping::is_default")]
    pub shaping: Shaping,
}

/// Default of [`Host::max_burst`].
const MAX_BURST: Bytes = Bytes(15_000);

impl Default for Host {
    fn default() -> Self {
        Self {
            payload: Bytes(1000),
            max_window: None,
            ack_class: None,
            nack_interval: Span(500 * US),
            rto: Span((4_096 * NS) << 12),
            rto_doublings: 6,
            recovery: None,
            entropy: entropy::Config::default(),
            shaper: ShaperKind::default(),
            pacing: Pacing::None,
            max_burst: None,
            processing: Vec::new(),
            storms: Vec::new(),
            shaping: Shaping::default(),
        }
    }
}

impl Host {
    /// Writes out the defaults that have an effect.
    pub fn resolve(&mut self) {
        if self.pacing == Pacing::Burst {
            self.max_burst.get_or_insert(MAX_BURST);
        }
    }

    /// Keys with values of their own that only RDMA has.
    pub fn of_rdma(&self) -> impl Iterator<Item = &'static str> + use<> {
        let default = Self::default();
        let set = [
            ("payload", self.payload != default.payload),
            ("nack_interval", self.nack_interval != default.nack_interval),
            ("rto", self.rto != default.rto),
            ("rto_doublings", self.rto_doublings != default.rto_doublings),
        ];
        set.into_iter().filter_map(|(key, set)| set.then_some(key))
    }

    /// How windows are paced.
    pub fn pacing(&self) -> pacing::Rules {
        pacing::Rules { pacing: self.pacing, max_burst: self.max_burst.unwrap_or(MAX_BURST) }
    }

    /// Checks values.
    pub fn check(&self, rule: Rule<'_>) {
        let payload = self.payload.0;
        rule((1..=9000).contains(&payload), "payload", format!("{payload}B is outside 1B to 9000B"));
        if let Some(recovery) = &self.recovery {
            recovery.check(rule);
        }
        self.entropy.check(rule);
        let rto = self.rto;
        let ok = (Span(US)..=Span(100 * SEC)).contains(&rto);
        rule(ok, "rto", format!("{rto} is outside 1us to 100s: such as \"16ms\", well above the round-trip time"));
        let doublings = self.rto_doublings;
        rule(doublings <= 16, "rto_doublings", format!("{doublings} is above 16: such as 6"));
        let burst = self.pacing == Pacing::Burst;
        rule(burst || self.max_burst.is_none(), "max_burst", "counts with pacing = \"burst\" only".into());
        let fits = self.max_burst.is_none_or(|most| (Bytes(1000)..=Bytes(64_000)).contains(&most));
        rule(fits, "max_burst", "is outside 1000B to 64KB: such as \"15KB\"".into());
        for (i, processing) in self.processing.iter().enumerate() {
            processing.check(&mut |ok, key, message| rule(ok, &format!("processing[{i}].{key}"), message));
        }
        for (i, storm) in self.storms.iter().enumerate() {
            storm.check(&mut |ok, key, message| rule(ok, &format!("storms[{i}].{key}"), message));
        }
        self.shaping.check(self.shaper, rule);
    }
}

/// Which form of the algorithm runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnRampVersion {
    /// Equations 3 and 4.
    #[default]
    Final,
    /// Equation 2.
    Strawman,
}

/// Where receive times are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StampedAt {
    /// When a packet comes in by the NIC.
    #[default]
    Nic,
    /// When the host's processing is through with it.
    Stack,
}

/// How receive times travel back to the sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OrAckMode {
    /// On the transport's own ACKs and NACKs.
    #[default]
    Transport,
    /// As packets of their own, in the data's class.
    Separate,
}

/// On-Ramp in the NIC: packets held one by one (paper §4.2).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OnRamp {
    /// Default true where there is an `[onramp]` section.
    pub enabled: bool,
    /// Hosts with On-Ramp, or groups of them, by name: flows from one of them to another are held. Default: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// T: packets are held while the one-way delay is above it. Default: with
    /// clocks that are synchronised over the network "auto", else the longest
    /// one-way delay of an empty network plus 10 us (§5.1.4).
    pub threshold: Option<Threshold>,
    /// With "auto": T is never below this. Default: what the fixed T would be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold_floor: Option<Span>,
    /// Default "final".
    pub version: OnRampVersion,
    /// EWMA gain g, a power of two from 1/4 to 1/64. Default 1/16.
    pub gain: f64,
    /// No flow is held longer than this without a break. Default: three times T, at
    /// least 100 us (see docs/algorithm.md).
    pub max_pause: Option<Span>,
    /// β of a new flow, from 0 to 1. Default 0.25 (see docs/algorithm.md).
    pub beta_start: f64,
    /// Lets an OR-ACK of a packet sent before the last acknowledged one still move the gate. Default false.
    pub count_old_acks: bool,
    /// Lets OR-ACKs that come during a pause leave its end where it is. Default false.
    pub keep_pause: bool,
    /// Starts a new flow from its path's latest OWD. Default true.
    pub start_from_path: bool,
    /// Where receive times are taken: "nic", or "stack", after the host's processing. Default "nic".
    pub stamped_at: StampedAt,
    /// How receive times travel back. Default "transport".
    pub ack: OrAckMode,
    /// One of this many data packets, and a flow's last, tells its receive
    /// time. Default 10, as the paper's hosts have it.
    pub ack_every: u32,
}

impl Default for OnRamp {
    fn default() -> Self {
        Self {
            enabled: true,
            hosts: None,
            threshold: None,
            threshold_floor: None,
            version: OnRampVersion::Final,
            gain: 1.0 / 16.0,
            max_pause: None,
            beta_start: 0.25,
            count_old_acks: false,
            keep_pause: false,
            start_from_path: true,
            stamped_at: StampedAt::Nic,
            ack: OrAckMode::Transport,
            ack_every: 10,
        }
    }
}

/// T where it is fixed and not given, by the longest delay of an empty network.
fn fixed_threshold(longest_owd: Span) -> Span {
    Span(longest_owd.0.div_ceil(US) * US + 10 * US)
}

/// The longest pause where T is short.
const LEAST_PAUSE: Span = Span(100 * US);

impl OnRamp {
    /// Without the section there is none.
    pub fn off() -> Self {
        Self { enabled: false, ..Self::default() }
    }

    /// Writes out what depends on the clocks and the longest delay of an empty network.
    pub fn resolve(&mut self, synchronised: bool, longest_owd: Span) {
        let fixed = fixed_threshold(longest_owd);
        let own = if synchronised { Threshold::Auto } else { Threshold::Fixed(fixed) };
        let threshold = match *self.threshold.get_or_insert(own) {
            Threshold::Fixed(threshold) => threshold,
            Threshold::Auto => *self.threshold_floor.get_or_insert(fixed),
        };
        self.max_pause.get_or_insert(Span(3 * threshold.0).max(LEAST_PAUSE));
    }

    /// Advice on a T that holds packets where nothing queues.
    pub fn advice(&self, longest_owd: Span) -> Option<Mistake> {
        let Some(Threshold::Fixed(threshold)) = self.threshold.filter(|_| self.enabled) else { return None };
        let (example, longest) = (fixed_threshold(longest_owd), longest_owd.0 as f64 / US as f64);
        let message = format!(
            "{threshold} is not above the longest one-way delay of the empty network, {longest:.2}us: packets are held \
             although nothing queues; write such as \"{example}\", which leaves room for queues and clocks"
        );
        (threshold <= longest_owd).then(|| Mistake::new("threshold", message))
    }

    /// Checks values.
    pub fn check(&self, rule: Rule<'_>) {
        for (key, threshold) in
            [("threshold", self.threshold), ("threshold_floor", self.threshold_floor.map(Threshold::Fixed))]
        {
            if let Some(Threshold::Fixed(threshold)) = threshold.filter(|_| self.enabled) {
                let message = format!("{threshold} must be above the one-way delay of an empty path, such as \"16us\"");
                rule(threshold >= Span(NS), key, message);
            }
        }
        let pause = self.max_pause.is_none_or(|pause| pause >= Span(NS));
        rule(pause, "max_pause", "must be at least 1ns, such as \"1ms\"".into());
        let gains = [4.0, 8.0, 16.0, 32.0, 64.0].map(|d| 1.0 / d);
        rule(
            gains.contains(&self.gain),
            "gain",
            format!("{} is not one of 0.25, 0.125, 0.0625, 0.03125, 0.015625 (1/4 to 1/64)", self.gain),
        );
        let beta = self.beta_start;
        rule((0.0..=1.0).contains(&beta), "beta_start", format!("{beta} is outside 0 to 1"));
        rule(self.ack_every > 0, "ack_every", "must be at least 1".into());
    }
}
