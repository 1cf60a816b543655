//! The crate's only unsafe code: that the structures shared with the programs are plain
//! data.

#![expect(unsafe_code, reason = "only here")]

use super::bindings::{onramp_stamp, or_address, or_config, or_flow, or_path, or_peer, or_stamp_key, or_tuple};
use aya::Pod;

macro_rules! plain {
    ($($name:ident),+ $(,)?) => {
        $(
            // SAFETY: repr(C) and Copy, integers only, so every bit pattern is valid; and the
            // header spells all padding out as fields.
            unsafe impl Pod for $name {}
        )+
    };
}

plain!(or_address, or_config, or_flow, or_path, or_peer, or_stamp_key, or_tuple, onramp_stamp);
