//! Hosts that were removed from the fleet: a membership that began before is worth nothing, and so are
//! its certificates, whenever they were renewed.

use super::pki::{self, Identity, other};
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const FILE: &str = "removed.json";
/// A file is no longer than this: some hundred thousand hosts.
const LONGEST: u64 = 16 << 20;

/// The coordinator's list: addresses, and when they were removed, in seconds since 1970.
pub struct Removed {
    path: PathBuf,
    seen: Option<SystemTime>,
    hosts: BTreeMap<IpAddr, u64>,
}

impl Removed {
    /// Of the fleet in `folder`.
    ///
    /// # Errors
    /// The list is broken: nobody is admitted by guess.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let mut this = Self { path: pki::coordinators(folder).join(FILE), seen: None, hosts: BTreeMap::new() };
        this.refresh()?;
        Ok(this)
    }

    /// Reads the list again if it has changed; true if it has.
    ///
    /// # Errors
    /// It is broken; what was read before stays.
    pub fn refresh(&mut self) -> io::Result<bool> {
        let found = fs::metadata(&self.path).ok();
        let changed = found.as_ref().and_then(|m| m.modified().ok());
        if changed == self.seen {
            return Ok(false);
        }
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", self.path.display()));
        if found.as_ref().map_or(0, Metadata::len) > LONGEST {
            return Err(named(other("is too long")));
        }
        let text = if found.is_some() { fs::read(&self.path).map_err(named)? } else { b"{}".into() };
        self.hosts = serde_json::from_slice(&text).map_err(|e| named(e.into()))?;
        self.seen = changed;
        Ok(true)
    }

    /// Returns whether the host was removed after it had joined.
    #[must_use]
    pub fn has(&self, host: &Identity) -> bool {
        self.hosts.get(&host.address).is_some_and(|removed| host.membership.began() <= *removed)
    }

    /// Adds `address` to the list at the time `now`.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, address: IpAddr, now: u64) -> io::Result<()> {
        self.hosts.insert(address.to_canonical(), now);
        pki::replace(&self.path, &serde_json::to_string(&self.hosts)?, 0o644)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::pki::Membership;

    #[test]
    fn what_was_issued_before_is_worth_nothing_and_what_comes_later_is() {
        let folder = std::env::temp_dir().join(format!("orremoved{}", std::process::id()));
        fs::create_dir_all(pki::coordinators(&folder)).unwrap();
        let mut list = Removed::open(&folder).unwrap();
        let mut coordinator = Removed::open(&folder).unwrap();
        let identity = |last: u8, joined: u64| {
            let mut membership = Membership([0; 16]);
            membership.0[..8].copy_from_slice(&joined.to_be_bytes());
            Identity { address: [10, 0, 0, last].into(), membership, expires: u64::MAX }
        };
        assert!(!list.has(&identity(2, 50)) && !coordinator.refresh().unwrap());
        list.add(IpAddr::V6([0, 0, 0, 0, 0, 0xffff, 0x0a00, 2].into()), 100).unwrap();
        assert!(coordinator.refresh().unwrap() && !coordinator.refresh().unwrap());
        for list in [&list, &coordinator] {
            assert!(list.has(&identity(2, 50)) && list.has(&identity(2, 100)));
            assert!(!list.has(&identity(2, 101)) && !list.has(&identity(3, 50)));
        }
        fs::write(pki::coordinators(&folder).join(FILE), "{\"10.0.0.3\"").unwrap();
        assert!(Removed::open(&folder).err().unwrap().to_string().contains("removed.json: "));
        assert!(coordinator.refresh().is_err() && coordinator.has(&identity(2, 50)), "what was known stays");
        fs::remove_dir_all(folder).unwrap();
    }
}
