//! Captures of single flows: every byte is there, whatever the cells, and nothing else changes.

mod common;

use common::*;
use onramp_sim::measure::trace::frame::{Found, parse};
use onramp_sim::measure::trace::{At, Capture};
use onramp_sim::{Options, Scenario, Simulation};
use serde_json::{Value, json};
use std::path::Path;

/// Records of a capture: time, bytes on the wire, bytes kept, meaning.
fn records(pcap: &[u8]) -> Vec<(u64, u32, Vec<u8>, Option<Found>)> {
    let word = |at: usize| u32::from_le_bytes(pcap[at..at + 4].try_into().unwrap());
    let mut all = Vec::new();
    let mut at = 24;
    while at < pcap.len() {
        let time = u64::from(word(at)) * 1_000_000_000 + u64::from(word(at + 4));
        let kept = pcap[at + 16..at + 16 + word(at + 8) as usize].to_vec();
        let found = parse(&kept, 5000).map(|(_, found)| found);
        at += 16 + kept.len();
        all.push((time, word(at - 4 - kept.len()), kept, found));
    }
    all
}

/// Payload of the data packets, from the first on: start and length.
fn data(capture: &Capture) -> Vec<(u32, u32)> {
    let all = records(&capture.pcap);
    let found = all.iter().filter_map(|(.., found)| match found {
        Some(Found::Data(seq, payload @ 1.., _)) => Some((*seq, *payload)),
        _ => None,
    });
    found.collect()
}

fn traced(text: &str, transport: &str, set: &[(&str, &str)], flows: &[u64], one_cell: bool) -> Simulation {
    let options = Options { traced: flows.to_vec(), ways: true, one_cell, ..Options::default() };
    build_as(&options, text, transport, set)
}

#[test]
fn a_flow_is_all_its_bytes_and_their_acknowledgements() {
    let (_file, flows) = trace(&["1,0,20000,0", "1,0,50000,1000000", "1,0,3000,2000000"]);
    let text = format!("{}{flows}", star(3));
    let mut sim = traced(&text, "kind = \"cubic\"", &[], &[1], false);
    sim.run_to_end();
    let captures = sim.captures();
    let [sender, receiver] = &captures[..] else { panic!("{} captures", captures.len()) };
    assert_eq!(
        (sender.at, receiver.at, sender.name("sim").as_str()),
        (At::Sender, At::Receiver, "flow-1-sim-sender.pcap")
    );
    for capture in &captures {
        let parts = data(capture);
        assert_eq!(parts[0].0, 20_001, "{:?}: after the first flow's bytes", capture.at);
        let ends = parts.iter().map(|(start, length)| start + length);
        assert!(parts.iter().skip(1).map(|part| part.0).eq(ends.take(parts.len() - 1)), "{:?}", capture.at);
        assert_eq!(parts.iter().map(|part| part.1).sum::<u32>(), 50_000);
        let all = records(&capture.pcap);
        assert!(all.is_sorted_by_key(|record| record.0), "{:?}", capture.at);
        // Its connection was used before, so the opening is where the flow begins.
        assert!(all[..3].iter().all(|record| record.0 == 1_000_000), "{:?}", all[..3].to_vec());
        let acks: Vec<u32> = all
            .iter()
            .skip(3)
            .filter_map(|r| if let Some(Found::Ack(ack, ..)) = r.3 { Some(ack) } else { None })
            .collect();
        assert!(acks.is_sorted() && acks.last() == Some(&70_001), "{acks:?}");
    }
    // Nothing is lost, so both ends see the same, a way later.
    assert_eq!(data(sender), data(receiver));
}

#[test]
fn a_connection_that_a_flow_opens_has_its_opening_when_it_was() {
    let rows: Vec<String> = (0..12).map(|i| format!("1,0,400000,{}", i * 1000)).collect();
    let (_file, flows) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let text = format!("{}{flows}", star(3));
    let mut sim = traced(&text, "kind = \"newreno\"", &[], &(0..12).collect::<Vec<_>>(), true);
    sim.run_to_end();
    for capture in sim.captures() {
        let all = records(&capture.pcap);
        let syn = |record: &&(u64, u32, Vec<u8>, Option<Found>)| record.2[47] & 2 != 0;
        assert_eq!(all.iter().filter(syn).count(), 2, "flow {}", capture.flow);
        let sent: u32 = data(&capture).iter().map(|part| part.1).sum();
        assert!(sent >= 400_000, "flow {}: {sent}", capture.flow);
    }
}

/// Times \[ns\] and sizes of a flow's data at one of its hosts, by the ways of its packets.
fn times(ways: &Value, flows: &Value, capture: &Capture) -> Vec<(u64, u64)> {
    let flow = flows.as_array().unwrap().iter().position(|flow| flow[0] == capture.flow).unwrap();
    let all = ways["packets"].as_array().unwrap().iter();
    let own = all.filter(|way| way["kind"] == "data" && way["flow"] == flow);
    let at = |way: &Value| {
        let links = way["links"].as_array().unwrap();
        match capture.at {
            At::Sender => links.first()?[1].as_u64(),
            At::Receiver => links.last().filter(|_| way["dropped"].is_null())?[2].as_u64(),
        }
    };
    let mut times: Vec<_> = own.filter_map(|way| Some((at(way)?, way["size"].as_u64()?))).collect();
    times.sort_unstable();
    times
}

/// The same by its capture.
fn captured(capture: &Capture) -> Vec<(u64, u64)> {
    let data = |record: &(u64, u32, Vec<u8>, Option<Found>)| matches!(record.3, Some(Found::Data(_, 1.., _)));
    let all = records(&capture.pcap).into_iter().filter(data);
    all.map(|(time, length, ..)| (time, u64::from(length))).collect()
}

#[test]
fn a_packets_way_is_as_long_as_its_links_and_queues() {
    let (_file, flows) = trace(&["1,0,3000,0", "2,0,1000,0"]);
    let mut sim = traced(&format!("{}{flows}", star(3)), "kind = \"dcqcn\"", &[], &[0, 1], false);
    sim.run_to_end();
    let ways = serde_json::to_value(sim.ways()).unwrap();
    let data = ways["packets"].as_array().unwrap().iter().filter(|way| way["kind"] == "data");
    let links = |way: &Value| {
        let link = |link: &Value| json!([ways["ports"][link[0].as_u64().unwrap() as usize][0], link[1], link[2]]);
        way["links"].as_array().unwrap().iter().map(link).collect::<Value>()
    };
    let found: Vec<_> = data.map(|way| json!([way["flow"], way["number"], links(way)])).collect();
    // 1048 B take 83.84 ns, a link 1 us. Two packets come at once: one waits for the other, and the next for both.
    let expected = [
        json!([0, 0, [["h1", 0, 1083], ["s0", 1083, 2167]]]),
        json!([1, 0, [["h2", 0, 1083], ["s0", 1167, 2251]]]),
        json!([0, 1, [["h1", 83, 1167], ["s0", 1251, 2335]]]),
        json!([0, 2, [["h1", 167, 1251], ["s0", 1335, 2419]]]),
    ];
    let sorted = |mut all: Vec<Value>| {
        all.sort_by_key(Value::to_string);
        all
    };
    assert_eq!(sorted(found), sorted(expected.to_vec()));
    let acks = ways["packets"].as_array().unwrap().iter().filter(|way| way["kind"] == "ack");
    assert!(acks.clone().count() == 4 && acks.clone().all(|way| way["links"].as_array().unwrap().len() == 2));
}

#[test]
fn every_drop_of_traced_flows_is_on_a_way() {
    let rows: Vec<String> = (1..9).map(|src| format!("{src},0,200000,0")).collect();
    let (_file, flows) = trace(&rows.iter().map(String::as_str).collect::<Vec<_>>());
    let set = [("linux.buffer_packets", "20")];
    let mut sim = traced(&format!("{}{flows}", star(9)), TCP[0], &set, &[0, 1, 2, 3, 4, 5, 6, 7], false);
    sim.run_to_end();
    let ways = serde_json::to_value(sim.ways()).unwrap();
    let packets = ways["packets"].as_array().unwrap();
    let dropped: Vec<_> = packets.iter().filter(|way| !way["dropped"].is_null()).collect();
    assert!(sim.packet_counts().dropped > 0 && dropped.len() as u64 == sim.packet_counts().dropped);
    assert!(dropped.iter().all(|way| ways["ports"][way["dropped"][0].as_u64().unwrap() as usize][1] == "h0"));
    let again = packets.iter().filter(|way| way["again"] == true).count();
    assert!(again >= dropped.len(), "{again} sent again for {} drops", dropped.len());
}

#[test]
fn tracing_changes_nothing_and_cells_and_threads_do_not_change_captures() {
    let set = [
        ("onramp.enabled", "true"),
        ("clock.sync", "gaussian"),
        ("clock.sigma", "200ns"),
        ("warmup", "50us"),
        ("linux.buffer_packets", "60"),
    ];
    let text = format!("{SMALL_FAT_TREE}{LOADED}");
    for transport in [TCP[1], TCP[4]] {
        let (plain, ..) = finish(traced(&text, transport, &set, &[], false));
        // The largest, one that lost packets, and one of a request.
        let largest = plain.iter().max_by_key(|flow| flow.bytes).unwrap().id;
        let repaired = plain.iter().max_by_key(|flow| flow.retransmitted).unwrap().id;
        let part = plain.iter().rfind(|flow| flow.request.is_some()).unwrap().id;
        let chosen = [largest, repaired, part];
        let run =
            |one_cell, threads| common::all_that_is_traced(traced(&text, transport, &set, &chosen, one_cell), threads);
        let (captures, ways, flows) = run(true, 1);
        assert!(flows == plain, "{transport}");
        assert_eq!(captures.len(), 6, "{transport}");
        for threads in [1, 2] {
            let again = run(false, threads);
            assert!(again.0 == captures && again.1 == ways, "{transport}, {threads} threads");
        }
        for capture in &captures {
            let seen = times(&ways, &ways["flows"], capture);
            let all = captured(capture);
            // The largest flow has more packets than ways have room for.
            let limited = ways["left_out"] != 0 && seen.len() < all.len();
            assert!(seen.iter().all(|one| all.contains(one)), "{transport}, flow {}, {:?}", capture.flow, capture.at);
            assert!(limited && !seen.is_empty() || seen == all, "{transport}, flow {}, {:?}", capture.flow, capture.at);
        }
        for capture in captures.iter().filter(|capture| capture.at == At::Sender) {
            let flow = plain.iter().find(|flow| flow.id == capture.flow).unwrap();
            let mut highest = 0;
            let again = data(capture).into_iter().filter(|&(start, length)| {
                let again = start < highest;
                highest = highest.max(start + length);
                again
            });
            // A probe for a lost tail is sent again, but not counted as such.
            let again = again.count() as u32;
            assert!(
                (flow.retransmitted..=flow.retransmitted + 3).contains(&again),
                "{again} for {}",
                flow.retransmitted
            );
        }
    }
}

#[test]
fn flows_that_cannot_be_traced_are_refused() {
    let text = |kind: &str| format!("{}[transport]\nkind = \"{kind}\"\n", star(9));
    let (_file, flows) = trace(&["1,0,20000,0", "2,0,20000,300000", "3,0,50,400000"]);
    let check = |kind: &str, wanted: &[u64]| {
        let text = format!("{}{flows}", text(kind));
        let (scenario, topology) =
            Scenario::load(&text, "test", Path::new("/"), &[]).unwrap_or_else(|e| panic!("{}", e[0]));
        scenario.check_traced(&topology, Path::new("/"), wanted).map_err(|e| e.to_string())
    };
    assert_eq!(check("dcqcn", &[0, 2]), Ok(()));
    assert_eq!(check("cubic", &[1, 17]).unwrap_err(), "flow 17: is not there; there are 3, 0 to 2");
    assert!(check("dcqcn", &(0..65).collect::<Vec<_>>()).unwrap_err().contains("at most 64"));
}
