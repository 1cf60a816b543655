//! Tokens that admit hosts, as their coordinator keeps them: one file each, without the secret.
//!
//! Who may write the folder makes tokens: root, and the coordinator, which counts their uses. Times
//! are of the coordinator's system clock, and compared with no other.

use super::pki::{coordinators, other, replace, write_new};
use hex::FromHex as _;
use ipnet::IpNet;
use ring::digest;
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};
use subtle::ConstantTimeEq as _;

/// The tokens' folder in the coordinator's.
pub(super) const FOLDER: &str = "tokens";
/// Of the secret's digest, in hex digits.
const ID: usize = 8;
/// A file is no longer than this.
const LONGEST: u64 = 1024;

/// Terms of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// How many hosts it still admits.
    pub uses: u32,
    /// Until when, in seconds since 1970.
    pub expires: u64,
    /// Hosts with these addresses only.
    pub within: Option<IpNet>,
}

#[derive(Serialize, Deserialize)]
struct Kept {
    /// SHA-256 of the secret, in hex digits.
    digest: String,
    #[serde(flatten)]
    terms: Terms,
}

/// A coordinator's tokens.
pub struct Tokens {
    folder: PathBuf,
}

/// A token that admits a host, not yet counted.
pub struct Admission<'a> {
    tokens: &'a Tokens,
    /// The token's name.
    pub id: String,
    kept: Kept,
}

/// Seconds since 1970.
#[must_use]
pub fn today() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Tokens {
    /// Those of the fleet in `folder`.
    #[must_use]
    pub fn of(folder: &Path) -> Self {
        Self { folder: coordinators(folder).join(FOLDER) }
    }

    /// Makes a token; its secret, which is kept nowhere.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn create(&self, terms: Terms) -> io::Result<[u8; 16]> {
        let mut secret = [0; 16];
        SystemRandom::new().fill(&mut secret).map_err(other)?;
        let digest = digest_of(&secret);
        let kept = serde_json::to_string(&Kept { digest: digest.clone(), terms })?;
        write_new(&self.folder, &name(&digest[..ID]), &kept, 0o660)?;
        Ok(secret)
    }

    /// All that admit somebody at the time `now`, by name. Files that are none are left out.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn list(&self, now: u64) -> io::Result<Vec<(String, Terms)>> {
        let kept = self.all()?.into_iter().filter(|(_, kept)| kept.terms.expires > now);
        let mut found: Vec<(String, Terms)> = kept.map(|(id, kept)| (id, kept.terms)).collect();
        found.sort_by_key(|(id, terms)| (terms.expires, id.clone()));
        Ok(found)
    }

    /// Has a token admit nobody from now on.
    ///
    /// # Errors
    /// There is none of this name, or the folder cannot be written.
    pub fn revoke(&self, id: &str) -> io::Result<()> {
        let _lock = self.lock()?;
        let is_name = id.len() == ID && id.bytes().all(|b| b.is_ascii_hexdigit());
        let gone = if is_name { fs::remove_file(self.path(id)) } else { Err(io::ErrorKind::NotFound.into()) };
        gone.map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                io::Error::new(io::ErrorKind::InvalidInput, format!("{id}: is no token: see onrampctl token list"))
            }
            _ => self.named()(e),
        })
    }

    /// Returns whether a secret admits the host at `address` at the time `now`. Nothing is counted yet.
    ///
    /// # Errors
    /// Why it does not.
    pub fn admits(&self, secret: &str, address: IpAddr, now: u64) -> Result<Admission<'_>, String> {
        let unknown = "the token is none of this coordinator's, or used up, or withdrawn";
        let secret = <[u8; 16]>::from_hex(secret).map_err(|_| unknown)?;
        let digest = digest_of(&secret);
        let id = digest[..ID].to_string();
        let kept = self.read(&id).map_err(|_| unknown)?;
        if !bool::from(kept.digest.as_bytes().ct_eq(digest.as_bytes())) || kept.terms.uses == 0 {
            return Err(unknown.into());
        }
        if kept.terms.expires <= now {
            return Err(format!("the token {id} has expired: make another with onrampctl token create"));
        }
        if let Some(within) = kept.terms.within.filter(|within| !within.contains(&address.to_canonical())) {
            return Err(format!("the token {id} admits {within} only, not {address}"));
        }
        Ok(Admission { tokens: self, id, kept })
    }

    /// Removes what has expired.
    pub fn clean(&self, now: u64) {
        let Ok(_lock) = self.lock() else { return };
        for (id, kept) in self.all().unwrap_or_default() {
            if kept.terms.expires <= now {
                let _ = fs::remove_file(self.path(&id));
            }
        }
    }

    /// All by name; files that are no tokens are left out.
    fn all(&self) -> io::Result<Vec<(String, Kept)>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(self.named())? {
            let file = entry?.file_name();
            let id = file.to_str().and_then(|file| file.strip_suffix(".json"));
            found.extend(id.and_then(|id| Some((id.to_string(), self.read(id).ok()?))));
        }
        Ok(found)
    }

    fn read(&self, id: &str) -> io::Result<Kept> {
        let path = self.path(id);
        if fs::metadata(&path)?.len() > LONGEST {
            return Err(other("is too long"));
        }
        Ok(serde_json::from_slice(&fs::read(path)?)?)
    }

    fn path(&self, id: &str) -> PathBuf {
        self.folder.join(name(id))
    }

    /// A token that is withdrawn is not written again by who counts.
    fn lock(&self) -> io::Result<File> {
        let folder = File::open(&self.folder).map_err(self.named())?;
        flock(&folder, FlockOperation::LockExclusive)?;
        Ok(folder)
    }

    fn named(&self) -> impl Fn(io::Error) -> io::Error {
        let folder = self.folder.display().to_string();
        move |e| io::Error::new(e.kind(), format!("{folder}: {e}"))
    }
}

impl Admission<'_> {
    /// Counts a use. Only then is the host admitted: a token whose use is not written down would
    /// admit more than it says.
    ///
    /// # Errors
    /// It was withdrawn, or the count cannot be written.
    pub fn count(mut self) -> io::Result<String> {
        let _lock = self.tokens.lock()?;
        let path = self.tokens.path(&self.id);
        self.kept.terms.uses -= 1;
        if self.kept.terms.uses == 0 {
            fs::remove_file(&path)?;
            return Ok(self.id);
        }
        fs::metadata(&path)?;
        replace(&path, &serde_json::to_string(&self.kept)?, 0o660)?;
        Ok(self.id)
    }
}

fn name(id: &str) -> String {
    format!("{id}.json")
}

fn digest_of(secret: &[u8; 16]) -> String {
    hex::encode(digest::digest(&digest::SHA256, secret))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Folder;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    /// Tokens of a folder.
    struct Lab(#[expect(dead_code, reason = "it goes with this")] Folder, Tokens);

    impl Lab {
        fn new(name: &str) -> Self {
            let folder = Folder::new(name);
            fs::create_dir_all(coordinators(&folder.0).join(FOLDER)).unwrap();
            let tokens = Tokens::of(&folder.0);
            Self(folder, tokens)
        }

        fn create(&self, uses: u32, expires: u64, within: Option<&str>) -> String {
            let within = within.map(|net| net.parse().unwrap());
            hex::encode(self.1.create(Terms { uses, expires, within }).unwrap())
        }

        fn refusal(&self, secret: &str, address: IpAddr, now: u64) -> String {
            self.1.admits(secret, address, now).err().expect("it is refused")
        }
    }

    #[test]
    fn a_token_admits_as_many_as_it_says() {
        let lab = Lab::new("uses");
        let secret = lab.create(2, 100, None);
        for left in [1, 0] {
            lab.1.admits(&secret, HOST, 99).unwrap();
            let id = lab.1.admits(&secret, HOST, 99).unwrap().count().unwrap();
            let listed = lab.1.list(99).unwrap();
            assert_eq!(listed.iter().map(|(id, terms)| (id, terms.uses)).next(), (left > 0).then_some((&id, left)));
        }
        assert!(lab.refusal(&secret, HOST, 99).contains("used up"));
    }

    #[test]
    fn a_token_expires_and_is_of_its_addresses() {
        let lab = Lab::new("terms");
        let secret = lab.create(1, 100, Some("10.0.0.0/30"));
        assert!(lab.1.admits(&secret, HOST, 99).is_ok());
        let mapped = IpAddr::V6([0, 0, 0, 0, 0, 0xffff, 0x0a00, 2].into());
        assert!(lab.1.admits(&secret, mapped, 99).is_ok(), "IPv4 written as IPv6");
        assert!(lab.refusal(&secret, [10, 0, 0, 4].into(), 99).contains("admits 10.0.0.0/30 only, not 10.0.0.4"));
        assert!(lab.refusal(&secret, HOST, 100).contains("has expired"));
        assert_eq!((lab.1.list(99).unwrap().len(), lab.1.list(100).unwrap().len()), (1, 0));
        lab.1.clean(100);
        assert!(lab.refusal(&secret, HOST, 99).contains("none of this coordinator's"));
    }

    #[test]
    fn a_token_that_is_withdrawn_admits_nobody_even_if_it_was_just_shown() {
        let lab = Lab::new("revoked");
        let secret = lab.create(5, 100, None);
        let shown = lab.1.admits(&secret, HOST, 1).unwrap();
        lab.1.revoke(&shown.id.clone()).unwrap();
        assert!(shown.count().is_err());
        assert!(lab.refusal(&secret, HOST, 1).contains("withdrawn"));
        for id in ["0123abcd", "", "../../secret", "0123abcdef"] {
            assert!(lab.1.revoke(id).unwrap_err().to_string().contains("is no token"), "{id}");
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        let lab = Lab::new("none");
        let secret = lab.create(1, 100, None);
        let (id, _) = lab.1.list(1).unwrap().remove(0);
        for wrong in ["", "zz", &secret[1..], &"0".repeat(32)] {
            assert!(lab.refusal(wrong, HOST, 1).contains("none of this coordinator's"), "{wrong}");
        }
        for broken in ["", "{}", "{\"digest\":\"\",\"uses\":-1}", &"x".repeat(5000)] {
            fs::write(lab.1.path(&id), broken).unwrap();
            assert!(lab.1.admits(&secret, HOST, 1).is_err() && lab.1.list(1).unwrap().is_empty(), "{broken}");
        }
    }
}
