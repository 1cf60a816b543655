//! Helpers that the tests share.

#![allow(dead_code, missing_docs, unreachable_pub, reason = "each test uses a part")]

pub mod browser;
pub mod fleet;
pub mod http;
pub mod lab;
pub mod packet;

/// True if this runs as root on a kernel that lets it load programs; says so if not.
pub fn privileged() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("skipped: needs root, for eBPF and network namespaces");
    }
    root
}

/// Where cgroups of version 2 are.
pub fn cgroup_root() -> Option<&'static std::path::Path> {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(std::path::Path::new);
    roots.into_iter().find(|root| root.join("cgroup.procs").exists() && root.join("cgroup.controllers").exists())
}
