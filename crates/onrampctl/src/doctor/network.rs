//! The gate, the interfaces, and who else is there.

use super::Check;
use libbpf_rs::ProgramHandle;
use libbpf_rs::libbpf_sys::{BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_attach_type};
use onramp_netlink::Socket;
use onramp_netlink::link::{self, Link};
use onramp_netlink::qdisc::ROOT;
use onrampd::config::quantity::show_time;
use onrampd::config::{Config, GateKind, Mode, Parent};
use onrampd::datapath::{Datapath, is_ours};
use onrampd::gate::install::{self, Kinds};
use onrampd::gate::program::{self, Program};
use onrampd::gate::segments;
use onrampd::gate::{self, Choice, Gate, before};
use onrampd::net::acker;
use onrampd::net::tc::{self, EGRESS, INGRESS, LOOPBACK};
use onrampd::sys;
use std::fs;
use std::thread;

/// Checks which gate an agent would choose, or chooses as it is configured; both are tried. Returns also whether it
/// is a program.
pub(super) fn gate(config: Option<&Config>) -> (Check, bool) {
    let needed = config.is_some_and(|c| c.mode == Mode::Enforce && c.gate.kind != GateKind::None);
    let (kind, parent) = config.map_or((GateKind::Auto, Parent::Auto), |c| (c.gate.kind, c.parent));
    let mend = format!("{}, or the module sch_onramp: dkms install onramp/0.1.0", program::kernel());
    let chosen = gate::choose(kind, parent, try_program, try_module);
    let program = matches!(chosen, Ok((Gate::Program(()), _)));
    let check = match chosen {
        Ok((Gate::None, Choice { why, .. })) if !needed => {
            Check::warn("gate", format!("none: enough to observe, not to enforce: {why}"), mend)
        }
        Ok((Gate::None, Choice { why, .. })) => Check::fail("gate", why, mend),
        Ok((_, Choice { kind, why })) => Check::ok("gate", format!("{kind} ({why})")),
        Err(e) if needed => Check::fail("gate", e, mend),
        Err(e) => Check::warn("gate", e, mend),
    };
    (check, program)
}

/// Loads the gate's program, which is gone again at once.
fn try_program() -> Result<(), String> {
    if !program::is_possible().unwrap_or(false) {
        return Err(program::Error::Missing(program::kernel()).to_string());
    }
    let shared = Datapath::load(16, 16, &[]).and_then(|d| d.shared()).map_err(|e| e.to_string())?;
    Program::load(&shared, &[], 1).map(drop).map_err(|e| e.to_string())
}

/// Tries the module in a network namespace of its own, which is gone afterwards.
fn try_module() -> Result<(), String> {
    let tried = thread::spawn(|| {
        sys::leave_network().map_err(|e| e.to_string())?;
        let mut socket = Socket::open().map_err(|e| e.to_string())?;
        install::try_module(&mut socket, LOOPBACK).map_err(|e| e.to_string())
    });
    match tried.join().unwrap_or_else(|_| Err("no thread".into())) {
        Err(_) if module_installed() => Ok(()),
        done => done,
    }
}

fn module_installed() -> bool {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let listed = |path: &str| fs::read_to_string(path).is_ok_and(|text| text.contains("sch_onramp"));
    listed("/proc/modules") || listed(&format!("/lib/modules/{release}/modules.dep"))
}

/// Checks one interface, where the gate is a program or not.
pub(super) fn interface(name: &str, config: &Config, program: bool) -> Vec<Check> {
    let failed = |e: String| vec![Check::fail(name, e, "see ip link")];
    let mut socket = match Socket::open() {
        Ok(socket) => socket,
        Err(e) => return failed(e.to_string()),
    };
    let link = match acker::find(&mut socket, name) {
        Ok(Some(link)) => link,
        Ok(None) => return failed("there is no such interface".into()),
        Err(e) => return failed(e.to_string()),
    };
    let up = match below(name, config) {
        Some(lower) => {
            let found = format!("lies above {lower}, named too: packets are stamped twice, and none is measured");
            Check::fail(name, found, format!("name only one of {name} and {lower}"))
        }
        None if link.up => Check::ok(name, "up"),
        None => Check::warn(name, "down", format!("ip link set {name} up")),
    };
    vec![
        up,
        frames(name),
        place(&mut socket, name, link.index, config, program),
        offloads(&link, config, program),
        neighbours(&mut socket, name, link.index),
    ]
}

/// A property of an interface that the kernel tells of in a file.
fn told(name: &str, file: &str) -> String {
    fs::read_to_string(format!("/sys/class/net/{name}/{file}")).unwrap_or_default()
}

/// The programs look for Ethernet's header first.
fn frames(name: &str) -> Check {
    let title = format!("{name} frames");
    match told(name, "type").trim() {
        "1" | "" => Check::ok(title, "Ethernet"),
        other => {
            let found = format!("not Ethernet (ARPHRD {other}): all packets pass unmeasured, and nothing is held");
            Check::fail(title, found, "name the Ethernet device that its packets leave by")
        }
    }
}

/// Tunnels of this host, whose packets' insides are not seen.
pub(super) fn tunnels() -> Option<Check> {
    let links = link::list(&mut Socket::open().ok()?).ok()?;
    let mut found: Vec<_> =
        links.iter().filter_map(|link| Some(format!("{} ({})", link.name, tunnel(link.kind.as_ref()?)?))).collect();
    if found.is_empty() {
        return None;
    }
    found.sort_unstable();
    let told = format!("{}: flows inside are not told apart", found.join(", "));
    let mend =
        "those of VXLAN, Geneve, GRE and IPIP pass as without On-Ramp; all of a WireGuard peer's share one pause";
    Some(Check::warn("tunnels", told, mend))
}

/// A tunnel by the kernel's name of its kind; none if it is none.
fn tunnel(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "vxlan" => "VXLAN",
        "geneve" => "Geneve",
        "wireguard" => "WireGuard",
        "ipip" | "ip6tnl" => "IPIP",
        "sit" => "SIT",
        "gre" | "gretap" | "ip6gre" | "ip6gretap" | "erspan" | "ip6erspan" => "GRE",
        "vti" | "vti6" | "xfrm" => "IPsec",
        "bareudp" | "fou" | "gtp" => "UDP",
        _ => return None,
    })
}

/// The interface right under that one, as a card is under a VLAN or a bond, if it is configured, too.
fn below<'a>(name: &str, config: &'a Config) -> Option<&'a String> {
    config.interfaces.iter().find(|lower| fs::exists(format!("/sys/class/net/{name}/lower_{lower}")).unwrap_or(false))
}

/// Checks the place where the gate goes, a program or not, and what of the discipline there it does not do.
fn place(socket: &mut Socket, name: &str, index: u32, config: &Config, program: bool) -> Check {
    let title = format!("{name} qdisc");
    let present = match tc::qdiscs(socket, index) {
        Ok(present) => present,
        Err(e) => return Check::fail(title, e.to_string(), "see tc qdisc"),
    };
    if present.iter().any(|q| gate::is_gate(&q.kind)) {
        return Check::ok(title, "the gate is in place");
    }
    let now = present.iter().find(|q| q.parent == ROOT).map_or("none", |q| &q.kind);
    match install::plan(name, &present, config.parent, &Kinds::module()) {
        Err(e) if config.mode == Mode::Enforce => Check::fail(title, e.to_string(), "or mode = \"observe\""),
        Err(e) => Check::warn(title, e.to_string(), "before mode = \"enforce\""),
        Ok(_) if config.mode == Mode::Observe => Check::ok(title, format!("{now}; stays, observing needs no gate")),
        Ok(plan) => {
            let replaced = || before::replaced(&present, &plan);
            let target = config.gate.target.map_or_else(|| before::target(replaced()).unwrap_or(0), |time| time.0);
            let told = before::told(replaced(), program, target).unwrap_or_else(|| format!("in place of {now}"));
            let found = format!("the gate is {told}; it gives it back");
            if replaced().all(|q| before::lost(q, program).is_empty()) {
                return Check::ok(title, found);
            }
            Check::warn(title, found, "fine if nobody needs that; else another parent, such as a class")
        }
    }
}

/// A segment that the card cuts up leaves over time, but is stamped once.
fn offloads(link: &Link, config: &Config, program: bool) -> Check {
    let (name, now) = (&link.name, link.gso_max_size);
    let size = if segments::are_small(config, program) { now.min(segments::SMALL) } else { now };
    let title = format!("{name} offloads");
    let cuts = sys::cuts_segments(name).unwrap_or(false);
    let small = if size < now { format!(" (the agent's choice: {now} without it)") } else { String::new() };
    let found = format!("TSO {}, segments up to {size} bytes{small}", if cuts { "on" } else { "off" });
    let Some(rate) = config.line_rate.or_else(|| link_rate(name)) else {
        return Check::ok(title, found);
    };
    let ns = u128::from(size) * 8 * 1_000_000_000 / u128::from(rate.max(1));
    let ns = u64::try_from(ns).unwrap_or(u64::MAX);
    let takes = show_time(i64::try_from(ns).unwrap_or(i64::MAX));
    if cuts && ns > config.params.threshold / 2 {
        let found = format!("{found}, each {takes} on the wire: over half the threshold");
        let smaller = format!("ip link set {name} gso_max_size 16384, or a higher threshold");
        let rate = if config.line_rate.is_none() { "; and set line_rate" } else { "" };
        return Check::warn(title, found, format!("{smaller}{rate}"));
    }
    Check::ok(title, format!("{found}, each {takes} on the wire"))
}

/// In bits per second, if the driver tells.
fn link_rate(name: &str) -> Option<u64> {
    let megabits: i64 = fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?.trim().parse().ok()?;
    u64::try_from(megabits).ok().filter(|m| *m > 0).map(|m| m * 1_000_000)
}

/// Other programs that see the same packets.
fn neighbours(socket: &mut Socket, name: &str, index: u32) -> Check {
    let title = format!("{name} others");
    // By their code too: a kernel may not keep names.
    let tags = Datapath::load(16, 16, &[]).and_then(|d| d.tags()).unwrap_or_default();
    let mut others = Vec::new();
    for (hook, tcx, side) in [(INGRESS, BPF_TCX_INGRESS, "ingress"), (EGRESS, BPF_TCX_EGRESS, "egress")] {
        let filters = tc::filters(socket, index, hook).unwrap_or_default();
        let filters = filters.into_iter().filter(|f| !is_ours(f));
        others.extend(filters.map(|f| format!("{side} filter {} {} at {}", f.kind, f.name, f.priority)));
        others.extend(foreign(index, tcx, &tags).into_iter().map(|what| format!("{side} TCX {what}")));
    }
    if others.is_empty() {
        return Check::ok(title, "no other TC programs");
    }
    let mend = "fine if they let packets pass unchanged; one that redirects hides packets from On-Ramp";
    Check::warn(title, others.join(", "), mend)
}

/// Programs of TCX that are not of this version of ours. That others than root see which they are takes
/// `CAP_SYS_ADMIN`.
fn foreign(index: u32, hook: bpf_attach_type, tags: &[[u8; 8]]) -> Vec<String> {
    let named = |id| match ProgramHandle::from_prog_id(id) {
        Ok(program) => {
            let name = program.name().to_string_lossy();
            let ours = name.starts_with("onramp_") || tags.contains(&program.tag());
            (!ours).then(|| if name.is_empty() { "without a name".into() } else { name.into_owned() })
        }
        Err(e) => Some(format!("number {id}, which may be ours ({e:#})")),
    };
    match sys::tcx_programs(index, hook) {
        Ok(ids) => ids.into_iter().filter_map(named).collect(),
        // A kernel without TCX.
        Err(e) if e.raw_os_error() == Some(libc::EINVAL) => Vec::new(),
        Err(e) => vec![format!("not seen ({e})")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tunnels_are_known_by_their_kind() {
        let told = ["vxlan", "geneve", "wireguard", "ipip", "sit", "gretap", "xfrm", "bridge", "veth", ""].map(tunnel);
        let known = ["VXLAN", "Geneve", "WireGuard", "IPIP", "SIT", "GRE", "IPsec"].map(Some);
        assert_eq!(told[..7], known);
        assert_eq!(told[7..], [None; 3]);
    }
}
