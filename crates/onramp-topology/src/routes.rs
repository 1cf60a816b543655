//! Which way packets go: all shortest paths by hops, and ECMP among them.
//!
//! Hosts on the same switches share their routes everywhere else: a table has a
//! column for each such group, not for each host, and in one cell one for all groups
//! that its switches cannot tell apart, so that it stays in the cache.

use super::TopologyError;
use std::collections::HashMap;
use std::sync::Arc;

/// A range of `choices`: start in 24 bits, length in 8.
#[derive(Clone, Copy, Debug, Default)]
struct Set(u32);

impl Set {
    fn new(start: usize, len: usize) -> Self {
        Self(start as u32 | (len as u32) << 24)
    }

    #[inline]
    fn start(self) -> usize {
        (self.0 & 0xff_ffff) as usize
    }

    #[inline]
    fn len(self) -> u32 {
        self.0 >> 24
    }
}

/// The hosts of one switch: those from `first` on, with gaps.
#[derive(Clone, Debug, Default)]
struct Attached {
    first: u32,
    sets: Vec<Set>,
}

/// Routes of some switches to all hosts.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Group of each host.
    group_of: Arc<[u32]>,
    /// Column of each group.
    column_of: Vec<u32>,
    columns: usize,
    /// Of switch s and column c: `s * columns + c`; an empty set where the group's
    /// hosts are on the switch itself.
    next: Vec<Set>,
    attached: Vec<Attached>,
    choices: Vec<u32>,
    /// Salt of each switch's hash.
    salt: Vec<u32>,
}

/// Collects routes.
#[derive(Debug, Default)]
pub(super) struct Builder {
    routes: Routes,
    known: HashMap<Vec<u32>, Set>,
}

impl Builder {
    pub fn new(group_of: Vec<u32>, groups: usize, salt: Vec<u32>) -> Self {
        let routes = Routes {
            group_of: group_of.into(),
            column_of: (0..groups as u32).collect(),
            columns: groups,
            next: vec![Set::default(); salt.len() * groups],
            attached: vec![Attached::default(); salt.len()],
            choices: Vec::new(),
            salt,
        };
        Self { routes, known: HashMap::new() }
    }

    /// Few sets of ports differ, so equal ones share one range.
    fn set(&mut self, ports: Vec<u32>) -> Result<Set, TopologyError> {
        let choices = &mut self.routes.choices;
        if let Some(set) = self.known.get(&ports) {
            return Ok(*set);
        }
        if ports.len() > 255 {
            return Err(TopologyError::TooManyPorts { ports: ports.len() });
        }
        let set = Set::new(choices.len(), ports.len());
        choices.extend(&ports);
        if choices.len() >= 1 << 24 {
            return Err(TopologyError::TooManyPortSets);
        }
        self.known.insert(ports, set);
        Ok(set)
    }

    /// The ports of `switch` that lead to a group.
    pub fn towards(&mut self, switch: usize, group: usize, ports: Vec<u32>) -> Result<(), TopologyError> {
        let place = switch * self.routes.columns + group;
        self.routes.next[place] = self.set(ports)?;
        Ok(())
    }

    /// The group's hosts are on `switch` itself.
    pub fn here(&mut self, switch: usize, group: usize) {
        self.routes.next[switch * self.routes.columns + group] = Set::default();
    }

    /// Each group is reached as its twin, which may be itself, and comes before it.
    pub fn copy(&mut self, twins: &[usize]) {
        for row in self.routes.next.chunks_exact_mut(twins.len().max(1)) {
            for (group, &twin) in twins.iter().enumerate() {
                row[group] = row[twin];
            }
        }
    }

    /// The hosts on `switch` with their ports, in ascending order.
    pub fn attach(&mut self, switch: usize, hosts: &[(u32, Vec<u32>)]) -> Result<(), TopologyError> {
        let (Some((first, _)), Some((last, _))) = (hosts.first(), hosts.last()) else { return Ok(()) };
        let mut sets = vec![Set::default(); (last - first + 1) as usize];
        for (host, ports) in hosts {
            sets[(host - first) as usize] = self.set(ports.clone())?;
        }
        self.routes.attached[switch] = Attached { first: *first, sets };
        Ok(())
    }

    pub fn finish(self) -> Routes {
        self.routes
    }
}

impl Routes {
    #[inline(always)]
    fn set_for(&self, switch: usize, host: u32) -> Set {
        let column = self.column_of[self.group_of[host as usize] as usize];
        let set = self.next[switch * self.columns + column as usize];
        if set.len() > 0 {
            return set;
        }
        let own = &self.attached[switch];
        host.checked_sub(own.first).and_then(|place| own.sets.get(place as usize)).copied().unwrap_or_default()
    }

    /// The port that a switch uses for a packet to `host`: one of the shortest paths,
    /// chosen by `hash`. Each switch hashes with a seed of its own, so that choices at
    /// successive switches are independent.
    #[inline(always)]
    pub fn port(&self, switch: usize, host: u32, hash: u16) -> u32 {
        let set = self.set_for(switch, host);
        let choice = if set.len() > 1 { choose(self.mix(switch, hash), set.len()) } else { 0 };
        self.choices[set.start() + choice as usize]
    }

    /// A flow's hash as a switch mixes it.
    #[inline(always)]
    pub fn mix(&self, switch: usize, hash: u16) -> u32 {
        mix(hash, self.salt[switch])
    }

    /// All ports that a switch may use for packets to `host`; none if no way leads there.
    pub fn ports(&self, switch: usize, host: u32) -> &[u32] {
        let set = self.set_for(switch, host);
        &self.choices[set.start()..][..set.len() as usize]
    }

    /// The same; none before there are routes.
    pub(super) fn old_ports(&self, switch: usize, host: u32) -> Vec<u32> {
        if self.columns == 0 { vec![] } else { self.ports(switch, host).to_vec() }
    }

    /// The routes of some switches (nodes, of which the first `hosts` are hosts), with
    /// their ports renamed.
    #[must_use]
    pub fn part(&self, switches: &[u32], hosts: usize, rename: impl Fn(u32) -> u32) -> Self {
        let rows: Vec<usize> = switches.iter().map(|&node| node as usize - hosts).collect();
        let mut known: HashMap<u32, Set> = HashMap::new();
        let mut choices: Vec<u32> = Vec::new();
        let mut set = |old: &Set| {
            if old.len() == 0 {
                return Set::default();
            }
            *known.entry(old.0).or_insert_with(|| {
                let new = Set::new(choices.len(), old.len() as usize);
                choices.extend(self.choices[old.start()..][..old.len() as usize].iter().map(|&port| rename(port)));
                new
            })
        };
        // Groups to which all of these switches have the same ways share a column.
        let mut columns: HashMap<Vec<u32>, u32> = HashMap::new();
        let mut of_column = Vec::new();
        let column_of = (0..self.column_of.len()).map(|group| {
            let column = self.column_of[group] as usize;
            let ways = rows.iter().map(|&row| self.next[row * self.columns + column].0).collect();
            let new = columns.len() as u32;
            *columns.entry(ways).or_insert_with(|| {
                of_column.push(column);
                new
            })
        });
        let column_of: Vec<u32> = column_of.collect();
        let mut next = Vec::with_capacity(rows.len() * of_column.len());
        let mut attached = Vec::with_capacity(rows.len());
        for &row in &rows {
            next.extend(of_column.iter().map(|&column| set(&self.next[row * self.columns + column])));
            let own = &self.attached[row];
            attached.push(Attached { first: own.first, sets: own.sets.iter().map(&mut set).collect() });
        }
        let salt = rows.iter().map(|&row| self.salt[row]).collect();
        let columns = of_column.len();
        Self { group_of: Arc::clone(&self.group_of), column_of, columns, next, attached, choices, salt }
    }
}

/// A hash mixed with a salt.
#[inline]
pub(super) fn mix(hash: u16, salt: u32) -> u32 {
    let mixed = ((u32::from(hash) << 16) ^ salt).wrapping_mul(0x9E37_79B1);
    let mixed = (mixed ^ (mixed >> 15)).wrapping_mul(0x85EB_CA77);
    mixed ^ (mixed >> 13)
}

/// One of `count`, by a mixed hash.
#[inline]
pub fn choose(mixed: u32, count: u32) -> u32 {
    ((u64::from(mixed) * u64::from(count)) >> 32) as u32
}
