//! The agent as a whole, on this machine's kernel: two network namespaces and a cable.

mod common;

use common::cgroup_root;
use common::lab::{Agent, KEY_BYTES, Lab, onrampctl, until};
use libbpf_rs::libbpf_sys::{self, BPF_F_BEFORE, BPF_TCX_EGRESS, BPF_TCX_INGRESS, bpf_attach_type};
use onramp_core::orack::{Addresses, MAX_LEN, OrAck};
use onramp_core::orprobe::{Kind, OrProbe};
use onramp_netlink::{Message, Socket};
use onrampd::clock;
use onrampd::config::Parent;
use onrampd::datapath::has_tcx;
use onrampd::gate::install::{self, Kinds};
use onrampd::gate::program;
use onrampd::net::{acker, tc};
use onrampd::sys;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::Signal;
use std::fs;
use std::io::{IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

const T: &str = "threshold = \"50us\"";

/// Traces that an agent could leave behind on a host.
fn traces(lab: &Lab, host: &str) -> String {
    let mut all = lab.says(host, "ip -o link show");
    all.retain(|c| c != '\n');
    let mut left = Vec::new();
    if all.contains(acker::NAME) {
        left.push(acker::NAME.to_string());
    }
    for what in ["tc qdisc show dev eth0", "tc filter show dev eth0 ingress", "tc filter show dev eth0 egress"] {
        let said = lab.says(host, what);
        if said.contains("onramp") || said.contains("clsact") || said.contains("bpf") {
            left.push(said);
        }
    }
    let files = fs::read_dir(lab.file(host)).into_iter().flatten().map(|f| f.unwrap().path().display().to_string());
    // What was measured outlives an agent.
    left.extend(files.filter(|path| !path.contains("/effects-")));
    if lab.file(&format!("{host}.sock")).exists() {
        left.push("socket".into());
    }
    left.join("\n")
}

#[test]
fn delays_are_measured_and_nothing_is_left_behind() {
    for attach in ["tcx", "clsact"] {
        let Some(lab) = Lab::new() else { return };
        let more = format!("{T}\nattach = \"{attach}\"");
        let (a, b) = (lab.agent("a", &more), lab.agent("b", &more));
        for peer in ["10.9.0.2", "fd09::2"] {
            assert!(lab.transfer(peer, 20_000_000));
            until("are there delays", || a.path(peer)["or_acks"].as_u64() > Some(10));
            let owd = &a.path(peer)["owd"];
            let [min, p50, p99] = ["min_ns", "p50_ns", "p99_ns"].map(|key| owd[key].as_i64().unwrap());
            assert!(0 < min && min < 10_000_000 && 0 < p50 && p50 <= p99, "{owd}");
        }
        let status = a.status();
        assert_eq!((&status["attached"], &status["mode"]), (&attach.into(), &"observe".into()));
        assert!(status["counters"]["sent_bytes"].as_u64() >= Some(40_000_000), "{status}");
        // Segments arrive here as they left, up to 64 KB: not copied for an OR-ACK.
        let (sent, with_reply) = (b.counter("or_acks_sent"), b.counter("or_acks_with_reply"));
        assert!(2 * with_reply > sent, "{with_reply} of {sent}");
        // Where TCP sends something twice, an OR-ACK comes and says nothing.
        let came = a.counter("or_acks_received") + a.counter("or_acks_ambiguous");
        assert_eq!(b.counter("or_acks_sent"), came, "{status}");
        let flow = &status["flows"]["top"][0];
        assert!(flow["or_acks"].as_u64() > Some(10) && flow["protocol"] == "tcp", "{flow}");
        assert!(a.end() && b.end());
        for host in ["a", "b"] {
            assert_eq!(traces(&lab, host), "", "{attach}");
        }
    }
}

/// A T that no packet can reach, and a clock that is wrong: at cecfa2f packets waited for as long as that lasted.
#[test]
fn holding_in_vain_ends_within_seconds_and_is_told() {
    let Some(lab) = Lab::new() else { return };
    let meanwhile = |a: &Agent, what: &str| {
        until(what, || lab.transfer("10.9.0.2", 1_000_000) && a.path("10.9.0.2")["not_held"].is_string());
        let why = a.path("10.9.0.2")["not_held"].to_string();
        until("is it in the log", || lab.log("a").contains("nothing is held to 10.9.0.2: "));
        why
    };
    let (a, b) = (lab.agent("a", "threshold = \"1ns\""), lab.agent("b", T));
    let why = meanwhile(&a, "is T known to be too low");
    assert!(why.contains("below the path's least delay") || why.contains("without effect"), "{why}");
    assert!(a.end() && b.end());

    let (a, b) = (lab.agent("a", T), lab.agent("b", &format!("{T}\n[test]\nclock_offset = \"5ms\"")));
    let why = meanwhile(&a, "is the clock known to be wrong");
    assert!(why.contains("OR-ACKs in a second tell delays that cannot be"), "{why}");
    assert!(a.counter("or_acks_too_long") > 0);
    assert!(a.end() && b.end());
}

/// As before Linux 6.6, others' filters may end the chain: ours come first, whoever was there before,
/// comes later, or takes them away.
#[test]
fn filters_of_others_hide_nothing() {
    let Some(lab) = Lab::new() else { return };
    // A program that says TC_ACT_OK, so that none after it is asked.
    let code = lab.file("ok");
    fs::write(&code, "1,6 0 0 0\n").unwrap();
    let takes_all = |handle: u32| {
        for side in ["ingress", "egress"] {
            let filter = format!("tc filter add dev eth0 {side} priority 1 handle {handle} protocol all");
            lab.says("a", &format!("{filter} bpf direct-action bytecode-file {}", code.display()));
        }
    };
    lab.says("a", "tc qdisc add dev eth0 clsact");
    takes_all(1);
    let more = format!("{T}\nattach = \"clsact\"");
    let (a, b) = (lab.agent("a", &more), lab.agent("b", &more));
    let measured = |what: &str| {
        let before = a.path("10.9.0.2")["or_acks"].as_u64();
        until(what, || lab.transfer("10.9.0.2", 100_000) && a.path("10.9.0.2")["or_acks"].as_u64() > before);
    };
    measured("behind one that was there");
    takes_all(2);
    until("is it told", || a.status()["problems"].to_string().contains("came before ours"));
    measured("behind one that came later");
    lab.says("a", "tc qdisc del dev eth0 clsact");
    until("is it told", || a.status()["problems"].to_string().contains("was removed"));
    measured("with its own taken away");
    assert!(a.end() && b.end());
}

/// A TCX program that says TCX_PASS, so that none after it is asked, as Cilium's do.
fn takes_all(hook: bpf_attach_type, index: u32, place: u32) -> [OwnedFd; 2] {
    let code = [(0xb7_u8, 0_i32), (0x95, 0)]; // r0 = 0; exit
    let code = code.map(|(code, imm)| libbpf_sys::bpf_insn { code, imm, ..Default::default() });
    let name = c"takes_all".as_ptr();
    // SAFETY: a name and a license that end with 0, and two instructions; the kernel keeps none of them.
    let program = unsafe {
        let kind = libbpf_sys::BPF_PROG_TYPE_SCHED_CLS;
        let fd = libbpf_sys::bpf_prog_load(kind, name, c"GPL".as_ptr(), code.as_ptr(), 2, std::ptr::null_mut());
        assert!(fd >= 0, "a program: {fd}");
        OwnedFd::from_raw_fd(fd)
    };
    let link = sys::attach_tcx(program.as_fd(), index, hook, place).unwrap();
    [program, link]
}

/// At cecfa2f, ours were the last of TCX's programs for packets that leave: Cilium's ended the chain before, and nothing was stamped.
#[test]
fn tcx_programs_of_others_hide_nothing() {
    let Some(lab) = Lab::new() else { return };
    if !has_tcx() {
        return;
    }
    let mut socket = lab.on("a", || Socket::open().unwrap());
    let index = acker::find(&mut socket, "eth0").unwrap().unwrap().index;
    let both = |place: u32| [BPF_TCX_INGRESS, BPF_TCX_EGRESS].map(|hook| lab.on("a", || takes_all(hook, index, place)));
    let _first = both(BPF_F_BEFORE);
    let (a, b) = (lab.agent("a", T), lab.agent("b", T));
    let measured = |what: &str| {
        let before = a.path("10.9.0.2")["or_acks"].as_u64();
        until(what, || lab.transfer("10.9.0.2", 100_000) && a.path("10.9.0.2")["or_acks"].as_u64() > before);
    };
    measured("beside one that was there");
    let _second = both(BPF_F_BEFORE);
    until("is it told", || a.status()["problems"].to_string().contains("came before ours"));
    measured("beside one that came later, before ours");
    assert!(a.end() && b.end());
    assert_eq!(traces(&lab, "a"), "");
}

/// Docker's way: what leaves the host has the host's address, and that is what is measured.
#[test]
fn flows_of_translated_pods_are_measured_as_the_hosts_own() {
    let Some(lab) = Lab::with_pod() else { return };
    let (a, b) = (lab.agent("a", T), lab.agent("b", T));
    assert!(lab.transfer_from("pod", "10.9.0.2", 5_000_000));
    until("are there delays", || a.path("10.9.0.2")["or_acks"].as_u64() > Some(10));
    let status = a.status();
    let flow = &status["flows"]["top"][0];
    assert!(flow["source"].as_str().unwrap().starts_with("10.9.0.1:") && flow["or_acks"].as_u64() > Some(10), "{flow}");
    assert_eq!(a.counter("or_acks_no_stamp"), 0, "{status}");
    assert!(a.end() && b.end());
}

#[test]
fn or_acks_travel_in_the_class_of_the_data() {
    const CLASS: i32 = 0x28;
    let Some(lab) = Lab::new() else { return };
    let (_a, _b) = (lab.agent("a", T), lab.agent("b", T));
    for (to, family) in [("10.9.0.2", ETH_P_IP), ("fd09::2", ETH_P_IPV6)] {
        let tap = lab.on("a", || Tap::new(family));
        lab.on("b", || {
            let listener = TcpListener::bind((to, 7000)).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| lab.on("a", || send_in_class(to, CLASS)));
                std::io::copy(&mut listener.accept().unwrap().0, &mut std::io::sink()).unwrap();
            });
        });
        let mut classes = Vec::new();
        until("has an OR-ACK come", || {
            classes.extend(tap.classes_of_or_acks());
            !classes.is_empty()
        });
        assert!(classes.iter().all(|class| i32::from(*class) == CLASS), "{to}: {classes:x?}");
    }
}

fn send_in_class(to: &str, class: i32) {
    let mut stream = TcpStream::connect((to, 7000)).unwrap();
    let (level, option) =
        if to.contains(':') { (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) } else { (libc::IPPROTO_IP, libc::IP_TOS) };
    // SAFETY: a socket that is open, and an int as the option is.
    let done = unsafe {
        libc::setsockopt(stream.as_raw_fd(), level, option, (&raw const class).cast(), size_of::<i32>() as u32)
    };
    assert_eq!(done, 0);
    stream.write_all(&[0; 100_000]).unwrap();
}

const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;

/// Sees every packet of a network namespace, before TC does.
struct Tap(OwnedFd, u16);

impl Tap {
    fn new(ether_type: u16) -> Self {
        // SAFETY: the descriptor is checked, and nobody else's.
        let socket = unsafe {
            let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            let fd = libc::socket(libc::AF_PACKET, kind, i32::from((libc::ETH_P_ALL as u16).to_be()));
            assert!(fd >= 0, "a packet socket");
            OwnedFd::from_raw_fd(fd)
        };
        Self(socket, ether_type)
    }

    /// IPv4's TOS, or IPv6's traffic class, of what has come to our UDP port.
    fn classes_of_or_acks(&self) -> Vec<u8> {
        let (mut frame, mut classes) = ([0u8; 2000], Vec::new());
        let mut file = fs::File::from(self.0.try_clone().unwrap());
        while let Ok(length) = file.read(&mut frame) {
            let v4 = self.1 == ETH_P_IP;
            let l4 = if v4 { 34 } else { 54 };
            let protocol = if v4 { frame[23] } else { frame[20] };
            let ours = length > l4 + 4 && frame[12..14] == self.1.to_be_bytes() && protocol == 17;
            if ours && frame[l4 + 2..l4 + 4] == 9471u16.to_be_bytes() {
                classes.push(if v4 { frame[15] } else { frame[14] << 4 | frame[15] >> 4 });
            }
        }
        classes
    }
}

#[test]
fn killed_it_leaves_traffic_alone_and_the_next_start_cleans_up() {
    for attach in ["tcx", "clsact"] {
        let Some(lab) = Lab::new() else { return };
        let more = format!("{T}\nattach = \"{attach}\"");
        let (a, b) = (lab.agent("a", &more), lab.agent("b", &more));
        assert!(lab.transfer("10.9.0.2", 1_000_000));
        a.kill();
        b.kill();
        assert!(lab.transfer("10.9.0.2", 20_000_000));
        assert!(lab.says("a", "ip link").contains(acker::NAME), "what a crash leaves");
        // By a command, on one of them.
        let undo = || {
            let mut command = lab.command("b", env!("CARGO_BIN_EXE_onrampd"));
            command.args(["undo", "--state-dir"]).arg(lab.file("b")).output().unwrap()
        };
        let undone = undo();
        let said = String::from_utf8(undone.stdout).unwrap();
        assert!(said.starts_with("removed ") && said.contains("the device onramp0; the socket "), "{said}");
        assert_eq!(said.contains("eth0: filters"), attach == "clsact", "{said}");
        assert!(said.contains("\nnothing of an agent is left on this host\n"), "{said}");
        assert_eq!(traces(&lab, "b"), "");
        let again = undo();
        assert!(again.status.success() && again.stdout.starts_with(b"nothing of an agent was left"), "{again:?}");

        let (a, b) = (lab.agent("a", &more), lab.agent("b", &more));
        assert!(lab.transfer("10.9.0.2", 1_000_000));
        assert!(a.path("10.9.0.2")["or_acks"].as_u64() > Some(0));
        assert!(String::from_utf8(undo().stderr).unwrap().contains("another agent runs"));
        let filters = lab.says("a", "tc filter show dev eth0 ingress").matches("handle 0x24ff").count();
        assert!(filters <= 1, "{filters} filters");
        assert!(a.end() && b.end());
        assert_eq!(traces(&lab, "a"), "");
    }
}

#[test]
fn an_upgrade_under_load_keeps_what_is_known_and_leaves_nothing() {
    for attach in ["tcx", "clsact"] {
        let Some(lab) = Lab::new() else { return };
        let more = format!("{T}\nattach = \"{attach}\"\nor_ack_gap = \"0ns\"");
        let (a, b) = (lab.agent("a", &more), lab.agent("b", &more));
        assert!(lab.transfer("10.9.0.2", 20_000_000));
        until("are there delays", || a.path("10.9.0.2")["or_acks"].as_u64() > Some(10));
        let known = |status: &serde_json::Value| {
            let of = |name: &str| status["counters"][name].as_u64().unwrap();
            (of("sent"), of("or_acks_received"), status["flows"]["count"].as_u64().unwrap())
        };
        let before = a.status();
        assert!(a.upgrade(|| (0..20).all(|_| lab.transfer("10.9.0.2", 5_000_000))));
        let after = a.status();
        assert_eq!(after["problems"], serde_json::json!([]));
        let ((sent, acked, flows), (sent_before, acked_before, flows_before)) = (known(&after), known(&before));
        assert!(sent > sent_before && acked > acked_before && flows >= flows_before, "{before}\n{after}");
        until("are delays measured again", || {
            assert!(lab.transfer("10.9.0.2", 1_000_000));
            a.counter("or_acks_received") > acked
        });
        assert!(a.end() && b.end());
        assert_eq!(traces(&lab, "a"), "", "{attach}");
    }
}

#[test]
fn a_reload_keeps_flows_and_a_wrong_one_changes_nothing() {
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = (lab.agent("a", T), lab.agent("b", T));
    assert!(lab.transfer("10.9.0.2", 1_000_000));
    let threshold = || a.status()["parameters"]["threshold_ns"].as_u64();

    lab.configure("a", "threshold = \"70us\"\nor_ack_interval = \"4KiB\"");
    a.signal(Signal::HUP);
    until("is reloaded", || threshold() == Some(70_000));
    let status = a.status();
    assert!(status["flows"]["count"].as_u64() > Some(0) && status["counters"]["sent"].as_u64() > Some(0), "{status}");
    assert!(a.path("10.9.0.2")["or_acks"].as_u64() > Some(0));

    for (wrong, said) in [
        ("threshold = \"70\"", "a.toml:7: threshold: "),
        ("threshold = \"80us\"\nmax_flows = 100", "max_flows cannot change"),
        ("threshold = \"80us\"\nmode = \"enforce\"\nparent = \"1:1\"", "parent cannot change"),
    ] {
        lab.configure("a", wrong);
        a.signal(Signal::HUP);
        until("is it told of", || a.status()["problems"].to_string().contains(said));
        assert_eq!(threshold(), Some(70_000));
    }
    let upgrade = || a.status()["problems"].to_string().contains("not upgraded: ");
    lab.configure("a", "threshold = \"70\"");
    a.signal(Signal::USR2);
    until("is it not upgraded", upgrade);

    // Of two peers, one leaves and comes back.
    let text = fs::read_to_string(lab.configure("a", T)).unwrap();
    fs::write(lab.file("a.toml"), text.replace("\"10.9.0.2\", ", "")).unwrap();
    a.signal(Signal::HUP);
    until("has it left", || a.status()["paths"].as_array().unwrap().len() == 1);
    lab.configure("a", T);
    a.signal(Signal::HUP);
    until("is it back", || a.status()["paths"].as_array().unwrap().len() == 2);
    assert_eq!(a.status()["problems"], serde_json::json!([]), "mistakes of before are put right");
}

/// Message of an agent to systemd, and the descriptors that come with it.
fn told(systemd: &UnixDatagram) -> (String, Vec<OwnedFd>) {
    let mut text = [0; 1024];
    let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let bytes = &mut [IoSliceMut::new(&mut text)];
    let got = recvmsg(systemd, bytes, &mut with, RecvFlags::CMSG_CLOEXEC).unwrap().bytes;
    let fds = with.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => fds.collect(),
        _ => Vec::new(),
    });
    (String::from_utf8(text[..got].to_vec()).unwrap(), fds.collect())
}

#[test]
fn what_a_crashed_agent_knew_systemd_gives_back() {
    let Some(lab) = Lab::new() else { return };
    let _b = lab.agent("b", T);
    let config = lab.configure("a", T);
    let systemd = UnixDatagram::bind(lab.file("systemd")).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let start = || {
        // As it finds its own number there.
        let mut command = lab.command("a", "sh");
        let run = [env!("CARGO_BIN_EXE_onrampd"), "run", "--config"];
        command.args(["-c", "LISTEN_PID=$$ exec \"$@\"", "sh"]).args(run).arg(&config);
        command.env("NOTIFY_SOCKET", lab.file("systemd"));
        lab.start("a", command)
    };
    let a = start();
    let mut kept = Vec::new();
    loop {
        let (text, fds) = told(&systemd);
        if text == "READY=1\n" {
            break;
        }
        assert_eq!((text.as_str(), fds.is_empty()), ("FDSTORE=1\nFDPOLL=0\nFDNAME=maps\n", false));
        kept = fds;
    }
    assert!(lab.transfer("10.9.0.2", 5_000_000));
    until("are there OR-ACKs", || a.path("10.9.0.2")["or_acks"].as_u64() > Some(0));
    let (sent, acks) = (a.counter("sent"), a.path("10.9.0.2")["or_acks"].as_u64());
    a.kill();

    kept.iter().for_each(|fd| fcntl_setfd(fd, FdFlags::empty()).unwrap());
    let a = start();
    kept.iter().for_each(|fd| fcntl_setfd(fd, FdFlags::CLOEXEC).unwrap());
    assert!(a.counter("sent") >= sent && a.path("10.9.0.2")["or_acks"].as_u64() >= acks, "{sent} {acks:?}");
    assert!(a.end());
    assert_eq!(traces(&lab, "a"), "");
    until("does systemd let go of them", || told(&systemd).0.contains("FDSTOREREMOVE=1\nFDNAME=maps"));
}

/// The line in which an agent on "a" says why it does not start.
fn refusal(lab: &Lab, config: &Path) -> String {
    let mut command = lab.command("a", env!("CARGO_BIN_EXE_onrampd"));
    let output = command.args(["run", "--config"]).arg(config).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    said
}

#[test]
fn where_the_kernel_takes_no_program_as_a_gate_that_is_said_and_nothing_is_left() {
    let Some(lab) = Lab::new() else { return };
    if program::is_possible().unwrap() {
        return;
    }
    let said = refusal(&lab, &lab.configure("a", &format!("{T}\nmode = \"enforce\"\n[gate]\nkind = \"bpf\"")));
    assert!(said.contains("built with NET_SCH_BPF"), "{said}");
    assert_eq!(traces(&lab, "a"), "");
}

#[test]
fn without_the_module_enforcing_by_it_is_refused_and_leaves_nothing() {
    let Some(lab) = Lab::new() else { return };
    let mut socket = lab.on("a", || Socket::open().unwrap());
    let index = acker::find(&mut socket, "eth0").unwrap().unwrap().index;
    let plan = install::plan("eth0", &[], Parent::Root, &Kinds::module()).unwrap();
    if install::put_in_place(&mut socket, index, &plan, &|m| m).is_ok() {
        eprintln!("skipped: this kernel has the gate");
        return;
    }
    let below = install::plan("eth0", &[], Parent::Class(0x1_0001), &Kinds::module()).unwrap();
    let said = install::put_in_place(&mut socket, index, &below, &|m| m).unwrap_err().to_string();
    assert!(said.contains("nothing to put the gate under"), "{said}");

    let by_module = format!("{T}\nmode = \"enforce\"\n[gate]\nkind = \"module\"");
    let said = refusal(&lab, &lab.configure("a", &by_module));
    assert!(said.contains("sch_onramp"), "{said}");
    assert_eq!(traces(&lab, "a"), "");

    // The same by a reload: it stays as it was.
    let a = lab.agent("a", &format!("{T}\n[gate]\nkind = \"module\""));
    lab.configure("a", &by_module);
    a.signal(Signal::HUP);
    until("is it told of", || a.status()["problems"].to_string().contains("sch_onramp"));
    assert_eq!(a.status()["mode"], "observe");
    assert!(lab.transfer("10.9.0.2", 1_000_000));
    assert!(a.counter("sent") > 0, "it still observes");
}

#[test]
fn without_any_gate_nothing_is_held_and_that_is_said() {
    let Some(lab) = Lab::new() else { return };
    let a = lab.agent("a", &format!("{T}\nmode = \"enforce\""));
    let gate = a.status()["gate"].clone();
    if gate["kind"] != "none" {
        eprintln!("skipped: this kernel has a gate: {gate}");
        return;
    }
    let why = gate["why"].as_str().unwrap().to_owned();
    assert!(why.contains("built with NET_SCH_BPF") && why.contains("sch_onramp"), "{why}");
    let status = a.status();
    assert_eq!(status["mode"], "observe");
    assert_eq!(status["problems"], serde_json::json!([format!("nothing is held: {why}")]));
    assert!(lab.transfer("10.9.0.2", 1_000_000) && a.counter("sent") > 0, "it observes");

    // Nor is this another's affair.
    lab.configure("a", &format!("{T}\nmode = \"observe\""));
    a.signal(Signal::HUP);
    until("is nothing to be held", || a.status()["gate"]["why"] == "the mode is observe");
}

/// With another qdisc in the gate's place, since this kernel may not have it.
#[test]
fn what_was_there_before_the_gate_is_put_back() {
    let Some(lab) = Lab::new() else { return };
    let mut socket = lab.on("a", || Socket::open().unwrap());
    let index = acker::find(&mut socket, "eth0").unwrap().unwrap().index;
    let stand_in = Kinds { kind: "bfifo".into(), others: Vec::new() };
    let options = |m: Message| m.push(&500_000u32.to_ne_bytes());
    let mut there_and_back = |parent: Parent| {
        let show = || lab.says("a", "tc qdisc show dev eth0");
        let before = show();
        let present = tc::qdiscs(&mut socket, index).unwrap();
        let plan = install::plan("eth0", &present, parent, &stand_in).unwrap();
        install::put_in_place(&mut socket, index, &plan, &options).unwrap();
        assert!(show().contains("bfifo") && lab.transfer("10.9.0.2", 100_000), "{}", show());
        install::restore(&mut socket, index, &plan).unwrap();
        assert!(lab.transfer("10.9.0.2", 100_000), "{}", show());
        (before, show())
    };
    let (before, after) = there_and_back(Parent::Root);
    assert_eq!(before, after, "the kernel's own");

    lab.says("a", "tc qdisc replace dev eth0 root handle 7: pfifo limit 77");
    let (before, after) = there_and_back(Parent::Root);
    assert_eq!(before, after, "an operator's, with its options");

    lab.says("a", "tc qdisc replace dev eth0 root handle 1: htb default 1");
    lab.says("a", "tc class add dev eth0 parent 1: classid 1:1 htb rate 1gbit");
    let (_, after) = there_and_back(Parent::Class(0x1_0001));
    assert!(after.contains("pfifo") && !after.contains("bfifo"), "{after}");

    lab.says("a", "tc qdisc del dev eth0 root");
    lab.says("a", "tc qdisc replace dev eth0 root handle 1: tbf rate 1gbit burst 100k latency 10ms");
    let hidden = tc::qdiscs(&mut lab.on("a", || Socket::open().unwrap()), index).unwrap();
    assert_eq!(hidden.len(), 2, "what tc does not show: {hidden:?}");
}

#[test]
fn under_mq_each_queue_gets_a_gate_and_all_goes_back() {
    let Some(lab) = Lab::new() else { return };
    // A device whose queues the kernel puts under an mq of its own, which has no name.
    lab.says("a", "ip link add many numtxqueues 3 type ifb");
    lab.says("a", "ip link set many up");
    let show = || lab.says("a", "tc qdisc show dev many");
    let mut socket = lab.on("a", || Socket::open().unwrap());
    let index = acker::find(&mut socket, "many").unwrap().unwrap().index;
    let stand_in = Kinds { kind: "bfifo".into(), others: Vec::new() };
    let options = |m: Message| m.push(&500_000u32.to_ne_bytes());
    for make in ["", "tc qdisc replace dev many root handle 5: mq"] {
        if !make.is_empty() {
            lab.says("a", make);
        }
        let before = show();
        let present = tc::qdiscs(&mut socket, index).unwrap();
        let plan = install::plan("many", &present, Parent::Mq, &stand_in).unwrap();
        install::put_in_place(&mut socket, index, &plan, &options).unwrap();
        assert_eq!(show().matches("bfifo").count(), 3, "{}", show());
        install::restore(&mut socket, index, &plan).unwrap();
        let kinds = |text: &str| {
            let mut all: Vec<String> = text.lines().map(|l| l.split(' ').nth(1).unwrap().to_string()).collect();
            all.sort();
            all
        };
        assert_eq!(kinds(&show()), kinds(&before), "{before}{}", show());
        if make.is_empty() {
            assert_eq!(show(), before);
        }
    }
}

/// As many as a large card has. It takes 8 ms where nothing else runs; the gates' own waits are together (tests of `install.rs`).
#[test]
fn a_hundred_and_twenty_eight_queues_get_back_what_they_had_within_moments() {
    let Some(lab) = Lab::new() else { return };
    lab.says("a", "ip link add many numtxqueues 128 type ifb");
    lab.says("a", "ip link set many up");
    lab.says("a", "tc qdisc replace dev many root handle 5: mq");
    let mut socket = lab.on("a", || Socket::open().unwrap());
    let index = acker::find(&mut socket, "many").unwrap().unwrap().index;
    let present = tc::qdiscs(&mut socket, index).unwrap();
    let stand_in = Kinds { kind: "bfifo".into(), others: Vec::new() };
    let plan = install::plan("many", &present, Parent::Mq, &stand_in).unwrap();
    install::put_in_place(&mut socket, index, &plan, &|m| m.push(&500_000u32.to_ne_bytes())).unwrap();
    let gates = || lab.says("a", "tc qdisc show dev many").matches("bfifo").count();
    assert_eq!(gates(), 128);
    let start = std::time::Instant::now();
    install::restore(&mut socket, index, &plan).unwrap();
    let took = start.elapsed();
    eprintln!("128 queues got back what they had within {took:?}");
    assert!(gates() == 0 && took < Duration::from_secs(10), "{took:?}");
}

/// The undo file is written first; without room nothing is done.
#[test]
fn without_room_it_does_not_start_and_leaves_nothing() {
    let Some(lab) = Lab::new() else { return };
    let state = lab.file("a");
    fs::create_dir(&state).unwrap();
    // Mounted in the command's own mount namespace.
    let full =
        format!("mount -t tmpfs -o size=4k none {0} && dd if=/dev/zero of={0}/fill bs=4k count=1", state.display());
    let program = env!("CARGO_BIN_EXE_onrampd");
    let run = format!("{program} run --config {}", lab.configure("a", T).display());
    let mut command = lab.command("a", "sh");
    let said = command.args(["-c", &format!("{full} && {run}; ls {}", state.display())]).output().unwrap();
    let (left, told) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert_eq!(left, "fill\n", "{told}");
    let line = told.lines().last().unwrap();
    assert!(line.contains("cannot be written down") && line.contains("No space left on device"), "{told}");
    fs::remove_dir(&state).unwrap();
    assert_eq!(traces(&lab, "a"), "");
}

#[test]
fn the_status_is_for_the_agents_user_and_group_only() {
    let Some(lab) = Lab::new() else { return };
    let a = lab.agent("a", T);
    // Where others may come to it.
    let client = lab.file("onrampctl");
    fs::copy(common::lab::client(), &client).unwrap();
    let ask = |group: u32| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid=65534", &format!("--regid={group}"), "--clear-groups"]).arg(&client);
        command.args(["status", "--json", "--socket"]).arg(&a.socket).output().unwrap()
    };
    let stranger = ask(65_534);
    let said = String::from_utf8(stranger.stderr).unwrap();
    let why = "only root and the agent's group, onrampd, may ask it";
    assert!(said.contains(why) && said.lines().count() == 1, "{said}");
    assert_eq!(stranger.status.code(), Some(1));
    let member = ask(0);
    assert!(member.status.success(), "{member:?}");
    let shown = onrampctl(&["status", "--socket", a.socket.to_str().unwrap()]);
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("observe") && text.contains("10.9.0.2"), "{text}");

    // A second agent in the same place is refused and leaves the first alone.
    assert!(refusal(&lab, &lab.file("a.toml")).contains("another agent"));
    assert_eq!(a.status()["mode"], "observe");
    assert!(a.end());
    let gone = onrampctl(&["status", "--socket", lab.file("a.sock").to_str().unwrap()]);
    assert_eq!(gone.status.code(), Some(1));
}

#[test]
fn an_interface_that_comes_back_is_taken_up_again() {
    let Some(lab) = Lab::new() else { return };
    let (a, _b) = (lab.agent("a", T), lab.agent("b", T));
    lab.says("a", "ip link del eth0");
    until("is it missed", || a.status()["interfaces"][0]["present"] == false);
    lab.cable();
    until("is it taken up", || a.status()["problems"].to_string().contains("taking it up"));
    std::thread::sleep(Duration::from_millis(1100));
    assert!(lab.transfer("10.9.0.2", 1_000_000));
    until("are there delays", || a.path("10.9.0.2")["or_acks"].as_u64() > Some(0));
}

/// The receiver's OR-ACKs, taken in by a plain socket: the kernel's own checks of IP and UDP
/// pass, and every field says what it should.
#[test]
fn or_acks_are_valid_datagrams() {
    let Some(lab) = Lab::new() else { return };
    let _b = lab.agent("b", T);
    for (us, peer) in [("10.9.0.1", "10.9.0.2"), ("fd09::1", "fd09::2")] {
        let [us, peer]: [IpAddr; 2] = [us, peer].map(|a| a.parse().unwrap());
        let or_acks = lab.on("a", move || UdpSocket::bind((us, 9471)).unwrap());
        or_acks.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let listener = lab.on("b", move || TcpListener::bind((peer, 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        let before = onrampd::clock::now();
        let local = lab.on("a", move || {
            let mut stream = TcpStream::connect((peer, port)).unwrap();
            std::io::Write::write_all(&mut stream, b"a burst").unwrap();
            stream.local_addr().unwrap()
        });
        let mut buffer = [0; MAX_LEN + 1];
        let (length, from) = or_acks.recv_from(&mut buffer).unwrap();
        let ack = OrAck::decode(&buffer[..length]).unwrap();
        assert_eq!((from.ip(), from.port()), (peer, 9471));
        assert_eq!((ack.source_port, ack.destination_port, ack.protocol), (local.port(), port, 6));
        assert_eq!(ack.tag, ack.expected_tag(&KEY_BYTES));
        assert!((before..onrampd::clock::now()).contains(&ack.received_at));
        let addresses = match (us, peer) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Addresses::V4 { source, destination },
            (IpAddr::V6(source), IpAddr::V6(destination)) => Addresses::V6 { source, destination },
            _ => unreachable!(),
        };
        assert_eq!(ack.addresses, addresses);
    }
}

#[test]
fn forged_or_acks_are_counted_and_change_nothing() {
    let Some(lab) = Lab::new() else { return };
    let a = lab.agent("a", T);
    assert!(lab.transfer("10.9.0.2", 100_000), "to a host that does not answer");
    let forger = lab.on("b", || UdpSocket::bind("10.9.0.2:9471").unwrap());
    let addresses = Addresses::V4 { source: [10, 9, 0, 1].into(), destination: [10, 9, 0, 2].into() };
    let ack = OrAck {
        addresses,
        source_port: 1,
        destination_port: 2,
        protocol: 6,
        sequence: 3,
        received_at: u64::MAX,
        tag: 4,
    };
    for _ in 0..10 {
        forger.send_to(ack.encode(&mut [0; MAX_LEN]), "10.9.0.1:9471").unwrap();
        forger.send_to(b"nonsense", "10.9.0.1:9471").unwrap();
    }
    until("are they counted", || a.counter("or_acks_bad_tag") == 10 && a.counter("or_acks_malformed") == 10);
    assert_eq!(a.path("10.9.0.2")["owd"], serde_json::Value::Null);
    assert_eq!(a.status()["flows"]["pauses"], 0);

    // A million of them between two that do answer, whose transfers go on.
    const MILLION: u64 = 1_000_000;
    let b = lab.agent("b", T);
    let probe = OrProbe { kind: Kind::Probe, pair: 1, second: false, sent: 5, received: 0, returned: 0, tag: 6 };
    let before = a.counter("or_acks_bad_tag") + a.counter("or_acks_malformed");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0..MILLION {
                let forged = OrAck { sequence: n as u32, received_at: clock::now(), ..ack };
                let sent = match n % 3 {
                    0 => forger.send_to(forged.encode(&mut [0; MAX_LEN]), "10.9.0.1:9471"),
                    1 => forger.send_to(&probe.encode(), "10.9.0.1:9471"),
                    _ => forger.send_to(&n.to_be_bytes(), "10.9.0.1:9471"),
                };
                sent.unwrap();
            }
        });
        for _ in 0..5 {
            assert!(lab.transfer("10.9.0.2", 1_000_000));
        }
    });
    let refused =
        || a.counter("or_acks_bad_tag") + a.counter("or_acks_malformed") + a.counter("probes_refused") - before;
    // Where the kernel had no room for them they did not come.
    until("are they counted", || refused() > MILLION / 2);
    assert!(refused() <= MILLION);
    until("are all true ones taken", || {
        let taken = ["or_acks_received", "or_acks_ambiguous", "or_acks_no_stamp"].map(|name| a.counter(name));
        taken.iter().sum::<u64>() == b.counter("or_acks_sent")
    });
    assert_eq!(a.counter("probes_answered"), 0);
}

#[test]
fn three_capabilities_are_enough() {
    let Some(lab) = Lab::new() else { return };
    // All is the agent's own, and where another user may come to it.
    let nobody = "65534";
    let (program, config) = (lab.file("onrampd"), lab.configure("a", T));
    fs::copy(env!("CARGO_BIN_EXE_onrampd"), &program).unwrap();
    for path in [&lab.folder, &lab.file("key"), &program, &config] {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
    }
    let capabilities = "-all,+bpf,+net_admin,+perfmon";
    let mut command = lab.command("a", "setpriv");
    command.args([format!("--reuid={nobody}"), format!("--regid={nobody}"), "--clear-groups".into()]);
    for set in ["inh-caps", "ambient-caps", "bounding-set"] {
        command.arg(format!("--{set}={capabilities}"));
    }
    command.arg(program).args(["run", "--config"]).arg(config);
    let (a, _b) = (lab.start("a", command), lab.agent("b", T));
    assert!(lab.transfer("10.9.0.2", 1_000_000));
    until("are there delays", || a.path("10.9.0.2")["or_acks"].as_u64() > Some(0));
    // CAP_NET_ADMIN, CAP_PERFMON, CAP_BPF; none where requests are read.
    let threads = a.threads();
    let of = |name: &str| threads.iter().find(|(thread, _)| thread == name).map(|(_, capabilities)| *capabilities);
    assert_eq!((of("onrampd"), of("status")), (Some(1 << 12 | 1 << 38 | 1 << 39), Some(0)), "{threads:?}");
    assert!(a.end());
    assert_eq!(traces(&lab, "a"), "");
}

#[test]
fn the_doctor_names_what_is_missing_and_changes_nothing() {
    let Some(lab) = Lab::new() else { return };
    let config = lab.configure("a", T);
    let doctor = |config: &Path| {
        let mut command = lab.command("a", env!("CARGO_BIN_EXE_onrampd"));
        let output = command.args(["doctor", "--json", "--config"]).arg(config).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(output.status.success(), report["ok"].as_bool().unwrap());
        report
    };
    let named = |report: &serde_json::Value, name: &str| {
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|c| c["name"] == name).unwrap_or_else(|| panic!("{name}: {report}")).clone()
    };
    let report = doctor(&config);
    assert_eq!(report["ok"], true, "{report}");
    for name in [
        "kernel",
        "privileges",
        "BTF",
        "eBPF",
        "JIT",
        "hooks",
        "gate",
        "clock",
        "eth0",
        "eth0 qdisc",
        "eth0 offloads",
        "eth0 others",
    ] {
        named(&report, name);
    }
    assert_eq!(named(&report, "eth0 others")["state"], "ok");
    assert_eq!(traces(&lab, "a"), "");

    // A tunnel, where the kernel has such.
    let vxlan = "link add overlay type vxlan id 7 dstport 4789 dev eth0";
    let made = std::process::Command::new("ip").args(["-n", &lab.host("a")]).args(vxlan.split(' ')).output().unwrap();
    if made.status.success() {
        let found = named(&doctor(&config), "tunnels");
        assert!(found["state"] == "warn" && found["found"].to_string().contains("overlay (VXLAN)"), "{found}");
    }

    // Another's filter, an interface that is down, another that is absent.
    let a = lab.agent("a", &format!("{T}\nattach = \"clsact\""));
    assert_eq!(named(&doctor(&config), "eth0 others")["state"], "ok", "our own is none");
    lab.says("a", "tc filter add dev eth0 egress pref 5 protocol ip u32 match u32 0 0");
    let others = named(&doctor(&config), "eth0 others");
    assert!(others["state"] == "warn" && others["found"].to_string().contains("egress filter u32"), "{others}");
    assert!(a.end());
    let left = lab.says("a", "tc filter show dev eth0 egress");
    assert!(left.contains("u32"), "it is not ours to remove: {left}");

    lab.says("a", "ip link set eth0 down");
    assert_eq!(named(&doctor(&config), "eth0")["state"], "warn");
    fs::write(&config, "interface = \"eth7\"\nthreshold = \"1us\"").unwrap();
    let report = doctor(&config);
    assert_eq!((&report["ok"], &named(&report, "eth7")["state"]), (&false.into(), &"fail".into()));
    fs::write(&config, "interface = 7").unwrap();
    assert_eq!(doctor(&config)["ok"], false);
}

#[test]
fn switched_off_an_agent_says_so_until_it_is_switched_on_again() {
    let Some(lab) = Lab::new() else { return };
    let state = lab.file("a");
    let say = |what: &str| {
        let mut command = lab.command("a", env!("CARGO_BIN_EXE_onrampd"));
        let said = command.args([what, "--state-dir"]).arg(&state).output().unwrap();
        assert!(said.status.success(), "{said:?}");
        String::from_utf8(said.stdout).unwrap()
    };
    let told = |a: &Agent| a.status()["problems"].to_string().contains("`onrampd off` was said");
    let more = format!("{T}\nmode = \"enforce\"");
    // Before there is an agent.
    say("off");
    let a = lab.agent("a", &more);
    assert!(told(&a) && a.status()["mode"] == "observe");
    assert_eq!(say("on"), "switched on\n");
    until("is it on again", || !told(&a));
    assert!(say("on").contains("was not"));
    say("off");
    until("is it told", || told(&a));
    assert!(lab.log("a").contains("`onrampd off` was said"));
    assert!(lab.transfer("10.9.0.2", 1_000_000));
    // It outlives the agent, and what the agent takes away.
    assert!(a.end());
    assert_eq!(traces(&lab, "a"), "");
    let a = lab.agent("a", &more);
    assert!(told(&a));
    say("on");
    until("is it on again", || !told(&a));
    assert!(a.end());

    let program = lab.file("onrampd");
    fs::copy(env!("CARGO_BIN_EXE_onrampd"), &program).unwrap();
    let mut command = std::process::Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    let refused = command.args(["off", "--state-dir"]).arg(&state).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert!(!refused.status.success() && said.contains("a.off: Permission denied"), "{said}");
}

/// Sends data from "a" to a port of "b"; by a process in a cgroup, if one is given.
fn send_to(lab: &Lab, port: u16, cgroup: Option<&Path>) {
    let listener = lab.on("b", move || TcpListener::bind(("10.9.0.2", port)).unwrap());
    let enter = cgroup.map_or(String::new(), |path| format!("echo 0 >{}/cgroup.procs && ", path.display()));
    let send = format!("head -c 3000000 /dev/zero >/dev/tcp/10.9.0.2/{port}");
    let send = format!("{enter}exec ip netns exec {} bash -c '{send}'", lab.host("a"));
    let mut sender = std::process::Command::new("bash").args(["-c", &send]).spawn().unwrap();
    std::io::copy(&mut listener.accept().unwrap().0, &mut std::io::sink()).unwrap();
    assert!(sender.wait().unwrap().success());
}

#[test]
fn a_recording_counts_no_probes_and_leaves_no_file_where_there_is_no_room() {
    let Some(lab) = Lab::new() else { return };
    let (_a, b) = (lab.agent("a", T), lab.agent("b", T));
    let record = |out: &Path, more: &str| {
        let run = format!(
            "{more} {} record --config {} --out {} --for 3s",
            common::lab::client().display(),
            lab.file("b.toml").display(),
            out.display()
        );
        lab.command("b", "sh").args(["-c", &run]).output().unwrap()
    };
    let recorded = std::thread::scope(|scope| {
        let recording = scope.spawn(|| record(&lab.file("recording.csv"), ""));
        until("does it record", || {
            fs::read_to_string(lab.file("recording.csv")).is_ok_and(|text| text.contains("source,"))
        });
        assert!(lab.transfer("10.9.0.2", 2_000_000));
        lab.on("b", || {
            let socket = UdpSocket::bind("10.9.0.2:0").unwrap();
            (0..3).for_each(|_| assert!(socket.send_to(b"other", "10.9.0.1:7777").is_ok()));
        });
        recording.join().unwrap()
    });
    let said = String::from_utf8(recorded.stdout).unwrap();
    assert!(said.contains(" 3 packets of UDP not recorded"), "{said}{}", String::from_utf8_lossy(&recorded.stderr));
    assert!(b.counter("or_acks_sent") > 3);
    let full = lab.file("full");
    fs::create_dir(&full).unwrap();
    let fill = format!(
        "mount -t tmpfs -o size=4k none {0} && dd if=/dev/zero of={0}/fill bs=4k count=1 && ls {0} &&",
        full.display()
    );
    let refused = record(&full.join("recording.csv"), &format!("trap 'ls {}' EXIT; {fill}", full.display()));
    assert_eq!(String::from_utf8_lossy(&refused.stdout), "fill\nfill\n", "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("recording.csv: No space left on device"), "{refused:?}");
}

#[test]
fn a_slow_receiver_records_writes_and_not_packets() {
    let Some(lab) = Lab::new() else { return };
    // A packet each 120 µs.
    lab.says("a", "tc qdisc add dev eth0 root tbf rate 100mbit burst 1600 latency 1s");
    let out = lab.file("recording.csv");
    let mut record = lab.command("b", &common::lab::client().to_string_lossy());
    record.args(["record", "--interface", "eth0", "--for", "3s", "--config", "absent", "--out"]).arg(&out);
    let said = std::thread::scope(|scope| {
        let recording = scope.spawn(|| record.output().unwrap());
        until("does it record", || fs::read_to_string(&out).is_ok_and(|text| text.contains("source,")));
        assert!(lab.transfer("10.9.0.2", 4_000_000));
        String::from_utf8(recording.join().unwrap().stdout).unwrap()
    });
    let text = fs::read_to_string(&out).unwrap();
    let rows = text.lines().filter(|line| line.ends_with(",came")).count();
    assert!((1..20).contains(&rows), "{rows} of some 2,760 packets: {said}");
    assert!(said.contains(&format!("{} bytes)", text.len())), "{said}");
}

#[test]
fn rules_say_what_is_held_and_count_it() {
    let Some(lab) = Lab::new() else { return };
    // Delays look long: b's clock is wrong, and trusted.
    let wrong = format!("{T}\nclock_uncertainty = \"1s\"\nmax_share = 1");
    let bulk = "[[scope]]\nname = \"bulk\"\nhold = false\nport = 7101\n";
    let name = format!("onramp-{}", lab.host("a"));
    let backup = format!("[[scope]]\nname = \"backup\"\nhold = false\ncgroup = \"/{name}/unit\"\n");
    let mut command = lab.command("a", "sh");
    // `ip netns exec` has another /sys.
    let run =
        "[ -e /sys/fs/cgroup/cgroup.procs ] || mount -t cgroup2 cgroup /sys/fs/cgroup; exec \"$0\" run --config \"$1\"";
    let config = lab.configure("a", &format!("{wrong}\n{backup}{bulk}"));
    command.args(["-c", run, env!("CARGO_BIN_EXE_onrampd")]).arg(config);
    let a = lab.start("a", command);
    let _b = lab.agent("b", &format!("{wrong}\n[test]\nclock_offset = \"20ms\""));
    let row = |name: &str| {
        let status = a.status();
        let rows = status["scope"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("{status}")).clone()
    };
    let count = |name: &str, key: &str| row(name)[key].as_u64().unwrap();
    send_to(&lab, 7101, None);
    send_to(&lab, 7102, None);
    assert!(row("backup")["absent"] == true && count("backup", "packets") == 0);
    for name in ["bulk", "none"] {
        let row = row(name);
        // TCP may have sent some of it twice.
        assert!(row["bytes"].as_u64() >= Some(3_000_000) && row["paused"].as_u64() > Some(0), "{row}");
        assert_eq!(row["hold"], name == "none");
    }
    // What is let go is measured all the same.
    assert!(a.path("10.9.0.2")["or_acks"].as_u64() > Some(10));
    let said = String::from_utf8(onrampctl(&["scope", "--socket", a.socket.to_str().unwrap()]).stdout).unwrap();
    assert!(said.contains("hold = false, port = 7101\n") && said.contains("(there is no such cgroup now)"), "{said}");
    let log = lab.log("a");
    let audit = log.lines().find(|line| line.contains("scope: backup: hold = false, cgroup = ")).expect(&log);
    assert!(audit.contains("a.toml of root, written at 20"), "{audit}");

    let of_bulk = count("bulk", "bytes");

    // Its cgroup comes, goes, and comes anew.
    if let Some(root) = cgroup_root() {
        let unit = root.join(&name).join("unit");
        let below = unit.join("below");
        for times in 1..=2 {
            fs::create_dir_all(&below).unwrap();
            until("is it there", || row("backup")["absent"] == false);
            send_to(&lab, 7101, Some(&below));
            assert!(count("backup", "bytes") >= times * 3_000_000);
            until("has the sender gone", || fs::remove_dir(&below).is_ok());
            fs::remove_dir(&unit).unwrap();
            until("is it gone", || row("backup")["absent"] == true);
        }
        fs::remove_dir(root.join(&name)).unwrap();
        assert_eq!(count("bulk", "bytes"), of_bulk);
    }

    // Other rules, while traffic flows: flows and counts stay.
    let flows = a.status()["flows"]["count"].as_u64();
    lab.configure("a", &format!("{wrong}\n{bulk}[[scope]]\nhold = false\ndscp = \"cs1\""));
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| lab.transfer("10.9.0.2", 50_000_000));
        a.signal(Signal::HUP);
        until("is it reloaded", || a.status()["scope"][1]["name"] == "2");
        assert!(sending.join().unwrap());
    });
    assert_eq!(count("bulk", "bytes"), of_bulk);
    assert!(a.status()["flows"]["count"].as_u64() >= flows);
    assert!(lab.log("a").contains("scope: bulk: hold = false, port = 7101; 2: hold = false, dscp = \"cs1\"; what"));

    // A dry run.
    let file = lab.file("other.toml");
    fs::write(&file, "[[scope]]\nname = \"web\"\nhold = true\nport = [7102, 7103]\n[[scope]]\nhold = false\n").unwrap();
    let dry_run = |more: &[&str]| {
        let socket = a.socket.to_str().unwrap();
        let file = file.to_str().unwrap();
        onrampctl(&[&["scope", "--socket", socket, "--for", "3s", "--dry-run", file][..], more].concat())
    };
    let (counted, other) = std::thread::scope(|scope| {
        let counted = scope.spawn(|| dry_run(&["--json"]));
        let again = scope.spawn(|| dry_run(&[]));
        std::thread::sleep(Duration::from_millis(500));
        send_to(&lab, 7103, None);
        send_to(&lab, 7104, None);
        (counted.join().unwrap(), String::from_utf8(again.join().unwrap().stdout).unwrap())
    });
    let counted: serde_json::Value = serde_json::from_slice(&counted.stdout).unwrap();
    for (i, name) in ["web", "2"].iter().enumerate() {
        let row = &counted["scope"][i];
        assert!(
            row["name"] == *name && row["bytes"].as_u64() >= Some(3_000_000) && row["paused"].as_u64() > Some(0),
            "{counted}"
        );
    }
    assert_eq!((&counted["mode"], &counted["scope"][2]["packets"]), (&"observe".into(), &0.into()));
    assert!(other.starts_with("in 3.00 s, on an agent that observes:\n") && other.contains("\nand let go "), "{other}");
    fs::write(&file, "[[scope]]\nhold = 1\n").unwrap();
    let refused = dry_run(&[]);
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        said.ends_with("other.toml:2: scope[0].hold: 1 is not true or false\n") && said.matches('\n').count() == 1,
        "{said}"
    );

    lab.configure("a", &wrong);
    a.signal(Signal::HUP);
    until("are there no rules", || a.status()["scope"] == serde_json::json!([]));
    assert!(a.end());
    assert_eq!(traces(&lab, "a"), "");
}
