//! How probes leave and what is seen of them: by the eBPF programs, or, where they are not loaded, by
//! a socket that the kernel stamps.

use super::keyring::Other;
use crate::abi::or_clock;
use crate::config::{Config, Key, Keys};
use crate::datapath::{Exchanges, Step};
use crate::sys::{receive_stamped, stamp_by_kernel};
use onramp_core::orprobe::{Kind, LEN, OrProbe};
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd as _, BorrowedFd};

/// Steps that wait to be taken, at most.
const MOST: usize = 65_536;
/// Longest headers before a probe: Ethernet with a tag, IPv6, UDP.
const HEADERS: usize = 18 + 40 + 8;

/// Sends probes, and gives what was seen of them.
pub struct Answers {
    us: IpAddr,
    port: u16,
    socket: UdpSocket,
    /// This host's clock as tests have it.
    test_clock: or_clock,
    keys: BTreeMap<IpAddr, Keys>,
    /// The programs, which stamp probes where data is stamped, and answer those of others. None: the
    /// kernel's socket layer stamps (`SO_TIMESTAMPING`, in software), by CLOCK_REALTIME.
    programs: Option<Exchanges>,
    ready: VecDeque<Step>,
}

impl Answers {
    /// Probes leave from `us`.
    ///
    /// # Errors
    /// The address is not this host's, the port is taken, or the kernel does not stamp.
    pub fn open(us: IpAddr, config: &Config, programs: Option<Exchanges>) -> io::Result<Self> {
        let test_clock = config.test_clock(crate::clock::now());
        Self::at(SocketAddr::new(us, config.port), test_clock, programs)
    }

    fn at(at: SocketAddr, test_clock: or_clock, programs: Option<Exchanges>) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("cannot send probes from {at}: {e}"));
        let socket = UdpSocket::bind(at).map_err(named)?;
        socket.set_nonblocking(true)?;
        crate::sys::no_checksum(&socket)?;
        if programs.is_none() {
            stamp_by_kernel(&socket)?;
        }
        let (us, port) = (at.ip(), socket.local_addr()?.port());
        Ok(Self { us, port, socket, test_clock, keys: BTreeMap::new(), programs, ready: VecDeque::new() })
    }

    /// Whose probes are answered, and who answers.
    pub fn set_members(&mut self, members: &[Other]) {
        self.keys.clear();
        self.change_members(members, &[]);
    }

    /// Forgets those that are `gone`, then adds or replaces `members`, which may be among them.
    pub fn change_members(&mut self, members: &[Other], gone: &[IpAddr]) {
        gone.iter().for_each(|address| _ = self.keys.remove(address));
        self.keys.extend(members.iter().map(|m| (m.address, m.keys)));
    }

    /// Descriptors to wait for: others' probes want an answer at once, if that is done here.
    pub fn waits(&self) -> Option<BorrowedFd<'_>> {
        self.programs.is_none().then(|| self.socket.as_fd())
    }

    /// The next step of an exchange.
    pub fn take(&mut self) -> Option<Step> {
        self.ready.pop_front()
    }

    /// Sends a probe; returns the time that names it.
    pub fn send(&self, pair: u32, second: bool, to: IpAddr) -> u64 {
        let probe = OrProbe { pair, second, sent: self.now(), ..OrProbe::default() };
        self.post(probe, to);
        probe.sent
    }

    /// Sends with a tag. What is not sent does not come back.
    fn post(&self, mut probe: OrProbe, to: IpAddr) {
        let Some(keys) = self.keys.get(&to) else { return };
        probe.tag = probe.expected_tag(self.us, to, &keys.sign.0);
        let _ = self.socket.send_to(&probe.encode(), SocketAddr::new(to, self.port));
    }

    /// Reading of this host's clock at a time of CLOCK_MONOTONIC.
    fn reading(&self, monotonic: u64) -> u64 {
        monotonic.wrapping_add_signed(self.test_clock.at(monotonic))
    }

    fn now(&self) -> u64 {
        self.reading(crate::clock::now())
    }

    fn saw(&mut self, step: Step) {
        if self.ready.len() < MOST {
            self.ready.push_back(step);
        }
    }

    /// Takes in what was seen, and does what that calls for.
    pub fn tend(&mut self) {
        if self.programs.is_none() {
            self.take_departures();
            self.take_arrivals();
        }
        for _ in 0..MOST {
            let Some(step) = self.programs.as_mut().and_then(Exchanges::take) else { return };
            if !step.came && step.probe.kind == Kind::Answer {
                self.post(OrProbe { kind: Kind::FollowUp, returned: step.at, ..step.probe }, step.peer);
            } else {
                self.saw(step);
            }
        }
    }

    /// The kernel's times are those of CLOCK_REALTIME.
    fn of_kernel(&self) -> impl Fn(u64) -> u64 + use<> {
        let real = clock_gettime(ClockId::Realtime);
        let real = real.tv_sec as u64 * 1_000_000_000 + real.tv_nsec as u64;
        let (behind, clock) = (real.wrapping_sub(crate::clock::now()), self.test_clock);
        move |at: u64| {
            let monotonic = at.wrapping_sub(behind);
            monotonic.wrapping_add_signed(clock.at(monotonic))
        }
    }

    fn take_departures(&mut self) {
        let reading = self.of_kernel();
        let mut bytes = [0; HEADERS + LEN];
        for _ in 0..MOST {
            let Ok(got) = receive_stamped(&self.socket, &mut bytes, true) else { break };
            let sent = in_packet(&bytes[..got.length.min(bytes.len())], self.us.is_ipv4());
            if let (Some((peer, probe)), Some(at)) = (sent, got.at)
                && probe.kind == Kind::Probe
            {
                self.saw(Step { peer, at: reading(at), came: false, probe });
            }
        }
    }

    fn take_arrivals(&mut self) {
        let reading = self.of_kernel();
        let mut bytes = [0; HEADERS + LEN];
        for _ in 0..MOST {
            let Ok(got) = receive_stamped(&self.socket, &mut bytes, false) else { break };
            let (Some(from), Some(at)) = (got.from, got.at) else { continue };
            let payload: Option<&[u8; LEN]> = bytes[..got.length.min(bytes.len())].try_into().ok();
            let Some(probe) = payload.and_then(OrProbe::decode) else { continue };
            let peer = from.ip().to_canonical();
            let is_by = |key: &Key| probe.expected_tag(peer, self.us, &key.0) == probe.tag;
            let known = self.keys.get(&peer).is_some_and(|keys| [keys.sign, keys.accept].iter().any(is_by));
            if !known || from.port() != self.port {
                continue;
            }
            let at = reading(at);
            if probe.kind == Kind::Probe {
                // The kernel's stamp would come later.
                let returned = self.now();
                self.post(OrProbe { kind: Kind::Answer, received: at, returned, ..probe }, peer);
            } else {
                self.saw(Step { peer, at, came: true, probe });
            }
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
    fn host(last: u8, other: u8, port: u16) -> Answers {
        let mut host = Answers::at(SocketAddr::from(([127, 0, 0, last], port)), NO_TEST, None).unwrap();
        host.keys = BTreeMap::from([(IpAddr::from([127, 0, 0, other]), Key([7; 16]).into())]);
        host
    }

    #[test]
    fn the_kernel_stamps_a_probe_and_its_answer() {
        let mut us = host(71, 72, 0);
        let port = us.port;
        let mut them = host(72, 71, port);
        let to = IpAddr::from([127, 0, 0, 72]);
        // The kernel begins to stamp arrivals a little after it was asked to.
        std::thread::sleep(std::time::Duration::from_millis(200));
        let named = [false, true].map(|second| us.send(5, second, to));
        // Neither has a tag of the two.
        us.socket.send_to(&OrProbe { pair: 6, ..OrProbe::default() }.encode(), (to, port)).unwrap();
        us.socket.send_to(b"no probe", (to, port)).unwrap();
        them.tend();
        us.tend();
        let seen: Vec<_> = std::mem::take(&mut us.ready).into();
        let what: Vec<_> = seen.iter().map(|s| (s.came, s.probe.pair, s.probe.second)).collect();
        assert_eq!(what, [(false, 5, false), (false, 5, true), (false, 6, false), (true, 5, false), (true, 5, true)]);
        assert!(seen.iter().all(|step| step.peer == to));
        for (left, came, named) in [(&seen[0], &seen[3], named[0]), (&seen[1], &seen[4], named[1])] {
            assert_eq!((left.probe.sent, came.probe.sent, came.probe.kind), (named, named, Kind::Answer));
            assert!(named <= left.at && left.at <= came.probe.received, "{left:?} {came:?}");
            assert!(came.probe.received <= came.probe.returned && came.probe.returned <= came.at, "{came:?}");
        }
        assert!(them.ready.is_empty());
    }

    #[test]
    fn who_is_replaced_keeps_a_key_and_who_is_gone_has_none() {
        let mut host = host(73, 74, 0);
        let member = |last: u8, key: u8| Other {
            address: [127, 0, 0, last].into(),
            aliases: vec![],
            keys: Key([key; 16]).into(),
        };
        host.set_members(&[member(74, 1), member(75, 1)]);
        host.change_members(&[member(74, 2), member(76, 2)], &[74, 75, 76].map(|last| [127, 0, 0, last].into()));
        let expected = [74, 76].map(|last| (IpAddr::from([127, 0, 0, last]), Keys::from(Key([2; 16]))));
        assert_eq!(host.keys, BTreeMap::from(expected));
    }

    #[test]
    fn a_packet_that_is_too_short_has_no_probe() {
        for length in 0..LEN + 12 {
            assert!(in_packet(&vec![0x11; length], true).is_none());
        }
    }
}
