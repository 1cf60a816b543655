//! The eBPF programs, fed packet by packet through `BPF_PROG_TEST_RUN`: verifier and JIT are
//! this machine's.

mod common;

use common::packet::{ACK, PSH_ACK, TCP, UDP, ethernet, ip, or_ack, probe, probe_in, tcp, udp};
use common::{cgroup_root, privileged};
use onramp_core::orack::{Addresses, OrAck};
use onramp_core::orprobe::{Kind, OrProbe};
use onrampd::abi::{self, or_config, or_counter};
use onrampd::clock::now;
use onrampd::config::{Config, Key, Keys, Mode, Peer, load};
use onrampd::datapath::{Alive, Datapath, Program, Step};
use onrampd::scope::{self, Cgroup, Dscp, Item as _, List, Network, Packet, Ports, Protocol, Rule, cgroups};
use proptest::prelude::*;
use proptest::test_runner::{Config as Runs, TestRunner};
use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::time::Duration;

const US: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));
const US6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
const PEER6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));
const KEY: [u8; 16] = [7; 16];
const MS: u64 = 1_000_000;

/// TC's "as if I were not here", and "drop".
const NEXT: u32 = u32::MAX;
const DROP: u32 = 2;
const REDIRECT: u32 = 7;

struct Host {
    datapath: Datapath,
    alive: Alive,
    told: or_config,
    before: Vec<u64>,
}

impl Host {
    /// The programs; `None` where they cannot be loaded, see [`privileged`].
    fn new(mode: Mode) -> Option<Self> {
        Self::with(mode, |_| {})
    }

    fn with(mode: Mode, change: impl FnOnce(&mut Config)) -> Option<Self> {
        if !privileged() {
            return None;
        }
        let text = "interface = \"eth0\"\nthreshold = \"50us\"\nmax_pause = \"500ms\"\nidle = \"10s\"";
        let mut config = load(text, "test", Path::new("")).unwrap();
        config.mode = mode;
        config.peers = [PEER, PEER6, US, US6].map(peer).into();
        change(&mut config);
        let mut datapath = Datapath::load(1024, 1024, &[]).unwrap();
        datapath.set_peers(&config.peers).unwrap();
        let told = config.for_programs(0, config.own_clock(), config.test_clock(0));
        datapath.set_config(&told).unwrap();
        let mut alive = datapath.take_alive().unwrap();
        alive.until(u64::MAX).unwrap();
        let before = datapath.counters().unwrap();
        Some(Self { datapath, alive, told, before })
    }

    fn run(&mut self, program: Program, packet: &[u8]) -> u32 {
        let (verdict, after) = self.datapath.test_run(program, packet).unwrap();
        assert_eq!(after, packet, "packets are never changed");
        verdict
    }

    /// Has the path's least delay be the least for long.
    fn settle(&mut self, address: IpAddr) {
        self.datapath.change_path(address, |path| path.least_since = 0).unwrap();
    }

    /// The counters that changed since this was last asked.
    fn counted(&mut self) -> Vec<(or_counter, u64)> {
        let after = self.datapath.counters().unwrap();
        let changed = |i: or_counter| (i, after[i as usize] - self.before[i as usize]);
        let found = (0..abi::OR_COUNTERS).map(changed).filter(|(_, n)| *n > 0).collect();
        self.before = after;
        found
    }
}

fn peer(address: IpAddr) -> Peer {
    // Delays here are of our choice.
    Peer::new(address, Key(KEY), Some(0), 10_000 * MS)
}

fn data(seq: u32, flags: u8, payload: usize) -> Vec<u8> {
    ip(US, PEER, TCP, &tcp(1000, 80, seq, flags, &vec![0; payload]))
}

fn ack(seq: u32, received_at: u64) -> OrAck {
    let none = Addresses::V4 { source: Ipv4Addr::UNSPECIFIED, destination: Ipv4Addr::UNSPECIFIED };
    OrAck {
        addresses: none,
        source_port: 1000,
        destination_port: 80,
        protocol: TCP,
        sequence: seq,
        received_at,
        tag: 0,
    }
}

#[test]
fn a_flow_is_held_once_its_or_ack_says_so() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    // 100 bytes that end a burst: the last one is OR-ACKed.
    assert_eq!(host.run(Program::Gate, &data(5, PSH_ACK, 100)), 0);
    assert_eq!(host.counted(), [(abi::OR_SENT, 1), (abi::OR_SENT_BYTES, 100), (abi::OR_STAMPED, 1)]);

    // Received 200 ms after it left: β is 1/4 and nothing was held, so 200 ms less T to go.
    let acked = or_ack(US, PEER, &KEY, ack(104, now() + 200 * MS));
    assert_eq!(host.run(Program::Ingress, &acked), DROP, "an OR-ACK ends here");
    assert_eq!(host.counted(), [(abi::OR_ACKS_RECEIVED, 1)]);
    let path = host.datapath.paths().unwrap().into_iter().find(|(peer, _)| *peer == PEER).unwrap().1;
    assert!((200 * MS as i64..400 * MS as i64).contains(&path.owd), "{}", path.owd);
    assert_eq!((path.or_acks, path.owd, path.owd), (1, path.least, path.owd_sum));

    let wait = u64::from(host.run(Program::Gate, &data(105, ACK, 100)));
    assert!((1..400 * MS).contains(&wait), "{wait}");
    assert_eq!(host.run(Program::Gate, &data(105, ACK, 0)), 0, "an ACK is not held");
    assert_eq!(host.run(Program::Gate, &ip(US, STRANGER, TCP, &tcp(1000, 80, 1, ACK, &[0; 9]))), 0);
    assert_eq!(host.counted(), [(abi::OR_HELD, 1)]);
    // Asked again, it is the same pause.
    assert!(host.run(Program::Gate, &data(105, ACK, 100)) > 0);
    assert_eq!(host.counted(), []);

    std::thread::sleep(std::time::Duration::from_nanos(wait));
    assert_eq!(host.run(Program::Gate, &data(105, ACK, 100)), 0);
    let (_, flow) = host.datapath.flows().next().unwrap();
    assert_eq!((flow.pauses, flow.or_acks, flow.bytes, flow.held_since), (1, 1, 200, 0));
    assert!(flow.held >= wait, "{} < {wait}", flow.held);
}

#[test]
fn maps_of_other_programs_take_the_place_of_new_ones_if_they_are_like_them() {
    let Some(mut first) = Host::new(Mode::Enforce) else { return };
    first.run(Program::Gate, &data(5, PSH_ACK, 100));
    let mut shared = first.datapath.shared().unwrap();
    let second = Datapath::load(1024, 1024, &shared).unwrap();
    assert_eq!(second.counters().unwrap(), first.datapath.counters().unwrap());
    assert_eq!(second.flows().map(|(_, flow)| flow.bytes).collect::<Vec<_>>(), [100]);
    first.run(Program::Gate, &data(105, PSH_ACK, 100));
    assert_eq!(second.flows().map(|(_, flow)| flow.bytes).collect::<Vec<_>>(), [200]);

    let (flows, paths) = ("flows", "paths");
    shared.iter_mut().filter(|one| one.name == flows).for_each(|one| one.name = paths.into());
    let third = Datapath::load(1024, 1024, &shared).unwrap();
    assert_eq!(third.flows().count(), 0);
    assert_eq!(third.counters().unwrap(), first.datapath.counters().unwrap());
}

#[test]
fn a_new_flow_starts_with_what_its_path_knows() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    host.run(Program::Gate, &data(0, PSH_ACK, 1));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(0, now() + 400 * MS)));
    let other = ip(US, PEER, TCP, &tcp(1001, 80, 0, PSH_ACK, b"x"));
    assert!(host.run(Program::Gate, &other) > 0);
}

#[test]
fn what_keeps_time_names_and_links_going_is_never_held() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    host.run(Program::Gate, &data(5, PSH_ACK, 100));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(104, now() + 200 * MS)));
    host.counted();
    for port in [53, 123, 319, 320, 3784, 3785, 4784] {
        for (sport, dport) in [(40_000, port), (port, 40_000)] {
            assert_eq!(host.run(Program::Gate, &ip(US, PEER, UDP, &udp(sport, dport, &[0; 200]))), 0, "{port}");
        }
    }
    assert_eq!(host.counted(), []);
    assert!(host.run(Program::Gate, &ip(US, PEER, UDP, &udp(40_000, 4_433, &[0; 200]))) > 0, "QUIC is");
}

#[test]
fn observing_holds_nothing_but_counts_what_would_be_held() {
    let Some(mut host) = Host::new(Mode::Observe) else { return };
    assert_eq!(host.run(Program::Egress, &data(0, PSH_ACK, 1)), NEXT);
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(0, now() + 200 * MS)));
    host.counted();
    assert_eq!(host.run(Program::Egress, &data(1, PSH_ACK, 1)), NEXT);
    assert_eq!(host.run(Program::Gate, &data(2, PSH_ACK, 1)), 0, "nor does a gate that is still there");
    let counted = host.counted();
    assert!(counted.contains(&(abi::OR_HELD, 1)) && counted.contains(&(abi::OR_SENT, 2)), "{counted:?}");
}

#[test]
fn without_its_agent_nothing_is_done() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    let config = load("interface = \"eth0\"\nthreshold = \"1us\"", "test", Path::new("")).unwrap();
    host.datapath.set_config(&config.for_programs(0, config.own_clock(), config.test_clock(0))).unwrap();
    host.alive.until(now() - 1).unwrap();
    assert_eq!(host.run(Program::Gate, &data(0, PSH_ACK, 100)), 0);
    assert_eq!(host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(0, 0))), NEXT);
    assert_eq!(host.counted(), []);
}

#[test]
fn sender_stamps_every_multiple_of_the_interval_and_the_end_of_a_burst() {
    let Some(mut host) = Host::new(Mode::Observe) else { return };
    let mut stamps = |seq: u32, flags, payload| {
        host.run(Program::Egress, &data(seq, flags, payload));
        host.counted().iter().find(|(c, _)| *c == abi::OR_STAMPED).map_or(0, |(_, n)| *n)
    };
    assert_eq!(stamps(1, ACK, 1448), 0);
    assert_eq!(stamps(1, PSH_ACK, 1448), 1);
    assert_eq!(stamps(16_384 - 100, ACK, 100), 0, "the multiple is the next packet's first byte");
    assert_eq!(stamps(16_384 - 100, ACK, 101), 1);
    assert_eq!(stamps(16_384, ACK, 1448), 1);
    assert_eq!(stamps(u32::MAX, ACK, 2), 1, "0 is a multiple, too");
    assert_eq!(stamps(u32::MAX, PSH_ACK, 1), 1);
}

/// The OR-ACK for joined packets is made of the ACK that follows; if none follows, of the next ones.
#[test]
fn joined_packets_wait_for_tcps_own_ack() {
    let Some(mut host) = Host::with(Mode::Enforce, |c| c.or_ack_gap = 0) else { return };
    let joined = |host: &mut Host, seq: u32| {
        let packet = ip(PEER, US, TCP, &tcp(1, 80, seq, PSH_ACK, &[0; 3000]));
        assert_eq!(host.datapath.test_run_joined(Program::Ingress, &packet, 3).unwrap(), NEXT);
        host.counted()
    };
    let reply = |host: &mut Host, from: u16, to: u16| {
        assert_eq!(host.run(Program::Reply, &ip(US, PEER, TCP, &tcp(from, to, 7, ACK, &[]))), NEXT);
        host.counted()
    };
    // There is no device that would send them.
    let (now, with_reply) = ((abi::OR_ACKS_FAILED, 1), (abi::OR_ACKS_WITH_REPLY, 1));
    let chosen = (abi::OR_RECEIVED, 1);
    assert_eq!(joined(&mut host, 1), [chosen]);
    assert_eq!(reply(&mut host, 80, 2), [], "another flow's");
    assert_eq!(reply(&mut host, 80, 1), [with_reply, now]);
    assert_eq!(reply(&mut host, 80, 1), [], "it is said once");
    assert_eq!(joined(&mut host, 3001), [chosen]);
    assert_eq!(joined(&mut host, 6001), [chosen, now], "no ACK has come");
    assert_eq!(reply(&mut host, 80, 1), []);
    assert_eq!(joined(&mut host, 9001), [chosen]);
    host.alive.until(0).unwrap();
    assert_eq!(reply(&mut host, 80, 1), [], "without an agent");
}

#[test]
fn a_flow_that_has_just_heard_is_not_told_again() {
    if !privileged() {
        return;
    }
    let acks = |gap: u64, packets: &[(u16, u32, u8)]| -> Vec<u64> {
        let mut host = Host::with(Mode::Observe, |c| c.or_ack_gap = gap).unwrap();
        let mut ack = |&(port, seq, flags): &(u16, u32, u8)| {
            host.run(Program::Ingress, &ip(PEER, US, TCP, &tcp(port, 80, seq, flags, &[0; 100])));
            // There is no device that would send them.
            host.counted().iter().find(|(c, _)| *c == abi::OR_ACKS_FAILED).map_or(0, |(_, n)| *n)
        };
        packets.iter().map(&mut ack).collect()
    };
    let multiple = 16_384;
    let packets = [
        (1, 1, ACK),
        (1, 101, PSH_ACK),
        (1, 201, PSH_ACK),
        (2, 1, PSH_ACK),
        (1, multiple, ACK),
        (1, 2 * multiple, PSH_ACK),
        (2, 101, PSH_ACK),
    ];
    assert_eq!(acks(u64::MAX, &packets), [0, 1, 0, 1, 0, 0, 0]);
    assert_eq!(acks(0, &packets), [0, 1, 1, 1, 1, 1, 1]);
}

#[test]
fn each_chosen_byte_of_a_segment_left_at_its_own_time() {
    // A byte in 8 µs.
    let Some(mut host) = Host::with(Mode::Observe, |c| {
        c.interval_shift = 10;
        c.line_rate = Some(1_000_000);
    }) else {
        return;
    };
    host.run(Program::Egress, &data(1, PSH_ACK, 3000));
    assert!(host.counted().contains(&(abi::OR_STAMPED, 3)));
    let received_at = now() + 100 * MS;
    let mut owd = |seq| {
        host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(seq, received_at)));
        assert_eq!(host.counted(), [(abi::OR_ACKS_RECEIVED, 1)], "{seq}");
        host.datapath.paths().unwrap().into_iter().find(|(peer, _)| *peer == PEER).unwrap().1.owd
    };
    let [last, first, second] = [3000, 1024, 2048].map(&mut owd);
    assert_eq!((first - second, second - last), (1024 * 8_000, 952 * 8_000));
}

#[test]
fn or_acks_that_are_not_true_change_nothing() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    host.run(Program::Gate, &data(0, PSH_ACK, 1));
    host.counted();
    let late = now() + 300 * MS;
    let good = or_ack(US, PEER, &KEY, ack(0, late));
    let payload_at = 14 + 20 + 8;
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[payload_at + at] = byte;
        bad
    };
    let short = {
        let short = &good[payload_at..good.len() - 1];
        ip(PEER, US, UDP, &udp(9471, 9471, short))
    };
    let long = ip(PEER, US, UDP, &udp(9471, 9471, &[&good[payload_at..], &[0; 24]].concat()));
    let elsewhere = ip(US6, PEER6, UDP, &udp(9471, 9471, &good[payload_at..]));
    let cases: &[(&str, Vec<u8>, or_counter)] = &[
        ("version 2", with(0, 0x24), abi::OR_ACKS_MALFORMED),
        ("family 5", with(0, 0x15), abi::OR_ACKS_MALFORMED),
        ("family 6 in 36 bytes", with(0, 0x16), abi::OR_ACKS_MALFORMED),
        ("too short", short, abi::OR_ACKS_MALFORMED),
        ("too long", long, abi::OR_ACKS_MALFORMED),
        ("empty", ip(PEER, US, UDP, &udp(9471, 9471, &[])), abi::OR_ACKS_MALFORMED),
        ("other time", with(19, good[payload_at + 19] ^ 1), abi::OR_ACKS_BAD_TAG),
        ("other port", with(3, good[payload_at + 3] ^ 1), abi::OR_ACKS_BAD_TAG),
        ("other key", or_ack(US, PEER, &[8; 16], ack(0, late)), abi::OR_ACKS_BAD_TAG),
        ("never sent", or_ack(US, PEER, &KEY, ack(1, late)), abi::OR_ACKS_NO_STAMP),
        ("of another flow", or_ack(US, PEER, &KEY, OrAck { source_port: 1, ..ack(0, late) }), abi::OR_ACKS_NO_STAMP),
        ("from a stranger", or_ack(US, STRANGER, &KEY, ack(0, late)), abi::OR_ACKS_UNKNOWN_PEER),
        ("from another peer", elsewhere, abi::OR_ACKS_NO_STAMP),
    ];
    for (name, packet, counter) in cases {
        // Only a right tag shows that it is ours; else it may be for somebody behind this host.
        let verdict = if *counter == abi::OR_ACKS_NO_STAMP { DROP } else { NEXT };
        assert_eq!(host.run(Program::Ingress, packet), verdict, "{name}");
        assert_eq!(host.counted(), [(*counter, 1)], "{name}");
        assert_eq!(host.run(Program::Gate, &data(1, ACK, 1)), 0, "{name}: nothing is held");
        host.counted();
    }
    assert_eq!(host.run(Program::Ingress, &with(8, 0xff)), DROP, "the scrap does not matter");
    assert_eq!(host.counted(), [(abi::OR_ACKS_RECEIVED, 1)]);
    assert_eq!(host.run(Program::Ingress, &good), DROP);
    assert_eq!(host.counted(), [(abi::OR_ACKS_NO_STAMP, 1)], "the same once more is a replay");
}

#[test]
fn what_was_sent_twice_is_not_measured() {
    let Some(mut host) = Host::new(Mode::Observe) else { return };
    let send = |host: &mut Host, seq| host.run(Program::Egress, &data(seq, PSH_ACK, 100));
    send(&mut host, 0);
    send(&mut host, 100);
    send(&mut host, 0);
    host.counted();
    let mut acked = |seq| {
        host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(seq, now())));
        host.counted()
    };
    // It was for the first or for the second.
    assert_eq!(acked(99), [(abi::OR_ACKS_AMBIGUOUS, 1)]);
    assert_eq!(acked(99), [(abi::OR_ACKS_NO_STAMP, 1)], "the stamp is gone");
    assert_eq!(acked(199), [(abi::OR_ACKS_RECEIVED, 1)]);
}

#[test]
fn a_peer_whose_clock_is_not_known_is_not_measured() {
    let Some(mut host) = Host::with(Mode::Enforce, |c| c.peers[0].clock_offset = None) else { return };
    host.run(Program::Gate, &data(0, PSH_ACK, 1));
    assert_eq!(host.counted(), []);
    assert_eq!(host.datapath.flows().count(), 0);
}

#[test]
fn clocks_are_set_right() {
    // The peer's clock is 1 s ahead of ours, ours 2 s ahead of the kernel's.
    let Some(mut host) = Host::with(Mode::Observe, |c| {
        c.peers[0].clock_offset = Some(1_000 * MS as i64);
        c.test.offset = 2_000 * MS as i64;
    }) else {
        return;
    };
    host.run(Program::Egress, &data(0, PSH_ACK, 1));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(0, now() + 3_000 * MS)));
    let owd = host.datapath.paths().unwrap().into_iter().find(|(peer, _)| *peer == PEER).unwrap().1.owd;
    assert!((0..200 * MS as i64).contains(&owd), "{owd}");
}

#[test]
fn ipv6_and_udp_are_measured_too() {
    let Some(mut host) = Host::new(Mode::Observe) else { return };
    let segment = ip(US6, PEER6, TCP, &tcp(1000, 80, 0, PSH_ACK, b"hello"));
    host.run(Program::Egress, &segment);
    host.run(Program::Ingress, &or_ack(US6, PEER6, &KEY, ack(4, now())));
    assert!(host.counted().contains(&(abi::OR_ACKS_RECEIVED, 1)));

    // About one in eight datagrams is chosen, by what is in it.
    for n in 0..800u32 {
        let payload = [&n.to_be_bytes()[..], &[3; 1196]].concat();
        host.run(Program::Egress, &ip(US, PEER, UDP, &udp(1000, 443, &payload)));
    }
    let stamped = host.counted().iter().find(|(c, _)| *c == abi::OR_STAMPED).map_or(0, |(_, n)| *n);
    assert!((60..140).contains(&stamped), "{stamped} of 800");
}

/// As it comes from `from`: with its tag.
fn tagged(from: IpAddr, to: IpAddr, mut p: OrProbe) -> Vec<u8> {
    p.tag = p.expected_tag(from, to, &KEY);
    probe(from, to, p)
}

#[test]
fn a_probe_gets_all_its_stamps() {
    for (us, peer) in [(US, PEER), (US6, PEER6)] {
        for (program, goes_on) in [(Program::Gate, 0), (Program::Egress, NEXT)] {
            let Some(mut host) = Host::with(Mode::Enforce, |c| c.test.offset = 1_000 * MS as i64) else { return };
            let mut exchanges = host.datapath.take_exchanges().unwrap();
            let times = |after: u64| 1_000 * MS + after..1_000 * MS + now();
            let start = now();
            // It leaves as it is: when, by our uncorrected clock, we are told.
            let ours = OrProbe { pair: 7, second: true, sent: 4, ..OrProbe::default() };
            let (verdict, sent) = host.datapath.test_run(program, &tagged(us, peer, ours)).unwrap();
            assert_eq!((verdict, probe_in(&sent).sent), (goes_on, 4));
            let left = exchanges.take().unwrap();
            assert!(times(start).contains(&left.at), "{left:?}");
            assert_eq!(left, Step { peer, at: left.at, came: false, probe: ours });
            assert_eq!(host.counted(), [(abi::OR_PROBES_SENT, 1)]);
            let passing = probe(us, peer, OrProbe { tag: 1, ..ours });
            assert_eq!(host.run(program, &passing), goes_on, "what has another's tag is no affair of ours");
            assert_eq!((host.counted(), exchanges.take()), (vec![], None));

            // The peer's probe comes in, goes back, and leaves with a tag of ours.
            let theirs = OrProbe { pair: 9, sent: 5, ..OrProbe::default() };
            let (verdict, back) = host.datapath.test_run(Program::Ingress, &tagged(peer, us, theirs)).unwrap();
            assert_eq!(verdict, REDIRECT);
            let turned = probe_in(&back);
            assert!(times(start).contains(&turned.received), "{turned:?}");
            assert_eq!(turned, OrProbe { kind: Kind::Answer, received: turned.received, ..theirs });
            assert_eq!(back[..14], [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &back[12..14]].concat());
            assert_eq!(back[14..], probe(us, peer, turned)[14..], "its addresses are the other way round");
            // The same from a program of this host gets none.
            let (_, own) = host.datapath.test_run(program, &back).unwrap();
            assert_eq!((own == back, host.counted()), (true, vec![]));
            let answer = probe_in(&host.datapath.test_run_turned_back(program, &back).unwrap());
            assert!((turned.received..=1_000 * MS + now()).contains(&answer.returned));
            assert_eq!(answer.tag, answer.expected_tag(us, peer, &KEY));
            assert_eq!(host.counted(), [(abi::OR_PROBES_ANSWERED, 1)]);

            // The answer to ours is reported, and ends here.
            let kind = Kind::Answer;
            let answer = OrProbe { kind, pair: 7, second: true, sent: 4, received: 2, returned: 3, tag: 0 };
            assert_eq!(host.run(Program::Ingress, &tagged(peer, us, answer)), DROP);
            let came = exchanges.take().unwrap();
            assert!(times(start).contains(&came.at));
            assert_eq!(came, Step { peer, at: came.at, came: true, probe: answer });
            assert_eq!(exchanges.take(), None);
            assert_eq!(host.counted(), [(abi::OR_PROBES_RETURNED, 1)]);
        }
    }
}

#[test]
fn where_nothing_can_be_written_into_answers_their_time_follows_them() {
    for (us, peer) in [(US, PEER), (US6, PEER6)] {
        let Some(mut host) = Host::new(Mode::Enforce) else { return };
        let mut exchanges = host.datapath.take_exchanges().unwrap();
        host.told.flags |= abi::OR_FOLLOW_UP as u16;
        host.datapath.set_config(&host.told).unwrap();
        let theirs = OrProbe { pair: 9, sent: 5, ..OrProbe::default() };
        let (_, back) = host.datapath.test_run(Program::Ingress, &tagged(peer, us, theirs)).unwrap();
        let turned = probe_in(&back);
        let expected = OrProbe { tag: turned.expected_tag(us, peer, &KEY), ..turned };
        assert_eq!((turned, turned.kind, turned.returned), (expected, Kind::Answer, 0));
        // It has its tag before it leaves.
        let (_, left) = host.datapath.test_run(Program::Egress, &back).unwrap();
        assert_eq!(probe_in(&left), turned);
        let step = exchanges.take().unwrap();
        assert!((turned.received..=now()).contains(&step.at), "{step:?}");
        assert_eq!(step, Step { peer, at: step.at, came: false, probe: OrProbe { tag: 0, ..turned } });
        assert_eq!(host.counted(), [(abi::OR_PROBES_ANSWERED, 1)]);

        // The follow-up is sent by the agent, and nobody asks when.
        let follow_up = OrProbe { kind: Kind::FollowUp, returned: step.at, ..turned };
        host.run(Program::Egress, &tagged(us, peer, follow_up));
        assert_eq!((exchanges.take(), host.counted()), (None, vec![]));

        // One of the peer's comes in.
        let theirs = tagged(peer, us, follow_up);
        assert_eq!(host.run(Program::Ingress, &theirs), DROP);
        let step = exchanges.take().unwrap();
        assert_eq!(step, Step { peer, at: step.at, came: true, probe: OrProbe { tag: 0, ..follow_up } });
        assert_eq!(host.counted(), []);
    }
}

#[test]
fn probes_that_are_not_true_are_left_to_others() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    let good = tagged(PEER, US, OrProbe { pair: 1, sent: 5, ..OrProbe::default() });
    let payload_at = good.len() - 40;
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[payload_at + at] = byte;
        bad
    };
    let other_key = {
        let mut p = probe_in(&good);
        p.tag = p.expected_tag(PEER, US, &[8; 16]);
        probe(PEER, US, p)
    };
    let ports = ip(PEER, US, UDP, &udp(5000, 9471, &good[payload_at..]));
    let cases: &[(&str, Vec<u8>, or_counter)] = &[
        ("without a tag", probe(PEER, US, OrProbe { pair: 1, sent: 5, ..OrProbe::default() }), abi::OR_PROBES_REFUSED),
        ("other time", with(15, 6), abi::OR_PROBES_REFUSED),
        ("as an answer", with(0, 0x12), abi::OR_PROBES_REFUSED),
        ("as a follow-up", with(0, 0x13), abi::OR_PROBES_REFUSED),
        ("other key", other_key, abi::OR_PROBES_REFUSED),
        ("sent back", probe(US, PEER, probe_in(&good)), abi::OR_PROBES_REFUSED),
        ("from a stranger", probe(STRANGER, US, probe_in(&good)), abi::OR_PROBES_REFUSED),
        ("another version", with(0, 0x21), abi::OR_ACKS_MALFORMED),
        ("third of a pair", with(1, 2), abi::OR_ACKS_MALFORMED),
        ("from another port", ports, abi::OR_ACKS_MALFORMED),
        ("cut", ip(PEER, US, UDP, &udp(9471, 9471, &good[payload_at..good.len() - 1])), abi::OR_ACKS_MALFORMED),
    ];
    for (name, packet, counter) in cases {
        assert_eq!(host.run(Program::Ingress, packet), NEXT, "{name}");
        assert_eq!(host.counted(), [(*counter, 1)], "{name}");
    }
    let stranger = probe(US, STRANGER, OrProbe::default());
    assert_eq!(host.run(Program::Gate, &stranger), 0, "what leaves for a stranger is not stamped");
    assert_eq!(host.counted(), []);
    assert!(host.datapath.take_exchanges().unwrap().take().is_none());
}

#[test]
fn without_a_clock_nothing_is_acknowledged_or_held_but_probes_are_answered() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    let config = load("interface = \"eth0\"\nthreshold = \"50us\"", "test", Path::new("")).unwrap();
    host.run(Program::Gate, &data(0, PSH_ACK, 1));
    host.datapath.set_config(&config.for_programs(0, None, config.test_clock(0))).unwrap();
    host.counted();
    assert_eq!(host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(0, now() + 300 * MS))), DROP);
    assert_eq!(host.run(Program::Gate, &data(1, PSH_ACK, 1)), 0);
    assert_eq!(host.run(Program::Ingress, &ip(PEER, US, TCP, &tcp(80, 1000, 0, PSH_ACK, b"x"))), NEXT);
    assert_eq!(host.counted(), [(abi::OR_ACKS_NO_CLOCK, 1)]);
    let (verdict, _) = host.datapath.test_run(Program::Ingress, &tagged(PEER, US, OrProbe::default())).unwrap();
    assert_eq!(verdict, REDIRECT);
}

#[test]
fn our_clock_is_set_right_by_offset_and_drift() {
    // Our clock gained 1 s and 1000 ppm over the last 100 s: 1.1 s against the fleet's.
    let Some(mut host) = Host::new(Mode::Observe) else { return };
    let mut config = load("interface = \"eth0\"\nthreshold = \"50us\"", "test", Path::new("")).unwrap();
    config.peers = [PEER].map(peer).into();
    let base = now().wrapping_sub(100_000 * MS);
    let clock = abi::or_clock { base, offset: 1_000 * MS as i64, drift: (1 << 32) / 1000 };
    host.datapath.set_config(&config.for_programs(0, Some(clock), config.test_clock(0))).unwrap();
    host.run(Program::Egress, &data(0, PSH_ACK, 1));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(0, now() - 1_100 * MS)));
    let owd = host.datapath.paths().unwrap().into_iter().find(|(peer, _)| *peer == PEER).unwrap().1.owd;
    assert!((-(MS as i64)..200 * MS as i64).contains(&owd), "{owd}");
}

#[test]
fn t_follows_the_path() {
    let Some(mut host) = Host::with(Mode::Enforce, |c| {
        c.auto_threshold = true;
        c.peers[0].uncertainty = 100 * MS;
    }) else {
        return;
    };
    host.run(Program::Gate, &data(0, PSH_ACK, 1));
    // The least delay: T is then 100 ms and some more, so 90 ms are no reason to wait.
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(0, now())));
    host.run(Program::Gate, &data(1, PSH_ACK, 1));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(1, now() + 90 * MS)));
    assert_eq!(host.run(Program::Gate, &data(2, PSH_ACK, 1)), 0);
    std::thread::sleep(Duration::from_millis(200));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(2, now())));
    let wait = u64::from(host.run(Program::Gate, &data(3, PSH_ACK, 1)));
    assert!((1..=500 * MS).contains(&wait), "{wait}");
}

/// The path to the peer.
fn path(host: &Host) -> abi::or_path {
    host.datapath.paths().unwrap().into_iter().find(|(peer, _)| *peer == PEER).unwrap().1
}

#[test]
fn a_delay_is_no_longer_than_the_round_trip_and_no_shorter_than_none() {
    let Some(mut host) = Host::with(Mode::Enforce, |c| c.peers[0].uncertainty = 20 * MS) else { return };
    // Told here at once: what is more than 20 ms off is not true.
    for (seq, told, counter) in [
        (0, 500 * MS as i64, abi::OR_ACKS_TOO_LONG),
        (1, -500 * MS as i64, abi::OR_ACKS_TOO_SHORT),
        (2, 0, abi::OR_ACKS_RECEIVED),
    ] {
        host.run(Program::Gate, &data(seq, PSH_ACK, 1));
        host.counted();
        let ack = ack(seq, now().wrapping_add_signed(told));
        assert_eq!(host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack)), DROP);
        assert_eq!(host.counted(), [(counter, 1)]);
    }
    let refused: u32 = path(&host).windows.iter().map(|w| w.refused).sum();
    assert_eq!((path(&host).or_acks, refused), (1, 2));
    assert_eq!(host.run(Program::Gate, &data(3, PSH_ACK, 1)), 0, "nobody is held for what is not true");
}

#[test]
fn a_delay_below_the_paths_floor_is_believed_once_it_comes_again_and_again() {
    let Some(mut host) = Host::with(Mode::Observe, |c| c.peers[0].uncertainty = 100 * MS) else { return };
    let mut seq = 0;
    let mut learn = |host: &mut Host, told: i64| {
        seq += 1;
        host.run(Program::Egress, &data(seq, PSH_ACK, 1));
        host.counted();
        host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(seq, now().wrapping_add_signed(told))));
        host.counted().iter().any(|(counter, _)| *counter == abi::OR_ACKS_RECEIVED)
    };
    let low = -90 * MS as i64;
    assert!(learn(&mut host, 90 * MS as i64), "new, it is what it is");
    assert!(learn(&mut host, 10 * MS as i64) && learn(&mut host, low), "a queue drains");
    // Years later.
    let renewed = Peer { renewed: 1, ..peer(PEER) };
    host.datapath.set_peers(&[Peer { uncertainty: 100 * MS, ..renewed.clone() }, peer(US)]).unwrap();
    assert!(learn(&mut host, 90 * MS as i64) && path(&host).least > 0, "learnt anew");
    host.settle(PEER);
    assert!(learn(&mut host, 95 * MS as i64));
    for i in 1..abi::OR_SHORTER {
        assert!(!learn(&mut host, low), "the {i}th");
    }
    assert!(learn(&mut host, low) && path(&host).least < 0);
}

#[test]
fn where_holding_is_in_vain_pauses_are_reckoned_and_nothing_is_held() {
    let Some(mut host) = Host::with(Mode::Enforce, |c| c.peers[0].free = true) else { return };
    host.run(Program::Gate, &data(0, PSH_ACK, 1));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(0, now() + 300 * MS)));
    assert_eq!(host.run(Program::Gate, &data(1, PSH_ACK, 1)), 0);
    let held: u64 = path(&host).windows.iter().map(|w| w.held).sum();
    assert!((1..=300 * MS).contains(&held), "{held}");
    host.datapath.set_peers(&[peer(PEER)]).unwrap();
    assert!(host.run(Program::Gate, &data(2, PSH_ACK, 1)) > 0, "held again at once");
}

#[test]
fn while_a_pairs_key_changes_both_count() {
    let other = [8; 16];
    let both = Keys { sign: Key(KEY), accept: Key(other) };
    for (keys, counts) in [(both, true), (Key(KEY).into(), false)] {
        for (key, right) in [(KEY, true), (other, counts), ([9; 16], false)] {
            let Some(mut host) = Host::with(Mode::Enforce, |config| config.peers[0].keys = keys) else { return };
            host.run(Program::Gate, &data(0, PSH_ACK, 1));
            host.counted();
            host.run(Program::Ingress, &or_ack(US, PEER, &key, ack(0, now() + 300 * MS)));
            let counter = if right { abi::OR_ACKS_RECEIVED } else { abi::OR_ACKS_BAD_TAG };
            assert_eq!(host.counted(), [(counter, 1)], "{key:?}");
            let asked = OrProbe { pair: 1, sent: 5, ..OrProbe::default() };
            let tagged = OrProbe { tag: asked.expected_tag(PEER, US, &key), ..asked };
            let verdict = host.datapath.test_run(Program::Ingress, &probe(PEER, US, tagged)).unwrap().0;
            assert_eq!(verdict, if right { REDIRECT } else { NEXT }, "{key:?}");
        }
    }
}

#[test]
fn what_is_no_plain_packet_passes_untouched() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    let plain = data(0, PSH_ACK, 100);
    let with = |at: usize, byte: u8| {
        let mut bytes = plain.clone();
        bytes[at] = byte;
        bytes
    };
    let vlan = [&plain[..12], &[0x81, 0, 0, 5], &plain[12..]].concat();
    let v6 = ip(US6, PEER6, TCP, &tcp(1000, 80, 0, PSH_ACK, b"hello"));
    let mut extended = v6.clone();
    extended[20] = 0; // a hop-by-hop header comes next
    let cases: &[(&str, Vec<u8>)] = &[
        ("first fragment", with(20, 0x20)),
        ("later fragment", with(21, 1)),
        ("IP options", with(14, 0x46)),
        ("IP version 6 in an IPv4 frame", with(14, 0x65)),
        ("longer than the frame", with(16, 0xff)),
        ("shorter than its headers", with(17, 39)),
        ("TCP header too short", with(46, 0x40)),
        ("TCP header longer than the packet", {
            let mut bytes = data(0, PSH_ACK, 1);
            bytes[46] = 0xf0;
            bytes
        }),
        ("another protocol", with(23, 1)),
        ("VLAN tag", vlan),
        ("IPv6 extension header", extended),
        ("VXLAN", ip(US, PEER, UDP, &udp(50_000, 4789, &[8; 100]))),
        ("GENEVE", ip(US, PEER, UDP, &udp(50_000, 6081, &[0; 100]))),
        ("ARP", ethernet(0x0806, &[0; 46])),
        ("nearly nothing", ethernet(0x0800, &[0x45; 20])),
    ];
    for (name, packet) in cases {
        assert_eq!(host.run(Program::Gate, packet), 0, "{name}");
        assert_eq!(host.run(Program::Egress, packet), NEXT, "{name}");
        assert_eq!(host.run(Program::Ingress, packet), NEXT, "{name}");
        assert_eq!(host.counted(), [(abi::OR_UNPARSED, 3)], "{name}");
    }
    for length in 34..plain.len() {
        assert_eq!(host.run(Program::Gate, &plain[..length]), 0, "cut to {length}");
        assert_eq!(host.run(Program::Ingress, &plain[..length]), NEXT, "cut to {length}");
        assert_eq!(host.counted(), [(abi::OR_UNPARSED, 2)], "cut to {length}");
    }
    // What comes after the IP packet is padding.
    assert_eq!(host.run(Program::Gate, &[&plain[..], &[0; 6]].concat()), 0);
    assert!(host.counted().contains(&(abi::OR_SENT_BYTES, 100)));
}

#[test]
fn any_bytes_pass_through_all_programs() {
    let Some(host) = Host::new(Mode::Enforce).map(RefCell::new) else { return };
    let kinds = [
        data(0, PSH_ACK, 60),
        or_ack(US, PEER, &KEY, ack(0, 5)),
        or_ack(US6, PEER6, &KEY, ack(0, 5)),
        tagged(PEER, US, OrProbe::default()),
        tagged(PEER6, US6, OrProbe { kind: Kind::Answer, ..OrProbe::default() }),
    ];
    let strategy = (0..kinds.len(), proptest::collection::vec((0..140usize, any::<u8>()), 0..6), 15..140usize);
    let mut runner = TestRunner::new(Runs { cases: 2000, failure_persistence: None, ..Runs::default() });
    let outcome = runner.run(&strategy, |(kind, changes, length)| {
        let mut packet = kinds[kind].clone();
        packet.resize(length, 0);
        for (at, byte) in changes {
            if let Some(b) = packet.get_mut(at) {
                *b = byte;
            }
        }
        let mut host = host.borrow_mut();
        // Newer kernels refuse to test with less than an IP header.
        if host.datapath.test_run(Program::Gate, &packet).is_err() {
            return Ok(());
        }
        let held = host.run(Program::Gate, &packet);
        prop_assert!(u64::from(held) <= 500 * MS);
        prop_assert_eq!(host.run(Program::Egress, &packet), NEXT);
        let (verdict, _) = host.datapath.test_run(Program::Ingress, &packet).unwrap();
        prop_assert!(verdict == NEXT || verdict == DROP || verdict == REDIRECT);
        prop_assert_eq!(host.run(Program::Acker, &packet), DROP);
        Ok(())
    });
    outcome.unwrap();
}

#[test]
fn every_bucket_of_the_histogram_holds_what_it_says() {
    let Some(mut host) = Host::with(Mode::Observe, |c| c.peers.truncate(1)) else { return };
    // Aim at the middle of each bucket that is wide enough for the time this takes.
    for bucket in 28..60usize {
        let (low, high) =
            (onrampd::status::histogram::lower_bound(bucket), onrampd::status::histogram::lower_bound(bucket + 1));
        let before = host.datapath.paths().unwrap()[0].1;
        host.run(Program::Egress, &data(bucket as u32, PSH_ACK, 1));
        host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(bucket as u32, now() + low)));
        let after = host.datapath.paths().unwrap()[0].1;
        let hit = (0..64).find(|i| after.histogram[*i] > before.histogram[*i]);
        let bounds = onrampd::status::histogram::lower_bound;
        let right = hit.is_some_and(|i| (bounds(i) as i64..bounds(i + 1) as i64).contains(&after.owd));
        assert!(right, "{} ns (meant for {low}..{high}) went to bucket {hit:?}", after.owd);
    }
}

/// A cgroup of its own that this process is in, two below the root; it goes with this.
struct InCgroup(std::path::PathBuf, String);

impl InCgroup {
    /// `None` where there is no such hierarchy, or this process may not be moved.
    fn new() -> Option<Self> {
        let root = cgroup_root()?;
        let before = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        let before = before.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
        let name = format!("onramp{}", std::process::id());
        std::fs::create_dir_all(root.join(&name).join("a")).ok()?;
        let this = Self(root.into(), before);
        std::fs::write(root.join(name).join("a/cgroup.procs"), "0").ok()?;
        Some(this)
    }

    fn path(&self, more: &str) -> Cgroup {
        format!("/onramp{}{more}", std::process::id()).parse().unwrap()
    }
}

impl Drop for InCgroup {
    fn drop(&mut self) {
        let _ = std::fs::write(self.0.join(&self.1).join("cgroup.procs"), "0");
        let own = self.0.join(format!("onramp{}", std::process::id()));
        let _ = std::fs::remove_dir(own.join("a")).and_then(|()| std::fs::remove_dir(own));
    }
}

fn rules(text: &str) -> Vec<Rule> {
    scope::load(text, "rules").unwrap()
}

impl Host {
    fn set_scope(&mut self, rules: &[Rule]) {
        let table = (!rules.is_empty()).then(|| scope::table(rules, cgroups::id));
        self.datapath.set_scope(table.as_ref()).unwrap();
        self.datapath.set_config(&self.told).unwrap();
    }

    /// Counts of the rules: packets that matched, and of them those in a pause.
    fn scoped(&self) -> Vec<(u64, u64)> {
        self.datapath.scoped().unwrap().iter().map(|counts| (counts.packets, counts.paused)).collect()
    }
}

/// The matcher in Rust is what the rules mean; the one in C is what counts.
#[test]
fn the_programs_match_as_the_rules_say() {
    let Some(mut host) = Host::new(Mode::Observe) else { return };
    let inside = InCgroup::new();
    let networks =
        ["10.0.0.0/8", "10.0.0.2", "10.0.0.3", "0.0.0.0/0", "::/0", "fd00::/8", "fd00::2", "fd00::3", "8000::/1"];
    let cgroups = ["", "/a", "/a/gone", "x"].map(|more| match &inside {
        Some(inside) => inside.path(more),
        None => "/gone".parse().unwrap(),
    });
    let own = inside.as_ref().map(|inside| inside.path("/a"));
    let some = |most: usize| proptest::collection::vec(0..most, 0..3);
    let rule = (any::<bool>(), some(networks.len()), some(12), some(5), 0..5usize, 0..3usize);
    let rule = rule.prop_map(|(hold, to, ports, dscps, protocol, cgroup)| Rule {
        hold,
        to: List(to.iter().map(|i| Network::text(networks[*i]).unwrap()).collect()),
        port: List(
            ports.iter().map(|n| Ports { first: *n as u16 % 4 + 1, last: *n as u16 % 4 + 1 + *n as u16 / 4 }).collect(),
        ),
        dscp: List(dscps.iter().map(|n| Dscp(*n as u8 * 15)).collect()),
        protocol: [Some(Protocol::Tcp), Some(Protocol::Udp)].get(protocol).copied().flatten(),
        cgroup: (cgroup == 0).then(|| cgroups[ports.len() + dscps.len() % 2].clone()),
        name: None,
    });
    let packet = (any::<bool>(), any::<bool>(), 1..7u16, 1..7u16, 0..5u8);
    let cases = (proptest::collection::vec(rule, 1..9), proptest::collection::vec(packet, 1..9));
    let mut runner = TestRunner::new(Runs { cases: 400, failure_persistence: None, ..Runs::default() });
    let host = RefCell::new(&mut host);
    let done = runner.run(&cases, |(rules, packets)| {
        let mut host = host.borrow_mut();
        host.set_scope(&rules);
        for (v4, is_tcp, sport, dport, dscp) in packets {
            let (us, to) = if v4 { (US, PEER) } else { (US6, PEER6) };
            let (protocol, l4) =
                if is_tcp { (TCP, tcp(sport, dport, 1, ACK, b"x")) } else { (UDP, udp(sport, dport, b"x")) };
            let (dscp, mut frame) = (dscp * 15, ip(us, to, protocol, &l4));
            if v4 {
                frame[15] = dscp << 2 | 1;
            } else {
                frame[14] |= dscp >> 2;
                frame[15] |= (dscp & 3) << 6;
            }
            let protocol = if is_tcp { Protocol::Tcp } else { Protocol::Udp };
            let packet = Packet { to, ports: [sport, dport], protocol, dscp, cgroup: own.as_ref() };
            // A rule whose cgroup is not there matches nothing.
            let there = |rule: &Rule| rule.cgroup.as_ref().is_none_or(|cgroup| cgroups::id(cgroup).is_some());
            let expected = rules.iter().position(|rule| there(rule) && rule.matches(&packet));
            prop_assert!(own.is_none() || expected == scope::first(&rules, &packet));
            let before = host.scoped();
            host.run(Program::Egress, &frame);
            let after = host.scoped();
            let counted: Vec<usize> = (0..before.len()).filter(|i| after[*i].0 != before[*i].0).collect();
            prop_assert_eq!(counted, [expected.unwrap_or(scope::MAX_RULES)]);
        }
        Ok(())
    });
    done.unwrap();
}

#[test]
fn what_a_rule_lets_go_is_measured_and_not_held() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    let free = rules("[[scope]]\nhold = false\nport = 80");
    host.set_scope(&free);
    host.run(Program::Gate, &data(5, PSH_ACK, 100));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(104, now() + 400 * MS)));
    assert!(host.counted().contains(&(abi::OR_ACKS_RECEIVED, 1)));
    assert_eq!(host.run(Program::Gate, &data(105, PSH_ACK, 100)), 0);
    assert!(!host.counted().iter().any(|(counter, _)| *counter == abi::OR_HELD));
    let (_, flow) = host.datapath.flows().next().unwrap();
    assert_eq!((flow.free, flow.pauses, flow.held), (1, 0, 0));
    let path = host.datapath.paths().unwrap().into_iter().find(|(peer, _)| *peer == PEER).unwrap().1;
    assert_eq!((path.or_acks, path.windows[0].held + path.windows[1].held), (1, 0), "nor is the path judged by it");
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(204, now() + 400 * MS)));
    assert!(host.counted().contains(&(abi::OR_ACKS_RECEIVED, 1)), "it is still measured");
    // Others are held, which the path has told of.
    let other = ip(US, PEER, TCP, &tcp(1001, 81, 0, PSH_ACK, b"x"));
    assert!(host.run(Program::Gate, &other) > 0);
    assert_eq!((host.scoped()[0], host.scoped()[scope::MAX_RULES]), ((2, 1), (0, 0)), "which has not left yet");

    // The rule goes, and what waits by then goes when it comes back.
    host.set_scope(&[]);
    assert_eq!(host.scoped(), []);
    assert!(host.run(Program::Gate, &data(205, PSH_ACK, 100)) > 0);
    host.set_scope(&free);
    assert_eq!(host.run(Program::Gate, &data(205, PSH_ACK, 100)), 0);
    assert_eq!(host.run(Program::Gate, &data(305, PSH_ACK, 100)), 0);
    assert_eq!(host.scoped()[0], (2, 2));
}

/// DNS and the like are nobody's to hold.
#[test]
fn no_rule_holds_what_is_never_held() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    host.set_scope(&rules("[[scope]]\nhold = true"));
    host.run(Program::Gate, &data(5, PSH_ACK, 100));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(104, now() + 400 * MS)));
    assert_eq!(host.run(Program::Gate, &ip(US, PEER, UDP, &udp(40_000, 53, &[0; 200]))), 0);
    assert_eq!(host.run(Program::Gate, &data(105, ACK, 0)), 0);
    assert_eq!(host.scoped()[0], (1, 0), "nor does one match it");
    assert!(host.run(Program::Gate, &data(105, ACK, 1)) > 0);
}

#[test]
fn rules_that_stay_keep_their_counts_and_those_of_a_dry_run_change_nothing() {
    let Some(mut host) = Host::new(Mode::Enforce) else { return };
    let rule = |port: u16| format!("[[scope]]\nhold = true\nport = {port}\n");
    host.set_scope(&rules(&(rule(80) + &rule(81))));
    host.run(Program::Gate, &data(5, PSH_ACK, 100));
    host.run(Program::Gate, &ip(US, PEER, TCP, &tcp(1000, 82, 0, PSH_ACK, b"x")));
    host.set_scope(&rules(&(rule(90) + &rule(80))));
    assert_eq!(host.scoped()[..2], [(0, 0), (1, 0)]);
    assert_eq!(host.scoped()[scope::MAX_RULES], (1, 0));
    // Another agent's programs go on with them.
    let shared = host.datapath.shared().unwrap();
    let mut next = Datapath::load(1024, 1024, &shared).unwrap();
    next.set_scope(Some(&scope::table(&rules(&rule(80)), cgroups::id))).unwrap();
    next.set_config(&host.told).unwrap();
    assert_eq!(next.scoped().unwrap()[0].packets, 1);
    drop(next);

    host.datapath.set_dry_run(Some(&scope::table(&rules("[[scope]]\nhold = false"), cgroups::id))).unwrap();
    host.datapath.set_config(&host.told).unwrap();
    host.run(Program::Gate, &data(105, PSH_ACK, 100));
    host.run(Program::Ingress, &or_ack(US, PEER, &KEY, ack(204, now() + 400 * MS)));
    assert!(host.run(Program::Gate, &data(205, PSH_ACK, 100)) > 0);
    let dry_run = host.datapath.dry_run().unwrap();
    assert_eq!((dry_run[0].packets, dry_run[0].bytes, dry_run[scope::MAX_RULES].packets), (1, 100, 0));
    host.datapath.set_dry_run(None).unwrap();
    assert_eq!(host.datapath.dry_run().unwrap(), []);
}
