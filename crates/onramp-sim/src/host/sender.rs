//! The sending end of a flow: go-back-N, pacing, window, timeout.

use super::flow::{Flow, NewFlow, Size};
use crate::events::Timer;
use crate::measure::FlowRecord;
use crate::network::int::IntStack;
use crate::network::packet::{AFTER_TIMEOUT, MARKED, UNMEASURED, unwrap_ns};
use crate::network::{Kind, Packet};
use crate::random;
use crate::sim::Simulation;
use crate::transport::Ack;
use crate::units::{NS, Ps, SEC};

/// Timeouts double at most this often.
const MAX_BACKOFF: u32 = 6;
/// The timeouts of all flows are looked at this often per timeout.
const TIMEOUT_CHECKS: u64 = 4;

impl Simulation {
    /// A flow arrives.
    pub(crate) fn start_flow(&mut self, new: NewFlow) -> u32 {
        let id = self.flow_count;
        self.flow_count += 1;
        let payload = self.payload;
        let (bytes, packets, last_size) = match new.size {
            Size::Bytes(bytes) => {
                let packets = bytes.div_ceil(payload);
                (bytes, packets as u32, bytes - (packets - 1) * payload + self.header)
            }
            Size::Until(_) => (0, u32::MAX, payload + self.header),
        };
        let mut hashes = random::stream(0, "ecmp", id);
        let mut hash = || random::below(&mut hashes, 1 << 16) as u16;
        let flow = Flow {
            acked: 0,
            next: 0,
            packets,
            sent: 0,
            full_size: (payload + self.header) as u16,
            last_size: last_size as u16,
            spaced_size: 0,
            spaced_at: 0,
            t_next: self.now,
            wake: Ps::MAX,
            ready: false,
            done: false,
            watch_owd: self.measure.watched_owd(new.src, new.dst),
            under_way: 0,
            src: new.src,
            dst: new.dst,
            hash: hash(),
            ack_hash: hash(),
            cc: self.transport.start(&self.envs[new.src as usize]),
            expected: 0,
            nacked: u32::MAX,
            nacked_at: 0,
            received_at: self.now,
            since_or_ack: 0,
            id,
            start: self.now,
            traffic: new.traffic,
            request: new.request.map(|part| self.measure.request(&new, part, self.now)),
            bytes,
            progress_at: self.now,
            retransmitted: 0,
            timeouts: 0,
            backoff: 0,
        };
        let slot = self.flows.insert(flow);
        self.alive += 1;
        if let Some(edge) = &mut self.edge {
            edge.open(slot, new.src, new.dst, self.now);
        }
        if let Some(next) = &mut self.measure.next {
            next.open(slot);
        }
        if let Size::Until(stop) = new.size {
            let stop = self.origin + stop;
            self.measure.watch_rate(slot, id, &self.topology, new.src, new.dst);
            self.events.timer(stop, Timer::Stop(slot));
        }
        if !self.timeouts_armed {
            self.timeouts_armed = true;
            self.events.timer(self.now + self.rto / TIMEOUT_CHECKS, Timer::Timeouts);
        }
        self.activate(slot);
        slot
    }

    /// When the flow may send its next packet; `None` if it waits for something
    /// else than time.
    #[inline]
    pub(crate) fn release_time(&mut self, slot: u32) -> Option<Ps> {
        let flow = &mut self.flows[slot];
        if flow.next >= flow.packets {
            return None;
        }
        if let Some(max_window) = self.max_window {
            // W = W_max · R / R_line, at least one byte (VAR_WIN).
            let env = &self.envs[flow.src as usize];
            let share = flow.cc.rate(&self.transport, env, self.now) / env.line_rate;
            let window = ((max_window * share) as u64).max(1);
            if u64::from(flow.next - flow.acked) * self.payload >= window {
                return None;
            }
        }
        let at = flow.t_next;
        Some(match &self.edge {
            Some(edge) => edge.release(slot, at),
            None => at,
        })
    }

    /// Sends the flow's next packet now.
    pub(crate) fn send_packet(&mut self, port: u32, slot: u32) {
        let now = self.now;
        let stamp = self.edge.as_mut().map_or(0, |edge| edge.stamp(slot, now));
        let aux = if self.int_units.is_some() { self.int.insert((IntStack::default(), stamp)) } else { stamp };
        let flow = &mut self.flows[slot];
        let (seq, size) = (flow.next, flow.size_of(flow.next));
        if seq == flow.acked {
            // Nothing was under way: the timeout counts from here, however long
            // the flow has waited for its turn.
            flow.progress_at = now;
        }
        flow.next += 1;
        flow.under_way += 1;
        if seq < flow.sent {
            flow.retransmitted += 1;
            self.retransmitted += 1;
        }
        flow.sent = flow.sent.max(flow.next);
        let rate = flow.cc.rate(&self.transport, &self.envs[flow.src as usize], now);
        flow.spaced_size = size;
        flow.spaced_at = now;
        flow.t_next = now + spacing(size, rate);
        let packet = Packet {
            sent_ns: (now / NS) as u32,
            flow: slot,
            seq,
            aux,
            owd_ns: 0,
            dst: flow.dst as u16,
            link: 0,
            size,
            hash: flow.hash,
            kind: Kind::DATA,
            flags: if flow.backoff > 0 { AFTER_TIMEOUT } else { 0 },
        };
        let host = flow.src;
        if let Some(next) = &mut self.measure.next {
            next.leaves(&packet, host, now);
        }
        self.start(port, packet);
        let link_free = now + self.ports[port as usize].time_for(size);
        self.line_up(host, slot, link_free);
    }

    /// An ACK, NACK or OR-ACK has reached the sender.
    pub(crate) fn acknowledged(&mut self, packet: &Packet) {
        let (slot, now) = (packet.flow, self.now);
        let sent_ns = unwrap_ns(now / NS, packet.sent_ns);
        let int_on = self.int_units.is_some() && packet.kind != Kind::OR_ACK;
        let stamp = if int_on { self.int[packet.aux].1 } else { packet.aux };
        let flow = &mut self.flows[slot];
        let finished = flow.done;
        if (packet.kind == Kind::OR_ACK || !self.separate_or_acks)
            && let Some(edge) = &mut self.edge
        {
            // Without a delay or a margin the gate stays open.
            let margin = if packet.owd_ns == UNMEASURED { None } else { self.clocks.margin(flow.src, flow.dst, now) };
            if let Some(margin) = margin {
                edge.learn(slot, now, packet.owd_ns, margin);
                if !finished {
                    edge.acked(slot, now, sent_ns, stamp, packet.owd_ns);
                }
            }
        }
        if packet.kind != Kind::OR_ACK
            && let Some(next) = &mut self.measure.next
        {
            next.acked(packet, now / NS - sent_ns);
        }
        if !finished && packet.kind != Kind::OR_ACK {
            if packet.seq > flow.acked {
                flow.acked = packet.seq;
                flow.progress_at = now;
                flow.backoff = 0;
            }
            if packet.kind == Kind::NACK {
                flow.next = flow.acked;
            }
            flow.next = flow.next.max(flow.acked);
            let empty = IntStack::default();
            let ack = Ack {
                now,
                rtt: (now / NS - sent_ns) * NS,
                ecn: packet.flags & MARKED != 0,
                acked: u64::from(packet.seq),
                next: u64::from(flow.next),
                int: if int_on { &self.int[packet.aux].0 } else { &empty },
            };
            flow.cc.on_ack(&self.transport, &self.envs[flow.src as usize], &ack);
            if self.respace && flow.spaced_size > 0 {
                let rate = flow.cc.rate(&self.transport, &self.envs[flow.src as usize], now);
                flow.t_next = flow.spaced_at + spacing(flow.spaced_size, rate);
            }
        }
        if int_on {
            self.int.remove(packet.aux);
        }
        if finished {
            return;
        }
        if self.flows[slot].acked >= self.flows[slot].packets {
            self.finish(slot);
        } else {
            self.activate(slot);
        }
    }

    /// All packets are acknowledged.
    fn finish(&mut self, slot: u32) {
        let record = self.record(slot);
        let flow = &mut self.flows[slot];
        flow.done = true;
        // A void entry may remain in the pacer.
        flow.wake = Ps::MAX;
        self.alive -= 1;
        self.finished += 1;
        if let Some(edge) = &mut self.edge {
            edge.paused += record.paused_ps;
        }
        self.measure.flow_done(record);
    }

    /// What is known of a flow now.
    pub(crate) fn record(&self, slot: u32) -> FlowRecord {
        let flow = &self.flows[slot];
        FlowRecord {
            id: flow.id,
            traffic: flow.traffic,
            request: flow.request,
            src: flow.src,
            dst: flow.dst,
            bytes: flow.bytes,
            start_ps: flow.start - self.origin,
            fct_ps: self.now - flow.start,
            receiver_fct_ps: flow.received_at - flow.start,
            ideal_ps: self.ideal(flow),
            retransmitted: flow.retransmitted,
            timeouts: flow.timeouts,
            paused_ps: self.edge.as_ref().map_or(0, |edge| edge.paused_total(slot, self.now)),
        }
    }

    /// The FCT on an empty network as the HPCC simulator defines it: base RTT
    /// plus the bytes with 48 B of headers per packet over the slowest link.
    fn ideal(&self, flow: &Flow) -> Ps {
        let wire = flow.bytes + 48 * flow.bytes.div_ceil(self.payload);
        let rate = self.topology.bottleneck(flow.src, flow.dst);
        self.topology.base_rtt(flow.src, flow.dst) + rate.time_for(wire)
    }

    /// A long flow is to stop: what was sent is all there is.
    pub(crate) fn stop_flow(&mut self, slot: u32) {
        let payload = self.payload;
        let flow = &mut self.flows[slot];
        flow.packets = flow.sent;
        flow.bytes = u64::from(flow.sent) * payload;
        if flow.acked >= flow.packets {
            self.finish(slot);
            self.flows.reclaim(slot);
        }
    }

    /// Sends again what was lost without a NACK. Checked four times per timeout,
    /// so that no flow needs a timer: a timeout is up to a quarter late (the
    /// InfiniBand specification allows four times).
    pub(crate) fn check_timeouts(&mut self) {
        let due: Vec<u32> = self
            .flows
            .alive()
            .filter(|&slot| {
                let flow = &self.flows[slot];
                flow.next > flow.acked && self.now - flow.progress_at >= self.rto << flow.backoff.min(MAX_BACKOFF)
            })
            .collect();
        for slot in due {
            let flow = &mut self.flows[slot];
            flow.next = flow.acked;
            flow.progress_at = self.now;
            flow.timeouts += 1;
            flow.backoff += 1;
            self.timeouts += 1;
            self.activate(slot);
        }
        self.timeouts_armed = self.alive > 0;
        if self.timeouts_armed {
            self.events.timer(self.now + (self.rto / TIMEOUT_CHECKS).max(1), Timer::Timeouts);
        }
    }
}

/// Time between the starts of two packets at `rate` bits per second.
#[inline]
fn spacing(size: u16, rate: f64) -> Ps {
    (f64::from(size) * 8.0 * SEC as f64 / rate) as Ps
}
