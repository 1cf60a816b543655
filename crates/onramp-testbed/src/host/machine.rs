//! A user-mode Linux kernel as a child process.

use super::Failure;
use crate::sys;
use crate::task::{FOLDER, STOP, Said, TASK, Task};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Lines of the kernel's own that are shown if it ends without a word from the guest.
const LAST_LINES: usize = 12;
/// The result folder is a descriptor of the kernel, so that its name, which may be any
/// and is a new one every time, is not on the kernel's command line.
const NUMBER: i32 = 9;
/// See [`NUMBER`].
const OPENED: &str = "/proc/self/fd/9";
/// How often to look whether it is to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A folder that vanishes with the value.
pub struct Temporary(pub PathBuf);

impl Temporary {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        let path = std::env::temp_dir().join(format!("onramp-testbed-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The kernel, killed with all its processes at the latest when dropped.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        sys::kill_group(self.0.id());
        let _ = self.0.wait();
    }
}

/// Boots `kernel` for `task`, which it finds in `folder`, tells what it says, and
/// waits for its end; the guest's exit status.
pub fn run(
    kernel: &Path,
    folder: &Path,
    task: &Task,
    nodes: usize,
    seed: u64,
    tell: &dyn Fn(&Said) -> io::Result<()>,
) -> Result<i32, Failure> {
    let failed = |e: io::Error| Failure::run(format!("{}: {e}", folder.display()));
    let text = serde_json::to_vec(task).expect("a task has only what JSON can hold");
    std::fs::write(folder.join(TASK), text).map_err(failed)?;
    let started = start(kernel, folder, nodes, seed).map_err(|e| Failure::run(format!("{}: {e}", kernel.display())));
    let outcome = started.and_then(|machine| listen(machine, folder, tell));
    for left in [TASK, STOP] {
        let _ = std::fs::remove_file(folder.join(left));
    }
    let _ = std::fs::remove_dir_all(folder.join(".uml"));
    outcome
}

fn start(kernel: &Path, folder: &Path, nodes: usize, seed: u64) -> io::Result<Machine> {
    let own = std::env::current_exe()?;
    let opened = File::open(folder)?;
    let mut command = Command::new(kernel);
    command
        .arg(format!("mem={}M", 2048 + 32 * nodes))
        .args(["rootfstype=hostfs", "rootflags=/", "ro", "time-travel=inf-cpu", "seccomp=auto"])
        .args(["con=none", "con0=fd:0,fd:1", "quiet", "panic=-1", "ipv6.disable_ipv6=1", "umid=onramp"])
        // The kernel's random numbers begin with its command line and the time of day.
        .arg("time-travel-start=0")
        .arg(format!("onramp.seed={seed}"))
        .arg(format!("uml_dir={OPENED}/.uml"))
        .arg(format!("{FOLDER}={OPENED}"))
        .arg(format!("init=\"{}\"", own.display()))
        .env_clear()
        .env("HOME", OPENED)
        // The console wants to wait for input; there never is any.
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(place) = std::env::var_os("TMPDIR") {
        command.env("TMPDIR", place);
    }
    sys::tie(&mut command);
    sys::hand_over(&mut command, opened.as_raw_fd(), NUMBER);
    command.spawn().map(Machine)
}

fn listen(mut machine: Machine, folder: &Path, tell: &dyn Fn(&Said) -> io::Result<()>) -> Result<i32, Failure> {
    let output = machine.0.stdout.take().expect("it is piped");
    let mut output = BufReader::new(output);
    let mut last = VecDeque::new();
    let mut stopping = false;
    let mut line = Vec::new();
    let mut outcome = None;
    loop {
        if sys::asked_to_stop() && !stopping {
            stopping = true;
            std::fs::write(folder.join(STOP), "").map_err(|e| Failure::run(format!("{}: {e}", folder.display())))?;
        }
        if output.buffer().is_empty() && !sys::readable(output.get_ref().as_fd(), LOOK) {
            continue;
        }
        line.clear();
        match output.read_until(b'\n', &mut line) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Ok(n) if n > 0 => {}
            _ => break,
        }
        let text = String::from_utf8_lossy(&line).trim().to_string();
        match serde_json::from_str(&text) {
            Ok(Said::Error(message)) => return Err(Failure::run(message)),
            Ok(said) => {
                if tell(&said).is_err() {
                    return Err(Failure::run("nobody listens any more"));
                }
                if let Said::Done { status, .. } = said {
                    outcome = Some(status);
                }
            }
            Err(_) if text.is_empty() => {}
            Err(_) => {
                last.push_back(text);
                if last.len() > LAST_LINES {
                    last.pop_front();
                }
            }
        }
    }
    let words: Vec<String> = last.into();
    outcome
        .ok_or_else(|| Failure::run(format!("the testbed kernel ended early; its last words: {}", words.join(" | "))))
}
