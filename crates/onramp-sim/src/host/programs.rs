//! Programs at the hosts of a cell: what a message's arrival, or a time, has them do, on TCP and on RDMA.
//!
//! Packets carry numbers of bytes, not the bytes. What a channel's direction says, its two ends know from a list that
//! they share: nobody looks at a message before its last byte has arrived.

use super::nic::Nic;
use super::{Hosts, Io, Timer};
use crate::network::feedback::{Feedback, Header};
use crate::network::packet::TCP;
use onramp_config::units::Ps;
use onramp_records::{ExchangeRecord, MessageRecord, OperationRecord};
use onramp_workload::program::Repetitions;
use onramp_workload::state::Encoder;
use onramp_workload::{Actions, Message, Placed, Program};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The messages of one direction of a channel that have not been read.
#[derive(Debug, Default)]
struct Unread {
    /// Where each ends: before this byte of a connection's stream (TCP), or this packet of a flow (RDMA).
    messages: VecDeque<(u64, Message)>,
    /// When each was handed over, where messages are recorded.
    starts: VecDeque<Ps>,
}

/// The messages of one direction of a channel that have not been read, which its two ends share.
#[derive(Clone, Debug, Default)]
pub struct Stream(Arc<Mutex<Unread>>);

impl Stream {
    fn unread(&self) -> MutexGuard<'_, Unread> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message that ends before `end`, handed over at `start` if that is recorded.
    fn push(&self, end: u64, message: Message, start: Option<Ps>) {
        let mut unread = self.unread();
        unread.messages.push_back((end, message));
        unread.starts.extend(start);
    }

    /// Takes the first one, if all of it is before `read`, and when it was handed over.
    fn take(&self, read: u64) -> Option<(Message, Option<Ps>)> {
        let mut unread = self.unread();
        unread.messages.front().filter(|(end, _)| *end <= read)?;
        let start = unread.starts.pop_front();
        unread.messages.pop_front().map(|(_, message)| (message, start))
    }

    /// End of the first one.
    pub fn next_end(&self) -> Option<u64> {
        self.unread().messages.front().map(|(end, _)| *end)
    }
}

/// Reader of a receiving end.
#[derive(Clone, Debug)]
pub struct Heard {
    /// Messages of the receiving end.
    pub stream: Stream,
    /// The slot of the program, and the channel's number there.
    pub program: u32,
    /// See `program`.
    pub channel: u32,
    /// Index of the section in the scenario's traffic list.
    pub traffic: u32,
    /// Sending and receiving host.
    pub hosts: [u32; 2],
}

/// Sending end of a program's channel.
#[derive(Clone, Debug)]
struct Said {
    /// Slot of the sending end; of TCP's with [`TCP`] set.
    sender: u32,
    stream: Stream,
}

#[derive(Debug)]
struct Running {
    id: u64,
    program: Box<dyn Program>,
    /// By number of the channel.
    channels: Vec<Option<Said>>,
    /// Time of its next valid wake-up.
    armed: Option<Ps>,
    /// It is over, which was counted.
    over: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Programs {
    all: Vec<Running>,
    /// The load begins at this time of the engine.
    zero: Ps,
    /// Readers of RDMA's receiving ends, by slot.
    heard: Vec<Option<Heard>>,
    /// Actions of the program that was called last.
    actions: Actions,
    /// Sending ends with something new.
    written: Vec<u32>,
    /// Exchanges that are complete, and when, until they are taken; times are the engine's.
    records: Vec<(Ps, ExchangeRecord)>,
    operations: Vec<OperationRecord>,
    /// Messages that have come, in this order, until they are taken, where they are recorded; times are the engine's.
    messages: Option<Vec<MessageRecord>>,
    over: usize,
}

impl Programs {
    fn running(&mut self, at: u32) -> &mut Running {
        &mut self.all[at as usize]
    }

    /// Takes down the programs' states; it is busy while messages are under way.
    fn encode(&self, state: &mut Encoder) {
        let Self { all, zero, heard: _, actions: _, written, records, operations, messages, over } = self;
        if messages.is_some() {
            state.refuse("messages are recorded over time (measure.messages)");
        }
        if !written.is_empty() || !records.is_empty() || !operations.is_empty() {
            state.busy();
        }
        state.word(*over as u64);
        for Running { id: _, program, channels, armed, over: _ } in all {
            if channels.iter().flatten().any(|said| said.stream.next_end().is_some()) {
                state.busy();
            }
            if state.is_over() {
                return;
            }
            state.word(armed.map_or(u64::MAX, |at| at.wrapping_sub(state.now())));
            program.encode(state.now().saturating_sub(*zero), state);
        }
    }

    fn look_whether_over(&mut self, at: u32) {
        let running = self.running(at);
        if !running.over && running.program.is_over() {
            running.over = true;
            self.over += 1;
        }
    }
}

impl<H: Header> Hosts<H> {
    /// Places a program, where the load begins at `zero`; its slot.
    pub fn place(&mut self, placed: Placed, zero: Ps) -> u32 {
        let programs = self.programs.get_or_insert_default();
        programs.zero = zero;
        let Placed { id, program, .. } = placed;
        programs.all.push(Running { id, program, channels: Vec::new(), armed: None, over: false });
        let at = programs.all.len() as u32 - 1;
        programs.look_whether_over(at);
        at
    }

    /// Has the program in slot `at` send on a channel by a sending end.
    pub fn connect(&mut self, at: u32, channel: u32, sender: u32, stream: Stream) {
        let channels = &mut self.programs().running(at).channels;
        channels.resize(channels.len().max(channel as usize + 1), None);
        channels[channel as usize] = Some(Said { sender, stream });
    }

    /// Has a program read what a receiving end of RDMA gets.
    pub(super) fn hear(&mut self, receiver: u32, heard: Heard) {
        let all = &mut self.programs().heard;
        all.resize(all.len().max(receiver as usize + 1), None);
        all[receiver as usize] = Some(heard);
    }

    /// Time and timer of a program's first wake-up; `None` if it waits for messages.
    pub fn first_due(&mut self, at: u32) -> Option<(Ps, Timer)> {
        let programs = self.programs();
        let zero = programs.zero;
        let running = programs.running(at);
        let due = running.program.wake()?.saturating_add(zero);
        running.armed = Some(due);
        Some((due, Timer::Program(running.id, at)))
    }

    /// Programs that begin nothing more and wait for nothing.
    pub fn programs_over(&self) -> usize {
        self.programs.as_ref().map_or(0, |programs| programs.over)
    }

    /// Takes down programs' states.
    pub(super) fn encode_programs(&self, state: &mut Encoder) {
        self.programs.iter().for_each(|programs| programs.encode(state));
    }

    /// When the next program or NIC is due, if nothing else happens before; `Ps::MAX` for never.
    pub fn next_due(&self) -> Ps {
        let programs = self.programs.iter().flat_map(|programs| &programs.all).filter_map(|running| running.armed);
        programs.chain(self.nics.iter().map(Nic::wake_at)).min().unwrap_or(Ps::MAX)
    }

    /// Numbers of programs, and their repetitions.
    pub fn repetitions(&self) -> impl Iterator<Item = (u64, Repetitions)> {
        let all = self.programs.iter().flat_map(|programs| &programs.all);
        all.map(|running| (running.id, running.program.repetitions()))
    }

    /// Has programs go on as if they had done more repetitions, as many as `more` tells of each.
    pub fn skip(&mut self, more: impl Fn(u64) -> u32) {
        for running in self.programs.iter_mut().flat_map(|programs| &mut programs.all) {
            running.program.skip(more(running.id));
        }
    }

    /// Exchanges that are not complete.
    pub fn exchanges_open(&self) -> u64 {
        self.programs.iter().flat_map(|programs| &programs.all).map(|running| running.program.open()).sum()
    }

    /// Adds exchanges that are complete, and when they were, to `all`.
    pub fn take_exchanges(&mut self, all: &mut Vec<(Ps, ExchangeRecord)>) {
        if let Some(programs) = &mut self.programs {
            all.append(&mut programs.records);
        }
    }

    /// Adds operations that are complete to `all`; their times are the engine's.
    pub fn take_operations(&mut self, all: &mut Vec<OperationRecord>) {
        if let Some(programs) = &mut self.programs {
            all.append(&mut programs.operations);
        }
    }

    /// Records each message from now on.
    pub fn record_messages(&mut self) {
        if let Some(programs) = &mut self.programs {
            programs.messages = Some(Vec::new());
        }
    }

    /// Messages that have come since the last call; none unless they are recorded. Times are the engine's.
    pub fn take_messages(&mut self) -> Vec<MessageRecord> {
        self.programs.as_mut().and_then(|programs| programs.messages.as_mut()).map(std::mem::take).unwrap_or_default()
    }

    fn programs(&mut self) -> &mut Programs {
        self.programs.as_mut().expect("there are programs")
    }

    /// A program's time has come.
    pub fn program_due<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, at: u32) {
        let running = self.programs().running(at);
        if running.armed == Some(io.now) {
            running.armed = None;
            self.proceed(io, at);
            self.pump_written(io, None);
        }
    }

    /// A receiving end of RDMA has all packets before `read`, the last of which ends a message.
    #[cold]
    pub(super) fn packets_read<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, receiver: u32, read: u64) {
        let heard = self.programs.as_ref().and_then(|programs| programs.heard.get(receiver as usize)?.clone());
        if let Some(heard) = heard {
            self.messages_came(io, &heard, read, None);
        }
    }

    /// Delivers the messages that end before `read`. The NIC `later` is about to send anyway.
    pub(super) fn messages_came<F: Feedback<Header = H>>(
        &mut self,
        io: &mut Io<'_, F>,
        heard: &Heard,
        read: u64,
        later: Option<u32>,
    ) {
        let mut any = false;
        while let Some((message, start)) = heard.stream.take(read) {
            any = true;
            let programs = self.programs();
            if let (Some(start_ps), Some(messages)) = (start, &mut programs.messages) {
                let [src, dst] = heard.hosts;
                messages.push(MessageRecord {
                    traffic: heard.traffic,
                    collective: message.collective(),
                    src,
                    dst,
                    bytes: message.bytes,
                    start_ps,
                    duration_ps: io.now - start_ps,
                });
            }
            let now = io.now - programs.zero;
            let Programs { all, actions, .. } = programs;
            all[heard.program as usize].program.received(now, heard.channel, message, actions);
            self.act(io, heard.program);
        }
        if any {
            self.proceed(io, heard.program);
            self.pump_written(io, later);
        }
    }

    /// Has a program do what is due, and sees to it that it is woken for the next.
    fn proceed<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, at: u32) {
        let Programs { all, zero, actions, .. } = self.programs();
        let zero = *zero;
        all[at as usize].program.proceed(io.now - zero, actions);
        self.act(io, at);
        let programs = self.programs();
        let running = programs.running(at);
        if let Some(due) = running.program.wake().map(|wake| wake.saturating_add(zero))
            && running.armed.is_none_or(|armed| due < armed)
        {
            running.armed = Some(due);
            io.events.timer(due, Timer::Program(running.id, at));
        }
        programs.look_whether_over(at);
    }

    /// Does what a program wants.
    fn act<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, at: u32) {
        let programs = self.programs();
        let mut actions = std::mem::take(&mut programs.actions);
        let zero = programs.zero;
        let done = |record: ExchangeRecord| (io.now, ExchangeRecord { start_ps: record.start_ps + zero, ..record });
        programs.records.extend(actions.records.drain(..).map(done));
        let done = |record: OperationRecord| OperationRecord { start_ps: record.start_ps + zero, ..record };
        programs.operations.extend(actions.operations.drain(..).map(done));
        for (channel, message) in actions.sends.drain(..) {
            let said = self.programs().running(at).channels[channel as usize].clone().expect("the channel is there");
            let end = if said.sender & TCP != 0 {
                self.tcp().write_message(io.now, said.sender, message.bytes)
            } else {
                self.write_message(said.sender, message.bytes)
            };
            let Programs { written, messages, .. } = self.programs();
            said.stream.push(end, message, messages.as_ref().map(|_| io.now));
            if !written.contains(&said.sender) {
                written.push(said.sender);
            }
        }
        self.programs().actions = actions;
    }

    /// Sends what is written, if it may leave; the NIC `later` does so by itself.
    fn pump_written<F: Feedback<Header = H>>(&mut self, io: &mut Io<'_, F>, later: Option<u32>) {
        let mut written = std::mem::take(&mut self.programs().written);
        let mut nics: Vec<u32> = Vec::new();
        for sender in written.drain(..) {
            let nic =
                if sender & TCP != 0 { self.tcp().pump_channel(io, sender) } else { self.line_up_messages(io, sender) };
            if Some(nic) != later && !nics.contains(&nic) {
                nics.push(nic);
            }
        }
        self.programs().written = written;
        for nic in nics {
            self.nic_send(io, nic);
        }
    }
}
