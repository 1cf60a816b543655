//! Carousel (Saeed et al., SIGCOMM'17): packets of all flows in one timing wheel per core,
//! by the latest time that any of their policies gives them.
//!
//! A flow hands packets down while it has less than its budget under way to the NIC, and
//! may hand down the next one when one has left: its completion is deferred until then.
//! Each core has its share of the flows, and a part of each tenant's and of the egress rate, which follows what its
//! flows need (see `shares.rs`).

use super::config::time_at;
use super::wheel::Wheel;
use super::{AGENT, Due, Entry, Held, Rules, Shaper, Take, Terms, shares};
use onramp_config::units::{Ps, SEC};

/// A packet in a wheel: whose, and its size.
type Packet = (Entry, u16);

/// A rate that packets of a flow, a tenant or all are held to: time stamp of the last one.
#[derive(Clone, Copy, Debug)]
struct Policy {
    rate: f64,
    last: Ps,
}

impl Policy {
    /// The next packet's time: LatestTs + size / rate, from now on.
    #[inline]
    fn stamp(&mut self, size: u16, now: Ps) -> Ps {
        self.last = self.last.max(now).saturating_add(time_at(size.into(), self.rate));
        self.last
    }
}

/// Bytes a core on average that tell how much of a limit each uses: a packet more or less is then 2%.
const SAMPLE: u64 = 64 * 1024;

/// A core's part of a limit.
#[derive(Clone, Copy, Debug)]
struct Part {
    policy: Policy,
    /// Bytes since parts were divided last.
    bytes: u64,
}

impl Part {
    #[inline]
    fn stamp(&mut self, size: u16, now: Ps) -> Ps {
        self.bytes += u64::from(size);
        self.policy.stamp(size, now)
    }
}

#[derive(Debug)]
struct Core {
    wheel: Wheel<Packet>,
    /// Of each tenant's limit, then of the egress rate.
    parts: Vec<Part>,
    /// It is busy with packets until then.
    busy: Ps,
}

impl Core {
    fn new(rules: &Rules) -> Self {
        let part = |rate: f64| Part { policy: Policy { rate: rate / f64::from(rules.cores), last: 0 }, bytes: 0 };
        Self { wheel: Wheel::new(rules.slot, rules.horizon), parts: limits(rules).map(part).collect(), busy: 0 }
    }
}

/// The limits that cores share, as `Core::parts` has them.
fn limits(rules: &Rules) -> impl Iterator<Item = f64> {
    rules.tenants.iter().copied().chain([rules.egress.unwrap_or(f64::INFINITY)])
}

/// A class of a NIC.
#[derive(Debug, Default)]
struct Line {
    due: Due,
    /// None before the first packet: wheels are large.
    cores: Vec<Core>,
    /// When each limit was divided among the cores last.
    divided: Vec<Ps>,
    /// When to look again.
    look: Ps,
    held: Held,
    flows: u64,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    id: u64,
    policy: Policy,
    line: u32,
    tenant: Option<u8>,
    core: u16,
    packets: u32,
    bytes: u32,
}

const NOBODY: Flow =
    Flow { id: u64::MAX, policy: Policy { rate: 0.0, last: 0 }, line: 0, tenant: None, core: 0, packets: 0, bytes: 0 };

/// See the module.
#[derive(Debug)]
pub struct Shaping {
    rules: Rules,
    lines: Vec<Line>,
    /// By slot of their senders.
    flows: Vec<Flow>,
    /// Size of the packet taken last.
    taken: u16,
}

impl Shaping {
    pub fn new(rules: &Rules, lines: usize) -> Self {
        Self { rules: rules.clone(), lines: (0..lines).map(|_| Line::default()).collect(), flows: Vec::new(), taken: 0 }
    }

    fn put(&mut self, line: usize, flow: Entry, size: u16, at: Ps, now: Ps) {
        let own = &mut self.flows[flow.slot as usize];
        own.packets += 1;
        own.bytes += u32::from(size);
        let line = &mut self.lines[line];
        line.held.add(size);
        line.cores[usize::from(own.core)].wheel.push(at, now, (flow, size));
    }
}

impl Line {
    /// Packets whose slot has begun go to the NIC; when the next one does.
    #[inline]
    fn turn(&mut self, cost: Ps, now: Ps) -> Ps {
        let mut next = Ps::MAX;
        for core in &mut self.cores {
            while let Some(at) = core.wheel.first() {
                let done = at.max(core.busy).saturating_add(cost);
                if done > now {
                    next = next.min(done);
                    break;
                }
                core.busy = done;
                if let Some((flow, size)) = core.wheel.pop() {
                    self.due.push(flow, size);
                }
            }
            core.wheel.turn(now);
        }
        next
    }

    /// Divides each limit among the cores by what they used of it since the last time, if that was enough to tell.
    #[cold]
    fn divide(&mut self, rules: &Rules, now: Ps) {
        for (place, limit) in limits(rules).enumerate().filter(|(_, limit)| limit.is_finite()) {
            let bytes: Vec<_> = self.cores.iter().map(|core| core.parts[place].bytes).collect();
            if bytes.iter().sum::<u64>() < SAMPLE * bytes.len() as u64 {
                continue;
            }
            let seconds = (now - self.divided[place]) as f64 / SEC as f64;
            self.divided[place] = now;
            let used: Vec<_> = bytes.iter().map(|&bytes| bytes as f64 * 8.0 / seconds).collect();
            let mut rates: Vec<_> = self.cores.iter().map(|core| core.parts[place].policy.rate).collect();
            shares::divide(limit, &mut rates, &used);
            for (core, rate) in self.cores.iter_mut().zip(rates) {
                let part = &mut core.parts[place];
                *part = Part { policy: Policy { rate, ..part.policy }, bytes: 0 };
            }
        }
    }
}

impl Shaper for Shaping {
    #[inline(never)]
    fn open(&mut self, line: usize, flow: Entry, terms: &Terms) {
        let slot = flow.slot as usize;
        if slot >= self.flows.len() {
            self.flows.resize(slot + 1, NOBODY);
        }
        // By its number alone, and not in step with it: sections give rates in turn.
        let core = (flow.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) % u64::from(self.rules.cores);
        let policy = Policy { rate: terms.cap, last: 0 };
        self.flows[slot] =
            Flow { id: flow.id, policy, line: line as u32, tenant: terms.tenant, core: core as u16, ..NOBODY };
        self.lines[line].flows += 1;
    }

    #[inline(never)]
    fn offer(&mut self, line: usize, flow: Entry, at: Ps, now: Ps) {
        if flow == AGENT {
            self.lines[line].due.push(AGENT, 0);
        } else {
            // In the first slot that begins no sooner, or it would come again at once.
            let at = at.next_multiple_of(self.rules.slot);
            self.put(line, flow, self.taken, at, now);
        }
    }

    fn ready(&self, _: Entry) -> bool {
        false
    }

    #[inline(never)]
    fn take(&mut self, line: usize, now: Ps) -> Take {
        let line = &mut self.lines[line];
        let next = line.turn(self.rules.cost, now);
        while let Some((flow, size)) = line.due.pop() {
            if flow == AGENT {
                return Take::Send(flow);
            }
            let own = &mut self.flows[flow.slot as usize];
            // The slot may have gone to another flow since.
            if own.id == flow.id {
                own.packets -= 1;
                own.bytes -= u32::from(size);
                line.held.remove(1, size.into());
                self.taken = size;
                return Take::Send(flow);
            }
        }
        if next == Ps::MAX { Take::Idle } else { Take::At(next) }
    }

    #[inline(never)]
    fn forget(&mut self, flow: Entry) {
        let own = &mut self.flows[flow.slot as usize];
        self.lines[own.line as usize].held.remove(own.packets, own.bytes);
        *own = NOBODY;
    }

    #[inline]
    fn holds(&self) -> bool {
        true
    }

    #[inline]
    fn room(&self, flow: Entry) -> Option<u32> {
        let own = &self.flows[flow.slot as usize];
        (own.bytes < self.rules.budget).then_some(own.packets)
    }

    #[inline(never)]
    fn hand(&mut self, line: usize, flow: Entry, size: u16, rate: f64, now: Ps) {
        let own = &mut self.flows[flow.slot as usize];
        let to = &mut self.lines[line];
        if to.cores.is_empty() {
            to.cores.extend((0..self.rules.cores).map(|_| Core::new(&self.rules)));
            to.divided = vec![now; self.rules.tenants.len() + 1];
        }
        if self.rules.cores > 1 && now >= to.look {
            to.look = now + self.rules.rebalance;
            to.divide(&self.rules, now);
        }
        let core = &mut to.cores[usize::from(own.core)];
        let mut policy = Policy { rate: own.policy.rate.min(rate), ..own.policy };
        let mut at = policy.stamp(size, now);
        own.policy.last = policy.last;
        if let Some(tenant) = own.tenant {
            at = at.max(core.parts[usize::from(tenant)].stamp(size, now));
        }
        let egress = core.parts.last_mut().expect("each core has a part of the egress rate");
        at = at.max(egress.stamp(size, now));
        self.put(line, flow, size, at, now);
    }

    fn held(&self) -> Held {
        let of = |line: &Line| {
            let wheels: usize = line.cores.iter().map(|core| core.wheel.memory()).sum();
            Held { memory: wheels as u64 + line.flows * size_of::<Flow>() as u64, ..line.held }
        };
        Held::largest(self.lines.iter().map(of))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{capped, flow, hand, opened};
    use super::*;
    use onramp_config::units::{MS, NS, US};

    /// Slots of 1 us; packets of 1000 B are 8 us at 1 Gb/s.
    fn shaping(rules: Rules, terms: &[Terms]) -> Shaping {
        let rules =
            Rules { slot: US, horizon: 10 * MS, cores: rules.cores.max(1), rebalance: MS, budget: 2000, ..rules };
        opened(Shaping::new(&rules, 1), terms)
    }

    #[test]
    fn a_packet_is_as_late_as_the_latest_of_its_policies() {
        let tenants = vec![2e9];
        let mut s = shaping(
            Rules { egress: Some(4e9), tenants, ..Rules::default() },
            &[Terms { cap: 1e9, tenant: Some(0) }, Terms { cap: 8e9, tenant: Some(0) }, capped(8.0, None)],
        );
        // At 3.5 us; in us, by flow, tenant, egress:
        for slot in [0, 1, 2] {
            hand(&mut s, slot, 1, 3500 * NS);
        }
        // 0: 11.5, 7.5, 5.5; 1: 4.5, 11.5, 7.5; 2: 4.5, none, 9.5. Slots begin at 11, 11 and 9 us.
        assert_eq!(s.take(0, 3500 * NS), Take::At(9 * US));
        assert_eq!(s.take(0, 9 * US), Take::Send(flow(2)));
        assert_eq!(s.take(0, 9 * US), Take::At(11 * US));
        assert_eq!(s.take(0, 12 * US), Take::Send(flow(0)));
        assert_eq!(s.take(0, 12 * US), Take::Send(flow(1)));
        assert_eq!(s.take(0, 12 * US), Take::Idle);
        assert_eq!((s.held().most_packets, s.held().most_bytes), (3, 3000));
    }

    #[test]
    fn a_flow_has_its_budget_under_way_and_no_more_until_a_packet_leaves() {
        let mut s = shaping(Rules::default(), &[capped(1.0, None)]);
        assert_eq!(s.room(flow(0)), Some(0));
        hand(&mut s, 0, 1, 0);
        assert_eq!(s.room(flow(0)), Some(1));
        hand(&mut s, 0, 1, 0);
        assert_eq!(s.room(flow(0)), None);
        assert_eq!(s.take(0, 0), Take::At(8 * US));
        assert_eq!(s.take(0, 8 * US), Take::Send(flow(0)));
        assert_eq!(s.room(flow(0)), Some(1));
        // The next follows the last stamp, not the time it is handed down.
        hand(&mut s, 0, 1, 8 * US);
        assert_eq!(s.take(0, 8 * US), Take::At(16 * US));
        assert_eq!(s.take(0, 16 * US), Take::Send(flow(0)));
        assert_eq!(s.take(0, 16 * US), Take::At(24 * US));
    }

    #[test]
    fn its_controllers_rate_counts_too_and_beyond_the_horizon_is_the_last_slot() {
        let mut s = shaping(Rules::default(), &[capped(1.0, None)]);
        s.hand(0, flow(0), 1000, 0.5e9, 0);
        assert_eq!(s.take(0, 0), Take::At(16 * US));
        assert_eq!(s.take(0, 16 * US), Take::Send(flow(0)));
        // At 1 Mb/s: 8 ms, and the next one 16 ms; the wheel has 10,048 slots.
        (0..2).for_each(|_| s.hand(0, flow(0), 1000, 1e6, 20 * US));
        assert_eq!(s.take(0, 8020 * US), Take::Send(flow(0)));
        assert_eq!(s.take(0, 8020 * US), Take::At((20 + 10_047) * US));
    }

    #[test]
    fn each_core_has_its_part_of_the_rates_and_its_own_time() {
        let rules = Rules { egress: Some(4e9), cores: 2, cost: 3 * US, ..Rules::default() };
        let mut s = shaping(rules, &[capped(8.0, None); 4]);
        let core = |s: &Shaping, slot: usize| s.flows[slot].core;
        let of =
            |wanted: u16| (0..4).filter(|&slot| core(&s, slot) == wanted).map(|slot| slot as u32).collect::<Vec<_>>();
        let (a, b) = (of(0), of(1));
        assert!(!a.is_empty() && !b.is_empty(), "{a:?} {b:?}");
        // Half of 4 Gb/s: 4 us a packet; then the core takes 3 us for it.
        for slot in [a[0], b[0], a[0]] {
            hand(&mut s, slot, 1, 0);
        }
        assert_eq!(s.take(0, 0), Take::At(7 * US));
        assert_eq!(s.take(0, 7 * US), Take::Send(flow(a[0])));
        assert_eq!(s.take(0, 7 * US), Take::Send(flow(b[0])));
        assert_eq!(s.take(0, 7 * US), Take::At(11 * US));
    }

    #[test]
    fn a_core_without_flows_leaves_its_part_to_the_other() {
        let rules = Rules { egress: Some(4e9), cores: 2, ..Rules::default() };
        let mut s = shaping(rules, &[capped(8.0, None)]);
        let mut sent = [0; 3];
        for ms in 0..3 {
            for now in (ms * MS..(ms + 1) * MS).step_by(US as usize) {
                while s.room(flow(0)).is_some() {
                    hand(&mut s, 0, 1, now);
                }
                while let Take::Send(_) = s.take(0, now) {
                    sent[ms as usize] += 1;
                }
            }
        }
        // Packets of 1000 B in a millisecond: at half of 4 Gb/s, then at all of it, as the other core needs none.
        assert!((248..=251).contains(&sent[0]), "{sent:?}");
        assert!((498..=501).contains(&sent[2]), "{sent:?}");
    }

    #[test]
    fn what_is_held_back_comes_again_and_what_is_forgotten_does_not() {
        let mut s = shaping(Rules::default(), &[capped(1.0, None), capped(1.0, None)]);
        hand(&mut s, 0, 1, 0);
        hand(&mut s, 1, 1, 0);
        assert_eq!(s.take(0, 8 * US), Take::Send(flow(0)));
        s.offer(0, flow(0), 19_200 * NS, 8 * US);
        assert_eq!(s.room(flow(0)), Some(1));
        s.forget(flow(1));
        s.open(0, Entry { slot: 1, id: 9 }, &capped(1.0, None));
        assert_eq!(s.take(0, 9 * US), Take::At(20 * US));
        s.offer(0, AGENT, 0, 9 * US);
        assert_eq!(s.take(0, 9 * US), Take::Send(AGENT));
        assert_eq!(s.take(0, 20 * US), Take::Send(flow(0)));
        assert_eq!((s.held().packets, s.held().bytes), (0, 0));
    }
}
