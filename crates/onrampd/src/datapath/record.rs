//! The programs that record what a host sends by TCP.

use super::maps::{self, Map, Ring};
use super::object::{self, Aligned};
use super::{Error, has_tcx};
use crate::abi::{self, or_busy, or_came, or_recorded, or_tuple};
use crate::net::acker;
use crate::sys;
use bytemuck::Zeroable as _;
use libbpf_rs::Object;
use libbpf_rs::libbpf_sys::{BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_attach_type};
use onramp_netlink::Socket;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/record.bpf.o")));
/// Programs and their hooks.
const PROGRAMS: [(&str, bpf_attach_type); 2] =
    [("onramp_record_out", BPF_TCX_EGRESS), ("onramp_record_in", BPF_TCX_INGRESS)];

/// A flow, as the programs tell of it.
pub type Recorded = or_recorded;

/// The loaded programs. They leave what they are attached to when this is dropped.
pub struct Recorder {
    object: Object,
    recorded: Ring,
    busy: Map<or_tuple, or_busy>,
    came: Map<or_tuple, or_came>,
    counters: Map<u32, [u64; abi::OR_RECORD_COUNTERS as usize]>,
    links: Vec<OwnedFd>,
}

impl Recorder {
    /// Loads them. UDP from or to `own_port` is the fleet's own, and not counted; 0: all is.
    ///
    /// # Errors
    /// The kernel has no TCX, or no privileges.
    pub fn load(own_port: u16) -> Result<Self, Error> {
        if !has_tcx() {
            let source = io::Error::other("the kernel has no TCX: it takes Linux 6.6 or newer");
            return Err(Error::Attach { name: PROGRAMS[0].0, interface: "any interface".into(), source });
        }
        let open = object::open(OBJECT, &[], |name, map| {
            // It has record_own_port only.
            if name == "onramp.rodata"
                && let Some(data) = map.initial_value_mut()
                && let Some(first) = data.first_chunk_mut()
            {
                *first = u32::from(own_port).to_ne_bytes();
            }
            Ok(())
        })?;
        let object = object::load(open)?;
        let failed = |name| move |source| Error::Map { name, source };
        Ok(Self {
            recorded: Ring::find(&object, "recorded").map_err(failed("recorded"))?,
            busy: Map::find(&object, "busy").map_err(failed("busy"))?,
            came: Map::find(&object, "came").map_err(failed("came"))?,
            counters: Map::find(&object, "record_counters").map_err(failed("record_counters"))?,
            links: Vec::new(),
            object,
        })
    }

    /// Looks at an interface's packets, after all programs that are there.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refuses.
    pub fn attach(&mut self, interface: &str) -> Result<(), Error> {
        for (name, hook) in PROGRAMS {
            let link = self.link(name, hook, interface);
            self.links.push(link.map_err(|source| Error::Attach { name, interface: interface.into(), source })?);
        }
        Ok(())
    }

    fn link(&self, name: &str, hook: bpf_attach_type, interface: &str) -> io::Result<OwnedFd> {
        let found = acker::find(&mut Socket::open()?, interface).map_err(io::Error::other)?;
        let index = found.ok_or_else(|| io::Error::other("there is no such interface"))?.index;
        let program = self.object.progs_mut().find(|program| program.name() == name);
        sys::attach_tcx(program.ok_or(io::ErrorKind::NotFound)?.as_fd(), index, hook, 0)
    }

    /// The next flow that has ended.
    pub fn take(&mut self) -> Option<Recorded> {
        maps::read(&self.recorded.take()?)
    }

    /// Flows that the programs have not told of: they are open, or may still go on.
    pub fn rest(&self) -> impl Iterator<Item = Recorded> + '_ {
        let row = |flow, how, ended, busy| or_recorded { flow, how, reserved: 0, ended, busy };
        let sent = self.busy.iter().filter_map(move |(flow, busy)| {
            let (how, ended) = match busy.state {
                abi::OR_BUSY_OPEN => (abi::OR_ENDED_OPEN, busy.last),
                abi::OR_BUSY_ACKED => (abi::OR_ENDED_ACKED, busy.acked),
                _ => return None,
            };
            Some(row(flow, how, ended, busy))
        });
        let came = self.came.iter().filter(|(_, came)| came.last != 0).map(move |(flow, came)| {
            row(flow, abi::OR_ENDED_CAME, came.last, or_busy { next: came.next, ..or_busy::zeroed() })
        });
        sent.chain(came)
    }

    /// The counters, by `OR_RECORD_LOST` and so on.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn counters(&self) -> Result<[u64; abi::OR_RECORD_COUNTERS as usize], Error> {
        let cpus = self.counters.get_all(&0).map_err(|source| Error::Map { name: "record_counters", source })?;
        let mut sum = [0; abi::OR_RECORD_COUNTERS as usize];
        cpus.iter().flat_map(|counted| counted.iter().enumerate()).for_each(|(i, n)| sum[i] += n);
        Ok(sum)
    }
}
