//! The crate's only unsafe code: a few system calls that have no safe form.

#![expect(unsafe_code, reason = "only here")]

use crate::datapath::object::Shared;
use libbpf_rs::libbpf_sys::{self, bpf_attach_type, bpf_link_create_opts, bpf_prog_info};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};
use std::ptr;

/// Reads what an array has first.
///
/// # Errors
/// It is no array, or what the kernel answered.
pub fn first_value(array: &Shared) -> io::Result<Vec<u8>> {
    let mut value = vec![0; value_size(array)?];
    let key = 0_u32;
    // SAFETY: a key of an array, and as many bytes as its values have.
    let done = unsafe {
        libbpf_sys::bpf_map_lookup_elem(array.fd.as_raw_fd(), (&raw const key).cast(), value.as_mut_ptr().cast())
    };
    if done < 0 { Err(io::Error::from_raw_os_error(-done)) } else { Ok(value) }
}

/// Sets what an array has first.
///
/// # Errors
/// As for [`first_value`], or the value is of another size.
pub fn set_first_value(array: &Shared, value: &[u8]) -> io::Result<()> {
    if value.len() != value_size(array)? {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let key = 0_u32;
    // SAFETY: as there.
    let done = unsafe {
        libbpf_sys::bpf_map_update_elem(array.fd.as_raw_fd(), (&raw const key).cast(), value.as_ptr().cast(), 0)
    };
    if done < 0 { Err(io::Error::from_raw_os_error(-done)) } else { Ok(()) }
}

fn value_size(array: &Shared) -> io::Result<usize> {
    let info = array.info().map_err(io::Error::other)?;
    let is_array = info.type_ == libbpf_sys::BPF_MAP_TYPE_ARRAY;
    if is_array { Ok(info.value_size as usize) } else { Err(io::ErrorKind::InvalidInput.into()) }
}

/// Attaches a program to an interface by TCX, at a `place` such as `BPF_F_BEFORE` all others. It is attached while
/// the link is open.
///
/// # Errors
/// The kernel does not have it, or no such interface.
pub fn attach_tcx(program: BorrowedFd<'_>, index: u32, hook: bpf_attach_type, place: u32) -> io::Result<OwnedFd> {
    let sz = size_of::<bpf_link_create_opts>() as libbpf_sys::size_t;
    let options = bpf_link_create_opts { sz, flags: place, ..Default::default() };
    // SAFETY: options of the size they say, kept by nobody.
    let fd = unsafe { libbpf_sys::bpf_link_create(program.as_raw_fd(), index.cast_signed(), hook, &raw const options) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: it is new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The numbers of the programs that are attached to an interface by TCX, in their order.
///
/// # Errors
/// The kernel does not have it (`EINVAL`), or no privileges.
pub fn tcx_programs(index: u32, hook: bpf_attach_type) -> io::Result<Vec<u32>> {
    // Linux has room for 64.
    let mut ids = vec![0; 64];
    let mut count = ids.len() as u32;
    let (index, no_flags) = (index.cast_signed(), ptr::null_mut());
    // SAFETY: room for as many as `count` says; the kernel keeps no pointer.
    let done = unsafe { libbpf_sys::bpf_prog_query(index, hook, 0, no_flags, ids.as_mut_ptr(), &raw mut count) };
    if done < 0 {
        return Err(io::Error::from_raw_os_error(-done));
    }
    ids.truncate(count as usize);
    Ok(ids)
}

/// Asks the kernel about a program.
///
/// # Errors
/// It is none.
pub fn program_info(program: BorrowedFd<'_>) -> io::Result<bpf_prog_info> {
    // SAFETY: all zeros is a valid value, and asks for no more than what fits.
    let mut info: bpf_prog_info = unsafe { std::mem::zeroed() };
    let mut size = size_of_val(&info) as u32;
    // SAFETY: room for as much as `size` says; nobody keeps the pointers.
    let done = unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut size) };
    if done < 0 { Err(io::Error::from_raw_os_error(-done)) } else { Ok(info) }
}

/// Puts this thread into a new network namespace, which ends with it.
///
/// # Errors
/// No privileges.
pub fn leave_network() -> io::Result<()> {
    // SAFETY: descriptors stay shared with the other threads.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?)
}

/// A descriptor that the program before left open in this process; closed if that ends once more.
///
/// # Errors
/// There is none of that number.
pub fn inherited(number: i32) -> io::Result<OwnedFd> {
    keep_open(number, false)?;
    // SAFETY: it is open, and nobody else here knows of it: the caller asks once, at the start.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Sets whether a descriptor stays open when this process goes over to another program.
///
/// # Errors
/// There is none of that number.
pub fn keep_open(number: i32, keep: bool) -> io::Result<()> {
    // SAFETY: only the flag of a number is changed; one that is not open is refused.
    let fd = unsafe { BorrowedFd::borrow_raw(number) };
    let flags = if keep { rustix::io::FdFlags::empty() } else { rustix::io::FdFlags::CLOEXEC };
    Ok(rustix::io::fcntl_setfd(fd, flags)?)
}

/// Has a socket send its datagrams without a checksum, and take such: probes have a tag, and are changed on
/// their way out. With IPv4 nobody refuses them.
///
/// # Errors
/// The kernel does not have it.
pub fn no_checksum(socket: &UdpSocket) -> io::Result<()> {
    const UDP_NO_CHECK6_TX: libc::c_int = 101;
    const UDP_NO_CHECK6_RX: libc::c_int = 102;
    let options: &[_] = match socket.local_addr()? {
        SocketAddr::V4(_) => &[(libc::SOL_SOCKET, libc::SO_NO_CHECK)],
        SocketAddr::V6(_) => &[(libc::IPPROTO_UDP, UDP_NO_CHECK6_TX), (libc::IPPROTO_UDP, UDP_NO_CHECK6_RX)],
    };
    let on: libc::c_int = 1;
    let size = size_of_val(&on) as libc::socklen_t;
    for (level, option) in options {
        // SAFETY: a valid pointer and its size; nobody keeps it.
        if unsafe { libc::setsockopt(socket.as_raw_fd(), *level, *option, (&raw const on).cast(), size) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A datagram and when the kernel saw it, in nanoseconds of CLOCK_REALTIME.
pub struct Stamped {
    /// Bytes, of which the buffer may have had no room for all.
    pub length: usize,
    /// Who sent it.
    pub from: Option<SocketAddr>,
    /// When it came, or left.
    pub at: Option<u64>,
}

/// Has the kernel stamp, in software, what a socket sends and receives. What was sent comes back
/// with its stamp, as [`receive_stamped`] says.
///
/// # Errors
/// The kernel does not have it.
pub fn stamp_by_kernel(socket: &UdpSocket) -> io::Result<()> {
    let flags =
        libc::SOF_TIMESTAMPING_TX_SOFTWARE | libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    // SAFETY: a valid pointer and its size; nobody keeps it.
    let done = unsafe {
        let size = size_of_val(&flags) as libc::socklen_t;
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPING, (&raw const flags).cast(), size)
    };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The next datagram that came; or, with `departures`, the next that left, as a whole packet
/// with its headers.
///
/// # Errors
/// There is none, or the socket is broken.
pub fn receive_stamped(socket: &UdpSocket, buffer: &mut [u8], departures: bool) -> io::Result<Stamped> {
    // Room for the stamps, and for what the error queue says beside them.
    let mut control = [0u64; 32];
    // SAFETY: all zeros is a valid value for both.
    let (mut name, mut message): (libc::sockaddr_storage, libc::msghdr) = unsafe { std::mem::zeroed() };
    let mut part = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    message.msg_name = (&raw mut name).cast();
    message.msg_namelen = size_of_val(&name) as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control) as _;
    let flags = libc::MSG_DONTWAIT | if departures { libc::MSG_ERRQUEUE } else { 0 };
    // SAFETY: all that the message points to lives until the call returns.
    let length = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    let mut at = None;
    // SAFETY: the kernel has filled the control messages in; each is read within its length.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(&raw const message);
        while let Some(h) = header.as_ref() {
            if h.cmsg_level == libc::SOL_SOCKET
                && h.cmsg_type == libc::SCM_TIMESTAMPING
                && h.cmsg_len >= libc::CMSG_LEN(size_of::<libc::timespec>() as u32) as usize
            {
                let time: libc::timespec = std::ptr::read_unaligned(libc::CMSG_DATA(header).cast());
                at = Some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64).filter(|at| *at > 0);
            }
            header = libc::CMSG_NXTHDR(&raw const message, header);
        }
    }
    Ok(Stamped { length, from: address_in(&name), at })
}

fn address_in(name: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let at: *const libc::sockaddr_storage = name;
    match libc::c_int::from(name.ss_family) {
        libc::AF_INET => {
            // SAFETY: the family says what it is, and the storage is large enough for it.
            let v4: libc::sockaddr_in = unsafe { std::ptr::read(at.cast()) };
            let address = std::net::Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
            Some((address, u16::from_be(v4.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the same.
            let v6: libc::sockaddr_in6 = unsafe { std::ptr::read(at.cast()) };
            Some((std::net::Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port)).into())
        }
        _ => None,
    }
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

/// Asks whether a network card cuts TCP segments up by itself.
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
