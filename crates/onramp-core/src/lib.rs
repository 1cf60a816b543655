//! Safe Rust face of On-Ramp's core.
//!
//! On-Ramp holds the packets of a flow at the sender while the one-way delay of
//! its path is above a threshold. The algorithm (equations 2 to 4 of the paper,
//! NSDI'21) and the wire format of its acknowledgements are the C headers in
//! `core/`, which the eBPF data path compiles as well. This crate compiles them
//! for the host and adds types, nothing more: what is simulated is what is
//! deployed.
//!
//! The bindings to C are checked in. The comment in `build.rs` says how to
//! regenerate them.
//!
//! Nothing here reads a clock. All times are nanoseconds of one sender clock
//! that should not go back.
//!
//! ```
//! use onramp_core::{Flow, Params};
//!
//! // T = 50 µs, and no pause longer than 1 ms.
//! let params = Params::builder(50_000, 1_000_000).build()?;
//! let mut flow = Flow::new(&params, 0);
//!
//! // A packet leaves at 10 µs. Its OR-ACK is back at 100 µs: it took 80 µs.
//! let stamp = flow.stamp(10_000);
//! flow.acked(&params, 100_000, stamp, 80_000);
//!
//! // 30 µs too many, so the next packet waits for 30 µs.
//! assert_eq!(flow.release(100_000), 130_000);
//! # Ok::<(), onramp_core::ParamsError>(())
//! ```

#[rustfmt::skip]
#[expect(missing_docs, dead_code, non_camel_case_types, reason = "all that C has, by its name there")]
mod bindings;

/// Types and constants of the headers, by their names there: for others' bindings to headers that
/// include these.
pub mod abi {
    pub use crate::bindings::{
        ONRAMP_BETA_ONE, ONRAMP_BETA_START_DEFAULT, ONRAMP_COUNT_OLD, ONRAMP_GAIN_SHIFT_DEFAULT, ONRAMP_GAIN_SHIFT_MAX,
        ONRAMP_GAIN_SHIFT_MIN, ONRAMP_KEEP_PAUSE, ONRAMP_STRAWMAN,
    };
    pub use crate::bindings::{
        onramp_flow, onramp_params, onramp_stamp, or_s64, or_u8, or_u16, or_u32, or_u64, orprobe,
    };
}
mod flow;
pub mod orack;
pub mod orprobe;
mod params;

pub use flow::{Flow, Stamp};
pub use params::{Params, ParamsBuilder, ParamsError};

/// `beta` is kept in Q16: this is 1.
pub const BETA_ONE: u32 = bindings::ONRAMP_BETA_ONE;
