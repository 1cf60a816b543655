//! Persistent TCP connections between hosts, in pools by pair of hosts.

use super::cluster::Cluster;
use super::{Result, at};
use crate::plan::{FIRST, LISTEN, address, host_at};
use crate::sys::{self, Epoll};
use rustix::event::epoll::EventFlags;
use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, OwnedFd};

/// Owner of a descriptor that is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A host's listening socket.
    Listener(u32),
    /// The sending end of a connection.
    Sender(u32),
    /// The receiving end of a connection.
    Receiver(u32),
    /// All disks.
    Disks,
}

impl Key {
    /// As `Epoll` takes it.
    pub fn encode(self) -> u64 {
        let (kind, number) = match self {
            Key::Listener(host) => (0, host),
            Key::Sender(connection) => (1, connection),
            Key::Receiver(connection) => (2, connection),
            Key::Disks => (3, 0),
        };
        kind << 32 | u64::from(number)
    }

    /// The key that `Epoll` reports.
    pub fn decode(encoded: u64) -> Self {
        let number = encoded as u32;
        match encoded >> 32 {
            0 => Key::Listener(number),
            1 => Key::Sender(number),
            2 => Key::Receiver(number),
            _ => Key::Disks,
        }
    }
}

const BOTH: EventFlags = sys::READABLE.union(sys::WRITABLE);

/// A connection; data goes one way, but for those of channels.
#[derive(Debug)]
pub struct Connection {
    pub src: u32,
    pub dst: u32,
    /// TCP port of the end that sends, and bytes that were written to it.
    pub port: u16,
    pub written: u64,
    /// The end that sends.
    pub sender: OwnedFd,
    /// The end that receives, once it was accepted.
    pub receiver: Option<OwnedFd>,
    /// The flow that uses it.
    pub flow: Option<u32>,
    /// Number of the channel that it carries, if data go both ways.
    pub channel: Option<u32>,
    /// Bytes that wake the receiver.
    pub wake_at: u32,
    /// Segments the sender had sent again, and its timeouts, when its last flow ended.
    pub retransmitted: u32,
    /// See `retransmitted`.
    pub timeouts: u16,
}

/// All connections.
#[derive(Debug)]
pub struct Connections {
    /// Hosts whose TCP paces by itself.
    paced: Vec<bool>,
    listeners: Vec<OwnedFd>,
    all: Vec<Connection>,
    idle: Vec<Vec<u32>>,
    /// By source host and port: connections that were not accepted yet.
    pending: BTreeMap<(u32, u16), u32>,
    next_port: Vec<u16>,
}

impl Connections {
    /// Has all hosts listen; TCP of those that are `paced` does it by itself.
    pub fn new(cluster: &Cluster, paced: Vec<bool>, epoll: &Epoll) -> Result<Self> {
        let hosts = paced.len();
        let listen = |host: usize| {
            sys::enter_network(cluster.nodes[host].namespace.as_fd())?;
            let socket = sys::tcp_socket(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, LISTEN))?;
            if paced[host] {
                sys::pace(socket.as_fd())?;
            }
            sys::listen(socket.as_fd())?;
            epoll.watch(socket.as_fd(), sys::READABLE, Key::Listener(host as u32).encode())?;
            Ok(socket)
        };
        let listeners: std::io::Result<_> = (0..hosts).map(listen).collect();
        Ok(Self {
            listeners: listeners.map_err(at("listening sockets"))?,
            all: Vec::new(),
            idle: vec![Vec::new(); hosts * hosts],
            pending: BTreeMap::new(),
            next_port: vec![FIRST; hosts],
            paced,
        })
    }

    /// Opens an idle connection.
    pub fn open(&mut self, src: u32, dst: u32, cluster: &Cluster, epoll: &Epoll) -> Result<()> {
        let number = self.connect((src, dst), None, cluster, epoll)?;
        self.idle_of(src, dst).push(number);
        Ok(())
    }

    /// Opens the connection of a channel, from its first end; its number.
    pub fn connect(
        &mut self,
        (src, dst): (u32, u32),
        channel: Option<u32>,
        cluster: &Cluster,
        epoll: &Epoll,
    ) -> Result<u32> {
        let place = format!("connection from {} to {}", address(src), address(dst));
        let port = self.next_port[src as usize];
        self.next_port[src as usize] =
            port.checked_add(1).ok_or_else(|| format!("{place}: its host has no port left"))?;
        let number = self.all.len() as u32;
        let both_ways = channel.is_some();
        let connect = || {
            sys::enter_network(cluster.nodes[src as usize].namespace.as_fd())?;
            let socket = sys::tcp_socket(SocketAddrV4::new(address(src), port))?;
            sys::no_delay(socket.as_fd())?;
            if self.paced[src as usize] {
                sys::pace(socket.as_fd())?;
            }
            sys::connect(socket.as_fd(), SocketAddrV4::new(address(dst), LISTEN))?;
            epoll.watch(socket.as_fd(), if both_ways { BOTH } else { sys::WRITABLE }, Key::Sender(number).encode())?;
            Ok(socket)
        };
        let sender = connect().map_err(|e: std::io::Error| format!("{place}: {e}"))?;
        self.pending.insert((src, port), number);
        self.all.push(Connection {
            src,
            dst,
            port,
            written: 0,
            sender,
            receiver: None,
            flow: None,
            channel,
            wake_at: 1,
            retransmitted: 0,
            timeouts: 0,
        });
        Ok(number)
    }

    /// Takes what has arrived at a host; the connections' numbers.
    pub fn accept(&mut self, host: u32, epoll: &Epoll) -> Result<Vec<u32>> {
        let mut accepted = Vec::new();
        let place = || format!("connections to {}", address(host));
        while let Some((socket, from)) = sys::accept(self.listeners[host as usize].as_fd()).map_err(at(place()))? {
            // Whoever else connects, such as a port scanner under `exec`, is none of ours.
            let Some(number) = self.pending.remove(&(host_at(*from.ip()), from.port())) else { continue };
            let connection = &mut self.all[number as usize];
            let interest = match connection.channel {
                Some(_) => {
                    sys::no_delay(socket.as_fd()).map_err(at(place()))?;
                    BOTH
                }
                None => sys::READABLE,
            };
            epoll.watch(socket.as_fd(), interest, Key::Receiver(number).encode()).map_err(at(place()))?;
            connection.receiver = Some(socket);
            accepted.push(number);
        }
        Ok(accepted)
    }

    /// A connection that is not open at both ends yet.
    pub fn pending(&self) -> Option<u32> {
        self.pending.values().next().copied()
    }

    /// Reason why a connection does not open.
    pub fn not_open(&self, number: u32) -> String {
        let Connection { src, dst, sender, .. } = &self.all[number as usize];
        let waits = match sys::tcp_info(sender.as_fd()) {
            Ok(info) if info.opening => {
                format!("its opening was sent {} times, without an answer", info.retransmitted + 1)
            }
            Ok(_) => "it is answered, but not accepted".into(),
            Err(e) => e.to_string(),
        };
        let [src, dst] = [src, dst].map(|host| address(*host));
        format!("the connection from {src} to {dst}, the {}th, does not open: {waits}", self.all.len())
    }

    /// Takes an idle connection, the last one used of those whose sender knows that all has arrived: until then a
    /// program could not know that it is idle.
    ///
    /// # Errors
    /// The kernel's.
    pub fn take(&mut self, src: u32, dst: u32) -> io::Result<Option<u32>> {
        for at in (0..self.idle_of(src, dst).len()).rev() {
            let number = self.idle_of(src, dst)[at];
            if sys::unacknowledged(self[number].sender.as_fd())? == 0 {
                return Ok(Some(self.idle_of(src, dst).remove(at)));
            }
        }
        Ok(None)
    }

    /// Gives a connection back.
    pub fn give_back(&mut self, number: u32) {
        let Connection { src, dst, .. } = self.all[number as usize];
        self.idle_of(src, dst).push(number);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    fn idle_of(&mut self, src: u32, dst: u32) -> &mut Vec<u32> {
        let hosts = self.listeners.len();
        &mut self.idle[src as usize * hosts + dst as usize]
    }
}

impl std::ops::Index<u32> for Connections {
    type Output = Connection;

    fn index(&self, number: u32) -> &Connection {
        &self.all[number as usize]
    }
}

impl std::ops::IndexMut<u32> for Connections {
    fn index_mut(&mut self, number: u32) -> &mut Connection {
        &mut self.all[number as usize]
    }
}
