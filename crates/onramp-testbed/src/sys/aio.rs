//! Reads and writes of disks that do not wait (io_submit(2)), past the page cache.

use super::checked;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Alignment of addresses of memory and of disks.
const ALIGNED: usize = 4096;

/// Opens a disk.
pub fn open_disk(path: &str) -> io::Result<OwnedFd> {
    Ok(rustix::fs::open(path, OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())?)
}

/// `struct iocb` of <linux/aio_abi.h>.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Control {
    data: u64,
    key: u32,
    flags_of_rw: i32,
    opcode: u16,
    priority: i16,
    fd: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

const READ: u16 = 0;
const WRITE: u16 = 1;
/// An eventfd is told of the end.
const TOLD: u32 = 1;

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    result2: i64,
}

/// Transfers under way. What is read is looked at by nobody, so that all of them share their memory.
#[derive(Debug)]
pub struct Aio {
    context: libc::c_ulong,
    told: OwnedFd,
    memory: *mut libc::c_void,
    room: usize,
}

impl Aio {
    /// For so many transfers at a time, of so many bytes at most.
    pub fn new(transfers: u32, bytes: usize) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: the pointer is to `context`, which is 0 as it has to be.
        checked(unsafe { libc::syscall(libc::SYS_io_setup, libc::c_long::from(transfers), &raw mut context) })?;
        let told = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let room = bytes.next_multiple_of(ALIGNED);
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place.
        let memory = unsafe { mmap_anonymous(std::ptr::null_mut(), room, access, MapFlags::PRIVATE)? };
        Ok(Self { context, told, memory, room })
    }

    /// Becomes readable when transfers have ended.
    pub fn told(&self) -> BorrowedFd<'_> {
        self.told.as_fd()
    }

    /// Begins to read or write `bytes` at `offset`; its end will be told with `key`.
    pub fn submit(&self, disk: BorrowedFd<'_>, write: bool, offset: u64, bytes: u64, key: u64) -> io::Result<()> {
        assert!(bytes as usize <= self.room, "there is room for {} bytes", self.room);
        let mut control = Control {
            data: key,
            opcode: if write { WRITE } else { READ },
            fd: disk.as_raw_fd() as u32,
            buffer: self.memory as u64,
            bytes,
            offset: offset as i64,
            flags: TOLD,
            event: self.told.as_raw_fd() as u32,
            ..Control::default()
        };
        let mut list = [&raw mut control];
        // SAFETY: the list has one pointer, to `control`, which the kernel copies; the buffer lives as long as
        // `self`, which waits for all transfers before it is dropped.
        let done = unsafe { libc::syscall(libc::SYS_io_submit, self.context, 1 as libc::c_long, list.as_mut_ptr()) };
        checked(done).map(drop)
    }

    /// Adds the keys of transfers that have ended, and the bytes or the error of each, to `ended`.
    pub fn ended(&self, ended: &mut Vec<(u64, io::Result<u64>)>) -> io::Result<()> {
        // That it has nothing to say is no error.
        let _ = rustix::io::read(&self.told, &mut [0; 8]);
        let mut events = [Event::default(); 64];
        loop {
            let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            let (least, most) = (0 as libc::c_long, events.len() as libc::c_long);
            // SAFETY: the pointers are to `events`, of which there are `most`, and to `now`.
            let got = checked(unsafe {
                libc::syscall(libc::SYS_io_getevents, self.context, least, most, events.as_mut_ptr(), &raw const now)
            })? as usize;
            ended.extend(events[..got].iter().map(|event| {
                let result = if event.result < 0 {
                    Err(io::Error::from_raw_os_error(-event.result as i32))
                } else {
                    Ok(event.result as u64)
                };
                (event.data, result)
            }));
            if got < events.len() {
                return Ok(());
            }
        }
    }
}

impl Drop for Aio {
    fn drop(&mut self) {
        // SAFETY: the call waits for the end of all transfers, which use the memory until then.
        unsafe {
            libc::syscall(libc::SYS_io_destroy, self.context);
            let _ = munmap(self.memory, self.room);
        }
    }
}
