//! Counts, cut into blocks of ten seconds and wherever the mode, T or the policy changes. Pure.

use super::Effects;
use super::count::Counted;
use crate::config::Mode;
use crate::config::quantity::Threshold;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Length of a block [ns].
pub const LENGTH: u64 = 10_000_000_000;
/// Shorter ones are not kept.
const SHORTEST: u64 = 1_000_000_000;
/// Most paths of a block: those with the most traffic so far.
pub const MAX_PATHS: usize = 32;

/// Mode, T and policy that the agent went by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Under {
    /// Mode in force.
    pub mode: Mode,
    /// T, or that it followed each path.
    pub threshold: Threshold,
    /// Version of the fleet's policy; 0: none.
    pub policy: u64,
}

/// Counts of a time in which mode, T and policy did not change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Its end, in seconds since 1970.
    pub at: u64,
    /// Mode, T and policy in force.
    #[serde(flatten)]
    pub under: Under,
    /// To all peers.
    pub total: Effects,
    /// By path; of more than [`MAX_PATHS`], those with the most traffic since the agent started.
    pub paths: Vec<(IpAddr, Effects)>,
}

/// Where the present block began.
struct Begun {
    now: u64,
    under: Under,
    total: Effects,
    paths: BTreeMap<IpAddr, Effects>,
}

/// Cuts blocks.
#[derive(Default)]
pub struct Cutter(Option<Begun>);

impl Cutter {
    /// Takes in what has been counted by `now` [ns], which is `at` in seconds since 1970. Returns the block that this
    /// ends: it has become long enough, or the agent goes by something else from now on.
    pub fn take(&mut self, now: u64, at: u64, under: Under, counted: &Counted) -> Option<Block> {
        let is_over = |begun: &Begun| begun.under != under || now.saturating_sub(begun.now) >= LENGTH;
        if self.0.as_ref().is_some_and(|begun| !is_over(begun)) {
            return None;
        }
        let block = self.end(at, counted);
        let paths = counted.paths().map(|(peer, effects)| (peer, effects.clone())).collect();
        self.0 = Some(Begun { now, under, total: counted.total().clone(), paths });
        block
    }

    /// Ends the present block.
    pub fn end(&mut self, at: u64, counted: &Counted) -> Option<Block> {
        let begun = self.0.take()?;
        let total = counted.total().minus(&begun.total).filter(|total| total.elapsed_ns >= SHORTEST)?;
        let mut paths: Vec<_> = counted.paths().collect();
        if paths.len() > MAX_PATHS {
            paths.sort_by_key(|(_, effects)| Reverse(effects.segments.max(effects.owd.count())));
            paths.truncate(MAX_PATHS);
        }
        let happened = |(peer, now): (IpAddr, &Effects)| Some((peer, now.minus(begun.paths.get(&peer)?)?));
        Some(Block { at, under: begun.under, total, paths: paths.into_iter().filter_map(happened).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::{or_path, or_tcp};
    use crate::config::quantity::Time;
    use crate::effects::Tcp;
    use crate::effects::count::Raw;

    const S: u64 = 1_000_000_000;

    fn under(mode: Mode) -> Under {
        Under { mode, threshold: Threshold::Fixed(Time(50_000)), policy: 7 }
    }

    /// So many segments to each of the peers, by their number.
    fn counted(counted: &mut Counted, now: u64, peers: impl Iterator<Item = (u8, u64)>) {
        let raw = |(peer, segments)| {
            let tcp = or_tcp { segments, retransmitted: 0, timeouts: 0, acked_bytes: 0, since: 1 };
            ([10, 0, 0, peer].into(), Raw::new(&or_path::unknown(), 0, Some(&tcp)))
        };
        counted.take(now, Tcp::All, peers.map(raw).collect());
    }

    #[test]
    fn a_block_ends_after_ten_seconds_and_where_the_mode_changes() {
        let (mut all, mut cutter) = (Counted::new(0, 1), Cutter::default());
        let mut ends = Vec::new();
        for second in 0..=30 {
            counted(&mut all, second * S, [(2, 5 * second)].into_iter());
            let mode = if second < 14 { Mode::Observe } else { Mode::Enforce };
            let block = cutter.take(second * S, 100 + second, under(mode), &all);
            ends.extend(block.map(|b| (b.at, b.under.mode, b.total.segments, b.paths[0].1.segments)));
        }
        let observed = [(110, Mode::Observe, 50, 50), (114, Mode::Observe, 20, 20)];
        assert_eq!(ends, [&observed[..], &[(124, Mode::Enforce, 50, 50)]].concat());
        counted(&mut all, 31 * S, [(2, 200)].into_iter());
        assert_eq!(cutter.end(131, &all).unwrap().total.segments, 80, "what is left at the end");
        assert_eq!(cutter.end(131, &all), None);
    }

    #[test]
    fn of_many_paths_the_busiest_are_kept_and_the_total_has_all() {
        let (mut all, mut cutter) = (Counted::new(0, 1), Cutter::default());
        let peers = |n: u64| (1..=200).map(move |peer| (peer, n * u64::from(peer)));
        counted(&mut all, 0, peers(1));
        assert_eq!(cutter.take(0, 0, under(Mode::Observe), &all), None);
        counted(&mut all, 10 * S, peers(2));
        let block = cutter.take(10 * S, 10, under(Mode::Observe), &all).unwrap();
        assert_eq!((block.paths.len(), block.total.segments), (MAX_PATHS, 200 * 201 / 2));
        assert!(block.paths.iter().all(|(_, effects)| effects.segments > 200 - MAX_PATHS as u64));
    }

    #[test]
    fn a_block_is_a_line_of_json_and_back() {
        let (mut all, mut cutter) = (Counted::new(0, 1), Cutter::default());
        counted(&mut all, 0, [(2, 0)].into_iter());
        cutter.take(0, 0, under(Mode::Enforce), &all);
        counted(&mut all, 10 * S, [(2, 7)].into_iter());
        let block = cutter.end(10, &all).unwrap();
        let line = serde_json::to_string(&block).unwrap();
        assert!(
            line.starts_with("{\"at\":10,\"mode\":\"enforce\",\"threshold\":\"50us\",\"policy\":7,\"total\":{"),
            "{line}"
        );
        assert_eq!(serde_json::from_str::<Block>(&line).unwrap(), block);
    }
}
