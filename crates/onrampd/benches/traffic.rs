//! What watching costs two hosts: processor time for each gigabyte that one sends the other, as in
//! Table 1 of the paper.
//!
//! `cargo bench -p onrampd --bench traffic`, as root, on a machine with nothing else to do. Both hosts
//! share one processor, so that none waits for the other to wake up, and all that is done counts.

#[path = "../tests/common/mod.rs"]
mod common;

use common::lab::{Agent, Lab};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

const GIGABYTE: usize = 1_000_000_000;
/// In each round, with and without the agents. The least of all rounds counts.
const GIGABYTES: usize = 2;
const ROUNDS: usize = 9;
const TO: &str = "10.9.0.2";
/// What the kernel counts processor time in.
const TICKS_PER_SECOND: f64 = 100.0;

/// Keeps this thread, and those it makes, on one processor.
fn stay() {
    let mut only = CpuSet::new();
    only.set(0);
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

/// Seconds a gigabyte takes.
fn send(lab: &Lab) -> f64 {
    let listener = lab.on("b", || TcpListener::bind((TO, 0)).expect("a port"));
    let port = listener.local_addr().expect("it has one").port();
    let before = worked();
    thread::scope(|s| {
        s.spawn(|| {
            stay();
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut buffer = vec![0; 1 << 18];
            while stream.read(&mut buffer).expect("data") > 0 {}
        });
        lab.on("a", || {
            stay();
            let mut stream = TcpStream::connect((TO, port)).expect("a connection");
            let buffer = vec![1; 1 << 18];
            let mut left = GIGABYTES * GIGABYTE;
            while left > 0 {
                left -= stream.write(&buffer[..left.min(buffer.len())]).expect("the receiver reads");
            }
        });
    });
    (worked() - before) / GIGABYTES as f64
}

/// The least of all rounds, without and with agents that observe, in turns.
fn rounds(lab: &Lab) -> [f64; 2] {
    let mut least = [f64::INFINITY; 2];
    for _ in 0..ROUNDS {
        for (with, least) in least.iter_mut().enumerate() {
            let agents: Vec<Agent> =
                ["a", "b"].iter().filter(|_| with == 1).map(|host| lab.agent(host, "threshold = \"100us\"")).collect();
            *least = least.min(send(lab));
            assert!(agents.iter().all(|a| a.counter("or_acks_sent") + a.counter("or_acks_received") > 0));
            assert!(agents.into_iter().all(Agent::end));
        }
    }
    least
}

fn main() {
    let Some(lab) = Lab::new() else { return };
    let [none, observe] = rounds(&lab);
    println!("segments of up to 64 KB, seconds a gigabyte: {none:.3} without, {observe:.3} with agents that observe");
    println!("{:+.1}%", 100.0 * (observe / none - 1.0));
}
