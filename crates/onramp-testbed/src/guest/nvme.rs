//! Drives of servers, and their clients' connections: the kernel's own NVMe over TCP.
//!
//! A target listens in its server's network namespace, and a client's connection lives in the namespace of whoever
//! asks for it. Disks are seen everywhere.

use super::cluster::Cluster;
use super::{Result, at};
use crate::plan::address;
use crate::sys;
use onramp_config::units::{NS, Ps};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

/// Where the kernel's objects are made.
const CONFIG: &str = "/sys/kernel/config";
/// Below the targets' ports: NVMe's own.
const PORT: u16 = 4420;
/// Bytes of a drive, which has no memory for them: 64 GiB.
pub const DRIVE: u64 = 64 << 30;
/// A client waits for an answer as long as the run takes; a connection that is lost never comes back, as
/// the kernel would make it anew in the first namespace.
const PATIENCE: &str = "100000";
/// Waits of a millisecond for a disk to appear.
const WAITS: u32 = 1000;

/// A disk of a server's drive, as a client has it.
#[derive(Clone, Copy, Debug)]
pub struct Attached {
    /// The host that reads and writes.
    pub client: u32,
    /// The host with the drive.
    pub server: u32,
    /// Time a block takes there.
    pub drive: Ps,
    /// Number of the channel that it is.
    pub channel: u32,
}

/// The drives of servers, by server and by what a block takes there.
#[derive(Debug, Default)]
pub struct Targets {
    made: BTreeMap<(u32, Ps), u16>,
}

fn write(path: impl AsRef<Path>, value: impl ToString) -> Result<()> {
    let path = path.as_ref();
    fs::write(path, value.to_string()).map_err(at(path.display()))
}

/// Name of a drive and its target.
fn name(number: u16) -> String {
    format!("drive{number}")
}

fn make(path: &str) -> Result<()> {
    fs::create_dir(path).map_err(at(path))
}

impl Targets {
    /// The number of the drive that a disk is of, which is made if it is not there.
    fn of(&mut self, disk: &Attached, cluster: &Cluster) -> Result<u16> {
        let key = (disk.server, disk.drive);
        if let Some(&number) = self.made.get(&key) {
            return Ok(number);
        }
        if self.made.is_empty() {
            sys::mount("configfs", CONFIG, "configfs", false, "").map_err(at(CONFIG))?;
            for name in ["io_timeout", "admin_timeout"] {
                write(format!("/sys/module/nvme_core/parameters/{name}"), PATIENCE)?;
            }
        }
        let number = self.made.len() as u16 + 1;
        let name = name(number);
        let drive = format!("{CONFIG}/nullb/{name}");
        make(&drive)?;
        // Interrupts by a timer, if a block takes time there; else at once.
        let delay = disk.drive / NS;
        let settings = [
            ("size", DRIVE >> 20),
            ("blocksize", 4096),
            ("submit_queues", 1),
            ("irqmode", if delay > 0 { 2 } else { 0 }),
            ("completion_nsec", delay),
            ("power", 1),
        ];
        for (setting, value) in settings {
            write(format!("{drive}/{setting}"), value)?;
        }
        let subsystem = format!("{CONFIG}/nvmet/subsystems/{name}");
        make(&subsystem)?;
        write(format!("{subsystem}/attr_allow_any_host"), 1)?;
        let namespace = format!("{subsystem}/namespaces/1");
        make(&namespace)?;
        write(format!("{namespace}/device_path"), format!("/dev/{name}"))?;
        write(format!("{namespace}/enable"), 1)?;
        let port = format!("{CONFIG}/nvmet/ports/{number}");
        make(&port)?;
        for (key, value) in [
            ("addr_trtype", "tcp".to_string()),
            ("addr_adrfam", "ipv4".into()),
            ("addr_traddr", address(disk.server).to_string()),
            ("addr_trsvcid", (PORT + number).to_string()),
        ] {
            write(format!("{port}/{key}"), value)?;
        }
        let server = &cluster.nodes[disk.server as usize];
        sys::enter_network(server.namespace.as_fd()).map_err(at("namespace"))?;
        let link = format!("{port}/subsystems/{name}");
        symlink(&subsystem, &link).map_err(at(link))?;
        self.made.insert(key, number);
        Ok(number)
    }

    /// Connects a client; its disk.
    pub fn connect(&mut self, disk: &Attached, cluster: &Cluster) -> Result<OwnedFd> {
        let number = self.of(disk, cluster)?;
        let place = || format!("NVMe from {} to {}", address(disk.client), address(disk.server));
        let client = &cluster.nodes[disk.client as usize];
        sys::enter_network(client.namespace.as_fd()).map_err(at(place()))?;
        // A client's own name: else the target refuses the second one.
        let host = format!("00000000-0000-0000-0000-{:012x}", disk.channel);
        let options = format!(
            "transport=tcp,traddr={},trsvcid={},nqn={},nr_io_queues=1,queue_size=128,duplicate_connect,\
             hostnqn=nqn.2014-08.org.nvmexpress:uuid:{host},hostid={host},keep_alive_tmo={PATIENCE},ctrl_loss_tmo=-1",
            address(disk.server),
            PORT + number,
            name(number)
        );
        let mut fabrics = OpenOptions::new().read(true).write(true).open("/dev/nvme-fabrics").map_err(at(place()))?;
        fabrics.write_all(options.as_bytes()).map_err(at(place()))?;
        let mut said = [0; 128];
        let length = fabrics.read(&mut said).map_err(at(place()))?;
        let said = String::from_utf8_lossy(&said[..length]);
        let instance = said.split([',', '\n']).find_map(|part| part.strip_prefix("instance="));
        let instance = instance.ok_or_else(|| format!("{}: the kernel said {said:?}", place()))?;
        let path = format!("/dev/nvme{instance}n1");
        for _ in 0..WAITS {
            if Path::new(&path).exists() {
                return sys::open_disk(&path).map_err(at(path));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(format!("{}: {path} does not appear", place()))
    }
}
