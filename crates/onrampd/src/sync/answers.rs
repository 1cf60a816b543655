//! Where a prober's exchanges come from: the eBPF programs, or, where they are not loaded, a
//! socket that the kernel stamps.

use crate::abi::or_clock;
use crate::config::Key;
use crate::datapath::Exchanges;
use crate::fleet::wire::Member;
use crate::sys::{receive_stamped, stamp_by_kernel};
use onramp_clock::Exchange;
use onramp_core::orprobe::{LEN, OrProbe};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};

/// Answers under way, or ready to be taken, at most.
const MOST: usize = 65_536;
/// Longest headers before a probe: Ethernet with a tag, IPv6, UDP.
const HEADERS: usize = 18 + 40 + 8;

/// Sends probes, and gives what came back.
pub enum Answers {
    /// The programs stamp probes where data is stamped, and answer those of others.
    Programs(Exchanges),
    /// The kernel's socket layer does: `SO_TIMESTAMPING`, in software.
    Kernel(Box<KernelStamps>),
}

impl Answers {
    /// The next exchange, with the address of the peer.
    pub fn take(&mut self) -> Option<(IpAddr, Exchange)> {
        match self {
            Self::Programs(exchanges) => exchanges.take(),
            Self::Kernel(stamps) => stamps.ready.pop_front(),
        }
    }

    /// Makes a probe ready to leave.
    pub fn seal(&mut self, probe: OrProbe, to: IpAddr) -> OrProbe {
        match self {
            // Tag and times are written where it leaves.
            Self::Programs(_) => probe,
            Self::Kernel(stamps) => stamps.seal(probe, to),
        }
    }

    /// Takes in what the socket has, if that is not the programs' work.
    pub fn tend(&mut self, socket: &UdpSocket) {
        if let Self::Kernel(stamps) = self {
            stamps.tend(socket);
        }
    }

    /// What to wait for: others' probes want an answer at once.
    pub fn waits<'a>(&self, socket: &'a UdpSocket) -> Option<BorrowedFd<'a>> {
        matches!(self, Self::Kernel(_)).then(|| socket.as_fd())
    }

    /// Whose probes are answered.
    pub fn set_members(&mut self, members: &[Member]) {
        if let Self::Kernel(stamps) = self {
            stamps.keys = members.iter().map(|m| (m.address, m.key)).collect();
        }
    }
}

/// Probes whose stamps the kernel takes, by CLOCK_REALTIME.
pub struct KernelStamps {
    us: IpAddr,
    port: u16,
    /// This host's clock as tests have it.
    test_clock: or_clock,
    keys: BTreeMap<IpAddr, Key>,
    /// When probes left: the kernel tells after the fact.
    left: BTreeMap<(IpAddr, u32, bool), u64>,
    ready: VecDeque<(IpAddr, Exchange)>,
}

impl KernelStamps {
    /// Has the kernel stamp what `socket` sends and receives.
    ///
    /// # Errors
    /// The kernel does not.
    pub fn new(socket: &UdpSocket, us: IpAddr, port: u16, test_clock: or_clock) -> io::Result<Self> {
        stamp_by_kernel(socket)?;
        Ok(Self { us, port, test_clock, keys: BTreeMap::new(), left: BTreeMap::new(), ready: VecDeque::new() })
    }

    /// What this host's clock shows at a time of CLOCK_MONOTONIC.
    fn reading(&self, monotonic: u64) -> u64 {
        monotonic.wrapping_add_signed(self.test_clock.at(monotonic))
    }

    fn now(&self) -> u64 {
        self.reading(crate::clock::now())
    }

    fn seal(&self, mut probe: OrProbe, to: IpAddr) -> OrProbe {
        let Some(key) = self.keys.get(&to) else { return probe };
        // The kernel's stamp comes later, and is the one that counts here.
        *(if probe.answer { &mut probe.returned } else { &mut probe.sent }) = self.now();
        probe.tag = probe.expected_tag(self.us, to, &key.0);
        probe
    }

    fn tend(&mut self, socket: &UdpSocket) {
        let real = clock_gettime(ClockId::Realtime);
        let real = real.tv_sec as u64 * 1_000_000_000 + real.tv_nsec as u64;
        let behind = real.wrapping_sub(crate::clock::now());
        let reading = |s: &Self, at: u64| s.reading(at.wrapping_sub(behind));
        let mut bytes = [0; HEADERS + LEN];
        // Departures first: an answer is of no use without that of its probe.
        for _ in 0..MOST {
            let Ok(got) = receive_stamped(socket, &mut bytes, true) else { break };
            let sent = in_packet(&bytes[..got.length.min(bytes.len())], self.us.is_ipv4());
            if let (Some((to, probe)), Some(at)) = (sent, got.at)
                && !probe.answer
                && self.left.len() < MOST
            {
                self.left.insert((to, probe.pair, probe.second), reading(self, at));
            }
        }
        for _ in 0..MOST {
            let Ok(got) = receive_stamped(socket, &mut bytes, false) else { break };
            let (Some(from), Some(at)) = (got.from, got.at) else { continue };
            let payload: Option<&[u8; LEN]> = bytes[..got.length.min(bytes.len())].try_into().ok();
            let Some(probe) = payload.and_then(OrProbe::decode) else { continue };
            let peer = from.ip().to_canonical();
            let known = self.keys.get(&peer).is_some_and(|k| probe.expected_tag(peer, self.us, &k.0) == probe.tag);
            if !known || from.port() != self.port {
                continue;
            }
            if probe.answer {
                self.answered(peer, &probe, reading(self, at));
            } else {
                let answer = OrProbe { answer: true, received: reading(self, at), ..probe };
                let _ = socket.send_to(&self.seal(answer, peer).encode(), SocketAddr::new(peer, self.port));
            }
        }
        // Those of probes that were lost.
        while self.left.len() > MOST / 2 {
            self.left.pop_first();
        }
    }

    fn answered(&mut self, peer: IpAddr, probe: &OrProbe, came_back: u64) {
        let sent = self.left.remove(&(peer, probe.pair, probe.second)).unwrap_or(probe.sent);
        let OrProbe { pair, second, received, returned, .. } = *probe;
        if self.ready.len() < MOST {
            self.ready.push_back((peer, Exchange { pair, second, sent, received, returned, came_back }));
        }
    }
}

/// The probe that a whole packet ends with, and whom the packet goes to.
fn in_packet(packet: &[u8], v4: bool) -> Option<(IpAddr, OrProbe)> {
    const UDP: usize = 8;
    let (headers, payload) = packet.split_last_chunk::<LEN>()?;
    let ip = headers.get(..headers.len().checked_sub(UDP)?)?;
    let to = match v4 {
        true => IpAddr::from(*ip.last_chunk::<4>()?),
        false => IpAddr::from(*ip.last_chunk::<16>()?),
    };
    Some((to, OrProbe::decode(payload)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TEST: or_clock = or_clock { base: 0, offset: 0, drift: 0 };

    /// Two addresses of the loopback, each with a socket that the kernel stamps.
    fn host(last: u8, other: u8, port: u16) -> (UdpSocket, KernelStamps) {
        let us = IpAddr::from([127, 0, 0, last]);
        let socket = UdpSocket::bind(SocketAddr::new(us, port)).unwrap();
        socket.set_nonblocking(true).unwrap();
        let mut stamps = KernelStamps::new(&socket, us, socket.local_addr().unwrap().port(), NO_TEST).unwrap();
        stamps.keys = BTreeMap::from([(IpAddr::from([127, 0, 0, other]), Key([7; 16]))]);
        (socket, stamps)
    }

    #[test]
    fn the_kernel_stamps_a_probe_and_its_answer() {
        let (ours, mut us) = host(71, 72, 0);
        let port = us.port;
        let (theirs, mut them) = host(72, 71, port);
        let to = IpAddr::from([127, 0, 0, 72]);
        // The kernel begins to stamp arrivals a little after it was asked to.
        std::thread::sleep(std::time::Duration::from_millis(200));
        let before = us.now();
        for second in [false, true] {
            let probe = us.seal(OrProbe { pair: 5, second, ..OrProbe::default() }, to);
            ours.send_to(&probe.encode(), (to, port)).unwrap();
        }
        // Neither has a tag of the two.
        ours.send_to(&OrProbe { pair: 6, ..OrProbe::default() }.encode(), (to, port)).unwrap();
        ours.send_to(b"no probe", (to, port)).unwrap();
        them.tend(&theirs);
        us.tend(&ours);
        let seen: Vec<_> = std::mem::take(&mut us.ready).into();
        assert_eq!(
            seen.iter().map(|(peer, e)| (*peer, e.pair, e.second)).collect::<Vec<_>>(),
            [(to, 5, false), (to, 5, true)]
        );
        for (_, e) in seen {
            assert!(before <= e.sent && e.sent <= e.received && e.received <= e.returned, "{e:?}");
            assert!(e.returned <= e.came_back && e.came_back <= us.now(), "{e:?}");
        }
        let left: Vec<_> = us.left.into_keys().collect();
        assert_eq!(left, [(to, 6, false)], "departures were the kernel's; one was not answered");
    }

    #[test]
    fn a_packet_that_is_too_short_has_no_probe() {
        for length in 0..LEN + 12 {
            assert!(in_packet(&vec![0x11; length], true).is_none());
        }
    }
}
