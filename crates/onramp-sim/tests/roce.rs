//! Captures of RDMA's flows as RoCEv2: the files are decoded here from their bytes, by the specification alone.

mod common;

use common::*;
use onramp_sim::measure::trace::{At, Capture};
use onramp_sim::{Options, Simulation};
use serde_json::Value;

const FIRST: u8 = 0;
const MIDDLE: u8 = 1;
const LAST: u8 = 2;
const ONLY: u8 = 4;
const ACKNOWLEDGE: u8 = 17;
const ACK: u8 = 0x1f;
const NAK: u8 = 0x60;

/// A frame, its headers checked.
#[derive(Clone, Debug, PartialEq)]
struct Frame {
    ns: u64,
    /// Bytes on the wire.
    wire: u32,
    ecn: u8,
    hosts: [u8; 2],
    body: Body,
}

#[derive(Clone, Debug, PartialEq)]
enum Body {
    Data { opcode: u8, psn: u32, payload: u32, wants_ack: bool },
    Reply { syndrome: u8, psn: u32, complete: u8, becn: bool },
    OrAck { psn: u32, received_ns: u64 },
}

fn word(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |all, byte| all << 8 | u32::from(*byte))
}

/// Sum of 16-bit words with its carries: all ones where a checksum is right.
fn sum(bytes: &[u8]) -> u32 {
    let sum: u32 = bytes.chunks(2).map(word).sum();
    (sum & 0xffff) + (sum >> 16)
}

fn frames(capture: &Capture) -> Vec<Frame> {
    let little = |at: usize| u32::from_le_bytes(capture.pcap[at..at + 4].try_into().unwrap());
    assert_eq!([little(0), little(20)], [0xa1b2_3c4d, 1], "nanoseconds, Ethernet");
    let mut at = 24;
    let mut frames = Vec::new();
    while at < capture.pcap.len() {
        let [seconds, ns, kept, wire] = [0, 4, 8, 12].map(|field| little(at + field));
        at += 16 + kept as usize;
        let bytes = &capture.pcap[at - kept as usize..at];
        frames.push(Frame { ns: u64::from(seconds) * 1_000_000_000 + u64::from(ns), wire, ..frame(bytes, wire) });
    }
    assert!(frames.is_sorted_by_key(|frame| frame.ns));
    frames
}

fn frame(bytes: &[u8], wire: u32) -> Frame {
    let (ip, udp, bth) = (&bytes[14..34], &bytes[34..42], &bytes[42..]);
    assert_eq!((word(&bytes[12..14]), ip[0], ip[9], sum(ip)), (0x0800, 0x45, 17, 0xffff));
    let length = word(&ip[2..4]);
    assert_eq!(word(&udp[4..6]), length - 20);
    assert_eq!(word(&udp[6..8]), 0, "RoCEv2 needs no checksum of UDP");
    assert!(length + 14 <= wire);
    let [source, target] = [word(&udp[..2]), word(&udp[2..4])];
    let body = if target == 9471 {
        // Version and family, protocol, port of the data and its number, when it was received.
        assert_eq!((bth[1], word(&bth[10..12])), (17, 4791));
        assert!(word(&bth[2..4]) >= 0xc000);
        Body::OrAck {
            psn: word(&bth[4..8]),
            received_ns: u64::from(word(&bth[12..16])) << 32 | u64::from(word(&bth[16..20])),
        }
    } else {
        assert!(target == 4791 && source >= 0xc000);
        assert_eq!((bth[1] & 0xcf, word(&bth[2..4])), (0x40, 0xffff));
        let [psn, wants_ack] = [word(&bth[9..12]), word(&bth[8..9])];
        let becn = bth[4] == 0x40;
        match bth[0] {
            ACKNOWLEDGE => {
                assert_eq!((length, bth.len(), &bth[16..20]), (48, 20, &[0; 4][..]));
                Body::Reply { syndrome: bth[12], psn, complete: bth[15], becn }
            }
            opcode => {
                let payload = length - 44 - u32::from(bth[1] >> 4 & 3);
                assert!(length.is_multiple_of(4) && bth.len() == if payload == 0 { 16 } else { 12 });
                assert!(!becn);
                Body::Data { opcode, psn, payload, wants_ack: wants_ack == 0x80 }
            }
        }
    };
    Frame { ns: 0, wire: 0, ecn: ip[1] & 3, hosts: [ip[15], ip[19]], body }
}

/// Number, payload and opcode of data packets.
fn data(frames: &[Frame]) -> Vec<(u32, u32, u8)> {
    let data = frames.iter().filter_map(|frame| match frame.body {
        Body::Data { opcode, psn, payload, .. } => Some((psn, payload, opcode)),
        _ => None,
    });
    data.collect()
}

fn replies(frames: &[Frame], wanted: u8) -> Vec<u32> {
    let replies = frames.iter().filter_map(|frame| match frame.body {
        Body::Reply { syndrome, psn, .. } if syndrome == wanted => Some(psn),
        _ => None,
    });
    replies.collect()
}

fn traced(text: &str, transport: &str, set: &[(&str, &str)], flows: &[u64], one_cell: bool) -> Simulation {
    let options = Options { traced: flows.to_vec(), ways: true, one_cell, ..Options::default() };
    build_as(&options, text, transport, set)
}

/// Captures of a run, each with its frames.
fn captured(sim: &Simulation) -> Vec<(Capture, Vec<Frame>)> {
    sim.captures().into_iter().map(|capture| (capture.clone(), frames(&capture))).collect()
}

#[test]
fn a_flow_is_one_send_of_its_own_whatever_the_transport() {
    let (_file, flows) = trace(&["1,0,20000,0", "1,0,50002,100000", "1,0,3,200000"]);
    for transport in TRANSPORTS {
        let mut sim = traced(&format!("{}{flows}", star(3)), transport, &[], &[1, 2], false);
        sim.run_to_end();
        let records = sim.take_flows();
        let captures = captured(&sim);
        assert_eq!(captures.len(), 4, "{transport}");
        for (capture, all) in &captures {
            let flow = records.iter().find(|flow| flow.id == capture.flow).unwrap();
            let sent = data(all);
            let packets = flow.bytes.div_ceil(1000) as u32;
            assert!(sent.iter().map(|packet| packet.0).eq(0..packets), "{transport}: {sent:?}");
            assert_eq!(sent.iter().map(|packet| u64::from(packet.1)).sum::<u64>(), flow.bytes, "{transport}");
            let opcodes: Vec<u8> = sent.iter().map(|packet| packet.2).collect();
            match capture.flow {
                1 => {
                    assert!(opcodes[0] == FIRST && opcodes[50] == LAST);
                    assert!(opcodes[1..50].iter().all(|opcode| *opcode == MIDDLE));
                }
                _ => assert_eq!(opcodes, [ONLY]),
            }
            let acks = replies(all, ACK);
            assert!(acks.is_sorted() && acks.last() == Some(&(packets - 1)), "{transport}: {acks:?}");
            let Body::Reply { complete, .. } = all.last().unwrap().body else { panic!("{transport}: {all:?}") };
            assert_eq!(complete, 1, "{transport}: the message is complete");
            // As the flow's record has it, to the picosecond below.
            let (begin, end) = (all[0].ns, all.last().unwrap().ns);
            if capture.at == At::Sender {
                let done = flow.start_ps + flow.fct_ps;
                assert_eq!((begin, end), (flow.start_ps / 1000, done / 1000), "{transport}");
            }
            for frame in all {
                match frame.body {
                    Body::Data { wants_ack, payload, .. } => {
                        assert!(frame.hosts == [2, 1] && frame.wire >= payload + 58, "{transport}");
                        let some = transport.contains("nscc") || transport.contains("rccc");
                        assert!(wants_ack || some, "{transport}");
                    }
                    _ => assert!(frame.hosts == [1, 2] && frame.ecn == 0, "{transport}"),
                }
            }
        }
    }
}

#[test]
fn a_frame_is_at_least_as_long_as_in_the_simulator() {
    let (_file, flows) = trace(&["1,0,2000,0"]);
    // By DCQCN 48 B besides payload, by HPCC 42 B of INT more, by NSCC 64 B; RoCEv2 has 58 B, and 62 B of an ACK.
    for (transport, lengths) in [("dcqcn", [1058, 62]), ("hpcc", [1090, 88]), ("nscc", [1064, 64])] {
        let mut sim = traced(&format!("{}{flows}", star(3)), &format!("kind = \"{transport}\""), &[], &[0], false);
        sim.run_to_end();
        let all = captured(&sim).remove(0).1;
        assert_eq!([all[0].wire, all.last().unwrap().wire], lengths, "{transport}");
    }
}

/// Eight senders to one host, whose port has no room for all.
fn crowd(set: &[(&str, &str)]) -> Simulation {
    let rows: Vec<String> = (1..9).map(|src| format!("{src},0,300000,{src}")).collect();
    let (_file, flows) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let text = format!("{}{flows}", star(9));
    let mut sim = traced(&text, "kind = \"dcqcn\"", set, &[0, 1, 2, 3, 4, 5, 6, 7], false);
    sim.run_to_end();
    sim
}

const LOSSY: [(&str, &str); 3] = [("switch.loss", "lossy"), ("switch.buffer", "60KB"), ("host.rto", "200us")];

/// Packets with numbers that were sent before.
fn again(sent: &[(u32, u32, u8)]) -> usize {
    let mut seen = std::collections::HashSet::new();
    sent.iter().filter(|packet| !seen.insert(packet.0)).count()
}

#[test]
fn go_back_n_is_a_nak_and_all_packets_from_there_on() {
    let mut sim = crowd(&LOSSY);
    let dropped = sim.packet_counts().dropped;
    let records = sim.take_flows();
    let captures = captured(&sim);
    let (mut lost, mut gone_back) = (0, 0);
    for ends in captures.chunks(2) {
        let [(capture, left), (_, there)] = ends else { panic!("two ends") };
        let flow = records.iter().find(|flow| flow.id == capture.flow).unwrap();
        let sent = data(left);
        assert_eq!(again(&sent), flow.retransmitted as usize, "flow {}", flow.id);
        lost += sent.len() - data(there).len();
        // A packet is told missing by the number that was expected, which is what is sent next from there on.
        for pair in left.windows(2) {
            let [Body::Reply { syndrome: NAK, psn, .. }, Body::Data { psn: next, .. }] = [&pair[0].body, &pair[1].body]
            else {
                continue;
            };
            gone_back += usize::from(next == psn);
        }
        // What both ends see is the same, but for what was lost.
        let [from, to] = [left, there].map(|all| replies(all, NAK));
        assert!(from.len() <= to.len(), "flow {}: {from:?} of {to:?}", flow.id);
    }
    assert!(lost > 0 && lost as u64 == dropped, "{lost} of {dropped}");
    assert!(gone_back > 0);
}

#[test]
fn selective_repeat_is_naks_of_the_same_number_and_single_packets() {
    let [_, _, rto] = LOSSY;
    let mut sim = crowd(&[LOSSY[0], LOSSY[1], rto, ("host.recovery", "{ kind = \"selective-repeat\" }")]);
    let records = sim.take_flows();
    let all: Vec<_> = captured(&sim).into_iter().filter(|(capture, _)| capture.at == At::Sender).collect();
    let mut same = 0;
    for (capture, frames) in &all {
        let flow = records.iter().find(|flow| flow.id == capture.flow).unwrap();
        assert_eq!(again(&data(frames)), flow.retransmitted as usize, "flow {}", flow.id);
        let naks = replies(frames, NAK);
        assert!(naks.is_sorted(), "{naks:?}");
        same += naks.windows(2).filter(|two| two[0] == two[1]).count();
    }
    assert!(same > 0);
}

#[test]
fn a_trimmed_packet_comes_without_payload_and_its_nak_names_it() {
    let rows: Vec<String> = (1..9).map(|src| format!("{src},0,300000,0")).collect();
    let (_file, flows) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let set = [
        ("switch.loss", "lossy"),
        ("switch.trim", "64B"),
        ("switch.queue", "[{ rate = \"100Gbps\", bytes = \"20KB\" }]"),
    ];
    let mut sim = traced(&format!("{}{flows}", star(9)), "kind = \"nscc\"", &set, &[0, 1], false);
    sim.run_to_end();
    for ends in captured(&sim).chunks(2) {
        let [(_, left), (_, there)] = ends else { panic!("two ends") };
        let trimmed: Vec<u32> = data(there).iter().filter(|packet| packet.1 == 0).map(|packet| packet.0).collect();
        assert!(!trimmed.is_empty());
        let mut naks = replies(there, NAK);
        assert!(naks.iter().all(|psn| trimmed.contains(psn)), "{naks:?} for {trimmed:?}");
        naks.sort_unstable();
        naks.dedup();
        let sent = data(left);
        let times = |psn: u32| sent.iter().filter(|packet| packet.0 == psn).count();
        assert!(naks.iter().all(|psn| times(*psn) > 1));
    }
}

#[test]
fn marks_are_in_ips_header_and_their_echo_is_becn() {
    let sim = crowd(&[("switch.ecn", "[{ rate = \"100Gbps\", kmin = \"10KB\", kmax = \"40KB\", pmax = 1.0 }]")]);
    for ends in captured(&sim).chunks(2) {
        let [(_, left), (_, there)] = ends else { panic!("two ends") };
        let data_of = |frames: &[Frame], ecn| {
            let own = |frame: &&Frame| frame.ecn == ecn && matches!(frame.body, Body::Data { .. });
            frames.iter().filter(own).count()
        };
        let marked = data_of(there, 3);
        assert!(marked > 0 && data_of(left, 3) == 0 && data_of(left, 2) == 300);
        let echoes = left.iter().filter(|frame| matches!(frame.body, Body::Reply { becn: true, .. }));
        assert_eq!(echoes.count(), marked);
    }
}

#[test]
fn or_acks_are_packets_of_their_own_or_not_shown() {
    let (_file, flows) = trace(&["1,0,5000,0"]);
    let count = |ack: &str| {
        let set = [("onramp.enabled", "true"), ("onramp.ack", ack), ("onramp.ack_every", "1")];
        let mut sim = traced(&format!("{}{flows}", star(3)), "kind = \"dcqcn\"", &set, &[0], false);
        sim.run_to_end();
        let ends = captured(&sim);
        let said = |all: &[Frame]| {
            let said = all.iter().filter_map(|frame| match frame.body {
                Body::OrAck { psn, received_ns } => Some((psn, received_ns, frame.wire)),
                _ => None,
            });
            said.collect::<Vec<_>>()
        };
        let came: Vec<u64> = ends[1].1.iter().filter(|f| matches!(f.body, Body::Data { .. })).map(|f| f.ns).collect();
        (said(&ends[0].1), said(&ends[1].1), came)
    };
    assert!(count("transport").0.is_empty());
    let (sender, receiver, came) = count("separate");
    assert_eq!(sender, receiver);
    // When each packet came, by the hosts' clocks, which are right: to the nanosecond that is cut off twice.
    assert_eq!(sender.len(), 5);
    for (n, (psn, received_ns, wire)) in (0..).zip(sender) {
        assert!(psn == n && wire == 78 && received_ns.abs_diff(came[n as usize]) <= 1);
    }
}

/// Times \[ns\] of a flow's data at one of its hosts, by the ways of its packets.
fn times(ways: &Value, capture: &Capture) -> Vec<u64> {
    let flow = ways["flows"].as_array().unwrap().iter().position(|flow| flow[0] == capture.flow).unwrap();
    let all = ways["packets"].as_array().unwrap().iter();
    let at = |way: &Value| {
        let links = way["links"].as_array().unwrap();
        match capture.at {
            At::Sender => links.first()?[1].as_u64(),
            At::Receiver => links.last().filter(|_| way["dropped"].is_null())?[2].as_u64(),
        }
    };
    let mut times: Vec<u64> = all.filter(|way| way["kind"] == "data" && way["flow"] == flow).filter_map(at).collect();
    times.sort_unstable();
    times
}

#[test]
fn tracing_changes_nothing_and_cells_and_threads_do_not_change_captures() {
    let set = [("switch.loss", "lossy"), ("switch.buffer", "200KB"), ("host.rto", "200us"), ("warmup", "50us")];
    let text = format!("{SMALL_FAT_TREE}{LOADED}");
    for transport in [TRANSPORTS[0], TRANSPORTS[5], TRANSPORTS[7]] {
        let set: Vec<_> = set.into_iter().chain([("onramp.enabled", "true"), ("clock.sync", "gaussian")]).collect();
        let (plain, ..) = finish(traced(&text, transport, &set, &[], false));
        // The one with the most retransmissions, one of a request, and small ones, whose slots others get.
        let repaired = plain.iter().max_by_key(|flow| flow.retransmitted).unwrap().id;
        let part = plain.iter().rfind(|flow| flow.request.is_some()).unwrap().id;
        let small = plain.iter().filter(|flow| flow.bytes < 10_000 && flow.id != part).take(20).map(|flow| flow.id);
        let chosen: Vec<u64> = [repaired, part].into_iter().chain(small).collect();
        let run =
            |one_cell, threads| common::all_that_is_traced(traced(&text, transport, &set, &chosen, one_cell), threads);
        let (captures, ways, flows) = run(true, 1);
        assert!(flows == plain, "{transport}");
        assert_eq!(captures.len(), 2 * chosen.len(), "{transport}");
        for threads in [1, 2] {
            assert!(run(false, threads).0 == captures, "{transport}, {threads} threads");
        }
        for capture in &captures {
            let flow = plain.iter().find(|flow| flow.id == capture.flow).unwrap();
            let all = frames(capture);
            let own = [flow.src, flow.dst].map(|host| host as u8 + 1);
            assert!(all.iter().all(|frame| frame.hosts == own || frame.hosts == [own[1], own[0]]), "{transport}");
            // Copies that are under way when all is acknowledged have no way.
            let done = (flow.start_ps + flow.fct_ps) / 1000;
            let is_data = |frame: &&Frame| matches!(frame.body, Body::Data { .. }) && frame.ns <= done;
            let seen: Vec<u64> = all.iter().filter(is_data).map(|frame| frame.ns).collect();
            let expected = times(&ways, capture);
            assert!(expected.iter().all(|time| seen.contains(time)), "{transport}, flow {}", flow.id);
            assert!(!expected.is_empty() && seen.len() - expected.len() <= 8, "{transport}, flow {}", flow.id);
        }
    }
}
