//! Programs at the hosts, and their channels: sockets, and disks by the kernel's NVMe over TCP.

use super::connections::{Connections, Key};
use super::nvme::DRIVE;
use super::{Result, at};
use crate::plan::address;
use crate::sys::{self, Aio, Epoll};
use onramp_config::units::Ps;
use onramp_records::{ExchangeRecord, OperationRecord};
use onramp_workload::storage::{Block, LARGEST};
use onramp_workload::{Actions, Channel as Joined, Medium, Message, PORTION, Placed, Program};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Each channel has a stretch of so many bytes of its drive, and goes round in it.
const STRETCH: u64 = 1 << 30;

/// Carrier of a channel.
#[derive(Debug)]
pub enum On {
    /// The number of a connection.
    Socket(u32),
    /// A disk, and what is asked of it, by place.
    Disk(OwnedFd, Vec<Option<Message>>),
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Direction {
    /// Messages that have not been read, and what is missing of the first one.
    messages: VecDeque<Message>,
    missing: u64,
    /// Bytes that the socket had no room for.
    unsent: u64,
    wake_at: u32,
}

impl Direction {
    /// Writes a message.
    fn say(&mut self, ends: Ends<'_>, message: Message) -> Result<()> {
        self.messages.push_back(message);
        if self.messages.len() == 1 {
            self.expect(ends, message.bytes)?;
        }
        self.unsent += message.bytes;
        self.send(ends)
    }

    fn send(&mut self, ends: Ends<'_>) -> Result<()> {
        while self.unsent > 0 {
            let sent = sys::send_zeros(ends.from, self.unsent).map_err(at("send"))?;
            self.unsent -= sent;
            if sent == 0 {
                break;
            }
        }
        Ok(())
    }

    /// The reader is to be woken when so much has come, or a portion of it.
    fn expect(&mut self, ends: Ends<'_>, bytes: u64) -> Result<()> {
        self.missing = bytes;
        let wake_at = bytes.min(PORTION) as u32;
        if self.wake_at != wake_at {
            self.wake_at = wake_at;
            sys::wake_at(ends.to, wake_at).map_err(at("SO_RCVLOWAT"))?;
        }
        Ok(())
    }

    /// Takes the first message, if all of it has come.
    fn take(&mut self, ends: Ends<'_>) -> Result<Option<Message>> {
        if self.messages.is_empty() {
            return Ok(None);
        }
        let got = sys::discard(ends.to, self.missing).map_err(at("receive"))?;
        let left = self.missing - got.ok_or("a connection was closed")?;
        if left > 0 {
            self.expect(ends, left)?;
            return Ok(None);
        }
        let message = self.messages.pop_front();
        if let Some(next) = self.messages.front() {
            self.expect(ends, next.bytes)?;
        }
        Ok(message)
    }
}

/// Sockets at which a direction's bytes go in and come out.
#[derive(Clone, Copy)]
struct Ends<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
}

/// The ends of what a side writes: who has opened the connection is the first.
fn ends(connections: &Connections, connection: u32, direction: usize) -> Ends<'_> {
    let connection = &connections[connection];
    let first = connection.sender.as_fd();
    let second = connection.receiver.as_ref().expect("it is open").as_fd();
    if direction == 0 { Ends { from: first, to: second } } else { Ends { from: second, to: first } }
}

#[derive(Debug)]
struct Channel {
    joined: Joined,
    on: On,
    /// Data of its first end, and of the second.
    directions: [Direction; 2],
    /// Blocks asked for so far.
    asked: u64,
}

#[derive(Debug)]
struct Running {
    host: u32,
    program: Box<dyn Program>,
    /// By number of the channel: which it is, and which of its ends.
    channels: Vec<(u32, usize)>,
    /// Time of its next valid wake-up.
    armed: Option<Ps>,
    over: bool,
}

/// All programs.
#[derive(Debug, Default)]
pub struct Programs {
    all: Vec<Running>,
    channels: Vec<Channel>,
    due: BinaryHeap<Reverse<(Ps, u32)>>,
    aio: Option<Aio>,
    left: usize,
    actions: Actions,
    records: Vec<ExchangeRecord>,
    operations: Vec<OperationRecord>,
}

impl Programs {
    /// Takes programs, whose channels are still to come.
    pub fn new(placed: Vec<Placed>) -> Self {
        let running =
            |Placed { host, program, .. }| Running { host, program, channels: Vec::new(), armed: None, over: false };
        Self { all: placed.into_iter().map(running).collect(), ..Self::default() }
    }

    /// Adds a channel, whose number is how many there were.
    pub fn join(&mut self, joined: Joined, on: On) {
        let number = self.channels.len() as u32;
        // A program's channels come in the order of their numbers there.
        for (side, end) in joined.ends.into_iter().enumerate() {
            self.all[end].channels.push((number, side));
        }
        self.channels.push(Channel { joined, on, directions: Default::default(), asked: 0 });
    }

    /// Load begins.
    pub fn begin(&mut self, epoll: &Epoll) -> Result<()> {
        let depth = |channel: &Channel| match channel.joined.medium {
            Medium::Messages => 0,
            Medium::Nvme { depth, .. } => depth,
        };
        let transfers: u32 = self.channels.iter().map(depth).sum();
        if transfers > 0 {
            let aio = Aio::new(transfers, LARGEST.0 as usize).map_err(at("AIO"))?;
            epoll.watch(aio.told(), sys::READABLE, Key::Disks.encode()).map_err(at("AIO"))?;
            self.aio = Some(aio);
        }
        self.left = self.all.len();
        for number in 0..self.all.len() as u32 {
            self.arm(number);
            self.look_whether_over(number);
        }
        Ok(())
    }

    /// Earliest due time.
    pub fn next(&self) -> Option<Ps> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Programs that still begin something, or wait.
    pub fn left(&self) -> usize {
        self.left
    }

    /// True if there are any.
    pub fn any(&self) -> bool {
        !self.all.is_empty()
    }

    /// Exchanges that are not complete.
    pub fn open_now(&self) -> u64 {
        self.all.iter().map(|running| running.program.open()).sum()
    }

    /// Exchanges that are complete.
    pub fn take_records(&mut self) -> Vec<ExchangeRecord> {
        std::mem::take(&mut self.records)
    }

    /// Operations that are complete.
    pub fn take_operations(&mut self) -> Vec<OperationRecord> {
        std::mem::take(&mut self.operations)
    }

    /// Does what is due.
    pub fn play(&mut self, now: Ps, connections: &Connections) -> Result<()> {
        while let Some(Reverse((at, number))) = self.due.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.due.pop();
            if self.all[number as usize].armed == Some(at) {
                self.all[number as usize].armed = None;
                self.proceed(number, now, connections)?;
            }
        }
        Ok(())
    }

    fn arm(&mut self, number: u32) {
        let running = &mut self.all[number as usize];
        let Some(due) = running.program.wake() else { return };
        if running.armed.is_none_or(|armed| due < armed) {
            running.armed = Some(due);
            self.due.push(Reverse((due, number)));
        }
    }

    fn look_whether_over(&mut self, number: u32) {
        let running = &mut self.all[number as usize];
        if !running.over && running.program.is_over() {
            running.over = true;
            self.left -= 1;
        }
    }

    fn proceed(&mut self, number: u32, now: Ps, connections: &Connections) -> Result<()> {
        self.all[number as usize].program.proceed(now, &mut self.actions);
        self.act(number, connections)?;
        self.arm(number);
        self.look_whether_over(number);
        Ok(())
    }

    /// Does what a program wants.
    fn act(&mut self, number: u32, connections: &Connections) -> Result<()> {
        self.records.append(&mut self.actions.records);
        self.operations.append(&mut self.actions.operations);
        for (channel, message) in self.actions.sends.drain(..) {
            let (channel, side) = self.all[number as usize].channels[channel as usize];
            let at = &mut self.channels[channel as usize];
            match &mut at.on {
                On::Socket(connection) => at.directions[side].say(ends(connections, *connection, side), message)?,
                On::Disk(disk, under_way) => {
                    let place = under_way.iter().position(Option::is_none).unwrap_or(under_way.len());
                    under_way.resize(under_way.len().max(place + 1), None);
                    under_way[place] = Some(message);
                    let offset = u64::from(channel) * STRETCH + at.asked * LARGEST.0 % STRETCH;
                    at.asked += 1;
                    let key = u64::from(channel) << 32 | place as u64;
                    let aio = self.aio.as_ref().expect("there are disks");
                    let Block { bytes, write, .. } = Block::of(message);
                    aio.submit(disk.as_fd(), write, offset % DRIVE, bytes, key)
                        .map_err(|e| disk_error(&self.all, &at.joined, &e))?;
                }
            }
        }
        Ok(())
    }

    /// Transfers have ended.
    pub fn disks(&mut self, now: Ps, connections: &Connections) -> Result<()> {
        let Some(aio) = &self.aio else { return Ok(()) };
        let mut ended = Vec::new();
        aio.ended(&mut ended).map_err(at("disks"))?;
        for (key, result) in ended {
            let (number, place) = ((key >> 32) as u32, key as u32 as usize);
            let channel = &mut self.channels[number as usize];
            let On::Disk(_, under_way) = &mut channel.on else { continue };
            let first = under_way[place].take().expect("it was under way");
            let bytes = result.map_err(|e| disk_error(&self.all, &channel.joined, &e))?;
            let expected = Block::of(first).bytes;
            if bytes != expected {
                let error = format!("{bytes} of {expected} bytes came");
                return Err(disk_error(&self.all, &channel.joined, &error));
            }
            let Joined { ends: [program, _], numbers: [on, _], .. } = channel.joined;
            self.all[program].program.received(now, on, Block::end(first), &mut self.actions);
            self.act(program as u32, connections)?;
            self.proceed(program as u32, now, connections)?;
        }
        Ok(())
    }

    /// The socket of a channel's end has something to read, or room.
    pub fn socket(&mut self, number: u32, side: usize, now: Ps, connections: &Connections) -> Result<()> {
        // It is not there before its connection is.
        let Some(channel) = self.channels.get_mut(number as usize) else { return Ok(()) };
        let On::Socket(connection) = channel.on else { return Ok(()) };
        let other = 1 - side;
        channel.directions[side].send(ends(connections, connection, side))?;
        let (program, on) = (channel.joined.ends[side], channel.joined.numbers[side]);
        let mut any = false;
        while let Some(message) =
            self.channels[number as usize].directions[other].take(ends(connections, connection, other))?
        {
            any = true;
            self.all[program].program.received(now, on, message, &mut self.actions);
            self.act(program as u32, connections)?;
        }
        if any { self.proceed(program as u32, now, connections) } else { Ok(()) }
    }
}

/// An error with whose it is.
fn disk_error(all: &[Running], joined: &Joined, error: &dyn std::fmt::Display) -> String {
    let [client, server] = joined.ends.map(|end| address(all[end].host));
    format!("{client} reads and writes at {server}: {error}")
}
