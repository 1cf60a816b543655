//! Cost of watching to two hosts: processor time for each gigabyte that one sends the other, as in Table 1 of the
//! paper; and its cost while a third host sends forged OR-ACKs and probes.
//!
//! `cargo bench -p onrampd --bench traffic`, as root, on a machine with nothing else to do. Both hosts
//! share one processor, so that none waits for the other to wake up, and all that is done counts. The third host has
//! another one, which takes its packets in as well, as a card with several queues has them. `-- flood`: only that.

#[path = "../tests/common/mod.rs"]
mod common;

use common::lab::{Agent, Lab};
use onramp_core::orack::{Addresses, MAX_LEN, OrAck};
use onramp_core::orprobe::OrProbe;
use onrampd::clock::now;
use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

const GIGABYTE: usize = 1_000_000_000;
/// In each round, with and without the agents. The least of all rounds counts.
const GIGABYTES: usize = 2;
const ROUNDS: usize = 9;
const TO: &str = "10.9.0.2";
/// Ticks in which the kernel counts processor time.
const TICKS_PER_SECOND: f64 = 100.0;

/// Keeps this thread, and those it makes, on one processor.
fn stay(processor: usize) {
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).expect("there is a processor");
}

/// Seconds that the processor has worked, interrupts included.
fn worked() -> f64 {
    let stat = fs::read_to_string("/proc/stat").expect("there is /proc");
    let line = stat.lines().find_map(|l| l.strip_prefix("cpu0 ")).expect("there is a processor");
    let ticks: Vec<u64> = line.split(' ').map(|n| n.parse().expect("a number")).collect();
    // user, nice, system, irq, softirq
    [0, 1, 2, 5, 6].iter().map(|i| ticks[*i]).sum::<u64>() as f64 / TICKS_PER_SECOND
}

/// Seconds for which this thread has worked, what it did for the network included.
fn worked_here() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Seconds a gigabyte takes: the processor, and the two threads alone.
fn send(lab: &Lab) -> [f64; 2] {
    let listener = lab.on("b", || TcpListener::bind((TO, 0)).expect("a port"));
    let port = listener.local_addr().expect("it has one").port();
    let before = worked();
    let threads = thread::scope(|s| {
        let receiver = s.spawn(|| {
            stay(0);
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut buffer = vec![0; 1 << 18];
            while stream.read(&mut buffer).expect("data") > 0 {}
            worked_here()
        });
        let sender = lab.on("a", || {
            stay(0);
            let mut stream = TcpStream::connect((TO, port)).expect("a connection");
            let buffer = vec![1; 1 << 18];
            let mut left = GIGABYTES * GIGABYTE;
            while left > 0 {
                left -= stream.write(&buffer[..left.min(buffer.len())]).expect("the receiver reads");
            }
            worked_here()
        });
        sender + receiver.join().expect("it ends")
    });
    [worked() - before, threads].map(|seconds| seconds / GIGABYTES as f64)
}

/// The least of all rounds, without and with agents that observe, in turns.
fn rounds(lab: &Lab) -> [f64; 2] {
    let mut least = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        for (with, least) in least.iter_mut().enumerate() {
            let agents: Vec<Agent> =
                ["a", "b"].iter().filter(|_| with == 1).map(|host| lab.agent(host, "threshold = \"100us\"")).collect();
            *least = least.min(send(lab)[0]);
            assert!(agents.iter().all(|a| a.counter("or_acks_sent") + a.counter("or_acks_received") > 0));
            assert!(agents.into_iter().all(Agent::end));
        }
    }
    least
}

/// Sends forged OR-ACKs, probes and garbage from "c" to "a", as if they came from "b", while `going`.
fn flood(lab: &Lab, port: u16, going: &AtomicBool, sent: &AtomicU64) {
    lab.on("c", || {
        stay(1);
        let forger = UdpSocket::bind((TO, 9471)).expect("an address that was added");
        forger.connect(("10.9.0.1", port)).expect("a way");
        let addresses = Addresses::V4 { source: [10, 9, 0, 1].into(), destination: [10, 9, 0, 2].into() };
        let (source_port, destination_port, protocol, tag) = (1, 2, 6, 3);
        let probe = OrProbe { pair: 1, sent: 5, tag: 6, ..OrProbe::default() }.encode();
        while going.load(Ordering::Relaxed) {
            for n in 0..300_u32 {
                let (sequence, received_at) = (n, now());
                let ack = OrAck { addresses, source_port, destination_port, protocol, sequence, received_at, tag };
                // The host answers some by ICMP, which the next call tells of.
                let _ = match n % 3 {
                    0 => forger.send(ack.encode(&mut [0; MAX_LEN])),
                    1 => forger.send(&probe),
                    _ => forger.send(b"garbage"),
                };
            }
            sent.fetch_add(300, Ordering::Relaxed);
        }
    });
}

/// Seconds a gigabyte takes the two threads, with agents that observe: by itself, while a flood comes to a port that is
/// not On-Ramp's, and while the same comes to On-Ramp's. In turns, the least of all rounds; and packets a second that
/// were sent in each.
fn flooded(lab: &Lab) -> ([f64; 3], [f64; 3]) {
    let link = lab.says("a", "ip -o link show eth0");
    let mac = link.split("link/ether ").nth(1).map(|rest| rest[..17].to_string());
    // Nobody is told that b is here.
    lab.on("c", || fs::write("/proc/sys/net/ipv4/conf/all/arp_ignore", "1")).expect("a namespace's own");
    lab.says("c", &format!("ip addr add {TO}/32 dev lo"));
    lab.says("c", &format!("ip neigh replace 10.9.0.1 lladdr {} dev eth0", mac.expect("it is Ethernet")));
    let _b = lab.agent("b", "threshold = \"100us\"");
    let a = lab.agent("a", "threshold = \"100us\"");
    let refused =
        || ["or_acks_bad_tag", "or_acks_malformed", "probes_refused"].iter().map(|name| a.counter(name)).sum::<u64>();
    let (mut least, mut all, mut took) = ([f64::INFINITY; 3], [0; 3], [0; 3]);
    for _ in 0..ROUNDS {
        for (at, port) in [None, Some(9999), Some(9471)].into_iter().enumerate() {
            let (going, sent) = (AtomicBool::new(true), AtomicU64::new(0));
            let (before, begun) = (refused(), now());
            thread::scope(|s| {
                port.map(|port| {
                    s.spawn({
                        let (going, sent) = (&going, &sent);
                        move || flood(lab, port, going, sent)
                    })
                });
                least[at] = least[at].min(send(lab)[1]);
                going.store(false, Ordering::Relaxed);
            });
            let sent = sent.into_inner();
            (all[at], took[at]) = (all[at] + sent, took[at] + now() - begun);
            let (came, forged) = (refused() - before, if port == Some(9471) { sent } else { 0 });
            assert!(came <= forged + 300 && came >= forged / 2, "{came} of {forged} are refused");
        }
    }
    (least, [0, 1, 2].map(|at| all[at] as f64 * 1e9 / took[at] as f64))
}

fn main() {
    let Some(lab) = Lab::switched() else { return };
    let (took, sent) = flooded(&lab);
    println!("seconds a gigabyte, of sender and receiver: {:.3}", took[0]);
    for (at, what) in [(1, "packets for nobody"), (2, "forged OR-ACKs and probes")] {
        let more = 100.0 * (took[at] / took[0] - 1.0);
        println!("{:.3} ({more:+.1}%) while {:.0} {what} a second come", took[at], sent[at]);
    }
    println!("{:+.1}% is On-Ramp's", 100.0 * (took[2] / took[1] - 1.0));
    drop(lab);
    if std::env::args().any(|argument| argument == "flood") {
        return;
    }
    let Some(lab) = Lab::new() else { return };
    let [none, observe] = rounds(&lab);
    println!("segments of up to 64 KB, seconds a gigabyte: {none:.3} without, {observe:.3} with agents that observe");
    println!("{:+.1}%", 100.0 * (observe / none - 1.0));
}
