//! The system calls of a netlink socket.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

fn checked(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A route netlink socket bound to an address the kernel chooses, which reports
/// errors in words.
pub fn open() -> io::Result<OwnedFd> {
    // SAFETY: no pointers are passed; the descriptor is new and owned by nobody else.
    let fd = unsafe {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        let fd = checked(libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_ROUTE) as isize)?;
        OwnedFd::from_raw_fd(fd as i32)
    };
    for (option, value) in [(libc::NETLINK_EXT_ACK, 1i32), (libc::NETLINK_CAP_ACK, 1)] {
        // SAFETY: the pointer and its length are those of `value`.
        let done = unsafe { libc::setsockopt(fd.as_raw_fd(), libc::SOL_NETLINK, option, (&raw const value).cast(), 4) };
        checked(done as isize)?;
    }
    Ok(fd)
}

/// Has the socket hear of a group's changes.
pub fn join(fd: &OwnedFd, group: u32) -> io::Result<()> {
    // SAFETY: the pointer and its length are those of `group`.
    let done = unsafe {
        let option = libc::NETLINK_ADD_MEMBERSHIP;
        libc::setsockopt(fd.as_raw_fd(), libc::SOL_NETLINK, option, (&raw const group).cast(), 4)
    };
    checked(done as isize).map(drop)
}

/// Sends one datagram to the kernel.
pub fn send(fd: &OwnedFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the pointer and its length are those of `bytes`.
    checked(unsafe { libc::send(fd.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) }).map(drop)
}

/// Receives one datagram into `buffer`; its length.
pub fn receive(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    receive_with(fd, buffer, 0)
}

/// The same if one is there, else `WouldBlock`.
pub fn receive_now(fd: &OwnedFd, buffer: &mut [u8]) -> io::Result<usize> {
    receive_with(fd, buffer, libc::MSG_DONTWAIT)
}

fn receive_with(fd: &OwnedFd, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    loop {
        // SAFETY: the pointer and its length are those of `buffer`.
        let got = checked(unsafe { libc::recv(fd.as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) });
        match got {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            got => return got,
        }
    }
}
