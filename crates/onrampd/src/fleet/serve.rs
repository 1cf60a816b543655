//! A coordinator's sockets.

use super::coordinator::{Conn, Coordinator, Hello};
use super::link::Link;
use super::lists::{Aliases, Members, Removed};
use super::pairs::Epochs;
use super::pki::{self, Authority, Identity, other};
use super::policies::Policies;
use super::tokens::{Tokens, today};
use super::wire::{self, FromCoordinator, FromHost, MAX_FROM_HOST, SPEAKS};
use crate::clock::now;
use crate::config::{Lives, Mesh};
use hex::FromHex as _;
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ServerConfig, ServerConnection};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _};
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use tracing::{error, info, warn};

const SECOND: u64 = 1_000_000_000;
/// Members, at most, and strangers beside them.
const MAX_CONNECTIONS: usize = 16_384 + MAX_STRANGERS;
/// Connections that the kernel keeps until they are taken.
const BACKLOG: i32 = 4096;
/// Connections looked at in one round of the loop.
const EVENTS: usize = 1024;
/// Names of descriptors that are no connections.
const STOP: Conn = Conn::MAX;
const LISTENER: Conn = Conn::MAX - 1;
/// Connections that have shown no certificate: where there are more, the oldest of the address that
/// has most of them goes.
const MAX_STRANGERS: usize = 256;
/// The same of one address.
const MAX_STRANGERS_OF_ONE: usize = 16;
/// They, and members that have said nothing yet, have so long for it.
const PATIENCE: u64 = 10 * SECOND;
/// After a connection that could not be taken.
const RETRY: Duration = Duration::from_millis(10);
/// Connections taken at a time: whoever makes many does not keep the others waiting.
const AT_ONCE: usize = 64;
const REMOVED: &str = "was removed from the fleet: join anew, by another token";
const EXPIRED: &str = "has a certificate that has expired: join anew, by another token";
/// Between two lines of the log that say the same of a member.
const LOG_AGAIN: u64 = 600 * SECOND;
/// Between two looks at the operator's lists and the members' certificates.
const LOOK: u64 = SECOND / 2;
/// Between two looks at the fleet's policy: who stops holding waits for no more than this.
const PEEK: u64 = SECOND / 5;
/// Certificates that are renewed in one look.
const RENEWED_AT_ONCE: usize = 64;
/// Bytes that wait to be read until no more hosts are told of all members.
const MAX_LISTS: usize = 64 << 20;
/// Time for that before something else is done.
const LISTING: u64 = SECOND / 20;
/// A host is heard of in every round; one that is silent for so many is gone.
const SILENT_ROUNDS: u64 = 3;

/// A coordinator, ready to serve.
pub struct Server {
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    authority: Authority,
    tokens: Tokens,
    removed: Removed,
    aliases: Aliases,
    members: Members,
    policies: Policies,
    /// Why a policy's trial cannot be ended.
    trial_trouble: Option<String>,
    /// Of whom that list does not know.
    new_members: BTreeSet<IpAddr>,
    lives: Lives,
    /// Coordinators that hosts are told of when they join.
    coordinators: Vec<SocketAddr>,
    /// When certificates and lists are looked at again.
    look: u64,
    /// When the policy is.
    peek: u64,
    coordinator: Coordinator,
    connections: BTreeMap<Conn, Connection>,
    /// Connections without a certificate, the oldest of each address first.
    strangers: BTreeMap<IpAddr, BTreeSet<Conn>>,
    /// Connections that something was read from or said to since they were last looked at.
    touched: BTreeSet<Conn>,
    epoll: OwnedFd,
    /// Members that were refused, why, and when that was logged: they call again each second.
    refused: BTreeMap<IpAddr, (String, u64)>,
    /// When silence is looked for again.
    sweep: u64,
    /// A connection was turned away since there was last room.
    is_full: bool,
    next: Conn,
    silence: u64,
}

struct Connection {
    link: Link,
    peer: SocketAddr,
    host: Option<IpAddr>,
    /// Of its certificate, once it has shown one; of a later one that it has kept since.
    identity: Option<Identity>,
    /// Of the certificate that it was sent in the place of that.
    offered: Option<Identity>,
    /// When it was sent one last.
    renewed: Option<u64>,
    /// When something sensible was last heard.
    heard: u64,
    /// Nothing more is taken from it.
    ending: bool,
    /// Room to write is waited for.
    writes: bool,
}

impl Connection {
    fn tend(&mut self) -> io::Result<()> {
        let open = self.link.tend();
        if self.identity.is_none() {
            self.identity = self.link.certificate().and_then(Identity::of);
        }
        open
    }
}

impl Server {
    /// Takes up the fleet in `folder` at `listen`. What it gives is good for so long as `lives` says.
    ///
    /// # Errors
    /// There is no authority, or the address cannot be had.
    pub fn open(listen: SocketAddr, folder: &Path, mesh: Mesh, lives: Lives) -> io::Result<Self> {
        let authority = Authority::open(folder)?;
        let taken = |e: io::Error| io::Error::new(e.kind(), format!("cannot listen at {listen}: {e}"));
        let listener = TcpListener::bind(listen).map_err(taken)?;
        listener.set_nonblocking(true)?;
        rustix::net::listen(&listener, BACKLOG)?;
        raise_limit();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
        let aliases = Aliases::open(folder)?;
        let mut coordinator = Coordinator::new(mesh, Epochs::at(today(), lives.key), now());
        coordinator.set_aliases(now(), aliases.all().clone());
        let policies = Policies::open(folder)?;
        if let Some(version) = policies.present() {
            // It may have been made while no coordinator ran.
            info!(audit = "policy", "{}", version.audit());
            coordinator.set_policy(version.clone());
        }
        Ok(Self {
            tls: authority.server()?,
            coordinator,
            aliases,
            members: Members::open(folder)?,
            new_members: BTreeSet::new(),
            policies,
            trial_trouble: None,
            listener,
            authority,
            tokens: Tokens::of(folder),
            removed: Removed::open(folder)?,
            lives,
            coordinators: Vec::new(),
            look: 0,
            peek: 0,
            connections: BTreeMap::new(),
            strangers: BTreeMap::new(),
            touched: BTreeSet::new(),
            epoll,
            refused: BTreeMap::new(),
            sweep: 0,
            is_full: false,
            next: 0,
            silence: PATIENCE + SILENT_ROUNDS * mesh.window,
        })
    }

    /// Has hosts that join be told of these coordinators.
    #[must_use]
    pub fn naming(self, coordinators: Vec<SocketAddr>) -> Self {
        Self { coordinators, ..self }
    }

    /// Serves until `stop` has something to read. Each time it has come round, at least once a
    /// second, `alive` is called.
    ///
    /// # Errors
    /// The system does not let us wait.
    pub fn run(&mut self, stop: &UnixStream, alive: impl Fn()) -> io::Result<()> {
        stop.set_nonblocking(true)?;
        epoll::add(&self.epoll, stop, epoll::EventData::new_u64(STOP), epoll::EventFlags::IN)?;
        loop {
            let ready = self.wait()?;
            alive();
            match (&*stop).read(&mut [0; 1]) {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                _ => return Ok(()),
            }
            let now = now();
            if ready.contains(&LISTENER) {
                self.accept(now);
            }
            self.tend(now, &ready);
            if now >= self.peek {
                self.peek = now + PEEK;
                self.look_at_policy();
            }
            if now >= self.look {
                self.look = now + LOOK;
                self.look_at_lists(now);
                self.look_at_certificates(now);
                self.coordinator.set_epochs(Epochs::at(today(), self.lives.key));
            }
            for (conn, what) in self.coordinator.tick(now) {
                self.say(conn, &what);
            }
            self.say_lists();
            self.clean(now);
        }
    }

    /// Waits until something can be done; returns the names of descriptors that are ready.
    fn wait(&self) -> io::Result<Vec<Conn>> {
        let ns = if self.coordinator.has_lists() { LISTING / 5 } else { PEEK };
        let ns = self.coordinator.due().saturating_sub(now()).min(ns);
        let timeout = Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as _ };
        let mut events = Vec::with_capacity(EVENTS);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&timeout)) {
            Err(e) if e != Errno::INTR => return Err(e.into()),
            _ => {}
        }
        Ok(events.iter().map(|event| event.data.u64()).collect())
    }

    fn accept(&mut self, now: u64) {
        for _ in 0..AT_ONCE {
            let (socket, peer) = match self.listener.accept() {
                Ok(taken) => taken,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // Without descriptors the next try, which is at once, would end alike.
                Err(_) => {
                    thread::sleep(RETRY);
                    break;
                }
            };
            let is_full = self.connections.len() >= MAX_CONNECTIONS;
            if is_full && !self.is_full {
                warn!("{MAX_CONNECTIONS} connections are open, and no more are taken");
            }
            self.is_full = is_full;
            if is_full || !self.make_room(peer.ip()) {
                continue;
            }
            let _ = socket.set_nodelay(true);
            let tls = ServerConnection::new(self.tls.clone()).map_err(io::Error::other);
            let Ok(link) = tls.and_then(|tls| Link::new(socket, tls, MAX_FROM_HOST)) else { continue };
            self.next += 1;
            let name = epoll::EventData::new_u64(self.next);
            if epoll::add(&self.epoll, &link, name, epoll::EventFlags::IN).is_err() {
                continue;
            }
            self.strangers.entry(peer.ip().to_canonical()).or_default().insert(self.next);
            let (host, identity, offered, renewed) = (None, None, None, None);
            self.connections.insert(
                self.next,
                Connection { link, peer, host, identity, offered, renewed, heard: now, ending: false, writes: false },
            );
        }
    }

    /// Returns whether one more stranger from `address` may come; another one may have to go.
    fn make_room(&mut self, address: IpAddr) -> bool {
        if self.strangers.get(&address.to_canonical()).is_some_and(|own| own.len() >= MAX_STRANGERS_OF_ONE) {
            return false;
        }
        if self.strangers.values().map(BTreeSet::len).sum::<usize>() >= MAX_STRANGERS
            && let Some(oldest) =
                self.strangers.values().max_by_key(|own| own.len()).and_then(|own| own.first()).copied()
        {
            self.remove(oldest);
        }
        true
    }

    fn remove(&mut self, conn: Conn) {
        if let Some(connection) = self.connections.remove(&conn) {
            self.no_stranger(conn, connection.peer.ip());
        }
    }

    /// A connection has shown a certificate, or is gone.
    fn no_stranger(&mut self, conn: Conn, address: IpAddr) {
        let address = address.to_canonical();
        if let Some(own) = self.strangers.get_mut(&address) {
            own.remove(&conn);
            if own.is_empty() {
                self.strangers.remove(&address);
            }
        }
    }

    fn tend(&mut self, now: u64, ready: &[Conn]) {
        for &conn in ready {
            let Some(connection) = self.connections.get_mut(&conn) else { continue };
            let open = connection.tend();
            self.touched.insert(conn);
            if connection.link.certificate().is_some() {
                let address = connection.peer.ip();
                self.no_stranger(conn, address);
            }
            while let Some(line) = self.next_line(conn) {
                self.heard(now, conn, &line);
            }
            if open.is_err() {
                self.drop_connection(now, conn);
            }
        }
    }

    /// Takes up what the operator has said of hosts.
    fn look_at_lists(&mut self, now: u64) {
        match self.aliases.refresh() {
            Ok(true) => {
                info!(audit = "membership", "the list of aliases has changed: onrampctl fleet alias");
                self.coordinator.set_aliases(now, self.aliases.all().clone());
            }
            Ok(false) => {}
            Err(e) => error!("{e}"),
        }
        let before: Vec<IpAddr> = self.removed.addresses().collect();
        match self.removed.refresh() {
            Ok(true) => {
                for address in self.removed.addresses().filter(|address| !before.contains(address)) {
                    info!(audit = "membership", host = %address, "{address} was removed from the fleet");
                }
            }
            Ok(false) => {}
            Err(e) => error!("{e}"),
        }
        if !self.new_members.is_empty()
            && let Err(e) = self.members.add(std::mem::take(&mut self.new_members))
        {
            error!("{e}");
        }
    }

    /// Goes back from a policy on trial whose time is over; the next look at the policy takes that up.
    fn end_trial(&mut self) {
        match self.policies.end_trial(today()) {
            Ok(()) => self.trial_trouble = None,
            Err(e) => {
                let trouble = format!("the trial of a policy cannot be ended, and hosts go on by it: {e}");
                if self.trial_trouble.as_ref() != Some(&trouble) {
                    error!("{trouble}");
                    self.trial_trouble = Some(trouble);
                }
            }
        }
    }

    /// Takes up a new version of the policy, and tells hosts at once.
    fn look_at_policy(&mut self) {
        match self.policies.refresh() {
            Ok(true) => {}
            Ok(false) => return self.end_trial(),
            Err(e) => return warn!("the policy before goes on: {e}"),
        }
        let Some(version) = self.policies.present().cloned() else {
            return warn!("the policy's file is gone: the version before goes on");
        };
        info!(audit = "policy", "{}", version.audit());
        for (conn, what) in self.coordinator.set_policy(version) {
            self.say(conn, &what);
        }
    }

    /// Lets go of members that were removed, or whose certificates have expired; renews those that are due.
    fn look_at_certificates(&mut self, now: u64) {
        let today = today();
        let shown =
            self.connections.iter().filter(|(_, c)| !c.ending).filter_map(|(conn, c)| Some((*conn, c.identity?)));
        let gone: Vec<_> =
            shown.filter_map(|(conn, shown)| Some((conn, worthless(&self.removed, &shown, today)?))).collect();
        gone.into_iter().for_each(|(conn, reason)| self.refuse(conn, reason));
        self.coordinator.expel(now, |identity| worthless(&self.removed, identity, today).is_some());
        // Who could not keep one is sent another after a while; nobody is sooner.
        let again = (self.lives.certificate * SECOND / 20).clamp(SECOND, 3_600 * SECOND);
        let waits = |c: &Connection| c.renewed.is_none_or(|at| now.saturating_sub(at) >= again);
        let is_due = |c: &Connection| c.identity.is_some_and(|i| i.is_due(today, self.lives.certificate));
        let due = self.connections.iter().filter(|(_, c)| c.host.is_some() && !c.ending && waits(c) && is_due(c));
        let due: Vec<Conn> = due.map(|(conn, _)| *conn).take(RENEWED_AT_ONCE).collect();
        for conn in due {
            self.renew(now, conn).unwrap_or_else(|e| warn!("a certificate cannot be renewed: {e}"));
        }
    }

    /// Sends a member another certificate. Until it has kept it, the one it has shown counts.
    fn renew(&mut self, now: u64, conn: Conn) -> io::Result<()> {
        let Some(connection) = self.connections.get_mut(&conn) else { return Ok(()) };
        let Some(shown) = connection.link.certificate() else { return Ok(()) };
        let certificate = self.authority.renew(shown, self.lives.certificate)?;
        let parsed = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(other)?;
        (connection.offered, connection.renewed) = (Identity::of(&parsed), Some(now));
        self.say(conn, &FromCoordinator::Renewed { certificate });
        Ok(())
    }

    /// A member has kept the certificate that it was sent.
    fn renewed(&mut self, conn: Conn) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        if let Some(identity) = connection.offered.take() {
            connection.identity = Some(identity);
            self.coordinator.renewed(identity);
        }
    }

    fn next_line(&mut self, conn: Conn) -> Option<Vec<u8>> {
        self.connections.get_mut(&conn).filter(|c| !c.ending)?.link.line()
    }

    fn heard(&mut self, now: u64, conn: Conn, line: &[u8]) {
        let Some(connection) = self.connections.get_mut(&conn) else { return };
        let message = match wire::parse::<FromHost>(line) {
            Ok(message) if message.is_sound() => message,
            Ok(_) => return self.refuse(conn, "says what no host can have measured"),
            Err(e) => return self.refuse(conn, &e),
        };
        connection.heard = now;
        let (peer, identity) = (connection.peer, connection.identity);
        if let Some(reason) = identity.and_then(|identity| worthless(&self.removed, &identity, today())) {
            return self.refuse(conn, reason);
        }
        let is_coordinators = connection.link.certificate().is_some_and(pki::is_coordinators);
        match message {
            FromHost::Join { secret, address, public_key, pair_key, speaks } => {
                let keys = [public_key, pair_key];
                match SPEAKS.with(speaks).and_then(|_| self.join(peer, &secret, address, &keys)) {
                    Ok(joined) => self.say(conn, &joined),
                    Err(reason) => self.refuse(conn, &reason),
                }
            }
            FromHost::Hello { address, correction, by_programs, aliases, labels, speaks, .. } => {
                let protocol = match SPEAKS.with(speaks) {
                    Ok(protocol) => protocol,
                    Err(apart) => return self.refuse(conn, &apart),
                };
                let Some(identity) = identity.filter(|identity| identity.address == address.to_canonical()) else {
                    return self.refuse(conn, &format!("no certificate of {address}: join first"));
                };
                connection.host = Some(identity.address);
                let statement = match self.authority.statement(&identity) {
                    Ok(statement) => statement,
                    Err(e) => return self.refuse(conn, &format!("cannot be vouched for: {e}")),
                };
                self.say(conn, &FromCoordinator::Welcome { protocol });
                let aliases = aliases.iter().map(IpAddr::to_canonical).collect();
                let hello = Hello { identity, statement, correction, by_programs, aliases, labels };
                self.new_members.extend(Some(identity.address).filter(|address| !self.members.has(*address)));
                let old = self.coordinator.hello(now, conn, hello);
                old.into_iter().for_each(|old| self.remove(old));
                if let Some(policy) = self.coordinator.policy_of(conn) {
                    self.say(conn, &policy);
                }
            }
            FromHost::Applied(applied) if connection.host.is_some() => {
                if let Some(line) = self.coordinator.applied(now, conn, applied) {
                    info!(audit = "mode", "{line}");
                }
            }
            FromHost::Effects(effects) if connection.host.is_some() => self.coordinator.effects(conn, effects),
            FromHost::Report { round, edges, realtime } if connection.host.is_some() => {
                // Nobody else knows the time of day of this host.
                if connection.link.is_within_host() {
                    self.coordinator.set_realtime(realtime);
                }
                self.coordinator.report(conn, round, edges);
            }
            FromHost::Renewed if connection.host.is_some() => self.renewed(conn),
            FromHost::Fleet if identity.is_some() || is_coordinators => {
                let fleet = FromCoordinator::Fleet(self.coordinator.fleet(self.members.without(&self.removed)));
                self.say(conn, &fleet);
            }
            FromHost::Progress if is_coordinators => {
                // Whoever asks has just written it.
                self.look_at_policy();
                let progress =
                    FromCoordinator::Progress(self.coordinator.progress(self.members.without(&self.removed)));
                self.say(conn, &progress);
            }
            FromHost::Remove { .. } | FromHost::Vouch { .. } | FromHost::Policy(_) if is_coordinators => {
                match self.told(now, message) {
                    Ok(()) => self.say(conn, &FromCoordinator::Kept),
                    Err(e) => self.refuse(conn, &e.to_string()),
                }
            }
            FromHost::Unknown if identity.is_some() => {}
            FromHost::Report { .. }
            | FromHost::Renewed
            | FromHost::Applied(_)
            | FromHost::Effects(_)
            | FromHost::Fleet
            | FromHost::Remove { .. }
            | FromHost::Vouch { .. }
            | FromHost::Policy(_)
            | FromHost::Progress
            | FromHost::Unknown => self.refuse(conn, "not known here: join first"),
        }
    }

    /// Keeps what an operator has said on another coordinator's host.
    fn told(&mut self, now: u64, what: FromHost) -> io::Result<()> {
        match what {
            FromHost::Remove { address, until } => {
                self.removed.add(address, until)?;
                self.aliases.set(address, Vec::new())?;
            }
            FromHost::Vouch { address, networks } => self.aliases.set(address, networks)?,
            FromHost::Policy(version) => {
                self.policies.keep(version)?;
                self.look_at_policy();
                return Ok(());
            }
            _ => {}
        }
        self.coordinator.set_aliases(now, self.aliases.all().clone());
        self.look_at_certificates(now);
        Ok(())
    }

    /// Admits the host at the other end of a connection from `peer`: nobody joins for another one.
    fn join(
        &mut self,
        peer: SocketAddr,
        secret: &str,
        address: IpAddr,
        [public_key, pair_key]: &[String; 2],
    ) -> Result<FromCoordinator, String> {
        let admission = self.tokens.admits(secret, address, today())?;
        if address.to_canonical() != peer.ip().to_canonical() {
            return Err(format!("wants to join as {address}, which is not where it calls from"));
        }
        if self.coordinator.is_connected(address.to_canonical()) {
            return Err(format!("wants to join as {address}, which a member has that is here: stop its agent first"));
        }
        let key = <[u8; 65]>::from_hex(public_key).map_err(|_| "the public key is not 65 bytes in hex digits")?;
        let pair = <[u8; 32]>::from_hex(pair_key).map_err(|_| "the key of pairs is not 32 bytes in hex digits")?;
        let certificate = self.authority.admit(address, &key, &pair, self.lives.certificate);
        let certificate = certificate.map_err(|e| e.to_string())?;
        let token = admission.count().map_err(|e| format!("the token's use cannot be counted: {e}"))?;
        self.tokens.clean(today());
        if let Err(e) = self.members.add([address]) {
            error!("{e}");
        }
        info!(audit = "membership", host = %address, from = %peer, "{address} has joined from {peer} by the token {token}");
        let (authority, coordinators) = (self.authority.certificate().into(), self.coordinators.clone());
        Ok(FromCoordinator::Joined { certificate, authority, coordinators })
    }

    /// Says why, and takes nothing more.
    fn refuse(&mut self, conn: Conn, reason: &str) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.ending = true;
            let now = now();
            let before = connection.identity.and_then(|identity| self.refused.get(&identity.address));
            if before.is_none_or(|(why, at)| why != reason || now.saturating_sub(*at) >= LOG_AGAIN) {
                warn!(audit = "membership", from = %connection.peer, "refused {}: {reason}", connection.peer);
                self.refused.extend(connection.identity.map(|identity| (identity.address, (reason.into(), now))));
            }
        }
        self.say(conn, &FromCoordinator::Refused { reason: reason.into() });
    }

    fn say(&mut self, conn: Conn, what: &FromCoordinator) {
        self.touched.insert(conn);
        // Not read from here: nobody would take the lines until more came.
        if let Some(connection) = self.connections.get_mut(&conn)
            && connection.link.say(what).and_then(|()| connection.link.flush()).is_err()
        {
            connection.ending = true;
        }
    }

    fn drop_connection(&mut self, now: u64, conn: Conn) {
        self.remove(conn);
        self.coordinator.gone(now, conn);
    }

    /// Tells hosts of all members, as long as lists that were said before do not wait for their readers.
    fn say_lists(&mut self) {
        let begun = now();
        while self.coordinator.has_lists() && now().saturating_sub(begun) < LISTING {
            let waiting: usize = self.connections.values().map(|c| c.link.waiting()).sum();
            if waiting > MAX_LISTS {
                break;
            }
            let Some((conn, what)) = self.coordinator.list() else { break };
            self.say(conn, &what);
        }
    }

    /// Lets go of those that are silent, or refused and told so.
    fn clean(&mut self, now: u64) {
        let mut gone = Vec::new();
        for conn in std::mem::take(&mut self.touched) {
            let Some(c) = self.connections.get_mut(&conn) else { continue };
            let writes = c.link.wants_write();
            if c.ending && !writes {
                gone.push(conn);
            } else if writes != c.writes {
                let wanted =
                    if writes { epoll::EventFlags::IN | epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
                if epoll::modify(&self.epoll, &c.link, epoll::EventData::new_u64(conn), wanted).is_err() {
                    gone.push(conn);
                }
                c.writes = writes;
            }
        }
        if now >= self.sweep {
            self.sweep = now + SECOND / 2;
            let is_silent = |c: &Connection| {
                let patience = if c.host.is_some() { self.silence } else { PATIENCE };
                now.saturating_sub(c.heard) > patience
            };
            gone.extend(self.connections.iter().filter(|(_, c)| is_silent(c)).map(|(conn, _)| *conn));
        }
        gone.into_iter().for_each(|conn| self.drop_connection(now, conn));
    }
}

/// Has the process open as many files as it may: each connection is one.
fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

/// Why a certificate is worth nothing at the time `today`, if it is.
fn worthless(removed: &Removed, shown: &Identity, today: u64) -> Option<&'static str> {
    if removed.has(shown) {
        return Some(REMOVED);
    }
    shown.has_expired(today).then_some(EXPIRED)
}
