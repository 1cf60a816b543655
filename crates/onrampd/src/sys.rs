//! The crate's only unsafe code: that the structures shared with the programs are plain
//! data, and a few system calls that have no safe form.

#![expect(unsafe_code, reason = "only here")]

use crate::abi::{onramp_stamp, or_address, or_config, or_flow, or_path, or_peer, or_stamp_key, or_tuple};
use aya::Pod;
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd as _;

macro_rules! plain {
    ($($name:ident),+ $(,)?) => {
        $(
            // SAFETY: repr(C) and Copy, integers only, so every bit pattern is valid; and the
            // header spells all padding out as fields.
            unsafe impl Pod for $name {}
        )+
    };
}

plain!(or_address, or_config, or_flow, or_path, or_peer, or_stamp_key, or_tuple, onramp_stamp);

/// Puts this thread into a new network namespace, which ends with it.
///
/// # Errors
/// No privileges.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: descriptors stay shared with the other threads.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// Has a socket send its datagrams without a checksum: probes have a tag, and are changed on
/// their way out.
///
/// # Errors
/// The kernel does not have it.
pub fn send_no_checksum(socket: &UdpSocket) -> io::Result<()> {
    const UDP_NO_CHECK6_TX: libc::c_int = 101;
    let (level, option) = match socket.local_addr()? {
        SocketAddr::V4(_) => (libc::SOL_SOCKET, libc::SO_NO_CHECK),
        SocketAddr::V6(_) => (libc::IPPROTO_UDP, UDP_NO_CHECK6_TX),
    };
    let on: libc::c_int = 1;
    // SAFETY: a valid pointer and its size; nobody keeps it.
    let done = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const on).cast(), size_of_val(&on) as libc::socklen_t)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The largest error of the system clock in microseconds, if something keeps it synchronised.
///
/// # Errors
/// The kernel does not tell.
pub fn clock_error() -> io::Result<Option<u64>> {
    // SAFETY: all zeros is a valid value, and asks for nothing to be set.
    let mut clock: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: a valid pointer, kept by nobody.
    if unsafe { libc::adjtimex(&raw mut clock) } < 0 {
        return Err(io::Error::last_os_error());
    }
    let synchronised = clock.status & libc::STA_UNSYNC == 0;
    Ok(synchronised.then_some(u64::try_from(clock.maxerror).unwrap_or(u64::MAX)))
}

/// Whether a network card cuts TCP segments up by itself.
///
/// # Errors
/// There is no such interface, or it does not tell.
pub fn cuts_segments(interface: &str) -> io::Result<bool> {
    const SIOCETHTOOL: libc::c_ulong = 0x8946;
    const ETHTOOL_GTSO: u32 = 0x1e;
    // struct ethtool_value: command, data.
    let mut value = [ETHTOOL_GTSO, 0u32];
    // SAFETY: all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    let name = interface.as_bytes();
    if name.len() >= request.ifr_name.len() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_data = value.as_mut_ptr().cast();
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: the request is one of this kind; the kernel writes to `value` and keeps no pointer.
    if unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(value[1] != 0)
}
