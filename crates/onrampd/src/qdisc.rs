//! The gate as an eBPF program, where the kernel takes one for a queueing discipline (Linux 6.17).
//!
//! It has the maps of the other programs, and its own: what is held is in these, so that a gate
//! works on when its agent is gone, without holding anything.

use crate::abi::{or_gate, or_limits, tc_onramp_xstats};
use crate::config::Config;
use crate::gate;
use crate::object::{self, Aligned, Shared};
use libbpf_rs::{Link, MapCore as _, MapFlags, Object};
use onramp_netlink::message::u32_at;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fs;
use std::io;
use std::mem::offset_of;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/qdisc.bpf.o")));

/// A gate's places for packets, a power of two above the limit on them.
const PACKETS: u32 = 16384;
/// Places for flows: of one gate at most, at least, and of all that there may be together.
const MOST_FLOWS: u32 = 16384;
/// See there.
const LEAST_FLOWS: u32 = 1024;
/// See there.
const ALL_FLOWS: u32 = 131_072;

/// What went wrong with it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel is too old, or was built without.
    #[error(
        "this kernel takes no eBPF program as a queueing discipline: it takes Linux 6.17 or newer, built with NET_SCH_BPF"
    )]
    Missing,
    /// The system has none.
    #[error("no random number for the gate's name")]
    Random,
    /// The kernel refuses it.
    #[error("the gate's program: {0}")]
    Load(#[from] object::Error),
    /// One of its maps, or that it is a queueing discipline.
    #[error("the gate's program: {0:#}")]
    Use(#[from] libbpf_rs::Error),
}

/// Writes the beginning of what a map holds when it is made.
fn put(value: Option<&mut [u8]>, bytes: &[u8]) {
    if let Some(place) = value.and_then(|value| value.get_mut(..bytes.len())) {
        place.copy_from_slice(bytes);
    }
}

fn random() -> Result<u32, Error> {
    let mut bytes = [0; 4];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::Random)?;
    Ok(u32::from_ne_bytes(bytes))
}

/// Whether the kernel takes a queueing discipline that is an eBPF program.
///
/// # Errors
/// Its types cannot be read.
pub fn is_possible() -> io::Result<bool> {
    let btf = fs::read("/sys/kernel/btf/vmlinux")?;
    let sign = b"\0bpf_qdisc_init_prologue\0";
    Ok(btf.windows(sign.len()).any(|w| w == sign))
}

/// The program in the kernel. Without it no gate of its kind can be added; those that are there stay.
pub struct Program {
    /// Its kind of queueing discipline. One of its own: there is one of a name in the kernel, and where a kind
    /// is replaced by itself, the old program stays.
    pub kind: String,
    /// A gate's places for flows.
    flows: u32,
    object: Object,
    _link: Link,
}

impl Program {
    /// Loads it with the maps of the other programs, for gates at so many places, and as many that are yet to go
    /// when these come. It is still to be told its [limits](Self::limit).
    ///
    /// # Errors
    /// The kernel has no such queueing disciplines, or refuses it.
    pub fn load(shared: &[Shared], places: u32) -> Result<Self, Error> {
        if !is_possible().unwrap_or(false) {
            return Err(Error::Missing);
        }
        let kind = format!("{}{:08x}", gate::PROGRAMS, random()?);
        let instances = (2 * places).max(4);
        let flows = (ALL_FLOWS / instances.next_power_of_two()).clamp(LEAST_FLOWS, MOST_FLOWS);
        let open = object::open(OBJECT, shared, |name, map| {
            match name {
                "instances" => map.set_max_entries(instances)?,
                "kept" => map.set_max_entries(instances * PACKETS)?,
                "queues" | "buckets" => map.set_max_entries(instances * flows)?,
                // struct Qdisc_ops, as kernel.h has it, begins with its name.
                "onramp" => put(map.initial_value_mut(), kind.as_bytes()),
                // qdisc_instances and what follows it.
                "onramp.rodata" => {
                    let words = [instances, flows, PACKETS].map(u32::to_ne_bytes);
                    put(map.initial_value_mut(), words.as_flattened());
                }
                _ => {}
            }
            Ok(())
        })?;
        let mut object = object::load(open)?;
        let link = object
            .maps_mut()
            .find(|map| map.name() == "onramp")
            .map(|mut map| map.attach_struct_ops())
            .ok_or(Error::Missing)??;
        Ok(Self { kind, flows, object, _link: link })
    }

    /// Tells it its limits.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn limit(&self, config: &Config) -> Result<(), Error> {
        let given = &config.gate;
        let words = [
            given.limit.unwrap_or(10_240).min(PACKETS - 1),
            given.bytes.unwrap_or(64 << 20),
            given.flow_limit.unwrap_or(1024),
            given.flows.unwrap_or(self.flows).min(self.flows - 2),
            given.quantum.unwrap_or(0),
            given.pacing.unwrap_or(true).into(),
        ];
        // As struct or_limits has them.
        let mut bytes = gate::max_hold(config).to_ne_bytes().to_vec();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        debug_assert_eq!(bytes.len(), size_of::<or_limits>());
        self.limits()?.update(&0_u32.to_ne_bytes(), &bytes, MapFlags::ANY)?;
        Ok(())
    }

    /// Has it hold nothing any more, until it is told its limits again.
    ///
    /// # Errors
    /// As for [`Self::limit`].
    pub fn let_go(&self) -> Result<(), Error> {
        let (map, zero) = (self.limits()?, 0_u32.to_ne_bytes());
        let mut bytes = map.lookup(&zero, MapFlags::ANY)?.ok_or(Error::Missing)?;
        let at = offset_of!(or_limits, max_hold);
        bytes[at..at + size_of::<u64>()].fill(0);
        Ok(map.update(&zero, &bytes, MapFlags::ANY)?)
    }

    fn limits(&self) -> Result<libbpf_rs::Map<'_>, Error> {
        self.object.maps().find(|map| map.name() == "limits").ok_or(Error::Missing)
    }

    /// The gates that are in place: their interface's index, their parent, and a `tc_onramp_xstats`.
    ///
    /// # Errors
    /// The map cannot be read.
    pub fn gates(&self) -> Result<Vec<(u32, u32, Vec<u8>)>, Error> {
        let mut found = Vec::new();
        for map in self.object.maps().filter(|map| map.name() == "instances") {
            for number in 0..map.max_entries() {
                let Some(value) = map.lookup(&number.to_ne_bytes(), MapFlags::ANY)? else { continue };
                let word = |at| u32_at(&value, at).unwrap_or(0);
                let stats = offset_of!(or_gate, stats)..offset_of!(or_gate, stats) + size_of::<tc_onramp_xstats>();
                if word(offset_of!(or_gate, used)) != 0 {
                    let (index, parent) = (word(offset_of!(or_gate, ifindex)), word(offset_of!(or_gate, parent)));
                    found.push((index, parent, value.get(stats).unwrap_or_default().to_vec()));
                }
            }
        }
        Ok(found)
    }
}
