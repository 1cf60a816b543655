//! System calls that the standard library has no face for. All `unsafe` code of
//! the crate is here.

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, sockopt};
use rustix::process::{Pid, Resource, Rlimit, Signal};
use rustix::system::RebootCommand;
use rustix::thread::{CpuSet, LinkNameSpaceType};
use rustix::time::{ClockId, Timespec};
use std::ffi::CString;
use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
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

/// Mounts a file system.
pub fn mount(source: &str, target: &str, kind: &str, read_only: bool, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    let flags = if read_only { MountFlags::RDONLY } else { MountFlags::empty() };
    Ok(rustix::mount::mount(source, target, kind, flags, options.as_c_str())?)
}

/// Moves this process into a new network namespace.
pub fn new_network() -> io::Result<()> {
    // SAFETY: no pointers.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNET) }.into()).map(drop)
}

/// Moves this process into a network namespace.
pub fn enter_network(namespace: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::thread::move_into_link_name_space(namespace, Some(LinkNameSpaceType::Network))?)
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
    let limit = Rlimit { current: Some(count), maximum: Some(count) };
    Ok(rustix::process::setrlimit(Resource::Nofile, limit)?)
}

/// Switches the machine off, which ends a user-mode kernel.
pub fn power_off() -> ! {
    rustix::fs::sync();
    unreachable!("the machine is off: {:?}", rustix::system::reboot(RebootCommand::PowerOff));
}

/// Makes the child that `command` starts die with this process, and be the head
/// of a process group of its own.
pub fn tie(command: &mut Command) {
    command.process_group(0);
    // SAFETY: between fork and exec only calls that are safe in a signal handler.
    unsafe {
        command.pre_exec(end_with_parent);
    }
}

/// The processors this process may use.
pub fn processors() -> io::Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&cpu| set.is_set(cpu)).collect())
}

/// Lets this process and what it starts use one processor only.
pub fn stay_on(processor: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor);
    Ok(rustix::thread::sched_setaffinity(None, &set)?)
}

/// Makes this process end with the one that started it.
pub fn end_with_parent() -> io::Result<()> {
    Ok(rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?)
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
    let process = Pid::from_raw(process as i32).ok_or(Errno::SRCH)?;
    Ok(rustix::process::kill_process(process, Signal::TERM)?)
}

/// Kills all processes of a group.
pub fn kill_group(group: u32) {
    // That the group is gone is no error.
    let _ = Pid::from_raw(group as i32).map(|group| rustix::process::kill_process_group(group, Signal::KILL));
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

/// True after SIGINT or SIGTERM.
pub fn asked_to_stop() -> bool {
    STOP.load(std::sync::atomic::Ordering::Relaxed)
}

/// Waits until `fd` can be read, at most `span`.
pub fn readable(fd: BorrowedFd<'_>, span: Duration) -> bool {
    let span = Timespec::try_from(span).ok();
    poll(&mut [PollFd::new(&fd, PollFlags::IN)], span.as_ref()).is_ok_and(|ready| ready > 0)
}

/// Time since boot in nanoseconds.
pub fn now_ns() -> u64 {
    clock_ns(ClockId::Monotonic)
}

/// By how many nanoseconds the clock of the day is ahead of [`now_ns`].
pub fn day_ahead_ns() -> i64 {
    // A reading may take a nanosecond; the second one is in the middle of the others.
    let [before, day, after] =
        [ClockId::Monotonic, ClockId::Realtime, ClockId::Monotonic].map(|clock| clock_ns(clock) as i64);
    day - (before + after) / 2
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
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

/// A TCP socket of the present namespace, bound to `address`. It never waits.
pub fn tcp_socket(address: SocketAddrV4) -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let fd = rustix::net::socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&fd, true)?;
    rustix::net::bind(&fd, &address)?;
    Ok(fd)
}

/// Waits for connections on a socket.
pub fn listen(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::listen(fd, 65_535)?)
}

/// Begins to connect a socket.
pub fn connect(fd: BorrowedFd<'_>, to: SocketAddrV4) -> io::Result<()> {
    match rustix::net::connect(fd, &to) {
        Err(Errno::INPROGRESS) => Ok(()),
        done => Ok(done?),
    }
}

/// Takes the next connection, if there is one, and who made it.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<(OwnedFd, SocketAddrV4)>> {
    match rustix::net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
        Ok((fd, from)) => Ok(Some((fd, from.ok_or(Errno::AFNOSUPPORT)?.try_into()?))),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Payload of flows; its bytes do not matter.
static ZEROS: [u8; 1 << 20] = [0; 1 << 20];

/// Sends up to `count` bytes of zeros; how many the socket took.
pub fn send_zeros(fd: BorrowedFd<'_>, count: u64) -> io::Result<u64> {
    let count = (count as usize).min(ZEROS.len());
    match rustix::net::send(fd, &ZEROS[..count], SendFlags::NOSIGNAL) {
        Err(Errno::WOULDBLOCK) => Ok(0),
        sent => Ok(sent? as u64),
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

/// Bytes that were written and are not acknowledged (SIOCOUTQ).
pub fn unacknowledged(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the pointer is to `bytes`.
    checked(unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) }.into())?;
    Ok(bytes as u32)
}

/// Sends small writes at once.
pub fn no_delay(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(sockopt::set_tcp_nodelay(fd, true)?)
}

/// Has TCP pace a socket by itself, whatever the queue below: any limit does, and this one is never reached.
pub fn pace(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option_bytes(fd, libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE, &(1_u64 << 50))
}

/// Counters of the kernel for a connection.
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

/// Events that a descriptor is watched for.
pub const READABLE: EventFlags = EventFlags::IN;
/// See [`READABLE`].
pub const WRITABLE: EventFlags = EventFlags::OUT;

/// Waits for many descriptors.
pub struct Epoll {
    fd: OwnedFd,
    events: Vec<libc::epoll_event>,
}

impl Epoll {
    /// A new one.
    pub fn new() -> io::Result<Self> {
        let fd = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { fd, events: vec![libc::epoll_event { events: 0, u64: 0 }; 256] })
    }

    /// Reports `key` once whenever `fd` has become what is of `interest`.
    pub fn watch(&self, fd: BorrowedFd<'_>, interest: EventFlags, key: u64) -> io::Result<()> {
        Ok(epoll::add(&self.fd, fd, EventData::new_u64(key), interest | EventFlags::ET)?)
    }

    /// Waits at most `span_ns` nanoseconds for something to happen; the keys, and
    /// whether the descriptor has failed, go to `keys`.
    pub fn wait(&mut self, span_ns: u64, keys: &mut Vec<u64>) -> io::Result<()> {
        keys.clear();
        // By hand, for a span in nanoseconds whatever the C library is.
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

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::getsockname;
    use std::net::Ipv4Addr;
    use std::os::fd::AsFd;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn a_connection_carries_bytes_that_the_kernel_counts() {
        let own = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
        let name = |fd: &OwnedFd| SocketAddrV4::try_from(getsockname(fd).unwrap()).unwrap();
        let [listener, sender] = [(); 2].map(|()| tcp_socket(own).unwrap());
        listen(listener.as_fd()).unwrap();
        assert!(accept(listener.as_fd()).unwrap().is_none());
        let mut epoll = Epoll::new().unwrap();
        epoll.watch(listener.as_fd(), READABLE, 7).unwrap();
        connect(sender.as_fd(), name(&listener)).unwrap();
        let mut keys = Vec::new();
        epoll.wait(10 * SECOND, &mut keys).unwrap();
        assert_eq!(keys, [7]);
        let (receiver, from) = accept(listener.as_fd()).unwrap().unwrap();
        assert_eq!(from, name(&sender));

        let sender = sender.as_fd();
        no_delay(sender).and(pace(sender)).and(limit_unsent(sender, 1 << 20)).and(wake_at(sender, 1)).unwrap();
        assert_eq!(discard(receiver.as_fd(), 10).unwrap(), Some(0));
        assert_eq!(send_zeros(sender, 5000).unwrap(), 5000);
        let mut got = 0;
        while got < 5000 {
            assert!(readable(receiver.as_fd(), Duration::from_secs(10)));
            got += discard(receiver.as_fd(), 4000).unwrap().unwrap();
        }
        assert_eq!((got, tcp_info(receiver.as_fd()).unwrap().received), (5000, 5000));
    }

    #[test]
    fn epoll_waits_no_longer_than_it_is_told() {
        let (begin, mut keys) = (now_ns(), vec![1]);
        Epoll::new().unwrap().wait(50_000, &mut keys).unwrap();
        assert!(keys.is_empty() && now_ns() >= begin + 50_000);
    }

    #[test]
    fn a_process_may_stay_on_one_processor() {
        let last = *processors().unwrap().last().unwrap();
        stay_on(last).unwrap();
        assert_eq!(processors().unwrap(), [last]);
    }
}
