//! A router that writes nothing but ECN marks; costs nothing.

use super::{Header, Router, Written};
use crate::network::packet::Options;
use std::marker::PhantomData;

/// The plain router, for packets with a header of the hosts' own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain<H>(PhantomData<H>);

impl<H: Header> Router for Plain<H> {
    type Header = H;
    type Port = ();

    fn port(&self, _: u64) {}
}

impl Header for () {
    fn read(&self) -> Written<'_> {
        Written::Nothing
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
}
