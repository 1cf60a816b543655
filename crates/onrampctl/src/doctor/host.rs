//! The kernel, what we may do, and the clock.

use super::Check;
use onrampd::config::{Config, quantity::show_time};
use onrampd::datapath::{self, Datapath, Size};
use onrampd::sys;
use std::fs;

/// The oldest kernels on which the programs and the gate are tested.
const PROGRAMS: (u32, u32) = (5, 10);
const GATE: (u32, u32) = (6, 1);

const CAPABILITIES: [(&str, u32); 3] = [("CAP_NET_ADMIN", 12), ("CAP_PERFMON", 38), ("CAP_BPF", 39)];

pub(super) fn kernel() -> Check {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match version(&release) {
        Some(version) if version >= GATE => Check::ok("kernel", release),
        Some(version) if version >= PROGRAMS => {
            Check::warn("kernel", release, format!("enough to observe; the gate takes {}.{}", GATE.0, GATE.1))
        }
        _ => Check::warn("kernel", release, format!("tested from {}.{} on", PROGRAMS.0, PROGRAMS.1)),
    }
}

/// "6.1.0-25-amd64" is (6, 1).
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

pub(super) fn privileges() -> Check {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let missing = missing_capabilities(&status);
    if missing.is_empty() {
        return Check::ok("privileges", "CAP_BPF, CAP_NET_ADMIN, CAP_PERFMON");
    }
    let mend = "run as root, or by the systemd unit, which gives just these";
    Check::fail("privileges", format!("missing {}", missing.join(", ")), mend)
}

fn missing_capabilities(status: &str) -> Vec<&'static str> {
    let effective = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok()).unwrap_or(0);
    CAPABILITIES.iter().filter(|(_, bit)| effective & 1 << bit == 0).map(|(name, _)| *name).collect()
}

pub(super) fn btf() -> Check {
    if fs::exists("/sys/kernel/btf/vmlinux").unwrap_or(false) {
        Check::ok("BTF", "/sys/kernel/btf/vmlinux")
    } else {
        let mend = "the programs do not need it; bpftool shows less";
        Check::warn("BTF", "the kernel has none of its own types (CONFIG_DEBUG_INFO_BTF)", mend)
    }
}

/// Loading them is the one test that counts; they are gone again at once.
pub(super) fn programs() -> (Vec<Size>, Check) {
    match Datapath::load(16, 16, &[]).and_then(|datapath| datapath.sizes()) {
        Ok(sizes) => {
            let found = format!("the verifier accepts all programs{}", verified(&sizes));
            (sizes, Check::ok("eBPF", found))
        }
        Err(e) => {
            let mend = "a kernel with CONFIG_BPF_SYSCALL and CONFIG_NET_CLS_BPF, as root";
            (Vec::new(), Check::fail("eBPF", e.to_string(), mend))
        }
    }
}

/// Work of the verifier, where the kernel tells.
fn verified(sizes: &[Size]) -> String {
    let each = sizes.iter().filter_map(|s| Some(format!("{} {}", s.program, s.verified?))).collect::<Vec<_>>();
    if each.is_empty() { String::new() } else { format!("; instructions it followed: {}", each.join(", ")) }
}

pub(super) fn jit() -> Check {
    let path = "/proc/sys/net/core/bpf_jit_enable";
    match fs::read_to_string(path).as_deref().map(str::trim) {
        Ok("0") => {
            Check::warn("JIT", "off: each packet costs several times as much", "sysctl net.core.bpf_jit_enable=1")
        }
        Ok(_) => Check::ok("JIT", "on"),
        Err(_) => Check::warn("JIT", "this network namespace does not tell", "look in the host's own"),
    }
}

pub(super) fn secure_boot(program: bool) -> Check {
    let variable = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";
    let firmware = fs::read(variable).unwrap_or_default();
    let enforced = fs::read_to_string("/sys/module/module/parameters/sig_enforce").unwrap_or_default();
    let locked = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    signatures(&firmware, &enforced, &locked, program)
}

/// Judges if the gate needs a signature, by what firmware (four bytes of attributes, then the value), module loader and
/// lockdown say.
fn signatures(firmware: &[u8], enforced: &str, locked: &str, program: bool) -> Check {
    let name = "secure boot";
    let mend = "sign it: DKMS does, with a key that `mokutil --import /var/lib/dkms/mok.pub` enrols at the next boot";
    let boot = if firmware.get(4) == Some(&1) { "on" } else { "off" };
    let needed = enforced.trim() == "Y" || locked.contains("[integrity]") || locked.contains("[confidentiality]");
    match (needed, program) {
        (_, true) => Check::ok(name, format!("{boot}: the gate is a program and takes no signature")),
        (true, false) => {
            Check::warn(name, format!("{boot}: the kernel takes only modules that are signed, sch_onramp too"), mend)
        }
        (false, false) => Check::ok(name, format!("{boot}: modules take no signature")),
    }
}

pub(super) fn hooks() -> Check {
    if datapath::has_tcx() {
        return Check::ok("hooks", "TCX: all is detached the moment the agent ends");
    }
    Check::ok("hooks", "clsact (no TCX, or no privileges to ask): filters stay after a crash until the next start")
}

pub(super) fn clock(config: Option<&Config>) -> Check {
    let Some(config) = config else {
        return Check::ok("clock", format!("{}; a fleet needs none: its probes tell the time", system_clock()));
    };
    if config.fleet.is_some() {
        return Check::ok("clock", "by the fleet's probes; the system clock does not matter");
    }
    let known = config.peers.iter().filter(|p| p.clock_offset.is_some()).count();
    let all = config.peers.len();
    if all == 0 {
        return Check::warn("clock", "there are no peers", "name them in peers or [[peer]]");
    }
    if known < all {
        let mend = "give each [[peer]] its clock_offset, or clock = \"shared\" if all run on this kernel";
        return Check::warn(
            "clock",
            format!("of {} of {all} peers not known: they are not measured", all - known),
            mend,
        );
    }
    if config.clock_is_shared {
        return Check::ok("clock", "shared with all peers: no error");
    }
    let mend = "watch status: a minimum below zero, or that drifts, means that offsets are out of date";
    Check::warn("clock", format!("offsets of {all} peers as configured, error not known; {}", system_clock()), mend)
}

fn system_clock() -> String {
    match sys::clock_error() {
        Ok(Some(us)) => {
            format!("system clock synchronised, at most {} off", show_time(i64::try_from(us).unwrap_or(0) * 1000))
        }
        Ok(None) => "system clock not synchronised".into(),
        Err(e) => format!("system clock: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::State;

    #[test]
    fn releases_are_read() {
        assert_eq!(version("6.1.0-25-amd64"), Some((6, 1)));
        assert_eq!(version("7.3"), Some((7, 3)));
        assert_eq!(version("odd"), None);
    }

    #[test]
    fn what_the_verifier_did_is_said_where_the_kernel_tells() {
        let mut size = Size { program: "onramp_gate", length: Some(900), verified: Some(5000) };
        assert_eq!(verified(&[size.clone()]), "; instructions it followed: onramp_gate 5000");
        size.verified = None;
        assert_eq!(verified(&[size]), "");
    }

    #[test]
    fn modules_need_a_signature_where_the_kernel_says_so() {
        let on = [6, 0, 0, 0, 1];
        let said = |firmware, enforced, locked, program| {
            let check = signatures(firmware, enforced, locked, program);
            (check.state, check.found.split(':').next().unwrap().to_owned())
        };
        assert_eq!(said(&on, "N\n", "none [integrity] confidentiality\n", false), (State::Warn, "on".into()));
        assert_eq!(said(&on, "N\n", "none [integrity] confidentiality\n", true), (State::Ok, "on".into()));
        assert_eq!(said(&on, "N\n", "[none] integrity confidentiality\n", false), (State::Ok, "on".into()));
        assert_eq!(said(&[], "Y\n", "", false), (State::Warn, "off".into()));
        assert_eq!(said(&[6, 0, 0, 0, 0], "N\n", "", false), (State::Ok, "off".into()));
    }

    #[test]
    fn missing_capabilities_are_named() {
        assert_eq!(missing_capabilities("CapEff:\t000001ffffffffff\n"), [""; 0]);
        assert_eq!(missing_capabilities("CapEff:\t0000000000001000\n"), ["CAP_PERFMON", "CAP_BPF"]);
        assert_eq!(missing_capabilities("").len(), 3);
    }
}
