//! Decisions of a coordinator: who is a member, who probes whom, what each host's correction
//! is. Pure: connections are numbers, times are arguments.

use super::pki::Identity;
use super::wire::{Certainty, Delays, Edge, Fleet, FromCoordinator, HostState, Member, Pair, Realtime};
use crate::config::{Key, Mesh};
use ipnet::IpNet;
use onramp_clock::{Correction, HostId, NetworkOptions, Solution, mesh, solve};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

const MS: u64 = 1_000_000;
/// A host that lost its connection stays a member for so long: it may come back.
const GRACE: u64 = 10_000 * MS;
/// Hosts that come within this time become members together.
const GATHER: u64 = 200 * MS;
/// Cost of telling a host of another one: a keyed hash and a part of a line.
const TELL: u64 = 2_000;
/// Which mesh is drawn.
const SEED: u64 = 0x6f6e_7261_6d70;
const SYNCHRONISED: &str = "synchronised";

/// A connection's number.
pub type Conn = u64;

/// Messages to hosts.
pub type Said = Vec<(Conn, FromCoordinator)>;

/// The key of a pair of hosts.
pub type PairKey = Box<dyn Fn(&Identity, &Identity) -> Key + Send>;

/// A coordinator, but for its sockets.
pub struct Coordinator {
    mesh: Mesh,
    pair_key: PairKey,
    hosts: BTreeMap<IpAddr, Host>,
    /// Networks in which hosts may have aliases, by the operator.
    aliases: BTreeMap<IpAddr, Vec<IpNet>>,
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
    identity: Identity,
    by_programs: bool,
    aliases: Vec<IpAddr>,
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
            aliases: BTreeMap::new(),
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

    /// From now on hosts may have aliases in these networks, and in no others.
    pub fn set_aliases(&mut self, now: u64, aliases: BTreeMap<IpAddr, Vec<IpNet>>) {
        self.aliases = aliases;
        self.membership_changed(now);
    }

    /// The time of day in this round.
    pub fn set_realtime(&mut self, realtime: Option<Realtime>) {
        self.realtime = realtime;
    }

    /// A host is there, also under other addresses, and goes by a correction of an earlier coordinator.
    /// Returns the connection it had until now, if it had another.
    pub fn hello(
        &mut self,
        now: u64,
        conn: Conn,
        identity: Identity,
        correction: Option<Correction>,
        by_programs: bool,
        aliases: Vec<IpAddr>,
    ) -> Option<Conn> {
        let address = identity.address;
        let next = self.numbers.len() as HostId;
        let number = *self.numbers.entry(address).or_insert(next);
        match correction {
            // The fleet's time goes on where it is already known.
            Some(correction) => drop(self.corrections.entry(number).or_insert(correction)),
            // It began anew, and its clock may have, too.
            None => drop(self.corrections.remove(&number)),
        }
        let state = "waiting for its first round".into();
        let host = Host { conn: Ok(conn), number, identity, by_programs, aliases, report: None, state };
        let old = self.hosts.insert(address, host);
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

    /// A host has another certificate of its membership.
    pub fn renewed(&mut self, identity: Identity) {
        let host = self.hosts.get_mut(&identity.address);
        if let Some(host) = host.filter(|host| host.identity.membership == identity.membership) {
            host.identity = identity;
        }
    }

    /// Hosts that `is_none` names are no members any more, and the others hear of it at once.
    pub fn expel(&mut self, now: u64, is_none: impl Fn(&Identity) -> bool) {
        self.hosts.retain(|_, host| {
            let removed = is_none(&host.identity);
            if removed {
                self.corrections.remove(&host.number);
                self.tell = Some(now);
            }
            !removed
        });
    }

    /// Returns whether the host at `address` is there.
    #[must_use]
    pub fn is_connected(&self, address: IpAddr) -> bool {
        self.hosts.get(&address).is_some_and(|host| host.conn.is_ok())
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
                certificate_expires: Some(host.identity.expires),
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
            self.corrections.retain(|n, _| !self.hosts.values().any(|h| h.number == *n && lost(h)));
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
            self.realtime = None;
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

    /// Whose every alias is: of a host for which the operator has vouched. A certificate's address is nobody
    /// else's, and of two hosts that may have an alias the one has it that joined first.
    fn aliases(&self) -> BTreeMap<IpAddr, HostId> {
        let mut by_age: Vec<&Host> = self.hosts.values().collect();
        by_age.sort_by_key(|host| host.identity.membership);
        let mut owners = BTreeMap::new();
        for host in by_age {
            let networks = self.aliases.get(&host.identity.address).map_or(&[][..], Vec::as_slice);
            let may_have = |alias: &&IpAddr| networks.iter().any(|network| network.contains(*alias));
            for alias in host.aliases.iter().filter(may_have).filter(|alias| !self.hosts.contains_key(alias)) {
                owners.entry(*alias).or_insert(host.number);
            }
        }
        owners
    }

    fn members(&self) -> Said {
        let by_number = self.by_number();
        let owners = self.aliases();
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
            let of = |host: &Host, alias: &IpAddr| owners.get(alias) == Some(&host.number);
            let member = |other: &IpAddr| {
                let its = &self.hosts[other];
                let aliases = its.aliases.iter().filter(|alias| of(its, alias)).copied().collect();
                Member { address: *other, aliases, key: (self.pair_key)(&host.identity, &its.identity) }
            };
            let members = FromCoordinator::Members {
                members: others.map(member).collect(),
                not_yours: host.aliases.iter().filter(|alias| !of(host, alias)).copied().collect(),
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
        // A round without them, such as the first of a coordinator, does not make hosts forgotten:
        // the fleet's time would begin anew.
        self.corrections.extend(solution.hosts.iter().map(|(n, correction, _)| (*n, *correction)));
        self.corrections.retain(|n, _| !solution.suspects.contains(n));
        self.corrected(&solution, &by_number, &network)
    }

    /// Result of a round that each host hears of.
    fn corrected(
        &mut self,
        solution: &Solution,
        by_number: &BTreeMap<HostId, IpAddr>,
        network: &[onramp_clock::Edge],
    ) -> Said {
        let probed: BTreeSet<HostId> = network.iter().flat_map(|e| [e.from, e.to]).collect();
        let noise = onramp_clock::noise(network);
        let mut parts: BTreeMap<u32, Vec<Certainty>> = BTreeMap::new();
        for (number, c, part) in &solution.hosts {
            if let Some(address) = by_number.get(number) {
                let certainty = Certainty { address: *address, sigma: c.sigma, drift_sigma: c.drift_sigma };
                parts.entry(*part).or_default().push(certainty);
            }
        }
        let alone = self.hosts.len() == 1;
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
    let apart = to.offset_at(there).wrapping_sub(from.offset_at(edge.fit.base));
    let surplus = edge.fit.offset.wrapping_sub(apart);
    let shifted = |d: Delays, by: i64| Delays {
        min_ns: d.min_ns.saturating_add(by),
        p50_ns: d.p50_ns.saturating_add(by),
        p99_ns: d.p99_ns.saturating_add(by),
    };
    let (a, b) = (*by_number.get(&edge.from)?, *by_number.get(&edge.to)?);
    Some([
        Pair { from: a, to: b, owd: shifted(seen.forward, surplus) },
        Pair { from: b, to: a, owd: shifted(seen.backward, surplus.wrapping_neg()) },
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::pki::Membership;
    use onramp_clock::EdgeFit;
    use proptest::collection::vec;
    use proptest::prelude::*;

    const WINDOW: u64 = 2_000 * MS;
    /// By which each host's clock is ahead of the one before.
    const AHEAD: i64 = 1_000_000_000_000;

    fn host(n: u8) -> IpAddr {
        [10, 0, 0, n].into()
    }

    fn identity(n: u8) -> Identity {
        Identity { address: host(n), membership: Membership([n; 16]), expires: u64::MAX }
    }

    /// A report of a host's probes of others, who are as many times [`AHEAD`] as the numbers say.
    fn edge(from: u8, to: u8, now: u64) -> Edge {
        let offset = (i64::from(to) - i64::from(from)) * AHEAD;
        let base = now.wrapping_add_signed(i64::from(from) * AHEAD);
        let fit = EdgeFit { noise: 30.0, points: 99, seen: 100, ..crate::fleet::fit(base, offset) };
        let delays = Delays { min_ns: 4_000, p50_ns: 5_000, p99_ns: 9_000 };
        Edge { to: host(to), fit, forward: delays, backward: delays }
    }

    /// A coordinator, the time, and hosts whose connections have their numbers.
    struct Lab {
        coordinator: Coordinator,
        now: u64,
    }

    impl Lab {
        fn with(hosts: impl IntoIterator<Item = u8>) -> Self {
            let mesh = Mesh { probes: 10, window: WINDOW, interval: 8 * MS };
            let mut lab = Self { coordinator: Coordinator::new(mesh, Box::new(|_, _| Key([7; 16])), 0), now: 0 };
            hosts.into_iter().for_each(|n| lab.hello(n));
            lab
        }

        fn hello(&mut self, n: u8) {
            self.hello_with(n, &[]);
        }

        fn hello_with(&mut self, n: u8, aliases: &[IpAddr]) {
            self.coordinator.hello(self.now, n.into(), identity(n), None, true, aliases.into());
        }

        /// Goes on until something is said.
        fn next(&mut self) -> Said {
            loop {
                self.now = self.now.max(self.coordinator.due());
                let said = self.coordinator.tick(self.now);
                if !said.is_empty() || self.now > 1_000_000 * MS {
                    return said;
                }
            }
        }

        /// The number of the round for which reports are asked.
        fn collect(&mut self) -> u64 {
            loop {
                if let Some((_, FromCoordinator::Collect { round })) = self.next().first() {
                    return *round;
                }
            }
        }

        /// A round in which each of `edges` is reported, and `all` report; what it gives.
        fn round(&mut self, all: &[u8], edges: impl Fn(u64) -> Vec<(u8, Edge)>) -> BTreeMap<u8, FromCoordinator> {
            let round = self.collect();
            let edges = edges(self.now);
            for n in all {
                let own = edges.iter().filter(|(from, _)| from == n).map(|(_, edge)| *edge).collect();
                self.coordinator.report(Conn::from(*n), round, own);
            }
            self.next().into_iter().map(|(conn, said)| (conn as u8, said)).collect()
        }

        fn state(&self, n: u8) -> String {
            let fleet = self.coordinator.fleet();
            fleet.hosts.iter().find(|h| h.address == host(n)).expect("it is a member").state.clone()
        }
    }

    /// Everybody probes those with higher numbers.
    fn full(hosts: &[u8]) -> impl Fn(u64) -> Vec<(u8, Edge)> + '_ {
        move |now| {
            let pairs = hosts.iter().flat_map(|a| hosts.iter().map(move |b| (*a, *b))).filter(|(a, b)| a < b);
            pairs.map(|(a, b)| (a, edge(a, b, now))).collect()
        }
    }

    fn correction(said: &FromCoordinator) -> Option<Correction> {
        match said {
            FromCoordinator::Corrected { correction, .. } => *correction,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_alias_is_that_of_one_host() {
        let mut lab = Lab::with([1]);
        let [ours, shared, unknown]: [IpAddr; 3] = [2, 9, 99].map(|n| [10, 1, 0, n].into());
        let networks: Vec<IpNet> = ["10.1.0.0/28", "10.0.0.0/24"].map(|net| net.parse().unwrap()).into();
        lab.coordinator.set_aliases(0, [(host(2), networks.clone()), (host(3), networks)].into());
        lab.hello_with(2, &[ours, shared, host(3), unknown]);
        lab.hello_with(3, &[shared]);
        let told: BTreeMap<Conn, _> = lab.next().into_iter().collect();
        let of = |conn: Conn| match &told[&conn] {
            FromCoordinator::Members { members, not_yours, .. } => {
                let named = |m: &Member| m.aliases.iter().map(move |alias| (m.address, *alias)).collect::<Vec<_>>();
                (members.iter().flat_map(named).collect(), not_yours.clone())
            }
            what => panic!("{what:?}"),
        };
        assert_eq!(of(1), (vec![(host(2), ours), (host(2), shared)], vec![]));
        assert_eq!(of(2), (vec![], vec![host(3), unknown]), "a certificate is worth more, and nobody has vouched");
        assert_eq!(of(3), (vec![(host(2), ours), (host(2), shared)], vec![shared]), "who joined first has it");
        lab.coordinator.set_aliases(lab.now, BTreeMap::new());
        let told: BTreeMap<Conn, _> = lab.next().into_iter().collect();
        let FromCoordinator::Members { members, .. } = &told[&1] else { panic!("{told:?}") };
        assert!(members.iter().all(|m| m.aliases.is_empty()), "{members:?}");
    }

    #[test]
    fn members_hear_of_each_other_and_a_round_gives_corrections() {
        let mut lab = Lab::with(1..=4);
        let said = lab.next();
        assert_eq!(said.len(), 4);
        let mut probed = 0;
        for (_, what) in &said {
            let FromCoordinator::Members { members, probe, .. } = what else { panic!("{what:?}") };
            assert_eq!(members.len(), 3);
            probed += probe.len();
        }
        assert_eq!(probed, 6, "each pair once");
        let given = lab.round(&[1, 2, 3, 4], full(&[1, 2, 3, 4]));
        let offsets: Vec<i64> = given.values().map(|said| correction(said).expect("known").offset).collect();
        for pair in offsets.windows(2) {
            assert!((pair[1] - pair[0] - AHEAD).abs() < 10, "{offsets:?}");
        }
        let FromCoordinator::Corrected { comparable, noise, .. } = &given[&2] else { panic!() };
        assert_eq!((comparable.len(), *noise), (3, 30.0));
        let fleet = lab.coordinator.fleet();
        assert_eq!((fleet.delays.len(), fleet.parts.len(), fleet.rounds), (12, 1, 1));
        assert!(fleet.delays.iter().all(|p| (p.owd.p50_ns - 5_000).abs() < 10), "{:?}", fleet.delays);
    }

    #[test]
    fn one_that_lies_is_found_and_the_others_are_right() {
        let all = [1, 2, 3, 4, 5, 6];
        let mut lab = Lab::with(all);
        // Each of its edges by another amount, or it would only have another clock.
        let lying = |now| {
            let mut edges = full(&all)(now);
            for (i, (from, edge)) in edges.iter_mut().enumerate() {
                if *from == 3 || edge.to == host(3) {
                    edge.fit.offset += 1_000_000 * (1 + i as i64 * i as i64);
                }
            }
            edges
        };
        let given = lab.round(&all, lying);
        assert!(correction(&given[&3]).is_none() && lab.state(3).contains("disagree"), "{}", lab.state(3));
        let [one, six] = [1, 6].map(|n| correction(&given[&n]).expect("known").offset);
        assert!((six - one - 5 * AHEAD).abs() < 10);
    }

    #[test]
    fn parts_that_do_not_reach_each_other_are_told_apart() {
        let mut lab = Lab::with(1..=4);
        let halves = |now| vec![(1, edge(1, 2, now)), (3, edge(3, 4, now))];
        let given = lab.round(&[1, 2, 3, 4], halves);
        assert_eq!(lab.coordinator.fleet().parts, [[host(1), host(2)], [host(3), host(4)]]);
        let FromCoordinator::Corrected { comparable, .. } = &given[&1] else { panic!() };
        assert_eq!(comparable.iter().map(|c| c.address).collect::<Vec<_>>(), [host(2)]);
    }

    #[test]
    fn edges_that_mean_nothing_are_left_out() {
        let mut lab = Lab::with(1..=3);
        let odd = |now| {
            let mut edges = full(&[1, 2, 3])(now);
            // To itself, to nobody here, and once more with another offset.
            edges.push((1, edge(1, 1, now)));
            edges.push((1, edge(1, 9, now)));
            let mut again = edge(1, 2, now);
            again.fit.offset += 1_000_000_000;
            edges.push((1, again));
            edges
        };
        let given = lab.round(&[1, 2, 3], odd);
        let [one, two] = [1, 2].map(|n| correction(&given[&n]).expect("known").offset);
        assert!((two - one - AHEAD).abs() < 10, "the first counts");
        assert_eq!(lab.coordinator.fleet().delays.len(), 6);
    }

    #[test]
    fn who_does_not_report_does_not_keep_the_others() {
        let mut lab = Lab::with(1..=3);
        let round = lab.collect();
        let asked = lab.now;
        // Reports of another round, of nobody, and twice: the last counts.
        lab.coordinator.report(1, round - 1, vec![edge(1, 2, asked)]);
        lab.coordinator.report(77, round, vec![edge(1, 2, asked)]);
        lab.coordinator.report(1, round, vec![]);
        lab.coordinator.report(1, round, vec![edge(1, 2, asked)]);
        let given: BTreeMap<u8, FromCoordinator> = lab.next().into_iter().map(|(c, s)| (c as u8, s)).collect();
        assert!(lab.now - asked <= WINDOW / 4, "it waits for a part of a window");
        assert!(
            correction(&given[&1]).is_some() && correction(&given[&2]).is_some() && correction(&given[&3]).is_none()
        );
        assert_eq!(lab.state(3), "no probe of its own, or to it, was answered");
        // Late, it changes nothing.
        lab.coordinator.report(3, round, vec![edge(3, 1, asked)]);
        assert_eq!(lab.state(3), "no probe of its own, or to it, was answered");
        let (begun, next) = (lab.now, lab.collect());
        assert!(next == round + 1 && lab.now - begun <= WINDOW);
    }

    #[test]
    fn a_host_alone_hears_why() {
        let mut lab = Lab::with([1]);
        let given = lab.round(&[1], |_| vec![]);
        assert!(correction(&given[&1]).is_none() && lab.state(1).starts_with("alone"));
    }

    #[test]
    fn a_host_that_is_lost_stays_a_while_and_may_come_back() {
        let mut lab = Lab::with(1..=3);
        lab.round(&[1, 2, 3], full(&[1, 2, 3]));
        lab.coordinator.gone(lab.now, 3);
        let present = |lab: &Lab| lab.coordinator.fleet().hosts.len();
        lab.round(&[1, 2], full(&[1, 2]));
        assert_eq!(present(&lab), 3);
        // It comes back by another connection; then by a third, while the second is still there.
        assert_eq!(lab.coordinator.hello(lab.now, 30, identity(3), None, true, vec![]), None);
        assert_eq!(lab.coordinator.hello(lab.now, 31, identity(3), None, true, vec![]), Some(30));
        lab.coordinator.gone(lab.now, 30);
        assert!(lab.coordinator.fleet().hosts[2].connected, "the old connection's end is not its");
        lab.coordinator.gone(lab.now, 31);
        lab.now += GRACE + MS;
        lab.round(&[1, 2], full(&[1, 2]));
        assert_eq!(present(&lab), 2);
    }

    #[test]
    fn who_is_expelled_is_no_member_at_once() {
        let mut lab = Lab::with(1..=3);
        lab.round(&[1, 2, 3], full(&[1, 2, 3]));
        lab.coordinator.expel(lab.now, |identity| identity.address == host(3));
        let told = lab.coordinator.tick(lab.now);
        assert_eq!(told.iter().map(|(conn, _)| *conn).collect::<Vec<_>>(), [1, 2]);
        for (conn, what) in told {
            let FromCoordinator::Members { members, .. } = what else { panic!("{what:?}") };
            assert!(members.len() == 1 && members[0].address != host(3), "{conn}: {members:?}");
        }
        assert!(!lab.coordinator.is_connected(host(3)));
    }

    #[test]
    fn the_fleets_time_goes_on_with_another_coordinator() {
        let all = [1, 2, 3];
        let mut first = Lab::with(all);
        // Its reference is host 1.
        let given = first.round(&all, full(&all));
        let mut second = Lab::with([]);
        // Host 2 comes first, and would be the reference.
        for n in [2, 1, 3] {
            second.coordinator.hello(0, n.into(), identity(n), correction(&given[&n]), true, vec![]);
        }
        let then = second.round(&all, full(&all));
        for n in all {
            let [before, after] = [&given, &then].map(|round| correction(&round[&n]).expect("known"));
            let at = after.base;
            assert!((after.offset_at(at) - before.offset_at(at)).abs() < 50, "{n}: {before:?}, {after:?}");
        }
    }

    #[test]
    fn a_round_in_which_nothing_was_seen_does_not_end_the_fleets_time() {
        let all = [1, 2, 3];
        let mut first = Lab::with(all);
        let given = first.round(&all, full(&all));
        let mut second = Lab::with([]);
        second.coordinator.hello(0, 3, identity(3), correction(&given[&3]), true, vec![]);
        let alone = second.round(&[3], |_| vec![]);
        assert!(correction(&alone[&3]).is_none());
        for n in [2, 1] {
            second.coordinator.hello(second.now, n.into(), identity(n), correction(&given[&n]), true, vec![]);
        }
        let then = second.round(&all, full(&all));
        for n in all {
            let [before, after] = [&given, &then].map(|round| correction(&round[&n]).expect("known"));
            let at = after.base;
            assert!((after.offset_at(at) - before.offset_at(at)).abs() < 1_000, "{n}: {before:?}, {after:?}");
        }
    }

    #[test]
    fn a_host_that_began_anew_is_not_taken_for_what_it_was() {
        let all = [1, 2];
        let mut lab = Lab::with(all);
        let given = lab.round(&all, full(&all));
        // Host 2 was started again, and its clock with it.
        lab.hello(2);
        let again = |now: u64| {
            let mut edge = edge(1, 2, now);
            edge.fit.offset = -5 * AHEAD;
            vec![(1, edge)]
        };
        let then = lab.round(&all, again);
        let [before, after] = [&given, &then].map(|round| correction(&round[&1]).expect("known"));
        assert!((after.offset_at(after.base) - before.offset_at(after.base)).abs() < 1_000, "{before:?}, {after:?}");
    }

    fn any_edge() -> impl Strategy<Value = Edge> {
        let numbers = (any::<u64>(), any::<i64>(), -1e-3..1e-3, 0.0..1e18, 0.0..1e3, any::<[i64; 6]>());
        (1..6u8, numbers).prop_map(|(to, (base, offset, drift, sigma, drift_sigma, delays))| {
            let [min_ns, p50_ns, p99_ns, a, b, c] = delays;
            let fit = EdgeFit { base, offset, drift, sigma, drift_sigma, ..edge(1, to, 0).fit };
            let forward = Delays { min_ns, p50_ns, p99_ns };
            Edge { to: host(to), fit, forward, backward: Delays { min_ns: a, p50_ns: b, p99_ns: c } }
        })
    }

    proptest! {
        #[test]
        fn whatever_is_reported_the_rounds_go_on(reports in vec((1..5u8, vec(any_edge(), 0..6)), 0..6)) {
            let mut lab = Lab::with(1..=4);
            for _ in 0..2 {
                let round = lab.collect();
                for (from, edges) in &reports {
                    lab.coordinator.report((*from).into(), round, edges.clone());
                }
                let given = lab.next();
                prop_assert_eq!(given.len(), 4);
                for (_, said) in given {
                    // What cannot be said in JSON would end connections.
                    let line = serde_json::to_vec(&said).unwrap();
                    prop_assert_eq!(super::super::wire::parse(&line), Ok(said));
                }
            }
        }
    }
}
