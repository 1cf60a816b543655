//! Selective repeat: what was received is said packet by packet, and only what is lost is retransmitted, after IRN
//! (Mittal et al., *Revisiting Network Support for RDMA*, SIGCOMM'18, §3).
//!
//! A NACK says the next expected packet and the one that has come instead. The sender then recovers: the first
//! unacknowledged packet is lost, and any other below one that was received. New packets follow once what is lost was
//! retransmitted, and recovery ends with the acknowledgement of all that was sent before it. Packets in flight are
//! bounded by the bandwidth-delay product (BDP-FC).

use onramp_config::Rule;
use onramp_config::units::{Ps, Span, US};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Selective repeat with IRN's values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Retransmission timeout with few packets in flight. Default 100 us (§4.1).
    pub rto_low: Span,
    /// Retransmission timeout with more of them. Default 320 us (§4.1).
    pub rto_high: Span,
    /// Few are so many. Default 3 (§4.1).
    pub few: u32,
    /// Packets that may overtake one before it counts as lost, where paths are sprayed. Default 0, IRN's.
    pub reorder: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self { rto_low: Span(100 * US), rto_high: Span(320 * US), few: 3, reorder: 0 }
    }
}

impl Config {
    pub(super) fn check(&self, rule: Rule<'_>) {
        let Self { rto_low, rto_high, .. } = *self;
        rule(rto_low >= Span(US), "recovery.rto_low", format!("{rto_low} is below 1us: such as \"100us\""));
        let message = format!("{rto_high} is below rto_low, {rto_low}");
        rule(rto_high >= rto_low, "recovery.rto_high", message);
    }
}

/// Values that flows of a transport share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// See [`Config`] [ps].
    pub rto_low: Ps,
    /// See [`Config`].
    pub few: u32,
    /// Packets in flight at most: BDP-FC.
    pub cap: u32,
    /// See [`Config`].
    pub reorder: u32,
}

/// Sender's view of the packets in flight.
#[derive(Clone, Debug)]
pub(super) struct Scoreboard {
    pub params: Params,
    /// Receipt of each packet from the first unacknowledged one on.
    received: VecDeque<bool>,
    /// A packet at or beyond this one was not seen to arrive; of those before, what is missing is lost.
    highest: u32,
    /// Lost packets before this one were retransmitted.
    again: u32,
    /// Recovery ends when all packets before this one are acknowledged.
    recovery: Option<u32>,
    /// This one is lost whatever has come: it has timed out.
    timed_out: Option<u32>,
}

impl Scoreboard {
    pub fn new(params: Params) -> Self {
        Self { params, received: VecDeque::new(), highest: 0, again: 0, recovery: None, timed_out: None }
    }

    /// The next packet to retransmit.
    pub fn lost(&self, acked: u32) -> Option<u32> {
        let end = self.recovery?;
        let from = self.again.max(acked);
        let seen = self.highest.saturating_sub(self.params.reorder);
        let first = self.params.reorder == 0 || acked < seen || self.timed_out == Some(acked);
        if from == acked && acked < end && first {
            return Some(acked);
        }
        (from..seen).find(|seq| !self.received.get((seq - acked) as usize).copied().unwrap_or(false))
    }

    /// Packet `seq` is retransmitted.
    pub fn retransmitted(&mut self, seq: u32) {
        self.again = seq + 1;
    }

    /// Acknowledgements have moved from `before` to `acked`.
    pub fn acknowledged(&mut self, before: u32, acked: u32) {
        let gone = self.received.len().min((acked - before) as usize);
        self.received.drain(..gone);
        if self.recovery.is_some_and(|end| acked >= end) {
            self.recovery = None;
        }
    }

    /// Packet `seq` was received before the first unacknowledged one; true if a recovery begins.
    pub fn selectively(&mut self, seq: u32, acked: u32, next: u32) -> bool {
        if seq <= acked {
            return false;
        }
        let place = (seq - acked) as usize;
        self.received.resize(self.received.len().max(place + 1), false);
        self.received[place] = true;
        self.highest = self.highest.max(seq);
        let begins = self.recovery.is_none() && place > self.params.reorder as usize;
        if begins {
            // What was retransmitted in the recovery before may still be on its way.
            self.recovery = Some(next);
        }
        begins
    }

    /// After a timeout what is lost is retransmitted from the first unacknowledged packet on.
    pub fn recover(&mut self, acked: u32, next: u32) {
        self.recovery = Some(next);
        self.again = acked;
        self.timed_out = Some(acked);
    }
}

/// Receiver's packets beyond the next expected one.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    there: VecDeque<bool>,
    /// How many of them there are.
    pub count: u32,
}

impl Received {
    /// Packet `seq` has come while `expected` is missing.
    pub fn beyond(&mut self, seq: u32, expected: u32) {
        let place = (seq - expected - 1) as usize;
        self.there.resize(self.there.len().max(place + 1), false);
        self.count += u32::from(!self.there[place]);
        self.there[place] = true;
    }

    /// True if packet `seq` has come, and `expected` is missing.
    pub fn has(&self, seq: u32, expected: u32) -> bool {
        seq > expected && self.there.get((seq - expected - 1) as usize).copied().unwrap_or(false)
    }

    /// The expected packet has come: how many are in order with it.
    pub fn in_order(&mut self) -> u32 {
        let mut count = 1;
        while let Some(there) = self.there.pop_front() {
            if !there {
                break;
            }
            count += 1;
        }
        self.count -= count - 1;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::everything_arrives;
    use super::super::{Kind, LAST, Recovered, Rx, Shape, Tx};
    use super::*;
    use crate::cc::Loss;
    use crate::stack::{Rx as _, Tx as _};

    const PARAMS: Params = Params { rto_low: 100 * US, few: 3, cap: 20, reorder: 0 };
    const RECOVERED: Recovered = Recovered::Selectively(PARAMS);
    const SHAPE: Shape = Shape { payload: 1000, header: 48, rto: 320 * US, rto_doublings: 6, recovered: RECOVERED };

    fn nack(tx: &mut Tx, expected: u32, came: u32) -> Option<Loss> {
        tx.on_reply(Kind::NACK, expected, came, US).loss
    }

    fn sent(tx: &mut Tx, count: usize) -> Vec<(u32, bool)> {
        let next = |_| tx.ready().then(|| tx.send(US)).map(|segment| (segment.seq, segment.again));
        (0..count).map_while(next).collect()
    }

    #[test]
    fn only_what_is_lost_is_sent_again() {
        let mut tx = Tx::new(&SHAPE, Some(100_000), 0);
        sent(&mut tx, 8);
        // Packets 2 and 5 are lost; 3, 4, 6 and 7 arrive.
        tx.on_reply(Kind::ACK, 2, 2, US);
        assert_eq!(nack(&mut tx, 2, 3), Some(Loss::Fast));
        assert_eq!(sent(&mut tx, 1), [(2, true)]);
        assert_eq!([nack(&mut tx, 2, 4), nack(&mut tx, 2, 6)], [None; 2]);
        assert_eq!(sent(&mut tx, 3), [(5, true), (8, false), (9, false)]);
        assert_eq!(nack(&mut tx, 2, 7), None);
        // The first one has arrived: all up to 5 has.
        assert_eq!(tx.on_reply(Kind::ACK, 5, 5, US).newly_acked, 3000);
        assert_eq!(sent(&mut tx, 1), [(10, false)]);
        // Recovery is over when what was sent before it is acknowledged; then another may begin.
        tx.on_reply(Kind::ACK, 8, 8, US);
        assert_eq!(nack(&mut tx, 8, 9), Some(Loss::Fast));
        assert_eq!(sent(&mut tx, 1), [(8, true)]);
    }

    #[test]
    fn packets_may_overtake_each_other_by_so_many() {
        let recovered = Recovered::Selectively(Params { reorder: 3, ..PARAMS });
        let mut tx = Tx::new(&Shape { recovered, ..SHAPE }, Some(100_000), 0);
        sent(&mut tx, 8);
        // Packet 0 is late: three overtake it, and nothing is lost.
        assert_eq!([1, 2, 3].map(|came| nack(&mut tx, 0, came)), [None; 3]);
        assert_eq!(sent(&mut tx, 1), [(8, false)]);
        // A fourth one tells that it is lost; of the later ones nothing is known yet.
        assert_eq!(nack(&mut tx, 0, 4), Some(Loss::Fast));
        assert_eq!(sent(&mut tx, 2), [(0, true), (9, false)]);
        // It has arrived: 5 is not lost before another four have come.
        tx.on_reply(Kind::ACK, 5, 5, US);
        assert_eq!([6, 7, 8].map(|came| nack(&mut tx, 5, came)), [None; 3]);
        assert_eq!(sent(&mut tx, 1), [(10, false)]);
        tx.on_timeout(400 * US);
        assert_eq!(sent(&mut tx, 1), [(5, true)]);
    }

    #[test]
    fn packets_in_flight_are_bounded() {
        let mut tx = Tx::new(&SHAPE, Some(100_000), 0);
        assert_eq!(sent(&mut tx, 100).len(), 20);
        tx.on_reply(Kind::ACK, 3, 3, US);
        assert_eq!(sent(&mut tx, 100).len(), 3);
    }

    #[test]
    fn few_packets_in_flight_time_out_sooner_and_the_first_is_sent_again() {
        let mut tx = Tx::new(&SHAPE, Some(100_000), 0);
        sent(&mut tx, 3);
        assert_eq!(tx.deadline(), Some(101 * US));
        sent(&mut tx, 1);
        assert_eq!(tx.deadline(), Some(321 * US));
        tx.on_timeout(321 * US);
        assert_eq!(sent(&mut tx, 2), [(0, true), (4, false)]);
    }

    #[test]
    fn a_receiver_keeps_what_comes_out_of_order() {
        let mut rx = Rx::new(&SHAPE);
        assert_eq!(rx.on_data(0, 0, 0), Some((Kind::ACK, 1)));
        for seq in [2, 3, 5] {
            assert_eq!(rx.on_data(seq, 0, 0), Some((Kind::NACK, 1)));
        }
        assert_eq!(rx.on_data(1, 0, 0), Some((Kind::ACK, 4)));
        // A copy is acknowledged, since an acknowledgement may have been lost.
        assert_eq!(rx.on_data(2, 0, 0), Some((Kind::ACK, 4)));
        assert_eq!(rx.on_data(4, LAST, 0), Some((Kind::ACK, 6)));
    }

    proptest::proptest! {
        /// Whatever is lost and however packets overtake each other, everything arrives once the network lets it.
        #[test]
        fn whatever_is_lost_everything_arrives(bytes in 1u64..60_000, reorder in 0u32..6, fate in proptest::collection::vec(0u8..10, 200..400)) {
            let shape = Shape { recovered: Recovered::Selectively(Params { reorder, ..PARAMS }), ..SHAPE };
            everything_arrives(&shape, bytes, fate, |tx, rx, ways, _, now| {
                let (seq, flags) = ways.remove(0);
                if let Some((kind, expected)) = rx.on_data(seq, flags, now) {
                    tx.on_reply(kind, expected, seq, now);
                }
            });
        }
    }
}
