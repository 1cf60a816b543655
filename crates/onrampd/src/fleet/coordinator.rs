//! Decisions of a coordinator: who is a member, who probes whom, what each host's correction
//! is. Pure: connections are numbers, times are arguments.

use super::pairs::{Epochs, Statement};
use super::pki::Identity;
use super::wire::{Alike, Comparable, Delays, Edge, Fleet};
use super::wire::{FromCoordinator, HostState, Member, Pair, Progress, Realtime};
use crate::config::{Mesh, Mode};
use crate::effects::Effects;
use crate::policy::{Applied, Labels, Version};
use ipnet::IpNet;
use onramp_clock::{Correction, HostId, NetworkOptions, Solution, mesh, solve};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

const MS: u64 = 1_000_000;
/// A host that lost its connection stays a member for so long: it may come back.
const GRACE: u64 = 10_000 * MS;
/// Hosts that come within this time become members together.
const GATHER: u64 = 200 * MS;
/// The same for each host there is, so that a large fleet hears of several changes at once.
const GATHER_PER_HOST: u64 = 50_000;
/// Most members in the changes told at a time, over all hosts that hear of them. The others follow.
const MEMBERS_AT_ONCE: usize = 1 << 19;
/// Most certainties told in a round, over all hosts that hear of them. The others follow.
const CERTAINTIES_AT_ONCE: usize = 1 << 23;
/// At least so many hosts' changes are told at a time.
const LEAST_AT_ONCE: usize = 16;
/// Factor by which a told certainty exceeds the true one, before it is rounded up.
const MARGIN: f64 = 1.25;
/// Factor by which it may exceed it later until it is told anew.
const LOOSE: f64 = 2.25;
/// Which mesh is drawn.
const SEED: u64 = 0x6f6e_7261_6d70;
/// Most lines of the log about one host's mode in [`LOG_SPAN`].
const MOST_LINES: u32 = 10;
const LOG_SPAN: u64 = 60_000 * MS;
const SYNCHRONISED: &str = "synchronised";

/// A connection's number.
pub type Conn = u64;

/// Messages to hosts.
pub type Said = Vec<(Conn, FromCoordinator)>;

/// A coordinator, but for its sockets.
pub struct Coordinator {
    mesh: Mesh,
    /// Keys of pairs in use, and whether hosts that have the list are to hear of it.
    epochs: Epochs,
    turned: bool,
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
    /// Addresses of members that are new, gone or have other keys, and of whom the others do not know it yet.
    changed: BTreeMap<IpAddr, u64>,
    /// Changes so far, by which those in `changed` are numbered.
    changes: u64,
    /// Hosts that wait for the list of all members.
    lists: VecDeque<IpAddr>,
    /// Whose connection is whose.
    conns: BTreeMap<Conn, IpAddr>,
    /// When hosts lost their connections.
    lost: VecDeque<(u64, IpAddr)>,
    /// Hosts whose report is waited for.
    awaited: usize,
    /// Parts so far.
    parts: u32,
    fleet: Fleet,
    realtime: Option<Realtime>,
    policy: Option<Version>,
}

struct Host {
    /// Its connection, or when that ended.
    conn: Result<Conn, u64>,
    number: HostId,
    identity: Identity,
    statement: Statement,
    by_programs: bool,
    aliases: Vec<IpAddr>,
    labels: Labels,
    applied: Option<Applied>,
    effects: Option<Effects>,
    logged: Logged,
    report: Option<Vec<Edge>>,
    awaited: bool,
    state: String,
    told: Told,
    listed: Listed,
    /// Certainty that the others of a part were told.
    announced: Option<Announced>,
    /// The part of whose hosts it knows all announced certainties.
    hears: Option<u32>,
}

/// Log lines about one host's mode and policy.
#[derive(Clone, Copy, Default)]
struct Logged {
    /// Mode of the last one.
    mode: Option<Mode>,
    /// Newest version of the policy beyond the coordinator's own.
    ahead: u64,
    /// Lines since then.
    lines: u32,
    since: u64,
}

/// Membership as hosts that have the list were told of it.
#[derive(Default, PartialEq)]
struct Told {
    /// Its aliases, as all others know them.
    aliases: Vec<IpAddr>,
    /// As it knows them itself.
    not_yours: Vec<IpAddr>,
    probe: Vec<IpAddr>,
}

/// State of telling a host all members.
#[derive(Clone, Copy, PartialEq)]
enum Listed {
    No,
    Waits,
    /// As it was after so many changes.
    Yes(u64),
}

#[derive(Clone, Copy)]
struct Announced {
    part: u32,
    sigma: f64,
    drift_sigma: f64,
}

/// Introduction of a host that connects.
pub struct Hello {
    /// Identity by its certificate.
    pub identity: Identity,
    /// Statement on that identity for the other hosts.
    pub statement: Statement,
    /// Correction it goes by, of an earlier coordinator.
    pub correction: Option<Correction>,
    /// Its probes are stamped and answered by the eBPF programs.
    pub by_programs: bool,
    /// Its other addresses.
    pub aliases: Vec<IpAddr>,
    /// Its labels.
    pub labels: Labels,
}

impl Coordinator {
    /// One without hosts.
    #[must_use]
    pub fn new(mesh: Mesh, epochs: Epochs, now: u64) -> Self {
        Self {
            mesh,
            epochs,
            turned: false,
            hosts: BTreeMap::new(),
            aliases: BTreeMap::new(),
            numbers: BTreeMap::new(),
            corrections: BTreeMap::new(),
            round: 0,
            collecting: false,
            due: now + mesh.window,
            tell: None,
            changed: BTreeMap::new(),
            changes: 0,
            lists: VecDeque::new(),
            conns: BTreeMap::new(),
            lost: VecDeque::new(),
            awaited: 0,
            parts: 0,
            fleet: Fleet::default(),
            realtime: None,
            policy: None,
        }
    }

    /// From now on hosts may have aliases in these networks, and in no others.
    pub fn set_aliases(&mut self, now: u64, aliases: BTreeMap<IpAddr, Vec<IpNet>>) {
        self.aliases = aliases;
        self.membership_changed(now);
    }

    /// Keys of pairs in use from now on.
    pub fn set_epochs(&mut self, epochs: Epochs) {
        self.turned |= self.epochs != epochs;
        self.epochs = epochs;
    }

    /// The time of day in this round.
    pub fn set_realtime(&mut self, realtime: Option<Realtime>) {
        self.realtime = realtime;
    }

    /// A host is there. Returns the connection it had until now, if it had another.
    pub fn hello(&mut self, now: u64, conn: Conn, hello: Hello) -> Option<Conn> {
        let Hello { identity, statement, correction, by_programs, aliases, labels } = hello;
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
        let old = self.hosts.remove(&address);
        if old.as_ref().is_none_or(|old| old.identity.membership != identity.membership) {
            self.has_changed(address);
        }
        self.awaited -= usize::from(old.as_ref().is_some_and(|old| old.awaited));
        // One that comes back knows nothing of the others, but they know of it.
        let (before, told, announced, logged, effects) =
            old.map_or_else(Default::default, |old| (old.conn.ok(), old.told, old.announced, old.logged, old.effects));
        let host = Host {
            conn: Ok(conn),
            number,
            identity,
            statement,
            by_programs,
            aliases,
            labels,
            applied: None,
            effects,
            logged,
            report: None,
            awaited: false,
            state,
            told,
            listed: Listed::No,
            announced,
            hears: None,
        };
        self.hosts.insert(address, host);
        let before = before.filter(|before| *before != conn);
        before.and_then(|before| self.conns.remove(&before));
        self.conns.insert(conn, address);
        self.membership_changed(now);
        before
    }

    /// A host's report.
    pub fn report(&mut self, conn: Conn, round: u64, edges: Vec<Edge>) {
        let host = self.conns.get(&conn).and_then(|address| self.hosts.get_mut(address));
        if let Some(host) = host.filter(|_| self.collecting && round == self.round) {
            host.report = Some(edges);
            self.awaited -= usize::from(std::mem::take(&mut host.awaited));
        }
    }

    /// The policy's present version. Returns what its hosts are told.
    pub fn set_policy(&mut self, version: Version) -> Said {
        let told = |(address, host): (&IpAddr, &Host)| {
            Some((host.conn.ok()?, FromCoordinator::Policy(version.said(*address, &host.labels))))
        };
        let said = self.hosts.iter().filter_map(told).collect();
        self.policy = Some(version);
        said
    }

    /// Message with the policy for the host of a connection; `None` if there is no policy.
    #[must_use]
    pub fn policy_of(&self, conn: Conn) -> Option<FromCoordinator> {
        let address = self.conns.get(&conn)?;
        let host = self.hosts.get(address)?;
        self.policy.as_ref().map(|version| FromCoordinator::Policy(version.said(*address, &host.labels)))
    }

    /// A host says which policy it goes by. Returns a line for the log if its mode has changed, or if it has a newer
    /// version. A host that goes to and fro does not fill the log.
    pub fn applied(&mut self, now: u64, conn: Conn, applied: Applied) -> Option<String> {
        let own = self.policy.as_ref().map_or(0, |policy| policy.version);
        let address = self.conns.get(&conn)?;
        let host = self.hosts.get_mut(address)?;
        let Applied { version, mode, why } = applied.clone();
        host.applied = Some(applied);
        let logged = &mut host.logged;
        if now.saturating_sub(logged.since) > LOG_SPAN {
            (logged.since, logged.lines) = (now, 0);
        }
        let is_ahead = version > own.max(logged.ahead);
        if !is_ahead && logged.mode == Some(mode) || logged.lines == MOST_LINES {
            return None;
        }
        logged.lines += 1;
        (logged.mode, logged.ahead) = (Some(mode), if is_ahead { version } else { logged.ahead });
        let ahead = format!(
            "{address} has version {version} of the policy, and this coordinator {own}, which is older and not followed: \
             onrampctl policy and stop-holding take up the newest that a coordinator has"
        );
        Some(if is_ahead { ahead } else { format!("mode of {address}: {mode}: {why}") })
    }

    /// A host says what its traffic has met so far.
    pub fn effects(&mut self, conn: Conn, effects: Effects) {
        if let Some(host) = self.conns.get(&conn).and_then(|address| self.hosts.get_mut(address)) {
            host.effects = Some(effects);
        }
    }

    /// How far the policy has come, to all of `members`.
    #[must_use]
    pub fn progress(&self, members: impl Iterator<Item = IpAddr>) -> Progress {
        let version = self.policy.as_ref().map_or(0, |policy| policy.version);
        let known = self.hosts.values().filter_map(|host| Some(host.applied.as_ref()?.version)).max();
        let there = || self.hosts.values().filter(|host| host.conn.is_ok());
        let count =
            |is: &dyn Fn(&Applied) -> bool| there().filter(|host| host.applied.as_ref().is_some_and(is)).count();
        Progress {
            version,
            newest: version.max(known.unwrap_or(0)),
            hosts: there().count(),
            confirmed: count(&|applied| applied.version == version),
            enforcing: count(&|applied| applied.mode == Mode::Enforce),
            policy: self.policy.clone(),
            away: members.filter(|member| !self.is_connected(*member)).collect(),
        }
    }

    /// A connection has ended.
    pub fn gone(&mut self, now: u64, conn: Conn) {
        let Some(address) = self.conns.remove(&conn) else { return };
        let Some(host) = self.hosts.get_mut(&address) else { return };
        host.conn = Err(now);
        self.awaited -= usize::from(std::mem::take(&mut host.awaited));
        self.lost.push_back((now, address));
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
        let removed = self.hosts.values().map(|host| host.identity).filter(|identity| is_none(identity));
        for address in removed.map(|identity| identity.address).collect::<Vec<_>>() {
            let Some(host) = self.hosts.remove(&address) else { continue };
            self.corrections.remove(&host.number);
            self.has_changed(address);
            self.awaited -= usize::from(host.awaited);
            host.conn.ok().and_then(|conn| self.conns.remove(&conn));
            self.tell = Some(now);
        }
    }

    /// Returns whether the host at `address` is there.
    #[must_use]
    pub fn is_connected(&self, address: IpAddr) -> bool {
        self.hosts.get(&address).is_some_and(|host| host.conn.is_ok())
    }

    /// How the fleet of `members` is.
    #[must_use]
    pub fn fleet(&self, members: impl Iterator<Item = IpAddr>) -> Fleet {
        let state = |(address, host): (&IpAddr, &Host)| {
            let correction = self.corrections.get(&host.number).filter(|_| host.state == SYNCHRONISED);
            HostState {
                address: *address,
                connected: host.conn.is_ok(),
                state: host.state.clone(),
                certificate_expires: Some(host.identity.expires),
                uncertainty_ns: correction.map(|c| c.sigma),
                drift_ppm: correction.map(|c| c.drift * 1e6),
                labels: host.labels.clone(),
                policy: host.applied.clone(),
                effects: host.effects.clone(),
            }
        };
        let policy = self.policy.clone();
        let hosts = self.hosts.iter().map(state).collect();
        let away = members.filter(|member| !self.hosts.contains_key(member)).collect();
        Fleet { hosts, rounds: self.round, policy, away, ..self.fleet.clone() }
    }

    /// When [`Self::tick`] has something to do.
    #[must_use]
    pub fn due(&self) -> u64 {
        self.tell.map_or(self.due, |tell| tell.min(self.due))
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64) -> Said {
        let mut said = Said::new();
        while let Some((since, address)) = self.lost.front().copied()
            && now.saturating_sub(since) > GRACE
        {
            self.lost.pop_front();
            // It may have come back meanwhile.
            if self.hosts.get(&address).is_some_and(|host| host.conn == Err(since))
                && let Some(host) = self.hosts.remove(&address)
            {
                self.corrections.remove(&host.number);
                self.has_changed(address);
                self.membership_changed(now);
            }
        }
        // All at once, and before changes: whoever hears of these has heard of that.
        if std::mem::take(&mut self.turned) {
            let listed = self.hosts.values().filter(|host| matches!(host.listed, Listed::Yes(_)));
            said.extend(listed.filter_map(|host| Some((host.conn.ok()?, FromCoordinator::Keys(self.epochs)))));
        }
        if self.tell.is_some_and(|tell| now >= tell) {
            self.tell = None;
            said.extend(self.tell_changes());
            if !self.changed.is_empty() {
                self.membership_changed(now);
            }
        }
        if self.collecting && (now >= self.due || self.awaited == 0) {
            self.collecting = false;
            // The next round comes when it would have come if nobody had been waited for.
            self.due = self.due - self.patience() + self.mesh.window;
            said.extend(self.solve());
        } else if !self.collecting && now >= self.due {
            self.round += 1;
            self.collecting = true;
            self.realtime = None;
            self.due = now + self.patience();
            let collect = FromCoordinator::Collect { round: self.round };
            for host in self.hosts.values_mut() {
                host.report = None;
                host.awaited = host.conn.is_ok();
                said.extend(host.conn.ok().map(|conn| (conn, collect.clone())));
            }
            self.awaited = said.iter().filter(|(_, what)| *what == collect).count();
        }
        said
    }

    /// Returns whether [`Self::list`] has something to say.
    #[must_use]
    pub fn has_lists(&self) -> bool {
        !self.lists.is_empty()
    }

    /// The list of all members for the next host that waits for it. Lists are long, so whoever sends them
    /// takes one only when those before have left.
    pub fn list(&mut self) -> Option<(Conn, FromCoordinator)> {
        while let Some(address) = self.lists.pop_front() {
            let Some(host) = self.hosts.get_mut(&address).filter(|host| host.listed == Listed::Waits) else { continue };
            let Ok(conn) = host.conn else { continue };
            host.listed = Listed::Yes(self.changes);
            let host = &self.hosts[&address];
            let others = self.hosts.values().filter(|other| other.identity.address != address);
            let members = FromCoordinator::Members {
                members: others.map(member).collect(),
                not_yours: host.told.not_yours.clone(),
                epochs: self.epochs,
                probe: host.told.probe.clone(),
                interval: self.mesh.interval,
                window: self.mesh.window,
            };
            return Some((conn, members));
        }
        None
    }

    /// How long a round waits for reports.
    fn patience(&self) -> u64 {
        (self.mesh.window / 4).min(500 * MS)
    }

    /// A member is new, gone or another than before.
    fn has_changed(&mut self, address: IpAddr) {
        self.changes += 1;
        self.changed.insert(address, self.changes);
    }

    fn membership_changed(&mut self, now: u64) {
        self.tell.get_or_insert(now + GATHER + GATHER_PER_HOST * self.hosts.len() as u64);
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

    /// Membership that each host is to know, by address.
    fn to_tell(&self) -> BTreeMap<IpAddr, Told> {
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
        let mut told = |(address, host): (&IpAddr, &Host)| {
            let is_its = |alias: &&IpAddr| owners.get(*alias) == Some(&host.number);
            let (aliases, not_yours) = host.aliases.iter().partition(is_its);
            (*address, Told { aliases, not_yours, probe: probes.remove(&host.number).unwrap_or_default() })
        };
        self.hosts.iter().map(&mut told).collect()
    }

    /// Tells hosts that have the list of what has changed, and has the others wait for it.
    fn tell_changes(&mut self) -> Said {
        let mut anew = BTreeSet::new();
        for (address, told) in self.to_tell() {
            let Some(host) = self.hosts.get_mut(&address) else { continue };
            let renamed = host.told.aliases != told.aliases;
            if host.told != told {
                anew.insert(address);
                host.told = told;
            }
            if renamed {
                self.has_changed(address);
            }
        }
        let (mut present, gone): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.changed).into_iter().partition(|(address, _)| self.hosts.contains_key(address));
        let gone: Vec<IpAddr> = gone.into_iter().map(|(address, _)| address).collect();
        // Who has had the list since knows it; the others, who are to have the list, will.
        let listed = self
            .hosts
            .values()
            .filter_map(|host| if let Listed::Yes(until) = host.listed { Some(until) } else { None });
        let known_to_all = listed.min().unwrap_or(u64::MAX);
        present.retain(|(_, number)| *number > known_to_all);
        present.sort_by_key(|(_, number)| *number);
        let room = at_once(MEMBERS_AT_ONCE, self.hosts.len());
        self.changed.extend(present.iter().skip(room).copied());
        let present = &present[..present.len().min(room)];
        let mut said = Said::new();
        let mut wait = Vec::new();
        for (address, host) in &self.hosts {
            let Ok(conn) = host.conn else { continue };
            if host.listed == Listed::No {
                wait.push(*address);
            } else if let Listed::Yes(until) = host.listed {
                let others = present.iter().filter(|(other, number)| other != address && *number > until);
                let members: Vec<Member> = others.map(|(other, _)| member(&self.hosts[other])).collect();
                // Not sent apart for one of the two: both are short.
                let own = anew.contains(address).then(|| (host.told.not_yours.clone(), host.told.probe.clone()));
                if members.is_empty() && gone.is_empty() && own.is_none() {
                    continue;
                }
                let (not_yours, probe) = own.unzip();
                said.push((conn, FromCoordinator::Changed { members, gone: gone.clone(), not_yours, probe }));
            }
        }
        for address in wait {
            if let Some(host) = self.hosts.get_mut(&address).filter(|host| host.listed != Listed::Waits) {
                host.listed = Listed::Waits;
                self.lists.push_back(address);
            }
        }
        said
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
        let alone = self.hosts.len() == 1;
        let (ids, mut changes) = self.announce(solution, by_number);
        let mut room = CERTAINTIES_AT_ONCE;
        let nobody = Arc::new(Comparable { anew: true, factor: 1.0, known: vec![], unknown: vec![] });
        let mut said = Said::new();
        for host in self.hosts.values_mut() {
            let own = correction_of(solution, host.number);
            let correction = own.map(|(correction, _)| correction);
            let part = own.map(|(_, part)| ids[part as usize]);
            let of_part = part.and_then(|part| changes.get_mut(&part));
            let comparable = match of_part {
                _ if host.conn.is_err() => None,
                Some(of_part) if host.hears == part => Some(of_part.changes.clone()),
                Some(of_part) if of_part.announced <= room => {
                    room -= of_part.announced;
                    host.hears = part;
                    Some(of_part.all.clone())
                }
                _ => {
                    host.hears = None;
                    Some(nobody.clone())
                }
            };
            host.state = match correction {
                Some(_) => SYNCHRONISED,
                None if alone => "alone: no other host has joined",
                None if solution.suspects.contains(&host.number) => {
                    "its time stamps disagree with those of all others: its clock stepped, or they are not true"
                }
                None if host.awaited => {
                    "its report did not come in time: it is not reached, or it or the coordinator is short of processor time"
                }
                None if probed.contains(&host.number) => "what its probes say cannot be used",
                None => "no probe of its own, or to it, was answered",
            }
            .into();
            if let (Ok(conn), Some(comparable)) = (host.conn, comparable) {
                let reason = if correction.is_some() { String::new() } else { host.state.clone() };
                let realtime = self.realtime;
                said.push((conn, FromCoordinator::Corrected { correction, reason, comparable, noise, realtime }));
            }
        }
        said
    }

    /// Chooses the certainties that are told after a round. Returns the parts' names, in the order of the
    /// solution's, and what is told in each.
    fn announce(
        &mut self,
        solution: &Solution,
        by_number: &BTreeMap<HostId, IpAddr>,
    ) -> (Vec<u32>, BTreeMap<u32, OfPart>) {
        let ids = self.name_parts(solution, by_number);
        let mut unknown: BTreeMap<u32, Vec<IpAddr>> = BTreeMap::new();
        for (address, host) in &mut self.hosts {
            let part = correction_of(solution, host.number).map(|(_, part)| ids[part as usize]);
            if let Some(announced) = host.announced.take_if(|announced| Some(announced.part) != part) {
                unknown.entry(announced.part).or_default().push(*address);
            }
        }
        // Those who have left are no members, which the others are told apart from this.
        let mut told = BTreeMap::new();
        for (members, id) in solution.parts.iter().zip(&ids) {
            let addresses: Vec<IpAddr> = members.iter().filter_map(|n| by_number.get(n).copied()).collect();
            let room = at_once(CERTAINTIES_AT_ONCE, addresses.len());
            let unknown = unknown.remove(id).unwrap_or_default();
            let anew = unknown.len() > room;
            let mut due: Vec<(Due, IpAddr, Correction)> = Vec::new();
            for address in &addresses {
                let Some(host) = self.hosts.get_mut(address) else { continue };
                let Some((correction, _)) = correction_of(solution, host.number) else { continue };
                host.announced = host.announced.filter(|_| !anew);
                due.extend(is_due(host.announced, &correction).map(|why| (why, *address, correction)));
            }
            due.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            let later = due.split_off(due.len().min(room));
            // What others were told of these is too good: it is put right for all at once.
            let factor = later.iter().filter_map(|(why, ..)| why.exceeds()).fold(1.0, f64::max);
            for (_, address, c) in &due {
                if let Some(host) = self.hosts.get_mut(address) {
                    let (sigma, drift_sigma) = (rounded_up(c.sigma, 1.0), rounded_up(c.drift_sigma, 1e-12));
                    host.announced = Some(Announced { part: *id, sigma, drift_sigma });
                }
            }
            let known = self.alike(due.iter().map(|(_, address, _)| address));
            let changes = Arc::new(Comparable { anew, factor, known, unknown: if anew { vec![] } else { unknown } });
            let known = self.alike(addresses.iter());
            let announced = known.iter().map(|alike| alike.hosts.len()).sum();
            let all = Arc::new(Comparable { anew: true, factor, known, unknown: vec![] });
            told.insert(*id, OfPart { changes, all, announced });
        }
        (ids, told)
    }

    /// Names of a solution's parts. One keeps the name by which most of its hosts were announced.
    fn name_parts(&mut self, solution: &Solution, by_number: &BTreeMap<HostId, IpAddr>) -> Vec<u32> {
        let mut by_size: Vec<usize> = (0..solution.parts.len()).collect();
        by_size.sort_by_key(|part| Reverse(solution.parts[*part].len()));
        let mut ids = vec![0; solution.parts.len()];
        let mut taken = BTreeSet::new();
        for part in by_size {
            let mut before: BTreeMap<u32, usize> = BTreeMap::new();
            let hosts = solution.parts[part].iter().filter_map(|n| self.hosts.get(by_number.get(n)?));
            for announced in hosts.filter_map(|host| host.announced) {
                *before.entry(announced.part).or_default() += 1;
            }
            let most = before.iter().filter(|(id, _)| !taken.contains(*id)).max_by_key(|(_, n)| **n);
            ids[part] = most.map_or_else(|| self.parts + 1, |(id, _)| *id);
            self.parts = self.parts.max(ids[part]);
            taken.insert(ids[part]);
        }
        ids
    }

    /// Announced certainties of `addresses`, the same ones together.
    fn alike<'a>(&self, addresses: impl Iterator<Item = &'a IpAddr>) -> Vec<Alike> {
        let mut alike: BTreeMap<[u64; 2], Vec<IpAddr>> = BTreeMap::new();
        for address in addresses {
            if let Some(a) = self.hosts.get(address).and_then(|host| host.announced) {
                alike.entry([a.sigma.to_bits(), a.drift_sigma.to_bits()]).or_default().push(*address);
            }
        }
        let of = |([sigma, drift_sigma], hosts): ([u64; 2], Vec<IpAddr>)| {
            let [sigma, drift_sigma] = [sigma, drift_sigma].map(f64::from_bits);
            Alike { sigma, drift_sigma, hosts }
        };
        alike.into_iter().map(of).collect()
    }
}

/// A member as others are told of it.
fn member(host: &Host) -> Member {
    let (address, aliases) = (host.identity.address, host.told.aliases.clone());
    Member { address, aliases, statement: host.statement.clone() }
}

/// Messages to the hosts of a part after a round.
struct OfPart {
    /// Those that have heard of all before.
    changes: Arc<Comparable>,
    /// The others.
    all: Arc<Comparable>,
    /// Hosts in `all`.
    announced: usize,
}

/// Why a certainty is to be told, the most urgent first.
#[derive(Clone, Copy, Debug)]
enum Due {
    /// The certainty told is too good, by this factor.
    TooGood(f64),
    /// It was not told.
    New,
    /// The certainty told is much too bad.
    TooBad,
}

impl Due {
    fn exceeds(self) -> Option<f64> {
        if let Self::TooGood(factor) = self { Some(factor) } else { None }
    }

    fn total_cmp(&self, other: &Self) -> std::cmp::Ordering {
        let urgency = |due: &Self| match due {
            Self::TooGood(factor) => *factor,
            Self::New => 1.0,
            Self::TooBad => 0.0,
        };
        urgency(other).total_cmp(&urgency(self))
    }
}

/// Why a host's certainty is to be told, if it is.
fn is_due(announced: Option<Announced>, c: &Correction) -> Option<Due> {
    let Some(told) = announced else { return Some(Due::New) };
    let exceeds = (c.sigma / told.sigma).max(c.drift_sigma / told.drift_sigma);
    if exceeds > 1.0 {
        return Some(Due::TooGood(exceeds));
    }
    let is_loose = told.sigma > LOOSE * c.sigma.max(1.0) || told.drift_sigma > LOOSE * c.drift_sigma.max(1e-12);
    is_loose.then_some(Due::TooBad)
}

/// A certainty as it is told: never less than the true one. Few values, so that many hosts have the same.
fn rounded_up(truth: f64, least: f64) -> f64 {
    (((truth.max(least) * MARGIN).log2() * 4.0).ceil() / 4.0).exp2()
}

/// Hosts of which `hearers` are told at a time.
fn at_once(most: usize, hearers: usize) -> usize {
    (most / hearers.max(1)).max(LEAST_AT_ONCE)
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
    use crate::policy::labels;
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
        Identity { address: host(n), membership: Membership([n; 16]), public: [n; 32], expires: u64::MAX }
    }

    fn hello(n: u8, correction: Option<Correction>, aliases: &[IpAddr]) -> Hello {
        Hello {
            identity: identity(n),
            statement: "signed".into(),
            correction,
            by_programs: true,
            aliases: aliases.into(),
            labels: Labels::new(),
        }
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
            let mut lab = Self { coordinator: Coordinator::new(mesh, Epochs::default(), 0), now: 0 };
            hosts.into_iter().for_each(|n| lab.hello(n));
            lab
        }

        fn hello(&mut self, n: u8) {
            self.hello_with(n, &[]);
        }

        fn hello_with(&mut self, n: u8, aliases: &[IpAddr]) {
            self.coordinator.hello(self.now, n.into(), hello(n, None, aliases));
        }

        fn tick(&mut self) -> Said {
            let mut said = self.coordinator.tick(self.now);
            said.extend(std::iter::from_fn(|| self.coordinator.list()));
            said
        }

        /// Goes on until something is said.
        fn next(&mut self) -> Said {
            loop {
                self.now = self.now.max(self.coordinator.due());
                let said = self.tick();
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
            let fleet = self.coordinator.fleet(std::iter::empty());
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

    fn known(comparable: &Comparable) -> BTreeSet<IpAddr> {
        comparable.known.iter().flat_map(|alike| alike.hosts.iter().copied()).collect()
    }

    #[test]
    fn the_newest_effects_of_each_member_are_kept() {
        let mut lab = Lab::with([1, 2]);
        let counted = |segments| Effects { since: 1, segments, ..Effects::default() };
        let known = |lab: &Lab| {
            lab.coordinator.fleet(std::iter::empty()).hosts.into_iter().map(|host| host.effects).collect::<Vec<_>>()
        };
        assert_eq!(known(&lab), [None, None], "as of hosts of an earlier version");
        for segments in [7, 9] {
            lab.coordinator.effects(2, counted(segments));
        }
        lab.coordinator.effects(99, counted(1));
        assert_eq!(known(&lab), [None, Some(counted(9))]);
        lab.coordinator.gone(0, 2);
        lab.coordinator.hello(0, 5, hello(2, None, &[]));
        assert_eq!(known(&lab), [None, Some(counted(9))], "until it says more");
    }

    #[test]
    fn each_host_is_told_what_the_policy_says_of_it_and_confirms() {
        let mut lab = Lab::with([1]);
        let rack = |n: u8, rack: &str| Hello { labels: labels(&[("rack", rack)]), ..hello(n, None, &[]) };
        lab.coordinator.hello(0, 2, rack(2, "b7"));
        assert!(lab.coordinator.policy_of(2).is_none() && lab.coordinator.progress(std::iter::empty()).version == 0);
        let text = "[[rule]]\nlabels = { rack = \"b7\" }\nmode = \"enforce\"";
        let version = |version| Version {
            version,
            at: 0,
            by: "root".into(),
            from: "a".into(),
            what: "set".into(),
            message: None,
            stopped: false,
            stop: None,
            trial: None,
            policy: Some(crate::policy::file::load(text, "p.toml").unwrap()),
        };
        let modes = |said: Said| {
            let mode = |(conn, what)| match what {
                FromCoordinator::Policy(said) => (conn, said.says.map(|says| says.mode)),
                what => panic!("{what:?}"),
            };
            said.into_iter().map(mode).collect::<Vec<_>>()
        };
        assert_eq!(modes(lab.coordinator.set_policy(version(5))), [(1, Some(Mode::Observe)), (2, Some(Mode::Enforce))]);
        lab.coordinator.hello(0, 3, rack(3, "b7"));
        let of_third = lab.coordinator.policy_of(3).expect("there is one");
        assert_eq!(modes(vec![(3, of_third)]), [(3, Some(Mode::Enforce))]);
        // Confirmations; a line for each change of a mode.
        let mut say =
            |now, conn, version, mode| lab.coordinator.applied(now, conn, Applied { version, mode, why: "so".into() });
        assert_eq!(say(0, 1, 5, Mode::Observe).as_deref(), Some("mode of 10.0.0.1: observe: so"));
        assert_eq!(say(0, 2, 4, Mode::Observe).as_deref(), Some("mode of 10.0.0.2: observe: so"));
        assert_eq!(say(1, 2, 5, Mode::Enforce).as_deref(), Some("mode of 10.0.0.2: enforce: so"));
        assert_eq!(say(2, 2, 5, Mode::Enforce), None, "it has not changed");
        let modes = [Mode::Observe, Mode::Enforce].into_iter().cycle().take(100);
        let lines = modes.filter_map(|mode| say(3, 2, 5, mode)).count();
        assert_eq!(lines, MOST_LINES as usize - 2, "a host that goes to and fro is told of so often");
        assert_eq!(say(2 * LOG_SPAN, 2, 5, Mode::Observe).as_deref(), Some("mode of 10.0.0.2: observe: so"));
        assert_eq!(say(2 * LOG_SPAN, 2, 5, Mode::Enforce).as_deref(), Some("mode of 10.0.0.2: enforce: so"));
        let progress = lab.coordinator.progress([2, 9].map(host).into_iter());
        let (policy, away) = (Some(version(5)), [host(9)].into());
        let expected = Progress { version: 5, newest: 5, hosts: 3, confirmed: 2, enforcing: 1, policy, away };
        assert_eq!(progress, expected);
        // Who has heard a later one is no member that has confirmed.
        let ahead = lab.coordinator.applied(0, 3, Applied { version: 9, mode: Mode::Observe, why: "so".into() });
        assert!(ahead.unwrap().starts_with("10.0.0.3 has version 9 of the policy, and this coordinator 5"));
        let progress = lab.coordinator.progress(std::iter::empty());
        assert_eq!((progress.newest, progress.confirmed), (9, 2));
        lab.coordinator.gone(0, 2);
        assert_eq!(
            lab.coordinator.progress(std::iter::empty()).confirmed,
            1,
            "who is not reached has confirmed nothing"
        );
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
        let FromCoordinator::Changed { members, .. } = &told[&1] else { panic!("{told:?}") };
        assert!(members.len() == 1 && members[0].aliases.is_empty(), "{members:?}");
    }

    /// Bytes said to `n` hosts: in a second round, and when one host more joins.
    fn bytes(n: u16) -> [usize; 2] {
        let mesh = Mesh { probes: 10, window: WINDOW, interval: 8 * MS };
        let mut coordinator = Coordinator::new(mesh, Epochs::default(), 0);
        let address = |n: u16| IpAddr::from([10, 1, (n >> 8) as u8, n as u8]);
        let hello = |n: u16| Hello {
            identity: Identity { address: address(n), ..identity(n as u8) },
            statement: "signed".into(),
            correction: None,
            by_programs: true,
            aliases: vec![],
            labels: Labels::new(),
        };
        let size = |said: &Said| said.iter().map(|(_, what)| serde_json::to_vec(what).unwrap().len()).sum::<usize>();
        for n in 0..n {
            coordinator.hello(0, n.into(), hello(n));
        }
        let numbers: Vec<HostId> = (0..n.into()).collect();
        let pairs = mesh::edges(&numbers, 10, SEED);
        let mut said = Said::new();
        for _ in 0..5 {
            said = coordinator.tick(coordinator.due());
            said.extend(std::iter::from_fn(|| coordinator.list()));
            if let Some((_, FromCoordinator::Collect { round })) = said.first() {
                let at = coordinator.due();
                for from in 0..n {
                    let probed = pairs.iter().filter(|(a, _)| *a == HostId::from(from));
                    let edge = |(_, to): &(HostId, HostId)| Edge { to: address(*to as u16), ..edge(1, 1, at) };
                    coordinator.report(from.into(), *round, probed.map(edge).collect());
                }
            }
        }
        assert!(matches!(said[0].1, FromCoordinator::Corrected { .. }), "{:?}", said[0]);
        let round = size(&said);
        coordinator.hello(coordinator.due(), n.into(), hello(n));
        let mut join = 0;
        for _ in 0..2 {
            let mut said = coordinator.tick(coordinator.due());
            said.extend(std::iter::from_fn(|| coordinator.list()));
            said.retain(|(_, what)| matches!(what, FromCoordinator::Members { .. } | FromCoordinator::Changed { .. }));
            join += size(&said);
        }
        assert!(join > 100 * usize::from(n), "everybody hears of it");
        [round, join]
    }

    #[test]
    fn a_round_and_a_join_take_bytes_in_proportion_to_the_members() {
        let [few, many] = [100, 400].map(bytes);
        for (few, many) in few.into_iter().zip(many) {
            assert!(many < 5 * few, "{few} bytes for 100, {many} for 400");
        }
    }

    #[test]
    fn who_has_had_the_list_is_not_told_of_what_was_in_it() {
        let mut lab = Lab::with(1..=3);
        assert!(lab.next().iter().all(|(_, what)| matches!(what, FromCoordinator::Members { .. })));
        // The fourth hears of all; the others of the fourth, also where they are told of few at a time.
        lab.hello(4);
        for (conn, what) in lab.next() {
            match (conn, what) {
                (4, FromCoordinator::Members { members, .. }) => assert_eq!(members.len(), 3),
                (_, FromCoordinator::Changed { members, .. }) => assert_eq!(members[0].address, host(4)),
                what => panic!("{what:?}"),
            }
        }
        // What is left to tell when a list is made is in that.
        lab.hello_with(5, &[]);
        lab.coordinator.has_changed(host(2));
        lab.coordinator.tell_changes();
        let (conn, _) = lab.coordinator.list().expect("the fifth waits");
        assert_eq!(conn, 5);
        lab.coordinator.changed.insert(host(2), 1);
        assert!(lab.coordinator.tell_changes().is_empty());
    }

    #[test]
    fn a_certainty_is_never_told_better_than_it_is() {
        for truth in [0.0, 1.0, 17.3, 1e4, 3.3e9] {
            let told = rounded_up(truth, 1.0);
            assert!(told > truth && told <= 1.5 * truth.max(1.0), "{truth}: {told}");
        }
        let announced = Some(Announced { part: 1, sigma: 100.0, drift_sigma: 1e-9 });
        let due = |sigma, drift_sigma| {
            let c = Correction { base: 0, offset: 0, drift: 0.0, sigma, drift_sigma, wander: 0.0 };
            is_due(announced, &c)
        };
        assert!(due(99.0, 0.9e-9).is_none());
        assert!(matches!(due(101.0, 0.9e-9), Some(Due::TooGood(_))));
        assert!(matches!(due(99.0, 2e-9), Some(Due::TooGood(_))));
        assert!(matches!(due(40.0, 0.9e-9), Some(Due::TooBad)));
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
        // With the host itself.
        assert_eq!((known(comparable).len(), *noise), (4, 30.0));
        let fleet = lab.coordinator.fleet(std::iter::empty());
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
        assert_eq!(lab.coordinator.fleet(std::iter::empty()).parts, [[host(1), host(2)], [host(3), host(4)]]);
        let FromCoordinator::Corrected { comparable, .. } = &given[&1] else { panic!() };
        assert_eq!(known(comparable), BTreeSet::from([host(1), host(2)]));
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
        assert_eq!(lab.coordinator.fleet(std::iter::empty()).delays.len(), 6);
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
        assert!(lab.state(3).starts_with("its report did not come in time"), "{}", lab.state(3));
        // Late, it changes nothing.
        lab.coordinator.report(3, round, vec![edge(3, 1, asked)]);
        assert!(lab.state(3).starts_with("its report did not come in time"), "{}", lab.state(3));
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
        let present = |lab: &Lab| lab.coordinator.fleet(std::iter::empty()).hosts.len();
        lab.round(&[1, 2], full(&[1, 2]));
        assert_eq!(present(&lab), 3);
        // It comes back by another connection; then by a third, while the second is still there.
        assert_eq!(lab.coordinator.hello(lab.now, 30, hello(3, None, &[])), None);
        assert_eq!(lab.coordinator.hello(lab.now, 31, hello(3, None, &[])), Some(30));
        lab.coordinator.gone(lab.now, 30);
        assert!(lab.coordinator.fleet(std::iter::empty()).hosts[2].connected, "the old connection's end is not its");
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
        let told = lab.tick();
        assert_eq!(told.iter().map(|(conn, _)| *conn).collect::<Vec<_>>(), [1, 2]);
        for (conn, what) in told {
            let FromCoordinator::Changed { members, gone, .. } = what else { panic!("{what:?}") };
            assert!(members.is_empty() && gone == [host(3)], "{conn}: {members:?}, {gone:?}");
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
            second.coordinator.hello(0, n.into(), hello(n, correction(&given[&n]), &[]));
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
        second.coordinator.hello(0, 3, hello(3, correction(&given[&3]), &[]));
        let alone = second.round(&[3], |_| vec![]);
        assert!(correction(&alone[&3]).is_none());
        for n in [2, 1] {
            second.coordinator.hello(second.now, n.into(), hello(n, correction(&given[&n]), &[]));
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
