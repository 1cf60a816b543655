//! State that belongs to no cell: who runs until when, messages between cells, and records.

use super::look::Look;
use super::run::CellBox;
use super::skip::Skip;
use super::summary::{Totals, totals};
use super::ways::Followed;
use crate::host::config::ShaperKind;
use crate::host::{Note, Transports};
use crate::measure::trace::roce::Message;
use crate::measure::{Observer, Recorder, Running, Timeline};
use crate::network::feedback::Feedback;
use crate::network::port::Pause;
use crate::scenario::{Policies, Section};
use onramp_config::units::{Ps, US};
use onramp_records::{ExchangeRecord, FlowRecord, OperationRecord, PauseRecord};
use onramp_topology::{Cells, Members, PortId, Topology};
use onramp_workload::LoadSpan;
use onramp_workload::arrivals::Arrivals;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Interval between two looks at whether all flows are done, whatever the cells, so that
/// the run ends at the same time.
const CHECK: Ps = 10 * US;

/// All that belongs to no cell.
pub(super) struct Desk {
    pub topology: Arc<Topology>,
    pub map: Arc<Cells>,
    pub arrivals: Arrivals,
    pub transports: Arc<Transports>,
    pub sections: Vec<Section>,
    pub policies: Vec<Policies>,
    pub recorder: Recorder,
    pub span: LoadSpan,
    /// Load begins at this time of the engine.
    pub load_at: Ps,
    /// Time 0 of the scenario is at this time of the engine.
    pub origin: Ps,
    /// Time that was skipped: as much later than its engine is the scenario.
    pub skipped: Ps,
    /// Repetitions are skipped where that changes nothing.
    pub skip: Option<Box<Skip>>,
    /// The run ends at this time of the engine.
    pub limit: Ps,
    /// Everything before this time of the engine has happened in the cells with hosts,
    pub at: Ps,
    /// and this is how far the others are.
    pub others_at: Ps,
    /// Nobody goes on past this time before all are there.
    pub stop: Ps,
    /// The two kinds of cells take turns.
    pub alternate: bool,
    /// Time as it is shown.
    pub now: Ps,
    pub next_sample: Ps,
    /// The network over time, if it is kept.
    pub timeline: Option<Box<Timeline>>,
    /// Flows that have arrived and are not done.
    pub alive: u64,
    /// Programs, of which some are over.
    pub programs: usize,
    /// Flows since time 0.
    pub started: u64,
    pub finished: u64,
    /// Bytes of all flows so far, and whether some have no end.
    pub bytes: f64,
    pub endless: bool,
    pub before: Totals,
    pub over: bool,
    /// TCP connections that a pair of hosts opens before the load.
    pub connections: BTreeMap<(u32, u32), usize>,
    /// True for transports that are TCP.
    pub is_tcp: Vec<bool>,
    /// Flows whose packets are captured, and those of them on RDMA that have been opened.
    pub traced: Vec<u64>,
    pub messages: Vec<Message>,
    /// They are followed on their whole way; those that have begun.
    pub follows: bool,
    pub followed: Vec<Followed>,
    /// Ports whose packets' order is recorded.
    pub ordered: Vec<String>,
    pub shaper: ShaperKind,
}

impl Desk {
    /// Between two windows: hands over what crossed, writes down what is done, and
    /// opens what starts in the next one. Who is next and until when, or `None` when
    /// there is nothing to do before `until`.
    ///
    /// All cells may take a window at once. Or those with hosts and those without take
    /// turns: as each waits for the other kind alone, who is ahead has given the others
    /// a window of twice the delay between them, and a cell's data are fetched into the
    /// cache half as often.
    pub(super) fn plan<F: Feedback>(
        &mut self,
        cells: &mut [CellBox<F>],
        until: Ps,
        enough: bool,
        observer: &mut dyn Observer,
    ) -> Option<(Range<usize>, Ps)> {
        let until = until.saturating_sub(self.skipped).min(self.limit);
        let waiting = hand_over(cells);
        let with_hosts = self.map.with_hosts.filter(|_| self.alternate);
        if let Some(first) = with_hosts.filter(|_| self.others_at < self.at) {
            self.others_at = self.at.saturating_add(self.map.window).min(self.stop);
            return Some((first..cells.len(), self.others_at));
        }
        self.deliver_notes(cells);
        self.write_down(cells, observer);
        if self.at == self.stop && !self.meet(cells, until, enough, waiting, observer) {
            return None;
        }
        let earliest = self.earliest(cells, waiting);
        self.at = self.others_at.max(earliest).saturating_add(self.map.window).min(self.stop);
        self.open(cells, self.at, observer);
        let next = with_hosts.unwrap_or(cells.len());
        if with_hosts.is_none() {
            self.others_at = self.at;
        }
        Some((0..next, self.at))
    }

    /// All cells have come to the same time: looks at them if that is due, and tells
    /// when they will do so again. False: there is nothing to do before `until`.
    fn meet<F: Feedback>(
        &mut self,
        cells: &mut [CellBox<F>],
        until: Ps,
        enough: bool,
        waiting: bool,
        observer: &mut dyn Observer,
    ) -> bool {
        if self.at == self.next_frame() {
            self.frame(cells);
        }
        if self.at == self.origin && self.at > 0 {
            self.begin(cells);
        }
        let skipped = self.skipped;
        self.look_whether_to_skip(cells, until, waiting, observer);
        let until = until.saturating_sub(self.skipped - skipped);
        if self.at == self.next_sample {
            self.sample(cells);
        }
        let asking = self.programs > cells.iter().map(|cell| cell.hosts.programs_over()).sum();
        let idle = self.alive == 0 && !asking && self.arrivals.next_at().is_none();
        let checked = self.at >= self.origin && (self.at - self.origin + self.skipped).is_multiple_of(CHECK);
        if checked && idle || self.at > self.limit {
            self.over = true;
            self.frame(cells);
        }
        self.now = self.at.min(until).min(self.limit);
        if self.over || self.at > until || enough {
            return false;
        }
        // Where nothing happens for a while, it is skipped.
        let earliest = self.earliest(cells, waiting || idle);
        let after = |step: Ps| {
            let phase = (self.origin + step - self.skipped % step) % step;
            let steps = earliest.saturating_sub(phase) / step + u64::from(earliest >= phase);
            steps.saturating_mul(step).saturating_add(phase)
        };
        // The first flow sets the first sample.
        let sample = self.next_sample.min(after(self.recorder.interval()));
        let looks = self.skip.as_ref().map_or(Ps::MAX, |skip| skip.next());
        let stop = after(CHECK).min(sample).min(self.next_frame()).min(looks);
        let stop = stop.min(self.limit.saturating_add(1)).min(until.saturating_add(1));
        self.stop = if self.at < self.origin { stop.min(self.origin) } else { stop };
        true
    }

    /// Earliest time at which something happens, as far as is known: `soon` if it may be at once.
    pub(super) fn earliest<F: Feedback>(&self, cells: &[CellBox<F>], soon: bool) -> Ps {
        if soon {
            return self.at;
        }
        let events = cells.iter().map(|cell| cell.events.next_at()).min().unwrap_or(Ps::MAX);
        let arrival = self.arrivals.next_at().map_or(Ps::MAX, |at| at + self.load_at);
        events.min(arrival).max(self.at)
    }

    fn deliver_notes<F: Feedback>(&self, cells: &mut [CellBox<F>]) {
        let mut notes: Vec<(u32, Note)> = Vec::new();
        loop {
            for cell in cells.iter_mut() {
                notes.append(&mut cell.hosts.notes);
            }
            if notes.is_empty() {
                return;
            }
            for (host, note) in notes.drain(..) {
                cells[self.map.of(host)].hosts.note(note);
            }
        }
    }

    fn write_down<F: Feedback>(&mut self, cells: &mut [CellBox<F>], observer: &mut dyn Observer) {
        let mut done: Vec<(Ps, FlowRecord)> = Vec::new();
        let mut exchanged: Vec<(Ps, ExchangeRecord)> = Vec::new();
        let mut operated: Vec<OperationRecord> = Vec::new();
        for cell in cells.iter_mut() {
            done.append(&mut cell.hosts.done);
            self.recorder.add_samples(&mut cell.meter.samples);
            cell.hosts.take_exchanges(&mut exchanged);
            cell.hosts.take_operations(&mut operated);
        }
        operated.sort_unstable_by_key(|o| (o.start_ps + o.duration_ps, o.traffic, o.rank, o.iteration, o.number));
        for done in operated {
            if let Some(skip) = &mut self.skip {
                skip.operation_done(&done);
            }
            self.operation_done(done, observer);
        }
        exchanged.sort_unstable_by_key(|(at, done)| (*at, done.traffic, done.session, done.number));
        for (_, done) in exchanged {
            if let Some(start_ps) = self.since_origin(done.start_ps) {
                self.started += 1;
                self.finished += 1;
                let exchange = ExchangeRecord { start_ps, ..done };
                observer.exchange_finished(&exchange);
                if let Some(timeline) = &mut self.timeline {
                    timeline.request_done(exchange.latency_ps);
                }
                self.recorder.exchange_done(exchange);
            }
        }
        done.sort_unstable_by_key(|(found, flow)| (*found, flow.id));
        for (_, flow) in done {
            self.alive -= 1;
            if let Some(followed) = self.followed.iter_mut().find(|followed| followed.id == flow.id) {
                followed.end = Some(flow.start_ps + flow.fct_ps);
                let hosts = [flow.src, flow.dst];
                cells.iter_mut().for_each(|cell| hosts.iter().for_each(|host| cell.network.follow(*host, false)));
            }
            if let Some(start_ps) = self.since_origin(flow.start_ps) {
                self.finished += 1;
                let flow = FlowRecord { start_ps, ..flow };
                observer.flow_finished(&flow);
                let request = self.recorder.flow_done(flow);
                if let Some(timeline) = &mut self.timeline {
                    timeline.flow_done(&flow);
                    request.into_iter().for_each(|request| timeline.request_done(request.rct_ps));
                }
                if let Some(request) = request {
                    observer.request_finished(request);
                }
            }
        }
    }

    /// Time from time 0 on; `None` before.
    pub(super) fn since_origin(&self, at: Ps) -> Option<Ps> {
        (at + self.skipped).checked_sub(self.origin)
    }

    /// Pauses of each cell as records, in the order of their ends, whatever the cells; those before time 0 are left out.
    pub(super) fn pauses(&self, of_cells: impl IntoIterator<Item = Vec<Pause>>) -> Vec<PauseRecord> {
        let part = |(part, pauses): (&Members, Vec<Pause>)| {
            pauses.into_iter().map(|pause| (part.ports[pause.port as usize], pause)).collect::<Vec<_>>()
        };
        let mut all: Vec<(PortId, Pause)> = self.map.parts.iter().zip(of_cells).flat_map(part).collect();
        all.sort_by_key(|(port, pause)| (pause.end, *port, pause.class));
        let record = |(port, pause): (PortId, Pause)| {
            let port = &self.topology.ports()[port as usize];
            Some(PauseRecord {
                from: port.from,
                to: port.to,
                class: u32::from(pause.class).saturating_sub(1),
                start_ps: self.since_origin(pause.start)?,
                duration_ps: pause.end - pause.start,
            })
        };
        all.into_iter().filter_map(record).collect()
    }

    /// An operation is complete; its times are the engine's.
    pub(super) fn operation_done(&mut self, done: OperationRecord, observer: &mut dyn Observer) {
        let Some(start_ps) = self.since_origin(done.start_ps) else { return };
        self.started += 1;
        self.finished += 1;
        let operation = OperationRecord { start_ps, ..done };
        observer.operation_finished(&operation);
        if let Some(collective) = self.recorder.operation_done(operation) {
            if let Some(timeline) = &mut self.timeline {
                timeline.request_done(collective.duration_ps);
            }
            observer.collective_finished(collective);
        }
    }

    /// Time 0: what has been seen so far does not count.
    fn begin<F: Feedback>(&mut self, cells: &mut [CellBox<F>]) {
        for cell in cells.iter_mut() {
            cell.network.begin(self.at);
            cell.meter.begin();
        }
        self.before = totals(cells, self.at);
        self.recorder.begin(&Look { cells, map: &self.map, topology: &self.topology, at: self.at });
        if let Some(timeline) = &mut self.timeline {
            timeline.begin();
        }
        if self.alive > 0 || self.programs > 0 {
            self.next_sample = self.at + self.recorder.interval();
        }
    }

    fn next_frame(&self) -> Ps {
        self.timeline.as_ref().map_or(Ps::MAX, |timeline| timeline.next())
    }

    /// Ends a frame of the timeline, if it is kept.
    fn frame<F: Feedback>(&mut self, cells: &[CellBox<F>]) {
        let Some(timeline) = &mut self.timeline else { return };
        let all = totals(cells, self.at);
        let running = Running {
            open: self.alive + cells.iter().map(|cell| cell.hosts.exchanges_open()).sum::<u64>(),
            done: self.finished,
            drops: all.network.dropped + all.hosts.dropped,
            marked: all.network.marked,
            retransmitted: all.hosts.retransmitted,
            held: all.paused,
        };
        let look = Look { cells, map: &self.map, topology: &self.topology, at: self.at };
        timeline.frame(self.at, &self.topology, &look, running, |tell| {
            cells.iter().for_each(|cell| cell.hosts.gated(self.at, tell));
        });
    }

    fn sample<F: Feedback>(&mut self, cells: &mut [CellBox<F>]) {
        cells.iter_mut().for_each(|cell| cell.sample_queues());
        let look = Look { cells, map: &self.map, topology: &self.topology, at: self.at };
        self.recorder.sample(self.at - self.origin + self.skipped, &look);
        self.next_sample += self.recorder.interval();
    }
}

/// Passes packets on to their cells; true if some wait there, of which a run that has stopped between may have left some.
fn hand_over<F: Feedback>(cells: &mut [CellBox<F>]) -> bool {
    for from in 0..cells.len() {
        if cells[from].network.outbox.is_empty() {
            continue;
        }
        let mut outbox = std::mem::take(&mut cells[from].network.outbox);
        outbox.drain(|to, post| cells[usize::from(to)].incoming.of(from as u16).append(post));
        cells[from].network.outbox = outbox;
    }
    cells.iter().any(|cell| !cell.incoming.is_empty())
}
