//! The guest's file systems: the host's files to read, one folder of them to
//! write, all else in memory.

use super::{HOST, OUT, Result, at};
use crate::sys;
use std::fs;

/// Mounts everything; `folder` is the host's folder that becomes [`OUT`].
pub fn mount_all(folder: &str) -> Result<()> {
    let mount = |source: &str, target: &str, kind: &str, read_only, options: &str| {
        sys::mount(source, target, kind, read_only, options).map_err(at(format!("mount {target}")))
    };
    mount("proc", "/proc", "proc", false, "")?;
    mount("sysfs", "/sys", "sysfs", false, "")?;
    mount("devtmpfs", "/dev", "devtmpfs", false, "")?;
    mount("tmpfs", "/run", "tmpfs", false, "")?;
    for place in [OUT, HOST] {
        fs::create_dir(place).map_err(at(place))?;
    }
    mount("none", HOST, "hostfs", true, "/")?;
    mount("none", OUT, "hostfs", false, folder)?;
    mount("tmpfs", "/tmp", "tmpfs", false, "")
}

/// Writes one of the kernel's settings, of the present network namespace if it is one of those.
pub fn set(name: &str, value: &str) -> Result<()> {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    fs::write(path, value).map_err(at(format!("sysctl {name} = {value}")))
}
