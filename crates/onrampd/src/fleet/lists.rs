//! Lists that coordinators keep of hosts, a file each: hosts removed from the fleet and other addresses that hosts
//! have, as an operator says; and hosts that have ever been members.
//!
//! The operator's commands write the lists of their host, and tell the other coordinators, which write theirs.

use super::pki::{self, Identity, other};
use ipnet::IpNet;
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The lists' folder in the coordinator's.
pub(super) const FOLDER: &str = "lists";
const REMOVED: &str = "removed.json";
const ALIASES: &str = "aliases.json";
const MEMBERS: &str = "members.json";
/// A file is no longer than this: some hundred thousand hosts.
const LONGEST: u64 = 16 << 20;

/// A list of hosts by their addresses, and what is said of each.
pub struct List<T> {
    path: PathBuf,
    /// The file that was read, and its time.
    seen: Option<(u64, SystemTime)>,
    hosts: BTreeMap<IpAddr, T>,
}

/// Hosts that were removed, and when, in seconds since 1970: a membership that began before is worth nothing, and
/// so are its certificates, whenever they were renewed.
pub type Removed = List<u64>;

/// The networks in which hosts may have other addresses.
pub type Aliases = List<Vec<IpNet>>;

/// Hosts that are or were members.
pub type Members = List<()>;

impl<T: Serialize + DeserializeOwned> List<T> {
    fn in_folder(folder: &Path, file: &str) -> io::Result<Self> {
        let path = pki::coordinators(folder).join(FOLDER).join(file);
        let mut this = Self { path, seen: None, hosts: BTreeMap::new() };
        this.refresh()?;
        Ok(this)
    }

    /// Reads the list again if it has changed; true if it has.
    ///
    /// # Errors
    /// It is broken; what was read before stays.
    pub fn refresh(&mut self) -> io::Result<bool> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", self.path.display()));
        let found = found(&self.path).map_err(named)?;
        let changed = found.as_ref().and_then(stamp);
        if changed == self.seen {
            return Ok(false);
        }
        let text = read(&self.path, found.as_ref(), "{}").map_err(named)?;
        self.hosts = serde_json::from_slice(&text).map_err(|e| named(e.into()))?;
        self.seen = changed;
        Ok(true)
    }

    /// Has `change` change the list as it is now, and writes it if that returns true.
    fn change(&mut self, change: impl FnOnce(&mut BTreeMap<IpAddr, T>) -> bool) -> io::Result<()> {
        let _lock = lock(&self.path)?;
        self.refresh()?;
        if !change(&mut self.hosts) {
            return Ok(());
        }
        pki::replace(&self.path, &serde_json::to_string(&self.hosts)?, 0o644)
    }
}

/// A file, if there is one. One that may not be looked at is no absent one.
pub(super) fn found(path: &Path) -> io::Result<Option<Metadata>> {
    match fs::metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Reads a file that was `found`; returns `none` where there is none.
pub(super) fn read(path: &Path, found: Option<&Metadata>, none: &str) -> io::Result<Vec<u8>> {
    match found {
        Some(found) if found.len() > LONGEST => Err(other("is too long")),
        Some(_) => fs::read(path),
        None => Ok(none.into()),
    }
}

/// Keeps others from changing a file, and its neighbours: commands and the coordinator may do so at the same time.
pub(super) fn lock(path: &Path) -> io::Result<File> {
    let folder = path.parent().map(File::open).ok_or(io::ErrorKind::InvalidInput)?.map_err(pki::at(path))?;
    flock(&folder, FlockOperation::LockExclusive)?;
    Ok(folder)
}

/// A file as it is now: another one, or the same written again, has another stamp.
pub(super) fn stamp(file: &Metadata) -> Option<(u64, SystemTime)> {
    Some((file.ino(), file.modified().ok()?))
}

impl Removed {
    /// Of the fleet in `folder`.
    ///
    /// # Errors
    /// The list is broken: nobody is admitted by guess.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Self::in_folder(folder, REMOVED)
    }

    /// Returns whether the host was removed after it had joined.
    #[must_use]
    pub fn has(&self, host: &Identity) -> bool {
        self.hosts.get(&host.address).is_some_and(|removed| host.membership.began() <= *removed)
    }

    /// All of them.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.hosts.keys().copied()
    }

    /// Adds `address` to the list at the time `now`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, address: IpAddr, now: u64) -> io::Result<()> {
        self.change(|hosts| hosts.insert(address.to_canonical(), now) != Some(now))
    }
}

impl Aliases {
    /// Of the fleet in `folder`.
    ///
    /// # Errors
    /// The list is broken.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Self::in_folder(folder, ALIASES)
    }

    /// All of it.
    #[must_use]
    pub fn all(&self) -> &BTreeMap<IpAddr, Vec<IpNet>> {
        &self.hosts
    }

    /// From now on the host at `address` may have other addresses in these networks, and in no others.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn set(&mut self, address: IpAddr, networks: Vec<IpNet>) -> io::Result<()> {
        self.change(|hosts| {
            let before = hosts.remove(&address.to_canonical());
            let is_other = before.as_ref().map_or(!networks.is_empty(), |before| *before != networks);
            if !networks.is_empty() {
                hosts.insert(address.to_canonical(), networks);
            }
            is_other
        })
    }
}

impl Members {
    /// Of the fleet in `folder`.
    ///
    /// # Errors
    /// The list is broken.
    pub fn open(folder: &Path) -> io::Result<Self> {
        Self::in_folder(folder, MEMBERS)
    }

    /// Returns whether the host at `address` is or was a member.
    #[must_use]
    pub fn has(&self, address: IpAddr) -> bool {
        self.hosts.contains_key(&address.to_canonical())
    }

    /// All of them but those that were removed.
    pub fn without<'a>(&'a self, removed: &'a Removed) -> impl Iterator<Item = IpAddr> + 'a {
        self.hosts.keys().copied().filter(|address| !removed.hosts.contains_key(address))
    }

    /// These are members, too.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, addresses: impl IntoIterator<Item = IpAddr>) -> io::Result<()> {
        self.change(|hosts| {
            let before = hosts.len();
            hosts.extend(addresses.into_iter().map(|address| (address.to_canonical(), ())));
            hosts.len() > before
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Folder;
    use crate::fleet::pki::Membership;

    /// A coordinator's.
    fn folder(name: &str) -> Folder {
        let folder = Folder::new(name);
        fs::create_dir_all(pki::coordinators(&folder.0).join(FOLDER)).unwrap();
        folder
    }

    #[test]
    fn what_was_issued_before_is_worth_nothing_and_what_comes_later_is() {
        let folder = folder("removed");
        let mut list = Removed::open(&folder.0).unwrap();
        let mut coordinator = Removed::open(&folder.0).unwrap();
        let identity = |last: u8, joined: u64| {
            let mut membership = Membership([0; 16]);
            membership.0[..8].copy_from_slice(&joined.to_be_bytes());
            Identity { address: [10, 0, 0, last].into(), membership, public: [0; 32], expires: u64::MAX }
        };
        assert!(!list.has(&identity(2, 50)) && !coordinator.refresh().unwrap());
        list.add(IpAddr::V6([0, 0, 0, 0, 0, 0xffff, 0x0a00, 2].into()), 100).unwrap();
        assert!(coordinator.refresh().unwrap() && !coordinator.refresh().unwrap());
        for list in [&list, &coordinator] {
            assert!(list.has(&identity(2, 50)) && list.has(&identity(2, 100)));
            assert!(!list.has(&identity(2, 101)) && !list.has(&identity(3, 50)));
        }
        fs::write(pki::coordinators(&folder.0).join(FOLDER).join(REMOVED), "{\"10.0.0.3\"").unwrap();
        assert!(Removed::open(&folder.0).err().unwrap().to_string().contains("removed.json: "));
        assert!(coordinator.refresh().is_err() && coordinator.has(&identity(2, 50)), "what was known stays");
    }

    #[test]
    fn who_was_a_member_is_known_to_all_who_write_the_list() {
        let folder = folder("members");
        let [mut ours, mut theirs] = [(); 2].map(|()| Members::open(&folder.0).unwrap());
        let [two, three]: [IpAddr; 2] = [[10, 0, 0, 2].into(), [10, 0, 0, 3].into()];
        ours.add([two]).unwrap();
        theirs.add([three, two]).unwrap();
        assert!(theirs.has(two) && theirs.has(three) && !ours.has(three));
        assert!(ours.refresh().unwrap() && ours.has(three) && !ours.has([10, 0, 0, 4].into()));
    }

    #[test]
    fn aliases_are_given_and_taken_away() {
        let folder = folder("aliases");
        let mut list = Aliases::open(&folder.0).unwrap();
        let mut coordinator = Aliases::open(&folder.0).unwrap();
        let host: IpAddr = [10, 0, 0, 2].into();
        list.set(host, Vec::new()).unwrap();
        assert!(!coordinator.refresh().unwrap(), "there is nothing to write");
        let networks: Vec<IpNet> = vec!["fd09::2/128".parse().unwrap(), "10.244.3.0/24".parse().unwrap()];
        list.set(host, networks.clone()).unwrap();
        assert!(coordinator.refresh().unwrap());
        assert_eq!(coordinator.all().get(&host), Some(&networks));
        list.set(host, Vec::new()).unwrap();
        assert!(coordinator.refresh().unwrap() && coordinator.all().is_empty());
    }
}
