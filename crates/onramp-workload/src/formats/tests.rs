use super::chakra::{Attribute, Metadata, Node, Value};
use super::*;
use onramp_config::units::{NS, US};
use proptest::prelude::*;
use prost::Message as _;

fn op(kind: Kind, after: &[u32]) -> Op {
    Op { kind, after: after.to_vec() }
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
        vec![op(on(1, 100 * NS), &[]), op(send(1, 10, 7), &[0]), op(receive(1, 8, 0), &[0])],
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
    assert_eq!(inside("recv 8b from -1"), "file:4: \"-1\" is not a rank, a whole number");
    assert_eq!(inside("a: calc 2"), "file:4: \"a\" is the label of two operations");
    assert_eq!(inside("a requires b"), "file:4: \"b\" is no label");
    assert_eq!(inside("a needs a"), "file:4: \"needs\" is not \"requires\" or \"irequires\"");
    assert_eq!(inside("b: wait 3"), "file:4: \"wait\" is not \"calc\", \"send\" or \"recv\"");
    assert_eq!(inside("calc 3 now"), "file:4: \"now\" is not known here");
    assert_eq!(wrong("num_ranks 1\nrank 0 {\ncalc 1"), "file:3: ends within a rank: \"}\" is missing");
}

/// Operations as LogGOPSim's txt2bin writes them.
fn binary(ranks: &[Vec<Op>]) -> Vec<u8> {
    let mut parts = Vec::new();
    for ops in ranks {
        let mut part = Vec::new();
        let roots: Vec<u32> = (0..).zip(ops).filter(|(_, op)| op.after.is_empty()).map(|(number, _)| number).collect();
        for number in [ops.len() as u32, roots.len() as u32].into_iter().chain(roots) {
            part.extend(number.to_le_bytes());
        }
        let users = |of: u32| (0u32..).zip(ops).filter(move |(_, op)| op.after.contains(&of)).map(|(number, _)| number);
        let mut before = 0;
        for (number, op) in (0u32..).zip(ops) {
            let (kind, peer, size, tag, stream) = match op.kind {
                Kind::Send { to, bytes, tag } => (1u8, to, bytes, tag, 0),
                Kind::Receive { from, bytes, tag } => (2, from, bytes, tag, 0),
                Kind::Compute { time, stream } => (3, 0, time / NS, 0, stream.unwrap() as u8),
                Kind::Collective(_) => unreachable!(),
            };
            part.extend((op.after.len() as u32).to_le_bytes());
            part.push(kind);
            part.extend(peer.to_le_bytes());
            part.extend(size.to_le_bytes());
            part.extend(tag.to_le_bytes());
            part.extend([stream, 0]);
            let count = users(number).count() as u32;
            for number in [count, before, 0, before + count] {
                part.extend(number.to_le_bytes());
            }
            before += count;
        }
        (0..ops.len() as u32).flat_map(users).for_each(|user| part.extend(u32::to_le_bytes(user)));
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
    let mut many = bytes;
    many[46] = 0xff;
    assert_eq!(wrong(&many), (46, "255 operations are more than there is room for".into()));
}

const SIMAI: &str = "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 8 ga: 1 all_gpus: 8 \
    checkpoints: 0 checkpoint_initiates: 0\n2\n\
    embedding -1 10 ALLREDUCE 100 20 NONE 0 30 ALLREDUCE 5000 1\n\
    mlp -1 0 ALLTOALL_EP 9000 0 NONE 0 7 REDUCESCATTER_DP_EP 6000 1\n";

#[test]
fn simais_layers_go_forward_and_back() {
    let read = simai::parse_text(SIMAI, 3).unwrap();
    assert_eq!((read.ranks.len(), read.left_out), (8, vec![]));
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
fn wrong_simai_names_the_line() {
    let wrong = |text: &str| simai::parse_text(text, 8).unwrap_err();
    assert_eq!(wrong("MICRO\n1\n"), "file:1: \"MICRO\" is not simulated: \"HYBRID_TRANSFORMER_FWD_IN_BCKWD\" is");
    let of = |replace: &str, by: &str| wrong(&SIMAI.replace(replace, by));
    assert_eq!(
        of("all_gpus: 8", "all_gpus: 7"),
        "file:1: 7 ranks are no multiple of 2 (tensor) times 2 (expert parallel)"
    );
    assert_eq!(of("\n2\n", "\nx\n"), "file:2: \"x\" is not the number of layers");
    assert_eq!(of("\n2\n", "\n3\n"), "file:4: 2 of 3 layers are there");
    assert_eq!(
        of("ALLTOALL_EP", "ALLTONONE"),
        "file:4: \"ALLTONONE\" is no communication that is known, such as \"ALLREDUCE\""
    );
    assert_eq!(of("9000 0 NONE", "9000 -1 NONE"), "file:4: \"-1\" is not a time, a whole number");
    let pipeline = simai::parse_text(&SIMAI.replace("pp: 1", "pp: 2"), 8).unwrap();
    assert!(pipeline.left_out[0].starts_with("messages between stages of the pipeline"));
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
    assert!(error.starts_with("byte 8: is no node: "), "{error}");
    assert_eq!(chakra::others("a/x.0.et", 3), ["a/x.1.et", "a/x.2.et"]);
}

proptest! {
    #[test]
    fn nothing_makes_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), at in 0usize..200, with: u8) {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let _ = (goal::parse_text(&text), simai::parse_text(&text, 4), goal_binary::parse(&bytes), chakra::nodes(&bytes));
        // One byte of what is right is another.
        let changed = |mut right: Vec<u8>| {
            let at = at % right.len();
            right[at] = with;
            right
        };
        let changed_text = |text: &str| String::from_utf8_lossy(&changed(text.into())).into_owned();
        let _ = goal::parse_text(&changed_text(GOAL)).map(|read| read.ranks.len());
        let _ = simai::parse_text(&changed_text(SIMAI), 4).map(|read| read.ranks.len());
        let _ = goal_binary::parse(&changed(binary(&two_ranks())));
        let _ = chakra::of_files(&[changed(file(&[node(1, 4, &[], vec![]), node(2, 7, &[1], vec![])]))]);
    }
}
