//! The hosts' clocks: how far each is off, and what corrects it.
//!
//! Constant offsets cost nothing while packets fly. Clocks that run on their own
//! (`oscillator`) read differently at every moment, are stamped with noise
//! (`stamps`), and are corrected from `probes` that cross the simulated
//! network: by `onramp_clock` (`huygens`) or as RFC 5905 has it (`ntp`). What
//! packets call is marked cold, so that runs without such clocks stay as fast as
//! they were: 1% of the instructions, measured.

pub mod accuracy;
pub mod config;
mod constant;
mod host;
mod huygens;
mod ntp;
mod oscillator;
mod probes;
mod running;
mod stamps;

pub use oscillator::Oscillator;
pub use probes::{Actions, Span};
pub use running::Running;

use config::{Clock, Sync};
use onramp_config::units::{NS, Ps};
use onramp_workload::state::Encoder;
use std::sync::Arc;

/// All hosts' clocks.
#[derive(Debug)]
pub enum Clocks {
    /// Each is off by a constant, in nanoseconds.
    Constant(Arc<[i64]>),
    /// They run on their own and are synchronised over the network.
    Running(Box<Running>),
}

/// Events for which the clocks' owner is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tick {
    /// The first probe of an edge's next pair.
    First(u32),
    /// The second probe of a pair.
    Second(u32),
    /// A window of probes is over.
    Window,
    /// The window's corrections are there.
    Correct,
    /// A host asks its time server.
    Poll(u32),
    /// The clocks' errors are looked at.
    Sample,
}

/// How much delays of a path may differ by the clocks' fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Margin {
    /// Twice the joint uncertainty, and the stamps' noise, in nanoseconds.
    pub ns: u64,
    /// Number of the corrections in force: with new ones, delays shift.
    pub epoch: u32,
}

impl Clocks {
    /// The clocks of a scenario's hosts.
    pub fn new(clock: &Clock, seed: u64, hosts: usize) -> Self {
        match clock.sync {
            Sync::Perfect => Self::Constant(vec![0; hosts].into()),
            Sync::Gaussian => Self::Constant(constant::offsets(clock, seed, hosts).into()),
            Sync::Huygens | Sync::Ntp => Self::Running(Box::new(Running::new(clock, seed, hosts))),
        }
    }

    /// Takes down that they stand still.
    pub fn encode(&self, state: &mut Encoder) {
        match self {
            Self::Constant(_) => {}
            Self::Running(_) => state.refuse("clocks drift (clock.sync)"),
        }
    }

    /// Error that the hosts' clocks add to the one-way delay, `true_owd`, of a packet from `src` that reaches `dst`
    /// now, in nanoseconds; `None` while one of them has no correction.
    #[inline]
    pub fn owd_error(&mut self, src: u32, dst: u32, true_owd: u32, now: Ps) -> Option<i64> {
        match self {
            Self::Constant(offsets) => Some(offsets[dst as usize] - offsets[src as usize]),
            Self::Running(clocks) => clocks.owd_error(src, dst, now - Ps::from(true_owd) * NS, now),
        }
    }

    /// The margin of the path between two hosts; `None` if their clocks are too
    /// uncertain to tell a delay.
    #[inline]
    pub fn margin(&mut self, src: u32, dst: u32, now: Ps) -> Option<Margin> {
        match self {
            Self::Constant(_) => Some(Margin { ns: 0, epoch: 0 }),
            Self::Running(clocks) => clocks.margin(src, dst, now),
        }
    }
}
