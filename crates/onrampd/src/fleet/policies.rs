//! The fleet's policy as its coordinators keep it: all versions in one file, the newest last.
//!
//! The operator's commands write the file of their host and tell the other coordinators, as with the
//! [lists](super::lists).

use super::lists::{FOLDER, found, lock, read, stamp};
use super::pki::{self, other};
use crate::policy::{KEEP, Policy, Trial, Version};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const POLICY: &str = "policy.json";
/// Versions that are kept.
const KEPT: usize = 100;

/// A fleet's policy, present and past.
pub struct Policies {
    path: PathBuf,
    /// The file that was read, and its time.
    seen: Option<(u64, SystemTime)>,
    versions: Vec<Version>,
}

impl Policies {
    /// Of the fleet in `folder`.
    ///
    /// # Errors
    /// The file is broken.
    pub fn open(folder: &Path) -> io::Result<Self> {
        let path = pki::coordinators(folder).join(FOLDER).join(POLICY);
        let mut this = Self { path, seen: None, versions: Vec::new() };
        this.refresh()?;
        Ok(this)
    }

    /// Reads the file again if it has changed; true if it has.
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
        // A broken one is told of once.
        self.seen = changed;
        let text = read(&self.path, found.as_ref(), "[]").map_err(named)?;
        let versions: Vec<Version> = serde_json::from_slice(&text).map_err(|e| named(e.into()))?;
        if !versions.iter().all(Version::is_sound) || !versions.is_sorted_by(|a, b| a.stamp() < b.stamp()) {
            return Err(named(other("holds what onrampctl policy has not written")));
        }
        self.versions = versions;
        Ok(true)
    }

    /// The version that counts, if there ever was one.
    #[must_use]
    pub fn present(&self) -> Option<&Version> {
        self.versions.last()
    }

    /// All that are kept, the oldest first.
    #[must_use]
    pub fn all(&self) -> &[Version] {
        &self.versions
    }

    /// The policy of a version; 0 is none.
    ///
    /// # Errors
    /// It is not kept.
    pub fn policy(&self, version: u64) -> io::Result<Option<&Policy>> {
        // Of two with one number the newer one counted.
        let found = self.versions.iter().rev().find(|kept| kept.version == version).map(|kept| kept.policy.as_ref());
        let unknown = || format!("{version}: is no version of the policy: see onrampctl policy history");
        let found = found.or((version == 0).then_some(None));
        found.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, unknown()))
    }

    /// Adds what `make` makes of the present version and the number of the next one, which is above `known` as well.
    /// `None` from it changes nothing. Returns the version that counts then.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn add(
        &mut self,
        known: u64,
        make: impl FnOnce(Option<&Version>, u64) -> Option<Version>,
    ) -> io::Result<Option<&Version>> {
        let _lock = lock(&self.path)?;
        self.reread()?;
        let next = self.present().map_or(0, |version| version.version).max(known).saturating_add(1);
        if let Some(version) = make(self.present(), next) {
            self.write(version)?;
        }
        Ok(self.present())
    }

    /// Keeps a version that was made on another coordinator's host.
    ///
    /// # Errors
    /// It is older than the one here, or cannot be written.
    pub fn keep(&mut self, version: Version) -> io::Result<()> {
        let _lock = lock(&self.path)?;
        self.reread()?;
        match self.present() {
            Some(present) if *present == version => Ok(()),
            Some(present) if version.stamp() <= present.stamp() => {
                Err(other(format!("has version {} of the policy, which is newer: say it again", present.version)))
            }
            _ => self.write(version),
        }
    }

    /// Goes back from a version whose trial is over. Each coordinator does, and makes the same version of it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn end_trial(&mut self, today: u64) -> io::Result<()> {
        let Some(version) = self.present().filter(|present| present.has_lapsed(today)).cloned() else { return Ok(()) };
        let Some(Trial { until, back }) = version.trial else { return Ok(()) };
        let observe = || Policy { keep: KEEP, rules: Vec::new() };
        // Nobody holds by a policy that is not known any more.
        let policy = self.policy(back).map_or_else(|_| Some(observe()), Option::<&_>::cloned);
        let what = format!("end of the trial of version {}: back to version {back}", version.version);
        self.add(0, |present, next| {
            (present == Some(&version)).then(|| Version {
                version: next,
                at: until,
                what,
                trial: None,
                message: None,
                policy,
                ..version.clone()
            })
        })?;
        Ok(())
    }

    fn write(&mut self, version: Version) -> io::Result<()> {
        let mut versions = self.versions.clone();
        versions.push(version);
        versions.drain(..versions.len().saturating_sub(KEPT));
        pki::replace(&self.path, &serde_json::to_string(&versions)?, 0o644)?;
        self.versions = versions;
        // Whoever looks for changes finds this one.
        self.seen = None;
        Ok(())
    }

    fn reread(&mut self) -> io::Result<()> {
        self.seen = None;
        self.refresh().map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Folder;
    use crate::policy::file::load;
    use std::fs;

    fn version(version: u64, policy: Option<&str>) -> Version {
        let policy = policy.map(|mode| load(&format!("[[rule]]\nmode = \"{mode}\""), "p.toml").unwrap());
        let [by, from, what] = ["root", "a", "set"].map(String::from);
        Version { version, at: 7, by, from, what, message: None, stopped: false, stop: None, policy, trial: None }
    }

    fn numbers(policies: &Policies) -> Vec<u64> {
        policies.all().iter().map(|version| version.version).collect()
    }

    #[test]
    fn versions_are_numbered_upwards_and_the_coordinator_sees_them() {
        let folder = Folder::new("policies");
        fs::create_dir_all(pki::coordinators(&folder.0).join(FOLDER)).unwrap();
        let [mut command, mut coordinator] = [(); 2].map(|()| Policies::open(&folder.0).unwrap());
        assert!(command.present().is_none() && !coordinator.refresh().unwrap());
        let mut set = |known, mode| command.add(known, |_, next| Some(version(next, mode))).unwrap().unwrap().version;
        assert_eq!([set(0, Some("enforce")), set(0, None), set(9, Some("observe"))], [1, 2, 10], "members know of 9");
        assert!(command.add(0, |_, _| None).unwrap().is_some_and(|present| present.version == 10));
        assert!(coordinator.refresh().unwrap() && !coordinator.refresh().unwrap());
        assert_eq!(numbers(&coordinator), [1, 2, 10]);
        assert!(coordinator.policy(0).unwrap().is_none() && coordinator.policy(2).unwrap().is_none());
        assert_eq!(coordinator.policy(1).unwrap(), version(1, Some("enforce")).policy.as_ref());
        assert!(coordinator.policy(3).unwrap_err().to_string().starts_with("3: is no version of the policy"));

        // As another coordinator is told.
        coordinator.keep(version(10, Some("observe"))).unwrap();
        let older = coordinator.keep(version(9, None)).unwrap_err().to_string();
        assert_eq!(older, "has version 10 of the policy, which is newer: say it again");
        coordinator.keep(Version { stopped: true, ..version(10, None) }).unwrap();
        assert!(coordinator.refresh().unwrap(), "it is to be told");
        coordinator.keep(version(11, None)).unwrap();
        assert_eq!(numbers(&coordinator), [1, 2, 10, 10, 11]);

        // A trial that nobody ends.
        let on_trial = |command: &mut Policies, back| {
            let trial = Some(Trial { until: 100, back });
            command
                .add(0, |_, next| Some(Version { trial, ..version(next, Some("enforce")) }))
                .unwrap()
                .unwrap()
                .version
        };
        assert_eq!(on_trial(&mut command, 10), 12);
        coordinator.end_trial(200).unwrap();
        assert_eq!(coordinator.present().unwrap().version, 11, "it has not read that version yet");
        coordinator.refresh().unwrap();
        coordinator.end_trial(99).unwrap();
        assert_eq!(coordinator.present().unwrap().version, 12);
        coordinator.end_trial(100).unwrap();
        let back = coordinator.present().unwrap().clone();
        assert_eq!((back.version, back.at, back.trial), (13, 100, None));
        assert_eq!((&back.policy, back.what.as_str()), (&None, "end of the trial of version 12: back to version 10"));
        coordinator.end_trial(200).unwrap();
        assert_eq!(coordinator.present().unwrap().version, 13, "once");
        on_trial(&mut command, 99);
        coordinator.refresh().unwrap();
        coordinator.end_trial(100).unwrap();
        assert_eq!(coordinator.present().unwrap().policy.as_ref().unwrap().rules, [], "of no policy, nobody holds");

        for _ in 0..KEPT {
            command.add(0, |_, next| Some(version(next, None))).unwrap();
        }
        assert_eq!((command.all().len(), command.present().unwrap().version), (KEPT, 115));
        let path = pki::coordinators(&folder.0).join(FOLDER).join(POLICY);
        for broken in ["[{\"version\"", "{}", &serde_json::to_string(&[version(2, None), version(1, None)]).unwrap()] {
            fs::write(&path, broken).unwrap();
            assert!(coordinator.refresh().unwrap_err().to_string().contains("policy.json: "));
            assert_eq!(coordinator.present().unwrap().version, 15, "what was known stays");
            assert!(command.add(0, |_, next| Some(version(next, None))).is_err());
        }
    }
}
