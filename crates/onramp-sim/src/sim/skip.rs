//! Exact skipping: repetitions of a training job that do the same are simulated once.
//!
//! A moment is a time at which no packet is anywhere and every rank computes. The whole state at a moment, with times
//! relative to it, decides all that follows. If a moment's state was met before, the stretch since then repeats, as often
//! as there are repetitions left but one. The stretch is simulated one more time, which takes the measurements of all its
//! repetitions ([`Echo`](crate::measure::Echo)). Then its counters and records are repeated, and the ranks' numbers of
//! repetitions move on. The engine keeps its own time, and with it its state; `Desk::skipped` is the difference to the
//! scenario's time.
//!
//! Moments are found by a hash; at its end the stretch's state is compared with that at its beginning value by value.

use super::desk::Desk;
use super::run::CellBox;
use crate::cell::Tally;
use crate::measure::Observer;
use crate::network::feedback::Feedback;
use onramp_config::units::Ps;
use onramp_records::OperationRecord;
use onramp_workload::program::Repetitions;
use onramp_workload::state::{Encoder, State};
use std::collections::{HashMap, HashSet};

/// Samples of queues foreseen at a time, at most.
const MOST_SAMPLES: u64 = 1 << 22;
/// Moments remembered, at most: a job that has met no state twice by then will hardly do so.
const MOST_MOMENTS: usize = 1024;

/// A moment at which nothing is under way.
#[derive(Clone, Debug)]
struct Moment {
    at: Ps,
    /// Number of the repetition that each program is in.
    numbers: Vec<u32>,
    /// Packets marked so far (ECN), and a hash of what only a mark reads.
    marked: u64,
    if_marked: u128,
}

/// A stretch of time that is simulated for all its repetitions.
#[derive(Debug)]
struct Stretch {
    from: Moment,
    state: State,
    until: Ps,
    times: u64,
    /// Counters of each cell at its beginning.
    tallies: Vec<Tally>,
    /// Samples of queues in its repetitions, by the times in it that they fall on, the latest first.
    samples: Vec<Ps>,
    /// Operations that were complete in it; times are the engine's.
    operations: Vec<OperationRecord>,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Skip {
    /// Reason why nothing is skipped any more.
    refused: Option<String>,
    moments: HashMap<u128, Moment>,
    /// Hashes of states without random generators.
    but_for_draws: HashSet<u128>,
    /// A state was met again in which generators have drawn other numbers.
    drew: bool,
    /// The moment that was looked at last.
    looked_at: Ps,
    stretch: Option<Box<Stretch>>,
    /// Repetitions of the longest program: skipped, and in all.
    skipped: u64,
    all: u32,
}

impl Skip {
    /// Time at which it wants to look; `Ps::MAX` for none.
    pub fn next(&self) -> Ps {
        let Some(stretch) = &self.stretch else { return Ps::MAX };
        stretch.samples.last().map_or(stretch.until, |at| stretch.until.min(*at))
    }

    /// An operation is complete.
    pub fn operation_done(&mut self, done: &OperationRecord) {
        if let Some(stretch) = &mut self.stretch {
            stretch.operations.push(*done);
        }
    }

    /// A line that says what was skipped, or why nothing was; `None` where no program repeats anything.
    pub fn says(&self) -> Option<String> {
        let Self { refused, moments, drew, skipped, all, .. } = self;
        if *skipped > 0 {
            return Some(format!("skipped {skipped} of {all} iterations, which are the same"));
        }
        let why = match refused {
            Some(refused) => refused.as_str(),
            None if moments.is_empty() => "the network was never at rest while all ranks compute",
            None if *drew => "random numbers were drawn in each",
            None => "no state came again",
        };
        Some(format!("skipped none of {all} iterations: {why}"))
    }
}

/// Numbers of programs, and their repetitions.
fn repetitions<F: Feedback>(cells: &[CellBox<F>]) -> impl Iterator<Item = (u64, Repetitions)> {
    cells.iter().flat_map(|cell| cell.hosts.repetitions())
}

/// Packets marked so far (ECN).
fn marked<F: Feedback>(cells: &[CellBox<F>]) -> u64 {
    cells.iter().map(|cell| cell.network.counts.marked).sum()
}

impl Desk {
    /// All cells have come to the same time: looks whether what follows is known. `waiting`: packets cross cells.
    pub(super) fn look_whether_to_skip<F: Feedback>(
        &mut self,
        cells: &mut [CellBox<F>],
        until: Ps,
        waiting: bool,
        observer: &mut dyn Observer,
    ) {
        let Some(mut skip) = self.skip.take() else { return };
        if skip.all == 0 {
            skip.all = repetitions(cells).map(|(_, own)| own.all).max().unwrap_or(0);
            if skip.all < 2 {
                // Nothing repeats.
                return;
            }
        }
        if let Some(stretch) = &mut skip.stretch {
            if self.at < stretch.until {
                self.foresee(stretch, cells, waiting);
            } else if let Some(stretch) = skip.stretch.take() {
                self.end_stretch(&mut skip, *stretch, cells, observer);
            }
        } else if skip.refused.is_none() && !waiting && self.at >= self.origin {
            self.look_for_moment(&mut skip, cells, until);
        }
        self.skip = Some(skip);
    }

    /// Samples queues for repetitions: nothing changes before the next event.
    fn foresee<F: Feedback>(&self, stretch: &mut Stretch, cells: &mut [CellBox<F>], waiting: bool) {
        let same = self.earliest(cells, waiting);
        let left = stretch.samples.partition_point(|at| *at > same);
        let times = (stretch.samples.len() - left) as u64;
        stretch.samples.truncate(left);
        if times > 0 {
            cells.iter_mut().for_each(|cell| cell.echo_queues(times));
        }
    }

    /// Remembers the present if nothing is under way. If its state was met before, a stretch begins.
    fn look_for_moment<F: Feedback>(&self, skip: &mut Skip, cells: &mut [CellBox<F>], until: Ps) {
        let at = cells.iter().map(|cell| cell.hosts.next_due()).min().unwrap_or(Ps::MAX);
        if at == Ps::MAX || at == skip.looked_at || self.alive > 0 || self.arrivals.next_at().is_some() {
            return;
        }
        let state = match self.state(cells, at) {
            Ok(Some(state)) => state,
            Ok(None) => return,
            Err(reason) => return skip.refused = Some(reason),
        };
        skip.looked_at = at;
        let [digest, but_for_draws, if_marked] = state.digests();
        let numbers = repetitions(cells).map(|(_, own)| own.number).collect();
        let from = Moment { at, numbers, marked: marked(cells), if_marked };
        let before = skip.moments.get(&digest);
        if let Some(before) = before.filter(|before| before.marked == from.marked || before.if_marked == if_marked)
            && let Some(stretch) = self.stretch(before, from.clone(), state, cells, until)
        {
            let period = stretch.until - stretch.from.at;
            cells.iter_mut().for_each(|cell| cell.foresee(self.skipped, period, stretch.times));
            skip.stretch = Some(Box::new(stretch));
        }
        skip.drew |= !skip.but_for_draws.insert(but_for_draws) && !skip.moments.contains_key(&digest);
        skip.moments.insert(digest, from);
        if skip.moments.len() > MOST_MOMENTS {
            skip.refused = Some(format!("{MOST_MOMENTS} states differ"));
        }
    }

    /// The state of everything at a moment before which nothing happens; `None` while something is under way.
    fn state<F: Feedback>(&self, cells: &[CellBox<F>], at: Ps) -> Result<Option<State>, String> {
        let mut encoder = Encoder::new(at);
        if self.timeline.is_some() {
            encoder.refuse("a picture over time is kept");
        }
        if !self.traced.is_empty() || self.follows {
            encoder.refuse("packets of flows are captured");
        }
        self.recorder.encode(&mut encoder);
        for cell in cells {
            if encoder.is_over() {
                break;
            }
            cell.encode(&mut encoder);
        }
        encoder.finish()
    }

    /// The stretch that begins with a moment whose state is that of one `before`, if it is worth simulating for others.
    fn stretch<F: Feedback>(
        &self,
        before: &Moment,
        from: Moment,
        state: State,
        cells: &[CellBox<F>],
        until: Ps,
    ) -> Option<Stretch> {
        let period = from.at - before.at;
        let end = from.at + period;
        // The last repetition is simulated, and so is all that happens from `until` on.
        let left = |((_, own), before): ((_, Repetitions), &u32)| {
            let each = own.number - before;
            (each > 0).then(|| u64::from(own.all.saturating_sub(1).saturating_sub(own.number) / each))
        };
        let times = repetitions(cells).zip(&before.numbers).filter_map(left).min()?.saturating_sub(1);
        let times = times.min(until.saturating_sub(end) / period);
        let interval = self.recorder.interval();
        let times = if self.next_sample < Ps::MAX { times.min(MOST_SAMPLES * interval / period) } else { times };
        if times == 0 {
            return None;
        }
        let mut samples = Vec::new();
        if self.next_sample < Ps::MAX {
            let first = self.sample_from(end);
            let all = (0..).map(|number| first + number * interval).take_while(|at| *at < end + times * period);
            samples.extend(all.map(|at| from.at + (at - end) % period));
            samples.sort_unstable_by(|a, b| b.cmp(a));
        }
        let tallies = cells.iter().map(|cell| cell.tally(from.at)).collect();
        Some(Stretch { from, state, until: end, times, tallies, samples, operations: Vec::new() })
    }

    /// The first sample at `from` or later.
    fn sample_from(&self, from: Ps) -> Ps {
        let interval = self.recorder.interval();
        self.next_sample + from.saturating_sub(self.next_sample).div_ceil(interval) * interval
    }

    /// A stretch is over. If its state is that at its beginning, its repetitions are done with it.
    fn end_stretch<F: Feedback>(
        &mut self,
        skip: &mut Skip,
        stretch: Stretch,
        cells: &mut [CellBox<F>],
        observer: &mut dyn Observer,
    ) {
        let Stretch { from, state, until, times, tallies, samples: _, operations } = stretch;
        let marked = marked(cells) > from.marked;
        let now = self.state(cells, until);
        if !matches!(now, Ok(Some(now)) if now.repeats(&state, marked)) {
            cells.iter_mut().for_each(|cell| cell.foresee(self.skipped, 0, 0));
            skip.refused = Some("a state that came again went on in another way".into());
            return;
        }
        let since =
            |((id, own), before): ((u64, Repetitions), &u32)| (id, Repetitions { number: own.number - before, ..own });
        let each: HashMap<u64, Repetitions> = repetitions(cells).zip(&from.numbers).map(since).collect();
        let period = until - from.at;
        for (cell, tally) in cells.iter_mut().zip(&tallies) {
            cell.repeat(tally, until, times);
            cell.hosts.skip(|id| each[&id].number * times as u32);
        }
        for time in 1..=times {
            for done in &operations {
                let program = each[&(u64::from(done.traffic) << 32 | u64::from(done.rank))];
                let more = program.number * time as u32;
                let done = OperationRecord {
                    start_ps: done.start_ps + time * period,
                    iteration: done.iteration + more,
                    collective: done.collective.map(|number| number + u64::from(more) * program.collectives),
                    ..*done
                };
                self.operation_done(done, observer);
            }
        }
        skip.skipped += times * u64::from(each.values().map(|program| program.number).max().unwrap_or(0));
        let skipped = times * period;
        if self.next_sample < Ps::MAX {
            self.next_sample = self.sample_from(until + skipped) - skipped;
        }
        self.skipped += skipped;
        cells.iter_mut().for_each(|cell| cell.foresee(self.skipped, 0, 0));
        self.limit -= skipped;
        // What was met before this is further away now.
        skip.moments.clear();
    }
}
