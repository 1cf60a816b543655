//! Probes as packets: of the data class, through the host's NIC and the loaded
//! network, stamped where data is. A host answers at once.

use super::Tick;
use super::ntp;
use super::running::{Method, Running};
use crate::network::{Kind, Packet};
use onramp_clock::Exchange;
use onramp_config::units::{NS, Ps, SEC};
use onramp_records::ClockRecord;
use onramp_records::counters::ClockCounters;

/// Bytes of a probe as an Ethernet frame without FCS, as OR-ACKs are counted:
/// 14, 20, 8, and the payload.
const WIRE: u16 = 42 + onramp_core::orprobe::LEN as u16;

/// How often the clocks' errors are looked at while flows arrive.
const SAMPLES: Ps = 100;

/// When flows arrive and are measured, in picoseconds of the engine's time.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    /// Time 0 of the scenario.
    pub origin: Ps,
    /// How long from there.
    pub duration: Ps,
}

/// Events and packets that the clocks ask for.
#[derive(Debug)]
pub struct Actions<H> {
    /// Ticks that become due.
    pub ticks: Vec<(Ps, Tick)>,
    /// A packet to send, and the host that sends it.
    pub send: Option<(u32, Packet<H>)>,
}

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

impl Running {
    /// Samples of the clocks' errors since the last call.
    pub fn take_records(&mut self) -> Vec<ClockRecord> {
        self.accuracy.take_records()
    }

    /// First events, and their times.
    pub fn first_ticks(&self, seed: u64) -> Vec<(Ps, Tick)> {
        match &self.method {
            Method::Huygens(huygens) => huygens.first_ticks(),
            Method::Ntp(clients) => {
                let mut random = onramp_random::stream(seed, "polls", 0);
                let mut first = |host| {
                    let interval = clients[host as usize].poll_interval() as f64;
                    ((interval * onramp_random::uniform(&mut random)) as Ps * NS, Tick::Poll(host))
                };
                (1..clients.len() as u32).map(&mut first).collect()
            }
        }
    }

    /// A probe or an answer leaves its host.
    #[cold]
    pub fn leaves<H>(&mut self, packet: &Packet<H>, now: Ps) {
        self.probe_bytes += u64::from(packet.size);
        let trip = &mut self.under_way[packet.flow];
        if packet.kind() == Kind::PROBE {
            trip.sent = self.hosts[trip.asker as usize].stamp_departure(now);
        } else {
            trip.returned = self.hosts[trip.asked as usize].stamp_departure(now);
        }
    }

    /// A probe reaches the asked host: the answer.
    fn answer<H: Copy>(&mut self, packet: &Packet<H>, now: Ps) -> Packet<H> {
        let trip = &mut self.under_way[packet.flow];
        trip.received = self.hosts[trip.asked as usize].stamp_arrival(now);
        Packet { hash: trip.hash[1], ..*packet }.as_a(Kind::ECHO).to(trip.asker).marked(0, packet.class())
    }

    /// An answer has come back.
    fn came_back<H>(&mut self, packet: &Packet<H>, now: Ps) {
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
    pub fn lost<H>(&mut self, packet: &Packet<H>) {
        self.under_way.remove(packet.flow);
    }

    /// A probe to send now, as a packet of the first data class.
    fn probe<H: Copy + Default>(&mut self, trip: RoundTrip, size: u16) -> Packet<H> {
        let flow = self.under_way.insert(trip);
        let packet = Packet { flow, size, hash: trip.hash[0], ..Packet::default() };
        packet.as_a(Kind::PROBE).to(trip.asked).marked(0, 1)
    }

    fn probe_of<H: Copy + Default>(&mut self, edge: u32, pair: u32, second: bool) -> Option<(u32, Packet<H>)> {
        let Method::Huygens(huygens) = &self.method else { return None };
        let probed = huygens.edge(edge);
        let (asker, asked, hash) = (probed.from, probed.to, probed.hash);
        let trip = RoundTrip { asker, asked, hash, edge, pair, second, sent: 0, received: 0, returned: 0 };
        Some((asker, self.probe(trip, WIRE)))
    }

    /// Accuracy since time 0, cost since the start.
    pub fn summary(&self, now: Ps, line_bits_per_s: f64) -> ClockCounters {
        let (error_ns, uncertainty_ns) = self.accuracy.summary();
        let could = line_bits_per_s * now.max(1) as f64 / SEC as f64;
        let windows = match &self.method {
            Method::Huygens(huygens) => Some(huygens.windows),
            Method::Ntp(_) => None,
        };
        let probe_share = self.probe_bytes as f64 * 8.0 / could;
        ClockCounters { error_ns, uncertainty_ns, probe_share, windows, ..ClockCounters::default() }
    }

    /// Events that are due when synchronisation begins.
    pub fn begin(&self, seed: u64, span: Span) -> Vec<(Ps, Tick)> {
        let mut ticks = self.first_ticks(seed);
        ticks.push((span.origin, Tick::Sample));
        ticks
    }

    /// Something is due.
    #[cold]
    pub fn tick<H: Copy + Default>(&mut self, tick: Tick, now: Ps, span: Span) -> Actions<H> {
        let mut ticks: Vec<(Ps, Tick)> = Vec::new();
        let mut send = None;
        match (tick, &mut self.method) {
            (Tick::First(edge), Method::Huygens(huygens)) => {
                let (pair, due) = huygens.begin_pair(edge, now);
                ticks.extend(due);
                send = self.probe_of(edge, pair, false);
            }
            (Tick::Second(edge), Method::Huygens(huygens)) => {
                let pair = huygens.pair(edge);
                send = self.probe_of(edge, pair, true);
            }
            (Tick::Window, Method::Huygens(huygens)) => ticks.extend(huygens.close_window(&self.hosts, now)),
            (Tick::Correct, Method::Huygens(huygens)) => {
                self.noise = huygens.correct(&mut self.hosts);
                self.epoch += 1;
            }
            (Tick::Poll(host), Method::Ntp(clients)) => {
                ticks.push((now + clients[host as usize].poll_interval() * NS, tick));
                let hash = [host as u16, !(host as u16)];
                let (edge, pair, second) = (0, 0, false);
                let trip =
                    RoundTrip { asker: host, asked: 0, hash, edge, pair, second, sent: 0, received: 0, returned: 0 };
                send = Some((host, self.probe(trip, ntp::WIRE)));
            }
            (Tick::Sample, _) => {
                let known = (0..).zip(&mut self.hosts);
                let known = known.filter_map(|(host, clock)| Some((host, clock.error(now)?, clock.uncertainty(now)?)));
                self.accuracy.sample(&known.collect::<Vec<_>>(), now - span.origin);
                let interval = (span.duration / SAMPLES).max(NS);
                if now + interval <= span.origin + span.duration {
                    ticks.push((now + interval, tick));
                }
            }
            _ => unreachable!("a tick of the other method"),
        }
        Actions { ticks, send }
    }

    /// A probe or an answer has reached its host: what that host sends back.
    #[cold]
    pub fn receive<H: Copy>(&mut self, packet: &Packet<H>, now: Ps) -> Option<Packet<H>> {
        if packet.kind() == Kind::ECHO {
            self.came_back(packet, now);
            return None;
        }
        Some(self.answer(packet, now))
    }
}
