//! Pacing of windows: packets leave at a window in a round trip, in place of all at once (Ghobadi and Ganjali,
//! "TCP pacing in data center networks").

use onramp_config::units::{Bytes, Ps};
use onramp_workload::state::Encoder;
use serde::{Deserialize, Serialize};

/// How a window's packets leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pacing {
    /// As acknowledgements let them.
    #[default]
    None,
    /// One by one, a round trip over the window apart.
    Packet,
    /// At the same rate in bursts of `max_burst`.
    Burst,
    /// One by one, all flows of a NIC by one pacer at the sum of their rates.
    Egress,
}

/// A scenario's pacing.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Which.
    pub pacing: Pacing,
    /// Bytes of payload of a burst.
    pub max_burst: Bytes,
}

/// The pacer of a flow that has a window. Times are in picoseconds.
#[derive(Clone, Debug, Default)]
pub struct Pacer {
    /// Smoothed round trip; 0 before the first.
    rtt: f64,
    /// Bytes of the burst that is being sent, and when the next one may begin.
    bytes: u64,
    next_burst: Ps,
    /// Share of the flow in the rate of its NIC's pacer, in bytes per picosecond.
    share: f64,
}

impl Pacer {
    /// A packet was acknowledged after `rtt`.
    pub fn measured(&mut self, rtt: Ps) {
        let rtt = rtt as f64;
        // RFC 6298, α = 1/8.
        self.rtt = if self.rtt == 0.0 { rtt } else { self.rtt + (rtt - self.rtt) / 8.0 };
    }

    /// Takes down its state.
    pub fn encode(&self, state: &mut Encoder) {
        let Self { rtt, bytes, next_burst, share } = *self;
        state.reads_ns();
        state.float(rtt);
        state.word(bytes);
        state.due(next_burst);
        state.float(share);
    }

    fn rtt(&self, base: Ps) -> f64 {
        if self.rtt == 0.0 { base as f64 } else { self.rtt }
    }

    /// A packet with so much `payload` has left: when the next may, where the window has `window` bytes and an empty
    /// network's round trip is `base`.
    pub fn next(&mut self, rules: &Rules, now: Ps, payload: u64, window: u64, base: Ps) -> Ps {
        let gap = self.rtt(base) * payload as f64 / window.max(payload) as f64;
        match rules.pacing {
            Pacing::None | Pacing::Egress => now,
            Pacing::Packet => now + gap as Ps,
            Pacing::Burst => {
                if self.bytes == 0 {
                    let packets = (rules.max_burst.0 / payload).max(1);
                    self.next_burst = now + (gap * packets as f64) as Ps;
                }
                self.bytes += payload;
                if self.bytes + payload <= rules.max_burst.0 {
                    return now;
                }
                self.end_burst()
            }
        }
    }

    /// The burst is all that the window let out: when the next one may begin. It is no sooner for being short, else
    /// bursts would fall apart into packets as their acknowledgements do.
    pub fn end_burst(&mut self) -> Ps {
        self.bytes = 0;
        self.next_burst
    }

    /// Change of the rate of the NIC's pacer, in bytes per picosecond, now that the window has `window` bytes.
    pub fn change(&mut self, window: u64, base: Ps) -> f64 {
        let before = self.share;
        self.share = window as f64 / self.rtt(base);
        self.share - before
    }

    /// Decrease of that rate when the flow is over.
    pub fn leave(&mut self) -> f64 {
        std::mem::take(&mut self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::US;

    fn rules(pacing: Pacing) -> Rules {
        Rules { pacing, max_burst: Bytes(3000) }
    }

    #[test]
    fn packets_are_a_round_trip_over_the_window_apart() {
        let mut pacer = Pacer::default();
        // Ten packets in the 20 µs of an empty network, later in 0.875 · 40 + 0.125 · 80 = 45 µs.
        assert_eq!(pacer.next(&rules(Pacing::Packet), 100, 1000, 10_000, 20 * US), 100 + 2 * US);
        pacer.measured(40 * US);
        pacer.measured(80 * US);
        assert_eq!(pacer.next(&rules(Pacing::Packet), 0, 1000, 10_000, 20 * US), 4_500_000);
        // A window below a packet is the controller's business.
        assert_eq!(pacer.next(&rules(Pacing::Packet), 0, 1000, 1, 20 * US), 45 * US);
        assert_eq!(pacer.next(&rules(Pacing::None), 7, 1000, 10_000, 20 * US), 7);
    }

    #[test]
    fn bursts_leave_at_once_at_the_same_rate() {
        let (mut pacer, rules) = (Pacer::default(), rules(Pacing::Burst));
        let mut next = |now| pacer.next(&rules, now, 1000, 10_000, 20 * US);
        // Three packets are worth 6 µs, from the first one on.
        assert_eq!([next(0), next(US), next(2 * US)], [0, US, 6 * US]);
        assert_eq!([next(8 * US), next(8 * US)], [8 * US; 2]);
        assert_eq!(pacer.end_burst(), 14 * US);
        assert_eq!(pacer.next(&rules, 20 * US, 1000, 10_000, 20 * US), 20 * US);
    }

    #[test]
    fn a_nic_s_pacer_has_the_sum_of_its_flows() {
        let (mut a, mut b) = (Pacer::default(), Pacer::default());
        let mut sum = a.change(10_000, 20 * US) + b.change(30_000, 20 * US);
        assert!((sum - 2e-3).abs() < 1e-12);
        sum += a.change(20_000, 20 * US);
        assert!((sum - 2.5e-3).abs() < 1e-12);
        sum -= b.leave();
        assert!((sum - 1e-3).abs() < 1e-12);
    }
}
