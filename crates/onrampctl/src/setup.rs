//! The commands `init`, `join` and `token …`: a host's folder of certificates and its configuration.

use crate::coordinator;
use ipnet::IpNet;
use nix::ifaddrs::{InterfaceAddress, getifaddrs};
use nix::unistd::{AccessFlags, Group, access};
use onramp_netlink::Socket;
use onrampd::agent::Error::NoInterface;
use onrampd::config::{Config, Fleet, Mode};
use onrampd::fleet::lists::{Aliases, Members, Removed};
use onrampd::fleet::pki::{self, Authority, Token};
use onrampd::fleet::tokens::{Terms, Tokens, today};
use onrampd::fleet::wire::FromHost;
use onrampd::net::acker;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::thread;

/// The group whose agent must read the host's key.
pub const AGENT: &str = "onrampd";
/// The group whose coordinator must read the authority's.
const COORDINATOR: &str = "onrampd-coordinator";

/// Bytes that are read of a file with a token.
const LONGEST: u64 = 1024;

/// A host as the operator describes it.
pub struct Host {
    /// Its configuration, which is written; certificates go to the folder `fleet` beside it.
    pub config: PathBuf,
    /// The interface that packets leave by.
    pub interface: String,
    /// Observing, or holding packets.
    pub mode: Mode,
}

impl Host {
    fn folder(&self) -> PathBuf {
        self.config.parent().unwrap_or(Path::new("")).join("fleet")
    }

    /// Checks that nothing is in the way, and that the configuration would be a right one.
    fn check(&self, text: &str) -> io::Result<()> {
        let shown = self.config.display();
        if self.config.exists() {
            let exists = format!("{shown}: exists: move it away, or give --config another file");
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, exists));
        }
        let base = self.config.parent().unwrap_or(Path::new(""));
        // Before a token is used up.
        let there = base.ancestors().map(|p| if p == Path::new("") { Path::new(".") } else { p }).find(|p| p.exists());
        let there = there.unwrap_or(Path::new("/"));
        access(there, AccessFlags::W_OK).map_err(|e| io::Error::other(format!("{}: {}", there.display(), e.desc())))?;
        let mut socket = Socket::open()?;
        if acker::find(&mut socket, &self.interface).map_err(io::Error::other)?.is_none() {
            return Err(wrong(NoInterface(self.interface.clone()).to_string()));
        }
        let checked = onrampd::config::load(text, &shown.to_string(), base);
        checked.map(|_| ()).map_err(|errors| wrong(format!("{}: {}", errors[0].key, errors[0].message)))
    }

    fn text(&self, address: IpAddr, coordinators: &[SocketAddr], listen: Option<SocketAddr>) -> String {
        let mode = match self.mode {
            // Left to the fleet's policy, which a mode here would bound.
            Mode::Observe => {
                "# mode: as the fleet's policy says (onrampctl policy set), and \"observe\" while there is none. \"observe\"\n\
                 # here holds nothing whatever that says; \"enforce\" holds packets while there is none."
            }
            Mode::Enforce => "mode = \"enforce\"",
        };
        let listen = listen.map_or(String::new(), |at| format!("listen = \"{at}\"\n"));
        let coordinators: Vec<String> = coordinators.iter().map(|at| format!("\"{at}\"")).collect();
        let coordinators = coordinators.join(", ");
        let interface = toml::Value::from(self.interface.as_str());
        format!(
            "interface = {interface}\n{mode}\n\n[fleet]\naddress = \"{address}\"\ncoordinators = [{coordinators}]\n{listen}"
        )
    }

    /// The last step. If it fails, the folder goes too, so that all can be tried again.
    fn write(&self, text: &str) -> io::Result<()> {
        let write = |mut file: File| {
            // Whatever the umask: the agent's user must read it.
            file.set_permissions(Permissions::from_mode(0o644))?;
            let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
            written.inspect_err(|_| drop(fs::remove_file(&self.config)))
        };
        let made = OpenOptions::new().write(true).create_new(true).open(&self.config).and_then(write);
        if let Err(e) = made {
            let _ = fs::remove_dir_all(self.folder());
            return Err(io::Error::new(e.kind(), format!("{}: {e}", self.config.display())));
        }
        give(&self.folder(), AGENT);
        Ok(())
    }
}

/// Founds a fleet on this host, which becomes its coordinator: by a process of its own, or `in_agent`.
/// Returns the token for others.
///
/// # Errors
/// There is a configuration or a fleet already, the address is not of this host, unless it is to be of one `elsewhere`, or
/// something cannot be written.
pub fn init(host: &Host, at: SocketAddr, in_agent: bool, elsewhere: bool, terms: Terms) -> io::Result<Token> {
    let address = at.ip();
    if !elsewhere {
        must_be_ours(address)?;
    }
    let text = host.text(address, &[at], in_agent.then_some(at));
    host.check(&text)?;
    let folder = host.folder();
    pki::found(&folder, address)?;
    host.write(&text)?;
    let coordinators = pki::coordinators(&folder);
    let group = coordinators_group(in_agent);
    give(&coordinators, group);
    give_one(&coordinators, group);
    new_token(&folder, at, terms)
}

/// Joins a token's fleet; without an address, as the one by which this host reaches the
/// coordinator. Returns it.
///
/// # Errors
/// There is a configuration already, the coordinator refuses, or something cannot be written.
pub fn join(host: &Host, token: &Token, address: Option<IpAddr>) -> io::Result<IpAddr> {
    address.map_or(Ok(()), must_be_ours)?;
    let address = address.map_or_else(|| towards(token.coordinator), Ok)?;
    host.check(&host.text(address, &[token.coordinator], None))?;
    let told = coordinator::join(token, address, &host.folder())?;
    host.write(&host.text(address, &listed(token.coordinator, told), None))?;
    Ok(address)
}

/// The coordinators to list, of those that the one of the token has `told`. It is listed itself, in any case.
fn listed(of_token: SocketAddr, told: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let mut all: Vec<SocketAddr> = Vec::new();
    let own = (!told.contains(&of_token)).then_some(of_token);
    for at in own.into_iter().chain(told) {
        if at.port() != 0 && !all.contains(&at) {
            all.push(at);
        }
    }
    all
}

fn must_be_ours(address: IpAddr) -> io::Result<()> {
    let none = || wrong(format!("--address {address}: this host has no such address: `ip address` lists those it has"));
    is_of_this_host(address)?.then_some(()).ok_or_else(none)
}

fn is_of_this_host(address: IpAddr) -> io::Result<bool> {
    let own = |found: InterfaceAddress| {
        let found = found.address?;
        let v4 = found.as_sockaddr_in().map(|a| IpAddr::from(a.ip()));
        v4.or_else(|| found.as_sockaddr_in6().map(|a| a.ip().into()))
    };
    Ok(getifaddrs()?.filter_map(own).any(|own| own == address.to_canonical()))
}

/// A new token of the coordinator with this configuration.
///
/// # Errors
/// This host is no coordinator, or the token cannot be written.
pub fn token(config: &Config, terms: Terms) -> io::Result<Token> {
    let fleet = coordinates(config)?;
    let nowhere = "[fleet] coordinators: none is at this host's address: add it";
    new_token(&fleet.folder, fleet.own_coordinator().ok_or_else(|| wrong(nowhere))?, terms)
}

/// The tokens of the coordinator with this configuration.
///
/// # Errors
/// This host is no coordinator.
pub fn tokens(config: &Config) -> io::Result<Tokens> {
    coordinates(config).map(|fleet| Tokens::of(&fleet.folder))
}

/// Removes the host at `address` from the fleet whose coordinator has this configuration.
///
/// # Errors
/// This host is no coordinator, it is the coordinator's own address, or the list cannot be written.
pub fn remove(config: &Config, address: IpAddr) -> io::Result<()> {
    let fleet = coordinates(config)?;
    if address.to_canonical() == fleet.address {
        return Err(wrong(format!("{address}: is this host, the coordinator: it cannot be removed here")));
    }
    must_be_member(fleet, address)?;
    let until = today();
    Removed::open(&fleet.folder)?.add(address, until)?;
    // Who has its address later has no aliases of its.
    Aliases::open(&fleet.folder)?.set(address, Vec::new())?;
    tell_others(fleet, &FromHost::Remove { address, until })
}

/// Vouches, on the coordinator with this configuration, for the other addresses of the host at `address`: those
/// in `networks`, and no others.
///
/// # Errors
/// This host is no coordinator, or the list cannot be written.
pub fn vouch(config: &Config, address: IpAddr, networks: Vec<IpNet>) -> io::Result<()> {
    let fleet = coordinates(config)?;
    must_be_member(fleet, address)?;
    // Of a network those addresses count that no host has as its own.
    for alias in networks.iter().filter(|net| net.prefix_len() == net.max_prefix_len()).map(IpNet::addr) {
        if is_member(fleet, alias)? {
            let why = if alias.to_canonical() == address.to_canonical() {
                "is the host's own address, and needs no alias"
            } else {
                "a host has joined by it: it is no alias of another one"
            };
            return Err(wrong(format!("{alias}: {why}")));
        }
    }
    Aliases::open(&fleet.folder)?.set(address, networks.clone())?;
    tell_others(fleet, &FromHost::Vouch { address, networks })
}

/// A host that is away counts as well: what is stolen is to be removed.
fn must_be_member(fleet: &Fleet, address: IpAddr) -> io::Result<()> {
    let nobody = || wrong(format!("{address}: no host of the fleet has ever joined as that: see onrampctl fleet"));
    is_member(fleet, address)?.then_some(()).ok_or_else(nobody)
}

fn is_member(fleet: &Fleet, address: IpAddr) -> io::Result<bool> {
    if Members::open(&fleet.folder)?.has(address) {
        return Ok(true);
    }
    // A standby that has never served knows nobody.
    let there = coordinator::fleet(&fleet.coordinators, &fleet.folder).map(|found| found.hosts).unwrap_or_default();
    Ok(there.iter().any(|host| host.address == address.to_canonical()))
}

/// Whose other addresses the coordinator with this configuration vouches for.
///
/// # Errors
/// This host is no coordinator, or the list cannot be read.
pub fn aliases(config: &Config) -> io::Result<BTreeMap<IpAddr, Vec<IpNet>>> {
    Ok(Aliases::open(&coordinates(config)?.folder)?.all().clone())
}

/// The coordinator on this host reads its lists; the others are told, all at once: one that does not answer keeps
/// nobody waiting.
///
/// # Errors
/// One does not answer, or cannot keep it.
pub fn tell_others(fleet: &Fleet, what: &FromHost) -> io::Result<()> {
    let authority = Authority::open(&fleet.folder)?;
    let own = fleet.own_coordinator();
    let others = fleet.coordinators.iter().filter(|at| Some(**at) != own && !fleet.is_ours(at.ip()));
    let deaf: Vec<String> = thread::scope(|scope| {
        let told: Vec<_> = others.map(|at| scope.spawn(|| coordinator::tell(*at, &authority, what))).collect();
        let failed = told.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("panicked"))));
        failed.filter_map(Result::err).map(|e| e.to_string()).collect()
    });
    let again =
        || io::Error::other(format!("{}; it holds on this one: say it again when that one is back", deaf.join("; ")));
    if deaf.is_empty() { Ok(()) } else { Err(again()) }
}

/// The fleet whose coordinator has this configuration.
///
/// # Errors
/// This host is no coordinator.
pub fn coordinates(config: &Config) -> io::Result<&Fleet> {
    let fleet = config.fleet.as_ref().filter(|fleet| pki::is_coordinator(&fleet.folder));
    fleet.ok_or_else(|| wrong("this host is no coordinator of its fleet: ask on the coordinator"))
}

fn new_token(folder: &Path, coordinator: SocketAddr, terms: Terms) -> io::Result<Token> {
    let authority = Authority::open(folder)?;
    Ok(authority.token(coordinator, Tokens::of(folder).create(terms)?))
}

/// The token that a host joins with: as given, or from a file; `-` is standard input.
///
/// # Errors
/// There is none, or it cannot be read.
pub fn given(token: Option<String>, file: Option<&Path>) -> io::Result<Token> {
    let (name, text) = match (token, file) {
        (Some(token), None) => ("the token".into(), token),
        (None, Some(file)) if file == Path::new("-") => {
            ("standard input".into(), io::read_to_string(io::stdin().take(LONGEST))?)
        }
        (_, Some(file)) => {
            let named = |e: io::Error| wrong(format!("{}: {e}", file.display()));
            let text = io::read_to_string(File::open(file).map_err(named)?.take(LONGEST)).map_err(named)?;
            (file.display().to_string(), text)
        }
        (None, None) => {
            return Err(wrong("a token is needed: --token-file FILE (- is standard input) or ONRAMP_TOKEN"));
        }
    };
    text.parse().map_err(|e: String| wrong(format!("{name}: {e}")))
}

/// Makes the error of a wrong argument (`InvalidInput`).
pub fn wrong(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, what.into())
}

/// This host's address on the way to another one.
fn towards(other: SocketAddr) -> io::Result<IpAddr> {
    let any = if other.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    socket.connect(other).map_err(|e| io::Error::new(e.kind(), format!("no way to {other}: {e}")))?;
    Ok(socket.local_addr()?.ip())
}

/// The group that must read what makes a coordinator.
pub fn coordinators_group(in_agent: bool) -> &'static str {
    if in_agent { AGENT } else { COORDINATOR }
}

/// A group's number, if there is one.
fn number(group: &str) -> Option<u32> {
    Some(Group::from_name(group).ok()??.gid.as_raw())
}

/// A file or folder in `folder` that the group, if there is one, cannot read.
#[must_use]
pub fn unreadable(folder: &Path, group: &str) -> Option<PathBuf> {
    let group = number(group)?;
    let cannot = |path: &PathBuf| {
        let readable = |m: Metadata| m.mode() & 0o004 != 0 || (m.mode() & 0o040 != 0 && m.gid() == group);
        !fs::metadata(path).is_ok_and(readable)
    };
    let coordinators = pki::coordinators(folder);
    let all = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).filter(|path| *path != coordinators);
    let mut files: Vec<PathBuf> = all.collect();
    files.sort();
    files.into_iter().find(cannot)
}

/// Lets a group read what is in a folder, if there is such a group and we may. What makes a coordinator is not
/// given along.
fn give(folder: &Path, group: &str) {
    let coordinators = pki::coordinators(folder);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten().filter(|entry| entry.path() != coordinators) {
        give_one(&entry.path(), group);
    }
}

fn give_one(path: &Path, group: &str) {
    if let Some(group) = number(group) {
        let _ = chown(path, None, Some(group));
    }
}
