//! Clients and servers: RPCs on sockets, and blocks of disks.

use super::connections::{Connections, Key};
use super::load::PORTION;
use super::nvme::DRIVE;
use super::{Result, at};
use crate::plan::address;
use crate::sys::{self, Aio, Epoll};
use onramp_sim::units::Ps;
use onramp_sim::workload::exchange::{Client, Exchange, ExchangeRecord, Session};
use onramp_sim::workload::storage::LARGEST;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Each session has a stretch of so many bytes of its drive, and goes round in it.
const STRETCH: u64 = 1 << 30;

/// What a session runs on.
#[derive(Debug)]
pub enum On {
    /// The number of a connection.
    Socket(u32),
    /// A disk.
    Disk(OwnedFd),
}

/// One direction of an RPC's connection.
#[derive(Debug, Default)]
struct Direction {
    /// Messages that have not been read, and what is missing of the first one.
    messages: VecDeque<(Exchange, u8)>,
    missing: u64,
    /// Bytes that the socket had no room for.
    unsent: u64,
    wake_at: u32,
}

impl Direction {
    /// Writes a message.
    fn say(&mut self, ends: Ends<'_>, exchange: Exchange, part: u8) -> Result<()> {
        let bytes = exchange.message(part).expect("it has this message");
        self.messages.push_back((exchange, part));
        if self.messages.len() == 1 {
            self.expect(ends, bytes)?;
        }
        self.unsent += bytes;
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
    fn take(&mut self, ends: Ends<'_>) -> Result<Option<(Exchange, u8)>> {
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
        if let Some(&(exchange, part)) = self.messages.front() {
            self.expect(ends, exchange.message(part).expect("it has this message"))?;
        }
        Ok(message)
    }
}

/// Where a direction's bytes go in and come out.
#[derive(Clone, Copy)]
struct Ends<'a> {
    from: BorrowedFd<'a>,
    to: BorrowedFd<'a>,
}

/// The direction of the message `part` of an exchange, or of what a side writes: the client's is the first.
fn ends(connections: &Connections, connection: u32, direction: usize) -> Ends<'_> {
    let connection = &connections[connection];
    let client = connection.sender.as_fd();
    let server = connection.receiver.as_ref().expect("it is open").as_fd();
    if direction == 0 { Ends { from: client, to: server } } else { Ends { from: server, to: client } }
}

#[derive(Debug)]
struct Party {
    session: Session,
    client: Client,
    on: On,
    /// From the client, and to it.
    directions: [Direction; 2],
    /// What the server works at, and until when.
    work: VecDeque<(Ps, Exchange, u8)>,
    /// What is asked of a disk, by place.
    under_way: Vec<Option<Exchange>>,
    /// When it is looked at next.
    armed: Option<Ps>,
    over: bool,
}

/// All sessions.
#[derive(Debug, Default)]
pub struct Exchanges {
    parties: Vec<Party>,
    due: BinaryHeap<Reverse<(Ps, u32)>>,
    aio: Option<Aio>,
    left: usize,
    records: Vec<ExchangeRecord>,
}

impl Exchanges {
    /// Adds a session, whose number is how many there were.
    pub fn add(&mut self, session: Session, on: On) {
        self.parties.push(Party {
            client: Client::new(&session, 0),
            session,
            on,
            directions: Default::default(),
            work: VecDeque::new(),
            under_way: Vec::new(),
            armed: None,
            over: false,
        });
    }

    /// Load begins.
    pub fn begin(&mut self, epoll: &Epoll) -> Result<()> {
        let disks = self.parties.iter().filter(|party| matches!(party.on, On::Disk(_)));
        let transfers: u32 = disks.map(|party| party.session.rules.depth()).sum();
        if transfers > 0 {
            let aio = Aio::new(transfers, LARGEST.0 as usize).map_err(at("AIO"))?;
            epoll.watch(aio.told(), sys::READABLE, Key::Disks.encode()).map_err(at("AIO"))?;
            self.aio = Some(aio);
        }
        self.left = self.parties.len();
        for number in 0..self.parties.len() as u32 {
            self.arm(number);
            self.look_whether_over(number);
        }
        Ok(())
    }

    /// When something is due.
    pub fn next(&self) -> Option<Ps> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// Clients that still ask, or wait.
    pub fn left(&self) -> usize {
        self.left
    }

    /// Whether there are any sessions.
    pub fn any(&self) -> bool {
        !self.parties.is_empty()
    }

    /// Exchanges that are not over.
    pub fn open_now(&self) -> u64 {
        self.parties.iter().map(|party| u64::from(party.client.open())).sum()
    }

    /// What is over.
    pub fn take_records(&mut self) -> Vec<ExchangeRecord> {
        std::mem::take(&mut self.records)
    }

    /// Does what is due.
    pub fn play(&mut self, now: Ps, connections: &Connections) -> Result<()> {
        while let Some(Reverse((at, number))) = self.due.peek().copied().filter(|Reverse((at, _))| *at <= now) {
            self.due.pop();
            if self.parties[number as usize].armed == Some(at) {
                self.parties[number as usize].armed = None;
                self.go_on(number, now, connections)?;
            }
        }
        Ok(())
    }

    fn arm(&mut self, number: u32) {
        let party = &mut self.parties[number as usize];
        let works = party.work.front().map(|(at, ..)| *at);
        let Some(due) = party.client.due().into_iter().chain(works).min() else { return };
        if party.armed.is_none_or(|armed| due < armed) {
            party.armed = Some(due);
            self.due.push(Reverse((due, number)));
        }
    }

    fn look_whether_over(&mut self, number: u32) {
        let party = &mut self.parties[number as usize];
        if !party.over && party.client.is_over() {
            party.over = true;
            self.left -= 1;
        }
    }

    /// Asks what may be asked, and answers what is done.
    fn go_on(&mut self, number: u32, now: Ps, connections: &Connections) -> Result<()> {
        let party = &mut self.parties[number as usize];
        while let Some((_, exchange, part)) = party.work.front().copied().filter(|(at, ..)| *at <= now) {
            party.work.pop_front();
            party.say(connections, exchange, part)?;
        }
        while let Some(due) = party.client.due().filter(|due| *due <= now) {
            let exchange = party.client.begin(due);
            let On::Disk(disk) = &party.on else {
                party.say(connections, exchange, 0)?;
                continue;
            };
            let place = party.under_way.iter().position(Option::is_none).unwrap_or(party.under_way.len());
            party.under_way.resize(party.under_way.len().max(place + 1), None);
            party.under_way[place] = Some(exchange);
            let offset = u64::from(number) * STRETCH + exchange.number * LARGEST.0 % STRETCH;
            let key = u64::from(number) << 32 | place as u64;
            let aio = self.aio.as_ref().expect("there are disks");
            aio.submit(disk.as_fd(), exchange.write, offset % DRIVE, exchange.bytes, key)
                .map_err(|e| party.session_name(&e))?;
        }
        self.arm(number);
        self.look_whether_over(number);
        Ok(())
    }

    /// Transfers have ended.
    pub fn disks(&mut self, now: Ps, connections: &Connections) -> Result<()> {
        let Some(aio) = &self.aio else { return Ok(()) };
        let mut ended = Vec::new();
        aio.ended(&mut ended).map_err(at("disks"))?;
        for (key, result) in ended {
            let (number, place) = ((key >> 32) as u32, key as u32 as usize);
            let party = &mut self.parties[number as usize];
            let exchange = party.under_way[place].take().expect("it was under way");
            let bytes = result.map_err(|e| party.session_name(&e))?;
            if bytes != exchange.bytes {
                return Err(party.session_name(&format!("{bytes} of {} bytes came", exchange.bytes)));
            }
            party.client.ended(now);
            self.records.push(party.session.record(&exchange, now));
            self.go_on(number, now, connections)?;
        }
        Ok(())
    }

    /// The socket of a session's client or server has something to read, or room.
    pub fn socket(&mut self, number: u32, at_server: bool, now: Ps, connections: &Connections) -> Result<()> {
        // It is not there before its connection is.
        let Some(party) = self.parties.get_mut(number as usize) else { return Ok(()) };
        let On::Socket(connection) = party.on else { return Ok(()) };
        let (out, back) = if at_server { (1, 0) } else { (0, 1) };
        party.directions[out].send(ends(connections, connection, out))?;
        let mut any = false;
        while let Some((exchange, part)) = party.directions[back].take(ends(connections, connection, back))? {
            any = true;
            let next = part + 1;
            let service = party.session.rules.service;
            if exchange.message(next).is_none() {
                party.client.ended(now);
                self.records.push(party.session.record(&exchange, now));
            } else if exchange.is_served_before(next) && service > 0 {
                party.work.push_back((now + service, exchange, next));
            } else {
                party.say(connections, exchange, next)?;
            }
        }
        if any { self.go_on(number, now, connections) } else { Ok(()) }
    }
}

impl Party {
    fn say(&mut self, connections: &Connections, exchange: Exchange, part: u8) -> Result<()> {
        let On::Socket(connection) = self.on else { return Ok(()) };
        let direction = usize::from(part) % 2;
        self.directions[direction].say(ends(connections, connection, direction), exchange, part)
    }

    /// An error with whose it is.
    fn session_name(&self, error: &dyn std::fmt::Display) -> String {
        format!("{} reads and writes at {}: {error}", address(self.session.client), address(self.session.server))
    }
}
