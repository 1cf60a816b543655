//! How a switch chooses among ports that lead to a host by equally short paths: a file for each way.

pub mod adaptive;
pub mod custom;
pub mod ecmp;
pub mod flowlet;
pub mod spray;

use onramp_config::units::Ps;
use onramp_config::{Rule, tagged};
use onramp_workload::state::Encoder;
use rand_pcg::Pcg64Mcg;
use std::fmt::Debug;

/// A packet, and the ports that it may leave a switch by.
pub struct Choice<'a> {
    /// Time in picoseconds.
    pub now: Ps,
    /// The switch, by its place among the cell's: in the list that the selector was made for.
    pub switch: usize,
    /// Hash of the packet's flow, mixed by this switch.
    pub hash: u32,
    /// The ports: two or more; for a set of destinations the same, in the same order, until a fault reroutes it.
    pub ports: &'a [u32],
    /// Tells how many bytes wait at a port.
    pub queued: &'a dyn Fn(u32) -> u64,
}

/// A way to choose paths, for the switches of a cell. What it draws comes from a stream of each switch, and what it
/// remembers belongs to a switch, so that choices do not depend on cells.
pub trait PathSelector: Debug + Send + Sync {
    /// The place in `choice.ports` of the port that a packet takes.
    fn pick(&mut self, choice: &Choice<'_>) -> usize;
    /// Takes down what it remembers and draws from.
    fn encode(&self, state: &mut Encoder) {
        state.refuse("a path choice of a program's own cannot be compared");
    }
}

/// Declares the ways: the file of each, and what a scenario calls it.
macro_rules! selectors {
    ($($(#[$doc:meta])* $variant:ident($file:ident) = $kind:literal,)+) => {
        tagged! {
            /// A way to choose paths.
            pub enum Config {
                $($(#[$doc])* $variant($file::Config) = $kind,)+
            }
        }

        /// Chooses paths for the switches of a cell.
        #[derive(Debug)]
        pub enum Selector {
            $($(#[$doc])* $variant($file::Selector),)+
        }

        impl Config {
            /// Rules that the types do not keep.
            pub fn check(&self, rule: Rule<'_>) {
                match self {
                    $(Self::$variant(config) => config.check(rule),)+
                }
            }
        }

        impl Selector {
            /// For switches, by their numbers in the whole network.
            pub fn new(config: &Config, seed: u64, switches: &[u32]) -> Self {
                match config {
                    $(Config::$variant(config) => Self::$variant($file::Selector::new(config, seed, switches)),)+
                }
            }

            /// See [`PathSelector::pick`].
            #[inline]
            pub fn pick(&mut self, choice: &Choice<'_>) -> usize {
                match self {
                    $(Self::$variant(selector) => selector.pick(choice),)+
                }
            }

            /// See [`PathSelector::encode`].
            pub fn encode(&self, state: &mut Encoder) {
                match self {
                    $(Self::$variant(selector) => selector.encode(state),)+
                }
            }
        }
    };
}

selectors! {
    /// All packets of a flow take one path, by a hash.
    Ecmp(ecmp) = "ecmp",
    /// Every packet takes a path at random.
    Spray(spray) = "spray",
    /// A flow's packets take another path after a gap.
    Flowlet(flowlet) = "flowlet",
    /// Every packet takes the port where the least waits.
    Adaptive(adaptive) = "adaptive",
    /// A way of the program that uses this library.
    Custom(custom) = "custom",
}

impl Default for Config {
    fn default() -> Self {
        Self::Ecmp(ecmp::Config {})
    }
}

impl Config {
    /// True for ECMP, the default.
    pub fn is_ecmp(&self) -> bool {
        matches!(self, Self::Ecmp(_))
    }
}

/// A random stream for each switch.
fn streams(seed: u64, purpose: &str, switches: &[u32]) -> Vec<Pcg64Mcg> {
    switches.iter().map(|&switch| onramp_random::stream(seed, purpose, u64::from(switch))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::US;
    use std::collections::BTreeMap;

    const PORTS: &[u32] = &[3, 5, 7, 9];

    fn selector(text: &str) -> Selector {
        let config: Config = onramp_config::read(&text.parse().unwrap()).unwrap();
        Selector::new(&config, 1, &[40, 41])
    }

    /// Places that packets take, given their times and their flows' hashes.
    fn taken(
        selector: &mut Selector,
        switch: usize,
        packets: impl Iterator<Item = (Ps, u32)>,
        queued: &dyn Fn(u32) -> u64,
    ) -> Vec<usize> {
        packets.map(|(now, hash)| selector.pick(&Choice { now, switch, hash, ports: PORTS, queued })).collect()
    }

    fn counted(taken: &[usize]) -> Vec<usize> {
        let mut counts = BTreeMap::new();
        taken.iter().for_each(|place| *counts.entry(*place).or_insert(0) += 1);
        (0..PORTS.len()).map(|place| counts.get(&place).copied().unwrap_or(0)).collect()
    }

    fn at_once(hash: u32) -> impl Iterator<Item = (Ps, u32)> {
        (0..400).map(move |i| (i * 100_000, hash))
    }

    #[test]
    fn ecmp_keeps_a_flow_on_its_path_and_spreads_flows() {
        let mut ecmp = selector("kind = \"ecmp\"");
        let one = taken(&mut ecmp, 0, at_once(0x7000_0000), &|_| 0);
        assert!(one.iter().all(|place| *place == one[0]));
        let flows = taken(&mut ecmp, 0, (0..400u32).map(|i| (0, i.wrapping_mul(0x9E37_79B1))), &|_| 0);
        assert!(counted(&flows).iter().all(|n| (70..130).contains(n)), "{:?}", counted(&flows));
    }

    #[test]
    fn spraying_spreads_a_flow_by_a_stream_of_the_switch() {
        let mut spray = selector("kind = \"spray\"");
        let first = taken(&mut spray, 0, at_once(1), &|_| 0);
        assert!(counted(&first).iter().all(|n| (70..130).contains(n)), "{:?}", counted(&first));
        let second = taken(&mut spray, 1, at_once(1), &|_| 0);
        assert_ne!(first, second);
        // What another switch draws changes nothing.
        let mut again = selector("kind = \"spray\"");
        taken(&mut again, 1, at_once(1), &|_| 0);
        assert_eq!(taken(&mut again, 0, at_once(1), &|_| 0), first);
    }

    #[test]
    fn a_flowlet_keeps_its_path_until_there_is_a_gap() {
        let mut flowlets = selector("kind = \"flowlet\"\ngap = \"50us\"");
        let mut now = 0;
        let packets: Vec<(Ps, u32)> = (0..400)
            .map(|i| {
                now += if i % 10 == 0 { 51 * US } else { 49 * US };
                (now, 9)
            })
            .collect();
        let places = taken(&mut flowlets, 0, packets.into_iter(), &|_| 0);
        assert!(places.chunks(10).all(|flowlet| flowlet.iter().all(|place| *place == flowlet[0])));
        let firsts: Vec<usize> = places.chunks(10).map(|flowlet| flowlet[0]).collect();
        assert!(counted(&firsts).iter().all(|n| *n > 2), "{:?}", counted(&firsts));
    }

    #[test]
    fn adaptive_paths_avoid_what_waits_and_share_what_is_equal() {
        let mut adaptive = selector("kind = \"adaptive\"");
        let one = taken(&mut adaptive, 0, at_once(1), &|port| if port == 7 { 10 } else { 500 });
        assert_eq!(counted(&one), [0, 0, 400, 0]);
        let two = taken(&mut adaptive, 0, at_once(1), &|port| if port < 6 { 10 } else { 500 });
        assert!(counted(&two)[..2].iter().all(|n| *n > 150) && counted(&two)[2..] == [0, 0], "{:?}", counted(&two));
    }
}
