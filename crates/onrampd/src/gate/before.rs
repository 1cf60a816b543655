//! Functions of a host's queueing disciplines, and those of them that a gate in their place does not have. Pure.

use super::install::Replaced;
use super::is_gate;
use crate::config::quantity::show_time;
use crate::net::tc::Qdisc;
use onramp_netlink::message::{attr, u32_at};
use onramp_netlink::qdisc::ROOT;

const TCA_CODEL_TARGET: u16 = 1;
const TCA_FQ_CODEL_CE_THRESHOLD: u16 = 7;
const TCA_FQ_CE_THRESHOLD: u16 = 12;
/// CoDel's target where a discipline has another rule to the same end, in nanoseconds.
const TARGET: u64 = 5_000_000;

/// The disciplines whose packets go through gates once a plan is carried out.
pub fn replaced<'q>(present: &'q [Qdisc], plan: &[Replaced]) -> impl Iterator<Item = &'q Qdisc> {
    // Below the kernel's own mq are others of its own, which go with it.
    let whole = plan.iter().any(|item| item.parent == ROOT && item.kind == "mq");
    let there: Vec<u32> = plan.iter().map(|item| item.parent).collect();
    let goes = move |q: &&Qdisc| there.contains(&q.parent) || whole && q.parent >> 16 == 0;
    present.iter().filter(goes).filter(|q| q.kind != "mq" && !is_gate(&q.kind))
}

/// CoDel's target in these disciplines, in nanoseconds: the shortest, if any has one.
pub fn target<'q>(disciplines: impl Iterator<Item = &'q Qdisc>) -> Option<u64> {
    let target = |q: &Qdisc| match q.kind.as_str() {
        "fq_codel" | "codel" => microseconds(q, TCA_CODEL_TARGET).or(Some(TARGET)),
        "cake" | "pie" | "fq_pie" => Some(TARGET),
        _ => None,
    };
    disciplines.filter_map(target).min()
}

fn microseconds(q: &Qdisc, kind: u16) -> Option<u64> {
    Some(u64::from(u32_at(attr(&q.options, kind)?, 0)?) * 1000)
}

/// Functions of this discipline that a gate, a program or not, does not have; empty if it has all.
#[must_use]
pub fn lost(q: &Qdisc, program: bool) -> Vec<&'static str> {
    let marks = |threshold: u16| microseconds(q, threshold).is_some_and(|t| t < u64::from(u32::MAX) * 1000);
    let mut lost = match q.kind.as_str() {
        "noqueue" | "pfifo" | "bfifo" | "fq_codel" | "codel" => Vec::new(),
        "pfifo_fast" => vec!["three bands by priority"],
        "fq" => vec!["pacing of TCP that did not ask for it"],
        "cake" => vec!["shaping", "classes by DSCP", "fairness among hosts"],
        _ => vec!["its own rules"],
    };
    if program && matches!(q.kind.as_str(), "fq_codel" | "codel" | "cake" | "fq_pie" | "pie") {
        lost.push("ECN marks (it drops instead)");
    }
    if q.kind == "fq" && marks(TCA_FQ_CE_THRESHOLD) || q.kind == "fq_codel" && marks(TCA_FQ_CODEL_CE_THRESHOLD) {
        lost.push("ce_threshold");
    }
    lost
}

/// A line of what is kept and lost of these disciplines, where `target` is the gate's; `None` if nothing was there.
pub fn told<'q>(disciplines: impl Iterator<Item = &'q Qdisc>, program: bool, target: u64) -> Option<String> {
    let mut kinds: Vec<&str> = Vec::new();
    let mut lost: Vec<&str> = Vec::new();
    for q in disciplines {
        kinds.push(&q.kind);
        lost.extend(self::lost(q, program));
    }
    for list in [&mut kinds, &mut lost] {
        list.sort_unstable();
        list.dedup();
    }
    if kinds.is_empty() {
        return None;
    }
    let codel = match target {
        0 => "no CoDel".into(),
        target => format!("CoDel with a target of {}", show_time(target.cast_signed())),
    };
    let lost = if lost.is_empty() { String::new() } else { format!(", without {}", lost.join(", ")) };
    Some(format!("in place of {}: flows take turns, {codel}{lost}", kinds.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With one option of 32 bits.
    fn qdisc(kind: &str, parent: u32, option: u16, value: u32) -> Qdisc {
        let options = [8_u16.to_ne_bytes(), option.to_ne_bytes()].concat();
        Qdisc { kind: kind.into(), parent, handle: 0, options: [&options[..], &value.to_ne_bytes()].concat() }
    }

    #[test]
    fn codel_goes_on_with_the_target_it_had() {
        let (codel, cake) = (qdisc("fq_codel", ROOT, 1, 1000), qdisc("cake", ROOT, 99, 0));
        assert_eq!(target([&codel].into_iter()), Some(1_000_000));
        assert_eq!(target([&cake, &codel].into_iter()), Some(1_000_000));
        assert_eq!(target([&cake].into_iter()), Some(5_000_000));
        assert_eq!(target([&qdisc("fq", ROOT, 1, 1000), &qdisc("pfifo_fast", ROOT, 1, 1000)].into_iter()), None);
    }

    #[test]
    fn what_is_not_kept_is_told() {
        let told = |q: &Qdisc, program, target| told([q, q].into_iter(), program, target).unwrap();
        let codel = qdisc("fq_codel", ROOT, 1, 5000);
        let kept = "in place of fq_codel: flows take turns, CoDel with a target of 5.00 ms";
        assert_eq!(told(&codel, false, 5_000_000), kept);
        assert_eq!(told(&codel, true, 5_000_000), format!("{kept}, without ECN marks (it drops instead)"));
        assert_eq!(lost(&qdisc("fq_codel", ROOT, 7, 1000), false), ["ce_threshold"]);
        assert_eq!(lost(&qdisc("fq", ROOT, 12, u32::MAX), false), ["pacing of TCP that did not ask for it"]);
        assert_eq!(lost(&qdisc("fq", ROOT, 12, 50), true).last(), Some(&"ce_threshold"));
        assert_eq!(
            told(&qdisc("pfifo_fast", ROOT, 1, 0), true, 0),
            "in place of pfifo_fast: flows take turns, no CoDel, without three bands by priority"
        );
    }

    #[test]
    fn disciplines_below_the_kernels_own_mq_are_replaced_with_it() {
        let present = [qdisc("mq", ROOT, 1, 0), qdisc("fq_codel", 1, 1, 5000), qdisc("clsact", 0xffff_fff1, 1, 0)];
        let plan = |parent, kind: &str| Replaced { parent, kind: kind.into(), before: None };
        let kinds = |plan: &[Replaced]| replaced(&present, plan).map(|q| q.kind.clone()).collect::<Vec<_>>();
        assert_eq!(kinds(&[plan(ROOT, "mq"), plan(0x9471_0001, "onramp")]), ["fq_codel"]);
        assert_eq!(kinds(&[plan(ROOT, "onramp")]), [""; 0]);
        assert_eq!(kinds(&[plan(1, "onramp")]), ["fq_codel"]);
    }
}
