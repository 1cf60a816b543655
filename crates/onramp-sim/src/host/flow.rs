//! The two ends of a flow. They may be in different cells, and know each other by
//! slot.

use super::Transports;
use crate::cc::Cc;
use crate::stack::rdma;
use onramp_config::units::Ps;
use onramp_workload::state::Encoder;

/// The packets there are in all, while that is not known.
pub(super) const OPEN: u32 = u32::MAX;

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    /// Bytes in packets, made reliable.
    pub tx: rdma::Tx,
    /// When the controller allows the next packet.
    pub t_next: Ps,
    /// When the last packet left, and its bytes on the wire.
    pub spaced_at: Ps,
    /// See `spaced_at`.
    pub spaced_size: u16,
    /// Hash that ECMP chooses by.
    pub hash: u16,
    /// Its class in NICs and switches.
    pub class: u8,
    /// Which of the scenario's transports.
    pub transport: u8,
    /// Everything is acknowledged; the slot is kept for packets under way.
    pub done: bool,
    /// Slot of the receiving end, in its cell.
    pub peer: u32,
    /// The NIC it leaves by.
    pub nic: u32,
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Data packets put on the link.
    pub packets: u32,
    /// Congestion control.
    pub cc: Cc,
    /// Replies that have come or were dropped.
    pub replies: u32,
    /// Replies there are in all, once the other end has closed.
    pub replies_in_all: u32,

    /// Number in order of arrival.
    pub id: u64,
    /// When it arrived.
    pub start: Ps,
    /// When it stops, if it has no end of its own.
    pub stop: Option<Ps>,
    /// The scenario's traffic section it comes from.
    pub traffic: u32,
    /// The request it is part of, numbered in order of arrival.
    pub request: Option<u64>,
    /// Payload in bytes; 0 while it has no end.
    pub bytes: u64,
    /// Packets sent again.
    pub retransmitted: u32,
    /// Timeouts.
    pub timeouts: u32,
}

impl Sender {
    /// No packet refers to it any more.
    pub fn is_over(&self) -> bool {
        self.done && self.replies == self.replies_in_all
    }

    /// Takes down its state at a NIC of the rate with this number; of one that is done there is none.
    pub fn encode(&self, transports: &Transports, rate: u8, state: &mut Encoder) {
        let Self {
            tx,
            t_next,
            // Read with an acknowledgement, and so after the next packet.
            spaced_at: _,
            spaced_size: _,
            hash: _,
            class: _,
            transport,
            done,
            peer: _,
            nic: _,
            src: _,
            dst: _,
            packets: _,
            cc,
            replies: _,
            replies_in_all: _,
            id: _,
            start: _,
            stop: _,
            traffic: _,
            request: _,
            bytes: _,
            retransmitted: _,
            timeouts: _,
        } = self;
        if *done {
            return;
        }
        if !tx.is_open() {
            // A flow with an end.
            state.busy();
        }
        tx.encode(state);
        state.due(*t_next);
        let transport = &transports[*transport];
        cc.encode(&transport.config, transport.env(rate), tx.acked(), state);
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    /// Packets that arrived, and replies that are due.
    pub rx: rdma::Rx,
    /// Slot of the sending end, in its cell.
    pub peer: u32,
    /// Sending host.
    pub src: u32,
    /// The NIC that replies leave by.
    pub nic: u32,
    /// Hash that ECMP chooses by, for replies.
    pub hash: u16,
    /// Class of the data.
    pub class: u8,
    /// Which of the scenario's transports.
    pub transport: u8,
    /// When the newest packet in order came.
    pub received_at: Ps,
    /// Data packets since the last that told its receive time.
    pub since_told: u32,
    /// One-way delays of this flow are recorded.
    pub watch_owd: Option<u32>,
    /// Data packets that have come or were dropped.
    pub packets: u32,
    /// Data packets there are in all, once the other end has closed.
    pub packets_in_all: u32,
    /// Replies sent.
    pub replies: u32,
}

impl Receiver {
    /// No packet refers to it any more, and none will.
    pub fn is_over(&self) -> bool {
        self.packets == self.packets_in_all
    }

    /// Takes down its state; of one that is over there is none.
    pub fn encode(&self, state: &mut Encoder) {
        let Self {
            rx,
            peer: _,
            src: _,
            nic: _,
            hash: _,
            class: _,
            transport: _,
            // A record of a flow with an end.
            received_at: _,
            since_told,
            watch_owd,
            packets: _,
            packets_in_all: _,
            replies: _,
        } = self;
        if self.is_over() {
            return;
        }
        if watch_owd.is_some() {
            state.refuse("delays of packets are recorded (measure.owd)");
        }
        rx.encode(state);
        state.word(*since_told);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sender_is_five_cache_lines() {
        // Eight bytes more cost a twentieth of the speed.
        assert_eq!(size_of::<Sender>(), 5 * 64);
    }
}
