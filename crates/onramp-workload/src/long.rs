//! Flows that send as fast as they may.

use super::{Context, Findings, NewFlow, Place, Plan, Section, Size, Source, Workload};
use onramp_config::units::{Ps, Span};
use onramp_config::{Mistake, Rule};
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

impl Workload for Config {
    fn check(&self, of: &Context, rule: Rule<'_>) {
        rule(!self.src.is_empty(), "src", "names no host".into());
        let stop = self.stop.unwrap_or(of.duration);
        let start = self.start.unwrap_or_default();
        let what = if self.stop.is_some() { "the stop" } else { "the end of duration" };
        let ok = start < stop || stop == Span(0) && self.stop.is_none();
        rule(ok, "start", format!("{start} is not before {what}, {stop}"));
    }

    fn check_placed(&self, _of: &Context, place: &Place<'_>, found: &mut Findings) {
        found.list(self.src.iter().enumerate().filter_map(|(i, name)| {
            let message = match place.topology.host_named(name) {
                Err(error) => error.to_string(),
                Ok(_) if *name == self.dst => format!("{name} would send to itself"),
                Ok(_) => return None,
            };
            Some(Mistake::new(format!("src[{i}]"), message))
        }));
        found.note("dst", place.topology.host_named(&self.dst).map(drop).map_err(|e| e.to_string()));
    }

    fn resolve(&mut self, of: &Context, _: &Place<'_>, base_rtt: Ps) {
        self.stop.get_or_insert(of.duration);
        self.jitter.get_or_insert(Span(base_rtt));
    }

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let Section { span, place, number } = *section;
        let named = |name: &str| place.topology.host_named(name).map_err(|e| e.to_string());
        let dst = named(&self.dst)?;
        let stop = span.warmup + self.stop.map_or(span.duration, |stop| stop.0);
        let start = self.start.map_or(0, |start| span.warmup + start.0);
        let jitter = self.jitter.unwrap_or_default().0;
        let flow = |(i, name): (usize, &String)| {
            let src = named(name)?;
            let mut random = onramp_random::stream(span.seed, "long", u64::from(number) << 32 | i as u64);
            let later = (onramp_random::uniform(&mut random) * jitter as f64) as Ps;
            let size = Size::Until(stop);
            Ok((start + later, NewFlow { src, dst, size, traffic: number, request: None }))
        };
        let mut flows = self.src.iter().enumerate().map(flow).collect::<Result<Vec<_>, String>>()?;
        // The sort keeps the order of those that start together.
        flows.reverse();
        flows.sort_by_key(|(at, _)| Reverse(*at));
        plan.source(Long { flows });
        Ok(())
    }

    fn is_endless(&self) -> bool {
        true
    }
}

impl Source for Long {
    fn next_at(&self) -> Option<Ps> {
        self.flows.last().map(|(at, _)| *at)
    }

    fn take(&mut self, out: &mut Vec<NewFlow>) {
        out.extend(self.flows.pop().map(|(_, flow)| flow));
    }
}
