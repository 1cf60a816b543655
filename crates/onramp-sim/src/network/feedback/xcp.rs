//! XCP at switches (Katabi, Handley, Rohrs, SIGCOMM'02): it tells each packet by how much its flow's window is to change.
//!
//! Every mean round trip d, with spare bandwidth S, persistent queue Q and input rate y:
//!
//! φ = α·d·S − β·Q (1), and h = max(0, γ·d·y − |φ|) to be shuffled between flows (their efficiency and fairness
//! controllers). A packet of s bytes, round trip r and window w is given p − n bytes (2), where
//! p = ξp·r²·s/w, ξp = (h + max(φ, 0))/(d·Σ(r·s/w)) (3, 4): the same gain in throughput for every flow, and
//! n = ξn·r·s, ξn = (h + max(−φ, 0))/(d·Σs) (5, 6): a loss in proportion to the flow's throughput;
//! or less, where a switch before gave it less.

use super::{Feedback, Header, Leaving, Told, Written};
use crate::network::Kind;
use crate::network::packet::Packet;
use crate::network::schedule::CONTROL;
use onramp_config::units::{NS, Ps, SEC};

/// Parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// α, gain of the spare bandwidth.
    pub alpha: f64,
    /// β, gain of the persistent queue.
    pub beta: f64,
    /// γ, share of the traffic that is shuffled.
    pub gamma: f64,
    /// Shortest control interval.
    pub min_interval: Ps,
    /// Longest control interval.
    pub max_interval: Ps,
}

/// Header that a packet carries.
#[derive(Clone, Copy, Debug, Default)]
pub struct Congestion {
    /// The sender's round trip in nanoseconds; 0 while it knows none.
    rtt: u32,
    /// The sender's window in bytes.
    window: f32,
    /// By how many bytes the sender would have it grow; then what switches grant.
    feedback: f32,
}

impl Congestion {
    /// As in the IETF's draft (draft-falk-xcp-spec-03).
    pub const WIRE_BYTES: u64 = 20;

    /// By how many bytes the window is to change.
    pub fn feedback(&self) -> f64 {
        f64::from(self.feedback)
    }

    fn known(&self) -> bool {
        self.rtt > 0 && self.window > 0.0
    }

    fn seconds(&self) -> f64 {
        f64::from(self.rtt) * 1e-9
    }
}

impl Header for Congestion {
    const TOLD: bool = true;

    #[inline]
    fn read(&self) -> Written<'_> {
        Written::Xcp(self)
    }

    #[inline]
    fn tell(told: &Told) -> Self {
        Self { rtt: (told.rtt / NS) as u32, window: told.window as f32, feedback: told.wish as f32 }
    }
}

/// XCP at switches.
#[derive(Clone, Debug)]
pub struct Xcp {
    params: Params,
    base_rtt: Ps,
}

/// State that a port keeps. Sums are of the present interval, ξ and residues come from the one before.
#[derive(Clone, Debug)]
pub struct Port {
    /// In bytes a second.
    capacity: f64,
    /// d in seconds.
    rtt: f64,
    start: Ps,
    end: Ps,
    /// Σs
    bytes: u64,
    /// Σ(r·s/w)
    flows: f64,
    /// Σ(r²·s/w)
    rtts: f64,
    /// The smallest queue in bytes.
    persistent: u64,
    /// Bytes waiting after the last packet.
    queue: u64,
    /// ξp and ξn.
    gain: f64,
    loss: f64,
    /// Throughput still to be given and taken, in bytes a second: what is given to a flow is not given again.
    to_give: f64,
    to_take: f64,
}

impl Xcp {
    /// For a network whose longest base RTT is this.
    pub fn new(params: Params, base_rtt: Ps) -> Self {
        Self { params, base_rtt }
    }

    fn interval(&self, port: &Port) -> Ps {
        ((port.rtt * SEC as f64) as Ps).clamp(self.params.min_interval, self.params.max_interval)
    }

    /// The end of a control interval.
    fn update(&self, port: &mut Port) {
        let Params { alpha, beta, gamma, .. } = self.params;
        let seconds = (port.end - port.start) as f64 / SEC as f64;
        (port.gain, port.loss, port.to_give, port.to_take) = (0.0, 0.0, 0.0, 0.0);
        if port.flows > 0.0 {
            // The mean over flows: Σ(r·s/w) is the same for each.
            port.rtt = port.rtts / port.flows;
        }
        if port.bytes > 0 {
            let (d, input) = (port.rtt, port.bytes as f64 / seconds);
            let phi = alpha * d * (port.capacity - input) - beta * port.persistent as f64;
            let shuffled = (gamma * d * input - phi.abs()).max(0.0);
            port.to_give = (shuffled + phi.max(0.0)) / d;
            port.to_take = (shuffled + (-phi).max(0.0)) / d;
            port.gain = if port.flows > 0.0 { port.to_give / port.flows } else { 0.0 };
            port.loss = port.to_take / port.bytes as f64;
        }
        (port.bytes, port.flows, port.rtts, port.persistent) = (0, 0.0, 0.0, port.queue);
        port.start = port.end;
        port.end += self.interval(port);
    }

    #[inline]
    fn catch_up(&self, port: &mut Port, now: Ps) {
        while port.end <= now {
            self.update(port);
            if port.bytes == 0 && port.end <= now {
                // Nothing came in the next ones either: they give and take nothing.
                let interval = port.end - port.start;
                port.start += ((now - port.start) / interval - 1) * interval;
                port.end = port.start + interval;
            }
        }
    }

    /// Equations (2) to (6), within what is left; as in the IETF's draft, what a flow is refused elsewhere is
    /// not taken from others.
    fn feedback(port: &mut Port, header: &mut Congestion, size: u16) {
        if !header.known() {
            header.feedback = 0.0;
            return;
        }
        // In throughput: p/r and n/r.
        let (r, s, wish) = (header.seconds(), f64::from(size), f64::from(header.feedback));
        let mut gained = (port.gain * r * s / f64::from(header.window)).min(port.to_give);
        let mut lost = (port.loss * s).min(port.to_take);
        if wish > (gained - lost) * r {
            header.feedback = ((gained - lost) * r) as f32;
        } else {
            lost = (lost + (gained - lost - wish / r)).min(port.to_take);
            gained = wish / r + lost;
        }
        port.to_give = (port.to_give - gained).max(0.0);
        port.to_take = (port.to_take - lost).max(0.0);
    }
}

impl Feedback for Xcp {
    type Header = Congestion;
    type Port = Port;
    const COUNTS: bool = true;

    fn port(&self, rate: u64, _: u32) -> Port {
        let mut port = Port {
            capacity: rate as f64 / 8.0,
            rtt: self.base_rtt as f64 / SEC as f64,
            start: 0,
            end: 0,
            bytes: 0,
            flows: 0.0,
            rtts: 0.0,
            persistent: 0,
            queue: 0,
            gain: 0.0,
            loss: 0.0,
            to_give: 0.0,
            to_take: 0.0,
        };
        port.end = self.interval(&port);
        port
    }

    #[inline]
    fn enqueue(&self, port: &mut Port, packet: &Packet<Congestion>, now: Ps, queue_bytes: u64) {
        self.catch_up(port, now);
        port.bytes += u64::from(packet.size);
        if packet.class() != CONTROL {
            port.persistent = port.persistent.min(queue_bytes);
            port.queue = queue_bytes + u64::from(packet.size);
        }
        let header = &packet.header;
        if packet.kind() == Kind::DATA && header.known() {
            let r = header.seconds();
            let share = r * f64::from(packet.size) / f64::from(header.window);
            port.flows += share;
            port.rtts += r * share;
        }
    }

    #[inline]
    fn dequeue(&self, port: &mut Port, packet: &mut Packet<Congestion>, leaving: &Leaving) {
        self.catch_up(port, leaving.now);
        port.queue = leaving.queue_bytes;
        port.persistent = port.persistent.min(leaving.queue_bytes);
        Self::feedback(port, &mut packet.header, packet.size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::US;

    /// 8 Gb/s: a byte is a nanosecond.
    const C: u64 = 8_000_000_000;

    fn feedback() -> Xcp {
        let params = Params { alpha: 0.4, beta: 0.226, gamma: 0.1, min_interval: US, max_interval: SEC };
        Xcp::new(params, 10 * US)
    }

    fn packet(rtt: Ps, window: f64, wish: f64) -> Packet<Congestion> {
        let header = Congestion::tell(&Told { rtt, window, wish });
        Packet { size: 1000, header, ..Packet::default() }.marked(0, 1)
    }

    fn leave(feedback: &Xcp, port: &mut Port, now: Ps, rtt: Ps, window: f64, queue_bytes: u64) -> f64 {
        let mut packet = packet(rtt, window, f64::MAX);
        feedback.dequeue(port, &mut packet, &Leaving { now, tx_bytes: 0, queue_bytes, rate: C });
        packet.header.feedback()
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} is not {expected}");
    }

    /// An interval of 10 µs: flow A, with a window of 4000 B, sends 4 packets, and B, of 1000 B, one.
    fn two_flows(feedback: &Xcp, queue: u64) -> Port {
        let mut port = feedback.port(C, 0);
        port.persistent = queue;
        for window in [4000.0, 4000.0, 4000.0, 4000.0, 1000.0] {
            feedback.enqueue(&mut port, &packet(10 * US, window, 0.0), 2 * US, queue);
        }
        port
    }

    #[test]
    fn spare_bandwidth_goes_to_all_flows_alike() {
        let feedback = feedback();
        let mut port = two_flows(&feedback, 0);
        // y = 5000 B in 10 µs of 10 000 B: φ = 0.4·5000 = 2000 B. γ·y·d = 500 < φ: h = 0.
        // Σ(r·s/w) = 4·2.5 + 10 = 20 µs; ξp = 2000 B/(10 µs·20 µs) = 10 B/µs².
        // A's packet: 10·100·¼ = 250 B, so 1000 B for its window; B's: 10·100·1 = 1000 B.
        close(leave(&feedback, &mut port, 10 * US, 10 * US, 4000.0, 0), 250.0);
        close(leave(&feedback, &mut port, 11 * US, 10 * US, 1000.0, 0), 1000.0);
        // (2000 − 1250)/10 µs are left to give; of a packet that would get 1000 B only 750.
        close(leave(&feedback, &mut port, 12 * US, 10 * US, 1000.0, 0), 750.0);
        assert_eq!(leave(&feedback, &mut port, 13 * US, 10 * US, 1000.0, 0), 0.0);
    }

    #[test]
    fn a_persistent_queue_is_taken_from_flows_by_what_they_send() {
        let feedback = feedback();
        let mut port = two_flows(&feedback, 40_000);
        // φ = 2000 − 0.226·40 000 = −7040 B, h = 0. ξn = 7040 B/(10 µs·5000 B): n = ξn·10 µs·1000 B = 1408 B a packet.
        close(leave(&feedback, &mut port, 10 * US, 10 * US, 4000.0, 40_000), -1408.0);
        close(leave(&feedback, &mut port, 11 * US, 10 * US, 1000.0, 40_000), -1408.0);
    }

    #[test]
    fn a_tenth_of_the_traffic_is_shuffled_where_nothing_else_changes() {
        let feedback = feedback();
        let mut port = feedback.port(C, 0);
        // Two flows fill the link: 8 packets of A, window 8000 B, and 2 of B, window 2000 B. φ = 0, h = 1000 B.
        for i in 0..10 {
            let window = if i < 8 { 8000.0 } else { 2000.0 };
            feedback.enqueue(&mut port, &packet(10 * US, window, 0.0), 2 * US, 0);
        }
        // Σ(r·s/w) = 20 µs: ξp = 5 B/µs², ξn = 1000 B/(10 µs·10 000 B): n = 100 B.
        // A: 5·100/8 − 100 = −37.5 B a packet, −300 in all; B: 250 − 100 = 150, 300 in all.
        close(leave(&feedback, &mut port, 10 * US, 10 * US, 8000.0, 0), -37.5);
        close(leave(&feedback, &mut port, 11 * US, 10 * US, 2000.0, 0), 150.0);
    }

    #[test]
    fn the_smallest_feedback_of_the_path_stays() {
        let feedback = feedback();
        let mut port = two_flows(&feedback, 0);
        let mut held = packet(10 * US, 1000.0, 300.0);
        feedback.dequeue(&mut port, &mut held, &Leaving { now: 10 * US, tx_bytes: 0, queue_bytes: 0, rate: C });
        assert_eq!(held.header.feedback(), 300.0);
        // Of 2000 B over 10 µs, 300 are gone.
        close(port.to_give, 1700.0 / 10e-6);
        // Nobody is told anything who has said no round trip.
        let mut new = packet(0, 1000.0, 300.0);
        feedback.dequeue(&mut port, &mut new, &Leaving { now: 11 * US, tx_bytes: 0, queue_bytes: 0, rate: C });
        assert_eq!(new.header.feedback(), 0.0);
    }

    #[test]
    fn the_interval_is_the_mean_round_trip_over_flows() {
        let feedback = feedback();
        let mut port = feedback.port(C, 0);
        // One flow of 10 µs and 10 packets, one of 30 µs and 1 of its 3 packets: each counts 10 µs.
        for _ in 0..10 {
            feedback.enqueue(&mut port, &packet(10 * US, 10_000.0, 0.0), US, 0);
        }
        feedback.enqueue(&mut port, &packet(30 * US, 3000.0, 0.0), US, 0);
        feedback.catch_up(&mut port, 10 * US);
        close(port.rtt, 20e-6);
        assert_eq!((port.start, port.end), (10 * US, 30 * US));
    }

    #[test]
    fn intervals_without_packets_are_caught_up_and_give_nothing() {
        let feedback = feedback();
        let (mut late, mut step) = (two_flows(&feedback, 0), two_flows(&feedback, 0));
        for at in 1..=1000 {
            feedback.catch_up(&mut step, at * 10 * US);
        }
        assert_eq!(leave(&feedback, &mut late, 10_001 * US, 10 * US, 1000.0, 0), 0.0);
        assert_eq!((late.start, late.end), (step.start, step.end));
    }
}
