//! Requests and their answers.

use crate::message::{self, Message, u32_at};
use crate::sys;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

/// Request that the kernel refused, and its reason.
#[derive(Debug)]
pub struct Error {
    what: String,
    source: io::Error,
    /// The kernel's own words, if it had any.
    detail: String,
}

/// Of a request.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// The error number (`ENODEV`, …), if the kernel gave one.
    pub fn errno(&self) -> Option<i32> {
        self.source.raw_os_error()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.source)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A connection to the kernel, in the network namespace it was opened in.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    sequence: u32,
    buffer: Vec<u8>,
}

impl Socket {
    /// Opens one in the current network namespace.
    ///
    /// # Errors
    /// If the kernel has no route netlink, or no descriptor is left.
    pub fn open() -> io::Result<Self> {
        Ok(Self { fd: sys::open()?, sequence: 0, buffer: vec![0; 64 << 10] })
    }

    /// Has something done.
    ///
    /// # Errors
    /// The kernel's answer, if it refuses.
    pub fn request(&mut self, request: Message) -> Result<()> {
        self.ask(request.or_flags(libc::NLM_F_ACK), &mut |_| {})
    }

    /// Asks for one or (with `NLM_F_DUMP`) many messages: what follows their headers.
    ///
    /// # Errors
    /// The kernel's answer, if it refuses.
    pub fn query(&mut self, request: Message) -> Result<Vec<Vec<u8>>> {
        let mut answers = Vec::new();
        self.ask(request.or_flags(libc::NLM_F_ACK), &mut |payload| answers.push(payload.to_vec()))?;
        Ok(answers)
    }

    fn ask(&mut self, mut request: Message, answer: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.sequence += 1;
        let what = std::mem::take(&mut request.what);
        let failed = |source| Error { what: what.clone(), source, detail: String::new() };
        sys::send(&self.fd, request.numbered(self.sequence)).map_err(failed)?;
        loop {
            let length = sys::receive(&self.fd, &mut self.buffer).map_err(failed)?;
            for message in message::received(&self.buffer[..length]) {
                // What an earlier request that failed left behind.
                if message.sequence != self.sequence {
                    continue;
                }
                match i32::from(message.kind) {
                    libc::NLMSG_ERROR | libc::NLMSG_DONE => {
                        return outcome(message.payload)
                            .map_err(|(e, detail)| Error { detail, ..failed(io::Error::from_raw_os_error(e)) });
                    }
                    _ => answer(message.payload),
                }
            }
        }
    }
}

/// Content of an acknowledgement: nothing, or an error number and a text.
fn outcome(payload: &[u8]) -> std::result::Result<(), (i32, String)> {
    const NLMSGERR_ATTR_MSG: u16 = 1;
    let code = u32_at(payload, 0).map_or(0, |code| code as i32);
    if code == 0 {
        return Ok(());
    }
    // Of the request only its header comes back (NETLINK_CAP_ACK), then attributes.
    let rest = payload.get(4 + message::HEADER..).unwrap_or_default();
    Err((code.wrapping_neg(), message::attr(rest, NLMSGERR_ATTR_MSG).map(message::text).unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::made_up::reply;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_reply_is_an_error_or_none(bytes in reply()) {
            let _ = outcome(&bytes);
        }
    }
}
