//! Whatever OR-ACKs do (get lost, come late, twice, out of order, with a
//! negative delay) and whatever the clock does, the books stay right.

use onramp_core::{BETA_ONE, Flow, Params, Stamp};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// Events of a flow. A packet no `Ack` picks has lost its OR-ACK; one
/// picked twice has a duplicate; picking any order reorders.
#[derive(Clone, Debug)]
enum Event {
    Wait(u64),
    StepBack(u64),
    Send,
    Ack(Index, i64),
}

fn event(step_back: bool) -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..400_u64).prop_map(Event::Wait),
        u32::from(step_back) => (0..3000_u64).prop_map(Event::StepBack),
        3 => Just(Event::Send),
        3 => (any::<Index>(), delay()).prop_map(|(which, owd)| Event::Ack(which, owd)),
    ]
}

fn delay() -> impl Strategy<Value = i64> {
    prop_oneof![8 => -300..2000_i64, 1 => any::<i64>()]
}

prop_compose! {
    fn params()(
        threshold in 1..800_u64,
        max_pause in 1..2500_u64,
        gain_shift in 2..=6_u32,
        beta_start in 0..=BETA_ONE,
        strawman in any::<bool>(),
        count_old in any::<bool>(),
        keep_pause in any::<bool>(),
    ) -> Params {
        Params::builder(threshold, max_pause)
            .gain_shift(gain_shift)
            .beta_start(beta_start)
            .strawman(strawman)
            .count_old(count_old)
            .keep_pause(keep_pause)
            .build()
            .expect("in range")
    }
}

/// Counts paused nanoseconds one at a time, knowing nothing but `t_next`.
struct Observer {
    seen_up_to: u64,
    paused: u64,
    uninterrupted: u64,
}

impl Observer {
    /// Call before each call on the flow: `t_next` has held since the last one.
    fn watch(&mut self, flow: &Flow, now: u64) {
        for t in self.seen_up_to..now {
            if t < flow.t_next() {
                self.paused += 1;
                self.uninterrupted += 1;
            } else {
                self.uninterrupted = 0;
            }
        }
        self.seen_up_to = self.seen_up_to.max(now);
    }
}

fn check(params: &Params, path_owd: i64, events: &[Event]) -> Result<(), TestCaseError> {
    let mut now = 10_000;
    let mut flow = Flow::new(params, now);
    let mut observer = Observer { seen_up_to: now, paused: 0, uninterrupted: 0 };
    let mut stepped = false;

    flow.start(params, now, path_owd, now - 100);
    prop_assert!(flow.t_next() <= now + params.max_pause());
    let mut stamps = vec![flow.stamp(now)];

    for event in events {
        match event {
            Event::Wait(ns) => now += ns,
            Event::StepBack(ns) => {
                now = now.saturating_sub(*ns);
                stepped = true;
            }
            Event::Send => {
                observer.watch(&flow, now);
                let stamp = flow.stamp(now);
                prop_assert_eq!(stamp, Stamp { time: now, paused: observer.paused });
                stamps.push(stamp);
            }
            Event::Ack(which, owd) => {
                observer.watch(&flow, now);
                flow.acked(params, now, *which.get(&stamps), *owd);
                prop_assert!(flow.t_next() <= now + params.max_pause());
            }
        }
        prop_assert!(flow.beta() <= BETA_ONE);
        // A flow cannot end a pause between two calls if the clock steps back there.
        prop_assert!(stepped || observer.uninterrupted <= params.max_pause());
        let later = now.max(observer.seen_up_to);
        let ahead = (observer.seen_up_to..later).filter(|t| *t < flow.t_next()).count() as u64;
        prop_assert_eq!(flow.paused_total(later), observer.paused + ahead);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn total_is_the_time_spent_paused(
        params in params(), path_owd in delay(), events in vec(event(false), 0..120),
    ) {
        check(&params, path_owd, &events)?;
    }

    #[test]
    fn total_is_the_time_spent_paused_though_the_clock_steps_back(
        params in params(), path_owd in delay(), events in vec(event(true), 0..120),
    ) {
        check(&params, path_owd, &events)?;
    }

    #[test]
    fn delays_up_to_the_threshold_never_pause(
        params in params(),
        path_owd in i64::MIN..=0,
        acks in vec((0..1000_u64, i64::MIN..=0, any::<bool>()), 0..50),
    ) {
        let mut now = 0;
        let mut flow = Flow::new(&params, now);
        flow.start(&params, now, path_owd, now);
        for (wait, owd, at_threshold) in acks {
            let stamp = flow.stamp(now);
            now += wait;
            let owd = if at_threshold { params.threshold() as i64 } else { owd };
            flow.acked(&params, now, stamp, owd);
            prop_assert_eq!(flow.release(now), now);
        }
    }

    /// OR-ACKs during a kept pause update beta and nothing else.
    #[test]
    fn a_kept_pause_ends_when_it_was_to_end(
        threshold in 1..800_u64,
        max_pause in 1..2500_u64,
        strawman in any::<bool>(),
        count_old in any::<bool>(),
        first in 1..2000_i64,
        acks in vec((0..400_u64, delay()), 0..20),
    ) {
        let params = Params::builder(threshold, max_pause)
            .strawman(strawman)
            .count_old(count_old)
            .keep_pause(true)
            .build()
            .expect("in range");
        let mut now = 10_000;
        let mut flow = Flow::new(&params, now);
        let stamp = flow.stamp(now);
        flow.acked(&params, now + 100, stamp, first);
        let end = flow.t_next();
        for (wait, owd) in acks {
            now += wait;
            if now + 100 >= end {
                break;
            }
            flow.acked(&params, now + 100, Stamp { time: now, paused: stamp.paused }, owd);
            prop_assert_eq!(flow.t_next(), end);
        }
    }

    /// Nothing here makes sense, and yet no limit is broken.
    #[test]
    fn nonsense_breaks_no_limit(
        threshold in 1..=u64::MAX,
        max_pause in 1..=u64::MAX,
        params in params(),
        start in any::<(u64, u64, i64, u64)>(),
        calls in vec(any::<(u64, u64, u64, i64)>(), 0..50),
    ) {
        // Half the time with sensible parameters: extreme ones seldom pause.
        let params = if threshold % 2 == 0 {
            params
        } else {
            Params::builder(threshold, max_pause).build().expect("in range")
        };
        let (init, now, owd, measured_at) = start;
        let mut flow = Flow::new(&params, init);
        flow.start(&params, now, owd, measured_at);
        let mut total = 0;
        for (now, time, paused, owd) in calls {
            flow.acked(&params, now, Stamp { time, paused }, owd);
            prop_assert!(flow.beta() <= BETA_ONE);
            prop_assert!(flow.t_next() <= now.saturating_add(params.max_pause()));
            let after = flow.stamp(time).paused;
            prop_assert!(after >= total);
            total = after;
        }
    }
}
