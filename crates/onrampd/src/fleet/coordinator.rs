//! What a coordinator decides: who is a member, who probes whom, what each host's correction
//! is. Pure: connections are numbers, times are arguments.

use super::wire::{Certainty, Delays, Edge, Fleet, FromCoordinator, HostState, Member, Pair, Realtime};
use crate::config::{Key, Mesh};
use onramp_clock::{Correction, HostId, NetworkOptions, Solution, mesh, solve};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const MS: u64 = 1_000_000;
/// A host that lost its connection stays a member for so long: it may come back.
const GRACE: u64 = 10_000 * MS;
/// Hosts that come within this time become members together.
const GATHER: u64 = 200 * MS;
/// What telling a host of another one takes: a keyed hash and a part of a line.
const TELL: u64 = 2_000;
/// Which mesh is drawn.
const SEED: u64 = 0x6f6e_7261_6d70;
const SYNCHRONISED: &str = "synchronised";

/// A connection's number.
pub type Conn = u64;

/// What is to be said to whom.
pub type Said = Vec<(Conn, FromCoordinator)>;

/// The key of a pair of hosts.
pub type PairKey = Box<dyn Fn(IpAddr, IpAddr) -> Key + Send>;

/// A coordinator, but for its sockets.
pub struct Coordinator {
    mesh: Mesh,
    pair_key: PairKey,
    hosts: BTreeMap<IpAddr, Host>,
    /// Numbers are not given twice, so that a host keeps its place in the mesh.
    numbers: BTreeMap<IpAddr, HostId>,
    corrections: BTreeMap<HostId, Correction>,
    round: u64,
    collecting: bool,
    /// When the next round begins, or the present one ends.
    due: u64,
    /// When changed membership is told.
    tell: Option<u64>,
    fleet: Fleet,
    realtime: Option<Realtime>,
}

struct Host {
    /// Its connection, or when that ended.
    conn: Result<Conn, u64>,
    number: HostId,
    by_programs: bool,
    report: Option<Vec<Edge>>,
    state: String,
}

impl Coordinator {
    /// One without hosts.
    #[must_use]
    pub fn new(mesh: Mesh, pair_key: PairKey, now: u64) -> Self {
        Self {
            mesh,
            pair_key,
            hosts: BTreeMap::new(),
            numbers: BTreeMap::new(),
            corrections: BTreeMap::new(),
            round: 0,
            collecting: false,
            due: now + mesh.window,
            tell: None,
            fleet: Fleet::default(),
            realtime: None,
        }
    }

    /// From now on the time of day is this.
    pub fn set_realtime(&mut self, realtime: Option<Realtime>) {
        self.realtime = realtime;
    }

    /// A host is there, and goes by a correction of an earlier coordinator. Returns the
    /// connection it had until now, if it had another.
    pub fn hello(
        &mut self,
        now: u64,
        conn: Conn,
        address: IpAddr,
        correction: Option<Correction>,
        by_programs: bool,
    ) -> Option<Conn> {
        let next = self.numbers.len() as HostId;
        let number = *self.numbers.entry(address).or_insert(next);
        if let Some(correction) = correction {
            // The fleet's time goes on where it is already known.
            self.corrections.entry(number).or_insert(correction);
        }
        let state = "waiting for its first round".into();
        let old = self.hosts.insert(address, Host { conn: Ok(conn), number, by_programs, report: None, state });
        // Everybody hears of a new one; one that came back hears of everybody.
        self.membership_changed(now);
        old.and_then(|old| old.conn.ok()).filter(|old| *old != conn)
    }

    /// A host's report.
    pub fn report(&mut self, conn: Conn, round: u64, edges: Vec<Edge>) {
        if let Some(host) = self.hosts.values_mut().find(|h| h.conn == Ok(conn))
            && self.collecting
            && round == self.round
        {
            host.report = Some(edges);
        }
    }

    /// A connection has ended.
    pub fn gone(&mut self, now: u64, conn: Conn) {
        self.hosts.values_mut().filter(|h| h.conn == Ok(conn)).for_each(|h| h.conn = Err(now));
    }

    /// How the fleet is.
    #[must_use]
    pub fn fleet(&self) -> Fleet {
        let state = |(address, host): (&IpAddr, &Host)| {
            let correction = self.corrections.get(&host.number).filter(|_| host.state == SYNCHRONISED);
            HostState {
                address: *address,
                connected: host.conn.is_ok(),
                state: host.state.clone(),
                uncertainty_ns: correction.map(|c| c.sigma),
                drift_ppm: correction.map(|c| c.drift * 1e6),
            }
        };
        Fleet { hosts: self.hosts.iter().map(state).collect(), rounds: self.round, ..self.fleet.clone() }
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.tell.map_or(self.due, |tell| tell.min(self.due))
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64) -> Said {
        let mut said = Said::new();
        let lost = |h: &Host| h.conn.is_err_and(|since| now.saturating_sub(since) > GRACE);
        if self.hosts.values().any(lost) {
            self.hosts.retain(|_, h| !lost(h));
            self.membership_changed(now);
        }
        if self.tell.is_some_and(|tell| now >= tell) {
            self.tell = None;
            said.extend(self.members());
        }
        let all_reported = self.hosts.values().all(|h| h.conn.is_err() || h.report.is_some());
        if self.collecting && (now >= self.due || all_reported) {
            self.collecting = false;
            // The next round comes when it would have come if nobody had been waited for.
            self.due = self.due - self.patience() + self.mesh.window;
            said.extend(self.solve());
        } else if !self.collecting && now >= self.due {
            self.round += 1;
            self.collecting = true;
            self.due = now + self.patience();
            self.hosts.values_mut().for_each(|h| h.report = None);
            let collect = FromCoordinator::Collect { round: self.round };
            said.extend(self.hosts.values().filter_map(|h| Some((h.conn.ok()?, collect.clone()))));
        }
        said
    }

    /// How long a round waits for reports.
    fn patience(&self) -> u64 {
        (self.mesh.window / 4).min(500 * MS)
    }

    fn membership_changed(&mut self, now: u64) {
        let work = TELL * (self.hosts.len() as u64).pow(2);
        self.tell.get_or_insert(now + GATHER + work);
    }

    fn by_number(&self) -> BTreeMap<HostId, IpAddr> {
        self.hosts.iter().map(|(address, host)| (host.number, *address)).collect()
    }

    fn members(&self) -> Said {
        let by_number = self.by_number();
        let numbers: Vec<HostId> = by_number.keys().copied().collect();
        let mut probes: BTreeMap<HostId, Vec<IpAddr>> = BTreeMap::new();
        for (from, to) in mesh::edges(&numbers, self.mesh.probes, SEED) {
            // Who answers best is asked: programs do at once, and know when their answer left.
            let [asks, answers] = [from, to].map(|n| self.hosts[&by_number[&n]].by_programs);
            let (from, to) = if asks && !answers { (to, from) } else { (from, to) };
            probes.entry(from).or_default().push(by_number[&to]);
        }
        let tell = |(address, host): (&IpAddr, &Host)| {
            let conn = host.conn.ok()?;
            let others = self.hosts.keys().filter(|other| *other != address);
            let member = |other: &IpAddr| Member { address: *other, key: (self.pair_key)(*address, *other) };
            let members = FromCoordinator::Members {
                members: others.map(member).collect(),
                probe: probes.get(&host.number).cloned().unwrap_or_default(),
                interval: self.mesh.interval,
                window: self.mesh.window,
            };
            Some((conn, members))
        };
        self.hosts.iter().filter_map(tell).collect()
    }

    /// Ends a round.
    fn solve(&mut self) -> Said {
        let by_number = self.by_number();
        let mut edges = Vec::new();
        for host in self.hosts.values() {
            // Each pair once and no host itself, whatever a report says.
            let mut seen = BTreeSet::from([host.number]);
            for edge in host.report.iter().flatten() {
                let to = self.hosts.get(&edge.to).map(|h| h.number).filter(|to| seen.insert(*to));
                edges.extend(to.map(|to| (onramp_clock::Edge { from: host.number, to, fit: edge.fit }, edge)));
            }
        }
        let network: Vec<onramp_clock::Edge> = edges.iter().map(|(edge, _)| *edge).collect();
        let solution = solve(&network, &self.corrections, &NetworkOptions::default());
        let named = |n: &HostId| by_number.get(n).copied();
        let delays = edges.iter().filter_map(|(edge, seen)| delays(edge, seen, &solution, &by_number));
        self.fleet = Fleet {
            parts: solution.parts.iter().map(|part| part.iter().filter_map(named).collect()).collect(),
            excluded: solution.excluded.iter().filter_map(|(a, b, ns)| Some((named(a)?, named(b)?, *ns))).collect(),
            edge_sigma_ns: solution.edge_sigma,
            delays: delays.flatten().collect(),
            ..Fleet::default()
        };
        let probed: BTreeSet<HostId> = network.iter().flat_map(|e| [e.from, e.to]).collect();
        self.corrections = solution.hosts.iter().map(|(n, correction, _)| (*n, *correction)).collect();
        self.corrected(&solution, &by_number, &probed)
    }

    /// What each host hears of a round.
    fn corrected(
        &mut self,
        solution: &Solution,
        by_number: &BTreeMap<HostId, IpAddr>,
        probed: &BTreeSet<HostId>,
    ) -> Said {
        let mut parts: BTreeMap<u32, Vec<Certainty>> = BTreeMap::new();
        for (number, c, part) in &solution.hosts {
            if let Some(address) = by_number.get(number) {
                let certainty = Certainty { address: *address, sigma: c.sigma, drift_sigma: c.drift_sigma };
                parts.entry(*part).or_default().push(certainty);
            }
        }
        let alone = self.hosts.len() == 1;
        let mut noises: Vec<f64> =
            self.hosts.values().flat_map(|h| h.report.iter().flatten()).map(|e| e.fit.noise).collect();
        noises.sort_by(f64::total_cmp);
        let noise = noises.get(noises.len() / 2).copied().unwrap_or(0.0);
        let mut said = Said::new();
        for (address, host) in &mut self.hosts {
            let (correction, comparable) = match correction_of(solution, host.number) {
                Some((correction, part)) => {
                    let others = parts[&part].iter().filter(|c| c.address != *address);
                    (Some(correction), others.copied().collect())
                }
                None => (None, Vec::new()),
            };
            host.state = match correction {
                Some(_) => SYNCHRONISED,
                None if alone => "alone: no other host has joined",
                None if solution.suspects.contains(&host.number) => {
                    "its time stamps disagree with those of all others: its clock stepped, or they are not true"
                }
                None if probed.contains(&host.number) => "what its probes say cannot be used",
                None => "no probe of its own, or to it, was answered",
            }
            .into();
            if let Ok(conn) = host.conn {
                let reason = if correction.is_some() { String::new() } else { host.state.clone() };
                said.push((
                    conn,
                    FromCoordinator::Corrected { correction, reason, comparable, noise, realtime: self.realtime },
                ));
            }
        }
        said
    }
}

fn correction_of(solution: &Solution, number: HostId) -> Option<(Correction, u32)> {
    let at = solution.hosts.binary_search_by_key(&number, |(number, ..)| *number).ok()?;
    let (_, correction, part) = solution.hosts[at];
    Some((correction, part))
}

/// Both directions' one-way delays of a pair, by the fleet's time instead of the pair's fit.
fn delays(
    edge: &onramp_clock::Edge,
    seen: &Edge,
    solution: &Solution,
    by_number: &BTreeMap<HostId, IpAddr>,
) -> Option<[Pair; 2]> {
    let ((from, part), (to, other)) = (correction_of(solution, edge.from)?, correction_of(solution, edge.to)?);
    if part != other {
        return None;
    }
    let there = edge.fit.base.wrapping_add_signed(edge.fit.offset);
    let surplus = edge.fit.offset - (to.offset_at(there) - from.offset_at(edge.fit.base));
    let shifted = |d: Delays, by: i64| Delays {
        min_ns: d.min_ns.saturating_add(by),
        p50_ns: d.p50_ns.saturating_add(by),
        p99_ns: d.p99_ns.saturating_add(by),
    };
    let (a, b) = (*by_number.get(&edge.from)?, *by_number.get(&edge.to)?);
    Some([
        Pair { from: a, to: b, owd: shifted(seen.forward, surplus) },
        Pair { from: b, to: a, owd: shifted(seen.backward, -surplus) },
    ])
}
