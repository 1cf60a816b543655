//! RCP at switches (Dukkipati et al., IWQoS'05; Dukkipati's thesis, 2007): a port gives all its flows one rate.
//!
//! A packet carries the smallest rate R of its path, and its sender's round trip. Every interval T,
//! with input rate y, queue q and mean round trip d₀, and N̂ = C/R(t − d₀) for the number of flows:
//!
//! R(t) = R(t − d₀) + [α(C − y) − β·q/d₀]/N̂ (1)
//!
//! or, with a target utilization γ, a target queue q₀, and T below d₀:
//!
//! R(t) = R(t − T)·[1 + (T/d₀)·(α(γC − y) − β(q − q₀)/d₀)/(γC)] (2)
//!
//! (1) is (2) at T = d₀, γ = 1 and q₀ = 0.

use super::{Feedback, Header, Leaving, Told, Written};
use crate::network::Kind;
use crate::network::packet::Packet;
use crate::network::schedule::CONTROL;
use onramp_config::units::{Bytes, NS, Ps, SEC, Span};
use serde::{Deserialize, Serialize};

/// Which equation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Form {
    /// (1): every round trip, to the whole link.
    Estimate,
    /// (2).
    #[default]
    Refined,
}

/// Parameters.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Equation (1) or (2). Default refined, (2).
    pub form: Form,
    /// α, gain of the spare capacity. Default 0.4, as in the authors' router for ns-2.
    pub alpha: f64,
    /// β, gain of the queue. Default 0.4, as there.
    pub beta: f64,
    /// γ, target utilization; refined only. Default 0.95.
    pub utilization: f64,
    /// q₀, target queue; refined only. Default 0.
    pub target_queue: Bytes,
    /// T, but at most d₀; refined only. Default half of the network's longest base RTT.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Span>,
    /// R at the start, as a share of C. Default 0.05, as in ns-2.
    pub initial: f64,
    /// Smallest R, in packets of payload a round trip. Default 0.01, as in ns-2.
    pub min_packets: f64,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            form: Form::Refined,
            alpha: 0.4,
            beta: 0.4,
            utilization: 0.95,
            target_queue: Bytes(0),
            interval: None,
            initial: 0.05,
            min_packets: 0.01,
        }
    }
}

/// Header that a packet carries.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    /// R_p in kb/s; the largest number for none yet.
    rate: u32,
    /// The sender's round trip in nanoseconds; 0 while it knows none.
    rtt: u32,
}

impl Congestion {
    /// R_p and the reverse path's rate of 4 B each, a round trip of 4 B, and 4 B of flags (IWQoS'05).
    pub const WIRE_BYTES: u64 = 16;

    /// The smallest rate of the ports passed, in bit/s.
    pub fn rate(&self) -> Option<f64> {
        (self.rate < u32::MAX).then(|| f64::from(self.rate) * 1e3)
    }
}

impl Default for Congestion {
    fn default() -> Self {
        Self { rate: u32::MAX, rtt: 0 }
    }
}

impl Header for Congestion {
    const TOLD: bool = true;

    #[inline]
    fn read(&self) -> Written<'_> {
        Written::Rcp(self)
    }

    #[inline]
    fn tell(told: &Told) -> Self {
        Self { rtt: (told.rtt / NS) as u32, ..Self::default() }
    }
}

/// RCP at switches.
#[derive(Clone, Debug)]
pub struct Rcp {
    params: Params,
    /// γ and q₀ in bits, as the form has them.
    gamma: f64,
    target: f64,
    /// T at most.
    interval: Ps,
    base_rtt: Ps,
    /// Bits of the smallest rate's packets in a round trip.
    least: f64,
}

/// State that a port keeps.
#[derive(Clone, Debug)]
pub struct Port {
    /// C in bit/s.
    capacity: f64,
    /// R in bit/s.
    rate: f64,
    /// d₀ in seconds.
    rtt: f64,
    /// The interval began and ends.
    start: Ps,
    end: Ps,
    /// Bytes that came in this interval.
    bytes: u64,
    /// Of those with a round trip: their bytes, and the sum of both's products.
    known: u64,
    rtt_bytes: f64,
    /// Bytes waiting after the last packet.
    queue: u64,
}

impl Rcp {
    /// For a network whose longest base RTT is this, and packets of so many bytes.
    pub fn new(params: Params, base_rtt: Ps, payload: u64) -> Self {
        let refined = params.form == Form::Refined;
        Self {
            params,
            gamma: if refined { params.utilization } else { 1.0 },
            target: if refined { params.target_queue.0 as f64 * 8.0 } else { 0.0 },
            interval: if refined { params.interval.map_or(base_rtt / 2, |t| t.0) } else { Ps::MAX },
            base_rtt,
            least: params.min_packets * payload as f64 * 8.0,
        }
    }

    /// T from here on.
    fn interval(&self, port: &Port) -> Ps {
        ((port.rtt * SEC as f64) as Ps).min(self.interval).max(1)
    }

    /// Equation (1) or (2), at the end of an interval.
    fn update(&self, port: &mut Port) {
        let seconds = (port.end - port.start) as f64 / SEC as f64;
        let share = (seconds / port.rtt).min(1.0);
        if port.known > 0 {
            port.rtt += share * (port.rtt_bytes / port.known as f64 - port.rtt);
        }
        let full = self.gamma * port.capacity;
        let input = port.bytes as f64 * 8.0 / seconds;
        let queue = port.queue as f64 * 8.0 - self.target;
        let change = (self.params.alpha * (full - input) - self.params.beta * queue / port.rtt) / full;
        let rate = port.rate * (1.0 + (seconds / port.rtt).min(1.0) * change);
        port.rate = rate.clamp((self.least / port.rtt).min(full), full);
        (port.bytes, port.known, port.rtt_bytes) = (0, 0, 0.0);
        port.start = port.end;
        port.end += self.interval(port);
    }

    /// All intervals that have ended.
    #[inline]
    fn catch_up(&self, port: &mut Port, now: Ps) {
        while port.end <= now {
            let (idle, rate) = (port.bytes == 0, port.rate);
            self.update(port);
            if idle && port.rate == rate && port.end <= now {
                // Nor will the next ones change it.
                let interval = port.end - port.start;
                port.start += (now - port.start) / interval * interval;
                port.end = port.start + interval;
            }
        }
    }
}

impl Feedback for Rcp {
    type Header = Congestion;
    type Port = Port;
    const COUNTS: bool = true;

    fn port(&self, rate: u64, _: u32) -> Port {
        let capacity = rate as f64;
        let mut port = Port {
            capacity,
            rate: capacity * self.params.initial.min(self.gamma),
            rtt: self.base_rtt as f64 / SEC as f64,
            start: 0,
            end: 0,
            bytes: 0,
            known: 0,
            rtt_bytes: 0.0,
            queue: 0,
        };
        port.end = self.interval(&port);
        port
    }

    #[inline]
    fn enqueue(&self, port: &mut Port, packet: &Packet<Congestion>, now: Ps, queue_bytes: u64) {
        self.catch_up(port, now);
        let size = u64::from(packet.size);
        port.bytes += size;
        if packet.class() != CONTROL {
            port.queue = queue_bytes + size;
        }
        if packet.kind() == Kind::DATA && packet.header.rtt > 0 {
            port.known += size;
            port.rtt_bytes += f64::from(packet.header.rtt) * 1e-9 * size as f64;
        }
    }

    #[inline]
    fn dequeue(&self, port: &mut Port, packet: &mut Packet<Congestion>, leaving: &Leaving) {
        self.catch_up(port, leaving.now);
        port.queue = leaving.queue_bytes;
        packet.header.rate = packet.header.rate.min((port.rate / 1e3) as u32);
    }

    fn rate(&self, port: &Port, now: Ps) -> Option<f64> {
        let mut port = port.clone();
        self.catch_up(&mut port, now);
        Some(port.rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onramp_config::units::US;

    /// 8 Gb/s: a byte is a nanosecond. d₀ = 10 µs, so C·d₀ = 10 000 B.
    const C: u64 = 8_000_000_000;

    fn feedback(form: Form) -> Rcp {
        let initial = if form == Form::Estimate { 0.5 } else { 0.45 };
        let params = Params { form, utilization: 0.9, target_queue: Bytes(500), initial, ..Params::default() };
        Rcp::new(params, 10 * US, 1000)
    }

    fn packet(size: u16, rtt: Ps) -> Packet<Congestion> {
        let header = Congestion::tell(&Told { rtt, ..Told::default() });
        Packet { size, header, ..Packet::default() }.marked(0, 1)
    }

    /// So many packets of 1000 B come at once, to this queue, and the last leaves it.
    fn come(feedback: &Rcp, port: &mut Port, packets: u64, now: Ps, queue: u64) {
        for i in 0..packets {
            feedback.enqueue(port, &packet(1000, 10 * US), now, queue + i * 1000);
        }
    }

    fn leave(feedback: &Rcp, port: &mut Port, now: Ps, queue_bytes: u64) -> f64 {
        let mut packet = packet(1000, 10 * US);
        let leaving = Leaving { now, tx_bytes: 0, queue_bytes, rate: C };
        feedback.dequeue(port, &mut packet, &leaving);
        packet.header.rate().unwrap()
    }

    fn close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-6, "{found} is not {expected}");
    }

    #[test]
    fn the_estimate_adds_what_is_spare_over_the_number_of_flows() {
        let feedback = feedback(Form::Estimate);
        let mut port = feedback.port(C, 0);
        // R = 4 Gb/s: N̂ = 2. In 10 µs come 5000 B: y = 4 Gb/s. q = 1000 B: q/d₀ = 0.8 Gb/s.
        come(&feedback, &mut port, 5, US, 0);
        leave(&feedback, &mut port, 2 * US, 1000);
        // 4 + (0.4·(8 − 4) − 0.4·0.8)/2 = 4.64.
        close(leave(&feedback, &mut port, 10 * US, 0), 4.64e9);
        // N̂ = 8/4.64; 12 000 B: y = 9.6; q = 3000 B: 2.4. 4.64 + (−0.64 − 0.96)·4.64/8 = 3.712.
        come(&feedback, &mut port, 12, 11 * US, 0);
        leave(&feedback, &mut port, 19 * US, 3000);
        close(leave(&feedback, &mut port, 20 * US, 3000), 3.712e9);
        // Nothing comes, the queue is gone: 3.712·(1 + 0.4).
        leave(&feedback, &mut port, 29 * US, 0);
        close(leave(&feedback, &mut port, 30 * US, 0), 3.712e9 * 1.4);
    }

    #[test]
    fn the_refined_form_aims_at_its_utilization_and_queue() {
        let feedback = feedback(Form::Refined);
        let mut port = feedback.port(C, 0);
        // γC = 7.2 Gb/s, R = 3.6, T = 5 µs = d₀/2. 3000 B: y = 4.8. q − q₀ = 1000 − 500 B: 0.4 Gb/s over d₀.
        come(&feedback, &mut port, 3, US, 0);
        leave(&feedback, &mut port, 2 * US, 1000);
        // 3.6·(1 + ½·(0.4·(7.2 − 4.8) − 0.4·0.4)/7.2) = 3.6·(1 + 0.4/7.2) = 3.8.
        close(leave(&feedback, &mut port, 5 * US, 0), 3.8e9);
        // 6000 B: y = 9.6; q − q₀ = 2000 B: 1.6. 3.8·(1 − ½·(0.96 + 0.64)/7.2) = 3.8·(1 − 1/9).
        come(&feedback, &mut port, 6, 6 * US, 0);
        leave(&feedback, &mut port, 9 * US, 2500);
        close(leave(&feedback, &mut port, 10 * US, 2500), 3.8e9 * 8.0 / 9.0);
    }

    #[test]
    fn the_round_trip_is_a_moving_average_of_the_packets() {
        let feedback = feedback(Form::Refined);
        let mut port = feedback.port(C, 0);
        // ¾ of the bytes say 10 µs, ¼ says 30: 15 µs; half of the way there, as T = d₀/2.
        come(&feedback, &mut port, 3, US, 0);
        feedback.enqueue(&mut port, &packet(1000, 30 * US), US, 0);
        // Who knows no round trip does not count.
        feedback.enqueue(&mut port, &packet(1000, 0), US, 0);
        leave(&feedback, &mut port, 5 * US, 0);
        close(port.rtt, 12.5e-6);
    }

    #[test]
    fn intervals_without_packets_are_caught_up() {
        let feedback = feedback(Form::Refined);
        let (mut late, mut step) = (feedback.port(C, 0), feedback.port(C, 0));
        // To γC, and there it stays.
        for at in 1..100 {
            step.queue = 0;
            feedback.catch_up(&mut step, at * 5 * US);
        }
        close(leave(&feedback, &mut late, 499 * US, 0), 7.2e9);
        feedback.catch_up(&mut step, 499 * US);
        assert_eq!((late.rate, late.start, late.end), (step.rate, step.start, step.end));
        assert_eq!(late.end, 500 * US);
        assert_eq!(feedback.rate(&feedback.port(C, 0), 0), Some(3.6e9));
        // 3.6·(1 + ½·(0.4·7.2 + 0.4·0.4)/7.2) after the first.
        close(feedback.rate(&feedback.port(C, 0), 5 * US).unwrap(), 3.6e9 + 3.04e9 / 4.0);
    }

    #[test]
    fn the_rate_stays_between_a_hundredth_of_a_packet_and_the_target() {
        let feedback = feedback(Form::Estimate);
        let mut port = feedback.port(C, 0);
        for i in 0..20 {
            come(&feedback, &mut port, 1000, 10 * US * i, 1_000_000);
        }
        // 0.01·8000 bits in 10 µs.
        close(leave(&feedback, &mut port, 200 * US, 0), 8e6);
        close(leave(&feedback, &mut port, 10_000 * US, 0), 8e9);
    }

    #[test]
    fn a_packet_keeps_the_smallest_rate() {
        let mut port = feedback(Form::Refined).port(C, 0);
        let mut packet = packet(1000, 0);
        assert_eq!(packet.header.rate(), None);
        let leaving = Leaving { now: 0, tx_bytes: 0, queue_bytes: 0, rate: C };
        for (rate, carried) in [(3e9, 3e9), (5e9, 3e9), (1e9, 1e9)] {
            port.rate = rate;
            feedback(Form::Refined).dequeue(&mut port, &mut packet, &leaving);
            assert_eq!(packet.header.rate(), Some(carried));
        }
    }
}
