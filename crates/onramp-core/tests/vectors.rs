//! Replays `core/vectors.json`, whose numbers were worked out by hand.

use onramp_core::{Flow, Params, Stamp};
use serde::Deserialize;

#[derive(Deserialize)]
struct File {
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
struct Vector {
    name: String,
    why: String,
    params: RawParams,
    init: u64,
    calls: Vec<Call>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawParams {
    threshold: u64,
    max_pause: u64,
    gain_shift: u32,
    beta_start: u32,
    flags: Vec<Flag>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Flag {
    Strawman,
    CountOld,
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

/// What a call has to give; each kind of call has its own fields.
#[derive(Deserialize, Debug, Default, PartialEq)]
#[serde(deny_unknown_fields)]
struct Expect {
    t_next: Option<u64>,
    beta: Option<u32>,
    paused: Option<u64>,
    time: Option<u64>,
    release: Option<u64>,
}

impl From<&RawParams> for Params {
    fn from(raw: &RawParams) -> Self {
        Params::builder(raw.threshold, raw.max_pause)
            .gain_shift(raw.gain_shift)
            .beta_start(raw.beta_start)
            .strawman(raw.flags.contains(&Flag::Strawman))
            .count_old(raw.flags.contains(&Flag::CountOld))
            .build()
            .expect("valid parameters")
    }
}

/// Makes the call; returns what came of it and what should have.
fn make<'a>(call: &'a Call, flow: &mut Flow, params: &Params) -> (Expect, &'a Expect) {
    match call {
        Call::Start { now, owd, measured_at, expect } => {
            flow.start(params, *now, *owd, *measured_at);
            (Expect { t_next: Some(flow.t_next()), ..Expect::default() }, expect)
        }
        Call::Stamp { now, expect } => {
            let Stamp { time, paused } = flow.stamp(*now);
            (Expect { time: Some(time), paused: Some(paused), ..Expect::default() }, expect)
        }
        Call::Acked { now, stamp, owd, expect } => {
            flow.acked(params, *now, Stamp { time: stamp.time, paused: stamp.paused }, *owd);
            let got = Expect {
                t_next: Some(flow.t_next()),
                beta: Some(flow.beta()),
                paused: Some(flow.paused_total(*now)),
                ..Expect::default()
            };
            (got, expect)
        }
        Call::Release { ready, expect } => {
            (Expect { release: Some(flow.release(*ready)), ..Expect::default() }, expect)
        }
        Call::Total { now, expect } => (Expect { paused: Some(flow.paused_total(*now)), ..Expect::default() }, expect),
    }
}

#[test]
fn every_vector_gives_the_numbers_worked_out_by_hand() {
    let file: File = serde_json::from_str(include_str!("../../../core/vectors.json")).expect("a vector file");
    let mut wrong = Vec::new();
    for Vector { name, why, params, init, calls } in &file.vectors {
        let params = Params::from(params);
        let mut flow = Flow::new(&params, *init);
        for (i, call) in calls.iter().enumerate() {
            let (got, expected) = make(call, &mut flow, &params);
            if got != *expected {
                wrong.push(format!("{name}, call {i}\n  expected {expected:?}\n  got      {got:?}\n  {why}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(file.vectors.len() > 40, "vectors are missing");
}
