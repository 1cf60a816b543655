//! Both halves over a path that loses, delays and reorders.

use super::rx::Data;
use super::tx::send::{OVERHEAD, Segment, Stamped};
use super::{Opened, Params, Reply, Rx, Tx};
use crate::cc::tcp::any::Config;
use onramp_config::units::{MS, Ps, SEC, US};
use rand_pcg::Pcg64Mcg;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A path with a drop-tail queue, both ends of a connection, and what is under way.
struct Path {
    p: Params,
    tx: Tx,
    rx: Rx,
    now: Ps,
    /// By time and number: packets there, acknowledgements back.
    data: BinaryHeap<Reverse<(Ps, u64)>>,
    replies: BinaryHeap<Reverse<(Ps, u64)>>,
    packets: Vec<Data>,
    answers: Vec<Reply>,
    /// Nanoseconds for a packet, and until when the link is busy; packets that may wait.
    slot: Ps,
    free: Ps,
    room: u64,
    random: Pcg64Mcg,
    /// Shares of packets, of 1000, that are lost, and that take a while longer; and how much.
    lost: u32,
    late: u32,
    late_by: Ps,
    /// Numbers of packets that are lost in any case.
    lose: Vec<usize>,
    dropped: u32,
    complete: Option<Ps>,
    sent: Vec<(Ps, Segment)>,
}

const DELAY: Ps = 20 * US;

impl Path {
    fn new(cc: &Config, seed: u64) -> Self {
        let p = Params::default();
        let (rtt_us, marks) = ((2 * DELAY / US) as u32, false);
        Self {
            tx: Tx::new(&p, cc, false, Opened::at_once(rtt_us), 0, seed),
            rx: Rx::new(&p, rtt_us, marks),
            p,
            now: 0,
            data: BinaryHeap::new(),
            replies: BinaryHeap::new(),
            packets: Vec::new(),
            answers: Vec::new(),
            slot: 1_200_000,
            free: 0,
            room: 1000,
            random: onramp_random::stream(seed, "path", 0),
            lost: 0,
            late: 0,
            late_by: 0,
            lose: vec![],
            dropped: 0,
            complete: None,
            sent: vec![],
        }
    }

    fn happens(&mut self, of_1000: u32) -> bool {
        onramp_random::below(&mut self.random, 1000) < of_1000
    }

    fn hand(&mut self, segments: &mut Vec<Segment>) {
        let mss = u64::from(self.p.mss);
        for segment in segments.drain(..) {
            self.sent.push((self.now, segment));
            let mut start = segment.start;
            while start < segment.end {
                let end = segment.end.min(start + mss);
                let number = self.packets.len();
                let push = segment.push && end == segment.end;
                let expected = self.tx.written();
                let stamp_ms = Tx::stamp_ms(self.now);
                self.packets.push(Data { start, end, push, marked: false, stamp_ms, echo_ms: stamp_ms, expected });
                if end == segment.end {
                    self.tx.released(segment.memory(), end);
                }
                start = end;
                let waiting = self.free.saturating_sub(self.now) / self.slot;
                if waiting >= self.room || self.lose.contains(&number) || self.happens(self.lost) {
                    self.dropped += 1;
                    continue;
                }
                self.free = self.free.max(self.now) + self.slot;
                let late = if self.happens(self.late) { self.late_by } else { 0 };
                self.data.push(Reverse((self.free + DELAY + late, number as u64)));
            }
        }
    }

    fn run(&mut self, bytes: u64) {
        let mut out = Vec::new();
        self.tx.write(&self.p, self.now, bytes, u64::MAX / 2);
        self.tx.transmit(&self.p, self.now, &mut out);
        self.hand(&mut out);
        self.complete = None;
        let mut events = 0;
        while !self.tx.idle() {
            events += 1;
            assert!(events < 1_000_000, "it goes round in circles at {} ns: {:?}", self.now / 1000, self.tx);
            let due = |heap: &BinaryHeap<Reverse<(Ps, u64)>>| heap.peek().map(|e| e.0.0);
            let paced = self.tx.paced_until(self.now);
            let times = [due(&self.data), due(&self.replies), self.tx.deadline(), paced, self.rx.deadline()];
            self.now = times
                .into_iter()
                .flatten()
                .min()
                .unwrap_or_else(|| panic!("nothing is to come: {:?} {:?}", self.tx, self.rx))
                .max(self.now);
            assert!(self.now < 600 * SEC, "it does not end");
            let mut said = None;
            if due(&self.data).is_some_and(|at| at <= self.now) {
                let Reverse((_, number)) = self.data.pop().expect("it is due");
                said = Some(self.rx.on_data(&self.p, self.now, &self.packets[number as usize].clone()));
            } else if due(&self.replies).is_some_and(|at| at <= self.now) {
                let Reverse((_, number)) = self.replies.pop().expect("it is due");
                self.tx.on_reply(&self.p, self.now, &self.answers[number as usize].clone());
                self.tx.transmit(&self.p, self.now, &mut out);
            } else if self.rx.deadline().is_some_and(|at| at <= self.now) {
                said = Some(self.rx.on_timer(&self.p, self.now));
            } else {
                self.tx.on_timer(&self.p, self.now, &mut out);
                if self.tx.pace_ends(self.now) {
                    self.tx.transmit(&self.p, self.now, &mut out);
                }
            }
            self.hand(&mut out);
            if let Some(said) = said {
                if said.complete {
                    self.complete = Some(self.now);
                }
                for reply in said.replies() {
                    self.answers.push(reply);
                    if !self.happens(self.lost) {
                        self.replies.push(Reverse((self.now + DELAY, self.answers.len() as u64 - 1)));
                    }
                }
            }
            self.tx.check();
        }
        assert_eq!(self.rx.nxt(), self.tx.written());
        assert!(self.complete.is_some(), "the application had it all");
    }
}

/// Those that had been sent before.
fn again(sent: &[(Ps, Segment)]) -> Vec<(Ps, Segment)> {
    let mut highest = 0;
    let mut found = Vec::new();
    for &(at, segment) in sent {
        if segment.start < highest {
            found.push((at, segment));
        }
        highest = highest.max(segment.end);
    }
    found
}

fn controllers() -> Vec<Config> {
    vec![
        Config::NewReno(Default::default()),
        Config::Cubic(Default::default()),
        Config::Bbr(Default::default()),
        Config::Vegas(Default::default()),
        Config::DctcpTcp(Default::default()),
    ]
}

#[test]
fn whatever_is_lost_late_or_out_of_order_everything_arrives() {
    for cc in controllers() {
        for seed in 0..40 {
            let mut path = Path::new(&cc, seed);
            path.room = 5 + seed * 7;
            path.lost = [0, 5, 30, 150][seed as usize % 4];
            path.late = [0, 0, 20, 100][seed as usize / 4 % 4];
            path.late_by = [5, 30, 400][seed as usize % 3] * US;
            for bytes in [1, 1000, 14_480, 300_000, 5, 2_000_000] {
                path.run(bytes);
                // Now and then the connection is idle for long.
                path.now += [0, 100 * US, 300 * MS][bytes as usize % 3];
            }
        }
    }
}

#[test]
fn segments_of_several_packets_end_with_a_mark() {
    let mut path = Path::new(&controllers()[0], 1);
    path.run(300_000);
    let (several, single): (Vec<_>, Vec<_>) = path.sent.iter().partition(|(_, s)| s.end - s.start > 1448);
    assert!(several.len() > 5 && several.iter().all(|(_, s)| s.push));
    assert!(single.iter().all(|(_, s)| !s.push || s.end == 300_000), "{single:?}");
}

#[test]
fn one_loss_is_repaired_in_a_round_trip() {
    let mut path = Path::new(&controllers()[0], 1);
    path.lose = vec![20];
    path.run(1_000_000);
    let again = again(&path.sent);
    assert_eq!(again.len(), 1, "{again:?}");
    assert_eq!((again[0].1.end - again[0].1.start, path.tx.timeouts), (1448, 0));
    assert_eq!(again[0].1.start, 20 * 1448);
}

#[test]
fn holes_in_a_segment_are_repaired_at_once_though_its_end_is_lost() {
    let mut path = Path::new(&controllers()[0], 1);
    // A connection with a window of 43 packets or more sends 42 in one segment.
    path.run(1_000_000);
    let (first, begun, before) = (path.packets.len(), path.now, path.sent.len());
    path.lose = vec![first + 5, first + 7, first + 9, first + 41];
    path.run(42 * 1448);
    assert_eq!(path.sent[before].1.end - path.sent[before].1.start, 42 * 1448);
    let again: Vec<Ps> = again(&path.sent[before..]).iter().map(|(at, _)| *at - begun).collect();
    // Holes are repaired once SACKs tell of them; then the end is found out, by RACK or by a probe.
    assert!(again.len() == 4 && again[2] < 200 * US && path.tx.timeouts == 0, "{again:?}");
    assert!(path.now - begun < 10 * MS);
}

#[test]
fn an_or_ack_for_what_is_sent_again_is_ambiguous_unless_its_stamp_is_new() {
    // A packet alone and three copies, each after more than 100 ms, when its stamp is forgotten.
    let mut path = Path::new(&controllers()[0], 1);
    path.lose = (0..3).collect();
    path.run(1000);
    let stamped: Vec<Stamped> = path.sent.iter().map(|(_, s)| s.stamped).collect();
    assert_eq!(stamped, [Stamped::Never; 4]);

    // The end of a segment left with a push, which has a stamp; what is inside did not.
    let mut path = Path::new(&controllers()[0], 1);
    path.run(1_000_000);
    let (first, before) = (path.packets.len(), path.sent.len());
    path.lose = vec![first + 5, first + 6, first + 41];
    path.run(42 * 1448);
    let again: Vec<Segment> = again(&path.sent[before..]).iter().map(|(_, s)| *s).collect();
    let end = path.sent[before].1.end;
    assert!(again.len() >= 2 && again.iter().any(|s| s.end == end), "{again:?}");
    for segment in again {
        let expected = if segment.end == end { Stamped::ToTheEnd } else { Stamped::Inside };
        assert_eq!(segment.stamped, expected, "{segment:?}");
        assert!(segment.is_ambiguous(false));
        assert!(Segment { push: false, ..segment }.is_ambiguous(true));
        assert_eq!(Segment { push: true, ..segment }.is_ambiguous(true), expected == Stamped::ToTheEnd);
    }
}

#[test]
fn a_lost_tail_is_probed_for_and_not_timed_out() {
    let mut path = Path::new(&controllers()[0], 1);
    // The last three of 100.
    path.lose = vec![97, 98, 99];
    path.run(100 * 1448);
    let sent: Vec<_> = path.sent.iter().rev().take(6).map(|(at, s)| (at / US, s.start / 1448, s.end / 1448)).collect();
    assert_eq!(path.tx.timeouts, 0, "{sent:?} {:?}", path.answers.last());
    // The probe is two round trips and 2 to 4 ms after the last packet; what is missing follows at once.
    let probe = again(&path.sent)[0];
    let last = path.sent.iter().find(|(_, s)| s.end == 100 * 1448).expect("all is sent");
    assert!((2 * MS..5 * MS).contains(&(probe.0 - last.0)), "{}", probe.0 - last.0);
    assert!(path.now < probe.0 + 10 * MS);
}

#[test]
fn timeouts_back_off_and_the_floor_is_200_ms() {
    let mut path = Path::new(&controllers()[0], 1);
    // The first packet and its copies: the probe, then three timeouts.
    path.lose = (0..5).collect();
    path.run(1000);
    let times: Vec<Ps> = path.sent.iter().map(|(at, _)| at / MS).collect();
    assert_eq!(times.len(), 6, "{times:?}");
    let gaps: Vec<Ps> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert!((200..=217).contains(&gaps[0]), "{gaps:?}");
    for (gap, least) in gaps[2..].iter().zip([402, 804, 1608]) {
        // The wheel's precision is an eighth.
        assert!((least..least * 9 / 8 + 10).contains(gap), "{gaps:?}");
    }
}

#[test]
fn after_two_lost_openings_the_first_window_is_one_packet() {
    for (opened, packets) in [
        (Opened { resent: 2, ..Opened::at_once(1000) }, 1),
        (Opened { resent: 2, needlessly: true, ..Opened::at_once(1000) }, 10),
        (Opened { resent: 1, ..Opened::at_once(1000) }, 10),
    ] {
        let mut path = Path::new(&controllers()[0], 1);
        path.tx = Tx::new(&path.p, &controllers()[0], false, opened, 0, 1);
        path.run(100_000);
        let at_once = path.sent.iter().filter(|(at, _)| *at == 0).map(|(_, s)| s.end).max();
        assert_eq!((at_once, path.tx.resent), (Some(packets * 1448), opened.resent), "{opened:?}");
    }
}

#[test]
fn packets_out_of_order_are_no_loss_for_long() {
    let mut path = Path::new(&controllers()[1], 3);
    path.late = 10;
    path.late_by = 3 * US;
    path.run(20_000_000);
    let again = again(&path.sent).len();
    assert!(again <= 5 && path.tx.timeouts == 0, "{again} resent");
}

#[test]
fn a_window_that_is_idle_for_long_starts_anew() {
    let mut path = Path::new(&controllers()[0], 1);
    path.run(3_000_000);
    let before = path.tx.window.cwnd;
    path.now += 250 * MS;
    path.run(1);
    assert!(before > 20 && path.tx.window.cwnd < before, "{before}, {}", path.tx.window.cwnd);
}

#[test]
fn what_arrives_beyond_many_holes_is_told_before_it_is_forgotten() {
    let p = Params::default();
    let mss = u64::from(p.mss);
    let mut rx = Rx::new(&p, 1000, false);
    let packet = |number: u64| Data {
        start: number * mss,
        end: (number + 1) * mss,
        push: false,
        marked: false,
        stamp_ms: 0,
        echo_ms: 0,
        expected: 20 * mss,
    };
    let mut told = std::collections::BTreeSet::new();
    let mut acknowledgements = 0;
    // 20 in order, until they are no longer acknowledged one by one; then every second is missing.
    for (i, number) in (0..20).chain((21..121).step_by(2)).enumerate() {
        for reply in rx.on_data(&p, i as Ps * US, &packet(number)).replies() {
            acknowledgements += u32::from(number > 20);
            told.extend(reply.blocks.into_iter().filter(|block| block.1 > block.0));
        }
    }
    // Of the last ones the next packet or the timer would tell.
    assert!(told.len() >= 48, "{}", told.len());
    assert!(acknowledgements < 50, "some are left out: {acknowledgements}");
}

#[test]
fn what_is_lost_is_sent_again_and_little_else() {
    // Ten packets in a microsecond, so that much has the same time; of some, every second is lost.
    for first in [2000, 5000, 9000] {
        let mut path = Path::new(&controllers()[1], 1);
        (path.slot, path.room) = (100_000, u64::MAX);
        path.lose = (first..first + 400).step_by(2).collect();
        path.run(30_000_000);
        let (dropped, resent) = (path.dropped, path.tx.resent);
        assert!(dropped == 200 && resent <= 220, "{resent} sent again, {dropped} dropped");
    }
}

/// Segments that leave at once of writes of so many bytes, of which some end a record, while nothing leaves the host.
fn at_once(tx: &mut Tx, writes: &[(u64, bool)]) -> Vec<(u64, u64)> {
    let (p, mut out) = (Params::default(), Vec::new());
    for &(bytes, record) in writes {
        tx.write(&p, 0, bytes, u64::MAX / 2);
        if record {
            tx.end_record();
        }
        tx.transmit(&p, 0, &mut out);
    }
    out.iter().map(|segment| (segment.start, segment.end)).collect()
}

fn opened() -> Tx {
    Tx::new(&Params::default(), &controllers()[0], false, Opened::at_once(40), 0, 1)
}

#[test]
fn a_write_waits_while_what_is_before_it_waits_in_the_host() {
    let mut tx = opened();
    // 2896 bytes of payload and a segment's overhead wait: more than the second and the third write come to.
    assert_eq!(at_once(&mut tx, &[(2896, false), (1448, false), (1400, false)]), [(0, 2896)]);
    // A fourth makes more of them than that.
    assert_eq!(at_once(&mut tx, &[(200, false)]), [(2896, 5944)]);
    // Or what waits leaves.
    assert_eq!(at_once(&mut tx, &[(100, false)]), []);
    assert!(tx.released(2896 + OVERHEAD, 2896));
    let mut out = Vec::new();
    tx.transmit(&Params::default(), 0, &mut out);
    assert_eq!((out[0].start, out[0].end), (5944, 6044));
}

#[test]
fn no_segment_has_bytes_of_two_records() {
    let mut tx = opened();
    let records = [(2000, true), (100, true), (3000, true)];
    assert_eq!(at_once(&mut tx, &records), [(0, 2000), (2000, 2100), (2100, 5100)]);
    // Without their ends, what waits is joined with what comes.
    assert_eq!(at_once(&mut opened(), &[(2000, false), (100, false), (3000, false)]), [(0, 2000), (2000, 5100)]);
}

#[test]
fn a_connection_that_was_idle_takes_that_for_a_round_trip_and_offers_much_room() {
    let p = Params::default();
    let mss = u64::from(p.mss);
    let room = |age: Option<Ps>| {
        let mut rx = Rx::new(&p, 40, false);
        if let Some(age) = age {
            rx.has_spoken(age);
        }
        let mut window = 0;
        for number in 0..600 {
            let (start, end) = (number * mss, (number + 1) * mss);
            let data = Data { start, end, push: false, marked: false, stamp_ms: 0, echo_ms: 0, expected: 0 };
            let said = rx.on_data(&p, number * US, &data);
            window = said.replies().map(|reply| reply.window).max().unwrap_or(0).max(window);
        }
        window
    };
    // As measured on Linux 7.3: about 1 MB where NVMe over TCP had opened it, and some 200 KB where nobody had spoken.
    let (spoken, silent) = (room(Some(20 * MS)), room(None));
    assert!((700_000..1_200_000).contains(&spoken) && silent < 400_000, "{spoken}, {silent}");
}

#[test]
fn room_grows_with_what_lies_beyond_a_gap_which_takes_memory() {
    let p = Params::default();
    let mss = u64::from(p.mss);
    let (mut rx, mut most) = (Rx::new(&p, 40, false), 0);
    // The second packet does not come.
    for number in (0..400).filter(|number| *number != 1) {
        let (start, end) = (number * mss, (number + 1) * mss);
        let data = Data { start, end, push: false, marked: false, stamp_ms: 0, echo_ms: 0, expected: 0 };
        let said = rx.on_data(&p, number * US, &data);
        most = said.replies().map(|reply| u64::from(reply.window) / mss).fold(most, u64::max);
    }
    // Memory for twice ten packets and the 399 up to the last, 1448 bytes in 2302; 398 of them are there, joined to one
    // that takes 266/256 of their bytes. Else there would be 128 KiB, room for 56.
    let room = (419 * 256 / 161 - 398 * 266 / 256) * 161 / 256;
    // The last 44 acknowledgements may be left out, each with a third of a packet more.
    assert!((room - 16..=room).contains(&most), "{most} packets for {room}");
}

#[test]
fn a_delayed_acknowledgement_comes_before_the_senders_least_rto() {
    for (rto_min_us, most_ms) in [(200_000, 40), (10_000, 9), (1_000, 1)] {
        let p = Params { rto_min_us, ..Params::default() };
        let mut rx = Rx::new(&p, 1000, false);
        let mss = u64::from(p.mss);
        // Every packet of the first dozens is acknowledged, then every second.
        let mut now = 0;
        let alone = (0..100).find(|&i| {
            now = i * 100 * US;
            let data = Data {
                start: i * mss,
                end: (i + 1) * mss,
                push: false,
                marked: false,
                stamp_ms: 0,
                echo_ms: 0,
                expected: 1_000_000,
            };
            rx.on_data(&p, now, &data).replies().count() == 0
        });
        assert!(alone.is_some_and(|i| i > 3));
        // To the kernel's next tick.
        let waits = rx.deadline().unwrap() - now;
        assert!(waits <= (most_ms + 1) * MS && waits >= (most_ms - 1) * MS, "{rto_min_us}: {waits}");
    }
}

/// A receiving half to which requests of 500 bytes come.
struct Asked {
    p: Params,
    rx: Rx,
    bytes: u64,
}

impl Asked {
    fn new() -> Self {
        let p = Params::default();
        Self { rx: Rx::new(&p, 40, false), p, bytes: 0 }
    }

    /// The next request comes: what is said at once.
    fn request(&mut self, now: Ps) -> usize {
        let (start, end) = (self.bytes, self.bytes + 500);
        self.bytes = end;
        let data = Data { start, end, push: true, expected: end, ..Data::default() };
        self.rx.on_data(&self.p, now, &data).replies().count()
    }
}

#[test]
fn data_that_answers_takes_the_acknowledgement_along() {
    let mut asked = Asked::new();
    // Nothing was sent yet: the application has read all, and that is said.
    assert_eq!(asked.request(0), 1);
    asked.rx.data_leaves(&asked.p, 20 * US);
    for number in 1..40 {
        let at = number * MS;
        assert_eq!(asked.request(at), 0, "request {number}");
        let reply = asked.rx.data_leaves(&asked.p, at + 20 * US);
        assert_eq!((reply.ack, reply.with_data, asked.rx.deadline()), (asked.bytes, true, None));
    }
}

#[test]
fn two_packets_are_acknowledged_at_once_though_data_would_answer() {
    let mut asked = Asked::new();
    asked.request(0);
    asked.rx.data_leaves(&asked.p, 20 * US);
    // 1000 bytes are more than a full packet, of 536 as far as is known (TCP_MSS_DEFAULT).
    assert_eq!((asked.request(MS), asked.request(MS + US)), (0, 1));
}

#[test]
fn an_answer_that_does_not_come_is_waited_for_once() {
    let mut asked = Asked::new();
    asked.request(0);
    asked.rx.data_leaves(&asked.p, 20 * US);
    assert_eq!(asked.request(MS), 0);
    let due = asked.rx.deadline().unwrap();
    assert!((40 * MS..45 * MS).contains(&due), "{due}");
    assert_eq!(asked.rx.on_timer(&asked.p, due).replies().count(), 1);
    assert_eq!(asked.request(50 * MS), 1);
}

#[test]
fn packets_of_one_size_are_full_ones() {
    let mut asked = Asked::new();
    let mut said = Vec::new();
    asked.rx.data_leaves(&asked.p, 0);
    for number in 0..30 {
        let (start, end) = (number * 700, (number + 1) * 700);
        let data = Data { start, end, expected: 40_000, ..Data::default() };
        said.push(asked.rx.on_data(&asked.p, MS, &data).replies().count());
    }
    // Quick acknowledgements first, then one for two packets, though they are far from the largest.
    assert_eq!(said[16..], [1, 0].repeat(7));
}
