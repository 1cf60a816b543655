//! Entropy values: numbers in packets that switches hash to choose a path; a file for each way. Switches choose by it
//! alone, so that hosts choose paths without knowing them.

pub mod reps;
pub mod spray;

use onramp_config::units::Ps;
use onramp_config::{Rule, tagged};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// Values that 16 bits have.
const ALL: u32 = 1 << 16;

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn are_all(values: &u32) -> bool {
    *values == ALL
}

/// One value for all packets of a flow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flow {}

tagged! {
    /// A way to choose entropy values.
    pub enum Config {
        /// One for all packets of a flow.
        Flow(Flow) = "flow",
        /// Another for each packet, at random.
        Spray(spray::Config) = "spray",
        /// Values whose packets met no congestion, again.
        Reps(reps::Config) = "reps",
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::Flow(Flow {})
    }
}

impl Config {
    /// True for the default.
    pub fn is_of_flows(&self) -> bool {
        matches!(self, Self::Flow(_))
    }

    /// True if acknowledgements carry the value of their packet.
    pub fn is_echoed(&self) -> bool {
        matches!(self, Self::Reps(_))
    }

    /// Checks values.
    pub fn check(&self, rule: Rule<'_>) {
        let values = match self {
            Self::Flow(_) => return,
            Self::Spray(config) => config.values,
            Self::Reps(config) => {
                config.check(rule);
                config.values
            }
        };
        let fits = (2..=ALL).contains(&values) && values.is_power_of_two();
        rule(fits, "entropy.values", format!("{values} is no power of two from 2 to {ALL}: such as 128"));
    }

    /// For the flow `id`.
    pub fn of_flow(&self, seed: u64, id: u64) -> Entropy {
        let random = || onramp_random::stream(seed, "entropy", id);
        match self {
            Self::Flow(_) => Entropy::Flow,
            Self::Spray(config) => Entropy::Spray(Box::new(spray::Spray::new(config, random()))),
            Self::Reps(config) => Entropy::Reps(Box::new(reps::Reps::new(config, random()))),
        }
    }
}

/// Entropy values of a flow.
#[derive(Clone, Debug, Default)]
pub enum Entropy {
    /// See [`Config`].
    #[default]
    Flow,
    /// See [`Config`].
    Spray(Box<spray::Spray>),
    /// See [`Config`].
    Reps(Box<reps::Reps>),
}

impl Entropy {
    /// The value of the next packet; `own` is the flow's.
    pub fn next(&mut self, own: u16) -> u16 {
        match self {
            Self::Flow => own,
            Self::Spray(spray) => spray.next(),
            Self::Reps(reps) => reps.next(),
        }
    }

    /// A packet with this value was acknowledged; a switch has marked it (ECN), or not.
    pub fn acknowledged(&mut self, value: u16, marked: bool, now: Ps) {
        if let Self::Reps(reps) = self {
            reps.acknowledged(value, marked, now);
        }
    }

    /// Takes down its state.
    pub fn encode(&self, state: &mut Encoder) {
        match self {
            Self::Flow => {}
            Self::Spray(spray) => spray.encode(state),
            Self::Reps(reps) => reps.encode(state),
        }
    }

    /// Packets were lost for no congestion that anything has told of.
    pub fn timed_out(&mut self, now: Ps) {
        if let Self::Reps(reps) = self {
            reps.timed_out(now);
        }
    }
}
