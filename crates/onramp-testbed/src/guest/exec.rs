//! Commands on hosts (and switches) of the cluster.

use super::cluster::Cluster;
use super::{Result, at};
use crate::sys;
use crate::task::Job;
use onramp_topology::Topology;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// Time each command has before the next one starts, such as for a server to listen.
const HEAD_START: Duration = Duration::from_millis(50);

/// Commands that run, all at the same time.
pub struct Running(Vec<Child>);

/// Starts `jobs`; their outputs go to files in `out`.
pub fn start(jobs: &[Job], topology: &Topology, cluster: &Cluster, out: &Path) -> Result<Running> {
    let mut running = Vec::new();
    for (i, job) in jobs.iter().enumerate() {
        let node = (0..topology.nodes()).find(|&node| topology.name(node as u32) == job.host);
        let node = node.ok_or_else(|| format!("\"{}\": no such host or switch", job.host))?;
        let start = || {
            let file = File::create(out.join(format!("{i}.out")))?;
            let mut command = Command::new("/bin/sh");
            command
                .args(["-c", &job.command])
                .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
            command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
            sys::start_in(&mut command, cluster.nodes[node].namespace.as_raw_fd());
            command.spawn()
        };
        running.push(start().map_err(at(&job.command))?);
        sleep(HEAD_START);
    }
    Ok(Running(running))
}

impl Running {
    /// The last one's end is the end of all; its exit status.
    pub fn finish(mut self, out: &Path) -> Result<i32> {
        let status = self.0.last_mut().map(|last| last.wait()).transpose().map_err(at("wait"))?;
        for (i, mut process) in self.0.into_iter().enumerate() {
            // The servers' last words, if they come to an end by themselves.
            sleep(HEAD_START);
            let _ = process.kill();
            let _ = process.wait();
            File::open(out.join(format!("{i}.out"))).and_then(|file| file.sync_all()).map_err(at(i))?;
        }
        Ok(status.and_then(|s| s.code()).unwrap_or(1))
    }
}
