//! Distributed programs from files: traces of training jobs and of MPI, in the formats of other simulators.

use super::clients::one;
use super::collective::{Algorithm, Layout, check_channels, check_pieces, check_sending, chunk, usual_noise};
use super::formats::{self, Format};
use super::graph::{Graph, Sending, When};
use super::{Context, Findings, Group, LoadSpan, Place, Plan, Section, Workload};
use onramp_config::units::{Bytes, Ps, Rate, Span};
use onramp_config::{Mistake, Rule};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A program from a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The file, relative to the scenario's folder; of Chakra's, which has one for each rank, the first rank's.
    pub file: String,
    /// Its format. Default: by its name, ".goal", ".bin" (GOAL), ".et" (Chakra), ".txt" (SimAI), ".cm" or ".tm" (htsim).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Format>,
    /// Ranks, where the file does not say how many there are. Default: of Chakra all that have a file, of SimAI before it
    /// wrote all_gpus all hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<u32>,
    /// Hosts, or groups of them, by name; the first ones are the ranks, in this order. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<Vec<String>>,
    /// Algorithm of collectives that it can do; all-to-all is direct. Default "ring".
    #[serde(default = "ring")]
    pub algorithm: Algorithm,
    /// As of a collective: see there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<u32>,
    /// As of a collective.
    #[serde(default)]
    pub cross_nic: bool,
    /// As of a collective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channels: Option<u32>,
    /// As of a collective.
    #[serde(default = "one")]
    pub queue_pairs: u32,
    /// As of a collective.
    #[serde(default = "chunk")]
    pub chunk: Bytes,
    /// As of a collective.
    #[serde(default)]
    pub send_latency: Span,
    /// As of a collective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_rate: Option<Rate>,
    /// As of a collective.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub noise: Option<Span>,
    /// As of a collective.
    #[serde(default)]
    pub acknowledged: bool,
    /// A rank does one collective after the other, in the file's order, as SimAI does.
    #[serde(default)]
    pub in_turn: bool,
    /// Computations take this many times as long as the file says. Default 1.
    #[serde(default = "unchanged")]
    pub compute_scale: f64,
    /// Times that it is run, one after the other. Default 1.
    #[serde(default = "one")]
    pub repeat: u32,
    /// When it begins. Default 0.
    #[serde(default)]
    pub start: Span,
}

/// A file that has been read.
struct Job {
    /// Hosts of the ranks.
    hosts: Vec<u32>,
    graph: Graph,
    /// Parts of the file that are not simulated.
    left_out: Vec<String>,
}

fn ring() -> Algorithm {
    Algorithm::Ring
}

fn unchanged() -> f64 {
    1.0
}

impl Config {
    fn format(&self) -> Option<Format> {
        self.format.or_else(|| Format::of(&self.file))
    }

    /// Ranks to read the file for, if `hosts` could be ranks.
    fn ranks(&self, format: Format, base: &Path, hosts: usize) -> Result<u32, String> {
        match (self.ranks, format) {
            (Some(ranks), _) => Ok(ranks),
            (None, Format::Chakra) => formats::chakra::ranks(&self.file, base),
            (None, _) => Ok(hosts as u32),
        }
    }

    fn read(&self, place: &Place<'_>) -> Result<Job, Mistake> {
        let members = place.members(self.hosts.as_deref()).map_err(|wrong| Mistake::new("hosts", wrong))?;
        let mut hosts = members.to_vec();
        let format = self.format().ok_or_else(|| Mistake::new("format", Format::unknown(&self.file)))?;
        let of_file = |wrong| Mistake::new("file", wrong);
        let too_many =
            |n: usize| of_file(format!("\"{}\" has {n} ranks, for {} hosts: each needs one", self.file, hosts.len()));
        let ranks = self.ranks(format, place.base, hosts.len()).map_err(of_file)?;
        if ranks as usize > hosts.len() {
            return Err(too_many(ranks as usize));
        }
        let read = format.read(&self.file, place.base, ranks).map_err(of_file)?;
        let n = read.ranks.len();
        if n > hosts.len() {
            return Err(too_many(n));
        }
        hosts.truncate(n);
        let scale = |ops| formats::scaled(ops, self.compute_scale);
        let Self { server, cross_nic, channels, .. } = *self;
        let layout = Layout { topology: place.topology, hosts: &hosts, server, cross_nic, channels };
        let mut collectives = Vec::new();
        for formats::Collective { operation, members, bytes } in read.collectives {
            check_pieces(Bytes(bytes), self.chunk).map_err(|wrong| Mistake::new("chunk", wrong))?;
            let n = members.len() as u32;
            let own = self.algorithm.check(operation, n).is_ok();
            let algorithm = if own { self.algorithm } else { operation.usual() };
            collectives.push(layout.of(operation, algorithm, members, bytes));
        }
        let Self { chunk: Bytes(chunk), queue_pairs, send_latency: Span(latency), send_rate: rate, .. } = *self;
        let noise = self.noise.unwrap_or_default().0;
        let sending = Sending { chunk, queue_pairs, latency, rate, noise };
        let order = |ops| if self.in_turn { formats::in_turn(ops) } else { ops };
        let ranks = read.ranks.into_iter().map(scale).map(order).collect();
        let wrong = |wrong| Mistake::new("file", format!("\"{}\": {wrong}", self.file));
        let graph = Graph::new(ranks, collectives, sending).map_err(wrong)?;
        Ok(Job { hosts, graph, left_out: read.left_out })
    }
}

impl Workload for Config {
    fn check(&self, _of: &Context, rule: Rule<'_>) {
        check_sending(self.channels, self.queue_pairs, self.chunk, self.send_rate, rule);
        rule(self.server.is_none_or(|server| server > 0), "server", "must be at least 1".into());
        rule(self.ranks.is_none_or(|ranks| ranks > 0), "ranks", "must be at least 1".into());
        rule(self.repeat > 0, "repeat", "must be at least 1".into());
        let scale = self.compute_scale;
        rule((0.0..=1e6).contains(&scale), "compute_scale", format!("{scale} is outside 0 to 1e6"));
    }

    fn check_placed(&self, of: &Context, place: &Place<'_>, found: &mut Findings) {
        found.members(self.hosts.as_deref(), place.topology);
        if !found.wrong.is_empty() || self.ranks == Some(0) {
            return;
        }
        match self.read(place) {
            Err(wrong) => found.wrong.push(wrong),
            Ok(Job { graph, left_out, .. }) => {
                found.left_out = left_out;
                let once = graph.about(place.topology.host_rate());
                found.about = once.saturating_mul(self.repeat.into()).saturating_add(self.start.0);
                found.note("file", check_channels(of, graph.channels()));
            }
        }
    }

    fn input_files(&self) -> Vec<(&'static str, String)> {
        let others = match self.format() {
            Some(Format::Chakra) => formats::chakra::others(&self.file, self.ranks.unwrap_or(1)),
            _ => vec![],
        };
        // Those of the other ranks are found by the first one's name.
        std::iter::once(("file", self.file.clone())).chain(others.into_iter().map(|file| ("", file))).collect()
    }

    fn resolve(&mut self, of: &Context, place: &Place<'_>, _: Ps) {
        self.noise.get_or_insert(usual_noise(of));
        self.format = self.format();
        if self.format == Some(Format::Chakra) {
            // So that the files of all ranks are this scenario's, too.
            self.ranks = self.ranks.or_else(|| formats::chakra::ranks(&self.file, place.base).ok());
        }
    }

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let Job { hosts, graph, .. } = self.read(&section.place).map_err(|wrong| wrong.message)?;
        let LoadSpan { warmup, seed, .. } = section.span;
        let start = warmup + self.start.0;
        let when = When { traffic: section.number, start, iterations: self.repeat, seed };
        graph.place(&hosts, self.acknowledged.then_some(section.place.topology), when, plan);
        Ok(())
    }

    fn group(&self) -> Option<Group> {
        Some(Group::collectives())
    }
}
