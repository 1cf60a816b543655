//! A shuffle, as between the maps and reduces of a job: every host sends a block to every other, to some at a time.

use onramp_sim::random::{self, Pcg64Mcg};
use onramp_sim::units::{Bytes, Ps, Span};
use onramp_sim::workload::{NewFlow, Plan, Section, Size, Source};
use serde::Deserialize;

/// Keys of the scenario's section beside `kind` and `name`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Size of a block.
    block: Bytes,
    /// Interval between the rounds, in each of which every host sends one block.
    interval: Span,
}

/// Rounds that are left.
struct Shuffle {
    hosts: u32,
    block: u64,
    interval: Ps,
    traffic: u32,
    /// Time of the next round, from the beginning of the load.
    next: Ps,
    /// Distances from senders to receivers, the next one last.
    rounds: Vec<u32>,
}

/// Reads the keys, and adds a source of flows.
pub fn factory(keys: &toml::Table, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
    let Parameters { block, interval } =
        keys.clone().try_into().map_err(|e: toml::de::Error| e.message().to_string())?;
    let hosts = section.place.topology.hosts() as u32;
    let mut rounds: Vec<u32> = (1..hosts).collect();
    let mut draw = random::stream(section.span.seed, "shuffle", section.number.into());
    shuffle(&mut rounds, &mut draw);
    plan.source(Shuffle {
        hosts,
        block: block.0,
        interval: interval.0,
        traffic: section.number,
        next: section.span.warmup,
        rounds,
    });
    Ok(())
}

/// Any order is as likely as any other (Fisher and Yates).
fn shuffle(all: &mut [u32], draw: &mut Pcg64Mcg) {
    for left in (2..=all.len()).rev() {
        all.swap(left - 1, random::below(draw, left as u32) as usize);
    }
}

impl Source for Shuffle {
    fn next_at(&self) -> Option<Ps> {
        (!self.rounds.is_empty()).then_some(self.next)
    }

    fn take(&mut self, out: &mut Vec<NewFlow>) {
        let Some(distance) = self.rounds.pop() else { return };
        let flow = |src| NewFlow {
            src,
            dst: (src + distance) % self.hosts,
            size: Size::Bytes(self.block),
            traffic: self.traffic,
            request: None,
        };
        out.extend((0..self.hosts).map(flow));
        self.next += self.interval;
    }

    fn expected_bytes(&self, _now: Ps) -> f64 {
        self.rounds.len() as f64 * f64::from(self.hosts) * self.block as f64
    }
}
