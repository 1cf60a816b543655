//! Opens flows when they arrive, and the channels of programs before the load.

use super::desk::Desk;
use super::run::CellBox;
use super::ways::Followed;
use crate::host::programs::{Heard, Stream};
use crate::host::tcp::{Direction, Pair};
use crate::host::{self, Opening};
use crate::measure::{FlowStart, LongFlow, Observer};
use crate::network::feedback::Feedback;
use crate::network::packet::TCP;
use crate::scenario::Section;
use onramp_config::units::Ps;
use onramp_workload::arrivals::Arrival;
use onramp_workload::{Channel, NewFlow, Placed, Size};
use std::collections::{BTreeSet, HashMap};

impl Desk {
    /// Opens the flows that start before `end`.
    pub(super) fn open<F: Feedback>(&mut self, cells: &mut [CellBox<F>], end: Ps, observer: &mut dyn Observer) {
        while let Some(arrival) = self.arrivals.next_before(end.saturating_sub(self.load_at)) {
            self.open_one(cells, &arrival, observer);
        }
    }

    fn open_one<F: Feedback>(&mut self, cells: &mut [CellBox<F>], arrival: &Arrival, observer: &mut dyn Observer) {
        let Arrival { at, mut flow, id, number, hashes } = *arrival;
        let start = self.load_at + at;
        match &mut flow.size {
            Size::Bytes(bytes) => self.bytes += *bytes as f64,
            Size::Until(stop) => {
                *stop += self.load_at;
                self.endless = true;
            }
        }
        let measured = start >= self.origin;
        self.alive += 1;
        self.started += u64::from(measured);
        if self.next_sample == Ps::MAX && measured {
            let interval = self.recorder.interval();
            self.next_sample = self.origin + ((start - self.origin) / interval + 1) * interval;
        }
        let part = flow.request.filter(|_| measured);
        let request = part.map(|part| self.recorder.request(&flow, part, start - self.origin));
        if measured {
            let bytes = match flow.size {
                Size::Bytes(bytes) => Some(bytes),
                Size::Until(_) => None,
            };
            let NewFlow { src, dst, traffic, .. } = flow;
            let start_ps = start - self.origin;
            observer.flow_started(&FlowStart { id, traffic, request, src, dst, bytes, start_ps });
        }
        let Section { transport, class } = self.sections[flow.traffic as usize];
        let terms = self.policies[flow.traffic as usize].terms(number);
        let new = Opening { flow, id, start, hashes, class, transport, request, terms };
        let watch = self.recorder.watched_owd(flow.src, flow.dst);
        if self.follows && self.traced.contains(&id) {
            self.follow(cells, &new);
        }
        let nic = |host, to, hash| self.map.nic_towards(&self.topology, host, to, hash);
        let (from, to) = (self.map.of(flow.src), self.map.of(flow.dst));
        if self.is_tcp[usize::from(transport)] {
            return self.open_on_tcp(cells, &new, watch);
        }
        let receiver = cells[to].hosts.open_receiver(&new, nic(flow.dst, flow.src, hashes[1]), watch);
        let sender = cells[from].hosts.open_sender(&new, nic(flow.src, flow.dst, hashes[0]), receiver);
        cells[to].hosts.introduce(receiver, sender);
        cells[from].events.timer(start, host::Timer::Start(id, sender));
        if !self.traced.is_empty() {
            self.edge(cells, &new, (sender, receiver));
        }
        if let Some(followed) = self.followed.last_mut().filter(|followed| followed.id == id) {
            followed.slots = Some((sender, receiver));
        }
        if let Size::Until(stop) = flow.size {
            let long = LongFlow { id, sender: (flow.src, sender), receiver: (flow.dst, receiver) };
            self.watch_flow(long, flow.traffic, start, stop);
        }
    }

    /// Starts recording a long flow; one that stops before time 0 has nothing to record.
    fn watch_flow(&mut self, flow: LongFlow, traffic: u32, start: Ps, stop: Ps) {
        if let Some(stop) = stop.checked_sub(self.origin) {
            let span = (start.saturating_sub(self.origin), stop);
            self.recorder.watch_flow(flow, traffic, span, &self.topology);
        }
    }

    /// Keeps the packets of a flow's hosts until it is done.
    fn follow<F: Feedback>(&mut self, cells: &mut [CellBox<F>], new: &Opening) {
        let NewFlow { src, dst, size, .. } = new.flow;
        let bytes = if let Size::Bytes(bytes) = size { Some(bytes) } else { None };
        self.followed.push(Followed { id: new.id, src, dst, bytes, start: new.start, end: None, slots: None });
        cells.iter_mut().for_each(|cell| [src, dst].iter().for_each(|host| cell.network.follow(*host, true)));
    }

    /// A flow that starts on one of its pair's connections, which are opened with the pair's first flow.
    fn open_on_tcp<F: Feedback>(&mut self, cells: &mut [CellBox<F>], new: &Opening, watch: Option<u32>) {
        let (src, dst) = (new.flow.src, new.flow.dst);
        let (from, to) = (self.map.of(src), self.map.of(dst));
        let nic = |host, other, hash| self.map.nic_towards(&self.topology, host, other, hash);
        let (out, back) = (nic(src, dst, new.hashes[0]), nic(dst, src, new.hashes[1]));
        let pair = Pair { src, dst, transport: new.transport, class: new.class };
        if !cells[from].hosts.tcp().knows(pair) {
            for number in 0..self.connections.get(&(src, dst)).copied().unwrap_or(1) as u64 {
                let end = cells[to].hosts.tcp().open_end(pair, number, back, watch);
                let connection = cells[from].hosts.tcp().open_connection(pair, number, out, end, 0);
                cells[to].hosts.tcp().introduce(end, connection);
            }
        }
        let slot = cells[from].hosts.tcp().open_flow(new, out);
        cells[from].events.timer(new.start, host::Timer::Start(new.id, slot));
        if self.traced.contains(&new.id) {
            for cell in BTreeSet::from([from, to]) {
                cells[cell].hosts.trace_pair(src, dst, new.start);
            }
        }
        if let Size::Until(stop) = new.flow.size {
            let long = LongFlow { id: new.id, sender: (src, slot), receiver: (dst, slot) };
            self.watch_flow(long, new.flow.traffic, new.start, stop);
        }
    }

    /// Places programs and opens their channels.
    pub(super) fn open_programs<F: Feedback>(
        &mut self,
        cells: &mut [CellBox<F>],
        programs: Vec<Placed>,
        channels: &[Channel],
    ) {
        self.programs = programs.len();
        if self.origin == 0 && self.programs > 0 {
            self.next_sample = self.recorder.interval();
        }
        // What some programs send is known; others go on for a time.
        let known: Option<u64> = programs.iter().map(|placed| placed.program.bytes()).sum();
        self.bytes += known.unwrap_or_default() as f64;
        self.endless |= known.is_none();
        let place = |placed: Placed| {
            let (host, cell) = (placed.host, self.map.of(placed.host));
            (host, cells[cell].hosts.place(placed, self.load_at))
        };
        let places: Vec<(u32, u32)> = programs.into_iter().map(place).collect();
        let mut numbers: HashMap<(u32, u32), u64> = HashMap::new();
        for (id, channel) in (0..).zip(channels) {
            let [(a, _), (b, _)] = channel.ends.map(|end| places[end]);
            // Both ways count for both directions of the pair.
            let number = numbers.entry((a.min(b), a.max(b))).or_default();
            let ways = [[0, 1], [1, 0]].into_iter().take(if channel.one_way { 1 } else { 2 });
            let opened: Vec<(u32, u32)> = ways
                .map(|[from, to]| {
                    let ends = [from, to].map(|end| (places[channel.ends[end]], channel.numbers[end]));
                    self.open_direction(cells, channel, ends, *number, id * 2 + from as u64)
                })
                .collect();
            let Section { transport, .. } = self.sections[channel.traffic as usize];
            if let [(sender, end), (other_sender, other_end)] = opened[..]
                && self.is_tcp[usize::from(transport)]
            {
                let hosts = channel.ends.map(|end| places[end].0);
                for (host, sender, end) in [(hosts[0], sender, other_end), (hosts[1], other_sender, end)] {
                    cells[self.map.of(host)].hosts.tcp().join_directions(sender, end);
                }
            }
            *number += 1;
        }
        for (host, at) in places {
            let cell = &mut cells[self.map.of(host)];
            if let Some((at, timer)) = cell.hosts.first_due(at) {
                cell.events.timer(at, timer);
            }
        }
    }

    /// Opens a channel's direction from the program at one end to that at the other, each with its host and slot, and
    /// the channel's number there; the slots of its sending end and of its receiving one.
    fn open_direction<F: Feedback>(
        &self,
        cells: &mut [CellBox<F>],
        channel: &Channel,
        [((src, said_by), said_on), ((dst, heard_by), heard_on)]: [((u32, u32), u32); 2],
        number: u64,
        id: u64,
    ) -> (u32, u32) {
        let Section { transport, class } = self.sections[channel.traffic as usize];
        let stream = Stream::default();
        let heard = Heard {
            stream: stream.clone(),
            program: heard_by,
            channel: heard_on,
            traffic: channel.traffic,
            hosts: [src, dst],
        };
        let watch = self.recorder.watched_owd(src, dst);
        let (from, to) = (self.map.of(src), self.map.of(dst));
        let nic = |host, other, hash| self.map.nic_towards(&self.topology, host, other, hash);
        let (sender, end) = if self.is_tcp[usize::from(transport)] {
            let pair = Pair { src, dst, transport, class };
            let direction = Direction { pair, number, medium: channel.medium };
            let end = cells[to].hosts.tcp().open_channel_end(direction, nic(dst, src, 0), watch, heard);
            let sender = cells[from].hosts.tcp().open_channel(direction, nic(src, dst, 0), end);
            cells[to].hosts.tcp().introduce(end, sender & !TCP);
            (sender, end)
        } else {
            let flow = NewFlow { src, dst, size: Size::Until(Ps::MAX), traffic: channel.traffic, request: None };
            let mut draw = onramp_random::stream(self.span.seed, "channel", id);
            let hashes = [0, 0].map(|_| onramp_random::below(&mut draw, 1 << 16) as u16);
            let terms = self.policies[channel.traffic as usize].terms(id);
            // After all flows that arrive.
            let id = 1 << 63 | id;
            let new = Opening { flow, id, start: self.load_at, hashes, class, transport, request: None, terms };
            let end = cells[to].hosts.open_channel_end(&new, nic(dst, src, hashes[1]), watch, heard);
            let sender = cells[from].hosts.open_channel(&new, nic(src, dst, hashes[0]), end);
            cells[to].hosts.introduce(end, sender);
            cells[from].events.timer(new.start, host::Timer::Start(id, sender));
            (sender, end)
        };
        cells[from].hosts.connect(said_by, said_on, sender, stream);
        (sender, end)
    }
}
