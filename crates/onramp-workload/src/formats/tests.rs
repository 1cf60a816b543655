use super::chakra::{Attribute, Bools, Metadata, Node, Value};
use super::*;
use crate::graph::{Graph, Sending};
use onramp_config::units::{NS, US};
use proptest::prelude::*;
use prost::Message as _;

fn op(kind: Kind, after: &[u32]) -> Op {
    Op::new(kind, after.to_vec())
}

fn on(stream: u32, time: Ps) -> Kind {
    Kind::Compute { time, stream: Some(stream) }
}

const GOAL: &str = "// Two ranks.\nnum_ranks 2\n\nrank 0 {\nl1: calc 100 cpu 1\nl2: send 10b to 1 tag 7 cpu 0 nic 0\n\
    l3: recv 8b from 1\nl2 requires l1\nl3 irequires l2\n}\nrank 1 {\n\nrecv 10b from 0 tag 7 // the first\nsend 8b to 0\n}\n";

fn two_ranks() -> Vec<Vec<Op>> {
    let send = |to, bytes, tag| Kind::Send { to, bytes, tag };
    let receive = |from, bytes, tag| Kind::Receive { from, bytes, tag };
    vec![
        vec![op(on(1, 100 * NS), &[]), op(send(1, 10, 7), &[0]), Op { begun: vec![1], ..op(receive(1, 8, 0), &[]) }],
        vec![op(receive(0, 10, 7), &[]), op(send(0, 8, 0), &[])],
    ]
}

#[test]
fn goal_is_read_as_it_is_meant() {
    let read = goal::parse_text(GOAL).unwrap();
    assert_eq!((read.ranks, read.left_out), (two_ranks(), vec![]));
    let nic = goal::parse_text("num_ranks 1\nrank 0 {\nsend 1b to 0 nic 1\nrecv 1b from 0\n}").unwrap();
    assert_eq!(nic.left_out, ["which NIC a message leaves by (nic): the network chooses it"]);
}

#[test]
fn wrong_goal_names_the_line() {
    let wrong = |text: &str| goal::parse_text(text).unwrap_err();
    assert_eq!(wrong(""), "file:1: is not \"num_ranks\" and their number");
    assert_eq!(wrong("num_ranks 0"), "file:1: 0 ranks are outside 1 to 2097152");
    assert_eq!(wrong("num_ranks 1\nrank 1 {\n}"), "file:2: rank 1 is not below num_ranks, 1");
    assert_eq!(wrong("num_ranks 1\nrank 0 {\n}\nrank 0 {"), "file:4: rank 0 is there twice");
    assert_eq!(wrong("num_ranks 1\nrnk 0 {"), "file:2: \"rnk 0 {\" is not \"rank N {\"");
    let inside = |line: &str| wrong(&format!("num_ranks 2\nrank 0 {{\na: calc 1\n{line}\n}}"));
    assert_eq!(inside("send 8 to 1"), "file:4: \"8\" is not a size such as \"8b\"");
    assert_eq!(inside("send 8b 1"), "file:4: \"1\" is not \"to\"");
    assert_eq!(inside("send 8b to -1"), "file:4: \"-1\" is not a rank, a whole number");
    let wildcard = "wildcards are not simulated, write the one that is meant";
    assert_eq!(inside("recv 8b from -1"), format!("file:4: from -1 receives from any rank: {wildcard}"));
    assert_eq!(inside("recv 8b from 1 tag -1"), format!("file:4: tag -1 stands for any tag: {wildcard}"));
    assert_eq!(inside("send 8b to 1 tag 4294967295"), format!("file:4: tag -1 stands for any tag: {wildcard}"));
    let large = "1000000000001 bytes are more than the 1000000000000 of a message";
    assert_eq!(inside("send 1000000000001b to 1"), format!("file:4: {large}"));
    assert_eq!(inside("recv 1000000000001b from 1"), format!("file:4: {large}"));
    assert_eq!(inside("a: calc 2"), "file:4: \"a\" is the label of two operations");
    assert_eq!(inside("a requires b"), "file:4: \"b\" is no label");
    assert_eq!(inside("a needs a"), "file:4: \"needs\" is not \"requires\" or \"irequires\"");
    assert_eq!(inside("b: wait 3"), "file:4: \"wait\" is not \"calc\", \"send\" or \"recv\"");
    assert_eq!(inside("calc 3 now"), "file:4: \"now\" is not known here");
    assert_eq!(wrong("num_ranks 1\nrank 0 {\ncalc 1"), "file:3: ends within a rank: \"}\" is missing");
}

#[test]
fn comments_of_goal_end_with_their_line_or_their_mark() {
    let (first, rest) = GOAL.split_once("l1:").unwrap();
    let first = first.replace("// Two", "/* Two // */ // of /*\n/*").replace("ranks.", "ranks.\n*/");
    let text = format!("{first}/* l0: calc 7\n}} */l1:{}", rest.replace("8b from", "8 b/**/from"));
    assert_eq!(goal::parse_text(&text).unwrap().ranks, two_ranks());
    let wrong = |text: &str| goal::parse_text(text).unwrap_err();
    assert_eq!(
        wrong("/* two\nlines */ num_ranks 1\nrank 0 { /*\n\n*/\nwait\n}"),
        "file:6: ends where \"requires\" belongs"
    );
    let endless = "a comment begins here and does not end: \"*/\" is missing";
    assert_eq!(wrong("num_ranks 1\nrank 0 {\n/*/ calc 1\n}\n"), format!("file:3: {endless}"));
    assert_eq!(wrong("num_ranks 1\n/**//* // */ /*"), format!("file:2: {endless}"));
}

/// Operations as LogGOPSim's txt2bin writes them.
fn binary(ranks: &[Vec<Op>]) -> Vec<u8> {
    let mut parts = Vec::new();
    for ops in ranks {
        let mut part = Vec::new();
        let roots: Vec<u32> = (0..)
            .zip(ops)
            .filter(|(_, op)| op.after.is_empty() && op.begun.is_empty())
            .map(|(number, _)| number)
            .collect();
        for number in [ops.len() as u32, roots.len() as u32].into_iter().chain(roots) {
            part.extend(number.to_le_bytes());
        }
        // Those that wait for an operation's end, then for its start.
        let users = |of: u32| -> [Vec<u32>; 2] {
            [false, true].map(|begun| {
                let waits = |(number, op): (u32, &Op)| {
                    let before = if begun { &op.begun } else { &op.after };
                    vec![number; before.iter().filter(|&&before| before == of).count()]
                };
                (0u32..).zip(ops).flat_map(waits).collect()
            })
        };
        let mut before = 0;
        for (number, op) in (0u32..).zip(ops) {
            let (kind, peer, size, tag, stream) = match op.kind {
                Kind::Send { to, bytes, tag } => (1u8, to, bytes, tag, 0),
                Kind::Receive { from, bytes, tag } => (2, from, bytes, tag, 0),
                Kind::Compute { time, stream } => (3, 0, time / NS, 0, stream.unwrap() as u8),
                Kind::Collective(_) => unreachable!(),
            };
            part.extend(((op.after.len() + op.begun.len()) as u32).to_le_bytes());
            part.push(kind);
            part.extend(peer.to_le_bytes());
            part.extend(size.to_le_bytes());
            part.extend(tag.to_le_bytes());
            part.extend([stream, 0]);
            for users in users(number) {
                let count = users.len() as u32;
                part.extend([count, before].map(u32::to_le_bytes).concat());
                before += count;
            }
        }
        let users = (0..ops.len() as u32).flat_map(users).flatten();
        users.for_each(|user| part.extend(u32::to_le_bytes(user)));
        parts.push(part);
    }
    let mut file = 4223u64.to_le_bytes().to_vec();
    file.extend((ranks.len() as u32).to_le_bytes());
    file.extend([2, 1]);
    let mut at = 4 + 2 + 16 * ranks.len() as u64;
    for part in &parts {
        file.extend(at.to_le_bytes());
        at += part.len() as u64;
        file.extend(at.to_le_bytes());
    }
    [file, parts.concat()].concat()
}

#[test]
fn binary_goal_says_the_same() {
    let bytes = binary(&two_ranks());
    assert_eq!(goal_binary::parse(&bytes).unwrap().ranks, two_ranks());
    let wrong = |bytes: &[u8]| goal_binary::parse(bytes).unwrap_err();
    assert_eq!(wrong(&[7; 20]), (0, "is not GOAL's cookie, 4223".into()));
    assert_eq!(wrong(&bytes[..10]), (8, "the file ends within a number".into()));
    let mut far = bytes.clone();
    far[14] = 0xff;
    far[15] = 0xff;
    assert_eq!(wrong(&far), (14, "the part of rank 0 begins behind the end of the file".into()));
    let mut many = bytes.clone();
    many[46] = 0xff;
    assert_eq!(wrong(&many), (46, "255 operations are more than there is room for".into()));
    // The first operation is behind the counts and one root; its peer, size and tag behind 5, 9 and 17 bytes.
    let second = 46 + 12 + 39;
    let changed = |at: usize, with: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[second + at..][..with.len()].copy_from_slice(with);
        wrong(&bytes)
    };
    let large = format!("{} bytes are more than the 1000000000000 of a message", u64::MAX);
    assert_eq!(changed(9, &[0xff; 8]), (second, large));
    let wildcard = "wildcards are not simulated, write the one that is meant";
    assert_eq!(changed(17, &[0xff; 4]), (second, format!("tag -1 stands for any tag: {wildcard}")));
    let from = changed(4, &[2, 0xff, 0xff, 0xff, 0xff]);
    assert_eq!(from, (second, format!("from -1 receives from any rank: {wildcard}")));
}

const SIMAI: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 8 ga: 1 all_gpus: 8 \
    checkpoints: 0 checkpoint_initiates: 0\n2\n\
    embedding -1 10 ALLREDUCE 100 20 NONE 0 30 ALLREDUCE 5000 1\n\
    mlp -1 0 ALLTOALL_EP 9000 0 NONE 0 7 REDUCESCATTER_DP_EP 6000 1\n";

#[test]
fn simais_layers_go_forward_and_back() {
    let read = simai::parse_text(SIMAI, 3).unwrap();
    assert_eq!(
        (read.ranks.len(), read.left_out),
        (8, vec!["time after each communication (last column), up to 1 ns".into()])
    );
    let compute = |time| Kind::Compute { time: time * NS, stream: None };
    // Forward: compute, all-reduce; all-to-all. Back: weights of the second layer, and their communication beside
    // what follows; inputs of the first, then weights.
    let collectives = |rank: usize| {
        let of = |op: &Op| if let Kind::Collective(which) = op.kind { Some(which as usize) } else { None };
        let all = read.ranks[rank].iter().filter_map(of).map(|which| &read.collectives[which]);
        all.map(|c| (c.operation, c.members.to_vec(), c.bytes)).collect::<Vec<_>>()
    };
    assert_eq!(
        collectives(5),
        [
            (Operation::AllReduce, vec![4, 5], 4096),
            (Operation::AllToAll, vec![5, 7], 9000),
            (Operation::ReduceScatter, vec![1, 5], 6000),
            (Operation::AllReduce, vec![1, 3, 5, 7], 5000),
        ]
    );
    let shapes: Vec<_> = read.ranks[5]
        .iter()
        .map(|op| (if let Kind::Collective(_) = op.kind { None } else { Some(op.kind) }, op.after.clone()))
        .collect();
    assert_eq!(
        shapes,
        [
            (Some(compute(10)), vec![]),
            (None, vec![0]),
            (None, vec![1]),
            (Some(compute(7)), vec![2]),
            (None, vec![3]),
            (Some(compute(20)), vec![3]),
            (Some(compute(30)), vec![5]),
            (None, vec![6]),
        ]
    );
    assert_eq!(read.collectives.len(), 4 + 4 + 4 + 2);
}

#[test]
fn collectives_in_turn_come_after_the_one_before() {
    let read = simai::parse_text(SIMAI, 3).unwrap();
    let ops = in_turn(read.ranks[5].clone());
    let collectives: Vec<_> = ops.iter().filter(|op| matches!(op.kind, Kind::Collective(_))).collect();
    let after: Vec<_> = collectives.iter().map(|op| op.after.clone()).collect();
    // Forward they did; of the gradients of weights the second one waited for nobody.
    assert_eq!(after, [vec![0], vec![1], vec![3, 2], vec![6, 4]]);
    let (others, unchanged): (Vec<_>, Vec<_>) =
        ops.iter().zip(&read.ranks[5]).filter(|(op, _)| matches!(op.kind, Kind::Compute { .. })).unzip();
    assert_eq!(others, unchanged);
}

#[test]
fn micro_does_each_lines_collective_among_all_ranks_in_turn() {
    let text = "MICRO\n3\n\
        a -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 4096 0\n\
        b -1 1 NONE 0 1 NONE 0 1 NONE 0 0\n\
        c -1 1 ALLGATHER 7 1 NONE 0 300 ALLTOALL 8192 5 TP\nd\n";
    let read = simai::parse_text(text, 3).unwrap();
    let of = |operation, bytes| Collective { operation, members: [0, 1, 2].into(), bytes };
    assert_eq!(read.collectives, [of(Operation::AllReduce, 4096), of(Operation::AllToAll, 8192)]);
    let op = |which, after: &[u32]| Op::new(Kind::Collective(which), after.to_vec());
    assert_eq!(read.ranks, vec![vec![op(0, &[]), op(1, &[0])]; 3]);
    let told = [
        "time after each communication (last column), up to 5 ns",
        "columns behind the 12th, of 1 layers",
        "1 lines behind the 3 layers that line 2 announces",
        "computations, up to 300 ns, which MICRO does not have",
        "communication of forward and input gradient passes, which MICRO does not have",
    ];
    assert_eq!(read.left_out, told);
}

#[test]
fn wrong_simai_names_the_line() {
    let wrong = |text: &str| simai::parse_text(text, 8).unwrap_err();
    assert_eq!(
        wrong("DATA\n1\n"),
        "file:1: \"DATA\" is not simulated: \"HYBRID_TRANSFORMER_FWD_IN_BCKWD\" and \"MICRO\" are"
    );
    assert_eq!(wrong("MICRO\n2\na -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1\n"), "file:3: 1 of 2 layers are there");
    let of = |replace: &str, by: &str| wrong(&SIMAI.replace(replace, by));
    assert_eq!(
        of("all_gpus: 8", "all_gpus: 7"),
        "file:1: 7 ranks are no multiple of 2 (tensor) times 2 (expert parallel)"
    );
    assert_eq!(of("\n2\n", "\nx\n"), "file:2: \"x\" is not the number of layers");
    assert_eq!(of("\n2\n", "\n3\n"), "file:4: 2 of 3 layers are there");
    assert_eq!(of("\n2\n", "\n0\n"), "file:2: 0 layers are too few, at least 1 is needed");
    for count in ["model_parallel_NPU_group: 2", "ep: 2", "pp: 1", "vpp: 8", "ga: 1", "all_gpus: 8"] {
        let key = count.split_once(':').unwrap().0;
        let wrong = of(count, &format!("{key}: 0"));
        assert_eq!(wrong, format!("file:1: {key}: 0 is too few, at least 1 is needed"));
    }
    assert_eq!(
        of("ALLTOALL_EP", "ALLTONONE"),
        "file:4: \"ALLTONONE\" is no communication that is known, such as \"ALLREDUCE\""
    );
    assert_eq!(of("9000 0 NONE", "9000 -1 NONE"), "file:4: \"-1\" is not a time, a whole number");
    assert_eq!(of("pp: 1", "pp: 2"), "file:1: pp: 2 needs a line \"embedding_layer\" for each of ga: 1: there are 0");
    assert_eq!(
        of("pp: 1", "pp: 3"),
        "file:1: 8 ranks are no multiple of 2 (tensor) times 2 (expert parallel) times 3 (pipeline)"
    );
    assert_eq!(of("checkpoints: 0", "checkpoints: 2 1"), "file:1: checkpoints: 2 layers are announced, and 1 named");
    assert_eq!(of("checkpoints: 0", "checkpoints: 1 2"), "file:1: checkpoints: 2 is none of the 2 layers");
    assert_eq!(
        of("initiates: 0", "initiates: 1 1"),
        "file:1: checkpoint_initiates: no checkpoint is between layer 1 and the one before that initiates"
    );
    assert_eq!(of("ga: 1", "ga: 1.5"), "file:1: ga: 1.5 is not a whole number below 2^32");
}

#[test]
fn what_of_simais_files_is_not_simulated_is_told() {
    let told = |replace: &str, by: &str| simai::parse_text(&SIMAI.replace(replace, by), 8).unwrap().left_out;
    assert_eq!(told("5000 1", "5000 100")[0], "time after each communication (last column), up to 100 ns");
    assert_eq!(told("mlp -1", "mlp 0")[1], "dependencies of 1 layers (second column): they go in order");
    assert_eq!(told("ga: 1", "ga: 1 cp: 2")[1], "\"cp\" of the first line");
    assert_eq!(told("5000 1", "5000 1 TP 7")[1], "columns behind the 12th, of 1 layers");
    assert_eq!(told("\n2\n", "\n1\n")[1], "1 lines behind the 1 layers that line 2 announces");
}

#[test]
fn a_layer_that_initiates_repeats_the_forward_pass_from_its_checkpoint() {
    let layers: String = (1..=4).map(|i| format!("l -1 {i} NONE 0 {i}0 NONE 0 {i}00 NONE 0 0\n")).collect();
    let text = format!("HYBRID_TRANSFORMER_FWD_IN_BCKWD checkpoints: 2 2 0 checkpoint_initiates: 2 1 3\n4\n{layers}");
    let read = simai::parse_text(&text, 1).unwrap();
    let time = |op: &Op| if let Kind::Compute { time, .. } = op.kind { time / NS } else { 0 };
    let times: Vec<u64> = read.ranks[0].iter().map(time).collect();
    // Layer 2 again before the gradients of layer 3, layer 0 again before those of layer 1.
    assert_eq!(times, [1, 2, 3, 4, 3, 40, 400, 30, 300, 1, 20, 200, 10, 100]);
}

/// A file of SimAI: microbatches with an embedding, transformer layers of two lines and a head.
fn of_microbatches(first: &str, microbatches: usize, layers: usize) -> String {
    let layer =
        "attention_column -1 100 NONE 0 100 NONE 0 100 NONE 0 0\nmlp_row -1 300 NONE 0 300 NONE 0 300 NONE 0 0\n";
    let of = |layers| format!("embedding_layer -1 0 NONE 0 0 NONE 0 0 NONE 0 0\n{}", layer.repeat(layers));
    let lines = of(layers).repeat(microbatches);
    let count = lines.lines().count() + 2;
    format!(
        "{} {first}\n{count}\ngrad_param -1 0 NONE 0 0 NONE 0 0 REDUCESCATTER 5000 0\n{lines}\
         optimizer1 -1 0 ALLREDUCE 4 0 NONE 0 0 NONE 0 0\n",
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
    )
}

/// Time at which each rank is done, in a network that takes none.
fn without_network(ranks: &[Vec<Op>]) -> Vec<u64> {
    let mut ends: Vec<Vec<u64>> = vec![vec![]; ranks.len()];
    let mut sent = std::collections::BTreeMap::new();
    let all: usize = ranks.iter().map(Vec::len).sum();
    while ends.iter().map(Vec::len).sum::<usize>() < all {
        let before = sent.len();
        for (rank, ops) in (0..).zip(ranks) {
            let ends = &mut ends[rank as usize];
            while let Some(Op { kind, after, .. }) = ops.get(ends.len()) {
                let begin = after.iter().map(|&op| ends[op as usize]).max().unwrap_or_default();
                let end = match *kind {
                    Kind::Compute { time, .. } => begin + time / NS,
                    Kind::Send { to, tag, .. } => {
                        assert_eq!(sent.insert((rank, to, tag), begin), None, "a tag is there once");
                        begin
                    }
                    Kind::Receive { from, tag, .. } => match sent.get(&(from, rank, tag)) {
                        Some(at) => begin.max(*at),
                        None => break,
                    },
                    Kind::Collective(_) => begin,
                };
                ends.push(end);
            }
        }
        assert!(sent.len() > before || ends.iter().map(Vec::len).sum::<usize>() == all, "waits for ever");
    }
    ends.iter().map(|ends| ends.iter().copied().max().unwrap_or_default()).collect()
}

#[test]
fn a_pipeline_is_idle_for_what_theory_says() {
    // A layer takes 400 ns forward and 800 ns back.
    let took = |stages: usize, chunks: usize, microbatches: usize, layers: usize| {
        let first = format!("pp: {stages} vpp: {chunks} ga: {microbatches} all_gpus: {stages} pp_comm: 1000");
        let read = simai::parse_text(&of_microbatches(&first, microbatches, layers), 1).unwrap();
        assert_eq!(read.left_out, Vec::<String>::new());
        *without_network(&read.ranks).iter().max().unwrap() as usize
    };
    for (stages, chunks, microbatches) in
        [(2, 1, 1), (4, 1, 8), (8, 1, 3), (4, 1, 64), (4, 2, 8), (2, 8, 2), (8, 4, 32)]
    {
        let layers = 2 * chunks;
        let busy = microbatches * layers * 1200;
        let idle = (stages - 1) * layers / chunks * 1200;
        assert_eq!(took(stages, chunks, microbatches, layers), busy + idle, "{stages} {chunks} {microbatches}");
    }
}

#[test]
fn stages_hand_on_each_microbatch_once_both_ways() {
    let text = of_microbatches("model_parallel_NPU_group: 2 pp: 3 vpp: 2 ga: 6 all_gpus: 12 pp_comm 7000.0", 6, 4);
    let read = simai::parse_text(&text, 1).unwrap();
    assert_eq!(read.ranks.len(), 12);
    let of = |which: fn(&Kind) -> Option<u64>| -> Vec<u64> {
        let sum = |ops: &Vec<Op>| ops.iter().filter_map(|op| which(&op.kind)).sum();
        read.ranks.iter().map(sum).collect()
    };
    let sent = of(|kind| if let Kind::Send { bytes, .. } = kind { Some(*bytes) } else { None });
    let received = of(|kind| if let Kind::Receive { bytes, .. } = kind { Some(*bytes) } else { None });
    // The first and the last stage have one neighbour less for one of their two chunks.
    let per_rank = |hops: u64| hops * 6 * 7000;
    assert_eq!(sent, [[per_rank(3); 4], [per_rank(4); 4], [per_rank(3); 4]].concat());
    assert_eq!(sent, received);
    // Rank 5, the second of stage 1, talks with those in the same place, and all share gradients within their stage.
    let peers: std::collections::BTreeSet<u32> = read.ranks[5]
        .iter()
        .filter_map(|op| if let Kind::Send { to, .. } = op.kind { Some(to) } else { None })
        .collect();
    assert_eq!(peers.into_iter().collect::<Vec<_>>(), [1, 9]);
    let groups: Vec<_> = read.collectives.iter().map(|c| (c.operation, c.members.to_vec())).collect();
    assert!(groups.contains(&(Operation::ReduceScatter, vec![5, 7])), "{groups:?}");
    assert!(groups.contains(&(Operation::AllReduce, vec![4, 5])), "{groups:?}");
    assert_eq!(groups.len(), 6 + 6);
}

#[test]
fn the_embedding_is_the_first_stages_and_the_head_the_last_ones() {
    let line = |name: &str, time: u64| format!("{name} -1 {time} NONE 0 {time} NONE 0 0 NONE 0 0\n");
    let microbatch = [("embedding_layer", 1), ("attention_layer", 2), ("mlp_layer", 3), ("final_column", 4)];
    let microbatch: String = microbatch.map(|(name, time)| line(name, time)).concat();
    let text = format!(
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD pp: 3 ga: 2 pp_comm: 1\n11\n{}{microbatch}{microbatch}{}{}",
        line("embedding_grads", 5),
        line("cross_entropy1", 6),
        line("optimizer1", 7)
    );
    let read = simai::parse_text(&text, 3).unwrap();
    let times = |rank: usize| -> Vec<u64> {
        let time = |op: &Op| if let Kind::Compute { time, .. } = op.kind { Some(time / NS) } else { None };
        read.ranks[rank].iter().filter_map(time).collect()
    };
    assert_eq!(times(0), [5, 1, 2, 3, 1, 2, 3, 3, 2, 1, 3, 2, 1, 7, 7, 5]);
    assert_eq!(times(1), [2, 3, 2, 3, 3, 2, 3, 2, 7, 7]);
    assert_eq!(times(2), [5, 2, 3, 4, 6, 6, 4, 3, 2, 2, 3, 4, 6, 6, 4, 3, 2, 7, 7, 5]);
}

#[test]
fn chunks_that_do_not_fit_are_told_and_run_as_one() {
    let told = |first: &str, microbatches, layers| {
        let text = of_microbatches(&format!("pp: 2 all_gpus: 2 {first}"), microbatches, layers);
        simai::parse_text(&text, 1).unwrap().left_out
    };
    assert_eq!(
        told("vpp: 2 ga: 3 pp_comm: 5", 3, 2),
        ["chunks of the stages' layers (vpp: 2): ga: 3 is no multiple of pp: 2"]
    );
    assert_eq!(
        told("vpp: 3 ga: 2 pp_comm: 5", 2, 2),
        ["chunks of the stages' layers (vpp: 3), of which the layers are no multiple"]
    );
    assert_eq!(told("ga: 2", 2, 2), ["bytes between stages: pp_comm does not say how many"]);
}

/// Node 0 sends to two others in turn; when both have it, nodes 1 and 2 send to node 3.
const HTSIM: &str = "# In turn, then together.\nNodes 4\nConnections 4\nTriggers 2\nFailures 0\n\
    0->1 id 1 start 5000 size 100 send_done_trigger 1 recv_done_trigger 2\n0->2 id 2 trigger 1 size 200 recv_done_trigger 2\n\
    1->3 id 3 trigger 2 size 300\n2->3 id 4 trigger 2 size 300\ntrigger id 1 oneshot\ntrigger id 2 barrier count 2\n";

#[test]
fn htsims_triggers_start_connections() {
    let read = htsim::parse_text(HTSIM).unwrap();
    let told = "2 activations of other nodes at once: a message of 1 byte takes each there";
    assert_eq!(read.left_out, [told]);
    let send = |to, bytes, tag| Kind::Send { to, bytes, tag };
    let receive = |from, bytes, tag| Kind::Receive { from, bytes, tag };
    let none = Kind::Compute { time: 0, stream: None };
    // Tags 0 and 2 to 4 are connections, 1 the acknowledgement of the first.
    assert_eq!(
        read.ranks[0],
        [
            op(Kind::Compute { time: 5000, stream: None }, &[]),
            op(send(1, 100, 0), &[0]),
            op(receive(1, 1, 1), &[]),
            op(send(2, 200, 2), &[2]),
        ]
    );
    // The barrier is at node 1, which is told by node 2 and tells it.
    assert_eq!(
        read.ranks[1],
        [
            op(receive(0, 100, 0), &[]),
            op(send(0, 1, 1), &[0]),
            op(send(3, 300, 3), &[4]),
            op(receive(2, 1, 5), &[]),
            op(none, &[0, 3]),
            op(send(2, 1, 6), &[4]),
        ]
    );
    let sending = Sending { chunk: 1000, queue_pairs: 1, latency: 0, rate: None, noise: 0 };
    assert!(Graph::new(read.ranks, vec![], sending).is_ok());
}

#[test]
fn a_trigger_with_several_shots_starts_one_connection_each_time() {
    let text = "Nodes 2\nConnections 4\nTriggers 1\n0->1 start 0 size 1 send_done_trigger 7\n\
        0->1 trigger 7 size 2 send_done_trigger 7\n0->1 trigger 7 size 3\n0->1 start 9 size 4 send_done_trigger 7\n\
        trigger id 7 multishot\n";
    let read = htsim::parse_text(text).unwrap();
    let after = |bytes: u64| {
        let op = read.ranks[0].iter().find(|op| matches!(op.kind, Kind::Send { bytes: own, .. } if own == bytes));
        op.unwrap().after.iter().map(|&before| read.ranks[0][before as usize].kind).collect::<Vec<_>>()
    };
    // The three activations are messages to itself, of which the third starts nothing.
    let tag = 7;
    assert_eq!(after(2), [Kind::Receive { from: 0, bytes: 0, tag }]);
    assert_eq!(after(3), [Kind::Receive { from: 0, bytes: 0, tag }]);
    assert_eq!(read.ranks[0].iter().filter(|op| op.kind == Kind::Send { to: 0, bytes: 0, tag }).count(), 3);
    let sending = Sending { chunk: 1000, queue_pairs: 1, latency: 0, rate: None, noise: 0 };
    assert!(Graph::new(read.ranks, vec![], sending).is_ok());
}

#[test]
fn what_of_htsims_files_is_not_simulated_is_told() {
    let text = "Nodes 2\nConnections 3\nFailures 1\nfailure switch_type AGG switch_id 3 link_id 1\n\
        0->1 start 0 size 9 prio 3\n0->1 id 2 start 1.5 size 9\n0->1 id 2 msg start 2 size 9\n";
    assert_eq!(
        htsim::parse_text(text).unwrap().left_out,
        [
            "1 failures of links: name the links in network.failed or network.slow",
            "1 priorities of connections (prio)",
            "1 connections of their own: those between the same nodes take turns on `queue_pairs`",
        ]
    );
}

#[test]
fn wrong_htsim_names_the_line() {
    let of = |replace: &str, by: &str| htsim::parse_text(&HTSIM.replacen(replace, by, 1)).unwrap_err();
    assert_eq!(of("Nodes 4", "Nodes 0"), "file:2: 0 nodes are outside 1 to 2097152");
    assert_eq!(of("Nodes 4", "# none"), "file:6: \"0->1\" are not two different nodes below 0");
    assert_eq!(of("Triggers 2", "Nodes 2"), "file:4: \"Nodes\" is there twice");
    assert_eq!(of("0->1", "0-1"), "file:6: \"0-1\" is not known here: a connection is such as 0->5");
    assert_eq!(of("0->1", "1->1"), "file:6: \"1->1\" are not two different nodes below 4");
    let endless = "file:6: size 0 is a flow without end: write [[traffic]] with kind = \"long\" for it";
    assert_eq!(of("size 100", "size 0"), endless);
    assert_eq!(of("size 100", "size 1000000000001"), "file:6: size 1000000000001 is outside 1 to 1000000000000");
    assert_eq!(of("start 5000", "start soon"), "file:6: \"soon\" is no number for \"start\"");
    assert_eq!(of("start 5000", "start -1"), "file:6: start -1 is outside 0 to 1e18, in picoseconds");
    assert_eq!(of("start 5000 ", ""), "file:6: a connection has either a start or a trigger");
    assert_eq!(of("start 5000", "weight 5"), "file:6: \"weight\" is not known here");
    assert_eq!(of("1 oneshot", "1 thrice"), "file:10: \"thrice\" is not known here");
    assert_eq!(of("1 oneshot", "2 oneshot"), "file:11: trigger 2 is in line 10 already");
    assert_eq!(of(" count 2", ""), "file:11: a barrier needs a count above 0, such as \"barrier count 2\"");
    assert_eq!(of("count 2", "count 3"), "file:11: trigger 2 is activated 2 times: its barrier counts 3");
    assert_eq!(
        of("trigger 1 size", "trigger 3 size"),
        "file:7: there is no trigger 3: write a line \"trigger id 3 oneshot\""
    );
    assert_eq!(of(" send_done_trigger 1", ""), "file:10: trigger 1 is activated 0 times: a one-shot trigger once");
    assert_eq!(of("Connections 4", "Connections 5"), "file:3: Connections 5 are announced, but 4 follow: write that");
}

#[test]
fn operations_are_counted_before_they_take_memory() {
    let text = of_microbatches("pp: 2 all_gpus: 2 ga: 3000 pp_comm: 1", 3000, 1).replace("\n9002\n", "\n12002\n");
    let losses = "cross_entropy1 -1 0 NONE 0 0 NONE 0 0 NONE 0 0\n".repeat(3000);
    let wrong = simai::parse_text(&format!("{text}{losses}"), 1).unwrap_err();
    assert!(wrong.starts_with("file:1: is beyond the 67108864 operations that are possible: 2 ranks have "), "{wrong}");
    let text = of_microbatches("pp: 1 all_gpus: 8192", 1, 1).replace("\n5\n", "\n2000\n");
    let wrong = simai::parse_text(&text, 1).unwrap_err();
    let why = "8192 ranks have up to 12000 each; 5592 ranks would fit";
    assert_eq!(wrong, format!("file:2: is beyond the 67108864 operations that are possible: {why}"));
}

fn attribute(name: &str, value: Value) -> Attribute {
    Attribute { name: name.into(), value: Some(value) }
}

fn file(nodes: &[Node]) -> Vec<u8> {
    let mut bytes = Metadata { version: "0.0.4".into() }.encode_length_delimited_to_vec();
    nodes.iter().for_each(|node| bytes.extend(node.encode_length_delimited_to_vec()));
    bytes
}

fn node(id: u64, kind: i32, data: &[u64], attributes: Vec<Attribute>) -> Node {
    Node { id, name: format!("n{id}"), kind, data: data.to_vec(), attributes, ..Node::default() }
}

#[test]
fn chakras_nodes_become_operations() {
    let all_reduce = |id, data: &[u64], group: &str| {
        let attributes = vec![
            attribute("comm_type", Value::Int64(0)),
            attribute("comm_size", Value::Uint64(1000)),
            attribute("pg_name", Value::Text(group.into())),
        ];
        node(id, 7, data, attributes)
    };
    let computation = Node { duration: 5, ..node(1, 4, &[], vec![]) };
    let gather =
        node(3, 7, &[2], vec![attribute("comm_type", Value::Int32(2)), attribute("comm_size", Value::Int64(10))]);
    let send = vec![
        attribute("comm_dst", Value::Int32(2)),
        attribute("comm_size", Value::Uint64(77)),
        attribute("comm_tag", Value::Int32(4)),
    ];
    let receive = vec![
        attribute("comm_src", Value::Int32(0)),
        attribute("comm_size", Value::Uint64(77)),
        attribute("comm_tag", Value::Int32(4)),
    ];
    let first = file(&[computation, all_reduce(2, &[1], "tp"), gather.clone(), node(4, 5, &[3, 99], send)]);
    let second = file(&[all_reduce(2, &[], "tp"), gather.clone()]);
    let third = file(&[gather, node(4, 6, &[3], receive)]);
    let read = chakra::of_files(&[first, second, third]).unwrap();
    assert_eq!(
        read.ranks[0],
        [
            op(on(0, 5 * US), &[]),
            op(Kind::Collective(0), &[0]),
            op(Kind::Collective(1), &[1]),
            op(Kind::Send { to: 2, bytes: 77, tag: 4 }, &[2]),
        ]
    );
    let groups: Vec<_> = read.collectives.iter().map(|c| (c.operation, c.members.to_vec(), c.bytes)).collect();
    // A share of an all-gather is a third of it.
    assert_eq!(groups, [(Operation::AllReduce, vec![0, 1], 1000), (Operation::AllGather, vec![0, 1, 2], 30)]);
    assert_eq!(read.left_out, ["2 dependencies on nodes that are not in the file"]);
}

#[test]
fn wrong_chakra_names_the_place() {
    let wrong = |nodes: &[Node]| chakra::of_files(&[file(nodes)]).unwrap_err();
    assert_eq!(wrong(&[node(1, 9, &[], vec![])]), "node 1 has the unknown type 9");
    assert_eq!(wrong(&[node(1, 7, &[], vec![])]), "node 1 (\"n1\") has no number comm_type");
    let twice = [node(1, 4, &[], vec![]), node(1, 4, &[], vec![])];
    assert_eq!(wrong(&twice), "two nodes have the number 1");
    let gather = vec![attribute("comm_type", Value::Int64(3)), attribute("comm_size", Value::Int64(3))];
    assert_eq!(wrong(&[node(1, 7, &[], gather)]), "node 1: GATHER is not simulated");
    let cut = file(&[node(1, 4, &[], vec![])]);
    let error = chakra::of_files(&[cut[..cut.len() - 1].to_vec()]).unwrap_err();
    let missing = |of: usize| format!(", or cut off: of {of} bytes {} are there", of - 1);
    assert_eq!(error, format!("byte 8: is no node{}", missing(cut.len() - 9)));
    let error = chakra::of_files(&[cut[..7].to_vec()]).unwrap_err();
    assert_eq!(error, format!("byte 0: is no description of a Chakra trace{}", missing(7)));
    let error = chakra::of_files(&[vec![]]).unwrap_err();
    assert!(error.starts_with("byte 0: is no description of a Chakra trace: "), "{error}");
    assert_eq!(chakra::others("a/x.0.et", 3), ["a/x.1.et", "a/x.2.et"]);
    let read = chakra::of_files(&[file(&[node(1, 4, &[], vec![attribute("num_ops", Value::Int64(7))])])]).unwrap();
    assert_eq!(read.left_out, ["1 computations that say num_ops and no duration (they take no time)"]);
}

fn collective(id: u64, code: i64, size: Option<i64>, data: &[u64], more: Vec<Attribute>) -> Node {
    let size = size.map(|size| attribute("comm_size", Value::Int64(size)));
    let attributes = [attribute("comm_type", Value::Int64(code))].into_iter().chain(size).chain(more);
    node(id, 7, data, attributes.collect())
}

/// Content of the files of two ranks with the same nodes.
fn of_two(nodes: &[Node]) -> Read {
    chakra::of_files(&[file(nodes), file(nodes)]).unwrap()
}

#[test]
fn chakras_barriers_and_reduce_scatters_of_blocks_are_collectives_of_their_own() {
    let kinds = |read: &Read| read.ranks[0].iter().map(|op| op.kind).collect::<Vec<_>>();
    let sizes = |read: &Read| read.collectives.iter().map(|c| (c.operation, c.bytes)).collect::<Vec<_>>();
    let (all_reduce, barrier) = (collective(1, 0, Some(1 << 20), &[], vec![]), collective(2, 9, None, &[], vec![]));
    let [first, second] = [Kind::Collective(0), Kind::Collective(1)];
    for (nodes, expected) in
        [([barrier.clone(), all_reduce.clone()], [1, 1 << 20]), ([all_reduce, barrier], [1 << 20, 1])]
    {
        let read = of_two(&nodes);
        assert_eq!(kinds(&read), [first, second]);
        assert_eq!(sizes(&read), expected.map(|bytes| (Operation::AllReduce, bytes)));
    }
    let read = of_two(&[collective(1, 7, Some(1), &[], vec![]), collective(2, 8, Some(4), &[1], vec![])]);
    assert_eq!(kinds(&read), [first, second]);
    assert_eq!(sizes(&read), [(Operation::ReduceScatter, 1), (Operation::ReduceScatter, 4)]);
    assert_eq!(read.left_out, Vec::<String>::new());
}

#[test]
fn chakras_ranks_agree_on_the_size_of_a_collective() {
    let of = |code, sizes: [i64; 3]| {
        chakra::of_files(&sizes.map(|size| file(&[collective(4, code, Some(size), &[], vec![])])))
    };
    assert_eq!(
        of(0, [1024, 1024, 4096]).unwrap_err(),
        "node 4 (\"n4\"): rank 2 has ALL_REDUCE with comm_size 4096, rank 0 with 1024 (x.0.et, node 4 (\"n4\")): the \
         ranks of a collective have the same comm_size, and their files the same order of collectives"
    );
    // Ranks may give each other different parts.
    let read = of(6, [10, 30, 20]).unwrap();
    assert_eq!(read.collectives[0].bytes, 30);
    assert_eq!(read.left_out, ["1 all-to-alls whose ranks differ in comm_size (all have the largest)"]);
}

#[test]
fn chakras_cpu_and_gpu_compute_beside_each_other() {
    let computation = |id, of_cpu| Node { duration: 3, ..node(id, 4, &[], vec![attribute("is_cpu_op", of_cpu)]) };
    let read = of_two(&[computation(1, Value::Bool(true)), computation(2, Value::Bool(false))]);
    assert_eq!(read.ranks[0], [op(on(1, 3 * US), &[]), op(on(0, 3 * US), &[])]);
    assert_eq!(read.left_out, Vec::<String>::new());
}

#[test]
fn dependencies_pass_through_chakras_metadata() {
    let read = of_two(&[
        Node { duration: 3, ..node(1, 4, &[], vec![]) },
        node(2, 1, &[1], vec![]),
        collective(3, 0, Some(8), &[2], vec![]),
    ]);
    let nothing = Kind::Compute { time: 0, stream: None };
    assert_eq!(read.ranks[0], [op(on(0, 3 * US), &[]), op(nothing, &[0]), op(Kind::Collective(0), &[1])]);
    assert_eq!(read.left_out, Vec::<String>::new());
}

#[test]
fn attributes_of_chakra_that_are_not_simulated_are_told() {
    let told = |more: Vec<Attribute>| of_two(&[collective(1, 5, Some(8), &[], more)]).left_out;
    let none = Vec::<String>::new();
    let dimensions = |values: &[bool]| vec![attribute("involved_dim", Value::Bools(Bools { values: values.to_vec() }))];
    let confined = ["1 collectives that involved_dim confines to some dimensions (all ranks of the group take part)"];
    assert_eq!(told(dimensions(&[true, true])), none);
    assert_eq!(told(dimensions(&[true, false])), confined);
    assert_eq!(told(vec![attribute("involved_dim", Value::Int64(1))]), confined);
    assert_eq!(told(vec![attribute("root", Value::Int32(0))]), none);
    assert_eq!(
        told(vec![attribute("root", Value::Int32(1))]),
        ["1 broadcasts and reduces with another root than the group's first rank (that is the root)"]
    );
    assert_eq!(told(vec![attribute("comm_priority", Value::Uint32(0))]), none);
    assert_eq!(
        told(vec![attribute("comm_priority", Value::Int32(-1))]),
        ["1 collectives with a comm_priority (all have the same)"]
    );
    assert_eq!(
        told(vec![attribute("is_cpu_op", Value::Bool(true))]),
        ["2 communications with is_cpu_op (they are the GPU's)"]
    );
    let call = Node { duration: 2, ..node(1, 7, &[], vec![attribute("is_cpu_op", Value::Bool(true))]) };
    let read = of_two(&[call]);
    assert_eq!(read.ranks[0], [op(on(1, 2 * US), &[])]);
    assert_eq!(read.left_out, ["2 calls of collectives by the CPU, without comm_type (they take their duration)"]);
    let on_stream = |id, stream| node(id, 4, &[], vec![attribute("stream", Value::Int64(stream))]);
    assert_eq!(of_two(&[on_stream(1, 7), on_stream(2, 7)]).left_out, none);
    assert_eq!(
        of_two(&[on_stream(1, 7), on_stream(2, 20)]).left_out,
        ["2 ranks with several streams of the GPU (its computations take turns, as in ASTRA-sim)"]
    );
}

#[test]
fn chakras_communications_that_overlap_are_told() {
    let all_reduce = |id, data: &[u64]| collective(id, 0, Some(8), data, vec![]);
    let computation = |id, data: &[u64]| node(id, 4, data, vec![]);
    let told = |nodes: &[Node]| of_two(nodes).left_out;
    // One after the other, in whatever order the file has them.
    assert_eq!(told(&[all_reduce(1, &[]), computation(2, &[1]), all_reduce(3, &[2, 1])]), Vec::<String>::new());
    assert_eq!(told(&[all_reduce(3, &[2]), computation(2, &[1]), all_reduce(1, &[])]), Vec::<String>::new());
    let overlap = ["2 ranks that do one communication at a time, as in ASTRA-sim (those without dependencies overlap)"];
    assert_eq!(told(&[all_reduce(1, &[]), all_reduce(2, &[])]), overlap);
    assert_eq!(told(&[computation(1, &[]), all_reduce(2, &[1]), all_reduce(3, &[1])]), overlap);
}

#[test]
fn chakras_numbers_may_have_any_type() {
    let all = [
        Value::Double(8.0),
        Value::Float(8.0),
        Value::Int32(8),
        Value::Sint64(8),
        Value::Fixed32(8),
        Value::Fixed64(8),
        Value::Sfixed32(8),
        Value::Sfixed64(8),
        Value::Text("8".into()),
    ];
    for size in all {
        let read = of_two(&[collective(1, 0, None, &[], vec![attribute("comm_size", size.clone())])]);
        assert_eq!(read.collectives[0].bytes, 8, "{size:?}");
    }
    for size in [Value::Double(1.5), Value::Double(1e30), Value::Float(f32::NAN), Value::Sfixed64(-5)] {
        let of_size = [collective(1, 0, None, &[], vec![attribute("comm_size", size)])];
        let wrong = chakra::of_files(&[file(&of_size)]).unwrap_err();
        assert_eq!(wrong, "node 1 (\"n1\"): comm_size is no whole number of at least 0");
    }
    let group = |group| collective(1, 0, Some(1), &[], vec![attribute("pg_name", group)]);
    let read = chakra::of_files(&[file(&[group(Value::Int64(3))]), file(&[group(Value::Text("3".into()))])]).unwrap();
    assert_eq!((read.collectives.len(), read.collectives[0].members.to_vec()), (1, vec![0, 1]));
}

#[test]
fn chakras_ranks_are_counted_by_their_files() {
    let folder = std::env::temp_dir().join(format!("onramp-chakra-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for name in ["x.0.et", "x.1.et", "x.11.et", "x.et", "x.0.et.json", "y.12.et", "x.z.et"] {
        std::fs::write(folder.join(name), file(&[])).unwrap();
    }
    assert_eq!(chakra::ranks("x.0.et", &folder), Ok(12));
    let missing = Format::Chakra.read("x.0.et", &folder, 12).unwrap_err();
    assert!(missing.starts_with("cannot read \"x.2.et\": "), "{missing}");
    assert_eq!(
        chakra::ranks("x.1.et", &folder),
        Err("\"x.1.et\" is not the first rank's file: name that, which ends with \"0.et\"; it stands for all".into())
    );
    std::fs::write(folder.join("x.1.et"), [0x1f, 0x8b, 8, 0]).unwrap();
    let packed = Format::Chakra.read("x.0.et", &folder, 2).unwrap_err();
    assert_eq!(packed, "cannot read \"x.1.et\": it is compressed, gunzip it first");
    std::fs::remove_dir_all(&folder).unwrap();
}

proptest! {
    #[test]
    fn no_pipeline_waits_for_ever(stages in 1u32..7, chunks in 1u32..5, rounds in 1u32..4, of_chunk in 1usize..3) {
        let (microbatches, layers) = (stages * rounds, chunks as usize * of_chunk);
        let first = format!("pp: {stages} vpp: {chunks} ga: {microbatches} all_gpus: {stages} pp_comm: 9");
        let read = simai::parse_text(&of_microbatches(&first, microbatches as usize, layers), 1).unwrap();
        prop_assert_eq!(read.left_out, Vec::<String>::new());
        let took = *without_network(&read.ranks).iter().max().unwrap();
        let share = of_chunk as u64 * 1200;
        prop_assert_eq!(took, u64::from(microbatches * chunks + stages - 1) * share);
    }

    #[test]
    fn dependencies_of_goal_mean_the_same_in_any_order(
        (edges, order) in prop::collection::vec((0u32..8, 0u32..8, any::<bool>()), 0..20)
            .prop_flat_map(|edges| (Just(edges.clone()), Just(edges).prop_shuffle())),
    ) {
        let of = |edges: &[(u32, u32, bool)]| -> Vec<Op> {
            let mut ops = vec![op(on(0, 5 * NS), &[]); 8];
            for &(user, before, begun) in edges {
                let op = &mut ops[user as usize];
                if begun { op.begun.push(before) } else { op.after.push(before) }
            }
            ops
        };
        let sorted = |mut ops: Vec<Op>| {
            ops.iter_mut().for_each(|op| { op.after.sort_unstable(); op.begun.sort_unstable(); });
            ops
        };
        let calc: String = (0..8).map(|i| format!("l{i}: calc 5\n")).collect();
        let word = |begun| if begun { "irequires" } else { "requires" };
        let lines: String = order.iter().map(|&(user, before, begun)| format!("l{user} {} l{before}\n", word(begun))).collect();
        let text = goal::parse_text(&format!("num_ranks 1\nrank 0 {{\n{calc}{lines}}}")).unwrap().ranks;
        let expected = sorted(of(&edges));
        prop_assert_eq!(sorted(text[0].clone()), expected.clone());
        let read = goal_binary::parse(&binary(&[of(&order)])).unwrap().ranks;
        prop_assert_eq!(sorted(read[0].clone()), expected);
    }

    #[test]
    fn nothing_makes_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0usize..200, with: u8) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let _ = (goal::parse_text(&text), simai::parse_text(&text, 4), goal_binary::parse(&bytes), chakra::nodes(&bytes));
        let _ = htsim::parse_text(&text);
        // One byte of what is right is another.
        let changed = |mut right: Vec<u8>| {
            let at = at % right.len();
            right[at] = with;
            right
        };
        let changed_text = |text: &str| String::from_utf8_lossy(&changed(text.into())).into_owned();
        let _ = goal::parse_text(&changed_text(GOAL)).map(|read| read.ranks.len());
        let _ = simai::parse_text(&changed_text(SIMAI), 4).map(|read| read.ranks.len());
        let pipeline = of_microbatches("pp: 2 vpp: 2 ga: 2 all_gpus: 2 pp_comm: 9", 2, 2);
        let _ = simai::parse_text(&changed_text(&pipeline), 4).map(|read| read.ranks.len());
        let _ = htsim::parse_text(&changed_text(HTSIM)).map(|read| read.ranks.len());
        let _ = goal_binary::parse(&changed(binary(&two_ranks())));
        let _ = chakra::of_files(&[changed(file(&[node(1, 4, &[], vec![]), node(2, 7, &[1], vec![])]))]);
    }
}
