//! One end of a TLS connection: lines in, lines out, never waiting.

use rustls::pki_types::CertificateDer;
use rustls::{AlertDescription, Connection};
use serde::Serialize;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};

/// Bytes of lines that wait for a peer who does not read.
const MAX_WAITING: usize = 32 << 20;

/// One end of a connection.
pub struct Link {
    socket: TcpStream,
    tls: Connection,
    input: Vec<u8>,
    /// Where the search for the end of a line goes on.
    searched: usize,
    longest: usize,
}

impl Link {
    /// A client's or a server's end; `socket` may still be connecting. Lines of up to `longest`
    /// bytes are read.
    ///
    /// # Errors
    /// The socket is broken.
    pub fn new(socket: TcpStream, tls: impl Into<Connection>, longest: usize) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        let mut tls = tls.into();
        tls.set_buffer_limit(Some(MAX_WAITING));
        Ok(Self { socket, tls, input: Vec::new(), searched: 0, longest })
    }

    /// Whether there is something to write.
    #[must_use]
    pub fn wants_write(&self) -> bool {
        self.tls.wants_write()
    }

    /// The other end's certificate, once it has shown it.
    #[must_use]
    pub fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.peer_certificates().and_then(<[_]>::first)
    }

    /// Writes what can be written, and reads what has come.
    ///
    /// # Errors
    /// The connection is over. Lines that came before can still be taken.
    pub fn tend(&mut self) -> io::Result<()> {
        self.flush()?;
        loop {
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(e) if is_later(&e) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            }
            if let Err(e) = self.tls.process_new_packets() {
                // So that the other end learns why.
                let _ = self.flush();
                return Err(io::Error::new(io::ErrorKind::InvalidData, in_words(e)));
            }
            match self.tls.reader().read_to_end(&mut self.input) {
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(e) if is_later(&e) => {}
                Err(e) => return Err(e),
            }
            if self.end_of_line().is_none() && self.input.len() > self.longest {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is too long"));
            }
            // Whole lines are taken first; whoever sends on waits.
            if self.input.len() > self.longest {
                break;
            }
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(e) if is_later(&e) => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    fn end_of_line(&mut self) -> Option<usize> {
        let end = self.input[self.searched..].iter().position(|b| *b == b'\n').map(|at| self.searched + at);
        self.searched = end.unwrap_or(self.input.len());
        end
    }

    /// The next whole line that has come, without its end.
    pub fn line(&mut self) -> Option<Vec<u8>> {
        let end = self.end_of_line()?;
        let mut line: Vec<u8> = self.input.drain(..=end).collect();
        line.pop();
        self.searched = 0;
        Some(line)
    }

    /// Says something; it leaves with the next [`Self::tend`].
    ///
    /// # Errors
    /// The other end does not read.
    pub fn say(&mut self, what: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        self.tls.writer().write_all(&line)
    }
}

/// What a TLS error means here.
fn in_words(e: rustls::Error) -> String {
    match e {
        rustls::Error::InvalidCertificate(_) => {
            "is of another fleet: its certificate is not by the same authority".into()
        }
        rustls::Error::AlertReceived(AlertDescription::UnknownCA | AlertDescription::DecryptError) => {
            "does not accept the certificate: it is of another fleet".into()
        }
        e => e.to_string(),
    }
}

/// Nothing can be done now, also because the connection is not made yet.
fn is_later(e: &io::Error) -> bool {
    matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected)
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
