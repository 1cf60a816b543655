//! Switching off: nothing is held on this host from now on, whether an agent runs or not, until it is switched on
//! again or the machine starts anew.
//!
//! A file says so, beside the folder that systemd removes when the agent ends. Gates are told at once; an agent that runs
//! finds the file within a second, goes over to observing and says why.

use super::handover;
use super::undo::{self, boot};
use crate::fleet::tokens::today;
use crate::gate::install;
use crate::gate::program;
use crate::operator::operator;
use crate::policy::{text, utc};
use onramp_netlink::{Socket, link};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Reason that an agent gives that finds the file.
pub(super) const SWITCHED_OFF: &str = "nothing is held: `onrampd off` was said on this host; `onrampd on` ends it";

/// Bytes that are read of the file.
const LONGEST: u64 = 1024;

/// The file that is there while holding is switched off.
#[must_use]
pub fn file(state_dir: &Path) -> PathBuf {
    // Without a slash at its end.
    let mut name = state_dir.components().collect::<PathBuf>().into_os_string();
    name.push(".off");
    name.into()
}

/// Who switched off, from where and when, as far as the file says.
pub(super) fn who(state_dir: &Path) -> String {
    let mut who = String::new();
    // One that was made by hand is empty, and may hold anything.
    let _ = File::open(file(state_dir)).and_then(|file| file.take(LONGEST).read_to_string(&mut who));
    text(who.trim())
}

/// Switches off, for a reason. Returns how many interfaces and agents' programs were told.
///
/// # Errors
/// It is not for this user to say, or a gate could not be told; the file is there then, unless that is what failed.
pub fn off(state_dir: &Path, message: Option<&str>) -> io::Result<(usize, usize)> {
    let path = file(state_dir);
    // First: an agent must not have its gate hold again.
    let (by, from) = operator();
    let why = message.map_or(String::new(), |message| format!(": {}", text(message)));
    let who = format!("by {by} from {from} at {}{why}", utc(today()));
    fs::write(&path, who).map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    let programs = undo::all(state_dir)?.into_iter().filter(|left| left.boot == boot());
    let maps = programs.filter_map(|left| handover::by_number(&left.maps)).flat_map(|legacy| legacy.maps);
    let limits: Vec<_> = maps.filter(|map| map.name == "limits").collect();
    limits.iter().try_for_each(program::release)?;
    let mut socket = Socket::open()?;
    let mut interfaces = 0;
    for link in link::list(&mut socket).map_err(io::Error::other)? {
        let told = install::release(&mut socket, link.index).map_err(io::Error::other)?;
        interfaces += usize::from(told > 0);
    }
    Ok((interfaces, limits.len()))
}

/// Switches on: an agent that is to hold packets does so again. Returns whether it was off.
///
/// # Errors
/// It is not for this user to say.
pub fn on(state_dir: &Path) -> io::Result<bool> {
    let path = file(state_dir);
    match fs::remove_file(&path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        done => {
            done.map(|()| true).map_err(|e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display())))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_beside_the_folder() {
        for folder in ["/run/onrampd", "/run/onrampd/"] {
            assert_eq!(file(Path::new(folder)), Path::new("/run/onrampd.off"));
        }
    }
}
