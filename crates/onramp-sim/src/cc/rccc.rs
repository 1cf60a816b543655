//! RCCC, the receiver-credit congestion control of Ultra Ethernet 1.0: a sender transmits what its receiver has granted
//! credit for, and receivers grant credit at the rate of their link.
//!
//! - A new flow *speculates*: it sends up to a window before anything comes back. What is left of that window then
//!   lapses.
//! - Each data packet tells up to where the sender wants credit, its *target*: what it has to send, at most a window
//!   ahead of what it was granted. A packet that is trimmed still tells it.
//! - A receiver has one [`Pacer`] for all its senders. It grants them credit in turn, up to their targets. While none
//!   wants any, it grants those that were satisfied up to a window more, so that their next messages need not ask.
//!
//! Credit counts bytes on the wire, in quanta of 256 B since the flow began, so that lost grants and targets are made up
//! for by later ones. Rules and constants are those of the authors' simulator (uet-htsim, `UecPullPacer`,
//! `UecSrc::computePullTarget`).

use super::nscc::{REFERENCE_RTT, bdp, marks};
use super::{Ack, Controller, Env, Permit, Sent, Settings};
use crate::network::config::EcnDefault;
use onramp_config::Rule;
use onramp_config::units::{Bytes, Ps, SEC, Span, US};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Bytes of credit that are counted as one (`UEC_PULL_QUANTUM`).
const QUANTUM: u64 = 256;
/// Bits of a target that a packet has room for.
const TOLD_BITS: u32 = 22;
/// Largest window: a quarter of what a packet can tell.
const LARGEST: u64 = QUANTUM << (TOLD_BITS - 2);

/// Reason why iterations on credit are not skipped.
pub const AT_ONE_END: &str = "credit that is lost on its way is known at one end only";

/// Parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// RTT of the empty network. Default: the longest base RTT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_rtt: Option<Span>,
    /// Bytes that a new flow sends without credit, and most credit that a flow has or asks for, in bandwidth-delay
    /// products. Default 1.5.
    pub max_window: f64,
    /// Credit granted to a sender in its turn, on the wire. Default 16 KiB (htsim's `_credit_per_pull`).
    pub grant: Bytes,
    /// Share of the link's rate at which a receiver grants credit. Default 0.99 (htsim's `UecPullPacer`).
    pub rate: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { base_rtt: None, max_window: 1.5, grant: Bytes(16_384), rate: 0.99 }
    }
}

impl Config {
    fn base_rtt(&self) -> Ps {
        self.base_rtt.map_or(REFERENCE_RTT, |rtt| rtt.0)
    }

    /// The largest window in bytes.
    fn window(&self, env: &Env) -> u64 {
        ((self.max_window * bdp(self.base_rtt(), env)) as u64).clamp(env.packet, LARGEST)
    }
}

impl Settings for Config {
    fn resolve_rtt(&mut self, base_rtt: Ps) {
        self.base_rtt.get_or_insert(Span(base_rtt));
    }

    fn check(&self, rule: Rule<'_>) {
        let long = self.base_rtt.is_none_or(|rtt| rtt >= Span(US));
        rule(long, "base_rtt", "must be at least 1us, such as \"12us\"".into());
        let most = self.max_window;
        rule((0.01..=1000.0).contains(&most), "max_window", format!("{most} is outside 0.01 to 1000"));
        let grant = self.grant;
        let fits = (Bytes(QUANTUM)..=Bytes(1 << 20)).contains(&grant);
        rule(fits, "grant", format!("{grant} is outside 256B to 1MiB: such as \"16KiB\""));
        let rate = self.rate;
        rule(rate > 0.0 && rate <= 1.0, "rate", format!("{rate} is not above 0 and at most 1: such as 0.99"));
    }

    fn unordered(&self) -> bool {
        true
    }

    /// 64 B of headers in all, as in htsim.
    fn extra_header(&self) -> u64 {
        16
    }

    fn ack_bytes(&self) -> u64 {
        64
    }

    fn credit(&self) -> Option<Config> {
        Some(self.clone())
    }

    /// Those of NSCC: path choices look at marks.
    fn ecn_defaults(&self) -> Option<EcnDefault> {
        Some(marks(self.base_rtt()))
    }
}

/// A sender's account of credit.
#[derive(Debug)]
pub struct Credit {
    /// Bytes that it may send: the last packet need not be covered, so that it can be below 0.
    left: i64,
    /// Most that it can have, and most that it asks for.
    most: i64,
    wish: i64,
    /// Quanta granted and asked for since the flow began; they wrap.
    granted: u32,
    asked: u32,
    /// Nothing has come back yet.
    speculates: bool,
}

impl Credit {
    /// A new flow's.
    pub fn new(config: &Config, env: &Env) -> Self {
        let most = config.window(env) as i64;
        Self { left: most, most, wish: most, granted: 0, asked: 0, speculates: true }
    }

    /// True if nothing may be sent.
    pub fn is_short(&self) -> bool {
        self.left <= 0
    }

    /// True if it has asked for more than was granted.
    pub fn is_awaited(&self) -> bool {
        ahead(self.asked, self.granted) > 0
    }

    /// A packet of so many bytes leaves.
    pub(super) fn spend(&mut self, bytes: u16) {
        self.left -= i64::from(bytes);
    }

    /// Asks for no more than this, whatever there is to send.
    pub(super) fn limit(&mut self, bytes: u64) {
        self.wish = self.most.min(bytes as i64);
    }

    /// An acknowledgement has come, or a NACK: its receiver takes a trimmed packet for a wish to retransmit it, as
    /// [`Grant::trimmed`] does.
    pub(super) fn heard(&mut self, trimmed: bool, env: &Env) {
        self.stop_speculating();
        if trimmed {
            raise(&mut self.asked, self.granted.wrapping_add(quanta(env.packet)));
        }
    }

    fn stop_speculating(&mut self) {
        if self.speculates {
            self.speculates = false;
            self.left = self.left.min(0);
        }
    }

    /// The receiver has granted so many quanta in all.
    pub fn grant(&mut self, total: u32) {
        self.stop_speculating();
        let more = ahead(total, self.granted);
        if more > 0 {
            self.left = (self.left + i64::from(more) * QUANTUM as i64).min(self.most);
            self.granted = total;
        }
    }

    /// The target that a packet tells: for `backlog` bytes to send, at a NIC that so many flows share.
    pub fn ask(&mut self, backlog: u64, flows: usize, env: &Env) -> i32 {
        let mut wanted = (backlog as i64).min(self.wish) - self.left;
        if self.speculates && backlog > 0 {
            // What is sent unasked may be trimmed.
            wanted = wanted.max(env.packet as i64);
        }
        let wanted = (wanted.max(0) as u64).div_ceil(flows as u64);
        raise(&mut self.asked, self.granted.wrapping_add(quanta(wanted)));
        (self.asked << (32 - TOLD_BITS)) as i32
    }
}

fn quanta(bytes: u64) -> u32 {
    bytes.div_ceil(QUANTUM) as u32
}

/// Quanta by which a count is ahead of another.
fn ahead(count: u32, other: u32) -> i32 {
    count.wrapping_sub(other) as i32
}

fn raise(count: &mut u32, to: u32) {
    if ahead(to, *count) > 0 {
        *count = to;
    }
}

/// State of a flow.
#[derive(Debug)]
pub struct State(Credit);

impl Controller for State {
    type Config = Config;

    fn new(config: &Config, env: &Env) -> Self {
        Self(Credit::new(config, env))
    }

    fn on_ack(&mut self, _: &Config, env: &Env, ack: &Ack<'_>) {
        self.0.heard(ack.trimmed, env);
    }

    fn on_sent(&mut self, _: &Config, _: &Env, sent: &Sent) {
        self.0.spend(sent.size);
    }

    fn credit(&mut self) -> Option<&mut Credit> {
        Some(&mut self.0)
    }

    fn permit(&mut self, _: &Config, _: &Env, _: Ps) -> Permit {
        Permit { window: if self.0.is_short() { 0 } else { u64::MAX }, rate: f64::INFINITY }
    }

    fn encode(&self, _: &Config, _: &Env, _: u32, state: &mut Encoder) {
        state.refuse(AT_ONE_END);
    }
}

/// Where a sender stands at its receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    /// It has all the credit it is to have.
    #[default]
    Out,
    /// Among those that want credit.
    Asking,
    /// Among those that get some while nobody asks.
    Satisfied,
}

/// A receiver's account of a sender, in quanta since the flow began; they wrap.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grant {
    granted: u32,
    asked: u32,
    place: Place,
    /// Packets of the flow, once its last one has told; a channel has none.
    packets: Option<u32>,
    is_channel: bool,
    /// All of them have come.
    is_over: bool,
}

impl Grant {
    /// Quanta granted so far.
    pub fn granted(&self) -> u32 {
        self.granted
    }

    /// Of messages without an end.
    pub fn of_channel() -> Self {
        Self { is_channel: true, ..Self::default() }
    }

    /// The last packet of the flow has this number; a channel's is only that of a message.
    pub fn ends(&mut self, number: u32) {
        if !self.is_channel {
            self.packets = Some(number + 1);
        }
    }

    /// True if no packet of the flow is missing where so many have come in order.
    fn is_whole(&self, came: u32) -> bool {
        self.packets == Some(came)
    }

    /// A packet has told something, and so many have come in order. One that is whole gets no credit to spare, but what
    /// it asks for, since its last acknowledgement may be lost; and some beyond, if it asks without a packet, since
    /// grants may be.
    pub fn came(&mut self, in_order: u32, is_request: bool) {
        self.is_over = self.is_whole(in_order) && !is_request;
    }

    /// True if the sender has all the credit it is to have.
    pub fn is_out(&self) -> bool {
        self.place == Place::Out
    }

    /// A data packet told a target.
    pub fn asked(&mut self, told: i32) {
        // The bits that it told, as a difference to what is known.
        let more = (told.wrapping_sub((self.asked << (32 - TOLD_BITS)) as i32)) >> (32 - TOLD_BITS);
        if more > 0 {
            self.asked = self.asked.wrapping_add(more as u32);
        }
    }

    /// A packet of so many bytes came without its payload: it is to be sent again, whatever its sender had asked for.
    pub fn trimmed(&mut self, packet: u64) {
        raise(&mut self.asked, self.granted.wrapping_add(quanta(packet)));
    }
}

/// Grants credit to the senders of a NIC, which are known by the slots of their flows' receiving ends.
#[derive(Debug, Default)]
pub struct Pacer {
    asking: VecDeque<u32>,
    satisfied: VecDeque<u32>,
    /// When the next grant is due.
    due: Ps,
}

impl Pacer {
    /// When it may grant again; `None` if nobody is to get anything.
    pub fn due(&self) -> Option<Ps> {
        (!self.asking.is_empty() || !self.satisfied.is_empty()).then_some(self.due)
    }

    /// Lines up a sender that has told something.
    pub fn line_up(&mut self, slot: u32, grant: &mut Grant) {
        if ahead(grant.asked, grant.granted) > 0 {
            if grant.place != Place::Asking {
                self.leave(slot, grant);
                self.asking.push_back(slot);
                grant.place = Place::Asking;
            }
        } else if grant.is_over {
            self.leave(slot, grant);
        } else if grant.place == Place::Out {
            self.satisfied.push_back(slot);
            grant.place = Place::Satisfied;
        }
    }

    /// Whose turn it is.
    pub fn next(&self) -> Option<u32> {
        self.asking.front().or(self.satisfied.front()).copied()
    }

    /// Grants credit to the sender whose turn it is.
    pub fn grant(&mut self, grant: &mut Grant, config: &Config, env: &Env, now: Ps) {
        let most = quanta(config.grant.0);
        let more = if let Some(slot) = self.asking.pop_front() {
            let wanted = ahead(grant.asked, grant.granted).max(0) as u32;
            grant.place = if wanted > most {
                self.asking.push_back(slot);
                Place::Asking
            } else if grant.is_over {
                Place::Out
            } else {
                self.satisfied.push_back(slot);
                Place::Satisfied
            };
            wanted.min(most)
        } else if let Some(slot) = self.satisfied.pop_front() {
            let beyond = ahead(grant.granted.wrapping_add(most), grant.asked);
            if u64::from(beyond.max(0) as u32) * QUANTUM < config.window(env) {
                self.satisfied.push_back(slot);
            } else {
                grant.place = Place::Out;
            }
            most
        } else {
            return;
        };
        grant.granted = grant.granted.wrapping_add(more);
        let bits = (u64::from(more) * QUANTUM * 8) as f64;
        self.due = now + (bits * SEC as f64 / (config.rate * env.line_rate)) as Ps;
    }

    /// A flow leaves its queue.
    fn leave(&mut self, slot: u32, grant: &mut Grant) {
        let queue = match std::mem::take(&mut grant.place) {
            Place::Out => return,
            Place::Asking => &mut self.asking,
            Place::Satisfied => &mut self.satisfied,
        };
        queue.retain(|other| *other != slot);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ENV, at};
    use super::*;

    /// Base RTT of 12 us at 100 Gb/s: the window is 225 KB; packets are 1048 B.
    fn config() -> Config {
        let mut config = Config::default();
        config.resolve_rtt(12 * US);
        config
    }

    fn credit() -> Credit {
        Credit::new(&config(), &ENV)
    }

    /// Senders at a receiver, each of which wants so many bytes.
    fn crowd(wants: &[u64]) -> (Pacer, Vec<Grant>) {
        let mut pacer = Pacer::default();
        let mut grants = vec![Grant::default(); wants.len()];
        for ((slot, grant), bytes) in (0..).zip(&mut grants).zip(wants) {
            grant.asked((quanta(*bytes) << (32 - TOLD_BITS)) as i32);
            pacer.line_up(slot, grant);
        }
        (pacer, grants)
    }

    /// Grants all credit that is due before `end`: to whom, in turn.
    fn run(pacer: &mut Pacer, grants: &mut [Grant], end: Ps) -> Vec<u32> {
        let mut turns = Vec::new();
        while let Some(now) = pacer.due().filter(|due| *due < end) {
            let slot = pacer.next().unwrap();
            pacer.grant(&mut grants[slot as usize], &config(), &ENV, now);
            turns.push(slot);
        }
        turns
    }

    #[test]
    fn credit_is_granted_in_turn_at_the_rate_of_the_link() {
        let (mut pacer, mut grants) = crowd(&[10_000_000; 3]);
        let turns = run(&mut pacer, &mut grants, 1000 * US);
        assert_eq!(turns[..6], [0, 1, 2, 0, 1, 2]);
        // 0.99 of 100 Gb/s for 1 ms, in grants of 16 KiB.
        let bytes: u64 = grants.iter().map(|grant| u64::from(grant.granted) * QUANTUM).sum();
        assert_eq!(bytes.div_ceil(16_384), (0.99 * 12_500_000.0_f64 / 16_384.0).ceil() as u64);
        let shares = grants.iter().map(|grant| grant.granted);
        assert!(shares.clone().max().unwrap() - shares.min().unwrap() <= 64, "{grants:?}");
    }

    #[test]
    fn no_more_is_granted_than_was_asked_for_while_others_want_some() {
        let (mut pacer, mut grants) = crowd(&[5000, 1_000_000]);
        run(&mut pacer, &mut grants, 80 * US);
        assert_eq!((grants[0].granted, grants[0].place), (20, Place::Satisfied));
        assert!(grants[1].granted > 3500 && grants[1].place == Place::Asking, "{grants:?}");
    }

    #[test]
    fn who_is_satisfied_gets_a_window_more_and_then_nothing_until_it_asks() {
        let (mut pacer, mut grants) = crowd(&[5000]);
        let turns = run(&mut pacer, &mut grants, Ps::MAX);
        // 14 grants of 64 quanta are beyond 225,000 B.
        assert_eq!((turns.len(), grants[0].granted, pacer.due()), (15, 20 + 14 * 64, None));
        // A wish for less than it has lines it up for as much as that is nearer to what it has.
        grants[0].asked((20 + 64) << (32 - TOLD_BITS));
        pacer.line_up(0, &mut grants[0]);
        assert_eq!((run(&mut pacer, &mut grants, Ps::MAX).len(), grants[0].granted), (1, 20 + 15 * 64));
    }

    #[test]
    fn who_leaves_gets_nothing_more() {
        let (mut pacer, mut grants) = crowd(&[100_000, 100_000]);
        run(&mut pacer, &mut grants, US);
        pacer.leave(0, &mut grants[0]);
        pacer.leave(1, &mut grants[1]);
        assert_eq!((pacer.due(), pacer.next()), (None, None));
    }

    #[test]
    fn a_trimmed_packet_is_a_wish_for_credit_at_both_ends() {
        let (mut sender, mut grant) = (credit(), Grant::default());
        assert!(!sender.is_awaited());
        sender.heard(true, &ENV);
        grant.trimmed(ENV.packet);
        assert_eq!((sender.asked, grant.asked), (5, 5));
        assert!(sender.is_awaited());
        // One that had asked for more wants the same as before.
        sender.asked = 9;
        sender.heard(true, &ENV);
        assert_eq!(sender.asked, 9);
    }

    #[test]
    fn a_window_is_sent_unasked_and_lapses_with_the_first_reply() {
        let (c, mut state) = (config(), State(credit()));
        assert_eq!(state.permit(&c, &ENV, 0).window, u64::MAX);
        let sent = |state: &mut State| state.on_sent(&config(), &ENV, &Sent { now: 0, size: 1048, in_flight: 0 });
        sent(&mut state);
        // The bytes that it has sent, and at least a packet.
        assert_eq!((state.0.ask(10_000_000, 1, &ENV), state.0.asked), (5 << (32 - TOLD_BITS), 5));
        sent(&mut state);
        state.0.ask(10_000_000, 1, &ENV);
        assert_eq!(state.0.asked, 9);
        state.on_ack(&c, &ENV, &at(US, US, false, 1, 2));
        assert_eq!((state.permit(&c, &ENV, 0).window, state.0.left), (0, 0));
        // Any credit is enough for a packet, and the rest is owed.
        state.0.grant(1);
        assert_eq!(state.permit(&c, &ENV, 0).window, u64::MAX);
        sent(&mut state);
        assert_eq!((state.permit(&c, &ENV, 0).window, state.0.left), (0, 256 - 1048));
        // A grant that was overtaken says nothing new, and one makes up for those that were lost.
        state.0.grant(0);
        state.0.grant(9);
        assert_eq!(state.0.left, 9 * 256 - 1048);
        // No more is kept than a window.
        state.0.grant(100_000);
        assert_eq!(state.0.left, 225_000);
    }

    #[test]
    fn flows_that_share_a_nic_ask_for_their_share() {
        let mut sender = credit();
        sender.stop_speculating();
        sender.ask(10_000_000, 2, &ENV);
        assert_eq!(sender.asked, quanta(225_000 / 2));
        // What is asked for is not taken back.
        sender.limit(1000);
        sender.ask(10_000_000, 1, &ENV);
        assert_eq!(sender.asked, quanta(225_000 / 2));
    }

    #[test]
    fn a_flow_is_whole_with_its_last_packet_and_a_channel_never() {
        let (mut flow, mut channel) = (Grant::default(), Grant::of_channel());
        assert!(!flow.is_whole(0));
        for grant in [&mut flow, &mut channel] {
            grant.ends(4);
        }
        assert_eq!([4, 5].map(|came| (flow.is_whole(came), channel.is_whole(came))), [(false, false), (true, false)]);
    }

    #[test]
    fn counts_wrap_and_a_packet_tells_their_low_bits() {
        let start = u32::MAX - 100;
        let mut grant = Grant { granted: start, asked: start, ..Grant::default() };
        let mut sender = Credit { left: 0, speculates: false, granted: start, asked: start, ..credit() };
        let told = sender.ask(200_000, 1, &ENV);
        // When the packet left is below it.
        grant.asked(told | 999);
        assert_eq!((grant.asked, sender.asked), (start.wrapping_add(782), start.wrapping_add(782)));
        sender.grant(start.wrapping_add(200));
        assert_eq!(sender.left, 200 * 256);
        // One that was overtaken tells nothing new.
        grant.asked(((start.wrapping_add(700)) << (32 - TOLD_BITS)) as i32);
        assert_eq!(grant.asked, start.wrapping_add(782));
    }
}
