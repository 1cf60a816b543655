//! Finds what would never end, by running a program without time.

use super::{Graph, Kind, Op};
use std::collections::{BTreeMap, VecDeque};

/// Operations without time.
struct Run<'a> {
    graph: &'a Graph,
    /// By rank and number: operations that it waits for.
    missing: Vec<Vec<u32>>,
    /// Operations that can begin.
    ready: VecDeque<(u32, u32)>,
    /// By receiver, sender and tag: messages that are there, and receives that wait.
    messages: BTreeMap<(u32, u32, u32), (u64, VecDeque<u32>)>,
    /// By collective: the parts that have begun.
    parts: Vec<Vec<(u32, u32)>>,
    done: usize,
}

impl Run<'_> {
    fn complete(&mut self, rank: u32, number: u32) {
        self.done += 1;
        let graph = self.graph;
        self.release(rank, graph.ranks[rank as usize].at_end.of(number));
    }

    fn release(&mut self, rank: u32, users: &[u32]) {
        for &user in users {
            let missing = &mut self.missing[rank as usize][user as usize];
            *missing -= 1;
            if *missing == 0 {
                self.ready.push_back((rank, user));
            }
        }
    }

    fn begin(&mut self, rank: u32, number: u32) {
        let graph = self.graph;
        self.release(rank, graph.ranks[rank as usize].at_start.of(number));
        match graph.ranks[rank as usize].all[number as usize].kind {
            Kind::Compute { .. } => self.complete(rank, number),
            Kind::Send { to, tag, .. } => {
                let (there, waiting) = self.messages.entry((to, rank, tag)).or_default();
                match waiting.pop_front() {
                    Some(receive) => self.complete(to, receive),
                    None => *there += 1,
                }
                self.complete(rank, number);
            }
            Kind::Receive { from, tag, .. } => {
                let (there, waiting) = self.messages.entry((rank, from, tag)).or_default();
                if *there > 0 {
                    *there -= 1;
                    self.complete(rank, number);
                } else {
                    waiting.push_back(number);
                }
            }
            Kind::Collective(which) => {
                let parts = &mut self.parts[which as usize];
                parts.push((rank, number));
                if parts.len() == self.graph.collectives[which as usize].members.len() {
                    for (rank, number) in std::mem::take(parts) {
                        self.complete(rank, number);
                    }
                }
            }
        }
    }
}

impl Graph {
    /// See [`Graph::new`].
    pub(super) fn check(&self) -> Result<(), String> {
        let ranks = self.ranks.len() as u32;
        let missing = self.ranks.iter().map(|ops| ops.all.iter().map(Op::waits_for).collect());
        let mut run = Run {
            graph: self,
            missing: missing.collect(),
            ready: VecDeque::new(),
            messages: BTreeMap::new(),
            parts: vec![Vec::new(); self.collectives.len()],
            done: 0,
        };
        for (rank, ops) in (0..).zip(&self.ranks) {
            for (number, op) in (0..).zip(&ops.all) {
                let other = match op.kind {
                    Kind::Send { to, .. } => to,
                    Kind::Receive { from, .. } => from,
                    _ => 0,
                };
                if other >= ranks {
                    return Err(format!("operation {number} of rank {rank} is with rank {other}: there are {ranks}"));
                }
                if op.waits_for() == 0 {
                    run.ready.push_back((rank, number));
                }
            }
        }
        while let Some((rank, number)) = run.ready.pop_front() {
            run.begin(rank, number);
        }
        if let Some((&(to, from, tag), (there, _))) = run.messages.iter().find(|(_, (there, _))| *there > 0) {
            return Err(format!("rank {to} does not receive {there} of rank {from}'s messages with tag {tag}"));
        }
        if run.done == self.ranks.iter().map(|ops| ops.all.len()).sum() {
            return Ok(());
        }
        if let Some((&(to, from, tag), _)) = run.messages.iter().find(|(_, (_, waiting))| !waiting.is_empty()) {
            return Err(format!("rank {to} waits for ever for a message with tag {tag} from rank {from}"));
        }
        if let Some((which, parts)) = (0..).zip(&run.parts).find(|(_, parts)| !parts.is_empty()) {
            let members = &self.collectives[which].members;
            let absent = members.iter().find(|rank| !parts.iter().any(|(there, _)| there == *rank));
            let (there, absent) = (parts[0].0, absent.copied().unwrap_or_default());
            return Err(format!("rank {there} waits for ever for rank {absent} in collective {which}"));
        }
        let stuck = (0..).zip(&run.missing).find_map(|(rank, missing)| {
            let number = missing.iter().position(|&missing| missing > 0)?;
            Some(format!("operation {number} of rank {rank} waits for ever for operations that come after it"))
        });
        Err(stuck.unwrap_or_default())
    }
}
