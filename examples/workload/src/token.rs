//! A token that travels around a ring of hosts, as in token-ring mutual exclusion: each host holds it for a while, then
//! passes it on. A program at a host acts on what that host receives, and on its own timer.

use onramp_sim::records::ExchangeRecord;
use onramp_sim::units::{Bytes, Ps, Span};
use onramp_sim::workload::{Actions, Message, Plan, Program, Section};
use serde::Deserialize;

/// Keys of the scenario's section beside `kind` and `name`.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    /// Size of the token.
    size: Bytes,
    /// Time for which a host holds it.
    hold: Span,
    /// Number of times it travels around the ring.
    rounds: u64,
}

/// A host of the ring.
#[derive(Debug)]
struct Member {
    host: u32,
    next: u32,
    traffic: u32,
    token: Parameters,
    /// Its channel to the next host.
    out: u32,
    /// Time at which it passes the token on, while it holds it, and the token's round.
    due: Option<(Ps, u64)>,
    /// Rounds that are left at the first host, which counts them.
    left: Option<u64>,
    /// When the round began.
    since: Ps,
}

/// Reads the keys, and places a program at each host.
pub fn factory(keys: &toml::Table, section: &Section<'_>, plan: &mut Plan) -> Result<(), String> {
    let token: Parameters = keys.clone().try_into().map_err(|e: toml::de::Error| e.message().to_string())?;
    let (hosts, traffic) = (section.place.topology.hosts() as u32, section.number);
    let begin = section.span.warmup;
    let places: Vec<usize> = (0..hosts)
        .map(|host| {
            let is_first = host == 0;
            let member = Member {
                host,
                next: (host + 1) % hosts,
                traffic,
                token,
                // Of a host's two channels: the first host's first one is to the next host, as the loop below joins them.
                out: u32::from(!is_first),
                due: is_first.then_some((begin + token.hold.0, 0)),
                left: is_first.then_some(token.rounds),
                since: begin,
            };
            plan.place(host, traffic, host, member)
        })
        .collect();
    for host in 0..places.len() {
        plan.join_one_way([places[host], places[(host + 1) % places.len()]], traffic);
    }
    Ok(())
}

impl Program for Member {
    fn received(&mut self, now: Ps, _channel: u32, token: Message, out: &mut Actions) {
        let mut round = token.tag;
        if let Some(left) = &mut self.left {
            *left -= 1;
            out.record(ExchangeRecord {
                traffic: self.traffic,
                session: 0,
                number: token.tag,
                client: self.host,
                server: self.next,
                bytes: token.bytes,
                write: false,
                start_ps: self.since,
                latency_ps: now - self.since,
            });
            self.since = now;
            round += 1;
        }
        self.due = (self.left != Some(0)).then_some((now + self.token.hold.0, round));
    }

    fn proceed(&mut self, now: Ps, out: &mut Actions) {
        if let Some((_, round)) = self.due.take_if(|(due, _)| *due <= now) {
            out.send(self.out, Message { bytes: self.token.size.0, tag: round, content: 0 });
        }
    }

    fn wake(&self) -> Option<Ps> {
        self.due.map(|(due, _)| due)
    }

    /// Whoever only passes it on is always over.
    fn is_over(&self) -> bool {
        self.left.is_none_or(|left| left == 0)
    }

    fn open(&self) -> u64 {
        u64::from(!self.is_over())
    }
}
