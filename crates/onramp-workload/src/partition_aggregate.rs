//! Requests whose answers are themselves requests: a root asks aggregators, each of which asks workers of its own and
//! answers once it has all of their answers (partition/aggregate; Alizadeh et al., *Data Center TCP*, SIGCOMM'10, §2.1).

use super::clients::{
    Asked, Asking, Drawn, Pace, Server, Service, Session, Sizes, Times, check_channels, check_pace, named,
};
use super::rpc::LARGEST;
use super::{Actions, Context, Findings, Group, Medium, Message, Place, Plan, Program, Section, Workload};
use onramp_config::units::{Ps, Span};
use onramp_config::{Mistake, Rule};
use onramp_topology::Topology;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Requests whose answers are themselves requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Roots: hosts, or groups of them, by name. Each asks all aggregators.
    pub from: Vec<String>,
    /// Aggregators.
    pub aggregators: Vec<String>,
    /// Workers, which the aggregators share evenly, in order.
    pub workers: Vec<String>,
    /// Size of what an aggregator is asked.
    pub request: Sizes,
    /// Size of what a worker is asked. Default: as `request`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub query: Option<Sizes>,
    /// Size of a worker's answer.
    pub answer: Sizes,
    /// Size of an aggregator's answer.
    pub response: Sizes,
    /// Requests of a root in a second, at random (Poisson); or see `depth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Requests of a root that are open at a time: the next one follows a response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Time a worker computes. Default 0.
    #[serde(default)]
    pub service: Span,
    /// Time an aggregator computes when it has all answers. Default 0.
    #[serde(default)]
    pub merge: Span,
}

/// The hosts of the three tiers.
struct Tiers {
    roots: Vec<u32>,
    aggregators: Vec<u32>,
    workers: Vec<u32>,
}

impl Tiers {
    /// Channels of a section.
    fn channels(&self) -> usize {
        self.roots.len() * self.aggregators.len() + self.workers.len()
    }

    /// The aggregator of a worker, both by number.
    fn aggregator_of(&self, worker: usize) -> usize {
        worker * self.aggregators.len() / self.workers.len()
    }
}

impl Config {
    fn tiers(&self, topology: &Topology) -> Result<Tiers, Vec<Mistake>> {
        let tiers = Tiers {
            roots: named("from", &self.from, topology)?,
            aggregators: named("aggregators", &self.aggregators, topology)?,
            workers: named("workers", &self.workers, topology)?,
        };
        let Tiers { roots, aggregators, workers } = &tiers;
        let asking: BTreeSet<u32> = aggregators.iter().copied().collect();
        for (key, tier) in [("from", roots), ("workers", workers)] {
            if let Some(&both) = tier.iter().find(|host| asking.contains(host)) {
                return Err(vec![Mistake::new(key, format!("{} is one of the aggregators, too", topology.name(both)))]);
            }
        }
        if workers.len() < aggregators.len() {
            let message = format!("{} workers for {} aggregators: one each at least", workers.len(), aggregators.len());
            return Err(vec![Mistake::new("workers", message)]);
        }
        Ok(tiers)
    }

    fn sizes(&self) -> [(&'static str, &Sizes); 4] {
        let query = self.query.as_ref().unwrap_or(&self.request);
        [("request", &self.request), ("query", query), ("answer", &self.answer), ("response", &self.response)]
    }
}

impl Workload for Config {
    fn check(&self, _of: &Context, rule: Rule<'_>) {
        check_pace(self.per_second, self.depth, rule);
    }

    fn check_placed(&self, _of: &Context, place: &Place<'_>, found: &mut Findings) {
        for (key, sizes) in self.sizes() {
            if key != "query" || self.query.is_some() {
                found.note(key, sizes.check(LARGEST, place.base));
            }
        }
        match self.tiers(place.topology) {
            Err(wrong) => found.list(wrong),
            Ok(tiers) => found.note("aggregators", check_channels(tiers.channels())),
        }
    }

    fn input_files(&self) -> Vec<(&'static str, String)> {
        let files = self.sizes().map(|(key, sizes)| (key, sizes.file()));
        let own = files.into_iter().filter(|(key, _)| *key != "query" || self.query.is_some());
        own.filter_map(|(key, file)| Some((key, file?.to_string()))).collect()
    }

    fn resolve(&mut self, _: &Context, _: &Place<'_>, _: Ps) {
        self.query.get_or_insert_with(|| self.request.clone());
    }

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let Section { span, place, number: traffic } = *section;
        let tiers = self.tiers(place.topology).map_err(|mut wrong| wrong.swap_remove(0).message)?;
        let [request, query, answer, response] = self.sizes().map(|(_, sizes)| sizes.read(place.base));
        let (request, query, answer, response) = (request?, query?, answer?, response?);
        let pace = Pace::of(self.per_second, self.depth, 1);
        let times = Times { from: 0, until: span.warmup + span.duration, pace };
        let mut numbers = 0..;
        let mut number = || numbers.next().expect("there are few");
        let mut workers_of = vec![0; tiers.aggregators.len()];
        (0..tiers.workers.len()).for_each(|worker| workers_of[tiers.aggregator_of(worker)] += 1);
        // Those who answer come before those who ask, should both be due at the same time.
        let worker =
            |host: &u32, plan: &mut Plan, number| plan.place(*host, traffic, number, Server::new(self.service));
        let workers: Vec<usize> = tiers.workers.iter().map(|host| worker(host, plan, number())).collect();
        let mut aggregators = Vec::new();
        for (&host, &workers) in tiers.aggregators.iter().zip(&workers_of) {
            let roots = tiers.roots.len() as u32;
            let stream = u64::from(traffic) << 32 | aggregators.len() as u64;
            let sizes = [query.clone(), answer.clone()];
            let merging = Service::new(self.merge.0);
            let program = Aggregator { seed: span.seed, stream, roots, workers, sizes, merging, open: BTreeMap::new() };
            aggregators.push(plan.place(host, traffic, number(), program));
        }
        for (root, &host) in (0..).zip(&tiers.roots) {
            let session = Session { client: host, server: tiers.aggregators[0], traffic, number: root };
            let asking = Asking::new(session, times, span.seed);
            let sizes = [request.clone(), response.clone()];
            let root = plan.place(
                host,
                traffic,
                number(),
                Root { asking, aggregators: aggregators.len(), sizes, left: BTreeMap::new() },
            );
            for &aggregator in &aggregators {
                plan.join([root, aggregator], traffic, Medium::Messages);
            }
        }
        for (number, &worker) in workers.iter().enumerate() {
            plan.join([aggregators[tiers.aggregator_of(number)], worker], traffic, Medium::Messages);
        }
        Ok(())
    }

    fn group(&self) -> Option<Group> {
        let group = Group::exchanges("partition-aggregate", "Request latency").rate("per_s", "requests", "1/s");
        Some(group.closed(self.depth.is_some()))
    }
}

/// Asks all aggregators, and has its answer when it has theirs.
#[derive(Debug)]
struct Root {
    asking: Asking,
    aggregators: usize,
    /// Sizes of requests and responses.
    sizes: [Drawn; 2],
    /// Responses that open requests lack, by number.
    left: BTreeMap<u64, usize>,
}

impl Program for Root {
    fn asking(&self) -> Option<&Asking> {
        Some(&self.asking)
    }

    fn received(&mut self, now: Ps, _channel: u32, response: Message, out: &mut Actions) {
        let left = self.left.get_mut(&response.tag).expect("only what is open is answered");
        *left -= 1;
        if *left == 0 {
            self.left.remove(&response.tag);
            self.asking.answered(now, response.tag, out);
        }
    }

    fn proceed(&mut self, now: Ps, out: &mut Actions) {
        let Self { asking, aggregators, sizes: [request, response], left } = self;
        while let Some((tag, drawn)) = asking.begin(now, |random| {
            let drawn: Vec<[u64; 2]> =
                (0..*aggregators).map(|_| [request.draw(random), response.draw(random)]).collect();
            let bytes = drawn.iter().map(|[_, response]| response).sum();
            (Asked { bytes, write: false }, drawn)
        }) {
            left.insert(tag, *aggregators);
            for (channel, [bytes, content]) in (0..).zip(drawn) {
                out.send(channel, Message { bytes, tag, content });
            }
        }
    }
}

/// Asks its workers for each request. Its channels are those of the roots, then those of its workers.
#[derive(Debug)]
struct Aggregator {
    seed: u64,
    stream: u64,
    roots: u32,
    workers: u32,
    /// Sizes of queries and answers.
    sizes: [Drawn; 2],
    merging: Service,
    /// Requests at work, by root and number: what is asked for, and answers that are missing.
    open: BTreeMap<(u32, u64), (Message, u32)>,
}

/// A request is known to workers by its root and its number there.
const ROOT_SHIFT: u32 = 48;

impl Program for Aggregator {
    fn received(&mut self, now: Ps, channel: u32, message: Message, out: &mut Actions) {
        if channel < self.roots {
            self.open.insert((channel, message.tag), (message, self.workers));
            let tag = u64::from(channel) << ROOT_SHIFT | message.tag;
            // Sizes depend on the request, not on when it has come.
            let mut random = onramp_random::stream(self.seed ^ tag, "partition-aggregate", self.stream);
            let [query, answer] = &self.sizes;
            for worker in 0..self.workers {
                let (bytes, content) = (query.draw(&mut random), answer.draw(&mut random));
                out.send(self.roots + worker, Message { bytes, tag, content });
            }
            return;
        }
        let key = ((message.tag >> ROOT_SHIFT) as u32, message.tag & ((1 << ROOT_SHIFT) - 1));
        let (request, left) = self.open.get_mut(&key).expect("only what is open is answered");
        *left -= 1;
        if *left == 0 {
            let response = Message { bytes: request.content, content: 0, ..*request };
            self.open.remove(&key);
            self.merging.answer(now, key.0, response, out);
        }
    }

    fn proceed(&mut self, now: Ps, out: &mut Actions) {
        self.merging.proceed(now, out);
    }

    fn wake(&self) -> Option<Ps> {
        self.merging.wake()
    }
}
