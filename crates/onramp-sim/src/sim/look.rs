//! State of the network for samples of the time series.

use super::run::CellBox;
use crate::measure::{LongFlow, View};
use crate::network::Network;
use crate::network::feedback::Feedback;
use crate::network::packet::TCP;
use onramp_config::units::Ps;
use onramp_topology::{Cells, PortId, Topology};

/// State of all cells at a sample.
pub(super) struct Look<'a, F: Feedback> {
    pub cells: &'a [CellBox<F>],
    pub map: &'a Cells,
    pub topology: &'a Topology,
    pub at: Ps,
}

impl<F: Feedback> Look<'_, F> {
    pub fn port(&self, port: PortId) -> (&Network<F>, u32) {
        let (cell, place) = self.map.place_in(self.topology, port);
        (&self.cells[cell].network, place)
    }

    /// Acknowledged bytes and window [packets] of a long flow on TCP.
    fn tcp_progress(&self, flow: &LongFlow) -> Option<(u64, u32)> {
        let (host, slot) = flow.sender;
        if slot & TCP == 0 { None } else { self.cells[self.map.of(host)].hosts.tcp_progress(slot, flow.id) }
    }
}

impl<F: Feedback> View for Look<'_, F> {
    fn queued(&self, port: PortId) -> u64 {
        let (network, place) = self.port(port);
        network.queued(place)
    }

    fn flow_rate(&self, port: PortId) -> Option<f64> {
        let (network, place) = self.port(port);
        network.flow_rate(place, self.at)
    }

    fn sending(&self, port: PortId) -> Ps {
        let (network, place) = self.port(port);
        network.sending(place, self.at)
    }

    fn received(&self, flow: &LongFlow) -> Option<u64> {
        use crate::stack::Rx;
        let (host, slot) = flow.sender;
        if slot & TCP != 0 {
            return self.tcp_progress(flow).map(|(acknowledged, _)| acknowledged);
        }
        let sender = self.cells[self.map.of(host)].hosts.sender(slot);
        let (host, slot) = flow.receiver;
        let receiver = self.cells[self.map.of(host)].hosts.receiver(slot);
        (sender.id == flow.id && !sender.done).then(|| receiver.rx.received())
    }

    fn cwnd(&self, flow: &LongFlow) -> Option<u32> {
        self.tcp_progress(flow).map(|(_, cwnd)| cwnd)
    }
}
