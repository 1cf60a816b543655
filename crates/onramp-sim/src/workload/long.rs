//! Flows that send as fast as they may.

use super::{NewFlow, Section, Size, Source};
use crate::config::units::{Ps, Span};
use crate::engine::random;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Flows that send as fast as they may.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Sending hosts, by name; one flow each.
    pub src: Vec<String>,
    /// Receiving host.
    pub dst: String,
    /// When they start. Default: with the warm-up, or at 0 without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// Each starts up to this much later, at random: flows that start in the same
    /// picosecond stay in step. Default: one base RTT.
    #[serde(default)]
    pub jitter: Option<Span>,
    /// When they stop. Default: at the end of `duration`.
    #[serde(default)]
    pub stop: Option<Span>,
}

/// All flows of a section that are still to come, the next one last.
struct Long {
    flows: Vec<(Ps, NewFlow)>,
}

pub(super) fn add(config: &Config, section: &Section<'_>, all: &mut Vec<Box<dyn Source>>) -> Result<(), String> {
    let dst = section.topology.host_named(&config.dst)?;
    let span = section.span;
    let stop = span.warmup + config.stop.map_or(span.duration, |stop| stop.0);
    let start = config.start.map_or(0, |start| span.warmup + start.0);
    let jitter = config.jitter.unwrap_or_default().0;
    let flow = |(i, name): (usize, &String)| {
        let src = section.topology.host_named(name)?;
        let mut random = random::stream(span.seed, "long", u64::from(section.number) << 32 | i as u64);
        let later = (random::uniform(&mut random) * jitter as f64) as Ps;
        let size = Size::Until(stop);
        Ok((start + later, NewFlow { src, dst, size, traffic: section.number, request: None }))
    };
    let mut flows = config.src.iter().enumerate().map(flow).collect::<Result<Vec<_>, String>>()?;
    // The sort keeps the order of those that start together.
    flows.reverse();
    flows.sort_by_key(|(at, _)| Reverse(*at));
    all.push(Box::new(Long { flows }));
    Ok(())
}

impl Source for Long {
    fn next_at(&self) -> Option<Ps> {
        self.flows.last().map(|(at, _)| *at)
    }

    fn take(&mut self, out: &mut Vec<NewFlow>) {
        out.extend(self.flows.pop().map(|(_, flow)| flow));
    }
}
