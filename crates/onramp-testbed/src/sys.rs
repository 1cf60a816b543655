//! System calls that the standard library has no face for. All `unsafe` code of
//! the crate is here.

use std::ffi::CString;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

mod aio;
mod ring;

pub use aio::{Aio, open_disk};
pub use ring::{Passed, Ring};

fn checked(result: i64) -> io::Result<i64> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

fn c_text(text: &str) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
}

/// Mounts a file system.
pub fn mount(source: &str, target: &str, kind: &str, read_only: bool, options: &str) -> io::Result<()> {
    let [source, target, kind, options] = [c_text(source)?, c_text(target)?, c_text(kind)?, c_text(options)?];
    let flags = if read_only { libc::MS_RDONLY } else { 0 };
    // SAFETY: all pointers are to texts that end with a zero and outlive the call.
    let done = unsafe { libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, options.as_ptr().cast()) };
    checked(done.into()).map(drop)
}

/// Moves this process into a new network namespace.
pub fn new_network() -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) }.into()).map(drop)
}

/// Moves this process into a network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::setns(namespace.as_raw_fd(), libc::CLONE_NEWNET) }.into()).map(drop)
}

/// Lets timers of this process end at the nanosecond: a process of a real-time
/// class has no timer slack.
pub fn be_exact() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the pointer is to `parameters`.
    checked(unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) }.into()).map(drop)
}

/// Raises the limit on open files.
pub fn allow_files(count: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: count, rlim_max: count };
    // SAFETY: the pointer is to `limit`.
    checked(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }.into()).map(drop)
}

/// Switches the machine off, which ends a user-mode kernel.
pub fn power_off() -> ! {
    // SAFETY: no pointers.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_POWER_OFF);
    }
    unreachable!("the machine is off");
}

/// Makes the child that `command` starts die with this process, and be the head
/// of a process group of its own.
pub fn tie(command: &mut Command) {
    command.process_group(0);
    // SAFETY: between fork and exec only calls that are safe in a signal handler.
    unsafe {
        command.pre_exec(|| checked(libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL).into()).map(drop));
    }
}

/// The processors this process may use.
pub fn processors() -> io::Result<Vec<usize>> {
    // SAFETY: a set of processors is plain bits, and the pointer and its length are those of `set`.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        checked(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set).into())?;
        set
    };
    // SAFETY: the numbers are below the set's size.
    Ok((0..libc::CPU_SETSIZE as usize).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &set) }).collect())
}

/// Lets this process and what it starts use one processor only.
pub fn stay_on(processor: usize) -> io::Result<()> {
    // SAFETY: as above; the number is one that `processors` gave.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    checked(done.into()).map(drop)
}

/// Makes this process end with the one that started it.
pub fn end_with_parent() -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) }.into()).map(drop)
}

/// Makes `fd` the descriptor number `number` of the child that `command` starts.
pub fn hand_over(command: &mut Command, fd: RawFd, number: RawFd) {
    // SAFETY: between fork and exec only calls that are safe in a signal handler.
    unsafe {
        command.pre_exec(move || checked(libc::dup2(fd, number).into()).map(drop));
    }
}

/// Makes `command` start in a network namespace.
pub fn start_in(command: &mut Command, namespace: RawFd) {
    // SAFETY: between fork and exec only calls that are safe in a signal handler.
    unsafe {
        command.pre_exec(move || checked(libc::setns(namespace, libc::CLONE_NEWNET).into()).map(drop));
    }
}

/// Asks a process to end.
pub fn terminate(process: u32) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::kill(process as i32, libc::SIGTERM) }.into()).map(drop)
}

/// Kills all processes of a group.
pub fn kill_group(group: u32) {
    // SAFETY: no pointers. That the group is gone is no error.
    unsafe { libc::kill(-(group as i32), libc::SIGKILL) };
}

/// Has SIGINT and SIGTERM remembered by [`asked_to_stop`] from now on.
pub fn watch_for_stop() {
    extern "C" fn note(_: i32) {
        STOP.store(true, std::sync::atomic::Ordering::Relaxed);
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only writes to an atomic.
        unsafe { libc::signal(signal, note as extern "C" fn(i32) as libc::sighandler_t) };
    }
}

static STOP: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// Whether SIGINT or SIGTERM came.
pub fn asked_to_stop() -> bool {
    STOP.load(std::sync::atomic::Ordering::Relaxed)
}

/// Waits until `fd` can be read, at most `span`.
pub fn readable(fd: BorrowedFd<'_>, span: Duration) -> bool {
    let mut one = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: the pointer is to one pollfd.
    unsafe { libc::poll(&raw mut one, 1, span.as_millis() as i32) > 0 }
}

/// Time since boot in nanoseconds.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// By how many nanoseconds the clock of the day is ahead of [`now_ns`].
pub fn day_ahead_ns() -> i64 {
    // A reading may take a nanosecond; the second one is in the middle of the others.
    let [before, day, after] =
        [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME, libc::CLOCK_MONOTONIC].map(|clock| clock_ns(clock) as i64);
    day - (before + after) / 2
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to `time`; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn set_option(fd: BorrowedFd<'_>, level: i32, option: i32, value: i32) -> io::Result<()> {
    set_option_bytes(fd, level, option, &value)
}

fn set_option_bytes<T>(fd: BorrowedFd<'_>, level: i32, option: i32, value: &T) -> io::Result<()> {
    let (pointer, length) = (std::ptr::from_ref(value).cast(), size_of::<T>() as u32);
    // SAFETY: the pointer and its length are those of `value`, which the kernel only reads.
    let done = unsafe { libc::setsockopt(fd.as_raw_fd(), level, option, pointer, length) };
    checked(done.into()).map(drop)
}

fn c_address(address: SocketAddrV4) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as u16,
        sin_port: address.port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes(address.ip().octets()) },
        sin_zero: [0; 8],
    }
}

const ADDRESS_LENGTH: u32 = size_of::<libc::sockaddr_in>() as u32;

/// A TCP socket of the present namespace, bound to `address`. It never waits.
pub fn tcp_socket(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_STREAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; the descriptor is new and owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(checked(libc::socket(libc::AF_INET, kind, 0).into())? as i32) };
    set_option(fd.as_fd(), libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    let address = c_address(address);
    // SAFETY: the pointer and its length are those of `address`.
    checked(unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), ADDRESS_LENGTH) }.into())?;
    Ok(fd)
}

/// Waits for connections on a socket.
pub fn listen(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::listen(fd.as_raw_fd(), 65_535) }.into()).map(drop)
}

/// Begins to connect a socket.
pub fn connect(fd: BorrowedFd<'_>, to: SocketAddrV4) -> io::Result<()> {
    let address = c_address(to);
    // SAFETY: the pointer and its length are those of `address`.
    let done = unsafe { libc::connect(fd.as_raw_fd(), (&raw const address).cast(), ADDRESS_LENGTH) };
    match checked(done.into()) {
        Err(e) if e.raw_os_error() == Some(libc::EINPROGRESS) => Ok(()),
        done => done.map(drop),
    }
}

/// Takes the next connection, if there is one, and who made it.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<(OwnedFd, SocketAddrV4)>> {
    let mut address = c_address(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));
    let mut length = ADDRESS_LENGTH;
    let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: the pointers are to `address` and `length`, which is its size.
    let got = unsafe { libc::accept4(listener.as_raw_fd(), (&raw mut address).cast(), &raw mut length, flags) };
    match checked(got.into()) {
        Ok(fd) => {
            let ip = Ipv4Addr::from(address.sin_addr.s_addr.to_ne_bytes());
            // SAFETY: the descriptor is new and owned by nobody else.
            let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
            Ok(Some((fd, SocketAddrV4::new(ip, u16::from_be(address.sin_port)))))
        }
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(None),
        Err(e) => Err(e),
    }
}

/// What is sent: the bytes do not matter.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Sends up to `count` bytes of zeros; how many the socket took.
pub fn send_zeros(fd: BorrowedFd<'_>, count: u64) -> io::Result<u64> {
    let count = (count as usize).min(ZEROS.len());
    // SAFETY: the pointer and the length are those of the beginning of `ZEROS`.
    let sent = unsafe { libc::send(fd.as_raw_fd(), ZEROS.as_ptr().cast(), count, libc::MSG_NOSIGNAL) };
    match checked(sent as i64) {
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(0),
        sent => sent.map(|n| n as u64),
    }
}

/// Takes up to `most` received bytes without looking at them; how many there
/// were. `None`: the other end has closed.
pub fn discard(fd: BorrowedFd<'_>, most: u64) -> io::Result<Option<u64>> {
    let flags = libc::MSG_TRUNC | libc::MSG_DONTWAIT;
    // SAFETY: with MSG_TRUNC a TCP socket writes nothing to the buffer.
    let got = unsafe { libc::recv(fd.as_raw_fd(), std::ptr::null_mut(), most as usize, flags) };
    match checked(got as i64) {
        Ok(0) => Ok(None),
        Ok(n) => Ok(Some(n as u64)),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => Ok(Some(0)),
        Err(e) => Err(e),
    }
}

/// Wakes the reader of a socket only when this many bytes have come.
pub fn wake_at(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes as i32)
}

/// Lets no more than this many bytes wait in a socket before they are first sent.
pub fn limit_unsent(fd: BorrowedFd<'_>, bytes: u32) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes as i32)
}

/// Sends small writes at once.
pub fn no_delay(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1)
}

/// Has TCP pace a socket by itself, whatever the queue below: any limit does, and this one is never reached.
pub fn pace(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option_bytes(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &(1_u64 << 50))
}

/// What the kernel counts for a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct TcpInfo {
    /// The connection's opening is not answered yet.
    pub opening: bool,
    /// Packets in its congestion window.
    pub cwnd: u32,
    /// Segments sent again.
    pub retransmitted: u32,
    /// Retransmission timeouts.
    pub timeouts: u16,
    /// Payload bytes received, in order.
    pub received: u64,
}

/// Asks for [`TcpInfo`].
pub fn tcp_info(fd: BorrowedFd<'_>) -> io::Result<TcpInfo> {
    // Offsets in struct tcp_info, which only ever grows at its end.
    const SND_CWND: usize = 80;
    const TOTAL_RETRANS: usize = 100;
    const BYTES_RECEIVED: usize = 128;
    const TOTAL_RTO: usize = 240;
    let mut bytes = [0u8; 256];
    let mut length = bytes.len() as u32;
    // SAFETY: the pointers are to `bytes` and `length`, which is its size.
    let done = unsafe {
        let (bytes, length) = (bytes.as_mut_ptr().cast(), &raw mut length);
        libc::getsockopt(fd.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, bytes, length)
    };
    checked(done.into())?;
    let take = |at: usize| <[u8; 8]>::try_from(&bytes[at..at + 8]).expect("the length is 8");
    const SYN_SENT: u8 = 2;
    Ok(TcpInfo {
        opening: bytes[0] == SYN_SENT,
        cwnd: u64::from_ne_bytes(take(SND_CWND)) as u32,
        retransmitted: u64::from_ne_bytes(take(TOTAL_RETRANS)) as u32,
        timeouts: u64::from_ne_bytes(take(TOTAL_RTO)) as u16,
        received: u64::from_ne_bytes(take(BYTES_RECEIVED)),
    })
}

/// What a descriptor is watched for.
pub const READABLE: i32 = libc::EPOLLIN;
/// See [`READABLE`].
pub const WRITABLE: i32 = libc::EPOLLOUT;

/// Waits for many descriptors.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor is new and owned by nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(checked(libc::epoll_create1(libc::EPOLL_CLOEXEC).into())? as i32) };
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; 256] })
    }

    /// Reports `key` once whenever `fd` has become what is of `interest`.
    pub fn watch(&self, fd: BorrowedFd<'_>, interest: i32, key: u64) -> io::Result<()> {
        let mut event = libc::epoll_event { events: (interest | libc::EPOLLET) as u32, u64: key };
        // SAFETY: the pointer is to `event`.
        let done = unsafe { libc::epoll_ctl(self.fd.as_raw_fd(), libc::EPOLL_CTL_ADD, fd.as_raw_fd(), &raw mut event) };
        checked(done.into()).map(drop)
    }

    /// Waits at most `span_ns` nanoseconds for something to happen; the keys, and
    /// whether the descriptor has failed, go to `keys`.
    pub fn wait(&mut self, span_ns: u64, keys: &mut Vec<u64>) -> io::Result<()> {
        keys.clear();
        let span =
            libc::timespec { tv_sec: (span_ns / 1_000_000_000) as i64, tv_nsec: (span_ns % 1_000_000_000) as i64 };
        // SAFETY: the pointers are to `events`, of which there are as many as said, and to `span`.
        let got = unsafe {
            libc::epoll_pwait2(
                self.fd.as_raw_fd(),
                self.events.as_mut_ptr(),
                self.events.len() as i32,
                &raw const span,
                std::ptr::null(),
            )
        };
        match checked(got.into()) {
            Ok(count) => keys.extend(self.events[..count as usize].iter().map(|e| e.u64)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}
