//! The algorithm as Rust calls it gives the vectors' numbers.

#[path = "common/vectors.rs"]
mod vectors;

use onramp_core::{Flow, Params, Stamp};
use vectors::{Flag, replay};

struct InRust {
    flow: Flow,
    params: Params,
}

impl vectors::Flow for InRust {
    fn start(&mut self, now: u64, owd: i64, measured_at: u64) -> u64 {
        self.flow.start(&self.params, now, owd, measured_at);
        self.flow.t_next()
    }

    fn stamp(&mut self, now: u64) -> Stamp {
        self.flow.stamp(now)
    }

    fn acked(&mut self, now: u64, stamp: Stamp, owd: i64) -> (u64, u32, u64) {
        self.flow.acked(&self.params, now, stamp, owd);
        (self.flow.t_next(), self.flow.beta(), self.flow.paused_total(now))
    }

    fn release(&mut self, ready: u64) -> u64 {
        self.flow.release(ready)
    }

    fn total(&mut self, now: u64) -> u64 {
        self.flow.paused_total(now)
    }
}

#[test]
fn every_vector_gives_the_numbers_worked_out_by_hand() {
    replay(|raw, init| {
        let params = Params::builder(raw.threshold, raw.max_pause)
            .gain_shift(raw.gain_shift)
            .beta_start(raw.beta_start)
            .strawman(raw.flags.contains(&Flag::Strawman))
            .count_old(raw.flags.contains(&Flag::CountOld))
            .keep_pause(raw.flags.contains(&Flag::KeepPause))
            .build()
            .expect("valid parameters");
        InRust { flow: Flow::new(&params, init), params }
    });
}
