//! How well flows keep to their rates where they leave: long flows with a cap, tenants, and
//! all data of a NIC's class, in windows from time 0 to the end of the duration.

use hdrhistogram::Histogram;
use onramp_config::units::{MS, Ps, SEC};
use onramp_records::counters::{RateKept, Samples, Shaping, Spread};
use std::collections::BTreeMap;

/// Windows in which bytes are counted.
const WINDOWS: [(&str, Ps); 3] = [("1ms", MS), ("10ms", 10 * MS), ("100ms", 100 * MS)];
/// Packets are back to back if they begin within so many packet times at line rate.
const NEAR: f64 = 1.5;

/// Flows with one limit on their rate: those with the same cap, a tenant's by its number, or all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Flows(u64),
    Tenant(u8),
    Egress,
}

/// All of a class.
#[derive(Clone, Debug)]
struct All {
    count: u64,
    packets: u64,
    near: u64,
    /// Bytes above its rate at most, of each.
    bursts: Histogram<u64>,
    /// Deviations from the rate, in millionths.
    deviations: [Histogram<u64>; WINDOWS.len()],
}

/// A flow, or a tenant's or all data of a line.
#[derive(Clone, Debug)]
struct One {
    class: Class,
    rate: f64,
    /// It counts from here on.
    from: Ps,
    /// The windows it is in, and its bytes there.
    windows: [(u64, u64); WINDOWS.len()],
    /// Bytes above what its rate allows since it last was below, now and at most.
    above: f64,
    most: f64,
    last: Option<Ps>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Shaped {
    origin: Ps,
    span: Ps,
    egress: Option<f64>,
    tenants: Vec<(String, f64)>,
    /// By slot of their senders.
    flows: Vec<Option<One>>,
    /// By line.
    groups: BTreeMap<(usize, Class), One>,
    all: BTreeMap<Class, All>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are possible")
}

impl Default for All {
    fn default() -> Self {
        let deviations = std::array::from_fn(|_| histogram());
        Self { count: 0, packets: 0, near: 0, bursts: histogram(), deviations }
    }
}

impl All {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.packets += other.packets;
        self.near += other.near;
        let pairs = self.deviations.iter_mut().zip(&other.deviations);
        for (own, other) in pairs.chain([(&mut self.bursts, &other.bursts)]) {
            own.add(other).expect("it grows");
        }
    }

    fn summary(&self, rate: f64) -> RateKept {
        let of = |h: &Histogram<u64>, scale: f64| {
            let at = |q| h.value_at_quantile(q) as f64 / scale;
            let mean = if h.is_empty() { 0.0 } else { h.mean() / scale };
            let spread = Spread { mean, p50: at(0.5), p99: at(0.99), max: h.max() as f64 / scale };
            Samples { spread, samples: h.len() }
        };
        let windows = WINDOWS.iter().zip(&self.deviations);
        RateKept {
            rate_bps: rate,
            count: self.count,
            packets: self.packets,
            back_to_back: self.near as f64 / self.packets.max(1) as f64,
            burst_bytes: of(&self.bursts, 1.0),
            deviation: windows.map(|(&(name, _), h)| (name, of(h, 1e6))).collect(),
        }
    }
}

impl One {
    fn new(class: Class, rate: f64, from: Ps) -> Self {
        let windows = WINDOWS.map(|(_, length)| (from / length, 0));
        Self { class, rate, from, windows, above: 0.0, most: 0.0, last: None }
    }

    /// It is `at`: windows before are over.
    fn enter(&mut self, at: Ps, all: &mut All) {
        for ((window, bytes), ((_, length), deviations)) in
            self.windows.iter_mut().zip(WINDOWS.iter().zip(&mut all.deviations))
        {
            let over = at / length - *window;
            if over == 0 {
                continue;
            }
            let whole = self.rate / 8.0 * (*length as f64 / SEC as f64);
            let mut record = |bytes: u64, windows: u64| {
                let deviation = (bytes as f64 / whole - 1.0).abs() * 1e6;
                deviations.record_n(deviation as u64, windows).expect("it grows");
            };
            if *window * length >= self.from {
                record(*bytes, 1);
            }
            if over > 1 {
                record(0, over - 1);
            }
            (*window, *bytes) = (*window + over, 0);
        }
    }

    /// A packet leaves on a link of this rate.
    fn leaves(&mut self, at: Ps, size: u16, line_rate: f64, all: &mut All) {
        self.enter(at, all);
        let bytes = f64::from(size);
        for (_, sum) in &mut self.windows {
            *sum += u64::from(size);
        }
        if let Some(last) = self.last {
            let passed = (at - last) as f64 / SEC as f64;
            self.above = (self.above - passed * self.rate / 8.0).max(0.0);
            all.near += u64::from(passed <= NEAR * bytes * 8.0 / line_rate);
        }
        self.above += bytes;
        self.most = self.most.max(self.above);
        self.last = Some(at);
        all.packets += 1;
    }

    fn ends(mut self, at: Ps, all: &mut All) {
        self.enter(at, all);
        all.count += 1;
        all.bursts.record(self.most as u64).expect("it grows");
    }
}

impl Shaped {
    /// Nothing has left; time 0 is at `origin`.
    pub fn new(origin: Ps, span: Ps, egress: Option<f64>, tenants: Vec<(String, f64)>) -> Self {
        Self { origin, span, egress, tenants, flows: Vec::new(), groups: BTreeMap::new(), all: BTreeMap::new() }
    }

    /// A long flow with a cap begins.
    pub fn open(&mut self, slot: u32, cap: f64, now: Ps) {
        let (slot, at) = (slot as usize, now.saturating_sub(self.origin));
        if slot >= self.flows.len() {
            self.flows.resize(slot + 1, None);
        }
        self.flows[slot] = Some(One::new(Class::Flows(cap as u64), cap, at));
    }

    /// The flow is over.
    pub fn close(&mut self, slot: u32, now: Ps) {
        if let Some(one) = self.flows.get_mut(slot as usize).and_then(Option::take) {
            let at = now.saturating_sub(self.origin).min(self.span).max(one.from);
            let all = self.all.entry(one.class).or_default();
            one.ends(at, all);
        }
    }

    /// A flow's packet leaves.
    #[inline(never)]
    pub fn leaves(&mut self, slot: u32, line: usize, tenant: Option<u8>, size: u16, line_rate: f64, now: Ps) {
        let Some(at) = now.checked_sub(self.origin).filter(|&at| at < self.span) else { return };
        if let Some(Some(one)) = self.flows.get_mut(slot as usize) {
            one.leaves(at, size, line_rate, self.all.entry(one.class).or_default());
        }
        let tenant = tenant.map(|tenant| (Class::Tenant(tenant), self.tenants[usize::from(tenant)].1));
        for (class, rate) in tenant.into_iter().chain(self.egress.map(|rate| (Class::Egress, rate))) {
            let one = self.groups.entry((line, class)).or_insert_with(|| One::new(class, rate, at));
            one.leaves(at, size, line_rate, self.all.entry(class).or_default());
        }
    }

    /// Summary of several cells until `now`.
    pub fn summary<'a>(cells: impl Iterator<Item = &'a Self>, now: Ps) -> Shaping {
        let mut all: BTreeMap<Class, All> = BTreeMap::new();
        let (mut names, mut egress) = (Vec::new(), None);
        for cell in cells {
            let at = now.saturating_sub(cell.origin).min(cell.span);
            for (class, own) in &cell.all {
                all.entry(*class).or_default().add(own);
            }
            for one in cell.flows.iter().flatten().chain(cell.groups.values()) {
                one.clone().ends(at.max(one.from), all.entry(one.class).or_default());
            }
            (names, egress) = (cell.tenants.clone(), cell.egress);
        }
        let mut out = Shaping::default();
        for (class, all) in &all {
            match *class {
                Class::Flows(rate) => out.flows.push(all.summary(rate as f64)),
                Class::Tenant(tenant) => {
                    let (name, rate) = &names[usize::from(tenant)];
                    out.tenants.insert(name.clone(), all.summary(*rate));
                }
                Class::Egress => out.egress = Some(all.summary(egress.unwrap_or_default())),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::US;

    /// 1000 B at 8 Mb/s: a packet each millisecond.
    fn meter() -> Shaped {
        let mut meter = Shaped::new(5 * MS, 100 * MS, Some(16e6), vec![("web".into(), 16e6)]);
        meter.open(3, 8e6, MS);
        meter
    }

    fn leave(meter: &mut Shaped, at: Ps) {
        meter.leaves(3, 1, Some(0), 1000, 8e9, 5 * MS + at);
    }

    #[test]
    fn windows_and_bursts_are_those_of_hand() {
        let mut meter = meter();
        // Before time 0 nothing counts. Then: windows of 1 ms with 1, 3, 0 and 1 packets.
        meter.leaves(3, 1, Some(0), 1000, 8e9, 4 * MS);
        for at in [0, 1000, 1001, 1500, 3000] {
            leave(&mut meter, at * US);
        }
        let found = Shaped::summary([&meter].into_iter(), 9 * MS);
        let flow = &found.flows[0];
        assert_eq!((flow.rate_bps, flow.count), (8e6, 1));
        let deviation = &flow.deviation["1ms"];
        // 0, 2, 1 and 0.
        assert!((deviation.spread.mean - 0.75).abs() < 1e-3, "{deviation:?}");
        assert_eq!((deviation.spread.p50, deviation.samples), (0.0, 4));
        assert_eq!(flow.deviation["10ms"].samples, 0);
        // At 1001 us: 1000 B of 1 ms, 999 + 1000 B now; at 1500 us 499 less, and 1000 more.
        let burst = flow.burst_bytes.spread.max;
        assert!((burst - 2500.0).abs() <= 2.0, "{burst}");
        // One of five packets came within 1.5 us of the one before.
        assert_eq!(flow.back_to_back, 0.2);
        // A tenant begins with its first packet, in the middle of no window here.
        assert_eq!(found.tenants["web"].deviation["1ms"].samples, 4);
        assert_eq!(found.egress.unwrap().count, 1);
    }

    #[test]
    fn a_flow_that_begins_or_ends_in_a_window_does_not_count_there() {
        let mut meter = meter();
        meter.open(4, 8e6, 5 * MS + 500 * US);
        for at in [600, 1600, 2600, 3600] {
            meter.leaves(4, 1, None, 1000, 8e9, 5 * MS + at * US);
        }
        meter.close(4, 5 * MS + 3700 * US);
        meter.close(3, 5 * MS);
        let found = Shaped::summary([&meter].into_iter(), 90 * MS);
        assert_eq!(found.flows[0].count, 2);
        assert_eq!(found.flows[0].deviation["1ms"].samples, 2);
        assert_eq!(found.flows[0].deviation["1ms"].spread.max, 0.0);
    }
}
