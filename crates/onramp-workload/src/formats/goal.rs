//! GOAL as text: `num_ranks N`, then for each rank a block of operations, with labels and what they require.
//!
//! Times of `calc` are nanoseconds, as in LogGOPSim; `cpu` is a stream. `nic` and the overheads of LogGOPS are left
//! out: messages go by the network. `a requires b` begins a when b is complete, `a irequires b` when b has begun; in
//! which order these lines are does not matter. Comments are `// …` up to the line's end and `/* … */` over several.

use super::{MAX_OPS, MAX_RANKS, Read, message_bytes};
use crate::graph::{Kind, Op};
use crate::lines::{Lines, quoted};
use onramp_config::units::NS;
use std::collections::HashMap;
use std::io::BufRead;
use std::path::Path;

/// Reads a file.
pub(super) fn read(file: &str, base: &Path) -> Result<Read, String> {
    parse(Lines::open(file, base)?)
}

/// A rank or tag in place of any, which is written -1.
const ANY: u32 = u32::MAX;

/// Lines without comments.
struct Text<R> {
    lines: Lines<R>,
    /// Line of the comment that has begun and not ended.
    comment: Option<u64>,
}

impl<R: BufRead> Text<R> {
    /// The next line with anything but a comment.
    fn next(&mut self) -> Result<Option<String>, String> {
        while let Some(line) = self.lines.next()?.map(str::to_string) {
            let text = self.without_comments(&line);
            if !text.trim().is_empty() {
                return Ok(Some(text.trim().to_string()));
            }
        }
        match self.comment {
            Some(line) => Err(self.lines.wrong_at(line, "a comment begins here and does not end: \"*/\" is missing")),
            None => Ok(None),
        }
    }

    fn without_comments(&mut self, line: &str) -> String {
        let (mut text, mut rest) = (String::new(), line);
        loop {
            if self.comment.is_some() {
                let Some((_, behind)) = rest.split_once("*/") else { return text };
                self.comment = None;
                // As white space: words on its two sides are two.
                text.push(' ');
                rest = behind;
            }
            let (line, block) = (rest.find("//"), rest.find("/*"));
            match block {
                Some(block) if line.is_none_or(|line| block < line) => {
                    text.push_str(&rest[..block]);
                    self.comment = Some(self.lines.number());
                    rest = &rest[block + 2..];
                }
                _ => return text + &rest[..line.unwrap_or(rest.len())],
            }
        }
    }

    fn wrong(&self, what: impl std::fmt::Display) -> String {
        self.lines.wrong(what)
    }
}

/// Content of a line.
enum Line {
    Op(Option<String>, Kind),
    /// An operation after another is complete, or has begun.
    After(String, String, bool),
    Close,
}

/// Words of a line.
struct Words<'a>(std::iter::Peekable<std::str::SplitWhitespace<'a>>);

impl<'a> Words<'a> {
    fn next(&mut self, expected: &str) -> Result<&'a str, String> {
        self.0.next().ok_or_else(|| format!("ends where {expected} belongs"))
    }

    fn number(&mut self, expected: &str) -> Result<u64, String> {
        let word = self.next(expected)?;
        word.parse().map_err(|_| format!("{} is not {expected}, a whole number", quoted(word)))
    }

    /// A number below 2^32, or -1 for any.
    fn or_any(&mut self, expected: &str) -> Result<u32, String> {
        if self.0.next_if_eq(&"-1").is_some() { Ok(ANY) } else { small(self.number(expected)?, expected) }
    }

    fn keyword(&mut self, keyword: &str) -> Result<(), String> {
        let word = self.next(&format!("\"{keyword}\""))?;
        if word == keyword { Ok(()) } else { Err(format!("{} is not \"{keyword}\"", quoted(word))) }
    }

    /// `keyword` and its number, if they come next.
    fn option(&mut self, keyword: &str) -> Result<Option<u64>, String> {
        if self.0.next_if_eq(&keyword).is_none() { Ok(None) } else { self.number(keyword).map(Some) }
    }

    fn end(mut self) -> Result<(), String> {
        self.0.next().map_or(Ok(()), |word| Err(format!("{} is not known here", quoted(word))))
    }
}

fn small(number: u64, what: &str) -> Result<u32, String> {
    u32::try_from(number).map_err(|_| format!("{what} {number} is above {}", u32::MAX))
}

/// A line of a block.
fn line(text: &str, nics: &mut bool) -> Result<Line, String> {
    if text == "}" {
        return Ok(Line::Close);
    }
    let (label, rest) = match text.split_once(':') {
        Some((label, rest)) => (Some(label.trim().to_string()), rest),
        None => (None, text),
    };
    let mut words = Words(rest.split_whitespace().peekable());
    let first = words.next("an operation")?;
    let kind = match first {
        "calc" => {
            let time = words.number("a time")?.saturating_mul(NS);
            let stream = small(words.option("cpu")?.unwrap_or(0), "cpu")?;
            Kind::Compute { time, stream: Some(stream) }
        }
        "send" | "recv" => {
            let size = words.next("a size such as \"8b\"")?;
            let apart = words.0.next_if_eq(&"b").map(|_| size);
            let bytes = apart.or(size.strip_suffix('b')).and_then(|size| size.parse().ok());
            let bytes = bytes.ok_or_else(|| format!("{} is not a size such as \"8b\"", quoted(size)))?;
            let bytes = message_bytes(bytes)?;
            words.keyword(if first == "send" { "to" } else { "from" })?;
            let peer =
                if first == "send" { small(words.number("a rank")?, "rank")? } else { words.or_any("a rank")? };
            let tag = if words.0.next_if_eq(&"tag").is_some() { words.or_any("tag")? } else { 0 };
            words.option("cpu")?;
            *nics |= words.option("nic")?.is_some_and(|nic| nic > 0);
            match first {
                "send" => Kind::Send { to: peer, bytes, tag },
                _ => Kind::Receive { from: peer, bytes, tag },
            }
        }
        _ if label.is_none() => {
            let word = words.next("\"requires\"")?;
            let begun = match word {
                "requires" => false,
                "irequires" => true,
                _ => return Err(format!("{} is not \"requires\" or \"irequires\"", quoted(word))),
            };
            let before = words.next("a label")?.to_string();
            words.end()?;
            return Ok(Line::After(first.to_string(), before, begun));
        }
        _ => return Err(format!("{} is not \"calc\", \"send\" or \"recv\"", quoted(first))),
    };
    words.end()?;
    no_wildcard(&kind)?;
    Ok(Line::Op(label, kind))
}

/// Refuses receives from any rank, and messages with any tag.
pub(super) fn no_wildcard(kind: &Kind) -> Result<(), String> {
    let any = match *kind {
        Kind::Receive { from: ANY, .. } => "from -1 receives from any rank",
        Kind::Receive { tag: ANY, .. } | Kind::Send { tag: ANY, .. } => "tag -1 stands for any tag",
        _ => return Ok(()),
    };
    Err(format!("{any}: wildcards are not simulated, write the one that is meant"))
}

/// The operations of a block, up to its closing bracket.
fn block<R: BufRead>(lines: &mut Text<R>, most: usize, nics: &mut bool) -> Result<Vec<Op>, String> {
    let mut ops: Vec<Op> = Vec::new();
    let mut labels: HashMap<String, u32> = HashMap::new();
    loop {
        let Some(text) = lines.next()? else {
            return Err(lines.wrong("ends within a rank: \"}\" is missing"));
        };
        match line(&text, nics).map_err(|wrong| lines.wrong(wrong))? {
            Line::Close => return Ok(ops),
            Line::Op(label, kind) => {
                if ops.len() >= most {
                    return Err(lines.wrong(format!("is beyond the {MAX_OPS} operations that are possible")));
                }
                if let Some(label) = label
                    && labels.insert(label.clone(), ops.len() as u32).is_some()
                {
                    return Err(lines.wrong(format!("{} is the label of two operations", quoted(&label))));
                }
                ops.push(Op::new(kind, vec![]));
            }
            Line::After(op, before, begun) => {
                let number = |label: &String| {
                    labels.get(label).copied().ok_or_else(|| lines.wrong(format!("{} is no label", quoted(label))))
                };
                let (op, before) = (number(&op)?, number(&before)?);
                let op = &mut ops[op as usize];
                if begun { op.begun.push(before) } else { op.after.push(before) }
            }
        }
    }
}

fn parse<R: BufRead>(lines: Lines<R>) -> Result<Read, String> {
    let mut lines = Text { lines, comment: None };
    let first = lines.next()?.unwrap_or_default();
    let ranks = first.strip_prefix("num_ranks").and_then(|n| n.trim().parse().ok());
    let ranks: u64 = ranks.ok_or_else(|| lines.wrong("is not \"num_ranks\" and their number"))?;
    if !(1..=MAX_RANKS).contains(&ranks) {
        return Err(lines.wrong(format!("{ranks} ranks are outside 1 to {MAX_RANKS}")));
    }
    let mut all: Vec<Option<Vec<Op>>> = vec![None; ranks as usize];
    let (mut nics, mut count) = (false, 0);
    while let Some(line) = lines.next()? {
        let rank = line.strip_prefix("rank").and_then(|rest| rest.trim().strip_suffix('{')?.trim().parse().ok());
        let rank: u64 = rank.ok_or_else(|| lines.wrong(format!("{} is not \"rank N {{\"", quoted(&line))))?;
        let Some(place) = all.get_mut(rank as usize) else {
            return Err(lines.wrong(format!("rank {rank} is not below num_ranks, {ranks}")));
        };
        if place.is_some() {
            return Err(lines.wrong(format!("rank {rank} is there twice")));
        }
        let ops = block(&mut lines, MAX_OPS - count, &mut nics)?;
        count += ops.len();
        *place = Some(ops);
    }
    let left_out = nics.then(|| "which NIC a message leaves by (nic): the network chooses it".to_string());
    let ranks = all.into_iter().map(Option::unwrap_or_default).collect();
    Ok(Read { ranks, collectives: vec![], left_out: left_out.into_iter().collect() })
}

#[cfg(test)]
pub(super) fn parse_text(text: &str) -> Result<Read, String> {
    parse(Lines::new("file", std::io::Cursor::new(text.as_bytes())))
}
