//! On-Ramp as a NIC would run it: one gate per flow, packet by packet (paper §4.2).
//!
//! The algorithm itself is `core/onramp.h`, through [`onramp_core`].

use super::config::{OnRamp, OnRampVersion, OrAckMode, StampedAt, Threshold};
use crate::clock::Margin;
use crate::measure::Delays;
use onramp_config::units::{NS, Ps, Span};
use onramp_core::{BETA_ONE, Flow, Params, Stamp};
use onramp_workload::state::Encoder;
use std::collections::HashMap;

/// Parameters of a scenario's On-Ramp, resolved.
#[derive(Clone, Debug)]
pub struct GateRules {
    params: Params,
    start_from_path: bool,
    /// T follows the clocks, and is never below this many nanoseconds.
    floor_ns: Option<i64>,
    /// Receive times travel in packets of their own.
    pub separate: bool,
    /// One of so many data packets tells its receive time.
    pub told_every: u32,
    /// Receive times are those after the host's processing.
    pub stamped_late: bool,
}

impl GateRules {
    /// Of a resolved section; `None` where On-Ramp is off.
    pub fn new(config: &OnRamp) -> Option<Self> {
        if !config.enabled {
            return None;
        }
        let ns = |span: Span| (span.0 / NS).max(1);
        let (threshold, floor_ns) = match config.threshold? {
            Threshold::Fixed(threshold) => (ns(threshold), None),
            Threshold::Auto => {
                let floor = ns(config.threshold_floor.unwrap_or_default());
                (floor, Some(floor as i64))
            }
        };
        let params = Params::builder(threshold, ns(config.max_pause?))
            .gain_shift((1.0 / config.gain).log2().round() as u32)
            .beta_start((config.beta_start * f64::from(BETA_ONE)).round() as u32)
            .strawman(config.version == OnRampVersion::Strawman)
            .count_old(config.count_old_acks)
            .keep_pause(config.keep_pause)
            .build()
            .expect("the scenario's parameters were checked");
        Some(Self {
            params,
            start_from_path: config.start_from_path,
            floor_ns,
            separate: config.ack == OrAckMode::Separate,
            told_every: config.ack_every,
            stamped_late: config.stamped_at == StampedAt::Stack,
        })
    }
}

/// All gates of a cell's senders.
#[derive(Debug)]
pub struct Gates {
    params: Params,
    start_from_path: bool,
    /// One gate per flow slot.
    gates: Vec<Gate>,
    paths: Vec<PathOwd>,
    /// Where T follows the clocks.
    auto: Option<Auto>,
    /// From (sender, receiver) to an index of `paths`.
    known: HashMap<(u32, u32), u32>,
    /// Pauses begun.
    pub pauses: u64,
    /// Time spent paused by finished flows.
    pub paused: Ps,
    /// OR-ACKs that reached their sender.
    pub or_acks: u64,
}

#[derive(Clone, Debug)]
struct Gate {
    flow: Flow,
    path: u32,
}

/// The newest one-way delay of a path, and when the sender learnt it.
#[derive(Clone, Copy, Debug)]
struct PathOwd {
    owd: i64,
    at: u64,
}

/// Per path, T is its smallest delay and the clocks' margin (§3.2, §7.1).
#[derive(Debug)]
struct Auto {
    floor: i64,
    paths: Vec<AutoPath>,
    /// T at every OR-ACK, in nanoseconds.
    thresholds: Delays,
}

#[derive(Clone, Copy, Debug)]
struct AutoPath {
    params: Params,
    /// Smallest delay under the present corrections, and under those before:
    /// corrections shift delays by a little, and a path is never long without a
    /// smallest one.
    least: [i64; 2],
    epoch: u32,
}

impl Auto {
    fn learn(&mut self, path: u32, owd_ns: i64, margin: Margin) {
        let path = &mut self.paths[path as usize];
        if path.epoch != margin.epoch {
            path.least = [i64::MAX, path.least[0]];
            path.epoch = margin.epoch;
        }
        path.least[0] = path.least[0].min(owd_ns);
        let least = path.least[0].min(path.least[1]);
        let threshold = least.saturating_add_unsigned(margin.ns).max(self.floor) as u64;
        path.params = path.params.with_threshold(threshold);
        self.thresholds.record(threshold as i64);
    }
}

impl Gates {
    /// Gates that keep these rules.
    pub fn new(rules: &GateRules) -> Self {
        let auto = |floor| Auto { floor, paths: Vec::new(), thresholds: Delays::default() };
        Self {
            params: rules.params,
            start_from_path: rules.start_from_path,
            gates: Vec::new(),
            paths: Vec::new(),
            auto: rules.floor_ns.map(auto),
            known: HashMap::new(),
            pauses: 0,
            paused: 0,
            or_acks: 0,
        }
    }

    /// Takes down the gates; paths' delays are read by new flows only.
    pub fn encode(&self, state: &mut Encoder) {
        let Self { params: _, start_from_path: _, gates, paths: _, auto, known: _, pauses: _, paused: _, or_acks: _ } =
            self;
        if auto.is_some() {
            state.refuse("On-Ramp's threshold follows the clocks (onramp.threshold)");
        }
        state.reads_ns();
        for Gate { flow, path: _ } in gates {
            flow.words(state.now() / NS).into_iter().for_each(|word| state.word(word));
        }
    }

    /// A new flow in `slot`.
    pub fn open(&mut self, slot: u32, src: u32, dst: u32, now: Ps) {
        let paths = &mut self.paths;
        let path = *self.known.entry((src, dst)).or_insert_with(|| {
            paths.push(PathOwd { owd: 0, at: 0 });
            if let Some(auto) = &mut self.auto {
                auto.paths.push(AutoPath { params: self.params, least: [i64::MAX; 2], epoch: 0 });
            }
            (paths.len() - 1) as u32
        });
        let params = self.params_of(path);
        let mut flow = Flow::new(&params, now / NS);
        let latest = self.paths[path as usize];
        // A connection opened before the load knows nothing of it, whenever its end is made.
        if self.start_from_path && latest.at <= now / NS {
            flow.start(&params, now / NS, latest.owd, latest.at);
            self.pauses += u64::from(flow.t_next() > now / NS);
        }
        let gate = Gate { flow, path };
        let slot = slot as usize;
        if slot >= self.gates.len() {
            // Flows open in order of their starts, not of their slots.
            self.gates.resize(slot + 1, gate.clone());
        }
        self.gates[slot] = gate;
    }

    /// When the flow's next packet may leave.
    #[inline]
    pub fn release(&self, slot: u32) -> Ps {
        self.gates[slot as usize].flow.t_next().saturating_mul(NS)
    }

    /// A packet leaves: the pause total to carry, low 32 bits.
    #[inline]
    pub fn stamp(&mut self, slot: u32, now: Ps) -> u32 {
        self.gates[slot as usize].flow.stamp(now / NS).paused as u32
    }

    /// The flow has been idle: it takes up what its path knows.
    pub fn restart(&mut self, slot: u32, now: Ps) {
        let path = self.gates[slot as usize].path;
        let (params, latest) = (self.params_of(path), self.paths[path as usize]);
        self.gates[slot as usize].flow.start(&params, now / NS, latest.owd, latest.at);
    }

    /// True if the flow's path had a delay above T within the last `span`.
    pub fn is_long(&self, slot: u32, now: Ps, span: Ps) -> bool {
        let path = self.gates[slot as usize].path;
        let latest = self.paths[path as usize];
        latest.owd > self.params_of(path).threshold() as i64 && now / NS - latest.at < span / NS
    }

    /// Moves the flow's gate by an OR-ACK for the packet sent at `sent_ns` with `paused` as its stamp.
    #[inline]
    pub fn acked(&mut self, slot: u32, now: Ps, sent_ns: u64, paused: u32, owd_ns: i32) {
        let now = now / NS;
        let params = self.params_of(self.gates[slot as usize].path);
        let gate = &mut self.gates[slot as usize];
        let held = gate.flow.t_next() > now;
        let total = gate.flow.paused_total(now);
        let stamp = Stamp { time: sent_ns, paused: crate::network::packet::unwrap_ns(total, paused) };
        gate.flow.acked(&params, now, stamp, i64::from(owd_ns));
        self.pauses += u64::from(!held && gate.flow.t_next() > now);
    }

    /// An OR-ACK came back, of a flow alive or done: it tells of the path.
    #[inline]
    pub fn learn(&mut self, slot: u32, now: Ps, owd_ns: i32, margin: Margin) {
        let path = self.gates[slot as usize].path;
        self.or_acks += 1;
        self.paths[path as usize] = PathOwd { owd: i64::from(owd_ns), at: now / NS };
        if let Some(auto) = &mut self.auto {
            auto.learn(path, i64::from(owd_ns), margin);
        }
    }

    #[inline]
    fn params_of(&self, path: u32) -> Params {
        self.auto.as_ref().map_or(self.params, |auto| auto.paths[path as usize].params)
    }

    /// Thresholds of all OR-ACKs so far, in nanoseconds, where they follow the clocks.
    pub fn thresholds(&self) -> Option<&Delays> {
        self.auto.as_ref().map(|auto| &auto.thresholds)
    }

    /// Time the flow has been paused, in picoseconds.
    pub fn paused_total(&self, slot: u32, now: Ps) -> Ps {
        self.gates[slot as usize].flow.paused_total(now / NS) * NS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::US;

    #[test]
    fn a_connection_opened_before_the_load_knows_nothing_of_its_path() {
        let params = Params::builder(30_000, 1_000_000).build().unwrap();
        let rules = GateRules {
            params,
            start_from_path: true,
            floor_ns: None,
            separate: false,
            told_every: 1,
            stamped_late: false,
        };
        let mut gates = Gates::new(&rules);
        gates.open(0, 1, 2, 0);
        gates.learn(0, 100 * US, 90_000, Margin { ns: 0, epoch: 0 });
        // Its end is made late, as that of a pair whose first flow comes late.
        gates.open(1, 1, 2, 0);
        assert_eq!((gates.pauses, gates.release(1)), (0, 0));
        gates.open(2, 1, 2, 100 * US);
        assert!(gates.pauses == 1 && gates.release(2) > 100 * US);
    }
}
