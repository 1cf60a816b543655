//! Nodes and links listed one by one.

use super::{Listed, few_enough, possible};
use onramp_config::Mistake;
use onramp_config::units::{Rate, Span};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A network as a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Names of the hosts.
    pub hosts: Vec<String>,
    /// Names of the switches.
    pub switches: Vec<String>,
    /// The links.
    pub links: Vec<Link>,
}

/// One link of the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// Rate of each direction.
    pub rate: Rate,
    /// Delay of each direction.
    pub delay: Span,
}

pub(super) fn links(c: &Config) -> Listed {
    few_enough(c.links.len() as u128)?;
    let lists = [("hosts", &c.hosts), ("switches", &c.switches)];
    for (key, i, name) in lists.iter().flat_map(|(key, list)| list.iter().enumerate().map(move |(i, n)| (key, i, n))) {
        if name.is_empty() || name.contains("->") {
            return Err(Mistake::new(
                format!("{key}[{i}]"),
                format!("\"{name}\" is no name: not empty and without ->"),
            ));
        }
    }
    let names: Vec<String> = c.hosts.iter().chain(&c.switches).cloned().collect();
    let mut ids = HashMap::new();
    for (id, name) in names.iter().enumerate() {
        if ids.insert(name.as_str(), id as u32).is_some() {
            return Err(Mistake::new("", format!("\"{name}\" names two nodes")));
        }
    }
    let mut links = Vec::new();
    for (i, link) in c.links.iter().enumerate() {
        let inside = |m: Mistake| Mistake::new(format!("links[{i}].{}", m.key), m.message);
        possible(&[("rate", link.rate)], &[("delay", link.delay)]).map_err(inside)?;
        let node = |end: &str, name: &String| {
            ids.get(name.as_str()).copied().ok_or_else(|| {
                Mistake::new(format!("links[{i}].{end}"), format!("\"{name}\" is neither a host nor a switch"))
            })
        };
        let (a, b) = (node("a", &link.a)?, node("b", &link.b)?);
        links.push(super::Link { a, b, rate: link.rate, delay: link.delay });
    }
    Ok((names, c.hosts.len(), links))
}
