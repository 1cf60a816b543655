//! Collectives on RDMA and on TCP, beside what theory says.

mod common;

use common::*;
use onramp_sim::records::{CollectiveRecord, OperationRecord};
use onramp_sim::units::{NS, Ps, US};
use onramp_sim::{Options, Simulation};

const STAR: &str = "duration = \"1ms\"\n[network]\nkind = \"star\"\nhosts = 8\n";

fn run(mut sim: Simulation) -> (Vec<CollectiveRecord>, Vec<OperationRecord>) {
    sim.run_to_end();
    assert_eq!(counters(&sim)["unfinished"]["exchanges"], 0);
    (sim.take_collectives(), sim.take_operations())
}

fn collective(keys: &str) -> String {
    format!("\n[[traffic]]\nkind = \"collective\"\n{keys}\n")
}

/// Time that so many bytes of payload take at 100 Gb/s, with their headers.
fn at_line_rate(bytes: f64, headers: f64) -> f64 {
    bytes * (1000.0 + headers) / 1000.0 * 80.0
}

#[test]
fn a_ring_takes_what_its_steps_take() {
    for (transport, headers) in [(UNMOVED, 48.0), ("kind = \"hpcc\"\neta = 1.0", 90.0)] {
        let text = collective("operation = \"all-reduce\"\nsize = \"8MB\"\nrepeat = 2");
        let (found, _) = run(build(&format!("{STAR}{text}"), transport));
        assert_eq!(found.len(), 2);
        // 14 steps, each with an eighth of the data, which is handed on in two pieces; the last piece's way is added
        // once.
        let least = at_line_rate(8e6 * 14.0 / 8.0, headers);
        for one in &found {
            let took = one.duration_ps as f64;
            assert!(took > least && took < 1.1 * least + 14.0 * 3.0 * US as f64, "{transport}: {took} for {least}");
        }
    }
}

#[test]
fn halving_and_doubling_take_the_latency_of_their_rounds() {
    let text = collective("operation = \"all-reduce\"\nalgorithm = \"halving-doubling\"\nsize = \"8000B\"");
    let (found, _) = run(build(&format!("{STAR}{text}"), UNMOVED));
    // Each message goes over two links of a microsecond; halves have four packets, quarters two, eighths one.
    let packets = |n: u64| 2 * US + (n + 1) * 1048 * 8 * NS / 100;
    let expected: Ps = [4, 2, 1, 1, 2, 4].map(packets).iter().sum();
    // Acknowledgements take their turns with data.
    let took = found[0].duration_ps;
    assert!((expected..expected + 12 * 48 * 8 * NS / 100).contains(&took), "{took} for {expected}");
}

#[test]
fn messages_are_those_of_the_collectives_between_their_beginning_and_end() {
    // Without noise: the first message begins with its collective.
    let keys = "algorithm = \"halving-doubling\"\nsize = \"8000B\"\nrepeat = 3\nnoise = \"0us\"";
    let text = collective(&format!("operation = \"all-reduce\"\n{keys}"));
    for transport in [UNMOVED, "kind = \"dctcp-tcp\""] {
        let mut sim = build_with(&format!("{STAR}{text}"), transport, &[("measure.messages", "true")]);
        sim.run_to_end();
        let (messages, collectives) = (sim.take_messages(), sim.take_collectives());
        assert!(messages.is_sorted_by_key(|message| message.start_ps + message.duration_ps));
        assert!(sim.take_messages().is_empty(), "each is taken once");
        for one in &collectives {
            let own: Vec<_> = messages.iter().filter(|message| message.collective == Some(one.number)).collect();
            // Eight ranks send in six rounds, 1.75 times the data each.
            assert_eq!((own.len(), own.iter().map(|m| m.bytes).sum::<u64>()), (48, 8 * 14_000), "{transport}");
            let end = own.iter().map(|m| m.start_ps + m.duration_ps).max();
            assert_eq!(own.iter().map(|m| m.start_ps).min(), Some(one.start_ps));
            assert_eq!(end, Some(one.start_ps + one.duration_ps));
            assert!(own.iter().all(|m| m.duration_ps > 2 * US && m.src != m.dst && m.traffic == 0));
        }
        assert_eq!(messages.len(), 48 * collectives.len());
        let mut without = build(&format!("{STAR}{text}"), transport);
        without.run_to_end();
        assert_eq!((without.take_messages(), without.take_collectives()), (vec![], collectives));
    }
}

#[test]
fn messages_of_a_warm_up_are_left_out_and_requests_are_of_no_collective() {
    let text = "\n[[traffic]]\nkind = \"rpc\"\nfrom = [\"h0\"]\nto = [\"h1\"]\nrequest = \"100B\"\nresponse = \"5KB\"\ndepth = 1\n";
    let set = [("measure.messages", "true"), ("warmup", "150us"), ("duration", "300us")];
    let mut sim = build_with(&format!("{STAR}{text}"), UNMOVED, &set);
    sim.run_to_end();
    let (messages, exchanges) = (sim.take_messages(), sim.take_exchanges());
    let answers = messages.iter().filter(|m| (m.src, m.dst, m.bytes) == (1, 0, 5000)).count();
    let requests = messages.iter().filter(|m| (m.src, m.dst, m.bytes) == (0, 1, 100)).count();
    assert_eq!(requests, exchanges.len());
    // The answer to a request of the warm-up may have begun after it.
    assert!(answers == requests || answers == requests + 1, "{answers} {requests}");
    assert_eq!(answers + requests, messages.len());
    assert!(requests > 10 && messages.iter().all(|message| message.collective.is_none()));
}

#[test]
fn rings_of_a_server_use_all_of_its_nics() {
    let network = "duration = \"1ms\"\n[network]\nkind = \"servers\"\nservers = 4\ngpus = 4\nspines = 4\n";
    let busbw = |more: &str| {
        let text = collective(&format!("operation = \"all-reduce\"\nsize = \"16MiB\"\n{more}"));
        let transport = "kind = \"dcqcn\"\nmin_rate = \"400Gbps\"";
        run(build(&format!("{network}{text}"), transport)).0[0].busbw
    };
    // Four NICs of 50 GB/s, less headers, and the first pieces' way around the ring.
    let full = 200.0 / 1.048;
    let (all, one) = (busbw(""), busbw("channels = 1"));
    assert!(all > 0.85 * full && all < full, "{all} of {full}");
    assert!(one > 0.85 * full / 4.0 && one < full / 4.0, "{one}");
    // Inside a server NVLink counts.
    let inside = busbw("group = 4\nchannels = 4");
    assert!(inside > 0.85 * 450.0 / 1.048 && inside < 450.0, "{inside}");
}

#[test]
fn ranks_compute_on_streams_and_the_last_one_is_named() {
    let text =
        collective("operation = \"all-to-all\"\nsize = \"80KB\"\ncompute = \"30us\"\nrepeat = 3\nstart = \"5us\"");
    let (found, operations) = run(build(&format!("{STAR}{text}"), UNMOVED));
    assert_eq!(operations.len(), 8 * 2 * 3);
    let computed: Vec<_> = operations.iter().filter(|o| o.kind == 0).collect();
    assert!(computed.iter().all(|o| o.duration_ps == 30 * US));
    assert_eq!(computed.iter().map(|o| o.start_ps).min(), Some(5 * US));
    for (number, one) in (0..).zip(&found) {
        assert_eq!((one.number, one.ranks, one.bytes), (number, 8, 80_000));
        let part = |o: &&OperationRecord| o.collective == Some(number);
        let end = |o: &OperationRecord| o.start_ps + o.duration_ps;
        let last = operations.iter().filter(part).max_by_key(|o| end(o)).unwrap();
        assert_eq!(end(last), one.start_ps + one.duration_ps);
    }
}

#[test]
fn cells_and_threads_change_nothing() {
    let network =
        "duration = \"300us\"\n[network]\nkind = \"leaf-spine\"\nleaves = 3\nspines = 2\nhosts_per_leaf = 4\n";
    let background = "\n[[traffic]]\nkind = \"background\"\nworkload = \"FB_Hadoop\"\nload = 0.4\n";
    let ring =
        collective("operation = \"all-reduce\"\nsize = \"1MB\"\nqueue_pairs = 2\ngroup = 4\nstride = 3\nrepeat = 2");
    let trees =
        collective("operation = \"all-reduce\"\nalgorithm = \"double-binary-tree\"\nsize = \"300KB\"\nstart = \"7us\"");
    let text = format!("{network}{background}{ring}{trees}");
    for transport in ["kind = \"dcqcn\"", "kind = \"swift\"", "kind = \"cubic\""] {
        let run = |one_cell, threads| {
            let options = Options { one_cell, ..Options::default() };
            let mut sim =
                build_as(&options, &text, transport, &[("onramp.enabled", "true"), ("measure.messages", "true")]);
            sim.set_threads(threads);
            sim.run_to_end();
            assert_eq!(counters(&sim)["unfinished"]["exchanges"], 0);
            (sim.take_collectives(), sim.take_operations(), sim.take_messages(), sim.take_flows(), counters(&sim))
        };
        let alone = run(true, 1);
        assert_eq!((alone.0.len(), alone.1.len()), (3 * 2 + 1, 12 * 2 + 12));
        assert!(run(false, 1) == alone && run(false, 2) == alone, "{transport}");
    }
}

#[test]
fn servers_in_cells_change_nothing() {
    let network = "duration = \"1ms\"\n[network]\nkind = \"servers\"\nspines = 3\n";
    let rings = collective("operation = \"all-reduce\"\nsize = \"1MB\"");
    let direct = collective("operation = \"all-to-all\"\nsize = \"400KB\"\nstart = \"3us\"");
    for transport in ["kind = \"dcqcn\"", "kind = \"nscc\""] {
        let run = |one_cell, threads| {
            let options = Options { one_cell, ..Options::default() };
            let mut sim =
                build_as(&options, &format!("{network}{rings}{direct}"), transport, &[("measure.messages", "true")]);
            // 128 GPUs in two cells, and the switches between servers.
            assert_eq!(sim.cells() > 2, !one_cell);
            sim.set_threads(threads);
            // In steps that end while packets cross from cell to cell and nothing else is due.
            let mut messages = Vec::new();
            while !sim.run(u64::MAX, if one_cell { u64::MAX } else { 1000 }) {
                messages.extend(sim.take_messages());
            }
            messages.extend(sim.take_messages());
            (sim.take_collectives(), sim.take_operations(), messages, counters(&sim))
        };
        let alone = run(true, 1);
        assert_eq!(alone.0.len(), 2);
        assert!(run(false, 1) == alone && run(false, 2) == alone, "{transport}");
    }
}

#[test]
fn a_job_may_take_longer_than_the_duration_has_it() {
    let job = |compute: &str| {
        let text = format!(
            "{STAR}{}[transport]\nkind = \"dcqcn\"\n",
            collective(&format!("operation = \"all-reduce\"\nsize = \"8MB\"\ncompute = \"{compute}\"\nrepeat = 3"))
        );
        onramp_sim::Scenario::load(&text, "s.toml", std::path::Path::new("/"), &[]).unwrap().0.time_limit.unwrap().0
    };
    // A hundred times what a rank computes and sends: twice 8 MB at 100 Gb/s are 1.28 ms.
    let ms = 1000 * US;
    assert_eq!([job("0ps"), job("20ms"), job("1000s")], [1000 * ms, 300 * (20 * ms + 1280 * US), 3_600_000 * ms]);
}

#[test]
fn a_trace_of_messages_takes_what_its_path_takes() {
    let file = TempFile::new(
        "num_ranks 3\nrank 0 {\na: calc 1000\nb: send 5000b to 1\nb requires a\n}\n\
         rank 1 {\na: recv 5000b from 0\nb: calc 500\nc: send 1000b to 2 tag 1\nb requires a\nc requires b\n}\n\
         rank 2 {\nrecv 1000b from 1 tag 1\n}\n",
    );
    let path = file.0.display();
    let text = format!("{STAR}\n[[traffic]]\nkind = \"program\"\nformat = \"goal\"\nfile = \"{path}\"\n");
    let (_, operations) = run(build(&text, UNMOVED));
    let packets = |n: u64| 2 * US + (n + 1) * 1048 * 8 * NS / 100;
    let last = operations.iter().find(|o| o.rank == 2).unwrap();
    let expected = US + packets(5) + 500 * NS + packets(1);
    // The acknowledgement of the first message may go before the second.
    let took = last.start_ps + last.duration_ps;
    assert!((expected..=expected + 2 * 48 * 8 * NS / 100).contains(&took), "{took} for {expected}");
}

#[test]
fn a_message_that_irequires_another_operation_leaves_when_that_has_begun() {
    let start = |second: &str, lines: [&str; 2]| {
        let file = TempFile::new(&format!(
            "num_ranks 2\nrank 0 {{\na: calc 100000\n{second}\nc: send 100b to 1 tag 7\n{}\n}}\n\
             rank 1 {{\nrecv 100b from 0 tag 7\n}}\n",
            lines.join("\n")
        ));
        let path = file.0.display();
        let text = format!("{STAR}\n[[traffic]]\nkind = \"program\"\nformat = \"goal\"\nfile = \"{path}\"\n");
        let (_, operations) = run(build(&text, UNMOVED));
        operations.iter().find(|o| o.kind == 1).unwrap().start_ps
    };
    let (after, with) = ("b requires a", "c irequires b");
    for lines in [[after, with], [with, after]] {
        assert_eq!(start("b: calc 50000 cpu 1", lines), 100 * US, "{lines:?}");
    }
    // The processor is busy with the first.
    assert_eq!(start("b: calc 50000 cpu 0", ["", with]), 100 * US);
    assert_eq!(start("b: calc 50000 cpu 1", ["", with]), 0);
}

#[test]
fn a_pipeline_takes_its_passes_and_its_bubble() {
    // Four stages, eight microbatches, passes of 1 ms and 2 ms: 11 of both. Messages add what ways of 3 us add.
    let pass =
        "embedding_layer -1 0 NONE 0 0 NONE 0 0 NONE 0 0\nattention -1 1000000 NONE 0 2000000 NONE 0 0 NONE 0 0\n";
    let file = TempFile::new(&format!(
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD pp: 4 ga: 8 all_gpus: 4 pp_comm: 1000\n16\n{}",
        pass.repeat(8)
    ));
    let path = file.0.display();
    let text = format!("{STAR}\n[[traffic]]\nkind = \"program\"\nformat = \"simai\"\nfile = \"{path}\"\n");
    let (_, operations) = run(build(&text, UNMOVED));
    let took = operations.iter().map(|o| o.start_ps + o.duration_ps).max().unwrap();
    let passes = 11 * 3000 * US;
    assert!((passes..passes + 2 * 11 * 3 * US).contains(&took), "{took} for {passes}");
    let sent = operations.iter().filter(|o| o.kind == 1).map(|o| o.bytes).sum::<u64>();
    assert_eq!(sent, 2 * 3 * 8 * 1000);
}

#[test]
fn a_connection_that_a_trigger_starts_waits_for_the_last_acknowledgement() {
    let file = TempFile::new(
        "Nodes 3\nConnections 2\nTriggers 1\n0->1 start 1000000 size 5000 send_done_trigger 1\n\
         0->2 trigger 1 size 1000\ntrigger id 1 oneshot\n",
    );
    let path = file.0.display();
    let text = format!("{STAR}\n[[traffic]]\nkind = \"program\"\nformat = \"htsim\"\nfile = \"{path}\"\n");
    let (_, operations) = run(build(&text, UNMOVED));
    let packets = |n: u64, size: u64| 2 * US + (n + 1) * size * 8 * NS / 100;
    let last = operations.iter().find(|o| o.rank == 2).unwrap();
    let expected = US + packets(5, 1048) + packets(1, 49) + packets(1, 1048);
    // The acknowledgements of messages may go before the next one.
    let took = last.start_ps + last.duration_ps;
    assert!((expected..=expected + 4 * 48 * 8 * NS / 100).contains(&took), "{took} for {expected}");
}

#[test]
fn recycled_entropy_spreads_queue_pairs_that_ecmp_puts_on_one_path() {
    // Eight hosts send across two leaves with as many spines as hosts: that fits if no two share a path.
    let network = "duration = \"1ms\"\n[network]\nkind = \"leaf-spine\"\nleaves = 2\nspines = 8\nhosts_per_leaf = 8\n\
                   fabric_rate = \"120Gbps\"\n[host]\nrecovery = { kind = \"selective-repeat\", reorder = 64 }\n";
    let ring = collective("operation = \"all-to-all\"\ngroup = 2\nstride = 8\nsize = \"8MB\"");
    let took = |entropy: &str| {
        let text = format!("{network}entropy = {{ kind = \"{entropy}\" }}\n{ring}");
        let (found, _) = run(build(&text, "kind = \"dcqcn\"\nwindow = true"));
        assert_eq!(found.len(), 8);
        found.iter().map(|c| c.duration_ps).max().unwrap() as f64
    };
    let least = at_line_rate(4e6, 48.0);
    let (ecmp, spray, reps) = (took("flow"), took("spray"), took("reps"));
    assert!(ecmp > 1.5 * least, "two flows share a path: {ecmp} for {least}");
    assert!(reps < 1.15 * least && spray < 1.5 * least, "{reps}, {spray} for {least}");
}
