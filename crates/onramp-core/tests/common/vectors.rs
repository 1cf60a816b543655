//! `core/vectors.json`, whose numbers were worked out by hand, and how it is replayed: by every
//! way there is to run the algorithm.

#![allow(missing_docs, unreachable_pub, reason = "for tests")]

use onramp_core::Stamp;
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    why: String,
    params: Params,
    init: u64,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Params {
    pub threshold: u64,
    pub max_pause: u64,
    pub gain_shift: u32,
    pub beta_start: u32,
    pub flags: Vec<Flag>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Flag {
    Strawman,
    CountOld,
    KeepPause,
}

#[derive(Deserialize)]
#[serde(tag = "call", rename_all = "snake_case", deny_unknown_fields)]
enum Call {
    Start { now: u64, owd: i64, measured_at: u64, expect: Expect },
    Stamp { now: u64, expect: Expect },
    Acked { now: u64, stamp: RawStamp, owd: i64, expect: Expect },
    Release { ready: u64, expect: Expect },
    Total { now: u64, expect: Expect },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStamp {
    time: u64,
    paused: u64,
}

/// Results that a call has to give; each kind of call has its own fields.
#[derive(Deserialize, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
struct Expect {
    t_next: Option<u64>,
    beta: Option<u32>,
    paused: Option<u64>,
    time: Option<u64>,
    release: Option<u64>,
}

/// A flow of one of the implementations.
pub trait Flow {
    /// Eq. 2 with what the path knows; until when the flow is paused then.
    fn start(&mut self, now: u64, owd: i64, measured_at: u64) -> u64;
    /// A packet leaves.
    fn stamp(&mut self, now: u64) -> Stamp;
    /// An OR-ACK comes; until when the flow is paused then, beta, and the pause total.
    fn acked(&mut self, now: u64, stamp: Stamp, owd: i64) -> (u64, u32, u64);
    /// When a packet that is ready may leave.
    fn release(&mut self, ready: u64) -> u64;
    /// The pause total.
    fn total(&mut self, now: u64) -> u64;
}

/// Makes the call; returns what came of it and what should have.
fn make<'a>(call: &'a Call, flow: &mut impl Flow) -> (Expect, &'a Expect) {
    match call {
        Call::Start { now, owd, measured_at, expect } => {
            let t_next = flow.start(*now, *owd, *measured_at);
            (Expect { t_next: Some(t_next), ..Expect::default() }, expect)
        }
        Call::Stamp { now, expect } => {
            let Stamp { time, paused } = flow.stamp(*now);
            (Expect { time: Some(time), paused: Some(paused), ..Expect::default() }, expect)
        }
        Call::Acked { now, stamp, owd, expect } => {
            let stamp = Stamp { time: stamp.time, paused: stamp.paused };
            let (t_next, beta, paused) = flow.acked(*now, stamp, *owd);
            let (t_next, beta, paused) = (Some(t_next), Some(beta), Some(paused));
            (Expect { t_next, beta, paused, ..Expect::default() }, expect)
        }
        Call::Release { ready, expect } => {
            (Expect { release: Some(flow.release(*ready)), ..Expect::default() }, expect)
        }
        Call::Total { now, expect } => (Expect { paused: Some(flow.total(*now)), ..Expect::default() }, expect),
    }
}

/// Replays every vector on a flow that `new` begins at a time.
pub fn replay<F: Flow>(mut new: impl FnMut(&Params, u64) -> F) {
    let file: File = serde_json::from_str(include_str!("../../../../core/vectors.json")).expect("a vector file");
    let mut wrong = Vec::new();
    for Vector { name, why, params, init, calls } in &file.vectors {
        let mut flow = new(params, *init);
        for (i, call) in calls.iter().enumerate() {
            let (got, expected) = make(call, &mut flow);
            if got != *expected {
                wrong.push(format!("{name}, call {i}\n  expected {expected:?}\n  got      {got:?}\n  {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(file.vectors.len() > 40, "vectors are missing");
}
