//! Being told that something has changed.

use crate::sys;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// <linux/rtnetlink.h>
const RTNLGRP_LINK: u32 = 1;
const RTNLGRP_TC: u32 = 4;

/// Becomes readable when an interface or a queueing discipline changes, in the network namespace
/// it was opened in.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Hears of all changes from now on.
    ///
    /// # Errors
    /// The kernel has no route netlink, or no descriptor is left.
    pub fn open() -> io::Result<Self> {
        let fd = sys::open()?;
        sys::join(&fd, RTNLGRP_LINK)?;
        sys::join(&fd, RTNLGRP_TC)?;
        Ok(Self(fd))
    }

    /// Returns true if anything has changed since the last call. It does not tell what.
    pub fn changed(&mut self) -> bool {
        let mut changed = false;
        loop {
            match sys::receive_now(&self.0, &mut [0; 256]) {
                Ok(_) => changed = true,
                // More than the kernel kept for us.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => changed = true,
                Err(_) => return changed,
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
