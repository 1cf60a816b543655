//! Connection matrices of htsim (".cm"): connections, and triggers that start some when others are done.
//!
//! `Nodes N`, `Connections N`, `Triggers N`, `Failures N`, then lines `0->5 id 1 start PS size BYTES`, or
//! `… trigger 3` in place of a start, `send_done_trigger 3` and `recv_done_trigger 3` for the trigger that a connection's
//! end activates at its source and at its destination, and `trigger id 3 oneshot`, `multishot` or `barrier count 2`
//! (htsim's connection_matrix.cpp). A one-shot trigger is activated once and starts all its connections, a barrier
//! when it has been activated `count` times, and a multi-shot trigger starts its next connection each time.
//!
//! Nodes are ranks, a connection is a message. A sender is done when a message of one byte has come back, which stands
//! for the last acknowledgement. htsim's triggers act everywhere at once; here a message of one byte takes an
//! activation to another node.

use super::{MAX_OPS, MAX_RANKS, Read};
use crate::MAX_BYTES;
use crate::graph::{Kind, Op};
use crate::lines::{Lines, quoted};
use onramp_config::units::Ps;
use std::collections::{BTreeMap, BTreeSet};
use std::io::BufRead;
use std::iter::Peekable;
use std::path::Path;
use std::str::{FromStr, SplitWhitespace};

/// Reason to refuse a connection of no bytes.
pub const ENDLESS: &str = "size 0 is a flow without end: write [[traffic]] with kind = \"long\" for it";

/// Reads a file.
pub(super) fn read(file: &str, base: &Path) -> Result<Read, String> {
    parse(Lines::open(file, base)?)
}

/// A connection.
#[derive(Debug, Default)]
struct Connection {
    /// Its line.
    line: u64,
    from: u32,
    to: u32,
    bytes: u64,
    start: Option<Ps>,
    /// The trigger that starts it, and those that its end activates.
    trigger: Option<u32>,
    sent: Option<u32>,
    received: Option<u32>,
    /// It is a message of a connection, as several may be.
    is_message: bool,
}

/// Times that a trigger is activated, and what it starts then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trigger {
    OneShot,
    MultiShot,
    Barrier(usize),
}

/// Words of a line.
type Words<'a> = Peekable<SplitWhitespace<'a>>;

/// Content of a file.
#[derive(Default)]
struct Matrix {
    nodes: u32,
    connections: Vec<Connection>,
    /// By number, with their lines.
    triggers: BTreeMap<u32, (u64, Trigger)>,
    failures: u64,
    /// Connections with a priority.
    with_priority: u64,
    /// Numbers that the head announces, with their lines.
    announced: BTreeMap<&'static str, (u64, u64)>,
}

/// The next word as a number.
fn number<T: FromStr>(words: &mut Words<'_>, key: &str) -> Result<T, String> {
    let word = words.next().ok_or_else(|| format!("ends where the number of \"{key}\" belongs"))?;
    word.parse().map_err(|_| format!("{} is no number for \"{key}\"", quoted(word)))
}

impl Matrix {
    /// A line that is no comment.
    fn line(&mut self, at: u64, text: &str) -> Result<(), String> {
        let mut words = text.split_whitespace().peekable();
        let first = words.next().unwrap_or_default();
        match first {
            "Nodes" if self.nodes > 0 => return Err("\"Nodes\" is there twice".into()),
            "Nodes" => {
                let nodes: u64 = number(&mut words, first)?;
                if !(1..=MAX_RANKS).contains(&nodes) {
                    return Err(format!("{nodes} nodes are outside 1 to {MAX_RANKS}"));
                }
                self.nodes = nodes as u32;
            }
            "Connections" => drop(self.announced.insert("Connections", (at, number(&mut words, first)?))),
            "Triggers" => drop(self.announced.insert("Triggers", (at, number(&mut words, first)?))),
            "Failures" => drop(self.announced.insert("Failures", (at, number(&mut words, first)?))),
            "failure" => {
                self.failures += 1;
                while let Some(word) = words.next() {
                    match word {
                        "switch_type" => drop(words.next().ok_or("ends where TOR, AGG or CORE belongs")?),
                        "switch_id" | "link_id" => drop(number::<u64>(&mut words, word)?),
                        _ => return Err(format!("{} is not known here", quoted(word))),
                    }
                }
            }
            "trigger" => self.trigger(at, &mut words)?,
            _ => self.connection(at, first, &mut words)?,
        }
        words.next().map_or(Ok(()), |word| Err(format!("{} is not known here", quoted(word))))
    }

    fn trigger(&mut self, at: u64, words: &mut Words<'_>) -> Result<(), String> {
        let (mut id, mut kind, mut count) = (0, None, None);
        while let Some(word) = words.next() {
            match word {
                "id" => id = number(words, word)?,
                "count" => count = Some(number(words, word)?),
                "oneshot" | "multishot" | "barrier" if kind.is_none() => kind = Some(word),
                _ => return Err(format!("{} is not known here", quoted(word))),
            }
        }
        let kind = match (kind, count) {
            (Some("oneshot"), _) => Trigger::OneShot,
            (Some("multishot"), _) => Trigger::MultiShot,
            (Some("barrier"), Some(count)) if count > 0 => Trigger::Barrier(count),
            (Some("barrier"), _) => return Err("a barrier needs a count above 0, such as \"barrier count 2\"".into()),
            _ => return Err("a trigger is \"oneshot\", \"multishot\" or \"barrier\"".into()),
        };
        if id == 0 {
            return Err("a trigger needs a number above 0, such as \"id 1\"".into());
        }
        match self.triggers.insert(id, (at, kind)) {
            Some((before, _)) => Err(format!("trigger {id} is in line {before} already")),
            None => Ok(()),
        }
    }

    fn connection(&mut self, line: u64, ends: &str, words: &mut Words<'_>) -> Result<(), String> {
        let nodes = self.nodes;
        let node = |text: &str| text.parse::<u32>().ok().filter(|&node| node < nodes);
        let split = ends.split_once("->").map(|(from, to)| (node(from), node(to)));
        let (from, to) = match split {
            Some((Some(from), Some(to))) if from != to => (from, to),
            Some(_) => return Err(format!("{} are not two different nodes below {nodes}", quoted(ends))),
            None => return Err(format!("{} is not known here: a connection is such as 0->5", quoted(ends))),
        };
        let mut own = Connection { line, from, to, ..Connection::default() };
        while let Some(word) = words.next() {
            match word {
                "start" => {
                    let start: f64 = number(words, word)?;
                    if !(0.0..1e18).contains(&start) {
                        return Err(format!("start {start} is outside 0 to 1e18, in picoseconds"));
                    }
                    own.start = Some(start as Ps);
                }
                "size" => own.bytes = number(words, word)?,
                "trigger" => own.trigger = Some(number(words, word)?),
                "send_done_trigger" => own.sent = Some(number(words, word)?),
                "recv_done_trigger" => own.received = Some(number(words, word)?),
                "prio" => {
                    number::<i64>(words, word)?;
                    self.with_priority += 1;
                }
                // Numbers of connections name them in htsim's results; those of messages may be left out.
                "id" => drop(number::<u64>(words, word)?),
                "msg" => {
                    own.is_message = true;
                    words.next_if(|word| word.parse::<u64>().is_ok());
                }
                _ => return Err(format!("{} is not known here", quoted(word))),
            }
        }
        if own.start.is_some() == own.trigger.is_some() {
            return Err("a connection has either a start or a trigger".into());
        }
        if own.bytes == 0 {
            return Err(ENDLESS.into());
        }
        if !(1..=MAX_BYTES).contains(&own.bytes) {
            return Err(format!("size {} is outside 1 to {MAX_BYTES}", own.bytes));
        }
        self.connections.push(own);
        // A computation, both ends of two messages, and of those of two activations.
        if self.connections.len() * 16 > MAX_OPS {
            return Err(format!("is beyond the {MAX_OPS} operations that are possible"));
        }
        Ok(())
    }
}

/// An operation: its rank and its number.
type Place = (u32, u32);

/// Operations while they are put together.
struct Building {
    ops: Vec<Vec<Op>>,
    tags: u32,
    /// Activations that went to another node.
    carried: u64,
}

impl Building {
    fn add(&mut self, rank: u32, kind: Kind, after: Vec<u32>) -> u32 {
        let ops = &mut self.ops[rank as usize];
        ops.push(Op::new(kind, after));
        ops.len() as u32 - 1
    }

    fn tag(&mut self) -> u32 {
        self.tags += 1;
        self.tags - 1
    }

    /// A message after some operations of its sender; its two ends.
    fn message(&mut self, [from, to]: [u32; 2], bytes: u64, after: Vec<u32>) -> [Place; 2] {
        let tag = self.tag();
        let send = self.add(from, Kind::Send { to, bytes, tag }, after);
        let receive = self.add(to, Kind::Receive { from, bytes, tag }, vec![]);
        [(from, send), (to, receive)]
    }

    /// An operation of `rank` that is complete after one of any rank.
    fn carry(&mut self, (from, op): Place, rank: u32) -> u32 {
        if from == rank {
            return op;
        }
        self.carried += 1;
        let [_, (_, received)] = self.message([from, rank], 1, vec![op]);
        received
    }

    /// Starts connections, each by its first operation, after one of any rank.
    fn start(&mut self, firsts: &[Place], after: Place) {
        let mut here: BTreeMap<u32, u32> = BTreeMap::new();
        for &(rank, first) in firsts {
            let after = match here.get(&rank) {
                Some(&there) => there,
                None => self.carry(after, rank),
            };
            here.insert(rank, after);
            self.ops[rank as usize][first as usize].after.push(after);
        }
    }

    /// Operations of a trigger, from those that activate it to the connections it starts.
    fn trigger(&mut self, kind: Trigger, by: &[Place], firsts: &[Place]) {
        let home = firsts[0].0;
        match kind {
            Trigger::OneShot => self.start(firsts, by[0]),
            Trigger::Barrier(_) => {
                let after = by.iter().map(|&op| self.carry(op, home)).collect();
                let all = self.add(home, Kind::Compute { time: 0, stream: None }, after);
                self.start(firsts, (home, all));
            }
            Trigger::MultiShot => {
                // Receives of messages to oneself are complete in order: the first activation starts the first.
                let tag = self.tag();
                for at in 0..by.len() {
                    let next = self.add(home, Kind::Receive { from: home, bytes: 0, tag }, vec![]);
                    if let Some(&first) = firsts.get(at) {
                        self.start(&[first], (home, next));
                    }
                }
                for &op in by {
                    let here = self.carry(op, home);
                    self.add(home, Kind::Send { to: home, bytes: 0, tag }, vec![here]);
                }
            }
        }
    }
}

/// The operations of a matrix; a mistake is of a line.
fn build(matrix: &Matrix) -> Result<Building, (u64, String)> {
    let ops = vec![vec![]; matrix.nodes as usize];
    let mut building = Building { ops, tags: 0, carried: 0 };
    let mut by: BTreeMap<u32, Vec<Place>> = BTreeMap::new();
    let mut firsts: BTreeMap<u32, Vec<Place>> = BTreeMap::new();
    for connection in &matrix.connections {
        let &Connection { line, from, to, bytes, start, trigger, sent, received, .. } = connection;
        let late = start.filter(|&start| start > 0);
        let after = late.map(|time| building.add(from, Kind::Compute { time, stream: None }, vec![]));
        let [first, (_, there)] = building.message([from, to], bytes, after.into_iter().collect());
        if let Some(id) = trigger {
            firsts.entry(id).or_default().push(first);
        }
        if let Some(id) = received {
            by.entry(id).or_default().push((to, there));
        }
        if let Some(id) = sent {
            let [_, acknowledged] = building.message([to, from], 1, vec![there]);
            by.entry(id).or_default().push(acknowledged);
        }
        for id in [trigger, sent, received].into_iter().flatten() {
            if !matrix.triggers.contains_key(&id) {
                return Err((line, format!("there is no trigger {id}: write a line \"trigger id {id} oneshot\"")));
            }
        }
    }
    for (id, &(line, kind)) in &matrix.triggers {
        let by = by.get(id).map_or(&[][..], Vec::as_slice);
        let Some(firsts) = firsts.get(id) else { continue };
        let wrong = |expected: String| Err((line, format!("trigger {id} is activated {} times: {expected}", by.len())));
        match kind {
            Trigger::OneShot if by.len() != 1 => return wrong("a one-shot trigger once".into()),
            Trigger::Barrier(count) if by.len() != count => return wrong(format!("its barrier counts {count}")),
            Trigger::MultiShot if by.len() < firsts.len() => {
                return wrong(format!("it starts {} connections", firsts.len()));
            }
            _ => building.trigger(kind, by, firsts),
        }
    }
    Ok(building)
}

fn parse<R: BufRead>(mut lines: Lines<R>) -> Result<Read, String> {
    let mut matrix = Matrix::default();
    while let Some(text) = lines.next()? {
        if text.starts_with('#') {
            continue;
        }
        let text = text.to_string();
        matrix.line(lines.number(), &text).map_err(|wrong| lines.wrong(wrong))?;
    }
    if matrix.nodes == 0 {
        return Err(lines.wrong_at(1, "\"Nodes\" and their number are missing"));
    }
    let found = [
        ("Connections", matrix.connections.len() as u64),
        ("Triggers", matrix.triggers.len() as u64),
        ("Failures", matrix.failures),
    ];
    for (key, found) in found {
        let (at, announced) = matrix.announced.get(key).copied().unwrap_or((1, 0));
        if announced != found {
            return Err(lines.wrong_at(at, format!("{key} {announced} are announced, but {found} follow: write that")));
        }
    }
    let building = build(&matrix).map_err(|(line, wrong)| lines.wrong_at(line, wrong))?;
    let mut left_out = Vec::new();
    let mut leave_out = |count: u64, what: &str| left_out.extend((count > 0).then(|| format!("{count} {what}")));
    leave_out(matrix.failures, "failures of links: name the links in network.failed or network.slow");
    leave_out(matrix.with_priority, "priorities of connections (prio)");
    leave_out(building.carried, "activations of other nodes at once: a message of 1 byte takes each there");
    let mut pairs = BTreeSet::new();
    let again = matrix.connections.iter().filter(|own| !pairs.insert((own.from, own.to)) && !own.is_message).count();
    leave_out(again as u64, "connections of their own: those between the same nodes take turns on `queue_pairs`");
    Ok(Read { ranks: building.ops, collectives: vec![], left_out })
}

#[cfg(test)]
pub(super) fn parse_text(text: &str) -> Result<Read, String> {
    parse(Lines::new("file", std::io::Cursor::new(text.as_bytes())))
}
