//! No feedback but ECN marks; costs nothing.

use super::{Feedback, Header, Written};
use crate::network::packet::Options;
use onramp_workload::state::Encoder;
use std::marker::PhantomData;

/// No feedback, for packets with a header of the hosts' own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain<H>(PhantomData<H>);

impl<H: Header> Feedback for Plain<H> {
    type Header = H;
    type Port = ();

    fn port(&self, _: u64, _: u32) {}

    fn encode(&self, (): &(), _: &mut Encoder) {}
}

impl Header for () {
    fn read(&self) -> Written<'_> {
        Written::Nothing
    }
}

/// Nanoseconds that a packet waited in its receiver, as its ACK tells them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waits(u32);

impl Header for Waits {
    fn read(&self) -> Written<'_> {
        Written::Nothing
    }

    fn waited(&self) -> u32 {
        self.0
    }

    fn set_waited(&mut self, ns: u32) {
        self.0 = ns;
    }
}

impl Header for Options {
    fn read(&self) -> Written<'_> {
        Written::Nothing
    }

    fn options(&self) -> Options {
        *self
    }

    fn set_options(&mut self, options: Options) {
        *self = options;
    }

    /// Of a packet that is not TCP's.
    fn waited(&self) -> u32 {
        self[0].0
    }

    fn set_waited(&mut self, ns: u32) {
        self[0].0 = ns;
    }
}
