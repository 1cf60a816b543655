//! Remote procedure calls: short requests and their responses.

use super::clients::{Asked, Asking, Between, Drawn, Pace, Peers, Server, Sizes, check_pace, one};
use super::{Actions, Context, Findings, Group, Medium, Message, Place, Plan, Program, Section, Workload};
use onramp_config::Rule;
use onramp_config::units::{Bytes, Ps, Span};
use serde::{Deserialize, Serialize};

/// Largest request and response.
pub const LARGEST: Bytes = Bytes(64 << 20);

/// Remote procedure calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Clients: hosts, or groups of them, by name.
    pub from: Vec<String>,
    /// Servers.
    pub to: Vec<String>,
    /// Only so many of the clients, the first ones. Default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clients: Option<u32>,
    /// Servers a client asks: "all" or "one". Default "all".
    #[serde(default = "all")]
    pub peers: Peers,
    /// Connections between a client and a server. Default 1.
    #[serde(default = "one")]
    pub connections: u32,
    /// Size of a request.
    pub request: Sizes,
    /// Size of a response.
    pub response: Sizes,
    /// Requests of a client in a second, at random (Poisson), to any of its servers; or see `depth`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<f64>,
    /// Requests that are open at a time on each connection: the next one follows its response.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// From a request's arrival until its response is sent. Default 0.
    #[serde(default)]
    pub service: Span,
    /// When clients begin. Default: with the warm-up, or at 0 without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start: Option<Span>,
    /// When they stop. Default: at the end of `duration`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Span>,
}

fn all() -> Peers {
    Peers::All
}

impl Config {
    /// Who asks whom, and when.
    pub fn between(&self) -> Between<'_> {
        let &Self { ref from, clients, ref to, peers, connections, start, stop, .. } = self;
        Between { from, clients, to, peers, connections, start, stop }
    }
}

impl Workload for Config {
    fn check(&self, of: &Context, rule: Rule<'_>) {
        self.between().check(of, rule);
        check_pace(self.per_second, self.depth, rule);
    }

    fn check_placed(&self, _of: &Context, place: &Place<'_>, found: &mut Findings) {
        let sizes = [("request", &self.request), ("response", &self.response)];
        self.between().check_placed(&sizes, LARGEST, place, found);
    }

    fn input_files(&self) -> Vec<(&'static str, String)> {
        let files = [("request", self.request.file()), ("response", self.response.file())];
        files.into_iter().filter_map(|(key, file)| Some((key, file?.to_string()))).collect()
    }

    fn resolve(&mut self, of: &Context, _: &Place<'_>, _: Ps) {
        self.stop.get_or_insert(of.duration);
    }

    fn build(&self, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
        let base = section.place.base;
        let sizes = [self.request.read(base)?, self.response.read(base)?];
        let (sessions, each) = self.between().sessions(section)?;
        let times = self.between().times(section, Pace::of(self.per_second, self.depth, each));
        for session in &sessions {
            let client = Client { asking: Asking::new(*session, times, section.span.seed), sizes: sizes.clone() };
            plan.pair(session, client, Server::new(self.service), Medium::Messages);
        }
        Ok(())
    }

    fn group(&self) -> Option<Group> {
        Some(Group::exchanges("rpc", "RPC latency").rate("per_s", "RPCs", "1/s").closed(self.depth.is_some()))
    }
}

/// Asks at its pace.
#[derive(Debug)]
struct Client {
    asking: Asking,
    /// Sizes of requests and responses.
    sizes: [Drawn; 2],
}

impl Program for Client {
    fn asking(&self) -> Option<&Asking> {
        Some(&self.asking)
    }

    fn received(&mut self, now: Ps, _channel: u32, response: Message, out: &mut Actions) {
        self.asking.answered(now, response.tag, out);
    }

    fn proceed(&mut self, now: Ps, out: &mut Actions) {
        let Self { asking, sizes: [request, response] } = self;
        while let Some((tag, (bytes, content))) = asking.begin(now, |random| {
            let (request, response) = (request.draw(random), response.draw(random));
            (Asked { bytes: response, write: false }, (request, response))
        }) {
            out.send(0, Message { bytes, tag, content });
        }
    }
}
