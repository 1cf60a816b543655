//! The programs that add up what TCP did to the peers, by the kernel's own counters of each connection.

use super::maps::Map;
use super::object::{self, Aligned};
use super::{Error, map};
use crate::abi::{OR_WALK_TIMEOUTS, or_address, or_tcp, or_walk};
use bytemuck::Zeroable as _;
use libbpf_rs::{Iter, Link, Object};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read as _};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/effects.bpf.o")));

/// The loaded programs. They are detached when this is dropped.
pub struct Connections {
    walk: Link,
    _ended: Link,
    state: Map<u32, or_walk>,
    tcp: Map<or_address, or_tcp>,
    /// Those that the programs know.
    peers: BTreeSet<IpAddr>,
    number: u64,
    netns: u32,
    _object: Object,
}

/// Result of [`Connections::walk`].
#[derive(Clone, Debug, Default)]
pub struct Walked {
    /// By peer.
    pub peers: BTreeMap<IpAddr, or_tcp>,
    /// The kernel counts timeouts by connection.
    pub timeouts: bool,
}

impl Connections {
    /// Loads and attaches them, for the network namespace of this thread.
    ///
    /// # Errors
    /// The kernel refuses, for want of privileges or since it is too old.
    pub fn count() -> Result<Self, Error> {
        let object = object::load(object::open(OBJECT, &[], |_, _| Ok(()))?)?;
        let attach = |name: &'static str| {
            let failed = |source| Error::Program { name, source };
            let program = object.progs_mut().find(|program| program.name() == name);
            program.ok_or_else(|| failed(io::Error::from(io::ErrorKind::NotFound).into()))?.attach().map_err(failed)
        };
        let netns = fs::metadata("/proc/thread-self/ns/net").map_err(Error::Thread)?.ino();
        let this = Self {
            walk: attach("onramp_walk")?,
            _ended: attach("onramp_ended")?,
            state: map(&object, "walk")?,
            tcp: map(&object, "tcp")?,
            peers: BTreeSet::new(),
            number: 1,
            netns: netns as u32,
            _object: object,
        };
        this.tell()?;
        Ok(this)
    }

    fn tell(&self) -> Result<(), Error> {
        let state = or_walk { number: self.number, netns: self.netns, flags: 0 };
        self.state.set(&0, &state).map_err(|source| Error::Map { name: "walk", source })
    }

    /// Looks at all connections to `peers`. Of one that is new, those count that begin from now on, and others from
    /// now on.
    ///
    /// # Errors
    /// The kernel does not let it.
    pub fn walk(&mut self, peers: &BTreeSet<IpAddr>) -> Result<Walked, Error> {
        self.know(peers).map_err(|source| Error::Map { name: "tcp", source })?;
        let failed = |source| Error::Program { name: "onramp_walk", source };
        let mut iterator = Iter::new(&self.walk).map_err(failed)?;
        loop {
            match iterator.read(&mut [0; 64]) {
                Ok(0) => break,
                Ok(_) => {}
                // It has seen a million connections.
                Err(e) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&e.kind()) => {}
                Err(e) => return Err(failed(e.into())),
            }
        }
        let state = self.state.get(&0).map_err(|source| Error::Map { name: "walk", source })?;
        // A connection that is new from now on was not there before its peer.
        self.number += 1;
        self.tell()?;
        let peers = peers.iter().filter_map(|peer| Some((*peer, self.tcp.get(&(*peer).into()).ok()?))).collect();
        Ok(Walked { peers, timeouts: state.flags & OR_WALK_TIMEOUTS != 0 })
    }

    fn know(&mut self, peers: &BTreeSet<IpAddr>) -> libbpf_rs::Result<()> {
        for gone in self.peers.difference(peers) {
            self.tcp.remove(&(*gone).into())?;
        }
        for new in peers.difference(&self.peers) {
            self.tcp.set(&(*new).into(), &or_tcp { since: self.number, ..or_tcp::zeroed() })?;
        }
        self.peers.clone_from(peers);
        Ok(())
    }
}
