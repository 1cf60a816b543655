//! Reliable unordered delivery (RUD) of Ultra Ethernet 1.0: packets arrive in any order, and overtaken ones are not
//! lost, so that paths may be sprayed. A NACK says that a packet was trimmed, and it is retransmitted at once; one of
//! which nothing is heard for a retransmission timeout is retransmitted alone.
//!
//! A packet is acknowledged if it is marked, a flow's first, the last of a message, a retransmission, or the last for
//! which the window has room, and otherwise after so many bytes (htsim's rules). An acknowledgement names its packet
//! and tells how many have arrived beyond the next expected one: both are in the field of the send time, which the
//! sender remembers. With On-Ramp each packet is acknowledged, since it is held by their delays.

use onramp_config::Rule;
use onramp_config::units::{Bytes, Ps, Span, US};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, VecDeque};

/// Reliable unordered delivery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Retransmission timeout of a packet; it does not double. Default 100 us (htsim's `DEFAULT_UEC_RTO_MIN`).
    pub rto: Span,
    /// Bytes on the wire after which a packet is acknowledged that nothing else has acknowledged; 1 B: each is. Default
    /// 16 KiB (htsim's `_bytes_unacked_threshold`).
    pub ack_bytes: Bytes,
}

impl Default for Config {
    fn default() -> Self {
        Self { rto: Span(100 * US), ack_bytes: Bytes(16_384) }
    }
}

/// An acknowledgement's packet and the number of packets beyond the next expected one, as 16 bits each.
pub(super) fn pack(came: u32, expected: u32, beyond: u32) -> u32 {
    let ahead = (i64::from(came) - i64::from(expected)).clamp(i16::MIN.into(), i16::MAX.into()) as i16;
    u32::from(ahead as u16) << 16 | beyond.min(0xffff)
}

/// The packet, and the number of all that have arrived.
pub fn unpack(word: u32, expected: u32) -> (u32, u32) {
    (expected.wrapping_add_signed(i32::from((word >> 16) as i16)), expected.saturating_add(word & 0xffff))
}

impl Config {
    pub(super) fn check(&self, rule: Rule<'_>) {
        let rto = self.rto;
        rule(rto >= Span(US), "recovery.rto", format!("{rto} is below 1us: such as \"100us\""));
        let bytes = self.ack_bytes;
        let fits = (Bytes(1)..=Bytes(1 << 20)).contains(&bytes);
        rule(fits, "recovery.ack_bytes", format!("{bytes} is outside 1B to 1MiB: such as \"16KiB\""));
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
    /// Packets known to have arrived, in all.
    delivered: u32,
}

impl Flight {
    /// Takes down its state with nothing in flight.
    pub fn encode(&self, state: &mut Encoder) {
        let Self { packets, sent, lost, delivered: _ } = self;
        if !packets.is_empty() || !sent.is_empty() || !lost.is_empty() {
            state.busy();
        }
    }

    /// The next packet to retransmit.
    pub fn lost(&self) -> Option<u32> {
        self.lost.first().copied()
    }

    /// Number of packets to retransmit.
    pub fn lost_packets(&self) -> u64 {
        self.lost.len() as u64
    }

    /// Packets of `sent` ones that are neither known to have arrived nor to be lost.
    #[inline]
    pub fn flying(&self, sent: u32) -> u32 {
        (sent - self.delivered).saturating_sub(self.lost.len() as u32)
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
    }

    /// A lost packet leaves: its bytes on the wire, and true if it is the last of a message.
    pub fn retransmit(&mut self, seq: u32, acked: u32, now: Ps) -> (u16, bool) {
        self.lost.remove(&seq);
        let packet = &mut self.packets[(seq - acked) as usize];
        (packet.sent, packet.fate) = (now, Fate::Flying);
        let (size, last) = (packet.size, packet.last);
        self.sent.push_back((now, seq));
        (size, last)
    }

    /// Packet `came` was received, all before `expected`, and so many `in_all`: the number of them that is news.
    pub fn acknowledged(&mut self, came: u32, acked: u32, expected: u32, in_all: u32) -> u32 {
        for seq in (acked..expected).chain(Some(came).filter(|came| *came >= acked.max(expected))) {
            let place = (seq - acked) as usize;
            let Some(packet) = self.packets.get_mut(place).filter(|packet| packet.fate != Fate::Arrived) else {
                continue;
            };
            if packet.fate == Fate::Lost {
                self.lost.remove(&seq);
            }
            packet.fate = Fate::Arrived;
        }
        let acknowledged = expected.saturating_sub(acked) as usize;
        self.packets.drain(..acknowledged.min(self.packets.len()));
        self.forget(acked.max(expected));
        let news = in_all.saturating_sub(self.delivered);
        self.delivered += news;
        news
    }

    /// Packets before `came` that have arrived: bit i is for the packet i + 1 before it.
    pub fn arrived(&mut self, came: u32, before: u32, acked: u32) {
        for i in (0..32).filter(|i| before >> i & 1 == 1) {
            let Some(seq) = came.checked_sub(i + 1).filter(|seq| *seq >= acked) else { continue };
            if let Some(packet) = self.packets.get_mut((seq - acked) as usize) {
                packet.fate = Fate::Arrived;
                self.lost.remove(&seq);
            }
        }
    }

    /// Packet `seq` did not arrive; true if that is news.
    pub fn lose(&mut self, seq: u32, acked: u32) -> bool {
        let packet = seq.checked_sub(acked).and_then(|place| self.packets.get_mut(place as usize));
        let Some(packet) = packet.filter(|packet| packet.fate == Fate::Flying) else { return false };
        packet.fate = Fate::Lost;
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
    use super::super::tests::everything_arrives;
    use super::super::{Kind, LAST, Progress, Recovered, Rx, Shape, TRIMMED, Tx};
    use super::*;
    use crate::cc::Loss;
    use crate::network::packet::{ACK_REQUEST, MARKED};
    use crate::stack::{Rx as _, Tx as _};

    const RECOVERED: Recovered = Recovered::Unordered { rto: 100 * US, ack_every: 4 };
    const SHAPE: Shape = Shape { payload: 1000, header: 64, rto: 100 * US, rto_doublings: 6, recovered: RECOVERED };

    /// An acknowledgement of `came`, with so many beyond the next expected one.
    fn ack(tx: &mut Tx, expected: u32, came: u32, beyond: u32, now: Ps) -> Progress {
        tx.on_reply(Kind::ACK, expected, pack(came, expected, beyond), now)
    }

    fn nack(tx: &mut Tx, expected: u32, came: u32, now: Ps) -> Progress {
        tx.on_reply(Kind::NACK, expected, pack(came, expected, 0), now)
    }

    fn sent(tx: &mut Tx, count: usize, now: Ps) -> Vec<(u32, bool)> {
        let next = |_| tx.ready().then(|| tx.send(now)).map(|segment| (segment.seq, segment.again));
        (0..count).map_while(next).collect()
    }

    #[test]
    fn a_trimmed_packet_alone_is_retransmitted_at_once_and_overtaken_ones_are_not() {
        let mut tx = Tx::new(&SHAPE, Some(100_000), 0);
        sent(&mut tx, 6, US);
        // Packets 1 to 3 are late, 4 and 5 have come.
        ack(&mut tx, 1, 0, 0, 2 * US);
        // One acknowledgement for both.
        assert_eq!((ack(&mut tx, 1, 5, 2, 2 * US).newly_acked, tx.in_flight()), (2000, 3000));
        let told = nack(&mut tx, 1, 2, 3 * US);
        assert_eq!((told.loss, told.newly_acked, tx.in_flight()), (Some(Loss::Fast), 0, 2000));
        // Told twice it is lost once.
        assert_eq!(nack(&mut tx, 1, 2, 3 * US).loss, None);
        assert_eq!(sent(&mut tx, 2, 4 * US), [(2, true), (6, false)]);
        assert_eq!(ack(&mut tx, 6, 3, 0, 5 * US).newly_acked, 3000);
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
        ack(&mut tx, 0, 1, 1, 103 * US);
        assert_eq!(tx.deadline(), Some(202 * US));
        // A packet that was believed lost and arrives is not retransmitted.
        tx.on_timeout(202 * US);
        assert_eq!(ack(&mut tx, 2, 0, 0, 203 * US).newly_acked, 1000);
        assert_eq!((tx.deadline(), tx.lost(), sent(&mut tx, 1, 204 * US)), (None, None, vec![(2, false)]));
    }

    #[test]
    fn a_retransmission_is_as_long_as_the_packet_was() {
        let mut tx = Tx::new(&SHAPE, Some(2300), 0);
        sent(&mut tx, 3, US);
        nack(&mut tx, 0, 2, 2 * US);
        let again = tx.send(3 * US);
        assert_eq!((again.seq, again.size, again.flags), (2, 364, LAST | ACK_REQUEST));
        ack(&mut tx, 2, 1, 0, 4 * US);
        assert_eq!(ack(&mut tx, 3, 2, 0, 4 * US).newly_acked, 300);
        assert!(tx.done());
    }

    #[test]
    fn a_receiver_acknowledges_so_many_packets_together_and_some_at_once() {
        let mut rx = Rx::new(&SHAPE);
        let mut told = |seq, flags| rx.on_data(seq, flags, 0).map(|(_, expected)| expected);
        // The first, and each fourth.
        assert_eq!([0, 1, 2, 3, 4, 5].map(|seq| told(seq, 0)), [Some(1), None, None, None, Some(5), None]);
        assert_eq!([told(6, MARKED), told(8, ACK_REQUEST), told(9, 0)], [Some(7), Some(7), None]);
        // One was asked for, and nothing is missing any more.
        assert_eq!([told(7, 0), told(10, 0)], [Some(10), None]);
        // The last of a message overtakes another: once that has come, all is told.
        assert_eq!([told(12, LAST), told(11, 0)], [Some(11), Some(13)]);
        assert_eq!(unpack(rx.told(9), 13), (9, 13));
        rx.on_data(15, 0, 0);
        assert_eq!(unpack(rx.told(15), 13), (15, 14));
    }

    #[test]
    fn packets_before_that_have_arrived_do_not_time_out() {
        let (mut tx, mut rx) = (Tx::new(&SHAPE, Some(100_000), 0), Rx::new(&SHAPE));
        sent(&mut tx, 6, US);
        // Packet 0 is missing; 3 is acknowledged, and 1 and 2 with it.
        for seq in [1, 2, 5] {
            rx.on_data(seq, 0, US);
        }
        assert_eq!(rx.on_data(3, ACK_REQUEST, US), Some((Kind::ACK, 0)));
        assert_eq!(rx.before(3), 0b11);
        tx.arrived(rx.told(3), 0, rx.before(3));
        tx.on_reply(Kind::ACK, 0, rx.told(3), 2 * US);
        let timed_out: Vec<u32> = std::iter::from_fn(|| {
            tx.deadline()?;
            tx.on_timeout(101 * US);
            tx.ready().then(|| tx.send(101 * US).seq)
        })
        .take(3)
        .collect();
        assert_eq!(timed_out, [0, 4, 5]);
    }

    #[test]
    fn a_packet_for_which_nothing_was_heard_for_a_quarter_of_its_timeout_asks_for_an_acknowledgement() {
        let mut tx = Tx::new(&SHAPE, Some(100_000), 0);
        let flags = [0, 25, 26].map(|at| tx.send(at * US).flags);
        assert_eq!(flags, [0, 0, ACK_REQUEST]);
    }

    #[test]
    fn a_receiver_asks_for_what_was_trimmed() {
        let mut rx = Rx::new(&SHAPE);
        rx.on_data(2, 0, 0);
        rx.on_data(0, 0, 0);
        assert_eq!(rx.on_data(1, TRIMMED, 0), Some((Kind::NACK, 1)));
        // Of what it has, the header is a copy.
        assert_eq!(rx.on_data(2, TRIMMED, 0), Some((Kind::ACK, 1)));
        assert_eq!(rx.on_data(0, TRIMMED, 0), Some((Kind::ACK, 1)));
        assert_eq!(rx.on_data(1, ACK_REQUEST, 0), Some((Kind::ACK, 3)));
    }

    proptest::proptest! {
        /// Whatever is trimmed, lost or overtaken, in either direction, everything arrives.
        #[test]
        fn whatever_is_trimmed_everything_arrives(bytes in 1u64..60_000, fate in proptest::collection::vec(0u8..10, 200..400)) {
            everything_arrives(&SHAPE, bytes, fate, |tx, rx, ways, fate, now| {
                let place = if fate == 2 { ways.len() - 1 } else { 0 };
                let (seq, flags) = ways.remove(place);
                let flags = if fate == 3 { flags | TRIMMED } else { flags };
                let told = rx.on_data(seq, flags, now);
                if let Some((kind, expected)) = told.filter(|_| fate != 4) {
                    tx.arrived(rx.told(seq), expected, rx.before(seq));
                    tx.on_reply(kind, expected, rx.told(seq), now);
                }
            });
        }
    }
}
