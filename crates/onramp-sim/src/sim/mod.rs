//! The simulation: what a program builds, runs and asks.
//!
//! [`build`](self::build) makes cells of a scenario, [`desk`] is what is common to them and decides who runs until
//! when, [`opening`] opens flows and channels, [`look`] is what samples see, [`summary`] what the run comes to,
//! [`skip`](self::skip) leaves out repetitions that are the same, [`ways`](self::ways) what packets of traced flows went through, [`edges`] their captures, [`deadlock`] finds ports that wait for each other.

mod build;
mod deadlock;
mod desk;
mod edges;
mod look;
mod opening;
mod run;
mod skip;
mod summary;
mod ways;

use crate::cc::custom::Controllers;
use crate::cc::tcp;
use crate::measure::trace::Capture;
use crate::measure::{Observer, Picture};
use crate::network::path::custom::Selectors;
use crate::scenario::{BuildError, Scenario};
use onramp_config::units::Ps;
use onramp_records::counters::Counters;
use onramp_records::{
    ClockRecord, CollectiveRecord, ExchangeRecord, FlowRecord, GoodputRecord, LinkRecord, MessageRecord, NextRecord,
    OperationRecord, PauseRecord, RequestRecord, Sample,
};
use onramp_topology::Topology;
use onramp_workload::custom::Workloads;
use run::Run;
use std::path::Path;
use std::sync::Arc;
pub use ways::Ways;

/// Packets by place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketCounts {
    /// Put on a link by a host, and PFC frames.
    pub sent: u64,
    /// Arrived at their host, and PFC frames that took effect.
    pub delivered: u64,
    /// Dropped by a switch, or by a host whose ring was full.
    pub dropped: u64,
    /// On a link, in a switch or in a host's ring.
    pub in_flight: u64,
}

/// One run of one scenario. Times are in picoseconds from time 0.
pub struct Simulation(Box<dyn Run>);

/// Additions of a program to a simulation.
#[derive(Default)]
pub struct Options {
    /// Controllers of its own, for transports of kind "custom".
    pub controllers: Controllers,
    /// Controllers of TCP of its own, for transports of kind "custom-tcp".
    pub tcp_controllers: Controllers<tcp::custom::Start>,
    /// Ways to choose paths of its own, for switches with paths of kind "custom".
    pub paths: Selectors,
    /// Workloads of its own, for traffic of kind "custom".
    pub workloads: Workloads,
    /// The network is one cell, whatever it could be cut into: slower, the same results.
    pub one_cell: bool,
    /// Numbers of flows whose packets are captured, RDMA's as RoCEv2.
    pub traced: Vec<u64>,
    /// Packets of traced flows are kept on their whole way, for [`Simulation::ways`].
    pub ways: bool,
    /// Repetitions of programs are all simulated, also those of which it is known that they are the same.
    pub no_skip: bool,
    /// The network is looked at over time, for [`Simulation::picture`]; the results are the same.
    pub timeline: bool,
}

impl Simulation {
    /// Builds the simulation of a resolved scenario; files it names are relative
    /// to `base`.
    ///
    /// # Errors
    /// A file that could be read when the scenario was checked and now cannot; a part of
    /// the program's own that it does not have.
    pub fn new(scenario: &Scenario, topology: impl Into<Arc<Topology>>, base: &Path) -> Result<Self, BuildError> {
        Self::with(scenario, topology, base, &Options::default())
    }

    /// The same with parts of a program's own.
    ///
    /// # Errors
    /// As [`Simulation::new`].
    pub fn with(
        scenario: &Scenario,
        topology: impl Into<Arc<Topology>>,
        base: &Path,
        options: &Options,
    ) -> Result<Self, BuildError> {
        build::build(scenario, topology.into(), base, options).map(Self)
    }

    /// Runs to the end.
    pub fn run_to_end(&mut self) {
        self.run_to_end_with(&mut ());
    }

    /// Runs to the end; `observer` is told what happens.
    pub fn run_to_end_with(&mut self, observer: &mut dyn Observer) {
        while !self.run_with(Ps::MAX, u64::MAX, observer) {}
    }

    /// Cells run on this many threads from now on; the results do not depend on it.
    pub fn set_threads(&mut self, threads: usize) {
        self.0.set_threads(threads)
    }

    /// Runs until simulated time `until`, or for about `max_events` events. True when
    /// nothing is left to happen.
    pub fn run(&mut self, until: Ps, max_events: u64) -> bool {
        self.run_with(until, max_events, &mut ())
    }

    /// As [`Simulation::run`]; `observer` is told what happens meanwhile.
    pub fn run_with(&mut self, until: Ps, max_events: u64, observer: &mut dyn Observer) -> bool {
        self.0.run(until, max_events, observer)
    }

    /// Simulated time; 0 until load is measured.
    pub fn now(&self) -> Ps {
        self.0.now()
    }

    /// An estimate from 0 to 1 of how much of the run is done.
    pub fn progress(&self) -> f64 {
        self.0.progress()
    }

    /// Packets that have crossed a link, counted once for every link.
    pub fn packet_hops(&self) -> u64 {
        self.0.packet_hops()
    }

    /// Flows that have arrived since time 0.
    pub fn flows_started(&self) -> u64 {
        self.0.flows_started()
    }

    /// Those of them that are done.
    pub fn flows_finished(&self) -> u64 {
        self.0.flows_finished()
    }

    /// Packets put on or taken off the network so far.
    pub fn packet_counts(&self) -> PacketCounts {
        self.0.packet_counts()
    }

    /// The fullest any switch buffer is now, as (bytes used, bytes there are).
    pub fn fullest_buffer(&self) -> (u64, u64) {
        self.0.fullest_buffer()
    }

    /// Flows done since the last call.
    pub fn take_flows(&mut self) -> Vec<FlowRecord> {
        self.0.take_flows()
    }

    /// Requests done since the last call.
    pub fn take_requests(&mut self) -> Vec<RequestRecord> {
        self.0.take_requests()
    }

    /// Exchanges over since the last call.
    pub fn take_exchanges(&mut self) -> Vec<ExchangeRecord> {
        self.0.take_exchanges()
    }

    /// Operations of programs' ranks that were complete since the last call.
    pub fn take_operations(&mut self) -> Vec<OperationRecord> {
        self.0.take_operations()
    }

    /// Collectives complete at all ranks since the last call.
    pub fn take_collectives(&mut self) -> Vec<CollectiveRecord> {
        self.0.take_collectives()
    }

    /// Samples of the time series since the last call.
    pub fn take_samples(&mut self) -> Vec<Sample> {
        self.0.take_samples()
    }

    /// Samples of the clocks' errors since the last call.
    pub fn take_clock_records(&mut self) -> Vec<ClockRecord> {
        self.0.take_clock_records()
    }

    /// Messages between programs that have come since the last call, in this order; none without `measure.messages`.
    pub fn take_messages(&mut self) -> Vec<MessageRecord> {
        self.0.take_messages()
    }

    /// PFC pauses that are over since the last call, in the order of their ends; none without `measure.pauses`.
    pub fn take_pauses(&mut self) -> Vec<PauseRecord> {
        self.0.take_pauses()
    }

    /// PFC pauses under way now, with their length so far; none without `measure.pauses`.
    pub fn pauses_under_way(&self) -> Vec<PauseRecord> {
        self.0.pauses_under_way()
    }

    /// Payload that flows without an end of their own have moved so far.
    pub fn goodput(&self) -> Vec<GoodputRecord> {
        self.0.goodput()
    }

    /// Links so far, one in each direction, in the order of the topology's ports.
    pub fn links(&self) -> Vec<LinkRecord> {
        self.0.links()
    }

    /// The sampled packets that have arrived, beside those acknowledged before
    /// they left.
    pub fn next_records(&self) -> Vec<NextRecord> {
        self.0.next_records()
    }

    /// The packets so far of the flows that are traced and have begun.
    pub fn captures(&self) -> Vec<Capture> {
        self.0.captures()
    }

    /// Ways so far of the packets of flows that are traced, if [`Options::ways`] was set.
    pub fn ways(&self) -> Ways {
        self.0.ways()
    }

    /// The network over time so far, if [`Options::timeline`] was set: at most 1000 frames, whatever the run.
    pub fn picture(&self) -> Option<Picture> {
        self.0.picture()
    }

    /// Names of the time series.
    pub fn series_names(&self) -> &[String] {
        self.0.series_names()
    }

    /// Flows alive now; their `fct_ps` is their age.
    pub fn unfinished_flows(&self) -> Vec<FlowRecord> {
        self.0.unfinished_flows()
    }

    /// Counters so far, the parts of `summary.json` that do not come from flows.
    pub fn counters(&self) -> Counters {
        self.0.counters()
    }

    /// How a controller of a library failed, in a line, if one has; the results are no results then.
    pub fn failure(&self) -> Option<String> {
        self.0.failure()
    }

    /// A line that says how many iterations were skipped, or why none was; `None` where nothing repeats.
    pub fn skipping(&self) -> Option<String> {
        self.0.skipping()
    }

    /// Cells that the network is cut into.
    pub fn cells(&self) -> usize {
        self.0.cells()
    }
}
