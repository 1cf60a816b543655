//! A new version of the agent in the place of the running one: the process goes over to the new
//! program (exec) and leaves its eBPF maps and links open, so that the old programs work on until
//! the new ones are attached and know what the old ones knew.

use crate::sys;
use std::env;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Set for the new program.
const SIGN: &str = "ONRAMPD_TAKES_OVER";

/// What the program before has left open.
#[derive(Debug, Default)]
pub struct Legacy {
    /// Its maps.
    pub maps: Vec<OwnedFd>,
    /// Its links: its programs are attached while they are open.
    pub links: Vec<OwnedFd>,
}

/// What the program before has left, if this process was another one before. To be asked once,
/// and before anything else is opened.
#[must_use]
pub fn legacy() -> Option<Legacy> {
    if env::var(SIGN).ok()? != std::process::id().to_string() {
        return None;
    }
    let mut legacy = Legacy::default();
    for (number, is_map) in open_here() {
        let Ok(fd) = sys::inherited(number) else { continue };
        if is_map { &mut legacy.maps } else { &mut legacy.links }.push(fd);
    }
    Some(legacy)
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
