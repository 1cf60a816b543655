//! An agent's history as the dashboard remembers it: for each second, how far its counters went. Pure.

use onrampd::config::Mode;
use onrampd::status::histogram::{lower_bound, quantile};
use onrampd::status::{Gate, Path, Status};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, VecDeque};
use std::iter::repeat_n;
use std::net::IpAddr;

/// Seconds remembered.
pub const SECONDS: usize = 900;
/// Paths remembered.
pub const PATHS: usize = 64;
/// Most seconds in one answer.
pub const ANSWER: usize = 300;
/// Polls over which the share of time held is taken: the agent tells it once a window, of about a second.
const HELD_OVER: usize = 5;

/// Names of the counters whose rates are remembered.
pub const RATES: [&str; 13] = [
    "held_ns",
    "holds",
    "waited",
    "sent_bytes",
    "or_acks_received",
    "or_acks_sent",
    "or_acks_refused",
    "drops_packets",
    "drops_bytes",
    "drops_flow",
    "drops_codel",
    "marks",
    "table_full",
];

fn totals(status: &Status) -> [u64; RATES.len()] {
    let gates = |of: fn(&Gate) -> u64| status.interfaces.iter().flat_map(|i| &i.gates).map(of).sum();
    let count = |name: &str| status.counters.get(name).copied().unwrap_or(0);
    let refused =
        ["malformed", "unknown_peer", "bad_tag", "no_stamp", "ambiguous", "no_clock", "too_long", "too_short"];
    [
        gates(|g| g.held_ns),
        gates(|g| g.held),
        count("held"),
        count("sent_bytes"),
        count("or_acks_received"),
        count("or_acks_sent"),
        refused.iter().map(|reason| count(&format!("or_acks_{reason}"))).sum(),
        gates(|g| g.limit_drops),
        gates(|g| g.bytes_drops),
        gates(|g| g.flow_limit_drops),
        gates(|g| g.codel_drops),
        gates(|g| g.codel_marks),
        count("table_full"),
    ]
}

/// Differences between two looks at the agent.
#[derive(Clone, Debug, Serialize)]
struct Second {
    /// Number of the look.
    n: u64,
    /// Its time, since the dashboard started, in milliseconds.
    at_ms: u64,
    /// Active mode.
    mode: Mode,
    /// Flows held at that moment.
    held_now: u64,
    /// Counters per second, as [`RATES`] names them; none where one does not go on from the look before.
    rates: Vec<Option<f64>>,
}

/// Delays of a path between two looks.
#[derive(Clone, Debug)]
struct Delays {
    n: u64,
    /// Buckets that are not empty, and their counts.
    buckets: Vec<(u8, u32)>,
    p50_ns: Option<i64>,
    p99_ns: Option<i64>,
    /// Share of delays above T.
    above: f64,
    /// Share of time held.
    held: f64,
    threshold_ns: u64,
    /// True if packets of the path could be held; `None` if that changed meanwhile.
    enforced: Option<bool>,
}

impl Delays {
    fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, n)| u64::from(*n)).sum()
    }

    /// `[n, delays, p50 ns, p99 ns, share above T, share of time held, T ns]`.
    fn json(&self) -> Value {
        let share = |share: f64| (share * 1e4).round() / 1e4;
        json!([self.n, self.count(), self.p50_ns, self.p99_ns, share(self.above), share(self.held), self.threshold_ns])
    }
}

/// A path that is remembered.
#[derive(Debug, Default)]
struct Row {
    delays: VecDeque<Delays>,
    /// Times held so far, at the latest looks: time and sum in nanoseconds.
    held: VecDeque<(u64, u64)>,
}

impl Row {
    /// Delays above T that are remembered.
    fn above(&self) -> f64 {
        self.delays.iter().map(|d| d.above * d.count() as f64).sum()
    }

    /// Share of time held of the latest looks.
    fn share(&mut self, at_ms: u64, held_ns: u64) -> f64 {
        let at = at_ms * 1_000_000;
        if self.held.back().is_some_and(|(_, before)| *before > held_ns) {
            self.held.clear();
        }
        self.held.push_back((at, held_ns));
        if self.held.len() > HELD_OVER + 1 {
            self.held.pop_front();
        }
        let (since, before) = self.held[0];
        if at == since { 0.0 } else { ((held_ns - before) as f64 / (at - since) as f64).min(1.0) }
    }

    /// Percentiles of all delays in seconds with and without holding.
    fn by_mode(&self) -> Value {
        let of = |enforced| {
            let mut sum = Vec::new();
            let mut seconds = 0;
            for delays in self.delays.iter().filter(|d| d.enforced == Some(enforced) && !d.buckets.is_empty()) {
                seconds += 1;
                delays.buckets.iter().for_each(|(bucket, n)| add(&mut sum, usize::from(*bucket), *n));
            }
            let count: u64 = sum.iter().map(|n| u64::from(*n)).sum();
            json!({"seconds": seconds, "delays": count, "p50_ns": quantile(&sum, 0.5), "p99_ns": quantile(&sum, 0.99)})
        };
        json!({"observe": of(false), "enforce": of(true)})
    }
}

fn add(sum: &mut Vec<u32>, bucket: usize, n: u32) {
    if sum.len() <= bucket {
        sum.extend(repeat_n(0, bucket + 1 - sum.len()));
    }
    sum[bucket] = sum[bucket].saturating_add(n);
}

/// Share of a histogram above a delay; those of a bucket are taken as spread evenly.
fn share_above(histogram: &[u32], ns: u64) -> f64 {
    let above = |(bucket, n): (usize, &u32)| {
        let low = if bucket == 0 { 0 } else { lower_bound(bucket) };
        let width = lower_bound(bucket + 1) - low;
        f64::from(*n) * ((low + width).saturating_sub(ns).min(width) as f64 / width as f64)
    };
    let all: f64 = histogram.iter().map(|n| f64::from(*n)).sum();
    if all == 0.0 { 0.0 } else { histogram.iter().enumerate().map(above).sum::<f64>() / all }
}

/// How far each bucket went; none if one went back.
fn difference(before: &[u32], now: &[u32]) -> Option<Vec<u32>> {
    let old = |bucket: usize| before.get(bucket).copied().unwrap_or(0);
    now.iter().enumerate().map(|(bucket, n)| n.checked_sub(old(bucket))).collect()
}

/// A path at a look.
struct Look<'a> {
    at_ms: u64,
    mode: Mode,
    path: &'a Path,
}

/// The last quarter of an hour.
#[derive(Debug, Default)]
pub struct History {
    next: u64,
    seconds: VecDeque<Second>,
    rows: BTreeMap<IpAddr, Row>,
    /// The latest look.
    last: Option<(u64, Status)>,
    /// Since when the agent has not answered, and why.
    gone: Option<(u64, String)>,
}

impl History {
    /// Takes in that the agent did not answer.
    pub fn gone(&mut self, at_ms: u64, why: String) {
        let since = self.gone.as_ref().map_or(at_ms, |(since, _)| *since);
        self.gone = Some((since, why));
    }

    /// Takes in a status with histograms.
    pub fn push(&mut self, at_ms: u64, status: Status) {
        let was_gone = self.gone.take().is_some();
        // After an upgrade the process is the same.
        let goes_on = |(at, old): &(u64, Status)| {
            !was_gone && at_ms > *at && old.pid == status.pid && old.uptime_ns <= status.uptime_ns
        };
        let before = self.last.take().filter(goes_on);
        let n = self.next;
        self.next += 1;
        let rates = before.as_ref().map_or(Vec::new(), |(at, old)| {
            let seconds = (at_ms - at) as f64 / 1e3;
            let rate = |(now, old): (u64, u64)| {
                // A gate that was replaced counts anew.
                now.checked_sub(old).map(|n| (n as f64 / seconds * 1e3).round() / 1e3)
            };
            totals(&status).into_iter().zip(totals(old)).map(rate).collect()
        });
        self.seconds.push_back(Second { n, at_ms, mode: status.mode, held_now: status.flows.held_now, rates });
        if self.seconds.len() > SECONDS {
            self.seconds.pop_front();
        }
        let oldest = self.oldest();
        self.rows.retain(|_, row| {
            while row.delays.front().is_some_and(|d| d.n < oldest) {
                row.delays.pop_front();
            }
            !row.delays.is_empty()
        });
        if let Some((old_at_ms, old)) = &before {
            let known: BTreeMap<IpAddr, &Path> = old.paths.iter().map(|p| (p.peer, p)).collect();
            for path in &status.paths {
                if let Some(old_path) = known.get(&path.peer) {
                    let old = Look { at_ms: *old_at_ms, mode: old.mode, path: old_path };
                    self.path(n, &old, &Look { at_ms, mode: status.mode, path });
                }
            }
        }
        self.last = Some((at_ms, status));
    }

    fn oldest(&self) -> u64 {
        self.seconds.front().map_or(self.next, |s| s.n)
    }

    /// Takes in what a path did between two looks.
    fn path(&mut self, n: u64, before: &Look<'_>, now: &Look<'_>) {
        let (old, path) = (before.path, now.path);
        let histogram = |path: &Path| path.owd.as_ref().map_or(Vec::new(), |owd| owd.histogram.clone());
        let Some(histogram) = difference(&histogram(old), &histogram(path)) else { return };
        let is_quiet = histogram.iter().all(|n| *n == 0) && path.held_ns == old.held_ns;
        if is_quiet && !self.rows.contains_key(&path.peer) {
            return;
        }
        let above = share_above(&histogram, path.threshold_ns);
        let count: u32 = histogram.iter().sum();
        if !self.make_room(path.peer, above * f64::from(count)) {
            return;
        }
        let row = self.rows.entry(path.peer).or_default();
        if row.held.is_empty() {
            row.share(before.at_ms, old.held_ns);
        }
        let held = row.share(now.at_ms, path.held_ns);
        if is_quiet && held == 0.0 {
            return;
        }
        let enforced = match (before.mode, now.mode) {
            (Mode::Enforce, Mode::Enforce) if old.not_held.is_none() && path.not_held.is_none() => Some(true),
            (Mode::Observe, Mode::Observe) => Some(false),
            _ => None,
        };
        row.delays.push_back(Delays {
            n,
            p50_ns: quantile(&histogram, 0.5),
            p99_ns: quantile(&histogram, 0.99),
            above,
            held,
            threshold_ns: path.threshold_ns,
            enforced,
            buckets: (0u8..).zip(histogram).filter(|(_, n)| *n > 0).collect(),
        });
    }

    /// Returns whether a path may be remembered that has so many delays above T now: there is room, or another one had
    /// fewer in all, which is forgotten.
    fn make_room(&mut self, peer: IpAddr, above: f64) -> bool {
        if self.rows.len() < PATHS || self.rows.contains_key(&peer) {
            return true;
        }
        let least = self.rows.iter().map(|(peer, row)| (row.above(), *peer)).min_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, least)) = least.filter(|(least, _)| *least < above) else { return false };
        self.rows.remove(&least);
        true
    }

    /// State for the page: at most [`ANSWER`] seconds, from number `since` on.
    #[must_use]
    pub fn json(&self, since: u64, now_ms: u64) -> Value {
        let first = since.max(self.oldest());
        let end = self.next.min(first.saturating_add(ANSWER as u64)).max(first);
        let is_asked = |n: u64| (first..end).contains(&n);
        let seconds: Vec<&Second> = self.seconds.iter().filter(|s| is_asked(s.n)).collect();
        let row = |(peer, row): (&IpAddr, &Row)| {
            let delays: Vec<Value> = row.delays.iter().filter(|d| is_asked(d.n)).map(Delays::json).collect();
            json!({"peer": peer, "delays": delays, "by_mode": row.by_mode()})
        };
        json!({
            "now_ms": now_ms,
            "oldest": self.oldest(),
            "next": end,
            "more": end < self.next,
            "gone": self.gone.as_ref().map(|(since, why)| json!({"since_ms": since, "why": why})),
            "agent": self.last.as_ref().map(|(_, status)| self.agent(status)),
            "rates": RATES,
            "seconds": seconds,
            "paths": self.rows.iter().map(row).collect::<Vec<_>>(),
        })
    }

    /// The latest status without what is long.
    fn agent(&self, status: &Status) -> Value {
        let remembered = status.paths.iter().filter(|p| self.rows.contains_key(&p.peer));
        let path = |p: &Path| {
            let owd = p.owd.as_ref();
            json!({
                "peer": p.peer, "clock_known": p.clock_known, "threshold_ns": p.threshold_ns, "not_held": p.not_held,
                "min_ns": owd.map(|o| o.min_ns), "or_acks": p.or_acks
            })
        };
        json!({
            "version": status.version,
            "mode": status.mode,
            "gate": status.gate,
            "without_gate": status.interfaces.iter().filter(|i| i.gates.is_empty()).map(|i| &i.name).collect::<Vec<_>>(),
            "uptime_ns": status.uptime_ns,
            "clock": status.clock,
            "threshold_ns": status.parameters.threshold_ns,
            "problems": status.problems,
            "flows": {"count": status.flows.count, "held_now": status.flows.held_now},
            "peers": status.paths.len(),
            "peers_known": status.paths.iter().filter(|p| p.clock_known).count(),
            "not_held": status.paths.iter().filter(|p| p.not_held.is_some()).count(),
            "paths": remembered.map(path).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An agent's state: for each path its address' last number, OR-ACKs in buckets 4 and 40, and time held in ms.
    fn status(seconds: u64, mode: &str, paths: &[(u8, u32, u32, u64)]) -> Status {
        let path = |&(last, low, high, held_ms): &(u8, u32, u32, u64)| {
            let mut histogram = vec![0; 64];
            (histogram[4], histogram[40]) = (low, high);
            json!({
                "peer": format!("10.0.0.{last}"), "clock_known": true, "threshold_ns": 50_000,
                "held_ns": held_ms * 1_000_000, "or_acks": low + high,
                "owd": {"now_ns": 1, "age_ns": 2, "min_ns": 3000, "mean_ns": 4, "p50_ns": 5, "p99_ns": 6, "sum_ns": 7,
                        "histogram": histogram}
            })
        };
        serde_json::from_value(json!({
            "version": "0.1.0", "mode": mode, "pid": 1, "uptime_ns": seconds * 1_000_000_000, "attached": "tcx",
            "problems": [], "interfaces": [],
            "parameters": {"threshold_ns": 50_000, "max_pause_ns": 1, "gain": 0.5, "version": "final",
                           "beta_start": 1.0, "or_ack_interval_bytes": 1, "port": 1, "idle_ns": 1,
                           "line_rate_bps": null},
            "clock": {"source": "shared", "known": true, "reason": ""},
            "paths": paths.iter().map(path).collect::<Vec<_>>(),
            "counters": {"held": 10 * seconds, "or_acks_bad_tag": 2 * seconds, "or_acks_no_clock": seconds},
            "flows": {"count": 3, "capacity": 4, "held_now": 1, "held_ns": 5, "pauses": 6, "top": []}
        }))
        .unwrap()
    }

    fn rate(json: &Value, second: usize, name: &str) -> Value {
        json["seconds"][second]["rates"][RATES.iter().position(|r| *r == name).unwrap()].clone()
    }

    #[test]
    fn seconds_have_differences_and_their_percentiles() {
        let mut history = History::default();
        history.push(1000, status(1, "enforce", &[(2, 1000, 1000, 0)]));
        history.push(3000, status(3, "enforce", &[(2, 1099, 1001, 500)]));
        let json = history.json(0, 3500);
        assert_eq!((&json["now_ms"], &json["next"], &json["more"]), (&json!(3500), &json!(2), &json!(false)));
        assert_eq!(json["seconds"][0]["rates"], json!([]), "there is nothing before it");
        assert_eq!((rate(&json, 1, "waited"), rate(&json, 1, "or_acks_refused")), (json!(10.0), json!(3.0)));
        let delays = &json["paths"][0]["delays"];
        assert_eq!(delays.as_array().unwrap().len(), 1);
        let [n, count, p50, p99, above, held, threshold]: [Value; 7] =
            delays[0].as_array().unwrap().clone().try_into().unwrap();
        assert_eq!((n, count, threshold), (json!(1), json!(100), json!(50_000)));
        assert!((2048..2560).contains(&p50.as_i64().unwrap()) && p99.as_i64().unwrap() <= 2560, "{p50} {p99}");
        assert_eq!((above, &held), (json!(0.01), &json!(0.25)), "500 ms of 2 s");
        assert_eq!(json["agent"]["paths"][0]["min_ns"], 3000);
        assert_eq!(history.json(2, 0)["seconds"], json!([]));
    }

    #[test]
    fn an_agent_that_starts_anew_makes_a_gap_and_no_spike() {
        let mut history = History::default();
        history.push(1000, status(1000, "observe", &[(2, 1_000_000, 0, 900_000)]));
        history.push(2000, status(1001, "observe", &[(2, 1_000_010, 0, 900_000)]));
        // By its uptime, and by counters that went back although the agent goes on.
        history.push(3000, status(1, "observe", &[(2, 5, 0, 0)]));
        history.push(4000, status(2, "observe", &[(2, 4, 9, 0)]));
        history.push(5000, status(3, "observe", &[(2, 6, 9, 0)]));
        let json = history.json(0, 5000);
        assert_eq!(json["seconds"][2]["rates"], json!([]));
        assert_eq!(rate(&json, 3, "waited"), 10.0);
        let delays = json["paths"][0]["delays"].as_array().unwrap();
        assert_eq!(
            delays.iter().map(|d| (&d[0], &d[1])).collect::<Vec<_>>(),
            [(&json!(1), &json!(10)), (&json!(4), &json!(2))]
        );
        assert!(delays.iter().all(|d| d[5] == 0.0), "{delays:?}");
    }

    #[test]
    fn an_agent_that_is_gone_is_told_of_with_the_time() {
        let mut history = History::default();
        history.push(1000, status(1, "observe", &[(2, 1, 0, 0)]));
        history.gone(2000, "refused".into());
        history.gone(3000, "not there".into());
        let json = history.json(0, 3000);
        assert_eq!(json["gone"], json!({"since_ms": 2000, "why": "not there"}));
        assert_eq!(json["agent"]["mode"], "observe", "the latest that is known");
        history.push(9000, status(9, "observe", &[(2, 100, 0, 0)]));
        let json = history.json(0, 9000);
        assert_eq!((&json["gone"], &json["seconds"][1]["rates"]), (&Value::Null, &json!([])));
    }

    #[test]
    fn history_is_bounded() {
        let mut history = History::default();
        let looks = 2 * SECONDS as u64;
        for n in 0..looks {
            let paths: Vec<_> = (0..=255).map(|last| (last, n as u32, n as u32 * u32::from(last == 255), 0)).collect();
            history.push(1000 * n, status(n, "observe", if n % 100 < 2 { &paths } else { &paths[..1] }));
        }
        assert_eq!((history.seconds.len(), history.rows.len()), (SECONDS, PATHS));
        assert!(history.rows.values().all(|row| row.delays.len() <= SECONDS && row.held.len() <= HELD_OVER + 1));
        assert!(history.rows.contains_key(&IpAddr::from([10, 0, 0, 255])), "the one above T takes another's place");
        let json = history.json(0, 0);
        assert_eq!(json["seconds"].as_array().unwrap().len(), ANSWER);
        assert_eq!((&json["oldest"], &json["more"]), (&json!(SECONDS), &json!(true)));
        let last = history.json(json["next"].as_u64().unwrap() + ANSWER as u64, 0);
        assert_eq!((&last["next"], &last["more"]), (&json!(looks), &json!(false)));
        assert_eq!(history.json(u64::MAX, 0)["seconds"], json!([]));
    }

    #[test]
    fn modes_are_compared_and_seconds_of_both_belong_to_none() {
        let mut history = History::default();
        history.push(1000, status(1, "observe", &[(2, 0, 0, 0)]));
        history.push(2000, status(2, "observe", &[(2, 0, 10, 0)]));
        history.push(3000, status(3, "enforce", &[(2, 0, 1000, 0)]));
        history.push(4000, status(4, "enforce", &[(2, 20, 1000, 0)]));
        let by_mode = &history.json(0, 0)["paths"][0]["by_mode"];
        let of = |mode: &str| (by_mode[mode]["seconds"].clone(), by_mode[mode]["delays"].clone());
        assert_eq!((of("observe"), of("enforce")), ((json!(1), json!(10)), (json!(1), json!(20))), "{by_mode}");
        assert!(by_mode["observe"]["p50_ns"].as_i64() > by_mode["enforce"]["p99_ns"].as_i64());
    }

    #[test]
    fn the_share_above_t_takes_part_of_a_bucket() {
        let mut histogram = vec![0; 64];
        histogram[4] = 10;
        assert_eq!([2048, 2304, 2560, 0].map(|t| share_above(&histogram, t)), [1.0, 0.5, 0.0, 1.0]);
        assert_eq!(share_above(&[], 1), 0.0);
    }
}
