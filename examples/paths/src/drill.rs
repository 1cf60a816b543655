//! DRILL(d, m): each packet takes the port with the fewest bytes queued, among `d` drawn at random and the `m` that
//! were best before (Ghorbani et al., SIGCOMM'17, section 3.2).

use onramp_sim::network::path::custom::Start;
use onramp_sim::network::path::{Choice, PathSelector};
use onramp_sim::random::{Pcg64Mcg, below, stream};
use serde::Deserialize;
use std::sync::Arc;

/// Keys of `paths = { kind = "custom", name = "drill" }`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Ports drawn for each packet. Default 2.
    #[serde(default = "two")]
    draws: u32,
    /// Ports that a switch remembers, for each set of equally short paths. Default 1.
    #[serde(default = "one")]
    memory: usize,
}

fn two() -> u32 {
    2
}

fn one() -> usize {
    1
}

/// Reads the keys.
///
/// # Errors
/// The key that is wrong.
pub fn factory(keys: &toml::Table) -> Result<Start, String> {
    let config: Config = keys.clone().try_into().map_err(|e: toml::de::Error| e.message().to_string())?;
    if config.draws == 0 {
        return Err("draws must be at least 1".into());
    }
    Ok(Arc::new(move |seed, switches| {
        let switches =
            switches.iter().map(|&switch| Switch { random: stream(seed, "drill", switch.into()), best: vec![] });
        Box::new(Drill { config, switches: switches.collect() })
    }))
}

/// A switch: its random numbers, and the best ports of each set of ports. Faults change sets.
#[derive(Debug)]
struct Switch {
    random: Pcg64Mcg,
    best: Vec<(Box<[u32]>, Vec<usize>)>,
}

#[derive(Debug)]
struct Drill {
    config: Config,
    switches: Vec<Switch>,
}

impl PathSelector for Drill {
    fn pick(&mut self, choice: &Choice<'_>) -> usize {
        let Switch { random, best } = &mut self.switches[choice.switch];
        let set = best.iter().position(|(ports, _)| **ports == *choice.ports).unwrap_or_else(|| {
            best.push((choice.ports.into(), Vec::new()));
            best.len() - 1
        });
        let mut seen = std::mem::take(&mut best[set].1);
        seen.extend((0..self.config.draws).map(|_| below(random, choice.ports.len() as u32) as usize));
        seen.sort_by_key(|&place| (choice.queued)(choice.ports[place]));
        seen.dedup();
        let picked = seen[0];
        seen.truncate(self.config.memory);
        best[set].1 = seen;
        picked
    }
}
