//! Log entries in journald: a coordinator beside a socket in journald's place, in a mount namespace of its own.

mod common;

use common::fleet::{COORDINATOR, found, join};
use common::lab::Lab;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::Stdio;
use std::time::Duration;

/// Has a folder in the place of journald's, and starts a command.
const BESIDE: &str = "mount -t tmpfs run /run && mkdir -p /run/systemd/journal && \
    mount --bind \"$0\" /run/systemd/journal && exec \"$@\"";

/// The value of a field that the program names itself.
fn field<'a>(record: &'a str, name: &str) -> Option<&'a str> {
    // A field is its name, its length in eight bytes, and the value; the length has only one byte here.
    let (_, rest) = record.split_once(&format!("\n{name}\n"))?;
    rest.get(8..)?.lines().next()
}

#[test]
fn the_journal_is_told_levels_and_who_joined_from_where() {
    let Some(lab) = Lab::new() else { return };
    let token = found(&lab, "10.9.0.1");
    fs::create_dir(lab.file("journal")).unwrap();
    let journal = UnixDatagram::bind(lab.file("journal/socket")).unwrap();
    journal.set_read_timeout(Some(Duration::from_secs(20))).unwrap();

    let log = File::create(lab.file("log")).unwrap();
    let stream = log.metadata().map(|of| format!("{}:{}", of.dev(), of.ino())).unwrap();
    let mut coordinator = lab.command("a", "unshare");
    coordinator.args(["-m", "sh", "-c", BESIDE]).arg(lab.file("journal")).arg(env!("CARGO_BIN_EXE_onrampd"));
    coordinator.args(["coordinator", "--listen", COORDINATOR, "--folder"]).arg(lab.file("a.d/fleet"));
    coordinator.env("JOURNAL_STREAM", stream).stdout(Stdio::piped()).stderr(log);
    let mut coordinator = coordinator.spawn().unwrap();
    let mut lines = BufReader::new(coordinator.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");

    assert!(join(&lab, "b", &token).status.success());
    let mut bytes = [0; 4096];
    // The first one is empty: whether somebody listens.
    assert_eq!(journal.recv(&mut bytes).unwrap(), 0);
    let length = journal.recv(&mut bytes).unwrap();
    let record = format!("\n{}", String::from_utf8_lossy(&bytes[..length]));
    for (name, value) in [
        ("PRIORITY", "5"),
        ("SYSLOG_IDENTIFIER", "onrampd"),
        ("ONRAMP_AUDIT", "membership"),
        ("ONRAMP_HOST", "10.9.0.2"),
    ] {
        assert_eq!(field(&record, name), Some(value), "{record:?}");
    }
    assert!(field(&record, "ONRAMP_FROM").is_some_and(|from| from.starts_with("10.9.0.2:")), "{record:?}");

    kill_process(Pid::from_child(&coordinator), Signal::TERM).unwrap();
    assert!(coordinator.wait().unwrap().success());
    assert_eq!(fs::read_to_string(lab.file("log")).unwrap(), "", "what the journal has is not written again");
}
