//! A host's packets as the kernel sees them, in a ring of memory that it shares: reading them takes
//! no system call, and they leave no copy behind that would have TCP account for them.

use super::{checked, set_option_bytes};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes for a packet: the kernel's description takes 66 of them.
const FRAME: usize = 256;
/// Bytes that are kept of a packet; what is longer is cut.
const KEPT: u32 = 128;
const BLOCK: usize = 64 << 10;
/// For 32,768 packets, which are far more than come between two looks.
const BLOCKS: usize = 128;
/// Where the kernel writes who sent it: after its own description.
const ADDRESS: usize = 32;

/// A packet that passed the edge of a host.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'a> {
    /// When, by the clock of the day, in nanoseconds.
    pub at_ns: u64,
    /// It leaves.
    pub leaves: bool,
    /// Bytes with the Ethernet header.
    pub length: u32,
    /// The first of them.
    pub bytes: &'a [u8],
}

/// See the module.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    memory: *mut u8,
    next: usize,
}

impl Ring {
    /// All packets of an interface of the present namespace, from now on.
    pub fn new(interface: u32) -> io::Result<Self> {
        // Without a protocol it hears nothing until it is bound.
        let fd = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let version = libc::tpacket_versions::TPACKET_V2 as i32;
        set_option_bytes(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        let room = libc::tpacket_req {
            tp_block_size: BLOCK as u32,
            tp_block_nr: BLOCKS as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (BLOCKS * BLOCK / FRAME) as u32,
        };
        set_option_bytes(fd.as_fd(), libc::SOL_PACKET, libc::PACKET_RX_RING, &room)?;
        // A program that has one instruction: so many bytes are kept of every packet.
        let mut keep = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: KEPT };
        let program = libc::sock_fprog { len: 1, filter: &raw mut keep };
        set_option_bytes(fd.as_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place; the length is that of the ring.
        let memory = unsafe { mmap(std::ptr::null_mut(), BLOCKS * BLOCK, access, MapFlags::SHARED, &fd, 0)? };
        let ring = Self { fd, memory: memory.cast(), next: 0 };
        // SAFETY: an address of this kind may be all zeros.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface as i32;
        let length = size_of_val(&address) as u32;
        // SAFETY: the pointer and its length are those of `address`.
        checked(unsafe { libc::bind(ring.fd.as_raw_fd(), (&raw const address).cast(), length) }.into())?;
        Ok(ring)
    }

    /// Hands on what has passed since the last call, in order.
    pub fn take(&mut self, mut each: impl FnMut(Passed<'_>)) {
        loop {
            // SAFETY: `next` is below the number of frames, so the frame is inside the mapping; its
            // first word is only accessed as an atomic, by the kernel and here.
            let (frame, status) = unsafe {
                let frame = self.memory.add(self.next * FRAME);
                (frame, &*frame.cast::<AtomicU32>())
            };
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return;
            }
            // SAFETY: the frame is the process's until its status is changed.
            let bytes = unsafe { std::slice::from_raw_parts(frame, FRAME) };
            each(passed(bytes));
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
            self.next = (self.next + 1) % (BLOCKS * BLOCK / FRAME);
        }
    }

    /// Packets since the last call that found no room.
    pub fn lost(&self) -> io::Result<u32> {
        let mut counts = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&counts) as u32;
        // SAFETY: the pointers are to `counts` and `length`, which is its size.
        let done = unsafe {
            let (counts, length) = ((&raw mut counts).cast(), &raw mut length);
            libc::getsockopt(self.fd.as_raw_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS, counts, length)
        };
        checked(done.into())?;
        Ok(counts.tp_drops)
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this ring's, and no slice of it outlives `take`.
        let _ = unsafe { munmap(self.memory.cast(), BLOCKS * BLOCK) };
    }
}

/// Reads a frame of the ring: `struct tpacket2_hdr`, `struct sockaddr_ll`, the packet.
fn passed(frame: &[u8]) -> Passed<'_> {
    let word = |at: usize| u32::from_ne_bytes(frame[at..at + 4].try_into().expect("the length is 4"));
    let start = usize::from(u16::from_ne_bytes([frame[12], frame[13]])).min(FRAME);
    let end = (start + word(8) as usize).min(FRAME);
    Passed {
        at_ns: u64::from(word(16)) * 1_000_000_000 + u64::from(word(20)),
        leaves: frame[ADDRESS + 10] == libc::PACKET_OUTGOING,
        length: word(4),
        bytes: &frame[start..end],
    }
}
