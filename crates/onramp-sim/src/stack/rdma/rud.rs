//! Reliable unordered delivery (RUD) of Ultra Ethernet 1.0: packets arrive in any order, and each is acknowledged on
//! its own. A NACK says that a packet was trimmed, and it is retransmitted at once; one of which nothing is heard for a
//! retransmission timeout is retransmitted alone. Overtaken packets are not lost, so that paths may be sprayed.
//!
//! An acknowledgement carries the number of its packet in the field of the send time, which the sender remembers.

use onramp_config::Rule;
use onramp_config::units::{Ps, Span, US};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Reliable unordered delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Retransmission timeout of a packet; it does not double. Default 100 us (htsim's `DEFAULT_UEC_RTO_MIN`).
    pub rto: Span,
}

impl Default for Config {
    fn default() -> Self {
        Self { rto: Span(100 * US) }
    }
}

impl Config {
    pub(super) fn check(&self, rule: Rule<'_>) {
        let rto = self.rto;
        rule(rto >= Span(US), "recovery.rto", format!("{rto} is below 1us: such as \"100us\""));
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Flying,
    Arrived,
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Packet {
    /// When it was last sent.
    sent: Ps,
    /// Bytes on the wire.
    size: u16,
    last: bool,
    fate: Fate,
}

/// Sender's view of the packets from the first unacknowledged one on.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    packets: VecDeque<Packet>,
    /// Transmissions, the oldest first, of which the first is of a packet that flies.
    sent: VecDeque<(Ps, u32)>,
    lost: BTreeSet<u32>,
    /// Packets that fly: neither acknowledged nor known to be lost.
    pub flying: u32,
}

impl Flight {
    /// The next packet to retransmit.
    pub fn lost(&self) -> Option<u32> {
        self.lost.first().copied()
    }

    /// When a packet was last sent; `None` if it is acknowledged with all before it.
    pub fn sent_at(&self, seq: u32, acked: u32) -> Option<Ps> {
        self.packets.get(seq.checked_sub(acked)? as usize).map(|packet| packet.sent)
    }

    /// Time of the oldest transmission of which nothing was heard.
    pub fn oldest(&self) -> Option<Ps> {
        self.sent.front().map(|(at, _)| *at)
    }

    /// A new packet leaves.
    pub fn send(&mut self, seq: u32, size: u16, last: bool, now: Ps) {
        self.packets.push_back(Packet { sent: now, size, last, fate: Fate::Flying });
        self.sent.push_back((now, seq));
        self.flying += 1;
    }

    /// A lost packet leaves: its bytes on the wire, and true if it is the last of a message.
    pub fn retransmit(&mut self, seq: u32, acked: u32, now: Ps) -> (u16, bool) {
        self.lost.remove(&seq);
        let packet = &mut self.packets[(seq - acked) as usize];
        (packet.sent, packet.fate) = (now, Fate::Flying);
        let (size, last) = (packet.size, packet.last);
        self.sent.push_back((now, seq));
        self.flying += 1;
        (size, last)
    }

    /// Packet `came` was received, and all before `expected`: bytes on the wire and packets that are new.
    pub fn acknowledged(&mut self, came: u32, acked: u32, expected: u32) -> (u64, u32) {
        let (mut bytes, mut packets) = (0, 0);
        for seq in (acked..expected).chain(Some(came).filter(|came| *came >= acked.max(expected))) {
            let place = (seq - acked) as usize;
            let Some(packet) = self.packets.get_mut(place).filter(|packet| packet.fate != Fate::Arrived) else {
                continue;
            };
            self.flying -= u32::from(packet.fate == Fate::Flying);
            if packet.fate == Fate::Lost {
                self.lost.remove(&seq);
            }
            packet.fate = Fate::Arrived;
            bytes += u64::from(packet.size);
            packets += 1;
        }
        let acknowledged = expected.saturating_sub(acked) as usize;
        self.packets.drain(..acknowledged.min(self.packets.len()));
        self.forget(acked.max(expected));
        (bytes, packets)
    }

    /// Packet `seq` did not arrive; true if that is news.
    pub fn lose(&mut self, seq: u32, acked: u32) -> bool {
        let packet = seq.checked_sub(acked).and_then(|place| self.packets.get_mut(place as usize));
        let Some(packet) = packet.filter(|packet| packet.fate == Fate::Flying) else { return false };
        packet.fate = Fate::Lost;
        self.flying -= 1;
        self.lost.insert(seq);
        self.forget(acked);
        true
    }

    /// The oldest transmission has timed out.
    pub fn time_out(&mut self, acked: u32) {
        if let Some(&(_, seq)) = self.sent.front() {
            self.lose(seq, acked);
        }
    }

    /// Forgets transmissions up to the oldest of a packet that still flies.
    fn forget(&mut self, acked: u32) {
        while let Some(&(at, seq)) = self.sent.front() {
            let packet = seq.checked_sub(acked).and_then(|place| self.packets.get(place as usize));
            if packet.is_some_and(|packet| packet.fate == Fate::Flying && packet.sent == at) {
                break;
            }
            self.sent.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Kind, LAST, Recovered, Rx, Shape, TRIMMED, Tx};
    use super::*;
    use crate::cc::Loss;
    use crate::stack::{Rx as _, Tx as _};

    const RECOVERED: Recovered = Recovered::Unordered { rto: 100 * US };
    const SHAPE: Shape = Shape { payload: 1000, header: 64, rto: 100 * US, rto_doublings: 6, recovered: RECOVERED };

    fn sent(tx: &mut Tx, count: usize, now: Ps) -> Vec<(u32, bool)> {
        let next = |_| tx.ready().then(|| tx.send(now)).map(|segment| (segment.seq, segment.again));
        (0..count).map_while(next).collect()
    }

    #[test]
    fn a_trimmed_packet_alone_is_retransmitted_at_once_and_overtaken_ones_are_not() {
        let mut tx = Tx::new(&SHAPE, Some(100_000), 0);
        sent(&mut tx, 6, US);
        // Packets 1 to 3 are late, 4 and 5 have come.
        tx.on_reply(Kind::ACK, 1, 0, 2 * US);
        assert_eq!(tx.on_reply(Kind::ACK, 1, 4, 2 * US).newly_acked, 1000);
        assert_eq!((tx.on_reply(Kind::ACK, 1, 5, 2 * US).loss, tx.in_flight()), (None, 3000));
        let nack = tx.on_reply(Kind::NACK, 1, 2, 3 * US);
        assert_eq!((nack.loss, nack.newly_acked, tx.in_flight()), (Some(Loss::Fast), 0, 2000));
        // Told twice it is lost once.
        assert_eq!(tx.on_reply(Kind::NACK, 1, 2, 3 * US).loss, None);
        assert_eq!(sent(&mut tx, 2, 4 * US), [(2, true), (6, false)]);
        assert_eq!(tx.on_reply(Kind::ACK, 6, 3, 5 * US).newly_acked, 3000);
        assert_eq!((tx.acked(), tx.in_flight()), (6, 1000));
    }

    #[test]
    fn each_packet_times_out_on_its_own() {
        let mut tx = Tx::new(&SHAPE, Some(100_000), 0);
        assert_eq!(tx.deadline(), None);
        sent(&mut tx, 1, US);
        sent(&mut tx, 1, 5 * US);
        assert_eq!(tx.deadline(), Some(101 * US));
        tx.on_timeout(101 * US);
        assert_eq!((tx.deadline(), tx.in_flight()), (Some(105 * US), 1000));
        assert_eq!(sent(&mut tx, 1, 102 * US), [(0, true)]);
        // The packet that was sent later is acknowledged: the other's time counts from its retransmission.
        tx.on_reply(Kind::ACK, 0, 1, 103 * US);
        assert_eq!(tx.deadline(), Some(202 * US));
        // A packet that was believed lost and arrives is not retransmitted.
        tx.on_timeout(202 * US);
        assert_eq!(tx.on_reply(Kind::ACK, 2, 0, 203 * US).newly_acked, 1000);
        assert_eq!((tx.deadline(), tx.lost(), sent(&mut tx, 1, 204 * US)), (None, None, vec![(2, false)]));
    }

    #[test]
    fn a_retransmission_is_as_long_as_the_packet_was() {
        let mut tx = Tx::new(&SHAPE, Some(2300), 0);
        sent(&mut tx, 3, US);
        tx.on_reply(Kind::NACK, 0, 2, 2 * US);
        let again = tx.send(3 * US);
        assert_eq!((again.seq, again.size, again.flags), (2, 364, LAST));
        tx.on_reply(Kind::ACK, 2, 1, 4 * US);
        assert_eq!(tx.on_reply(Kind::ACK, 3, 2, 4 * US).newly_acked, 300);
        assert!(tx.done());
    }

    #[test]
    fn a_receiver_acknowledges_what_comes_and_asks_for_what_was_trimmed() {
        let mut rx = Rx::new(&SHAPE);
        assert_eq!(rx.on_data(2, 0, 0), Some((Kind::ACK, 0)));
        assert_eq!(rx.on_data(0, 0, 0), Some((Kind::ACK, 1)));
        assert_eq!(rx.on_data(1, TRIMMED, 0), Some((Kind::NACK, 1)));
        // Of what it has, the header is a copy.
        assert_eq!(rx.on_data(2, TRIMMED, 0), Some((Kind::ACK, 1)));
        assert_eq!(rx.on_data(0, TRIMMED, 0), Some((Kind::ACK, 1)));
        assert_eq!(rx.on_data(1, 0, 0), Some((Kind::ACK, 3)));
    }

    proptest::proptest! {
        /// Whatever is trimmed, lost or overtaken, in either direction, everything arrives.
        #[test]
        fn everything_arrives(bytes in 1u64..60_000, fate in proptest::collection::vec(0u8..10, 200..400)) {
            let mut tx = Tx::new(&SHAPE, Some(bytes), 0);
            let mut rx = Rx::new(&SHAPE);
            let (mut now, mut fate) = (0, fate.into_iter());
            let mut ways: Vec<(u32, u8)> = Vec::new();
            for _ in 0..10_000 {
                if tx.done() {
                    break;
                }
                now += US;
                if tx.ready() {
                    let segment = tx.send(now);
                    ways.push((segment.seq, segment.flags));
                } else if ways.is_empty() {
                    now = tx.deadline().expect("something is in flight").max(now);
                    tx.on_timeout(now);
                    continue;
                }
                let fate = fate.next().unwrap_or(9);
                match fate {
                    0 => drop(ways.pop()),
                    1 if ways.len() > 1 => {}
                    _ if ways.is_empty() => {}
                    _ => {
                        let place = if fate == 2 { ways.len() - 1 } else { 0 };
                        let (seq, flags) = ways.remove(place);
                        let flags = if fate == 3 { flags | TRIMMED } else { flags };
                        let (kind, expected) = rx.on_data(seq, flags, now).expect("an answer");
                        if fate != 4 {
                            tx.on_reply(kind, expected, seq, now);
                        }
                    }
                }
                proptest::prop_assert_eq!(tx.in_flight() > 0, tx.deadline().is_some());
            }
            assert!(tx.done(), "{tx:?} {rx:?}");
        }
    }
}
