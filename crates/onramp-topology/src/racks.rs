//! Racks of hosts with roles: each rack's switch is linked to every spine.

use super::{Link, Listed, at_least_one, few_enough, possible};
use onramp_config::Mistake;
use onramp_config::units::{Rate, Span, US};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Racks and what is between them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Hosts of each rack, whose switches are `tor0`, `tor1`, …
    pub racks: Vec<Vec<Group>>,
    /// Spine switches, each linked to every rack's. Default 3.
    #[serde(default = "spines")]
    pub spines: u32,
    /// Rate of links between switches. Default 100 Gb/s.
    #[serde(default = "rate")]
    pub fabric_rate: Rate,
    /// Delay of every link. Default 1 us.
    #[serde(default = "delay")]
    pub link_delay: Span,
}

/// Hosts of a rack that have the same role.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The role; its hosts are called so, with a number from 0 on, over all racks.
    pub role: String,
    /// How many.
    pub hosts: u32,
    /// Rate of each one's link.
    pub rate: Rate,
}

fn spines() -> u32 {
    3
}

fn rate() -> Rate {
    Rate(100_000_000_000)
}

fn delay() -> Span {
    Span(US)
}

pub(super) fn links(c: &Config) -> Listed {
    at_least_one(&[("spines", c.spines), ("racks", c.racks.len() as u32)])?;
    let groups = || c.racks.iter().flatten();
    let fabric = c.racks.len() as u128 * u128::from(c.spines);
    few_enough(fabric + groups().map(|group| u128::from(group.hosts)).sum::<u128>())?;
    possible(&[("fabric_rate", c.fabric_rate)], &[("link_delay", c.link_delay)])?;
    let (mut names, mut links) = (Vec::new(), Vec::new());
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    let hosts: u32 = groups().map(|group| group.hosts).sum();
    for (rack, group, place) in
        c.racks.iter().enumerate().flat_map(|(rack, all)| all.iter().enumerate().map(move |(i, g)| (rack, g, i)))
    {
        let inside = |m: Mistake| Mistake::new(format!("racks[{rack}][{place}].{}", m.key), m.message);
        let letters = |c: char| c.is_ascii_lowercase() || c == '-';
        if group.role.is_empty() || !group.role.chars().all(letters) || ["tor", "spine"].contains(&&*group.role) {
            let message = format!("\"{}\" is no role: small letters and -, such as \"storage-server\"", group.role);
            return Err(inside(Mistake::new("role", message)));
        }
        possible(&[("rate", group.rate)], &[]).map_err(inside)?;
        for _ in 0..group.hosts {
            let number = numbers.entry(&group.role).or_default();
            links.push(Link { a: names.len() as u32, b: hosts + rack as u32, rate: group.rate, delay: c.link_delay });
            names.push(format!("{}{number}", group.role));
            *number += 1;
        }
    }
    let racks = c.racks.len() as u32;
    for (rack, spine) in (0..racks).flat_map(|rack| (0..c.spines).map(move |spine| (rack, spine))) {
        links.push(Link { a: hosts + rack, b: hosts + racks + spine, rate: c.fabric_rate, delay: c.link_delay });
    }
    names.extend((0..racks).map(|i| format!("tor{i}")).chain((0..c.spines).map(|i| format!("spine{i}"))));
    Ok((names, hosts as usize, links))
}
