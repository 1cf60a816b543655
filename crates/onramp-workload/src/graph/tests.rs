//! Programs without a network: messages arrive in any order that channels keep.

use super::*;
use crate::collective::Gather;
use crate::{Actions, Message};
use onramp_records::{CollectiveRecord, OperationRecord};
use proptest::prelude::*;
use rand_pcg::Pcg64Mcg;
use std::collections::{BTreeMap, VecDeque};

/// Results of a world without a network.
#[derive(Debug, Default)]
struct Outcome {
    operations: Vec<OperationRecord>,
    /// Payload by sender.
    sent: Vec<u64>,
    /// By rank, the ranks whose start it has heard of, from message to message, when it was over.
    heard_of: Vec<BTreeSet<u32>>,
    collectives: Vec<CollectiveRecord>,
}

/// Messages under way, each with what its sender has heard of.
type Queue = VecDeque<(Message, BTreeSet<u32>)>;

/// Runs a program; messages of a channel arrive in order, those of different ones as it happens.
fn run(graph: Graph, iterations: u32, random: Pcg64Mcg) -> Outcome {
    let hosts: Vec<u32> = (0..graph.ranks() as u32).collect();
    run_at(&hosts, None, graph, iterations, random)
}

/// The same at some hosts; with their network messages wait for acknowledgements.
fn run_at(
    hosts: &[u32],
    acknowledged: Option<&Topology>,
    graph: Graph,
    iterations: u32,
    mut random: Pcg64Mcg,
) -> Outcome {
    let ranks = graph.ranks();
    let mut plan = Plan::default();
    graph.place(hosts, acknowledged, When { traffic: 0, start: 0, iterations, seed: 1 }, &mut plan);
    let mut ways: BTreeMap<(usize, u32), (usize, u32)> = BTreeMap::new();
    for channel in &plan.channels {
        let [a, b] = [0, 1].map(|side| (channel.ends[side], channel.numbers[side]));
        assert!(channel.one_way);
        ways.insert(a, b);
    }
    let mut outcome = Outcome {
        sent: vec![0; ranks],
        heard_of: (0..ranks as u32).map(|rank| BTreeSet::from([rank])).collect(),
        ..Outcome::default()
    };
    let mut gather = Gather::default();
    let mut queues: BTreeMap<(usize, u32), Queue> = BTreeMap::new();
    let mut out = Actions::default();
    let mut now = 0;
    loop {
        let full: Vec<_> = queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(way, _)| *way).collect();
        let due: Vec<usize> =
            (0..ranks).filter(|&at| plan.programs[at].program.wake().is_some_and(|w| w <= now)).collect();
        let at = if let Some(&at) = due.first() {
            at
        } else if !full.is_empty() {
            let way = full[onramp_random::below(&mut random, full.len() as u32) as usize];
            let (message, known) = queues.get_mut(&way).and_then(VecDeque::pop_front).unwrap();
            outcome.heard_of[way.0].extend(known);
            plan.programs[way.0].program.received(now, way.1, message, &mut out);
            way.0
        } else if let Some(next) = plan.programs.iter().filter_map(|placed| placed.program.wake()).min() {
            now = next;
            continue;
        } else {
            break;
        };
        plan.programs[at].program.proceed(now, &mut out);
        for (channel, message) in out.sends.drain(..) {
            assert!(message.bytes > 0);
            outcome.sent[at] += message.bytes;
            let known = outcome.heard_of[at].clone();
            queues.entry(ways[&(at, channel)]).or_default().push_back((message, known));
        }
        for operation in out.operations.drain(..) {
            outcome.collectives.extend(gather.add(&operation));
            outcome.operations.push(operation);
        }
    }
    assert!(plan.programs.iter().all(|placed| placed.program.is_over() && placed.program.open() == 0));
    outcome
}

fn random(seed: u64) -> Pcg64Mcg {
    onramp_random::stream(seed, "test", 0)
}

const SENDING: Sending = Sending { chunk: 1 << 19, queue_pairs: 1, latency: 0, rate: None, noise: 0 };

fn op(kind: Kind, after: &[u32]) -> Op {
    Op::new(kind, after.to_vec())
}

fn compute(time: Ps) -> Kind {
    Kind::Compute { time, stream: None }
}

fn algorithms() -> impl Strategy<Value = (Operation, Algorithm)> {
    use Algorithm::{Direct, DoubleBinaryTree, HalvingDoubling, Pairwise, PairwiseRendezvous, Ring};
    let all = [Ring, DoubleBinaryTree, HalvingDoubling, Direct, Pairwise, PairwiseRendezvous];
    let pairs: Vec<_> = Operation::ALL.into_iter().flat_map(|operation| all.map(|by| (operation, by))).collect();
    let possible = |(operation, by): &(Operation, Algorithm)| by.check(*operation, 4).is_ok();
    prop::sample::select(pairs.into_iter().filter(possible).collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn collectives_end_with_what_they_promise(
        (operation, algorithm) in algorithms(),
        n in 2u32..20,
        servers in 1u32..4,
        bytes in 1u64..100_000,
        chunk in 1024u64..50_000,
        channels in 1u32..5,
        queue_pairs in 1u32..4,
        seed in 0u64..1000,
        cross_nic in any::<bool>(),
    ) {
        let power = algorithm == Algorithm::HalvingDoubling && operation != Operation::AllReduce;
        let n = if power { n.next_power_of_two() } else { n };
        let server = if n.is_multiple_of(servers) { servers } else { 1 };
        let members: Arc<[u32]> = (0..n).rev().collect();
        let of_all = members.clone();
        let collective = Collective { operation, algorithm, members: of_all, bytes, channels, server, cross_nic };
        let ranks = (0..n).map(|_| vec![op(Kind::Collective(0), &[])]).collect();
        let rate = (seed % 3 > 0).then_some(Rate(seed % 3 * 10_000_000_000));
        let sending = Sending { chunk, queue_pairs, latency: seed % 2 * 7, rate, noise: seed % 3 * 5 };
        let graph = Graph::new(ranks, vec![collective], sending).unwrap();
        let outcome = run(graph, 2, random(seed));
        prop_assert_eq!(outcome.operations.len(), 2 * n as usize);
        prop_assert_eq!(outcome.collectives.len(), 2);
        // The first member has the data of a broadcast, and gets the sum of a reduce.
        let root = members[0];
        for rank in 0..n {
            let heard = &outcome.heard_of[rank as usize];
            match operation {
                Operation::Broadcast => prop_assert!(heard.contains(&root)),
                Operation::Reduce if rank != root => {}
                _ => prop_assert_eq!(heard.len(), n as usize, "rank {}", rank),
            }
        }
        // Nobody sends less than is possible at all; rings and pairs no more than that, but for shares that are
        // rounded and empty ones that take a byte.
        let all: u64 = outcome.sent.iter().sum();
        let least = 2.0 * bytes as f64 * operation.bus_factor(n) * f64::from(n)
            / if matches!(operation, Operation::Broadcast | Operation::Reduce) { f64::from(n) / f64::from(n - 1) } else { 1.0 };
        // Who is ready, or has all of a message, tells it in 64 B.
        let told = algorithm == Algorithm::PairwiseRendezvous;
        let told = if told { 2.0 * 2.0 * 64.0 * f64::from(n * (n - 1) * channels) } else { 0.0 };
        let rounded = 2.0 * 3.0 * f64::from(n * n * channels) + 2.0 * f64::from(2 * n * channels * 64);
        prop_assert!(all as f64 >= least - rounded, "{all} for {least}");
        if n.is_power_of_two() || algorithm != Algorithm::HalvingDoubling {
            prop_assert!(all as f64 <= least + rounded + told, "{all} for {least}");
        }
    }
}

#[test]
fn a_channels_ring_goes_once_through_every_server() {
    let sizes = [(0, 16, 8), (3, 16, 8), (7, 24, 8), (2, 12, 4), (5, 7, 1)];
    for ((channel, n, server), cross_nic) in sizes.into_iter().flat_map(|size| [(size, false), (size, true)]) {
        let (operation, algorithm) = (Operation::AllReduce, Algorithm::Ring);
        let members: Arc<[u32]> = (0..n).collect();
        let of = Collective { operation, algorithm, members, bytes: 1, channels: 8, server, cross_nic };
        let order: Vec<u32> = (0..n).map(|place| of.member(channel, place)).collect();
        assert!((0..n).all(|place| of.place(channel, order[place as usize]) == place));
        for pair in order.windows(2).filter(|pair| pair[0] / server != pair[1] / server) {
            let rail = if cross_nic { (pair[0] + 1) % server } else { pair[0] % server };
            assert_eq!((pair[0] / server + 1, rail), (pair[1] / server, pair[1] % server), "one rail, or the next");
        }
        for operation in [Operation::Broadcast, Operation::Reduce] {
            let of = Collective { operation, ..of.clone() };
            assert_eq!(of.member(channel, 0), 0, "one root for all channels");
            assert!((0..n).all(|place| of.place(channel, of.member(channel, place)) == place));
        }
    }
}

#[test]
fn operations_wait_for_those_before_them_and_streams_take_turns() {
    let stream = Some(0);
    let work = |time| Kind::Compute { time, stream };
    // Two that compute on one stream, one beside them, and one after all.
    let ranks = vec![vec![op(work(5), &[]), op(work(7), &[]), op(compute(3), &[]), op(compute(1), &[0, 1, 2])]];
    let outcome = run(Graph::new(ranks, vec![], SENDING).unwrap(), 2, random(1));
    let mut found: Vec<_> =
        outcome.operations.iter().map(|o| (o.iteration, o.number, o.start_ps, o.duration_ps)).collect();
    found.sort_unstable();
    let one = [(0, 0, 5), (1, 5, 7), (2, 0, 3), (3, 12, 1)];
    let expected = |i: u32| one.map(|(number, start, took)| (i, number, u64::from(i) * 13 + start, took));
    assert_eq!(found, [expected(0), expected(1)].concat());
}

#[test]
fn an_operation_begins_with_one_that_has_begun() {
    let work = |time| Kind::Compute { time, stream: Some(0) };
    let send = Kind::Send { to: 0, bytes: 1, tag: 0 };
    // The second waits for the stream, the fifth for the second to be complete; others begin with these.
    let with = |kind, begun: &[u32]| Op { begun: begun.to_vec(), ..op(kind, &[]) };
    let ops = vec![
        op(work(5), &[]),
        op(work(7), &[]),
        with(compute(3), &[1]),
        with(send, &[1, 4]),
        op(compute(2), &[1]),
        op(Kind::Receive { from: 0, bytes: 1, tag: 0 }, &[]),
        with(compute(1), &[5]),
    ];
    let outcome = run(Graph::new(vec![ops], vec![], SENDING).unwrap(), 2, random(1));
    let mut found: Vec<_> = outcome.operations.iter().map(|o| (o.iteration, o.number, o.start_ps)).collect();
    found.sort_unstable();
    let starts = [0, 5, 5, 12, 12, 0, 0];
    let expected = |i: u32| (0..).zip(starts).map(move |(number, start)| (i, number, u64::from(i) * 14 + start));
    assert_eq!(found, expected(0).chain(expected(1)).collect::<Vec<_>>());
}

proptest! {
    #[test]
    fn operations_begin_as_soon_as_those_before_let_them(
        times in prop::collection::vec((0u64..20, prop::option::of(0u32..3)), 2..12),
        (edges, order) in prop::collection::vec((0usize..12, 0usize..12, any::<bool>()), 0..24)
            .prop_flat_map(|edges| (Just(edges.clone()), Just(edges).prop_shuffle())),
    ) {
        let ops = |edges: &[(usize, usize, bool)]| -> Vec<Op> {
            let mut ops: Vec<Op> =
                times.iter().map(|&(time, stream)| op(Kind::Compute { time, stream }, &[])).collect();
            for &(a, b, begun) in edges {
                let (before, user) = (a.min(b), a.max(b));
                if before < user && user < ops.len() {
                    let of = if begun { &mut ops[user].begun } else { &mut ops[user].after };
                    of.push(before as u32);
                }
            }
            ops
        };
        let starts = |ops: Vec<Op>| {
            let outcome = run(Graph::new(vec![ops], vec![], SENDING).unwrap(), 1, random(1));
            let mut found: Vec<_> = outcome.operations.iter().map(|o| (o.number, o.start_ps)).collect();
            found.sort_unstable();
            found.into_iter().map(|(_, start)| start).collect::<Vec<_>>()
        };
        let all = ops(&edges);
        let begin = starts(all.clone());
        for (number, op) in all.iter().enumerate() {
            let ended = op.after.iter().map(|&before| begin[before as usize] + times[before as usize].0);
            let ready = ended.chain(op.begun.iter().map(|&before| begin[before as usize])).max().unwrap_or_default();
            prop_assert!(begin[number] >= ready, "{number}: {begin:?}");
            if times[number].1.is_none() {
                prop_assert_eq!(begin[number], ready, "{}: {:?}", number, begin);
            }
        }
        prop_assert_eq!(begin, starts(ops(&order)));
    }
}

#[test]
fn messages_are_for_the_receive_with_their_sender_and_tag() {
    let send = |to, tag| Kind::Send { to, bytes: 10, tag };
    let receive = |from, tag| Kind::Receive { from, bytes: 10, tag };
    let ranks = vec![
        vec![op(send(1, 7), &[]), op(compute(50), &[]), op(send(1, 8), &[1])],
        // The second receive waits for what is sent late, whatever is there.
        vec![op(receive(0, 8), &[]), op(receive(0, 7), &[0])],
        vec![op(send(2, 1), &[]), op(receive(2, 1), &[])],
    ];
    let outcome = run(Graph::new(ranks, vec![], SENDING).unwrap(), 1, random(1));
    let ends: Vec<_> =
        outcome.operations.iter().filter(|o| o.rank == 1).map(|o| (o.number, o.start_ps + o.duration_ps)).collect();
    assert_eq!(ends, [(0, 50), (1, 50)]);
    assert_eq!(outcome.sent, [20, 0, 0]);
}

#[test]
fn what_never_ends_is_refused() {
    let send = |to| Kind::Send { to, bytes: 10, tag: 7 };
    let receive = |from| Kind::Receive { from, bytes: 10, tag: 7 };
    let error = |ranks: Vec<Vec<Op>>| Graph::new(ranks, vec![], SENDING).unwrap_err();
    assert_eq!(
        error(vec![vec![op(send(1), &[])], vec![]]),
        "rank 1 does not receive 1 of rank 0's messages with tag 7"
    );
    assert_eq!(
        error(vec![vec![], vec![op(receive(0), &[])]]),
        "rank 1 waits for ever for a message with tag 7 from rank 0"
    );
    assert_eq!(
        error(vec![vec![op(receive(1), &[]), op(send(1), &[0])], vec![op(receive(0), &[]), op(send(0), &[0])]]),
        "rank 0 waits for ever for a message with tag 7 from rank 1"
    );
    assert_eq!(
        error(vec![vec![op(compute(1), &[1]), op(compute(1), &[0])]]),
        "operation 0 of rank 0 waits for ever for operations that come after it"
    );
    assert_eq!(
        error(vec![vec![Op { begun: vec![0], ..op(compute(1), &[]) }]]),
        "operation 0 of rank 0 waits for ever for operations that come after it"
    );
    assert_eq!(error(vec![vec![op(send(9), &[])]]), "operation 0 of rank 0 is with rank 9: there are 1");
    let collective = Collective {
        operation: Operation::AllReduce,
        algorithm: Algorithm::Ring,
        members: (0..2).collect(),
        bytes: 1,
        channels: 1,
        server: 1,
        cross_nic: false,
    };
    let ranks = vec![vec![op(Kind::Collective(0), &[])], vec![]];
    assert_eq!(
        Graph::new(ranks, vec![collective], SENDING).unwrap_err(),
        "rank 0 waits for ever for rank 1 in collective 0"
    );
}

#[test]
fn bandwidths_are_those_of_nccl_tests() {
    let part = |rank: u32, start_ps, duration_ps| OperationRecord {
        traffic: 0,
        rank,
        host: rank + 10,
        iteration: 0,
        number: 0,
        kind: Operation::AllReduce.code(),
        collective: Some(4),
        ranks: 4,
        bytes: 1_000_000_000,
        start_ps,
        duration_ps,
    };
    let mut gather = Gather::default();
    let all = [(0, 500, 1), (1, 0, 100), (2, 7, 999_999_999_993 / 10), (3, 9, 5)];
    let found: Vec<_> = all.iter().filter_map(|&(rank, start, took)| gather.add(&part(rank, start, took))).collect();
    let [found] = found[..] else { panic!("{found:?}") };
    assert_eq!((found.number, found.start_ps, found.skew_ps, found.last), (4, 0, 500, 12));
    // A gigabyte in a tenth of a second; each rank sends one and a half.
    assert!((found.algbw - 10.0).abs() < 1e-6 && (found.busbw - 15.0).abs() < 1e-6, "{found:?}");
    let alone = Gather::default().add(&OperationRecord { ranks: 1, ..part(0, 500, 0) }).unwrap();
    assert_eq!((alone.algbw, alone.busbw), (0.0, 0.0), "a single rank sends nothing");
}

#[test]
fn messages_are_handed_over_after_their_latency() {
    let (tag, bytes) = (0, 1);
    let ranks =
        vec![vec![op(Kind::Send { to: 1, bytes, tag }, &[])], vec![op(Kind::Receive { from: 0, bytes, tag }, &[])]];
    let outcome = run(Graph::new(ranks, vec![], Sending { latency: 7, ..SENDING }).unwrap(), 2, random(1));
    let received: Vec<_> =
        outcome.operations.iter().filter(|o| o.kind == 2).map(|o| o.start_ps + o.duration_ps).collect();
    // A send is complete before: the second one is ready at the same time.
    assert_eq!(received, [7, 7]);
}

#[test]
fn messages_of_a_rank_begin_one_after_the_other_at_its_rate() {
    let sends = [(1, 1000), (1, 500), (2, 10)].map(|(to, bytes)| op(Kind::Send { to, bytes, tag: 0 }, &[]));
    let receive = |bytes| op(Kind::Receive { from: 0, bytes, tag: 0 }, &[]);
    let ranks = vec![sends.to_vec(), vec![receive(1000), receive(500)], vec![receive(10)]];
    let sending = Sending { latency: 7, rate: Some(Rate(8_000_000_000)), ..SENDING };
    let outcome = run(Graph::new(ranks, vec![], sending).unwrap(), 1, random(1));
    let mut received: Vec<_> =
        outcome.operations.iter().filter(|o| o.kind == 2).map(|o| (o.bytes, o.start_ps + o.duration_ps)).collect();
    received.sort_unstable();
    assert_eq!(received, [(10, 1_500_007), (500, 1_000_007), (1000, 7)]);
}

#[test]
fn noise_hands_messages_over_late_and_in_order() {
    let all = 1..=20;
    let send = |bytes| op(Kind::Send { to: 1, bytes, tag: 0 }, &[]);
    let receive = |bytes| op(Kind::Receive { from: 0, bytes, tag: 0 }, &[]);
    let ranks = || vec![all.clone().map(send).collect(), all.clone().map(receive).collect()];
    let late = |noise| -> Vec<Ps> {
        let graph = Graph::new(ranks(), vec![], Sending { latency: 7, noise, ..SENDING }).unwrap();
        let operations = run(graph, 1, random(1)).operations;
        let received = operations.iter().filter(|o| o.kind == 2);
        received
            .zip(all.clone())
            .map(|(o, bytes)| (o.bytes == bytes).then_some(o.start_ps + o.duration_ps - 7).unwrap())
            .collect()
    };
    let found = late(1000);
    assert!(found.is_sorted() && found[19] < 1000 && found[0] < found[19], "{found:?}");
    assert_eq!(found, late(1000), "the seed's");
    assert_eq!(late(0), [0; 20]);
}

#[test]
fn messages_wait_for_the_way_back_of_the_last_acknowledgement() {
    #[derive(serde::Deserialize)]
    struct File {
        network: onramp_topology::Network,
    }
    let text = "[network]\nkind = 'servers'\nservers = 2\nlink_delay = '500ns'\nnvlink_delay = '25ns'";
    let file: File = onramp_config::read(&text.parse().unwrap()).unwrap();
    let topology = onramp_topology::build(&file.network, std::path::Path::new(".")).unwrap();
    // To a GPU of the same server; on the same rail of the other; and across the spines to another rail of it.
    let others = [1, 2, 3];
    let send = |to| op(Kind::Send { to, bytes: 1, tag: 0 }, &[]);
    let receive = || vec![op(Kind::Receive { from: 0, bytes: 1, tag: 0 }, &[])];
    let mut ranks = vec![others.into_iter().rev().map(send).collect()];
    ranks.extend(others.map(|_| receive()));
    let graph = Graph::new(ranks, vec![], Sending { latency: 7, ..SENDING }).unwrap();
    let outcome = run_at(&[0, 5, 8, 9], Some(&topology), graph, 1, random(1));
    let ended = |rank| outcome.operations.iter().find(|o| o.rank == rank).map(|o| o.start_ps + o.duration_ps).unwrap();
    assert_eq!(others.map(ended), [50_007, 1_000_007, 2_000_007]);
}
