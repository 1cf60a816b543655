//! Exchanges on a session's two connections, one each way: what a message's arrival has its host do.
//!
//! Packets carry numbers of bytes, not the bytes. What a stream of bytes says, its two ends know from a list
//! that they share: nobody looks at a message before its last byte has arrived.

use super::{Hosting, Pair};
use crate::host::{Io, Timer};
use crate::network::router::{Header, Router};
use crate::units::{MS, Ps};
use crate::workload::exchange::{Client, Exchange, Session};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The kernel's NVMe over TCP hands over data page by page.
const PAGE: u64 = 4096;

/// Disks are there some time before they are read, and their connections have said so.
const AGE: Ps = 20 * MS;

/// A message on its way, which ends before byte `end` of its stream.
#[derive(Clone, Copy, Debug)]
struct Message {
    end: u64,
    part: u8,
    of: Exchange,
}

/// The messages of a stream that have not been read.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream(Arc<Mutex<VecDeque<Message>>>);

impl Stream {
    fn messages(&self) -> MutexGuard<'_, VecDeque<Message>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the first one, if its last byte is before `read`.
    fn take(&self, read: u64) -> Option<Message> {
        let mut messages = self.messages();
        messages.front().filter(|first| first.end <= read)?;
        messages.pop_front()
    }

    /// Where the first one ends.
    fn next_end(&self) -> Option<u64> {
        self.messages().front().map(|first| first.end)
    }
}

/// What a receiving end's application reads.
#[derive(Clone, Debug)]
pub(super) struct Heard {
    stream: Stream,
    party: u32,
    /// It reads what comes; else it waits for whole messages.
    at_once: bool,
}

impl Heard {
    /// The byte before which the application waits for what comes.
    pub fn expected(&self) -> u64 {
        if self.at_once { 0 } else { self.stream.next_end().unwrap_or(0) }
    }
}

/// One of a session's two hosts.
#[derive(Debug)]
pub(super) struct Party {
    /// What is due for it comes in this order.
    id: u64,
    session: Session,
    /// The connection on which it sends.
    connection: u32,
    said: Stream,
    /// Whoever asks.
    client: Option<Client>,
    /// What it answers, and when.
    work: VecDeque<(Ps, Exchange, u8)>,
    armed: Option<Ps>,
    /// It asks no more and has all answers, which was counted.
    over: bool,
}

impl Party {
    fn due(&self) -> Option<Ps> {
        let asks = self.client.as_ref().and_then(Client::due);
        let works = self.work.front().map(|(at, ..)| *at);
        asks.into_iter().chain(works).min()
    }

    /// The next answer, if its work is done.
    fn done_by(&mut self, now: Ps) -> Option<(Exchange, u8)> {
        self.work.front().filter(|(at, ..)| *at <= now)?;
        self.work.pop_front().map(|(_, of, part)| (of, part))
    }
}

/// A session's two streams, from the client and to it.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    asked: Stream,
    answered: Stream,
}

/// How a session's hosts are joined to the network.
#[derive(Clone, Copy, Debug)]
pub struct Joint {
    /// Of its client's data.
    pub pair: Pair,
    /// The number of its connections among those of the pair.
    pub number: u64,
    /// The client's NIC and the server's.
    pub nics: [u32; 2],
}

/// Connections of sessions are numbered from the last one down: flows have the first ones.
const LAST_NUMBER: u64 = 0x3fff;

impl Joint {
    fn of(self, client: bool) -> (Pair, u64, u32) {
        let Pair { src, dst, .. } = self.pair;
        let pair = if client { self.pair } else { Pair { src: dst, dst: src, ..self.pair } };
        (pair, LAST_NUMBER - self.number, self.nics[usize::from(!client)])
    }
}

impl<H: Header> Hosting<H> {
    /// Opens the receiving end of a session's client or server; its slot.
    pub fn open_party_end(&mut self, joint: Joint, session: &Session, client: bool, watch_owd: Option<u32>) -> u32 {
        let (.., nic) = joint.of(client);
        let (pair, number, _) = joint.of(!client);
        let end = self.open_end(pair, number, nic, watch_owd);
        if session.rules.is_storage() {
            self.ends[end].rx.has_spoken(AGE);
        }
        end
    }

    /// Opens the rest of it, now that the other's receiving end, in slot `peer`, is there: the slots of its connection
    /// and of what plays it.
    pub fn open_party(
        &mut self,
        joint: Joint,
        session: &Session,
        streams: &Streams,
        (own, peer): (u32, u32),
        zero: Option<Ps>,
    ) -> (u32, u32) {
        let client = zero.is_some();
        let (pair, number, nic) = joint.of(client);
        let connection = self.new_connection(pair, number, nic, peer, 0);
        let Streams { asked, answered } = streams.clone();
        let (said, heard) = if client { (asked, answered) } else { (answered, asked) };
        let id = u64::from(session.traffic) << 33 | u64::from(session.number) << 1 | u64::from(client);
        let party = self.parties.insert(Party {
            id,
            session: session.clone(),
            connection,
            said,
            client: zero.map(|zero| Client::new(session, zero)),
            work: VecDeque::new(),
            armed: None,
            over: false,
        });
        self.ends[own].heard = Some(Heard { stream: heard, party, at_once: session.rules.is_storage() });
        self.look_whether_over(party);
        (connection, party)
    }

    /// When a party is due first, and what it is woken by.
    pub fn first_due(&mut self, at: u32) -> Option<(Ps, Timer)> {
        let party = &mut self.parties[at];
        let due = party.due()?;
        party.armed = Some(due);
        Some((due, Timer::Party(party.id, at)))
    }

    /// Exchanges that are not over.
    pub fn exchanges_open(&self) -> u64 {
        self.parties
            .slots()
            .iter()
            .filter_map(|party| party.client.as_ref())
            .map(|client| u64::from(client.open()))
            .sum()
    }

    /// A party's time has come; its NIC, if it has something to send.
    pub(super) fn party_due<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32) -> Option<u32> {
        let party = &mut self.parties[at];
        if party.armed != Some(io.now) {
            return None;
        }
        party.armed = None;
        while let Some((of, part)) = self.parties[at].done_by(io.now) {
            self.say_message(io.now, at, of, part);
        }
        self.go_on(io, at)
    }

    /// The application of a receiving end has read up to some byte; its host's NIC, if it has something to send.
    pub(super) fn messages_came<R: Router<Header = H>>(
        &mut self,
        io: &mut Io<'_, R>,
        heard: &Heard,
        read: u64,
    ) -> Option<u32> {
        let at = heard.party;
        let mut any = false;
        while let Some(Message { part, of, .. }) = heard.stream.take(read) {
            any = true;
            let party = &mut self.parties[at];
            let next = part + 1;
            let service = party.session.rules.service;
            if of.message(next).is_none() {
                let client = party.client.as_mut().expect("the last message is for the client");
                client.ended(io.now);
                self.exchanges.push((io.now, party.session.record(&of, io.now)));
            } else if of.is_served_before(next) && service > 0 {
                party.work.push_back((io.now + service, of, next));
            } else {
                self.say_message(io.now, at, of, next);
            }
        }
        if any { self.go_on(io, at) } else { None }
    }

    /// Asks what may be asked, sends what is written, and waits for what is due next.
    fn go_on<R: Router<Header = H>>(&mut self, io: &mut Io<'_, R>, at: u32) -> Option<u32> {
        while let Some(client) = &mut self.parties[at].client
            && client.due().is_some_and(|due| due <= io.now)
        {
            let exchange = client.begin(io.now);
            self.say_message(io.now, at, exchange, 0);
        }
        let party = &mut self.parties[at];
        if let Some(due) = party.due()
            && party.armed.is_none_or(|armed| due < armed)
        {
            party.armed = Some(due);
            io.events.timer(due, Timer::Party(party.id, at));
        }
        let connection = party.connection;
        self.look_whether_over(at);
        Some(self.pump(io, connection))
    }

    fn look_whether_over(&mut self, at: u32) {
        let party = &mut self.parties[at];
        if !party.over && party.client.as_ref().is_some_and(Client::is_over) {
            party.over = true;
            self.clients_over += 1;
        }
    }

    /// Writes a message.
    fn say_message(&mut self, now: Ps, at: u32, of: Exchange, part: u8) {
        let connection = self.parties[at].connection;
        let bytes = of.message(part).expect("it has this message");
        let end = self.connections[connection].tx.written() + bytes;
        self.parties[at].said.messages().push_back(Message { end, part, of });
        let mss = u64::from(self.rules.kind(self.connections[connection].pair.transport).params.mss);
        let mut written = 0;
        let storage = self.parties[at].session.rules.is_storage();
        if storage {
            // Full packets leave as their pages are handed over (MSG_MORE), if they may.
            for pages in 1..bytes / PAGE {
                let full = pages * PAGE / mss * mss;
                self.write(now, connection, full - written);
                self.fill(now, connection);
                written = full;
            }
        }
        self.write(now, connection, bytes - written);
        if storage {
            self.connections[connection].tx.end_record();
        }
    }
}
