//! Puts gates in place of the queueing disciplines that are there, and these back.

use super::{KIND, PROGRAMS, is_gate, max_hold};
use crate::abi;
use crate::config::quantity::Size;
use crate::config::{Config, GateLimits, Parent};
use crate::net::tc::{self, Qdisc};
use onramp_netlink::qdisc::{self, Place, ROOT};
use onramp_netlink::{Message, Socket};
use serde::{Deserialize, Serialize};
use std::os::fd::RawFd;
use std::thread;
use std::time::{Duration, Instant};

/// Handle of the `mq` that takes the place of the kernel's own, whose classes cannot be named.
const MQ_HANDLE: u32 = 0x9471_0000;
/// Longest wait for held packets to leave before gates are removed, all together.
const DRAIN: Duration = Duration::from_millis(50);
/// Failure to put a gate in place.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel's answer.
    #[error(transparent)]
    Netlink(#[from] onramp_netlink::Error),
    /// The module is missing.
    #[error("the module sch_onramp is not there: build it with dkms (docs/agent.md)")]
    Missing,
    /// There is no such class.
    #[error("there is nothing to put the gate under: {0}: `tc class show` and `tc qdisc show` list what is there")]
    NoParent(#[source] onramp_netlink::Error),
    /// Something that is there would be lost.
    #[error("{0}")]
    InTheWay(String),
}

/// Something of ours in place of something else.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replaced {
    /// Where.
    pub parent: u32,
    /// Kind that we put there: `onramp`, or an `mq` for many of them.
    pub kind: String,
    /// The queueing discipline that was there.
    pub before: Option<Before>,
}

/// A queueing discipline that was there before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Before {
    /// Its kind.
    pub kind: String,
    /// Its handle; 0 if the kernel put it there by itself.
    pub handle: u32,
    /// Its options.
    pub options: Vec<u8>,
}

/// Gates of an agent: those that it makes, and those that it has taken over.
pub struct Kinds {
    /// Kind of the first.
    pub kind: String,
    /// Where there are programs of ours, those taken over among them: their parents.
    pub others: Vec<u32>,
}

impl Kinds {
    /// Only the module's.
    #[must_use]
    pub fn module() -> Self {
        Self { kind: KIND.into(), others: Vec::new() }
    }

    /// Returns whether a queueing discipline is one of them.
    fn has(&self, q: &Qdisc) -> bool {
        q.kind == self.kind || q.kind.starts_with(PROGRAMS) && self.others.contains(&q.parent)
    }

    /// The kind of the gate that is at a place, or is to go there.
    fn at<'q>(&'q self, present: &'q [Qdisc], parent: u32) -> &'q str {
        let ours = present.iter().find(|q| q.parent == parent && self.has(q));
        ours.map_or(&self.kind, |q| &q.kind)
    }

    /// Has a plan of an agent before this one go by our kinds.
    pub fn adapt(&self, plan: &mut [Replaced], present: &[Qdisc]) {
        for item in plan.iter_mut().filter(|item| is_gate(&item.kind)) {
            item.kind = self.at(present, item.parent).into();
        }
    }
}

/// The gate's options but for the program.
#[must_use]
pub fn options(config: &Config, message: Message) -> Message {
    let GateLimits { limit, bytes, flow_limit, flows, quantum, pacing, .. } = config.gate;
    let given = [
        (abi::TCA_ONRAMP_LIMIT, limit),
        (abi::TCA_ONRAMP_BYTES, bytes.map(Size::bytes)),
        (abi::TCA_ONRAMP_FLOW_LIMIT, flow_limit),
        (abi::TCA_ONRAMP_FLOWS, flows),
        (abi::TCA_ONRAMP_QUANTUM, quantum.map(Size::bytes)),
        (abi::TCA_ONRAMP_PACING, pacing.map(u32::from)),
    ];
    let message = given.into_iter().fold(message, |m, (kind, value)| match value {
        Some(value) => m.u32(kind as u16, value),
        None => m,
    });
    let target = config.gate.target.map_or(0, |time| time.0);
    message.u64(abi::TCA_ONRAMP_MAX_HOLD64 as u16, max_hold(config)).u64(abi::TCA_ONRAMP_TARGET64 as u16, target)
}

/// The same with the program, or -1 for none.
#[must_use]
pub fn options_with(config: &Config, program: RawFd, message: Message) -> Message {
    options(config, message).u32(abi::TCA_ONRAMP_PROG_FD as u16, program as u32)
}

/// Finds what has to be put where, and what is there now. Changes nothing.
///
/// # Errors
/// Classes or filters of somebody else would be lost.
pub fn plan(interface: &str, present: &[Qdisc], parent: Parent, kinds: &Kinds) -> Result<Vec<Replaced>, Error> {
    let at = |parent| present.iter().find(|q| q.parent == parent);
    let children = |handle: u32| present.iter().filter(move |q| q.parent != ROOT && q.parent >> 16 == handle >> 16);
    let replaced = |parent: u32| Replaced {
        parent,
        kind: kinds.at(present, parent).into(),
        before: at(parent).filter(|q| q.kind != kinds.kind && !is_gate(&q.kind)).map(|q| Before {
            kind: q.kind.clone(),
            handle: q.handle,
            options: q.options.clone(),
        }),
    };
    let root = at(ROOT);
    match parent {
        Parent::Auto if root.is_some_and(|q| q.kind == "mq") => plan(interface, present, Parent::Mq, kinds),
        Parent::Class(class) => Ok(vec![replaced(class)]),
        Parent::Auto | Parent::Root => match root {
            // Under what the kernel put there by itself is nothing that it would not put there again.
            Some(q) if q.handle != 0 && children(q.handle).next().is_some() => Err(Error::InTheWay(format!(
                "{interface} has {} {:x}: at its root, with others below: set parent to a class of it, such as \
                     \"{:x}:1\"{}",
                q.kind,
                q.handle >> 16,
                q.handle >> 16,
                if q.kind == "mq" { ", or to \"mq\"" } else { "" }
            ))),
            _ => Ok(vec![replaced(ROOT)]),
        },
        Parent::Mq => match root {
            Some(q) if q.kind == "mq" && q.handle != 0 => {
                Ok(children(q.handle).map(|child| replaced(child.parent)).collect())
            }
            Some(q) if q.kind == "mq" => {
                let queues = children(q.handle).count() as u32;
                let before = Some(Before { kind: "mq".into(), handle: 0, options: Vec::new() });
                let root = Replaced { parent: ROOT, kind: "mq".into(), before };
                let one = |i| Replaced { parent: MQ_HANDLE | i, kind: kinds.kind.clone(), before: None };
                Ok([root].into_iter().chain((1..=queues).map(one)).collect())
            }
            _ => Err(Error::InTheWay(format!("{interface} has no mq at its root: set parent = \"root\""))),
        },
    }
}

/// Finds what somebody else has put in the place of something of ours, and where queues have been added
/// since; and the plan with which all is in place again.
///
/// # Errors
/// As for [`plan`].
pub fn lost(
    interface: &str,
    present: &[Qdisc],
    parent: Parent,
    kinds: &Kinds,
    ours: &[Replaced],
) -> Result<Option<(String, Vec<Replaced>)>, Error> {
    let here = |item: &Replaced| present.iter().find(|q| q.parent == item.parent && (q.kind == item.kind));
    let mut again = plan(interface, present, parent, kinds)?;
    let Some(item) = again.iter().find(|item| here(item).is_none_or(|q| q.handle == 0)) else { return Ok(None) };
    let found = present.iter().find(|q| q.parent == item.parent).map_or("nothing", |q| &q.kind).to_owned();
    // What ours had replaced is put back in the end, where ours still is.
    for item in again.iter_mut().filter(|item| here(item).is_some_and(|q| q.handle != 0)) {
        if let Some(old) = ours.iter().find(|old| old.parent == item.parent && old.kind == item.kind) {
            item.before.clone_from(&old.before);
        }
    }
    // An mq of ours that is still there is not in the new plan.
    let kept = ours.iter().filter(|old| here(old).is_some() && !again.iter().any(|item| item.parent == old.parent));
    let all = kept.cloned().collect::<Vec<_>>().into_iter().chain(again).collect();
    Ok(Some((found, all)))
}

/// Tries whether the kernel has the module, on an interface that has no queue; the kernel loads it if it can.
///
/// # Errors
/// It has not, or what the kernel answered.
pub fn try_module(socket: &mut Socket, index: u32) -> Result<(), Error> {
    let place = Place { index, parent: ROOT, handle: 0 };
    match qdisc::replace(socket, place, KIND, |m| m) {
        Err(e) if e.errno() == Some(libc::ENOENT) => Err(Error::Missing),
        done => Ok(done.and_then(|()| qdisc::delete(socket, place))?),
    }
}

/// Puts what was planned in place. What is there already is only changed; what is not ours lets its packets go first,
/// if it is a gate. `options` appends those of the module's gates; a program has none.
///
/// # Errors
/// The kernel refuses; part of it may be in place.
pub fn put_in_place(
    socket: &mut Socket,
    index: u32,
    plan: &[Replaced],
    options: &dyn Fn(Message) -> Message,
) -> Result<(), Error> {
    let present = tc::qdiscs(socket, index)?;
    let others = plan.iter().filter_map(|item| {
        present.iter().find(|q| q.parent == item.parent && q.handle != 0 && is_gate(&q.kind) && q.kind != item.kind)
    });
    drain(socket, index, others.collect());
    for item in plan {
        let place = Place { index, parent: item.parent, handle: 0 };
        let present = tc::qdiscs(socket, index)?.into_iter().find(|q| q.parent == item.parent && q.handle != 0);
        let done = if item.kind == "mq" {
            qdisc::replace_plain(socket, Place { handle: MQ_HANDLE, ..place }, &item.kind, &[])
        } else if item.kind.starts_with(PROGRAMS) {
            // It takes no options, not even none where it is there already.
            match present {
                Some(q) if q.kind == item.kind => Ok(()),
                _ => qdisc::replace_plain(socket, place, &item.kind, &[]),
            }
        } else {
            qdisc::replace(socket, place, &item.kind, options)
        };
        match done {
            Err(e) if e.errno() == Some(libc::ENOENT) && !missing(&e) => return Err(Error::NoParent(e)),
            Err(e) if e.errno() == Some(libc::ENOENT) && item.kind == KIND => return Err(Error::Missing),
            done => done?,
        }
    }
    Ok(())
}

/// ENOENT is also the answer where there is no such class; the kernel then says so.
fn missing(e: &onramp_netlink::Error) -> bool {
    let said = e.to_string();
    !["Failed to find", "not found"].iter().any(|other| said.contains(other))
}

/// Puts back what was there, where ours still is. Packets that are held are let go first.
///
/// # Errors
/// The kernel refuses.
pub fn restore(socket: &mut Socket, index: u32, plan: &[Replaced]) -> Result<(), Error> {
    let present = tc::qdiscs(socket, index)?;
    // A gate that was to be replaced may still be that of the agent before.
    let ours = |item: &Replaced, kind: &str| kind == item.kind || is_gate(kind) && is_gate(&item.kind);
    let there =
        |item: &Replaced| present.iter().find(|q| q.parent == item.parent && ours(item, &q.kind) && q.handle != 0);
    drain(socket, index, plan.iter().filter_map(&there).filter(|q| is_gate(&q.kind)).collect());
    // What is below an mq of ours goes with it.
    let whole = plan.iter().any(|item| item.parent == ROOT && item.kind == "mq" && there(item).is_some());
    let mut failed = None;
    for item in plan.iter().rev().filter(|item| there(item).is_some() && (!whole || item.parent == ROOT)) {
        if let Err(e) = restore_one(socket, index, item) {
            failed = Some(e);
        }
    }
    failed.map_or(Ok(()), |e| Err(e.into()))
}

fn restore_one(socket: &mut Socket, index: u32, item: &Replaced) -> onramp_netlink::Result<()> {
    let place = |handle| Place { index, parent: item.parent, handle };
    let root = item.parent == ROOT;
    match &item.before {
        // The kernel puts its own one there again.
        None => {}
        Some(before) if root && before.handle == 0 => {}
        Some(Before { kind, handle, options }) => {
            let again = qdisc::replace(socket, place(*handle), kind, |m| m.push(options));
            let again = again.or_else(|_| qdisc::replace_plain(socket, place(*handle), kind, &[]));
            if again.is_ok() || !root {
                return again;
            }
        }
    }
    if root {
        return qdisc::delete(socket, place(0));
    }
    // Some classes drop everything when nothing is below them.
    qdisc::replace_plain(socket, place(0), "pfifo", &[])
}

/// Takes the program away from the module's gates and waits for what gates held to leave, for all together. Those that
/// are programs themselves have been told to let everything go, or have had no agent for seconds.
fn drain(socket: &mut Socket, index: u32, mut gates: Vec<&Qdisc>) {
    // Where it stays, packets are dropped with the queue instead.
    gates.retain(|gate| gate.kind != KIND || release_one(socket, index, gate).is_ok());
    let end = Instant::now() + DRAIN;
    let has_packets =
        |gate: &&Qdisc| matches!(qdisc::get(socket, index, gate.handle), Ok(Some(q)) if q.queued_packets > 0);
    wait_for_all(gates, has_packets, || {
        thread::sleep(DRAIN / 10);
        Instant::now() < end
    });
}

/// Waits until none is busy, or `pause` says that time is over: for all together.
fn wait_for_all<T>(mut all: Vec<T>, mut is_busy: impl FnMut(&T) -> bool, mut pause: impl FnMut() -> bool) {
    loop {
        all.retain(&mut is_busy);
        if all.is_empty() || !pause() {
            return;
        }
    }
}

/// Has the module's gates of an interface hold nothing any more: their program is taken away. Returns how many there are.
///
/// # Errors
/// The kernel refuses.
pub fn release(socket: &mut Socket, index: u32) -> onramp_netlink::Result<usize> {
    let present = tc::qdiscs(socket, index)?;
    let gates: Vec<_> = present.iter().filter(|q| q.kind == KIND && q.handle != 0).collect();
    gates.iter().try_for_each(|gate| release_one(socket, index, gate))?;
    Ok(gates.len())
}

fn release_one(socket: &mut Socket, index: u32, gate: &Qdisc) -> onramp_netlink::Result<()> {
    let place = Place { index, parent: gate.parent, handle: gate.handle };
    qdisc::replace(socket, place, KIND, |m| m.u32(abi::TCA_ONRAMP_PROG_FD as u16, u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn qdisc(kind: &str, handle: u32, parent: u32) -> Qdisc {
        Qdisc { kind: kind.into(), handle, parent, options: vec![1, 2] }
    }

    fn at(parent: Parent, present: &[Qdisc]) -> Result<Vec<(u32, Option<String>)>, Error> {
        let plan = plan("eth0", present, parent, &Kinds::module())?;
        Ok(plan.into_iter().map(|r| (r.parent, r.before.map(|b| b.kind))).collect())
    }

    #[test]
    fn the_root_is_replaced_and_remembered() {
        let fq = plan("eth0", &[qdisc("fq", 0x8001_0000, ROOT)], Parent::Root, &Kinds::module()).unwrap();
        let before = Before { kind: "fq".into(), handle: 0x8001_0000, options: vec![1, 2] };
        assert_eq!(fq, [Replaced { parent: ROOT, kind: KIND.into(), before: Some(before) }]);
        assert_eq!(at(Parent::Root, &[]).unwrap(), [(ROOT, None)]);
    }

    #[test]
    fn somebodys_classes_are_not_destroyed() {
        let present = [qdisc("htb", 0x1_0000, ROOT), qdisc("pfifo", 0, 0x1_0001)];
        let refused = at(Parent::Root, &present).unwrap_err().to_string();
        assert!(refused.contains("htb") && refused.contains("\"1:1\""), "{refused}");
        assert_eq!(at(Parent::Class(0x1_0001), &present).unwrap(), [(0x1_0001, Some("pfifo".into()))]);
    }

    #[test]
    fn the_kernels_own_mq_makes_room_for_one_that_can_be_named() {
        let present = [qdisc("mq", 0, ROOT), qdisc("fq_codel", 0, 1), qdisc("fq_codel", 0, 2)];
        let plan = at(Parent::Mq, &present).unwrap();
        assert_eq!(plan, [(ROOT, Some("mq".into())), (0x9471_0001, None), (0x9471_0002, None)]);
        assert!(at(Parent::Root, &present).is_ok());
        let named = [qdisc("mq", 0x10_0000, ROOT), qdisc("fq", 0x20_0000, 0x10_0001)];
        assert_eq!(at(Parent::Mq, &named).unwrap(), [(0x10_0001, Some("fq".into()))]);
        assert!(at(Parent::Mq, &[qdisc("fq", 1, ROOT)]).is_err());
    }

    #[test]
    fn the_gate_goes_under_mq_where_there_is_one() {
        let present = [qdisc("mq", 0, ROOT), qdisc("fq_codel", 0, 1)];
        assert_eq!(at(Parent::Auto, &present).unwrap(), at(Parent::Mq, &present).unwrap());
        assert_eq!(at(Parent::Auto, &[qdisc("fq", 0, ROOT)]).unwrap(), [(ROOT, Some("fq".into()))]);
    }

    #[test]
    fn a_gate_that_was_replaced_is_missed() {
        let lost =
            |present: &[Qdisc], ours: &[Replaced]| lost("eth0", present, Parent::Auto, &Kinds::module(), ours).unwrap();
        let ours = plan("eth0", &[qdisc("fq", 1, ROOT)], Parent::Auto, &Kinds::module()).unwrap();
        assert_eq!(lost(&[qdisc(KIND, 0x8001_0000, ROOT)], &ours), None);
        let (found, again) = lost(&[qdisc("pfifo", 0x7_0000, ROOT)], &ours).unwrap();
        assert_eq!((found.as_str(), again[0].before.as_ref().unwrap().kind.as_str()), ("pfifo", "pfifo"));
        let (found, again) = lost(&[], &ours).unwrap();
        assert_eq!((found.as_str(), again.len(), &again[0].before), ("nothing", 1, &None));
    }

    #[test]
    fn new_queues_get_a_gate_and_what_the_others_had_replaced_is_not_forgotten() {
        let named = [qdisc("mq", 0x10_0000, ROOT), qdisc("fq", 0x20_0000, 0x10_0001)];
        let ours = plan("eth0", &named, Parent::Auto, &Kinds::module()).unwrap();
        let now = [named[0].clone(), qdisc(KIND, 0x8001_0000, 0x10_0001), qdisc("fq_codel", 0, 0x10_0002)];
        let (found, again) = lost("eth0", &now, Parent::Auto, &Kinds::module(), &ours).unwrap().unwrap();
        let before: Vec<_> = again.iter().map(|r| (r.parent, r.before.as_ref().unwrap().kind.as_str())).collect();
        assert_eq!((found.as_str(), before), ("fq_codel", vec![(0x10_0001, "fq"), (0x10_0002, "fq_codel")]));

        // The kernel's own mq, which ours replaced, and ours.
        let ours =
            plan("eth0", &[qdisc("mq", 0, ROOT), qdisc("fq_codel", 0, 1)], Parent::Auto, &Kinds::module()).unwrap();
        let mut now = vec![qdisc("mq", MQ_HANDLE, ROOT), qdisc(KIND, 0x8001_0000, MQ_HANDLE | 1)];
        assert_eq!(lost("eth0", &now, Parent::Auto, &Kinds::module(), &ours).unwrap(), None);
        now.push(qdisc("pfifo_fast", 0, MQ_HANDLE | 2));
        let (_, again) = lost("eth0", &now, Parent::Auto, &Kinds::module(), &ours).unwrap().unwrap();
        let parents: Vec<_> = again.iter().map(|r| (r.parent, r.kind.as_str())).collect();
        assert_eq!(parents, [(ROOT, "mq"), (MQ_HANDLE | 1, KIND), (MQ_HANDLE | 2, KIND)]);
        assert_eq!(again[0].before.as_ref().unwrap().handle, 0);
    }

    #[test]
    fn a_hundred_gates_are_waited_for_together() {
        // The time of all is as long as that of one, whether they become empty or not.
        for (busy_for, pauses) in [(0, 0), (3, 3), (100, 10)] {
            let (mut looks, mut paused) = (vec![0; 128], 0);
            let is_busy = |gate: &usize| {
                looks[*gate] += 1;
                looks[*gate] <= busy_for
            };
            wait_for_all((0..128).collect(), is_busy, || {
                paused += 1;
                paused < 10
            });
            assert_eq!(paused, pauses);
            assert!(looks.iter().all(|n| *n == pauses.min(9) + 1), "{looks:?}");
        }
    }

    #[test]
    fn a_gate_left_by_a_crash_is_not_what_to_restore() {
        assert_eq!(at(Parent::Root, &[qdisc(KIND, 0x8001_0000, ROOT)]).unwrap(), [(ROOT, None)]);
    }

    #[test]
    fn gates_that_were_taken_over_stay_and_those_of_a_dead_agent_do_not() {
        let present = [
            qdisc("mq", 0x1_0000, ROOT),
            qdisc("onramp_old", 0x2_0000, 0x1_0001),
            qdisc("onramp_old", 0x3_0000, 0x1_0002),
        ];
        let ours = Kinds { kind: "onramp_new".into(), others: vec![0x1_0001] };
        let mut plan = plan("eth0", &present, Parent::Auto, &ours).unwrap();
        let kinds = |plan: &[Replaced]| plan.iter().map(|item| item.kind.clone()).collect::<Vec<_>>();
        assert_eq!(kinds(&plan), ["onramp_old", "onramp_new"]);
        assert!(plan.iter().all(|item| item.before.is_none()));
        let (found, _) = lost("eth0", &present, Parent::Auto, &ours, &plan).unwrap().unwrap();
        assert_eq!(found, "onramp_old");

        // As the agent before has written it down.
        plan.iter_mut().for_each(|item| item.kind = "onramp_old".into());
        ours.adapt(&mut plan, &present);
        assert_eq!(kinds(&plan), ["onramp_old", "onramp_new"]);
        Kinds::module().adapt(&mut plan, &present);
        assert_eq!(kinds(&plan), [KIND, KIND]);
    }
}
