//! One flow and the stamps of its packets.

use core::mem::MaybeUninit;

use crate::bindings::{
    ffi_acked, ffi_init, ffi_paused_total, ffi_release, ffi_stamp_packet, ffi_start, onramp_flow, onramp_stamp,
};
use crate::params::Params;

/// State of one flow at its sender; 64 bytes.
#[derive(Clone, Debug)]
pub struct Flow(onramp_flow);

/// Record that the sender keeps of a packet until its OR-ACK comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// When the packet was sent.
    pub time: u64,
    /// Time the flow had spent paused by then.
    pub paused: u64,
}

impl Flow {
    /// A new flow, not paused.
    #[inline]
    #[must_use]
    pub fn new(params: &Params, now: u64) -> Self {
        let mut flow = MaybeUninit::uninit();
        // SAFETY: the C function writes every field and keeps no pointer.
        Self(unsafe {
            ffi_init(flow.as_mut_ptr(), &params.0, now);
            flow.assume_init()
        })
    }

    /// Makes a new flow begin with what its path already knows: the one-way
    /// delay `owd`, learnt at `measured_at`. What is left of the pause that it
    /// called for then applies.
    #[inline]
    pub fn start(&mut self, params: &Params, now: u64, owd: i64, measured_at: u64) {
        // SAFETY: both are valid references and C keeps no pointer.
        unsafe { ffi_start(&mut self.0, &params.0, now, owd, measured_at) }
    }

    /// A packet leaves. Keep the stamp if an OR-ACK for it may come back.
    #[inline]
    pub fn stamp(&mut self, now: u64) -> Stamp {
        // SAFETY: a valid reference; C keeps no pointer.
        let onramp_stamp { time, paused } = unsafe { ffi_stamp_packet(&mut self.0, now) };
        Stamp { time, paused }
    }

    /// An OR-ACK came back for the packet sent with `stamp`, which took `owd`
    /// (negative if the clocks disagree): updates `beta` by eq. 3 and `t_next`
    /// by eq. 4. `t_next` may move either way.
    #[inline]
    pub fn acked(&mut self, params: &Params, now: u64, stamp: Stamp, owd: i64) {
        let Stamp { time, paused } = stamp;
        // SAFETY: both are valid references and C keeps no pointer.
        unsafe { ffi_acked(&mut self.0, &params.0, now, onramp_stamp { time, paused }, owd) }
    }

    /// When a packet that could otherwise leave at `ready` is let go. Ask again
    /// when that time has come: an OR-ACK may have moved it.
    #[inline]
    #[must_use]
    pub fn release(&self, ready: u64) -> u64 {
        // SAFETY: a valid reference; C keeps no pointer.
        unsafe { ffi_release(&self.0, ready) }
    }

    /// Time spent paused from the flow's beginning to `now`.
    #[inline]
    #[must_use]
    pub fn paused_total(&self, now: u64) -> u64 {
        // SAFETY: a valid reference; C keeps no pointer.
        unsafe { ffi_paused_total(&self.0, now) }
    }

    /// The flow is paused while the time is before this.
    #[inline]
    #[must_use]
    pub fn t_next(&self) -> u64 {
        self.0.t_next
    }

    /// Values that its future depends on, times and totals relative to `now`, while no packet is under way.
    #[must_use]
    pub fn words(&self, now: u64) -> [u64; 6] {
        let onramp_flow { t_next, paused: _, as_of: _, since, last_owd, last_paused, last_sent: _, beta, seen } =
            self.0;
        // A pause that is over means nothing any more, nor does its start.
        let held = t_next >= now;
        [
            if held { t_next - now + 1 } else { 0 },
            if held { now.wrapping_sub(since) } else { 0 },
            last_owd as u64,
            self.paused_total(now).wrapping_sub(last_paused),
            beta.into(),
            seen.into(),
        ]
    }

    /// `beta` in Q16, at most [`BETA_ONE`](crate::BETA_ONE).
    #[inline]
    #[must_use]
    pub fn beta(&self) -> u32 {
        self.0.beta
    }
}
