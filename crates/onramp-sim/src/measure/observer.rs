//! Measures of the program that uses this library.

use onramp_config::units::Ps;
use onramp_records::{CollectiveRecord, ExchangeRecord, FlowRecord, OperationRecord, RequestRecord};

/// A flow that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowStart {
    /// Number of the flow, in the order of arrival.
    pub id: u64,
    /// Index of its section in the scenario's traffic list.
    pub traffic: u32,
    /// Number of the request it belongs to.
    pub request: Option<u64>,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Payload \[bytes\]; `None` for a flow that sends until its scenario stops it.
    pub bytes: Option<u64>,
    /// Arrival, from time 0 \[ps\].
    pub start_ps: Ps,
}

/// A measure of a program's own, given to
/// [`Simulation::run_with`](crate::Simulation::run_with). Every method has an empty default.
///
/// Methods are called by the thread that runs the simulation, between windows in which cells run, for what counts from
/// time 0 on. Calls of one method come in order of time, flows that end at the same time by number, and do not depend
/// on cells or threads. Calls of different methods are interleaved by windows, not by time: a flow may start in a
/// window before others that end earlier are reported.
pub trait Observer {
    /// A flow will start, in the window that comes next.
    fn flow_started(&mut self, _flow: &FlowStart) {}
    /// A flow is complete.
    fn flow_finished(&mut self, _flow: &FlowRecord) {}
    /// All flows of a request are complete.
    fn request_finished(&mut self, _request: &RequestRecord) {}
    /// An exchange between programs is complete.
    fn exchange_finished(&mut self, _exchange: &ExchangeRecord) {}
    /// An operation of a rank of a distributed program is complete.
    fn operation_finished(&mut self, _operation: &OperationRecord) {}
    /// All ranks' parts in a collective are complete.
    fn collective_finished(&mut self, _collective: &CollectiveRecord) {}
}

/// Observes nothing.
impl Observer for () {}
