//! The algorithm in the kernel gives the vectors' numbers: the header is the same as everywhere,
//! its compiler, verifier and JIT are not.

mod common;
#[path = "../../onramp-core/tests/common/vectors.rs"]
mod vectors;

use bytemuck::Zeroable as _;
use common::privileged;
use libbpf_rs::{Object, ProgramInput};
use onramp_core::Stamp;
use onrampd::abi::{ONRAMP_COUNT_OLD, ONRAMP_KEEP_PAUSE, ONRAMP_STRAWMAN, onramp_flow, onramp_params, onramp_stamp};
use onrampd::datapath::maps::Map;
use onrampd::datapath::object::{self, Aligned};
use std::cell::RefCell;
use std::rc::Rc;
use vectors::{Flag, replay};

static OBJECT: &Aligned<[u8]> = &Aligned(*include_bytes!(concat!(env!("OUT_DIR"), "/vectors.bpf.o")));

/// `struct vector_call` and its numbers, of `datapath/bpf/tests/vectors.h`.
#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct VectorCall {
    flow: onramp_flow,
    params: onramp_params,
    stamp: onramp_stamp,
    now: u64,
    owd: i64,
    result: u64,
    call: u32,
    reserved: u32,
}

/// `VECTOR_*` of the same.
#[derive(Clone, Copy)]
enum Call {
    Init,
    Start,
    Stamp,
    Acked,
    Release,
    Total,
}

/// The program and the map through which it is called.
struct Kernel {
    object: Object,
    calls: Map<u32, VectorCall>,
}

impl Kernel {
    fn load() -> Self {
        let object = object::load(object::open(OBJECT, &[], |_, _| Ok(())).unwrap()).unwrap();
        let calls = Map::find(&object, "calls").unwrap();
        Self { object, calls }
    }

    fn call(&mut self, call: &mut VectorCall) {
        self.calls.set(&0, call).unwrap();
        let program = self.object.progs_mut().find(|p| p.name() == "vector").unwrap();
        let run = program.test_run(ProgramInput { data_in: Some(&[0; 64]), ..ProgramInput::default() });
        assert_eq!(run.unwrap().return_value, 0);
        *call = self.calls.get(&0).unwrap();
    }
}

struct InKernel {
    kernel: Rc<RefCell<Kernel>>,
    /// The latest call; has the flow and its parameters.
    last: VectorCall,
}

impl InKernel {
    fn call(&mut self, call: Call, change: impl FnOnce(&mut VectorCall)) -> VectorCall {
        self.last.call = call as u32;
        change(&mut self.last);
        self.kernel.borrow_mut().call(&mut self.last);
        self.last
    }
}

impl vectors::Flow for InKernel {
    fn start(&mut self, now: u64, owd: i64, measured_at: u64) -> u64 {
        let stamp = onramp_stamp { time: measured_at, paused: 0 };
        let done = self.call(Call::Start, |c| (c.now, c.owd, c.stamp) = (now, owd, stamp));
        done.flow.t_next
    }

    fn stamp(&mut self, now: u64) -> Stamp {
        let onramp_stamp { time, paused } = self.call(Call::Stamp, |c| c.now = now).stamp;
        Stamp { time, paused }
    }

    fn acked(&mut self, now: u64, stamp: Stamp, owd: i64) -> (u64, u32, u64) {
        let stamp = onramp_stamp { time: stamp.time, paused: stamp.paused };
        let done = self.call(Call::Acked, |c| (c.now, c.owd, c.stamp) = (now, owd, stamp));
        (done.flow.t_next, done.flow.beta, done.result)
    }

    fn release(&mut self, ready: u64) -> u64 {
        self.call(Call::Release, |c| c.now = ready).result
    }

    fn total(&mut self, now: u64) -> u64 {
        self.call(Call::Total, |c| c.now = now).result
    }
}

#[test]
fn every_vector_gives_the_numbers_worked_out_by_hand_in_the_kernel() {
    if !privileged() {
        return;
    }
    let kernel = Rc::new(RefCell::new(Kernel::load()));
    replay(|raw, init| {
        let flag = |flag, bit| if raw.flags.contains(&flag) { bit } else { 0 };
        let params = onramp_params {
            threshold: raw.threshold,
            max_pause: raw.max_pause,
            gain_shift: raw.gain_shift,
            flags: flag(Flag::Strawman, ONRAMP_STRAWMAN)
                | flag(Flag::CountOld, ONRAMP_COUNT_OLD)
                | flag(Flag::KeepPause, ONRAMP_KEEP_PAUSE),
            beta_start: raw.beta_start,
            reserved: 0,
        };
        let last = VectorCall { params, ..VectorCall::zeroed() };
        let mut flow = InKernel { kernel: Rc::clone(&kernel), last };
        flow.call(Call::Init, |c| c.now = init);
        flow
    });
}

#[test]
fn a_map_is_not_taken_for_one_of_other_keys_or_values() {
    if !privileged() {
        return;
    }
    let kernel = Kernel::load();
    assert!(Map::<u64, VectorCall>::find(&kernel.object, "calls").is_err());
    assert!(Map::<u32, u64>::find(&kernel.object, "calls").is_err());
    assert!(Map::<u32, VectorCall>::find(&kernel.object, "other").is_err());
    // Nor does a CPU have a value of its own.
    assert!(kernel.calls.get_all(&0).is_err());
}
