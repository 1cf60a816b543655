//! Cgroups of this host, by the file system that shows them.

use super::Cgroup;
use rustix::fs::statfs;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Where it is mounted; the second where those of version 1 are beside it.
const ROOTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The id of a cgroup, which a unit that starts again has anew.
#[must_use]
pub fn id(cgroup: &Cgroup) -> Option<u64> {
    let is_mounted = |root: &&&str| statfs(**root).is_ok_and(|found| found.f_type == libc::CGROUP2_SUPER_MAGIC);
    let root = ROOTS.iter().find(is_mounted)?;
    let found = fs::metadata(Path::new(root).join(cgroup.path().trim_start_matches('/'))).ok()?;
    // On 64 bits it is the number of its folder.
    found.is_dir().then(|| found.ino())
}
