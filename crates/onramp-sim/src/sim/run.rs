//! Cells and what is common to them, as one simulation.

use super::PacketCounts;
use super::desk::Desk;
use super::look::Look;
use super::summary::totals;
use super::ways::Ways;
use crate::cell::Cell;
use crate::clock::Clocks;
use crate::engine::turns;
use crate::measure::trace::Capture;
use crate::measure::{NextOwd, Observer, Picture};
use crate::network::feedback::Feedback;
use crate::network::packet::TCP;
use onramp_config::units::Ps;
use onramp_records::counters::Counters;
use onramp_records::{
    ClockRecord, CollectiveRecord, ExchangeRecord, FlowRecord, GoodputRecord, LinkRecord, MessageRecord, NextRecord,
    OperationRecord, PauseRecord, RequestRecord, Sample,
};

/// Cells of a kind take turns with the others only where each thread has this many.
const CELLS_PER_THREAD: usize = 4;

pub(super) type CellBox<F> = Box<Cell<F>>;

/// Cells and what is common to them.
pub(super) struct Engine<F: Feedback> {
    pub cells: Vec<CellBox<F>>,
    pub desk: Desk,
    pub threads: usize,
}

/// A simulation whatever its switches write; see [`super::Simulation`] for what each does.
pub(super) trait Run: Send + Sync {
    fn set_threads(&mut self, threads: usize);
    fn run(&mut self, until: Ps, max_events: u64, observer: &mut dyn Observer) -> bool;
    fn now(&self) -> Ps;
    fn progress(&self) -> f64;
    fn packet_hops(&self) -> u64;
    fn flows_started(&self) -> u64;
    fn flows_finished(&self) -> u64;
    fn packet_counts(&self) -> PacketCounts;
    fn fullest_buffer(&self) -> (u64, u64);
    fn take_flows(&mut self) -> Vec<FlowRecord>;
    fn take_requests(&mut self) -> Vec<RequestRecord>;
    fn take_exchanges(&mut self) -> Vec<ExchangeRecord>;
    fn take_operations(&mut self) -> Vec<OperationRecord>;
    fn take_collectives(&mut self) -> Vec<CollectiveRecord>;
    fn take_samples(&mut self) -> Vec<Sample>;
    fn take_clock_records(&mut self) -> Vec<ClockRecord>;
    fn take_messages(&mut self) -> Vec<MessageRecord>;
    fn take_pauses(&mut self) -> Vec<PauseRecord>;
    fn pauses_under_way(&self) -> Vec<PauseRecord>;
    fn goodput(&self) -> Vec<GoodputRecord>;
    fn links(&self) -> Vec<LinkRecord>;
    fn next_records(&self) -> Vec<NextRecord>;
    fn captures(&self) -> Vec<Capture>;
    fn ways(&self) -> Ways;
    fn picture(&self) -> Option<Picture>;
    fn series_names(&self) -> &[String];
    fn unfinished_flows(&self) -> Vec<FlowRecord>;
    fn counters(&self) -> Counters;
    fn cells(&self) -> usize;
    fn failure(&self) -> Option<String>;
    fn skipping(&self) -> Option<String>;
}

impl<F: Feedback> Engine<F> {
    pub(super) fn look(&self) -> Look<'_, F> {
        Look { cells: &self.cells, map: &self.desk.map, topology: &self.desk.topology, at: self.desk.now }
    }
}

impl<F: Feedback> Run for Engine<F> {
    fn set_threads(&mut self, threads: usize) {
        self.threads = threads.max(1);
    }

    fn run(&mut self, until: Ps, max_events: u64, observer: &mut dyn Observer) -> bool {
        let Self { cells, desk, threads } = self;
        let until = until.saturating_add(desk.origin);
        let done = |cells: &[CellBox<F>]| cells.iter().map(|cell| cell.done).sum::<u64>();
        let most = done(cells).saturating_add(max_events);
        if !desk.over {
            // With few cells in a turn, some threads would have none.
            desk.alternate = desk.map.with_hosts.is_some_and(|cells| cells >= CELLS_PER_THREAD * *threads);
            let plan = |cells: &mut [CellBox<F>]| {
                let enough = max_events < u64::MAX && done(cells) >= most;
                desk.plan(cells, until, enough, observer)
            };
            turns::run(cells, *threads, plan, Cell::run);
        }
        desk.over
    }

    fn now(&self) -> Ps {
        (self.desk.now + self.desk.skipped).saturating_sub(self.desk.origin)
    }

    fn progress(&self) -> f64 {
        let desk = &self.desk;
        if desk.over {
            return 1.0;
        }
        let load = (desk.now + desk.skipped).saturating_sub(desk.load_at);
        let done: f64 = self.cells.iter().map(|cell| cell.hosts.all_counts().acked as f64).sum();
        let all = desk.bytes + desk.arrivals.expected_bytes(load);
        let span = desk.span.warmup + desk.span.duration;
        let of_time = (load as f64 / span as f64).min(1.0);
        let of_bytes = if all > 0.0 { (done / all).min(1.0) } else { 1.0 };
        // How much a flow without end will send is known by its time only.
        if desk.endless { of_time } else { of_bytes }
    }

    fn packet_hops(&self) -> u64 {
        self.cells.iter().map(|cell| cell.network.counts.hops).sum()
    }

    fn flows_started(&self) -> u64 {
        self.desk.started
    }

    fn flows_finished(&self) -> u64 {
        self.desk.finished
    }

    fn packet_counts(&self) -> PacketCounts {
        let all = totals(&self.cells, self.desk.now);
        PacketCounts {
            sent: all.network.sent,
            delivered: all.hosts.delivered + all.network.frames,
            dropped: all.network.dropped + all.hosts.dropped,
            in_flight: self.cells.iter().map(|cell| cell.packets_inside()).sum(),
        }
    }

    fn fullest_buffer(&self) -> (u64, u64) {
        self.cells.iter().map(|cell| cell.network.fullest_buffer()).max().unwrap_or_default()
    }

    fn take_flows(&mut self) -> Vec<FlowRecord> {
        self.desk.recorder.take_flows()
    }

    fn take_requests(&mut self) -> Vec<RequestRecord> {
        self.desk.recorder.take_requests()
    }

    fn take_exchanges(&mut self) -> Vec<ExchangeRecord> {
        self.desk.recorder.take_exchanges()
    }

    fn take_operations(&mut self) -> Vec<OperationRecord> {
        self.desk.recorder.take_operations()
    }

    fn take_collectives(&mut self) -> Vec<CollectiveRecord> {
        self.desk.recorder.take_collectives()
    }

    fn take_samples(&mut self) -> Vec<Sample> {
        self.desk.recorder.take_samples()
    }

    fn take_clock_records(&mut self) -> Vec<ClockRecord> {
        let records = self.cells.iter_mut().map(|cell| match &mut cell.clocks {
            Clocks::Constant(_) => vec![],
            Clocks::Running(clocks) => clocks.take_records(),
        });
        records.flatten().collect()
    }

    fn take_messages(&mut self) -> Vec<MessageRecord> {
        // As with pauses, all cells have come to the same time. A host's messages keep their order.
        let mut all: Vec<_> = self.cells.iter_mut().flat_map(|cell| cell.hosts.take_messages()).collect();
        all.sort_by_key(|message| (message.start_ps + message.duration_ps, message.dst));
        let since = |message: MessageRecord| {
            Some(MessageRecord { start_ps: self.desk.since_origin(message.start_ps)?, ..message })
        };
        all.into_iter().filter_map(since).collect()
    }

    fn take_pauses(&mut self) -> Vec<PauseRecord> {
        // All cells have come to the same time: what is over later comes with the next call.
        let taken: Vec<_> = self.cells.iter_mut().map(|cell| cell.network.take_pauses()).collect();
        self.desk.pauses(taken)
    }

    fn pauses_under_way(&self) -> Vec<PauseRecord> {
        let now = self.desk.now;
        self.desk.pauses(self.cells.iter().map(|cell| cell.network.pauses_under_way(now).collect()))
    }

    fn goodput(&self) -> Vec<GoodputRecord> {
        self.desk.recorder.goodput()
    }

    fn links(&self) -> Vec<LinkRecord> {
        Self::links(self)
    }

    fn next_records(&self) -> Vec<NextRecord> {
        self.cells.iter().filter_map(|cell| cell.meter.next.as_ref()).flat_map(NextOwd::records).collect()
    }

    fn captures(&self) -> Vec<Capture> {
        Self::captures(self)
    }

    fn ways(&self) -> Ways {
        Self::ways(self)
    }

    fn picture(&self) -> Option<Picture> {
        self.desk.timeline.as_ref().map(|timeline| timeline.picture(&self.desk.topology))
    }

    fn series_names(&self) -> &[String] {
        self.desk.recorder.series_names()
    }

    fn unfinished_flows(&self) -> Vec<FlowRecord> {
        let desk = &self.desk;
        let alive = self.cells.iter().flat_map(|cell| cell.hosts.alive(desk.now));
        let mut flows: Vec<FlowRecord> = alive
            .filter_map(|(record, peer)| {
                let start_ps = desk.since_origin(record.start_ps)?;
                let receiver_fct_ps = if peer & TCP != 0 {
                    0
                } else {
                    let receiver = self.cells[desk.map.of(record.dst)].hosts.receiver(peer);
                    receiver.received_at - record.start_ps
                };
                Some(FlowRecord { start_ps, receiver_fct_ps, ..record })
            })
            .collect();
        flows.sort_by_key(|f| f.id);
        flows
    }

    fn counters(&self) -> Counters {
        self.summary()
    }

    fn failure(&self) -> Option<String> {
        self.desk.transports.failure()
    }

    fn skipping(&self) -> Option<String> {
        self.desk.skip.as_ref()?.says()
    }

    fn cells(&self) -> usize {
        self.cells.len()
    }
}
