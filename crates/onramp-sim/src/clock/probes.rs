//! Probes as packets: of the data class, through the host's NIC and the loaded
//! network, stamped where data is. A host answers at once.

use super::accuracy::ClockRecord;
use super::ntp;
use super::running::{HostClock, Method, Running};
use super::{Clocks, Tick};
use crate::events::Timer;
use crate::network::{Kind, Packet};
use crate::random;
use crate::sim::Simulation;
use crate::units::{NS, Ps, SEC};
use onramp_clock::Exchange;
use serde_json::{Value, json};

/// Bytes of a probe as an Ethernet frame without FCS, as OR-ACKs are counted:
/// 14, 20, 8, and the payload.
const WIRE: u16 = 42 + onramp_core::orprobe::LEN as u16;

/// How often the clocks' errors are looked at while flows arrive.
const SAMPLES: Ps = 100;

/// A probe or its answer on the way. Times by the clock of whoever took them.
#[derive(Clone, Copy, Debug)]
pub struct RoundTrip {
    asker: u32,
    asked: u32,
    hash: [u16; 2],
    /// Edge and pair with Huygens.
    edge: u32,
    pair: u32,
    second: bool,
    sent: u64,
    received: u64,
    returned: u64,
}

impl HostClock {
    fn stamp_departure(&mut self, now: Ps) -> u64 {
        self.oscillator.advance(now);
        self.oscillator.reading(now).wrapping_add_signed(self.probe_stamper.departure())
    }

    fn stamp_arrival(&mut self, now: Ps) -> u64 {
        self.oscillator.advance(now);
        self.oscillator.reading(now).wrapping_add_signed(self.probe_stamper.arrival())
    }
}

impl Running {
    /// Samples of the clocks' errors since the last call.
    pub(crate) fn take_records(&mut self) -> Vec<ClockRecord> {
        self.accuracy.take_records()
    }

    /// What is to happen first.
    pub(crate) fn first_ticks(&self, seed: u64) -> Vec<(Ps, Tick)> {
        match &self.method {
            Method::Huygens(huygens) => huygens.first_ticks(),
            Method::Ntp(clients) => {
                let mut random = random::stream(seed, "polls", 0);
                let mut first = |host| {
                    let interval = clients[host as usize].poll_interval() as f64;
                    ((interval * random::uniform(&mut random)) as Ps * NS, Tick::Poll(host))
                };
                (1..clients.len() as u32).map(&mut first).collect()
            }
        }
    }

    /// A probe or an answer leaves its host.
    #[cold]
    pub(crate) fn leaves(&mut self, packet: &Packet, now: Ps) {
        self.probe_bytes += u64::from(packet.size);
        let trip = &mut self.under_way[packet.flow];
        if packet.kind == Kind::PROBE {
            trip.sent = self.hosts[trip.asker as usize].stamp_departure(now);
        } else {
            trip.returned = self.hosts[trip.asked as usize].stamp_departure(now);
        }
    }

    /// A probe reaches the asked host: the answer.
    fn answer(&mut self, packet: Packet, now: Ps) -> Packet {
        let trip = &mut self.under_way[packet.flow];
        trip.received = self.hosts[trip.asked as usize].stamp_arrival(now);
        Packet { kind: Kind::ECHO, dst: trip.asker as u16, hash: trip.hash[1], flags: 0, ..packet }
    }

    /// An answer has come back.
    fn came_back(&mut self, packet: &Packet, now: Ps) {
        self.under_way.remove(packet.flow);
        let trip = self.under_way[packet.flow];
        let host = &mut self.hosts[trip.asker as usize];
        let came_back = host.stamp_arrival(now);
        let RoundTrip { sent, received, returned, pair, second, .. } = trip;
        match &mut self.method {
            Method::Huygens(huygens) => {
                huygens.collect(trip.edge, Exchange { pair, second, sent, received, returned, came_back });
            }
            Method::Ntp(clients) => {
                let client = &mut clients[trip.asker as usize];
                if let Some(new) = client.answer([sent, received, returned, came_back], host.correction) {
                    host.correction = Some(new);
                    self.epoch += 1;
                }
            }
        }
    }

    /// A probe or an answer was dropped.
    #[cold]
    pub(crate) fn lost(&mut self, packet: &Packet) {
        self.under_way.remove(packet.flow);
    }

    /// A probe to send now, as a packet.
    fn probe(&mut self, trip: RoundTrip, size: u16) -> Packet {
        let slot = self.under_way.insert(trip);
        Packet {
            sent_ns: 0,
            flow: slot,
            seq: 0,
            aux: 0,
            owd_ns: 0,
            dst: trip.asked as u16,
            link: 0,
            size,
            hash: trip.hash[0],
            kind: Kind::PROBE,
            flags: 0,
        }
    }

    fn probe_of(&mut self, edge: u32, pair: u32, second: bool) -> Option<(u32, Packet)> {
        let Method::Huygens(huygens) = &self.method else { return None };
        let probed = huygens.edge(edge);
        let (asker, asked, hash) = (probed.from, probed.to, probed.hash);
        let trip = RoundTrip { asker, asked, hash, edge, pair, second, sent: 0, received: 0, returned: 0 };
        Some((asker, self.probe(trip, WIRE)))
    }

    /// For `summary.json`: accuracy since time 0, cost since the start.
    pub(crate) fn summary(&self, now: Ps, line_bits_per_s: f64) -> Value {
        let (error, uncertainty) = self.accuracy.summary();
        let could = line_bits_per_s * now.max(1) as f64 / SEC as f64;
        let mut all = json!({
            "error_ns": error,
            "uncertainty_ns": uncertainty,
            "probe_share": self.probe_bytes as f64 * 8.0 / could,
        });
        if let Method::Huygens(huygens) = &self.method {
            all["windows"] = json!(huygens.windows);
        }
        all
    }
}

impl Simulation {
    /// Begins synchronisation.
    pub(crate) fn start_clocks(&mut self, seed: u64) {
        let Clocks::Running(clocks) = &self.clocks else { return };
        let mut ticks = clocks.first_ticks(seed);
        ticks.push((self.origin, Tick::Sample));
        if self.origin > 0 {
            // Just before the first flows.
            ticks.push((self.origin - 1, Tick::Begin));
        }
        for (at, tick) in ticks {
            self.events.timer(at, Timer::Clock(tick));
        }
    }

    /// Something about the clocks is due.
    #[cold]
    pub(crate) fn clock_tick(&mut self, tick: Tick) {
        let now = self.now;
        let Clocks::Running(clocks) = &mut self.clocks else { return };
        let mut next: Vec<(Ps, Tick)> = Vec::new();
        let mut probe = None;
        match (tick, &mut clocks.method) {
            (Tick::First(edge), Method::Huygens(huygens)) => {
                let (pair, due) = huygens.begin_pair(edge, now);
                next.extend(due);
                probe = clocks.probe_of(edge, pair, false);
            }
            (Tick::Second(edge), Method::Huygens(huygens)) => {
                let pair = huygens.pair(edge);
                probe = clocks.probe_of(edge, pair, true);
            }
            (Tick::Window, Method::Huygens(huygens)) => next.extend(huygens.close_window(&clocks.hosts, now)),
            (Tick::Correct, Method::Huygens(huygens)) => {
                clocks.noise = huygens.correct(&mut clocks.hosts);
                clocks.epoch += 1;
            }
            (Tick::Poll(host), Method::Ntp(clients)) => {
                next.push((now + clients[host as usize].poll_interval() * NS, tick));
                let hash = [host as u16, !(host as u16)];
                let trip = RoundTrip {
                    asker: host,
                    asked: 0,
                    hash,
                    edge: 0,
                    pair: 0,
                    second: false,
                    sent: 0,
                    received: 0,
                    returned: 0,
                };
                probe = Some((host, clocks.probe(trip, ntp::WIRE)));
            }
            (Tick::Sample, _) => {
                let known = (0..).zip(&mut clocks.hosts);
                let known = known.filter_map(|(host, clock)| Some((host, clock.error(now)?, clock.uncertainty(now)?)));
                clocks.accuracy.sample(&known.collect::<Vec<_>>(), now - self.origin);
                let interval = (self.duration / SAMPLES).max(NS);
                if now + interval <= self.origin + self.duration {
                    next.push((now + interval, tick));
                }
            }
            (Tick::Begin, _) => self.begin(),
            _ => unreachable!("a tick of the other method"),
        }
        for (at, tick) in next {
            self.events.timer(at, Timer::Clock(tick));
        }
        if let Some((host, packet)) = probe {
            self.nics[host as usize].agent.push_back(packet);
            self.nic_send(host);
        }
    }

    /// A probe or an answer has reached its host.
    #[cold]
    pub(crate) fn receive_probe(&mut self, host: u32, packet: Packet) {
        let now = self.now;
        let Clocks::Running(clocks) = &mut self.clocks else { return };
        if packet.kind == Kind::ECHO {
            return clocks.came_back(&packet, now);
        }
        let answer = clocks.answer(packet, now);
        self.nics[host as usize].agent.push_back(answer);
        self.nic_send(host);
    }
}
