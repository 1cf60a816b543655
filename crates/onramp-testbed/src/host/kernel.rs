//! Which kernel the cluster runs on.

use super::Failure;
use std::path::PathBuf;

/// `ONRAMP_KERNEL`, or the one that was built last.
pub fn find() -> Result<PathBuf, Failure> {
    if let Some(named) = std::env::var_os("ONRAMP_KERNEL").map(PathBuf::from) {
        let found = named.canonicalize().ok().filter(|path| path.is_file());
        return found.ok_or_else(|| Failure::usage(format!("ONRAMP_KERNEL: {} is no file", named.display())));
    }
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let built = cache.or_else(home).and_then(|cache| cache.join("onramp/testbed/linux").canonicalize().ok());
    built.filter(|path| path.is_file()).ok_or_else(|| Failure::usage("no testbed kernel: run `make testbed`"))
}
