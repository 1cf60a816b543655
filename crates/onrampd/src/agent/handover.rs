//! Things an agent leaves to the next one: its eBPF maps, and, where the same process goes over to a new
//! program (exec), its links, so that the old programs work on until the new ones are attached.
//!
//! After a crash systemd has kept the maps; without it they are found by their numbers, as long as a gate
//! goes by them.

use crate::datapath::object::Shared;
use crate::sys;
use libbpf_rs::MapHandle;
use std::env;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Set for the new program.
const SIGN: &str = "ONRAMPD_TAKES_OVER";
/// Set by systemd for whom it gives back what it has kept.
const KEPT: &str = "LISTEN_PID";

/// Maps and links that the agent before has left.
#[derive(Debug, Default)]
pub struct Legacy {
    /// Its maps.
    pub maps: Vec<Shared>,
    /// Its links: its programs are attached while they are open.
    pub links: Vec<OwnedFd>,
}

/// Finds what is open in this process from before it was this program. To be asked once, and before anything
/// else is opened.
#[must_use]
pub fn legacy() -> Option<Legacy> {
    let us = std::process::id().to_string();
    if ![SIGN, KEPT].iter().any(|name| env::var(name).is_ok_and(|pid| pid == us)) {
        return None;
    }
    let mut legacy = Legacy::default();
    for (number, is_map) in open_here() {
        let Ok(fd) = sys::inherited(number) else { continue };
        if is_map { legacy.maps.extend(Shared::named(fd)) } else { legacy.links.push(fd) }
    }
    (!legacy.maps.is_empty()).then_some(legacy)
}

/// The maps of these numbers that are still there. To ask for them takes CAP_SYS_ADMIN.
#[must_use]
pub fn by_number(numbers: &[u32]) -> Option<Legacy> {
    let map = |id: &u32| MapHandle::from_map_id(*id).ok()?.as_fd().try_clone_to_owned().ok().and_then(Shared::named);
    let maps: Vec<_> = numbers.iter().filter_map(map).collect();
    (!maps.is_empty()).then_some(Legacy { maps, links: Vec::new() })
}

/// Goes over to `program`, with the same arguments. Returns only if that fails.
pub fn hand_over(program: &Path) -> io::Error {
    let open = open_here();
    let keep = |keep| open.iter().try_for_each(|(number, _)| sys::keep_open(*number, keep));
    let sign = std::process::id().to_string();
    let go = || Command::new(program).args(env::args_os().skip(1)).env(SIGN, sign).exec();
    let failed = keep(true).map_or_else(|e| e, |()| go());
    let _ = keep(false);
    failed
}

/// This process's maps (true) and links (false).
fn open_here() -> Vec<(i32, bool)> {
    let kind = |number: i32| {
        let to = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        match to.to_str()? {
            "anon_inode:bpf-map" => Some((number, true)),
            "anon_inode:bpf_link" | "anon_inode:bpf-link" => Some((number, false)),
            _ => None,
        }
    };
    let all = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(kind).collect()
}
