//! A synthetic mesh whose truth is known: clocks, queues, stamps.
#![allow(dead_code, reason = "each test, benchmark and example uses its part")]

use onramp_clock::schedule::{SPACING, Schedule};
use onramp_clock::{Exchange, HostId};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in [0, 1).
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform in [-1, 1).
    pub fn either(&mut self) -> f64 {
        2.0 * self.uniform() - 1.0
    }

    pub fn exponential(&mut self) -> f64 {
        -libm::log(1.0 - self.uniform())
    }

    pub fn normal(&mut self) -> f64 {
        libm::sqrt(2.0 * self.exponential()) * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }
}

/// A clock, against true time in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Reading at true time 0.
    pub start: u64,
    /// Seconds it gains per true second.
    pub drift: f64,
}

impl Clock {
    pub fn random(random: &mut Random, offset_ns: f64, drift: f64) -> Self {
        let start = 4e17 + offset_ns * random.either();
        Self { start: start as u64, drift: drift * random.either() }
    }

    /// Reading `t` nanoseconds after true time 0, without rounding: the
    /// part beyond `start`.
    fn elapsed(&self, t: f64) -> f64 {
        t + t * self.drift
    }

    pub fn read(&self, t: f64) -> u64 {
        self.start + libm::rint(self.elapsed(t)) as u64
    }

    /// True time at which it reads `at`.
    pub fn when(&self, at: u64) -> f64 {
        (i128::from(at) - i128::from(self.start)) as f64 / (1.0 + self.drift)
    }
}

/// Noise of a host's stamps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stamps {
    Exact,
    /// 4 ns.
    Hardware,
    /// 300 ns, and one in 20 late by 3 us more on average, as interrupts are.
    Software,
}

impl Stamps {
    /// How late the stamp is taken, if a delay makes it late.
    fn noise(self, random: &mut Random) -> f64 {
        match self {
            Self::Exact => 0.0,
            Self::Hardware => 4.0 * random.normal(),
            Self::Software => {
                let late = if random.uniform() < 0.05 { 3000.0 * random.exponential() } else { 0.0 };
                300.0 * random.normal() + late
            }
        }
    }
}

/// A FIFO port with Poisson arrivals of packets and bursts: M/G/1.
pub struct Queue {
    load: f64,
    /// Between arrivals on average, in nanoseconds.
    gap: f64,
    /// Work that is waiting at `at`, in nanoseconds.
    waiting: f64,
    at: f64,
    next: f64,
}

const PACKET: f64 = 1_200.0;
const BURST: f64 = 10_000.0;
const LONGEST: f64 = 2_000_000.0;
const SHAPE: f64 = 1.2;
const BURSTS: f64 = 0.5;

impl Queue {
    pub fn new(load: f64) -> Self {
        Self { load, gap: Self::mean_service() / load, waiting: 0.0, at: -20e6, next: -20e6 }
    }

    fn service(random: &mut Random) -> f64 {
        if random.uniform() > BURSTS {
            return PACKET;
        }
        // Bounded Pareto.
        let most = 1.0 - libm::pow(BURST / LONGEST, SHAPE);
        BURST * libm::pow(1.0 - random.uniform() * most, -1.0 / SHAPE)
    }

    fn mean_service() -> f64 {
        let (l, h) = (BURST, LONGEST);
        let bursts =
            SHAPE / (SHAPE - 1.0) * l * (1.0 - libm::pow(l / h, SHAPE - 1.0)) / (1.0 - libm::pow(l / h, SHAPE));
        (1.0 - BURSTS) * PACKET + BURSTS * bursts
    }

    /// How long a packet waits that arrives at `t`, not before the one before.
    pub fn wait(&mut self, t: f64, random: &mut Random) -> f64 {
        if self.load == 0.0 {
            return 0.0;
        }
        while self.next <= t {
            self.waiting = (self.waiting - (self.next - self.at)).max(0.0) + Self::service(random);
            self.at = self.next;
            self.next += random.exponential() * self.gap;
        }
        self.waiting = (self.waiting - (t - self.at)).max(0.0);
        self.at = t;
        self.waiting
    }
}

/// One way: a fixed delay, then queues in a row.
pub struct Way {
    pub delay: f64,
    pub queues: Vec<Queue>,
}

impl Way {
    pub fn new(delay: f64, load: f64, hops: usize) -> Self {
        Self { delay, queues: (0..hops).map(|_| Queue::new(load)).collect() }
    }

    fn pass(&mut self, t: f64, random: &mut Random) -> f64 {
        self.queues.iter_mut().fold(t + self.delay, |t, queue| t + queue.wait(t, random))
    }
}

/// Parameters of a mesh's edges.
#[derive(Clone, Copy, Debug)]
pub struct World {
    pub stamps: Stamps,
    /// Load of the queues forward and backward.
    pub loads: (f64, f64),
    pub hops: usize,
    pub interval: u64,
    pub window: u64,
    pub seed: u64,
}

impl World {
    pub fn new(stamps: Stamps, load: f64, seed: u64) -> Self {
        let interval = onramp_clock::schedule::INTERVAL;
        Self { stamps, loads: (load, load), hops: 2, interval, window: onramp_clock::WINDOW, seed }
    }

    /// A window's exchanges from `a` to `b`, from true time `start` on.
    pub fn exchanges(&self, from: (HostId, Clock), to: (HostId, Clock), start: f64) -> Vec<Exchange> {
        let ((from, a), (to, b)) = (from, to);
        let mut random = Random(self.seed ^ (u64::from(from) << 32) ^ (u64::from(to) << 1) ^ start as u64);
        let delay = 4_000.0 + 10_000.0 * random.uniform();
        let mut forward = Way::new(delay, self.loads.0, self.hops);
        let mut backward = Way::new(delay, self.loads.1, self.hops);
        let schedule = Schedule::new(from, to, self.interval, self.seed);
        let mut exchanges = Vec::new();
        for pair in 0..(self.window / self.interval) as u32 {
            let mut busy = 0.0_f64;
            for second in [false, true] {
                let sent = schedule.due(pair) as f64 + if second { SPACING as f64 } else { 0.0 };
                let received = forward.pass(sent, &mut random);
                // B answers one at a time, after a few microseconds.
                let returned = busy.max(received) + 3_000.0 + 500.0 * random.exponential();
                busy = returned;
                let came_back = backward.pass(returned, &mut random);
                let mut stamp =
                    |clock: &Clock, t: f64, late: f64| clock.read(start + t + late * self.stamps.noise(&mut random));
                exchanges.push(Exchange {
                    pair,
                    second,
                    sent: stamp(&a, sent, -1.0),
                    received: stamp(&b, received, 1.0),
                    returned: stamp(&b, returned, -1.0),
                    came_back: stamp(&a, came_back, 1.0),
                });
            }
        }
        exchanges
    }
}
