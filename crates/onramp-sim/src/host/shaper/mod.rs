//! When a host's flows may send: one file per shaper.
//!
//! A shaper is told from when on each flow may send, and asked, when a link is
//! free, whose turn it is. On-Ramp's gate is not its business: it is asked when
//! the packet is about to leave.

mod flow;

use crate::config::units::Ps;
use serde::{Deserialize, Serialize};

/// A flow at a host: its slot, and its number in the whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Slot of the sender.
    pub slot: u32,
    /// Orders flows that are due at the same time.
    pub id: u64,
}

/// The host's agent, which takes its turn as one more flow.
pub const AGENT: Entry = Entry { slot: u32::MAX, id: u64::MAX };

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// This flow's.
    Send(Entry),
    /// Nobody's before this time.
    At(Ps),
    /// Nobody's.
    Idle,
}

/// A shaper of all NICs of a cell; a line is a class of a NIC.
pub trait Shaper {
    /// A new flow.
    fn open(&mut self, flow: Entry);
    /// The flow may send at `at`. Only the earliest of a flow's offers counts; those of
    /// up to `now` line up in turn.
    fn offer(&mut self, line: usize, flow: Entry, at: Ps, now: Ps);
    /// The flow is in line, and waits for nothing but its turn.
    fn ready(&self, flow: Entry) -> bool;
    /// Whose turn it is.
    fn take(&mut self, line: usize, now: Ps) -> Take;
    /// The flow is over.
    fn forget(&mut self, flow: Entry);
}

macro_rules! shapers {
    ($($(#[$doc:meta])* $name:ident($module:ident) = $tag:literal,)+) => {
        /// Which shaper the hosts have.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub enum Kind {
            #[default]
            $($(#[$doc])* #[serde(rename = $tag)] $name,)+
        }

        /// One of the shapers.
        #[derive(Debug)]
        pub enum Any {
            $($(#[$doc])* $name($module::Shaping),)+
        }

        impl Any {
            /// For this many lines.
            pub fn new(kind: Kind, lines: usize) -> Self {
                match kind { $(Kind::$name => Self::$name($module::Shaping::new(lines)),)+ }
            }
        }

        impl Shaper for Any {
            #[inline]
            fn open(&mut self, flow: Entry) {
                match self { $(Self::$name(s) => s.open(flow),)+ }
            }

            #[inline]
            fn offer(&mut self, line: usize, flow: Entry, at: Ps, now: Ps) {
                match self { $(Self::$name(s) => s.offer(line, flow, at, now),)+ }
            }

            #[inline]
            fn ready(&self, flow: Entry) -> bool {
                match self { $(Self::$name(s) => s.ready(flow),)+ }
            }

            #[inline]
            fn take(&mut self, line: usize, now: Ps) -> Take {
                match self { $(Self::$name(s) => s.take(line, now),)+ }
            }

            #[inline]
            fn forget(&mut self, flow: Entry) {
                match self { $(Self::$name(s) => s.forget(flow),)+ }
            }
        }
    };
}

shapers! {
    /// A pacer per flow, flows in turn: what an RDMA NIC has.
    Flow(flow) = "flow",
}
