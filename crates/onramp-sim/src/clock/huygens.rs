//! Huygens: windows of probes between hosts, and what `onramp_clock` makes of them.

use super::Tick;
use super::config::Clock;
use super::host::HostClock;
use onramp_clock::schedule::{SPACING, Schedule};
use onramp_clock::{
    Correction, Edge, Exchange, FitOptions, HostId, Memory, NetworkOptions, Solution, mesh, noise, solve,
};
use onramp_config::units::{MS, NS, Ps};
use std::collections::BTreeMap;

/// From the end of a window until its corrections are in force: fits, their way
/// to the coordinator and back.
const PROCESSING: Ps = 5 * MS;

/// An edge of the probe mesh.
#[derive(Debug)]
pub struct Probed {
    /// Who probes.
    pub from: HostId,
    /// Who answers.
    pub to: HostId,
    /// Hashes that ECMP chooses by, for probes and for answers.
    pub hash: [u16; 2],
    schedule: Schedule,
    /// Pairs begun.
    pairs: u32,
    /// Exchanges of the present window.
    exchanges: Vec<Exchange>,
    memory: Memory,
}

/// The probe mesh and its windows.
#[derive(Debug)]
pub struct Huygens {
    edges: Vec<Probed>,
    window: Ps,
    fit: FitOptions,
    network: NetworkOptions,
    /// Of the window that was over last, until it is in force.
    solution: Solution,
    noise: f64,
    /// Windows whose corrections came into force.
    pub windows: u64,
}

impl Huygens {
    /// The mesh of a scenario's hosts.
    pub fn new(clock: &Clock, seed: u64, hosts: usize) -> Self {
        let all: Vec<HostId> = (0..hosts as HostId).collect();
        let interval = clock.probe_interval.unwrap_or_default().0 / NS;
        let peers = clock.peers.unwrap_or_default() as usize;
        let edge = |(number, (from, to)): (usize, (HostId, HostId))| {
            let mut random = onramp_random::stream(seed, "probes", number as u64);
            let mut hash = || onramp_random::below(&mut random, 1 << 16) as u16;
            Probed {
                from,
                to,
                hash: [hash(), hash()],
                schedule: Schedule::new(from, to, interval, seed),
                pairs: 0,
                exchanges: Vec::new(),
                memory: Memory::default(),
            }
        };
        Self {
            edges: mesh::edges(&all, peers, seed).into_iter().enumerate().map(edge).collect(),
            window: clock.window.unwrap_or_default().0,
            fit: FitOptions { coded: clock.coded.unwrap_or(true), ..FitOptions::default() },
            network: NetworkOptions {
                network_effect: clock.network_effect.unwrap_or(true),
                ..NetworkOptions::default()
            },
            solution: Solution::default(),
            noise: 0.0,
            windows: 0,
        }
    }

    /// First events, and their times.
    pub fn first_ticks(&self) -> Vec<(Ps, Tick)> {
        let pairs = (0..).zip(&self.edges).map(|(i, edge)| (edge.schedule.due(0) * NS, Tick::First(i)));
        pairs.chain([(self.window, Tick::Window)]).collect()
    }

    /// Edge number `edge`.
    pub fn edge(&self, edge: u32) -> &Probed {
        &self.edges[edge as usize]
    }

    /// The first probe of a pair leaves: the pair's number, and when the second
    /// one and the next pair are due.
    pub fn begin_pair(&mut self, edge: u32, now: Ps) -> (u32, [(Ps, Tick); 2]) {
        let probed = &mut self.edges[edge as usize];
        let pair = probed.pairs;
        probed.pairs += 1;
        let next = probed.schedule.due(probed.pairs) * NS;
        (pair, [(now + SPACING * NS, Tick::Second(edge)), (next, Tick::First(edge))])
    }

    /// Number of the pair that was begun last.
    pub fn pair(&self, edge: u32) -> u32 {
        self.edges[edge as usize].pairs - 1
    }

    /// An answer came back.
    pub fn collect(&mut self, edge: u32, exchange: Exchange) {
        self.edges[edge as usize].exchanges.push(exchange);
    }

    /// A window is over: computes its corrections, and tells when they are in
    /// force and when the next window is over.
    pub fn close_window(&mut self, hosts: &[HostClock], now: Ps) -> [(Ps, Tick); 2] {
        let previous: BTreeMap<HostId, Correction> =
            (0..).zip(hosts).filter_map(|(host, clock)| Some((host, clock.correction?))).collect();
        let fitted = |edge: &mut Probed| {
            let exchanges = std::mem::take(&mut edge.exchanges);
            let fit = edge.memory.fit(&exchanges, &self.fit, self.window / NS)?;
            Some(Edge { from: edge.from, to: edge.to, fit })
        };
        let edges: Vec<Edge> = self.edges.iter_mut().filter_map(fitted).collect();
        self.solution = solve(&edges, &previous, &self.network);
        self.noise = noise(&edges);
        [(now + PROCESSING, Tick::Correct), (now + self.window, Tick::Window)]
    }

    /// The corrections of the last window come into force; the noise of a stamp
    /// that it showed, in nanoseconds. A host without one keeps what it has.
    pub fn correct(&mut self, hosts: &mut [HostClock]) -> f64 {
        let solution = std::mem::take(&mut self.solution);
        self.windows += u64::from(!solution.hosts.is_empty());
        for (host, correction, part) in solution.hosts {
            let clock = &mut hosts[host as usize];
            clock.correction = Some(correction);
            clock.part = part;
        }
        self.noise
    }
}
