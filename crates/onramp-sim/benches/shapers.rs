//! Cost of a packet in the structures that shapers are made of: a timing wheel, a binary heap, a red-black tree, and
//! token buckets with a queue each, with 10 to 100,000 flows at mixed rates.
//!
//! `cargo bench -p onramp-sim --bench shapers`. Each flow always has one packet in the structure; a
//! step takes the earliest one out and puts the flow's next one in, as far ahead as its rate wants.
//! Times are the least of several rounds. Virtual machines seldom have counters, so cache misses are
//! those of valgrind's cachegrind, of 32 KB and of 1 MB, and instructions are counted by it.

use intrusive_collections::{KeyAdapter, RBTree, RBTreeLink, UnsafeRef, intrusive_adapter};
use onramp_sim::bench::Wheel;
use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

const FLOWS: [u32; 5] = [10, 100, 1000, 10_000, 100_000];
/// Set in the process that valgrind looks at: structure, flows, steps.
const CASE: &str = "ONRAMP_BENCH_SHAPER";
/// All flows together send a packet so often, in nanoseconds: 5 million a second.
const GAP: u64 = 200;
/// How long a slot of the wheel is: some packets' time.
const SLOT: u64 = 2_000;

/// Flows' gaps: three decades, and so that all of them together are `GAP`.
fn gaps(flows: u32) -> Vec<u64> {
    let weights: Vec<u64> = (0..flows).map(|i| [1, 10, 100, 1000][(i % 4) as usize]).collect();
    // A flow's rate is as its weight; the sum of rates is 1 / GAP.
    let sum: u64 = weights.iter().sum();
    weights.iter().map(|weight| GAP * sum / weight).collect()
}

trait Queue {
    const NAME: &'static str;
    fn new(gaps: &[u64]) -> Self;
    /// Takes the earliest packet and adds its flow's next one.
    fn step(&mut self) -> u32;
    /// Bytes, if the structure tells.
    fn bytes(&self) -> usize;
}

struct Wheeled {
    wheel: Wheel<u32>,
    last: Vec<u64>,
    gaps: Vec<u64>,
}

impl Queue for Wheeled {
    const NAME: &'static str = "timing wheel";

    fn new(gaps: &[u64]) -> Self {
        let horizon = 2 * gaps.iter().max().copied().unwrap_or(1);
        let mut wheel = Wheel::new(SLOT, horizon);
        let last: Vec<u64> = gaps.iter().enumerate().map(|(i, gap)| gap * (i as u64 * 7919 % 1000) / 1000).collect();
        (0..).zip(&last).for_each(|(flow, &at)| wheel.push(at, 0, flow));
        Self { wheel, last, gaps: gaps.to_vec() }
    }

    fn step(&mut self) -> u32 {
        let now = self.wheel.first().expect("every flow has a packet");
        let flow = self.wheel.pop().expect("every flow has a packet");
        let last = &mut self.last[flow as usize];
        *last += self.gaps[flow as usize];
        self.wheel.push(*last, now, flow);
        flow
    }

    fn bytes(&self) -> usize {
        self.wheel.memory()
    }
}

/// Those that order flows by time.
trait Order {
    const NAME: &'static str;
    /// Bytes of an entry.
    const ENTRY: usize;
    fn new(flows: usize) -> Self;
    fn add(&mut self, at: u64, flow: u32);
    fn first(&mut self) -> (u64, u32);
}

struct Ordered<T> {
    order: T,
    gaps: Vec<u64>,
}

impl<T: Order> Queue for Ordered<T> {
    const NAME: &'static str = T::NAME;

    fn new(gaps: &[u64]) -> Self {
        let mut order = T::new(gaps.len());
        (0..).zip(gaps).for_each(|(flow, gap)| order.add(gap * (u64::from(flow) * 7919 % 1000) / 1000, flow));
        Self { order, gaps: gaps.to_vec() }
    }

    fn step(&mut self) -> u32 {
        let (at, flow) = self.order.first();
        self.order.add(at + self.gaps[flow as usize], flow);
        flow
    }

    fn bytes(&self) -> usize {
        self.gaps.len() * T::ENTRY
    }
}

struct Heap(BinaryHeap<Reverse<(u64, u32)>>);

impl Order for Heap {
    const NAME: &'static str = "binary heap";
    const ENTRY: usize = size_of::<(u64, u32)>();

    fn new(flows: usize) -> Self {
        Self(BinaryHeap::with_capacity(flows))
    }

    fn add(&mut self, at: u64, flow: u32) {
        self.0.push(Reverse((at, flow)));
    }

    fn first(&mut self) -> (u64, u32) {
        self.0.pop().expect("every flow has a packet").0
    }
}

struct BTree(BTreeSet<(u64, u32)>);

impl Order for BTree {
    const NAME: &'static str = "B-tree";
    const ENTRY: usize = size_of::<(u64, u32)>();

    fn new(_: usize) -> Self {
        Self(BTreeSet::new())
    }

    fn add(&mut self, at: u64, flow: u32) {
        self.0.insert((at, flow));
    }

    fn first(&mut self) -> (u64, u32) {
        self.0.pop_first().expect("every flow has a packet")
    }
}

/// A flow in a red-black tree, as in Linux's `fq`: the links are the flow's own.
struct Node {
    link: RBTreeLink,
    at: Cell<u64>,
    flow: u32,
}

intrusive_adapter!(Nodes = UnsafeRef<Node>: Node { link: RBTreeLink });

impl<'a> KeyAdapter<'a> for Nodes {
    type Key = u64;

    fn get_key(&self, node: &'a Node) -> u64 {
        node.at.get()
    }
}

struct RedBlack {
    tree: RBTree<Nodes>,
    nodes: Vec<Option<UnsafeRef<Node>>>,
}

impl Order for RedBlack {
    const NAME: &'static str = "red-black tree";
    const ENTRY: usize = size_of::<Node>();

    fn new(flows: usize) -> Self {
        let node = |flow| Some(UnsafeRef::from_box(Box::new(Node { link: RBTreeLink::new(), at: Cell::new(0), flow })));
        Self { tree: RBTree::new(Nodes::new()), nodes: (0..flows as u32).map(node).collect() }
    }

    fn add(&mut self, at: u64, flow: u32) {
        let node = self.nodes[flow as usize].take().expect("a flow is in the tree once");
        node.at.set(at);
        self.tree.insert(node);
    }

    fn first(&mut self) -> (u64, u32) {
        let node = self.tree.front_mut().remove().expect("every flow has a packet");
        let found = (node.at.get(), node.flow);
        self.nodes[found.1 as usize] = Some(node);
        found
    }
}

/// A bucket and a queue for each flow, looked at in turn until one may send: what a shaper does that
/// keeps no order of times.
struct Buckets {
    queues: Vec<(u64, VecDeque<u32>)>,
    gaps: Vec<u64>,
    now: u64,
    turn: usize,
}

impl Queue for Buckets {
    const NAME: &'static str = "token buckets, scanned";

    fn new(gaps: &[u64]) -> Self {
        let first = |(i, gap): (usize, &u64)| (gap * (i as u64 * 7919 % 1000) / 1000, VecDeque::from([i as u32]));
        Self { queues: gaps.iter().enumerate().map(first).collect(), gaps: gaps.to_vec(), now: 0, turn: 0 }
    }

    fn step(&mut self) -> u32 {
        self.now += GAP;
        loop {
            let turn = self.turn;
            self.turn = if turn + 1 == self.queues.len() { 0 } else { turn + 1 };
            if self.turn == 0 {
                // A round without a packet takes time, too.
                self.now += GAP;
            }
            let (zero_at, queue) = &mut self.queues[turn];
            if *zero_at <= self.now
                && let Some(flow) = queue.pop_front()
            {
                *zero_at += self.gaps[turn];
                queue.push_back(flow);
                return flow;
            }
        }
    }

    fn bytes(&self) -> usize {
        self.queues.len() * (size_of::<(u64, VecDeque<u32>)>() + 4 * size_of::<u32>())
    }
}

/// By this name valgrind knows what to count.
#[inline(never)]
fn counted<Q: Queue>(queue: &mut Q, steps: u32) {
    for _ in 0..steps {
        black_box(queue.step());
    }
}

fn ready<Q: Queue>(flows: u32, steps: u32) -> Q {
    let mut queue = Q::new(&gaps(flows));
    for _ in 0..steps {
        black_box(queue.step());
    }
    queue
}

/// Misses of the first and of the last level, and instructions, a step.
fn misses(name: &str, flows: u32, steps: u32) -> [f64; 3] {
    // What comes before the steps is there twice, and goes away in the difference.
    let run = |steps: u32| {
        let own = std::env::current_exe().expect("a process knows its program");
        let run = Command::new("valgrind")
            .args([
                "--tool=cachegrind",
                "--cache-sim=yes",
                "--D1=32768,8,64",
                "--LL=1048576,8,64",
                "--cachegrind-out-file=/dev/null",
            ])
            .arg(own)
            .env(CASE, format!("{name}/{flows}/{steps}"))
            .output()
            .unwrap_or_else(|_| panic!("valgrind is missing: install the package valgrind"));
        let log = String::from_utf8_lossy(&run.stderr).into_owned();
        ["D1  misses:", "LLd misses:", "I   refs:"].map(|key| {
            let line = log.lines().find_map(|line| line.split(key).nth(1)).expect("cachegrind prints its counts");
            let number = line.split('(').next().unwrap_or_default().replace(',', "");
            number.trim().parse::<f64>().expect("the count is a number")
        })
    };
    let (few, many) = (run(0), run(steps));
    std::array::from_fn(|i| (many[i] - few[i]) / f64::from(steps))
}

fn measure<Q: Queue>() {
    for flows in FLOWS {
        // Scanning takes long: fewer.
        let scan = Q::NAME.starts_with("token");
        let steps = if scan { 20_000.max(2_000_000 / flows) } else { 1_000_000 };
        let mut queue: Q = ready(flows, if scan { steps } else { steps.max(4 * flows) });
        let mut least = f64::INFINITY;
        for _ in 0..7 {
            let start = Instant::now();
            counted(&mut queue, steps);
            least = least.min(start.elapsed().as_secs_f64() * 1e9 / f64::from(steps));
        }
        let [first, last, instructions] = misses(Q::NAME, flows, steps.min(200_000));
        println!(
            "{:<24}{flows:>8}{least:>10.1}{first:>12.2}{last:>12.3}{instructions:>14.0}{:>12.0}",
            Q::NAME,
            queue.bytes() as f64 / 1e3
        );
    }
}

fn case<Q: Queue>(name: &str, flows: u32, steps: u32) {
    if name == Q::NAME {
        let mut queue: Q = ready(flows, 2 * flows.min(100_000));
        counted(&mut queue, steps);
    }
}

fn main() {
    if let Ok(wanted) = std::env::var(CASE) {
        let [name, flows, steps] = wanted.split('/').collect::<Vec<_>>().try_into().expect("three parts");
        let [flows, steps] = [flows, steps].map(|number: &str| number.parse().expect("a number"));
        case::<Wheeled>(name, flows, steps);
        case::<Ordered<Heap>>(name, flows, steps);
        case::<Ordered<RedBlack>>(name, flows, steps);
        case::<Ordered<BTree>>(name, flows, steps);
        return case::<Buckets>(name, flows, steps);
    }
    println!(
        "{:<24}{:>8}{:>10}{:>12}{:>12}{:>14}{:>12}",
        "structure", "flows", "ns", "L1 misses", "L2 misses", "instructions", "KB"
    );
    measure::<Wheeled>();
    measure::<Ordered<Heap>>();
    measure::<Ordered<RedBlack>>();
    measure::<Ordered<BTree>>();
    measure::<Buckets>();
}
