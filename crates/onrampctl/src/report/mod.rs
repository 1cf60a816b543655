//! Report on traffic while the agent observed, and while it enforced, from the blocks that it has kept.

mod page;
mod table;

use crate::agent::{Client, unanswered};
use crate::record::own;
use onrampd::config::Mode;
use onrampd::config::quantity::Life;
use onrampd::effects::Effects;
use onrampd::effects::blocks::{Block, MAX_PATHS};
use onrampd::effects::compare::{BATCH, Compared, FEWEST, MEASURES, compare};
use onrampd::fleet::tokens::today;
use onrampd::policy::utc;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// Order for a report: agent, time, paths and output.
pub struct Order {
    /// The agent's socket.
    pub socket: PathBuf,
    /// From then on: a time before now, or seconds since 1970 after an @.
    pub since: String,
    /// Until then; as `since`.
    pub until: Option<String>,
    /// These paths only.
    pub peers: Vec<IpAddr>,
    /// JSON in place of a table.
    pub json: bool,
    /// Also write a page.
    pub html: Option<PathBuf>,
}

/// A report.
#[derive(Debug, Serialize)]
struct Report {
    /// The host's name, and its address.
    host: String,
    /// Seconds since 1970, as far as there are blocks.
    since: u64,
    until: u64,
    /// How long each mode was in force.
    observe: Run,
    enforce: Run,
    /// To all peers.
    total: Vec<Compared>,
    /// By path.
    paths: Vec<Of>,
    /// Notes on how to read the report.
    notes: Vec<String>,
}

/// A mode's share of the time.
#[derive(Debug, Default, Serialize)]
struct Run {
    blocks: usize,
    seconds: f64,
    /// T and versions of the policy that were in force.
    thresholds: BTreeSet<String>,
    policies: BTreeSet<u64>,
}

/// A path's part.
#[derive(Debug, Serialize)]
struct Of {
    peer: IpAddr,
    measures: Vec<Compared>,
}

/// Makes the report: text for the terminal.
///
/// # Errors
/// A time cannot be read (`InvalidInput`), no agent answers, or there is no block of that time.
pub fn run(order: &Order) -> io::Result<String> {
    let now = today();
    let since = time(&order.since, now).map_err(|e| invalid(format!("--since {}: {e}", order.since)))?;
    let until = match &order.until {
        Some(text) => time(text, now).map_err(|e| invalid(format!("--until {text}: {e}")))?,
        None => now,
    };
    if since >= until {
        return Err(invalid(format!("--since {} is not before --until {}", utc(since), utc(until))));
    }
    let blocks = history(&order.socket, since, until)?;
    if blocks.is_empty() {
        let none = format!(
            "the agent has kept nothing from {} to {}: it keeps ten seconds at a time, for 24 hours",
            utc(since),
            utc(until)
        );
        return Err(io::Error::new(io::ErrorKind::NotFound, none));
    }
    let report = Report::of(&blocks, &order.peers, host(&order.socket))?;
    let text = if order.json { serde_json::to_string(&report)? + "\n" } else { table::show(&report) };
    if let Some(path) = &order.html
        && let Err(e) = fs::write(path, page::html(&report, &blocks, &order.peers))
    {
        // What was asked for besides is there.
        print!("{text}");
        return Err(io::Error::other(format!("{}: {e}", path.display())));
    }
    Ok(text)
}

/// This host's name, and its first address at an interface of the agent's.
fn host(socket: &Path) -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let status = Client::connect(socket).and_then(|mut client| client.status(0, false));
    let interfaces = status.map(|status| status.interfaces.into_iter().map(|i| i.name).collect::<Vec<_>>());
    let address = interfaces.and_then(|names| own(&names)).ok().and_then(|found| found.first().copied());
    address.map_or(name.clone(), |address| format!("{name} ({address})"))
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why)
}

/// A time: a span before `now`, or seconds since 1970 after an @.
fn time(text: &str, now: u64) -> Result<u64, String> {
    match text.strip_prefix('@') {
        Some(seconds) => seconds.parse().map_err(|_| "after the @ come seconds since 1970".into()),
        None => {
            let span: Life = text.parse()?;
            Ok(now.saturating_sub(span.0))
        }
    }
}

fn history(socket: &Path, since: u64, until: u64) -> io::Result<Vec<Block>> {
    let asked = Client::connect(socket).and_then(|mut client| client.history(since, until));
    asked.map_err(|e| io::Error::other(unanswered(socket, &e)))
}

/// The blocks of one mode, in the order of time.
fn under(blocks: &[Block], mode: Mode) -> impl Iterator<Item = &Block> {
    blocks.iter().filter(move |block| block.under.mode == mode)
}

fn measures(blocks: &[Block], of: impl Fn(&Block) -> Option<&Effects>) -> Vec<Compared> {
    let [observe, enforce] =
        [Mode::Observe, Mode::Enforce].map(|mode| under(blocks, mode).filter_map(&of).collect::<Vec<_>>());
    MEASURES.iter().map(|measure| compare(measure, &observe, &enforce)).collect()
}

/// A path's part of a block.
fn to<'a>(block: &'a Block, peer: &IpAddr) -> Option<&'a Effects> {
    block.paths.iter().find(|(of, _)| of == peer).map(|(_, effects)| effects)
}

/// Effects on traffic to `peers` in a block; on all traffic, if none is named.
fn chosen(block: &Block, peers: &[IpAddr]) -> Option<Effects> {
    if peers.is_empty() {
        return Some(block.total.clone());
    }
    let named = peers.iter().filter_map(|peer| to(block, peer));
    // Of several paths the time is the same.
    named.cloned().reduce(|a, b| Effects { elapsed_ns: a.elapsed_ns, ..a.plus(&b) })
}

impl Report {
    fn of(blocks: &[Block], peers: &[IpAddr], host: String) -> io::Result<Self> {
        let began = |block: &Block| block.at.saturating_sub(block.total.elapsed_ns / 1_000_000_000);
        let since = blocks.iter().map(began).min().unwrap_or_default();
        let until = blocks.iter().map(|block| block.at).max().unwrap_or_default();
        let mut known: BTreeMap<IpAddr, u64> = BTreeMap::new();
        for (peer, effects) in blocks.iter().flat_map(|block| &block.paths) {
            *known.entry(*peer).or_default() += effects.segments + effects.owd.count();
        }
        if let Some(other) = peers.iter().find(|peer| !known.contains_key(peer)) {
            return Err(invalid(format!("--peer {other}: no peer of this agent at that time")));
        }
        let [observe, enforce] = [Mode::Observe, Mode::Enforce].map(|mode| Run::of(blocks, mode));
        let sums: Vec<Block> = blocks
            .iter()
            .filter_map(|block| Some(Block { total: chosen(block, peers)?, paths: Vec::new(), ..block.clone() }))
            .collect();
        let told = known.iter().filter(|(peer, n)| peers.contains(peer) || peers.is_empty() && **n > 0);
        let paths = told.map(|(peer, _)| Of { peer: *peer, measures: measures(blocks, |block| to(block, peer)) });
        let paths: Vec<Of> = paths.collect();
        let mut notes = Vec::new();
        match (observe.blocks, enforce.blocks) {
            (_, 0) => notes.push("The agent only observed in this time: there is nothing to compare with.".into()),
            (0, _) => notes.push("The agent only enforced in this time: there is nothing to compare with.".into()),
            _ => notes.push(
                "Before against after is no experiment: what else changed meanwhile, such as the traffic, is in the \
                 differences too. Compare the load."
                    .into(),
            ),
        }
        let (short, least) = (observe.blocks.min(enforce.blocks), FEWEST * BATCH);
        if (1..least).contains(&short) {
            notes.push(format!(
                "Too short to tell: {short} blocks of ten seconds in one mode, where an interval takes {least} ({} minutes).",
                least / 6
            ));
        }
        if observe.blocks > 0 && enforce.blocks > 0 {
            notes.push(
                "[low, high] is a 95% interval by batch means. It holds for what varies within a few minutes, not for \
                 what differs by the hour of the day."
                    .into(),
            );
        }
        if known.len() >= MAX_PATHS && peers.is_empty() {
            notes.push(format!("Of more than {MAX_PATHS} paths, those with the most traffic are kept one by one."));
        }
        Ok(Self {
            host,
            since,
            until,
            observe,
            enforce,
            total: measures(&sums, |block| Some(&block.total)),
            paths,
            notes,
        })
    }
}

impl Run {
    fn of(blocks: &[Block], mode: Mode) -> Self {
        let mut this = Self::default();
        for block in under(blocks, mode) {
            this.blocks += 1;
            this.seconds += block.total.elapsed_ns as f64 / 1e9;
            this.thresholds.insert(block.under.threshold.to_string());
            this.policies.insert(block.under.policy);
        }
        this
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onrampd::config::quantity::{Threshold, Time};
    use onrampd::effects::blocks::Under;
    use onrampd::effects::{Histogram, Tcp};

    pub(super) const A: [u8; 4] = [10, 0, 0, 2];

    /// So many blocks of ten seconds; while it enforces, delays and losses are less.
    pub(super) fn blocks(observe: u64, enforce: u64) -> Vec<Block> {
        let block = |n: u64| {
            let mode = if n < observe { Mode::Observe } else { Mode::Enforce };
            let better = u64::from(mode == Mode::Enforce);
            let (bucket, lost) = (24 - 4 * better as u8, 20 - 15 * better + n % 5);
            let total = Effects {
                since: 1,
                elapsed_ns: 10_000_000_000,
                owd: Histogram::from(vec![(8, 500), (bucket, 500 + n % 7), (bucket + 6, 20 + n % 3)]),
                held_ns: 100_000_000 * better + n * 1000,
                tcp: Tcp::All,
                segments: 10_000 + 10 * (n % 11),
                retransmitted: lost,
                timeouts: (1 - better) * (n % 3),
                acked_bytes: 14_000_000 + 1000 * (n % 13),
            };
            let under = Under { mode, threshold: Threshold::Fixed(Time(50_000)), policy: 2 };
            Block { at: 1_800_000_000 + 10 * n, under, paths: vec![(A.into(), total.clone())], total }
        };
        (0..observe + enforce).map(block).collect()
    }

    pub(super) fn report(observe: u64, enforce: u64) -> Report {
        Report::of(&blocks(observe, enforce), &[], "web-07 (10.0.0.1)".into()).unwrap()
    }

    fn of<'a>(report: &'a Report, name: &str) -> &'a Compared {
        report.total.iter().find(|row| row.name == name).unwrap()
    }

    #[test]
    fn times_are_spans_or_seconds_since_1970() {
        assert_eq!((time("1h", 10_000), time("@77", 10_000)), (Ok(6_400), Ok(77)));
        for bad in ["", "1", "x", "@x", "-1h", "1h ago"] {
            assert!(time(bad, 10_000).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_measure_has_both_modes_and_a_difference() {
        let report = report(60, 60);
        let delay = of(&report, "owd_p99");
        assert!(delay.difference.unwrap().high < 0.0 && delay.enforce < delay.observe, "{delay:?}");
        assert!(of(&report, "retransmitted").difference.unwrap().high < 0.0);
        assert!(of(&report, "held").difference.unwrap().low > 0.0);
        assert_eq!((report.paths.len(), report.observe.blocks, report.enforce.blocks), (1, 60, 60));
        assert!(report.notes[0].starts_with("Before against after is no experiment"), "{:?}", report.notes);
    }

    #[test]
    fn with_one_mode_or_little_time_it_says_so() {
        let one = report(60, 0);
        assert!(one.notes[0].contains("only observed"), "{:?}", one.notes);
        assert!(one.total.iter().all(|row| row.enforce.is_none() && row.difference.is_none()));
        let short = report(60, 20);
        assert!(short.notes.iter().any(|note| note.starts_with("Too short to tell: 20 blocks")), "{:?}", short.notes);
        assert!(short.total.iter().all(|row| row.difference.is_none()));
        assert_eq!(of(&short, "owd_p50").why.as_deref(), Some("too short to tell"));
    }

    #[test]
    fn a_path_that_is_none_is_named() {
        let e = Report::of(&blocks(2, 2), &[[10, 0, 0, 9].into()], String::new()).unwrap_err();
        assert_eq!(
            (e.kind(), e.to_string().as_str()),
            (io::ErrorKind::InvalidInput, "--peer 10.0.0.9: no peer of this agent at that time")
        );
        assert_eq!(Report::of(&blocks(2, 2), &[A.into()], String::new()).unwrap().paths.len(), 1);
    }
}
