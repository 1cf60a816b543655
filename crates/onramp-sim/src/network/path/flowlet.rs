//! Flowlet switching: a flow that was silent for longer than paths can differ takes another one at random, which
//! reorders nothing (Vanini et al., *Let It Flow*, NSDI'17).

use super::{Choice, PathSelector, streams};
use onramp_config::Rule;
use onramp_config::units::{Ps, Span, US};
use onramp_topology::choose;
use onramp_workload::state::Encoder;
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Flowlets at random paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// A flow that was silent for longer begins another flowlet. Default 100 us.
    pub gap: Span,
    /// Flows that a switch tells apart, by hash; others share an entry. Default 4096.
    pub entries: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { gap: Span(100 * US), entries: 4096 }
    }
}

impl Config {
    pub(super) fn check(&self, rule: Rule<'_>) {
        rule(self.gap > Span(0), "paths.gap", "must be longer than 0, such as \"100us\"".into());
        let entries = self.entries;
        rule((1..=1 << 20).contains(&entries), "paths.entries", format!("{entries} is outside 1 to 1048576"));
    }
}

/// The latest packet of a flowlet, and a number that chooses its path.
#[derive(Clone, Copy, Debug, Default)]
struct Flowlet {
    last: Ps,
    path: u32,
}

/// Remembers flowlets in a table of each switch, which is made with its first packet.
#[derive(Debug)]
pub struct Selector {
    gap: Ps,
    entries: u32,
    switches: Vec<(Pcg64Mcg, Vec<Flowlet>)>,
}

impl Selector {
    pub(super) fn new(config: &Config, seed: u64, switches: &[u32]) -> Self {
        let switches = streams(seed, "flowlet", switches).into_iter().map(|random| (random, Vec::new())).collect();
        Self { gap: config.gap.0, entries: config.entries, switches }
    }
}

impl PathSelector for Selector {
    fn pick(&mut self, choice: &Choice<'_>) -> usize {
        let (random, table) = &mut self.switches[choice.switch];
        if table.is_empty() {
            table.resize(self.entries as usize, Flowlet::default());
        }
        let flowlet = &mut table[choose(choice.hash, self.entries) as usize];
        if flowlet.last == 0 || choice.now - flowlet.last > self.gap {
            flowlet.path = onramp_random::below(random, u32::MAX);
        }
        flowlet.last = choice.now;
        choose(flowlet.path, choice.ports.len() as u32) as usize
    }

    fn encode(&self, state: &mut Encoder) {
        let Self { gap, entries: _, switches } = self;
        for (random, table) in switches {
            state.random(random);
            state.word(table.len() as u64);
            for &Flowlet { last, path } in table {
                // One that was silent for longer begins anew, whatever its path was.
                let over = last == 0 || state.now() - last > *gap;
                state.word(if over { u64::MAX } else { state.now() - last });
                state.word(if over { 0 } else { path });
            }
        }
    }
}
