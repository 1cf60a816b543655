//! The HPCC simulator's topology file.
//!
//! First line: number of nodes, switches and links. Second: the switches'
//! numbers. Then one link a line: `a b rate delay error_rate`, such as
//! `0 320 100Gbps 0.001ms 0`; the last is the probability that a packet is lost.
//! Nodes that are no switches are hosts; they are called `h0, h1, …` and the switches `s0, s1, …` in ascending order of number.

use super::{Link, NodeId, WithErrors, few_enough, names, possible};
use onramp_config::Mistake;
use onramp_config::units::{Rate, Span};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Where the network is described.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file, relative to the scenario's folder.
    pub file: String,
}

pub(super) fn links(c: &Config, base: &Path) -> Result<WithErrors, Mistake> {
    let text = super::text(&c.file, base).map_err(|m| Mistake::new("file", m))?;
    parse(&text).map_err(|m| Mistake::new("file", format!("{}:{m}", c.file)))
}

/// Lines of a file that are not blank, with their numbers.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty())
}

/// A line of whole numbers.
pub(super) fn numbers((at, line): (usize, &str)) -> Result<(usize, Vec<u32>), String> {
    let all: Result<Vec<u32>, _> = line.split_whitespace().map(str::parse).collect();
    all.map(|n| (at, n)).map_err(|_| format!("{at}: \"{line}\" is not a list of whole numbers"))
}

/// Links as both this simulator and SimAI write them, one a line, and the probability that a packet is lost on each;
/// `id` is our number of a node of theirs.
pub(super) fn list<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    (nodes, count): (u32, u32),
    id: impl Fn(u32) -> NodeId,
) -> Result<(Vec<Link>, Vec<f64>), String> {
    let (mut links, mut errors) = (Vec::new(), Vec::new());
    for (at, line) in lines.take(count as usize) {
        let wrong = || format!("{at}: \"{line}\" is not a link, such as 0 320 100Gbps 0.001ms 0");
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[a, b, rate, delay, lost] = fields.as_slice() else { return Err(wrong()) };
        let node = |text: &str| text.parse().ok().filter(|n| *n < nodes).map(&id).ok_or_else(wrong);
        let rate: Rate = rate.parse().map_err(|e| format!("{at}: {e}"))?;
        let delay: Span = delay.parse().map_err(|e| format!("{at}: {e}"))?;
        possible(&[("rate", rate)], &[("delay", delay)]).map_err(|m| format!("{at}: {}", m.message))?;
        let lost = lost.parse().ok().filter(|lost| (0.0..1.0).contains(lost));
        errors.push(lost.ok_or_else(|| format!("{at}: the error rate is outside 0 to below 1, such as 0"))?);
        links.push(Link { a: node(a)?, b: node(b)?, rate, delay });
    }
    if links.len() != count as usize {
        return Err(format!("1: {count} links are announced, but {} follow", links.len()));
    }
    Ok((links, errors))
}

fn parse(text: &str) -> Result<WithErrors, String> {
    let mut lines = lines(text);
    let (at, head) = numbers(lines.next().ok_or("1: the file is empty")?)?;
    let &[nodes, switch_count, link_count] = head.as_slice() else {
        return Err(format!("{at}: write the numbers of nodes, switches and links, such as 376 56 480"));
    };
    if nodes > 1 << 20 || switch_count >= nodes {
        return Err(format!("{at}: {nodes} nodes with {switch_count} switches are not possible"));
    }
    few_enough(link_count.into()).map_err(|m| format!("{at}: {}", m.message))?;
    let (at, mut switches) = numbers(lines.next().ok_or("2: the line with the switches is missing")?)?;
    switches.sort_unstable();
    switches.dedup();
    if switches.len() != switch_count as usize || switches.last().is_some_and(|&s| s >= nodes) {
        return Err(format!("{at}: expected {switch_count} different switches below {nodes}"));
    }
    let hosts = nodes - switch_count;
    let id = |node: u32| match switches.binary_search(&node) {
        Ok(i) => hosts + i as u32,
        Err(i) => node - i as u32,
    };
    let (links, errors) = list(lines, (nodes, link_count), id)?;
    Ok((names(hosts, &[("s", switch_count)]), hosts as usize, links, errors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_switches_are_renumbered() {
        let (names, hosts, links, errors) =
            parse("4 1 3\n1\n0 1 25Gbps 0.001ms 0\n2 1 25Gbps 1us 0.001\n3 1 100Gbps 1us 0\n").unwrap();
        assert_eq!((names.join(" "), hosts), ("h0 h1 h2 s0".into(), 3));
        assert_eq!(links.iter().map(|l| (l.a, l.b)).collect::<Vec<_>>(), [(0, 3), (1, 3), (2, 3)]);
        assert_eq!(links[0].delay, links[1].delay);
        assert_eq!(errors, [0.0, 0.001, 0.0]);
    }

    #[test]
    fn mistakes_name_the_line() {
        let error = |text| parse(text).unwrap_err();
        assert!(error("").starts_with("1:"));
        assert!(error("4 1\n").starts_with("1:"));
        assert!(error("3 1 2\n2\n0 2 25Gbps 1us 0\n1 2 25Gb 1us 0\n").starts_with("4:"));
        assert!(error("3 1 2\n2\n0 2 25Gbps 1us 0\n").starts_with("1: 2 links"));
        assert!(error("3 1 1\n2\n0 2 25Gbps 1us 1\n").starts_with("3: the error rate"));
        assert!(error("3 1 1\n2\n0 9 25Gbps 1us 0\n").starts_with("3:"));
    }
}
