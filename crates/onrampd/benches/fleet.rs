//! Cost of a coordinator as its fleet grows: bytes, time and memory, with the real code and without sockets.
//!
//! `cargo bench -p onrampd --bench fleet [MEMBERS…]`. Each host reports fits of the probes that it was told to send,
//! with noise; one in ten leaves and comes back within a minute. "Round" is the whole of one: what is asked, reports read
//! from JSON, solved, and the answers as JSON. Memory is the process's most so far, reports and answers included.

use onramp_clock::EdgeFit;
use onramp_random::{normal, stream};
use onrampd::config::Mesh;
use onrampd::fleet::coordinator::{Coordinator, Hello, Said};
use onrampd::fleet::pairs::{Epochs, Pairs, Shared};
use onrampd::fleet::pki::{self, Authority, Identity, Membership};
use onrampd::fleet::wire::{Delays, Edge, FromCoordinator, FromHost, parse};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

const WINDOW: u64 = 2_000_000_000;
/// Rounds that are looked at, once every host is told of all others, which takes forty: a tenth of the hosts leaves
/// and comes in a minute.
const ROUNDS: usize = 5;
const CHURN: f64 = 0.1 * 2.0 / 60.0;

/// A fleet, and what its hosts were told.
struct Lab {
    coordinator: Coordinator,
    probes: BTreeMap<u64, Vec<IpAddr>>,
    /// Standard normal numbers.
    normal: Box<dyn FnMut() -> f64>,
    now: u64,
}

fn address(n: u64) -> IpAddr {
    IpAddr::from([10, (n >> 16) as u8, (n >> 8) as u8, n as u8])
}

fn number(address: IpAddr) -> u64 {
    let IpAddr::V4(v4) = address else { unreachable!("all are IPv4") };
    u64::from(v4.to_bits() & 0xff_ffff)
}

fn hello(n: u64) -> Hello {
    let mut membership = [0; 16];
    membership[..8].copy_from_slice(&n.to_ne_bytes());
    let identity =
        Identity { address: address(n), membership: Membership(membership), public: [n as u8; 32], expires: u64::MAX };
    // As long as the authority's.
    let statement = "s".repeat(159).into();
    Hello { identity, statement, correction: None, by_programs: true, aliases: vec![], labels: [].into() }
}

impl Lab {
    /// A host's report of the probes it was told to send, as it says it.
    fn report(&mut self, from: u64, round: u64) -> Vec<u8> {
        let probes = self.probes.get(&from).cloned().unwrap_or_default();
        let edges = probes.into_iter().map(|to| {
            // Clocks are as many seconds ahead as the numbers say.
            let ahead = (number(to) as i64 - from as i64) * 1_000_000_000;
            let base = self.now + from * 1_000_000_000;
            let sigma = 20.0 * (0.3 * (self.normal)()).exp();
            let offset = ahead + (sigma * (self.normal)()) as i64;
            let fit = EdgeFit {
                base,
                offset,
                drift: 1e-9 * (self.normal)(),
                delay: 5_000.0,
                residual: 10.0,
                sigma,
                drift_sigma: 1e-9 * (0.3 * (self.normal)()).exp(),
                noise: 15.0,
                queue: 0.0,
                points: 99,
                seen: 100,
            };
            let delays = Delays { min_ns: 4_000, p50_ns: 5_000, p99_ns: 9_000 };
            Edge { to, fit, forward: delays, backward: delays }
        });
        let edges = edges.collect();
        serde_json::to_vec(&FromHost::Report { round, edges, realtime: None }).expect("it is JSON")
    }

    /// Bytes of what is said; hosts take it up.
    fn say(&mut self, said: Said) -> usize {
        said.into_iter().map(|(conn, what)| self.take(conn, what)).sum()
    }

    fn take(&mut self, conn: u64, what: FromCoordinator) -> usize {
        let bytes = serde_json::to_vec(&what).expect("it is JSON").len();
        match what {
            FromCoordinator::Members { probe, .. } | FromCoordinator::Changed { probe: Some(probe), .. } => {
                self.probes.insert(conn, probe);
            }
            _ => {}
        }
        bytes
    }

    fn lists(&mut self) -> usize {
        let mut bytes = 0;
        while let Some((conn, what)) = self.coordinator.list() {
            bytes += self.take(conn, what);
        }
        bytes
    }

    /// Goes on until a round has ended: bytes heard and said.
    fn round(&mut self, members: u64) -> [usize; 2] {
        let (mut heard, mut bytes) = (0, 0);
        loop {
            self.now = self.coordinator.due();
            let said = self.coordinator.tick(self.now);
            let collect = said.iter().find_map(|(_, what)| match what {
                FromCoordinator::Collect { round } => Some(*round),
                _ => None,
            });
            let ended = said.iter().any(|(_, what)| matches!(what, FromCoordinator::Corrected { .. }));
            bytes += self.say(said) + self.lists();
            if let Some(round) = collect {
                for from in 0..members {
                    let line = self.report(from, round);
                    heard += line.len();
                    let Ok(FromHost::Report { round, edges, .. }) = parse(&line) else {
                        unreachable!("it is a report")
                    };
                    self.coordinator.report(from, round, edges);
                }
            }
            if ended {
                return [heard, bytes];
            }
        }
    }
}

fn timed<T>(what: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (what(), begun.elapsed())
}

/// The most memory this process has had, in MB.
fn memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kilobytes =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    kilobytes.unwrap_or(f64::NAN) / 1e3
}

fn measure(members: u64) {
    let mesh = Mesh { probes: 10, window: WINDOW, interval: 8_000_000 };
    let coordinator = Coordinator::new(mesh, Epochs::default(), 0);
    let mut random = stream(1, "fleet", members);
    let mut lab = Lab { coordinator, probes: BTreeMap::new(), normal: Box::new(move || normal(&mut random)), now: 0 };
    for n in 0..members {
        lab.coordinator.hello(0, n, hello(n));
    }
    // All at once, and rounds until everybody's certainty is told.
    let (all, all_took) = timed(|| (0..40).map(|_| lab.round(members)[1]).sum::<usize>());
    let churn = (members as f64 * CHURN).ceil() as u64;
    let (mut said, mut heard, mut took) = (0, 0, Duration::ZERO);
    for i in 0..ROUNDS as u64 {
        for k in 0..churn {
            let n = (i * churn + k) % members;
            let now = lab.now;
            lab.coordinator.gone(now, n);
            lab.coordinator.hello(now, n, hello(n));
        }
        let ([h, s], t) = timed(|| lab.round(members));
        (heard, said, took) = (heard + h, said + s, took.max(t));
    }
    let (quiet, quiet_took) = timed(|| lab.round(members));
    let synchronised =
        lab.coordinator.fleet(std::iter::empty()).hosts.iter().filter(|h| h.state == "synchronised").count();
    assert!(synchronised as f64 > 0.98 * members as f64, "{synchronised} of {members} are synchronised");
    println!(
        "| {members} | {:.1} | {:.1} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.0} |",
        all as f64 / 1e6,
        all_took.as_secs_f64(),
        heard as f64 / 1e6 / ROUNDS as f64,
        quiet[1] as f64 / 1e6,
        quiet_took.as_secs_f64(),
        said as f64 / 1e6 / ROUNDS as f64,
        took.as_secs_f64(),
        memory()
    );
}

/// Time to make a pair's key: at first, and in each later epoch.
fn keys() -> [Duration; 2] {
    const MEMBERS: u8 = 250;
    let folder = std::env::temp_dir().join(format!("onramp-bench-{}", std::process::id()));
    pki::found(&folder, address(0)).expect("a folder");
    let (pairs, authority) = (Pairs::open(&folder).expect("founded"), Authority::open(&folder).expect("founded"));
    let _ = std::fs::remove_dir_all(&folder);
    let member = |n: u8| {
        let identity =
            Identity { address: address(n.into()), membership: Membership([n; 16]), public: [n; 32], expires: 0 };
        (identity.address, authority.statement(&identity).expect("it is signed"))
    };
    let members: Vec<_> = (1..=MEMBERS).map(member).collect();
    let derive = || members.iter().map(|(address, said)| pairs.shared(*address, said).expect("it is true")).collect();
    let (shared, first): (Vec<Shared>, _) = timed(derive);
    let (_, next) =
        timed(|| shared.iter().map(|shared| shared.keys(Epochs { sign: 1, accept: 2 })).collect::<Vec<_>>());
    [first, next].map(|took| took / u32::from(MEMBERS))
}

fn main() {
    let given: Vec<u64> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let sizes = if given.is_empty() { vec![1000, 5000, 10_000] } else { given };
    println!(
        "| members | all start, MB | s | heard a round, MB | said, quiet | s | said, churn | s at most | memory, MB |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    sizes.into_iter().for_each(measure);
    let [first, next] = keys();
    println!("\nA member's key: {first:.1?} at first, {next:.1?} when it changes.");
}
