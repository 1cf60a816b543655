//! The fleet's policy as this host keeps it, also over a start anew without a coordinator.

use crate::fleet::pki;
use crate::fleet::tokens::today;
use crate::policy::{Heard, Held, Said};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use tracing::warn;

const SECOND: u64 = 1_000_000_000;
/// A file is no longer than this.
const LONGEST: u64 = 16 << 10;
/// While a coordinator stands by a policy this is written down so often, or eight times in `keep`. What that leaves out
/// the policy counts less long after a start anew.
const WRITE: u64 = 60 * SECOND;

#[derive(Serialize, Deserialize)]
struct Kept {
    said: Said,
    /// When a coordinator last stood by it, in seconds since 1970.
    heard: u64,
}

/// A host's policy and its file.
pub struct Keeper {
    path: PathBuf,
    held: Held,
    written: u64,
    /// Why the file cannot be written.
    trouble: Option<String>,
}

impl Keeper {
    /// Reads what the agent before has kept in `folder`. What is broken holds nothing.
    #[must_use]
    pub fn open(folder: &Path, now: u64) -> Self {
        let path = pki::policy(folder);
        let held = match read(&path) {
            Ok(Some(kept)) => Held::kept(kept.said, kept.heard, today(), now),
            Ok(None) => Held::default(),
            Err(e) => {
                warn!("nothing is held until a coordinator serves: {}: {e}", path.display());
                Held::broken(now)
            }
        };
        Self { path, held, written: now, trouble: None }
    }

    /// The policy heard, and how long it counts.
    #[must_use]
    pub fn held(&self) -> &Held {
        &self.held
    }

    /// Why it cannot be written down.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// The coordinator that serves has said this.
    pub fn hear(&mut self, said: Said, now: u64) {
        if !said.is_sound() {
            warn!("the coordinator's policy is out of bounds, and not taken");
        } else if self.held.hear(said) == Heard::Taken {
            self.write(now);
        }
    }

    /// No coordinator serves any more, or another one.
    pub fn lost(&mut self, now: u64) {
        if self.held.lost(now) {
            self.write(now);
        }
    }

    /// Writes down now and then that a coordinator stands by it.
    pub fn tend(&mut self, now: u64) {
        let stands = self.held.said.as_ref().filter(|_| self.held.until.is_none());
        let often = stands.map(|said| (said.keep.0.saturating_mul(SECOND) / 8).clamp(SECOND, WRITE));
        if often.is_some_and(|often| now.saturating_sub(self.written) >= often) {
            self.write(now);
        }
    }

    fn write(&mut self, now: u64) {
        self.written = now;
        let Some(said) = self.held.said.clone() else { return };
        let text = serde_json::to_string(&Kept { said, heard: today() }).map_err(io::Error::from);
        let done = text.and_then(|text| pki::replace(&self.path, &text, 0o644));
        self.trouble = done.err().map(|e| format!("the policy is lost if this agent ends: {e}"));
    }
}

fn read(path: &Path) -> io::Result<Option<Kept>> {
    let file = match File::open(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut text = Vec::new();
    file.take(LONGEST).read_to_end(&mut text)?;
    let kept: Kept = serde_json::from_slice(&text)?;
    if kept.said.is_sound() { Ok(Some(kept)) } else { Err(io::Error::other("is out of bounds")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Mode;
    use crate::config::quantity::Life;
    use crate::fleet::Folder;
    use crate::policy::Says;
    use std::fs;

    fn said(version: u64, keep: u64) -> Said {
        let says = Some(Says { mode: Mode::Enforce, threshold: None, rule: Some(1) });
        Said { version, at: 9, by: "root".into(), from: "a".into(), stopped: false, stop: None, keep: Life(keep), says }
    }

    #[test]
    fn it_outlives_the_agent_for_what_is_left_of_its_time() {
        let folder = Folder::new("kept");
        let path = pki::policy(&folder.0);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut keeper = Keeper::open(&folder.0, 0);
        assert_eq!(keeper.held(), &Held::default());
        keeper.hear(Said { by: "x".repeat(999), ..said(3, 60) }, 0);
        assert_eq!(keeper.held(), &Held::default(), "out of bounds");
        keeper.hear(said(3, 3_600), 0);
        let again = Keeper::open(&folder.0, 0);
        assert_eq!(again.held().said, Some(said(3, 3_600)));
        let left = again.held().left(0).unwrap();
        assert!((3_590 * SECOND..=3_600 * SECOND).contains(&left), "{left}");
        // It is written down again and again for as long as a coordinator stands by it.
        let remove = || fs::remove_file(&path).unwrap();
        remove();
        keeper.tend(59 * SECOND);
        assert!(!path.exists());
        keeper.tend(60 * SECOND);
        remove();
        keeper.lost(61 * SECOND);
        remove();
        keeper.tend(900 * SECOND);
        assert!(!path.exists(), "nobody stands by it");

        for broken in ["", "{}", "{\"said\":1}"] {
            fs::write(&path, broken).unwrap();
            let keeper = Keeper::open(&folder.0, 5);
            assert!(keeper.held().has_run_out(5), "{broken}");
        }
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
        let mut keeper = Keeper::open(&folder.0, 5);
        keeper.hear(said(4, 60), 5);
        assert!(keeper.trouble().unwrap().starts_with("the policy is lost if this agent ends: "));
        assert_eq!(keeper.held().said, Some(said(4, 60)), "it counts all the same");
    }
}
