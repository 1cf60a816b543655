//! Nanoseconds a packet in each eBPF program, as this machine's kernel compiles them.
//!
//! `cargo bench -p onrampd`, as root. The packets are in the cache and so are the maps' entries;
//! what a program calls, such as cloning a packet, counts.

#[path = "../tests/common/mod.rs"]
mod common;

use common::lab::Lab;
use common::packet::{ACK, PSH_ACK, TCP, UDP, ethernet, ip, or_ack, tcp, udp};
use onramp_core::orack::{Addresses, OrAck};
use onramp_netlink::Socket;
use onrampd::clock::now;
use onrampd::config::{Config, Key, Mode, Peer, load};
use onrampd::datapath::{Datapath, Hooks, Program};
use onrampd::net::acker;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

const US: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));
const KEY: [u8; 16] = [7; 16];

/// Runs of a program in one go, and how often: the least counts, which a busy machine disturbs least.
const REPEAT: u32 = 200_000;
const ROUNDS: usize = 7;
/// Single runs, of which the median counts.
const SINGLE: u32 = 5_000;

struct Bench {
    datapath: Datapath,
    /// Where packets come from: a device that drops what is sent on it.
    interface: u32,
}

impl Bench {
    fn repeated(&mut self, program: Program, packet: &[u8]) -> u32 {
        let mut round = || self.datapath.time(program, packet, self.interface, REPEAT).expect("the kernel runs it");
        (0..ROUNDS).map(|_| round()).min().expect("there are rounds")
    }

    /// Median of single runs on packets that differ.
    fn single(&mut self, program: Program, mut packet: impl FnMut(&mut Self, u32) -> Vec<u8>) -> u32 {
        let mut run = |i| {
            let packet = packet(self, i);
            self.datapath.time(program, &packet, self.interface, 1).expect("the kernel runs it")
        };
        let mut all: Vec<u32> = (0..SINGLE).map(&mut run).collect();
        all.sort_unstable();
        all[all.len() / 2]
    }
}

fn config(mode: Mode) -> Config {
    let text = "interface = \"sink\"\nthreshold = \"50us\"\nmax_pause = \"500ms\"\nidle = \"10s\"";
    let mut config = load(text, "bench", Path::new("")).expect("a configuration");
    config.mode = mode;
    config.peers = [US, PEER].map(|address| Peer::new(address, Key(KEY), Some(0), 10_000_000_000)).into();
    config
}

fn data(to: IpAddr, seq: u32, flags: u8, payload: usize) -> Vec<u8> {
    ip(US, to, TCP, &tcp(1000, 80, seq, flags, &vec![0; payload]))
}

fn acknowledged(sequence: u32) -> Vec<u8> {
    let none = Addresses::V4 { source: Ipv4Addr::UNSPECIFIED, destination: Ipv4Addr::UNSPECIFIED };
    let (source_port, destination_port, protocol) = (1000, 80, TCP);
    // As old as the packet: the flow is not held.
    let received_at = now();
    let ack = OrAck { addresses: none, source_port, destination_port, protocol, sequence, received_at, tag: 0 };
    or_ack(US, PEER, &KEY, ack)
}

fn main() {
    let Some(lab) = Lab::new() else { return };
    let (sink, index) = lab.on("a", || {
        let mut socket = Socket::open().expect("netlink");
        // The agent's device knows which kinds this kernel has; under another name it is a sink.
        let sink = acker::create(&mut socket).expect("a device");
        lab.says("a", "ip link set onramp0 down");
        lab.says("a", "ip link set onramp0 name sink");
        lab.says("a", "ip link set sink up");
        (sink, acker::create(&mut socket).expect("a device"))
    });
    lab.on("a", || measure(sink, index));
}

fn measure(sink: u32, acker: u32) {
    let mut datapath = Datapath::load(65_536, 131_072, &[]).expect("the programs");
    let mut config = config(Mode::Enforce);
    datapath.set_peers(&config.peers).expect("peers");
    let tell = |datapath: &mut Datapath, config: &Config| {
        let told = config.for_programs(acker, config.own_clock(), config.test_clock(0));
        datapath.set_config(&told).expect("a configuration");
    };
    tell(&mut datapath, &config);
    let mut alive = datapath.take_alive().expect("it was not taken");
    let mut bench = Bench { datapath, interface: sink };
    let row = |program: &str, packet: &str, ns: u32| println!("{program:<8}  {packet:<58}{ns:>6}");
    println!("{:<8}  {:<58}{:>6}", "program", "packet", "ns");

    let plain = data(PEER, 1, ACK, 1448);
    row("any", "any: its agent is gone", bench.repeated(Program::Gate, &plain));
    alive.until(u64::MAX).expect("the programs do something");
    for (program, name) in [(Program::Gate, "gate"), (Program::Egress, "egress")] {
        let plain_ns = bench.repeated(program, &plain);
        row(name, "data, 1448 B", plain_ns);
        // The same packet once more would count as sent again.
        let alone = bench.single(program, |_, _| plain.clone());
        let stamped = bench.single(program, |_, i| data(PEER, (i + 1) * 16_384, ACK, 1448));
        row(name, "data, 1448 B, whose stamp is kept (one in eleven)", plain_ns + stamped.saturating_sub(alone));
        row(name, "pure ACK", bench.repeated(program, &data(PEER, 1, ACK, 0)));
        row(name, "data to a host without On-Ramp", bench.repeated(program, &data(STRANGER, 1, ACK, 1448)));
        row(name, "neither IPv4 nor IPv6", bench.repeated(program, &ethernet(0x0806, &[0; 46])));
    }
    let datagram = ip(US, PEER, UDP, &udp(1000, 443, &[3; 1200]));
    row("gate", "UDP, 1200 B", bench.repeated(Program::Gate, &datagram));

    // From the peer to us.
    let from = |seq, flags, payload: usize| ip(PEER, US, TCP, &tcp(80, 1000, seq, flags, &vec![0; payload]));
    row("ingress", "data, 1448 B", bench.repeated(Program::Ingress, &from(1, ACK, 1448)));
    row("ingress", "pure ACK", bench.repeated(Program::Ingress, &from(1, ACK, 0)));
    row(
        "ingress",
        "data from a host without On-Ramp",
        bench.repeated(Program::Ingress, &{ ip(STRANGER, US, TCP, &tcp(80, 1000, 1, ACK, &[0; 1448])) }),
    );
    let chosen = from(16_384, ACK, 1448);
    row("ingress", "data, 1448 B, chosen, of a flow that has just heard", bench.repeated(Program::Ingress, &chosen));
    config.or_ack_gap = 0;
    tell(&mut bench.datapath, &config);
    let cloned = bench.repeated(Program::Ingress, &chosen);
    row("ingress", "data, 1448 B, chosen: cloned, and the clone dropped", cloned);
    let link = bench.datapath.attach(Program::Acker, acker::NAME, Hooks::choose(onrampd::config::Attach::Auto));
    let link = link.expect("the acker is attached");
    let before = bench.datapath.counters().expect("counters");
    let sent = bench.repeated(Program::Ingress, &chosen);
    let after = bench.datapath.counters().expect("counters");
    let count = |of: u32| after[of as usize] - before[of as usize];
    assert!(count(onrampd::abi::OR_ACKS_SENT) >= u64::from(REPEAT), "OR-ACKs are made");
    assert_eq!(count(onrampd::abi::OR_ACKS_FAILED), 0);
    row("acker", "its part of the next line: OR-ACK written, signed, sent", sent - cloned);
    row("ingress", "data, 1448 B, chosen: its OR-ACK made and sent", sent);
    drop(link);

    let refused = acknowledged(7);
    let refused_ns = bench.repeated(Program::Ingress, &refused);
    row("ingress", "OR-ACK, tag right, of a packet never sent", refused_ns);
    let mut forged = refused.clone();
    *forged.last_mut().expect("it is not empty") ^= 1;
    row("ingress", "OR-ACK, tag wrong", bench.repeated(Program::Ingress, &forged));
    // Each is accepted once, so a run is for one packet; what the clock's reading and a cold start
    // add is told by the packets that are refused.
    let alone = bench.single(Program::Ingress, |_, _| acknowledged(7));
    let accepted = bench.single(Program::Ingress, |bench, i| {
        let seq = (i + 2) * 16_384;
        bench.datapath.test_run(Program::Gate, &data(PEER, seq, ACK, 1)).expect("the kernel runs it");
        acknowledged(seq)
    });
    row("ingress", "OR-ACK accepted", (refused_ns + accepted).saturating_sub(alone));

    // A flow that is held: an OR-ACK says that its packet was on its way for long.
    bench.datapath.test_run(Program::Gate, &data(PEER, 5, PSH_ACK, 1)).expect("the kernel runs it");
    let none = Addresses::V4 { source: Ipv4Addr::UNSPECIFIED, destination: Ipv4Addr::UNSPECIFIED };
    let received_at = now() + 20_000_000_000;
    let late = OrAck {
        addresses: none,
        source_port: 1000,
        destination_port: 80,
        protocol: TCP,
        sequence: 5,
        received_at,
        tag: 0,
    };
    let pause = |bench: &mut Bench| {
        bench.datapath.test_run(Program::Ingress, &or_ack(US, PEER, &KEY, late)).expect("the kernel runs it");
    };
    pause(&mut bench);
    let held = bench.datapath.time(Program::Gate, &plain, sink, REPEAT).expect("the kernel runs it");
    assert_ne!(bench.datapath.test_run(Program::Gate, &plain).expect("the kernel runs it").0, 0, "it is held");
    row("gate", "data, 1448 B, of a flow that is held", held);
}
