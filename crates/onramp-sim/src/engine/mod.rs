//! Time and the order of events; cells that run side by side. Knows no client.

mod barrier;
pub mod events;
mod merge;
mod prefetch;
pub mod slab;
pub mod turns;
mod wheel;

pub use events::{Event, Events, Head, LaneCache, Lanes, OnLink, Posts};
pub(crate) use prefetch::prefetch;
pub use slab::Slab;
