use super::*;
use onramp_config::units::{NS, SEC};
use proptest::prelude::*;
use std::io::Cursor;

type Opened = Result<Reader<Cursor<Vec<u8>>>, String>;

fn open_text(text: impl Into<Vec<u8>>, format: TraceFormat) -> Opened {
    let names = (0..4).map(|i| format!("h{i}")).collect();
    Reader::new(Lines::new("flows", Cursor::new(text.into())), format, names)
}

/// Checks a trace, then takes all of its flows.
fn flows(text: &str, format: TraceFormat) -> Result<Vec<(Ps, NewFlow)>, String> {
    let mut reader = open_text(text, format)?;
    reader.check()?;
    let next = reader.flow(7);
    let mut source = Trace { reader, next, traffic: 7, warmup: 0, bytes_left: 0.0 };
    let mut found = Vec::new();
    while let Some(at) = source.next_at() {
        let mut taken = Vec::new();
        source.take(&mut taken);
        found.extend(taken.into_iter().map(|flow| (at, flow)));
    }
    Ok(found)
}

fn csv(text: &str) -> Result<Vec<(Ps, NewFlow)>, String> {
    flows(text, TraceFormat::Csv)
}

fn hpcc(text: &str) -> Result<Vec<(Ps, NewFlow)>, String> {
    flows(text, TraceFormat::Hpcc)
}

fn flow(src: u32, dst: u32, bytes: u64) -> NewFlow {
    NewFlow { src, dst, size: Size::Bytes(bytes), traffic: 7, request: None }
}

fn part(number: u64, flows: u32) -> Option<RequestPart> {
    Some(RequestPart { number, flows })
}

#[test]
fn csv_hosts_have_names_or_numbers() {
    let text = "src,dst,bytes,start_ns\nh0,3,1000,0\n 1 , h2 ,1,0\nh3,0,1000000000000,1500.25\n";
    let expected = [(0, flow(0, 3, 1000)), (0, flow(1, 2, 1)), (1_500_250, flow(3, 0, 1_000_000_000_000))];
    assert_eq!(csv(text).unwrap(), expected);
}

#[test]
fn a_hosts_name_wins_over_its_number() {
    let names = ["3", "2", "1", "0"].map(String::from).to_vec();
    let text = "src,dst,bytes,start_ns\n3,1,5,0\n";
    let mut reader = Reader::new(Lines::new("flows", Cursor::new(text)), TraceFormat::Csv, names).unwrap();
    assert_eq!(reader.flow(7), Some((0, flow(0, 2, 5))));
}

#[test]
fn spreadsheets_may_have_written_it() {
    let text = "\u{feff}src,dst,bytes,start_ns\r\n0,1,5,10\r\n\r\n";
    assert_eq!(csv(text).unwrap(), [(10 * NS, flow(0, 1, 5))]);
}

#[test]
fn flows_with_the_same_number_are_one_request() {
    let text =
        "src,dst,bytes,start_ns,request\n0,1,5,0,9\n2,1,5,1,\n2,1,5,2,4\n3,1,5,3,9\n0,1,5,4,18446744073709551615\n";
    let requests: Vec<_> = csv(text).unwrap().iter().map(|(_, f)| f.request).collect();
    assert_eq!(requests, [part(9, 2), None, part(4, 1), part(9, 2), part(u64::MAX, 1)]);
}

#[test]
fn requests_are_forgotten_when_their_last_flow_has_arrived() {
    let text = "src,dst,bytes,start_ns,request\n0,1,5,0,1\n2,1,5,1,1\n2,1,5,2,2\n";
    let mut reader = open_text(text, TraceFormat::Csv).unwrap();
    reader.check().unwrap();
    reader.check().unwrap();
    let left = [0; 3].map(|_| {
        reader.flow(0).unwrap();
        reader.requests.len()
    });
    assert_eq!(left, [2, 1, 0]);
}

#[test]
fn hpcc_starts_are_exact_and_kept() {
    let text = "3 \n0 1 3 100 200000 2\n1 0 3 200 1 2.000016059\n3 2 3 100 7 2.000016059001\n\n";
    let expected =
        [(2 * SEC, flow(0, 1, 200_000)), (2_000_016_059_000, flow(1, 0, 1)), (2_000_016_059_001, flow(3, 2, 7))];
    assert_eq!(hpcc(text).unwrap(), expected);
}

#[test]
fn htsims_connections_start_at_their_times() {
    let htsim = |text: &str| flows(text, TraceFormat::Htsim);
    let text = "# Four hosts.\nNodes 4\nConnections 2\nTriggers 0\n0->3 id 1 start 0 size 2000 prio 2\n\n1->2 start 1500 size 7\n";
    assert_eq!(htsim(text).unwrap(), [(0, flow(0, 3, 2000)), (1500, flow(1, 2, 7))]);
    let wrong = |from: &str, to: &str| htsim(&text.replace(from, to)).unwrap_err();
    assert_eq!(wrong("Nodes 4", "Nodes 5"), "flows:2: 5 nodes, for 4 hosts");
    assert_eq!(
        wrong("Connections 2", "Links 2"),
        "flows:3: \"Links 2\" is not \"Nodes\" or \"Connections\" and a number"
    );
    assert_eq!(wrong("Connections 2", "Connections 3"), "flows:1: announces 3 flows, but 2 follow: write that");
    assert_eq!(wrong("Connections 2", "Connections 1"), "flows:1: announces 1 flows, but 2 follow: write that");
    assert_eq!(
        wrong("start 1500", "trigger 1"),
        "flows:7: has a trigger: flows start at their times, write kind = \"program\""
    );
    assert_eq!(wrong(" size 7", ""), "flows:7: has no size");
    assert_eq!(wrong("size 7", "size 0"), format!("flows:7: {ENDLESS}"));
    assert_eq!(wrong("1->2", "1-2"), "flows:7: \"1-2 start 1500 size 7\" is not simulated: only connections are");
    assert_eq!(wrong("1->2", "1->9"), "flows:7: \"9\" is no host: they are h0 to h3, or 0 to 3");
}

#[test]
fn hpcc_files_may_end_with_a_note() {
    let text = "1\n0 1 3 100 5 2\n\nFirst line: number of flows\nsrc dst priority port bytes start_time\n";
    assert_eq!(hpcc(text).unwrap(), [(2 * SEC, flow(0, 1, 5))]);
    assert_eq!(hpcc("0\n").unwrap(), []);
}

#[test]
fn hpcc_files_have_no_flow_beyond_those_announced() {
    let row = "0 1 3 100 5 2\n";
    let error = "flows:1: announces 2 flows, but 4 follow: write that";
    assert_eq!(hpcc(&format!("2\n{}", row.repeat(4))).unwrap_err(), error);
    assert_eq!(hpcc(&format!("2\n{}\nnote\n{}", row.repeat(2), row.repeat(2))).unwrap_err(), error);
}

#[test]
fn a_trace_without_flows_is_over_at_once() {
    assert_eq!(csv("src,dst,bytes,start_ns\n").unwrap(), []);
}

#[test]
fn csv_mistakes_name_the_line_and_what_would_be_right() {
    let header = "is not the header src,dst,bytes,start_ns or src,dst,bytes,start_ns,request";
    assert_eq!(csv("").unwrap_err(), format!("flows:1: \"\" {header}"));
    assert_eq!(csv("\nsrc,dst,bytes,start\n").unwrap_err(), format!("flows:2: \"src,dst,bytes,start\" {header}"));
    let row = |row: &str| csv(&format!("src,dst,bytes,start_ns\n0,1,5,100\n{row}\n")).unwrap_err();
    assert_eq!(row("0,1,5"), "flows:3: \"0,1,5\" has 3 fields, but the header is src,dst,bytes,start_ns");
    assert_eq!(row("0,1,5,200,1"), "flows:3: \"0,1,5,200,1\" has 5 fields, but the header is src,dst,bytes,start_ns");
    let host = "is no host: they are h0 to h3, or 0 to 3";
    for bad in ["h4", "4", "-1", "", "4294967296"] {
        assert_eq!(row(&format!("{bad},1,5,200")), format!("flows:3: \"{bad}\" {host}"));
        assert_eq!(row(&format!("1,{bad},5,200")), format!("flows:3: \"{bad}\" {host}"));
    }
    for bad in ["0", "-5", "1e3", "1.5", "1000000000001", "99999999999999999999", ""] {
        let error = format!("flows:3: \"{bad}\" is not a size: whole bytes from 1 to 1000000000000");
        assert_eq!(row(&format!("0,1,{bad},200")), error);
    }
    for bad in ["-1", "1e3", "5m", "1.2.3", ".5", "", "99999999999999999999"] {
        let error = format!("flows:3: \"{bad}\" is not a time in ns, such as 1500");
        assert_eq!(row(&format!("0,1,5,{bad}")), error);
    }
    assert_eq!(row("h2,2,5,200"), "flows:3: h2 would send to itself");
    let order = "flows:3: starts at 99ns, before the flow above, 100ns: sort the flows by their start";
    assert_eq!(row("0,1,5,99"), order);
    let request = csv("src,dst,bytes,start_ns,request\n0,1,5,0,first\n").unwrap_err();
    assert_eq!(request, "flows:2: \"first\" is not a request's number: a whole number or nothing");
    let missing = csv("src,dst,bytes,start_ns,request\n0,1,5,0\n").unwrap_err();
    assert_eq!(missing, "flows:2: \"0,1,5,0\" has 4 fields, but the header is src,dst,bytes,start_ns,request");
}

#[test]
fn hpcc_mistakes_name_the_line_and_what_would_be_right() {
    assert_eq!(hpcc("").unwrap_err(), "flows:1: \"\" is not the number of flows, such as 1000");
    assert_eq!(hpcc("-1\n").unwrap_err(), "flows:1: \"-1\" is not the number of flows, such as 1000");
    let few = "flows:1: announces 3 flows, but 1 follow: write that";
    assert_eq!(hpcc("3\n0 1 3 100 5 2\n").unwrap_err(), few);
    let row = |row: &str| hpcc(&format!("2\n0 1 3 100 5 2\n{row}\n")).unwrap_err();
    assert_eq!(row("0 1 3 100 5"), "flows:3: \"0 1 3 100 5\" has 5 fields, but src dst pg dport size start are 6");
    assert_eq!(
        row("0 1 3 100 9 5 2"),
        "flows:3: \"0 1 3 100 9 5 2\" has 7 fields, but src dst pg dport size start are 6"
    );
    assert_eq!(row("h0 1 3 100 5 2"), "flows:3: \"h0\" is no host: they are h0 to h3, or 0 to 3");
    assert_eq!(row("0 4 3 100 5 2"), "flows:3: \"4\" is no host: they are h0 to h3, or 0 to 3");
    assert_eq!(row("0 1 x 100 5 2"), "flows:3: \"x\" is not a priority group: a whole number");
    assert_eq!(row("0 1 3 65536 5 2"), "flows:3: \"65536\" is not a port: a whole number");
    assert_eq!(row("0 1 3 100 0 2"), "flows:3: \"0\" is not a size: whole bytes from 1 to 1000000000000");
    for bad in ["2e-05", "-2", "2s", "2m", "2,1", "2.0000000000001", "9999999999"] {
        let error = format!("flows:3: \"{bad}\" is not a time in seconds, such as 2.000001");
        assert_eq!(row(&format!("0 1 3 100 5 {bad}")), error);
    }
    assert_eq!(row("1 1 3 100 5 2"), "flows:3: h1 would send to itself");
    let order = "flows:3: starts at 1999ms, before the flow above, 2s: sort the flows by their start";
    assert_eq!(row("0 1 3 100 5 1.999"), order);
}

#[test]
fn mistakes_in_the_bytes_name_the_line() {
    let error = |tail: &[u8]| {
        let text = [b"src,dst,bytes,start_ns\n0,1,5,0\n", tail].concat();
        open_text(text, TraceFormat::Csv).unwrap().check().unwrap_err()
    };
    assert_eq!(error(b"0,1,5,\xff\n"), "flows:3: is not text in UTF-8");
    assert_eq!(error(&vec![b'0'; 1 << 20]), "flows:3: is longer than the 64 KiB a line may have");
}

#[test]
fn a_trace_that_changes_after_its_check_ends_where_it_no_longer_fits() {
    let header = "src,dst,bytes,start_ns,request\n";
    let before = format!("{header}0,1,5,0,1\n0,1,5,1,1\n0,1,5,2,\n");
    let changes = [
        ("", 0),
        ("nonsense", 0),
        (header, 0),
        ("src,dst,bytes,start_ns,request\n0,1,5,0,1\n", 1),
        ("src,dst,bytes,start_ns,request\n0,1,5,0,2\n", 0),
        ("src,dst,bytes,start_ns,request\n0,1,5,0,1\n0,1,5,0,1\n0,1,5,0,1\n", 2),
        ("src,dst,bytes,start_ns,request\n0,1,5,5,1\n0,1,5,4,1\n", 1),
    ];
    for (after, count) in changes {
        let mut reader = open_text(before.clone(), TraceFormat::Csv).unwrap();
        reader.check().unwrap();
        let mut changed = open_text(header, TraceFormat::Csv).unwrap();
        changed.with_request = true;
        changed.requests = reader.requests;
        changed.lines = Lines::new("flows", Cursor::new(after.as_bytes().to_vec()));
        if after.starts_with(header) {
            changed.rewind().unwrap();
        }
        let found = std::iter::from_fn(|| changed.flow(0)).count();
        assert_eq!(found, count, "{after:?}");
    }
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in ".*", bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        for format in [TraceFormat::Csv, TraceFormat::Hpcc, TraceFormat::Htsim] {
            let _ = flows(&text, format);
            if let Ok(mut reader) = open_text(bytes.clone(), format) {
                let _ = reader.check();
            }
        }
    }

    #[test]
    fn text_that_looks_like_a_trace_never_panics(
        request in any::<bool>(),
        csv_rows in "(h?[0-5],h?[0-5],[0-9]{0,3},[0-9.]{0,4}(,[0-9]{0,2})?\n){0,8}",
        hpcc_rows in "[0-9]{1,2}\n([0-5] [0-5] 3 100 [0-9]{1,3} [0-9.]{1,4}\n){0,8}",
    ) {
        let request = if request { ",request" } else { "" };
        let _ = csv(&format!("src,dst,bytes,start_ns{request}\n{csv_rows}"));
        let _ = hpcc(&hpcc_rows);
    }

    #[test]
    fn what_is_written_is_what_arrives(
        rows in proptest::collection::vec((0u32..4, 1u32..4, 1u64..1_000_000, 0u64..1_000_000), 0..30),
    ) {
        let mut at = 0;
        let (mut text, mut hpcc_text) = ("src,dst,bytes,start_ns\n".to_string(), format!("{}\n", rows.len()));
        let mut expected = Vec::new();
        for (src, step, bytes, gap) in rows {
            let dst = (src + step) % 4;
            at += gap;
            text += &format!("h{src},h{dst},{bytes},{at}\n");
            hpcc_text += &format!("{src} {dst} 3 100 {bytes} {}.{:09}\n", at / 1_000_000_000, at % 1_000_000_000);
            expected.push((at * NS, flow(src, dst, bytes)));
        }
        prop_assert_eq!(csv(&text).unwrap(), expected.clone());
        prop_assert_eq!(hpcc(&hpcc_text).unwrap(), expected);
    }
}
