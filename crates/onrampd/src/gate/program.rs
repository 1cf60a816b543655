//! The gate as an eBPF program, where the kernel takes one for a queueing discipline (Linux 6.17).
//!
//! It has the maps of the other programs, and its own: what is held is in these, so that a gate
//! works on when its agent is gone, without holding anything.

use super::{PROGRAMS, max_hold};
use crate::abi::{or_gate, or_limits, tc_onramp_xstats};
use crate::config::Config;
use crate::config::quantity::Size;
use crate::datapath::maps::Map;
use crate::datapath::object::{self, Aligned, Ran, Shared};
use crate::sys;
use libbpf_rs::{Link, MapCore as _, MapFlags, Object};
use onramp_netlink::message::u32_at;
use ring::rand::{SecureRandom as _, SystemRandom};
use std::fs;
use std::io;
use std::mem::offset_of;

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/qdisc.bpf.o")));

/// Places, powers of two: of one gate at most, at least, and of all that there may be together.
struct Places {
    most: u32,
    least: u32,
    all: u32,
}

const PACKETS: Places = Places { most: 16384, least: 4096, all: 1 << 20 };
const FLOWS: Places = Places { most: 16384, least: 1024, all: 131_072 };

impl Places {
    /// Places of each of so many gates.
    fn each(&self, gates: u32) -> u32 {
        (self.all / gates.next_power_of_two()).clamp(self.least, self.most)
    }
}

/// Failure of the gate's program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel is too old, or was built without.
    #[error("this kernel takes no eBPF program as a queueing discipline, which takes {0}")]
    Missing(&'static str),
    /// The system has none.
    #[error("no random number for the gate's name")]
    Random,
    /// The kernel refuses it.
    #[error("the gate's program: {0}")]
    Load(#[from] object::Error),
    /// No descriptors.
    #[error("the gate's maps: {0}")]
    Maps(#[from] io::Error),
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

/// Has the gates of a program, ours or another, hold nothing any more, by its map of limits.
///
/// # Errors
/// The map cannot be written.
pub fn release(limits: &Shared) -> io::Result<()> {
    const { assert!(offset_of!(or_limits, max_hold) == 0, "in every program's limits") };
    let mut value = sys::first_value(limits)?;
    put(Some(&mut value), &[0; size_of::<u64>()]);
    sys::set_first_value(limits, &value)
}

/// Asks whether the kernel takes a queueing discipline that is an eBPF program.
///
/// # Errors
/// Its types cannot be read.
pub fn is_possible() -> io::Result<bool> {
    let btf = fs::read("/sys/kernel/btf/vmlinux")?;
    let sign = b"\0bpf_qdisc_init_prologue\0";
    Ok(btf.windows(sign.len()).any(|w| w == sign))
}

/// The kernel that it takes, in words: of a version that is new enough, only how it is built.
#[must_use]
pub fn kernel() -> &'static str {
    taken(&rustix::system::uname().release().to_string_lossy())
}

fn taken(release: &str) -> &'static str {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map_while(|n| n.parse::<u32>().ok());
    match (numbers.next(), numbers.next()) {
        (Some(major), Some(minor)) if (major, minor) >= (6, 17) => "a kernel built with NET_SCH_BPF",
        _ => "Linux 6.17 or newer, built with NET_SCH_BPF",
    }
}

/// The program in the kernel. Without it no gate of its kind can be added; those that are there stay.
pub struct Program {
    /// Its kind of queueing discipline. One of its own: there is one of a name in the kernel, and where a kind
    /// is replaced by itself, the old program stays.
    pub kind: String,
    /// Packets that a gate has room for,
    packets: u32,
    /// and flows.
    flows: u32,
    object: Object,
    limits: Map<u32, or_limits>,
    _link: Link,
}

/// The maps that are the gates' alone.
const OWN: [&str; 6] = ["instances", "kept", "queues", "buckets", "limits", "taken"];

/// Hash by which this program is known.
fn build() -> u64 {
    let hash = ring::digest::digest(&ring::digest::SHA256, &OBJECT.0);
    u64::from_ne_bytes(std::array::from_fn(|i| hash.as_ref()[i]))
}

impl Program {
    /// Loads it with the maps of the other programs, for gates at so many places, and as many that are yet to go
    /// when these come. It is still to be told its [limits](Self::limit). If the maps that are `inherited` are those
    /// of gates of the same program, which go by the same maps of the others, these gates are its own from now on.
    ///
    /// # Errors
    /// The kernel has no such queueing disciplines, or refuses it.
    pub fn load(shared: &[Shared], inherited: &[Shared], places: u32) -> Result<Self, Error> {
        if !is_possible().unwrap_or(false) {
            return Err(Error::Missing(kernel()));
        }
        let before = |name: &str| inherited.iter().find(|one| one.name == name);
        let own: Vec<_> = OWN.into_iter().filter_map(before).collect();
        let told = before("limits").and_then(|map| sys::first_value(map).ok());
        let builder = told.and_then(|value| Some(bytemuck::try_pod_read_unaligned::<or_limits>(&value).ok()?.build));
        let same = own.len() == OWN.len()
            && builder == Some(build())
            && before("instances").is_some_and(|map| map.info().is_ok_and(|info| info.max_entries >= places))
            && shared.iter().all(|one| before(&one.name).is_none_or(|other| one.is(other)));
        if same {
            let program = Self::with(shared, &own, places)?;
            if program.shared()?.iter().all(|map| own.iter().any(|one| one.is(map))) {
                return Ok(program);
            }
        }
        let program = Self::with(shared, &[], places)?;
        // What is there of another program holds nothing any more: ours are to take its place.
        if let Some(map) = before("limits") {
            release(map)?;
        }
        Ok(program)
    }

    fn with(shared: &[Shared], own: &[&Shared], places: u32) -> Result<Self, Error> {
        let kind = format!("{}{:08x}", PROGRAMS, random()?);
        let entries = |name| own.iter().find(|one| one.name == name).and_then(|one| Some(one.info().ok()?.max_entries));
        let instances = entries("instances").unwrap_or((2 * places).max(4));
        let flows = entries("queues").map_or(FLOWS.each(instances), |all| all / instances);
        let packets = entries("kept").map_or(PACKETS.each(instances), |all| all / instances);
        let shared: Vec<_> = shared.iter().chain(own.iter().copied()).collect();
        let open = object::open(OBJECT, &shared, |name, map| {
            match name {
                "instances" => map.set_max_entries(instances)?,
                "kept" => map.set_max_entries(instances * packets)?,
                "queues" | "buckets" => map.set_max_entries(instances * flows)?,
                // struct Qdisc_ops, as kernel.h has it, begins with its name.
                "onramp" => put(map.initial_value_mut(), kind.as_bytes()),
                // qdisc_instances and what follows it.
                "onramp.rodata" => {
                    let words = [instances, flows, packets].map(u32::to_ne_bytes);
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
            .ok_or_else(|| Error::Missing(kernel()))??;
        let limits = Map::find(&object, "limits")?;
        // The first place is nobody's, and the second flow is that of packets without one of their own.
        Ok(Self { kind, packets: packets - 1, flows: flows - 2, object, limits, _link: link })
    }

    /// Tells it its limits.
    ///
    /// # Errors
    /// The map cannot be written.
    pub fn limit(&self, config: &Config) -> Result<(), Error> {
        let given = &config.gate;
        let limits = or_limits {
            max_hold: max_hold(config),
            packets: given.limit.unwrap_or(10_240).min(self.packets),
            bytes: given.bytes.map_or(64 << 20, Size::bytes),
            flow_packets: given.flow_limit.unwrap_or(1024),
            flows: given.flows.unwrap_or(self.flows).min(self.flows),
            quantum: given.quantum.map_or(0, Size::bytes),
            pacing: given.pacing.unwrap_or(true).into(),
            target: given.target.map_or(0, |time| time.0),
            build: build(),
        };
        Ok(self.limits.set(&0, &limits)?)
    }

    /// The limits of the configuration that are above its room, which they are cut to.
    pub fn cut(&self, config: &Config) -> Vec<String> {
        let limits = [("limit", config.gate.limit, self.packets), ("flows", config.gate.flows, self.flows)];
        let above = limits.into_iter().filter(|(_, given, room)| given.is_some_and(|given| given > *room));
        let told =
            |(key, _, room)| format!("gate.{key} is above what a program has room for on so many queues: it is {room}");
        above.map(told).collect()
    }

    /// Runs and processor time of its programs, where the kernel counts them.
    ///
    /// # Errors
    /// The kernel says nothing.
    pub fn ran(&self) -> io::Result<Vec<Ran>> {
        object::ran(&self.object)
    }

    /// Has it hold nothing any more, until it is told its limits again.
    ///
    /// # Errors
    /// As for [`Self::limit`].
    pub fn let_go(&self) -> Result<(), Error> {
        Ok(self.limits.set(&0, &or_limits { max_hold: 0, ..self.limits.get(&0)? })?)
    }

    /// Its own maps, for an agent after this one.
    ///
    /// # Errors
    /// There is no room for more descriptors.
    pub fn shared(&self) -> Result<Vec<Shared>, Error> {
        let mut maps = object::shared(&self.object)?;
        maps.retain(|map| OWN.contains(&map.name.as_str()));
        Ok(maps)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_new_enough_lacks_only_what_it_is_built_with() {
        let [new, built] = ["Linux 6.17 or newer, built with NET_SCH_BPF", "a kernel built with NET_SCH_BPF"];
        let told = ["6.12.0-1-amd64", "6.17.0", "6.18.5+deb14-cloud-amd64", "7.0-rc1", "odd"].map(taken);
        assert_eq!(told, [new, built, built, built, new]);
    }
}
