//! Hosts, that is network namespaces, joined by a cable or a switch.

use super::privileged;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;
use std::fs::{self, File, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

pub const KEY: &str = "000102030405060708090a0b0c0d0e0f";
pub const KEY_BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];

/// Hosts, "a" with 10.9.0.1 and fd09::1, "b" with 10.9.0.2 and fd09::2 and so on, and a folder.
/// All of it goes with this.
pub struct Lab {
    name: String,
    namespaces: Vec<&'static str>,
    pub folder: PathBuf,
}

impl Lab {
    /// Two hosts and a cable; `None` where there can be none, see [`privileged`].
    pub fn new() -> Option<Self> {
        let lab = Self::with(&["a", "b"])?;
        lab.cable();
        Some(lab)
    }

    /// The same, and "pod" on host "a", behind a bridge and with its address translated, as Docker has it; `None` also where
    /// there is no `nft`.
    pub fn with_pod() -> Option<Self> {
        if Command::new("nft").arg("--version").output().is_err() {
            eprintln!("skipped: there is no nft");
            return None;
        }
        let lab = Self::with(&["a", "b", "pod"])?;
        lab.cable();
        lab.says("a", "ip link add docker0 type bridge");
        lab.says("a", "ip addr add 172.17.0.1/16 dev docker0");
        lab.says("a", "ip link set docker0 up");
        let (a, pod) = (lab.host("a"), lab.host("pod"));
        run(&format!("ip link add eth0 netns {pod} type veth peer name pod netns {a}"));
        lab.says("a", "ip link set pod master docker0 up");
        lab.says("pod", "ip addr add 172.17.0.2/16 dev eth0");
        lab.says("pod", "ip link set eth0 up");
        lab.says("pod", "ip route add default via 172.17.0.1");
        lab.on("a", || fs::write("/proc/sys/net/ipv4/ip_forward", "1")).unwrap();
        let rules = "table ip nat { chain post { type nat hook postrouting priority srcnat; ip saddr 172.17.0.0/16 masquerade; }; }";
        assert!(lab.command("a", "nft").arg(rules).status().unwrap().success());
        Some(lab)
    }

    /// Three hosts at a switch; `None` where there can be none.
    pub fn switched() -> Option<Self> {
        let lab = Self::with(&["a", "b", "c", "switch"])?;
        lab.says("switch", "ip link add bridge type bridge");
        lab.says("switch", "ip link set bridge up");
        let switch = lab.host("switch");
        for (host, last) in [("a", 1), ("b", 2), ("c", 3)] {
            run(&format!("ip link add eth0 netns {} type veth peer name to-{host} netns {switch}", lab.host(host)));
            lab.says("switch", &format!("ip link set to-{host} master bridge up"));
            lab.address(host, last);
        }
        Some(lab)
    }

    fn with(namespaces: &[&'static str]) -> Option<Self> {
        if !privileged() {
            return None;
        }
        static COUNT: AtomicU32 = AtomicU32::new(0);
        client();
        let name = format!("or{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(&name);
        fs::create_dir_all(&folder).unwrap();
        let key = folder.join("key");
        fs::write(&key, KEY).unwrap();
        fs::set_permissions(key, Permissions::from_mode(0o600)).unwrap();
        let lab = Self { name, namespaces: namespaces.into(), folder };
        namespaces.iter().for_each(|n| drop(run(&format!("ip netns add {}", lab.host(n)))));
        Some(lab)
    }

    /// Lays the cable, once more if the old one was cut.
    pub fn cable(&self) {
        let (a, b) = (self.host("a"), self.host("b"));
        run(&format!("ip link add eth0 netns {a} type veth peer name eth0 netns {b}"));
        self.address("a", 1);
        self.address("b", 2);
    }

    fn address(&self, host: &str, last: u8) {
        self.says(host, &format!("ip addr add 10.9.0.{last}/24 dev eth0"));
        self.says(host, &format!("ip addr add fd09::{last}/64 dev eth0 nodad"));
        self.says(host, "ip link set lo up");
        self.says(host, "ip link set eth0 up");
    }

    pub fn host(&self, host: &str) -> String {
        format!("{}{host}", self.name)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Writes a host's configuration, with `more` at its end.
    pub fn configure(&self, host: &str, more: &str) -> PathBuf {
        let other = if host == "a" { 2 } else { 1 };
        let path = self.file(&format!("{host}.toml"));
        let text = format!(
            "interface = \"eth0\"\nkey_file = \"key\"\nclock = \"shared\"\npeers = [\"10.9.0.{other}\", \
             \"fd09::{other}\"]\nsocket = \"{host}.sock\"\nstate_dir = \"{host}\"\n{more}\n"
        );
        fs::write(&path, text).unwrap();
        path
    }

    /// Starts a host's agent and waits until it is ready.
    pub fn agent(&self, host: &str, more: &str) -> Agent {
        let mut command = self.command(host, env!("CARGO_BIN_EXE_onrampd"));
        command.args(["run", "--config"]).arg(self.configure(host, more));
        self.start(host, command)
    }

    /// Starts a host's agent by a command of its own.
    pub fn start(&self, host: &str, mut command: Command) -> Agent {
        let log = File::create(self.file(&format!("{host}.log"))).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let log = self.log(host);
        assert_eq!(line, "ready\n", "{log}");
        Agent { child, socket: self.file(&format!("{host}.sock")) }
    }

    pub fn log(&self, host: &str) -> String {
        fs::read_to_string(self.file(&format!("{host}.log"))).unwrap_or_default()
    }

    /// A command on a host.
    pub fn command(&self, host: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.host(host), program]);
        command
    }

    /// Output of `ip` or `tc` on a host.
    pub fn says(&self, host: &str, what: &str) -> String {
        let (program, arguments) = what.split_once(' ').unwrap();
        run(&format!("{program} -n {} {arguments}", self.host(host)))
    }

    /// Does `work` in a thread that is on a host.
    pub fn on<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.host(host))).unwrap();
        thread::scope(|s| {
            let inside = s.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            inside.join().unwrap()
        })
    }

    /// Sends `bytes` from "a" to "b" by TCP; true if all arrived in time.
    pub fn transfer(&self, to: &str, bytes: usize) -> bool {
        self.transfer_from("a", to, bytes)
    }

    /// The same from another host.
    pub fn transfer_from(&self, from: &str, to: &str, bytes: usize) -> bool {
        let to: IpAddr = to.parse().unwrap();
        let patience = Some(Duration::from_secs(60));
        let listener = self.on("b", move || TcpListener::bind((to, 0)).unwrap());
        let port = listener.local_addr().unwrap().port();
        thread::scope(|s| {
            let got = s.spawn(|| {
                let (mut stream, _) = listener.accept().unwrap();
                stream.set_read_timeout(patience).unwrap();
                std::io::copy(&mut stream, &mut std::io::sink()).unwrap_or(0)
            });
            self.on(from, move || {
                let mut stream = TcpStream::connect((to, port)).unwrap();
                stream.set_write_timeout(patience).unwrap();
                stream.write_all(&vec![1; bytes]).unwrap();
            });
            got.join().unwrap() == bytes as u64
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for host in &self.namespaces {
            let _ = Command::new("ip").args(["netns", "del", &self.host(host)]).status();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// A running agent; killed with this.
pub struct Agent {
    child: Child,
    pub socket: PathBuf,
}

impl Agent {
    pub fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as an operator would; true if it ended well.
    pub fn end(mut self) -> bool {
        self.signal(rustix::process::Signal::TERM);
        self.child.wait().unwrap().success()
    }

    /// Has it go over to its program's file anew, and waits until it has; `meanwhile` runs meanwhile.
    pub fn upgrade<T: Send>(&self, meanwhile: impl FnOnce() -> T + Send) -> T {
        let started = || self.asked().map(|s| Instant::now() - Duration::from_nanos(s["uptime_ns"].as_u64().unwrap()));
        let old = started().unwrap();
        std::thread::scope(|scope| {
            let meanwhile = scope.spawn(meanwhile);
            self.signal(rustix::process::Signal::USR2);
            until("has the new one come", || started().is_ok_and(|new| new > old + Duration::from_millis(50)));
            meanwhile.join().unwrap()
        })
    }

    /// Names and effective capabilities of its threads.
    pub fn threads(&self) -> Vec<(String, u64)> {
        let tasks = format!("/proc/{}/task", self.status()["pid"]);
        let of = |task: PathBuf| {
            let status = fs::read_to_string(task.join("status")).unwrap();
            let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_string();
            (value("Name:"), u64::from_str_radix(&value("CapEff:"), 16).unwrap())
        };
        fs::read_dir(tasks).unwrap().map(|task| of(task.unwrap().path())).collect()
    }

    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Its status, as anybody gets it.
    pub fn status(&self) -> Value {
        self.asked().unwrap_or_else(|output| panic!("{output:?}"))
    }

    /// The same, or what was said where nobody answers.
    pub fn asked(&self) -> Result<Value, Output> {
        let output = onrampctl(&["status", "--json", "--flows", "10", "--socket", self.socket.to_str().unwrap()]);
        serde_json::from_slice(&output.stdout).map_err(|_| output)
    }

    pub fn counter(&self, name: &str) -> u64 {
        self.status()["counters"][name].as_u64().unwrap()
    }

    /// State of the path to `peer`.
    pub fn path(&self, peer: &str) -> Value {
        let status = self.status();
        let paths = status["paths"].as_array().unwrap();
        paths.iter().find(|p| p["peer"] == peer).unwrap_or_else(|| panic!("{status}")).clone()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command of the client to its end.
pub fn onrampctl(arguments: &[&str]) -> Output {
    Command::new(client()).args(arguments).output().unwrap()
}

/// The client, beside the daemon, which starts it for commands that are its own. `cargo test --workspace` has built
/// it; where only this package is tested, it is built now.
pub fn client() -> &'static Path {
    static CLIENT: LazyLock<PathBuf> = LazyLock::new(|| {
        let path = Path::new(env!("CARGO_BIN_EXE_onrampd")).with_file_name("onrampctl");
        if !path.exists() {
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--quiet", "--package", "onrampctl"]);
            build.args(cfg!(not(debug_assertions)).then_some("--release"));
            assert!(build.status().unwrap().success(), "the client can be built");
        }
        path
    });
    &CLIENT
}

/// Waits until something is so. It takes fractions of a second, or many where processors are busy.
pub fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(60), "never {what}");
        sleep(Duration::from_millis(20));
    }
}

/// Runs a command that must succeed; what it says.
pub fn run(command: &str) -> String {
    let mut words = command.split(' ');
    let mut child = Command::new(words.next().unwrap()).args(words).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{command}");
    said
}
