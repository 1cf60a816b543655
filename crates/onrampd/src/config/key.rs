//! The secret two hosts share.

use hex::FromHex as _;
use std::fmt;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::str::FromStr;

/// A SipHash key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Key(pub [u8; 16]);

impl Key {
    /// Reads 32 hex digits from a file.
    ///
    /// # Errors
    /// The file cannot be read, everybody may read it, or it holds something else.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let failed = |e| format!("cannot read {shown}: {e}");
        let mut file = File::open(path).map_err(failed)?;
        let mode = file.metadata().map_err(failed)?.mode();
        if mode & 0o007 != 0 {
            return Err(format!("everybody on this host can read {shown}: chmod o-rwx {shown}"));
        }
        let mut text = String::new();
        file.by_ref().take(256).read_to_string(&mut text).map_err(failed)?;
        text.trim().parse().map_err(|e| format!("{shown} {e}"))
    }

    /// The key of these halves.
    #[must_use]
    pub fn from_halves([low, high]: [u64; 2]) -> Self {
        Self((u128::from(high) << 64 | u128::from(low)).to_le_bytes())
    }

    /// Its halves, read as little endian.
    #[must_use]
    pub fn halves(self) -> [u64; 2] {
        let all = u128::from_le_bytes(self.0);
        [all as u64, (all >> 64) as u64]
    }
}

/// Keys of a pair of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    /// By which tags are made.
    pub sign: Key,
    /// The other one whose tags count, while the key changes; else the same.
    pub accept: Key,
}

impl From<Key> for Keys {
    fn from(key: Key) -> Self {
        Self { sign: key, accept: key }
    }
}

impl FromStr for Key {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = "is not 32 hex digits: make some with `openssl rand -hex 16`";
        <[u8; 16]>::from_hex(text).map(Self).map_err(|_| wrong.into())
    }
}

/// Keys do not appear in logs.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Returns whether everybody may read the file at `path`.
pub(super) fn world_readable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| m.mode() & 0o004 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_digits_are_the_first_byte() {
        let key: Key = "000102030405060708090a0b0c0d0e0f".parse().unwrap();
        assert_eq!(key.halves(), [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        for bad in ["", "00", "+00102030405060708090a0b0c0d0e0f", "000102030405060708090a0b0c0d0e0g"] {
            assert!(bad.parse::<Key>().is_err(), "{bad}");
        }
    }
}
